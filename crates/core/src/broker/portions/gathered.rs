//! What is held of a request that several brokers are to meet together.

use std::num::NonZeroU32;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::broker::machine::Tickets;
use crate::model::identity::ActorId;
use crate::model::time::Time;
use crate::wire::handover::Outcome;
use crate::wire::portion::{PortionOutcome, Units, add, from_then_on, units_of};
use crate::wire::refusal::Refusal;
use crate::wire::request::{Item, Request};

/// A request that is gathered from one common start on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Gathered {
    /// The whole request, as its guest has made it.
    pub request: Arc<Request>,
    /// The round, from 1.
    pub round: u8,
    /// The common start.
    pub start: Time,
    /// The units that are to be gathered here: all of the request, or the portion that another broker has asked for.
    pub wanted: Units,
    /// Whether the portion is another broker's to take.
    pub for_other: bool,
    /// The tickets that were cut and are kept back.
    pub own: Tickets,
    /// Why they are not all.
    pub refusal: Option<Refusal>,
    /// What other brokers hold.
    pub others: Vec<HeldByOther>,
    /// Until when others may be asked.
    pub gather_by: Time,
    /// Until when all of it is held.
    pub until: Time,
}

/// What another broker holds of a request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HeldByOther {
    /// The broker.
    pub broker: ActorId,
    /// How much.
    pub units: Units,
    /// Its tickets, once it has cut them.
    pub tickets: Option<Tickets>,
}

impl Gathered {
    /// The units that are held, here and elsewhere.
    pub fn held(&self) -> Units {
        let mut held = units_of(&self.own);
        for other in &self.others {
            other.units.iter().for_each(|(&item, &units)| add(&mut held, item, units));
        }
        held
    }

    /// The units that are still missing.
    pub fn missing(&self) -> Units {
        let held = self.held();
        let left = |(&item, wanted): (&u16, &NonZeroU32)| {
            let units = wanted.get().saturating_sub(held.get(&item).map_or(0, |units| units.get()));
            Some((item, NonZeroU32::new(units)?))
        };
        self.wanted.iter().filter_map(left).collect()
    }

    /// The request for what is missing, with the places that its items have in the whole; `None` if nothing is.
    pub fn rest(&self) -> Option<(Request, Vec<u16>)> {
        let missing = self.missing();
        let items: Vec<Item> = missing
            .iter()
            .filter_map(|(&place, &units)| {
                let item = self.request.items.get(usize::from(place))?;
                Some(Item { units, min_units: units, ..item.clone() })
            })
            .collect();
        let places = missing.into_keys().collect();
        (!items.is_empty()).then(|| (from_then_on(&self.request, self.start, items), places))
    }

    /// Whether what is held is enough to take it: of each item at least as much as its guest can do with.
    pub fn is_enough(&self) -> bool {
        let held = self.held();
        let enough = |place: &u16| {
            let least = self.request.items.get(usize::from(*place)).map(|item| item.min_units);
            held.get(place).copied() >= least
        };
        self.wanted.keys().all(enough)
    }

    /// The brokers whose tickets have not come.
    pub fn awaited(&self) -> impl Iterator<Item = ActorId> {
        self.others.iter().filter(|other| other.tickets.is_none()).map(|other| other.broker)
    }

    /// All tickets: those that were cut here, then those of the others, in the order in which they were asked.
    pub fn tickets(&self) -> Tickets {
        let others = self.others.iter().filter_map(|other| other.tickets.as_ref()).flatten();
        self.own.iter().chain(others).cloned().collect()
    }

    /// What an answer says of what its broker has, as one to a request. What is only held may be let go.
    pub(super) fn says_of_stock(&self, answer: &PortionOutcome) -> Option<(Request, Outcome)> {
        match answer {
            PortionOutcome::Granted(tickets) => {
                Some(((*self.request).clone(), Outcome::Granted(tickets.clone())))
            }
            PortionOutcome::Refused(refusal) => {
                Some((self.rest()?.0, Outcome::Refused(refusal.clone())))
            }
            PortionOutcome::Held { .. } | PortionOutcome::Seen => None,
        }
    }
}
