//! Other brokers are asked to hold the rest of a request.

use super::{PortionEvent, Stage};
use crate::actor::fact::{BadFact, truncate_text};
use crate::actor::{Emit as _, dropped};
use crate::broker::facts::{PortionAnswered, PortionKept, PortionPassed};
use crate::broker::forwarding::MAX_TRAIL;
use crate::broker::machine::{Event, State, Tickets};
use crate::broker::{Broker, Obligation, Output};
use crate::model::identity::ActorId;
use crate::model::slice::RequestId;
use crate::model::time::Time;
use crate::ticket::Ticket;
use crate::wire::handover::HopAnswer;
use crate::wire::message::Message;
use crate::wire::portion::{
    Portion, PortionAsked, PortionBack, PortionOutcome, Units, bundles, keeps_bundles, units_of,
};
use crate::wire::refusal::Refusal;

impl Broker {
    /// Asks another broker to hold what is missing of a request. If nothing is kept of a portion yet, that is recorded
    /// first.
    pub(super) fn pass_portion(
        &mut self,
        now: Time,
        (id, to): (RequestId, ActorId),
        reason: &str,
        out: &mut Output,
    ) -> Result<(), String> {
        let until = self.can_pass(now, id, to)?;
        if let Some(kept) = self.nothing_kept(now, id)? {
            self.emit(now, kept, out);
        }
        let reason = truncate_text(reason);
        self.emit(now, PortionPassed { request: id, to, until, reason }, out);
        Ok(())
    }

    /// That nothing is kept of a portion that this broker passes on as it is.
    fn nothing_kept(&self, now: Time, id: RequestId) -> Result<Option<PortionKept>, String> {
        let record = self.state.requests.get(&id);
        let portion = record.filter(|record| record.stage() == Stage::Portion);
        let portion = portion.and_then(|record| record.route.as_ref()?.portion.as_ref());
        portion.map(|portion| self.kept_from(now, id, portion.start)).transpose()
    }

    pub(in crate::broker) fn portion_passed(
        &mut self,
        at: Time,
        fact: &PortionPassed,
    ) -> Result<(), BadFact> {
        self.note_asked(fact.request, fact.to, at);
        self.moved(fact.request, at, Event::Passed(fact.to, fact.until))
    }

    /// The message to the broker that is asked for the rest of a request.
    pub(in crate::broker) fn portion_message(&self, id: RequestId) -> Option<(ActorId, Message)> {
        let record = self.state.requests.get(&id)?;
        let State::Gathering { gathered, asked: Some((to, until)) } = &record.state else {
            return None;
        };
        let portion = Portion {
            round: gathered.round,
            start: gathered.start,
            units: gathered.missing(),
            until: gathered.until,
        };
        let handover = self.handover(record, *until)?;
        Some((*to, Message::AskPortion(Box::new(PortionAsked { handover, portion }))))
    }

    /// A broker has answered for a portion.
    pub(in crate::broker) fn portion_back(
        &mut self,
        now: Time,
        from: ActorId,
        back: PortionBack,
        out: &mut Output,
    ) {
        let id = back.request;
        let Some(record) = self.state.requests.get(&id) else {
            return out.problems.push(dropped("portion-back", "no such request is known"));
        };
        let good = match (expected(&record.state, from, back.round), &back.outcome) {
            (Expected::Hold, PortionOutcome::Held { units, .. }) => self.check_held(id, units),
            (Expected::Tickets, PortionOutcome::Granted(tickets)) => {
                self.check_delivered(id, from, tickets)
            }
            (Expected::Hold, PortionOutcome::Refused(_) | PortionOutcome::Seen)
            | (Expected::Tickets, PortionOutcome::Refused(_)) => Ok(()),
            (_, _) => return self.is_not_awaited(now, from, &back, out),
        };
        if let Err(cause) = good {
            return out.problems.push(dropped("portion-back", cause));
        }
        let PortionBack { outcome, trail, .. } = back;
        let gathered = self.request(id).and_then(State::gathered);
        if let Some((request, outcome)) = gathered.and_then(|of| of.says_of_stock(&outcome)) {
            self.heed(from, &request, &outcome);
        }
        let refused = match &outcome {
            PortionOutcome::Refused(refusal) => Some(refusal.clone()),
            PortionOutcome::Held { .. } | PortionOutcome::Granted(_) | PortionOutcome::Seen => None,
        };
        let trail = trail.into_iter().take(MAX_TRAIL).collect();
        self.emit(now, PortionAnswered { request: id, from, outcome, trail }, out);
        match (refused, self.request(id)) {
            (Some(refusal), Some(State::Committing { .. })) => {
                self.refuse(now, id, refusal, "what was held is lost".to_owned(), out);
            }
            (_, _) => self.proceed(now, id, out),
        }
    }

    /// What another broker holds in vain is let go.
    fn is_not_awaited(&self, now: Time, from: ActorId, back: &PortionBack, out: &mut Output) {
        let held = matches!(back.outcome, PortionOutcome::Held { .. });
        let gathered = self.request(back.request).and_then(State::gathered);
        let wanted = gathered.is_some_and(|gathered| {
            gathered.round == back.round && gathered.awaited().any(|of| of == from)
        });
        if held && !wanted {
            let (request, round) = (back.request, back.round);
            let decided = Message::PortionDecided { request, round, taken: false };
            out.replies.push(self.base.volatile(from, now, decided));
        }
    }

