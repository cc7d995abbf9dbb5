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
    cards: Mutex<BTreeMap<ActorId, Brought>>,
    /// Told whenever a card comes.
    pub(super) changed: Notify,
}

/// A card, and who has brought it.
#[derive(Debug)]
struct Brought {
    signed: SignedCard,
    by: ActorId,
    /// When that one was last asked for a newer one.
    asked: Option<Time>,
}

/// How long after it was asked a peer is asked again.
const ASKED_AGAIN: Span = Span::from_secs(2);

/// For how long it is remembered who has brought a card that holds no more.
const REMEMBERED: Span = Span::DAY.times(30);

/// The most cards of others that are kept of one peer, since keys cost nothing.
const MOST_OF_ONE: usize = 1_000;

impl CardBook {
    /// The card of an actor, as long as it holds.
    pub(super) fn get(&self, actor: ActorId, now: Time) -> Option<SignedCard> {
        let cards = self.cards.lock().unwrap_or_else(PoisonError::into_inner);
        let held = cards.get(&actor).filter(|brought| now < brought.signed.card.until);
        held.map(|brought| brought.signed.clone())
    }

    /// Who has brought the last card of an actor and may be asked for a newer one, unless that was asked just now.
    pub(super) fn brought_by(&self, actor: ActorId, now: Time) -> Option<ActorId> {
        let mut cards = self.cards.lock().unwrap_or_else(PoisonError::into_inner);
        let brought = cards.get_mut(&actor)?;
        if brought.asked.is_some_and(|asked| now < asked.plus(ASKED_AGAIN)) {
            return None;
        }
        brought.asked = Some(now);
        Some(brought.by)
    }

    /// All that hold.
    pub(super) fn all(&self, now: Time) -> Vec<Card> {
        let cards = self.cards.lock().unwrap_or_else(PoisonError::into_inner);
        let all = cards.values().map(|brought| &brought.signed.card);
        all.filter(|card| now < card.until).cloned().collect()
    }

    /// Keeps a card that a peer brings, if it counts and is newer than the one that is known. Of too many that the same
    /// peer has brought, the one goes that ends first.
    pub(super) fn take(
        &self,
        signed: SignedCard,
        by: ActorId,
        keys: &KeyBook,
        now: Time,
    ) -> Result<(), CardFault> {
        let (actor, number) = (signed.card.actor, signed.card.number);
        let is_old = |cards: &BTreeMap<ActorId, Brought>| {
            cards.get(&actor).is_some_and(|known| known.signed.card.number >= number)
        };
        // Most come again and again: their signatures are not checked every time.
        if is_old(&self.cards.lock().unwrap_or_else(PoisonError::into_inner)) {
            return Err(CardFault::Old(actor));
        }
        signed.check(keys, now)?;
        let mut cards = self.cards.lock().unwrap_or_else(PoisonError::into_inner);
        if is_old(&cards) {
            return Err(CardFault::Old(actor));
        }
        cards.retain(|_, known| now < known.signed.card.until.plus(REMEMBERED));
        cards.insert(actor, Brought { signed, by, asked: None });
        let of_peer = cards.iter().filter(|(of, brought)| brought.by == by && **of != by);
        let of_peer: Vec<(Time, ActorId)> =
            of_peer.map(|(of, brought)| (brought.signed.card.until, *of)).collect();
        if of_peer.len() > MOST_OF_ONE
            && let Some((_, first)) = of_peer.into_iter().min()
        {
            cards.remove(&first);
        }
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
        let id = signer(1).id();
        book.take(new.clone(), id, &keys, NOW).unwrap();
        assert_eq!(book.take(old, id, &keys, NOW), Err(CardFault::Old(id)));
        assert_eq!(book.get(id, NOW), Some(new));
        assert_eq!(book.get(id, NOW.plus(CARD_HOLDS)), None, "it is over");
    }

    #[test]
    fn a_peer_brings_so_many_cards_of_others_and_no_more() {
        let (book, keys) = (CardBook::default(), KeyBook::default());
        let (by, other) = (signer(1).id(), signer(2).id());
        let signed = |number: u64, until: Time| {
            let mut seed = [0; 32];
            seed[..8].copy_from_slice(&number.to_le_bytes());
            let signer = Signer::from_seed(Scheme::Ed25519, seed);
            let card = Card { actor: signer.id(), number, until, ..card(1, 1) };
            SignedCard::sign(card, &signer, KeyChain::default())
        };
        let later = |secs| NOW.plus(Span::from_secs(secs));
        let first = signed(1_000_000, later(1));
        book.take(first.clone(), by, &keys, NOW).unwrap();
        book.take(signed(2_000_000, later(1)), other, &keys, NOW).unwrap();
        for number in 0..MOST_OF_ONE as u64 {
            assert_eq!(book.get(first.card.actor, NOW), Some(first.clone()), "{number}");
            book.take(signed(number, later(60)), by, &keys, NOW).unwrap();
        }
        assert_eq!(book.get(first.card.actor, NOW), None, "it ends first");
        let known = signed(0, later(60)).card.actor;
        assert_eq!(book.brought_by(known, NOW), Some(by));
        assert_eq!(book.brought_by(known, later(1)), None, "it was asked just now");
        assert_eq!(book.brought_by(known, later(2)), Some(by));
        assert_eq!(book.all(NOW).len(), MOST_OF_ONE + 1);
    }
}
