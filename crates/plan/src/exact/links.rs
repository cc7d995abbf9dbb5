//! The links of a partial plan: what those of open blocks cost at least, and paths for those of placed ones.

use crate::model::{Model, Network};
use crate::score::Term;
use crate::state::{NOWHERE, State};

use super::distances::{Distances, FAR};
use super::route::{Demand, Labels, Route, Router};
use super::{Found, Steps};

/// The links of a problem.
pub(super) struct Links<'m, 'p> {
    model: &'m Model<'p>,
    distances: Distances,
    /// Whether no two blocks can be on one place.
    all_apart: bool,
}

/// The cheapest paths of all links between placed blocks.
#[derive(Clone, Debug, Default)]
pub(super) struct Routed {
    pub(super) price: u64,
    /// By link; empty for those that are not routed.
    pub(super) paths: Vec<Vec<u32>>,
    /// By edge.
    taken: Vec<u64>,
}

/// Paths for full placements.
pub(crate) struct Routes;

impl Routes {
    /// The plan of a full placement with the cheapest paths; none if there are no paths, or if the steps
    /// ran out.
    pub(crate) fn finish(
        model: &Model<'_>,
        state: &State<'_, '_>,
        steps: &mut Steps<'_>,
    ) -> Option<Found> {
        let mut routed =
            Routed { paths: vec![Vec::new(); model.network.links.len()], ..Routed::default() };
        if !model.network.links.is_empty() {
            routed = Links::of(model).routed(state, steps)?;
        }
        let mut values = state.values;
        values.add(Term::Price, routed.price);
        let score = values.score(&model.objective);
        Some(Found { score, host: state.host.clone(), paths: routed.paths })
    }
}

/// What became of the paths when a block was placed.
pub(super) enum Extended {
    /// No link has both ends placed that had not before.
    Same,
    /// The cheapest paths now.
    By(Routed),
    /// There are no paths for all, or none that is cheap enough.
    Never,
}

impl<'m, 'p> Links<'m, 'p> {
    pub(super) fn of(model: &'m Model<'p>) -> Self {
        Self { distances: Distances::of(model), all_apart: model.all_apart(), model }
    }

    /// Whether no two blocks can be on one place.
    pub(super) fn all_apart(&self) -> bool {
        self.all_apart
    }

    pub(super) fn nothing_routed(&self) -> Routed {
        let network = &self.model.network;
        Routed {
            price: 0,
            paths: vec![Vec::new(); network.links.len()],
            taken: vec![0; network.edges.len()],
        }
    }

    /// Finds paths for the links between a block that was placed and those that were before.
    ///
    /// If the cheapest paths of the new links fit beside those that are there, all together are the
    /// cheapest. If not, all are routed anew.
    pub(super) fn extend(
        &self,
        state: &State<'_, '_>,
        routed: &Routed,
        block: usize,
        limit: u64,
        steps: &mut Steps<'_>,
    ) -> Extended {
        let network = &self.model.network;
        if network.links_of(block).is_empty() {
            return Extended::Same;
        }
        let links = network.links_of(block).iter().map(|link| *link as usize);
        let Some(demands) = self.demands(state, links) else { return Extended::Never };
        let mut extended = routed.clone();
        let mut fits = true;
        for demand in demands {
            let bandwidth = network.links[demand.link].bandwidth;
            let Some(route) = self.alone(demand) else {
                return Extended::Never;
            };
            extended.price += route.price;
            for edge in &route.path {
                let taken = &mut extended.taken[*edge as usize];
                *taken += bandwidth;
                fits &= *taken <= network.edges[*edge as usize].capacity;
            }
            extended.paths[demand.link] = route.path;
        }
        if extended.price > limit {
            return Extended::Never;
        }
        if fits { Extended::By(extended) } else { self.anew(state, limit, steps) }
    }

    /// The cheapest path of a link that has all edges for itself.
    fn alone(&self, demand: Demand) -> Option<Route> {
        let network = &self.model.network;
        let rules = network.links[demand.link];
        let allowed = network.usable(rules.filter, rules.bandwidth);
        Labels::default().route(network, &self.distances, demand, &allowed)
    }

    /// The cheapest paths of all links between placed blocks.
    pub(super) fn routed(&self, state: &State<'_, '_>, steps: &mut Steps<'_>) -> Option<Routed> {
        match self.anew(state, u64::MAX, steps) {
            Extended::By(routed) => Some(routed),
            Extended::Same | Extended::Never => None,
        }
    }

    fn anew(&self, state: &State<'_, '_>, limit: u64, steps: &mut Steps<'_>) -> Extended {
        let network = &self.model.network;
        let Some(demands) = self.demands(state, 0..network.links.len()) else {
            return Extended::Never;
        };
        let Some(routing) = Router::cheapest(self.model, &self.distances, &demands, limit, steps)
        else {
            return Extended::Never;
        };
        let mut routed = Routed { price: routing.price, ..self.nothing_routed() };
        for (demand, path) in demands.iter().zip(routing.paths) {
            for edge in &path {
                routed.taken[*edge as usize] += network.links[demand.link].bandwidth;
            }
            routed.paths[demand.link] = path;
        }
        Extended::By(routed)
    }

