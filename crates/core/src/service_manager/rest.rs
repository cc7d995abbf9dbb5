//! What is left of a kept ticket that was split goes back to its site, and so does what comes back of its parts.

use std::num::NonZeroU32;

use serde::{Deserialize, Serialize};

use super::survey::RestStanding;
use super::{Obligation, Output, ServiceManager, Timer};
use crate::actor::Emit as _;
use crate::model::calendar::Calendar;
use crate::model::identity::ActorId;
use crate::model::slice::LeaseId;
use crate::model::time::Time;
use crate::mutants::mutant;
use crate::service_manager::facts::{
    Fact, RestBegun, RestCredited, RestRefused, RestReturned, RestWanted,
};
use crate::service_manager::machine::State;
use crate::ticket::Ticket;
use crate::ticket::link::LinkHash;
use crate::ticket::receipt::Receipt;
use crate::wire::message::Message;
use crate::wire::part::Part;
use crate::wire::refusal::{Outlook, Refusal};

/// What goes back of a kept ticket that was split.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Rest {
    /// The number of the next return.
    number: u32,
    /// What the site has taken or is asked to take, each from an instant on to the end of the ticket.
    gone: Vec<(NonZeroU32, Time)>,
    /// How much of that is older than what the site last said of a recall, which counts it.
    before_recall: usize,
    /// Whether the last of that is what it is asked to take.
    under_way: bool,
    /// Its word on what it took, as far as the issuer has yet to credit that.
    credits: Vec<Receipt>,
    /// Whether all that is left goes back, whenever there is some.
    flows: bool,
    /// Whether the site refused, and nothing has changed since.
    waits: bool,
}

impl ServiceManager {
    pub(super) fn of_rest(&mut self, at: Time, fact: &Fact) {
        if let Fact::RestWanted(fact) = fact {
            self.rest_wanted(at, fact.lease);
        } else if let Fact::RestBegun(fact) = fact {
            self.rest_begun(at, fact);
        } else if let Fact::RestReturned(fact) = fact {
            self.rest_returned(at, fact);
        } else if let Fact::RestRefused(fact) = fact {
            self.rest_refused(at, fact.lease);
        } else if let Fact::RestCredited(fact) = fact {
            self.rest_credited(fact.lease);
        }
    }

    /// Whether what is left of a kept ticket goes back to its site.
    pub(super) fn rest_flows(&self, lease: LeaseId) -> bool {
        self.state.rests.get(&lease).is_some_and(|rest| rest.flows)
    }

    /// How what is left of a kept ticket goes back.
    pub(super) fn rest_standing(&self, lease: LeaseId) -> Option<RestStanding> {
        self.split_ticket(lease)?;
        let rest = self.state.rests.get(&lease)?;
        if rest.under_way || !rest.credits.is_empty() {
            return Some(RestStanding::UnderWay);
        }
        rest.flows.then_some(RestStanding::Given)
    }

    /// What went back of a kept ticket, or is on its way, each from an instant on to its end.
    pub(super) fn rest_gone(&self, lease: LeaseId) -> &[(NonZeroU32, Time)] {
        self.state.rests.get(&lease).map_or(&[], |rest| &rest.gone)
    }

    /// The part of that which the last recall of the ticket does not count.
    pub(super) fn rest_gone_since_recall(&self, lease: LeaseId) -> &[(NonZeroU32, Time)] {
        let rest = self.state.rests.get(&lease);
        rest.and_then(|rest| rest.gone.get(rest.before_recall..)).unwrap_or_default()
    }

    /// The site has said what a recall leaves of a kept ticket.
    pub(super) fn rest_is_recalled(&mut self, lease: LeaseId, at: Time) {
        if let Some(rest) = self.state.rests.get_mut(&lease) {
            rest.before_recall = rest.gone.len();
            rest.waits = false;
            self.set_rest(lease, at);
        }
    }

    /// Gives back what is not handed on of a kept ticket, now and whenever some of a part comes back.
    pub(super) fn give_rest(&mut self, now: Time, lease: LeaseId, out: &mut Output) {
        if !self.rest_flows(lease) {
            self.emit(now, RestWanted { lease }, out);
            self.rest_due(now, lease, out);
        }
    }

    fn rest_wanted(&mut self, at: Time, lease: LeaseId) {
        self.state.rests.entry(lease).or_default().flows = true;
        // Nothing of it is to be used any more.
        self.unbook(lease, at);
        self.set_rest(lease, at);
    }

