//! Reports, of facts as journals hold them.

mod facts;
mod orders;
mod services;
mod slas;
mod units;
