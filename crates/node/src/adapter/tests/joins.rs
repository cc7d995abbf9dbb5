use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::{Arc, Mutex};

use serde_json::json;
use tempfile::TempDir;
use tenure_core::driver::{Answer, Call, DriverError, GuestDriver, Step, UnitId};
use tenure_core::model::identity::ActorId;
use tenure_core::model::keys::KeyChain;
use tenure_core::model::name::Name;
use tenure_core::model::property::Properties;
use tenure_core::model::time::Span;

use super::super::adapters::Adapters;
use super::super::joins::Adapted;
use super::spec;
use crate::driver::conformance;
use crate::driver::tests::host::{Machine, open, signer};
use crate::driver::tests::{call, with};

/// The driver of the guest: it writes down its steps.
#[derive(Clone, Default)]
struct Configured(Arc<Mutex<Vec<Step>>>);

impl GuestDriver for Configured {
    fn perform(&self, call: &Call) -> Answer {
        self.0.lock().unwrap().push(call.step);
        Answer { outcome: Ok(Properties::default()), after: Span::ZERO }
    }

    fn probe(&self, _: ActorId, _: UnitId) -> Result<Properties, DriverError> {
        Err(DriverError("not joined".to_owned()))
    }
}

/// A script for joins and leaves of the service `cats`, which is told apart by what it appends to the file `log`.
fn script(named: &str) -> BTreeMap<Name, tenure_core::service::adapter::Adapter> {
    let line = format!("echo {named} $TENURE_STEP $TENURE_NUMBER $TENURE_HOST >>log");
    let command = ["/bin/sh", "-c", line.as_str()];
    let settings =
        json!({ "name": "exec", "sense": ["/bin/true"], "join": command, "leave": command });
    BTreeMap::from([(Name::literal("cats"), spec(&settings))])
}

fn adapted(home: &Path, configured: &Configured) -> (Adapted, Arc<Adapters>) {
    let adapters = Arc::new(Adapters::new(home.to_owned()));
    let adapted = Adapted::open(Box::new(configured.clone()), Arc::clone(&adapters)).unwrap();
    (adapted, adapters)
}

fn log(home: &TempDir) -> String {
    fs::read_to_string(home.path().join("log")).unwrap_or_default()
}

#[test]
fn adapters_keep_the_promises_of_a_driver() {
    let home = TempDir::new().unwrap();
    let open = || {
        let (adapted, adapters) = adapted(home.path(), &Configured::default());
        adapters.set(script("a"));
        Box::new(adapted) as Box<dyn GuestDriver>
    };
    assert_eq!(conformance::guest(open, &call(1, Step::Join), 3), Ok(126));
}

#[test]
fn a_unit_is_left_by_the_adapter_that_joined_it() {
    let (home, configured) = (TempDir::new().unwrap(), Configured::default());
    let join = Call { properties: with(&[("host.name", "n1")]), ..call(1, Step::Join) };
    {
        let (adapted, adapters) = adapted(home.path(), &configured);
        adapters.set(script("a"));
        adapted.perform(&join).outcome.unwrap();
        adapted.probe(join.site, join.unit).unwrap();
        adapters.set(script("b"));
        let modify = Call { number: 1, ..call(1, Step::Modify) };
        adapted.perform(&modify).outcome.unwrap_err();
    }
    // After a restart, with another adapter, and none in the end.
    let (adapted, adapters) = adapted(home.path(), &configured);
    adapters.set(BTreeMap::new());
    adapted.perform(&call(1, Step::Leave)).outcome.unwrap();
    assert_eq!(log(&home), "a join 1 n1\na leave 1\n");
    assert_eq!(*configured.0.lock().unwrap(), []);
    adapted.probe(join.site, join.unit).unwrap_err();
}

