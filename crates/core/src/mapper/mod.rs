//! Mappers: the policies of the three roles.
//!
//! An actor never calls its mapper. It opens a round; a shell hands the mapper a view, an owned value, and
//! hands the decision back as an input, which the core checks again before it becomes facts. So a mapper
//! may be slow, remote, wrong or dead: that costs a round, not the actor. What a mapper has to remember is
//! in its memo, which is a fact.

pub mod adaptive;
pub mod auction;
pub mod choosing;
pub mod co_allocate;
pub mod deploy;
pub mod experiments;
pub mod fair_share;
pub mod fcfs;
pub mod first_fit;
mod flop_flip;
pub mod jobs;
pub mod pack;
pub mod place;
mod portion;
pub mod prefer;
pub mod priority;
pub mod queue;
pub mod registry;
pub mod route;
pub mod slo;
pub mod static_list;
pub mod urgency;

use serde::de::Error as _;
use serde::{Deserialize as _, Deserializer};

use crate::model::name::Name;
use crate::model::property::Properties;
use crate::model::time::Span;
use crate::wire::message::MAX_CONFIGURATION;

/// The code in docs/MAPPERS.md works.
#[cfg(doctest)]
#[doc = include_str!("../../../../docs/MAPPERS.md")]
struct Documented;

/// Reads the configuration of the leases that a mapper asks for.
fn configuration<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Properties, D::Error> {
    let configuration = Properties::deserialize(deserializer)?;
    configuration.check_bytes(MAX_CONFIGURATION).map_err(D::Error::custom)?;
    Ok(configuration)
}

/// Reads a length of time above zero.
fn lasting<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Span, D::Error> {
    let span = Span::deserialize(deserializer)?;
    let short = || D::Error::custom(format!("it has to last for some time, and {span} is none"));
    span.is_positive().then_some(span).ok_or_else(short)
}

/// The same for a setting that may be left out.
fn lasting_if_set<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Span>, D::Error> {
    lasting(deserializer).map(Some)
}

/// The type of the units that a mapper asks for where its settings name none.
fn node() -> Name {
    Name::literal("node")
}

/// The slice of the leases where its settings name none.
fn main_slice() -> Name {
    Name::literal("main")
}
