//! The archive of a journal: facts before its snapshots, moved out of the live file into segments.
//!
//! A segment is written and synced before the live file notes it, and it is noted in the transaction that
//! removes its facts: whenever the process dies, each fact is in one of the two. A file that is not noted
//! counts for nothing, and is written over.

mod segment;

use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, OptionalExtension as _, Row as SqlRow, Transaction, params};
use tenure_core::model::codec::Hash;
use tenure_core::model::identity::ActorId;
use tenure_core::runtime::Entry;
use tenure_core::runtime::journal::{JournalHasher, Row};

pub use segment::{SegmentDamage, SegmentHead, SignSegment, SignedHead};

use segment::{Segment, add_row, next_row, parse_head};

use super::disk::Disk;
use super::rows::{Live, Source, Tip, beside, scan_live};
use super::{Damage, JournalError, schema, snapshots};

/// How many facts are read at a time for a segment.
const STEP: u64 = 64;

/// About how much the removal of a segment's facts adds to a log: the inner pages that it changes.
const REMOVAL: u64 = 128 << 10;

/// A segment as the live file notes it.
#[derive(Clone, Debug)]
pub(super) struct Noted {
    number: u64,
    first: u64,
    pub(super) last: u64,
    /// The hash of its signed head.
    head: Hash,
}

impl Noted {
    fn of(row: &SqlRow<'_>) -> Result<Self, rusqlite::Error> {
        Ok(Self {
            number: row.get::<_, i64>(0)? as u64,
            first: row.get::<_, i64>(1)? as u64,
            last: row.get::<_, i64>(2)? as u64,
            head: Hash::from_bytes(row.get(3)?),
        })
    }

    fn error(&self, path: &Path, cause: SegmentDamage) -> JournalError {
        let Self { number, first, last, .. } = *self;
        JournalError::Segment { path: file_of(path, number), number, first, last, cause }
    }

    /// Reads its file, and checks that it is the one that was noted.
    fn open(&self, disk: &dyn Disk, path: &Path) -> Result<Segment, JournalError> {
        let bytes = self.bytes(disk, path)?;
        let wrong = |cause| self.error(path, cause);
        let (signed, _) = parse_head(&bytes).map_err(wrong)?;
        if signed.hash() != self.head {
            let (number, owner) = (signed.head.number, signed.head.owner);
            let misplaced = number != self.number && signed.is_signed();
            return Err(wrong(match misplaced {
                true => SegmentDamage::Misplaced { number, owner },
                false => SegmentDamage::Head,
            }));
        }
        Segment::parse(&bytes).map_err(wrong)
    }

    /// Copies its file to the archive of a copy of the journal.
    pub(super) fn copy(&self, disk: &dyn Disk, path: &Path, to: &Path) -> Result<(), JournalError> {
        let (bytes, file) = (self.bytes(disk, path)?, file_of(to, self.number));
        disk.put(&file, &bytes).map_err(|cause| JournalError::system(&file, "write", &cause))
    }

    fn bytes(&self, disk: &dyn Disk, path: &Path) -> Result<Vec<u8>, JournalError> {
        let file = file_of(path, self.number);
        disk.read(&file).map_err(|cause| {
            if cause.kind() == io::ErrorKind::NotFound {
                self.error(path, SegmentDamage::Missing)
            } else {
                JournalError::system(&file, "read", &cause)
            }
        })
    }
}

/// The file of a segment of the journal at `path`.
pub(super) fn file_of(path: &Path, number: u64) -> PathBuf {
    folder_of(path).join(format!("{number:08}.segment"))
}

/// Where the segments of the journal at `path` are.
pub(super) fn folder_of(path: &Path) -> PathBuf {
    beside(path, "-archive")
}

/// All segments that are noted, in order. None where the file has no room for them.
pub(super) fn noted(path: &Path, connection: &Connection) -> Result<Vec<Noted>, JournalError> {
    let read = || {
        if !has_table(connection)? {
            return Ok(Vec::new());
        }
        let sql = "SELECT number, first, last, head FROM segment ORDER BY number";
        let mut statement = connection.prepare_cached(sql)?;
        statement.query_map([], Noted::of)?.collect()
    };
    read().map_err(|cause| JournalError::reading(path, 0, &cause))
}

