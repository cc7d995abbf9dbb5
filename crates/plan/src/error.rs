//! Problems that make no sense.

use thiserror::Error;

/// A problem that contradicts itself or names what it does not have.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{at}: {message}")]
pub struct BadProblem {
    /// Where it is wrong: a path of keys, with names in backticks.
    pub at: String,
    /// What is wrong, and what would be right.
    pub message: String,
}

impl BadProblem {
    pub(crate) fn new(at: impl Into<String>, message: impl Into<String>) -> Self {
        Self { at: at.into(), message: message.into() }
    }
}
