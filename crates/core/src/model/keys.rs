//! Keys over time: what actors state about theirs.
//!
//! An actor's id is the hash of its first key. From there on each *statement* is signed by the key in force:
//! a rotation, which its new key signs too, or the revocation of a key that was replaced. The statements of
//! an actor are numbered, and the first chain of them that is learned prevails.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::model::codec::{self, Hash};
use crate::model::identity::{ActorId, Label, PublicKey, Signature, Signer};
use crate::model::time::Time;
use crate::mutants::mutant;

/// The most statements of one actor.
pub const MAX_STATEMENTS: usize = 32;

/// The most signatures that all revocations of one actor honour, so that its statements fit into a message.
pub const MAX_HONOURED: usize = 8192;

/// What an actor states about its keys.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyStatement {
    /// The actor.
    pub actor: ActorId,
    /// Counts its statements, from 1.
    pub number: u32,
    /// From when on, on its clock.
    pub at: Time,
    /// What changes.
    pub change: KeyChange,
}

/// What changes about an actor's keys.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum KeyChange {
    /// Another key signs; the one before signs nothing more.
    Rotated {
        /// The new key.
        key: PublicKey,
    },
    /// Nothing counts that an earlier key has signed, but what is honoured.
    Revoked {
        /// The key.
        key: PublicKey,
        /// The links and receipts that still count, by their hashes.
        honoured: BTreeSet<Hash>,
    },
}

/// A statement with its signatures.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SignedStatement {
    /// What is stated.
    pub statement: KeyStatement,
    /// The key in force.
    key: PublicKey,
    /// By the key in force.
    signature: Signature,
    /// By the new key, of a rotation.
    by_new: Option<Signature>,
}

impl SignedStatement {
    /// Signs a statement by the key in force, and by the new one if there is one.
    pub fn sign(statement: KeyStatement, signer: &Signer, new: Option<&Signer>) -> Self {
        let bytes = codec::encode(&statement);
        let sign = |signer: &Signer| signer.sign(Label::Keys, &bytes);
        let (key, signature) = (signer.key(), sign(signer));
        Self { statement, key, signature, by_new: new.map(sign) }
    }

    /// The key that was in force.
    pub fn key(&self) -> PublicKey {
        self.key
    }
}

/// What is signed, to judge whether its key counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signed {
    /// A message. The clock of its sender shows this at least.
    Message(Time),
    /// A link or a receipt, by its hash.
    Kept(Hash),
}

/// The state of one key of an actor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing<'a> {
    /// It signs.
    InForce,
    /// It was replaced then.
    Rotated(Time),
    /// It was revoked then, and this still counts.
    Revoked(Time, &'a BTreeSet<Hash>),
    /// It is none of the actor's.
    Foreign,
}

/// The statements of one actor, in their order. Empty of one that has made none.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Vec<SignedStatement>")]
pub struct KeyChain(Vec<SignedStatement>);

impl TryFrom<Vec<SignedStatement>> for KeyChain {
    type Error = String;

    fn try_from(statements: Vec<SignedStatement>) -> Result<Self, String> {
        let count = statements.len();
        if count > MAX_STATEMENTS {
            return Err(format!("{count} statements about keys, more than {MAX_STATEMENTS}"));
        }
        Ok(Self(statements))
    }
}

/// Checks that a key has signed bytes.
type Check<'a> = &'a mut dyn FnMut(&PublicKey, &[u8], &Signature) -> bool;

impl KeyChain {
    /// The statements.
    pub fn statements(&self) -> &[SignedStatement] {
        &self.0
    }

    /// How many statements there are.
    pub fn count(&self) -> u32 {
        u32::try_from(self.0.len()).unwrap_or(u32::MAX)
    }

    /// Whose they are.
    pub fn actor(&self) -> Option<ActorId> {
        self.0.first().map(|signed| signed.statement.actor)
    }

    /// All keys, the first first.
    pub fn keys(&self) -> impl Iterator<Item = PublicKey> {
        let first = self.0.first().map(|signed| signed.key);
        first.into_iter().chain(self.0.iter().filter_map(SignedStatement::rotated_to))
    }

    /// The key in force, once there was a rotation.
    pub fn in_force(&self) -> Option<PublicKey> {
        self.keys().last()
    }

    /// The key that was in force after the first so many statements, once there was a statement.
    pub fn in_force_after(&self, count: u32) -> Option<PublicKey> {
        let first = self.0.first().map(|signed| signed.key);
        let made = self.0.iter().take(usize::try_from(count).unwrap_or(usize::MAX));
        made.rev().find_map(SignedStatement::rotated_to).or(first)
    }

    /// How many signatures its revocations honour.
    pub fn honoured(&self) -> usize {
        self.0.iter().filter_map(SignedStatement::honoured).map(BTreeSet::len).sum()
    }

