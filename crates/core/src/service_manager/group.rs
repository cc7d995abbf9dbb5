//! The life of a group: the leases of one request, which assemble together or not at all.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::joint::Joint;
use super::machine::{Held, State as LeaseState};
use super::request::{Purpose, Request};
use super::sequence::After;
use super::{Output, ServiceManager, Timer};
use crate::actor::Emit as _;
use crate::actor::fact::BadFact;
use crate::actor::machine::Illegal;
use crate::model::identity::ActorId;
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
    /// Several brokers are asked to hold its items.
    Holding,
    /// All of them hold: the tickets are asked for.
    Accepting,
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
    /// A broker does not hold what this request asks for, or not in time.
    NotHeld(u64),
    /// A broker did not grant what it held for this request, or not in time.
    NotGranted(u64),
    /// What is held for items that belong apart comes from one site.
    NotApart,
    /// Its user gave it up.
    GivenUp,
}

/// What happens to a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// All brokers hold its items.
    Held,
    /// All brokers sent their tickets.
    Granted,
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
            Self::Holding => "Holding",
            Self::Accepting => "Accepting",
            Self::Assembling => "Assembling",
            Self::Whole => "Whole",
            Self::GivingBack { .. } => "GivingBack",
            Self::Over => "Over",
        }
    }

    /// The next state.
    pub fn next(self, event: Event) -> Result<Self, Illegal> {
        match (self, event) {
            (Self::Holding, Event::Held) => Ok(Self::Accepting),
            (Self::Accepting, Event::Granted) => Ok(Self::Assembling),
            (Self::Assembling, Event::Complete) => Ok(Self::Whole),
            (
                Self::Holding | Self::Accepting | Self::Assembling | Self::Whole,
                Event::Broke(why),
            )
            // There is to be no further attempt.
            | (Self::GivingBack { .. }, Event::Broke(why @ Why::GivenUp)) => {
                Ok(Self::GivingBack { why })
            }
            (Self::Assembling | Self::Whole | Self::GivingBack { .. }, Event::Ended) => {
                Ok(Self::Over)
            }
            (state @ Self::Holding, event @ (Event::Granted | Event::Complete | Event::Ended))
            | (state @ Self::Accepting, event @ (Event::Held | Event::Complete | Event::Ended))
            | (state @ Self::Assembling, event @ (Event::Held | Event::Granted))
            | (
                state @ (Self::Whole | Self::GivingBack { .. }),
                event @ (Event::Held | Event::Granted | Event::Complete),
            )
            | (state @ Self::GivingBack { .. }, event @ Event::Broke(_))
            | (
                state @ Self::Over,
                event @ (Event::Held
                | Event::Granted
                | Event::Complete
                | Event::Broke(_)
                | Event::Ended),
            ) => Err(Illegal { machine: "group", state: state.word(), event: event.word() }),
        }
    }
}

impl Event {
    /// The event in a word.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Held => "Held",
            Self::Granted => "Granted",
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
    /// What it asks of several brokers, if it does.
    joint: Option<Box<Joint>>,
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
    site: Option<ActorId>,
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

