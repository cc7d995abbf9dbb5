//! Requests that are passed on, and their answers.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::route::{Route, Tried};
use crate::actor::fact::{BadFact, truncate_text};
use crate::actor::{Emit as _, dropped};
use crate::broker::facts::{PassAnswered, PassLapsed, RequestPassed};
use crate::broker::machine::{Event, State, Tickets};
use crate::broker::{Broker, Obligation, Output, Record};
use crate::model::identity::ActorId;
use crate::model::slice::RequestId;
use crate::model::time::{Span, Time};
use crate::mutants::mutant;
use crate::wire::handover::{HandedBack, Handover, Hop, HopAnswer, Outcome};
use crate::wire::message::Message;
use crate::wire::offer::Reply;
use crate::wire::refusal::Refusal;
use crate::wire::request::Request;

/// The longest that one broker on the way is waited for.
const LONGEST_HOP: Span = Span::from_secs(30);

/// How long a broker is waited for at least, if there is twice as much time: a shorter wait would be in vain. With
/// less time than that nobody is asked any more.
const SHORTEST_HOP: Span = Span::from_micros(250_000);

/// The most that is remembered of what brokers said.
pub(in crate::broker) const MAX_TRAIL: usize = 64;

/// Whether another broker could still answer what is due then.
pub(in crate::broker) fn may_pass(now: Time, answer_by: Time) -> bool {
    answer_by.since(now) >= SHORTEST_HOP
}

/// Until when a portion that is due then may wait for the hold of another request: others can still be asked after it.
pub(in crate::broker) fn may_wait_until(answer_by: Time) -> Time {
    answer_by.minus(SHORTEST_HOP.times(2))
}

impl Broker {
    /// Passes an open request on to another broker.
    pub(in crate::broker) fn pass(
        &mut self,
        now: Time,
        (id, to): (RequestId, ActorId),
        reason: &str,
        out: &mut Output,
    ) -> Result<(), String> {
        let until = self.can_pass(now, id, to)?;
        let reason = truncate_text(reason);
        self.emit(now, RequestPassed { request: id, to, until, reason }, out);
        Ok(())
    }

    /// Until when a broker is waited for, if a request can be passed on to it.
    pub(in crate::broker) fn can_pass(
        &self,
        now: Time,
        id: RequestId,
        to: ActorId,
    ) -> Result<Time, String> {
        let no = |why: &str| format!("request {id} is not passed on: {why}");
        let record = self.state.requests.get(&id).ok_or_else(|| no("it is not known"))?;
        let tried = record.route.as_ref().and_then(Route::open);
        let tried = tried.ok_or_else(|| no("its limits do not allow it"))?;
        if tried.asked.contains(&to) {
            return Err(no("that broker was asked"));
        }
        if !self.passes_to(to) {
            return Err(no("nothing is passed on to that broker"));
        }
        if !may_pass(now, record.decide_by()) {
            return Err(no("no time is left"));
        }
        Ok(self.waits_until(now, record, tried))
    }

    /// The part of the time left that the next broker gets: as much as each of those that may be asked after it, without
    /// those that are silent, and as is kept for the answer. Of little time that is no use to so many, it gets half.
    fn waits_until(&self, now: Time, record: &Record, tried: &Tried) -> Time {
        let left = self.state.neighbours.keys().into_iter().filter(|who| {
            let asked = tried.asked.contains(who) || !self.passes_to(*who);
            !asked && self.liveness_of(*who, now).may_answer()
        });
        let left = i64::try_from(left.count().min(usize::from(tried.asks))).unwrap_or(i64::MAX);
        let hops = record.route.as_ref().map_or(1, |route| i64::from(route.hops));
        let time = record.decide_by().since(now);
        let part = match mutant!(WaitsBeyondAnswer) {
            true => time.times(2),
            false => time.part(left.saturating_add(1)).max(SHORTEST_HOP.min(time.part(2))),
        };
        now.plus(part.min(LONGEST_HOP.times(hops)))
    }

    pub(in crate::broker) fn request_passed(
        &mut self,
        at: Time,
        fact: &RequestPassed,
    ) -> Result<(), BadFact> {
        let &RequestPassed { request: id, to, until, .. } = fact;
        self.note_asked(id, to, at);
        self.moved(id, at, Event::Passed(to, until))
    }

    /// A broker is asked for a request, or for a portion of it.
    pub(in crate::broker) fn note_asked(&mut self, id: RequestId, to: ActorId, at: Time) {
        if let Some(route) = self.state.requests.get_mut(&id).and_then(|r| r.route.as_mut()) {
            let tried = Arc::make_mut(&mut route.tried);
            tried.asked.insert(to);
            if !mutant!(AsksNotCounted) {
                tried.asks = tried.asks.saturating_sub(1);
            }
            route.since = at;
        }
        self.state.pending.require(Obligation::Pass(id), self.base.position, at);
    }

