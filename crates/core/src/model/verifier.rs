//! Checks of signatures, and of the keys that made them.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use ed25519_dalek::VerifyingKey;

use crate::model::codec::Hash;
use crate::model::identity::{ActorId, Label, PublicKey, Scheme, Signature};
use crate::model::keys::{KeyBook, KeyChain, Signed};

/// Signatures that hold, known to all actors of a process: what one has made or checked, no other checks
/// again. What it knows only saves work.
pub trait KnownSignatures: fmt::Debug + Send + Sync {
    /// Whether a signature is known, by the hash over all that it depends on.
    fn contains(&self, signature: Hash) -> bool;

    /// Records a signature that was verified.
    fn insert(&self, signature: Hash);
}

/// The name of a signature among [`KnownSignatures`].
fn name_of(key: &PublicKey, input: &[u8], signature: &Signature) -> Hash {
    Hash::of("tenure known signature", &[key.as_bytes(), signature.as_bytes(), input])
}

/// Checks signatures. It remembers the keys that signed something good as points of the curve, which a
/// key must be turned into before each check; what it remembers only saves work.
#[derive(Clone)]
pub struct Verifier {
    scheme: Scheme,
    points: BTreeMap<PublicKey, VerifyingKey>,
    known: Option<Arc<dyn KnownSignatures>>,
    /// What actors have stated about their keys.
    keys: KeyBook,
    /// What came with the message at hand, where it says more than `keys`.
    shown: BTreeMap<ActorId, KeyChain>,
}

impl Verifier {
    /// The most keys that are remembered: more than one actor has peers, and few enough to be nothing.
    const MAX_KEYS: usize = 1024;

    /// A verifier that has seen no key yet.
    pub fn new(scheme: Scheme) -> Self {
        let (points, shown) = (BTreeMap::new(), BTreeMap::new());
        Self { scheme, points, known: None, keys: KeyBook::default(), shown }
    }

    /// Has it share what it knows.
    pub(crate) fn share(&mut self, known: Arc<dyn KnownSignatures>) {
        self.known = Some(known);
    }

    /// A signature was made here: it holds.
    pub(crate) fn made(&self, key: &PublicKey, label: Label, bytes: &[u8], signature: &Signature) {
        if let Some(known) = &self.known {
            known.insert(name_of(key, &label.input(bytes), signature));
        }
    }

    /// The scheme in force.
    pub fn scheme(&self) -> Scheme {
        self.scheme
    }

    /// What is known of keys.
    pub fn keys(&self) -> &KeyBook {
        &self.keys
    }

    /// What is known of keys, to be added to.
    pub fn keys_mut(&mut self) -> &mut KeyBook {
        &mut self.keys
    }

    /// Statements came with the message at hand: those that hold count until the message is done with.
    pub fn show(&mut self, chains: &[KeyChain]) {
        for chain in chains {
            let Some(actor) = chain.actor() else { continue };
            let known = self.chain(actor).cloned().unwrap_or_default();
            if chain.continues(&known, &mut |key, bytes, signature| {
                self.verifies(key, Label::Keys, bytes, signature)
            }) {
                self.shown.insert(actor, chain.clone());
            }
        }
    }

    /// What the message at hand has shown.
    pub(crate) fn shown(&self) -> &BTreeMap<ActorId, KeyChain> {
        &self.shown
    }

    /// The message at hand is done with.
    pub(crate) fn forget_shown(&mut self) {
        self.shown.clear();
    }

    /// What `actor` has stated about its keys, as far as is known now.
    fn chain(&self, actor: ActorId) -> Option<&KeyChain> {
        self.shown.get(&actor).or_else(|| self.keys.chain(actor))
    }

    /// Whether what `key` signed counts as signed by `actor`.
    pub fn stands(&self, actor: ActorId, key: &PublicKey, what: Signed) -> bool {
        match self.chain(actor) {
            Some(chain) => chain.stands(key, what),
            None => ActorId::of(key) == actor,
        }
    }

    /// Whether `key` is or was one of `actor`'s.
    pub fn is_key_of(&self, actor: ActorId, key: &PublicKey) -> bool {
        match self.chain(actor) {
            Some(chain) => chain.keys().any(|known| known == *key),
            None => ActorId::of(key) == actor,
        }
    }

    /// Whether `signature` is that of `key` on `bytes` under `label`. Strict: weak keys, malleated
    /// signatures and points that are not canonical fail. Under [`Scheme::None`] everything passes.
    pub fn verifies(
        &mut self,
        key: &PublicKey,
        label: Label,
        bytes: &[u8],
        signature: &Signature,
    ) -> bool {
        if self.scheme == Scheme::None {
            return true;
        }
        let input = label.input(bytes);
        let Some(known) = self.known.clone() else { return self.checks(key, &input, signature) };
        let name = name_of(key, &input, signature);
        if known.contains(name) {
            return true;
        }
        let holds = self.checks(key, &input, signature);
        if holds {
            known.insert(name);
        }
        holds
    }

