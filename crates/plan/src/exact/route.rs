//! Paths of links whose ends are placed: each link takes one simple path, and all share the edges.
//!
//! A branch and bound: each link takes its cheapest path; while an edge is over-used, it is forbidden to
//! one link at a time of a smallest set that over-uses it, for in any plan one of the set goes elsewhere.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::bits::Bits;
use crate::model::{LinkRules, Model, Network};

use super::Steps;
use super::distances::{Distances, FAR};

/// A link with its ends as nodes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Demand {
    pub(crate) link: usize,
    pub(crate) ends: [usize; 2],
}

/// The paths of demands, as edges from the first end to the second.
#[derive(Clone, Debug)]
pub(crate) struct Routing {
    pub(crate) price: u64,
    pub(crate) paths: Vec<Vec<u32>>,
}

pub(crate) struct Router<'a, 'p> {
    model: &'a Model<'p>,
    distances: &'a Distances,
    demands: &'a [Demand],
    /// The edges that each demand can use.
    allowed: Vec<Bits>,
    /// The edges that each demand must use: other branches have it elsewhere.
    kept: Vec<Bits>,
    routes: Vec<Route>,
    /// What was forbidden: a demand, an edge, and the route of before if it used that.
    trail: Vec<(usize, usize, Option<Route>)>,
    /// What is taken of each edge.
    taken: Vec<u64>,
    best: Option<Routing>,
    /// Routings must cost no more than this.
    limit: u64,
    labels: Labels,
}

/// The path of one demand.
#[derive(Clone, Debug)]
pub(crate) struct Route {
    pub(crate) price: u64,
    pub(crate) path: Vec<u32>,
}

impl<'a, 'p> Router<'a, 'p> {
    fn new(
        model: &'a Model<'p>,
        distances: &'a Distances,
        demands: &'a [Demand],
        limit: u64,
    ) -> Self {
        let network = &model.network;
        let usable = |demand: &Demand| {
            let rules = network.links[demand.link];
            network.usable(rules.filter, rules.bandwidth)
        };
        Self {
            model,
            distances,
            demands,
            allowed: demands.iter().map(usable).collect(),
            kept: vec![Bits::none(network.edges.len()); demands.len()],
            routes: Vec::with_capacity(demands.len()),
            trail: Vec::new(),
            taken: vec![0; network.edges.len()],
            best: None,
            limit,
            labels: Labels::default(),
        }
    }

    /// The cheapest routing that costs no more than `limit`. None if there is none, or if the steps ran out.
    pub(crate) fn cheapest(
        model: &'a Model<'p>,
        distances: &'a Distances,
        demands: &'a [Demand],
        limit: u64,
        steps: &mut Steps<'_>,
    ) -> Option<Routing> {
        let mut router = Self::new(model, distances, demands, limit);
        let mut price = 0;
        for demand in 0..demands.len() {
            let route = router.route(demand)?;
            price += route.price;
            router.take(demand, &route.path);
            router.routes.push(route);
        }
        router.branch(price, steps);
        router.best
    }

