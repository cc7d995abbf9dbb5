//! Driver calls: which wait, which run, and the threads that run them.
//!
//! Drivers block, for hours if they are given them, so each host has threads of its own for them, and only so
//! many. What begins a tenancy, what ends one and what warns have separate threads: units that hang while they are
//! set up or joined must not keep others from being taken back.

use std::collections::{BTreeMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tenure_core::actor::Actor as _;
use tenure_core::actor::effect::{DriverResult, EffectId};
use tenure_core::driver::{
    Answer, Call, DriverError, Epoch, GuestDriver, ResourceDriver, Step, UnitId,
};
use tenure_core::model::identity::ActorId;
use tenure_core::model::property::Properties;
use tenure_core::model::slice::LeaseId;
use tenure_core::model::time::Span;
use tenure_core::runtime::AnyActor;

use super::underway::{CallLimits, Underway};

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
        (result(call, answer.outcome), answer.after)
    }

    /// Passes on that nobody waits any more for a step that is at work.
    fn give_up(&self, call: &Call) {
        // What it does about it is its own affair.
        drop(catch_unwind(AssertUnwindSafe(|| match self {
            Self::Site(driver) => driver.give_up(call),
            Self::Guest(driver) => driver.give_up(call),
        })));
    }

    /// Sets the key by which the driver acts for its actor.
    pub(super) fn acts_by(&self, actor: &AnyActor, id: ActorId) {
        let (key, keys) = (actor.key(), actor.keys().chain(id).cloned().unwrap_or_default());
        if let Some(signer) = actor.secrets().iter().find(|secret| secret.key() == key) {
            drop(catch_unwind(AssertUnwindSafe(|| match self {
                Self::Site(driver) => driver.acts_by(signer, &keys),
                Self::Guest(driver) => driver.acts_by(signer, &keys),
            })));
        }
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
    /// Pass on what was given up.
    words: WorkerPool,
    begin: Lane,
    end: Lane,
    warn: Lane,
}

/// The calls of one kind.
struct Lane {
    workers: WorkerPool,
    /// Calls that were started and whose answer has not been handed in.
    underway: Underway<Key, Arc<Call>>,
    waiting: Waiting,
}

/// Calls that wait. The leases take turns: one with a thousand units does not keep the others waiting.
#[derive(Default)]
struct Waiting {
    turns: VecDeque<Whose>,
    calls: BTreeMap<Whose, VecDeque<(EffectId, Call)>>,
}

/// The lease that a call is done for.
type Whose = (ActorId, LeaseId);

fn whose(call: &Call) -> Whose {
    (call.guest, call.lease)
}

impl Waiting {
    fn push(&mut self, id: EffectId, call: Call) {
        let whose = whose(&call);
        let calls = self.calls.entry(whose).or_default();
        if calls.is_empty() {
            self.turns.push_back(whose);
        }
        calls.push_back((id, call));
    }

    /// The next call of the first lease that may have one.
    fn pop(&mut self, may: impl Fn(Whose) -> bool) -> Option<(EffectId, Call)> {
        let turn = self.turns.iter().position(|&whose| may(whose))?;
        let whose = self.turns.remove(turn)?;
        let calls = self.calls.get_mut(&whose)?;
        let next = calls.pop_front();
        if calls.is_empty() {
            self.calls.remove(&whose);
        } else {
            self.turns.push_back(whose);
        }
        next
    }
}

impl Calls {
    /// Calls to `driver`, within its `limits` of each kind.
    pub(super) fn new(driver: Option<Arc<Driver>>, limits: CallLimits) -> Self {
        let [begin, end, warn] = std::array::from_fn(|_| Lane::new(limits));
        Self { driver, words: WorkerPool::default(), begin, end, warn }
    }

    /// Queues a pending call. One that still runs, from before a failure, is not started twice.
    pub(super) fn owe(&mut self, id: EffectId, call: Call) {
        let lane = self.lane(call.step);
        if !lane.underway.awaits(&key(&call), Instant::now()) {
            lane.waiting.push(id, call);
        }
    }

