//! How facts change a site authority.

use std::collections::{BTreeSet, VecDeque};

use super::{Cause, Delegation, Lease, Obligation, Seam, SiteAuthority, Tenancy, Timer};
use crate::actor::common::CommonActor as _;
use crate::actor::fact::BadFact;
use crate::driver::UnitId;
use crate::model::time::{Span, Term, Time};
use crate::mutants::mutant;
use crate::site_authority::facts::{
    Denial, Fact, LeaseClosed, LeaseExtended, Redeemed, TicketRefused, TicketSurrendered, UnitSetUp,
};
use crate::site_authority::machine::{Event, State};
use crate::site_authority::unit;
use crate::ticket::Ticket;
use crate::ticket::link::{AccountId, DelegationId, LinkHash};
use crate::wire::heartbeat::keep_alive;

impl SiteAuthority {
    #[allow(clippy::too_many_lines, reason = "a line or two for each kind of fact")]
    pub(super) fn apply_fact(&mut self, at: Time, fact: &Fact) -> Result<(), BadFact> {
        match fact {
            Fact::Stocked(fact) => self.stocked(fact)?,
            Fact::StockPlanned(fact) => self.planned(fact),
            Fact::StacksPlanned(fact) => self.state.stacks = fact.stacks.clone(),
            Fact::UnitAdded(fact) => self.unit_added(fact)?,
            Fact::UnitDescribed(fact) => self.described(fact),
            Fact::UnitDrained(fact) => self.set_drained(fact.unit, true)?,
            Fact::UnitNeeded(fact) => self.needed(fact),
            Fact::UnitResumed(fact) => self.set_drained(fact.unit, false)?,
            Fact::UnitQuarantined(fact) => self.quarantined(at, fact)?,
            Fact::InventoryChanged(fact) => self.inventory_changed(fact)?,
            Fact::DelegationIssued(fact) => self.delegation_issued(at, &fact.ticket, false),
            Fact::DelegatedByHand(fact) => self.delegation_issued(at, &fact.ticket, true),
            Fact::DelegationAcknowledged(fact) => {
                self.state.pending.settle(&Obligation::Delegate(fact.number));
            }
            Fact::DelegationEnded(fact) => self.delegation_ended(fact.number),
            Fact::Redeemed(fact) => self.redeemed(at, fact),
            Fact::LeaseExtended(fact) => self.lease_extended(at, fact)?,
            Fact::UnitsReturned(fact) => self.units_returned(at, fact)?,
            Fact::TermReturned(fact) => self.term_returned(at, fact)?,
            Fact::LeaseShrunk(fact) => self.lease_shrunk(at, fact)?,
            Fact::RightsReturned(fact) => self.rights_returned(at, fact),
            Fact::QuantityReturned(fact) => self.quantity_returned(at, fact)?,
            Fact::QuantityWithdrawn(fact) => self.quantity_withdrawn(fact)?,
            Fact::ShareAssigned(fact) => self.share_assigned(at, fact)?,
            Fact::ModificationBegun(fact) => self.modification_begun(at, fact)?,
            Fact::UnitModified(fact) => self.unit_modified(at, fact)?,
            Fact::UnitModifyFailed(fact) => self.unit_modify_failed(fact)?,
            Fact::LeaseModified(fact) => self.lease_modified(at, fact)?,
            Fact::ModificationFailed(fact) => self.modification_failed(at, fact)?,
            Fact::TicketRefused(fact) => self.ticket_refused(at, fact)?,
            Fact::CameDue(fact) => self.came_due(at, fact.lease)?,
            Fact::UnitsAssigned(fact) => self.units_assigned(at, fact.lease, &fact.units)?,
            Fact::UnitSetUp(fact) => self.unit_set_up(at, fact)?,
            Fact::UnitSetupFailed(fact) => self.setup_failed(at, fact)?,
            Fact::UnitFailed(fact) => self.unit_failed(at, fact)?,
            Fact::UnitTornDown(fact) => self.torn_down(at, fact.unit)?,
            Fact::UnitTeardownFailed(fact) => self.teardown_failed(at, fact)?,
            Fact::UnitRestored(fact) => self.put_right(at, fact.unit, unit::Event::Restored)?,
            Fact::UnitReset(fact) => self.put_right(at, fact.unit, unit::Event::Reset)?,
            Fact::LeaseActivated(fact) => self.lease_activated(at, fact.lease)?,
            Fact::LeaseClosed(fact) => self.lease_closed(at, fact)?,
            Fact::TicketSurrendered(fact) => self.surrendered(at, fact),
            Fact::TicketReclaimed(fact) => self.ticket_reclaimed(at, fact),
            Fact::Common(fact) => self.apply_common(at, fact),
            Fact::LeaseForgotten(fact) => self.forget(at, fact.lease),
            Fact::MapperAnswered(fact) => {
                self.state.rounds.answered(fact.memo.as_ref(), fact.wake);
                self.state.timers.set(Timer::Wake, fact.wake);
                self.count_short();
            }
            Fact::Woken(_) => {
                self.state.timers.set(Timer::Wake, None);
                self.state.rounds.woken();
            }
            Fact::Recalled(fact) => self.recalled(at, fact),
            Fact::RightsRecalled(fact) => self.rights_recalled(at, fact)?,
            Fact::UnitsRecalled(fact) => self.units_recalled(at, fact)?,
            Fact::RecallNoted(fact) => self.recall_noted(at, fact),
        }
        Ok(())
    }

