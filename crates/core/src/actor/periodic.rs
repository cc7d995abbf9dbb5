//! What is done every now and then, and in no journal.

use crate::model::time::{Span, Time};

/// When something is done: at each start, and then after each period. Volatile.
#[derive(Clone, Debug, Default)]
pub(crate) struct Periodic {
    period: Option<Span>,
    due: Option<Time>,
}

impl Periodic {
    /// Without a period it is never done.
    pub(crate) fn every(period: Option<Span>) -> Self {
        Self { period, due: None }
    }

    pub(crate) fn next(&self) -> Option<Time> {
        self.due
    }

    /// Whether it is to be done now. A clock that was set back puts nothing off.
    pub(crate) fn falls_due(&mut self, now: Time) -> bool {
        let Some(period) = self.period else { return false };
        let next = now.plus(period);
        let is_due = self.due.is_none_or(|due| due <= now || due > next);
        if is_due {
            self.due = Some(next);
        }
        is_due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_was_set_back_puts_nothing_off() {
        let mut periodic = Periodic::every(Some(Span::from_secs(60)));
        let due = [0, 30, 60, 61, 10, 69, 70].map(|secs| periodic.falls_due(Time::from_secs(secs)));
        assert_eq!(due, [true, false, true, false, true, false, true]);
        assert!(!Periodic::default().falls_due(Time::ZERO), "without a period it is never done");
    }
}
