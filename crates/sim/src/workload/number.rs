//! Numbers as logs write them: exact millionths, and lengths of time.

use tenure_core::time::Span;

use super::error::WorkloadError;

/// One, in millionths.
pub(super) const ONE: i64 = 1_000_000;

/// The largest number a log may hold, in either direction: as seconds, 31,700 years. Three of them
/// fit into a time.
const LIMIT: i64 = 1_000_000_000_000;

/// How much of a bad field an error repeats.
const QUOTED: usize = 24;

/// A decimal number in millionths, `None` if it is not a number or beyond the limit. Digits after
/// the sixth decimal are cut off.
pub(super) fn millionths(text: &[u8]) -> Option<i64> {
    plain_decimal(text).or_else(|| {
        let value: f64 = std::str::from_utf8(text).ok()?.parse().ok()?;
        (value.abs() <= LIMIT as f64).then(|| (value * ONE as f64).round() as i64)
    })
}

fn plain_decimal(text: &[u8]) -> Option<i64> {
    let digits = text.strip_prefix(b"-").unwrap_or(text);
    let mut value = 0;
    let mut unit = 0;
    for &byte in digits {
        match byte {
            b'0'..=b'9' if unit == 0 && value < LIMIT / 10 => {
                value = value * 10 + i64::from(byte - b'0');
            }
            b'0'..=b'9' if unit > 0 => {
                unit /= 10;
                value += unit * i64::from(byte - b'0');
            }
            b'.' if unit == 0 => {}
            _ => return None,
        }
    }
    Some(value)
}

/// Why [`millionths`] refused a text.
pub(super) fn refusal(text: &[u8]) -> String {
    let quoted = quote(text);
    let number = std::str::from_utf8(text).ok().and_then(|text| text.parse::<f64>().ok());
    if text.is_empty() {
        "empty".to_owned()
    } else if number.is_some_and(|number| !number.is_nan()) {
        format!("{quoted} is out of range")
    } else {
        format!("{quoted} is not a number")
    }
}

/// The beginning of a field of a log, fit for a terminal.
pub(super) fn quote(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text);
    let mut short: String = text.chars().take(QUOTED).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    format!("`{}`", short.escape_debug())
}
