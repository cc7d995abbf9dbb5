//! Reading a journal without writing to it, be it in use or not.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, OpenFlags};

use tenure_core::driver::UnitId;
use tenure_core::model::identity::Scheme;
use tenure_core::model::slice::RequestId;
use tenure_core::model::verifier::Verifier;
use tenure_core::runtime::Entry;
use tenure_core::runtime::fact::KeysFact;
use tenure_core::runtime::journal::Row;

use super::about::{self, FailedStep, FailedUnits};
use super::archive::{self, SignSegment, SignedHead, Written};
use super::disk::{Disk, SystemDisk};
use super::requests;
use super::rows::{Source, Tip, beside, entries_at, scan};
use super::schema;
use super::snapshots::{self, Snapshot, Unfit};
use super::{Damage, Head, JournalError, Owner, Past};

/// How many facts are read at a time. A reader that held one view of the file for long would keep the
/// log of the writer from being emptied.
const CHUNK: u64 = 10_000;

/// How the file is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OpenMode {
    /// There is no log: the file is all there is.
    File,
    /// There is a log, and no process has the two open: they are read without a file that others would share.
    Pair,
    /// As any other process that has it open.
    Shared,
}

impl OpenMode {
    /// Chosen so that reading makes no new file: SQLite makes the log, and what its users share, if they
    /// are not there, and a connection that may not write never takes them away again.
    fn of(disk: &dyn Disk, path: &Path) -> Result<Self, JournalError> {
        let system = |cause| JournalError::system(path, "open", &cause);
        let exists = |ending| disk.exists(&beside(path, ending)).map_err(system);
        Ok(match (exists("-wal")?, exists("-shm")?) {
            (false, _) => Self::File,
            (true, false) if disk.vfs().is_none() => Self::Pair,
            (true, _) => Self::Shared,
        })
    }
}

/// A snapshot as it is found in a file: behind how many facts it is, and what it holds if it is sound.
pub type Found = (u64, Result<Snapshot, Unfit>);

/// A journal that is open for reading alone. The actor may continue writing it. No file is made or changed,
/// but for what those share who have the journal open.
pub struct Reader<'d> {
    disk: &'d dyn Disk,
    path: PathBuf,
    view: RefCell<(OpenMode, Connection)>,
    owner: Owner,
}

impl Reader<'static> {
    /// Opens the journal at `path`, whosever it is.
    pub fn open(path: &Path) -> Result<Self, JournalError> {
        Self::open_on(&SystemDisk, path)
    }
}

impl<'d> Reader<'d> {
    /// As [`open`](Reader::open), on a disk of the caller's.
    pub fn open_on(disk: &'d dyn Disk, path: &Path) -> Result<Self, JournalError> {
        let exists = disk.exists(path);
        if !exists.map_err(|cause| JournalError::system(path, "open", &cause))? {
            return Err(JournalError::Missing(path.to_owned()));
        }
        schema::look_for_log(disk, path)?;
        let (sight, connection) = look(disk, path)?;
        if schema::format_of(path, &connection)? == 0 {
            return Err(JournalError::NotAJournal(path.to_owned()));
        }
        let owner = schema::owner_of(path, &connection)?;
        Ok(Self { disk, path: path.to_owned(), view: RefCell::new((sight, connection)), owner })
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

    /// As [`read`](Self::read), and checks the heads of the archive as well: that each follows from the one before
    /// it, and is signed by a key that the actor had at some time, as its facts have it. Answers the heads, too.
    pub fn verify(
        &self,
        mut each: impl FnMut(Entry),
    ) -> Result<(Head, Vec<SignedHead>), JournalError> {
        let mut keys = Verifier::new(Scheme::Ed25519);
        let head = self.read(|_, entry| {
            if let Some(KeysFact::Stated(statement)) = entry.fact.about_keys() {
                keys.keys_mut().state(statement.clone());
            }
            each(entry);
            Ok(())
        })?;
        let id = self.owner.id;
        let is_key = |signed: &SignedHead| keys.is_key_of(id, &signed.key);
        let (_, connection) = &*self.view.borrow();
        Ok((head, archive::check_heads(self.source(connection), id, is_key)?))
    }

    /// The snapshots in the file, newest first. The facts before them are not looked at.
    pub fn snapshots(&self) -> Result<Vec<Found>, JournalError> {
        loop {
            let found = snapshots_in(&self.path, &self.view.borrow().1);
            if !self.look_again()? {
                return found;
            }
        }
    }

    /// The facts about the newest request under an idempotency key: the request, then those by which it or
    /// a part of it came to nothing. Reads no other facts, and of these checks each row for itself.
    ///
    /// # Errors
    /// If they cannot be read, and in a journal of a format before 3.
    pub fn request(&self, key: &str) -> Result<Vec<Entry>, JournalError> {
        loop {
            let found = requests::under(self.source(&self.view.borrow().1), key);
            if !self.look_again()? {
                return found;
            }
        }
    }

    /// The facts about a request, in order, with their positions. Reads no other facts, and of these checks each
    /// row for itself. Facts of another request may be among them, if hashes begin with the same eight bytes.
    ///
    /// # Errors
    /// If they cannot be read, and in a journal of a format before 4.
    pub fn about(&self, request: RequestId) -> Result<Vec<(u64, Entry)>, JournalError> {
        loop {
            let whose = (self.owner.id, request);
            let found = about::under(self.source(&self.view.borrow().1), whose);
            if !self.look_again()? {
                return found;
            }
        }
    }

    /// The units of a site whose last step failed.
    ///
    /// # Errors
    /// As of [`about`](Self::about).
    pub(crate) fn failed_steps(
        &self,
        which: FailedUnits<'_>,
    ) -> Result<BTreeMap<UnitId, FailedStep>, JournalError> {
        loop {
            let found = about::failed(self.source(&self.view.borrow().1), which);
            if !self.look_again()? {
                return found;
            }
        }
    }

    /// So many facts from a position on. Reads no other facts, and of these checks each row for itself.
    ///
    /// # Errors
    /// If they cannot be read, or are not there.
    pub fn facts(&self, first: u64, count: u64) -> Result<Vec<Entry>, JournalError> {
        loop {
            let positions = first..first.saturating_add(count);
            let found = entries_at(self.source(&self.view.borrow().1), positions);
            if !self.look_again()? {
                return found;
            }
        }
    }

    /// Has `past` take the newest snapshot that fits and the facts behind it. Nobody may write the journal
    /// meanwhile.
    ///
    /// # Errors
    /// What is wrong with the journal.
    pub fn recall(&self, past: &mut dyn Past) -> Result<(), JournalError> {
        self.resume(past, || false).map(drop)
    }

    /// Has `past` take the newest snapshot that fits and the facts behind it, of a journal that is open for
    /// writing. Answers where they end; nothing if it was stopped on the way.
    pub(super) fn resume(
        &self,
        past: &mut dyn Past,
        stop: impl Fn() -> bool,
    ) -> Result<Option<Tip>, JournalError> {
        let (path, (_, connection)) = (&self.path, &*self.view.borrow());
        let mut tip = snapshots::resume(path, connection, past)?;
        let mut each = |position, row: &Row<'_>| {
            let damaged = |cause| JournalError::damaged(path, position, Damage::from(cause));
            let entry = row.decode().map_err(damaged)?;
            past.apply(&entry).map_err(|cause| JournalError::refused(path, position, cause))
        };
        while !stop() {
            if scan(self.source(connection), &mut tip, CHUNK, &mut each)? == 0 {
                return Ok(Some(tip));
            }
        }
        Ok(None)
    }

