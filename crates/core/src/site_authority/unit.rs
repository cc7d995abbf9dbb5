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
    /// Could not be cleaned, or was taken out of use: until an operator resets it.
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
    /// An operator took it out of use.
    Quarantined,
    /// An operator put it right, and it is clean.
    Restored,
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
        match self {
            Self::Free => free(event),
            Self::SettingUp { tenant } => setting_up(tenant, event),
            Self::Ready { tenant, .. } => ready(tenant, event),
            Self::Abandoned { next } => abandoned(next, event),
            Self::TearingDown { next } => tearing_down(next, event),
            Self::Quarantined => quarantined(event),
        }
    }
}

fn illegal(state: &State, event: &Event) -> Illegal {
    Illegal { machine: "unit", state: state.word(), event: event.word() }
}

fn free(event: Event) -> Result<State, Illegal> {
    match event {
        Event::Assigned(tenant) => Ok(State::SettingUp { tenant }),
        Event::Quarantined => Ok(State::Quarantined),
        Event::Released
        | Event::SetUp(_)
        | Event::SetupFailed
        | Event::TornDown
        | Event::TeardownFailed
        | Event::Reset
        | Event::Restored
        | Event::Modified(_) => Err(illegal(&State::Free, &event)),
    }
}

fn setting_up(tenant: Tenant, event: Event) -> Result<State, Illegal> {
    match event {
        Event::SetUp(properties) => Ok(State::Ready { tenant, properties }),
        Event::SetupFailed => Ok(State::TearingDown { next: None }),
        Event::Released => Ok(State::Abandoned { next: None }),
        Event::Assigned(_)
        | Event::TornDown
        | Event::TeardownFailed
        | Event::Reset
        | Event::Quarantined
        | Event::Restored
        | Event::Modified(_) => Err(illegal(&State::SettingUp { tenant }, &event)),
    }
}

fn ready(tenant: Tenant, event: Event) -> Result<State, Illegal> {
    match event {
        Event::Released => Ok(State::TearingDown { next: None }),
        Event::Modified(properties) => Ok(State::Ready { tenant, properties }),
        Event::Assigned(_)
        | Event::SetUp(_)
        | Event::SetupFailed
        | Event::TornDown
        | Event::TeardownFailed
        | Event::Reset
        | Event::Quarantined
        | Event::Restored => {
            let properties = Properties::default();
            Err(illegal(&State::Ready { tenant, properties }, &event))
        }
    }
}

fn abandoned(next: Option<Tenant>, event: Event) -> Result<State, Illegal> {
    match (next, event) {
        (None, Event::Assigned(next)) => Ok(State::Abandoned { next: Some(next) }),
        (Some(_), Event::Released) => Ok(State::Abandoned { next: None }),
        (Some(tenant), Event::SetUp(properties)) if mutant!(LateSetupCounts) => {
            Ok(State::Ready { tenant, properties })
        }
        (next, Event::SetUp(_) | Event::SetupFailed) => Ok(State::TearingDown { next }),
        (
            next,
            event @ (Event::Assigned(_)
            | Event::Released
            | Event::TornDown
            | Event::TeardownFailed
            | Event::Reset
            | Event::Quarantined
            | Event::Restored
            | Event::Modified(_)),
        ) => Err(illegal(&State::Abandoned { next }, &event)),
    }
}

fn tearing_down(next: Option<Tenant>, event: Event) -> Result<State, Illegal> {
    match (next, event) {
        (None, Event::Assigned(next)) => Ok(State::TearingDown { next: Some(next) }),
        (Some(_), Event::Released) => Ok(State::TearingDown { next: None }),
        (None, Event::TornDown) => Ok(State::Free),
        (Some(tenant), Event::TornDown) => Ok(State::SettingUp { tenant }),
        (None, Event::TeardownFailed) if mutant!(DirtyIsClean) => Ok(State::Free),
        (_, Event::TeardownFailed) => Ok(State::Quarantined),
        (
            next,
            event @ (Event::Assigned(_)
            | Event::Released
            | Event::SetUp(_)
            | Event::SetupFailed
            | Event::Reset
            | Event::Quarantined
            | Event::Restored
            | Event::Modified(_)),
        ) => Err(illegal(&State::TearingDown { next }, &event)),
    }
}

fn quarantined(event: Event) -> Result<State, Illegal> {
    match event {
        Event::Reset => Ok(State::TearingDown { next: None }),
        Event::Restored => Ok(State::Free),
        Event::Assigned(_)
        | Event::Released
        | Event::SetUp(_)
        | Event::SetupFailed
        | Event::TornDown
        | Event::TeardownFailed
        | Event::Quarantined
        | Event::Modified(_) => Err(illegal(&State::Quarantined, &event)),
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
            Self::Quarantined => "Quarantined",
            Self::Restored => "Restored",
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
