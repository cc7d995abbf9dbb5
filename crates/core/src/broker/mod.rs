//! The broker: takes delegations from sites, and cuts tickets from them for those who ask.

pub mod advice;
mod answer;
mod apply;
pub mod availability;
mod command;
mod delegating;
mod effects;
mod allocation;
pub mod facts;
pub mod forwarding;
mod giving_back;
mod common;
mod handle;
mod hold;
mod hosts;
pub mod lenders;
mod reclaim;
mod revise;
pub mod machine;
pub mod mapper;
pub mod needs;
pub mod orders;
pub mod portions;
pub mod quota;
mod relation;
mod recall;
mod recalled;
pub mod rules;
mod selling;
pub mod sharing;
mod state;
mod survey;
mod view;

pub use self::command::Command;
pub use delegating::DelegatedSurvey;
pub use survey::{HoldingSurvey, QuotaSurvey, RequestSurvey};

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::actor::common::PeerObligation;
use crate::actor::effect::{Effect, EffectId, Input, Problem};
use crate::actor::fact::BadFact;
use crate::actor::order;
use crate::actor::snapshot::{self, RestoreError, Settings};
use crate::actor::{Actor, Base, Cause, Role, Setup, at_most};
use crate::broker::availability::Disclosures;
use crate::broker::facts::Fact;
use crate::broker::forwarding::{Adverts, Neighbour, Reach, Route, Search};
use crate::broker::machine::State;
use crate::broker::mapper::Decision;
use crate::broker::orders::Swing;
use crate::broker::portions::HOLD;
use crate::broker::quota::{Quota, Whose};
use crate::broker::sharing::Sharing;
use crate::model::identity::ActorId;
use crate::model::name::Name;
use crate::model::resource::Attributes;
use crate::model::slice::RequestId;
use crate::model::time::{Span, Time};
use crate::service::steps::Kind;
use crate::ticket::Ticket;
use crate::ticket::ledger::Ledger;
use crate::ticket::link::{AccountId, DelegationId, LinkHash};
use crate::wire::recall::Notice;

/// What one call of [`handle`](Actor::handle) produced.
pub type Output = crate::actor::effect::Output<Fact>;

/// A broker.
#[derive(Clone, Debug, PartialEq)]
pub struct Broker {
    pub(crate) base: Base,
    /// The configured quotas.
    quotas: BTreeMap<Whose, Quota>,
    state: state::State,
    /// What views show beside the state. Follows from it.
    index: view::Index,
    /// Its own prices, by type.
    prices: BTreeMap<Name, u32>,
    /// Whom it tells how much of what it has.
    disclosures: Disclosures,
    /// How much it takes from services for others at most.
    swing: Swing,
    /// What it shares with other brokers, as configured.
    sharings: BTreeMap<ActorId, Sharing>,
    /// With which brokers it passes on requests, as configured.
    neighbours: BTreeMap<ActorId, Neighbour>,
    /// How far requests of its guests are passed on.
    reach: Reach,
    /// In which order other brokers are asked.
    search: Search,
    /// How long others hold portions of a request that is gathered here.
    hold: Span,
    /// What it and other brokers tell each other of themselves.
    adverts: Adverts,
    /// Whether it sells nothing that others have lent while these are silent.
    pauses: bool,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Holding {
    ticket: Ticket,
    attributes: Attributes,
    taken: Cause,
    /// How many returns of parts of it were begun: each has a number.
    returns: u32,
    /// The last recall of it, and the fact behind the answer.
    recalled: Option<(Notice, Cause)>,
}

/// What a broker owes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
enum Obligation {
    /// A delegation is offered to another broker.
    Delegate(u64),
    /// A site is asked to take a part of a holding back.
    Return(AccountId),
    /// The issuer of a holding is shown that a part of it came back.
    Credit(AccountId),
    /// A site is asked for what nobody claims of a ticket.
    Reclaim(LinkHash),
    /// A site is asked to recall units of a ticket.
    Recall(LinkHash),
    /// What an actor of any role owes a peer.
    Common(PeerObligation),
    /// A guest is to state the hosts of a service anew, of which this is the last revision.
    HostsChanged(ActorId, u64),
    /// A request is passed on to another broker, or the rest of it is.
    Pass(RequestId),
    /// A broker is to grant what it holds of a request.
    Take(RequestId, ActorId),
}

/// A ticket that was cut.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct IssuedTicket {
    request: RequestId,
    /// Its place among the tickets of the request.
    place: usize,
    /// The facts by which its receipts were taken, by their numbers.
    credited: BTreeMap<u32, Cause>,
    /// How many of its units are out, and until when; of one that came back, the last that were.
    units: u32,
    until: Time,
    /// Whether nothing of it is out any more.
    returned: bool,
    /// Since when its holder has its units: of an extension, since the first of what it goes on from began.
    since: Time,
    /// Whose quota it counts towards.
    answers: ActorId,
}

