//! What a lease holds: tickets, units, and what is under way for them.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::num::NonZeroU32;

use serde::{Deserialize, Serialize};

use crate::driver::UnitId;
use crate::model::property::Properties;
use crate::model::time::{Term, Time};
use crate::ticket::Ticket;
use crate::ticket::receipt::Receipt;
use crate::wire::message::LeasedUnit;
use crate::wire::part::{Part, surplus};

/// What a service manager holds while its lease runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Held {
    /// The ticket that was redeemed first, then the extensions that were redeemed.
    pub tickets: Vec<Ticket>,
    /// From the start of the first to the end of the last.
    pub term: Term,
    /// The units.
    pub units: BTreeMap<UnitId, (LeasedUnit, UnitUse)>,
    /// How many of them are about to join, or to leave with all others.
    pub awaited: usize,
    /// How many of them are about to leave before the others.
    pub leaving: usize,
    /// What is under way to change it.
    pub change: Change,
    /// When it goes on with fewer units: the next first.
    pub seams: VecDeque<Seam>,
    /// The number of the next return.
    pub returns: u32,
    /// Receipts for parts, which the broker has yet to credit.
    pub credits: Vec<Receipt>,
    /// The number of the next modification.
    pub modifications: u32,
    /// How often units changed in use.
    pub changes: u32,
    /// Units whose change the guest's software has yet to take over, each with the number of the change.
    pub untold: BTreeMap<UnitId, u32>,
    /// How often a unit was joined again or its leave hastened, where that is more than never.
    pub again: BTreeMap<UnitId, u32>,
    /// When the units are to be left by, if that is before the lease ends.
    pub leave_by: Option<Time>,
    /// How many units the guest's driver refused.
    pub refused: usize,
    /// Whether the guest's driver may refuse to leave no unit.
    pub forced: bool,
    /// Units that are left in order to be joined again.
    pub resetting: BTreeSet<UnitId>,
    /// The last seam at which it went on with fewer units. Until then its site counts the others too.
    pub shrunk: Option<Time>,
}

/// An instant from which on a lease has fewer units.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seam {
    /// When the ticket before ends.
    pub at: Time,
    /// How many units go on.
    pub units: u32,
    /// Those that do not.
    pub victims: Vec<UnitId>,
    /// Whether the guest was to leave them.
    pub begun: bool,
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
    /// The guest's driver refused to join it, and has not touched it: it is neither used nor left.
    Refused,
}

/// What is under way to change a lease, one thing at a time (the ancestors' ActiveTicketed and its kin).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Change {
    /// Nothing.
    None,
    /// A broker was asked for an extension.
    Requested {
        /// The number of the request.
        number: u64,
        /// Of an extension for fewer units: those that go.
        victims: Vec<UnitId>,
    },
    /// The site was shown the new ticket.
    Redeeming {
        /// The ticket.
        ticket: Ticket,
        /// The number of the request it was cut for.
        number: u64,
        /// Of an extension for fewer units: those that go.
        victims: Vec<UnitId>,
    },
    /// The guest's software stops using the units that go back.
    Leaving(PartReturn),
    /// The site was asked to take a part back.
    Returning(PartReturn),
    /// The site was asked to change the configuration.
    Modifying {
        /// Counts the modifications of the lease.
        number: u32,
        /// All of the new configuration.
        configuration: Properties,
    },
}

/// A part that goes back to the site.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartReturn {
    /// Counts the returns of the lease.
    pub number: u32,
    /// What goes back.
    pub part: Part,
}

impl Change {
    /// Whether nothing is under way.
    pub fn is_none(&self) -> bool {
        matches!(self, Self::None)
    }

    /// When all units go back, if that is what the site was asked for.
    pub fn until(&self) -> Option<Time> {
        match self {
            Self::Returning(PartReturn { part: Part::Until(until), .. }) => Some(*until),
            Self::Returning(_)
            | Self::Leaving(_)
            | Self::None
            | Self::Requested { .. }
            | Self::Redeeming { .. }
            | Self::Modifying { .. } => None,
        }
    }

