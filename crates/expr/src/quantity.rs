//! Exact numbers with a dimension.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::error::ParseError;
use crate::units::{Dimension, UNITS, Unit};
use crate::value::Value;

/// One, in millionths.
pub(crate) const ONE: i128 = 1_000_000;

/// A number, or a number of some unit: a decimal number in fixed point, with twenty digits before the
/// point and six after it.
///
/// It is held in millionths of the base unit of its [`Dimension`], so literals, sums, differences and
/// comparisons are exact. Products and quotients are rounded to the nearest millionth, halves away
/// from zero. Whatever is [`LIMIT`](Self::LIMIT) or more is an overflow, which is an error.
///
/// It is serialised as its literal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Quantity {
    dimension: Dimension,
    millionths: i128,
}

impl Quantity {
    /// Every quantity is nearer to zero than this number of millionths: 10^20 base units.
    pub const LIMIT: i128 = 100_000_000_000_000_000_000 * ONE;

    /// So many millionths of the base unit of `dimension`; none beyond [`LIMIT`](Self::LIMIT).
    pub fn from_millionths(millionths: i128, dimension: Dimension) -> Option<Self> {
        let fits = millionths.unsigned_abs() < Self::LIMIT.unsigned_abs();
        fits.then_some(Self { dimension, millionths })
    }

    /// A plain whole number.
    pub const fn number(number: i64) -> Self {
        Self { dimension: Dimension::Number, millionths: number as i128 * ONE }
    }

    /// So many bytes.
    pub const fn bytes(bytes: u64) -> Self {
        Self { dimension: Dimension::Size, millionths: bytes as i128 * ONE }
    }

    /// So many bits per second.
    pub const fn bits_per_second(bits: u64) -> Self {
        Self { dimension: Dimension::Rate, millionths: bits as i128 * ONE }
    }

    /// So many microseconds.
    pub const fn microseconds(micros: i64) -> Self {
        Self { dimension: Dimension::Duration, millionths: micros as i128 }
    }

    /// So many hertz.
    pub const fn hertz(hertz: u64) -> Self {
        Self { dimension: Dimension::Frequency, millionths: hertz as i128 * ONE }
    }

    /// What it measures.
    pub const fn dimension(self) -> Dimension {
        self.dimension
    }

    /// How many millionths of the base unit it is; for a duration, how many microseconds.
    pub const fn millionths(self) -> i128 {
        self.millionths
    }

    /// The whole number of base units, if it is one that fits.
    pub fn whole(self) -> Option<i64> {
        let whole = self.millionths % ONE == 0;
        whole.then_some(self.millionths / ONE).and_then(|number| number.try_into().ok())
    }

    pub(crate) fn negated(self) -> Self {
        Self { millionths: -self.millionths, ..self }
    }

    /// The sum of two quantities of one dimension; none on overflow.
    pub(crate) fn plus(self, other: Self) -> Option<Self> {
        Self::from_millionths(self.millionths.checked_add(other.millionths)?, self.dimension)
    }

    /// The product, of which at most one side has a unit; none on overflow.
    pub(crate) fn times(self, other: Self) -> Option<Self> {
        let dimension =
            if self.dimension == Dimension::Number { other.dimension } else { self.dimension };
        // Whole and fraction apart: the product of the fraction always fits, and where that of the
        // whole does not, neither does the result.
        let (whole, fraction) = (self.millionths / ONE, self.millionths % ONE);
        let exact = whole.checked_mul(other.millionths)?;
        let rounded = divide(fraction.checked_mul(other.millionths)?, ONE)?;
        Self::from_millionths(exact.checked_add(rounded)?, dimension)
    }

    /// The quotient by a number, or by a quantity of the same dimension; none on overflow or if `other`
    /// is zero.
    pub(crate) fn over(self, other: Self) -> Option<Self> {
        let dimension =
            if other.dimension == Dimension::Number { self.dimension } else { Dimension::Number };
        let quotient = divide(self.millionths.checked_mul(ONE)?, other.millionths)?;
        Self::from_millionths(quotient, dimension)
    }
}

