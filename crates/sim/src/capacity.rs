//! What the sites of a deployment have.

use std::collections::BTreeMap;

use tenure_config::Stock;
use tenure_core::model::name::Name;

/// What all sites together have, by type.
pub type Capacity = BTreeMap<Name, OfType>;

/// What all sites together have of one type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OfType {
    /// How many units, or how much.
    pub units: u64,
    /// Whether units can be told apart.
    pub countable: bool,
}

/// What sites with these stocks have together.
pub fn capacity<'a>(sites: impl Iterator<Item = &'a BTreeMap<Name, Stock>>) -> Capacity {
    let mut capacity = Capacity::new();
    for (resource, stock) in sites.flatten() {
        let none = OfType { units: 0, countable: true };
        let of_type = capacity.entry(resource.clone()).or_insert(none);
        of_type.units += u64::from(stock.units);
        of_type.countable &= stock.countable() > 0;
    }
    capacity
}
