//! Slices and the names of leases.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::model::identity::ActorId;
use crate::model::name::Name;

/// A guest's named group of leases.
pub type SliceName = Name;

/// Names one request for ever: who asked, and the asker's running number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct RequestId {
    /// The service manager (or, later, broker) that asked first.
    pub origin: ActorId,
    /// Its running number, from 1.
    pub number: u64,
}

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.origin, self.number)
    }
}

impl fmt::Debug for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Names one lease within its service manager. A request that is met from several sites becomes one
/// lease per ticket: parts 0, 1, 2, … of the request's number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct LeaseId {
    /// The number of the request that the lease came from.
    pub number: u64,
    /// Which of the request's tickets it holds, from 0.
    pub part: u16,
}

impl fmt::Display for LeaseId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.number, self.part)
    }
}

impl fmt::Debug for LeaseId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
