//! The exact solver of requests for sites: each block has a place of its own, and the price alone counts.
//!
//! It is the branch and bound of `exact`, with what does not change found once: the places of each block,
//! the cheapest paths between them, and how far the nearest places are. What each place would cost is kept
//! from step to step, so a step looks at a few numbers only.
//!
//! A branch ends where the cheapest places of open blocks, with the paths of placed ones, are no cheaper than
//! the plan found. Cheapest paths count as they are; only where they over-use an edge, the links between
//! placed blocks are routed together.

mod options;
mod paths;

use std::rc::Rc;

use crate::model::Model;
use crate::score::{Score, Term, Values};
use crate::state::NOWHERE;

use super::cuts::{Cuts, Loads};
use super::route::{Demand, Router};
use super::{Found, Outcome, Search, Steps, assignment};

use options::{NEVER, Options};
use paths::Paths;

/// All prices are below it: see `model::build`.
const NO_LIMIT: u64 = u64::MAX / 4 + 1;

/// How often links are routed together before cuts are looked for, which takes as long as some routings.
const PATIENCE: u32 = 8;

/// Whether a problem is such a request.
pub(super) fn suits(model: &Model<'_>) -> bool {
    let blocks = model.block_count();
    model.objective == [Term::Price] && blocks > 0 && (blocks == 1 || model.all_apart())
}

/// Searches for the best plans. Blocks that `fixed` has on a place stay there.
pub(super) fn search(
    model: &Model<'_>,
    fixed: &[u32],
    search: Search,
    start: Option<&Found>,
    steps: &mut Steps<'_>,
) -> Outcome {
    let options = Options::of(model, fixed);
    let mut sites = Sites::new(model, &options, search, steps);
    sites.plans.extend(start.cloned());
    sites.dive(0);
    let complete = !sites.steps.ran_out() && !sites.stopped;
    let bound = match sites.plans.first() {
        Some(best) if complete => best.score,
        Some(_) | None => priced(sites.root),
    };
    Outcome { complete, bound, plans: sites.plans }
}

fn priced(price: u64) -> Score {
    let mut values = Values::default();
    values.set(Term::Price, price);
    values.score(&[Term::Price])
}

/// A partial plan.
#[derive(Clone, Debug, Default)]
struct Level {
    /// Twice the price of each option, with its links to placed blocks; [`NEVER`] if it has no path to one.
    costs: Vec<u64>,
    /// The price of placed blocks, and of their paths.
    placed: u64,
    routed: u64,
    /// By link, from its first end to its second; empty for links of open blocks.
    paths: Vec<Rc<[u32]>>,
    /// What is taken of each edge.
    taken: Vec<u64>,
}

impl Level {
    /// Becomes a copy of another one, in the memory that it has.
    fn copy(&mut self, other: &Self) {
        self.costs.clone_from(&other.costs);
        self.placed = other.placed;
        self.routed = other.routed;
        self.paths.clone_from(&other.paths);
        self.taken.clone_from(&other.taken);
    }
}

struct Sites<'m, 'p, 's, 't> {
    model: &'m Model<'p>,
    options: &'m Options,
    search: Search,
    steps: &'s mut Steps<'t>,
    paths: Paths,
    /// The option of each block.
    chosen: Vec<Option<usize>>,
    /// Whether each place has a block.
    occupied: Vec<bool>,
    /// What is placed, by depth.
    levels: Vec<Level>,
    /// Twice what each option adds at least, at the step that is looked at.
    bounds: Vec<u64>,
    /// How many explored branches each kind of block and place has behind it: there, others of the kind need
    /// not be tried.
    explored: Vec<u32>,
    /// How often links were routed together.
    routings: u32,
    /// Found once links were routed often.
    cuts: Option<Cuts>,
    /// Best first.
    plans: Vec<Found>,
    /// The bound before anything is placed.
    root: u64,
    stopped: bool,
}

/// What a step finds out about the open blocks.
struct Look {
    /// Twice what all add at least.
    rest: u64,
    /// The block that is placed next.
    next: usize,
    /// Twice what it adds at least.
    least: u64,
}

