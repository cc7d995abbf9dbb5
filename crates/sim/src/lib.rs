//! Emulation of a Tenure deployment in virtual time.
//!
//! Pure like the core it drives: a run is a step function over a scenario and its inputs. Anyone who calls
//! it owns files, threads and the wall clock.

pub mod workload;
pub mod scenario;
pub mod service;
mod random;
pub mod network;
mod driver;
mod signatures;
mod users;
pub mod participants;
pub mod capacity;
mod metrics;
pub mod report;
pub mod plot;
pub mod emulation;
pub mod fork;
pub mod simulate;
