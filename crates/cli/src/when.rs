//! Moments as users name them: `now+10m`, `18:00`, `tomorrow 9:00 Europe/Rome`, RFC 3339.

use std::fmt;
use std::str::FromStr as _;
use std::time::SystemTime;

use chrono::{
    DateTime, Days, LocalResult, NaiveDate, NaiveDateTime, NaiveTime, TimeZone as _, Utc,
};
use chrono_tz::Tz;
use tenure_core::model::time::Time;
use tenure_node::api::moment::Moment;

/// The forms of a moment, for errors and help.
const FORMS: &str = "now, now+10m, 18:00, tomorrow 9:00, 2026-11-23 9:00 (each with a zone such as Europe/Rome, else \
     in local time), or 2026-11-23T09:00:00+01:00";

/// Reads a moment as of now, in the zone of this machine unless the text names one.
///
/// # Errors
/// As [`parse`].
pub(crate) fn read(text: &str) -> Result<Moment, String> {
    parse(text, DateTime::<Utc>::from(SystemTime::now()), local_zone())
}

/// Reads a moment as of `now`; what names no zone is in the `local` one. A time of day alone is the next
/// one to come.
///
/// # Errors
/// If it is none of these forms, the zone is unknown, or clocks in the zone show that time twice or not at
/// all.
fn parse(text: &str, now: DateTime<Utc>, local: Tz) -> Result<Moment, String> {
    let text = text.trim();
    if let Ok(moment) = text.parse() {
        return Ok(moment);
    }
    let words: Vec<&str> = text.split_whitespace().collect();
    let (words, zone) = match words.split_last() {
        Some((zone, rest)) if !rest.is_empty() && !zone.contains(':') => (rest, named(zone)?),
        _ => (&words[..], local),
    };
    let today = now.with_timezone(&zone).date_naive();
    match words {
        [time] => {
            let time = time_of_day(time).ok_or_else(|| form(text))?;
            let next = resolve(today.and_time(time), zone)?;
            if next > now {
                return Ok(at(next));
            }
            Ok(at(resolve(day_after(today)?.and_time(time), zone)?))
        }
        [day, time] => {
            let time = time_of_day(time).ok_or_else(|| form(text))?;
            let day = match *day {
                "today" => today,
                "tomorrow" => day_after(today)?,
                date => NaiveDate::parse_from_str(date, "%Y-%m-%d").map_err(|_| form(text))?,
            };
            Ok(at(resolve(day.and_time(time), zone)?))
        }
        _ => Err(form(text)),
    }
}

/// The zone of this machine: that of `TZ` or of the system, else UTC.
fn local_zone() -> Tz {
    let named = std::env::var("TZ").ok().or_else(|| iana_time_zone::get_timezone().ok());
    named.and_then(|name| Tz::from_str(name.trim_start_matches(':')).ok()).unwrap_or(Tz::UTC)
}

fn at(date: DateTime<Utc>) -> Moment {
    Moment::At(Time::from_micros(date.timestamp_micros()))
}

fn form(text: &str) -> String {
    format!("`{}` is no moment: use {FORMS}", text.escape_debug())
}

fn named(zone: &str) -> Result<Tz, String> {
    let known = Tz::from_str(zone);
    known.map_err(|_| {
        format!("no time zone `{}`: use a name such as Europe/Rome", zone.escape_debug())
    })
}

fn time_of_day(text: &str) -> Option<NaiveTime> {
    let forms = ["%H:%M", "%H:%M:%S"];
    forms.iter().find_map(|form| NaiveTime::parse_from_str(text, form).ok())
}

fn day_after(day: NaiveDate) -> Result<NaiveDate, String> {
    day.checked_add_days(Days::new(1)).ok_or_else(|| "there is no later day".to_owned())
}

/// The instant at which clocks of the zone show a time, if there is exactly one.
fn resolve(shown: NaiveDateTime, zone: Tz) -> Result<DateTime<Utc>, String> {
    let utc = |date: DateTime<Tz>| date.to_utc();
    match zone.from_local_datetime(&shown) {
        LocalResult::Single(date) => Ok(utc(date)),
        LocalResult::Ambiguous(first, second) => Err(format!(
            "clocks in {zone} show {shown} twice: write {} or {}",
            Shown(first),
            Shown(second)
        )),
        LocalResult::None => {
            Err(format!("clocks in {zone} never show {shown}: they are set forward over it"))
        }
    }
}

struct Shown(DateTime<Tz>);

impl fmt::Display for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.to_rfc3339())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A Saturday noon in Rome, the day before clocks there are set back.
    fn now() -> DateTime<Utc> {
        "2026-10-24T10:00:00Z".parse().unwrap()
    }

    #[test]
    fn moments_are_read_in_their_zone() {
        let table = [
            ("now", "+0s"),
            ("now+10m", "+10m"),
            ("now + 1h30m", "+1h30m"),
            ("2026-11-23T09:00:00+01:00", "2026-11-23T08:00:00Z"),
            ("18:00", "2026-10-24T16:00:00Z"),
            ("12:00", "2026-10-25T11:00:00Z"),
            ("9:30:15", "2026-10-25T08:30:15Z"),
            ("18:00 America/New_York", "2026-10-24T22:00:00Z"),
            ("today 18:00", "2026-10-24T16:00:00Z"),
            ("tomorrow 9:00", "2026-10-25T08:00:00Z"),
            ("tomorrow 9:00 UTC", "2026-10-25T09:00:00Z"),
            ("2026-07-01 9:00", "2026-07-01T07:00:00Z"),
        ];
        for (text, read) in table {
            let moment = parse(text, now(), Tz::Europe__Rome);
            let shown = match moment.unwrap_or_else(|error| panic!("{text}: {error}")) {
                Moment::FromNow(span) => format!("+{span}"),
                Moment::At(time) => crate::moment::show(time),
            };
            assert_eq!(shown, read, "{text}");
        }
    }

    #[test]
    fn what_is_no_moment_or_not_one_is_an_error() {
        let table = [
            ("soon", "is no moment"),
            ("", "is no moment"),
            ("now-1h", "is no moment"),
            ("25:00", "is no moment"),
            ("tomorrow 9:00 Europe/Rom", "no time zone `Europe/Rom`"),
            ("someday 9:00", "is no moment"),
            (
                "tomorrow 2:30",
                "twice: write 2026-10-25T02:30:00+02:00 or 2026-10-25T02:30:00+01:00",
            ),
            ("2027-03-28 2:30", "never show 2027-03-28 02:30:00"),
        ];
        for (text, error) in table {
            let found = parse(text, now(), Tz::Europe__Rome).unwrap_err();
            assert!(found.contains(error), "{text}: {found}");
        }
    }
}
