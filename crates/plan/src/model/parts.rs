//! Where parts may go, and what they bring with them.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Index;

use tenure_expr::Expr;

use crate::bits::Bits;
use crate::error::BadProblem;
use crate::names::Names;
use crate::package::Package;
use crate::problem::{Part, Problem};

use super::build::{Dimensions, as_u32};
use super::{LibraryRules, PartRules};

/// The libraries of a problem, with all that each needs in turn.
pub(super) struct Libraries<'p> {
    pub(super) rules: Vec<LibraryRules>,
    index: BTreeMap<&'p Package, usize>,
    closure: Vec<BTreeSet<usize>>,
}

impl<'p> Libraries<'p> {
    pub(super) fn of(
        problem: &'p Problem,
        dimensions: &Dimensions<'_>,
    ) -> Result<Self, BadProblem> {
        let mut index = BTreeMap::new();
        let mut rules = Vec::new();
        for (number, library) in problem.library.iter().enumerate() {
            if index.insert(&library.package, number).is_some() {
                let at = format!("library `{}`", library.package);
                return Err(BadProblem::new(at, "there are two libraries of this package"));
            }
            let mut installed = Bits::none(problem.place.len());
            for (kind, place) in problem.place.iter().enumerate() {
                if place.installed.contains(&library.package) {
                    installed.insert(kind);
                }
            }
            rules.push(LibraryRules { needs: dimensions.row(&library.needs), installed });
        }
        let mut libraries = Self { rules, index, closure: Vec::new() };
        for number in 0..problem.library.len() {
            let mut closure = BTreeSet::new();
            libraries.close(problem, number, &mut Vec::new(), &mut closure)?;
            libraries.closure.push(closure);
        }
        Ok(libraries)
    }

    /// Collects a library and what it depends on. `path` is how it was reached.
    fn close(
        &self,
        problem: &Problem,
        number: usize,
        path: &mut Vec<usize>,
        closure: &mut BTreeSet<usize>,
    ) -> Result<(), BadProblem> {
        let title = |number: usize| problem.library[number].package.to_string();
        if let Some(start) = path.iter().position(|on_path| *on_path == number) {
            let cycle: Vec<String> =
                path[start..].iter().chain([&number]).map(|number| title(*number)).collect();
            let message = format!("they depend on each other: {}", cycle.join(" -> "));
            return Err(BadProblem::new(format!("library `{}`, depends", title(number)), message));
        }
        if !closure.insert(number) {
            return Ok(());
        }
        path.push(number);
        for package in &problem.library[number].depends {
            let at = || format!("library `{}`, depends", title(number));
            self.close(problem, self.find(at, package)?, path, closure)?;
        }
        path.pop();
        Ok(())
    }

    fn find(&self, at: impl Fn() -> String, package: &Package) -> Result<usize, BadProblem> {
        self.index.get(package).copied().ok_or_else(|| {
            BadProblem::new(
                at(),
                format!("no library has the package `{package}`; add a [[library]]"),
            )
        })
    }

    fn needed_by(&self, part: &Part) -> Result<Vec<u32>, BadProblem> {
        let mut needed = BTreeSet::new();
        for package in &part.depends {
            let at = || format!("part `{}`, depends", part.name);
            needed.extend(&self.closure[self.find(at, package)?]);
        }
        Ok(needed.into_iter().map(as_u32).collect())
    }
}

/// The rules of each part, kept once for all that have none.
#[derive(Clone, Debug)]
pub(crate) struct Rules {
    of: Vec<u32>,
    kinds: Vec<PartRules>,
}

impl Rules {
    fn for_parts(count: usize) -> Self {
        Self { of: Vec::with_capacity(count), kinds: vec![PartRules::default()] }
    }

    fn push(&mut self, rules: PartRules) {
        if rules == PartRules::default() {
            self.of.push(0);
        } else {
            self.of.push(as_u32(self.kinds.len()));
            self.kinds.push(rules);
        }
    }

    fn change(&mut self, part: usize) -> &mut PartRules {
        if self.of[part] == 0 {
            self.of[part] = as_u32(self.kinds.len());
            self.kinds.push(PartRules::default());
        }
        &mut self.kinds[self.of[part] as usize]
    }

    /// Whether no part has any.
    pub(crate) fn is_empty(&self) -> bool {
        self.kinds.len() == 1
    }

    /// All rules that parts have, and those that none may have.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &PartRules> {
        self.kinds.iter()
    }
}

impl Index<usize> for Rules {
    type Output = PartRules;

    fn index(&self, part: usize) -> &PartRules {
        &self.kinds[self.of[part] as usize]
    }
}

