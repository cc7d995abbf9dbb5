//! Where actors of this process are dialled: who knocks shows its key, and is brought to its lane.

use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustls::ServerConfig;
use tenure_core::model::identity::ActorId;
use tenure_core::wire::admission::Stranger;
use thiserror::Error;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::AbortHandle;
use tokio::time::{sleep, timeout};
use tokio_rustls::server::TlsStream as TlsServer;
use tokio_rustls::{TlsAcceptor, TlsStream};
use tracing::{info, warn};

use super::hub::{Hub, NotAdmitted};
use super::lane::{CONNECT_WITHIN, Known, Lane, Other, Way};
use super::relay::{NotRelayed, Start};
use super::session::{Ends, Session, SessionEnd, part, shown};
use super::{lane, tls};

/// The most connections that have not shown yet who they are: of all, and of one address.
const MOST_UNKNOWN: usize = 256;
const MOST_OF_ONE: usize = 32;

/// The pause after the system refuses a connection, as when all file descriptors are in use.
const PAUSE: Duration = Duration::from_millis(100);

/// Why who knocked was not let in.
#[derive(Debug, Error)]
enum Refused {
    #[error("its handshake was not done within {} s", CONNECT_WITHIN.as_secs())]
    Late,
    #[error("its handshake failed: {0}")]
    Handshake(std::io::Error),
    #[error("it asked for nobody who is here")]
    Nobody,
    #[error("it did not name the protocol")]
    Protocol,
    #[error(
        "{there} is no peer of the actor that it asked for, and has shown no ticket, invitation or endorsement: {cause}"
    )]
    Stranger { there: ActorId, cause: SessionEnd },
    #[error("it has a key that {0} has revoked")]
    Revoked(ActorId),
    #[error(transparent)]
    NotAdmitted(#[from] NotAdmitted),
    #[error("{0} is no peer, and as many strangers are here as may be")]
    Full(ActorId),
    #[error(transparent)]
    NotRelayed(#[from] NotRelayed),
    #[error(transparent)]
    Session(#[from] SessionEnd),
}

impl Refused {
    fn of_handshake(error: std::io::Error) -> Self {
        match tls::cause(&error) {
            Some(tls::Cause::Nobody) => Self::Nobody,
            Some(tls::Cause::OtherKey) | None => Self::Handshake(error),
        }
    }

    /// The word under which it is counted.
    fn word(&self) -> &'static str {
        match self {
            Self::Late | Self::Handshake(_) => "handshake",
            Self::Protocol => "protocol",
            Self::Nobody => "receiver",
            Self::Stranger { .. } => "no pass",
            Self::Revoked(_) => "revoked key",
            Self::NotAdmitted(cause) => cause.word(),
            Self::Full(_) => "full",
            Self::NotRelayed(_) => "relay",
            Self::Session(_) => "hello",
        }
    }
}

/// Takes connections until it is dropped.
pub(super) async fn listen(listener: TcpListener, server: Arc<ServerConfig>, door: Arc<Admission>) {
    let mut entering: VecDeque<(SocketAddr, AbortHandle)> = VecDeque::new();
    loop {
        let (stream, from) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                warn!(%error, "a connection was not accepted");
                sleep(PAUSE).await;
                continue;
            }
        };
        let Some(guard) = door.enter(from.ip()) else { continue };
        // Who is honest shows at once who it is: of many that do not, those go that have had the longest time.
        entering.retain(|(_, task)| !task.is_finished());
        if entering.len() >= MOST_UNKNOWN
            && let Some((from, task)) = entering.pop_front()
        {
            task.abort();
            door.hub.refused.count("handshake");
            warn!(%from, cause = "others came, and it had not shown who it is", "a connection was refused");
        }
        let (acceptor, door) = (TlsAcceptor::from(Arc::clone(&server)), Arc::clone(&door));
        let task = tokio::spawn(async move {
            let admitted = timeout(CONNECT_WITHIN, door.admit(acceptor, stream)).await;
            if let Err(cause) = admitted.unwrap_or(Err(Refused::Late)) {
                door.hub.refused.count(cause.word());
                warn!(%from, %cause, "a connection was refused");
            }
            drop(guard);
        });
        entering.push_back((from, task.abort_handle()));
    }
}

/// Takes the connections that were dialled back, for actors of this process and those that it relays for.
pub(super) async fn take_back(
    mut back: mpsc::Receiver<TcpStream>,
    (server, door): (Arc<ServerConfig>, Arc<Admission>),
) {
    while let Some(stream) = back.recv().await {
        let (acceptor, door) = (TlsAcceptor::from(Arc::clone(&server)), Arc::clone(&door));
        tokio::spawn(async move {
            let admitted = timeout(CONNECT_WITHIN, door.admit(acceptor, stream)).await;
            if let Err(cause) = admitted.unwrap_or(Err(Refused::Late)) {
                door.hub.refused.count(cause.word());
                warn!(%cause, "a connection was refused that a peer has relayed");
            }
        });
    }
}

