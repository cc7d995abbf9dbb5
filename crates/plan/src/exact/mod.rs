//! The exact solver: a depth-first branch and bound over the places of blocks.
//!
//! At each step it looks at all places that each block could still have. The block with the fewest goes
//! next, to the place with the lowest bound first. A branch ends where a block has no place, or where its
//! bound is no better than the plans found. The links between placed blocks are routed at once (see `links`).

mod assignment;
mod bounds;
mod cuts;
mod distances;
mod links;
mod route;
mod sites;

use crate::bits::Bits;
use crate::model::Model;
use crate::score::{Score, Term};
use crate::state::{NOWHERE, State};

use bounds::Largest;
pub(crate) use links::Routes;

use links::{Extended, Links, Routed};

/// How many steps may still be taken.
#[derive(Clone, Copy)]
pub(crate) struct Steps<'s> {
    left: u64,
    taken: u64,
    /// Whether a step was asked for when none was left.
    ran_out: bool,
    /// Asked now and then; if true, no step is left.
    stop: &'s dyn Fn() -> bool,
}

/// After how many steps `stop` is asked again.
const STOP_EVERY: u64 = 32;

impl<'s> Steps<'s> {
    pub(crate) fn new(most: u64, stop: &'s dyn Fn() -> bool) -> Self {
        Self { left: most, taken: 0, ran_out: false, stop }
    }

    /// A budget of its own, of no more than is left.
    pub(crate) fn part(&self, most: u64) -> Self {
        Self::new(most.min(self.left), self.stop)
    }

    /// Takes a step, if there is one left.
    pub(crate) fn take(&mut self) -> bool {
        let stopped = self.taken.is_multiple_of(STOP_EVERY) && (self.stop)();
        if self.left == 0 || stopped {
            self.left = 0;
            self.ran_out = true;
            return false;
        }
        self.left -= 1;
        self.taken += 1;
        true
    }

    pub(crate) fn taken(&self) -> u64 {
        self.taken
    }

    pub(crate) fn ran_out(&self) -> bool {
        self.ran_out
    }

    /// Counts the steps of another budget.
    pub(crate) fn spend(&mut self, other: &Steps<'_>) {
        self.taken += other.taken;
        self.left = self.left.saturating_sub(other.taken);
    }

    pub(crate) fn left(&self) -> u64 {
        self.left
    }
}

/// A plan: the place of each block, and the edges of each link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) score: Score,
    pub(crate) host: Vec<u32>,
    pub(crate) paths: Vec<Vec<u32>>,
}

/// What a search came to.
#[derive(Debug)]
pub(crate) struct Outcome {
    /// The best plans, best first.
    pub(crate) plans: Vec<Found>,
    /// Whether nothing was left out: the plans are the best, or there is none.
    pub(crate) complete: bool,
    /// No plan has a lower score.
    pub(crate) bound: Score,
}

/// What to look for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Search {
    /// How many plans to keep.
    pub(crate) keep: usize,
    /// Whether the first plan will do.
    pub(crate) any: bool,
}

/// What a block adds at a place, at least.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Cost {
    installs: u64,
    favourites: u64,
    uses: u64,
    /// Twice the price: of an open link, each end counts half.
    price: u64,
}

/// The places that a block could still have.
#[derive(Debug)]
struct Candidates {
    block: usize,
    places: Vec<(u32, Cost)>,
    /// The least of each cost.
    least: Cost,
    /// What it takes of any place at least.
    least_load: Vec<u64>,
    /// Whether all places are empty now.
    only_empty: bool,
    /// Whether it must go to a place that hosts no bound part.
    spreads: bool,
}

/// Searches for the best plans.
pub(crate) fn search(
    model: &Model<'_>,
    search: Search,
    start: Option<&Found>,
    steps: &mut Steps<'_>,
) -> Outcome {
    if sites::suits(model) {
        let open = vec![NOWHERE; model.block_count()];
        return sites::search(model, &open, search, start, steps);
    }
    let mut exact = Exact::new(model, search, steps);
    if let Some(found) = start {
        exact.plans.push(found.clone());
    }
    let routed = exact.links.nothing_routed();
    exact.dive(0, &routed);
    let complete = !exact.steps.ran_out() && !exact.stopped;
    let bound = match exact.plans.first() {
        Some(best) if complete => best.score,
        Some(_) | None => exact.root.unwrap_or_default(),
    };
    Outcome { complete, bound, plans: exact.plans }
}

/// Places some blocks of a plan anew, beside the others; none if no better plan is found.
pub(crate) fn again(
    model: &Model<'_>,
    plan: &Found,
    freed: &[usize],
    steps: &mut Steps<'_>,
) -> Option<Found> {
    let search = Search { keep: 1, any: false };
    if sites::suits(model) {
        let mut fixed = plan.host.clone();
        freed.iter().for_each(|block| fixed[*block] = NOWHERE);
        let outcome = sites::search(model, &fixed, search, Some(plan), steps);
        return outcome.plans.into_iter().next().filter(|found| found.score < plan.score);
    }
    let mut exact = Exact::new(model, search, steps);
    exact.plans.push(plan.clone());
    for (block, place) in plan.host.iter().enumerate() {
        if freed.binary_search(&block).is_err() {
            exact.state.put(block, *place as usize);
        }
    }
    let routed = exact.links.routed(&exact.state, exact.steps)?;
    exact.dive(model.block_count() - freed.len(), &routed);
    exact.plans.pop().filter(|found| found.score < plan.score)
}

