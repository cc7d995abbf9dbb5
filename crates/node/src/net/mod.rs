//! The network: connections between actors of this process and actors elsewhere.
//!
//! A connection is between two actors, which know each other by their keys. It is TLS over TCP, and carries
//! frames both ways, whoever has dialled. It may lose what is on its way: senders repeat. The network has a
//! thread of its own, and each connection a task, so one that is slow, silent or busy costs the others
//! nothing.

mod budget;
pub mod frame;
mod lane;
mod listener;
mod session;
mod tls;

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use rustls::{ClientConfig, ServerConfig};
use tenure_core::model::identity::{ActorId, PublicKey, Signer};
use tenure_core::model::name::Name;
use thiserror::Error;
use tokio::net::TcpListener;
use tokio::sync::{mpsc, oneshot};

use self::lane::{Keeper, Lane, QUEUE};
use self::listener::Admission;
use self::session::{Ends, Item};
use crate::transport::{Exchange, Greeting, Packet, Transport};

pub use self::lane::Standing;

/// An actor elsewhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remote {
    /// Its id.
    pub id: ActorId,
    /// What it is called here.
    pub name: Name,
    /// Where it is dialled, as `host:port`; without it, it dials.
    pub address: Option<String>,
}

/// Why there is no network.
#[derive(Debug, Error)]
pub enum NetworkError {
    /// The address cannot be listened at.
    #[error("cannot listen at {address}: {cause}")]
    Listen {
        /// The address.
        address: SocketAddr,
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
    lanes: Arc<BTreeMap<(ActorId, ActorId), Lane>>,
    names: Arc<BTreeMap<ActorId, Name>>,
    address: Option<SocketAddr>,
    /// Ends the thread when the last clone is dropped.
    _thread: Arc<Thread>,
}

/// Where the process takes connections, and for whom.
#[derive(Clone, Debug, Default)]
pub struct NetworkSettings {
    /// The address; none if its actors only dial.
    pub listen: Option<SocketAddr>,
    /// The keys of its actors.
    pub signers: Vec<Signer>,
    /// The actors elsewhere.
    pub remotes: Vec<Remote>,
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

/// What the thread does.
struct Work {
    keepers: Vec<Keeper>,
    listening: Option<(std::net::TcpListener, Arc<ServerConfig>, Arc<Admission>)>,
    stop: oneshot::Receiver<()>,
}

impl Network {
    /// Connects the actors of this process, which `local` has, with those elsewhere.
    ///
    /// # Errors
    /// See [`NetworkError`].
    pub fn start(settings: &NetworkSettings, local: Exchange) -> Result<Self, NetworkError> {
        let NetworkSettings { listen, signers, remotes } = settings;
        let (mut lanes, mut keepers) = (BTreeMap::new(), Vec::new());
        for signer in signers {
            for remote in remotes {
                let client = tls::client(signer, key_of(remote.id))?;
                let (lane, keeper) = lane(signer.id(), remote, client, &local);
                lanes.insert((signer.id(), remote.id), lane);
                keepers.push(keeper);
            }
        }
        let listening = match *listen {
            Some(address) => {
                let bound =
                    bind(address).map_err(|cause| NetworkError::Listen { address, cause })?;
                let accepted = lanes.iter().map(|(&ends, lane)| (ends, lane.accepted.clone()));
                let door = Admission::new(signers.iter().map(Signer::id), accepted.collect());
                Some((bound, tls::server(signers.iter())?, Arc::new(door)))
            }
            None => None,
        };
        let address = listening.as_ref().and_then(|(bound, ..)| bound.local_addr().ok());
        let (stop, stopped) = oneshot::channel();
        let work = Work { keepers, listening, stop: stopped };
        let thread = std::thread::Builder::new().name("network".to_owned());
        let join = thread.spawn(move || work.run()).map_err(NetworkError::Thread)?;
        let thread = Thread { stop: Mutex::new(Some(stop)), join: Mutex::new(Some(join)) };
        let names = remotes.iter().map(|remote| (remote.id, remote.name.clone())).collect();
        let (lanes, names, thread) = (Arc::new(lanes), Arc::new(names), Arc::new(thread));
        Ok(Self { local, lanes, names, address, _thread: thread })
    }

    /// Where it takes connections.
    pub fn address(&self) -> Option<SocketAddr> {
        self.address
    }

    /// How the connection of each actor here with each elsewhere is.
    pub fn standings(&self) -> impl Iterator<Item = (ActorId, &Name, Standing)> {
        self.lanes.iter().filter_map(|(&(here, there), lane)| {
            let standing = lane.standing.lock().unwrap_or_else(PoisonError::into_inner).clone();
            Some((here, self.names.get(&there)?, standing))
        })
    }

    fn say(&self, ends: (ActorId, ActorId), item: Item) -> bool {
        self.lanes.get(&ends).is_some_and(|lane| lane.queue.try_send(item).is_ok())
    }
}

impl Transport for Network {
    fn send(&self, packet: Packet) -> bool {
        if self.local.has(packet.to) {
            return self.local.send(packet);
        }
        self.say((packet.from, packet.to), Item::Message(packet.sealed))
    }

    fn greet(&self, greeting: Greeting) -> bool {
        if self.local.has(greeting.to) {
            return self.local.greet(greeting);
        }
        self.say((greeting.from, greeting.to), Item::Greeting(greeting.says))
    }
}

/// Whether a key is that of an actor.
fn key_of(id: ActorId) -> impl Fn(&PublicKey) -> bool + Send + Sync + 'static {
    move |key| ActorId::of(key) == id
}

fn lane(
    here: ActorId,
    remote: &Remote,
    client: Arc<ClientConfig>,
    local: &Exchange,
) -> (Lane, Keeper) {
    let (sender, queue) = mpsc::channel(QUEUE);
    let (accepts, accepted) = mpsc::channel(1);
    let standing = Arc::new(Mutex::new(Standing::default()));
    let lane = Lane { queue: sender, accepted: accepts, standing: Arc::clone(&standing) };
    let keeper = Keeper {
        ends: Ends { here, there: remote.id },
        name: remote.name.to_string(),
        address: remote.address.clone(),
        client,
        queue,
        accepted,
        local: Arc::new(local.clone()),
        standing,
    };
    (lane, keeper)
}

fn bind(address: SocketAddr) -> io::Result<std::net::TcpListener> {
    let listener = std::net::TcpListener::bind(address)?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

impl Work {
    fn run(self) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        // Without a runtime no process of this program would work.
        let Ok(runtime) = runtime else { return };
        let Self { keepers, listening, stop } = self;
        runtime.block_on(async move {
            keepers.into_iter().for_each(|keeper| drop(tokio::spawn(keeper.run())));
            if let Some((listener, server, door)) = listening
                && let Ok(listener) = TcpListener::from_std(listener)
            {
                tokio::spawn(listener::listen(listener, server, door));
            }
            drop(stop.await);
        });
        runtime.shutdown_background();
    }
}
