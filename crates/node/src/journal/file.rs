//! A journal that is open for writing.

use std::ops::Range;
use std::path::{Path, PathBuf};

use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags, Transaction, TransactionBehavior, params};
use tenure_core::actor::fact::BadFact;
use tenure_core::actor::watermark::{PeerWatermark, Watermarks};
use tenure_core::model::codec::Hash;
use tenure_core::model::identity::ActorId;
use tenure_core::runtime::Entry;
use tenure_core::runtime::journal::{AppendError, Row};
use tracing::warn;

use super::archive::{self, SignSegment, Written};
use super::disk::{Disk, SystemDisk};
use super::rows::{Source, Tip, beside, checksum, scan_ahead, scan_all};
use super::schema::{self, Log, Mark};
use super::snapshots::{self, Snapshot};
use super::watermarks;
use super::writer::Writer;
use super::{Damage, Head, JournalError, Owner, Past, Snapshots};
use super::{about, requests};
use crate::lock::{Lock, LockError};

/// What a commit costs in the log beside the facts: the pages that it changes only in part.
const COMMIT_OVERHEAD: u64 = 3 * 4096;

/// What fails when facts are not archived.
const ARCHIVE: &str = "archive facts of";

/// How many pages are given back in a transaction.
const SHRINK_BY: u64 = 256;

/// One actor's journal, open for writing: one connection, one lock.
///
/// After the first error of [`append`](Self::append) nothing can be appended any more, and nothing is
/// tried again: a failed sync may have lost what it did not write, so that only reopening the file
/// shows what it holds.
#[derive(Debug)]
pub struct JournalFile {
    path: PathBuf,
    connection: Connection,
    tip: Tip,
    /// Behind how many facts the newest snapshot is that is good for something.
    kept: u64,
    /// Which facts the archive has, and which it may have.
    archivable: Range<u64>,
    /// Why nothing more may be appended.
    broken: Option<AppendError>,
    /// About how much is in the write-ahead log.
    logged: u64,
    /// When that is enough for a checkpoint.
    log_room: u64,
    /// What was last noted about it.
    log: Log,
    /// The last field, so that it is dropped after the connection.
    _lock: Lock,
}

/// A journal that is being opened: locked, of this actor, not yet read.
struct Opening {
    connection: Connection,
    mark: Mark,
    lock: Lock,
}

impl Opening {
    fn of(disk: &dyn Disk, path: &Path, owner: &Owner) -> Result<Self, JournalError> {
        let lock = Lock::take(&beside(path, "-lock")).map_err(|error| match error {
            LockError::Held(holder) => JournalError::InUse { path: path.to_owned(), holder },
            LockError::System(cause) => JournalError::system(path, "lock", &cause),
        })?;
        schema::look_for_log(disk, path)?;
        let system = |action| move |cause| JournalError::system(path, action, &cause);
        disk.rewrite(&beside(path, "-wal")).map_err(system("write the log of"))?;
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE;
        let sqlite = |action| move |cause| JournalError::sqlite(path, action, &cause);
        let mut connection = schema::connect(path, flags, disk.vfs()).map_err(sqlite("open"))?;
        if schema::format_of(path, &connection)? < schema::newest() {
            schema::migrate(disk, path, &mut connection, owner)?;
            disk.keep(path).map_err(system("write the folder of"))?;
        }
        schema::prepare_to_write(&connection).map_err(sqlite("write"))?;
        let found = schema::owner_of(path, &connection)?;
        if found != *owner {
            let (found, expected) = (Box::new(found), Box::new(owner.clone()));
            return Err(JournalError::Foreign { path: path.to_owned(), found, expected });
        }
        let mark = schema::mark_of(path, &connection)?;
        Ok(Self { connection, mark, lock })
    }

    /// All has been read: the facts that were there must be there, and those that are must be durable.
    fn end(
        self,
        disk: &dyn Disk,
        path: &Path,
        tip: Tip,
        kept: u64,
    ) -> Result<JournalFile, JournalError> {
        let Self { connection, mark, lock } = self;
        schema::compare(path, &connection, &mark, tip.len)?;
        let failed = |cause| JournalError::sqlite(path, "write", &cause);
        let archivable = archive::archivable(path, &connection)?;
        let mut file = JournalFile {
            path: path.to_owned(),
            connection,
            tip,
            kept,
            archivable,
            broken: None,
            logged: 0,
            log_room: disk.log_room(),
            log: mark.log,
            _lock: lock,
        };
        file.settle(Log::Begins).map_err(failed)?;
        file.mark(Log::Read).map_err(failed)?;
        file.make_shrinkable();
        Ok(file)
    }
}

