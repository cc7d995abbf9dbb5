//! The notary of one actor: signs in its name, checks what others signed, and counts both.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::Arc;

use crate::model::codec::Hash;
use crate::model::identity::{ActorId, Label, PublicKey, Scheme, Signature, Signer};
use crate::model::keys::{
    KeyBook, KeyChain, KeyChange, KeyStatement, Signed, SignedStatement, Standing,
};
use crate::model::signed::SignatureFault;
use crate::model::time::Time;
use crate::model::verifier::{KnownSignatures, Verifier};
use crate::mutants::mutant;
use crate::ticket::link::{Link, LinkHash, SignedLink};
use crate::ticket::receipt::{Receipt, Return};
use crate::ticket::{Ticket, TicketFault};
use crate::wire::invitation::{Invitation, SignedInvitation};
use crate::wire::message::{Batch, Envelope, Sealed};

/// Signs and checks for one actor. What it knows of keys is part of the actor's state; all else that it
/// remembers only saves work.
#[derive(Clone)]
pub struct Credentials {
    signer: Signer,
    /// Its secrets, the first one first: those of later keys, in force or not yet.
    secrets: Vec<Signer>,
    id: ActorId,
    /// Delegations verified before: they head every ticket cut from them.
    known: BTreeMap<LinkHash, SignedLink>,
    verifier: Verifier,
    /// The signatures on several messages that held of late, the last first.
    batches: VecDeque<Batch>,
    made: u64,
    checked: u64,
}

/// The most delegations whose verification is remembered.
const MAX_KNOWN: usize = 1 << 16;

/// The most signatures on several messages that are remembered: what left together comes together.
const MAX_BATCHES: usize = 64;

impl Credentials {
    /// The notary of the actor that owns `signer`.
    pub fn new(signer: Signer) -> Self {
        let (id, verifier) = (signer.id(), Verifier::new(signer.scheme()));
        Self {
            secrets: vec![signer.clone()],
            signer,
            id,
            known: BTreeMap::new(),
            verifier,
            batches: VecDeque::new(),
            made: 0,
            checked: 0,
        }
    }

    /// Has it share what it has signed and checked with others that do.
    pub(crate) fn share_signatures(&mut self, known: Arc<dyn KnownSignatures>) {
        self.verifier.share(known);
    }

    /// Gives it the secret of a later key.
    pub(crate) fn add_secret(&mut self, secret: Signer) {
        if !self.secrets.contains(&secret) {
            self.secrets.push(secret);
            self.choose_secret();
        }
    }

    /// What is known of keys.
    pub fn keys(&self) -> &KeyBook {
        self.verifier.keys()
    }

    /// What is known of keys, to be added to.
    pub(crate) fn keys_mut(&mut self) -> &mut KeyBook {
        self.verifier.keys_mut()
    }

    /// What is known of keys is this.
    pub(crate) fn set_keys(&mut self, keys: KeyBook) {
        *self.verifier.keys_mut() = keys;
        self.choose_secret();
    }

    /// The actor has made a statement about its keys.
    pub(crate) fn stated(&mut self, signed: SignedStatement) {
        self.verifier.keys_mut().state(signed);
        self.choose_secret();
    }

    /// The actor's own statements.
    pub fn own_chain(&self) -> KeyChain {
        self.keys().chain(self.id).cloned().unwrap_or_default()
    }

    /// Signs with the key in force. Readers of journals have no secrets, and sign nothing.
    fn choose_secret(&mut self) {
        let wanted = self.own_chain().in_force();
        let secret =
            self.secrets.iter().find(|secret| wanted.is_none_or(|key| secret.key() == key));
        if let Some(secret) = secret {
            self.signer = secret.clone();
        }
    }

    /// Its secrets, the first one first.
    pub fn secrets(&self) -> &[Signer] {
        &self.secrets
    }

    /// The key it signs with.
    pub fn key(&self) -> PublicKey {
        self.signer.key()
    }

    /// Signs the head of a segment of the actor's archived journal.
    pub(crate) fn sign_segment(&self, head: &[u8]) -> Signature {
        self.signer.sign(Label::Segment, head)
    }

    /// The key in force, if its secret is missing.
    pub fn missing_secret(&self) -> Option<PublicKey> {
        self.own_chain().in_force().filter(|key| *key != self.signer.key())
    }

    /// Signs a statement about the actor's keys, with the new key if there is one.
    pub(crate) fn sign_statement(
        &mut self,
        at: Time,
        change: KeyChange,
        new: Option<&Signer>,
    ) -> SignedStatement {
        self.made += self.per_operation() * (1 + u64::from(new.is_some()));
        let own = self.own_chain();
        let last = own.statements().last().map(|signed| signed.statement.at);
        let at = last.map_or(at, |last| last.max(at));
        let statement = KeyStatement { actor: self.id, number: own.count() + 1, at, change };
        SignedStatement::sign(statement, &self.signer, new)
    }

    /// The statements about keys that the receiver of a message may need: the sender's own, until it has noted
    /// them, and those of other signers in it.
    pub(crate) fn statements_for(&self, envelope: &Envelope) -> Vec<KeyChain> {
        let keys = self.keys();
        if keys.is_empty() {
            return Vec::new();
        }
        let to = envelope.header.to;
        let own = keys.chain(self.id).filter(|own| keys.noted_by(to) < own.count());
        let signers = envelope.message.signers();
        let others = signers.iter().filter(|&&signer| signer != self.id && signer != to);
        own.into_iter().chain(others.filter_map(|&signer| keys.chain(signer))).cloned().collect()
    }

    /// Takes in the statements that came with a message, for as long as that is at hand.
    pub(crate) fn show(&mut self, chains: &[KeyChain]) {
        self.verifier.forget_shown();
        self.verifier.show(chains);
    }

