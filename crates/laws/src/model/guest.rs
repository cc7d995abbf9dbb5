//! What a service manager's journal says: requests, tickets granted, leases.

use std::collections::BTreeMap;

use super::{Change, Folded, NOTHING, Subject, Unfounded, unfounded};
use tenure_core::model::identity::ActorId;
use tenure_core::model::slice::LeaseId;
use tenure_core::model::time::Time;
use tenure_core::service_manager::facts::{Asked, Fact};
use tenure_core::service_manager::machine::{Event, Extension, Held, Outcome, State};
use tenure_core::ticket::Ticket;
use tenure_core::ticket::link::LinkHash;
use tenure_core::wire::message::Request;

/// The model of one service manager.
#[derive(Default)]
pub(crate) struct GuestModel {
    /// Leases, forgotten ones too.
    pub(crate) leases: BTreeMap<LeaseId, GuestLease>,
    /// Every request it ever made, with the broker it was put to and the lease it is for.
    pub(crate) requests: BTreeMap<u64, (ActorId, Request, LeaseId)>,
    /// Every ticket it was ever granted, with the lease it is for.
    pub(crate) tickets: BTreeMap<LinkHash, LeaseId>,
}

/// A lease at its guest.
pub(crate) struct GuestLease {
    pub(crate) state: State,
    /// The request that it came of.
    pub(crate) number: u64,
    /// Its first ticket, once it has one.
    pub(crate) first: Option<Ticket>,
    /// The end of what is held or asked for, extensions included.
    pub(crate) expires_at: Time,
    pub(crate) forgotten: bool,
}

impl GuestLease {
    pub(crate) fn word(&self) -> &'static str {
        if self.forgotten { NOTHING } else { self.state.word() }
    }
}

impl GuestModel {
    pub(super) fn fold(&mut self, me: ActorId, fact: &Fact) -> Folded {
        let mut news = News { guest: me, changes: Vec::new() };
        match fact {
            Fact::Asked(fact) => self.asked(fact, &mut news),
            Fact::Granted(fact) => self.granted(fact.number, &fact.tickets, &mut news)?,
            Fact::UnwantedGranted(fact) => self.granted(fact.number, &fact.tickets, &mut news)?,
            Fact::AskRefused(fact) => {
                self.step(first(fact.number), Event::Refused(fact.refusal.clone()), &mut news)?;
            }
            Fact::GaveUp(fact) => self.step(first(fact.number), Event::GaveUp, &mut news)?,
            Fact::Leased(fact) => {
                self.step(fact.lease, Event::Leased(fact.term, fact.units.clone()), &mut news)?;
            }
            Fact::RedeemRefused(fact) => {
                self.step(fact.lease, Event::Refused(fact.refusal.clone()), &mut news)?;
            }
            Fact::Joined(fact) => {
                self.step(fact.lease, Event::Joined(fact.unit, fact.error.is_none()), &mut news)?;
            }
            Fact::Left(fact) => self.step(fact.lease, Event::Left(fact.unit), &mut news)?,
            Fact::ExtensionAsked(fact) => {
                let (number, request) = (fact.request.id.number, fact.request.clone());
                self.requests.insert(number, (fact.broker, request.clone(), fact.lease));
                let event = Event::ExtensionAsked(fact.broker, Box::new(request));
                self.step(fact.lease, event, &mut news)?;
            }
            Fact::ExtensionGranted(fact) => {
                self.tickets.insert(fact.ticket.hash(), fact.lease);
                self.step(fact.lease, Event::ExtensionGranted(fact.ticket.clone()), &mut news)?;
            }
            Fact::ExtensionDenied(fact) => {
                self.step(fact.lease, Event::ExtensionDenied, &mut news)?;
            }
            Fact::Extended(fact) => self.step(fact.lease, Event::Extended, &mut news)?,
            Fact::LeaveBegun(fact) => {
                self.step(fact.lease, Event::LeaveBegun(fact.then), &mut news)?;
            }
            Fact::CloseBegun(fact) => self.step(fact.lease, Event::CloseBegun, &mut news)?,
            Fact::SiteClosed(fact) => {
                self.step(fact.lease, Event::SiteClosed(fact.receipts.clone()), &mut news)?;
            }
            Fact::Credited(fact) => self.step(fact.lease, Event::Credited, &mut news)?,
            Fact::TermOver(fact) => self.step(fact.lease, Event::TermOver, &mut news)?,
            Fact::LeaseForgotten(fact) => {
                let lease =
                    self.leases.get_mut(&fact.lease).ok_or_else(|| unfounded(fact.lease))?;
                news.moved(fact.lease, lease.word(), NOTHING);
                lease.forgotten = true;
            }
            Fact::SignalObserved(_) | Fact::MapperAnswered(_) | Fact::Woken(_) => {}
        }
        Ok(news.changes)
    }

