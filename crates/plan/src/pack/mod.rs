//! Packing into equal bins: simple rules first, then exchanges that empty one bin after another.

pub(crate) mod bounds;
mod cutting;
mod empty;
mod fill;
mod kinds;

pub(crate) use fill::Rooms;

use crate::exact::Steps;

/// Items and equal bins. Dimensions stand next to each other.
#[derive(Debug)]
pub(crate) struct Items {
    pub(crate) width: usize,
    pub(crate) capacity: Vec<u64>,
    sizes: Vec<u64>,
    /// How much of a bin an item is: the sum over dimensions, in millionths of a bin.
    weights: Vec<u64>,
}

/// The items of each bin.
pub(crate) type Bins = Vec<Vec<u32>>;

impl Items {
    pub(crate) fn new(capacity: Vec<u64>, sizes: Vec<u64>) -> Self {
        let width = capacity.len();
        let mut items = Self { width, capacity, sizes, weights: Vec::new() };
        items.weights = (0..items.len()).map(|item| items.weigh(item)).collect();
        items
    }

    pub(crate) fn len(&self) -> usize {
        self.sizes.len() / self.width
    }

    pub(crate) fn size(&self, item: u32) -> &[u64] {
        &self.sizes[item as usize * self.width..(item as usize + 1) * self.width]
    }

    pub(crate) fn weight(&self, item: u32) -> u64 {
        self.weights[item as usize]
    }

    fn weigh(&self, item: usize) -> u64 {
        let size = &self.sizes[item * self.width..(item + 1) * self.width];
        let shares = size.iter().zip(&self.capacity).filter(|(_, capacity)| **capacity > 0);
        let share =
            |(size, capacity): (&u64, &u64)| u128::from(*size) * 1_000_000 / u128::from(*capacity);
        u64::try_from(shares.map(share).sum::<u128>()).unwrap_or(u64::MAX)
    }

    /// The largest share of a bin that an item takes, in millionths.
    fn largest_share(&self, item: u32) -> u128 {
        let shares =
            self.size(item).iter().zip(&self.capacity).filter(|(_, capacity)| **capacity > 0);
        shares
            .map(|(size, capacity)| u128::from(*size) * 1_000_000 / u128::from(*capacity))
            .max()
            .unwrap_or(0)
    }

    /// The items, largest first by some measure.
    fn by<K: Ord>(&self, measure: impl Fn(u32) -> K) -> Vec<u32> {
        let mut order: Vec<u32> = (0..).take(self.len()).collect();
        order.sort_by_cached_key(|item| (std::cmp::Reverse(measure(*item)), *item));
        order
    }

    /// How many bins are needed at least.
    pub(crate) fn bound(&self) -> u64 {
        let dimension = |dimension: usize| {
            let mut sizes: Vec<u64> =
                (0..self.len()).map(|item| self.sizes[item * self.width + dimension]).collect();
            sizes.sort_unstable_by(|one, other| other.cmp(one));
            bounds::bins(&sizes, self.capacity[dimension])
        };
        let pairs = if self.width > 1 { self.crowded() } else { 0 };
        (0..self.width).map(dimension).max().unwrap_or(0).max(pairs).max(u64::from(self.len() > 0))
    }

    /// How many items can be found of which no two fit into one bin.
    fn crowded(&self) -> u64 {
        let apart = |one: u32, other: u32| {
            let sizes = self.size(one).iter().zip(self.size(other)).zip(&self.capacity);
            sizes.into_iter().any(|((one, other), capacity)| one + other > *capacity)
        };
        let mut chosen: Vec<u32> = Vec::new();
        for item in self.by(|item| self.largest_share(item)).into_iter().take(2_000) {
            if chosen.iter().all(|other| apart(item, *other)) {
                chosen.push(item);
            }
        }
        chosen.len() as u64
    }
}

/// A packing, and how many bins are needed at least.
pub(crate) struct Packed {
    pub(crate) bins: Bins,
    pub(crate) bound: u64,
}

/// Packs items into few bins, until the bound is reached or the steps run out.
pub(crate) fn pack(items: &Items, steps: &mut Steps<'_>) -> Packed {
    let bins = fill::first_fit(items, &items.by(|item| items.largest_share(item)));
    let mut best = Packed { bins, bound: items.bound() };
    let rules: [&dyn Fn() -> Bins; 3] = [
        &|| fill::first_fit(items, &items.by(|item| items.weight(item))),
        &|| fill::tightest(items),
        &|| fill::aligned(items),
    ];
    for rule in rules {
        if best.is_least() || !steps.take() {
            return best;
        }
        best.improve(rule());
    }
    if best.is_least() {
        return best;
    }
    if let Some(cut) = cutting::cut(items, steps) {
        best.bound = best.bound.max(cut.bound);
        best.improve(cut.bins);
    }
    while !best.is_least() {
        match empty::one_fewer(items, &best.bins, steps) {
            Some(bins) => best.improve(bins),
            None => break,
        }
    }
    best
}

impl Packed {
    fn is_least(&self) -> bool {
        self.bins.len() as u64 <= self.bound
    }

    fn improve(&mut self, bins: Bins) {
        if bins.len() < self.bins.len() {
            self.bins = bins;
        }
    }
}
