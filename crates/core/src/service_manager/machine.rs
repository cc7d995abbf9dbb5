//! The life of a lease at its service manager: redeemed, joined, used, given back.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::slice;

use serde::{Deserialize, Serialize};

use crate::actor::machine::Illegal;
use crate::driver::UnitId;
use crate::model::property::Properties;
use crate::model::time::{Term, Time};
use crate::mutants::mutant;
use crate::ticket::Ticket;
use crate::ticket::receipt::Receipt;
use crate::wire::message::LeasedUnit;
use crate::wire::part::Part;
use crate::wire::refusal::Refusal;

pub use super::held::{Change, Held, PartReturn, Seam, UnitUse};

/// Where a lease is in its life at the service manager.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum State {
    /// The ticket is kept, and not redeemed yet.
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
        /// Receipts for parts that are not credited yet.
        credits: Vec<Receipt>,
    },
    /// The broker was shown the site's receipts.
    Crediting {
        /// The receipts.
        receipts: Vec<Receipt>,
        /// How the lease went.
        outcome: Outcome,
    },
    /// Over.
    Closed {
        /// How it went.
        outcome: Outcome,
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
    /// The broker or the site refused.
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
    /// A broker was asked to extend, by the request of this number; these units do not go on.
    ExtensionAsked(u64, Vec<UnitId>),
    /// The broker sent the extension.
    ExtensionGranted(Ticket),
    /// Broker or site refused to extend, or no answer came in time.
    ExtensionDenied,
    /// The site took the new ticket.
    Extended,
    /// A part is to go back.
    ReturnBegun(Part),
    /// The site has the part again.
    PartReturned(Vec<Receipt>),
    /// The site did not take the part.
    ReturnRefused,
    /// The units that do not go on are to be left.
    ShrinkBegun,
    /// The lease goes on without them.
    Shrunk,
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
    /// The configuration is to change to this.
    ModifyBegun(Properties),
    /// The site changed it; these are the units.
    Modified(Vec<LeasedUnit>),
    /// The site did not change it.
    ModifyRefused,
    /// The guest's software has taken over the change of a unit, or could not.
    Notified(UnitId),
    /// Units that are recalled are to be left.
    RecallBegun(Vec<UnitId>),
    /// The lease goes on without units that are recalled, with so many, or so much of a share.
    UnitsRecalled(Vec<UnitId>, u32),
    /// The recall is changed or withdrawn: units that were left for it are joined again.
    RecallLifted,
    /// The guest's driver refused to join a unit, and has not touched it.
    JoinRefused(UnitId),
    /// The units are to be left by an earlier instant.
    LeaveHastened(Time),
    /// The guest's driver refused to leave a unit, and has not touched it.
    LeaveRefused(UnitId),
    /// The guest's driver may refuse to leave no unit any more.
    LeaveForced,
    /// A unit that the guest's software could not use is to be left, and joined again.
    UnitReset(UnitId),
}

impl State {
    /// The state in a word.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Ticketed { split: false, .. } => "Ticketed",
            Self::Ticketed { split: true, .. } => "Ticketed+split",
            Self::Redeeming { .. } => "Redeeming",
            Self::Joining { held } => match held.change.word() {
                Some("asking") => "Joining+asking",
                Some("redeeming") => "Joining+redeeming",
                Some("leaving") => "Joining+leaving",
                Some("returning") => "Joining+returning",
                Some("modifying") => "Joining+modifying",
                Some(_) | None => "Joining",
            },
            Self::Active { held } => match held.change.word() {
                Some("asking") => "Active+asking",
                Some("redeeming") => "Active+redeeming",
                Some("leaving") => "Active+leaving",
                Some("returning") => "Active+returning",
                Some("modifying") => "Active+modifying",
                Some(_) | None => "Active",
            },
            Self::Leaving { held, then: AfterLeave::End } => match held.change {
                Change::Requested { .. } => "Leaving(end)+asking",
                Change::Redeeming { .. } => "Leaving(end)+redeeming",
                Change::None
                | Change::Leaving(_)
                | Change::Returning(_)
                | Change::Modifying { .. } => "Leaving(end)",
            },
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