impl JournalFile {
    /// Opens the journal at `path`, or makes it if it is not there, and checks every fact in it.
    pub fn open(path: &Path, owner: &Owner) -> Result<Self, JournalError> {
        Self::open_on(&SystemDisk, path, owner, |connection, tip| {
            let source = Source { disk: &SystemDisk, path, connection };
            scan_all(source, tip, &mut |_, _| Ok(()))
        })
    }

    /// As [`open`](Self::open), handing each fact to `each` as it is read: an actor comes back in one
    /// pass. Nothing may leave the actor before this has returned, since only then everything that was
    /// read is sure to be durable.
    pub fn recover(
        path: &Path,
        owner: &Owner,
        each: impl FnMut(&Entry) -> Result<(), BadFact>,
    ) -> Result<Self, JournalError> {
        Self::recover_on(&SystemDisk, path, owner, each)
    }

    /// As [`recover`](Self::recover), on a disk of the caller's.
    pub fn recover_on(
        disk: &dyn Disk,
        path: &Path,
        owner: &Owner,
        mut each: impl FnMut(&Entry) -> Result<(), BadFact>,
    ) -> Result<Self, JournalError> {
        Self::open_on(disk, path, owner, |connection, tip| {
            scan_ahead(disk, path, connection, tip, &mut |position, entry| {
                each(entry).map_err(|cause| JournalError::refused(path, position, cause))
            })
        })
    }

    /// Opens a journal all of whose facts `read` reads.
    fn open_on(
        disk: &dyn Disk,
        path: &Path,
        owner: &Owner,
        read: impl FnOnce(&mut Connection, &mut Tip) -> Result<(), JournalError>,
    ) -> Result<Self, JournalError> {
        let mut opening = Opening::of(disk, path, owner)?;
        let mut tip = Tip::default();
        read(&mut opening.connection, &mut tip)?;
        let kept = snapshots::positions(path, &opening.connection)?;
        snapshots::none_beyond(path, &opening.connection, &kept, tip.len)?;
        opening.end(disk, path, tip, 0)
    }

    /// Opens the journal at `path`, or makes it if it is not there, and brings an actor back: from the newest
    /// snapshot that fits, if there is one, and the facts behind it. Those before it are not read. A
    /// snapshot that does not fit is named in the log, and nothing is lost by it.
    ///
    /// Nothing may leave the actor before this has returned, as with [`recover`](Self::recover).
    pub fn resume(path: &Path, owner: &Owner, past: &mut dyn Past) -> Result<Self, JournalError> {
        Self::resume_on(&SystemDisk, path, owner, past)
    }

    /// As [`resume`](Self::resume), on a disk of the caller's.
    pub fn resume_on(
        disk: &dyn Disk,
        path: &Path,
        owner: &Owner,
        past: &mut dyn Past,
    ) -> Result<Self, JournalError> {
        let mut opening = Opening::of(disk, path, owner)?;
        let mut tip = snapshots::resume(path, &opening.connection, past)?;
        let kept = tip.len;
        scan_ahead(disk, path, &mut opening.connection, &mut tip, &mut |position, entry| {
            past.apply(entry).map_err(|cause| JournalError::refused(path, position, cause))
        })?;
        opening.end(disk, path, tip, kept)
    }

    /// Position of the snapshot that an opening would start from; 0 if there is none.
    pub fn kept(&self) -> u64 {
        self.kept
    }

    /// How many bytes of a snapshot are written at a time.
    pub(super) fn piece_size(&self) -> usize {
        usize::try_from(self.log_room / 16).unwrap_or(usize::MAX).max(1)
    }

    /// Stores the actor's state after all facts, so that the next opening continues from it.
    ///
    /// # Errors
    /// If it cannot be written. Where the disk is full nothing else is lost by that; after any other error
    /// nothing more can be appended.
    pub fn keep(&mut self, state: Vec<u8>) -> Result<(), JournalError> {
        let snapshot = Snapshot::new(self.tip.clone(), state);
        for number in 0..snapshot.pieces(self.piece_size()) {
            self.write_piece(&snapshot, number)?;
            self.checkpoint_if_due();
        }
        self.seal(&snapshot)
    }

