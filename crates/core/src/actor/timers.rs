//! Timers: when each thing is next due.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::model::time::Time;

/// One deadline for each key, and the keys in the order of their deadlines.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Timers<K> {
    by_key: BTreeMap<K, Time>,
    by_time: BTreeSet<(Time, K)>,
}

impl<K> Default for Timers<K> {
    fn default() -> Self {
        Self { by_key: BTreeMap::new(), by_time: BTreeSet::new() }
    }
}

/// As a map from each key to its deadline; their order is made again.
impl<K: Serialize> Serialize for Timers<K> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.by_key.serialize(serializer)
    }
}

impl<'de, K: Ord + Clone + Deserialize<'de>> Deserialize<'de> for Timers<K> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let by_key = BTreeMap::<K, Time>::deserialize(deserializer)?;
        let by_time = by_key.iter().map(|(key, &time)| (time, key.clone())).collect();
        Ok(Self { by_key, by_time })
    }
}

impl<K: Ord + Clone> Timers<K> {
    /// Sets, moves or (with `None`) drops the deadline of `key`.
    pub(crate) fn set(&mut self, key: K, deadline: Option<Time>) {
        let old = match deadline {
            Some(time) => self.by_key.insert(key.clone(), time),
            None => self.by_key.remove(&key),
        };
        if old == deadline {
            return;
        }
        if let Some(old) = old {
            self.by_time.remove(&(old, key.clone()));
        }
        if let Some(time) = deadline {
            self.by_time.insert((time, key));
        }
    }

    /// The deadline of `key`.
    pub(crate) fn of(&self, key: &K) -> Option<Time> {
        self.by_key.get(key).copied()
    }

    /// The first deadline.
    pub(crate) fn next(&self) -> Option<Time> {
        self.by_time.first().map(|&(time, _)| time)
    }

    /// The key with the first deadline, if that is `now` or before.
    pub(crate) fn due(&self, now: Time) -> Option<K> {
        self.by_time.first().filter(|(time, _)| *time <= now).map(|(_, key)| key.clone())
    }
}
