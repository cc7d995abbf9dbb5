//! Demands of users, as the protocol has them.

use std::num::NonZeroU32;

use tenure_core::model::name::Name;
use tenure_core::model::resource::{Constraints, Expr};
use tenure_core::wire::message::{Item, MAX_ITEMS};
use tenure_expr::{Demand, demand};

/// The items of a request that asks for what `demand` says.
///
/// # Errors
/// If the demand says something that the protocol cannot say yet, with what that is.
pub fn items(demand: &Demand) -> Result<Vec<Item>, String> {
    let [alternative] = demand.alternatives() else {
        return Err(not_yet("alternatives (`|`)", "ask for one of them"));
    };
    if alternative.bundles.iter().any(|bundle| bundle.items.len() > 1) {
        return Err(not_yet("items together from one stack (`( )`)", "leave the parentheses out"));
    }
    let items: Vec<Item> = alternative.items().map(item).collect::<Result<_, _>>()?;
    if items.len() > MAX_ITEMS {
        return Err(format!("a request has at most {MAX_ITEMS} items, not {}", items.len()));
    }
    Ok(items)
}

fn item(wanted: &demand::Item) -> Result<Item, String> {
    if wanted.optional {
        return Err(not_yet("items that may be left out (`optional`)", "leave them out"));
    }
    if !wanted.after.is_zero() {
        let help = "make a request of its own for what is wanted later";
        return Err(not_yet("items that begin later than others (`after`)", help));
    }
    let units = |units| NonZeroU32::new(units).ok_or("an item has at least 1 unit");
    Ok(Item {
        resource: Name::new(&wanted.kind).map_err(|error| error.to_string())?,
        units: units(wanted.max_units)?,
        min_units: units(wanted.min_units)?,
        requirements: wanted.condition.iter().cloned().collect(),
        extends: None,
    })
}

fn not_yet(what: &str, help: &str) -> String {
    format!("{what} are not supported yet; {help}")
}

/// What a request asks for, as a demand. No check is made that it can be read again: an item that a program
/// made may have several requirements.
pub(super) fn text(items: &[Item]) -> String {
    items.iter().map(text_of).collect::<Vec<_>>().join(", ")
}

fn text_of(item: &Item) -> String {
    let Item { resource, units, min_units, requirements, .. } = item;
    let range = if min_units < units { format!("{min_units}..{units}") } else { units.to_string() };
    match joined(requirements) {
        requirements if requirements.is_empty() => format!("{range} {resource}"),
        requirements => format!("{range} {resource} where '{requirements}'"),
    }
}

/// All requirements as one expression.
fn joined(requirements: &Constraints) -> String {
    let each: Vec<&str> = requirements.iter().map(Expr::as_str).collect();
    match each[..] {
        [one] => one.to_owned(),
        _ => each.iter().map(|expr| format!("({expr})")).collect::<Vec<_>>().join(" and "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(demand: &str) -> Result<Vec<Item>, String> {
        items(&Demand::parse(demand).unwrap())
    }

    #[test]
    fn a_demand_is_a_list_of_items() {
        let wanted = r#"4..8 node where 'cpus >= 8 and site != "b"', (1 gpu)"#;
        let items = read(wanted).unwrap();
        let units = |item: &Item| (item.min_units.get(), item.units.get(), item.requirements.len());
        assert_eq!(items.iter().map(units).collect::<Vec<_>>(), [(4, 8, 1), (1, 1, 0)]);
        assert_eq!(text(&items), r#"4..8 node where 'cpus >= 8 and site != "b"', 1 gpu"#);
    }

    #[test]
    fn what_the_protocol_cannot_say_is_named() {
        for (demand, what) in [
            ("4 node | 8 small-node", "alternatives (`|`)"),
            ("(4 node, 1 disk)", "`( )`"),
            ("4 node, optional 1 gpu", "`optional`"),
            ("4 node, 1 disk after 1h", "`after`"),
        ] {
            let error = read(demand).unwrap_err();
            assert!(error.contains(what) && error.contains("not supported yet"), "{error}");
        }
        let many = vec!["1 node"; MAX_ITEMS + 1].join(", ");
        assert!(read(&many).unwrap_err().contains("at most 16 items"));
    }
}
