//! Handovers: a broker passes on a guest's request that it cannot meet, sealed as it came, and gets an answer for it.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::broker::machine::Tickets;
use crate::model::identity::ActorId;
use crate::model::slice::RequestId;
use crate::model::time::{Span, Time};
use crate::wire::message::Sealed;
use crate::wire::offer::Offer;
use crate::wire::refusal::Refusal;

/// How many times a request is handed on, one after the other, unless its first broker says less or more.
pub const HOPS: u8 = 4;

/// The most times that it may say.
pub const MAX_HOPS: u8 = 64;

/// How many brokers are asked for a request, unless its first broker says less or more.
pub const ASKS: u16 = 16;

/// The most brokers that it may say.
pub const MAX_ASKS: u16 = 1024;

/// A request that is handed from one broker to the next. Path and counts save messages; nobody relies on them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Handover {
    /// The guest's message to the first broker.
    pub sealed: Sealed,
    /// The brokers that it went through: the first one first, the sender last.
    pub path: Vec<ActorId>,
    /// All brokers that were asked so far, as far as the sender knows.
    pub asked: BTreeSet<ActorId>,
    /// How many times it may be handed on by the receiver and by those after it, one after the other.
    pub hops: u8,
    /// How many brokers the receiver and those after it may ask together.
    pub asks: u16,
    /// When an answer is of no more use to the sender.
    pub answer_by: Time,
}

impl Handover {
    /// Whether it is within its bounds; the reason if not.
    ///
    /// # Errors
    /// Which bound it exceeds.
    pub fn check(&self) -> Result<(), String> {
        let path = usize::from(MAX_HOPS);
        if self.path.is_empty() || self.path.len() > path {
            return Err(format!("a path has 1 to {path} brokers, not {}", self.path.len()));
        }
        if self.hops >= MAX_HOPS {
            return Err(format!("a request is handed on {MAX_HOPS} times at most"));
        }
        if self.asks > MAX_ASKS || self.asked.len() > usize::from(MAX_ASKS) {
            return Err(format!("at most {MAX_ASKS} brokers are asked for one request"));
        }
        Ok(())
    }
}

/// What became of a request that was handed on: the answer, and what it took to find it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HandedBack {
    /// Which request.
    pub request: RequestId,
    /// What became of it.
    pub outcome: Outcome,
    /// What others said that were asked for it, in this order.
    pub trail: Vec<Hop>,
}

/// What became of a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Outcome {
    /// These tickets were cut for its guest, each with the item that it is for.
    Granted(Tickets),
    /// It was refused. Of several refusals this is the best.
    Refused(Refusal),
    /// The broker has the request already, by another path or from the guest: this path is none.
    Seen,
    /// It was refused, and this could be had instead. Nothing is booked.
    Countered(Refusal, Vec<Offer>),
    /// It asks for offers, and this could be had: held until then, or, of a plan, not booked.
    Offered(Vec<Offer>, Option<Time>),
}

impl Outcome {
    /// The refusal of a request, with what could be had instead.
    pub fn refused(refusal: Refusal, offers: Vec<Offer>) -> Self {
        match offers.is_empty() {
            true => Self::Refused(refusal),
            false => Self::Countered(refusal, offers),
        }
    }
}

/// What one broker said of a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hop {
    /// The broker.
    pub broker: ActorId,
    /// What it said in the end.
    pub said: HopAnswer,
    /// How long whoever asked it waited for that.
    pub took: Span,
}

/// What a broker said of a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum HopAnswer {
    /// It has granted it.
    Granted,
    /// It has refused it.
    Refused(Refusal),
    /// It has it already by another path.
    Seen,
    /// It has not answered in time.
    Nothing,
    /// It holds a portion of it; the reason if it has less than it was asked for.
    Held(Option<Refusal>),
    /// It has made offers.
    Offered,
}
