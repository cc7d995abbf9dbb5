//! What a service manager does with offers and places in a queue, and how it withdraws a request.

use std::collections::BTreeSet;

use super::request::{self, Event, State};
use super::{Output, ServiceManager};
use crate::actor::Emit as _;
use crate::actor::fact::BadFact;
use crate::model::identity::ActorId;
use crate::model::slice::RequestId;
use crate::model::time::{Span, Term, Time};
use crate::service_manager::facts::{Accepted, GaveUp, Offered, Queued};
use crate::service_manager::mapper::Ask;
use crate::ticket::Ticket;
use crate::wire::offer::{MAX_OFFERS, Offer, Reply, Waiting};
use crate::wire::refusal::Refusal;
use crate::wire::request::{Item, Request};

impl ServiceManager {
    /// Takes an offer. One that is held is asked for by its number; one that is not, by a new request for
    /// exactly what it says.
    pub(super) fn accept(
        &mut self,
        now: Time,
        number: u64,
        offer: u8,
        out: &mut Output,
    ) -> Result<(), String> {
        let absent = || format!("there is no request {number}");
        let request = self.state.requests.get(&number).ok_or_else(absent)?;
        if self.state.parts.contains_key(&number) {
            return Err(format!("request {number} is one of several: they are accepted together"));
        }
        if let State::Accepting { number: taken, .. } = request.state
            && taken == offer
        {
            return Ok(());
        }
        let Some(chosen) = request.state.offer(offer) else {
            let offers = request.state.offers().len();
            return Err(format!(
                "request {number} is {} and has {offers} offers, none of them numbered {offer}",
                request.state.word()
            ));
        };
        if matches!(request.state, State::Offered { .. }) {
            self.emit(now, Accepted { number, offer }, out);
            return Ok(());
        }
        let ask = ask_for(request, chosen, now).ok_or("the offer is for nothing")?;
        self.ask(now, ask, None, out)
    }

    /// Withdraws a request that is not granted.
    pub(super) fn withdraw(
        &mut self,
        now: Time,
        number: u64,
        out: &mut Output,
    ) -> Result<(), String> {
        match self.request(number) {
            Some(State::Asked | State::Offered { .. } | State::Accepting { .. }) => {
                self.emit(now, GaveUp { number }, out);
                Ok(())
            }
            Some(State::GivenUp) => Ok(()),
            Some(
                state @ (State::Planned { .. }
                | State::Granted { .. }
                | State::Refused { .. }
                | State::Unanswered),
            ) => Err(format!("request {number} is {}, it cannot be withdrawn", state.word())),
            None => Err(format!("there is no request {number}")),
        }
    }

    pub(super) fn told_to_wait(
        &mut self,
        now: Time,
        from: ActorId,
        id: RequestId,
        (waiting, position): (Waiting, u64),
        out: &mut Output,
    ) -> Result<(), String> {
        let number = id.number;
        let Some(request) = self.asked_of(from, id)? else { return Ok(()) };
        let newer = request.waiting.as_ref().is_none_or(|(_, before)| *before < position);
        if newer && matches!(request.state, State::Asked) {
            self.emit(now, Queued { number, waiting, position }, out);
        }
        Ok(())
    }

    pub(super) fn offers_came(
        &mut self,
        now: Time,
        from: ActorId,
        id: RequestId,
        (offers, until, refusal): (Vec<Offer>, Option<Time>, Option<Refusal>),
        out: &mut Output,
    ) -> Result<(), String> {
        let number = id.number;
        let Some(request) = self.asked_of(from, id)? else { return Ok(()) };
        let asked = match (request.wanted.reply, until) {
            (Reply::Plan, None) | (Reply::Hold(_), Some(_)) => true,
            (Reply::Grant | Reply::Plan | Reply::Hold(_), _) => false,
        };
        if !asked
            || offers.len() > MAX_OFFERS
            || !offers.iter().all(|offer| offer.is_about(&request.wanted))
        {
            return Err(format!("the offers are not what request {id} asks for"));
        }
        let expected = match request.state {
            State::Asked => true,
            // What is held for it is being given up; a plan is an answer.
            State::GivenUp => until.is_none(),
            State::Offered { .. }
            | State::Accepting { .. }
            | State::Planned { .. }
            | State::Granted { .. }
            | State::Refused { .. }
            | State::Unanswered => false,
        };
        if expected {
            self.emit(now, Offered { number, offers, until, refusal }, out);
        }
        Ok(())
    }

    /// The open request that a broker speaks of.
    fn asked_of(&self, from: ActorId, id: RequestId) -> Result<Option<&request::Request>, String> {
        let Some(request) = self.open_request(id.number) else { return Ok(None) };
        if (request.broker, request.wanted.id) != (from, id) {
            return Err(format!("request {id} was not put to its sender"));
        }
        Ok(Some(request))
    }

    pub(super) fn queued(&mut self, fact: &Queued) -> Result<(), BadFact> {
        let missing = || BadFact::Missing { kind: "request", what: fact.number.to_string() };
        let request = self.state.requests.get_mut(&fact.number).ok_or_else(missing)?;
        request.waiting = Some((fact.waiting.clone(), fact.position));
        Ok(())
    }

