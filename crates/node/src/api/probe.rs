//! How live units are, as users see it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use tenure_core::model::identity::ActorId;
use tenure_core::model::property::Properties;
use tenure_core::service::unit_state::{AtGuest, UnitState};
use tenure_core::service_manager::machine::{State, UnitUse};
use tenure_core::wire::message::LeasedUnit;

use super::view::{LeaseUnitView, properties, time, use_word};
use crate::host::{Condition, Conditions};

/// How a live unit was when it was probed last.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProbeView {
    /// In a word: up, down.
    pub state: String,
    /// Since when it is so.
    pub since: String,
    /// What is wrong, if it is down.
    pub error: Option<String>,
}

/// What the drivers of a deployment have found, by actor.
pub(super) type Found = BTreeMap<ActorId, Conditions>;

impl ProbeView {
    pub(super) fn of(condition: &Condition, whose: &str) -> Self {
        let error = condition.found.as_ref().err();
        Self {
            state: if error.is_none() { "up" } else { "down" }.to_owned(),
            since: time(condition.since),
            error: error.map(|error| format!("{whose}{error}")),
        }
    }
}

/// The reported properties of a unit, updated with those of its newest probe.
pub(super) fn current(
    reported: &Properties,
    probed: Option<&Condition>,
) -> BTreeMap<String, String> {
    let mut current = properties(reported);
    if let Some(Ok(probed)) = probed.map(|condition| &condition.found) {
        current.extend(properties(probed));
    }
    current
}

/// A unit of a `lease` of the guest `me`.
pub(super) fn lease_unit(
    (me, site, lease): (ActorId, Option<(ActorId, &str)>, &State),
    (unit, usage): &(LeasedUnit, UnitUse),
    found: &Found,
) -> LeaseUnitView {
    let joined = *usage == UnitUse::Joined;
    let of = |actor: ActorId| {
        let (site, _) = site.filter(|_| joined)?;
        found.get(&actor)?.of(site, unit.unit, unit.epoch)
    };
    let (at_site, at_guest) = (site.and_then(|(site, _)| of(site)), of(me));
    let probes = [(&at_site, ""), (&at_guest, "at the guest: ")];
    let probes = probes.into_iter().filter_map(|(found, whose)| Some((found.as_ref()?, whose)));
    let worst = probes.min_by_key(|(condition, _)| condition.found.is_ok());
    LeaseUnitView {
        unit: format!("{}/{}", site.map_or("?", |(_, name)| name), unit.unit),
        epoch: unit.epoch.0,
        usage: use_word(*usage).to_owned(),
        state: UnitState::of(None, Some(AtGuest::of(lease, *usage))).word().to_owned(),
        quantity: unit.quantity.get(),
        properties: current(&unit.properties, at_site.as_ref()),
        probe: worst.map(|(condition, whose)| ProbeView::of(condition, whose)),
    }
}
