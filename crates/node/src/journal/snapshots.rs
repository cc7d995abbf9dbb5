//! Snapshots in the file of a journal: written piece by piece, and believed only if everything about them
//! fits.

use std::path::Path;

use rusqlite::{Connection, ErrorCode, OptionalExtension as _, Transaction, params};
use tenure_core::actor::snapshot::{self, RestoreError};
use tenure_core::model::codec::{Hash, MAX_STATE_BYTES};
use tenure_core::model::time::Time;
use tenure_core::runtime::journal::JournalHasher;
use thiserror::Error;
use tracing::{info, warn};

use super::rows::{Tip, fact_at};
use super::{Head, JournalError, Past};

/// How many snapshots are kept: if the newest is damaged there is one before it.
const KEPT: u32 = 2;

/// The state of an actor behind a number of its facts.
#[derive(Clone, Debug)]
pub struct Snapshot {
    tip: Tip,
    /// The hash of the state.
    state: Hash,
    /// The state, as [`tenure_core::actor::Actor::snapshot`] has it.
    body: Vec<u8>,
    checksum: u32,
}

/// What is wrong with a snapshot. Such a snapshot is skipped; nothing is lost.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Unfit {
    /// A row of it is not what it should be, or a piece is missing.
    #[error("it is malformed: {0}")]
    Malformed(String),
    /// It is not what was written.
    #[error("it was changed: its checksum does not fit")]
    Checksum,
    /// It is whole, but not the state that it names.
    #[error("its state has another hash")]
    State,
    /// The facts before it are others than those it was made of.
    #[error("the journal has another hash there")]
    Journal,
    /// It is whole, but not what the facts before it give.
    #[error("folding the facts gives another state")]
    Fold,
    /// The actor does not take it.
    #[error(transparent)]
    Refused(#[from] RestoreError),
}

impl Snapshot {
    /// The snapshot behind all facts of `tip`.
    pub(super) fn new(tip: Tip, body: Vec<u8>) -> Self {
        let state = snapshot::hash(&body);
        let checksum = checksum(&tip, state, &body);
        Self { tip, state, body, checksum }
    }

    /// Behind how many facts it is, and the hash of those.
    pub fn head(&self) -> Head {
        self.tip.head()
    }

    /// The hash of the state.
    pub fn state(&self) -> Hash {
        self.state
    }

    /// The state.
    pub fn body(&self) -> &[u8] {
        &self.body
    }

    pub(super) fn into_tip(self) -> Tip {
        self.tip
    }

    /// How many pieces of that size it has.
    pub(super) fn pieces(&self, size: usize) -> usize {
        self.body.len().div_ceil(size)
    }
}

fn checksum(tip: &Tip, state: Hash, body: &[u8]) -> u32 {
    let head = tip.head();
    let parts: [&[u8]; 6] = [
        &head.len.to_le_bytes(),
        &head.hash.to_bytes(),
        &tip.saved(),
        &state.to_bytes(),
        &(body.len() as u64).to_le_bytes(),
        body,
    ];
    parts.iter().fold(0, |sum, part| crc32c::crc32c_append(sum, part))
}

/// Writes one piece of a snapshot, and takes away pieces of one that was never finished or is not kept.
/// Answers how many bytes were written.
pub(super) fn write_piece(
    transaction: &Transaction<'_>,
    snapshot: &Snapshot,
    number: usize,
    size: usize,
) -> Result<u64, rusqlite::Error> {
    let position = snapshot.tip.len as i64;
    let piece = snapshot.body.chunks(size).nth(number).unwrap_or_default();
    transaction
        .prepare_cached(
            "DELETE FROM piece WHERE rowid IN (SELECT rowid FROM piece WHERE position <> ?1 \
             AND position NOT IN (SELECT position FROM snapshot) LIMIT 2)",
        )?
        .execute([position])?;
    transaction
        .prepare_cached(
            "INSERT OR REPLACE INTO piece (position, number, body) VALUES (?1, ?2, ?3)",
        )?
        .execute(params![position, number as i64, piece])?;
    Ok(piece.len() as u64)
}

