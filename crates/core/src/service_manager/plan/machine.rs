//! The life of a plan.

use serde::{Deserialize, Serialize};

use crate::actor::machine::Illegal;
use crate::model::time::Time;

/// Where a plan is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Phase {
    /// The mapper is asked.
    Requested,
    /// Nodes that it lacks are being leased. The mapper is asked again once they are in use.
    Leasing,
    /// It is computed, and holds its nodes.
    Proposed,
    /// Its packages are being installed on the nodes that it holds.
    Accepted,
    /// It holds no nodes any more.
    Ended {
        /// How it ended.
        outcome: PlanOutcome,
        /// When.
        at: Time,
    },
}

/// How a plan ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PlanOutcome {
    /// All of its packages are installed.
    Installed,
    /// Some packages failed; the others stay.
    Failed,
    /// Some packages failed; the others are removed.
    RolledBack,
    /// Some packages failed; another plan goes on without those nodes.
    Replaced,
    /// The user gave it up, and what it had installed is removed.
    Released,
    /// Its time was over. What was not reported as installed is removed.
    Lapsed,
    /// There is no such plan.
    Infeasible,
    /// There is none while other plans hold their nodes.
    Busy,
}

/// What happens to a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// Nodes that it lacks are asked for.
    Lacking,
    /// They have come.
    Leased,
    /// It is computed.
    Proposed,
    /// The user takes it.
    Accepted,
    /// It ends.
    Ended(PlanOutcome, Time),
}

impl PlanOutcome {
    /// In a word.
    pub fn word(self) -> &'static str {
        match self {
            Self::Installed => "installed",
            Self::Failed => "failed",
            Self::RolledBack => "rolled-back",
            Self::Replaced => "replaced",
            Self::Released => "released",
            Self::Lapsed => "lapsed",
            Self::Infeasible => "infeasible",
            Self::Busy => "busy",
        }
    }

    /// Whether what the plan has installed stays, so that it can still be released.
    pub fn keeps(self) -> bool {
        match self {
            Self::Installed | Self::Failed | Self::Replaced | Self::Lapsed => true,
            Self::RolledBack | Self::Released | Self::Infeasible | Self::Busy => false,
        }
    }
}

impl Phase {
    /// In a word.
    pub fn word(self) -> &'static str {
        match self {
            Self::Requested => "requested",
            Self::Leasing => "leasing",
            Self::Proposed => "proposed",
            Self::Accepted => "accepted",
            Self::Ended { outcome, .. } => outcome.word(),
        }
    }

    /// Whether it has ended.
    pub fn is_over(self) -> bool {
        matches!(self, Self::Ended { .. })
    }

    /// The phase after an event.
    ///
    /// # Errors
    /// If the event has no place in this phase.
    pub fn next(self, event: Event) -> Result<Self, Illegal> {
        match (self, event) {
            (Self::Requested, Event::Lacking) => Ok(Self::Leasing),
            (Self::Leasing, Event::Leased) => Ok(Self::Requested),
            (Self::Requested, Event::Proposed) => Ok(Self::Proposed),
            (Self::Proposed, Event::Accepted) => Ok(Self::Accepted),
            (Self::Requested | Self::Leasing, Event::Ended(outcome, at))
                if matches!(
                    outcome,
                    PlanOutcome::Infeasible
                        | PlanOutcome::Busy
                        | PlanOutcome::Released
                        | PlanOutcome::Lapsed
                ) =>
            {
                Ok(Self::Ended { outcome, at })
            }
            (Self::Proposed, Event::Ended(outcome, at))
                if matches!(outcome, PlanOutcome::Released | PlanOutcome::Lapsed) =>
            {
                Ok(Self::Ended { outcome, at })
            }
            (Self::Accepted, Event::Ended(outcome, at))
                if !matches!(outcome, PlanOutcome::Infeasible | PlanOutcome::Busy) =>
            {
                Ok(Self::Ended { outcome, at })
            }
            (Self::Ended { outcome: before, .. }, Event::Ended(PlanOutcome::Released, at))
                if before.keeps() =>
            {
                Ok(Self::Ended { outcome: PlanOutcome::Released, at })
            }
            (Self::Requested, Event::Leased | Event::Accepted | Event::Ended(..))
            | (
                Self::Leasing,
                Event::Lacking | Event::Proposed | Event::Accepted | Event::Ended(..),
            )
            | (
                Self::Proposed,
                Event::Lacking | Event::Leased | Event::Proposed | Event::Ended(..),
            )
            | (Self::Accepted | Self::Ended { .. }, _) => {
                Err(Illegal { machine: "plan", state: self.word(), event: event.word() })
            }
        }
    }
}

impl Event {
    fn word(self) -> &'static str {
        match self {
            Self::Lacking => "Lacking",
            Self::Leased => "Leased",
            Self::Proposed => "Proposed",
            Self::Accepted => "Accepted",
            Self::Ended(..) => "Ended",
        }
    }
}
