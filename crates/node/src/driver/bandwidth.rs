//! How much an interface may send in a time.

use std::fmt;
use std::num::NonZeroU32;

use serde::{Deserialize, Serialize};

/// A rate of whole kilobits a second, as `40Mbit`: at least one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Bandwidth {
    kbit: u64,
}

/// The units, in kilobits, the largest first.
const UNITS: [(&str, u64); 3] = [("Gbit", 1_000_000), ("Mbit", 1000), ("Kbit", 1)];

/// The most that the kernel takes: a terabit a second.
const MOST: u64 = 1_000_000_000;

/// The smallest bucket, in bytes: some frames.
const BUCKET: u64 = 16 << 10;

impl Default for Bandwidth {
    /// A megabit a second.
    fn default() -> Self {
        Self { kbit: 1000 }
    }
}

impl Bandwidth {
    fn of_kbit(kbit: u64) -> Option<Self> {
        (1..=MOST).contains(&kbit).then_some(Self { kbit })
    }

    /// So many bytes a second, if they are whole kilobits.
    pub(super) fn of_bytes(bytes: u64) -> Option<Self> {
        let bits = bytes.checked_mul(8).filter(|bits| bits.is_multiple_of(1000))?;
        Self::of_kbit(bits / 1000)
    }

    /// So many times as much; none if no interface sends that.
    pub(super) fn times(self, factor: NonZeroU32) -> Option<Self> {
        Self::of_kbit(self.kbit.checked_mul(factor.get().into())?)
    }

    /// Both together; none if no interface sends that.
    pub(super) fn plus(self, other: Self) -> Option<Self> {
        Self::of_kbit(self.kbit.checked_add(other.kbit)?)
    }

    /// In megabits per second.
    #[expect(clippy::cast_precision_loss, reason = "at most a terabit, in kilobits")]
    pub fn megabits(self) -> f64 {
        self.kbit as f64 / 1e3
    }

    /// As `tc` reads it.
    pub(super) fn to_tc(self) -> String {
        format!("{}kbit", self.kbit)
    }

    /// What may be sent at once, in bytes: 4 ms of it, so that the kernel's clock does not slow it down.
    pub(super) fn burst(self) -> u64 {
        (self.kbit / 8 * 4).max(BUCKET)
    }
}

impl fmt::Display for Bandwidth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kbit = self.kbit;
        let whole = UNITS.iter().find(|(_, size)| kbit.is_multiple_of(*size));
        let (unit, size) = whole.copied().unwrap_or(("Kbit", 1));
        write!(f, "{}{unit}", kbit / size)
    }
}

impl From<Bandwidth> for String {
    fn from(bandwidth: Bandwidth) -> Self {
        bandwidth.to_string()
    }
}

impl TryFrom<String> for Bandwidth {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let known = UNITS.iter().find_map(|(unit, size)| Some((text.strip_suffix(unit)?, size)));
        known
            .and_then(|(number, size)| number.parse::<u64>().ok()?.checked_mul(*size))
            .and_then(Self::of_kbit)
            .ok_or_else(|| {
                format!(
                    "`{}` is not a bandwidth from 1Kbit to 1000Gbit, such as 10Mbit",
                    text.escape_debug()
                )
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Bandwidth, String> {
        Bandwidth::try_from(text.to_owned())
    }

    #[test]
    fn bandwidths_are_read_and_written() {
        assert_eq!(Bandwidth::default().to_string(), "1Mbit");
        for text in ["1Kbit", "1500Kbit", "40Mbit", "1000Gbit"] {
            assert_eq!(read(text).unwrap().to_string(), text);
        }
        for text in
            ["", "1", "0Mbit", "-1Mbit", "1.5Mbit", "1mbit", "1001Gbit", "99999999999999999999Gbit"]
        {
            let error = read(text).unwrap_err();
            assert_eq!(
                error,
                format!("`{text}` is not a bandwidth from 1Kbit to 1000Gbit, such as 10Mbit")
            );
        }
    }

    #[test]
    fn a_share_has_its_size_times_the_unit() {
        let times = |factor| read("250Kbit").unwrap().times(NonZeroU32::new(factor).unwrap());
        let ten = times(40).unwrap();
        assert_eq!((ten.to_string(), ten.to_tc()), ("10Mbit".to_owned(), "10000kbit".to_owned()));
        assert_eq!(times(u32::MAX), None);
        assert_eq!(Bandwidth::of_bytes(5_000_000), read("40Mbit").ok());
        assert_eq!(Bandwidth::of_bytes(5_000_001), None);
    }
}
