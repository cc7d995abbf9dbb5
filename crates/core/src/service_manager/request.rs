//! The life of a request at its service manager: put to a broker, then answered or given up.

use std::collections::BTreeSet;
use std::num::NonZeroU32;

use imbl::OrdMap;
use serde::{Deserialize, Serialize};

use super::{Bookings, Lease, Obligation, ServiceManager, Timer};
use crate::actor::fact::BadFact;
use crate::actor::machine::Illegal;
use crate::model::calendar::Calendar;
use crate::model::identity::ActorId;
use crate::model::name::Name;
use crate::model::property::Properties;
use crate::model::slice::{LeaseId, SliceName};
use crate::model::time::{Span, Term, Time};
use crate::mutants::mutant;
use crate::service_manager::cost::Costs;
use crate::service_manager::facts::{Asked, ExtensionAsked};
use crate::service_manager::fidelity::Worth;
use crate::service_manager::group::Handling;
use crate::service_manager::machine::State as LeaseState;
use crate::service_manager::sequence::Sequence;
use crate::ticket::Ticket;
use crate::ticket::link::Link;
use crate::wire::offer::{Offer, Reply, Waiting};
use crate::wire::refusal::Refusal;
use crate::wire::request::Item;
use crate::wire::request::Request as Wanted;

/// What a request is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Purpose {
    /// New leases.
    New,
    /// A ticket that extends a lease.
    Extend(LeaseId),
    /// Further units for a lease, which last as long as it does.
    Grow(LeaseId),
}

/// Where a request is in its life at the service manager.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum State {
    /// A broker was asked.
    Asked,
    /// The broker holds these offers.
    Offered {
        /// The offers.
        offers: Vec<Offer>,
        /// Until when.
        until: Time,
        /// Why the request cannot be met as it is, if so.
        refusal: Option<Refusal>,
    },
    /// The tickets of an offer are asked for.
    Accepting {
        /// Which, from 1.
        number: u8,
        /// What it is.
        offer: Offer,
    },
    /// It was withdrawn, or the answer would come too late. The broker is to confirm; a ticket that
    /// still comes is given back.
    GivenUp,
    /// The broker said how it could be met. Nothing is booked.
    Planned {
        /// How, the best first.
        offers: Vec<Offer>,
        /// Why the request cannot be met as it is, if so.
        refusal: Option<Refusal>,
    },
    /// The broker sent tickets.
    Granted {
        /// The leases they became.
        group: GrantedLeases,
    },
    /// The broker refused.
    Refused {
        /// Why.
        refusal: Refusal,
        /// What could be had instead.
        offers: Vec<Offer>,
    },
    /// No answer came in time.
    Unanswered,
}

/// What happens to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The broker sent tickets, which become these leases.
    Granted(GrantedLeases),
    /// The broker refused, with what could be had instead.
    Refused(Refusal, Vec<Offer>),
    /// The broker holds offers until then.
    Offered(Vec<Offer>, Time, Option<Refusal>),
    /// The broker said how it could be met.
    Planned(Vec<Offer>, Option<Refusal>),
    /// An offer is taken, by its number from 1.
    Accepted(u8),
    /// It was withdrawn, or no answer can be of use.
    GaveUp,
    /// It is too late for an answer.
    Expired,
}

/// The leases that one request granted. They are granted all together, and the request is remembered for
/// as long as one of them is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GrantedLeases {
    number: u64,
    leases: BTreeSet<LeaseId>,
}

impl GrantedLeases {
    /// The first leases of the request of this number. A ticket that extends a lease becomes none.
    pub fn of(number: u64, leases: usize) -> Self {
        let parts = (0u16..).take(leases);
        Self { number, leases: parts.map(|part| LeaseId { number, part }).collect() }
    }

    /// The number of the request.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// The leases that are remembered.
    pub fn leases(&self) -> impl Iterator<Item = LeaseId> {
        self.leases.iter().copied()
    }
}

