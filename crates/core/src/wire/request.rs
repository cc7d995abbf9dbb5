//! Requests: what a service manager asks a broker for.

use std::collections::BTreeSet;
use std::num::NonZeroU32;

use serde::{Deserialize, Serialize};

use crate::model::name::Name;
use crate::model::property::Properties;
use crate::model::resource::Constraints;
use crate::model::slice::RequestId;
use crate::model::time::{Span, Term, Time};
use crate::service::steps::Kind;
use crate::ticket::Ticket;
use crate::ticket::link::LinkHash;
use crate::ticket::receipt::Receipt;
use crate::wire::offer::{MAX_HOLD, Offer, OfferPart, Reply};
use crate::wire::proviso::{History, Provisos};
use crate::wire::recall::Accepts;
use crate::wire::refusal::Refusal;

/// The most items in one request.
pub const MAX_ITEMS: usize = 64;

/// The most units in one item, and so in one lease: as many as one message can name. Of a divisible stock
/// a lease has one share, however large.
pub const MAX_UNITS: u32 = 1 << 14;

/// The most receipts that a request brings along.
pub const MAX_RECEIPTS: usize = 64;

/// Asks a broker for tickets: the items of one choice, all together or not at all.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    /// Names the request; asking twice under one id asks once.
    pub id: RequestId,
    /// What is asked for; 1 to [`MAX_ITEMS`].
    pub items: Vec<Item>,
    /// The earliest start that suits. It may lie in the past by the time it is read: the term is then
    /// sold from there, so that contiguous terms have no gap.
    pub earliest: Time,
    /// The latest start that suits.
    pub latest: Time,
    /// For how long.
    pub duration: Span,
    /// How short a term would do; the same as `duration` unless a range is asked for.
    pub min_duration: Span,
    /// The answer that is asked for.
    pub reply: Reply,
    /// When an answer is of no more use.
    pub answer_by: Time,
    /// For the broker's mapper alone.
    pub properties: Properties,
    /// Conditions on how it is met.
    pub provisos: Provisos,
    /// What became of it until now.
    pub history: History,
    /// Receipts for tickets of this broker that it has not confirmed yet; at most [`MAX_RECEIPTS`].
    pub receipts: Vec<Receipt>,
}

impl Request {
    /// The end of the latest term that would do.
    pub fn last_end(&self) -> Time {
        self.latest.plus(self.duration)
    }

    /// Until when both sides remember the request: as long again as the term. A slow answer is still
    /// received, and a repetition gets the same answer.
    pub fn last_word(&self) -> Time {
        let offsets = self.items.iter().map(|item| item.offset);
        let last = offsets.max().unwrap_or(Span::ZERO);
        self.last_end().plus(last).plus(self.duration)
    }

    /// Until when a broker that knows any of its revisions surely remembers it, the same for all of them.
    pub fn known_until(&self) -> Time {
        self.history.first_word.unwrap_or_else(|| self.last_word())
    }

    /// How long a broker that knows this revision remembers it.
    pub fn remembered_until(&self) -> Time {
        self.last_word().max(self.known_until())
    }

    /// Whether tickets, each with the item it is for, are in type, number and time what was asked for.
    pub fn is_met_with(&self, tickets: &[(u16, Ticket)]) -> bool {
        let suits = tickets.iter().all(|(place, ticket)| {
            let link = ticket.bottom();
            self.items.get(usize::from(*place)).is_some_and(|item| {
                (item.resource == link.resource || item.joins().is_some())
                    && (self.earliest..=self.latest).contains(&link.term.start().minus(item.offset))
                    && (self.min_duration..=self.duration).contains(&link.term.duration())
            })
        });
        suits && self.is_met_by(&self.offer_of(tickets).units_of_each(self.items.len()))
    }

    /// The refusal of one that would have to wait until then.
    pub(crate) fn busy_until(&self, earliest: Option<Time>) -> Refusal {
        self.items.first().map_or(Refusal::Overloaded, |item| Refusal::Busy {
            resource: item.resource.clone(),
            asked: item.units.get(),
            free: 0,
            earliest,
            in_the_way: Vec::new(),
        })
    }

    /// The numbers of its choices, the one that is preferred first.
    pub fn choices(&self) -> BTreeSet<u8> {
        self.items.iter().map(|item| item.choice).collect()
    }

