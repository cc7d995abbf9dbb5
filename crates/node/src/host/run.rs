//! What a host does with what it is told: turns, syncs, departures, falls.

use std::sync::Arc;
use std::time::{Duration, Instant};

use actix::{Actor, ActorContext as _, AsyncContext as _, Context, Handler};
use tenure_core::actor::Actor as _;
use tenure_core::actor::fact::BadFact;
use tenure_core::actor::snapshot::RestoreError;
use tenure_core::model::time::{Span, Time};
use tenure_core::runtime::AnyActor;
use tenure_core::runtime::Entry;
use tenure_core::runtime::host::Departure;
use tenure_core::runtime::journal::AppendError;
use tenure_core::runtime::outbox::Outgoing;
use tenure_core::site_authority::unit;
use tenure_core::wire::message::Sequence;
use tokio::sync::mpsc;
use tracing::{Level, debug, enabled, error, info, warn};

use super::actor_run::{ActorRun, catching};
use super::handle::{Card, Facts, HostError};
use super::room::{Room, input_begins, message_begins};
use super::trail::Trail;
use super::{
    Asked, Drain, FIRST_PAUSE, Fall, GOOD_LIFE, Host, LONGEST_SLEEP, Look, MOST_FALLS, Performed,
    Synced, TakeTurn, Watch,
};
use crate::journal::{JournalError, JournalFile, Owner, Past, Snapshots};
use crate::transport::Parcel;

impl Actor for Host {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        ctx.set_mailbox_capacity(self.limits.inbox);
        let risen = self.rise(ctx);
        ctx.run_interval(self.limits.probe_every, |host, ctx| host.probe(ctx));
        match self.ready.take() {
            Some(ready) => {
                if risen.is_err() {
                    ctx.stop();
                }
                drop(ready.send(risen));
            }
            None => drop(risen),
        }
    }
}

impl Host {
    /// Reads the journal, takes up what is owed, and goes on; if the disk is full, on what was kept back.
    fn rise(&mut self, ctx: &mut Context<Self>) -> Result<(), Fall> {
        let risen = self.rise_once(ctx);
        match risen {
            Err(Fall::Journal(JournalError::DiskFull { .. })) if self.use_reserve(ctx) => {
                self.rise_once(ctx)
            }
            risen => risen,
        }
    }

    fn rise_once(&mut self, ctx: &mut Context<Self>) -> Result<(), Fall> {
        let Card { name, role, id } = self.part.card.clone();
        let mut life = ActorRun::new((self.part.hosted)()?, self.part.retry_policy);
        let owner = Owner { name, role, id };
        let mut trail = enabled!(Level::DEBUG).then(|| Trail::new(id));
        let mut past = Recall::of(&mut life, &mut trail);
        let journal = JournalFile::resume_on(&*self.disk, &self.part.journal, &owner, &mut past)?;
        let (from, latest) = (past.from, past.latest);
        if let Some(custody) = &mut self.part.custody {
            custody.take(units_in_hand(life.actor()))?;
        }
        self.words = journal.words()?;
        let writer = journal.into_writer_with(self.snapshots())?;
        let facts = life.position();
        self.clock.not_before(latest);
        life.recovered();
        (self.lives, self.born) = (self.lives + 1, Instant::now());
        info!(actor = %self.part.card.name, facts, from, "ready");
        self.metrics.begins();
        (self.life, self.trail) = (Some((life, writer)), trail);
        self.inbox.begin();
        self.keep_room(ctx);
        self.greet(ctx);
        self.release(ctx);
        self.stir(ctx);
        self.probe(ctx);
        Ok(())
    }

    /// How the journal's thread takes snapshots.
    fn snapshots(&self) -> Snapshots {
        let (every, disk) = (self.limits.snapshot, Arc::clone(&self.disk));
        let maker = Arc::clone(&self.part.hosted);
        Snapshots { every, hosted: Arc::new(move || maker().ok()), disk }
    }

    /// Sees to it that there will be a turn.
    pub(super) fn stir(&mut self, ctx: &mut Context<Self>) {
        self.stirred = true;
        if !self.scheduled && self.unsynced < self.limits.unsynced {
            self.scheduled = true;
            ctx.notify(TakeTurn);
        }
    }

