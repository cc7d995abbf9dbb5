//! How tickets become leases at a site, and how they come back.

use std::collections::BTreeSet;
use std::num::NonZeroU32;

use super::{Cause, Lease, SiteAuthority};
use crate::actor::Emit as _;
use crate::driver::UnitId;
use crate::model::codec;
use crate::model::identity::ActorId;
use crate::model::property::Properties;
use crate::model::resource::at_site;
use crate::model::slice::{LeaseId, SliceName};
use crate::model::time::Time;
use crate::mutants::mutant;
use crate::site_authority::Output;
use crate::site_authority::facts::{
    Denial, LeaseClosed, LeaseExtended, Redeemed, TicketRefused, TicketSurrendered,
};
use crate::site_authority::machine::{CloseReason, State};
use crate::ticket::evidence::Evidence;
use crate::ticket::ledger::{Account, Overdrawn};
use crate::ticket::link::{LinkHash, SignedLink};
use crate::ticket::receipt::Receipt;
use crate::ticket::{Ticket, TicketFault};
use crate::wire::heartbeat::{self, BadKeepAlive};
use crate::wire::message::{LeasedUnit, MAX_CONFIGURATION, MAX_TICKETS, Message, Subject};
use crate::wire::refusal::Refusal;
use crate::wire::request::MAX_UNITS;

/// What a guest shows to redeem: ticket, its name for the lease, slice, fewest units, configuration, and the
/// units that go first at an extension.
type Shown = (Ticket, LeaseId, SliceName, NonZeroU32, Properties, Vec<UnitId>);

impl SiteAuthority {
    pub(super) fn redeem(&mut self, now: Time, from: ActorId, shown: Shown, out: &mut Output) {
        let (ticket, lease, slice, min_units, configuration, victims) = shown;
        let hash = ticket.hash();
        // A ticket that is not the sender's own is answered like any other that belongs to someone else.
        let holder = ticket.bottom().holder;
        if holder != from && !mutant!(HolderNotChecked) {
            return self.refuse(now, from, hash, TicketFault::NotHolder(holder).into(), out);
        }
        if self.is_known(hash) {
            return self.answer_known(hash, out);
        }
        if let Err(error) = configuration.check_bytes(MAX_CONFIGURATION) {
            let refusal = Refusal::Malformed(format!("the configuration is too long: {error}"));
            return self.refuse(now, from, hash, refusal, out);
        }
        if ticket.bottom().extends.is_none()
            && let Err(error) = self.check_keep_alive(&configuration)
        {
            return self.refuse(now, from, hash, Refusal::Malformed(error.to_string()), out);
        }
        let unmet = match self.check(now, from, &ticket, &configuration) {
            Ok(()) => self.too_many_excluded(&ticket, min_units),
            Err(unmet @ Refusal::Constraint(_)) if ticket.bottom().extends.is_none() => Some(unmet),
            Err(refusal) => return self.refuse(now, from, hash, refusal, out),
        };
        if let Some(refusal) = self.unclaimed(now, &ticket) {
            return self.refuse_uncovered(now, &ticket, refusal, out);
        }
        if min_units > ticket.bottom().units {
            let refusal = Refusal::Malformed("the fewest units are more than all".to_owned());
            return self.refuse(now, from, hash, refusal, out);
        }
        let extended = match ticket.bottom().extends {
            Some(extends) => match self.extendable(extends, ticket.bottom()) {
                Ok(lease) => Some(lease),
                Err(refusal) => return self.refuse(now, from, hash, refusal, out),
            },
            None => None,
        };
        if let Some(refusal) = self.used_up(now, &ticket, min_units) {
            return self.refuse(now, from, hash, refusal, out);
        }
        if let Some(refusal) = self.against_recalls(now, &ticket, Some(min_units)) {
            return self.refuse(now, from, hash, refusal, out);
        }
        if let Some(refusal) = self.uncovered(&ticket) {
            return self.refuse_uncovered(now, &ticket, refusal, out);
        }
        if let Some(refusal) = self.entangled(&ticket) {
            return self.refuse(now, from, hash, refusal, out);
        }
        if let Err(quota) = self.state.charges.admit(&self.limits, &ticket, &configuration) {
            return self.refuse(now, from, hash, quota, out);
        }
        // The ticket is good, but not for this: it comes back at once, so that the units can be sold.
        if let Some(unmet) = unmet {
            self.surrender(now, &ticket, CloseReason::Failed(unmet), out);
            return self.repeat_answer(hash, hash, out);
        }
        let ticket = self.base.credentials.share(ticket);
        match extended {
            Some(lease) => {
                self.emit(now, LeaseExtended { lease, ticket, victims }, out);
                self.repeat_answer(lease, hash, out);
            }
            None => {
                self.trim(now, &ticket, out);
                self.emit(now, Redeemed { ticket, lease, slice, min_units, configuration }, out);
            }
        }
    }

