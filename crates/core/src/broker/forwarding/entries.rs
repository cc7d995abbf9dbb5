//! The entries of adverts: what a broker has and knows of, as far as it is disclosed.

use std::collections::BTreeMap;

use super::known::KnownNeighbour;
use crate::broker::Broker;
use crate::broker::availability::Disclosure;
use crate::model::codec;
use crate::model::identity::ActorId;
use crate::model::name::Name;
use crate::model::resource::Attributes;
use crate::model::time::Time;
use crate::wire::advert::{AdvertEntry, FURTHEST, MAX_BYTES, MAX_ENTRIES};

impl Broker {
    /// What the broker sells itself.
    pub(super) fn own_entries(&self, now: Time) -> Sums {
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

    /// The entries for a broker, as far as they are disclosed to it: what this one sells, and what its neighbours have
    /// advertised, except that broker itself.
    pub(super) fn entries_for(
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
        let taken = all.filter(|entry| takes(&entry.resource));
        taken.filter_map(|entry| as_disclosed(entry, disclosed)).for_each(|entry| sums.add(entry));
        within_bounds(sums.list())
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
pub(super) struct Sums(BTreeMap<(u8, Name, Option<Attributes>), Sum>);

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
