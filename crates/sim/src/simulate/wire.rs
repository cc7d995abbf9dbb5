//! The wire: on top of the emulator's network, which loses, doubles and delays, it cuts actors off, lets
//! messages arrive hours late or just at a boundary, and repeats those of the past. Each two have a connection, which
//! breaks, holds only so much, and of a guest with a site comes about only once the guest has the site's card.

use std::collections::{BTreeMap, VecDeque};

use tenure_core::actor::Role;
use tenure_core::model::time::{Span, Term, Time};
use tenure_core::wire::message::{Message, Sealed, Sequence};

use super::fault::{Family, Fault};
use super::setting::Setting;
use super::world::{Event, World};
use crate::network::{Network, Packet};
use crate::random::Chance;

/// How many messages of the past are kept to be replayed.
const KEPT: usize = 128;

/// How many messages of one actor to another leave at one instant, before the next ones find no room.
const QUEUE: u32 = 6;

/// How messages are delivered.
pub(super) struct Wire {
    faulty: Network,
    sound: Network,
    /// Who does not reach whom, until when.
    cuts: BTreeMap<(usize, usize), Time>,
    past: VecDeque<(usize, Sealed)>,
    connections: BTreeMap<(usize, usize), Connection>,
    /// How many messages have left one for another, at which instant.
    queues: BTreeMap<(usize, usize), (Time, u32)>,
}

/// The connection of two actors.
#[derive(Clone, Copy, Debug)]
struct Connection {
    /// When it broke last.
    broke: Time,
    /// Since when there is one again.
    since: Time,
}

fn pair(one: usize, other: usize) -> (usize, usize) {
    (one.min(other), one.max(other))
}

impl Wire {
    pub(super) fn new(chance: Chance, setting: &Setting) -> Self {
        let mut sound = setting.network.clone();
        (sound.loss, sound.duplicate) = (0.0, 0.0);
        Self {
            faulty: Network::new(chance, &setting.network),
            sound: Network::new(chance, &sound),
            cuts: BTreeMap::new(),
            past: VecDeque::new(),
            connections: BTreeMap::new(),
            queues: BTreeMap::new(),
        }
    }

    /// The connection of two breaks, and is there again at an instant.
    pub(super) fn break_off(&mut self, (one, other): (usize, usize), now: Time, until: Time) {
        self.connections.insert(pair(one, other), Connection { broke: now, since: until });
    }

    /// Whether a message that was sent by one at an instant was on a connection that has broken since.
    pub(super) fn has_lost(&self, (from, sent): (usize, Time), to: usize) -> bool {
        self.connections.get(&pair(from, to)).is_some_and(|connection| sent <= connection.broke)
    }

    /// Whether two reach each other.
    pub(super) fn joins(&self, one: usize, other: usize, now: Time) -> bool {
        let cut = self.is_cut(one, other, now) || self.is_cut(other, one, now);
        !cut && !self.is_apart(one, other, now)
    }

    /// Whether one has no connection with another.
    fn is_apart(&self, from: usize, to: usize, now: Time) -> bool {
        self.connections.get(&pair(from, to)).is_some_and(|connection| now < connection.since)
    }

    /// Whether one has sent another so much at this instant that there is no room for more.
    fn is_full(&mut self, from: usize, to: usize, now: Time) -> bool {
        let (at, count) = self.queues.entry((from, to)).or_insert((now, 0));
        if *at != now {
            (*at, *count) = (now, 0);
        }
        *count += 1;
        *count > QUEUE
    }

    /// Cuts one from another until an instant.
    pub(super) fn cut(&mut self, from: usize, to: usize, until: Time) {
        self.cuts.insert((from, to), until);
    }

    /// All cuts are mended.
    pub(super) fn heal(&mut self) {
        self.cuts.clear();
    }

    /// A message of the past, and whom it was for.
    pub(super) fn past(&self) -> &VecDeque<(usize, Sealed)> {
        &self.past
    }

    fn remember(&mut self, to: usize, sealed: &Sealed) {
        if self.past.len() >= KEPT {
            self.past.pop_front();
        }
        self.past.push_back((to, sealed.clone()));
    }

    fn is_cut(&self, from: usize, to: usize, now: Time) -> bool {
        self.cuts.get(&(from, to)).is_some_and(|until| now < *until)
    }
}

