//! Calendars: how many units are free, when.
//!
//! A calendar is a step function of time. It answers "how many units are free over this whole term" and
//! "when is the earliest start with k units free for so long" from a balanced tree of its steps whose
//! nodes know the lowest and highest level below them, so no booking is ever walked one by one. Clones
//! share structure: handing a mapper its own copy to try things on costs one pointer.

use std::fmt;
use std::sync::Arc;

use crate::time::{Span, Term, Time};

/// A step function from time to a number of units. Cheap to clone.
///
/// With `n` steps ahead, [`add`](Self::add), [`free_at`](Self::free_at) and
/// [`free_over`](Self::free_over) cost O(log n); [`earliest`](Self::earliest) costs O(log n) for each
/// stretch that is too full.
#[derive(Clone, Default)]
pub struct Calendar {
    /// The level before the first step.
    base: i64,
    steps: Tree,
}

type Tree = Option<Arc<Node>>;

/// A treap node: ordered by time, heap-ordered by a hash of the time, so that the shape depends on the
/// set of steps alone and never on the order in which they came.
#[derive(Clone)]
struct Node {
    at: Time,
    delta: i64,
    priority: u64,
    left: Tree,
    right: Tree,
    below: Summary,
}

/// What a stretch of steps does to the level, relative to the level before it.
#[derive(Clone, Copy)]
struct Summary {
    sum: i64,
    lowest: i64,
    highest: i64,
}

impl Summary {
    const NOTHING: Self = Self { sum: 0, lowest: i64::MAX, highest: i64::MIN };

    const fn step(delta: i64) -> Self {
        Self { sum: delta, lowest: delta, highest: delta }
    }

    fn then(self, next: Self) -> Self {
        Self {
            sum: self.sum + next.sum,
            lowest: self.lowest.min(self.sum.saturating_add(next.lowest)),
            highest: self.highest.max(self.sum.saturating_add(next.highest)),
        }
    }
}

impl Calendar {
    /// A calendar with nothing free at any time.
    pub fn new() -> Self {
        Self::default()
    }

    /// Changes the level over `term` by `units`: up for what comes in, down for what is booked.
    pub fn add(&mut self, term: Term, units: i64) {
        if units != 0 {
            bump(&mut self.steps, term.start(), units, priority(term.start()));
            bump(&mut self.steps, term.end(), -units, priority(term.end()));
        }
    }

    /// The level at instant `t`.
    pub fn free_at(&self, t: Time) -> i64 {
        self.base + summarize(&self.steps, None, Some(t.plus(Span::from_micros(1)))).sum
    }

    /// The lowest level at any instant of `term`: what can be booked over all of it.
    pub fn free_over(&self, term: Term) -> i64 {
        let start = self.free_at(term.start());
        let rest = summarize(&self.steps, Some(term.start()), Some(term.end()));
        start.min(start.saturating_add(rest.lowest))
    }

    /// The first instant of `term` at which the level is below `units`, if there is one.
    pub fn first_short(&self, term: Term, units: i64) -> Option<Time> {
        if self.free_at(term.start()) < units {
            return Some(term.start());
        }
        self.next_where(term.start(), |s| s.lowest, |level| level < units)
            .filter(|&t| t < term.end())
    }

    /// The earliest start in `[from, latest]` from which `units` are free for `duration`.
    pub fn earliest(&self, units: i64, duration: Span, from: Time, latest: Time) -> Option<Time> {
        let mut start = from;
        loop {
            if self.free_at(start) < units {
                start = self.next_with(start, units)?;
            }
            if start > latest {
                return None;
            }
            let term = Term::lasting(start, duration).ok()?;
            match self.first_short(term, units) {
                None => return Some(start),
                Some(short) => start = short,
            }
        }
    }

    /// The first step after `t` from which the level is at least `units`, if there is one.
    pub fn next_with(&self, t: Time, units: i64) -> Option<Time> {
        self.next_where(t, |s| s.highest, |level| level >= units)
    }

    /// Drops the steps up to and including `t`. Levels from `t` on stay as they are; those before are
    /// no longer told apart.
    pub fn forget_until(&mut self, t: Time) {
        if self.steps.is_some() {
            let (past, rest) = split(self.steps.take(), t.plus(Span::from_micros(1)));
            self.base += summary(&past).sum;
            self.steps = rest;
        }
    }

