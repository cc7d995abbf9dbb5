//! What sources have free over a whole term, kept up while the term moves on.
//!
//! A source is looked at again only when a step of its calendar enters or leaves the term, so a search
//! over many starts costs as much as changes on the way and not as many sources at each start.

use std::collections::BTreeSet;

use crate::model::calendar::Calendar;
use crate::model::time::{Span, Term, Time};

/// Calendars over a term that moves on in time.
pub(super) struct Window<'a> {
    calendars: Vec<&'a Calendar>,
    seen: Vec<Seen>,
    /// The units free on all calendars together.
    free: i64,
    /// The starts from which each calendar has to be looked at again.
    changes: BTreeSet<(Time, usize)>,
    /// The starts from which each calendar may have more free.
    rises: BTreeSet<(Time, usize)>,
}

/// What a calendar has free over the term, and from which starts on that may be more or less.
#[derive(Clone, Copy)]
struct Seen {
    free: i64,
    rise: Option<Time>,
    change: Option<Time>,
}

impl<'a> Window<'a> {
    pub(super) fn new(calendars: Vec<&'a Calendar>, term: Term) -> Self {
        let seen: Vec<_> = calendars.iter().map(|calendar| Seen::over(calendar, term)).collect();
        let with_place = |time: fn(&Seen) -> Option<Time>| {
            let times = seen.iter().enumerate();
            times.filter_map(|(place, seen)| Some((time(seen)?, place))).collect()
        };
        let (changes, rises) = (with_place(|seen| seen.change), with_place(|seen| seen.rise));
        let free = seen.iter().map(|seen| seen.free.max(0)).sum();
        Self { calendars, seen, free, changes, rises }
    }

    /// The units free over the term on all calendars together.
    pub(super) fn free(&self) -> i64 {
        self.free
    }

    /// The units free over the term on each calendar.
    pub(super) fn each(&self) -> impl Iterator<Item = i64> {
        self.seen.iter().map(|seen| seen.free.max(0))
    }

    /// The next start from which a calendar may have more free.
    pub(super) fn next_rise(&self) -> Option<Time> {
        self.rises.first().map(|&(time, _)| time)
    }

    /// Moves on to a term that is as long and starts later.
    pub(super) fn move_to(&mut self, term: Term) {
        while let Some(&(_, place)) =
            self.changes.first().filter(|(change, _)| *change <= term.start())
        {
            let (new, old) = (Seen::over(self.calendars[place], term), self.seen[place]);
            old.change.map(|time| self.changes.remove(&(time, place)));
            old.rise.map(|time| self.rises.remove(&(time, place)));
            self.changes.extend(new.change.map(|time| (time, place)));
            self.rises.extend(new.rise.map(|time| (time, place)));
            self.free += new.free.max(0) - old.free.max(0);
            self.seen[place] = new;
        }
    }
}

impl Seen {
    fn over(calendar: &Calendar, term: Term) -> Self {
        let free = calendar.free_over(term);
        // Until the lowest level has passed, no later term has more.
        let lowest = calendar.first_short(term, free + 1);
        let rise = lowest.and_then(|lowest| calendar.next_with(lowest, free + 1));
        // A lower level counts from the first start whose term contains it.
        let lower = calendar.next_below(term.start(), free);
        let fall = lower.map(|at| at.minus(term.duration()).plus(Span::from_micros(1)));
        let change = rise.into_iter().chain(fall).min();
        Self { free, rise, change }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn term() -> impl Strategy<Value = Term> {
        (0..40i64, 1..20i64).prop_map(|(start, length)| {
            Term::lasting(Time::from_micros(start), Span::from_micros(length)).unwrap()
        })
    }

    fn calendar() -> impl Strategy<Value = Calendar> {
        prop::collection::vec((term(), -3..5i64), 0..12).prop_map(|bookings| {
            let mut calendar = Calendar::new();
            bookings.into_iter().for_each(|(term, units)| calendar.add(term, units));
            calendar
        })
    }

    /// The next start at which more may be free, by looking at every calendar again.
    fn next_rise(calendars: &[Calendar], term: Term) -> Option<Time> {
        let after_lowest = calendars.iter().filter_map(|calendar| {
            let more = calendar.free_over(term) + 1;
            calendar.next_with(calendar.first_short(term, more)?, more)
        });
        after_lowest.min()
    }

    proptest! {
        #[test]
        fn a_window_that_moves_on_is_like_a_new_one_at_each_start(
            calendars in prop::collection::vec(calendar(), 0..5),
            length in 1..20i64,
            mut steps in prop::collection::vec(0..12i64, 1..12),
        ) {
            let (mut start, length) = (Time::ZERO, Span::from_micros(length));
            let first = Term::lasting(start, length).unwrap();
            let mut window = Window::new(calendars.iter().collect(), first);
            steps.insert(0, 0);
            for step in steps {
                start = start.plus(Span::from_micros(step));
                let term = Term::lasting(start, length).unwrap();
                window.move_to(term);
                let free: Vec<_> = calendars.iter().map(|c| c.free_over(term).max(0)).collect();
                prop_assert_eq!(window.free(), free.iter().sum::<i64>());
                prop_assert_eq!(window.each().collect::<Vec<_>>(), free);
                prop_assert_eq!(window.next_rise(), next_rise(&calendars, term));
            }
        }
    }
}
