//! `tenure session run`: a command that has units for as long as it runs.

use std::collections::BTreeMap;
use std::io::{IsTerminal as _, Write as _};
use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;
use std::str::FromStr;
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use rustix::process::{Pid, Signal, kill_process_group};
use serde::Serialize;
use tempfile::NamedTempFile;
use tenure_core::model::name::Name;
use tenure_core::model::time::Span;
use tenure_node::api::client::{Client, ClientError};
use tenure_node::api::{Code, LeaseView, Request, SessionRequest, SessionView};
use tokio::process::{Child, Command};
use tokio::runtime;
use tokio::signal::unix::{Signal as Signals, SignalKind, signal};
use tokio::sync::oneshot;
use tokio::time::{Instant as Deadline, sleep_until};

use super::{Opened, Wanted, get};
use crate::Console;
use crate::error::Error;
use crate::live::args::Endpoint;
use crate::live::{ask, connect, duration, lease};
use crate::render;

/// The variable with the path of the file that says what a session has.
const VARIABLE: &str = "TENURE_SESSION";

/// The pause between two attempts to hold a session again.
const PAUSE: Duration = Duration::from_millis(200);

/// How long it is waited for leases to be back.
const BACK_WITHIN: Span = Span::from_secs(10);

/// The signals that are passed on to the command.
const PASSED_ON: [(SignalKind, Signal); 6] = [
    (SignalKind::interrupt(), Signal::INT),
    (SignalKind::terminate(), Signal::TERM),
    (SignalKind::hangup(), Signal::HUP),
    (SignalKind::quit(), Signal::QUIT),
    (SignalKind::user_defined1(), Signal::USR1),
    (SignalKind::user_defined2(), Signal::USR2),
];

/// Get units, run a command with them, and give them back.
#[derive(Args, Debug)]
pub(crate) struct RunArgs {
    #[command(flatten)]
    endpoint: Endpoint,
    #[command(flatten)]
    opened: Opened,
    #[command(flatten)]
    wanted: Wanted,
    /// How long the command has from SIGTERM to SIGKILL when its session is lost
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = Span::from_str)]
    grace: Span,
    /// The program and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<String>,
}

/// What a command finds in the file of its session.
#[derive(Serialize)]
struct Found<'a> {
    session: &'a str,
    manager: &'a str,
    units: Vec<FoundUnit<'a>>,
}

#[derive(Serialize)]
struct FoundUnit<'a> {
    unit: &'a str,
    #[serde(rename = "type")]
    resource: &'a str,
    lease: &'a str,
    end: &'a str,
    properties: &'a BTreeMap<String, String>,
}

/// Why a session is lost.
struct Loss {
    why: String,
    /// How long its sites surely keep its units, if they may do so no longer than the command has by `--grace`.
    within: Option<Span>,
}

/// How a command has ended.
enum Ended {
    Itself(ExitStatus),
    Lost(String),
}

pub(super) fn run(args: &RunArgs, console: &mut Console<'_>) -> Result<(), Error> {
    let (client, view) = hold(&args.endpoint, args.opened.request(None, None))?;
    let session = Name::new(&view.session)
        .map_err(|error| Error::Wrong(format!("`{}`: {error}", view.session)))?;
    let leases = get(&args.endpoint, (&session, None), &args.wanted)?;
    let file = written(&view, &leases)?;
    let (tell, lost) = oneshot::channel();
    let (endpoint, opened) = (args.endpoint.clone(), args.opened.clone());
    let holding = Holding { endpoint, opened, session: session.clone(), client };
    thread::spawn(move || {
        // Who does not listen any more has ended.
        let _ = tell.send(holding.until_lost());
    });
    let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
    let ended = runtime.block_on(supervise(args, &file, lost));
    runtime.shutdown_background();
    give_back(args, &session, console)?;
    match ended? {
        Ended::Lost(why) => Err(Error::SessionLost(why)),
        Ended::Itself(status) => ended_as(status),
    }
}

/// What was got, in a file that only its user reads.
fn written(view: &SessionView, leases: &[LeaseView]) -> Result<NamedTempFile, Error> {
    let units = leases.iter().flat_map(|lease| {
        lease.in_hand.iter().map(|unit| FoundUnit {
            unit: &unit.unit,
            resource: &lease.resource,
            lease: &lease.lease,
            end: &lease.end,
            properties: &unit.properties,
        })
    });
    let found = Found { session: &view.session, manager: &view.manager, units: units.collect() };
    let mut file = tempfile::Builder::new().prefix("tenure-session-").suffix(".json").tempfile()?;
    serde_json::to_writer_pretty(&mut file, &found).map_err(std::io::Error::from)?;
    file.write_all(b"\n")?;
    file.flush()?;
    Ok(file)
}

/// All leases go back. If nobody can be asked, they do when the deployment sees that this process has ended.
fn give_back(args: &RunArgs, session: &Name, console: &mut Console<'_>) -> Result<(), Error> {
    let close = Request::CloseSession { session: session.clone() };
    let closed: Result<Vec<LeaseView>, Error> = ask(&args.endpoint.data, &close);
    match closed {
        Ok(leases) => {
            leases.iter().for_each(|lease| back(&args.endpoint, lease));
            Ok(())
        }
        Err(Error::Client(ClientError::Refused(no))) if no.code == Code::SessionClosed => Ok(()),
        Err(error) => Ok(render::warning(
            &format!("{session} ends when it can be reached: {error}"),
            console,
        )?),
    }
}

