//! What is wrong with a run.

use std::fmt;

use tenure_core::model::time::Time;

/// Why a seed failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Violation {
    /// A law was broken.
    Law(tenure_laws::Violation),
    /// An actor panicked: it refused a fact of its own making, or worse.
    Panicked {
        /// When, by the true time.
        at: Time,
        /// What it reported.
        what: String,
    },
    /// Something does not continue, or an actor refuses its own journal.
    Stuck {
        /// When it was seen, by the true time.
        at: Time,
        /// What.
        what: String,
    },
}

impl Violation {
    pub(super) fn stuck(at: Time, what: String) -> Self {
        Self::Stuck { at, what }
    }

    /// The law that was broken, by its id; what is stuck breaks the first law of liveness.
    pub fn law(&self) -> &'static str {
        match self {
            Self::Law(violation) => violation.law.id,
            Self::Panicked { .. } => "panic",
            Self::Stuck { .. } => "L1",
        }
    }

    /// When.
    pub fn at(&self) -> Time {
        match self {
            Self::Law(violation) => violation.at,
            Self::Panicked { at, .. } | Self::Stuck { at, .. } => *at,
        }
    }

    /// What is wrong, in a sentence.
    pub fn what(&self) -> &str {
        match self {
            Self::Law(violation) => &violation.what,
            Self::Panicked { what, .. } | Self::Stuck { what, .. } => what,
        }
    }
}

impl From<tenure_laws::Violation> for Violation {
    fn from(violation: tenure_laws::Violation) -> Self {
        Self::Law(violation)
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Law(violation) => violation.fmt(f),
            Self::Panicked { at, what } => write!(f, "panic at {at}: {what}"),
            Self::Stuck { at, what } => write!(f, "L1 (termination) at {at}: {what}"),
        }
    }
}
