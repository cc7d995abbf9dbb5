//! How facts change a service manager.

use std::num::NonZeroU32;

use super::{Lease, Obligation, ServiceManager, Timer, is_live};
use crate::actor::fact::BadFact;
use crate::driver::UnitId;
use crate::model::name::Name;
use crate::model::slice::LeaseId;
use crate::model::time::{Span, Term, Time};
use crate::mutants::mutant;
use crate::service_manager::facts::{Asked, Fact, SiteClosed};
use crate::service_manager::machine::{AfterLeave, Event, Extension, Outcome, State, UnitUse};
use crate::ticket::Ticket;
use crate::ticket::ledger::LEDGER_RETENTION;
use crate::wire::message::{Item, Request};

impl Lease {
    /// Moves its machine on. After an error the state is void.
    fn next(&mut self, event: Event) -> Result<(), BadFact> {
        let void = State::Closed { outcome: Outcome::Unanswered };
        self.state = std::mem::replace(&mut self.state, void).next(event)?;
        Ok(())
    }
}

fn asks(state: &State) -> bool {
    matches!(state, State::Asking { .. } | State::GivenUp { .. })
}

impl ServiceManager {
    pub(super) fn apply_fact(&mut self, at: Time, fact: &Fact) -> Result<(), BadFact> {
        match fact {
            Fact::SignalObserved(fact) => {
                self.signals.insert(fact.signal.clone(), fact.value);
                self.consult(at);
            }
            Fact::MapperAnswered(fact) => {
                self.pending.settle(&Obligation::Consult);
                let again = self.rounds.answered(fact.memo.as_ref(), fact.wake);
                self.timers.set(Timer::Wake, fact.wake);
                if again {
                    self.require(Obligation::Consult, at);
                }
            }
            Fact::Woken(_) => {
                self.timers.set(Timer::Wake, None);
                if self.rounds.woken() {
                    self.require(Obligation::Consult, at);
                }
            }
            Fact::Asked(fact) => self.asked_for(at, fact),
            Fact::Granted(fact) => self.granted(at, fact.number, &fact.tickets)?,
            Fact::UnwantedGranted(fact) => self.granted(at, fact.number, &fact.tickets)?,
            Fact::AskRefused(fact) => {
                let lease = LeaseId { number: fact.number, part: 0 };
                self.step(at, lease, Event::Refused(fact.refusal.clone()))?;
            }
            Fact::GaveUp(fact) => {
                self.step(at, LeaseId { number: fact.number, part: 0 }, Event::GaveUp)?;
            }
            Fact::Leased(fact) => {
                let event = Event::Leased(fact.term, fact.units.clone());
                self.step(at, fact.lease, event)?;
            }
            Fact::RedeemRefused(fact) => {
                self.step(at, fact.lease, Event::Refused(fact.refusal.clone()))?;
            }
            Fact::Joined(fact) => {
                self.pending.settle(&Obligation::Join(fact.lease, fact.unit));
                let event = Event::Joined(fact.unit, fact.error.is_none());
                self.step_unit(at, fact.lease, event)?;
            }
            Fact::Left(fact) => {
                self.pending.settle(&Obligation::Leave(fact.lease, fact.unit));
                self.left(at, fact.lease, fact.unit)?;
            }
            Fact::ExtensionAsked(fact) => {
                let request = Box::new(fact.request.clone());
                self.new_number(fact.request.id.number, fact.lease, at);
                self.step(at, fact.lease, Event::ExtensionAsked(fact.broker, request))?;
            }
            Fact::ExtensionGranted(fact) => {
                self.by_ticket.insert(fact.ticket.hash(), fact.lease);
                self.step(at, fact.lease, Event::ExtensionGranted(fact.ticket.clone()))?;
            }
            Fact::ExtensionDenied(fact) => self.step(at, fact.lease, Event::ExtensionDenied)?,
            Fact::Extended(fact) => self.step(at, fact.lease, Event::Extended)?,
            Fact::LeaveBegun(fact) => self.step(at, fact.lease, Event::LeaveBegun(fact.then))?,
            Fact::CloseBegun(fact) => self.step(at, fact.lease, Event::CloseBegun)?,
            Fact::SiteClosed(fact) => {
                self.closed_by_site(fact);
                self.step(at, fact.lease, Event::SiteClosed(fact.receipts.clone()))?;
            }
            Fact::Credited(fact) => self.step(at, fact.lease, Event::Credited)?,
            Fact::TermOver(fact) => self.step(at, fact.lease, Event::TermOver)?,
            Fact::LeaseForgotten(fact) => self.forget(fact.lease),
        }
        Ok(())
    }

