//! `process`: a unit is a supervised process in a folder of its own, with limits; no root is needed.
//!
//! The program is configured at the site, the guest chooses the names. It runs in the unit's folder, in
//! a process group of its own, with a clean environment, and is started again when it ends. It continues when
//! the site's process ends, also by `kill -9`, and the next one takes it up again.
//! A teardown ends all that the unit has started, in its cgroup where it has one, and removes the folder.

use std::io;
use std::path::Path;
use std::sync::Arc;

use serde::Deserialize;
use tenure_core::driver::{DriverError, ReportReceiver, ResourceDriver, Step};
use tenure_core::model::property::Properties;

use super::cgroup::Bounds;
use super::child::Process;
use super::fence::{DriverSteps, Site, Work};
use super::log::LogSize;
use super::programs::{Command, Grace, Programs, Terms};
use super::record::{Key, Progress, Record};
use super::roster::{Roster, host_name, list};
use super::supervise::Limits;

/// What `process` takes.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Settings {
    /// The program and its arguments.
    command: Command,
    limits: Limits,
    /// Whether each unit has a cgroup of its own, where it can.
    cgroup: bool,
    /// What all processes of a unit may use together.
    bounds: Bounds,
    /// Whether a program that ended is started again.
    restart: bool,
    /// How long a program may take to end by itself at a teardown.
    grace: Grace,
    /// How many bytes of what a program writes are kept.
    log: LogSize,
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
            // Waits for its end.
            command: Command(
                ["/bin/sh", "-c", "while :; do sleep 3600; done"].map(str::to_owned).into(),
            ),
            limits: Limits::default(),
            cgroup: true,
            bounds: Bounds::default(),
            restart: true,
            grace: Grace::default(),
            log: LogSize::default(),
            domain: None,
            address: "127.0.0.1".to_owned(),
            port: None,
        }
    }
}

/// The units of one site.
struct Units {
    settings: Settings,
    programs: Programs,
    roster: Roster,
}

/// Opens the driver, and takes up the units that are set up.
pub(crate) fn site(home: &Path, settings: Settings) -> io::Result<Box<dyn ResourceDriver>> {
    let Settings { limits, cgroup, bounds, restart, grace, log, .. } = settings.clone();
    let terms = Terms { limits, cgroup, bounds, restart, grace, log };
    let (programs, fence) = Programs::open(home, terms)?;
    let units = Units { settings, programs, roster: Roster::open(home)? };
    for record in fence.records()? {
        // A step that was cut off is called again, and finds out for itself.
        if let Some((Step::Setup, Progress::Done(_))) = record.newest() {
            let command = units.settings.command.0.clone();
            units.programs.take_up(&record, command).map_err(io::Error::other)?;
        }
    }
    Ok(Box::new(Site { fence, steps: units }))
}

impl DriverSteps for Units {
    fn perform(&self, work: &Work<'_>) -> Result<Properties, DriverError> {
        let key = work.key();
        match work.call.step {
            Step::Setup => {
                let port = self.port(key)?;
                let place = self.roster.take(work.call)?;
                let host = host_name(work.call, place, self.settings.domain.as_deref())?;
                let process = self.programs.begin(work, self.settings.command.0.clone())?;
                self.properties(key, &process, Some(host), port)
            }
            Step::Teardown
            | Step::Join
            | Step::Leave
            | Step::Modify
            | Step::Warn
            | Step::Install
            | Step::Remove => {
                self.programs.end(work)?;
                self.roster.release(key)?;
                Ok(Properties::default())
            }
        }
    }

    fn probe(&self, key: Key, record: Option<&Record>) -> Result<Properties, DriverError> {
        let process = self.programs.running(key)?;
        let host = record.and_then(|record| match record.steps.get(&Step::Setup)? {
            Progress::Done(properties) => properties.get("host.name").map(str::to_owned),
            Progress::Begun | Progress::Failed(_) => None,
        });
        self.properties(key, &process, host, self.port(key)?)
    }

    fn report_to(&self, receiver: Arc<dyn ReportReceiver>) {
        self.programs.report_to(receiver);
    }
}

/// The port of a unit, where unit 0 has the `first`.
fn port_of(first: u16, key: Key) -> Result<u16, DriverError> {
    let number = u16::try_from(key.unit.0).ok();
    number.and_then(|number| first.checked_add(number)).ok_or_else(|| {
        DriverError(format!(
            "no port is left for {}: unit 0 has {first}, each other one the next, and {} is the last; \
             choose a lower `port`",
            key.unit,
            u16::MAX
        ))
    })
}

impl Units {
    fn port(&self, key: Key) -> Result<Option<u16>, DriverError> {
        self.settings.port.map(|first| port_of(first, key)).transpose()
    }

    fn properties(
        &self,
        key: Key,
        process: &Process,
        host: Option<String>,
        port: Option<u16>,
    ) -> Result<Properties, DriverError> {
        list([
            ("host.name", host),
            ("host.privipaddr", Some(self.settings.address.clone())),
            ("unit.directory", Some(self.programs.folder(key).display().to_string())),
            ("unit.pid", Some(process.pid.to_string())),
            ("unit.port", port.map(|port| port.to_string())),
        ])
    }
}
