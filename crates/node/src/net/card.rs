//! Cards: where actors are reached, each signed by its actor.
//!
//! A card can be handed on by anybody. Whoever dials by it checks who is there all the same.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use serde::{Deserialize, Serialize};
use tenure_core::actor::Role;
use tenure_core::model::codec;
use tenure_core::model::identity::{ActorId, Label, Scheme, Signer};
use tenure_core::model::keys::{KeyBook, KeyChain};
use tenure_core::model::name::Name;
use tenure_core::model::signed::{ProvenSignature, SignatureFault};
use tenure_core::model::time::{Span, Time};
use tenure_core::model::verifier::Verifier;
use tenure_core::wire::invitation::can_be_dialled;
use thiserror::Error;
use tokio::sync::Notify;

/// How long a card holds.
pub const CARD_HOLDS: Span = Span::DAY;

/// Where an actor is reached.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Card {
    /// The actor.
    pub actor: ActorId,
    /// What it calls itself.
    pub name: Name,
    /// Its role.
    pub role: Role,
    /// Where it is dialled, as `host:port`.
    pub address: String,
    /// Of two cards of an actor that with the higher number counts.
    pub number: u64,
    /// Until when it holds.
    pub until: Time,
}

/// A card with its actor's signature, and what shows that the key is in force.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SignedCard {
    /// What is signed.
    pub card: Card,
    signature: ProvenSignature,
}

/// Why a card does not count.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum CardFault {
    /// Another has signed it.
    #[error("the card of {0} is not signed by its key in force")]
    NotItsKey(ActorId),
    /// The signature does not hold.
    #[error("the signature on the card of {0} does not hold")]
    BadSignature(ActorId),
    /// It is over, or would hold for longer than any card.
    #[error("the card of {0} does not hold now")]
    NotNow(ActorId),
    /// A newer one is known, or the same.
    #[error("a card of {0} that is as new is known")]
    Old(ActorId),
    /// An address that is empty or too long.
    #[error("the card of {0} names no address")]
    NoAddress(ActorId),
}

impl SignedCard {
    /// Signs a card, by the key that is in force by these statements.
    pub fn sign(card: Card, signer: &Signer, keys: KeyChain) -> Self {
        let bytes = codec::encode(&card);
        let signature = ProvenSignature::sign((Label::Card, &bytes), signer, keys);
        Self { card, signature }
    }

    /// Whether its actor has signed it, by what is known of keys, and it holds now.
    ///
    /// # Errors
    /// Why it does not count.
    pub fn check(&self, keys: &KeyBook, now: Time) -> Result<(), CardFault> {
        let Card { actor, address, until, .. } = &self.card;
        let mut verifier = Verifier::new(Scheme::Ed25519);
        let bytes = codec::encode(&self.card);
        let signed = (Label::Card, &*bytes);
        let checked = self.signature.check(*actor, signed, (keys, &mut verifier));
        if checked == Err(SignatureFault::NotItsKey) {
            return Err(CardFault::NotItsKey(*actor));
        }
        if !can_be_dialled(address) {
            return Err(CardFault::NoAddress(*actor));
        }
        if *until <= now || *until > now.plus(CARD_HOLDS.times(2)) {
            return Err(CardFault::NotNow(*actor));
        }
        checked.map_err(|_| CardFault::BadSignature(*actor))
    }
}

/// The newest card of each actor that was heard of.
#[derive(Debug, Default)]
pub(super) struct CardBook {
    cards: Mutex<BTreeMap<ActorId, SignedCard>>,
    /// Told whenever a card comes.
    pub(super) changed: Notify,
}

impl CardBook {
    /// The card of an actor, as long as it holds.
    pub(super) fn get(&self, actor: ActorId, now: Time) -> Option<SignedCard> {
        let cards = self.cards.lock().unwrap_or_else(PoisonError::into_inner);
        cards.get(&actor).filter(|signed| now < signed.card.until).cloned()
    }

    /// All that hold.
    pub(super) fn all(&self, now: Time) -> Vec<Card> {
        let cards = self.cards.lock().unwrap_or_else(PoisonError::into_inner);
        let held = cards.values().filter(|signed| now < signed.card.until);
        held.map(|signed| signed.card.clone()).collect()
    }

