//! Requests that other brokers hand on.

use std::sync::Arc;

use super::route::Route;
use crate::actor::{Emit as _, Role, dropped};
use crate::broker::facts::{RequestHanded, RequestSealed};
use crate::broker::machine::State;
use crate::broker::portions::{LONGEST_HOLD, LONGEST_OFFER};
use crate::broker::view::OpenRoute;
use crate::broker::{Broker, Output, Record};
use crate::model::identity::ActorId;
use crate::model::slice::RequestId;
use crate::model::time::{Span, Time};
use crate::ticket::ledger::LEDGER_RETENTION;
use crate::wire::handover::{HandedBack, Handover, Outcome};
use crate::wire::message::{Envelope, Message, Sealed};
use crate::wire::offer::Reply;
use crate::wire::refusal::Refusal;
use crate::wire::request::Request;

/// How long after the answer was due a ticket that another broker brings can be redeemed. One that its guest does not
/// get is its broker's again after that.
const CLAIM_WITHIN: Span = Span::from_secs(300);

impl Broker {
    /// The guest's message is kept for as long as its request may be passed on.
    pub(in crate::broker) fn keep_sealed(
        &mut self,
        now: Time,
        request: &Request,
        sealed: &Sealed,
        out: &mut Output,
    ) {
        // An extension is its issuer's to grant.
        let extends = request.items.iter().any(|item| item.extends.is_some());
        if self.forwards_to().is_empty() || extends {
            return;
        }
        let (request, sealed, reach) = (request.id, sealed.clone(), self.reach);
        self.emit(now, RequestSealed { request, sealed, reach }, out);
    }

    pub(in crate::broker) fn request_sealed(&mut self, at: Time, fact: &RequestSealed) {
        let RequestSealed { request: id, sealed, reach } = fact;
        if let Some(record) = self.state.requests.get_mut(id) {
            record.route = Some(Route::first(sealed.clone(), *reach, at));
        }
        self.show_route(*id);
    }

    /// Another broker hands a request on.
    pub(in crate::broker) fn handed_over(
        &mut self,
        now: Time,
        from: ActorId,
        handover: Handover,
        out: &mut Output,
    ) {
        let request = match self.read_handover(now, from, &handover) {
            Ok(request) => request,
            Err((Some(id), refusal)) => {
                return self.hand_back(now, (from, id), Outcome::Refused(refusal), out);
            }
            Err((None, refusal)) => {
                let cause = refusal.to_string();
                return out.problems.push(dropped("hand-over", cause));
            }
        };
        let id = request.id;
        if let Some(record) = self.state.requests.get(&id) {
            if record.handed_by() == Some(from) {
                return self.repeat_answer(id, out);
            }
            return self.hand_back(now, (from, id), Outcome::Seen, out);
        }
        if handover.path.contains(&self.base.id()) {
            return self.hand_back(now, (from, id), Outcome::Seen, out);
        }
        if self.is_crowded(now, from) {
            return self.hand_back(now, (from, id), Outcome::Refused(Refusal::Overloaded), out);
        }
        let request = self.take_receipts(now, request, out);
        let refusal = self.not_taken(now, from, &request);
        self.emit(now, RequestHanded { request: id, handover }, out);
        if let Some(refusal) = refusal {
            self.refuse(now, id, refusal, "never open to decision".to_owned(), out);
        }
    }

    /// Why a request that a broker hands on is not open to decision, if it is not.
    pub(in crate::broker) fn not_taken(
        &self,
        now: Time,
        from: ActorId,
        request: &Request,
    ) -> Option<Refusal> {
        let denied = self.state.neighbours.of(from).and_then(|of| of.accept.as_ref());
        let denied = denied.and_then(|accepted| accepted.excludes(request));
        denied.or_else(|| self.not_open(now, from, request))
    }

    /// Whether it takes requests that a broker hands on.
    pub(in crate::broker) fn takes_from(&self, broker: ActorId) -> bool {
        let neighbour = self.state.neighbours.of(broker);
        let accepts = neighbour.is_some_and(|neighbour| neighbour.accept.is_some());
        accepts && self.base.is_known(broker, Role::Broker)
    }

    /// The broker that has handed a request on, if one has.
    pub(in crate::broker) fn handed_by(&self, id: RequestId) -> Option<ActorId> {
        self.state.requests.get(&id)?.handed_by()
    }

    /// A request that is handed on, if its guest has asked for it and the sender may hand it on.
    pub(in crate::broker) fn read_handover(
        &mut self,
        now: Time,
        from: ActorId,
        handover: &Handover,
    ) -> Result<Request, (Option<RequestId>, Refusal)> {
        let malformed = |cause: &str| Refusal::Malformed(cause.to_owned());
        let since = now.minus(self.base.margin()).minus(LEDGER_RETENTION);
        let envelope = handover.sealed.read(&mut self.base.credentials, since);
        let envelope = envelope.map_err(|cause| (None, malformed(&cause.to_string())))?;
        let header = envelope.header;
        let Message::Request(request) = envelope.message else {
            return Err((None, malformed("there is no request in it")));
        };
        let id = request.id;
        let refused = |refusal| Err((Some(id), refusal));
        if !self.takes_from(from) || id.origin != header.from {
            return refused(Refusal::Forbidden);
        }
        if let Err(cause) = handover.check().and_then(|()| request.check()) {
            return refused(Refusal::Malformed(cause));
        }
        if handover.path.first() != Some(&header.to) || handover.path.last() != Some(&from) {
            return refused(malformed("its path is not from the guest's broker to the sender"));
        }
        let extends = request.items.iter().any(|item| item.extends.is_some());
        if extends {
            return refused(malformed("only requests for new tickets are passed on"));
        }
        if let Err(cause) = self.check_units(&request) {
            return refused(Refusal::Malformed(cause));
        }
        if now >= Self::known_until(&request).plus(self.base.margin()) {
            return refused(Refusal::TooLate(request.last_end()));
        }
        Ok(request)
    }

