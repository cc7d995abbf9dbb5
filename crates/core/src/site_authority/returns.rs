//! How parts of tickets come back to a site, and how leases go on with less.
//!
//! A part is some of a lease's units from now on, all of its units from a future instant on, or units of a
//! ticket that is not redeemed. Each return has a number under its ticket: a known one is answered as it was.

use std::collections::{BTreeSet, VecDeque};
use std::num::NonZeroU32;

use super::{Lease, Returns, Rights, Seam, SiteAuthority, Timer};
use crate::actor::Emit as _;
use crate::actor::fact::BadFact;
use crate::driver::UnitId;
use crate::model::identity::ActorId;
use crate::model::property::Properties;
use crate::model::time::{Term, Time};
use crate::mutants::mutant;
use crate::site_authority::Output;
use crate::site_authority::facts::{LeaseShrunk, RightsReturned, TermReturned, UnitsReturned};
use crate::site_authority::machine::{Event, State};
use crate::site_authority::unit;
use crate::ticket::ledger::PartReturned;
use crate::ticket::link::{AccountId, LinkHash, SignedLink};
use crate::ticket::receipt::{Receipt, Return};
use crate::ticket::{Ticket, TicketFault};
use crate::wire::message::{Message, Subject};
use crate::wire::part::{Part, surplus};
use crate::wire::refusal::Refusal;

/// The most receipts for parts of one lease: what closes it must fit into one message with them.
pub(super) const MAX_RECEIPTS: usize = 1000;

/// Units of a link, each with the term that comes back.
pub(super) type Parts = Vec<(NonZeroU32, Term)>;

impl Lease {
    /// Every receipt for its tickets, in the order in which they were signed.
    pub(super) fn all_receipts(&self) -> Vec<Receipt> {
        let parts = self.returns.values().flat_map(|(_, receipts)| receipts);
        let closed = self.closed.iter().flat_map(|(_, receipts)| receipts);
        let own = |receipt: &&Receipt| {
            self.tickets.iter().any(|ticket| ticket.hash() == receipt.what.link)
        };
        // One that was recalled has receipts for links above it, which are not its holder's.
        parts.chain(closed.filter(own)).cloned().collect()
    }

    /// It goes on with so many units. A seam that leaves no unit out any more is none.
    pub(super) fn needs_no_more_than(&mut self, units: u32) {
        self.wanted = units;
        let mut most = units;
        self.seams.retain(|seam| {
            let shrinks = seam.units < most;
            most = most.min(seam.units);
            shrinks
        });
    }
}

impl SiteAuthority {
    pub(super) fn take_part_back(
        &mut self,
        now: Time,
        from: ActorId,
        ticket: &Ticket,
        (number, part): (u32, Part),
        out: &mut Output,
    ) {
        let (hash, holder) = (ticket.hash(), ticket.bottom().holder);
        let lease = self.state.by_ticket.get(&hash).copied();
        let taken = if holder != from && !mutant!(HolderNotChecked) {
            Err(TicketFault::NotHolder(holder).into())
        } else {
            match (lease, part) {
                (Some(lease), Part::Units(units)) if lease == hash => {
                    self.take_units(now, lease, (number, &units), out)
                }
                (Some(lease), Part::Until(until)) if lease == hash => {
                    self.take_time(now, lease, (number, until), out)
                }
                (Some(lease), Part::Quantity(quantity)) if lease == hash => {
                    self.take_quantity(now, lease, (number, quantity), out)
                }
                (None, Part::Rights { units, from }) => {
                    self.take_rights(now, ticket, (number, units, from), out)
                }
                (Some(_), Part::Rights { .. }) => {
                    Err(Refusal::Malformed("the ticket was redeemed or given back".to_owned()))
                }
                (Some(_) | None, Part::Units(_) | Part::Until(_) | Part::Quantity(_)) => {
                    Err(Refusal::Malformed("no lease began with this ticket".to_owned()))
                }
            }
        };
        if let Err(refusal) = taken {
            let (subject, offers) = (Subject::Return(hash, number), Vec::new());
            let message = Message::Refused { subject, refusal, offers };
            out.replies.push(self.base.volatile(from, now, message));
        }
    }