/// Who is let in.
pub(super) struct Admission {
    hub: Arc<Hub>,
    here: BTreeMap<String, ActorId>,
    knocking: Mutex<BTreeMap<IpAddr, usize>>,
}

/// One that has knocked, until it is in or gone.
struct Knock(Arc<Admission>, IpAddr);

impl Drop for Knock {
    fn drop(&mut self) {
        let mut knocking = self.0.knocking.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = knocking.get_mut(&self.1) {
            *count -= 1;
            if *count == 0 {
                knocking.remove(&self.1);
            }
        }
    }
}

impl Admission {
    pub(super) fn new(hub: Arc<Hub>) -> Self {
        let here = hub.actors.keys().map(|id| (id.to_hex(), *id)).collect();
        Self { hub, here, knocking: Mutex::default() }
    }

    fn enter(self: &Arc<Self>, from: IpAddr) -> Option<Knock> {
        let mut knocking = self.knocking.lock().unwrap_or_else(PoisonError::into_inner);
        let count = knocking.entry(from).or_default();
        (*count < MOST_OF_ONE).then(|| {
            *count += 1;
            Knock(Arc::clone(self), from)
        })
    }

    async fn admit(&self, acceptor: TlsAcceptor, stream: TcpStream) -> Result<(), Refused> {
        stream.set_nodelay(true).map_err(Refused::Handshake)?;
        // Who brings nothing costs no memory of a handshake.
        stream.readable().await.map_err(Refused::Handshake)?;
        match self.hub.start_of(&stream).await.map_err(Refused::Handshake)? {
            Start::Handshake => {}
            Start::Back => return Ok(self.hub.came_back(stream).await?),
            Start::For(to, way) => return Ok(self.hub.relay(stream, (to, way)).await?),
        }
        self.let_in(acceptor, stream).await
    }

    /// Shakes hands, and brings who is there to its lane.
    async fn let_in(&self, acceptor: TlsAcceptor, stream: TcpStream) -> Result<(), Refused> {
        let mut stream = acceptor.accept(stream).await.map_err(Refused::of_handshake)?;
        let (_, session) = stream.get_ref();
        // Who names no protocol at all is let through by TLS.
        if session.alpn_protocol() != Some(tls::PROTOCOL) {
            return Err(Refused::Protocol);
        }
        let key = tls::peer_key(session.peer_certificates());
        let here = session.server_name().and_then(tls::name_in);
        let here = here.and_then(|(id, _)| self.here.get(&id).copied());
        let (Some(key), Some(here)) = (key, here) else { return Err(Refused::Nobody) };
        let Some(there) = self.hub.owner(here, &key) else {
            part(&mut stream, "this key was revoked").await;
            return Err(Refused::Revoked(ActorId::of(&key)));
        };
        let ends = Ends { here, there };
        let known = self.hub.lane(ends).filter(|lane| lane.role.is_some() || lane.ticket.is_some());
        let lane = match known {
            Some(lane) => lane,
            None => match self.stranger(&mut stream, ends).await {
                Ok(lane) => lane,
                Err(cause) => {
                    part(&mut stream, &cause.to_string()).await;
                    return Err(cause);
                }
            },
        };
        let session = Session::begin(TlsStream::from(stream), ends).await?;
        // The lane takes it at once, or is gone with the process.
        drop(lane.accepted.send(session).await);
        Ok(())
    }

    /// Who is not known shows a pass first.
    async fn stranger(
        &self,
        stream: &mut TlsServer<TcpStream>,
        ends: Ends,
    ) -> Result<Lane, Refused> {
        let Ends { here, there } = ends;
        let pass = shown(stream).await.map_err(|cause| Refused::Stranger { there, cause })?;
        let (stranger, until) = self.hub.admits(ends, &pass)?;
        if let Some(lane) = self.hub.lane(ends) {
            return Ok(lane);
        }
        let taken = self.hub.allowances.take(ends, &pass);
        let (allowance, places) = taken.ok_or(Refused::Full(there))?;
        let known = match stranger {
            Stranger::Holder | Stranger::Buyer => Known::Ticket,
            Stranger::Invited => Known::Invited,
            Stranger::Endorsed => Known::Endorsement,
        };
        info!(%there, %here, ?known, "a stranger is let in");
        let way = Way::Stranger(stranger, until, allowance, places);
        Ok(lane::open(&self.hub, ends, Other::stranger(there, known), way))
    }
}
