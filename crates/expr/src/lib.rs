//! The expressions of Tenure: what is asked of resources, and what a ticket allows.
//!
//! One language for requests, policies, settings of a site and constraints on tickets:
//!
//! ```
//! use std::collections::BTreeMap;
//! use tenure_expr::{Expr, Value};
//!
//! let expr = Expr::parse(r#"cpus >= 8 and memory >= 16GiB and site != "b""#)?;
//! let attributes = BTreeMap::from([
//!     ("cpus", Value::parse("16")?),
//!     ("memory", Value::parse("8GiB")?),
//!     ("site", Value::parse(r#""a""#)?),
//! ]);
//! assert_eq!(expr.matches(&attributes), Ok(false));
//! assert_eq!(expr.explain(&attributes).to_string(), "memory >= 16GiB: memory is 8GiB");
//! # Ok::<(), tenure_expr::ParseError>(())
//! ```
//!
//! The crate is pure and knows nothing of leases: a name means what the caller's [`Attributes`] say.
//! [`demand`] has the grammar of requests, which is built on that of expressions.
//! The reference for users is `docs/EXPRESSIONS.md`.
//!
//! # Grammar
//!
//! ```text
//! expression = conjunction { "or" conjunction } ;
//! conjunction = negation { "and" negation } ;
//! negation   = "not" negation | comparison ;
//! comparison = sum [ ( "=" | "==" | "!=" | "<" | "<=" | ">" | ">=" | "in" | "has" ) sum ] ;
//! sum        = product { ( "+" | "-" ) product } ;
//! product    = unary { ( "*" | "/" ) unary } ;
//! unary      = "-" unary | primary ;
//! primary    = scalar | set | attribute | "(" expression ")" ;
//!
//! set        = "{" [ element { "," element } ] "}" ;
//! element    = scalar | "-" quantity ;
//! scalar     = "true" | "false" | quantity | text | version ;
//! quantity   = decimal [ unit { decimal unit } ] ;              (* no spaces; 1h30m for durations only *)
//! decimal    = digit { digit } [ "." digit { digit } ] ;
//! version    = "v" number "." number { "." number } | number "." number "." number { "." number } ;
//! number     = digit { digit } ;
//! text       = '"' { character | escape } '"' ;                 (* no control characters *)
//! escape     = "\" ( '"' | "\" | "n" | "r" | "t" | "u{" hexdigit { hexdigit } "}" ) ;
//! attribute  = name { "." name } | "`" character { character } "`" ;   (* no ' and no control characters *)
//! name       = ( letter | "_" ) { letter | digit | "_" } ;      (* ASCII *)
//! ```
//!
//! `a-b` is a difference; an attribute with an odd name stands between backticks. `and`, `or`, `not`,
//! `in`, `has`, `true` and `false` are no names.
//!
//! # Values and types
//!
//! A [`Value`] is a flag, a [`Quantity`], a text, a [`Version`] or a [`Set`] of one of these. A quantity
//! is an exact decimal number of a [`Dimension`]:
//!
//! | dimension | units |
//! |---|---|
//! | number | none |
//! | size | `B`, `kB`, `MB`, `GB`, `TB` (powers of 1000); `KiB`, `MiB`, `GiB`, `TiB` (powers of 1024) |
//! | bit rate | `bps`, `kbps`, `Mbps`, `Gbps` |
//! | duration | `us`, `ms`, `s`, `m`, `h`, `d` |
//! | frequency | `Hz`, `MHz`, `GHz` |
//!
//! | operator | takes |
//! |---|---|
//! | `and` `or` `not` | flags |
//! | `=` `!=` | two values of one type |
//! | `<` `<=` `>` `>=` | two quantities of one dimension, or two versions |
//! | `in`, `has` | a value and a set of its type; a set and a value |
//! | `+` `-` | two quantities of one dimension |
//! | `*` | two quantities, of which one is a number |
//! | `/` | a quantity and a number, or two quantities of one dimension, which gives a number |
//!
//! Anything else is a type error: when the expression is parsed, if the types are known by then, else
//! when it is [checked](Expr::check) or evaluated.
//!
//! # Evaluation
//!
//! 1. If any attribute that the expression names is not stated, the expression does not hold, wherever
//!    the attribute stands: under `not`, and in a branch of `or` whose other branch holds. What is not
//!    stated is not promised.
//! 2. If the types do not fit, evaluation is an error, wherever they do not. An error never counts as a
//!    match.
//! 3. Values are computed from left to right. `and` and `or` pass over the rest once they are decided,
//!    so that `gpus = 0 or memory / gpus >= 8GiB` never divides by zero. An overflow or a division by
//!    zero that is met is an error.
//!
//! The first two rules do not depend on the order of the parts.
//!
//! # Limits
//!
//! An expression has at most [`Expr::MAX_LEN`] bytes and [`Expr::MAX_DEPTH`] levels, so it is safe to
//! read one from anybody.

