//! How many units of each source to take.

use crate::model::identity::ActorId;

/// Unit by unit from the site with most free; sources come by site name, so the first of equals is the
/// first by name.
pub(super) fn even(sites: impl Iterator<Item = ActorId>, free: &[u32], units: u32) -> Vec<u32> {
    let mut totals: Vec<(ActorId, u64, usize)> = Vec::new();
    for (site, &units) in sites.zip(free) {
        match totals.last_mut().filter(|(last, ..)| *last == site) {
            Some((_, total, sources)) => {
                *total += u64::from(units);
                *sources += 1;
            }
            None => totals.push((site, u64::from(units), 1)),
        }
    }
    let has: Vec<u64> = totals.iter().map(|&(_, total, _)| total).collect();
    let mut rest = free;
    let of_site = |(take, &(_, _, sources)): (u64, &(ActorId, u64, usize))| {
        let (own, others) = rest.split_at(sources);
        rest = others;
        // No more than the units wanted.
        first_fit(own, u32::try_from(take).unwrap_or(u32::MAX))
    };
    level(&has, u64::from(units)).into_iter().zip(&totals).flat_map(of_site).collect()
}

/// How many units to take from each, unit by unit from the one that has most, the first of equals.
fn level(has: &[u64], units: u64) -> Vec<u64> {
    let above = |level: u64| has.iter().map(|has| has.saturating_sub(level)).sum::<u64>();
    // The lowest level that all can be brought down to.
    let (mut low, mut high) = (0, has.iter().copied().max().unwrap_or(0));
    while low < high {
        let middle = low + (high - low) / 2;
        if above(middle) <= units {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    let mut rest = units.saturating_sub(above(low));
    let take = |&has: &u64| {
        let one = u64::from(rest > 0 && has >= low && low > 0);
        rest -= one;
        has.saturating_sub(low) + one
    };
    has.iter().map(take).collect()
}

/// From each source all it has, in order, until there are enough.
pub(super) fn first_fit(free: &[u32], mut units: u32) -> Vec<u32> {
    let take = |&has: &u32| {
        let take = has.min(units);
        units -= take;
        take
    };
    free.iter().map(take).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The reference: one unit at a time.
    fn unit_by_unit(has: &[u64], units: u64) -> Vec<u64> {
        let mut left = has.to_vec();
        for _ in 0..units {
            let most = left.iter_mut().rev().max_by_key(|left| **left);
            let Some(most) = most.filter(|most| **most > 0) else { break };
            *most -= 1;
        }
        has.iter().zip(left).map(|(has, left)| has - left).collect()
    }

    proptest! {
        #[test]
        fn levelling_takes_what_one_unit_at_a_time_takes(
            has in prop::collection::vec(0..30u64, 0..8),
            units in 0..250u64,
        ) {
            prop_assert_eq!(level(&has, units), unit_by_unit(&has, units));
        }
    }

    #[test]
    fn levelling_costs_the_same_however_many_units_there_are() {
        let many = u64::from(u32::MAX);
        assert_eq!(level(&[many, many, 0], many), [many / 2 + 1, many / 2, 0]);
        assert_eq!(level(&[], many), [0; 0]);
    }

    #[test]
    fn the_accounts_of_one_site_count_together() {
        let sites = [1, 1, 2].map(|who| {
            crate::model::identity::Signer::from_seed(
                crate::model::identity::Scheme::None,
                [who; 32],
            )
            .id()
        });
        assert_eq!(even(sites.into_iter(), &[2, 3, 4], 3), [2, 0, 1]);
        assert_eq!(even(sites.into_iter(), &[0, 0, 4], 3), [0, 0, 3]);
        assert_eq!(even(sites.into_iter(), &[2, 3, 4], 9), [2, 3, 4]);
    }
}
