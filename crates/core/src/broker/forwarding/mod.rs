//! Forwarding: a broker passes on requests that it cannot meet, to brokers that take them, and brings the answers.
//!
//! Rights do not move: the other broker cuts the tickets, for the guest, and the guest redeems them at the site. What
//! is passed on is the guest's own message, so nobody on the way can ask for anything else.

mod adverts;
mod entries;
mod handed;
mod known;
mod offers;
mod passing;
mod route;

pub(super) use adverts::Adverts;
pub(super) use handed::as_decided;
pub use known::{KnownNeighbour, Liveness};
pub(super) use passing::{MAX_TRAIL, may_pass, may_wait_until};
pub(super) use route::Route;
pub use route::Tried;

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::rules::Source;
use super::{Broker, Output};
use crate::actor::{Emit as _, Role};
use crate::broker::facts::NeighbourSet;
use crate::model::identity::ActorId;
use crate::model::name::Name;
use crate::model::time::{Span, Time};
use crate::wire::handover::{ASKS, HOPS, MAX_ASKS, MAX_HOPS};
use crate::wire::refusal::Refusal;
use crate::wire::request::Request;

/// What a broker and another one do for each other's guests.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Neighbour {
    /// Whether requests are passed on to it.
    pub forward: bool,
    /// Which requests that it passes on are taken; without this, none.
    pub accept: Option<Accepted>,
}

/// Which requests of another broker's guests are taken.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Accepted {
    /// For units of these types alone; of any, if there are none.
    pub types: BTreeSet<Name>,
    /// For terms no longer than this.
    pub longest: Option<Span>,
}

impl Accepted {
    /// Why a request is not taken, if so.
    fn excludes(&self, request: &Request) -> Option<Refusal> {
        let other = request.items.iter().map(|item| &item.resource);
        let mut other = other.filter(|resource| !self.types.contains(*resource));
        if let Some(resource) = other.next().filter(|_| !self.types.is_empty()) {
            return Some(Refusal::Policy(format!("`{resource}` is not lent to such guests")));
        }
        let longest = self.longest.filter(|longest| request.min_duration > *longest)?;
        Some(Refusal::Policy(format!("such guests have units for {longest} at most")))
    }
}

/// How far a broker has the requests of its own guests passed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reach {
    /// How many times one after the other.
    pub hops: u8,
    /// To how many brokers.
    pub asks: u16,
}

impl Default for Reach {
    fn default() -> Self {
        Self { hops: HOPS, asks: ASKS }
    }
}

impl Reach {
    /// Whether it is within its bounds.
    ///
    /// # Errors
    /// Which bound it exceeds.
    pub fn check(&self) -> Result<(), String> {
        if self.hops > MAX_HOPS || self.asks > MAX_ASKS {
            return Err(format!(
                "requests are passed on {MAX_HOPS} times and to {MAX_ASKS} brokers at most"
            ));
        }
        Ok(())
    }
}

/// In which order neighbours are asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Search {
    /// Those first that have told of room for the request, the nearest first and of these the one with most; then the
    /// others, by name.
    #[default]
    Hints,
    /// By name.
    DepthFirst,
}

/// What is agreed with another broker, for display.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NeighbourSurvey {
    /// The other broker.
    pub with: ActorId,
    /// What is agreed.
    pub neighbour: Neighbour,
    /// Who says so.
    pub by: Source,
    /// How many requests it is being asked for.
    pub passed: u32,
    /// If requests are passed on to it: what was heard of it.
    pub known: Option<KnownNeighbour>,
}

impl Broker {
    /// The most brokers that something is agreed with.
    pub const MAX_NEIGHBOURS: usize = 10_000;

    /// The same broker, with what is agreed with others. A start puts in force what has changed.
    pub fn with_neighbours(self, neighbours: BTreeMap<ActorId, Neighbour>, reach: Reach) -> Self {
        Self { neighbours, reach, ..self }
    }

    /// The same broker, which asks others in this order.
    pub fn with_search(self, search: Search) -> Self {
        Self { search, ..self }
    }

    /// What is agreed with other brokers, by their ids.
    pub fn neighbours(&self, now: Time) -> Vec<NeighbourSurvey> {
        let all = self.state.neighbours.keys().into_iter();
        let mut known = self.known_neighbours(now);
        let mut known_of = |who: ActorId| {
            let place = known.iter().position(|known| known.broker == who)?;
            Some(known.swap_remove(place))
        };
        all.filter_map(|with| self.neighbour(with, known_of(with))).collect()
    }

    fn neighbour(&self, with: ActorId, known: Option<KnownNeighbour>) -> Option<NeighbourSurvey> {
        let neighbour = self.state.neighbours.of(with)?.clone();
        let by = self.state.neighbours.source(with)?;
        Some(NeighbourSurvey { with, neighbour, by, passed: self.passed_to(with), known })
    }

    /// What the configuration says of other brokers is put in force.
    pub(super) fn configure_neighbours(&mut self, now: Time, out: &mut Output) {
        for (with, neighbour) in self.state.neighbours.outdated(&self.neighbours) {
            self.emit(now, NeighbourSet { with, neighbour, by: Source::Configuration }, out);
        }
    }

    /// An operator says what is agreed with a broker.
    pub(super) fn set_neighbour(
        &mut self,
        now: Time,
        with: ActorId,
        neighbour: Neighbour,
        out: &mut Output,
    ) -> Result<(), String> {
        if !self.base.is_known(with, Role::Broker) || with == self.base.id() {
            return Err("requests are passed on to a broker that is known here".to_owned());
        }
        let all = self.state.neighbours.keys();
        if !all.contains(&with) && all.len() >= Self::MAX_NEIGHBOURS {
            return Err(format!("it has {} neighbours already", Self::MAX_NEIGHBOURS));
        }
        let fact = NeighbourSet { with, neighbour: Some(neighbour.clone()), by: Source::Operator };
        self.emit(now, fact, out);
        self.introduce(now, (with, &neighbour), out);
        Ok(())
    }

    pub(super) fn neighbour_set(&mut self, fact: &NeighbourSet) {
        self.state.neighbours.put(fact.with, fact.neighbour.clone(), fact.by);
        self.call_for_open();
    }

    /// Whether it passes requests on to a broker.
    fn passes_to(&self, who: ActorId) -> bool {
        let forward = self.state.neighbours.of(who).is_some_and(|of| of.forward);
        forward && self.base.is_known(who, Role::Broker)
    }

    /// The brokers that it passes requests on to, by name.
    pub(super) fn forwards_to(&self) -> Vec<(Name, ActorId)> {
        let to = self.state.neighbours.keys().into_iter().filter(|who| self.passes_to(*who));
        let mut to: Vec<_> = to.map(|who| (self.base.name_of(who), who)).collect();
        to.sort();
        to
    }
}
