//! Locks that keep a second process, or a second opening in this one, away from a journal or a folder.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::path::Path;

/// Held as long as what it locks is in use; the system gives it back when the process dies.
///
/// The lock is on a file of its own: closing any other descriptor of a database file would drop the
/// locks that SQLite has on it. The file stays when the lock is gone, since whoever removes it could
/// remove the one that somebody has just locked.
#[derive(Debug)]
pub(crate) struct Lock(#[expect(dead_code, reason = "held, not used")] File);

/// Why a lock was not taken.
#[derive(Debug)]
pub(crate) enum LockError {
    /// Somebody has it: the process, if it has said so yet.
    Held(Option<u32>),
    /// The system fails.
    System(io::Error),
}

impl From<io::Error> for LockError {
    fn from(error: io::Error) -> Self {
        Self::System(error)
    }
}

impl Lock {
    /// Takes the lock in the file at `path`, which is made if it is not there.
    pub(crate) fn take(path: &Path) -> Result<Self, LockError> {
        let mut file =
            OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut text = String::new();
                let read = file.read_to_string(&mut text);
                return Err(LockError::Held(read.ok().and_then(|_| text.trim().parse().ok())));
            }
            Err(TryLockError::Error(cause)) => return Err(cause.into()),
        }
        file.set_len(0)?;
        file.rewind()?;
        writeln!(file, "{}", std::process::id())?;
        Ok(Self(file))
    }
}
