//! Where to cut units from: the two ways the brokers' mappers know.

use std::collections::BTreeMap;
use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::broker::{Source, View};
use crate::calendar::Calendar;
use crate::message::{Item, Request};
use crate::name::Name;
use crate::property::Properties;
use crate::refusal::Refusal;
use crate::ticket::link::AccountId;
use crate::time::{Span, Term, Time};

/// The most starts that are looked at closely for one request, beside those that are skipped because
/// all sources together have too little.
const MAX_STARTS: usize = 4096;

/// The most that are looked at closely to tell who is refused when to come again.
const MAX_HINTS: usize = 64;

/// How units are spread over sites.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Placement {
    /// Unit by unit from the site that has most free over the whole term; ties by name (S70).
    #[default]
    Even,
    /// As many as possible from the first site by name, then the next.
    FirstFit,
}

/// The sources with what a round has taken from them so far.
#[derive(Clone, Debug)]
pub struct Draft<'a> {
    sources: Vec<Source<'a>>,
    /// What all sources of a type have free together.
    totals: BTreeMap<Name, Calendar>,
}

/// What is looked for: the items of a request, each with the only source that will do, if one.
struct Wish<'a> {
    duration: Span,
    items: Vec<(&'a Item, Option<AccountId>)>,
    placement: Placement,
}

/// The parts of one item: accounts with the units cut from each.
pub type Parts = Vec<(AccountId, u32)>;

impl<'a> Draft<'a> {
    /// A draft in which nothing is taken yet.
    pub fn new(view: &View<'a>) -> Self {
        Self { sources: view.sources(), totals: view.totals().clone() }
    }

    /// Meets a request as early as it allows and books it in the draft, or says why not. The draft is
    /// left as it was then. `from` is the earliest start to consider.
    pub fn meet(
        &mut self,
        request: &Request,
        from: Time,
        placement: Placement,
        cut_from: impl Fn(&Item) -> Option<AccountId>,
    ) -> Result<(Term, Vec<Parts>), Refusal> {
        for item in &request.items {
            self.ever(item)?;
        }
        let wish = Wish {
            duration: request.duration,
            items: request.items.iter().map(|item| (item, cut_from(item))).collect(),
            placement,
        };
        let met = self.earliest(&wish, from, request.latest, MAX_STARTS);
        let Some((term, parts)) = met else { return Err(self.busy(&wish, from)) };
        for (item, parts) in request.items.iter().zip(&parts) {
            for &(account, units) in parts {
                self.book(&item.resource, account, term, units);
            }
        }
        Ok((term, parts))
    }

