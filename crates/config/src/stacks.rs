//! Stacks: which units of a site are lent to one holder at a time.

use std::collections::{BTreeMap, BTreeSet};

use tenure_core::model::name::Name;
use tenure_core::site_authority::Stacks;
use toml::Spanned;

use crate::stock::RawStacks;
use crate::{ConfigError, Stock, StockReader};

impl StockReader<'_> {
    /// The stacks of a site: of units that there are, and that one broker sells.
    pub(crate) fn stacks(
        &self,
        given: RawStacks,
        stocks: &BTreeMap<Name, Stock>,
    ) -> Result<Stacks, ConfigError> {
        let mut stacks = Stacks::new();
        let units = given.values().flatten();
        let stacked: BTreeSet<Name> = units.map(|unit| unit.get_ref().clone()).collect();
        self.all_named(&given, &stacked, stocks)?;
        let sellers = sellers(&stacked, stocks);
        for (stack, units) in given {
            let mut seen: BTreeMap<&Name, &Name> = BTreeMap::new();
            for unit in &units {
                let Some(seller) = sellers.get(unit.get_ref()) else { continue };
                seen.insert(seller, unit.get_ref());
            }
            if let [(one, first), (other, second), ..] = seen.iter().collect::<Vec<_>>()[..] {
                let message = format!(
                    "`{first}` is delegated to `{one}`, and `{second}` of the same stack to `{other}`"
                );
                let help = "delegate the stocks of a stack to one broker: `brokers = [...]`";
                return self.refuse(stack.span(), message, help);
            }
            let units: BTreeSet<Name> = units.into_iter().map(Spanned::into_inner).collect();
            if units.len() < 2 {
                let message = format!("stack `{}` has no two units", stack.get_ref());
                return self.refuse(stack.span(), message, "name the units that belong together");
            }
            stacks.insert(stack.into_inner(), units);
        }
        Ok(stacks)
    }

    /// Whether all units in stacks have names, and all others of their types too.
    fn all_named(
        &self,
        given: &RawStacks,
        stacked: &BTreeSet<Name>,
        stocks: &BTreeMap<Name, Stock>,
    ) -> Result<(), ConfigError> {
        let named = |name: &Name| stocks.values().any(|stock| stock.named.contains_key(name));
        if let Some(unit) = given.values().flatten().find(|unit| !named(unit.get_ref())) {
            let message = format!("no unit of the site is named `{}`", unit.get_ref());
            let help = "name it in the stock of its type: `[site.NAME.stock.TYPE.named]`";
            return self.refuse(unit.span(), message, help);
        }
        let partly = |(_, stock): &(&Name, &Stock)| {
            stock.named.keys().any(|name| stacked.contains(name))
                && usize::try_from(stock.units) != Ok(stock.named.len())
        };
        match (stocks.iter().find(partly), given.keys().next()) {
            (Some((resource, _)), Some(stack)) => {
                let message =
                    format!("some units of `{resource}` are in stacks, and some have no name");
                self.refuse(stack.span(), message, "give each unit of that type a name")
            }
            (Some(_), None) | (None, _) => Ok(()),
        }
    }
}

/// Which broker each unit of a type with stacks is delegated to: by name, in the order of the brokers.
fn sellers<'a>(
    stacked: &BTreeSet<Name>,
    stocks: &'a BTreeMap<Name, Stock>,
) -> BTreeMap<&'a Name, &'a Name> {
    let types =
        stocks.values().filter(|stock| stock.named.keys().any(|name| stacked.contains(name)));
    let of_type = types.flat_map(|stock| {
        let shares = stock.brokers.iter();
        let brokers = shares.flat_map(|(broker, units)| (0..units.get()).map(move |_| broker));
        stock.named.keys().zip(brokers)
    });
    of_type.collect()
}