    /// Writes one piece of a snapshot.
    pub(super) fn write_piece(
        &mut self,
        snapshot: &Snapshot,
        number: usize,
    ) -> Result<(), JournalError> {
        let size = self.piece_size();
        self.transact_for(snapshot, |change| snapshots::write_piece(change, snapshot, number, size))
    }

    /// Makes a snapshot count whose pieces are all written.
    pub(super) fn seal(&mut self, snapshot: &Snapshot) -> Result<(), JournalError> {
        let size = self.piece_size();
        self.transact_for(snapshot, |change| snapshots::seal(change, snapshot, size))?;
        self.kept = self.kept.max(snapshot.head().len);
        self.archivable = archive::archivable(&self.path, &self.connection)?;
        Ok(())
    }

    /// The positions of the facts that can be moved to the archive.
    pub(super) fn archivable(&self) -> Range<u64> {
        self.archivable.clone()
    }

    /// Moves facts before the oldest snapshot to the archive, as many as there are, in segments that `signer`
    /// signs.
    ///
    /// # Errors
    /// If a segment cannot be written or noted. Nothing is lost by that: each fact is in the live file or in
    /// the archive.
    pub fn archive(
        &mut self,
        disk: &dyn Disk,
        signer: &dyn SignSegment,
    ) -> Result<(), JournalError> {
        let next = |file: &Self| {
            let source = Source { disk, path: &file.path, connection: &file.connection };
            archive::write_next(source, signer)
        };
        while let Some(written) = next(self)? {
            self.note_segment(&written)?;
            self.checkpoint_if_due();
        }
        while self.shrink()? {
            self.checkpoint_if_due();
        }
        Ok(())
    }

    /// Notes a segment whose file is durable, and removes its facts.
    pub(super) fn note_segment(&mut self, written: &Written) -> Result<(), JournalError> {
        self.check(ARCHIVE)?;
        let done = self.transact(|change, tip| {
            let bytes = archive::note(change, written)?;
            // What was marked last may be among the facts that are gone.
            schema::set_head(change, tip.head())?;
            Ok(bytes)
        });
        done.map_err(|cause| self.not_archived(&cause))?;
        self.archivable.start = written.signed.head.last + 1;
        Ok(())
    }

    /// Gives some of the file's free pages back to the disk, if they are many. Answers whether they still are.
    pub(super) fn shrink(&mut self) -> Result<bool, JournalError> {
        self.check(ARCHIVE)?;
        let shrunk = match schema::has_pages_to_give(&self.connection) {
            Ok(true) => {
                self.transact(|change, _| schema::give_back_pages(change, SHRINK_BY)).map(|()| true)
            }
            other => other,
        };
        shrunk.map_err(|cause| self.not_archived(&cause))
    }

    /// A full disk ends the archiving and not the journal: SQLite has taken back what it could not write.
    fn not_archived(&mut self, cause: &rusqlite::Error) -> JournalError {
        if !is_full(cause) {
            self.break_off(cause);
        }
        JournalError::sqlite(&self.path, ARCHIVE, cause)
    }

    /// Rewrites a file of a format that could not give pages back, once most of it is free.
    fn make_shrinkable(&self) {
        if let Err(cause) = schema::make_shrinkable(&self.connection) {
            warn!(journal = %self.path.display(), %cause, "the file of a journal was not made smaller");
        }
    }