    /// Takes some of a lease's units back from now on.
    fn take_units(
        &mut self,
        now: Time,
        hash: LinkHash,
        (number, victims): (u32, &[UnitId]),
        out: &mut Output,
    ) -> Result<(), Refusal> {
        let Some((units, wanted)) = self.open_to_return(now, hash, number, out)? else {
            return Ok(());
        };
        let gone: BTreeSet<UnitId> =
            victims.iter().copied().filter(|victim| units.contains(victim)).collect();
        if gone.len() == units.len() {
            self.give_back(now, hash, out);
            self.repeat_answer(hash, hash, out);
            return Ok(());
        }
        let count = u32::try_from(gone.len()).unwrap_or(u32::MAX);
        let tickets = self.tickets_of(hash);
        let mut receipts = Vec::new();
        for ticket in &tickets {
            let link = ticket.bottom();
            let parts = self.surplus_of(link, now, wanted.saturating_sub(count));
            receipts.extend(self.sign_receipts(link, parts));
        }
        let units = gone.into_iter().collect();
        self.emit(now, UnitsReturned { lease: hash, number, units, receipts }, out);
        self.answer_return(hash, number, out);
        Ok(())
    }

    /// Takes a lease's units back from a future instant on.
    fn take_time(
        &mut self,
        now: Time,
        hash: LinkHash,
        (number, until): (u32, Time),
        out: &mut Output,
    ) -> Result<(), Refusal> {
        if self.open_to_return(now, hash, number, out)?.is_none() {
            return Ok(());
        }
        let ends = self.state.leases.get(&hash).map(|lease| lease.term.end());
        if until <= now || ends.is_none_or(|end| end <= until) {
            return Err(Refusal::TooLate(until));
        }
        let tickets = self.tickets_of(hash);
        let mut receipts = Vec::new();
        for ticket in &tickets {
            let parts = self.left_of(ticket.bottom(), until);
            receipts.extend(self.sign_receipts(ticket.bottom(), parts));
        }
        self.emit(now, TermReturned { lease: hash, number, until, receipts }, out);
        self.answer_return(hash, number, out);
        Ok(())
    }

    /// The units of a lease that gives a part back, and for how many units it is. None if there is nothing
    /// to decide: it is answered as before, or, while units are set up, not at all.
    pub(super) fn open_to_return(
        &self,
        now: Time,
        hash: LinkHash,
        number: u32,
        out: &mut Output,
    ) -> Result<Option<(Vec<UnitId>, u32)>, Refusal> {
        let Some(lease) = self.state.leases.get(&hash) else { return Ok(None) };
        match &lease.state {
            State::Closed { .. } => {
                self.repeat_answer(hash, hash, out);
                return Ok(None);
            }
            State::Early | State::Due | State::Priming { .. } => return Ok(None),
            State::Active { .. } if lease.term.end() <= now || lease.is_changing() => {
                return Ok(None);
            }
            State::Active { .. } => {}
        }
        if lease.returns.contains_key(&number) && !mutant!(ReturnsTwice) {
            self.answer_return(hash, number, out);
            return Ok(None);
        }
        let signed: usize = lease.returns.values().map(|(_, receipts)| receipts.len()).sum();
        check_number(&lease.returns, number, signed + lease.tickets.len())?;
        Ok(Some((lease.state.units(), lease.wanted)))
    }

