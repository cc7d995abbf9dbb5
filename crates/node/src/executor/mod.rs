//! The executor: a small process on a machine that a site lends, which does what its site says, and runs the
//! commands of the tenant of the present epoch.
//!
//! It is reached by the transport between actors ([`net::executor`](crate::net::executor)). Setups and teardowns go
//! through the fence that all drivers have, so it remembers the highest epoch before it answers.

mod command;
mod known_keys;
mod tenancy;

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use tenure_core::model::identity::ActorId;
use thiserror::Error;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;
use tokio::time::sleep;
use tracing::{info, warn};

use self::tenancy::Tenancies;
use crate::config::{KeyError, keys};
use crate::driver::cgroup::Bounds;
use crate::driver::exec::Output;
use crate::driver::programs::Grace;
use crate::driver::stop::Stop;
use crate::driver::supervise::Limits;
use crate::folder;
use crate::net::executor::{Endpoint, Heard};
use crate::net::task::{MAX_OUTPUT, TaskEnd, TaskRefusal};

/// The most connections that have not brought a task yet.
const MOST_UNHEARD: usize = 64;

/// The pause after the system refuses a connection.
const PAUSE: Duration = Duration::from_millis(100);

/// How long commands may take to be ended when the executor is.
const STOP_WITHIN: Duration = Duration::from_secs(15);

/// What an executor is started with.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Settings {
    /// Where it is dialled.
    listen: SocketAddr,
    /// The site that it obeys.
    site: ActorId,
    /// The most tasks at a time.
    #[serde(default = "sixteen")]
    tasks: u32,
    /// How many bytes are kept of each stream of a command.
    #[serde(default)]
    output: Output,
    /// What each process of a command may use.
    #[serde(default)]
    limits: Limits,
    /// Whether each unit has a cgroup of its own, where it can.
    #[serde(default = "yes")]
    cgroup: bool,
    /// What all processes of a tenant may use together.
    #[serde(default)]
    bounds: Bounds,
    /// Whether units are network namespaces of this machine, in which commands run.
    #[serde(default)]
    namespaces: bool,
    /// How long processes may take to end by themselves at a teardown.
    #[serde(default)]
    grace: Grace,
}

fn sixteen() -> u32 {
    16
}

fn yes() -> bool {
    true
}

/// Why an executor does not run.
#[derive(Debug, Error)]
pub enum ExecutorError {
    /// Its settings are not what it takes.
    #[error("{}: {cause}", .file.display())]
    Settings {
        /// The file.
        file: PathBuf,
        /// What is wrong, and where.
        cause: String,
    },
    /// It has no key.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// Its folder cannot be used.
    #[error("the data folder {}: {cause}", .folder.display())]
    Folder {
        /// The folder.
        folder: PathBuf,
        /// What the system says.
        cause: io::Error,
    },
    /// Nobody can dial it.
    #[error("cannot listen at {listen}: {cause}")]
    Listen {
        /// The address.
        listen: SocketAddr,
        /// What the system says.
        cause: io::Error,
    },
    /// The system lacks something.
    #[error("{0}")]
    System(io::Error),
}

impl Settings {
    /// Reads settings from a file in TOML.
    ///
    /// # Errors
    /// [`ExecutorError::Settings`], with the place.
    pub fn read(file: &Path) -> Result<Self, ExecutorError> {
        let wrong = |cause: String| ExecutorError::Settings { file: file.to_owned(), cause };
        let text = std::fs::read_to_string(file).map_err(|error| wrong(error.to_string()))?;
        let settings: Self = toml::from_str(&text).map_err(|error| wrong(error.to_string()))?;
        if settings.output.0 > MAX_OUTPUT {
            return Err(wrong(format!("`output` is at most {MAX_OUTPUT} bytes")));
        }
        Ok(settings)
    }
}

