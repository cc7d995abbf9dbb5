//! A signature by an actor that the reader may deal with for the first time.

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::model::identity::{ActorId, Label, PublicKey, Signature, Signer};
use crate::model::keys::{KeyBook, KeyChain, Standing};
use crate::model::verifier::Verifier;

/// A signature, its key, and what shows that the key is in force.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProvenSignature {
    key: PublicKey,
    signature: Signature,
    /// What the actor has stated about its keys.
    keys: KeyChain,
}

/// Why such a signature does not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum SignatureFault {
    /// The key is not the one in force.
    #[error("it is not signed by the key in force")]
    NotItsKey,
    /// The signature is not that of the key on these bytes.
    #[error("the signature does not hold")]
    Bad,
}

impl ProvenSignature {
    /// Signs bytes under a label, by the key that is in force by these statements.
    pub fn sign((label, bytes): (Label, &[u8]), signer: &Signer, keys: KeyChain) -> Self {
        Self { key: signer.key(), signature: signer.sign(label, bytes), keys }
    }

    /// Whether the actor has signed these bytes, by what is known of keys and what comes along.
    ///
    /// # Errors
    /// Why not.
    pub fn check(
        &self,
        actor: ActorId,
        (label, bytes): (Label, &[u8]),
        (known, verifier): (&KeyBook, &mut Verifier),
    ) -> Result<(), SignatureFault> {
        if !self.is_in_force(actor, known, verifier) {
            return Err(SignatureFault::NotItsKey);
        }
        let holds = verifier.verifies(&self.key, label, bytes, &self.signature);
        if holds { Ok(()) } else { Err(SignatureFault::Bad) }
    }

    /// Whether the key is in force by what is known of its actor, or by what comes along beyond that.
    fn is_in_force(&self, actor: ActorId, known: &KeyBook, verifier: &mut Verifier) -> bool {
        let known = known.chain(actor).cloned().unwrap_or_default();
        let mut check = |key: &PublicKey, bytes: &[u8], signature: &Signature| {
            verifier.verifies(key, Label::Keys, bytes, signature)
        };
        let more = self.keys.actor() == Some(actor) && self.keys.continues(&known, &mut check);
        let chain = if more { &self.keys } else { &known };
        match chain.count() {
            0 => ActorId::of(&self.key) == actor,
            _ => chain.standing(&self.key) == Standing::InForce,
        }
    }
}
