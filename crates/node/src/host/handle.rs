//! How the rest of the program talks to a host: commands, questions, measurements, facts as they come.

use std::fmt;
use std::sync::Arc;

use actix::dev::ToEnvelope;
use actix::prelude::SendError;
use actix::{Addr, Handler, Message};
use tenure_core::actor::Role;
use tenure_core::actor::order::Order;
use tenure_core::runtime::AnyActor;
use tenure_core::runtime::{Command, Entry, Fact, Input};

use tenure_core::model::identity::ActorId;
use tenure_core::model::name::Name;
use tenure_core::model::slice::LeaseId;
use tenure_core::runtime::outbox::Outbox;
use tenure_core::service_manager::facts as service_manager;
use tenure_core::wire::inquiry::Answered;
use thiserror::Error;
use tokio::sync::{mpsc, oneshot};

use super::actor_run::{Held, Task};
use super::probes::Conditions;
use super::{Asked, Drain, Drained, Host, Inspect, Listen, Watch};

/// Reaches one host, from any thread.
#[derive(Clone)]
pub struct Handle {
    info: Arc<ActorInfo>,
    host: Addr<Host>,
    conditions: Conditions,
}

/// An actor's name, role and id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ActorInfo {
    /// Its name.
    pub name: Name,
    /// Its role.
    pub role: Role,
    /// Its id.
    pub id: ActorId,
}

/// What an input changed, durably.
#[derive(Clone, Debug, PartialEq)]
pub struct Committed {
    /// The position of the first fact.
    pub position: u64,
    /// The facts; none if everything was as it was wanted already.
    pub facts: Vec<Entry>,
}

impl Committed {
    /// The lease that a service manager asked for by it. More parts of the same number follow if the
    /// request is met by several tickets.
    pub fn lease(&self) -> Option<LeaseId> {
        self.facts.iter().find_map(|entry| {
            if let Fact::ServiceManager(service_manager::Fact::TicketTaken(taken)) = &entry.fact {
                return Some(taken.lease);
            }
            let Fact::ServiceManager(service_manager::Fact::Asked(asked)) = &entry.fact else {
                return None;
            };
            Some(LeaseId { number: asked.request.id.number, part: 0 })
        })
    }

    /// The plan of packages that a service manager was asked for by it.
    pub fn plan(&self) -> Option<u64> {
        self.facts.iter().find_map(|entry| match &entry.fact {
            Fact::ServiceManager(service_manager::Fact::PlanRequested(fact)) => Some(fact.plan),
            Fact::ServiceManager(_) | Fact::Broker(_) | Fact::SiteAuthority(_) => None,
        })
    }
}

/// Why a host did not do what it was asked.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum HostError {
    /// The actor refused; nothing has changed.
    #[error("{0}")]
    Refused(String),
    /// Too much is waiting already; nothing has changed, and it may be tried again later.
    #[error("{0} is busy: try again later")]
    Busy(Name),
    /// Its disk is full: it begins nothing new until there is room. Nothing has changed, and it may be tried
    /// again then.
    #[error("the disk of {0} is full: no new work is accepted until space is free")]
    DiskFull(Name),
    /// The actor went down before an answer was durable. Only reading it shows whether it has changed
    /// anything.
    #[error("{0} went down before it answered: look before you try again")]
    Unknown(Name),
    /// The host has stopped, or is about to; nothing has changed.
    #[error("{0} has stopped")]
    Stopped(Name),
}

/// The facts of an actor as they become durable.
#[derive(Debug)]
pub struct Facts {
    /// The position of the first that will come; earlier ones are in the journal.
    pub from: u64,
    /// The facts with their positions. Ends when the host stops or falls, or the reader is too slow.
    pub facts: mpsc::Receiver<(u64, Entry)>,
}

impl Handle {
    pub(crate) fn new(info: ActorInfo, host: Addr<Host>, conditions: Conditions) -> Self {
        Self { info: Arc::new(info), host, conditions }
    }

    /// Who the actor is.
    pub fn info(&self) -> &ActorInfo {
        &self.info
    }

    /// How its live units are.
    pub fn conditions(&self) -> &Conditions {
        &self.conditions
    }

    /// Has the actor do what a user wants; answers when that is durable.
    ///
    /// # Errors
    /// See [`HostError`]; only [`HostError::Unknown`] leaves open whether anything has changed.
    pub async fn command(&self, command: impl Into<Command>) -> Result<Committed, HostError> {
        self.input(Input::Command(command.into())).await
    }

