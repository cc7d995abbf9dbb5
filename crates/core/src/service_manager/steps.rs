//! Steps of the guest's driver: by when they are of use, leaves that are hastened, and units that it refuses.

use super::{Obligation, Output, ServiceManager, Standing, Timer};
use crate::actor::Emit as _;
use crate::actor::fact::BadFact;
use crate::driver::{Step, UnitId};
use crate::model::slice::LeaseId;
use crate::model::time::Time;
use crate::mutants::mutant;
use crate::service_manager::facts::{
    LeaveBegun, LeaveForced, LeaveHastened, ReturnBegun, UnitReset,
};
use crate::service_manager::machine::{AfterLeave, Event, Held, State, UnitUse};
use crate::wire::part::Part;

impl ServiceManager {
    /// Until when it is of use that the guest's driver answers: a join or a change until the unit is to be
    /// left, a leave until it is let go of.
    pub(super) fn useful_until(&self, id: LeaseId, unit: UnitId, step: Step) -> Option<Time> {
        let lease = self.state.leases.get(&id)?;
        let held = lease.state.held()?;
        let margin = self.base.margin();
        let margin = if mutant!(CallsWithoutMargin) { margin.times(0) } else { margin };
        let stop = lease.ends_by().minus(margin);
        let stop = held.leave_by.map_or(stop, |by| stop.min(by));
        let in_use = matches!(lease.state, State::Joining { .. } | State::Active { .. });
        let early = held.seams.front().filter(|seam| in_use && held.goes_at(seam, unit));
        let recall = lease.recall_of(held, unit).filter(|_| in_use);
        let gone = [early.map(|seam| seam.at), recall].into_iter().flatten().min();
        let gone = gone.map_or(stop, |at| stop.min(at.minus(margin)));
        match step {
            Step::Join | Step::Modify => Some(gone.minus(self.leave_before)),
            Step::Leave | Step::Install | Step::Remove => Some(gone),
            // A warning has the deadline of its notice.
            Step::Setup | Step::Teardown | Step::Warn => None,
        }
    }

    /// The guest is to have left all units of a lease by an instant: the leave that drains, or begins with this.
    pub(super) fn hasten(
        &mut self,
        now: Time,
        lease: LeaseId,
        by: Time,
        out: &mut Output,
    ) -> Result<(), String> {
        let standing = self.standing(lease).ok_or_else(|| format!("there is no lease {lease}"))?;
        let Standing::Lease(state) = standing else {
            return Err(format!("lease {lease} is {}, it has no units", standing.word()));
        };
        let running = matches!(state, State::Joining { .. } | State::Active { .. });
        let last = self.gone_by(lease).filter(|_| running || is_leaving(state));
        let last = last.ok_or_else(|| {
            format!("lease {lease} is {}, its units are not left", standing.word())
        })?;
        if by <= now || last <= by {
            return Err(format!(
                "the units of lease {lease} are left by {last}: they can be between now and then, not by {by}"
            ));
        }
        if running {
            self.emit(now, LeaveBegun { lease, then: AfterLeave::Close }, out);
        }
        if self.lease(lease).is_some_and(is_leaving) {
            self.emit(now, LeaveHastened { lease, by }, out);
        }
        Ok(())
    }

    /// Whether a unit may stay that is being left, if the guest's driver refuses that: it goes back for the sake of a
    /// service, and not because it is recalled, has failed, or goes with other leases.
    pub(super) fn may_stay(&self, lease: LeaseId, unit: UnitId) -> bool {
        let Some(record) = self.state.leases.get(&lease) else { return false };
        let own = match &record.state {
            State::Leaving { held, then: AfterLeave::Close } => held.may_stay(unit),
            State::Joining { held } | State::Active { held } => held.part_may_stay(unit),
            State::Leaving { .. }
            | State::Ticketed { .. }
            | State::Redeeming { .. }
            | State::Closing { .. }
            | State::Crediting { .. }
            | State::Closed { .. } => false,
        };
        let whole = record.group.is_none() && self.failed_units(lease).is_none();
        let heard = record.unheard.is_none();
        own && whole
            && heard
            && self.recall_told(lease).is_none()
            && self.state.services.has(&record.slice)
    }

    /// The guest's driver is to refuse to leave no unit of a lease any more, if that has some.
    pub(super) fn force_leave(&mut self, now: Time, lease: LeaseId, out: &mut Output) {
        let held = self.lease(lease).and_then(State::held);
        if held.is_some_and(|held| !held.forced) {
            self.emit(now, LeaveForced { lease }, out);
        }
    }

