//! What a broker's mapper sees and decides.

use serde::{Deserialize, Serialize};

use crate::actor::fact::Memo;
use crate::model::slice::RequestId;
use crate::model::time::{Term, Time};
use crate::ticket::link::AccountId;
use crate::wire::refusal::Refusal;

pub use super::view::{Grant, Source, View};

/// Decides who gets how many units of what, where and when. It sees all open requests and may answer
/// any of them, several items of several types together.
pub trait BrokerMapper: Send {
    /// Answers one round. The same view, memo and all, must get the same answer. What it leaves out stays
    /// open.
    fn decide(&self, view: &View) -> Decision;
}

/// What becomes of a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Verdict {
    /// It is met.
    Grant {
        /// The term, the same for all items.
        term: Term,
        /// For each item the units to cut from each source.
        parts: Vec<Vec<(AccountId, u32)>>,
    },
    /// It is not.
    Refuse(Refusal),
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
    /// What to remember, if that changed.
    pub memo: Option<Memo>,
    /// When to be asked again even if nothing happens.
    pub wake: Option<Time>,
}
