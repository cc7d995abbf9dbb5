//! Runs a program to its end: input and output at the same time, within a time, a size and a word to stop.

use std::ffi::OsStr;
use std::io::{self, Write as _};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};
use rustix::fs::{OFlags, fcntl_setfl};
use tenure_core::driver::DriverError;

use super::child::{Gated, Launch, Process, Reach, end, wait_for};
use super::stop::Stop;
use super::streams::{Kept, Streams, take};

/// How much of what a program complains is kept: the end of it, where the cause is.
const COMPLAINT: usize = 500;

/// A program to run.
pub(crate) struct Run<'a> {
    /// What it is called in an error.
    pub(crate) name: &'a str,
    pub(crate) command: &'a [&'a OsStr],
    /// The descriptor that the command is, if it is one.
    pub(crate) program: Option<OwnedFd>,
    pub(crate) folder: &'a Path,
    pub(crate) mark: &'a str,
    pub(crate) input: &'a [u8],
    pub(crate) timeout: Duration,
    /// The most bytes of output.
    pub(crate) output: usize,
}

/// Why a program was ended before it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cut {
    Timeout,
    TooMuch,
    Stopped,
}

/// A program that has ended, or was ended.
pub(crate) struct Held {
    pub(crate) status: ExitStatus,
    pub(crate) streams: Streams,
    pub(crate) cut: Option<Cut>,
}

/// A program that ended by itself.
pub(crate) struct Ended {
    pub(crate) status: ExitStatus,
    pub(crate) output: Vec<u8>,
    /// What it complained of, after a colon; or nothing.
    pub(crate) complaint: String,
}

impl Run<'_> {
    /// Runs it and answers its output. `begun` is called with the process before the program itself begins.
    pub(crate) fn finish(
        self,
        stop: &Stop,
        begun: impl FnOnce(&Process) -> Result<(), DriverError>,
    ) -> Result<Vec<u8>, DriverError> {
        let name = self.name;
        let Ended { status, output, complaint } = self.end(stop, begun)?;
        if status.success() {
            return Ok(output);
        }
        Err(DriverError(format!("{name} failed ({status}){complaint}")))
    }

    /// Runs it until it ends by itself, however it does.
    pub(crate) fn end(
        self,
        stop: &Stop,
        begun: impl FnOnce(&Process) -> Result<(), DriverError>,
    ) -> Result<Ended, DriverError> {
        let Run { name, timeout, output: most, .. } = self;
        let streams = Streams { output: Kept::first(most), errors: Kept::last(COMPLAINT) };
        let Held { status, streams, cut } = self.hold((streams, true), stop, begun)?;
        let why = match cut {
            Some(Cut::Stopped) => {
                "was ended: a later step of the unit came, or it took too long".to_owned()
            }
            Some(Cut::Timeout) => format!("took longer than {timeout:?}"),
            _ if streams.output.cut => format!("wrote more than {most} bytes"),
            _ => {
                let complaint = streams.complaint();
                return Ok(Ended { status, output: streams.output.bytes, complaint });
            }
        };
        Err(DriverError(format!("{name} {why}{}", streams.complaint())))
    }

    /// Runs it until it ends or must be ended; what it writes beyond `output` on either stream is lost.
    pub(crate) fn capture(
        self,
        stop: &Stop,
        begun: impl FnOnce(&Process) -> Result<(), DriverError>,
    ) -> Result<Held, DriverError> {
        let most = self.output;
        let streams = Streams { output: Kept::first(most), errors: Kept::first(most) };
        self.hold((streams, false), stop, begun)
    }

    /// Runs it, and ends its process group with it. Who writes too much is ended if that is `bounded`.
    fn hold(
        self,
        (streams, bounded): (Streams, bool),
        stop: &Stop,
        begun: impl FnOnce(&Process) -> Result<(), DriverError>,
    ) -> Result<Held, DriverError> {
        let Run { name, timeout, mark, .. } = self;
        let failed = |error: io::Error| DriverError(format!("{name} cannot be run: {error}"));
        let launch = Launch {
            command: self.command,
            folder: self.folder,
            mark,
            input: None,
            output: (Stdio::piped(), Stdio::piped()),
        };
        let Gated { mut child, process } = launch.start(self.program).map_err(failed)?;
        let held = begun(&process).and_then(|()| {
            let io = ProgramIo::new(&mut child, self.input, streams);
            let mut io = io.map_err(failed)?;
            let cut = io.hold(&process, stop, (timeout, bounded)).map_err(failed)?;
            Ok((io, cut))
        });
        // One that waits at the gate goes away as it closes, and need not be killed.
        drop(child.stdin.take());
        end(mark, Some(&process), Reach::Group, Duration::ZERO).map_err(failed)?;
        let status = child.wait().map_err(failed)?;
        let (mut io, cut) = held?;
        // What was failed before the end may still be in the pipe.
        io.read().map_err(failed)?;
        Ok(Held { status, streams: io.streams, cut })
    }
}

