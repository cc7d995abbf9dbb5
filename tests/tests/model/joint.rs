//! The joint states of a lease: what its guest, its broker and its site each make of it.

use std::collections::BTreeSet;
use std::sync::RwLock;

use super::participants::{ALL, GUEST, RIVAL, SITE};
use super::summary::{Key, LeaseStates};

/// A word each of guest, broker and site; `-` for a lease that the actor does not know.
pub(crate) type Triple = [&'static str; 3];

/// The joint states that were seen.
#[derive(Default)]
pub(crate) struct Joint(RwLock<BTreeSet<Triple>>);

impl Joint {
    /// Adds the leases of one state, by the state names of all actors, of which one sells.
    pub(crate) fn see(&self, seller: usize, words: [&LeaseStates; ALL]) {
        let all = [GUEST, RIVAL, seller, SITE].into_iter().flat_map(|who| words[who]);
        let all = all.map(|(key, _)| *key);
        for key in all {
            let triple = [key.0, seller, SITE].map(|who| find(words[who], key));
            if !self.0.read().unwrap().contains(&triple) {
                self.0.write().unwrap().insert(triple);
            }
        }
    }

    pub(crate) fn seen(&self) -> BTreeSet<Triple> {
        self.0.read().unwrap().clone()
    }
}

fn find(words: &LeaseStates, key: Key) -> &'static str {
    words.iter().find(|(k, _)| *k == key).map_or("-", |(_, word)| word)
}
