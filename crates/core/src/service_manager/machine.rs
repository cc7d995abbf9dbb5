//! The life of a lease at its service manager: redeemed, joined, used, given back.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::actor::machine::Illegal;
use crate::driver::UnitId;
use crate::model::time::{Term, Time};
use crate::mutants::mutant;
use crate::ticket::Ticket;
use crate::ticket::receipt::Receipt;
use crate::wire::message::LeasedUnit;
use crate::wire::refusal::Refusal;

/// Where a lease is in its life at the service manager.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum State {
    /// The ticket is kept in hand.
    Ticketed {
        /// The ticket.
        ticket: Ticket,
        /// Whether parts of it were handed on; then it is not redeemed itself.
        split: bool,
    },
    /// The site was shown the ticket.
    Redeeming {
        /// The ticket.
        ticket: Ticket,
    },
    /// The units are there; the guest's software starts using them.
    Joining {
        /// What is held.
        held: Held,
    },
    /// In use.
    Active {
        /// What is held.
        held: Held,
    },
    /// The guest's software stops using the units.
    Leaving {
        /// What is held.
        held: Held,
        /// What comes then.
        then: AfterLeave,
    },
    /// The site was asked to take the tickets back.
    Closing {
        /// The lease's own ticket, then its extensions.
        tickets: Vec<Ticket>,
    },
    /// The broker was shown the site's receipts.
    Crediting {
        /// The receipts.
        receipts: Vec<Receipt>,
    },
    /// Over.
    Closed {
        /// How it went.
        outcome: Outcome,
    },
}

/// What a service manager holds while its lease runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Held {
    /// The ticket that was redeemed first, then the extensions that were redeemed.
    pub tickets: Vec<Ticket>,
    /// From the start of the first to the end of the last.
    pub term: Term,
    /// The units.
    pub units: BTreeMap<UnitId, (LeasedUnit, UnitUse)>,
    /// How many of them are about to join or leave.
    pub awaited: usize,
    /// How far the next extension is.
    pub extension: Extension,
}

/// Whether the guest's software uses a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum UnitUse {
    /// It is about to.
    Joining,
    /// It does.
    Joined,
    /// It could not.
    Unusable,
    /// It is about to stop.
    Leaving,
    /// It has stopped.
    Left,
}

/// How far an extension is (the ancestors' ActiveTicketed and its kin).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Extension {
    /// None is under way.
    None,
    /// A broker was asked, by the request of this number.
    Requested(u64),
    /// The site was shown the new ticket.
    Redeeming {
        /// The ticket.
        ticket: Ticket,
        /// The number of the request it was cut for.
        number: u64,
    },
}

/// What follows once the guest has left its units.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum AfterLeave {
    /// The term runs out.
    End,
    /// The lease is given back early.
    Close,
}

/// How a lease went.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Outcome {
    /// It ran to the end of its term.
    Ended,
    /// It was given back before its end.
    GivenBack,
    /// The broker or The site refused.
    Refused(Refusal),
    /// No answer came in time.
    Unanswered,
}

/// What happens to a lease at its service manager.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// A ticket that was kept is to be redeemed.
    RedeemBegun,
    /// Parts of a ticket that was kept were handed on.
    Split,
    /// The site refused.
    Refused(Refusal),
    /// The site handed over the units.
    Leased(Term, Vec<LeasedUnit>),
    /// The guest's software uses a unit, or (`false`) cannot.
    Joined(UnitId, bool),
    /// A broker was asked to extend, by the request of this number.
    ExtensionAsked(u64),
    /// The broker sent the extension.
    ExtensionGranted(Ticket),
    /// Broker or site refused to extend, or no answer came in time.
    ExtensionDenied,
    /// The site took the new ticket.
    Extended,
    /// The guest's software is to stop using the units.
    LeaveBegun(AfterLeave),
    /// It has stopped using one.
    Left(UnitId),
    /// The holder wants to give the lease back and has no unit to leave.
    CloseBegun,
    /// The site has the units again, or will never hand them over.
    SiteClosed(Vec<Receipt>),
    /// The broker took the receipts.
    Credited,
    /// The term has ended, less the clock margin.
    TermOver,
}

impl Held {
    /// The tickets whose terms are not over at `t`.
    pub fn tickets_at(&self, t: Time) -> impl Iterator<Item = &Ticket> {
        self.tickets.iter().filter(move |ticket| t < ticket.bottom().term.end())
    }

