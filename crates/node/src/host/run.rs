//! The host's event handling: turns, syncs, departures, failures.

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
use super::disk_space::{DiskSpace, input_begins, message_begins};
use super::fact_log;
use super::handle::{ActorInfo, Facts, HostError};
use super::request_trace::RequestTrace;
use super::{
    Asked, Drain, FIRST_PAUSE, Host, HostFailure, Inspect, LONGEST_PAUSE, LONGEST_SLEEP, Performed,
    STABLE_RUN, Synced, TakeTurn, Watch,
};
use crate::journal::{JournalError, JournalFile, Owner, Past, Snapshots};
use crate::subject::received;
use crate::transport::Packet;

impl Actor for Host {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        ctx.set_mailbox_capacity(self.limits.inbox);
        let recovered = self.recover(ctx);
        ctx.run_interval(self.limits.probe_every, |host, ctx| {
            host.probe(ctx);
            host.check_mapper(ctx);
        });
        match self.ready.take() {
            Some(ready) => {
                if recovered.is_err() {
                    ctx.stop();
                }
                drop(ready.send(recovered));
            }
            None => drop(recovered),
        }
    }
}

/// Whether an actor can sign: its key in force may have been replaced since its secret was copied.
fn has_secret(actor: &AnyActor) -> Result<(), HostFailure> {
    let Some(key) = actor.missing_secret() else { return Ok(()) };
    let key = key.as_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
    Err(HostFailure::NoSecret { key })
}

impl Host {
    /// Reads the journal, takes up what is pending, and continues; if the disk is full, on what was kept
    /// back.
    fn recover(&mut self, ctx: &mut Context<Self>) -> Result<(), HostFailure> {
        let recovered = self.recover_once(ctx);
        match recovered {
            Err(HostFailure::Journal(JournalError::DiskFull { .. })) if self.use_reserve(ctx) => {
                self.recover_once(ctx)
            }
            recovered => recovered,
        }
    }

    fn recover_once(&mut self, ctx: &mut Context<Self>) -> Result<(), HostFailure> {
        let ActorInfo { name, role, id } = self.part.info.clone();
        let (actor, mapper) = (self.part.build)()?.into_parts();
        let mut run =
            ActorRun::new(actor, self.part.retry_policy).checking_clocks(self.limits.clock_check);
        let owner = Owner { name, role, id };
        let mut request_trace = enabled!(Level::INFO).then(|| RequestTrace::new(id));
        let mut past = Recovery::of(&mut run, &mut request_trace);
        let journal = JournalFile::resume_on(&*self.disk, &self.part.journal, &owner, &mut past)?;
        let (from, latest) = (past.from, past.latest);
        if let Some(custody) = &mut self.part.custody {
            custody.take(units_in_hand(run.actor()))?;
        }
        self.watermarks = journal.watermarks()?;
        let writer = journal.into_writer_with(self.snapshots())?;
        let facts = run.position();
        has_secret(run.actor())?;
        self.clock.not_before(latest);
        run.recovered();
        (self.runs, self.started_at) = (self.runs + 1, Instant::now());
        info!(actor = %self.part.info.name, facts, from, "ready");
        self.conditions.set_down(None);
        self.metrics.begins();
        (self.run, self.request_trace) = (Some((run, writer)), request_trace);
        self.start_mapper(mapper, ctx);
        self.inbox.begin();
        self.reserve_disk_space(ctx);
        self.prepare_transport();
        self.greet(ctx);
        self.release(ctx);
        self.stir(ctx);
        self.take_reports();
        self.probe(ctx);
        Ok(())
    }

    /// How the journal's thread takes snapshots.
    fn snapshots(&self) -> Snapshots {
        let (every, archive) = (self.limits.snapshot, self.limits.archive);
        let disk = Arc::clone(&self.disk);
        let maker = Arc::clone(&self.part.build);
        Snapshots { every, archive, build: Arc::new(move || maker().ok()), disk }
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
        let Some((run, writer)) = &mut self.run else { return };
        if self.draining.is_some() || !self.awaited.is_empty() {
            return;
        }
        let now = self.clock.now();
        let tasks = self.inbox.take(self.limits.turn);
        let turn = match catching(|| run.turn(now, tasks, None)) {
            Ok(turn) => turn,
            Err(panic) => return self.fail(ctx, HostFailure::Panic(panic)),
        };
        for problem in &turn.problems {
            debug!(actor = %self.part.info.name, %problem);
        }
        self.metrics.handled(&turn.inputs);
        self.metrics.repeated.inc_by(turn.repeated.len() as u64);
        if !turn.facts.is_empty() {
            self.unsynced += 1;
            let (host, number, end) = (ctx.address(), self.runs, run.position());
            let since = Instant::now();
            writer.append(turn.before, turn.facts, move |result| {
                host.do_send(Synced { run: number, end, since, result });
            });
        }
        self.keep_words_now_and_then();
        for departure in turn.repeated {
            self.depart(departure);
        }
        self.consult();
        self.release(ctx);
        if self.inbox.len() > 0 {
            self.stir(ctx);
        }
    }