/// The rules of all parts, and how many packages have several items.
pub(super) fn rules(
    problem: &Problem,
    places: &Names<'_>,
    items: &Names<'_>,
    libraries: &Libraries<'_>,
) -> Result<(Rules, usize), BadProblem> {
    let mut conditions = Conditions::default();
    let shared = shared_packages(problem);
    let mut rules = Rules::for_parts(problem.part.len());
    for part in &problem.part {
        rules.push(PartRules {
            eligible: eligible(problem, part, places, &mut conditions)?,
            reused: reused(problem, part),
            favourites: favourites(part, places)?,
            libraries: libraries.needed_by(part)?,
            shared_package: part.package.as_ref().and_then(|package| shared.get(package).copied()),
            bound: false,
        });
    }
    for (index, uses) in problem.uses.iter().enumerate() {
        for (key, name) in [("from", &uses.from), ("to", &uses.to)] {
            let item = items.resolve(&format!("uses[{index}].{key}"), name)?.start;
            let part = (0..problem.part.len()).find(|part| items.copies(*part).contains(&item));
            part.into_iter().for_each(|part| rules.change(part).bound = true);
        }
    }
    Ok((rules, shared.len()))
}

/// The packages of several items, numbered.
fn shared_packages(problem: &Problem) -> BTreeMap<&Package, u32> {
    let mut counts: BTreeMap<&Package, u32> = BTreeMap::new();
    for part in &problem.part {
        if let Some(package) = &part.package {
            *counts.entry(package).or_default() += part.count.unwrap_or(1);
        }
    }
    counts.retain(|_, count| *count > 1);
    counts.into_keys().zip(0..).collect()
}

/// The places that a part may go to: `where`, `software`, `only`, and no second instance of its package.
fn eligible<'p>(
    problem: &'p Problem,
    part: &'p Part,
    places: &Names<'_>,
    conditions: &mut Conditions<'p>,
) -> Result<Option<Bits>, BadProblem> {
    let only = part.only.as_deref().map(|names| listed(part, "only", names, places)).transpose()?;
    let package = part.package.as_ref().filter(|_| !part.reuse);
    let anywhere = part.condition.is_none() && part.software.is_empty() && package.is_none();
    if anywhere {
        return Ok(only);
    }
    let holds = match &part.condition {
        Some(condition) => Some(conditions.of(problem, part, condition)?),
        None => None,
    };
    let mut eligible = only.unwrap_or_else(|| Bits::all(places.len()));
    for (kind, place) in problem.place.iter().enumerate() {
        let has = |software: &crate::package::Software| {
            place.installed.iter().any(|package| software.is_met_by(package))
        };
        let fits = holds.is_none_or(|kinds| kinds.contains(kind))
            && part.software.iter().all(has)
            && package.is_none_or(|package| !place.installed.contains(package));
        if !fits {
            places.copies(kind).for_each(|copy| eligible.remove(copy));
        }
    }
    Ok(Some(eligible))
}

fn reused(problem: &Problem, part: &Part) -> Option<Bits> {
    let package = part.package.as_ref().filter(|_| part.reuse)?;
    let mut kinds = Bits::none(problem.place.len());
    for (kind, place) in problem.place.iter().enumerate() {
        if place.installed.contains(package) {
            kinds.insert(kind);
        }
    }
    (!kinds.is_empty()).then_some(kinds)
}

fn favourites(part: &Part, places: &Names<'_>) -> Result<Option<Bits>, BadProblem> {
    if part.favourites.is_empty() {
        return Ok(None);
    }
    listed(part, "favourites", &part.favourites, places).map(Some)
}

fn listed(
    part: &Part,
    key: &str,
    names: &[String],
    places: &Names<'_>,
) -> Result<Bits, BadProblem> {
    let mut listed = Bits::none(places.len());
    for name in names {
        let at = format!("part `{}`, {key}", part.name);
        places.resolve(&at, name)?.for_each(|place| listed.insert(place));
    }
    Ok(listed)
}

/// Where each condition of the problem holds, found once.
#[derive(Default)]
struct Conditions<'p>(BTreeMap<&'p Expr, Bits>);

impl<'p> Conditions<'p> {
    fn of(
        &mut self,
        problem: &Problem,
        part: &Part,
        condition: &'p Expr,
    ) -> Result<&Bits, BadProblem> {
        if !self.0.contains_key(condition) {
            let mut kinds = Bits::none(problem.place.len());
            for (kind, place) in problem.place.iter().enumerate() {
                let holds = condition.matches(&place.attributes).map_err(|error| {
                    BadProblem::new(
                        format!("part `{}`, where", part.name),
                        format!("on place `{}`: {error}", place.name),
                    )
                })?;
                if holds {
                    kinds.insert(kind);
                }
            }
            self.0.insert(condition, kinds);
        }
        Ok(&self.0[condition])
    }
}
