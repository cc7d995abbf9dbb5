//! The two protocols by which systemd runs a process: the sockets that it hands over (`sd_listen_fds`), and what
//! it is told (`sd_notify`). Started by anything else, a process is handed nothing, and what it tells is lost.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::pin::pin;
use std::process;
use std::time::Duration;

use listenfd::ListenFd;
use sd_notify::NotifyState;
use thiserror::Error;
use tokio::time::{sleep, timeout};
use tracing::{error, info, warn};

use crate::host::Handle;
use crate::net::Network;

/// How often the state is looked at without a watchdog.
const LOOK: Duration = Duration::from_secs(10);

/// Why sockets that were handed over cannot be used.
#[derive(Debug, Error)]
pub enum HandoverError {
    /// One is not of the kind that is needed.
    #[error("what LISTEN_FDS hands over as number {number} is no TCP socket: {cause}")]
    Kind {
        /// Which one, from 1.
        number: usize,
        /// What is wrong.
        cause: io::Error,
    },
    /// There are more than one.
    #[error("LISTEN_FDS hands over {0} sockets; one is used")]
    Several(usize),
    /// Its address is not the configured one.
    #[error("`listen` is {listen}, and the socket that LISTEN_FDS hands over is at {found}")]
    Address {
        /// What is configured.
        listen: SocketAddr,
        /// Where the socket is.
        found: SocketAddr,
    },
    /// Its address cannot be read.
    #[error("the socket that LISTEN_FDS hands over has no address: {0}")]
    NoAddress(io::Error),
}

/// The socket for peers that was handed over, if there is one. Changes the environment, so nothing else may run
/// yet.
///
/// # Errors
/// If something else was handed over.
pub(crate) fn inherited() -> Result<Option<TcpListener>, HandoverError> {
    let mut sockets = ListenFd::from_env();
    if sockets.len() > 1 {
        return Err(HandoverError::Several(sockets.len()));
    }
    sockets.take_tcp_listener(0).map_err(|cause| HandoverError::Kind { number: 1, cause })
}

/// Whether a socket is where `listen` says, if that says anything.
///
/// # Errors
/// If it is not.
pub(crate) fn check_address(
    socket: &TcpListener,
    listen: Option<SocketAddr>,
) -> Result<(), HandoverError> {
    let found = socket.local_addr().map_err(HandoverError::NoAddress)?;
    let is_there = |listen: &SocketAddr| {
        let any = listen.ip().is_unspecified() && found.ip().is_unspecified();
        listen.port() == found.port() && (any || listen.ip() == found.ip().to_canonical())
    };
    match listen {
        Some(listen) if !is_there(&listen) => Err(HandoverError::Address { listen, found }),
        Some(_) | None => Ok(()),
    }
}

/// Says that the process does its work.
pub(crate) fn ready() {
    notify(&[NotifyState::Ready]);
}

/// Says that this process is the main one from now on.
pub(crate) fn main_process() {
    notify(&[NotifyState::MainPid(process::id())]);
}

/// Says that the process is about to end.
pub(crate) fn stopping() {
    notify(&[NotifyState::Stopping, NotifyState::Status("stopping; leases stay")]);
}

fn notify(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        warn!(%error, "systemd was not told");
    }
}

/// Keeps systemd informed: how many actors are down, and, if it wants to know, that the process is alive. It is
/// alive if the loop of every actor, down to its journal, and that of the network get through what waits. One that
/// hangs ends the pings, and systemd the process.
pub(crate) async fn report(actors: Vec<Handle>, network: Option<Network>) {
    let watchdog = sd_notify::watchdog_enabled();
    // Two pings in the time in which one is due.
    let pause = watchdog.map_or(LOOK, |within| within / 2);
    if let Some(within) = watchdog {
        info!(?within, "the watchdog is fed");
    }
    let mut told = None;
    loop {
        for actor in &actors {
            answered(actor.is_alive(), actor.info().name.as_str(), pause).await;
        }
        if let Some(network) = &network {
            answered(network.is_alive(), "the network", pause).await;
        }
        let status = status(&actors);
        if told.as_ref() != Some(&status) {
            notify(&[NotifyState::Status(&status)]);
            told = Some(status);
        }
        if watchdog.is_some() {
            notify(&[NotifyState::Watchdog]);
        }
        sleep(pause).await;
    }
}

/// Waits for a sign of life, and logs that none comes.
async fn answered(alive: impl Future<Output = ()>, whose: &str, patience: Duration) {
    let mut alive = pin!(alive);
    while timeout(patience, &mut alive).await.is_err() {
        error!(whose, "hangs: nothing that waits for it has been done for {patience:?}");
    }
}

/// How the actors are, in a line.
fn status(actors: &[Handle]) -> String {
    let down = actors.iter().filter_map(|actor| {
        let why = actor.conditions().why_down()?;
        Some(format!("{}: {why}", actor.info().name))
    });
    let down: Vec<String> = down.collect();
    match &down[..] {
        [] => format!("{} actors at work", actors.len()),
        [first, ..] => format!("{} of {} actors down; {first}", down.len(), actors.len()),
    }
    .replace('\n', " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_is_used_that_is_where_the_configuration_says() {
        let socket = TcpListener::bind("127.0.0.1:0").unwrap();
        let at = socket.local_addr().unwrap();
        assert!(check_address(&socket, None).is_ok());
        assert!(check_address(&socket, Some(at)).is_ok());
        let other = SocketAddr::new(at.ip(), at.port().wrapping_add(1));
        let wrong = check_address(&socket, Some(other)).unwrap_err();
        assert_eq!(
            wrong.to_string(),
            format!("`listen` is {other}, and the socket that LISTEN_FDS hands over is at {at}")
        );
        let any = format!("0.0.0.0:{}", at.port()).parse().unwrap();
        assert!(check_address(&socket, Some(any)).is_err());
    }

    #[test]
    fn a_wildcard_of_one_family_stands_for_that_of_both() {
        let socket = TcpListener::bind("0.0.0.0:0").unwrap();
        let port = socket.local_addr().unwrap().port();
        for any in ["0.0.0.0", "[::]"] {
            let listen = format!("{any}:{port}").parse().unwrap();
            assert!(check_address(&socket, Some(listen)).is_ok(), "{any}");
        }
    }
}
