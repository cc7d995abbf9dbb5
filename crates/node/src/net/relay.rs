//! Connections with actors that cannot be dialled.
//!
//! Their process dials its peers, and asks those that are brokers to take connections for its actors. Who dials such an
//! actor dials the broker's process instead, and names the actor as ever. That process has the other one dial back, and
//! copies bytes between the two connections. TLS is between their ends: nothing can be read or changed on the way, and
//! the actor decides who is let in as if it had been dialled itself.
//!
//! A process that others cannot reach either has its own connections taken by a broker that it dials, and asks that one
//! to take connections also for those that it takes them for: up to [`MOST_RELAYS`] brokers copy the bytes of one.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustls::server::Acceptor;
use tenure_core::actor::Role;
use tenure_core::model::codec::{decode, encode};
use tenure_core::model::identity::ActorId;
use thiserror::Error;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio::time::{sleep, timeout};
use tracing::{debug, info};

use super::budget::{Budget, Rate};
use super::frame::Frame;
use super::hub::Hub;
use super::lane::{CONNECT_WITHIN, Known, Lane};
use super::session::{ALIVE_EVERY, Ends, Item, SILENT_FOR, WRITE_WITHIN};
use super::tls;

/// Names one connection that is dialled back. Nobody guesses it.
pub(super) type Token = [u8; 16];

/// What stands where TLS would begin: then come the broker that is dialled back and the token.
const BACK: [u8; 8] = *b"tenure<-";

/// How long an id is: its length in one byte, and a hash.
const ACTOR_ID_BYTES: usize = 33;

/// How long all of it is.
const BACK_BYTES: usize = BACK.len() + ACTOR_ID_BYTES + size_of::<Token>();

/// How long the other process may take to dial back.
const BACK_WITHIN: Duration = Duration::from_secs(4);

/// The most bytes of a handshake before it shows who is asked for.
const MAX_START: usize = 1 << 12;

/// The pause before it is looked whether more of a handshake has come.
const PAUSE: Duration = Duration::from_millis(5);

/// The most actors that one peer has connections taken for.
pub(super) const MOST_ACTORS: usize = 64;

/// The most brokers that copy the bytes of one connection.
const MOST_RELAYS: u8 = 4;

/// The shortest time between two looks at what a peer that takes connections is to be told of actors further away.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// The most connections that are dialled back at a time.
const MOST_BACK: usize = 64;

/// Why a connection is not relayed.
#[derive(Debug, Error)]
pub(super) enum NotRelayed {
    #[error("it asked for nobody who is here, or whose connections are taken here")]
    Nobody,
    #[error("{0} is asked for, and as many connections with its process are relayed as may be")]
    Full(ActorId),
    #[error("{0} is asked for, and its process has not dialled back")]
    NotBack(ActorId),
    #[error("it dials back, and is not waited for")]
    Unknown,
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// What a connection begins with.
pub(super) enum Start {
    /// A handshake with an actor of this process, or one that TLS is to refuse.
    Handshake,
    /// A handshake with an actor of a process that cannot be dialled.
    For(ActorId, Ends),
    /// It was dialled back.
    Back,
}

/// The connections that are relayed here, and those that are dialled back from here.
pub(super) struct Relays {
    /// How many connections with the process of one peer are relayed at a time.
    most: usize,
    /// The peer in whose process an actor is, or that takes connections for it, and behind how many others it is.
    ways: Mutex<BTreeMap<ActorId, (Ends, u8)>>,
    places: Mutex<BTreeMap<Ends, Arc<Semaphore>>>,
    waiting: Mutex<BTreeMap<Token, oneshot::Sender<TcpStream>>>,
    /// Where those go that were dialled back from here.
    back: mpsc::Sender<TcpStream>,
    backs: Arc<Semaphore>,
}

impl Relays {
    pub(super) fn new(most: usize) -> (Self, mpsc::Receiver<TcpStream>) {
        let (back, came) = mpsc::channel(MOST_BACK);
        let (ways, places, waiting) = Default::default();
        let backs = Arc::new(Semaphore::new(MOST_BACK));
        (Self { most, ways, places, waiting, back, backs }, came)
    }

