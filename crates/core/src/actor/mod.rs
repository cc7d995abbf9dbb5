//! Actors: the three roles of the protocol, each a pure state machine.
//!
//! Nothing an actor does leaves it before its cause is durable.

pub mod clocks;
pub mod common;
pub mod effect;
pub mod fact;
pub mod invitations;
pub mod joined;
pub mod keys;
pub mod machine;
pub mod order;
pub mod peers;
pub(crate) mod periodic;
pub mod recalls;
pub mod rounds;
pub mod settings;
pub mod snapshot;
pub mod watermark;
pub(crate) mod pending;
pub(crate) mod timers;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use self::clocks::ClocksApart;
use self::common::CommonState;
use self::joined::Joined;
use self::order::{Done, Order, Orders};
use self::watermark::{PeerWatermark, Watermarks};
use crate::actor::effect::{Effect, EffectId, Input, Output, Problem};
use crate::actor::fact::{BadFact, Entry};
use crate::actor::snapshot::{RestoreError, Settings};
use crate::model::identity::{ActorId, PublicKey, Signature, Signer};
use crate::model::keys::KeyBook;
use crate::model::name::Name;
use crate::model::time::{Span, Time};
use crate::model::verifier::KnownSignatures;
use crate::mutants::mutant;
use crate::ticket::link::LinkHash;
use crate::wire::credentials::Credentials;
use crate::wire::invitation::{Invitation, Permission, SignedInvitation, permissions_of};
use crate::wire::message::{Envelope, Header, Message, Sealed, Sequence};
pub use peers::{Peer, Peers};

/// How an actor decides: by facts, applied as they are emitted.
pub(crate) trait Emit: Actor {
    /// Applies a fact and records it in the output.
    ///
    /// # Panics
    /// If the actor refuses its own fact: a mistake in the program, after which nothing it does can be
    /// trusted. The shell has its journal to come back from.
    fn emit(&mut self, at: Time, fact: impl Into<Self::Fact>, out: &mut Output<Self::Fact>) {
        let fact = fact.into();
        let applied = self.apply(at, &fact);
        assert!(applied.is_ok(), "an actor refuses its own fact: {applied:?}");
        out.facts.push(Entry { at, fact });
    }
}

impl<A: Actor> Emit for A {}

/// What an actor is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// Asks, redeems and uses, for a guest.
    ServiceManager,
    /// Sells what sites delegated to it.
    Broker,
    /// Lends the units of one owner.
    SiteAuthority,
}

/// An actor of the protocol.
///
/// There are three kinds of method. [`handle`](Self::handle) takes an input and decides;
/// [`apply`](Self::apply) takes a fact and is the only one that changes state; all others read. The loop
/// around them, the same in every shell, is `runtime::host::Host`.
///
/// The same inputs at the same times give the same facts, to the byte. Two actors of one configuration
/// with the same [`snapshot`](Self::snapshot) go on alike.
pub trait Actor: fmt::Debug {
    /// What its journal holds.
    type Fact;
    /// What its users can order.
    type Command;
    /// What its mapper answers.
    type Decision;

    /// Takes one input and decides. Facts are applied as they are emitted, so that later steps of the
    /// same call see earlier ones. Reads no clock, calls no plug-in, touches nothing outside.
    fn handle(
        &mut self,
        now: Time,
        input: Input<Self::Command, Self::Decision>,
        out: &mut Output<Self::Fact>,
    );

    /// Applies one fact; the only mutator, and recovery replays facts through it. An error means that the
    /// journal is damaged or another actor's; the state is then void.
    fn apply(&mut self, at: Time, fact: &Self::Fact) -> Result<(), BadFact>;

    /// Settings on which the result of replaying its facts depends.
    fn settings(&self) -> Settings;

    /// Its whole state as bytes, without configuration and caches. Equal states have equal bytes.
    fn snapshot(&self) -> Vec<u8>;

    /// Replaces its state by that of a [`snapshot`](Self::snapshot), as if it had applied all facts behind
    /// it. On an error nothing has changed.
    fn restore(&mut self, bytes: &[u8]) -> Result<(), RestoreError>;

    /// Work pending because of facts from `position` on, in order. Costs as much as there is of it.
    fn effects_after(&self, position: u64) -> Vec<(EffectId, Effect)>;

