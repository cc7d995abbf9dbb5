//! How an actor of any role changes its keys, tells its peers, and learns of theirs.

use std::collections::BTreeSet;

use crate::actor::common::{CommonActor, CommonFact, KeyRevoked, KeyRotated, PeerObligation};
use crate::actor::dropped;
use crate::actor::effect::Output;
use crate::model::codec::Hash;
use crate::model::identity::{ActorId, PublicKey, Signer};
use crate::model::keys::{
    KeyChain, KeyChange, MAX_HONOURED, MAX_STATEMENTS, SignedStatement, Standing,
};
use crate::model::time::Time;
use crate::wire::message::Message;

/// A command about an actor's own keys.
#[derive(Clone, Debug, PartialEq)]
pub enum KeyCommand {
    /// The actor signs with this secret from now on. The shell has stored it.
    Rotate(Signer),
    /// Nothing counts that an earlier key has signed, but what the actor knows to have signed with it.
    Revoke(PublicKey),
}

/// An actor that has keys.
pub(crate) trait KeyHolder: CommonActor {
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
        let fact = match signed.statement.change {
            KeyChange::Rotated { .. } => KeyRotated { statement: signed, tell }.into(),
            KeyChange::Revoked { .. } => CommonFact::from(KeyRevoked { statement: signed, tell }),
        };
        self.emit_common(now, fact, out);
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
            self.set_duty(PeerObligation::Keys(peer), at, true);
        }
    }

    /// A peer has noted statements.
    fn keys_noted(&mut self, at: Time, peer: ActorId, number: u32) {
        let credentials = &mut self.base_mut().credentials;
        credentials.keys_mut().noted(peer, number);
        if credentials.own_chain().count() <= number {
            self.set_duty(PeerObligation::Keys(peer), at, false);
        }
    }

    /// The message that tells a peer to note the actor's statements, which come with it.
    fn keys_message(&self) -> Message {
        Message::Keys { number: self.base().credentials.own_chain().count() }
    }
}

impl<A: CommonActor> KeyHolder for A {}
