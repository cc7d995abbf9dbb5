//! Edges between places and links between blocks.

use std::collections::BTreeMap;
use std::fmt;

use tenure_expr::{Dimension, Expr};

use crate::amount::Amount;
use crate::bits::Bits;
use crate::error::BadProblem;
use crate::names::Names;
use crate::problem::{Edge, Link, Problem};

use super::build::as_u32;

/// The places that have edges, the edges, and the links that are asked for.
#[derive(Clone, Debug, Default)]
pub(crate) struct Network {
    /// The place of each node. Nodes are the places that have edges.
    pub(crate) nodes: Vec<u32>,
    /// The node of each place that has edges; empty if there are no edges.
    node_of: Vec<Option<u32>>,
    pub(crate) edges: Vec<EdgeRules>,
    /// The edges of each node, with the node at the other end.
    pub(crate) around: Vec<Vec<(u32, u32)>>,
    pub(crate) links: Vec<LinkRules>,
    /// The edges that links of each filter can use.
    pub(crate) filters: Vec<Bits>,
    /// The links of each block.
    by_block: Vec<Vec<u32>>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct EdgeRules {
    /// Two nodes.
    pub(crate) ends: [u32; 2],
    pub(crate) capacity: u64,
    /// Of a unit of bandwidth, in millionths.
    pub(crate) price: u64,
    pub(crate) latency: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LinkRules {
    /// Two blocks.
    pub(crate) ends: [u32; 2],
    pub(crate) bandwidth: u64,
    /// The most edges.
    pub(crate) hops: Option<u32>,
    /// The most latency.
    pub(crate) latency: Option<u64>,
    /// Which filter it has.
    pub(crate) filter: u32,
}

impl LinkRules {
    /// All but the ends.
    pub(crate) fn rules(&self) -> (u64, Option<u32>, Option<u64>, u32) {
        (self.bandwidth, self.hops, self.latency, self.filter)
    }

    /// Whether two links differ in nothing but their ends.
    pub(crate) fn is_like(&self, other: &Self) -> bool {
        self.rules() == other.rules()
    }
}

impl Network {
    pub(crate) fn node(&self, place: usize) -> Option<usize> {
        self.node_of.get(place).copied().flatten().map(|node| node as usize)
    }

    pub(crate) fn links_of(&self, block: usize) -> &[u32] {
        self.by_block.get(block).map_or(&[], Vec::as_slice)
    }

    pub(super) fn connected_places(&self, places: usize) -> Bits {
        let mut connected = Bits::none(places);
        self.nodes.iter().for_each(|place| connected.insert(*place as usize));
        connected
    }

    /// The price of the links, if each takes every edge.
    pub(super) fn highest_price(&self) -> u128 {
        let edges: u128 = self.edges.iter().map(|edge| u128::from(edge.price)).sum();
        self.links.iter().map(|link| u128::from(link.bandwidth)).sum::<u128>().saturating_mul(edges)
    }

    /// The edges that a link of such a filter and bandwidth could take if it were alone.
    pub(crate) fn usable(&self, filter: u32, bandwidth: u64) -> Bits {
        let mut usable = self.filters[filter as usize].clone();
        for (index, edge) in self.edges.iter().enumerate() {
            if edge.capacity < bandwidth {
                usable.remove(index);
            }
        }
        usable
    }

    fn node_or_new(&mut self, place: usize) -> u32 {
        *self.node_of[place].get_or_insert_with(|| {
            self.nodes.push(as_u32(place));
            self.around.push(Vec::new());
            as_u32(self.nodes.len() - 1)
        })
    }
}

pub(super) fn network(
    problem: &Problem,
    places: &Names<'_>,
    items: &Names<'_>,
    block_of: &[u32],
) -> Result<Network, BadProblem> {
    let mut network = Network::default();
    if problem.edge.is_empty() && problem.link.is_empty() {
        return Ok(network);
    }
    check_units(problem)?;
    check_titles("edge", problem.edge.iter().map(Edge::title))?;
    check_titles("link", problem.link.iter().map(Link::title))?;
    network.node_of = vec![None; places.len()];
    for edge in &problem.edge {
        let entry = Entry::Edge(edge);
        let ends = ends(entry, &edge.ends, places)?;
        if ends[0] == ends[1] {
            return Err(BadProblem::new(entry.to_string(), "both ends are the same place"));
        }
        let ends = ends.map(|place| network.node_or_new(place));
        let index = as_u32(network.edges.len());
        network.around[ends[0] as usize].push((index, ends[1]));
        network.around[ends[1] as usize].push((index, ends[0]));
        network.edges.push(EdgeRules {
            ends,
            capacity: edge.capacity.value(),
            price: edge.price.millionths(),
            latency: edge.latency.map_or(0, Amount::value),
        });
    }
    check_latencies(&network)?;
    let mut filters = Filters::default();
    network.by_block = vec![Vec::new(); block_of.len()];
    for link in &problem.link {
        let entry = Entry::Link(link);
        let ends = ends(entry, &link.ends, items)?;
        if ends[0] == ends[1] {
            return Err(BadProblem::new(entry.to_string(), "both ends are the same part"));
        }
        let ends = ends.map(|item| block_of[item]);
        // Parts of one block are on one place, and need no path.
        let index = as_u32(network.links.len());
        for end in ends {
            network.by_block[end as usize].push(index);
        }
        network.links.push(LinkRules {
            ends,
            bandwidth: link.bandwidth.value(),
            hops: link.hops,
            latency: link.latency.map(Amount::value),
            filter: filters.of(problem, link)?,
        });
    }
    network.filters = filters.edges;
    Ok(network)
}

fn ends(
    entry: Entry<'_>,
    names: &[String; 2],
    known: &Names<'_>,
) -> Result<[usize; 2], BadProblem> {
    let resolve = |name: &str| match known.find(name) {
        Some(copies) if copies.len() == 1 => Ok(copies.start),
        Some(_) | None => known.resolve_one(&format!("{entry}, ends"), name),
    };
    Ok([resolve(&names[0])?, resolve(&names[1])?])
}

fn check_titles(noun: &str, titles: impl Iterator<Item = String>) -> Result<(), BadProblem> {
    let mut seen = std::collections::BTreeSet::new();
    for title in titles {
        if let Some(title) = seen.replace(title) {
            let message = "there are two of this name; give one a `name` of its own";
            return Err(BadProblem::new(format!("{noun} `{title}`"), message));
        }
    }
    Ok(())
}

/// An edge or a link, for messages.
#[derive(Clone, Copy)]
enum Entry<'p> {
    Edge(&'p Edge),
    Link(&'p Link),
}

impl fmt::Display for Entry<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Edge(edge) => write!(f, "edge `{}`", edge.title()),
            Self::Link(link) => write!(f, "link `{}`", link.title()),
        }
    }
}