    /// Whether an effect is still pending.
    fn is_pending(&self, id: EffectId) -> bool;

    /// Until when the receiver of a pending message holds it and need not answer.
    fn held_until(&self, id: EffectId) -> Option<Time> {
        let _ = id;
        None
    }

    /// The round that waits for the mapper's decision.
    fn open_round(&self) -> Option<u64>;

    /// When to hand in the next [`Input::Tick`]. It follows from the facts.
    fn next_timeout(&self) -> Option<Time>;

    /// When to hand one in for what is in no journal.
    fn next_volatile(&self) -> Option<Time> {
        None
    }

    /// What has not ended: leases, undecided requests, pending work; one line each, at most `most`.
    fn unfinished(&self, most: usize) -> Vec<String>;

    /// What all roles have in common.
    fn base(&self) -> &Base;

    /// As [`base`](Self::base), to be changed.
    fn base_mut(&mut self) -> &mut Base;

    /// The orders that it has carried out.
    fn orders(&self) -> &Orders {
        &self.base().common.orders
    }

    /// The peers whose clocks are found to be apart from its own by more than the margin.
    fn clocks_apart(&self) -> &ClocksApart {
        &self.base().common.clocks
    }

    /// The peers by invitation, and those that are asked to be.
    fn joined(&self) -> &BTreeMap<ActorId, Joined> {
        self.base().common.peers.joined()
    }

    /// The number of facts applied so far: the position of the next one.
    fn position(&self) -> u64 {
        self.base().position
    }

    /// Signs an envelope of this actor's.
    fn seal(&mut self, envelope: &Envelope) -> Sealed {
        envelope.seal(&mut self.base_mut().credentials)
    }

    /// Signs envelopes that leave together with one signature; in their order.
    fn seal_all(&mut self, envelopes: &[&Envelope]) -> Vec<Sealed> {
        Envelope::seal_all(envelopes, &mut self.base_mut().credentials)
    }

    /// Signatures made and checked since the actor was built.
    fn signatures(&self) -> (u64, u64) {
        let credentials = &self.base().credentials;
        (credentials.made(), credentials.checked())
    }

    /// Has it share what signatures hold with other actors of its process.
    fn share_signatures(&mut self, known: Arc<dyn KnownSignatures>) {
        self.base_mut().credentials.share_signatures(known);
    }

    /// Of each peer the message that bears witness to the longest journal. Nothing is decided by them; a
    /// shell keeps them, to recognise a peer that comes back with less than it had.
    fn watermarks(&self) -> &Watermarks {
        &self.base().watermarks
    }

    /// How many facts the journal of this actor held at least when it signed a message; nothing if it did
    /// not sign it. With fewer facts now, its journal is an older copy.
    fn witnessed_len(&mut self, sealed: &Sealed) -> Option<u64> {
        let base = self.base_mut();
        watermark::witnessed_len(base.id(), sealed, &mut base.credentials)
    }

    /// What came of an order, if it was carried out and is remembered.
    ///
    /// # Errors
    /// If its key stands for another order.
    fn done(&self, now: Time, order: &Order) -> Result<Option<Done>, String> {
        Ok(self.orders().known(now, order)?.cloned())
    }

    /// Gives it the secrets of later keys than its first, in force or not yet.
    fn add_secrets(&mut self, secrets: impl IntoIterator<Item = Signer>)
    where
        Self: Sized,
    {
        secrets.into_iter().for_each(|secret| self.base_mut().credentials.add_secret(secret));
    }

    /// What it knows of keys.
    fn keys(&self) -> &KeyBook {
        self.base().credentials.keys()
    }

    /// The key it signs with.
    fn key(&self) -> PublicKey {
        self.base().credentials.key()
    }

    /// The secrets of its keys, the first one first: its host proves by them who it is.
    fn secrets(&self) -> &[Signer] {
        self.base().credentials.secrets()
    }

    /// Signs an invitation that it has journaled.
    fn sign_invitation(&self, invitation: Invitation) -> SignedInvitation {
        self.base().credentials.sign_invitation(invitation)
    }

