//! `first-fit`: the units with the lowest numbers, clean ones first.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::site_authority::{Assignment, Decision, SiteAuthorityMapper, View};
use crate::name::Name;

/// Puts each lease on the first units that are free; where those are too few, on units that are still
/// being cleaned.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FirstFit {}

impl SiteAuthorityMapper for FirstFit {
    fn decide(&self, view: &View<'_>) -> Decision {
        let mut taken: BTreeMap<&Name, usize> = BTreeMap::new();
        let assignments = view
            .waiting()
            .filter_map(|waiting| {
                let taken = taken.entry(waiting.resource).or_default();
                let units: Vec<_> = view
                    .free_units(waiting.resource)
                    .chain(view.cleaning_units(waiting.resource))
                    .skip(*taken)
                    .take(waiting.lacks as usize)
                    .collect();
                *taken += units.len();
                let reason = "the first that are free".to_owned();
                let lease = waiting.lease;
                (!units.is_empty()).then_some(Assignment { lease, units, reason })
            })
            .collect();
        Decision { round: view.round(), assignments, ..Decision::default() }
    }
}
