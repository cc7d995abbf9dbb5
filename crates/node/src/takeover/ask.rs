//! The part of the process that takes over.

use std::fs::File;
use std::io::{self, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::time::{Duration, Instant};

use tracing::{info, warn};

use super::descriptors::{Lines, Passed, is_late};
use super::{Handover, Inherited, Peers, Promise, ServedApi, TAKEN, TakeoverError, YOURS};
use crate::api::client::open;
use crate::api::passing::{Clients, PassedConnection, PassedSession};
use crate::api::{Answer, Request};
use crate::lock::Lock;
use crate::run::SOCKET;
use crate::systemd;

/// How long a process may take to end that has handed over.
const END_WITHIN: Duration = Duration::from_secs(10);

/// Takes over from the process that runs on this data, if one does, and waits so long for it to hand over. That process
/// has ended then. Peers are taken at `listen`.
///
/// # Errors
/// See [`TakeoverError`].
pub(crate) fn ask(
    data: &Path,
    listen: Option<SocketAddr>,
    within: Duration,
) -> Result<Option<Inherited>, TakeoverError> {
    let stream = match open(&data.join(SOCKET)) {
        Ok(stream) => stream,
        Err(error) if is_nobody(&error) => {
            info!("no deployment runs on {}: there is nobody to take over from", data.display());
            return Ok(None);
        }
        Err(error) => return Err(TakeoverError::Broken(error.to_string())),
    };
    let mut predecessor =
        Predecessor { lines: Lines::new(&stream, within), stream: &stream, within };
    let pid = predecessor.promise()?;
    let since = Instant::now();
    let Received { lock, api, peers, clients } = predecessor.receive()?;
    let (Some(lock), Some(api)) = (lock, api) else {
        return Err(TakeoverError::Unusable("a descriptor is missing".to_owned()));
    };
    let lock = Lock::passed(lock, &data.join("lock")).map_err(|e| unusable(&e))?;
    let peers = peers_at(listen, peers)?;
    predecessor.settle()?;
    predecessor.end(pid)?;
    if let Err(error) = lock.mark() {
        warn!("the lock of the data folder names the process before: {error}");
    }
    let api = ServedApi { socket: api, clients, since, pid };
    Ok(Some(Inherited { peers, handover: Some(Handover { lock, api }) }))
}

fn is_nobody(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused)
}

fn unusable(error: &impl ToString) -> TakeoverError {
    TakeoverError::Unusable(error.to_string())
}

/// The socket at which peers are to be taken: the one that was passed if it is there, or else a new one, opened while
/// the other process can still go on.
fn peers_at(
    listen: Option<SocketAddr>,
    passed: Option<Peers>,
) -> Result<Option<Peers>, TakeoverError> {
    let Some(listen) = listen else { return Ok(passed.filter(|peers| peers.from_systemd)) };
    // Any port will do for who names none.
    let any = |peers: &Peers| listen.port() == 0 && !peers.from_systemd;
    let suits =
        |peers: &Peers| any(peers) || systemd::check_address(&peers.socket, Some(listen)).is_ok();
    if let Some(peers) = passed.filter(suits) {
        return Ok(Some(peers));
    }
    let socket =
        TcpListener::bind(listen).map_err(|cause| TakeoverError::Listen { listen, cause })?;
    Ok(Some(Peers { socket, from_systemd: false }))
}

/// What has come so far.
#[derive(Default)]
struct Received {
    lock: Option<File>,
    api: Option<UnixListener>,
    peers: Option<Peers>,
    clients: Clients,
}

/// The process that hands over.
struct Predecessor<'a> {
    stream: &'a UnixStream,
    lines: Lines<'a>,
    /// How long it may take.
    within: Duration,
}

impl Predecessor<'_> {
    /// Asks it to hand over; its number.
    fn promise(&mut self) -> Result<u32, TakeoverError> {
        let request = serde_json::to_string(&Request::TakeOver).map_err(|e| unusable(&e))?;
        self.say(&request)?;
        let promise: Promise = serde_json::from_value(self.answer()?).map_err(|e| unusable(&e))?;
        Ok(promise.pid)
    }

    fn answer(&mut self) -> Result<serde_json::Value, TakeoverError> {
        match serde_json::from_str(&self.line()?).map_err(|e| unusable(&e))? {
            Answer::Ok { ok, .. } => Ok(ok),
            Answer::Error { error } => Err(TakeoverError::Refused(error)),
        }
    }

    /// All that it passes.
    fn receive(&mut self) -> Result<Received, TakeoverError> {
        let mut all = Received::default();
        loop {
            let line = self.line()?;
            let item: Passed = serde_json::from_str(&line).map_err(|e| unusable(&e))?;
            let mut descriptor = || self.lines.descriptor().map_err(|e| unusable(&e));
            match item {
                Passed::End => return Ok(all),
                Passed::Lock => all.lock = Some(descriptor()?.into()),
                Passed::Api => all.api = Some(descriptor()?.into()),
                Passed::Peers { from_systemd } => {
                    all.peers = Some(Peers { socket: descriptor()?.into(), from_systemd });
                }
                Passed::Connection(state) => {
                    let stream = descriptor()?.into();
                    all.clients.connections.push(PassedConnection { stream, state });
                }
                Passed::Session(state) => {
                    let process = descriptor()?;
                    all.clients.sessions.push(PassedSession { state, process });
                }
            }
        }
    }

    /// Says that everything has come, and waits until the other process cannot change its mind any more.
    fn settle(&mut self) -> Result<(), TakeoverError> {
        self.say(TAKEN)?;
        // It answers at once, however late it is by now, or not at all.
        self.lines = Lines::new(self.stream, END_WITHIN);
        match self.line()? {
            line if line == YOURS => {}
            line => return Err(TakeoverError::Broken(format!("it says `{line}`"))),
        }
        systemd::main_process();
        self.stream.shutdown(Shutdown::Write).map_err(|error| self.failed(&error))
    }

    /// Waits until the other process has ended: the system closes its side then.
    fn end(&mut self, pid: u32) -> Result<(), TakeoverError> {
        match Lines::new(self.stream, END_WITHIN).next() {
            Ok(None) => Ok(()),
            Ok(Some(_)) | Err(_) => Err(TakeoverError::StaysOn { pid }),
        }
    }

    fn say(&self, line: &str) -> Result<(), TakeoverError> {
        let mut stream = self.stream;
        stream.write_all(format!("{line}\n").as_bytes()).map_err(|error| self.failed(&error))
    }

    fn line(&mut self) -> Result<String, TakeoverError> {
        match self.lines.next() {
            Ok(Some(line)) => Ok(line),
            Ok(None) => Err(TakeoverError::Broken("the connection has ended".to_owned())),
            Err(error) => Err(self.failed(&error)),
        }
    }

    fn failed(&self, error: &io::Error) -> TakeoverError {
        match is_late(error) {
            true => TakeoverError::TimedOut(self.within),
            false => TakeoverError::Broken(error.to_string()),
        }
    }
}
