//! One actor of a simulation with all that its shell keeps: journal, outbox, clock, and the fold of its
//! journal, from which it comes back after a crash.

use std::collections::VecDeque;
use std::ops::Range;

use tenure_core::actor::{Actor, Role};
use tenure_core::model::identity::{ActorId, Signer};
use tenure_core::model::name::Name;
use tenure_core::model::time::{Span, Time};
use tenure_core::runtime::host::{Host, Turn};
use tenure_core::runtime::hosted::HostedActor;
use tenure_core::runtime::journal::{AppendError, Journal as _, MemoryJournal};
use tenure_core::runtime::mapper::AnyMapper;
use tenure_core::runtime::outbox::RetryPolicy;
use tenure_core::runtime::{AnyActor, Entry, Input};

use super::clock::Clock;
use super::fault::Fault;
use crate::driver::NullDriver;

/// An actor in its shell.
pub(super) struct Participant {
    pub(super) name: Name,
    pub(super) id: ActorId,
    pub(super) role: Role,
    pub(super) honest: bool,
    pub(super) signer: Signer,
    /// The secrets of all keys that it will have, the first first.
    pub(super) secrets: Vec<Signer>,
    /// Builds it as it was before its first fact.
    build: Box<dyn Fn() -> HostedActor>,
    pub(super) run: Run,
    /// Another instance on the same journal, which has written less of it.
    pub(super) rival: Option<Box<Run>>,
    pub(super) mapper: AnyMapper,
    /// What replaying its journal gives, one fact behind the next.
    pub(super) fold: AnyActor,
    pub(super) journal: MemoryJournal,
    /// The state of the fold at an earlier fact, as it is stored.
    kept: Option<(u64, Vec<u8>)>,
    /// At which fact it is stored next.
    keep_at: Option<u64>,
    retry_policy: RetryPolicy,
    /// How often it asks for the clocks of its peers.
    clock_check: Option<Span>,
    pub(super) driver: Option<NullDriver>,
    pub(super) clock: Clock,
    /// How late its timer for an instant goes off, as drawn last.
    pub(super) late: Option<(Time, Span)>,
    /// Where it crashes next.
    pub(super) trap: Option<Fault>,
    /// Whether a second instance has written to its journal, and is gone.
    pub(super) doubled: bool,
    /// How often it crashes again right after recovery.
    pub(super) loops: u32,
}

/// An instance of an actor, from its start to its end.
pub(super) struct Run {
    /// None while it is down.
    pub(super) host: Option<Host>,
    /// The newest time it was given; times never go back while it runs.
    last_time: Time,
    /// Its number.
    pub(super) life: u32,
    /// Until when it does nothing: it is paused, or waits for its disk.
    pub(super) busy: Option<Time>,
    /// Inputs that arrived during a pause.
    pub(super) inbox: VecDeque<Input>,
    /// Steps that were appended and are not yet durable.
    pub(super) unsynced: Vec<Step>,
    /// How long the journal was when it last read or wrote it.
    known_len: u64,
}

impl Run {
    fn new(life: u32, host: Option<Host>) -> Self {
        let (inbox, unsynced) = (VecDeque::new(), Vec::new());
        Self { host, last_time: Time::MIN, life, busy: None, inbox, unsynced, known_len: 0 }
    }
}

/// An actor before an input: as it was, or none where that is what its journal folds to.
pub(super) struct Before(Option<Box<AnyActor>>);

/// What one input gave.
pub(super) struct Step {
    pub(super) position: u64,
    pub(super) facts: Vec<Entry>,
}

/// What a participant is built from.
pub(super) struct ParticipantSpec {
    pub(super) name: Name,
    pub(super) honest: bool,
    pub(super) signer: Signer,
    /// The secrets of all keys that it will have, the first first.
    pub(super) secrets: Vec<Signer>,
    pub(super) retry_policy: RetryPolicy,
    pub(super) clock_check: Option<Span>,
    pub(super) driver: Option<NullDriver>,
    pub(super) clock: Clock,
    pub(super) build: Box<dyn Fn() -> HostedActor>,
}

impl Participant {
    pub(super) fn new(spec: ParticipantSpec) -> Self {
        let ParticipantSpec {
            name,
            honest,
            signer,
            secrets,
            retry_policy,
            clock_check,
            driver,
            clock,
            build,
        } = spec;
        let (mut actor, mapper) = build().into_parts();
        actor.add_secrets(secrets.iter().cloned());
        Self {
            id: signer.id(),
            role: actor.role(),
            fold: actor.clone(),
            run: Run::new(0, Some(Host::new(actor, retry_policy).checking_clocks(clock_check))),
            rival: None,
            mapper,
            journal: MemoryJournal::new(),
            kept: None,
            keep_at: None,
            late: None,
            trap: None,
            loops: 0,
            doubled: false,
            name,
            honest,
            signer,
            secrets,
            build,
            retry_policy,
            clock_check,
            driver,
            clock,
        }
    }

    /// Whether it can be handed something now.
    pub(super) fn listens(&self) -> bool {
        self.run.host.is_some() && self.run.busy.is_none()
    }

    /// The actor, unless it is down.
    pub(super) fn actor(&self) -> Option<&AnyActor> {
        self.run.host.as_ref().map(Host::actor)
    }

    /// The time on its own clock, which does not go back while it runs.
    pub(super) fn time(&self, now: Time) -> Time {
        self.clock.read(now).max(self.run.last_time)
    }

