//! `process`: a unit is a supervised process in a folder of its own, with limits; no root is needed.
//!
//! The program is configured at the site, the guest chooses the names. It runs in the unit's folder, in
//! a process group of its own, with a clean environment, and is started again when it ends. It goes on when
//! the site's process ends, also by `kill -9`, and the next one takes it up again.
//! A teardown ends all that the unit has started and removes the folder.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tenure_core::driver::{DriverError, Epoch, ResourceDriver, Step};
use tenure_core::property::Properties;
use tenure_core::time::Span;

use super::child::{Process, Reach, end};
use super::fence::{Deeds, Fence, Site, Work, noted};
use super::record::{Key, Progress, Record, about, create_folder};
use super::roster::{Roster, host_name, list};
use super::supervise::{Health, Limits, Noting, Plan, Supervisor};

/// What `process` takes.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Settings {
    /// The program and its arguments.
    command: Command,
    limits: Limits,
    /// Whether a program that ended is started again.
    restart: bool,
    /// How long a program may take to end by itself at a teardown.
    grace: Grace,
    /// The domain of the units' host names.
    domain: Option<String>,
    /// The address of the machine, as guests reach it.
    address: String,
    /// Unit 0's port; every unit has the one of its number.
    port: Option<u16>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            command: Command::default(),
            limits: Limits::default(),
            restart: true,
            grace: Grace::default(),
            domain: None,
            address: "127.0.0.1".to_owned(),
            port: None,
        }
    }
}

/// A program by an absolute path, and its arguments. The usual one waits for its end.
#[derive(Clone, Debug, Deserialize)]
#[serde(try_from = "Vec<String>")]
pub(crate) struct Command(pub(crate) Vec<String>);

impl Default for Command {
    fn default() -> Self {
        Self(["/bin/sh", "-c", "while :; do sleep 3600; done"].map(str::to_owned).to_vec())
    }
}

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

/// How long a program may take to end when it is asked to.
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
        micros
            .map(|micros| Self(Duration::from_micros(micros)))
            .map_err(|_| format!("{span} is negative"))
    }
}

/// What is noted of a unit while something of it may run.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Note {
    epoch: Epoch,
    process: Process,
}

/// The units of one site.
struct Units {
    home: PathBuf,
    settings: Settings,
    fence: Arc<Fence>,
    roster: Roster,
    supervisor: Supervisor,
}

/// Opens the driver, and takes up the units that are set up.
pub(crate) fn site(home: &Path, settings: Settings) -> io::Result<Box<dyn ResourceDriver>> {
    let fence = Arc::new(Fence::open(home)?);
    let home = home.canonicalize()?;
    create_folder(&home.join("folders"))?;
    create_folder(&home.join("logs"))?;
    let roster = Roster::open(&home)?;
    let supervisor = Supervisor::default();
    let units = Units { home, settings, fence: Arc::clone(&fence), roster, supervisor };
    for record in fence.records()? {
        // A step that was cut off is called again, and finds out for itself.
        let Some((Step::Setup, Progress::Done(_))) = record.newest() else { continue };
        if let Some(Note { epoch, process }) = noted(&record).map_err(io::Error::other)? {
            units.keep(record.key, epoch, Some(process)).map_err(io::Error::other)?;
        }
    }
    Ok(Box::new(Site { fence, deeds: units }))
}

impl Deeds for Units {
    fn perform(&self, work: &Work<'_>) -> Result<Properties, DriverError> {
        match work.call.step {
            Step::Setup => self.set_up(work),
            Step::Teardown | Step::Join | Step::Leave => self.tear_down(work),
        }
    }

    fn probe(&self, key: Key, record: Option<&Record>) -> Result<Properties, DriverError> {
        let host = record.and_then(|record| match record.steps.get(&Step::Setup)? {
            Progress::Done(properties) => properties.get("host.name"),
            Progress::Begun | Progress::Failed(_) => None,
        });
        match self.supervisor.health(key) {
            Some(Health::Runs(process)) => self.properties(key, &process, host.map(str::to_owned)),
            Some(Health::Ended(how)) => {
                Err(DriverError(format!("{} does not run: {how}", key.unit)))
            }
            None => Err(DriverError(format!("{} is not set up", key.unit))),
        }
    }
}

impl Units {
    fn set_up(&self, work: &Work<'_>) -> Result<Properties, DriverError> {
        let (key, epoch) = (work.key(), work.call.epoch);
        let place = self.roster.take(work.call)?;
        let host = host_name(work.call, place, self.settings.domain.as_deref())?;
        let before = work.note::<Note>()?;
        // A setup that was cut off may have got as far as a program that runs.
        let running = before.filter(|note| {
            work.interrupted && note.epoch == epoch && note.process.is_running_its_program()
        });
        if running.is_none() {
            self.clean(work)?;
            create_folder(&self.folder(key)).map_err(in_words)?;
        }
        let process = self.keep(key, epoch, running.map(|note| note.process))?;
        self.properties(key, &process, Some(host))
    }

    fn tear_down(&self, work: &Work<'_>) -> Result<Properties, DriverError> {
        self.clean(work)?;
        self.roster.release(work.key())?;
        Ok(Properties::default())
    }

    /// Ends whatever runs for the unit, in whatever epoch it was started, and removes what it wrote.
    fn clean(&self, work: &Work<'_>) -> Result<(), DriverError> {
        let key = work.key();
        self.supervisor.let_go(key);
        let first = work.note::<Note>()?.map(|note| note.process);
        let grace = self.settings.grace.0;
        end(&self.mark(key), first.as_ref(), Reach::All, grace).map_err(in_words)?;
        let (folder, log) = (self.folder(key), self.log(key));
        for (path, removed) in
            [(&folder, fs::remove_dir_all(&folder)), (&log, fs::remove_file(&log))]
        {
            match removed {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(in_words(about(path, error)));
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn keep(
        &self,
        key: Key,
        epoch: Epoch,
        running: Option<Process>,
    ) -> Result<Process, DriverError> {
        let plan = Plan {
            command: self.settings.command.0.clone(),
            folder: self.folder(key),
            mark: self.mark(key),
            input: PathBuf::from("/dev/null"),
            log: self.log(key),
            limits: self.settings.limits.clone(),
            restart: self.settings.restart,
        };
        let fence = Arc::clone(&self.fence);
        let note: Noting =
            Box::new(move |process| fence.keep(key, &Note { epoch, process: process.clone() }));
        self.supervisor.keep(key, plan, running, note)
    }

    fn properties(
        &self,
        key: Key,
        process: &Process,
        host: Option<String>,
    ) -> Result<Properties, DriverError> {
        let port = self.settings.port.and_then(|first| {
            let number = u16::try_from(key.unit.0).ok()?;
            first.checked_add(number)
        });
        list([
            ("host.name", host),
            ("host.privipaddr", Some(self.settings.address.clone())),
            ("unit.directory", Some(self.folder(key).display().to_string())),
            ("unit.pid", Some(process.pid.to_string())),
            ("unit.port", port.map(|port| port.to_string())),
        ])
    }

    fn mark(&self, key: Key) -> String {
        format!("{}:{}", self.home.display(), key.file_name())
    }

    fn folder(&self, key: Key) -> PathBuf {
        self.home.join("folders").join(key.file_name())
    }

    fn log(&self, key: Key) -> PathBuf {
        self.home.join("logs").join(key.file_name())
    }
}

fn in_words(error: io::Error) -> DriverError {
    DriverError(error.to_string())
}
