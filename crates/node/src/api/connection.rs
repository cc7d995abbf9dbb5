//! Connections: who is let in, how many, and for how long.

use std::convert::Infallible;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use tokio::io::AsyncWriteExt as _;
use tokio::net::unix::OwnedWriteHalf;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::spawn_local;
use tokio::time::{sleep, timeout};
use tracing::{debug, error, warn};

use super::asker::Asker;
use super::passing::{Clients, ConversationState, Leave, PassedConnection, Standing};
use super::requests::Requests;
use super::server::AppState;
use super::session::{HeldSession, SessionRequest};
use super::watch::Ended;
use super::{Answer, ApiError, Code, Request};

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
    server.go_on();
    let resumed = Rc::clone(&server.app);
    spawn_local(async move { resumed.resume_sessions().await });
    let mut pause = PAUSE;
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                pause = PAUSE;
                server.admit(stream, ConversationState::default());
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
    /// Goes on with the clients that another server has left.
    fn go_on(self: &Rc<Self>) {
        let Clients { connections, sessions } = self.app.passing().take_come();
        for session in sessions {
            self.app.adopt_of_process(session);
        }
        for PassedConnection { stream, state } in connections {
            // Before sessions that nobody holds are looked for.
            if let Some(Standing::Session(held)) = &state.standing {
                drop(self.app.adopt(held));
            }
            match UnixStream::from_std(stream) {
                Ok(stream) => self.admit(stream, state),
                Err(error) => warn!("a connection that was passed on ends: {error}"),
            }
        }
    }

    /// Begins a conversation, or goes on with one, or says that there are too many.
    fn admit(self: &Rc<Self>, stream: UnixStream, state: ConversationState) {
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
        let (server, leave) = (Rc::clone(self), self.app.passing().conversation());
        spawn_local(async move {
            let conversation = server.begin(stream, (state, leave), Rc::new(place));
            if let Err(error) = conversation.await {
                debug!("a connection ended: {error}");
            }
        });
    }

    /// A place among the watches, if there is one.
    fn watch(&self) -> Result<OwnedSemaphorePermit, ApiError> {
        Arc::clone(&self.watches).try_acquire_owned().map_err(|_| {
            let message = format!("{} connections watch already", self.limits.watches);
            ApiError::new(Code::Busy, message)
        })
    }

    async fn begin(
        &self,
        stream: UnixStream,
        (state, leave): (ConversationState, Leave),
        place: Place,
    ) -> io::Result<()> {
        let (user, own) = (stream.peer_cred()?, rustix::process::geteuid().as_raw());
        let peer = user.uid();
        let (read, half) = stream.into_split();
        let mut out = Writer { half, timeout: self.limits.answer, is_midway: false };
        if peer != own && peer != 0 && !self.app.admits(user).await {
            warn!("user {peer} was turned away: the deployment is user {own}'s");
            let message = format!("this deployment is user {own}'s, not user {peer}'s");
            return out.write(&ApiError::new(Code::Denied, message).into()).await;
        }
        let requests = Requests::new(read, state.read);
        let conversation = Conversation { app: Rc::clone(&self.app), requests, out, leave };
        match (state.standing, self.watch()) {
            (None, _) => self.converse(conversation, (peer, place)).await,
            (Some(standing), Ok(_watch)) => conversation.stand(standing, true).await,
            (Some(_), Err(error)) => conversation.refuse(error).await,
        }
    }

    async fn converse(
        &self,
        mut conversation: Conversation,
        (peer, place): (u32, Place),
    ) -> io::Result<()> {
        loop {
            let line = tokio::select! {
                biased;
                () = conversation.leave.asked() => return conversation.pass_on(None),
                line = timeout(self.limits.request, conversation.requests.next()) => line??,
            };
            let Some(line) = line else { return Ok(()) };
            let key = serde_json::from_slice(&line).map_or(None, |Keyed { key }| key);
            let answer = match serde_json::from_slice(&line).map(Standing::of) {
                Ok(Ok(standing)) => match self.watch() {
                    Ok(_watch) => return conversation.stand(standing, false).await,
                    Err(error) => Err(error),
                },
                Ok(Err(Request::TakeOver)) => match self.app.passing().admit_successor(peer) {
                    Ok(()) => return conversation.end_with_successor(),
                    Err(error) => Err(error),
                },
                Ok(Err(request)) => match Asker::new(peer, key, &request) {
                    Ok(by) => self.answer(request, by, Rc::clone(&place)).await,
                    Err(error) => Err(error),
                },
                Err(error) => {
                    let message = format!("the request makes no sense: {error}");
                    Err(ApiError::new(Code::Usage, message).help("see docs/API.md"))
                }
            };
            conversation.out.write(&answer.unwrap_or_else(Answer::from)).await?;
        }
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
}

