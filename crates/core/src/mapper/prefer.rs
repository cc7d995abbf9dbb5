//! Units that a guest would rather have than others, such as those that it has given back just before.

use std::collections::{BTreeMap, BTreeSet};

use crate::driver::UnitId;
use crate::site_authority::mapper::{Assignment, Decision, SiteAuthorityMapper, View, Waiting};
use crate::ticket::link::LinkHash;

/// The property of a lease's configuration that names the units that its guest prefers, such as `u3 u5`. It is no
/// condition: a lease gets others where these are not to be had.
pub const PREFERRED: &str = "units.preferred";

/// The most units that count.
const MOST: usize = 1_024;

/// A mapper whose choices give way to those of guests.
pub struct Preferring(pub Box<dyn SiteAuthorityMapper>);

impl SiteAuthorityMapper for Preferring {
    fn decide(&self, view: &View) -> Decision {
        prefer(view, self.0.decide(view))
    }
}

/// The same decision, but with units that a lease prefers in the place of others, where they are clean or being cleaned
/// and this decision gives them to nobody. How many units a lease gets stays the same.
pub fn prefer(view: &View, mut decision: Decision) -> Decision {
    let choosy = view.waiting().filter(|waiting| waiting.configuration.get(PREFERRED).is_some());
    let choosy: BTreeMap<LinkHash, &Waiting> = choosy.map(|one| (one.lease, one)).collect();
    if choosy.is_empty() {
        return decision;
    }
    let given = decision.assignments.iter().flat_map(|assignment| &assignment.units);
    let mut given: BTreeSet<UnitId> = given.copied().collect();
    for assignment in &mut decision.assignments {
        if let Some(waiting) = choosy.get(&assignment.lease) {
            exchange(assignment, &preferred(view, waiting), &mut given);
        }
    }
    decision
}

/// The units that a lease prefers and could have, in the order in which they are named.
fn preferred(view: &View, waiting: &Waiting) -> Vec<UnitId> {
    let Some(named) = waiting.configuration.get(PREFERRED) else { return Vec::new() };
    let Some(stock) = view.stock(&waiting.resource) else { return Vec::new() };
    let number = |word: &str| word.strip_prefix('u')?.parse().ok().map(UnitId);
    let units = named.split_whitespace().take(MOST).filter_map(number);
    let to_be_had = |unit: &UnitId| stock.free.contains(unit) || stock.cleaning.contains(unit);
    units.filter(|unit| to_be_had(unit) && !waiting.failed.contains(unit)).collect()
}

/// Puts preferred units in the place of the last ones that are not.
fn exchange(assignment: &mut Assignment, preferred: &[UnitId], given: &mut BTreeSet<UnitId>) {
    let own = |units: &[UnitId], unit: &UnitId| units.contains(unit);
    let wanted: Vec<UnitId> =
        preferred.iter().copied().filter(|unit| !given.contains(unit)).collect();
    let others = assignment.units.iter_mut().rev().filter(|unit| !own(preferred, unit));
    for (place, unit) in others.zip(wanted) {
        if given.insert(unit) {
            given.remove(place);
            *place = unit;
        }
    }
}
