//! Which members of a run have something to do, so that no other is visited.

use std::collections::BTreeSet;

use tenure_core::model::time::Time;

/// The members of a run by what they wait for.
#[derive(Debug)]
pub(super) struct Agenda {
    /// When each has something to do by itself.
    planned: Vec<Option<Time>>,
    by_time: BTreeSet<(Time, usize)>,
    /// Those that have something to do in the next round, whatever the time; some more than once.
    called: Vec<usize>,
    /// Those that were visited since they were last seen at rest.
    restless: BTreeSet<usize>,
}

impl Agenda {
    /// So many members, each of which is to be visited in the first round.
    pub(super) fn of(members: usize) -> Self {
        Self {
            planned: vec![None; members],
            by_time: BTreeSet::new(),
            called: (0..members).collect(),
            restless: (0..members).collect(),
        }
    }

    /// A member has something to do in the next round.
    pub(super) fn call(&mut self, member: usize) {
        self.called.push(member);
    }

    /// A member was visited, and has something to do by itself at `next`.
    pub(super) fn plan(&mut self, member: usize, next: Option<Time>) {
        self.restless.insert(member);
        let before = std::mem::replace(&mut self.planned[member], next);
        if before == next {
            return;
        }
        if let Some(before) = before {
            self.by_time.remove(&(before, member));
        }
        if let Some(next) = next {
            self.by_time.insert((next, member));
        }
    }

    /// Whether a member has something to do whatever the time.
    pub(super) fn is_called(&self) -> bool {
        !self.called.is_empty()
    }

    /// When a member first has something to do by itself.
    pub(super) fn next(&self) -> Option<Time> {
        self.by_time.first().map(|(time, _)| *time)
    }

    /// Those that have something to do in a round at `now`.
    pub(super) fn due(&self, now: Time) -> Vec<usize> {
        let mut due = Vec::new();
        self.add_due(now, &mut due);
        due
    }

    /// The same, for a round that begins: each of them is visited and [planned](Self::plan) again.
    /// `due` is the room for them.
    pub(super) fn take_due(&mut self, now: Time, due: &mut Vec<usize>) {
        self.add_due(now, due);
        self.called.clear();
    }

    fn add_due(&self, now: Time, due: &mut Vec<usize>) {
        let planned = self.by_time.range(..=(now, usize::MAX)).map(|(_, member)| *member);
        due.extend(planned.chain(self.called.iter().copied()));
        due.sort_unstable();
        due.dedup();
    }

    /// Whether `rests` holds for every member. Asks only for those that were visited since it did.
    pub(super) fn all_rest(&mut self, rests: impl Fn(usize) -> bool) -> bool {
        while let Some(&member) = self.restless.first() {
            if !rests(member) {
                return false;
            }
            self.restless.pop_first();
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(secs: i64) -> Time {
        Time::from_secs(secs)
    }

    fn taken(agenda: &mut Agenda, now: Time) -> Vec<usize> {
        let mut due = Vec::new();
        agenda.take_due(now, &mut due);
        due
    }

    #[test]
    fn only_members_that_are_called_or_due_are_visited_and_in_order() {
        let mut agenda = Agenda::of(4);
        assert_eq!(taken(&mut agenda, at(0)), [0, 1, 2, 3]);
        assert_eq!((taken(&mut agenda, at(0)), agenda.next()), (Vec::new(), None));
        agenda.plan(3, Some(at(5)));
        agenda.plan(1, Some(at(7)));
        agenda.plan(0, Some(at(5)));
        agenda.call(2);
        assert_eq!(agenda.next(), Some(at(5)));
        assert_eq!(taken(&mut agenda, at(5)), [0, 2, 3]);
        // A member that is not planned again is still due.
        agenda.plan(0, None);
        agenda.plan(3, Some(at(9)));
        assert_eq!((taken(&mut agenda, at(5)), agenda.next()), (Vec::new(), Some(at(7))));
        assert_eq!(taken(&mut agenda, at(9)), [1, 3]);
    }

    #[test]
    fn rest_is_asked_for_only_where_something_happened_since() {
        let mut agenda = Agenda::of(3);
        let asked = std::cell::RefCell::new(Vec::new());
        let rests = |busy: Option<usize>| {
            let asked = &asked;
            move |member| {
                asked.borrow_mut().push(member);
                busy != Some(member)
            }
        };
        assert!(!agenda.all_rest(rests(Some(1))));
        assert!(!agenda.all_rest(rests(Some(1))));
        assert!(agenda.all_rest(rests(None)));
        assert_eq!(asked.take(), [0, 1, 1, 1, 2]);
        agenda.plan(2, None);
        assert!(agenda.all_rest(rests(None)));
        assert_eq!(asked.take(), [2]);
    }
}