    /// All steps ahead: each instant with the level from there on.
    pub fn levels(&self) -> Vec<(Time, i64)> {
        fn walk(tree: &Tree, level: &mut i64, out: &mut Vec<(Time, i64)>) {
            if let Some(node) = tree {
                walk(&node.left, level, out);
                *level += node.delta;
                out.push((node.at, *level));
                walk(&node.right, level, out);
            }
        }
        let (mut level, mut out) = (self.base, Vec::new());
        walk(&self.steps, &mut level, &mut out);
        out
    }

    /// The first step after `t` whose level is `wanted`; `extreme` picks the bound that tells whether
    /// a whole subtree can be skipped.
    fn next_where(
        &self,
        t: Time,
        extreme: fn(Summary) -> i64,
        wanted: impl Fn(i64) -> bool + Copy,
    ) -> Option<Time> {
        find(&self.steps, self.base, t, extreme, wanted).ok()
    }
}

impl fmt::Debug for Calendar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} then ", self.base)?;
        f.debug_list().entries(self.levels()).finish()
    }
}

impl PartialEq for Calendar {
    fn eq(&self, other: &Self) -> bool {
        self.base == other.base && self.levels() == other.levels()
    }
}

/// SplitMix64's finaliser: a bijection, so two instants never tie.
fn priority(at: Time) -> u64 {
    let mut z = (at.as_micros() as u64).wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

fn summary(tree: &Tree) -> Summary {
    tree.as_ref().map_or(Summary::NOTHING, |node| node.below)
}

impl Node {
    fn refresh(&mut self) {
        self.below = summary(&self.left).then(Summary::step(self.delta)).then(summary(&self.right));
    }
}

/// Adds `delta` to the step at `at`, making or removing it as needed.
fn bump(tree: &mut Tree, at: Time, delta: i64, priority: u64) {
    let Some(node) = tree.as_mut().filter(|node| node.priority >= priority) else {
        let (left, right) = split(tree.take(), at);
        let below = Summary::NOTHING;
        let mut node = Node { at, delta, priority, left, right, below };
        node.refresh();
        *tree = Some(Arc::new(node));
        return;
    };
    let node = Arc::make_mut(node);
    match at.cmp(&node.at) {
        std::cmp::Ordering::Less => bump(&mut node.left, at, delta, priority),
        std::cmp::Ordering::Greater => bump(&mut node.right, at, delta, priority),
        std::cmp::Ordering::Equal => {
            node.delta += delta;
            if node.delta == 0 {
                *tree = merge(node.left.take(), node.right.take());
                return;
            }
        }
    }
    node.refresh();
}

/// Splits into the steps before `at` and those from `at` on.
fn split(tree: Tree, at: Time) -> (Tree, Tree) {
    let Some(mut arc) = tree else { return (None, None) };
    let node = Arc::make_mut(&mut arc);
    if node.at < at {
        let (left, right) = split(node.right.take(), at);
        node.right = left;
        node.refresh();
        (Some(arc), right)
    } else {
        let (left, right) = split(node.left.take(), at);
        node.left = right;
        node.refresh();
        (left, Some(arc))
    }
}

/// Joins two trees, all of `left` before all of `right`.
fn merge(left: Tree, right: Tree) -> Tree {
    match (left, right) {
        (None, tree) | (tree, None) => tree,
        (Some(mut left), Some(mut right)) => {
            if left.priority > right.priority {
                let node = Arc::make_mut(&mut left);
                node.right = merge(node.right.take(), Some(right));
                node.refresh();
                Some(left)
            } else {
                let node = Arc::make_mut(&mut right);
                node.left = merge(Some(left), node.left.take());
                node.refresh();
                Some(right)
            }
        }
    }
}

/// What the steps strictly after `after` and strictly before `before` do to the level.
fn summarize(tree: &Tree, after: Option<Time>, before: Option<Time>) -> Summary {
    let Some(node) = tree else { return Summary::NOTHING };
    if after.is_none() && before.is_none() {
        return node.below;
    }
    if after.is_some_and(|after| node.at <= after) {
        return summarize(&node.right, after, before);
    }
    if before.is_some_and(|before| node.at >= before) {
        return summarize(&node.left, after, before);
    }
    summarize(&node.left, after, None).then(Summary::step(node.delta)).then(summarize(
        &node.right,
        None,
        before,
    ))
}

/// The first step after `t` whose level is wanted, or the level after the whole tree.
fn find(
    tree: &Tree,
    level: i64,
    t: Time,
    extreme: fn(Summary) -> i64,
    wanted: impl Fn(i64) -> bool + Copy,
) -> Result<Time, i64> {
    let Some(node) = tree else { return Err(level) };
    let end = level + node.below.sum;
    if !wanted(level.saturating_add(extreme(node.below))) {
        return Err(end);
    }
    let mut here = level + summary(&node.left).sum;
    if node.at > t {
        if let Ok(found) = find(&node.left, level, t, extreme, wanted) {
            return Ok(found);
        }
        here += node.delta;
        if wanted(here) {
            return Ok(node.at);
        }
    } else {
        here += node.delta;
    }
    find(&node.right, here, t, extreme, wanted)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The reference: every booking kept, every question answered by walking all of them.
    #[derive(Default)]
    struct Model(Vec<(Term, i64)>);

    impl Model {
        fn free_at(&self, t: Time) -> i64 {
            self.0.iter().filter(|(term, _)| term.contains(t)).map(|(_, units)| units).sum()
        }

        fn free_over(&self, term: Term) -> i64 {
            instants(term.start(), term.end()).map(|t| self.free_at(t)).min().unwrap()
        }

        fn earliest(&self, units: i64, duration: Span, from: Time, latest: Time) -> Option<Time> {
            instants(from, latest.plus(Span::from_micros(1)))
                .find(|&start| self.free_over(Term::lasting(start, duration).unwrap()) >= units)
        }
    }

    fn instants(from: Time, until: Time) -> impl Iterator<Item = Time> {
        (from.as_micros()..until.as_micros()).map(Time::from_micros)
    }

    fn term() -> impl Strategy<Value = Term> {
        (0..40i64, 1..20i64).prop_map(|(start, length)| {
            Term::lasting(Time::from_micros(start), Span::from_micros(length)).unwrap()
        })
    }

    proptest! {
        #[test]
        fn a_calendar_answers_as_the_list_of_its_bookings(
            bookings in prop::collection::vec((term(), -3..4i64), 0..30),
            asked in term(),
            units in -4..5i64,
            past in 0..30i64,
        ) {
            let (mut calendar, mut model) = (Calendar::new(), Model::default());
            for (term, units) in bookings {
                calendar.add(term, units);
                model.0.push((term, units));
            }
            let past = Time::from_micros(past);
            let untouched = calendar.clone();
            for _ in 0..2 {
                for t in instants(past, Time::from_micros(70)) {
                    prop_assert_eq!(calendar.free_at(t), model.free_at(t));
                }
                if let Some(asked) = asked.from(past) {
                    prop_assert_eq!(calendar.free_over(asked), model.free_over(asked));
                    let (from, latest) = (asked.start(), asked.start().plus(Span::from_micros(50)));
                    prop_assert_eq!(
                        calendar.earliest(units, asked.duration(), from, latest),
                        model.earliest(units, asked.duration(), from, latest)
                    );
                }
                calendar.forget_until(past);
            }
            prop_assert_eq!(untouched.free_at(Time::ZERO), model.free_at(Time::ZERO));
        }

        #[test]
        fn what_is_booked_and_given_back_leaves_no_trace(
            bookings in prop::collection::vec((term(), 1..4i64), 0..30),
        ) {
            let mut calendar = Calendar::new();
            for &(term, units) in &bookings {
                calendar.add(term, -units);
            }
            for &(term, units) in bookings.iter().rev() {
                calendar.add(term, units);
            }
            prop_assert_eq!(calendar, Calendar::new());
        }
    }

    #[test]
    fn a_long_calendar_stays_shallow() {
        fn depth(tree: &Tree) -> usize {
            tree.as_ref().map_or(0, |node| 1 + depth(&node.left).max(depth(&node.right)))
        }
        let mut calendar = Calendar::new();
        for k in 0..100_000 {
            calendar.add(Term::lasting(Time::from_secs(k), Span::HOUR).unwrap(), -1);
        }
        assert!(depth(&calendar.steps) < 60, "depth {}", depth(&calendar.steps));
    }
}
