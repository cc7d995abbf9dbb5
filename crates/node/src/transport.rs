//! The way of messages from one actor to another.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

use actix::Recipient;
use tenure_core::model::identity::ActorId;
use tenure_core::wire::message::{Sealed, Sequence};
use tracing::debug;

/// A sealed message on its way, with what is written on the outside. Only what is sealed counts; the rest
/// finds the way and an order.
#[derive(Clone, Debug)]
pub struct Parcel {
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

impl actix::Message for Parcel {
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
    pub says: Says,
}

/// The words of a [`Greeting`].
#[derive(Clone, Debug)]
pub enum Says {
    /// "I am back: what is the last that you have heard of me?"
    Hello,
    /// "This is." Signed by whoever asked, or nothing yet.
    Watermarks(Option<Sealed>),
}

impl actix::Message for Greeting {
    type Result = ();
}

/// Carries messages. It may lose them: a sender that needs an answer repeats.
pub trait Transport: Send + Sync {
    /// Takes a parcel on its way, without waiting. Answers whether it got anywhere.
    fn send(&self, parcel: Parcel) -> bool;

    /// As [`send`](Self::send), for a greeting.
    fn greet(&self, greeting: Greeting) -> bool;
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
    pub parcels: Recipient<Parcel>,
    /// Takes its greetings.
    pub greetings: Recipient<Greeting>,
}

impl Exchange {
    /// An exchange without lines.
    pub fn new() -> Self {
        Self::default()
    }

    /// Brings what is for `id` to `line` from now on.
    pub fn connect(&self, id: ActorId, line: Line) {
        self.lines.write().unwrap_or_else(PoisonError::into_inner).insert(id, line);
    }
}

impl Transport for Exchange {
    /// A receiver whose mailbox is full or gone does not get it, nor does one that nobody knows.
    fn send(&self, parcel: Parcel) -> bool {
        let lines = self.lines.read().unwrap_or_else(PoisonError::into_inner);
        let Some(line) = lines.get(&parcel.to) else {
            debug!(to = %parcel.to, kind = parcel.kind, "nobody has that id: dropped");
            return false;
        };
        line.parcels.try_send(parcel).is_ok()
    }

    fn greet(&self, greeting: Greeting) -> bool {
        let lines = self.lines.read().unwrap_or_else(PoisonError::into_inner);
        lines.get(&greeting.to).is_some_and(|line| line.greetings.try_send(greeting).is_ok())
    }
}
