//! Dice: streams of draws, one for each purpose, so that what one family of faults draws is the same
//! whether the others are on or off.

use rand::RngExt as _;
use rand_chacha::ChaCha8Rng;
use tenure_core::model::time::{Span, Time};

use crate::random::{Chance, Purpose};

/// A stream of draws.
#[derive(Clone, Debug)]
pub(super) struct Sampler(ChaCha8Rng);

impl From<ChaCha8Rng> for Sampler {
    fn from(stream: ChaCha8Rng) -> Self {
        Self(stream)
    }
}

impl Sampler {
    /// The stream of that number.
    pub(super) fn new(chance: Chance, stream: u64) -> Self {
        Self(chance.of(Purpose::Simulate, &[stream]))
    }

    /// Any number.
    pub(super) fn any(&mut self) -> u64 {
        self.0.random()
    }

    /// A number below `sides`, which is at least one.
    pub(super) fn below(&mut self, sides: usize) -> usize {
        self.0.random_range(0..sides.max(1))
    }

    /// A number from `low` to `high`, both included.
    pub(super) fn between(&mut self, low: i64, high: i64) -> i64 {
        self.0.random_range(low..=high.max(low))
    }

    /// A small count from `low` to `high`, both included.
    pub(super) fn count(&mut self, low: u32, high: u32) -> u32 {
        self.0.random_range(low..=high.max(low))
    }

    /// Whether something happens that happens `percent` times in a hundred.
    pub(super) fn percent(&mut self, percent: u32) -> bool {
        self.0.random_range(0..100) < percent
    }

    /// A fraction from zero to `most`.
    pub(super) fn fraction(&mut self, most: f64) -> f64 {
        self.0.random_range(0.0..=most)
    }

    /// A length of time, evenly drawn.
    pub(super) fn span(&mut self, low: Span, high: Span) -> Span {
        Span::from_micros(self.between(low.as_micros(), high.as_micros()))
    }

    /// A length of time of any order of magnitude: first an octave is drawn, then a length within it.
    pub(super) fn scaled(&mut self, low: Span, high: Span) -> Span {
        let (low, high) = (low.as_micros().max(1), high.as_micros().max(1));
        let octaves = (high.max(low) / low).ilog2();
        let from = low << self.0.random_range(0..=octaves);
        Span::from_micros(self.between(from, from.saturating_mul(2).min(high.max(from))))
    }

    /// An instant, evenly drawn.
    pub(super) fn time(&mut self, from: Time, until: Time) -> Time {
        Time::from_micros(self.between(from.as_micros(), until.as_micros()))
    }

    /// One of several, if there is one.
    pub(super) fn pick<'a, T>(&mut self, from: &'a [T]) -> Option<&'a T> {
        (!from.is_empty()).then(|| &from[self.below(from.len())])
    }

    /// Thirty-two bytes.
    pub(super) fn bytes(&mut self, count: usize) -> Vec<u8> {
        (0..count).map(|_| self.0.random_range(0..=255)).collect()
    }
}
