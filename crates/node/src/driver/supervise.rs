//! Keeps a program running for a unit: starts it, notes it, starts it again when it ends.
//!
//! A program outlives its supervisor. When a driver is dropped its programs continue, since their leases do;
//! the next driver on the same folder takes them up by the names that were noted.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io;
use std::os::fd::AsFd as _;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::process::Resource;
use serde::{Deserialize, Serialize};
use tenure_core::driver::{DriverError, Epoch, Finding, Report, ReportReceiver, UnitId};
use tenure_core::model::time::Span;

use super::cgroup::{Bounds, UnitCgroup};
use super::child::{Launch, Process, end_unit, reap, wait};
use super::fence::hold;
use super::log::{Logger, last_words};
use super::record::Key;
use super::report::Reporter;
use super::stop::Stop;

/// The pause before a program is started again: doubled from the first to the last.
const PAUSES: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));

/// What one program may use. Each limit counts for a process, and its children inherit it.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Limits {
    /// Bytes of address space.
    memory: Option<u64>,
    /// Seconds of the processor.
    cpu: Option<Span>,
    /// Open files.
    files: Option<u64>,
    /// Bytes of a file.
    file_size: Option<u64>,
    /// Processes of the user; root is not bound by it.
    processes: Option<u64>,
}

impl Limits {
    /// Sets them for a program that waits at the gate.
    pub(crate) fn set(&self, process: &Process) -> io::Result<()> {
        let seconds = |span: Span| u64::try_from(span.as_micros() / 1_000_000).unwrap_or(0);
        let limits = [
            (Resource::As, self.memory),
            (Resource::Cpu, self.cpu.map(seconds)),
            (Resource::Nofile, self.files),
            (Resource::Fsize, self.file_size),
            (Resource::Nproc, self.processes),
            // No other process may read a unit's memory.
            (Resource::Core, Some(0)),
        ];
        for (resource, most) in limits {
            if let Some(most) = most {
                process.limit(resource, most)?;
            }
        }
        Ok(())
    }
}

/// A program to keep running.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// The tenancy that it is for.
    pub(crate) epoch: Epoch,
    /// The program, by an absolute path, and its arguments.
    pub(crate) command: Vec<String>,
    pub(crate) folder: PathBuf,
    pub(crate) mark: String,
    /// What it reads.
    pub(crate) input: PathBuf,
    /// Keeps what it writes.
    pub(crate) log: Logger,
    pub(crate) limits: Limits,
    /// The cgroup that it is put into, if there are any, with what all in it may use.
    pub(crate) cgroup: Option<UnitCgroup>,
    pub(crate) bounds: Bounds,
    pub(crate) restart: bool,
}

/// How a program is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Health {
    /// It runs.
    Runs(Process),
    /// It does not, and why.
    Ended(String),
}

/// The programs of one driver.
#[derive(Default)]
pub(crate) struct Supervisor {
    kept: Mutex<BTreeMap<Key, Kept>>,
    reporter: Arc<Reporter>,
}

#[derive(Debug)]
struct Kept {
    stop: Arc<Stop>,
    health: Arc<Mutex<Health>>,
    thread: Option<JoinHandle<()>>,
}

/// Writes down which process a unit is, before it begins.
pub(crate) type Noting = Box<dyn Fn(&Process) -> Result<(), DriverError> + Send>;

impl Supervisor {
    /// Starts a program, or takes up one that runs already, and keeps it running.
    pub(crate) fn keep(
        &self,
        key: Key,
        plan: Plan,
        running: Option<Process>,
        note: Noting,
    ) -> Result<Process, DriverError> {
        self.let_go(key);
        let process = match running {
            Some(process) => process,
            None => start(&plan, &note)?,
        };
        let stop = Arc::new(Stop::new().map_err(|error| DriverError(error.to_string()))?);
        let health = Arc::new(Mutex::new(Health::Runs(process.clone())));
        let (reporter, own_stop) = (Arc::clone(&self.reporter), Arc::clone(&stop));
        let own_health = Arc::clone(&health);
        let watched = Watched { key, plan, note, stop: own_stop, health: own_health, reporter };
        let first = process.clone();
        let thread = thread::Builder::new()
            .name(format!("unit {}", key.unit))
            .spawn(move || watched.watch(first))
            .map_err(|error| DriverError(format!("cannot be supervised: {error}")))?;
        hold(&self.kept).insert(key, Kept { stop, health, thread: Some(thread) });
        Ok(process)
    }

    /// How the program of a unit is, if there is one.
    pub(crate) fn health(&self, key: Key) -> Option<Health> {
        hold(&self.kept).get(&key).map(|kept| hold(&kept.health).clone())
    }

    /// Leaves the program of a unit alone, whatever it does from now on.
    pub(crate) fn let_go(&self, key: Key) {
        let kept = hold(&self.kept).remove(&key);
        drop(kept);
        self.reporter.forget(key.unit);
    }