fn has_table(connection: &Connection) -> Result<bool, rusqlite::Error> {
    let table = "SELECT 1 FROM sqlite_schema WHERE name = 'segment'";
    Ok(connection.query_row(table, [], |_| Ok(())).optional()?.is_some())
}

/// The segment that the fact at `position` is in, if it is in one.
pub(super) fn holding(
    path: &Path,
    connection: &Connection,
    position: u64,
) -> Result<Option<Noted>, JournalError> {
    let read = || {
        if !has_table(connection)? {
            return Ok(None);
        }
        let sql = "SELECT number, first, last, head FROM segment WHERE first <= ?1 AND last >= ?1";
        connection.prepare_cached(sql)?.query_row([position as i64], Noted::of).optional()
    };
    read().map_err(|cause| JournalError::reading(path, position, &cause))
}

/// The positions of the facts that can be archived: from the first that is not, up to the last fact before the
/// oldest snapshot. That one stays, for the snapshot to be compared with.
pub(super) fn archivable(path: &Path, connection: &Connection) -> Result<Range<u64>, JournalError> {
    let first = noted(path, connection)?.last().map_or(0, |noted| noted.last + 1);
    let oldest = snapshots::positions(path, connection)?.last().copied();
    Ok(first..oldest.unwrap_or(0).saturating_sub(1))
}

/// Reads the facts of a segment from `tip` on, as [`scan_live`] does those of the live file.
pub(super) fn scan(
    source: Source<'_>,
    noted: &Noted,
    tip: &mut Tip,
    each: &mut dyn FnMut(u64, &Row<'_>) -> Result<(), JournalError>,
) -> Result<(), JournalError> {
    let wrong = |cause| noted.error(source.path, cause);
    let segment = noted.open(source.disk, source.path)?;
    let facts = segment.facts().map_err(wrong)?;
    let mut rest = &*facts;
    for position in noted.first..=noted.last {
        let row = next_row(&mut rest).ok_or_else(|| wrong(SegmentDamage::Facts))?;
        if position < tip.len {
            continue;
        }
        let mut after = tip.clone();
        let hash = after.add(&row);
        if position == noted.last && hash != segment.signed.head.journal {
            return Err(wrong(SegmentDamage::Facts));
        }
        each(position, &row)?;
        *tip = after;
    }
    if rest.is_empty() { Ok(()) } else { Err(wrong(SegmentDamage::Facts)) }
}

/// A segment whose facts are at hand.
pub(super) struct Opened {
    noted: Noted,
    facts: Vec<u8>,
}

impl Opened {
    /// Reads the facts of a segment.
    pub(super) fn of(source: Source<'_>, noted: Noted) -> Result<Self, JournalError> {
        let facts = noted.open(source.disk, source.path)?.facts();
        let facts = facts.map_err(|cause| noted.error(source.path, cause))?;
        Ok(Self { noted, facts })
    }

    /// Whether the fact at `position` is in it.
    pub(super) fn holds(&self, position: u64) -> bool {
        (self.noted.first..=self.noted.last).contains(&position)
    }

    /// The fact at `position`.
    pub(super) fn entry_at(&self, path: &Path, position: u64) -> Result<Entry, JournalError> {
        let mut rest = &*self.facts;
        let rows = std::iter::from_fn(|| next_row(&mut rest));
        let row = rows.zip(self.noted.first..).find(|(_, at)| *at == position);
        let missing = || self.noted.error(path, SegmentDamage::Facts);
        let (row, _) = row.ok_or_else(missing)?;
        row.decode().map_err(|cause| JournalError::damaged(path, position, Damage::from(cause)))
    }
}

/// Checks the heads of all segments: that each names the one before it, and is signed by a key that
/// `is_key` takes for one of `owner`'s. Answers the heads.
pub(super) fn check_heads(
    source: Source<'_>,
    owner: ActorId,
    is_key: impl Fn(&SignedHead) -> bool,
) -> Result<Vec<SignedHead>, JournalError> {
    let (mut heads, mut previous, mut next) = (Vec::new(), None, 0);
    for (number, noted) in (0..).zip(noted(source.path, source.connection)?) {
        let wrong = |cause| noted.error(source.path, cause);
        let signed = noted.open(source.disk, source.path)?.signed;
        let head = &signed.head;
        if head.owner != owner {
            let (number, owner) = (head.number, head.owner);
            return Err(wrong(SegmentDamage::Misplaced { number, owner }));
        }
        let follows = (head.number, head.previous, head.first) == (number, previous, next);
        if !follows || (head.first, head.last) != (noted.first, noted.last) {
            return Err(wrong(SegmentDamage::Chain));
        }
        if !signed.is_signed() {
            return Err(wrong(SegmentDamage::Signature));
        }
        if !is_key(&signed) {
            return Err(wrong(SegmentDamage::Key));
        }
        (previous, next) = (Some(signed.hash()), head.last + 1);
        heads.push(signed);
    }
    Ok(heads)
}

/// A segment whose file is written and that the live file does not note yet.
#[derive(Clone, Debug)]
pub(super) struct Written {
    pub(super) signed: SignedHead,
    hasher: Vec<u8>,
}

/// Writes the next segment, if facts can be archived and the actor can sign.
pub(super) fn write_next(
    source: Source<'_>,
    signer: &dyn SignSegment,
) -> Result<Option<Written>, JournalError> {
    let Source { disk, path, connection } = source;
    let owner = schema::owner_of(path, connection)?.id;
    let (before, mut tip) = end_of(path, connection)?;
    let (first, limit) = (tip.len, archivable(path, connection)?.end);
    let mut facts = Vec::new();
    while facts.len() < disk.segment_room() && tip.len < limit {
        let mut each = |_: u64, row: &Row<'_>| {
            add_row(&mut facts, row);
            Ok(())
        };
        let most = STEP.min(limit - tip.len);
        if matches!(scan_live(source, &mut tip, most, &mut each)?, Live::Gap | Live::End) {
            return Err(JournalError::damaged(path, tip.len, Damage::Missing));
        }
    }
    let Some(last) = tip.len.checked_sub(1).filter(|last| *last >= first) else { return Ok(None) };
    let number = before.as_ref().map_or(0, |noted| noted.number + 1);
    let none = Hash::from_bytes([0; 32]);
    let head = SegmentHead {
        owner,
        number,
        previous: before.map(|noted| noted.head),
        first,
        last,
        journal: tip.head().hash,
        length: 0,
        compressed: 0,
        content: none,
    };
    let file = file_of(path, number);
    let failed = |cause: io::Error| JournalError::system(&file, "write", &cause);
    let Some(segment) = Segment::close(head, &facts, signer).map_err(failed)? else {
        return Ok(None);
    };
    disk.put(&file, &segment.to_bytes()).map_err(failed)?;
    Ok(Some(Written { signed: segment.signed, hasher: tip.saved() }))
}

