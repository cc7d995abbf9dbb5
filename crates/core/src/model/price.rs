//! Prices, and what units cost: exact, in whole numbers, without a currency.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::name::Name;
use super::property::Properties;
use super::resource::{Attributes, Constraints, Expr, Value};
use super::time::Term;

/// The attribute with the price of one unit for an hour.
pub const PRICE: &str = "price";

/// Microseconds of an hour.
const HOUR: u128 = 3_600_000_000;

/// The price that attributes state: a whole number from 0 on. Another value is no price.
pub fn price_of(attributes: &Attributes) -> Option<u32> {
    let stated = attributes.get(PRICE)?;
    let Value::Quantity(quantity) = stated else { return None };
    let whole = quantity.whole().filter(|whole| Value::from(*whole) == *stated)?;
    u32::try_from(whole).ok()
}

/// Whether requirements that are about the price alone hold of it.
pub(crate) fn allowed(requirements: &Constraints, price: Option<u32>) -> bool {
    let stated = priced(Attributes::new(), price);
    let about_price = |expr: &&Expr| expr.attributes().iter().all(|name| *name == PRICE);
    let about_price = requirements.iter().filter(about_price).cloned().collect::<Constraints>();
    about_price.first_broken(&stated, &Properties::default()).is_none()
}

/// `attributes` with this price.
pub(crate) fn priced(mut attributes: Attributes, price: Option<u32>) -> Attributes {
    if let Some(price) = price {
        attributes.insert(Name::literal(PRICE), Value::from(i64::from(price)));
    }
    attributes
}

/// What units cost over a time: the sum of price, units and microseconds. It is shown in thousandths of what
/// a unit of price 1 costs in an hour, rounded down.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Cost(u128);

impl Cost {
    /// Nothing.
    pub const ZERO: Self = Self(0);

    /// What so many units cost over a term.
    pub fn of(price: u32, units: u32, term: Term) -> Self {
        let micros = u128::try_from(term.duration().as_micros()).unwrap_or(0);
        Self(u128::from(price) * u128::from(units) * micros)
    }

    /// The sum.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }

    /// What is left without `other`, at least nothing.
    #[must_use]
    pub fn less(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }

    /// In thousandths, rounded down.
    pub fn thousandths(self) -> u128 {
        let (hours, rest) = (self.0 / HOUR, self.0 % HOUR);
        hours.saturating_mul(1000).saturating_add(rest * 1000 / HOUR)
    }
}

impl fmt::Display for Cost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let thousandths = self.thousandths();
        let text = format!("{}.{:03}", thousandths / 1000, thousandths % 1000);
        f.pad(text.trim_end_matches('0').trim_end_matches('.'))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::time::{Span, Time};

    fn lasting(secs: i64) -> Term {
        Term::lasting(Time::ZERO, Span::from_secs(secs)).unwrap()
    }

    #[test]
    fn a_cost_is_price_times_units_times_hours_rounded_down_once() {
        for (price, units, secs, text) in [
            (3, 2, 3600, "6"),
            (1, 1, 1, "0"),
            (1, 1, 4, "0.001"),
            (5, 1, 600, "0.833"),
            (0, 9, 3600, "0"),
            (10, 1, 3600, "10"),
        ] {
            assert_eq!(Cost::of(price, units, lasting(secs)).to_string(), text);
        }
        let third = Cost::of(1, 1, lasting(1200));
        assert_eq!(third.plus(third).plus(third).to_string(), "1");
        assert_eq!(third.less(third.plus(third)), Cost::ZERO);
    }

    #[test]
    fn only_a_whole_number_is_a_price() {
        for (text, price) in [
            ("3", Some(3)),
            ("0", Some(0)),
            ("-1", None),
            ("1.5", None),
            ("3GiB", None),
            ("\"3\"", None),
            ("4294967296", None),
        ] {
            let value = Value::parse(text).unwrap();
            let stated = Attributes::from([(Name::literal(PRICE), value)]);
            assert_eq!(price_of(&stated), price, "{text}");
        }
        assert_eq!(price_of(&Attributes::new()), None);
    }
}
