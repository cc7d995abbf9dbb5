//! A generated daily wave, for scenarios that ship without a log.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use tenure_core::model::time::Span;

use super::error::WorkloadError;
use super::signal::steps;

/// A wave around a base, lowest at second zero and highest half a period later, with noise from a
/// seed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Wave {
    base: f64,
    amplitude: f64,
    period: Span,
    noise: f64,
}

impl Wave {
    /// A wave of `amplitude` either way around `base`, every value moved by up to `noise` either
    /// way (evenly distributed), all in the unit of the signal.
    ///
    /// # Errors
    /// When a number is negative or not finite, or the period is not positive.
    pub fn new(base: f64, amplitude: f64, period: Span, noise: f64) -> Result<Self, WorkloadError> {
        for (setting, value) in [("base", base), ("amplitude", amplitude), ("noise", noise)] {
            if !value.is_finite() || value < 0.0 {
                let expected = "a number of at least zero";
                return Err(WorkloadError::BadWave { setting, expected, value: value.to_string() });
            }
        }
        if !period.is_positive() {
            let (setting, expected) = ("period", "a length of time above zero");
            return Err(WorkloadError::BadWave { setting, expected, value: period.to_string() });
        }
        Ok(Self { base, amplitude, period, noise })
    }

    /// The value at every t_k = k * `step` for k = 0 .. [`steps`]`(step, horizon)` - 1, never below
    /// zero. The same wave, seed and step give the same values to the bit; a longer horizon
    /// only appends.
    pub fn signal(&self, seed: u64, step: Span, horizon: Span) -> Vec<f64> {
        let mut random = random(seed);
        let mut time = 0;
        let mut value = || {
            let phase = time as f64 / self.period.as_micros() as f64;
            time = (time + step.as_micros() % self.period.as_micros()) % self.period.as_micros();
            // The 53 high bits as a number in [-1, 1).
            let noise = (random.next_u64() >> 11) as f64 / (1_u64 << 52) as f64 - 1.0;
            (self.base + self.amplitude * shape(phase) + self.noise * noise).max(0.0)
        };
        (0..steps(step, horizon)).map(|_| value()).collect()
    }
}

impl Default for Wave {
    /// A day between 20 and 80, with noise of 5 either way.
    fn default() -> Self {
        Self { base: 50.0, amplitude: 30.0, period: Span::DAY, noise: 5.0 }
    }
}

/// The numbers for a seed; the label keeps them apart from other uses of the same seed.
fn random(seed: u64) -> ChaCha8Rng {
    let mut key = [0; 32];
    key[..8].copy_from_slice(&seed.to_le_bytes());
    key[8..16].copy_from_slice(b"wave\0\0\0\0");
    ChaCha8Rng::from_seed(key)
}

/// One period of a wave for a phase in [0, 1): -1 at 0, 1 at 1/2.
///
/// Bhaskara's rational sine, within 0.002 of the true one: unlike the sine of the system's library,
/// it is the same to the bit on every machine.
fn shape(phase: f64) -> f64 {
    let turn = phase + 0.75;
    let turn = 2.0 * (turn - turn.floor());
    let (half, sign) = if turn < 1.0 { (turn, 1.0) } else { (turn - 1.0, -1.0) };
    let arch = half * (1.0 - half);
    sign * 16.0 * arch / (5.0 - 4.0 * arch)
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUIET: Wave = Wave { base: 50.0, amplitude: 30.0, period: Span::DAY, noise: 0.0 };

    #[test]
    fn a_day_is_lowest_at_its_start_and_highest_at_noon() {
        let signal = QUIET.signal(1, Span::HOUR.times(6), Span::DAY.times(2));
        assert_eq!(signal, [20.0, 50.0, 80.0, 50.0, 20.0, 50.0, 80.0, 50.0]);
    }

    #[test]
    fn the_shape_is_close_to_a_sine() {
        for k in 0..1000 {
            let phase = f64::from(k) / 1000.0;
            let sine = -(phase * std::f64::consts::TAU).cos();
            assert!((shape(phase) - sine).abs() < 0.002, "{phase}");
        }
    }

    #[test]
    fn the_seed_alone_decides_the_noise() {
        let wave = Wave::default();
        let day = |seed| wave.signal(seed, Span::HOUR, Span::DAY);
        assert_eq!(day(1), day(1));
        assert_ne!(day(1), day(2));
        assert_eq!(day(1)[..12], wave.signal(1, Span::HOUR, Span::HOUR.times(12)));
        let quiet = QUIET.signal(1, Span::HOUR, Span::DAY);
        assert!(day(1).iter().zip(&quiet).all(|(value, quiet)| (value - quiet).abs() <= 5.0));
    }

    #[test]
    fn the_values_of_a_seed_never_change() {
        let signal = Wave::default().signal(7, Span::HOUR.times(6), Span::DAY);
        assert_eq!(
            signal,
            [16.80042669420712, 52.843890145630404, 79.39425956611645, 51.90190906653444]
        );
    }

    #[test]
    fn a_value_is_never_below_zero() {
        let wave = Wave::new(0.0, 1.0, Span::DAY, 0.0).unwrap();
        assert_eq!(wave.signal(1, Span::HOUR.times(12), Span::DAY), [0.0, 1.0]);
    }

    #[test]
    fn settings_without_a_meaning_are_refused() {
        let error = Wave::new(1.0, -2.0, Span::DAY, 0.0).unwrap_err();
        assert_eq!(
            error.to_string(),
            "amplitude of a wave must be a number of at least zero, not -2"
        );
        let error = Wave::new(1.0, 2.0, Span::ZERO, 0.0).unwrap_err();
        assert_eq!(
            error.to_string(),
            "period of a wave must be a length of time above zero, not 0s"
        );
        assert!(Wave::new(f64::NAN, 2.0, Span::DAY, 0.0).is_err());
    }
}
