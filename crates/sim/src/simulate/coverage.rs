//! Coverage of behaviour: the points that a long simulation must reach. One that is never reached is a
//! hole in the simulation, or dead protocol.

use std::collections::BTreeSet;

use super::transition::Transition;
use super::watch::Counts;

/// From how many seeds on the points must be reached.
pub const ENOUGH_SEEDS: u64 = 1_000;

/// From how many seeds on the rare ones must be reached too.
pub const MANY_SEEDS: u64 = 20_000;

const LIST: &str = include_str!("coverage.txt");

/// The points on the list, each with whether it is rare.
fn points() -> impl Iterator<Item = (&'static str, bool)> {
    let lines = LIST.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.map(|line| match line.strip_prefix("rare ") {
        Some(point) => (point, true),
        None => (line, false),
    })
}

/// How many points there are.
pub fn points_in_all() -> usize {
    points().count()
}

/// The points that so many seeds should have reached and did not.
pub fn missing(counts: &Counts, seeds: u64) -> Vec<&'static str> {
    let reached = reached(counts);
    points()
        .filter(|&(_, rare)| seeds >= if rare { MANY_SEEDS } else { ENOUGH_SEEDS })
        .map(|(point, _)| point)
        .filter(|&point| !reached.contains(point))
        .collect()
}

/// What happened, in the words of the list.
fn reached(counts: &Counts) -> BTreeSet<String> {
    let transition = |&(machine, from, event, to): &Transition| {
        format!("transition {machine}: {from} {event} {to}")
    };
    let transitions = counts.transitions.keys().map(transition);
    let refusals = counts.refusals.keys().map(|word| format!("refusal {word}"));
    let faults = counts.faults.keys().map(|fault| format!("fault {fault}"));
    let points = counts.points.keys().map(|point| format!("point {point}"));
    transitions.chain(refusals).chain(faults).chain(points).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulate::{Fault, Options, run};

    #[test]
    fn a_point_is_missing_until_it_is_reached() {
        let nothing = Counts::default();
        assert_eq!(missing(&nothing, ENOUGH_SEEDS - 1), [""; 0]);
        assert!(missing(&nothing, ENOUGH_SEEDS).len() < missing(&nothing, MANY_SEEDS).len());
        assert_eq!(missing(&nothing, MANY_SEEDS).len(), points_in_all());
        let lived = run(1, &Options::default()).counts;
        assert!(missing(&lived, MANY_SEEDS).len() < points_in_all() / 2);
    }

    #[test]
    fn no_point_is_on_the_list_twice_and_every_fault_is() {
        let listed: BTreeSet<&str> = points().map(|(point, _)| point).collect();
        assert_eq!(listed.len(), points_in_all());
        for fault in Fault::ALL {
            assert!(listed.contains(format!("fault {fault}").as_str()), "{fault}");
        }
    }
}
