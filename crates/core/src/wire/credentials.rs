//! The notary of one actor: signs in its name, checks what others signed, and counts both.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::Arc;

use crate::model::codec::Hash;
use crate::model::identity::{
    ActorId, KnownSignatures, Label, PublicKey, Scheme, Signature, Signer, Verifier,
};
use crate::mutants::mutant;
use crate::ticket::link::{Link, LinkHash, SignedLink};
use crate::ticket::receipt::{Receipt, Return};
use crate::ticket::{Ticket, TicketFault};
use crate::wire::message::{Batch, Sealed};

/// Signs and checks for one actor. What it remembers only saves work: an actor with a fresh notary
/// decides the same.
#[derive(Clone)]
pub struct Credentials {
    signer: Signer,
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
            if self.known.get(&link.hash()) == Some(link) {
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
