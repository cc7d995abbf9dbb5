//! Adverts: what a broker tells those that pass requests on to it, and what it was told itself.
//!
//! All of it is volatile, and the broker decides nothing by it: its mapper sees whom it may ask, what they have said,
//! and who is silent.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::actor::periodic::Periodic;
use crate::actor::{Role, dropped};
use crate::broker::availability::Disclosure;
use crate::broker::forwarding::Neighbour;
use crate::broker::{Broker, Output};
use crate::model::codec::{self, Hash};
use crate::model::identity::ActorId;
use crate::model::name::Name;
use crate::model::resource::Attributes;
use crate::model::time::{Span, Time};
use crate::wire::advert::{Advert, AdvertEntry, Entries, FURTHEST, MAX_BYTES, MAX_ENTRIES, digest};
use crate::wire::message::{Header, Message};
use crate::wire::request::Item;

/// Who was not heard for so many periods is silent.
const MISSED: i64 = 3;

/// Who was silent for so long is forgotten.
const FORGOTTEN: Span = Span::DAY;

/// What is told anew is told once in so many periods.
const APART: i64 = 2;

/// What a broker has heard of others, and what it has told them.
#[derive(Clone, Debug, Default)]
pub(in crate::broker) struct Adverts {
    period: Option<Span>,
    due: Periodic,
    heard: BTreeMap<ActorId, ReceivedAdvert>,
    told: BTreeMap<ActorId, SentAdvert>,
}

impl PartialEq for Adverts {
    /// It is in no journal: two brokers that have the same facts are the same, whatever they were told.
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

/// The last advert of a broker.
#[derive(Clone, Debug)]
struct ReceivedAdvert {
    /// When it was sent, by the other's clock, and when it came.
    sent: Time,
    at: Time,
    until: Time,
    entries: Option<(Hash, Arc<Vec<AdvertEntry>>)>,
}

impl ReceivedAdvert {
    /// Whether it was sent later than another one. What was asked for may come in the same instant.
    fn is_newer(&self, sent: Time) -> bool {
        sent < self.sent || (sent == self.sent && self.entries.is_some())
    }
}

/// What a broker was told last.
#[derive(Clone, Copy, Debug)]
struct SentAdvert {
    digest: Hash,
    at: Time,
    /// Whether it has asked to be told again.
    wanted: bool,
}

impl SentAdvert {
    /// Whether it was told too short a while ago to be told again. A clock that was set back puts nothing off.
    fn is_recent(&self, now: Time, apart: Span) -> bool {
        self.at <= now && now < self.at.plus(apart)
    }
}

/// Whether another broker is there, as far as it was heard.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Liveness {
    /// Nothing was heard of it since the start.
    #[default]
    Unknown,
    /// It was heard of late.
    Live,
    /// It was not heard for too long.
    Silent,
    /// It was not heard for a day more.
    Forgotten,
}

impl Liveness {
    /// The word for it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::Live => "live",
            Self::Silent => "silent",
            Self::Forgotten => "forgotten",
        }
    }

    /// Whether a request may be passed on to it with hope of an answer.
    pub fn may_answer(self) -> bool {
        match self {
            Self::Unknown | Self::Live => true,
            Self::Silent | Self::Forgotten => false,
        }
    }
}

/// A broker that requests are passed on to, with what it has told of itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KnownNeighbour {
    /// Its name.
    pub name: Name,
    /// The broker.
    pub broker: ActorId,
    /// Whether it is there.
    #[serde(default)]
    pub liveness: Liveness,
    /// When it was heard last.
    #[serde(default)]
    pub heard: Option<Time>,
    /// What it has said that it has, or knows of; nothing of one that is not live.
    #[serde(default)]
    pub entries: Arc<Vec<AdvertEntry>>,
}

