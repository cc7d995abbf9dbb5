//! The site authority: lends the units of one owner.
//!
//! It delegates units to brokers, keeps the tree of claims on every delegation, turns tickets into
//! leases, decides with its mapper which units a lease gets, and has its driver set them up and
//! clean them.

mod apply;
mod command;
mod delegations;
mod effects;
mod exclusion;
pub mod facts;
mod failing;
mod common;
mod handle;
mod heartbeats;
mod inventory;
pub mod machine;
pub mod mapper;
mod memory;
mod modify;
mod overbooking;
mod reclaim;
mod recall;
mod recall_cuts;
mod recall_delegation;
mod recalled;
mod redeem;
mod returns;
mod share;
mod stacks;
mod state;
mod standing;
mod survey;
pub mod unit;
mod view;

pub use self::command::Command;
pub use self::overbooking::Shortage;
pub use delegations::DelegationSurvey;
pub use inventory::WithdrawError;
pub use memory::Limits;
pub use stacks::{StackSurvey, Stacks};
pub use standing::{UnitNotes, is_number};
pub use survey::{SiteLeaseSurvey, UnitSurvey};

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::num::NonZeroU32;
use std::sync::Arc;

use imbl::{OrdMap, OrdSet};
use serde::{Deserialize, Serialize};

use crate::actor::common::PeerObligation;
use crate::actor::effect::{Effect, EffectId, Input, Problem};
use crate::actor::fact::BadFact;
use crate::actor::order;
use crate::actor::snapshot::{self, RestoreError, Settings};
use crate::actor::{Actor, Base, Cause, Role, Setup, at_most};
use crate::driver::{Epoch, UnitId};
use crate::model::identity::ActorId;
use crate::model::name::Name;
use crate::model::property::Properties;
use crate::model::resource::{Attributes, is_divisible};
use crate::model::slice::{LeaseId, SliceName};
use crate::model::time::{Span, Term, Time};
use crate::mutants::mutant;
use crate::site_authority::facts::Fact;
use crate::site_authority::machine::State;
use crate::site_authority::mapper::Decision;
use crate::site_authority::modify::Modification;
use crate::ticket::Ticket;
use crate::ticket::ledger::Ledger;
use crate::ticket::link::LinkHash;
use crate::ticket::receipt::Receipt;

/// The settings of a site beside its [`Setup`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// What it has to lend. A start journals how that differs from the plan of the last start: more units,
    /// other attributes, and fewer units, if those are idle and not delegated. What operators added or took
    /// away meanwhile stays as it is.
    pub stock: Vec<Stock>,
    /// Units that are lent to one holder at a time, by their names.
    pub stacks: Stacks,
    /// What it delegates, to whom. Of a type with units in stacks, units are delegated one by one, in the order of
    /// their names.
    pub offers: Vec<Offer>,
    /// How many setups of a unit may fail in a row before it is taken out of use; any number unless set.
    pub quarantine_after: Option<NonZeroU32>,
}

/// Units of one type.
#[derive(Clone, Debug, PartialEq)]
pub struct Stock {
    /// The type.
    pub resource: Name,
    /// What its units are like.
    pub attributes: Attributes,
    /// How many there are, named ones included; of a stock that
    /// [is divisible](crate::model::resource::is_divisible), how much.
    pub units: u32,
    /// Those that have names, each with what it is like beyond the attributes of all.
    pub named: BTreeMap<Name, Attributes>,
}

/// Units that are delegated to a broker, again and again before the delegation ends.
#[derive(Clone, Debug, PartialEq)]
pub struct Offer {
    /// The broker.
    pub broker: ActorId,
    /// The type.
    pub resource: Name,
    /// The one unit that it is for; none unless it is delegated on its own.
    pub unit: Option<Name>,
    /// How many units.
    pub units: NonZeroU32,
    /// For how long at a time.
    pub length: Span,
    /// How long before its end a delegation is renewed: at least the longest lease, so that leases cross
    /// the seam.
    pub renew_before: Span,
}

/// What one call of [`handle`](Actor::handle) produced.
pub type Output = crate::actor::effect::Output<Fact>;

/// A site authority.
#[derive(Clone, Debug, PartialEq)]
pub struct SiteAuthority {
    pub(crate) base: Base,
    plan: Plan,
    limits: Limits,
    state: state::State,
    heartbeats: heartbeats::Heartbeats,
}

