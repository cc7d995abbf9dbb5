//! The plan that was found, or why there is none.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::amount::Price;
use crate::score::{Term, Values};

/// What is known of a plan.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Status {
    /// There is no better plan.
    Optimal,
    /// There may be better ones.
    Feasible,
    /// There is no plan.
    Infeasible,
    /// The steps ran out before a plan was found.
    #[default]
    Unknown,
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Optimal => "optimal",
            Self::Feasible => "feasible",
            Self::Infeasible => "infeasible",
            Self::Unknown => "unknown",
        })
    }
}

/// The answer to a problem.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub struct Answer {
    /// The name of the problem.
    pub name: String,
    /// What is known of the plan.
    pub status: Status,
    /// The terms of the objective, first to last, with their values.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub objective: Option<Objective>,
    /// Values that no plan is below: the first, and the next ones as far as those before are reached.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bound: Option<Objective>,
    /// The plan, if there is one.
    #[serde(flatten)]
    pub plan: Plan,
    /// Why there is no plan.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<Why>,
    /// Changed problems that have a plan.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub offers: Vec<Offer>,
    /// Other plans, best first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub alternatives: Vec<Alternative>,
    /// The steps that the solver took.
    pub steps: u64,
}

/// Which part goes where.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub struct Plan {
    /// The places of the copies of each part, first to last.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub placement: BTreeMap<String, Vec<String>>,
    /// Parts that reuse what is installed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub reused: Vec<String>,
    /// What is installed on each place.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub install: BTreeMap<String, Vec<String>>,
    /// The edges of each link, from its first end to its second; none within a place.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub paths: BTreeMap<String, Vec<String>>,
}

/// Another plan.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Alternative {
    /// Its values.
    pub objective: Objective,
    /// Which part goes where.
    #[serde(flatten)]
    pub plan: Plan,
}

/// Why there is no plan.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub struct Why {
    /// Parts that have no plan together, though they have one without any of them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<String>,
    /// The links between them that are needed for that.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub links: Vec<String>,
    /// Whether nothing of `parts` and `links` can be left out. It is false if the steps ran out before.
    pub irreducible: bool,
    /// In sentences: what each part that fits nowhere fails at, and how nearly.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub reasons: Vec<String>,
}

/// A change of the problem that has a plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Offer {
    /// The change in a sentence.
    pub change: String,
    /// The plan that proves it.
    #[serde(flatten)]
    pub plan: Plan,
}

/// The values of the terms of an objective, in its order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Objective(Vec<(Term, u64)>);

impl Objective {
    pub(crate) fn of(terms: &[Term], values: &Values) -> Self {
        Self(terms.iter().map(|term| (*term, values.get(*term))).collect())
    }

    pub(crate) fn from_score(terms: &[Term], score: &crate::score::Score) -> Self {
        Self(terms.iter().copied().zip(score.0).collect())
    }

    /// The value of a term; of a price, the millionths.
    pub fn get(&self, term: Term) -> Option<u64> {
        self.0.iter().find(|(known, _)| *known == term).map(|(_, value)| *value)
    }

    /// The terms and their values, first to last.
    pub fn iter(&self) -> impl Iterator<Item = (Term, u64)> {
        self.0.iter().copied()
    }
}

impl fmt::Display for Objective {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (term, value)) in self.iter().enumerate() {
            let comma = if index == 0 { "" } else { ", " };
            match term {
                Term::Price => write!(f, "{comma}{term} {}", Price::from_millionths(value))?,
                Term::Installs | Term::Nodes | Term::Spread | Term::Uses | Term::Favourites => {
                    write!(f, "{comma}{term} {value}")?;
                }
            }
        }
        Ok(())
    }
}

impl Serialize for Objective {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        use serde::ser::SerializeMap;

        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (term, value) in self.iter() {
            match term {
                Term::Price => map.serialize_entry(&term, &Price::from_millionths(value))?,
                Term::Installs | Term::Nodes | Term::Spread | Term::Uses | Term::Favourites => {
                    map.serialize_entry(&term, &value)?;
                }
            }
        }
        map.end()
    }
}

impl<'de> Deserialize<'de> for Objective {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Terms;

        impl<'de> serde::de::Visitor<'de> for Terms {
            type Value = Objective;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a table of terms and values")
            }

            fn visit_map<A: serde::de::MapAccess<'de>>(
                self,
                mut map: A,
            ) -> Result<Objective, A::Error> {
                let mut terms = Vec::new();
                while let Some(term) = map.next_key()? {
                    let value = match term {
                        Term::Price => map.next_value::<Price>()?.millionths(),
                        Term::Installs
                        | Term::Nodes
                        | Term::Spread
                        | Term::Uses
                        | Term::Favourites => map.next_value()?,
                    };
                    terms.push((term, value));
                }
                Ok(Objective(terms))
            }
        }

        deserializer.deserialize_map(Terms)
    }
}
