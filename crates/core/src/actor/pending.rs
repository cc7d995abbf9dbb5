//! Pending work: what the actor has decided and the outside has not yet done.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::actor::effect::EffectId;
use crate::model::time::Time;
use crate::mutants::mutant;
use crate::wire::message::Sequence;

/// Pending work by key and by the fact that caused it. At most one piece is pending under a key.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(bound(deserialize = "K: Ord + Deserialize<'de>"))]
pub(crate) struct PendingEffects<K> {
    by_id: BTreeMap<EffectId, (K, Time)>,
    by_key: BTreeMap<K, EffectId>,
}

impl<K> Default for PendingEffects<K> {
    fn default() -> Self {
        Self { by_id: BTreeMap::new(), by_key: BTreeMap::new() }
    }
}

impl<K: Ord + Clone> PendingEffects<K> {
    /// Adds `key` because of the fact at `position`, which happened `at`; what was pending under the key
    /// before is not any more.
    pub(crate) fn require(&mut self, key: K, position: u64, at: Time) {
        self.settle(&key);
        let last = self.by_id.last_key_value().map(|(&id, _)| id);
        let index = last.filter(|id| id.position == position).map_or(0, |id| id.index + 1);
        let id = Sequence { position, index };
        self.by_key.insert(key.clone(), id);
        self.by_id.insert(id, (key, at));
    }

    /// `key` is no longer pending.
    pub(crate) fn settle(&mut self, key: &K) {
        if let Some(id) = self.by_key.remove(key)
            && !mutant!(SettledIsOwed)
        {
            self.by_id.remove(&id);
        }
    }

    /// Nothing under the keys from `first` to `last` is pending any more.
    pub(crate) fn settle_range(&mut self, first: K, last: K) {
        let keys: Vec<K> = self.by_key.range(first..=last).map(|(key, _)| key.clone()).collect();
        for key in keys {
            self.settle(&key);
        }
    }

    /// Owes `key` or settles it.
    pub(crate) fn set(&mut self, key: K, wanted: bool, position: u64, at: Time) {
        match (wanted, self.requires(&key)) {
            (true, false) => self.require(key, position, at),
            (false, true) => self.settle(&key),
            (true, true) | (false, false) => {}
        }
    }

    /// What is pending under the keys from `first` to `last`, in their order.
    pub(crate) fn between(&self, first: K, last: K) -> impl DoubleEndedIterator<Item = &K> {
        self.by_key.range(first..=last).map(|(key, _)| key)
    }

    /// Whether something is pending under `key`.
    pub(crate) fn requires(&self, key: &K) -> bool {
        self.by_key.contains_key(key)
    }

    /// The position of the fact because of which something is pending under `key`.
    pub(crate) fn since(&self, key: &K) -> Option<u64> {
        self.by_key.get(key).map(|id| id.position)
    }

    /// Whether `id` is still pending.
    pub(crate) fn is_pending(&self, id: EffectId) -> bool {
        self.by_id.contains_key(&id)
    }

    /// The key of what is pending under `id`.
    pub(crate) fn key(&self, id: EffectId) -> Option<&K> {
        self.by_id.get(&id).map(|(key, _)| key)
    }

    /// What facts from `position` on caused, in order.
    pub(crate) fn after(&self, position: u64) -> impl Iterator<Item = (EffectId, &K, Time)> {
        let from = Sequence { position, index: 0 };
        self.by_id.range(from..).map(|(&id, (key, at))| (id, key, *at))
    }
}
