//! Bins by patterns: the linear relaxation of Gilmore and Gomory (1961), solved by column generation.
//!
//! A pattern is what one bin holds. The relaxation says how often each is used, in fractions; rounded down
//! again and again it gives a packing, and its prices prove a bound. All proofs are in whole numbers: prices
//! are rounded to integers, whatever they are worth, and the knapsack over them is exact.

use crate::exact::Steps;

use super::kinds::Kinds;
use super::{Bins, Items, fill};

/// Prices in whole numbers: sums of a million of them are exact in double precision.
const SCALE: f64 = (1_u64 << 30) as f64;
/// What counts as nothing in the relaxation.
const EPSILON: f64 = 1e-9;

/// How often a pattern holds each kind.
pub(super) type Pattern = Vec<u32>;

/// A packing by patterns, and how many bins are needed at least.
pub(super) struct Cut {
    pub(super) bins: Bins,
    pub(super) bound: u64,
}

/// Packs items whose kinds are few enough; none else.
pub(super) fn cut(items: &Items, steps: &mut Steps<'_>) -> Option<Cut> {
    let mut left = Kinds::of(items)?;
    let all = left.clone();
    let mut pool = Vec::new();
    let mut relaxation = Relaxation::solve(&left, &mut pool, steps);
    let bound = left.bound(&relaxation.prices);
    let mut fixed: Vec<Pattern> = Vec::new();
    let mut best = complete(&left, &fixed);
    while best.len() as u64 > bound && !left.is_empty() && steps.take() {
        fix(&mut left, &relaxation, &mut fixed);
        let whole = complete(&left, &fixed);
        if whole.len() < best.len() {
            best = whole;
        }
        relaxation = Relaxation::solve(&left, &mut pool, steps);
    }
    Some(Cut { bins: all.name(&best), bound })
}

/// Takes whole uses of patterns from what is left, or the one use that comes nearest.
fn fix(left: &mut Kinds, relaxation: &Relaxation, fixed: &mut Vec<Pattern>) {
    let mut any = false;
    for (pattern, uses) in relaxation.patterns.iter().zip(&relaxation.uses) {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "no more than items"
        )]
        let whole = (uses + EPSILON).max(0.0).floor() as u64;
        for _ in 0..whole {
            any |= left.take(pattern, fixed);
        }
    }
    if any {
        return;
    }
    let mut order: Vec<usize> = (0..relaxation.patterns.len()).collect();
    order.sort_by(|one, other| {
        relaxation.uses[*other].total_cmp(&relaxation.uses[*one]).then(one.cmp(other))
    });
    for index in order {
        if left.take(&relaxation.patterns[index], fixed) {
            return;
        }
    }
}

/// The patterns that are fixed, and simple rules for the rest.
fn complete(left: &Kinds, fixed: &[Pattern]) -> Vec<Pattern> {
    let (items, kind_of) = left.as_items();
    let order: Vec<u32> = (0..).take(items.len()).collect();
    let first = fill::first_fit(&items, &order);
    let tight = fill::tightest(&items);
    let bins = if tight.len() < first.len() { tight } else { first };
    let mut patterns = fixed.to_vec();
    for bin in bins {
        let mut pattern = vec![0; left.len()];
        bin.iter().for_each(|item| pattern[kind_of[*item as usize]] += 1);
        patterns.push(pattern);
    }
    patterns
}

/// The linear relaxation: patterns with fractional uses, and the prices of sizes.
struct Relaxation {
    patterns: Vec<Pattern>,
    uses: Vec<f64>,
    prices: Vec<f64>,
}

impl Relaxation {
    /// The revised simplex method, with patterns made when they are wanted. `pool` has those of before.
    fn solve(kinds: &Kinds, pool: &mut Vec<Pattern>, steps: &mut Steps<'_>) -> Self {
        let mut simplex = Simplex::new(kinds);
        loop {
            let prices = simplex.prices();
            let known = pool.iter().filter(|pattern| kinds.covers(pattern));
            let known = known.map(|pattern| (worth(&prices, pattern), pattern));
            let known = known.filter(|(worth, _)| *worth > 1.0 + 1e-6);
            let known = known
                .max_by(|one, other| one.0.total_cmp(&other.0))
                .map(|(_, pattern)| pattern.clone());
            let pattern = match known {
                Some(pattern) => pattern,
                None => {
                    let best = kinds.knapsack(&prices);
                    if worth(&prices, &best.pattern) <= 1.0 + 1e-7 {
                        return Self { patterns: simplex.patterns, uses: simplex.uses, prices };
                    }
                    pool.push(best.pattern.clone());
                    best.pattern
                }
            };
            if !steps.take() || !simplex.enter(pattern) {
                return Self { patterns: simplex.patterns, uses: simplex.uses, prices };
            }
        }
    }
}