    /// The state of a key.
    pub fn standing(&self, key: &PublicKey) -> Standing<'_> {
        let mut standing = Standing::Foreign;
        let first = self.0.first().is_some_and(|signed| signed.key == *key);
        if first {
            standing = Standing::InForce;
        }
        for signed in &self.0 {
            let at = signed.statement.at;
            match &signed.statement.change {
                KeyChange::Rotated { .. } if signed.key == *key => standing = Standing::Rotated(at),
                KeyChange::Rotated { key: new } if new == key => standing = Standing::InForce,
                KeyChange::Revoked { key: void, honoured } if void == key => {
                    standing = Standing::Revoked(at, honoured);
                }
                KeyChange::Rotated { .. } | KeyChange::Revoked { .. } => {}
            }
        }
        standing
    }

    /// Whether what a key signed counts.
    pub fn stands(&self, key: &PublicKey, what: Signed) -> bool {
        match (self.standing(key), what) {
            (Standing::InForce, _) | (Standing::Rotated(_), Signed::Kept(_)) => true,
            (Standing::Rotated(until), Signed::Message(since)) => {
                since < until || mutant!(RotatedKeyLingers)
            }
            (Standing::Revoked(_, honoured), Signed::Kept(hash)) => {
                let honoured = honoured.contains(&hash) && !mutant!(NothingIsHonoured);
                honoured || mutant!(RevokedKeyCuts)
            }
            (Standing::Revoked(..), Signed::Message(_)) => mutant!(RevokedKeySpeaks),
            (Standing::Foreign, _) => false,
        }
    }

    /// Whether it says more than `known`, denies nothing of it, and is signed as it must be.
    pub fn continues(&self, known: &Self, check: Check<'_>) -> bool {
        if self.0.len() <= known.0.len() || !self.0.starts_with(&known.0) {
            return false;
        }
        let mut so_far = known.clone();
        for signed in &self.0[known.0.len()..] {
            if !so_far.takes(signed, check) {
                return false;
            }
            so_far.0.push(signed.clone());
        }
        so_far.honoured() <= MAX_HONOURED
    }

    /// Whether a statement is the next one.
    fn takes(&self, signed: &SignedStatement, check: Check<'_>) -> bool {
        let SignedStatement { statement, key, signature, by_new } = signed;
        let next = statement.number == self.count() + 1
            && match (self.actor(), self.0.last()) {
                (Some(actor), Some(last)) => {
                    statement.actor == actor
                        && self.in_force() == Some(*key)
                        && last.statement.at <= statement.at
                }
                _ => ActorId::of(key) == statement.actor,
            };
        let bytes = codec::encode(statement);
        next && check(key, &bytes, signature)
            && match (&statement.change, by_new) {
                (KeyChange::Rotated { key: new }, Some(by_new)) => {
                    new != key
                        && self.standing(new) == Standing::Foreign
                        && check(new, &bytes, by_new)
                }
                (KeyChange::Revoked { key: void, .. }, None) => {
                    matches!(self.standing(void), Standing::Rotated(_))
                }
                (KeyChange::Rotated { .. }, None) | (KeyChange::Revoked { .. }, Some(_)) => false,
            }
    }

    /// The actor has made another statement.
    pub fn push(&mut self, signed: SignedStatement) {
        self.0.push(signed);
    }
}

impl SignedStatement {
    fn rotated_to(&self) -> Option<PublicKey> {
        match &self.statement.change {
            KeyChange::Rotated { key } => Some(*key),
            KeyChange::Revoked { .. } => None,
        }
    }

    fn honoured(&self) -> Option<&BTreeSet<Hash>> {
        match &self.statement.change {
            KeyChange::Revoked { honoured, .. } => Some(honoured),
            KeyChange::Rotated { .. } => None,
        }
    }
}

/// What an actor knows of keys, its own among them; a part of its state.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct KeyBook {
    chains: BTreeMap<ActorId, KeyChain>,
    /// How many of its own statements each peer has noted.
    noted: BTreeMap<ActorId, u32>,
}

impl KeyBook {
    /// Whether nobody has stated anything.
    pub fn is_empty(&self) -> bool {
        self.chains.is_empty()
    }

    /// What an actor has stated.
    pub fn chain(&self, actor: ActorId) -> Option<&KeyChain> {
        self.chains.get(&actor)
    }

    /// All statements, by actor.
    pub fn chains(&self) -> impl Iterator<Item = (ActorId, &KeyChain)> {
        self.chains.iter().map(|(&actor, chain)| (actor, chain))
    }

    /// Another statement was made by this actor.
    pub fn state(&mut self, signed: SignedStatement) {
        self.chains.entry(signed.statement.actor).or_default().push(signed);
    }

    /// The statements of an actor were learned.
    pub fn learn(&mut self, actor: ActorId, chain: KeyChain) {
        self.chains.insert(actor, chain);
    }

    /// How many of its own statements a peer has noted.
    pub fn noted_by(&self, peer: ActorId) -> u32 {
        self.noted.get(&peer).copied().unwrap_or(0)
    }

    /// A peer has noted so many of its own statements.
    pub fn noted(&mut self, peer: ActorId, number: u32) {
        self.noted.insert(peer, number);
    }
}
