//! `exec`: programs of the guest's for each thing that an adapter does.

use std::time::Duration;

use serde::Deserialize;
use tenure_core::driver::DriverError;
use tenure_core::model::property::Properties;
use tenure_core::service_manager::services::Found;

use super::command::{CommandPlace, Every, Program, Programs, short};
use super::joins::Tenancy;
use super::registry::Place;
use super::{Act, Adapter, AdapterError, Sensed, kpis};
use crate::driver::exec::Timeout;
use crate::driver::programs::Command;
use crate::driver::run::Ended;
use crate::driver::stop::Stop;

/// The exit code of a program that finds its service stopped, as init scripts have it (LSB).
const STOPPED: i32 = 3;

/// What `exec` takes.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct Settings {
    sense: Command,
    #[serde(default)]
    every: Every,
    #[serde(default = "short")]
    timeout: Timeout,
    start: Option<Command>,
    stop: Option<Command>,
    join: Option<Command>,
    leave: Option<Command>,
    /// Where those two run.
    #[serde(default)]
    place: CommandPlace,
    /// For every program but `sense`.
    #[serde(default)]
    step_timeout: Timeout,
}

struct Exec {
    programs: Programs,
    settings: Settings,
}

/// Opens one.
pub(super) fn open(place: Place<'_>, settings: Settings) -> Box<dyn Adapter> {
    Box::new(Exec { programs: Programs::of(place).at(settings.place), settings })
}

impl Adapter for Exec {
    fn every(&self) -> Duration {
        self.settings.every.0
    }

    fn sense(&self, stop: &Stop) -> Result<Sensed, AdapterError> {
        let (command, timeout) = (&self.settings.sense.0, self.settings.timeout.0);
        let program = Program { what: "sense", command, timeout, variables: &[] };
        let Ended { status, output, complaint } = self.programs.run(program, stop)?;
        match status.code() {
            Some(0) => {
                let read = kpis::read(&String::from_utf8_lossy(&output));
                let read = read.map_err(|why| AdapterError::Failed(format!("sense: {why}")))?;
                let kpis::Read { kpis, busy, members } = read;
                Ok(Sensed { busy, members, ..Sensed::running(kpis) })
            }
            Some(STOPPED) => Ok(Sensed::found(Found::Stopped, None)),
            Some(_) | None => {
                let why =
                    Some(format!("the sense program says that it failed ({status}){complaint}"));
                Ok(Sensed::found(Found::Failed, why))
            }
        }
    }

    fn can(&self, act: Act) -> bool {
        act.command((&self.settings.start, &self.settings.stop)).is_some()
    }

    fn start(&self, stop: &Stop) -> Result<(), AdapterError> {
        self.act("start", self.settings.start.as_ref(), stop)
    }

    fn stop(&self, stop: &Stop) -> Result<(), AdapterError> {
        self.act("stop", self.settings.stop.as_ref(), stop)
    }

    fn joins(&self) -> bool {
        self.settings.join.is_some() || self.settings.leave.is_some()
    }

    fn join(&self, tenancy: &Tenancy<'_>) -> Result<Properties, DriverError> {
        self.for_unit("join", self.settings.join.as_ref(), tenancy)?;
        Ok(Properties::default())
    }

    fn leave(&self, tenancy: &Tenancy<'_>) -> Result<(), DriverError> {
        self.for_unit("leave", self.settings.leave.as_ref(), tenancy)
    }
}

impl Exec {
    fn act(
        &self,
        what: &'static str,
        command: Option<&Command>,
        stop: &Stop,
    ) -> Result<(), AdapterError> {
        self.programs.act((what, command), (self.settings.step_timeout.0, &[]), stop)
    }

    fn for_unit(
        &self,
        what: &str,
        command: Option<&Command>,
        tenancy: &Tenancy<'_>,
    ) -> Result<(), DriverError> {
        self.programs.act_on((what, command), (self.settings.step_timeout.0, &[]), tenancy)
    }
}
