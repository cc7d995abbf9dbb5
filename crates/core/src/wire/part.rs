//! Parts of a ticket that come back to their site.

use std::collections::BTreeSet;
use std::num::NonZeroU32;

use serde::{Deserialize, Serialize};

use crate::driver::UnitId;
use crate::model::time::Time;

/// A part of what a ticket is for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Part {
    /// Some of the lease's units, from now on.
    Units(Vec<UnitId>),
    /// All units, from a future instant on.
    Until(Time),
    /// Some of the units of a ticket that is not redeemed, from an instant on.
    Rights {
        /// How many.
        units: NonZeroU32,
        /// From when on.
        from: Time,
    },
    /// So much of the lease's share of a divisible stock, from now on.
    Quantity(NonZeroU32),
}

impl Part {
    /// Whether it names this unit.
    pub fn names(&self, unit: UnitId) -> bool {
        matches!(self, Self::Units(units) if units.contains(&unit))
    }
}

/// The units that go when a lease is to have no more than `most`: the named ones first, then those with the
/// highest numbers. Guest and site choose by the same rule.
pub fn surplus(
    units: impl DoubleEndedIterator<Item = UnitId>,
    most: u32,
    named: &[UnitId],
) -> Vec<UnitId> {
    let named: BTreeSet<UnitId> = named.iter().copied().collect();
    let (first, others): (Vec<_>, Vec<_>) = units.rev().partition(|unit| named.contains(unit));
    let count = (first.len() + others.len()).saturating_sub(most as usize);
    first.into_iter().chain(others).take(count).collect()
}
