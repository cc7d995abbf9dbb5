//! What a broker's mapper sees and decides.

use serde::{Deserialize, Serialize};

use crate::actor::fact::Memo;
use crate::model::identity::ActorId;
use crate::model::slice::RequestId;
use crate::model::time::{Term, Time};
use crate::ticket::link::AccountId;
use crate::wire::offer::Waiting;
use crate::wire::refusal::Refusal;

pub use super::forwarding::Tried;
pub use super::needs::{KnownNeed, ServiceId};
pub use super::orders::{Budget, OpenOrder, OrderEnd, OrderOutcome, OrderState, Swing, UnitOrder};
pub use super::portions::Stage;
pub use super::view::{Grant, NeedView, Source, View};

/// Decides who gets how many units of what, where and when. It sees all open requests and may answer
/// any of them, several items of several types together.
pub trait BrokerMapper: Send {
    /// Answers one round. The same view, memo and all, must get the same answer. What it leaves out stays
    /// open.
    fn decide(&self, view: &View) -> Decision;

    /// By how much a claim has to be more urgent than the use that it ends, if units are ordered by urgency alone.
    fn least_gain(&self) -> Option<u64> {
        None
    }

    /// How much it may take from services for others, which the broker sees to. It takes nothing unless it says so.
    fn swing(&self) -> Swing {
        Swing::default()
    }
}

/// How a request is met, or could be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Allocation {
    /// The common term; that of an item begins its offset later.
    pub term: Term,
    /// For each item the units to cut from each source: none for those of other choices.
    pub parts: Vec<Vec<(AccountId, u32)>>,
}

impl Allocation {
    /// All its units, times the microseconds of the common term.
    pub fn unit_micros(&self) -> u128 {
        let units = self.parts.iter().flatten().map(|&(_, units)| u128::from(units));
        let micros = u128::try_from(self.term.duration().as_micros()).unwrap_or(0);
        units.sum::<u128>() * micros
    }
}

/// What becomes of a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Verdict {
    /// It is met. Of a request for a plan or a hold this is an offer.
    Grant(Allocation),
    /// It is not.
    Refuse {
        /// Why.
        refusal: Refusal,
        /// What could be had instead: later, less or for a shorter time.
        offers: Vec<Allocation>,
    },
    /// It could be met in these ways: the answer to a request for a plan or a hold. What is held is cut from
    /// what is free, all offers beside each other.
    Offer {
        /// The ways, the best first.
        offers: Vec<Allocation>,
        /// Why the request cannot be met as it is, if so.
        refusal: Option<Refusal>,
    },
    /// It stays open and waits.
    Wait(Waiting),
    /// It is passed on to another broker, one of its [routes](View::routes). Of a request of which a portion is kept,
    /// the rest is.
    Pass(ActorId),
    /// A portion of it is kept back for it, and the rest is open to decision then: of one that is
    /// [divisible](Stage::Divisible), or [a portion](Stage::Portion) itself. Items may have no units.
    Keep {
        /// What is kept: for each item the units to cut from each source.
        portion: Allocation,
        /// Why it is not all.
        refusal: Refusal,
    },
}

/// A decision on one request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Choice {
    /// The request.
    pub request: RequestId,
    /// What becomes of it.
    pub verdict: Verdict,
    /// Why, for the journal.
    pub reason: String,
}

/// The answer to a round.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Decision {
    /// The round that is answered.
    pub round: u64,
    /// Carried out in this order.
    pub choices: Vec<Choice>,
    /// Which orders end, before anything else.
    #[serde(default)]
    pub ended: Vec<OrderEnd>,
    /// What to take from services for others, after all else.
    #[serde(default)]
    pub orders: Vec<UnitOrder>,
    /// What to remember, if that changed.
    pub memo: Option<Memo>,
    /// When to be asked again even if nothing happens.
    pub wake: Option<Time>,
}
