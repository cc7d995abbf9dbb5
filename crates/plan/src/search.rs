//! Plans by simple rules, improved while steps are left.
//!
//! Equal places with nothing but room to share are packed as bins (see `pack`). All else is improved by
//! large neighbourhood search (Shaw 1998): some blocks lose their places, and the exact solver places them
//! anew beside the others.

use std::collections::BTreeSet;

use crate::draw::Draw;
use crate::exact::{self, Found, Routes, Search, Steps};
use crate::first_fit::{self, Order};
use crate::model::Model;
use crate::pack::{self, Items, Packed};
use crate::score::Term;
use crate::state::State;

/// The best plan found.
pub(crate) fn search(model: &Model<'_>, steps: &mut Steps<'_>) -> Option<Found> {
    if let Some(items) = as_bins(model) {
        return packed(model, &items, steps).map(|(plan, _)| plan);
    }
    if model.place_count() > FEW_PLACES && wants_few_places(model) {
        return shortlisted(model, steps);
    }
    improved(model, steps)
}

/// The best plan of first-fit, made better while steps are left.
fn improved(model: &Model<'_>, steps: &mut Steps<'_>) -> Option<Found> {
    let orders = [Order::FewestPlaces, Order::LargestShare, Order::Sum];
    let plans = orders.into_iter().filter_map(|order| first_fit::first_fit(model, order, steps));
    let best = plans.min_by_key(|plan| plan.score);
    let mut best = best.or_else(|| any(model, steps))?;
    improve(model, &mut best, steps);
    Some(best)
}

/// Of how many places all are looked at again and again.
const FEW_PLACES: usize = 256;
/// The fewest places that are looked at of more.
const SHORTLIST: usize = 64;

/// Whether places differ by what they have alone, and few of them are wanted before all else.
fn wants_few_places(model: &Model<'_>) -> bool {
    let first = model.objective.iter().find(|term| **term != Term::Installs);
    let favourites = model.rules.iter().any(|rules| rules.favourites.is_some());
    first == Some(&Term::Nodes) && !favourites && first_fit::is_plain(model)
}

/// A plan on the places with most room, as many as are likely to be enough.
fn shortlisted(model: &Model<'_>, steps: &mut Steps<'_>) -> Option<Found> {
    let roomiest = first_fit::by_room(model);
    let all = model.with_places(&roomiest);
    let start = first_fit::first_fit(&all, Order::LargestShare, steps)?;
    let used: BTreeSet<u32> = start.host.iter().copied().collect();
    let most = SHORTLIST.max(2 * used.len()).min(roomiest.len());
    let listed: BTreeSet<u32> = used.into_iter().chain((0..).take(most)).collect();
    let listed: Vec<u32> = listed.into_iter().map(|place| roomiest[place as usize]).collect();
    let mut found = improved(&model.with_places(&listed), steps)?;
    found.host.iter_mut().for_each(|place| *place = listed[*place as usize]);
    Some(found)
}

/// A plan of the exact solver, which looks for the first only.
fn any(model: &Model<'_>, steps: &mut Steps<'_>) -> Option<Found> {
    let outcome = exact::search(model, Search { keep: 1, any: true }, None, steps);
    outcome.plans.into_iter().next()
}

/// The problem as items and bins, if it is no more than that.
pub(crate) fn as_bins(model: &Model<'_>) -> Option<Items> {
    let equal = model.class.windows(2).all(|pair| pair[0] == pair[1]);
    let terms = model.objective.iter().find(|term| !is_constant(model, **term));
    let width = model.dimensions.len();
    if !equal
        || width == 0
        || model.place_count() == 0
        || terms != Some(&Term::Nodes)
        || !first_fit::is_plain(model)
    {
        return None;
    }
    let sizes = (0..model.block_count())
        .flat_map(|block| model.needs(model.part_of(model.block(block)[0])));
    let items = Items::new(model.capacity_of(0).to_vec(), sizes.copied().collect());
    let fits = |item: u32| {
        items.size(item).iter().zip(&items.capacity).all(|(size, capacity)| size <= capacity)
    };
    (0..).take(items.len()).all(fits).then_some(items)
}

/// Whether all plans of a problem without rules are equal by a term.
fn is_constant(model: &Model<'_>, term: Term) -> bool {
    match term {
        Term::Nodes => false,
        Term::Installs => true,
        Term::Spread | Term::Uses => model.partners.is_empty(),
        Term::Favourites => model.rules.iter().all(|rules| rules.favourites.is_none()),
        // All places are equal.
        Term::Price => true,
    }
}

/// The plan of the packing, and how many places are needed at least; none if there are not enough.
pub(crate) fn packed(
    model: &Model<'_>,
    items: &Items,
    steps: &mut Steps<'_>,
) -> Option<(Found, u64)> {
    let Packed { bins, bound } = pack::pack(items, steps);
    if bins.len() > model.place_count() {
        return None;
    }
    let mut state = State::new(model);
    for (place, bin) in bins.iter().enumerate() {
        bin.iter().for_each(|item| state.put(*item as usize, place));
    }
    Some((Routes::finish(model, &state, steps)?, bound))
}

/// Rounds without progress after which improving ends.
const PATIENCE: u32 = 60;
/// How many blocks are placed anew in a round.
const NEIGHBOURS: usize = 10;
/// The steps of a round; of one with many pairs of blocks and places, where a step takes longer.
const ROUND: u64 = 2_000;
const LARGE_ROUND: u64 = 60;
/// How many pairs are many.
const LARGE: usize = 20_000;

/// Improves a plan round by round.
fn improve(model: &Model<'_>, best: &mut Found, steps: &mut Steps<'_>) {
    let blocks = model.block_count();
    let large = blocks.saturating_mul(model.place_count()) > LARGE;
    let round = if large { LARGE_ROUND } else { ROUND };
    let mut draw = Draw::new();
    let mut idle = 0;
    while idle < PATIENCE && steps.left() > 0 && blocks > 0 {
        let freed = neighbours(model, best, &mut draw);
        let mut budget = steps.part(round);
        let found = exact::again(model, best, &freed, &mut budget);
        steps.spend(&budget);
        match found {
            Some(found) if found.score < best.score => {
                *best = found;
                idle = 0;
            }
            Some(_) | None => idle += 1,
        }
    }
}

/// Some blocks that have to do with each other: those of two places, or with the same partners.
fn neighbours(model: &Model<'_>, plan: &Found, draw: &mut Draw) -> Vec<usize> {
    let blocks = model.block_count();
    let first = draw.below(blocks);
    let second = draw.below(blocks);
    let mut freed: Vec<usize> = vec![first];
    let hosts = [plan.host[first], plan.host[second]];
    freed.extend(model.partners(first).iter().map(|(partner, _)| *partner as usize));
    freed.extend(
        model
            .network
            .links_of(first)
            .iter()
            .flat_map(|link| model.network.links[*link as usize].ends.map(|end| end as usize)),
    );
    freed.extend((0..blocks).filter(|block| hosts.contains(&plan.host[*block])));
    while freed.len() < NEIGHBOURS.min(blocks) {
        freed.push(draw.below(blocks));
    }
    freed.truncate(NEIGHBOURS);
    freed.sort_unstable();
    freed.dedup();
    freed
}
