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
use super::{Card, HostFailure, Part, Synced};
use crate::clock::{Clock as _, VirtualClock};
use crate::journal::{JournalError, JournalFile, Owner, Writer};
use crate::transport::Parcel;

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

/// What becomes of messages.
pub trait Fate {
    /// How long after `now` each copy arrives; none if the message is lost.
    fn fate(&mut self, sending: Sending, now: Time) -> Vec<Span>;
}

/// What is measured at an instant: by whom, which signal, which value.
pub type Measured = Vec<(usize, Name, i64)>;

/// What happens in a run, and for how long.
#[derive(Clone, Debug)]
pub struct Programme {
    /// What is measured, and when.
    pub measured: BTreeMap<Time, Measured>,
    /// From then on guests want nothing more, and the run ends when nothing is left to do.
    pub end: Time,
    /// It ends then at the latest.
    pub give_up_at: Time,
}

/// Why a run cannot go on.
#[derive(Debug, Error)]
pub enum ConductorError {
    /// An actor cannot start.
    #[error("{} `{}`: {cause}", card.role, card.name)]
    Start {
        /// Which one.
        card: Card,
        /// Why.
        cause: HostFailure,
    },
    /// An actor, or its journal, has failed.
    #[error("{} `{}` has failed", .0.role, .0.name)]
    Lost(Card),
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
    programme: Programme,
    participants: Vec<Participant>,
    by_id: BTreeMap<ActorId, usize>,
    /// What arrives later, in the order in which it was sent.
    arrivals: BTreeMap<(Time, u64), (usize, What)>,
    sent: u64,
}

/// An actor as the conductor sees it.
struct Participant {
    card: Card,
    host: Addr<Paced>,
    /// What it is given in the round to come.
    waiting: Vec<What>,
    next: Option<Time>,
    idle: bool,
}

/// What can arrive.
enum What {
    Answer(DriverResult),
    Message(Parcel),
}

impl Conductor {
    /// Builds the actors on their journals and starts them, at [`Time::ZERO`].
    ///
    /// # Errors
    /// The first actor that cannot start.
    pub async fn start(
        mut parts: Vec<Part>,
        fate: Box<dyn Fate>,
        programme: Programme,
    ) -> Result<Self, ConductorError> {
        parts.sort_by(|a, b| (&a.card.name, a.card.role).cmp(&(&b.card.name, b.card.role)));
        let clock = Arc::new(VirtualClock::new());
        let mut participants = Vec::new();
        for part in parts {
            let card = part.card.clone();
            let host = Paced::open(part, clock.clone())
                .map_err(|cause| ConductorError::Start { card: card.clone(), cause })?;
            let (waiting, host) = (Vec::new(), host.start());
            participants.push(Participant { card, host, waiting, next: None, idle: true });
        }
        let by_id = participants.iter().enumerate().map(|(index, p)| (p.card.id, index)).collect();
        let arrivals = BTreeMap::new();
        let mut run = Self { clock, fate, programme, participants, by_id, arrivals, sent: 0 };
        for index in 0..run.participants.len() {
            run.participants[index].host.do_send(Given(Input::Start));
            run.round(index, false).await?;
        }
        Ok(run)
    }

