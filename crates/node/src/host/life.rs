//! One life of an actor in memory: from the reading of its journal to its stop, crash or fall.
//!
//! Pure but for the panics it catches. It hands inputs in, and keeps back what came of them until somebody
//! says up to where the journal is durable. Inputs are handled while earlier facts are still being
//! synced; what an input caused was worked out the moment it was handled, from no later fact.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};

use tenure_core::actor::effect::{Effect, EffectId, Input, Output, Problem};
use tenure_core::actor::fact::{BadFact, Entry};
use tenure_core::actor::snapshot::RestoreError;
use tenure_core::driver::Call;
use tenure_core::model::time::{Span, Time};
use tenure_core::runtime::hosted::HostedActor;
use tenure_core::runtime::outbox::{Outbox, Outgoing, RetryPolicy};
use tenure_core::wire::message::{Envelope, Sequence};
use tokio::sync::oneshot;

use super::handle::{Committed, HostError};
use crate::metrics::{KINDS, kind};

/// An input with whom to tell what came of it, if anybody waits.
pub(super) struct Task {
    pub(super) input: Input,
    pub(super) asker: Option<oneshot::Sender<Outcome>>,
}

/// What somebody outside is told about an input.
pub(super) type Outcome = Result<Committed, HostError>;

/// An answer to somebody outside, kept back until it is durable. Dropped if that never comes.
pub(super) type Held = Box<dyn FnOnce() + Send>;

/// What leaves an actor.
pub(super) enum Departure {
    /// A message, under the sender's number for it.
    Message(Sequence, Outgoing),
    /// A step on a unit.
    Call(EffectId, Call),
}

/// What a turn gives the shell at once; the rest leaves by [`Life::durable`].
#[derive(Default)]
pub(super) struct Turn {
    /// Where the facts belong.
    pub(super) before: u64,
    /// To be appended now.
    pub(super) facts: Vec<Entry>,
    /// What was wrong with the inputs.
    pub(super) problems: Vec<Problem>,
    /// Messages to be sent again: what they follow from is durable since long.
    pub(super) repeated: Vec<Departure>,
    /// How many inputs of each kind were handed in, time and the mapper's decision among them.
    pub(super) inputs: [u64; KINDS],
    /// Whether the mapper is to be asked again.
    pub(super) again: bool,
}

/// What one call of an actor caused, until its facts are durable.
struct Step {
    end: u64,
    facts: Vec<Entry>,
    replies: Vec<Envelope>,
    effects: Vec<(EffectId, Effect)>,
    held: Vec<Held>,
}

/// How long a mapper that panicked is left alone.
const MAPPER_REST: Span = Span::SECOND;

pub(super) struct Life {
    hosted: HostedActor,
    outbox: Outbox,
    steps: VecDeque<Step>,
    /// The facts before this position are durable.
    durable: u64,
    /// When the mapper may be asked again after it has panicked.
    mapper_from: Option<Time>,
}

impl Life {
    /// A life at its very beginning: the facts of the journal come by [`recall`](Self::recall).
    pub(super) fn new(hosted: HostedActor, retry_policy: RetryPolicy) -> Self {
        let outbox = Outbox::new(retry_policy);
        Self { hosted, outbox, steps: VecDeque::new(), durable: 0, mapper_from: None }
    }

    /// Takes in a fact of the journal.
    pub(super) fn recall(&mut self, entry: &Entry) -> Result<(), BadFact> {
        self.hosted.actor_mut().apply(entry)
    }

    /// Takes in the state behind so many facts of the journal.
    pub(super) fn restore(&mut self, state: &[u8]) -> Result<(), RestoreError> {
        self.hosted.actor_mut().restore(state)
    }

    /// The journal has been read: what is still owed may leave.
    pub(super) fn recalled(&mut self) {
        let position = self.position();
        let effects = self.hosted.actor().effects_after(0);
        self.durable = position;
        self.hold(Step { end: position, effects, ..Step::empty(position) });
    }

    pub(super) fn hosted(&self) -> &HostedActor {
        &self.hosted
    }

    pub(super) fn seat_mut(&mut self) -> &mut HostedActor {
        &mut self.hosted
    }

    /// What it has sent and waits to be answered.
    pub(super) fn outbox(&self) -> &Outbox {
        &self.outbox
    }

    pub(super) fn position(&self) -> u64 {
        self.hosted.actor().position()
    }

    /// One turn: repeats what was not answered for too long, handles the tasks in their order, then what time
    /// brought, then the mapper's decision if it is to be asked.
    ///
    /// # Panics
    /// If the actor does. The life is then void.
    pub(super) fn turn(&mut self, now: Time, mut tasks: Vec<Task>, consult: bool) -> Turn {
        let mut turn = Turn { before: self.position(), ..Turn::default() };
        if self.hosted.actor().next_timeout().is_some_and(|due| due <= now) {
            tasks.push(Task::plain(Input::Tick));
        }
        let actor = self.hosted.actor();
        let due = self.outbox.due(now, |id| actor.is_pending(id));
        turn.repeated = due.into_iter().map(|(id, out)| Departure::Message(id, out)).collect();
        if !tasks.is_empty() {
            self.hand_in(now, tasks, &mut turn);
        }
        if consult && let Some(input) = self.consult(now, &mut turn) {
            self.hand_in(now, vec![Task::plain(input)], &mut turn);
        }
        turn
    }

