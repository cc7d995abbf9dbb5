//! The life of a group: the leases of one request, which assemble together or not at all.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::machine::{Held, State as LeaseState};
use super::request::{Purpose, Request};
use super::sequence::After;
use super::{Output, ServiceManager, Timer};
use crate::actor::Emit as _;
use crate::actor::fact::BadFact;
use crate::actor::machine::Illegal;
use crate::model::slice::LeaseId;
use crate::model::time::{Span, Time};
use crate::mutants::mutant;
use crate::service_manager::facts::{GroupBroken, GroupWhole};
use crate::ticket::Ticket;
use crate::wire::request::Item;

/// How long after its start a lease may take to get its units, unless the request says otherwise.
pub const ASSEMBLE: Span = Span::MINUTE.times(15);

/// What becomes of the tickets of a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Handling {
    /// Whether its leases share one fate for life: with one of them, all are given back.
    pub bundle: bool,
    /// How long after its start a lease may take to get its units before all are given back.
    pub assemble: Span,
    /// Whether its tickets are kept, and redeemed by command only.
    pub keep_tickets: bool,
    /// What has to be in use before they are redeemed, or their units joined.
    #[serde(default)]
    pub after: Vec<After>,
}

impl Default for Handling {
    fn default() -> Self {
        Self { bundle: false, assemble: ASSEMBLE, keep_tickets: false, after: Vec::new() }
    }
}

/// Where a group is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum State {
    /// Not all of its leases have their units yet.
    Assembling,
    /// All of them had, or have.
    Whole,
    /// Its leases are given back.
    GivingBack {
        /// Why.
        why: Why,
    },
    /// All of them are over.
    Over,
}

/// Why a group is given back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Why {
    /// This lease was lost or given back.
    Lost(LeaseId),
    /// This lease did not get its units in time.
    Late(LeaseId),
}

/// What happens to a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The last lease got its units.
    Complete,
    /// It cannot be whole any more.
    Broke(Why),
    /// The last lease is over.
    Ended,
}

impl State {
    /// The state in a word.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Assembling => "Assembling",
            Self::Whole => "Whole",
            Self::GivingBack { .. } => "GivingBack",
            Self::Over => "Over",
        }
    }

    /// The next state.
    pub fn next(self, event: Event) -> Result<Self, Illegal> {
        match (self, event) {
            (Self::Assembling, Event::Complete) => Ok(Self::Whole),
            (Self::Assembling | Self::Whole, Event::Broke(why)) => Ok(Self::GivingBack { why }),
            (Self::Assembling | Self::Whole | Self::GivingBack { .. }, Event::Ended) => {
                Ok(Self::Over)
            }
            (state @ (Self::Whole | Self::GivingBack { .. }), event @ Event::Complete)
            | (state @ Self::GivingBack { .. }, event @ Event::Broke(_))
            | (state @ Self::Over, event @ (Event::Complete | Event::Broke(_) | Event::Ended)) => {
                Err(Illegal { machine: "group", state: state.word(), event: event.word() })
            }
        }
    }
}

impl Event {
    /// The event in a word.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Complete => "Complete",
            Self::Broke(_) => "Broke",
            Self::Ended => "Ended",
        }
    }
}

/// A group with what its state does not carry.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Group {
    state: State,
    bundle: bool,
    /// What each item must keep.
    items: Vec<Quorum>,
    members: BTreeMap<LeaseId, Member>,
    /// The members without units yet, by the time at which they must have them.
    awaited: BTreeSet<(Time, LeaseId)>,
    /// The first member whose loss left an item with too few units.
    lost: Option<LeaseId>,
    /// How many members are not over.
    live: usize,
    /// How many members are to be given back if the group breaks.
    held: usize,
}

/// The units of an item: how few will do, and how many its leases have or may get.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Quorum {
    needed: u32,
    left: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Member {
    /// The item that it counts for. One that was added later counts for none until it has units.
    item: Option<u16>,
    units: u32,
    due: Time,
    standing: Standing,
}

