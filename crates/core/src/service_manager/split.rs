//! Tickets that are kept: split and handed on, brought by others, redeemed at last.

use std::collections::BTreeMap;
use std::num::NonZeroU32;

use serde::{Deserialize, Serialize};

use super::request::shown_as;
use super::{Bookings, Lease, Obligation, Output, Part, ServiceManager};
use crate::actor::fact::BadFact;
use crate::actor::{Cause, Emit as _};
use crate::model::calendar::Calendar;
use crate::model::codec;
use crate::model::identity::ActorId;
use crate::model::property::Properties;
use crate::model::slice::{LeaseId, SliceName};
use crate::model::time::{Term, Time};
use crate::mutants::mutant;
use crate::service_manager::cost::Costs;
use crate::service_manager::facts::{ReceiptTaken, RedeemBegun, TicketTaken, TicketsSplit};
use crate::service_manager::fidelity::Worth;
use crate::service_manager::machine::{Event, State};
use crate::ticket::ledger::Ledger;
use crate::ticket::link::{AccountId, Link, LinkHash, SignedLink};
use crate::ticket::receipt::Receipt;
use crate::ticket::{MAX_DEPTH, Ticket};
use crate::wire::message::MAX_CONFIGURATION;

/// The most parts that one command hands on.
const MAX_PARTS: usize = 1000;

/// What was handed on of the tickets that are kept.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Splits {
    /// The parts, and what is left of each ticket.
    ledger: Ledger,
    /// The number of the last part.
    serial: u64,
    /// The receipts that were taken, by link and number, each with the fact by which it was.
    credited: BTreeMap<(LinkHash, u32), Cause>,
}

/// A part of a kept ticket that was handed on.
#[derive(Clone, Copy, Debug)]
pub struct PartSurvey<'a> {
    /// The link that hands it on.
    pub link: &'a SignedLink,
    /// The part of its term that did not come back.
    pub charged: Option<Term>,
}

impl Splits {
    /// The parts that were handed on, by their hashes, each with the end of its term.
    pub(super) fn signed_by(&self, holder: ActorId) -> Vec<(Time, codec::Hash)> {
        self.ledger.signed_by(holder)
    }

    /// A part that was handed on.
    pub(super) fn entered(&self, part: LinkHash) -> Option<&SignedLink> {
        self.ledger.entered(part).map(|(_, link)| link)
    }

    /// What of a part is out from an instant on.
    pub(super) fn left_of(&self, part: LinkHash, from: Time) -> Vec<(NonZeroU32, Term)> {
        self.ledger.left_of(part, from)
    }
}

