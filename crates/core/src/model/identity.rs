//! Identities and signatures.
//!
//! An actor's id is the hash of its first key (architecture: identity), so an id needs no directory: anyone
//! who shows a key that hashes to it, and signs with it, is that actor. Every signed input carries a label,
//! so that bytes signed as one thing can never be shown as another.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use ed25519_dalek::{Signer as _, SigningKey, VerifyingKey};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::model::codec::{Blob, Hash};

/// Who an actor is: the SHA-256 of its first public key.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ActorId(Hash);

impl ActorId {
    /// The id that belongs to a first key.
    pub fn of(key: &PublicKey) -> Self {
        Self(Hash::of("tenure actor id v1", &[&key.0.0]))
    }

    /// All 64 hexadecimal digits.
    pub fn to_hex(&self) -> String {
        self.0.to_hex()
    }

    /// Eight bytes of the id, as good as random.
    pub fn first_bytes(&self) -> [u8; 8] {
        let [a, b, c, d, e, f, g, h, ..] = self.0.to_bytes();
        [a, b, c, d, e, f, g, h]
    }
}

impl fmt::Display for ActorId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for ActorId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// An Ed25519 public key as it travels; checked only when a signature is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct PublicKey(Blob<32>);

/// A signature as it travels: 64 bytes, all zero where nothing is signed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Signature(Blob<64>);

impl PublicKey {
    /// How many bytes a key has.
    pub const LENGTH: usize = 32;

    /// The bytes of the key.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0.0
    }

    /// A key from its bytes, whatever they are.
    pub fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(Blob(bytes))
    }
}

impl Signature {
    /// How many bytes a signature has.
    pub const LENGTH: usize = 64;

    /// The bytes of the signature.
    pub fn as_bytes(&self) -> &[u8; 64] {
        &self.0.0
    }

    /// A signature from its bytes.
    pub fn from_bytes(bytes: [u8; 64]) -> Self {
        Self(Blob(bytes))
    }
}

/// What a signature is on. A signature under one label is void under any other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Label {
    /// One link of a ticket.
    Link,
    /// A message between two actors.
    Message,
    /// The root over several messages.
    Batch,
    /// A site's word that units came back.
    Receipt,
}

impl Label {
    const fn text(self) -> &'static str {
        match self {
            Self::Link => "tenure link v1",
            Self::Message => "tenure message v1",
            Self::Batch => "tenure batch v1",
            Self::Receipt => "tenure receipt v1",
        }
    }

    /// What is really signed: label, length, bytes, all under one hash-free prefix.
    fn input(self, bytes: &[u8]) -> Vec<u8> {
        let text = self.text().as_bytes();
        let mut input = Vec::with_capacity(text.len() + 9 + bytes.len());
        input.extend_from_slice(text);
        input.push(0);
        input.extend_from_slice(&(bytes.len() as u64).to_le_bytes());
        input.extend_from_slice(bytes);
        input
    }
}

/// Whether signatures are made and checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scheme {
    /// Ed25519, strictly verified.
    Ed25519,
    /// No signatures: for emulations that do not measure them.
    None,
}

/// An actor's secret: signs in its name.
#[derive(Clone)]
pub enum Signer {
    /// Signs with Ed25519.
    Ed25519(Box<SigningKey>),
    /// Signs nothing; the key is a mere name.
    None(PublicKey),
}

impl Signer {
    /// The signer that grows from 32 secret bytes.
    pub fn from_seed(scheme: Scheme, seed: [u8; 32]) -> Self {
        match scheme {
            Scheme::Ed25519 => Self::Ed25519(Box::new(SigningKey::from_bytes(&seed))),
            Scheme::None => Self::None(PublicKey(Blob(Sha256::digest(seed).into()))),
        }
    }

    /// The public half.
    pub fn key(&self) -> PublicKey {
        match self {
            Self::Ed25519(key) => PublicKey(Blob(key.verifying_key().to_bytes())),
            Self::None(key) => *key,
        }
    }

    /// The id of the actor whose first key this is.
    pub fn id(&self) -> ActorId {
        ActorId::of(&self.key())
    }

    /// The scheme in force.
    pub fn scheme(&self) -> Scheme {
        match self {
            Self::Ed25519(_) => Scheme::Ed25519,
            Self::None(_) => Scheme::None,
        }
    }

    /// Signs `bytes` under `label`. The same bytes always get the same signature.
    pub fn sign(&self, label: Label, bytes: &[u8]) -> Signature {
        match self {
            Self::Ed25519(key) => Signature(Blob(key.sign(&label.input(bytes)).to_bytes())),
            Self::None(_) => Signature(Blob([0; 64])),
        }
    }
}

impl PartialEq for Signer {
    /// Two with the same public half have the same secret.
    fn eq(&self, other: &Self) -> bool {
        self.scheme() == other.scheme() && self.key() == other.key()
    }
}

impl fmt::Debug for Signer {
    /// Shows the public half only.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Signer({})", self.id())
    }
}

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
    Hash::of("tenure known signature", &[&key.0.0, &signature.0.0, input])
}

/// Checks signatures. It remembers the keys that signed something good as points of the curve, which a
/// key must be turned into before each check; what it remembers only saves work.
#[derive(Clone)]
pub struct Verifier {
    scheme: Scheme,
    points: BTreeMap<PublicKey, VerifyingKey>,
    known: Option<Arc<dyn KnownSignatures>>,
}

impl Verifier {
    /// The most keys that are remembered: more than one actor has peers, and few enough to be nothing.
    const MAX_KEYS: usize = 1024;

    /// A verifier that has seen no key yet.
    pub fn new(scheme: Scheme) -> Self {
        Self { scheme, points: BTreeMap::new(), known: None }
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
        let signature = ed25519_dalek::Signature::from_bytes(&signature.0.0);
        if let Some(point) = self.points.get(key) {
            return point.verify_strict(input, &signature).is_ok();
        }
        let point = VerifyingKey::from_bytes(&key.0.0);
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
        let weak = PublicKey(Blob([0; 32]));
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

    #[test]
    fn a_signer_never_prints_its_secret() {
        let signer = Signer::from_seed(Scheme::Ed25519, [7; 32]);
        assert_eq!(format!("{signer:?}"), format!("Signer({})", signer.id()));
    }
}
