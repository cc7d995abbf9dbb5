//! Commands of a guest's users.

use crate::model::slice::LeaseId;
use crate::model::time::Span;
use crate::service_manager::mapper::Ask;

/// A command of a guest's user.
#[derive(Clone, Debug, PartialEq)]
pub enum Command {
    /// Ask a broker for units.
    Ask(Ask),
    /// Keep a lease for longer.
    Extend {
        /// The lease.
        lease: LeaseId,
        /// For how much longer.
        duration: Span,
    },
    /// Take an offer: of those that are held its tickets are asked for; of others it is asked for by a
    /// request of its own.
    Accept {
        /// The number of the request.
        number: u64,
        /// Which offer, from 1.
        offer: u8,
    },
    /// Withdraw a request that is not granted, and give up what is held for it.
    Withdraw {
        /// The number of the request.
        number: u64,
    },
    /// Give a lease back.
    Close {
        /// The lease.
        lease: LeaseId,
    },
}
