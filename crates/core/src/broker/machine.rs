//! The life of a request at a broker.
//!
//! A broker knows requests and tickets, not leases: an extension is a request of its own that names the
//! ticket it goes on from.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::portions::{Gathered, PortionEvent};
use crate::actor::machine::Illegal;
use crate::model::identity::ActorId;
use crate::model::time::Time;
use crate::ticket::Ticket;
use crate::ticket::link::LinkHash;
use crate::wire::handover::Outcome;
use crate::wire::offer::{Offer, Waiting};
use crate::wire::refusal::Refusal;
use crate::wire::request::Request;

/// Where a request is in its life.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum State {
    /// Waiting for the mapper's decision.
    Open {
        /// What is asked for.
        request: Arc<Request>,
        /// Where it stands, if the mapper has it wait.
        waiting: Option<Waiting>,
    },
    /// Handed on to another broker, whose answer it waits for.
    Passed {
        /// What is asked for.
        request: Arc<Request>,
        /// To whom.
        to: ActorId,
        /// Until when it waits.
        until: Time,
    },
    /// Another broker has granted it: these are its tickets.
    Brought {
        /// Each ticket with the item it is for.
        tickets: Tickets,
    },
    /// Something of it is held, here or by others, and the rest is looked for.
    Gathering {
        /// What is held.
        gathered: Box<Gathered>,
        /// The broker that is asked for the rest, and until when its answer is waited for.
        asked: Option<(ActorId, Time)>,
    },
    /// Of a portion that another broker has asked for: this much is held until that broker decides.
    Reserved {
        /// What is held.
        gathered: Box<Gathered>,
        /// Why it is not all of the portion, if so.
        refusal: Option<Refusal>,
    },
    /// What is held is taken; the tickets of other brokers are awaited.
    Committing {
        /// What is taken.
        gathered: Box<Gathered>,
    },
    /// Tickets of several offers were cut and are kept back, for the asker to choose.
    Held {
        /// What is asked for.
        request: Arc<Request>,
        /// The tickets of each offer, each with the item it is for.
        offers: Vec<Tickets>,
        /// Until when.
        until: Time,
        /// Why the request cannot be met as it is, if so.
        refusal: Option<Refusal>,
    },
    /// Another broker holds offers, for the asker to choose.
    Proposed {
        /// What is asked for.
        request: Arc<Request>,
        /// Which broker.
        by: ActorId,
        /// The offers, the best first.
        offers: Vec<Offer>,
        /// Until when.
        until: Time,
    },
    /// The asker has chosen an offer of another broker's, whose tickets are awaited.
    Taking {
        /// What is asked for.
        request: Arc<Request>,
        /// Which broker.
        by: ActorId,
        /// Which offer, from 1.
        offer: u8,
        /// Until when.
        until: Time,
    },
    /// Answered with how it could be met. Nothing is booked.
    Planned {
        /// How, the best first.
        offers: Vec<Offer>,
        /// Why the request cannot be met as it is, if so.
        refusal: Option<Refusal>,
    },
    /// Tickets were cut; some may have come back.
    Granted {
        /// Each ticket with the item it is for.
        tickets: Vec<(u16, Ticket)>,
        /// Those that came back, and those of other brokers: they do not come back here.
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
        /// What could be had instead.
        offers: Vec<Offer>,
    },
}

/// Tickets, each with the item that it is for.
pub type Tickets = Vec<(u16, Ticket)>;

/// What happens to a request.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// The mapper met it, and these tickets were cut.
    Granted(Vec<(u16, Ticket)>),
    /// An offer was accepted, and these are its tickets.
    Accepted(Tickets),
    /// The mapper refused, the deadline passed, or the asker withdrew it; with what could be had instead.
    Refused(Refusal, Vec<Offer>),
    /// The mapper has it wait.
    Waited(Waiting),
    /// Offers were cut, to be held until then.
    Held(Vec<Tickets>, Time, Option<Refusal>),
    /// The mapper said how it could be met.
    Planned(Vec<Offer>, Option<Refusal>),
    /// A receipt was credited, and nothing of this ticket is left.
    Credited(LinkHash),
    /// A receipt for a part of one of its tickets was credited.
    PartCredited,
    /// Its asker has replaced it.
    Revised(Arc<Request>),
    /// It was handed on, and its answer is waited for until then.
    Passed(ActorId, Time),
    /// Another broker has cut these tickets for it.
    Brought(Tickets),
    /// Another broker holds offers until then.
    Proposed(Vec<Offer>, Time),
    /// The asker has chosen one of these.
    Chosen(u8),
    /// The other broker has not granted it, or has not answered in time.
    CameBack,
    /// It is met by several brokers.
    Portion(PortionEvent),
}