/// The units of one type that are on no lease, and the leases that wait for them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct UnitPool {
    attributes: Arc<Attributes>,
    total: u32,
    free: OrdSet<UnitId>,
    cleaning: OrdSet<UnitId>,
    /// What is known of each unit that has a name, was set up before, or is drained.
    known: OrdMap<UnitId, UnitNotes>,
    /// Of a divisible stock: how much of it the shares take up that there are.
    shared: u32,
    /// Of an overbooked stock: how many leases came due, and how many of them found too few units.
    shortage: Shortage,
    /// Leases that lack units and have none on the way: how many units have failed each, and where it
    /// stands in [`state::State::short`].
    stalled: BTreeSet<(u32, u64)>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Unit {
    resource: Name,
    state: unit::State,
    epoch: Epoch,
    /// The lease that it was last set up for, until it is clean again.
    served: Option<LinkHash>,
    /// How much of a divisible stock it is; 1 for a machine.
    quantity: NonZeroU32,
    /// How much of the stock it takes up: not less, until its driver has made it smaller.
    taken: NonZeroU32,
    /// How many modifications of it there were.
    modifications: u32,
    /// How it failed, until it is clean again.
    fault: Option<String>,
}

/// The tenant of a lease, as drivers see it: kept once for all its units.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Tenancy {
    guest: ActorId,
    slice: SliceName,
    lease: LeaseId,
    configuration: Properties,
    /// How many units name it.
    units: u32,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Delegation {
    ticket: Ticket,
    /// The properties of the units when it was issued, as sent to its broker.
    attributes: Attributes,
    /// Whether an operator made it, and not the plan.
    by_hand: bool,
    /// How many units its broker has at most from now on.
    held: u32,
    /// How many of them it has when the newest generation ends.
    left: u32,
    /// How many came back for good, of all generations.
    given_back: u32,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Lease {
    state: State,
    /// Its own ticket, then its extensions.
    tickets: Vec<Ticket>,
    term: Term,
    /// Its name at its guest; none, if all that is known of it is that its ticket came back unused.
    id: Option<LeaseId>,
    /// What its configuration is charged for, until it has ended.
    configuration_bytes: usize,
    min_units: NonZeroU32,
    /// How long it goes on without a heartbeat from its guest; to its end unless set.
    keep_alive: Option<Span>,
    /// How many units it is for.
    wanted: u32,
    /// Whether it gets one share of so much, not so many units.
    divisible: bool,
    /// The last change of its configuration.
    modification: Option<Modification>,
    /// When it will go on with fewer, and with how many: the next first.
    seams: VecDeque<Seam>,
    /// The answers to returns of a part of it, by their numbers.
    returns: Returns,
    /// Units that are not put on it: those that its ticket excludes, and those that failed it.
    failed: BTreeSet<UnitId>,
    /// Where it stands among those that lack units.
    short_since: Option<u64>,
    /// Its place in [`UnitPool::stalled`].
    stalled: Option<(u32, u64)>,
    /// Whether too few units were there when it was due.
    found_short: bool,
    /// The fact behind the answer to a redeem, for each ticket in the order of their names.
    answered: Vec<(LinkHash, Cause)>,
    closed: Option<(Cause, Vec<Receipt>)>,
    /// What recalls take of it, by the links that are recalled.
    cuts: BTreeMap<LinkHash, recall::Cut>,
}

/// An instant from which on a lease is for fewer units.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Seam {
    at: Time,
    /// How many units it is for then.
    units: u32,
    /// Those that go first.
    victims: Vec<UnitId>,
}

/// What came back of a ticket part by part, by the numbers of the returns: the fact and the receipts.
type Returns = BTreeMap<u32, (Cause, Vec<Receipt>)>;

/// A ticket that is not redeemed, of which a part came back.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Rights {
    ticket: Ticket,
    returns: Returns,
}

/// A ticket that can be redeemed no more, and what came back of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Reclaimed {
    ticket: Ticket,
    /// The fact behind the answer.
    cause: Cause,
    receipts: Vec<Receipt>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
