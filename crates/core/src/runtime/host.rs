//! The loop around an actor that every shell runs: hand in inputs, append facts, release what they caused.
//!
//! Pure. A shell supplies the clock, the journal, the network and the drivers:
//!
//! 1. [`Host::handle`] hands in inputs and answers the facts to append;
//! 2. the shell appends them, and calls [`Host::durable`] once they are;
//! 3. [`Host::release`] gives out, in order, what follows from durable facts: messages and driver calls;
//! 4. [`Host::repeat`] gives out messages that were not answered for too long;
//! 5. [`Host::consultation`] gives out what the mapper is to be asked, for the shell to bring its decision
//!    back as an input, in its own time;
//! 6. the shell waits no longer than [`Host::next_timeout`].
//!
//! Inputs may be handled while earlier facts are still being synced: what an input caused is worked out
//! from the state right behind its facts. If an append fails the host is dropped, and another one recovers
//! from the journal by [`Host::replay`] and [`Host::recovered`].

use std::collections::VecDeque;

use crate::actor::Actor as _;
use crate::actor::effect::{Effect, EffectId, Problem};
use crate::actor::fact::BadFact;
use crate::actor::periodic::Periodic;
use crate::actor::snapshot::RestoreError;
use crate::driver::Call;
use crate::model::time::{Span, Time};
use crate::mutants::mutant;
use crate::runtime::actor::{AnyActor, Input, Output};
use crate::runtime::fact::Entry;
use crate::runtime::mapper::AnyView;
use crate::runtime::outbox::{Outbox, Outgoing, RetryPolicy};
use crate::wire::inquiry::Answered;
use crate::wire::message::{Envelope, Sequence};

/// An actor with what it has decided and not yet let out.
#[derive(Clone, Debug)]
pub struct Host {
    actor: AnyActor,
    outbox: Outbox,
    steps: VecDeque<Step>,
    /// The facts before this position are durable.
    durable: u64,
    /// The round about which the mapper has been asked.
    asked: Option<u64>,
    clock_checks: Periodic,
}

/// What leaves an actor.
#[derive(Clone, Debug, PartialEq)]
pub enum Departure {
    /// A message, under the sender's number for it.
    Message(Sequence, Outgoing),
    /// A step on a unit.
    Call(EffectId, Call),
}

/// What one call of [`Host::handle`] gives the shell.
#[derive(Debug, Default)]
pub struct Turn {
    /// The position of the first fact.
    pub before: u64,
    /// The facts to append.
    pub facts: Vec<Entry>,
    /// What was wrong with the inputs.
    pub problems: Vec<Problem>,
    /// What brokers have answered to inquiries.
    pub answered: Vec<Answered>,
}

/// What one turn caused, until its facts are durable.
#[derive(Clone, Debug)]
struct Step {
    end: u64,
    replies: Vec<Envelope>,
    effects: Vec<(EffectId, Effect)>,
}

impl Host {
    /// A host of an actor; its facts so far come by [`replay`](Self::replay).
    pub fn new(actor: AnyActor, retry: RetryPolicy) -> Self {
        let (steps, outbox) = (VecDeque::new(), Outbox::new(retry));
        let (durable, clock_checks) = (actor.position(), Periodic::default());
        Self { durable, actor, outbox, steps, asked: None, clock_checks }
    }

    /// The same, which asks the actor's peers for their clocks at each start and then after each period.
    pub fn checking_clocks(self, every: Option<Span>) -> Self {
        Self { clock_checks: Periodic::every(every), ..self }
    }

    /// Applies a fact of the journal.
    ///
    /// # Errors
    /// If the fact does not follow from those before it.
    pub fn replay(&mut self, entry: &Entry) -> Result<(), BadFact> {
        self.actor.replay(entry)
    }

