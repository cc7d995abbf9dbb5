//! One actor of a simulation with all that its shell keeps: journal, outbox, clock, and the fold of its
//! journal, from which it comes back after a crash.

use std::collections::VecDeque;

use tenure_core::actor::outbox::{Outbox, Patience};
use tenure_core::actor::{Actor, Role, Seat};
use tenure_core::effect::{Input, Output};
use tenure_core::fact::Entry;
use tenure_core::identity::{ActorId, Signer};
use tenure_core::journal::{AppendError, Journal as _, MemoryJournal};
use tenure_core::message::Envelope;
use tenure_core::name::Name;
use tenure_core::time::{Span, Time};

use super::clock::Clock;
use super::fault::Fault;
use crate::driver::NullDriver;

/// An actor in its shell.
pub(super) struct Player {
    pub(super) name: Name,
    pub(super) id: ActorId,
    pub(super) role: Role,
    pub(super) honest: bool,
    pub(super) signer: Signer,
    /// Builds it as it was before its first fact.
    build: Box<dyn Fn() -> Seat>,
    /// None while it is down.
    pub(super) seat: Option<Seat>,
    /// What folding its journal gives, one fact behind the next.
    pub(super) fold: Seat,
    pub(super) journal: MemoryJournal,
    /// The state of the fold at an earlier fact, as it is stored.
    kept: Option<(u64, Vec<u8>)>,
    /// At which fact it is stored next.
    keep_at: Option<u64>,
    pub(super) outbox: Outbox,
    patience: Patience,
    pub(super) driver: Option<NullDriver>,
    pub(super) clock: Clock,
    /// The last time it was told; it is never told an earlier one while it runs.
    told: Time,
    /// Which of its lives this is.
    pub(super) life: u32,
    /// Effects before this position were started.
    pub(super) started: u64,
    /// Until when it does nothing: it is paused, or waits for its disk.
    pub(super) busy: Option<Time>,
    /// What came meanwhile.
    pub(super) inbox: VecDeque<Input>,
    /// Steps that were appended and are not yet durable.
    pub(super) unsynced: Vec<Step>,
    /// How late its timer for an instant goes off, as drawn last.
    pub(super) late: Option<(Time, Span)>,
    /// Where it dies next.
    pub(super) trap: Option<Fault>,
    /// Whether a second instance has written to its journal.
    pub(super) doubled: bool,
    /// How often it dies again as soon as it is back.
    pub(super) loops: u32,
}

/// An actor before an input: as it was, or none where that is what its journal folds to.
pub(super) struct Before(Option<Box<Seat>>);

/// What one input gave.
pub(super) struct Step {
    pub(super) position: u64,
    pub(super) facts: Vec<Entry>,
    pub(super) replies: Vec<Envelope>,
}

/// What a player is made of.
pub(super) struct Making {
    pub(super) name: Name,
    pub(super) honest: bool,
    pub(super) signer: Signer,
    pub(super) patience: Patience,
    pub(super) driver: Option<NullDriver>,
    pub(super) clock: Clock,
    pub(super) build: Box<dyn Fn() -> Seat>,
}

impl Player {
    pub(super) fn new(making: Making) -> Self {
        let Making { name, honest, signer, patience, driver, clock, build } = making;
        let seat = build();
        Self {
            id: signer.id(),
            role: seat.role(),
            fold: build(),
            seat: Some(seat),
            journal: MemoryJournal::new(),
            kept: None,
            keep_at: None,
            outbox: Outbox::new(patience),
            told: Time::MIN,
            life: 0,
            started: 0,
            busy: None,
            inbox: VecDeque::new(),
            unsynced: Vec::new(),
            late: None,
            trap: None,
            loops: 0,
            doubled: false,
            name,
            honest,
            signer,
            build,
            patience,
            driver,
            clock,
        }
    }

    /// Whether it can be handed something now.
    pub(super) fn listens(&self) -> bool {
        self.seat.is_some() && self.busy.is_none()
    }

    /// The actor, unless it is down.
    pub(super) fn actor(&self) -> Option<&dyn Actor> {
        self.seat.as_ref().map(Seat::actor)
    }

    /// The time on its own clock, which does not go back while it runs.
    pub(super) fn time(&self, now: Time) -> Time {
        self.clock.read(now).max(self.told)
    }

