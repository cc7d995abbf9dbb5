//! The life of a unit at its site: set up, ready, torn down, free again.
//!
//! A unit outlives its leases. Its teardown belongs to no lease (the successor is charged for it), so the
//! next lease may be put on it while it is still being cleaned. The epoch grows when a unit is assigned and
//! when it is released, so a driver call of the past is always older than one of the present.

use serde::{Deserialize, Serialize};

use crate::actor::machine::Illegal;
use crate::driver::Epoch;
use crate::model::property::Properties;
use crate::mutants::mutant;
use crate::ticket::link::LinkHash;

/// The lease that a unit is for, by its ticket.
pub type Tenant = LinkHash;

/// Where a unit is in its life.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum State {
    /// Clean, held by no lease.
    Free,
    /// Being set up for a lease.
    SettingUp {
        /// The lease.
        tenant: Tenant,
    },
    /// In the hands of a lease.
    Ready {
        /// The lease.
        tenant: Tenant,
        /// The properties that the driver reported.
        properties: Properties,
    },
    /// Its lease ended while it was being set up; the driver has yet to say how that went.
    Abandoned {
        /// The lease that waits for it, if one does.
        next: Option<Tenant>,
    },
    /// Being cleaned.
    TearingDown {
        /// The lease that waits for it, if one does.
        next: Option<Tenant>,
    },
    /// Could not be cleaned: out of use until an operator resets it.
    Quarantined,
}

/// What happens to a unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// Put on a lease.
    Assigned(Tenant),
    /// Taken from the lease it is on, or that waits for it.
    Released,
    /// The driver set it up.
    SetUp(Properties),
    /// The driver could not.
    SetupFailed,
    /// The driver cleaned it.
    TornDown,
    /// The driver could not.
    TeardownFailed,
    /// An operator put it right.
    Reset,
    /// The driver changed it in use; these are its properties.
    Modified(Properties),
}

impl State {
    /// The state in a word.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Free => "Free",
            Self::SettingUp { .. } => "SettingUp",
            Self::Ready { .. } => "Ready",
            Self::Abandoned { next: None } => "Abandoned",
            Self::Abandoned { next: Some(_) } => "Abandoned+next",
            Self::TearingDown { next: None } => "TearingDown",
            Self::TearingDown { next: Some(_) } => "TearingDown+next",
            Self::Quarantined => "Quarantined",
        }
    }

    /// The lease it is on or waited for by.
    pub fn tenant(&self) -> Option<Tenant> {
        match self {
            Self::SettingUp { tenant } | Self::Ready { tenant, .. } => Some(*tenant),
            Self::Abandoned { next } | Self::TearingDown { next } => *next,
            Self::Free | Self::Quarantined => None,
        }
    }

    /// The properties that the driver reported, while a lease has it.
    pub fn properties(&self) -> Option<&Properties> {
        let Self::Ready { properties, .. } = self else { return None };
        Some(properties)
    }

    /// Whether it can be put on a lease now or once it is clean.
    pub fn assignable(&self) -> bool {
        matches!(
            self,
            Self::Free | Self::Abandoned { next: None } | Self::TearingDown { next: None }
        )
    }

    /// The next state.
    pub fn next(self, event: Event) -> Result<Self, Illegal> {
        use Event::{
            Assigned, Modified, Released, Reset, SetUp, SetupFailed, TeardownFailed, TornDown,
        };
        let illegal = Illegal { machine: "unit", state: self.word(), event: event.word() };
        Ok(match (self, event) {
            (Self::Free, Assigned(tenant)) => Self::SettingUp { tenant },
            (Self::SettingUp { tenant }, SetUp(properties)) => Self::Ready { tenant, properties },
            (Self::SettingUp { .. }, SetupFailed) => Self::TearingDown { next: None },
            (Self::SettingUp { .. }, Released) => Self::Abandoned { next: None },
            (Self::Ready { .. }, Released) => Self::TearingDown { next: None },
            (Self::Ready { tenant, .. }, Modified(properties)) => {
                Self::Ready { tenant, properties }
            }
            (Self::Abandoned { next: None }, Assigned(next)) => {
                Self::Abandoned { next: Some(next) }
            }
            (Self::Abandoned { next: Some(_) }, Released) => Self::Abandoned { next: None },
            (Self::Abandoned { next: Some(tenant) }, SetUp(properties))
                if mutant!(LateSetupCounts) =>
            {
                Self::Ready { tenant, properties }
            }
            (Self::Abandoned { next }, SetUp(_) | SetupFailed) => Self::TearingDown { next },
            (Self::TearingDown { next: None }, Assigned(next)) => {
                Self::TearingDown { next: Some(next) }
            }
            (Self::TearingDown { next: Some(_) }, Released) => Self::TearingDown { next: None },
            (Self::TearingDown { next: None }, TornDown) => Self::Free,
            (Self::TearingDown { next: Some(tenant) }, TornDown) => Self::SettingUp { tenant },
            (Self::TearingDown { next: None }, TeardownFailed) if mutant!(DirtyIsClean) => {
                Self::Free
            }
            (Self::TearingDown { .. }, TeardownFailed) => Self::Quarantined,
            (Self::Quarantined, Reset) => Self::TearingDown { next: None },
            (
                Self::Free,
                Released | SetUp(_) | SetupFailed | TornDown | TeardownFailed | Reset | Modified(_),
            )
            | (
                Self::SettingUp { .. },
                Assigned(_) | TornDown | TeardownFailed | Reset | Modified(_),
            )
            | (
                Self::Ready { .. },
                Assigned(_) | SetUp(_) | SetupFailed | TornDown | TeardownFailed | Reset,
            )
            | (Self::Abandoned { next: None }, Released)
            | (Self::Abandoned { next: Some(_) }, Assigned(_))
            | (Self::Abandoned { .. }, TornDown | TeardownFailed | Reset | Modified(_))
            | (Self::TearingDown { next: None }, Released)
            | (Self::TearingDown { next: Some(_) }, Assigned(_))
            | (Self::TearingDown { .. }, SetUp(_) | SetupFailed | Reset | Modified(_))
            | (
                Self::Quarantined,
                Assigned(_) | Released | SetUp(_) | SetupFailed | TornDown | TeardownFailed
                | Modified(_),
            ) => return Err(illegal),
        })
    }
}

impl Event {
    /// The event in a word.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Assigned(_) => "Assigned",
            Self::Released => "Released",
            Self::SetUp(_) => "SetUp",
            Self::SetupFailed => "SetupFailed",
            Self::TornDown => "TornDown",
            Self::TeardownFailed => "TeardownFailed",
            Self::Reset => "Reset",
            Self::Modified(_) => "Modified",
        }
    }
}

/// The epoch after a change of state: it grows when a tenancy begins and when one ends.
pub fn epoch_after(epoch: Epoch, from: &State, to: &State) -> Epoch {
    let working = |state: &State| matches!(state, State::SettingUp { .. });
    let cleaning = |state: &State| matches!(state, State::TearingDown { .. });
    let cleaned = cleaning(to) && !cleaning(from) && !mutant!(EpochStaysForTeardown);
    let grows = (working(to) && !working(from)) || cleaned;
    if grows { epoch.next() } else { epoch }
}
