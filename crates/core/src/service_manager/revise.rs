//! Requests that are revised while they wait for their answer.

use super::request::{Purpose, State};
use super::{Obligation, Output, ServiceManager};
use crate::actor::Emit as _;
use crate::actor::fact::{BadFact, truncate_text};
use crate::model::time::Time;
use crate::mutants::mutant;
use crate::service_manager::facts::Revised;
use crate::service_manager::mapper::Ask;
use crate::ticket::Ticket;
use crate::wire::offer::Reply;
use crate::wire::proviso::History;
use crate::wire::request::Request;

/// The most revisions of one request: what was asked for before is kept, since its answer may be under way.
pub(crate) const MAX_REVISIONS: u32 = 16;

impl super::request::Request {
    /// What was asked for is what was granted: the newest revision that the tickets meet.
    pub(super) fn settle_on_revision(&mut self, tickets: &[(u16, Ticket)]) {
        let earlier = std::mem::take(&mut self.earlier);
        if self.wanted.is_met_with(tickets) || mutant!(LastRevisionGranted) {
            return;
        }
        if let Some(met) = earlier.into_iter().rev().find(|before| before.is_met_with(tickets)) {
            *self.wanted = met;
        }
    }
}

impl ServiceManager {
    /// Replaces a request that waits for its answer.
    pub(super) fn revise(
        &mut self,
        now: Time,
        number: u64,
        ask: Ask,
        out: &mut Output,
    ) -> Result<(), String> {
        let known = self.state.requests.get(&number);
        let known = known.ok_or_else(|| format!("there is no request {number}"))?;
        let is_new = matches!(known.purpose, Purpose::New);
        if !matches!(known.state, State::Asked) || !is_new || known.wanted.reply != Reply::Grant {
            let what = if is_new { known.state.word() } else { "for a lease that is there" };
            return Err(format!("request {number} is {what}, it cannot be revised"));
        }
        if ask.reply != Reply::Grant {
            return Err("a revision asks for tickets, not for offers".to_owned());
        }
        let History { asked, tries, revision, .. } = known.wanted.history;
        let first_word = Some(known.wanted.known_until());
        if revision >= MAX_REVISIONS {
            return Err(format!("request {number} was revised {MAX_REVISIONS} times"));
        }
        self.check_ask(now, &ask)?;
        let request = Request {
            id: known.wanted.id,
            items: ask.items,
            earliest: ask.earliest,
            latest: ask.latest,
            duration: ask.duration,
            min_duration: ask.min_duration,
            reply: ask.reply,
            answer_by: ask.answer_by,
            properties: known.wanted.properties.clone(),
            provisos: ask.provisos,
            history: History { asked, tries, revision: revision + 1, first_word },
            receipts: Vec::new(),
        };
        request.check()?;
        self.emit(now, Revised { request, reason: truncate_text(&ask.reason) }, out);
        Ok(())
    }

    pub(super) fn revised(&mut self, at: Time, fact: &Revised) -> Result<(), BadFact> {
        let number = fact.request.id.number;
        let missing = || BadFact::Missing { kind: "revision", what: number.to_string() };
        let request = self.state.requests.get_mut(&number).ok_or_else(missing)?;
        request.last_end = request.last_end.max(fact.request.last_end());
        let before = std::mem::replace(&mut *request.wanted, fact.request.clone());
        request.earlier.push(before);
        super::unbook(&mut self.state.holdings, &mut request.booked, Time::MIN);
        request.book(&mut self.state.holdings, at);
        // It is another question.
        self.require(Obligation::Ask(number), at);
        self.refresh_request(number);
        Ok(())
    }
}