    fn unit_set_up(&mut self, at: Time, fact: &UnitSetUp) -> Result<(), BadFact> {
        let event = unit::Event::SetUp(fact.properties.clone());
        self.note(fact.unit, |notes| notes.setups = notes.setups.saturating_add(1));
        let tenant = self.step_unit(at, fact.unit, event)?;
        match tenant.filter(|_| self.is_ready(fact.unit)) {
            Some(lease) => self.step_lease(at, lease, Event::UnitReady(fact.unit)),
            None => Ok(()),
        }
    }

    fn came_due(&mut self, at: Time, hash: LinkHash) -> Result<(), BadFact> {
        self.count_due(hash);
        self.step_lease(at, hash, Event::CameDue)
    }

    fn lease_activated(&mut self, at: Time, hash: LinkHash) -> Result<(), BadFact> {
        self.step_lease(at, hash, Event::Activated)?;
        let cause = self.cause(at);
        if let Some(lease) = self.state.leases.get_mut(&hash) {
            lease.answer(hash, cause);
        }
        self.kept_since(hash, at);
        Ok(())
    }

    fn delegation_issued(&mut self, at: Time, ticket: &Ticket, by_hand: bool) {
        let link = ticket.bottom();
        let Some(generation) = link.delegation else { return };
        let number = generation.delegation;
        self.state.claims.open(link);
        let attributes = (*self.attributes_under(link)).clone();
        let (units, old) = (link.units.get(), self.state.delegations.get(&number));
        let delegation = Delegation {
            ticket: ticket.clone(),
            attributes,
            by_hand,
            held: self.held_under(link.account(), at),
            left: units,
            given_back: old.map_or(0, |old| old.given_back),
        };
        let offer = self.plan.offers.iter().find(|offer| self.is_offered(&delegation, offer));
        let renew = offer.map(|offer| link.term.end().minus(offer.renew_before));
        self.state.delegations.insert(number, delegation);
        self.state.last_delegation = self.state.last_delegation.max(number);
        self.state.timers.set(Timer::Renewal(number), renew);
        // Until then its closed leases are remembered, and a clock that was set back does no harm.
        let end = link.term.end().plus(self.base.margin());
        self.state.timers.set(Timer::DelegationEnd(number), Some(end));
        self.require(Obligation::Delegate(number), at);
    }

    fn delegation_ended(&mut self, number: u64) {
        self.state.timers.set(Timer::Renewal(number), None);
        self.state.timers.set(Timer::DelegationEnd(number), None);
        self.state.pending.settle(&Obligation::Delegate(number));
        self.state.delegations.remove(&number);
        let id = DelegationId { issuer: self.base.id(), number };
        self.end_recalls_under(AccountId::Delegation(id));
        self.state.claims.close(AccountId::Delegation(id));
    }

