//! Points in time, lengths of time and terms.
//!
//! Core and emulator never read a clock: a shell hands `now` in as a [`Time`], taken from a wall clock
//! or from a virtual one. One unit everywhere (the microsecond), and terms are half-open, so that two
//! contiguous terms share exactly one number and never one instant.

use std::fmt;
use std::time::{Duration, UNIX_EPOCH};

use serde::de::{Deserializer, Visitor};
use serde::ser::Serializer;
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// A point in time: microseconds since the Unix epoch, or since the start of an emulation.
///
/// In text formats it is written as the [`Span`] since the origin; people are shown a date (`Display`).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Time(i64);

impl Time {
    /// The origin of the clock.
    pub const ZERO: Self = Self(0);
    /// Later than every instant an actor can name.
    pub const MAX: Self = Self(i64::MAX);
    /// Earlier than every instant an actor can name.
    pub const MIN: Self = Self(i64::MIN);
    /// 1 January 2000. From here on an instant is shown as a date, before it as the time since the start
    /// of an emulation: no emulation lasts that long.
    pub const FIRST_DATE: Self = Self::from_secs(946_684_800);

    /// The instant `micros` microseconds after the origin.
    pub const fn from_micros(micros: i64) -> Self {
        Self(micros)
    }

    /// The instant `secs` seconds after the origin, clamped to the range of the clock.
    pub const fn from_secs(secs: i64) -> Self {
        Self(secs.saturating_mul(Span::SECOND.0))
    }

    /// Microseconds since the origin.
    pub const fn as_micros(self) -> i64 {
        self.0
    }

    /// Seconds since the origin.
    pub fn as_secs_f64(self) -> f64 {
        Span(self.0).as_secs_f64()
    }

    /// The instant `span` later, clamped to the range of the clock.
    pub const fn plus(self, span: Span) -> Self {
        Self(self.0.saturating_add(span.0))
    }

    /// The instant `span` earlier, clamped to the range of the clock.
    pub const fn minus(self, span: Span) -> Self {
        Self(self.0.saturating_sub(span.0))
    }

    /// How long after `earlier` this is; negative when it is before.
    pub const fn since(self, earlier: Self) -> Span {
        Span(self.0.saturating_sub(earlier.0))
    }
}

impl fmt::Display for Time {
    /// RFC 3339 in UTC, to the millisecond; an instant of an emulation is the [`Span`] since its start.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let micros =
            u64::try_from(self.0).ok().filter(|_| (Self::FIRST_DATE..=LAST_DATE).contains(self));
        match micros.map(Duration::from_micros) {
            Some(date) => humantime::format_rfc3339_millis(UNIX_EPOCH + date).fmt(f),
            None => Span(self.0).fmt(f),
        }
    }
}

/// The end of the year 9999, after which RFC 3339 has no dates.
const LAST_DATE: Time = Time::from_secs(253_402_300_799);

impl fmt::Debug for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Time({self})")
    }
}

/// A length of time in microseconds; negative only as the difference of two instants.
///
/// In text formats it is written as people write it (`"90s"`, `"1d 12h"`) or as a whole number of seconds;
/// in binary ones it is the number of microseconds.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Span(i64);

impl Span {
    /// No time at all.
    pub const ZERO: Self = Self(0);
    /// One second.
    pub const SECOND: Self = Self(1_000_000);
    /// One minute.
    pub const MINUTE: Self = Self(60 * Self::SECOND.0);
    /// One hour.
    pub const HOUR: Self = Self(60 * Self::MINUTE.0);
    /// One day of 24 hours.
    pub const DAY: Self = Self(24 * Self::HOUR.0);

    /// A span of `micros` microseconds.
    pub const fn from_micros(micros: i64) -> Self {
        Self(micros)
    }

    /// A span of `secs` seconds, clamped to the range of the clock.
    pub const fn from_secs(secs: i64) -> Self {
        Self(secs.saturating_mul(Self::SECOND.0))
    }

    /// The length in microseconds.
    pub const fn as_micros(self) -> i64 {
        self.0
    }

