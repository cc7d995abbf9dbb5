//! Whole commands, run in this process.
