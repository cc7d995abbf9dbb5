//! Connections: who is let in, how many, and for how long.

use std::convert::Infallible;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::spawn_local;
use tokio::time::{sleep, timeout};
use tracing::{debug, error, warn};

use super::ServiceName;
use super::asker::Asker;
use super::server::AppState;
use super::session::SessionRequest;
use super::watch::Ended;
use super::{Answer, ApiError, Code, LeaseName, MAX_REQUEST, Request};

/// The pauses after connections could not be taken: the first, and the longest.
const PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// How much the control API takes.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// How many connections are open at a time.
    pub connections: usize,
    /// How many of them watch.
    pub watches: usize,
    /// How long a whole request may take to come, from the answer before it on.
    pub request: Duration,
    /// How long a request may take before it is answered that its result is unknown.
    pub work: Duration,
    /// How long a client may take to read an answer.
    pub answer: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 256,
            watches: 128,
            request: Duration::from_secs(60),
            work: Duration::from_secs(60),
            answer: Duration::from_secs(30),
        }
    }
}

/// Takes connections, also after the system refused some, for as long as it is polled. Runs on a thread of
/// its own kind: a `LocalSet` or an actix system.
pub async fn serve(listener: Rc<UnixListener>, app: Rc<AppState>, limits: Limits) -> Infallible {
    let server = Rc::new(Server {
        app,
        limits,
        connections: Arc::new(Semaphore::new(limits.connections)),
        watches: Arc::new(Semaphore::new(limits.watches)),
    });
    let resumed = Rc::clone(&server.app);
    spawn_local(async move { resumed.resume_sessions().await });
    let mut pause = PAUSE;
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                pause = PAUSE;
                server.admit(stream);
            }
            Err(error) => {
                error!("no connection is taken for {} ms: {error}", pause.as_millis());
                sleep(pause).await;
                pause = LONGEST_PAUSE.min(pause * 2);
            }
        }
    }
}

struct Server {
    app: Rc<AppState>,
    limits: Limits,
    connections: Arc<Semaphore>,
    watches: Arc<Semaphore>,
}

/// The idempotency key of a request for a change.
#[derive(Deserialize)]
struct Keyed {
    key: Option<String>,
}

/// A place among the connections; kept also by a request that outlasts its connection.
type Place = Rc<OwnedSemaphorePermit>;

impl Server {
    /// Begins a conversation, or says that there are too many.
    fn admit(self: &Rc<Self>, stream: UnixStream) {
        let Ok(place) = Arc::clone(&self.connections).try_acquire_owned() else {
            warn!("a connection was turned away: {} are open", self.limits.connections);
            let message = format!("{} connections are open already", self.limits.connections);
            let busy = ApiError::new(Code::Busy, message).help("close some, or try again later");
            if let Ok(line) = line(&busy.into()) {
                // Nothing was written before, so there is room for it; who has gone needs no answer.
                let _ = stream.try_write(&line);
            }
            return;
        };
        let server = Rc::clone(self);
        spawn_local(async move {
            if let Err(error) = server.converse(stream, Rc::new(place)).await {
                debug!("a connection ended: {error}");
            }
        });
    }

