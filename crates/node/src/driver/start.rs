//! `start`: a guest's driver that keeps a program running on each unit it has.
//!
//! The program runs in the unit's network namespace, if it has one. It reads what is known of the unit as
//! JSON on its standard input. It writes only below the driver's own folder: a site does not choose paths
//! on the guest's machine.

use std::io;
use std::path::Path;

use serde::Deserialize;
use tenure_core::driver::{Call, DriverError, GuestDriver, Step};
use tenure_core::model::property::Properties;
use tenure_core::model::time::Time;

use super::cgroup::Bounds;
use super::fence::{DriverSteps, Guest, Work};
use super::log::LogSize;
use super::netns;
use super::programs::{Command, Grace, Programs, Terms};
use super::record::{Key, Progress, Record};
use super::roster::list;
use super::supervise::Limits;

/// What `start` takes.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Settings {
    /// The program and its arguments.
    command: Command,
    #[serde(default)]
    limits: Limits,
    /// Whether each program has a cgroup of its own, where it can.
    #[serde(default = "yes")]
    cgroup: bool,
    /// What all processes of a unit may use together.
    #[serde(default)]
    bounds: Bounds,
    /// Whether a program that ended is started again.
    #[serde(default = "yes")]
    restart: bool,
    /// How long a program may take to end by itself when the unit is left.
    #[serde(default)]
    grace: Grace,
    /// How many bytes of what a program writes are kept.
    #[serde(default)]
    log: LogSize,
}

fn yes() -> bool {
    true
}

/// The programs of one guest.
struct Started {
    command: Vec<String>,
    programs: Programs,
}

/// Opens the driver, and takes up the programs of the units that have joined.
pub(crate) fn guest(home: &Path, settings: Settings) -> io::Result<Box<dyn GuestDriver>> {
    let Settings { command, limits, cgroup, bounds, restart, grace, log } = settings;
    let terms = Terms { limits, cgroup, bounds, restart, grace, log };
    let (programs, fence) = Programs::open(home, terms)?;
    let started = Started { command: command.0, programs };
    for record in fence.records()? {
        if let Some((Step::Join, Progress::Done(_))) = record.newest() {
            // The unit may be gone by now; then so is its program, and the others are not held up.
            let unit = &record.tenant.properties;
            let taken_up =
                started.on(unit).and_then(|command| started.programs.take_up(&record, command));
            if let Err(error) = taken_up {
                tracing::warn!(unit = %record.key.unit, "its program is not taken up: {error}");
            }
        }
    }
    Ok(Box::new(Guest { fence, steps: started }))
}

impl DriverSteps for Started {
    fn perform(&self, work: &Work<'_>) -> Result<Properties, DriverError> {
        match work.call.step {
            Step::Join | Step::Setup => {
                let command = self.on(&work.call.properties)?;
                self.programs.begin(work, command)?;
                self.probe(work.key(), None)
            }
            Step::Leave
            | Step::Teardown
            | Step::Modify
            | Step::Warn
            | Step::Install
            | Step::Remove => {
                self.programs.end(work)?;
                Ok(Properties::default())
            }
        }
    }

    fn warn(&self, call: &Call, deadline: Time) -> Result<(), DriverError> {
        self.programs.warn(call, deadline)
    }

    fn probe(&self, key: Key, _: Option<&Record>) -> Result<Properties, DriverError> {
        let process = self.programs.running(key)?;
        list([("unit.pid", Some(process.pid.to_string()))])
    }
}

impl Started {
    /// The command on a unit with these properties.
    fn on(&self, unit: &Properties) -> Result<Vec<String>, DriverError> {
        match unit.get(netns::NAMESPACE) {
            Some(namespace) => netns::inside(namespace, &self.command),
            None => Ok(self.command.clone()),
        }
    }
}
