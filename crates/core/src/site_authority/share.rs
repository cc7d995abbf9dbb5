//! Shares of a divisible stock: bandwidth, storage.
//!
//! A lease of such a stock has one share, made for it when it begins: a unit with a number, an epoch and a
//! quantity. While the shares that exist take up too much of the stock, those cleaned among them, a lease
//! waits. A share that is made smaller takes up as much as before until the driver has done it.

use std::num::NonZeroU32;

use super::apply::missing;
use super::{SiteAuthority, Unit, UnitPool};
use crate::actor::Emit as _;
use crate::actor::fact::BadFact;
use crate::driver::{Epoch, UnitId};
use crate::model::name::Name;
use crate::model::time::Time;
use crate::mutants::mutant;
use crate::site_authority::Output;
use crate::site_authority::facts::{QuantityReturned, QuantityWithdrawn, ShareAssigned};
use crate::site_authority::machine::Event;
use crate::site_authority::unit;
use crate::ticket::Ticket;
use crate::ticket::link::LinkHash;
use crate::wire::refusal::Refusal;

impl SiteAuthority {
    /// Whether a ticket is for a share.
    pub(super) fn is_divisible(&self, ticket: &Ticket) -> bool {
        let pool = self.state.stocks.get(&ticket.bottom().resource);
        pool.is_some_and(UnitPool::is_divisible)
    }

    /// Makes shares for the leases that wait for one, in the order in which they came to.
    pub(super) fn share_out(&mut self, now: Time, out: &mut Output) {
        let leases = &self.state.leases;
        let divisible = |hash: &&LinkHash| leases.get(hash).is_some_and(|lease| lease.divisible);
        let waiting: Vec<LinkHash> = self.state.short.values().filter(divisible).copied().collect();
        for lease in waiting {
            self.make_share(now, lease, out);
        }
    }

    fn make_share(&mut self, now: Time, hash: LinkHash, out: &mut Output) {
        let Some(lease) = self.state.leases.get(&hash) else { return };
        let resource = &lease.tickets[0].bottom().resource;
        let Some(pool) = self.state.stocks.get(resource) else { return };
        let Some(quantity) = NonZeroU32::new(lease.lacks()) else { return };
        if lease.term.end() <= now {
            return;
        }
        let free = pool.total.saturating_sub(pool.shared);
        let free = if mutant!(ShareBeyondStock) { pool.total } else { free };
        let wanted = quantity.get();
        if !lease.failed.is_empty() || (free < wanted && self.usable(resource, pool) < wanted) {
            let refusal = Refusal::SetupFailed { ready: 0, wanted };
            self.fail(now, hash, refusal, out);
        } else if wanted <= free {
            let unit = UnitId(self.state.numbered);
            self.emit(now, ShareAssigned { lease: hash, unit, quantity }, out);
        }
    }

    /// How much of a stock no quarantined share takes up.
    fn usable(&self, resource: &Name, pool: &UnitPool) -> u32 {
        let shares = self.state.units.values().filter(|unit| unit.resource == *resource);
        let lost = shares.filter(|unit| unit.state == unit::State::Quarantined);
        lost.fold(pool.total, |left, unit| left.saturating_sub(unit.taken.get()))
    }

    /// Takes a part of a lease's share back from now on.
    pub(super) fn take_quantity(
        &mut self,
        now: Time,
        hash: LinkHash,
        (number, quantity): (u32, NonZeroU32),
        out: &mut Output,
    ) -> Result<(), Refusal> {
        let Some((_, wanted)) = self.open_to_return(now, hash, number, out)? else {
            return Ok(());
        };
        if !self.state.leases.get(&hash).is_some_and(|lease| lease.divisible) {
            let cause = "the lease has units, not a share".to_owned();
            return Err(Refusal::Malformed(cause));
        }
        let rest = wanted.saturating_sub(quantity.get());
        if rest == 0 {
            self.give_back(now, hash, out);
            self.repeat_answer(hash, hash, out);
            return Ok(());
        }
        let mut receipts = Vec::new();
        for ticket in &self.tickets_of(hash) {
            let parts = self.surplus_of(ticket.bottom(), now, rest);
            receipts.extend(self.sign_receipts(ticket.bottom(), parts));
        }
        self.emit(now, QuantityReturned { lease: hash, number, quantity, receipts }, out);
        self.answer_return(hash, number, out);
        Ok(())
    }

