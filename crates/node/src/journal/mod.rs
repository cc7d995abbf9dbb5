//! Journals: one SQLite file for each actor, and what is promised about it.
//!
//! What [`JournalFile::append`] has acknowledged survives the death of the process and of the machine, as
//! far as the disk keeps what it said was synced. What is read back is what was appended, in order and
//! without a gap, or an error that says where it is not. `docs/JOURNAL.md` has the format of the file
//! and what happens under each fault.

mod about;
mod archive;
mod copy;
mod disk;
mod error;
mod file;
mod reader;
mod requests;
mod reserve;
mod rows;
mod schema;
mod snapshots;
mod snapshotter;
mod watermarks;
mod writer;

use std::fmt;

use tenure_core::actor::Actor as _;
use tenure_core::actor::Role;
use tenure_core::actor::fact::BadFact;
use tenure_core::actor::snapshot::RestoreError;
use tenure_core::model::codec::Hash;
use tenure_core::model::identity::ActorId;
use tenure_core::model::name::Name;
use tenure_core::model::time::Time;
use tenure_core::runtime::Entry;
use tenure_core::runtime::hosted::HostedActor;

pub(crate) use about::{FailedStep, FailedUnits};
pub use archive::{SegmentDamage, SegmentHead, SignSegment, SignedHead};
pub(crate) use copy::views;
pub use disk::{Disk, SystemDisk};
pub use error::{Damage, JournalError};
pub use file::JournalFile;
pub use reader::{Found, Reader};
pub(crate) use requests::KEY as REQUEST_KEY;
pub use reserve::Reserve;
pub use snapshots::{Snapshot, Unfit};
pub use snapshotter::Snapshots;
pub use writer::Writer;

/// Whose journal a file is: written into it when it is made, compared whenever it is opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    /// The actor's name.
    pub name: Name,
    /// Its role.
    pub role: Role,
    /// Its id.
    pub id: ActorId,
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} `{}` ({})", self.role, self.name, self.id)
    }
}

/// An actor that comes back: it is handed a state to continue from, if there is one, and the facts behind it.
pub trait Past {
    /// Takes the state behind `position` facts, the last of which was made `at` a time.
    ///
    /// # Errors
    /// If it cannot. Nothing has changed then; an older state may be handed in, or all facts.
    fn restore(&mut self, state: &[u8], position: u64, at: Time) -> Result<(), RestoreError>;

    /// Takes the next fact.
    ///
    /// # Errors
    /// If it does not follow from those before it.
    fn apply(&mut self, entry: &Entry) -> Result<(), BadFact>;
}

impl Past for HostedActor {
    fn restore(&mut self, state: &[u8], _: u64, _: Time) -> Result<(), RestoreError> {
        self.actor_mut().restore(state)
    }

    fn apply(&mut self, entry: &Entry) -> Result<(), BadFact> {
        self.actor_mut().replay(entry)
    }
}

/// Where a journal ends. Two journals with the same head hold the same facts.
///
/// A journal that was put back from an old copy looks sound on its own. Only a party that remembers a
/// later head can detect it, which is what heads are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// The number of facts.
    pub len: u64,
    /// The hash of all of them, as [`tenure_core::runtime::journal::JournalDigest`] has it.
    pub hash: Hash,
}

impl fmt::Display for Head {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} facts, hash {}", self.len, self.hash)
    }
}
