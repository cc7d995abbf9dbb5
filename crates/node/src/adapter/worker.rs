//! The thread of one service's adapter.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Instant;

use tenure_core::model::name::Name;
use tenure_core::model::time::Time;
use tenure_core::runtime::AnyActor;
use tenure_core::service_manager::services::{Found, ServiceCommand, SiteUnit};
use tenure_core::service_manager::{Command as GuestCommand, JoinedUnit};
use tokio::runtime::Handle as Runtime;
use tokio::sync::oneshot;
use tracing::{info, warn};

use super::{Adapter, AdapterError, Sensed};
use crate::clock::Clock;
use crate::driver::fence::hold;
use crate::driver::record::Key;
use crate::driver::stop::Stop;
use crate::host::{Handle, HostError};

/// How an adapter last looked at its software.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Look {
    /// When; none if it has not yet.
    pub(crate) at: Option<Time>,
    /// What was wrong: with the software, or with looking.
    pub(crate) error: Option<String>,
}

/// What a user has an adapter do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Act {
    Start,
    Stop,
}

impl Act {
    /// In a word.
    fn word(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::Stop => "stop",
        }
    }

    /// What does it, of what starts and what stops.
    pub(super) fn command<'a, T>(
        self,
        (start, stop): (&'a Option<T>, &'a Option<T>),
    ) -> Option<&'a T> {
        match self {
            Self::Start => start.as_ref(),
            Self::Stop => stop.as_ref(),
        }
    }
}

/// An act, and who waits for its outcome.
struct Order(Act, oneshot::Sender<Result<(), AdapterError>>);

/// What all adapters of a service manager work with.
#[derive(Clone)]
pub(super) struct Surroundings {
    pub(super) handle: Handle,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) runtime: Runtime,
}

/// An adapter at work. Dropped, it ends what it runs, and its thread ends.
pub(super) struct Worker {
    orders: Sender<Order>,
    stop: Arc<Stop>,
    look: Arc<Mutex<Look>>,
    thread: JoinHandle<()>,
}

impl Worker {
    /// Starts the thread.
    pub(super) fn start(
        service: Name,
        adapter: Box<dyn Adapter>,
        around: Surroundings,
    ) -> std::io::Result<Self> {
        let (orders, receiver) = channel();
        let (stop, look) = (Arc::new(Stop::new()?), Arc::<Mutex<Look>>::default());
        let named = format!("adapter {service}");
        let (stopped, seen) = (Arc::clone(&stop), Arc::clone(&look));
        let work = Work { service, adapter, around, stop: stopped, look: seen };
        let thread = thread::Builder::new().name(named).spawn(move || work.run(&receiver))?;
        Ok(Self { orders, stop, look, thread })
    }

    pub(super) fn look(&self) -> Look {
        hold(&self.look).clone()
    }

    /// Has it do something, after what it is doing.
    pub(super) fn order(&self, act: Act) -> oneshot::Receiver<Result<(), AdapterError>> {
        let (answer, outcome) = oneshot::channel();
        // If the thread is gone, the answer is dropped, and whoever waits learns that.
        drop(self.orders.send(Order(act, answer)));
        outcome
    }

    /// Asks it to end; what is joined then ends soon.
    pub(super) fn end(self) -> JoinHandle<()> {
        self.stop.ask();
        self.thread
    }
}

/// What the thread works with.
struct Work {
    service: Name,
    adapter: Box<dyn Adapter>,
    around: Surroundings,
    stop: Arc<Stop>,
    look: Arc<Mutex<Look>>,
}

impl Work {
    fn run(self, orders: &Receiver<Order>) {
        let mut due = Instant::now();
        loop {
            match orders.recv_timeout(due.saturating_duration_since(Instant::now())) {
                Ok(Order(act, answer)) => {
                    let done = self.act(act);
                    // So that whoever waits finds it as it is now.
                    self.sense();
                    drop(answer.send(done));
                }
                Err(RecvTimeoutError::Timeout) => self.sense(),
                Err(RecvTimeoutError::Disconnected) => return,
            }
            if self.stop.is_asked() {
                return;
            }
            due = Instant::now() + self.adapter.every();
        }
    }

    fn act(&self, act: Act) -> Result<(), AdapterError> {
        if !self.adapter.can(act) {
            return Err(AdapterError::Unable(act.word()));
        }
        let found = match act {
            Act::Start => Found::Starting,
            Act::Stop => Found::Shutdown,
        };
        // Should that not be taken, so be it: what is found afterwards counts.
        drop(self.report(Sensed::found(found, None)));
        caught(|| match act {
            Act::Start => self.adapter.start(&self.stop),
            Act::Stop => self.adapter.stop(&self.stop),
        })
    }

    fn report(&self, sensed: Sensed) -> Result<(), HostError> {
        let Sensed { found: seen, kpis, busy, members, .. } = sensed;
        let (handle, runtime) = (&self.around.handle, &self.around.runtime);
        let busy = match busy.is_empty() {
            true => BTreeMap::new(),
            false => runtime.block_on(handle.query(move |actor| marked(actor, &busy)))?,
        };
        let service = self.service.clone();
        let report = ServiceCommand::Report { service, kpis, seen, busy, members };
        runtime.block_on(handle.command(GuestCommand::Service(report))).map(drop)
    }

    /// Looks, and reports what was seen.
    fn sense(&self) {
        let sensed = caught(|| self.adapter.sense(&self.stop));
        // What it was looked at for is over.
        if self.stop.is_asked() {
            return;
        }
        let error = match sensed {
            Ok(sensed) => {
                let why = sensed.why.clone();
                if why.is_some() {
                    // Before anybody can see that it has failed.
                    self.note(why.clone());
                }
                let reported = self.report(sensed).err();
                why.or(reported.map(|error| format!("what was seen is not taken: {error}")))
            }
            Err(error) => Some(error.to_string()),
        };
        self.note(error);
    }

    /// Notes how the last look went, and says so when that changes.
    fn note(&self, error: Option<String>) {
        let at = Some(self.around.clock.now());
        let mut look = hold(&self.look);
        if look.error != error {
            let of = &self.around.handle.info().name;
            match &error {
                Some(error) => warn!("service {} of {of}: {error}", self.service),
                None => info!("service {} of {of} is looked at again", self.service),
            }
        }
        *look = Look { at, error };
    }
}

/// The units of a service manager that have these marks, with what is said of each.
fn marked(actor: &AnyActor, marks: &BTreeMap<String, u64>) -> BTreeMap<SiteUnit, u64> {
    let AnyActor::ServiceManager(guest) = actor else { return BTreeMap::new() };
    let marked = guest.joined_units().filter_map(|joined: JoinedUnit| {
        let key = Key { site: joined.site, unit: joined.unit };
        let work = marks.get(&key.mark(joined.epoch))?;
        Some(((joined.site, joined.unit), *work))
    });
    marked.collect()
}

/// What a call answers; one that panics has failed.
fn caught<T>(call: impl FnOnce() -> Result<T, AdapterError>) -> Result<T, AdapterError> {
    let panicked = |_| Err(AdapterError::Failed("the adapter panicked".to_owned()));
    catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(panicked)
}
