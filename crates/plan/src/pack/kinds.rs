//! Items by kind: those of one size are alike. And the best that a bin can hold at given prices.

use super::cutting::Pattern;
use super::{Bins, Items};

/// The most cells of a knapsack by dynamic programming, each some nanoseconds a round.
const MAX_CELLS: u64 = 2_000_000;
/// The most kinds, whose square is the size of a basis.
const MAX_KINDS: usize = 600;
/// The most partial patterns that are tried in several dimensions.
const MAX_TRIES: u32 = 20_000;

/// Items by kind, largest first.
#[derive(Clone, Debug)]
pub(super) struct Kinds {
    width: usize,
    capacity: Vec<u64>,
    /// By kind and dimension.
    sizes: Vec<u64>,
    /// The share of a bin that a kind takes, summed over dimensions.
    weights: Vec<f64>,
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
    /// Whether nothing is worth more.
    pub(super) proven: bool,
}

impl Kinds {
    /// None if there are too many kinds, or if a knapsack would be too large.
    pub(super) fn of(items: &Items) -> Option<Self> {
        let width = items.width;
        let mut kinds = Self {
            width,
            capacity: items.capacity.clone(),
            sizes: Vec::new(),
            weights: Vec::new(),
            counts: Vec::new(),
            items: Vec::new(),
            nothing: Vec::new(),
        };
        for item in items.by(|item| (items.weight(item), items.size(item).to_vec())) {
            let size = items.size(item);
            let last = kinds.items.len().checked_sub(1);
            if size.iter().all(|amount| *amount == 0) {
                kinds.nothing.push(item);
            } else if let Some(last) = last.filter(|last| kinds.size(*last) == size) {
                kinds.items[last].push(item);
                kinds.counts[last] += 1;
            } else {
                kinds.sizes.extend_from_slice(size);
                kinds.items.push(vec![item]);
                kinds.counts.push(1);
            }
        }
        kinds.reduce();
        kinds.weights = (0..kinds.len()).map(|kind| kinds.weigh(kind)).collect();
        let cells = kinds.capacity[0].saturating_mul(kinds.len() as u64);
        let fits = kinds.len() <= MAX_KINDS && width == 1 && cells <= MAX_CELLS;
        (fits && !kinds.items.is_empty()).then_some(kinds)
    }

    /// Divides sizes of a dimension by what divides all.
    fn reduce(&mut self) {
        for dimension in 0..self.width {
            let sizes = self.sizes.iter().skip(dimension).step_by(self.width);
            let divisor = sizes.fold(0, |divisor, size| gcd(divisor, *size)).max(1);
            self.capacity[dimension] /= divisor;
            self.sizes
                .iter_mut()
                .skip(dimension)
                .step_by(self.width)
                .for_each(|size| *size /= divisor);
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "an estimate")]
    fn weigh(&self, kind: usize) -> f64 {
        let shares =
            self.size(kind).iter().zip(&self.capacity).filter(|(_, capacity)| **capacity > 0);
        shares.map(|(size, capacity)| *size as f64 / *capacity as f64).sum()
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

    fn size(&self, kind: usize) -> &[u64] {
        &self.sizes[kind * self.width..(kind + 1) * self.width]
    }

    /// How many of a kind a bin can hold, of those that are left.
    pub(super) fn most(&self, kind: usize) -> u32 {
        let fits = self.size(kind).iter().zip(&self.capacity).filter(|(size, _)| **size > 0);
        let fits = fits.map(|(size, capacity)| capacity / size).min().unwrap_or(0);
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
                sizes.extend_from_slice(self.size(kind));
                kind_of.push(kind);
            }
        }
        (Items::new(self.capacity.clone(), sizes), kind_of)
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

    /// What a bin can hold that is worth most.
    pub(super) fn knapsack(&self, prices: &[f64]) -> Best {
        if self.width == 1 { self.by_table(prices) } else { Tries::best(self, prices) }
    }

    /// In one dimension: dynamic programming over what is used of a bin.
    fn by_table(&self, prices: &[f64]) -> Best {
        let room = index(self.capacity[0]);
        let mut worth = vec![0.0; room + 1];
        let mut taken: Vec<u32> = vec![0; (room + 1) * self.len()];
        for (kind, price) in prices.iter().enumerate() {
            let (size, most) = (index(self.size(kind)[0]), self.most(kind));
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
            used -= pattern[kind] as usize * index(self.size(kind)[0]);
        }
        Best { pattern, worth: worth[room], proven: true }
    }
}

/// An amount that is known to be small.
fn index(amount: u64) -> usize {
    usize::try_from(amount).unwrap_or(usize::MAX)
}

fn gcd(one: u64, other: u64) -> u64 {
    if one == 0 { other } else { gcd(other % one, one) }
}

/// In several dimensions: all patterns are tried, the kinds of the highest price for their weight first. A
/// branch ends where even that price for all that is left of the bin is no better.
struct Tries<'a> {
    kinds: &'a Kinds,
    prices: &'a [f64],
    order: Vec<usize>,
    free: Vec<u64>,
    weight: f64,
    pattern: Pattern,
    best: Best,
    left: u32,
}

impl<'a> Tries<'a> {
    fn best(kinds: &'a Kinds, prices: &'a [f64]) -> Best {
        let mut order: Vec<usize> =
            (0..kinds.len()).filter(|kind| prices[*kind] > 0.0 && kinds.most(*kind) > 0).collect();
        let ratio = |kind: usize| prices[kind] / kinds.weights[kind];
        order.sort_by(|one, other| ratio(*other).total_cmp(&ratio(*one)).then(one.cmp(other)));
        let dimensions = kinds.capacity.iter().filter(|capacity| **capacity > 0).count();
        let mut tries = Tries {
            kinds,
            prices,
            order,
            free: kinds.capacity.clone(),
            weight: f64::from(u32::try_from(dimensions).unwrap_or(u32::MAX)),
            pattern: vec![0; kinds.len()],
            best: Best { pattern: vec![0; kinds.len()], worth: 0.0, proven: true },
            left: MAX_TRIES,
        };
        tries.look(0, 0.0);
        tries.best.proven = tries.left > 0;
        tries.best
    }

    fn look(&mut self, from: usize, worth: f64) {
        if worth > self.best.worth {
            self.best.worth = worth;
            self.best.pattern.clone_from(&self.pattern);
        }
        for at in from..self.order.len() {
            let kind = self.order[at];
            let ratio = self.prices[kind] / self.kinds.weights[kind];
            // A little more than the bound, whatever is lost in rounding.
            if self.left == 0 || (worth + ratio * self.weight) * (1.0 + 1e-9) <= self.best.worth {
                return;
            }
            if self.pattern[kind] == self.kinds.most(kind) || !self.fits(kind) {
                continue;
            }
            self.left -= 1;
            self.exchange(kind, true);
            self.look(at, worth + self.prices[kind]);
            self.exchange(kind, false);
        }
    }

    fn fits(&self, kind: usize) -> bool {
        self.kinds.size(kind).iter().zip(&self.free).all(|(size, free)| size <= free)
    }

    fn exchange(&mut self, kind: usize, put: bool) {
        let sizes = self.kinds.size(kind);
        if put {
            self.free.iter_mut().zip(sizes).for_each(|(free, size)| *free -= size);
            self.weight -= self.kinds.weights[kind];
            self.pattern[kind] += 1;
        } else {
            self.free.iter_mut().zip(sizes).for_each(|(free, size)| *free += size);
            self.weight += self.kinds.weights[kind];
            self.pattern[kind] -= 1;
        }
    }
}