impl World {
    /// When each copy of a message arrives, and whether that is a boundary of what it is about.
    pub(super) fn fates(
        &mut self,
        from: usize,
        to: usize,
        (sequence, kind): (Sequence, &'static str),
        sealed: &Sealed,
    ) -> Vec<(Time, bool)> {
        let packet = Packet { from, to, sequence, kind };
        let network = if self.healed { &self.wire.sound } else { &self.wire.faulty };
        let fates = network.fate(packet, self.now);
        if self.healed {
            let kept_out = self.kept_out(from, to, sealed).is_some();
            let fates = fates.into_iter().filter(|_| !kept_out);
            return fates.map(|takes| (self.now.plus(takes), false)).collect();
        }
        if self.wire.is_cut(from, to, self.now) {
            self.watch.fault(Fault::CutOff);
            return Vec::new();
        }
        let fault = self.unconnected(from, to).or_else(|| self.kept_out(from, to, sealed));
        if let Some(fault) = fault {
            self.watch.fault(fault);
            return Vec::new();
        }
        match fates.len() {
            0 => self.watch.fault(Fault::Lost),
            1 => {}
            _ => self.watch.fault(Fault::Doubled),
        }
        if self.setting.has(Family::Replay) && self.sampler(Family::Replay).percent(20) {
            self.wire.remember(to, sealed);
        }
        let slowed = self.slowed(from, to);
        let (now, mut arrivals) = (self.now, Vec::new());
        for takes in fates {
            let late = self.lateness(to, sealed);
            arrivals.push(late.unwrap_or_else(|| (now.plus(takes).plus(slowed), false)));
        }
        arrivals
    }

    /// Why a message does not get onto a connection, if it does not.
    fn unconnected(&mut self, from: usize, to: usize) -> Option<Fault> {
        if !self.setting.has(Family::Connection) {
            return None;
        }
        self.meet(from, to);
        let now = self.now;
        let broke = self.wire.connections.get(&pair(from, to)).map(|connection| connection.broke);
        if self.wire.is_apart(from, to, now) {
            return Some(if broke == Some(Time::MIN) { Fault::NoCard } else { Fault::Broken });
        }
        self.wire.is_full(from, to, now).then_some(Fault::Full)
    }

    /// A guest that has a ticket of a site for the first time may have to wait for the site's card.
    fn meet(&mut self, from: usize, to: usize) {
        let roles = [from, to].map(|who| self.participants[who].role);
        let strangers =
            roles.contains(&Role::ServiceManager) && roles.contains(&Role::SiteAuthority);
        if !strangers || self.wire.connections.contains_key(&pair(from, to)) {
            return;
        }
        let (longest, sampler) =
            (self.setting.retry_policy.longest, self.sampler(Family::Connection));
        let waits = sampler.percent(50).then(|| sampler.scaled(Span::SECOND, longest));
        let since = self.now.plus(waits.unwrap_or(Span::ZERO));
        self.wire.connections.insert(pair(from, to), Connection { broke: Time::MIN, since });
    }

    /// When a message arrives that is held up: hours later, or just at a boundary of its ticket.
    fn lateness(&mut self, to: usize, sealed: &Sealed) -> Option<(Time, bool)> {
        if !self.strikes(Family::Delay, 6) {
            return None;
        }
        self.watch.fault(Fault::Late);
        let (now, term) = (self.now, self.setting.term);
        let boundary = self.sampler(Family::Delay).percent(60);
        let edges = if boundary { self.edges(to, sealed) } else { Vec::new() };
        if let Some(&edge) = self.sampler(Family::Delay).pick(&edges) {
            return Some((edge, true));
        }
        Some((now.plus(self.sampler(Family::Delay).scaled(Span::SECOND, term.times(2))), false))
    }

    /// The boundaries of what a message is about that its receiver's clock has yet to show.
    fn edges(&self, to: usize, sealed: &Sealed) -> Vec<Time> {
        let Some(term) = sealed.peek().ok().and_then(|envelope| about(&envelope.message)) else {
            return Vec::new();
        };
        let margin = self.setting.margin;
        let ends = [term.start(), term.end().minus(margin), term.end(), term.end().plus(margin)];
        let micro = Span::from_micros(1);
        let all = ends.into_iter().flat_map(|end| [end.minus(micro), end, end.plus(micro)]);
        let participant = &self.participants[to];
        let here = all.filter_map(|edge| participant.clock.when(edge));
        here.filter(|at| *at > self.now).collect()
    }

    /// A message of the past arrives once more.
    pub(super) fn replay(&mut self) {
        let count = self.wire.past().len();
        let place = self.sampler(Family::Replay).below(count.max(1));
        let Some((to, sealed)) = self.wire.past().get(place).cloned() else { return };
        self.watch.fault(Fault::Replayed);
        self.later(self.now, Event::Message { to, sealed, edge: false, sent: None });
    }
}

/// The term that a message is about.
pub(super) fn about(message: &Message) -> Option<Term> {
    match message {
        Message::Redeem { ticket, .. } => Some(ticket.bottom().term),
        Message::Return { ticket, .. }
        | Message::Modify { ticket, .. }
        | Message::Reclaim { ticket } => Some(ticket.bottom().term),
        Message::Close { tickets } => Some(tickets.last()?.bottom().term),
        Message::Granted { tickets, .. } => Some(tickets.first()?.1.bottom().term),
        Message::Leased { term, .. } => Some(*term),
        Message::Closed { receipts, .. }
        | Message::Returned { receipts, .. }
        | Message::Reclaimed { receipts, .. }
        | Message::Credit { receipts } => Some(receipts.first()?.what.term),
        Message::Request(request) => {
            let until = request.answer_by.min(request.last_end());
            Term::new(request.earliest, until).ok()
        }
        Message::Recall { ticket, .. } => Some(ticket.bottom().term),
        Message::Recalled { .. }
        | Message::RecallNotice { .. }
        | Message::RecallNoted { .. }
        | Message::UnitFailed { .. }
        | Message::Ping
        | Message::Inquire(_)
        | Message::Available { .. }
        | Message::Pong { .. }
        | Message::Keys { .. }
        | Message::KeysNoted { .. }
        | Message::Need(_)
        | Message::Noted { .. }
        | Message::Hosts(_)
        | Message::HostsNoted { .. }
        | Message::HostsChanged { .. }
        | Message::Restate { .. }
        | Message::HandOver(_)
        | Message::HandedBack(_)
        | Message::AskPortion(_)
        | Message::PortionBack(_)
        | Message::PortionDecided { .. }
        | Message::Heartbeat { .. }
        | Message::HeartbeatHeard { .. }
        | Message::Advert(_)
        | Message::AdvertWanted
        | Message::Join(_)
        | Message::Joined { .. }
        | Message::Waiting { .. }
        | Message::Offered { .. }
        | Message::Accept { .. }
        | Message::Withdraw(_)
        | Message::Delegate { .. }
        | Message::Delegated { .. }
        | Message::Credited { .. }
        | Message::Modified { .. }
        | Message::Refused { .. } => None,
    }
}
