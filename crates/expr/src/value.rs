//! Values: what attributes hold and expressions evaluate to.

use std::borrow::Borrow;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::error::{ParseError, is_hidden};
use crate::parse;
use crate::quantity::Quantity;
use crate::types::{Scalar, Type};
use crate::version::Version;

/// A value, written and serialised as its literal.
///
/// # Example
///
/// ```
/// use tenure_expr::{Quantity, Value};
///
/// assert_eq!(Value::parse("16384MiB").unwrap(), Value::Quantity(Quantity::bytes(16 << 30)));
/// for literal in ["8", "16GiB", "-1500ms", "true", r#""text""#, r#"{"a", "b"}"#, "v1.20.3"] {
///     assert_eq!(Value::parse(literal).unwrap().to_string(), literal);
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Value {
    /// True or false.
    Flag(bool),
    /// A number, or a number of some unit.
    Quantity(Quantity),
    /// A text, equal only to itself.
    Text(String),
    /// A dotted version.
    Version(Version),
    /// A set of values of one type.
    Set(Set),
}

impl Value {
    /// The longest literal that is read, in bytes. A value that is longer than that as a literal can be
    /// used and shown, and not read back.
    pub const MAX_LEN: usize = 16 * 1024;

    /// Reads a literal: `8`, `1.5`, `16GiB`, `1h30m`, `true`, `"text"`, `v1.20`, `1.20.3`, `{"a", "b"}`.
    ///
    /// # Errors
    /// If it is none, or too long.
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        parse::value(text)
    }

    /// Reads what people write as a setting: a literal if it is one, else the text as it stands.
    pub fn read(text: &str) -> Self {
        Self::parse(text).unwrap_or_else(|_| Self::Text(text.to_owned()))
    }

    /// The type of the value.
    pub fn type_of(&self) -> Type {
        match self {
            Self::Flag(_) => Type::Scalar(Scalar::Flag),
            Self::Quantity(quantity) => Type::Scalar(Scalar::Quantity(quantity.dimension())),
            Self::Text(_) => Type::Scalar(Scalar::Text),
            Self::Version(_) => Type::Scalar(Scalar::Version),
            Self::Set(set) => Type::Set(set.element_type()),
        }
    }
}

impl FromStr for Value {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        Self::parse(text)
    }
}

impl TryFrom<String> for Value {
    type Error = ParseError;

    fn try_from(text: String) -> Result<Self, ParseError> {
        Self::parse(&text)
    }
}

impl From<Value> for String {
    fn from(value: Value) -> Self {
        value.to_string()
    }
}

impl From<bool> for Value {
    fn from(flag: bool) -> Self {
        Self::Flag(flag)
    }
}

impl From<i64> for Value {
    fn from(number: i64) -> Self {
        Self::Quantity(Quantity::number(number))
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<Quantity> for Value {
    fn from(quantity: Quantity) -> Self {
        Self::Quantity(quantity)
    }
}

impl fmt::Display for Value {
    /// As a literal. It never contains a single quote, so it can stand between two.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flag(flag) => flag.fmt(f),
            Self::Quantity(quantity) => quantity.fmt(f),
            Self::Text(text) => quote(text, f),
            Self::Version(version) => version.fmt(f),
            Self::Set(set) => {
                let values: Vec<String> = set.iter().map(ToString::to_string).collect();
                write!(f, "{{{}}}", values.join(", "))
            }
        }
    }
}

/// Writes a text as a literal.
fn quote(text: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    f.write_str("\"")?;
    for c in text.chars() {
        match c {
            '"' | '\\' => write!(f, "\\{c}")?,
            '\n' => f.write_str("\\n")?,
            '\r' => f.write_str("\\r")?,
            '\t' => f.write_str("\\t")?,
            c if c == '\'' || is_hidden(c) => write!(f, "{}", c.escape_unicode())?,
            c => write!(f, "{c}")?,
        }
    }
    f.write_str("\"")
}

/// A set of flags, quantities of one dimension, texts or versions.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Set(BTreeSet<Value>);

/// Values that do not make up a set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum BadSet {
    /// Values of different types.
    #[error("a set holds values of one type, not a {0} and a {1}")]
    Mixed(Scalar, Scalar),
    /// A set in a set.
    #[error("a set cannot hold a set")]
    Nested,
}

impl Set {
    /// The set of these values.
    ///
    /// # Errors
    /// If they are of different types, or sets.
    pub fn new(values: impl IntoIterator<Item = Value>) -> Result<Self, BadSet> {
        let (mut set, mut first) = (BTreeSet::new(), None);
        for value in values {
            let Type::Scalar(scalar) = value.type_of() else { return Err(BadSet::Nested) };
            let first = *first.get_or_insert(scalar);
            if first != scalar {
                return Err(BadSet::Mixed(first, scalar));
            }
            set.insert(value);
        }
        Ok(Self(set))
    }

    /// Whether `value` is an element.
    pub fn contains(&self, value: &Value) -> bool {
        self.0.contains(value)
    }

    /// The elements in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = &Value> {
        self.0.iter()
    }

    /// The type of the elements; none if there are none.
    pub fn element_type(&self) -> Option<Scalar> {
        self.0.first().and_then(|value| match value.type_of() {
            Type::Scalar(scalar) => Some(scalar),
            Type::Set(_) => None,
        })
    }
}

/// What an expression is evaluated over: the caller's values by name.
///
/// A pair looks up in its first half, and in the second what the first does not state.
pub trait Attributes {
    /// The value under `name`; none if it is not stated.
    fn value(&self, name: &str) -> Option<&Value>;
}

impl<K: Borrow<str> + Ord> Attributes for BTreeMap<K, Value> {
    fn value(&self, name: &str) -> Option<&Value> {
        self.get(name)
    }
}

impl<A: Attributes + ?Sized> Attributes for &A {
    fn value(&self, name: &str) -> Option<&Value> {
        (**self).value(name)
    }
}

impl<A: Attributes, B: Attributes> Attributes for (A, B) {
    fn value(&self, name: &str) -> Option<&Value> {
        self.0.value(name).or_else(|| self.1.value(name))
    }
}
