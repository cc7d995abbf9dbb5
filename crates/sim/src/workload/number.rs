//! Numbers as logs write them, in exact millionths, and lengths of time as people write them.

use tenure_core::model::time::Span;

use super::error::WorkloadError;

/// One, in millionths.
pub(super) const ONE: i64 = 1_000_000;

/// The largest number of a log, either way: as seconds 31,700 years, so that a submit time, a wait
/// and a run time add up to a time.
pub(super) const LIMIT: i64 = 1_000_000_000_000;

/// How much of a bad field an error repeats.
const QUOTED: usize = 24;

/// The first field of `text`, its value in millionths as [`millionths`] has it, and what comes behind.
/// Nearly every field is a few digits, perhaps with a sign before: these are read while their end is
/// looked for.
pub(super) fn first_number(text: &[u8]) -> (&[u8], Option<i64>, &[u8]) {
    let (sign, digits) = match text {
        [b'-', digits @ ..] => (-ONE, digits),
        digits => (ONE, digits),
    };
    let (mut value, mut rest) = (0_i64, digits);
    while let [byte @ b'0'..=b'9', behind @ ..] = rest {
        // Of too many digits no value is taken.
        value = value.wrapping_mul(10).wrapping_add(i64::from(byte - b'0'));
        rest = behind;
    }
    let count = digits.len() - rest.len();
    if (1..=MOST_DIGITS).contains(&count) && rest.first().is_none_or(u8::is_ascii_whitespace) {
        return (&text[..text.len() - rest.len()], Some(sign * value), rest);
    }
    let end = text.iter().position(u8::is_ascii_whitespace).unwrap_or(text.len());
    let (field, rest) = text.split_at(end);
    (field, millionths(field), rest)
}

/// The most digits of a number before its point.
const MOST_DIGITS: usize = 12;

/// A number in millionths, exact to the sixth decimal; `None` if it is none or beyond the limit.
pub(super) fn millionths(text: &[u8]) -> Option<i64> {
    plain_decimal(text).or_else(|| {
        let value: f64 = std::str::from_utf8(text).ok()?.parse().ok()?;
        (value.abs() <= LIMIT as f64).then(|| (value * ONE as f64).round() as i64)
    })
}

/// Digits, perhaps with a sign before and decimals behind.
fn plain_decimal(text: &[u8]) -> Option<i64> {
    let (sign, digits) = match text {
        [b'-', digits @ ..] => (-1, digits),
        digits => (1, digits),
    };
    let (whole, fraction) = match digits.iter().position(|&byte| byte == b'.') {
        Some(point) => (&digits[..point], &digits[point + 1..]),
        None => (digits, &digits[..0]),
    };
    if whole.is_empty() || whole.len() > MOST_DIGITS {
        return None;
    }
    let mut value = 0;
    for &byte in whole {
        value = value * 10 + digit(byte)?;
    }
    value *= ONE;
    let mut unit = ONE;
    for &byte in fraction {
        unit /= 10;
        value += unit * digit(byte)?;
    }
    Some(sign * value)
}

fn digit(byte: u8) -> Option<i64> {
    byte.is_ascii_digit().then(|| i64::from(byte - b'0'))
}

/// Why a field was refused as a number.
pub(super) fn refusal(text: &[u8]) -> String {
    let number = std::str::from_utf8(text).ok().and_then(|text| text.parse::<f64>().ok());
    if text.is_empty() {
        "is empty".to_owned()
    } else if number.is_some_and(|number| !number.is_nan()) {
        format!("{} is out of range", quote(text))
    } else {
        format!("{} is not a number", quote(text))
    }
}

/// The beginning of a field, fit for a terminal.
pub(super) fn quote(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text);
    let short: String = text.chars().take(QUOTED).collect();
    let more = if short.len() < text.len() { "…" } else { "" };
    format!("`{}{more}`", short.escape_debug())
}

/// A length of time as settings and the command line write it: seconds (`90`, `0.5`), or numbers
/// with units (`1h`, `1d12h`, `2h 30m`).
///
/// # Errors
/// When the text is neither, negative, or longer than the clock reaches.
pub fn parse_span(text: &str) -> Result<Span, WorkloadError> {
    let bad = |cause: String| WorkloadError::BadSpan { text: text.to_owned(), cause };
    if let Some(micros) = millionths(text.as_bytes()) {
        return if micros < 0 {
            Err(bad("it is negative".to_owned()))
        } else {
            Ok(Span::from_micros(micros))
        };
    }
    let duration = humantime::parse_duration(text).map_err(|error| bad(error.to_string()))?;
    i64::try_from(duration.as_micros())
        .map(Span::from_micros)
        .map_err(|_| bad("it is too long".to_owned()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_first_of_several_numbers_is_read_as_if_it_stood_alone(
            field in "[-+]?[0-9]{0,14}[.ex-]?[0-9]{0,3}",
            rest in "([ \t][0-9 x]{0,5})?",
        ) {
            let text = format!("{field}{rest}");
            let expected = (field.as_bytes(), millionths(field.as_bytes()), rest.as_bytes());
            prop_assert_eq!(first_number(text.as_bytes()), expected);
        }
    }

    #[test]
    fn numbers_are_exact_to_the_sixth_decimal() {
        for (text, micros) in [
            ("0", 0),
            ("-1", -1_000_000),
            ("552.21", 552_210_000),
            ("-0.000001", -1),
            ("1.9999999", 1_999_999),
            ("5.", 5_000_000),
            (".5", 500_000),
            ("+7", 7_000_000),
            ("1.5e3", 1_500_000_000),
            ("999999999999", 999_999_999_999_000_000),
            ("0000000000000001", 1_000_000),
        ] {
            assert_eq!(millionths(text.as_bytes()), Some(micros), "{text}");
        }
        for text in ["", "-", ".", "1,5", "x", "1.2.3", "1e12x", "2000000000000", "nan", "inf"] {
            assert_eq!(millionths(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn a_refused_field_is_quoted_in_part_and_made_fit_for_a_terminal() {
        assert_eq!(refusal(b""), "is empty");
        assert_eq!(refusal(b"1e99"), "`1e99` is out of range");
        assert_eq!(refusal(b"NaN"), "`NaN` is not a number");
        assert_eq!(refusal(b"\x1b[2J"), "`\\u{1b}[2J` is not a number");
        assert_eq!(refusal(&[b'a'; 25]), "`aaaaaaaaaaaaaaaaaaaaaaaa…` is not a number");
    }

    #[test]
    fn lengths_of_time_are_seconds_or_have_units() {
        assert_eq!(parse_span("90"), Ok(Span::from_secs(90)));
        assert_eq!(parse_span("0.5"), Ok(Span::from_micros(500_000)));
        assert_eq!(parse_span("1d12h"), Ok(Span::from_secs(129_600)));
        assert_eq!(
            parse_span("-5").unwrap_err().to_string(),
            "`-5` is no length of time: it is negative; give seconds, or units as in 1d12h or 5m"
        );
        assert!(parse_span("5 parsecs").is_err());
        assert!(parse_span("999999999y").is_err());
    }
}