    fn redeemed(&mut self, at: Time, fact: &Redeemed) {
        let hash = fact.ticket.hash();
        let term = fact.ticket.bottom().term;
        self.claim(&fact.ticket, at);
        let returns = self.end_rights(hash);
        let (wanted, seams, term) = self.steps_of(hash, term, at);
        let due = term.start() <= at;
        let lease = Lease {
            state: if due { State::Due } else { State::Early },
            tickets: vec![fact.ticket.clone()],
            term,
            id: Some(fact.lease),
            configuration_bytes: fact.configuration.bytes(),
            min_units: fact.min_units,
            keep_alive: keep_alive(&fact.configuration).ok().flatten(),
            wanted,
            divisible: self.is_divisible(&fact.ticket),
            modification: None,
            seams,
            returns,
            failed: self.excluded_by(&fact.ticket),
            short_since: None,
            stalled: None,
            found_short: false,
            answered: Vec::new(),
            closed: None,
            cuts: Default::default(),
        };
        let tenancy = Tenancy {
            guest: fact.ticket.bottom().holder,
            slice: fact.slice.clone(),
            lease: fact.lease,
            configuration: fact.configuration.clone(),
            // A clock that fell back may have brought it back before all units were clean.
            units: self.state.tenancies.get(&hash).map_or(0, |tenancy| tenancy.units),
        };
        self.state.tenancies.insert(hash, tenancy);
        self.remember(hash, lease);
        self.state.live.insert(hash);
        self.cut_as_recalled(hash, at);
        if mutant!(AnsweredTooSoon) {
            let cause = self.cause(at);
            if let Some(lease) = self.state.leases.get_mut(&hash) {
                lease.answer(hash, cause);
            }
        }
        if due {
            self.count_due(hash);
        }
        self.refresh(hash, at);
    }

    /// Takes a ticket's chain into the tree of claims, the ticket as used.
    fn claim(&mut self, ticket: &Ticket, at: Time) {
        self.enter_chain(ticket, at);
        self.state.used.insert(ticket.bottom().account());
    }

    /// Enters every link of the chain under its parent.
    pub(super) fn enter_chain(&mut self, ticket: &Ticket, at: Time) {
        self.state.claims.forget_history(at);
        for pair in ticket.links().windows(2) {
            self.state.claims.enter(&pair[0], &pair[1], at);
            self.state.claims.forget_steps(pair[0].account(), at);
        }
    }

    fn lease_extended(&mut self, at: Time, fact: &LeaseExtended) -> Result<(), BadFact> {
        let LeaseExtended { lease: hash, ticket, victims } = fact;
        let (hash, link) = (*hash, ticket.bottom());
        self.claim(ticket, at);
        self.state.by_ticket.insert(ticket.hash(), hash);
        self.step_lease(at, hash, Event::Extended)?;
        let cause = self.cause(at);
        if let Some(lease) = self.state.leases.get_mut(&hash) {
            lease.answer(ticket.hash(), cause);
            let (seam, units) = (lease.term.end(), link.units.get());
            if units < lease.wanted_at_end() {
                lease.seams.push_back(Seam { at: seam, units, victims: victims.clone() });
            }
            lease.term = Term::new(lease.term.start(), link.term.end()).unwrap_or(lease.term);
            self.state.charges.release(lease);
            lease.tickets.push(ticket.clone());
            self.state.charges.charge(lease);
        }
        self.refresh(hash, at);
        Ok(())
    }

    fn units_assigned(
        &mut self,
        at: Time,
        hash: LinkHash,
        units: &[UnitId],
    ) -> Result<(), BadFact> {
        for &unit in units {
            self.step_unit(at, unit, unit::Event::Assigned(hash))?;
        }
        self.step_lease(at, hash, Event::Assigned(units.iter().copied().collect()))
    }

    /// A unit will not serve the lease it was on or meant for.
    pub(super) fn unit_lost(
        &mut self,
        at: Time,
        unit: UnitId,
        event: unit::Event,
    ) -> Result<(), BadFact> {
        let tenant = self.state.units.get(&unit).and_then(|unit| unit.state.tenant());
        self.step_unit(at, unit, event)?;
        let still = self.state.units.get(&unit).and_then(|unit| unit.state.tenant());
        let Some(lease) = tenant.filter(|_| still.is_none()) else { return Ok(()) };
        if let Some(lease) = self.state.leases.get_mut(&lease) {
            lease.failed.insert(unit);
        }
        self.step_lease(at, lease, Event::UnitLost(unit))
    }

