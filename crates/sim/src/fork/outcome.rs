//! What became of requests, and where two branches differ.

#![allow(
    clippy::wildcard_enum_match_arm,
    reason = "most facts leave what has become of a request as it is"
)]

use std::collections::{BTreeMap, BTreeSet};

use tenure_core::model::identity::ActorId;
use tenure_core::model::name::Name;
use tenure_core::model::slice::LeaseId;
use tenure_core::model::time::{Span, Time};
use tenure_core::runtime::{Entry, Fact};
use tenure_core::service_manager::facts as sm;
use tenure_core::service_manager::machine::AfterLeave;
use tenure_core::ticket::Ticket;
use tenure_core::wire::part::Part;

use super::Past;

/// The names of sites.
pub(super) type Sites = BTreeMap<ActorId, Name>;

pub(super) fn sites(pasts: &[Past]) -> Sites {
    pasts.iter().map(|past| (past.id, past.name.clone())).collect()
}

/// What became of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Its number at its service manager, in the branch that it is of.
    pub number: u64,
    /// When it was made.
    pub asked: Time,
    /// The earliest start that it asked for.
    pub earliest: Time,
    /// For how long.
    pub duration: Span,
    /// How many units it asked for, in all its items.
    pub units: u64,
    /// Of which type; several are named one after another.
    pub resource: String,
    /// How it was answered.
    pub verdict: RequestVerdict,
    /// The leases that it became.
    pub leases: Vec<Lease>,
}

/// How a request was answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RequestVerdict {
    /// Nothing yet.
    Open,
    /// It was granted.
    Granted,
    /// It was refused: why, in a word.
    Refused(&'static str),
    /// Its service manager wants nothing of it any more.
    GivenUp,
}

/// One lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    /// The site.
    pub site: String,
    /// How many units.
    pub units: u32,
    /// When it began.
    pub start: Time,
    /// When all its units were in use for the first time.
    pub active: Option<Time>,
    /// When it ended, or would end.
    pub end: Time,
    /// How it ended.
    pub ended: Ended,
    /// Units that are awaited.
    awaited: usize,
    /// Where it would end by an extension that was granted and not yet taken.
    extension: Option<Time>,
    /// What is on its way back.
    going: Option<Part>,
}

/// How a lease ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// With its term.
    Term,
    /// It was given back before.
    GivenBack,
    /// The site closed it, or did not honour its ticket.
    BySite,
}

/// Which request of one branch is which of another.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Key {
    /// Made before the fork or by a user: by its number in the journals.
    Number(u64),
    /// Made by a mapper after the fork: by its time, and which it was of that instant.
    Made(Time, usize),
}

/// What became of every request of a branch, by service manager.
#[derive(Clone, Debug, Default)]
pub struct Requests {
    by_number: BTreeMap<(Name, u64), Outcome>,
    by_key: BTreeMap<(Name, Key), (Name, u64)>,
}

impl Requests {
    /// Applies a fact of an actor.
    pub(super) fn observe(&mut self, name: &Name, entry: &Entry, sites: &Sites) {
        let Fact::ServiceManager(fact) = &entry.fact else { return };
        let (at, of) = (entry.at, |number: u64| (name.clone(), number));
        match fact {
            sm::Fact::Asked(fact) => {
                let items = &fact.request.items;
                let resources: Vec<&str> =
                    items.iter().map(|item| item.resource.as_str()).collect();
                let outcome = Outcome {
                    number: fact.request.id.number,
                    asked: at,
                    earliest: fact.request.earliest,
                    duration: fact.request.duration,
                    units: items.iter().map(|item| u64::from(item.units.get())).sum(),
                    resource: resources.join(" "),
                    verdict: RequestVerdict::Open,
                    leases: Vec::new(),
                };
                self.by_number.insert(of(fact.request.id.number), outcome);
            }
            sm::Fact::Granted(fact) => {
                let Some(outcome) = self.by_number.get_mut(&of(fact.number)) else { return };
                outcome.verdict = RequestVerdict::Granted;
                let tickets = fact.tickets.iter();
                outcome.leases = tickets.map(|(_, ticket)| Lease::of(ticket, sites)).collect();
            }
            sm::Fact::AskRefused(fact) => {
                if let Some(outcome) = self.by_number.get_mut(&of(fact.number)) {
                    outcome.verdict = RequestVerdict::Refused(fact.refusal.word());
                }
            }
            sm::Fact::GaveUp(fact) => {
                if let Some(outcome) = self.by_number.get_mut(&of(fact.number)) {
                    outcome.verdict = RequestVerdict::GivenUp;
                }
            }
            _ => self.of_lease(name, at, fact),
        }
    }

