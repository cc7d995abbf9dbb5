//! Tenancies on the machine of an executor: begun and ended by the site, behind the fence of drivers.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use tenure_core::driver::{Call, DriverError, Epoch, Step, UnitId};
use tenure_core::model::identity::{ActorId, PublicKey};
use tenure_core::model::keys::KeyChain;
use tenure_core::model::property::Properties;

use super::Settings;
use super::known_keys::KnownKeys;
use crate::driver::NAMESPACE;
use crate::driver::cgroup::{Delegated, UnitCgroup};
use crate::driver::child::end_unit;
use crate::driver::fence::{DriverSteps, Fence, Work, noted};
use crate::driver::programs::cgroups;
use crate::driver::record::{Key, Progress, Record, about, create_folder};
use crate::driver::stop::Stop;
use crate::net::task::{Errand, Task, TaskEnd, TaskRefusal};

/// What is noted of a tenancy.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Note {
    /// The users as whom the tenant may run commands, beside that of the executor.
    pub(super) users: Vec<String>,
    /// The network namespace in which they run, if not in that of the machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) namespace: Option<String>,
}

/// The tenancies of an executor.
pub(super) struct Tenancies {
    home: PathBuf,
    fence: Fence,
    keys: KnownKeys,
    pub(super) settings: Settings,
    delegated: Option<&'static Delegated>,
}

impl Tenancies {
    /// Opens the folder in which they are kept.
    pub(super) fn open(home: &Path, settings: Settings) -> io::Result<Self> {
        let delegated = cgroups(settings.cgroup, &settings.bounds)?;
        let fence = Fence::open(home)?;
        let home = home.canonicalize()?;
        create_folder(&home.join("folders"))?;
        let keys = KnownKeys::open(home.join("keys.json"))?;
        Ok(Self { home, fence, keys, settings, delegated })
    }

    /// Does a task of one who has shown a key, if it is the site's or the tenant's.
    pub(super) fn perform(
        &self,
        (from, key): (ActorId, &PublicKey),
        task: Task,
        stop: &Arc<Stop>,
    ) -> TaskEnd {
        let Task { keys, errand } = task;
        let done = match errand {
            Errand::Step { call, .. } if !matches!(call.step, Step::Setup | Step::Teardown) => {
                Err(TaskRefusal::Failed(format!("an executor does no {}", call.step.word())))
            }
            Errand::Step { call, users } => self
                .of_site(from, call.site)
                .and_then(|()| self.shows(from, (key, &keys)))
                .map(|()| ended(self.fence.perform(&Steps { of: self, users }, &call))),
            Errand::Probe(unit) => self
                .of_site(from, self.settings.site)
                .and_then(|()| self.shows(from, (key, &keys)))
                .map(|()| ended(self.probe(unit))),
            Errand::Run(command) => self
                .tenant(from, (command.unit, command.epoch))
                .and_then(|_| self.shows(from, (key, &keys)))
                .and_then(|()| self.run(from, &command, stop))
                .map(TaskEnd::Ran),
        };
        done.unwrap_or_else(TaskEnd::Refused)
    }

    fn of_site(&self, from: ActorId, site: ActorId) -> Result<(), TaskRefusal> {
        let own = self.settings.site;
        if from == own && site == own { Ok(()) } else { Err(TaskRefusal::NotTheSite(from)) }
    }

    /// Whether the key is the one in force of who asks.
    fn shows(
        &self,
        from: ActorId,
        (key, keys): (&PublicKey, &KeyChain),
    ) -> Result<(), TaskRefusal> {
        let failed = |error: io::Error| TaskRefusal::Failed(error.to_string());
        let guests = self.fence.records().map_err(failed)?;
        let mut others: Vec<ActorId> = guests.iter().map(|record| record.tenant.guest).collect();
        others.push(self.settings.site);
        let holds = self.keys.is_in_force((from, key), keys, &others).map_err(failed)?;
        if holds { Ok(()) } else { Err(TaskRefusal::KeyNotInForce(from)) }
    }

