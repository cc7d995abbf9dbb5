//! Requests that their askers revise while they are open: they keep their age and their place.

use std::sync::Arc;

use super::{Broker, Output, Timer};
use crate::actor::Emit as _;
use crate::actor::dropped;
use crate::actor::fact::BadFact;
use crate::broker::facts::Revised;
use crate::broker::machine::{Event, State};
use crate::model::time::Time;
use crate::mutants::mutant;
use crate::wire::message::Sealed;
use crate::wire::request::Request;

impl Broker {
    /// Until when an unknown request is taken: later it may be one that was answered and forgotten. That
    /// must not depend on which of its revisions comes.
    pub(super) fn known_until(request: &Request) -> Time {
        if mutant!(RevisionsComeBack) { request.last_word() } else { request.known_until() }
    }

    /// A request that is known comes again: a higher revision replaces one that is open, everything else is
    /// answered as it was.
    pub(super) fn revise(
        &mut self,
        now: Time,
        request: Request,
        sealed: &Sealed,
        out: &mut Output,
    ) {
        let id = request.id;
        let Some(record) = self.state.requests.get(&id) else { return };
        let State::Open { request: known, .. } = &record.state else { return };
        // What a broker has handed on stays as it was handed on.
        if record.handed_by().is_some() || request.history.revision <= known.history.revision {
            return;
        }
        if let Err(cause) = request.check() {
            return out.problems.push(dropped("request", cause));
        }
        let request = self.take_receipts(now, request, out);
        let refusal = self.senseless(now, &request);
        self.emit(now, Revised { request: request.clone() }, out);
        match refusal {
            Some(refusal) => {
                self.refuse(now, id, refusal, "the revision cannot be met".to_owned(), out);
            }
            None => self.keep_sealed(now, &request, sealed, out),
        }
    }

    pub(super) fn revised(&mut self, at: Time, fact: &Revised) -> Result<(), BadFact> {
        let (id, request) = (fact.request.id, Arc::new(fact.request.clone()));
        let answered = self.state.requests.get(&id).and_then(|record| record.answered);
        if let Some(record) = self.state.requests.get_mut(&id) {
            record.wanted = super::apply::wanted(&request);
            record.answer_by = request.answer_by.min(request.last_end());
            let last = request.remembered_until().plus(self.base.margin());
            record.expires_at = record.expires_at.max(last);
            self.index.opened(record.came_at, Arc::clone(&request));
        }
        self.moved(id, at, Event::Revised(request))?;
        // It is no answer.
        if let Some(record) = self.state.requests.get_mut(&id) {
            record.answered = answered;
            self.state.timers.set(Timer::Request(id), Some(record.answer_by));
        }
        self.state.rounds.call();
        Ok(())
    }
}
