//! Driver calls: which wait, which run, and the threads that run them.
//!
//! Drivers block, for hours if they like, so each host has threads of its own for them, and only so many.
//! What begins a tenancy, what ends one and what warns have separate threads: units that hang while they are
//! set up or joined must not keep others from being taken back.

use std::collections::{BTreeSet, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tenure_core::actor::effect::{DriverResult, EffectId};
use tenure_core::driver::{
    Answer, Call, DriverError, Epoch, GuestDriver, ResourceDriver, Step, UnitId,
};
use tenure_core::model::identity::ActorId;
use tenure_core::model::property::Properties;
use tenure_core::model::time::Span;

/// The driver of an actor that has one.
pub enum Driver {
    /// A site's.
    Site(Box<dyn ResourceDriver>),
    /// A guest's.
    Guest(Box<dyn GuestDriver>),
}

impl Driver {
    /// Performs a step. A driver that panics has failed.
    pub(super) fn perform(&self, call: &Call) -> (DriverResult, Span) {
        let performed = catch_unwind(AssertUnwindSafe(|| match self {
            Self::Site(driver) => driver.perform(call),
            Self::Guest(driver) => driver.call(call),
        }));
        let panicked = || Err(DriverError("the driver panicked".to_owned()));
        let answer =
            performed.unwrap_or_else(|_| Answer { outcome: panicked(), after: Span::ZERO });
        let Call { unit, epoch, step, number, lease, .. } = *call;
        (DriverResult { unit, epoch, step, number, lease, outcome: answer.outcome }, answer.after)
    }

    /// Looks how a unit is.
    pub(super) fn probe(&self, site: ActorId, unit: UnitId) -> Result<Properties, DriverError> {
        let probed = catch_unwind(AssertUnwindSafe(|| match self {
            Self::Site(driver) => driver.probe(site, unit),
            Self::Guest(driver) => driver.probe(site, unit),
        }));
        probed.unwrap_or_else(|_| Err(DriverError("the driver panicked".to_owned())))
    }
}

/// Identifies a call permanently.
pub(super) type Key = (ActorId, UnitId, Epoch, Step, u32);

pub(super) fn key(call: &Call) -> Key {
    (call.site, call.unit, call.epoch, call.step, call.number)
}

/// The calls of one host.
pub(super) struct Calls {
    driver: Option<Arc<Driver>>,
    begin: Lane,
    end: Lane,
    warn: Lane,
}

/// The calls of one kind.
struct Lane {
    workers: WorkerPool,
    most: usize,
    /// Calls that were started and whose answer has not been handed in.
    running: BTreeSet<Key>,
    waiting: VecDeque<(EffectId, Call)>,
}

impl Calls {
    /// Calls to `driver`, at most `most` of each kind at a time.
    pub(super) fn new(driver: Option<Arc<Driver>>, most: usize) -> Self {
        Self { driver, begin: Lane::new(most), end: Lane::new(most), warn: Lane::new(most) }
    }

    /// Queues a pending call. One that still runs, from before a failure, is not started twice.
    pub(super) fn owe(&mut self, id: EffectId, call: Call) {
        let lane = self.lane(call.step);
        if !lane.running.contains(&key(&call)) {
            lane.waiting.push_back((id, call));
        }
    }

    /// Starts what can be started and is still pending; `report` is called on another thread.
    pub(super) fn start(
        &mut self,
        is_pending: impl Fn(EffectId) -> bool,
        report: impl Fn(Key, DriverResult, Span) + Clone + Send + 'static,
    ) {
        let Some(driver) = &self.driver else { return };
        for lane in [&mut self.begin, &mut self.end, &mut self.warn] {
            while lane.running.len() < lane.most
                && let Some((id, call)) = lane.waiting.pop_front()
            {
                if is_pending(id) && lane.running.insert(key(&call)) {
                    let (driver, report) = (driver.clone(), report.clone());
                    lane.workers.run(Box::new(move || {
                        let (done, after) = driver.perform(&call);
                        report(key(&call), done, after);
                    }));
                }
            }
        }
    }

    /// The answer to a call is there.
    pub(super) fn answered(&mut self, key: &Key) {
        self.lane(key.3).running.remove(key);
    }

    /// Forgets what has not been started; it will be pending again.
    pub(super) fn clear(&mut self) {
        self.begin.waiting.clear();
        self.end.waiting.clear();
        self.warn.waiting.clear();
    }

    fn lane(&mut self, step: Step) -> &mut Lane {
        match step {
            Step::Setup | Step::Join | Step::Modify => &mut self.begin,
            Step::Teardown | Step::Leave => &mut self.end,
            Step::Warn => &mut self.warn,
        }
    }
}

impl Lane {
    fn new(most: usize) -> Self {
        let (running, waiting) = (BTreeSet::new(), VecDeque::new());
        Self { workers: WorkerPool::default(), most, running, waiting }
    }
}

pub(super) type Job = Box<dyn FnOnce() + Send>;

/// A pool of threads that exit when idle. They are never joined: steps that a stopping process leaves
/// undone are repeated after its restart.
#[derive(Clone, Default)]
pub(super) struct WorkerPool {
    shared: Arc<(Mutex<Jobs>, Condvar)>,
}

#[derive(Default)]
struct Jobs {
    waiting: VecDeque<Job>,
    idle: usize,
}

/// How long a thread waits for more to do.
const LINGER: Duration = Duration::from_secs(1);

impl WorkerPool {
    pub(super) fn run(&self, job: Job) {
        let mut jobs = lock(&self.shared.0);
        jobs.waiting.push_back(job);
        if jobs.idle >= jobs.waiting.len() {
            self.shared.1.notify_one();
            return;
        }
        drop(jobs);
        let shared = self.shared.clone();
        let started = std::thread::Builder::new()
            .name("tenure-driver".to_owned())
            .spawn(move || work(&shared));
        if let Err(error) = started {
            // Some thread that is at work now takes the job later, or the next one to be started does.
            tracing::error!(%error, "no thread for a driver call");
        }
    }
}

fn work((jobs, more): &(Mutex<Jobs>, Condvar)) {
    let mut guard = lock(jobs);
    loop {
        if let Some(job) = guard.waiting.pop_front() {
            drop(guard);
            job();
            guard = lock(jobs);
            continue;
        }
        guard.idle += 1;
        let (woken, waited) =
            more.wait_timeout(guard, LINGER).unwrap_or_else(PoisonError::into_inner);
        guard = woken;
        guard.idle -= 1;
        if waited.timed_out() && guard.waiting.is_empty() {
            return;
        }
    }
}

fn lock(jobs: &Mutex<Jobs>) -> MutexGuard<'_, Jobs> {
    jobs.lock().unwrap_or_else(PoisonError::into_inner)
}
