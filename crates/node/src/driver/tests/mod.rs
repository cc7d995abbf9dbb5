//! The drivers, each on its own and all together.

mod adoption;
mod cgroups;
mod exec;
mod fence;
mod guests;
pub(crate) mod host;
mod link;
mod netns;
mod packages;
mod process;
mod registry;
mod several;

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::path::Path;
use std::sync::mpsc::Sender;

use serde_json::Value;
use tenure_core::driver::{
    Call, Epoch, GuestDriver, Report, ReportReceiver, ResourceDriver, Step, UnitId,
};
use tenure_core::model::identity::{ActorId, PublicKey};
use tenure_core::model::name::Name;
use tenure_core::model::property::Properties;
use tenure_core::model::slice::LeaseId;
use tenure_core::model::time::Time;

use super::DriverSettingsError;

/// Opens a site's driver by name.
fn site(name: &str, home: &Path, settings: &Value) -> Result<Box<dyn ResourceDriver>, String> {
    let mut settings = <dyn erased_serde::Deserializer<'_>>::erase(settings);
    super::site(name, home, &mut settings).map_err(in_words)
}

/// Opens a guest's driver by name.
fn guest(name: &str, home: &Path, settings: &Value) -> Result<Box<dyn GuestDriver>, String> {
    let mut settings = <dyn erased_serde::Deserializer<'_>>::erase(settings);
    super::guest(name, home, &mut settings).map_err(in_words)
}

fn in_words(error: DriverSettingsError) -> String {
    error.to_string()
}

fn actor(number: u8) -> ActorId {
    ActorId::of(&PublicKey::from_bytes([number; 32]))
}

/// A call on unit 1 of one site, for one guest.
pub(crate) fn call(epoch: u64, step: Step) -> Call {
    Call {
        site: actor(1),
        unit: UnitId(1),
        epoch: Epoch(epoch),
        step,
        number: 0,
        quantity: NonZeroU32::MIN,
        resource: Name::literal("node"),
        guest: actor(2),
        slice: Name::literal("cats"),
        lease: LeaseId { number: 7, part: 0 },
        properties: Properties::default(),
        deadline: None,
    }
}

/// A warning of unit 1.
fn warning(epoch: u64) -> Call {
    Call { deadline: Some(Time::from_secs(1_795_000_000)), ..call(epoch, Step::Warn) }
}

/// Takes a driver's reports.
struct Collector(Sender<Report>);

impl ReportReceiver for Collector {
    fn report(&self, report: Report) {
        drop(self.0.send(report));
    }
}

/// A list of properties.
pub(crate) fn with(pairs: &[(&'static str, &str)]) -> Properties {
    let map: BTreeMap<Name, String> =
        pairs.iter().map(|(key, value)| (Name::literal(key), (*value).to_owned())).collect();
    Properties::try_from(map).unwrap()
}
