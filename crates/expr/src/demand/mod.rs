//! Demands: how many units of which types somebody asks for.
//!
//! ```
//! use tenure_expr::Demand;
//!
//! let demand = Demand::parse("(4 node where 'memory >= 16GiB', 1..2 gpu), 1 disk after 1h | 8 node")?;
//! assert_eq!(demand.alternatives().len(), 2);
//! let first = &demand.alternatives()[0];
//! assert_eq!(first.bundles.len(), 2);
//! assert_eq!(first.items().map(|item| item.kind.as_str()).collect::<Vec<_>>(), ["node", "gpu", "disk"]);
//! # Ok::<(), tenure_expr::ParseError>(())
//! ```
//!
//! # Grammar
//!
//! ```text
//! demand      = alternative { "|" alternative } ;         (* in order of preference *)
//! alternative = bundle { "," bundle } ;                   (* all of them *)
//! bundle      = item | "(" item { "," item } ")" ;        (* together, from one stack *)
//! item        = [ "optional" ] [ units ] kind { condition | offset } ;   (* at most one of each *)
//! units       = count [ ".." count ] ;                    (* at least, and at most; one without it *)
//! condition   = "where" ( "'" expression "'" | expression ) ;
//! offset      = "after" duration ;                        (* from the start of the lease *)
//! kind        = ( a-z | 0-9 ) { a-z | 0-9 | "." | "_" | "-" } ;
//! ```
//!
//! The expression follows the grammar of [`Expr`], which never needs a single quote: in a text one is
//! written `\u{27}`. Without quotes it ends before a comma, bar or parenthesis that is not its own, and before
//! `after`. `optional`, `where` and `after` are no kinds.

mod parse;

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::Expr;
use crate::error::{ParseError, escape};
use crate::quantity::Quantity;

/// The longest kind, in bytes.
const MAX_KIND: usize = 64;

/// Words with a meaning of their own.
const RESERVED: [&str; 3] = ["after", "optional", "where"];

/// What somebody asks for: one of several alternatives. It is shown and serialised as its text.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Demand {
    alternatives: Vec<Alternative>,
}

/// One way to meet a demand: all bundles.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Alternative {
    /// What is wanted, in the order of the demand.
    pub bundles: Vec<Bundle>,
}

/// Items that must come from one stack. An item without such a tie is a bundle of one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bundle {
    /// The items, in the order of the demand.
    pub items: Vec<Item>,
}

/// Units of one type.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Item {
    /// How many units will do; at least 1.
    pub min_units: u32,
    /// How many units are of use.
    pub max_units: u32,
    /// The name of the resource type.
    pub kind: String,
    /// What must hold of the attributes of the type.
    pub condition: Option<Expr>,
    /// How long after the start of the lease the units are wanted, in whole microseconds.
    pub after: Duration,
    /// Whether the demand is met without it.
    pub optional: bool,
}

/// A demand that makes no sense or exceeds a limit.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum BadDemand {
    /// An item of no units.
    #[error("an item has at least 1 unit; `optional` before it makes it one that may be left out")]
    NoUnits,
    /// A range of units that ends before it begins.
    #[error("there is no number from {min} to {max}")]
    NoRange {
        /// Its beginning.
        min: u32,
        /// Its end.
        max: u32,
    },
    /// A kind that is not the name of a resource type.
    #[error(
        "`{}` is not a type: use 1 to {MAX_KIND} of a-z, 0-9, `.`, `_`, `-`, starting with a letter or digit",
        escape(.0)
    )]
    Kind(String),
    /// A kind that is a word of the grammar.
    #[error("`{0}` has a meaning of its own here and is not a type")]
    Reserved(String),
    /// A condition that is a number or a text.
    #[error("`{0}` is neither true nor false")]
    NotACondition(Expr),
    /// An offset that is not a whole number of microseconds or too long.
    #[error("an offset is a whole number of microseconds, at most {} of them", i64::MAX)]
    Offset,
    /// No alternatives, an alternative without bundles or a bundle without items.
    #[error("there is nothing in it")]
    Empty,
    /// An alternative of optional items only, which nothing at all would meet.
    #[error("an alternative needs an item that is not optional")]
    AllOptional,
    /// More than [`Demand::MAX_ITEMS`] items.
    #[error("{0} items are more than the {max} allowed", max = Demand::MAX_ITEMS)]
    TooMany(usize),
    /// A text longer than [`Demand::MAX_LEN`].
    #[error("this is longer than {max} bytes", max = Demand::MAX_LEN)]
    TooLong,
}

impl Demand {
    /// The most items in all alternatives together.
    pub const MAX_ITEMS: usize = 64;
    /// The longest text, in bytes.
    pub const MAX_LEN: usize = 16 * 1024;