    /// Lets out what may leave by now, and looks when the next turn is due.
    pub(super) fn release(&mut self, ctx: &mut Context<Self>) {
        let Some((run, _)) = &mut self.run else { return };
        if !self.awaited.is_empty() {
            return;
        }
        let Self { watchers, metrics, request_trace, part, transport, .. } = self;
        let mut departures = Vec::new();
        let released = catching(|| {
            let watch = |position, entry: &Entry, hosted: &AnyActor| {
                metrics.fact(entry, hosted);
                if entry.fact.about_keys().is_some() {
                    transport.learn(part.info.id, hosted.keys(), hosted.secrets());
                }
                received(&entry.fact).for_each(|ticket| transport.hold(part.info.id, ticket));
                if let Some(request_trace) = request_trace {
                    let request = request_trace.follow(&entry.fact);
                    fact_log::note(&part.info, request, (position, entry), hosted);
                }
                watchers.retain(|watcher| watcher.try_send((position, entry.clone())).is_ok());
            };
            run.release(self.clock.now(), watch, |departure| departures.push(departure));
        });
        if let Err(panic) = released {
            return self.fail(ctx, HostFailure::Panic(panic));
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
        }
    }

    fn send(&self, sequence: Sequence, outgoing: Outgoing) {
        let Outgoing { to, kind, sealed } = outgoing;
        let from = self.part.info.id;
        if !self.transport.send(Packet { from, to, sequence, kind, sealed }) {
            self.metrics.dropped.inc();
            debug!(actor = %self.part.info.name, %to, kind, "a message was dropped");
        }
    }

    /// Starts driver calls.
    fn call(&mut self, ctx: &Context<Self>) {
        let Some((run, _)) = self.run.as_ref().filter(|_| self.draining.is_none()) else {
            return;
        };
        let (actor, host) = (run.actor(), ctx.address());
        self.calls.start(
            |id| actor.is_pending(id),
            move |key, done, after| host.do_send(Performed { key, done, after }),
        );
    }

