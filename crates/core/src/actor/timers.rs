//! Timers: when each thing is next due.

use std::collections::{BTreeMap, BTreeSet};

use crate::time::Time;

/// One deadline for each key, and the keys in the order of their deadlines.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Timers<K> {
    by_key: BTreeMap<K, Time>,
    by_time: BTreeSet<(Time, K)>,
}

impl<K> Default for Timers<K> {
    fn default() -> Self {
        Self { by_key: BTreeMap::new(), by_time: BTreeSet::new() }
    }
}

impl<K: Ord + Clone> Timers<K> {
    /// Sets, moves or (with `None`) drops the deadline of `key`.
    pub(super) fn set(&mut self, key: K, deadline: Option<Time>) {
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

    /// The first deadline.
    pub(super) fn next(&self) -> Option<Time> {
        self.by_time.first().map(|&(time, _)| time)
    }

    /// The key with the first deadline, if that is `now` or before.
    pub(super) fn due(&self, now: Time) -> Option<K> {
        self.by_time.first().filter(|(time, _)| *time <= now).map(|(_, key)| key.clone())
    }
}