    /// The place of one more connection with the process of a peer.
    fn place(&self, ends: Ends) -> Option<tokio::sync::OwnedSemaphorePermit> {
        let mut places = lock(&self.places);
        let of = places.entry(ends).or_insert_with(|| Arc::new(Semaphore::new(self.most)));
        Arc::clone(of).try_acquire_owned().ok()
    }
}

fn lock<T>(shared: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Hub {
    /// The actors of this process that a peer is asked to take connections for: all, if it is a broker that was dialled
    /// from here and they cannot be dialled.
    pub(super) fn to_be_relayed(&self, ends: Ends) -> Vec<ActorId> {
        let asks = self.is_relayed_by(ends);
        if asks { self.actors.keys().copied().take(MOST_ACTORS).collect() } else { Vec::new() }
    }

    /// Whether a peer is asked to take connections: a broker that was dialled from here, by a process that is dialled
    /// nowhere, or that gives that broker's address as its own.
    pub(super) fn is_relayed_by(&self, ends: Ends) -> bool {
        let Some(public) = self.address() else { return false };
        let Some(lane) = self.lane(ends) else { return false };
        let dialled = lane.address.as_deref();
        lane.role == Some(Role::Broker)
            && dialled.is_some_and(|address| !self.listens || address == public)
    }

    /// The actors of other processes that a peer is asked to take connections for: those that they are taken for here,
    /// unless that peer is the way to them.
    pub(super) fn to_be_relayed_on(&self, ends: Ends) -> Vec<(ActorId, u8)> {
        if !self.is_relayed_by(ends) {
            return Vec::new();
        }
        let ways = lock(&self.relays.ways);
        let known = ways.iter().filter(|(_, (way, relays))| {
            way.there != ends.there && *relays + 1 < MOST_RELAYS && self.is_up(*way)
        });
        // As many of each way, so that nobody is crowded out by what another one asks for.
        let mut of_way: BTreeMap<Ends, usize> = BTreeMap::new();
        let mut ranked: Vec<_> = known
            .map(|(actor, (way, relays))| {
                let rank = of_way.entry(*way).or_default();
                *rank += 1;
                (*rank, *relays, *actor)
            })
            .collect();
        ranked.sort_unstable();
        ranked.into_iter().take(MOST_ACTORS).map(|(_, relays, actor)| (actor, relays + 1)).collect()
    }

    /// A peer asks to have connections taken for actors of its process. The ends of a connection judge by their keys
    /// whether it has told the truth.
    pub(super) fn relay_for(&self, ends: Ends, actors: Vec<(ActorId, u8)>, further: bool) {
        let fits = |(_, relays): &(ActorId, u8)| (*relays > 0) == further && *relays < MOST_RELAYS;
        if further && self.lane(ends).and_then(|lane| lane.role) != Some(Role::Broker) {
            return debug!(peer = %ends.there, "a peer that is no broker relays for nobody");
        }
        if self.relays.most == 0 || actors.len() > MOST_ACTORS || !actors.iter().all(fits) {
            return debug!(peer = %ends.there, "connections are not taken for a peer's actors");
        }
        let mut ways = lock(&self.relays.ways);
        ways.retain(|_, (way, relays)| *way != ends || (*relays > 0) != further);
        for (actor, relays) in actors.into_iter().filter(|(id, _)| !self.actors.contains_key(id)) {
            // Who was there first stays, as long as it is there.
            let taken = ways.get(&actor).is_some_and(|(way, _)| self.is_up(*way));
            if !taken || actor == ends.there {
                ways.insert(actor, (ends, relays));
            }
        }
    }

    /// Whether a peer is connected.
    fn is_up(&self, ends: Ends) -> bool {
        let peer = |lane: &Lane| matches!(lane.known, Known::Configured | Known::Joined);
        self.lane(ends).filter(peer).is_some_and(|lane| lock(&lane.standing).connected)
    }

    /// What a connection begins with, as far as that shows before its handshake.
    pub(super) async fn start_of(&self, stream: &TcpStream) -> io::Result<Start> {
        let mut bytes = vec![0; MAX_START];
        loop {
            stream.readable().await?;
            let length = stream.peek(&mut bytes).await?;
            if length == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            if bytes[0] == BACK[0] {
                if length < BACK_BYTES && BACK.starts_with(&bytes[..length.min(BACK.len())]) {
                    sleep(PAUSE).await;
                    continue;
                }
                return Ok(self.back_to(&bytes[..length]));
            }
            // Of all that is taken here nothing is looked at twice, unless others are taken connections for.
            if lock(&self.relays.ways).is_empty() || length == MAX_START {
                return Ok(Start::Handshake);
            }
            let mut acceptor = Acceptor::default();
            acceptor.read_tls(&mut &bytes[..length])?;
            match acceptor.accept() {
                Ok(Some(accepted)) => {
                    return Ok(self.start_with(accepted.client_hello().server_name()));
                }
                Ok(None) => sleep(PAUSE).await,
                Err(_) => return Ok(Start::Handshake),
            }
        }
    }

    /// Where a connection belongs that is dialled back: to a broker that is here, or at whose process it is relayed on.
    fn back_to(&self, start: &[u8]) -> Start {
        let broker = start.get(BACK.len()..BACK.len() + ACTOR_ID_BYTES);
        let broker = broker.and_then(|bytes| decode::<ActorId>(bytes).ok());
        let broker = broker.filter(|broker| !self.actors.contains_key(broker));
        let way = |broker| Some((broker, lock(&self.relays.ways).get(&broker)?.0));
        match broker.and_then(way) {
            Some((broker, way)) => Start::For(broker, way),
            None => Start::Back,
        }
    }

    fn start_with(&self, name: Option<&str>) -> Start {
        let asked = name.and_then(tls::name_in).map(|(id, _)| id);
        let ways = lock(&self.relays.ways);
        let mut found = ways.iter().filter(|(actor, _)| Some(actor.to_hex()) == asked);
        match found.next() {
            Some((&actor, &(way, _))) if !self.actors.contains_key(&actor) => {
                Start::For(actor, way)
            }
            Some(_) | None => Start::Handshake,
        }
    }

    /// Has the process of an actor dial back, and then copies between the two connections until one ends.
    pub(super) async fn relay(
        &self,
        stream: TcpStream,
        (to, way): (ActorId, Ends),
    ) -> Result<(), NotRelayed> {
        if !self.is_up(way) {
            return Err(NotRelayed::Nobody);
        }
        let place = self.relays.place(way).ok_or(NotRelayed::Full(to))?;
        let mut token = Token::default();
        getrandom::fill(&mut token).map_err(io::Error::other)?;
        let (back, came) = oneshot::channel();
        lock(&self.relays.waiting).insert(token, back);
        self.say(way, Item::Dialled(to, token));
        let came = timeout(BACK_WITHIN, came).await;
        lock(&self.relays.waiting).remove(&token);
        let Ok(Ok(other)) = came else { return Err(NotRelayed::NotBack(to)) };
        info!(%to, by = %way.there, "a connection is relayed");
        self.runtime.spawn(async move {
            join(stream, other).await;
            drop(place);
        });
        Ok(())
    }

    /// A connection that was dialled back goes to who waits for it.
    pub(super) async fn came_back(&self, mut stream: TcpStream) -> Result<(), NotRelayed> {
        let (mut start, mut token) = (BACK, Token::default());
        let mut broker = [0; ACTOR_ID_BYTES];
        stream.read_exact(&mut start).await?;
        stream.read_exact(&mut broker).await?;
        stream.read_exact(&mut token).await?;
        let waiting = lock(&self.relays.waiting).remove(&token).filter(|_| start == BACK);
        let waiting = waiting.ok_or(NotRelayed::Unknown)?;
        waiting.send(stream).map_err(|_| NotRelayed::Unknown)
    }

    /// Somebody has dialled an actor of this process at a peer: the peer is dialled back.
    pub(super) fn dial_back(&self, ends: Ends, (to, token): (ActorId, Token)) {
        let address = self.lane(ends).and_then(|lane| lane.address);
        let place = Arc::clone(&self.relays.backs).try_acquire_owned();
        let way = lock(&self.relays.ways).get(&to).map(|(way, _)| *way);
        let further = way.is_some_and(|way| way.there != ends.there && self.is_relayed_by(ends));
        let known = further || self.actors.contains_key(&to);
        let (Some(address), Ok(place), true) = (address, place, known) else {
            return debug!(%to, by = %ends.there, "a connection was not dialled back");
        };
        let back = self.relays.back.clone();
        self.runtime.spawn(async move {
            let dialled = async {
                let mut stream = TcpStream::connect(address).await?;
                stream.write_all(&[&BACK[..], &encode(&ends.there), &token].concat()).await?;
                Ok::<_, io::Error>(stream)
            };
            if let Ok(Ok(stream)) = timeout(CONNECT_WITHIN, dialled).await {
                drop(back.send(stream).await);
            }
            drop(place);
        });
    }
}

/// What a peer that takes connections for this process is told of the actors that this one takes them for.
pub(super) struct RelayedOn<'a> {
    hub: &'a Hub,
    ends: Ends,
    looked: Option<Instant>,
    told: Option<(Vec<(ActorId, u8)>, Instant)>,
}

impl<'a> RelayedOn<'a> {
    pub(super) fn new(hub: &'a Hub, ends: Ends) -> Self {
        Self { hub, ends, looked: None, told: None }
    }

