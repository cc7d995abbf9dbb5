//! What goes between one actor of this process and one elsewhere: a queue, and a connection at a time.
//!
//! Where the address of the other is known it is dialled, again and again; where it is not, it dials. Should
//! both dial at once, the connection stays that the actor with the lower id has dialled.
//!
//! A site that the holder of a ticket does not know is dialled by its card, and is shown the ticket, or what a
//! broker has endorsed.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tenure_core::actor::Role;
use tenure_core::model::identity::ActorId;
use tenure_core::model::name::Name;
use tenure_core::model::time::Time;
use tenure_core::ticket::Ticket;
use tenure_core::wire::admission::{GRACE, Stranger};
use tenure_core::wire::invitation::SignedInvitation;
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};
use tokio_rustls::{TlsConnector, TlsStream};
use tracing::{debug, info, warn};

use super::allowance::{Allowance, Places};
use super::hub::Hub;
use super::session::{Ends, Item, Pass, Session, SessionEnd, show};
use super::tls;

/// How much waits for a connection. What does not fit is dropped: its sender repeats it.
pub(super) const QUEUE: usize = 1024;

/// How long a connection may take to come about: the network's part, and that of TLS.
pub(super) const CONNECT_WITHIN: Duration = Duration::from_secs(5);

/// The pause after a failure; it doubles with each, up to the longest, and is made up to half longer.
const FIRST_PAUSE: Duration = Duration::from_millis(200);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// A connection that lasted so long was a good one.
const GOOD_AFTER: Duration = Duration::from_secs(10);

/// How often brokers are asked where a site is, as long as that is not known.
const ASK_EVERY: Duration = Duration::from_secs(2);

/// How long a stranger whose connection has ended may take to come back, before it is forgotten.
const STRANGER_STAYS: Duration = Duration::from_secs(60);

/// How often it is looked whether a ticket has ended.
const LOOK_EVERY: Duration = Duration::from_secs(60);

pub(super) type Stream = TlsStream<TcpStream>;

/// The way to one actor elsewhere.
#[derive(Clone)]
pub(super) struct Lane {
    /// How the other is known.
    pub(super) known: Known,
    /// The role of a peer.
    pub(super) role: Option<Role>,
    /// The name of a peer.
    pub(super) name: Option<Name>,
    /// Where a peer is dialled.
    pub(super) address: Option<String>,
    /// The latest ticket, where the other is known by tickets alone.
    pub(super) ticket: Option<Arc<Mutex<Ticket>>>,
    pub(super) queue: mpsc::Sender<Item>,
    pub(super) accepted: mpsc::Sender<Session<Stream>>,
    pub(super) standing: Arc<Mutex<Standing>>,
}

/// How an actor elsewhere is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Known {
    /// It is a peer by configuration.
    Configured,
    /// It is a peer by invitation.
    Joined,
    /// It has invited, and has yet to confirm that.
    Inviting,
    /// It has come with an invitation, and was not taken yet.
    Invited,
    /// By a ticket alone: it is the site of it, or its holder.
    Ticket,
    /// By a broker's endorsement alone: it is a guest of the broker.
    Endorsement,
}

/// How the connection of a lane is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Standing {
    /// Whether there is one.
    pub connected: bool,
    /// Why the last one ended, or did not come about.
    pub error: Option<String>,
    /// How many there were.
    pub connections: u64,
    /// When it came about, or ended.
    pub since: Option<Time>,
}

/// How a connection comes about.
pub(super) enum Way {
    /// The other is dialled there.
    Address(String),
    /// The other dials.
    Inwards,
    /// The other is a site, and is dialled where its card says.
    Card(Arc<Mutex<Ticket>>),
    /// The other has invited: it is dialled there, and is shown the invitation.
    Inviter(String, Box<SignedInvitation>),
    /// The other is known by a pass alone, which lets it in until then; it dials.
    Stranger(
        Stranger,
        Time,
        Arc<Allowance>,
        #[expect(dead_code, reason = "its places are kept as long as the lane is")] Places,
    ),
}

impl Way {
    /// What the other may say, and how much, if it is known by a pass alone.
    fn stranger(&self) -> Option<(Stranger, Arc<Allowance>)> {
        match self {
            Self::Stranger(stranger, _, allowance, _) => Some((*stranger, Arc::clone(allowance))),
            Self::Address(_) | Self::Inwards | Self::Card(_) | Self::Inviter(..) => None,
        }
    }

    /// What is shown to who is dialled, after so many failures.
    fn pass(&self, (hub, ends): (&Hub, Ends), failures: u32) -> Option<Pass> {
        match self {
            Self::Card(ticket) => Some(hub.pass(ends, latest(ticket), failures)),
            Self::Inviter(_, invitation) => Some(Pass::Invitation(invitation.clone())),
            Self::Address(_) | Self::Inwards | Self::Stranger(..) => None,
        }
    }
}

/// Who is at the other end of a lane.
pub(super) struct Other {
    /// For people.
    pub(super) called: String,
    /// The name and the role of a peer.
    pub(super) peer: Option<(Name, Role)>,
    pub(super) known: Known,
}