    /// Takes units of a ticket back that is not redeemed. What was cut from it stays covered.
    fn take_rights(
        &mut self,
        now: Time,
        ticket: &Ticket,
        (number, units, from): (u32, NonZeroU32, Time),
        out: &mut Output,
    ) -> Result<(), Refusal> {
        let (hash, link) = (ticket.hash(), ticket.bottom());
        if let Some((_, refusal, _)) = self.state.refused.get(hash) {
            return Err(refusal);
        }
        match self.state.rights.get(&hash).map(|rights| &rights.returns) {
            Some(returns) if returns.contains_key(&number) => {
                self.answer_return(hash, number, out);
                return Ok(());
            }
            Some(returns) => {
                let signed = returns.values().map(|(_, receipts)| receipts.len()).sum();
                check_number(returns, number, signed)?;
            }
            None => self.admits_return(ticket)?,
        }
        if link.delegation.is_some() {
            return self.take_delegation(now, ticket, (number, units, from), out);
        }
        if let Some(refusal) = self.reclaimed_above(ticket) {
            return Err(refusal);
        }
        match self.check(now, link.holder, ticket, &Properties::default()) {
            Ok(()) | Err(Refusal::Constraint(_)) => {}
            Err(refusal) => return Err(refusal),
        }
        if let Some(refusal) = self.not_covered(ticket, false) {
            self.refuse_uncovered(now, ticket, refusal, out);
            return Ok(());
        }
        let parts = take(self.left_of(link, from.max(now)), units.get());
        let whole = parts.iter().map(|(part, _)| part.get()).sum::<u32>() == units.get();
        let own = self.state.claims.free(AccountId::Link(hash)).zip(parts.first());
        let handed_on =
            own.is_some_and(|(free, (_, term))| free.free_over(*term) < i64::from(units.get()));
        if !whole || handed_on {
            let cause = format!("{units} units are not left of the ticket from {from} on");
            return Err(Refusal::Malformed(cause));
        }
        let receipts = self.sign_receipts(link, parts);
        let ticket = self.base.credentials.share(ticket.clone());
        self.emit(now, RightsReturned { ticket, number, receipts }, out);
        self.answer_return(hash, number, out);
        Ok(())
    }

    /// Releases what an extension for fewer units leaves out, as its term begins.
    pub(super) fn shrink(&mut self, now: Time, hash: LinkHash, out: &mut Output) {
        let Some(lease) = self.state.leases.get(&hash) else { return };
        let Some(seam) = lease.seams.front() else { return };
        let most = if mutant!(SeamKeepsAll) { u32::MAX } else { seam.units };
        let named = if mutant!(VictimsIgnored) { &[][..] } else { &seam.victims };
        // A share goes on with less.
        let units = match lease.divisible {
            true => Vec::new(),
            false => surplus(lease.state.units().into_iter(), most, named),
        };
        self.emit(now, LeaseShrunk { lease: hash, units }, out);
        self.settle_modification(now, hash, out);
    }

    pub(super) fn tickets_of(&self, hash: LinkHash) -> Vec<Ticket> {
        self.state.leases.get(&hash).map(|lease| lease.tickets.clone()).unwrap_or_default()
    }

    /// The answer to a return, the same however often it is asked for.
    pub(super) fn answer_return(&self, hash: LinkHash, number: u32, out: &mut Output) {
        let lease = self.state.leases.get(&hash).map(|lease| (lease.holder(), &lease.returns));
        let rights = self.state.rights.get(&hash);
        let rights = rights.map(|rights| (rights.ticket.bottom().holder, &rights.returns));
        let Some((holder, returns)) = lease.or(rights) else { return };
        let Some((cause, receipts)) = returns.get(&number) else { return };
        let message = Message::Returned { ticket: hash, number, receipts: receipts.clone() };
        out.replies.push(self.base.answer(holder, *cause, message));
    }

    /// What is left of a link from an instant on, claimed or not.
    pub(super) fn left_of(&self, link: &SignedLink, from: Time) -> Parts {
        if self.state.claims.entered(link.hash()).is_some() {
            return self.state.claims.left_of(link.hash(), from);
        }
        link.term.from(from).map(|term| (link.units, term)).into_iter().collect()
    }