/// Bandwidths and capacities are of one kind, and so are latencies.
fn check_units(problem: &Problem) -> Result<(), BadProblem> {
    let edges = || problem.edge.iter().map(|edge| (Entry::Edge(edge), edge));
    let links = || problem.link.iter().map(|link| (Entry::Link(link), link));
    let bandwidths = edges().map(|(entry, edge)| (entry, "capacity", edge.capacity));
    one_kind(bandwidths.chain(links().map(|(entry, link)| (entry, "bandwidth", link.bandwidth))))?;
    let latencies = edges().filter_map(|(entry, edge)| Some((entry, "latency", edge.latency?)));
    let of_links = links().filter_map(|(entry, link)| Some((entry, "latency", link.latency?)));
    one_kind(latencies.chain(of_links))
}

fn one_kind<'p>(
    amounts: impl Iterator<Item = (Entry<'p>, &'static str, Amount)>,
) -> Result<(), BadProblem> {
    let mut first: Option<(Dimension, Entry<'_>)> = None;
    for (entry, key, amount) in amounts {
        let (kind, before) = first.get_or_insert((amount.dimension(), entry));
        if *kind != amount.dimension() {
            let message =
                format!("{amount} is a {}, but {before} has a {kind}", amount.dimension());
            return Err(BadProblem::new(format!("{entry}, {key}"), message));
        }
    }
    Ok(())
}

fn check_latencies(network: &Network) -> Result<(), BadProblem> {
    let sum = network.edges.iter().try_fold(0_u64, |sum, edge| sum.checked_add(edge.latency));
    sum.map(|_| ()).ok_or_else(|| {
        BadProblem::new("edge, latency", "the amounts are too large to be summed up")
    })
}

/// The conditions of links, each decided once for all edges.
#[derive(Default)]
struct Filters<'p> {
    known: BTreeMap<Option<&'p Expr>, u32>,
    edges: Vec<Bits>,
}

impl<'p> Filters<'p> {
    fn of(&mut self, problem: &Problem, link: &'p Link) -> Result<u32, BadProblem> {
        let condition = link.condition.as_ref();
        if let Some(filter) = self.known.get(&condition) {
            return Ok(*filter);
        }
        let mut allowed = Bits::none(problem.edge.len());
        for (index, edge) in problem.edge.iter().enumerate() {
            let holds = condition.map_or(Ok(true), |condition| condition.matches(&edge.attributes));
            let holds = holds.map_err(|error| {
                let at = format!("link `{}`, where", link.title());
                BadProblem::new(at, format!("on edge `{}`: {error}", edge.title()))
            })?;
            if holds {
                allowed.insert(index);
            }
        }
        let filter = as_u32(self.edges.len());
        self.edges.push(allowed);
        self.known.insert(condition, filter);
        Ok(filter)
    }
}
