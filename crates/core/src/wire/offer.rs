//! Answers between yes and no: offers, plans, bookings in the way and places in a queue, in plain values.

use std::cmp::Reverse;
use std::num::NonZeroU32;

use serde::{Deserialize, Serialize};

use crate::model::identity::ActorId;
use crate::model::name::Name;
use crate::model::price::Cost;
use crate::model::time::{Span, Term, Time};
use crate::ticket::Ticket;
use crate::wire::request::{Item, Request};

/// The most offers in one answer.
pub const MAX_OFFERS: usize = 3;

/// The longest offers of an answer, in bytes.
pub const MAX_OFFER_BYTES: usize = 1 << 16;

/// The most bookings that one answer names.
pub const MAX_BOOKINGS: usize = 8;

/// The longest that offers are held.
pub const MAX_HOLD: Span = Span::DAY;

/// The answer that a request asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reply {
    /// Tickets.
    #[default]
    Grant,
    /// How it could be met now. Nothing is booked.
    Plan,
    /// Offers that are booked for so long, or until one is accepted.
    Hold(Span),
}

/// One way to meet a request, or to come near it. Offers are numbered from 1, in their order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Offer {
    /// What it is made of: one or several parts for each item that it has units for.
    pub parts: Vec<OfferPart>,
}

/// Units of one site for one item.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(from = "PartLayout", into = "PartLayout")]
pub struct OfferPart {
    /// The place of the item in the request.
    pub item: u16,
    /// The site.
    pub site: ActorId,
    /// How many units.
    pub units: NonZeroU32,
    /// From when to when.
    pub term: Term,
    /// What each unit costs an hour, if that is stated.
    pub price: Option<u32>,
    /// Of a link: the type of the edge. The parts of a link come in the order of its path.
    pub edge: Option<Name>,
}

impl OfferPart {
    /// What a ticket is for; of a link, its edge with it.
    pub fn of(item: u16, ticket: &Ticket, is_link: bool) -> Self {
        let link = ticket.bottom();
        Self {
            item,
            site: ticket.site(),
            units: link.units,
            term: link.term,
            price: link.clauses.price,
            edge: is_link.then(|| link.resource.clone()),
        }
    }
}

/// How a part is encoded: units as they were before there were links.
#[derive(Serialize, Deserialize)]
struct PartLayout {
    item: u16,
    site: ActorId,
    units: NonZeroU32,
    term: Term,
    terms: Terms,
}

/// The first two are encoded as an optional price is.
#[derive(Serialize, Deserialize)]
enum Terms {
    Unpriced,
    Priced(u32),
    Edge(Name, Option<u32>),
}

impl From<OfferPart> for PartLayout {
    fn from(part: OfferPart) -> Self {
        let OfferPart { item, site, units, term, price, edge } = part;
        let terms = match (edge, price) {
            (Some(edge), price) => Terms::Edge(edge, price),
            (None, Some(price)) => Terms::Priced(price),
            (None, None) => Terms::Unpriced,
        };
        Self { item, site, units, term, terms }
    }
}

impl From<PartLayout> for OfferPart {
    fn from(part: PartLayout) -> Self {
        let PartLayout { item, site, units, term, terms } = part;
        let (price, edge) = match terms {
            Terms::Unpriced => (None, None),
            Terms::Priced(price) => (Some(price), None),
            Terms::Edge(edge, price) => (price, Some(edge)),
        };
        Self { item, site, units, term, price, edge }
    }
}

/// Units that are sold, or held, to somebody.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Booking {
    /// Who has them.
    pub holder: ActorId,
    /// The type.
    pub resource: Name,
    /// How many units.
    pub units: u32,
    /// From when to when.
    pub term: Term,
}

/// Where a request stands that waits at a broker.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Waiting {
    /// Its place in the queue; the first is 1.
    pub place: u32,
    /// The start that it can expect, as things stand.
    pub expected: Option<Time>,
    /// What it waits for, in words.
    pub reason: String,
}