impl<'m, 'p, 's, 't> Sites<'m, 'p, 's, 't> {
    fn new(
        model: &'m Model<'p>,
        options: &'m Options,
        search: Search,
        steps: &'s mut Steps<'t>,
    ) -> Self {
        let blocks = model.block_count();
        let first = Level {
            costs: options.prices(),
            paths: vec![Rc::default(); model.network.links.len()],
            taken: vec![0; model.network.edges.len()],
            ..Level::default()
        };
        let mut levels = vec![first];
        levels.resize_with(blocks + 1, Level::default);
        Self {
            paths: Paths::new(model),
            chosen: vec![None; blocks],
            occupied: vec![false; model.place_count()],
            levels,
            bounds: vec![NEVER; options.len()],
            explored: vec![0; options.kinds() * model.place_count()],
            routings: 0,
            cuts: None,
            plans: Vec::new(),
            root: 0,
            stopped: false,
            model,
            options,
            search,
            steps,
        }
    }

    /// The price that a plan must be below.
    fn limit(&self) -> u64 {
        if self.plans.len() < self.search.keep {
            return NO_LIMIT;
        }
        self.plans.last().map_or(NO_LIMIT, |plan| plan.score.0[0])
    }

    /// Goes on from the partial plan of a depth.
    fn dive(&mut self, depth: usize) {
        if self.stopped || !self.steps.take() {
            return;
        }
        if depth == self.model.block_count() {
            self.finish(depth);
            return;
        }
        let Some(look) = self.look(depth) else { return };
        let so_far = self.levels[depth].placed + self.levels[depth].routed;
        if depth == 0 {
            self.root = look.rest.div_ceil(2);
        }
        let mut order: Vec<(u64, u32, usize)> = Vec::new();
        for option in self.options.of_block(look.next) {
            if self.bounds[option] < NEVER {
                order.push((self.bounds[option], self.options.place[option], option));
            }
        }
        order.sort_unstable();
        let kind = self.options.kind[look.next];
        let mut explored: Vec<usize> = Vec::new();
        for (bound, place, option) in order {
            let with = so_far + (look.rest - look.least + bound).div_ceil(2);
            if with >= self.limit() {
                break;
            }
            if self.put(depth, &look, option) {
                self.dive(depth + 1);
            }
            self.chosen[look.next] = None;
            self.occupied[place as usize] = false;
            if let Some(kind) = kind {
                let cell = kind as usize * self.model.place_count() + place as usize;
                self.explored[cell] += 1;
                explored.push(cell);
            }
        }
        explored.into_iter().for_each(|cell| self.explored[cell] -= 1);
    }

    /// Finds what each option of open blocks adds at least; none if there is no better plan.
    fn look(&mut self, depth: usize) -> Option<Look> {
        let mut rest = 0;
        let mut next: Option<(usize, std::cmp::Reverse<usize>, usize)> = None;
        let mut least_of_next = 0;
        let network = &self.model.network;
        let demands = self.cuts.as_ref().map(|cuts| (cuts, self.demands()));
        let loads = demands.map(|(cuts, demands)| Loads::new(cuts, network, &demands));
        for block in 0..self.chosen.len() {
            if self.chosen[block].is_some() {
                continue;
            }
            let (mut least, mut count) = (NEVER, 0);
            let out_of_reach = loads.as_ref().map(|loads| {
                let ending = self.options.ending(block, &self.chosen);
                loads.out_of_reach(network.nodes.len(), &ending)
            });
            for option in self.options.of_block(block) {
                let node = self.options.node_of(option);
                let is_out = out_of_reach
                    .as_ref()
                    .is_some_and(|out| node.is_some_and(|node| out.contains(node)));
                let bound = if is_out { NEVER } else { self.bound(depth, block, option) };
                self.bounds[option] = bound;
                least = least.min(bound);
                count += usize::from(bound < NEVER);
            }
            if count == 0 {
                return None;
            }
            rest += least;
            // With a choice, the block with most links, since it decides most.
            let links = self.model.network.links_of(block).len();
            let key = (count, std::cmp::Reverse(links), block);
            if next.is_none_or(|next| key < next) {
                next = Some(key);
                least_of_next = least;
            }
        }
        let (.., next) = next?;
        let level = &self.levels[depth];
        let most = 2 * (self.limit() - (level.placed + level.routed).min(self.limit()));
        if rest >= most || self.assigned()? >= most {
            return None;
        }
        Some(Look { rest, next, least: least_of_next })
    }

    /// Twice what an option adds at least, or [`NEVER`].
    fn bound(&self, depth: usize, block: usize, option: usize) -> u64 {
        let place = self.options.place[option] as usize;
        let cost = self.levels[depth].costs[option];
        let is_explored = self.options.kind[block].is_some_and(|kind| {
            self.explored[kind as usize * self.model.place_count() + place] > 0
        });
        if cost == NEVER || self.occupied[place] || is_explored {
            return NEVER;
        }
        let open = self.options.nearest(
            block,
            option,
            &self.chosen,
            &self.occupied,
            &self.model.network.nodes,
        );
        cost.saturating_add(open)
    }

