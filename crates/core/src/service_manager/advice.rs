//! Services that are only advised on: what a mapper decides for them is recorded instead of done.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::facts::ServiceAdvised;
use super::mapper::Decision;
use super::{Output, ServiceManager};
use crate::actor::Emit as _;
use crate::actor::fact::BadFact;
use crate::model::slice::{LeaseId, SliceName};
use crate::model::time::Time;
use crate::service::definition::Mode;
use crate::service::steps::Kind;

/// What would be done for a service.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Advice {
    /// How many units would be asked for, by kind.
    pub asks: Vec<(Kind, u32)>,
    /// How many units of which leases would go back.
    pub returns: Vec<(LeaseId, u32)>,
    /// How many units of which leases would be kept beyond their ends.
    pub extensions: Vec<(LeaseId, u32)>,
}

impl ServiceManager {
    /// Takes what concerns services that are only advised on out of a decision, and records it if it is new.
    pub(super) fn divert(&mut self, now: Time, decision: &mut Decision, out: &mut Output) {
        let mut advised = self.advised();
        if advised.is_empty() {
            return;
        }
        let units = |id: &LeaseId| self.state.leases.get(id).map_or(0, |lease| lease.units);
        decision.asks.retain(|ask| {
            let Some(advice) = advised.get_mut(&ask.slice) else { return true };
            advice.asks.extend(ask.items.iter().map(|item| (item.kind(), item.units.get())));
            false
        });
        // Its earlier requests, of when it was managed, stay as they are.
        decision.revisions.retain(|(_, ask)| !advised.contains_key(&ask.slice));
        let mut of = |id: LeaseId, entry: &dyn Fn(&mut Advice)| {
            let slice = self.state.leases.get(&id).map(|lease| &lease.slice);
            let advice = slice.and_then(|slice| advised.get_mut(slice));
            advice.is_none_or(|advice| {
                entry(advice);
                false
            })
        };
        decision.extensions.retain(|extend| {
            let kept = extend.units.map_or_else(|| units(&extend.lease), |units| units.get());
            of(extend.lease, &|advice| advice.extensions.push((extend.lease, kept)))
        });
        decision.flexes.retain(|flex| {
            of(flex.lease, &|advice| advice.returns.push((flex.lease, flex.shrink.get())))
        });
        decision.shortens.retain(|shorten| {
            let units = units(&shorten.lease);
            of(shorten.lease, &|advice| advice.returns.push((shorten.lease, units)))
        });
        decision.closes.retain(|id| of(*id, &|advice| advice.returns.push((*id, units(id)))));
        for (service, advice) in advised {
            let before = self.state.services.get(&service).map(|record| &record.advice);
            if before != Some(&advice) {
                self.emit(now, ServiceAdvised { service, advice }, out);
            }
        }
    }

    fn advised(&self) -> BTreeMap<SliceName, Advice> {
        let services = self.state.services.iter();
        let advised =
            services.filter(|(_, record)| record.definition.behaviour.mode == Mode::Advise);
        advised.map(|(service, _)| (service.clone(), Advice::default())).collect()
    }

    pub(super) fn service_advised(&mut self, fact: &ServiceAdvised) -> Result<(), BadFact> {
        self.record_mut(&fact.service)?.advice = fact.advice.clone();
        Ok(())
    }
}
