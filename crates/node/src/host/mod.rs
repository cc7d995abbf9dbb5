//! Hosts: one actix actor around each leasing actor.
//!
//! A host runs the loop that the core asks of every shell, in real time and with group commit:
//!
//! 1. what comes in waits in an inbox of bounded size; a *turn* hands all of it in, in a fixed order;
//! 2. the turn's facts go to the journal's thread, and the next turn begins while they are being synced;
//! 3. when they are durable, and not before, replies, messages, driver calls and answers to users leave.
//!
//! When an actor panics or its journal fails, its memory is dropped and it is recovered from the journal.
//! actix would leave it dead.

/// Makes types messages that are not answered: a sender that waits for a result passes a channel.
macro_rules! messages {
    ($($message:ty),*) => {
        $(impl actix::Message for $message {
            type Result = ();
        })*
    };
}
use messages;

mod calls;
mod consult;
mod mapper_thread;
pub mod conductor;
mod greeting;
mod handle;
mod inbox;
mod actor_run;
mod probes;
mod reports;
mod disk_space;
mod recovery;
mod run;
mod underway;
mod fact_log;
pub(crate) mod request_trace;

use std::collections::{BTreeMap, BTreeSet};
use std::num::{NonZeroU32, NonZeroU64, NonZeroUsize};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use actix::{Actor as _, Addr, ArbiterHandle, AsyncContext as _, SpawnHandle};
use tenure_core::actor::effect::DriverResult;
use tenure_core::runtime::AnyActor;
use tenure_core::runtime::Entry;

use tenure_core::actor::watermark::Watermarks;
use tenure_core::driver::DriverError;
use tenure_core::mapper::registry::MapperError;
use tenure_core::model::identity::ActorId;
use tenure_core::model::name::Name;
use tenure_core::model::property::Properties;
use tenure_core::model::time::{Span, Time};
use tenure_core::runtime::hosted::HostedActor;
use tenure_core::runtime::journal::AppendError;
use tenure_core::runtime::outbox::{Outbox, RetryPolicy};
use tenure_core::wire::inquiry::Answered;
use thiserror::Error;
use tokio::sync::{mpsc, oneshot};

pub use calls::Driver;
pub use handle::{ActorInfo, Committed, Facts, Handle, HostError};
pub use probes::{Condition, Conditions};
pub use underway::CallLimits;

use self::actor_run::{ActorRun, Held, Task};
use self::calls::Calls;
use self::disk_space::DiskSpace;
use self::greeting::Unheard;
use self::inbox::Inbox;
use self::mapper_thread::MapperThread;
use self::probes::{Probes, Subject};
use self::reports::Reports;
use self::request_trace::RequestTrace;
use crate::adapter::Adapters;
use crate::clock::Clock;
use crate::driver::{Custody, CustodyError};
use crate::journal::{Disk, JournalError, Writer};
use crate::metrics::{HostMetrics, Metrics};
use crate::transport::Transport;

/// Builds an actor with its mapper and an empty past, the same each time: before each reading of the
/// journal.
pub type ActorBuilder = Arc<dyn Fn() -> Result<HostedActor, MapperError> + Send + Sync>;

/// What a host needs to run its actor.
#[derive(Clone)]
pub struct Part {
    /// Who it is.
    pub info: ActorInfo,
    /// Builds it.
    pub build: ActorBuilder,
    /// Where its journal is; made if it is not there.
    pub journal: PathBuf,
    /// What performs its steps; a broker has none.
    pub driver: Option<Arc<Driver>>,
    /// At a guest: the adapters of its services.
    pub adapters: Option<Arc<Adapters>>,
    /// How much that is asked to do at a time, and how long it may take.
    pub calls: CallLimits,
    /// At a site: whether its driver may take over its units.
    pub custody: Option<Custody>,
    /// How it repeats messages.
    pub retry_policy: RetryPolicy,
    /// At a site: after how many probes in a row that find it down a unit on a lease has failed.
    pub fail_after: Option<NonZeroU32>,
}

