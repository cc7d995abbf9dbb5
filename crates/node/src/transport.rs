//! The way of messages from one actor to another.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

use actix::Recipient;
use tenure_core::identity::ActorId;
use tenure_core::message::{Sealed, Sequence};
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

/// Carries messages. It may lose them: whoever needs an answer sends again.
pub trait Transport: Send + Sync {
    /// Takes a parcel on its way, without waiting. Answers whether it got anywhere.
    fn send(&self, parcel: Parcel) -> bool;
}

/// The transport between the actors of one process.
#[derive(Clone, Default)]
pub struct Exchange {
    lines: Arc<RwLock<BTreeMap<ActorId, Recipient<Parcel>>>>,
}

impl Exchange {
    /// An exchange without lines.
    pub fn new() -> Self {
        Self::default()
    }

    /// Brings what is for `id` to `line` from now on.
    pub fn connect(&self, id: ActorId, line: Recipient<Parcel>) {
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
        line.try_send(parcel).is_ok()
    }
}