    /// What it is, to be compared with later. Where no fact of this life waits for the disk it must be what
    /// its journal folds to, and need not be copied.
    pub(super) fn before(&self) -> Before {
        let whole = self.run.unsynced.is_empty() && !self.doubled && self.rival.is_none();
        Before(self.actor().filter(|_| !whole).map(|actor| Box::new(actor.clone())))
    }

    /// Whether it is as it was before an input that made no fact.
    pub(super) fn is_as(&self, before: &Before) -> bool {
        let before = before.0.as_deref().unwrap_or(&self.fold);
        self.actor().is_none_or(|actor| actor == before)
    }

    /// Hands in one input; its facts wait to be appended.
    pub(super) fn handle(&mut self, now: Time, input: Input) -> Turn {
        let time = self.time(now);
        self.run.last_time = time;
        self.run.host.as_mut().map(|host| host.handle(time, [input])).unwrap_or_default()
    }

    /// Whether something waits to be let out.
    pub(super) fn has_departures(&self) -> bool {
        self.run.host.as_ref().is_some_and(Host::has_departures)
    }

    /// When its next timer goes off, by the true time.
    pub(super) fn timeout(&self) -> Option<Time> {
        let deadline = self.run.host.as_ref()?.next_timer()?;
        if deadline <= self.run.last_time { Some(Time::MIN) } else { self.clock.when(deadline) }
    }

    /// When it next repeats a message.
    pub(super) fn repetition(&mut self) -> Option<Time> {
        self.run.host.as_mut()?.next_repetition()
    }

    /// Makes facts durable. Where there are none the journal still says whether it has others.
    pub(super) fn append(&mut self, step: &Step) -> Result<(), AppendError> {
        self.journal.append(step.position, &step.facts)?;
        self.run.known_len = self.journal.len();
        Ok(())
    }

    /// Whether another instance has written what this one does not know of.
    pub(super) fn is_stale(&self) -> bool {
        self.rival.is_some() && self.run.known_len < self.journal.len()
    }

    /// Whether the other instance has this number.
    pub(super) fn has_rival(&self, life: u32) -> bool {
        self.rival.as_ref().is_some_and(|rival| rival.life == life)
    }

    /// Makes room for another instance beside the one that runs.
    pub(super) fn make_room(&mut self) {
        let next = Run::new(self.run.life + 1, None);
        self.rival = Some(Box::new(std::mem::replace(&mut self.run, next)));
    }

    /// Has the two instances change places.
    pub(super) fn swap(&mut self) {
        if let Some(rival) = &mut self.rival {
            std::mem::swap(&mut self.run, rival);
        }
    }

    /// The instance that runs ends, and the other one is the only one.
    pub(super) fn give_up(&mut self) {
        self.swap();
        self.rival = None;
    }

    /// Ends this run.
    pub(super) fn stop(&mut self) {
        let newest = self.rival.as_ref().map_or(0, |rival| rival.life);
        self.run = Run::new(self.run.life.max(newest) + 1, None);
        self.trap = None;
        self.doubled = false;
    }

    /// Starts a new run from the fold of the journal.
    pub(super) fn bring_up(&mut self) {
        let host = Host::new(self.folded(), self.retry_policy);
        let mut host = host.checking_clocks(self.clock_check);
        host.recovered();
        self.run.host = Some(host);
        self.run.known_len = self.journal.len();
    }

    /// The actor once more, as the fold has it.
    pub(super) fn folded(&self) -> AnyActor {
        self.fold.clone()
    }

    fn blank(&self) -> AnyActor {
        let mut actor = (self.build)().into_parts().0;
        actor.add_secrets(self.secrets.iter().cloned());
        actor
    }

    /// The fold is to be stored after so many facts more, if it is.
    pub(super) fn keep_after(&mut self, facts: Option<u64>) {
        self.keep_at = facts.map(|facts| self.journal.len() + facts);
    }

    /// Stores the fold if it has come to where it is to be stored.
    pub(super) fn keep_if_due(&mut self) {
        let actor = &self.fold;
        if self.keep_at.is_some_and(|at| at <= actor.position()) {
            self.kept = Some((actor.position(), actor.snapshot()));
            self.keep_at = None;
        }
    }

    /// Whether what was stored and the facts behind it give what all facts give; nothing if nothing was
    /// stored since this was asked.
    pub(super) fn resumes(&mut self) -> Result<Option<bool>, String> {
        let Some((from, state)) = self.kept.take() else { return Ok(None) };
        let mut actor = self.blank();
        actor.restore(&state).map_err(|error| error.to_string())?;
        self.apply(&mut actor, from..self.journal.len())?;
        Ok(Some(actor == self.fold))
    }

    /// The actor once more, by reading the journal from its first entry.
    pub(super) fn read_again(&self) -> Result<AnyActor, String> {
        self.read_up_to(self.journal.len())
    }

    /// The actor as a copy of the journal has it that holds so many facts.
    pub(super) fn read_up_to(&self, len: u64) -> Result<AnyActor, String> {
        let mut actor = self.blank();
        self.apply(&mut actor, 0..len)?;
        Ok(actor)
    }

    fn apply(&self, actor: &mut AnyActor, facts: Range<u64>) -> Result<(), String> {
        for position in facts {
            let entry = self.journal.read(position).ok_or("a fact is gone")?;
            let entry = entry.map_err(|error| error.to_string())?;
            actor.replay(&entry).map_err(|bad| bad.to_string())?;
        }
        Ok(())
    }
}