    fn of_lease(&mut self, name: &Name, at: Time, fact: &sm::Fact) {
        match fact {
            sm::Fact::Leased(fact) => self.change(name, fact.lease, |lease| {
                lease.units = u32::try_from(fact.units.len()).unwrap_or(u32::MAX);
                lease.awaited = fact.units.len();
            }),
            sm::Fact::Joined(fact) => self.change(name, fact.lease, |lease| lease.joined(at)),
            sm::Fact::ExtensionGranted(fact) => self.change(name, fact.lease, |lease| {
                lease.extension = Some(fact.ticket.bottom().term.end());
            }),
            sm::Fact::Extended(fact) => self.change(name, fact.lease, |lease| {
                lease.end = lease.extension.take().unwrap_or(lease.end);
            }),
            sm::Fact::ReturnBegun(fact) => self.change(name, fact.lease, |lease| {
                lease.going = Some(fact.part.clone());
            }),
            sm::Fact::PartReturned(fact) => self.change(name, fact.lease, Lease::part_returned),
            sm::Fact::LeaveBegun(fact) if fact.then == AfterLeave::Close => {
                self.change(name, fact.lease, |lease| lease.over(at, Ended::GivenBack));
            }
            sm::Fact::CloseBegun(fact) => {
                self.change(name, fact.lease, |lease| lease.over(at, Ended::GivenBack));
            }
            sm::Fact::RedeemRefused(fact) => {
                self.change(name, fact.lease, |lease| lease.over(at, Ended::BySite));
            }
            sm::Fact::SiteClosed(fact) => {
                self.change(name, fact.lease, |lease| lease.over(at, Ended::BySite));
            }
            _ => {}
        }
    }

    fn change(&mut self, name: &Name, id: LeaseId, change: impl FnOnce(&mut Lease)) {
        let outcome = self.by_number.get_mut(&(name.clone(), id.number));
        if let Some(lease) = outcome.and_then(|o| o.leases.get_mut(usize::from(id.part))) {
            change(lease);
        }
    }

    /// Learns which request is which: `users` has the recorded numbers of those of users, and what was made
    /// up to `at` was made in every branch.
    pub(super) fn settle(&mut self, users: &BTreeMap<(Name, u64), u64>, at: Time) {
        let mut made: BTreeMap<(Name, Time), usize> = BTreeMap::new();
        for ((name, number), outcome) in &self.by_number {
            let this = (name.clone(), *number);
            let key = match users.get(&this) {
                Some(recorded) => Key::Number(*recorded),
                None if outcome.asked <= at => Key::Number(*number),
                None => {
                    let nth = made.entry((name.clone(), outcome.asked)).or_default();
                    *nth += 1;
                    Key::Made(outcome.asked, *nth)
                }
            };
            self.by_key.insert((name.clone(), key), this);
        }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.by_number.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.by_number.is_empty()
    }

    /// Each with its service manager.
    pub fn iter(&self) -> impl Iterator<Item = (&Name, &Outcome)> {
        self.by_number.iter().map(|((name, _), outcome)| (name, outcome))
    }

    /// What the mapper of a service manager made after the fork, in its order.
    fn made<'a>(&'a self, name: &'a Name) -> impl Iterator<Item = &'a Outcome> {
        let of = move |key: &&(Name, Key)| key.0 == *name && matches!(key.1, Key::Made(..));
        self.by_key.keys().filter(of).filter_map(|key| self.get(key))
    }

    fn get(&self, key: &(Name, Key)) -> Option<&Outcome> {
        self.by_number.get(self.by_key.get(key)?)
    }
}

