//! Paths of links whose ends are placed: each link takes one simple path, and all share the edges.
//!
//! A branch and bound: each link takes its cheapest path; while an edge is over-used, it is forbidden to
//! one link at a time of a smallest set that over-uses it, for in any plan one of the set goes elsewhere.

use crate::bits::Bits;
use crate::model::{LinkRules, Model};

use super::Steps;

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
    demands: &'a [Demand],
    /// The edges that each demand can use.
    allowed: Vec<Bits>,
    routes: Vec<Route>,
    best: Option<Routing>,
    /// Routings must cost no more than this.
    limit: u64,
}

/// The path of one demand.
#[derive(Clone, Debug)]
pub(crate) struct Route {
    pub(crate) price: u64,
    pub(crate) path: Vec<u32>,
}

impl<'a, 'p> Router<'a, 'p> {
    /// The cheapest routing that costs no more than `limit`. None if there is none, or if the steps ran out.
    pub(crate) fn cheapest(
        model: &'a Model<'p>,
        demands: &'a [Demand],
        limit: u64,
        steps: &mut Steps<'_>,
    ) -> Option<Routing> {
        let rules = |demand: &Demand| model.network.links[demand.link];
        let allowed = demands
            .iter()
            .map(|demand| model.network.usable(rules(demand).filter, rules(demand).bandwidth));
        let mut router = Self {
            model,
            demands,
            allowed: allowed.collect(),
            routes: Vec::new(),
            best: None,
            limit,
        };
        for index in 0..demands.len() {
            let route = router.route(index)?;
            router.routes.push(route);
        }
        router.branch(steps);
        router.best
    }

    /// The cheapest path of a demand that has all edges for itself.
    pub(crate) fn alone(model: &'a Model<'p>, demand: Demand) -> Option<Route> {
        let rules = model.network.links[demand.link];
        let demands = [demand];
        let allowed = vec![model.network.usable(rules.filter, rules.bandwidth)];
        let router =
            Router { model, demands: &demands, allowed, routes: Vec::new(), best: None, limit: 0 };
        router.route(0)
    }

    fn rules(&self, demand: usize) -> &LinkRules {
        &self.model.network.links[self.demands[demand].link]
    }

    fn branch(&mut self, steps: &mut Steps<'_>) {
        if !steps.take() {
            return;
        }
        let price: u64 = self.routes.iter().map(|route| route.price).sum();
        if price > self.limit {
            return;
        }
        let Some((edge, demands)) = self.conflict() else {
            // From now on only cheaper ones count.
            self.limit = price.saturating_sub(1);
            let paths = self.routes.iter().map(|route| route.path.clone()).collect();
            self.best = Some(Routing { price, paths });
            return;
        };
        // The cheapest detour first.
        let mut detours: Vec<(u64, usize, Route)> = Vec::new();
        for demand in demands {
            self.allowed[demand].remove(edge);
            if let Some(route) = self.route(demand) {
                detours.push((route.price - self.routes[demand].price, demand, route));
            }
            self.allowed[demand].insert(edge);
        }
        detours.sort_by_key(|(more, demand, _)| (*more, *demand));
        for (_, demand, route) in detours {
            self.allowed[demand].remove(edge);
            let before = std::mem::replace(&mut self.routes[demand], route);
            self.branch(steps);
            self.routes[demand] = before;
            self.allowed[demand].insert(edge);
        }
    }

    /// An edge that is over-used, with a smallest set of demands that over-use it.
    fn conflict(&self) -> Option<(usize, Vec<usize>)> {
        let edges = &self.model.network.edges;
        let mut taken = vec![0_u64; edges.len()];
        for (demand, route) in self.routes.iter().enumerate() {
            for edge in &route.path {
                taken[*edge as usize] += self.rules(demand).bandwidth;
            }
        }
        let over = |edge: usize| taken[edge].saturating_sub(edges[edge].capacity);
        let edge =
            (0..edges.len()).filter(|edge| over(*edge) > 0).max_by_key(|edge| over(*edge))?;
        let users =
            self.routes.iter().enumerate().filter(|(_, route)| route.path.contains(&(edge as u32)));
        let mut users: Vec<usize> = users.map(|(demand, _)| demand).collect();
        users.sort_by_key(|demand| std::cmp::Reverse(self.rules(*demand).bandwidth));
        let mut sum = 0;
        let enough = users.iter().position(|demand| {
            sum += self.rules(*demand).bandwidth;
            sum > edges[edge].capacity
        });
        users.truncate(enough.map_or(users.len(), |last| last + 1));
        Some((edge, users))
    }

    /// The cheapest path of a demand, by setting labels: a label is dropped if another at its node is no
    /// worse in price, edges and latency.
    fn route(&self, demand: usize) -> Option<Route> {
        let rules = self.rules(demand);
        let [from, to] = self.demands[demand].ends;
        let network = &self.model.network;
        let mut labels = vec![Label { price: 0, hops: 0, latency: 0, node: from, before: None }];
        let mut settled: Vec<Vec<usize>> = vec![Vec::new(); network.nodes.len()];
        let mut open = std::collections::BinaryHeap::from([std::cmp::Reverse((0, 0, 0, 0))]);
        while let Some(std::cmp::Reverse((.., index))) = open.pop() {
            let label: Label = labels[index];
            if settled[label.node].iter().any(|other| rules.dominates(&labels[*other], &label)) {
                continue;
            }
            settled[label.node].push(index);
            if label.node == to {
                return Some(Route {
                    price: label.price * rules.bandwidth,
                    path: walk(&labels, index),
                });
            }
            for (edge, node) in &network.around[label.node] {
                let (edge, node) = (*edge as usize, *node as usize);
                if !self.allowed[demand].contains(edge) {
                    continue;
                }
                let next = Label {
                    price: label.price + network.edges[edge].price,
                    hops: label.hops + 1,
                    latency: label.latency + network.edges[edge].latency,
                    node,
                    before: Some((index, edge as u32)),
                };
                let within = rules.hops.is_none_or(|most| next.hops <= most)
                    && rules.latency.is_none_or(|most| next.latency <= most);
                if within
                    && !settled[node].iter().any(|other| rules.dominates(&labels[*other], &next))
                {
                    open.push(std::cmp::Reverse((
                        next.price,
                        next.hops,
                        next.latency,
                        labels.len(),
                    )));
                    labels.push(next);
                }
            }
        }
        None
    }
}

/// A path from the first end of a demand.
#[derive(Clone, Copy, Debug)]
struct Label {
    price: u64,
    hops: u32,
    latency: u64,
    node: usize,
    /// The label before, and the edge from there.
    before: Option<(usize, u32)>,
}

impl LinkRules {
    /// Whether a settled label makes another one needless. What the link does not limit does not count.
    fn dominates(&self, settled: &Label, other: &Label) -> bool {
        settled.price <= other.price
            && (self.hops.is_none() || settled.hops <= other.hops)
            && (self.latency.is_none() || settled.latency <= other.latency)
    }
}

fn walk(labels: &[Label], last: usize) -> Vec<u32> {
    let mut path = Vec::new();
    let mut label = &labels[last];
    while let Some((before, edge)) = label.before {
        path.push(edge);
        label = &labels[before];
    }
    path.reverse();
    path
}