    /// Whether a lease can go on without a heartbeat for as long as it says.
    fn check_keep_alive(&self, configuration: &Properties) -> Result<(), BadKeepAlive> {
        match heartbeat::keep_alive(configuration)? {
            Some(asked) => heartbeat::check(asked, self.base.margin()),
            None => Ok(()),
        }
    }

    /// Takes tickets back, redeemed or not: the first names the lease, the others are its extensions.
    pub(super) fn close(&mut self, now: Time, from: ActorId, tickets: &[Ticket], out: &mut Output) {
        if tickets.is_empty() {
            return out.problems.push(crate::actor::dropped("close", "it names no ticket"));
        }
        if tickets.len() > MAX_TICKETS {
            let cause =
                format!("{} tickets are more than the {MAX_TICKETS} allowed", tickets.len());
            return out.problems.push(crate::actor::dropped("close", cause));
        }
        // Each by itself: one that is refused keeps no other from coming back, and is as good as not named.
        let (mut taken, mut refused) = (Vec::new(), None);
        for ticket in tickets {
            match self.take_back(now, from, ticket, out) {
                Ok(()) => taken.push(ticket.hash()),
                Err(refusal) => refused = refused.or(Some((ticket.hash(), refusal))),
            }
        }
        match refused {
            Some((hash, refusal)) if taken.is_empty() => match self.state.refused.get(hash) {
                Some((holder, ..)) if holder == from => {
                    self.answer_known(hash, out);
                }
                Some(_) | None => self.refuse(now, from, hash, refusal, out),
            },
            Some(_) | None => self.answer_close(now, from, &taken, out),
        }
    }

    /// Takes one ticket back, or says why not.
    fn take_back(
        &mut self,
        now: Time,
        from: ActorId,
        ticket: &Ticket,
        out: &mut Output,
    ) -> Result<(), Refusal> {
        let (hash, holder) = (ticket.hash(), ticket.bottom().holder);
        if holder != from && !mutant!(HolderNotChecked) {
            return Err(TicketFault::NotHolder(holder).into());
        }
        if let Some(&lease) = self.state.by_ticket.get(&hash) {
            self.give_back(now, lease, out);
            return Ok(());
        }
        if let Some((_, refusal, _)) = self.state.refused.get(hash) {
            return Err(refusal);
        }
        if let Some(refusal) = self.reclaimed_above(ticket) {
            return Err(refusal);
        }
        match self.check(now, from, ticket, &Properties::default()) {
            Ok(()) | Err(Refusal::Constraint(_)) => {}
            // Over, and the units with it: there is nothing to take back.
            Err(Refusal::TooLate(_)) => return Ok(()),
            Err(refusal) => return Err(refusal),
        }
        if let Some(refusal) = self.against_recalls(now, ticket, None) {
            return Err(refusal);
        }
        if let Some(refusal) = self.uncovered(ticket) {
            self.refuse_for_good(now, ticket, &refusal, out);
            return Err(refusal);
        }
        self.state.charges.admit(&self.limits, ticket, &Properties::default())?;
        self.surrender(now, ticket, CloseReason::GivenBack, out);
        Ok(())
    }

    /// Claims a ticket and takes it back in one fact, without a lease.
    fn surrender(&mut self, now: Time, ticket: &Ticket, why: CloseReason, out: &mut Output) {
        let receipts = self.receipts(std::slice::from_ref(ticket), now);
        self.emit(now, TicketSurrendered { ticket: ticket.clone(), why, receipts }, out);
    }

    pub(super) fn give_back(&mut self, now: Time, hash: LinkHash, out: &mut Output) {
        let Some(lease) = self.state.leases.get(&hash) else { return };
        let ignored = mutant!(CloseDuringSetupLost) && lease.state.word() == "Priming";
        if matches!(lease.state, State::Closed { .. }) || ignored {
            return;
        }
        let tickets = lease.tickets.clone();
        let receipts = self.receipts(&tickets, now);
        self.emit(now, LeaseClosed { lease: hash, why: CloseReason::GivenBack, receipts }, out);
    }

