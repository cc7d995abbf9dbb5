//! Orders: units that are taken from the service to which they are worth least, for one that claims them.
//!
//! A mapper places orders; the broker recalls their units, and keeps two bounds whatever the mapper says: no unit is
//! taken before it was held for [`Swing::min_tenure`], and no more than [`Swing::budget`] are taken in its window.
//! Every order ends: delivered, or cancelled, by its mapper or in the end by time.

use std::collections::{BTreeMap, VecDeque};
use std::num::NonZeroU32;

use serde::{Deserialize, Serialize};

use super::facts::{BoundsSet, OrderEnded, OrderPlaced, RecallAsked};
use super::needs::ServiceId;
use super::{Broker, IssuedTicket, Output, Timer};
use crate::actor::Emit as _;
use crate::actor::fact::{BadFact, truncate_text};
use crate::actor::machine::Illegal;
use crate::model::name::Name;
use crate::model::time::{Span, Time};
use crate::mutants::mutant;
use crate::service::steps::Kind;
use crate::ticket::link::LinkHash;

/// How long units that were freed for an order are waited for at most.
pub const FREED_FOR: Span = Span::HOUR;

/// The longest window of a budget.
pub const MAX_WINDOW: Span = Span::DAY;

/// How much may be taken from services for others, whatever the mapper decides. Nothing is bounded by default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Swing {
    /// For how long a service has units at least.
    pub min_tenure: Span,
    /// How long ahead a service is told at least, whatever its leases say.
    pub notice: Span,
    /// How many units are taken at most.
    pub budget: Option<Budget>,
    /// Whether nothing is taken: what would be ordered is recorded.
    pub advise: bool,
}

/// The most units of a type that are taken in any window of a length, at least one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// How many percent of the units of the type that the broker has.
    pub percent: u32,
    /// The length, [`MAX_WINDOW`] at most.
    pub window: Span,
}

/// Units of a ticket for a service that claims them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnitOrder {
    /// The service that claims them.
    pub claimant: ServiceId,
    /// The kind of units that it claims.
    pub kind: Kind,
    /// The service that has them.
    pub holder: ServiceId,
    /// The ticket by which it has them.
    pub ticket: LinkHash,
    /// How many.
    pub units: NonZeroU32,
    /// What the least of them is worth to the claimant, by the mapper's policy.
    pub claim: u64,
    /// What the most of them is worth to the holder.
    pub worth: u64,
}

/// Where an order is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum OrderState {
    /// The site is asked to recall the units.
    Placed,
    /// The site has recorded that.
    Recalled {
        /// When it takes the last of them.
        at: Time,
    },
    /// The units are back, to be given to the claimant.
    Freed {
        /// Since when.
        at: Time,
    },
}

/// What happens to an order until it ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OrderEvent {
    /// The site has recorded the recall, which takes the last of the units then.
    Recalled(Time),
    /// The units are back.
    Freed(Time),
}

/// How an order ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OrderOutcome {
    /// The claimant has units.
    Delivered,
    /// It is off; a recall that has not taken the units is withdrawn.
    Cancelled,
}

/// The end of an order, as a mapper decides it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OrderEnd {
    /// The number of the order.
    pub order: u64,
    /// How it ends.
    pub outcome: OrderOutcome,
    /// Why.
    pub reason: String,
}

/// An order that has not ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenOrder {
    /// What is ordered.
    pub order: UnitOrder,
    /// Where it is in its life.
    pub state: OrderState,
    /// When it was placed.
    pub placed: Time,
    /// When its units are taken, as the broker has asked.
    pub due: Time,
    /// How many units of the ticket stay once it, and those before it, are carried out.
    pub stay: u32,
}

/// The orders of a broker.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Orders {
    /// The number of the last.
    last: u64,
    open: BTreeMap<u64, OpenOrder>,
    /// What was ordered in the last [`MAX_WINDOW`]: when, of which type, how many.
    moves: VecDeque<(Time, Name, u32)>,
    /// What bounded the last order of each type.
    bounds: BTreeMap<Name, BoundsSet>,
    /// What would be ordered if it was not only advised.
    pub(super) advised: Vec<UnitOrder>,
}