    /// The items of the choice that is preferred.
    pub fn preferred(&self) -> impl Iterator<Item = &Item> {
        let first = self.items.iter().map(|item| item.choice).min();
        self.items.iter().filter(move |item| Some(item.choice) == first)
    }

    /// Tickets of it in plain values.
    pub fn offer_of(&self, tickets: &[(u16, Ticket)]) -> Offer {
        let is_link = |item: u16| {
            let item = self.items.get(usize::from(item));
            item.is_some_and(|item| item.joins().is_some())
        };
        let part = |(item, ticket): &(u16, Ticket)| OfferPart::of(*item, ticket, is_link(*item));
        Offer { parts: tickets.iter().map(part).collect() }
    }

    /// Whether the request is within its bounds and makes sense, as far as that can be seen without the
    /// time and without its receiver; the reason if not.
    pub fn check(&self) -> Result<(), String> {
        if self.items.is_empty() || self.items.len() > MAX_ITEMS {
            return Err(format!("a request has 1 to {MAX_ITEMS} items, not {}", self.items.len()));
        }
        if self.latest < self.earliest {
            return Err("the latest start is before the earliest".to_owned());
        }
        if self.min_duration > self.duration {
            return Err("the shortest term is longer than the longest".to_owned());
        }
        if let Reply::Hold(span) = self.reply
            && (!span.is_positive() || span > MAX_HOLD)
        {
            return Err(format!("offers are held for more than no time and at most {MAX_HOLD}"));
        }
        self.provisos.check()?;
        if self.receipts.len() > MAX_RECEIPTS {
            let count = self.receipts.len();
            return Err(format!("{count} receipts are more than the {MAX_RECEIPTS} of a request"));
        }
        self.items.iter().try_for_each(|item| item.check(self))?;
        let needed =
            |choice: &u8| self.items.iter().any(|item| item.choice == *choice && !item.optional);
        if !self.choices().iter().all(needed) {
            return Err("an alternative needs an item that is not optional".to_owned());
        }
        Ok(())
    }

    /// Whether the units of the parts of each item, by their places, are what was asked for: all items of one
    /// choice. Whether a link needs a part depends on where its ends are, and is not looked at.
    pub fn is_met_by(&self, parts: &[Vec<u32>]) -> bool {
        self.choices().iter().any(|choice| {
            let mut items = self.items.iter().zip(parts);
            items.len() == parts.len()
                && items.all(|(item, parts)| {
                    if item.choice == *choice { item.is_met_by(parts) } else { parts.is_empty() }
                })
        })
    }
}

/// Units of one type.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Item {
    /// The type.
    pub resource: Name,
    /// How many units are wanted.
    pub units: NonZeroU32,
    /// How few would do; the same as `units` unless the request is elastic.
    pub min_units: NonZeroU32,
    /// What the type's attributes must be.
    pub requirements: Constraints,
    /// The ticket whose lease is to continue, with the same units, from exactly its end.
    pub extends: Option<LinkHash>,
    /// The alternative that it belongs to. The items of one alternative are met: of those that can be,
    /// the one with the lowest number.
    pub choice: u8,
    /// Whether the request is met without it: it then gets no unit, or as many as it asks for.
    pub optional: bool,
    /// How long after the common start its term begins.
    pub offset: Span,
    /// Items of one number come from one site.
    pub together: Option<u8>,
    /// What it has to do with other items.
    pub relation: Relation,
    /// What its ticket may reserve for the broker.
    pub accepts: Accepts,
}

impl Item {
    /// `units` units of a type: of the first choice, from the common start, without a condition.
    pub fn new(resource: Name, units: NonZeroU32) -> Self {
        Self {
            resource,
            units,
            min_units: units,
            requirements: Constraints::NONE,
            extends: None,
            choice: 0,
            optional: false,
            offset: Span::ZERO,
            together: None,
            relation: Relation::Alone,
            accepts: Accepts::default(),
        }
    }

    /// The kind of units that it is for, if it is for a service: then it has one condition at most.
    pub fn kind(&self) -> Kind {
        let requirement = self.requirements.iter().next().cloned();
        Kind { resource: self.resource.clone(), requirement }
    }

    /// Its term in a grant with this common term.
    pub fn term(&self, common: Term) -> Option<Term> {
        Term::lasting(common.start().plus(self.offset), common.duration()).ok()
    }