    /// One answer for all tickets of a close, the same however often it is asked for.
    fn answer_close(&self, now: Time, from: ActorId, taken: &[LinkHash], out: &mut Output) {
        let Some(&first) = taken.first() else { return };
        let mut seen = BTreeSet::new();
        let known = taken.iter().filter_map(|ticket| self.state.by_ticket.get(ticket).copied());
        let leases: Vec<LinkHash> = known.filter(|lease| seen.insert(*lease)).collect();
        let leases: Vec<&Lease> =
            leases.iter().filter_map(|hash| self.state.leases.get(hash).map(Box::as_ref)).collect();
        let closed = || leases.iter().filter_map(|lease| lease.closed.as_ref());
        let receipts = leases.iter().flat_map(|lease| lease.all_receipts()).collect();
        let refusal = leases.first().and_then(|lease| lease.failure());
        let message = Message::Closed { ticket: first, refusal, receipts };
        let mut causes: Vec<Cause> = closed().map(|&(cause, _)| cause).collect();
        causes.sort_by_key(|cause| cause.position);
        let whole = taken.iter().all(|ticket| self.state.by_ticket.contains_key(ticket));
        out.replies.push(match causes[..] {
            [cause] if leases[0].tickets[0].hash() == first => {
                self.base.answer(from, cause, message)
            }
            [.., cause] if whole => self.base.joint_answer(from, cause, message),
            // Part of it has ended and is forgotten: the answer would differ.
            [..] => self.base.volatile(from, now, message),
        });
    }

    /// Whether a ticket was redeemed, surrendered or refused before.
    fn is_known(&self, hash: LinkHash) -> bool {
        self.state.refused.get(hash).is_some() || self.state.by_ticket.contains_key(&hash)
    }

    /// Answers a ticket that is known.
    fn answer_known(&self, hash: LinkHash, out: &mut Output) {
        if let Some((holder, refusal, cause)) = self.state.refused.get(hash) {
            let message =
                Message::Refused { subject: Subject::Ticket(hash), refusal, offers: Vec::new() };
            out.replies.push(self.base.answer(holder, cause, message));
        } else if let Some(&lease) = self.state.by_ticket.get(&hash) {
            self.repeat_answer(lease, hash, out);
        }
    }

    /// Answers as the lease stands: with its units, with its end, or, while it is being set up, not at
    /// all: the guest waits.
    pub(super) fn repeat_answer(&self, hash: LinkHash, ticket: LinkHash, out: &mut Output) {
        let Some(lease) = self.state.leases.get(&hash) else { return };
        if let Some((cause, _)) = &lease.closed {
            let (refusal, receipts) = (lease.failure(), lease.all_receipts());
            let message = Message::Closed { ticket: hash, refusal, receipts };
            return out.replies.push(self.base.answer(lease.holder(), *cause, message));
        }
        let shown = lease.tickets.iter().find(|t| t.hash() == ticket);
        let (Some(shown), Some(cause)) = (shown, lease.answer_to(ticket)) else { return };
        let link = shown.bottom();
        let until = self.state.claims.charged_until(ticket).unwrap_or(link.term.end());
        let term = link.term.until(until).unwrap_or(link.term);
        let message = Message::Leased { ticket, term, units: self.leased_units(lease) };
        // After a recall one fact is behind the answers to all its tickets: each is another message.
        let shared = lease.answered.iter().filter(|(_, other)| *other == cause).count() > 1;
        out.replies.push(match shared {
            true => self.base.joint_answer(lease.holder(), cause, message),
            false => self.base.answer(lease.holder(), cause, message),
        });
    }

    /// The units of a lease as its guest sees them.
    pub(super) fn leased_units(&self, lease: &Lease) -> Vec<LeasedUnit> {
        let units = lease.state.units().into_iter().filter_map(|unit| {
            let record = self.state.units.get(&unit)?;
            let properties = record.state.properties()?.clone();
            let (epoch, quantity) = (record.epoch, record.quantity);
            Some(LeasedUnit { unit, epoch, quantity, properties })
        });
        units.collect()
    }

