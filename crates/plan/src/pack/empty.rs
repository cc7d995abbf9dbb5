//! Empties a bin: its items push others out of theirs, until all have a place.
//!
//! Items without a bin wait on a stack. The last of them goes where it has room, or else pushes out the items of
//! a bin that have waited least often (an ejection search; Nagata and Bräysy 2009). Some exchanges between bins
//! follow, so that the same does not happen again and again.

use crate::draw::Draw;
use crate::exact::Steps;

use super::{Bins, Items};

/// Tries to do with one bin fewer.
pub(super) fn one_fewer(items: &Items, bins: &Bins, steps: &mut Steps<'_>) -> Option<Bins> {
    let mut search = Ejection::new(items, bins)?;
    search.run(steps).then_some(search.bins)
}

/// After how many turns without progress a search ends, for each item.
const PATIENCE: usize = 300;
/// The most items that are pushed out at once.
const PUSHED: usize = 3;
/// How many exchanges are tried in a turn.
const EXCHANGES: usize = 8;

struct Ejection<'a> {
    items: &'a Items,
    bins: Bins,
    free: Vec<u64>,
    /// The items without a bin, the last first.
    out: Vec<u32>,
    /// How often each item has waited.
    waited: Vec<u32>,
    draw: Draw,
}

/// The items that would be pushed out of a bin.
#[derive(Default)]
struct Push {
    bin: usize,
    items: Vec<u32>,
    /// How often they have waited, together.
    waited: u32,
    /// How many as good ones there were.
    equal: usize,
}

impl<'a> Ejection<'a> {
    fn new(items: &'a Items, bins: &Bins) -> Option<Self> {
        let mut bins = bins.clone();
        // The lightest bin is emptied with least effort.
        let weight = |bin: &Vec<u32>| bin.iter().map(|item| items.weight(*item)).sum::<u64>();
        let lightest = (0..bins.len()).min_by_key(|bin| weight(&bins[*bin]))?;
        let mut out = bins.swap_remove(lightest);
        out.sort_by_key(|item| items.weight(*item));
        let mut search = Self {
            free: Vec::with_capacity(bins.len() * items.width),
            bins: vec![Vec::new(); bins.len()],
            waited: vec![1; items.len()],
            draw: Draw::new(),
            items,
            out,
        };
        for (number, bin) in bins.into_iter().enumerate() {
            search.free.extend(&items.capacity);
            bin.into_iter().for_each(|item| search.put(item, number));
        }
        Some(search)
    }

    fn run(&mut self, steps: &mut Steps<'_>) -> bool {
        let (mut fewest, mut idle) = (usize::MAX, 0);
        let patience = PATIENCE * self.items.len();
        while let Some(item) = self.out.pop() {
            if idle > patience || !steps.take() {
                return false;
            }
            idle += 1;
            if let Some(bin) = self.with_room(item) {
                self.put(item, bin);
            } else {
                self.waited[item as usize] += 1;
                match self.least_push(item) {
                    Some(push) => self.push(item, push),
                    None => self.out.insert(0, item),
                }
                (0..EXCHANGES).for_each(|_| self.exchange());
            }
            if self.out.len() < fewest {
                fewest = self.out.len();
                idle = 0;
            }
        }
        true
    }

    fn room(&self, bin: usize) -> &[u64] {
        &self.free[bin * self.items.width..(bin + 1) * self.items.width]
    }

    fn put(&mut self, item: u32, bin: usize) {
        let width = self.items.width;
        let free = &mut self.free[bin * width..(bin + 1) * width];
        free.iter_mut().zip(self.items.size(item)).for_each(|(free, size)| *free -= size);
        self.bins[bin].push(item);
    }

    fn take(&mut self, item: u32, bin: usize) {
        let width = self.items.width;
        let free = &mut self.free[bin * width..(bin + 1) * width];
        free.iter_mut().zip(self.items.size(item)).for_each(|(free, size)| *free += size);
        self.bins[bin].retain(|other| *other != item);
    }

    /// A bin that has room, drawn from all that have.
    fn with_room(&mut self, item: u32) -> Option<usize> {
        let mut found = None;
        let mut count = 0;
        for bin in 0..self.bins.len() {
            if self.fits(bin, item, &[]) {
                count += 1;
                if self.draw.below(count) == 0 {
                    found = Some(bin);
                }
            }
        }
        found
    }

    /// Whether an item fits into a bin that some others leave.
    fn fits(&self, bin: usize, item: u32, leave: &[u32]) -> bool {
        let size = self.items.size(item);
        self.room(bin).iter().zip(size).enumerate().all(|(dimension, (free, size))| {
            let left = leave.iter().map(|other| self.items.size(*other)[dimension]);
            *size <= free + left.sum::<u64>()
        })
    }

    /// The fewest waits of items that would make room for one.
    fn least_push(&mut self, item: u32) -> Option<Push> {
        let mut best = Push { waited: u32::MAX, ..Push::default() };
        for bin in 0..self.bins.len() {
            self.pushes(bin, item, 0, 0, &mut Vec::new(), &mut best);
        }
        (best.waited < u32::MAX).then_some(best)
    }

    /// Looks at sets of items of a bin, from a position on.
    fn pushes(
        &mut self,
        bin: usize,
        item: u32,
        from: usize,
        waited: u32,
        leave: &mut Vec<u32>,
        best: &mut Push,
    ) {
        if self.fits(bin, item, leave) {
            best.equal = if waited < best.waited { 1 } else { best.equal + 1 };
            if self.draw.below(best.equal) == 0 {
                *best = Push { bin, items: leave.clone(), waited, equal: best.equal };
            }
            return;
        }
        if leave.len() == PUSHED {
            return;
        }
        for index in from..self.bins[bin].len() {
            let other = self.bins[bin][index];
            let waited = waited.saturating_add(self.waited[other as usize]);
            if waited <= best.waited && waited < u32::MAX {
                leave.push(other);
                self.pushes(bin, item, index + 1, waited, leave, best);
                leave.pop();
            }
        }
    }

    fn push(&mut self, item: u32, push: Push) {
        for other in &push.items {
            self.take(*other, push.bin);
        }
        self.put(item, push.bin);
        self.out.extend(push.items);
    }

    /// Tries to exchange two items, drawn at random, between their bins.
    fn exchange(&mut self) {
        if self.bins.len() < 2 {
            return;
        }
        let one = self.draw.below(self.bins.len());
        let other = self.draw.below(self.bins.len());
        if one == other || self.bins[one].is_empty() {
            return;
        }
        let mine = self.bins[one][self.draw.below(self.bins[one].len())];
        // The other bin may only gain.
        let index = self.draw.below(self.bins[other].len() + 1);
        let theirs = self.bins[other].get(index).copied();
        let theirs: &[u32] = theirs.as_slice();
        let fits = self.fits(other, mine, theirs)
            && theirs.iter().all(|theirs| self.fits(one, *theirs, &[mine]));
        if fits {
            self.take(mine, one);
            for theirs in theirs {
                self.take(*theirs, other);
                self.put(*theirs, one);
            }
            self.put(mine, other);
        }
    }
}
