//! What takes part in a service without a lease: static units. They count as its own, and are never called on.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::facts::MembersTold;
use super::services::{Record, plain};
use super::{Output, ServiceManager};
use crate::actor::Emit as _;
use crate::actor::fact::BadFact;
use crate::model::slice::SliceName;
use crate::model::time::Time;
use crate::service::member::{MemberId, Members};
use crate::service::steps::Kind;
use crate::wire::message::LeasedUnit;

/// The property with the name of a unit's host.
pub(super) const HOST: &str = "host.name";

/// The properties of a unit by which software may call it.
const NAMES: [&str; 2] = [HOST, "host.privipaddr"];

/// What takes part in a service without a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Member {
    /// Whether it is up.
    pub up: bool,
    /// When its service told of it first.
    pub since: Time,
}

/// What software may call a unit.
pub(super) fn names(unit: &LeasedUnit) -> impl Iterator<Item = (&'static str, MemberId)> {
    NAMES.iter().filter_map(|key| Some((*key, MemberId::new(unit.properties.get(key)?).ok()?)))
}

impl Record {
    /// The type of what takes part without a lease: that of its first SLO.
    pub(super) fn static_kind(&self) -> Option<Kind> {
        self.definition.slo.values().next().map(|slo| plain(&slo.resource))
    }
}

impl ServiceManager {
    pub(super) fn tell_members(
        &mut self,
        now: Time,
        service: SliceName,
        members: Members,
        out: &mut Output,
    ) {
        let known = self.state.services.get(&service);
        let known = known.into_iter().flat_map(|record| &record.members);
        if !known.map(|(id, member)| (id, member.up)).eq(members.iter()) {
            self.emit(now, MembersTold { service, members }, out);
        }
    }

    pub(super) fn members_told(&mut self, at: Time, fact: &MembersTold) -> Result<(), BadFact> {
        let record = self.record_mut(&fact.service)?;
        let before = std::mem::take(&mut record.members);
        record.members = fact
            .members
            .iter()
            .map(|(id, up)| {
                let since = before.get(id).map_or(at, |member| member.since);
                (id.clone(), Member { up, since })
            })
            .collect();
        self.services_changed();
        Ok(())
    }

    /// How many static units of a service are up.
    pub(super) fn static_units(&self, service: &SliceName, record: &Record) -> Option<(Kind, u32)> {
        if record.members.is_empty() {
            return None;
        }
        let up = self.static_members(service);
        let up = up.filter(|(id, member)| member.up && !self.is_ambiguous(service, id));
        Some((record.static_kind()?, u32::try_from(up.count()).unwrap_or(u32::MAX)))
    }

    /// The static units of a service. A member that is a unit which the service has a lease for is no other one: its
    /// software has told of it before its adapter has marked it.
    pub fn static_members(
        &self,
        service: &SliceName,
    ) -> impl Iterator<Item = (&MemberId, &Member)> {
        let members = self.state.services.get(service).map(|record| &record.members);
        let members = members.filter(|members| !members.is_empty());
        let leased = members.map(|_| self.names_of_leased(service)).unwrap_or_default();
        members.into_iter().flatten().filter(move |(id, _)| !leased.contains(*id))
    }

    /// What the software of a service may call the units that are leased for it.
    pub(super) fn names_of_leased(&self, service: &SliceName) -> BTreeSet<MemberId> {
        let leases = self.tended.get(service).into_iter().flatten();
        let held = leases.filter_map(|id| self.state.leases.get(id)?.state.held());
        held.flat_map(|held| held.units.values())
            .flat_map(|(unit, _)| names(unit))
            .map(|(_, name)| name)
            .collect()
    }
}
