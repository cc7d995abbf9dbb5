//! Reading a journal without writing to it, be it in use or not.

use std::path::{Path, PathBuf};

use rusqlite::{Connection, OpenFlags};
use tenure_core::fact::Entry;
use tenure_core::journal::Row;

use super::disk::{Disk, SystemDisk};
use super::rows::{Tip, beside, scan};
use super::schema;
use super::{Damage, Head, JournalError, Owner};

/// How many facts are read at a time. A reader that held one view of the file for long would keep the
/// log of the writer from being emptied.
const CHUNK: u64 = 10_000;

/// A journal that is open for reading alone. The actor may go on writing it.
#[derive(Debug)]
pub struct Reader {
    path: PathBuf,
    connection: Connection,
    owner: Owner,
}

impl Reader {
    /// Opens the journal at `path`, whosever it is.
    pub fn open(path: &Path) -> Result<Self, JournalError> {
        Self::open_on(&SystemDisk, path)
    }

    /// As [`open`](Self::open), on a disk of the caller's.
    pub fn open_on(disk: &dyn Disk, path: &Path) -> Result<Self, JournalError> {
        schema::look_for_log(disk, path)?;
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY;
        let failed = |cause| JournalError::sqlite(path, "open", &cause);
        let opened = schema::connect(path, flags, disk.vfs())
            .map_err(failed)
            .and_then(|connection| Self::of(path, connection));
        // A journal that was closed can be read where not even an empty log can be made.
        opened.or_else(|error| match disk.exists(&beside(path, "-wal")) {
            Ok(false) if error.is_of_the_disk() => {
                let alone = schema::connect_to_file_alone(path, disk.vfs()).map_err(failed)?;
                Self::of(path, alone)
            }
            _ => Err(error),
        })
    }

    fn of(path: &Path, connection: Connection) -> Result<Self, JournalError> {
        if schema::format_of(path, &connection)? == 0 {
            return Err(JournalError::NotAJournal(path.to_owned()));
        }
        let owner = schema::owner_of(path, &connection)?;
        Ok(Self { path: path.to_owned(), connection, owner })
    }

    /// Whose journal it is.
    pub fn owner(&self) -> &Owner {
        &self.owner
    }

    /// Reads all facts that are there when it comes to its end, in order, checking each. Answers where
    /// they end.
    pub fn read(
        &self,
        mut each: impl FnMut(u64, Entry) -> Result<(), JournalError>,
    ) -> Result<Head, JournalError> {
        self.read_rows(|position, row| {
            let damaged = |cause| JournalError::damaged(&self.path, position, Damage::from(cause));
            each(position, row.decode().map_err(damaged)?)
        })
    }

    /// As [`read`](Self::read), with the facts as they are stored.
    pub fn read_rows(
        &self,
        mut each: impl FnMut(u64, &Row<'_>) -> Result<(), JournalError>,
    ) -> Result<Head, JournalError> {
        let mut tip = Tip::default();
        // What was noted is older than what is read next, so the facts that it counts are there.
        let mark = schema::mark_of(&self.path, &self.connection)?;
        while scan(&self.path, &self.connection, &mut tip, CHUNK, &mut each)? > 0 {}
        schema::compare(&self.path, &self.connection, &mark, tip.len)?;
        Ok(tip.head())
    }
}
