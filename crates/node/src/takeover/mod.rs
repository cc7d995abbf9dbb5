//! Taking over from a running process: it passes its sockets, the lock of its data folder and its clients to a new one,
//! which goes on with them.
//!
//! They talk on a connection to the control API:
//!
//! ```text
//! new: {"do":"take-over"}
//! old: {"ok":{"pid":4711}}      it takes no more requests
//! old: {"pass":"lock"} ...      its journals are closed; a descriptor with each line
//! old: {"pass":"end"}
//! new: taken                    it has all of them
//! old: yours                    it will end, whatever happens
//! ```
//!
//! Until it has written the last line the old one goes on by itself if the new one is gone; until it has read it the new
//! one opens no journal. Then the new one closes its side, and waits for the old one to end.

mod ask;
mod give;
mod descriptors;

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::net::UnixListener;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use thiserror::Error;

pub(crate) use self::ask::ask;
pub(crate) use self::give::{Successor, give};
use crate::api::ApiError;
use crate::api::passing::Clients;
use crate::lock::Lock;

/// By which the new process says that it has everything, and the old one that it will end.
const TAKEN: &str = "taken";
const YOURS: &str = "yours";

/// What a process says that is about to hand over.
#[derive(Serialize, Deserialize)]
struct Promise {
    pid: u32,
}

/// What a process starts with that others have opened.
#[derive(Debug, Default)]
pub(crate) struct Inherited {
    /// The socket for peers.
    pub(crate) peers: Option<Peers>,
    /// What another process has handed over.
    pub(crate) handover: Option<Handover>,
}

/// The socket for peers.
#[derive(Debug)]
pub(crate) struct Peers {
    pub(crate) socket: TcpListener,
    /// Whether it is systemd's, and is to be used also without `listen`.
    pub(crate) from_systemd: bool,
}

/// What a process hands over to another one, beside the socket for peers.
#[derive(Debug)]
pub(crate) struct Handover {
    pub(crate) lock: Lock,
    pub(crate) api: ServedApi,
}

/// The control API that another process has served.
#[derive(Debug)]
pub(crate) struct ServedApi {
    pub(crate) socket: UnixListener,
    pub(crate) clients: Clients,
    /// Since when no requests are answered.
    pub(crate) since: Instant,
    /// Who has served it.
    pub(crate) pid: u32,
}

/// Why a process does not take over. The running one goes on.
#[derive(Debug, Error)]
pub enum TakeoverError {
    /// It has not handed over in time.
    #[error("the running deployment has not handed over within {} s", .0.as_secs_f64())]
    TimedOut(Duration),
    /// It refuses.
    #[error("the running deployment does not hand over: {0}")]
    Refused(ApiError),
    /// It has stopped halfway.
    #[error("the running deployment has not handed over: {0}")]
    Broken(String),
    /// What it passes cannot be used.
    #[error("what the running deployment passes cannot be used: {0}")]
    Unusable(String),
    /// Peers cannot be taken where they are to be.
    #[error("cannot listen at {listen}: {cause}")]
    Listen {
        /// The address.
        listen: SocketAddr,
        /// What the system says.
        cause: io::Error,
    },
    /// It has handed over, and has not ended.
    #[error("the process {pid} has handed over and does not end")]
    StaysOn {
        /// The process.
        pid: u32,
    },
}

impl TakeoverError {
    /// What to do about it.
    pub fn help(&self) -> Option<String> {
        match self {
            Self::TimedOut(_) => Some(
                "it runs on; its log says what it waits for, and `--takeover=TIME` gives it longer"
                    .to_owned(),
            ),
            Self::Refused(error) => error.help.clone(),
            Self::Listen { .. } => Some(
                "set `listen` to an address of this machine that no other program has".to_owned(),
            ),
            Self::Broken(_) | Self::Unusable(_) => Some(
                "it runs on unless its log says otherwise; stop it and start it again to replace it"
                    .to_owned(),
            ),
            Self::StaysOn { pid } => Some(format!("kill process {pid}, and start again")),
        }
    }
}
