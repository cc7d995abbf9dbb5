//! What a service manager's mapper sees and decides.

use std::num::NonZeroU32;

use serde::{Deserialize, Serialize};

use crate::actor::fact::Memo;
use crate::model::identity::ActorId;
use crate::model::property::Properties;
use crate::model::slice::{LeaseId, SliceName};
use crate::model::time::{Span, Time};
use crate::service_manager::Victims;
use crate::service_manager::group::Handling;
use crate::wire::offer::Reply;
use crate::wire::proviso::Provisos;
use crate::wire::request::Item;

pub use super::consult::GateAnswer;
pub use super::plan::{
    Lacking, NodePlacement, NodeView, Placed, PlanAnswer, PlanChoice, PlanLease, Profile, Proposal,
};
pub use super::view::{Ahead, GateView, LeaseView, Stage, View};

/// Decides what a guest asks for, keeps and gives back.
pub trait ServiceManagerMapper: Send {
    /// Answers one round. The same view, memo and all, must get the same answer.
    fn decide(&self, view: &View) -> Decision;
}

/// A request for units, to be sent to a broker.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ask {
    /// Whom to ask; the only broker known if none is named.
    pub broker: Option<ActorId>,
    /// The slice the leases will be in.
    pub slice: SliceName,
    /// What is asked for: the items of one choice, all together or not at all.
    pub items: Vec<Item>,
    /// The earliest start that suits.
    pub earliest: Time,
    /// The latest start that suits.
    pub latest: Time,
    /// For how long.
    pub duration: Span,
    /// How short a term would do; the same as `duration` unless a range is asked for.
    pub min_duration: Span,
    /// The answer that is asked for.
    pub reply: Reply,
    /// When an answer is of no more use.
    pub answer_by: Time,
    /// For the broker's mapper.
    pub properties: Properties,
    /// For the site's driver.
    pub configuration: Properties,
    /// What becomes of its tickets.
    pub handling: Handling,
    /// Why.
    pub reason: String,
    /// Conditions on how it is met.
    #[serde(default)]
    pub provisos: Provisos,
    /// The number of the earlier request that this is another try of.
    #[serde(default)]
    pub again: Option<u64>,
}

/// A lease to be kept for longer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Extend {
    /// The lease.
    pub lease: LeaseId,
    /// For how much longer.
    pub duration: Span,
    /// With how many units, if not all of them go on.
    #[serde(default)]
    pub units: Option<NonZeroU32>,
    /// Which units do not go on.
    #[serde(default = "youngest")]
    pub victims: Victims,
    /// Why.
    pub reason: String,
}

impl Extend {
    /// A lease to be kept for longer with all of its units.
    pub fn whole(lease: LeaseId, duration: Span, reason: String) -> Self {
        Self { lease, duration, units: None, victims: Victims::Youngest, reason }
    }
}

/// Units of a lease that are to go back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Flex {
    /// The lease.
    pub lease: LeaseId,
    /// How many units.
    pub shrink: NonZeroU32,
    /// Which units.
    #[serde(default = "youngest")]
    pub victims: Victims,
    /// Why.
    pub reason: String,
}

/// A lease that is to end earlier.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shorten {
    /// The lease.
    pub lease: LeaseId,
    /// When it ends.
    pub until: Time,
    /// Why.
    pub reason: String,
}

/// What is to become of a lease at a gate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GateChoice {
    /// The lease.
    pub lease: LeaseId,
    /// What becomes of it.
    pub answer: GateAnswer,
    /// Why.
    pub reason: String,
}

fn youngest() -> Victims {
    Victims::Youngest
}

/// The answer to a round.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Decision {
    /// The round that is answered.
    pub round: u64,
    /// What becomes of leases that are at gates; those that are not named go on.
    #[serde(default)]
    pub gates: Vec<GateChoice>,
    /// What to ask for.
    pub asks: Vec<Ask>,
    /// Which requests of its own that wait for their answers to replace, by number.
    #[serde(default)]
    pub revisions: Vec<(u64, Ask)>,
    /// What to keep for longer.
    pub extensions: Vec<Extend>,
    /// Of which leases to give units back.
    #[serde(default)]
    pub flexes: Vec<Flex>,
    /// Which leases to end earlier.
    #[serde(default)]
    pub shortens: Vec<Shorten>,
    /// What to give back.
    pub closes: Vec<LeaseId>,
    /// What becomes of plans that are asked for; those that are not named wait.
    #[serde(default)]
    pub plans: Vec<PlanChoice>,
    /// What to remember, if that changed.
    pub memo: Option<Memo>,
    /// When to be asked again even if nothing happens.
    pub wake: Option<Time>,
}
