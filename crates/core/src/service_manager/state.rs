//! What a service manager's journal folds to.

use std::collections::{BTreeMap, BTreeSet};

use imbl::{OrdMap, OrdSet};
use serde::{Deserialize, Serialize};

use super::ambiguity::Ambiguities;
use super::group::Group;
use super::hosts::ToldHosts;
use super::needs::Needs;
use super::plan::Plans;
use super::request::{self, Request};
use super::rest::Rest;
use super::services::Services;
use super::split::Splits;
use super::{Lease, Obligation, Timer, is_live};
use crate::actor::pending::PendingEffects;
use crate::actor::recalls::IssuedRecalls;
use crate::actor::rounds::MapperRounds;
use crate::actor::timers::Timers;
use crate::driver::{Epoch, UnitId};
use crate::model::calendar::Calendar;
use crate::model::identity::ActorId;
use crate::model::name::Name;
use crate::model::slice::LeaseId;
use crate::model::time::Time;
use crate::ticket::link::LinkHash;

/// The state that a snapshot holds, in this order.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct State {
    pub(super) rounds: MapperRounds,
    /// Boxed, as their like elsewhere: the nodes of a tree are half empty.
    pub(super) leases: BTreeMap<LeaseId, Box<Lease>>,
    /// The requests, by number: open ones, and those that are remembered with their leases.
    pub(super) requests: BTreeMap<u64, Request>,
    /// The leases that go together, by the number of the request that granted the first of them.
    pub(super) groups: BTreeMap<u64, Group>,
    /// What was handed on of the tickets that are kept.
    pub(super) splits: Splits,
    pub(super) by_ticket: BTreeMap<LinkHash, LeaseId>,
    /// The units held or asked for over time, by type.
    pub(super) holdings: OrdMap<Name, Calendar>,
    /// The leases with units, by their ends.
    pub(super) ending: OrdSet<(Time, LeaseId)>,
    pub(super) signals: OrdMap<Name, i64>,
    /// The number of the last request.
    pub(super) last_number: u64,
    pub(super) pending: PendingEffects<Obligation>,
    pub(super) timers: Timers<Timer>,
    /// The recalls of parts of kept tickets that were handed on.
    pub(super) recalls: IssuedRecalls,
    /// What goes back of kept tickets that were split.
    pub(super) rests: BTreeMap<LeaseId, Rest>,
    /// The leases that wait for those of a request, by its number.
    pub(super) waiters: BTreeMap<u64, BTreeSet<LeaseId>>,
    /// The leases at gates of which the mapper is asked.
    pub(super) consulting: BTreeSet<LeaseId>,
    /// The last tenancy of each unit of each site: an answer about an earlier one came late.
    pub(super) epochs: BTreeMap<(ActorId, UnitId), Epoch>,
    /// The leases for which others were asked instead of units that failed, by the number of the request.
    pub(super) replacements: BTreeMap<u64, LeaseId>,
    /// The requests that are one of several to several brokers, with their groups.
    pub(super) parts: BTreeMap<u64, u64>,
    /// Packages on nodes.
    pub(super) plans: Plans,
    pub(super) services: Services,
    /// The units that several of them claim.
    pub(super) ambiguities: Ambiguities,
    /// What brokers were told of them.
    pub(super) needs: Needs,
    /// What they were told of the hosts of them.
    pub(super) hosts: ToldHosts,
}

impl State {
    /// The leases, and the requests without one, that are not over.
    pub(super) fn live(&self) -> impl Iterator<Item = LeaseId> {
        let alone = self.requests.iter().filter(|(_, r)| r.stands_alone() && r.state.is_open());
        let alone = alone.map(|(&number, _)| request::shown_as(number));
        let leases = self.leases.iter().filter(|(_, lease)| is_live(&lease.state));
        leases.map(|(&id, _)| id).chain(alone)
    }
}