/// What a member is to its group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Standing {
    /// It has no units yet.
    Awaited,
    /// It has its units, or its ticket is kept.
    Up,
    /// It cannot be given back: its ticket was split.
    Split,
    /// It ended with its term.
    Ended,
    /// It was lost or given back before.
    Lost,
}

impl Standing {
    fn is_gone(self) -> bool {
        matches!(self, Self::Ended | Self::Lost)
    }
}

/// What a lease's new state means to its group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Turn {
    standing: Standing,
    units: Option<u32>,
    over: bool,
}

impl Turn {
    /// What a state means; `ended` if the term of the lease is over.
    pub(super) fn of(state: &LeaseState, held: bool, ended: bool) -> Self {
        let units = state.held().map(Held::quantity);
        let standing = match state {
            LeaseState::Ticketed { split: true, .. } => Standing::Split,
            LeaseState::Redeeming { .. } => Standing::Awaited,
            LeaseState::Ticketed { .. }
            | LeaseState::Joining { .. }
            | LeaseState::Active { .. }
            | LeaseState::Leaving { .. }
            | LeaseState::Closing { .. }
            | LeaseState::Crediting { .. }
            | LeaseState::Closed { .. } => match (held, ended) {
                (true, _) => Standing::Up,
                (false, true) => Standing::Ended,
                (false, false) => Standing::Lost,
            },
        };
        Self { standing, units, over: matches!(state, LeaseState::Closed { .. }) }
    }
}

impl Group {
    /// Whether its leases share one fate for life.
    pub(super) fn is_bundle(&self) -> bool {
        self.bundle
    }

    /// The group of these tickets, each with the lease that it becomes and its item.
    fn of(
        items: &[Item],
        handling: &Handling,
        tickets: impl Iterator<Item = (LeaseId, u16, Ticket)>,
        at: Time,
    ) -> Self {
        // What no ticket is for is not missed: another alternative was met, or it is optional.
        let quorum = |_: &Item| Quorum { needed: 0, left: 0 };
        let mut group = Self {
            state: State::Assembling,
            bundle: handling.bundle && !mutant!(BundleForgotten),
            items: items.iter().map(quorum).collect(),
            members: BTreeMap::new(),
            awaited: BTreeSet::new(),
            lost: None,
            live: 0,
            held: 0,
        };
        for (id, item, ticket) in tickets {
            let link = ticket.bottom();
            let due = link.term.start().max(at).plus(handling.assemble);
            let standing = if handling.keep_tickets { Standing::Up } else { Standing::Awaited };
            let units = link.units.get();
            group.add(id, Member { item: Some(item), units, due, standing });
            let wanted = items.get(usize::from(item));
            if let Some(quorum) = group.items.get_mut(usize::from(item)) {
                quorum.left = quorum.left.saturating_add(units);
                quorum.needed = match wanted {
                    // A path with an edge less is none.
                    Some(item) if item.joins().is_some() => quorum.left,
                    Some(item) if !item.optional => item.min_units.get(),
                    Some(_) | None => 0,
                };
            }
        }
        // Of an offer that was accepted there may be less than was asked for.
        for (item, quorum) in items.iter().zip(&mut group.items) {
            quorum.needed = if item.optional { 0 } else { quorum.needed.min(quorum.left) };
        }
        group
    }

    /// The group of a lease that had none.
    fn around(id: LeaseId, units: u32) -> Self {
        let mut group = Self {
            state: State::Whole,
            bundle: false,
            items: vec![Quorum { needed: units, left: units }],
            members: BTreeMap::new(),
            awaited: BTreeSet::new(),
            lost: None,
            live: 0,
            held: 0,
        };
        group.add(id, Member { item: Some(0), units, due: Time::MIN, standing: Standing::Up });
        group
    }

    fn add(&mut self, id: LeaseId, member: Member) {
        if member.item.is_some() && member.standing == Standing::Awaited {
            self.awaited.insert((member.due, id));
        }
        self.live += 1;
        self.held += 1;
        self.members.insert(id, member);
    }

