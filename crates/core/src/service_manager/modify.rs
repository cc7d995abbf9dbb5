//! How the configuration of a lease in use changes in place, and how its guest learns of changed units.

use std::collections::{BTreeMap, BTreeSet};

use super::{Obligation, Output, ServiceManager};
use crate::actor::Emit as _;
use crate::actor::effect::{DriverResult, Problem};
use crate::actor::fact::{BadFact, truncate_text};
use crate::driver::UnitId;
use crate::model::identity::ActorId;
use crate::model::property::Properties;
use crate::model::slice::LeaseId;
use crate::model::time::Time;
use crate::mutants::mutant;
use crate::service_manager::facts::{Modified, ModifyBegun, ModifyRefused, Notified};
use crate::service_manager::machine::{Change, Event, Held, State};
use crate::ticket::Ticket;
use crate::ticket::link::LinkHash;
use crate::wire::message::{LeasedUnit, MAX_CONFIGURATION, Message};
use crate::wire::refusal::Refusal;

impl ServiceManager {
    /// Asks the site to change some properties of a lease's configuration; the others stay.
    pub(super) fn modify(
        &mut self,
        now: Time,
        lease: LeaseId,
        changes: Properties,
        out: &mut Output,
    ) -> Result<(), String> {
        self.changeable(lease)?;
        if !matches!(self.lease(lease), Some(State::Active { .. })) {
            return Err(format!("lease {lease} has not all of its units yet"));
        }
        let before = self.state.leases.get(&lease).map(|lease| lease.configuration.clone());
        let mut configuration = BTreeMap::from(before.unwrap_or_default());
        configuration.extend(BTreeMap::from(changes));
        let configuration = Properties::try_from(configuration).map_err(|e| e.to_string())?;
        let fits = configuration.check_bytes(MAX_CONFIGURATION);
        fits.map_err(|error| format!("the configuration is too long: {error}"))?;
        self.emit(now, ModifyBegun { lease, configuration }, out);
        Ok(())
    }

    /// What is sent to have a lease modified.
    pub(super) fn modify_message(&self, id: LeaseId) -> Option<(ActorId, Message)> {
        let held = self.lease(id)?.held()?;
        let Change::Modifying { number, configuration } = &held.change else { return None };
        let ticket = held.tickets.first()?.clone();
        let (number, configuration) = (*number, configuration.clone());
        Some((ticket.site(), Message::Modify { ticket, number, configuration }))
    }

    /// The units have the new configuration.
    pub(super) fn modified(
        &mut self,
        now: Time,
        from: ActorId,
        (ticket, number): (LinkHash, u32),
        units: Vec<LeasedUnit>,
        out: &mut Output,
    ) -> Result<(), String> {
        let Some(lease) = self.modifying(from, ticket, number)? else { return Ok(()) };
        let held = self.lease(lease).and_then(State::held);
        // The site may have released some by then whose time is over.
        let known = |unit: &LeasedUnit| {
            let ours = held.and_then(|held| held.units.get(&unit.unit));
            ours.is_some_and(|(ours, _)| ours.epoch == unit.epoch)
        };
        let distinct: BTreeSet<UnitId> = units.iter().map(|unit| unit.unit).collect();
        if distinct.len() != units.len() || !units.iter().all(known) {
            return Err(format!("lease {lease} does not have the units that were modified"));
        }
        self.emit(now, Modified { lease, units }, out);
        Ok(())
    }

    /// The site does not modify a lease.
    pub(super) fn modify_refused(
        &mut self,
        now: Time,
        from: ActorId,
        (ticket, number): (LinkHash, u32),
        refusal: Refusal,
        out: &mut Output,
    ) -> Result<(), String> {
        if let Some(lease) = self.modifying(from, ticket, number)? {
            self.emit(now, ModifyRefused { lease, refusal }, out);
        }
        Ok(())
    }

