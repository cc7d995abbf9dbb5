//! What the facts of one service manager say.

#![allow(clippy::wildcard_enum_match_arm, reason = "most facts are not counted")]

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use tenure_core::model::price::Cost;
use tenure_core::model::slice::LeaseId;
use tenure_core::model::time::{Span, Term, Time};
use tenure_core::service_manager::cost::Costs;
use tenure_core::service_manager::facts::Fact;
use tenure_core::service_manager::machine::{AfterLeave, Event};
use tenure_core::ticket::Ticket;
use tenure_core::ticket::link::{LinkHash, SignedLink};
use tenure_core::wire::message::LeasedUnit;
use tenure_core::wire::part::Part;

use super::delays::Delays;
use super::overlap;
use super::site_authority::Fate;

#[derive(Debug)]
pub(super) struct Guest {
    window: Term,
    step: Span,
    pub(super) requests: u64,
    pub(super) refusals: BTreeMap<&'static str, u64>,
    leases: BTreeMap<LeaseId, Lease>,
    asked: BTreeMap<u64, Asked>,
    pub(super) delays: Delays,
    /// Requests whose tickets are to be kept.
    kept: BTreeSet<u64>,
    /// Requests that were given up and not answered since.
    given_up: BTreeSet<u64>,
    unanswered: Vec<String>,
    /// Leases whose term ran out while the site was asked for their units.
    never_had: Vec<(LeaseId, LinkHash)>,
    /// What is counted of the leases that are forgotten.
    past: Sums,
    /// How many units more or fewer were held from a step on, by those leases.
    changes: BTreeMap<i64, i64>,
}

/// What a request asks for.
#[derive(Debug)]
struct Asked {
    earliest: Time,
    in_window: bool,
    user: Option<String>,
}

/// What is added up over leases.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sums {
    /// Units times microseconds between join and leave.
    pub(super) joined: i128,
    /// Units times microseconds of the terms.
    pub(super) leased: i128,
    /// Microseconds from the start asked for to active.
    pub(super) waited: i128,
    /// How many became active.
    pub(super) waits: u64,
    /// What all of them cost.
    pub(super) cost: Cost,
    pub(super) anomalies: Anomalies,
}

/// Leases that were in use too late, not until their end, or never.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Anomalies {
    pub(super) late: u64,
    pub(super) early: u64,
    pub(super) expired: u64,
    /// Microseconds from the starts of the terms of those that are late to their use.
    pub(super) late_by: i128,
    /// Microseconds from the end of use of those that are early to the ends of their terms.
    pub(super) early_by: i128,
}

impl Sums {
    pub(super) fn add(&mut self, other: Self) {
        self.joined += other.joined;
        self.leased += other.leased;
        self.waited += other.waited;
        self.waits += other.waits;
        self.cost = self.cost.plus(other.cost);
        self.anomalies.add(other.anomalies);
    }
}

impl Anomalies {
    fn add(&mut self, other: Self) {
        self.late += other.late;
        self.early += other.early;
        self.expired += other.expired;
        self.late_by += other.late_by;
        self.early_by += other.early_by;
    }
}

#[derive(Debug)]
struct Lease {
    ticket: LinkHash,
    units: u32,
    asked_for: Time,
    /// When it was granted, and the part of its term that it covers.
    granted: Time,
    from: Time,
    until: Time,
    /// Where its last ticket ends.
    end: Time,
    /// Where it would end by an extension that was granted and not yet taken.
    extension: Option<Time>,
    /// The ticket that was granted for it.
    continued_by: Option<SignedLink>,
    /// What its tickets cost.
    costs: Costs,
    active: Option<Time>,
    phase: Phase,
    /// Units about to join or leave.
    awaited: u32,
    /// Whether it is given back before its end.
    closes: bool,
    /// What is on its way back.
    going: Option<Part>,
    /// How many units an extension that is asked for leaves out.
    victims: u32,
    /// How many units it loses at its next seams.
    seams: VecDeque<u32>,
    /// Units that it had no more before its end, and since when.
    given_back: Vec<(u32, Time)>,
    /// How much each of its units is: 1, or the quantity of its share.
    each: u32,
    /// Since when each unit is in use.
    joined: Vec<Time>,
    /// From when to when so much was in use, closed intervals only.
    used: Vec<(Time, Time, u32)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Kept,
    Redeeming,
    Held,
    Leaving,
    Closing,
    Crediting,
    Over,
}

