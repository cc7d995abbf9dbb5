//! What the facts of a service manager say of its services, and of its units.

#![allow(clippy::wildcard_enum_match_arm, reason = "most facts are about leases")]

use std::collections::BTreeMap;

use tenure_core::model::identity::ActorId;
use tenure_core::model::slice::SliceName;
use tenure_core::model::time::Time;
use tenure_core::service_manager::facts::Fact;
use tenure_core::wire::need::Need;

use crate::lease::Leases;
use crate::service::Service;

/// What one guest recorded.
#[derive(Debug, Default)]
pub(crate) struct Guest {
    pub(crate) services: BTreeMap<SliceName, Service>,
    /// What it told each broker.
    pub(crate) told: Vec<(Time, ActorId, Need)>,
    pub(crate) leases: Leases,
}

impl Guest {
    pub(crate) fn add(&mut self, id: ActorId, at: Time, fact: &Fact) {
        match fact {
            Fact::ServiceDefined(fact) => self.of(&fact.service).defined(at, &fact.definition),
            Fact::ServiceRemoved(fact) => self.of(&fact.service).removed(at),
            Fact::ServiceReported(fact) => {
                self.of(&fact.service).reported(at, &fact.kpis, fact.seen);
            }
            Fact::ServiceStale(fact) => self.of(&fact.service).stale(at),
            Fact::SloAssessed(fact) => self.of(&fact.service).assessed(at, &fact.slo, fact.met),
            Fact::NeedStated(fact) => self.told.push((at, fact.broker, fact.need.clone())),
            _ => self.leases.add(id, at, fact),
        }
    }

    fn of(&mut self, service: &SliceName) -> &mut Service {
        self.services.entry(service.clone()).or_default()
    }
}
