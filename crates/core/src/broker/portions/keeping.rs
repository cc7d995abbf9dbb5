//! A broker keeps what it can give of a request back.

use std::sync::Arc;

use super::{Gathered, PortionEvent, Stage};
use crate::actor::Emit as _;
use crate::actor::fact::{BadFact, truncate_text};
use crate::broker::allocation::{Part, check_portion};
use crate::broker::facts::PortionKept;
use crate::broker::machine::State;
use crate::broker::mapper::{Allocation, Choice, Verdict};
use crate::broker::{Broker, Output};
use crate::model::slice::RequestId;
use crate::model::time::Time;
use crate::wire::portion::{Portion, all_units};
use crate::wire::refusal::Refusal;
use crate::wire::request::Request;

impl Gathered {
    /// How a request stands once this is kept of it, in that state before; of a portion that another broker has asked
    /// for, `whole` is the request that it belongs to.
    pub fn keep(
        before: &State,
        whole: &Request,
        asked: Option<&Portion>,
        fact: &PortionKept,
    ) -> Self {
        if let Some(gathered) = before.gathered() {
            let own = gathered.own.iter().chain(&fact.tickets).cloned().collect();
            return Self { own, ..gathered.clone() };
        }
        Self {
            request: Arc::new(whole.clone()),
            round: fact.round,
            start: fact.start,
            wanted: asked.map_or_else(|| all_units(whole), |asked| asked.units.clone()),
            for_other: asked.is_some(),
            own: fact.tickets.clone(),
            refusal: fact.refusal.clone(),
            others: Vec::new(),
            gather_by: fact.gather_by,
            until: fact.until,
        }
    }
}

impl Broker {
    /// Carries out what its mapper has decided on a portion, or on the rest of a request.
    pub(in crate::broker) fn carry_out_portion(
        &mut self,
        now: Time,
        choice: Choice,
        out: &mut Output,
    ) -> Result<(), String> {
        let Choice { request: id, verdict, reason } = choice;
        match verdict {
            Verdict::Grant(all) => self.keep(now, id, (&all, None), &reason, out)?,
            Verdict::Keep { portion, refusal } => {
                self.keep(now, id, (&portion, Some(refusal)), &reason, out)?;
            }
            Verdict::Pass(to) => self.pass_portion(now, (id, to), &reason, out)?,
            Verdict::Refuse { refusal, .. } => self.no_more(now, id, refusal, reason, out),
            Verdict::Wait(waiting) => {
                let shown = self.state.requests.get(&id).and_then(|record| record.shown());
                let refusal = shown.map(|request| request.busy_until(waiting.expected));
                let refusal = refusal.unwrap_or(Refusal::Overloaded);
                self.no_more(now, id, refusal, reason, out);
            }
            Verdict::Offer { .. } => {
                return Err(format!("a portion of {id} is asked for, not offers"));
            }
        }
        Ok(())
    }

    /// Keeps units of an open request back, from one start on.
    pub(in crate::broker) fn keep(
        &mut self,
        now: Time,
        id: RequestId,
        (allocation, refusal): (&Allocation, Option<Refusal>),
        reason: &str,
        out: &mut Output,
    ) -> Result<(), String> {
        let absent = || format!("request {id} is not open");
        let shown = self.state.requests.get(&id).and_then(|record| record.shown());
        let shown = shown.ok_or_else(absent)?;
        let fact = self.kept_from(now, id, allocation.term.start())?;
        check_portion(&shown, allocation, now, self.base.two_margins())?;
        let parts = self.parts_of(&shown, allocation, &mut self.drafts(now))?;
        let units: Vec<_> = parts.iter().map(Part::booked).collect();
        let exceeded = self.state.quotas.exceeded(self.answers_for(id), &units, now);
        if let Some(quota) = exceeded.or_else(|| self.no_more_kept(id)) {
            self.no_more(now, id, quota, reason.to_owned(), out);
            return Ok(());
        }
        let mut serial = self.state.serial;
        let mut tickets = self.cut_tickets(&shown, &parts, &mut serial)?;
        if let Some(places) = self.places(id) {
            let of_whole = |item: u16| places.get(usize::from(item)).copied().unwrap_or(u16::MAX);
            tickets.iter_mut().for_each(|(item, _)| *item = of_whole(*item));
        }
        let reason = truncate_text(reason);
        self.emit(now, PortionKept { tickets, refusal, reason, ..fact }, out);
        self.proceed(now, id, out);
        Ok(())
    }

