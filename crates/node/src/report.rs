//! Journals, as reports fold them.

use std::collections::BTreeMap;
use std::path::PathBuf;

use tenure_core::model::identity::ActorId;
use tenure_core::model::name::Name;
use tenure_core::model::time::Time;
use tenure_report::History;

use crate::journal::{JournalError, Reader};

/// What journals say, which may be in use, as of `now` or else of their last fact. Their owners are called by their
/// names there, other actors by `names`.
///
/// # Errors
/// If a journal cannot be read.
pub fn history(
    journals: &[PathBuf],
    mut names: BTreeMap<ActorId, Name>,
    now: Option<Time>,
) -> Result<History, JournalError> {
    let readers: Vec<Reader<'_>> =
        journals.iter().map(|path| Reader::open(path)).collect::<Result<_, _>>()?;
    names.extend(readers.iter().map(|reader| (reader.owner().id, reader.owner().name.clone())));
    let mut history = History::new(names);
    for reader in &readers {
        reader.read(|_, entry| {
            history.add(reader.owner().id, &entry);
            Ok(())
        })?;
    }
    Ok(history.finish(now))
}