impl KnownNeighbour {
    /// How many times a request for these items would be passed on to where there is room for it by `latest`, as far as
    /// was told; `None` if that was not told of all of them. Of several items the furthest counts.
    pub fn promises<'a>(
        &self,
        items: impl IntoIterator<Item = &'a Item>,
        latest: Time,
    ) -> Option<u8> {
        let needed = items.into_iter().filter(|item| !item.optional && item.joins().is_none());
        let hops = needed.map(|item| self.room_for(item, latest));
        hops.collect::<Option<Vec<u8>>>()?.into_iter().max()
    }

    /// Within how many hops there is room for an item.
    fn room_for(&self, item: &Item, latest: Time) -> Option<u8> {
        let fitting = || self.entries.iter().filter(|entry| entry.suits(item));
        (1..=FURTHEST).find(|hops| {
            let near = fitting().filter(|entry| entry.hops <= *hops);
            let units = near.fold(0_u32, |sum, entry| sum.saturating_add(room(entry, latest)));
            units >= item.min_units.get()
        })
    }
}

/// How many units an entry promises to who can wait until `latest`.
fn room(entry: &AdvertEntry, latest: Time) -> u32 {
    match entry.free {
        Some(0) => u32::from(entry.next.is_some_and(|next| next <= latest)),
        Some(free) => free,
        None => u32::MAX,
    }
}

impl Broker {
    /// The same broker, which tells others at each start and then after each period what it has.
    pub fn with_adverts(mut self, period: Option<Span>) -> Self {
        self.adverts.period = period;
        self.adverts.due = Periodic::every(period);
        self
    }

    /// When it tells others next.
    pub(in crate::broker) fn next_advert(&self) -> Option<Time> {
        self.adverts.due.next()
    }

    /// The brokers that requests are passed on to, by name, with what was heard of them.
    pub fn known_neighbours(&self, now: Time) -> Vec<KnownNeighbour> {
        let to = self.forwards_to().into_iter();
        to.map(|(name, broker)| self.known_neighbour(now, name, broker)).collect()
    }

    /// Whether a broker was heard of late.
    pub(super) fn liveness_of(&self, broker: ActorId, now: Time) -> Liveness {
        liveness(self.adverts.heard.get(&broker), now)
    }

    fn known_neighbour(&self, now: Time, name: Name, broker: ActorId) -> KnownNeighbour {
        let heard = self.adverts.heard.get(&broker);
        let liveness = liveness(heard, now);
        let entries = heard.filter(|_| liveness == Liveness::Live);
        let entries = entries.and_then(|heard| heard.entries.as_ref());
        KnownNeighbour {
            name,
            broker,
            liveness,
            heard: heard.map(|heard| heard.at),
            entries: entries.map(|(_, entries)| Arc::clone(entries)).unwrap_or_default(),
        }
    }

    /// After a restart nothing is known of others: they are asked.
    pub(in crate::broker) fn ask_for_adverts(&self, now: Time, out: &mut Output) {
        if self.adverts.period.is_some() {
            let to = self.forwards_to().into_iter();
            let ask = |(_, who)| self.base.volatile(who, now, Message::AdvertWanted);
            out.replies.extend(to.map(ask));
        }
    }

    /// Tells all that pass requests on to it that it is there, and what it has if that has changed.
    pub(in crate::broker) fn advertise(&mut self, now: Time, out: &mut Output) {
        if !self.adverts.due.falls_due(now) {
            return;
        }
        let to = self.accepts_from();
        self.adverts.told.retain(|who, _| to.contains(who));
        let forwards: BTreeSet<_> = self.forwards_to().into_iter().map(|(_, who)| who).collect();
        self.adverts.heard.retain(|who, _| forwards.contains(who));
        self.tell_all(now, &to, out);
    }

    /// Two brokers have agreed on something: they need not wait for the next period to hear of each other.
    pub(in crate::broker) fn introduce(
        &mut self,
        now: Time,
        (with, of): (ActorId, &Neighbour),
        out: &mut Output,
    ) {
        if self.adverts.period.is_none() {
            return;
        }
        if of.forward && !self.adverts.heard.contains_key(&with) {
            out.replies.push(self.base.volatile(with, now, Message::AdvertWanted));
        }
        if of.accept.is_some() && !self.adverts.told.contains_key(&with) {
            self.tell_all(now, &[with].into(), out);
        }
    }