/// Makes a snapshot count whose pieces are all written, and lets go of the third newest.
pub(super) fn seal(
    transaction: &Transaction<'_>,
    snapshot: &Snapshot,
    size: usize,
) -> Result<u64, rusqlite::Error> {
    let Snapshot { tip, state, body, checksum } = snapshot;
    let Head { len, hash } = tip.head();
    transaction.execute(
        "DELETE FROM piece WHERE position = ?1 AND number >= ?2",
        params![len as i64, snapshot.pieces(size) as i64],
    )?;
    transaction.execute(
        "INSERT OR REPLACE INTO snapshot (position, hash, hasher, state, length, checksum) \
         VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
        params![
            len as i64,
            hash.to_bytes(),
            tip.saved(),
            state.to_bytes(),
            body.len() as i64,
            checksum
        ],
    )?;
    transaction.execute(
        "DELETE FROM snapshot WHERE position NOT IN \
         (SELECT position FROM snapshot ORDER BY position DESC LIMIT ?1)",
        [KEPT],
    )?;
    Ok(256)
}

/// Lets go of the pieces of a snapshot that will not be finished.
pub(super) fn drop_pieces(
    transaction: &Transaction<'_>,
    snapshot: &Snapshot,
) -> Result<u64, rusqlite::Error> {
    transaction.execute(
        "DELETE FROM piece WHERE position = ?1 \
         AND position NOT IN (SELECT position FROM snapshot)",
        [snapshot.tip.len as i64],
    )?;
    Ok(0)
}

/// Behind how many facts the snapshots are, newest first. None where the file has no room for them.
pub(super) fn positions(path: &Path, connection: &Connection) -> Result<Vec<u64>, JournalError> {
    let read = || {
        let table = "SELECT 1 FROM sqlite_schema WHERE name = 'snapshot'";
        if connection.query_row(table, [], |_| Ok(())).optional()?.is_none() {
            return Ok(Vec::new());
        }
        let mut statement =
            connection.prepare("SELECT position FROM snapshot ORDER BY position DESC")?;
        let rows = statement.query_map([], |row| row.get::<_, i64>(0))?;
        rows.map(|row| row.map(|position| u64::try_from(position).unwrap_or(0))).collect()
    };
    match read() {
        Err(cause) if is_damage(&cause) => {
            warn!(journal = %path.display(), %cause, "the list of snapshots cannot be read");
            Ok(Vec::new())
        }
        read => read.map_err(|cause| JournalError::sqlite(path, "read", &cause)),
    }
}

/// Reads the snapshot at `position` and checks everything about it but the facts before it.
pub(super) fn load(
    path: &Path,
    connection: &Connection,
    position: u64,
) -> Result<Result<Snapshot, Unfit>, JournalError> {
    match read(connection, position) {
        Ok(read) => Ok(read),
        Err(cause) if is_damage(&cause) => Ok(Err(Unfit::Malformed(cause.to_string()))),
        Err(cause) => Err(JournalError::sqlite(path, "read", &cause)),
    }
}

/// Whether what is in the file is to blame, and not the disk.
fn is_damage(cause: &rusqlite::Error) -> bool {
    cause.sqlite_error_code().is_none_or(|code| code == ErrorCode::DatabaseCorrupt)
}

