//! How a service is, as far as is known (H11 of Hedeby).

use serde::{Deserialize, Serialize};

/// How a service is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// Nothing has been seen of it, or not for a while.
    #[default]
    Unknown,
    /// It runs.
    Running,
    /// It does not do what it should, as far as is seen.
    Error,
    /// It is stopped.
    Stopped,
    /// It was told to start, and does not run yet.
    Starting,
    /// It was told to stop, and has not stopped yet.
    Shutdown,
}

impl State {
    /// In a word.
    pub fn word(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::Running => "running",
            Self::Error => "error",
            Self::Stopped => "stopped",
            Self::Starting => "starting",
            Self::Shutdown => "shutdown",
        }
    }
}
