//! Amounts of what places have and parts need, and prices.

use std::fmt;
use std::str::FromStr;

use serde::de::{self, Deserializer, Visitor};
use serde::{Deserialize, Serialize, Serializer};
use tenure_expr::{Dimension, Quantity, Value};

const MILLION: i128 = 1_000_000;

/// A whole amount of something: a number, or a quantity of a unit such as `16GiB`, in base units; a length
/// of time in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Amount {
    value: u64,
    dimension: Dimension,
}

impl Amount {
    /// A plain number.
    pub const fn number(value: u64) -> Self {
        Self { value, dimension: Dimension::Number }
    }

    /// How many base units; of a length of time, how many microseconds.
    pub const fn value(self) -> u64 {
        self.value
    }

    /// What it measures.
    pub const fn dimension(self) -> Dimension {
        self.dimension
    }

    /// What is left of it once `other` is taken; the same if that measures something else.
    #[must_use]
    pub fn less(self, other: Self) -> Self {
        if self.dimension == other.dimension {
            self.with(self.value.saturating_sub(other.value))
        } else {
            self
        }
    }

    /// So many of the same units.
    pub(crate) fn with(self, value: u64) -> Self {
        Self { value, ..self }
    }

    /// A part of it, rounded down, but at least 1 if it was more than 0.
    pub(crate) fn percent(self, percent: u64) -> Self {
        let part = u128::from(self.value) * u128::from(percent) / 100;
        let value = u64::try_from(part).unwrap_or(u64::MAX).max(u64::from(self.value > 0));
        Self { value, ..self }
    }

    fn parse(text: &str) -> Result<Self, String> {
        let Ok(Value::Quantity(quantity)) = Value::parse(text) else {
            return Err(format!("`{text}` is not an amount such as 8 or 16GiB"));
        };
        let parts = quantity.millionths();
        let whole = parts % MILLION == 0 || quantity.dimension() == Dimension::Duration;
        let parts =
            if quantity.dimension() == Dimension::Duration { parts } else { parts / MILLION };
        let value = whole.then_some(parts).and_then(|parts| u64::try_from(parts).ok());
        let value = value.ok_or_else(|| {
            format!("`{text}` is not a whole number of base units that is 0 or more")
        })?;
        Ok(Self { value, dimension: quantity.dimension() })
    }
}

impl FromStr for Amount {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::parse(text)
    }
}

impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = if self.dimension == Dimension::Duration { 1 } else { MILLION };
        match Quantity::from_millionths(i128::from(self.value) * parts, self.dimension) {
            Some(quantity) => quantity.fmt(f),
            None => self.value.fmt(f),
        }
    }
}

impl Serialize for Amount {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.dimension == Dimension::Number {
            serializer.serialize_u64(self.value)
        } else {
            serializer.collect_str(self)
        }
    }
}

impl<'de> Deserialize<'de> for Amount {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(AmountVisitor)
    }
}

struct AmountVisitor;

impl Visitor<'_> for AmountVisitor {
    type Value = Amount;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an amount: a whole number, or a text such as \"16GiB\"")
    }

    fn visit_u64<E: de::Error>(self, value: u64) -> Result<Amount, E> {
        Ok(Amount::number(value))
    }

    fn visit_i64<E: de::Error>(self, value: i64) -> Result<Amount, E> {
        let value = u64::try_from(value);
        value.map(Amount::number).map_err(|_| E::custom("an amount must not be negative"))
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Amount, E> {
        Amount::parse(text).map_err(E::custom)
    }
}

/// A price of one unit, exact to the millionth.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Price {
    millionths: u64,
}

impl Price {
    /// The price of so many millionths.
    pub const fn from_millionths(millionths: u64) -> Self {
        Self { millionths }
    }

    /// How many millionths it is.
    pub const fn millionths(self) -> u64 {
        self.millionths
    }

    /// Whether it costs nothing.
    pub fn is_zero(&self) -> bool {
        self.millionths == 0
    }

    fn from_decimal(number: f64) -> Result<Self, &'static str> {
        // Beyond this, a float no longer tells millionths apart.
        if !(0.0..=9_000_000_000.0).contains(&number) {
            return Err("a price must be between 0 and 9000000000");
        }
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "checked above"
        )]
        let millionths = (number * 1e6).round() as u64;
        Ok(Self { millionths })
    }
}

impl fmt::Display for Price {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, rest) = (self.millionths / 1_000_000, self.millionths % 1_000_000);
        if rest == 0 {
            return whole.fmt(f);
        }
        let digits = format!("{rest:06}");
        write!(f, "{whole}.{}", digits.trim_end_matches('0'))
    }
}

impl Serialize for Price {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.millionths.is_multiple_of(1_000_000) {
            serializer.serialize_u64(self.millionths / 1_000_000)
        } else {
            #[expect(clippy::cast_precision_loss, reason = "read back to the nearest millionth")]
            serializer.serialize_f64(self.millionths as f64 / 1e6)
        }
    }
}

impl<'de> Deserialize<'de> for Price {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(PriceVisitor)
    }
}

struct PriceVisitor;

impl Visitor<'_> for PriceVisitor {
    type Value = Price;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a price: a number that is 0 or more")
    }

    fn visit_u64<E: de::Error>(self, value: u64) -> Result<Price, E> {
        let millionths = value.checked_mul(1_000_000);
        millionths.map(Price::from_millionths).ok_or_else(|| E::custom("the price is too high"))
    }

    fn visit_i64<E: de::Error>(self, value: i64) -> Result<Price, E> {
        match u64::try_from(value) {
            Ok(value) => self.visit_u64(value),
            Err(_) => Err(E::custom("a price must not be negative")),
        }
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<Price, E> {
        Price::from_decimal(value).map_err(E::custom)
    }
}