impl OrderState {
    /// The state in a word.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Placed => "placed",
            Self::Recalled { .. } => "recalled",
            Self::Freed { .. } => "freed",
        }
    }

    /// The next state.
    pub fn next(self, event: OrderEvent) -> Result<Self, Illegal> {
        match (self, event) {
            (Self::Placed | Self::Recalled { .. }, OrderEvent::Recalled(at)) => {
                Ok(Self::Recalled { at })
            }
            (Self::Placed | Self::Recalled { .. }, OrderEvent::Freed(at)) => Ok(Self::Freed { at }),
            (Self::Freed { .. }, OrderEvent::Recalled(_) | OrderEvent::Freed(_)) => {
                let event = match event {
                    OrderEvent::Recalled(_) => "Recalled",
                    OrderEvent::Freed(_) => "Freed",
                };
                Err(Illegal { machine: "order", state: self.word(), event })
            }
        }
    }
}

impl OrderOutcome {
    /// The outcome in a word.
    pub fn word(self) -> &'static str {
        match self {
            Self::Delivered => "delivered",
            Self::Cancelled => "cancelled",
        }
    }
}

impl Orders {
    /// Those of a ticket.
    fn of(&self, ticket: LinkHash) -> impl Iterator<Item = (u64, &OpenOrder)> {
        let of = move |(_, order): &(&u64, &OpenOrder)| order.order.ticket == ticket;
        self.open.iter().filter(of).map(|(&number, order)| (number, order))
    }

    /// How many units of a type were ordered after an instant.
    fn moved_since(&self, resource: &Name, since: Time) -> u32 {
        let late = self.moves.iter().rev();
        let late = late.take_while(|(at, ..)| since < *at && !mutant!(BudgetNotCounted));
        late.filter(|(_, of, _)| of == resource).fold(0, |sum: u32, (.., n)| sum.saturating_add(*n))
    }
}

impl Broker {
    /// The orders that have not ended, by number.
    pub fn orders(&self) -> impl Iterator<Item = (u64, &OpenOrder)> {
        self.state.orders.open.iter().map(|(&number, order)| (number, order))
    }

    /// How many units of a type may still be ordered now; `None` if that is not bounded.
    pub(super) fn budget_left(&self, resource: &Name, now: Time) -> Option<u32> {
        let BoundsSet { most, window, .. } = self.bounds_of(resource);
        Some(most?.saturating_sub(self.state.orders.moved_since(resource, now.minus(window))))
    }

    /// What bounds orders of a type now.
    fn bounds_of(&self, resource: &Name) -> BoundsSet {
        let (resource, tenure) = (resource.clone(), self.swing.min_tenure);
        let Some(Budget { percent, window }) = self.swing.budget else {
            return BoundsSet { resource, tenure, most: None, window: Span::ZERO };
        };
        let has = self.index.units_of(&resource) * u64::from(percent) / 100;
        let most = Some(u32::try_from(has).unwrap_or(u32::MAX).max(1));
        BoundsSet { resource, tenure, most, window: window.min(MAX_WINDOW) }
    }

    /// Records what bounds orders of a type, unless it bounded the last one too.
    fn note_bounds(&mut self, now: Time, resource: &Name, out: &mut Output) {
        let bounds = self.bounds_of(resource);
        if self.state.orders.bounds.get(resource) != Some(&bounds) {
            self.emit(now, bounds, out);
        }
    }

    /// When the first orders of each type do not count any more that do now.
    pub(super) fn moves_again(&self, now: Time) -> BTreeMap<Name, Time> {
        let Some(Budget { window, .. }) = self.swing.budget else { return BTreeMap::new() };
        let window = window.min(MAX_WINDOW);
        let mut again = BTreeMap::new();
        for (at, of, _) in &self.state.orders.moves {
            let over = at.plus(window);
            if now < over {
                again.entry(of.clone()).or_insert(over);
            }
        }
        again
    }

    /// How many units of a ticket stay with its holder, as far as they were recalled or came back.
    pub(super) fn staying(&self, ticket: LinkHash, issued: &IssuedTicket) -> u32 {
        let recall = self.state.recalls.get(ticket).filter(|recall| recall.refusal.is_none());
        recall.map_or(issued.units, |recall| recall.level.units.min(issued.units))
    }