fn read(
    connection: &Connection,
    position: u64,
) -> Result<Result<Snapshot, Unfit>, rusqlite::Error> {
    let sql = "SELECT hash, hasher, state, length, checksum FROM snapshot WHERE position = ?1";
    let (hash, hasher, state, length, expected) =
        connection.query_row(sql, [position as i64], |row| {
            Ok((
                row.get::<_, [u8; 32]>(0)?,
                row.get::<_, Vec<u8>>(1)?,
                row.get::<_, [u8; 32]>(2)?,
                row.get::<_, i64>(3)?,
                row.get::<_, u32>(4)?,
            ))
        })?;
    let malformed = |what: &str| Ok(Err(Unfit::Malformed(what.to_owned())));
    let Some(length) = usize::try_from(length).ok().filter(|length| *length <= MAX_STATE_BYTES)
    else {
        return malformed("its length cannot be");
    };
    let mut body = Vec::new();
    let sql = "SELECT body FROM piece WHERE position = ?1 ORDER BY number";
    let mut statement = connection.prepare(sql)?;
    let mut pieces = statement.query([position as i64])?;
    while let Some(piece) = pieces.next()? {
        body.extend_from_slice(piece.get_ref(0)?.as_blob()?);
        if body.len() > length {
            break;
        }
    }
    if body.len() != length {
        return malformed("its pieces are not what it has to be");
    }
    let Some(hasher) = JournalHasher::resume(&hasher, Hash::from_bytes(hash)) else {
        return malformed("its hash cannot be gone on from");
    };
    let (tip, named) = (Tip::at(position, hasher), Hash::from_bytes(state));
    if checksum(&tip, named, &body) != expected {
        return Ok(Err(Unfit::Checksum));
    }
    let snapshot = Snapshot::new(tip, body);
    Ok(if snapshot.state == named { Ok(snapshot) } else { Err(Unfit::State) })
}

/// Has `past` take the newest snapshot that fits, if one does; answers where to continue from. What is said
/// against the others is logged.
pub(super) fn resume(
    path: &Path,
    connection: &Connection,
    past: &mut dyn Past,
) -> Result<Tip, JournalError> {
    for position in positions(path, connection)? {
        let unfit = match load(path, connection, position)? {
            Err(unfit) => unfit,
            Ok(snapshot) => match place(path, connection, &snapshot)? {
                Err(unfit) => unfit,
                Ok(at) => match past.restore(snapshot.body(), position, at) {
                    Ok(()) => return Ok(snapshot.into_tip()),
                    Err(refused) => Unfit::Refused(refused),
                },
            },
        };
        let journal = path.display();
        if let Unfit::Refused(RestoreError::Settings | RestoreError::Version(_)) = unfit {
            info!(%journal, position, why = %unfit, "a snapshot is not used");
        } else {
            warn!(%journal, position, why = %unfit, "a snapshot is damaged and not used");
        }
    }
    Ok(Tip::default())
}

/// Compares a sound snapshot with the facts. One that is behind facts that are not there means that they
/// have been taken away. Answers when the last fact before it was made.
fn place(
    path: &Path,
    connection: &Connection,
    snapshot: &Snapshot,
) -> Result<Result<Time, Unfit>, JournalError> {
    let Head { len, hash } = snapshot.head();
    let found = facts(path, connection)?;
    if found < len {
        return Err(JournalError::CutShort { path: path.to_owned(), found, expected: len });
    }
    let last = len.checked_sub(1).map(|last| fact_at(path, connection, last)).transpose();
    Ok(match last {
        Ok(Some((at, stored))) if stored == hash => Ok(at),
        Ok(_) => Err(Unfit::Journal),
        Err(JournalError::Damaged { .. }) => Err(Unfit::Journal),
        Err(error) => return Err(error),
    })
}

/// Fails if one of the snapshots that were `kept` is sound and behind more facts than the `found` ones.
pub(super) fn none_beyond(
    path: &Path,
    connection: &Connection,
    kept: &[u64],
    found: u64,
) -> Result<(), JournalError> {
    for &expected in kept.iter().filter(|position| **position > found) {
        if load(path, connection, expected)?.is_ok() {
            return Err(JournalError::CutShort { path: path.to_owned(), found, expected });
        }
    }
    Ok(())
}

/// The number of facts, by the position of the last.
fn facts(path: &Path, connection: &Connection) -> Result<u64, JournalError> {
    let last: Option<i64> = connection
        .query_row("SELECT max(position) FROM fact", [], |row| row.get(0))
        .map_err(|cause| JournalError::reading(path, 0, &cause))?;
    Ok(last.map_or(0, |last| u64::try_from(last).unwrap_or(0) + 1))
}
