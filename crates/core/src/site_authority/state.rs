//! What a site authority's journal folds to.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::inventory::Planned;
use super::memory::{Charges, RefusedTickets};
use super::recall::Recall;
use super::stacks::Stacks;
use super::{Delegation, Lease, Obligation, Reclaimed, Rights, Tenancy, Timer, Unit, UnitPool};
use crate::actor::pending::PendingEffects;
use crate::actor::rounds::MapperRounds;
use crate::actor::timers::Timers;
use crate::driver::UnitId;
use crate::model::name::Name;
use crate::ticket::ledger::Ledger;
use crate::ticket::link::{AccountId, LinkHash};

/// The state that a snapshot holds, in this order.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct State {
    pub(super) rounds: MapperRounds,
    /// What it has, by type.
    pub(super) stocks: BTreeMap<Name, UnitPool>,
    pub(super) units: BTreeMap<UnitId, Unit>,
    /// How many numbers of units have been used, those of withdrawn units included.
    pub(super) numbered: u32,
    /// What the plan had when it was followed last, by type.
    pub(super) planned: BTreeMap<Name, Planned>,
    /// Which units are in stacks.
    pub(super) stacks: Stacks,
    /// The units that have names.
    pub(super) names: BTreeMap<Name, UnitId>,
    /// Whom units serve, by lease: from its redeem until it has ended and its units are clean.
    pub(super) tenancies: BTreeMap<LinkHash, Tenancy>,
    /// The delegations that have not ended, by their numbers.
    pub(super) delegations: BTreeMap<u64, Delegation>,
    /// The number of the newest delegation there ever was: none is used again.
    pub(super) last_delegation: u64,
    /// The tree of claims: every link it was shown, under its parent.
    pub(super) claims: Ledger,
    pub(super) leases: BTreeMap<LinkHash, Box<Lease>>,
    /// The lease that each redeemed or surrendered ticket belongs to.
    pub(super) by_ticket: BTreeMap<LinkHash, LinkHash>,
    /// The accounts of tickets that were redeemed or given back whole: nothing is cut from them.
    pub(super) used: BTreeSet<AccountId>,
    /// Tickets that are not redeemed and of which parts came back.
    pub(super) rights: BTreeMap<LinkHash, Rights>,
    pub(super) refused: RefusedTickets,
    /// How much of all this is whose.
    pub(super) charges: Charges,
    /// Leases that lack units, in the order in which they came to.
    pub(super) short: BTreeMap<u64, LinkHash>,
    /// Leases that are not over.
    pub(super) live: BTreeSet<LinkHash>,
    /// Units that are neither free nor quarantined.
    pub(super) busy: BTreeSet<UnitId>,
    pub(super) pending: PendingEffects<Obligation>,
    pub(super) timers: Timers<Timer>,
    /// Tickets that were not redeemed in time, and went back to their issuers.
    pub(super) reclaimed: BTreeMap<LinkHash, Reclaimed>,
    /// The recalls of links that are not over, the highest number of each.
    pub(super) recalls: BTreeMap<LinkHash, Recall>,
    /// The delegations that are recalled, each with the generation by which it is.
    pub(super) levels: BTreeMap<AccountId, LinkHash>,
}