impl State {
    /// The state in a word.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Asked => "Asked",
            Self::Offered { .. } => "Offered",
            Self::Accepting { .. } => "Accepting",
            Self::GivenUp => "GivenUp",
            Self::Planned { .. } => "Planned",
            Self::Granted { .. } => "Granted",
            Self::Refused { .. } => "Refused",
            Self::Unanswered => "Unanswered",
        }
    }

    /// Whether an answer may still come.
    pub fn is_open(&self) -> bool {
        matches!(self, Self::Asked | Self::Offered { .. } | Self::Accepting { .. } | Self::GivenUp)
    }

    /// What could be had, of a request that offers were made for.
    pub fn offers(&self) -> &[Offer] {
        match self {
            Self::Offered { offers, .. }
            | Self::Planned { offers, .. }
            | Self::Refused { offers, .. } => offers,
            Self::Accepting { offer, .. } => std::slice::from_ref(offer),
            Self::Asked | Self::GivenUp | Self::Granted { .. } | Self::Unanswered => &[],
        }
    }

    /// One of the [`offers`](Self::offers) that can be taken, by its number from 1.
    pub fn offer(&self, number: u8) -> Option<&Offer> {
        match self {
            Self::Offered { offers, .. }
            | Self::Planned { offers, .. }
            | Self::Refused { offers, .. } => offers.get(usize::from(number).checked_sub(1)?),
            Self::Asked
            | Self::Accepting { .. }
            | Self::GivenUp
            | Self::Granted { .. }
            | Self::Unanswered => None,
        }
    }

    /// The next state.
    pub fn next(self, event: Event) -> Result<Self, Illegal> {
        let illegal = Illegal { machine: "request", state: self.word(), event: event.word() };
        Ok(match (self, event) {
            (Self::Asked | Self::Accepting { .. } | Self::GivenUp, Event::Granted(group)) => {
                Self::Granted { group }
            }
            (
                Self::Asked | Self::Offered { .. } | Self::Accepting { .. } | Self::GivenUp,
                Event::Refused(refusal, offers),
            ) => Self::Refused { refusal, offers },
            (Self::Asked, Event::Offered(offers, until, refusal)) => {
                Self::Offered { offers, until, refusal }
            }
            (Self::Asked | Self::GivenUp, Event::Planned(offers, refusal)) => {
                Self::Planned { offers, refusal }
            }
            (state @ Self::Offered { .. }, Event::Accepted(number)) => {
                let offer = state.offer(number).cloned().ok_or(illegal)?;
                Self::Accepting { number, offer }
            }
            (Self::Asked | Self::Offered { .. } | Self::Accepting { .. }, Event::GaveUp) => {
                Self::GivenUp
            }
            (Self::GivenUp, Event::Expired) => Self::Unanswered,
            (Self::Asked, Event::Accepted(_) | Event::Expired)
            | (
                Self::Offered { .. },
                Event::Granted(_) | Event::Offered(..) | Event::Planned(..) | Event::Expired,
            )
            | (
                Self::Accepting { .. },
                Event::Offered(..) | Event::Planned(..) | Event::Accepted(_) | Event::Expired,
            )
            | (Self::GivenUp, Event::Offered(..) | Event::Accepted(_) | Event::GaveUp)
            | (
                Self::Planned { .. }
                | Self::Granted { .. }
                | Self::Refused { .. }
                | Self::Unanswered,
                _,
            ) => return Err(illegal),
        })
    }
}

impl Event {
    /// The event in a word.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Granted(_) => "Granted",
            Self::Refused(..) => "Refused",
            Self::Offered(..) => "Offered",
            Self::Planned(..) => "Planned",
            Self::Accepted(_) => "Accepted",
            Self::GaveUp => "GaveUp",
            Self::Expired => "Expired",
        }
    }
}

/// A request with what its state does not carry.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Request {
    pub(super) state: State,
    pub(super) purpose: Purpose,
    /// Whom it was put to.
    pub(super) broker: ActorId,
    /// What is asked for.
    pub(super) wanted: Box<Wanted>,
    pub(super) slice: SliceName,
    pub(super) configuration: Properties,
    /// Whether a lease of it was over, and is forgotten, that was never in use.
    pub(super) lost: bool,
    pub(super) handling: Handling,
    /// Where it stands at the broker, and where in the broker's journal that is.
    pub(super) waiting: Option<(Waiting, u64)>,
    /// The end of the last term that it asks for or was offered.
    pub(super) last_end: Time,
    /// What it adds to the holdings.
    pub(super) booked: Bookings,
    /// What was asked for before it was revised, the oldest first.
    pub(super) earlier: Vec<Wanted>,
}

impl Request {
    /// The type of its first item.
    pub(super) fn resource(&self) -> Option<&Name> {
        self.wanted.items.first().map(|item| &item.resource)
    }