    fn asked_for(&mut self, at: Time, fact: &Asked) {
        let Asked { broker, slice, request, configuration, .. } = fact;
        let (Some(item), Ok(term)) =
            (request.items.first(), Term::lasting(request.earliest, request.duration))
        else {
            return;
        };
        let id = LeaseId { number: request.id.number, part: 0 };
        let total = |units: &dyn Fn(&Item) -> NonZeroU32| {
            request.items.iter().fold(0, |sum: u32, item| sum.saturating_add(units(item).get()))
        };
        let lease = Lease {
            state: State::Asking { broker: *broker, request: Box::new(request.clone()) },
            resource: item.resource.clone(),
            units: total(&|item| item.units),
            term,
            slice: slice.clone(),
            least: NonZeroU32::new(total(&|item| item.least)).unwrap_or(NonZeroU32::MIN),
            configuration: configuration.clone(),
            request: Some(Box::new(request.clone())),
            booked: Vec::new(),
            tickets: Vec::new(),
            closed_by: None,
            ends_at: None,
            expires_at: request.last_end(),
        };
        self.leases.insert(id, lease);
        self.live.insert(id);
        for item in &request.items {
            self.book(id, &item.resource, term, item.units.get(), at);
        }
        self.new_number(id.number, id, at);
        self.refresh(id, at);
    }

    /// A request goes out under the next number.
    fn new_number(&mut self, number: u64, lease: LeaseId, at: Time) {
        self.last_number = self.last_number.max(number);
        self.requests.insert(number, lease);
        self.require(Obligation::Ask(number), at);
    }

    /// Each ticket becomes a lease: the first the one that asked, the others new ones beside it.
    fn granted(&mut self, at: Time, number: u64, tickets: &[(u16, Ticket)]) -> Result<(), BadFact> {
        let first = LeaseId { number, part: 0 };
        self.unbook(first, Time::MIN);
        let Some(asked) = self.leases.get(&first).cloned() else {
            return Err(BadFact::Missing { kind: "granted", what: first.to_string() });
        };
        let wanted = matches!(asked.state, State::Asking { .. });
        for (part, (item, ticket)) in (0u16..).zip(tickets) {
            let id = LeaseId { number, part };
            let link = ticket.bottom();
            let least = asked.request.as_deref().map(|r| least_of(r, *item, ticket, tickets));
            let lease = Lease {
                state: asked.state.clone().next(Event::Granted(ticket.clone()))?,
                resource: link.resource.clone(),
                units: link.units.get(),
                term: link.term,
                least: least.unwrap_or(link.units),
                expires_at: link.term.end(),
                request: None,
                tickets: vec![ticket.hash()],
                booked: Vec::new(),
                ..asked.clone()
            };
            self.live.insert(id);
            self.leases.insert(id, lease);
            self.by_ticket.insert(ticket.hash(), id);
            if wanted {
                self.book(id, &link.resource, link.term, link.units.get(), at);
            }
            self.refresh(id, at);
        }
        self.requests.remove(&number);
        self.pending.settle(&Obligation::Ask(number));
        Ok(())
    }

    fn forget(&mut self, id: LeaseId) {
        self.timers.set(Timer::Lease(id), None);
        let Some(lease) = self.leases.remove(&id) else { return };
        for ticket in &lease.tickets {
            self.by_ticket.remove(ticket);
        }
    }