/// Which terms the objective has: what it does not count is not looked for.
#[derive(Clone, Copy)]
struct Counted {
    installs: bool,
    favourites: bool,
    price: bool,
}

impl Counted {
    fn of(terms: &[Term]) -> Self {
        Self {
            installs: terms.contains(&Term::Installs),
            favourites: terms.contains(&Term::Favourites),
            price: terms.contains(&Term::Price),
        }
    }
}

struct Exact<'m, 'p, 's, 't> {
    state: State<'m, 'p>,
    counted: Counted,
    search: Search,
    steps: &'s mut Steps<'t>,
    links: Links<'m, 'p>,
    largest: Largest,
    /// What each block takes of any place at least.
    least_load: Vec<Vec<u64>>,
    /// Blocks of one number are interchangeable.
    twins: Vec<Option<u32>>,
    /// How many explored branches each twin and place has behind it: there, twins need not be tried.
    explored: Vec<u32>,
    /// Best first.
    plans: Vec<Found>,
    /// The bound before anything is placed.
    root: Option<Score>,
    /// Whether the search ended with the first plan.
    stopped: bool,
}

impl<'m, 'p, 's, 't> Exact<'m, 'p, 's, 't> {
    fn new(model: &'m Model<'p>, search: Search, steps: &'s mut Steps<'t>) -> Self {
        let twins = twins(model);
        let kinds = twins.iter().flatten().max().map_or(0, |most| *most as usize + 1);
        Self {
            state: State::new(model),
            counted: Counted::of(&model.objective),
            links: Links::of(model),
            largest: Largest::of(model),
            least_load: (0..model.block_count()).map(|block| least_load(model, block)).collect(),
            explored: vec![0; kinds * model.place_count()],
            twins,
            plans: Vec::new(),
            root: None,
            stopped: false,
            search,
            steps,
        }
    }

    fn model(&self) -> &'m Model<'p> {
        self.state.model
    }

    /// The score that a plan must be better than.
    fn limit(&self) -> Score {
        if self.plans.len() < self.search.keep {
            return Score::WORST;
        }
        self.plans.last().map_or(Score::WORST, |plan| plan.score)
    }

    /// Goes on from a partial plan, whose links between placed blocks are routed.
    fn dive(&mut self, depth: usize, routed: &Routed) {
        if self.stopped || !self.steps.take() {
            return;
        }
        if depth == self.model().block_count() {
            self.finish(routed);
            return;
        }
        let Some(open) = self.look() else { return };
        let Some(bound) =
            bounds::bound(&self.state, &self.largest, &open, &self.links, routed.price)
        else {
            return;
        };
        self.root.get_or_insert(bound);
        if bound >= self.limit() {
            return;
        }
        let next = open.iter().min_by_key(|candidates| {
            // With a choice, the block with most links, since it decides most.
            let links = self.model().network.links_of(candidates.block).len();
            (candidates.places.len(), std::cmp::Reverse(links), candidates.block)
        });
        let Some(next) = next else { return };
        let block = next.block;
        let mut places = next.places.clone();
        let terms = &self.model().objective;
        places.sort_by_cached_key(|(place, cost)| {
            (self.preference(block, *place as usize, cost, terms), *place)
        });
        let twin = self.twins[block];
        let mut explored: Vec<usize> = Vec::new();
        for (place, _) in places {
            let place = place as usize;
            self.state.put(block, place);
            let limit = self.price_limit();
            match self.links.extend(&self.state, routed, block, limit, self.steps) {
                Extended::Same => self.dive(depth + 1, routed),
                Extended::By(routed) => self.dive(depth + 1, &routed),
                Extended::Never => {}
            }
            self.state.take(block);
            if let Some(twin) = twin {
                let cell = twin as usize * self.model().place_count() + place;
                self.explored[cell] += 1;
                explored.push(cell);
            }
        }
        for cell in explored {
            self.explored[cell] -= 1;
        }
    }

    /// What a place adds by the terms of the objective.
    fn preference(&self, block: usize, place: usize, cost: &Cost, terms: &[Term]) -> Score {
        let mut score = Score::default();
        let bound = self
            .model()
            .block(block)
            .iter()
            .any(|item| self.model().rules[self.model().part_of(*item)].bound);
        for (value, term) in score.0.iter_mut().zip(terms) {
            *value = match term {
                Term::Installs => cost.installs,
                Term::Nodes => u64::from(self.state.is_empty(place)),
                Term::Spread => u64::from(bound && !self.state.hosts_bound(place)),
                Term::Uses => cost.uses,
                Term::Favourites => cost.favourites,
                Term::Price => cost.price,
            };
        }
        score
    }