/// What one client asks and is answered.
struct Conversation {
    app: Rc<AppState>,
    requests: Requests,
    out: Writer,
    leave: Leave,
}

impl Conversation {
    /// Works on a request that goes on until the client has disconnected; on one that another server had `begun`
    /// before.
    async fn stand(self, standing: Standing, begun: bool) -> io::Result<()> {
        match standing {
            Standing::Leases(_) | Standing::Services(_) => self.watch(standing).await,
            Standing::Session(request) if begun => match self.app.adopt(&request) {
                Ok(held) => self.hold(held).await,
                Err(error) => self.refuse(error).await,
            },
            Standing::Session(request) => self.begin_to_hold(request).await,
        }
    }

    /// A watch ends when its client disconnects. One that is passed on starts again.
    async fn watch(mut self, what: Standing) -> io::Result<()> {
        let watch = async {
            match what.clone() {
                Standing::Leases(lease) => self.app.watch(lease, &mut self.out).await,
                Standing::Services(service) => {
                    self.app.watch_services(service, &mut self.out).await
                }
                Standing::Session(_) => Ok(()),
            }
        };
        let ended = tokio::select! {
            biased;
            ended = watch => ended,
            () = self.requests.gone() => return Ok(()),
            () = self.leave.asked() => return self.pass_on(Some(what)),
        };
        match ended {
            Ok(()) => Ok(()),
            Err(Ended::Gone(error)) => Err(error),
            Err(Ended::Refused(error)) => self.out.write(&error.into()).await,
        }
    }

    async fn begin_to_hold(mut self, request: SessionRequest) -> io::Result<()> {
        let (held, view) = match self.app.hold_session(&request).await {
            Ok(opened) => opened,
            Err(error) => return self.refuse(error).await,
        };
        if let Err(error) = self.out.write(&Answer::whole(view)).await {
            self.app.end_session(&held.session).await;
            return Err(error);
        }
        self.hold(held).await
    }

    /// A session ends when its client disconnects, at once.
    async fn hold(mut self, held: HeldSession) -> io::Result<()> {
        let why = tokio::select! {
            biased;
            why = self.app.until_over(&held) => Some(why),
            () = self.requests.gone() => None,
            () = self.leave.asked() => {
                return self.pass_on(Some(Standing::Session(held.request())));
            }
        };
        self.app.end_session(&held.session).await;
        match why {
            Some(why) => self.out.write(&held.closed(&why).into()).await,
            None => Ok(()),
        }
    }

    async fn refuse(mut self, error: ApiError) -> io::Result<()> {
        self.out.write(&error.into()).await
    }

    /// Another process goes on with it.
    fn pass_on(self, standing: Option<Standing>) -> io::Result<()> {
        if self.out.is_midway {
            return Err(io::Error::other("it is passed on to nobody in the middle of an answer"));
        }
        let Self { app, requests, out, .. } = self;
        let (half, read) = requests.into_parts();
        let stream = half.reunite(out.half).map_err(io::Error::other)?.into_std()?;
        app.passing()
            .give(PassedConnection { stream, state: ConversationState { read, standing } });
        Ok(())
    }

    /// The client is to take over.
    fn end_with_successor(self) -> io::Result<()> {
        let Self { app, requests, out, .. } = self;
        let stream = requests.into_parts().0.reunite(out.half).map_err(io::Error::other)?;
        app.passing().ask(stream.into_std()?);
        Ok(())
    }
}

/// Where answers go.
pub(super) struct Writer {
    half: OwnedWriteHalf,
    timeout: Duration,
    /// Whether a part of an answer may have been written, and no more.
    is_midway: bool,
}

impl Writer {
    /// Writes an answer, and waits no longer than the limit for it to be read.
    pub(super) async fn write(&mut self, answer: &Answer) -> io::Result<()> {
        let line = line(answer)?;
        self.is_midway = true;
        timeout(self.timeout, self.half.write_all(&line)).await??;
        self.is_midway = false;
        Ok(())
    }
}

fn line(answer: &Answer) -> io::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(answer)?;
    line.push(b'\n');
    Ok(line)
}