    /// The length in seconds.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / Self::SECOND.0 as f64
    }

    /// `n` times this span, clamped to the range of the clock.
    pub const fn times(self, n: i64) -> Self {
        Self(self.0.saturating_mul(n))
    }

    /// One of `n` equal parts of this span, rounded towards zero.
    ///
    /// # Panics
    /// If `n` is 0.
    pub const fn part(self, n: i64) -> Self {
        Self(self.0.wrapping_div(n))
    }

    /// Both spans together, clamped to the range of the clock.
    pub const fn plus(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }

    /// The same length, forwards.
    pub const fn abs(self) -> Self {
        Self(self.0.saturating_abs())
    }

    /// Whether the span has a length above zero.
    pub const fn is_positive(self) -> bool {
        self.0 > 0
    }
}

impl fmt::Display for Span {
    /// Days, hours, minutes and seconds without the zero parts: `1d12h`, `90s` is `1m30s`, zero is `0s`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 == 0 {
            return f.write_str("0s");
        }
        if self.0 < 0 {
            f.write_str("-")?;
        }
        let mut rest = self.0.unsigned_abs();
        for (unit, length) in [("d", Self::DAY), ("h", Self::HOUR), ("m", Self::MINUTE)] {
            let length = length.0.unsigned_abs();
            if rest >= length {
                write!(f, "{}{unit}", rest / length)?;
                rest %= length;
            }
        }
        let (secs, micros) = (rest / 1_000_000, rest % 1_000_000);
        match (secs, micros) {
            (0, 0) => Ok(()),
            (_, 0) => write!(f, "{secs}s"),
            _ => write!(f, "{}s", format!("{secs}.{micros:06}").trim_end_matches('0')),
        }
    }
}

impl fmt::Debug for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Span({self})")
    }
}

/// Text that is not a length of time.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "`{text}` is not a length of time ({cause}): write `90s`, `5m`, `1h 30m`, `7d` or whole seconds"
)]
pub struct BadSpan {
    text: String,
    cause: String,
}

impl std::str::FromStr for Span {
    type Err = BadSpan;

    /// Reads `90s`, `1h 30m`, `7d`, or a bare whole number of seconds, and each of them after a minus.
    fn from_str(text: &str) -> Result<Self, BadSpan> {
        if let Ok(secs) = text.parse() {
            return Ok(Self::from_secs(secs));
        }
        let bad = |cause: String| BadSpan { text: text.to_owned(), cause };
        if let Some(positive) = text.strip_prefix('-').filter(|rest| !rest.starts_with('-')) {
            let span: Self = positive.parse().map_err(|error: BadSpan| bad(error.cause))?;
            return Ok(span.times(-1));
        }
        let duration = humantime::parse_duration(text).map_err(|e| bad(e.to_string()))?;
        let micros = i64::try_from(duration.as_micros()).map_err(|_| bad("too long".into()))?;
        Ok(Self(micros))
    }
}

impl Serialize for Span {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if serializer.is_human_readable() {
            serializer.collect_str(self)
        } else {
            serializer.serialize_i64(self.0)
        }
    }
}

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Text;

        impl Visitor<'_> for Text {
            type Value = Span;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a length of time such as \"90s\", or whole seconds")
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Span, E> {
                text.parse().map_err(E::custom)
            }

            fn visit_i64<E: serde::de::Error>(self, secs: i64) -> Result<Span, E> {
                Ok(Span::from_secs(secs))
            }

            fn visit_u64<E: serde::de::Error>(self, secs: u64) -> Result<Span, E> {
                i64::try_from(secs).map(Span::from_secs).map_err(E::custom)
            }
        }

        if deserializer.is_human_readable() {
            deserializer.deserialize_any(Text)
        } else {
            i64::deserialize(deserializer).map(Self)
        }
    }
}

impl Serialize for Time {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Span(self.0).serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Span::deserialize(deserializer).map(|span| Self(span.0))
    }
}

/// A term: the half-open interval `[start, end)`, never empty.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "(Time, Time)", into = "(Time, Time)")]
pub struct Term {
    start: Time,
    end: Time,
}

/// A term whose end is not after its start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("a term must end after it starts, but [{start}, {end}) does not")]
pub struct EmptyTerm {
    /// The start that was asked for.
    pub start: Time,
    /// The end that was asked for.
    pub end: Time,
}

