//! What a plan is measured by.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A term of the objective: the less, the better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Term {
    /// Packages that are installed: parts that reuse nothing, and libraries once for each place that
    /// needs them.
    Installs,
    /// Places that host a part.
    Nodes,
    /// Places that host a part bound by a `uses`.
    Spread,
    /// The weight of the `uses` whose parts are on two places.
    Uses,
    /// Parts that are on no favourite of theirs.
    Favourites,
    /// What parts need at the prices of their places, and the bandwidth of links at those of the edges on
    /// their paths. In millionths.
    Price,
}

impl Term {
    /// How many there are.
    pub const COUNT: usize = 6;

    /// All of them.
    pub const ALL: [Self; Self::COUNT] =
        [Self::Installs, Self::Nodes, Self::Spread, Self::Uses, Self::Favourites, Self::Price];

    /// The objective of a problem that names none.
    pub fn default_objective(has_links: bool) -> &'static [Self] {
        if has_links {
            &[Self::Price]
        } else {
            &[Self::Installs, Self::Nodes, Self::Spread, Self::Uses]
        }
    }
}

impl fmt::Display for Term {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Installs => "installs",
            Self::Nodes => "nodes",
            Self::Spread => "spread",
            Self::Uses => "uses",
            Self::Favourites => "favourites",
            Self::Price => "price",
        })
    }
}

/// The values of the terms of an objective, first to last; compared in this order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Score(pub(crate) [u64; Term::COUNT]);

impl Score {
    /// No plan is worse.
    pub(crate) const WORST: Self = Self([u64::MAX; Term::COUNT]);
}

/// The values of all terms, whatever the objective.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Values([u64; Term::COUNT]);

impl Values {
    pub(crate) fn get(&self, term: Term) -> u64 {
        self.0[term as usize]
    }

    pub(crate) fn set(&mut self, term: Term, value: u64) {
        self.0[term as usize] = value;
    }

    pub(crate) fn add(&mut self, term: Term, value: u64) {
        self.0[term as usize] += value;
    }

    pub(crate) fn sub(&mut self, term: Term, value: u64) {
        self.0[term as usize] -= value;
    }

    /// Those of an objective.
    pub(crate) fn score(&self, objective: &[Term]) -> Score {
        let mut score = Score::default();
        for (value, term) in score.0.iter_mut().zip(objective) {
            *value = self.get(*term);
        }
        score
    }
}
