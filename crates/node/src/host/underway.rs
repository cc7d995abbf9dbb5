//! What drivers are at work on, each piece on a thread of its own, and what of it was given up.
//!
//! A piece that takes too long is given up: it counts as failed, another one may begin in its place, and what
//! comes of it later is ignored. Its thread is not ended, as nothing could end it; so no more are given a
//! place than leaves twice as many threads as there may be pieces at a time.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::time::{Duration, Instant};

/// How much a driver is asked to do, and how long it may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallLimits {
    /// The most calls at a time that begin a tenancy, and as many that end one.
    pub at_a_time: NonZeroUsize,
    /// How long a call or a probe may take before it is given up.
    pub timeout: Duration,
}

impl CallLimits {
    /// The limits of a driver for which nothing else is said.
    pub const DEFAULT: Self =
        Self { at_a_time: NonZeroUsize::new(64).unwrap(), timeout: Duration::from_secs(3600) };
}

impl Default for CallLimits {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// Pieces of work that are told apart by `K`.
#[derive(Debug)]
pub(super) struct Underway<K, W> {
    limits: CallLimits,
    pieces: BTreeMap<K, Piece<W>>,
}

#[derive(Debug)]
struct Piece<W> {
    work: W,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// It is given up then.
    Until(Instant),
    /// Its thread has come back with an outcome that counts later.
    Settled,
    GivenUp,
}

impl<K: Ord + Copy, W: Clone> Underway<K, W> {
    pub(super) fn new(limits: CallLimits) -> Self {
        Self { limits, pieces: BTreeMap::new() }
    }

    /// Whether one more may begin.
    pub(super) fn has_room(&self) -> bool {
        self.leaves(0, |_| true)
    }

    /// Whether one more of those that are `alike` may begin, for whom an eighth of the places is not: however
    /// many there are of them, others go on.
    pub(super) fn has_room_for(&self, alike: impl Fn(&W) -> bool) -> bool {
        let most = self.limits.at_a_time.get();
        self.has_room() && self.leaves((most / 8).max(1).min(most - 1), alike)
    }

    fn leaves(&self, spare: usize, which: impl Fn(&W) -> bool) -> bool {
        let most = self.limits.at_a_time.get();
        let states = self.pieces.values().filter(|piece| which(&piece.work));
        let (mut all, mut awaited) = (0, 0);
        for piece in states {
            all += 1;
            awaited += usize::from(piece.state != State::GivenUp);
        }
        awaited + spare < most && all + spare < 2 * most
    }

    /// Whether a thread is at work on this, awaited or not.
    pub(super) fn contains(&self, key: &K) -> bool {
        self.pieces.contains_key(key)
    }

    /// Whether this is under way; if it was given up, it is awaited again.
    pub(super) fn awaits(&mut self, key: &K, now: Instant) -> bool {
        let until = State::Until(now + self.limits.timeout);
        let Some(piece) = self.pieces.get_mut(key) else { return false };
        if piece.state == State::GivenUp {
            piece.state = until;
        }
        true
    }

    /// A thread begins with this.
    pub(super) fn begin(&mut self, key: K, work: W, now: Instant) {
        let state = State::Until(now + self.limits.timeout);
        self.pieces.insert(key, Piece { work, state });
    }

    /// The thread has come back, and what it says counts later. Answers whether it counts at all.
    pub(super) fn settle(&mut self, key: &K) -> bool {
        let Some(piece) = self.pieces.get_mut(key) else { return false };
        if piece.state == State::GivenUp {
            self.pieces.remove(key);
            return false;
        }
        piece.state = State::Settled;
        true
    }

    /// It has come to its end. Answers whether that still counts.
    pub(super) fn end(&mut self, key: &K) -> bool {
        self.pieces.remove(key).is_some_and(|piece| piece.state != State::GivenUp)
    }

    /// Gives up what has taken too long by now, and answers what that is.
    pub(super) fn give_up(&mut self, now: Instant) -> Vec<W> {
        let late = self.pieces.values_mut().filter(|piece| match piece.state {
            State::Until(until) => until <= now,
            State::Settled | State::GivenUp => false,
        });
        late.map(|piece| {
            piece.state = State::GivenUp;
            piece.work.clone()
        })
        .collect()
    }

