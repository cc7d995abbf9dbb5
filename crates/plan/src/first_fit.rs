//! Each block, largest first, goes to the first place that has room: first-fit decreasing, with all rules.

use crate::exact::{Found, Routes, Steps};
use crate::model::Model;
use crate::pack::Rooms;
use crate::state::State;

/// How blocks are ordered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// By the largest share that they take of all that is free of a dimension.
    LargestShare,
    /// By the sum of their shares.
    Sum,
    /// Blocks with the fewest places first, then by the largest share.
    FewestPlaces,
}

/// The plan of first-fit decreasing; none if a block finds no place.
pub(crate) fn first_fit(model: &Model<'_>, order: Order, steps: &mut Steps<'_>) -> Option<Found> {
    let sizes = Sizes::of(model);
    let mut blocks: Vec<usize> = (0..model.block_count()).collect();
    match order {
        Order::LargestShare => {
            blocks.sort_by_cached_key(|block| std::cmp::Reverse(sizes.largest(*block)))
        }
        Order::Sum => blocks.sort_by_cached_key(|block| std::cmp::Reverse(sizes.sum(*block))),
        Order::FewestPlaces => {
            blocks.sort_by_cached_key(|block| {
                let places = (0..model.place_count()).filter(|place| allows(model, *block, *place));
                (places.count(), std::cmp::Reverse(sizes.largest(*block)))
            });
        }
    }
    let mut state = State::new(model);
    if is_plain(model) {
        fill_plain(model, &mut state, &blocks)?;
    } else {
        for block in blocks {
            let place = (0..model.place_count()).find(|place| state.fits(block, *place))?;
            state.put(block, place);
        }
    }
    Routes::finish(model, &state, steps)
}

/// All places, those with the largest share of all room first.
pub(crate) fn by_room(model: &Model<'_>) -> Vec<u32> {
    let totals = totals(model);
    let room = |place: &u32| -> u128 {
        let capacity = model.capacity_of(*place as usize).iter().zip(&totals);
        capacity.map(|(amount, total)| share(u128::from(*amount), *total)).sum()
    };
    let mut places: Vec<u32> = (0..).take(model.place_count()).collect();
    places.sort_by_cached_key(|place| std::cmp::Reverse(room(place)));
    places
}

fn allows(model: &Model<'_>, block: usize, place: usize) -> bool {
    model.block(block).iter().all(|item| model.allows(model.part_of(*item), place))
}

/// Whether a block fits a place whenever it has room.
pub(crate) fn is_plain(model: &Model<'_>) -> bool {
    let plain = |part: &crate::model::PartRules| {
        part.eligible.is_none() && part.reused.is_none() && part.libraries.is_empty()
    };
    model.rules.iter().all(plain)
        && model.apart_lists == 0
        && model.shared_packages == 0
        && model.network.links.is_empty()
        && model.block_count() == model.part.len()
}

/// By a tree of what is free, which finds the first place without looking at all.
fn fill_plain(model: &Model<'_>, state: &mut State<'_, '_>, blocks: &[usize]) -> Option<()> {
    let width = model.dimensions.len();
    if width == 0 {
        blocks.iter().for_each(|block| state.put(*block, 0));
        return (model.place_count() > 0).then_some(());
    }
    let mut rooms =
        Rooms::of(width, (0..model.place_count()).map(|place| model.capacity_of(place)));
    for block in blocks {
        // Each item is a block.
        let needs = model.needs(model.part[*block] as usize);
        let place = rooms.first(needs)?;
        rooms.take(place, needs);
        state.put(*block, place);
    }
    Some(())
}

/// All that is free, by dimension.
fn totals(model: &Model<'_>) -> Vec<u128> {
    let mut totals = vec![0_u128; model.dimensions.len()];
    for place in 0..model.place_count() {
        for (total, capacity) in totals.iter_mut().zip(model.capacity_of(place)) {
            *total += u128::from(*capacity);
        }
    }
    totals
}

/// In millionths of millionths.
fn share(amount: u128, total: u128) -> u128 {
    (amount * 1_000_000_000_000).checked_div(total).unwrap_or(amount)
}

/// What blocks need as shares of all that is free, in millionths of millionths.
struct Sizes<'m, 'p> {
    model: &'m Model<'p>,
    totals: Vec<u128>,
}

impl<'m, 'p> Sizes<'m, 'p> {
    fn of(model: &'m Model<'p>) -> Self {
        Self { model, totals: totals(model) }
    }

    fn shares(&self, block: usize) -> impl Iterator<Item = u128> {
        self.totals.iter().enumerate().map(move |(dimension, total)| {
            let items = self.model.block(block).iter();
            let need: u128 = items
                .map(|item| u128::from(self.model.needs(self.model.part_of(*item))[dimension]))
                .sum();
            share(need, *total)
        })
    }

    /// Of a block that needs more than there is, which has no place, it is as much as can be counted.
    fn largest(&self, block: usize) -> u64 {
        let largest = self.shares(block).max().unwrap_or(0);
        u64::try_from(largest).unwrap_or(u64::MAX)
    }

    fn sum(&self, block: usize) -> u128 {
        self.shares(block).sum()
    }
}
