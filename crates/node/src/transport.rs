//! The way of messages from one actor to another.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

use actix::Recipient;
use tenure_core::actor::joined::Joined;
use tenure_core::model::identity::{ActorId, Signer};
use tenure_core::model::keys::KeyBook;
use tenure_core::ticket::Ticket;
use tenure_core::wire::message::{Sealed, Sequence};
use tracing::debug;

/// A sealed message on its way, with what is written on the outside. Only what is sealed counts; the rest
/// finds the way and an order.
#[derive(Clone, Debug)]
pub struct Packet {
    /// Who sends it.
    pub from: ActorId,
    /// Who is to have it.
    pub to: ActorId,
    /// The sender's number for it.
    pub sequence: Sequence,
    /// The kind of message it is.
    pub kind: &'static str,
    /// What the receiver opens.
    pub sealed: Sealed,
}

impl actix::Message for Packet {
    type Result = ();
}

/// What hosts say to each other about their journals, beside what their actors say.
#[derive(Clone, Debug)]
pub struct Greeting {
    /// Who says it.
    pub from: ActorId,
    /// To whom.
    pub to: ActorId,
    /// What.
    pub says: GreetingKind,
}

/// The words of a [`Greeting`].
#[derive(Clone, Debug)]
pub enum GreetingKind {
    /// Sent after a start: asks for the newest message received from the sender.
    Hello,
    /// The reply: the newest message signed by the asker, if there is one.
    Watermarks(Option<Sealed>),
}

impl actix::Message for Greeting {
    type Result = ();
}

/// Carries messages. It may lose them: a sender that needs an answer repeats.
pub trait Transport: Send + Sync {
    /// Sends a packet without waiting; returns whether a receiver accepted it.
    fn send(&self, packet: Packet) -> bool;

    /// As [`send`](Self::send), for a greeting.
    fn greet(&self, greeting: Greeting) -> bool;

    /// Whether what is sent now is on its way at once, as far as is known.
    fn is_connected(&self, _from: ActorId, _to: ActorId) -> bool {
        true
    }

    /// An actor of this process holds a ticket: its site is to be able to reach it.
    fn hold(&self, _holder: ActorId, _ticket: &Ticket) {}

    /// What an actor of this process knows of keys from now on, and the secrets of its own.
    fn learn(&self, _actor: ActorId, _keys: &KeyBook, _secrets: &[Signer]) {}

    /// These are the peers by invitation of an actor of this process from now on.
    fn introduce(&self, _actor: ActorId, _peers: &BTreeMap<ActorId, Joined>) {}
}

/// The transport between the actors of one process.
#[derive(Clone, Default)]
pub struct Exchange {
    lines: Arc<RwLock<BTreeMap<ActorId, Line>>>,
}

/// What reaches one actor.
#[derive(Clone)]
pub struct Line {
    /// Takes its messages.
    pub packets: Recipient<Packet>,
    /// Takes its greetings.
    pub greetings: Recipient<Greeting>,
}

impl Exchange {
    /// An exchange without lines.
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether what is for `id` is brought to somebody.
    pub fn has(&self, id: ActorId) -> bool {
        self.lines.read().unwrap_or_else(PoisonError::into_inner).contains_key(&id)
    }

    /// Brings what is for `id` to `line` from now on.
    pub fn connect(&self, id: ActorId, line: Line) {
        self.lines.write().unwrap_or_else(PoisonError::into_inner).insert(id, line);
    }
}

impl Transport for Exchange {
    /// A receiver whose mailbox is full or gone does not get it, nor does an unknown receiver.
    fn send(&self, packet: Packet) -> bool {
        let lines = self.lines.read().unwrap_or_else(PoisonError::into_inner);
        let Some(line) = lines.get(&packet.to) else {
            debug!(to = %packet.to, kind = packet.kind, "dropped: no actor has this id");
            return false;
        };
        line.packets.try_send(packet).is_ok()
    }

    fn greet(&self, greeting: Greeting) -> bool {
        let lines = self.lines.read().unwrap_or_else(PoisonError::into_inner);
        lines.get(&greeting.to).is_some_and(|line| line.greetings.try_send(greeting).is_ok())
    }
}
