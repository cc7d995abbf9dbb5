//! The named pipe by which programs of `exec` report: a line of JSON for each unit that is up, down or failed.
//!
//! It is open as long as the driver is, so nobody who writes waits long. One who writes while no driver runs
//! waits for the next.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::os::fd::AsFd as _;
use std::os::unix::fs::FileTypeExt as _;
use std::path::Path;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use rustix::fs::{CWD, FileType, Mode, OFlags, mknodat, open};
use serde::Deserialize;
use tenure_core::driver::{DriverError, Epoch, Finding, Report, UnitId};

use super::child::wait;
use super::record::about;
use super::report::Reporter;
use super::stop::Stop;

/// The longest line: as much as a pipe takes from one writer without a word of another in between.
const MAX_LINE: usize = 4096;

/// The name of the pipe in the driver's folder.
const NAME: &str = "reports";

/// Reads what is reported until it is dropped.
pub(crate) struct ReportPipe {
    stop: Arc<Stop>,
    thread: Option<JoinHandle<()>>,
}

impl ReportPipe {
    /// Opens the pipe in a driver's folder, and makes it if it is not there.
    pub(crate) fn open(home: &Path, reporter: Arc<Reporter>) -> io::Result<Self> {
        let path = home.join(NAME);
        let pipe = open_at(&path).map_err(|error| about(&path, error))?;
        let stop = Arc::new(Stop::new()?);
        let asked = Arc::clone(&stop);
        let thread = thread::Builder::new().name("unit reports".to_owned()).spawn(move || {
            if let Err(error) = read(pipe, &asked, &reporter) {
                tracing::error!(path = %path.display(), %error, "no reports are read any more");
            }
        })?;
        Ok(Self { stop, thread: Some(thread) })
    }
}

impl Drop for ReportPipe {
    fn drop(&mut self) {
        self.stop.ask();
        if let Some(thread) = self.thread.take() {
            // It has nothing to say, not even when it panicked.
            let _ = thread.join();
        }
    }
}

fn open_at(path: &Path) -> io::Result<File> {
    match mknodat(CWD, path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0) {
        Ok(()) | Err(rustix::io::Errno::EXIST) => {}
        Err(error) => return Err(error.into()),
    }
    if !fs::symlink_metadata(path)?.file_type().is_fifo() {
        return Err(io::Error::other("is in the way of a named pipe"));
    }
    // With a writer of its own it does not end when others have written.
    let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    Ok(File::from(open(path, flags, Mode::empty())?))
}

fn read(mut pipe: File, stop: &Stop, reporter: &Reporter) -> io::Result<()> {
    let mut lines = Lines::default();
    let mut bytes = [0; MAX_LINE];
    loop {
        match pipe.read(&mut bytes) {
            Ok(count) => lines.take(&bytes[..count], |line| match parsed(line) {
                Ok(report) => reporter.report(report),
                Err(error) => {
                    let line = String::from_utf8_lossy(line).escape_debug().to_string();
                    tracing::warn!(%error, line, "a report that is none");
                }
            }),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                wait(&[stop.as_fd(), pipe.as_fd()], None)?;
            }
            Err(error) => return Err(error),
        }
        if stop.is_asked() {
            return Ok(());
        }
    }
}

/// Lines of what is read piece by piece; longer ones are cut short, so that they are no reports.
#[derive(Default)]
struct Lines(Vec<u8>);

impl Lines {
    fn take(&mut self, bytes: &[u8], mut each: impl FnMut(&[u8])) {
        for part in bytes.split_inclusive(|byte| *byte == b'\n') {
            let (text, ends) = match part.split_last() {
                Some((b'\n', text)) => (text, true),
                _ => (part, false),
            };
            let room = MAX_LINE - self.0.len();
            self.0.extend_from_slice(&text[..text.len().min(room)]);
            if ends {
                each(&self.0);
                self.0.clear();
            }
        }
    }
}

/// What a program reports.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    unit: UnitId,
    epoch: Epoch,
    state: Word,
    #[serde(default)]
    error: Option<String>,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Word {
    Up,
    Down,
    Failed,
}

fn parsed(line: &[u8]) -> Result<Report, serde_json::Error> {
    let Line { unit, epoch, state, error } = serde_json::from_slice(line)?;
    let why = |word: &str| {
        DriverError(error.unwrap_or_else(|| format!("{unit} is {word}, says a report")))
    };
    let finding = match state {
        Word::Up => Finding::Up,
        Word::Down => Finding::Down(why("down")),
        Word::Failed => Finding::Failed(why("failed")),
    };
    Ok(Report { unit, epoch, finding })
}