    /// What a link has too much from an instant on, if its lease goes on with `most` units.
    pub(super) fn surplus_of(&self, link: &SignedLink, from: Time, most: u32) -> Parts {
        let mut kept = most;
        let surplus = |(units, term): (NonZeroU32, Term)| {
            let keep = units.get().min(kept);
            kept -= keep;
            Some((NonZeroU32::new(units.get() - keep)?, term))
        };
        // The units that stay are those that are charged the longest.
        self.left_of(link, from).into_iter().filter_map(surplus).collect()
    }

    /// Signs that these parts of a link came back, under its next numbers.
    pub(super) fn sign_receipts(&mut self, link: &SignedLink, parts: Parts) -> Vec<Receipt> {
        let claims = &self.state.claims;
        let signed = match link.delegation {
            Some(_) => claims.returns_of_delegation(link).len(),
            None => claims.returns_of(link.hash()).len(),
        };
        let first = u32::try_from(signed);
        let first = if mutant!(SameReceiptNumber) { 0 } else { first.unwrap_or(u32::MAX) };
        let site = self.base.id();
        let sign = |(number, (units, term))| {
            let (issuer, link) = (link.issuer, link.hash());
            self.base.credentials.sign_receipt(Return { site, link, issuer, units, term, number })
        };
        (first..).zip(parts).map(sign).collect()
    }

    /// Why a ticket of which parts came back cannot be redeemed, if it cannot.
    pub(super) fn used_up(&self, now: Time, ticket: &Ticket, least: NonZeroU32) -> Option<Refusal> {
        self.state.rights.get(&ticket.hash())?;
        if ticket.bottom().extends.is_some() {
            let cause = "a part of the ticket came back, so it extends no lease";
            return Some(Refusal::Malformed(cause.to_owned()));
        }
        let left = self.left_of(ticket.bottom(), now);
        let units: u32 = left.iter().map(|(units, _)| units.get()).sum();
        (units < least.get()).then(|| {
            Refusal::Malformed(format!("{units} units are left of the ticket, not {least}"))
        })
    }

    /// For how many units a lease begins, when it goes on with fewer, and its term.
    pub(super) fn steps_of(
        &self,
        hash: LinkHash,
        term: Term,
        now: Time,
    ) -> (u32, VecDeque<Seam>, Term) {
        let left = self.state.claims.left_of(hash, now);
        let (mut units, mut seams) = (0, VecDeque::new());
        for (part, over) in &left {
            if units > 0 {
                seams.push_front(Seam { at: over.end(), units, victims: Vec::new() });
            }
            units += part.get();
        }
        let until = left.first().and_then(|(_, longest)| term.until(longest.end()));
        (units, seams, until.unwrap_or(term))
    }

    /// Credits receipts in the tree of claims.
    pub(super) fn enter_receipts(&mut self, receipts: &[Receipt]) {
        for receipt in receipts {
            let Return { link, units, term, number, .. } = receipt.what;
            self.state.claims.give_back(link, PartReturned { number, units, term }, term.start());
        }
    }

    pub(super) fn units_returned(&mut self, at: Time, fact: &UnitsReturned) -> Result<(), BadFact> {
        self.release(at, fact.lease, &fact.units)?;
        self.part_returned(at, fact.lease, fact.number, &fact.receipts);
        let count = u32::try_from(fact.units.len()).unwrap_or(u32::MAX);
        if let Some(lease) = self.state.leases.get_mut(&fact.lease) {
            lease.needs_no_more_than(lease.wanted.saturating_sub(count));
        }
        self.refresh(fact.lease, at);
        Ok(())
    }

    pub(super) fn term_returned(&mut self, at: Time, fact: &TermReturned) -> Result<(), BadFact> {
        self.step_lease(at, fact.lease, Event::Shortened)?;
        self.part_returned(at, fact.lease, fact.number, &fact.receipts);
        if let Some(lease) = self.state.leases.get_mut(&fact.lease)
            && !mutant!(RunsToTheOldEnd)
        {
            lease.term = lease.term.until(fact.until).unwrap_or(lease.term);
            lease.seams.retain(|seam| seam.at < fact.until);
            // Its guest has had the answers that name the longer term.
            lease.forget_answers();
        }
        self.refresh(fact.lease, at);
        Ok(())
    }