    fn tell_all(&mut self, now: Time, to: &BTreeSet<ActorId>, out: &mut Output) {
        let Some(period) = self.adverts.period.filter(|_| !to.is_empty()) else { return };
        let own = self.own_entries(now);
        let neighbours = self.known_neighbours(now);
        for &who in to {
            let entries = self.entries_for(who, &own, &neighbours);
            let entries = self.news(now, who, entries, period.times(APART));
            let advert = Advert { lasts: period.times(MISSED), entries };
            out.replies.push(self.base.volatile(who, now, Message::Advert(Box::new(advert))));
        }
    }

    /// What a broker is told: what has changed, and what it has missed, but not too often.
    fn news(&mut self, now: Time, who: ActorId, entries: Vec<AdvertEntry>, apart: Span) -> Entries {
        let new = digest(&entries);
        match self.adverts.told.get(&who) {
            Some(told) if told.digest == new && !told.wanted => Entries::Same(new),
            Some(told) if told.is_recent(now, apart) => Entries::Same(told.digest),
            Some(_) | None => {
                self.adverts.told.insert(who, SentAdvert { digest: new, at: now, wanted: false });
                Entries::All(entries)
            }
        }
    }

    /// A broker tells what it has.
    pub(in crate::broker) fn told_advert(
        &mut self,
        now: Time,
        header: &Header,
        advert: Advert,
        out: &mut Output,
    ) {
        let from = header.from;
        if !self.passes_to(from) {
            return out.problems.push(dropped("advert", "nothing is passed on to its sender"));
        }
        if let Err(cause) = advert.check() {
            return out.problems.push(dropped("advert", cause));
        }
        let old = self.adverts.heard.get(&from);
        // One that comes late says nothing, unless the other's clock was set back.
        if old.is_some_and(|old| old.is_newer(header.at) && now < old.until) {
            return;
        }
        let known = old.and_then(|old| old.entries.clone());
        let entries = match advert.entries {
            Entries::All(entries) => Some((digest(&entries), Arc::new(entries))),
            Entries::Same(same) => known.filter(|(digest, _)| *digest == same),
        };
        if entries.is_none() {
            out.replies.push(self.base.volatile(from, now, Message::AdvertWanted));
        }
        let heard =
            ReceivedAdvert { sent: header.at, at: now, until: now.plus(advert.lasts), entries };
        self.adverts.heard.insert(from, heard);
    }

    /// A broker has missed what it was told. If that was just now, it is told again when the next advert is due.
    pub(in crate::broker) fn advert_wanted(&mut self, now: Time, from: ActorId, out: &mut Output) {
        if !self.accepts_from().contains(&from) {
            return out.problems.push(dropped("advert-wanted", "its sender is told nothing"));
        }
        let apart = self.adverts.period.unwrap_or_default().times(APART);
        if let Some(told) = self.adverts.told.get_mut(&from) {
            told.wanted = true;
            if told.is_recent(now, apart) {
                return;
            }
        }
        self.tell_all(now, &[from].into(), out);
    }

    /// The brokers whose requests are taken.
    fn accepts_from(&self) -> BTreeSet<ActorId> {
        let all = self.state.neighbours.keys().into_iter();
        let accepts = |who: &ActorId| {
            let accepts = self.state.neighbours.of(*who).is_some_and(|of| of.accept.is_some());
            accepts && self.base.is_known(*who, Role::Broker)
        };
        all.filter(accepts).collect()
    }

    /// What the broker sells itself.
    fn own_entries(&self, now: Time) -> Sums {
        let mut sums = Sums::default();
        for source in self.index.listed(None).filter(|source| source.until > now) {
            let Some(calendar) = self.state.ledger.free(source.account) else { continue };
            let free = u32::try_from(calendar.free_at(now).max(0)).unwrap_or(u32::MAX);
            let next = calendar.next_with(now, 1).filter(|next| *next < source.until);
            sums.add(AdvertEntry {
                hops: 1,
                resource: source.resource.clone(),
                attributes: Some(source.attributes.clone()),
                free: Some(free),
                next: next.filter(|_| free == 0),
            });
        }
        sums
    }