    /// A unit that the guest's software could not use is left, which cleans up after a join that failed half-way, and
    /// joined again.
    pub(super) fn reset_unit(
        &mut self,
        now: Time,
        lease: LeaseId,
        unit: UnitId,
        out: &mut Output,
    ) -> Result<(), String> {
        let state = self.lease(lease).ok_or_else(|| format!("there is no lease {lease}"))?;
        let held = match state {
            State::Joining { held } | State::Active { held } => held,
            State::Ticketed { .. }
            | State::Redeeming { .. }
            | State::Leaving { .. }
            | State::Closing { .. }
            | State::Crediting { .. }
            | State::Closed { .. } => {
                return Err(format!("lease {lease} is {}, its units are not used", state.word()));
            }
        };
        let usage = held.units.get(&unit).map(|(_, usage)| *usage);
        let usage = usage.ok_or_else(|| format!("the lease does not have unit {unit}"))?;
        let why_not = match usage {
            UnitUse::Unusable => {
                self.emit(now, UnitReset { lease, unit }, out);
                return Ok(());
            }
            UnitUse::Joining => "is being joined",
            UnitUse::Joined => "is in use",
            UnitUse::Leaving | UnitUse::Left => "is being left",
            UnitUse::Refused => "was refused, and goes back",
        };
        Err(format!("unit {unit} {why_not}: what is reset is a unit that could not be joined"))
    }

    /// A leave that drains is hastened if the lease ends earlier than it did.
    pub(super) fn hasten_to_end(
        &mut self,
        now: Time,
        lease: LeaseId,
        before: Option<Time>,
        out: &mut Output,
    ) {
        let by = self.gone_by(lease).filter(|_| self.lease(lease).is_some_and(is_leaving));
        if let (Some(by), Some(before)) = (by, before)
            && by < before
            && !mutant!(LeaveNotHastened)
        {
            self.emit(now, LeaveHastened { lease, by }, out);
        }
    }

    /// When the guest has let go of all units of a lease.
    pub(super) fn gone_by(&self, lease: LeaseId) -> Option<Time> {
        let record = self.state.leases.get(&lease)?;
        let stop = record.ends_by().minus(self.base.margin());
        Some(record.state.held()?.leave_by.map_or(stop, |by| stop.min(by)))
    }

    /// The units that are left are called for again, by the earlier instant.
    pub(super) fn hastened(&mut self, at: Time, id: LeaseId, by: Time) -> Result<(), BadFact> {
        self.step(at, id, Event::LeaveHastened(by))?;
        let held = self.lease(id).and_then(State::held);
        let units: Vec<UnitId> =
            held.into_iter().flat_map(|held| held.waiting_to(UnitUse::Leaving)).copied().collect();
        for unit in units {
            self.require(Obligation::Leave(id, unit), at);
        }
        Ok(())
    }

    /// Units that the guest's driver refused go back once nothing else changes the lease.
    pub(super) fn set_refused(&mut self, id: LeaseId, at: Time) {
        let state = self.lease(id);
        let due = state.and_then(|state| match state {
            State::Active { held } => {
                let quiet = held.change.is_none() && held.seams.is_empty();
                let due = held.refused > 0 && quiet && self.recall_told(id).is_none();
                due.then(|| self.settled_from(held).map_or(at, |from| from.max(at)))
            }
            State::Ticketed { .. }
            | State::Redeeming { .. }
            | State::Joining { .. }
            | State::Leaving { .. }
            | State::Closing { .. }
            | State::Crediting { .. }
            | State::Closed { .. } => None,
        });
        self.state.timers.set(Timer::Refused(id), due);
    }

    /// Gives back what the guest's driver refused; all of the lease, if the rest is too few.
    pub(super) fn refused_due(&mut self, now: Time, lease: LeaseId, out: &mut Output) {
        let record = self.state.leases.get(&lease);
        let Some((record, held)) = record.and_then(|r| Some((r, r.state.held()?))) else {
            return self.state.timers.set(Timer::Refused(lease), None);
        };
        let units = held.refused_units();
        let left = held.quantity().saturating_sub(quantity_of(held, &units));
        let enough = left > 0 && left >= record.fewest();
        if enough || (left > 0 && mutant!(TooFewAfterRefusal)) {
            let reason = "the guest's driver refused them".to_owned();
            self.emit(now, ReturnBegun { lease, part: Part::Units(units), reason }, out);
        } else {
            self.emit(now, LeaveBegun { lease, then: AfterLeave::Close }, out);
        }
    }
}

fn is_leaving(state: &State) -> bool {
    matches!(state, State::Leaving { .. })
}

/// How much these units are.
fn quantity_of(held: &Held, units: &[UnitId]) -> u32 {
    let units = units.iter().filter_map(|unit| held.units.get(unit));
    units.map(|(unit, _)| unit.quantity.get()).fold(0, u32::saturating_add)
}