    /// The lease that waits for its site to modify it.
    fn modifying(
        &self,
        from: ActorId,
        ticket: LinkHash,
        number: u32,
    ) -> Result<Option<LeaseId>, String> {
        let Some(lease) = self.lease_of(ticket) else { return Ok(None) };
        let Some(State::Joining { held } | State::Active { held }) = self.lease(lease) else {
            return Ok(None);
        };
        let Change::Modifying { number: open, .. } = &held.change else { return Ok(None) };
        let first = held.tickets.first();
        if first.map(Ticket::hash) != Some(ticket) || *open != number {
            return Ok(None);
        }
        if first.map(Ticket::site) != Some(from) {
            return Err(format!("lease {lease} is not at its sender's site"));
        }
        Ok(Some(lease))
    }

    /// The guest's driver has taken over a change of a unit, or could not.
    pub(super) fn told(&mut self, now: Time, done: DriverResult, out: &mut Output) {
        let DriverResult { lease, unit, epoch, number, outcome, .. } = done;
        let held = self.lease(lease).and_then(State::held);
        let same =
            held.and_then(|held| held.units.get(&unit)).is_some_and(|(u, _)| u.epoch == epoch);
        if !same || !self.state.pending.requires(&Obligation::Tell(lease, unit, number)) {
            let cause = format!("modify {number} of {unit} in {epoch:?} is not owed");
            return out.problems.push(Problem::Command(cause));
        }
        let said = outcome.as_ref().ok().cloned().unwrap_or_default();
        let error = outcome.err().map(|error| truncate_text(&error.0));
        self.emit(now, Notified { lease, unit, error }, out);
        self.note_usage(now, (lease, unit), &said, out);
    }

    /// The lease has its new configuration.
    pub(super) fn take_modification(&mut self, at: Time, fact: &Modified) -> Result<(), BadFact> {
        let lease = self.state.leases.get_mut(&fact.lease);
        let change = lease.as_ref().and_then(|lease| lease.state.held()).map(|held| &held.change);
        if let Some(Change::Modifying { configuration, .. }) = change.cloned()
            && let Some(lease) = lease
            && !mutant!(OldConfigurationStays)
        {
            lease.configuration = configuration;
        }
        self.step(at, fact.lease, Event::Modified(fact.units.clone()))
    }

    /// Sets the notifications that the guest's driver is owed for a lease's units.
    pub(super) fn owe_telling(&mut self, id: LeaseId, at: Time) {
        let held = match self.lease(id) {
            Some(State::Joining { held } | State::Active { held }) => Some(held),
            Some(
                State::Ticketed { .. }
                | State::Redeeming { .. }
                | State::Leaving { .. }
                | State::Closing { .. }
                | State::Crediting { .. }
                | State::Closed { .. },
            )
            | None => None,
        };
        let untold = held.map(|held| held.untold.clone()).unwrap_or_default();
        let first = Obligation::Tell(id, UnitId(0), 0);
        let last = Obligation::Tell(id, UnitId(u32::MAX), u32::MAX);
        let owed: BTreeSet<Obligation> =
            untold.iter().map(|(&unit, &number)| Obligation::Tell(id, unit, number)).collect();
        let pending = &mut self.state.pending;
        let old: Vec<_> = pending.between(first, last).copied().collect();
        old.iter().filter(|key| !owed.contains(key)).for_each(|key| pending.settle(key));
        for key in owed {
            pending.set(key, true, self.base.position, at);
        }
    }
}

impl Held {
    /// How many units it has, or how much its share is.
    pub fn quantity(&self) -> u32 {
        let quantities = self.units.values().map(|(unit, _)| unit.quantity.get());
        quantities.fold(0, u32::saturating_add)
    }

    /// Whether it has a share of a divisible stock. A share of 1 is treated like a unit.
    pub fn is_share(&self) -> bool {
        self.units.values().any(|(unit, _)| unit.quantity.get() > 1)
    }
}
