//! The problem that a request is over a term, and what a plan for it takes.

use std::collections::{BTreeMap, BTreeSet};

use tenure_plan::Term as Objective;
use tenure_plan::{Amount, Edge, Link, Part, Place, Plan, Price, Problem, UnitPrice};

use super::{CoAllocate, Prefer};
use crate::broker::mapper::{Allocation, Source};
use crate::mapper::place::Parts;
use crate::model::name::Name;
use crate::model::price::price_of;
use crate::model::property::Properties;
use crate::model::resource::{Constraints, Expr, Value};
use crate::model::resource::{carries, ends, latency};
use crate::model::time::Term;
use crate::mutants::mutant;
use crate::wire::request::{Item, Request};

/// What a request could take, with what is left of it in the round.
pub(super) struct Network<'a> {
    pub(super) settings: &'a CoAllocate,
    pub(super) prefer: Prefer,
    pub(super) request: &'a Request,
    /// How many percent of what is free the request sees.
    pub(super) level: u8,
    /// Of the types of its items.
    pub(super) sources: Vec<Source>,
    /// All that connect places.
    pub(super) edges: Vec<Source>,
}

/// How much is counted as free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Free {
    /// What is left over the term.
    Left,
    /// All there is: what could be had if nothing were booked.
    All,
}

/// How much is asked for of what a request has a range of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Units {
    Most,
    Fewest,
}

impl Units {
    pub(super) fn of(self, item: &Item) -> u32 {
        match self {
            Self::Most => item.units.get(),
            Self::Fewest => item.min_units.get(),
        }
    }
}

