//! How many bins are needed at least.

/// The bound L2 of Martello and Toth (1990), and that of the dual feasible functions u(k) of Fekete and
/// Schepers (2001), whichever is higher. `sizes` are in descending order, none above `capacity`.
pub(crate) fn bins(sizes: &[u64], capacity: u64) -> u64 {
    if sizes.is_empty() || capacity == 0 {
        return 0;
    }
    second(sizes, capacity).max(dual_feasible(sizes, capacity))
}

/// L2: items above half a bin need a bin each; what is left in those bins limits the smaller ones.
fn second(sizes: &[u64], capacity: u64) -> u64 {
    let mut sums = vec![0_u128];
    for size in sizes {
        sums.push(sums[sums.len() - 1] + u128::from(*size));
    }
    // How many sizes are above a threshold.
    let above = |threshold: u64| sizes.partition_point(|size| *size > threshold);
    let halves = above(capacity / 2);
    let mut best = 0;
    let mut thresholds: Vec<u64> = sizes[halves..].to_vec();
    thresholds.push(0);
    thresholds.dedup();
    for threshold in thresholds {
        // Items that leave no room for the threshold, and those that leave some.
        let alone = above(capacity - threshold);
        let shared = halves - alone;
        let small = sizes.partition_point(|size| *size >= threshold.max(1));
        let left = shared as u128 * u128::from(capacity) - (sums[halves] - sums[alone]);
        let rest = (sums[small.max(halves)] - sums[halves]).saturating_sub(left);
        best = best.max(halves as u128 + rest.div_ceil(u128::from(capacity)));
    }
    u64::try_from(best).unwrap_or(u64::MAX)
}

/// The largest k of the functions that are tried.
const FUNCTIONS: u128 = 100;

fn dual_feasible(sizes: &[u64], capacity: u64) -> u64 {
    let capacity = u128::from(capacity);
    let bound = |k: u128| {
        // In units of which a bin has k times its capacity.
        let sum: u128 = sizes
            .iter()
            .map(|size| {
                let scaled = u128::from(*size) * (k + 1);
                if scaled.is_multiple_of(capacity) {
                    u128::from(*size) * k
                } else {
                    scaled / capacity * capacity
                }
            })
            .sum();
        sum.div_ceil(k * capacity)
    };
    u64::try_from((1..=FUNCTIONS).map(bound).max().unwrap_or(0)).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_items_need_bins_of_their_own() {
        assert_eq!(bins(&[6, 6, 6], 10), 3);
        assert_eq!(bins(&[7, 7, 4, 4], 10), 3);
        assert_eq!(bins(&[4, 4, 4, 4, 4], 10), 3);
        assert_eq!(bins(&[10, 5, 5], 10), 2);
        assert_eq!(bins(&[], 10), 0);
    }
}
