//! Service-level agreements: for which share of time a service is to meet SLOs.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::model::name::Name;
use crate::model::time::Span;

/// A share of a window of time in which all of some SLOs are to be met.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Sla {
    /// The SLOs, by their names.
    pub slos: BTreeSet<Name>,
    /// The share.
    pub target: Target,
    /// How long the window is; it ends now.
    pub window: Span,
}

/// A share of time, in thousandths of a percent: `"99.9%"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Target(u32);

impl Target {
    /// All of the time, in thousandths of a percent.
    const ALL: u32 = 100_000;

    /// How much of a length of time may be missed: the error budget.
    pub fn budget(self, window: Span) -> Span {
        let missed = i128::from(Self::ALL - self.0) * i128::from(window.as_micros());
        Span::from_micros(i64::try_from(missed / i128::from(Self::ALL)).unwrap_or(i64::MAX))
    }
}

/// A text that is no share of time.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{}` is no share of time: write more than 0% and 100% at most, such as 99.9%, with three decimals at most",
    .0.escape_debug()
)]
pub struct BadTarget(String);

impl FromStr for Target {
    type Err = BadTarget;

    fn from_str(text: &str) -> Result<Self, BadTarget> {
        let bad = || BadTarget(text.chars().take(64).collect());
        let number = text.strip_suffix('%').ok_or_else(bad)?.trim();
        let (whole, decimals) = number.split_once('.').unwrap_or((number, "0"));
        let digits = |text: &str| !text.is_empty() && text.bytes().all(|c| c.is_ascii_digit());
        if !digits(whole) || !digits(decimals) || decimals.len() > 3 {
            return Err(bad());
        }
        let whole: u32 = whole.parse().map_err(|_| bad())?;
        let thousandths: u32 = format!("{decimals:0<3}").parse().map_err(|_| bad())?;
        let share = whole.checked_mul(1_000).and_then(|whole| whole.checked_add(thousandths));
        let share = share.filter(|share| (1..=Self::ALL).contains(share));
        share.map(Self).ok_or_else(bad)
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, thousandths) = (self.0 / 1_000, self.0 % 1_000);
        if thousandths == 0 {
            return write!(f, "{whole}%");
        }
        write!(f, "{}%", format!("{whole}.{thousandths:03}").trim_end_matches('0'))
    }
}

impl TryFrom<String> for Target {
    type Error = BadTarget;

    fn try_from(text: String) -> Result<Self, BadTarget> {
        text.parse()
    }
}

impl From<Target> for String {
    fn from(target: Target) -> Self {
        target.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_is_read_as_it_is_written() {
        for text in ["99%", "99.9%", "99.999%", "100%", "0.5%", "12.05%"] {
            assert_eq!(text.parse::<Target>().unwrap().to_string(), text);
        }
        assert_eq!("99.90 %".parse::<Target>(), "99.9%".parse());
        for text in ["99", "%", "0%", "0.000%", "100.001%", "99.9999%", "-1%", "9 9%", ".5%", "+9%"]
        {
            assert!(text.parse::<Target>().is_err(), "{text}");
        }
    }

    #[test]
    fn the_error_budget_is_what_the_target_leaves_of_the_window() {
        let budget = |text: &str, window| text.parse::<Target>().unwrap().budget(window);
        assert_eq!(budget("99%", Span::HOUR.times(100)), Span::HOUR);
        assert_eq!(budget("99.9%", Span::DAY.times(30)), Span::from_secs(2_592));
        assert_eq!(budget("100%", Span::DAY), Span::ZERO);
    }
}