    pub(super) fn offered(&mut self, at: Time, fact: &Offered) -> Result<(), BadFact> {
        let Offered { number, offers, until, refusal } = fact;
        if let Some(request) = self.state.requests.get_mut(number) {
            let last = offers.iter().filter_map(Offer::end).max();
            request.last_end = request.last_end.max(last.unwrap_or(request.last_end));
        }
        let event = match until {
            Some(until) => Event::Offered(offers.clone(), *until, refusal.clone()),
            None => Event::Planned(offers.clone(), refusal.clone()),
        };
        self.step_request(at, *number, event)
    }
}

/// Whether tickets are exactly what was offered.
pub(super) fn is_offer(request: &Request, offer: &Offer, tickets: &[(u16, Ticket)]) -> bool {
    let (mut offered, mut got) = (offer.parts.clone(), request.offer_of(tickets).parts);
    offered.sort();
    got.sort();
    offered == got
}

/// Whether tickets with these common starts and lengths suit a request, and items that belong together
/// come from one site.
pub(super) fn is_met(
    request: &Request,
    common: &BTreeSet<(Time, Span)>,
    tickets: &[(u16, Ticket)],
) -> Result<bool, Refusal> {
    let in_time = common.iter().all(|&(start, duration)| {
        (request.earliest <= start && start <= request.latest)
            && (request.min_duration <= duration && duration <= request.duration)
    });
    if !in_time || common.len() > 1 {
        return Err(Refusal::Malformed("a ticket is not what was asked for".to_owned()));
    }
    let sites = tickets.iter().filter_map(|(item, ticket)| {
        let together = request.items.get(usize::from(*item))?.together?;
        Some((together, ticket.site()))
    });
    let sites: BTreeSet<(u8, ActorId)> = sites.collect();
    let bundles: BTreeSet<u8> = sites.iter().map(|(bundle, _)| *bundle).collect();
    Ok(bundles.len() == sites.len() && are_apart(request, tickets) && are_linked(request, tickets))
}

/// Whether items that belong apart come from different sites, each from one.
fn are_apart(request: &Request, tickets: &[(u16, Ticket)]) -> bool {
    let apart = tickets.iter().filter_map(|(item, ticket)| {
        let apart = request.items.get(usize::from(*item))?.apart()?;
        Some((apart, *item, ticket.site()))
    });
    let parts: BTreeSet<(u8, u16, ActorId)> = apart.collect();
    let sites: BTreeSet<(u8, ActorId)> =
        parts.iter().map(|(apart, _, site)| (*apart, *site)).collect();
    let items: BTreeSet<u16> = parts.iter().map(|(_, item, _)| *item).collect();
    parts.len() == sites.len() && parts.len() == items.len()
}

/// Whether each end of a link comes from one site, and the link has tickets unless its ends are at the same. That
/// they are for a path, only their broker knows.
fn are_linked(request: &Request, tickets: &[(u16, Ticket)]) -> bool {
    let sites = |end: u16| {
        let of_end = tickets.iter().filter(move |(item, _)| *item == end);
        of_end.map(|(_, ticket)| ticket.site()).collect::<BTreeSet<_>>()
    };
    (0u16..).zip(&request.items).all(|(place, item)| {
        let Some(joins) = item.joins() else { return true };
        let [from, to] = joins.ends.map(sites);
        let leads = tickets.iter().any(|(item, _)| *item == place);
        from.len() <= 1 && to.len() <= 1 && leads == (from != to)
    })
}

/// The request for exactly what an offer says.
fn ask_for(request: &request::Request, offer: &Offer, now: Time) -> Option<Ask> {
    let wanted = &request.wanted;
    let mut items: Vec<Item> = Vec::new();
    let mut common: Option<Term> = None;
    for (place, item) in (0u16..).zip(&wanted.items) {
        let parts = || offer.parts.iter().filter(move |part| part.item == place);
        let units = item.units_of(&parts().map(|part| part.units.get()).collect::<Vec<_>>());
        let units = u32::try_from(units).unwrap_or(u32::MAX);
        let (Some(units), Some(part)) = (std::num::NonZeroU32::new(units), parts().next()) else {
            continue;
        };
        let start = part.term.start().minus(item.offset);
        common = Term::lasting(start, part.term.duration()).ok();
        items.push(Item { units, min_units: units, choice: 0, optional: false, ..item.clone() });
    }
    let common = common?;
    Some(Ask {
        broker: Some(request.broker),
        slice: request.slice.clone(),
        items,
        earliest: common.start(),
        latest: common.start(),
        duration: common.duration(),
        min_duration: common.duration(),
        reply: Reply::Grant,
        answer_by: wanted.answer_by.max(now.plus(Span::MINUTE)),
        properties: wanted.properties.clone(),
        configuration: request.configuration.clone(),
        handling: request.handling.clone(),
        reason: format!("an offer to request {}", wanted.id.number),
        provisos: wanted.provisos.clone(),
        again: Some(wanted.id.number),
    })
}
