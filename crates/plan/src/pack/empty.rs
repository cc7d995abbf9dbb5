//! Empties a bin by exchanges: its items go to other bins, in exchange for smaller ones, until all have a
//! place. A tabu search: what was moved a moment ago stays where it is.

use crate::exact::Steps;

use super::{Bins, Items};

/// Tries to do with one bin fewer.
pub(super) fn one_fewer(items: &Items, bins: &Bins, steps: &mut Steps<'_>) -> Option<Bins> {
    // The lightest bins are emptied with least effort; the others are tried if that fails.
    let mut order: Vec<usize> = (0..bins.len()).collect();
    let weight = |bin: &usize| bins[*bin].iter().map(|item| items.weight(*item)).sum::<u64>();
    order.sort_by_key(weight);
    for emptied in order.into_iter().take(ATTEMPTS) {
        let mut search = Exchange::new(items, bins, emptied);
        if search.run(steps) {
            return Some(search.bins);
        }
    }
    None
}

/// How many bins are tried to be emptied.
const ATTEMPTS: usize = 8;
/// Exchanges without progress before an attempt ends.
const PATIENCE: u32 = 400;
/// For how many exchanges a moved item stays.
const TABU: u32 = 12;

struct Exchange<'a> {
    items: &'a Items,
    bins: Bins,
    free: Vec<u64>,
    /// The items without a bin.
    out: Vec<u32>,
    /// Until when an item may not move.
    tabu: Vec<u32>,
    now: u32,
}

/// Items that leave a bin, and items that come instead.
#[derive(Clone, Debug)]
struct Move {
    bin: usize,
    leave: Vec<u32>,
    enter: Vec<u32>,
}

impl<'a> Exchange<'a> {
    fn new(items: &'a Items, bins: &Bins, emptied: usize) -> Self {
        let mut bins = bins.clone();
        let out = bins.remove(emptied);
        let mut free = Vec::with_capacity(bins.len() * items.width);
        for bin in &bins {
            let mut left = items.capacity.clone();
            for item in bin {
                left.iter_mut().zip(items.size(*item)).for_each(|(left, size)| *left -= size);
            }
            free.extend(left);
        }
        Self { bins, free, out, tabu: vec![0; items.len()], now: 0, items }
    }

    fn run(&mut self, steps: &mut Steps<'_>) -> bool {
        let mut least = u64::MAX;
        let mut last_progress = 0;
        while !self.out.is_empty() {
            if self.now - last_progress > PATIENCE || !steps.take() {
                return false;
            }
            self.now += 1;
            // Without a move, items that stay for now are waited for.
            if let Some(best) = self.best_move() {
                self.perform(&best);
            }
            let weight = self.out.iter().map(|item| self.items.weight(*item)).sum();
            if weight < least {
                least = weight;
                last_progress = self.now;
            }
        }
        true
    }

    fn is_free(&self, item: u32) -> bool {
        self.tabu[item as usize] < self.now
    }

    /// The exchange after which least is out.
    fn best_move(&self) -> Option<Move> {
        let sets = sets_of_two(
            &self.out.iter().copied().filter(|item| self.is_free(*item)).collect::<Vec<_>>(),
        );
        let mut entering: Vec<(u64, Vec<u32>)> =
            sets.into_iter().map(|set| (self.weight(&set), set)).collect();
        entering.sort_by(|one, other| other.0.cmp(&one.0).then_with(|| one.1.cmp(&other.1)));
        let mut best: Option<((i128, u64), Move)> = None;
        for bin in 0..self.bins.len() {
            let movable: Vec<u32> =
                self.bins[bin].iter().copied().filter(|item| self.is_free(*item)).collect();
            let mut leaving = sets_of_two(&movable);
            leaving.push(Vec::new());
            for leave in leaving {
                let loss = self.weight(&leave);
                for (gain, enter) in &entering {
                    let value = i128::from(*gain) - i128::from(loss);
                    if best.as_ref().is_some_and(|((best, _), _)| value < *best) {
                        // The others are lighter.
                        break;
                    }
                    let key = (value, self.lot(bin, &leave, enter));
                    let better = best.as_ref().is_none_or(|(best, _)| key > *best);
                    if better && self.fits(bin, &leave, enter) && !self.is_alike(&leave, enter) {
                        best =
                            Some((key, Move { bin, leave: leave.clone(), enter: enter.clone() }));
                    }
                }
            }
        }
        best.map(|(_, found)| found)
    }

    /// Decides between exchanges of one value, otherwise at each turn.
    fn lot(&self, bin: usize, leave: &[u32], enter: &[u32]) -> u64 {
        let items = leave.iter().chain(enter).map(|item| u64::from(*item));
        items.chain([bin as u64]).fold(u64::from(self.now), |lot, number| {
            (lot ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(23)
        })
    }

    fn weight(&self, items: &[u32]) -> u64 {
        items.iter().map(|item| self.items.weight(*item)).sum()
    }

    fn fits(&self, bin: usize, leave: &[u32], enter: &[u32]) -> bool {
        (0..self.items.width).all(|dimension| {
            let sum = |items: &[u32]| {
                items.iter().map(|item| self.items.size(*item)[dimension]).sum::<u64>()
            };
            sum(enter) <= self.free[bin * self.items.width + dimension] + sum(leave)
        })
    }

    /// Whether an exchange would change nothing but names.
    fn is_alike(&self, leave: &[u32], enter: &[u32]) -> bool {
        let sizes = |items: &[u32]| {
            let mut sizes: Vec<&[u64]> = items.iter().map(|item| self.items.size(*item)).collect();
            sizes.sort_unstable();
            sizes
        };
        leave.len() == enter.len() && sizes(leave) == sizes(enter)
    }

    fn perform(&mut self, change: &Move) {
        let width = self.items.width;
        let free = &mut self.free[change.bin * width..(change.bin + 1) * width];
        for item in &change.leave {
            free.iter_mut().zip(self.items.size(*item)).for_each(|(free, size)| *free += size);
        }
        for item in &change.enter {
            free.iter_mut().zip(self.items.size(*item)).for_each(|(free, size)| *free -= size);
        }
        let bin = &mut self.bins[change.bin];
        bin.retain(|item| !change.leave.contains(item));
        bin.extend(&change.enter);
        self.out.retain(|item| !change.enter.contains(item));
        self.out.extend(&change.leave);
        for item in change.leave.iter().chain(&change.enter) {
            self.tabu[*item as usize] = self.now + TABU;
        }
    }
}

/// All sets of one or two of the items.
fn sets_of_two(items: &[u32]) -> Vec<Vec<u32>> {
    let mut sets: Vec<Vec<u32>> = Vec::new();
    for (index, one) in items.iter().enumerate() {
        sets.push(vec![*one]);
        sets.extend(items[..index].iter().map(|other| vec![*other, *one]));
    }
    sets
}
