//! Journals as SQLite files: what is appended is read back, and every defect is reported.

#![expect(clippy::unwrap_used, reason = "the helpers of a test may panic as the test may")]

mod archive;
mod damage;
mod life;
mod parts;
mod requests;
mod snapshots;
mod writer;
