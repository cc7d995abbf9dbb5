//! Facts as rows: their checksums, and the one loop that reads them and believes nothing.

use std::ffi::OsString;
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::{self, Builder};

use rusqlite::Connection;

use tenure_core::model::codec::Hash;
use tenure_core::model::time::Time;
use tenure_core::runtime::Entry;
use tenure_core::runtime::journal::{JournalHasher, Row};

use super::archive::Opened;
use super::disk::Disk;
use super::{Damage, Head, JournalError, archive};

/// How many facts are handed on at a time, and how many such batches wait.
const BATCH: usize = 512;
const AHEAD: usize = 4;

/// The name of a file that goes with a journal.
pub(super) fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(ending);
    PathBuf::from(name)
}

/// The CRC-32C of a row and its position.
pub(super) fn checksum(position: u64, row: &Row<'_>) -> u32 {
    let mut head = [0; 18];
    head[..8].copy_from_slice(&position.to_le_bytes());
    head[8..16].copy_from_slice(&row.at.as_micros().to_le_bytes());
    head[16..].copy_from_slice(&row.version.to_le_bytes());
    let sum = crc32c::crc32c(&head);
    let sum = crc32c::crc32c_append(sum, row.kind.as_bytes());
    crc32c::crc32c_append(sum, row.body)
}

/// A journal's end while it is read or written: how many facts, and their hash so far.
#[derive(Clone, Debug, Default)]
pub(super) struct Tip {
    /// The number of facts.
    pub(super) len: u64,
    hasher: JournalHasher,
}

impl Tip {
    /// Adds the next row and returns the hash of all rows up to it.
    pub(super) fn add(&mut self, row: &Row<'_>) -> Hash {
        self.hasher.add(row);
        self.len += 1;
        self.hasher.finish()
    }

    /// The end behind `len` facts, from what their hash has come to.
    pub(super) fn at(len: u64, hasher: JournalHasher) -> Self {
        Self { len, hasher }
    }

    /// What the hash has come to.
    pub(super) fn saved(&self) -> Vec<u8> {
        self.hasher.save()
    }

    /// The end as others may see it.
    pub(super) fn head(&self) -> Head {
        Head { len: self.len, hash: self.hasher.finish() }
    }
}

/// Where facts are read from: the live file of a journal, and the segments of its archive beside it.
#[derive(Clone, Copy)]
pub(super) struct Source<'a> {
    pub(super) disk: &'a dyn Disk,
    pub(super) path: &'a Path,
    pub(super) connection: &'a Connection,
}

/// Reads rows from `tip` on and checks each: those of the segment that the next one is in, or up to `most` of
/// the live file. What is checked is handed on, and what was taken is in `tip`. Answers how many; 0 at the
/// end.
pub(super) fn scan(
    source: Source<'_>,
    tip: &mut Tip,
    most: u64,
    each: &mut dyn FnMut(u64, &Row<'_>) -> Result<(), JournalError>,
) -> Result<u64, JournalError> {
    let start = tip.len;
    // The live file first: a fact that is not there any more is in a segment by then.
    let live = scan_live(source, tip, most, each)?;
    if let Live::Taken(taken) = live {
        return Ok(taken);
    }
    let Source { path, connection, .. } = source;
    match (archive::holding(path, connection, start)?, live) {
        (Some(noted), _) => archive::scan(source, &noted, tip, each)?,
        // What has been appended since is not looked for: that it is there now says nothing of then.
        (None, Live::End | Live::Taken(_)) => {}
        (None, Live::Gap) => return Err(JournalError::damaged(path, start, Damage::Missing)),
    }
    Ok(tip.len - start)
}

/// What the live file has from a position on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Live {
    /// So many rows were taken.
    Taken(u64),
    /// Rows, but not the first.
    Gap,
    /// No rows.
    End,
}

