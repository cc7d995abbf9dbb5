//! Instants as requests name them.

use std::fmt;
use std::str::FromStr;

use chrono::{DateTime, SecondsFormat};
use serde::{Deserialize, Serialize};
use tenure_core::model::time::{Span, Time};
use thiserror::Error;

/// An instant, as text: `now`, `now+10m`, or RFC 3339.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Moment {
    /// So long after the deployment takes the request.
    FromNow(Span),
    /// This instant.
    At(Time),
}

/// Text that names no instant.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("`{}` is no moment: write `now`, `now+10m` or RFC 3339, such as 2026-11-23T09:00:00+01:00", .0.escape_debug())]
pub struct BadMoment(String);

impl Moment {
    /// Now.
    pub const NOW: Self = Self::FromNow(Span::ZERO);

    /// The instant by a clock that shows `now`.
    pub fn on(self, now: Time) -> Time {
        match self {
            Self::FromNow(span) => now.plus(span),
            Self::At(time) => time,
        }
    }
}

impl Default for Moment {
    fn default() -> Self {
        Self::NOW
    }
}

impl FromStr for Moment {
    type Err = BadMoment;

    fn from_str(text: &str) -> Result<Self, BadMoment> {
        let bad = || BadMoment(text.to_owned());
        if let Some(rest) = text.trim().strip_prefix("now") {
            let rest = rest.trim_start();
            let span =
                if rest.is_empty() { "0s" } else { rest.strip_prefix('+').ok_or_else(bad)? };
            let span = span.trim().parse().ok().filter(|span| *span >= Span::ZERO);
            return span.map(Self::FromNow).ok_or_else(bad);
        }
        let date = DateTime::parse_from_rfc3339(text.trim()).map_err(|_| bad())?;
        Ok(Self::At(Time::from_micros(date.timestamp_micros())))
    }
}

impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::FromNow(Span::ZERO) => f.write_str("now"),
            Self::FromNow(span) => write!(f, "now+{span}"),
            Self::At(time) => match DateTime::from_timestamp_micros(time.as_micros()) {
                Some(date) => f.write_str(&date.to_rfc3339_opts(SecondsFormat::AutoSi, true)),
                None => time.fmt(f),
            },
        }
    }
}

impl TryFrom<String> for Moment {
    type Error = BadMoment;

    fn try_from(text: String) -> Result<Self, BadMoment> {
        text.parse()
    }
}

impl From<Moment> for String {
    fn from(moment: Moment) -> Self {
        moment.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shown_is_read_back() {
        for text in ["now", "now+10m", "2026-11-23T08:00:00Z"] {
            assert_eq!(text.parse::<Moment>().unwrap().to_string(), text);
        }
        let rome: Moment = "2026-11-23T09:00:00+01:00".parse().unwrap();
        assert_eq!(rome, "2026-11-23T08:00:00Z".parse().unwrap());
        for text in ["", "now-1h", "nowhere", "now+", "18:00"] {
            assert_eq!(text.parse::<Moment>(), Err(BadMoment(text.to_owned())));
        }
    }
}