    /// How long to wait, with nothing else to send, before the next look; `None` if the peer is told nothing.
    pub(super) fn pause(&self) -> Option<Duration> {
        self.hub.is_relayed_by(self.ends).then_some(LOOK_EVERY)
    }

    /// What the peer is to be told now: all of it, if it has changed or was told some time ago.
    pub(super) fn due(&mut self) -> Option<Frame> {
        let recent = |at: Option<Instant>, span| at.is_some_and(|at| at.elapsed() < span);
        if recent(self.looked, LOOK_EVERY) || !self.hub.is_relayed_by(self.ends) {
            return None;
        }
        let now = Instant::now();
        self.looked = Some(now);
        let actors = self.hub.to_be_relayed_on(self.ends);
        let told = self.told.as_ref().filter(|(told, _)| *told == actors);
        if recent(told.map(|(_, at)| *at), ALIVE_EVERY) {
            return None;
        }
        self.told = Some((actors.clone(), now));
        Some(Frame::RelayOn(actors))
    }
}

/// Copies both ways until one side ends, or says nothing for longer than any side may.
async fn join(one: TcpStream, other: TcpStream) {
    drop((one.set_nodelay(true), other.set_nodelay(true)));
    let ((from_one, to_one), (from_other, to_other)) = (one.into_split(), other.into_split());
    tokio::select! {
        () = copy(from_one, to_other) => {}
        () = copy(from_other, to_one) => {}
    }
}

async fn copy(mut from: OwnedReadHalf, mut to: OwnedWriteHalf) {
    let (mut bytes, mut budget) = (vec![0; 1 << 14], Budget::new(Rate::PEER, Instant::now()));
    while let Ok(Ok(length @ 1..)) = timeout(SILENT_FOR, from.read(&mut bytes)).await {
        let Ok(Ok(())) = timeout(WRITE_WITHIN, to.write_all(&bytes[..length])).await else {
            return;
        };
        let pause = budget.spend(length, Instant::now());
        if !pause.is_zero() {
            sleep(pause).await;
        }
    }
}
