//! Why a problem has no plan, and which changed problems have one.

use std::collections::BTreeSet;

use crate::amount::Amount;
use crate::answer::{Offer, Why};
use crate::exact::{self, Search, Steps};
use crate::model::Model;
use crate::problem::{Part, Place, Problem};
use crate::render;

/// The most offers of an answer.
const OFFERS: usize = 3;
/// The steps of each problem that is tried.
const TRY: u64 = 20_000;

/// Finds parts and links that have no plan together, and what each part that fits nowhere fails at.
pub(crate) fn why(problem: &Problem, steps: &mut Steps<'_>) -> Why {
    let mut parts = vec![true; problem.part.len()];
    let mut links = vec![true; problem.link.len()];
    let mut irreducible = true;
    for index in 0..parts.len() {
        parts[index] = false;
        match has_plan(&reduced(problem, &parts, &links), steps) {
            Some(false) => {}
            known => {
                irreducible &= known.is_some();
                parts[index] = true;
            }
        }
    }
    for index in 0..links.len() {
        links[index] = false;
        match has_plan(&reduced(problem, &parts, &links), steps) {
            Some(false) => {}
            known => {
                irreducible &= known.is_some();
                links[index] = true;
            }
        }
    }
    let kept = reduced(problem, &parts, &links);
    Why {
        parts: kept.part.iter().map(|part| part.name.clone()).collect(),
        links: kept.link.iter().map(|link| link.title()).collect(),
        irreducible,
        reasons: kept.part.iter().filter_map(|part| reason(problem, part)).collect(),
    }
}

/// Whether a problem has a plan; none if the steps ran out before that was known.
fn has_plan(problem: &Problem, steps: &mut Steps<'_>) -> Option<bool> {
    plan(problem, steps).map(|found| found.is_some())
}

fn plan(problem: &Problem, steps: &mut Steps<'_>) -> Option<Option<crate::answer::Plan>> {
    // What was good before a part was left out is good after it.
    let model = Model::new(problem).ok()?;
    let mut budget = steps.part(TRY);
    let outcome = exact::search(&model, Search { keep: 1, any: true }, None, &mut budget);
    steps.spend(&budget);
    match outcome.plans.first() {
        Some(found) => Some(Some(render::plan(&model, found))),
        None if budget.ran_out() => None,
        None => Some(None),
    }
}

/// The problem with some of its parts and links only.
fn reduced(problem: &Problem, parts: &[bool], links: &[bool]) -> Problem {
    let mut reduced = problem.clone();
    let names: BTreeSet<&str> = problem
        .part
        .iter()
        .enumerate()
        .filter(|(index, _)| parts[*index])
        .map(|(_, part)| part.name.as_str())
        .collect();
    let known = |name: &String| {
        let entry = name.rsplit_once('/').map_or(name.as_str(), |(entry, _)| entry);
        names.contains(name.as_str()) || names.contains(entry)
    };
    reduced.part.retain(|part| names.contains(part.name.as_str()));
    let mut index = 0;
    reduced.link.retain(|link| {
        index += 1;
        links[index - 1] && link.ends.iter().all(known)
    });
    reduced.uses.retain(|uses| known(&uses.from) && known(&uses.to));
    for list in reduced.same_host.iter_mut().chain(&mut reduced.apart) {
        list.retain(known);
    }
    reduced
}

/// What a part that could go nowhere even alone fails at.
fn reason(problem: &Problem, part: &Part) -> Option<String> {
    let mut failures: Vec<(String, u32)> = Vec::new();
    let mut nearest: Option<(Amount, String)> = None;
    for place in &problem.place {
        let Failure { clause, lacks } = failure(problem, part, place)?;
        let places = place.count.unwrap_or(1);
        match failures.iter_mut().find(|(known, _)| *known == clause) {
            Some((_, count)) => *count += places,
            None => failures.push((clause, places)),
        }
        let nearer =
            |(lack, _): &(Amount, String)| nearest.as_ref().is_none_or(|(least, _)| lack < least);
        if let Some((lack, dimension)) = lacks.filter(nearer) {
            let text = format!("`{}` lacks {lack} of `{dimension}`", place.name);
            nearest = Some((lack, text));
        }
    }
    let all: u32 = problem.place.iter().map(|place| place.count.unwrap_or(1)).sum();
    let list: Vec<String> =
        failures.iter().map(|(clause, count)| format!("{count} by {clause}")).collect();
    let nearest = nearest.map_or(String::new(), |(_, text)| format!("; nearest: {text}"));
    Some(format!(
        "part `{}` fits none of {all} places: ruled out are {}{nearest}",
        part.name,
        list.join(", ")
    ))
}

