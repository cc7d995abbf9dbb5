//! How an actor of any role changes its keys, tells its peers, and learns of theirs.

use std::collections::BTreeSet;

use crate::actor::effect::{Effect, EffectId, Output};
use crate::actor::{Emit, dropped};
use crate::model::codec::Hash;
use crate::model::identity::{ActorId, PublicKey, Signer};
use crate::model::keys::{
    KeyChain, KeyChange, MAX_HONOURED, MAX_STATEMENTS, SignedStatement, Standing,
};
use crate::model::time::Time;
use crate::wire::message::{Envelope, Message, Sealed};

/// A command about an actor's own keys.
#[derive(Clone, Debug, PartialEq)]
pub enum KeyCommand {
    /// The actor signs with this secret from now on. The shell has stored it.
    Rotate(Signer),
    /// Nothing counts that an earlier key has signed, but what the actor knows to have signed with it.
    Revoke(PublicKey),
}

/// A fact about keys, for each role to put into its own words.
pub(crate) enum KeyFact {
    /// A statement of the actor's own, and the peers that are to note it.
    Stated(Box<SignedStatement>, Vec<ActorId>),
    /// The statements of a peer.
    Learned(ActorId, KeyChain),
    /// A peer has noted so many of the actor's own statements.
    Noted(ActorId, u32),
}

/// An actor that has keys.
pub(crate) trait KeyHolder: Emit {
    /// The fact in the words of the role.
    fn key_fact(fact: KeyFact) -> Self::Fact;

    /// What it has signed and still stands for, each with the end of its term: links and receipts, by their
    /// hashes.
    fn signed(&self) -> Vec<(Time, Hash)>;

    /// A peer is to note its statements, or need not.
    fn tell_keys(&mut self, peer: ActorId, at: Time, owed: bool);

    /// Opens a message and learns what came with it about keys. Answers the messages about keys alone.
    #[allow(clippy::wildcard_enum_match_arm, reason = "all other messages are for the role")]
    fn open(
        &mut self,
        now: Time,
        sealed: &Sealed,
        out: &mut Output<Self::Fact>,
    ) -> Option<Envelope> {
        let envelope = self.base_mut().open(now, sealed, out)?;
        for (actor, chain) in self.base().credentials.shown() {
            if self.base().setup.peers.contains_key(&actor) {
                self.emit(now, Self::key_fact(KeyFact::Learned(actor, chain)), out);
            }
        }
        let from = envelope.header.from;
        match envelope.message {
            Message::Keys { number } => self.note_keys(now, from, number, out),
            Message::KeysNoted { number } => {
                let base = self.base();
                let own = base.credentials.own_chain().count();
                if base.credentials.keys().noted_by(from) < number && number <= own {
                    self.emit(now, Self::key_fact(KeyFact::Noted(from, number)), out);
                }
            }
            _ => return Some(envelope),
        }
        None
    }

    /// A peer wants so many of its statements noted.
    fn note_keys(&mut self, now: Time, from: ActorId, number: u32, out: &mut Output<Self::Fact>) {
        let base = self.base();
        let known = base.credentials.keys().chain(from).map_or(0, KeyChain::count);
        if known < number {
            return out.problems.push(dropped("keys", "its statements did not come with it"));
        }
        out.replies.push(base.volatile(from, now, Message::KeysNoted { number: known }));
    }

    /// Carries out a command about keys.
    ///
    /// # Errors
    /// Why it cannot be.
    fn change_keys(
        &mut self,
        now: Time,
        command: KeyCommand,
        out: &mut Output<Self::Fact>,
    ) -> Result<(), String> {
        let signed = match command {
            KeyCommand::Rotate(secret) => self.rotation(now, secret),
            KeyCommand::Revoke(key) => self.revocation(now, key),
        }?;
        let own = self.base().id();
        let tell = self.peers().keys().copied().filter(|&peer| peer != own).collect();
        self.emit(now, Self::key_fact(KeyFact::Stated(Box::new(signed), tell)), out);
        Ok(())
    }

    /// The statement that another key is in force.
    fn rotation(&mut self, now: Time, secret: Signer) -> Result<SignedStatement, String> {
        let credentials = &mut self.base_mut().credentials;
        let (own, key) = (credentials.own_chain(), secret.key());
        if own.statements().len() + 1 >= MAX_STATEMENTS {
            // The last one is left for a revocation.
            return Err(format!("it has made {} statements about its keys", own.count()));
        }
        if secret.scheme() != credentials.scheme() {
            return Err("the new key is of another scheme".to_owned());
        }
        if key == credentials.key() || own.standing(&key) != Standing::Foreign {
            return Err("the new key was used before".to_owned());
        }
        credentials.add_secret(secret.clone());
        Ok(credentials.sign_statement(now, KeyChange::Rotated { key }, Some(&secret)))
    }

    /// The statement that an earlier key is void.
    fn revocation(&mut self, now: Time, key: PublicKey) -> Result<SignedStatement, String> {
        let own = self.base().credentials.own_chain();
        match own.standing(&key) {
            Standing::Rotated(_) => {}
            Standing::InForce => return Err("the key is in force: rotate it first".to_owned()),
            Standing::Revoked(at, _) => return Err(format!("the key was revoked {at}")),
            Standing::Foreign if key == self.base().credentials.key() => {
                return Err("the key is in force: rotate it first".to_owned());
            }
            Standing::Foreign => return Err("it has no such key".to_owned()),
        }
        if own.statements().len() >= MAX_STATEMENTS {
            return Err(format!("it has made {MAX_STATEMENTS} statements about its keys"));
        }
        // Where there is no room for all, what lasts longest is honoured.
        let mut signed: Vec<_> = self.signed();
        signed.sort_unstable_by(|a, b| b.cmp(a));
        let room = MAX_HONOURED.saturating_sub(own.honoured());
        let honoured: BTreeSet<Hash> = signed.into_iter().take(room).map(|(_, h)| h).collect();
        let change = KeyChange::Revoked { key, honoured };
        Ok(self.base_mut().credentials.sign_statement(now, change, None))
    }

    /// The actor has made a statement.
    fn keys_stated(&mut self, at: Time, signed: &SignedStatement, tell: &[ActorId]) {
        let base = self.base_mut();
        base.credentials.stated(signed.clone());
        base.keys_stated = base.position + 1;
        for &peer in tell {
            self.tell_keys(peer, at, true);
        }
    }

    /// A peer has noted statements.
    fn keys_noted(&mut self, at: Time, peer: ActorId, number: u32) {
        let credentials = &mut self.base_mut().credentials;
        credentials.keys_mut().noted(peer, number);
        if credentials.own_chain().count() <= number {
            self.tell_keys(peer, at, false);
        }
    }

    /// The message that tells a peer to note the actor's statements, which come with it.
    fn keys_message(&self, peer: ActorId, cause: (EffectId, Time)) -> Effect {
        let number = self.base().credentials.own_chain().count();
        Effect::Send(Box::new(self.base().envelope(peer, cause, Message::Keys { number })))
    }
}
