//! How a run begins and ends: its journal is read and closed on a thread that may wait for the disk, however
//! long that takes, while the other actors of the host's thread go on.

use std::sync::Arc;
use std::time::Instant;

use actix::{ActorContext as _, ActorFutureExt as _, AsyncContext as _, Context, WrapFuture as _};
use tenure_core::actor::Actor as _;
use tenure_core::actor::fact::BadFact;
use tenure_core::actor::snapshot::RestoreError;
use tenure_core::actor::watermark::Watermarks;
use tenure_core::model::time::{Span, Time};
use tenure_core::runtime::journal::AppendError;
use tenure_core::runtime::{AnyActor, AnyMapper, Entry};
use tenure_core::site_authority::unit;
use tokio::task::spawn_blocking;
use tracing::{Level, enabled, error, info, warn};

use super::actor_run::{ActorRun, catching};
use super::disk_space::DiskSpace;
use super::handle::{ActorInfo, HostError};
use super::request_trace::RequestTrace;
use super::{FIRST_PAUSE, Host, HostFailure, LONGEST_PAUSE, Part, STABLE_RUN};
use crate::driver::Custody;
use crate::journal::{Disk, JournalError, JournalFile, Owner, Past, Reserve, Snapshots, Writer};

/// What it takes to read a journal.
struct Opening {
    part: Part,
    disk: Arc<dyn Disk + Sync>,
    snapshots: Snapshots,
    clock_check: Option<Span>,
    /// Whether room is to be kept back for a full disk.
    keeps_room: bool,
}

/// What came of it.
struct Opened {
    result: Result<OpenRun, HostFailure>,
    /// What the driver may take over by now.
    custody: Option<Custody>,
    /// Whether the room that was kept back was given to a full disk.
    gave_room: bool,
}

/// A run that can begin.
struct OpenRun {
    run: ActorRun,
    writer: Writer,
    mapper: AnyMapper,
    watermarks: Watermarks,
    request_trace: Option<RequestTrace>,
    /// Behind how many facts the snapshot was.
    from: u64,
    /// The time of the last fact.
    latest: Time,
    /// Whether room is kept back.
    room: Result<(), JournalError>,
}

impl Opening {
    /// Reads the journal; if the disk is full, on what was kept back.
    fn open(mut self) -> Opened {
        let mut gave_room = false;
        let mut result = self.open_once();
        if matches!(result, Err(HostFailure::Journal(JournalError::DiskFull { .. }))) {
            gave_room = give_room(&self.part, &*self.disk);
            if gave_room {
                self.keeps_room = false;
                result = self.open_once();
            }
        }
        Opened { result, custody: self.part.custody, gave_room }
    }

    fn open_once(&mut self) -> Result<OpenRun, HostFailure> {
        let ActorInfo { name, role, id } = self.part.info.clone();
        let (actor, mapper) = (self.part.build)()?.into_parts();
        let mut run =
            ActorRun::new(actor, self.part.retry_policy).checking_clocks(self.clock_check);
        let owner = Owner { name, role, id };
        let mut request_trace = enabled!(Level::INFO).then(|| RequestTrace::new(id));
        let mut past = Recovery::of(&mut run, &mut request_trace);
        let journal = JournalFile::resume_on(&*self.disk, &self.part.journal, &owner, &mut past)?;
        let (from, latest) = (past.from, past.latest);
        if let Some(custody) = &mut self.part.custody {
            custody.take(units_in_hand(run.actor()))?;
        }
        let watermarks = journal.watermarks()?;
        let writer = journal.into_writer_with(self.snapshots.clone())?;
        has_secret(run.actor())?;
        has_names(run.actor())?;
        run.recovered();
        let reserve = Reserve::of(&self.part.journal);
        let room = if self.keeps_room { reserve.keep(&*self.disk) } else { Ok(()) };
        Ok(OpenRun { run, writer, mapper, watermarks, request_trace, from, latest, room })
    }
}

/// Gives the room that is kept back beside a journal to a full disk. Answers whether there was any.
fn give_room(part: &Part, disk: &dyn Disk) -> bool {
    Reserve::of(&part.journal).give_back(disk).unwrap_or_else(|error| {
        let actor = &part.info.name;
        warn!(%actor, %error, "the room that was kept back cannot be used");
        false
    })
}

/// Whether each of its peers has a name of its own: one of the configuration may have come since.
fn has_names(actor: &AnyActor) -> Result<(), HostFailure> {
    match actor.name_of_two() {
        Some(name) => Err(HostFailure::NameOfTwo { name: name.clone() }),
        None => Ok(()),
    }
}

