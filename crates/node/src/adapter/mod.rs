//! Adapters: what connects a service with its software ([docs/ADAPTERS.md](../../../../docs/ADAPTERS.md)).
//!
//! An adapter is named in the definition of a service. It senses how the software is, starts and stops it, and may
//! have it take up the units that are leased for the service. All of it may block: each service has a thread of its
//! own, and joins and leaves run where calls of drivers do. Whatever an adapter runs has a time-out.

mod adapters;
mod command;
mod drain;
mod exec;
mod grid_engine;
mod haproxy;
mod joins;
mod kpis;
mod look;
mod pool;
mod queue;
mod registry;
mod slurm;
mod tools;
mod worker;

use std::collections::BTreeMap;
use std::time::Duration;

use tenure_core::driver::DriverError;
use tenure_core::model::property::Properties;
use tenure_core::service::kpi::Kpis;
use tenure_core::service::member::{BadMembers, Members};
use tenure_core::service_manager::services::Found;
use thiserror::Error;

use crate::driver::record::Record;
use crate::driver::stop::Stop;

pub use adapters::Adapters;
pub(crate) use joins::Adapted;
pub(crate) use look::look_once;
pub(crate) use registry::kpis;
pub use registry::{BadAdapter, check};
pub(crate) use worker::Act;

/// What connects one service with its software.
///
/// A method that blocks ends soon after its `stop` is asked for.
pub(crate) trait Adapter: Send + Sync {
    /// How often it is to look at the software.
    fn every(&self) -> Duration;

    /// Looks how the software is. After an error nothing is known: what was measured before grows stale.
    fn sense(&self, stop: &Stop) -> Result<Sensed, AdapterError>;

    /// The names of all KPIs that it can measure; none if its settings do not tell.
    fn kpis(&self) -> Option<&'static [&'static str]> {
        None
    }

    /// Whether it is told how to do something.
    fn can(&self, _act: Act) -> bool {
        false
    }

    /// Has the software begin to work. Idempotent.
    fn start(&self, _stop: &Stop) -> Result<(), AdapterError> {
        Err(AdapterError::Unable("start"))
    }

    /// Has the software end its work. Idempotent.
    fn stop(&self, _stop: &Stop) -> Result<(), AdapterError> {
        Err(AdapterError::Unable("stop"))
    }

    /// Whether units of the service join by it; if not, by the driver of the service manager.
    fn joins(&self) -> bool {
        false
    }

    /// Has the software take up a unit. It is called again after a crash.
    fn join(&self, _tenancy: &Tenancy<'_>) -> Result<Properties, DriverError> {
        Ok(Properties::default())
    }

    /// Has the software keep a unit that it uses already, as one of the service, and changes nothing else. It is
    /// called again after a crash.
    fn adopt(&self, _tenancy: &Tenancy<'_>) -> Result<Properties, DriverError> {
        Err(DriverError::untouched("its adapter takes over no units in use"))
    }

    /// Has the software give up a unit, whether or not it was taken up. It is called again after a crash.
    fn leave(&self, _tenancy: &Tenancy<'_>) -> Result<(), DriverError> {
        Ok(())
    }

    /// Says how a unit is, without changing anything.
    fn probe(&self, _record: &Record, _stop: &Stop) -> Result<Properties, DriverError> {
        Ok(Properties::default())
    }
}

/// How a service was found.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Sensed {
    /// In a word.
    pub(crate) found: Found,
    /// All its KPIs; none unless it runs.
    pub(crate) kpis: Kpis,
    /// The [marks](crate::driver::record::Key::mark) of its units that are at work, if that is known, and how much would
    /// be lost of each, in a measure of the adapter's.
    pub(crate) busy: BTreeMap<String, u64>,
    /// What takes part in it without a lease, if it runs and that counts.
    pub(crate) members: Members,
    /// What is wrong with it, if something is.
    pub(crate) why: Option<String>,
}

impl Sensed {
    /// It was found so; nothing was measured.
    pub(crate) fn found(found: Found, why: Option<String>) -> Self {
        let (kpis, busy, members) = (Kpis::default(), BTreeMap::new(), Members::default());
        Self { found, kpis, busy, members, why }
    }

    /// It runs, and this was measured.
    pub(crate) fn running(kpis: Kpis) -> Self {
        Self { kpis, ..Self::found(Found::Running, None) }
    }
}

/// Why an adapter did not do what it was asked.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum AdapterError {
    /// It does not do such things, or is not told how.
    #[error("its adapter is not told how to {0} it")]
    Unable(&'static str),
    /// It failed.
    #[error("{0}")]
    Failed(String),
}

impl From<BadMembers> for AdapterError {
    fn from(bad: BadMembers) -> Self {
        Self::Failed(bad.to_string())
    }
}

impl From<DriverError> for AdapterError {
    fn from(error: DriverError) -> Self {
        Self::Failed(error.0)
    }
}

pub(crate) use joins::Tenancy;

#[cfg(test)]
mod tests;
