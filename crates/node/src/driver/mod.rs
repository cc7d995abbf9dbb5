//! Drivers: what a site does to its units, and a guest to those it leases.
//!
//! All of them are blocking: the host runs [`perform`](tenure_core::driver::ResourceDriver::perform) on a
//! thread that may wait. What they share, the fence, is written once: which call may touch a unit, and
//! what is to be done with one that a crash cut off.

pub(crate) mod adoption;
mod bandwidth;
pub(crate) mod cgroup;
pub(crate) mod child;
pub mod conformance;
mod custody;
pub(crate) mod exec;
pub(crate) mod executors;
pub(crate) mod fence;
mod gateway;
mod host;
mod iproute;
mod link;
mod log;
mod membership;
mod netns;
mod network;
mod overlay;
mod null;
mod packages;
mod process;
mod program;
pub(crate) mod programs;
pub(crate) mod record;
mod registry;
mod report;
mod report_pipe;
mod roster;
pub(crate) mod run;
mod several;
mod start;
pub(crate) mod stop;
pub(crate) mod streams;
pub(crate) mod supervise;
pub(crate) mod step_input;

pub use adoption::{ADOPT, Adopt};
pub use bandwidth::Bandwidth;
pub(crate) use cgroup::description as how_processes_are_kept;
pub use custody::{Custody, CustodyError};
pub use iproute::namespace;
pub(crate) use netns::{NAMESPACE, inside};
pub use registry::{DriverSettingsError, guest, site};
pub(crate) use registry::{check_guest, check_site, site_in_custody};
pub(crate) use several::ADAPTERS;
pub use several::guests;

/// The code in docs/DRIVERS.md works.
#[cfg(doctest)]
#[doc = include_str!("../../../../docs/DRIVERS.md")]
struct Documented;

#[cfg(test)]
pub(crate) mod tests;
