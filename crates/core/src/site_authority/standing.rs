//! Which units are in service: added by name, drained, resumed, taken out of use, removed.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::apply::missing;
use super::{Delegation, Obligation, SiteAuthority, Timer, Unit, UnitPool};
use crate::actor::Emit as _;
use crate::actor::effect::Problem;
use crate::actor::fact::{BadFact, truncate_text};
use crate::driver::UnitId;
use crate::model::name::Name;
use crate::model::resource::Attributes;
use crate::model::time::Time;
use crate::mutants::mutant;
use crate::site_authority::Output;
use crate::site_authority::facts::{
    InventoryChanged, UnitAdded, UnitDescribed, UnitDrained, UnitNeeded, UnitQuarantined,
    UnitReset, UnitRestored, UnitResumed,
};
use crate::site_authority::unit;

/// What a site knows of a unit beside where it is in its life.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct UnitNotes {
    /// Its name, if it has one.
    pub name: Option<Name>,
    /// What it is like, beyond what all units of its type are.
    pub attributes: Arc<Attributes>,
    /// Whether it gets no new tenant.
    pub drained: bool,
    /// How often it was set up.
    pub setups: u32,
    /// In how many tenancies in a row it has failed, when it was set up or later.
    pub failures: u32,
}

/// Whether a name would be read as the number of a unit.
pub fn is_number(name: &Name) -> bool {
    name.as_str().strip_prefix('u').is_some_and(|number| number.parse::<u32>().is_ok())
}

impl SiteAuthority {
    /// What is known of a unit.
    pub fn notes_of(&self, unit: UnitId) -> UnitNotes {
        self.pool_of(unit).map(|pool| pool.notes(unit)).unwrap_or_default()
    }

    /// The unit of that name.
    pub fn unit_named(&self, name: &Name) -> Option<UnitId> {
        self.state.names.get(name).copied()
    }

    fn pool_of(&self, unit: UnitId) -> Option<&UnitPool> {
        self.state.stocks.get(&self.state.units.get(&unit)?.resource)
    }

    pub(super) fn add(
        &mut self,
        now: Time,
        (resource, name, attributes): (Name, Name, Attributes),
        out: &mut Output,
    ) {
        let stock = self.state.stocks.get(&resource);
        let refused = match stock {
            None => Some(format!("there is no stock of `{resource}` to add to")),
            Some(pool) if pool.is_divisible() => {
                Some(format!("`{resource}` is leased in shares, which have no names"))
            }
            Some(_) if is_number(&name) => {
                Some(format!("`{name}` is how the unit of that number is called"))
            }
            Some(_) if self.state.names.contains_key(&name) => {
                Some(format!("there is a unit `{name}` already"))
            }
            Some(_) => None,
        };
        match refused {
            Some(cause) => out.problems.push(Problem::Command(cause)),
            None => self.emit(now, UnitAdded { resource, name, attributes }, out),
        }
    }

    pub(super) fn drain(&mut self, now: Time, unit: UnitId, by: Option<Time>, out: &mut Output) {
        let drained = match self.machine(unit) {
            Ok(notes) => notes.drained,
            Err(cause) => return out.problems.push(Problem::Command(cause)),
        };
        if drained && by.is_none() {
            let cause = format!("unit {unit} is drained already");
            return out.problems.push(Problem::Command(cause));
        }
        if !drained {
            self.emit(now, UnitDrained { unit }, out);
        }
        if let Some(by) = by.filter(|_| self.is_used(unit)) {
            self.emit(now, UnitNeeded { unit, by }, out);
        }
    }

    /// Whether a lease has a unit, or waits for it, and has not been told to do without it.
    fn is_used(&self, unit: UnitId) -> bool {
        let tenant = self.state.units.get(&unit).and_then(|unit| unit.state.tenant());
        tenant.is_some() && !self.state.pending.requires(&Obligation::Failure(unit))
    }

    pub(super) fn needed(&mut self, fact: &UnitNeeded) {
        self.state.timers.set(Timer::Needed(fact.unit), Some(fact.by));
    }

    /// A drained unit is needed: its lease has to do without it, as if it had failed.
    pub(super) fn need(&mut self, now: Time, unit: UnitId, out: &mut Output) {
        if self.is_used(unit) {
            self.fail_unit(now, unit, (None, "it is drained: its site needs it"), out);
        } else {
            self.state.timers.set(Timer::Needed(unit), None);
        }
    }

    pub(super) fn resume(&mut self, now: Time, unit: UnitId, out: &mut Output) {
        match self.machine(unit) {
            Ok(notes) if notes.drained => self.emit(now, UnitResumed { unit }, out),
            Ok(_) => out.problems.push(Problem::Command(format!("unit {unit} is not drained"))),
            Err(cause) => out.problems.push(Problem::Command(cause)),
        }
    }

    /// What is known of a unit that is a machine, and no share.
    fn machine(&self, unit: UnitId) -> Result<UnitNotes, String> {
        let pool = self.pool_of(unit).ok_or_else(|| format!("there is no unit {unit}"))?;
        if pool.is_divisible() {
            return Err(format!("unit {unit} is a share: it ends with its lease"));
        }
        Ok(pool.notes(unit))
    }

