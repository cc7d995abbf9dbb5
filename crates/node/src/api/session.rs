//! Sessions: leases that end with the program that uses them.
//!
//! A session is a slice of its own, and its leases are leases like others. Who holds it, a connection or a process, is
//! known to this process alone, which [passes](super::passing) it to one that takes over: what is durable are the
//! leases. After a restart a session has its [keep-alive](SessionRequest::keep_alive) to be held again, and its leases
//! say how long that is: their sites end them if nothing is heard from the guest for so long.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::str::FromStr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustix::process::{Pid, PidfdFlags, pidfd_open};
use serde::{Deserialize, Serialize};
use tenure_core::model::name::Name;
use tenure_core::model::time::Span;
use tenure_core::service_manager::LeaseSurvey;
use tenure_core::wire::heartbeat::{self, KEEP_ALIVE};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::Notify;
use tokio::task::spawn_local;
use tokio::time::sleep;
use tracing::{info, warn};

use super::asker::Asker;
use super::lease_request;
use super::passing::{PassedSession, SessionState};
use super::server::{ApiResult, AppState, json};
use super::view::LeaseView;
use super::{ApiError, Code, Request, pause};
use crate::subject::number_of;

/// What the slices of sessions begin with.
const PREFIX: &str = "session-";

/// The pause before leases are given back once more that could not be.
const PAUSE: Duration = Duration::from_secs(1);

/// The property of the leases of a session that goes on without those that it loses.
const ON_LOSS: &str = "session.on-loss";

/// What becomes of a session that loses a lease, or does not get one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OnLoss {
    /// All of its leases go back.
    #[default]
    Close,
    /// It goes on with the others.
    Keep,
}

impl OnLoss {
    /// As users and the leases of a session say it.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Close => "close",
            Self::Keep => "keep",
        }
    }

    /// As the leases of a session say it.
    fn of(lease: &LeaseView) -> Self {
        let word = lease.configuration.get(ON_LOSS);
        word.and_then(|word| word.parse().ok()).unwrap_or_default()
    }
}

impl FromStr for OnLoss {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        let all = [Self::Close, Self::Keep];
        all.into_iter()
            .find(|known| known.word() == word)
            .ok_or_else(|| "write `close` or `keep`".to_owned())
    }
}

/// A session that is opened, or held again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionRequest {
    /// The service manager that has the leases; may be left out if there is only one without a demand of its own.
    #[serde(default)]
    pub manager: Option<Name>,
    /// One that was held before a restart; a new one unless set.
    #[serde(default)]
    pub session: Option<Name>,
    /// How long its leases go on without a heartbeat from their guest, and how long the session may stay unheld after a
    /// restart of the deployment: eight clock margins to an hour.
    pub keep_alive: Span,
    /// The process that it ends with; the connection unless set.
    #[serde(default)]
    pub pid: Option<u32>,
    /// What becomes of it when it loses a lease.
    #[serde(default)]
    pub on_loss: OnLoss,
}

/// A session, as it is shown.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionView {
    /// The session, and the slice of its leases.
    pub session: String,
    /// The service manager that has them.
    pub manager: String,
    /// What it ends with: `connection`, `process 4711`, or `nobody` after a restart.
    pub held_by: String,
    /// What becomes of it when it loses a lease.
    #[serde(default)]
    pub on_loss: OnLoss,
    /// Its leases that have not ended.
    pub leases: Vec<String>,
    /// How many units they have in use, of those that their sites have confirmed since this deployment's start.
    pub units: u32,
}

/// What a session ends with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Holder {
    Connection,
    Process(u32),
    Nobody,
}

/// One session of this process.
#[derive(Debug)]
struct Held {
    manager: Name,
    holder: Holder,
    /// The process that holds it, to be passed on.
    process: Option<OwnedFd>,
    keep_alive: Span,
    on_loss: OnLoss,
    /// Tells who holds it that it was closed.
    ended: Arc<Notify>,
}

/// The sessions that are open.
#[derive(Debug, Default)]
pub(super) struct Sessions(Mutex<BTreeMap<Name, Held>>);