    /// Restores a snapshot of the actor's state.
    ///
    /// # Errors
    /// If the snapshot is not one of this actor's.
    pub fn restore(&mut self, state: &[u8]) -> Result<(), RestoreError> {
        self.actor.restore(state)
    }

    /// The journal has been read: what is still pending may leave. Hand in [`Input::Start`] next.
    pub fn recovered(&mut self) {
        self.resume_from(0);
    }

    /// As [`recovered`](Self::recovered), when effects of facts before `position` were started elsewhere.
    pub fn resume_from(&mut self, position: u64) {
        self.durable = self.position();
        let effects = self.actor.effects_after(position);
        self.keep(Step { end: self.durable, replies: Vec::new(), effects });
    }

    /// The actor.
    pub fn actor(&self) -> &AnyActor {
        &self.actor
    }

    /// The actor, for what changes no state, such as signing.
    pub fn actor_mut(&mut self) -> &mut AnyActor {
        &mut self.actor
    }

    /// The actor, without what waits to be let out.
    pub fn into_actor(self) -> AnyActor {
        self.actor
    }

    /// The messages that wait for an answer.
    pub fn outbox(&self) -> &Outbox {
        &self.outbox
    }

    /// The messages that wait for an answer, to be filled by a shell that knows what was sent before.
    pub fn outbox_mut(&mut self) -> &mut Outbox {
        &mut self.outbox
    }

    /// The number of facts, durable or not.
    pub fn position(&self) -> u64 {
        self.actor.position()
    }

    /// Whether time alone gives the actor something to do at `now`.
    pub fn is_due(&self, now: Time) -> bool {
        self.next_timer().is_some_and(|due| due <= now)
    }

    /// When time alone gives the actor something to do.
    pub fn next_timer(&self) -> Option<Time> {
        let volatile = [self.actor.next_volatile(), self.clock_checks.next()];
        self.actor.next_timeout().into_iter().chain(volatile.into_iter().flatten()).min()
    }

    /// Hands inputs in, in their order. What they caused waits for [`durable`](Self::durable).
    ///
    /// # Panics
    /// If the actor refuses a fact of its own: a mistake in the program. The host is then void.
    pub fn handle(&mut self, now: Time, inputs: impl IntoIterator<Item = Input>) -> Turn {
        self.handle_each(now, inputs.into_iter().map(|input| (input, ())), |(), _, _, _| {})
    }

    /// As [`handle`](Self::handle), and after each input calls `done` with the mark that came with it, the
    /// position of its first fact, its facts and its problems.
    pub fn handle_each<M>(
        &mut self,
        now: Time,
        inputs: impl IntoIterator<Item = (Input, M)>,
        mut done: impl FnMut(M, u64, &[Entry], &[Problem]),
    ) -> Turn {
        let before = self.position();
        let mut out = Output::default();
        for (input, mark) in inputs {
            let (facts, problems) = (out.facts.len(), out.problems.len());
            let position = self.position();
            let may_check = matches!(input, Input::Start | Input::Tick);
            self.actor.handle(now, input, &mut out);
            if may_check && self.clock_checks.falls_due(now) {
                out.replies.extend(self.actor.base().pings(now));
            }
            done(mark, position, &out.facts[facts..], &out.problems[problems..]);
        }
        let effects = self.actor.effects_after(before);
        let Output { facts, replies, problems, answered } = out;
        self.keep(Step { end: self.position(), replies, effects });
        Turn { before, facts, problems, answered }
    }

    fn keep(&mut self, step: Step) {
        if !step.replies.is_empty() || !step.effects.is_empty() {
            self.steps.push_back(step);
        }
    }

    /// Whether something waits to be let out, durable or not.
    pub fn has_departures(&self) -> bool {
        !self.steps.is_empty()
    }

    /// The facts before `end` are durable.
    pub fn durable(&mut self, end: u64) {
        self.durable = self.durable.max(end);
    }

