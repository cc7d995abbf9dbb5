//! The stop signal: sent by a later call for a unit to the step in progress.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};

/// Asks one piece of work to end early. Once given it stays given.
///
/// It is a file descriptor, so that work which waits for a program can wait for both.
#[derive(Debug)]
pub(crate) struct Stop(OwnedFd);

impl Stop {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?))
    }

    /// Asks.
    pub(crate) fn ask(&self) {
        // Can fail only when the count is full, and then it was asked for long ago.
        let _ = rustix::io::write(&self.0, &1_u64.to_ne_bytes());
    }

    /// Whether it was asked for.
    pub(crate) fn is_asked(&self) -> bool {
        self.is_asked_within(Duration::ZERO)
    }

    /// Whether it is asked for before this time is over, which is waited for.
    pub(crate) fn is_asked_within(&self, time: Duration) -> bool {
        let mut one = [PollFd::new(&self.0, PollFlags::IN)];
        let time = Timespec {
            tv_sec: i64::try_from(time.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: time.subsec_nanos().into(),
        };
        poll(&mut one, Some(&time)).is_ok_and(|ready| ready > 0)
    }
}

impl AsFd for Stop {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