impl Sessions {
    fn with<T>(&self, look: impl FnOnce(&mut BTreeMap<Name, Held>) -> T) -> T {
        look(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Those that processes hold, to be passed on.
    pub(super) fn of_processes(&self) -> Vec<PassedSession> {
        let passed = |(session, held): (&Name, &Held)| {
            let Holder::Process(pid) = held.holder else { return None };
            let process = held.process.as_ref()?.try_clone().ok()?;
            let (session, manager) = (session.clone(), held.manager.clone());
            let Held { keep_alive, on_loss, .. } = *held;
            let state = SessionState { session, manager, keep_alive, on_loss, pid };
            Some(PassedSession { state, process })
        };
        self.with(|all| all.iter().filter_map(passed).collect())
    }

    /// Whether it is still open, and held by that.
    fn is_held(&self, session: &Name, holder: Holder) -> bool {
        self.with(|all| all.get(session).is_some_and(|held| held.holder == holder))
    }
}

/// A session that a client holds.
pub(super) struct HeldSession {
    pub(super) session: Name,
    manager: Name,
    keep_alive: Span,
    on_loss: OnLoss,
    ended: Arc<Notify>,
}

impl HeldSession {
    /// By what another process knows it.
    pub(super) fn request(&self) -> SessionRequest {
        let (manager, session) = (Some(self.manager.clone()), Some(self.session.clone()));
        let (keep_alive, on_loss) = (self.keep_alive, self.on_loss);
        SessionRequest { manager, session, keep_alive, on_loss, pid: None }
    }

    /// It is over.
    pub(super) fn closed(&self, why: &str) -> ApiError {
        closed(&self.session, why)
    }
}

impl AppState {
    /// The sessions that were open before a restart go on for a while without being held.
    pub(super) async fn resume_sessions(self: &Rc<Self>) {
        for manager in self.all_managers() {
            let leases = loop {
                let of_any = |lease: &LeaseSurvey<'_>| {
                    lease.slice.as_str().starts_with(PREFIX) && !lease.state.is_over()
                };
                match self.page(&manager, (None, usize::MAX), of_any).await {
                    Ok((leases, _)) => break leases,
                    Err(error) => warn!("the sessions of {manager} are not known yet: {error}"),
                }
                sleep(PAUSE).await;
            };
            self.resume_all(&manager, &leases);
        }
    }

    /// A session that is to be held again may be known by its leases alone, and these have to be confirmed by their sites.
    async fn recover(self: &Rc<Self>, manager: &Name, request: &SessionRequest) -> ApiResult<()> {
        if let Some(session) = &request.session {
            let leases = self.leases_of(manager, session).await?;
            self.resume_all(manager, &leases);
            // One may have ended while the deployment was down.
            if let Some(lease) = leases.iter().find(|lease| lease.unconfirmed) {
                let lease = &lease.lease;
                let message = format!("the site of lease {lease} has yet to confirm it");
                return Err(ApiError::new(Code::Busy, message).help("try again in a moment"));
            }
        }
        Ok(())
    }

    fn resume_all(self: &Rc<Self>, manager: &Name, leases: &[LeaseView]) {
        for lease in leases {
            let keep_alive = lease.configuration.get(KEEP_ALIVE);
            let keep_alive = keep_alive.and_then(|text| text.parse::<Span>().ok());
            if let Some((session, keep_alive)) = Name::new(&lease.slice).ok().zip(keep_alive) {
                self.resume(manager, session, (keep_alive, OnLoss::of(lease)));
            }
        }
    }

    fn resume(
        self: &Rc<Self>,
        manager: &Name,
        session: Name,
        (keep_alive, on_loss): (Span, OnLoss),
    ) {
        let held = Held {
            manager: manager.clone(),
            holder: Holder::Nobody,
            process: None,
            keep_alive,
            on_loss,
            ended: Arc::default(),
        };
        let is_new = self.sessions().with(|all| match all.contains_key(&session) {
            true => false,
            false => all.insert(session.clone(), held).is_none(),
        });
        if !is_new {
            return;
        }
        let (app, within) = (Rc::clone(self), pause(keep_alive));
        spawn_local(async move {
            sleep(within).await;
            if app.sessions().is_held(&session, Holder::Nobody) {
                info!("{session} was not held again");
                app.end_session(&session).await;
            }
        });
    }

    /// Opens a session for a connection to hold, and shows it.
    pub(super) async fn hold_session(
        self: &Rc<Self>,
        request: &SessionRequest,
    ) -> ApiResult<(HeldSession, serde_json::Value)> {
        let manager = lease_request::manager(self, request.manager.as_ref())?;
        self.recover(&manager, request).await?;
        let held = self.open_session(&manager, request, (Holder::Connection, None))?;
        match self.session(&held.session).await.and_then(|view| json(&view)) {
            Ok(view) => Ok((held, view)),
            Err(error) => {
                self.end_session(&held.session).await;
                Err(error)
            }
        }
    }

    /// Goes on with a session that another server has opened for a connection.
    pub(super) fn adopt(&self, request: &SessionRequest) -> ApiResult<HeldSession> {
        let manager = lease_request::manager(self, request.manager.as_ref())?;
        let session = request.session.clone().ok_or_else(|| {
            ApiError::new(Code::Usage, "a session that is passed on has no name".to_owned())
        })?;
        let settings = (request.keep_alive, request.on_loss);
        Ok(self.enter((manager, session), settings, (Holder::Connection, None)))
    }

    /// Goes on with a session that another server has opened for a process.
    pub(super) fn adopt_of_process(
        self: &Rc<Self>,
        PassedSession { state, process }: PassedSession,
    ) {
        let SessionState { session, manager, keep_alive, on_loss, pid } = state;
        match watched(&process) {
            Ok(watched) => {
                let holder = (Holder::Process(pid), Some(process));
                let held = self.enter((manager, session), (keep_alive, on_loss), holder);
                self.follow(held, pid, watched);
            }
            Err(error) => warn!("{session} is held by nobody: process {pid}: {error}"),
        }
    }

    /// Enters a session that is known by its leases at most.
    fn enter(
        &self,
        (manager, session): (Name, Name),
        (keep_alive, on_loss): (Span, OnLoss),
        (holder, process): (Holder, Option<OwnedFd>),
    ) -> HeldSession {
        let ended = self.sessions().with(|all| {
            let known = all.get(&session).map(|held| Arc::clone(&held.ended));
            let ended = known.unwrap_or_default();
            let (manager, known) = (manager.clone(), Arc::clone(&ended));
            let held = Held { manager, holder, process, keep_alive, on_loss, ended: known };
            all.insert(session.clone(), held);
            ended
        });
        HeldSession { session, manager, keep_alive, on_loss, ended }
    }

    /// Waits until a session is closed, or has lost a lease and ends with it; which of them.
    pub(super) async fn until_over(&self, held: &HeldSession) -> String {
        let HeldSession { session, manager, on_loss, ended, .. } = held;
        let lost = async {
            if *on_loss == OnLoss::Keep {
                return std::future::pending().await;
            }
            loop {
                match self.until_lost(manager, session).await {
                    Ok(lost) => return lost,
                    // The service manager is down, or has more to tell than was looked at.
                    Err(error) => warn!("{session} is looked at again: {error}"),
                }
                sleep(PAUSE).await;
            }
        };
        tokio::select! {
            () = ended.notified() => "it was closed".to_owned(),
            lost = lost => lost,
        }
    }

    /// Waits until a lease of a session is lost that nobody has given back; which one, and how.
    async fn until_lost(&self, manager: &Name, session: &Name) -> ApiResult<String> {
        let mut news = self.news(std::slice::from_ref(manager), number_of).await?;
        let of = session.clone();
        let of_session = move |lease: &LeaseSurvey<'_>| *lease.slice == of;
        let (mut leases, _) = self.page(manager, (None, usize::MAX), of_session.clone()).await?;
        loop {
            if let Some(lost) = lost(&leases) {
                return Ok(lost);
            }
            let Some((_, numbers)) = news.next().await?.pop_first() else { break };
            leases = self.leases_of_requests(manager, numbers, of_session.clone()).await?;
        }
        Err(ApiError::new(Code::Failed, format!("{manager} tells of nothing any more")))
    }

    /// A session for as long as a process runs.
    pub(super) async fn open_for_process(
        self: &Rc<Self>,
        request: &SessionRequest,
    ) -> ApiResult<SessionView> {
        let Some(pid) = request.pid else {
            let message = "say which process the session ends with";
            return Err(ApiError::new(Code::Usage, message).help("add `pid`"));
        };
        let manager = lease_request::manager(self, request.manager.as_ref())?;
        let process = process(pid)?;
        let watched = watched(&process)
            .map_err(|error| ApiError::new(Code::Failed, format!("process {pid}: {error}")))?;
        self.recover(&manager, request).await?;
        let held = self.open_session(&manager, request, (Holder::Process(pid), Some(process)))?;
        let session = held.session.clone();
        self.follow(held, pid, watched);
        self.session(&session).await
    }

    /// Ends a session with its process.
    fn follow(self: &Rc<Self>, held: HeldSession, pid: u32, process: AsyncFd<OwnedFd>) {
        let app = Rc::clone(self);
        spawn_local(async move {
            let why = tokio::select! {
                _ = process.readable() => format!("process {pid} has ended"),
                why = app.until_over(&held) => why,
            };
            info!("{} ends: {why}", held.session);
            app.end_session(&held.session).await;
        });
    }

    /// Enters a session with what holds it.
    fn open_session(
        &self,
        manager: &Name,
        request: &SessionRequest,
        holder: (Holder, Option<OwnedFd>),
    ) -> ApiResult<HeldSession> {
        let SessionRequest { keep_alive, on_loss, .. } = *request;
        heartbeat::check(keep_alive, self.config().margin).map_err(|error| {
            ApiError::new(Code::Usage, error.to_string()).help("choose another --keep-alive")
        })?;
        let session = match &request.session {
            Some(session) => session.clone(),
            None => new_name()?,
        };
        let most = self.config().service_managers.get(manager).and_then(|of| of.sessions);
        let look = |all: &mut BTreeMap<Name, Held>| {
            (all.get(&session).map(|known| known.holder), open_of(all, manager))
        };
        match self.sessions().with(look) {
            (Some(Holder::Connection | Holder::Process(_)), _) => {
                let message = format!("{session} is held by somebody else");
                Err(ApiError::new(Code::Busy, message))
            }
            (None, _) if request.session.is_some() => Err(closed(&session, "it is not open")),
            (None, open) if most.is_some_and(|most| open >= most) => {
                let message = format!("{manager} has as many sessions as it may");
                Err(ApiError::new(Code::Busy, message).help("close one, or try again later"))
            }
            (Some(Holder::Nobody) | None, _) => {
                Ok(self.enter((manager.clone(), session), (keep_alive, on_loss), holder))
            }
        }
    }

    /// Ends a session: all its leases go back, and what is asked for it is withdrawn.
    pub(super) async fn end_session(&self, session: &Name) {
        let held = self.sessions().with(|all| all.remove(session));
        let Some(held) = held else { return };
        held.ended.notify_one();
        while let Err(error) = self.give_session_back(&held.manager, session).await {
            warn!("the leases of {session} are given back later: {error}");
            sleep(PAUSE).await;
        }
    }

    async fn give_session_back(&self, manager: &Name, session: &Name) -> ApiResult<()> {
        let by = Asker::new(
            rustix::process::geteuid().as_raw(),
            None,
            &Request::CloseSession { session: session.clone() },
        )?;
        let leases = self.leases_of(manager, session).await?;
        lease_request::withdraw(self, manager, &leases, &by).await
    }

    /// The leases of a session that have not ended.
    async fn leases_of(&self, manager: &Name, session: &Name) -> ApiResult<Vec<LeaseView>> {
        let session = session.clone();
        let of_session =
            move |lease: &LeaseSurvey<'_>| *lease.slice == session && !lease.state.is_over();
        Ok(self.page(manager, (None, usize::MAX), of_session).await?.0)
    }

    /// The sessions that are open.
    pub(super) async fn sessions_open(&self) -> ApiResult<Vec<SessionView>> {
        let all: Vec<Name> = self.sessions().with(|all| all.keys().cloned().collect());
        let mut views = Vec::new();
        for session in all {
            views.push(self.session(&session).await?);
        }
        Ok(views)
    }

    /// One session.
    pub(super) async fn session(&self, session: &Name) -> ApiResult<SessionView> {
        let known = |held: &Held| (held.manager.clone(), held.holder, held.on_loss);
        let known = self.sessions().with(|all| all.get(session).map(known));
        let Some((manager, holder, on_loss)) = known else {
            return Err(closed(session, "it is not open"));
        };
        let leases = self.leases_of(&manager, session).await?;
        let in_use = leases.iter().filter(|lease| lease.state == "active" && !lease.unconfirmed);
        Ok(SessionView {
            session: session.to_string(),
            manager: manager.to_string(),
            held_by: match holder {
                Holder::Connection => "connection".to_owned(),
                Holder::Process(pid) => format!("process {pid}"),
                Holder::Nobody => "nobody".to_owned(),
            },
            on_loss,
            units: in_use.map(|lease| lease.units).sum(),
            leases: leases.into_iter().map(|lease| lease.lease).collect(),
        })
    }

    /// Closes a session: what is left of its leases.
    pub(super) async fn close_session(&self, session: &Name) -> ApiResult<Vec<LeaseView>> {
        let manager = self.sessions().with(|all| all.get(session).map(|held| held.manager.clone()));
        let Some(manager) = manager else { return Err(closed(session, "it is not open")) };
        self.end_session(session).await;
        self.leases_of(&manager, session).await
    }

    /// What was asked for in a session that has ended meanwhile goes back, too.
    pub(super) async fn still_in(&self, asked: Option<(Name, Name)>) -> ApiResult<()> {
        let Some((manager, session)) = asked else { return Ok(()) };
        if self.sessions().with(|all| all.contains_key(&session)) {
            return Ok(());
        }
        self.give_session_back(&manager, &session).await?;
        Err(closed(&session, "it has ended meanwhile"))
    }

    /// What is asked for in the slice of a session belongs to it, and says how long it is kept alive; whose it is and
    /// which session, if it is one.
    pub(super) fn in_session(
        &self,
        request: &mut super::LeaseRequest,
    ) -> ApiResult<Option<(Name, Name)>> {
        if !request.slice.as_str().starts_with(PREFIX) {
            return Ok(None);
        }
        let known = |held: &Held| (held.manager.clone(), held.keep_alive, held.on_loss);
        let known = self.sessions().with(|all| all.get(&request.slice).map(known));
        let Some((manager, keep_alive, on_loss)) = known else {
            return Err(closed(&request.slice, "it is not open"));
        };
        if request.manager.as_ref().is_some_and(|asked| *asked != manager) {
            let message = format!("{} is a session of {manager}", request.slice);
            return Err(ApiError::new(Code::Usage, message).help("leave --as out"));
        }
        request.manager = Some(manager.clone());
        request.configure(KEEP_ALIVE, keep_alive.to_string())?;
        if on_loss == OnLoss::Keep {
            request.configure(ON_LOSS, on_loss.word().to_owned())?;
            // What it loses takes nothing else with it.
            request.bundle = false;
        }
        Ok(Some((manager, request.slice.clone())))
    }
}

/// How many sessions of a service manager are open.
fn open_of(all: &BTreeMap<Name, Held>, manager: &Name) -> usize {
    all.values().filter(|held| held.manager == *manager).count()
}

/// Which of these leases, if any, is lost, and how.
fn lost(leases: &[LeaseView]) -> Option<String> {
    leases.iter().find_map(|lease| {
        if let Some(since) = &lease.unheard_since {
            return Some(format!(
                "lease {} is lost: its site has been silent since {since}",
                lease.lease
            ));
        }
        let outcome = lease.outcome.as_deref()?;
        let lost = matches!(outcome, "ended" | "failed" | "lapsed");
        lost.then(|| format!("lease {} is lost: {outcome}", lease.lease))
    })
}

/// A process.
fn process(pid: u32) -> ApiResult<OwnedFd> {
    let wrong = |cause: String| ApiError::new(Code::NoSuch, format!("process {pid}: {cause}"));
    let number = i32::try_from(pid).ok().and_then(Pid::from_raw);
    let number = number.ok_or_else(|| wrong("there is no such process".to_owned()))?;
    pidfd_open(number, PidfdFlags::empty()).map_err(|error| wrong(error.to_string()))
}

/// A process, which can be waited for.
#[expect(
    deprecated,
    reason = "nobody else closes an owned descriptor, and the other way is unsafe code"
)]
fn watched(process: &OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    AsyncFd::with_interest(process.try_clone()?, Interest::READABLE)
}

/// A name that nobody guesses.
fn new_name() -> ApiResult<Name> {
    let random = getrandom::u64();
    let random = random.map_err(|error| ApiError::new(Code::Failed, error.to_string()))?;
    Name::new(&format!("{PREFIX}{random:016x}"))
        .map_err(|error| ApiError::new(Code::Failed, error.to_string()))
}

fn closed(session: &Name, why: &str) -> ApiError {
    ApiError::new(Code::SessionClosed, format!("{session}: {why}"))
        .help("open another one: tenure session open")
}
