//! Executors, as drivers and adapters ask them: to begin a tenancy and to end it, to say how it is, and to run commands.

use std::os::fd::AsFd as _;
use std::sync::Mutex;
use std::thread;
use std::time::Duration;

use serde::Deserialize;
use tenure_core::driver::{Call, DriverError, Step, UnitId};
use tenure_core::model::identity::{ActorId, Signer};
use tenure_core::model::keys::KeyChain;
use tenure_core::model::property::Properties;
use tokio::sync::oneshot;

use super::child::wait;
use super::fence::hold;
use super::roster::list;
use super::stop::Stop;
use crate::net::executor::{Asker, ExecutorAt, TaskError, ask};
use crate::net::task::{Command, Errand, Ran, TaskEnd};

/// The pause before an executor that could not be reached for a teardown is dialled again: doubled from the first
/// to the last.
const PAUSES: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(30));

/// The properties of a unit by which its tenant finds the executor.
pub(crate) const ADDRESS: &str = "executor.address";
pub(crate) const ID: &str = "executor.id";

/// An executor, as settings name it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ExecutorSettings {
    address: String,
    id: ActorId,
}

impl From<ExecutorSettings> for ExecutorAt {
    fn from(ExecutorSettings { address, id }: ExecutorSettings) -> Self {
        Self { id, address }
    }
}

/// Asks executors for one actor.
#[derive(Debug, Default)]
pub(crate) struct Executors {
    asker: Mutex<Option<Asker>>,
}

impl Executors {
    /// Sets by what it shows for whom it asks.
    pub(crate) fn acts_by(&self, signer: &Signer, keys: &KeyChain) {
        let id = keys.actor().unwrap_or_else(|| signer.id());
        *hold(&self.asker) = Some(Asker { id, signer: signer.clone(), keys: keys.clone() });
    }

    /// Begins a tenancy, or ends it, at the word of the site, which lets the tenant be these users.
    pub(crate) fn step(
        &self,
        at: &ExecutorAt,
        (call, users): (&Call, &[String]),
        stop: &Stop,
    ) -> Result<(), DriverError> {
        let errand = Errand::Step { call: call.clone(), users: users.to_vec() };
        let mut pause = PAUSES.0;
        loop {
            match self.ask(at, errand.clone(), Some(stop)) {
                // A machine that is down for a while is no reason to give its unit up, and a step can be repeated.
                Err(_) if call.step == Step::Teardown => {
                    if stop.is_asked_within(pause) {
                        return Err(stopped());
                    }
                    pause = (pause * 2).min(PAUSES.1);
                }
                Err(error) => return Err(DriverError(error.to_string())),
                Ok(end) => return done(end).map(drop),
            }
        }
    }

    /// Finds the tenancy of a unit.
    pub(crate) fn probe(&self, at: &ExecutorAt, unit: UnitId) -> Result<(), DriverError> {
        let end = self.ask(at, Errand::Probe(unit), None);
        done(end.map_err(|error| DriverError(error.to_string()))?).map(drop)
    }

    /// Runs a command for the tenant.
    pub(crate) fn run(
        &self,
        at: &ExecutorAt,
        command: Command,
        stop: &Stop,
    ) -> Result<Ran, DriverError> {
        let end = self.ask(at, Errand::Run(command), Some(stop));
        match end.map_err(|error| DriverError(error.to_string()))? {
            Some(TaskEnd::Ran(ran)) => Ok(ran),
            end @ (Some(TaskEnd::Done(_) | TaskEnd::Failed(_) | TaskEnd::Refused(_)) | None) => {
                done(end).and_then(|_| Err(something_else()))
            }
        }
    }

    /// Asks an executor, until it answers or the step is to stop: then nothing.
    fn ask(
        &self,
        at: &ExecutorAt,
        errand: Errand,
        stop: Option<&Stop>,
    ) -> Result<Option<TaskEnd>, TaskError> {
        let failed = |cause: String| TaskError::Unreachable { address: at.address.clone(), cause };
        let asker = hold(&self.asker).clone();
        let asker = asker.ok_or_else(|| failed("the actor has not started".to_owned()))?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| failed(error.to_string()))?;
        let ended = Stop::new().map_err(|error| failed(error.to_string()))?;
        let (cancel, cancelled) = oneshot::channel::<()>();
        let asking = || {
            let end = runtime.block_on(async {
                tokio::select! {
                    end = ask(&asker, at, errand) => end.map(Some),
                    _ = cancelled => Ok(None),
                }
            });
            ended.ask();
            end
        };
        thread::scope(|scope| {
            let asking = scope.spawn(asking);
            if stop.is_some_and(|stop| is_asked_before(stop, &ended)) {
                drop(cancel);
            }
            asking.join().unwrap_or_else(|_| Err(failed("it panicked".to_owned())))
        })
    }
}

/// Waits until something has ended or is to stop; whether it is to stop.
fn is_asked_before(stop: &Stop, ended: &Stop) -> bool {
    while !ended.is_asked() {
        if stop.is_asked() || wait(&[stop.as_fd(), ended.as_fd()], None).is_err() {
            return true;
        }
    }
    false
}

/// What a unit says of its executor.
pub(crate) fn properties(at: &ExecutorAt) -> Result<Properties, DriverError> {
    list([(ADDRESS, Some(at.address.clone())), (ID, Some(at.id.to_hex()))])
}

/// The executor of a unit, as its site says.
pub(crate) fn of_unit(properties: &Properties) -> Option<ExecutorAt> {
    let id = serde_json::from_value(properties.get(ID)?.into()).ok()?;
    Some(ExecutorAt { id, address: properties.get(ADDRESS)?.to_owned() })
}

fn done(end: Option<TaskEnd>) -> Result<Properties, DriverError> {
    match end {
        Some(TaskEnd::Done(properties)) => Ok(properties),
        Some(TaskEnd::Failed(error)) => Err(error),
        Some(TaskEnd::Refused(refusal)) => Err(DriverError(refusal.to_string())),
        Some(TaskEnd::Ran(_)) => Err(something_else()),
        None => Err(stopped()),
    }
}

fn something_else() -> DriverError {
    DriverError("the executor has answered something else".to_owned())
}

fn stopped() -> DriverError {
    DriverError("it was ended: a later step of the unit came, or it took too long".to_owned())
}