    fn lease_closed(&mut self, at: Time, fact: &LeaseClosed) -> Result<(), BadFact> {
        let lease =
            self.state.leases.get(&fact.lease).ok_or_else(|| missing("close", fact.lease))?;
        let units = lease.state.units();
        self.step_lease(at, fact.lease, Event::Closed(fact.why.clone()))?;
        for unit in units {
            self.step_unit(at, unit, unit::Event::Released)?;
        }
        self.end_tenancy(fact.lease);
        self.enter_receipts(&fact.receipts);
        self.end_cuts(at, fact);
        let cause = self.cause(at);
        self.state.live.remove(&fact.lease);
        if let Some(lease) = self.state.leases.get_mut(&fact.lease) {
            lease.closed = Some((cause, fact.receipts.clone()));
            self.state.charges.release(lease);
            lease.modification = None;
            // No unit is set up for it any more.
            lease.configuration_bytes = 0;
            self.state.charges.charge(lease);
        }
        Ok(())
    }

    /// A ticket that comes back unredeemed is claimed and given back at once, and remembered as closed.
    fn surrendered(&mut self, at: Time, fact: &TicketSurrendered) {
        let (ticket, hash) = (&fact.ticket, fact.ticket.hash());
        self.claim(ticket, at);
        self.enter_receipts(&fact.receipts);
        let returns = self.end_rights(hash);
        let cause = self.cause(at);
        let lease = Lease {
            state: State::Closed { units: Default::default(), why: fact.why.clone() },
            tickets: vec![ticket.clone()],
            term: ticket.bottom().term,
            id: None,
            configuration_bytes: 0,
            min_units: ticket.bottom().units,
            keep_alive: None,
            wanted: 0,
            divisible: false,
            modification: None,
            seams: VecDeque::new(),
            returns,
            failed: BTreeSet::new(),
            short_since: None,
            stalled: None,
            found_short: false,
            answered: Vec::new(),
            closed: Some((cause, fact.receipts.clone())),
            cuts: Default::default(),
        };
        self.remember(hash, lease);
        self.cut_as_recalled(hash, at);
        self.refresh(hash, at);
    }

    fn remember(&mut self, hash: LinkHash, lease: Lease) {
        self.state.charges.charge(&lease);
        self.state.leases.insert(hash, Box::new(lease));
        self.state.by_ticket.insert(hash, hash);
    }

    fn ticket_refused(&mut self, at: Time, fact: &TicketRefused) -> Result<(), BadFact> {
        let TicketRefused { ticket, denial } = fact;
        let near = match denial {
            // The last parent has the account that the others have, too.
            Denial::Conflict(outline) => {
                let depth = outline.parents.last().map_or(0, Vec::len);
                depth.checked_sub(1).and_then(|place| ticket.links().get(place))
            }
            Denial::Other(_) => None,
        };
        let near = near.unwrap_or(ticket.root()).account();
        let claims = &self.state.claims;
        let find = |hash| claims.find(near, hash).cloned();
        let cause = self.cause(at);
        self.state
            .refused
            .insert(ticket, denial, cause, find)
            .map_err(|hash| missing("refusal", hash))?;
        let forget = ticket.bottom().term.end().plus(self.base.margin());
        self.state.timers.set(Timer::Lease(ticket.hash()), Some(forget));
        Ok(())
    }

    fn forget(&mut self, at: Time, hash: LinkHash) {
        self.state.timers.set(Timer::Lease(hash), None);
        self.state.timers.set(Timer::Seam(hash), None);
        self.state.refused.remove(hash);
        self.end_rights(hash);
        self.forget_reclaimed(hash);
        // The recall of a delegation outlives the generation that was recalled.
        let recall = self.state.recalls.get(&hash);
        if recall.is_none_or(|recall| recall.link().delegation.is_none()) {
            self.end_recall(hash);
        }
        self.state.claims.forget_history(at);
        if let Some(lease) = self.state.leases.remove(&hash) {
            self.state.charges.release(&lease);
            for ticket in &lease.tickets {
                self.state.by_ticket.remove(&ticket.hash());
                self.state.used.remove(&ticket.bottom().account());
            }
        }
    }

