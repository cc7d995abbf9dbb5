//! How the rows of a series write their times.

use chrono::{DateTime, NaiveDateTime};

use super::number::{LIMIT, ONE, millionths};

/// A way to write a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Clock {
    /// Plain seconds.
    Seconds,
    /// RFC 3339, with a zone.
    Rfc3339,
    /// `YYYY-MM-DD HH:MM:SS`, taken as UTC; a `T` may stand for the blank.
    DateTime,
}

impl Clock {
    /// The way in which a field is written, and its time in microseconds.
    pub(super) fn of(field: &[u8]) -> Option<(Self, i64)> {
        [Self::Seconds, Self::Rfc3339, Self::DateTime]
            .into_iter()
            .find_map(|clock| Some((clock, clock.read(field)?)))
    }

    /// A time in microseconds, `None` if it is not written in this way or out of range.
    pub(super) fn read(self, field: &[u8]) -> Option<i64> {
        let text = || std::str::from_utf8(field).ok();
        let naive = |form| NaiveDateTime::parse_from_str(text()?, form).ok();
        let time = match self {
            Self::Seconds => millionths(field)?,
            Self::Rfc3339 => DateTime::parse_from_rfc3339(text()?).ok()?.timestamp_micros(),
            Self::DateTime => naive("%Y-%m-%d %H:%M:%S%.f")
                .or_else(|| naive("%Y-%m-%dT%H:%M:%S%.f"))?
                .and_utc()
                .timestamp_micros(),
        };
        (time.abs() <= LIMIT * ONE).then_some(time)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_tells_how_it_is_written() {
        for (field, expected) in [
            ("-1.5", Some((Clock::Seconds, -1_500_000))),
            ("1970-01-01T01:00:01+01:00", Some((Clock::Rfc3339, ONE))),
            ("1970-01-01 00:00:01.25", Some((Clock::DateTime, 1_250_000))),
            ("1970-01-01T00:00:01", Some((Clock::DateTime, ONE))),
            ("1970-01-01", None),
            ("1970-02-30 00:00:00", None),
            ("+99999-01-01 00:00:00", None),
            ("", None),
        ] {
            assert_eq!(Clock::of(field.as_bytes()), expected, "{field}");
        }
    }
}