/// Waits a moment for a lease to be back; it comes back without that.
fn back(endpoint: &Endpoint, view: &LeaseView) {
    let all = lease::name_of(view).and_then(|lease| {
        lease::until(&mut connect(&endpoint.data)?, &lease, BACK_WITHIN, lease::is_given_back)
    });
    // Who has gone on to the next thing does not need to know.
    drop(all);
}

fn ended_as(status: ExitStatus) -> Result<(), Error> {
    match (status.code(), status.signal()) {
        (Some(0), _) => Ok(()),
        (Some(code), _) => Err(Error::CommandEnded(u8::try_from(code).unwrap_or(1))),
        (None, signal) => {
            let signal = u8::try_from(signal.unwrap_or_default()).unwrap_or(127);
            Err(Error::CommandEnded(128_u8.saturating_add(signal)))
        }
    }
}

/// Runs the command until it ends, or has to because its session is lost.
async fn supervise(
    args: &RunArgs,
    file: &NamedTempFile,
    mut lost: oneshot::Receiver<Loss>,
) -> Result<Ended, Error> {
    let mut signals = PASSED_ON
        .iter()
        .map(|(kind, signal_of)| Ok((signal(*kind)?, *signal_of)))
        .collect::<std::io::Result<Vec<_>>>()?;
    let [program, arguments @ ..] = &args.command[..] else {
        return Err(Error::Wrong("there is no command".to_owned()));
    };
    let child = Command::new(program)
        .args(arguments)
        .env(VARIABLE, file.path())
        .process_group(0)
        .spawn()
        .map_err(|error| Error::Wrong(format!("{program}: {error}")))?;
    let mut group = Group::of(child)?;
    let mut why = None;
    loop {
        let kill_at = group.kill_at.unwrap_or_else(Deadline::now);
        tokio::select! {
            status = group.child.wait() => {
                return Ok(match why {
                    Some(why) => Ended::Lost(why),
                    None => Ended::Itself(status?),
                });
            }
            passed = next(&mut signals) => group.signal(passed),
            told = &mut lost, if why.is_none() => {
                let not_held = || Loss { why: "it is not held any more".to_owned(), within: None };
                let loss = told.unwrap_or_else(|_| not_held());
                why = Some(loss.why);
                group.signal(Signal::TERM);
                let grace = loss.within.map_or(args.grace, |within| within.min(args.grace));
                group.kill_at = Some(Deadline::now() + duration(grace));
            }
            () = sleep_until(kill_at), if group.kill_at.is_some() => {
                group.signal(Signal::KILL);
                group.kill_at = None;
            }
        }
    }
}

/// The next signal that comes.
async fn next(signals: &mut [(Signals, Signal)]) -> Signal {
    std::future::poll_fn(|context| {
        for (signal, passed) in signals.iter_mut() {
            if signal.poll_recv(context).is_ready() {
                return std::task::Poll::Ready(*passed);
            }
        }
        std::task::Poll::Pending
    })
    .await
}

/// The process group of the command.
struct Group {
    child: Child,
    pid: Pid,
    /// When it is killed.
    kill_at: Option<Deadline>,
}

impl Group {
    fn of(child: Child) -> Result<Self, Error> {
        let pid = child.id().and_then(|pid| Pid::from_raw(i32::try_from(pid).ok()?));
        let pid = pid.ok_or_else(|| Error::Wrong("the command has no process".to_owned()))?;
        // The terminal is the command's, as if a shell had started it. It may have stopped at it already.
        let input = std::io::stdin();
        if input.is_terminal() && rustix::termios::tcsetpgrp(&input, pid).is_ok() {
            let _ = kill_process_group(pid, Signal::CONT);
        }
        Ok(Self { child, pid, kill_at: None })
    }

    fn signal(&self, signal: Signal) {
        // It may have ended.
        let _ = kill_process_group(self.pid, signal);
    }
}

/// A connection that holds a session.
fn hold(endpoint: &Endpoint, request: SessionRequest) -> Result<(Client, SessionView), Error> {
    let mut client = connect(&endpoint.data)?;
    let view: SessionView = client.ask(&Request::HoldSession(request))?;
    Ok((client, view))
}

/// A session, and the connection that holds it.
struct Holding {
    endpoint: Endpoint,
    opened: Opened,
    session: Name,
    client: Client,
}

impl Holding {
    /// Holds it, again if the deployment was away for half of its keep-alive at most; why it is lost in the end.
    fn until_lost(mut self) -> Loss {
        loop {
            match self.client.next::<SessionView>(None) {
                Ok(_) => {}
                Err(ClientError::Refused(no)) => return Loss { why: no.to_string(), within: None },
                Err(error) => match self.again(&error) {
                    Ok(client) => self.client = client,
                    Err(loss) => return loss,
                },
            }
        }
    }

    /// Holds it again after its connection broke.
    ///
    /// The last heartbeat that its sites have answered may be a quarter of the keep-alive older than that. So of the
    /// keep-alive a half is there to come back in, and a quarter for the command to end in.
    fn again(&self, broke: &ClientError) -> Result<Client, Loss> {
        let keep_alive = self.opened.keep_alive;
        let until = Instant::now() + duration(keep_alive.part(2));
        while Instant::now() < until {
            let request = self.opened.request(Some(self.session.clone()), None);
            match hold(&self.endpoint, request) {
                Ok((client, _)) => return Ok(client),
                Err(Error::Client(ClientError::Refused(no))) if no.code == Code::SessionClosed => {
                    return Err(Loss { why: no.to_string(), within: None });
                }
                Err(_) => thread::sleep(PAUSE),
            }
        }
        let why = format!("the deployment did not come back: {broke}");
        Err(Loss { why, within: Some(keep_alive.part(4)) })
    }
}