    /// Whether an item could be met if nothing else were booked.
    fn ever(&self, item: &Item) -> Result<(), Refusal> {
        let resource = item.resource.clone();
        let of_type: Vec<_> =
            self.sources.iter().filter(|source| *source.resource == resource).collect();
        if of_type.is_empty() {
            let mut known: Vec<_> = self.sources.iter().map(|s| s.resource.clone()).collect();
            known.sort();
            known.dedup();
            return Err(Refusal::NoSuchType { resource, known });
        }
        let broken = |source: &&Source<'_>| {
            item.requirements.first_broken(source.attributes, &Properties::default())
        };
        let (matching, failing): (Vec<_>, Vec<_>) =
            of_type.into_iter().partition(|source| broken(source).is_none());
        if matching.is_empty() {
            let requirement = failing.first().and_then(broken).cloned();
            return Err(match requirement {
                Some(requirement) => Refusal::NoMatch { resource, requirement },
                None => Refusal::NoSuchType { resource, known: Vec::new() },
            });
        }
        let most = matching.iter().fold(0, |sum: u32, source| sum.saturating_add(source.units));
        if item.least.get() > most {
            return Err(Refusal::TooMany { resource, asked: item.least.get(), most });
        }
        Ok(())
    }

    /// The earliest term in the window over which all items can be met together, and how. `tries` bounds
    /// the starts that are looked at closely.
    fn earliest(
        &self,
        wish: &Wish<'_>,
        from: Time,
        latest: Time,
        tries: usize,
    ) -> Option<(Term, Vec<Parts>)> {
        let mut start = from;
        for _ in 0..tries {
            start = self.first_hope(wish, start, latest)?;
            let term = Term::lasting(start, wish.duration).ok()?;
            if let Some(parts) = self.place_all(wish, term) {
                return Some((term, parts));
            }
            let next =
                wish.items.iter().filter_map(|&(item, only)| self.next_start(item, only, term));
            start = next.min()?;
        }
        None
    }

    /// The first start from which each type has enough free on all sources together: before it, nothing
    /// has to be tried. Skips what is full in one step, however many bookings fill it.
    fn first_hope(&self, wish: &Wish<'_>, from: Time, latest: Time) -> Option<Time> {
        let mut needs: BTreeMap<&Name, i64> = BTreeMap::new();
        for (item, _) in &wish.items {
            *needs.entry(&item.resource).or_default() += i64::from(item.least.get());
        }
        let mut start = from;
        loop {
            let before = start;
            for (resource, &units) in &needs {
                start =
                    self.totals.get(*resource)?.earliest(units, wish.duration, start, latest)?;
            }
            if start == before {
                return Some(start);
            }
        }
    }

    /// The parts of every item over a term, if all of them can be met beside each other.
    fn place_all(&self, wish: &Wish<'_>, term: Term) -> Option<Vec<Parts>> {
        let mut taken = BTreeMap::new();
        wish.items
            .iter()
            .map(|&(item, only)| self.place(item, term, wish.placement, only, &mut taken))
            .collect()
    }

    fn book(&mut self, resource: &Name, account: AccountId, term: Term, units: u32) {
        let source = self.sources.iter_mut().find(|source| source.account == account);
        if let Some(source) = source {
            source.free.add(term, -i64::from(units));
        }
        if let Some(total) = self.totals.get_mut(resource) {
            total.add(term, -i64::from(units));
        }
    }

    /// What is free for an item over a whole term. A unit stays where it is, so each source counts with
    /// what it has free all the time.
    fn free(&self, item: &Item, only: Option<AccountId>, term: Term) -> i64 {
        let suiting = self.sources.iter().filter(|source| suits(source, item, only));
        suiting.map(|source| source.free.free_over(term).max(0)).sum()
    }

    /// The next start at which more may be free: until a source's lowest level has passed, no term has
    /// more from it.
    fn next_start(&self, item: &Item, only: Option<AccountId>, term: Term) -> Option<Time> {
        let suiting = self.sources.iter().filter(|source| suits(source, item, only));
        let after_lowest = suiting.filter_map(|source| {
            let more = source.free.free_over(term) + 1;
            let lowest = source.free.first_short(term, more)?;
            source.free.next_with(lowest, more)
        });
        after_lowest.min()
    }

    /// The parts of one item: all units that are wanted or, of an elastic item, as many as there are;
    /// `None` if they are too few. What other items of the wish have `taken` from a source is not there.
    fn place(
        &self,
        item: &Item,
        term: Term,
        placement: Placement,
        only: Option<AccountId>,
        taken: &mut BTreeMap<AccountId, u32>,
    ) -> Option<Parts> {
        let free: Vec<(usize, u32)> = (0..self.sources.len())
            .filter(|&index| suits(&self.sources[index], item, only))
            .map(|index| {
                let source = &self.sources[index];
                let taken = taken.get(&source.account).copied().map_or(0, i64::from);
                let free = (source.free.free_over(term) - taken).max(0);
                (index, u32::try_from(free).unwrap_or(u32::MAX))
            })
            .collect();
        let available = free.iter().fold(0u32, |sum, &(_, units)| sum.saturating_add(units));
        let units = item.units.get().min(available);
        if units < item.least.get() {
            return None;
        }
        let chosen = match placement {
            Placement::Even => self.even(&free, units),
            Placement::FirstFit => first_fit(&free, units),
        };
        let mut parts = Parts::new();
        for (index, units) in chosen.into_iter().filter(|&(_, units)| units > 0) {
            let account = self.sources[index].account;
            *taken.entry(account).or_default() += units;
            parts.push((account, units));
        }
        Some(parts)
    }

    /// Unit by unit from the site with most free; sources come by site name, so the first of equals is
    /// the first by name.
    fn even(&self, free: &[(usize, u32)], units: u32) -> Vec<(usize, u32)> {
        let mut taken: Vec<(usize, u32)> = free.iter().map(|&(index, _)| (index, 0)).collect();
        let mut sites: Vec<(u64, Range<usize>)> = Vec::new();
        for (at, &(index, units)) in free.iter().enumerate() {
            let site = self.sources[index].site;
            match sites.last_mut() {
                Some((total, range)) if self.sources[free[range.start].0].site == site => {
                    *total += u64::from(units);
                    range.end = at + 1;
                }
                _ => sites.push((u64::from(units), at..at + 1)),
            }
        }
        for _ in 0..units {
            let most = sites.iter_mut().rev().max_by_key(|(total, _)| *total);
            let Some((total, range)) = most.filter(|(total, _)| *total > 0) else { break };
            *total -= 1;
            if let Some(at) = range.clone().find(|&at| taken[at].1 < free[at].1) {
                taken[at].1 += 1;
            }
        }
        taken
    }

    /// The refusal of an item that could not be met over the earliest term even if nothing were sold:
    /// too few units are delegated for that long.
    fn beyond(&self, wish: &Wish<'_>, from: Time) -> Option<Refusal> {
        let end = from.plus(wish.duration);
        wish.items.iter().find_map(|&(item, only)| {
            let mut lasting: Vec<(Time, u32)> = self
                .sources
                .iter()
                .filter(|source| suits(source, item, only))
                .map(|source| (source.until, source.units))
                .collect();
            lasting.sort_by_key(|&(until, _)| std::cmp::Reverse(until));
            let mut units = 0;
            let enough = lasting.into_iter().find(|&(_, more)| {
                units += u64::from(more);
                units >= u64::from(item.least.get())
            });
            let (until, _) = enough.filter(|&(until, _)| until < end)?;
            Some(Refusal::Beyond { resource: item.resource.clone(), until, end })
        })
    }

    fn busy(&self, wish: &Wish<'_>, from: Time) -> Refusal {
        if let Some(beyond) = self.beyond(wish, from) {
            return beyond;
        }
        // An extension can begin at one instant alone.
        let movable = wish.items.iter().all(|(item, _)| item.extends.is_none());
        let met = movable.then(|| self.earliest(wish, from, Time::MAX, MAX_HINTS)).flatten();
        let earliest = met.map(|(term, _)| term.start());
        let term = Term::lasting(from, wish.duration);
        let free_of = |&(item, only): &(&Item, Option<AccountId>)| {
            let free = term.map_or(0, |term| self.free(item, only, term));
            u32::try_from(free).unwrap_or(u32::MAX)
        };
        let short = wish.items.iter().find(|wanted| free_of(wanted) < wanted.0.least.get());
        match short.or(wish.items.first()) {
            Some(wanted) => Refusal::Busy {
                resource: wanted.0.resource.clone(),
                asked: wanted.0.units.get(),
                free: free_of(wanted),
                earliest,
            },
            None => Refusal::Malformed("a request without items".to_owned()),
        }
    }
}

fn suits(source: &Source<'_>, item: &Item, only: Option<AccountId>) -> bool {
    *source.resource == item.resource
        && only.is_none_or(|account| source.account == account)
        && item.requirements.first_broken(source.attributes, &Properties::default()).is_none()
}

/// From each source all it has, in order, until there are enough.
fn first_fit(free: &[(usize, u32)], mut units: u32) -> Vec<(usize, u32)> {
    let mut taken = Vec::new();
    for &(index, has) in free {
        let take = has.min(units);
        taken.push((index, take));
        units -= take;
    }
    taken
}
