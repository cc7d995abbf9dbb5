//! One supervised program per unit: begun and ended by steps, taken up again by the next driver.

use std::fs;
use std::io;
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tenure_core::driver::{Call, DriverError, Epoch, ReportReceiver};
use tenure_core::model::time::{Span, Time};

use super::cgroup::{Bounds, Delegated, UnitCgroup, delegated};
use super::child::{Process, end_unit, reap};
use super::fence::{Fence, Work, noted};
use super::log::{LogSize, Logger};
use super::record::{Key, Record, about, create_folder, write};
use super::step_input::StepInput;
use super::supervise::{Health, Limits, Noting, Plan, Supervisor, does_not_run};

/// A program by an absolute path, and its arguments.
#[derive(Clone, Debug, Deserialize)]
#[serde(try_from = "Vec<String>")]
pub(crate) struct Command(pub(crate) Vec<String>);

impl TryFrom<Vec<String>> for Command {
    type Error = String;

    fn try_from(words: Vec<String>) -> Result<Self, String> {
        match words.first() {
            Some(program) if Path::new(program).is_absolute() => Ok(Self(words)),
            Some(program) => Err(format!("the program `{program}` is not an absolute path")),
            None => Err("a command is a program and its arguments".to_owned()),
        }
    }
}

/// How long a program may take to end when it is asked to: two seconds by default.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(try_from = "Span")]
pub(crate) struct Grace(pub(crate) Duration);

impl Default for Grace {
    fn default() -> Self {
        Self(Duration::from_secs(2))
    }
}

impl TryFrom<Span> for Grace {
    type Error = String;

    fn try_from(span: Span) -> Result<Self, String> {
        let micros = u64::try_from(span.as_micros());
        let grace = micros.map(|micros| Self(Duration::from_micros(micros)));
        grace.map_err(|_| format!("{span} is negative"))
    }
}

/// What is noted of a unit while something of it may run.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Note {
    epoch: Epoch,
    process: Process,
}

/// The programs of one driver.
pub(crate) struct Programs {
    home: PathBuf,
    fence: Arc<Fence>,
    supervisor: Supervisor,
    terms: Terms,
    /// Below it units have their cgroups, if they have any.
    delegated: Option<&'static Delegated>,
}

/// What holds for every program of a driver.
pub(crate) struct Terms {
    pub(crate) limits: Limits,
    /// Whether each unit has a cgroup of its own, where it can.
    pub(crate) cgroup: bool,
    /// What all processes of a unit may use together.
    pub(crate) bounds: Bounds,
    /// Whether a program that ended is started again.
    pub(crate) restart: bool,
    /// How long a program may take to end by itself.
    pub(crate) grace: Grace,
    /// How much of what a program writes is kept.
    pub(crate) log: LogSize,
}

/// What units have their cgroups below; none, if they are to have none or there is none. Bounds hold, or are
/// refused.
pub(crate) fn cgroups(cgroup: bool, bounds: &Bounds) -> io::Result<Option<&'static Delegated>> {
    let bounded = *bounds != Bounds::default();
    let refused = |why: &str| io::Error::other(format!("`bounds` need cgroups, and {why}"));
    match (cgroup, delegated()) {
        (true, Ok(delegated)) => {
            delegated.enable(bounds)?;
            Ok(Some(delegated))
        }
        (true, Err(why)) if bounded => Err(refused(why)),
        (false, _) if bounded => Err(refused("`cgroup` is false")),
        (false, _) | (true, Err(_)) => Ok(None),
    }
}

impl Programs {
    /// Opens a driver's folder, with nothing supervised yet.
    pub(crate) fn open(home: &Path, terms: Terms) -> io::Result<(Self, Arc<Fence>)> {
        let delegated = cgroups(terms.cgroup, &terms.bounds)?;
        let fence = Arc::new(Fence::open(home)?);
        let home = home.canonicalize()?;
        for folder in ["folders", "logs", "inputs"] {
            create_folder(&home.join(folder))?;
        }
        let supervisor = Supervisor::default();
        let programs = Self { home, fence: Arc::clone(&fence), supervisor, terms, delegated };
        Ok((programs, fence))
    }

    /// Begins a unit's program in a folder of its own. What ran for the unit before is ended, except that a
    /// call which was cut off after it had begun this very program continues with it.
    pub(crate) fn begin(
        &self,
        work: &Work<'_>,
        command: Vec<String>,
    ) -> Result<Process, DriverError> {
        let (key, epoch) = (work.key(), work.call.epoch);
        let running = work.note::<Note>()?.filter(|note| {
            work.interrupted && note.epoch == epoch && note.process.is_running_its_program()
        });
        if running.is_none() {
            self.end(work)?;
            create_folder(&self.folder(key)).map_err(in_words)?;
            write(&self.input(key), &StepInput::of(work.call)).map_err(in_words)?;
        }
        self.keep(key, epoch, command, running.map(|note| note.process))
    }

