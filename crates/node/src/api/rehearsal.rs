//! What some actors would do from now on, if this and that happened: copies of them go on among themselves, in a time of
//! their own.
//!
//! What a copy sends to anybody else is lost, steps on units are not taken, and nothing is journaled.

use std::collections::VecDeque;

use tenure_core::model::identity::ActorId;
use tenure_core::model::time::{Span, Time};
use tenure_core::runtime::host::{Departure, Host};
use tenure_core::runtime::outbox::RetryPolicy;
use tenure_core::runtime::{AnyActor, AnyMapper, Entry, Input};

/// More turns than any that come to rest have.
const MOST_TURNS: usize = 10_000;

/// What is lost is not sent again.
const RETRY: RetryPolicy = RetryPolicy { first: Span::DAY, longest: Span::DAY };

/// An actor of a rehearsal.
struct Copy {
    id: ActorId,
    host: Host,
    mapper: AnyMapper,
    /// The facts since the beginning.
    facts: Vec<Entry>,
}

/// Copies of actors, which go on among themselves.
pub(super) struct Rehearsal {
    now: Time,
    copies: Vec<Copy>,
    /// What is under way, with its receiver.
    letters: VecDeque<(usize, Input)>,
}

impl Rehearsal {
    /// Begins at an instant, with actors and their mappers.
    pub(super) fn new(now: Time, actors: Vec<(ActorId, AnyActor, AnyMapper)>) -> Self {
        let copies = actors.into_iter().map(|(id, actor, mapper)| {
            let mut host = Host::new(actor, RETRY);
            // There is no disk to wait for.
            host.durable(u64::MAX);
            Copy { id, host, mapper, facts: Vec::new() }
        });
        Self { now, copies: copies.collect(), letters: VecDeque::new() }
    }

    pub(super) fn now(&self) -> Time {
        self.now
    }

    /// How many actors there are.
    pub(super) fn len(&self) -> usize {
        self.copies.len()
    }

    /// Who one of them is.
    pub(super) fn id(&self, index: usize) -> ActorId {
        self.copies[index].id
    }

    /// One of the actors, as it is by now.
    pub(super) fn actor(&self, index: usize) -> &AnyActor {
        self.copies[index].host.actor()
    }

    /// The facts of one of the actors.
    pub(super) fn facts(&self, index: usize) -> &[Entry] {
        &self.copies[index].facts
    }

    /// Hands something to an actor, and lets all go on until they rest.
    pub(super) fn hand(&mut self, index: usize, input: Input) {
        self.letters.push_back((index, input));
        self.settle();
    }

    /// Goes on to the next instant at which something is due, `step` later at most, or to `until`; false if it is
    /// there already.
    pub(super) fn advance(&mut self, step: Span, until: Time) -> bool {
        if self.now >= until {
            return false;
        }
        let due = self.copies.iter().filter_map(|copy| copy.host.next_timer());
        let next = due.chain([self.now.plus(step), until]).min().unwrap_or(until);
        self.now = next.max(self.now.plus(Span::from_micros(1)));
        for index in 0..self.copies.len() {
            if self.copies[index].host.is_due(self.now) {
                self.letters.push_back((index, Input::Tick));
            }
        }
        self.settle();
        true
    }

    fn settle(&mut self) {
        for _ in 0..MOST_TURNS {
            if let Some((index, input)) = self.letters.pop_front() {
                self.turn(index, input);
            } else if !self.decide() {
                return;
            }
        }
    }

    /// Has the mappers asked whose actors want to; false if none does.
    fn decide(&mut self) -> bool {
        let mut any = false;
        for index in 0..self.copies.len() {
            let Copy { host, mapper, .. } = &mut self.copies[index];
            let decision = host.consultation(self.now).and_then(|view| mapper.decide(&view));
            if let Some(decision) = decision {
                self.letters.push_back((index, Input::Decision(decision)));
                any = true;
            }
        }
        any
    }

    fn turn(&mut self, index: usize, input: Input) {
        let Copy { host, facts, .. } = &mut self.copies[index];
        facts.extend(host.handle(self.now, [input]).facts);
        let mut sent = Vec::new();
        host.release(self.now, |departure| {
            if let Departure::Message(_, outgoing) = departure {
                sent.push(outgoing);
            }
        });
        for outgoing in sent {
            if let Some(to) = self.copies.iter().position(|copy| copy.id == outgoing.to) {
                self.letters.push_back((to, Input::Message(outgoing.sealed)));
            }
        }
    }
}
