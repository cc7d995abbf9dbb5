//! Sets of small numbers.

/// A set of numbers below a limit.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Bits(Vec<u64>);

impl Bits {
    /// None of the numbers below `len`.
    pub(crate) fn none(len: usize) -> Self {
        Self(vec![0; len.div_ceil(64)])
    }

    /// All of the numbers below `len`.
    pub(crate) fn all(len: usize) -> Self {
        let mut bits = Self::none(len);
        (0..len).for_each(|number| bits.insert(number));
        bits
    }

    pub(crate) fn insert(&mut self, number: usize) {
        self.0[number / 64] |= 1 << (number % 64);
    }

    pub(crate) fn remove(&mut self, number: usize) {
        self.0[number / 64] &= !(1 << (number % 64));
    }

    pub(crate) fn contains(&self, number: usize) -> bool {
        self.0[number / 64] >> (number % 64) & 1 == 1
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.iter().all(|word| *word == 0)
    }
}
