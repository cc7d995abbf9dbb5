//! Cuts of a network: sets of nodes that little bandwidth leaves. Links that must cross one have no paths
//! together if they do not fit its edges, each as a whole.

use std::collections::VecDeque;

use crate::bits::Bits;
use crate::model::Network;

use super::links::pack;
use super::route::Demand;

/// For any two nodes, the cut between them with the least capacity (Gusfield 1990).
#[derive(Debug)]
pub(super) struct Cuts(Vec<Cut>);

#[derive(Debug)]
struct Cut {
    /// The nodes on one side.
    side: Bits,
    /// What is free of each edge that crosses it.
    rooms: Vec<u64>,
}

impl Cut {
    /// Whether two nodes are on different sides.
    fn parts(&self, ends: [usize; 2]) -> bool {
        self.side.contains(ends[0]) != self.side.contains(ends[1])
    }
}

impl Cuts {
    pub(super) fn of(network: &Network) -> Self {
        let nodes = network.nodes.len();
        let mut cuts: Vec<Cut> = Vec::new();
        // A tree of cuts: that of each node is between it and its parent.
        let mut parent = vec![0; nodes];
        let mut flow = Flow::new(network);
        for node in 1..nodes {
            let side = flow.least_cut(node, parent[node]);
            for other in node + 1..nodes {
                if side.contains(other) && parent[other] == parent[node] {
                    parent[other] = node;
                }
            }
            if cuts.iter().all(|cut| cut.side != side) {
                let mut cut = Cut { side, rooms: Vec::new() };
                let edges = network.edges.iter();
                let edges = edges.filter(|edge| cut.parts(edge.ends.map(|end| end as usize)));
                cut.rooms = edges.map(|edge| edge.capacity).collect();
                cuts.push(cut);
            }
        }
        Self(cuts)
    }

    /// Whether all demands fit the edges of each cut.
    pub(super) fn admit(&self, network: &Network, demands: &[Demand]) -> bool {
        let mut crossing: Vec<u64> = Vec::new();
        self.0.iter().all(|cut| {
            crossing.clear();
            let demands = demands.iter().filter(|demand| cut.parts(demand.ends));
            crossing.extend(demands.map(|demand| network.links[demand.link].bandwidth));
            crossing.sort_unstable_by(|one, other| other.cmp(one));
            pack(&crossing, &mut cut.rooms.clone())
        })
    }
}

/// What placed links take of cuts.
pub(super) struct Loads<'c> {
    cuts: &'c Cuts,
    /// What is left of each cut.
    left: Vec<u64>,
}

impl<'c> Loads<'c> {
    pub(super) fn new(cuts: &'c Cuts, network: &Network, demands: &[Demand]) -> Self {
        let left = cuts.0.iter().map(|cut| {
            let crossing = demands.iter().filter(|demand| cut.parts(demand.ends));
            let taken = crossing.map(|demand| network.links[demand.link].bandwidth).sum();
            cut.rooms.iter().sum::<u64>().saturating_sub(taken)
        });
        Self { left: left.collect(), cuts }
    }

    /// The nodes that links to others cannot reach: each link has a bandwidth, and a node where it ends.
    pub(super) fn out_of_reach(&self, nodes: usize, links: &[(u64, usize)]) -> Bits {
        let mut closed = Bits::none(nodes);
        for (cut, left) in self.cuts.0.iter().zip(&self.left) {
            let mut ending = [0, 0];
            for (bandwidth, node) in links {
                ending[usize::from(cut.side.contains(*node))] += bandwidth;
            }
            for node in 0..nodes {
                if ending[usize::from(!cut.side.contains(node))] > *left {
                    closed.insert(node);
                }
            }
        }
        closed
    }
}

/// The greatest flow between two nodes (Edmonds and Karp 1972).
struct Flow<'n> {
    network: &'n Network,
    /// What is left of each edge, in both directions.
    left: Vec<[u64; 2]>,
    /// The edge and the node from which each node was reached.
    before: Vec<Option<(u32, u32)>>,
}

impl<'n> Flow<'n> {
    fn new(network: &'n Network) -> Self {
        Self { network, left: Vec::new(), before: vec![None; network.nodes.len()] }
    }

