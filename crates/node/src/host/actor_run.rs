//! One run of an actor in memory: from the replay of its journal to its stop, crash or failure.
//!
//! Around the pure host it keeps what may leave only once facts are durable: answers to users, and facts for
//! watchers.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};

use tenure_core::actor::effect::Problem;
use tenure_core::actor::fact::BadFact;
use tenure_core::actor::snapshot::RestoreError;
use tenure_core::model::time::{Span, Time};
use tenure_core::runtime::host::{Departure, Host};
use tenure_core::runtime::outbox::{Outbox, RetryPolicy};
use tenure_core::runtime::{AnyActor, AnyMapper, AnyView, Entry, Input};
use tenure_core::wire::inquiry::Answered;
use tokio::sync::oneshot;

use super::handle::{Committed, HostError};
use crate::metrics::{KINDS, kind};

/// An input, and who waits for its outcome.
pub(super) struct Task {
    pub(super) input: Input,
    pub(super) asker: Option<oneshot::Sender<Outcome>>,
}

/// The outcome of an input, for anyone who handed it in.
pub(super) type Outcome = Result<Committed, HostError>;

/// An answer to an outside caller, withheld until it is durable; dropped if it never is.
pub(super) type Held = Box<dyn FnOnce() + Send>;

/// What a turn gives the shell at once; the rest leaves by [`ActorRun::release`].
#[derive(Default)]
pub(super) struct Turn {
    /// The position of the first fact.
    pub(super) before: u64,
    /// To be appended now.
    pub(super) facts: Vec<Entry>,
    /// What was wrong with the inputs.
    pub(super) problems: Vec<Problem>,
    /// What brokers have answered to inquiries.
    pub(super) answered: Vec<Answered>,
    /// Messages to be sent again.
    pub(super) repeated: Vec<Departure>,
    /// How many inputs of each kind were handed in, time and the mapper's decision among them.
    pub(super) inputs: [u64; KINDS],
}

/// Answers that may leave once the facts before `end` are durable.
struct Waiting {
    end: u64,
    facts: Vec<Entry>,
    held: Vec<Held>,
}

pub(super) struct ActorRun {
    host: Host,
    waiting: VecDeque<Waiting>,
    /// The facts before this position are durable.
    durable: u64,
}

impl ActorRun {
    /// A run at its beginning: the facts of the journal come by [`replay`](Self::replay).
    pub(super) fn new(actor: AnyActor, retry_policy: RetryPolicy) -> Self {
        let host = Host::new(actor, retry_policy);
        Self { host, waiting: VecDeque::new(), durable: 0 }
    }

    /// The same, which asks peers for their clocks.
    pub(super) fn checking_clocks(self, every: Option<Span>) -> Self {
        Self { host: self.host.checking_clocks(every), ..self }
    }

    /// Applies a fact of the journal.
    pub(super) fn replay(&mut self, entry: &Entry) -> Result<(), BadFact> {
        self.host.replay(entry)
    }

    /// Restores a snapshot.
    pub(super) fn restore(&mut self, state: &[u8]) -> Result<(), RestoreError> {
        self.host.restore(state)
    }

    /// The journal has been read: what is still pending may leave.
    pub(super) fn recovered(&mut self) {
        self.host.recovered();
        self.durable = self.host.position();
    }

    pub(super) fn actor(&self) -> &AnyActor {
        self.host.actor()
    }

    pub(super) fn actor_mut(&mut self) -> &mut AnyActor {
        self.host.actor_mut()
    }

    /// The messages that wait for an answer.
    pub(super) fn outbox(&self) -> &Outbox {
        self.host.outbox()
    }

    pub(super) fn position(&self) -> u64 {
        self.host.position()
    }

