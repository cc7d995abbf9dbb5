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
    /// Give a lease back.
    Close {
        /// The lease.
        lease: LeaseId,
    },
}