    /// Signs the head of a segment of its archived journal with [`key`](Self::key).
    fn sign_segment(&self, head: &[u8]) -> Signature {
        self.base().credentials.sign_segment(head)
    }

    /// The key that it would have to sign with, if it lacks the secret.
    fn missing_secret(&self) -> Option<PublicKey> {
        self.base().credentials.missing_secret()
    }

    /// The actors it deals with, by configuration or by invitation.
    fn peers(&self) -> &BTreeMap<ActorId, Peer> {
        &self.base().peers
    }

    /// A name that two of its peers have, one by configuration and one by invitation.
    fn name_of_two(&self) -> Option<&Name> {
        let names: BTreeSet<&Name> =
            self.base().setup.peers.values().map(|peer| &peer.name).collect();
        let by_invitation = self
            .joined()
            .iter()
            .filter(|(id, joined)| joined.is_peer() && !self.base().setup.peers.contains_key(id));
        by_invitation.map(|(_, joined)| &joined.name).find(|name| names.contains(name))
    }
}

impl Role {
    /// The role in words.
    pub fn word(self) -> &'static str {
        match self {
            Self::ServiceManager => "service manager",
            Self::Broker => "broker",
            Self::SiteAuthority => "site authority",
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.word())
    }
}

/// What an actor is told when it is built, the same at every recovery.
#[derive(Clone, Debug, PartialEq)]
pub struct Setup {
    /// Its name.
    pub name: Name,
    /// Its secret.
    pub signer: Signer,
    /// The bound on the difference of two actors' clocks.
    pub margin: Span,
    /// The actors it deals with by configuration.
    pub peers: Peers,
}

/// What the three roles have in common.
#[derive(Clone, Debug)]
pub struct Base {
    pub(crate) setup: Setup,
    /// The actors it deals with, by configuration or by invitation.
    pub(crate) peers: Peers,
    pub(crate) common: CommonState,
    pub(crate) credentials: Credentials,
    /// The number of facts applied.
    pub(crate) position: u64,
    pub(crate) watermarks: Watermarks,
    /// What it is started with, in words.
    pub(crate) start: settings::Start,
    /// The number of facts with the last statement about its own keys.
    pub(crate) keys_stated: u64,
}

impl PartialEq for Base {
    /// What credentials cache beside keys, and what peers have said decides nothing, and is not in the journal.
    fn eq(&self, other: &Self) -> bool {
        let Self { setup, common, credentials, position, .. } = self;
        (setup, common, position) == (&other.setup, &other.common, &other.position)
            && credentials.keys() == other.credentials.keys()
    }
}

impl Base {
    pub(crate) fn new(setup: Setup) -> Self {
        let credentials = Credentials::new(setup.signer.clone());
        let (watermarks, start) = (Watermarks::default(), settings::Start::default());
        let (peers, common) = (setup.peers.clone(), CommonState::default());
        Self { setup, peers, common, credentials, position: 0, watermarks, start, keys_stated: 0 }
    }

    /// Peers by invitation have changed.
    pub(crate) fn know_peers(&mut self) {
        self.peers = self.common.peers.with(&self.setup.peers);
    }

    /// What a snapshot holds of what all roles have in common.
    pub(crate) fn state(&self) -> (u64, &KeyBook, &CommonState) {
        (self.position, self.credentials.keys(), &self.common)
    }

    /// Takes over what a snapshot holds.
    pub(crate) fn set_state(&mut self, (position, keys, common): (u64, KeyBook, CommonState)) {
        (self.position, self.common) = (position, common);
        self.credentials.set_keys(keys);
        self.know_peers();
    }

    pub(crate) fn id(&self) -> ActorId {
        self.credentials.id()
    }

    pub(crate) fn margin(&self) -> Span {
        self.setup.margin
    }

    /// The shortest term that two clocks agree on: anything up to twice the margin is refused.
    pub(crate) fn two_margins(&self) -> Span {
        self.setup.margin.times(2)
    }

    /// The name of a peer; of an actor without one, its own.
    pub(crate) fn name_of(&self, id: ActorId) -> Name {
        self.peer_name(id).unwrap_or(&self.setup.name).clone()
    }

    /// The name of a peer, if it has one.
    pub(crate) fn peer_name(&self, id: ActorId) -> Option<&Name> {
        self.peers.get(&id).map(|peer| &peer.name)
    }