    /// A place among the watches, if there is one.
    fn watch(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.watches).try_acquire_owned().ok()
    }

    async fn converse(&self, stream: UnixStream, place: Place) -> io::Result<()> {
        let (user, own) = (stream.peer_cred()?, rustix::process::geteuid().as_raw());
        let peer = user.uid();
        let (read, half) = stream.into_split();
        let mut out = Writer { half, timeout: self.limits.answer };
        if peer != own && peer != 0 && !self.app.admits(user).await {
            warn!("user {peer} was turned away: the deployment is user {own}'s");
            let message = format!("this deployment is user {own}'s, not user {peer}'s");
            return out.write(&ApiError::new(Code::Denied, message).into()).await;
        }
        let mut reader = BufReader::new(read);
        while let Some(line) = timeout(self.limits.request, request_line(&mut reader)).await?? {
            let key = serde_json::from_slice(&line).map_or(None, |Keyed { key }| key);
            let answer = match serde_json::from_slice(&line) {
                Ok(Request::Watch { lease }) => match self.watch() {
                    Some(_place) => {
                        return watched(&self.app, Watched::Leases(lease), reader, out).await;
                    }
                    None => Err(self.too_many_watch()),
                },
                Ok(Request::WatchServices { service }) => match self.watch() {
                    Some(_place) => {
                        return watched(&self.app, Watched::Services(service), reader, out).await;
                    }
                    None => Err(self.too_many_watch()),
                },
                Ok(Request::HoldSession(request)) => match self.watch() {
                    Some(_place) => return held(&self.app, request, reader, out).await,
                    None => Err(self.too_many_watch()),
                },
                Ok(request) => match Asker::new(peer, key, &request) {
                    Ok(by) => self.answer(request, by, Rc::clone(&place)).await,
                    Err(error) => Err(error),
                },
                Err(error) => {
                    let message = format!("the request makes no sense: {error}");
                    Err(ApiError::new(Code::Usage, message).help("see docs/API.md"))
                }
            };
            out.write(&answer.unwrap_or_else(Answer::from)).await?;
        }
        Ok(())
    }

    /// Works on a request. One that takes too long continues without its asker, since what it changes must be
    /// taken note of.
    async fn answer(&self, request: Request, by: Asker, place: Place) -> Result<Answer, ApiError> {
        let (app, within) = (Rc::clone(&self.app), self.limits.work + request.takes());
        let work = spawn_local(async move {
            let _place = place;
            app.answer(request, &by).await
        });
        let unknown = |message: String| {
            Err(ApiError::new(Code::Failed, message).help("look before you try again"))
        };
        match timeout(within, work).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(error)) => {
                error!("a request was not answered: {error}");
                unknown(format!("the request was not answered: {error}"))
            }
            Err(_) => unknown(format!("no answer within {} s", within.as_secs_f64())),
        }
    }

    fn too_many_watch(&self) -> ApiError {
        ApiError::new(Code::Busy, format!("{} connections watch already", self.limits.watches))
    }
}

/// What is watched; all of them unless one is named.
enum Watched {
    Leases(Option<LeaseName>),
    Services(Option<ServiceName>),
}

/// A watch ends when its client disconnects.
async fn watched(
    app: &AppState,
    what: Watched,
    mut reader: BufReader<OwnedReadHalf>,
    mut out: Writer,
) -> io::Result<()> {
    let mut rest = [0; 1];
    let watch = async {
        match what {
            Watched::Leases(lease) => app.watch(lease, &mut out).await,
            Watched::Services(service) => app.watch_services(service, &mut out).await,
        }
    };
    let ended = tokio::select! {
        biased;
        ended = watch => ended,
        _ = reader.read(&mut rest) => return Ok(()),
    };
    match ended {
        Ok(()) => Ok(()),
        Err(Ended::Gone(error)) => Err(error),
        Err(Ended::Refused(error)) => out.write(&error.into()).await,
    }
}

/// A session ends when its client disconnects, at once.
async fn held(
    app: &Rc<AppState>,
    request: SessionRequest,
    mut reader: BufReader<OwnedReadHalf>,
    mut out: Writer,
) -> io::Result<()> {
    let (mut rest, mut opened) = ([0; 1], None);
    let ended = tokio::select! {
        biased;
        ended = app.hold_session(&request, &mut out, &mut opened) => ended,
        _ = reader.read(&mut rest) => Ok(()),
    };
    if let Some(session) = opened {
        app.end_session(&session).await;
    }
    match ended {
        Ok(()) => Ok(()),
        Err(Ended::Gone(error)) => Err(error),
        Err(Ended::Refused(error)) => out.write(&error.into()).await,
    }
}

/// The next line, `None` at the end. One that is too long ends the conversation.
async fn request_line(reader: &mut BufReader<OwnedReadHalf>) -> io::Result<Option<Vec<u8>>> {
    let mut line = Vec::new();
    let most = u64::try_from(MAX_REQUEST).unwrap_or(u64::MAX);
    reader.take(most).read_until(b'\n', &mut line).await?;
    match line.last() {
        None => Ok(None),
        Some(b'\n') => Ok(Some(line)),
        Some(_) if line.len() == MAX_REQUEST => {
            Err(io::Error::new(io::ErrorKind::InvalidData, "a request is too long"))
        }
        Some(_) => Ok(Some(line)),
    }
}

/// Where answers go.
pub(super) struct Writer {
    half: OwnedWriteHalf,
    timeout: Duration,
}

impl Writer {
    /// Writes an answer, and waits no longer than the limit for it to be read.
    pub(super) async fn write(&mut self, answer: &Answer) -> io::Result<()> {
        timeout(self.timeout, self.half.write_all(&line(answer)?)).await?
    }
}

fn line(answer: &Answer) -> io::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(answer)?;
    line.push(b'\n');
    Ok(line)
}