    pub(super) fn step_lease(
        &mut self,
        at: Time,
        hash: LinkHash,
        event: Event,
    ) -> Result<(), BadFact> {
        let lease = self.state.leases.get_mut(&hash).ok_or_else(|| missing("event", hash))?;
        let ready = matches!(event, Event::UnitReady(_));
        let changed = ready || matches!(event, Event::UnitLost(_));
        lease.state = std::mem::replace(&mut lease.state, State::Early).next(event)?;
        let waits = matches!(&lease.state, State::Priming { pending, .. } if !pending.is_empty());
        let short = lease.short_since.is_some() && lease.lacks() > 0;
        // One that is ready was counted before: nothing else follows from it.
        if ready {
            self.place_stalled(hash);
        } else {
            self.refresh(hash, at);
        }
        // What it still waits for may have been its last hope: the mapper has to look again.
        if changed && short && !waits {
            self.state.rounds.call();
        }
        Ok(())
    }

    /// Sets what follows from a lease's state: its deadline, and its place among those that lack units.
    pub(super) fn refresh(&mut self, hash: LinkHash, at: Time) {
        let (position, margin) = (self.base.position, self.base.margin());
        let Some(lease) = self.state.leases.get_mut(&hash) else { return };
        let deadline = match lease.state {
            State::Early => lease.term.start(),
            State::Active { .. } if mutant!(RunsOver) => lease.term.end().plus(margin),
            State::Active { .. } if mutant!(EndsEarly) => lease.term.end().minus(margin),
            State::Priming { .. } if mutant!(SetupEndsLate) => {
                lease.term.end().plus(Span::DAY.times(365))
            }
            State::Due | State::Priming { .. } | State::Active { .. } => lease.term.end(),
            State::Closed { .. } if mutant!(NoTombstone) => at,
            // The ticket of one that ended earlier could else begin another.
            State::Closed { .. } if mutant!(ForgetsShortened) => lease.term.end().plus(margin),
            State::Closed { .. } => lease.tickets_end().plus(margin),
        };
        self.state.timers.set(Timer::Lease(hash), Some(deadline));
        let seam = lease.seams.front().map(|seam| seam.at);
        let seam = seam.filter(|_| matches!(lease.state, State::Active { .. }));
        self.state.timers.set(Timer::Seam(hash), seam);
        self.state.timers.set(Timer::Cut(hash), lease.next_cut().map(|(_, cut)| cut.at));
        match (lease.lacks() > 0, lease.short_since) {
            (true, None) => {
                lease.short_since = Some(position);
                self.state.short.insert(position, hash);
                self.state.rounds.call();
            }
            (false, Some(since)) => {
                lease.short_since = None;
                self.state.short.remove(&since);
            }
            (true, Some(_)) | (false, None) => {}
        }
        self.place_stalled(hash);
        self.listen(hash, at);
    }

    /// Puts a lease where it belongs among those that lack units and have none on the way.
    fn place_stalled(&mut self, hash: LinkHash) {
        let Some(lease) = self.state.leases.get_mut(&hash) else { return };
        let place = lease.stalls();
        let old = std::mem::replace(&mut lease.stalled, place);
        let pool = self.state.stocks.get_mut(&lease.tickets[0].bottom().resource);
        let Some(pool) = pool.filter(|_| old != place) else { return };
        if let Some(old) = old {
            pool.stalled.remove(&old);
        }
        pool.stalled.extend(place);
    }

    /// An operator put a unit right: how it failed before counts no more.
    fn put_right(&mut self, at: Time, id: UnitId, event: unit::Event) -> Result<(), BadFact> {
        self.note(id, |notes| notes.failures = 0);
        self.set_fault(id, None);
        self.move_unit(at, id, event)
    }

    /// As [`step_unit`](Self::step_unit), of a unit without a tenant.
    pub(super) fn move_unit(
        &mut self,
        at: Time,
        id: UnitId,
        event: unit::Event,
    ) -> Result<(), BadFact> {
        self.step_unit(at, id, event).map(drop)
    }