    /// Plays until everything has come to its end, or the patience is over.
    ///
    /// # Errors
    /// An actor or a journal that fails, or actors that never come to rest.
    pub async fn run(&mut self) -> Result<(), ConductorError> {
        while let Some(next) = self.next_instant().filter(|next| *next <= self.programme.give_up_at)
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
            hashes.push(answer.await.map_err(|_| ConductorError::Lost(participant.card))??);
        }
        Ok(hash_of_run(hashes))
    }

    fn is_at_rest(&self) -> bool {
        self.clock.now() >= self.programme.end
            && self.arrivals.is_empty()
            && self.participants.iter().all(|participant| participant.idle)
    }

    fn next_instant(&self) -> Option<Time> {
        let arrival = self.arrivals.first_key_value().map(|((time, _), _)| *time);
        let measured = self.programme.measured.first_key_value().map(|(time, _)| *time);
        let timers = self.participants.iter().filter_map(|participant| participant.next);
        timers.chain(arrival).chain(measured).min().map(|next| next.max(self.clock.now()))
    }

    /// One instant: rounds until nothing is due any more.
    async fn instant(&mut self) -> Result<(), ConductorError> {
        let now = self.clock.now();
        let first = self.programme.measured.first_entry().filter(|entry| *entry.key() == now);
        let mut measured = first.map(|entry| entry.remove()).unwrap_or_default();
        for _ in 0..MAX_ROUNDS {
            self.take_arrivals(now);
            for participant in &mut self.participants {
                for what in participant.waiting.drain(..) {
                    match what {
                        What::Answer(done) => participant.host.do_send(Given(Input::Driver(done))),
                        What::Message(parcel) => participant.host.do_send(parcel),
                    }
                }
            }
            for (index, signal, value) in measured.drain(..) {
                self.participants[index].host.do_send(Given(Input::Observe { signal, value }));
            }
            let mut busy = false;
            for index in 0..self.participants.len() {
                let role = self.participants[index].card.role;
                let wants_more = role != Role::ServiceManager || now < self.programme.end;
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
        let Ok(played) = answer.await else {
            return Err(ConductorError::Lost(participant.card.clone()));
        };
        (participant.next, participant.idle) = (played.next, played.idle);
        for left in played.left {
            match left {
                Left::Message(sequence, outgoing) => self.send(index, sequence, outgoing),
                Left::Performed(done, after) => self.arrive(index, after, What::Answer(done)),
            }
        }
        Ok(played.busy)
    }

    /// Puts a message on its way. One without delay arrives in the next round.
    fn send(&mut self, index: usize, sequence: Sequence, outgoing: Outgoing) {
        let Outgoing { to, kind, sealed } = outgoing;
        let Some(&receiver) = self.by_id.get(&to) else { return };
        let sending = Sending { from: index, to: receiver, sequence, kind };
        let from = self.participants[index].card.id;
        for delay in self.fate.fate(sending, self.clock.now()) {
            let sealed = sealed.clone();
            let parcel = Parcel { from, to, sequence, kind, sealed };
            self.arrive(receiver, delay, What::Message(parcel));
        }
    }

    fn arrive(&mut self, participant: usize, delay: Span, what: What) {
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

/// A host without timers: it takes its turn when the conductor says so.
struct Paced {
    part: Part,
    clock: Arc<VirtualClock>,
    run: ActorRun,
    mapper: AnyMapper,
    writer: Option<Writer>,
    inbox: Inbox,
    played: Played,
    /// Who waits for the end of the turn.
    reply: Option<oneshot::Sender<Played>>,
}

/// Something for the inbox that is no message.
struct Given(Input);

/// The actor is to take its turn.
struct Round {
    consult: bool,
    reply: oneshot::Sender<Played>,
}

/// The run is over.
struct Close(oneshot::Sender<Result<Hash, JournalError>>);

/// What came of a turn, once all of it is durable.
#[derive(Default)]
struct Played {
    left: Vec<Left>,
    busy: bool,
    next: Option<Time>,
    idle: bool,
}

/// What left.
enum Left {
    Message(Sequence, Outgoing),
    Performed(DriverResult, Span),
}

impl Paced {
    fn open(part: Part, clock: Arc<VirtualClock>) -> Result<Self, HostFailure> {
        let Card { name, role, id } = part.card.clone();
        let (actor, mapper) = (part.build)()?.into_parts();
        let mut run = ActorRun::new(actor, part.retry_policy);
        let owner = Owner { name, role, id };
        let journal = JournalFile::recover(&part.journal, &owner, |entry| run.replay(entry))?;
        run.recovered();
        let writer = Some(journal.into_writer()?);
        let (inbox, played) = (Inbox::default(), Played::default());
        Ok(Self { part, clock, run, mapper, writer, inbox, played, reply: None })
    }

    /// Tells what left, if all of it may.
    fn release(&mut self) {
        let Self { run, part, played, .. } = self;
        run.release(
            self.clock.now(),
            |_, _, _| {},
            |departure| match (departure, &part.driver) {
                (Departure::Message(sequence, outgoing), _) => {
                    played.left.push(Left::Message(sequence, outgoing));
                }
                (Departure::Call(_, call), Some(driver)) => {
                    let (done, after) = driver.perform(&call);
                    played.left.push(Left::Performed(done, after));
                }
                (Departure::Call(..), None) => {}
            },
        );
        let Some(reply) = self.reply.take() else { return };
        let mut played = std::mem::take(played);
        played.next = run.next_timeout();
        played.idle = run.actor().unfinished(1).is_empty();
        drop(reply.send(played));
    }
}

impl Actor for Paced {
    type Context = Context<Self>;
}

impl Handler<Parcel> for Paced {
    type Result = ();

    fn handle(&mut self, parcel: Parcel, _: &mut Self::Context) {
        self.inbox.message(parcel);
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
        self.played.left.extend(repeated);
        self.played.busy = turn.inputs.iter().any(|&of_kind| of_kind > 0);
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
            // The conductor hears of it by not being told anything else.
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
