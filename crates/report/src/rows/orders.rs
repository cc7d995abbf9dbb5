//! The orders of brokers, and the units that they have moved.

use serde::{Deserialize, Serialize};
use tenure_core::broker::orders::OrderOutcome;
use tenure_core::model::identity::ActorId;
use tenure_core::model::time::Time;

use super::in_order;
use crate::broker::{Ended, Order};
use crate::history::History;
use crate::query::Query;

/// An order: units that are taken from a service for another one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OrderRow {
    /// Its broker and number, as `exchange/3`.
    pub order: String,
    /// `placed`, `recalled`, `freed`, `delivered` or `cancelled`.
    pub state: String,
    /// How many units.
    pub units: u32,
    /// The type.
    #[serde(rename = "type")]
    pub resource: String,
    /// The service that has them, by its guest.
    pub from: String,
    /// The service that claims them.
    pub to: String,
    /// What they are worth to the one that has them.
    pub worth: u64,
    /// What they are worth to the one that claims them.
    pub claim: u64,
    /// When it was placed.
    pub placed: String,
    /// When the site had recorded it.
    pub recalled: Option<String>,
    /// When the units are taken, as far as is known.
    pub due: String,
    /// When they were back.
    pub freed: Option<String>,
    /// When it ended.
    pub ended: Option<String>,
    /// Why.
    pub reason: Option<String>,
}

/// Units that an order has moved from one service to another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MoveRow {
    /// When the order had delivered them.
    pub at: String,
    /// The type.
    #[serde(rename = "type")]
    pub resource: String,
    /// The service that had them, by its guest.
    pub from: String,
    /// The service that has them since.
    pub to: String,
    /// How many.
    pub units: u32,
    /// The order: its broker and number.
    pub order: String,
    /// The broker.
    pub by: String,
}

impl History {
    /// The orders, each with its states and their times.
    pub fn orders(&self, query: &Query) -> Vec<OrderRow> {
        let wanted = self.asked_for(query);
        let held = |order: &Order| {
            let end = order.ended.as_ref().map(|ended| ended.at);
            query.takes_span(order.placed, end)
        };
        let wanted = wanted.filter(|(.., order)| held(order));
        let at = query.at.unwrap_or_else(|| self.end());
        let row = |(broker, number, order): (ActorId, u64, &Order)| {
            (order.placed, self.order_row(broker, number, order, at))
        };
        in_order(wanted.map(row).collect())
    }

    /// The units that orders have delivered.
    pub fn moves(&self, query: &Query) -> Vec<MoveRow> {
        let row = |(broker, number, order): (ActorId, u64, &Order)| {
            let ended = order.ended.as_ref();
            let ended = ended.filter(|ended| ended.outcome == OrderOutcome::Delivered)?;
            let row = query.takes_instant(ended.at);
            row.then(|| (ended.at, self.move_row(broker, number, order, ended.at)))
        };
        in_order(self.asked_for(query).filter_map(row).collect())
    }

    /// The orders of a type, from or for a service.
    fn asked_for<'a>(
        &'a self,
        query: &'a Query,
    ) -> impl Iterator<Item = (ActorId, u64, &'a Order)> {
        let orders = self.by_name(&self.brokers);
        let orders = orders.flat_map(|(id, of)| of.orders.iter().map(move |(&n, o)| (id, n, o)));
        orders.filter(|(.., order)| {
            let services = [&order.order.holder, &order.order.claimant];
            query.takes_type(&order.order.kind.resource)
                && services.iter().any(|of| self.is_asked_for(query, of.guest, &of.service))
        })
    }

    fn order_row(&self, broker: ActorId, number: u64, life: &Order, at: Time) -> OrderRow {
        let Order { order, placed, due, recalled, freed, ended, .. } = life;
        let text = |time: &Option<Time>| time.map(|time| time.to_string());
        let ended = ended.as_ref();
        OrderRow {
            order: format!("{}/{number}", self.name(broker)),
            state: life.state(at).to_owned(),
            units: order.units.get(),
            resource: order.kind.resource.to_string(),
            from: self.service(&order.holder),
            to: self.service(&order.claimant),
            worth: order.worth,
            claim: order.claim,
            placed: placed.to_string(),
            recalled: text(recalled),
            due: due.to_string(),
            freed: text(freed),
            ended: ended.map(|ended| ended.at.to_string()),
            reason: ended.map(|Ended { reason, .. }| reason.clone()),
        }
    }

    fn move_row(&self, broker: ActorId, number: u64, life: &Order, at: Time) -> MoveRow {
        let by = self.name(broker);
        MoveRow {
            at: at.to_string(),
            resource: life.order.kind.resource.to_string(),
            from: self.service(&life.order.holder),
            to: self.service(&life.order.claimant),
            units: life.order.units.get(),
            order: format!("{by}/{number}"),
            by,
        }
    }
}
