//! What the rest of a plan adds at least.

use crate::model::Model;
use crate::score::{Score, Term, Values};
use crate::state::State;

use super::links::Links;
use super::{Candidates, assignment};

/// Places by what they hold of each dimension, largest first.
#[derive(Debug)]
pub(crate) struct Largest {
    order: Vec<Vec<u32>>,
}

impl Largest {
    pub(crate) fn of(model: &Model<'_>) -> Self {
        let mut order = Vec::new();
        for dimension in 0..model.dimensions.len() {
            let mut places: Vec<u32> = (0..).take(model.place_count()).collect();
            places.sort_by_key(|place| {
                std::cmp::Reverse(model.capacity_of(*place as usize)[dimension])
            });
            order.push(places);
        }
        Self { order }
    }

    /// How many places that are empty now must be used, so that all dimensions have room for `needs`.
    pub(crate) fn more_places(&self, state: &State<'_, '_>, needs: &[u64]) -> u64 {
        let model = state.model;
        let mut most = 0;
        for (dimension, need) in needs.iter().enumerate() {
            let mut room = 0_u64;
            let used = (0..model.place_count()).filter(|place| !state.is_empty(*place));
            room += used.map(|place| state.free(place)[dimension]).sum::<u64>();
            let mut more = 0;
            for place in &self.order[dimension] {
                if room >= *need {
                    break;
                }
                if state.is_empty(*place as usize) {
                    room += model.capacity_of(*place as usize)[dimension];
                    more += 1;
                }
            }
            most = most.max(more);
        }
        most
    }
}

/// A bound on the score of every completion of a partial plan, by what its open blocks could do; none if
/// there is no completion.
pub(super) fn bound(
    state: &State<'_, '_>,
    largest: &Largest,
    open: &[Candidates],
    links: &Links<'_, '_>,
    placed_links: u64,
) -> Option<Score> {
    let model = state.model;
    let mut values: Values = state.values;
    // Of open links, each end has counted half.
    let price = if links.all_apart() { apart(state, open)? } else { together(open) };
    let mut needs = vec![0_u64; model.dimensions.len()];
    let (mut elsewhere, mut spread) = (0, 0);
    for block in open {
        values.add(Term::Installs, block.least.installs);
        values.add(Term::Favourites, block.least.favourites);
        values.add(Term::Uses, block.least.uses);
        needs.iter_mut().zip(&block.least_load).for_each(|(sum, load)| *sum += load);
        elsewhere = elsewhere.max(u64::from(block.only_empty));
        spread = spread.max(u64::from(block.spreads));
    }
    if model.objective.contains(&Term::Nodes) {
        let more = largest.more_places(state, &needs).max(elsewhere);
        values.add(Term::Nodes, more);
    }
    values.add(Term::Spread, spread);
    values.add(Term::Price, price.div_ceil(2).saturating_add(placed_links).min(u64::MAX / 2));
    Some(values.score(&model.objective))
}

/// Twice the price of open blocks that may share places.
fn together(open: &[Candidates]) -> u64 {
    open.iter().fold(0, |sum, block| sum.saturating_add(block.least.price))
}

/// Twice the price of open blocks of which each needs a place of its own; none if there are not enough.
///
/// Of empty places of one class a candidate is named once, and stands for all.
fn apart(state: &State<'_, '_>, open: &[Candidates]) -> Option<u64> {
    let model = state.model;
    let columns = model.place_count();
    let mut costs = vec![assignment::NEVER; open.len() * columns];
    for (row, block) in open.iter().enumerate() {
        let row = &mut costs[row * columns..(row + 1) * columns];
        for (place, cost) in &block.places {
            let place = *place as usize;
            let price = cost.price.min(assignment::NEVER - 1);
            row[place] = row[place].min(price);
            if !state.is_empty(place) {
                continue;
            }
            for (other, cell) in row.iter_mut().enumerate() {
                if model.class[other] == model.class[place] && state.is_empty(other) {
                    *cell = (*cell).min(price);
                }
            }
        }
    }
    assignment::least(&costs, columns)
}
