//! Tickets that nobody redeemed in time: void from then on, and back at their issuers.
//!
//! Whichever fact comes first decides, that a ticket was redeemed or that it was reclaimed.

use super::{Reclaimed, SiteAuthority};
use crate::actor::Emit as _;
use crate::model::calendar::Calendar;
use crate::model::identity::ActorId;
use crate::model::property::Properties;
use crate::model::time::{Term, Time};
use crate::site_authority::Output;
use crate::site_authority::facts::TicketReclaimed;
use crate::ticket::Ticket;
use crate::ticket::ledger::MAX_RETURNS;
use crate::ticket::link::{AccountId, LinkHash, SignedLink};
use crate::wire::message::Message;
use crate::wire::refusal::Refusal;

impl SiteAuthority {
    /// Why a ticket cannot be redeemed for the first time any more, if it cannot: it had to be earlier, or a
    /// link of its chain was reclaimed.
    pub(super) fn unclaimed(&self, now: Time, ticket: &Ticket) -> Option<Refusal> {
        let due = ticket.bottom().clauses.redeem_by.filter(|by| *by <= now);
        self.reclaimed_above(ticket).or(due.map(Refusal::Unclaimed))
    }

    /// Why a ticket does not count any more, if it or a link above it was reclaimed.
    pub(super) fn reclaimed_above(&self, ticket: &Ticket) -> Option<Refusal> {
        let reclaimed =
            ticket.links().iter().find(|link| self.state.reclaimed.contains_key(&link.hash()))?;
        reclaimed.clauses.redeem_by.map(Refusal::Unclaimed)
    }

    /// The issuer of a ticket has back what nobody claims of it.
    pub(super) fn reclaim(&mut self, now: Time, from: ActorId, ticket: &Ticket, out: &mut Output) {
        let (hash, link) = (ticket.hash(), ticket.bottom());
        if link.issuer != from {
            return self.refuse(now, from, hash, Refusal::Forbidden, out);
        }
        if self.state.reclaimed.contains_key(&hash) {
            return self.answer_reclaim(hash, out);
        }
        if self.state.by_ticket.contains_key(&hash) {
            let (ticket, receipts) = (hash, Vec::new());
            let message = Message::Reclaimed { ticket, redeemed: true, receipts };
            return out.replies.push(self.base.volatile(from, now, message));
        }
        let Some(by) = link.clauses.redeem_by else {
            let cause = "the ticket can be redeemed until it ends".to_owned();
            return self.refuse(now, from, hash, Refusal::Malformed(cause), out);
        };
        // The clock of its issuer is ahead: it asks again.
        if now < by {
            return;
        }
        match self.check(now, link.holder, ticket, &Properties::default()) {
            Ok(()) | Err(Refusal::Constraint(_)) => {}
            Err(refusal) => return self.refuse(now, from, hash, refusal, out),
        }
        // What is above it may be back already, and covers nothing any more.
        let above_is_back = self.reclaimed_above(ticket).is_some();
        if !above_is_back && let Some(refusal) = self.not_covered(ticket, false) {
            return self.refuse(now, from, hash, refusal, out);
        }
        if let Err(quota) = self.state.charges.admit(&self.limits, ticket, &Properties::default()) {
            return self.refuse(now, from, hash, quota, out);
        }
        let left = if above_is_back { Vec::new() } else { self.unclaimed_of(now, link) };
        let receipts = self.sign_receipts(link, left);
        let ticket = self.base.credentials.share(ticket.clone());
        self.emit(now, TicketReclaimed { ticket, receipts }, out);
        self.answer_reclaim(hash, out);
    }

    /// What no part of a ticket claims from an instant on: units, each with the term over which they are free.
    fn unclaimed_of(&self, now: Time, link: &SignedLink) -> super::returns::Parts {
        let Some(rest) = link.term.from(now) else { return Vec::new() };
        let own = self.state.claims.free(AccountId::Link(link.hash()));
        let Some(own) = own else { return self.left_of(link, now) };
        let returned = self.state.claims.returns_of(link.hash()).len();
        let mut parts = free_parts(own, rest);
        parts.truncate(MAX_RETURNS.saturating_sub(returned));
        parts
    }

    /// The answer to a reclaim, the same however often it is asked for.
    fn answer_reclaim(&self, hash: LinkHash, out: &mut Output) {
        let Some(reclaimed) = self.state.reclaimed.get(&hash) else { return };
        let Reclaimed { ticket, cause, receipts } = reclaimed;
        let (issuer, receipts) = (ticket.bottom().issuer, receipts.clone());
        let message = Message::Reclaimed { ticket: hash, redeemed: false, receipts };
        out.replies.push(self.base.answer(issuer, *cause, message));
    }

    pub(super) fn ticket_reclaimed(&mut self, at: Time, fact: &TicketReclaimed) {
        let (ticket, hash) = (&fact.ticket, fact.ticket.hash());
        if !fact.receipts.is_empty() {
            self.enter_chain(ticket, at);
            self.state.claims.open(ticket.bottom());
            self.enter_receipts(&fact.receipts);
        }
        let (ticket, cause) = (ticket.clone(), self.cause(at));
        let forget = ticket.bottom().term.end().plus(self.base.margin());
        let reclaimed = Reclaimed { ticket, cause, receipts: fact.receipts.clone() };
        self.state.charges.charge_reclaimed(&reclaimed);
        self.state.reclaimed.insert(hash, reclaimed);
        self.state.timers.set(super::Timer::Lease(hash), Some(forget));
    }

    /// Forgets that a ticket was reclaimed.
    pub(super) fn forget_reclaimed(&mut self, hash: LinkHash) {
        if let Some(reclaimed) = self.state.reclaimed.remove(&hash) {
            self.state.charges.release_reclaimed(&reclaimed);
        }
    }
}

/// What is free over a term, step by step.
fn free_parts(free: &Calendar, over: Term) -> super::returns::Parts {
    let levels = free.levels();
    let edges =
        levels.iter().map(|(at, _)| *at).filter(|at| over.start() < *at && *at < over.end());
    let mut edges: Vec<Time> = edges.chain([over.start(), over.end()]).collect();
    edges.sort_unstable();
    let steps = edges.windows(2).filter_map(|pair| Term::new(pair[0], pair[1]).ok());
    let part = |step: Term| {
        let units = u32::try_from(free.free_at(step.start())).ok()?;
        Some((std::num::NonZeroU32::new(units)?, step))
    };
    steps.filter_map(part).collect()
}