    fn turn(&mut self, ctx: &mut Context<Self>) {
        (self.scheduled, self.stirred) = (false, false);
        let Some((life, writer)) = &mut self.life else { return };
        if self.draining.is_some() || !self.awaited.is_empty() {
            return;
        }
        let now = self.clock.now();
        let tasks = self.inbox.take(self.limits.turn);
        // What a mapper decides begins something.
        let consult = self.room == Room::Enough;
        let turn = match catching(|| life.turn(now, tasks, consult)) {
            Ok(turn) => turn,
            Err(words) => return self.fall(ctx, Fall::Panic(words)),
        };
        for problem in &turn.problems {
            debug!(actor = %self.part.card.name, %problem);
        }
        self.metrics.handled(&turn.inputs);
        self.metrics.repeated.inc_by(turn.repeated.len() as u64);
        if !turn.facts.is_empty() {
            self.unsynced += 1;
            let (host, number, end) = (ctx.address(), self.lives, life.position());
            let since = Instant::now();
            writer.append(turn.before, turn.facts, move |result| {
                host.do_send(Synced { life: number, end, since, result });
            });
        }
        self.keep_words_now_and_then();
        for departure in turn.repeated {
            self.depart(departure);
        }
        self.release(ctx);
        if turn.again || self.inbox.len() > 0 {
            self.stir(ctx);
        }
    }

    /// Lets out what may leave by now, and looks when the next turn is due.
    pub(super) fn release(&mut self, ctx: &mut Context<Self>) {
        let Some((life, _)) = &mut self.life else { return };
        if !self.awaited.is_empty() {
            return;
        }
        let Self { watchers, metrics, trail, part, .. } = self;
        let mut departures = Vec::new();
        let released = catching(|| {
            let watch = |position, entry: &Entry, hosted: &AnyActor| {
                metrics.fact(entry, hosted);
                if let Some(trail) = trail {
                    let (request, kind) = (trail.follow(&entry.fact), entry.fact.kind().0);
                    let request = request.map(tracing::field::display);
                    debug!(actor = %part.card.name, request, position, kind, "fact");
                }
                watchers.retain(|watcher| watcher.try_send((position, entry.clone())).is_ok());
            };
            life.release(self.clock.now(), watch, |departure| departures.push(departure));
        });
        if let Err(words) = released {
            return self.fall(ctx, Fall::Panic(words));
        }
        self.metrics.inbox.set(i64::try_from(self.inbox.len()).unwrap_or(i64::MAX));
        for departure in departures {
            self.metrics.sent.inc_by(u64::from(matches!(departure, Departure::Message(..))));
            self.depart(departure);
        }
        self.call(ctx);
        self.arm(ctx);
    }

    fn depart(&mut self, departure: Departure) {
        match departure {
            Departure::Message(sequence, outgoing) => self.send(sequence, outgoing),
            Departure::Call(id, call) => self.calls.owe(id, call),
            // Asked by turns.
            Departure::Consult => {}
        }
    }

    fn send(&self, sequence: Sequence, outgoing: Outgoing) {
        let Outgoing { to, kind, sealed } = outgoing;
        let from = self.part.card.id;
        if !self.transport.send(Parcel { from, to, sequence, kind, sealed }) {
            self.metrics.dropped.inc();
            debug!(actor = %self.part.card.name, %to, kind, "a message was dropped");
        }
    }

    /// Starts driver calls.
    fn call(&mut self, ctx: &Context<Self>) {
        let Some((life, _)) = self.life.as_ref().filter(|_| self.draining.is_none()) else {
            return;
        };
        let (actor, host) = (life.actor(), ctx.address());
        self.calls.start(
            |id| actor.is_pending(id),
            move |key, done, after| host.do_send(Performed { key, done, after }),
        );
    }

    /// Sets the timer for the next turn.
    fn arm(&mut self, ctx: &mut Context<Self>) {
        let Some((life, _)) = &mut self.life else { return };
        let Some(next) = life.next_timeout() else { return };
        if self.timer.is_some_and(|(at, _)| at <= next) {
            return;
        }
        if let Some((_, handle)) = self.timer.take() {
            ctx.cancel_future(handle);
        }
        let wait = self.clock.outside(next.since(self.clock.now())).min(LONGEST_SLEEP);
        let handle = ctx.run_later(wait, |host, ctx| {
            host.timer = None;
            host.stir(ctx);
        });
        self.timer = Some((next, handle));
    }

