//! The control API of a deployment, which is served until the deployment ends or another process goes on with it.

use std::fs;
use std::io;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::pin::pin;
use std::rc::Rc;

use nix::unistd::Gid;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::task::{JoinHandle, JoinSet};
use tracing::{error, info, warn};

use super::LOOK;
use crate::api::passing::Clients;
use crate::api::{self, AppState};
use crate::deployment::{Down, Running};
use crate::takeover::Successor;

/// The signals that stop a process.
pub(super) struct Stops {
    terminate: Signal,
    interrupt: Signal,
}

impl Stops {
    pub(super) fn new() -> io::Result<Self> {
        let terminate = signal(SignalKind::terminate())?;
        Ok(Self { terminate, interrupt: signal(SignalKind::interrupt())? })
    }

    async fn one(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

/// Why a deployment is served no longer.
pub(super) enum Next {
    /// It is to stop: by a signal, or because all its actors are down.
    Stop(Option<Down>),
    /// Another process is to go on with these clients.
    HandOver(Successor, Clients),
}

/// The control API, being served.
pub(super) struct Serving {
    app: Rc<AppState>,
    socket: UnixListener,
    accepting: JoinHandle<()>,
}

impl Serving {
    /// Serves at a socket, to begin with for these clients.
    pub(super) fn start(app: AppState, socket: UnixListener, clients: Clients) -> io::Result<Self> {
        let app = Rc::new(app);
        app.passing().come(clients);
        let accepting = accept(&socket, &app)?;
        Ok(Self { app, socket, accepting })
    }

    /// Waits for a reason to end. Nothing new is taken then.
    pub(super) async fn until_end(&mut self, running: &mut Running, stops: &mut Stops) -> Next {
        let mut down = pin!(all_down(running));
        let next = loop {
            tokio::select! {
                () = stops.one() => break Next::Stop(None),
                down = &mut down => break Next::Stop(Some(down)),
                stream = self.app.passing().successor() => {
                    let Some((successor, clients)) = self.hand_over(stream).await else { continue };
                    return Next::HandOver(successor, clients);
                }
            }
        };
        self.accepting.abort();
        next
    }

    /// Takes all clients out of service for another process, unless that is gone.
    async fn hand_over(&mut self, stream: UnixStream) -> Option<(Successor, Clients)> {
        let gone = |error: &io::Error| warn!("who wanted to take over is gone: {error}");
        let successor = Successor::accept(stream).inspect_err(gone).ok()?;
        info!("another process takes over");
        self.accepting.abort();
        // From then on nobody is taken whose connection would not be passed on.
        drop((&mut self.accepting).await);
        let clients = self.app.pass_clients().await;
        if successor.waits() {
            return Some((successor, clients));
        }
        gone(&io::ErrorKind::ConnectionReset.into());
        // Sessions of processes are still followed here.
        self.app.passing().come(Clients { sessions: Vec::new(), ..clients });
        match accept(&self.socket, &self.app) {
            Ok(accepting) => self.accepting = accepting,
            Err(error) => error!("the control API is not served any more: {error}"),
        }
        None
    }

    /// The socket, for another process.
    pub(super) fn into_socket(self) -> UnixListener {
        self.socket
    }
}

/// Opens the socket for its owner alone, or for a group too. One that a killed process left behind is removed: the data
/// folder is locked by now, so no other process can be listening.
pub(super) fn listen(path: &Path, group: Option<Gid>) -> io::Result<UnixListener> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        Err(_) | Ok(()) => {}
    }
    let listener = UnixListener::bind(path)?;
    admit(path, group)?;
    Ok(listener)
}

/// Opens a socket that is there for its owner alone, or for a group too.
pub(super) fn admit(path: &Path, group: Option<Gid>) -> io::Result<()> {
    fs::set_permissions(path, fs::Permissions::from_mode(0o600))?;
    if let Some(group) = group {
        chown(path, None, Some(group.as_raw()))?;
        fs::set_permissions(path, fs::Permissions::from_mode(0o660))?;
    }
    Ok(())
}

fn accept(socket: &UnixListener, app: &Rc<AppState>) -> io::Result<JoinHandle<()>> {
    let socket = socket.try_clone()?;
    socket.set_nonblocking(true)?;
    let socket = Rc::new(tokio::net::UnixListener::from_std(socket)?);
    Ok(actix::spawn(serve(socket, Rc::clone(app))))
}

/// Serves the control API until aborted; restarts the server when it ends.
async fn serve(listener: Rc<tokio::net::UnixListener>, app: Rc<AppState>) {
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
