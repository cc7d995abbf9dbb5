//! The protocol of the core from outside: what it promises whatever the others do.

mod common;

#[path = "protocol/tickets.rs"]
mod tickets;
#[path = "protocol/encoding.rs"]
mod encoding;
#[path = "protocol/ledger.rs"]
mod ledger;