    /// Gives so many units back of what is not handed on of a kept ticket.
    pub(super) fn flex_rest(
        &mut self,
        now: Time,
        lease: LeaseId,
        units: NonZeroU32,
        out: &mut Output,
    ) -> Result<(), String> {
        let ticket =
            self.split_ticket(lease).ok_or_else(|| format!("there is no lease {lease}"))?;
        if self.state.rests.get(&lease).is_some_and(|rest| rest.flows || rest.under_way) {
            return Err(format!(
                "a part of the ticket of lease {lease} is being given back already"
            ));
        }
        let from = now.max(ticket.bottom().term.start());
        let term = ticket.bottom().term.from(from);
        let free = term.map(|term| {
            let left = self.left_to_hand_on(lease, ticket);
            left.iter().map(|left| left.free_over(term)).min().unwrap_or(0)
        });
        let free = free.unwrap_or(0).max(0);
        if free < i64::from(units.get()) && !mutant!(RestIncludesParts) {
            return Err(format!(
                "{units} units are more than the {free} that are left of the ticket of lease {lease}"
            ));
        }
        let number = self.state.rests.get(&lease).map_or(0, |rest| rest.number);
        self.emit(now, RestBegun { lease, number, units, from }, out);
        Ok(())
    }

    /// More of a kept ticket may be left than before.
    pub(super) fn rest_may_grow(&mut self, parent: Option<LinkHash>, at: Time) {
        let Some(lease) = parent.and_then(|parent| self.lease_of(parent)) else { return };
        if let Some(rest) = self.state.rests.get_mut(&lease) {
            rest.waits = false;
            self.set_rest(lease, at);
        }
    }

    /// Sets when the next part of a rest goes back: at once, if there is one.
    fn set_rest(&mut self, lease: LeaseId, at: Time) {
        let due = self.next_rest(lease, at).map(|_| at);
        self.state.timers.set(Timer::Rest(lease), due);
    }

    pub(super) fn rest_due(&mut self, now: Time, lease: LeaseId, out: &mut Output) {
        match self.next_rest(lease, now) {
            Some((number, units, from)) => {
                self.emit(now, RestBegun { lease, number, units, from }, out);
            }
            None => self.state.timers.set(Timer::Rest(lease), None),
        }
    }

    /// How many units go back next, and from when on: the earliest that are left to the end of the ticket.
    fn next_rest(&self, lease: LeaseId, now: Time) -> Option<(u32, NonZeroU32, Time)> {
        let rest = self.state.rests.get(&lease)?;
        if !rest.flows || rest.waits || rest.under_way {
            return None;
        }
        let ticket = self.split_ticket(lease)?;
        let term = ticket.bottom().term;
        let left = self.left_to_hand_on(lease, ticket);
        let first = now.max(term.start());
        let changes = left.iter().flat_map(Calendar::levels).map(|(at, _)| at);
        let mut instants: Vec<Time> = changes.filter(|at| first < *at).chain([first]).collect();
        instants.retain(|at| *at < term.end());
        instants.sort();
        let (mut least, mut next) = (i64::MAX, None);
        for &at in instants.iter().rev() {
            least = left.iter().map(|left| left.free_at(at)).fold(least, i64::min);
            let units = u32::try_from(least).ok().and_then(NonZeroU32::new);
            let Some(units) = units else { break };
            next = Some((rest.number, units, at));
        }
        next
    }

    /// The kept ticket of a lease, if it was split.
    fn split_ticket(&self, lease: LeaseId) -> Option<&Ticket> {
        match self.lease(lease)? {
            State::Ticketed { ticket, split: true } => Some(ticket),
            State::Ticketed { .. }
            | State::Redeeming { .. }
            | State::Joining { .. }
            | State::Active { .. }
            | State::Leaving { .. }
            | State::Closing { .. }
            | State::Crediting { .. }
            | State::Closed { .. } => None,
        }
    }

    fn rest_begun(&mut self, at: Time, fact: &RestBegun) {
        let rest = self.state.rests.entry(fact.lease).or_default();
        rest.number = fact.number + 1;
        rest.under_way = true;
        rest.gone.push((fact.units, fact.from));
        self.require(Obligation::Rest(fact.lease), at);
        self.set_rest(fact.lease, at);
    }

    pub(super) fn rest_message(&self, lease: LeaseId) -> Option<(ActorId, Message)> {
        let rest = self.state.rests.get(&lease).filter(|rest| rest.under_way)?;
        let (units, from) = *rest.gone.last()?;
        let ticket = self.split_ticket(lease)?.clone();
        let (number, part) = (rest.number - 1, Part::Rights { units, from });
        Some((ticket.site(), Message::Return { ticket, number, part }))
    }

