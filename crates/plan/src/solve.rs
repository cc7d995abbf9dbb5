//! Which solver answers.

use serde::{Deserialize, Serialize};

use crate::answer::{Alternative, Answer, Objective, Status};
use crate::error::BadProblem;
use crate::exact::{self, Found, Outcome, Search, Steps};
use crate::first_fit::{self, Order};
use crate::model::Model;
use crate::problem::Problem;
use crate::render;
use crate::score::{Score, Term};
use crate::search;
use crate::why;

/// A way to solve problems.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Solver {
    /// Each part, largest first, goes to the first place that has room.
    FirstFit,
    /// From the plans of several simple rules, improved as long as steps are left.
    Search,
    /// Proves that there is no better plan, or no plan.
    Exact,
    /// The first plan that is found.
    Any,
    /// What suits the problem.
    #[default]
    Auto,
}

/// How a problem is solved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The solver.
    pub solver: Solver,
    /// The most steps that it takes. A step is one partial plan.
    pub steps: u64,
    /// How many other plans are wanted.
    pub alternatives: usize,
    /// Whether it is said why there is no plan, and what has one instead: that takes as many steps again.
    pub explain: bool,
}

impl Settings {
    /// The steps without a setting: about a second.
    pub const STEPS: u64 = 200_000;
}

impl Default for Settings {
    fn default() -> Self {
        Self { solver: Solver::default(), steps: Self::STEPS, alternatives: 0, explain: true }
    }
}

/// Solves a problem.
///
/// # Errors
/// If the problem contradicts itself, names what it does not have, or has amounts that overflow.
pub fn solve(problem: &Problem, settings: &Settings) -> Result<Answer, BadProblem> {
    solve_until(problem, settings, &|| false)
}

/// Solves a problem until `stop` is true, which is asked every few steps: for callers with a clock.
///
/// # Errors
/// Those of [`solve`].
pub fn solve_until(
    problem: &Problem,
    settings: &Settings,
    stop: &dyn Fn() -> bool,
) -> Result<Answer, BadProblem> {
    let model = Model::new(problem)?;
    let mut steps = Steps::new(settings.steps, stop);
    let outcome = match settings.solver {
        Solver::FirstFit => first(first_fit::first_fit(&model, Order::LargestShare, &mut steps)),
        Solver::Search => first(search::search(&model, &mut steps)),
        Solver::Any => exact::search(&model, Search { keep: 1, any: true }, None, &mut steps),
        Solver::Exact => prove(&model, settings, None, &mut steps),
        Solver::Auto => auto(&model, settings, &mut steps),
    };
    let mut answer = answer(&model, &outcome);
    if answer.status == Status::Infeasible && settings.explain {
        let mut budget = Steps::new(settings.steps.min(Settings::STEPS), stop);
        let why = why::why(problem, &mut budget);
        answer.offers = why::offers(problem, &why, &mut budget);
        answer.why = Some(why);
        steps.spend(&budget);
    }
    answer.steps = steps.taken();
    Ok(answer)
}

/// A plan of which nothing is proven.
fn first(found: Option<Found>) -> Outcome {
    Outcome { plans: found.into_iter().collect(), complete: false, bound: Score::default() }
}

fn prove(
    model: &Model<'_>,
    settings: &Settings,
    start: Option<&Found>,
    steps: &mut Steps<'_>,
) -> Outcome {
    let search = Search { keep: settings.alternatives + 1, any: false };
    exact::search(model, search, start, steps)
}

/// The most pairs of a block and a place that the exact solver looks at in a step.
const EXACT_PAIRS: usize = 20_000;

/// Small problems are solved exactly; if the steps run out, and for large ones, the best plan of the search
/// counts, with the bound that is known.
fn auto(model: &Model<'_>, settings: &Settings, steps: &mut Steps<'_>) -> Outcome {
    let items = search::as_bins(model);
    if let Some((found, bound)) = items.and_then(|items| search::packed(model, &items, steps)) {
        return with_bound(model, first(Some(found)), bound);
    }
    let pairs = model.block_count().saturating_mul(model.place_count());
    if pairs > EXACT_PAIRS {
        return first(search::search(model, steps));
    }
    // Half of the steps for a proof, the rest for a better plan.
    let mut half = steps.part(steps.left().div_ceil(2));
    let outcome = prove(model, settings, None, &mut half);
    steps.spend(&half);
    if outcome.complete {
        return outcome;
    }
    let found = search::search(model, steps);
    let best = outcome.plans.first().map_or(Score::WORST, |best| best.score);
    match found {
        Some(found) if found.score < best => {
            let mut plans = vec![found];
            plans.extend(outcome.plans);
            plans.truncate(settings.alternatives + 1);
            Outcome { plans, ..outcome }
        }
        Some(_) | None => outcome,
    }
}

/// With a bound on the number of places, which is the only term of the objective that varies.
fn with_bound(model: &Model<'_>, mut outcome: Outcome, nodes: u64) -> Outcome {
    if let Some(best) = outcome.plans.first() {
        outcome.bound = best.score;
        let term = model.objective.iter().position(|term| *term == Term::Nodes);
        if let Some(term) = term {
            outcome.bound.0[term] = nodes;
        }
        outcome.complete = outcome.bound == best.score;
    }
    outcome
}

fn answer(model: &Model<'_>, outcome: &Outcome) -> Answer {
    let mut answer = Answer { name: model.problem.name.clone(), ..Answer::default() };
    let objective = |found: &Found| Objective::from_score(&model.objective, &found.score);
    answer.status = match outcome.plans.first() {
        Some(best) if outcome.complete || best.score == outcome.bound => Status::Optimal,
        Some(_) => Status::Feasible,
        None if outcome.complete => Status::Infeasible,
        None => Status::Unknown,
    };
    if let Some(best) = outcome.plans.first() {
        answer.objective = Some(objective(best));
        answer.bound = Some(Objective::from_score(&model.objective, &outcome.bound));
        answer.plan = render::plan(model, best);
    }
    for found in outcome.plans.iter().skip(1) {
        answer
            .alternatives
            .push(Alternative { objective: objective(found), plan: render::plan(model, found) });
    }
    answer
}