impl Network<'_> {
    /// The problem of one choice of the request.
    pub(super) fn problem(&self, choice: u8, term: Term, free: Free, units: Units) -> Problem {
        let items = || {
            let numbered = self.request.items.iter().enumerate();
            numbered.filter(move |(_, item)| item.choice == choice)
        };
        let compute = || items().filter(|(_, item)| item.joins().is_none());
        let part = |(place, item): (usize, &Item)| Part {
            name: name(place),
            needs: BTreeMap::from([(
                item.resource.to_string(),
                Amount::number(u64::from(units.of(item))),
            )]),
            only: Some(self.sites_for(item, term, free, units)),
            ..Part::default()
        };
        let link = |(place, item): (usize, &Item)| {
            let joins = item.joins()?;
            Some(Link {
                name: Some(name(place)),
                ends: joins.ends.map(|end| name(usize::from(end))),
                bandwidth: Amount::number(u64::from(units.of(item))),
                latency: joins.latency.map(|most| micros(most.as_micros())),
                hops: joins.hops.or(self.settings.hops).map(u32::from),
                condition: Expr::parse(&format!("{} = true", name(place))).ok(),
            })
        };
        let grouped = |number: fn(&Item) -> Option<u8>| {
            let mut groups: BTreeMap<u8, Vec<String>> = BTreeMap::new();
            for (place, item) in compute() {
                if let Some(number) = number(item) {
                    groups.entry(number).or_default().push(name(place));
                }
            }
            groups.into_values().filter(|group| group.len() > 1).collect()
        };
        Problem {
            name: self.request.id.to_string(),
            objective: vec![Objective::Price],
            place: self.places(term, free),
            part: compute().map(part).collect(),
            same_host: grouped(|item| item.together),
            apart: grouped(Item::apart),
            edge: self.edges(term, free),
            link: items().filter_map(link).collect(),
            ..Problem::default()
        }
    }

    /// The sites that suit an item: not those that have enough units, but too few of those that it can have.
    fn sites_for(&self, item: &Item, term: Term, free: Free, units: Units) -> Vec<String> {
        let mut left: BTreeMap<&Name, u64> = BTreeMap::new();
        for source in self.suiting(item) {
            *left.entry(&source.site_name).or_default() += self.free(source, item, term, free);
        }
        let wanted = u64::from(units.of(item));
        let others = |site: &Name| {
            let its = self.sources.iter().filter(|source| source.resource == item.resource);
            let its = its.filter(|source| source.site_name == *site);
            its.map(|source| self.free(source, item, term, free)).sum::<u64>()
        };
        let suits = |(site, left): &(&Name, u64)| *left >= wanted || others(site) < wanted;
        left.into_iter().filter(suits).map(|(site, _)| site.to_string()).collect()
    }

    /// The sources that an item can be cut from.
    fn suiting<'s>(&'s self, item: &'s Item) -> impl Iterator<Item = &'s Source> {
        self.sources.iter().filter(move |source| {
            source.resource == item.resource
                && item.may_have(&source.attributes)
                && self.allows(&item.requirements, source)
        })
    }

    fn allows(&self, requirements: &Constraints, source: &Source) -> bool {
        let meets = requirements.first_broken(&source.attributes, &Properties::default()).is_none();
        meets && !self.request.provisos.not_at.contains(&source.site)
    }

    fn free(&self, source: &Source, item: &Item, term: Term, free: Free) -> u64 {
        match item.term(term) {
            Some(term) => self.free_over(source, term, free),
            None => 0,
        }
    }

    fn free_over(&self, source: &Source, term: Term, free: Free) -> u64 {
        let left = match free {
            Free::Left => u64::try_from(source.free.free_over(term)).unwrap_or(0),
            Free::All => u64::from(source.units),
        };
        left * u64::from(self.level) / 100
    }

    fn places(&self, term: Term, free: Free) -> Vec<Place> {
        let mut places: BTreeMap<&str, Place> = BTreeMap::new();
        let named = |name: &str| Place { name: name.to_owned(), ..Place::default() };
        for edge in &self.edges {
            for end in ends(&edge.attributes).into_iter().flatten() {
                places.entry(end).or_insert_with(|| named(end));
            }
        }
        for source in &self.sources {
            let site = source.site_name.as_str();
            let place = places.entry(site).or_insert_with(|| named(site));
            let dimension = source.resource.to_string();
            let room = place.capacity.get(&dimension).map_or(0, |amount| amount.value());
            let room = room + self.free_over(source, term, free);
            place.capacity.insert(dimension.clone(), Amount::number(room));
            let mut prices = match std::mem::take(&mut place.price) {
                UnitPrice::Each(prices) => prices,
                UnitPrice::Same(_) => BTreeMap::new(),
            };
            let price = self.price(source, term);
            prices.entry(dimension).and_modify(|least| *least = price.min(*least)).or_insert(price);
            place.price = UnitPrice::Each(prices);
        }
        places.into_values().collect()
    }

    fn edges(&self, term: Term, free: Free) -> Vec<Edge> {
        let edge = |(place, source): (usize, &Source)| {
            let [one, other] = ends(&source.attributes)?;
            let mut attributes = tenure_plan::Properties::default();
            for (place, item) in self.request.items.iter().enumerate() {
                let open = item.joins().is_some()
                    && carries(&source.attributes, &source.resource, &item.resource)
                    && item.may_have(&source.attributes)
                    && self.allows(&item.requirements, source);
                attributes.insert(name(place), Value::Flag(open));
            }
            let free = if mutant!(EdgeSoldTwice) { Free::All } else { free };
            Some(Edge {
                name: Some(edge_name(place)),
                ends: [one.to_owned(), other.to_owned()],
                capacity: Amount::number(self.free_over(source, term, free)),
                latency: Some(micros(latency(&source.attributes).as_micros())),
                price: self.price(source, term),
                attributes,
            })
        };
        self.edges.iter().enumerate().filter_map(edge).collect()
    }

    /// What a unit counts as: what it costs, or what it is worth less than the best; and more where little is left.
    fn price(&self, source: &Source, term: Term) -> Price {
        let base = match self.prefer {
            Prefer::Earliest | Prefer::Cheapest => price_of(&source.attributes).unwrap_or(0),
            Prefer::Best => {
                let most = self.settings.weights.values().max().copied().unwrap_or(0);
                most - self.worth(source)
            }
        };
        let (all, left) = (u64::from(source.units), self.free_over(source, term, Free::Left));
        let booked = all.saturating_sub(left);
        let dearer = (u64::from(self.settings.balance) * booked * MILLION).checked_div(all);
        Price::from_millionths(u64::from(base) * MILLION + dearer.unwrap_or(0))
    }

    /// The greatest weight whose condition a source meets.
    fn worth(&self, source: &Source) -> u32 {
        let holds = |expr: &Expr| {
            let all: Constraints = [expr.clone()].into_iter().collect();
            all.first_broken(&source.attributes, &Properties::default()).is_none()
        };
        let weights = self.settings.weights.iter().filter(|(expr, _)| holds(expr));
        weights.map(|(_, weight)| *weight).max().unwrap_or(0)
    }

    /// What a plan takes; `None` if the units at a site that suit several items are too few for all of them.
    pub(super) fn allocation(
        &self,
        choice: u8,
        term: Term,
        units: Units,
        plan: &Plan,
    ) -> Option<Allocation> {
        let mut taken: BTreeMap<_, u64> = BTreeMap::new();
        let mut parts = vec![Parts::new(); self.request.items.len()];
        for (place, item) in self.request.items.iter().enumerate() {
            if item.choice != choice {
                continue;
            }
            if item.joins().is_some() {
                for edge in plan.paths.get(&name(place)).into_iter().flatten() {
                    let edge = edge.strip_prefix(EDGE)?.parse().ok();
                    let source = edge.and_then(|place: usize| self.edges.get(place))?;
                    parts[place].push((source.account, units.of(item)));
                }
                continue;
            }
            let site = plan.placement.get(&name(place))?.first()?;
            let mut open = u64::from(units.of(item));
            for source in self.suiting(item).filter(|source| source.site_name.as_str() == site) {
                let used = taken.entry(source.account).or_default();
                let left = self.free(source, item, term, Free::Left).saturating_sub(*used);
                let cut = left.min(open);
                if cut > 0 {
                    (*used, open) = (*used + cut, open - cut);
                    parts[place].push((source.account, u32::try_from(cut).ok()?));
                }
            }
            if open > 0 {
                return None;
            }
        }
        Some(Allocation { term, parts })
    }

    /// The sources of an allocation with the units that it takes of each.
    pub(super) fn cut<'s>(
        &'s self,
        allocation: &'s Allocation,
    ) -> impl Iterator<Item = (&'s Source, u32)> {
        let all = || self.sources.iter().chain(&self.edges);
        let cut = allocation.parts.iter().flatten();
        cut.filter_map(move |&(account, units)| {
            Some((all().find(|source| source.account == account)?, units))
        })
    }

    /// The most of `resource` that an item could have at one site, or on one edge.
    pub(super) fn widest(&self, item: &Item, term: Term) -> u32 {
        let most = match item.joins() {
            None => {
                let sites: BTreeSet<&Name> =
                    self.suiting(item).map(|source| &source.site_name).collect();
                let of_site = |site: &Name| {
                    let its = self.suiting(item).filter(|source| source.site_name == *site);
                    its.map(|source| self.free(source, item, term, Free::Left)).sum::<u64>()
                };
                sites.into_iter().map(of_site).max()
            }
            Some(_) => {
                let carrying = self.edges.iter().filter(|edge| {
                    carries(&edge.attributes, &edge.resource, &item.resource)
                        && self.allows(&item.requirements, edge)
                });
                carrying.map(|edge| self.free(edge, item, term, Free::Left)).max()
            }
        };
        u32::try_from(most.unwrap_or(0)).unwrap_or(u32::MAX)
    }
}

const MILLION: u64 = 1_000_000;

/// How the names of edges begin.
const EDGE: &str = "e";

fn name(place: usize) -> String {
    format!("item{place}")
}

fn edge_name(place: usize) -> String {
    format!("{EDGE}{place}")
}

fn micros(micros: i64) -> Amount {
    Amount::number(u64::try_from(micros).unwrap_or(0))
}
