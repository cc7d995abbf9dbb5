//! Where to cut units from: the two ways the brokers' mappers know.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::broker::Source;
use crate::calendar::Calendar;
use crate::message::{Item, Request};
use crate::property::Properties;
use crate::refusal::Refusal;
use crate::ticket::link::AccountId;
use crate::time::{Term, Time};

/// The most starts that are tried for one request.
const MAX_STARTS: usize = 4096;

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
}

/// The parts of one item: accounts with the units cut from each.
pub type Parts = Vec<(AccountId, u32)>;

impl<'a> Draft<'a> {
    /// A draft in which nothing is taken yet. The sources come by site name.
    pub fn new(sources: Vec<Source<'a>>) -> Self {
        Self { sources }
    }

    /// Meets a request as early as it allows and books it in the draft, or says why not. The draft is
    /// left as it was then.
    pub fn meet(
        &mut self,
        request: &Request,
        placement: Placement,
        cut_from: impl Fn(&Item) -> Option<AccountId>,
    ) -> Result<(Term, Vec<Parts>), Refusal> {
        for item in &request.items {
            self.ever(item)?;
        }
        let (from, latest) = (request.earliest, request.latest);
        let Some(start) = self.earliest(request, from, latest, &cut_from) else {
            return Err(self.busy(request, &cut_from));
        };
        let term = Term::lasting(start, request.duration)
            .map_err(|empty| Refusal::Malformed(empty.to_string()))?;
        let before: Vec<Calendar> = self.sources.iter().map(|s| s.free.clone()).collect();
        let mut parts = Vec::new();
        for item in &request.items {
            match self.place(item, term, placement, cut_from(item)) {
                Some(found) => parts.push(found),
                None => {
                    let busy = self.busy(request, &cut_from);
                    for (source, free) in self.sources.iter_mut().zip(before) {
                        source.free = free;
                    }
                    return Err(busy);
                }
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

    /// The earliest start in the window at which the fewest units of every item are free.
    fn earliest(
        &self,
        request: &Request,
        from: Time,
        latest: Time,
        cut_from: &impl Fn(&Item) -> Option<AccountId>,
    ) -> Option<Time> {
        let mut start = from;
        for _ in 0..MAX_STARTS {
            let term = Term::lasting(start, request.duration).ok()?;
            let short =
                request.items.iter().map(|item| (item, cut_from(item))).find(|&(item, only)| {
                    self.free(item, only, term) < i64::from(item.least.get())
                });
            let Some((item, only)) = short else { return Some(start) };
            start = self.next_start(item, only, term)?;
            if start > latest {
                return None;
            }
        }
        None
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

    /// Takes the units of an item from the draft: all that are wanted or, of an elastic item, as many
    /// as there are; `None` if they are too few.
    fn place(
        &mut self,
        item: &Item,
        term: Term,
        placement: Placement,
        only: Option<AccountId>,
    ) -> Option<Parts> {
        let free: Vec<(usize, u32)> = (0..self.sources.len())
            .filter(|&index| suits(&self.sources[index], item, only))
            .map(|index| {
                let free = self.sources[index].free.free_over(term).max(0);
                (index, u32::try_from(free).unwrap_or(u32::MAX))
            })
            .collect();
        let available = free.iter().fold(0u32, |sum, &(_, units)| sum.saturating_add(units));
        let units = item.units.get().min(available);
        if units < item.least.get() {
            return None;
        }
        let taken = match placement {
            Placement::Even => self.even(&free, units),
            Placement::FirstFit => first_fit(&free, units),
        };
        let mut parts = Parts::new();
        for (index, units) in taken.into_iter().filter(|&(_, units)| units > 0) {
            let source = &mut self.sources[index];
            source.free.add(term, -i64::from(units));
            parts.push((source.account, units));
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

    fn busy(&self, request: &Request, cut_from: &impl Fn(&Item) -> Option<AccountId>) -> Refusal {
        let earliest = self.earliest(request, request.earliest, Time::MAX, cut_from);
        let term = Term::lasting(request.earliest, request.duration);
        let free_of = |item: &Item| {
            let free = term.map_or(0, |term| self.free(item, cut_from(item), term));
            u32::try_from(free).unwrap_or(u32::MAX)
        };
        let short = request.items.iter().find(|item| free_of(item) < item.least.get());
        let (resource, asked, free) = match short.or(request.items.first()) {
            Some(item) => (item.resource.clone(), item.units.get(), free_of(item)),
            None => return Refusal::Malformed("a request without items".to_owned()),
        };
        Refusal::Busy { resource, asked, free, earliest }
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
