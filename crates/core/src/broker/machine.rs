//! The life of a request at a broker.
//!
//! A broker knows requests and tickets, not leases: an extension is a request of its own that names the
//! ticket it goes on from.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::actor::machine::Illegal;
use crate::ticket::Ticket;
use crate::ticket::link::LinkHash;
use crate::wire::message::Request;
use crate::wire::refusal::Refusal;

/// Where a request is in its life.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum State {
    /// Waiting for the mapper's decision.
    Open {
        /// What is asked for.
        request: Arc<Request>,
    },
    /// Tickets were cut; some may have come back.
    Granted {
        /// Each ticket with the item it is for.
        tickets: Vec<(u16, Ticket)>,
        /// Those that came back.
        returned: BTreeSet<LinkHash>,
    },
    /// All of its tickets came back.
    Returned {
        /// The tickets, to answer who asks again.
        tickets: Vec<(u16, Ticket)>,
    },
    /// Answered with no.
    Refused {
        /// Why.
        refusal: Refusal,
    },
}

/// What happens to a request.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// The mapper met it, and these tickets were cut.
    Granted(Vec<(u16, Ticket)>),
    /// The mapper refused, or the deadline passed.
    Refused(Refusal),
    /// A receipt for one of its tickets was credited.
    Credited(LinkHash),
}

impl State {
    /// The state in a word.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Open { .. } => "Open",
            Self::Granted { .. } => "Granted",
            Self::Returned { .. } => "Returned",
            Self::Refused { .. } => "Refused",
        }
    }

    /// The next state.
    pub fn next(self, event: Event) -> Result<Self, Illegal> {
        let illegal = Illegal { machine: "broker", state: self.word(), event: event.word() };
        Ok(match (self, event) {
            (Self::Open { .. }, Event::Granted(tickets)) => {
                Self::Granted { tickets, returned: BTreeSet::new() }
            }
            (Self::Open { .. }, Event::Refused(refusal)) => Self::Refused { refusal },
            (Self::Granted { tickets, mut returned }, Event::Credited(hash)) => {
                returned.insert(hash);
                if tickets.iter().all(|(_, ticket)| returned.contains(&ticket.hash())) {
                    Self::Returned { tickets }
                } else {
                    Self::Granted { tickets, returned }
                }
            }
            (Self::Open { .. }, Event::Credited(_))
            | (Self::Granted { .. }, Event::Granted(_) | Event::Refused(_))
            | (Self::Returned { .. } | Self::Refused { .. }, _) => return Err(illegal),
        })
    }
}

impl Event {
    /// The event in a word.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Granted(_) => "Granted",
            Self::Refused(_) => "Refused",
            Self::Credited(_) => "Credited",
        }
    }
}
