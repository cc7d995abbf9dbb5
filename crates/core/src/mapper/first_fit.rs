//! `first-fit`: the units with the lowest numbers, clean ones first.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use serde::Deserialize;

use crate::driver::UnitId;
use crate::model::name::Name;
use crate::site_authority::mapper::{Assignment, Decision, SiteAuthorityMapper, View};

/// Puts each lease on the first units that are free; where those are too few, on units that are still
/// being cleaned. A unit that failed a lease is left to others.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FirstFit {}

impl SiteAuthorityMapper for FirstFit {
    fn decide(&self, view: &View) -> Decision {
        let mut stocks: BTreeMap<&Name, Untaken<_>> = BTreeMap::new();
        let mut assignments = Vec::new();
        for waiting in view.waiting() {
            let stock = stocks.entry(&waiting.resource).or_insert_with(|| Untaken {
                passed_over: VecDeque::new(),
                rest: view
                    .free_units(&waiting.resource)
                    .chain(view.cleaning_units(&waiting.resource)),
            });
            let units = stock.take(waiting.lacks as usize, &waiting.failed);
            if !units.is_empty() {
                let reason = "the first that are free".to_owned();
                assignments.push(Assignment { lease: waiting.lease, units, reason });
            }
        }
        Decision { round: view.round(), assignments, ..Decision::default() }
    }
}

/// The units of one type that this round has not given away.
struct Untaken<I> {
    /// Those that did not suit a lease before.
    passed_over: VecDeque<UnitId>,
    rest: I,
}

impl<I: Iterator<Item = UnitId>> Untaken<I> {
    /// The first `wanted` units that did not fail the lease.
    fn take(&mut self, wanted: usize, failed: &BTreeSet<UnitId>) -> Vec<UnitId> {
        let (mut taken, mut left) = (Vec::new(), VecDeque::new());
        while taken.len() < wanted {
            let Some(unit) = self.passed_over.pop_front().or_else(|| self.rest.next()) else {
                break;
            };
            if failed.contains(&unit) {
                left.push_back(unit);
            } else {
                taken.push(unit);
            }
        }
        left.append(&mut self.passed_over);
        self.passed_over = left;
        taken
    }
}
