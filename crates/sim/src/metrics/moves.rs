//! Units that are moved between services.

use std::collections::BTreeMap;

use tenure_core::broker::facts::Fact;
use tenure_core::broker::needs::ServiceId;
use tenure_core::broker::orders::{OrderOutcome, UnitOrder};
use tenure_core::model::time::{Span, Time};

/// Within what time a unit goes back for its move to be a swing.
const SWING: Span = Span::HOUR;

/// The moves by the orders of brokers.
#[derive(Debug, Default)]
pub(super) struct Moves {
    /// Orders that have not ended, by broker and number.
    open: BTreeMap<(usize, u64), UnitOrder>,
    done: Vec<Move>,
}

/// Units that an order has delivered.
#[derive(Debug)]
struct Move {
    at: Time,
    from: ServiceId,
    to: ServiceId,
    units: u64,
}

impl Moves {
    pub(super) fn observe(&mut self, broker: usize, at: Time, fact: &Fact) {
        if let Fact::OrderPlaced(fact) = fact {
            self.open.insert((broker, fact.number), fact.order.clone());
        } else if let Fact::OrderEnded(fact) = fact
            && let Some(order) = self.open.remove(&(broker, fact.order))
            && fact.outcome == OrderOutcome::Delivered
        {
            let units = u64::from(order.units.get());
            self.done.push(Move { at, from: order.holder, to: order.claimant, units });
        }
    }

    /// How many units were moved, and how many of those went back within [`SWING`].
    pub(super) fn count(&self) -> (u64, u64) {
        let moves = self.done.iter().map(|moved| moved.units).sum();
        let mut left: Vec<u64> = self.done.iter().map(|moved| moved.units).collect();
        let mut swings = 0;
        for (later, moved) in self.done.iter().enumerate() {
            let mut back = moved.units;
            for earlier in (0..later).rev() {
                let before = &self.done[earlier];
                if before.at < moved.at.minus(SWING) {
                    break;
                }
                if (&before.from, &before.to) == (&moved.to, &moved.from) {
                    let units = back.min(left[earlier]);
                    (left[earlier], back) = (left[earlier] - units, back - units);
                    swings += units;
                }
            }
        }
        (moves, swings)
    }
}