impl Phase {
    /// That of a new lease, whose ticket may be kept.
    fn kept(kept: bool) -> Self {
        if kept { Self::Kept } else { Self::Redeeming }
    }
}

impl Guest {
    /// A guest of which nothing was seen so far.
    pub(super) fn observed(window: Term, step: Span) -> Self {
        Self {
            window,
            step,
            requests: 0,
            refusals: BTreeMap::new(),
            leases: BTreeMap::new(),
            asked: BTreeMap::new(),
            delays: Delays::default(),
            kept: BTreeSet::new(),
            given_up: BTreeSet::new(),
            unanswered: Vec::new(),
            never_had: Vec::new(),
            past: Sums::default(),
            changes: BTreeMap::new(),
        }
    }

    /// Applies a fact. Answers the ticket of a lease whose units the guest never heard of in time.
    pub(super) fn observe(&mut self, at: Time, in_window: bool, fact: &Fact) -> Option<LinkHash> {
        let missed = self.never_had.len();
        match fact {
            Fact::Asked(fact) => {
                self.requests += u64::from(in_window);
                let request = &fact.request;
                let (earliest, user) =
                    (request.earliest, request.properties.get("user").map(str::to_owned));
                self.asked.insert(request.id.number, Asked { earliest, in_window, user });
                if fact.handling.keep_tickets {
                    self.kept.insert(fact.request.id.number);
                }
            }
            Fact::AskRefused(fact) => {
                self.given_up.remove(&fact.number);
                if in_window {
                    *self.refusals.entry(fact.refusal.word()).or_default() += 1;
                }
            }
            Fact::Granted(fact) => {
                let phase = Phase::kept(self.kept.remove(&fact.number));
                self.count_delay(fact.number, &fact.tickets);
                self.granted(at, fact.number, &fact.tickets, phase);
            }
            Fact::TicketTaken(fact) => {
                let tickets = [(0, fact.ticket.clone())];
                self.granted(at, fact.lease.number, &tickets, Phase::kept(fact.keep));
            }
            Fact::UnwantedGranted(fact) => {
                self.granted(at, fact.number, &fact.tickets, Phase::Closing);
            }
            Fact::GaveUp(fact) => {
                self.given_up.insert(fact.number);
            }
            Fact::LeaseForgotten(fact) => self.forget(fact.lease),
            _ => {
                if let Some((lease, event)) = fact.lease_event() {
                    self.happened(at, lease, event);
                }
            }
        }
        self.never_had.get(missed).map(|(_, ticket)| *ticket)
    }

    /// A lease about which nothing more can come: what is to be counted of it is added up.
    fn forget(&mut self, id: LeaseId) {
        let Some(lease) = self.leases.remove(&id) else {
            self.asked.remove(&id.number);
            return;
        };
        self.past.add(lease.sums(self.window));
        let change = |step, units| count(&mut self.changes, step, units);
        lease.changes((self.window, self.step), change);
        if self.leases.range(of_request(id.number)).next().is_none() {
            self.asked.remove(&id.number);
        }
    }

