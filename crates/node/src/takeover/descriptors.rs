//! Lines with descriptors (`SCM_RIGHTS`) on a connection.

use std::collections::VecDeque;
use std::io::{self, IoSlice, IoSliceMut, Write as _};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use serde::{Deserialize, Serialize};

use crate::api::passing::{ConversationState, SessionState};

/// The longest line: a request that was read in part, each byte as a number.
const MAX_LINE: usize = 8 << 20;

/// What a descriptor is.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "pass", rename_all = "kebab-case")]
pub(super) enum Passed {
    /// The lock of the data folder.
    Lock,
    /// The listening socket of the control API.
    Api,
    /// The listening socket for peers.
    #[serde(rename_all = "kebab-case")]
    Peers {
        /// Whether it is systemd's.
        from_systemd: bool,
    },
    /// A connection to the control API.
    Connection(ConversationState),
    /// A process that holds a session.
    Session(SessionState),
    /// There are no more; without a descriptor.
    End,
}

/// Sends a line with a descriptor.
pub(super) fn send(
    stream: &UnixStream,
    what: &Passed,
    descriptor: BorrowedFd<'_>,
) -> io::Result<()> {
    let mut line = serde_json::to_vec(what)?;
    line.push(b'\n');
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let descriptors = [descriptor];
    if !control.push(SendAncillaryMessage::ScmRights(&descriptors)) {
        return Err(io::Error::other("there is no room for a descriptor"));
    }
    let sent = sendmsg(stream, &[IoSlice::new(&line)], &mut control, SendFlags::NOSIGNAL)?;
    let mut stream = stream;
    stream.write_all(&line[sent..])
}

/// Reads lines and the descriptors that come with them, in order, until a deadline.
pub(super) struct Lines<'a> {
    stream: &'a UnixStream,
    until: Instant,
    read: Vec<u8>,
    descriptors: VecDeque<OwnedFd>,
}

impl<'a> Lines<'a> {
    pub(super) fn new(stream: &'a UnixStream, within: Duration) -> Self {
        let until = Instant::now() + within;
        Self { stream, until, read: Vec::new(), descriptors: VecDeque::new() }
    }

    /// The next line, `None` at the end.
    pub(super) fn next(&mut self) -> io::Result<Option<String>> {
        let mut searched = 0;
        loop {
            let end = self.read[searched..].iter().position(|&byte| byte == b'\n');
            if let Some(end) = end.map(|end| searched + end) {
                let line = String::from_utf8_lossy(&self.read[..end]).into_owned();
                self.read.drain(..=end);
                return Ok(Some(line));
            }
            if self.read.len() > MAX_LINE {
                return Err(io::Error::other("a line is too long"));
            }
            searched = self.read.len();
            if self.receive()? == 0 {
                return Ok(None);
            }
        }
    }

    /// The descriptor that came with the line that was read last.
    pub(super) fn descriptor(&mut self) -> io::Result<OwnedFd> {
        let none = || io::Error::other("a descriptor is missing");
        self.descriptors.pop_front().ok_or_else(none)
    }

    fn receive(&mut self) -> io::Result<usize> {
        let left = self.until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        self.stream.set_read_timeout(Some(left))?;
        let mut bytes = [0; 4096];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(8))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut buffers = [IoSliceMut::new(&mut bytes)];
        let got =
            recvmsg(self.stream.as_fd(), &mut buffers, &mut control, RecvFlags::CMSG_CLOEXEC)?;
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(descriptors) = message {
                self.descriptors.extend(descriptors);
            }
        }
        self.read.extend_from_slice(&bytes[..got.bytes]);
        Ok(got.bytes)
    }
}

/// Whether it took too long.
pub(super) fn is_late(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::*;

    #[test]
    fn descriptors_come_with_their_lines() {
        let (here, there) = UnixStream::pair().unwrap();
        let (mut one, first) = UnixStream::pair().unwrap();
        let (mut two, second) = UnixStream::pair().unwrap();
        send(&here, &Passed::Lock, first.as_fd()).unwrap();
        send(&here, &Passed::Peers { from_systemd: true }, second.as_fd()).unwrap();
        drop((here, first, second));
        let mut lines = Lines::new(&there, Duration::from_secs(10));
        for (pair, line) in [
            (&mut one, r#"{"pass":"lock"}"#),
            (&mut two, r#"{"pass":"peers","from-systemd":true}"#),
        ] {
            assert_eq!(lines.next().unwrap().as_deref(), Some(line));
            let mut passed = UnixStream::from(lines.descriptor().unwrap());
            passed.write_all(line.as_bytes()).unwrap();
            let mut read = vec![0; line.len()];
            pair.read_exact(&mut read).unwrap();
            assert_eq!(read, line.as_bytes());
        }
        assert_eq!(lines.next().unwrap(), None);
        assert!(lines.descriptor().is_err());
    }

    #[test]
    fn nobody_is_waited_for_longer_than_the_deadline() {
        let (_here, there) = UnixStream::pair().unwrap();
        let late = Lines::new(&there, Duration::from_millis(20)).next().unwrap_err();
        assert!(is_late(&late), "{late}");
    }
}