    /// Sets who is informed of programs that end, and of those that run again.
    pub(crate) fn report_to(&self, receiver: Arc<dyn ReportReceiver>) {
        self.reporter.report_to(receiver);
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.stop.ask();
        if let Some(thread) = self.thread.take() {
            // It has nothing to say, not even when it panicked.
            let _ = thread.join();
        }
    }
}

/// A program as its thread sees it.
struct Watched {
    key: Key,
    plan: Plan,
    note: Noting,
    stop: Arc<Stop>,
    health: Arc<Mutex<Health>>,
    reporter: Arc<Reporter>,
}

/// That the program of a unit does not run, with what it wrote last.
pub(crate) fn does_not_run(unit: UnitId, how: &str, log: &Logger) -> DriverError {
    let last = last_words(&log.folder);
    let last = last.map_or_else(String::new, |last| format!("; it wrote last: {last}"));
    DriverError(format!("the program of {unit} does not run: {how}{last}"))
}

impl Watched {
    fn watch(self, first: Process) {
        let mut process = first;
        let mut pause = PAUSES.0;
        loop {
            let begun = Instant::now();
            let Some(how) = self.wait_for(&process) else { return };
            self.ended(&how);
            // Two loggers would get in each other's way, and the last words are part of a report.
            if let Err(error) = Logger::let_end(&self.plan.mark) {
                tracing::warn!(unit = %self.key.unit, %error, "the logger of a program has not ended");
            }
            let why = does_not_run(self.key.unit, &how, &self.plan.log);
            if !self.plan.restart {
                return self.report(Finding::Failed(why));
            }
            self.report(Finding::Down(why));
            if begun.elapsed() > PAUSES.1 {
                pause = PAUSES.0;
            }
            process = loop {
                let until = Instant::now() + pause;
                pause = (pause * 2).min(PAUSES.1);
                while Instant::now() < until && !self.stop.is_asked() {
                    if wait(&[self.stop.as_fd()], Some(until)).is_err() {
                        return;
                    }
                }
                if self.stop.is_asked() {
                    return;
                }
                let alone = Logger::let_end(&self.plan.mark)
                    .map_err(|error| DriverError(format!("its logger: {error}")));
                match alone.and_then(|()| start(&self.plan, &self.note)) {
                    Ok(process) => break process,
                    Err(error) => self.ended(&error.0),
                }
            };
            *hold(&self.health) = Health::Runs(process.clone());
            self.report(Finding::Up);
        }
    }

    /// Waits until the program has ended, and says how; nothing if it is to be left alone.
    fn wait_for(&self, process: &Process) -> Option<String> {
        let mut status = None;
        if let Some(watch) = process.watch() {
            loop {
                let ready = wait(&[self.stop.as_fd(), watch.as_fd()], None).ok()?;
                if self.stop.is_asked() {
                    return None;
                }
                if ready.get(1) == Some(&true) {
                    break;
                }
            }
            // Its children go with it; the number of its group is its own until it is reaped.
            let cgroup = self.plan.cgroup.as_ref();
            let ended = end_unit(&self.plan.mark, Some(process), cgroup, Duration::ZERO);
            if let Err(error) = ended {
                self.ended(&error.to_string());
            }
            status = reap(watch.as_fd());
        }
        let code = status.as_ref().and_then(|status| status.exit_status());
        let signal = status.as_ref().and_then(|status| status.terminating_signal());
        Some(match (code, signal) {
            (Some(code), _) => format!("it ended with exit code {code}"),
            (_, Some(signal)) => format!("it was ended by signal {signal}"),
            _ => "it has ended".to_owned(),
        })
    }

    fn report(&self, finding: Finding) {
        let (unit, epoch) = (self.key.unit, self.plan.epoch);
        self.reporter.report(Report { unit, epoch, finding });
    }

    fn ended(&self, how: &str) {
        tracing::warn!(unit = %self.key.unit, restart = self.plan.restart, "the program of a unit: {how}");
        *hold(&self.health) = Health::Ended(how.to_owned());
    }
}

/// Starts a program: cgroup, limits and note first, then the program itself.
fn start(plan: &Plan, note: &Noting) -> Result<Process, DriverError> {
    let failed = |error: io::Error| DriverError(format!("cannot be started: {error}"));
    let output = plan.log.start(&plan.mark).map_err(failed)?;
    let command: Vec<&OsStr> = plan.command.iter().map(OsStr::new).collect();
    let launch = Launch {
        command: &command,
        folder: &plan.folder,
        mark: &plan.mark,
        input: Some(&plan.input),
        output: (Stdio::from(output.try_clone().map_err(failed)?), Stdio::from(output)),
    };
    let gated = launch.start(None).map_err(failed)?;
    let take = |cgroup: &UnitCgroup| cgroup.take(&gated.process, &plan.bounds);
    let taken = plan.cgroup.as_ref().map_or(Ok(()), take);
    let limited = taken.and_then(|()| plan.limits.set(&gated.process));
    let ready = limited.map_err(failed).and_then(|()| note(&gated.process));
    match ready {
        Ok(()) => gated.open().map_err(failed),
        Err(error) => {
            gated.turn_away().map_err(failed)?;
            Err(error)
        }
    }
}
