//! The ways through a domain that it shows.

use std::collections::BTreeMap;

use super::Domain;
use crate::amount::{Amount, Price};
use crate::problem::{Edge, Properties};
use tenure_expr::Attributes as _;

/// The most ways that are shown between two places: the cheapest, then the next ones that carry more.
const MAX_WAYS: usize = 4;

/// The ways between any two places that a domain shows. Those that lead through a third one are not shown,
/// since they are made of others.
pub(super) fn ways(domain: &Domain<'_>) -> Vec<Edge> {
    let places: Vec<&str> = domain.terminals.iter().copied().collect();
    let mut all = Vec::new();
    for (number, from) in places.iter().enumerate() {
        for to in &places[number + 1..] {
            all.extend(between(domain, from, to));
        }
    }
    all
}

/// The cheapest way between two places; then the cheapest that carries more than those before.
fn between(domain: &Domain<'_>, from: &str, to: &str) -> Vec<Edge> {
    let mut ways: Vec<Edge> = Vec::new();
    let mut above = 0;
    while ways.len() < MAX_WAYS {
        let Some(path) = cheapest(domain, (from, to), above) else { break };
        let Some(capacity) = path.iter().map(|edge| edge.capacity).reduce(least) else { break };
        above = capacity.value();
        let name = format!("{}: {from}--{to}/{}", domain.name, ways.len() + 1);
        ways.push(Edge {
            name: Some(name),
            ends: [from.to_owned(), to.to_owned()],
            capacity,
            latency: path.iter().map(|edge| edge.latency).reduce(sum).flatten(),
            price: Price::from_millionths(path.iter().map(|edge| edge.price.millionths()).sum()),
            attributes: common(&path),
        });
    }
    ways
}

/// The smaller of two amounts.
fn least(one: Amount, other: Amount) -> Amount {
    if other.value() < one.value() { other } else { one }
}

/// The latency of two edges in a row.
fn sum(one: Option<Amount>, other: Option<Amount>) -> Option<Amount> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.with(one.value().saturating_add(other.value()))),
        (one, other) => one.or(other),
    }
}

/// What all edges of a path state alike.
fn common(path: &[&Edge]) -> Properties {
    let mut common = Properties::default();
    let Some((first, others)) = path.split_first() else { return common };
    for (name, value) in first.attributes.iter() {
        if others.iter().all(|edge| edge.attributes.value(name) == Some(value)) {
            common.insert(name, value.clone());
        }
    }
    common
}

/// The cheapest path through inner places of edges that carry more than `above`; of equal ones that with
/// the fewest edges (Dijkstra).
fn cheapest<'p>(
    domain: &Domain<'p>,
    (from, to): (&str, &str),
    above: u64,
) -> Option<Vec<&'p Edge>> {
    let mut reached: BTreeMap<&str, (Cost, Option<&'p Edge>)> =
        BTreeMap::from([(from, ((0, 0), None))]);
    let mut settled: BTreeMap<&str, Option<&'p Edge>> = BTreeMap::new();
    loop {
        let (at, (cost, edge)) = reached
            .iter()
            .min_by_key(|(name, (cost, _))| (*cost, **name))
            .map(|(name, found)| (*name, *found))?;
        reached.remove(at);
        settled.insert(at, edge);
        if at == to {
            return Some(back(&settled, (from, to)));
        }
        if at != from && domain.terminals.contains(at) {
            continue;
        }
        for edge in domain.edges.iter().filter(|edge| edge.capacity.value() > above) {
            let Some(next) = other_end(edge, at).filter(|next| !settled.contains_key(next)) else {
                continue;
            };
            let further = (cost.0.saturating_add(edge.price.millionths()), cost.1 + 1);
            let known = reached.get(next).map(|(cost, _)| *cost);
            if known.is_none_or(|known| further < known) {
                reached.insert(next, (further, Some(edge)));
            }
        }
    }
}

/// Price in millionths, and edges.
type Cost = (u64, u32);

fn other_end<'p>(edge: &'p Edge, at: &str) -> Option<&'p str> {
    match &edge.ends {
        [one, other] if one == at => Some(other),
        [one, other] if other == at => Some(one),
        _ => None,
    }
}

/// The edges that lead to a place, first to last.
fn back<'p>(settled: &BTreeMap<&str, Option<&'p Edge>>, (from, to): (&str, &str)) -> Vec<&'p Edge> {
    let (mut path, mut at) = (Vec::new(), to);
    while at != from {
        let Some(edge) = settled.get(at).copied().flatten() else { break };
        path.push(edge);
        at = other_end(edge, at).unwrap_or(from);
    }
    path.reverse();
    path
}
