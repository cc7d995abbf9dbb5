//! The lock that keeps a second process, or a second opening in this one, from writing a journal.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read as _, Seek as _, Write as _};
use std::path::Path;

use super::JournalError;
use super::rows::beside;

/// Held as long as a journal is open for writing; the system gives it back when the process dies.
///
/// The lock is on a file of its own: closing any other descriptor of the database file would drop the
/// locks that SQLite has on it. The file stays when the lock is gone, since whoever removes it could
/// remove the one that somebody has just locked.
#[derive(Debug)]
pub(super) struct Lock(#[expect(dead_code, reason = "held, not used")] File);

impl Lock {
    /// Takes the lock of the journal at `path`, or says who has it.
    pub(super) fn take(path: &Path) -> Result<Self, JournalError> {
        let failed = |cause| JournalError::system(path, "lock", &cause);
        let lock = beside(path, "-lock");
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(lock)
            .map_err(failed)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut text = String::new();
                // Whoever has the lock may not have said so yet.
                let pid =
                    file.read_to_string(&mut text).ok().and_then(|_| text.trim().parse().ok());
                return Err(JournalError::InUse { path: path.to_owned(), pid });
            }
            Err(TryLockError::Error(cause)) => return Err(failed(cause)),
        }
        file.set_len(0).map_err(failed)?;
        file.rewind().map_err(failed)?;
        writeln!(file, "{}", std::process::id()).map_err(failed)?;
        Ok(Self(file))
    }
}
