//! Leases in sequence: some are redeemed, or their units joined, only once the units of others are in use.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::consult::{ANSWER_WITHIN, Consult};
use super::machine::{AfterLeave, State};
use super::{Lease, Output, ServiceManager, Timer, is_live};
use crate::actor::Emit as _;
use crate::model::property::Properties;
use crate::model::slice::LeaseId;
use crate::model::time::Time;
use crate::mutants::mutant;
use crate::service_manager::facts::{CloseBegun, Fact, GateReached, LeaveBegun, Unblocked};
use crate::wire::message::MAX_CONFIGURATION;

/// The most that a request may wait for.
pub const MAX_AFTER: usize = 64;

/// The property that every unit has: its number at its site.
const UNIT: &str = "unit";

/// What has to be in use before leases of a request go on.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct After {
    /// The item of the request whose leases wait; those of all items unless set.
    #[serde(default)]
    pub item: Option<u16>,
    /// What they wait for.
    pub on: On,
    /// What waits.
    pub gate: Gate,
}

/// What leases wait for: that each of these has had all of its units in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum On {
    /// The leases of an earlier request.
    Request(u64),
    /// The leases of an item of the same request.
    Item(u16),
    /// The word of the service manager's mapper, which is asked once all else is in use.
    Mapper,
}

/// What a lease does only after others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Gate {
    /// Its ticket is shown to the site.
    Redeem,
    /// Its units are joined.
    Join,
}

impl Gate {
    /// The gate in a word.
    pub fn word(self) -> &'static str {
        match self {
            Self::Redeem => "redeem",
            Self::Join => "join",
        }
    }
}

/// Where a lease stands in its sequence.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Sequence {
    /// The item of its request that it was granted for.
    pub(super) item: u16,
    /// The leases that it waits for: the number of their request, and their item if not all count.
    pub(super) waits: BTreeMap<Gate, BTreeSet<(u64, Option<u16>)>>,
    /// The gates at which its mapper is asked.
    pub(super) consults: BTreeMap<Gate, Consult>,
    /// What its mapper adds to the properties of its units, for the guest's driver.
    pub(super) told: Properties,
    /// Whether its mapper has given it up.
    pub(super) given_up: bool,
    /// Whether all of its units have been in use.
    used: bool,
}

impl Sequence {
    /// That of a lease of an item of a request.
    pub(super) fn of(number: u64, item: u16, after: &[After]) -> Self {
        let mut waits: BTreeMap<Gate, BTreeSet<_>> = BTreeMap::new();
        let mut consults = BTreeMap::new();
        for After { item: who, on, gate } in after {
            let on = match *on {
                // All items but the one that they wait for.
                On::Item(own) if own == item => continue,
                On::Item(other) => Some((number, Some(other))),
                On::Request(other) => Some((other, None)),
                On::Mapper => None,
            };
            if who.is_none_or(|who| who == item) {
                waits.entry(*gate).or_default().extend(on);
                if on.is_none() {
                    consults.insert(*gate, Consult::Wanted);
                }
            }
        }
        Self { item, waits, consults, ..Self::default() }
    }

    /// The gate at which its mapper is asked, and until when.
    pub fn consulted(&self) -> Option<(Gate, Time)> {
        self.consults.iter().find_map(|(&gate, consult)| match consult {
            Consult::Wanted => None,
            Consult::Open { until, .. } => Some((gate, *until)),
        })
    }

    /// The gates at which its mapper will be asked.
    pub fn to_consult(&self) -> impl Iterator<Item = Gate> {
        self.consults.keys().copied()
    }

    /// What it does only after others: for each, the number of their request, and their item if not all of
    /// it count.
    pub fn waits(&self) -> impl Iterator<Item = (Gate, u64, Option<u16>)> {
        let waits = self.waits.iter();
        waits.flat_map(|(&gate, on)| on.iter().map(move |&(number, item)| (gate, number, item)))
    }

    /// Whether all of its units have been in use.
    pub(super) fn used(&self) -> bool {
        self.used
    }

    /// Whether it is not held back at a gate.
    pub(super) fn is_open(&self, gate: Gate) -> bool {
        !self.waits.contains_key(&gate)
    }
}

/// How that stands which is waited for.
pub(super) enum Ahead {
    InUse,
    ToCome,
    /// It will never be in use.
    Lost,
}

