//! What can be wrong with a journal, where, and what to do about it.

use std::io;
use std::path::{Path, PathBuf};

use rusqlite::ErrorCode;
use tenure_core::actor::fact::BadFact;
use tenure_core::model::codec::DecodeError;
use tenure_core::runtime::journal::AppendError;
use thiserror::Error;

use super::{Owner, SegmentDamage, Unfit};
use crate::lock::Holder;

/// What is wrong with a fact in a journal.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Damage {
    /// It is not there, but later ones are.
    #[error("it is missing")]
    Missing,
    /// It is not what was written: its checksum is another.
    #[error("it was changed: its checksum does not fit")]
    Checksum,
    /// It is whole, but it does not continue from the fact before: one of the two was replaced.
    #[error("it does not follow from the fact before it: the hashes differ")]
    Chain,
    /// A column of its row is not what it should be.
    #[error("its row is malformed: {0}")]
    Row(String),
    /// It cannot be decoded.
    #[error("{0}")]
    Undecodable(#[from] DecodeError),
    /// SQLite finds the file malformed.
    #[error("SQLite cannot read it: {0}")]
    File(String),
}

/// Why a journal cannot be opened, read or closed.
#[derive(Debug, Error)]
pub enum JournalError {
    /// Another process has it, or this one has it open already.
    #[error("{} is in use by {holder}", path.display())]
    InUse {
        /// The journal.
        path: PathBuf,
        /// Who has it.
        holder: Holder,
    },
    /// There is no such file.
    #[error("there is no journal {}", .0.display())]
    Missing(PathBuf),
    /// It is some other file, or a folder.
    #[error("{} is not a journal", .0.display())]
    NotAJournal(PathBuf),
    /// It is another actor's.
    #[error("{} is the journal of {found}, not of {expected}", path.display())]
    Foreign {
        /// The journal.
        path: PathBuf,
        /// Whose it is.
        found: Box<Owner>,
        /// Whose it should be.
        expected: Box<Owner>,
    },
    /// A newer version of this program made it.
    #[error("{} has format {found}, and this program knows {known}", path.display())]
    Newer {
        /// The journal.
        path: PathBuf,
        /// Its format.
        found: i64,
        /// The newest known one.
        known: i64,
    },
    /// A fact is damaged or missing.
    #[error("{}: fact {position} is not to be trusted: {damage}", path.display())]
    Damaged {
        /// The journal.
        path: PathBuf,
        /// The position of the fact: those before it are sound.
        position: u64,
        /// What is wrong with it.
        damage: Damage,
    },
    /// Facts that were there are gone from the end.
    #[error("{}: {found} facts are there, but there were {expected}", path.display())]
    CutShort {
        /// The journal.
        path: PathBuf,
        /// How many there are.
        found: u64,
        /// How many there were at some time.
        expected: u64,
    },
    /// The write-ahead log beside the journal is gone, and with it what was in it.
    #[error(
        "{} was not closed, and its write-ahead log {} is gone: facts may be missing",
        path.display(), log.display()
    )]
    LogGone {
        /// The journal.
        path: PathBuf,
        /// The file that should be there.
        log: PathBuf,
    },
    /// A fact does not follow from those before it.
    #[error("{}: fact {position} cannot be: {cause}", path.display())]
    Refused {
        /// The journal.
        path: PathBuf,
        /// The position of the fact.
        position: u64,
        /// Why the actor does not take it.
        cause: BadFact,
    },
    /// A snapshot is damaged, or not what its facts give. No start needs it.
    #[error("{}: the snapshot behind {position} facts is not to be trusted: {cause}", path.display())]
    Snapshot {
        /// The journal.
        path: PathBuf,
        /// Behind how many facts it is.
        position: u64,
        /// What is wrong with it.
        cause: Unfit,
    },
    /// A segment of its archive is damaged or missing.
    #[error("{}: segment {number} with the facts {first} to {last} is not to be trusted: {cause}", path.display())]
    Segment {
        /// The file of the segment.
        path: PathBuf,
        /// Its number.
        number: u64,
        /// The position of its first fact: those before it are sound.
        first: u64,
        /// The position of its last fact.
        last: u64,
        /// What is wrong with it.
        cause: SegmentDamage,
    },
    /// There is no room left on the disk.
    #[error("cannot {action} {}: the disk is full", path.display())]
    DiskFull {
        /// The journal.
        path: PathBuf,
        /// What was tried.
        action: &'static str,
    },
    /// The file, or its folder, may not be written.
    #[error("cannot {action} {}: it is read-only", path.display())]
    ReadOnly {
        /// The journal.
        path: PathBuf,
        /// What was tried.
        action: &'static str,
    },
    /// SQLite or the system failed in another way.
    #[error("cannot {action} {}: {cause}", path.display())]
    Failed {
        /// The journal.
        path: PathBuf,
        /// What was tried.
        action: &'static str,
        /// What SQLite or the system says.
        cause: String,
    },
}

