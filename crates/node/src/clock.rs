//! Clocks: the wall, the wall times a factor, and one that is moved by hand.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rustix::time::{ClockId, clock_gettime};
use tenure_core::model::time::{Span, Time};
use tracing::warn;

/// A machine's clock that is set by less than this is merely kept right.
const LEAST_STEP: Span = Span::from_secs(1);

/// Two readings of the machine's clocks that lie further apart than this are not compared.
const LONGEST_READING: Span = Span::from_micros(100_000);

/// The time that actors are given. It never goes back, for any reader.
pub trait Clock: Send + Sync {
    /// The time now, in microseconds since the Unix epoch.
    fn now(&self) -> Time;

    /// How long `span` lasts outside.
    fn outside(&self, span: Span) -> Duration;

    /// Sees to it that the clock is at `time` or later: a journal holds facts up to then, so an actor has
    /// been there already.
    fn not_before(&self, time: Time);

    /// How far the machine's clock is behind this one, which stands for as long.
    fn behind(&self) -> Span {
        Span::ZERO
    }

    /// The last time that the machine's clock was set while it was read.
    fn last_step(&self) -> Option<ClockStep> {
        None
    }
}

/// A machine's clock was set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockStep {
    /// When, by the clock that was set.
    pub at: Time,
    /// By how much; forward if it is positive.
    pub by: Span,
}

/// The clock of this machine. If that is set back, this one stands until the machine's has caught up.
#[derive(Debug, Default)]
pub struct WallClock {
    latest: AtomicI64,
    steps: Mutex<Steps>,
}

/// Finds out when a clock is set, by another one that cannot be.
#[derive(Debug, Default)]
struct Steps {
    /// What the clock showed when the other began, as it was last seen.
    origin: Option<Time>,
    last: Option<ClockStep>,
}

impl Steps {
    /// Adds a reading of the clock, with the time since the other began.
    fn see(&mut self, now: Time, elapsed: Span) {
        let origin = now.minus(elapsed);
        let by = origin.since(self.origin.replace(origin).unwrap_or(origin));
        if by.max(by.times(-1)) >= LEAST_STEP {
            warn!("this machine's clock was set by {} s", by.as_secs_f64());
            self.last = Some(ClockStep { at: now, by });
        }
    }
}

impl WallClock {
    /// The machine's clock.
    pub fn new() -> Self {
        Self::default()
    }

    fn steps(&self) -> MutexGuard<'_, Steps> {
        self.steps.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads the machine's clock, and compares it with the time since the machine was started.
    fn read(&self) -> Time {
        let mut steps = self.steps();
        let (before, now, after) = (since_boot(), machine_time(), since_boot());
        if after.since(before) < LONGEST_READING {
            steps.see(now, before.since(Time::ZERO));
        }
        now
    }
}

impl Clock for WallClock {
    fn now(&self) -> Time {
        let now = self.read().as_micros();
        Time::from_micros(self.latest.fetch_max(now, Ordering::Relaxed).max(now))
    }

    fn behind(&self) -> Span {
        self.now().since(machine_time()).max(Span::ZERO)
    }

    fn last_step(&self) -> Option<ClockStep> {
        self.steps().last
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

    /// Continues from `time`: after a restart it would else be behind its own journals for a long while.
    fn not_before(&self, time: Time) {
        let mut origin = self.origin.lock().unwrap_or_else(PoisonError::into_inner);
        let behind = time.since(self.since(*origin));
        if behind.is_positive() {
            *origin = origin.plus(behind);
        }
    }
}

/// A clock that stands until it is advanced: a [`Conductor`](crate::host::conductor::Conductor).
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

/// The time since the machine was started, its sleep included.
fn since_boot() -> Time {
    let since = clock_gettime(ClockId::Boottime);
    Time::from_micros(since.tv_sec.saturating_mul(1_000_000).saturating_add(since.tv_nsec / 1000))
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
    fn a_wall_clock_says_how_far_the_machine_is_behind() {
        let clock = WallClock::new();
        assert_eq!(clock.behind(), Span::ZERO);
        clock.not_before(clock.now().plus(Span::HOUR));
        assert!(Span::MINUTE.times(59) < clock.behind() && clock.behind() <= Span::HOUR);
        assert_eq!(clock.last_step(), None, "the machine's clock was not set");
    }

    #[test]
    fn a_clock_that_is_set_is_distinguished_from_one_that_goes_on() {
        let mut steps = Steps::default();
        let began = Time::from_secs(1_000_000);
        for (elapsed, shown, last) in [
            (10, 10, None),
            (20, 20, None),
            (30, 30 + 7200, Some((30 + 7200, 7200))),
            (40, 40 + 7200, Some((30 + 7200, 7200))),
            (50, 50, Some((50, -7200))),
        ] {
            let at = |seconds| began.plus(Span::from_secs(seconds));
            steps.see(at(shown), Span::from_secs(elapsed));
            let step = |(then, by)| ClockStep { at: at(then), by: Span::from_secs(by) };
            assert_eq!(steps.last, last.map(step), "{elapsed}");
        }
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