    fn rules(&self, demand: usize) -> &'a LinkRules {
        &self.model.network.links[self.demands[demand].link]
    }

    fn take(&mut self, demand: usize, path: &[u32]) {
        let bandwidth = self.rules(demand).bandwidth;
        path.iter().for_each(|edge| self.taken[*edge as usize] += bandwidth);
    }

    fn give_back(&mut self, demand: usize, path: &[u32]) {
        let bandwidth = self.rules(demand).bandwidth;
        path.iter().for_each(|edge| self.taken[*edge as usize] -= bandwidth);
    }

    /// Searches on from the cheapest paths over the edges allowed.
    fn branch(&mut self, price: u64, steps: &mut Steps<'_>) {
        if price > self.limit || !steps.take() {
            return;
        }
        let Some((edge, demands)) = self.conflict() else {
            // From now on only cheaper ones count.
            self.limit = price.saturating_sub(1);
            let paths = self.routes.iter().map(|route| route.path.clone()).collect();
            self.best = Some(Routing { price, paths });
            return;
        };
        let mark = self.trail.len();
        let mut kept: Vec<usize> = Vec::new();
        let mut detours: Vec<(u64, usize, Route)> = Vec::new();
        for demand in demands {
            if self.kept[demand].contains(edge) {
                continue;
            }
            match self.detour(demand, edge, price) {
                Some((with, route)) => detours.push((with, demand, route)),
                None => self.keep(demand, edge, &mut kept),
            }
        }
        // The cheapest detour first.
        detours.sort_by_key(|(with, demand, _)| (*with, *demand));
        for (with, demand, route) in detours {
            self.forbid(demand, edge, Some(route));
            if let Some(with) = self.make_room(edge, with) {
                self.branch(with, steps);
            }
            self.undo(mark);
            // Routings in which this one goes elsewhere have been seen.
            self.keep(demand, edge, &mut kept);
        }
        kept.into_iter().for_each(|demand| self.kept[demand].remove(edge));
    }

    fn keep(&mut self, demand: usize, edge: usize, kept: &mut Vec<usize>) {
        self.kept[demand].insert(edge);
        kept.push(demand);
    }

    /// The price of all with the cheapest path of a demand that does without an edge.
    fn detour(&mut self, demand: usize, edge: usize, price: u64) -> Option<(u64, Route)> {
        self.allowed[demand].remove(edge);
        let route = self.route(demand);
        self.allowed[demand].insert(edge);
        let with = route.as_ref().map(|route| price - self.routes[demand].price + route.price)?;
        route.filter(|_| with <= self.limit).map(|route| (with, route))
    }

    /// Forbids an edge to all demands that have no room beside those that must go on using it. The price of
    /// all then; none if they have no paths, or none that are cheap enough.
    fn make_room(&mut self, edge: usize, mut price: u64) -> Option<u64> {
        let kept = (0..self.demands.len()).filter(|demand| self.kept[*demand].contains(edge));
        let reserved: u64 = kept.map(|demand| self.rules(demand).bandwidth).sum();
        let room = self.model.network.edges[edge].capacity.checked_sub(reserved)?;
        for demand in 0..self.demands.len() {
            let may_use = self.allowed[demand].contains(edge) && !self.kept[demand].contains(edge);
            if !may_use || self.rules(demand).bandwidth <= room {
                continue;
            }
            if self.routes[demand].path.contains(&(edge as u32)) {
                let (with, route) = self.detour(demand, edge, price)?;
                self.forbid(demand, edge, Some(route));
                price = with;
            } else {
                self.forbid(demand, edge, None);
            }
        }
        Some(price)
    }

    /// Forbids an edge to a demand, which has another route then if it used it.
    fn forbid(&mut self, demand: usize, edge: usize, route: Option<Route>) {
        self.allowed[demand].remove(edge);
        let before = route.map(|route| self.exchange(demand, route));
        self.trail.push((demand, edge, before));
    }

    /// Takes back what was forbidden last.
    fn undo(&mut self, mark: usize) {
        while self.trail.len() > mark {
            let Some((demand, edge, before)) = self.trail.pop() else { return };
            if let Some(before) = before {
                self.exchange(demand, before);
            }
            self.allowed[demand].insert(edge);
        }
    }

    /// Gives a demand another route, and returns that of before.
    fn exchange(&mut self, demand: usize, route: Route) -> Route {
        self.take(demand, &route.path);
        let before = std::mem::replace(&mut self.routes[demand], route);
        self.give_back(demand, &before.path);
        before
    }

    /// The edge that is over-used most, with a smallest set of demands that over-use it.
    fn conflict(&self) -> Option<(usize, Vec<usize>)> {
        let edges = &self.model.network.edges;
        let over = |edge: usize| self.taken[edge].saturating_sub(edges[edge].capacity);
        let edge =
            (0..edges.len()).filter(|edge| over(*edge) > 0).max_by_key(|edge| over(*edge))?;
        let users =
            self.routes.iter().enumerate().filter(|(_, route)| route.path.contains(&(edge as u32)));
        let mut users: Vec<usize> = users.map(|(demand, _)| demand).collect();
        users.sort_by_key(|demand| Reverse(self.rules(*demand).bandwidth));
        let mut sum = 0;
        let enough = users.iter().position(|demand| {
            sum += self.rules(*demand).bandwidth;
            sum > edges[edge].capacity
        });
        users.truncate(enough.map_or(users.len(), |last| last + 1));
        Some((edge, users))
    }

    /// The cheapest path of a demand over edges that are allowed to it.
    fn route(&mut self, demand: usize) -> Option<Route> {
        let allowed = &self.allowed[demand];
        self.labels.route(&self.model.network, self.distances, self.demands[demand], allowed)
    }
}