    /// Places an order, and recalls its units. The recall leaves when both are durable.
    pub(super) fn place_order(
        &mut self,
        now: Time,
        order: UnitOrder,
        out: &mut Output,
    ) -> Result<(), String> {
        let (due, stay) = self.check_order(now, &order)?;
        let ticket = self.sold(order.ticket).ok_or("its ticket is not out")?;
        let recall = self.state.recalls.next(order.ticket, ticket.bottom(), Some(stay), due)?;
        let resource = ticket.bottom().resource.clone();
        self.note_bounds(now, &resource, out);
        let (number, link) = (self.state.orders.last + 1, order.ticket);
        let (placed, asked) =
            (OrderPlaced { number, order, due, stay }, RecallAsked { link, level: recall });
        if mutant!(RecallBeforeOrder) {
            self.emit(now, asked, out);
            self.emit(now, placed, out);
            return Ok(());
        }
        self.emit(now, placed, out);
        if !mutant!(OrderRecallsNothing) {
            self.emit(now, asked, out);
        }
        Ok(())
    }

    /// When the units of an order can be taken, and how many stay then; or why it cannot be placed.
    pub(super) fn check_order(&self, now: Time, order: &UnitOrder) -> Result<(Time, u32), String> {
        let UnitOrder { claimant, kind, holder, ticket, units, .. } = order;
        let wants = |id: &ServiceId| self.state.needs.get(id);
        if claimant == holder {
            return Err(format!("{} claims units of its own", holder.service));
        }
        if wants(claimant).is_none_or(|need| need.want(kind).is_none()) {
            return Err(format!("{} has not said that it wants such units", claimant.service));
        }
        let has =
            |need: &super::needs::KnownNeed| need.wants.iter().any(|w| w.tickets.contains(ticket));
        if !wants(holder).is_some_and(|need| has(need)) {
            return Err(format!("{} has not said that ticket {ticket} is of it", holder.service));
        }
        let link =
            self.sold(*ticket).ok_or_else(|| format!("ticket {ticket} is not out"))?.bottom();
        let issued = self.state.issued.get(ticket).ok_or("its ticket is not known")?;
        if link.holder != holder.guest {
            return Err(format!("ticket {ticket} is of somebody else"));
        }
        let tenure = match mutant!(TenureIgnored) {
            true => now,
            false => issued.since.plus(self.swing.min_tenure),
        };
        let due = link.clauses.takes_at(now, tenure);
        let due = due.ok_or_else(|| format!("nothing in use is recalled of ticket {ticket}"))?;
        let due = due.max(now.plus(self.swing.notice));
        let due = if mutant!(OrderWithoutNotice) { now } else { due };
        if link.term.end() <= due {
            return Err(format!("ticket {ticket} ends before its units can be taken"));
        }
        let stay = self.staying(*ticket, issued).checked_sub(units.get());
        let stay =
            stay.ok_or_else(|| format!("ticket {ticket} has fewer than {units} units left"))?;
        match self.budget_left(&link.resource, now) {
            Some(left) if left < units.get() => Err(format!(
                "{left} more units of `{}` may be moved now, not {units}",
                link.resource
            )),
            Some(_) | None => Ok((due, stay)),
        }
    }

    /// Ends an order. What was not taken yet stays where it is.
    pub(super) fn end_order(
        &mut self,
        now: Time,
        end: OrderEnd,
        out: &mut Output,
    ) -> Result<(), String> {
        let OrderEnd { order: number, outcome, reason } = end;
        let open = self.state.orders.open.get(&number);
        let open = open.ok_or_else(|| format!("there is no order {number} that has not ended"))?;
        let freed = matches!(open.state, OrderState::Freed { .. });
        if outcome == OrderOutcome::Delivered && !freed {
            return Err(format!("order {number} is {}: it delivers nothing", open.state.word()));
        }
        let (link, units) = (open.order.ticket, open.order.units.get());
        let reason = truncate_text(&reason);
        self.emit(now, OrderEnded { order: number, outcome, reason }, out);
        if !freed && let Some(level) = self.without(now, link, units) {
            self.emit(now, RecallAsked { link, level }, out);
        }
        Ok(())
    }

    /// The level of a recall that leaves so many units more.
    fn without(&self, now: Time, link: LinkHash, units: u32) -> Option<crate::wire::recall::Level> {
        let recall = self.state.recalls.get(link).filter(|recall| recall.refusal.is_none())?;
        let ticket = self.sold(link)?.bottom();
        let others =
            self.state.orders.of(link).any(|(_, o)| !matches!(o.state, OrderState::Freed { .. }));
        let stay = recall.level.units.saturating_add(units);
        let stay = (others && stay < ticket.units.get()).then_some(stay);
        self.state.recalls.next(link, ticket, stay, recall.level.from.max(now)).ok()
    }

