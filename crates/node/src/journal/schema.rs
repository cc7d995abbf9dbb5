//! The tables of a journal, how a connection to it is set up, and whose it is.

use std::path::Path;
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags, OptionalExtension as _, TransactionBehavior, params};
use tenure_core::actor::Role;
use tenure_core::model::codec::{self, Hash};
use tenure_core::model::identity::ActorId;
use tenure_core::model::name::Name;

use super::disk::Disk;
use super::rows::{Source, beside};
use super::{Damage, Head, JournalError, Owner, about, requests};

/// `TNRJ`, by which a file is known to be a journal.
pub(super) const APPLICATION_ID: i64 = 0x544e_524a;

/// One step for each format: the first makes it, each later one lifts a file of the one before.
const MIGRATIONS: &[&str] = &[
    "
    CREATE TABLE owner (
        one INTEGER PRIMARY KEY CHECK (one = 1),
        name TEXT NOT NULL,
        role TEXT NOT NULL,
        id BLOB NOT NULL
    ) STRICT;
    CREATE TABLE mark (
        one INTEGER PRIMARY KEY CHECK (one = 1),
        log INTEGER NOT NULL,
        len INTEGER NOT NULL,
        hash BLOB NOT NULL
    ) STRICT;
    CREATE TABLE fact (
        position INTEGER PRIMARY KEY,
        time INTEGER NOT NULL,
        kind TEXT NOT NULL,
        version INTEGER NOT NULL,
        body BLOB NOT NULL,
        checksum INTEGER NOT NULL,
        hash BLOB NOT NULL
    ) STRICT;
",
    "
    CREATE TABLE snapshot (
        position INTEGER PRIMARY KEY,
        hash BLOB NOT NULL,
        hasher BLOB NOT NULL,
        state BLOB NOT NULL,
        length INTEGER NOT NULL,
        checksum INTEGER NOT NULL
    ) STRICT;
    CREATE TABLE piece (
        position INTEGER NOT NULL,
        number INTEGER NOT NULL,
        body BLOB NOT NULL,
        PRIMARY KEY (position, number)
    ) STRICT;
    CREATE TABLE word (
        peer BLOB PRIMARY KEY,
        sealed BLOB NOT NULL
    ) STRICT;
",
    "
    CREATE TABLE request (
        key TEXT NOT NULL,
        number INTEGER NOT NULL,
        position INTEGER NOT NULL,
        PRIMARY KEY (key, number, position)
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX request_number ON request (number);
",
    "
    CREATE TABLE about (
        number INTEGER NOT NULL,
        origin INTEGER NOT NULL,
        position INTEGER NOT NULL,
        PRIMARY KEY (number, origin, position)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE lease (
        head INTEGER PRIMARY KEY,
        number INTEGER NOT NULL,
        origin INTEGER NOT NULL
    ) STRICT;
    CREATE TABLE unit (
        unit INTEGER PRIMARY KEY,
        lease INTEGER,
        failed INTEGER,
        times INTEGER NOT NULL
    ) STRICT;
",
    "
    CREATE TABLE segment (
        number INTEGER PRIMARY KEY,
        first INTEGER NOT NULL,
        last INTEGER NOT NULL,
        head BLOB NOT NULL,
        hash BLOB NOT NULL,
        hasher BLOB NOT NULL
    ) STRICT;
",
];

/// How many statements stay prepared: more than there are.
const STATEMENTS: usize = 32;

/// How long to wait for a reader that is in the way of a checkpoint.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// How many free pages a file keeps for facts to come, however small it is.
const KEPT_FREE: u64 = 16;

/// With how many free pages a file is rewritten that cannot give them back.
const WORTH_REWRITING: u64 = 512;

/// The newest format.
pub(super) fn newest() -> i64 {
    MIGRATIONS.len() as i64
}

/// Connects to the file at `path`.
pub(super) fn connect(
    path: &Path,
    flags: OpenFlags,
    vfs: Option<&str>,
) -> Result<Connection, rusqlite::Error> {
    let flags = flags | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = match vfs {
        Some(vfs) => Connection::open_with_flags_and_vfs(path, flags, vfs)?,
        None => Connection::open_with_flags(path, flags)?,
    };
    connection.busy_timeout(BUSY_TIMEOUT)?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS);
    connection.pragma_update(None, "trusted_schema", false)?;
    connection.pragma_update(None, "cell_size_check", true)?;
    connection.pragma_update(None, "mmap_size", 0)?;
    // A connection that is dropped may have failed; what it leaves in the log stays there.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    Ok(connection)
}

/// Fails if facts went into a log of the journal at `path` and the log is gone. Leaves no trace: opened
/// in the usual way, an empty log would be made, which would then pass for the one that is gone.
pub(super) fn look_for_log(disk: &dyn Disk, path: &Path) -> Result<(), JournalError> {
    let log = beside(path, "-wal");
    let exists =
        |file| disk.exists(file).map_err(|cause| JournalError::system(path, "open", &cause));
    if exists(&log)? || !exists(path)? {
        return Ok(());
    }
    let begins = || {
        let connection = connect_to_file_alone(path, disk.vfs())
            .map_err(|cause| JournalError::sqlite(path, "open", &cause))?;
        Ok(format_of(path, &connection)? > 0 && mark_of(path, &connection)?.log == Log::Begins)
    };
    // A file that cannot be read in this way may be in the making; to say so is up to the real opening.
    match begins() {
        Ok(true) => Err(JournalError::LogGone { path: path.to_owned(), log }),
        Ok(false) | Err::<_, JournalError>(_) => Ok(()),
    }
}

/// Connects to the file at `path` as it is, without its log and without locks.
pub(super) fn connect_to_file_alone(
    path: &Path,
    vfs: Option<&str>,
) -> Result<Connection, rusqlite::Error> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI;
    let mut uri = String::from("file:");
    for byte in path.as_os_str().as_encoded_bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'-' | b'_' | b'.' => {
                uri.push(char::from(*byte));
            }
            other => uri.push_str(&format!("%{other:02x}")),
        }
    }
    uri.push_str("?immutable=1");
    connect(Path::new(&uri), flags, vfs)
}

