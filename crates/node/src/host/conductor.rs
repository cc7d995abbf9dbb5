//! The conductor: actors on real mailboxes and journals, in virtual time and in lockstep.
//!
//! Time jumps from one instant at which something is due to the next, and stands while rounds are played. In
//! a round every actor takes its turn with what the round before produced, and its facts are synced
//! before anything of it leaves; what leaves is then dealt with in the order of the actors' names.
//! That is the order of the emulator, so that a run here and a run there can be compared to the byte.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use actix::{Actor, Addr, AsyncContext as _, Context, Handler};
use tenure_core::actor::Actor as _;
use tenure_core::actor::Role;
use tenure_core::actor::effect::DriverResult;
use tenure_core::model::codec::Hash;
use tenure_core::model::identity::ActorId;
use tenure_core::model::name::Name;
use tenure_core::model::time::{Span, Time};
use tenure_core::runtime::host::Departure;
use tenure_core::runtime::journal::hash_of_run;
use tenure_core::runtime::outbox::Outgoing;
use tenure_core::runtime::{AnyMapper, Input};
use tenure_core::wire::message::Sequence;
use thiserror::Error;
use tokio::sync::oneshot;

use super::actor_run::{ActorRun, Task};
use super::inbox::Inbox;
use super::{ActorInfo, HostFailure, Part, Synced};
use crate::clock::{Clock as _, VirtualClock};
use crate::journal::{JournalError, JournalFile, Owner, Writer};
use crate::transport::Packet;

/// A message that is being sent, as far as its fate may depend on it. Actors are numbered by their names.
#[derive(Clone, Copy, Debug)]
pub struct Sending {
    /// Who sends it.
    pub from: usize,
    /// Who is to have it.
    pub to: usize,
    /// The sender's number for it.
    pub sequence: Sequence,
    /// The kind of message it is.
    pub kind: &'static str,
}

/// How messages are delivered.
pub trait Fate {
    /// How long after `now` each copy arrives; none if the message is lost.
    fn fate(&mut self, sending: Sending, now: Time) -> Vec<Span>;
}

/// What is measured at an instant: by whom, which signal, which value.
pub type Measured = Vec<(usize, Name, i64)>;

/// The inputs of a run, and its length.
#[derive(Clone, Debug)]
pub struct RunPlan {
    /// What is measured, and when.
    pub measured: BTreeMap<Time, Measured>,
    /// From then on guests want nothing more, and the run ends when nothing is left to do.
    pub end: Time,
    /// It ends then at the latest.
    pub give_up_at: Time,
}

/// Why a run cannot continue.
#[derive(Debug, Error)]
pub enum ConductorError {
    /// An actor cannot start.
    #[error("{} `{}`: {cause}", info.role, info.name)]
    Start {
        /// Which one.
        info: ActorInfo,
        /// Why.
        cause: HostFailure,
    },
    /// An actor, or its journal, has failed.
    #[error("{} `{}` has failed", .0.role, .0.name)]
    Lost(ActorInfo),
    /// Actors keep each other busy without time passing.
    #[error("at {0} more than {MAX_ROUNDS} rounds passed without an end")]
    Livelock(Time),
    /// A journal cannot be closed.
    #[error(transparent)]
    Close(#[from] JournalError),
}

/// The most rounds in one instant.
const MAX_ROUNDS: usize = 10_000;

/// A run in virtual time.
pub struct Conductor {
    clock: Arc<VirtualClock>,
    fate: Box<dyn Fate>,
    plan: RunPlan,
    participants: Vec<Participant>,
    by_id: BTreeMap<ActorId, usize>,
    /// What arrives later, in the order in which it was sent.
    arrivals: BTreeMap<(Time, u64), (usize, ArrivalInput)>,
    sent: u64,
}

/// An actor as the conductor sees it.
struct Participant {
    info: ActorInfo,
    host: Addr<Paced>,
    /// What it is given in the round to come.
    waiting: Vec<ArrivalInput>,
    next: Option<Time>,
    idle: bool,
}

/// An input that can arrive.
enum ArrivalInput {
    Answer(DriverResult),
    Message(Packet),
}

impl Conductor {
    /// Builds the actors on their journals and starts them, at [`Time::ZERO`].
    ///
    /// # Errors
    /// The first actor that cannot start.
    pub async fn start(
        mut parts: Vec<Part>,
        fate: Box<dyn Fate>,
        plan: RunPlan,
    ) -> Result<Self, ConductorError> {
        parts.sort_by(|a, b| (&a.info.name, a.info.role).cmp(&(&b.info.name, b.info.role)));
        let clock = Arc::new(VirtualClock::new());
        let mut participants = Vec::new();
        for part in parts {
            let info = part.info.clone();
            let host = Paced::open(part, clock.clone())
                .map_err(|cause| ConductorError::Start { info: info.clone(), cause })?;
            let (waiting, host) = (Vec::new(), host.start());
            participants.push(Participant { info, host, waiting, next: None, idle: true });
        }
        let by_id = participants.iter().enumerate().map(|(index, p)| (p.info.id, index)).collect();
        let arrivals = BTreeMap::new();
        let mut run = Self { clock, fate, plan, participants, by_id, arrivals, sent: 0 };
        for index in 0..run.participants.len() {
            run.participants[index].host.do_send(Given(Input::Start));
            run.round(index, false).await?;
        }
        Ok(run)
    }

