//! Units that fail: when they are set up, while a lease has them, and when they are cleaned.

use super::{Obligation, SiteAuthority, Timer};
use crate::actor::Emit as _;
use crate::actor::effect::Problem;
use crate::actor::fact::{BadFact, truncate_text};
use crate::driver::{DriverError, Epoch, UnitId};
use crate::model::identity::ActorId;
use crate::model::time::Time;
use crate::mutants::mutant;
use crate::site_authority::Output;
use crate::site_authority::facts::{
    UnitFailed, UnitQuarantined, UnitSetupFailed, UnitTeardownFailed,
};
use crate::site_authority::machine::State;
use crate::site_authority::unit;
use crate::ticket::link::LinkHash;
use crate::wire::message::Message;

impl SiteAuthority {
    /// A unit fails that a lease has. Before the lease is active it is as if its setup had failed; later the
    /// guest is told, which gives the unit back.
    pub(super) fn fail_unit(
        &mut self,
        now: Time,
        unit: UnitId,
        (epoch, why): (Option<Epoch>, &str),
        out: &mut Output,
    ) {
        match self.failing(unit, epoch) {
            Ok((lease, epoch)) => {
                self.emit(now, UnitFailed { unit, epoch, why: truncate_text(why) }, out);
                self.settle(now, lease, out);
            }
            Err(cause) => out.problems.push(Problem::Command(cause)),
        }
    }

    /// The lease that a unit can fail, and the unit's epoch.
    fn failing(&self, id: UnitId, epoch: Option<Epoch>) -> Result<(LinkHash, Epoch), String> {
        let unit = self.state.units.get(&id).ok_or_else(|| format!("there is no unit {id}"))?;
        let word = unit.state.word();
        let lease = unit.state.tenant().ok_or_else(|| {
            format!("unit {id} is {word}: it is on no lease, quarantine it when it is free")
        })?;
        if epoch.is_some_and(|epoch| epoch != unit.epoch && !mutant!(FailsSuccessor)) {
            return Err(format!("unit {id} was on another lease when it failed"));
        }
        if self.state.pending.requires(&Obligation::Failure(id)) {
            return Err(format!("unit {id} has failed already"));
        }
        Ok((lease, unit.epoch))
    }

    pub(super) fn unit_failed(&mut self, at: Time, fact: &UnitFailed) -> Result<(), BadFact> {
        let id = fact.unit;
        self.note_failure(id, &fact.why);
        self.state.timers.set(Timer::Needed(id), None);
        if self.in_use(id) {
            self.require(Obligation::Failure(id), at);
            return Ok(());
        }
        self.unit_lost(at, id, unit::Event::Released)
    }

    /// Whether a unit is in the hands of a guest.
    fn in_use(&self, id: UnitId) -> bool {
        let tenant = self.state.units.get(&id).and_then(|unit| unit.state.tenant());
        let state = tenant.and_then(|tenant| self.lease(tenant));
        state.is_some_and(|state| matches!(state, State::Active { .. }))
    }

    fn note_failure(&mut self, id: UnitId, why: &str) {
        self.set_fault(id, Some(why));
        self.note(id, |notes| {
            // One that its site takes back is not bad.
            if !notes.drained {
                notes.failures = notes.failures.saturating_add(1);
            }
        });
    }

    /// Sets how a unit fails; answers how it did before.
    pub(super) fn set_fault(&mut self, id: UnitId, fault: Option<&str>) -> Option<String> {
        let unit = self.state.units.get_mut(&id)?;
        std::mem::replace(&mut unit.fault, fault.map(str::to_owned))
    }

    pub(super) fn setup_failed(&mut self, at: Time, fact: &UnitSetupFailed) -> Result<(), BadFact> {
        if DriverError(fact.error.clone()).why_untouched().is_some() {
            // What was asked for is at fault: it neither counts against the unit nor clears it.
            self.set_fault(fact.unit, Some(&fact.error));
        } else {
            self.note_failure(fact.unit, &fact.error);
        }
        self.unit_lost(at, fact.unit, unit::Event::SetupFailed)
    }

    pub(super) fn quarantined(&mut self, at: Time, fact: &UnitQuarantined) -> Result<(), BadFact> {
        self.set_fault(fact.unit, Some(&fact.why));
        self.move_unit(at, fact.unit, unit::Event::Quarantined)
    }

    /// A unit is clean. One that did not fail in its last tenancy has failed never in a row.
    pub(super) fn torn_down(&mut self, at: Time, id: UnitId) -> Result<(), BadFact> {
        if self.set_fault(id, None).is_none() {
            self.note(id, |notes| notes.failures = 0);
        }
        self.move_unit(at, id, unit::Event::TornDown)
    }

    pub(super) fn teardown_failed(
        &mut self,
        at: Time,
        fact: &UnitTeardownFailed,
    ) -> Result<(), BadFact> {
        self.set_fault(fact.unit, Some(&fact.error));
        self.unit_lost(at, fact.unit, unit::Event::TeardownFailed)
    }

    /// What the holder of a lease is told of a unit that failed.
    pub(super) fn failure_message(&self, id: UnitId) -> Option<(ActorId, Message)> {
        let unit = self.state.units.get(&id)?;
        let ticket = unit.state.tenant()?;
        let holder = self.state.leases.get(&ticket)?.holder();
        let why = unit.fault.clone().unwrap_or_default();
        Some((holder, Message::UnitFailed { ticket, unit: id, why }))
    }
}