/// What a lease that waits for others does next.
enum Turn {
    /// It passes a gate.
    Open(Gate),
    /// It is at a gate, and its mapper is to be asked.
    Consult(Gate),
    /// Its mapper has been asked, and answers until then.
    Consulted(Gate, Time),
    /// What it waits for is lost: it goes back without units.
    Close,
    /// It is left, and goes back.
    Leave,
}

/// Why leases cannot wait so: they would wait for ever, or for nothing.
pub(super) fn check(after: &[After], items: usize) -> Result<(), String> {
    if after.len() > MAX_AFTER {
        return Err(format!("{} things to wait for are more than {MAX_AFTER}", after.len()));
    }
    let mut edges: BTreeMap<u16, BTreeSet<u16>> = BTreeMap::new();
    let all = || 0..u16::try_from(items).unwrap_or(u16::MAX);
    for After { item, on, .. } in after {
        let named = [*item, if let On::Item(on) = on { Some(*on) } else { None }];
        if let Some(absent) = named.iter().flatten().find(|item| usize::from(**item) >= items) {
            return Err(format!("there is no item {absent}: the request has {items}, from 0 on"));
        }
        let On::Item(on) = *on else { continue };
        let whole = item.is_none();
        for waits in all().filter(|one| item.is_none_or(|item| item == *one)) {
            if !(whole && waits == on) {
                edges.entry(waits).or_default().insert(on);
            }
        }
    }
    let cycle = all().find_map(|item| cycle_from(item, &edges, &mut Vec::new()));
    match cycle.filter(|_| !mutant!(CycleAccepted)) {
        Some(cycle) => {
            let items: Vec<String> = cycle.iter().map(|item| format!("item {item}")).collect();
            Err(format!("items wait for each other: {}", items.join(" -> ")))
        }
        None => Ok(()),
    }
}

/// The first way back to an item on the path to `item`.
fn cycle_from(
    item: u16,
    edges: &BTreeMap<u16, BTreeSet<u16>>,
    path: &mut Vec<u16>,
) -> Option<Vec<u16>> {
    if let Some(start) = path.iter().position(|before| *before == item) {
        return Some(path[start..].iter().copied().chain([item]).collect());
    }
    path.push(item);
    let next = edges.get(&item).into_iter().flatten();
    let cycle = next.copied().find_map(|next| cycle_from(next, edges, path));
    path.pop();
    cycle
}

impl ServiceManager {
    /// Whether a request can wait for others.
    pub(super) fn check_after(&self, after: &[After], items: usize) -> Result<(), String> {
        check(after, items)?;
        for After { on, .. } in after {
            if let On::Request(number) = on
                && !self.state.requests.contains_key(number)
            {
                return Err(format!("there is no request {number} to wait for"));
            }
        }
        Ok(())
    }

    /// A lease begins: what it waits for will let it know.
    pub(super) fn wait_for_others(&mut self, id: LeaseId, at: Time) {
        let Some(lease) = self.state.leases.get(&id) else { return };
        let numbers: BTreeSet<u64> =
            lease.sequence.waits.values().flatten().map(|(number, _)| *number).collect();
        for &number in &numbers {
            self.state.waiters.entry(number).or_default().insert(id);
        }
        self.set_sequence(id, at);
    }

    /// Sets that a lease is to go on, or to go back, once what it waits for is in use or lost.
    pub(super) fn set_sequence(&mut self, id: LeaseId, at: Time) {
        let due = self.next_in_sequence(id).map(|turn| match turn {
            Turn::Consulted(_, until) => until,
            Turn::Open(_) | Turn::Consult(_) | Turn::Close | Turn::Leave => at,
        });
        self.state.timers.set(Timer::Sequence(id), due);
    }

