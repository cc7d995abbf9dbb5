//! Which brokers lend to which and pass requests on to which, by a shape.

use rand::seq::SliceRandom as _;
use serde::Deserialize;

use crate::random::{Chance, Purpose};

/// How brokers are joined.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(in crate::scenario) enum Shape {
    /// All but the first lend to the one above, and pass requests on to it.
    Tree,
    /// Each passes requests on to some others, and takes theirs.
    Mesh,
    /// A tree, and a mesh between the same brokers.
    Both,
    /// Each and the next pass requests on to each other; so do the last and the first.
    Ring,
    /// The same without the last and the first.
    Line,
    /// No more than one broker, which has everything: what others are compared with.
    Central,
}

/// What one broker does for another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum EdgeKind {
    /// It lends it what it has.
    Share,
    /// It passes requests on to it.
    Forward,
}

/// An edge between two brokers by their places.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Edge {
    pub(super) from: usize,
    pub(super) to: usize,
    pub(super) kind: EdgeKind,
}

/// The numbers that belong to shapes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Measures {
    /// With how many others a broker of a mesh is joined.
    pub(super) degree: usize,
    /// How many lend to one broker of a tree.
    pub(super) fan_out: usize,
}

/// The edges between so many brokers.
pub(super) fn edges(shape: Shape, brokers: usize, measures: Measures, chance: Chance) -> Vec<Edge> {
    let next = |place: usize| (place, (place + 1) % brokers.max(1));
    let pairs: Vec<(usize, usize)> = match shape {
        Shape::Central | Shape::Tree => Vec::new(),
        Shape::Line => (1..brokers).map(|place| (place - 1, place)).collect(),
        Shape::Ring => (0..brokers).map(next).collect(),
        Shape::Mesh | Shape::Both => mesh(brokers, measures.degree, chance),
    };
    let mut edges: Vec<Edge> = pairs.into_iter().filter(|(a, b)| a != b).flat_map(both).collect();
    if matches!(shape, Shape::Tree | Shape::Both) {
        edges.extend((1..brokers).flat_map(|place| lends(place, (place - 1) / measures.fan_out)));
    }
    edges.sort_unstable();
    edges.dedup();
    edges
}

/// Both pass requests on to each other.
fn both((a, b): (usize, usize)) -> [Edge; 2] {
    let kind = EdgeKind::Forward;
    [Edge { from: a, to: b, kind }, Edge { from: b, to: a, kind }]
}

/// What it lends is had again by requests that are passed on.
fn lends(from: usize, to: usize) -> [Edge; 2] {
    [Edge { from, to, kind: EdgeKind::Share }, Edge { from, to, kind: EdgeKind::Forward }]
}

/// Random rings through all brokers, one for each two of the degree, and pairs for an odd one: connected, and nearly
/// regular, as few pairs are drawn twice.
fn mesh(brokers: usize, degree: usize, chance: Chance) -> Vec<(usize, usize)> {
    let mut order: Vec<usize> = (0..brokers).collect();
    let mut pairs = Vec::new();
    for round in 0..degree.div_ceil(2) {
        order.shuffle(&mut chance.of(Purpose::Topology, &[0, round as u64]));
        let ring = order.iter().zip(order.iter().cycle().skip(1));
        let only_pairs = 2 * round + 1 == degree;
        let step = if only_pairs { 2 } else { 1 };
        pairs.extend(ring.step_by(step).map(|(&a, &b)| (a, b)));
    }
    pairs
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::*;

    const MEASURES: Measures = Measures { degree: 6, fan_out: 10 };

    fn reached(edges: &[Edge], from: usize) -> usize {
        let (mut seen, mut next) = (BTreeSet::from([from]), vec![from]);
        while let Some(at) = next.pop() {
            let to = edges.iter().filter(|edge| edge.from == at).map(|edge| edge.to);
            next.extend(to.filter(|to| seen.insert(*to)));
        }
        seen.len()
    }

    #[test]
    fn a_mesh_reaches_everybody_and_is_nearly_regular() {
        let edges = edges(Shape::Mesh, 200, MEASURES, Chance::new(1));
        assert_eq!(reached(&edges, 0), 200);
        let mut degrees = BTreeMap::<usize, usize>::new();
        edges.iter().for_each(|edge| *degrees.entry(edge.from).or_default() += 1);
        assert_eq!(degrees.len(), 200);
        assert!(degrees.values().all(|degree| (4..=6).contains(degree)), "{degrees:?}");
        assert!(edges.len() > 200 * 6 - 60, "{}", edges.len());
        assert_ne!(edges, super::edges(Shape::Mesh, 200, MEASURES, Chance::new(2)));
    }

    #[test]
    fn each_broker_of_a_tree_but_the_first_lends_to_one_and_asks_it() {
        let edges = edges(Shape::Tree, 111, MEASURES, Chance::new(1));
        let of = |kind| edges.iter().filter(|edge| edge.kind == kind).copied().collect::<Vec<_>>();
        assert_eq!((of(EdgeKind::Share).len(), of(EdgeKind::Forward).len()), (110, 110));
        assert!(of(EdgeKind::Share).iter().all(|edge| edge.to == (edge.from - 1) / 10));
        assert_eq!(reached(&edges, 110), 3);
    }

    #[test]
    fn rings_and_lines_join_neighbours_both_ways() {
        let count = |shape, brokers| edges(shape, brokers, MEASURES, Chance::new(1)).len();
        assert_eq!([count(Shape::Ring, 5), count(Shape::Line, 5)], [10, 8]);
        assert_eq!(
            [count(Shape::Ring, 2), count(Shape::Ring, 1), count(Shape::Line, 1)],
            [2, 0, 0]
        );
        assert_eq!(count(Shape::Central, 5), 0);
        // What a mesh has as well is there once.
        assert!(
            (count(Shape::Mesh, 5) + 4..=count(Shape::Mesh, 5) + 8)
                .contains(&count(Shape::Both, 5))
        );
    }
}
