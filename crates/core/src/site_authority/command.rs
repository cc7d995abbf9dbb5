//! Commands of a site's operators.

use std::num::NonZeroU32;

use crate::actor::invitations::PeerCommand;
use crate::actor::keys::KeyCommand;
use crate::driver::{Epoch, UnitId};
use crate::model::identity::ActorId;
use crate::model::name::Name;
use crate::model::resource::Attributes;
use crate::model::time::{Span, Time};

/// A command of a site's operator.
#[derive(Clone, Debug, PartialEq)]
pub enum Command {
    /// The actor's own keys change.
    Keys(KeyCommand),
    /// The actor's peers change.
    Peers(PeerCommand),
    /// A quarantined unit was repaired.
    Reset {
        /// The unit.
        unit: UnitId,
    },
    /// A named unit was installed.
    Add {
        /// Its type, which must be known.
        resource: Name,
        /// Its name, which no other unit of the site has.
        name: Name,
        /// What it is like, beyond what all units of its type are.
        attributes: Attributes,
    },
    /// A unit gets no new tenant from now on; the lease that it is on keeps it.
    Drain {
        /// The unit.
        unit: UnitId,
        /// From when on the lease is to do without it.
        by: Option<Time>,
    },
    /// A drained unit is in service again.
    Resume {
        /// The unit.
        unit: UnitId,
    },
    /// A unit that is on no lease is taken out of use until it is reset.
    Quarantine {
        /// The unit.
        unit: UnitId,
        /// Why, in the operator's words.
        why: String,
    },
    /// A unit that a lease has fails, or has failed: the lease gets another, or its guest is told.
    Fail {
        /// The unit.
        unit: UnitId,
        /// The tenancy in which it failed; the present one unless set.
        epoch: Option<Epoch>,
        /// How it fails.
        why: String,
    },
    /// A unit is withdrawn for good. Refused unless it is idle, and one unit of its type is not delegated.
    Remove {
        /// The unit.
        unit: UnitId,
    },
    /// More units of a type were installed.
    Stock {
        /// The type, which must be known.
        resource: Name,
        /// How many more.
        units: NonZeroU32,
    },
    /// Units of a type are withdrawn for good. Refused unless so many are idle and not delegated.
    Withdraw {
        /// The type.
        resource: Name,
        /// How many.
        units: NonZeroU32,
    },
    /// Units are delegated to a broker, beside what the plan offers. Such a delegation is not renewed.
    Delegate {
        /// The broker.
        broker: ActorId,
        /// The type.
        resource: Name,
        /// How many units.
        units: NonZeroU32,
        /// For how long from now.
        length: Span,
        /// A delegation to that broker that is to have so many units, and to last so long, instead of a
        /// new one.
        grow: Option<u64>,
    },
    /// Units of a delegation are recalled, or a recall is withdrawn.
    Recall {
        /// The number of the delegation.
        delegation: u64,
        /// How many units stay; without a number the last recall is withdrawn.
        units: Option<u32>,
        /// From when on; from now on unless set.
        from: Option<Time>,
    },
}
