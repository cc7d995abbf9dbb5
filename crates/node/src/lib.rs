//! The live shell: the actors of the core in real time, on durable journals.
//!
//! Nothing is acknowledged before it is durable, so that a process may die at any instant.

mod exposition;
mod folder;
mod subject;
pub mod systemd;
pub mod lock;
pub mod journal;
pub mod report;
pub mod clock;
pub mod host;
pub mod adapter;
pub mod driver;
pub mod transport;
pub mod metrics;
pub mod net;
pub mod deployment;
pub mod executor;
pub mod config;
pub mod api;
pub mod takeover;
pub mod run;
pub mod backup;