    /// The message to the broker that a request is passed on to.
    pub(in crate::broker) fn pass_message(&self, id: RequestId) -> Option<(ActorId, Message)> {
        let record = self.state.requests.get(&id)?;
        if let State::Passed { to, until, .. } = record.state {
            return Some((to, Message::HandOver(Box::new(self.handover(record, until)?))));
        }
        if let State::Taking { by, offer, .. } = record.state {
            return Some((by, Message::Accept { request: id, offer }));
        }
        self.portion_message(id)
    }

    /// What is handed to the next broker, which has to answer by then.
    pub(in crate::broker) fn handover(&self, record: &Record, until: Time) -> Option<Handover> {
        let route = record.route.as_ref()?;
        let me = self.base.id();
        let path = route.path.iter().copied();
        Some(Handover {
            sealed: route.sealed.clone()?,
            path: path.filter(|_| !mutant!(PathForgotten)).chain([me]).collect(),
            asked: route.tried.asked.iter().copied().chain([me]).collect(),
            hops: if mutant!(HopsNotCounted) { route.hops } else { route.hops.saturating_sub(1) },
            asks: route.tried.asks,
            answer_by: until,
        })
    }

    /// A broker has answered a request that was passed on to it.
    pub(in crate::broker) fn handed_back(
        &mut self,
        now: Time,
        from: ActorId,
        back: HandedBack,
        out: &mut Output,
    ) {
        let (id, granted) = (back.request, matches!(back.outcome, Outcome::Granted(_)));
        let request = match self.request(id) {
            Some(State::Passed { request, to, .. })
                if *to == from && (request.reply == Reply::Grant || !granted) =>
            {
                Arc::clone(request)
            }
            Some(State::Taking { request, by, .. })
                if *by == from && !matches!(back.outcome, Outcome::Offered(..) | Outcome::Seen) =>
            {
                Arc::clone(request)
            }
            Some(State::Proposed { by, .. } | State::Taking { by, .. }) if *by == from => return,
            Some(_) | None if matches!(back.outcome, Outcome::Offered(_, Some(_))) => {
                return self.not_wanted(now, (id, from), out);
            }
            // Tickets are welcome as long as it is not answered, though their broker was given up.
            Some(State::Open { request, .. } | State::Passed { request, .. })
                if granted && request.reply == Reply::Grant && self.was_asked(id, from) =>
            {
                Arc::clone(request)
            }
            Some(State::Gathering { gathered, .. })
                if granted && !gathered.for_other && self.was_asked(id, from) =>
            {
                Arc::clone(&gathered.request)
            }
            // What was cut for it now is reclaimed by who has cut it.
            Some(_) => return,
            None => return out.problems.push(dropped("handed-back", "no such request is known")),
        };
        if let Outcome::Granted(tickets) = &back.outcome
            && let Err(cause) = self.check_brought(&request, tickets)
        {
            return out.problems.push(dropped("handed-back", cause));
        }
        if let Err(cause) = self.check_offers(now, &request, &back.outcome) {
            if matches!(back.outcome, Outcome::Offered(_, Some(_))) {
                self.not_wanted(now, (id, from), out);
            }
            return out.problems.push(dropped("handed-back", cause));
        }
        self.heed(from, &request, &back.outcome);
        let HandedBack { outcome, trail, .. } = back;
        let trail = trail.into_iter().take(MAX_TRAIL).collect();
        self.let_go(now, id, out);
        self.emit(now, PassAnswered { request: id, from, outcome, trail }, out);
        let answered = self.request(id).is_some_and(|state| {
            let proposed = matches!(state, State::Proposed { .. } | State::Planned { .. });
            proposed || matches!(state, State::Brought { .. } | State::Refused { .. })
        });
        if answered {
            self.repeat_answer(id, out);
        }
    }

    /// Whether a request was passed on to a broker that has not answered.
    fn was_asked(&self, id: RequestId, broker: ActorId) -> bool {
        let route = self.state.requests.get(&id).and_then(|record| record.route.as_ref());
        let mut trail = route.into_iter().flat_map(|route| &route.tried.trail);
        trail.any(|hop| hop.broker == broker && hop.said == HopAnswer::Nothing)
    }