impl State {
    /// The state in a word.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Open { .. } => "Open",
            Self::Passed { .. } => "Passed",
            Self::Brought { .. } => "Brought",
            Self::Gathering { .. } => "Gathering",
            Self::Reserved { .. } => "Reserved",
            Self::Committing { .. } => "Committing",
            Self::Held { .. } => "Held",
            Self::Proposed { .. } => "Proposed",
            Self::Taking { .. } => "Taking",
            Self::Planned { .. } => "Planned",
            Self::Granted { .. } => "Granted",
            Self::Returned { .. } => "Returned",
            Self::Refused { .. } => "Refused",
        }
    }

    /// What it means to a request that a broker has answered for it like this.
    pub fn answered(&self, outcome: &Outcome) -> Event {
        match outcome {
            Outcome::Granted(tickets) => Event::Brought(tickets.clone()),
            Outcome::Offered(offers, None) => Event::Planned(offers.clone(), None),
            Outcome::Offered(offers, Some(until)) => Event::Proposed(offers.clone(), *until),
            Outcome::Refused(refusal) | Outcome::Countered(refusal, _)
                if matches!(self, Self::Taking { .. }) =>
            {
                Event::Refused(refusal.clone(), Vec::new())
            }
            Outcome::Refused(_) | Outcome::Countered(..) | Outcome::Seen => Event::CameBack,
        }
    }

    /// The next state.
    #[allow(clippy::too_many_lines, reason = "a line or two for each state and event")]
    pub fn next(self, event: Event) -> Result<Self, Illegal> {
        let illegal = Illegal { machine: "broker", state: self.word(), event: event.word() };
        Ok(match (self, event) {
            (Self::Open { .. }, Event::Granted(tickets)) => {
                Self::Granted { tickets, returned: BTreeSet::new() }
            }
            (Self::Held { .. }, Event::Accepted(tickets)) => {
                Self::Granted { tickets, returned: BTreeSet::new() }
            }
            (
                Self::Open { .. }
                | Self::Passed { .. }
                | Self::Held { .. }
                | Self::Proposed { .. }
                | Self::Taking { .. }
                | Self::Gathering { .. }
                | Self::Reserved { .. }
                | Self::Committing { .. },
                Event::Refused(refusal, offers),
            ) => Self::Refused { refusal, offers },
            (
                state @ (Self::Open { .. }
                | Self::Gathering { .. }
                | Self::Reserved { .. }
                | Self::Committing { .. }),
                Event::Portion(event),
            ) => state.gather(event).ok_or(illegal)?,
            (Self::Gathering { gathered, asked: None }, Event::Passed(to, until)) => {
                Self::Gathering { gathered, asked: Some((to, until)) }
            }
            (Self::Gathering { gathered, asked: Some(_) }, Event::CameBack) => {
                Self::Gathering { gathered, asked: None }
            }
            (Self::Open { request, .. }, Event::Passed(to, until)) => {
                Self::Passed { request, to, until }
            }
            (
                Self::Open { .. }
                | Self::Passed { .. }
                | Self::Taking { .. }
                | Self::Gathering { .. },
                Event::Brought(tickets),
            ) => Self::Brought { tickets },
            (Self::Passed { request, to, .. }, Event::Proposed(offers, until)) => {
                Self::Proposed { request, by: to, offers, until }
            }
            (Self::Proposed { request, by, until, .. }, Event::Chosen(offer)) => {
                Self::Taking { request, by, offer, until }
            }
            (Self::Passed { request, .. }, Event::CameBack) => {
                Self::Open { request, waiting: None }
            }
            (Self::Open { request, .. }, Event::Waited(waiting)) => {
                Self::Open { request, waiting: Some(waiting) }
            }
            (Self::Open { request, .. }, Event::Held(offers, until, refusal)) => {
                Self::Held { request, offers, until, refusal }
            }
            (Self::Open { .. } | Self::Passed { .. }, Event::Planned(offers, refusal)) => {
                Self::Planned { offers, refusal }
            }
            (Self::Granted { tickets, mut returned }, Event::Credited(hash)) => {
                returned.insert(hash);
                if tickets.iter().all(|(_, ticket)| returned.contains(&ticket.hash())) {
                    Self::Returned { tickets }
                } else {
                    Self::Granted { tickets, returned }
                }
            }
            (Self::Open { waiting, .. }, Event::Revised(request)) => {
                Self::Open { request, waiting }
            }
            (state @ Self::Granted { .. }, Event::PartCredited) => state,
            (
                Self::Open { .. },
                Event::Credited(_)
                | Event::PartCredited
                | Event::Accepted(_)
                | Event::Proposed(..)
                | Event::Chosen(_)
                | Event::CameBack,
            )
            | (
                Self::Gathering { .. } | Self::Reserved { .. } | Self::Committing { .. },
                Event::Granted(_)
                | Event::Accepted(_)
                | Event::Waited(_)
                | Event::Held(..)
                | Event::Planned(..)
                | Event::Credited(_)
                | Event::PartCredited
                | Event::Revised(_)
                | Event::Passed(..)
                | Event::Brought(_)
                | Event::Proposed(..)
                | Event::Chosen(_)
                | Event::CameBack,
            )
            | (
                Self::Passed { .. }
                | Self::Held { .. }
                | Self::Proposed { .. }
                | Self::Taking { .. }
                | Self::Granted { .. },
                Event::Portion(_),
            )
            | (
                Self::Passed { .. },
                Event::Granted(_)
                | Event::Accepted(_)
                | Event::Waited(_)
                | Event::Held(..)
                | Event::Credited(_)
                | Event::PartCredited
                | Event::Revised(_)
                | Event::Passed(..)
                | Event::Chosen(_),
            )
            | (
                Self::Held { .. } | Self::Proposed { .. } | Self::Taking { .. },
                Event::Granted(_)
                | Event::Waited(_)
                | Event::Held(..)
                | Event::Planned(..)
                | Event::Credited(_)
                | Event::PartCredited
                | Event::Revised(_)
                | Event::Passed(..)
                | Event::Proposed(..)
                | Event::CameBack,
            )
            | (Self::Held { .. } | Self::Proposed { .. }, Event::Brought(_))
            | (Self::Held { .. } | Self::Taking { .. }, Event::Chosen(_))
            | (Self::Proposed { .. } | Self::Taking { .. }, Event::Accepted(_))
            | (
                Self::Granted { .. },
                Event::Granted(_)
                | Event::Accepted(_)
                | Event::Refused(..)
                | Event::Waited(_)
                | Event::Held(..)
                | Event::Planned(..)
                | Event::Revised(_)
                | Event::Passed(..)
                | Event::Brought(_)
                | Event::Proposed(..)
                | Event::Chosen(_)
                | Event::CameBack,
            )
            | (
                Self::Brought { .. }
                | Self::Planned { .. }
                | Self::Returned { .. }
                | Self::Refused { .. },
                _,
            ) => {
                return Err(illegal);
            }
        })
    }
}

impl Event {
    /// The event in a word.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Granted(_) => "Granted",
            Self::Accepted(_) => "Accepted",
            Self::Refused(..) => "Refused",
            Self::Waited(_) => "Waited",
            Self::Held(..) => "Held",
            Self::Planned(..) => "Planned",
            Self::Credited(_) => "Credited",
            Self::PartCredited => "PartCredited",
            Self::Revised(_) => "Revised",
            Self::Passed(..) => "Passed",
            Self::Brought(_) => "Brought",
            Self::Proposed(..) => "Proposed",
            Self::Chosen(_) => "Chosen",
            Self::CameBack => "CameBack",
            Self::Portion(event) => event.word(),
        }
    }
}
