//! The broker: takes delegations from sites, and cuts tickets from them for those who ask.

mod apply;
pub mod facts;
mod handle;
pub mod machine;
pub mod mapper;
mod state;
mod survey;

pub use survey::{HoldingSurvey, RequestSurvey};

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;

use serde::{Deserialize, Serialize};

use crate::actor::effect::{Effect, EffectId, Input, Problem};
use crate::actor::fact::BadFact;
use crate::actor::snapshot::{self, RestoreError, Settings};
use crate::actor::{Actor, Base, Cause, Role, Setup, at_most};
use crate::broker::facts::Fact;
use crate::broker::machine::State;
use crate::broker::mapper::{Decision, Source, View};
use crate::model::calendar::Calendar;
use crate::model::identity::ActorId;
use crate::model::name::Name;
use crate::model::resource::Attributes;
use crate::model::slice::RequestId;
use crate::model::time::{Span, Time};
use crate::ticket::Ticket;
use crate::ticket::ledger::{LEDGER_RETENTION, Ledger};
use crate::ticket::link::{AccountId, DelegationId, LinkHash};
use crate::wire::message::Request;

/// What one call of [`handle`](Actor::handle) produced.
pub type Output = crate::actor::effect::Output<Fact>;

/// A broker.
#[derive(Clone, Debug, PartialEq)]
pub struct Broker {
    pub(crate) base: Base,
    /// Their accounts by type, each type's by the name of the site. Follows from the holdings.
    by_type: BTreeMap<Name, BTreeSet<(Name, AccountId)>>,
    state: state::State,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Holding {
    ticket: Ticket,
    attributes: Attributes,
    taken: Cause,
}

/// A ticket that was cut.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
struct IssuedTicket {
    request: RequestId,
    /// Its place among the tickets of the request.
    place: usize,
    /// The fact by which its receipt was taken.
    credited: Option<Cause>,
}

/// What one service manager's requests take up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Share {
    requests: u32,
    open: u32,
    bytes: u64,
}

impl Share {
    /// Whether there is room for one more request.
    fn has_room(&self) -> bool {
        self.requests < Broker::MAX_OF_ONE
            && self.open < Broker::MAX_OPEN_OF_ONE
            && self.bytes < Broker::MAX_BYTES_OF_ONE
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Record {
    state: State,
    /// What was asked for, as long as the request is remembered.
    wanted: Wanted,
    came_at: u64,
    /// How long its state is, encoded.
    bytes: u64,
    /// When an open request is refused, and when a closed one is forgotten.
    answer_by: Time,
    expires_at: Time,
    answered: Option<Cause>,
}

/// What a request asks for, in short.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wanted {
    /// The type of its first item.
    pub resource: Name,
    /// The units of all of its items.
    pub units: u32,
    /// How few of them would do.
    pub least: u32,
    /// The earliest start.
    pub earliest: Time,
    /// The latest start.
    pub latest: Time,
    /// For how long.
    pub duration: Span,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
enum Obligation {
    Consult,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
enum Timer {
    Wake,
    Request(RequestId),
    DelegationEnd(DelegationId),
}

impl Broker {
    /// The most requests that wait for a decision at one time.
    pub const MAX_OPEN: usize = 100_000;

    /// The most requests of one service manager that are remembered at one time.
    pub const MAX_OF_ONE: u32 = 100_000;

    /// The most requests of one service manager that wait for a decision at one time: others have room.
    pub const MAX_OPEN_OF_ONE: u32 = 10_000;

    /// The bytes of one service manager's remembered requests from which on it gets no new one.
    pub const MAX_BYTES_OF_ONE: u64 = 1 << 26;

    /// The most delegations that it holds.
    pub const MAX_HOLDINGS: usize = 10_000;

    /// A broker with an empty journal.
    pub fn new(setup: Setup) -> Self {
        Self { base: Base::new(setup), state: state::State::default(), by_type: BTreeMap::new() }
    }

    /// What the mapper is shown, if a round is open.
    pub fn view(&self, now: Time) -> Option<View<'_>> {
        self.state.rounds.open().map(|round| View::new(self, now, round))
    }

    /// What was cut from the tickets it holds.
    pub fn ledger(&self) -> &Ledger {
        &self.state.ledger
    }

    /// The request that a ticket was cut for, while it is remembered.
    pub fn request_of(&self, ticket: LinkHash) -> Option<RequestId> {
        self.state.issued.get(&ticket).map(|issued| issued.request)
    }

    /// All requests that are remembered.
    pub fn requests(&self) -> impl Iterator<Item = (RequestId, &State)> {
        self.state.requests.iter().map(|(&id, record)| (id, &record.state))
    }

    /// Where a request is in its life.
    pub fn request(&self, id: RequestId) -> Option<&State> {
        self.state.requests.get(&id).map(|record| &record.state)
    }

    pub(crate) fn open_requests(&self) -> impl Iterator<Item = &Request> {
        self.state.open.values().filter_map(|id| match &self.state.requests.get(id)?.state {
            State::Open { request } => Some(&**request),
            State::Granted { .. } | State::Returned { .. } | State::Refused { .. } => None,
        })
    }

    /// The types of what it holds.
    pub(crate) fn types(&self) -> impl Iterator<Item = &Name> {
        self.by_type.keys()
    }

    /// What it can cut from units of a type, by site name and account.
    pub(crate) fn sources_of<'a>(
        &'a self,
        resource: &Name,
    ) -> impl Iterator<Item = Source<'a>> + use<'a> {
        let listed = self.by_type.get(resource).into_iter().flatten();
        listed.filter_map(|(site_name, account)| {
            let holding = self.state.holdings.get(account)?;
            let link = holding.ticket.bottom();
            Some(Source {
                account: *account,
                site: holding.ticket.site(),
                site_name,
                resource: &link.resource,
                attributes: &holding.attributes,
                units: link.units.get(),
                until: link.term.end(),
                free: self.state.ledger.account(*account)?.free().clone(),
            })
        })
    }

    pub(crate) fn totals(&self) -> &BTreeMap<Name, Calendar> {
        &self.state.totals
    }

    pub(crate) fn first_start(&self, request: &Request, now: Time) -> Time {
        let end = request.earliest.plus(request.duration);
        let over = end <= now.plus(self.base.two_margins());
        if over || request.earliest < now.minus(LEDGER_RETENTION) {
            now.min(request.latest).max(request.earliest)
        } else {
            request.earliest
        }
    }

    fn share_of(&self, guest: ActorId) -> Share {
        self.state.of_each.get(&guest).copied().unwrap_or_default()
    }

    /// A ticket that it has cut, while the request is remembered.
    fn ticket(&self, issued: &IssuedTicket) -> Option<&Ticket> {
        match &self.state.requests.get(&issued.request)?.state {
            State::Granted { tickets, .. } | State::Returned { tickets } => {
                tickets.get(issued.place).map(|(_, ticket)| ticket)
            }
            State::Open { .. } | State::Refused { .. } => None,
        }
    }

    pub(crate) fn cut_from(&self, ticket: LinkHash) -> Option<(AccountId, u32)> {
        self.state.ledger.entered(ticket).map(|(account, link)| (account, link.units.get()))
    }

    fn name_of(&self, site: ActorId) -> Name {
        let peer = self.base.setup.peers.get(&site);
        peer.map_or_else(|| self.base.setup.name.clone(), |peer| peer.name.clone())
    }

    /// Enters a holding in the list of its type.
    fn list(&mut self, account: AccountId, ticket: &Ticket) {
        let place = (self.name_of(ticket.site()), account);
        self.by_type.entry(ticket.bottom().resource.clone()).or_default().insert(place);
    }

    /// Strikes a holding off the list of its type.
    fn unlist(&mut self, account: AccountId, ticket: &Ticket) {
        let place = (self.name_of(ticket.site()), account);
        let resource = &ticket.bottom().resource;
        if let Some(listed) = self.by_type.get_mut(resource) {
            listed.remove(&place);
            if listed.is_empty() {
                self.by_type.remove(resource);
            }
        }
    }
}

impl Actor for Broker {
    type Fact = Fact;
    type Command = Infallible;
    type Decision = Decision;

