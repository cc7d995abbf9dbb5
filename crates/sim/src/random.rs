//! Chance: every draw is named by what it is for, so that no draw depends on how many came before it.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng as _;
use tenure_core::model::codec::Hash;

/// What a draw is for. Draws for different things never share numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    Loss,
    Delay,
    Duplicate,
    Driver,
    /// A stream of the fault simulator, named by its number.
    Simulate,
    Workload,
    /// Who is joined with whom.
    Topology,
}

/// The source of all chance in a run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Chance {
    seed: u64,
}

impl Chance {
    pub(crate) fn new(seed: u64) -> Self {
        Self { seed }
    }

    /// The generator for one thing: its purpose and the numbers that name it.
    pub(crate) fn of(self, purpose: Purpose, name: &[u64]) -> ChaCha8Rng {
        let start = mix(self.seed ^ mix(purpose as u64));
        ChaCha8Rng::seed_from_u64(name.iter().fold(start, |state, part| mix(state ^ mix(*part))))
    }

    /// 32 secret bytes for the actor of that name.
    pub(crate) fn secret(self, name: &str) -> [u8; 32] {
        let hash = Hash::of("tenure emulation key", &[&self.seed.to_le_bytes(), name.as_bytes()]);
        hash.to_bytes()
    }
}

/// SplitMix64's finaliser, with its increment so that zero moves too.
fn mix(value: u64) -> u64 {
    let mut z = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
