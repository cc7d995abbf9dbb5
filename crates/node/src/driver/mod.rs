//! Drivers: what a site does to its units, and a guest to those it leases.
//!
//! All of them are blocking: the host runs [`perform`](tenure_core::driver::ResourceDriver::perform) on a
//! thread that may wait. What they share, the [fence], is written once: which call may touch a unit, and
//! what is to be done with one that a crash cut off.

pub mod conformance;
#[cfg_attr(not(test), expect(dead_code, reason = "drivers that do something need the rest"))]
mod fence;
mod null;
#[cfg_attr(not(test), expect(dead_code, reason = "drivers that do something need the rest"))]
mod record;
mod registry;
#[cfg_attr(not(test), expect(dead_code, reason = "drivers that do something need the rest"))]
mod stop;

pub use registry::{DriverSettingsError, guest, site};

#[cfg(test)]
mod tests;
