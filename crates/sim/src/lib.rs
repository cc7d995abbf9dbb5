//! x
pub mod scenario;
pub mod workload;
