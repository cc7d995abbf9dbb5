//! Units of services whose adapters have the software take them up: a driver in front of that of the guest.
//!
//! A unit is joined by the adapter that the service of its slice has then, and left by the same with the same
//! settings, whatever has become of the service since: they are noted with the unit.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tenure_core::driver::{Answer, Call, DriverError, Epoch, GuestDriver, Step, UnitId};
use tenure_core::model::identity::{ActorId, Signer};
use tenure_core::model::keys::KeyChain;
use tenure_core::model::property::Properties;
use tenure_core::model::time::{Span, Time};
use tenure_core::service::adapter::Adapter as Spec;

use super::Adapter;
use super::adapters::Adapters;
use super::registry::{self, Place};
use crate::driver::adoption::Adopt;
use crate::driver::child::{Process, Reach, end};
use crate::driver::executors::{self, Executors};
use crate::driver::fence::{DriverSteps, Fence, Guest, Work, hold, noted};
use crate::driver::record::{Key, Record};
use crate::driver::stop::Stop;
use crate::net::task::{Command, Ran};

/// What is noted of a unit.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Note {
    /// The tenancy.
    epoch: Epoch,
    /// The adapter that joined it.
    adapter: Spec,
    /// The program that was begun last.
    process: Option<Process>,
    /// Whether it has been left: should the guest come back to it, the adapter that the service has then joins it.
    #[serde(default)]
    left: bool,
}

/// A unit that is joined or left.
pub(crate) struct Tenancy<'a> {
    work: &'a Work<'a>,
    executors: &'a Executors,
    note: Mutex<Note>,
}

impl Tenancy<'_> {
    /// What is to be done.
    pub(crate) fn call(&self) -> &Call {
        self.work.call
    }

    /// Asked for when nobody waits any more.
    pub(crate) fn stop(&self) -> &Stop {
        self.work.stop
    }

    /// Runs a command on it, by its executor.
    pub(super) fn run(&self, words: Vec<String>, timeout: Duration) -> Result<Ran, DriverError> {
        let Call { unit, epoch, properties, .. } = self.call();
        let none = || DriverError::untouched("the unit has no executor");
        let at = executors::of_unit(properties).ok_or_else(none)?;
        let timeout = Span::from_micros(i64::try_from(timeout.as_micros()).unwrap_or(i64::MAX));
        let command = Command { unit: *unit, epoch: *epoch, user: None, words, timeout };
        self.executors.run(&at, command, self.stop())
    }

    /// What becomes of it when it is left, if it was taken over as it is.
    pub(super) fn adopted(&self) -> Result<Option<Adopt>, DriverError> {
        Adopt::of(&self.work.call.properties)
    }

    /// Notes a program before it begins.
    pub(super) fn begun(&self, process: &Process) -> Result<(), DriverError> {
        let mut note = hold(&self.note);
        note.process = Some(process.clone());
        self.work.keep(&*note)
    }

    /// What the programs for the unit carry.
    pub(super) fn mark(&self, home: &Path) -> String {
        mark(home, self.work.key())
    }
}

fn mark(home: &Path, key: Key) -> String {
    format!("{}:{}", home.display(), key.file_name())
}

/// The steps of adapters, behind the fence of all of them.
struct Joins {
    home: PathBuf,
    adapters: Arc<Adapters>,
    executors: Executors,
}

impl Joins {
    fn open(&self, spec: &Spec, service: &str) -> Result<Box<dyn Adapter>, DriverError> {
        let place = Place { home: &self.home, service };
        registry::open(spec, place).map_err(|bad| DriverError(bad.to_string()))
    }

    /// The adapter that the service of the unit has now.
    fn present(&self, call: &Call) -> Result<Spec, DriverError> {
        let spec = self.adapters.joining(&call.slice)?;
        spec.ok_or_else(|| {
            DriverError::untouched(format!("service {} has no such adapter any more", call.slice))
        })
    }
}

