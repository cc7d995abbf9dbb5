//! Units of a lease that fail while it runs: they go back to their site, and others are asked for.

use std::collections::BTreeMap;
use std::num::NonZeroU32;

use serde::{Deserialize, Serialize};

use super::commands::More;
use super::group::Group;
use super::{Output, ServiceManager};
use crate::actor::Emit as _;
use crate::actor::effect::Problem;
use crate::actor::fact::truncate_text;
use crate::driver::UnitId;
use crate::model::identity::ActorId;
use crate::model::resource::Constraints;
use crate::model::slice::LeaseId;
use crate::model::time::Time;
use crate::mutants::mutant;
use crate::service_manager::facts::{ReplacementWanted, ReturnBegun, UnitFailed};
use crate::service_manager::machine::State;
use crate::ticket::Ticket;
use crate::ticket::link::LinkHash;
use crate::wire::part::Part;

/// What failed of a lease.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Failures {
    /// Its units that failed, each with how.
    units: BTreeMap<UnitId, String>,
    /// Those that go back, and for which others are to be asked for once they are gone.
    lost: Vec<UnitId>,
    /// Whether it cannot do without others.
    needed: bool,
}

/// Which units of a lease have failed, and what was done about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailedUnits {
    /// The units, each with its site's words.
    pub units: Vec<(UnitId, String)>,
    /// Whether the lease still has some of them.
    pub held: bool,
    /// The number of the request for others.
    pub instead: Option<u64>,
}

impl ServiceManager {
    /// Which units of a lease have failed, if any have.
    pub fn failed_units(&self, id: LeaseId) -> Option<FailedUnits> {
        let lease = self.state.leases.get(&id)?;
        let failed = &lease.failures.units;
        if failed.is_empty() {
            return None;
        }
        let held = lease.state.held();
        let held = held.is_some_and(|held| failed.keys().any(|unit| held.units.contains_key(unit)));
        // It was asked for on none of the units that had failed by then.
        let later = self.state.requests.range(id.number + 1..);
        let instead =
            later.filter(|(_, request)| request.slice == lease.slice).find(|(_, request)| {
                let not_on = &request.wanted.provisos.not_on;
                failed.keys().any(|unit| not_on.iter().any(|(_, not)| not == unit))
            });
        let units = failed.iter().map(|(unit, why)| (*unit, why.clone())).collect();
        Some(FailedUnits { units, held, instead: instead.map(|(number, _)| *number) })
    }

    /// The site says that a unit has failed. It says so again until it has the unit back, so what cannot be
    /// done now is done later.
    pub(super) fn told_of_failure(
        &mut self,
        now: Time,
        from: ActorId,
        (ticket, unit): (LinkHash, UnitId),
        why: &str,
        out: &mut Output,
    ) -> Result<(), String> {
        let Some(lease) = self.lease_of(ticket) else { return Ok(()) };
        let Some(record) = self.state.leases.get(&lease) else { return Ok(()) };
        let Some(held) = record.state.held() else { return Ok(()) };
        if held.tickets.first().is_none_or(|own| own.site() != from) {
            return Err(format!("lease {lease} is not at its sender's site"));
        }
        if !held.units.contains_key(&unit) {
            return Ok(());
        }
        if !record.failures.units.contains_key(&unit) {
            let why = truncate_text(why);
            self.emit(now, UnitFailed { lease, unit, why }, out);
        }
        self.let_go(now, lease, out);
        Ok(())
    }

    pub(super) fn take_failure(&mut self, fact: &UnitFailed) {
        if let Some(lease) = self.state.leases.get_mut(&fact.lease) {
            lease.failures.units.insert(fact.unit, fact.why.clone());
        }
    }