pub mod demand;
mod error;
mod eval;
mod explain;
mod lex;
mod parse;
mod print;
mod quantity;
mod tree;
mod types;
mod units;
mod value;
mod version;

use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

pub use crate::demand::Demand;
pub use crate::error::{EvalError, Fault, ParseError};
pub use crate::explain::{Explanation, Reason};
pub use crate::quantity::Quantity;
pub use crate::tree::Operator;
pub use crate::types::{Scalar, Type, TypeError};
pub use crate::units::{Dimension, UNITS, Unit};
pub use crate::value::{Attributes, BadSet, Set, Value};
pub use crate::version::Version;

use crate::lex::Names;
use crate::tree::Node;

/// An expression. Cheap to clone.
///
/// It is compared, shown and serialised as its canonical text: one spelling of each operator and literal,
/// parentheses only where they are needed. That text parses to the same expression, and never contains a
/// single quote.
#[derive(Clone, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Expr {
    text: Arc<str>,
    /// The tree of `text`, with places in it.
    tree: Arc<Node>,
}

impl Expr {
    /// The longest expression in bytes, both as it is given and in its canonical form.
    pub const MAX_LEN: usize = 1024;
    /// How deep an expression may be nested: brackets and prefixes in the text, operators in the tree. A
    /// list of conditions with `and` or `or` between them is one level, whatever its length.
    pub const MAX_DEPTH: usize = 32;

    /// Parses an expression.
    ///
    /// # Errors
    /// If it does not follow the grammar, exceeds a limit, or can have no value by the types that are
    /// known without attributes.
    pub fn parse(source: &str) -> Result<Self, ParseError> {
        Self::parse_names(source, Names::Plain)
    }

    /// Parses an expression over what is measured, whose names may have hyphens and labels:
    /// `busy-units + pending-units{partition="big"}`. A difference then needs spaces around its `-`. A name with
    /// its labels is one attribute.
    ///
    /// ```
    /// use tenure_expr::Expr;
    ///
    /// let expr = Expr::parse_measured("busy-units - 3 < idle-units")?;
    /// assert_eq!(expr.as_str(), "`busy-units` - 3 < `idle-units`");
    /// assert_eq!(Expr::parse(expr.as_str())?, expr);
    /// # Ok::<(), tenure_expr::ParseError>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`parse`](Self::parse).
    pub fn parse_measured(source: &str) -> Result<Self, ParseError> {
        Self::parse_names(source, Names::Measured)
    }

    fn parse_names(source: &str, names: Names) -> Result<Self, ParseError> {
        let text = print::text(&parse::expression(source, names)?);
        if text.len() > Self::MAX_LEN {
            let message = format!("this is longer than {} bytes when written out", Self::MAX_LEN);
            return Err(ParseError::new(source, 0..source.len(), message));
        }
        let tree = Arc::new(parse::expression(&text, Names::Plain)?);
        Ok(Self { text: text.into(), tree })
    }

    /// Parses an expression that is to be true or false.
    ///
    /// # Errors
    /// Those of [`parse`](Self::parse), and if the value is known to be something else.
    pub fn parse_condition(source: &str) -> Result<Self, ParseError> {
        let expr = Self::parse(source)?;
        expr.require_condition(&|_| None)
            .map_err(|error| ParseError::new(source, 0..source.len(), error.to_string()))?;
        Ok(expr)
    }

    /// The canonical text.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The names of all attributes in the expression.
    pub fn attributes(&self) -> BTreeSet<&str> {
        let mut names = BTreeSet::new();
        self.tree.visit_attributes(&mut |name, _| {
            names.insert(name);
        });
        names
    }