impl Other {
    /// A peer.
    pub(super) fn peer(name: &Name, role: Role, known: Known) -> Self {
        Self { called: name.to_string(), peer: Some((name.clone(), role)), known }
    }

    /// An actor that is no peer.
    pub(super) fn stranger(id: ActorId, known: Known) -> Self {
        Self { called: id.to_string(), peer: None, known }
    }
}

/// Keeps the connection of a lane.
pub(super) struct Keeper {
    pub(super) ends: Ends,
    /// For people.
    pub(super) name: String,
    pub(super) way: Way,
    pub(super) queue: mpsc::Receiver<Item>,
    pub(super) accepted: mpsc::Receiver<Session<Stream>>,
    pub(super) hub: Arc<Hub>,
    pub(super) standing: Arc<Mutex<Standing>>,
}

/// Who made a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Made {
    Here,
    There,
}

/// What became of a session.
enum Outcome {
    Ended(SessionEnd),
    Replaced(Box<Session<Stream>>),
    /// Nobody has use for the lane any more.
    Over,
}

impl Keeper {
    /// Runs until nobody has use for the lane.
    pub(super) async fn run(mut self) {
        let mut failures = 0;
        let mut next = self.connection(&mut failures).await;
        while let Some((session, made)) = next.take() {
            let began = Instant::now();
            self.connected();
            next = match self.keep(session, made).await {
                Outcome::Replaced(newer) => Some((*newer, Made::There)),
                Outcome::Ended(end) => {
                    failures = if began.elapsed() > GOOD_AFTER { 0 } else { failures + 1 };
                    self.ended(&end);
                    self.connection(&mut failures).await
                }
                Outcome::Over => None,
            };
        }
        self.hub.remove(self.ends, &self.standing);
    }

    /// Runs a session until it ends, or another one takes its place.
    async fn keep(&mut self, session: Session<Stream>, made: Made) -> Outcome {
        let Self { queue, accepted, hub, way, ends, .. } = self;
        let run = session.run(queue, (hub, way.stranger()));
        let over = over(way, hub);
        tokio::pin!(run, over);
        loop {
            let newer = tokio::select! {
                end = &mut run => return Outcome::Ended(end),
                newer = accepted.recv() => newer,
                () = &mut over => None,
            };
            let Some(newer) = newer else { return Outcome::Over };
            // Of one that was dialled here the other side need not know any more, unless it is the one to stay.
            if made == Made::There || ends.there < ends.here {
                return Outcome::Replaced(Box::new(newer));
            }
            newer.part("there is a connection already").await;
        }
    }

    /// The next connection: one that the other side makes, or one that is made here.
    async fn connection(&mut self, failures: &mut u32) -> Option<(Session<Stream>, Made)> {
        loop {
            let Self { accepted, hub, way, ends, .. } = self;
            let dialled = tokio::select! {
                accepted = accepted.recv() => return accepted.map(|there| (there, Made::There)),
                dialled = dial(hub, way, *ends, *failures) => dialled,
                () = forgotten(way, hub) => return None,
            };
            match dialled {
                Ok(session) => return Some((session, Made::Here)),
                Err(end) => {
                    *failures += 1;
                    self.ended(&end);
                }
            }
        }
    }

    fn connected(&self) {
        info!(peer = %self.name, "connected");
        let mut standing = self.standing.lock().unwrap_or_else(PoisonError::into_inner);
        let (connections, since) = (standing.connections + 1, Some(self.hub.clock.now()));
        *standing = Standing { connected: true, error: None, connections, since };
    }

    /// Says what is wrong once, and again only if it is something else.
    fn ended(&self, end: &SessionEnd) {
        let error = end.to_string();
        let mut standing = self.standing.lock().unwrap_or_else(PoisonError::into_inner);
        if standing.error.as_ref() == Some(&error) && !standing.connected {
            debug!(peer = %self.name, %error, "still not connected");
        } else {
            warn!(peer = %self.name, %error, "not connected");
        }
        if standing.connected {
            standing.since = Some(self.hub.clock.now());
        }
        (standing.connected, standing.error) = (false, Some(error));
    }
}

/// Opens a lane, unless there is one already.
pub(super) fn open(hub: &Arc<Hub>, ends: Ends, other: Other, way: Way) -> Lane {
    let (lane, keeper) = lane(hub, ends, other, way);
    if let Err(other) = hub.add(ends, lane.clone()) {
        return other;
    }
    hub.runtime.spawn(keeper.run());
    lane
}

/// Opens a lane in the place of the one that there is, whose connection is closed.
pub(super) fn reopen(hub: &Arc<Hub>, ends: Ends, other: Other, way: Way) {
    let (lane, keeper) = lane(hub, ends, other, way);
    hub.put(ends, lane);
    hub.runtime.spawn(keeper.run());
}

