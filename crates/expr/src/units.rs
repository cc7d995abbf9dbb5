//! Units of measure and the dimensions they belong to.

use std::fmt;

use crate::error::nearest;
use crate::quantity::ONE;

/// What a quantity measures. Only quantities of one dimension can be compared or added.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Dimension {
    /// A plain number, without a unit.
    Number,
    /// An amount of data, in bytes.
    Size,
    /// Data per time, in bits per second.
    Rate,
    /// A length of time, in seconds.
    Duration,
    /// Events per time, in hertz.
    Frequency,
}

impl Dimension {
    /// The unit that quantities of the dimension are counted in; none for plain numbers.
    pub(crate) fn base_unit(self) -> Option<&'static str> {
        let mut units = UNITS.iter().filter(|unit| unit.dimension == self);
        units.find(|unit| unit.millionths == ONE).map(|unit| unit.symbol)
    }

    /// A common unit of the dimension, for messages; none for plain numbers.
    pub(crate) fn usual_unit(self) -> Option<&'static str> {
        match self {
            Self::Number => None,
            Self::Size => Some("GiB"),
            Self::Rate => Some("Gbps"),
            Self::Duration => Some("h"),
            Self::Frequency => Some("GHz"),
        }
    }
}

impl fmt::Display for Dimension {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Number => "number",
            Self::Size => "size",
            Self::Rate => "bit rate",
            Self::Duration => "duration",
            Self::Frequency => "frequency",
        })
    }
}

/// A unit of measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unit {
    /// How it is written, directly after a number.
    pub symbol: &'static str,
    /// What it measures.
    pub dimension: Dimension,
    /// How many millionths of the base unit it is. The base units are `B`, `bps`, `s` and `Hz`.
    pub millionths: i128,
}

const fn unit(symbol: &'static str, dimension: Dimension, millionths: i128) -> Unit {
    Unit { symbol, dimension, millionths }
}

/// All units, by dimension, in ascending order.
pub const UNITS: [Unit; 22] = [
    unit("B", Dimension::Size, ONE),
    unit("kB", Dimension::Size, 1_000 * ONE),
    unit("KiB", Dimension::Size, (1 << 10) * ONE),
    unit("MB", Dimension::Size, 1_000_000 * ONE),
    unit("MiB", Dimension::Size, (1 << 20) * ONE),
    unit("GB", Dimension::Size, 1_000_000_000 * ONE),
    unit("GiB", Dimension::Size, (1 << 30) * ONE),
    unit("TB", Dimension::Size, 1_000_000_000_000 * ONE),
    unit("TiB", Dimension::Size, (1 << 40) * ONE),
    unit("bps", Dimension::Rate, ONE),
    unit("kbps", Dimension::Rate, 1_000 * ONE),
    unit("Mbps", Dimension::Rate, 1_000_000 * ONE),
    unit("Gbps", Dimension::Rate, 1_000_000_000 * ONE),
    unit("us", Dimension::Duration, 1),
    unit("ms", Dimension::Duration, 1_000),
    unit("s", Dimension::Duration, ONE),
    unit("m", Dimension::Duration, 60 * ONE),
    unit("h", Dimension::Duration, 3_600 * ONE),
    unit("d", Dimension::Duration, 86_400 * ONE),
    unit("Hz", Dimension::Frequency, ONE),
    unit("MHz", Dimension::Frequency, 1_000_000 * ONE),
    unit("GHz", Dimension::Frequency, 1_000_000_000 * ONE),
];

/// The unit that is written so, or what to say of it.
pub(crate) fn find(symbol: &str) -> Result<Unit, String> {
    UNITS.into_iter().find(|unit| unit.symbol == symbol).ok_or_else(|| {
        let near = UNITS
            .iter()
            .find(|unit| unit.symbol.eq_ignore_ascii_case(symbol))
            .map(|unit| unit.symbol)
            .or_else(|| nearest(symbol, UNITS.iter().map(|unit| unit.symbol)));
        match near {
            Some(near) => format!("unknown unit `{symbol}`; did you mean `{near}`?"),
            None => format!("unknown unit `{symbol}`"),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_ascend_within_a_dimension_and_each_has_a_base() {
        for pair in UNITS.windows(2) {
            let (low, high) = (pair[0], pair[1]);
            assert!((low.dimension, low.millionths) < (high.dimension, high.millionths));
        }
        for unit in UNITS {
            let base = |other: &Unit| other.dimension == unit.dimension && other.millionths == ONE;
            assert_eq!(UNITS.iter().filter(|other| base(other)).count(), 1);
        }
    }

    #[test]
    fn every_unit_is_documented() {
        for text in [include_str!("lib.rs"), include_str!("../../../docs/EXPRESSIONS.md")] {
            for unit in UNITS {
                assert!(text.contains(&format!("`{}`", unit.symbol)), "{} is missing", unit.symbol);
            }
        }
    }

    #[test]
    fn a_misspelt_unit_is_recognised() {
        let said = |symbol| find(symbol).unwrap_err();
        assert_eq!(said("gib"), "unknown unit `gib`; did you mean `GiB`?");
        assert_eq!(said("parsec"), "unknown unit `parsec`");
    }
}