    /// Whether such a member is to be given back with the others.
    fn gives_back(self) -> bool {
        matches!(self, Self::Awaited | Self::Up)
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

    /// A group without leases.
    fn new(state: State, items: usize, bundle: bool) -> Self {
        Self {
            state,
            bundle: bundle && !mutant!(BundleForgotten),
            // What no ticket is for is not missed: another alternative was met, or it is optional.
            items: vec![Quorum { needed: 0, left: 0 }; items],
            members: BTreeMap::new(),
            awaited: BTreeSet::new(),
            lost: None,
            live: 0,
            held: 0,
            joint: None,
        }
    }

    /// The group of what is asked of several brokers.
    pub(super) fn holding(joint: Joint) -> Self {
        let mut group = Self::new(State::Holding, joint.items().len(), joint.handling().bundle);
        group.joint = Some(Box::new(joint));
        group
    }

    /// Takes in what tickets become, each with the lease and its item.
    fn take(
        &mut self,
        items: &[Item],
        handling: &Handling,
        tickets: impl Iterator<Item = (LeaseId, u16, Ticket)>,
        at: Time,
    ) {
        for (id, item, ticket) in tickets {
            let link = ticket.bottom();
            let due = link.term.start().max(at).plus(handling.assemble);
            // Of several brokers all tickets are kept until the last one is there.
            let kept = handling.keep_tickets;
            let standing = if kept { Standing::Up } else { Standing::Awaited };
            let (units, site) = (link.units.get(), Some(ticket.site()));
            self.add(id, Member { item: Some(item), units, due, standing, site });
            let wanted = items.get(usize::from(item));
            if let Some(quorum) = self.items.get_mut(usize::from(item)) {
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
        for (item, quorum) in items.iter().zip(&mut self.items) {
            quorum.needed = if item.optional { 0 } else { quorum.needed.min(quorum.left) };
        }
    }

    /// All tickets of several brokers are there: its leases have the time to get their units from now on.
    fn assembles_from(&mut self, at: Time) {
        let Some(assemble) = self.joint.as_ref().map(|joint| joint.handling().assemble) else {
            return;
        };
        self.awaited.clear();
        for (id, member) in &mut self.members {
            member.due = member.due.max(at.plus(assemble));
            if member.item.is_some() && member.standing == Standing::Awaited {
                self.awaited.insert((member.due, *id));
            }
        }
    }

    /// The group of a lease that had none.
    fn around(id: LeaseId, units: u32) -> Self {
        let mut group = Self::new(State::Whole, 0, false);
        group.items.push(Quorum { needed: units, left: units });
        let (due, standing) = (Time::MIN, Standing::Up);
        group.add(id, Member { item: Some(0), units, due, standing, site: None });
        group
    }

    pub(super) fn state(&self) -> State {
        self.state
    }

    pub(super) fn joint(&self) -> Option<&Joint> {
        self.joint.as_deref()
    }

    pub(super) fn joint_mut(&mut self) -> Option<&mut Joint> {
        self.joint.as_deref_mut()
    }

    /// The first member whose loss left too few units.
    pub(super) fn lost(&self) -> Option<LeaseId> {
        self.lost
    }

    /// The members without units yet.
    pub(super) fn awaited(&self) -> impl Iterator<Item = LeaseId> {
        self.awaited.iter().map(|&(_, id)| id)
    }

    /// The site of a member.
    pub(super) fn site_of(&self, id: LeaseId) -> Option<ActorId> {
        self.members.get(&id)?.site
    }

    fn add(&mut self, id: LeaseId, member: Member) {
        if member.item.is_some() && member.standing == Standing::Awaited {
            self.awaited.insert((member.due, id));
        }
        self.live += 1;
        self.held += usize::from(member.standing.gives_back());
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
        if old.gives_back() && !turn.standing.gives_back() {
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
            State::Holding
            | State::Accepting
            | State::Whole
            | State::GivingBack { .. }
            | State::Over => None,
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
        let held = members.filter(|(_, member)| member.standing.gives_back());
        held.map(|(&id, _)| id).collect()
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
        let turn = self.joint_turn(number, now).filter(|(due, _)| *due <= now);
        match (group.decision(now), turn) {
            (Some(Event::Complete), _) => self.emit(now, GroupWhole { group: number }, out),
            (Some(Event::Broke(why)), _) => self.emit(now, GroupBroken { group: number, why }, out),
            (_, Some((_, turn))) => self.take_turn(now, number, turn, out),
            (_, None) => {
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
        if self.state.parts.contains_key(&number) {
            return self.take_part(at, number, leases);
        }
        if leases.len() < 2 && !handling.bundle {
            return;
        }
        let mut group = Group::new(State::Assembling, items.len(), handling.bundle);
        group.take(items, handling, leases.iter().cloned(), at);
        self.state.groups.insert(number, group);
        self.enrol(number, leases, at);
    }

    /// The leases of one of several brokers join the group of them all.
    fn take_part(&mut self, at: Time, number: u64, leases: &[(LeaseId, u16, Ticket)]) {
        let Some(&of) = self.state.parts.get(&number) else { return };
        let Some(group) = self.state.groups.get_mut(&of) else { return };
        let Some(joint) = group.joint.take() else { return };
        let whole = joint.of_whole(number, leases).into_iter();
        group.take(joint.items(), joint.handling(), whole, at);
        group.joint = Some(joint);
        self.enrol(of, leases, at);
    }

    /// What comes of a part that was given up is waited for until it is gone.
    pub(super) fn take_unwanted(
        &mut self,
        at: Time,
        number: u64,
        leases: &[(LeaseId, u16, Ticket)],
    ) {
        let Some(&of) = self.state.parts.get(&number) else { return };
        let Some(group) = self.state.groups.get_mut(&of) else { return };
        for (id, _, ticket) in leases {
            let (units, site) = (ticket.bottom().units.get(), Some(ticket.site()));
            let (due, standing) = (Time::MAX, Standing::Lost);
            group.add(*id, Member { item: None, units, due, standing, site });
        }
        self.enrol(of, leases, at);
    }

    fn enrol(&mut self, number: u64, leases: &[(LeaseId, u16, Ticket)], at: Time) {
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
        let site = Some(ticket.site());
        group.add(id, Member { item: None, units, due: Time::MAX, standing, site });
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
        if event == Event::Granted {
            group.assembles_from(at);
        }
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
        self.end_group(number, at)
    }

    /// Follows what became of a request that is one of several.
    pub(super) fn part_follows(&mut self, number: u64, at: Time) -> Result<(), BadFact> {
        let group = self.state.parts.get(&number).copied();
        group.map_or(Ok(()), |group| self.end_group(group, at))
    }

    /// A group is over with its last lease and its last request.
    pub(super) fn end_group(&mut self, number: u64, at: Time) -> Result<(), BadFact> {
        let Some(group) = self.state.groups.get(&number) else { return Ok(()) };
        let mut parts = group.joint().into_iter().flat_map(Joint::numbers);
        let over = group.live == 0
            && !matches!(group.state, State::Holding | State::Accepting | State::Over)
            && !parts.any(|part| self.open_request(part).is_some());
        if over && let Some(group) = self.state.groups.get_mut(&number) {
            group.state = group.state.next(Event::Ended)?;
        }
        self.refresh_group(number, at);
        Ok(())
    }

    /// Forgets a member; with the last one the group is forgotten.
    pub(super) fn forget_member(&mut self, number: u64, id: LeaseId) {
        if let Some(group) = self.state.groups.get_mut(&number) {
            group.members.remove(&id);
        }
        self.forget_empty(number);
    }

    /// Forgets a group of which no lease and no request is remembered.
    pub(super) fn forget_empty(&mut self, number: u64) {
        let Some(group) = self.state.groups.get(&number) else { return };
        let mut parts = group.joint().into_iter().flat_map(Joint::numbers);
        if group.members.is_empty() && !parts.any(|part| self.state.parts.contains_key(&part)) {
            self.state.groups.remove(&number);
            self.state.timers.set(Timer::Group(number), None);
        }
    }

    pub(super) fn refresh_group(&mut self, number: u64, at: Time) {
        let group = self.state.groups.get(&number);
        let due = group.and_then(|group| group.due(at));
        // What is due at once comes before all else that is, be it that everything has ended meanwhile.
        let first = group.and_then(Group::joint).map_or(at, Joint::begun);
        let turn = self.joint_turn(number, at).map(|(turn, _)| turn.max(first));
        let due = [due, turn].into_iter().flatten().min();
        self.state.timers.set(Timer::Group(number), due);
    }
}