    /// What it is, to be compared with later. Where no fact of this life waits for the disk it must be what
    /// its journal folds to, and need not be copied.
    pub(super) fn before(&self) -> Before {
        let whole = self.unsynced.is_empty() && !self.doubled;
        let copy = |seat| Box::new(twin(seat, (self.build)()));
        Before(self.seat.as_ref().filter(|_| !whole).map(copy))
    }

    /// Whether it is as it was before an input that made no fact.
    pub(super) fn is_as(&self, before: &Before) -> bool {
        let before = before.0.as_deref().unwrap_or(&self.fold);
        self.seat.as_ref().is_none_or(|seat| seat.is_same_actor(before))
    }

    /// Hands one input in; what comes of it waits to be appended.
    pub(super) fn handle(&mut self, now: Time, input: Input) -> Output {
        let time = self.time(now);
        self.told = time;
        let mut out = Output::default();
        if let Some(seat) = &mut self.seat {
            seat.actor_mut().handle(time, input, &mut out);
        }
        out
    }

    /// When its next timer goes off, by the true time.
    pub(super) fn timeout(&self) -> Option<Time> {
        let deadline = self.actor()?.next_timeout()?;
        if deadline <= self.told { Some(Time::MIN) } else { self.clock.when(deadline) }
    }

    /// When it next repeats a message.
    pub(super) fn repetition(&mut self) -> Option<Time> {
        let actor = self.seat.as_ref()?.actor();
        self.outbox.next_timeout(|id| actor.is_owed(id))
    }

    /// Makes facts durable.
    pub(super) fn append(&mut self, step: &Step) -> Result<(), AppendError> {
        self.journal.append(step.position, &step.facts)
    }

    /// Ends this life.
    pub(super) fn die(&mut self) {
        self.seat = None;
        self.life += 1;
        self.busy = None;
        self.told = Time::MIN;
        self.inbox.clear();
        self.unsynced.clear();
        self.outbox = Outbox::new(self.patience);
        self.trap = None;
        self.doubled = false;
    }

    /// A new life from the fold of the journal.
    pub(super) fn rise(&mut self) {
        self.seat = Some(self.folded());
        self.started = 0;
    }

    /// The actor once more, as the fold has it.
    pub(super) fn folded(&self) -> Seat {
        twin(&self.fold, (self.build)())
    }

    /// The fold is to be stored after so many facts more, if it is.
    pub(super) fn keep_after(&mut self, facts: Option<u64>) {
        self.keep_at = facts.map(|facts| self.journal.len() + facts);
    }

    /// Stores the fold if it has come to where it is to be stored.
    pub(super) fn keep_if_due(&mut self) {
        let actor = self.fold.actor();
        if self.keep_at.is_some_and(|at| at <= actor.position()) {
            self.kept = Some((actor.position(), actor.snapshot()));
            self.keep_at = None;
        }
    }

    /// Whether what was stored and the facts behind it give what all facts give; nothing if nothing was stored
    /// since this was asked.
    pub(super) fn resumes(&mut self) -> Result<Option<bool>, String> {
        let Some((from, state)) = self.kept.take() else { return Ok(None) };
        let mut seat = (self.build)();
        seat.actor_mut().restore(&state).map_err(|error| error.to_string())?;
        self.apply(&mut seat, from)?;
        Ok(Some(seat.is_same_actor(&self.fold)))
    }

    /// The actor once more, by reading the journal from its first entry.
    pub(super) fn read_again(&self) -> Result<Seat, String> {
        let mut seat = (self.build)();
        self.apply(&mut seat, 0)?;
        Ok(seat)
    }

    fn apply(&self, seat: &mut Seat, from: u64) -> Result<(), String> {
        for position in from..self.journal.len() {
            let entry = self.journal.read(position).ok_or("a fact is gone")?;
            let entry = entry.map_err(|error| error.to_string())?;
            seat.actor_mut().apply(&entry).map_err(|bad| bad.to_string())?;
        }
        Ok(())
    }
}

/// An actor with the state of one and the mapper of another seat of the same role.
fn twin(state: &Seat, mapper: Seat) -> Seat {
    match (state, mapper) {
        (Seat::ServiceManager(actor, _), Seat::ServiceManager(_, mapper)) => {
            Seat::ServiceManager(actor.clone(), mapper)
        }
        (Seat::Broker(actor, _), Seat::Broker(_, mapper)) => Seat::Broker(actor.clone(), mapper),
        (Seat::SiteAuthority(actor, _), Seat::SiteAuthority(_, mapper)) => {
            Seat::SiteAuthority(actor.clone(), mapper)
        }
        (_, mapper) => mapper,
    }
}
