//! Needs: what services want, as their service manager tells its brokers.

use serde::{Deserialize, Serialize};

use crate::model::slice::SliceName;
use crate::service::steps::{Kind, Steps};
use crate::ticket::link::LinkHash;

/// The most kinds of units that one service wants.
pub const MAX_WANTS: usize = 64;

/// The most tickets that one service names of one kind to one broker.
pub const MAX_NAMED: usize = 4096;

/// The request property that names the service for which units are asked.
pub const SERVICE: &str = "service";

/// The property of a request for no service that says how urgent its units are, as services say it of theirs.
pub const URGENCY: &str = "urgency";

/// What a service wants, and what it has of one broker. The highest revision counts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Need {
    /// The service, by the name of its slice.
    pub service: SliceName,
    /// Grows with each statement about it.
    pub revision: u64,
    /// By kind of units. Empty if the service is not to be compared with others any more.
    pub wants: Vec<Want>,
}

/// What a service wants and has of a kind of units.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Want {
    /// The kind.
    pub kind: Kind,
    /// What its units are worth to it, one after the other, and which of them it claims.
    pub steps: Steps,
    /// The tickets of the receiver's that it has such units by, which may be compared and recalled.
    pub tickets: Vec<LinkHash>,
    /// How many units it has beside those.
    pub elsewhere: u32,
}

impl Need {
    /// Whether it is within its bounds and makes sense; the reason if not.
    pub(crate) fn check(&self) -> Result<(), String> {
        if self.wants.len() > MAX_WANTS {
            return Err(format!("{} kinds of units are more than {MAX_WANTS}", self.wants.len()));
        }
        if !self.wants.is_sorted_by(|one, other| one.kind < other.kind) {
            return Err("its kinds of units are not in order".to_owned());
        }
        self.wants.iter().try_for_each(Want::check)
    }
}

impl Want {
    fn check(&self) -> Result<(), String> {
        if self.tickets.len() > MAX_NAMED {
            return Err(format!("{} tickets are more than {MAX_NAMED}", self.tickets.len()));
        }
        if Steps::checked(self.steps.iter().collect()).is_none() {
            return Err("its steps do not fall".to_owned());
        }
        Ok(())
    }
}