/// Connects to a file and its log that no process has open: what would be in a file for all who share them is
/// kept in memory, and nothing is locked.
pub(super) fn connect_to_pair(path: &Path) -> Result<Connection, rusqlite::Error> {
    let connection = connect(path, OpenFlags::SQLITE_OPEN_READ_ONLY, Some("unix-none"))?;
    connection.pragma_update(None, "locking_mode", "EXCLUSIVE")?;
    Ok(connection)
}

/// Sets up the connection that writes. The checkpoints are the journal's own, between two commits.
pub(super) fn prepare_to_write(connection: &Connection) -> Result<(), rusqlite::Error> {
    let mut mode = String::new();
    let mut statement = connection.prepare("PRAGMA journal_mode = WAL")?;
    let mut rows = statement.query([])?;
    // Up to the end: the answer comes before the change is written, which may fail.
    while let Some(row) = rows.next()? {
        mode = row.get(0)?;
    }
    if mode != "wal" {
        return Err(rusqlite::Error::InvalidParameterName(format!("journal_mode is {mode}")));
    }
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection.pragma_update(None, "wal_autocheckpoint", 0)
}

/// Makes the tables in an empty file, or lifts those of an older format.
pub(super) fn migrate(
    disk: &dyn Disk,
    path: &Path,
    connection: &mut Connection,
    owner: &Owner,
) -> Result<(), JournalError> {
    let format = format_of(path, connection)?;
    let failed = |cause| JournalError::sqlite(path, "write", &cause);
    if format == 0 {
        connection.pragma_update(None, "auto_vacuum", "INCREMENTAL").map_err(failed)?;
    }
    let steps = usize::try_from(format).ok().and_then(|format| MIGRATIONS.get(format..));
    for (step, sql) in (format..).zip(steps.unwrap_or_default()) {
        let transaction =
            connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(failed)?;
        transaction.execute_batch(sql).map_err(failed)?;
        match step {
            0 => found(&transaction, owner).map_err(failed)?,
            2 => requests::enter_all(Source { disk, path, connection: &transaction })?,
            3 => about::enter_all(Source { disk, path, connection: &transaction })?,
            _ => {}
        }
        let end = || {
            transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
            transaction.pragma_update(None, "user_version", step + 1)?;
            transaction.commit()
        };
        end().map_err(failed)?;
    }
    Ok(())
}

