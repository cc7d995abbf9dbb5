//! How a lease changes while it runs: parts of it go back, and it goes on with fewer units.

use serde::{Deserialize, Serialize};

use super::{Obligation, Output, ServiceManager, Standing, Timer};
use crate::actor::Emit as _;
use crate::actor::fact::{BadFact, truncate_text};
use crate::driver::UnitId;
use crate::model::identity::ActorId;
use crate::model::slice::LeaseId;
use crate::model::time::Time;
use crate::mutants::mutant;
use crate::service_manager::facts::{
    PartReturned, ReturnBegun, ReturnRefused, ShrinkBegun, Shrunk,
};
use crate::service_manager::machine::{AfterLeave, Change, Event, Held, PartReturn, State};
use crate::service_manager::mapper::{Flex, Shorten};
use crate::ticket::Ticket;
use crate::ticket::link::LinkHash;
use crate::ticket::receipt::Receipt;
use crate::wire::message::Message;
use crate::wire::part::{Part, surplus};
use crate::wire::refusal::{Outlook, Refusal};

/// Which units of a lease go.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Victims {
    /// These first; if they are fewer than are to go, those with the highest numbers as well.
    Named(Vec<UnitId>),
    /// Those with the lowest numbers: the units of a lease are set up together, in this order.
    Oldest,
    /// Those with the highest numbers.
    Youngest,
    /// Those that are idle, then those of which least would be lost, as far as the adapter of their service says so;
    /// of these, those that were in use for the shortest time, as the guest's driver last said, or else since they
    /// were joined; of equals those with the highest numbers.
    LeastUsed,
}

impl Victims {
    /// The units that go from a lease, so that it has no more than `most`; `by_use` are its units, the least used
    /// first.
    pub(super) fn of(
        &self,
        held: &Held,
        most: u32,
        by_use: &[UnitId],
    ) -> Result<Vec<UnitId>, String> {
        let mut units: Vec<UnitId> = held.units.keys().copied().collect();
        for seam in &held.seams {
            let gone = surplus(units.iter().copied(), seam.units, &seam.victims);
            units.retain(|unit| !gone.contains(unit));
        }
        let count = units.len().saturating_sub(most as usize);
        let named = match self {
            Self::Named(named) => {
                if let Some(unit) = named.iter().find(|unit| !units.contains(unit)) {
                    return Err(format!("the lease does not have unit {unit}"));
                }
                if named.len() > count {
                    return Err(format!("{} units are named, {count} go", named.len()));
                }
                named.clone()
            }
            Self::Oldest => units.iter().take(count).copied().collect(),
            Self::Youngest => Vec::new(),
            Self::LeastUsed => {
                let going = by_use.iter().filter(|unit| units.contains(unit));
                going.take(count).copied().collect()
            }
        };
        Ok(surplus(units.into_iter(), most, &named))
    }
}

impl ServiceManager {
    /// Gives some units of a lease back.
    pub(super) fn flex(&mut self, now: Time, flex: Flex, out: &mut Output) -> Result<(), String> {
        let Flex { lease, shrink, victims, reason } = flex;
        if matches!(self.lease(lease), Some(State::Ticketed { split: true, .. })) {
            return self.flex_rest(now, lease, shrink, out);
        }
        let held = self.changeable(lease)?;
        if !matches!(self.lease(lease), Some(State::Active { .. })) {
            return Err(format!("lease {lease} has not all of its units yet"));
        }
        if let Some(seam) = held.seams.front() {
            let (units, at) = (seam.units, seam.at);
            return Err(format!(
                "lease {lease} goes on with {units} units from {at}: flex it then"
            ));
        }
        if let Some(from) = self.settled_from(held).filter(|&from| now < from) {
            return Err(format!(
                "lease {lease} goes on with fewer units just now: flex it from {from} on"
            ));
        }
        if let Some(told) = self.recall_told(lease) {
            let (units, at) = (told.units, told.at);
            return Err(format!(
                "lease {lease} is recalled to {units} units from {at}: name those that go first"
            ));
        }
        let units = held.quantity();
        let rest = units.checked_sub(shrink.get()).filter(|rest| *rest > 0);
        let rest = rest.ok_or_else(|| {
            format!("lease {lease} has {units} units: to give all of them back, close it")
        })?;
        let part = match held.is_share() {
            true => Part::Quantity(shrink),
            false => Part::Units(victims.of(held, rest, &self.by_use(lease, now))?),
        };
        self.emit(now, ReturnBegun { lease, part, reason: truncate_text(&reason) }, out);
        Ok(())
    }

