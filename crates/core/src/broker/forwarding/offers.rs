//! Offers of other brokers for requests that are passed on: those that are held there, and what could be had instead of
//! what was refused.

use std::sync::Arc;

use crate::actor::fact::BadFact;
use crate::broker::facts::OfferPassed;
use crate::broker::machine::{Event, State};
use crate::broker::portions::WHOLE;
use crate::broker::{Broker, Obligation, Output};
use crate::model::codec::encode;
use crate::model::identity::ActorId;
use crate::model::slice::RequestId;
use crate::model::time::Time;
use crate::wire::handover::Outcome;
use crate::wire::message::Message;
use crate::wire::offer::{MAX_OFFER_BYTES, MAX_OFFERS, Offer, Reply, nearest};
use crate::wire::refusal::Refusal;
use crate::wire::request::Request;

/// Why a request is refused whose offers nobody has chosen.
const LAPSED: &str = "nobody has chosen an offer in time";

impl Broker {
    /// Checks that what a broker offers is about the request and for no more than it asks for. What is made as an offer
    /// meets the request, too; if it is held, then now, and for no longer than was asked for.
    pub(super) fn check_offers(
        &self,
        now: Time,
        request: &Request,
        outcome: &Outcome,
    ) -> Result<(), String> {
        let (offers, fits) = match outcome {
            Outcome::Countered(_, offers) => (offers, true),
            Outcome::Offered(offers, until) => {
                let asked = match (request.reply, until) {
                    (Reply::Plan, None) => true,
                    (Reply::Hold(span), Some(until)) => {
                        let latest = request.answer_by.plus(span).plus(self.base.margin());
                        now < *until && *until <= latest
                    }
                    (Reply::Grant | Reply::Plan | Reply::Hold(_), _) => false,
                };
                (offers, asked && !offers.is_empty() && offers.iter().all(|of| of.meets(request)))
            }
            Outcome::Granted(_) | Outcome::Refused(_) | Outcome::Seen => return Ok(()),
        };
        let fits = fits && offers.len() <= MAX_OFFERS && encode(offers).len() <= MAX_OFFER_BYTES;
        let fits = fits && offers.iter().all(|offer| offer.is_about(request));
        fits.then_some(()).ok_or_else(|| "the offers are not what was asked for".to_owned())
    }

    /// The broker that holds the offers of a request is asked for the chosen one.
    pub(in crate::broker) fn offer_passed(
        &mut self,
        at: Time,
        fact: &OfferPassed,
    ) -> Result<(), BadFact> {
        self.state.pending.require(Obligation::Pass(fact.request), self.base.position, at);
        self.moved(fact.request, at, Event::Chosen(fact.offer))
    }

    /// The offers of another broker are lapsed, or it has not said in time whether the chosen one is had.
    pub(in crate::broker) fn proposal_due(&mut self, now: Time, id: RequestId, out: &mut Output) {
        let (refusal, reason) = match self.request(id) {
            Some(&State::Taking { by, .. }) => {
                let brokers = vec![self.base.name_of(by)];
                (Refusal::Unheard { brokers }, "the answer was due")
            }
            Some(&State::Proposed { until, .. }) => (Refusal::Lapsed(until), LAPSED),
            Some(_) | None => return,
        };
        self.refuse(now, id, refusal, reason.to_owned(), out);
    }

    /// Tells the broker that was asked for offers, or holds them, that they are not wanted.
    pub(in crate::broker) fn give_up_others(&self, now: Time, id: RequestId, out: &mut Output) {
        match self.request(id) {
            Some(State::Proposed { by, .. }) => self.not_wanted(now, (id, *by), out),
            Some(State::Passed { to, request, .. }) if request.reply != Reply::Grant => {
                self.not_wanted(now, (id, *to), out);
            }
            Some(_) | None => {}
        }
    }

    /// What a broker holds for a request that was handed on is not wanted. That is not repeated: without it offers
    /// lapse.
    pub(super) fn not_wanted(
        &self,
        now: Time,
        (request, broker): (RequestId, ActorId),
        out: &mut Output,
    ) {
        let message = Message::PortionDecided { request, round: WHOLE, taken: false };
        out.replies.push(self.base.volatile(broker, now, message));
    }

    /// What a broker could give instead is remembered, as far as it is the nearest to what was asked for.
    pub(super) fn note_offers(&mut self, id: RequestId, offers: &[Offer]) {
        let Some(record) = self.state.requests.get_mut(&id) else { return };
        let (State::Passed { request, .. }, Some(route)) = (&record.state, &mut record.route)
        else {
            return;
        };
        let tried = Arc::make_mut(&mut route.tried);
        tried.offers.extend(offers.iter().cloned());
        tried.offers = short(nearest(request, &tried.offers));
    }

    /// With what could be had here of a request that is refused, what could be had elsewhere.
    pub(in crate::broker) fn nearest_heard(&self, id: RequestId, own: Vec<Offer>) -> Vec<Offer> {
        let record = self.state.requests.get(&id);
        let route = record.and_then(|record| record.route.as_ref());
        let Some(heard) = route.map(|route| &route.tried.offers) else { return own };
        let Some(State::Open { request, .. }) = self.request(id).filter(|_| !heard.is_empty())
        else {
            return own;
        };
        let all: Vec<Offer> = own.into_iter().chain(heard.iter().cloned()).collect();
        short(nearest(request, &all))
    }
}

/// As many of these offers, the first ones, as one answer holds.
fn short(mut offers: Vec<Offer>) -> Vec<Offer> {
    while encode(&offers).len() > MAX_OFFER_BYTES {
        offers.pop();
    }
    offers
}
