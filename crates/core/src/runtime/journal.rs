//! Journals: where facts become durable.

use sha2::digest::common::hazmat::{SerializableState as _, SerializedState};
use sha2::{Digest as _, Sha256};
use thiserror::Error;

use crate::model::codec::{DecodeError, Hash};
use crate::model::time::Time;
use crate::runtime::fact::{Entry, Fact};

/// Why facts may not be durable.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum AppendError {
    /// Somebody else writes this journal: the actor must stop.
    #[error("the journal is at {found}, not at {expected}: somebody else writes it")]
    Fenced {
        /// Where the writer believed it to be.
        expected: u64,
        /// Where it is.
        found: u64,
    },
    /// It is not known whether the facts are durable: the actor must stop and read the journal again.
    #[error("it is not known whether the facts are in the journal: {0}")]
    Unknown(String),
    /// As unknown as that, because there is no room left.
    #[error("it is not known whether the facts are in the journal: {0}")]
    Full(String),
}

/// An append-only list of one actor's facts.
pub trait Journal {
    /// Makes the facts durable at `expected`, all or none; on `Ok` they survive any crash.
    fn append(&mut self, expected: u64, entries: &[Entry]) -> Result<(), AppendError>;

    /// The number of facts.
    fn len(&self) -> u64;

    /// Whether it holds nothing.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The fact at `position`, if there is one.
    fn read(&self, position: u64) -> Option<Result<Entry, DecodeError>>;
}

/// A fact as it is stored: kind and version beside the encoded body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row<'a> {
    /// When it became a fact.
    pub at: Time,
    /// Its kind.
    pub kind: &'a str,
    /// The version of that kind.
    pub version: u16,
    /// Its body.
    pub body: &'a [u8],
}

impl Row<'_> {
    /// The fact in the row.
    pub fn decode(&self) -> Result<Entry, DecodeError> {
        let fact = Fact::decode(self.kind, self.version, self.body)?;
        Ok(Entry { at: self.at, fact })
    }
}

/// Hashes facts in order: time, kind, version and body of each.
#[derive(Clone, Debug, Default)]
pub struct JournalHasher {
    hash: Sha256,
    /// What is before the body of a row: hashed in one piece, since many small ones cost more than their bytes.
    head: Vec<u8>,
}

impl JournalHasher {
    /// Takes in one row.
    pub fn add(&mut self, row: &Row<'_>) {
        self.head.clear();
        self.head.extend(row.at.as_micros().to_le_bytes());
        self.head.push(u8::try_from(row.kind.len()).unwrap_or(u8::MAX));
        self.head.extend_from_slice(row.kind.as_bytes());
        self.head.extend(row.version.to_le_bytes());
        self.head.extend((row.body.len() as u64).to_le_bytes());
        self.hash.update(&self.head);
        self.hash.update(row.body);
    }

    /// What it has come to, so that it can go on without the rows so far.
    pub fn save(&self) -> Vec<u8> {
        self.hash.serialize().to_vec()
    }

    /// Goes on from what [`save`](Self::save) gave; none if it is not what gave `hash`.
    pub fn resume(saved: &[u8], hash: Hash) -> Option<Self> {
        let saved = SerializedState::<Sha256>::try_from(saved).ok()?;
        let hash_so_far = Sha256::deserialize(&saved).ok()?;
        let resumed = Self { hash: hash_so_far, head: Vec::new() };
        (resumed.finish() == hash).then_some(resumed)
    }

    /// Appends the body of a fact to `bytes` and takes in its row.
    fn add_encoded(&mut self, Entry { at, fact }: &Entry, bytes: &mut Vec<u8>) {
        let ((kind, version), start) = (fact.kind(), bytes.len());
        fact.encode_into(bytes);
        self.add(&Row { at: *at, kind, version, body: &bytes[start..] });
    }

    /// The hash of all rows so far.
    pub fn finish(&self) -> Hash {
        Hash::from_bytes(self.hash.clone().finalize().into())
    }
}

/// A journal in memory, encoded as a stored one would be (an emulation needs no repository).
#[derive(Clone, Debug, Default)]
pub struct MemoryJournal {
    rows: Vec<(Time, &'static str, u16, usize)>,
    bytes: Vec<u8>,
    hasher: JournalHasher,
}

impl MemoryJournal {
    /// An empty journal.
    pub fn new() -> Self {
        Self::default()
    }

    /// The row at `position`.
    pub fn row(&self, position: u64) -> Option<Row<'_>> {
        let index = usize::try_from(position).ok()?;
        let &(at, kind, version, start) = self.rows.get(index)?;
        let end = self.rows.get(index + 1).map_or(self.bytes.len(), |row| row.3);
        Some(Row { at, kind, version, body: &self.bytes[start..end] })
    }

    /// All rows in order.
    pub fn rows(&self) -> impl Iterator<Item = Row<'_>> {
        (0..self.len()).filter_map(|position| self.row(position))
    }

    /// The hash of all facts.
    pub fn hash(&self) -> Hash {
        self.hasher.finish()
    }
}

impl Journal for MemoryJournal {
    fn append(&mut self, expected: u64, entries: &[Entry]) -> Result<(), AppendError> {
        if expected != self.len() {
            return Err(AppendError::Fenced { expected, found: self.len() });
        }
        for entry in entries {
            let (kind, version) = entry.fact.kind();
            self.rows.push((entry.at, kind, version, self.bytes.len()));
            self.hasher.add_encoded(entry, &mut self.bytes);
        }
        Ok(())
    }

    fn len(&self) -> u64 {
        self.rows.len() as u64
    }

    fn read(&self, position: u64) -> Option<Result<Entry, DecodeError>> {
        self.row(position).map(|row| row.decode())
    }
}

/// The number and the hash of facts whose journal nobody will read: what an emulation keeps of each
/// actor, however long it runs.
#[derive(Clone, Debug, Default)]
pub struct JournalDigest {
    len: u64,
    hasher: JournalHasher,
    /// The body of the last fact, for its room.
    body: Vec<u8>,
}

impl JournalDigest {
    /// Takes the facts in at `expected`, as [`Journal::append`] does.
    pub fn append(&mut self, expected: u64, entries: &[Entry]) -> Result<(), AppendError> {
        if expected != self.len {
            return Err(AppendError::Fenced { expected, found: self.len });
        }
        for entry in entries {
            self.body.clear();
            self.hasher.add_encoded(entry, &mut self.body);
        }
        self.len += entries.len() as u64;
        Ok(())
    }

    /// The number of facts.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether there was none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The hash of all facts: that of a journal which holds them.
    pub fn hash(&self) -> Hash {
        self.hasher.finish()
    }
}

/// The hash of a run: over the hashes of its actors' journals, in the order of the actors' names.
pub fn hash_of_run(journals: impl IntoIterator<Item = Hash>) -> Hash {
    let hashes: Vec<[u8; 32]> = journals.into_iter().map(Hash::to_bytes).collect();
    let parts: Vec<&[u8]> = hashes.iter().map(<[u8; 32]>::as_slice).collect();
    Hash::of("tenure run v1", &parts)
}