impl JournalError {
    /// What to do about it.
    pub fn help(&self) -> &'static str {
        match self {
            Self::InUse { .. } => "stop that process first; two would write two different pasts",
            Self::Missing(_) => {
                "check the path: `tenure emulate --journals DIR` makes journals, and a live \
                 deployment keeps them in its data folder"
            }
            Self::NotAJournal(_) => "check the path: a journal is made by the actor that it is of",
            Self::Foreign { .. } => "check which file belongs to which actor",
            Self::Newer { .. } => "use the newer program; a journal is never turned back",
            Self::Damaged { .. } | Self::Refused { .. } => {
                "keep the file; put back a copy that is sound, or read the facts before this one \
                 with `tenure journal show`. An actor must not go on from a part of its past: its \
                 peers hold promises made in the rest"
            }
            Self::CutShort { .. } => {
                "keep the file, look for a copy with all facts; an actor must not continue from a part \
                 of its past"
            }
            Self::LogGone { .. } => {
                "put the log back beside the journal; the two are one and are copied together"
            }
            Self::Snapshot { .. } => {
                "the facts are whole, and a start that finds a damaged snapshot uses them instead; keep \
                 a copy of the file and look for what has changed it"
            }
            Self::Segment { .. } => {
                "put the file back from a copy; the actor starts without it as long as it has a snapshot"
            }
            Self::DiskFull { .. } => "make room and open it again; nothing acknowledged is lost",
            Self::ReadOnly { .. } => "give the process the right to write the file and its folder",
            Self::Failed { .. } => "look for the cause in the system's log, then open it again",
        }
    }

    /// The position of the fact that is to blame, if it is one: those before it are sound.
    pub fn position(&self) -> Option<u64> {
        match self {
            Self::Damaged { position, .. } | Self::Refused { position, .. } => Some(*position),
            Self::CutShort { found, .. } => Some(*found),
            Self::Segment { first, .. } => Some(*first),
            Self::InUse { .. }
            | Self::Missing(_)
            | Self::NotAJournal(_)
            | Self::Foreign { .. }
            | Self::Newer { .. }
            | Self::LogGone { .. }
            | Self::Snapshot { .. }
            | Self::DiskFull { .. }
            | Self::ReadOnly { .. }
            | Self::Failed { .. } => None,
        }
    }

    /// What SQLite said while `action` was tried.
    pub(super) fn sqlite(path: &Path, action: &'static str, cause: &rusqlite::Error) -> Self {
        let path = path.to_owned();
        match cause.sqlite_error_code() {
            Some(ErrorCode::DiskFull) => Self::DiskFull { path, action },
            Some(ErrorCode::ReadOnly) => Self::ReadOnly { path, action },
            Some(ErrorCode::NotADatabase) => Self::NotAJournal(path),
            Some(ErrorCode::CannotOpen) if path.is_dir() => Self::NotAJournal(path),
            _ => Self::Failed { path, action, cause: cause.to_string() },
        }
    }

    /// What it means for facts that were to be appended.
    pub(super) fn of_append(self) -> AppendError {
        if matches!(self, Self::DiskFull { .. }) {
            AppendError::Full(self.to_string())
        } else {
            AppendError::Unknown(self.to_string())
        }
    }

    /// What the system said while `action` was tried.
    pub(super) fn system(path: &Path, action: &'static str, cause: &io::Error) -> Self {
        use io::ErrorKind::{PermissionDenied, QuotaExceeded, ReadOnlyFilesystem, StorageFull};
        let (path, kind) = (path.to_owned(), cause.kind());
        if matches!(kind, StorageFull | QuotaExceeded) {
            Self::DiskFull { path, action }
        } else if matches!(kind, ReadOnlyFilesystem | PermissionDenied) {
            Self::ReadOnly { path, action }
        } else {
            Self::Failed { path, action, cause: cause.to_string() }
        }
    }

    /// What SQLite said while the fact at `position` was read.
    pub(super) fn reading(path: &Path, position: u64, cause: &rusqlite::Error) -> Self {
        match cause.sqlite_error_code() {
            Some(ErrorCode::DatabaseCorrupt) => {
                Self::damaged(path, position, Damage::File(cause.to_string()))
            }
            _ => Self::sqlite(path, "read", cause),
        }
    }

    /// The actor does not take the fact at `position`.
    pub(super) fn refused(path: &Path, position: u64, cause: BadFact) -> Self {
        Self::Refused { path: path.to_owned(), position, cause }
    }

    pub(super) fn damaged(path: &Path, position: u64, damage: Damage) -> Self {
        Self::Damaged { path: path.to_owned(), position, damage }
    }
}
