//! What is held is taken, given to the broker that has asked for it, or let go.

use std::sync::Arc;

use super::{PortionEvent, WHOLE};
use crate::actor::fact::{BadFact, truncate_text};
use crate::actor::{Emit as _, Role, dropped};
use crate::broker::facts::{
    PortionReserved, PortionsGranted, PortionsReleased, PortionsTaken, RequestRefused,
};
use crate::broker::machine::{Event, State};
use crate::broker::{Broker, IssuedTicket, Obligation, Output};
use crate::model::identity::ActorId;
use crate::model::name::Name;
use crate::model::slice::RequestId;
use crate::model::time::{Span, Time};
use crate::wire::handover::{Hop, HopAnswer};
use crate::wire::message::Message;
use crate::wire::portion::PortionOutcome;
use crate::wire::refusal::Refusal;

/// Why nothing comes of what was held for too long.
const LAPSED: &str = "what is held has lapsed";

impl Broker {
    /// Takes the step that follows from what is held, if one does.
    pub(super) fn proceed(&mut self, now: Time, id: RequestId, out: &mut Output) {
        match self.request(id) {
            Some(State::Gathering { gathered, asked: None }) if gathered.missing().is_empty() => {
                let until = gathered.until;
                match gathered.for_other {
                    true => self.reserve(now, id, None, out),
                    false if now < until => self.take(now, id, out),
                    // It has slept: others have let go by now.
                    false => {
                        self.no_more(now, id, Refusal::Lapsed(until), LAPSED.to_owned(), out);
                    }
                }
            }
            Some(State::Committing { gathered }) if gathered.awaited().next().is_none() => {
                self.emit(now, PortionsGranted { request: id }, out);
                self.repeat_answer(id, out);
            }
            Some(_) | None => {}
        }
    }

    /// Nobody else is asked for what is missing of a request.
    pub(in crate::broker) fn no_more(
        &mut self,
        now: Time,
        id: RequestId,
        refusal: Refusal,
        reason: String,
        out: &mut Output,
    ) {
        match self.request(id) {
            Some(State::Gathering { gathered, .. }) if !gathered.for_other => {
                if gathered.is_enough() && now < gathered.until {
                    return self.take(now, id, out);
                }
                let next = self.next_start(id, &refusal);
                self.let_go(now, id, out);
                let reason = truncate_text(&reason);
                self.emit(now, PortionsReleased { request: id, next, reason }, out);
            }
            Some(State::Gathering { gathered, .. }) => {
                // The refusal from before units were kept counts: fewer are free since.
                let own = gathered.refusal.clone().unwrap_or(refusal);
                let (any, refusal) = (!gathered.held().is_empty(), self.best_heard(id, own));
                match any {
                    true => self.reserve(now, id, Some(refusal), out),
                    false => self.refuse(now, id, refusal, reason, out),
                }
            }
            Some(_) | None => self.refuse(now, id, refusal, reason, out),
        }
    }

    /// Tells the broker that has asked for a portion what is held of it, if it still is.
    fn reserve(&mut self, now: Time, id: RequestId, refusal: Option<Refusal>, out: &mut Output) {
        let until = self.request(id).and_then(State::gathered).map_or(now, |of| of.until);
        if until <= now {
            return self.refuse(now, id, Refusal::Lapsed(until), LAPSED.to_owned(), out);
        }
        self.emit(now, PortionReserved { request: id, refusal }, out);
        self.repeat_answer(id, out);
    }

    /// Takes what is held.
    fn take(&mut self, now: Time, id: RequestId, out: &mut Output) {
        self.emit(now, PortionsTaken { request: id }, out);
        self.proceed(now, id, out);
    }

    /// The broker that has asked for a portion has decided.
    pub(in crate::broker) fn portion_decided(
        &mut self,
        now: Time,
        from: ActorId,
        (id, round, taken): (RequestId, u8, bool),
        out: &mut Output,
    ) {
        if !self.base.is_known(from, Role::Broker) {
            return out.problems.push(dropped("portion-decided", "its sender is no broker here"));
        }
        let record = self.state.requests.get(&id);
        let is_whole = record.is_some_and(|record| record.is_whole_for(from));
        if (round, taken) == (WHOLE, false) && is_whole {
            return self.withdrawn(now, id, Refusal::Withdrawn, out);
        }
        let record = record.filter(|record| record.is_portion_for(from, round));
        let Some(record) = record else {
            if taken {
                let lapsed = PortionOutcome::Refused(Refusal::Lapsed(now));
                self.answer_portion(now, from, (id, round), lapsed, out);
            }
            return;
        };
        match (&record.state, taken) {
            (State::Reserved { gathered, .. }, true) if now < gathered.until => {
                self.take(now, id, out);
            }
            (State::Reserved { gathered, .. }, true) => {
                let until = gathered.until;
                self.give_up(now, id, Refusal::Lapsed(until), out);
                self.repeat_answer(id, out);
            }
            (
                State::Open { .. }
                | State::Gathering { .. }
                | State::Reserved { .. }
                | State::Committing { .. },
                false,
            ) => {
                self.give_up(now, id, Refusal::Withdrawn, out);
            }
            (_, true) => self.repeat_answer(id, out),
            (_, false) => {}
        }
    }