    /// The time of an order is over.
    pub(super) fn order_due(&mut self, now: Time, number: u64, out: &mut Output) {
        let Some(open) = self.state.orders.open.get(&number) else {
            return self.state.timers.set(Timer::Order(number), None);
        };
        let reason = match open.state {
            OrderState::Freed { .. } => "nobody has taken up what was freed for it",
            OrderState::Placed | OrderState::Recalled { .. } => "the lease of its units is over",
        };
        let end =
            OrderEnd { order: number, outcome: OrderOutcome::Cancelled, reason: reason.to_owned() };
        // It is open, so it can be cancelled.
        drop(self.end_order(now, end, out));
    }

    /// The site does not take the recall of a link: its orders are off.
    pub(super) fn cancel_refused(&mut self, now: Time, link: LinkHash, out: &mut Output) {
        let orders: Vec<u64> = self.state.orders.of(link).map(|(number, _)| number).collect();
        for order in orders {
            let reason = "its site does not recall the units".to_owned();
            self.emit(now, OrderEnded { order, outcome: OrderOutcome::Cancelled, reason }, out);
        }
    }

    pub(super) fn bounds_set(&mut self, fact: &BoundsSet) {
        self.state.orders.bounds.insert(fact.resource.clone(), fact.clone());
    }

    pub(super) fn order_placed(&mut self, at: Time, fact: &OrderPlaced) {
        let OrderPlaced { number, order, due, stay } = fact;
        let ticket = self.sold(order.ticket).map(|ticket| ticket.bottom().clone());
        let over = ticket.as_ref().map(|link| link.term.end());
        let over = Some(over.unwrap_or(*due)).filter(|_| !mutant!(OrdersNeverEnd));
        self.state.timers.set(Timer::Order(*number), over);
        let orders = &mut self.state.orders;
        orders.last = *number;
        while orders.moves.front().is_some_and(|(then, ..)| *then <= at.minus(MAX_WINDOW)) {
            orders.moves.pop_front();
        }
        if let Some(link) = ticket {
            orders.moves.push_back((at, link.resource.clone(), order.units.get()));
        }
        let (order, state) = (order.clone(), OrderState::Placed);
        orders.open.insert(*number, OpenOrder { order, state, placed: at, due: *due, stay: *stay });
    }

    pub(super) fn order_ended(&mut self, fact: &OrderEnded) {
        self.state.timers.set(Timer::Order(fact.order), None);
        self.state.orders.open.remove(&fact.order);
        self.state.rounds.call();
    }

    /// The site has recorded the recall of a link, or carried it out.
    pub(super) fn orders_recalled(
        &mut self,
        link: LinkHash,
        event: OrderEvent,
    ) -> Result<(), BadFact> {
        let number_of = |(number, order): (u64, &OpenOrder)| {
            (!matches!(order.state, OrderState::Freed { .. })).then_some(number)
        };
        let orders: Vec<u64> = self.state.orders.of(link).filter_map(number_of).collect();
        orders.into_iter().try_for_each(|number| self.step_order(number, event))
    }

    /// Units of a ticket are back: those for the first of its orders, as far as they go.
    pub(super) fn orders_freed(&mut self, at: Time, link: LinkHash) -> Result<(), BadFact> {
        let out = self.state.issued.get(&link).filter(|issued| !issued.returned);
        let out = out.map_or(0, |issued| issued.units);
        let freed = |(number, order): (u64, &OpenOrder)| {
            let waits = !matches!(order.state, OrderState::Freed { .. });
            (waits && out <= order.stay).then_some(number)
        };
        let orders: Vec<u64> = self.state.orders.of(link).filter_map(freed).collect();
        orders.into_iter().try_for_each(|number| self.step_order(number, OrderEvent::Freed(at)))
    }

    fn step_order(&mut self, number: u64, event: OrderEvent) -> Result<(), BadFact> {
        let open = self.state.orders.open.get_mut(&number);
        let open =
            open.ok_or_else(|| BadFact::Missing { kind: "order", what: number.to_string() })?;
        open.state = open.state.next(event)?;
        if let OrderState::Freed { at } = open.state {
            let over = Some(at.plus(FREED_FOR)).filter(|_| !mutant!(OrdersNeverEnd));
            self.state.timers.set(Timer::Order(number), over);
            self.state.rounds.call();
        }
        Ok(())
    }
}
