//! The runtime socket of haproxy.

use std::io::{self, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
use tenure_core::driver::DriverError;

/// How much it may answer.
const OUTPUT: usize = 16 << 20;

/// Where haproxy takes commands.
pub(super) struct Socket {
    pub(super) path: PathBuf,
    /// For each command.
    pub(super) timeout: Duration,
}

impl Socket {
    /// What it answers to a command.
    pub(super) fn ask(&self, command: &str) -> Result<String, String> {
        self.try_ask(command).map_err(|error| {
            // What a socket with a time-out says when that is over.
            let late = error.kind() == io::ErrorKind::WouldBlock;
            let why =
                if late { format!("no answer in {:?}", self.timeout) } else { error.to_string() };
            format!("{}: {why}", self.path.display())
        })
    }

    /// Has it do something, and answer what it does then.
    pub(super) fn order(&self, command: &str, done: &str) -> Result<(), DriverError> {
        let said = self.ask(command).map_err(DriverError)?;
        if said.trim() == done {
            return Ok(());
        }
        Err(DriverError(format!("haproxy answers `{command}` by `{}`", said.trim().escape_debug())))
    }

    fn try_ask(&self, command: &str) -> io::Result<String> {
        let until = Instant::now() + self.timeout;
        let fd = socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
        // Before it is connected: that waits too, if haproxy hangs.
        set_socket_timeout(&fd, Timeout::Send, Some(self.timeout))?;
        connect(&fd, &SocketAddrUnix::new(&self.path)?)?;
        let mut stream = UnixStream::from(fd);
        stream.write_all(format!("{command}\n").as_bytes())?;
        let (mut answer, mut bytes) = (Vec::new(), [0; 8192]);
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            stream.set_read_timeout(Some(left))?;
            match stream.read(&mut bytes) {
                Ok(0) => break,
                Ok(count) => answer.extend_from_slice(&bytes[..count]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
            if answer.len() > OUTPUT {
                return Err(io::Error::other(format!("it answers more than {OUTPUT} bytes")));
            }
        }
        Ok(String::from_utf8_lossy(&answer).into_owned())
    }
}