/// Writes the first rows of a new journal.
fn found(connection: &Connection, owner: &Owner) -> Result<(), rusqlite::Error> {
    connection.execute(
        "INSERT INTO owner (one, name, role, id) VALUES (1, ?1, ?2, ?3)",
        params![owner.name.as_str(), owner.role.to_string(), codec::encode(&owner.id)],
    )?;
    let empty = tenure_core::runtime::journal::JournalHasher::default().finish();
    connection.execute(
        "INSERT INTO mark (one, log, len, hash) VALUES (1, 0, 0, ?1)",
        params![empty.to_bytes()],
    )?;
    Ok(())
}

/// The format of a file, 0 if it is empty; an error if it is no journal or too new.
pub(super) fn format_of(path: &Path, connection: &Connection) -> Result<i64, JournalError> {
    let number = |pragma| connection.pragma_query_value(None, pragma, |row| row.get::<_, i64>(0));
    let asked = || {
        let tables = "SELECT count(*) FROM sqlite_schema";
        let tables: i64 = connection.query_row(tables, [], |row| row.get(0))?;
        Ok((number("application_id")?, number("user_version")?, tables))
    };
    let (application, format, tables) =
        asked().map_err(|cause: rusqlite::Error| JournalError::reading(path, 0, &cause))?;
    match (application, format, tables) {
        (0, 0, 0) => Ok(0),
        (APPLICATION_ID, found, _) if found > newest() => {
            Err(JournalError::Newer { path: path.to_owned(), found, known: newest() })
        }
        (APPLICATION_ID, format, _) if format > 0 => Ok(format),
        _ => Err(JournalError::NotAJournal(path.to_owned())),
    }
}

/// Whose journal it is.
pub(super) fn owner_of(path: &Path, connection: &Connection) -> Result<Owner, JournalError> {
    let row = connection
        .query_row("SELECT name, role, id FROM owner WHERE one = 1", [], |row| {
            Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?, row.get::<_, Vec<u8>>(2)?))
        })
        .optional()
        .map_err(|cause| JournalError::reading(path, 0, &cause))?;
    let owner = row.and_then(|(name, role, id)| {
        let role = [Role::ServiceManager, Role::Broker, Role::SiteAuthority]
            .into_iter()
            .find(|known| known.to_string() == role)?;
        let id: ActorId = codec::decode(&id).ok()?;
        Some(Owner { name: Name::new(&name).ok()?, role, id })
    });
    owner.ok_or_else(|| JournalError::NotAJournal(path.to_owned()))
}

/// What is known about the write-ahead log. The word in the log itself is a later one than that in the
/// journal: so a log that another process copied into the journal is distinguished from a lost one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Log {
    /// The journal was closed: everything is in it.
    Closed = 0,
    /// From here on facts go into the log. Where this is the last word, the log must be there.
    Begins = 1,
    /// This is in the log: anyone who reads it has read the log.
    Read = 2,
}

/// What a journal says about itself.
pub(super) struct Mark {
    /// Where to look for what came after it.
    pub(super) log: Log,
    /// Where the journal ended at that time.
    pub(super) head: Head,
}