    pub(super) fn rest_credit(&self, lease: LeaseId) -> Option<(ActorId, Message)> {
        let receipts = self.state.rests.get(&lease)?.credits.clone();
        Some((receipts.first()?.what.issuer, Message::Credit { receipts }))
    }

    /// The lease whose rest is going back under this number, with its ticket, and how many units.
    fn returning_rest(&self, hash: LinkHash, number: u32) -> Option<(LeaseId, &Ticket, u32)> {
        let lease = self.lease_of(hash)?;
        let (rest, ticket) = (self.state.rests.get(&lease)?, self.split_ticket(lease)?);
        let (units, _) = *rest.gone.last()?;
        (rest.under_way && rest.number == number + 1 && ticket.hash() == hash).then_some((
            lease,
            ticket,
            units.get(),
        ))
    }

    /// The site has taken a part of a rest.
    pub(super) fn rest_came_back(
        &mut self,
        now: Time,
        from: ActorId,
        (hash, number): (LinkHash, u32),
        receipts: Vec<Receipt>,
        out: &mut Output,
    ) -> Result<(), String> {
        let Some((lease, ticket, wanted)) = self.returning_rest(hash, number) else {
            return Ok(());
        };
        let ticket = ticket.clone();
        self.check_receipts(lease, from, std::slice::from_ref(&ticket), &receipts)?;
        let units: u64 = receipts.iter().map(|r| u64::from(r.what.units.get())).sum();
        if units != u64::from(wanted) {
            return Err(format!("{wanted} units of lease {lease} were given back, not {units}"));
        }
        self.emit(now, RestReturned { lease, receipts }, out);
        self.rest_due(now, lease, out);
        Ok(())
    }

    fn rest_returned(&mut self, at: Time, fact: &RestReturned) {
        self.state.pending.settle(&Obligation::Rest(fact.lease));
        if let Some(lease) = self.state.leases.get_mut(&fact.lease) {
            lease.costs.credit(&fact.receipts);
            lease.worth.credit(&fact.receipts);
        }
        if let Some(rest) = self.state.rests.get_mut(&fact.lease) {
            rest.under_way = false;
            rest.credits.extend(fact.receipts.iter().cloned());
        }
        // What the issuer is shown has changed, so it is another question.
        if !mutant!(RestNotCredited) {
            self.require(Obligation::RestCredit(fact.lease), at);
        }
        self.set_rest(fact.lease, at);
    }

    /// The site does not take a part of a rest.
    pub(super) fn rest_denied(
        &mut self,
        now: Time,
        from: ActorId,
        (hash, number): (LinkHash, u32),
        refusal: Refusal,
        out: &mut Output,
    ) {
        let found = self.returning_rest(hash, number);
        let found = found.filter(|(_, ticket, _)| ticket.site() == from);
        if let Some((lease, ..)) = found
            && refusal.outlook() != Outlook::Later
        {
            self.emit(now, RestRefused { lease, refusal }, out);
        }
    }

    fn rest_refused(&mut self, at: Time, lease: LeaseId) {
        self.state.pending.settle(&Obligation::Rest(lease));
        if let Some(rest) = self.state.rests.get_mut(&lease) {
            rest.gone.pop();
            rest.before_recall = rest.before_recall.min(rest.gone.len());
            rest.under_way = false;
            rest.waits = true;
        }
        self.set_rest(lease, at);
    }

    /// The issuer knows what came back of a rest.
    pub(super) fn rest_is_credited(
        &mut self,
        now: Time,
        (lease, from): (LeaseId, ActorId),
        credited: &[(LinkHash, u32)],
        out: &mut Output,
    ) {
        let Some(rest) = self.state.rests.get(&lease) else { return };
        let all = rest
            .credits
            .iter()
            .map(|receipt| &receipt.what)
            .all(|what| what.issuer == from && credited.contains(&(what.link, what.number)));
        if all && !rest.credits.is_empty() {
            self.emit(now, RestCredited { lease }, out);
        }
    }

    fn rest_credited(&mut self, lease: LeaseId) {
        self.state.pending.settle(&Obligation::RestCredit(lease));
        if let Some(rest) = self.state.rests.get_mut(&lease) {
            rest.credits.clear();
        }
    }

    /// A kept ticket is over: nothing of it goes back any more.
    pub(super) fn end_rest(&mut self, lease: LeaseId) {
        self.state.pending.settle(&Obligation::Rest(lease));
        self.state.timers.set(Timer::Rest(lease), None);
    }

    pub(super) fn forget_rest(&mut self, lease: LeaseId) {
        self.end_rest(lease);
        self.state.pending.settle(&Obligation::RestCredit(lease));
        self.state.rests.remove(&lease);
    }
}