    /// What is held, here and by others, is free again.
    pub(in crate::broker) fn give_up(
        &mut self,
        now: Time,
        id: RequestId,
        refusal: Refusal,
        out: &mut Output,
    ) {
        self.let_go(now, id, out);
        self.end_hold(now, id, refusal, out);
    }

    /// The tickets of other brokers have not come in time.
    pub(in crate::broker) fn commit_due(&mut self, now: Time, id: RequestId, out: &mut Output) {
        let gathered = self.request(id).and_then(State::gathered);
        let awaited = gathered.into_iter().flat_map(|gathered| gathered.awaited());
        let brokers: Vec<Name> = awaited.map(|broker| self.base.name_of(broker)).collect();
        if brokers.is_empty() {
            // They came, and it stopped before it was recorded that it has all of them.
            return self.proceed(now, id, out);
        }
        let refusal = Refusal::Unheard { brokers };
        self.refuse(now, id, refusal, "what was held was not granted in time".to_owned(), out);
    }

    /// Tells others that what they hold of a request, or look for, is not taken. It is not repeated: what they are not
    /// told of lapses.
    pub(in crate::broker) fn let_go(&self, now: Time, id: RequestId, out: &mut Output) {
        let Some(state) = self.request(id) else { return };
        let Some(gathered) = state.gathered() else { return };
        let asked =
            if let State::Gathering { asked, .. } = state { asked.map(|(to, _)| to) } else { None };
        for broker in gathered.awaited().chain(asked) {
            let round = gathered.round;
            let decided = Message::PortionDecided { request: id, round, taken: false };
            out.replies.push(self.base.volatile(broker, now, decided));
        }
    }

    /// The message to a broker that what it holds is taken.
    pub(in crate::broker) fn take_message(
        &self,
        id: RequestId,
        broker: ActorId,
    ) -> Option<(ActorId, Message)> {
        let Some(State::Committing { gathered }) = self.request(id) else { return None };
        let round = gathered.round;
        Some((broker, Message::PortionDecided { request: id, round, taken: true }))
    }

    pub(in crate::broker) fn portion_reserved(
        &mut self,
        at: Time,
        fact: &PortionReserved,
    ) -> Result<(), BadFact> {
        self.moved(fact.request, at, PortionEvent::Reserved(fact.refusal.clone()).into())
    }

    pub(in crate::broker) fn portions_taken(
        &mut self,
        at: Time,
        id: RequestId,
    ) -> Result<(), BadFact> {
        self.moved(id, at, PortionEvent::Taken.into())?;
        let gathered = self.request(id).and_then(State::gathered);
        let others: Vec<ActorId> = gathered.into_iter().flat_map(|of| of.awaited()).collect();
        for broker in others {
            self.state.pending.require(Obligation::Take(id, broker), self.base.position, at);
        }
        // Requests that wait for these units are decided again: they will not be free.
        self.call_for_open();
        Ok(())
    }

    pub(in crate::broker) fn portions_granted(
        &mut self,
        at: Time,
        id: RequestId,
    ) -> Result<(), BadFact> {
        let own = self.request(id).and_then(State::gathered).map(|of| of.own.clone());
        let answers = self.answers_for(id);
        for (place, (_, ticket)) in own.iter().flatten().enumerate() {
            let since = ticket.bottom().term.start();
            let issued = IssuedTicket::new(ticket, (id, place), since, answers);
            self.state.issued.insert(ticket.hash(), issued);
            self.set_reclaim(ticket);
        }
        self.moved(id, at, PortionEvent::Completed.into())
    }

    pub(in crate::broker) fn portions_released(
        &mut self,
        at: Time,
        fact: &PortionsReleased,
    ) -> Result<(), BadFact> {
        self.release(fact.request, at);
        let gathered = self.request(fact.request).and_then(State::gathered);
        let own = gathered.and_then(|gathered| gathered.refusal.clone());
        let me = self.base.id();
        if let Some(record) = self.state.requests.get_mut(&fact.request)
            && let Some(route) = &mut record.route
        {
            route.rounds.next = fact.next;
            // Why this broker did not keep all counts like another broker's answer.
            let said = HopAnswer::Held(own);
            Arc::make_mut(&mut route.tried).trail.push(Hop { broker: me, said, took: Span::ZERO });
        }
        self.moved(fact.request, at, PortionEvent::Released.into())
    }

    pub(in crate::broker) fn request_refused(
        &mut self,
        at: Time,
        fact: &RequestRefused,
    ) -> Result<(), BadFact> {
        self.release(fact.request, at);
        let refused = Event::Refused(fact.refusal.clone(), fact.offers.clone());
        self.moved(fact.request, at, refused)?;
        self.state.pending.settle(&Obligation::Pass(fact.request));
        Ok(())
    }

    /// What was cut of a request that is gathered is free again, and nothing is awaited of others.
    pub(in crate::broker) fn release(&mut self, id: RequestId, at: Time) {
        let Some(gathered) = self.request(id).and_then(State::gathered).cloned() else { return };
        self.uncut(&gathered.own, at);
        self.state.pending.settle(&Obligation::Pass(id));
        for broker in gathered.awaited() {
            self.state.pending.settle(&Obligation::Take(id, broker));
        }
    }
}
