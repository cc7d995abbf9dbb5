//! One actor of a simulation with all that its shell keeps: journal, outbox, clock, and the fold of its
//! journal, from which it comes back after a crash.

use std::collections::VecDeque;

use tenure_core::actor::effect::{Input, Output};
use tenure_core::actor::fact::Entry;
use tenure_core::actor::{Actor, Role};
use tenure_core::model::identity::{ActorId, Signer};
use tenure_core::model::name::Name;
use tenure_core::model::time::{Span, Time};
use tenure_core::runtime::hosted::HostedActor;
use tenure_core::runtime::journal::{AppendError, Journal as _, MemoryJournal};
use tenure_core::runtime::outbox::{Outbox, RetryPolicy};
use tenure_core::wire::message::Envelope;

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
    build: Box<dyn Fn() -> HostedActor>,
    /// None while it is down.
    pub(super) hosted: Option<HostedActor>,
    /// What folding its journal gives, one fact behind the next.
    pub(super) fold: HostedActor,
    pub(super) journal: MemoryJournal,
    /// The state of the fold at an earlier fact, as it is stored.
    kept: Option<(u64, Vec<u8>)>,
    /// At which fact it is stored next.
    keep_at: Option<u64>,
    pub(super) outbox: Outbox,
    retry_policy: RetryPolicy,
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
pub(super) struct Before(Option<Box<HostedActor>>);

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
    pub(super) retry_policy: RetryPolicy,
    pub(super) driver: Option<NullDriver>,
    pub(super) clock: Clock,
    pub(super) build: Box<dyn Fn() -> HostedActor>,
}

impl Player {
    pub(super) fn new(making: Making) -> Self {
        let Making { name, honest, signer, retry_policy, driver, clock, build } = making;
        let hosted = build();
        Self {
            id: signer.id(),
            role: hosted.role(),
            fold: build(),
            hosted: Some(hosted),
            journal: MemoryJournal::new(),
            kept: None,
            keep_at: None,
            outbox: Outbox::new(retry_policy),
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
            retry_policy,
            driver,
            clock,
        }
    }

    /// Whether it can be handed something now.
    pub(super) fn listens(&self) -> bool {
        self.hosted.is_some() && self.busy.is_none()
    }

    /// The actor, unless it is down.
    pub(super) fn actor(&self) -> Option<&dyn Actor> {
        self.hosted.as_ref().map(HostedActor::actor)
    }

    /// The time on its own clock, which does not go back while it runs.
    pub(super) fn time(&self, now: Time) -> Time {
        self.clock.read(now).max(self.told)
    }

    /// What it is, to be compared with later. Where no fact of this life waits for the disk it must be what
    /// its journal folds to, and need not be copied.
    pub(super) fn before(&self) -> Before {
        let whole = self.unsynced.is_empty() && !self.doubled;
        let copy = |hosted| Box::new(twin(hosted, (self.build)()));
        Before(self.hosted.as_ref().filter(|_| !whole).map(copy))
    }

    /// Whether it is as it was before an input that made no fact.
    pub(super) fn is_as(&self, before: &Before) -> bool {
        let before = before.0.as_deref().unwrap_or(&self.fold);
        self.hosted.as_ref().is_none_or(|hosted| hosted.is_same_actor(before))
    }

    /// Hands one input in; what comes of it waits to be appended.
    pub(super) fn handle(&mut self, now: Time, input: Input) -> Output {
        let time = self.time(now);
        self.told = time;
        let mut out = Output::default();
        if let Some(hosted) = &mut self.hosted {
            hosted.actor_mut().handle(time, input, &mut out);
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
        let actor = self.hosted.as_ref()?.actor();
        self.outbox.next_timeout(|id| actor.is_pending(id))
    }

    /// Makes facts durable.
    pub(super) fn append(&mut self, step: &Step) -> Result<(), AppendError> {
        self.journal.append(step.position, &step.facts)
    }

    /// Ends this life.
    pub(super) fn die(&mut self) {
        self.hosted = None;
        self.life += 1;
        self.busy = None;
        self.told = Time::MIN;
        self.inbox.clear();
        self.unsynced.clear();
        self.outbox = Outbox::new(self.retry_policy);
        self.trap = None;
        self.doubled = false;
    }

    /// A new life from the fold of the journal.
    pub(super) fn rise(&mut self) {
        self.hosted = Some(self.folded());
        self.started = 0;
    }

    /// The actor once more, as the fold has it.
    pub(super) fn folded(&self) -> HostedActor {
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
        let mut hosted = (self.build)();
        hosted.actor_mut().restore(&state).map_err(|error| error.to_string())?;
        self.apply(&mut hosted, from)?;
        Ok(Some(hosted.is_same_actor(&self.fold)))
    }

    /// The actor once more, by reading the journal from its first entry.
    pub(super) fn read_again(&self) -> Result<HostedActor, String> {
        let mut hosted = (self.build)();
        self.apply(&mut hosted, 0)?;
        Ok(hosted)
    }

    fn apply(&self, hosted: &mut HostedActor, from: u64) -> Result<(), String> {
        for position in from..self.journal.len() {
            let entry = self.journal.read(position).ok_or("a fact is gone")?;
            let entry = entry.map_err(|error| error.to_string())?;
            hosted.actor_mut().apply(&entry).map_err(|bad| bad.to_string())?;
        }
        Ok(())
    }
}

/// An actor with the state of one and the mapper of another seat of the same role.
fn twin(state: &HostedActor, mapper: HostedActor) -> HostedActor {
    match (state, mapper) {
        (HostedActor::ServiceManager(actor, _), HostedActor::ServiceManager(_, mapper)) => {
            HostedActor::ServiceManager(actor.clone(), mapper)
        }
        (HostedActor::Broker(actor, _), HostedActor::Broker(_, mapper)) => {
            HostedActor::Broker(actor.clone(), mapper)
        }
        (HostedActor::SiteAuthority(actor, _), HostedActor::SiteAuthority(_, mapper)) => {
            HostedActor::SiteAuthority(actor.clone(), mapper)
        }
        (_, mapper) => mapper,
    }
}
