//! What the tests of journals share.

use std::path::{Path, PathBuf};

use tempfile::TempDir;
use tenure_core::actor::Role;
use tenure_core::runtime::Entry;

use tenure_core::model::identity::{Scheme, Signer};
use tenure_core::model::name::Name;
use tenure_core::model::time::Time;
use tenure_core::runtime::journal::{Journal as _, MemoryJournal};
use tenure_core::service_manager::facts as sm;
use tenure_node::journal::{JournalError, JournalFile, Owner};

/// A folder that goes away, and the path of a journal in it.
pub(crate) struct Place {
    folder: TempDir,
}

impl Place {
    pub(crate) fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.folder.path().join("guest.journal")
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// A file that goes with the journal.
    pub(crate) fn beside(&self, ending: &str) -> PathBuf {
        self.folder.path().join(format!("guest.journal{ending}"))
    }

    pub(crate) fn open(&self) -> Result<JournalFile, JournalError> {
        JournalFile::open(&self.path(), &guest())
    }

    /// A journal with the first `len` sample facts, closed.
    pub(crate) fn with(len: u64) -> Self {
        let place = Self::new();
        let mut file = place.open().unwrap();
        for position in 0..len {
            file.append(position, &facts(position..position + 1)).unwrap();
        }
        file.close().unwrap();
        place
    }

    /// Does to the rows what no journal would.
    pub(crate) fn edit(&self, sql: &str) {
        let connection = rusqlite::Connection::open(self.path()).unwrap();
        connection.execute_batch(sql).unwrap();
    }
}

/// A guest of this name, with a key of its own.
pub(crate) fn owner(name: &str, role: Role, key: u8) -> Owner {
    let id = Signer::from_seed(Scheme::Ed25519, [key; 32]).id();
    Owner { name: Name::new(name).unwrap(), role, id }
}

pub(crate) fn guest() -> Owner {
    owner("guest", Role::ServiceManager, 1)
}

/// The sample fact for a position.
pub(crate) fn fact(position: u64) -> Entry {
    let value = i64::try_from(position).unwrap();
    let signal = Name::literal("demand");
    let fact = sm::Fact::from(sm::SignalObserved { signal, value: value * value });
    Entry { at: Time::from_secs(value), fact: fact.into() }
}

/// The sample facts for a range of positions.
pub(crate) fn facts(positions: std::ops::Range<u64>) -> Vec<Entry> {
    positions.map(fact).collect()
}

/// A journal in memory with the first `len` sample facts.
pub(crate) fn in_memory(len: u64) -> MemoryJournal {
    let mut journal = MemoryJournal::new();
    journal.append(0, &facts(0..len)).unwrap();
    journal
}

/// All facts that a recovery is handed.
pub(crate) fn recovered(path: &Path) -> Vec<Entry> {
    let mut entries = Vec::new();
    let file = JournalFile::recover(path, &guest(), |entry| {
        entries.push(entry.clone());
        Ok(())
    });
    assert_eq!(file.unwrap().len(), entries.len() as u64);
    entries
}
