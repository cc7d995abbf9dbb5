//! The adapters of the services of one service manager: which there are, at work.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use tenure_core::driver::DriverError;
use tenure_core::model::name::Name;
use tenure_core::runtime::{AnyActor, Fact};
use tenure_core::service::adapter::Adapter as Spec;
use tenure_core::service_manager::facts::Fact as GuestFact;
use tokio::runtime::Handle as Runtime;
use tracing::warn;

use super::AdapterError;
use super::pool;
use super::registry::{self, Place};
use super::worker::{Act, Look, Surroundings, Worker};
use crate::clock::Clock;
use crate::driver::fence::hold;
use crate::host::{Handle, HostError};

/// How long a step of a unit waits for the services to be read after a start.
const READ_WITHIN: Duration = Duration::from_secs(60);

/// The pause after which an actor that went down is asked again.
const PAUSE: Duration = Duration::from_secs(1);

/// How long a user waits for an act: less than a client waits for an answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(45);

/// The adapters of one service manager.
pub struct Adapters {
    home: PathBuf,
    /// By service; none before they have been read.
    services: Mutex<Option<BTreeMap<Name, Service>>>,
    read: Condvar,
    /// Held while they are read, so that what is set is never older than what was set before.
    turn: tokio::sync::Mutex<()>,
}

/// A service with an adapter.
struct Service {
    spec: Spec,
    joins: bool,
    /// At work; or why it is not.
    worker: Result<Worker, String>,
}

impl Adapters {
    /// Those whose folder this is.
    pub(crate) fn new(home: PathBuf) -> Self {
        let services = Mutex::new(None);
        Self { home, services, read: Condvar::new(), turn: tokio::sync::Mutex::default() }
    }

    pub(super) fn home(&self) -> &Path {
        &self.home
    }

