//! A filter for demands that jump about: the estimate stands still until the demand has really moved.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use crate::model::time::{Span, Time};

/// The flop-flip filter of Irwin et al. (2006, section 6): a heavily damped average of the observations is
/// watched over a sliding window. The estimate is kept until it is further than a tolerance from the mean of
/// the window; then it becomes that mean. Their weights are not given; the default here is 7/8 for the past.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "kebab-case")]
pub(super) struct FlopFlip {
    /// How long an observation counts.
    window: Span,
    /// The tolerance, in thousandths of a standard deviation of the window.
    tolerance: u32,
    /// How much of the damped average is kept with each observation, in thousandths.
    damping: u32,
}

impl Default for FlopFlip {
    fn default() -> Self {
        Self { window: Span::MINUTE.times(150), tolerance: 1000, damping: 875 }
    }
}

/// What the filter has seen. All values are in millionths.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Seen {
    /// Damped averages by their times, the newest last.
    window: VecDeque<(Time, i64)>,
    estimate: i64,
}

/// The most observations that are kept: a memo is bounded.
const MOST: usize = 2000;

const MILLION: i64 = 1_000_000;

impl FlopFlip {
    /// The estimate after one more observation; of two at the same instant the first counts.
    pub(super) fn observe(&self, seen: &mut Seen, now: Time, value: i64) -> i64 {
        let value = value.saturating_mul(MILLION);
        match seen.window.back() {
            None => {
                seen.estimate = value;
                seen.window.push_back((now, value));
            }
            Some((last, damped)) if *last < now => {
                let kept = i128::from(self.damping.min(1000));
                let next = (kept * i128::from(*damped) + (1000 - kept) * i128::from(value)) / 1000;
                seen.window.push_back((now, i64::try_from(next).unwrap_or(value)));
            }
            Some(_) => {}
        }
        let from = now.minus(self.window);
        while seen.window.front().is_some_and(|(at, _)| *at < from) || seen.window.len() > MOST {
            seen.window.pop_front();
        }
        let (mean, variance) = moments(&seen.window);
        let off = i128::from(seen.estimate) - mean;
        let tolerance = i128::from(self.tolerance);
        if off * off * i128::from(MILLION) > tolerance * tolerance * variance {
            seen.estimate = i64::try_from(mean).unwrap_or(seen.estimate);
        }
        (seen.estimate + MILLION / 2).div_euclid(MILLION)
    }
}

/// Mean and variance of the values; zero of none.
fn moments(window: &VecDeque<(Time, i64)>) -> (i128, i128) {
    let count = window.len().max(1) as i128;
    let values = || window.iter().map(|(_, value)| i128::from(*value));
    let mean = values().sum::<i128>() / count;
    (mean, values().map(|value| (value - mean) * (value - mean)).sum::<i128>() / count)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn estimates(values: impl IntoIterator<Item = i64>) -> Vec<i64> {
        let (filter, mut seen) = (FlopFlip::default(), Seen::default());
        let at = |step: i64| Time::ZERO.plus(Span::MINUTE.times(5 * step));
        let observe = |(step, value)| filter.observe(&mut seen, at(step), value);
        (0..).zip(values).map(observe).collect()
    }

    #[test]
    fn a_constant_is_its_own_estimate() {
        assert_eq!(estimates([7; 100]), [7; 100]);
    }

    #[test]
    fn noise_moves_the_estimate_less_often_than_the_demand() {
        let noisy = (0..1000).map(|step| 50 + (step * 7919 % 11) - 5);
        let estimates = estimates(noisy);
        let moves = estimates.windows(2).filter(|pair| pair[0] != pair[1]).count();
        assert!(moves < 100, "{moves}");
        assert!(estimates.iter().all(|estimate| (45..=55).contains(estimate)));
    }

    #[test]
    fn a_step_is_followed_within_a_window_or_two() {
        let estimates = estimates((0..200).map(|step| if step < 100 { 10 } else { 40 }));
        assert_eq!((estimates[99], estimates[199]), (10, 40));
        assert!(estimates.is_sorted());
        assert!(estimates[160] >= 38, "{}", estimates[160]);
    }

    #[test]
    fn what_is_kept_is_bounded_by_the_window() {
        let (filter, mut seen) = (FlopFlip::default(), Seen::default());
        for step in 0..100_000_i64 {
            filter.observe(&mut seen, Time::ZERO.plus(Span::SECOND.times(step)), step % 13);
        }
        assert!(seen.window.len() <= MOST);
    }
}
