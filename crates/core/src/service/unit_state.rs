//! The state of a unit, in the words of Hedeby: what its site and its guest make of it together.

use crate::service_manager::machine::{State as Lease, UnitUse};
use crate::site_authority::unit::State as AtSite;

/// The state of a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum UnitState {
    /// Nobody has it.
    Unassigned,
    /// Its guest's software is about to take it up.
    Assigning,
    /// Its guest's software uses it.
    Assigned,
    /// Its guest's software is leaving it, or has left it, or its lease goes back.
    Unassigning,
    /// Its site sets it up for the next tenant, or cleans it of the last one.
    InProcess,
    /// It could not be set up, taken up or cleaned.
    Error,
}

/// What its guest knows of a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AtGuest {
    /// What its software does with it.
    pub usage: UnitUse,
    /// Whether its lease goes back.
    pub goes: bool,
}

impl AtGuest {
    /// That of a unit of a lease.
    pub fn of(lease: &Lease, usage: UnitUse) -> Self {
        let goes = match lease {
            Lease::Ticketed { .. }
            | Lease::Redeeming { .. }
            | Lease::Joining { .. }
            | Lease::Active { .. } => false,
            Lease::Leaving { .. }
            | Lease::Closing { .. }
            | Lease::Crediting { .. }
            | Lease::Closed { .. } => true,
        };
        Self { usage, goes }
    }
}

impl UnitState {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::Unassigned,
        Self::Assigning,
        Self::Assigned,
        Self::Unassigning,
        Self::InProcess,
        Self::Error,
    ];

    /// The state of a unit, as far as site and guest have been heard of it. What its guest says counts while its
    /// site has it ready.
    pub fn of(site: Option<&AtSite>, guest: Option<AtGuest>) -> Self {
        match (site, guest) {
            (Some(AtSite::Quarantined), _) => Self::Error,
            (
                Some(
                    AtSite::SettingUp { .. }
                    | AtSite::Abandoned { .. }
                    | AtSite::TearingDown { .. },
                ),
                _,
            )
            | (Some(AtSite::Ready { .. }), None) => Self::InProcess,
            (Some(AtSite::Free) | None, None) => Self::Unassigned,
            // The site has closed the lease, and its guest does not know that yet.
            (Some(AtSite::Free), Some(_)) => Self::Unassigning,
            (Some(AtSite::Ready { .. }) | None, Some(guest)) => Self::of_guest(guest),
        }
    }

    fn of_guest(AtGuest { usage, goes }: AtGuest) -> Self {
        match usage {
            UnitUse::Unusable | UnitUse::Refused => Self::Error,
            UnitUse::Leaving | UnitUse::Left => Self::Unassigning,
            UnitUse::Joining | UnitUse::Joined if goes => Self::Unassigning,
            UnitUse::Joining => Self::Assigning,
            UnitUse::Joined => Self::Assigned,
        }
    }

    /// In a word.
    pub fn word(self) -> &'static str {
        match self {
            Self::Unassigned => "unassigned",
            Self::Assigning => "assigning",
            Self::Assigned => "assigned",
            Self::Unassigning => "unassigning",
            Self::InProcess => "in-process",
            Self::Error => "error",
        }
    }
}