    /// What follows from how that stands for which a lease waits.
    fn next_in_sequence(&self, id: LeaseId) -> Option<Turn> {
        let lease = self.state.leases.get(&id)?;
        let sequence = &lease.sequence;
        let waits = &sequence.waits;
        let lost = waits.values().flatten().any(|on| matches!(self.ahead(*on), Ahead::Lost));
        let lost = lost || sequence.given_up;
        let open = waits.iter().find(|(_, on)| self.all_in_use(on)).map(|(&gate, _)| gate);
        let open = open.map(|gate| match sequence.consults.get(&gate) {
            None => Turn::Open(gate),
            Some(Consult::Wanted) => Turn::Consult(gate),
            Some(Consult::Open { until, .. }) => Turn::Consulted(gate, *until),
        });
        match &lease.state {
            State::Redeeming { .. } | State::Ticketed { split: false, .. } if lost => {
                Some(Turn::Close)
            }
            State::Joining { .. } | State::Active { .. } if lost => Some(Turn::Leave),
            State::Redeeming { .. }
            | State::Ticketed { .. }
            | State::Joining { .. }
            | State::Active { .. } => open,
            State::Leaving { .. }
            | State::Closing { .. }
            | State::Crediting { .. }
            | State::Closed { .. } => None,
        }
    }

    fn all_in_use(&self, on: &BTreeSet<(u64, Option<u16>)>) -> bool {
        on.iter().all(|on| matches!(self.ahead(*on), Ahead::InUse))
    }

    /// A lease or a request has changed: what follows for the leases and plans that wait for it.
    pub(super) fn wake_waiters(&mut self, number: u64, at: Time) {
        for waiter in self.state.waiters.get(&number).cloned().unwrap_or_default() {
            self.set_sequence(waiter, at);
        }
        self.plan_follows(number, at);
    }

    /// Notes that all units of a lease are in use.
    pub(super) fn note_used(&mut self, id: LeaseId, at: Time) {
        let Some(lease) = self.state.leases.get_mut(&id) else { return };
        let active = matches!(lease.state, State::Active { .. });
        let news = active && !lease.sequence.used;
        let waits = !lease.sequence.waits.is_empty();
        lease.sequence.used |= active;
        if news || !is_live(&lease.state) {
            self.wake_waiters(id.number, at);
        }
        if self.state.leases.get(&id).is_some_and(|lease| !is_live(&lease.state)) {
            self.wait_no_more(id);
        } else if waits {
            self.set_sequence(id, at);
        }
    }

    /// A lease waits for nothing any more.
    pub(super) fn wait_no_more(&mut self, id: LeaseId) {
        let Some(lease) = self.state.leases.get_mut(&id) else { return };
        let waits = std::mem::take(&mut lease.sequence.waits);
        lease.sequence.consults.clear();
        self.state.consulting.remove(&id);
        self.state.timers.set(Timer::Sequence(id), None);
        for (number, _) in waits.into_values().flatten() {
            self.forget_waiter(number, id);
        }
    }

    /// A lease does not wait for a request any more.
    fn forget_waiter(&mut self, number: u64, id: LeaseId) {
        if let Some(waiters) = self.state.waiters.get_mut(&number) {
            waiters.remove(&id);
            if waiters.is_empty() {
                self.state.waiters.remove(&number);
            }
        }
    }

    /// What a lease waits for is in use by now, or never will be: then it goes back.
    pub(super) fn sequence_due(&mut self, now: Time, lease: LeaseId, out: &mut Output) {
        match self.next_in_sequence(lease) {
            Some(Turn::Open(gate)) => self.unblock(now, lease, gate, out),
            Some(Turn::Consulted(gate, until)) if until <= now => {
                self.unblock(now, lease, gate, out);
            }
            Some(Turn::Consulted(..)) => {}
            Some(Turn::Consult(gate)) => {
                let until = now.plus(ANSWER_WITHIN);
                self.emit(now, GateReached { lease, gate, until }, out);
            }
            Some(Turn::Close) => self.emit(now, CloseBegun { lease }, out),
            Some(Turn::Leave) => {
                self.emit(now, LeaveBegun { lease, then: AfterLeave::Close }, out);
            }
            None => self.state.timers.set(Timer::Sequence(lease), None),
        }
    }

    /// A lease passes a gate.
    pub(super) fn unblock(&mut self, now: Time, lease: LeaseId, gate: Gate, out: &mut Output) {
        let configuration = self.told_of_others(lease, gate);
        self.emit(now, Unblocked { lease, gate, configuration }, out);
    }

    /// The leases of a request, or of one of its items.
    pub(super) fn leases_ahead(
        &self,
        (number, item): (u64, Option<u16>),
    ) -> impl Iterator<Item = (LeaseId, &Lease)> {
        let of = LeaseId { number, part: 0 }..=LeaseId { number, part: u16::MAX };
        let leases = self.state.leases.range(of).map(|(&id, lease)| (id, &**lease));
        leases.filter(move |(_, lease)| item.is_none_or(|item| item == lease.sequence.item))
    }

