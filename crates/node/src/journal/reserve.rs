//! Room that is kept back beside a journal, so that what has begun can end when the disk is full.

use std::path::{Path, PathBuf};

use super::JournalError;
use super::disk::Disk;
use super::rows::beside;

/// The room kept back for one journal: a file that holds nothing and is removed when its room is needed.
#[derive(Debug)]
pub struct Reserve {
    path: PathBuf,
}

impl Reserve {
    /// The reserve of the journal at `path`; nothing is touched yet.
    pub fn of(path: &Path) -> Self {
        Self { path: beside(path, "-reserve") }
    }

    /// Keeps the room back, if it is not kept back already.
    ///
    /// # Errors
    /// [`JournalError::DiskFull`] if there is not enough; nothing is kept back then.
    pub fn keep(&self, disk: &dyn Disk) -> Result<(), JournalError> {
        let kept = disk.reserve(&self.path, disk.reserve_room());
        kept.map_err(|cause| JournalError::system(&self.path, "keep room in", &cause))
    }

    /// Keeps the room back again after it was given back. There must be room for as much once more: what is
    /// left of the old reserve is in use.
    ///
    /// # Errors
    /// As [`keep`](Self::keep).
    pub fn regain(&self, disk: &dyn Disk) -> Result<(), JournalError> {
        let twice = disk.reserve(&self.path, 2 * disk.reserve_room());
        twice.map_err(|cause| JournalError::system(&self.path, "keep room in", &cause))?;
        self.give_back(disk)?;
        self.keep(disk)
    }

    /// Gives the room back to the disk. Answers whether there was any.
    ///
    /// # Errors
    /// If the file is there and cannot be removed.
    pub fn give_back(&self, disk: &dyn Disk) -> Result<bool, JournalError> {
        let given = disk.release(&self.path);
        given.map_err(|cause| JournalError::system(&self.path, "remove", &cause))
    }
}