    /// Starts what can be started and is still pending; `report` is called on another thread.
    pub(super) fn start(
        &mut self,
        is_pending: impl Fn(EffectId) -> bool,
        report: impl Fn(Key, DriverResult, Span) + Clone + Send + 'static,
    ) {
        let Some(driver) = &self.driver else { return };
        for Lane { workers, underway, waiting } in [&mut self.begin, &mut self.end, &mut self.warn]
        {
            let now = Instant::now();
            while underway.has_room() {
                let may = |lease| underway.has_room_for(|call| whose(call) == lease);
                let Some((id, call)) = waiting.pop(may) else { break };
                if is_pending(id) && !underway.awaits(&key(&call), now) {
                    let call = Arc::new(call);
                    underway.begin(key(&call), Arc::clone(&call), now);
                    let (driver, report) = (driver.clone(), report.clone());
                    workers.run(Box::new(move || {
                        let (done, after) = driver.perform(&call);
                        report(key(&call), done, after);
                    }));
                }
            }
        }
    }

    /// The answer to a call is there, and is handed in later. Answers whether it counts.
    pub(super) fn settled(&mut self, key: &Key) -> bool {
        self.lane(key.3).underway.settle(key)
    }

    /// The answer to a call is handed in. Answers whether it counts.
    pub(super) fn answered(&mut self, key: &Key) -> bool {
        self.lane(key.3).underway.end(key)
    }

    /// Gives up what has taken too long, tells the driver, and answers for it.
    pub(super) fn give_up(&mut self, now: Instant) -> Vec<(Arc<Call>, DriverResult)> {
        let mut given_up = Vec::new();
        for lane in [&mut self.begin, &mut self.end, &mut self.warn] {
            let late = timed_out(lane.underway.timeout());
            for call in lane.underway.give_up(now) {
                if let Some(driver) = self.driver.clone() {
                    let call = Arc::clone(&call);
                    self.words.run(Box::new(move || driver.give_up(&call)));
                }
                let done = result(&call, Err(late.clone()));
                given_up.push((call, done));
            }
        }
        given_up
    }

    /// When a call is to be given up next.
    pub(super) fn next(&self) -> Option<Instant> {
        self.lanes().filter_map(|lane| lane.underway.next()).min()
    }

    /// How many calls were given up and have not come back.
    pub(super) fn given_up(&self) -> usize {
        self.lanes().map(|lane| lane.underway.given_up()).sum()
    }

    /// Forgets what has not been started; it will be pending again.
    pub(super) fn clear(&mut self) {
        for lane in [&mut self.begin, &mut self.end, &mut self.warn] {
            lane.waiting = Waiting::default();
        }
    }

    fn lanes(&self) -> impl Iterator<Item = &Lane> {
        [&self.begin, &self.end, &self.warn].into_iter()
    }

    fn lane(&mut self, step: Step) -> &mut Lane {
        match step {
            Step::Setup | Step::Join | Step::Modify | Step::Install => &mut self.begin,
            Step::Teardown | Step::Leave | Step::Remove => &mut self.end,
            Step::Warn => &mut self.warn,
        }
    }
}

impl Lane {
    fn new(limits: CallLimits) -> Self {
        let (workers, waiting) = (WorkerPool::default(), Waiting::default());
        Self { workers, underway: Underway::new(limits), waiting }
    }
}

/// What is said for a driver that does not answer.
pub(super) fn timed_out(timeout: Duration) -> DriverError {
    let timeout = Span::from_micros(i64::try_from(timeout.as_micros()).unwrap_or(i64::MAX));
    DriverError(format!("given up: the driver did not answer within {timeout}"))
}

fn result(call: &Call, outcome: Result<Properties, DriverError>) -> DriverResult {
    let Call { unit, epoch, step, number, lease, .. } = *call;
    DriverResult { unit, epoch, step, number, lease, outcome }
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