    /// Those links whose ends are on two places; none if one of them has a place without edges.
    fn demands(
        &self,
        state: &State<'_, '_>,
        links: impl Iterator<Item = usize>,
    ) -> Option<Vec<Demand>> {
        let network = &self.model.network;
        let mut demands = Vec::new();
        for link in links {
            let hosts = network.links[link].ends.map(|end| state.host[end as usize]);
            if hosts[0] == hosts[1] || hosts.contains(&NOWHERE) {
                continue;
            }
            let [from, to] = hosts.map(|host| network.node(host as usize));
            demands.push(Demand { link, ends: [from?, to?] });
        }
        Some(demands)
    }

    /// Twice the price of the links of a block at a place to placed blocks, and once to open ones; none if
    /// one can have no path, or if all together do not fit the edges of the place.
    pub(super) fn price(&self, state: &State<'_, '_>, block: usize, place: usize) -> Option<u64> {
        let network = &self.model.network;
        let mut price = 0_u64;
        let mut leaving: Vec<u64> = Vec::new();
        let mut open: Vec<Open> = Vec::new();
        for link in network.links_of(block) {
            let link = *link as usize;
            let rules = network.links[link];
            let [one, other] = rules.ends.map(|end| end as usize);
            let partner = if one == block { other } else { one };
            let host = state.host[partner];
            if partner == block || host as usize == place {
                continue;
            }
            if host != NOWHERE {
                let distance = self.distances.between(
                    link,
                    network.node(place)?,
                    network.node(host as usize)?,
                );
                if distance == FAR {
                    return None;
                }
                price += 2 * distance * rules.bandwidth;
            } else if self.must_part(block, partner) {
                // All links to one partner end at one place.
                match open.iter_mut().find(|known| self.is_far_apart() && known.partner == partner)
                {
                    Some(known) => known.bandwidth += rules.bandwidth,
                    None => open.push(Open { bandwidth: rules.bandwidth, link, partner }),
                }
            } else {
                continue;
            }
            leaving.push(rules.bandwidth);
        }
        if leaving.is_empty() {
            return Some(0);
        }
        let node = network.node(place)?;
        leaving.sort_unstable_by(|one, other| other.cmp(one));
        if leaving.len() > 1 && !can_leave(network, node, &leaving) {
            return None;
        }
        Some(price + self.open_price(state, node, &mut open)?)
    }

    /// What links from a node to blocks that are open cost at least. If no two blocks can be on one place,
    /// each partner goes to another one: that of the widest links to the nearest.
    fn open_price(&self, state: &State<'_, '_>, node: usize, open: &mut [Open]) -> Option<u64> {
        let network = &self.model.network;
        open.sort_unstable_by(|one, other| other.cmp(one));
        // The link that has the most edges to choose from is the nearest to all.
        let widest_choice = open.iter().min_by_key(|open| open.bandwidth).map(|open| open.link);
        let mut hosts =
            widest_choice.into_iter().flat_map(|link| self.distances.sites_from(link, node));
        let mut price = 0;
        for Open { bandwidth, link, .. } in open {
            let mut distance = self.distances.nearest(*link, node);
            if self.is_far_apart() {
                let is_free =
                    |site: &&(u64, u32)| state.is_empty(network.nodes[site.1 as usize] as usize);
                distance = hosts.find(is_free).map_or(FAR, |site| site.0);
            }
            if distance == FAR {
                return None;
            }
            price += distance * *bandwidth;
        }
        Some(price)
    }

    /// Whether no two blocks can be on one place, and all links have the same distances.
    fn is_far_apart(&self) -> bool {
        self.all_apart && self.distances.is_one_table()
    }

    /// Whether two blocks can never be on one place.
    fn must_part(&self, one: usize, other: usize) -> bool {
        let lists = self.model.apart(other);
        self.model.apart(one).iter().any(|list| lists.contains(list))
    }
}

/// A link to a block without a place, or all links to it.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Open {
    bandwidth: u64,
    link: usize,
    partner: usize,
}

/// Whether links of these bandwidths, widest first, can leave a node, each by one of its edges.
pub(super) fn can_leave(network: &Network, node: usize, bandwidths: &[u64]) -> bool {
    let edges = network.around[node].iter();
    let mut rooms: Vec<u64> =
        edges.map(|(edge, _)| network.edges[*edge as usize].capacity).collect();
    pack(bandwidths, &mut rooms)
}

/// Whether amounts, largest first, fit into rooms, each as a whole.
pub(super) fn pack(amounts: &[u64], rooms: &mut [u64]) -> bool {
    let [amount, rest @ ..] = amounts else { return true };
    if rooms.iter().sum::<u64>() < amounts.iter().sum() {
        return false;
    }
    for index in 0..rooms.len() {
        // Rooms of one size are alike.
        if rooms[index] >= *amount && !rooms[..index].contains(&rooms[index]) {
            rooms[index] -= amount;
            let packed = pack(rest, rooms);
            rooms[index] += amount;
            if packed {
                return true;
            }
        }
    }
    false
}
