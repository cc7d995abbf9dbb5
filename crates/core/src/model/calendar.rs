//! Calendars: how many units are free, when.
//!
//! A calendar is a step function of time. It answers "how many units are free over this whole term" and
//! "when is the earliest start with k units free for so long" from a balanced tree of its steps whose
//! nodes know the lowest and highest level below them, so no booking is ever walked one by one. Clones
//! share structure: handing a mapper its own copy to try things on costs one pointer.

use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize, Serializer};
use thiserror::Error;

use crate::model::time::{Span, Term, Time};
use crate::mutants::mutant;

/// A step function from time to a number of units. Cheap to clone.
///
/// With `n` steps ahead, [`add`](Self::add), [`free_at`](Self::free_at) and
/// [`free_over`](Self::free_over) cost O(log n); [`earliest`](Self::earliest) costs O(log n) for each
/// stretch that is too full.
#[derive(Clone, Default, Deserialize)]
#[serde(try_from = "Steps")]
pub struct Calendar {
    /// The level before the first step.
    base: i64,
    steps: Tree,
}

/// Steps that are no calendar: out of order, without effect, or beyond what can be counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the steps of a calendar are out of order, change nothing or change too much")]
struct BadSteps;

type Tree = Option<Arc<Node>>;

/// A node of a weight-balanced tree (Adams 1992, with the bounds that Hirai and Yamamoto proved in 2011):
/// no side holds more than three times as many steps as the other. So the tree is shallow whatever
/// instants its bookings name, also those that a peer picked.
#[derive(Clone)]
struct Node {
    at: Time,
    delta: i64,
    /// How many steps it and those below it are.
    size: usize,
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
            bump(&mut self.steps, term.start(), units);
            bump(&mut self.steps, term.end(), -units);
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
        if mutant!(CalendarLooksAtStart) {
            return start;
        }
        start.min(start.saturating_add(rest.lowest))
    }

    /// The first instant of `term` at which the level is below `units`, if there is one.
    pub fn first_short(&self, term: Term, units: i64) -> Option<Time> {
        if self.free_at(term.start()) < units {
            return Some(term.start());
        }
        self.next_below(term.start(), units).filter(|&t| t < term.end())
    }

    /// The first step after `t` from which the level is below `units`, if there is one.
    pub fn next_below(&self, t: Time, units: i64) -> Option<Time> {
        self.next_where(t, |s| s.lowest, |level| level < units)
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
    /// are no longer kept apart.
    pub fn forget_until(&mut self, t: Time) {
        if self.first_step().is_some_and(|first| first <= t) {
            let (past, rest) = split(self.steps.take(), t.plus(Span::from_micros(1)));
            self.base += summary(&past).sum;
            self.steps = rest;
        }
    }

    /// The number of its steps.
    pub(crate) fn steps(&self) -> usize {
        size(&self.steps)
    }

    fn first_step(&self) -> Option<Time> {
        let mut node = self.steps.as_deref()?;
        while let Some(left) = node.left.as_deref() {
            node = left;
        }
        Some(node.at)
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

    /// The first step after `t` whose level is `wanted`; `extreme` picks the bound that decides whether
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

/// A calendar as it is stored: the level before the first step, then each step with what it changes.
#[derive(Deserialize)]
struct Steps {
    base: i64,
    steps: Vec<(Time, i64)>,
}

impl Serialize for Calendar {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        fn walk(tree: &Tree, out: &mut Vec<(Time, i64)>) {
            if let Some(node) = tree {
                walk(&node.left, out);
                out.push((node.at, node.delta));
                walk(&node.right, out);
            }
        }
        let mut steps = Vec::with_capacity(size(&self.steps));
        walk(&self.steps, &mut steps);
        (self.base, steps).serialize(serializer)
    }
}

impl TryFrom<Steps> for Calendar {
    type Error = BadSteps;

    fn try_from(Steps { base, steps }: Steps) -> Result<Self, BadSteps> {
        let in_order = steps.is_sorted_by(|one, next| one.0 < next.0);
        let all = steps.iter().try_fold(base.unsigned_abs(), |all, (_, delta)| {
            all.checked_add(delta.unsigned_abs()).filter(|_| *delta != 0)
        });
        if !in_order || all.is_none_or(|all| i64::try_from(all).is_err()) {
            return Err(BadSteps);
        }
        Ok(Self { base, steps: balanced(&steps) })
    }
}

/// A tree of steps that are in order.
fn balanced(steps: &[(Time, i64)]) -> Tree {
    let (before, rest) = steps.split_at(steps.len() / 2);
    let (&(at, delta), after) = rest.split_first()?;
    let below = Summary::step(delta);
    let mut node =
        Node { at, delta, size: 1, left: balanced(before), right: balanced(after), below };
    node.refresh();
    Some(Arc::new(node))
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

fn summary(tree: &Tree) -> Summary {
    tree.as_ref().map_or(Summary::NOTHING, |node| node.below)
}

fn size(tree: &Tree) -> usize {
    tree.as_ref().map_or(0, |node| node.size)
}

impl Node {
    fn refresh(&mut self) {
        self.size = size(&self.left) + 1 + size(&self.right);
        self.below = summary(&self.left).then(Summary::step(self.delta)).then(summary(&self.right));
    }
}

/// Adds `delta` to the step at `at`, making or removing it as needed.
fn bump(tree: &mut Tree, at: Time, delta: i64) {
    let Some(node) = tree.as_mut().map(Arc::make_mut) else {
        let below = Summary::step(delta);
        *tree = Some(Arc::new(Node { at, delta, size: 1, left: None, right: None, below }));
        return;
    };
    match at.cmp(&node.at) {
        Ordering::Less => bump(&mut node.left, at, delta),
        Ordering::Greater => bump(&mut node.right, at, delta),
        Ordering::Equal => {
            node.delta += delta;
            if node.delta == 0 {
                *tree = merge(node.left.take(), node.right.take());
                return;
            }
        }
    }
    node.refresh();
    rebalance(tree);
}

/// Whether a side of this many steps may hang beside one of that many.
fn is_too_heavy(side: usize, other: usize) -> bool {
    side + other > 1 && side > 3 * other
}

/// Restores the balance at the root after one side grew or shrank by a step.
fn rebalance(tree: &mut Tree) {
    let Some(node) = tree else { return };
    if is_too_heavy(size(&node.right), size(&node.left)) {
        let node = Arc::make_mut(node);
        let inner_heavy = |right: &Arc<Node>| size(&right.left) >= 2 * size(&right.right);
        if node.right.as_ref().is_some_and(inner_heavy) {
            rotate_right(&mut node.right);
        }
        rotate_left(tree);
    } else if is_too_heavy(size(&node.left), size(&node.right)) {
        let node = Arc::make_mut(node);
        let inner_heavy = |left: &Arc<Node>| size(&left.right) >= 2 * size(&left.left);
        if node.left.as_ref().is_some_and(inner_heavy) {
            rotate_left(&mut node.left);
        }
        rotate_right(tree);
    }
}

/// Makes the right child the root.
fn rotate_left(tree: &mut Tree) {
    let Some(mut old) = tree.take() else { return };
    let node = Arc::make_mut(&mut old);
    *tree = match node.right.take() {
        None => Some(old),
        Some(mut root) => {
            let top = Arc::make_mut(&mut root);
            node.right = top.left.take();
            node.refresh();
            top.left = Some(old);
            top.refresh();
            Some(root)
        }
    };
}

/// Makes the left child the root.
fn rotate_right(tree: &mut Tree) {
    let Some(mut old) = tree.take() else { return };
    let node = Arc::make_mut(&mut old);
    *tree = match node.left.take() {
        None => Some(old),
        Some(mut root) => {
            let top = Arc::make_mut(&mut root);
            node.left = top.right.take();
            node.refresh();
            top.right = Some(old);
            top.refresh();
            Some(root)
        }
    };
}

/// Splits into the steps before `at` and those from `at` on.
fn split(tree: Tree, at: Time) -> (Tree, Tree) {
    let Some(mut arc) = tree else { return (None, None) };
    let node = Arc::make_mut(&mut arc);
    let (left, right) = (node.left.take(), node.right.take());
    if node.at < at {
        let (before, after) = split(right, at);
        (link(left, arc, before), after)
    } else {
        let (before, after) = split(left, at);
        (before, link(after, arc, right))
    }
}

/// Joins two trees of any sizes by a node that belongs between them.
fn link(left: Tree, mut middle: Arc<Node>, right: Tree) -> Tree {
    let (lighter, heavier) = (size(&left), size(&right));
    match (left, right) {
        (left, Some(mut right)) if is_too_heavy(heavier, lighter) => {
            let node = Arc::make_mut(&mut right);
            node.left = link(left, middle, node.left.take());
            node.refresh();
            let mut tree = Some(right);
            rebalance(&mut tree);
            tree
        }
        (Some(mut left), right) if is_too_heavy(lighter, heavier) => {
            let node = Arc::make_mut(&mut left);
            node.right = link(node.right.take(), middle, right);
            node.refresh();
            let mut tree = Some(left);
            rebalance(&mut tree);
            tree
        }
        (left, right) => {
            let node = Arc::make_mut(&mut middle);
            (node.left, node.right) = (left, right);
            node.refresh();
            Some(middle)
        }
    }
}

/// Joins two trees, all of `left` before all of `right`.
fn merge(left: Tree, mut right: Tree) -> Tree {
    match take_first(&mut right) {
        Some(first) => link(left, first, right),
        None => left,
    }
}

/// Takes the first step out of a tree.
fn take_first(tree: &mut Tree) -> Option<Arc<Node>> {
    let node = Arc::make_mut(tree.as_mut()?);
    if node.left.is_none() {
        let rest = node.right.take();
        return std::mem::replace(tree, rest);
    }
    let first = take_first(&mut node.left);
    node.refresh();
    rebalance(tree);
    first
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
    use crate::model::codec;

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
            for stored in [&untouched, &calendar] {
                let bytes = codec::encode(stored);
                let read: Calendar = codec::decode(&bytes).unwrap();
                prop_assert_eq!(&read, stored);
                prop_assert_eq!(format!("{read:?}"), format!("{stored:?}"));
                prop_assert!(is_balanced(&read.steps));
                prop_assert_eq!(codec::encode(&read), bytes);
            }
            prop_assert!(is_balanced(&untouched.steps) && is_balanced(&calendar.steps));
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

    fn is_balanced(tree: &Tree) -> bool {
        tree.as_ref().is_none_or(|node| {
            let (left, right) = (size(&node.left), size(&node.right));
            node.size == left + 1 + right
                && !is_too_heavy(left, right)
                && !is_too_heavy(right, left)
                && is_balanced(&node.left)
                && is_balanced(&node.right)
        })
    }

    #[test]
    fn steps_that_are_no_calendar_are_refused() {
        let step = |at, delta| (Time::from_micros(at), delta);
        let read = |base: i64, steps: &[(Time, i64)]| -> Result<Calendar, _> {
            codec::decode(&codec::encode(&(base, steps)))
        };
        assert!(read(0, &[step(1, 5), step(2, -5)]).is_ok());
        for (base, steps) in [
            (0, vec![step(2, 5), step(1, -5)]),
            (0, vec![step(1, 5), step(1, -5)]),
            (0, vec![step(1, 0)]),
            (i64::MAX, vec![step(1, 1)]),
            (0, vec![step(1, i64::MIN)]),
            (0, vec![step(1, i64::MAX), step(2, i64::MAX)]),
        ] {
            assert!(read(base, &steps).is_err(), "{base} then {steps:?} was taken");
        }
    }

    #[test]
    fn a_long_calendar_stays_shallow_whatever_instants_are_picked() {
        fn depth(tree: &Tree) -> usize {
            tree.as_ref().map_or(0, |node| 1 + depth(&node.left).max(depth(&node.right)))
        }
        let outside_in = |k: i64| if k % 2 == 0 { k } else { 200_000 - k };
        let orders: [fn(i64) -> i64; 3] = [|k| k, |k| 100_000 - k, outside_in];
        for order in orders {
            let mut calendar = Calendar::new();
            for k in 0..100_000 {
                calendar.add(Term::lasting(Time::from_secs(order(k)), Span::HOUR).unwrap(), -1);
            }
            assert!(depth(&calendar.steps) < 42, "depth {}", depth(&calendar.steps));
            calendar.forget_until(Time::from_secs(70_000));
            assert!(is_balanced(&calendar.steps));
        }
    }
}