fn worth(prices: &[f64], pattern: &[u32]) -> f64 {
    prices.iter().zip(pattern).map(|(price, count)| price * f64::from(*count)).sum()
}

impl Kinds {
    /// The bins that are needed at least, by whatever prices: no bin holds more than the best knapsack. 0 if
    /// that is not known.
    fn bound(&self, prices: &[f64]) -> u64 {
        let prices: Vec<f64> =
            prices.iter().map(|price| (price.clamp(0.0, 1.0) * SCALE).floor()).collect();
        let best = self.knapsack(&prices);
        if best.worth < 1.0 {
            return 0;
        }
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "whole numbers below 2^53"
        )]
        let whole = |price: f64| price as u64;
        let all = prices
            .iter()
            .zip(self.counts())
            .map(|(price, count)| u128::from(whole(*price)) * u128::from(*count));
        u64::try_from(all.sum::<u128>().div_ceil(u128::from(whole(best.worth)))).unwrap_or(u64::MAX)
    }
}

/// A basis: a pattern for each size, and the inverse of their matrix.
struct Simplex {
    patterns: Vec<Pattern>,
    uses: Vec<f64>,
    inverse: Vec<f64>,
    width: usize,
}

impl Simplex {
    fn new(kinds: &Kinds) -> Self {
        let width = kinds.len();
        let mut simplex = Self {
            patterns: Vec::new(),
            uses: Vec::new(),
            inverse: vec![0.0; width * width],
            width,
        };
        for index in 0..width {
            // Of what is not wanted any more, a bin could hold one.
            let most = kinds.most(index).max(1);
            let mut pattern = vec![0; width];
            pattern[index] = most;
            simplex.patterns.push(pattern);
            simplex.uses.push(f64::from(kinds.counts()[index]) / f64::from(most));
            simplex.inverse[index * width + index] = 1.0 / f64::from(most);
        }
        simplex
    }

    /// Of each size: what a bin must be worth at least.
    fn prices(&self) -> Vec<f64> {
        (0..self.width)
            .map(|column| (0..self.width).map(|row| self.inverse[row * self.width + column]).sum())
            .collect()
    }

    /// Puts a pattern into the basis; false if it cannot go there.
    fn enter(&mut self, pattern: Pattern) -> bool {
        let width = self.width;
        let column: Vec<f64> = (0..width)
            .map(|row| {
                let row = &self.inverse[row * width..(row + 1) * width];
                row.iter()
                    .zip(&pattern)
                    .filter(|(_, count)| **count > 0)
                    .map(|(cell, count)| cell * f64::from(*count))
                    .sum()
            })
            .collect();
        let mut leaving: Option<(f64, usize)> = None;
        for (row, change) in column.iter().enumerate() {
            if *change > EPSILON {
                let ratio = self.uses[row].max(0.0) / change;
                if leaving.is_none_or(|(least, _)| ratio < least - EPSILON) {
                    leaving = Some((ratio, row));
                }
            }
        }
        let Some((ratio, out)) = leaving else { return false };
        let pivot = column[out];
        for cell in &mut self.inverse[out * width..(out + 1) * width] {
            *cell /= pivot;
        }
        let entered = self.inverse[out * width..(out + 1) * width].to_vec();
        for (row, change) in column.iter().enumerate().filter(|(row, _)| *row != out) {
            if change.abs() > 0.0 {
                let cells = &mut self.inverse[row * width..(row + 1) * width];
                cells
                    .iter_mut()
                    .zip(&entered)
                    .for_each(|(cell, entered)| *cell -= change * entered);
                self.uses[row] -= change * ratio;
            }
        }
        self.uses[out] = ratio;
        self.patterns[out] = pattern;
        true
    }
}
