//! Clients that go over to another process: their connections, and the sessions that processes hold.

use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tenure_core::model::name::Name;
use tenure_core::model::time::Span;
use tokio::sync::{Notify, watch};
use tokio::time::timeout;
use tracing::warn;

use super::server::{ApiResult, AppState};
use super::session::{OnLoss, SessionRequest};
use super::{ApiError, Code, LeaseName, Request, ServiceName};

/// How long requests that are being worked on are waited for.
const FINISH_WITHIN: Duration = Duration::from_secs(5);

/// Where a conversation stands that another process is to continue.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct ConversationState {
    /// What was read of requests that nobody has worked on.
    #[serde(default)]
    pub(super) read: Vec<u8>,
    /// The request that goes on for as long as the connection: a watch, or a session that it holds.
    #[serde(default)]
    pub(super) standing: Option<Standing>,
}

/// A request that goes on for as long as its connection.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Standing {
    /// Leases are watched; all of them unless one is named.
    Leases(Option<LeaseName>),
    /// Services are watched; all of them unless one is named.
    Services(Option<ServiceName>),
    /// A session is held.
    Session(SessionRequest),
}

impl Standing {
    /// Of a request that is one.
    pub(super) fn of(request: Request) -> Result<Self, Request> {
        if let Request::Watch { lease } = request {
            return Ok(Self::Leases(lease));
        }
        if let Request::WatchServices { service } = request {
            return Ok(Self::Services(service));
        }
        if let Request::HoldSession(request) = request {
            return Ok(Self::Session(request));
        }
        Err(request)
    }
}

/// A connection that goes over.
#[derive(Debug)]
pub(crate) struct PassedConnection {
    pub(crate) stream: UnixStream,
    pub(crate) state: ConversationState,
}

/// A session that a process holds.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct SessionState {
    pub(super) session: Name,
    pub(super) manager: Name,
    pub(super) keep_alive: Span,
    #[serde(default)]
    pub(super) on_loss: OnLoss,
    pub(super) pid: u32,
}

/// A session that goes over, with the descriptor of the process that it ends with.
#[derive(Debug)]
pub(crate) struct PassedSession {
    pub(crate) state: SessionState,
    pub(crate) process: OwnedFd,
}

/// All clients that go over.
#[derive(Debug, Default)]
pub(crate) struct Clients {
    pub(crate) connections: Vec<PassedConnection>,
    pub(crate) sessions: Vec<PassedSession>,
}

/// How clients leave a server, and come to one.
#[derive(Debug, Default)]
pub(crate) struct Passing {
    /// Who wants to take over, and that somebody does.
    successor: Mutex<Option<UnixStream>>,
    asked: Notify,
    /// Whether conversations are to leave where they can. Each is a receiver.
    begun: watch::Sender<bool>,
    /// Those that have left, while they are collected.
    left: Mutex<Option<Vec<PassedConnection>>>,
    /// Those to go on with.
    come: Mutex<Clients>,
}

/// How a conversation learns that it is to leave.
pub(super) struct Leave(watch::Receiver<bool>);

impl Leave {
    /// Waits until it is to leave.
    pub(super) async fn asked(&mut self) {
        if self.0.wait_for(|begun| *begun).await.is_err() {
            // Nobody asks any more.
            std::future::pending().await
        }
    }
}

impl Passing {
    /// A conversation begins.
    pub(super) fn conversation(&self) -> Leave {
        Leave(self.begun.subscribe())
    }

    /// Waits until a process wants to take over.
    pub(crate) async fn successor(&self) -> UnixStream {
        loop {
            if let Some(stream) = locked(&self.successor).take() {
                return stream;
            }
            self.asked.notified().await;
        }
    }

    /// Has all connections leave: at once those that wait, the others when their requests are answered, unless that
    /// takes long. The server must take no more.
    async fn leave(&self) -> Vec<PassedConnection> {
        *locked(&self.left) = Some(Vec::new());
        self.begun.send_replace(true);
        if timeout(FINISH_WITHIN, self.begun.closed()).await.is_err() {
            let busy = self.begun.receiver_count();
            warn!("{busy} connections end that were busy for {} s", FINISH_WITHIN.as_secs());
        }
        locked(&self.left).take().unwrap_or_default()
    }

    /// A conversation leaves. One that is too late ends.
    pub(super) fn give(&self, connection: PassedConnection) {
        if let Some(left) = &mut *locked(&self.left) {
            left.push(connection);
        }
    }

    /// These are to be gone on with by the server that starts next.
    pub(crate) fn come(&self, clients: Clients) {
        self.begun.send_replace(false);
        *locked(&self.come) = clients;
    }

    /// Those to go on with.
    pub(super) fn take_come(&self) -> Clients {
        std::mem::take(&mut *locked(&self.come))
    }

    /// Whether a process of that user may take over: it is handed everything, so it must be this one's user.
    pub(super) fn admit_successor(&self, user: u32) -> ApiResult<()> {
        let own = rustix::process::geteuid().as_raw();
        if user != own {
            let message =
                format!("this deployment is user {own}'s, not user {user}'s to take over");
            return Err(ApiError::new(Code::Denied, message).help("take it over as its user"));
        }
        if locked(&self.successor).is_some() {
            let message = "another process is about to take over";
            return Err(ApiError::new(Code::Busy, message).help("that one answers from then on"));
        }
        Ok(())
    }

    /// A process wants to take over, by this connection.
    pub(super) fn ask(&self, stream: UnixStream) {
        *locked(&self.successor) = Some(stream);
        self.asked.notify_one();
    }
}

impl AppState {
    /// Takes all clients out of service, so that another process can go on with them.
    pub(crate) async fn pass_clients(&self) -> Clients {
        let connections = self.passing().leave().await;
        Clients { connections, sessions: self.sessions().of_processes() }
    }
}

fn locked<T>(what: &Mutex<T>) -> MutexGuard<'_, T> {
    what.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_process_of_the_same_user_may_take_over() {
        let (passing, own) = (Passing::default(), rustix::process::geteuid().as_raw());
        // Of a group that may use the socket, or root.
        for other in [own.wrapping_add(1), if own == 0 { 1 } else { 0 }] {
            assert_eq!(passing.admit_successor(other).unwrap_err().code, Code::Denied);
        }
        passing.admit_successor(own).unwrap();
        passing.ask(UnixStream::pair().unwrap().0);
        assert_eq!(passing.admit_successor(own).unwrap_err().code, Code::Busy);
    }
}
