//! Identities and signatures.
//!
//! An actor's id is the hash of its first key (architecture: identity), so an id needs no directory: anyone
//! who shows a key that hashes to it, and signs with it, is that actor. Every signed input carries a label,
//! so that bytes signed as one thing can never be shown as another.

use std::fmt;

use ed25519_dalek::{Signer as _, SigningKey};
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
    /// What an actor states about its keys.
    Keys,
    /// Where an actor is reached.
    Card,
    /// The head of a segment of an actor's archived journal.
    Segment,
    /// An offer to become a peer.
    Invitation,
    /// A broker's word that an actor is its guest.
    Endorsement,
}

impl Label {
    const fn text(self) -> &'static str {
        match self {
            Self::Link => "tenure link v1",
            Self::Message => "tenure message v1",
            Self::Batch => "tenure batch v1",
            Self::Receipt => "tenure receipt v1",
            Self::Keys => "tenure keys v1",
            Self::Card => "tenure card v1",
            Self::Segment => "tenure segment v1",
            Self::Invitation => "tenure invitation v1",
            Self::Endorsement => "tenure endorsement v1",
        }
    }

    /// What is really signed: label, length, bytes, all under one hash-free prefix.
    pub(super) fn input(self, bytes: &[u8]) -> Vec<u8> {
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

    /// Signs the transcript of a TLS handshake. That begins with 64 spaces (RFC 8446, 4.4.3), and so is the
    /// input under no label.
    pub fn sign_handshake(&self, transcript: &[u8]) -> Signature {
        match self {
            Self::Ed25519(key) => Signature(Blob(key.sign(transcript).to_bytes())),
            Self::None(_) => Signature(Blob([0; 64])),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signer_never_prints_its_secret() {
        let signer = Signer::from_seed(Scheme::Ed25519, [7; 32]);
        assert_eq!(format!("{signer:?}"), format!("Signer({})", signer.id()));
    }
}
