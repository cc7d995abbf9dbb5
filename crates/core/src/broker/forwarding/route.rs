//! The way of one request through brokers.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::Reach;
use crate::broker::portions::Rounds;
use crate::model::identity::ActorId;
use crate::model::name::Name;
use crate::model::time::Time;
use crate::wire::handover::{Handover, Hop, HopAnswer};
use crate::wire::message::Sealed;
use crate::wire::offer::Offer;
use crate::wire::portion::Portion;
use crate::wire::refusal::Refusal;

/// How a request that may be passed on came here, and who was asked for it since.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Route {
    /// The guest's message, until it is answered.
    pub(crate) sealed: Option<Sealed>,
    /// The brokers before this one; none if its guest has come here.
    pub(crate) path: Vec<ActorId>,
    /// How many times it may be passed on from here, one after the other.
    pub(crate) hops: u8,
    /// Since when the broker that it was last passed on to has it.
    pub(crate) since: Time,
    /// What was tried.
    pub(crate) tried: Arc<Tried>,
    /// If another broker has asked for a portion of the request: which.
    pub(crate) portion: Option<Portion>,
    /// In which rounds it was gathered here.
    pub(crate) rounds: Rounds,
}

/// What was tried for a request.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tried {
    /// The brokers that were asked, or are on its path.
    pub asked: BTreeSet<ActorId>,
    /// How many more may be asked.
    pub asks: u16,
    /// What they said.
    pub trail: Vec<Hop>,
    /// What those could give instead that have refused it: the nearest to what was asked for.
    pub offers: Vec<Offer>,
}

impl Route {
    /// That of a request whose guest has come here.
    pub(crate) fn first(sealed: Sealed, Reach { hops, asks }: Reach, at: Time) -> Self {
        let tried = Arc::new(Tried { asks, ..Tried::default() });
        let (portion, rounds) = (None, Rounds::default());
        Self { sealed: Some(sealed), path: Vec::new(), hops, since: at, tried, portion, rounds }
    }

    /// That of a request that another broker has handed on.
    pub(crate) fn handed(handover: &Handover, at: Time) -> Self {
        let Handover { sealed, path, asked, hops, asks, .. } = handover;
        let asked = asked.iter().chain(path).copied().collect();
        let tried = Arc::new(Tried { asked, asks: *asks, ..Tried::default() });
        let (sealed, path) = (Some(sealed.clone()), path.clone());
        let (portion, rounds) = (None, Rounds::default());
        Self { sealed, path, hops: *hops, since: at, tried, portion, rounds }
    }

    /// That of a request of which another broker has asked for a portion.
    pub(crate) fn portion(handover: &Handover, portion: Portion, at: Time) -> Self {
        Self { portion: Some(portion), ..Self::handed(handover, at) }
    }

    /// The broker that has handed it on.
    pub(crate) fn from(&self) -> Option<ActorId> {
        self.path.last().copied()
    }

    /// What was tried, if it may be passed on.
    pub(crate) fn open(&self) -> Option<&Arc<Tried>> {
        Some(&self.tried).filter(|tried| self.hops > 0 && tried.asks > 0 && self.sealed.is_some())
    }
}

impl Tried {
    /// The best of the refusals of a request: this one, and what other brokers said. That it can never be is said only
    /// if all of `neighbours` say so: one that was not heard, or not asked, may have it.
    pub fn best<'a>(
        &self,
        own: Refusal,
        neighbours: impl IntoIterator<Item = (&'a Name, ActorId)>,
    ) -> Refusal {
        let said = |who: ActorId| {
            let answered = |said: &HopAnswer| !matches!(said, HopAnswer::Nothing | HopAnswer::Seen);
            self.trail.iter().any(|hop| hop.broker == who && answered(&hop.said))
        };
        let neighbours = neighbours.into_iter();
        let unheard = neighbours.filter(|(_, who)| !said(*who) && !self.is_before(*who));
        let brokers: Vec<Name> = unheard.map(|(name, _)| name.clone()).collect();
        let unheard = Some(Refusal::Unheard { brokers: brokers.clone() });
        let all = self.refusals().cloned().chain(unheard.filter(|_| !brokers.is_empty()));
        all.fold(own, better)
    }

    /// What brokers have refused with.
    pub(crate) fn refusals(&self) -> impl Iterator<Item = &Refusal> {
        self.trail.iter().filter_map(|hop| match &hop.said {
            HopAnswer::Refused(refusal) | HopAnswer::Held(Some(refusal)) => Some(refusal),
            HopAnswer::Granted
            | HopAnswer::Held(None)
            | HopAnswer::Seen
            | HopAnswer::Nothing
            | HopAnswer::Offered => None,
        })
    }

    /// Whether a broker was asked by another one.
    fn is_before(&self, broker: ActorId) -> bool {
        self.asked.contains(&broker) && !self.trail.iter().any(|hop| hop.broker == broker)
    }
}

/// Of two refusals the one to pass on: if both say when, the earlier.
fn better(one: Refusal, other: Refusal) -> Refusal {
    let earliest = |refusal: &Refusal| {
        let Refusal::Busy { earliest, .. } = refusal else { return None };
        earliest.map(std::cmp::Reverse)
    };
    match one.rank().cmp(&other.rank()).then(earliest(&one).cmp(&earliest(&other))) {
        std::cmp::Ordering::Less => other,
        std::cmp::Ordering::Equal | std::cmp::Ordering::Greater => one,
    }
}