/// Reads the mark.
pub(super) fn mark_of(path: &Path, connection: &Connection) -> Result<Mark, JournalError> {
    let row = connection
        .query_row("SELECT log, len, hash FROM mark WHERE one = 1", [], |row| {
            Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?, row.get::<_, Vec<u8>>(2)?))
        })
        .optional()
        .map_err(|cause| JournalError::reading(path, 0, &cause))?;
    let mark = row.and_then(|(log, len, hash)| {
        let log = [Log::Closed, Log::Begins, Log::Read].into_iter().find(|l| *l as i64 == log)?;
        let hash = Hash::from_bytes(hash.try_into().ok()?);
        Some(Mark { log, head: Head { len: u64::try_from(len).ok()?, hash } })
    });
    mark.ok_or_else(|| JournalError::NotAJournal(path.to_owned()))
}

/// Writes the mark.
pub(super) fn set_mark(connection: &Connection, mark: &Mark) -> Result<(), rusqlite::Error> {
    connection
        .prepare_cached("UPDATE mark SET log = ?1, len = ?2, hash = ?3 WHERE one = 1")?
        .execute(params![mark.log as i64, mark.head.len as i64, mark.head.hash.to_bytes()])?;
    Ok(())
}

/// Writes where the journal ends into the mark, and leaves what it says about the log.
pub(super) fn set_head(connection: &Connection, head: Head) -> Result<(), rusqlite::Error> {
    connection
        .prepare_cached("UPDATE mark SET len = ?1, hash = ?2 WHERE one = 1")?
        .execute(params![head.len as i64, head.hash.to_bytes()])?;
    Ok(())
}

/// How many pages of a file are free, and how many there are.
fn free_pages(connection: &Connection) -> Result<(u64, u64), rusqlite::Error> {
    let number = |pragma| connection.pragma_query_value(None, pragma, |row| row.get::<_, i64>(0));
    Ok((number("freelist_count")? as u64, number("page_count")? as u64))
}

/// Whether a file can give pages back and has many.
pub(super) fn has_pages_to_give(connection: &Connection) -> Result<bool, rusqlite::Error> {
    let (free, all) = free_pages(connection)?;
    Ok(free > KEPT_FREE.max(all / 4) && can_give_back(connection)?)
}

/// Whether a file can give free pages back: one from before format 5 cannot.
fn can_give_back(connection: &Connection) -> Result<bool, rusqlite::Error> {
    connection.pragma_query_value(None, "auto_vacuum", |row| Ok(row.get::<_, i64>(0)? != 0))
}

/// Takes up to `most` free pages off the end of a file. Answers about how many bytes that brings.
pub(super) fn give_back_pages(connection: &Connection, most: u64) -> Result<u64, rusqlite::Error> {
    let mut statement = connection.prepare(&format!("PRAGMA incremental_vacuum({most})"))?;
    let mut rows = statement.query([])?;
    // One page with each step.
    while rows.next()?.is_some() {}
    Ok(most * 4096)
}

/// Rewrites a file from before format 5 that is mostly free, so that it is small and can give pages back.
pub(super) fn make_shrinkable(connection: &Connection) -> Result<(), rusqlite::Error> {
    let (free, all) = free_pages(connection)?;
    if free < WORTH_REWRITING || free < all / 2 || can_give_back(connection)? {
        return Ok(());
    }
    connection.execute_batch("PRAGMA auto_vacuum = INCREMENTAL; VACUUM")
}

/// Compares the facts that were read, `found` of them, with what was noted before: none may be gone.
pub(super) fn compare(
    path: &Path,
    connection: &Connection,
    mark: &Mark,
    found: u64,
) -> Result<(), JournalError> {
    let expected = mark.head.len;
    if found < expected {
        return Err(JournalError::CutShort { path: path.to_owned(), found, expected });
    }
    let Some(last) = expected.checked_sub(1) else { return Ok(()) };
    let hash: Option<Vec<u8>> = connection
        .query_row("SELECT hash FROM fact WHERE position = ?1", [last as i64], |row| row.get(0))
        .optional()
        .map_err(|cause| JournalError::reading(path, last, &cause))?;
    // Archived since it was noted, after more facts.
    let Some(hash) = hash else { return Ok(()) };
    if hash != mark.head.hash.to_bytes() {
        return Err(JournalError::damaged(path, last, Damage::Chain));
    }
    Ok(())
}
