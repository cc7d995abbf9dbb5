//! The network: connections between actors of this process and actors elsewhere.
//!
//! A connection is between two actors, which know each other by their keys. It is TLS over TCP, and carries
//! frames both ways. It may lose what is on its way: senders repeat. The network has a
//! thread of its own, and each connection a task, so one that is slow, silent or busy costs the others
//! nothing.

mod allowance;
mod budget;
pub mod card;
mod endorsed;
pub mod executor;
pub mod frame;
mod hub;
mod lane;
mod listener;
mod relay;
mod session;
pub mod task;
mod tls;
mod whereabouts;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::{fmt, io};

use rustls::ServerConfig;
use tenure_core::actor::Role;
use tenure_core::actor::joined::{Joined, Standing as Joining};
use tenure_core::model::identity::{ActorId, Signer};
use tenure_core::model::keys::KeyBook;
use tenure_core::model::name::Name;
use tenure_core::ticket::Ticket;
use thiserror::Error;
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;
use tokio::sync::{mpsc, oneshot};

use self::card::Card;
use self::executor::Asker;
use self::hub::Hub;
use self::lane::{Lane, Other, Way};
use self::listener::Admission;
use self::relay::Relays;
use self::session::{Ends, Item};
use crate::clock::Clock;
use crate::metrics::RefusedConnections;
use crate::transport::{Exchange, Greeting, GreetingKind, Packet, Transport};

pub use self::hub::LocalActor;
pub use self::lane::{Known, Standing};
pub use self::tls::certified;

/// An actor elsewhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remote {
    /// Its id.
    pub id: ActorId,
    /// What it is called here.
    pub name: Name,
    /// Its role.
    pub role: Role,
    /// Where it is dialled, as `host:port`; without it, it dials.
    pub address: Option<String>,
}

/// Why there is no network.
#[derive(Debug, Error)]
pub enum NetworkError {
    /// The address cannot be listened at.
    #[error("cannot listen at {listen}: {cause}")]
    Listen {
        /// The address, or the socket.
        listen: Listen,
        /// What the system says.
        cause: io::Error,
    },
    /// The keys cannot be used for TLS.
    #[error("TLS cannot be set up: {0}")]
    Tls(#[from] rustls::Error),
    /// The thread cannot be started.
    #[error("the network's thread cannot be started: {0}")]
    Thread(io::Error),
}

/// The way of messages within the process and beyond it.
#[derive(Clone)]
pub struct Network {
    local: Exchange,
    hub: Arc<Hub>,
    address: Option<SocketAddr>,
    /// What connections are taken from.
    listener: Option<Arc<std::net::TcpListener>>,
    /// Ends the thread when the last clone is dropped.
    _thread: Arc<Thread>,
}

/// What connections are taken from.
#[derive(Clone, Debug)]
pub enum Listen {
    /// An address, at which a socket is opened.
    At(SocketAddr),
    /// A socket that is open, and stays so when the process ends.
    On(Arc<std::net::TcpListener>),
}

/// Where the process takes connections, and for whom.
#[derive(Clone, Debug, Default)]
pub struct NetworkSettings {
    /// Where; none if its actors only dial.
    pub listen: Option<Listen>,
    /// Where others dial, as `host:port`, if that is another one.
    pub public: Option<String>,
    /// Its actors.
    pub actors: Vec<LocalActor>,
    /// The actors elsewhere that are known.
    pub remotes: Vec<Remote>,
    /// For each peer with actors that cannot be dialled, how many connections with them are relayed at a time.
    pub relays: usize,
}

/// A connection, or what is to become one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Connection {
    /// The actor of this process.
    pub here: ActorId,
    /// The actor elsewhere.
    pub there: ActorId,
    /// How the other is known.
    pub known: Known,
    /// The name of a peer.
    pub name: Option<Name>,
    /// Its role, if it is a peer.
    pub role: Option<Role>,
    /// Where it is dialled, if it does not dial.
    pub address: Option<String>,
    /// How it is.
    pub standing: Standing,
}

struct Thread {
    stop: Mutex<Option<oneshot::Sender<()>>>,
    join: Mutex<Option<JoinHandle<()>>>,
}

impl Drop for Thread {
    fn drop(&mut self) {
        drop(self.stop.get_mut().unwrap_or_else(PoisonError::into_inner).take());
        let thread = self.join.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        drop(thread.map(JoinHandle::join));
    }
}

/// Where connections are taken.
struct Listening {
    listener: Option<std::net::TcpListener>,
    /// Those that were dialled back.
    back: mpsc::Receiver<TcpStream>,
    server: Arc<ServerConfig>,
    admission: Arc<Admission>,
}