/// Reads up to `most` rows of the live file from `tip` on and checks each: its place, its checksum, and that
/// the hash stored with it is that of all rows up to it.
pub(super) fn scan_live(
    Source { path, connection, .. }: Source<'_>,
    tip: &mut Tip,
    most: u64,
    each: &mut dyn FnMut(u64, &Row<'_>) -> Result<(), JournalError>,
) -> Result<Live, JournalError> {
    let (start, mut next) = (tip.len, tip.len);
    let failed = |position, cause: &rusqlite::Error| JournalError::reading(path, position, cause);
    let mut statement = connection
        .prepare_cached(
            "SELECT position, time, kind, version, body, checksum, hash FROM fact \
             WHERE position >= ?1 ORDER BY position LIMIT ?2",
        )
        .map_err(|cause| failed(start, &cause))?;
    let limit = i64::try_from(most).unwrap_or(i64::MAX);
    let mut rows = statement.query([start as i64, limit]).map_err(|cause| failed(start, &cause))?;
    while let Some(row) = rows.next().map_err(|cause| failed(next, &cause))? {
        let damaged = |damage| JournalError::damaged(path, next, damage);
        let stored = Stored::of(row).map_err(|cause| damaged(Damage::Row(cause)))?;
        if stored.position != next as i64 && next == start {
            return Ok(Live::Gap);
        }
        if stored.position != next as i64 {
            return Err(damaged(Damage::Missing));
        }
        if i64::from(checksum(next, &stored.row)) != stored.checksum {
            return Err(damaged(Damage::Checksum));
        }
        let mut after = tip.clone();
        if after.add(&stored.row).to_bytes() != stored.hash {
            return Err(damaged(Damage::Chain));
        }
        each(next, &stored.row)?;
        *tip = after;
        next += 1;
    }
    Ok(if next > start { Live::Taken(next - start) } else { Live::End })
}

/// When the fact at `position` was made, and the hash that is stored with it. Only its own row is checked.
pub(super) fn fact_at(
    path: &Path,
    connection: &Connection,
    position: u64,
) -> Result<(Time, Hash), JournalError> {
    row_at(path, connection, position, |stored| {
        let hash = stored.hash.try_into().map_err(|_| Damage::Checksum)?;
        Ok((stored.row.at, Hash::from_bytes(hash)))
    })
}

/// The fact at `position`. Only its own row, or its segment, is checked.
pub(super) fn entry_at(source: Source<'_>, position: u64) -> Result<Entry, JournalError> {
    entry_or_archived(source, position, &mut None)
}

/// The facts at `positions`, each as [`entry_at`] reads it; those of one segment in a row are read together.
pub(super) fn entries_at(
    source: Source<'_>,
    positions: impl IntoIterator<Item = u64>,
) -> Result<Vec<Entry>, JournalError> {
    let mut opened = None;
    let entry = |position| entry_or_archived(source, position, &mut opened);
    positions.into_iter().map(entry).collect()
}

/// A fact of the live file, or else of the segment that is in. That stays open for the next one.
fn entry_or_archived(
    source: Source<'_>,
    position: u64,
    opened: &mut Option<Opened>,
) -> Result<Entry, JournalError> {
    let Source { path, connection, .. } = source;
    let live = row_at(path, connection, position, |stored| Ok(stored.row.decode()?));
    let Err(JournalError::Damaged { damage: Damage::Missing, .. }) = &live else { return live };
    if let Some(opened) = opened.as_ref().filter(|opened| opened.holds(position)) {
        return opened.entry_at(path, position);
    }
    let Some(noted) = archive::holding(path, connection, position)? else { return live };
    opened.insert(Opened::of(source, noted)?).entry_at(path, position)
}

/// What `take` makes of the row at `position`, whose checksum fits.
fn row_at<T>(
    path: &Path,
    connection: &Connection,
    position: u64,
    take: impl FnOnce(&Stored<'_>) -> Result<T, Damage>,
) -> Result<T, JournalError> {
    let failed = |cause: &rusqlite::Error| JournalError::reading(path, position, cause);
    let damaged = |damage| JournalError::damaged(path, position, damage);
    let mut statement = connection
        .prepare_cached(
            "SELECT position, time, kind, version, body, checksum, hash FROM fact \
             WHERE position = ?1",
        )
        .map_err(|cause| failed(&cause))?;
    let mut rows = statement.query([position as i64]).map_err(|cause| failed(&cause))?;
    let row = rows.next().map_err(|cause| failed(&cause))?;
    let row = row.ok_or_else(|| damaged(Damage::Missing))?;
    let stored = Stored::of(row).map_err(|cause| damaged(Damage::Row(cause)))?;
    if i64::from(checksum(position, &stored.row)) != stored.checksum {
        return Err(damaged(Damage::Checksum));
    }
    take(&stored).map_err(damaged)
}

/// Reads all rows from `tip` on as [`scan`] does, on a thread of its own, and hands their facts to `each`
/// in the meantime. An error of either is that of the first fact that has one.
pub(super) fn scan_ahead(
    disk: &dyn Disk,
    path: &Path,
    connection: &mut Connection,
    tip: &mut Tip,
    each: &mut dyn FnMut(u64, &Entry) -> Result<(), JournalError>,
) -> Result<(), JournalError> {
    let (batches, facts) = sync_channel(AHEAD);
    thread::scope(|scope| {
        let reading = move || {
            let source = Source { disk, path, connection };
            read_ahead(source, tip, &batches)
        };
        let reading = Builder::new().name("read".to_owned()).spawn_scoped(scope, reading);
        let reading = reading.map_err(|cause| JournalError::system(path, "read", &cause))?;
        let mut folded = Ok(());
        for (position, entry) in facts.into_iter().flatten() {
            folded = each(position, &entry);
            if folded.is_err() {
                break;
            }
        }
        let read = reading.join().unwrap_or_else(|panic| resume_unwind(panic));
        folded.and(read)
    })
}

/// Facts with their positions.
type Batch = Vec<(u64, Entry)>;

fn read_ahead(
    source: Source<'_>,
    tip: &mut Tip,
    batches: &SyncSender<Batch>,
) -> Result<(), JournalError> {
    let path = source.path;
    let mut batch = Vec::with_capacity(BATCH);
    let mut each = |position, row: &Row<'_>| {
        let damaged = |cause| JournalError::damaged(path, position, Damage::from(cause));
        batch.push((position, row.decode().map_err(damaged)?));
        if batch.len() == BATCH {
            let full = std::mem::replace(&mut batch, Vec::with_capacity(BATCH));
            // The reader is gone: a fact was refused, and that error is returned.
            let gone = |_| JournalError::damaged(path, position, Damage::Missing);
            batches.send(full).map_err(gone)?;
        }
        Ok(())
    };
    let read = scan_all(source, tip, &mut each);
    drop(batches.send(batch));
    read
}

/// Reads all rows from `tip` on as [`scan`] does.
pub(super) fn scan_all(
    source: Source<'_>,
    tip: &mut Tip,
    each: &mut dyn FnMut(u64, &Row<'_>) -> Result<(), JournalError>,
) -> Result<(), JournalError> {
    while scan(source, tip, u64::MAX, each)? > 0 {}
    Ok(())
}

/// A row as it is in the file.
struct Stored<'a> {
    position: i64,
    row: Row<'a>,
    checksum: i64,
    hash: &'a [u8],
}

impl<'a> Stored<'a> {
    fn of(row: &'a rusqlite::Row<'_>) -> Result<Self, String> {
        let read = || {
            Ok(Self {
                position: row.get(0)?,
                row: Row {
                    at: Time::from_micros(row.get(1)?),
                    kind: row.get_ref(2)?.as_str()?,
                    version: row.get(3)?,
                    body: row.get_ref(4)?.as_blob()?,
                },
                checksum: row.get(5)?,
                hash: row.get_ref(6)?.as_blob()?,
            })
        };
        read().map_err(|cause: rusqlite::Error| cause.to_string())
    }
}