    /// Keeps a card if it counts and is newer than the one that is known.
    pub(super) fn take(
        &self,
        signed: SignedCard,
        keys: &KeyBook,
        now: Time,
    ) -> Result<(), CardFault> {
        signed.check(keys, now)?;
        let (actor, number) = (signed.card.actor, signed.card.number);
        let mut cards = self.cards.lock().unwrap_or_else(PoisonError::into_inner);
        if cards.get(&actor).is_some_and(|known| known.card.number >= number) {
            return Err(CardFault::Old(actor));
        }
        cards.retain(|_, known| now < known.card.until);
        cards.insert(actor, signed);
        self.changed.notify_waiters();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use tenure_core::model::keys::{KeyChange, KeyStatement, SignedStatement};

    use super::*;

    const NOW: Time = Time::from_micros(1_000_000_000);

    fn signer(seed: u8) -> Signer {
        Signer::from_seed(Scheme::Ed25519, [seed; 32])
    }

    fn card(seed: u8, number: u64) -> Card {
        Card {
            actor: signer(seed).id(),
            name: Name::literal("alpha"),
            role: Role::SiteAuthority,
            address: "192.0.2.1:7400".to_owned(),
            number,
            until: NOW.plus(CARD_HOLDS),
        }
    }

    #[test]
    fn a_card_counts_that_its_actor_has_signed_and_that_holds_now() {
        let keys = KeyBook::default();
        let good = SignedCard::sign(card(1, 1), &signer(1), KeyChain::default());
        assert_eq!(good.check(&keys, NOW), Ok(()));
        assert_eq!(good.check(&keys, good.card.until), Err(CardFault::NotNow(signer(1).id())));
        let id = signer(1).id();
        let forged = SignedCard::sign(card(1, 1), &signer(2), KeyChain::default());
        assert_eq!(forged.check(&keys, NOW), Err(CardFault::NotItsKey(id)));
        let moved = Card { address: "192.0.2.2:1".to_owned(), ..card(1, 1) };
        let moved = SignedCard { card: moved, ..good };
        assert_eq!(moved.check(&keys, NOW), Err(CardFault::BadSignature(id)));
        let endless = Card { until: Time::MAX, ..card(1, 1) };
        let endless = SignedCard::sign(endless, &signer(1), KeyChain::default());
        assert_eq!(endless.check(&keys, NOW), Err(CardFault::NotNow(id)));
        let nowhere = SignedCard::sign(
            Card { address: String::new(), ..card(1, 1) },
            &signer(1),
            KeyChain::default(),
        );
        assert_eq!(nowhere.check(&keys, NOW), Err(CardFault::NoAddress(id)));
    }

    #[test]
    fn a_card_by_a_later_key_shows_that_it_is_in_force() {
        let (id, later) = (signer(1).id(), signer(9));
        let change = KeyChange::Rotated { key: later.key() };
        let statement = KeyStatement { actor: id, number: 1, at: NOW, change };
        let rotated = SignedStatement::sign(statement, &signer(1), Some(&later));
        let chain = KeyChain::try_from(vec![rotated]).unwrap();
        let (none, mut known) = (KeyBook::default(), KeyBook::default());
        known.learn(id, chain.clone());
        let good = SignedCard::sign(card(1, 1), &later, chain.clone());
        assert_eq!((good.check(&none, NOW), good.check(&known, NOW)), (Ok(()), Ok(())));
        let unproven = SignedCard::sign(card(1, 1), &later, KeyChain::default());
        assert_eq!(unproven.check(&none, NOW), Err(CardFault::NotItsKey(id)));
        assert_eq!(unproven.check(&known, NOW), Ok(()), "its statement is known");
        let outdated = SignedCard::sign(card(1, 1), &signer(1), KeyChain::default());
        assert_eq!(outdated.check(&known, NOW), Err(CardFault::NotItsKey(id)));
        let of_another = SignedCard::sign(card(2, 1), &later, chain);
        assert_eq!(of_another.check(&none, NOW), Err(CardFault::NotItsKey(signer(2).id())));
    }

    #[test]
    fn of_two_cards_the_one_with_the_higher_number_is_kept() {
        let (book, keys) = (CardBook::default(), KeyBook::default());
        let (old, new) = (
            SignedCard::sign(card(1, 1), &signer(1), KeyChain::default()),
            SignedCard::sign(
                Card { address: "b:2".to_owned(), ..card(1, 2) },
                &signer(1),
                KeyChain::default(),
            ),
        );
        book.take(new.clone(), &keys, NOW).unwrap();
        let id = signer(1).id();
        assert_eq!(book.take(old, &keys, NOW), Err(CardFault::Old(id)));
        assert_eq!(book.get(id, NOW), Some(new));
        assert_eq!(book.get(id, NOW.plus(CARD_HOLDS)), None, "it is over");
    }
}