    /// The statements that came with the message at hand, of those that say more than is known.
    pub(crate) fn shown(&self) -> BTreeMap<ActorId, KeyChain> {
        self.verifier.shown().clone()
    }

    /// The message at hand is done with.
    pub(crate) fn forget_shown(&mut self) {
        self.verifier.forget_shown();
    }

    /// Whether a message signed by `key` is `actor`'s, and its key may still sign messages at `since`.
    pub(crate) fn stands(&self, actor: ActorId, key: &PublicKey, since: Time) -> bool {
        self.verifier.stands(actor, key, Signed::Message(since))
    }

    /// Whether a key is or was `actor`'s, in force or not.
    pub(crate) fn is_key_of(&self, actor: ActorId, key: &PublicKey) -> bool {
        self.verifier.is_key_of(actor, key)
    }

    /// Whether the actor has the secret of a key, and did not revoke it.
    pub(crate) fn is_own(&self, key: &PublicKey) -> bool {
        let own = self.own_chain();
        self.secrets.iter().any(|secret| secret.key() == *key)
            && !matches!(own.standing(key), Standing::Revoked(..))
    }

    /// The actor it signs for.
    pub fn id(&self) -> ActorId {
        self.id
    }

    /// The scheme in force.
    pub fn scheme(&self) -> Scheme {
        self.signer.scheme()
    }

    /// Signatures made so far; zero where nothing is signed.
    pub fn made(&self) -> u64 {
        self.made
    }

    /// Signatures checked so far; zero where nothing is signed.
    pub fn checked(&self) -> u64 {
        self.checked
    }

    /// Signs a link.
    pub fn sign_link(&mut self, link: Link) -> SignedLink {
        self.made += self.per_operation();
        let link = SignedLink::sign(link, &self.signer);
        link.was_made(&self.verifier);
        link
    }

    /// Signs a receipt.
    pub fn sign_receipt(&mut self, what: Return) -> Receipt {
        self.made += self.per_operation();
        Receipt::sign(what, &self.signer)
    }

    /// Signs the bytes of a message; answers the signature with the key to check it by.
    pub fn sign_message(&mut self, bytes: &[u8]) -> (PublicKey, Signature) {
        self.sign(Label::Message, bytes)
    }

    /// As [`sign_message`](Self::sign_message), for the root over several messages.
    pub fn sign_batch(&mut self, root: Hash) -> (PublicKey, Signature) {
        self.sign(Label::Batch, &root.to_bytes())
    }

    fn sign(&mut self, label: Label, bytes: &[u8]) -> (PublicKey, Signature) {
        self.made += self.per_operation();
        let (key, signature) = (self.signer.key(), self.signer.sign(label, bytes));
        self.verifier.made(&key, label, bytes, &signature);
        (key, signature)
    }

    /// Checks the signature on a message.
    pub fn checks_message(&mut self, sealed: &Sealed) -> bool {
        let batch = sealed.batch();
        if batch.is_some_and(|batch| self.batches.contains(&batch)) {
            return true;
        }
        self.checked += self.per_operation();
        let Some(batch) = batch else { return sealed.verifies(&mut self.verifier) };
        let Batch { key, root, signature } = &batch;
        let holds = self.verifier.verifies(key, Label::Batch, &root.to_bytes(), signature);
        if holds {
            self.batches.truncate(MAX_BATCHES - 1);
            self.batches.push_front(batch);
        }
        holds
    }

    /// Signs an invitation, with the statements that show that its key is in force.
    pub fn sign_invitation(&self, invitation: Invitation) -> SignedInvitation {
        SignedInvitation::sign(invitation, &self.signer, self.own_chain())
    }

    /// Checks who has signed an invitation.
    pub(crate) fn check_invitation(
        &mut self,
        signed: &SignedInvitation,
    ) -> Result<(), SignatureFault> {
        self.checked += self.per_operation();
        let keys = self.verifier.keys().clone();
        signed.check(&keys, &mut self.verifier)
    }

    /// Checks a receipt's signature.
    pub fn checks_receipt(&mut self, receipt: &Receipt) -> bool {
        self.checked += self.per_operation();
        receipt.verifies(&mut self.verifier)
    }

    /// Checks a whole ticket: first its shape, which costs nothing, then each signature from the root
    /// down. At most [`crate::ticket::MAX_DEPTH`] signatures are checked.
    pub fn check_ticket(
        &mut self,
        ticket: &Ticket,
        site: ActorId,
        holder: ActorId,
    ) -> Result<(), TicketFault> {
        ticket.check_shape(site, holder)?;
        for (depth, link) in (0..).zip(ticket.links()) {
            if self.known.get(&link.hash()) == Some(link) && link.stands(&self.verifier) {
                continue;
            }
            self.checked += self.per_operation();
            if !link.verifies(&mut self.verifier) && !mutant!(SignatureNotChecked) {
                return Err(TicketFault::BadSignature(depth));
            }
            if link.delegation.is_some() {
                if self.known.len() >= MAX_KNOWN {
                    self.known.pop_first();
                }
                self.known.insert(link.hash(), link.clone());
            }
        }
        Ok(())
    }

    /// The same ticket; the delegation that heads it is in memory once for all tickets cut from it, if it was
    /// verified here.
    pub fn share(&self, ticket: Ticket) -> Ticket {
        match self.known.get(&ticket.root().hash()) {
            Some(known) if known == ticket.root() => ticket.with_root(known.clone()),
            Some(_) | None => ticket,
        }
    }

    fn per_operation(&self) -> u64 {
        u64::from(self.scheme() == Scheme::Ed25519)
    }
}

impl fmt::Debug for Credentials {
    /// Shows for whom it signs; what it remembers decides nothing.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Credentials({})", self.id)
    }
}
