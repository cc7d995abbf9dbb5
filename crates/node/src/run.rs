//! A deployment from start to stop: actors, generated demand, the control API, signals.

mod serving;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use std::{fs, io, process};

use nix::unistd::Gid;
use tenure_core::actor::Role;
use tenure_core::runtime::AnyActor;
use thiserror::Error;
use tracing::{info, warn};

use self::serving::{Next, Serving, Stops};
use crate::api::passing::Clients;
use crate::api::{AppState, Code};
use crate::clock::Clock;
use crate::config::{AssemblyError, Config, Demand};
use crate::deployment::{BadStop, Deployment, Down, Running, StartError};
use crate::exposition::{self, ExpositionError};
use crate::folder;
use crate::host::{Handle, HostFailure};
use crate::lock::{Holder, Lock, LockError};
use crate::net::{Listen, Network, NetworkError};
use crate::systemd::{self, HandoverError};
use crate::takeover::{self, Handover, Inherited, Peers, ServedApi, Successor, TakeoverError};

/// The name of the socket within the data folder.
pub const SOCKET: &str = "tenure.sock";

/// How often, and how many times, brokers are looked at before commands are taken.
const LOOK: Duration = Duration::from_millis(20);
const MOST_LOOKS: u32 = 250;

/// Why a deployment did not run, or does not continue.
#[derive(Debug, Error)]
pub enum RunError {
    /// It cannot be built.
    #[error(transparent)]
    Assembly(#[from] AssemblyError),
    /// An actor does not start, or has given up.
    #[error(transparent)]
    Down(Box<Down>),
    /// The actors elsewhere cannot be reached.
    #[error(transparent)]
    Network(NetworkError),
    /// A journal was not closed in good order.
    #[error(transparent)]
    Stop(Box<BadStop>),
    /// The socket cannot be opened.
    #[error("the socket {}: {cause}", .path.display())]
    Socket {
        /// The socket.
        path: PathBuf,
        /// What the system says.
        cause: io::Error,
    },
    /// The running deployment was not taken over.
    #[error(transparent)]
    Takeover(#[from] TakeoverError),
    /// What systemd handed over cannot be used.
    #[error(transparent)]
    Handover(#[from] HandoverError),
    /// Figures cannot be served.
    #[error(transparent)]
    Exposition(#[from] ExpositionError),
    /// Another process runs on the same data.
    #[error("{} is in use by {holder}", .data.display())]
    InUse {
        /// The data folder.
        data: PathBuf,
        /// Who has it.
        holder: Holder,
    },
    /// The data folder cannot be used.
    #[error("the data folder {}: {cause}", .data.display())]
    Folder {
        /// The data folder.
        data: PathBuf,
        /// What the system says.
        cause: io::Error,
    },
    /// Signal handlers cannot be installed.
    #[error("signal handlers cannot be installed: {0}")]
    Signals(io::Error),
}

impl RunError {
    /// Whether a running deployment took too long to hand over.
    pub fn is_late(&self) -> bool {
        matches!(self, Self::Takeover(TakeoverError::TimedOut(_)))
    }

    /// Whether this user may not take over.
    pub fn is_denied(&self) -> bool {
        matches!(self, Self::Takeover(TakeoverError::Refused(no)) if no.code == Code::Denied)
    }

    /// What to do about it.
    pub fn help(&self) -> Option<String> {
        match self {
            Self::Socket { path, .. } if path.as_os_str().len() > 100 => Some(
                "choose a data folder with a shorter path: a socket's is at most 107 bytes"
                    .to_owned(),
            ),
            Self::Down(down) => match &down.cause {
                HostFailure::Journal(error) => Some(error.help().to_owned()),
                HostFailure::NoSecret { .. } => Some(
                    "an actor's later keys are beside its first, in `keys/NAME.2` and so on; each must be kept"
                        .to_owned(),
                ),
                HostFailure::NameOfTwo { .. } => Some(
                    "give the one of the configuration another name; `tenure peer list` then shows both"
                        .to_owned(),
                ),
                HostFailure::RolledBack { .. } => Some(
                    "an actor must not continue from a part of its past; where the newest journal is \
                     lost for good, give the actor a new key and so a new name to its peers"
                        .to_owned(),
                ),
                HostFailure::Append(_)
                | HostFailure::Custody(_)
                | HostFailure::Mapper(_)
                | HostFailure::Panic(_) => None,
            },
            Self::InUse { .. } => {
                Some("stop that process first, or choose another folder with `--data`".to_owned())
            }
            Self::Assembly(AssemblyError::Journal(error)) => Some(error.help().to_owned()),
            Self::Network(NetworkError::Listen { .. }) => Some(
                "set `listen` to an address of this machine that no other program has".to_owned(),
            ),
            Self::Takeover(error) => error.help(),
            Self::Handover(_) => Some(
                "tenure.socket has one `ListenStream`, a TCP port, and `listen` is that one or left out"
                    .to_owned(),
            ),
            Self::Exposition(_) => Some(
                "set `metrics` to a port of this machine that no other program has".to_owned(),
            ),
            Self::Folder { .. }
            | Self::Network(_)
            | Self::Assembly(_)
            | Self::Stop(_)
            | Self::Socket { .. }
            | Self::Signals(_) => None,
        }
    }
}

impl From<StartError> for RunError {
    fn from(error: StartError) -> Self {
        match error {
            StartError::Down(down) => down.into(),
            StartError::Network(error) => Self::Network(error),
        }
    }
}

impl From<Down> for RunError {
    fn from(down: Down) -> Self {
        Self::Down(Box::new(down))
    }
}

impl From<BadStop> for RunError {
    fn from(stop: BadStop) -> Self {
        Self::Stop(Box::new(stop))
    }
}

/// How a process ends its work.
enum Ended {
    /// For good.
    Stopped,
    /// For another process to go on.
    HandingOver(Successor, Handover, Option<Peers>),
}

/// Runs a deployment that keeps its data in the folder `data`, until the process is stopped by
/// SIGTERM or SIGINT; leases stay, and the next start takes them up where they were. `ready` is called
/// once commands are taken.
///
/// With `takeover` a process that runs on this data already is replaced, if it hands over within that time; otherwise
/// it goes on. This returns also when this process is replaced itself, which must end then.
///
/// # Errors
/// See [`RunError`]. An actor that gives up leaves the others at work; the last one ends the run.
pub fn run(
    config: &Config,
    data: &Path,
    takeover: Option<Duration>,
    ready: impl FnOnce(),
) -> Result<(), RunError> {
    let own = systemd::inherited()?.map(|socket| Peers { socket, from_systemd: true });
    let mut inherited = Inherited { peers: own, handover: None };
    if let Some(within) = takeover {
        config.check()?;
        config.admit(data)?;
        let taken = takeover::ask(data, config.listen, within)?.unwrap_or_default();
        let peers = inherited.peers.or(taken.peers);
        inherited = Inherited { peers, handover: taken.handover };
    }
    let mut ready = Some(ready);
    loop {
        let told = || ready.take().into_iter().for_each(|ready| ready());
        match actix::System::new().block_on(live(config, data, inherited, told))? {
            Ended::Stopped => return Ok(()),
            Ended::HandingOver(successor, handover, peers) => {
                let given = takeover::give(successor, &handover, peers.as_ref());
                let Err(error) = given else { return Ok(()) };
                warn!("this process goes on, since the other one has not taken over: {error}");
                inherited = Inherited { peers, handover: Some(handover) };
            }
        }
    }
}

async fn live(
    config: &Config,
    data: &Path,
    Inherited { peers, handover }: Inherited,
    ready: impl FnOnce(),
) -> Result<Ended, RunError> {
    let mut stops = Stops::new().map_err(RunError::Signals)?;
    let group = config.admitted_group()?;
    folder::open(data, group).map_err(|cause| in_folder(data, cause))?;
    let (lock, served) = match handover {
        Some(Handover { lock, api }) => (lock, Some(api)),
        None => (lock(data)?, None),
    };
    config.admit(data)?;
    let mut deployment = config.assemble(data)?;
    let from_systemd = peers.as_ref().is_some_and(|peers| peers.from_systemd);
    listen_on(&mut deployment, (config, peers))?;
    let clock = Arc::clone(&deployment.clock);
    let mut running = deployment.start().await?;
    let begun = begin(config, (data, group), (&running, &clock), served).await;
    let mut serving = match begun {
        Ok(serving) => serving,
        Err(error) => {
            running.stop().await?;
            return Err(error);
        }
    };
    delegated(&running).await;
    info!(pid = process::id(), socket = %data.join(SOCKET).display(), "ready");
    ready();
    systemd::ready();
    let actors = running.handles().cloned().collect();
    let reported = actix::spawn(systemd::report(actors, running.network().cloned()));
    let next = serving.until_end(&mut running, &mut stops).await;
    reported.abort();
    match next {
        Next::Stop(down) => stop(data, running, down).await.map(|()| Ended::Stopped),
        Next::HandOver(successor, clients) => {
            let since = Instant::now();
            let peers = socket_for_peers(&running, from_systemd);
            if let Err(bad) = running.stop().await {
                // As after a crash, a start needs no more than what is durable.
                warn!("{bad}; the other process recovers it");
            }
            let (socket, pid) = (serving.into_socket(), process::id());
            let handover = Handover { lock, api: ServedApi { socket, clients, since, pid } };
            Ok(Ended::HandingOver(successor, handover, peers))
        }
    }
}

/// Begins to serve, to begin with the clients that another process has left.
async fn begin(
    config: &Config,
    (data, group): (&Path, Option<Gid>),
    (running, clock): (&Running, &Arc<dyn Clock>),
    served: Option<ServedApi>,
) -> Result<Serving, RunError> {
    // Only now: until the actors have journaled what changed, the next start has to know what was before.
    config.keep(data).map_err(|cause| in_folder(data, cause))?;
    let exposition = exposition::listen(config.metrics).await?;
    let path = data.join(SOCKET);
    let in_socket = |cause| RunError::Socket { path: path.clone(), cause };
    let (socket, clients, before) = match served {
        Some(ServedApi { socket, clients, since, pid }) => {
            serving::admit(&path, group).map_err(in_socket)?;
            (socket, clients, Some((since, pid)))
        }
        None => (serving::listen(&path, group).map_err(in_socket)?, Clients::default(), None),
    };
    if let Some(exposition) = exposition {
        info!(address = %exposition.address(), "metrics are served");
        actix::spawn(exposition.serve(running.metrics().clone()));
    }
    begin_demands(config, running, clock).await;
    let app = AppState::new(running, config.clone(), data.to_owned(), Arc::clone(clock));
    let serving = Serving::start(app.admitting(group), socket, clients).map_err(in_socket)?;
    if let Some((since, from)) = before {
        let downtime_ms = since.elapsed().as_millis();
        match from == process::id() {
            true => info!(downtime_ms, "goes on, as it was not taken over"),
            false => info!(from, downtime_ms, "took over"),
        }
    }
    Ok(serving)
}

async fn begin_demands(config: &Config, running: &Running, clock: &Arc<dyn Clock>) {
    for (name, manager) in &config.service_managers {
        let handle = running.handle(Role::ServiceManager, name);
        let Some(handle) = handle else { continue };
        manager.define_services(handle).await;
        if let Some(demand) = manager.demand.clone() {
            actix::spawn(follow(handle.clone(), demand, Arc::clone(clock)));
        }
    }
}

/// Stops everything for good.
async fn stop(data: &Path, running: Running, down: Option<Down>) -> Result<(), RunError> {
    systemd::stopping();
    drop(fs::remove_file(data.join(SOCKET)));
    let stopped = running.stop().await;
    match down {
        Some(down) => Err(down.into()),
        None => Ok(stopped?),
    }
}

/// Has connections taken from the socket that was handed over, if one was.
fn listen_on(
    deployment: &mut Deployment,
    (config, peers): (&Config, Option<Peers>),
) -> Result<(), RunError> {
    let Some(Peers { socket, from_systemd }) = peers else { return Ok(()) };
    if from_systemd {
        systemd::check_address(&socket, config.listen)?;
    }
    match &mut deployment.network {
        Some(network) => {
            info!("peers are taken from the socket that was handed over");
            network.listen = Some(Listen::On(Arc::new(socket)));
        }
        None => warn!("the socket that was handed over is not used: there are no peers"),
    }
    Ok(())
}

/// The socket for peers, for another process.
fn socket_for_peers(running: &Running, from_systemd: bool) -> Option<Peers> {
    let listener = running.network().and_then(Network::listener)?;
    let cloned = listener.try_clone();
    let failed = |error: &io::Error| warn!("the socket for peers is opened again: {error}");
    Some(Peers { socket: cloned.inspect_err(failed).ok()?, from_systemd })
}

/// Keeps other processes away from a data folder.
fn lock(data: &Path) -> Result<Lock, RunError> {
    Lock::take(&data.join("lock")).map_err(|error| match error {
        LockError::Held(holder) => RunError::InUse { data: data.to_owned(), holder },
        LockError::System(cause) => in_folder(data, cause),
    })
}

fn in_folder(data: &Path, cause: io::Error) -> RunError {
    RunError::Folder { data: data.to_owned(), cause }
}

/// Waits a while until the brokers hold what the sites delegate: after the very first start, or one that
/// brought units, a request could come before, and find no units.
async fn delegated(running: &Running) {
    for _ in 0..MOST_LOOKS {
        let mut settled = true;
        for handle in running.handles() {
            let site = handle.query(|actor| match actor {
                AnyActor::SiteAuthority(actor) => actor.is_settled(),
                AnyActor::Broker(_) | AnyActor::ServiceManager(_) => true,
            });
            settled &= site.await.unwrap_or_default();
        }
        if settled {
            return;
        }
        tokio::time::sleep(LOOK).await;
    }
    warn!("the brokers do not hold everything yet that the sites delegate");
}

/// Feeds a synthetic demand to a service manager.
async fn follow(handle: Handle, demand: Demand, clock: Arc<dyn Clock>) {
    for value in demand.values.iter().cycle() {
        if let Err(error) = handle.observe(demand.signal.clone(), *value).await {
            warn!("the demand of {}: {error}", handle.info().name);
        }
        tokio::time::sleep(clock.outside(demand.every)).await;
    }
}
