//! `host`: a unit is a machine with an executor, which is told who its tenant is.
//!
//! The executor has a fence of its own, so a late call never meets the successor, whatever happens here.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::Arc;

use serde::Deserialize;
use tenure_core::driver::{DriverError, ResourceDriver, Step, UnitId};
use tenure_core::model::identity::{ActorId, Signer};
use tenure_core::model::keys::KeyChain;
use tenure_core::model::property::Properties;

use super::adoption::Adopt;
use super::executors::{Executors, properties};
use super::fence::{DriverSteps, Fence, Site, Work};
use super::record::{Key, Record};
use crate::net::executor::ExecutorAt;

/// What `host` takes.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Settings {
    hosts: Vec<HostSettings>,
    /// The users as whom tenants may run commands, beside those of the executors.
    #[serde(default)]
    users: Vec<String>,
    /// Whether guests may take over machines in use as they are.
    #[serde(default)]
    adopt: bool,
}

/// A machine.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct HostSettings {
    unit: u32,
    address: String,
    id: ActorId,
}

/// The machines of a site.
struct Hosts {
    hosts: BTreeMap<UnitId, ExecutorAt>,
    users: Vec<String>,
    adopt: bool,
    executors: Executors,
}

/// Opens the driver.
pub(crate) fn site(home: &Path, settings: Settings) -> io::Result<Box<dyn ResourceDriver>> {
    let Settings { hosts: listed, users, adopt } = settings;
    let mut hosts = BTreeMap::new();
    for HostSettings { unit, address, id } in listed {
        if hosts.insert(UnitId(unit), ExecutorAt { id, address }).is_some() {
            return Err(io::Error::other(format!("`hosts` has two for unit {unit}")));
        }
    }
    let steps = Hosts { hosts, users, adopt, executors: Executors::default() };
    let fence = Arc::new(Fence::open(home)?);
    Ok(Box::new(Site { fence, steps }))
}

impl DriverSteps for Hosts {
    fn perform(&self, work: &Work<'_>) -> Result<Properties, DriverError> {
        let at = self.at(work.call.unit)?;
        self.executors.step(at, (work.call, &self.users), work.stop)?;
        if work.call.step != Step::Setup {
            return Ok(Properties::default());
        }
        // An executor leaves alone what it has not begun, so any machine can be taken over as it is.
        match Adopt::of(&work.call.properties)? {
            Some(adopt) => adopt.tell(properties(at)?),
            None => properties(at),
        }
    }

    fn adopts(&self) -> bool {
        self.adopt
    }

    fn probe(&self, key: Key, _: Option<&Record>) -> Result<Properties, DriverError> {
        let at = self.at(key.unit)?;
        self.executors.probe(at, key.unit)?;
        properties(at)
    }

    fn acts_by(&self, signer: &Signer, keys: &KeyChain) {
        self.executors.acts_by(signer, keys);
    }
}

impl Hosts {
    fn at(&self, unit: UnitId) -> Result<&ExecutorAt, DriverError> {
        let none = || DriverError(format!("`hosts` of the driver `host` has none for {unit}"));
        self.hosts.get(&unit).ok_or_else(none)
    }
}
