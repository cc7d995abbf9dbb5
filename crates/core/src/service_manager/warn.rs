//! How the guest's driver learns that units are recalled. A warning is advice: nothing waits for it.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::{Lease, Obligation, Output, ServiceManager};
use crate::actor::Emit as _;
use crate::actor::effect::{DriverResult, Effect, Problem};
use crate::actor::fact::truncate_text;
use crate::driver::{Call, Step, UnitId};
use crate::model::slice::LeaseId;
use crate::model::time::{Span, Time};
use crate::mutants::mutant;
use crate::service_manager::facts::Warned;
use crate::service_manager::machine::{State, UnitUse};
use crate::ticket::link::LinkHash;

/// The last warning of each unit for each link that is recalled.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Warnings {
    /// The number of the next.
    next: u32,
    last: BTreeMap<(UnitId, LinkHash), Warning>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Warning {
    number: u32,
    /// The number of the recall.
    recall: u32,
    /// When the unit is taken.
    at: Time,
}

impl Lease {
    /// The units in use that recalls take: with the link, the number of the recall and when.
    fn endangered(&self) -> Vec<(UnitId, LinkHash, u32, Time)> {
        let held = match &self.state {
            State::Joining { held } | State::Active { held } => held,
            State::Ticketed { .. }
            | State::Redeeming { .. }
            | State::Leaving { .. }
            | State::Closing { .. }
            | State::Crediting { .. }
            | State::Closed { .. } => return Vec::new(),
        };
        if self.recalls.is_empty() {
            return Vec::new();
        }
        let joined = |unit: &UnitId| {
            held.units.get(unit).is_some_and(|(_, usage)| *usage == UnitUse::Joined)
        };
        let mut endangered = Vec::new();
        let ahead = self.recalls_ahead(held).into_iter();
        // What ends before it is recalled is not.
        for (told, mut going) in ahead.filter(|(told, _)| told.at < self.lasts_until()) {
            let shrinks = held.is_share() && told.units < held.quantity();
            if shrinks || mutant!(WarnedOfAll) {
                going = held.units.keys().copied().collect();
            }
            let going = going.into_iter().filter(joined);
            endangered.extend(going.map(|unit| (unit, told.link, told.number, told.at)));
        }
        endangered.sort_unstable();
        endangered
    }
}

impl ServiceManager {
    /// Sets the warnings that the guest's driver is owed: one of each unit for each recall.
    pub(super) fn owe_warnings(&mut self, id: LeaseId, at: Time) {
        let Some(lease) = self.state.leases.get_mut(&id) else { return };
        let endangered = lease.endangered();
        let Warnings { next, last } = &mut lease.warnings;
        let (mut open, mut new) = (BTreeSet::new(), Vec::new());
        for (unit, link, recall, deadline) in endangered {
            let known = last.get(&(unit, link));
            match known.filter(|known| known.recall == recall && !mutant!(WarnedAgain)) {
                Some(known) => drop(open.insert(known.number)),
                None => {
                    let warning = Warning { number: *next, recall, at: deadline };
                    open.insert(*next);
                    new.push(Obligation::Warn(id, unit, *next));
                    last.insert((unit, link), warning);
                    *next += 1;
                }
            }
        }
        let first = Obligation::Warn(id, UnitId(0), 0);
        let end = Obligation::Warn(id, UnitId(u32::MAX), u32::MAX);
        let pending = self.state.pending.between(first, end).copied();
        let over = pending.filter(
            |owed| matches!(owed, Obligation::Warn(_, _, number) if !open.contains(number)),
        );
        for owed in over.collect::<Vec<_>>() {
            self.state.pending.settle(&owed);
        }
        for owed in new {
            self.require(owed, at);
        }
    }

    /// The call that warns of a unit.
    pub(super) fn warning(&self, id: LeaseId, unit: UnitId, number: u32) -> Option<Effect> {
        let lease = self.state.leases.get(&id)?;
        let mut of_unit = lease.warnings.last.iter().filter(|((of, _), _)| *of == unit);
        let (_, warning) = of_unit.find(|(_, warning)| warning.number == number)?;
        match self.call(id, unit, (Step::Warn, number))? {
            Effect::Call(call) => {
                let late = if mutant!(WarnedLate) { self.base.margin() } else { Span::ZERO };
                let last = lease.lasts_until().minus(self.base.margin());
                let deadline = warning.at.min(last).plus(late);
                Some(Effect::Call(Call { deadline: Some(deadline), ..call }))
            }
            other @ Effect::Send(_) => Some(other),
        }
    }

    /// The guest's driver was warned, or could not be.
    pub(super) fn warned(&mut self, now: Time, done: DriverResult, out: &mut Output) {
        let DriverResult { lease, unit, epoch, number, outcome, .. } = done;
        let held = self.lease(lease).and_then(State::held);
        let same =
            held.and_then(|held| held.units.get(&unit)).is_some_and(|(u, _)| u.epoch == epoch);
        if !same || !self.state.pending.requires(&Obligation::Warn(lease, unit, number)) {
            let cause = format!("warn {number} of {unit} in {epoch:?} is not owed");
            return out.problems.push(Problem::Command(cause));
        }
        let error = outcome.err().map(|error| truncate_text(&error.0));
        self.emit(now, Warned { lease, unit, number, error }, out);
    }

    pub(super) fn take_warned(&mut self, fact: &Warned) {
        self.state.pending.settle(&Obligation::Warn(fact.lease, fact.unit, fact.number));
    }
}
