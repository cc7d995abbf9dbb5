//! Receipts: a site's signed word that units of a ticket came back to it.

use std::num::NonZeroU32;

use serde::{Deserialize, Serialize};

use super::link::{LinkHash, SignedLink};
use crate::model::codec::{self, Hash};
use crate::model::identity::{ActorId, Label, PublicKey, Signature, Signer};
use crate::model::keys::Signed;
use crate::model::time::{Term, Time};
use crate::model::verifier::Verifier;

/// What a receipt says: of a ticket, so many units over a part of its term. Only the issuer of the link may credit it, once for each (link, number).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Return {
    /// The site that has the units again.
    pub site: ActorId,
    /// The ticket they were held under.
    pub link: LinkHash,
    /// Who cut that ticket and may sell the units again.
    pub issuer: ActorId,
    /// How many units.
    pub units: NonZeroU32,
    /// The part of the ticket's term that is given back.
    pub term: Term,
    /// Counts the returns under this ticket, from 0.
    pub number: u32,
}

impl Return {
    /// Its name among what a revoked key has signed.
    pub fn hash(&self) -> Hash {
        Hash::of("tenure receipt hash v1", &[&codec::encode(self)])
    }
}

/// A signed [`Return`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Receipt {
    /// What came back.
    pub what: Return,
    key: PublicKey,
    signature: Signature,
}

impl Receipt {
    /// Signs that `what` came back.
    pub fn sign(what: Return, signer: &Signer) -> Self {
        let signature = signer.sign(Label::Receipt, &codec::encode(&what));
        Self { what, key: signer.key(), signature }
    }

    /// The key that signed it.
    pub fn key(&self) -> PublicKey {
        self.key
    }

    /// Whether the site named in it signed it. The bytes checked are the one canonical encoding, which
    /// is also the only one that can be received.
    pub fn verifies(&self, verifier: &mut Verifier) -> bool {
        let Self { what, key, signature } = self;
        verifier.stands(what.site, key, Signed::Kept(what.hash()))
            && verifier.verifies(key, Label::Receipt, &codec::encode(what), signature)
    }

    /// How many units of `link` this shows to have been back at `site` by `at`.
    pub fn excuses(
        &self,
        verifier: &mut Verifier,
        site: ActorId,
        link: &SignedLink,
        at: Time,
    ) -> u32 {
        let fits = self.what.site == site
            && self.what.link == link.hash()
            && self.what.units <= link.units
            && self.what.term.contains(at);
        if fits && self.verifies(verifier) { self.what.units.get() } else { 0 }
    }
}
