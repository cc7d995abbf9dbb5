//! Neighbours as mappers see them: whether they are there, and what they have advertised.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::model::identity::ActorId;
use crate::model::name::Name;
use crate::model::time::Time;
use crate::wire::advert::{AdvertEntry, FURTHEST};
use crate::wire::handover::Outcome;
use crate::wire::refusal::Refusal;
use crate::wire::request::{Item, Request};

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
    /// What it has advertised; nothing of one that is not live.
    #[serde(default)]
    pub entries: Arc<Vec<AdvertEntry>>,
}

impl KnownNeighbour {
    /// How many hops away there is room for these items by `latest`, as advertised; `None` if it is not advertised for all
    /// of them. Of several items the furthest counts.
    pub fn promises<'a>(
        &self,
        items: impl IntoIterator<Item = &'a Item>,
        latest: Time,
    ) -> Option<u8> {
        let hops = needed(items).map(|item| self.room_for(item, latest));
        hops.collect::<Option<Vec<u8>>>()?.into_iter().max()
    }

    /// For how many times these items it promises room by `latest` within so many hops: the more, the likelier some of it
    /// is still there.
    pub fn spare<'a>(
        &self,
        items: impl IntoIterator<Item = &'a Item>,
        latest: Time,
        hops: u8,
    ) -> u32 {
        let times =
            needed(items).map(|item| self.units_within(item, latest, hops) / item.min_units.get());
        times.min().unwrap_or(0)
    }

    /// How many of the units that these items ask for it promises by `latest` within so many hops.
    pub fn offers<'a>(
        &self,
        items: impl IntoIterator<Item = &'a Item>,
        latest: Time,
        hops: u8,
    ) -> u32 {
        let offered =
            needed(items).map(|item| self.units_within(item, latest, hops).min(item.units.get()));
        offered.fold(0, u32::saturating_add)
    }

    fn units_within(&self, item: &Item, latest: Time, hops: u8) -> u32 {
        let near = self.entries.iter().filter(|entry| entry.hops <= hops && entry.suits(item));
        near.fold(0_u32, |sum, entry| sum.saturating_add(room(entry, latest)))
    }

    /// Within how many hops there is room for an item.
    fn room_for(&self, item: &Item, latest: Time) -> Option<u8> {
        let enough = |hops: &u8| self.units_within(item, latest, *hops) >= item.min_units.get();
        (1..=FURTHEST).find(enough)
    }
}

/// The items that a request is not met without and that are units of sites.
fn needed<'a>(items: impl IntoIterator<Item = &'a Item>) -> impl Iterator<Item = &'a Item> {
    items.into_iter().filter(|item| !item.optional && item.joins().is_none())
}

/// How many units an entry promises to who can wait until `latest`.
fn room(entry: &AdvertEntry, latest: Time) -> u32 {
    match entry.free {
        Some(0) => u32::from(entry.next.is_some_and(|next| next <= latest)),
        Some(free) => free,
        None => u32::MAX,
    }
}

/// What a broker has by its answer to a request, if that says more than its entries.
pub(super) fn after(
    entries: &[AdvertEntry],
    request: &Request,
    outcome: &Outcome,
) -> Option<Vec<AdvertEntry>> {
    match outcome {
        Outcome::Granted(tickets) => {
            let mut entries = entries.to_vec();
            for (item, ticket) in tickets {
                if let Some(item) = request.items.get(usize::from(*item)) {
                    take(&mut entries, item, ticket.bottom().units.get());
                }
            }
            Some(entries)
        }
        Outcome::Refused(Refusal::Busy { resource, earliest, .. })
        | Outcome::Countered(Refusal::Busy { resource, earliest, .. }, _) => {
            let mut entries = entries.to_vec();
            for item in request.preferred().filter(|item| item.resource == *resource) {
                leave_too_few(&mut entries, item, *earliest);
            }
            Some(entries)
        }
        Outcome::Refused(_) | Outcome::Countered(..) | Outcome::Offered(..) | Outcome::Seen => None,
    }
}

/// So many units of what an item asks for are no longer free, the nearest of them.
fn take(entries: &mut [AdvertEntry], item: &Item, mut units: u32) {
    for entry in entries.iter_mut().filter(|entry| entry.suits(item)) {
        let taken = entry.free.map_or(0, |free| free.min(units));
        entry.free = entry.free.map(|free| free - taken);
        units -= taken;
    }
}

/// Fewer units are free than an item asks for, until `next`.
fn leave_too_few(entries: &mut [AdvertEntry], item: &Item, next: Option<Time>) {
    let mut most = item.min_units.get().saturating_sub(1);
    for entry in entries.iter_mut().filter(|entry| entry.suits(item)) {
        let free = entry.free.unwrap_or(0).min(most);
        most -= free;
        entry.free = Some(free);
        entry.next = next.filter(|_| free == 0);
    }
}
