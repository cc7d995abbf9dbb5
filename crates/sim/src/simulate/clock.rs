//! The clock of one actor: how far it is from the true time, how fast it runs, whether it stands still.

use tenure_core::model::time::{Span, Time};

/// Parts in a million.
const MILLION: i128 = 1_000_000;

/// A clock that is a straight line from its last adjustment on.
#[derive(Clone, Debug)]
pub(super) struct Clock {
    /// The true time of the last adjustment, and what the clock showed then.
    since: Time,
    shown: Time,
    /// Parts in a million by which it runs fast; a stopped clock has none.
    drift: Option<i64>,
}

impl Clock {
    /// A clock that is `ahead` of the true time and keeps pace.
    pub(super) fn new(ahead: Span) -> Self {
        Self { since: Time::ZERO, shown: Time::ZERO.plus(ahead), drift: Some(0) }
    }

    /// What it shows at a true time.
    pub(super) fn read(&self, now: Time) -> Time {
        let Some(drift) = self.drift else { return self.shown };
        let passed = i128::from(now.since(self.since).as_micros());
        let gained = passed * i128::from(drift) / MILLION;
        self.shown.plus(span(passed + gained))
    }

    /// The first true time at which it shows `wanted` or more; none while it stands still before that.
    pub(super) fn when(&self, wanted: Time) -> Option<Time> {
        let missing = i128::from(wanted.since(self.shown).as_micros());
        if missing <= 0 {
            return Some(self.since);
        }
        let pace = MILLION + i128::from(self.drift?);
        let mut at = self.since.plus(span(missing * MILLION / pace));
        while self.read(at) < wanted {
            at = at.plus(Span::from_micros(1));
        }
        Some(at)
    }

    /// Sets it to be `ahead` of the true time, from now on, at that pace.
    pub(super) fn set(&mut self, now: Time, ahead: Span, drift: i64) {
        *self = Self { since: now, shown: now.plus(ahead), drift: Some(drift) };
    }

    /// Stops it.
    pub(super) fn freeze(&mut self, now: Time) {
        *self = Self { since: now, shown: self.read(now), drift: None };
    }

    /// How far it is ahead.
    pub(super) fn ahead(&self, now: Time) -> Span {
        self.read(now).since(now)
    }
}

fn span(micros: i128) -> Span {
    Span::from_micros(i64::try_from(micros).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secs(secs: i64) -> Time {
        Time::from_secs(secs)
    }

    #[test]
    fn an_alarm_rings_at_the_first_instant_that_shows_its_time() {
        for drift in [-200, -1, 0, 1, 200] {
            let mut clock = Clock::new(Span::from_secs(3));
            clock.set(secs(10), Span::from_secs(-5), drift);
            for wanted in [6, 100, 86_400] {
                let at = clock.when(secs(wanted)).unwrap();
                assert!(clock.read(at) >= secs(wanted), "drift {drift}");
                assert!(clock.read(at.minus(Span::from_micros(1))) < secs(wanted), "drift {drift}");
            }
        }
    }

    #[test]
    fn a_frozen_clock_rings_no_alarm_and_shows_what_it_showed() {
        let mut clock = Clock::new(Span::from_secs(3));
        clock.freeze(secs(10));
        assert_eq!(clock.read(secs(1000)), secs(13));
        assert_eq!(clock.when(secs(14)), None);
        assert_eq!(clock.when(secs(13)), Some(secs(10)));
        assert_eq!(clock.ahead(secs(20)), Span::from_secs(-7));
    }
}