    /// Leaves word in the folder of a unit's program that the unit is recalled.
    pub(crate) fn warn(&self, call: &Call, deadline: Time) -> Result<(), DriverError> {
        let path = self.folder(Key::of(call)).join("warning.json");
        write(&path, &StepInput::of(call).until(Some(deadline))).map_err(in_words)
    }

    /// Ends whatever runs for a unit, in whatever epoch it was begun, and removes what it wrote.
    pub(crate) fn end(&self, work: &Work<'_>) -> Result<(), DriverError> {
        let key = work.key();
        self.supervisor.let_go(key);
        // Without a record nothing was begun, unless the driver's folder was lost; the mark shows which.
        let process = work.note::<Note>()?.map(|note| note.process);
        let mark = self.mark(key);
        let (cgroup, grace) = (self.cgroup(key), self.terms.grace.0);
        end_unit(&mark, process.as_ref(), cgroup.as_ref(), grace).map_err(in_words)?;
        if let Some(watch) = process.and_then(|process| process.watch()) {
            reap(watch.as_fd());
        }
        Logger::end(&mark).map_err(in_words)?;
        let (folder, log, input) = (self.folder(key), self.log(key), self.input(key));
        let removed = [
            (&folder, fs::remove_dir_all(&folder)),
            (&log, fs::remove_dir_all(&log)),
            (&input, fs::remove_file(&input)),
        ];
        for (path, removed) in removed {
            match removed {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(in_words(about(path, error)));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Takes up the program of a unit that an earlier driver has left, and starts it again if it is gone.
    pub(crate) fn take_up(&self, record: &Record, command: Vec<String>) -> Result<(), DriverError> {
        let Some(Note { epoch, process }) = noted(record)? else { return Ok(()) };
        self.keep(record.key, epoch, command, Some(process)).map(drop)
    }

    /// The process of a unit, or why there is none.
    pub(crate) fn running(&self, key: Key) -> Result<Process, DriverError> {
        match self.supervisor.health(key) {
            Some(Health::Runs(process)) if process.is_alive() => Ok(process),
            Some(Health::Runs(_)) => {
                Err(DriverError(format!("the program of {} has just ended", key.unit)))
            }
            Some(Health::Ended(how)) => Err(does_not_run(key.unit, &how, &self.logger(key))),
            None => Err(DriverError(format!("{} has no program", key.unit))),
        }
    }

    /// Sets who is informed of programs that end.
    pub(crate) fn report_to(&self, receiver: Arc<dyn ReportReceiver>) {
        self.supervisor.report_to(receiver);
    }

    /// The folder that a unit's program has to itself.
    pub(crate) fn folder(&self, key: Key) -> PathBuf {
        self.home.join("folders").join(key.file_name())
    }

    fn keep(
        &self,
        key: Key,
        epoch: Epoch,
        command: Vec<String>,
        running: Option<Process>,
    ) -> Result<Process, DriverError> {
        let plan = Plan {
            epoch,
            command,
            folder: self.folder(key),
            mark: self.mark(key),
            input: self.input(key),
            log: self.logger(key),
            limits: self.terms.limits.clone(),
            cgroup: self.cgroup(key),
            bounds: self.terms.bounds.clone(),
            restart: self.terms.restart,
        };
        let fence = Arc::clone(&self.fence);
        let note: Noting =
            Box::new(move |process| fence.keep(key, &Note { epoch, process: process.clone() }));
        self.supervisor.keep(key, plan, running, note)
    }

    fn cgroup(&self, key: Key) -> Option<UnitCgroup> {
        self.delegated.map(|delegated| delegated.of(&self.mark(key), key.unit))
    }

    fn mark(&self, key: Key) -> String {
        format!("{}:{}", self.home.display(), key.file_name())
    }

    fn log(&self, key: Key) -> PathBuf {
        self.home.join("logs").join(key.file_name())
    }

    fn logger(&self, key: Key) -> Logger {
        Logger { folder: self.log(key), size: self.terms.log }
    }

    fn input(&self, key: Key) -> PathBuf {
        self.home.join("inputs").join(key.file_name())
    }
}

fn in_words(error: io::Error) -> DriverError {
    DriverError(error.to_string())
}