    /// The units about to join or leave.
    pub fn waiting_to(&self, usage: UnitUse) -> impl Iterator<Item = &UnitId> {
        self.units.iter().filter(move |(_, (_, u))| *u == usage).map(|(unit, _)| unit)
    }

    /// Moves one awaited unit on; `false` if it was not awaited.
    fn settle(&mut self, unit: UnitId, from: UnitUse, to: UnitUse) -> bool {
        match self.units.get_mut(&unit) {
            Some((_, state)) if *state == from => {
                *state = to;
                self.awaited -= 1;
                true
            }
            _ => false,
        }
    }
}

impl State {
    /// The state in a word.
    pub fn word(&self) -> &'static str {
        use Extension::{None, Redeeming, Requested};
        match self {
            Self::Ticketed { split: false, .. } => "Ticketed",
            Self::Ticketed { split: true, .. } => "Ticketed+split",
            Self::Redeeming { .. } => "Redeeming",
            Self::Joining { held } => match held.extension {
                None => "Joining",
                Requested(_) => "Joining+asking",
                Redeeming { .. } => "Joining+redeeming",
            },
            Self::Active { held } => match held.extension {
                None => "Active",
                Requested(_) => "Active+asking",
                Redeeming { .. } => "Active+redeeming",
            },
            Self::Leaving { then: AfterLeave::End, .. } => "Leaving(end)",
            Self::Leaving { then: AfterLeave::Close, .. } => "Leaving(close)",
            Self::Closing { .. } => "Closing",
            Self::Crediting { .. } => "Crediting",
            Self::Closed { .. } => "Closed",
        }
    }

    /// What is held, while units are.
    pub fn held(&self) -> Option<&Held> {
        match self {
            Self::Joining { held } | Self::Active { held } | Self::Leaving { held, .. } => {
                Some(held)
            }
            Self::Ticketed { .. }
            | Self::Redeeming { .. }
            | Self::Closing { .. }
            | Self::Crediting { .. }
            | Self::Closed { .. } => None,
        }
    }

    /// The lease's own ticket, while it has one.
    pub fn ticket(&self) -> Option<&Ticket> {
        match self {
            Self::Ticketed { ticket, .. } | Self::Redeeming { ticket } => Some(ticket),
            Self::Closing { tickets } => tickets.first(),
            Self::Joining { held } | Self::Active { held } | Self::Leaving { held, .. } => {
                held.tickets.first()
            }
            Self::Crediting { .. } | Self::Closed { .. } => None,
        }
    }

    /// The next state.
    pub fn next(self, event: Event) -> Result<Self, Illegal> {
        match self {
            Self::Ticketed { ticket, split } => ticketed(ticket, split, event),
            Self::Redeeming { ticket } => redeeming(ticket, event),
            Self::Joining { held } => joining(held, event),
            Self::Active { held } => active(held, event),
            Self::Leaving { held, then } => leaving(held, then, event),
            Self::Closing { .. } => closing(event),
            Self::Crediting { .. } => crediting(event),
            Self::Closed { .. } => Err(illegal("Closed", &event)),
        }
    }
}

fn illegal(state: &'static str, event: &Event) -> Illegal {
    Illegal { machine: "service manager", state, event: event.word() }
}

fn ticketed(ticket: Ticket, split: bool, event: Event) -> Result<State, Illegal> {
    let word = if split { "Ticketed+split" } else { "Ticketed" };
    match event {
        Event::RedeemBegun if !split => Ok(State::Redeeming { ticket }),
        Event::Split => Ok(State::Ticketed { ticket, split: true }),
        Event::CloseBegun => Ok(State::Closing { tickets: vec![ticket] }),
        Event::TermOver => Ok(State::Closed { outcome: Outcome::Ended }),
        Event::RedeemBegun
        | Event::Refused(_)
        | Event::Leased(..)
        | Event::Joined(..)
        | Event::ExtensionAsked(_)
        | Event::ExtensionGranted(_)
        | Event::ExtensionDenied
        | Event::Extended
        | Event::LeaveBegun(_)
        | Event::Left(_)
        | Event::SiteClosed(_)
        | Event::Credited => Err(illegal(word, &event)),
    }
}

