//! Checks a plan against its problem. Nothing of the solvers is used: conditions are evaluated again, and
//! sums are made from the names in the plan.

use std::collections::{BTreeMap, BTreeSet};

use thiserror::Error;

use crate::answer::{Objective, Plan};
use crate::error::BadProblem;
use crate::names::Names;
use crate::package::Package;
use crate::problem::{Link, Part, Place, Problem};
use crate::score::{Term, Values};

/// What is wrong with a plan.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{at}: {message}")]
pub struct Violation {
    /// Which part, place, edge or link.
    pub at: String,
    /// Which rule it breaks, and by how much.
    pub message: String,
}

/// Why a plan was not accepted.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum CheckError {
    /// The problem itself makes no sense.
    #[error(transparent)]
    Problem(#[from] BadProblem),
    /// The plan breaks rules.
    #[error("the plan breaks {} of the problem's rules; the first: {}", .0.len(), .0[0])]
    Plan(Vec<Violation>),
}

/// Checks a plan and says what it is worth by the problem's objective.
///
/// # Errors
/// If the problem is bad, or with all rules that the plan breaks.
pub fn check(problem: &Problem, plan: &Plan) -> Result<Objective, CheckError> {
    let places =
        Names::new("place", problem.place.iter().map(|place| (place.name.as_str(), place.count)))?;
    let items =
        Names::new("part", problem.part.iter().map(|part| (part.name.as_str(), part.count)))?;
    let mut check = Check { problem, places, items, host: Vec::new(), broken: Vec::new() };
    check.resolve(plan);
    let mut values = Values::default();
    if check.broken.is_empty() {
        check.conditions(plan, &mut values);
        check.relations(&mut values);
        check.contents(plan, &mut values);
        check.paths(plan, &mut values);
    }
    if check.broken.is_empty() {
        let terms = match problem.objective.as_slice() {
            [] => Term::default_objective(!problem.link.is_empty()),
            terms => terms,
        };
        return Ok(Objective::of(terms, &values));
    }
    Err(CheckError::Plan(check.broken))
}

struct Check<'p> {
    problem: &'p Problem,
    places: Names<'p>,
    items: Names<'p>,
    /// The place of each item.
    host: Vec<usize>,
    broken: Vec<Violation>,
}

/// What is put on a place.
#[derive(Default)]
struct Contents<'p> {
    taken: BTreeMap<&'p str, u64>,
    packages: Vec<&'p Package>,
    libraries: BTreeSet<&'p Package>,
    install: Vec<String>,
}

impl<'p> Check<'p> {
    fn breaks(&mut self, at: impl Into<String>, message: impl Into<String>) {
        self.broken.push(Violation { at: at.into(), message: message.into() });
    }

    /// Finds the place of each item.
    fn resolve(&mut self, plan: &Plan) {
        for name in plan.placement.keys() {
            if !self.problem.part.iter().any(|part| part.name == *name) {
                self.breaks(format!("part `{name}`"), "the problem has no such part");
            }
        }
        for (index, part) in self.problem.part.iter().enumerate() {
            let copies = self.items.copies(index).len();
            let none = Vec::new();
            let hosts = plan.placement.get(&part.name).unwrap_or(&none);
            if hosts.len() != copies {
                let message = format!("it has {} places and needs {copies}", hosts.len());
                self.breaks(format!("part `{}`", part.name), message);
            }
            for name in hosts {
                match self.places.resolve_one("", name) {
                    Ok(place) => self.host.push(place),
                    Err(error) => self.breaks(format!("part `{}`", part.name), error.message),
                }
            }
        }
    }

