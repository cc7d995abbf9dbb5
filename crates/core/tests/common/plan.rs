//! What the site of a world has and delegates.

use std::collections::BTreeMap;

use tenure_core::model::name::Name;
use tenure_core::model::resource::{Attributes, DIVISIBLE, Value};
use tenure_core::model::time::Span;
use tenure_core::site_authority::{Offer, Plan, Stock};

use super::{id, node, units};

pub(super) fn plan(
    broker: u8,
    (stock, divisible): (u32, bool),
    disks: u32,
    (length, renew_before): (Span, Span),
) -> Plan {
    let attributes = Attributes::from([(Name::literal("cpus"), Value::from(8))]);
    let offer = Offer {
        broker: id(broker),
        resource: node(),
        units: units(stock),
        length,
        renew_before,
        unit: None,
    };
    let disk = Name::literal("disk");
    let mut nodes = Stock {
        resource: node(),
        attributes: attributes.clone(),
        units: stock,
        named: BTreeMap::new(),
    };
    if divisible {
        nodes.attributes.insert(Name::literal(DIVISIBLE), Value::Flag(true));
    }
    let disks = Stock { resource: disk, attributes, units: disks, named: BTreeMap::new() };
    Plan { stock: vec![nodes, disks], offers: vec![offer], ..Plan::default() }
}

/// The same with names for the nodes, `n0` and so on, and a stack for each two of them.
pub(super) fn with_stacks(mut plan: Plan) -> Plan {
    let name = |kind: &str, nth: u32| Name::new(&format!("{kind}{nth}")).unwrap();
    let nodes = &mut plan.stock[0];
    nodes.named = (0..nodes.units).map(|nth| (name("n", nth), Attributes::new())).collect();
    for nth in (0..nodes.units).step_by(2) {
        let units = (nth..nodes.units.min(nth + 2)).map(|nth| name("n", nth)).collect();
        plan.stacks.insert(name("stack", nth), units);
    }
    plan
}