    /// What a broker is told of, as far as it is disclosed: what this one sells, and what others have told that are
    /// asked after it, but for the broker itself.
    fn entries_for(
        &self,
        who: ActorId,
        own: &Sums,
        neighbours: &[KnownNeighbour],
    ) -> Vec<AdvertEntry> {
        if !self.sells() {
            return Vec::new();
        }
        let disclosed = self.disclosures.to(&self.base.name_of(who));
        let accepted = self.state.neighbours.of(who).and_then(|of| of.accept.as_ref());
        let takes = |resource: &Name| {
            accepted.is_some_and(|of| of.types.is_empty() || of.types.contains(resource))
        };
        let others = neighbours.iter().filter(|other| other.broker != who);
        let others = others.flat_map(|other| other.entries.iter().cloned());
        let further = others.map(|entry| AdvertEntry { hops: entry.hops + 1, ..entry });
        let all = own.list().chain(further.filter(|entry| entry.hops <= FURTHEST));
        let mut sums = Sums::default();
        let told = all.filter(|entry| takes(&entry.resource));
        told.filter_map(|entry| as_disclosed(entry, disclosed)).for_each(|entry| sums.add(entry));
        within_bounds(sums.list())
    }
}

fn liveness(heard: Option<&ReceivedAdvert>, now: Time) -> Liveness {
    match heard {
        None => Liveness::Unknown,
        Some(heard) if now < heard.until => Liveness::Live,
        Some(heard) if now < heard.until.plus(FORGOTTEN) => Liveness::Silent,
        Some(_) => Liveness::Forgotten,
    }
}

/// What is said of an entry, if anything.
fn as_disclosed(entry: AdvertEntry, disclosed: Disclosure) -> Option<AdvertEntry> {
    match disclosed {
        Disclosure::None => None,
        Disclosure::YesNo => {
            let some = entry.free != Some(0);
            some.then_some(AdvertEntry { attributes: None, free: None, next: None, ..entry })
        }
        Disclosure::Totals => Some(AdvertEntry { attributes: None, ..entry }),
        Disclosure::All => Some(entry),
    }
}

/// As many of these as go into one advert.
fn within_bounds(entries: impl Iterator<Item = AdvertEntry>) -> Vec<AdvertEntry> {
    let mut bytes = 0;
    let fits = |entry: &AdvertEntry| {
        bytes += codec::encode(entry).len();
        bytes <= MAX_BYTES
    };
    entries.take(MAX_ENTRIES).take_while(fits).collect()
}

/// Entries, the nearest first; those of like units are one.
#[derive(Clone, Debug, Default)]
struct Sums(BTreeMap<(u8, Name, Option<Attributes>), Sum>);

/// What several entries say together.
#[derive(Clone, Copy, Debug)]
struct Sum {
    free: Option<u32>,
    next: Option<Time>,
}

impl Sums {
    fn add(&mut self, entry: AdvertEntry) {
        let AdvertEntry { hops, resource, attributes, free, next } = entry;
        let sum = self.0.entry((hops, resource, attributes));
        let sum = sum.or_insert(Sum { free: Some(0), next: None });
        sum.free = sum.free.zip(free).map(|(one, other)| one.saturating_add(other));
        sum.next = [sum.next, next].into_iter().flatten().min();
    }

    fn list(&self) -> impl Iterator<Item = AdvertEntry> {
        self.0.iter().map(|((hops, resource, attributes), sum)| AdvertEntry {
            hops: *hops,
            resource: resource.clone(),
            attributes: attributes.clone(),
            free: sum.free,
            next: sum.next.filter(|_| sum.free == Some(0)),
        })
    }
}