    pub(super) fn share_assigned(&mut self, at: Time, fact: &ShareAssigned) -> Result<(), BadFact> {
        let ShareAssigned { lease: hash, unit, quantity } = *fact;
        let lease = self.state.leases.get(&hash).filter(|_| unit.0 == self.state.numbered);
        let lease = lease.ok_or_else(|| missing("share", unit))?;
        let resource = lease.tickets[0].bottom().resource.clone();
        let pool = self.state.stocks.get_mut(&resource);
        let pool = pool.ok_or_else(|| missing("stock", &resource))?;
        pool.shared = pool.shared.saturating_add(quantity.get());
        self.state.numbered += 1;
        let record = Unit {
            resource,
            state: unit::State::Free,
            epoch: Epoch::default(),
            served: None,
            quantity,
            taken: quantity,
            modifications: 0,
            fault: None,
        };
        self.state.units.insert(unit, record);
        self.step_unit(at, unit, unit::Event::Assigned(hash))?;
        self.step_lease(at, hash, Event::Assigned(std::iter::once(unit).collect()))
    }

    pub(super) fn quantity_returned(
        &mut self,
        at: Time,
        fact: &QuantityReturned,
    ) -> Result<(), BadFact> {
        self.step_lease(at, fact.lease, Event::Modified)?;
        self.part_returned(at, fact.lease, fact.number, &fact.receipts);
        if let Some(lease) = self.state.leases.get_mut(&fact.lease) {
            lease.forget_answers();
            lease.needs_no_more_than(lease.wanted.saturating_sub(fact.quantity.get()));
        }
        self.reduce_share(at, fact.lease);
        self.refresh(fact.lease, at);
        Ok(())
    }

    pub(super) fn quantity_withdrawn(&mut self, fact: &QuantityWithdrawn) -> Result<(), BadFact> {
        let pool = self.state.stocks.get_mut(&fact.resource);
        let pool = pool.ok_or_else(|| missing("stock", &fact.resource))?;
        pool.total = pool.total.saturating_sub(fact.quantity.get());
        Ok(())
    }

    /// A lease's share is to be as large as the lease is by now.
    pub(super) fn reduce_share(&mut self, at: Time, hash: LinkHash) {
        let lease = self.state.leases.get_mut(&hash).filter(|lease| lease.divisible);
        let Some(lease) = lease else { return };
        let Some(quantity) = NonZeroU32::new(lease.wanted) else { return };
        lease.forget_answers();
        for unit in lease.state.units() {
            if let Some(unit) = self.state.units.get_mut(&unit) {
                unit.quantity = quantity;
            }
            if !mutant!(ShareKeepsItsSize) {
                self.modify_unit(at, unit);
            }
        }
    }

    /// The driver has made a share as large as it is to be: the rest of the stock is free.
    pub(super) fn share_reduced(&mut self, id: UnitId) {
        let Some(unit) = self.state.units.get_mut(&id) else { return };
        let freed = unit.taken.get().saturating_sub(unit.quantity.get());
        unit.taken = unit.quantity;
        if let Some(pool) = self.state.stocks.get_mut(&unit.resource).filter(|_| freed > 0) {
            pool.shared = pool.shared.saturating_sub(freed);
            if !self.state.short.is_empty() {
                self.state.rounds.call();
            }
        }
    }

    /// A share that was cleaned is no more.
    pub(super) fn end_share(&mut self, id: UnitId, (taken, resource): (NonZeroU32, Name)) {
        let pool = self.state.stocks.get_mut(&resource);
        let Some(pool) = pool.filter(|pool| pool.is_divisible()) else { return };
        pool.shared = pool.shared.saturating_sub(taken.get());
        self.state.units.remove(&id);
    }
}