    /// Moves a unit on, with its pool, its epoch and what is owed for it; answers its tenant.
    pub(super) fn step_unit(
        &mut self,
        at: Time,
        id: UnitId,
        event: unit::Event,
    ) -> Result<Option<LinkHash>, BadFact> {
        let unit = self.state.units.get_mut(&id).ok_or_else(|| missing("event", id))?;
        let from = unit.state.clone();
        unit.state = std::mem::replace(&mut unit.state, unit::State::Free).next(event)?;
        unit.epoch = unit::epoch_after(unit.epoch, &from, &unit.state);
        let to = unit.state.clone();
        let served = match &to {
            unit::State::SettingUp { tenant } => Some(*tenant),
            unit::State::Free => None,
            unit::State::Ready { .. }
            | unit::State::Abandoned { .. }
            | unit::State::TearingDown { .. }
            | unit::State::Quarantined => unit.served,
        };
        let before = std::mem::replace(&mut unit.served, served);
        let quantity = (unit.taken, unit.resource.clone());
        let pool = self.state.stocks.get_mut(&unit.resource);
        if let Some(pool) = pool.filter(|pool| !pool.is_divisible()) {
            pool.take(id, &from);
            pool.put(id, &to);
        }
        match to {
            unit::State::Free | unit::State::Quarantined => self.state.busy.remove(&id),
            unit::State::SettingUp { .. }
            | unit::State::Ready { .. }
            | unit::State::Abandoned { .. }
            | unit::State::TearingDown { .. } => self.state.busy.insert(id),
        };
        if to.tenant().is_none() {
            self.state.timers.set(Timer::Needed(id), None);
        }
        self.serve(before, served)?;
        self.owe_for(id, &from, &to, at);
        if to == unit::State::Free {
            self.end_share(id, quantity);
        }
        let came_free = to == unit::State::Free || (to.assignable() && !from.assignable());
        // One that is lost may have been what a lease waited for.
        if (came_free || to == unit::State::Quarantined) && !self.state.short.is_empty() {
            self.state.rounds.call();
        }
        Ok(to.tenant())
    }

    /// A unit that served one lease serves another from now on.
    fn serve(&mut self, from: Option<LinkHash>, to: Option<LinkHash>) -> Result<(), BadFact> {
        if from == to {
            return Ok(());
        }
        if let Some(tenant) = to {
            let tenancy = self.state.tenancies.get_mut(&tenant);
            tenancy.ok_or_else(|| missing("tenant", tenant))?.units += 1;
        }
        if let Some(tenant) = from {
            if let Some(tenancy) = self.state.tenancies.get_mut(&tenant) {
                tenancy.units -= 1;
            }
            self.end_tenancy(tenant);
        }
        Ok(())
    }

    /// Drops the record of a lease that has ended, if no unit is left to be cleaned after it.
    fn end_tenancy(&mut self, tenant: LinkHash) {
        let over = self.lease(tenant).is_none_or(|state| matches!(state, State::Closed { .. }));
        if over && self.state.tenancies.get(&tenant).is_some_and(|tenancy| tenancy.units == 0) {
            self.state.tenancies.remove(&tenant);
        }
    }

    fn owe_for(&mut self, id: UnitId, from: &unit::State, to: &unit::State, at: Time) {
        let setting_up = |s: &unit::State| {
            matches!(s, unit::State::SettingUp { .. } | unit::State::Abandoned { .. })
        };
        let cleaning = |s: &unit::State| matches!(s, unit::State::TearingDown { .. });
        match (setting_up(from), setting_up(to)) {
            (false, true) => self.require(Obligation::Setup(id), at),
            (true, false) => self.state.pending.settle(&Obligation::Setup(id)),
            (true, true) | (false, false) => {}
        }
        if !matches!(to, unit::State::Ready { .. }) {
            self.state.pending.settle(&Obligation::Modify(id));
            self.state.pending.settle(&Obligation::Failure(id));
        }
        match (cleaning(from), cleaning(to)) {
            (false, true) if mutant!(AbandonedNotCleaned) && setting_up(from) => {}
            (false, true) => self.require(Obligation::Teardown(id), at),
            (true, false) => self.state.pending.settle(&Obligation::Teardown(id)),
            (true, true) | (false, false) => {}
        }
    }

    fn is_ready(&self, unit: UnitId) -> bool {
        self.state.units.get(&unit).is_some_and(|u| matches!(u.state, unit::State::Ready { .. }))
    }

    pub(super) fn require(&mut self, obligation: Obligation, at: Time) {
        self.state.pending.require(obligation, self.base.position, at);
    }

    pub(super) fn cause(&self, at: Time) -> Cause {
        Cause { position: self.base.position, at }
    }
}

pub(super) fn missing(kind: &'static str, what: impl std::fmt::Display) -> BadFact {
    BadFact::Missing { kind, what: what.to_string() }
}