/// The last segment that is noted, and where it ends.
fn end_of(path: &Path, connection: &Connection) -> Result<(Option<Noted>, Tip), JournalError> {
    let Some(noted) = noted(path, connection)?.pop() else { return Ok((None, Tip::default())) };
    let sql = "SELECT hash, hasher FROM segment WHERE number = ?1";
    let (hash, hasher) = connection
        .query_row(sql, [noted.number as i64], |row| {
            Ok((Hash::from_bytes(row.get(0)?), row.get::<_, Vec<u8>>(1)?))
        })
        .map_err(|cause| JournalError::reading(path, noted.last, &cause))?;
    let hasher = JournalHasher::resume(&hasher, hash).ok_or_else(|| {
        let cause = "its hash cannot be gone on from".to_owned();
        JournalError::damaged(path, noted.last, Damage::Row(cause))
    })?;
    let tip = Tip::at(noted.last + 1, hasher);
    Ok((Some(noted), tip))
}

/// Notes a segment and removes its facts from the live file. Answers about how many bytes that brings.
pub(super) fn note(
    transaction: &Transaction<'_>,
    written: &Written,
) -> Result<u64, rusqlite::Error> {
    let Written { signed, hasher } = written;
    let SegmentHead { number, first, last, journal, .. } = &signed.head;
    transaction.execute(
        "INSERT INTO segment (number, first, last, head, hash, hasher) \
         VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
        params![
            *number as i64,
            *first as i64,
            *last as i64,
            signed.hash().to_bytes(),
            journal.to_bytes(),
            hasher
        ],
    )?;
    transaction.execute("DELETE FROM fact WHERE position <= ?1", [*last as i64])?;
    Ok(REMOVAL)
}