enum Obligation {
    Delegate(u64),
    Setup(UnitId),
    Teardown(UnitId),
    Modify(UnitId),
    /// The holder of a lease is to know that a unit of it failed.
    Failure(UnitId),
    /// The holder of a lease is to know what a recall takes, by the lease and the link that is recalled.
    Notice(LinkHash, LinkHash),
    /// What an actor of any role owes a peer.
    Common(PeerObligation),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
enum Timer {
    Wake,
    Renewal(u64),
    /// A lease goes on with fewer units: before another begins at the same instant.
    Seam(LinkHash),
    Lease(LinkHash),
    DelegationEnd(u64),
    /// A recall takes rights that nobody has claimed.
    Recall(LinkHash),
    /// A recall takes units of a lease.
    Cut(LinkHash),
    /// A drained unit is needed.
    Needed(UnitId),
}

impl UnitPool {
    fn is_divisible(&self) -> bool {
        is_divisible(&self.attributes)
    }

    /// What is known of a unit.
    fn notes(&self, id: UnitId) -> UnitNotes {
        self.known.get(&id).cloned().unwrap_or_default()
    }

    /// Whether a unit gets no new tenant.
    fn is_drained(&self, id: UnitId) -> bool {
        self.known.get(&id).is_some_and(|notes| notes.drained) && !mutant!(DrainedIsFree)
    }

    /// Takes a unit away that was in this state.
    fn take(&mut self, id: UnitId, from: &unit::State) {
        if *from == unit::State::Free {
            self.free.remove(&id);
        } else if from.assignable() {
            self.cleaning.remove(&id);
        }
    }

    /// Puts a unit that is in this state where it is found.
    fn put(&mut self, id: UnitId, to: &unit::State) {
        if self.is_drained(id) {
            return;
        }
        if *to == unit::State::Free {
            self.free.insert(id);
        } else if to.assignable() {
            self.cleaning.insert(id);
        }
    }
}

impl Lease {
    /// The fact behind the answer to a ticket's redeem, if it was answered.
    fn answer_to(&self, ticket: LinkHash) -> Option<Cause> {
        self.answered.iter().find(|(answered, _)| *answered == ticket).map(|(_, cause)| *cause)
    }

    /// A ticket's redeem is answered.
    fn answer(&mut self, ticket: LinkHash, cause: Cause) {
        match self.answered.binary_search_by_key(&ticket, |(answered, _)| *answered) {
            Ok(place) => self.answered[place].1 = cause,
            Err(place) => self.answered.insert(place, (ticket, cause)),
        }
    }

    fn holder(&self) -> ActorId {
        self.tickets[0].bottom().holder
    }

    /// When the last of its tickets ends.
    fn tickets_end(&self) -> Time {
        let ends = self.tickets.iter().map(|ticket| ticket.bottom().term.end());
        ends.max().unwrap_or(self.term.end())
    }

    /// How many units it is for at its end.
    fn wanted_at_end(&self) -> u32 {
        self.seams.back().map_or(self.wanted, |seam| seam.units)
    }

    /// How many units it lacks: none unless it is due.
    fn lacks(&self) -> u32 {
        match &self.state {
            State::Due => self.wanted,
            State::Priming { pending, ready } if self.divisible => {
                if pending.is_empty() && ready.is_empty() { self.wanted } else { 0 }
            }
            State::Priming { pending, ready } => {
                let has = u32::try_from(pending.len() + ready.len()).unwrap_or(u32::MAX);
                self.wanted.saturating_sub(has)
            }
            State::Early | State::Active { .. } | State::Closed { .. } => 0,
        }
    }

    /// Where it belongs in [`UnitPool::stalled`]: nowhere while units are on the way.
    fn stalls(&self) -> Option<(u32, u64)> {
        let failed = u32::try_from(self.failed.len()).unwrap_or(u32::MAX);
        match &self.state {
            State::Priming { pending, .. } if !pending.is_empty() => None,
            State::Due | State::Priming { .. } => Some((failed, self.short_since?)),
            State::Early | State::Active { .. } | State::Closed { .. } => None,
        }
    }
}

impl SiteAuthority {
    /// A site authority with an empty journal.
    pub fn new(setup: Setup, plan: Plan) -> Self {
        Self {
            base: Base::new(setup),
            state: state::State::default(),
            plan: plan.unit_by_unit(),
            limits: Limits::default(),
            heartbeats: heartbeats::Heartbeats::default(),
        }
    }

    /// The same with other limits on what it remembers for others.
    pub fn with_limits(self, limits: Limits) -> Self {
        Self { limits, ..self }
    }