    /// What happened to a lease.
    fn happened(&mut self, at: Time, id: LeaseId, event: Event) {
        if let Event::TermOver = event {
            return self.term_over(at, id);
        }
        let Some(lease) = self.leases.get_mut(&id) else { return };
        match event {
            Event::RedeemBegun => lease.phase = Phase::Redeeming,
            Event::Leased(_, units) => lease.leased(&units),
            Event::Joined(_, usable) => lease.joined(at, usable),
            Event::ExtensionAsked(_, victims) => {
                lease.victims = u32::try_from(victims.len()).unwrap_or(u32::MAX);
            }
            Event::ExtensionGranted(ticket) => {
                lease.extension = Some(ticket.bottom().term.end());
                lease.continued_by = Some(ticket.bottom().clone());
            }
            Event::Extended => lease.extended(),
            Event::ReturnBegun(part) => lease.going = Some(part),
            Event::PartReturned(receipts) => {
                lease.costs.credit(&receipts);
                lease.part_returned(at);
            }
            Event::ReturnRefused => lease.going = None,
            Event::Shrunk => lease.shrunk(at),
            Event::UnitsRecalled(units, _) => lease.shrink(at, units.len()),
            Event::LeaveBegun(then) => lease.leave(at, then),
            Event::Left(_) => lease.left(),
            Event::CloseBegun => lease.give_up(at, Phase::Closing),
            Event::SiteClosed(receipts) if !receipts.is_empty() => {
                lease.costs.credit(&receipts);
                lease.give_up(at, Phase::Crediting);
            }
            Event::Refused(_) | Event::SiteClosed(_) => lease.give_up(at, Phase::Over),
            // A part may be credited while its lease goes on.
            Event::Credited if lease.phase == Phase::Crediting => lease.give_up(at, Phase::Over),
            Event::RecallBegun(_)
            | Event::RecallLifted
            | Event::JoinRefused(_)
            | Event::LeaveHastened(_)
            | Event::LeaveRefused(_)
            | Event::LeaveForced
            | Event::UnitReset(_)
            | Event::Credited
            | Event::Split
            | Event::ExtensionDenied
            | Event::ShrinkBegun
            | Event::ModifyBegun(_)
            | Event::Modified(_)
            | Event::ModifyRefused
            | Event::Notified(_)
            | Event::TermOver => {}
        }
    }

    /// All tickets of a request begin together, those with an offset later.
    fn count_delay(&mut self, number: u64, tickets: &[(u16, Ticket)]) {
        let Some(asked) = self.asked.get(&number).filter(|asked| asked.in_window) else { return };
        let terms = tickets.iter().map(|(_, ticket)| ticket.bottom().term);
        if let Some(first) = terms.min_by_key(|term| term.start()) {
            self.delays.granted(asked.user.as_ref(), asked.earliest, first);
        }
    }

    fn granted(&mut self, at: Time, number: u64, tickets: &[(u16, Ticket)], phase: Phase) {
        self.given_up.remove(&number);
        for (part, (_, ticket)) in (0u16..).zip(tickets) {
            let link = ticket.bottom();
            let lease = Lease {
                ticket: link.hash(),
                units: link.units.get(),
                asked_for: self
                    .asked
                    .get(&number)
                    .map_or(link.term.start(), |asked| asked.earliest),
                granted: at,
                from: link.term.start(),
                until: if phase == Phase::Closing { at } else { link.term.end() },
                end: link.term.end(),
                extension: None,
                continued_by: None,
                costs: Costs::of(link),
                active: None,
                phase,
                awaited: 0,
                closes: false,
                going: None,
                victims: 0,
                seams: VecDeque::new(),
                given_back: Vec::new(),
                each: 1,
                joined: Vec::new(),
                used: Vec::new(),
            };
            self.leases.insert(LeaseId { number, part }, lease);
        }
    }

    fn term_over(&mut self, at: Time, id: LeaseId) {
        let Some(lease) = self.leases.get_mut(&id) else {
            return;
        };
        lease.vacate(at);
        match lease.phase {
            Phase::Redeeming => self.never_had.push((id, lease.ticket)),
            Phase::Closing => {
                self.unanswered
                    .push(format!("lease {id} was given back, its site never confirmed it"));
            }
            Phase::Crediting => {
                self.unanswered.push(format!("the receipts of lease {id} were never taken"));
            }
            Phase::Kept | Phase::Held | Phase::Leaving | Phase::Over => {}
        }
        lease.phase = Phase::Over;
    }

