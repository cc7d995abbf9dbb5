//! Offers that a broker holds: cut, kept back, and free again unless one is accepted.

use super::{Broker, IssuedTicket, Output, Timer};
use crate::actor::Emit as _;
use crate::actor::fact::BadFact;
use crate::broker::facts::{HoldEnded, OfferAccepted, OfferPassed, OffersHeld};
use crate::broker::machine::{Event, State, Tickets};
use crate::model::identity::ActorId;
use crate::model::slice::RequestId;
use crate::model::time::Time;
use crate::mutants::mutant;
use crate::ticket::ledger::PartReturned;
use crate::ticket::link::LinkHash;
use crate::wire::handover::Outcome;
use crate::wire::refusal::Refusal;

impl Broker {
    /// The asker takes an offer, or takes it once more.
    pub(super) fn accept(
        &mut self,
        now: Time,
        from: ActorId,
        id: RequestId,
        offer: u8,
        out: &mut Output,
    ) {
        let record = self.state.requests.get(&id);
        let handed_by = record.and_then(|record| record.handed_by());
        let Some(record) = record.filter(|_| handed_by.unwrap_or(id.origin) == from) else {
            let lapsed = record.is_none() && (id.origin == from || self.takes_from(from));
            let refusal = if lapsed { Refusal::Lapsed(now) } else { Refusal::Forbidden };
            return self.not_accepted(now, (from, id), refusal, out);
        };
        let (until, count, own) = match &record.state {
            State::Held { until, offers, .. } => (*until, offers.len(), true),
            State::Proposed { until, offers, .. } => (*until, offers.len(), false),
            State::Open { .. }
            | State::Passed { .. }
            | State::Brought { .. }
            | State::Gathering { .. }
            | State::Reserved { .. }
            | State::Committing { .. }
            | State::Taking { .. }
            | State::Planned { .. }
            | State::Granted { .. }
            | State::Returned { .. }
            | State::Refused { .. } => return self.repeat_answer(id, out),
        };
        match (own, until <= now && !mutant!(TakesLapsedOffers)) {
            (true, true) => self.end_hold(now, id, Refusal::Lapsed(until), out),
            (false, true) => return self.proposal_due(now, id, out),
            (_, false) if !(1..=count).contains(&usize::from(offer)) => {
                let refusal = Refusal::Malformed(format!("there is no offer {offer}"));
                return self.not_accepted(now, (from, id), refusal, out);
            }
            (true, false) => self.emit(now, OfferAccepted { request: id, offer }, out),
            (false, false) => self.emit(now, OfferPassed { request: id, offer }, out),
        }
        self.repeat_answer(id, out);
    }

    fn not_accepted(
        &self,
        now: Time,
        (from, id): (ActorId, RequestId),
        refusal: Refusal,
        out: &mut Output,
    ) {
        if id.origin == from {
            self.refuse_volatile(now, from, id, refusal, out);
        } else {
            self.hand_back(now, (from, id), Outcome::Refused(refusal), out);
        }
    }

    /// Nothing is held for a request any more.
    pub(super) fn end_hold(
        &mut self,
        now: Time,
        id: RequestId,
        refusal: Refusal,
        out: &mut Output,
    ) {
        self.emit(now, HoldEnded { request: id, refusal }, out);
    }

    pub(super) fn offers_held(&mut self, at: Time, fact: &OffersHeld) -> Result<(), BadFact> {
        for (place, (_, ticket)) in fact.offers.iter().flatten().enumerate() {
            self.enter(ticket, (fact.request, place), at);
        }
        let ends = fact.offers.iter().flatten().map(|(_, ticket)| ticket.bottom().term);
        let last = ends.map(|term| term.end().plus(term.duration())).max();
        if let Some(record) = self.state.requests.get_mut(&fact.request) {
            let last = last.map(|end| end.plus(self.base.margin()));
            record.expires_at = record.expires_at.max(last.unwrap_or(record.expires_at));
        }
        let held = Event::Held(fact.offers.clone(), fact.until, fact.refusal.clone());
        self.moved(fact.request, at, held)
    }

    pub(super) fn offer_accepted(&mut self, at: Time, fact: &OfferAccepted) -> Result<(), BadFact> {
        let taken = usize::from(fact.offer).checked_sub(1);
        let mut tickets = Tickets::new();
        for (place, offer) in self.held_offers(fact.request)?.into_iter().enumerate() {
            if Some(place) == taken {
                tickets = offer;
            } else {
                self.uncut(&offer, at);
            }
        }
        if tickets.is_empty() {
            let what = format!("offer {} of {}", fact.offer, fact.request);
            return Err(BadFact::Missing { kind: "acceptance", what });
        }
        let answers = self.answers_for(fact.request);
        for (place, (_, ticket)) in tickets.iter().enumerate() {
            let since = ticket.bottom().term.start();
            let issued = IssuedTicket::new(ticket, (fact.request, place), since, answers);
            self.state.issued.insert(ticket.hash(), issued);
            self.set_reclaim(ticket);
        }
        self.moved(fact.request, at, Event::Accepted(tickets))
    }

    pub(super) fn hold_ended(&mut self, at: Time, fact: &HoldEnded) -> Result<(), BadFact> {
        match self.request(fact.request) {
            Some(State::Held { offers, .. }) => {
                for offer in offers.clone() {
                    self.uncut(&offer, at);
                }
            }
            Some(_) | None => self.release(fact.request, at),
        }
        self.moved(fact.request, at, Event::Refused(fact.refusal.clone(), Vec::new()))
    }

    fn held_offers(&self, id: RequestId) -> Result<Vec<Tickets>, BadFact> {
        match self.request(id) {
            Some(State::Held { offers, .. }) => Ok(offers.clone()),
            Some(
                State::Open { .. }
                | State::Passed { .. }
                | State::Brought { .. }
                | State::Gathering { .. }
                | State::Reserved { .. }
                | State::Committing { .. }
                | State::Proposed { .. }
                | State::Taking { .. }
                | State::Planned { .. }
                | State::Granted { .. }
                | State::Returned { .. }
                | State::Refused { .. },
            )
            | None => Err(BadFact::Missing { kind: "hold", what: id.to_string() }),
        }
    }

    /// What was cut and kept back is free again: nobody has seen it.
    pub(super) fn uncut(&mut self, offer: &Tickets, at: Time) {
        for (_, ticket) in offer {
            let hash: LinkHash = ticket.hash();
            let link = ticket.bottom();
            let whole = PartReturned { number: 0, units: link.units, term: link.term };
            self.credit_back(hash, whole, Time::MIN, at);
            self.state.issued.remove(&hash);
            self.settle_reclaim(hash);
            self.index.forgotten(hash);
        }
        self.call_for_open();
    }

    /// A hold is due: what nobody accepted is free again.
    pub(super) fn hold_due(&mut self, now: Time, id: RequestId, until: Time, out: &mut Output) {
        if mutant!(HoldsForever) {
            return self.state.timers.set(Timer::Request(id), None);
        }
        self.end_hold(now, id, Refusal::Lapsed(until), out);
    }
}
