//! The host's event handling: turns, syncs, departures.

use std::time::{Duration, Instant};

use actix::{Actor, AsyncContext as _, Context, Handler};
use tenure_core::actor::Actor as _;
use tenure_core::actor::effect::DriverResult;
use tenure_core::model::time::Span;
use tenure_core::runtime::AnyActor;
use tenure_core::runtime::Entry;
use tenure_core::runtime::host::Departure;
use tenure_core::runtime::outbox::Outgoing;
use tenure_core::wire::message::Sequence;
use tokio::sync::mpsc;
use tracing::{debug, error, info, warn};

use super::actor_run::catching;
use super::disk_space::{DiskSpace, input_begins, message_begins};
use super::fact_log;
use super::handle::{Facts, HostError};
use super::{
    Asked, Drain, Host, HostFailure, Inspect, LONGEST_SLEEP, Listen, Performed, Synced, TakeTurn,
    Watch,
};
use crate::subject::received;
use crate::transport::Packet;

impl Actor for Host {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        ctx.set_mailbox_capacity(self.limits.inbox);
        self.recover(ctx);
        ctx.run_interval(self.limits.probe_every, |host, ctx| {
            host.probe(ctx);
            host.check_mapper(ctx);
        });
    }
}

impl Host {
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
        for answered in turn.answered {
            self.inquirers.retain(|inquirer| inquirer.try_send(answered.clone()).is_ok());
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
                    if let Some(driver) = &part.driver {
                        driver.acts_by(hosted, part.info.id);
                    }
                }
                if entry.fact.is_about_peers() {
                    transport.introduce(part.info.id, hosted.joined());
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

    fn send(&mut self, sequence: Sequence, outgoing: Outgoing) {
        let Outgoing { to, kind, sealed } = outgoing;
        let from = self.part.info.id;
        self.bring(Packet { from, to, sequence, kind, sealed });
    }

    /// Sends a packet, as far as its receiver takes it.
    pub(super) fn bring(&mut self, packet: Packet) {
        let (to, kind) = (packet.to, packet.kind);
        if !self.send_or_hold(packet) {
            self.metrics.dropped.inc();
            debug!(actor = %self.part.info.name, %to, kind, "a message was dropped");
        }
    }

    /// Starts driver calls.
    fn call(&mut self, ctx: &mut Context<Self>) {
        let Some((run, _)) = self.run.as_ref().filter(|_| self.draining.is_none()) else {
            return;
        };
        let (actor, host) = (run.actor(), ctx.address());
        self.calls.start(
            |id| actor.is_pending(id),
            move |key, done, after| host.do_send(Performed { key, done, after }),
        );
        self.watch_calls(ctx);
    }

    /// Sees to it that what takes too long is given up.
    pub(super) fn watch_calls(&mut self, ctx: &mut Context<Self>) {
        let next = [self.calls.next(), self.probes.next()].into_iter().flatten().min();
        self.metrics.hung.set(i64::try_from(self.hung()).unwrap_or(i64::MAX));
        let Some(next) = next.filter(|_| self.call_timer.is_none()) else { return };
        let wait = next.saturating_duration_since(Instant::now());
        self.call_timer = Some(ctx.run_later(wait, |host, ctx| {
            host.call_timer = None;
            host.give_up_late(ctx);
            host.watch_calls(ctx);
        }));
    }

    /// How many calls and probes were given up and have not come back.
    fn hung(&self) -> usize {
        self.calls.given_up() + self.probes.given_up()
    }

    /// Gives up what takes too long.
    fn give_up_late(&mut self, ctx: &mut Context<Self>) {
        let now = Instant::now();
        for (call, done) in self.calls.give_up(now) {
            let (actor, unit, step) = (&self.part.info.name, call.unit, call.step.word());
            warn!(%actor, %unit, step, lease = %call.lease, "a driver does not answer; its call is given up");
            self.metrics.given_up.inc();
            self.hand_in(done, ctx);
        }
        self.give_up_probes(now, ctx);
        self.call(ctx);
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

    /// Whether the inbox takes one more.
    fn takes_more(&self) -> bool {
        self.draining.is_none() && self.inbox.len() < self.limits.inbox
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

impl Handler<Listen> for Host {
    type Result = ();

    fn handle(&mut self, Listen(reply): Listen, _: &mut Self::Context) {
        self.inquirers.retain(|inquirer| !inquirer.is_closed());
        let (sender, answers) = mpsc::channel(self.limits.behind);
        if reply.send(answers).is_ok() {
            self.inquirers.push(sender);
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
            if self.calls.settled(&key) {
                ctx.notify_later(Performed { key, done, after: Span::ZERO }, wait);
            }
            return;
        }
        let counts = self.calls.answered(&key);
        self.call(ctx);
        if !counts {
            let (actor, unit) = (&self.part.info.name, key.1);
            info!(%actor, %unit, step = key.3.word(), "a call that was given up has come back");
            return;
        }
        self.metrics.called(done.outcome.is_ok());
        self.hand_in(done, ctx);
    }
}

impl Host {
    /// Hands in how a step ended.
    fn hand_in(&mut self, done: DriverResult, ctx: &mut Context<Self>) {
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
