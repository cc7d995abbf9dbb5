//! The part of the process that hands over.

use std::io::{self, Write as _};
use std::mem;
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::process;
use std::time::Duration;

use rustix::net::{RecvFlags, recv};
use tracing::warn;

use super::descriptors::{self, Lines, Passed};
use super::{Handover, Peers, Promise, ServedApi, TAKEN, YOURS};
use crate::api::Answer;
use crate::api::passing::{PassedConnection, PassedSession};

/// How long each step of the other side is waited for, once journals are closed.
const STEP: Duration = Duration::from_secs(10);

/// How long the last word of the other side is waited for.
const FAREWELL: Duration = Duration::from_secs(1);

/// The process that takes over.
#[derive(Debug)]
pub(crate) struct Successor(UnixStream);

impl Successor {
    /// Tells a process that asked on this connection that it may take over.
    pub(crate) fn accept(stream: UnixStream) -> io::Result<Self> {
        stream.set_nonblocking(false)?;
        stream.set_write_timeout(Some(STEP))?;
        let successor = Self(stream);
        let ok = serde_json::to_value(Promise { pid: process::id() })?;
        let promise = Answer::Ok { ok, more: None };
        successor.write(&serde_json::to_string(&promise)?)?;
        Ok(successor)
    }

    /// Whether it still waits.
    pub(crate) fn waits(&self) -> bool {
        let mut byte = [0; 1];
        let looked = recv(&self.0, &mut byte, RecvFlags::PEEK | RecvFlags::DONTWAIT);
        looked == Err(rustix::io::Errno::AGAIN)
    }

    fn write(&self, line: &str) -> io::Result<()> {
        let mut stream = &self.0;
        stream.write_all(format!("{line}\n").as_bytes())
    }
}

/// Passes everything on. After that this process must end at once; on an error it goes on with what it has.
///
/// # Errors
/// If the other process is gone, or does not say that it has everything.
pub(crate) fn give(
    successor: Successor,
    handover: &Handover,
    peers: Option<&Peers>,
) -> io::Result<()> {
    send_all(&successor.0, handover, peers)?;
    successor.write(&serde_json::to_string(&Passed::End)?)?;
    match Lines::new(&successor.0, STEP).next()? {
        Some(line) if line == TAKEN => {}
        Some(line) => return Err(io::Error::other(format!("it says `{line}`"))),
        None => return Err(io::ErrorKind::UnexpectedEof.into()),
    }
    successor.write(YOURS)?;
    // It tells systemd who is the main process, which this one has to be until then.
    if let Err(error) = Lines::new(&successor.0, FAREWELL).next() {
        warn!("the other process is not waited for any longer: {error}");
    }
    // The other one sees that this process has ended by the end of the connection: the system closes it.
    mem::forget(successor);
    Ok(())
}

fn send_all(stream: &UnixStream, handover: &Handover, peers: Option<&Peers>) -> io::Result<()> {
    let Handover { lock, api: ServedApi { socket: api, clients, .. } } = handover;
    descriptors::send(stream, &Passed::Lock, lock.as_fd())?;
    descriptors::send(stream, &Passed::Api, api.as_fd())?;
    if let Some(Peers { socket, from_systemd }) = peers {
        descriptors::send(stream, &Passed::Peers { from_systemd: *from_systemd }, socket.as_fd())?;
    }
    for PassedConnection { stream: connection, state } in &clients.connections {
        descriptors::send(stream, &Passed::Connection(state.clone()), connection.as_fd())?;
    }
    for PassedSession { state, process } in &clients.sessions {
        descriptors::send(stream, &Passed::Session(state.clone()), process.as_fd())?;
    }
    Ok(())
}
