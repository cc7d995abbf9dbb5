//! Drivers: what really happens to a unit, at the site and at the guest.
//!
//! The core never calls one. A [`Call`] is pending work; a shell performs it and hands the [`Answer`] back as
//! an input. A call carries the unit's *epoch*, a number that grows with every tenancy and every end of one:
//! it must refuse a call whose epoch is below one it has seen, so that a late teardown can never touch the
//! successor.

use std::fmt;
use std::num::NonZeroU32;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::model::identity::{ActorId, Signer};
use crate::model::keys::KeyChain;
use crate::model::name::Name;
use crate::model::property::Properties;
use crate::model::slice::{LeaseId, SliceName};
use crate::model::time::{Span, Time};

/// A unit, by its site's number. Numbers are given once and never again.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct UnitId(pub u32);

impl fmt::Display for UnitId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "u{}", self.0)
    }
}

impl fmt::Debug for UnitId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The fencing number of a unit (S6); grows, never falls.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Epoch(pub u64);

impl Epoch {
    /// The epoch after this one.
    pub fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

impl fmt::Debug for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "e{}", self.0)
    }
}

/// What is done to a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Step {
    /// Site: make it ready for its holder.
    Setup,
    /// Site: take it from its holder and clean it.
    Teardown,
    /// Guest: start using it.
    Join,
    /// Either: take over a changed configuration or quantity, in use. Before a leave, whatever its number.
    Modify,
    /// Guest: stop using it.
    Leave,
    /// Guest: learn that it is recalled. Advice: nothing waits for it, and no other step comes after it.
    Warn,
    /// Guest: install a package on it, while it is used.
    Install,
    /// Guest: remove a package from it.
    Remove,
}

impl Step {
    /// A number for each step, which stays.
    pub fn index(self) -> u8 {
        match self {
            Self::Setup => 0,
            Self::Teardown => 1,
            Self::Join => 2,
            Self::Leave => 3,
            Self::Modify => 4,
            Self::Warn => 5,
            Self::Install => 6,
            Self::Remove => 7,
        }
    }

    /// The step in a word.
    pub fn word(self) -> &'static str {
        match self {
            Self::Setup => "setup",
            Self::Teardown => "teardown",
            Self::Join => "join",
            Self::Modify => "modify",
            Self::Leave => "leave",
            Self::Warn => "warn",
            Self::Install => "install",
            Self::Remove => "remove",
        }
    }
}

/// One step on one unit. (site, unit, epoch, step, number) names it for ever.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Call {
    /// The site that owns the unit.
    pub site: ActorId,
    /// The unit.
    pub unit: UnitId,
    /// Its fencing number for this call.
    pub epoch: Epoch,
    /// What to do.
    pub step: Step,
    /// Counts the modifications of a unit and the warnings of a lease, which grow in a tenancy. Of a join or a
    /// leave, how often the unit was joined again or its leave hastened before: such a call replaces what was
    /// called for before. Of packages, the number of the installation. 0 for every other step.
    pub number: u32,
    /// The unit's type.
    pub resource: Name,
    /// How much of a divisible stock the unit is; 1 for a machine.
    pub quantity: NonZeroU32,
    /// The guest it is done for. What follows is a name within this guest and says nothing without it.
    pub guest: ActorId,
    /// The guest's slice: units of one slice belong together, so they share names and addresses.
    pub slice: SliceName,
    /// The lease it is done for.
    pub lease: LeaseId,
    /// At the site the guest's configuration properties, at the guest the unit's properties; of packages, with
    /// what is to be installed beside them.
    pub properties: Properties,
    /// The instant from which on an answer is of no use: the lease has moved on by then, or, of a warning, its
    /// site takes the unit. None of a teardown that no lease waits for.
    pub deadline: Option<Time>,
}

/// Why a step failed, in the driver's words.
#[derive(Clone, Debug, PartialEq, Eq, Error, Serialize, Deserialize)]
#[error("{0}")]
pub struct DriverError(pub String);

/// How an error begins by which a driver refuses a join or a setup, and the unit is as it was.
const UNTOUCHED: &str = "refused, untouched: ";

impl DriverError {
    /// The driver refuses the join or the setup for what is asked of it, such as a configuration that cannot
    /// be, and the unit is as it was: a guest need not leave it, and to a site it is as good as before.
    pub fn untouched(why: impl fmt::Display) -> Self {
        Self(format!("{UNTOUCHED}{why}"))
    }

    /// Why the driver refuses, if that says nothing against the unit.
    pub fn why_untouched(&self) -> Option<&str> {
        self.0.strip_prefix(UNTOUCHED)
    }
}

