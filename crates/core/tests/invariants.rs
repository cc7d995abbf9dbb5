//! The laws of leasing: honest actors keep them, and every violation is detected.

#![allow(clippy::unwrap_used, reason = "the helpers of a test may panic as the test may")]
#![allow(dead_code, reason = "the world is made for all tests of the protocol")]

mod common;

#[path = "invariants/lives.rs"]
mod lives;
#[path = "invariants/kept.rs"]
mod kept;
#[path = "invariants/broken.rs"]
mod broken;