impl Lease {
    fn of(ticket: &Ticket, sites: &Sites) -> Self {
        let link = ticket.bottom();
        let site = sites.get(&ticket.site());
        Self {
            site: site.map_or_else(|| ticket.site().to_string(), ToString::to_string),
            units: link.units.get(),
            start: link.term.start(),
            active: None,
            end: link.term.end(),
            ended: Ended::Term,
            awaited: 0,
            extension: None,
            going: None,
        }
    }

    fn joined(&mut self, at: Time) {
        self.awaited = self.awaited.saturating_sub(1);
        if self.awaited == 0 {
            self.active.get_or_insert(at);
        }
    }

    /// A part is its site's again.
    fn part_returned(&mut self) {
        match self.going.take() {
            Some(Part::Units(units)) => {
                let count = u32::try_from(units.len()).unwrap_or(u32::MAX);
                self.units = self.units.saturating_sub(count);
            }
            Some(Part::Quantity(quantity)) => {
                self.units = self.units.saturating_sub(quantity.get());
            }
            Some(Part::Until(until)) => self.end = self.end.min(until),
            Some(Part::Rights { .. }) | None => {}
        }
    }

    fn over(&mut self, at: Time, ended: Ended) {
        if self.ended == Ended::Term && at < self.end {
            (self.end, self.ended) = (at, ended);
        }
    }
}

impl Outcome {
    /// Whether a user would say that the two ended alike.
    fn is_like(&self, other: &Self) -> bool {
        let same = |(a, b): (&Lease, &Lease)| {
            (&a.site, a.units, a.start, a.active, a.end, a.ended)
                == (&b.site, b.units, b.start, b.active, b.end, b.ended)
        };
        self.units == other.units
            && self.duration == other.duration
            && self.verdict == other.verdict
            && self.leases.len() == other.leases.len()
            && self.leases.iter().zip(&other.leases).all(same)
    }
}

/// How many requests of `recorded` were met, and ended, alike in the other branch. Instants are left out: of
/// a live deployment they are never the same twice, and so what mappers made is compared in its order.
pub fn repeated(recorded: &Requests, other: &Requests) -> usize {
    let lease = |lease: &Lease| (lease.site.clone(), lease.units, lease.ended);
    let alike = |(a, b): &(&Outcome, &Outcome)| {
        a.verdict == b.verdict && a.leases.iter().map(lease).eq(b.leases.iter().map(lease))
    };
    let numbered = recorded.by_key.keys().filter(|key| matches!(key.1, Key::Number(_)));
    let numbered = numbered.filter_map(|key| recorded.get(key).zip(other.get(key)));
    let names: BTreeSet<&Name> = recorded.by_key.keys().map(|(name, _)| name).collect();
    let made = names.into_iter().flat_map(|name| recorded.made(name).zip(other.made(name)));
    numbered.chain(made).filter(alike).count()
}

/// A request that ended differently, or was made in one branch only.
#[derive(Clone, Copy, Debug)]
pub struct Difference<'a> {
    /// Whose it is.
    pub name: &'a Name,
    /// What became of it in the one branch.
    pub one: Option<&'a Outcome>,
    /// What became of it in the other.
    pub other: Option<&'a Outcome>,
}

/// The requests that ended differently, by the time at which they were made.
pub fn differences<'a>(one: &'a Requests, other: &'a Requests) -> Vec<Difference<'a>> {
    let mut found = Vec::new();
    for key in one.by_key.keys() {
        let (a, b) = (one.get(key), other.get(key));
        if !a.zip(b).is_some_and(|(a, b)| a.is_like(b)) {
            found.push(Difference { name: &key.0, one: a, other: b });
        }
    }
    for key in other.by_key.keys().filter(|key| !one.by_key.contains_key(key)) {
        found.push(Difference { name: &key.0, one: None, other: other.get(key) });
    }
    found.sort_by_key(|difference| {
        let outcome = difference.one.or(difference.other);
        (outcome.map(|o| o.asked), difference.name, outcome.map(|o| o.number))
    });
    found
}
