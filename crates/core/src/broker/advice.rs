//! Orders that are only advised on: what a mapper would take from services is recorded instead of done.

use super::facts::OrdersAdvised;
use super::orders::UnitOrder;
use super::{Broker, Output};
use crate::actor::Emit as _;
use crate::model::time::Time;

/// The most orders that are advised at a time.
pub const MAX_ADVISED: usize = 256;

impl Broker {
    /// What its mapper would order now, if its orders are only advised.
    pub fn advised_orders(&self) -> &[UnitOrder] {
        &self.state.orders.advised
    }

    /// Places the orders of a decision. If they are only advised, those that could be placed are recorded, once.
    pub(super) fn carry_out_orders(
        &mut self,
        now: Time,
        orders: Vec<UnitOrder>,
        out: &mut Output,
    ) -> Vec<Result<(), String>> {
        let (mut done, mut advised) = (Vec::new(), Vec::new());
        for order in orders {
            if !self.swing.advise {
                done.push(self.place_order(now, order, out));
                continue;
            }
            done.push(self.check_order(now, &order).map(|_| advised.push(order)));
        }
        advised.truncate(MAX_ADVISED);
        if !are_same(&advised, &self.state.orders.advised) {
            self.emit(now, OrdersAdvised { orders: advised }, out);
        }
        done
    }

    pub(super) fn orders_advised(&mut self, fact: &OrdersAdvised) {
        self.state.orders.advised = fact.orders.clone();
    }
}

/// Whether the same units are ordered for the same services. A change of what they are worth alone is not recorded.
fn are_same(new: &[UnitOrder], known: &[UnitOrder]) -> bool {
    let same = |(a, b): (&UnitOrder, &UnitOrder)| {
        let at = UnitOrder { claim: b.claim, worth: b.worth, ..a.clone() };
        at == *b
    };
    new.len() == known.len() && new.iter().zip(known).all(same)
}
