//! Reports on services, as folds over the facts in journals: what was measured, whether SLOs and SLAs were met,
//! what brokers were told and ordered, which units moved, and who held which.
//!
//! Facts go in, journal by journal, and rows come out. Nothing here reads a file or a clock, and the same facts give
//! the same rows, be they of a running deployment, of journals that are left of one, or of an emulation.

mod broker;
mod guest;
mod history;
mod lease;
mod query;
mod service;
mod site;
mod sla;
pub mod rows;

pub use history::History;
pub use query::{Query, Report};