    /// A transaction for a snapshot. A full disk ends that and not the journal: SQLite has taken back what it
    /// could not write.
    fn transact_for(
        &mut self,
        snapshot: &Snapshot,
        work: impl FnOnce(&Transaction<'_>) -> Result<u64, rusqlite::Error>,
    ) -> Result<(), JournalError> {
        let action = "write a snapshot into";
        self.check(action)?;
        let Err(cause) = self.transact(|change, _| work(change)) else { return Ok(()) };
        let error = JournalError::sqlite(&self.path, action, &cause);
        if matches!(error, JournalError::DiskFull { .. }) {
            let drop_pieces = |change: &Transaction<'_>| snapshots::drop_pieces(change, snapshot);
            match self.transact(|change, _| drop_pieces(change)) {
                Err(cause) if !is_full(&cause) => self.break_off(&cause),
                Ok(()) | Err(_) => {}
            }
        } else {
            self.break_off(&cause);
        }
        Err(error)
    }

    /// The last words of the actor's peers, as they were kept.
    ///
    /// # Errors
    /// If they cannot be read.
    pub fn watermarks(&self) -> Result<Watermarks, JournalError> {
        let failed = |cause| JournalError::reading(&self.path, 0, &cause);
        watermarks::read(&self.connection).map_err(failed)
    }

    /// Keeps words of the actor's peers. They are of use and not needed: on a full disk they are not kept.
    pub(super) fn save_watermarks(&mut self, watermarks: &[(ActorId, PeerWatermark)]) {
        if self.broken.is_some() {
            return;
        }
        match self.transact(|change, _| watermarks::write(change, watermarks)) {
            Err(cause) if !is_full(&cause) => self.break_off(&cause),
            Ok(()) | Err(_) => {}
        }
    }

    /// Fails if nothing more may be written.
    fn check(&self, action: &'static str) -> Result<(), JournalError> {
        let Some(broken) = &self.broken else { return Ok(()) };
        let (path, cause) = (self.path.clone(), broken.to_string());
        Err(JournalError::Failed { path, action, cause })
    }

    /// Nothing more may be appended.
    fn break_off(&mut self, cause: &rusqlite::Error) {
        let error = JournalError::sqlite(&self.path, "append to", cause);
        self.broken = Some(error.of_append());
    }

    /// Reads the facts from `from` on, in order, checking each.
    pub fn read(
        &self,
        from: u64,
        mut each: impl FnMut(u64, Entry) -> Result<(), JournalError>,
    ) -> Result<(), JournalError> {
        let source = Source { disk: &SystemDisk, path: &self.path, connection: &self.connection };
        scan_all(source, &mut Tip::default(), &mut |at, row| {
            if at < from {
                return Ok(());
            }
            let entry = row
                .decode()
                .map_err(|cause| JournalError::damaged(&self.path, at, Damage::from(cause)))?;
            each(at, entry)
        })
    }

    /// The number of facts.
    pub fn len(&self) -> u64 {
        self.tip.len
    }

    /// Whether it holds nothing.
    pub fn is_empty(&self) -> bool {
        self.tip.len == 0
    }

    /// The hash of all facts, the same as of a journal in memory that holds them.
    pub fn hash(&self) -> Hash {
        self.tip.head().hash
    }

    /// Where it ends.
    pub fn head(&self) -> Head {
        self.tip.head()
    }

    /// Makes the facts durable at `expected`, all or none. On `Ok` they survive any crash.
    pub fn append(&mut self, expected: u64, entries: &[Entry]) -> Result<(), AppendError> {
        self.append_all(&[(expected, entries)])?;
        self.checkpoint_if_due();
        Ok(())
    }

    /// As [`append`](Self::append) for several appends in one transaction; all of them or none.
    pub(super) fn append_all(&mut self, parts: &[(u64, &[Entry])]) -> Result<(), AppendError> {
        if let Some(broken) = &self.broken {
            return Err(broken.clone());
        }
        let mut expected = self.tip.len;
        for (position, entries) in parts {
            if *position != expected {
                return Err(self.fence(*position, expected));
            }
            expected += entries.len() as u64;
        }
        let before = self.tip.clone();
        self.write(parts).map_err(|cause| {
            self.tip = before;
            let why = JournalError::sqlite(&self.path, "append to", &cause);
            self.broken.insert(why.of_append()).clone()
        })
    }

    fn fence(&mut self, expected: u64, found: u64) -> AppendError {
        self.broken.insert(AppendError::Fenced { expected, found }).clone()
    }

    fn write(&mut self, parts: &[(u64, &[Entry])]) -> Result<(), rusqlite::Error> {
        self.transact(|transaction, tip| {
            let (mut body, mut bytes) = (Vec::new(), 0);
            let mut insert = transaction.prepare_cached(
                "INSERT INTO fact (position, time, kind, version, body, checksum, hash) \
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
            )?;
            for entry in parts.iter().flat_map(|(_, entries)| *entries) {
                body.clear();
                entry.fact.encode_into(&mut body);
                let (kind, version) = entry.fact.kind();
                let row = Row { at: entry.at, kind, version, body: &body };
                let position = tip.len;
                let sum = checksum(position, &row);
                let hash = tip.add(&row).to_bytes();
                let at = row.at.as_micros();
                insert.execute(params![position as i64, at, kind, version, body, sum, hash])?;
                bytes += requests::enter(transaction, position, &entry.fact)?;
                bytes += about::enter(transaction, position, &entry.fact)?;
                bytes += (body.len() + kind.len() + hash.len()) as u64;
            }
            Ok(bytes)
        })
    }

    /// Makes a change durable, which answers how many bytes it brings.
    fn transact(
        &mut self,
        work: impl FnOnce(&Transaction<'_>, &mut Tip) -> Result<u64, rusqlite::Error>,
    ) -> Result<(), rusqlite::Error> {
        let behavior = TransactionBehavior::Immediate;
        let transaction = self.connection.transaction_with_behavior(behavior)?;
        self.logged += work(&transaction, &mut self.tip)? + COMMIT_OVERHEAD;
        let log = if self.logged >= self.log_room { Log::Begins } else { Log::Read };
        if log != self.log {
            schema::set_mark(&transaction, &Mark { log, head: self.tip.head() })?;
        }
        transaction.commit()?;
        self.log = log;
        Ok(())
    }

    /// Copies the log into the journal if there is enough of it. What was appended is durable already;
    /// if this fails, nothing more can be appended.
    pub(super) fn checkpoint_if_due(&mut self) {
        if self.logged < self.log_room || self.broken.is_some() {
            return;
        }
        // A reader may be in the way; then the log grows until the next time.
        match self.checkpoint("PASSIVE") {
            Ok(()) => self.logged = 0,
            Err(cause) => {
                let why = JournalError::sqlite(&self.path, "checkpoint", &cause);
                self.broken = Some(why.of_append());
            }
        }
    }

    fn checkpoint(&self, how: &str) -> Result<(), rusqlite::Error> {
        let sql = format!("PRAGMA wal_checkpoint({how})");
        self.connection.query_row(&sql, [], |_| Ok(()))
    }

    /// Notes where the journal ends.
    fn mark(&mut self, log: Log) -> Result<(), rusqlite::Error> {
        let transaction =
            self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        schema::set_mark(&transaction, &Mark { log, head: self.tip.head() })?;
        transaction.commit()?;
        self.log = log;
        Ok(())
    }

    /// Notes where the journal ends, and brings all that is in the log into the journal.
    fn settle(&mut self, log: Log) -> Result<(), rusqlite::Error> {
        self.mark(log)?;
        self.logged = 0;
        self.checkpoint("TRUNCATE")
    }

    /// Closes the journal, so that it is one file again, and gives back the lock.
    pub fn close(mut self) -> Result<(), JournalError> {
        self.check("close")?;
        let path = self.path.clone();
        let failed = |cause| JournalError::sqlite(&path, "close", &cause);
        self.settle(Log::Closed).map_err(failed)?;
        // The log is empty: SQLite may take it away.
        let keep = DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE;
        self.connection.set_db_config(keep, false).map_err(failed)?;
        self.connection.close().map_err(|(_, cause)| failed(cause))
    }

    /// Closes the journal with a snapshot of the actor's state behind all facts, unless there is one, so that
    /// the next opening reads no facts. A full disk costs the snapshot and nothing else.
    pub fn close_with(mut self, state: impl FnOnce() -> Vec<u8>) -> Result<(), JournalError> {
        if self.broken.is_none() && self.kept < self.tip.len {
            match self.keep(state()) {
                Err(error @ JournalError::DiskFull { .. }) => {
                    warn!(journal = %self.path.display(), %error, "closed without a snapshot");
                }
                kept => kept?,
            }
        }
        self.close()
    }

    /// Moves the journal to a thread of its own.
    pub fn into_writer(self) -> Result<Writer, JournalError> {
        Writer::start(self, None)
    }

    /// As [`into_writer`](Self::into_writer), with snapshots taken behind the actor's back.
    pub fn into_writer_with(self, snapshots: Snapshots) -> Result<Writer, JournalError> {
        Writer::start(self, Some(snapshots))
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

fn is_full(cause: &rusqlite::Error) -> bool {
    cause.sqlite_error_code() == Some(ErrorCode::DiskFull)
}