    /// As [`command`](Self::command), once for each name: a command that was carried out changes nothing.
    ///
    /// # Errors
    /// As [`command`](Self::command).
    pub async fn order(
        &self,
        command: impl Into<Command>,
        order: Order,
    ) -> Result<Committed, HostError> {
        self.input(Input::Ordered(command.into(), order)).await
    }

    /// Hands the actor a measurement; returns when it is durable.
    ///
    /// # Errors
    /// As [`command`](Self::command).
    pub async fn observe(&self, signal: Name, value: i64) -> Result<Committed, HostError> {
        self.input(Input::Observe { signal, value }).await
    }

    async fn input(&self, input: Input) -> Result<Committed, HostError> {
        let (asker, answer) = oneshot::channel();
        self.send(Asked(Task { input, asker: Some(asker) }))?;
        answer.await.unwrap_or_else(|_| Err(self.lost()))
    }

    /// Looks at the actor. What is answered rests on durable facts alone: the answer is kept back until
    /// all that the look has seen is durable.
    ///
    /// # Errors
    /// As [`command`](Self::command); nothing changes anyway.
    pub async fn query<T: Send + 'static>(
        &self,
        look: impl FnOnce(&AnyActor) -> T + Send + 'static,
    ) -> Result<T, HostError> {
        self.query_with_outbox(move |actor, _| look(actor)).await
    }

    /// As [`query`](Self::query), with what the actor has sent and waits to be answered.
    ///
    /// # Errors
    /// As [`command`](Self::command); nothing changes anyway.
    pub async fn query_with_outbox<T: Send + 'static>(
        &self,
        look: impl FnOnce(&AnyActor, &Outbox) -> T + Send + 'static,
    ) -> Result<T, HostError> {
        let (reply, answer) = oneshot::channel();
        self.send(Inspect(Box::new(move |actor, outbox| {
            let seen = look(actor, outbox);
            Box::new(move || drop(reply.send(seen)))
        })))?;
        answer.await.map_err(|_| self.lost())
    }

    /// Waits until the actor's loop has got to it, and what it had decided by then is durable; or until there is
    /// none any more. The mailbox takes this however full it is.
    pub async fn is_alive(&self) {
        let (reply, answer) = oneshot::channel();
        // Who has stopped waiting needs no answer.
        let answers: Held = Box::new(move || _ = reply.send(()));
        self.host.do_send(Inspect(Box::new(|_, _| answers)));
        drop(answer.await);
    }

    /// Follows the facts of the actor from now on.
    ///
    /// # Errors
    /// As [`command`](Self::command).
    pub async fn facts(&self) -> Result<Facts, HostError> {
        let (reply, answer) = oneshot::channel();
        self.send(Watch(reply))?;
        answer.await.map_err(|_| self.lost())
    }

    /// Follows what brokers answer to inquiries of the actor from now on. Who is too slow hears no more.
    ///
    /// # Errors
    /// As [`command`](Self::command).
    pub async fn answers(&self) -> Result<mpsc::Receiver<Answered>, HostError> {
        let (reply, answer) = oneshot::channel();
        self.send(Listen(reply))?;
        answer.await.map_err(|_| self.lost())
    }

    /// Stops the host: nothing new is taken in, what was decided is synced and leaves, the journal is closed.
    /// Leases stay as they are.
    ///
    /// # Errors
    /// If the journal cannot be closed; nothing acknowledged is lost by that.
    pub async fn stop(&self) -> Drained {
        let (reply, answer) = oneshot::channel();
        match self.host.try_send(Drain(reply)) {
            Err(SendError::Full(drain)) => self.host.do_send(drain),
            Err(SendError::Closed(_)) => return Ok(()),
            Ok(()) => {}
        }
        answer.await.unwrap_or(Ok(()))
    }

    fn send<M>(&self, message: M) -> Result<(), HostError>
    where
        M: Message<Result = ()> + Send + 'static,
        Host: Handler<M>,
        actix::Context<Host>: ToEnvelope<Host, M>,
    {
        let name = || self.info.name.clone();
        self.host.try_send(message).map_err(|error| match error {
            SendError::Full(_) => HostError::Busy(name()),
            SendError::Closed(_) => HostError::Stopped(name()),
        })
    }

    /// Why an answer did not come.
    fn lost(&self) -> HostError {
        let name = self.info.name.clone();
        if self.host.connected() { HostError::Unknown(name) } else { HostError::Stopped(name) }
    }
}

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Handle({} `{}`)", self.info.role, self.info.name)
    }
}