    pub(in crate::broker) fn hand_back(
        &self,
        now: Time,
        (to, request): (ActorId, RequestId),
        outcome: Outcome,
        out: &mut Output,
    ) {
        let back = HandedBack { request, outcome, trail: Vec::new() };
        let message = Message::HandedBack(Box::new(back));
        out.replies.push(self.base.volatile(to, now, message));
    }

    pub(in crate::broker) fn request_handed(&mut self, at: Time, fact: &RequestHanded) {
        let handover = &fact.handover;
        let Some(request) = as_decided(&handover.sealed, handover.answer_by, handover.answer_by)
        else {
            return;
        };
        let route = Route::handed(handover, at);
        self.state.quotas.asked(route.from().unwrap_or(request.id.origin), at);
        self.requested(&request, Some(route));
        self.show_route(request.id);
    }

    /// Answers the broker that has handed a request on as it was answered.
    pub(in crate::broker) fn repeat_to_broker(
        &self,
        id: RequestId,
        record: &Record,
        out: &mut Output,
    ) {
        if record.route.as_ref().is_some_and(|route| route.portion.is_some()) {
            return self.repeat_portion(id, record, out);
        }
        let outcome = match &record.state {
            State::Granted { tickets, .. }
            | State::Returned { tickets }
            | State::Brought { tickets } => Outcome::Granted(tickets.clone()),
            State::Refused { refusal, offers } => Outcome::refused(refusal.clone(), offers.clone()),
            State::Held { request, offers, until, .. } => {
                let offers = offers.iter().map(|tickets| request.offer_of(tickets)).collect();
                Outcome::Offered(offers, Some(*until))
            }
            State::Proposed { offers, until, .. } => Outcome::Offered(offers.clone(), Some(*until)),
            State::Planned { offers, .. } => Outcome::Offered(offers.clone(), None),
            State::Open { .. }
            | State::Passed { .. }
            | State::Taking { .. }
            | State::Gathering { .. }
            | State::Reserved { .. }
            | State::Committing { .. } => return,
        };
        let Some((cause, to)) = record.answered.zip(record.handed_by()) else { return };
        out.replies.push(self.base.answer(to, cause, record.back(id, outcome)));
    }

    /// The mapper sees what was tried for an open request.
    pub(in crate::broker) fn show_route(&mut self, id: RequestId) {
        let record = self.state.requests.get(&id);
        self.index.routed(id, record.and_then(|record| record.shown_route()));
    }
}

impl Record {
    /// What the mapper is shown of the way of an open request.
    pub(in crate::broker) fn shown_route(&self) -> Option<OpenRoute> {
        self.shown()?;
        let route = self.route.as_ref()?;
        Some(OpenRoute {
            tried: Arc::clone(&route.tried),
            hops: route.open().map_or(0, |_| route.hops),
            answer_by: self.decide_by(),
            stage: self.stage(),
        })
    }

    /// The broker that has handed the request on, if one has.
    pub(in crate::broker) fn handed_by(&self) -> Option<ActorId> {
        self.route.as_ref().and_then(Route::from)
    }

    /// The answer to that broker.
    pub(in crate::broker) fn back(&self, request: RequestId, outcome: Outcome) -> Message {
        let trail = self.route.as_ref().map(|route| route.tried.trail.clone());
        Message::HandedBack(Box::new(HandedBack {
            request,
            outcome,
            trail: trail.unwrap_or_default(),
        }))
    }
}

impl Route {
    /// The whole request of which another broker has asked for a portion.
    pub(in crate::broker) fn whole(&self) -> Option<Request> {
        let portion = self.portion.as_ref()?;
        as_decided(self.sealed.as_ref()?, portion.until, portion.until)
    }
}

/// The request that a message is, as it is decided for another broker that wants an answer by then; tickets for it must
/// be redeemed soon after `until`.
pub(in crate::broker) fn as_decided(
    sealed: &Sealed,
    answer_by: Time,
    until: Time,
) -> Option<Request> {
    let mut request = request_in(sealed)?;
    request.receipts.clear();
    if let Reply::Hold(span) = &mut request.reply {
        *span = (*span).min(LONGEST_OFFER);
    }
    // No later than makes sense to the guest, whatever another broker says.
    let by = until.min(request.answer_by.plus(LONGEST_HOLD)).plus(CLAIM_WITHIN);
    let by = if let Reply::Hold(span) = request.reply { by.plus(span) } else { by };
    let by = request.provisos.redeem_by.map_or(by, |wanted| wanted.min(by));
    request.provisos.redeem_by = Some(by);
    request.answer_by = request.answer_by.min(answer_by);
    Some(request)
}

/// The request that a message is.
fn request_in(sealed: &Sealed) -> Option<Request> {
    let Envelope { message: Message::Request(request), .. } = sealed.peek().ok()? else {
        return None;
    };
    Some(request)
}