    /// Gives out what follows from durable facts, in the order in which it was decided. What leaves
    /// together is signed together.
    pub fn release(&mut self, now: Time, mut depart: impl FnMut(Departure)) {
        let ripe = self.steps.partition_point(|step| step.end <= self.durable);
        if ripe == 0 || self.keys_are_new() {
            return;
        }
        let mut sealed = self.seal(ripe).into_iter();
        for Step { replies, effects, .. } in self.steps.drain(..ripe) {
            for (reply, outgoing) in replies.iter().zip(&mut sealed) {
                depart(Departure::Message(reply.header.sequence, outgoing));
            }
            for (id, effect) in effects {
                match effect {
                    Effect::Send(_) => {
                        let Some(outgoing) = sealed.next() else { continue };
                        self.outbox.sent(id, outgoing.clone(), now);
                        depart(Departure::Message(id, outgoing));
                    }
                    Effect::Call(call) => depart(Departure::Call(id, call)),
                }
            }
        }
    }

    /// Whether the key that it signs with is not durable yet: what is signed with it would tell of it.
    fn keys_are_new(&self) -> bool {
        self.durable < self.actor.base().keys_stated && !mutant!(KeyShownEarly)
    }

    /// Signs all that leaves with the first `ripe` steps, in the order in which it does.
    fn seal(&mut self, ripe: usize) -> Vec<Outgoing> {
        let steps = self.steps.iter().take(ripe);
        let envelopes: Vec<&Envelope> = steps.flat_map(Step::envelopes).collect();
        if envelopes.is_empty() {
            return Vec::new();
        }
        let sealed = self.actor.seal_all(&envelopes);
        let outgoing = |(envelope, sealed): (&Envelope, _)| Outgoing {
            to: envelope.header.to,
            kind: envelope.message.kind(),
            sealed,
        };
        envelopes.into_iter().zip(sealed).map(outgoing).collect()
    }

    /// The messages to be sent again at `now`: pending, and not answered for too long.
    pub fn repeat(&mut self, now: Time) -> Vec<(EffectId, Outgoing)> {
        if self.keys_are_new() {
            return Vec::new();
        }
        let actor = &self.actor;
        let mut due = self.outbox.due(now, |id| actor.awaited(id));
        let key = self.actor.key();
        for (_, outgoing) in &mut due {
            // What was signed with an earlier key is signed anew: nobody takes it any more.
            if outgoing.sealed.key() != key
                && let Ok(envelope) = outgoing.sealed.peek()
            {
                outgoing.sealed = self.actor.seal(&envelope);
            }
        }
        due
    }

    /// What the mapper is to be asked, once for each round: the actor as it is now, after all inputs so
    /// far. The answer is an [`Input::Decision`]. One that never comes costs the round, until
    /// [`ask_again`](Self::ask_again).
    pub fn consultation(&mut self, now: Time) -> Option<AnyView> {
        let round = self.actor.open_round();
        if round == self.asked {
            return None;
        }
        self.asked = round;
        self.actor.view(now)
    }

    /// The mapper did not answer: it is to be asked about the open round again.
    pub fn ask_again(&mut self) {
        self.asked = None;
    }

    /// When there is something to do if nothing arrives before.
    pub fn next_timeout(&mut self) -> Option<Time> {
        [self.next_timer(), self.next_repetition()].into_iter().flatten().min()
    }

    /// When a message is to be sent again.
    pub fn next_repetition(&mut self) -> Option<Time> {
        if self.keys_are_new() {
            return None;
        }
        let actor = &self.actor;
        self.outbox.next_timeout(|id| actor.awaited(id))
    }
}

impl Step {
    /// What it sends: its replies, then pending messages.
    fn envelopes(&self) -> impl Iterator<Item = &Envelope> {
        let pending = self.effects.iter().filter_map(|(_, effect)| match effect {
            Effect::Send(envelope) => Some(&**envelope),
            Effect::Call(_) => None,
        });
        self.replies.iter().chain(pending)
    }
}