    /// Runs the adapters of an actor's services, and follows their definitions, until its host stops.
    pub(crate) async fn follow(self: Arc<Self>, handle: Handle, clock: Arc<dyn Clock>) {
        let around = Surroundings { handle, clock, runtime: Runtime::current() };
        while !matches!(self.follow_run(&around).await, Err(HostError::Stopped(_))) {
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// As [`follow`](Self::follow), until the actor goes down.
    async fn follow_run(&self, around: &Surroundings) -> Result<(), HostError> {
        let mut facts = around.handle.facts().await?.facts;
        self.refresh(around).await?;
        while let Some((_, entry)) = facts.recv().await {
            if is_about_definitions(&entry.fact) {
                self.refresh(around).await?;
            }
        }
        Ok(())
    }

    /// Takes in at once what a user has defined.
    pub(crate) async fn take_in(
        &self,
        handle: Handle,
        clock: Arc<dyn Clock>,
    ) -> Result<(), HostError> {
        self.refresh(&Surroundings { handle, clock, runtime: Runtime::current() }).await
    }

    /// As if these services had been read, whose adapters do not work.
    #[cfg(test)]
    pub(super) fn set(&self, specs: BTreeMap<Name, Spec>) {
        let service = |(name, spec): (Name, Spec)| {
            let place = Place { home: &self.home, service: name.as_str() };
            let joins = registry::open(&spec, place).is_ok_and(|adapter| adapter.joins());
            (name, Service { spec, joins, worker: Err("it does not work".to_owned()) })
        };
        *hold(&self.services) = Some(specs.into_iter().map(service).collect());
        self.read.notify_all();
    }

    /// Reads which services there are.
    async fn refresh(&self, around: &Surroundings) -> Result<(), HostError> {
        let _turn = self.turn.lock().await;
        let specs = around.handle.query(specs).await?;
        let mut services = hold(&self.services);
        let mut before = services.take().unwrap_or_default();
        for name in before.keys().filter(|name| !specs.contains_key(*name)) {
            pool::forget(&self.home, name.as_str());
        }
        let now = specs.into_iter().map(|(name, spec)| {
            let same = before.remove(&name).filter(|service| service.spec == spec);
            let service = same.unwrap_or_else(|| self.begin(&name, spec, around));
            (name, service)
        });
        *services = Some(now.collect());
        drop(services);
        self.read.notify_all();
        for service in before.into_values() {
            service.end();
        }
        Ok(())
    }

    fn begin(&self, name: &Name, spec: Spec, around: &Surroundings) -> Service {
        let place = Place { home: &self.home, service: name.as_str() };
        let opened = registry::open(&spec, place).map_err(|bad| bad.to_string());
        let joins = opened.as_ref().is_ok_and(|adapter| adapter.joins());
        let worker = opened.and_then(|adapter| {
            let started = Worker::start(name.clone(), adapter, around.clone());
            started.map_err(|error| error.to_string())
        });
        if let Err(why) = &worker {
            warn!("service {name} of {}: {why}", around.handle.info().name);
        }
        Service { spec, joins, worker }
    }

    /// The adapter by which units of a slice join, if there is one. Right after a start it waits until that is known.
    pub(super) fn joining(&self, slice: &Name) -> Result<Option<Spec>, DriverError> {
        let services = hold(&self.services);
        let (services, _) = self
            .read
            .wait_timeout_while(services, READ_WITHIN, |services| services.is_none())
            .unwrap_or_else(PoisonError::into_inner);
        let unknown = || DriverError::untouched("the services are not known yet");
        let service = services.as_ref().ok_or_else(unknown)?.get(slice);
        Ok(service.filter(|service| service.joins).map(|service| service.spec.clone()))
    }

    /// How the adapter of a service last looked at its software.
    pub(crate) fn look(&self, service: &Name) -> Option<Look> {
        let services = hold(&self.services);
        Some(match &services.as_ref()?.get(service)?.worker {
            Ok(worker) => worker.look(),
            Err(why) => Look { at: None, error: Some(why.clone()) },
        })
    }

    /// Has the adapter of a service do something; answers when it is done.
    pub(crate) async fn act(&self, service: &Name, act: Act) -> Result<(), AdapterError> {
        let failed = |why: &str| AdapterError::Failed(why.to_owned());
        let outcome = {
            let services = hold(&self.services);
            let known = services.as_ref().and_then(|services| services.get(service));
            let known = known.ok_or_else(|| failed("it has no adapter"))?;
            known.worker.as_ref().map_err(|why| failed(why))?.order(act)
        };
        match tokio::time::timeout(ANSWER_WITHIN, outcome).await {
            Ok(Ok(done)) => done,
            Ok(Err(_)) => Err(failed("its adapter has ended")),
            Err(_) => Err(failed("its adapter is still at work on it")),
        }
    }

    /// Ends all adapters, with what they run. Which units join by them is known still.
    pub(crate) async fn stop(&self) {
        let mut ending = Vec::new();
        for service in hold(&self.services).iter_mut().flat_map(BTreeMap::values_mut) {
            let gone = Err("it has stopped".to_owned());
            ending.extend(std::mem::replace(&mut service.worker, gone).ok().map(Worker::end));
        }
        let ended = tokio::task::spawn_blocking(|| {
            ending.into_iter().for_each(|thread| drop(thread.join()));
        });
        drop(ended.await);
    }
}

impl Service {
    /// Ends its thread, which nobody waits for.
    fn end(self) {
        drop(self.worker.map(Worker::end));
    }
}

/// The adapters that services have, by service.
fn specs(actor: &AnyActor) -> BTreeMap<Name, Spec> {
    match actor {
        AnyActor::ServiceManager(guest) => {
            let services = guest.services().into_iter().map(|view| view.service);
            let spec = |name: Name| {
                let spec = guest.service(&name)?.definition.adapter()?;
                Some((name, spec))
            };
            services.filter_map(spec).collect()
        }
        AnyActor::Broker(_) | AnyActor::SiteAuthority(_) => BTreeMap::new(),
    }
}

fn is_about_definitions(fact: &Fact) -> bool {
    matches!(
        fact,
        Fact::ServiceManager(GuestFact::ServiceDefined(_) | GuestFact::ServiceRemoved(_))
    )
}