    /// The demand for one of these alternatives, in order of preference.
    ///
    /// # Errors
    /// If it makes no sense or exceeds a limit.
    pub fn new(alternatives: impl Into<Vec<Alternative>>) -> Result<Self, BadDemand> {
        let demand = Self { alternatives: alternatives.into() };
        if demand.alternatives.is_empty() {
            return Err(BadDemand::Empty);
        }
        for alternative in &demand.alternatives {
            alternative.check()?;
            alternative.items().try_for_each(Item::check)?;
        }
        let items = demand.alternatives.iter().flat_map(Alternative::items).count();
        if items > Self::MAX_ITEMS {
            return Err(BadDemand::TooMany(items));
        }
        if demand.to_string().len() > Self::MAX_LEN {
            return Err(BadDemand::TooLong);
        }
        Ok(demand)
    }

    /// Parses a demand.
    ///
    /// # Errors
    /// If it does not follow the grammar, makes no sense or exceeds a limit.
    pub fn parse(source: &str) -> Result<Self, ParseError> {
        parse::demand(source)
    }

    /// The alternatives, in order of preference; at least one.
    pub fn alternatives(&self) -> &[Alternative] {
        &self.alternatives
    }
}

impl Alternative {
    /// All items, in order.
    pub fn items(&self) -> impl Iterator<Item = &Item> {
        self.bundles.iter().flat_map(|bundle| &bundle.items)
    }

    fn check(&self) -> Result<(), BadDemand> {
        if self.bundles.is_empty() || self.bundles.iter().any(|bundle| bundle.items.is_empty()) {
            return Err(BadDemand::Empty);
        }
        let required = self.items().any(|item| !item.optional);
        if required { Ok(()) } else { Err(BadDemand::AllOptional) }
    }
}

impl Item {
    /// `units` units of `kind`, at the start of the lease and without a condition.
    pub fn new(units: u32, kind: impl Into<String>) -> Self {
        Self {
            min_units: units,
            max_units: units,
            kind: kind.into(),
            condition: None,
            after: Duration::ZERO,
            optional: false,
        }
    }

    fn check(&self) -> Result<(), BadDemand> {
        check_units(self.min_units, self.max_units)?;
        check_kind(&self.kind)?;
        self.offset().ok_or(BadDemand::Offset)?;
        match &self.condition {
            Some(condition) if !condition.may_be_condition() => {
                Err(BadDemand::NotACondition(condition.clone()))
            }
            Some(_) | None => Ok(()),
        }
    }

    /// The offset as a quantity, if it is one.
    fn offset(&self) -> Option<Quantity> {
        let whole = self.after.subsec_nanos().is_multiple_of(1_000);
        let micros = i64::try_from(self.after.as_micros()).ok();
        micros.filter(|_| whole).map(Quantity::microseconds)
    }
}

fn check_units(min: u32, max: u32) -> Result<(), BadDemand> {
    if min == 0 {
        return Err(BadDemand::NoUnits);
    }
    if max < min { Err(BadDemand::NoRange { min, max }) } else { Ok(()) }
}

fn check_kind(kind: &str) -> Result<(), BadDemand> {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    if RESERVED.contains(&kind) {
        return Err(BadDemand::Reserved(kind.to_owned()));
    }
    let fits = kind.len() <= MAX_KIND
        && kind.starts_with(plain)
        && kind.chars().all(|c| plain(c) || matches!(c, '.' | '_' | '-'));
    if fits { Ok(()) } else { Err(BadDemand::Kind(kind.chars().take(MAX_KIND).collect())) }
}

impl fmt::Display for Item {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.optional {
            f.write_str("optional ")?;
        }
        write!(f, "{}", self.min_units)?;
        if self.max_units != self.min_units {
            write!(f, "..{}", self.max_units)?;
        }
        write!(f, " {}", self.kind)?;
        if let Some(offset) = self.offset().filter(|_| !self.after.is_zero()) {
            write!(f, " after {offset}")?;
        }
        match &self.condition {
            Some(condition) => write!(f, " where '{condition}'"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for Bundle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.items.as_slice() {
            [item] => item.fmt(f),
            items => {
                f.write_str("(")?;
                join(items, ", ", f)?;
                f.write_str(")")
            }
        }
    }
}

impl fmt::Display for Alternative {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        join(&self.bundles, ", ", f)
    }
}

impl fmt::Display for Demand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        join(&self.alternatives, " | ", f)
    }
}

fn join(parts: &[impl fmt::Display], between: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    for (place, part) in parts.iter().enumerate() {
        if place > 0 {
            f.write_str(between)?;
        }
        part.fmt(f)?;
    }
    Ok(())
}

impl FromStr for Demand {
    type Err = ParseError;

    fn from_str(source: &str) -> Result<Self, ParseError> {
        Self::parse(source)
    }
}

impl TryFrom<String> for Demand {
    type Error = ParseError;

    fn try_from(source: String) -> Result<Self, ParseError> {
        Self::parse(&source)
    }
}

impl From<Demand> for String {
    fn from(demand: Demand) -> Self {
        demand.to_string()
    }
}