    pub(super) fn refuse(
        &self,
        now: Time,
        to: ActorId,
        hash: LinkHash,
        refusal: Refusal,
        out: &mut Output,
    ) {
        let message =
            Message::Refused { subject: Subject::Ticket(hash), refusal, offers: Vec::new() };
        out.replies.push(self.base.volatile(to, now, message));
    }

    /// Everything about a ticket that does not depend on other tickets.
    pub(super) fn check(
        &mut self,
        now: Time,
        from: ActorId,
        ticket: &Ticket,
        configuration: &Properties,
    ) -> Result<(), Refusal> {
        let me = self.base.id();
        self.base.credentials.check_ticket(ticket, me, from)?;
        let link = ticket.bottom();
        if link.delegation.is_some() {
            // Else a broker could use two generations of one delegation, or make void what it sold.
            let cause = "a delegation is cut into tickets, not redeemed or given back itself";
            return Err(Refusal::Malformed(cause.to_owned()));
        }
        let min = self.base.two_margins();
        if link.term.duration() <= min {
            return Err(Refusal::TermTooShort { term: link.term.duration(), min });
        }
        if link.term.end() <= now {
            return Err(Refusal::TooLate(link.term.end()));
        }
        let Some(stock) = self.state.stocks.get(&link.resource) else {
            let known = self.state.stocks.keys().cloned().collect();
            return Err(Refusal::NoSuchType { resource: link.resource.clone(), known });
        };
        if link.units.get() > MAX_UNITS && !stock.is_divisible() {
            let cause = format!("{} units are more than the {MAX_UNITS} of one lease", link.units);
            return Err(Refusal::Malformed(cause));
        }
        if link.constraints.is_empty() {
            return Ok(());
        }
        let attributes = at_site(&stock.attributes, Some(&self.base.setup.name));
        match link.constraints.first_unmet(&attributes, configuration, &[]) {
            Some(unmet) => Err(Refusal::Constraint(unmet)),
            None => Ok(()),
        }
    }

    /// Refuses for good a ticket that cannot be claimed.
    pub(super) fn refuse_uncovered(
        &mut self,
        now: Time,
        ticket: &Ticket,
        refusal: Refusal,
        out: &mut Output,
    ) {
        let (holder, hash) = (ticket.bottom().holder, ticket.hash());
        self.refuse_for_good(now, ticket, &refusal, out);
        if self.is_known(hash) {
            self.answer_known(hash, out);
        } else {
            self.refuse(now, holder, hash, refusal, out);
        }
    }

    /// Remembers a refusal, so that the answer stays the same. Where there is no room for it, the ticket is
    /// judged again each time.
    fn refuse_for_good(&mut self, now: Time, ticket: &Ticket, refusal: &Refusal, out: &mut Output) {
        if self.state.refused.has_room(&self.limits, ticket, refusal) {
            let (ticket, denial) = (ticket.clone(), Denial::of(refusal));
            self.emit(now, TicketRefused { ticket, denial }, out);
        }
    }

    /// Why a ticket cannot be used beside what was claimed before: it was handed on, or a link of its chain
    /// is not covered.
    fn uncovered(&self, ticket: &Ticket) -> Option<Refusal> {
        let bottom = self.state.claims.account(ticket.bottom().account());
        let handed_on = bottom.is_some_and(Account::has_children);
        self.not_covered(ticket, handed_on)
    }

    /// Why a ticket cannot be claimed beside what was claimed before: a link of its chain does not fit
    /// under its parent, for which there is evidence, or is used itself.
    pub(super) fn not_covered(&self, ticket: &Ticket, handed_on: bool) -> Option<Refusal> {
        let links = ticket.links();
        let used =
            links[..links.len() - 1].iter().any(|link| self.state.used.contains(&link.account()));
        if (handed_on || used) && !mutant!(UsedAndHandedOn) {
            let cause = "a ticket is used or handed on, never both".to_owned();
            return Some(Refusal::Malformed(cause));
        }
        if let Some(refusal) = self.contradicted(ticket) {
            return Some(refusal);
        }
        let (depth, overdrawn) = (1..links.len()).find_map(|depth| {
            let overdrawn = self.state.claims.check(&links[depth - 1], &links[depth]).err()?;
            Some((depth, overdrawn))
        })?;
        let (count, at) = (overdrawn.links.len(), overdrawn.at);
        let oversold = Refusal::Oversold { links: u32::try_from(count).unwrap_or(u32::MAX), at };
        if count > Evidence::MAX_LINKS || !overdrawn.shown {
            return Some(oversold);
        }
        let Some(evidence) = self.evidence(ticket, depth, overdrawn) else {
            let cause = "the chain names a parent that is not known".to_owned();
            return Some(Refusal::Malformed(cause));
        };
        // In a message it comes with a header, for which half of the room is left.
        let conflict = Refusal::Conflict(Box::new(evidence));
        let fits = codec::encode(&conflict).len() <= codec::MAX_BYTES / 2 && codec::fits(&conflict);
        Some(if fits { conflict } else { oversold })
    }