impl DriverSteps for Joins {
    fn perform(&self, work: &Work<'_>) -> Result<Properties, DriverError> {
        let call = work.call;
        let note = work.note::<Note>()?;
        if let Some(process) = note.as_ref().and_then(|note| note.process.as_ref()) {
            end(&mark(&self.home, work.key()), Some(process), Reach::Group, Duration::ZERO)
                .map_err(|error| DriverError(format!("an earlier program: {error}")))?;
        }
        let note = note.filter(|note| note.epoch == call.epoch);
        let joins = matches!(call.step, Step::Join);
        let note = match note.filter(|note| !(joins && note.left)) {
            Some(note) => note,
            // It was left before it was joined.
            None if !joins => return Ok(Properties::default()),
            None => {
                let (epoch, adapter) = (call.epoch, self.present(call)?);
                Note { epoch, adapter, process: None, left: false }
            }
        };
        let adapter = self.open(&note.adapter, call.slice.as_str())?;
        work.keep(&note)?;
        let tenancy = Tenancy { work, executors: &self.executors, note: Mutex::new(note) };
        if joins {
            return match tenancy.adopted()? {
                Some(_) => adapter.adopt(&tenancy),
                None => adapter.join(&tenancy),
            };
        }
        adapter.leave(&tenancy)?;
        let note = hold(&tenancy.note).clone();
        work.keep(&Note { left: true, ..note })?;
        Ok(Properties::default())
    }

    fn probe(&self, key: Key, record: Option<&Record>) -> Result<Properties, DriverError> {
        let never = || DriverError(format!("{} was never joined", key.unit));
        let record = record.ok_or_else(never)?;
        let note = noted::<Note>(record)?.ok_or_else(never)?;
        let stop = Stop::new().map_err(|error| DriverError(error.to_string()))?;
        let adapter = self.open(&note.adapter, record.tenant.slice.as_str())?;
        adapter.probe(record, &stop)
    }
}

/// A guest's driver behind the adapters of its services.
pub(crate) struct Adapted {
    adapters: Arc<Adapters>,
    joins: Guest<Joins>,
    configured: Box<dyn GuestDriver>,
}

impl Adapted {
    /// Puts adapters, with their own folder, in front of a driver.
    pub(crate) fn open(
        configured: Box<dyn GuestDriver>,
        adapters: Arc<Adapters>,
    ) -> io::Result<Self> {
        let home = adapters.home().to_owned();
        let fence = Arc::new(Fence::open(&home)?);
        let executors = Executors::default();
        let steps = Joins { home, adapters: Arc::clone(&adapters), executors };
        Ok(Self { adapters, joins: Guest { fence, steps }, configured })
    }

    /// Whether an adapter has begun to join the unit in this tenancy.
    fn is_its(&self, call: &Call) -> Result<bool, DriverError> {
        let Some(record) = self.joins.fence.record(Key::of(call))? else { return Ok(false) };
        Ok(noted::<Note>(&record)?.is_some_and(|note| note.epoch == call.epoch))
    }

    fn try_perform(&self, call: &Call) -> Result<Answer, DriverError> {
        if self.is_its(call)? {
            return Ok(self.joins.perform(call));
        }
        let adapted = self.adapters.joining(&call.slice)?.is_some();
        Ok(match call.step {
            Step::Join if adapted => self.joins.perform(call),
            Step::Leave if adapted => {
                // So that a join that comes later is refused. The driver leaves it, if it has joined it.
                let fenced = self.joins.perform(call);
                if fenced.outcome.is_err() { fenced } else { self.configured.perform(call) }
            }
            Step::Setup
            | Step::Teardown
            | Step::Join
            | Step::Modify
            | Step::Leave
            | Step::Warn
            | Step::Install
            | Step::Remove => self.configured.perform(call),
        })
    }
}

impl GuestDriver for Adapted {
    fn perform(&self, call: &Call) -> Answer {
        let failed = |error| Answer { outcome: Err(error), after: Span::ZERO };
        self.try_perform(call).unwrap_or_else(failed)
    }

    fn warn(&self, call: &Call, deadline: Time) -> Result<(), DriverError> {
        if self.is_its(call)? { Ok(()) } else { self.configured.warn(call, deadline) }
    }

    fn installs(&self) -> bool {
        self.configured.installs()
    }

    fn package(&self, call: &Call) -> Answer {
        self.configured.package(call)
    }

    fn give_up(&self, call: &Call) {
        self.joins.give_up(call);
        self.configured.give_up(call);
    }

    fn acts_by(&self, signer: &Signer, keys: &KeyChain) {
        self.joins.steps.executors.acts_by(signer, keys);
        self.configured.acts_by(signer, keys);
    }

    fn probe(&self, site: ActorId, unit: UnitId) -> Result<Properties, DriverError> {
        let record = self.joins.fence.record(Key { site, unit })?;
        if record.is_some_and(|record| record.is_joined() && record.note.is_some()) {
            return self.joins.probe(site, unit);
        }
        self.configured.probe(site, unit)
    }
}