    /// One turn: repeats what was not answered for too long, handles the tasks in their order, then what is
    /// due, then the decision of the `mapper`, if one is given, about a round that has opened.
    ///
    /// # Panics
    /// If the actor does. The run is then void.
    pub(super) fn turn(
        &mut self,
        now: Time,
        mut tasks: Vec<Task>,
        mapper: Option<&AnyMapper>,
    ) -> Turn {
        let mut turn = Turn { before: self.position(), ..Turn::default() };
        if self.host.is_due(now) {
            tasks.push(Task::plain(Input::Tick));
        }
        let due = self.host.repeat(now);
        turn.repeated = due.into_iter().map(|(id, out)| Departure::Message(id, out)).collect();
        if !tasks.is_empty() {
            self.hand_in(now, tasks, &mut turn);
        }
        let view = mapper.and_then(|mapper| Some((mapper, self.consultation(now)?)));
        if let Some(decision) = view.and_then(|(mapper, view)| mapper.decide(&view)) {
            self.hand_in(now, vec![Task::plain(Input::Decision(decision))], &mut turn);
        }
        turn
    }

    fn hand_in(&mut self, now: Time, tasks: Vec<Task>, turn: &mut Turn) {
        let mut held: Vec<Held> = Vec::new();
        let inputs = tasks.into_iter().map(|Task { input, asker }| {
            turn.inputs[kind(&input)] += 1;
            (input, asker)
        });
        let done = |asker: Option<oneshot::Sender<_>>, position, facts: &[_], problems: &[_]| {
            if let Some(asker) = asker {
                let outcome = outcome(position, facts, problems);
                held.push(Box::new(move || drop(asker.send(outcome))));
            }
        };
        let handled = self.host.handle_each(now, inputs, done);
        turn.problems.extend(handled.problems);
        turn.answered.extend(handled.answered);
        turn.facts.extend_from_slice(&handled.facts);
        self.waiting.push_back(Waiting { end: self.host.position(), facts: handled.facts, held });
    }

    /// What the mapper is to be asked, once for each round.
    pub(super) fn consultation(&mut self, now: Time) -> Option<AnyView> {
        self.host.consultation(now)
    }

    /// The mapper did not answer: it is to be asked about the open round again.
    pub(super) fn ask_again(&mut self) {
        self.host.ask_again();
    }

    /// Keeps an answer back until everything that has been decided by now is durable.
    pub(super) fn after_all(&mut self, held: Held) {
        let waiting = Waiting { end: self.position(), facts: Vec::new(), held: vec![held] };
        self.waiting.push_back(waiting);
    }

    /// The facts before `end` are durable.
    pub(super) fn durable(&mut self, end: u64) {
        self.durable = self.durable.max(end);
        self.host.durable(end);
    }

    /// Lets out what follows from durable facts, in the order in which it was decided: the facts to `watch`
    /// with their positions, messages and calls to `depart`, answers to those who wait for them.
    pub(super) fn release(
        &mut self,
        now: Time,
        mut watch: impl FnMut(u64, &Entry, &AnyActor),
        depart: impl FnMut(Departure),
    ) {
        let ripe = self.waiting.partition_point(|waiting| waiting.end <= self.durable);
        let ripe: Vec<Waiting> = self.waiting.drain(..ripe).collect();
        for Waiting { end, facts, .. } in &ripe {
            let first = end - facts.len() as u64;
            for (position, entry) in (first..).zip(facts) {
                watch(position, entry, self.host.actor());
            }
        }
        self.host.release(now, depart);
        ripe.into_iter().flat_map(|waiting| waiting.held).for_each(|held| held());
    }

    /// When the next turn is due if nothing happens before.
    pub(super) fn next_timeout(&mut self) -> Option<Time> {
        self.host.next_timeout()
    }

    /// The position of the next fact to be shown to those who watch.
    pub(super) fn released(&self) -> u64 {
        let first = |waiting: &Waiting| waiting.end - waiting.facts.len() as u64;
        self.waiting.front().map_or(self.position(), first)
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

/// Runs `run`; an error if it panicked, with the text of the panic.
pub(super) fn catching<T>(run: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(run)).map_err(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
        text.unwrap_or("a panic without words").to_owned()
    })
}