    fn checks(&mut self, key: &PublicKey, input: &[u8], signature: &Signature) -> bool {
        let signature = ed25519_dalek::Signature::from_bytes(signature.as_bytes());
        if let Some(point) = self.points.get(key) {
            return point.verify_strict(input, &signature).is_ok();
        }
        let point = VerifyingKey::from_bytes(key.as_bytes());
        let Some(point) = point.ok().filter(|p| p.verify_strict(input, &signature).is_ok()) else {
            return false;
        };
        if self.points.len() >= Self::MAX_KEYS {
            self.points.pop_first();
        }
        self.points.insert(*key, point);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::identity::Signer;

    #[test]
    fn a_signature_holds_for_its_bytes_key_and_label_alone() {
        let signer = Signer::from_seed(Scheme::Ed25519, [7; 32]);
        let other = Signer::from_seed(Scheme::Ed25519, [8; 32]);
        let signature = signer.sign(Label::Link, b"forty nodes");
        let mut verifier = Verifier::new(Scheme::Ed25519);
        let mut check =
            |key: PublicKey, label, bytes: &[u8]| verifier.verifies(&key, label, bytes, &signature);
        // The second time the key is known.
        for _ in 0..2 {
            assert!(!check(signer.key(), Label::Receipt, b"forty nodes"));
            assert!(!check(signer.key(), Label::Link, b"fifty nodes"));
            assert!(!check(other.key(), Label::Link, b"forty nodes"));
            assert!(check(signer.key(), Label::Link, b"forty nodes"));
        }
    }

    #[test]
    fn a_weak_key_verifies_nothing() {
        let weak = PublicKey::from_bytes([0; 32]);
        let mut forged = [0; 64];
        forged[0] = 1;
        let mut verifier = Verifier::new(Scheme::Ed25519);
        assert!(!verifier.verifies(&weak, Label::Link, b"any", &Signature::from_bytes(forged)));
    }

    #[test]
    fn a_verifier_forgets_keys_beyond_its_limit_and_judges_as_before() {
        let mut verifier = Verifier::new(Scheme::Ed25519);
        let signers = (0..=Verifier::MAX_KEYS).map(|number| {
            let mut seed = [0; 32];
            seed[..8].copy_from_slice(&(number as u64).to_le_bytes());
            Signer::from_seed(Scheme::Ed25519, seed)
        });
        let signed: Vec<_> = signers.map(|s| (s.key(), s.sign(Label::Link, b"a node"))).collect();
        for _ in 0..2 {
            for (key, signature) in &signed {
                assert!(verifier.verifies(key, Label::Link, b"a node", signature));
                assert!(verifier.points.len() <= Verifier::MAX_KEYS);
            }
        }
    }

    #[derive(Debug, Default)]
    struct Known(std::sync::Mutex<std::collections::BTreeSet<Hash>>);

    impl KnownSignatures for Known {
        fn contains(&self, signature: Hash) -> bool {
            self.0.lock().unwrap().contains(&signature)
        }

        fn insert(&self, signature: Hash) {
            self.0.lock().unwrap().insert(signature);
        }
    }

    #[test]
    fn a_known_signature_holds_for_its_bytes_key_and_label_alone() {
        let signer = Signer::from_seed(Scheme::Ed25519, [7; 32]);
        let other = Signer::from_seed(Scheme::Ed25519, [8; 32]);
        let (key, signature) = (signer.key(), signer.sign(Label::Link, b"forty nodes"));
        let known = Arc::new(Known::default());
        let mut verifiers = [(); 2].map(|()| {
            let mut verifier = Verifier::new(Scheme::Ed25519);
            verifier.share(known.clone());
            verifier
        });
        for verifier in &mut verifiers {
            assert!(!verifier.verifies(&key, Label::Receipt, b"forty nodes", &signature));
            assert!(!verifier.verifies(&key, Label::Link, b"fifty nodes", &signature));
            assert!(!verifier.verifies(&other.key(), Label::Link, b"forty nodes", &signature));
            assert!(verifier.verifies(&key, Label::Link, b"forty nodes", &signature));
        }
        assert_eq!(known.0.lock().unwrap().len(), 1, "what does not hold is not known");
        let made = signer.sign(Label::Message, b"hello");
        verifiers[0].made(&key, Label::Message, b"hello", &made);
        assert_eq!(known.0.lock().unwrap().len(), 2);
        assert!(verifiers[1].verifies(&key, Label::Message, b"hello", &made));
        assert!(verifiers[1].points.is_empty(), "the second has checked nothing itself");
    }
}
