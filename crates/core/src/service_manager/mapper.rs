//! What a service manager's mapper sees and decides.

use crate::actor::fact::Memo;
use crate::model::identity::ActorId;
use crate::model::name::Name;
use crate::model::property::Properties;
use crate::model::slice::{LeaseId, SliceName};
use crate::model::time::{Span, Term, Time};
use crate::service_manager::ServiceManager;
use crate::service_manager::machine::{Extension, State};
use crate::wire::message::Item;

/// Decides what a guest asks for, keeps and gives back.
pub trait ServiceManagerMapper: Send {
    /// Answers one round. The same view, memo and all, must get the same answer.
    fn decide(&self, view: &View<'_>) -> Decision;
}

/// A wish for units, to be sent to a broker.
#[derive(Clone, Debug, PartialEq)]
pub struct Ask {
    /// Whom to ask; the only broker known if none is named.
    pub broker: Option<ActorId>,
    /// The slice the leases will be in.
    pub slice: SliceName,
    /// What is asked for, all together or not at all.
    pub items: Vec<Item>,
    /// The earliest start that suits.
    pub earliest: Time,
    /// The latest start that suits.
    pub latest: Time,
    /// For how long.
    pub duration: Span,
    /// When an answer is of no more use.
    pub answer_by: Time,
    /// For the broker's mapper.
    pub properties: Properties,
    /// For the site's driver.
    pub configuration: Properties,
    /// Why.
    pub reason: String,
}

/// A lease to be kept for longer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Extend {
    /// The lease.
    pub lease: LeaseId,
    /// For how much longer.
    pub duration: Span,
    /// Why.
    pub reason: String,
}

/// The answer to a round.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Decision {
    /// The round that is answered.
    pub round: u64,
    /// What to ask for.
    pub asks: Vec<Ask>,
    /// What to keep for longer.
    pub extensions: Vec<Extend>,
    /// What to give back.
    pub closes: Vec<LeaseId>,
    /// What to remember, if that changed.
    pub memo: Option<Memo>,
    /// When to be asked again even if nothing happens.
    pub wake: Option<Time>,
}

/// A lease as the mapper sees it.
#[derive(Clone, Copy, Debug)]
pub struct LeaseView<'a> {
    /// Its name.
    pub id: LeaseId,
    /// Where it is in its life.
    pub state: &'a State,
    /// The type of its units.
    pub resource: &'a Name,
    /// How many units it is for.
    pub units: u32,
    /// The term held or, before it is granted, asked for.
    pub term: Term,
}

impl LeaseView<'_> {
    /// Whether an extension can be asked for now.
    pub fn extendable(&self) -> bool {
        match self.state {
            State::Joining { held } | State::Active { held } => held.extension == Extension::None,
            State::Redeeming { .. }
            | State::Leaving { .. }
            | State::Closing { .. }
            | State::Crediting { .. }
            | State::Closed { .. } => false,
        }
    }
}

/// A service manager, read only, at one instant.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    actor: &'a ServiceManager,
    now: Time,
    round: u64,
}

impl<'a> View<'a> {
    pub(crate) fn new(actor: &'a ServiceManager, now: Time, round: u64) -> Self {
        Self { actor, now, round }
    }

    /// The time of the question.
    pub fn now(&self) -> Time {
        self.now
    }

    /// The round to answer.
    pub fn round(&self) -> u64 {
        self.round
    }

    /// What was remembered.
    pub fn memo(&self) -> &'a Memo {
        self.actor.rounds.memo()
    }

    /// The last value of a signal.
    pub fn signal(&self, name: &Name) -> Option<i64> {
        self.actor.signals.get(name).copied()
    }

    /// The units of a type that are held or asked for at `t`: those whose term contains it.
    pub fn held_at(&self, resource: &Name, t: Time) -> i64 {
        self.actor.holdings.get(resource).map_or(0, |holdings| holdings.free_at(t))
    }

    /// One lease.
    pub fn lease(&self, id: LeaseId) -> Option<LeaseView<'a>> {
        let lease = self.actor.leases.get(&id)?;
        Some(LeaseView {
            id,
            state: &lease.state,
            resource: &lease.resource,
            units: lease.units,
            term: lease.term,
        })
    }

    /// The leases whose terms end in `(now, until]`, the next first.
    pub fn ending_by(&self, until: Time) -> impl Iterator<Item = LeaseView<'a>> {
        let view = *self;
        let first = LeaseId { number: 0, part: 0 };
        self.actor
            .ending
            .range((view.now.plus(Span::from_micros(1)), first)..)
            .take_while(move |(end, _)| *end <= until)
            .filter_map(move |&(_, id)| view.lease(id))
    }

    /// The leases with units, the last to end first.
    pub fn last_to_end(&self) -> impl Iterator<Item = LeaseView<'a>> {
        let view = *self;
        self.actor.ending.iter().rev().filter_map(move |&(_, id)| view.lease(id))
    }

    /// The brokers known by configuration, by name.
    pub fn brokers(&self) -> impl Iterator<Item = (&'a Name, ActorId)> {
        self.actor.base.peers_of(crate::actor::Role::Broker)
    }
}
