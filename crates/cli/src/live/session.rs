//! `tenure session`: leases that end with the program that uses them.

mod retain;
mod run;

use std::collections::BTreeMap;
use std::str::FromStr;

use clap::{Args, Subcommand};
use tenure_core::model::name::Name;
use tenure_core::model::property::Properties;
use tenure_core::model::time::Span;
use tenure_node::api::moment::Moment;
use tenure_node::api::{
    LeaseName, LeaseRequest, LeaseView, OnLoss, Request, SessionRequest, SessionView,
};

use self::retain::Retained;
use super::args::{Endpoint, Lasting, Output, lasting, property};
use super::demand::demand_or_again;
use super::{ask, connect, lease, print};
use crate::Console;
use crate::error::Error;

#[derive(Debug, Subcommand)]
pub(crate) enum SessionCommand {
    /// Get units, run a command with them, and give them back
    #[command(after_help = RUN)]
    Run(Box<run::RunArgs>),
    /// Open a session that ends with a process, and print its name
    #[command(after_help = OPEN)]
    Open(OpenArgs),
    /// Get units for a session that is open; if that fails, the session ends, unless it was opened with --on-loss keep
    #[command(after_help = OPEN)]
    Get(Box<GetArgs>),
    /// List the sessions that are open
    List {
        #[command(flatten)]
        endpoint: Endpoint,
    },
    /// Show a session
    Show {
        #[command(flatten)]
        endpoint: Endpoint,
        /// The session
        session: Name,
    },
    /// Close a session: all its leases are given back
    Close {
        #[command(flatten)]
        endpoint: Endpoint,
        /// The session
        session: Name,
    },
}

const RUN: &str = "\
The command finds in TENURE_SESSION the path of a JSON file with its units and their properties. If the session is \
lost, its process group gets SIGTERM, and after --grace SIGKILL. Signals to this command are passed on to it.

Exit codes: that of the command, 128 and the number of the signal that ended it; 75 if the session was lost or there \
were no units now, 3 if there are none, 77 if they are denied, 124 if there were none in time

Examples:
  tenure session run '1 handset, 1 relay' --for 30m --wait --timeout 10m -- pytest
  tenure session run '2 node where cpus >= 8' --for 2h -- make check";

const OPEN: &str = "\
Examples:
  session=$(tenure session open)
  tenure session get $session '1 handset' --for 30m --wait
  tenure session close $session";

/// Open a session that ends with a process, and print its name.
///
/// When the process ends, however it does, all leases of the session go back at once.
#[derive(Args, Debug)]
pub(crate) struct OpenArgs {
    #[command(flatten)]
    endpoint: Endpoint,
    #[command(flatten)]
    opened: Opened,
    /// The process that it ends with [default: the one that has started this command]
    #[arg(long, value_name = "PID")]
    pid: Option<u32>,
}

/// Get units for a session that is open; if that fails, the session ends.
#[derive(Args, Debug)]
pub(crate) struct GetArgs {
    #[command(flatten)]
    endpoint: Endpoint,
    /// The session
    session: Name,
    /// A name for what is got: in this session, the same name gets the same leases
    #[arg(long)]
    name: Option<Name>,
    #[command(flatten)]
    wanted: Wanted,
}

/// How a session is opened.
#[derive(Args, Clone, Debug)]
pub(crate) struct Opened {
    /// The service manager that has the leases
    #[arg(long = "as", value_name = "NAME")]
    manager: Option<Name>,
    /// How long it goes on while its deployment is cut off from a site; half as long while the deployment is down
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = Span::from_str)]
    keep_alive: Span,
    /// What happens when it loses a lease, or does not get one: all of its leases go back, or it goes on with the others
    #[arg(long, value_name = "close|keep", default_value = "close", value_parser = OnLoss::from_str)]
    on_loss: OnLoss,
}

impl Opened {
    fn request(&self, session: Option<Name>, pid: Option<u32>) -> SessionRequest {
        let (manager, keep_alive) = (self.manager.clone(), self.keep_alive);
        SessionRequest { manager, session, keep_alive, on_loss: self.on_loss, pid }
    }
}

/// What is to be got.
#[derive(Args, Clone, Debug)]
pub(crate) struct Wanted {
    /// All of it or nothing: `2 node`, `1 handset where 'model = "p7"', 1 relay`; as for `tenure lease request`
    #[arg(required_unless_present = "again", value_name = "ITEMS")]
    demand: Vec<String>,
    /// The length of the leases: `2h`, or `1h..2h` for the longest that can be had
    #[arg(long = "for", value_name = "TIME", value_parser = lasting)]
    duration: Lasting,
    /// What must hold of the units, of one item: `cpus >= 8 and site != "b"`
    #[arg(long = "where", value_name = "EXPR")]
    condition: Option<String>,
    /// A property for the site's driver [may be repeated]
    #[arg(long, value_name = "KEY=VALUE", value_parser = property)]
    property: Vec<(Name, String)>,
    /// A lease at whose site all units are to be: 3 or guest/3.0
    #[arg(long, value_name = "LEASE")]
    with: Option<LeaseName>,
    /// A lease, over or not, whose units are to be had again if they can; without ITEMS, as many of its types
    #[arg(long, value_name = "LEASE")]
    again: Option<LeaseName>,
    /// Keep what units of a type leave at the end, each in a unit of type `archive` at its site: workspace=24h
    #[arg(long, value_name = "TYPE=TIME")]
    retain: Option<Retained>,
    /// The broker to ask
    #[arg(long, value_name = "NAME")]
    broker: Option<Name>,
    /// Take units that are free later, within --timeout, and wait for them
    #[arg(long)]
    wait: bool,
    /// The longest time until the units are in use, by this machine's clock
    #[arg(long, value_name = "TIME", default_value = "5m", value_parser = Span::from_str)]
    timeout: Span,
}