    /// How many units are on their way back to the site.
    pub fn units(&self) -> u32 {
        match self {
            Self::Leaving(PartReturn { part: Part::Units(units), .. })
            | Self::Returning(PartReturn { part: Part::Units(units), .. }) => {
                u32::try_from(units.len()).unwrap_or(u32::MAX)
            }
            Self::Returning(PartReturn { part: Part::Quantity(quantity), .. }) => quantity.get(),
            Self::Leaving(_)
            | Self::Returning(_)
            | Self::None
            | Self::Requested { .. }
            | Self::Redeeming { .. }
            | Self::Modifying { .. } => 0,
        }
    }

    /// What is under way in a word, behind the state's.
    pub(super) fn word(&self) -> Option<&'static str> {
        match self {
            Self::None => None,
            Self::Requested { .. } => Some("asking"),
            Self::Redeeming { .. } => Some("redeeming"),
            Self::Leaving(_) => Some("leaving"),
            Self::Returning(_) => Some("returning"),
            Self::Modifying { .. } => Some("modifying"),
        }
    }
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

    /// For how many units it goes on at its end.
    pub fn units_at_end(&self, now: u32) -> u32 {
        self.seams.back().map_or(now, |seam| seam.units)
    }

    /// The units that do not go on from the next seam.
    pub fn next_to_go(&self) -> Vec<UnitId> {
        let units = self.units.keys().copied();
        let seam = self.seams.front();
        seam.map_or_else(Vec::new, |seam| surplus(units, seam.units, &seam.victims))
    }

    /// Whether a unit goes at a seam, which is the next one.
    pub(super) fn goes_at(&self, seam: &Seam, unit: UnitId) -> bool {
        surplus(self.units.keys().copied(), seam.units, &seam.victims).contains(&unit)
    }

    /// Moves one unit on; `false` if it is not where it moves from.
    pub(super) fn settle(&mut self, unit: UnitId, from: UnitUse, to: UnitUse) -> bool {
        match self.units.get_mut(&unit) {
            Some((_, state)) if *state == from => {
                *state = to;
                true
            }
            _ => false,
        }
    }

    /// The guest is to leave some units before the others.
    pub(super) fn leave(&mut self, units: &[UnitId]) {
        for unit in units {
            self.resetting.remove(unit);
            if let Some((_, state)) = self.units.get_mut(unit)
                && matches!(state, UnitUse::Joined | UnitUse::Unusable)
            {
                *state = UnitUse::Leaving;
                self.leaving += 1;
                self.untold.remove(unit);
            }
        }
    }

    /// Some units are the site's again.
    pub(super) fn drop_units(&mut self, units: &[UnitId]) {
        for unit in units {
            self.untold.remove(unit);
            self.resetting.remove(unit);
            match self.units.remove(unit) {
                Some((_, UnitUse::Joining)) => self.awaited -= 1,
                Some((_, UnitUse::Leaving)) if self.leaving > 0 => self.leaving -= 1,
                Some((_, UnitUse::Leaving)) => self.awaited -= 1,
                Some((_, UnitUse::Refused)) => self.refused -= 1,
                Some((_, UnitUse::Joined | UnitUse::Unusable | UnitUse::Left)) | None => {}
            }
            self.again.remove(unit);
        }
    }

    /// A share has this size from now on.
    pub(super) fn shrink_share(&mut self, quantity: u32) {
        let Some(quantity) = NonZeroU32::new(quantity) else { return };
        for (unit, _) in self.units.values_mut() {
            unit.quantity = quantity;
        }
        self.changed();
    }

    /// The guest's software has to learn of changed units that it uses.
    pub(super) fn changed(&mut self) {
        self.changes += 1;
        let joined = self.units.iter().filter(|(_, (_, usage))| *usage == UnitUse::Joined);
        self.untold.extend(joined.map(|(&unit, _)| (unit, self.changes)));
    }

    /// It goes on without these units, or with less.
    pub(super) fn shrink(&mut self, victims: &[UnitId]) {
        self.drop_units(victims);
        let Some(seam) = self.seams.pop_front() else { return };
        self.shrunk = Some(seam.at);
        if self.is_share() {
            self.shrink_share(seam.units);
        }
    }

    /// The units have other properties.
    pub(super) fn modified(&mut self, units: Vec<LeasedUnit>) {
        for unit in units {
            if let Some((ours, _)) = self.units.get_mut(&unit.unit) {
                ours.properties = unit.properties;
            }
        }
        self.changed();
    }
    /// Some units are recalled, and the site's again, or a share is cut; a seam that leaves no unit out any
    /// more is none.
    pub(super) fn recalled(&mut self, units: &[UnitId], stay: u32) {
        self.drop_units(units);
        if self.is_share() && stay < self.quantity() {
            self.shrink_share(stay);
        }
        let mut most = self.quantity();
        self.seams.retain(|seam| {
            let shrinks = seam.units < most;
            most = most.min(seam.units);
            shrinks
        });
    }

    /// The guest joins units again that it left, but for those that go for another reason.
    pub(super) fn join_again(&mut self) {
        let shrinking = self.seams.front().is_some_and(|seam| seam.begun);
        let others = if shrinking { self.next_to_go() } else { Vec::new() };
        let part = match &self.change {
            Change::Leaving(part) | Change::Returning(part) => Some(part.part.clone()),
            Change::None
            | Change::Requested { .. }
            | Change::Redeeming { .. }
            | Change::Modifying { .. } => None,
        };
        for (unit, (_, usage)) in &mut self.units {
            let goes = others.contains(unit) || part.as_ref().is_some_and(|p| p.names(*unit));
            if *usage == UnitUse::Left && !goes {
                *usage = UnitUse::Joining;
                self.awaited += 1;
                called_again(&mut self.again, *unit);
            }
        }
    }

    /// The site does not take a part: what was left for it is joined again, and what was refused is unusable.
    pub(super) fn keep(&mut self, part: &Part) {
        for (unit, (_, usage)) in &mut self.units {
            match *usage {
                UnitUse::Left if part.names(*unit) => {
                    *usage = UnitUse::Joining;
                    self.awaited += 1;
                    called_again(&mut self.again, *unit);
                }
                UnitUse::Refused if part.names(*unit) => {
                    *usage = UnitUse::Unusable;
                    self.refused -= 1;
                }
                UnitUse::Joining
                | UnitUse::Joined
                | UnitUse::Unusable
                | UnitUse::Leaving
                | UnitUse::Left
                | UnitUse::Refused => {}
            }
        }
    }

    /// Whether a unit may stay if the guest's driver refuses to leave it: nobody else has set a time for it.
    pub(super) fn may_stay(&self, unit: UnitId) -> bool {
        let leaves = self.units.get(&unit).is_some_and(|(_, usage)| *usage == UnitUse::Leaving);
        let seam = self.seams.front().filter(|seam| seam.begun);
        let goes = seam.is_some_and(|seam| self.goes_at(seam, unit));
        leaves && !goes && !self.forced && self.leave_by.is_none()
    }

    /// Whether it may stay with the part that it goes back with.
    pub(super) fn part_may_stay(&self, unit: UnitId) -> bool {
        let Change::Leaving(PartReturn { part, .. }) = &self.change else { return false };
        part.names(unit) && self.may_stay(unit)
    }

    /// The guest's driver does not leave a unit of the part that goes back: the part stays, and what was left of it is
    /// joined again; `false` if it has to go.
    pub(super) fn stay(&mut self, unit: UnitId) -> bool {
        let Change::Leaving(PartReturn { part, .. }) = &self.change else { return false };
        if !self.part_may_stay(unit) {
            return false;
        }
        let part = part.clone();
        self.change = Change::None;
        for (unit, (_, usage)) in self.units.iter_mut().filter(|(unit, _)| part.names(**unit)) {
            if matches!(usage, UnitUse::Leaving | UnitUse::Left) {
                self.leaving -= usize::from(*usage == UnitUse::Leaving);
                *usage = UnitUse::Joining;
                self.awaited += 1;
                called_again(&mut self.again, *unit);
            }
        }
        true
    }

    /// How often a join or a leave of a unit was called for again.
    pub fn times_again(&self, unit: UnitId) -> u32 {
        self.again.get(&unit).copied().unwrap_or(0)
    }

    /// The guest's driver does not join a unit; `false` if it was not to.
    pub(super) fn refuse(&mut self, unit: UnitId) -> bool {
        let refused = self.settle(unit, UnitUse::Joining, UnitUse::Refused);
        if refused {
            self.awaited -= 1;
            self.refused += 1;
        }
        refused
    }

    /// A unit that could not be used is left in order to be joined again; `false` if it is not such a one.
    pub(super) fn reset(&mut self, unit: UnitId) -> bool {
        let begun = self.settle(unit, UnitUse::Unusable, UnitUse::Leaving);
        if begun {
            self.leaving += 1;
            self.resetting.insert(unit);
        }
        begun
    }

    /// A unit was left: it is joined again if that was its reset.
    pub(super) fn come_back(&mut self, unit: UnitId) {
        if self.resetting.remove(&unit) && self.settle(unit, UnitUse::Left, UnitUse::Joining) {
            self.awaited += 1;
            called_again(&mut self.again, unit);
        }
    }

    /// The units that the guest's driver refused.
    pub(super) fn refused_units(&self) -> Vec<UnitId> {
        self.waiting_to(UnitUse::Refused).copied().collect()
    }

    /// The units are to be left by an earlier instant.
    pub(super) fn hasten(&mut self, by: Time) {
        self.leave_by = Some(self.leave_by.map_or(by, |before| before.min(by)));
        for (unit, _) in self.units.iter().filter(|(_, (_, usage))| *usage == UnitUse::Leaving) {
            called_again(&mut self.again, *unit);
        }
    }

    /// The lease goes on, though the guest was leaving its units, at the end or before: they are joined again, but for
    /// those that do not go on from a seam that has begun, as it has at the end.
    pub(super) fn call_back(&mut self, at_end: bool) {
        self.seams.iter_mut().take(1).for_each(|seam| seam.begun |= at_end);
        let begun = self.seams.front().is_some_and(|seam| seam.begun);
        let going = if begun { self.next_to_go() } else { Vec::new() };
        (self.leave_by, self.leaving, self.awaited) = (None, 0, 0);
        for (unit, (_, usage)) in &mut self.units {
            match (*usage, going.contains(unit)) {
                (UnitUse::Leaving, true) => self.leaving += 1,
                (UnitUse::Leaving | UnitUse::Left, false) => {
                    *usage = UnitUse::Joining;
                    self.awaited += 1;
                    called_again(&mut self.again, *unit);
                }
                (
                    UnitUse::Joining
                    | UnitUse::Joined
                    | UnitUse::Unusable
                    | UnitUse::Left
                    | UnitUse::Refused,
                    _,
                ) => {}
            }
        }
    }

    /// The site has a part again.
    pub(super) fn returned(&mut self, part: &Part, receipts: Vec<Receipt>) {
        match part {
            Part::Units(units) => self.drop_units(units),
            Part::Until(until) => {
                self.term = self.term.until(*until).unwrap_or(self.term);
                self.seams.retain(|seam| seam.at < *until);
                self.tickets.retain(|ticket| ticket.bottom().term.start() < *until);
            }
            Part::Quantity(quantity) => {
                self.shrink_share(self.quantity().saturating_sub(quantity.get()))
            }
            Part::Rights { .. } => {}
        }
        self.credits.extend(receipts);
    }

    /// The new ticket continues the lease.
    pub(super) fn extended(&mut self, ticket: Ticket, victims: Vec<UnitId>) {
        let (link, seam) = (ticket.bottom(), self.term.end());
        let reduced = self.is_share() && link.units.get() < self.units_at_end(self.quantity());
        if reduced || !victims.is_empty() {
            self.seams.push_back(Seam { at: seam, units: link.units.get(), victims, begun: false });
        }
        self.term = Term::new(self.term.start(), link.term.end()).unwrap_or(self.term);
        self.tickets.push(ticket);
    }
}

/// The guest's driver is called on a unit once more: what it is at for the calls before counts no more.
fn called_again(again: &mut BTreeMap<UnitId, u32>, unit: UnitId) {
    *again.entry(unit).or_default() += 1;
}