    fn hand_in(&mut self, now: Time, tasks: Vec<Task>, turn: &mut Turn) {
        let before = self.position();
        let mut out = Output::default();
        let mut held: Vec<Held> = Vec::new();
        for Task { input, asker } in tasks {
            let (facts, problems) = (out.facts.len(), out.problems.len());
            let position = self.position();
            turn.inputs[kind(&input)] += 1;
            self.hosted.actor_mut().handle(now, input, &mut out);
            if let Some(asker) = asker {
                let outcome = outcome(position, &out.facts[facts..], &out.problems[problems..]);
                held.push(Box::new(move || drop(asker.send(outcome))));
            }
        }
        let effects = self.hosted.actor().effects_after(before);
        turn.again = effects.iter().any(|(_, effect)| matches!(effect, Effect::Consult { .. }));
        turn.facts.extend_from_slice(&out.facts);
        turn.problems.append(&mut out.problems);
        let Output { facts, replies, .. } = out;
        self.hold(Step { end: self.position(), facts, replies, effects, held });
    }

    /// Asks the mapper. One that panics costs its round and some time, not the actor.
    fn consult(&mut self, now: Time, turn: &mut Turn) -> Option<Input> {
        if self.mapper_from.is_some_and(|from| now < from) {
            return None;
        }
        self.mapper_from = None;
        let asked = catch_unwind(AssertUnwindSafe(|| self.hosted.consult(now)));
        asked.unwrap_or_else(|_| {
            self.mapper_from = Some(now.plus(MAPPER_REST));
            turn.problems.push(Problem::BadChoice("the mapper panicked".to_owned()));
            None
        })
    }

    /// Keeps an answer back until everything that has been decided by now is durable.
    pub(super) fn after_all(&mut self, held: Held) {
        let end = self.position();
        self.hold(Step { held: vec![held], ..Step::empty(end) });
    }

    fn hold(&mut self, step: Step) {
        self.steps.push_back(step);
    }

    /// The facts before `end` are durable.
    pub(super) fn durable(&mut self, end: u64) {
        self.durable = self.durable.max(end);
    }

    /// Lets out what follows from durable facts, in the order in which it was decided: the facts to `watch`
    /// with their positions, messages and calls to `depart`.
    pub(super) fn release(
        &mut self,
        now: Time,
        mut watch: impl FnMut(u64, &Entry, &HostedActor),
        mut depart: impl FnMut(Departure),
    ) {
        let ripe = self.steps.partition_point(|step| step.end <= self.durable);
        let steps: Vec<Step> = self.steps.drain(..ripe).collect();
        for step in &steps {
            let first = step.end - step.facts.len() as u64;
            for (position, entry) in (first..).zip(&step.facts) {
                watch(position, entry, &self.hosted);
            }
        }
        let mut letters = self.seal(&steps).into_iter();
        for step in steps {
            for (reply, outgoing) in step.replies.iter().zip(&mut letters) {
                depart(Departure::Message(reply.header.sequence, outgoing));
            }
            for (id, effect) in step.effects {
                match effect {
                    Effect::Send(_) => {
                        let Some(outgoing) = letters.next() else { continue };
                        self.outbox.sent(id, outgoing.clone(), now);
                        depart(Departure::Message(id, outgoing));
                    }
                    Effect::Call(call) => depart(Departure::Call(id, call)),
                    Effect::Consult { .. } => {}
                }
            }
            step.held.into_iter().for_each(|held| held());
        }
    }

    /// Signs all that leaves with these steps, in the order in which it does.
    fn seal(&mut self, steps: &[Step]) -> Vec<Outgoing> {
        let envelopes: Vec<&Envelope> = steps.iter().flat_map(Step::envelopes).collect();
        if envelopes.is_empty() {
            return Vec::new();
        }
        let sealed = self.hosted.actor_mut().seal_all(&envelopes);
        let outgoing = |(envelope, sealed): (&Envelope, _)| Outgoing {
            to: envelope.header.to,
            kind: envelope.message.kind(),
            sealed,
        };
        envelopes.into_iter().zip(sealed).map(outgoing).collect()
    }

    /// When the next turn is due if nothing happens before.
    pub(super) fn next_timeout(&mut self) -> Option<Time> {
        let actor = self.hosted.actor();
        let repeat = self.outbox.next_timeout(|id| actor.is_pending(id));
        [actor.next_timeout(), repeat, self.mapper_from].into_iter().flatten().min()
    }

    /// The position of the next fact to be shown to those who watch.
    pub(super) fn released(&self) -> u64 {
        self.steps.front().map_or(self.position(), |step| step.end - step.facts.len() as u64)
    }
}

fn outcome(position: u64, facts: &[Entry], problems: &[Problem]) -> Outcome {
    if problems.is_empty() {
        return Ok(Committed { position, facts: facts.to_vec() });
    }
    let problems: Vec<String> = problems.iter().map(ToString::to_string).collect();
    Err(HostError::Refused(problems.join("; ")))
}

impl Task {
    pub(super) fn plain(input: Input) -> Self {
        Self { input, asker: None }
    }
}

impl Step {
    /// What it sends: its replies, then what is owed.
    fn envelopes(&self) -> impl Iterator<Item = &Envelope> {
        let owed = self.effects.iter().filter_map(|(_, effect)| match effect {
            Effect::Send(envelope) => Some(&**envelope),
            Effect::Call(_) | Effect::Consult { .. } => None,
        });
        self.replies.iter().chain(owed)
    }

    fn empty(end: u64) -> Self {
        Self { end, facts: vec![], replies: vec![], effects: vec![], held: vec![] }
    }
}

/// Runs `life`, and answers the words of its panic if it had one.
pub(super) fn catching<T>(life: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(life)).map_err(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
        text.unwrap_or("a panic without words").to_owned()
    })
}