impl IssuedTicket {
    /// A ticket of which nothing came back.
    fn new(
        ticket: &Ticket,
        (request, place): (RequestId, usize),
        since: Time,
        answers: ActorId,
    ) -> Self {
        let link = ticket.bottom();
        let (units, until, credited) = (link.units.get(), link.term.end(), BTreeMap::new());
        Self { request, place, credited, units, until, returned: false, since, answers }
    }
}

/// What the requests take up that one peer answers for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// How many are remembered.
    pub requests: u32,
    /// How many of them wait for a decision.
    pub open: u32,
    /// For how many of them offers are held.
    pub held: u32,
    /// How many bytes they take.
    pub bytes: u64,
}

impl Usage {
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
    /// If it may be passed on, or was: its way.
    route: Option<Route>,
    /// Whose quota it counts towards: the broker's that has handed it on, its guest's, or, of an extension, that of what
    /// it extends. It stays the same.
    answers: ActorId,
}

/// What a request asks for, in short.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wanted {
    /// The type of its first item.
    pub resource: Name,
    /// The units of all of its items.
    pub units: u32,
    /// How few of them would do.
    pub min_units: u32,
    /// The earliest start.
    pub earliest: Time,
    /// The latest start.
    pub latest: Time,
    /// For how long.
    pub duration: Span,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
enum Timer {
    Wake,
    Request(RequestId),
    DelegationEnd(DelegationId),
    /// A ticket may be unclaimed.
    Reclaim(LinkHash),
    /// A delegation to another broker is over.
    IssuedEnd(u64),
    /// An order has to have ended.
    Order(u64),
    /// What is shared is compared with what is lent.
    Sharing,
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

    /// The most delegations that it holds: of 1,000 sites with 1,000 types each.
    pub const MAX_HOLDINGS: usize = 1_000_000;

    /// A broker with an empty journal.
    pub fn new(setup: Setup) -> Self {
        Self {
            base: Base::new(setup),
            quotas: BTreeMap::new(),
            state: state::State::default(),
            index: view::Index::default(),
            prices: BTreeMap::new(),
            disclosures: Disclosures::default(),
            swing: Swing::default(),
            sharings: BTreeMap::new(),
            neighbours: BTreeMap::new(),
            reach: Reach::default(),
            search: Search::default(),
            hold: HOLD,
            adverts: Adverts::default(),
            pauses: false,
        }
    }

    /// The same with prices of its own, by type: it sells and delegates at them, whatever it pays itself.
    pub fn with_prices(self, prices: BTreeMap<Name, u32>) -> Self {
        Self { prices, ..self }
    }

    /// The same, which tells peers that ask so much of what it has.
    pub fn with_disclosures(self, disclosures: Disclosures) -> Self {
        Self { disclosures, ..self }
    }

    /// The same, which takes no more from services for others.
    pub fn with_swing(self, swing: Swing) -> Self {
        Self { swing, ..self }
    }