fn lane(hub: &Arc<Hub>, ends: Ends, other: Other, way: Way) -> (Lane, Keeper) {
    let (sender, queue) = mpsc::channel(QUEUE);
    let (accepts, accepted) = mpsc::channel(1);
    let standing = Arc::new(Mutex::new(Standing::default()));
    let (address, ticket) = match &way {
        Way::Address(address) | Way::Inviter(address, _) => (Some(address.clone()), None),
        Way::Card(ticket) => (None, Some(Arc::clone(ticket))),
        Way::Inwards | Way::Stranger(..) => (None, None),
    };
    let shared = Arc::clone(&standing);
    let Other { called, peer, known } = other;
    let (name, role) = peer.unzip();
    let lane = Lane {
        known,
        role,
        name,
        address,
        ticket,
        queue: sender,
        accepted: accepts,
        standing: shared,
    };
    let hub = Arc::clone(hub);
    (lane, Keeper { ends, name: called, way, queue, accepted, hub, standing })
}

/// Waits until a lane of a ticket has no use any more.
async fn over(way: &Way, hub: &Hub) {
    loop {
        let until = match way {
            Way::Address(_) | Way::Inwards | Way::Inviter(..) => {
                return std::future::pending().await;
            }
            Way::Card(ticket) => latest(ticket).bottom().term.end().plus(GRACE),
            Way::Stranger(_, until, _, _) => *until,
        };
        let now = hub.clock.now();
        if until <= now {
            return;
        }
        sleep(hub.clock.outside(until.since(now)).min(LOOK_EVERY)).await;
    }
}

/// Waits until a lane without a connection has no use any more.
async fn forgotten(way: &Way, hub: &Hub) {
    match way {
        Way::Stranger(..) => sleep(STRANGER_STAYS).await,
        Way::Address(_) | Way::Inwards | Way::Card(_) | Way::Inviter(..) => {
            over(way, hub).await;
        }
    }
}

fn latest(ticket: &Mutex<Ticket>) -> Ticket {
    ticket.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

/// Where the other side is dialled; of one that dials itself it never says so.
async fn address(hub: &Hub, way: &Way, ends: Ends) -> String {
    match way {
        Way::Address(address) | Way::Inviter(address, _) => address.clone(),
        Way::Inwards | Way::Stranger(..) => std::future::pending().await,
        Way::Card(_) => {
            let mut ask_at = Instant::now();
            loop {
                let changed = hub.cards.changed.notified();
                if let Some(signed) = hub.cards.get(ends.there, hub.clock.now()) {
                    return signed.card.address;
                }
                // Cards of others wake it, too.
                if Instant::now() >= ask_at {
                    hub.ask_where(ends.here, ends.there);
                    ask_at = Instant::now() + ASK_EVERY;
                }
                drop(timeout(ask_at.saturating_duration_since(Instant::now()), changed).await);
            }
        }
    }
}

/// Dials the other side, after a pause if that failed before.
async fn dial(
    hub: &Arc<Hub>,
    way: &Way,
    ends: Ends,
    failures: u32,
) -> Result<Session<Stream>, SessionEnd> {
    let address = address(hub, way, ends).await;
    sleep(pause(failures)).await;
    let made = async {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        // What the other has noted may have been lost on the way back: then it knows the key in force.
        let noted = if failures.is_multiple_of(2) { hub.noted(ends) } else { u32::MAX };
        let Some(own) = hub.secret(ends.here, noted) else { return Err(SessionEnd::Closed) };
        let client = tls::client(&own, hub, ends).map_err(io::Error::other)?;
        let name = tls::server_name(ends.there, hub.statements_of(ends));
        let name = name.map_err(io::Error::other)?;
        let mut stream = TlsConnector::from(client).connect(name, stream).await?;
        if let Some(pass) = way.pass((hub, ends), failures) {
            show(&mut stream, &pass).await?;
        }
        Session::begin(TlsStream::from(stream), ends).await
    };
    let late = || io::Error::from(io::ErrorKind::TimedOut);
    timeout(CONNECT_WITHIN, made).await.map_err(|_| SessionEnd::Io(late()))?
}

/// How long to wait after so many failures in a row: random, so that many do not come back at once.
fn pause(failures: u32) -> Duration {
    let Some(doublings) = failures.checked_sub(1) else { return Duration::ZERO };
    let pause = FIRST_PAUSE.saturating_mul(1 << doublings.min(16)).min(LONGEST_PAUSE);
    // Without randomness all come back at once, which is no harm.
    let random = getrandom::u32().unwrap_or_default();
    pause + pause.mul_f64(f64::from(random) / f64::from(u32::MAX) / 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_the_longest_and_are_made_up_to_half_longer() {
        assert_eq!(pause(0), Duration::ZERO);
        for (failures, least) in [(1, 200), (2, 400), (5, 3200), (9, 30_000), (1000, 30_000)] {
            let least = Duration::from_millis(least);
            for _ in 0..100 {
                let pause = pause(failures);
                assert!(least <= pause && pause <= least.mul_f64(1.5), "{failures}: {pause:?}");
            }
        }
    }
}