    /// The guest has left a unit. With the last one the lease moves on, and its extension with it.
    fn left(&mut self, at: Time, id: LeaseId, unit: UnitId) -> Result<(), BadFact> {
        let held = self.leases.get(&id).and_then(|lease| lease.state.held());
        if held.is_some_and(|held| held.awaited == 1) {
            self.step(at, id, Event::Left(unit))
        } else {
            self.step_unit(at, id, Event::Left(unit))
        }
    }

    /// Moves a lease on by what happened to one of its units.
    fn step_unit(&mut self, at: Time, id: LeaseId, event: Event) -> Result<(), BadFact> {
        let lease = self.leases.get_mut(&id).ok_or_else(|| absent(id))?;
        let before = lease.state.word();
        lease.next(event)?;
        if lease.state.word() != before {
            self.refresh(id, at);
        }
        Ok(())
    }

    /// Moves a lease on, with everything that follows from its new state.
    fn step(&mut self, at: Time, id: LeaseId, event: Event) -> Result<(), BadFact> {
        let lease = self.leases.get_mut(&id).ok_or_else(|| absent(id))?;
        let asked = asks(&lease.state);
        let extension = lease.state.held().map(|held| held.extension.clone());
        let (denied, extended, over) = (
            matches!(event, Event::ExtensionDenied),
            matches!(event, Event::Extended),
            matches!(event, Event::TermOver),
        );
        lease.next(event)?;
        if let Some(held) = lease.state.held() {
            lease.term = held.term;
        }
        if !is_live(&lease.state) {
            self.live.remove(&id);
        }
        if extended {
            self.extended(id, at);
        }
        if asked && self.leases.get(&id).is_some_and(|lease| !asks(&lease.state)) {
            self.requests.remove(&id.number);
            self.pending.settle(&Obligation::Ask(id.number));
        }
        if let Some(extension) = extension {
            self.after_extension(id, &extension, denied, at);
        }
        if !over && !self.counts(id) {
            self.unbook(id, at);
        }
        self.refresh(id, at);
        Ok(())
    }

    /// Whether a lease counts as held or asked for.
    fn counts(&self, id: LeaseId) -> bool {
        self.leases.get(&id).is_some_and(|lease| match lease.state {
            State::Asking { .. }
            | State::Redeeming { .. }
            | State::Joining { .. }
            | State::Active { .. }
            | State::Leaving { then: AfterLeave::End, .. } => true,
            State::GivenUp { .. }
            | State::Leaving { then: AfterLeave::Close, .. }
            | State::Closing { .. }
            | State::Crediting { .. }
            | State::Closed { .. } => false,
        })
    }

    /// What was under way for an extension, and is not any more, must not leak units: a request whose
    /// answer nobody waits for becomes a wish that was given up, and a ticket that the site refused
    /// is given back, each as a lease of its own under the request's number.
    fn after_extension(&mut self, id: LeaseId, old: &Extension, denied: bool, at: Time) {
        let Some(lease) = self.leases.get_mut(&id) else { return };
        let now = lease.state.held().map(|held| &held.extension);
        let (number, state, expires_at, request, tickets) = match (old, now) {
            (Extension::Asking { request, .. }, Some(Extension::Asking { .. })) => {
                debug_assert_eq!(self.requests.get(&request.id.number), Some(&id));
                return;
            }
            (Extension::Asking { request, .. }, Some(_)) => {
                self.requests.remove(&request.id.number);
                self.pending.settle(&Obligation::Ask(request.id.number));
                return;
            }
            (Extension::Asking { broker, request }, None) => {
                let expires_at = request.last_end();
                let state = State::GivenUp { broker: *broker };
                (request.id.number, state, expires_at, Some(request.clone()), Vec::new())
            }
            (Extension::Redeeming { ticket, number }, _) if denied => {
                let state = State::Closing { tickets: vec![ticket.clone()] };
                (*number, state, ticket.bottom().term.end(), None, vec![ticket.hash()])
            }
            // It goes the way of its lease, and is found and forgotten with it.
            (Extension::Redeeming { ticket, .. }, None) => {
                return lease.tickets.push(ticket.hash());
            }
            (Extension::None | Extension::Redeeming { .. }, _) => return,
        };
        let own = LeaseId { number, part: 0 };
        let least = NonZeroU32::new(lease.units).unwrap_or(NonZeroU32::MIN);
        let (booked, ends_at, closed_by) = (Vec::new(), None, None);
        let lease = lease.clone();
        let lease = Lease {
            state,
            least,
            expires_at,
            request,
            booked,
            ends_at,
            closed_by,
            tickets,
            ..lease
        };
        for ticket in &lease.tickets {
            self.by_ticket.insert(*ticket, own);
        }
        if lease.request.is_some() {
            self.requests.insert(number, own);
        }
        self.leases.insert(own, lease);
        self.live.insert(own);
        self.refresh(own, at);
    }

