//! Rules that fill bins one item or one bin at a time.

use super::{Bins, Items};

/// Each item goes to the first bin that has room.
pub(super) fn first_fit(items: &Items, order: &[u32]) -> Bins {
    let mut rooms = Rooms::new(order.len().max(1), &items.capacity);
    let mut bins: Bins = Vec::new();
    for item in order {
        // There is a bin for each item, and each fits into an empty one.
        let Some(bin) = rooms.first(items.size(*item)) else { continue };
        rooms.take(bin, items.size(*item));
        if bin == bins.len() {
            bins.push(Vec::new());
        }
        bins[bin].push(*item);
    }
    bins
}

/// What is free in each bin, as a tree: each node has the most of its two children.
pub(crate) struct Rooms {
    width: usize,
    /// How many leaves there are: a power of two.
    leaves: usize,
    most: Vec<u64>,
}

impl Rooms {
    pub(crate) fn new(bins: usize, capacity: &[u64]) -> Self {
        let width = capacity.len();
        let leaves = bins.next_power_of_two();
        let most = capacity.iter().copied().cycle().take(2 * leaves * width).collect();
        Self { width, leaves, most }
    }

    /// Of bins that differ.
    pub(crate) fn of<'a>(width: usize, bins: impl ExactSizeIterator<Item = &'a [u64]>) -> Self {
        let leaves = bins.len().next_power_of_two();
        let mut rooms = Self { width, leaves, most: vec![0; 2 * leaves * width] };
        for (bin, capacity) in bins.enumerate() {
            rooms.most[(leaves + bin) * width..(leaves + bin + 1) * width]
                .copy_from_slice(capacity);
        }
        for node in (1..leaves).rev() {
            rooms.refresh(node);
        }
        rooms
    }

    /// Whether it has changed.
    fn refresh(&mut self, node: usize) -> bool {
        let mut changed = false;
        for dimension in 0..self.width {
            let child = |child: usize| self.most[child * self.width + dimension];
            let most = child(2 * node).max(child(2 * node + 1));
            changed |=
                std::mem::replace(&mut self.most[node * self.width + dimension], most) != most;
        }
        changed
    }

    fn fits(&self, node: usize, size: &[u64]) -> bool {
        let most = &self.most[node * self.width..(node + 1) * self.width];
        size.iter().zip(most).all(|(size, most)| size <= most)
    }

    /// The first bin with room.
    pub(crate) fn first(&self, size: &[u64]) -> Option<usize> {
        self.below(1, size).map(|leaf| leaf - self.leaves)
    }

    /// In several dimensions a node may have room for each alone, and none of its bins for all.
    fn below(&self, node: usize, size: &[u64]) -> Option<usize> {
        if !self.fits(node, size) {
            return None;
        }
        if node >= self.leaves {
            return Some(node);
        }
        self.below(2 * node, size).or_else(|| self.below(2 * node + 1, size))
    }

    pub(crate) fn take(&mut self, bin: usize, size: &[u64]) {
        let mut node = self.leaves + bin;
        for (dimension, size) in size.iter().enumerate() {
            self.most[node * self.width + dimension] -= size;
        }
        while node > 1 && self.refresh(node / 2) {
            node /= 2;
        }
    }
}

/// Each bin in turn gets the largest item that is left, and with it a set of others that leaves least free
/// (minimum bin slack, Gupta and Ho 1999). In several dimensions, that of the largest weight.
pub(super) fn tightest(items: &Items) -> Bins {
    let mut left = items.by(|item| items.weight(item));
    let mut bins = Bins::new();
    while let Some(first) = left.first().copied() {
        let mut search = Tightest {
            items,
            left: &left,
            free: items.capacity.clone(),
            chosen: Vec::new(),
            weight: 0,
            best: Vec::new(),
            best_weight: 0,
            tries: TRIES,
        };
        search.choose(0, first);
        search.look(1);
        let best = search.best;
        bins.push(best.iter().map(|index| left[*index]).collect());
        let mut index = 0;
        left.retain(|_| {
            index += 1;
            !best.contains(&(index - 1))
        });
    }
    bins
}

/// How many sets of items are tried for a bin.
const TRIES: u32 = 20_000;

struct Tightest<'a> {
    items: &'a Items,
    left: &'a [u32],
    free: Vec<u64>,
    chosen: Vec<usize>,
    weight: u64,
    best: Vec<usize>,
    best_weight: u64,
    tries: u32,
}

impl Tightest<'_> {
    fn choose(&mut self, index: usize, item: u32) {
        self.free.iter_mut().zip(self.items.size(item)).for_each(|(free, size)| *free -= size);
        self.chosen.push(index);
        self.weight += self.items.weight(item);
    }

    fn look(&mut self, from: usize) {
        if self.weight > self.best_weight || self.best.is_empty() {
            self.best_weight = self.weight;
            self.best.clone_from(&self.chosen);
        }
        let full = self.items.width == 1 && self.free[0] == 0;
        let mut last: Option<&[u64]> = None;
        for index in from..self.left.len() {
            if full || self.tries == 0 || (self.items.width == 1 && self.best_free() == 0) {
                return;
            }
            let item = self.left[index];
            let size = self.items.size(item);
            // An equal item was tried in this place.
            if last == Some(size) || !size.iter().zip(&self.free).all(|(size, free)| size <= free) {
                continue;
            }
            last = Some(size);
            self.tries -= 1;
            self.choose(index, item);
            self.look(index + 1);
            self.chosen.pop();
            self.weight -= self.items.weight(item);
            self.free.iter_mut().zip(size).for_each(|(free, size)| *free += size);
        }
    }

    /// What the best set leaves free of the first dimension.
    fn best_free(&self) -> u64 {
        let taken: u64 = self.best.iter().map(|index| self.items.size(self.left[*index])[0]).sum();
        self.items.capacity[0] - taken
    }
}

/// Each bin in turn gets the item that fits and whose size goes best with what is free: the largest dot
/// product of both (Panigrahy et al. 2011).
pub(super) fn aligned(items: &Items) -> Bins {
    let mut left = items.by(|item| items.weight(item));
    let mut bins = Bins::new();
    // A quadratic rule, for small problems.
    if left.len() > 5_000 {
        return (0..).take(items.len()).map(|item| vec![item]).collect();
    }
    while !left.is_empty() {
        let mut free = items.capacity.clone();
        let mut bin = Vec::new();
        while let Some(index) = best_aligned(items, &left, &free) {
            let item = left.remove(index);
            free.iter_mut().zip(items.size(item)).for_each(|(free, size)| *free -= size);
            bin.push(item);
        }
        bins.push(bin);
    }
    bins
}

fn best_aligned(items: &Items, left: &[u32], free: &[u64]) -> Option<usize> {
    let fits = |item: u32| items.size(item).iter().zip(free).all(|(size, free)| size <= free);
    let product = |item: u32| -> u128 {
        let terms = items
            .size(item)
            .iter()
            .zip(free)
            .zip(&items.capacity)
            .filter(|(_, capacity)| **capacity > 0);
        terms
            .map(|((size, free), capacity)| {
                let capacity = u128::from(*capacity);
                (u128::from(*size) * 1_000_000 / capacity)
                    * (u128::from(*free) * 1_000_000 / capacity)
            })
            .sum()
    };
    let candidates = (0..left.len()).filter(|index| fits(left[*index]));
    candidates.max_by_key(|index| (product(left[*index]), std::cmp::Reverse(*index)))
}