    /// Whether tickets are what a guest has asked for, and its own.
    fn check_brought(&mut self, request: &Request, tickets: &Tickets) -> Result<(), String> {
        self.check_own_tickets(request.id.origin, tickets)?;
        let met = request.is_met_with(tickets) || mutant!(BroughtUnchecked);
        met.then_some(()).ok_or_else(|| "the tickets are not what was asked for".to_owned())
    }

    /// Whether tickets are good, a guest's and other brokers', each once.
    pub(in crate::broker) fn check_own_tickets(
        &mut self,
        holder: ActorId,
        tickets: &Tickets,
    ) -> Result<(), String> {
        let mut seen = BTreeSet::new();
        for (_, ticket) in tickets {
            if ticket.bottom().issuer == self.base.id() || !seen.insert(ticket.hash()) {
                return Err("a ticket of this broker, or one twice".to_owned());
            }
            let checked = self.base.credentials.check_ticket(ticket, ticket.site(), holder);
            checked.map_err(|fault| fault.to_string())?;
        }
        Ok(())
    }

    pub(in crate::broker) fn pass_answered(
        &mut self,
        at: Time,
        fact: &PassAnswered,
    ) -> Result<(), BadFact> {
        let PassAnswered { request: id, from, outcome, trail } = fact;
        let said = match outcome {
            Outcome::Granted(_) => HopAnswer::Granted,
            Outcome::Refused(refusal) | Outcome::Countered(refusal, _) => {
                HopAnswer::Refused(refusal.clone())
            }
            Outcome::Seen => HopAnswer::Seen,
            Outcome::Offered(..) => HopAnswer::Offered,
        };
        self.note_hop(*id, (*from, said), at, trail);
        self.state.pending.settle(&Obligation::Pass(*id));
        match outcome {
            Outcome::Granted(_) => self.release(*id, at),
            Outcome::Countered(_, offers) => self.note_offers(*id, offers),
            Outcome::Refused(_) | Outcome::Seen | Outcome::Offered(..) => {}
        }
        let missing = || BadFact::Missing { kind: "answer", what: id.to_string() };
        let event = self.request(*id).ok_or_else(missing)?.answered(outcome);
        self.moved(*id, at, event)
    }

    /// The broker that a request was passed on to has not answered in time.
    pub(in crate::broker) fn pass_due(&mut self, now: Time, request: RequestId, out: &mut Output) {
        self.give_up_others(now, request, out);
        self.emit(now, PassLapsed { request }, out);
    }

    pub(in crate::broker) fn pass_lapsed(
        &mut self,
        at: Time,
        id: RequestId,
    ) -> Result<(), BadFact> {
        let to = match self.request(id) {
            Some(&State::Passed { to, .. }) => Some(to),
            Some(State::Gathering { asked, .. }) => asked.map(|(to, _)| to),
            Some(_) | None => None,
        };
        if let Some(to) = to {
            self.note_hop(id, (to, HopAnswer::Nothing), at, &[]);
        }
        self.state.pending.settle(&Obligation::Pass(id));
        self.moved(id, at, Event::CameBack)
    }

    pub(in crate::broker) fn note_hop(
        &mut self,
        id: RequestId,
        (broker, said): (ActorId, HopAnswer),
        at: Time,
        below: &[Hop],
    ) {
        let route = self.state.requests.get_mut(&id).and_then(|record| record.route.as_mut());
        let Some(route) = route else { return };
        let took = at.since(route.since);
        let tried = Arc::make_mut(&mut route.tried);
        tried.asked.extend(below.iter().map(|hop| hop.broker));
        tried.asks = tried.asks.saturating_sub(u16::try_from(below.len()).unwrap_or(u16::MAX));
        tried.trail.extend(below.iter().cloned());
        // Whatever it says of others, its own answer is remembered.
        tried.trail.truncate(MAX_TRAIL - 1);
        tried.trail.push(Hop { broker, said, took });
    }

    /// How many requests a broker is being asked for.
    pub(in crate::broker) fn passed_to(&self, broker: ActorId) -> u32 {
        let all = self.state.requests.values();
        let passed = all.filter(|record| {
            matches!(&record.state, State::Passed { to, .. }
                | State::Gathering { asked: Some((to, _)), .. } if *to == broker)
        });
        u32::try_from(passed.count()).unwrap_or(u32::MAX)
    }

    /// What an open request that is due is refused with: the best that was heard, if any broker was asked.
    pub(in crate::broker) fn best_heard(&self, id: RequestId, own: Refusal) -> Refusal {
        let route = self.state.requests.get(&id).and_then(|record| record.route.as_ref());
        route.map_or(own.clone(), |route| {
            let neighbours = self.forwards_to();
            route.tried.best(own, neighbours.iter().map(|(name, who)| (name, *who)))
        })
    }
}