    fn place(&self, place: usize) -> &'p Place {
        let kind =
            (0..self.problem.place.len()).find(|kind| self.places.copies(*kind).contains(&place));
        &self.problem.place[kind.unwrap_or_default()]
    }

    fn part(&self, item: usize) -> &'p Part {
        let part =
            (0..self.problem.part.len()).find(|part| self.items.copies(*part).contains(&item));
        &self.problem.part[part.unwrap_or_default()]
    }

    /// Whether one of `names` means a place.
    fn names_place(&self, names: &[String], place: usize) -> bool {
        names.iter().filter_map(|name| self.places.find(name)).any(|copies| copies.contains(&place))
    }

    /// `where`, `software`, `only` and favourites.
    fn conditions(&mut self, plan: &Plan, values: &mut Values) {
        for item in 0..self.host.len() {
            let (part, host) = (self.part(item), self.host[item]);
            let (place, title) = (self.place(host), self.places.title(host));
            let at = format!("part `{}` on `{title}`", self.items.title(item));
            if let Some(condition) = &part.condition {
                let explanation = condition.explain(&place.attributes);
                if !explanation.holds() {
                    self.breaks(&at, format!("where does not hold: {explanation}"));
                }
            }
            for software in &part.software {
                if !place.installed.iter().any(|package| software.is_met_by(package)) {
                    self.breaks(&at, format!("`{software}` is not installed"));
                }
            }
            if part.only.as_ref().is_some_and(|only| !self.names_place(only, host)) {
                self.breaks(&at, "the place is not in the list `only`");
            }
            if !part.favourites.is_empty() && !self.names_place(&part.favourites, host) {
                values.add(Term::Favourites, 1);
            }
            for (dimension, amount) in &part.needs {
                let price = place.price.of(dimension).millionths();
                values.add(Term::Price, amount.value() * price);
            }
            let reuses = reuses(part, place);
            if reuses != plan.reused.contains(&self.items.title(item)) {
                let message = if reuses {
                    "it reuses an instance, which `reused` does not say"
                } else {
                    "there is no instance to reuse"
                };
                self.breaks(&at, message);
            }
        }
    }

    /// `same-host`, `apart` and `uses`.
    fn relations(&mut self, values: &mut Values) {
        let problem = self.problem;
        for (index, list) in problem.same_host.iter().enumerate() {
            let hosts: BTreeSet<usize> =
                self.members(list).iter().map(|item| self.host[*item]).collect();
            if hosts.len() > 1 {
                let names: Vec<String> =
                    hosts.iter().map(|host| self.places.title(*host)).collect();
                self.breaks(
                    format!("same-host[{index}]"),
                    format!("the parts are on {}", names.join(", ")),
                );
            }
        }
        for (index, list) in problem.apart.iter().enumerate() {
            let mut seen = BTreeSet::new();
            for item in self.members(list) {
                if !seen.insert(self.host[item]) {
                    let place = self.places.title(self.host[item]);
                    self.breaks(
                        format!("apart[{index}]"),
                        format!("two of the parts are on `{place}`"),
                    );
                }
            }
        }
        let mut spread = BTreeSet::new();
        for uses in &problem.uses {
            let (from, to) = (
                self.members(std::slice::from_ref(&uses.from)),
                self.members(std::slice::from_ref(&uses.to)),
            );
            spread.extend(from.iter().chain(&to).map(|item| self.host[*item]));
            for one in &from {
                let away = to.iter().filter(|other| self.host[*one] != self.host[**other]).count();
                values.add(Term::Uses, uses.weight * away as u64);
            }
        }
        values.set(Term::Spread, spread.len() as u64);
    }

    fn members(&self, names: &[String]) -> Vec<usize> {
        names.iter().filter_map(|name| self.items.find(name)).flatten().collect()
    }

    /// What is on each place: capacity, instances and installations.
    fn contents(&mut self, plan: &Plan, values: &mut Values) {
        let mut contents: BTreeMap<usize, Contents<'p>> = BTreeMap::new();
        for item in 0..self.host.len() {
            let (part, host) = (self.part(item), self.host[item]);
            let place = self.place(host);
            let content = contents.entry(host).or_default();
            if reuses(part, place) {
                continue;
            }
            values.add(Term::Installs, 1);
            content.take(&part.needs);
            if let Some(package) = &part.package {
                content.packages.push(package);
                content.install.push(package.to_string());
            }
            for package in &part.depends {
                content.depend(self.problem, place, package);
            }
        }
        values.set(Term::Nodes, contents.len() as u64);
        for (host, mut content) in contents {
            values.add(Term::Installs, content.libraries.len() as u64);
            content.install.extend(content.libraries.iter().map(ToString::to_string));
            content.install.sort();
            self.content(host, &content, plan);
        }
    }

    fn content(&mut self, host: usize, content: &Contents<'_>, plan: &Plan) {
        let (place, title) = (self.place(host), self.places.title(host));
        let at = format!("place `{title}`");
        for (dimension, taken) in &content.taken {
            let free = place.capacity.get(*dimension).map_or(0, |amount| amount.value());
            if *taken > free {
                self.breaks(
                    &at,
                    format!("{taken} of `{dimension}` are taken, and {free} are free"),
                );
            }
        }
        for (index, package) in content.packages.iter().enumerate() {
            if place.installed.contains(package) || content.packages[..index].contains(package) {
                self.breaks(&at, format!("there would be two instances of `{package}`"));
            }
        }
        let mut install = plan.install.get(&title).cloned().unwrap_or_default();
        install.sort();
        if install != content.install {
            let message = format!(
                "it is to install [{}], and the plan says [{}]",
                content.install.join(", "),
                install.join(", ")
            );
            self.breaks(&at, message);
        }
    }

    /// The path of each link, and what all take of each edge.
    fn paths(&mut self, plan: &Plan, values: &mut Values) {
        let problem = self.problem;
        let mut taken = vec![0_u64; problem.edge.len()];
        for link in &problem.link {
            let title = link.title();
            let none = Vec::new();
            let path = plan.paths.get(&title).unwrap_or(&none);
            if let Err(message) = self.path(link, path, &mut taken) {
                self.breaks(format!("link `{title}`"), message);
            }
        }
        for (edge, taken) in problem.edge.iter().zip(taken) {
            values.add(Term::Price, taken * edge.price.millionths());
            if taken > edge.capacity.value() {
                let message = format!("{taken} are taken, and {} are free", edge.capacity.value());
                self.breaks(format!("edge `{}`", edge.title()), message);
            }
        }
        for name in plan.paths.keys() {
            if !problem.link.iter().any(|link| link.title() == *name) {
                self.breaks(format!("link `{name}`"), "the problem has no such link");
            }
        }
    }

    fn path(&self, link: &Link, path: &[String], taken: &mut [u64]) -> Result<(), String> {
        let end = |name: &str| self.items.find(name).map(|copies| self.host[copies.start]);
        let [Some(mut at), Some(goal)] = [end(&link.ends[0]), end(&link.ends[1])] else {
            return Err("the problem has no such part".to_owned());
        };
        let mut latency = 0_u64;
        let mut visited = BTreeSet::from([at]);
        for name in path {
            let index = self.problem.edge.iter().position(|edge| edge.title() == *name);
            let index = index.ok_or_else(|| format!("the problem has no edge `{name}`"))?;
            let edge = &self.problem.edge[index];
            let ends =
                edge.ends.clone().map(|end| self.places.find(&end).map(|copies| copies.start));
            at = match ends {
                [Some(one), Some(other)] if one == at => other,
                [Some(one), Some(other)] if other == at => one,
                _ => {
                    return Err(format!(
                        "edge `{name}` does not begin at `{}`",
                        self.places.title(at)
                    ));
                }
            };
            if !visited.insert(at) {
                return Err(format!("the path comes back to `{}`", self.places.title(at)));
            }
            if let Some(condition) = &link.condition {
                let explanation = condition.explain(&edge.attributes);
                if !explanation.holds() {
                    return Err(format!("where does not hold on edge `{name}`: {explanation}"));
                }
            }
            latency += edge.latency.map_or(0, |latency| latency.value());
            taken[index] += link.bandwidth.value();
        }
        if at != goal {
            return Err(format!(
                "the path ends at `{}`, not at `{}`",
                self.places.title(at),
                self.places.title(goal)
            ));
        }
        if link.hops.is_some_and(|hops| path.len() > hops as usize) {
            return Err(format!("the path has {} edges", path.len()));
        }
        if link.latency.is_some_and(|limit| latency > limit.value()) {
            return Err(format!("the latency is {latency}"));
        }
        Ok(())
    }
}

fn reuses(part: &Part, place: &Place) -> bool {
    part.reuse && part.package.as_ref().is_some_and(|package| place.installed.contains(package))
}

impl<'p> Contents<'p> {
    fn take(&mut self, needs: &'p BTreeMap<String, crate::amount::Amount>) {
        for (dimension, amount) in needs {
            *self.taken.entry(dimension).or_default() += amount.value();
        }
    }

    /// Installs a library, and what it depends on, where it is not.
    fn depend(&mut self, problem: &'p Problem, place: &Place, package: &'p Package) {
        let Some(library) = problem.library.iter().find(|library| library.package == *package)
        else {
            return;
        };
        if !place.installed.contains(package) {
            if !self.libraries.insert(&library.package) {
                return;
            }
            self.take(&library.needs);
        }
        for package in &library.depends {
            self.depend(problem, place, package);
        }
    }
}
