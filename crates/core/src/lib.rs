//! The leasing protocol of Tenure: three kinds of actors that lend machines by signed tickets.
//!
//! Pure: no I/O, no clock, no randomness, no threads, no async. The same inputs give the same facts, to
//! the byte. Read the modules in the order below; `docs/ARCHITECTURE.md` has the map and the reasons.

pub mod mutants;
pub mod model;
pub mod ticket;
pub mod driver;
pub mod wire;
pub mod actor;
pub mod service;
pub mod service_manager;
pub mod broker;
pub mod site_authority;
pub mod mapper;
pub mod runtime;