    /// Units held at each step: those of granted leases whose term contains it, margins ignored.
    pub(super) fn held(&self, steps: usize) -> Vec<i64> {
        let mut changes = self.changes.clone();
        for lease in self.leases.values() {
            let change = |step, units| count(&mut changes, step, units);
            lease.changes((self.window, self.step), change);
        }
        let (mut held, mut changes) = (0, changes.into_iter().peekable());
        let of_step = |step: i64| {
            while let Some((_, units)) = changes.next_if(|(at, _)| *at <= step) {
                held += units;
            }
            held
        };
        (0..).take(steps).map(of_step).collect()
    }

    /// What is added up over its leases.
    pub(super) fn sums(&self) -> Sums {
        let mut sums = self.past;
        self.leases.values().for_each(|lease| sums.add(lease.sums(self.window)));
        sums
    }

    /// How many leases are kept.
    #[cfg(test)]
    pub(super) fn remembered(&self) -> usize {
        self.leases.len()
    }

    /// What was never answered. A lease whose units the site was still setting up is merely late.
    pub(super) fn failures(&self, fate: impl Fn(LinkHash) -> Option<Fate>) -> Vec<String> {
        let lost = self.never_had.iter().filter_map(|(id, ticket)| match fate(*ticket) {
            Some(Fate::Late) => None,
            Some(Fate::Active) => Some(format!("the units of lease {id} never arrived")),
            None => Some(format!("the ticket of lease {id} never arrived")),
        });
        let given_up =
            self.given_up.iter().map(|number| format!("request {number} was never answered"));
        given_up.chain(self.unanswered.iter().cloned()).chain(lost).collect()
    }
}

/// All leases of a request.
fn of_request(number: u64) -> std::ops::RangeInclusive<LeaseId> {
    LeaseId { number, part: 0 }..=LeaseId { number, part: u16::MAX }
}

/// Counts a change, of which nothing is kept where changes cancel out.
fn count(changes: &mut BTreeMap<i64, i64>, step: i64, units: i64) {
    let change = changes.entry(step).or_default();
    *change += units;
    if *change == 0 {
        changes.remove(&step);
    }
}

impl Lease {
    fn sums(&self, window: Term) -> Sums {
        let mut leased = i128::from(self.units) * overlap(window, self.from, self.until);
        for &(units, at) in &self.given_back {
            leased -= i128::from(units) * overlap(window, at.max(self.from), self.until);
        }
        let still = self.joined.iter().map(|&from| (from, Time::MAX, self.each));
        let used = self.used.iter().copied().chain(still);
        let joined =
            used.map(|(from, until, units)| i128::from(units) * overlap(window, from, until)).sum();
        let wait = self.active.map(|active| i128::from(active.since(self.asked_for).as_micros()));
        let cost = self.costs.total().unwrap_or_default();
        let (waited, waits) = (wait.unwrap_or(0), u64::from(wait.is_some()));
        Sums { joined, leased, waited, waits, cost, anomalies: self.anomalies() }
    }

    /// What [fidelity](tenure_core::service_manager::fidelity::Fidelity) tells apart, of the whole lease.
    fn anomalies(&self) -> Anomalies {
        let still = self.joined.iter().copied();
        let first = self.used.iter().map(|&(from, ..)| from).chain(still).min();
        let ended = self.joined.is_empty() && self.phase == Phase::Over;
        let last = self.used.iter().map(|&(_, until, _)| until).max().filter(|_| ended);
        let late = first.map_or(Span::ZERO, |first| first.since(self.from));
        let early = last.map_or(Span::ZERO, |last| self.end.since(last));
        let micros = |span: Span| i128::from(span.as_micros().max(0));
        let expired = first.is_none() && self.phase == Phase::Over && self.from < self.until;
        Anomalies {
            late: u64::from(late.is_positive()),
            early: u64::from(early.is_positive()),
            expired: u64::from(expired),
            late_by: micros(late),
            early_by: micros(early),
        }
    }