impl Offer {
    /// The units of the parts of each of so many items, by the places of the items.
    pub fn units_of_each(&self, items: usize) -> Vec<Vec<u32>> {
        let mut each = vec![Vec::new(); items];
        for part in &self.parts {
            if let Some(units) = each.get_mut(usize::from(part.item)) {
                units.push(part.units.get());
            }
        }
        each
    }

    /// The units of all of its parts.
    pub fn units(&self) -> u32 {
        self.parts.iter().fold(0, |sum: u32, part| sum.saturating_add(part.units.get()))
    }

    /// What it costs, if a part has a price.
    pub fn cost(&self) -> Option<Cost> {
        let of = |part: &OfferPart| Some(Cost::of(part.price?, part.units.get(), part.term));
        self.parts.iter().filter_map(of).reduce(Cost::plus)
    }

    /// The first start of its parts.
    pub fn start(&self) -> Option<Time> {
        self.parts.iter().map(|part| part.term.start()).min()
    }

    /// The last end of its parts.
    pub fn end(&self) -> Option<Time> {
        self.parts.iter().map(|part| part.term.end()).max()
    }

    /// The shortest term of its parts.
    fn duration(&self) -> Option<Span> {
        self.parts.iter().map(|part| part.term.duration()).min()
    }

    /// Whether it is for items of a request, for no more units than it asks for, and not before its first start.
    pub fn is_about(&self, request: &Request) -> bool {
        let known = |part: &OfferPart| {
            let item = request.items.get(usize::from(part.item));
            item.is_some_and(|item| request.earliest <= part.term.start().minus(item.offset))
        };
        let units = self.units_of_each(request.items.len());
        let within =
            |(item, units): (&Item, &Vec<u32>)| item.units_of(units) <= u64::from(item.units.get());
        let all = request.items.iter().zip(&units).all(within);
        !self.parts.is_empty() && self.parts.iter().all(known) && all
    }

    /// Whether it is what a request asks for.
    pub fn meets(&self, request: &Request) -> bool {
        let in_time = |part: &OfferPart| {
            let offset = request.items.get(usize::from(part.item)).map(|item| item.offset);
            let start = part.term.start().minus(offset.unwrap_or_default());
            (request.earliest..=request.latest).contains(&start)
                && (request.min_duration..=request.duration).contains(&part.term.duration())
        };
        self.parts.iter().all(in_time)
            && request.is_met_by(&self.units_of_each(request.items.len()))
    }

    /// In which way it comes near a request.
    fn near(&self, request: &Request) -> Near {
        let units = self.units_of_each(request.items.len());
        let lacks = |(item, units): (&Item, &Vec<u32>)| {
            item.units_of(units) < u64::from(item.min_units.get()) && !units.is_empty()
        };
        if request.items.iter().zip(&units).any(lacks) {
            Near::Fewer
        } else if self.duration() < Some(request.min_duration) {
            Near::Shorter
        } else {
            Near::Later
        }
    }
}

/// In which way an offer comes near a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Near {
    Later,
    Fewer,
    Shorter,
}

/// Of offers that come near a request, the earliest later one, the one for most units, and the longest of the shorter
/// ones; of two alike, the first.
pub fn nearest(request: &Request, offers: &[Offer]) -> Vec<Offer> {
    let best = |near: Near| {
        let alike = offers.iter().filter(|offer| offer.near(request) == near);
        let start = |offer: &Offer| offer.start();
        match near {
            Near::Later => alike.min_by_key(|offer| start(offer)),
            Near::Fewer => alike.min_by_key(|offer| (Reverse(offer.units()), start(offer))),
            Near::Shorter => alike.min_by_key(|offer| (Reverse(offer.duration()), start(offer))),
        }
    };
    [Near::Later, Near::Fewer, Near::Shorter].into_iter().filter_map(best).cloned().collect()
}