    fn handle(&mut self, now: Time, input: Input<Infallible, Decision>, out: &mut Output) {
        match input {
            Input::Start => self.start(now, out),
            Input::Message(sealed) => self.message(now, &sealed, out),
            Input::Tick => self.tick(now, out),
            Input::Decision(decision) => self.decide(now, decision, out),
            Input::Driver(_) => out.problems.push(wrong("driver's answer")),
            Input::Observe { .. } => out.problems.push(wrong("observation")),
            Input::Command(command) => match command {},
        }
    }

    fn apply(&mut self, at: Time, fact: &Fact) -> Result<(), BadFact> {
        self.apply_fact(at, fact)?;
        self.base.position += 1;
        Ok(())
    }

    fn settings(&self) -> Settings {
        Settings { margin: self.base.margin(), ..Settings::default() }
    }

    fn snapshot(&self) -> Vec<u8> {
        snapshot::write(Role::Broker, &self.settings(), self.base.position, &self.state)
    }

    fn restore(&mut self, bytes: &[u8]) -> Result<(), RestoreError> {
        (self.base.position, self.state) = snapshot::read(Role::Broker, &self.settings(), bytes)?;
        self.by_type.clear();
        let held = &self.state.holdings;
        let held: Vec<_> = held.iter().map(|(&id, h)| (id, h.ticket.clone())).collect();
        held.iter().for_each(|(account, ticket)| self.list(*account, ticket));
        Ok(())
    }

    fn effects_after(&self, position: u64) -> Vec<(EffectId, Effect)> {
        let consult = |obligation: &Obligation| match obligation {
            Obligation::Consult => self.state.rounds.open().map(|round| Effect::Consult { round }),
        };
        self.state
            .pending
            .after(position)
            .filter_map(|(id, obligation, _)| Some((id, consult(obligation)?)))
            .collect()
    }

    fn is_pending(&self, id: EffectId) -> bool {
        self.state.pending.is_pending(id)
    }

    fn next_timeout(&self) -> Option<Time> {
        self.state.timers.next()
    }

    fn unfinished(&self, most: usize) -> Vec<String> {
        at_most(self.state.open.values().map(|id| format!("request {id} is not decided")), most)
    }

    fn base(&self) -> &Base {
        &self.base
    }

    fn base_mut(&mut self) -> &mut Base {
        &mut self.base
    }
}

fn wrong(input: &'static str) -> Problem {
    Problem::WrongRole { role: "broker", input }
}