    /// Plays until everything has come to its end, or the time limit is reached.
    ///
    /// # Errors
    /// An actor or a journal that fails, or actors that never come to rest.
    pub async fn run(&mut self) -> Result<(), ConductorError> {
        // What the starts of the actors have caused.
        self.instant().await?;
        while let Some(next) = self.next_instant().filter(|next| *next <= self.plan.give_up_at)
            && !self.is_at_rest()
        {
            self.clock.not_before(next);
            self.instant().await?;
        }
        Ok(())
    }

    /// Closes all journals; answers the hash of the run.
    ///
    /// # Errors
    /// A journal that cannot be closed.
    pub async fn close(self) -> Result<Hash, ConductorError> {
        let mut hashes = Vec::new();
        for participant in self.participants {
            let (reply, answer) = oneshot::channel();
            participant.host.do_send(Close(reply));
            hashes.push(answer.await.map_err(|_| ConductorError::Lost(participant.info))??);
        }
        Ok(hash_of_run(hashes))
    }

    fn is_at_rest(&self) -> bool {
        self.clock.now() >= self.plan.end
            && self.arrivals.is_empty()
            && self.participants.iter().all(|participant| participant.idle)
    }

    fn next_instant(&self) -> Option<Time> {
        let arrival = self.arrivals.first_key_value().map(|((time, _), _)| *time);
        let measured = self.plan.measured.first_key_value().map(|(time, _)| *time);
        let timers = self.participants.iter().filter_map(|participant| participant.next);
        timers.chain(arrival).chain(measured).min().map(|next| next.max(self.clock.now()))
    }

    /// One instant: rounds until nothing is due any more.
    async fn instant(&mut self) -> Result<(), ConductorError> {
        let now = self.clock.now();
        let first = self.plan.measured.first_entry().filter(|entry| *entry.key() == now);
        let mut measured = first.map(|entry| entry.remove()).unwrap_or_default();
        for _ in 0..MAX_ROUNDS {
            self.take_arrivals(now);
            for participant in &mut self.participants {
                for what in participant.waiting.drain(..) {
                    match what {
                        ArrivalInput::Answer(done) => {
                            participant.host.do_send(Given(Input::Driver(done)))
                        }
                        ArrivalInput::Message(packet) => participant.host.do_send(packet),
                    }
                }
            }
            for (index, signal, value) in measured.drain(..) {
                self.participants[index].host.do_send(Given(Input::Observe { signal, value }));
            }
            let mut busy = false;
            for index in 0..self.participants.len() {
                let role = self.participants[index].info.role;
                let wants_more = role != Role::ServiceManager || now < self.plan.end;
                busy |= self.round(index, wants_more).await?;
            }
            if !busy && self.participants.iter().all(|participant| participant.waiting.is_empty()) {
                return Ok(());
            }
        }
        Err(ConductorError::Livelock(now))
    }

    /// One actor's turn. Answers whether it had anything to do.
    async fn round(&mut self, index: usize, consult: bool) -> Result<bool, ConductorError> {
        let participant = &mut self.participants[index];
        let (reply, answer) = oneshot::channel();
        participant.host.do_send(Round { consult, reply });
        let Ok(outcome) = answer.await else {
            return Err(ConductorError::Lost(participant.info.clone()));
        };
        (participant.next, participant.idle) = (outcome.next, outcome.idle);
        for left in outcome.left {
            match left {
                Left::Message(sequence, outgoing) => self.send(index, sequence, outgoing),
                Left::Performed(done, after) => {
                    self.arrive(index, after, ArrivalInput::Answer(done))
                }
            }
        }
        Ok(outcome.busy)
    }

    /// Puts a message on its way. One without delay arrives in the next round.
    fn send(&mut self, index: usize, sequence: Sequence, outgoing: Outgoing) {
        let Outgoing { to, kind, sealed } = outgoing;
        let Some(&receiver) = self.by_id.get(&to) else { return };
        let sending = Sending { from: index, to: receiver, sequence, kind };
        let from = self.participants[index].info.id;
        for delay in self.fate.fate(sending, self.clock.now()) {
            let sealed = sealed.clone();
            let packet = Packet { from, to, sequence, kind, sealed };
            self.arrive(receiver, delay, ArrivalInput::Message(packet));
        }
    }

    fn arrive(&mut self, participant: usize, delay: Span, what: ArrivalInput) {
        if delay == Span::ZERO {
            return self.participants[participant].waiting.push(what);
        }
        self.sent += 1;
        let at = self.clock.now().plus(delay);
        self.arrivals.insert((at, self.sent), (participant, what));
    }