/// The resource limits of one host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The most inputs that wait. Beyond, messages are dropped, as they will be repeated, and users are
    /// refused as busy.
    pub inbox: usize,
    /// The most inputs of each kind in one turn.
    pub turn: usize,
    /// The most turns whose facts are being synced.
    pub unsynced: usize,
    /// How often each live unit is probed, unless that takes longer.
    pub probe_every: Duration,
    /// The most probes at a time.
    pub probes: NonZeroUsize,
    /// How often peers are asked for their clocks, if they are.
    pub clock_check: Option<Span>,
    /// The most units of which a driver's own report waits.
    pub reports: usize,
    /// The most facts that wait for one follower.
    pub behind: usize,
    /// After how many facts a snapshot is taken, so that a start folds about as many at most.
    pub snapshot: u64,
    /// How many facts before its oldest snapshot an actor moves to its archive together; none ever, without it.
    pub archive: Option<NonZeroU64>,
    /// How long a mapper may take to decide before it is replaced.
    pub mapper: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            inbox: 4096,
            turn: 64,
            unsynced: 64,
            probe_every: Duration::from_secs(10),
            probes: NonZeroUsize::new(8).unwrap_or(NonZeroUsize::MIN),
            clock_check: None,
            reports: 4096,
            behind: 4096,
            snapshot: 100_000,
            archive: None,
            mapper: Duration::from_secs(300),
        }
    }
}

/// Why a host failed.
#[derive(Debug, Error)]
pub enum HostFailure {
    /// Its journal cannot be opened.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// Facts could not be appended to its journal.
    #[error(transparent)]
    Append(#[from] AppendError),
    /// Its driver must not take over its units.
    #[error(transparent)]
    Custody(#[from] CustodyError),
    /// Its mapper cannot be built.
    #[error(transparent)]
    Mapper(#[from] MapperError),
    /// Its journal was put back from an older copy: a peer has a message that it signed later.
    #[error(
        "its journal holds {holds} facts, but {peer} has a message that it signed when there were \
         {witnessed}: an older copy was put back. Put back the journal with all its facts"
    )]
    RolledBack {
        /// The peer with that message.
        peer: String,
        /// How many facts there were when it gave its word.
        witnessed: u64,
        /// How many there are.
        holds: u64,
    },
    /// It has not the secret of the key that it is to sign with.
    #[error("the secret of its key {key} is missing")]
    NoSecret {
        /// The public key, in hexadecimal digits.
        key: String,
    },
    /// Two of its peers have one name.
    #[error("`{name}` is a peer by configuration and another one by invitation")]
    NameOfTwo {
        /// The name.
        name: Name,
    },
    /// Its actor panicked.
    #[error("it panicked: {0}")]
    Panic(String),
}

/// How a stop went.
pub type Drained = Result<(), Arc<JournalError>>;

/// A host: see the [module](self).
pub struct Host {
    part: Part,
    limits: Limits,
    clock: Arc<dyn Clock>,
    transport: Arc<dyn Transport>,
    metrics: HostMetrics,
    disk: Arc<dyn Disk + Sync>,
    /// Whether room for a full disk is kept back.
    disk_space: DiskSpace,
    /// Maps facts to requests, for debug logs.
    request_trace: Option<RequestTrace>,
    /// Reports the result of the first opening of the journal.
    ready: Option<oneshot::Sender<Result<(), HostFailure>>>,
    /// Notified when it has given up.
    given_up: mpsc::UnboundedSender<(ActorInfo, HostFailure)>,
    run: Option<(ActorRun, Writer)>,
    /// Whether another thread is reading or closing the journal.
    away: bool,
    mapper: Option<MapperThread>,
    /// Numbers mappers, so that a replaced one is not heard any more.
    mappers: u64,
    /// Numbers runs, so that a late result of one is not taken for a result of the next.
    runs: u64,
    started_at: Instant,
    /// Consecutive failures.
    failures: u32,
    inbox: Inbox,
    calls: Calls,
    /// Wakes it when a call or a probe is to be given up.
    call_timer: Option<SpawnHandle>,
    probes: Probes,
    reports: Arc<Reports>,
    unsynced: usize,
    /// Whether a turn is due, and whether it has been scheduled.
    stirred: bool,
    scheduled: bool,
    timer: Option<(Time, SpawnHandle)>,
    watchers: Vec<mpsc::Sender<(u64, Entry)>>,
    /// Who waits for what brokers answer to inquiries.
    inquirers: Vec<mpsc::Sender<Answered>>,
    draining: Option<oneshot::Sender<Drained>>,
    /// Peers whose watermarks of this actor are still outstanding; nothing is done before they answer.
    awaited: BTreeSet<ActorId>,
    /// How many facts there were at the start.
    started_with: u64,
    /// Peers that were asked at the start and have not answered.
    unheard: BTreeMap<ActorId, Unheard>,
    /// Peers that asked before the journal was read.
    greeted_early: BTreeSet<ActorId>,
    /// The watermarks of peers, as the journal keeps them.
    watermarks: Watermarks,
    /// What others see of how it is.
    conditions: Conditions,
    watermarks_saved_at: Instant,
}

/// What the hosts of a deployment share.
#[derive(Clone)]
pub(crate) struct Surroundings {
    pub(crate) limits: Limits,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) transport: Arc<dyn Transport>,
    pub(crate) metrics: Metrics,
    /// Where the journals are.
    pub(crate) disk: Arc<dyn Disk + Sync>,
    /// Notified when a host has given up.
    pub(crate) given_up: mpsc::UnboundedSender<(ActorInfo, HostFailure)>,
}

