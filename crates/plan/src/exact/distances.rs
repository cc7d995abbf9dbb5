//! How far nodes are from each other by the cheapest path.

use crate::bits::Bits;
use crate::model::{Model, Network};
use crate::state::State;

/// There is no path.
pub(crate) const FAR: u64 = u64::MAX;

/// The price of a unit of bandwidth between any two nodes, for each kind of link.
///
/// It is that of the cheapest path over edges that have room for the link alone, with no more edges than
/// it may have. Latency is not looked at, so a path may cost more, and never less.
#[derive(Debug, Default)]
pub(crate) struct Distances {
    nodes: usize,
    tables: Vec<Table>,
    /// The table of each link.
    of_link: Vec<usize>,
}

#[derive(Debug)]
struct Table {
    edges: Bits,
    hops: Option<u32>,
    between: Vec<u64>,
    /// From each node that can host something to all others, nearest first.
    sites: Vec<Vec<(u64, u32)>>,
}

impl Distances {
    pub(crate) fn of(model: &Model<'_>) -> Self {
        Self::among(&model.network, &sites(model))
    }

    /// With the nodes where something can be.
    pub(crate) fn among(network: &Network, sites: &[u32]) -> Self {
        let mut distances =
            Self { nodes: network.nodes.len(), tables: Vec::new(), of_link: Vec::new() };
        for link in &network.links {
            let edges = network.usable(link.filter, link.bandwidth);
            // No simple path has more edges than there are nodes.
            let hops = link.hops.filter(|hops| (*hops as usize) < distances.nodes);
            let known = distances
                .tables
                .iter()
                .position(|table| table.edges == edges && table.hops == hops);
            let table = known.unwrap_or_else(|| {
                distances.tables.push(Table::new(network, sites, edges, hops));
                distances.tables.len() - 1
            });
            distances.of_link.push(table);
        }
        distances
    }

    /// The price of a unit of bandwidth of a link between two nodes, or [`FAR`].
    pub(crate) fn between(&self, link: usize, from: usize, to: usize) -> u64 {
        self.tables[self.of_link[link]].between[from * self.nodes + to]
    }

    /// The price of a unit of bandwidth of a link from a node to the nearest other one, or [`FAR`].
    pub(crate) fn nearest(&self, link: usize, from: usize) -> u64 {
        self.sites_from(link, from).first().map_or(FAR, |(distance, _)| *distance)
    }

    /// The nodes where something can be, but for a node itself, by the price of a unit of bandwidth of a
    /// link from there.
    pub(crate) fn sites_from(&self, link: usize, from: usize) -> &[(u64, u32)] {
        &self.tables[self.of_link[link]].sites[from]
    }

    /// Whether all links can use the same edges.
    pub(crate) fn is_one_table(&self) -> bool {
        self.tables.len() == 1
    }
}

impl Table {
    fn new(network: &Network, sites: &[u32], edges: Bits, hops: Option<u32>) -> Self {
        let nodes = network.nodes.len();
        let mut between = vec![FAR; nodes * nodes];
        for node in 0..nodes {
            between[node * nodes + node] = 0;
        }
        let one_edge = |between: &mut [u64]| {
            for (index, edge) in network.edges.iter().enumerate() {
                if edges.contains(index) {
                    let [one, other] = edge.ends.map(|end| end as usize);
                    for cell in [one * nodes + other, other * nodes + one] {
                        between[cell] = between[cell].min(edge.price);
                    }
                }
            }
        };
        one_edge(&mut between);
        match hops {
            None => shortest(&mut between, nodes),
            Some(0) => between.iter_mut().enumerate().for_each(|(cell, distance)| {
                *distance = if cell / nodes == cell % nodes { 0 } else { FAR };
            }),
            Some(hops) => between = with_few_edges(&between, nodes, hops),
        }
        let mut rows = vec![Vec::new(); nodes];
        for from in sites {
            let row = &mut rows[*from as usize];
            let others = sites.iter().filter(|site| *site != from);
            row.extend(
                others.map(|site| (between[*from as usize * nodes + *site as usize], *site)),
            );
            row.sort_unstable();
        }
        Self { sites: rows, edges, hops, between }
    }
}

/// The nodes where a block can be, if nothing else is placed.
fn sites(model: &Model<'_>) -> Vec<u32> {
    let mut state = State::new(model);
    let nodes = model.network.nodes.iter().zip(0..);
    let hosts = nodes.filter(|(place, _)| {
        (0..model.block_count()).any(|block| state.fits(block, **place as usize))
    });
    hosts.map(|(_, node)| node).collect()
}

/// The algorithm of Floyd and Warshall.
fn shortest(between: &mut [u64], nodes: usize) {
    let mut through = vec![0; nodes];
    for middle in 0..nodes {
        through.copy_from_slice(&between[middle * nodes..(middle + 1) * nodes]);
        for from in 0..nodes {
            let first = between[from * nodes + middle];
            if first == FAR {
                continue;
            }
            let row = &mut between[from * nodes..(from + 1) * nodes];
            for (distance, second) in row.iter_mut().zip(&through) {
                *distance = (*distance).min(first.saturating_add(*second));
            }
        }
    }
}

/// The distances over at most `hops` edges, from those over at most one.
fn with_few_edges(one: &[u64], nodes: usize, hops: u32) -> Vec<u64> {
    let mut between = one.to_vec();
    for _ in 1..hops {
        let before = between.clone();
        for from in 0..nodes {
            for middle in 0..nodes {
                let first = before[from * nodes + middle];
                if first == FAR {
                    continue;
                }
                for to in 0..nodes {
                    let sum = first.saturating_add(one[middle * nodes + to]);
                    between[from * nodes + to] = between[from * nodes + to].min(sum);
                }
            }
        }
    }
    between
}
