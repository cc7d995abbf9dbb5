//! Sessions: leases that end with the program that uses them.
//!
//! A session is a slice of its own, and its leases are leases like others. Who holds it, a connection or a process, is
//! known to this process alone: what is durable are the leases. After a restart a session has its
//! [keep-alive](SessionRequest::keep_alive) to be held again, and its leases say how long that is: their sites end them
//! if nothing is heard from the guest for so long.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::rc::Rc;
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
use super::connection::Writer;
use super::lease_request;
use super::server::{ApiResult, AppState, json};
use super::view::LeaseView;
use super::watch::Ended;
use super::{Answer, ApiError, Code, LeaseName, Request, pause};
use crate::subject::number_of;

/// What the slices of sessions begin with.
const PREFIX: &str = "session-";

/// The pause before leases are given back once more that could not be.
const PAUSE: Duration = Duration::from_secs(1);

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
    /// Its leases that have not ended.
    pub leases: Vec<String>,
    /// How many units they have in use.
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
    keep_alive: Span,
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

    /// Whether it is still open, and held by that.
    fn is_held(&self, session: &Name, holder: Holder) -> bool {
        self.with(|all| all.get(session).is_some_and(|held| held.holder == holder))
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

    /// A session that is to be held again may be known by its leases alone.
    async fn recover(self: &Rc<Self>, manager: &Name, request: &SessionRequest) -> ApiResult<()> {
        if let Some(session) = &request.session {
            let leases = self.leases_of(manager, session).await?;
            self.resume_all(manager, &leases);
        }
        Ok(())
    }

    fn resume_all(self: &Rc<Self>, manager: &Name, leases: &[LeaseView]) {
        for lease in leases {
            let keep_alive = lease.configuration.get(KEEP_ALIVE);
            let keep_alive = keep_alive.and_then(|text| text.parse::<Span>().ok());
            if let Some((session, keep_alive)) = Name::new(&lease.slice).ok().zip(keep_alive) {
                self.resume(manager, session, keep_alive);
            }
        }
    }

    fn resume(self: &Rc<Self>, manager: &Name, session: Name, keep_alive: Span) {
        let held = Held {
            manager: manager.clone(),
            holder: Holder::Nobody,
            keep_alive,
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

    /// A session for as long as a connection holds it: how it is, and then nothing until it has ended.
    pub(super) async fn hold_session(
        self: &Rc<Self>,
        request: &SessionRequest,
        out: &mut Writer,
        opened: &mut Option<Name>,
    ) -> Result<(), Ended> {
        let manager = lease_request::manager(self, request.manager.as_ref())?;
        self.recover(&manager, request).await?;
        let (session, ended) = self.open_session(&manager, request, Holder::Connection)?;
        *opened = Some(session.clone());
        out.write(&Answer::whole(json(&self.session(&session).await?)?)).await?;
        let why = self.until_over(&manager, &session, &ended).await;
        Err(closed(&session, &why).into())
    }

    /// Waits until a session is closed or has lost a lease; which of them.
    async fn until_over(&self, manager: &Name, session: &Name, ended: &Notify) -> String {
        let lost = async {
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
        let all = move |lease: &LeaseSurvey<'_>| *lease.slice == of;
        let (leases, _) = self.page(manager, (None, usize::MAX), all).await?;
        if let Some(lost) = lost(&leases, session) {
            return Ok(lost);
        }
        while let Some((_, number)) = news.next().await? {
            let name = LeaseName { manager: None, number, part: None };
            if let Some(lost) = lost(&self.leases_named(manager, name).await?, session) {
                return Ok(lost);
            }
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
        self.recover(&manager, request).await?;
        let (session, ended) = self.open_session(&manager, request, Holder::Process(pid))?;
        let (app, of) = (Rc::clone(self), session.clone());
        spawn_local(async move {
            let why = tokio::select! {
                _ = process.readable() => format!("process {pid} has ended"),
                why = app.until_over(&manager, &of, &ended) => why,
            };
            info!("{of} ends: {why}");
            app.end_session(&of).await;
        });
        self.session(&session).await
    }

    /// Enters a session with what holds it.
    fn open_session(
        &self,
        manager: &Name,
        request: &SessionRequest,
        holder: Holder,
    ) -> ApiResult<(Name, Arc<Notify>)> {
        let keep_alive = request.keep_alive;
        heartbeat::check(keep_alive, self.config().margin).map_err(|error| {
            ApiError::new(Code::Usage, error.to_string()).help("choose another --keep-alive")
        })?;
        let session = match &request.session {
            Some(session) => session.clone(),
            None => new_name()?,
        };
        let most = self.config().service_managers.get(manager).and_then(|of| of.sessions);
        let ended = Arc::new(Notify::new());
        let held = Held { manager: manager.clone(), holder, keep_alive, ended: Arc::clone(&ended) };
        self.sessions().with(|all| match all.get(&session) {
            Some(known) if known.holder != Holder::Nobody => {
                let message = format!("{session} is held by somebody else");
                Err(ApiError::new(Code::Busy, message))
            }
            None if request.session.is_some() => Err(closed(&session, "it is not open")),
            None if most.is_some_and(|most| open_of(all, manager) >= most) => {
                let message = format!("{manager} has as many sessions as it may");
                Err(ApiError::new(Code::Busy, message).help("close one, or try again later"))
            }
            Some(_) | None => {
                all.insert(session.clone(), held);
                Ok((session.clone(), ended))
            }
        })
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
        let known = |held: &Held| (held.manager.clone(), held.holder);
        let known = self.sessions().with(|all| all.get(session).map(known));
        let Some((manager, holder)) = known else {
            return Err(closed(session, "it is not open"));
        };
        let leases = self.leases_of(&manager, session).await?;
        let in_use = leases.iter().filter(|lease| lease.state == "active");
        Ok(SessionView {
            session: session.to_string(),
            manager: manager.to_string(),
            held_by: match holder {
                Holder::Connection => "connection".to_owned(),
                Holder::Process(pid) => format!("process {pid}"),
                Holder::Nobody => "nobody".to_owned(),
            },
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
        let known = |held: &Held| (held.manager.clone(), held.keep_alive);
        let known = self.sessions().with(|all| all.get(&request.slice).map(known));
        let Some((manager, keep_alive)) = known else {
            return Err(closed(&request.slice, "it is not open"));
        };
        if request.manager.as_ref().is_some_and(|asked| *asked != manager) {
            let message = format!("{} is a session of {manager}", request.slice);
            return Err(ApiError::new(Code::Usage, message).help("leave --as out"));
        }
        request.manager = Some(manager.clone());
        let mut all: BTreeMap<Name, String> = request
            .configuration
            .iter()
            .map(|(key, value)| (key.clone(), value.to_owned()))
            .collect();
        all.insert(Name::literal(KEEP_ALIVE), keep_alive.to_string());
        request.configuration = all
            .try_into()
            .map_err(|error| ApiError::new(Code::Usage, format!("the properties: {error}")))?;
        Ok(Some((manager, request.slice.clone())))
    }
}

/// How many sessions of a service manager are open.
fn open_of(all: &BTreeMap<Name, Held>, manager: &Name) -> usize {
    all.values().filter(|held| held.manager == *manager).count()
}

/// Which of these leases, if any, is one of a session and lost, and how.
fn lost(leases: &[LeaseView], session: &Name) -> Option<String> {
    let mut of_session = leases.iter().filter(|lease| lease.slice == session.as_str());
    of_session.find_map(|lease| {
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

/// A process, which can be waited for.
#[expect(
    deprecated,
    reason = "nobody else closes an owned descriptor, and the other way is unsafe code"
)]
fn process(pid: u32) -> ApiResult<AsyncFd<OwnedFd>> {
    let wrong = |cause: String| ApiError::new(Code::NoSuch, format!("process {pid}: {cause}"));
    let number = i32::try_from(pid).ok().and_then(Pid::from_raw);
    let number = number.ok_or_else(|| wrong("there is no such process".to_owned()))?;
    let opened =
        pidfd_open(number, PidfdFlags::empty()).map_err(|error| wrong(error.to_string()))?;
    AsyncFd::with_interest(opened, Interest::READABLE).map_err(|error| wrong(error.to_string()))
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