/// The first clause that a place fails, and what it lacks if that is room.
struct Failure {
    clause: String,
    lacks: Option<(Amount, String)>,
}

fn failure(problem: &Problem, part: &Part, place: &Place) -> Option<Failure> {
    let clause = |clause: String| Some(Failure { clause, lacks: None });
    let holds = |condition: &&tenure_expr::Expr| condition.matches(&place.attributes) == Ok(true);
    if let Some(condition) = part.condition.as_ref().filter(|condition| !holds(condition)) {
        return clause(format!("where ({condition})"));
    }
    for software in &part.software {
        if !place.installed.iter().any(|package| software.is_met_by(package)) {
            return clause(format!("software ({software})"));
        }
    }
    let names = |name: &String| {
        *name == place.name || name.rsplit_once('/').is_some_and(|(entry, _)| entry == place.name)
    };
    if part.only.as_ref().is_some_and(|only| !only.iter().any(names)) {
        return clause("only".to_owned());
    }
    let installed = part.package.as_ref().filter(|package| place.installed.contains(package));
    match installed {
        Some(_) if part.reuse => return None,
        Some(package) => return clause(format!("one instance of {package}")),
        None => {}
    }
    let libraries = problem.library.iter().filter(|library| {
        part.depends.contains(&library.package) && !place.installed.contains(&library.package)
    });
    let libraries: Vec<_> = libraries.collect();
    for (dimension, amount) in &part.needs {
        let more = libraries
            .iter()
            .filter_map(|library| library.needs.get(dimension))
            .map(|amount| amount.value());
        let need = more.fold(amount.value(), u64::saturating_add);
        let free = place.capacity.get(dimension).map_or(0, |amount| amount.value());
        if need > free {
            return Some(Failure {
                clause: format!("needs.{dimension}"),
                lacks: Some((amount.with(need - free), dimension.clone())),
            });
        }
    }
    None
}

/// Changed problems that have a plan, each with it.
pub(crate) fn offers(problem: &Problem, why: &Why, steps: &mut Steps<'_>) -> Vec<Offer> {
    let mut offers = Vec::new();
    if !problem.link.is_empty() {
        offers.extend(scaled(problem, "the bandwidth of all links", steps, |problem, percent| {
            problem
                .link
                .iter_mut()
                .for_each(|link| link.bandwidth = link.bandwidth.percent(percent));
        }));
    }
    let mut dimensions: BTreeSet<&String> = BTreeSet::new();
    for part in problem.part.iter().filter(|part| why.parts.contains(&part.name)) {
        dimensions.extend(part.needs.keys());
    }
    for dimension in dimensions {
        let what = format!("what all parts need of `{dimension}`");
        offers.extend(scaled(problem, &what, steps, |problem, percent| {
            for amount in problem.part.iter_mut().filter_map(|part| part.needs.get_mut(dimension)) {
                *amount = amount.percent(percent);
            }
        }));
    }
    for name in &why.parts {
        if offers.len() >= OFFERS {
            break;
        }
        offers.extend(without_clause(problem, name, steps));
    }
    offers.truncate(OFFERS);
    offers
}

/// The most that can be kept of some amounts, in percent.
fn scaled(
    problem: &Problem,
    what: &str,
    steps: &mut Steps<'_>,
    scale: impl Fn(&mut Problem, u64),
) -> Option<Offer> {
    // Whoever fits with more fits with less.
    let (mut works, mut fails) = (0, 100);
    let mut best = None;
    while fails - works > 1 {
        let percent = u64::midpoint(works, fails);
        let mut changed = problem.clone();
        scale(&mut changed, percent);
        match plan(&changed, steps) {
            Some(Some(plan)) => {
                works = percent;
                best = Some(plan);
            }
            Some(None) | None => fails = percent,
        }
    }
    best.map(|plan| Offer { change: format!("{works} % of {what}"), plan })
}

/// The problem with one condition of a part less.
fn without_clause(problem: &Problem, name: &str, steps: &mut Steps<'_>) -> Option<Offer> {
    type Clause = (&'static str, fn(&Part) -> bool, fn(&mut Part));
    let clauses: [Clause; 3] = [
        ("where", |part| part.condition.is_some(), |part| part.condition = None),
        ("software", |part| !part.software.is_empty(), |part| part.software.clear()),
        ("only", |part| part.only.is_some(), |part| part.only = None),
    ];
    for (key, is_there, remove) in clauses {
        let mut changed = problem.clone();
        let part = changed.part.iter_mut().find(|part| part.name == *name && is_there(part));
        let Some(part) = part else { continue };
        remove(part);
        if let Some(Some(plan)) = plan(&changed, steps) {
            return Some(Offer { change: format!("part `{name}` without `{key}`"), plan });
        }
    }
    None
}
