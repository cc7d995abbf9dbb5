//! What goes between one actor of this process and one elsewhere: a queue, and a connection at a time.
//!
//! Where the address of the other is known it is dialled, again and again; where it is not, it dials. Should
//! both dial at once, the connection stays that the actor with the lower id has dialled.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustls::ClientConfig;
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};
use tokio_rustls::{TlsConnector, TlsStream};
use tracing::{debug, info, warn};

use super::session::{Ends, Item, Session, SessionEnd};
use super::tls;
use crate::transport::Transport;

/// How much waits for a connection. What does not fit is dropped: its sender repeats it.
pub(super) const QUEUE: usize = 1024;

/// How long a connection may take to come about: the network's part, and that of TLS.
pub(super) const CONNECT_WITHIN: Duration = Duration::from_secs(5);

/// The pause after a failure; it doubles with each, up to the longest, and is made up to half longer.
const FIRST_PAUSE: Duration = Duration::from_millis(200);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// A connection that lasted so long was a good one.
const GOOD_AFTER: Duration = Duration::from_secs(10);

pub(super) type Stream = TlsStream<TcpStream>;

/// The way to one actor elsewhere.
pub(super) struct Lane {
    pub(super) queue: mpsc::Sender<Item>,
    pub(super) accepted: mpsc::Sender<Session<Stream>>,
    pub(super) standing: Arc<Mutex<Standing>>,
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
}

/// Keeps the connection of a lane.
pub(super) struct Keeper {
    pub(super) ends: Ends,
    /// For people.
    pub(super) name: String,
    pub(super) address: Option<String>,
    pub(super) client: Arc<ClientConfig>,
    pub(super) queue: mpsc::Receiver<Item>,
    pub(super) accepted: mpsc::Receiver<Session<Stream>>,
    pub(super) local: Arc<dyn Transport>,
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
    }

    /// Runs a session until it ends, or another one takes its place.
    async fn keep(&mut self, session: Session<Stream>, made: Made) -> Outcome {
        let Self { queue, accepted, local, ends, .. } = self;
        let run = session.run(queue, &**local);
        tokio::pin!(run);
        loop {
            let newer = tokio::select! {
                end = &mut run => return Outcome::Ended(end),
                newer = accepted.recv() => newer,
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
            let dialled = tokio::select! {
                accepted = self.accepted.recv() => return accepted.map(|there| (there, Made::There)),
                dialled = dial(&self.client, self.address.as_deref(), self.ends, *failures) => dialled,
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
        *standing =
            Standing { connected: true, error: None, connections: standing.connections + 1 };
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
        (standing.connected, standing.error) = (false, Some(error));
    }
}

/// Dials the other side, after a pause if that failed before. Without an address, waits for ever.
async fn dial(
    client: &Arc<ClientConfig>,
    address: Option<&str>,
    ends: Ends,
    failures: u32,
) -> Result<Session<Stream>, SessionEnd> {
    let Some(address) = address else { return std::future::pending().await };
    sleep(pause(failures)).await;
    let made = async {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let name = tls::server_name(ends.there).map_err(std::io::Error::other)?;
        let stream = TlsConnector::from(Arc::clone(client)).connect(name, stream).await?;
        Session::begin(TlsStream::from(stream), ends).await
    };
    let late = || std::io::Error::from(std::io::ErrorKind::TimedOut);
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