/// What a driver answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The unit's properties on success (setup, join and modify), else why not.
    pub outcome: Result<Properties, DriverError>,
    /// How much longer the step takes from now on: zero from a driver that has really done it, a delay
    /// from one that only pretends to. The shell waits that long before it hands the outcome in.
    pub after: Span,
}

/// What a site's driver says of a unit by itself, between probes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// The unit.
    pub unit: UnitId,
    /// The tenancy in which it was so: a report that comes later says nothing about the next one.
    pub epoch: Epoch,
    /// What happened.
    pub finding: Finding,
}

/// What happened to a unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finding {
    /// It is up again: worth a probe.
    Up,
    /// It is down, and may come back by itself; it counts as a probe that finds it down.
    Down(DriverError),
    /// It has failed, and does not come back by itself.
    Failed(DriverError),
}

/// Takes a driver's reports. It does not block, and may drop one: what is so still is found by a probe.
pub trait ReportReceiver: Send + Sync {
    /// Takes one report.
    fn report(&self, report: Report);
}

/// The site's plug-in for a kind of resource.
///
/// Idempotent per (unit, epoch, step): called again after a crash it must find out how far it got. It may
/// take hours, holds no lock on anything of the core's, and refuses epochs below the highest it has seen.
pub trait ResourceDriver: Send + Sync {
    /// Does [`Step::Setup`], [`Step::Modify`] or [`Step::Teardown`]. A modification that fails leaves the
    /// unit as it was.
    fn perform(&self, call: &Call) -> Answer;

    /// Nobody waits for this call any more, which is still at work: it counts as failed. The driver should end
    /// it soon, if it can.
    fn give_up(&self, _call: &Call) {}

    /// Says how a unit of a site is, without changing anything.
    fn probe(&self, site: ActorId, unit: UnitId) -> Result<Properties, DriverError>;

    /// Sets who takes its reports from now on, in place of the one before. Units that have failed in
    /// tenancies that last are reported again to each receiver, since what the last one took may be lost.
    /// It does not block. A driver that never reports has nothing to do here.
    fn report_to(&self, _receiver: Arc<dyn ReportReceiver>) {}

    /// Sets the key by which it shows to programs elsewhere that it acts for its site, with what the site has
    /// stated about its keys: at each start of the site, and when they change. It does not block.
    fn acts_by(&self, _signer: &Signer, _keys: &KeyChain) {}
}

/// The guest's plug-in, called with the unit properties that the site handed out. The same promises, and
/// one more: a lease may have to be left before its join is answered, so [`Step::Leave`] may be called
/// while [`Step::Join`] is still at work on the unit. It ends that work.
pub trait GuestDriver: Send + Sync {
    /// Does [`Step::Join`], [`Step::Modify`] or [`Step::Leave`].
    fn perform(&self, call: &Call) -> Answer;

    /// The unit is recalled: its site takes it at the deadline, and it is left before. Once for each recall,
    /// unless a crash comes in between. Whatever this answers, the lease goes on as before.
    fn warn(&self, _call: &Call, _deadline: Time) -> Result<(), DriverError> {
        Ok(())
    }

    /// Whether it installs packages.
    fn installs(&self) -> bool {
        false
    }

    /// Does [`Step::Install`] or [`Step::Remove`], each once under the number of an installation: called
    /// again after a crash it finds out how far it got. It may run beside that of another package.
    fn package(&self, call: &Call) -> Answer {
        let why = format!("the guest's driver cannot {} packages", call.step.word());
        Answer { outcome: Err(DriverError(why)), after: Span::ZERO }
    }

    /// Performs a step, or warns, or handles a package, whichever the call is about.
    fn call(&self, call: &Call) -> Answer {
        if matches!(call.step, Step::Install | Step::Remove) {
            return self.package(call);
        }
        match call.deadline.filter(|_| call.step == Step::Warn) {
            Some(deadline) => {
                let outcome = self.warn(call, deadline).map(|()| Properties::default());
                Answer { outcome, after: Span::ZERO }
            }
            None => self.perform(call),
        }
    }

    /// As [`ResourceDriver::give_up`].
    fn give_up(&self, _call: &Call) {}

    /// As [`ResourceDriver::acts_by`], for its service manager.
    fn acts_by(&self, _signer: &Signer, _keys: &KeyChain) {}

    /// Says how the guest's software on a unit is, without changing anything. A guest has units of several
    /// sites, each with numbers of its own.
    fn probe(&self, site: ActorId, unit: UnitId) -> Result<Properties, DriverError>;
}
