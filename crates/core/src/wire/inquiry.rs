//! What is free at a broker: a question that books nothing, and an answer that promises nothing.
//!
//! Neither is a fact. A broker answers its peers, as far as it discloses what it has (T02 of Takefusa et al. 2009:
//! providers hide what they have).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::model::identity::ActorId;
use crate::model::name::Name;
use crate::model::resource::{Attributes, Constraints};
use crate::model::time::{Term, Time};

/// The most entries of an answer.
pub const MOST_ENTRIES: usize = 1_000;

/// The question.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Inquiry {
    /// Of one type; without it, of all.
    pub resource: Option<Name>,
    /// What the attributes of its units must be.
    pub requirements: Constraints,
    /// Over which term.
    pub term: Term,
}

/// The answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Availability {
    /// The broker does not say.
    Undisclosed,
    /// By type: whether at least one unit is free over the whole term.
    Types(BTreeMap<Name, bool>),
    /// By type: how many units are free over the whole term.
    Totals(BTreeMap<Name, u32>),
    /// By type, then by site.
    Stocks {
        /// At most [`MOST_ENTRIES`].
        stocks: Vec<AvailableStock>,
        /// How many were left out.
        more: u32,
    },
}

/// What is free of units that one site has delegated.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AvailableStock {
    /// The type.
    pub resource: Name,
    /// The name that the broker has for the site.
    pub site: Name,
    /// What the units are like, their price among it.
    pub attributes: Attributes,
    /// How many there are.
    pub units: u32,
    /// How many are free over the whole term.
    pub free: u32,
    /// Until when they are delegated. Delegations are renewed, so it may be later tomorrow.
    pub until: Time,
}

/// An answer that has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answered {
    /// Who has answered.
    pub broker: ActorId,
    /// When it was asked, by the clock of who did.
    pub asked: Time,
    /// The answer.
    pub availability: Availability,
}