fn redeeming(ticket: Ticket, event: Event) -> Result<State, Illegal> {
    match event {
        Event::Leased(term, units) => {
            let units: BTreeMap<_, _> =
                units.into_iter().map(|u| (u.unit, (u, UnitUse::Joining))).collect();
            let (tickets, awaited) = (vec![ticket], units.len());
            let held = Held { tickets, term, units, awaited, extension: Extension::None };
            Ok(State::Joining { held })
        }
        Event::Refused(refusal) => Ok(State::Closed { outcome: Outcome::Refused(refusal) }),
        Event::CloseBegun => Ok(State::Closing { tickets: vec![ticket] }),
        Event::SiteClosed(receipts) => Ok(after_site(receipts)),
        Event::TermOver => Ok(State::Closed { outcome: Outcome::Unanswered }),
        Event::RedeemBegun
        | Event::Split
        | Event::Joined(..)
        | Event::ExtensionAsked(_)
        | Event::ExtensionGranted(_)
        | Event::ExtensionDenied
        | Event::Extended
        | Event::LeaveBegun(_)
        | Event::Left(_)
        | Event::Credited => Err(illegal("Redeeming", &event)),
    }
}

fn joining(mut held: Held, event: Event) -> Result<State, Illegal> {
    if let Event::Joined(unit, usable) = event {
        let to = if usable { UnitUse::Joined } else { UnitUse::Unusable };
        if !held.settle(unit, UnitUse::Joining, to) {
            return Err(illegal("Joining", &event));
        }
        let joined = held.awaited == 0;
        return Ok(if joined { State::Active { held } } else { State::Joining { held } });
    }
    running(held, event, "Joining", |held| State::Joining { held })
}

fn active(held: Held, event: Event) -> Result<State, Illegal> {
    running(held, event, "Active", |held| State::Active { held })
}

/// What a lease with units does, joined or not.
fn running(
    mut held: Held,
    event: Event,
    word: &'static str,
    stay: impl Fn(Held) -> State,
) -> Result<State, Illegal> {
    let extension = std::mem::replace(&mut held.extension, Extension::None);
    match (event, extension) {
        (Event::ExtensionAsked(number), Extension::None) => {
            held.extension = Extension::Requested(number);
            Ok(stay(held))
        }
        (Event::ExtensionGranted(ticket), Extension::Requested(number)) => {
            held.extension = Extension::Redeeming { ticket, number };
            Ok(stay(held))
        }
        (Event::ExtensionDenied, Extension::Requested(_) | Extension::Redeeming { .. }) => {
            held.tickets.truncate(if mutant!(DenialCostsATicket) { 1 } else { usize::MAX });
            Ok(stay(held))
        }
        (Event::Extended, Extension::Redeeming { ticket, .. }) => {
            let end = ticket.bottom().term.end();
            held.term = Term::new(held.term.start(), end).unwrap_or(held.term);
            held.tickets.push(ticket);
            Ok(stay(held))
        }
        (Event::LeaveBegun(then), extension) => {
            held.units.values_mut().for_each(|(_, state)| *state = UnitUse::Leaving);
            held.awaited = held.units.len();
            held.extension = extension;
            Ok(State::Leaving { held, then })
        }
        (Event::SiteClosed(receipts), _) => Ok(after_site(receipts)),
        (Event::TermOver, extension) => {
            held.extension = extension;
            Ok(at_end(held, Outcome::Ended))
        }
        (
            event @ (Event::RedeemBegun
            | Event::Split
            | Event::Refused(_)
            | Event::Leased(..)
            | Event::Joined(..)
            | Event::ExtensionAsked(_)
            | Event::ExtensionGranted(_)
            | Event::ExtensionDenied
            | Event::Extended
            | Event::Left(_)
            | Event::CloseBegun
            | Event::Credited),
            _,
        ) => Err(illegal(word, &event)),
    }
}