impl ServiceManager {
    /// What was handed on of a kept ticket.
    pub fn parts_of<'a>(
        &'a self,
        ticket: &Ticket,
    ) -> impl Iterator<Item = PartSurvey<'a>> + use<'a> {
        let children = self.state.splits.ledger.children(ticket.bottom().account());
        children.map(|(link, charged)| PartSurvey { link, charged })
    }

    /// What is left of a kept ticket, over time; nothing if no part of it was ever handed on.
    pub fn left_of(&self, ticket: &Ticket) -> Option<&Calendar> {
        self.state.splits.ledger.free(ticket.bottom().account())
    }

    /// What was handed on of all kept tickets.
    pub fn splits(&self) -> &Ledger {
        &self.state.splits.ledger
    }

    pub(super) fn redeem_kept(
        &mut self,
        now: Time,
        lease: LeaseId,
        out: &mut Output,
    ) -> Result<(), String> {
        let (ticket, split) = self.kept(lease)?;
        if split {
            return Err(format!(
                "the ticket of lease {lease} was split: hand the rest on to yourself, and redeem that"
            ));
        }
        // By a clock that was set on, before the tick at which the ticket lapses.
        if let Some(refusal) = self.too_late_to_redeem(now, ticket.bottom()) {
            return Err(refusal.to_string());
        }
        self.emit(now, RedeemBegun { lease }, out);
        Ok(())
    }

    /// The kept ticket of a lease, and whether it was split.
    fn kept(&self, lease: LeaseId) -> Result<(&Ticket, bool), String> {
        let standing = self.standing(lease).ok_or_else(|| format!("there is no lease {lease}"))?;
        if self.is_joining(lease) {
            return Err(format!("lease {lease} waits for the tickets of other brokers"));
        }
        match standing.lease() {
            Some(State::Ticketed { ticket, split }) => Ok((ticket, *split)),
            Some(_) | None => {
                Err(format!("lease {lease} is {}, its ticket is not kept", standing.word()))
            }
        }
    }

    pub(super) fn split(
        &mut self,
        now: Time,
        lease: LeaseId,
        parts: Vec<Part>,
        out: &mut Output,
    ) -> Result<(), String> {
        let parent = self.kept(lease)?.0.clone();
        if self.rest_flows(lease) && !mutant!(RestIsSplit) {
            return Err(format!("the rest of the ticket of lease {lease} goes back to its site"));
        }
        if parts.is_empty() || parts.len() > MAX_PARTS {
            return Err(format!(
                "a ticket is split into 1 to {MAX_PARTS} parts, not {}",
                parts.len()
            ));
        }
        if parent.links().len() >= MAX_DEPTH {
            return Err(format!("a chain of {MAX_DEPTH} links cannot be split further"));
        }
        let mut left = self.left_to_hand_on(lease, &parent);
        let mut drafts = Vec::new();
        for (serial, part) in (self.state.splits.serial + 1..).zip(parts) {
            drafts.push(self.draft(now, &parent, part, serial, &mut left)?);
        }
        let sign = |link| self.base.credentials.sign_link(link);
        let links: Vec<SignedLink> = drafts.into_iter().map(sign).collect();
        if !codec::fits(&links) {
            return Err(
                "the parts take more than one fact can hold: hand on fewer at once".to_owned()
            );
        }
        self.emit(now, TicketsSplit { lease, links }, out);
        Ok(())
    }

    /// What of a kept ticket can be handed on or go back, over time: as much as there is of each of these.
    pub(super) fn left_to_hand_on(&self, lease: LeaseId, ticket: &Ticket) -> Vec<Calendar> {
        let mut left = match self.left_of(ticket) {
            Some(_) if mutant!(RestIncludesParts) => whole(ticket),
            Some(left) => left.clone(),
            None => whole(ticket),
        };
        let mut room =
            self.state.leases.get(&lease).and_then(|record| record.room(ticket, self.splits()));
        take_out(&mut left, ticket, self.rest_gone(lease));
        if let Some(room) = &mut room {
            take_out(room, ticket, self.rest_gone_since_recall(lease));
        }
        [left].into_iter().chain(room).collect()
    }

    /// The link that hands a part on, if what is left of the ticket covers it.
    fn draft(
        &self,
        now: Time,
        parent: &Ticket,
        part: Part,
        serial: u64,
        left: &mut [Calendar],
    ) -> Result<Link, String> {
        let Part { holder, units, term, constraints: added, redeem_by, accepts } = part;
        let above = parent.bottom();
        accepts.check(false)?;
        let two = self.base.two_margins();
        if term.duration() <= two || term.end() <= now.plus(two) {
            return Err(format!("a part over {term} is too short: it must last longer than {two}"));
        }
        if let Some(by) = redeem_by
            && by <= now.plus(two)
        {
            return Err(format!("a part that has to be redeemed before {by} comes too late"));
        }
        let mut constraints = above.constraints.clone();
        if mutant!(SplitDropsConstraints) {
            constraints = Default::default();
        }
        constraints.extend(added.iter().cloned());
        let link = Link {
            parent: Some(above.hash()),
            issuer: self.base.id(),
            holder,
            resource: above.resource.clone(),
            units,
            term,
            constraints,
            clauses: accepts
                .clauses(above.clauses.inherited(), term.start())
                .redeemed_by(redeem_by),
            delegation: None,
            extends: None,
            serial,
        };
        if !mutant!(SplitDropsConstraints) {
            link.follows(Some(above)).map_err(|fault| format!("a part does not fit: {fault}"))?;
        }
        let free = left.iter().map(|left| left.free_over(term)).min().unwrap_or(0);
        if free < i64::from(units.get()) && !mutant!(SplitsTwice) {
            return Err(format!(
                "{units} units over {term} are more than the {free} that are left"
            ));
        }
        left.iter_mut().for_each(|left| left.add(term, -i64::from(units.get())));
        Ok(link)
    }

    pub(super) fn tickets_split(&mut self, at: Time, fact: &TicketsSplit) -> Result<(), BadFact> {
        let ticket = self.state.leases.get(&fact.lease).and_then(|lease| lease.state.ticket());
        let parent = ticket.map(|ticket| ticket.bottom().clone());
        let parent = parent.ok_or_else(|| super::apply::absent(fact.lease))?;
        let splits = &mut self.state.splits;
        for link in &fact.links {
            splits.ledger.enter(&parent, link, at);
            splits.serial = splits.serial.max(link.serial);
        }
        fact.links.iter().for_each(|link| self.set_reclaim(link));
        self.step(at, fact.lease, Event::Split)
    }

    /// Takes a ticket that the user brought.
    pub(super) fn take(
        &mut self,
        now: Time,
        ticket: Ticket,
        (slice, configuration, keep): (SliceName, Properties, bool),
        out: &mut Output,
    ) -> Result<(), String> {
        let (me, hash) = (self.base.id(), ticket.hash());
        if let Some(lease) = self.state.by_ticket.get(&hash) {
            return Err(format!("the ticket is that of lease {lease} already"));
        }
        let checked = self.base.credentials.check_ticket(&ticket, ticket.site(), me);
        checked.map_err(|fault| fault.to_string())?;
        let link = ticket.bottom();
        if link.delegation.is_some() || link.extends.is_some() {
            return Err("the ticket is none that can become a lease of its own".to_owned());
        }
        let two = self.base.two_margins();
        if link.term.duration() <= two || link.term.end() <= now.plus(two) {
            return Err(format!("the term of the ticket, {}, is over or too short", link.term));
        }
        if let Some(refusal) = self.too_late_to_redeem(now, link) {
            return Err(refusal.to_string());
        }
        let fits = configuration.check_bytes(MAX_CONFIGURATION);
        fits.map_err(|error| format!("the configuration is too long: {error}"))?;
        let lease = shown_as(self.state.last_number + 1);
        let ticket = self.base.credentials.share(ticket);
        self.emit(now, TicketTaken { lease, ticket, slice, configuration, keep }, out);
        Ok(())
    }

    pub(super) fn ticket_taken(&mut self, at: Time, fact: &TicketTaken) {
        let TicketTaken { lease: id, ticket, slice, configuration, keep } = fact;
        let link = ticket.bottom();
        let ticket = ticket.clone();
        let lease = Lease {
            state: if *keep {
                State::Ticketed { ticket, split: false }
            } else {
                State::Redeeming { ticket }
            },
            resource: link.resource.clone(),
            units: link.units.get(),
            term: link.term,
            slice: slice.clone(),
            min_units: link.units,
            configuration: configuration.clone(),
            booked: Bookings::default(),
            tickets: vec![link.hash()],
            closed_by: None,
            group: None,
            ends_at: None,
            expires_at: link.term.end(),
            recalls: Default::default(),
            warnings: Default::default(),
            stays: None,
            keep_alive: None,
            unheard: None,
            failures: Default::default(),
            costs: Costs::of(link),
            assurance: link.clauses.assurance,
            worth: Worth::of(link),
            usage: Default::default(),
            sequence: Default::default(),
        };
        self.state.last_number = self.state.last_number.max(id.number);
        let link = link.clone();
        self.born(at, *id, lease);
        self.book(*id, &link.resource, link.term, link.units.get(), at);
    }

    /// What was handed on has come back to its site: it can be handed on again.
    pub(super) fn credit(
        &mut self,
        now: Time,
        from: ActorId,
        receipts: Vec<Receipt>,
        out: &mut Output,
    ) -> Result<(), String> {
        let keys: Vec<_> = receipts.iter().map(|r| (r.what.link, r.what.number)).collect();
        for receipt in receipts {
            self.take_receipt(now, receipt, out)?;
        }
        let own = |key: &(LinkHash, u32)| {
            let (_, link) = self.state.splits.ledger.entered(key.0)?;
            self.state.splits.credited.get(key).filter(|_| link.holder == from).copied()
        };
        let causes: Option<Vec<Cause>> = keys.iter().map(own).collect();
        out.replies.push(self.base.credited(now, from, keys, causes));
        Ok(())
    }

    /// Whether a receipt has yet to be credited: not if it was, or is for a part that is not remembered.
    pub(super) fn is_new(&mut self, receipt: &Receipt) -> Result<bool, String> {
        let what = &receipt.what;
        let splits = &self.state.splits;
        if splits.credited.contains_key(&(what.link, what.number)) {
            return Ok(false);
        }
        let Some((_, link)) = splits.ledger.entered(what.link) else { return Ok(false) };
        let part = what.into();
        let ours = what.issuer == self.base.id()
            && splits.ledger.can_return(what.link, &part)
            && self.splits_at(link.parent) == Some(what.site);
        if ours && self.base.credentials.checks_receipt(receipt) {
            Ok(true)
        } else {
            Err("the receipt is not good here".to_owned())
        }
    }

    /// Takes a receipt for a part that was handed on, unless it is known.
    pub(super) fn take_receipt(
        &mut self,
        now: Time,
        receipt: Receipt,
        out: &mut Output,
    ) -> Result<(), String> {
        if self.is_new(&receipt)? && !mutant!(SplitCreditNotBooked) {
            self.emit(now, ReceiptTaken { receipt }, out);
        }
        Ok(())
    }

    /// The site of a kept ticket, by its bottom link.
    pub(super) fn splits_at(&self, parent: Option<LinkHash>) -> Option<ActorId> {
        let lease = self.state.by_ticket.get(&parent?)?;
        Some(self.state.leases.get(lease)?.state.ticket()?.site())
    }

    pub(super) fn receipt_taken(&mut self, at: Time, receipt: &Receipt) {
        let what = &receipt.what;
        let splits = &mut self.state.splits;
        splits.ledger.give_back(what.link, what.into(), what.term.start().max(at));
        let cause = Cause { position: self.base.position, at };
        splits.credited.insert((what.link, what.number), cause);
        let parent = splits.ledger.entered(what.link).and_then(|(_, link)| link.parent);
        if !mutant!(RestStaysOnce) {
            self.rest_may_grow(parent, at);
        }
    }

    /// Forgets what was handed on of a ticket.
    pub(super) fn forget_splits(&mut self, ticket: LinkHash) {
        let account = AccountId::Link(ticket);
        let ledger = &self.state.splits.ledger;
        let parts: Vec<_> = ledger.children(account).map(|(link, _)| link.hash()).collect();
        for part in parts {
            self.settle_reclaim(part);
            self.state.recalls.forget(part);
            self.state.pending.settle(&Obligation::Recall(part));
            let splits = &mut self.state.splits;
            let (first, last) = ((part, 0), (part, u32::MAX));
            let taken: Vec<_> = splits.credited.range(first..=last).map(|(key, _)| *key).collect();
            for key in taken {
                splits.credited.remove(&key);
            }
        }
        self.state.splits.ledger.close(account);
    }
}

/// What went back of a ticket, each from an instant on to its end, is there no more.
fn take_out(left: &mut Calendar, ticket: &Ticket, gone: &[(NonZeroU32, Time)]) {
    for (units, from) in gone.iter().filter(|_| !mutant!(GoneIsHandedOn)) {
        let term = ticket.bottom().term.from(*from);
        term.into_iter().for_each(|term| left.add(term, -i64::from(units.get())));
    }
}

/// All of a ticket, over time.
fn whole(ticket: &Ticket) -> Calendar {
    let mut calendar = Calendar::default();
    calendar.add(ticket.bottom().term, i64::from(ticket.bottom().units.get()));
    calendar
}
