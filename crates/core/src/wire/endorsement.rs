//! Endorsements: a broker's word to a site, by which that lets in a guest of the broker that is no peer of it.

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::model::codec;
use crate::model::identity::{ActorId, Label, Signer};
use crate::model::keys::{KeyBook, KeyChain};
use crate::model::signed::{ProvenSignature, SignatureFault};
use crate::model::time::{Span, Time};
use crate::model::verifier::Verifier;

/// How long an endorsement holds. A site takes none that would hold for more than twice as long.
pub const ENDORSEMENT_HOLDS: Span = Span::DAY;

/// A broker's statement that an actor is one of its guests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Endorsement {
    /// The broker.
    pub broker: ActorId,
    /// Its guest.
    pub guest: ActorId,
    /// The site that is to let the guest in.
    pub site: ActorId,
    /// Until when it holds.
    pub until: Time,
}

/// An endorsement with the signature of the broker.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SignedEndorsement {
    /// What is signed.
    pub endorsement: Endorsement,
    signature: ProvenSignature,
}

/// Why an endorsement does not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum EndorsementFault {
    /// Who has signed it is no broker that is known.
    #[error("{0}, who signed it, is no broker that is known here")]
    UnknownBroker(ActorId),
    /// It is about another guest.
    #[error("it is for {0}")]
    OtherGuest(ActorId),
    /// It is for another site.
    #[error("it is for the site {0}")]
    OtherSite(ActorId),
    /// It is over.
    #[error("it has expired")]
    Expired,
    /// It would hold for longer than any may.
    #[error("it would hold for longer than any may")]
    TooLong,
    /// The broker's key is another one.
    #[error("it is not signed by the key in force of the broker {0}")]
    NotItsKey(ActorId),
    /// The signature does not hold.
    #[error("the signature of the broker {0} does not hold")]
    BadSignature(ActorId),
}

impl SignedEndorsement {
    /// Signs an endorsement, by the key that is in force by these statements.
    pub fn sign(endorsement: Endorsement, signer: &Signer, keys: KeyChain) -> Self {
        let bytes = codec::encode(&endorsement);
        let signature = ProvenSignature::sign((Label::Endorsement, &bytes), signer, keys);
        Self { endorsement, signature }
    }

    /// Whether the broker that it names has signed it for this guest and site, by what is known of keys, and it
    /// holds now. Whether the broker is known is the reader's to judge.
    ///
    /// # Errors
    /// Why it does not count.
    pub fn check(
        &self,
        (guest, site): (ActorId, ActorId),
        now: Time,
        (known, verifier): (&KeyBook, &mut Verifier),
    ) -> Result<(), EndorsementFault> {
        let Endorsement { broker, until, .. } = self.endorsement;
        if self.endorsement.guest != guest {
            return Err(EndorsementFault::OtherGuest(self.endorsement.guest));
        }
        if self.endorsement.site != site {
            return Err(EndorsementFault::OtherSite(self.endorsement.site));
        }
        if until <= now {
            return Err(EndorsementFault::Expired);
        }
        if until > now.plus(ENDORSEMENT_HOLDS.times(2)) {
            return Err(EndorsementFault::TooLong);
        }
        let bytes = codec::encode(&self.endorsement);
        let signed = (Label::Endorsement, &*bytes);
        self.signature.check(broker, signed, (known, verifier)).map_err(|fault| match fault {
            SignatureFault::NotItsKey => EndorsementFault::NotItsKey(broker),
            SignatureFault::Bad => EndorsementFault::BadSignature(broker),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::identity::Scheme;
    use crate::model::keys::{KeyChange, KeyStatement, SignedStatement};

    const NOW: Time = Time::from_secs(1_000);

    fn signer(seed: u8) -> Signer {
        Signer::from_seed(Scheme::Ed25519, [seed; 32])
    }

    /// Of broker 1 for guest 2 and site 3.
    fn endorsement() -> Endorsement {
        let [broker, guest, site] = [1, 2, 3].map(|seed| signer(seed).id());
        Endorsement { broker, guest, site, until: NOW.plus(ENDORSEMENT_HOLDS) }
    }

    fn check(signed: &SignedEndorsement, known: &KeyBook) -> Result<(), EndorsementFault> {
        let mut verifier = Verifier::new(Scheme::Ed25519);
        signed.check((signer(2).id(), signer(3).id()), NOW, (known, &mut verifier))
    }

    #[test]
    fn an_endorsement_counts_for_one_guest_at_one_site_and_for_a_time() {
        let known = KeyBook::default();
        let changed = |change: fn(&mut Endorsement)| {
            let mut changed = endorsement();
            change(&mut changed);
            check(&SignedEndorsement::sign(changed, &signer(1), KeyChain::default()), &known)
        };
        let (broker, other) = (signer(1).id(), signer(9).id());
        assert_eq!(changed(|_| ()), Ok(()));
        let fault = changed(|signed| signed.guest = signer(9).id());
        assert_eq!(fault, Err(EndorsementFault::OtherGuest(other)));
        let fault = changed(|signed| signed.site = signer(9).id());
        assert_eq!(fault, Err(EndorsementFault::OtherSite(other)));
        assert_eq!(changed(|signed| signed.until = NOW), Err(EndorsementFault::Expired));
        assert_eq!(changed(|signed| signed.until = Time::MAX), Err(EndorsementFault::TooLong));
        let forged = SignedEndorsement::sign(endorsement(), &signer(9), KeyChain::default());
        assert_eq!(check(&forged, &known), Err(EndorsementFault::NotItsKey(broker)));
        let mut moved = SignedEndorsement::sign(endorsement(), &signer(1), KeyChain::default());
        moved.endorsement.until = NOW.plus(Span::HOUR);
        assert_eq!(check(&moved, &known), Err(EndorsementFault::BadSignature(broker)));
    }

    #[test]
    fn a_signature_under_another_label_does_not_count() {
        let bytes = codec::encode(&endorsement());
        let signature =
            ProvenSignature::sign((Label::Card, &bytes), &signer(1), KeyChain::default());
        let signed = SignedEndorsement { endorsement: endorsement(), signature };
        let fault = EndorsementFault::BadSignature(signer(1).id());
        assert_eq!(check(&signed, &KeyBook::default()), Err(fault));
    }

    #[test]
    fn what_a_replaced_key_has_endorsed_does_not_count() {
        let (broker, later) = (signer(1).id(), signer(9));
        let change = KeyChange::Rotated { key: later.key() };
        let statement = KeyStatement { actor: broker, number: 1, at: NOW, change };
        let rotated = SignedStatement::sign(statement, &signer(1), Some(&later));
        let chain = KeyChain::try_from(vec![rotated]).unwrap();
        let mut known = KeyBook::default();
        known.learn(broker, chain.clone());
        let old = SignedEndorsement::sign(endorsement(), &signer(1), KeyChain::default());
        assert_eq!(check(&old, &known), Err(EndorsementFault::NotItsKey(broker)));
        let new = SignedEndorsement::sign(endorsement(), &later, chain);
        assert_eq!((check(&new, &KeyBook::default()), check(&new, &known)), (Ok(()), Ok(())));
    }
}