    /// Follows what became of a member.
    fn follow(&mut self, id: LeaseId, turn: Turn) {
        let Some(member) = self.members.get_mut(&id) else { return };
        let old = std::mem::replace(&mut member.standing, turn.standing);
        if turn.standing != Standing::Awaited {
            self.awaited.remove(&(member.due, id));
        }
        if let (Standing::Awaited, Standing::Up) = (old, turn.standing) {
            let units = turn.units.unwrap_or(member.units);
            let short = member.units.saturating_sub(units);
            member.units = units;
            match member.item.and_then(|item| self.items.get_mut(usize::from(item))) {
                Some(quorum) => quorum.left = quorum.left.saturating_sub(short),
                None => {
                    member.item = u16::try_from(self.items.len()).ok();
                    self.items.push(Quorum { needed: units, left: units });
                }
            }
        }
        let gives_back = |standing| matches!(standing, Standing::Awaited | Standing::Up);
        if gives_back(old) && !gives_back(turn.standing) {
            self.held -= 1;
        }
        if turn.standing == Standing::Lost && !old.is_gone() {
            let item = member.item.and_then(|item| self.items.get_mut(usize::from(item)));
            if let Some(quorum) = item {
                quorum.left = quorum.left.saturating_sub(member.units);
                if quorum.left < quorum.needed && !mutant!(LossesDoNotCount) {
                    self.lost = self.lost.or(Some(id));
                }
            }
        }
        if turn.over {
            self.live -= 1;
        }
    }

    /// What is to be decided now.
    fn decision(&self, now: Time) -> Option<Event> {
        match self.state {
            State::Assembling => match (self.lost, self.awaited.first()) {
                (Some(lost), _) => Some(Event::Broke(Why::Lost(lost))),
                (None, None) => Some(Event::Complete),
                (None, Some(&(due, late))) => (due <= now).then_some(Event::Broke(Why::Late(late))),
            },
            State::Whole if self.bundle => self.lost.map(|lost| Event::Broke(Why::Lost(lost))),
            State::Whole | State::GivingBack { .. } | State::Over => None,
        }
    }

    /// When the next decision, or the return of a member, is due.
    fn due(&self, at: Time) -> Option<Time> {
        let giving_back = matches!(self.state, State::GivingBack { .. }) && self.held > 0;
        let giving_back = giving_back && !mutant!(SiblingsStay);
        if giving_back || self.decision(Time::MIN).is_some() {
            return Some(at);
        }
        let first = self.awaited.first().filter(|_| self.state == State::Assembling);
        first.map(|&(due, _)| due).filter(|_| !mutant!(AssemblesForEver))
    }

    /// The members that are to be given back with the others.
    fn to_give_back(&self) -> Vec<LeaseId> {
        let members = self.members.iter();
        let held = members
            .filter(|(_, member)| matches!(member.standing, Standing::Awaited | Standing::Up));
        let leases = held.map(|(&id, _)| id);
        leases.collect()
    }
}

impl ServiceManager {
    /// Where a group is in its life.
    pub fn group(&self, number: u64) -> Option<State> {
        self.state.groups.get(&number).map(|group| group.state)
    }

    /// All groups that are remembered.
    pub fn groups(&self) -> impl Iterator<Item = (u64, State)> {
        self.state.groups.iter().map(|(&number, group)| (number, group.state))
    }

    /// The leases of the group that a lease belongs to; itself alone if there is none.
    pub fn group_members(&self, id: LeaseId) -> Vec<LeaseId> {
        let group = self.state.leases.get(&id).and_then(|lease| lease.group);
        let group = group.and_then(|number| self.state.groups.get(&number));
        group.map_or_else(|| vec![id], |group| group.members.keys().copied().collect())
    }

    /// The number of the group that a lease belongs to.
    pub fn group_of(&self, id: LeaseId) -> Option<u64> {
        self.state.leases.get(&id)?.group
    }

    /// The item of its group's request that a lease is for: of one that was added, that of the lease which it adds to.
    pub(super) fn item_of(&self, mut id: LeaseId) -> Option<u16> {
        while let Some(Request { purpose: Purpose::Grow(grown), .. }) =
            self.state.requests.get(&id.number)
        {
            id = *grown;
        }
        self.state.groups.get(&self.group_of(id)?)?.members.get(&id)?.item
    }