    pub(super) fn quarantine(&mut self, now: Time, unit: UnitId, why: &str, out: &mut Output) {
        let why = truncate_text(why);
        match self.state.units.get(&unit).map(|unit| &unit.state) {
            Some(unit::State::Free) => self.emit(now, UnitQuarantined { unit, why }, out),
            Some(state) => {
                let cause = format!("unit {unit} is {}, not Free", state.word());
                out.problems.push(Problem::Command(cause));
            }
            None => out.problems.push(Problem::Command(format!("there is no unit {unit}"))),
        }
    }

    pub(super) fn reset(&mut self, now: Time, unit: UnitId, out: &mut Output) {
        match self.state.units.get(&unit).map(|unit| &unit.state) {
            Some(unit::State::Quarantined) if self.is_clean(unit) => {
                self.emit(now, UnitRestored { unit }, out);
            }
            Some(unit::State::Quarantined) => self.emit(now, UnitReset { unit }, out),
            Some(state) => {
                let cause = format!("unit {unit} is {}, not Quarantined", state.word());
                out.problems.push(Problem::Command(cause));
            }
            None => out.problems.push(Problem::Command(format!("there is no unit {unit}"))),
        }
    }

    /// Whether a unit has served nobody since it was cleaned last.
    fn is_clean(&self, unit: UnitId) -> bool {
        self.state.units.get(&unit).is_some_and(|unit| unit.served.is_none())
    }

    pub(super) fn remove(&mut self, now: Time, unit: UnitId, out: &mut Output) {
        match self.removable(unit) {
            Ok((resource, attributes)) => {
                let withdrawn = vec![unit];
                self.emit(now, InventoryChanged { resource, attributes, withdrawn }, out);
            }
            Err(cause) => out.problems.push(Problem::Command(cause)),
        }
    }

    /// The type of a unit that can be removed, and its attributes.
    ///
    /// # Errors
    /// Why it cannot be removed now.
    pub fn removable(&self, unit: UnitId) -> Result<(Name, Attributes), String> {
        let found = self.state.units.get(&unit).zip(self.pool_of(unit));
        let (Unit { state, resource, .. }, pool) =
            found.ok_or_else(|| format!("there is no unit {unit}"))?;
        if !matches!(state, unit::State::Free | unit::State::Quarantined) {
            return Err(format!("unit {unit} is {}: drain it and wait", state.word()));
        }
        let only = |held: &Delegation| {
            let stacked = held.ticket.bottom().clauses.stacked.as_ref();
            stacked.is_some_and(|stacked| stacked.unit == unit) && held.held > 0
        };
        if self.state.delegations.values().any(only) {
            return Err(format!("unit {unit} is delegated on its own: withdraw that before"));
        }
        if self.undelegated(resource) == 0 {
            return Err(format!("all units of `{resource}` are delegated: recall one before"));
        }
        Ok((resource.clone(), (*pool.attributes).clone()))
    }

    pub(super) fn unit_added(&mut self, fact: &UnitAdded) -> Result<(), BadFact> {
        let resource = &fact.resource;
        let pool = self.state.stocks.get_mut(resource).ok_or_else(|| missing("stock", resource))?;
        let unit = UnitId(self.state.numbered);
        let notes = UnitNotes {
            name: Some(fact.name.clone()),
            attributes: Arc::new(fact.attributes.clone()),
            ..UnitNotes::default()
        };
        pool.known.insert(unit, notes);
        self.state.names.insert(fact.name.clone(), unit);
        self.install(resource, 1)
    }

    pub(super) fn described(&mut self, fact: &UnitDescribed) {
        let attributes = Arc::new(fact.attributes.clone());
        self.note(fact.unit, |notes| notes.attributes = attributes);
    }

    /// A unit gets no new tenant from now on, or does again.
    pub(super) fn set_drained(&mut self, unit: UnitId, drained: bool) -> Result<(), BadFact> {
        let record = self.state.units.get(&unit).ok_or_else(|| missing("unit", unit))?;
        let pool = self.state.stocks.get_mut(&record.resource);
        let pool = pool.ok_or_else(|| missing("stock", &record.resource))?;
        pool.take(unit, &record.state);
        if !drained {
            self.state.timers.set(Timer::Needed(unit), None);
        }
        let notes = UnitNotes { drained, ..pool.notes(unit) };
        pool.known.insert(unit, notes);
        pool.put(unit, &record.state);
        // It may be what a lease waited for.
        if !self.state.short.is_empty() {
            self.state.rounds.call();
        }
        Ok(())
    }

    /// Changes what is known of a unit that is a machine.
    pub(super) fn note(&mut self, unit: UnitId, change: impl FnOnce(&mut UnitNotes)) {
        let resource = self.state.units.get(&unit).map(|unit| &unit.resource);
        let pool = resource.and_then(|resource| self.state.stocks.get_mut(resource));
        if let Some(pool) = pool.filter(|pool| !pool.is_divisible()) {
            let mut notes = pool.notes(unit);
            change(&mut notes);
            pool.known.insert(unit, notes);
        }
    }

    /// Takes a unit out of use that was cleaned and has failed too often in a row.
    pub(super) fn quarantine_if_bad(&mut self, now: Time, unit: UnitId, out: &mut Output) {
        let free = self.state.units.get(&unit).is_some_and(|u| u.state == unit::State::Free);
        let failures = self.notes_of(unit).failures;
        let bad = self.plan.quarantine_after.is_some_and(|most| most.get() <= failures);
        if free && bad && !mutant!(BadUnitsStay) {
            let why = format!("it failed {failures} times in a row");
            self.emit(now, UnitQuarantined { unit, why }, out);
        }
    }
}