    pub(super) fn lease_shrunk(&mut self, at: Time, fact: &LeaseShrunk) -> Result<(), BadFact> {
        self.release(at, fact.lease, &fact.units)?;
        if let Some(lease) = self.state.leases.get_mut(&fact.lease)
            && let Some(seam) = lease.seams.pop_front()
        {
            lease.wanted = seam.units;
        }
        self.reduce_share(at, fact.lease);
        self.refresh(fact.lease, at);
        Ok(())
    }

    /// A ticket that is not redeemed is claimed with all above it, and a part of it comes back.
    pub(super) fn rights_returned(&mut self, at: Time, fact: &RightsReturned) {
        let (ticket, hash) = (&fact.ticket, fact.ticket.hash());
        self.enter_chain(ticket, at);
        self.state.claims.open(ticket.bottom());
        if ticket.bottom().delegation.is_some() {
            self.delegation_returned(at, ticket.bottom(), &fact.receipts);
        } else {
            self.enter_receipts(&fact.receipts);
        }
        let answer = (self.cause(at), fact.receipts.clone());
        let mut returns = self.end_rights(hash);
        returns.insert(fact.number, answer);
        let rights = Rights { ticket: ticket.clone(), returns };
        self.state.charges.charge_rights(&rights);
        self.state.rights.insert(hash, rights);
        let forget = ticket.bottom().term.end().plus(self.base.margin());
        self.state.timers.set(Timer::Lease(hash), Some(forget));
    }

    /// Forgets a ticket of which parts came back; answers what it was answered.
    pub(super) fn end_rights(&mut self, hash: LinkHash) -> Returns {
        let Some(rights) = self.state.rights.remove(&hash) else { return Returns::new() };
        self.state.charges.release_rights(&rights);
        rights.returns
    }

    /// Some units leave a lease that goes on.
    fn release(&mut self, at: Time, hash: LinkHash, units: &[UnitId]) -> Result<(), BadFact> {
        self.step_lease(at, hash, Event::Shrunk(units.iter().copied().collect()))?;
        for &unit in units {
            self.step_unit(at, unit, unit::Event::Released)?;
        }
        // Its guest has had the answers that name them.
        if let Some(lease) = self.state.leases.get_mut(&hash).filter(|_| !units.is_empty()) {
            lease.forget_answers();
            lease.modify_without(units);
        }
        Ok(())
    }

    /// Keeps the answer to a return of a lease.
    pub(super) fn part_returned(
        &mut self,
        at: Time,
        hash: LinkHash,
        number: u32,
        receipts: &[Receipt],
    ) {
        self.enter_receipts(receipts);
        let cause = self.cause(at);
        if let Some(lease) = self.state.leases.get_mut(&hash) {
            self.state.charges.release(lease);
            lease.returns.insert(number, (cause, receipts.to_vec()));
            self.state.charges.charge(lease);
        }
    }
}

/// Numbers count up, and there is room for another return.
fn check_number(returns: &Returns, number: u32, signed: usize) -> Result<(), Refusal> {
    if returns.last_key_value().is_some_and(|(&last, _)| number < last) {
        return Err(Refusal::Malformed(format!("return {number} is older than the last")));
    }
    if signed >= MAX_RECEIPTS {
        return Err(Refusal::Malformed(format!("it came back in {signed} parts already")));
    }
    Ok(())
}

/// So many units of what is left, first those that are charged the longest.
pub(super) fn take(left: Parts, units: u32) -> Parts {
    let mut missing = units;
    let part = |(units, term): (NonZeroU32, Term)| {
        let taken = NonZeroU32::new(units.get().min(missing))?;
        missing -= taken.get();
        Some((taken, term))
    };
    left.into_iter().map_while(part).collect()
}