    /// The units of all items.
    pub(super) fn units(&self) -> u32 {
        self.total(|item| item.units)
    }

    /// The fewest units that will do, of all items.
    pub(super) fn min_units(&self) -> u32 {
        self.total(|item| item.min_units)
    }

    fn total(&self, units: impl Fn(&Item) -> NonZeroU32) -> u32 {
        self.wanted.preferred().fold(0, |sum: u32, item| sum.saturating_add(units(item).get()))
    }

    /// The first term asked for.
    pub(super) fn term(&self) -> Option<Term> {
        Term::lasting(self.wanted.earliest, self.wanted.duration).ok()
    }

    /// Counts what it asks for as about to be held.
    pub(super) fn book(&mut self, holdings: &mut OrdMap<Name, Calendar>, at: Time) {
        let Some(term) = self.term() else { return };
        // Of what is only looked into, nothing is about to be held.
        let about_to_be_held =
            self.wanted.preferred().filter(|_| self.wanted.reply == Reply::Grant);
        for item in about_to_be_held {
            let Some(term) = item.term(term) else { continue };
            let units = item.units.get();
            super::book(holdings, &mut self.booked, &item.resource, term, units, at);
        }
    }

    /// Whether it is shown beside the leases: it has none, and none shows it as its extension.
    pub(super) fn stands_alone(&self) -> bool {
        match (&self.state, self.purpose) {
            (State::Granted { .. }, _)
            | (
                State::Asked | State::Offered { .. } | State::Accepting { .. },
                Purpose::Extend(_),
            ) => false,
            (
                State::Asked | State::Offered { .. } | State::Accepting { .. },
                Purpose::New | Purpose::Grow(_),
            )
            | (
                State::GivenUp | State::Planned { .. } | State::Refused { .. } | State::Unanswered,
                _,
            ) => true,
        }
    }
}

/// The name of what a request without leases is shown as.
pub(super) fn shown_as(number: u64) -> LeaseId {
    LeaseId { number, part: 0 }
}

impl ServiceManager {
    /// A request, if an answer to it may still come.
    pub(super) fn open_request(&self, number: u64) -> Option<&Request> {
        self.state.requests.get(&number).filter(|request| request.state.is_open())
    }

    pub(super) fn asked_for(&mut self, at: Time, fact: &Asked) {
        let Asked { broker, slice, request: wanted, configuration, handling, grows, .. } = fact;
        let number = wanted.id.number;
        let mut request = Request {
            state: State::Asked,
            purpose: grows.map_or(Purpose::New, Purpose::Grow),
            broker: *broker,
            wanted: Box::new(wanted.clone()),
            slice: slice.clone(),
            configuration: configuration.clone(),
            handling: handling.clone(),
            waiting: None,
            last_end: wanted.last_end(),
            booked: Bookings::default(),
            earlier: Vec::new(),
            lost: false,
        };
        request.book(&mut self.state.holdings, at);
        if let Some(lease) = grows {
            self.replacement_asked(*lease, number);
        }
        self.put(at, number, request);
        self.part_asked(number, at);
        self.plan_asked(number, at);
    }

    pub(super) fn extension_asked(
        &mut self,
        at: Time,
        fact: &ExtensionAsked,
    ) -> Result<(), BadFact> {
        let lease =
            self.state.leases.get(&fact.lease).ok_or_else(|| super::apply::absent(fact.lease))?;
        let request = Request {
            state: State::Asked,
            purpose: Purpose::Extend(fact.lease),
            broker: fact.broker,
            wanted: Box::new(fact.request.clone()),
            slice: lease.slice.clone(),
            configuration: lease.configuration.clone(),
            handling: Handling::default(),
            waiting: None,
            last_end: fact.request.last_end(),
            booked: Bookings::default(),
            earlier: Vec::new(),
            lost: false,
        };
        self.put(at, fact.request.id.number, request);
        Ok(())
    }

    /// A request goes out under the next number.
    fn put(&mut self, at: Time, number: u64, request: Request) {
        self.state.last_number = self.state.last_number.max(number);
        self.state.requests.insert(number, request);
        self.require(Obligation::Ask(number), at);
        self.refresh_request(number);
    }