    /// Drops what is in memory; rises in a while, or gives up.
    pub(super) fn fall(&mut self, ctx: &mut Context<Self>, cause: Fall) {
        let Some((_, writer)) = self.life.take() else { return };
        if let Err(error) = writer.close() {
            warn!(actor = %self.part.card.name, %error, "the journal was not closed in good order");
        }
        self.unsynced = 0;
        self.watchers.clear();
        self.awaited.clear();
        self.calls.clear();
        self.inbox.refuse(&HostError::Busy(self.part.card.name.clone()));
        self.falls = if self.born.elapsed() < GOOD_LIFE { self.falls } else { 0 };
        self.fell(ctx, cause);
    }

    /// Plans the next try after a fall, or after a try that failed.
    fn fell(&mut self, ctx: &mut Context<Self>, cause: Fall) {
        self.falls += 1;
        self.metrics.falls.inc();
        let hopeless =
            matches!(cause, Fall::Append(AppendError::Fenced { .. }) | Fall::RolledBack { .. });
        if matches!(cause, Fall::Append(AppendError::Full(_))) {
            self.use_reserve(ctx);
        }
        if hopeless || self.falls > MOST_FALLS || self.draining.is_some() {
            return self.give_up(ctx, cause);
        }
        let pause = FIRST_PAUSE * 2_u32.pow(self.falls - 1);
        warn!(actor = %self.part.card.name, %cause, ?pause, "down; comes back from its journal");
        ctx.run_later(pause, |host, ctx| {
            if let Err(cause) = host.rise(ctx) {
                host.fell(ctx, cause);
            }
        });
    }

    fn give_up(&mut self, ctx: &mut Context<Self>, cause: Fall) {
        error!(actor = %self.part.card.name, %cause, "gives up");
        self.inbox.refuse(&HostError::Stopped(self.part.card.name.clone()));
        drop(self.given_up.send((self.part.card.clone(), cause)));
        if let Some(stop) = self.draining.take() {
            drop(stop.send(Ok(())));
        }
        ctx.stop();
    }

    /// Whether the inbox takes one more.
    fn takes_more(&self) -> bool {
        self.draining.is_none() && self.inbox.len() < self.limits.inbox
    }

    /// Closes the journal once everything is synced.
    fn drained(&mut self, ctx: &mut Context<Self>) {
        if self.unsynced > 0 {
            return;
        }
        let Some(stop) = self.draining.take() else { return };
        self.keep_words();
        let closed = self.life.take().map_or(Ok(()), |(life, writer)| match self.room {
            Room::Enough => writer.close_with(|| life.actor().snapshot()),
            Room::Short => writer.close(),
        });
        info!(actor = %self.part.card.name, "stopped");
        drop(stop.send(closed.map_err(Arc::new)));
        ctx.stop();
    }
}

/// How many units of a site are not free.
fn units_in_hand(hosted: &AnyActor) -> usize {
    match hosted {
        AnyActor::SiteAuthority(site) => {
            site.unit_survey().filter(|unit| !matches!(unit.state, unit::State::Free)).count()
        }
        AnyActor::Broker(_) | AnyActor::ServiceManager(_) => 0,
    }
}

/// A life that is brought back from its journal.
struct Recall<'a> {
    life: &'a mut ActorRun,
    trail: &'a mut Option<Trail>,
    /// Behind how many facts the snapshot was.
    from: u64,
    latest: Time,
}

impl<'a> Recall<'a> {
    fn of(life: &'a mut ActorRun, trail: &'a mut Option<Trail>) -> Self {
        Self { life, trail, from: 0, latest: Time::MIN }
    }
}

