//! Items of one dimension by kind: those of one size are alike. And the best that a bin can hold at given
//! prices.

use super::cutting::Pattern;
use super::{Bins, Items};

/// The most cells of a knapsack by dynamic programming, each some nanoseconds a round.
const MAX_CELLS: u64 = 2_000_000;
/// The most kinds, whose square is the size of a basis.
const MAX_KINDS: usize = 600;

/// Items by kind, largest first.
#[derive(Clone, Debug)]
pub(super) struct Kinds {
    capacity: u64,
    sizes: Vec<u64>,
    counts: Vec<u32>,
    /// The items of each kind.
    items: Vec<Vec<u32>>,
    /// Items without a size, which go anywhere.
    nothing: Vec<u32>,
}

/// What a bin can hold.
pub(super) struct Best {
    pub(super) pattern: Pattern,
    pub(super) worth: f64,
}

impl Kinds {
    /// None if there are several dimensions, if there are too many kinds, or if a knapsack would be too large.
    pub(super) fn of(items: &Items) -> Option<Self> {
        let [capacity] = items.capacity.as_slice() else { return None };
        let mut kinds = Self {
            capacity: *capacity,
            sizes: Vec::new(),
            counts: Vec::new(),
            items: Vec::new(),
            nothing: Vec::new(),
        };
        for item in items.by(|item| items.size(item)[0]) {
            let size = items.size(item)[0];
            if size == 0 {
                kinds.nothing.push(item);
            } else if kinds.sizes.last() == Some(&size) {
                kinds.items.last_mut()?.push(item);
                *kinds.counts.last_mut()? += 1;
            } else {
                kinds.sizes.push(size);
                kinds.items.push(vec![item]);
                kinds.counts.push(1);
            }
        }
        kinds.reduce();
        let cells = kinds.capacity.saturating_mul(kinds.len() as u64);
        let fits = kinds.len() <= MAX_KINDS && cells <= MAX_CELLS;
        (fits && !kinds.items.is_empty()).then_some(kinds)
    }

    /// Divides sizes by what divides all.
    fn reduce(&mut self) {
        let divisor = self.sizes.iter().fold(0, |divisor, size| gcd(divisor, *size)).max(1);
        self.capacity /= divisor;
        self.sizes.iter_mut().for_each(|size| *size /= divisor);
    }

    pub(super) fn len(&self) -> usize {
        self.items.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.counts.iter().all(|count| *count == 0)
    }

    pub(super) fn counts(&self) -> &[u32] {
        &self.counts
    }

    /// How many of a kind a bin can hold, of those that are left.
    pub(super) fn most(&self, kind: usize) -> u32 {
        let fits = self.capacity / self.sizes[kind];
        self.counts[kind].min(u32::try_from(fits).unwrap_or(u32::MAX))
    }

    /// Whether all that a pattern holds is left.
    pub(super) fn covers(&self, pattern: &[u32]) -> bool {
        pattern.iter().zip(&self.counts).all(|(wanted, left)| wanted <= left)
    }

    /// Fills a bin by a pattern, as far as items are left; false if none is.
    pub(super) fn take(&mut self, pattern: &[u32], fixed: &mut Vec<Pattern>) -> bool {
        let clipped: Pattern =
            pattern.iter().zip(&self.counts).map(|(wanted, left)| *wanted.min(left)).collect();
        if clipped.iter().all(|count| *count == 0) {
            return false;
        }
        self.counts.iter_mut().zip(&clipped).for_each(|(left, count)| *left -= count);
        fixed.push(clipped);
        true
    }

    /// What is left, as items, with the kind of each.
    pub(super) fn as_items(&self) -> (Items, Vec<usize>) {
        let (mut sizes, mut kind_of) = (Vec::new(), Vec::new());
        for (kind, count) in self.counts.iter().enumerate() {
            for _ in 0..*count {
                sizes.push(self.sizes[kind]);
                kind_of.push(kind);
            }
        }
        (Items::new(vec![self.capacity], sizes), kind_of)
    }

    /// Which items are meant by patterns.
    pub(super) fn name(&self, patterns: &[Pattern]) -> Bins {
        let mut next = vec![0; self.len()];
        let mut bins = Bins::new();
        for pattern in patterns {
            let mut bin = Vec::new();
            for (kind, count) in pattern.iter().enumerate() {
                for _ in 0..*count {
                    bin.push(self.items[kind][next[kind]]);
                    next[kind] += 1;
                }
            }
            bins.push(bin);
        }
        if let Some(bin) = bins.first_mut() {
            bin.extend(&self.nothing);
        }
        bins
    }

    /// What a bin can hold that is worth most, by dynamic programming over what is used of it.
    pub(super) fn knapsack(&self, prices: &[f64]) -> Best {
        let room = index(self.capacity);
        let mut worth = vec![0.0; room + 1];
        let mut taken: Vec<u32> = vec![0; (room + 1) * self.len()];
        for (kind, price) in prices.iter().enumerate() {
            let (size, most) = (index(self.sizes[kind]), self.most(kind));
            if most == 0 || *price <= 0.0 {
                continue;
            }
            let row = &mut taken[kind * (room + 1)..(kind + 1) * (room + 1)];
            let before = worth.clone();
            for used in size..=room {
                for (copies, count) in
                    (1..=most as usize).zip(1..).take_while(|(copies, _)| copies * size <= used)
                {
                    let with = before[used - copies * size] + price * f64::from(count);
                    if with > worth[used] {
                        worth[used] = with;
                        row[used] = count;
                    }
                }
            }
        }
        let mut pattern = vec![0; self.len()];
        let mut used = room;
        for kind in (0..self.len()).rev() {
            pattern[kind] = taken[kind * (room + 1) + used];
            used -= pattern[kind] as usize * index(self.sizes[kind]);
        }
        Best { pattern, worth: worth[room] }
    }
}

/// An amount that is known to be small.
fn index(amount: u64) -> usize {
    usize::try_from(amount).unwrap_or(usize::MAX)
}

fn gcd(one: u64, other: u64) -> u64 {
    if one == 0 { other } else { gcd(other % one, one) }
}