    /// Calls `change` with each step from which on more or fewer units are held, and how many.
    fn changes(&self, (window, step): (Term, Span), mut change: impl FnMut(i64, i64)) {
        let index = |t: Time| -> i64 {
            let since = t.since(window.start()).as_micros().max(0);
            (since + step.as_micros() - 1) / step.as_micros()
        };
        let (from, until) = (index(self.from.max(self.granted)), index(self.until));
        if from < until {
            change(from, i64::from(self.units));
            change(until, -i64::from(self.units));
        }
        for &(units, at) in &self.given_back {
            let back = index(at).clamp(from, until.max(from));
            change(back, -i64::from(units));
            change(until.max(from), i64::from(units));
        }
    }

    fn leased(&mut self, units: &[LeasedUnit]) {
        self.phase = Phase::Held;
        self.awaited = u32::try_from(units.len()).unwrap_or(u32::MAX);
        // The share of a divisible stock is one unit.
        self.each = units.first().map_or(1, |unit| unit.quantity.get());
        self.units = self.awaited.saturating_mul(self.each);
    }

    fn joined(&mut self, at: Time, usable: bool) {
        self.awaited = self.awaited.saturating_sub(1);
        if usable {
            self.joined.push(at);
        }
        if self.awaited == 0 {
            self.active.get_or_insert(at);
        }
    }

    fn extended(&mut self) {
        let victims = std::mem::take(&mut self.victims);
        self.seams.extend((victims > 0).then_some(victims));
        if let Some(end) = self.extension.take() {
            (self.until, self.end) = (end, end);
        }
        if let Some(link) = self.continued_by.take() {
            self.costs.charge(&link);
        }
    }

    fn give_up(&mut self, at: Time, phase: Phase) {
        self.vacate(at);
        self.until = self.until.min(at);
        self.phase = phase;
    }

    fn leave(&mut self, at: Time, then: AfterLeave) {
        self.vacate(at);
        let gone: u32 = self.given_back.iter().map(|(units, _)| units).sum();
        self.awaited = self.units.saturating_sub(gone) / self.each;
        self.phase = Phase::Leaving;
        self.closes |= then == AfterLeave::Close;
        if self.closes {
            self.until = self.until.min(at);
        }
    }

    fn left(&mut self) {
        self.awaited = self.awaited.saturating_sub(1);
        if self.awaited == 0 && self.closes {
            self.phase = Phase::Closing;
        }
    }

    /// A part is its site's again.
    fn part_returned(&mut self, at: Time) {
        match self.going.take() {
            Some(Part::Units(units)) => self.shrink(at, units.len()),
            Some(Part::Until(until)) => self.until = self.until.min(until),
            Some(Part::Quantity(quantity)) => self.smaller(at, quantity.get()),
            Some(Part::Rights { .. }) | None => {}
        }
    }

    /// It goes on without the units that its extension leaves out.
    fn shrunk(&mut self, at: Time) {
        let victims = self.seams.pop_front().unwrap_or(0);
        self.shrink(at, victims as usize);
    }

    fn shrink(&mut self, at: Time, units: usize) {
        let kept = self.joined.len().saturating_sub(units);
        let each = self.each;
        self.used.extend(self.joined.drain(kept..).map(|from| (from, at, each)));
        let units = u32::try_from(units).unwrap_or(u32::MAX);
        self.given_back.push((units.saturating_mul(each), at));
    }

    /// Its share goes on with less.
    fn smaller(&mut self, at: Time, quantity: u32) {
        let gone = quantity.min(self.each.saturating_sub(1));
        self.used.extend(self.joined.iter().map(|&from| (from, at, gone)));
        self.each -= gone;
        self.given_back.push((gone, at));
    }

    /// The units are used no more.
    fn vacate(&mut self, at: Time) {
        let each = self.each;
        self.used.extend(self.joined.drain(..).map(|from| (from, at, each)));
    }
}
