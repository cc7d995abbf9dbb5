//! The network: loses, delays and repeats messages, as a scenario says.

use std::collections::BTreeSet;

use rand::RngExt as _;
use tenure_core::model::time::{Span, Time};
use tenure_core::wire::message::Sequence;

use crate::participants::roster;
use crate::random::{Chance, Purpose};
use crate::scenario::{self, Cut, Delay, Links, Scenario};

/// A network between the actors of one run.
#[derive(Clone, Debug)]
pub struct Network {
    chance: Chance,
    faults: scenario::Network,
    /// Between the actors of different brokers.
    links: Links,
    /// The place of each actor; none if all are at one.
    nodes: Vec<usize>,
}

/// One message on its way, as far as its fate depends on it. Actors are numbered by their names.
#[derive(Clone, Copy, Debug)]
pub struct Packet {
    /// Who sends it.
    pub from: usize,
    /// Who is to have it.
    pub to: usize,
    /// The sender's number for it.
    pub sequence: Sequence,
    /// The kind of message it is.
    pub kind: &'static str,
}

impl Network {
    /// The network of a scenario.
    pub fn of(scenario: &Scenario) -> Self {
        let places = &scenario.links.nodes;
        let nodes = roster(scenario).into_iter().filter_map(|(name, _)| places.get(&name).copied());
        let nodes = nodes.collect();
        let network = Self::new(Chance::new(scenario.seed), &scenario.network);
        Self { links: scenario.links.clone(), nodes, ..network }
    }

    /// One that takes the same time for each message and loses none; senders wait for `retry`.
    pub fn steady(delay: Span, retry: Span) -> Self {
        let delay = Delay::uniform(delay, delay);
        let (loss, duplicate, drop) = (0.0, 0.0, BTreeSet::new());
        Self::new(Chance::new(0), &scenario::Network { delay, loss, duplicate, drop, retry })
    }

    pub(crate) fn new(chance: Chance, faults: &scenario::Network) -> Self {
        Self { chance, faults: faults.clone(), links: Links::default(), nodes: Vec::new() }
    }

    /// How long after `now` each copy arrives: none if it is lost, two if it is repeated.
    ///
    /// A message takes as long however often it is sent, and its copy comes later than itself. So copies and
    /// answers to copies change nothing that the first ones have not: a run with them has the
    /// same facts as one without.
    pub fn fate(&self, packet: Packet, now: Time) -> Vec<Span> {
        let scenario::Network { delay, loss, duplicate, drop, retry } = &self.faults;
        let link = self.link(packet);
        if is_dropped(drop, packet.kind) || link.is_some_and(|link| self.links.is_cut(link, now)) {
            return Vec::new();
        }
        let delay = self.links.delay.as_ref().filter(|_| link.is_some()).unwrap_or(delay);
        let Sequence { position, index } = packet.sequence;
        let message = [packet.from as u64, packet.to as u64, position, u64::from(index)];
        let sending = [message[0], message[1], position, u64::from(index), now.as_micros() as u64];
        if happens(*loss, || self.chance.of(Purpose::Loss, &sending)) {
            return Vec::new();
        }
        let takes = delay
            .fixed()
            .unwrap_or_else(|| delay.sample(&mut self.chance.of(Purpose::Delay, &message)));
        let mut arrivals = vec![takes];
        if *duplicate > 0.0 {
            let mut chance = self.chance.of(Purpose::Duplicate, &sending);
            if chance.random_bool(*duplicate) {
                let lag = chance.random_range(0..=retry.as_micros());
                arrivals.push(takes.plus(Span::from_micros(lag)));
            }
        }
        arrivals
    }

    /// Between which two places a message goes, if they are not the same.
    fn link(&self, packet: Packet) -> Option<(usize, usize)> {
        let (from, to) = (*self.nodes.get(packet.from)?, *self.nodes.get(packet.to)?);
        (from != to).then_some((from.min(to), from.max(to)))
    }
}

impl Links {
    /// Whether nothing passes between two places.
    fn is_cut(&self, (a, b): (usize, usize), now: Time) -> bool {
        let cuts = |cut: &Cut| {
            let apart = cut.apart.contains(&a) || cut.apart.contains(&b);
            let divided = a < cut.first && b >= cut.first;
            cut.term.contains(now) && (apart || divided || cut.edges.contains(&(a, b)))
        };
        self.cuts.iter().any(cuts)
    }
}

fn is_dropped(drop: &BTreeSet<String>, kind: &str) -> bool {
    !drop.is_empty() && drop.contains(kind)
}

fn happens<R: rand::Rng>(probability: f64, chance: impl FnOnce() -> R) -> bool {
    probability > 0.0 && chance().random_bool(probability)
}