/// A path from the first end of a demand.
#[derive(Clone, Copy, Debug, Default)]
struct Label {
    price: u64,
    hops: u32,
    latency: u64,
    node: usize,
    /// The label before, and the edge from there.
    before: Option<(usize, u32)>,
    /// The label that was settled at its node before.
    settled_before: Option<usize>,
}

/// The labels of a search for a path, in memory that is used again.
#[derive(Debug, Default)]
pub(crate) struct Labels {
    all: Vec<Label>,
    /// The label that was settled last at each node.
    settled: Vec<Option<usize>>,
    /// By price with what is still to come, then by edges and latency.
    open: BinaryHeap<Reverse<(u64, u32, u64, usize)>>,
}

impl Labels {
    /// The cheapest path of a demand over some edges: a label is dropped if another at its node is no worse in
    /// price, edges and latency. The distance to the goal over all edges says which goes on first.
    pub(crate) fn route(
        &mut self,
        network: &Network,
        distances: &Distances,
        demand: Demand,
        allowed: &Bits,
    ) -> Option<Route> {
        let Demand { link, ends: [from, to] } = demand;
        let rules = &network.links[link];
        let still = |node: usize| distances.between(link, node, to);
        self.clear(network.nodes.len());
        self.open(Label { node: from, ..Label::default() }, still(from));
        while let Some(index) = self.next() {
            let label = self.all[index];
            if self.is_dominated(rules, &label) {
                continue;
            }
            self.settle(index);
            if label.node == to {
                let price = label.price * rules.bandwidth;
                return Some(Route { price, path: self.walk(index) });
            }
            for (edge, node) in &network.around[label.node] {
                let (edge, node) = (*edge as usize, *node as usize);
                if !allowed.contains(edge) {
                    continue;
                }
                let next = Label {
                    price: label.price + network.edges[edge].price,
                    hops: label.hops + 1,
                    latency: label.latency + network.edges[edge].latency,
                    node,
                    before: Some((index, edge as u32)),
                    settled_before: None,
                };
                let within = rules.hops.is_none_or(|most| next.hops <= most)
                    && rules.latency.is_none_or(|most| next.latency <= most);
                if within && !self.is_dominated(rules, &next) {
                    self.open(next, still(node));
                }
            }
        }
        None
    }

    fn clear(&mut self, nodes: usize) {
        self.all.clear();
        self.open.clear();
        self.settled.clear();
        self.settled.resize(nodes, None);
    }

    /// Adds a label that has `still` to go, if there is a way at all.
    fn open(&mut self, label: Label, still: u64) {
        if still != FAR {
            let key = (label.price + still, label.hops, label.latency, self.all.len());
            self.open.push(Reverse(key));
            self.all.push(label);
        }
    }

    fn next(&mut self) -> Option<usize> {
        self.open.pop().map(|Reverse((.., index))| index)
    }

    fn settle(&mut self, index: usize) {
        let node = self.all[index].node;
        self.all[index].settled_before = self.settled[node].replace(index);
    }

    /// Whether a settled label makes another one needless. What the link does not limit does not count.
    fn is_dominated(&self, rules: &LinkRules, label: &Label) -> bool {
        let mut at = self.settled[label.node];
        while let Some(index) = at {
            let settled = &self.all[index];
            if settled.price <= label.price
                && (rules.hops.is_none() || settled.hops <= label.hops)
                && (rules.latency.is_none() || settled.latency <= label.latency)
            {
                return true;
            }
            at = settled.settled_before;
        }
        false
    }

    /// The edges on the way to a label.
    fn walk(&self, last: usize) -> Vec<u32> {
        let mut path = Vec::new();
        let mut label = &self.all[last];
        while let Some((before, edge)) = label.before {
            path.push(edge);
            label = &self.all[before];
        }
        path.reverse();
        path
    }
}
