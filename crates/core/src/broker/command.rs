//! Commands of a broker's operators.

use std::num::NonZeroU32;

use super::forwarding::Neighbour;
use super::quota::{Quota, Whose};
use super::sharing::Sharing;
use crate::actor::invitations::PeerCommand;
use crate::actor::keys::KeyCommand;
use crate::model::identity::ActorId;
use crate::model::time::{Span, Time};
use crate::ticket::link::{DelegationId, LinkHash};

/// A command of a broker's operator.
#[derive(Clone, Debug, PartialEq)]
pub enum Command {
    /// The actor's own keys change.
    Keys(KeyCommand),
    /// The actor's peers change.
    Peers(PeerCommand),
    /// A quota is set; without one the configured one is in force again.
    SetQuota {
        /// Whom it is for; each service manager without one of its own unless set.
        whose: Whose,
        /// The quota.
        quota: Option<Quota>,
    },
    /// Units of a delegation that it holds are delegated to another broker.
    Delegate {
        /// The other broker.
        to: ActorId,
        /// What they are taken from.
        from: DelegationId,
        /// How many units.
        units: NonZeroU32,
        /// For how long from now; as its own delegation is renewed, so is this one, up to then.
        length: Span,
        /// A delegation to that broker that is to have so many units, and to last so long, instead of a
        /// new one.
        grow: Option<u64>,
    },
    /// Units of a delegation that it holds are given back to their site.
    Return {
        /// The delegation.
        delegation: DelegationId,
        /// How many units.
        units: NonZeroU32,
        /// From when on; from now on unless set.
        from: Option<Time>,
    },
    /// Units of a ticket that was cut here are recalled, or a recall is withdrawn.
    Recall {
        /// The ticket.
        ticket: LinkHash,
        /// How many units stay; without a number the last recall is withdrawn.
        units: Option<u32>,
        /// From when on; from now on unless set.
        from: Option<Time>,
    },
    /// So much of what it has is shared with another broker from now on.
    Share {
        /// The other broker.
        with: ActorId,
        /// What is shared.
        sharing: Sharing,
    },
    /// This is agreed with another broker on the requests of each other's guests from now on.
    SetNeighbour {
        /// The other broker.
        with: ActorId,
        /// What is agreed.
        neighbour: Neighbour,
    },
    /// It sells nothing more, or sells again.
    Sell(bool),
}