/// `tenure session ...`
pub(crate) fn session(command: &SessionCommand, console: &mut Console<'_>) -> Result<(), Error> {
    match command {
        SessionCommand::Run(args) => run::run(args, console),
        SessionCommand::Open(args) => open(args, console),
        SessionCommand::Get(args) => {
            let GetArgs { endpoint, session, name, wanted } = &**args;
            let leases = get(endpoint, (session, name.as_ref()), wanted)?;
            lease::list(&leases, endpoint.output, console)
        }
        SessionCommand::List { endpoint } => {
            let all: Vec<SessionView> = ask(&endpoint.data, &Request::Sessions)?;
            print::rows(&all, endpoint.output, "no session is open", console)
        }
        SessionCommand::Show { endpoint, session } => {
            let request = Request::Session { session: session.clone() };
            let shown: SessionView = ask(&endpoint.data, &request)?;
            let leases = shown.leases.join(" ");
            if endpoint.output == Output::Table {
                return Ok(writeln!(
                    console.out,
                    "session    {}\nmanager    {}\nheld by    {}\non loss    {}\nunits      {}\nleases     {}",
                    shown.session,
                    shown.manager,
                    shown.held_by,
                    shown.on_loss.word(),
                    shown.units,
                    if leases.is_empty() { "-" } else { &leases },
                )?);
            }
            print::one(&shown, std::slice::from_ref(&shown), endpoint.output, "", console)
        }
        SessionCommand::Close { endpoint, session } => {
            let request = Request::CloseSession { session: session.clone() };
            let leases: Vec<LeaseView> = ask(&endpoint.data, &request)?;
            lease::list(&leases, endpoint.output, console)
        }
    }
}

fn open(args: &OpenArgs, console: &mut Console<'_>) -> Result<(), Error> {
    let parent = || rustix::process::getppid().map(|pid| pid.as_raw_nonzero().get().unsigned_abs());
    let pid = args.pid.or_else(parent);
    let request = Request::OpenSession(args.opened.request(None, pid));
    let opened: SessionView = ask(&args.endpoint.data, &request)?;
    if args.endpoint.output == Output::Table {
        return Ok(writeln!(console.out, "{}", opened.session)?);
    }
    print::one(&opened, std::slice::from_ref(&opened), args.endpoint.output, "", console)
}

/// Gets units for a session; if there are none, it ends, unless it goes on without what it loses.
fn get(
    endpoint: &Endpoint,
    (session, name): (&Name, Option<&Name>),
    wanted: &Wanted,
) -> Result<Vec<LeaseView>, Error> {
    let got = request((session, name), wanted).and_then(|request| got(endpoint, request, wanted));
    let got = got.and_then(|mut leases| {
        leases.extend(retain::retain(endpoint, &leases, wanted)?);
        Ok(leases)
    });
    if got.is_err() && !goes_on(endpoint, session) {
        let close = Request::CloseSession { session: session.clone() };
        // What it has failed by is what its user is to know; without an answer it ends with its holder.
        let _: Result<Vec<LeaseView>, Error> = ask(&endpoint.data, &close);
    }
    got
}

/// Whether a session goes on without what it does not get.
fn goes_on(endpoint: &Endpoint, session: &Name) -> bool {
    let shown = ask::<SessionView>(&endpoint.data, &Request::Session { session: session.clone() });
    shown.is_ok_and(|session| session.on_loss == OnLoss::Keep)
}

fn got(endpoint: &Endpoint, request: Request, wanted: &Wanted) -> Result<Vec<LeaseView>, Error> {
    let mut client = connect(&endpoint.data)?;
    let asked: LeaseView = client.ask(&request)?;
    let name = LeaseName { part: None, ..lease::name_of(&asked)? };
    let leases = lease::until(&mut client, &name, wanted.timeout, lease::is_settled)?;
    match leases.iter().find(|lease| lease.state == "closed") {
        Some(refused) => Err(Error::NotGranted(Box::new(refused.clone()))),
        None => Ok(leases),
    }
}

fn request((session, name): (&Name, Option<&Name>), wanted: &Wanted) -> Result<Request, Error> {
    let Wanted { demand, condition, again, .. } = wanted;
    let demand = demand_or_again(demand, condition.as_deref(), again.as_ref())?;
    let configuration = wanted.property.iter().cloned().collect::<BTreeMap<_, _>>();
    let request = LeaseRequest {
        broker: wanted.broker.clone(),
        min_duration: Some(wanted.duration.shortest),
        latest: wanted.wait.then_some(Moment::FromNow(wanted.timeout)),
        configuration: Properties::try_from(configuration)
            .map_err(|error| Error::Wrong(error.to_string()))?,
        bundle: true,
        id: name.map(|name| format!("{session}/{name}")),
        with: wanted.with.clone(),
        again: wanted.again.clone(),
        reason: "a session".to_owned(),
        ..LeaseRequest::new(session.clone(), demand, wanted.duration.longest)
    };
    Ok(Request::Ask(Box::new(request)))
}

impl print::Row for SessionView {
    const COLUMNS: &'static [&'static str] = &["session", "manager", "held by", "leases", "units"];

    fn cells(&self) -> Vec<String> {
        vec![
            self.session.clone(),
            self.manager.clone(),
            self.held_by.clone(),
            self.leases.len().to_string(),
            self.units.to_string(),
        ]
    }
}
