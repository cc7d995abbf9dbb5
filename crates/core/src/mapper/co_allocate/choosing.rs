//! Which start, which sites and which paths a request gets.

use tenure_plan::{Settings, Solver, Term as Objective, solve};

use super::network::{Free, Network, Units};
use super::{CoAllocate, Prefer};
use crate::broker::mapper::{Allocation, Choice, Verdict, View};
use crate::mapper::queue::Round;
use crate::model::price::{Cost, price_of};
use crate::model::time::{Term, Time};
use crate::wire::offer::{MAX_OFFERS, Reply};
use crate::wire::refusal::Refusal;
use crate::wire::request::{Item, Request};

/// Plans one request.
pub(super) struct Planner<'a> {
    settings: &'a CoAllocate,
    view: &'a View,
    request: &'a Request,
    prefer: Prefer,
    level: u8,
}

/// A way to meet the request.
#[derive(Clone, Debug)]
struct Way {
    allocation: Allocation,
    cost: Cost,
    /// What it is compared by, in millionths: the less, the better.
    value: u64,
    proven: bool,
}

/// The ways that were found, the best first, and whether all starts were searched to the end.
struct Found {
    ways: Vec<Way>,
    complete: bool,
}

impl<'a> Planner<'a> {
    pub(super) fn new(settings: &'a CoAllocate, view: &'a View, request: &'a Request) -> Self {
        let prefer = match request.properties.get("prefer") {
            Some("earliest") => Prefer::Earliest,
            Some("cheapest") => Prefer::Cheapest,
            Some("best") => Prefer::Best,
            Some(_) | None => settings.prefer,
        };
        let named = request.properties.get("level").and_then(|name| settings.levels.get(name));
        let lowest = settings.levels.values().min();
        let level = named.or(lowest).copied().unwrap_or(100).min(100);
        Self { settings, view, request, prefer, level }
    }

    pub(super) fn choose(&self, round: &mut Round<'_>) -> Choice {
        let (verdict, reason) = match self.request.reply {
            Reply::Grant => self.grant(round),
            Reply::Plan => self.offer(round, false),
            Reply::Hold(_) => self.offer(round, true),
        };
        Choice { request: self.request.id, verdict, reason }
    }

    fn grant(&self, round: &mut Round<'_>) -> (Verdict, String) {
        let network = self.network(round);
        let found = self.search(&network, &self.starts());
        match found.ways.into_iter().next() {
            Some(way) => {
                round.draft.book(self.request, &way.allocation);
                let reason = way.reason();
                (Verdict::Grant(way.allocation), reason)
            }
            None => self.refuse(&network, found.complete),
        }
    }

    fn offer(&self, round: &mut Round<'_>, hold: bool) -> (Verdict, String) {
        let mut offers = Vec::new();
        let mut complete = true;
        // What is held for one offer is not there for the next.
        while offers.len() < MAX_OFFERS {
            let found = self.search(&self.network(round), &self.starts());
            complete &= found.complete;
            let before = offers.len();
            for way in found.ways {
                if offers.len() < MAX_OFFERS && !offers.contains(&way.allocation) {
                    if hold {
                        round.draft.book(self.request, &way.allocation);
                    }
                    offers.push(way.allocation);
                    if hold {
                        break;
                    }
                }
            }
            if !hold || offers.len() == before {
                break;
            }
        }
        if offers.is_empty() {
            return self.refuse(&self.network(round), complete);
        }
        let reason = format!("{} plans", offers.len());
        (Verdict::Offer { offers, refusal: None }, reason)
    }

    fn network<'n>(&'n self, round: &mut Round<'_>) -> Network<'n> {
        let (sources, edges) = round.draft.left(self.request);
        let Self { settings, request, prefer, level, .. } = *self;
        Network { settings, prefer, request, level, sources, edges }
    }

    /// The starts that are planned for.
    fn starts(&self) -> Vec<Time> {
        let (from, latest) = (self.view.first_start(self.request), self.request.latest);
        let frames = i64::from(self.settings.frames.get());
        let steps = (frames - 1).max(1);
        let between = latest.since(from);
        let start = |frame: i64| {
            let micros = i128::from(between.as_micros()) * i128::from(frame) / i128::from(steps);
            from.plus(crate::model::time::Span::from_micros(i64::try_from(micros).unwrap_or(0)))
        };
        let mut starts: Vec<Time> = (0..frames).map(start).collect();
        starts.dedup();
        starts
    }

    /// The ways to meet the request from one of these starts.
    fn search(&self, network: &Network<'_>, starts: &[Time]) -> Found {
        let mut found = Found { ways: Vec::new(), complete: true };
        for choice in self.request.choices() {
            for units in [Units::Most, Units::Fewest] {
                if units == Units::Fewest && !self.is_elastic(choice) {
                    continue;
                }
                for &start in starts {
                    self.search_frame(network, (choice, start), units, &mut found);
                    let done =
                        self.prefer == Prefer::Earliest && self.request.reply == Reply::Grant;
                    if done && !found.ways.is_empty() {
                        return found;
                    }
                }
                if !found.ways.is_empty() {
                    found.ways.sort_by_key(|way| self.rank(way));
                    return found;
                }
            }
        }
        found
    }