    /// The evidence with every generation of the parent that a link in it names.
    fn evidence(&self, ticket: &Ticket, depth: usize, found: Overdrawn) -> Option<Evidence> {
        let account = self.state.claims.account(ticket.links()[depth - 1].account())?;
        let own = Ticket::try_from(ticket.links()[..depth].to_vec()).ok()?;
        let named: BTreeSet<_> = found.links.iter().filter_map(|link| link.parent).collect();
        let known = account.heads().iter().filter(|head| head.hash() != own.hash());
        let known = known.filter(|head| named.contains(&head.hash()));
        let mut parents =
            known.map(|head| self.state.claims.chain(head)).collect::<Option<Vec<_>>>()?;
        parents.push(own);
        Some(Evidence { parents, links: found.links, at: found.at })
    }

    /// Why a chain is void that gives the number of one delegation to another: the two convict their issuer.
    fn contradicted(&self, ticket: &Ticket) -> Option<Refusal> {
        let links = ticket.links();
        let (depth, other) = (1..links.len()).find_map(|depth| {
            let other = self.state.claims.contradicted(&links[depth - 1], &links[depth])?;
            Some((depth, other))
        })?;
        let own = Ticket::try_from(links[..=depth].to_vec()).ok();
        let Some((other, own)) = self.state.claims.chain(other).zip(own) else {
            return Some(Refusal::Malformed("its delegation is another one here".to_owned()));
        };
        let (parents, at) = (vec![other, own], links[depth].term.start());
        Some(Refusal::Conflict(Box::new(Evidence { parents, links: Vec::new(), at })))
    }

    /// The lease that a ticket continues from.
    fn extendable(&self, extends: LinkHash, link: &SignedLink) -> Result<LinkHash, Refusal> {
        let refused = Refusal::NotExtendable(link.term);
        let hash = *self.state.by_ticket.get(&extends).ok_or(refused.clone())?;
        let lease = self.state.leases.get(&hash).ok_or(refused.clone())?;
        let fits = matches!(lease.state, State::Active { .. })
            && (lease.holder() == link.holder || mutant!(ExtendsAnybody))
            && lease.tickets[0].bottom().resource == link.resource
            && (lease.term.end() == link.term.start() || mutant!(ExtendsWithGap));
        if !fits {
            return Err(refused);
        }
        if let Some(refusal) = self.recalled_beyond(lease, link) {
            return Err(refusal);
        }
        let held = lease.wanted_at_end();
        if link.units.get() <= held {
            Ok(hash)
        } else {
            Err(Refusal::UnitsDiffer { held, asked: link.units.get() })
        }
    }

    /// Receipts for all that is left of each ticket.
    pub(super) fn receipts(&mut self, tickets: &[Ticket], now: Time) -> Vec<Receipt> {
        let from = if mutant!(ReceiptForAll) { Time::MIN } else { now };
        let mut receipts = Vec::new();
        for ticket in tickets {
            let left = self.left_of(ticket.bottom(), from);
            receipts.extend(self.sign_receipts(ticket.bottom(), left));
        }
        receipts
    }
}

impl Lease {
    /// Why it was closed, if not by its guest or its term.
    fn failure(&self) -> Option<Refusal> {
        match &self.state {
            State::Closed { why: CloseReason::Failed(refusal), .. } => Some(refusal.clone()),
            // As it stood then: the link may be recalled again.
            State::Closed { why: CloseReason::Recalled(link), .. } => {
                let cut = self.cuts.get(link)?;
                Some(Refusal::Recalled { units: cut.units, from: cut.at })
            }
            State::Closed { why: CloseReason::Silent(heard), .. } => Some(Refusal::Silent(*heard)),
            State::Closed { .. }
            | State::Early
            | State::Due
            | State::Priming { .. }
            | State::Active { .. } => None,
        }
    }
}
