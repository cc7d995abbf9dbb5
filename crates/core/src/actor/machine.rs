//! The lives of a lease: one machine for each role that knows it, and one for each unit.
//!
//! Every machine is one enum whose states carry their data, and one function from state and event to the
//! next state that names every pair. What it does not allow is [`Illegal`] and changes nothing. The
//! tables and diagrams in `docs/PROTOCOL.md` are printed from these functions.

use thiserror::Error;

/// An event that has no place in a state.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{machine}: `{event}` has no place in `{state}`")]
pub struct Illegal {
    /// Whose machine it is.
    pub machine: &'static str,
    /// The state it is in.
    pub state: &'static str,
    /// The event that came.
    pub event: &'static str,
}