    pub(crate) fn is_known(&self, id: ActorId, role: Role) -> bool {
        self.peers.get(&id).is_some_and(|peer| peer.role == role)
    }

    /// Whether an actor is a peer that may begin this. One by configuration may all that its role may.
    pub(crate) fn may(&self, id: ActorId, permission: Permission, at: Role) -> bool {
        let Some(peer) = self.peers.get(&id) else { return false };
        let joined = self.common.peers.joined().get(&id);
        match joined.filter(|_| !self.setup.peers.contains_key(&id)) {
            Some(joined) => joined.may.contains(&permission),
            None => permissions_of(peer.role, at).contains(&permission),
        }
    }

    pub(crate) fn peers_of(&self, role: Role) -> impl Iterator<Item = (&Name, ActorId)> {
        self.peers.of(role)
    }

    /// Opens a message. What cannot be opened is noted and not answered: its sender is not known.
    fn open<F>(&mut self, now: Time, sealed: &Sealed, out: &mut Output<F>) -> Option<Envelope> {
        let since = now.minus(self.margin());
        let opened = sealed.open(&mut self.credentials, since);
        let envelope = opened.map_err(|e| out.problems.push(Problem::Unopened(e))).ok()?;
        let from = envelope.header.from;
        if self.peers.contains_key(&from) {
            self.watermarks.record(from, PeerWatermark::of(&envelope, sealed));
        }
        Some(envelope)
    }

    /// The envelope of owed work.
    pub(crate) fn envelope(
        &self,
        to: ActorId,
        (sequence, at): (Sequence, Time),
        message: Message,
    ) -> Envelope {
        let header = Header { from: self.id(), to, sequence, at };
        Envelope { header, message }
    }

    /// The envelope of the answer that the fact at `cause` gave; the same bytes whenever it is built.
    pub(crate) fn answer(&self, to: ActorId, cause: Cause, message: Message) -> Envelope {
        let position = if mutant!(AnswerRenumbered) { self.position } else { cause.position };
        let sequence = Sequence { position, index: Sequence::ANSWER };
        self.envelope(to, (sequence, cause.at), message)
    }

    /// The envelope of an answer that several facts gave together, the last of them at `cause`.
    pub(crate) fn joint_answer(&self, to: ActorId, cause: Cause, message: Message) -> Envelope {
        let index =
            if mutant!(OneNumberForTwo) { Sequence::ANSWER } else { Sequence::joint(&message) };
        let sequence = Sequence { position: cause.position, index };
        self.envelope(to, (sequence, cause.at), message)
    }

    /// The envelope of the answer to receipts that were shown together, one for each of `causes`. Without
    /// causes, some of the receipts are another's, or were forgotten: their terms have ended.
    pub(crate) fn credited(
        &self,
        now: Time,
        to: ActorId,
        receipts: Vec<(LinkHash, u32)>,
        causes: Option<Vec<Cause>>,
    ) -> Envelope {
        let message = Message::Credited { receipts };
        let causes = causes.unwrap_or_default();
        match (causes.iter().max_by_key(|cause| cause.position), causes.len()) {
            (None, _) => self.volatile(to, now, message),
            (Some(&cause), 1) => self.answer(to, cause, message),
            (Some(&last), _) => self.joint_answer(to, last, message),
        }
    }

    /// The envelope of an answer that no fact stands behind: of use to the asker, binding nobody.
    pub(crate) fn volatile(&self, to: ActorId, now: Time, message: Message) -> Envelope {
        let sequence = Sequence { position: self.position, index: Sequence::VOLATILE };
        self.envelope(to, (sequence, now), message)
    }
}

/// The fact that caused an answer, kept so that the answer can be given again with the same bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Cause {
    pub(crate) position: u64,
    pub(crate) at: Time,
}

pub(crate) fn dropped(kind: &'static str, cause: impl Into<String>) -> Problem {
    Problem::Message { kind, cause: cause.into() }
}

/// Lists things for [`Actor::unfinished`], at most `most` of them.
pub(crate) fn at_most(lines: impl Iterator<Item = String>, most: usize) -> Vec<String> {
    lines.take(most).collect()
}
