//! One actor as it can be found in some reachable state: the production actor, the journal that led to
//! it, and everything it has ever sent.

use std::collections::BTreeSet;

use tenure_core::runtime::AnyActor;
use tenure_core::runtime::host::{Departure, Host, Turn};
use tenure_core::runtime::{Entry, Input};

use tenure_core::driver::Call;
use tenure_core::model::time::Time;
use tenure_core::runtime::journal::{Journal as _, MemoryJournal};
use tenure_core::wire::message::Sealed;

use super::cases::Case;
use super::fact_index::FactIndex;
use super::participants::Participant;
use super::summary::Summary;

/// What is in the world beside the actors: messages and driver calls, each under a number.
pub(crate) trait Registry {
    /// The number of a message, the same for the same content however often it is sent.
    fn message(&self, sealed: &Sealed) -> u32;
    /// The number of a driver call.
    fn call(&self, who: usize, call: &Call) -> u32;
}

/// An actor in a reachable state.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) who: usize,
    pub(crate) participant: Participant,
    pub(crate) journal: MemoryJournal,
    /// The messages it has sent. They never leave the network: a message that is lost is one that
    /// no actor ever receives, one that is repeated or late is received again.
    pub(crate) sent: BTreeSet<u32>,
    /// The driver calls that were started for it. Each may be answered at any time, more than once.
    pub(crate) called: BTreeSet<u32>,
    pub(crate) index: FactIndex,
    /// Whether it refused a fact of its own.
    pub(crate) panicked: bool,
    pub(crate) summary: Summary,
}

impl Node {
    /// The actor before its first fact.
    pub(crate) fn new(who: usize, case: &Case) -> Self {
        Self {
            who,
            participant: Participant::build(who, case),
            journal: MemoryJournal::new(),
            sent: BTreeSet::new(),
            called: BTreeSet::new(),
            index: FactIndex::default(),
            panicked: false,
            summary: Summary::default(),
        }
    }

    /// Hands in one input and does what a shell does with the output: facts to the journal first, then
    /// replies and pending work. A guest's mapper answers at once, the others when the model says.
    /// `None` if nothing came of it.
    pub(crate) fn step(
        &self,
        now: Time,
        input: Input,
        case: &Case,
        registry: &impl Registry,
    ) -> Option<Self> {
        let mut next = self.clone();
        next.hand(now, input, registry);
        if let AnyActor::ServiceManager(_) = next.participant.0 {
            while let Some(decision) = next.participant.consult(now, case.seller) {
                next.hand(now, decision, registry);
            }
        }
        let changed = next.journal.len() > self.journal.len() || next.sent.len() > self.sent.len();
        changed.then_some(next)
    }

    fn hand(&mut self, now: Time, input: Input, registry: &impl Registry) {
        let mut host = self.participant.host();
        let Turn { before, facts, .. } = host.handle(now, [input]);
        self.journal.append(before, &facts).unwrap();
        self.index.read(&facts);
        host.durable(before + facts.len() as u64);
        self.release(host, now, registry);
    }

    /// Lets out what follows from durable facts.
    fn release(&mut self, mut host: Host, now: Time, registry: &impl Registry) {
        host.release(now, |departure| match departure {
            Departure::Message(_, outgoing) => {
                self.sent.insert(registry.message(&outgoing.sealed));
            }
            Departure::Call(_, call) => {
                self.called.insert(registry.call(self.who, &call));
            }
        });
        self.participant = Participant(host.into_actor());
    }

    /// The actor that comes back from this journal.
    pub(crate) fn recovered(&self, case: &Case) -> Participant {
        let mut participant = Participant::build(self.who, case);
        for position in 0..self.journal.len() {
            participant.actor_mut().replay(&self.fact(position)).unwrap();
        }
        participant
    }

    /// A crash between two inputs: the actor comes back from its journal and starts.
    pub(crate) fn crash(&self, now: Time, case: &Case, registry: &impl Registry) -> Option<Self> {
        let mut next = self.clone();
        let mut host = self.recovered(case).host();
        host.recovered();
        next.release(host, now, registry);
        next.step(now, Input::Start, case, registry)
    }

    /// A crash of a shell that sends before it appends: what came of the input has left, and the facts
    /// are gone.
    pub(crate) fn send_then_crash(
        &self,
        now: Time,
        input: Input,
        case: &Case,
        registry: &impl Registry,
    ) -> Option<Self> {
        let lost = self.step(now, input, case, registry)?;
        let mut next = self.clone();
        next.index.read_sent(&lost.index);
        next.sent = lost.sent;
        next.called = lost.called;
        next.crash(now, case, registry)
    }

    fn fact(&self, position: u64) -> Entry {
        self.journal.read(position).unwrap().unwrap()
    }
}