    /// What is noted of the tenancy, if it is the present one and who asks is its tenant.
    pub(super) fn tenant(
        &self,
        from: ActorId,
        (unit, asked): (UnitId, Epoch),
    ) -> Result<Note, TaskRefusal> {
        let failed = |error: DriverError| TaskRefusal::Failed(error.0);
        let record = self.fence.record(self.key(unit)).map_err(failed)?;
        let record = record.ok_or(TaskRefusal::NoTenant(unit))?;
        if record.tenant.guest != from {
            return Err(TaskRefusal::NotTheTenant(from, unit));
        }
        if record.epoch != asked {
            return Err(TaskRefusal::OtherEpoch { unit, asked, present: record.epoch });
        }
        if !is_set_up(&record) {
            return Err(TaskRefusal::NoTenant(unit));
        }
        Ok(noted(&record).map_err(failed)?.unwrap_or_default())
    }

    /// The namespace of a unit, if units are namespaces here.
    fn namespace(&self, call: &Call) -> Result<Option<String>, DriverError> {
        if !self.settings.namespaces {
            return Ok(None);
        }
        let named = call.properties.get(NAMESPACE).map(str::to_owned);
        let none = || DriverError(format!("its site names no namespace (`{NAMESPACE}`)"));
        named.ok_or_else(none).map(Some)
    }

    fn probe(&self, unit: UnitId) -> Result<Properties, DriverError> {
        let record = self.fence.record(self.key(unit))?.filter(is_set_up);
        let none = || DriverError(format!("the executor knows of no tenant of {unit}"));
        record.map(|_| Properties::default()).ok_or_else(none)
    }

    pub(super) fn key(&self, unit: UnitId) -> Key {
        Key { site: self.settings.site, unit }
    }

    pub(super) fn mark(&self, key: Key) -> String {
        format!("{}:{}", self.home.display(), key.file_name())
    }

    /// The folder in which the tenant's commands run.
    pub(super) fn folder(&self, key: Key) -> PathBuf {
        self.home.join("folders").join(key.file_name())
    }

    pub(super) fn cgroup(&self, key: Key) -> Option<UnitCgroup> {
        self.delegated.map(|delegated| delegated.of(&self.mark(key), key.unit))
    }

    /// Ends all that the tenant has started, and removes its folder.
    fn clean(&self, key: Key) -> io::Result<()> {
        let (cgroup, grace) = (self.cgroup(key), self.settings.grace.0);
        end_unit(&self.mark(key), None, cgroup.as_ref(), grace)?;
        let folder = self.folder(key);
        match fs::remove_dir_all(&folder) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(about(&folder, error)),
            Err(_) | Ok(()) => Ok(()),
        }
    }
}

fn is_set_up(record: &Record) -> bool {
    matches!(record.newest(), Some((Step::Setup, Progress::Done(_))))
}

fn ended(outcome: Result<Properties, DriverError>) -> TaskEnd {
    outcome.map_or_else(TaskEnd::Failed, TaskEnd::Done)
}

/// The steps of a site, with the users that it lets the tenant have.
struct Steps<'a> {
    of: &'a Tenancies,
    users: Vec<String>,
}

impl DriverSteps for Steps<'_> {
    fn perform(&self, work: &Work<'_>) -> Result<Properties, DriverError> {
        let failed = |error: io::Error| DriverError(error.to_string());
        self.of.clean(work.key()).map_err(failed)?;
        if work.call.step == Step::Setup {
            create_folder(&self.of.folder(work.key())).map_err(failed)?;
            let namespace = self.of.namespace(work.call)?;
            work.keep(&Note { users: self.users.clone(), namespace })?;
        }
        Ok(Properties::default())
    }

    fn probe(&self, key: Key, _: Option<&Record>) -> Result<Properties, DriverError> {
        self.of.probe(key.unit)
    }
}
