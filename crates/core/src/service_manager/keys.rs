//! The keys of a service manager.

use super::{Obligation, ServiceManager};
use crate::actor::keys::{KeyFact, KeyHolder};
use crate::model::codec::Hash;
use crate::model::identity::ActorId;
use crate::model::keys::KeyChange;
use crate::model::time::Time;
use crate::service_manager::facts::{Fact, KeyRevoked, KeyRotated, KeysNoted, PeerKeysLearned};

impl KeyHolder for ServiceManager {
    fn key_fact(fact: KeyFact) -> Fact {
        match fact {
            KeyFact::Stated(signed, tell) => match signed.statement.change {
                KeyChange::Rotated { .. } => KeyRotated { statement: *signed, tell }.into(),
                KeyChange::Revoked { .. } => KeyRevoked { statement: *signed, tell }.into(),
            },
            KeyFact::Learned(peer, chain) => PeerKeysLearned { peer, chain }.into(),
            KeyFact::Noted(peer, number) => KeysNoted { peer, number }.into(),
        }
    }

    fn signed(&self) -> Vec<(Time, Hash)> {
        self.state.splits.signed_by(self.base.id())
    }

    fn tell_keys(&mut self, peer: ActorId, at: Time, owed: bool) {
        let key = Obligation::Keys(peer);
        if owed {
            self.state.pending.require(key, self.base.position, at);
        } else {
            self.state.pending.settle(&key);
        }
    }
}
