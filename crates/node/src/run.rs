//! A deployment from start to stop: actors, generated demand, the control API, signals.

use std::io;
use std::net::TcpListener;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use std::{fs, process};

use nix::unistd::Gid;
use tenure_core::runtime::AnyActor;
use thiserror::Error;
use tokio::net::UnixListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinSet;
use tracing::{error, info, warn};

use crate::api::{self, AppState};
use crate::clock::Clock;
use crate::config::{AssemblyError, Config, Demand};
use crate::deployment::{BadStop, Deployment, Down, Running, StartError};
use crate::exposition::{self, ExpositionError};
use crate::folder;
use crate::host::{Handle, HostFailure};
use crate::lock::{Holder, Lock, LockError};
use crate::net::{Listen, NetworkError};
use crate::systemd::{self, HandoverError};

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

/// Runs a deployment that keeps its data in the folder `data`, until the process is stopped by
/// SIGTERM or SIGINT; leases stay, and the next start takes them up where they were. `ready` is called
/// once commands are taken.
///
/// # Errors
/// See [`RunError`]. An actor that gives up leaves the others at work; the last one ends the run.
pub fn run(config: &Config, data: &Path, ready: impl FnOnce()) -> Result<(), RunError> {
    let inherited = systemd::inherited()?;
    actix::System::new().block_on(live(config, (data, inherited), ready))
}

async fn live(
    config: &Config,
    (data, inherited): (&Path, Option<TcpListener>),
    ready: impl FnOnce(),
) -> Result<(), RunError> {
    let mut terminate = signal(SignalKind::terminate()).map_err(RunError::Signals)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(RunError::Signals)?;
    let group = config.admitted_group()?;
    let _lock = lock(data, group)?;
    config.admit(data)?;
    let mut deployment = config.assemble(data)?;
    listen_on(&mut deployment, (config, inherited))?;
    let clock = Arc::clone(&deployment.clock);
    let mut running = deployment.start().await?;
    // Only now: until the actors have journaled what changed, the next start has to know what was before.
    if let Err(cause) = config.keep(data) {
        running.stop().await?;
        return Err(RunError::Folder { data: data.to_owned(), cause });
    }
    let socket = data.join(SOCKET);
    let opened = match (listen(&socket, group), exposition::listen(config.metrics).await) {
        (Ok(listener), Ok(exposition)) => Ok((listener, exposition)),
        (Err(cause), _) => Err(RunError::Socket { path: socket.clone(), cause }),
        (_, Err(cause)) => Err(cause.into()),
    };
    let (listener, exposition) = match opened {
        Ok(opened) => opened,
        Err(error) => {
            running.stop().await?;
            return Err(error);
        }
    };
    for (name, manager) in &config.service_managers {
        let handle = running.handles().find(|handle| handle.info().name == *name);
        if let Some(handle) = handle {
            manager.define_services(handle).await;
        }
        if let (Some(demand), Some(handle)) = (manager.demand.clone(), handle) {
            actix::spawn(follow(handle.clone(), demand, Arc::clone(&clock)));
        }
    }
    if let Some(exposition) = exposition {
        info!(address = %exposition.address(), "metrics are served");
        actix::spawn(exposition.serve(running.metrics().clone()));
    }
    let app = AppState::new(&running, config.clone(), data.to_owned(), clock).admitting(group);
    let served = actix::spawn(serve(listener, Rc::new(app)));
    delegated(&running).await;
    info!(pid = process::id(), socket = %socket.display(), "ready");
    ready();
    systemd::ready();
    let actors = running.handles().cloned().collect();
    let reported = actix::spawn(systemd::report(actors, running.network().cloned()));
    let down = tokio::select! {
        _ = terminate.recv() => None,
        _ = interrupt.recv() => None,
        down = all_down(&mut running) => Some(down),
    };
    systemd::stopping();
    reported.abort();
    served.abort();
    drop(fs::remove_file(&socket));
    let stopped = running.stop().await;
    match down {
        Some(down) => Err(down.into()),
        None => Ok(stopped?),
    }
}

/// Has connections taken from the socket that was handed over, if one was.
fn listen_on(
    deployment: &mut Deployment,
    (config, inherited): (&Config, Option<TcpListener>),
) -> Result<(), RunError> {
    let Some(socket) = inherited else { return Ok(()) };
    systemd::check_address(&socket, config.listen)?;
    match &mut deployment.network {
        Some(network) => {
            info!("peers are taken from the socket that was handed over");
            network.listen = Some(Listen::On(Arc::new(socket)));
        }
        None => warn!("the socket that was handed over is not used: there are no peers"),
    }
    Ok(())
}

/// Waits until every actor has given up; one that does takes no other with it.
async fn all_down(running: &mut Running) -> Down {
    let mut left = running.handles().count();
    loop {
        let down = running.down().await;
        left = left.saturating_sub(1);
        if left == 0 {
            return down;
        }
        error!("{down}; the other actors go on");
    }
}

/// Keeps other users and processes away from a data folder, which is made if it is not there.
fn lock(data: &Path, group: Option<Gid>) -> Result<Lock, RunError> {
    let failed = |cause| RunError::Folder { data: data.to_owned(), cause };
    folder::open(data, group).map_err(failed)?;
    Lock::take(&data.join("lock")).map_err(|error| match error {
        LockError::Held(holder) => RunError::InUse { data: data.to_owned(), holder },
        LockError::System(cause) => failed(cause),
    })
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

/// Serves the control API until aborted; restarts the server when it ends.
async fn serve(listener: UnixListener, app: Rc<AppState>) {
    let listener = Rc::new(listener);
    loop {
        let limits = api::Limits::default();
        let server = api::serve(Rc::clone(&listener), Rc::clone(&app), limits);
        // Aborted with this task, and else by a panic only.
        let mut only = JoinSet::new();
        only.spawn_local(server);
        if let Some(Err(error)) = only.join_next().await {
            error!("the control API accepts connections again after: {error}");
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// Opens the socket for its owner alone, or for a group too. One that a killed process left behind is removed: the data folder
/// is locked by now, so no other process can be listening.
fn listen(path: &Path, group: Option<Gid>) -> io::Result<UnixListener> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        Err(_) | Ok(()) => {}
    }
    let listener = UnixListener::bind(path)?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o600))?;
    if let Some(group) = group {
        chown(path, None, Some(group.as_raw()))?;
        fs::set_permissions(path, fs::Permissions::from_mode(0o660))?;
    }
    Ok(listener)
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
