//! What a lease costs its guest.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::model::price::Cost;
use crate::mutants::mutant;
use crate::ticket::link::{Link, LinkHash, SignedLink};
use crate::ticket::receipt::Receipt;

/// What the tickets of a lease cost: units, times the length of the term, times the price of the link, less
/// what came back by the word of the site. Tickets without a price cost nothing.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Costs(BTreeMap<LinkHash, Charge>);

/// What one ticket costs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
struct Charge {
    price: u32,
    cost: Cost,
}

impl Costs {
    /// Those of one ticket.
    pub fn of(link: &SignedLink) -> Self {
        let mut costs = Self::default();
        costs.charge(link);
        costs
    }

    /// Adds a ticket.
    pub fn charge(&mut self, link: &SignedLink) {
        let Link { units, term, clauses, .. } = &**link;
        if let Some(price) = clauses.price {
            let cost = Cost::of(price, units.get(), *term);
            self.0.insert(link.hash(), Charge { price, cost });
        }
    }

    /// Takes off what came back.
    pub fn credit(&mut self, receipts: &[Receipt]) {
        for receipt in receipts.iter().filter(|_| !mutant!(ReturnsCostAllTheSame)) {
            if let Some(charge) = self.0.get_mut(&receipt.what.link) {
                let (units, term) = (receipt.what.units.get(), receipt.what.term);
                charge.cost = charge.cost.less(Cost::of(charge.price, units, term));
            }
        }
    }

    /// All of it; none if no ticket has a price.
    pub fn total(&self) -> Option<Cost> {
        self.0.values().map(|charge| charge.cost).reduce(Cost::plus)
    }
}
