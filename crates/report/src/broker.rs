//! What the facts of a broker say of needs and orders.

#![allow(clippy::wildcard_enum_match_arm, reason = "most facts are about requests")]

use std::collections::{BTreeMap, BTreeSet};

use tenure_core::broker::facts::{Fact, OrderPlaced};
use tenure_core::broker::orders::{OrderOutcome, UnitOrder};
use tenure_core::model::identity::ActorId;
use tenure_core::model::time::Time;
use tenure_core::ticket::Ticket;
use tenure_core::ticket::link::LinkHash;
use tenure_core::ticket::receipt::Receipt;
use tenure_core::wire::need::Need;

/// What one broker recorded.
#[derive(Debug, Default)]
pub(crate) struct Broker {
    /// What it was told, by whom.
    pub(crate) needs: Vec<(Time, ActorId, Need)>,
    pub(crate) orders: BTreeMap<u64, Order>,
    /// The orders that have not ended.
    open: BTreeSet<u64>,
    /// How many units of each of its tickets are out.
    out: BTreeMap<LinkHash, u32>,
}

/// The life of an order.
#[derive(Clone, Debug)]
pub(crate) struct Order {
    pub(crate) order: UnitOrder,
    pub(crate) placed: Time,
    /// When the site takes the last of its units, as far as is known.
    pub(crate) due: Time,
    stay: u32,
    /// When the site had recorded it.
    pub(crate) recalled: Option<Time>,
    /// When the units were back.
    pub(crate) freed: Option<Time>,
    pub(crate) ended: Option<Ended>,
}

/// The end of an order.
#[derive(Clone, Debug)]
pub(crate) struct Ended {
    pub(crate) at: Time,
    pub(crate) outcome: OrderOutcome,
    pub(crate) reason: String,
}

impl Order {
    /// Its state at a time, in a word.
    pub(crate) fn state(&self, at: Time) -> &'static str {
        let since = |from: Option<Time>| from.is_some_and(|from| from <= at);
        match &self.ended {
            Some(ended) if ended.at <= at => ended.outcome.word(),
            Some(_) | None if since(self.freed) => "freed",
            Some(_) | None if since(self.recalled) => "recalled",
            Some(_) | None => "placed",
        }
    }
}

impl Broker {
    pub(crate) fn add(&mut self, at: Time, fact: &Fact) {
        match fact {
            Fact::NeedNoted(fact) => self.needs.push((at, fact.guest, fact.need.clone())),
            Fact::TicketsCut(fact) => self.issued(fact.tickets.iter().map(|(_, ticket)| ticket)),
            Fact::PortionKept(fact) => self.issued(fact.tickets.iter().map(|(_, ticket)| ticket)),
            Fact::OffersHeld(fact) => {
                let tickets = fact.offers.iter().flatten();
                self.issued(tickets.map(|(_, ticket)| ticket));
            }
            Fact::ReceiptTaken(fact) => self.came_back(at, &fact.receipt),
            Fact::OrderPlaced(fact) => self.placed(at, fact),
            Fact::RecallAnswered(fact) if fact.enforced => {
                self.each_of(fact.link, |order| order.freed = Some(at));
            }
            Fact::RecallAnswered(fact) => self.each_of(fact.link, |order| {
                order.recalled.get_or_insert(at);
                order.due = fact.at;
            }),
            Fact::OrderEnded(fact) => {
                self.open.remove(&fact.order);
                if let Some(order) = self.orders.get_mut(&fact.order) {
                    let (outcome, reason) = (fact.outcome, fact.reason.clone());
                    order.ended = Some(Ended { at, outcome, reason });
                }
            }
            _ => {}
        }
    }

    fn issued<'a>(&mut self, tickets: impl Iterator<Item = &'a Ticket>) {
        self.out.extend(tickets.map(|ticket| (ticket.hash(), ticket.bottom().units.get())));
    }

    fn placed(&mut self, at: Time, fact: &OrderPlaced) {
        let OrderPlaced { number, order, due, stay } = fact;
        let (order, due, stay) = (order.clone(), *due, *stay);
        let placed =
            Order { order, placed: at, due, stay, recalled: None, freed: None, ended: None };
        self.orders.insert(*number, placed);
        self.open.insert(*number);
    }

    /// Units of a ticket are back, unless they come back only later: they free the orders that leave no fewer.
    fn came_back(&mut self, at: Time, receipt: &Receipt) {
        let what = &receipt.what;
        let Some(out) = self.out.get_mut(&what.link).filter(|_| what.term.start() <= at) else {
            return;
        };
        *out = out.saturating_sub(what.units.get());
        let out = *out;
        self.each_of(what.link, |order| {
            if out <= order.stay {
                order.freed = Some(at);
            }
        });
    }

    /// The orders of a ticket whose units are not back.
    fn each_of(&mut self, ticket: LinkHash, mut change: impl FnMut(&mut Order)) {
        for number in &self.open {
            let order = self.orders.get_mut(number);
            let order = order.filter(|open| open.order.ticket == ticket && open.freed.is_none());
            order.into_iter().for_each(&mut change);
        }
    }
}