    /// The units, each with its state and epoch.
    pub fn units(&self) -> impl Iterator<Item = (UnitId, &unit::State, Epoch)> {
        self.state.units.iter().map(|(&id, unit)| (id, &unit.state, unit.epoch))
    }

    /// The units that are ready for a lease, by number, each with its epoch. Passes over idle units.
    pub fn ready_units(&self) -> impl Iterator<Item = (UnitId, Epoch)> {
        self.state.busy.iter().filter_map(|id| {
            let unit = self.state.units.get(id)?;
            matches!(unit.state, unit::State::Ready { .. }).then_some((*id, unit.epoch))
        })
    }

    /// All leases that are remembered and were somebody's: the guest's name for each, its term, the
    /// ticket it began with, and where it is in its life.
    pub fn leases(&self) -> impl Iterator<Item = (LeaseId, Term, &Ticket, &State)> {
        self.state.leases.values().filter_map(|lease| {
            let id = lease.id?;
            Some((id, lease.term, &lease.tickets[0], &lease.state))
        })
    }

    /// Where a lease is in its life.
    pub fn lease(&self, ticket: LinkHash) -> Option<&State> {
        self.state.leases.get(&ticket).map(|lease| &lease.state)
    }

    /// The tree of claims.
    pub fn claims(&self) -> &Ledger {
        &self.state.claims
    }
}

impl Actor for SiteAuthority {
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
            Input::Driver(done) => self.driver_done(now, done, out),
            Input::Decision(decision) => self.decide(now, decision, out),
            Input::Command(command) => self.command(now, command, out),
            Input::Ordered(command, order) => {
                let act = |actor: &mut Self, out: &mut Output| actor.command(now, command, out);
                order::carry_out((self, now), order, out, act);
            }
            Input::Observe { .. } => out.problems.push(wrong("observation")),
        }
    }

    fn apply(&mut self, at: Time, fact: &Fact) -> Result<(), BadFact> {
        self.apply_fact(at, fact)?;
        self.base.position += 1;
        Ok(())
    }

    fn settings(&self) -> Settings {
        let renewal = |offer: &Offer| {
            let Offer { broker, resource, unit, renew_before, .. } = offer;
            (*broker, resource.clone(), unit.clone(), *renew_before)
        };
        let renewals = self.plan.offers.iter().map(renewal).collect();
        Settings { margin: self.base.margin(), leave_before: Span::ZERO, renewals }
    }

    fn snapshot(&self) -> Vec<u8> {
        snapshot::write(Role::SiteAuthority, &self.settings(), self.base.state(), &self.state)
    }

    fn restore(&mut self, bytes: &[u8]) -> Result<(), RestoreError> {
        let base;
        (base, self.state) = snapshot::read(Role::SiteAuthority, &self.settings(), bytes)?;
        self.base.set_state(base);
        self.heartbeats = heartbeats::Heartbeats::default();
        for lease in self.state.live.clone() {
            self.listen(lease, Time::MIN);
        }
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
        self.next_silence()
    }

    fn unfinished(&self, most: usize) -> Vec<String> {
        let leases = self.state.live.iter().filter_map(|lease| {
            let lease = self.state.leases.get(lease)?;
            Some(format!("lease {} is {}", lease.id?, lease.state.word()))
        });
        let units = self.state.busy.iter().filter_map(|id| {
            let unit = self.state.units.get(id)?;
            Some(format!("unit {id} is {}", unit.state.word()))
        });
        let (first, last) = (Obligation::Delegate(0), Obligation::Delegate(u64::MAX));
        let offers =
            self.state.pending.between(first, last).filter_map(|obligation| match obligation {
                Obligation::Delegate(number) => {
                    Some(format!("delegation {number} is not acknowledged"))
                }
                Obligation::Setup(_)
                | Obligation::Teardown(_)
                | Obligation::Modify(_)
                | Obligation::Failure(_)
                | Obligation::Notice(..)
                | Obligation::Common(_) => None,
            });
        at_most(leases.chain(units).chain(offers), most)
    }

    fn base(&self) -> &Base {
        &self.base
    }

    fn base_mut(&mut self) -> &mut Base {
        &mut self.base
    }
}

fn wrong(input: &'static str) -> Problem {
    Problem::WrongRole { role: "site authority", input }
}