    /// Gives the units back that failed, or all of the lease if no other is left, as soon as it can be changed.
    fn let_go(&mut self, now: Time, lease: LeaseId, out: &mut Output) {
        let Ok(held) = self.changeable(lease) else { return };
        let Some(record) = self.state.leases.get(&lease) else { return };
        let active = matches!(record.state, State::Active { .. });
        let unsettled = self.settled_from(held).is_some_and(|from| now < from);
        if !active || unsettled || !held.seams.is_empty() || record.next_told().is_some() {
            return;
        }
        let failed = |unit: &&UnitId| record.failures.units.contains_key(unit);
        let units: Vec<UnitId> = held.units.keys().filter(failed).copied().collect();
        let left = held.units.len().saturating_sub(units.len());
        if units.is_empty() || mutant!(FailedUnitsStay) {
            return;
        }
        let held_failures = record.failures.units.iter().filter(|(unit, _)| units.contains(unit));
        let words = held_failures.map(|(unit, why)| format!("{unit}: {why}"));
        let reason = truncate_text(&format!("failed: {}", words.collect::<Vec<_>>().join(", ")));
        let needed = u32::try_from(left).unwrap_or(u32::MAX) < record.fewest();
        let part = Part::Units(units.clone());
        let all = left == 0;
        self.emit(now, ReplacementWanted { lease, units, needed }, out);
        if !all {
            self.emit(now, ReturnBegun { lease, part, reason }, out);
        } else if let Err(cause) = self.close(now, lease, out) {
            out.problems.push(Problem::Command(cause));
        }
    }

    pub(super) fn want_replacement(&mut self, fact: &ReplacementWanted) {
        if let Some(lease) = self.state.leases.get_mut(&fact.lease) {
            lease.failures.lost = fact.units.clone();
            lease.failures.needed = fact.needed;
        }
    }

    /// Others were asked for, by this request.
    pub(super) fn replacement_asked(&mut self, id: LeaseId, number: u64) {
        if let Some(lease) = self.state.leases.get_mut(&id)
            && !lease.failures.lost.is_empty()
        {
            lease.failures.lost.clear();
            self.state.replacements.insert(number, id);
        }
    }

    /// The site has a part of a lease again: others are asked for instead of what failed of it.
    pub(super) fn replace_lost(&mut self, now: Time, lease: LeaseId, out: &mut Output) {
        let Some(record) = self.state.leases.get(&lease) else { return };
        let Some(held) = record.state.held() else { return };
        let Failures { lost, needed, .. } = &record.failures;
        let needed = *needed;
        if lost.iter().any(|unit| held.units.contains_key(unit)) {
            return;
        }
        let count = u32::try_from(lost.len()).unwrap_or(u32::MAX);
        let Some(more) = others(lease, lost, count) else { return };
        if self.grow(now, lease, more, out).is_err() && needed {
            self.give_up(now, lease, out);
        }
    }

    /// The site has all of a lease again: others are asked for if all that was left of it had failed.
    pub(super) fn replace_whole(
        &mut self,
        now: Time,
        lease: LeaseId,
        ticket: Option<&Ticket>,
        out: &mut Output,
    ) {
        let Some(record) = self.state.leases.get(&lease) else { return };
        let group = record.group.and_then(|group| self.state.groups.get(&group));
        if group.is_some_and(Group::is_bundle) {
            return;
        }
        let lost = &record.failures.lost;
        let Some((ticket, more)) = ticket.zip(others(lease, lost, record.units)) else { return };
        let ask = self.ask_beside(now, lease, (ticket, record.term.end()), more);
        // Too little of its term may be left for anything.
        drop(ask.and_then(|ask| self.ask(now, ask, None, out)));
    }

    /// Nothing comes of a request. If it was for others instead of what failed of a lease, and the lease cannot
    /// do without them, it is given back.
    pub(super) fn not_replaced(&mut self, now: Time, number: u64, out: &mut Output) {
        let Some(&lease) = self.state.replacements.get(&number) else { return };
        if self.state.leases.get(&lease).is_some_and(|record| record.failures.needed) {
            self.give_up(now, lease, out);
        }
    }

    fn give_up(&mut self, now: Time, lease: LeaseId, out: &mut Output) {
        if !self.counts(lease) {
            return;
        }
        if let Err(cause) = self.close(now, lease, out) {
            out.problems.push(Problem::Command(cause));
        }
    }
}

/// So many other units for a lease.
fn others(lease: LeaseId, lost: &[UnitId], units: u32) -> Option<More> {
    let why = format!("instead of what failed of lease {lease}");
    let units = NonZeroU32::new(units).filter(|_| !lost.is_empty())?;
    Some(More { units, requirements: Constraints::NONE, not_on: lost.to_vec(), why })
}