#[test]
fn a_unit_that_was_left_is_joined_again_by_the_adapter_of_then() {
    let (home, configured) = (TempDir::new().unwrap(), Configured::default());
    let (adapted, adapters) = adapted(home.path(), &configured);
    adapters.set(script("a"));
    adapted.perform(&call(1, Step::Join)).outcome.unwrap();
    adapted.perform(&call(1, Step::Leave)).outcome.unwrap();
    adapters.set(script("b"));
    adapted.perform(&Call { number: 1, ..call(1, Step::Join) }).outcome.unwrap();
    adapters.set(script("c"));
    adapted.perform(&Call { number: 1, ..call(1, Step::Leave) }).outcome.unwrap();
    assert_eq!(log(&home), "a join 1\na leave 1\nb join 1\nb leave 1\n");
    adapters.set(BTreeMap::new());
    let none = adapted.perform(&Call { number: 2, ..call(1, Step::Join) }).outcome.unwrap_err();
    assert!(none.why_untouched().is_some(), "{none:?}");
}

#[test]
fn what_the_driver_of_the_guest_has_joined_it_leaves() {
    let (home, configured) = (TempDir::new().unwrap(), Configured::default());
    let (adapted, adapters) = adapted(home.path(), &configured);
    adapters.set(BTreeMap::new());
    adapted.perform(&call(1, Step::Join)).outcome.unwrap();
    adapters.set(script("a"));
    adapted.perform(&call(1, Step::Leave)).outcome.unwrap();
    assert_eq!(*configured.0.lock().unwrap(), [Step::Join, Step::Leave]);
    // One that comes too late is refused by who would do it.
    adapted.perform(&call(1, Step::Join)).outcome.unwrap_err();
    assert_eq!(log(&home), "");
    // Words that could be something else are left out.
    let join = Call { properties: with(&[("host.name", "-n 1")]), ..call(3, Step::Join) };
    adapted.perform(&join).outcome.unwrap();
    assert_eq!(log(&home), "a join 1\n");
    let elsewhere = Call { slice: Name::literal("dogs"), unit: UnitId(2), ..call(1, Step::Join) };
    adapted.perform(&elsewhere).outcome.unwrap();
    assert_eq!(*configured.0.lock().unwrap(), [Step::Join, Step::Leave, Step::Join]);
}

#[test]
fn programs_about_a_unit_run_on_it_by_its_executor() {
    let (owner, tenant) = (signer(1), signer(2));
    let (machine, site, home) =
        (Machine::of(&owner), TempDir::new().unwrap(), TempDir::new().unwrap());
    let driver = open(site.path(), &machine.settings(), &owner);
    let setup = Call { site: owner.id(), guest: tenant.id(), ..call(1, Step::Setup) };
    let properties = driver.perform(&setup).outcome.unwrap();

    let (adapted, adapters) = adapted(home.path(), &Configured::default());
    adapted.acts_by(&tenant, &KeyChain::default());
    let service = |join: &str| {
        let join = ["/bin/sh", "-c", join];
        let settings = json!({
            "name": "exec", "sense": ["/bin/true"], "join": join, "leave": ["/bin/true"], "place": "executor",
        });
        BTreeMap::from([(Name::literal("cats"), spec(&settings))])
    };
    adapters.set(service("echo $TENURE_STEP $TENURE_NUMBER >step"));
    let join = Call { step: Step::Join, properties, ..setup };
    adapted.perform(&join).outcome.unwrap();
    let folders = machine.data.path().join("executor/folders");
    let folder = fs::read_dir(folders).unwrap().next().unwrap().unwrap().path();
    assert_eq!(fs::read_to_string(folder.join("step")).unwrap(), "join 1\n");

    adapted.perform(&Call { step: Step::Leave, ..join.clone() }).outcome.unwrap();
    adapters.set(service("echo no room >&2; exit 3"));
    let other = Call { unit: UnitId(2), ..join.clone() };
    driver.perform(&Call { step: Step::Setup, ..other.clone() }).outcome.unwrap();
    let failed = adapted.perform(&other).outcome.unwrap_err();
    assert_eq!(failed.0, "the join program failed on the unit (exit code 3): no room");
    let without = Call { unit: UnitId(3), properties: Properties::default(), ..join };
    let refused = adapted.perform(&without).outcome.unwrap_err();
    assert_eq!(refused.why_untouched(), Some("the unit has no executor"));
}
