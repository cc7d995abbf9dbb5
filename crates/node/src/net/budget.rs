//! How much of a connection is read: so many bytes and frames in a second, and some ahead.

use std::time::{Duration, Instant};

/// What may be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Rate {
    /// Bytes in a second.
    pub(super) bytes: u32,
    /// Frames in a second.
    pub(super) frames: u32,
}

impl Rate {
    /// That of a peer that is known.
    pub(super) const PEER: Self = Self { bytes: 8 << 20, frames: 2000 };

    /// That of all strangers together: keys cost nothing, so one each would be as many as one likes.
    pub(super) const STRANGERS: Self = Self { bytes: 1 << 20, frames: 200 };
}

/// Two buckets that fill with time, each with what two seconds bring at most.
#[derive(Debug)]
pub(super) struct Budget {
    rate: Rate,
    bytes: f64,
    frames: f64,
    at: Instant,
}

/// The seconds for which a bucket fills.
const AHEAD: f64 = 2.0;

impl Budget {
    pub(super) fn new(rate: Rate, now: Instant) -> Self {
        let bytes = f64::from(rate.bytes) * AHEAD;
        Self { rate, bytes, frames: f64::from(rate.frames) * AHEAD, at: now }
    }

    /// A frame of so many bytes was read: how long to wait before the next.
    pub(super) fn spend(&mut self, bytes: usize, now: Instant) -> Duration {
        let passed = now.saturating_duration_since(self.at).as_secs_f64();
        self.at = now;
        let (per_byte, per_frame) = (f64::from(self.rate.bytes), f64::from(self.rate.frames));
        let bytes = u32::try_from(bytes).map_or(f64::MAX, f64::from);
        self.bytes = (self.bytes + passed * per_byte).min(per_byte * AHEAD) - bytes;
        self.frames = (self.frames + passed * per_frame).min(per_frame * AHEAD) - 1.0;
        // Of what several have sent at once, each waits for its part, not for all of it.
        self.bytes = self.bytes.max(-per_byte * AHEAD);
        self.frames = self.frames.max(-per_frame * AHEAD);
        let short = (-self.bytes / per_byte).max(-self.frames / per_frame).max(0.0);
        Duration::from_secs_f64(short.min(60.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_used_can_be_used_later_up_to_two_seconds_of_it() {
        let start = Instant::now();
        let at = |secs: f64| start + Duration::from_secs_f64(secs);
        let mut budget = Budget::new(Rate { bytes: 1000, frames: 10 }, start);
        assert_eq!(budget.spend(2000, at(0.0)), Duration::ZERO);
        assert_eq!(budget.spend(500, at(0.0)), Duration::from_millis(500));
        assert_eq!(budget.spend(500, at(1.0)), Duration::ZERO);
        assert_eq!(
            budget.spend(3000, at(100.0)),
            Duration::from_secs(1),
            "no more than two seconds"
        );
    }

    #[test]
    fn many_small_frames_count_too() {
        let now = Instant::now();
        let mut budget = Budget::new(Rate { bytes: 1_000_000, frames: 10 }, now);
        let pauses: Vec<_> = (0..25).map(|_| budget.spend(1, now)).collect();
        assert!(pauses[..20].iter().all(Duration::is_zero), "{pauses:?}");
        assert_eq!(pauses[24], Duration::from_millis(500));
    }
}