/// `a / b`, rounded to the nearest whole number, halves away from zero.
fn divide(a: i128, b: i128) -> Option<i128> {
    let (quotient, rest) = (a.checked_div(b)?, a.checked_rem(b)?);
    let up = rest.unsigned_abs() >= b.unsigned_abs() - rest.unsigned_abs();
    let away = if (a < 0) == (b < 0) { 1 } else { -1 };
    if up { quotient.checked_add(away) } else { Some(quotient) }
}

impl TryFrom<String> for Quantity {
    type Error = ParseError;

    fn try_from(text: String) -> Result<Self, ParseError> {
        match Value::parse(&text)? {
            Value::Quantity(quantity) => Ok(quantity),
            Value::Flag(_) | Value::Text(_) | Value::Version(_) | Value::Set(_) => Err(
                ParseError::new(&text, 0..text.len(), "expected a number, with or without a unit"),
            ),
        }
    }
}

impl From<Quantity> for String {
    fn from(quantity: Quantity) -> Self {
        quantity.to_string()
    }
}

impl fmt::Display for Quantity {
    /// As a literal: in the largest unit of which it is a whole number, else as a decimal number of base
    /// units.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = || UNITS.iter().rev().filter(|unit| unit.dimension == self.dimension);
        let divides = |unit: &&Unit| self.millionths != 0 && self.millionths % unit.millionths == 0;
        let base = || units().find(|unit| unit.millionths == ONE);
        let unit = units().find(divides).or_else(base);
        let (one, symbol) = unit.map_or((ONE, ""), |unit| (unit.millionths, unit.symbol));
        let (whole, rest) = (self.millionths / one, (self.millionths % one).unsigned_abs());
        if self.millionths < 0 {
            f.write_str("-")?;
        }
        write!(f, "{}", whole.unsigned_abs())?;
        if rest != 0 {
            let digits = format!("{rest:06}");
            write!(f, ".{}", digits.trim_end_matches('0'))?;
        }
        f.write_str(symbol)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn millionths(millionths: i128) -> Quantity {
        Quantity::from_millionths(millionths, Dimension::Number).unwrap()
    }

    #[test]
    fn a_quantity_is_shown_in_the_largest_unit_that_divides_it() {
        for (quantity, shown) in [
            (Quantity::bytes(16 << 30), "16GiB"),
            (Quantity::bytes(16_000_000_000), "16GB"),
            (Quantity::bytes(0), "0B"),
            (Quantity::microseconds(90_000_000), "90s"),
            (Quantity::microseconds(-1_500_000), "-1500ms"),
            (Quantity::microseconds(129_600_000_000), "36h"),
            (Quantity::hertz(2_400_000_000), "2400MHz"),
            (Quantity::from_millionths(1_500_000, Dimension::Size).unwrap(), "1.5B"),
            (millionths(-250_000), "-0.25"),
            (Quantity::number(i64::MIN), "-9223372036854775808"),
        ] {
            assert_eq!(quantity.to_string(), shown);
        }
    }

    #[test]
    fn products_and_quotients_are_rounded_to_the_nearest_millionth() {
        let one = Quantity::number(1);
        let three = Quantity::number(3);
        assert_eq!(one.over(three), Some(millionths(333_333)));
        assert_eq!(Quantity::number(-2).over(three), Some(millionths(-666_667)));
        assert_eq!(millionths(1).times(millionths(500_000)), Some(millionths(1)));
        assert_eq!(millionths(-1).times(millionths(500_000)), Some(millionths(-1)));
        assert_eq!(millionths(1).times(millionths(499_999)), Some(millionths(0)));
        assert_eq!(Quantity::number(7).times(Quantity::number(6)), Some(Quantity::number(42)));
    }

    #[test]
    fn nothing_overflows_silently() {
        let most = millionths(Quantity::LIMIT - 1);
        assert_eq!(most.plus(millionths(1)), None);
        assert_eq!(most.times(most), None);
        assert_eq!(most.over(millionths(1)), None);
        assert_eq!(most.over(millionths(0)), None);
        assert_eq!(most.over(most), Some(Quantity::number(1)));
        assert_eq!(most.negated().plus(most), Some(millionths(0)));
        assert_eq!(Quantity::from_millionths(i128::MIN, Dimension::Number), None);
    }
}
