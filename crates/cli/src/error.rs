//! Why a command failed.

use std::io;
use std::path::{Path, PathBuf};

use tenure_config::ConfigError;
use tenure_core::time::Span;
use tenure_sim::emulation::EmulationError;
use tenure_sim::workload::WorkloadError;
use thiserror::Error;

use crate::workload::ShowError;

/// Why a command failed.
#[derive(Debug, Error)]
pub(crate) enum Error {
    /// The command line is wrong.
    #[error("{}", .0.render())]
    Usage(clap::Error),
    /// A file of configuration is wrong.
    #[error("{error}")]
    Config {
        /// What is wrong, and where.
        error: Box<ConfigError>,
        /// The text of the file.
        text: String,
    },
    /// A file cannot be read or written.
    #[error("cannot {} {}: {source}", .action, .path.display())]
    File {
        /// What was tried.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
        /// What to do about it.
        help: Option<&'static str>,
    },
    /// A log of demand cannot be used.
    #[error(transparent)]
    Workload(#[from] WorkloadError),
    /// A log of demand ends before the emulation begins.
    #[error("the log {file} ends at {last}, so that nothing is left from the offset {offset} on")]
    PastEnd {
        /// The log.
        file: String,
        /// Its end.
        last: Span,
        /// Where in the log the emulation begins.
        offset: Span,
    },
    /// An emulation could not begin.
    #[error("{source}{}", of_run(swept))]
    Emulation {
        /// The point of the sweep.
        swept: String,
        /// What is wrong.
        source: EmulationError,
    },
    /// Some runs came to no end, or failed.
    #[error("{count} of {total} runs did not complete: {first}")]
    Incomplete {
        /// How many.
        count: usize,
        /// How many there were.
        total: usize,
        /// The first of them, and why.
        first: String,
    },
    /// Seeds broke a law of leasing.
    #[error("{count} of {total} seeds broke a law; the first: {first}")]
    Broken {
        /// How many.
        count: usize,
        /// How many there were.
        total: u64,
        /// What the first of them broke.
        first: String,
        /// The command that brings it back.
        again: String,
    },
    /// So many seeds should have reached more.
    #[error("{} points of behaviour were never reached: {}", .0.len(), .0.join(", "))]
    Unreached(Vec<&'static str>),
    /// A log cannot be shown.
    #[error(transparent)]
    Show(#[from] ShowError),
    /// The output cannot be written.
    #[error("cannot write: {0}")]
    Write(#[from] io::Error),
}

fn of_run(swept: &str) -> String {
    if swept.is_empty() { String::new() } else { format!(" (in the run {swept})") }
}

impl Error {
    /// A file that cannot be read.
    pub(crate) fn reading(path: &Path, source: io::Error, help: &'static str) -> Self {
        let missing = source.kind() == io::ErrorKind::NotFound;
        let help = missing.then_some(help);
        Self::File { action: "read", path: path.to_owned(), source, help }
    }

    /// A file that cannot be written.
    pub(crate) fn writing(path: &Path, source: io::Error) -> Self {
        Self::File { action: "write", path: path.to_owned(), source, help: None }
    }

    /// What to do about it.
    pub(crate) fn help(&self) -> Option<String> {
        match self {
            Self::Config { error, .. } => error.help.clone(),
            Self::File { help, .. } => help.map(ToOwned::to_owned),
            Self::PastEnd { .. } => Some("choose a smaller `workload.offset`".to_owned()),
            Self::Incomplete { .. } => {
                Some("the verdict and the problems of each run are in `-o json`".to_owned())
            }
            Self::Broken { again, .. } => Some(format!("to see it again: {again}")),
            Self::Usage(_) => Some("see `tenure --help`".to_owned()),
            Self::Workload(_)
            | Self::Emulation { .. }
            | Self::Unreached(_)
            | Self::Show(_)
            | Self::Write(_) => None,
        }
    }
}