impl Host {
    /// Starts a host on a thread of actix's. The receiver resolves when the journal has been read.
    pub(crate) fn start_on(
        thread: &ArbiterHandle,
        part: Part,
        around: Surroundings,
        conditions: Conditions,
    ) -> (Addr<Self>, oneshot::Receiver<Result<(), HostFailure>>) {
        let (ready, answer) = oneshot::channel();
        let host = Self::start_in_arbiter(thread, move |ctx| {
            let Surroundings { limits, clock, transport, metrics, disk, given_up } = around;
            let metrics = metrics.of(&part.info);
            let calls = Calls::new(part.driver.clone(), part.calls);
            let probing = CallLimits { at_a_time: limits.probes, ..part.calls };
            let probes = Probes::new(part.driver.clone(), probing, conditions.clone());
            let host = ctx.address().downgrade();
            let reports = Reports::new(limits.reports, move || {
                if let Some(host) = host.upgrade() {
                    host.do_send(Reported);
                }
            });
            Self {
                part,
                limits,
                clock,
                transport,
                metrics,
                disk,
                disk_space: DiskSpace::Enough,
                request_trace: None,
                ready: Some(ready),
                given_up,
                run: None,
                away: false,
                mapper: None,
                mappers: 0,
                runs: 0,
                started_at: Instant::now(),
                failures: 0,
                inbox: Inbox::default(),
                calls,
                call_timer: None,
                probes,
                reports: Arc::new(reports),
                unsynced: 0,
                stirred: false,
                scheduled: false,
                timer: None,
                watchers: Vec::new(),
                inquirers: Vec::new(),
                draining: None,
                awaited: BTreeSet::new(),
                started_with: 0,
                unheard: BTreeMap::new(),
                greeted_early: BTreeSet::new(),
                watermarks: Watermarks::default(),
                conditions,
                watermarks_saved_at: Instant::now(),
            }
        });
        (host, answer)
    }
}

/// A run of this length resets the failure count.
const STABLE_RUN: Duration = Duration::from_secs(60);

/// Delay before the first restart; doubles with each failure, up to the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// The longest sleep of a host: timers do not notice when the machine's clock is set.
const LONGEST_SLEEP: Duration = Duration::from_secs(1);

/// A user's command or a measurement.
struct Asked(Task);

/// A read of the actor; it is answered once the state it saw is durable.
struct Inspect(Inspection);

type Inspection = Box<dyn FnOnce(&AnyActor, &Outbox) -> Held + Send>;

/// A subscription to the facts.
struct Watch(oneshot::Sender<Facts>);

/// Has what brokers answer to inquiries passed on from now on.
struct Listen(oneshot::Sender<mpsc::Receiver<Answered>>);

/// The host is to stop in good order.
struct Drain(oneshot::Sender<Drained>);

/// It is the actor's turn.
struct TakeTurn;

/// Result from the journal's thread: the facts before `end` are durable, or it failed.
struct Synced {
    run: u64,
    end: u64,
    /// When they were handed over.
    since: Instant,
    result: Result<(), AppendError>,
}

/// Result from a driver's thread.
struct Performed {
    key: calls::Key,
    done: DriverResult,
    after: Span,
}

/// Result from a driver's thread: the condition of a unit.
struct Probed {
    subject: Subject,
    found: Result<Properties, DriverError>,
}

/// A site's driver has reported something by itself.
struct Reported;

messages!(Asked, Inspect, Watch, Listen, Drain, TakeTurn, Synced, Performed, Probed, Reported);