    /// Whether what is held is a part of what is missing; of items that belong together all or nothing.
    fn check_held(&self, id: RequestId, units: &Units) -> Result<(), String> {
        let gathered = self.request(id).and_then(State::gathered).ok_or("it is not gathered")?;
        let missing = gathered.missing();
        let within = units.iter().all(|(item, units)| missing.get(item) >= Some(units));
        if units.is_empty() || !within {
            return Err("it is not for what was asked for".to_owned());
        }
        let whole = keeps_bundles(&gathered.request, &missing, units);
        whole.then_some(()).ok_or_else(|| "it divides items that belong together".to_owned())
    }

    /// Whether tickets are those of the guest for what was held.
    fn check_delivered(
        &mut self,
        id: RequestId,
        from: ActorId,
        tickets: &Tickets,
    ) -> Result<(), String> {
        self.check_own_tickets(id.origin, tickets)?;
        let gathered = self.request(id).and_then(State::gathered).ok_or("it is not gathered")?;
        let known = gathered.tickets();
        let is_known = |ticket: &Ticket| known.iter().any(|(_, of)| of.hash() == ticket.hash());
        if tickets.iter().any(|(_, ticket)| is_known(ticket)) {
            return Err("a ticket that another broker has brought".to_owned());
        }
        let other = gathered.others.iter().find(|other| other.broker == from);
        let as_held = other.is_some_and(|other| other.units == units_of(tickets));
        let fits = tickets.iter().all(|(place, ticket)| {
            let (item, link) = (gathered.request.items.get(usize::from(*place)), ticket.bottom());
            item.is_some_and(|item| {
                item.resource == link.resource
                    && link.term.start() == gathered.start.plus(item.offset)
                    && link.term.duration() == gathered.request.duration
            })
        });
        let of_one_site = bundles(&gathered.request).into_iter().all(|bundle| {
            let sites = tickets
                .iter()
                .filter(|(place, _)| bundle.len() > 1 && bundle.contains(&usize::from(*place)));
            let mut sites = sites.map(|(_, ticket)| ticket.site());
            let first = sites.next();
            sites.all(|site| Some(site) == first)
        });
        (as_held && fits && of_one_site)
            .then_some(())
            .ok_or_else(|| "the tickets are not what was held".to_owned())
    }

    pub(in crate::broker) fn portion_answered(
        &mut self,
        at: Time,
        fact: &PortionAnswered,
    ) -> Result<(), BadFact> {
        let PortionAnswered { request: id, from, outcome, trail } = fact;
        let (event, said) = match outcome {
            PortionOutcome::Granted(tickets) => {
                self.state.pending.settle(&Obligation::Take(*id, *from));
                let delivered = PortionEvent::Delivered(*from, tickets.clone());
                return self.moved(*id, at, delivered.into());
            }
            PortionOutcome::Refused(_)
                if matches!(self.request(*id), Some(State::Committing { .. })) =>
            {
                self.state.pending.settle(&Obligation::Take(*id, *from));
                return Ok(());
            }
            PortionOutcome::Held { units, refusal, .. } => {
                let held = PortionEvent::HeldThere(*from, units.clone());
                (held.into(), HopAnswer::Held(refusal.clone()))
            }
            PortionOutcome::Refused(refusal) => {
                (Event::CameBack, HopAnswer::Refused(refusal.clone()))
            }
            PortionOutcome::Seen => (Event::CameBack, HopAnswer::Seen),
        };
        self.note_hop(*id, (*from, said), at, trail);
        self.state.pending.settle(&Obligation::Pass(*id));
        self.moved(*id, at, event)
    }

    /// The start of the next round: the latest that a refusal named, after the current one and in the window.
    pub(super) fn next_start(&self, id: RequestId, own: &Refusal) -> Option<Time> {
        let record = self.state.requests.get(&id)?;
        let (gathered, route) = (record.state.gathered()?, record.route.as_ref()?);
        let heard = route.tried.refusals().chain(&gathered.refusal).chain([own]);
        let starts = heard.filter_map(|refusal| {
            if let Refusal::Busy { earliest, .. } = refusal { *earliest } else { None }
        });
        let latest = gathered.request.latest;
        starts.filter(|start| gathered.start < *start && *start <= latest).max()
    }
}

/// Which answer of another broker a request waits for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Expected {
    /// Whether it holds a portion.
    Hold,
    /// The tickets for what it holds.
    Tickets,
    /// None.
    Nothing,
}

fn expected(state: &State, from: ActorId, round: u8) -> Expected {
    let of_round = state.gathered().filter(|gathered| gathered.round == round);
    let Some(gathered) = of_round else { return Expected::Nothing };
    let is_asked = matches!(state, State::Gathering { asked: Some((to, _)), .. } if *to == from);
    let commits = matches!(state, State::Committing { .. });
    if is_asked {
        Expected::Hold
    } else if commits && gathered.awaited().any(|of| of == from) {
        Expected::Tickets
    } else {
        Expected::Nothing
    }
}
