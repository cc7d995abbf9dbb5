//! The signatures that the actors of a run know to hold. All of them are made in the run, so none has to be
//! checked twice.

use std::collections::{BTreeSet, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tenure_core::model::codec::Hash;
use tenure_core::model::verifier::KnownSignatures;

/// The most signatures that are remembered: what is shown again later is checked again.
const MAX_KNOWN: usize = 1 << 16;

/// The signatures of one run.
#[derive(Debug, Default)]
pub(crate) struct Signatures(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    all: BTreeSet<Hash>,
    in_order: VecDeque<Hash>,
}

impl Signatures {
    fn known(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl KnownSignatures for Signatures {
    fn contains(&self, signature: Hash) -> bool {
        self.known().all.contains(&signature)
    }

    fn insert(&self, signature: Hash) {
        let known = &mut *self.known();
        if !known.all.insert(signature) {
            return;
        }
        known.in_order.push_back(signature);
        if known.in_order.len() > MAX_KNOWN
            && let Some(first) = known.in_order.pop_front()
        {
            known.all.remove(&first);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_signature_is_forgotten_beyond_the_limit() {
        let name = |n: usize| Hash::of("test", &[&n.to_le_bytes()]);
        let signatures = Signatures::default();
        (0..=MAX_KNOWN).for_each(|n| signatures.insert(name(n)));
        signatures.insert(name(1));
        assert!(!signatures.contains(name(0)));
        assert!(signatures.contains(name(1)) && signatures.contains(name(MAX_KNOWN)));
        assert_eq!(signatures.known().in_order.len(), MAX_KNOWN);
    }
}
