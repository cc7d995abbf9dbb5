//! Demands of users, as the protocol has them.

use std::collections::BTreeMap;
use std::num::NonZeroU32;

use tenure_config::Profiles;
use tenure_core::model::name::Name;
use tenure_core::model::resource::{Constraints, Expr};
use tenure_core::model::time::Span;
use tenure_core::wire::request::{Item, MAX_ITEMS};
use tenure_expr::{Demand, ParseError, demand};

/// The items of a request that asks for what `demand` says, of units of types or of profiles.
///
/// # Errors
/// If the demand is beyond the bounds of the protocol, with how.
pub fn items(demand: &Demand, profiles: &Profiles) -> Result<Vec<Item>, String> {
    let mut items = Vec::new();
    let mut together = 0..=u8::MAX;
    for (choice, alternative) in (0u8..).zip(demand.alternatives()) {
        for bundle in &alternative.bundles {
            let together = (bundle.items.len() > 1).then(|| together.next()).flatten();
            for wanted in &bundle.items {
                items.push(Item { choice, together, ..item(wanted, profiles)? });
            }
        }
    }
    if items.len() > MAX_ITEMS {
        return Err(format!("a request has at most {MAX_ITEMS} items, not {}", items.len()));
    }
    Ok(items)
}

/// Adds to an item what must hold of its units beside what must already.
///
/// # Errors
/// If both together exceed what an expression may be.
pub fn narrow(item: &mut demand::Item, condition: &Expr) -> Result<(), ParseError> {
    item.condition = Some(match &item.condition {
        Some(before) => before.and(condition)?,
        None => condition.clone(),
    });
    Ok(())
}

fn item(wanted: &demand::Item, profiles: &Profiles) -> Result<Item, String> {
    let units = |units| NonZeroU32::new(units).ok_or("an item has at least 1 unit");
    let offset = i64::try_from(wanted.after.as_micros()).map_err(|error| error.to_string())?;
    let kind = Name::new(&wanted.kind).map_err(|error| error.to_string())?;
    let (resource, condition) = match profiles.get(&kind) {
        Some(profile) => {
            let narrowed = profile.narrowed(wanted.condition.as_ref());
            let too_long = |error| format!("the condition with that of profile `{kind}`: {error}");
            (profile.resource.clone(), narrowed.map_err(too_long)?)
        }
        None => (kind, wanted.condition.clone()),
    };
    Ok(Item {
        min_units: units(wanted.min_units)?,
        requirements: condition.into_iter().collect(),
        optional: wanted.optional,
        offset: Span::from_micros(offset),
        ..Item::new(resource, units(wanted.max_units)?)
    })
}

/// What a request asks for, as a demand. No check is made that it can be read again: an item that a program
/// made may have several requirements.
pub(super) fn text(items: &[Item]) -> String {
    let mut choices: BTreeMap<u8, Vec<&Item>> = BTreeMap::new();
    for item in items {
        choices.entry(item.choice).or_default().push(item);
    }
    choices.values().map(|items| text_of_choice(items)).collect::<Vec<_>>().join(" | ")
}

/// The items of one alternative; neighbours that belong together in parentheses.
fn text_of_choice(items: &[&Item]) -> String {
    let same = |one: &&Item, next: &&Item| one.together.is_some() && one.together == next.together;
    let bundles = items.chunk_by(same).map(|bundle| {
        let items = bundle.iter().map(|item| text_of(item)).collect::<Vec<_>>().join(", ");
        if bundle.len() > 1 { format!("({items})") } else { items }
    });
    bundles.collect::<Vec<_>>().join(", ")
}

fn text_of(item: &Item) -> String {
    let Item { resource, units, min_units, requirements, optional, offset, .. } = item;
    let optional = if *optional { "optional " } else { "" };
    let range = if min_units < units { format!("{min_units}..{units}") } else { units.to_string() };
    let after = if *offset > Span::ZERO { format!(" after {offset}") } else { String::new() };
    match joined(requirements) {
        requirements if requirements.is_empty() => format!("{optional}{range} {resource}{after}"),
        requirements => format!("{optional}{range} {resource}{after} where '{requirements}'"),
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
    use tenure_config::Profile;

    fn read(demand: &str) -> Result<Vec<Item>, String> {
        items(&Demand::parse(demand).unwrap(), &Profiles::new())
    }

    #[test]
    fn a_profile_adds_its_condition_and_what_the_demand_does_not_say_otherwise() {
        let expr = |text: &str| Expr::parse_condition(text).unwrap();
        let defaults = [(Name::literal("online"), expr("online = true"))].into();
        let condition = Some(expr("sim"));
        let phone = Profile { resource: Name::literal("phone"), condition, defaults };
        let profiles = Profiles::from([(Name::literal("handset"), phone)]);
        for (demand, text) in [
            ("2 handset", "2 phone where 'sim and online = true'"),
            (
                "1 handset where model = \"p7\"",
                "1 phone where 'model = \"p7\" and sim and online = true'",
            ),
            ("1 handset where online = false", "1 phone where 'online = false and sim'"),
            ("1 phone", "1 phone"),
        ] {
            let items = items(&Demand::parse(demand).unwrap(), &profiles).unwrap();
            assert_eq!(self::text(&items), text);
        }
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
    fn every_demand_is_said_in_items() {
        for demand in [
            "4 node | 8 small-node",
            "(4 node, 1 disk), 2 gpu",
            "4 node, optional 1 gpu",
            "4 node, 1..2 disk after 1h where 'fast'",
            "(1 a, 1 b), (1 a, 1 b) | (1 c, 1 d)",
        ] {
            assert_eq!(text(&read(demand).unwrap()), demand);
        }
        let items = read("(1 a, 1 b), (1 c, 1 d) | 1 e, optional 2 f after 1h").unwrap();
        let said = |item: &Item| (item.choice, item.together, item.optional, item.offset);
        assert_eq!(said(&items[0]), (0, Some(0), false, Span::ZERO));
        assert_eq!(said(&items[2]), (0, Some(1), false, Span::ZERO));
        assert_eq!(said(&items[4]), (1, None, false, Span::ZERO));
        assert_eq!(said(&items[5]), (1, None, true, Span::HOUR));
    }
}