impl Network {
    /// Connects the actors of this process, which `local` has, with those elsewhere.
    ///
    /// # Errors
    /// See [`NetworkError`].
    pub fn start(
        settings: &NetworkSettings,
        (local, clock): (Exchange, Arc<dyn Clock>),
    ) -> Result<Self, NetworkError> {
        // First, since it is what fails: a runtime must not be dropped by who waits in another.
        let bound = settings.listen.as_ref().map(Listen::open).transpose()?;
        let (bound, listener) = bound.unzip();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(NetworkError::Thread)?;
        let address = bound.as_ref().and_then(|bound| bound.local_addr().ok());
        let dialled = address.filter(|address| !address.ip().is_unspecified());
        let public = settings.public.clone().or_else(|| dialled.map(|at| at.to_string()));
        let (around, own) = ((local.clone(), clock), (&settings.actors[..], public));
        let (relays, back) = Relays::new(settings.relays);
        let relays = (bound.is_some(), relays);
        let hub = Arc::new(Hub::new(runtime.handle().clone(), around, own, relays));
        for (actor, remote) in settings.pairs() {
            let ends = Ends { here: actor.signer.id(), there: remote.id };
            let way = remote.address.clone().map_or(Way::Inwards, Way::Address);
            let other = Other::peer(&remote.name, remote.role, Known::Configured);
            lane::open(&hub, ends, other, way);
        }
        let (server, admission) = (tls::server(&hub)?, Arc::new(Admission::new(Arc::clone(&hub))));
        let listening = Listening { listener: bound, back, server, admission };
        let (stop, stopped) = oneshot::channel();
        let thread = std::thread::Builder::new().name("network".to_owned());
        let join = thread.spawn(move || work(runtime, listening, stopped));
        let join = join.map_err(NetworkError::Thread)?;
        let thread = Thread { stop: Mutex::new(Some(stop)), join: Mutex::new(Some(join)) };
        Ok(Self { local, hub, address, listener, _thread: Arc::new(thread) })
    }

    /// Waits until the network's loop has got to it, or has ended.
    pub async fn is_alive(&self) {
        drop(self.hub.runtime.spawn(async {}).await);
    }

    /// How many connections were refused, by cause.
    pub(crate) fn refused(&self) -> RefusedConnections {
        self.hub.refused.clone()
    }

    /// Where it takes connections.
    pub fn address(&self) -> Option<SocketAddr> {
        self.address
    }

    /// The socket from which it takes them.
    pub(crate) fn listener(&self) -> Option<&Arc<std::net::TcpListener>> {
        self.listener.as_ref()
    }

    /// How the connection of each actor here with each elsewhere is.
    pub fn connections(&self) -> impl Iterator<Item = Connection> {
        self.hub.lanes().into_iter().map(move |(Ends { here, there }, lane)| {
            let standing = lane.standing.lock().unwrap_or_else(PoisonError::into_inner).clone();
            let by_card = || Some(self.card_of(there)?.address);
            let address = lane.address.clone();
            let address = address.or_else(|| lane.ticket.as_ref().and_then(|_| by_card()));
            let Lane { known, name, role, .. } = lane;
            Connection { here, there, known, name, role, address, standing }
        })
    }

    /// Where the actors of this process are dialled, if they are.
    pub fn public_address(&self) -> Option<&str> {
        self.hub.address()
    }

    /// By what an actor of this process shows executors who it is, once it has started.
    pub(crate) fn asker(&self, here: ActorId) -> Option<Asker> {
        let keys = self.hub.keys_of(here).chain(here).cloned().unwrap_or_default();
        Some(Asker { id: here, signer: self.hub.secret(here, u32::MAX)?, keys })
    }

    /// The card of an actor, if one is known that holds.
    pub fn card_of(&self, actor: ActorId) -> Option<Card> {
        Some(self.hub.cards.get(actor, self.hub.clock.now())?.card)
    }

    /// All cards that are known and hold.
    pub fn cards(&self) -> Vec<Card> {
        self.hub.cards.all(self.hub.clock.now())
    }

    /// Keeps a connection to who stands behind a ticket, unless it is a peer.
    fn seek(&self, ends: Ends, ticket: &Ticket) {
        // Its own actors may not have started yet.
        if self.hub.actors.contains_key(&ends.there) {
            return;
        }
        match self.hub.lane(ends) {
            Some(lane) => {
                let Some(known) = &lane.ticket else { return };
                let mut known = known.lock().unwrap_or_else(PoisonError::into_inner);
                if known.bottom().term.end() < ticket.bottom().term.end() {
                    *known = ticket.clone();
                }
            }
            None => {
                let way = Way::Card(Arc::new(Mutex::new(ticket.clone())));
                lane::open(&self.hub, ends, Other::stranger(ends.there, Known::Ticket), way);
            }
        }
    }
}

impl NetworkSettings {
    fn pairs(&self) -> impl Iterator<Item = (&LocalActor, &Remote)> {
        let remotes = &self.remotes;
        self.actors.iter().flat_map(move |actor| remotes.iter().map(move |remote| (actor, remote)))
    }
}

impl Transport for Network {
    fn send(&self, packet: Packet) -> bool {
        if self.local.has(packet.to) {
            return self.local.send(packet);
        }
        let ends = Ends { here: packet.from, there: packet.to };
        if whereabouts::HANDS_ON.contains(&packet.kind) {
            self.hub.send_cards(ends, &packet.sealed);
        }
        self.hub.say(ends, Item::Message(packet.sealed))
    }