    /// Moves a request on, with everything that follows from its new state.
    pub(super) fn step_request(
        &mut self,
        at: Time,
        number: u64,
        event: Event,
    ) -> Result<(), BadFact> {
        let missing = || BadFact::Missing { kind: "request", what: number.to_string() };
        let request = self.state.requests.get_mut(&number).ok_or_else(missing)?;
        // What is granted is held in the request's place, from its start.
        let from = if matches!(event, Event::Granted(_)) { Time::MIN } else { at };
        request.state = std::mem::replace(&mut request.state, State::Unanswered).next(event)?;
        super::unbook(&mut self.state.holdings, &mut request.booked, from);
        let (asked, accepting, given_up) = match request.state {
            State::Asked => (true, false, false),
            State::Accepting { .. } => (false, true, false),
            State::GivenUp => (false, false, true),
            State::Offered { .. }
            | State::Planned { .. }
            | State::Granted { .. }
            | State::Refused { .. }
            | State::Unanswered => (false, false, false),
        };
        let position = self.base.position;
        let pending = &mut self.state.pending;
        pending.set(Obligation::Ask(number), asked, position, at);
        pending.set(Obligation::Accept(number), accepting, position, at);
        pending.set(Obligation::Withdraw(number), given_up, position, at);
        self.refresh_request(number);
        self.wake_waiters(number, at);
        // What is granted has leases first.
        if matches!(self.request(number), Some(State::Granted { .. })) {
            return Ok(());
        }
        self.part_follows(number, at)
    }

    /// Forgets a request whose lease has all further state.
    pub(super) fn drop_request(&mut self, number: u64) {
        self.state.requests.remove(&number);
        self.state.plans.forget_request(number);
        self.forget_part(number);
        for owed in [Obligation::Ask, Obligation::Accept, Obligation::Withdraw] {
            self.state.pending.settle(&owed(number));
        }
        self.refresh_request(number);
    }

    /// Each ticket becomes a lease: to be redeemed or kept, or to be given back if it is not wanted any more.
    pub(super) fn granted(
        &mut self,
        at: Time,
        number: u64,
        tickets: &[(u16, Ticket)],
        wanted: bool,
    ) -> Result<(), BadFact> {
        let group = GrantedLeases::of(number, tickets.len());
        if let Some(request) = self.state.requests.get_mut(&number) {
            request.settle_on_revision(tickets);
        }
        self.step_request(at, number, Event::Granted(group.clone()))?;
        for (id, (item, ticket)) in group.leases().zip(tickets) {
            let Some(request) = self.state.requests.get(&number) else { continue };
            let (link, ticket) = (ticket.bottom(), ticket.clone());
            let lease = Lease {
                state: match (wanted, request.handling.keep_tickets) {
                    (true, true) => LeaseState::Ticketed { ticket, split: false },
                    (true, false) => LeaseState::Redeeming { ticket },
                    (false, _) => {
                        LeaseState::Closing { tickets: vec![ticket], credits: Vec::new() }
                    }
                },
                resource: link.resource.clone(),
                units: link.units.get(),
                term: link.term,
                slice: request.slice.clone(),
                min_units: min_units_of(&request.wanted, *item, link, tickets),
                configuration: request.configuration.clone(),
                booked: Bookings::default(),
                tickets: vec![link.hash()],
                closed_by: None,
                group: None,
                ends_at: None,
                expires_at: link.term.end(),
                recalls: Default::default(),
                warnings: Default::default(),
                stays: None,
                keep_alive: None,
                unheard: None,
                failures: Default::default(),
                costs: Costs::of(link),
                assurance: link.clauses.assurance,
                worth: Worth::of(link),
                usage: Default::default(),
                sequence: Sequence::of(number, *item, &request.handling.after),
            };
            self.born(at, id, lease);
            if wanted {
                self.book(id, &link.resource, link.term, link.units.get(), at);
            }
        }
        let leases = group.leases().zip(tickets);
        let leases: Vec<_> = leases.map(|(id, (item, t))| (id, *item, t.clone())).collect();
        if !wanted {
            self.take_unwanted(at, number, &leases);
        } else {
            self.keep_together(at, number, &leases);
            // Once all of them are there, since they may wait for each other.
            for (id, ..) in leases {
                self.wait_for_others(id, at);
            }
        }
        self.wake_waiters(number, at);
        self.part_follows(number, at)
    }

