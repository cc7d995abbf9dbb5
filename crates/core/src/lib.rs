//! The leasing protocol of Tenure: three kinds of actors that lend machines by signed tickets.
//!
//! Pure: no I/O, no clock, no randomness, no threads, no async. The same inputs give the same facts, to
//! the byte. Read the modules in the order below; `docs/ARCHITECTURE.md` has the map and the reasons.

pub mod planted;
pub mod time;
pub mod name;
pub mod codec;
pub mod resource;
pub mod property;
pub mod slice;
pub mod identity;
pub mod ticket;
pub mod notary;
pub mod batch;
pub mod message;
pub mod refusal;
pub mod fact;
pub mod effect;
pub mod calendar;
pub mod lease;
pub mod snapshot;
pub mod actor;
pub mod mapper;
pub mod driver;
pub mod journal;
pub mod invariants;