    /// Sets the timer for the next turn.
    fn arm(&mut self, ctx: &mut Context<Self>) {
        let Some((run, _)) = &mut self.run else { return };
        let Some(next) = run.next_timeout() else { return };
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
    pub(super) fn fail(&mut self, ctx: &mut Context<Self>, cause: HostFailure) {
        let Some((_, writer)) = self.run.take() else { return };
        if let Err(error) = writer.close() {
            warn!(actor = %self.part.info.name, %error, "the journal was not closed in good order");
        }
        self.unsynced = 0;
        self.mapper = None;
        self.watchers.clear();
        self.awaited.clear();
        self.calls.clear();
        self.inbox.refuse(&HostError::Busy(self.part.info.name.clone()));
        self.failures = if self.started_at.elapsed() < STABLE_RUN { self.failures } else { 0 };
        self.restart_later(ctx, cause);
    }

    /// Plans the next try after a fall, or after a try that failed. What another process or an older journal
    /// is to blame for will not pass.
    fn restart_later(&mut self, ctx: &mut Context<Self>, cause: HostFailure) {
        self.failures += 1;
        self.metrics.failures.inc();
        let hopeless = matches!(
            cause,
            HostFailure::Append(AppendError::Fenced { .. }) | HostFailure::RolledBack { .. }
        );
        if matches!(cause, HostFailure::Append(AppendError::Full(_))) {
            self.use_reserve(ctx);
        }
        self.conditions.set_down(Some(cause.to_string()));
        if hopeless || self.draining.is_some() {
            return self.give_up(ctx, cause);
        }
        let doubled = 2_u32.pow((self.failures - 1).min(16));
        let pause = FIRST_PAUSE.saturating_mul(doubled).min(LONGEST_PAUSE);
        warn!(actor = %self.part.info.name, %cause, ?pause, "down; comes back from its journal");
        ctx.run_later(pause, |host, ctx| {
            if let Err(cause) = host.recover(ctx) {
                host.restart_later(ctx, cause);
            }
        });
    }

    fn give_up(&mut self, ctx: &mut Context<Self>, cause: HostFailure) {
        error!(actor = %self.part.info.name, %cause, "gives up");
        self.inbox.refuse(&HostError::Stopped(self.part.info.name.clone()));
        drop(self.given_up.send((self.part.info.clone(), cause)));
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
        self.save_watermarks();
        let closed = self.run.take().map_or(Ok(()), |(run, writer)| match self.disk_space {
            DiskSpace::Enough => writer.close_with(|| run.actor().snapshot()),
            DiskSpace::Short => writer.close(),
        });
        info!(actor = %self.part.info.name, "stopped");
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
struct Recovery<'a> {
    run: &'a mut ActorRun,
    request_trace: &'a mut Option<RequestTrace>,
    /// Behind how many facts the snapshot was.
    from: u64,
    latest: Time,
}

impl<'a> Recovery<'a> {
    fn of(run: &'a mut ActorRun, request_trace: &'a mut Option<RequestTrace>) -> Self {
        Self { run, request_trace, from: 0, latest: Time::MIN }
    }
}

impl Past for Recovery<'_> {
    fn restore(&mut self, state: &[u8], position: u64, at: Time) -> Result<(), RestoreError> {
        self.run.restore(state)?;
        (self.from, self.latest) = (position, at);
        if let Some(request_trace) = self.request_trace {
            request_trace.look(self.run.actor());
        }
        Ok(())
    }

    fn apply(&mut self, entry: &Entry) -> Result<(), BadFact> {
        self.latest = entry.at;
        if let Some(request_trace) = self.request_trace {
            request_trace.follow(&entry.fact);
        }
        self.run.replay(entry)
    }
}

impl Handler<Packet> for Host {
    type Result = ();

    fn handle(&mut self, packet: Packet, ctx: &mut Self::Context) {
        let begins = message_begins(packet.kind);
        if self.takes_more() && (self.disk_space == DiskSpace::Enough || !begins) {
            self.inbox.message(packet);
            self.stir(ctx);
        } else {
            self.metrics.refused.inc();
        }
    }
}

impl Handler<Asked> for Host {
    type Result = ();

    fn handle(&mut self, Asked(task): Asked, ctx: &mut Self::Context) {
        let name = || self.part.info.name.clone();
        let begins = input_begins(&task.input) && self.disk_space == DiskSpace::Short;
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

impl Handler<Inspect> for Host {
    type Result = ();

    fn handle(&mut self, Inspect(look): Inspect, ctx: &mut Self::Context) {
        let Some((run, _)) = &mut self.run else { return };
        match catching(|| look(run.actor(), run.outbox())) {
            Ok(held) => run.after_all(held),
            Err(panic) => error!(actor = %self.part.info.name, panic, "a question panicked"),
        }
        self.release(ctx);
    }
}

impl Handler<Watch> for Host {
    type Result = ();

    fn handle(&mut self, Watch(reply): Watch, _: &mut Self::Context) {
        let Some((run, _)) = &self.run else { return };
        // Who has gone is found out by the next fact, and that may be far off.
        self.watchers.retain(|watcher| !watcher.is_closed());
        let (sender, facts) = mpsc::channel(self.limits.behind);
        if reply.send(Facts { from: run.released(), facts }).is_ok() {
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
        let Synced { run: number, end, since, result } = synced;
        if number != self.runs {
            return;
        }
        let Some((run, writer)) = &mut self.run else { return };
        self.unsynced -= 1;
        if let Err(cause) = result {
            return self.fail(ctx, cause.into());
        }
        run.durable(end);
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
        // An answer without a receiver is not lost: the step is still pending, and is requested again.
        if self.run.is_some() && self.draining.is_none() {
            self.inbox.answer(done);
            self.stir(ctx);
        }
    }
}

impl Handler<Drain> for Host {
    type Result = ();

    fn handle(&mut self, Drain(stop): Drain, ctx: &mut Self::Context) {
        self.draining = Some(stop);
        self.inbox.refuse(&HostError::Stopped(self.part.info.name.clone()));
        self.drained(ctx);
    }
}
