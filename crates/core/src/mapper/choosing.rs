//! `spread`, `least-worn`: which of the free units a lease gets; and best fit, which is a part of `pack`.
//!
//! Each looks at all free units of a type once a round, and then at as many as it takes.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;

use crate::driver::UnitId;
use crate::model::name::Name;
use crate::site_authority::mapper::{
    Assignment, Decision, SiteAuthorityMapper, StockView, View, Waiting,
};

/// Spreads a lease over groups of units, so that the loss of one group takes as few of its units as can be:
/// one unit after the other comes from the group that has given it the fewest, of these from the one with
/// the most free ones.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spread {
    /// The attribute of units that names their group.
    #[serde(default = "rack")]
    by: Name,
}

/// Wears units evenly: a lease gets those that were set up least often.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LeastWorn {}

fn rack() -> Name {
    Name::literal("rack")
}

impl SiteAuthorityMapper for Spread {
    fn decide(&self, view: &View) -> Decision {
        let reason = format!("spread by `{}`", self.by);
        assign(view, &reason, |stock| Groups::by(stock, &self.by), spread)
    }
}

impl SiteAuthorityMapper for LeastWorn {
    fn decide(&self, view: &View) -> Decision {
        let pick = |groups: &mut Groups, waiting: &Waiting| {
            groups.take("", waiting.lacks as usize, &waiting.failed)
        };
        assign(view, "those set up least often", Groups::by_wear, pick)
    }
}

/// Assigns units lease by lease, in the order in which they came to lack some.
fn assign(
    view: &View,
    reason: &str,
    group: impl Fn(&StockView) -> Groups,
    pick: impl Fn(&mut Groups, &Waiting) -> Vec<UnitId>,
) -> Decision {
    let mut stocks: BTreeMap<&Name, Groups> = BTreeMap::new();
    let mut assignments = Vec::new();
    for waiting in view.waiting() {
        let Some(stock) = view.stock(&waiting.resource) else { continue };
        let groups = stocks.entry(&waiting.resource).or_insert_with(|| group(stock));
        let units = pick(groups, waiting);
        if !units.is_empty() {
            let reason = reason.to_owned();
            assignments.push(Assignment { lease: waiting.lease, units, reason });
        }
    }
    Decision { round: view.round(), assignments, ..Decision::default() }
}

/// A unit: how worn it is, whether it is still to be cleaned, its number.
type Candidate = (u32, bool, UnitId);

/// The units of one type that this round has not given away, by group, the best of each first.
#[derive(Clone, Debug)]
pub(super) struct Groups(BTreeMap<String, BTreeSet<Candidate>>);

impl Groups {
    fn new(stock: &StockView, place: impl Fn(UnitId) -> (String, u32)) -> Self {
        let mut groups: BTreeMap<String, BTreeSet<Candidate>> = BTreeMap::new();
        let clean = stock.free.iter().map(|&unit| (unit, false));
        for (unit, dirty) in clean.chain(stock.cleaning.iter().map(|&unit| (unit, true))) {
            let (group, wear) = place(unit);
            groups.entry(group).or_default().insert((wear, dirty, unit));
        }
        Self(groups)
    }

    /// By the value of an attribute; units without it are one group.
    pub(super) fn by(stock: &StockView, attribute: &Name) -> Self {
        let value = |unit: &UnitId| stock.known.get(unit)?.attributes.get(attribute);
        Self::new(stock, |unit| (value(&unit).map(ToString::to_string).unwrap_or_default(), 0))
    }

    /// All in one group, the least worn first.
    fn by_wear(stock: &StockView) -> Self {
        let wear = |unit: &UnitId| stock.known.get(unit).map_or(0, |notes| notes.setups);
        Self::new(stock, |unit| (String::new(), wear(&unit)))
    }

    /// Takes the best units of a group that did not fail the lease.
    pub(super) fn take(
        &mut self,
        group: &str,
        most: usize,
        failed: &BTreeSet<UnitId>,
    ) -> Vec<UnitId> {
        let Some(units) = self.0.get_mut(group) else { return Vec::new() };
        let good = units.iter().filter(|(.., unit)| !failed.contains(unit));
        let taken: Vec<Candidate> = good.take(most).copied().collect();
        for candidate in &taken {
            units.remove(candidate);
        }
        taken.into_iter().map(|(.., unit)| unit).collect()
    }

    /// The groups [by](Self::by) an attribute, each with how many units of it a lease can have.
    pub(super) fn sizes(&self, failed: &BTreeSet<UnitId>) -> Vec<(String, usize)> {
        let good = |units: &BTreeSet<Candidate>| {
            let has = |unit: UnitId| {
                units.contains(&(0, false, unit)) || units.contains(&(0, true, unit))
            };
            units.len() - failed.iter().filter(|&&unit| has(unit)).count()
        };
        let sizes = self.0.iter().map(|(group, units)| (group.clone(), good(units)));
        sizes.filter(|(_, size)| *size > 0).collect()
    }
}

/// Units of the group that has the fewest free ones and yet enough or, if none has enough, of the largest
/// groups (best fit; Johnson, *Fast algorithms for bin packing*, 1974).
pub(super) fn best_fit(groups: &mut Groups, waiting: &Waiting) -> Vec<UnitId> {
    let mut units = Vec::new();
    loop {
        let wanted = waiting.lacks as usize - units.len();
        let sizes = groups.sizes(&waiting.failed);
        let enough = sizes.iter().filter(|(_, size)| *size >= wanted);
        let best = enough.min_by_key(|(_, size)| *size);
        let best = best.or_else(|| sizes.iter().rev().max_by_key(|(_, size)| *size));
        let Some((group, _)) = best.filter(|_| wanted > 0) else { return units };
        units.extend(groups.take(group, wanted, &waiting.failed));
    }
}

