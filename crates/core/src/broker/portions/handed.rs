//! Portions that other brokers ask for.

use super::{LONGEST_HOLD, WHOLE};
use crate::actor::{Emit as _, dropped};
use crate::broker::facts::PortionHanded;
use crate::broker::forwarding::{Route, as_decided};
use crate::broker::machine::State;
use crate::broker::{Broker, Output, Record};
use crate::model::identity::ActorId;
use crate::model::slice::RequestId;
use crate::model::time::Time;
use crate::wire::handover::Hop;
use crate::wire::message::Message;
use crate::wire::portion::{PortionAsked, PortionBack, PortionOutcome};
use crate::wire::refusal::Refusal;
use crate::wire::request::Request;

impl Broker {
    /// Another broker asks to hold a portion of a request.
    pub(in crate::broker) fn portion_asked(
        &mut self,
        now: Time,
        from: ActorId,
        asked: PortionAsked,
        out: &mut Output,
    ) {
        let round = asked.portion.round;
        let refuse = |refusal| PortionOutcome::Refused(refusal);
        let (whole, request) = match self.read_portion(now, from, &asked) {
            Ok(read) => read,
            Err((Some(id), refusal)) => {
                return self.answer_portion(now, from, (id, round), refuse(refusal), out);
            }
            Err((None, refusal)) => {
                return out.problems.push(dropped("ask-portion", refusal.to_string()));
            }
        };
        let id = whole.id;
        if let Some(record) = self.state.requests.get(&id) {
            if record.handed_by() == Some(from) && record.round() == round {
                return self.repeat_answer(id, out);
            }
            if !self.makes_way(now, id, from, round, out) {
                return self.answer_portion(now, from, (id, round), PortionOutcome::Seen, out);
            }
        }
        if asked.handover.path.contains(&self.base.id()) {
            return self.answer_portion(now, from, (id, round), PortionOutcome::Seen, out);
        }
        if self.is_crowded(now, from) {
            let refusal = refuse(Refusal::Overloaded);
            return self.answer_portion(now, from, (id, round), refusal, out);
        }
        self.take_receipts(now, whole, out);
        let refusal = self.not_taken(now, from, &request);
        let PortionAsked { handover, mut portion } = asked;
        portion.until = portion.until.min(now.plus(LONGEST_HOLD));
        self.emit(now, PortionHanded { request: id, handover, portion }, out);
        if let Some(refusal) = refusal {
            self.refuse(now, id, refusal, "never open to decision".to_owned(), out);
        }
    }

    /// Whether a request that another broker has handed on makes way for a portion of it in a later round: if it was
    /// refused, or if what is held of it is for the same broker, which has then given it up.
    fn makes_way(
        &mut self,
        now: Time,
        id: RequestId,
        from: ActorId,
        round: u8,
        out: &mut Output,
    ) -> bool {
        let Some(record) = self.state.requests.get(&id) else { return true };
        if record.round() >= round || record.handed_by().is_none() {
            return false;
        }
        let given_up = record.handed_by() == Some(from);
        match record.state {
            State::Refused { .. } => true,
            State::Reserved { .. } | State::Gathering { .. } if given_up => {
                self.give_up(now, id, Refusal::Withdrawn, out);
                true
            }
            State::Open { .. }
            | State::Passed { .. }
            | State::Brought { .. }
            | State::Gathering { .. }
            | State::Reserved { .. }
            | State::Committing { .. }
            | State::Held { .. }
            | State::Proposed { .. }
            | State::Taking { .. }
            | State::Planned { .. }
            | State::Granted { .. }
            | State::Returned { .. } => false,
        }
    }

    /// The request of which a portion is asked for, and that portion alone, if its guest has asked for it and the sender
    /// may hand it on.
    fn read_portion(
        &mut self,
        now: Time,
        from: ActorId,
        asked: &PortionAsked,
    ) -> Result<(Request, Request), (Option<RequestId>, Refusal)> {
        let whole = self.read_handover(now, from, &asked.handover)?;
        let id = whole.id;
        let portion = asked.portion.of(&whole);
        let (portion, _) = portion.map_err(|cause| (Some(id), Refusal::Malformed(cause)))?;
        if asked.portion.until <= now {
            // By another clock it may be in time.
            return Err((Some(id), Refusal::Undecided(now)));
        }
        Ok((whole, portion))
    }

    pub(super) fn answer_portion(
        &self,
        now: Time,
        to: ActorId,
        (request, round): (RequestId, u8),
        outcome: PortionOutcome,
        out: &mut Output,
    ) {
        let back = PortionBack { request, round, outcome, trail: Vec::new() };
        let message = Message::PortionBack(Box::new(back));
        out.replies.push(self.base.volatile(to, now, message));
    }

    pub(in crate::broker) fn portion_handed(&mut self, at: Time, fact: &PortionHanded) {
        let PortionHanded { request: id, handover, portion } = fact;
        if self.state.requests.contains_key(id) {
            self.forget(*id);
        }
        let route = Route::portion(handover, portion.clone(), at);
        let whole = as_decided(&handover.sealed, handover.answer_by, portion.until);
        let Some(whole) = whole else { return };
        let Ok((request, _)) = portion.of(&whole) else { return };
        self.state.quotas.asked(route.from().unwrap_or(id.origin), at);
        self.requested(&request, Some(route));
        // It is not taken up again as long as any portion of it could come.
        let expires_at = whole.remembered_until().plus(self.base.margin());
        if let Some(record) = self.state.requests.get_mut(id) {
            record.expires_at = record.expires_at.max(expires_at);
        }
        self.show_route(*id);
    }

    /// Answers the broker that has asked for a portion as it was answered.
    pub(in crate::broker) fn repeat_portion(
        &self,
        id: RequestId,
        record: &Record,
        out: &mut Output,
    ) {
        let outcome = match &record.state {
            State::Reserved { gathered, refusal } => PortionOutcome::Held {
                units: gathered.held(),
                until: gathered.until,
                refusal: refusal.clone(),
            },
            State::Granted { tickets, .. }
            | State::Returned { tickets }
            | State::Brought { tickets } => PortionOutcome::Granted(tickets.clone()),
            State::Refused { refusal, .. } => PortionOutcome::Refused(refusal.clone()),
            State::Open { .. }
            | State::Passed { .. }
            | State::Gathering { .. }
            | State::Committing { .. }
            | State::Held { .. }
            | State::Proposed { .. }
            | State::Taking { .. }
            | State::Planned { .. } => return,
        };
        let Some((cause, to)) = record.answered.zip(record.handed_by()) else { return };
        let trail: Option<Vec<Hop>> = record.route.as_ref().map(|route| route.tried.trail.clone());
        let trail = trail.unwrap_or_default();
        let back = PortionBack { request: id, round: record.round(), outcome, trail };
        out.replies.push(self.base.answer(to, cause, Message::PortionBack(Box::new(back))));
    }
}

impl Record {
    /// Whether it is a portion that this broker has asked for in this round.
    pub(super) fn is_portion_for(&self, broker: ActorId, round: u8) -> bool {
        self.handed_by() == Some(broker) && round > 0 && self.round() == round
    }

    /// Whether it is a request that this broker has handed on as a whole.
    pub(super) fn is_whole_for(&self, broker: ActorId) -> bool {
        self.handed_by() == Some(broker) && self.round() == WHOLE
    }

    /// The round of the portion that the record is of; [`WHOLE`] if it is of the whole.
    fn round(&self) -> u8 {
        let portion = self.route.as_ref().and_then(|route| route.portion.as_ref());
        portion.map_or(WHOLE, |portion| portion.round)
    }
}