    /// Gives the rest of a lease's term back.
    pub(super) fn shorten(
        &mut self,
        now: Time,
        shorten: Shorten,
        out: &mut Output,
    ) -> Result<(), String> {
        let Shorten { lease, until, reason } = shorten;
        let held = self.changeable(lease)?;
        let (end, first) = (held.term.end(), now.plus(self.base.two_margins()));
        if until <= first || end <= until {
            return Err(format!(
                "lease {lease} ends at {end}: it can end between {first} and then, not at {until}"
            ));
        }
        let part = Part::Until(until);
        self.emit(now, ReturnBegun { lease, part, reason: truncate_text(&reason) }, out);
        Ok(())
    }

    /// What is held under a lease that can be extended now, if need be while its units are left at its end.
    pub(super) fn extendable(&self, lease: LeaseId) -> Result<&Held, String> {
        match self.lease(lease) {
            Some(State::Leaving { held, then: AfterLeave::End })
                if held.change.is_none() && held.leave_by.is_none() =>
            {
                Ok(held)
            }
            Some(_) | None => self.changeable(lease),
        }
    }

    /// What is held under a lease that can be changed now.
    pub(super) fn changeable(&self, lease: LeaseId) -> Result<&Held, String> {
        let standing = self.standing(lease).ok_or_else(|| format!("there is no lease {lease}"))?;
        let Standing::Lease(State::Joining { held } | State::Active { held }) = standing else {
            return Err(format!("lease {lease} is {}, it cannot be changed", standing.word()));
        };
        match &held.change {
            Change::None => Ok(held),
            Change::Requested { .. } | Change::Redeeming { .. } => {
                Err(format!("lease {lease} is being extended already"))
            }
            Change::Leaving(_) | Change::Returning(_) => {
                Err(format!("a part of lease {lease} is being given back already"))
            }
            Change::Modifying { .. } => Err(format!("lease {lease} is being modified already")),
        }
    }

    /// The seam of a lease is near: the guest leaves the units that do not go on, then lets go of them.
    pub(super) fn seam_due(&mut self, now: Time, lease: LeaseId, out: &mut Output) {
        let held = self.lease(lease).and_then(State::held);
        let Some(seam) = held.and_then(|held| held.seams.front()) else {
            return self.state.timers.set(Timer::Seam(lease), None);
        };
        if now < self.gone_at(seam.at) {
            self.emit(now, ShrinkBegun { lease }, out);
        } else {
            self.emit(now, Shrunk { lease }, out);
        }
    }

    /// When its site, too, has done with the last seam at which a lease went on with fewer units. What comes back
    /// before would not be taken from what goes on, and other units would go than the guest has let go of.
    pub(super) fn settled_from(&self, held: &Held) -> Option<Time> {
        held.shrunk.map(|seam| seam.plus(self.base.two_margins()))
    }

    /// When the guest has let go of the units that do not go on from a seam.
    fn gone_at(&self, seam: Time) -> Time {
        if mutant!(SeamWithoutMargin) { seam } else { seam.minus(self.base.margin()) }
    }

    /// Sets when the guest has to do with the next seam.
    pub(super) fn set_seam(&mut self, id: LeaseId) {
        let state = self.lease(id);
        let due = state.and_then(|state| match state {
            State::Joining { held } | State::Active { held } => {
                let gone = self.gone_at(held.seams.front()?.at);
                // Those that join are not left: they are let go.
                let left = held.awaited > 0 || held.leaving > 0 || self.shrinking(id);
                Some(if left { gone } else { gone.minus(self.leave_before) })
            }
            State::Leaving { held, .. } => Some(self.gone_at(held.seams.front()?.at)),
            State::Ticketed { .. }
            | State::Redeeming { .. }
            | State::Closing { .. }
            | State::Crediting { .. }
            | State::Closed { .. } => None,
        });
        self.state.timers.set(Timer::Seam(id), due);
    }

    /// Whether the guest was to leave the units that do not go on.
    fn shrinking(&self, id: LeaseId) -> bool {
        let held = self.lease(id).and_then(State::held);
        held.and_then(|held| held.seams.front()).is_some_and(|seam| seam.begun)
    }

    /// What is sent to have a part taken back.
    pub(super) fn return_message(&self, id: LeaseId) -> Option<(ActorId, Message)> {
        let held = self.lease(id)?.held()?;
        let Change::Returning(PartReturn { number, part }) = &held.change else { return None };
        let ticket = held.tickets.first()?.clone();
        let (number, part) = (*number, part.clone());
        Some((ticket.site(), Message::Return { ticket, number, part }))
    }

    /// The site has a part of a lease again.
    pub(super) fn part_returned(
        &mut self,
        now: Time,
        from: ActorId,
        (ticket, number): (LinkHash, u32),
        receipts: Vec<Receipt>,
        out: &mut Output,
    ) -> Result<(), String> {
        let Some(lease) = self.returning(ticket, number) else {
            return self.rest_came_back(now, from, (ticket, number), receipts, out);
        };
        let held = self.lease(lease).and_then(State::held);
        let tickets = held.map(|held| held.tickets.clone()).unwrap_or_default();
        self.check_receipts(lease, from, &tickets, &receipts)?;
        self.emit(now, PartReturned { lease, receipts }, out);
        self.replace_lost(now, lease, out);
        Ok(())
    }

