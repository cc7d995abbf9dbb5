//! Points in time as people read and write them.

use chrono::{DateTime, SecondsFormat};
use tenure_core::model::time::{Span, Time};
use tenure_sim::workload::parse_span;

/// A time as text, exactly: a date for a live actor, else the time since the start of the emulation.
pub(crate) fn show(time: Time) -> String {
    let date =
        DateTime::from_timestamp_micros(time.as_micros()).filter(|_| time >= Time::FIRST_DATE);
    date.map_or_else(|| time.to_string(), |date| date.to_rfc3339_opts(SecondsFormat::AutoSi, true))
}

/// Reads what [`show`] has written, or a time since the start of an emulation in any form of a span.
pub(crate) fn parse(text: &str) -> Result<Time, String> {
    if let Ok(date) = DateTime::parse_from_rfc3339(text) {
        return Ok(Time::from_micros(date.timestamp_micros()));
    }
    parse_span(text).map(|span: Span| Time::ZERO.plus(span)).map_err(|_| {
        "use a date such as 2026-11-21T10:00:00Z or, of an emulation, a time such as 1d12h"
            .to_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shown_can_be_read() {
        for text in ["0s", "1d12h", "2026-11-21T10:00:00Z", "2026-11-21T10:00:00.250Z"] {
            assert_eq!(parse(text).map(show).as_deref(), Ok(text));
        }
        assert_eq!(parse("2026-11-21T11:00:00+01:00"), parse("2026-11-21T10:00:00Z"));
        assert!(parse("yesterday").is_err());
    }
}