    /// The receipts that the broker has yet to credit and is shown.
    pub fn to_credit(&self) -> &[Receipt] {
        match self {
            Self::Joining { held } | Self::Active { held } | Self::Leaving { held, .. } => {
                &held.credits
            }
            Self::Crediting { receipts, .. } => receipts,
            Self::Ticketed { .. }
            | Self::Redeeming { .. }
            | Self::Closing { .. }
            | Self::Closed { .. } => &[],
        }
    }

    /// The lease's own ticket, while it has one.
    pub fn ticket(&self) -> Option<&Ticket> {
        self.tickets().first()
    }

    /// The lease's own ticket, then its extensions, while it has any.
    pub fn tickets(&self) -> &[Ticket] {
        match self {
            Self::Ticketed { ticket, .. } | Self::Redeeming { ticket } => slice::from_ref(ticket),
            Self::Closing { tickets, .. } => tickets,
            Self::Joining { held } | Self::Active { held } | Self::Leaving { held, .. } => {
                &held.tickets
            }
            Self::Crediting { .. } | Self::Closed { .. } => &[],
        }
    }

    /// The next state.
    pub fn next(self, event: Event) -> Result<Self, Illegal> {
        match self {
            Self::Ticketed { ticket, split } => ticketed(ticket, split, event),
            Self::Redeeming { ticket } => redeeming(ticket, event),
            Self::Joining { held } => running(held, event, "Joining"),
            Self::Active { held } => running(held, event, "Active"),
            Self::Leaving { held, then } => leaving(held, then, event),
            Self::Closing { credits, .. } => closing(credits, event),
            Self::Crediting { outcome, .. } => crediting(outcome, event),
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
        Event::CloseBegun => Ok(State::Closing { tickets: vec![ticket], credits: Vec::new() }),
        Event::TermOver => Ok(State::Closed { outcome: Outcome::Ended }),
        Event::RedeemBegun
        | Event::Refused(_)
        | Event::Leased(..)
        | Event::Joined(..)
        | Event::ExtensionAsked(..)
        | Event::ExtensionGranted(_)
        | Event::ExtensionDenied
        | Event::Extended
        | Event::ReturnBegun(_)
        | Event::PartReturned(_)
        | Event::ReturnRefused
        | Event::ShrinkBegun
        | Event::Shrunk
        | Event::LeaveBegun(_)
        | Event::Left(_)
        | Event::SiteClosed(_)
        | Event::Credited
        | Event::ModifyBegun(_)
        | Event::Modified(_)
        | Event::ModifyRefused
        | Event::Notified(_)
        | Event::RecallBegun(_)
        | Event::UnitsRecalled(..)
        | Event::RecallLifted
        | Event::JoinRefused(_)
        | Event::LeaveHastened(_)
        | Event::LeaveRefused(_)
        | Event::LeaveForced
        | Event::UnitReset(_) => Err(illegal(word, &event)),
    }
}

fn redeeming(ticket: Ticket, event: Event) -> Result<State, Illegal> {
    match event {
        Event::Leased(term, units) => {
            let units: BTreeMap<_, _> =
                units.into_iter().map(|u| (u.unit, (u, UnitUse::Joining))).collect();
            let held = Held {
                tickets: vec![ticket],
                term,
                awaited: units.len(),
                units,
                leaving: 0,
                change: Change::None,
                seams: VecDeque::new(),
                returns: 0,
                credits: Vec::new(),
                modifications: 0,
                changes: 0,
                untold: BTreeMap::new(),
                again: BTreeMap::new(),
                leave_by: None,
                refused: 0,
                forced: false,
                resetting: BTreeSet::new(),
                shrunk: None,
            };
            Ok(State::Joining { held })
        }
        Event::Refused(refusal) => Ok(State::Closed { outcome: Outcome::Refused(refusal) }),
        Event::CloseBegun => Ok(State::Closing { tickets: vec![ticket], credits: Vec::new() }),
        Event::SiteClosed(receipts) => Ok(after_site(Vec::new(), receipts)),
        Event::TermOver => Ok(State::Closed { outcome: Outcome::Unanswered }),
        Event::RedeemBegun
        | Event::Split
        | Event::Joined(..)
        | Event::ExtensionAsked(..)
        | Event::ExtensionGranted(_)
        | Event::ExtensionDenied
        | Event::Extended
        | Event::ReturnBegun(_)
        | Event::PartReturned(_)
        | Event::ReturnRefused
        | Event::ShrinkBegun
        | Event::Shrunk
        | Event::LeaveBegun(_)
        | Event::Left(_)
        | Event::Credited
        | Event::ModifyBegun(_)
        | Event::Modified(_)
        | Event::ModifyRefused
        | Event::Notified(_)
        | Event::RecallBegun(_)
        | Event::UnitsRecalled(..)
        | Event::RecallLifted
        | Event::JoinRefused(_)
        | Event::LeaveHastened(_)
        | Event::LeaveRefused(_)
        | Event::LeaveForced
        | Event::UnitReset(_) => Err(illegal("Redeeming", &event)),
    }
}

/// What a lease with units does, joined or not.
fn running(mut held: Held, event: Event, word: &'static str) -> Result<State, Illegal> {
    match event {
        Event::Joined(unit, usable) => {
            let to = if usable { UnitUse::Joined } else { UnitUse::Unusable };
            let joined = held.settle(unit, UnitUse::Joining, to);
            held.awaited -= usize::from(joined);
            if joined { Ok(in_use(held)) } else { Err(illegal(word, &event)) }
        }
        Event::Left(unit) => {
            let left = held.settle(unit, UnitUse::Leaving, UnitUse::Left);
            held.leaving -= usize::from(left);
            held.come_back(unit);
            if left { Ok(in_use(left_early(held))) } else { Err(illegal(word, &event)) }
        }
        Event::ShrinkBegun if !held.seams.is_empty() => {
            let victims = held.next_to_go();
            held.leave(&victims);
            held.seams.iter_mut().take(1).for_each(|seam| seam.begun = true);
            Ok(in_use(held))
        }
        Event::Shrunk if !held.seams.is_empty() => {
            let victims = held.next_to_go();
            held.shrink(&victims);
            Ok(in_use(left_early(held)))
        }
        Event::RecallBegun(units) => {
            held.leave(&units);
            Ok(in_use(held))
        }
        Event::UnitsRecalled(units, stay) => {
            held.recalled(&units, stay);
            Ok(in_use(left_early(held)))
        }
        Event::RecallLifted => {
            held.join_again();
            Ok(in_use(held))
        }
        Event::Credited => {
            held.credits.clear();
            Ok(in_use(held))
        }
        Event::LeaveBegun(then) => Ok(leave_all(held, then)),
        Event::SiteClosed(receipts) => Ok(after_site(held.credits, receipts)),
        Event::TermOver => Ok(at_end(held, Outcome::Ended)),
        Event::ExtensionAsked(..)
        | Event::ExtensionGranted(_)
        | Event::ExtensionDenied
        | Event::Extended
        | Event::ReturnBegun(_)
        | Event::PartReturned(_)
        | Event::ReturnRefused
        | Event::ModifyBegun(_)
        | Event::Modified(_)
        | Event::ModifyRefused => Ok(in_use(changing(held, event, word)?)),
        Event::Notified(_)
        | Event::JoinRefused(_)
        | Event::LeaveRefused(_)
        | Event::LeaveForced
        | Event::UnitReset(_) => Ok(in_use(driven(held, event, word)?)),
        Event::RedeemBegun
        | Event::Split
        | Event::Refused(_)
        | Event::Leased(..)
        | Event::ShrinkBegun
        | Event::Shrunk
        | Event::CloseBegun
        | Event::LeaveHastened(_) => Err(illegal(word, &event)),
    }
}

/// What the guest's driver has said, or is to do, of single units.
fn driven(mut held: Held, event: Event, word: &'static str) -> Result<Held, Illegal> {
    let done = match (&event, ()) {
        (Event::Notified(unit), ()) => held.untold.remove(unit).is_some(),
        (Event::JoinRefused(unit), ()) => held.refuse(*unit),
        (Event::LeaveRefused(unit), ()) => held.stay(*unit),
        (Event::UnitReset(unit), ()) => held.reset(*unit),
        (Event::LeaveForced, ()) => {
            held.forced = true;
            true
        }
        (_, ()) => false,
    };
    if done { Ok(held) } else { Err(illegal(word, &event)) }
}

/// One change at a time.
fn changing(mut held: Held, event: Event, word: &'static str) -> Result<Held, Illegal> {
    let change = std::mem::replace(&mut held.change, Change::None);
    match (event, change) {
        (Event::ExtensionAsked(number, victims), Change::None) => {
            held.change = Change::Requested { number, victims };
        }
        (Event::ExtensionGranted(ticket), Change::Requested { number, victims }) => {
            held.change = Change::Redeeming { ticket, number, victims };
        }
        (Event::ExtensionDenied, Change::Requested { .. } | Change::Redeeming { .. }) => {
            held.tickets.truncate(if mutant!(DenialCostsATicket) { 1 } else { usize::MAX });
        }
        (Event::Extended, Change::Redeeming { ticket, victims, .. }) => {
            held.extended(ticket, victims);
        }
        (Event::ReturnBegun(part), Change::None) => {
            let number = held.returns;
            held.returns += 1;
            if let Part::Units(units) = &part {
                held.leave(units);
            }
            held.change = Change::Leaving(PartReturn { number, part });
            held = left_early(held);
        }
        (Event::PartReturned(receipts), Change::Returning(PartReturn { part, .. })) => {
            held.returned(&part, receipts);
        }
        // As it was: what was left is joined again.
        (Event::ReturnRefused, Change::Returning(PartReturn { part, .. })) => {
            held.keep(&part);
        }
        // The guest's software learns only of changes to units that it has joined.
        (Event::ModifyBegun(configuration), Change::None) if held.awaited == 0 => {
            let number = held.modifications;
            held.modifications += 1;
            held.change = Change::Modifying { number, configuration };
        }
        (Event::Modified(units), Change::Modifying { .. }) => held.modified(units),
        (Event::ModifyRefused, Change::Modifying { .. }) => {}
        (event, _) => return Err(illegal(word, &event)),
    }
    Ok(held)
}

/// A part is on its way to the site once the guest has left its units.
fn left_early(mut held: Held) -> Held {
    if let Change::Leaving(part) = &held.change
        && held.leaving == 0
    {
        held.change = Change::Returning(part.clone());
    }
    held
}

/// Joining while a unit is about to join.
fn in_use(held: Held) -> State {
    if held.awaited > 0 { State::Joining { held } } else { State::Active { held } }
}

/// All units that were not left are to be left.
fn leave_all(mut held: Held, then: AfterLeave) -> State {
    for (_, usage) in held.units.values_mut() {
        if !matches!(usage, UnitUse::Left | UnitUse::Refused) {
            *usage = UnitUse::Leaving;
        }
    }
    held.leaving = 0;
    held.resetting.clear();
    held.untold.clear();
    held.awaited = held.waiting_to(UnitUse::Leaving).count();
    // Nothing was sent for it yet.
    if matches!(held.change, Change::Leaving(_)) {
        held.change = Change::None;
    }
    if held.awaited == 0 && then == AfterLeave::Close {
        return close(held);
    }
    State::Leaving { held, then }
}

/// A lease that drains: it closes once its last unit has left, if it is to.
fn draining(held: Held, then: AfterLeave) -> State {
    if held.awaited == 0 && then == AfterLeave::Close {
        close(held)
    } else {
        State::Leaving { held, then }
    }
}

fn leaving(mut held: Held, then: AfterLeave, event: Event) -> Result<State, Illegal> {
    match event {
        Event::Left(unit) => {
            let left = held.settle(unit, UnitUse::Leaving, UnitUse::Left);
            held.awaited -= usize::from(left);
            if left { Ok(draining(held, then)) } else { Err(illegal("Leaving", &event)) }
        }
        Event::Shrunk if !held.seams.is_empty() => {
            let victims = held.next_to_go();
            held.shrink(&victims);
            Ok(draining(held, then))
        }
        Event::UnitsRecalled(units, stay) => {
            held.recalled(&units, stay);
            Ok(draining(held, then))
        }
        Event::LeaveBegun(AfterLeave::Close) if then == AfterLeave::End => {
            Ok(State::Leaving { held, then: AfterLeave::Close })
        }
        Event::ExtensionAsked(..) | Event::ExtensionGranted(_) if then == AfterLeave::End => {
            Ok(State::Leaving { held: changing(held, event, "Leaving")?, then })
        }
        Event::Extended | Event::RecallLifted if then == AfterLeave::End => {
            called_back(held, event)
        }
        Event::LeaveRefused(unit) if then == AfterLeave::Close && held.may_stay(unit) => {
            held.call_back(false);
            Ok(in_use(left_early(held)))
        }
        Event::CloseBegun => Ok(close(held)),
        Event::SiteClosed(receipts) => Ok(after_site(held.credits, receipts)),
        Event::ExtensionDenied
            if matches!(held.change, Change::Requested { .. } | Change::Redeeming { .. }) =>
        {
            held.change = Change::None;
            Ok(State::Leaving { held, then })
        }
        Event::LeaveHastened(_) | Event::LeaveForced | Event::Credited => {
            Ok(State::Leaving { held: noted(held, &event), then })
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
        | Event::ExtensionAsked(..)
        | Event::ExtensionGranted(_)
        | Event::ExtensionDenied
        | Event::Extended
        | Event::ReturnBegun(_)
        | Event::PartReturned(_)
        | Event::ReturnRefused
        | Event::ShrinkBegun
        | Event::Shrunk
        | Event::LeaveBegun(_)
        | Event::ModifyBegun(_)
        | Event::Modified(_)
        | Event::ModifyRefused
        | Event::Notified(_)
        | Event::RecallBegun(_)
        | Event::RecallLifted
        | Event::JoinRefused(_)
        | Event::LeaveRefused(_)
        | Event::UnitReset(_) => Err(illegal("Leaving", &event)),
    }
}

/// What changes nothing but what is known of the units that drain.
fn noted(mut held: Held, event: &Event) -> Held {
    match (event, ()) {
        (Event::LeaveHastened(by), ()) => held.hasten(*by),
        (Event::LeaveForced, ()) => held.forced = true,
        (Event::Credited, ()) => held.credits.clear(),
        (_, ()) => {}
    }
    held
}

/// The extension came after all, or the recall that ended the lease before its term was withdrawn.
fn called_back(held: Held, event: Event) -> Result<State, Illegal> {
    let mut held =
        if event == Event::RecallLifted { held } else { changing(held, event, "Leaving")? };
    held.call_back(true);
    Ok(in_use(left_early(held)))
}

fn closing(credits: Vec<Receipt>, event: Event) -> Result<State, Illegal> {
    match event {
        Event::SiteClosed(receipts) => Ok(after_site(credits, receipts)),
        Event::Refused(refusal) => Ok(over(credits, Outcome::Refused(refusal))),
        Event::TermOver => Ok(State::Closed { outcome: Outcome::GivenBack }),
        Event::RedeemBegun
        | Event::Split
        | Event::Leased(..)
        | Event::Joined(..)
        | Event::ExtensionAsked(..)
        | Event::ExtensionGranted(_)
        | Event::ExtensionDenied
        | Event::Extended
        | Event::ReturnBegun(_)
        | Event::PartReturned(_)
        | Event::ReturnRefused
        | Event::ShrinkBegun
        | Event::Shrunk
        | Event::LeaveBegun(_)
        | Event::Left(_)
        | Event::CloseBegun
        | Event::Credited
        | Event::ModifyBegun(_)
        | Event::Modified(_)
        | Event::ModifyRefused
        | Event::Notified(_)
        | Event::RecallBegun(_)
        | Event::UnitsRecalled(..)
        | Event::RecallLifted
        | Event::JoinRefused(_)
        | Event::LeaveHastened(_)
        | Event::LeaveRefused(_)
        | Event::LeaveForced
        | Event::UnitReset(_) => Err(illegal("Closing", &event)),
    }
}

fn crediting(outcome: Outcome, event: Event) -> Result<State, Illegal> {
    match event {
        Event::Credited | Event::TermOver => Ok(State::Closed { outcome }),
        Event::RedeemBegun
        | Event::Split
        | Event::Refused(_)
        | Event::Leased(..)
        | Event::Joined(..)
        | Event::ExtensionAsked(..)
        | Event::ExtensionGranted(_)
        | Event::ExtensionDenied
        | Event::Extended
        | Event::ReturnBegun(_)
        | Event::PartReturned(_)
        | Event::ReturnRefused
        | Event::ShrinkBegun
        | Event::Shrunk
        | Event::LeaveBegun(_)
        | Event::Left(_)
        | Event::CloseBegun
        | Event::SiteClosed(_)
        | Event::ModifyBegun(_)
        | Event::Modified(_)
        | Event::ModifyRefused
        | Event::Notified(_)
        | Event::RecallBegun(_)
        | Event::UnitsRecalled(..)
        | Event::RecallLifted
        | Event::JoinRefused(_)
        | Event::LeaveHastened(_)
        | Event::LeaveRefused(_)
        | Event::LeaveForced
        | Event::UnitReset(_) => Err(illegal("Crediting", &event)),
    }
}

/// The site's last word has a receipt for every part that came back.
fn after_site(mut credits: Vec<Receipt>, receipts: Vec<Receipt>) -> State {
    credits.extend(receipts);
    let mut seen = BTreeSet::new();
    credits.retain(|receipt| seen.insert((receipt.what.link, receipt.what.number)));
    over(credits, Outcome::GivenBack)
}

/// Receipts go to the broker; without any there is nothing left to do.
fn over(receipts: Vec<Receipt>, outcome: Outcome) -> State {
    if receipts.is_empty() {
        State::Closed { outcome }
    } else {
        State::Crediting { receipts, outcome }
    }
}

/// A lease ends with its term, unless the site may have changed it and the guest does not know: then it must
/// be asked to close it.
fn at_end(held: Held, outcome: Outcome) -> State {
    match held.change {
        Change::Redeeming { .. } | Change::Returning(_) => close(held),
        Change::None | Change::Requested { .. } | Change::Leaving(_) | Change::Modifying { .. } => {
            over(held.credits, outcome)
        }
    }
}

fn close(held: Held) -> State {
    let Held { mut tickets, credits, .. } = held;
    if let Change::Redeeming { ticket, .. } = held.change {
        tickets.push(ticket);
    }
    State::Closing { tickets, credits }
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
            Self::ExtensionAsked(..) => "ExtensionAsked",
            Self::ExtensionGranted(_) => "ExtensionGranted",
            Self::ExtensionDenied => "ExtensionDenied",
            Self::Extended => "Extended",
            Self::ReturnBegun(_) => "ReturnBegun",
            Self::PartReturned(_) => "PartReturned",
            Self::ReturnRefused => "ReturnRefused",
            Self::ShrinkBegun => "ShrinkBegun",
            Self::Shrunk => "Shrunk",
            Self::LeaveBegun(_) => "LeaveBegun",
            Self::Left(_) => "Left",
            Self::CloseBegun => "CloseBegun",
            Self::SiteClosed(_) => "SiteClosed",
            Self::Credited => "Credited",
            Self::TermOver => "TermOver",
            Self::ModifyBegun(_) => "ModifyBegun",
            Self::Modified(_) => "Modified",
            Self::ModifyRefused => "ModifyRefused",
            Self::Notified(_) => "Notified",
            Self::RecallBegun(_) => "RecallBegun",
            Self::UnitsRecalled(..) => "UnitsRecalled",
            Self::RecallLifted => "RecallLifted",
            Self::JoinRefused(_) => "JoinRefused",
            Self::LeaveHastened(_) => "LeaveHastened",
            Self::LeaveRefused(_) => "LeaveRefused",
            Self::LeaveForced => "LeaveForced",
            Self::UnitReset(_) => "UnitReset",
        }
    }
}
