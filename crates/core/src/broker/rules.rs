//! Rules on guests and other brokers: those of the configuration, and those of an operator, which prevail.

use std::collections::{BTreeMap, BTreeSet};

use imbl::OrdMap;
use serde::{Deserialize, Serialize};

/// Who has set a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Source {
    /// The configuration.
    Configuration,
    /// An operator, who prevails over the configuration.
    Operator,
}

impl Source {
    /// The word for it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Configuration => "configuration",
            Self::Operator => "operator",
        }
    }
}

/// A rule for some keys, each by the configuration or by an operator.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(bound(deserialize = "K: Ord + Clone + Deserialize<'de>, V: Clone + Deserialize<'de>"))]
pub(super) struct Rules<K: Ord + Clone, V: Clone> {
    #[serde(deserialize_with = "crate::model::codec::ord_map")]
    configured: OrdMap<K, V>,
    #[serde(deserialize_with = "crate::model::codec::ord_map")]
    set: OrdMap<K, V>,
}

impl<K: Ord + Clone, V: Clone> Default for Rules<K, V> {
    fn default() -> Self {
        Self { configured: OrdMap::new(), set: OrdMap::new() }
    }
}

impl<K: Ord + Copy, V: Clone + PartialEq> Rules<K, V> {
    /// The rule in force.
    pub(super) fn of(&self, key: K) -> Option<&V> {
        self.set.get(&key).or_else(|| self.configured.get(&key))
    }

    /// Who has set it.
    pub(super) fn source(&self, key: K) -> Option<Source> {
        let configured = self.configured.contains_key(&key).then_some(Source::Configuration);
        self.set.contains_key(&key).then_some(Source::Operator).or(configured)
    }

    /// All keys with a rule.
    pub(super) fn keys(&self) -> BTreeSet<K> {
        self.configured.keys().chain(self.set.keys()).copied().collect()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.configured.is_empty() && self.set.is_empty()
    }

    /// The configured rules that differ from those `wanted`, each as it is to be.
    pub(super) fn outdated(&self, wanted: &BTreeMap<K, V>) -> Vec<(K, Option<V>)> {
        let all: BTreeSet<K> = self.configured.keys().chain(wanted.keys()).copied().collect();
        let differs = |key: &K| self.configured.get(key) != wanted.get(key);
        all.into_iter().filter(differs).map(|key| (key, wanted.get(&key).cloned())).collect()
    }

    /// Sets a rule, or, without one, takes back that of this source.
    pub(super) fn put(&mut self, key: K, rule: Option<V>, by: Source) {
        let rules = match by {
            Source::Configuration => &mut self.configured,
            Source::Operator => &mut self.set,
        };
        match rule {
            Some(rule) => rules.insert(key, rule),
            None => rules.remove(&key),
        };
    }
}