/// Whether an actor can sign: its key in force may have been replaced since its secret was copied.
fn has_secret(actor: &AnyActor) -> Result<(), HostFailure> {
    let Some(key) = actor.missing_secret() else { return Ok(()) };
    let key = key.as_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
    Err(HostFailure::NoSecret { key })
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

impl Host {
    /// Has `work` done on a thread that may wait, and goes on with what came of it: what was answered, or the
    /// words of a panic. A process that stops the host's thread waits for the work.
    pub(super) fn apart<T: Send + 'static>(
        &self,
        ctx: &mut Context<Self>,
        work: impl FnOnce() -> T + Send + 'static,
        then: impl FnOnce(&mut Self, Result<T, String>, &mut Context<Self>) + 'static,
    ) {
        let done = spawn_blocking(|| catching(work)).into_actor(self).map(|done, host, ctx| {
            then(host, done.unwrap_or_else(|error| Err(error.to_string())), ctx);
        });
        ctx.spawn(done);
    }

    /// Reads the journal, takes up what is pending, and continues.
    pub(super) fn recover(&mut self, ctx: &mut Context<Self>) {
        let opening = Opening {
            part: self.part.clone(),
            disk: Arc::clone(&self.disk),
            snapshots: self.snapshots(),
            clock_check: self.limits.clock_check,
            keeps_room: self.disk_space == DiskSpace::Enough,
        };
        self.away = true;
        self.apart(ctx, || opening.open(), Self::opened);
    }

    /// How the journal's thread takes snapshots.
    fn snapshots(&self) -> Snapshots {
        let (every, archive) = (self.limits.snapshot, self.limits.archive);
        let disk = Arc::clone(&self.disk);
        let maker = Arc::clone(&self.part.build);
        Snapshots { every, archive, build: Arc::new(move || maker().ok()), disk }
    }

    fn opened(&mut self, opened: Result<Opened, String>, ctx: &mut Context<Self>) {
        self.away = false;
        let result = match opened {
            Ok(Opened { result, custody, gave_room }) => {
                self.part.custody = custody;
                if gave_room {
                    self.become_short(ctx);
                }
                result
            }
            Err(panic) => Err(HostFailure::Panic(panic)),
        };
        let first = self.ready.take();
        match (result, first) {
            (Ok(open), first) => {
                self.begin(open, ctx);
                first.map(|ready| ready.send(Ok(())));
            }
            (Err(cause), Some(ready)) => {
                ctx.stop();
                drop(ready.send(Err(cause)));
            }
            (Err(cause), None) => {
                self.count_failure(&cause);
                self.restart_later(ctx, cause);
            }
        }
    }

    /// The journal has been read: the run begins.
    fn begin(&mut self, open: OpenRun, ctx: &mut Context<Self>) {
        let OpenRun { run, writer, mapper, watermarks, request_trace, from, latest, room } = open;
        let facts = run.position();
        self.clock.not_before(latest);
        (self.runs, self.started_at) = (self.runs + 1, Instant::now());
        (self.watermarks, self.request_trace) = (watermarks, request_trace);
        self.run = Some((run, writer));
        if self.draining.is_some() {
            return self.drained(ctx);
        }
        info!(actor = %self.part.info.name, facts, from, "ready");
        self.conditions.set_down(None);
        self.metrics.begins();
        self.start_mapper(|| Ok(mapper), ctx);
        self.inbox.begin();
        self.room_kept(room, ctx);
        self.prepare_transport();
        self.greet(ctx);
        self.release(ctx);
        self.stir(ctx);
        self.take_reports();
        self.probe(ctx);
    }

    /// Drops what is in memory; rises in a while, or gives up.
    pub(super) fn fail(&mut self, ctx: &mut Context<Self>, cause: HostFailure) {
        let Some((run, writer)) = self.run.take() else { return };
        self.unsynced = 0;
        self.mapper = None;
        self.watchers.clear();
        self.awaited.clear();
        self.unheard.clear();
        self.calls.clear();
        self.inbox.refuse(&HostError::Busy(self.part.info.name.clone()));
        self.failures = if self.started_at.elapsed() < STABLE_RUN { self.failures } else { 0 };
        self.count_failure(&cause);
        let (part, disk) = (self.part.clone(), Arc::clone(&self.disk));
        let full = matches!(cause, HostFailure::Append(AppendError::Full(_)));
        let close = move || {
            let closed = writer.close();
            drop(run);
            (closed, full && give_room(&part, &*disk))
        };
        self.away = true;
        self.apart(ctx, close, |host, closed, ctx| {
            host.away = false;
            let actor = &host.part.info.name;
            let (closed, gave_room) = closed.unwrap_or((Ok(()), false));
            if let Err(error) = closed {
                warn!(%actor, %error, "the journal was not closed in good order");
            }
            if gave_room {
                host.become_short(ctx);
            }
            host.restart_later(ctx, cause);
        });
    }

    fn count_failure(&mut self, cause: &HostFailure) {
        self.failures += 1;
        self.metrics.failures.inc();
        self.conditions.set_down(Some(cause.to_string()));
    }

    /// Plans the next try after a fall, or after a try that failed. What another process or an older journal
    /// is to blame for will not pass.
    fn restart_later(&mut self, ctx: &mut Context<Self>, cause: HostFailure) {
        let hopeless = matches!(
            cause,
            HostFailure::Append(AppendError::Fenced { .. }) | HostFailure::RolledBack { .. }
        );
        if hopeless || self.draining.is_some() {
            return self.give_up(ctx, cause);
        }
        let doubled = 2_u32.pow((self.failures - 1).min(16));
        let pause = FIRST_PAUSE.saturating_mul(doubled).min(LONGEST_PAUSE);
        warn!(actor = %self.part.info.name, %cause, ?pause, "down; comes back from its journal");
        ctx.run_later(pause, |host, ctx| host.recover(ctx));
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

    /// Closes the journal once everything is synced.
    pub(super) fn drained(&mut self, ctx: &mut Context<Self>) {
        if self.unsynced > 0 || self.away || self.draining.is_none() {
            return;
        }
        self.save_watermarks();
        let Some((run, writer)) = self.run.take() else { return self.stopped(ctx, Ok(())) };
        let space = self.disk_space;
        let close = move || match space {
            DiskSpace::Enough => writer.close_with(|| run.actor().snapshot()),
            DiskSpace::Short => writer.close(),
        };
        self.away = true;
        self.apart(ctx, close, |host, closed, ctx| {
            host.stopped(ctx, closed.unwrap_or(Ok(())));
        });
    }

    fn stopped(&mut self, ctx: &mut Context<Self>, closed: Result<(), JournalError>) {
        info!(actor = %self.part.info.name, "stopped");
        if let Some(stop) = self.draining.take() {
            drop(stop.send(closed.map_err(Arc::new)));
        }
        ctx.stop();
    }
}