    /// Something about a group is due: a decision, or its leases are to be given back.
    pub(super) fn group_due(&mut self, now: Time, number: u64, out: &mut Output) {
        let Some(group) = self.state.groups.get(&number) else {
            return self.state.timers.set(Timer::Group(number), None);
        };
        match group.decision(now) {
            Some(Event::Complete) => self.emit(now, GroupWhole { group: number }, out),
            Some(Event::Broke(why)) => self.emit(now, GroupBroken { group: number, why }, out),
            Some(Event::Ended) | None => {
                for lease in group.to_give_back() {
                    if let Err(cause) = self.close(now, lease, out) {
                        out.problems.push(crate::actor::effect::Problem::Command(cause));
                    }
                }
            }
        }
    }

    /// Puts the leases of a request in a group, if there is something to keep together.
    pub(super) fn keep_together(
        &mut self,
        at: Time,
        number: u64,
        leases: &[(LeaseId, u16, Ticket)],
    ) {
        let Some(request) = self.state.requests.get(&number) else { return };
        let (items, handling) = (&request.wanted.items, &request.handling);
        if let Purpose::Grow(grown) = request.purpose {
            for (id, _, ticket) in leases {
                self.join_group(at, *id, grown, ticket);
            }
            return;
        }
        if leases.len() < 2 && !handling.bundle {
            return;
        }
        let group = Group::of(items, handling, leases.iter().cloned(), at);
        self.state.groups.insert(number, group);
        for (id, ..) in leases {
            if let Some(lease) = self.state.leases.get_mut(id) {
                lease.group = Some(number);
            }
        }
        self.refresh_group(number, at);
    }

    /// A further lease joins the group of one that ends with it.
    fn join_group(&mut self, at: Time, id: LeaseId, grown: LeaseId, ticket: &Ticket) {
        let Some(lease) = self.state.leases.get_mut(&grown) else { return };
        if lease.term.end() != ticket.bottom().term.end() {
            return;
        }
        let number = *lease.group.get_or_insert(grown.number);
        let units = lease.units;
        let groups = &mut self.state.groups;
        let group = groups.entry(number).or_insert_with(|| Group::around(grown, units));
        let (units, standing) = (ticket.bottom().units.get(), Standing::Awaited);
        group.add(id, Member { item: None, units, due: Time::MAX, standing });
        if let Some(lease) = self.state.leases.get_mut(&id) {
            lease.group = Some(number);
        }
        self.refresh_group(number, at);
    }

    /// Moves a group on by its own decision.
    pub(super) fn step_group(
        &mut self,
        at: Time,
        number: u64,
        event: Event,
    ) -> Result<(), BadFact> {
        let missing = || BadFact::Missing { kind: "group", what: number.to_string() };
        let group = self.state.groups.get_mut(&number).ok_or_else(missing)?;
        group.state = group.state.next(event)?;
        self.refresh_group(number, at);
        Ok(())
    }

    /// Follows what became of a lease.
    pub(super) fn group_follows(
        &mut self,
        at: Time,
        id: LeaseId,
        turn: Turn,
    ) -> Result<(), BadFact> {
        let number = self.state.leases.get(&id).and_then(|lease| lease.group);
        let Some(number) = number else { return Ok(()) };
        let Some(group) = self.state.groups.get_mut(&number) else { return Ok(()) };
        group.follow(id, turn);
        if group.live == 0 {
            group.state = group.state.next(Event::Ended)?;
        }
        self.refresh_group(number, at);
        Ok(())
    }

    /// Forgets a member; with the last one the group is forgotten.
    pub(super) fn forget_member(&mut self, number: u64, id: LeaseId) {
        let Some(group) = self.state.groups.get_mut(&number) else { return };
        group.members.remove(&id);
        if group.members.is_empty() {
            self.state.groups.remove(&number);
            self.state.timers.set(Timer::Group(number), None);
        }
    }

    fn refresh_group(&mut self, number: u64, at: Time) {
        let due = self.state.groups.get(&number).and_then(|group| group.due(at));
        self.state.timers.set(Timer::Group(number), due);
    }
}
