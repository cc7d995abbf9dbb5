//! Heartbeats, by which a guest keeps leases that end when it falls silent.
//!
//! A lease depends on heartbeats if its configuration says how long it goes on without one. Only the loss of a lease is
//! journaled, not the heartbeats.

use thiserror::Error;

use crate::model::property::Properties;
use crate::model::time::Span;

/// The property of a lease's configuration that says how long it goes on without a heartbeat.
pub const KEEP_ALIVE: &str = "session.keep-alive";

/// The most leases that one message names.
pub const MAX_LEASES: usize = 1024;

/// The longest that a lease may go on without a heartbeat.
pub const LONGEST: Span = Span::HOUR;

/// How many margins a lease goes on without a heartbeat, at least.
pub const MARGINS: i64 = 8;

/// How many heartbeats there are in the time that a lease goes on without one.
pub const BEATS: i64 = 4;

/// At most such a part of the time that a lease goes on without a heartbeat is left to its guest to leave its units.
pub const LEAD: i64 = 8;

/// A time that a lease cannot be kept alive for.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum BadKeepAlive {
    /// It is no length of time.
    #[error("`{KEEP_ALIVE}` is `{0}`, which is not a length of time")]
    NoSpan(String),
    /// It is too short or too long.
    #[error("`{KEEP_ALIVE}` is {asked}: it must be between {least} and {LONGEST}")]
    OutOfBounds {
        /// How long was asked for.
        asked: Span,
        /// [`MARGINS`] times the clock margin.
        least: Span,
    },
}

/// How long a lease with this configuration goes on without a heartbeat; without the property, to its end.
///
/// # Errors
/// If it is not a length of time.
pub fn keep_alive(configuration: &Properties) -> Result<Option<Span>, BadKeepAlive> {
    let Some(text) = configuration.get(KEEP_ALIVE) else { return Ok(None) };
    let asked: Span = text.parse().map_err(|_| BadKeepAlive::NoSpan(text.to_owned()))?;
    if asked.is_positive() { Ok(Some(asked)) } else { Err(BadKeepAlive::NoSpan(text.to_owned())) }
}

/// Checks how long a lease is to go on without a heartbeat, where it is asked for and where it is redeemed.
///
/// # Errors
/// If it is shorter than [`MARGINS`] margins, or longer than [`LONGEST`].
pub fn check(asked: Span, margin: Span) -> Result<(), BadKeepAlive> {
    let least = margin.times(MARGINS);
    match asked >= least && asked.is_positive() && asked <= LONGEST {
        true => Ok(()),
        false => Err(BadKeepAlive::OutOfBounds { asked, least }),
    }
}

/// How long after one heartbeat the next is sent: a millisecond at least, whatever a user has written.
pub fn period(keep_alive: Span) -> Span {
    keep_alive.part(BEATS).max(Span::from_micros(1000))
}