    /// Keeps why a site closed a lease, and which site: the state that follows has neither.
    fn closed_by_site(&mut self, fact: &SiteClosed) {
        let Some(lease) = self.leases.get_mut(&fact.lease) else { return };
        let site = lease.state.ticket().map(Ticket::site);
        lease.closed_by = site.zip(fact.refusal.clone());
    }

    /// The term of the newest ticket is held as well.
    fn extended(&mut self, id: LeaseId, at: Time) {
        let Some(lease) = self.leases.get_mut(&id) else { return };
        let newest = lease.state.held().and_then(|held| held.tickets.last());
        let Some(link) = newest.map(|ticket| ticket.bottom().clone()) else { return };
        lease.tickets.push(link.hash());
        lease.expires_at = link.term.end();
        let units = lease.units;
        self.book(id, &link.resource, link.term, units, at);
    }

    fn book(&mut self, id: LeaseId, resource: &Name, term: Term, units: u32, at: Time) {
        let holdings = self.holdings.entry(resource.clone()).or_default();
        holdings.forget_until(at.minus(LEDGER_RETENTION));
        holdings.add(term, i64::from(units));
        if let Some(lease) = self.leases.get_mut(&id) {
            lease.booked.push((resource.clone(), term, units));
        }
    }

    /// Takes what is left of a lease's bookings from `from` on out of the holdings.
    fn unbook(&mut self, id: LeaseId, from: Time) {
        let Some(lease) = self.leases.get_mut(&id) else { return };
        for (resource, term, units) in lease.booked.drain(..) {
            if let Some(rest) = term.from(from) {
                self.holdings.entry(resource).or_default().add(rest, -i64::from(units));
            }
        }
    }

    /// Sets what follows from a lease's state: what is owed for it, and when it is next due.
    fn refresh(&mut self, id: LeaseId, at: Time) {
        let position = self.base.position;
        let Some(lease) = self.leases.get(&id) else { return };
        let state = &lease.state;
        let extending = !matches!(state, State::Leaving { .. })
            && state.held().is_some_and(|h| matches!(h.extension, Extension::Redeeming { .. }));
        let pending = &mut self.pending;
        let redeeming = matches!(state, State::Redeeming { .. });
        pending.set(Obligation::Redeem(id), redeeming, position, at);
        pending.set(Obligation::Extend(id), extending, position, at);
        pending.set(Obligation::Close(id), matches!(state, State::Closing { .. }), position, at);
        let credits = matches!(state, State::Crediting { .. }) && !mutant!(CreditNotOwed);
        pending.set(Obligation::Credit(id), credits, position, at);
        let (first, last) = (UnitId(0), UnitId(u32::MAX));
        match state {
            State::Joining { held } => {
                for &unit in held.waiting_to(UnitUse::Joining) {
                    pending.set(Obligation::Join(id, unit), true, position, at);
                }
            }
            State::Leaving { held, .. } => {
                pending.settle_range(Obligation::Join(id, first), Obligation::Join(id, last));
                for &unit in held.waiting_to(UnitUse::Leaving) {
                    pending.set(Obligation::Leave(id, unit), true, position, at);
                }
            }
            State::Asking { .. } | State::GivenUp { .. } | State::Redeeming { .. } => {}
            State::Active { .. }
            | State::Closing { .. }
            | State::Crediting { .. }
            | State::Closed { .. } => {
                pending.settle_range(Obligation::Join(id, first), Obligation::Join(id, last));
                pending.settle_range(Obligation::Leave(id, first), Obligation::Leave(id, last));
            }
        }
        if let State::GivenUp { .. } = state {
            pending.set(Obligation::Ask(id.number), true, position, at);
        }
        self.set_deadline(id);
    }