    fn search_frame(
        &self,
        network: &Network<'_>,
        (choice, start): (u8, Time),
        units: Units,
        found: &mut Found,
    ) {
        let Ok(term) = Term::lasting(start, self.request.duration) else { return };
        let problem = network.problem(choice, term, Free::Left, units);
        let plans = usize::try_from(self.settings.plans.get()).unwrap_or(usize::MAX);
        let Ok(answer) = solve(&problem, &self.solver(plans)) else { return };
        let (complete, proven) = match answer.status {
            tenure_plan::Status::Optimal => (true, true),
            tenure_plan::Status::Infeasible => (true, false),
            tenure_plan::Status::Feasible | tenure_plan::Status::Unknown => (false, false),
        };
        found.complete &= complete;
        let best = answer.objective.as_ref().map(|objective| (objective, &answer.plan));
        let others = answer.alternatives.iter().map(|other| (&other.objective, &other.plan));
        for (objective, plan) in best.into_iter().chain(others) {
            let Some(allocation) = network.allocation(choice, term, units, plan) else { continue };
            let value = objective.get(Objective::Price).unwrap_or(0);
            found.ways.push(Way::of(network, allocation, value, proven));
        }
    }

    fn solver(&self, plans: usize) -> Settings {
        let steps = self.settings.steps;
        Settings { solver: Solver::Exact, steps, alternatives: plans - 1, explain: false }
    }

    fn is_elastic(&self, choice: u8) -> bool {
        let mut items = self.request.items.iter().filter(|item| item.choice == choice);
        items.any(|item| item.min_units < item.units)
    }

    /// The lower, the better.
    fn rank(&self, way: &Way) -> (u64, Time, u64) {
        let (start, value) = (way.allocation.term.start(), way.value);
        match self.prefer {
            Prefer::Earliest => (0, start, value),
            Prefer::Cheapest | Prefer::Best => (value, start, 0),
        }
    }

    /// Why there is no way, and the first one after the window.
    fn refuse(&self, network: &Network<'_>, complete: bool) -> (Verdict, String) {
        if !complete {
            let why = "no plan was found within its steps".to_owned();
            return (refused(Refusal::Policy(why.clone()), Vec::new()), why);
        }
        let first = self.view.first_start(self.request);
        let Ok(term) = Term::lasting(first, self.request.duration) else {
            let why = "a term without an end".to_owned();
            return (refused(Refusal::Malformed(why.clone()), Vec::new()), why);
        };
        let possible = self.request.choices().into_iter().any(|choice| {
            let problem = network.problem(choice, term, Free::All, Units::Fewest);
            let any = Settings { solver: Solver::Any, ..self.solver(1) };
            solve(&problem, &any).is_ok_and(|answer| answer.objective.is_some())
        });
        let reasons = self.reasons(network, term, if possible { Free::Left } else { Free::All });
        if !possible {
            let why = format!("no plan, even if nothing were booked: {reasons}");
            return (refused(Refusal::Policy(why.clone()), Vec::new()), why);
        }
        let later = self.later(network);
        let short = self.shortest(network, term);
        let refusal = Refusal::Busy {
            resource: short.resource.clone(),
            asked: short.units.get(),
            free: network.widest(short, term),
            earliest: later.as_ref().map(|way| way.allocation.term.start()),
            in_the_way: Vec::new(),
        };
        (refused(refusal, later.into_iter().map(|way| way.allocation).collect()), reasons)
    }

    /// The first way in as many frames again after the window, each one duration later.
    fn later(&self, network: &Network<'_>) -> Option<Way> {
        let duration = self.request.duration;
        let after = |frame: u32| self.request.latest.plus(duration.times(i64::from(frame)));
        (1..=self.settings.frames.get())
            .find_map(|frame| self.search(network, &[after(frame)]).ways.into_iter().next())
    }

    /// The item that is farthest from being met.
    fn shortest<'i>(&'i self, network: &Network<'_>, term: Term) -> &'i Item {
        let items = &self.request.items;
        let short = |item: &&Item| network.widest(item, term) < item.min_units.get();
        let link = || items.iter().find(|item| item.joins().is_some());
        items.iter().find(short).or_else(link).unwrap_or(&items[0])
    }

    fn reasons(&self, network: &Network<'_>, term: Term, free: Free) -> String {
        let choice = self.request.choices().first().copied().unwrap_or(0);
        let problem = network.problem(choice, term, free, Units::Fewest);
        let settings = Settings { explain: true, ..self.solver(1) };
        let why = solve(&problem, &settings).ok().and_then(|answer| answer.why);
        let why = why.unwrap_or_default();
        if !why.reasons.is_empty() {
            return why.reasons.join("; ");
        }
        format!("together there is no room for {}", [why.parts, why.links].concat().join(", "))
    }
}

fn refused(refusal: Refusal, offers: Vec<Allocation>) -> Verdict {
    Verdict::Refuse { refusal, offers }
}

impl Way {
    fn of(network: &Network<'_>, allocation: Allocation, value: u64, proven: bool) -> Self {
        let mut cost = Cost::ZERO;
        for (source, units) in network.cut(&allocation) {
            let price = price_of(&source.attributes).unwrap_or(0);
            cost = cost.plus(Cost::of(price, units, allocation.term));
        }
        Self { allocation, cost, value, proven }
    }

    fn reason(&self) -> String {
        let proven = if self.proven { "no better plan" } else { "perhaps not the best plan" };
        format!("planned from {}, costs {}; {proven}", self.allocation.term.start(), self.cost)
    }
}