    /// A ticket that the site would not take as an extension becomes a lease of its own, to be given back.
    pub(super) fn extension_refused(
        &mut self,
        at: Time,
        number: u64,
        ticket: Ticket,
        extended: Lease,
    ) {
        let id = shown_as(number);
        if let Some(Request { state: State::Granted { group }, .. }) =
            self.state.requests.get_mut(&number)
        {
            group.leases.insert(id);
        }
        let lease = Lease {
            min_units: ticket.bottom().units,
            units: ticket.bottom().units.get(),
            expires_at: ticket.bottom().term.end(),
            tickets: vec![ticket.hash()],
            costs: Costs::of(ticket.bottom()),
            assurance: ticket.bottom().clauses.assurance,
            worth: Worth::of(ticket.bottom()),
            state: LeaseState::Closing { tickets: vec![ticket], credits: Vec::new() },
            booked: Bookings::default(),
            closed_by: None,
            unheard: None,
            group: None,
            ends_at: None,
            ..extended
        };
        self.born(at, id, lease);
    }

    pub(super) fn born(&mut self, at: Time, id: LeaseId, lease: Lease) {
        for ticket in &lease.tickets {
            self.state.by_ticket.insert(*ticket, id);
        }
        self.state.leases.insert(id, Box::new(lease));
        self.comes_live(id);
        self.refresh(id, at);
    }

    /// Forgets a lease of a request; with the last one the request is forgotten.
    pub(super) fn forget_in_group(&mut self, id: LeaseId) {
        let Some(Request { state: State::Granted { group }, .. }) =
            self.state.requests.get_mut(&id.number)
        else {
            return;
        };
        group.leases.remove(&id);
        if group.leases.is_empty() {
            self.drop_request(id.number);
        }
    }

    /// Forgets a request that has ended without a lease.
    pub(super) fn forget_request(&mut self, number: u64) {
        let over = self.state.requests.get(&number).is_some_and(|request| {
            matches!(
                request.state,
                State::Planned { .. } | State::Refused { .. } | State::Unanswered
            )
        });
        if over {
            self.drop_request(number);
        }
    }

    /// Sets what follows from a request's state: when it is next due, and whether it is unfinished.
    pub(super) fn refresh_request(&mut self, number: u64) {
        let (margin, two) = (self.base.margin(), self.base.two_margins());
        let request = self.state.requests.get(&number);
        let due = request.and_then(|request| {
            let end = request.last_end;
            match (&request.state, request.purpose) {
                (State::Asked | State::Accepting { .. }, Purpose::New | Purpose::Grow(_)) => {
                    Some(end.minus(two))
                }
                // Its lease has the deadline.
                (State::Asked | State::Accepting { .. }, Purpose::Extend(_))
                | (State::Granted { .. }, _) => None,
                // By then the broker's clock has passed it.
                (State::Offered { until, .. }, _) => Some(until.plus(margin)),
                (State::GivenUp, _) if mutant!(WaitsForAYear) => {
                    Some(end.plus(Span::DAY.times(365)))
                }
                (State::GivenUp, _) => {
                    let word = request.wanted.last_word();
                    Some(word.max(end.plus(request.wanted.duration)))
                }
                (State::Planned { .. } | State::Refused { .. } | State::Unanswered, _) => {
                    Some(end.plus(margin))
                }
            }
        });
        let live = request.is_some_and(|r| r.stands_alone() && r.state.is_open());
        if live {
            self.comes_live(shown_as(number));
        } else {
            self.no_longer_live(shown_as(number));
        }
        self.state.timers.set(Timer::Request(number), due);
    }
}

/// How few units of one ticket will do: each ticket of an elastic item may fall short by its share of
/// what the whole item could do without. A share is had as a whole, so those of a link do not.
fn min_units_of(wanted: &Wanted, item: u16, link: &Link, tickets: &[(u16, Ticket)]) -> NonZeroU32 {
    let units = link.units;
    let wanted = wanted.items.get(usize::from(item)).filter(|item| item.joins().is_none());
    let Some(wanted) = wanted else { return units };
    let parts = tickets.iter().filter(|(of, _)| *of == item);
    let granted: u64 = parts.map(|(_, part)| u64::from(part.bottom().units.get())).sum();
    let spare = granted.saturating_sub(u64::from(wanted.min_units.get()));
    let share = spare * u64::from(units.get()) / granted.max(1);
    let share = u32::try_from(share).unwrap_or(u32::MAX);
    NonZeroU32::new(units.get().saturating_sub(share)).unwrap_or(NonZeroU32::MIN)
}
