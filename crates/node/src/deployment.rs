//! Deployments: which actors this process runs, started, watched and stopped together.
//!
//! Where the settings come from is up to the caller: a [`Deployment`] is made of what is already
//! built. Start one inside a running `actix::System`.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::sync::Arc;

use actix::Arbiter;
use tenure_core::actor::Role;
use tenure_core::model::name::Name;
use thiserror::Error;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::adapter::Adapters;
use crate::clock::Clock;
use crate::host::{ActorInfo, Conditions, Handle, Host, HostFailure, Limits, Part, Surroundings};
use crate::journal::{Disk, JournalError, SystemDisk};
use crate::metrics::Metrics;
use crate::net::{Network, NetworkError, NetworkSettings};
use crate::transport::{Exchange, Line, Transport};

/// Actors that run in one process.
pub struct Deployment {
    /// The actors. Each has its name for itself among those of its role.
    pub parts: Vec<Part>,
    /// The clock that all of them read.
    pub clock: Arc<dyn Clock>,
    /// On how many threads they work, at most one for each, beside those for journals, mappers and drivers.
    pub threads: NonZeroUsize,
    /// How much each host takes.
    pub limits: Limits,
    /// The actors elsewhere, and how they are reached; none if all are in this process.
    pub network: Option<NetworkSettings>,
}

/// Why a deployment did not start, or does not continue.
#[derive(Debug, Error)]
#[error("{} `{}`: {cause}", info.role, info.name)]
pub struct Down {
    /// Which actor it is.
    pub info: ActorInfo,
    /// Why it cannot work.
    pub cause: HostFailure,
}

/// Why a deployment did not start.
#[derive(Debug, Error)]
pub enum StartError {
    /// An actor cannot work.
    #[error(transparent)]
    Down(#[from] Down),
    /// The actors elsewhere cannot be reached.
    #[error(transparent)]
    Network(#[from] NetworkError),
}

/// Why a deployment did not stop in good order. Nothing acknowledged is lost.
#[derive(Debug, Error)]
#[error("{} `{}`: {cause}", info.role, info.name)]
pub struct BadStop {
    /// Which actor it is.
    pub info: ActorInfo,
    /// What its journal says.
    pub cause: Arc<JournalError>,
}

/// A deployment at work.
pub struct Running {
    network: Option<Network>,
    handles: BTreeMap<(Role, Name), Handle>,
    threads: Vec<Arbiter>,
    metrics: Metrics,
    /// Of each service manager, by name.
    adapters: BTreeMap<Name, Arc<Adapters>>,
    /// What follows the services that the adapters are for.
    followers: JoinSet<()>,
    given_up: mpsc::UnboundedReceiver<(ActorInfo, HostFailure)>,
}

impl Deployment {
    /// Starts every actor, each from its journal.
    ///
    /// # Errors
    /// The first actor that cannot start; the others are stopped again.
    pub async fn start(self) -> Result<Running, StartError> {
        self.start_on(Arc::new(SystemDisk)).await
    }

    /// As [`start`](Self::start), with the journals on a disk of the caller's.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub async fn start_on(self, disk: Arc<dyn Disk + Sync>) -> Result<Running, StartError> {
        let exchange = Exchange::new();
        let network = self.network.as_ref();
        let network = network
            .map(|settings| Network::start(settings, (exchange.clone(), Arc::clone(&self.clock))));
        let network = network.transpose()?;
        let transport: Arc<dyn Transport> = match &network {
            Some(network) => Arc::new(network.clone()),
            None => Arc::new(exchange.clone()),
        };
        let (sender, given_up) = mpsc::unbounded_channel();
        let refused = network.as_ref().map(Network::refused).unwrap_or_default();
        let metrics = Metrics::new(&refused);
        let around = Surroundings {
            limits: self.limits,
            clock: Arc::clone(&self.clock),
            transport,
            metrics: metrics.clone(),
            disk,
            given_up: sender,
        };
        let threads: Vec<Arbiter> =
            (0..self.threads.get().min(self.parts.len())).map(|_| Arbiter::new()).collect();
        let mut running = Running {
            network,
            handles: BTreeMap::new(),
            threads,
            metrics,
            adapters: BTreeMap::new(),
            followers: JoinSet::new(),
            given_up,
        };
        let mut starting = Vec::new();
        for (index, part) in self.parts.into_iter().enumerate() {
            let (info, conditions) = (part.info.clone(), Conditions::default());
            running.adapters.extend(part.adapters.clone().map(|all| (info.name.clone(), all)));
            let thread = &running.threads[index % running.threads.len()];
            let (host, ready) =
                Host::start_on(&thread.handle(), part, around.clone(), conditions.clone());
            let line =
                Line { packets: host.clone().recipient(), greetings: host.clone().recipient() };
            exchange.connect(info.id, line);
            let handle = Handle::new(info.clone(), host, conditions);
            running.handles.insert((info.role, info.name.clone()), handle);
            starting.push((info, ready));
        }
        for (info, ready) in starting {
            if let Ok(Err(cause)) = ready.await {
                drop(running.stop().await);
                return Err(Down { info, cause }.into());
            }
        }
        running.follow_services(&self.clock);
        Ok(running)
    }
}

impl Running {
    /// The actor of that role and name.
    pub fn handle(&self, role: Role, name: &Name) -> Option<&Handle> {
        self.handles.get(&(role, name.clone()))
    }

    /// All actors, by role and name.
    pub fn handles(&self) -> impl Iterator<Item = &Handle> {
        self.handles.values()
    }

    /// The connections with actors elsewhere, if there are any.
    pub fn network(&self) -> Option<&Network> {
        self.network.as_ref()
    }

    /// The adapters of the services of a service manager.
    pub(crate) fn adapters(&self, name: &Name) -> Option<&Arc<Adapters>> {
        self.adapters.get(name)
    }

    fn follow_services(&mut self, clock: &Arc<dyn Clock>) {
        for (name, adapters) in &self.adapters {
            if let Some(handle) = self.handles.get(&(Role::ServiceManager, name.clone())) {
                let follows = Arc::clone(adapters).follow(handle.clone(), Arc::clone(clock));
                self.followers.spawn_local(follows);
            }
        }
    }

    /// What is counted.
    pub fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// Waits until an actor has given up for good. The others continue.
    pub async fn down(&mut self) -> Down {
        match self.given_up.recv().await {
            Some((info, cause)) => Down { info, cause },
            None => std::future::pending().await,
        }
    }

    /// Stops all actors in good order: what they have decided is durable, their journals are closed, their
    /// leases stay as they are.
    ///
    /// # Errors
    /// The first journal that cannot be closed.
    pub async fn stop(mut self) -> Result<(), BadStop> {
        let mut stopped = Ok(());
        self.followers.shutdown().await;
        for adapters in self.adapters.values() {
            adapters.stop().await;
        }
        for handle in self.handles.values() {
            if let Err(cause) = handle.stop().await {
                let info = handle.info().clone();
                stopped = stopped.and(Err(BadStop { info, cause }));
            }
        }
        stopped
    }
}

impl Drop for Running {
    /// Lets everything go as it is, as a crash would: what was decided and not synced may be lost, nothing
    /// of it has left.
    fn drop(&mut self) {
        for thread in self.threads.drain(..) {
            thread.stop();
            drop(thread.join());
        }
    }
}