impl Past for Recall<'_> {
    fn restore(&mut self, state: &[u8], position: u64, at: Time) -> Result<(), RestoreError> {
        self.life.restore(state)?;
        (self.from, self.latest) = (position, at);
        if let Some(trail) = self.trail {
            trail.look(self.life.actor());
        }
        Ok(())
    }

    fn apply(&mut self, entry: &Entry) -> Result<(), BadFact> {
        self.latest = entry.at;
        if let Some(trail) = self.trail {
            trail.follow(&entry.fact);
        }
        self.life.replay(entry)
    }
}

impl Handler<Parcel> for Host {
    type Result = ();

    fn handle(&mut self, parcel: Parcel, ctx: &mut Self::Context) {
        let begins = message_begins(parcel.kind);
        if self.takes_more() && (self.room == Room::Enough || !begins) {
            self.inbox.message(parcel);
            self.stir(ctx);
        } else {
            self.metrics.refused.inc();
        }
    }
}

impl Handler<Asked> for Host {
    type Result = ();

    fn handle(&mut self, Asked(task): Asked, ctx: &mut Self::Context) {
        let name = || self.part.card.name.clone();
        let begins = input_begins(&task.input) && self.room == Room::Short;
        let why = match (&self.draining, self.takes_more()) {
            (Some(_), _) => HostError::Stopped(name()),
            (None, false) => HostError::Busy(name()),
            (None, true) if begins => HostError::DiskFull(name()),
            (None, true) => {
                self.inbox.other(task);
                return self.stir(ctx);
            }
        };
        if let Some(asker) = task.asker {
            drop(asker.send(Err(why)));
        }
    }
}

impl Handler<Look> for Host {
    type Result = ();

    fn handle(&mut self, Look(look): Look, ctx: &mut Self::Context) {
        let Some((life, _)) = &mut self.life else { return };
        match catching(|| look(life.actor(), life.outbox())) {
            Ok(held) => life.after_all(held),
            Err(words) => error!(actor = %self.part.card.name, words, "a question panicked"),
        }
        self.release(ctx);
    }
}

impl Handler<Watch> for Host {
    type Result = ();

    fn handle(&mut self, Watch(tell): Watch, _: &mut Self::Context) {
        let Some((life, _)) = &self.life else { return };
        // Who has gone is found out by the next fact, and that may be far off.
        self.watchers.retain(|watcher| !watcher.is_closed());
        let (sender, facts) = mpsc::channel(self.limits.behind);
        if tell.send(Facts { from: life.released(), facts }).is_ok() {
            self.watchers.push(sender);
        }
    }
}

impl Handler<TakeTurn> for Host {
    type Result = ();

    fn handle(&mut self, _: TakeTurn, ctx: &mut Self::Context) {
        self.turn(ctx);
    }
}

impl Handler<Synced> for Host {
    type Result = ();

    fn handle(&mut self, synced: Synced, ctx: &mut Self::Context) {
        let Synced { life: number, end, since, result } = synced;
        if number != self.lives {
            return;
        }
        let Some((life, writer)) = &mut self.life else { return };
        self.unsynced -= 1;
        if let Err(cause) = result {
            return self.fall(ctx, cause.into());
        }
        life.durable(end);
        self.metrics.synced(since, writer.commits());
        self.release(ctx);
        if self.stirred {
            self.stir(ctx);
        }
        self.drained(ctx);
    }
}

impl Handler<Performed> for Host {
    type Result = ();

    fn handle(&mut self, performed: Performed, ctx: &mut Self::Context) {
        let Performed { key, done, after } = performed;
        let wait = self.clock.outside(after);
        if wait > Duration::ZERO {
            let now = Performed { key, done, after: Span::ZERO };
            ctx.notify_later(now, wait);
            return;
        }
        self.metrics.called(done.outcome.is_ok());
        self.calls.answered(&key);
        self.call(ctx);
        // An answer that finds nobody is not lost: the step is owed still, and asked for again.
        if self.life.is_some() && self.draining.is_none() {
            self.inbox.answer(done);
            self.stir(ctx);
        }
    }
}

impl Handler<Drain> for Host {
    type Result = ();

    fn handle(&mut self, Drain(stop): Drain, ctx: &mut Self::Context) {
        self.draining = Some(stop);
        self.inbox.refuse(&HostError::Stopped(self.part.card.name.clone()));
        self.drained(ctx);
    }
}
