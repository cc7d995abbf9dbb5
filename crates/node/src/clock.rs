//! Clocks: the wall, the wall times a factor, and one that is moved by hand.

use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tenure_core::time::{Span, Time};

/// Tells the time that actors are handed. It never falls, whoever reads it.
pub trait Clock: Send + Sync {
    /// The time now, in microseconds since the Unix epoch.
    fn now(&self) -> Time;

    /// How long `span` lasts outside.
    fn outside(&self, span: Span) -> Duration;

    /// Sees to it that the clock is at `time` or later: a journal holds facts up to then, so an actor has
    /// been there already.
    fn not_before(&self, time: Time);
}

/// The clock of this machine. If that is set back, this one stands until the machine's has caught up.
#[derive(Debug, Default)]
pub struct WallClock {
    latest: AtomicI64,
}

impl WallClock {
    /// The machine's clock.
    pub fn new() -> Self {
        Self::default()
    }
}

impl Clock for WallClock {
    fn now(&self) -> Time {
        let now = machine_time().as_micros();
        Time::from_micros(self.latest.fetch_max(now, Ordering::Relaxed).max(now))
    }

    fn outside(&self, span: Span) -> Duration {
        duration(span)
    }

    fn not_before(&self, time: Time) {
        self.latest.fetch_max(time.as_micros(), Ordering::Relaxed);
    }
}

/// A clock that runs faster than the machine's by a factor, from the moment it is made: to watch days of
/// leases in minutes.
#[derive(Debug)]
pub struct FastClock {
    factor: u32,
    began: Instant,
    /// What it showed when it began.
    origin: Mutex<Time>,
}

impl FastClock {
    /// A clock that makes `factor` seconds of one; zero counts as one.
    pub fn new(factor: u32) -> Self {
        let origin = Mutex::new(machine_time());
        Self { factor: factor.max(1), began: Instant::now(), origin }
    }

    fn since(&self, origin: Time) -> Time {
        let elapsed = i64::try_from(self.began.elapsed().as_micros()).unwrap_or(i64::MAX);
        origin.plus(Span::from_micros(elapsed).times(i64::from(self.factor)))
    }
}

impl Clock for FastClock {
    fn now(&self) -> Time {
        self.since(*self.origin.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn outside(&self, span: Span) -> Duration {
        duration(span) / self.factor
    }

    /// Goes on from `time`: after a restart it would else be behind its own journals for a long while.
    fn not_before(&self, time: Time) {
        let mut origin = self.origin.lock().unwrap_or_else(PoisonError::into_inner);
        let behind = time.since(self.since(*origin));
        if behind.is_positive() {
            *origin = origin.plus(behind);
        }
    }
}

/// A clock that stands until somebody moves it on: a [`Conductor`](crate::host::conductor::Conductor).
#[derive(Debug, Default)]
pub struct VirtualClock {
    now: AtomicI64,
}

impl VirtualClock {
    /// A clock at [`Time::ZERO`].
    pub fn new() -> Self {
        Self::default()
    }
}

impl Clock for VirtualClock {
    fn now(&self) -> Time {
        Time::from_micros(self.now.load(Ordering::Relaxed))
    }

    fn outside(&self, _: Span) -> Duration {
        Duration::ZERO
    }

    fn not_before(&self, time: Time) {
        self.now.fetch_max(time.as_micros(), Ordering::Relaxed);
    }
}

fn machine_time() -> Time {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Time::from_micros(i64::try_from(since.as_micros()).unwrap_or(i64::MAX))
}

fn duration(span: Span) -> Duration {
    Duration::from_micros(u64::try_from(span.as_micros()).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wall_clock_that_is_behind_its_journals_stands() {
        let clock = WallClock::new();
        let later = clock.now().plus(Span::HOUR);
        clock.not_before(later);
        assert_eq!(clock.now(), later);
        assert_eq!(clock.now(), later);
    }

    #[test]
    fn a_fast_clock_that_is_behind_its_journals_goes_on_from_them() {
        let clock = FastClock::new(1000);
        let later = clock.now().plus(Span::DAY.times(365));
        clock.not_before(later);
        assert!(later <= clock.now() && clock.now() < later.plus(Span::DAY));
        assert_eq!(clock.outside(Span::from_secs(1000)), Duration::from_secs(1));
    }

    #[test]
    fn a_virtual_clock_moves_only_when_it_is_moved_and_never_back() {
        let clock = VirtualClock::new();
        clock.not_before(Time::from_secs(5));
        clock.not_before(Time::from_secs(3));
        assert_eq!(clock.now(), Time::from_secs(5));
    }
}
