//! The entries of adverts: what a broker has and knows of, as far as it is disclosed.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::known::KnownNeighbour;
use crate::broker::Broker;
use crate::broker::availability::Disclosure;
use crate::model::identity::ActorId;
use crate::model::name::Name;
use crate::model::resource::{Attributes, SITE};
use crate::model::time::Time;
use crate::wire::advert::{AdvertEntry, FURTHEST, fitting};

/// Of more own entries than this, those of different sites are added up.
const TOLD_APART: usize = 64;

impl Broker {
    /// What the broker sells itself.
    pub(super) fn own_entries(&self, now: Time) -> Sums {
        let mut sums = Sums::default();
        for source in self.index.listed(None).filter(|source| source.until > now) {
            let Some(calendar) = self.free_to_sell(source.account, now) else { continue };
            let free = u32::try_from(calendar.free_at(now).max(0)).unwrap_or(u32::MAX);
            let next = calendar.next_with(now, 1).filter(|next| *next < source.until);
            sums.add(AdvertEntry {
                hops: 1,
                resource: source.resource.clone(),
                attributes: Some(Arc::new(source.attributes.clone())),
                free: Some(free),
                next: next.filter(|_| free == 0),
            });
        }
        if sums.0.len() > TOLD_APART { sums.of_all_sites() } else { sums }
    }

    /// The entries for a broker, as far as they are disclosed to it: what this one sells, and what its neighbours have
    /// advertised, except that broker itself.
    pub(super) fn entries_for(
        &self,
        who: ActorId,
        own: &Sums,
        further: &Further,
    ) -> Vec<AdvertEntry> {
        if !self.sells() {
            return Vec::new();
        }
        let disclosed = self.disclosures.to(&self.base.name_of(who));
        let accepted = self.state.neighbours.of(who).and_then(|of| of.accept.as_ref());
        let takes = |resource: &Name| {
            accepted.is_some_and(|of| of.types.is_empty() || of.types.contains(resource))
        };
        let all = own.0.iter().map(|(key, sum)| (key, *sum)).chain(further.without(who));
        let taken = all.filter(|(key, _)| takes(&key.1));
        let entries = taken.map(|(key, sum)| entry(key.clone(), sum));
        // What is disclosed as it is stays in its order, and no two are alike.
        if disclosed == Disclosure::All {
            return fitting(entries).collect();
        }
        let mut sums = Sums::default();
        entries
            .filter_map(|entry| as_disclosed(entry, disclosed))
            .for_each(|entry| sums.add(entry));
        fitting(sums.0.into_iter().map(|(key, sum)| entry(key, sum))).collect()
    }
}

/// What neighbours have advertised, a hop further away than they say, and how much of it is whose. There sites are no
/// longer told apart, or each would have an entry of its own.
#[derive(Debug, Default)]
pub(super) struct Further(BTreeMap<Key, Vec<(ActorId, Sum)>>);

impl Further {
    pub(super) fn of(neighbours: &[KnownNeighbour]) -> Self {
        let mut further = Self::default();
        for neighbour in neighbours {
            for entry in neighbour.entries.iter().filter(|entry| entry.hops < FURTHEST) {
                let attributes = entry.attributes.clone().map(of_any_site);
                let key = (entry.hops + 1, entry.resource.clone(), attributes);
                let sum = Sum { free: entry.free, next: entry.next };
                further.0.entry(key).or_default().push((neighbour.broker, sum));
            }
        }
        further
    }

    /// All of it but what one of them has advertised.
    fn without(&self, who: ActorId) -> impl Iterator<Item = (&Key, Sum)> {
        self.0.iter().filter_map(move |(key, parts)| {
            let others = parts.iter().filter(|(of, _)| *of != who).map(|(_, sum)| *sum);
            Some((key, others.reduce(Sum::plus)?))
        })
    }
}

/// What is disclosed of an entry, if anything.
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

/// What entries have in common that are one: how far away, of which type, and what they are like.
type Key = (u8, Name, Option<Arc<Attributes>>);

/// Entries, the nearest first; those of like units are one.
#[derive(Clone, Debug, Default)]
pub(super) struct Sums(BTreeMap<Key, Sum>);

/// What several entries say together.
#[derive(Clone, Copy, Debug)]
struct Sum {
    free: Option<u32>,
    next: Option<Time>,
}

impl Sum {
    fn plus(self, other: Self) -> Self {
        let free = self.free.zip(other.free).map(|(one, other)| one.saturating_add(other));
        Self { free, next: [self.next, other.next].into_iter().flatten().min() }
    }
}

impl Sums {
    fn add(&mut self, entry: AdvertEntry) {
        let AdvertEntry { hops, resource, attributes, free, next } = entry;
        let sum = Sum { free, next };
        let known = self.0.entry((hops, resource, attributes));
        known.and_modify(|known| *known = known.plus(sum)).or_insert(sum);
    }

    /// The same, where sites are not told apart.
    fn of_all_sites(self) -> Self {
        let mut sums = Self::default();
        for ((hops, resource, attributes), sum) in self.0 {
            sums.add(entry((hops, resource, attributes.map(of_any_site)), sum));
        }
        sums
    }
}

/// Attributes that say nothing of the site.
fn of_any_site(mut attributes: Arc<Attributes>) -> Arc<Attributes> {
    let of_site = |name: &Name| name.as_str() == SITE;
    if attributes.keys().any(of_site) {
        Arc::make_mut(&mut attributes).retain(|name, _| !of_site(name));
    }
    attributes
}

fn entry((hops, resource, attributes): Key, Sum { free, next }: Sum) -> AdvertEntry {
    AdvertEntry { hops, resource, attributes, free, next: next.filter(|_| free == Some(0)) }
}
