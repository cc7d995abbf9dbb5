//! What the configuration says of guests and other brokers, and what an operator has said, who prevails.

use std::collections::{BTreeMap, BTreeSet};

use imbl::OrdMap;
use serde::{Deserialize, Serialize};

use super::quota::Source;

/// A value for some keys, each by the configuration or by an operator.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(bound(deserialize = "K: Ord + Clone + Deserialize<'de>, V: Clone + Deserialize<'de>"))]
pub(super) struct Settings<K: Ord + Clone, V: Clone> {
    #[serde(deserialize_with = "crate::model::codec::ord_map")]
    configured: OrdMap<K, V>,
    #[serde(deserialize_with = "crate::model::codec::ord_map")]
    set: OrdMap<K, V>,
}

impl<K: Ord + Clone, V: Clone> Default for Settings<K, V> {
    fn default() -> Self {
        Self { configured: OrdMap::new(), set: OrdMap::new() }
    }
}

impl<K: Ord + Copy, V: Clone + PartialEq> Settings<K, V> {
    /// The value in force.
    pub(super) fn of(&self, key: K) -> Option<&V> {
        self.set.get(&key).or_else(|| self.configured.get(&key))
    }

    /// Who says what it is.
    pub(super) fn source(&self, key: K) -> Option<Source> {
        let configured = self.configured.contains_key(&key).then_some(Source::Configuration);
        self.set.contains_key(&key).then_some(Source::Operator).or(configured)
    }

    /// All keys with a value.
    pub(super) fn keys(&self) -> BTreeSet<K> {
        self.configured.keys().chain(self.set.keys()).copied().collect()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.configured.is_empty() && self.set.is_empty()
    }

    /// What is configured and differs from what is `wanted`, each as it is to be.
    pub(super) fn outdated(&self, wanted: &BTreeMap<K, V>) -> Vec<(K, Option<V>)> {
        let all: BTreeSet<K> = self.configured.keys().chain(wanted.keys()).copied().collect();
        let differs = |key: &K| self.configured.get(key) != wanted.get(key);
        all.into_iter().filter(differs).map(|key| (key, wanted.get(&key).cloned())).collect()
    }

    /// Sets a value, or, without one, takes back what that source has said.
    pub(super) fn put(&mut self, key: K, value: Option<V>, by: Source) {
        let values = match by {
            Source::Configuration => &mut self.configured,
            Source::Operator => &mut self.set,
        };
        match value {
            Some(value) => values.insert(key, value),
            None => values.remove(&key),
        };
    }
}