    /// As [`read`](Self::read), with the facts as they are stored.
    pub fn read_rows(
        &self,
        mut each: impl FnMut(u64, &Row<'_>) -> Result<(), JournalError>,
    ) -> Result<Head, JournalError> {
        let (mut tip, path, stopped) = (Tip::default(), &self.path, Cell::new(false));
        let mut each =
            |position, row: &Row<'_>| each(position, row).inspect_err(|_| stopped.set(true));
        loop {
            let read = {
                let (_, connection) = &*self.view.borrow();
                // What was noted is older than what is read next, so the facts that it counts are there.
                schema::mark_of(path, connection).and_then(|mark| {
                    let kept = snapshots::positions(path, connection)?;
                    while scan(self.source(connection), &mut tip, CHUNK, &mut each)? > 0 {}
                    schema::compare(path, connection, &mark, tip.len)?;
                    snapshots::none_beyond(path, connection, &kept, tip.len)
                })
            };
            // Every fact so far went on from the one before, so the next read continues from there.
            if stopped.get() || !self.look_again()? {
                return read.map(|()| tip.head());
            }
        }
    }

    /// Writes the next segment of the archive, if facts can be archived and the actor can sign. The writer has to
    /// note it.
    pub(super) fn write_segment(
        &self,
        signer: &dyn SignSegment,
    ) -> Result<Option<Written>, JournalError> {
        archive::write_next(self.source(&self.view.borrow().1), signer)
    }

    fn source<'a>(&'a self, connection: &'a Connection) -> Source<'a> {
        Source { disk: self.disk, path: &self.path, connection }
    }

    /// Rereads if another process has opened the journal for writing since: what was seen may have been
    /// changed in the meantime. Answers whether it did.
    fn look_again(&self) -> Result<bool, JournalError> {
        let mut view = self.view.borrow_mut();
        if view.0 == OpenMode::Shared || OpenMode::of(self.disk, &self.path)? == view.0 {
            return Ok(false);
        }
        *view = look(self.disk, &self.path)?;
        Ok(true)
    }
}

/// All snapshots in one view of the file: its writer may let go of one of them in the meantime.
fn snapshots_in(path: &Path, connection: &Connection) -> Result<Vec<Found>, JournalError> {
    let view = connection.unchecked_transaction();
    let view = view.map_err(|cause| JournalError::sqlite(path, "read", &cause))?;
    let positions = snapshots::positions(path, &view)?.into_iter();
    positions.map(|at| Ok((at, snapshots::load(path, &view, at)?))).collect()
}

/// Opens a journal as it is found.
pub(super) fn look(disk: &dyn Disk, path: &Path) -> Result<(OpenMode, Connection), JournalError> {
    let sight = OpenMode::of(disk, path)?;
    let connection = match sight {
        OpenMode::File => schema::connect_to_file_alone(path, disk.vfs()),
        OpenMode::Pair => schema::connect_to_pair(path),
        OpenMode::Shared => schema::connect(path, OpenFlags::SQLITE_OPEN_READ_ONLY, disk.vfs()),
    };
    connection
        .map(|connection| (sight, connection))
        .map_err(|cause| JournalError::sqlite(path, "open", &cause))
}

impl fmt::Debug for Reader<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reader").field("path", &self.path).field("owner", &self.owner).finish()
    }
}
