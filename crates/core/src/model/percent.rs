//! Percentages.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// A part of something in whole percent, 100 at most: `"40%"`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Percent(pub u32);

/// It is none.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("`{}` is no percentage, such as 40%", .0.escape_debug())]
pub struct BadPercent(String);

impl FromStr for Percent {
    type Err = BadPercent;

    fn from_str(text: &str) -> Result<Self, BadPercent> {
        let number = text.strip_suffix('%').and_then(|number| number.trim().parse().ok());
        let number = number.filter(|percent| *percent <= 100);
        number.map(Self).ok_or_else(|| BadPercent(text.chars().take(50).collect()))
    }
}

impl fmt::Display for Percent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}%", self.0)
    }
}

impl TryFrom<String> for Percent {
    type Error = BadPercent;

    fn try_from(text: String) -> Result<Self, BadPercent> {
        text.parse()
    }
}

impl From<Percent> for String {
    fn from(percent: Percent) -> Self {
        percent.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentage_is_read_as_it_is_written() {
        for text in ["0%", "40%", "100%"] {
            assert_eq!(text.parse::<Percent>().unwrap().to_string(), text);
        }
        for text in ["", "40", "101%", "-1%", "4.5%"] {
            assert!(text.parse::<Percent>().is_err(), "{text}");
        }
    }
}
