//! Portions: what of a guest's request one broker asks another one to hold, while it gathers the rest from others.
//!
//! A commit in two phases: each broker that is asked *holds* what it can; once all is held, the first broker of the
//! request takes it, and each hands out its tickets.

use std::collections::BTreeMap;
use std::num::NonZeroU32;

use serde::{Deserialize, Serialize};

use crate::broker::machine::Tickets;
use crate::model::slice::RequestId;
use crate::model::time::Time;
use crate::wire::handover::{Handover, Hop};
use crate::wire::offer::Reply;
use crate::wire::refusal::Refusal;
use crate::wire::request::{Item, MAX_ITEMS, Relation, Request};

/// The most rounds, each with another start, in which one request is gathered.
pub const MAX_ROUNDS: u8 = 8;

/// So many units of each of these items, by their places in the request.
pub type Units = BTreeMap<u16, NonZeroU32>;

/// A portion of a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Portion {
    /// The round of its first broker, from 1.
    pub round: u8,
    /// The common start.
    pub start: Time,
    /// What is asked for.
    pub units: Units,
    /// Until when it is held.
    pub until: Time,
}

/// A request that is handed from one broker to the next, for a portion of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PortionAsked {
    /// The request, with the way that it came.
    pub handover: Handover,
    /// Which portion.
    pub portion: Portion,
}

/// What became of a portion.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PortionBack {
    /// Of which request.
    pub request: RequestId,
    /// Of which round.
    pub round: u8,
    /// What became of it.
    pub outcome: PortionOutcome,
    /// What others said that were asked for it, in this order.
    pub trail: Vec<Hop>,
}

/// What became of a portion.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum PortionOutcome {
    /// All or a part of it is held.
    Held {
        /// How much.
        units: Units,
        /// Until when.
        until: Time,
        /// Why not all, if so.
        refusal: Option<Refusal>,
    },
    /// It was taken: these tickets were cut for the guest, each with the item of the request that it is for.
    Granted(Tickets),
    /// Nothing of it is held, or not any more.
    Refused(Refusal),
    /// The broker has the request already, by another path or from the guest: this path is none.
    Seen,
}

impl Portion {
    /// The request for this portion alone, from its start on, with the places that its items have in the whole.
    ///
    /// # Errors
    /// How it goes beyond the request.
    pub fn of(&self, whole: &Request) -> Result<(Request, Vec<u16>), String> {
        if self.round == 0 || self.round > MAX_ROUNDS {
            return Err(format!("there are 1 to {MAX_ROUNDS} rounds, not {}", self.round));
        }
        if !(whole.earliest..=whole.latest).contains(&self.start) {
            return Err(format!("a start at {} is not in the window of the request", self.start));
        }
        if !comes_in_portions(whole) {
            return Err("the request is met by one broker or not at all".to_owned());
        }
        if self.units.is_empty() || self.units.len() > MAX_ITEMS {
            return Err(format!("a portion has 1 to {MAX_ITEMS} items, not {}", self.units.len()));
        }
        let mut items = Vec::new();
        for (&place, &units) in &self.units {
            let item = whole.items.get(usize::from(place));
            let item = item.ok_or_else(|| format!("the request has no item {place}"))?;
            if units > item.units {
                let most = item.units;
                return Err(format!("{units} units of item {place} are more than its {most}"));
            }
            items.push(Item { units, min_units: units, ..item.clone() });
        }
        let places = self.units.keys().copied().collect();
        Ok((from_then_on(whole, self.start, items), places))
    }
}

/// These items of a request, from exactly this start on and for its full length.
pub(crate) fn from_then_on(whole: &Request, start: Time, items: Vec<Item>) -> Request {
    Request {
        items,
        earliest: start,
        latest: start,
        min_duration: whole.duration,
        receipts: Vec::new(),
        ..whole.clone()
    }
}

/// Whether a request can be met by several brokers together: it has several units that need not come from one site, and
/// nothing in it depends on what else is met, or on which sites they are of.
pub fn comes_in_portions(request: &Request) -> bool {
    let plain = request
        .items
        .iter()
        .all(|item| item.extends.is_none() && !item.optional && item.relation == Relation::Alone);
    let plain = plain && request.reply == Reply::Grant;
    plain && request.choices().len() == 1 && bundles(request).len() + divisible(request) > 1
}

/// How many of its items can be split, so that more than one broker may have units of it.
fn divisible(request: &Request) -> usize {
    let split = |item: &&Item| item.together.is_none() && item.units.get() > 1;
    request.items.iter().filter(split).count()
}

/// The places of the items of a request, those together that come from one site.
pub(crate) fn bundles(request: &Request) -> Vec<Vec<usize>> {
    let mut bundles: Vec<Vec<usize>> = Vec::new();
    let mut of_number: BTreeMap<u8, usize> = BTreeMap::new();
    for (place, item) in request.items.iter().enumerate() {
        let known = item.together.and_then(|number| of_number.get(&number).copied());
        match known.and_then(|known| bundles.get_mut(known)) {
            Some(bundle) => bundle.push(place),
            None => {
                of_number.extend(item.together.map(|number| (number, bundles.len())));
                bundles.push(vec![place]);
            }
        }
    }
    bundles
}

/// Whether so many of the wanted units divide no items that belong together: each of these has all, or none has any.
pub(crate) fn keeps_bundles(request: &Request, wanted: &Units, units: &Units) -> bool {
    let together = bundles(request).into_iter().filter(|bundle| bundle.len() > 1);
    let mut places = together
        .map(|bundle| bundle.into_iter().filter_map(|place| u16::try_from(place).ok()).collect());
    places.all(|bundle: Vec<u16>| {
        let all = bundle.iter().all(|item| units.get(item) == wanted.get(item));
        all || !bundle.iter().any(|item| units.contains_key(item))
    })
}

/// All units of a request, by its items.
pub(crate) fn all_units(request: &Request) -> Units {
    (0_u16..).zip(&request.items).map(|(place, item)| (place, item.units)).collect()
}

/// The units of tickets, by the items that they are for.
pub fn units_of(tickets: &Tickets) -> Units {
    let mut units = Units::new();
    for (item, ticket) in tickets {
        add(&mut units, *item, ticket.bottom().units);
    }
    units
}

/// Adds units of an item.
pub(crate) fn add(to: &mut Units, item: u16, more: NonZeroU32) {
    let sum = to.get(&item).map_or(more, |known| known.saturating_add(more.get()));
    to.insert(item, sum);
}