fn spread(groups: &mut Groups, waiting: &Waiting) -> Vec<UnitId> {
    let mut sizes = groups.sizes(&waiting.failed);
    let mut given: BTreeMap<String, usize> = BTreeMap::new();
    for _ in 0..waiting.lacks {
        let rank = |(group, size): &&(String, usize)| {
            (std::cmp::Reverse(given.get(group).copied().unwrap_or_default()), *size)
        };
        let open = sizes.iter().rev().filter(|(_, size)| *size > 0);
        let Some((group, _)) = open.max_by_key(rank).cloned() else { break };
        *given.entry(group.clone()).or_default() += 1;
        sizes.iter_mut().filter(|(other, _)| *other == group).for_each(|(_, size)| *size -= 1);
    }
    given.iter().flat_map(|(group, &n)| groups.take(group, n, &waiting.failed)).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::model::codec;
    use crate::model::property::Properties;
    use crate::model::time::{Span, Term, Time};

    /// A lease that lacks units, and the units that failed it.
    fn waiting(lacks: u32, failed: BTreeSet<UnitId>) -> Waiting {
        Waiting {
            lease: codec::decode(&codec::encode(&codec::Hash::of("lease", &[]))).unwrap(),
            resource: Name::literal("node"),
            lacks,
            term: Term::lasting(Time::ZERO, Span::HOUR).unwrap(),
            configuration: Properties::default(),
            failed,
        }
    }

    /// Groups of random sizes, some of their units still to be cleaned.
    fn groups() -> impl Strategy<Value = Groups> {
        let units = prop::collection::vec((0..5u8, any::<bool>()), 0..40);
        units.prop_map(|units| {
            let mut groups: BTreeMap<String, BTreeSet<Candidate>> = BTreeMap::new();
            for (number, (group, dirty)) in (0..).zip(units) {
                let group = groups.entry(format!("rack {group}")).or_default();
                group.insert((0, dirty, UnitId(number)));
            }
            Groups(groups)
        })
    }

    fn sizes(groups: &Groups) -> BTreeMap<String, usize> {
        groups.sizes(&BTreeSet::new()).into_iter().collect()
    }

    /// How many units of each group were taken.
    fn taken(before: &Groups, units: &[UnitId]) -> BTreeMap<String, usize> {
        let of = |unit: &UnitId| {
            let has = |all: &BTreeSet<Candidate>| all.iter().any(|(.., other)| other == unit);
            before.0.iter().find(|(_, all)| has(all)).map(|(group, _)| group.clone())
        };
        let mut counts = BTreeMap::new();
        for group in units.iter().filter_map(of) {
            *counts.entry(group).or_default() += 1;
        }
        counts
    }

    proptest! {
        #[test]
        fn units_by_best_fit_are_of_the_smallest_group_that_has_enough(
            before in groups(),
            lacks in 1..20u32,
        ) {
            let wanted = lacks as usize;
            let units = best_fit(&mut before.clone(), &waiting(lacks, BTreeSet::new()));
            let (sizes, taken) = (sizes(&before), taken(&before, &units));
            prop_assert_eq!(units.len(), wanted.min(sizes.values().sum()));
            let enough = sizes.values().copied().filter(|size| *size >= wanted).min();
            if let Some(enough) = enough {
                prop_assert_eq!(taken.len(), 1);
                prop_assert!(taken.keys().all(|group| sizes[group] == enough));
            }
        }

        #[test]
        fn spread_units_are_of_all_groups_alike_as_far_as_they_go(
            before in groups(),
            lacks in 1..20u32,
        ) {
            let units = spread(&mut before.clone(), &waiting(lacks, BTreeSet::new()));
            let (sizes, taken) = (sizes(&before), taken(&before, &units));
            prop_assert_eq!(units.len(), (lacks as usize).min(sizes.values().sum()));
            let most = taken.values().copied().max().unwrap_or(0);
            for (group, size) in &sizes {
                let count = taken.get(group).copied().unwrap_or(0);
                prop_assert!(count + 1 >= most || count == *size, "{group}: {count} of {size}");
            }
        }

        #[test]
        fn the_least_worn_units_go_first_and_none_that_failed_the_lease(
            wear in prop::collection::vec(0..6u32, 1..40),
            lacks in 1..20u32,
            failed in prop::collection::btree_set(0..40u32, 0..5),
        ) {
            let failed: BTreeSet<UnitId> = failed.into_iter().map(UnitId).collect();
            let all = (0..).zip(&wear).map(|(number, wear)| (*wear, false, UnitId(number)));
            let mut groups = Groups(BTreeMap::from([(String::new(), all.collect())]));
            let units = groups.take("", lacks as usize, &failed);
            prop_assert!(units.iter().all(|unit| !failed.contains(unit)));
            let worst = units.iter().map(|unit| wear[unit.0 as usize]).max();
            let left = groups.0[""].iter().filter(|(.., unit)| !failed.contains(unit));
            let best = left.map(|(wear, ..)| *wear).min();
            prop_assert!(best.is_none() || units.len() == lacks as usize);
            prop_assert!(worst <= best || best.is_none());
        }
    }
}