    /// The number that it has in common with items of other sites.
    pub fn apart(&self) -> Option<u8> {
        match self.relation {
            Relation::Apart(number) => Some(number),
            Relation::Alone | Relation::Joins(_) => None,
        }
    }

    /// The link that it asks for, if it asks for none of units.
    pub fn joins(&self) -> Option<&Joins> {
        match &self.relation {
            Relation::Joins(joins) => Some(joins),
            Relation::Alone | Relation::Apart(_) => None,
        }
    }

    /// The units that parts bring it: of a link what each edge has, since it takes as much of all.
    pub fn units_of(&self, parts: &[u32]) -> u64 {
        match self.joins() {
            Some(_) => parts.iter().copied().min().map_or(0, u64::from),
            None => parts.iter().copied().map(u64::from).sum(),
        }
    }

    /// Whether parts of so many units each are what it asks for, whatever else is met.
    fn is_met_by(&self, parts: &[u32]) -> bool {
        let enough = u64::from(self.min_units.get())..=u64::from(self.units.get());
        let even = parts.iter().all(|units| parts.first() == Some(units));
        let may_be_none = self.optional || self.joins().is_some();
        (parts.is_empty() && may_be_none)
            || (enough.contains(&self.units_of(parts)) && (even || self.joins().is_none()))
    }

    fn check_relation(&self, request: &Request) -> Result<(), String> {
        match &self.relation {
            Relation::Apart(_) if self.together.is_some() => {
                Err("an item belongs together with others or apart, not both".to_owned())
            }
            Relation::Joins(_) if self.together.is_some() || self.optional => {
                Err("a link belongs to no site, and is not optional".to_owned())
            }
            Relation::Joins(joins) => joins.check(self, request),
            Relation::Alone | Relation::Apart(_) => Ok(()),
        }
    }

    fn check(&self, request: &Request) -> Result<(), String> {
        if self.min_units > self.units {
            return Err("an item would do with more units than it asks for".to_owned());
        }
        self.check_relation(request)?;
        self.accepts.check(self.extends.is_some())?;
        if self.offset < Span::ZERO {
            return Err("an item would begin before the common start".to_owned());
        }
        let last = Term::lasting(request.latest, request.duration).map_err(|e| e.to_string())?;
        if self.term(last).is_none_or(|term| term.duration() != request.duration) {
            return Err("an item would begin after the end of time".to_owned());
        }
        let plain = request.choices().len() == 1
            && !self.optional
            && self.offset == Span::ZERO
            && self.together.is_none()
            && self.relation == Relation::Alone
            && request.min_duration == request.duration
            && request.reply == Reply::Grant;
        if self.extends.is_some() && !plain {
            return Err("an extension has no alternatives, ranges, offsets or offers".to_owned());
        }
        Ok(())
    }
}

/// What an item has to do with other items of its request.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Relation {
    /// Nothing, as far as it does not say where it is `together`.
    #[default]
    Alone,
    /// Items of one number come from different sites, each from one.
    Apart(u8),
    /// It is a link: so many units of each [edge](crate::model::resource::ENDS) on a path.
    Joins(Joins),
}

/// A link between two items, each of which then comes from one site: a path without a circle from the site of
/// the first to that of the second, or nothing if they are at one site.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Joins {
    /// The places of the two items in the request.
    pub ends: [u16; 2],
    /// The most that the [latencies](crate::model::resource::LATENCY) of its edges sum up to.
    pub latency: Option<Span>,
    /// The most edges on its path.
    pub hops: Option<u8>,
}

impl Joins {
    fn check(&self, link: &Item, request: &Request) -> Result<(), String> {
        let [from, to] = self.ends;
        if from == to {
            return Err("a link has two ends".to_owned());
        }
        if self.latency.is_some_and(|latency| latency < Span::ZERO) {
            return Err("the latency of a link is negative".to_owned());
        }
        for end in self.ends {
            match request.items.get(usize::from(end)) {
                None => return Err(format!("a link ends at item {end}, and there is none")),
                Some(item) if item.joins().is_some() => {
                    return Err("a link ends at a link".to_owned());
                }
                Some(item) if item.choice != link.choice || item.optional => {
                    return Err("a link ends at an item that can be missing".to_owned());
                }
                Some(item) if item.offset != link.offset => {
                    return Err("a link begins at another instant than its ends".to_owned());
                }
                Some(_) => {}
            }
        }
        Ok(())
    }
}