    /// The places of all open blocks; none if one has no place.
    fn look(&mut self) -> Option<Vec<Candidates>> {
        let mut open = Vec::new();
        for block in 0..self.model().block_count() {
            if !self.state.is_placed(block) {
                open.push(self.candidates(block)?);
            }
        }
        Some(open)
    }

    fn candidates(&mut self, block: usize) -> Option<Candidates> {
        let model = self.model();
        let bound = model.block(block).iter().any(|item| model.rules[model.part_of(*item)].bound);
        let mut candidates = Candidates {
            block,
            places: Vec::with_capacity(model.place_count()),
            least: Cost {
                installs: u64::MAX,
                favourites: u64::MAX,
                uses: u64::MAX,
                price: u64::MAX,
            },
            least_load: self.least_load[block].clone(),
            only_empty: true,
            spreads: bound,
        };
        let mut seen = Bits::none(model.place_count());
        for place in 0..model.place_count() {
            let empty = self.state.is_empty(place);
            let class = model.class[place] as usize;
            if empty && seen.contains(class) {
                continue;
            }
            if !self.state.fits(block, place) || self.is_explored(block, place) {
                continue;
            }
            let Some(cost) = self.cost(block, place) else { continue };
            if empty {
                seen.insert(class);
            }
            candidates.only_empty &= empty;
            candidates.spreads &= !self.state.hosts_bound(place);
            let least = &mut candidates.least;
            least.installs = least.installs.min(cost.installs);
            least.favourites = least.favourites.min(cost.favourites);
            least.uses = least.uses.min(cost.uses);
            least.price = least.price.min(cost.price);
            candidates.places.push((u32::try_from(place).unwrap_or(NOWHERE), cost));
        }
        (!candidates.places.is_empty()).then_some(candidates)
    }

    fn is_explored(&self, block: usize, place: usize) -> bool {
        self.twins[block].is_some_and(|twin| {
            self.explored[twin as usize * self.model().place_count() + place] > 0
        })
    }

    /// What a block would add at a place; none if one of its links can have no path.
    fn cost(&self, block: usize, place: usize) -> Option<Cost> {
        let model = self.model();
        let uses = model.partners(block).iter().filter(|(partner, _)| {
            let host = self.state.host[*partner as usize];
            host != NOWHERE && host as usize != place
        });
        let Counted { installs, favourites, price } = self.counted;
        let paths = self.links.price(&self.state, block, place)?;
        Some(Cost {
            installs: if installs { self.state.installs(block, place) } else { 0 },
            favourites: if favourites { self.state.off_favourites(block, place) } else { 0 },
            uses: uses.map(|(_, weight)| *weight).sum(),
            price: if price { 2 * self.state.price(block, place) + paths } else { 0 },
        })
    }

    /// Keeps a full plan if it is among the best.
    fn finish(&mut self, routed: &Routed) {
        let mut values = self.state.values;
        values.add(Term::Price, routed.price);
        let score = values.score(&self.model().objective);
        if score >= self.limit() || self.plans.iter().any(|plan| plan.host == self.state.host) {
            return;
        }
        let at = self.plans.partition_point(|plan| plan.score <= score);
        self.plans.insert(
            at,
            Found { score, host: self.state.host.clone(), paths: routed.paths.clone() },
        );
        self.plans.truncate(self.search.keep);
        self.stopped = self.search.any;
    }

    /// What the placed links may cost at most, if the price comes first.
    fn price_limit(&self) -> u64 {
        match self.model().objective.as_slice() {
            [Term::Price] => {
                // Strictly less than the limit.
                let limit = self.limit().0[0].saturating_sub(self.state.values.get(Term::Price));
                limit.saturating_sub(1)
            }
            _ => u64::MAX,
        }
    }
}

/// What a block takes of any place at least.
fn least_load(model: &Model<'_>, block: usize) -> Vec<u64> {
    let mut load = vec![0; model.dimensions.len()];
    for item in model.block(block) {
        let part = model.part_of(*item);
        if model.rules[part].reused.is_none() {
            load.iter_mut().zip(model.needs(part)).for_each(|(sum, need)| *sum += need);
        }
    }
    load
}

/// Blocks that differ in nothing but their number: copies of one part that nothing tells apart.
fn twins(model: &Model<'_>) -> Vec<Option<u32>> {
    let mut first: std::collections::BTreeMap<usize, usize> = std::collections::BTreeMap::new();
    let mut counts = vec![0_u32; model.problem.part.len()];
    let mut twins: Vec<Option<u32>> = Vec::with_capacity(model.block_count());
    for block in 0..model.block_count() {
        let alone = match model.block(block) {
            [item]
                if model.partners(block).is_empty() && model.network.links_of(block).is_empty() =>
            {
                Some(model.part_of(*item))
            }
            _ => None,
        };
        let part = alone.filter(|part| {
            let first = *first.entry(*part).or_insert(block);
            model.apart(first) == model.apart(block)
        });
        if let Some(part) = part {
            counts[part] += 1;
        }
        twins.push(part.and_then(|part| u32::try_from(part).ok()));
    }
    for twin in &mut twins {
        *twin = twin.filter(|part| counts[*part as usize] > 1);
    }
    twins
}