    fn take_arrivals(&mut self, now: Time) {
        while let Some(entry) = self.arrivals.first_entry() {
            if entry.key().0 > now {
                return;
            }
            let (participant, what) = entry.remove();
            self.participants[participant].waiting.push(what);
        }
    }
}

/// A host without timers: the conductor starts its turns.
struct Paced {
    part: Part,
    clock: Arc<VirtualClock>,
    run: ActorRun,
    mapper: AnyMapper,
    writer: Option<Writer>,
    inbox: Inbox,
    outcome: TurnOutcome,
    /// Who waits for the end of the turn.
    reply: Option<oneshot::Sender<TurnOutcome>>,
}

/// Something for the inbox that is no message.
struct Given(Input);

/// The actor is to take its turn.
struct Round {
    consult: bool,
    reply: oneshot::Sender<TurnOutcome>,
}

/// The run has ended.
struct Close(oneshot::Sender<Result<Hash, JournalError>>);

/// The outcome of a turn, once all of it is durable.
#[derive(Default)]
struct TurnOutcome {
    left: Vec<Left>,
    busy: bool,
    next: Option<Time>,
    idle: bool,
}

/// What left the actor.
enum Left {
    Message(Sequence, Outgoing),
    Performed(DriverResult, Span),
}

impl Paced {
    fn open(part: Part, clock: Arc<VirtualClock>) -> Result<Self, HostFailure> {
        let ActorInfo { name, role, id } = part.info.clone();
        let (actor, mapper) = (part.build)()?.into_parts();
        let mut run = ActorRun::new(actor, part.retry_policy);
        let owner = Owner { name, role, id };
        let journal = JournalFile::recover(&part.journal, &owner, |entry| run.replay(entry))?;
        run.recovered();
        let writer = Some(journal.into_writer()?);
        let (inbox, outcome) = (Inbox::default(), TurnOutcome::default());
        Ok(Self { part, clock, run, mapper, writer, inbox, outcome, reply: None })
    }

    /// Reports what left the actor, if all of it is durable.
    fn release(&mut self) {
        let Self { run, part, outcome, .. } = self;
        run.release(
            self.clock.now(),
            |_, _, _| {},
            |departure| match (departure, &part.driver) {
                (Departure::Message(sequence, outgoing), _) => {
                    outcome.left.push(Left::Message(sequence, outgoing));
                }
                (Departure::Call(_, call), Some(driver)) => {
                    let (done, after) = driver.perform(&call);
                    outcome.left.push(Left::Performed(done, after));
                }
                (Departure::Call(..), None) => {}
            },
        );
        let Some(reply) = self.reply.take() else { return };
        let mut outcome = std::mem::take(outcome);
        outcome.next = run.next_timeout();
        outcome.idle = run.actor().unfinished(1).is_empty();
        drop(reply.send(outcome));
    }
}

impl Actor for Paced {
    type Context = Context<Self>;
}

impl Handler<Packet> for Paced {
    type Result = ();

    fn handle(&mut self, packet: Packet, _: &mut Self::Context) {
        self.inbox.message(packet);
    }
}

impl Handler<Given> for Paced {
    type Result = ();

    fn handle(&mut self, Given(input): Given, _: &mut Self::Context) {
        match input {
            Input::Start => self.inbox.begin(),
            Input::Driver(done) => self.inbox.answer(done),
            Input::Message(_)
            | Input::Tick
            | Input::Observe { .. }
            | Input::Command(_)
            | Input::Ordered(..)
            | Input::Decision(_) => self.inbox.other(Task::plain(input)),
        }
    }
}

impl Handler<Round> for Paced {
    type Result = ();

    fn handle(&mut self, Round { consult, reply }: Round, ctx: &mut Self::Context) {
        let tasks = self.inbox.take(usize::MAX);
        let mapper = consult.then_some(&self.mapper);
        let turn = self.run.turn(self.clock.now(), tasks, mapper);
        let repeated = turn.repeated.into_iter().filter_map(|departure| match departure {
            Departure::Message(sequence, outgoing) => Some(Left::Message(sequence, outgoing)),
            Departure::Call(..) => None,
        });
        self.outcome.left.extend(repeated);
        self.outcome.busy = turn.inputs.iter().any(|&of_kind| of_kind > 0);
        self.reply = Some(reply);
        if turn.facts.is_empty() {
            return self.release();
        }
        let Some(writer) = &self.writer else { return };
        let (host, end, since) = (ctx.address(), self.run.position(), Instant::now());
        writer.append(turn.before, turn.facts, move |result| {
            host.do_send(Synced { run: 0, end, since, result });
        });
    }
}

impl Handler<Synced> for Paced {
    type Result = ();

    fn handle(&mut self, synced: Synced, _: &mut Self::Context) {
        match synced.result {
            Ok(()) => {
                self.run.durable(synced.end);
                self.release();
            }
            // The conductor notices by the missing reply.
            Err(_) => self.reply = None,
        }
    }
}

impl Handler<Close> for Paced {
    type Result = ();

    fn handle(&mut self, Close(reply): Close, _: &mut Self::Context) {
        let Some(writer) = self.writer.take() else { return };
        let hash = writer.head().hash;
        drop(reply.send(writer.close().map(|()| hash)));
    }
}

super::messages!(Given, Round, Close);
