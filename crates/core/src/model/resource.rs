//! Resource types, their typed attributes, and constraints on them.
//!
//! Units of one type at one site are interchangeable; what distinguishes types is a name and
//! attributes that say how fast, how large, how isolated. Constraints are the one kind of property the
//! core itself compares: on a link of a ticket they can be added by anyone who passes it on, never removed.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::model::name::Name;
use crate::model::property::Properties;

/// The value of an attribute.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Value {
    /// Yes or no.
    Flag(bool),
    /// A whole number in the unit that the key implies.
    Number(i64),
    /// Text, compared byte by byte.
    Text(String),
}

impl Value {
    /// Reads a property's text: a number if it is one, `true` or `false` as a flag, else text.
    pub fn read(text: &str) -> Self {
        match (text.parse(), text.parse()) {
            (Ok(number), _) => Self::Number(number),
            (_, Ok(flag)) => Self::Flag(flag),
            _ => Self::Text(text.to_owned()),
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flag(flag) => flag.fmt(f),
            Self::Number(number) => number.fmt(f),
            Self::Text(text) => text.fmt(f),
        }
    }
}

/// The attributes of a resource type at one site.
pub type Attributes = BTreeMap<Name, Value>;

/// What a constraint asks of one value.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Test {
    /// Exactly this value.
    Equals(Value),
    /// One of these values.
    OneOf(BTreeSet<Value>),
    /// A number from `min_units` to `most`, both included.
    Within {
        /// The smallest number that passes.
        min: i64,
        /// The largest number that passes.
        max: i64,
    },
}

impl Test {
    /// Whether `value` passes.
    pub fn admits(&self, value: &Value) -> bool {
        match self {
            Self::Equals(wanted) => value == wanted,
            Self::OneOf(wanted) => wanted.contains(value),
            Self::Within { min, max } => {
                matches!(value, Value::Number(n) if min <= n && n <= max)
            }
        }
    }
}

impl fmt::Display for Test {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Equals(value) => write!(f, "= {value}"),
            Self::OneOf(values) => {
                let values: Vec<String> = values.iter().map(ToString::to_string).collect();
                write!(f, "in {{{}}}", values.join(", "))
            }
            Self::Within { min, max } => write!(f, "in {min}..={max}"),
        }
    }
}

/// A condition on one key.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Constraint {
    /// The attribute or configuration property it speaks of.
    pub key: Name,
    /// What must hold of it.
    pub test: Test,
}

impl fmt::Display for Constraint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.key, self.test)
    }
}

/// A set of constraints: all must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Constraints(BTreeSet<Constraint>);

impl Constraints {
    /// No constraint at all.
    pub const NONE: Self = Self(BTreeSet::new());

    /// Adds one; what is there stays.
    pub fn add(&mut self, constraint: Constraint) {
        self.0.insert(constraint);
    }

    /// Whether every constraint of `parent` is still here.
    pub fn keep_all_of(&self, parent: &Self) -> bool {
        self.0.is_superset(&parent.0)
    }

    /// All of them, in order.
    pub fn iter(&self) -> impl Iterator<Item = &Constraint> {
        self.0.iter()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The first constraint that does not hold of the site's `attributes` or, where they say nothing, of
    /// the guest's `configuration`. A key that neither names fails: what is not stated is not promised.
    pub fn first_broken(
        &self,
        attributes: &Attributes,
        configuration: &Properties,
    ) -> Option<&Constraint> {
        self.0.iter().find(|constraint| {
            let stated = attributes.get(&constraint.key).cloned();
            let wished = || configuration.get(constraint.key.as_str()).map(Value::read);
            !stated.or_else(wished).is_some_and(|value| constraint.test.admits(&value))
        })
    }
}

impl FromIterator<Constraint> for Constraints {
    fn from_iter<I: IntoIterator<Item = Constraint>>(constraints: I) -> Self {
        Self(constraints.into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn constraint(key: &str, test: Test) -> Constraint {
        Constraint { key: Name::new(key).unwrap(), test }
    }

    #[test]
    fn a_constraint_on_an_unstated_key_is_broken() {
        let constraints: Constraints =
            [constraint("cpus", Test::Within { min: 2, max: i64::MAX })].into_iter().collect();
        let mut attributes = Attributes::new();
        assert!(constraints.first_broken(&attributes, &Properties::default()).is_some());
        attributes.insert(Name::new("cpus").unwrap(), Value::Number(2));
        assert!(constraints.first_broken(&attributes, &Properties::default()).is_none());
    }

    #[test]
    fn a_guest_cannot_talk_its_way_past_an_attribute() {
        let constraints: Constraints =
            [constraint("cpus", Test::Within { min: 4, max: 64 })].into_iter().collect();
        let attributes = Attributes::from([(Name::new("cpus").unwrap(), Value::Number(1))]);
        let claimed = BTreeMap::from([(Name::new("cpus").unwrap(), "8".to_owned())]);
        let claimed = Properties::try_from(claimed).unwrap();
        assert!(constraints.first_broken(&attributes, &claimed).is_some());
    }

    #[test]
    fn what_a_site_does_not_fix_the_guest_may_choose_within_the_constraint() {
        let constraints: Constraints =
            [constraint("image", Test::Equals(Value::Text("debian".into())))].into_iter().collect();
        let image = |name: &str| {
            Properties::try_from(BTreeMap::from([(Name::new("image").unwrap(), name.to_owned())]))
                .unwrap()
        };
        assert!(constraints.first_broken(&Attributes::new(), &image("debian")).is_none());
        assert!(constraints.first_broken(&Attributes::new(), &image("other")).is_some());
    }
}