    /// Why nothing is kept of one more request of a guest, if so.
    fn no_more_kept(&self, id: RequestId) -> Option<Refusal> {
        let begun = self.request(id).and_then(State::gathered).is_some();
        let answers = self.answers_for(id);
        let held = self.usage_of(answers).held;
        self.state.quotas.no_more_held(answers, held).filter(|_| !begun)
    }

    /// The fact that something is kept of a request from this start on, without tickets, if that is allowed.
    pub(super) fn kept_from(
        &self,
        now: Time,
        id: RequestId,
        start: Time,
    ) -> Result<PortionKept, String> {
        let no = |why: &str| format!("nothing is kept of request {id}: {why}");
        let record = self.state.requests.get(&id).ok_or_else(|| no("it is not known"))?;
        let route = record.route.as_ref().ok_or_else(|| no("it is not passed on"))?;
        let kept = |round, gather_by, until| PortionKept {
            request: id,
            round,
            start,
            gather_by,
            until,
            tickets: Vec::new(),
            refusal: None,
            reason: String::new(),
        };
        let (fact, wanted) = match (record.stage(), &route.portion, record.state.gathered()) {
            (Stage::Rest, _, Some(of)) => (kept(of.round, of.gather_by, of.until), of.start),
            (Stage::Portion, Some(portion), _) => {
                let gather_by = record.answer_by.min(portion.until);
                (kept(portion.round, gather_by, portion.until), portion.start)
            }
            (Stage::Divisible(next), _, _) => {
                let gather_by = now.plus(self.hold.part(2)).min(record.answer_by);
                let fact = kept(route.rounds.last + 1, gather_by, now.plus(self.hold));
                (fact, next.unwrap_or(start))
            }
            (Stage::Whole | Stage::Portion | Stage::Rest, _, _) => {
                return Err(no("one broker meets it, or none"));
            }
        };
        if start != wanted {
            return Err(no("its start is another one"));
        }
        Ok(fact)
    }

    pub(in crate::broker) fn portion_kept(
        &mut self,
        at: Time,
        fact: &PortionKept,
    ) -> Result<(), BadFact> {
        let id = fact.request;
        let missing = || BadFact::Missing { kind: "portion", what: id.to_string() };
        let record = self.state.requests.get(&id).ok_or_else(missing)?;
        let portion = record.route.as_ref().and_then(|route| route.portion.as_ref());
        let whole = self.whole(id).ok_or_else(missing)?;
        let gathered = Gathered::keep(&record.state, &whole, portion, fact);
        let first = gathered.own.len() - fact.tickets.len();
        for (place, (_, ticket)) in (first..).zip(&fact.tickets) {
            self.enter(ticket, (id, place), at);
        }
        self.begin_round(id, fact.round);
        self.moved(id, at, PortionEvent::Gathered(Box::new(gathered)).into())
    }

    /// The whole request that an open one is, or is a portion of.
    fn whole(&self, id: RequestId) -> Option<Arc<Request>> {
        let record = self.state.requests.get(&id)?;
        if let Some(gathered) = record.state.gathered() {
            return Some(Arc::clone(&gathered.request));
        }
        match (&record.state, record.route.as_ref()) {
            (State::Open { .. }, Some(route)) if route.portion.is_some() => {
                route.whole().map(Arc::new)
            }
            (State::Open { request, .. }, _) => Some(Arc::clone(request)),
            (_, _) => None,
        }
    }

    /// In a new round of its first broker all may be asked again.
    fn begin_round(&mut self, id: RequestId, round: u8) {
        let route = self.state.requests.get_mut(&id).and_then(|record| record.route.as_mut());
        let Some(route) = route.filter(|route| route.portion.is_none()) else { return };
        if route.rounds.last < round {
            route.rounds = super::Rounds { last: round, next: None };
            Arc::make_mut(&mut route.tried).asked.clear();
        }
    }
}