    /// The nodes on the side of `from` of the cut with least capacity.
    fn least_cut(&mut self, from: usize, to: usize) -> Bits {
        self.left = self.network.edges.iter().map(|edge| [edge.capacity; 2]).collect();
        loop {
            let reached = self.reach(from);
            if !reached.contains(to) {
                return reached;
            }
            self.augment(from, to);
        }
    }

    /// The nodes that more flow could reach, each by the fewest edges.
    fn reach(&mut self, from: usize) -> Bits {
        let mut reached = Bits::none(self.before.len());
        reached.insert(from);
        let mut open = VecDeque::from([from]);
        while let Some(node) = open.pop_front() {
            for (edge, next) in &self.network.around[node] {
                let way = self.way(*edge, node);
                if self.left[*edge as usize][way] > 0 && !reached.contains(*next as usize) {
                    reached.insert(*next as usize);
                    self.before[*next as usize] = Some((*edge, node as u32));
                    open.push_back(*next as usize);
                }
            }
        }
        reached
    }

    /// In which of the two directions an edge leaves a node.
    fn way(&self, edge: u32, node: usize) -> usize {
        usize::from(self.network.edges[edge as usize].ends[0] as usize != node)
    }

    /// Sends as much as can be along the way that was found.
    fn augment(&mut self, from: usize, to: usize) {
        let mut steps = Vec::new();
        let mut at = to;
        while at != from {
            let Some((edge, before)) = self.before[at] else { return };
            at = before as usize;
            steps.push((edge as usize, self.way(edge, at)));
        }
        let most = steps.iter().map(|(edge, way)| self.left[*edge][*way]).min().unwrap_or(0);
        for (edge, way) in steps {
            self.left[edge][way] -= most;
            self.left[edge][1 - way] = self.left[edge][1 - way].saturating_add(most);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::model::Model;
    use crate::{Amount, Edge, Part, Place, Price, Problem, Properties};

    fn problem(nodes: usize, edges: &[(usize, usize, u64)]) -> Problem {
        let place = |node: usize| Place { name: format!("n{node}"), ..Place::default() };
        let edge = |(number, (one, other, capacity)): (usize, &(usize, usize, u64))| Edge {
            name: Some(format!("e{number}")),
            ends: [format!("n{one}"), format!("n{other}")],
            capacity: Amount::number(*capacity),
            latency: None,
            price: Price::default(),
            attributes: Properties::default(),
        };
        Problem {
            place: (0..nodes).map(place).collect(),
            part: vec![Part { name: "p".to_owned(), ..Part::default() }],
            edge: edges.iter().enumerate().map(edge).collect(),
            ..Problem::default()
        }
    }

    proptest! {
        #[test]
        fn no_cut_between_two_nodes_is_smaller(
            edges in proptest::collection::vec((0_usize..6, 0_usize..6, 0_u64..5), 1..12),
        ) {
            let edges: Vec<_> = edges.into_iter().filter(|(one, other, _)| one != other).collect();
            let problem = problem(6, &edges);
            let model = Model::new(&problem).unwrap();
            let network = &model.network;
            let cuts = Cuts::of(network);
            let nodes = network.nodes.len();
            let capacity = |side: &dyn Fn(usize) -> bool| -> u64 {
                let crossing = network.edges.iter().filter(|edge| {
                    side(edge.ends[0] as usize) != side(edge.ends[1] as usize)
                });
                crossing.map(|edge| edge.capacity).sum()
            };
            for cut in &cuts.0 {
                prop_assert_eq!(cut.rooms.iter().sum::<u64>(), capacity(&|node| cut.side.contains(node)));
            }
            for one in 0..nodes {
                for other in 0..one {
                    let sides = (0_u32..1 << nodes).filter(|side| side >> one & 1 != side >> other & 1);
                    let least = sides.map(|side| capacity(&|node| side >> node & 1 == 1)).min();
                    let known = cuts.0.iter().filter(|cut| cut.parts([one, other]));
                    prop_assert_eq!(known.map(|cut| cut.rooms.iter().sum::<u64>()).min(), least);
                }
            }
        }
    }
}
