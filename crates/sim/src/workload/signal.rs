//! From a signal to a demand in whole units.

use serde::Serialize;
use tenure_core::model::time::Span;

/// How many whole steps a horizon has: the signal has as many values. Zero when either is not
/// positive.
pub fn steps(step: Span, horizon: Span) -> usize {
    if !step.is_positive() || !horizon.is_positive() {
        return 0;
    }
    usize::try_from(horizon.as_micros() / step.as_micros()).unwrap_or(usize::MAX)
}

/// A signal scaled to a deployment of `capacity` units:
/// d_k = floor(signal_k * capacity / max + 1/2), where max is the largest value of the signal, so
/// that the peak asks for every unit.
///
/// A value that is negative, infinite or not a number counts as zero; where nothing is above zero
/// there is no demand.
pub fn demand(signal: &[f64], capacity: u32) -> Vec<u32> {
    let sound = |value: f64| if value.is_finite() { value.max(0.0) } else { 0.0 };
    let max = signal.iter().copied().map(sound).fold(0.0, f64::max);
    if max == 0.0 {
        return vec![0; signal.len()];
    }
    let scale = |value: f64| (sound(value) * f64::from(capacity) / max + 0.5).floor();
    signal.iter().map(|&value| (scale(value) as u32).min(capacity)).collect()
}

/// Mean and peak of a signal, in its own unit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Stats {
    /// The mean of all values; zero for an empty signal.
    pub mean: f64,
    /// The largest value; zero for an empty signal.
    pub peak: f64,
}

impl Stats {
    /// The mean and peak of `signal`.
    pub fn of(signal: &[f64]) -> Self {
        let Some(peak) = signal.iter().copied().reduce(f64::max) else {
            return Self::default();
        };
        Self { mean: signal.iter().sum::<f64>() / signal.len() as f64, peak }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_horizon_has_whole_steps_only() {
        let secs = Span::from_secs;
        assert_eq!(steps(secs(300), secs(900)), 3);
        assert_eq!(steps(secs(300), secs(899)), 2);
        assert_eq!(steps(secs(300), Span::ZERO), 0);
        assert_eq!(steps(Span::ZERO, secs(300)), 0);
        assert_eq!(steps(secs(-1), secs(300)), 0);
    }

    #[test]
    fn demand_is_rounded_half_up_and_its_peak_is_the_capacity() {
        // 8 units for a peak of 16: half a unit for each 1.
        assert_eq!(demand(&[0.0, 1.0, 2.0, 3.0, 15.0, 16.0], 8), [0, 1, 1, 2, 8, 8]);
        assert_eq!(demand(&[0.9, 16.0], 8), [0, 8]);
    }

    #[test]
    fn values_that_are_no_amount_count_as_zero() {
        let signal = [f64::NAN, -3.0, f64::INFINITY, 2.0];
        assert_eq!(demand(&signal, 10), [0, 0, 0, 10]);
        assert_eq!(demand(&[f64::NAN, -3.0, 0.0], 10), [0, 0, 0]);
        assert_eq!(demand(&[], 10), [0; 0]);
    }

    #[test]
    fn demand_stays_within_the_capacity_at_the_edge_of_the_numbers() {
        assert_eq!(demand(&[f64::MAX, 1.0], 10), [10, 0]);
        assert_eq!(demand(&[1.0], u32::MAX), [u32::MAX]);
        assert_eq!(demand(&[1.0], 0), [0]);
    }

    #[test]
    fn mean_and_peak() {
        assert_eq!(Stats::of(&[1.0, 2.0, 6.0]), Stats { mean: 3.0, peak: 6.0 });
        assert_eq!(Stats::of(&[]), Stats::default());
    }
}