/// What goes in and comes out of a program, as much as is there at a time.
struct ProgramIo {
    input: Option<ChildStdin>,
    left: Vec<u8>,
    output: Option<ChildStdout>,
    errors: Option<ChildStderr>,
    streams: Streams,
}

impl ProgramIo {
    fn new(child: &mut Child, input: &[u8], streams: Streams) -> io::Result<Self> {
        let io = Self {
            input: child.stdin.take(),
            left: [b"go\n", input].concat(),
            output: child.stdout.take(),
            errors: child.stderr.take(),
            streams,
        };
        for fd in [
            io.input.as_ref().map(AsFd::as_fd),
            io.output.as_ref().map(AsFd::as_fd),
            io.errors.as_ref().map(AsFd::as_fd),
        ] {
            fcntl_setfl(fd.ok_or(io::ErrorKind::BrokenPipe)?, OFlags::NONBLOCK)?;
        }
        Ok(io)
    }

    /// Talks until the program ends or must be ended.
    fn hold(
        &mut self,
        process: &Process,
        stop: &Stop,
        (timeout, bounded): (Duration, bool),
    ) -> io::Result<Option<Cut>> {
        // None if it has gone already, and that is an end too.
        let Some(watch) = process.watch() else { return Ok(None) };
        let deadline = Instant::now() + timeout;
        loop {
            let mut fds =
                vec![PollFd::new(&watch, PollFlags::IN), PollFd::new(stop, PollFlags::IN)];
            fds.extend(self.output.as_ref().map(|pipe| PollFd::new(pipe, PollFlags::IN)));
            fds.extend(self.errors.as_ref().map(|pipe| PollFd::new(pipe, PollFlags::IN)));
            fds.extend(self.input.as_ref().map(|pipe| PollFd::new(pipe, PollFlags::OUT)));
            wait_for(&mut fds, Some(deadline))?;
            let ended = !fds[0].revents().is_empty();
            drop(fds);
            self.read()?;
            self.write()?;
            match () {
                () if bounded && self.streams.output.cut => return Ok(Some(Cut::TooMuch)),
                () if ended => return Ok(None),
                () if stop.is_asked() => return Ok(Some(Cut::Stopped)),
                () if Instant::now() >= deadline => return Ok(Some(Cut::Timeout)),
                () => {}
            }
        }
    }

    fn read(&mut self) -> io::Result<()> {
        if let Some(pipe) = &mut self.output
            && !take(pipe, &mut self.streams.output)?
        {
            self.output = None;
        }
        if let Some(pipe) = &mut self.errors
            && !take(pipe, &mut self.streams.errors)?
        {
            self.errors = None;
        }
        Ok(())
    }

    fn write(&mut self) -> io::Result<()> {
        while let Some(pipe) = &mut self.input {
            match pipe.write(&self.left) {
                Ok(count) => drop(self.left.drain(..count)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // A program need not read its input.
                Err(error) if error.kind() == io::ErrorKind::BrokenPipe => self.left.clear(),
                Err(error) => return Err(error),
            }
            if self.left.is_empty() {
                self.input = None;
            }
        }
        Ok(())
    }
}