fn leaving(mut held: Held, then: AfterLeave, event: Event) -> Result<State, Illegal> {
    match event {
        Event::Left(unit) => {
            if !held.settle(unit, UnitUse::Leaving, UnitUse::Left) {
                return Err(illegal("Leaving", &event));
            }
            Ok(if held.awaited == 0 && then == AfterLeave::Close {
                State::Closing { tickets: all_tickets(held) }
            } else {
                State::Leaving { held, then }
            })
        }
        Event::LeaveBegun(AfterLeave::Close) if then == AfterLeave::End => {
            Ok(State::Leaving { held, then: AfterLeave::Close })
        }
        Event::CloseBegun => Ok(State::Closing { tickets: all_tickets(held) }),
        Event::SiteClosed(receipts) => Ok(after_site(receipts)),
        Event::ExtensionDenied if !matches!(held.extension, Extension::None) => {
            held.extension = Extension::None;
            Ok(State::Leaving { held, then })
        }
        Event::TermOver => Ok(match then {
            AfterLeave::End => at_end(held, Outcome::Ended),
            AfterLeave::Close => at_end(held, Outcome::GivenBack),
        }),
        Event::RedeemBegun
        | Event::Split
        | Event::Refused(_)
        | Event::Leased(..)
        | Event::Joined(..)
        | Event::ExtensionAsked(_)
        | Event::ExtensionGranted(_)
        | Event::ExtensionDenied
        | Event::Extended
        | Event::LeaveBegun(_)
        | Event::Credited => Err(illegal("Leaving", &event)),
    }
}

fn closing(event: Event) -> Result<State, Illegal> {
    match event {
        Event::SiteClosed(receipts) => Ok(after_site(receipts)),
        Event::Refused(refusal) => Ok(State::Closed { outcome: Outcome::Refused(refusal) }),
        Event::TermOver => Ok(State::Closed { outcome: Outcome::GivenBack }),
        Event::RedeemBegun
        | Event::Split
        | Event::Leased(..)
        | Event::Joined(..)
        | Event::ExtensionAsked(_)
        | Event::ExtensionGranted(_)
        | Event::ExtensionDenied
        | Event::Extended
        | Event::LeaveBegun(_)
        | Event::Left(_)
        | Event::CloseBegun
        | Event::Credited => Err(illegal("Closing", &event)),
    }
}

fn crediting(event: Event) -> Result<State, Illegal> {
    match event {
        Event::Credited | Event::TermOver => Ok(State::Closed { outcome: Outcome::GivenBack }),
        Event::RedeemBegun
        | Event::Split
        | Event::Refused(_)
        | Event::Leased(..)
        | Event::Joined(..)
        | Event::ExtensionAsked(_)
        | Event::ExtensionGranted(_)
        | Event::ExtensionDenied
        | Event::Extended
        | Event::LeaveBegun(_)
        | Event::Left(_)
        | Event::CloseBegun
        | Event::SiteClosed(_) => Err(illegal("Crediting", &event)),
    }
}

/// Receipts go to the broker; without any there is nothing left to do.
fn after_site(receipts: Vec<Receipt>) -> State {
    if receipts.is_empty() {
        State::Closed { outcome: Outcome::GivenBack }
    } else {
        State::Crediting { receipts }
    }
}

/// A lease ends with its term, unless an extension is on its way to the site: then the site
/// may already have extended it, and must be asked to close it.
fn at_end(held: Held, outcome: Outcome) -> State {
    match held.extension {
        Extension::Redeeming { .. } => State::Closing { tickets: all_tickets(held) },
        Extension::None | Extension::Requested(_) => State::Closed { outcome },
    }
}

fn all_tickets(held: Held) -> Vec<Ticket> {
    let mut tickets = held.tickets;
    if let Extension::Redeeming { ticket, .. } = held.extension {
        tickets.push(ticket);
    }
    tickets
}

impl Event {
    /// The event in a word.
    pub fn word(&self) -> &'static str {
        match self {
            Self::RedeemBegun => "RedeemBegun",
            Self::Split => "Split",
            Self::Refused(_) => "Refused",
            Self::Leased(..) => "Leased",
            Self::Joined(..) => "Joined",
            Self::ExtensionAsked(_) => "ExtensionAsked",
            Self::ExtensionGranted(_) => "ExtensionGranted",
            Self::ExtensionDenied => "ExtensionDenied",
            Self::Extended => "Extended",
            Self::LeaveBegun(_) => "LeaveBegun",
            Self::Left(_) => "Left",
            Self::CloseBegun => "CloseBegun",
            Self::SiteClosed(_) => "SiteClosed",
            Self::Credited => "Credited",
            Self::TermOver => "TermOver",
        }
    }
}