/// Runs an executor that keeps its data in the folder `data`, until the process is stopped by SIGTERM or SIGINT;
/// tenancies stay. `ready` is called with its id and its address once it takes tasks.
///
/// # Errors
/// See [`ExecutorError`].
pub fn run(
    settings: Settings,
    data: &Path,
    ready: impl FnOnce(ActorId, SocketAddr),
) -> Result<(), ExecutorError> {
    run_until(settings, data, ready, async {
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        tokio::select! {
            _ = terminate.recv() => Ok(()),
            _ = interrupt.recv() => Ok(()),
        }
    })
}

/// As [`run`], until something has happened.
pub(crate) fn run_until(
    settings: Settings,
    data: &Path,
    ready: impl FnOnce(ActorId, SocketAddr),
    until: impl Future<Output = io::Result<()>>,
) -> Result<(), ExecutorError> {
    let failed = |cause| ExecutorError::Folder { folder: data.to_owned(), cause };
    folder::open(data, None).map_err(failed)?;
    let signer = keys::make_or_read(&data.join("keys").join("executor"))?;
    let (listen, most) = (settings.listen, settings.tasks);
    let tenancies = Tenancies::open(&data.join("executor"), settings).map_err(failed)?;
    let endpoint =
        Endpoint::new(&signer).map_err(io::Error::other).map_err(ExecutorError::System)?;
    let tasks = Arc::new(Semaphore::new(most as usize));
    let executor = Arc::new(Executor { endpoint, tenancies: Arc::new(tenancies), tasks, most });
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(ExecutorError::System)?;
    let ended = runtime.block_on(async {
        let refused = |cause| ExecutorError::Listen { listen, cause };
        let listener = TcpListener::bind(listen).await.map_err(refused)?;
        let address = listener.local_addr().map_err(refused)?;
        info!(id = %signer.id().to_hex(), %address, "the executor takes tasks");
        ready(signer.id(), address);
        tokio::select! {
            ended = until => ended.map_err(ExecutorError::System),
            () = executor.listen(listener) => Ok(()),
        }
    });
    // Commands are asked to stop as the tasks that wait for them are dropped.
    runtime.shutdown_timeout(STOP_WITHIN);
    ended
}

struct Executor {
    endpoint: Endpoint,
    tenancies: Arc<Tenancies>,
    tasks: Arc<Semaphore>,
    most: u32,
}

/// Asks a command to stop when nobody waits for it any more.
struct Waited(Arc<Stop>);

impl Drop for Waited {
    fn drop(&mut self) {
        self.0.ask();
    }
}

impl Executor {
    async fn listen(self: Arc<Self>, listener: TcpListener) {
        let unheard = Arc::new(Semaphore::new(MOST_UNHEARD));
        loop {
            let accepted = listener.accept().await;
            let (Ok((stream, from)), Ok(place)) =
                (accepted, Arc::clone(&unheard).try_acquire_owned())
            else {
                warn!("a connection was not taken");
                sleep(PAUSE).await;
                continue;
            };
            let executor = Arc::clone(&self);
            tokio::spawn(async move {
                match executor.endpoint.hear(stream).await {
                    Ok(heard) => {
                        drop(place);
                        executor.work(heard).await;
                    }
                    Err(cause) => warn!(%from, %cause, "a connection was refused"),
                }
            });
        }
    }

    async fn work(&self, heard: Heard) {
        let from = heard.from;
        let Ok(_place) = Arc::clone(&self.tasks).try_acquire_owned() else {
            let busy = async { TaskEnd::Refused(TaskRefusal::Busy(self.most)) };
            return drop(heard.answer(busy, || {}).await);
        };
        let Ok(stop) = Stop::new().map(Arc::new) else { return };
        let _waited = Waited(Arc::clone(&stop));
        let (tenancies, key, task) = (Arc::clone(&self.tenancies), heard.key, heard.task.clone());
        let own = Arc::clone(&stop);
        let working = spawn_blocking(move || tenancies.perform((from, &key), task, &own));
        let work = async {
            working.await.unwrap_or_else(|panic| {
                TaskEnd::Refused(TaskRefusal::Failed(format!("the executor failed: {panic}")))
            })
        };
        if let Err(cause) = heard.answer(work, || stop.ask()).await {
            warn!(%from, %cause, "a task was not answered");
        }
    }
}