    /// Both expressions, joined by `and`.
    ///
    /// ```
    /// use tenure_expr::Expr;
    ///
    /// let parent = Expr::parse("cpus >= 8 or gpus >= 1")?;
    /// let child = parent.and(&Expr::parse("memory >= 16GiB")?)?;
    /// assert_eq!(child.as_str(), "(cpus >= 8 or gpus >= 1) and memory >= 16GiB");
    /// # Ok::<(), tenure_expr::ParseError>(())
    /// ```
    ///
    /// # Errors
    /// If one of them is no condition, or both together exceed a limit.
    pub fn and(&self, other: &Self) -> Result<Self, ParseError> {
        let (left, right) = (print::in_conjunction(&self.tree), print::in_conjunction(&other.tree));
        Self::parse(&format!("{left} and {right}"))
    }

    /// Whether the expression holds: false if an attribute that it names is not stated.
    ///
    /// # Errors
    /// If the value is not true or false, if types do not fit, or on an overflow or a division by zero.
    /// None of these counts as a match.
    pub fn matches(&self, attributes: &impl Attributes) -> Result<bool, EvalError> {
        if self.first_missing(attributes).is_some() {
            return Ok(false);
        }
        self.require_condition(&|name| attributes.value(name).map(Value::type_of))?;
        eval::condition(&self.tree, attributes)
    }

    /// The value of the expression.
    ///
    /// # Errors
    /// If an attribute that it names is not stated, if types do not fit, or on an overflow or a division
    /// by zero.
    pub fn evaluate(&self, attributes: &impl Attributes) -> Result<Value, EvalError> {
        eval::value(&self.tree, attributes)
    }

    /// Checks the expression before there are values: `type_of` says what is known of an attribute.
    ///
    /// Returns the type of the value.
    ///
    /// # Errors
    /// If an attribute is unknown, or types do not fit.
    pub fn check(&self, type_of: impl Fn(&str) -> Option<Type>) -> Result<Type, EvalError> {
        if let Some(error) = eval::first_missing(&self.tree, |name| type_of(name).is_some()) {
            return Err(error);
        }
        let found = types::infer(&self.tree, &type_of)?;
        // With all attributes known, so is the type of whatever is made of them.
        Ok(found.unwrap_or(Type::FLAG))
    }

    /// Why the expression does not hold; no reasons if it does.
    pub fn explain(&self, attributes: &impl Attributes) -> Explanation {
        explain::explain(&self.tree, &self.text, attributes)
    }

    /// Whether the value can be true or false, by the types that are known without attributes.
    fn may_be_condition(&self) -> bool {
        self.require_condition(&|_| None).is_ok()
    }

    fn first_missing(&self, attributes: &impl Attributes) -> Option<EvalError> {
        eval::first_missing(&self.tree, |name| attributes.value(name).is_some())
    }

    fn require_condition(&self, type_of: &dyn Fn(&str) -> Option<Type>) -> Result<(), EvalError> {
        match types::infer(&self.tree, type_of)? {
            Some(found) if found != Type::FLAG => {
                Err(EvalError::new(&self.tree.span, Fault::NotACondition(found)))
            }
            Some(_) | None => Ok(()),
        }
    }
}

impl PartialEq for Expr {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for Expr {}

impl PartialOrd for Expr {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Expr {
    /// The order of the texts.
    fn cmp(&self, other: &Self) -> Ordering {
        self.text.cmp(&other.text)
    }
}

impl Hash for Expr {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.text.hash(state);
    }
}

impl fmt::Display for Expr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.text)
    }
}

impl fmt::Debug for Expr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Expr({})", self.text)
    }
}

impl FromStr for Expr {
    type Err = ParseError;

    fn from_str(source: &str) -> Result<Self, ParseError> {
        Self::parse(source)
    }
}

impl TryFrom<String> for Expr {
    type Error = ParseError;

    fn try_from(source: String) -> Result<Self, ParseError> {
        Self::parse(&source)
    }
}

impl From<Expr> for String {
    fn from(expr: Expr) -> Self {
        expr.text.as_ref().to_owned()
    }
}