    /// The same with these quotas. A start puts those in force that have changed.
    pub fn with_quotas(self, quotas: BTreeMap<Whose, Quota>) -> Self {
        Self { quotas, ..self }
    }

    /// How many units of a kind it has, free or not.
    pub fn units_like(&self, kind: &Kind) -> u64 {
        self.index.units_like(kind)
    }

    /// What was cut from the tickets it holds.
    pub fn ledger(&self) -> &Ledger {
        &self.state.ledger
    }

    /// The request that a ticket was cut for, while it is remembered.
    pub fn request_of(&self, ticket: LinkHash) -> Option<RequestId> {
        self.state.issued.get(&ticket).map(|issued| issued.request)
    }

    /// Whether nothing of a ticket is out any more, as far as receipts say.
    pub fn is_returned(&self, ticket: LinkHash) -> bool {
        self.state.issued.get(&ticket).is_some_and(|issued| issued.returned)
    }

    /// All requests that are remembered.
    pub fn requests(&self) -> impl Iterator<Item = (RequestId, &State)> {
        self.state.requests.iter().map(|(&id, record)| (id, &record.state))
    }

    /// Where a request is in its life.
    pub fn request(&self, id: RequestId) -> Option<&State> {
        self.state.requests.get(&id).map(|record| &record.state)
    }

    fn usage_of(&self, peer: ActorId) -> Usage {
        self.state.of_each.get(&peer).copied().unwrap_or_default()
    }

    /// Who answers for a request, so that it counts towards that peer's quota.
    fn answers_for(&self, id: RequestId) -> ActorId {
        self.state.requests.get(&id).map_or(id.origin, |record| record.answers)
    }
}

impl Actor for Broker {
    type Fact = Fact;
    type Command = Command;
    type Decision = Decision;

    fn handle(&mut self, now: Time, input: Input<Command, Decision>, out: &mut Output) {
        match input {
            Input::Start => self.start(now, out),
            Input::Message(sealed) => {
                self.message(now, &sealed, out);
                self.base.credentials.forget_shown();
            }
            Input::Tick => self.tick(now, out),
            Input::Decision(decision) => self.decide(now, decision, out),
            Input::Driver(_) => out.problems.push(wrong("driver's answer")),
            Input::Observe { .. } => out.problems.push(wrong("observation")),
            Input::Command(command) => self.command(now, command, out),
            Input::Ordered(command, order) => {
                let act = |actor: &mut Self, out: &mut Output| actor.command(now, command, out);
                order::carry_out((self, now), order, out, act);
            }
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
        snapshot::write(Role::Broker, &self.settings(), self.base.state(), &self.state)
    }

    fn restore(&mut self, bytes: &[u8]) -> Result<(), RestoreError> {
        let base;
        (base, self.state) = snapshot::read(Role::Broker, &self.settings(), bytes)?;
        self.base.set_state(base);
        self.index = view::Index::of(&self.state, &self.base, &self.prices);
        Ok(())
    }

    fn effects_after(&self, position: u64) -> Vec<(EffectId, Effect)> {
        let effect = |(id, obligation, at): (EffectId, &Obligation, Time)| {
            Some((id, self.effect(obligation, (id, at))?))
        };
        self.state.pending.after(position).filter_map(effect).collect()
    }

    fn is_pending(&self, id: EffectId) -> bool {
        self.state.pending.is_pending(id)
    }

    fn open_round(&self) -> Option<u64> {
        self.state.rounds.open()
    }

    fn next_timeout(&self) -> Option<Time> {
        self.state.timers.next()
    }

    fn next_volatile(&self) -> Option<Time> {
        self.next_advert()
    }

    fn unfinished(&self, most: usize) -> Vec<String> {
        let open = self.state.open.values().map(|id| format!("request {id} is not decided"));
        at_most(open.chain(self.owed()), most)
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