    /// When something is to be given up next.
    pub(super) fn next(&self) -> Option<Instant> {
        let until = |piece: &Piece<W>| match piece.state {
            State::Until(until) => Some(until),
            State::Settled | State::GivenUp => None,
        };
        self.pieces.values().filter_map(until).min()
    }

    /// How many are awaited.
    #[cfg(test)]
    pub(super) fn awaited(&self) -> usize {
        self.pieces.len() - self.given_up()
    }

    /// How many were given up and have not come back.
    pub(super) fn given_up(&self) -> usize {
        self.pieces.values().filter(|piece| piece.state == State::GivenUp).count()
    }

    /// How long a piece may take.
    pub(super) fn timeout(&self) -> Duration {
        self.limits.timeout
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// At most `most` at a time, a second each, told apart by their numbers, of two kinds: even and odd.
    fn underway(most: usize) -> Underway<u32, u32> {
        let at_a_time = NonZeroUsize::new(most).unwrap();
        Underway::new(CallLimits { at_a_time, timeout: Duration::from_secs(1) })
    }

    fn fill(
        underway: &mut Underway<u32, u32>,
        mut numbers: impl Iterator<Item = u32>,
        now: Instant,
    ) -> usize {
        let before = underway.pieces.len();
        while underway.has_room()
            && let Some(number) = numbers.next()
        {
            underway.begin(number, number, now);
        }
        underway.pieces.len() - before
    }

    #[test]
    fn what_takes_too_long_makes_room_once_and_not_again() {
        let start = Instant::now();
        let after = |seconds| start + Duration::from_secs(seconds);
        let (mut underway, mut numbers) = (underway(4), 0..);
        assert_eq!(fill(&mut underway, numbers.by_ref(), start), 4);
        assert_eq!(underway.next(), Some(after(1)));
        assert!(underway.give_up(start).is_empty());
        assert_eq!(underway.give_up(after(1)), [0, 1, 2, 3]);
        assert_eq!((underway.awaited(), underway.given_up(), underway.next()), (0, 4, None));
        // Others begin in their place, though never more than twice as many threads.
        assert_eq!(fill(&mut underway, numbers.by_ref(), after(1)), 4);
        assert_eq!(underway.give_up(after(2)).len(), 4);
        assert_eq!(fill(&mut underway, numbers.by_ref(), after(2)), 0);
        // A thread that comes back late is not heard, and leaves its place to another.
        assert!(!underway.end(&0));
        assert!(!underway.settle(&1));
        assert_eq!(fill(&mut underway, numbers.by_ref(), after(2)), 2);
    }

    #[test]
    fn what_was_given_up_and_is_asked_for_again_is_awaited_on_its_old_thread() {
        let start = Instant::now();
        let mut underway = underway(2);
        assert!(!underway.awaits(&7, start));
        underway.begin(7, 7, start);
        let late = start + Duration::from_secs(1);
        assert_eq!(underway.give_up(late), [7]);
        assert!(underway.awaits(&7, late));
        assert_eq!(underway.next(), Some(late + Duration::from_secs(1)));
        assert!(underway.end(&7), "this time it is heard");
    }

    #[test]
    fn an_outcome_that_counts_later_is_not_given_up() {
        let start = Instant::now();
        let mut underway = underway(2);
        underway.begin(7, 7, start);
        assert!(underway.settle(&7));
        assert!(underway.give_up(start + Duration::from_secs(9)).is_empty());
        assert_eq!(underway.awaited(), 1);
        assert!(underway.end(&7));
    }

    #[test]
    fn alike_ones_leave_room_for_others() {
        let start = Instant::now();
        for (most, alike, others) in [(1, 1, 0), (2, 1, 1), (8, 7, 1), (64, 56, 8)] {
            let mut underway = underway(most);
            let mut evens = (0..).step_by(2);
            let even = |number: &u32| number.is_multiple_of(2);
            let mut begun = 0;
            while underway.has_room_for(even) {
                let number = evens.next().unwrap();
                underway.begin(number, number, start);
                begun += 1;
            }
            assert_eq!(begun, alike, "of {most}");
            assert_eq!(fill(&mut underway, (1..).step_by(2), start), others, "of {most}");
        }
    }
}
