//! How long units were in use, as far as the guest's driver says so.

use std::cmp::Reverse;

use serde::{Deserialize, Serialize};

use super::{Output, ServiceManager};
use crate::actor::Emit as _;
use crate::driver::UnitId;
use crate::model::property::Properties;
use crate::model::slice::LeaseId;
use crate::model::time::{Span, Time};
use crate::service_manager::facts::UsageReported;

/// The property by which a guest's driver says how many seconds a unit was in use.
const USED: &str = "unit.used";

/// How long a unit was in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Usage {
    /// When it was joined.
    joined: Time,
    /// What the driver said last.
    used: Option<Span>,
}

impl ServiceManager {
    /// The guest's driver may have said how long a unit was in use.
    pub(super) fn note_usage(
        &mut self,
        now: Time,
        (lease, unit): (LeaseId, UnitId),
        properties: &Properties,
        out: &mut Output,
    ) {
        let seconds = properties.get(USED).and_then(|text| text.parse::<u32>().ok());
        if let Some(seconds) = seconds {
            let used = Span::from_secs(i64::from(seconds));
            self.emit(now, UsageReported { lease, unit, used }, out);
        }
    }

    pub(super) fn usage_reported(&mut self, at: Time, fact: &UsageReported) {
        self.set_usage(at, fact.lease, fact.unit, Some(fact.used));
    }

    /// A unit was joined, or said to be in use for so long.
    pub(super) fn set_usage(&mut self, at: Time, id: LeaseId, unit: UnitId, used: Option<Span>) {
        let Some(lease) = self.state.leases.get_mut(&id) else { return };
        let usage = lease.usage.entry(unit).or_insert(Usage { joined: at, used: None });
        usage.used = used.or(usage.used);
    }

    /// The units of a lease: those that a service does not work on first, then those of which it loses least, then the
    /// least used first, of equals the one with the highest number.
    pub(super) fn by_use(&self, id: LeaseId, now: Time) -> Vec<UnitId> {
        let Some(lease) = self.state.leases.get(&id) else { return Vec::new() };
        let used = |unit: &UnitId| {
            let usage = lease.usage.get(unit);
            usage.map_or(Span::ZERO, |usage| usage.used.unwrap_or(now.since(usage.joined)))
        };
        let site = lease.site();
        // Those that are idle have none.
        let work = |unit: &UnitId| self.state.services.work_of(&lease.slice, &(site?, *unit));
        let held = lease.state.held();
        let mut units: Vec<UnitId> =
            held.into_iter().flat_map(|held| held.units.keys()).copied().collect();
        units.sort_by_key(|unit| (work(unit), used(unit), Reverse(*unit)));
        units
    }
}