    /// Twice the least price at which each open block has a place of its own; none if there are not enough.
    /// It is looked for only if two blocks would best have one place.
    fn assigned(&self) -> Option<u64> {
        let open = (0..self.chosen.len()).filter(|block| self.chosen[*block].is_none());
        let open: Vec<usize> = open.collect();
        let best = |block: usize| {
            self.options.of_block(block).min_by_key(|option| self.bounds[*option]).unwrap_or(0)
        };
        let mut places: Vec<u32> =
            open.iter().map(|block| self.options.place[best(*block)]).collect();
        places.sort_unstable();
        if places.windows(2).all(|pair| pair[0] != pair[1]) {
            return Some(0);
        }
        let columns = self.model.place_count();
        let mut costs = vec![assignment::NEVER; open.len() * columns];
        for (row, block) in open.iter().enumerate() {
            for option in self.options.of_block(*block) {
                let place = self.options.place[option] as usize;
                let bound = self.bounds[option];
                if bound < NEVER {
                    costs[row * columns + place] = bound.min(assignment::NEVER - 1);
                }
            }
        }
        assignment::least(&costs, columns)
    }

    /// Places a block at the next level; false if the placed blocks have no paths together, or none that are
    /// cheap enough.
    fn put(&mut self, depth: usize, look: &Look, option: usize) -> bool {
        let block = look.next;
        self.chosen[block] = Some(option);
        self.occupied[self.options.place[option] as usize] = true;
        let (before, after) = self.levels.split_at_mut(depth + 1);
        let level = &mut after[0];
        level.copy(&before[depth]);
        level.placed += self.options.price[option];
        self.options.link(block, option, &self.chosen, &mut level.costs);
        let network = &self.model.network;
        let mut fits = true;
        for link in network.links_of(block) {
            let link = *link as usize;
            let Some(ends) = self.options.ends(link, &self.chosen) else { continue };
            let distances = &self.options.distances;
            let Some(route) = self.paths.between(network, distances, Demand { link, ends }) else {
                return false;
            };
            level.routed += route.price;
            for edge in &*route.path {
                let taken = &mut level.taken[*edge as usize];
                *taken += network.links[link].bandwidth;
                fits &= *taken <= network.edges[*edge as usize].capacity;
            }
            level.paths[link] = Rc::clone(&route.path);
        }
        // What is left to the paths, if the open blocks cost no more than they must.
        let rest = level.placed + (look.rest - look.least).div_ceil(2);
        let most = self.limit().saturating_sub(rest);
        let level = &mut self.levels[depth + 1];
        level.routed < most && (fits || self.route(depth + 1, most - 1))
    }

    /// Finds the cheapest paths of all links between placed blocks, if they cost no more than `most`.
    fn route(&mut self, depth: usize, most: u64) -> bool {
        let network = &self.model.network;
        let demands = self.demands();
        self.routings += 1;
        if self.routings == PATIENCE {
            self.cuts = Some(Cuts::of(network));
        }
        if self.cuts.as_ref().is_some_and(|cuts| !cuts.admit(network, &demands)) {
            return false;
        }
        let Some(routing) =
            Router::cheapest(self.model, &self.options.distances, &demands, most, self.steps)
        else {
            return false;
        };
        let level = &mut self.levels[depth];
        level.routed = routing.price;
        level.taken.fill(0);
        for (demand, path) in demands.iter().zip(routing.paths) {
            for edge in &path {
                level.taken[*edge as usize] += network.links[demand.link].bandwidth;
            }
            level.paths[demand.link] = path.into();
        }
        true
    }

    /// The links between placed blocks.
    fn demands(&self) -> Vec<Demand> {
        let links = 0..self.model.network.links.len();
        let demands = links.filter_map(|link| {
            self.options.ends(link, &self.chosen).map(|ends| Demand { link, ends })
        });
        demands.collect()
    }

    /// Keeps a full plan.
    fn finish(&mut self, depth: usize) {
        let level = &self.levels[depth];
        let host = self.chosen.iter().map(|option| match option {
            Some(option) => self.options.place[*option],
            None => NOWHERE,
        });
        let score = priced(level.placed + level.routed);
        let paths = level.paths.iter().map(|path| path.to_vec()).collect();
        let at = self.plans.partition_point(|plan| plan.score <= score);
        self.plans.insert(at, Found { score, host: host.collect(), paths });
        self.plans.truncate(self.search.keep);
        self.stopped = self.search.any;
    }
}