    /// How the leases of a request, or of one of its items, stand.
    pub(super) fn ahead(&self, (number, item): (u64, Option<u16>)) -> Ahead {
        let request = self.state.requests.get(&number);
        if request.is_some_and(|request| request.lost) {
            return Ahead::Lost;
        }
        let (mut any, mut used) = (false, true);
        for (_, lease) in self.leases_ahead((number, item)) {
            any = true;
            used &= lease.sequence.used;
            if !lease.sequence.used && !is_live(&lease.state) {
                return Ahead::Lost;
            }
        }
        match (any, used) {
            (true, true) => Ahead::InUse,
            (true, false) => Ahead::ToCome,
            // Another alternative was met, or it was optional.
            (false, _) if item.is_some() => Ahead::InUse,
            (false, _) => {
                let open = request.is_some_and(|request| request.state.is_open());
                if open { Ahead::ToCome } else { Ahead::Lost }
            }
        }
    }

    /// The configuration of a lease, in which `${3.address}` stands for that property of the units of request
    /// 3, one after the other with commas between; as it is, if that would be too long.
    fn told_of_others(&self, id: LeaseId, gate: Gate) -> Properties {
        let Some(lease) = self.state.leases.get(&id) else { return Properties::default() };
        if gate == Gate::Join {
            // The site has it already.
            return lease.configuration.clone();
        }
        let told = lease.configuration.iter().map(|(key, text)| (key.clone(), self.fill(text)));
        let told = Properties::try_from(told.collect::<BTreeMap<_, _>>()).ok();
        let told = told.filter(|told| told.check_bytes(MAX_CONFIGURATION).is_ok());
        told.unwrap_or_else(|| lease.configuration.clone())
    }

    fn fill(&self, text: &str) -> String {
        let Some((before, rest)) = text.split_once("${") else { return text.to_owned() };
        let Some((name, after)) = rest.split_once('}') else { return text.to_owned() };
        let known = name.split_once('.').and_then(|(number, key)| {
            Some(self.property_of(number.parse().ok()?, key)).filter(|text| !text.is_empty())
        });
        let known = known.unwrap_or_else(|| format!("${{{name}}}"));
        format!("{before}{known}{}", self.fill(after))
    }

    fn property_of(&self, number: u64, key: &str) -> String {
        let of = LeaseId { number, part: 0 }..=LeaseId { number, part: u16::MAX };
        let held = self.state.leases.range(of).filter_map(|(_, lease)| lease.state.held());
        let units = held.flat_map(|held| held.units.values());
        let values = units.filter_map(|(unit, _)| {
            let stated = unit.properties.iter().find(|(name, _)| name.as_str() == key);
            let number = (key == UNIT).then(|| unit.unit.to_string());
            stated.map(|(_, value)| value.to_owned()).or(number)
        });
        values.collect::<Vec<_>>().join(",")
    }

    /// Applies what happens to a lease at a gate.
    pub(super) fn of_sequence(&mut self, at: Time, fact: &Fact) {
        if let Fact::GateReached(fact) = fact {
            self.gate_reached(at, fact);
        } else if let Fact::GateAnswered(fact) = fact {
            self.gate_answered(at, fact);
        } else if let Fact::Unblocked(fact) = fact {
            self.unblocked(at, fact);
        }
    }

    fn unblocked(&mut self, at: Time, fact: &Unblocked) {
        let Some(lease) = self.state.leases.get_mut(&fact.lease) else { return };
        lease.configuration = fact.configuration.clone();
        let waits = lease.sequence.waits.remove(&fact.gate).unwrap_or_default();
        lease.sequence.consults.remove(&fact.gate);
        self.state.consulting.remove(&fact.lease);
        let still: BTreeSet<u64> =
            lease.sequence.waits.values().flatten().map(|(number, _)| *number).collect();
        for (number, _) in waits.into_iter().filter(|(number, _)| !still.contains(number)) {
            self.forget_waiter(number, fact.lease);
        }
        self.refresh(fact.lease, at);
        self.set_sequence(fact.lease, at);
    }
}
