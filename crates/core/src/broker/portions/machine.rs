//! The life of a request while several brokers meet it.

use super::gathered::{Gathered, HeldByOther};
use crate::broker::machine::{Event, State, Tickets};
use crate::model::identity::ActorId;
use crate::wire::portion::Units;
use crate::wire::refusal::Refusal;

/// What happens to a request that several brokers are to meet.
#[derive(Clone, Debug, PartialEq)]
pub enum PortionEvent {
    /// This is held of it: as it stands from now on.
    Gathered(Box<Gathered>),
    /// Another broker holds these units.
    HeldThere(ActorId, Units),
    /// What is held waits for the broker that has asked for it; why it is not all, if so.
    Reserved(Option<Refusal>),
    /// What is held is taken.
    Taken,
    /// Another broker has cut these tickets for what it has held.
    Delivered(ActorId, Tickets),
    /// All tickets are there.
    Completed,
    /// Nothing is held any more, and the whole is open again.
    Released,
}

impl From<PortionEvent> for Event {
    fn from(event: PortionEvent) -> Self {
        Self::Portion(event)
    }
}

impl PortionEvent {
    /// The event in a word.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Gathered(_) => "Gathered",
            Self::HeldThere(..) => "HeldThere",
            Self::Reserved(_) => "Reserved",
            Self::Taken => "Taken",
            Self::Delivered(..) => "Delivered",
            Self::Completed => "Completed",
            Self::Released => "Released",
        }
    }
}

impl State {
    /// What is held of a request that several brokers are to meet together, if it is one.
    pub fn gathered(&self) -> Option<&Gathered> {
        match self {
            Self::Gathering { gathered, .. }
            | Self::Reserved { gathered, .. }
            | Self::Committing { gathered } => Some(gathered),
            Self::Open { .. }
            | Self::Passed { .. }
            | Self::Brought { .. }
            | Self::Held { .. }
            | Self::Proposed { .. }
            | Self::Taking { .. }
            | Self::Planned { .. }
            | Self::Granted { .. }
            | Self::Returned { .. }
            | Self::Refused { .. } => None,
        }
    }

    /// The next state of a request that is gathered, or begins to be.
    pub(in crate::broker) fn gather(self, event: PortionEvent) -> Option<Self> {
        Some(match (self, event) {
            (
                Self::Open { .. } | Self::Gathering { asked: None, .. },
                PortionEvent::Gathered(gathered),
            ) => Self::Gathering { gathered, asked: None },
            (
                Self::Gathering { mut gathered, asked: Some((to, _)) },
                PortionEvent::HeldThere(broker, units),
            ) if to == broker => {
                gathered.others.push(HeldByOther { broker, units, tickets: None });
                Self::Gathering { gathered, asked: None }
            }
            (Self::Gathering { gathered, asked: None }, PortionEvent::Reserved(refusal)) => {
                Self::Reserved { gathered, refusal }
            }
            (
                Self::Gathering { gathered, asked: None } | Self::Reserved { gathered, .. },
                PortionEvent::Taken,
            ) => Self::Committing { gathered },
            (Self::Committing { mut gathered }, PortionEvent::Delivered(from, tickets)) => {
                let mut others = gathered.others.iter_mut();
                let other = others.find(|o| o.broker == from && o.tickets.is_none())?;
                other.tickets = Some(tickets);
                Self::Committing { gathered }
            }
            (Self::Committing { gathered }, PortionEvent::Completed) if gathered.own.is_empty() => {
                Self::Brought { tickets: gathered.tickets() }
            }
            (Self::Committing { gathered }, PortionEvent::Completed) => {
                let tickets = gathered.tickets();
                let others = tickets.iter().skip(gathered.own.len());
                let returned = others.map(|(_, ticket)| ticket.hash()).collect();
                Self::Granted { tickets, returned }
            }
            (Self::Gathering { gathered, asked: None }, PortionEvent::Released) => {
                Self::Open { request: gathered.request, waiting: None }
            }
            (_, _) => return None,
        })
    }
}