impl Term {
    /// The term `[start, end)`; an error when it would be empty.
    pub const fn new(start: Time, end: Time) -> Result<Self, EmptyTerm> {
        if start.0 < end.0 { Ok(Self { start, end }) } else { Err(EmptyTerm { start, end }) }
    }

    /// The term of length `duration` from `start`; an error when the duration is not positive.
    pub const fn lasting(start: Time, duration: Span) -> Result<Self, EmptyTerm> {
        Self::new(start, start.plus(duration))
    }

    /// First instant of the term.
    pub const fn start(self) -> Time {
        self.start
    }

    /// First instant after the term.
    pub const fn end(self) -> Time {
        self.end
    }

    /// How long the term lasts; always positive.
    pub const fn duration(self) -> Span {
        self.end.since(self.start)
    }

    /// Whether `t` lies in the term: the start does, the end does not.
    pub fn contains(self, t: Time) -> bool {
        self.start <= t && t < self.end
    }

    /// Whether `inner` lies wholly in this term.
    pub fn encloses(self, inner: Self) -> bool {
        self.start <= inner.start && inner.end <= self.end
    }

    /// Whether the terms have an instant in common.
    pub fn overlaps(self, other: Self) -> bool {
        self.start < other.end && other.start < self.end
    }

    /// The part of this term from `t` on, if any is left.
    pub fn from(self, t: Time) -> Option<Self> {
        Self::new(self.start.max(t), self.end).ok()
    }

    /// The part of this term before `t`, if there is any.
    pub fn until(self, t: Time) -> Option<Self> {
        Self::new(self.start, self.end.min(t)).ok()
    }
}

impl TryFrom<(Time, Time)> for Term {
    type Error = EmptyTerm;

    fn try_from((start, end): (Time, Time)) -> Result<Self, EmptyTerm> {
        Self::new(start, end)
    }
}

impl From<Term> for (Time, Time) {
    fn from(term: Term) -> Self {
        (term.start, term.end)
    }
}

impl fmt::Display for Term {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{}, {})", self.start, self.end)
    }
}

impl fmt::Debug for Term {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Term{self}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_print_the_way_people_write_them() {
        let shown = |micros| Span::from_micros(micros).to_string();
        assert_eq!(shown(0), "0s");
        assert_eq!(shown(90_000_000), "1m30s");
        assert_eq!(shown(129_600_000_000), "1d12h");
        assert_eq!(shown(1_500_000), "1.5s");
        assert_eq!(shown(-3_600_000_000), "-1h");
    }

    #[test]
    fn instants_are_dates_and_those_of_an_emulation_spans() {
        let live = Time::from_micros(1_795_000_000_123_456);
        assert_eq!(live.to_string(), "2026-11-18T11:06:40.123Z");
        assert_eq!(Time::FIRST_DATE.to_string(), "2000-01-01T00:00:00.000Z");
        assert_eq!(Time::from_secs(90_000).to_string(), "1d1h");
        assert_eq!(Time::ZERO.minus(Span::HOUR).to_string(), "-1h");
        assert!(Time::MAX.to_string().ends_with('s') && Time::MIN.to_string().starts_with('-'));
    }

    #[test]
    fn spans_are_read_the_way_people_write_them() {
        let read = |text: &str| text.parse::<Span>();
        assert_eq!(read("1d 12h"), Ok(Span::HOUR.times(36)));
        assert_eq!(read("300"), Ok(Span::MINUTE.times(5)));
        assert_eq!(read("0"), Ok(Span::ZERO));
        assert!(
            read("soon").unwrap_err().to_string().starts_with("`soon` is not a length of time")
        );
    }

    #[test]
    fn a_term_contains_its_start_and_not_its_end() {
        let term = Term::new(Time::from_secs(10), Time::from_secs(20)).unwrap();
        assert!(term.contains(Time::from_secs(10)));
        assert!(!term.contains(Time::from_secs(20)));
        assert!(term.encloses(term));
        assert_eq!(term.from(Time::from_secs(20)), None);
        assert_eq!(term.until(Time::from_secs(10)), None);
    }

    #[test]
    fn an_empty_term_is_refused_with_both_ends_named() {
        let error = Term::new(Time::from_secs(5), Time::from_secs(5)).unwrap_err();
        assert_eq!(error.to_string(), "a term must end after it starts, but [5s, 5s) does not");
    }
}