    /// The site does not take a part of a lease back.
    pub(super) fn return_refused(
        &mut self,
        now: Time,
        from: ActorId,
        (ticket, number): (LinkHash, u32),
        refusal: Refusal,
        out: &mut Output,
    ) -> Result<(), String> {
        let Some(lease) = self.returning(ticket, number) else {
            self.rest_denied(now, from, (ticket, number), refusal, out);
            return Ok(());
        };
        let site = self.lease(lease).and_then(State::ticket).map(Ticket::site);
        if site != Some(from) {
            return Err(format!("lease {lease} is not at its sender's site"));
        }
        if refusal.outlook() != Outlook::Later {
            self.emit(now, ReturnRefused { lease, refusal }, out);
        }
        Ok(())
    }

    /// The lease that waits for its site to take this part back.
    fn returning(&self, ticket: LinkHash, number: u32) -> Option<LeaseId> {
        let lease = self.lease_of(ticket)?;
        let (State::Joining { held } | State::Active { held }) = self.lease(lease)? else {
            return None;
        };
        let first = held.tickets.first().map(Ticket::hash);
        let Change::Returning(part) = &held.change else { return None };
        (first == Some(ticket) && part.number == number).then_some(lease)
    }

    /// Whether these are a site's good receipts for some of these tickets.
    pub(super) fn check_receipts(
        &mut self,
        lease: LeaseId,
        site: ActorId,
        tickets: &[Ticket],
        receipts: &[Receipt],
    ) -> Result<(), String> {
        if tickets.first().is_none_or(|first| first.site() != site) {
            return Err(format!("lease {lease} is not at its sender's site"));
        }
        for receipt in receipts {
            let what = &receipt.what;
            let ours = what.site == site
                && tickets.iter().map(Ticket::bottom).any(|link| {
                    link.hash() == what.link
                        && link.issuer == what.issuer
                        && what.units <= link.units
                        && link.term.encloses(what.term)
                });
            if !ours || !self.base.credentials.checks_receipt(receipt) {
                return Err(format!("a receipt for lease {lease} is not good"));
            }
        }
        Ok(())
    }

    pub(super) fn take_return(&mut self, at: Time, fact: &PartReturned) -> Result<(), BadFact> {
        let id = fact.lease;
        let before = self.units_of(id);
        let counted = self.state.leases.get(&id).map_or(0, |lease| lease.units);
        self.step(at, id, Event::PartReturned(fact.receipts.clone()))?;
        let gone = before.saturating_sub(self.units_of(id));
        if let Some(lease) = self.state.leases.get_mut(&id) {
            lease.units = counted.saturating_sub(gone);
            lease.expires_at = lease.term.end();
            lease.costs.credit(&fact.receipts);
            lease.worth.credit(&fact.receipts);
        }
        self.book_again(id, at);
        self.refresh(id, at);
        Ok(())
    }

    pub(super) fn shrunk(&mut self, at: Time, id: LeaseId) -> Result<(), BadFact> {
        let held = self.lease(id).and_then(State::held);
        let units = held.and_then(|held| held.seams.front()).map(|seam| seam.units);
        let victims = held.map(Held::next_to_go).unwrap_or_default();
        for unit in victims {
            self.state.pending.settle(&Obligation::Join(id, unit));
            self.state.pending.settle(&Obligation::Leave(id, unit));
        }
        self.step(at, id, Event::Shrunk)?;
        if let Some(lease) = self.state.leases.get_mut(&id) {
            lease.units = units.unwrap_or(lease.units);
        }
        self.refresh(id, at);
        Ok(())
    }

    fn units_of(&self, id: LeaseId) -> u32 {
        let held = self.lease(id).and_then(State::held);
        held.map_or(0, Held::quantity)
    }

    /// Counts what is left of a lease as held.
    pub(super) fn book_again(&mut self, id: LeaseId, at: Time) {
        let Some(lease) = self.state.leases.get(&id) else { return };
        let Some(held) = lease.state.held() else { return };
        let (most, term) = (lease.units, held.term);
        let part = |ticket: &Ticket| {
            let link = ticket.bottom();
            let over = link.term.until(term.end()).and_then(|over| over.from(at))?;
            Some((link.resource.clone(), over, link.units.get().min(most)))
        };
        let parts: Vec<_> = held.tickets.iter().filter_map(part).collect();
        self.unbook(id, at);
        for (resource, over, units) in parts {
            self.book(id, &resource, over, units, at);
        }
    }
}
