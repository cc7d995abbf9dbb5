//! The life of a lease at its site.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::actor::machine::Illegal;
use crate::driver::UnitId;
use crate::model::time::Time;
use crate::ticket::link::LinkHash;
use crate::wire::refusal::Refusal;

/// Where a lease is in its life at the site.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum State {
    /// Redeemed before its start: held, not refused.
    Early,
    /// Its term has begun; it waits for units.
    Due,
    /// It has units, not all of them set up or not yet enough.
    Priming {
        /// Units being set up, or cleaned first.
        pending: BTreeSet<UnitId>,
        /// Units that are ready.
        ready: BTreeSet<UnitId>,
    },
    /// The guest has its units.
    Active {
        /// The units.
        units: BTreeSet<UnitId>,
    },
    /// Over. Remembered until its term and the clock margin have passed, and never brought back.
    Closed {
        /// The units it went active with, none if it never did.
        units: BTreeSet<UnitId>,
        /// Why.
        why: CloseReason,
    },
}

/// Why a lease has ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum CloseReason {
    /// Its term ended.
    TermOver,
    /// Its holder gave it back.
    GivenBack,
    /// The site could not make good on it.
    Failed(Refusal),
    /// The issuer of this link recalled all of its units.
    Recalled(LinkHash),
    /// Nothing has been heard from its guest since then.
    Silent(Time),
}

/// What happens to a lease at its site.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// Its term began.
    CameDue,
    /// The mapper put units on it.
    Assigned(BTreeSet<UnitId>),
    /// One of its units is set up.
    UnitReady(UnitId),
    /// One of its units could not be set up, or cleaned for it, or failed before the guest had it.
    UnitLost(UnitId),
    /// All it will get is ready, and it is enough.
    Activated,
    /// A ticket that continues its term was redeemed.
    Extended,
    /// Some of its units are released; it goes on with the others.
    Shrunk(BTreeSet<UnitId>),
    /// Its term ends earlier.
    Shortened,
    /// It has ended.
    Closed(CloseReason),
    /// Its units, or its share, are to change in place.
    Modified,
}

impl State {
    /// The state in a word.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Early => "Early",
            Self::Due => "Due",
            Self::Priming { .. } => "Priming",
            Self::Active { .. } => "Active",
            Self::Closed { .. } => "Closed",
        }
    }

    /// The units it has.
    pub fn units(&self) -> Vec<UnitId> {
        match self {
            Self::Early | Self::Due | Self::Closed { .. } => Vec::new(),
            Self::Priming { pending, ready } => pending.union(ready).copied().collect(),
            Self::Active { units } => units.iter().copied().collect(),
        }
    }

    /// The next state.
    pub fn next(self, event: Event) -> Result<Self, Illegal> {
        use Event::{
            Activated, Assigned, CameDue, Closed, Extended, Modified, Shortened, Shrunk, UnitLost,
            UnitReady,
        };
        let illegal =
            Illegal { machine: "site authority", state: self.word(), event: event.word() };
        Ok(match (self, event) {
            (Self::Early, CameDue) => Self::Due,
            (Self::Active { units }, Extended | Shortened | Modified) => Self::Active { units },
            (Self::Active { mut units }, Shrunk(gone))
                if gone.is_subset(&units) && gone.len() < units.len() =>
            {
                units.retain(|unit| !gone.contains(unit));
                Self::Active { units }
            }
            (Self::Due, Assigned(units)) => {
                Self::Priming { pending: units, ready: BTreeSet::new() }
            }
            (Self::Priming { mut pending, ready }, Assigned(mut units)) => {
                pending.append(&mut units);
                Self::Priming { pending, ready }
            }
            (Self::Priming { mut pending, mut ready }, UnitReady(unit)) => {
                pending.remove(&unit);
                ready.insert(unit);
                Self::Priming { pending, ready }
            }
            (Self::Priming { mut pending, mut ready }, UnitLost(unit)) => {
                pending.remove(&unit);
                ready.remove(&unit);
                Self::Priming { pending, ready }
            }
            (Self::Priming { pending, ready }, Activated) if pending.is_empty() => {
                Self::Active { units: ready }
            }
            (Self::Early | Self::Due | Self::Priming { .. }, Closed(why)) => {
                Self::Closed { units: BTreeSet::new(), why }
            }
            (Self::Active { units }, Closed(why)) => Self::Closed { units, why },
            (
                Self::Early,
                Assigned(_) | UnitReady(_) | UnitLost(_) | Activated | Extended | Shrunk(_)
                | Shortened | Modified,
            )
            | (
                Self::Due,
                CameDue | UnitReady(_) | UnitLost(_) | Activated | Extended | Shrunk(_) | Shortened
                | Modified,
            )
            | (
                Self::Priming { .. },
                CameDue | Activated | Extended | Shrunk(_) | Shortened | Modified,
            )
            | (
                Self::Active { .. },
                CameDue | Assigned(_) | UnitReady(_) | UnitLost(_) | Activated | Shrunk(_),
            )
            | (Self::Closed { .. }, _) => return Err(illegal),
        })
    }
}

impl Event {
    /// The event in a word.
    pub fn word(&self) -> &'static str {
        match self {
            Self::CameDue => "CameDue",
            Self::Assigned(_) => "Assigned",
            Self::UnitReady(_) => "UnitReady",
            Self::UnitLost(_) => "UnitLost",
            Self::Activated => "Activated",
            Self::Extended => "Extended",
            Self::Shrunk(_) => "Shrunk",
            Self::Shortened => "Shortened",
            Self::Closed(_) => "Closed",
            Self::Modified => "Modified",
        }
    }
}
