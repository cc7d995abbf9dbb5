//! The latest word of each peer: by it a peer whose journal was put back from an older copy is found out.

use std::collections::BTreeMap;
use std::fmt;

use crate::model::identity::ActorId;
use crate::wire::credentials::Credentials;
use crate::wire::message::{Envelope, Sealed, Sequence};

/// Of each known peer the message that says most about the length of its journal. Nothing is decided by
/// it.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Watermarks(BTreeMap<ActorId, PeerWatermark>);

/// A message, signed by a peer, that bears witness to the length of its journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerWatermark {
    /// How many facts the peer's journal held at least when it was sent.
    pub len: u64,
    /// What was sent.
    pub sealed: Sealed,
}

impl PeerWatermark {
    /// What an opened message says about its sender's journal: nothing leaves before its cause is durable
    /// (S9), so the fact that it names was there.
    pub fn of(envelope: &Envelope, sealed: &Sealed) -> Self {
        let Sequence { position, index } = envelope.header.sequence;
        // What no fact stands behind names the position of the next one.
        let len = position.saturating_add(u64::from(index != Sequence::VOLATILE));
        Self { len, sealed: sealed.clone() }
    }
}

/// How many facts the journal of `actor` held at least when it signed this; nothing if it did not.
pub(crate) fn witnessed_len(
    actor: ActorId,
    sealed: &Sealed,
    credentials: &mut Credentials,
) -> Option<u64> {
    let envelope = sealed.peek().ok().filter(|_| credentials.checks_message(sealed))?;
    let own = envelope.header.from == actor && credentials.is_own(&sealed.key());
    own.then(|| PeerWatermark::of(&envelope, sealed).len)
}

impl Watermarks {
    /// Records a statement of a peer.
    pub fn record(&mut self, peer: ActorId, watermark: PeerWatermark) {
        if self.0.get(&peer).is_none_or(|known| known.len < watermark.len) {
            self.0.insert(peer, watermark);
        }
    }

    /// The word that says most about a peer's journal.
    pub fn of(&self, peer: ActorId) -> Option<&PeerWatermark> {
        self.0.get(&peer)
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = (ActorId, &PeerWatermark)> {
        self.0.iter().map(|(&peer, watermark)| (peer, watermark))
    }
}

impl fmt::Debug for Watermarks {
    /// Shows how long the journal of each peer is at least; the messages that say so are long.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.0.iter().map(|(peer, watermark)| (peer, watermark.len))).finish()
    }
}
