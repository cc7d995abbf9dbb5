//! The cheapest path of each link between two nodes, found once.

use std::rc::Rc;

use crate::bits::Bits;
use crate::exact::distances::Distances;
use crate::exact::route::{Demand, Labels, Route};
use crate::model::{LinkRules, Model, Network};

/// A path, and what it costs a link.
#[derive(Debug)]
pub(super) struct Path {
    pub(super) price: u64,
    pub(super) path: Rc<[u32]>,
}

/// The paths that were asked for.
pub(super) struct Paths {
    nodes: usize,
    /// The number of the rules of each link.
    rules: Vec<usize>,
    /// The edges that links of each rules can use.
    allowed: Vec<Bits>,
    /// Where a path is in `found`, from 1, by rules and ends; 0 if it was not asked for.
    index: Vec<u32>,
    found: Vec<Option<Path>>,
    labels: Labels,
}

impl Paths {
    pub(super) fn new(model: &Model<'_>) -> Self {
        let network = &model.network;
        let mut known: Vec<LinkRules> = Vec::new();
        let mut number = |link: &LinkRules| {
            let same = known.iter().position(|other| link.is_like(other));
            same.unwrap_or_else(|| {
                known.push(*link);
                known.len() - 1
            })
        };
        let rules = network.links.iter().map(&mut number).collect();
        let nodes = network.nodes.len();
        let allowed = known.iter().map(|link| network.usable(link.filter, link.bandwidth));
        Self {
            allowed: allowed.collect(),
            index: vec![0; known.len() * nodes * nodes],
            found: Vec::new(),
            labels: Labels::default(),
            nodes,
            rules,
        }
    }

    /// The cheapest path of a link that has all edges for itself.
    pub(super) fn between(
        &mut self,
        network: &Network,
        distances: &Distances,
        demand: Demand,
    ) -> Option<&Path> {
        let rules = self.rules[demand.link];
        let [from, to] = demand.ends;
        let cell = (rules * self.nodes + from) * self.nodes + to;
        if self.index[cell] == 0 {
            let route = self.labels.route(network, distances, demand, &self.allowed[rules]);
            self.found.push(route.map(|Route { price, path }| Path { price, path: path.into() }));
            self.index[cell] = u32::try_from(self.found.len()).unwrap_or(0);
        }
        self.found[self.index[cell] as usize - 1].as_ref()
    }
}
