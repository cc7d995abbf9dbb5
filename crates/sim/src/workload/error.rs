//! What can be wrong with a workload.

use thiserror::Error;

use super::kind::Kind;
use super::summary::Summary;

/// Why a workload cannot be used.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum WorkloadError {
    /// A kind that does not exist.
    #[error("unknown kind of workload `{kind}`; known: {}", names(&Kind::ALL))]
    UnknownKind {
        /// The kind that was asked for.
        kind: String,
    },
    /// A file whose name does not show its kind, and no kind was set.
    #[error(
        "the name `{file}` does not show the kind of workload; known endings: .swf, .swf.gz, \
         .csv, .csv.gz; or set the kind: {}",
        names(&FROM_FILE)
    )]
    UnknownEnding {
        /// The name of the file.
        file: String,
    },
    /// A file was given for the kind that is generated.
    #[error(
        "the kind `{kind}` is generated and reads no file, but `{file}` is given; kinds of a file: {}",
        names(&FROM_FILE)
    )]
    ReadsNoFile {
        /// The name of the file.
        file: String,
        /// The kind.
        kind: Kind,
    },
    /// A file that is no log of demand.
    #[error("`{file}` has {kind}, which are asked for one by one and make no signal")]
    NoSignal {
        /// The name of the file.
        file: String,
        /// The kind.
        kind: Kind,
    },
    /// A column was chosen for a kind that has none.
    #[error("a column is chosen for the kind `csv` only, not `{kind}`")]
    ColumnNotUsed {
        /// The kind of the workload.
        kind: Kind,
    },
    /// The chosen column is not in the log, or is its time.
    #[error("log `{file}`, line {line}: no value column `{column}`; {}", known_columns(known))]
    UnknownColumn {
        /// The name of the log.
        file: String,
        /// The line of the first row, counted from 1.
        line: u64,
        /// The column that was asked for.
        column: String,
        /// The columns that can be asked for.
        known: Vec<String>,
    },
    /// The bytes are not a log at all.
    #[error("log `{file}` cannot be read: {cause}")]
    Unreadable {
        /// The name of the log.
        file: String,
        /// What is wrong with it.
        cause: String,
    },
    /// No line of the log can be used.
    #[error("log `{file}` holds no usable {}: {}", summary.kind.entries(), summary.unusable())]
    NoEntries {
        /// The name of the log.
        file: String,
        /// What the lines are instead.
        summary: Box<Summary>,
    },
    /// A setting of a wave that has no meaning.
    #[error("{setting} of a wave must be {expected}, not {value}")]
    BadWave {
        /// The name of the setting.
        setting: &'static str,
        /// What it may be.
        expected: &'static str,
        /// What it is.
        value: String,
    },
    /// A text that is no length of time.
    #[error("`{text}` is no length of time: {cause}; give seconds, or units as in 1d12h or 5m")]
    BadSpan {
        /// The text.
        text: String,
        /// What is wrong with it.
        cause: String,
    },
}

const FROM_FILE: [Kind; 3] = [Kind::SwfInUse, Kind::SwfOffered, Kind::Csv];

impl WorkloadError {
    pub(super) fn unreadable(file: &str, cause: String) -> Self {
        Self::Unreadable { file: file.to_owned(), cause }
    }
}

fn names(kinds: &[Kind]) -> String {
    kinds.iter().map(|kind| kind.name()).collect::<Vec<_>>().join(", ")
}

fn known_columns(known: &[String]) -> String {
    if known.is_empty() {
        "the log has no column but the time".to_owned()
    } else {
        format!("known: {}", known.join(", "))
    }
}