    /// When a lease is next due, and where it stands among those that end.
    fn set_deadline(&mut self, id: LeaseId) {
        let (margin, two) = (self.base.margin(), self.base.two_margins());
        let Some(lease) = self.leases.get_mut(&id) else { return };
        let end = lease.expires_at;
        let stop = if mutant!(NoClockMargin) { end } else { end.minus(margin) };
        let deadline = match &lease.state {
            State::Asking { .. } => end.minus(two),
            State::Redeeming { .. } | State::Leaving { .. } => stop,
            State::Joining { held } | State::Active { held } => match held.extension {
                Extension::None => stop.minus(self.leave_before),
                Extension::Asking { .. } if mutant!(HopeExtends) => end,
                Extension::Asking { .. } | Extension::Redeeming { .. } => stop,
            },
            // Their units are the site's again at the end, whatever is heard; who is slow is still heard.
            State::Closing { tickets } => {
                let end = tickets.iter().map(|t| t.bottom().term.end()).max().unwrap_or(end);
                end.plus(lease.term.duration())
            }
            State::Crediting { receipts } => {
                let end = receipts.iter().map(|r| r.what.term.end()).max().unwrap_or(end);
                end.plus(lease.term.duration())
            }
            State::GivenUp { .. } if mutant!(WaitsForAYear) => end.plus(Span::DAY.times(365)),
            State::GivenUp { .. } => lease.request.as_ref().map_or(end, |r| r.last_word()),
            State::Closed { .. } => end.plus(margin),
        };
        let ends_at = matches!(lease.state, State::Joining { .. } | State::Active { .. })
            .then_some(lease.term.end());
        let old = std::mem::replace(&mut lease.ends_at, ends_at);
        if old != ends_at {
            old.map(|end| self.ending.remove(&(end, id)));
            ends_at.map(|end| self.ending.insert((end, id)));
        }
        self.timers.set(Timer::Lease(id), Some(deadline));
    }

    fn consult(&mut self, at: Time) {
        if self.rounds.call() {
            self.require(Obligation::Consult, at);
        }
    }

    fn require(&mut self, obligation: Obligation, at: Time) {
        self.pending.require(obligation, self.base.position, at);
    }
}

fn absent(id: LeaseId) -> BadFact {
    BadFact::Missing { kind: "event", what: id.to_string() }
}

/// How few units of one ticket will do: each ticket of an elastic item may fall short by its share of
/// what the whole item could do without.
fn least_of(
    request: &Request,
    item: u16,
    ticket: &Ticket,
    tickets: &[(u16, Ticket)],
) -> NonZeroU32 {
    let units = ticket.bottom().units;
    let Some(wanted) = request.items.get(usize::from(item)) else { return units };
    let parts = tickets.iter().filter(|(of, _)| *of == item);
    let granted: u64 = parts.map(|(_, part)| u64::from(part.bottom().units.get())).sum();
    let spare = granted.saturating_sub(u64::from(wanted.least.get()));
    let share = spare * u64::from(units.get()) / granted.max(1);
    let share = u32::try_from(share).unwrap_or(u32::MAX);
    NonZeroU32::new(units.get().saturating_sub(share)).unwrap_or(NonZeroU32::MIN)
}
