//! Settings that changed between two starts of an actor, as facts of its journal.
//!
//! What settings mean is the shell's business: it describes them in words. The core compares them with what
//! the journal says of them, and else with what the shell last started the actor with.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::actor::fact::truncate_text;
use crate::mutants::mutant;

/// The most settings of one actor that are followed.
pub const MAX_SETTINGS: usize = 1000;

/// The settings of an actor, each by its key.
pub type Described = BTreeMap<String, String>;

/// A setting that is another one by now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SettingChange {
    /// The key.
    pub key: String,
    /// What it was, if it was set.
    pub was: Option<String>,
    /// What it is, if it is set.
    pub is: Option<String>,
}

/// What an actor is started with, and was before, as far as the shell knows.
#[derive(Clone, Debug, Default)]
pub(crate) struct Start {
    pub(crate) was: Described,
    pub(crate) is: Described,
}

/// What a journal says of settings: those that ever changed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Journaled(BTreeMap<String, Option<String>>);

impl Journaled {
    /// The settings that changed since the last start.
    pub(crate) fn changes(&self, start: &Start) -> Vec<SettingChange> {
        let Start { was, is } = start;
        let keys: BTreeSet<&String> = was.keys().chain(is.keys()).chain(self.0.keys()).collect();
        let change = |key: &String| {
            let value = |of: &Described| of.get(key).map(|value| truncate_text(value));
            let journaled = self.0.get(key).filter(|_| !mutant!(SettingsForgotten));
            let (was, is) = (journaled.cloned().unwrap_or_else(|| value(was)), value(is));
            (was != is).then(|| SettingChange { key: truncate_text(key), was, is })
        };
        // Without a description nothing is known of them.
        let described = !is.is_empty();
        keys.into_iter().filter(|_| described).filter_map(change).take(MAX_SETTINGS).collect()
    }

    /// Settings have changed.
    pub(crate) fn changed(&mut self, changes: &[SettingChange]) {
        for SettingChange { key, is, .. } in changes {
            self.0.insert(key.clone(), is.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn described(settings: &[(&str, &str)]) -> Described {
        settings.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    fn in_words(changes: &[SettingChange]) -> Vec<String> {
        let words = |value: &Option<String>| value.clone().unwrap_or_else(|| "none".to_owned());
        changes
            .iter()
            .map(|c| format!("{}: {} -> {}", c.key, words(&c.was), words(&c.is)))
            .collect()
    }

    #[test]
    fn what_the_journal_says_prevails_over_what_the_shell_remembers() {
        let mut journaled = Journaled::default();
        let start = |was: &[(&str, &str)], is: &[(&str, &str)]| Start {
            was: described(was),
            is: described(is),
        };
        let first = start(&[("units", "4"), ("old", "1")], &[("units", "5"), ("new", "2")]);
        let changes = journaled.changes(&first);
        let expected = ["new: none -> 2", "old: 1 -> none", "units: 4 -> 5"];
        assert_eq!(in_words(&changes), expected);
        journaled.changed(&changes);
        assert!(journaled.changes(&first).is_empty(), "they are journaled once");
        let back = start(&[("units", "5")], &[("units", "4"), ("new", "2")]);
        assert_eq!(in_words(&journaled.changes(&back)), ["units: 5 -> 4"]);
        assert!(journaled.changes(&start(&[("units", "9")], &[])).is_empty());
    }
}