    fn greet(&self, greeting: Greeting) -> bool {
        if self.local.has(greeting.to) {
            return self.local.greet(greeting);
        }
        let ends = Ends { here: greeting.from, there: greeting.to };
        // Who is known by a pass alone never answers. But it may ask, where the actor here is a peer of it.
        let peer = |lane: &Lane| matches!(lane.known, Known::Configured | Known::Joined);
        let answers = matches!(greeting.says, GreetingKind::Watermarks(_));
        self.hub.lane(ends).is_some_and(|lane| answers || peer(&lane))
            && self.hub.say(ends, Item::Greeting(greeting.says))
    }

    fn is_connected(&self, from: ActorId, to: ActorId) -> bool {
        let connected =
            |lane: Lane| lane.standing.lock().unwrap_or_else(PoisonError::into_inner).connected;
        self.local.has(to) || self.hub.lane(Ends { here: from, there: to }).is_some_and(connected)
    }

    /// The site of a ticket, and the broker that has cut it, are found by their cards if they are no peers, and shown the
    /// ticket that ends last.
    fn hold(&self, here: ActorId, ticket: &Ticket) {
        let issuer = match ticket.links() {
            // Who is handed a part by another guest reaches the site alone.
            [.., delegated, bottom] if delegated.delegation.is_some() => Some(bottom.issuer),
            [..] => None,
        };
        for there in [Some(ticket.site()), issuer].into_iter().flatten() {
            self.seek(Ends { here, there }, ticket);
        }
    }

    fn learn(&self, actor: ActorId, keys: &KeyBook, secrets: &[Signer]) {
        self.hub.learn(actor, keys, secrets);
    }

    /// Lanes are opened, closed, or opened elsewhere, until they are those of the peers.
    fn introduce(&self, here: ActorId, peers: &BTreeMap<ActorId, Joined>) {
        for (ends, lane) in self.hub.lanes() {
            let by_invitation = matches!(lane.known, Known::Joined | Known::Inviting);
            let stays = peers.get(&ends.there).is_some_and(is_reached);
            if ends.here == here && by_invitation && !stays {
                self.hub.remove(ends, &lane.standing);
            }
        }
        for (&there, joined) in peers.iter().filter(|(_, joined)| is_reached(joined)) {
            let (ends, lane) = (Ends { here, there }, self.hub.lane(Ends { here, there }));
            let (known, way) = way_to(joined);
            let stays = lane.as_ref().is_some_and(|lane| match lane.known {
                Known::Configured => true,
                Known::Joined | Known::Inviting => lane.address == joined.address,
                Known::Invited | Known::Ticket | Known::Endorsement => false,
            });
            if let Some(lane) = lane.filter(|lane| stays && lane.known == Known::Inviting) {
                // It has confirmed by now, or has yet to.
                self.hub.put(ends, Lane { known, ..lane });
            }
            if !stays && !self.hub.actors.contains_key(&there) {
                let other = Other::peer(&joined.name, joined.role, known);
                lane::reopen(&self.hub, ends, other, way);
            }
        }
    }
}

/// Whether there is to be a connection with a peer by invitation.
fn is_reached(joined: &Joined) -> bool {
    match joined.standing {
        Joining::Asked { .. } | Joining::Confirmed | Joining::Came { .. } => true,
        Joining::Refused(_) => false,
    }
}

/// How a peer by invitation is reached.
fn way_to(joined: &Joined) -> (Known, Way) {
    match (&joined.standing, &joined.address) {
        (Joining::Asked { invitation, .. }, Some(address)) => {
            (Known::Inviting, Way::Inviter(address.clone(), invitation.clone()))
        }
        (_, Some(address)) => (Known::Joined, Way::Address(address.clone())),
        (_, None) => (Known::Joined, Way::Inwards),
    }
}

impl Listen {
    /// The socket to take connections from, and another descriptor of it to keep.
    fn open(&self) -> Result<(std::net::TcpListener, Arc<std::net::TcpListener>), NetworkError> {
        let opened = match self {
            Self::At(address) => std::net::TcpListener::bind(address),
            Self::On(socket) => socket.try_clone(),
        };
        let ready = opened.and_then(|socket| {
            socket.set_nonblocking(true)?;
            Ok((socket.try_clone()?, Arc::new(socket)))
        });
        ready.map_err(|cause| NetworkError::Listen { listen: self.clone(), cause })
    }
}

impl fmt::Display for Listen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::At(address) => address.fmt(f),
            Self::On(_) => f.write_str("the socket that was handed over"),
        }
    }
}

/// The network's thread, until it is to stop.
fn work(runtime: Runtime, listening: Listening, stop: oneshot::Receiver<()>) {
    let Listening { listener, back, server, admission } = listening;
    runtime.block_on(async move {
        let ways = (Arc::clone(&server), Arc::clone(&admission));
        tokio::spawn(listener::take_back(back, ways));
        if let Some(Ok(listener)) = listener.map(TcpListener::from_std) {
            tokio::spawn(listener::listen(listener, server, admission));
        }
        drop(stop.await);
    });
    runtime.shutdown_background();
}
