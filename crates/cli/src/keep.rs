//! What `tenure emulate --journals DIR` keeps: the journal of each actor, as a live one would have it.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use tenure_core::actor::Role;
use tenure_core::runtime::Entry;

use tenure_core::model::identity::ActorId;
use tenure_core::runtime::journal::AppendError;
use tenure_node::journal::{JournalFile, Owner};
use tenure_sim::emulation::Kept;

use crate::error::Error;

/// How many facts are written at once. Nothing waits for them, so that they need not be durable one by
/// one.
const BATCH: usize = 4096;

/// The name of the file beside the journals that says what was emulated.
pub(crate) const SCENARIO: &str = "scenario.toml";

const HEADER: &str = "# What was emulated, with all that options and a sweep have set.\n\n";

/// The journals of one run.
pub(crate) struct Journals {
    folder: PathBuf,
    files: BTreeMap<ActorId, (JournalFile, Vec<Entry>)>,
}

impl Journals {
    /// Journals in `folder`, which is made. What is emulated is kept beside them, so that anyone who
    /// continues from them has no other scenario.
    pub(crate) fn in_folder(folder: PathBuf, scenario: &str) -> Result<Self, Error> {
        fs::create_dir_all(&folder).map_err(|source| Error::writing(&folder, source))?;
        let path = folder.join(SCENARIO);
        if path.exists() {
            return Err(already_there(&path));
        }
        fs::write(&path, format!("{HEADER}{scenario}"))
            .map_err(|source| Error::writing(&path, source))?;
        Ok(Self { folder, files: BTreeMap::new() })
    }

    /// Takes facts in.
    pub(crate) fn keep(&mut self, kept: &Kept<'_>) -> Result<(), AppendError> {
        let unknown = |error: Error| AppendError::Unknown(error.to_string());
        if !self.files.contains_key(&kept.id) {
            let file = self.make(kept).map_err(unknown)?;
            self.files.insert(kept.id, (file, Vec::new()));
        }
        let Some((file, waiting)) = self.files.get_mut(&kept.id) else { return Ok(()) };
        waiting.extend_from_slice(kept.entries);
        if waiting.len() >= BATCH { write(file, waiting) } else { Ok(()) }
    }

    fn make(&self, kept: &Kept<'_>) -> Result<JournalFile, Error> {
        let role = match kept.role {
            Role::ServiceManager => "service-manager",
            Role::Broker => "broker",
            Role::SiteAuthority => "site",
        };
        let path = self.folder.join(format!("{role}.{}.journal", kept.name));
        let owner = Owner { name: kept.name.clone(), role: kept.role, id: kept.id };
        let file = JournalFile::open(&path, &owner)?;
        if file.is_empty() { Ok(file) } else { Err(already_there(&path)) }
    }

    /// Writes what is left and closes the journals.
    pub(crate) fn close(self) -> Result<(), Error> {
        for (mut file, mut waiting) in self.files.into_values() {
            write(&mut file, &mut waiting)
                .map_err(|error| Error::writing(&self.folder, io::Error::other(error)))?;
            file.close()?;
        }
        Ok(())
    }
}

fn write(file: &mut JournalFile, waiting: &mut Vec<Entry>) -> Result<(), AppendError> {
    file.append(file.len(), waiting)?;
    waiting.clear();
    Ok(())
}

fn already_there(path: &Path) -> Error {
    Error::writing(path, io::Error::new(io::ErrorKind::AlreadyExists, "it holds another run"))
}