    fn asked(&mut self, fact: &Asked, news: &mut News) {
        let (number, request) = (fact.request.id.number, fact.request.clone());
        let expires_at = request.last_end();
        self.requests.insert(number, (fact.broker, request.clone(), first(number)));
        let state = State::Asking { broker: fact.broker, request: Box::new(request) };
        self.born(first(number), state, (number, expires_at), None, news);
    }

    fn born(
        &mut self,
        id: LeaseId,
        state: State,
        (number, expires_at): (u64, Time),
        first: Option<Ticket>,
        news: &mut News,
    ) {
        let before = self.leases.get(&id).map_or(NOTHING, GuestLease::word);
        news.moved(id, before, state.word());
        if let Some(ticket) = &first {
            self.tickets.insert(ticket.hash(), id);
        }
        let lease = GuestLease { state, number, first, expires_at, forgotten: false };
        self.leases.insert(id, lease);
    }

    /// Each ticket becomes a lease: the first the one that asked, the others new ones beside it.
    fn granted(
        &mut self,
        number: u64,
        tickets: &[(u16, Ticket)],
        news: &mut News,
    ) -> Result<(), Unfounded> {
        let asked = self.leases.get(&first(number)).ok_or_else(|| unfounded(first(number)))?;
        let asked = asked.state.clone();
        for (part, (_, ticket)) in (0u16..).zip(tickets) {
            let state = asked.clone().next(Event::Granted(ticket.clone()))?;
            let over = (number, ticket.bottom().term.end());
            self.born(LeaseId { number, part }, state, over, Some(ticket.clone()), news);
        }
        Ok(())
    }

    /// Moves a lease on, with what becomes of its extension.
    fn step(&mut self, id: LeaseId, event: Event, news: &mut News) -> Result<(), Unfounded> {
        let lease = self.leases.get_mut(&id).ok_or_else(|| unfounded(id))?;
        let from = lease.state.word();
        let extension = lease.state.held().map(|held| held.extension.clone());
        let denied = matches!(event, Event::ExtensionDenied);
        let gone = State::Closed { outcome: Outcome::Unanswered };
        lease.state = std::mem::replace(&mut lease.state, gone).next(event)?;
        if let Some(held) = lease.state.held() {
            lease.expires_at = held.term.end();
        }
        news.moved(id, from, lease.state.word());
        let held = lease.state.held().is_some();
        match extension {
            // A wish that outlives its lease is a wish that was given up.
            Some(Extension::Asking { broker, request }) if !held => {
                let (own, expires_at) = (request.id.number, request.last_end());
                let state = State::GivenUp { broker };
                self.born(first(own), state, (own, expires_at), None, news);
            }
            // A ticket that its site would not take is given back.
            Some(Extension::Redeeming { ticket, number: own }) if denied => {
                let expires_at = ticket.bottom().term.end();
                let state = State::Closing { tickets: vec![ticket.clone()] };
                self.born(first(own), state, (own, expires_at), Some(ticket), news);
            }
            Some(_) | None => {}
        }
        Ok(())
    }

    /// Whether the answer to a request is still waited for.
    pub(crate) fn waits_for(&self, number: u64) -> bool {
        let own = self.leases.get(&first(number)).map(|lease| &lease.state);
        if matches!(own, Some(State::Asking { .. } | State::GivenUp { .. })) {
            return true;
        }
        let lease = self.requests.get(&number).map(|(_, _, lease)| *lease);
        let held = lease.and_then(|lease| self.held(lease));
        matches!(held.map(|held| &held.extension), Some(Extension::Asking { request, .. })
            if request.id.number == number)
    }

    /// What is held under a lease.
    pub(crate) fn held(&self, id: LeaseId) -> Option<&Held> {
        self.leases.get(&id)?.state.held()
    }
}

fn first(number: u64) -> LeaseId {
    LeaseId { number, part: 0 }
}

/// What a fact moved at one guest.
struct News {
    guest: ActorId,
    changes: Vec<Change>,
}

impl News {
    fn moved(&mut self, lease: LeaseId, from: &'static str, to: &'static str) {
        self.changes.push(Change { subject: Subject::Lease(self.guest, lease), from, to });
    }
}
