//! Shrinking: the same failure with fewer kinds of faults, and sooner.

use std::collections::BTreeSet;

use tenure_core::model::time::Span;

use super::fault::Family;
use super::violation::Violation;
use super::{Options, Outcome, run};

/// Looks for the smallest setting in which a seed still breaks the law that it was `found` to break, and
/// runs it once more with its trace. `asked` is where the search begins. Costs about a run for each
/// family of faults.
pub fn shrink(seed: u64, found: &Violation, asked: &Options) -> (Options, Outcome) {
    let fails = |options: &Options| {
        let violation = run(seed, options).violation;
        violation.filter(|violation| violation.law() == found.law())
    };
    let (mut smallest, mut found) = (asked.clone(), found.clone());
    let struck: BTreeSet<Family> =
        run(seed, asked).counts.faults.keys().map(|fault| fault.family()).collect();
    for &family in Family::ALL {
        let mut without = smallest.without.clone();
        without.insert(family);
        let fewer = Options { without, ..smallest.clone() };
        match fails(&fewer) {
            // One that never struck need not be named.
            Some(violation) if struck.contains(&family) => (smallest, found) = (fewer, violation),
            Some(_) | None => {}
        }
    }
    let sooner = Options { until: Some(found.at().plus(Span::SECOND)), ..smallest.clone() };
    if smallest.until.is_none_or(|until| found.at() < until) && fails(&sooner).is_some() {
        smallest = sooner;
    }
    let outcome = run(seed, &Options { traced: true, ..smallest.clone() });
    (smallest, outcome)
}
