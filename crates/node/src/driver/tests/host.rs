//! Machines with an executor, which runs in a thread here.

use std::path::Path;
use std::sync::mpsc;
use std::thread::{self, JoinHandle};

use serde_json::{Value, json};
use tempfile::TempDir;
use tenure_core::driver::{Call, ResourceDriver, Step};
use tenure_core::model::identity::{Scheme, Signer};
use tenure_core::model::keys::KeyChain;
use tenure_wait::{DEADLINE, receive};
use tokio::sync::oneshot;

use super::super::conformance;
use super::{call, site};
use crate::executor::{Settings, run_until};

/// An executor, until it is dropped.
pub(crate) struct Machine {
    pub(crate) data: TempDir,
    id: String,
    address: String,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Machine {
    pub(crate) fn of(site: &Signer) -> Self {
        Self::with(site, "")
    }

    /// One with more settings.
    pub(crate) fn with(site: &Signer, settings: &str) -> Self {
        let data = TempDir::new().unwrap();
        let site = site.id().to_hex();
        let text = format!("listen = \"127.0.0.1:0\"\nsite = \"{site}\"\n{settings}");
        let settings: Settings = toml::from_str(&text).unwrap();
        let (stop, stopped) = oneshot::channel::<()>();
        let (ready, is_ready) = mpsc::channel();
        let folder = data.path().to_owned();
        let thread = thread::spawn(move || {
            let until = async {
                drop(stopped.await);
                Ok(())
            };
            let tell = |id, address| ready.send((id, address)).unwrap();
            run_until(settings, &folder, tell, until).unwrap();
        });
        let (id, address) = receive(DEADLINE, "an executor", &is_ready);
        let (id, address) = (id.to_hex(), address.to_string());
        Self { data, id, address, stop: Some(stop), thread: Some(thread) }
    }

    /// How the settings of a driver name it.
    pub(crate) fn executor(&self) -> Value {
        json!({ "address": self.address, "id": self.id })
    }

    /// The settings of a driver whose units are all here.
    pub(crate) fn settings(&self) -> Value {
        let host = |unit: u32| json!({ "unit": unit, "address": self.address, "id": self.id });
        json!({ "hosts": (0..200).map(host).collect::<Vec<_>>() })
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        drop(self.stop.take());
        drop(self.thread.take().map(JoinHandle::join));
    }
}

pub(crate) fn signer(seed: u8) -> Signer {
    Signer::from_seed(Scheme::Ed25519, [seed; 32])
}

/// The driver of a site with this key.
pub(crate) fn open(home: &Path, settings: &Value, signer: &Signer) -> Box<dyn ResourceDriver> {
    let driver = site("host", home, settings).unwrap();
    driver.acts_by(signer, &KeyChain::default());
    driver
}

#[test]
fn host_keeps_its_promises_with_an_executor() {
    let (owner, home) = (signer(1), TempDir::new().unwrap());
    let machine = Machine::of(&owner);
    let settings = machine.settings();
    let sample = Call { site: owner.id(), ..call(1, Step::Setup) };
    let stories = conformance::site(|| open(home.path(), &settings, &owner), &sample, 3);
    assert_eq!(stories, Ok(125));
}

#[test]
fn an_executor_keeps_its_fence_though_its_site_has_lost_its_own() {
    let owner = signer(1);
    let machine = Machine::of(&owner);
    let settings = machine.settings();
    let sample = Call { site: owner.id(), ..call(5, Step::Setup) };
    let [home, other] = [(); 2].map(|()| TempDir::new().unwrap());
    let driver = open(home.path(), &settings, &owner);
    let properties = driver.perform(&sample).outcome.unwrap();
    assert_eq!(properties.get("executor.address"), Some(&*machine.address));
    assert_eq!(driver.probe(owner.id(), sample.unit).unwrap(), properties);
    let late = Call { site: owner.id(), ..call(4, Step::Teardown) };
    let amnesiac = open(other.path(), &settings, &owner);
    let error = amnesiac.perform(&late).outcome.unwrap_err();
    assert!(error.0.contains("epoch 4 of u1 has ended: epoch 5 has begun"), "{error}");
    assert!(machine.data.path().join("executor/folders").read_dir().unwrap().next().is_some());
}

#[test]
fn a_site_that_is_not_the_executors_own_and_a_unit_without_one_are_refused() {
    let (owner, other, home) = (signer(1), signer(2), TempDir::new().unwrap());
    let machine = Machine::of(&owner);
    let driver = open(home.path(), &machine.settings(), &other);
    let sample = Call { site: other.id(), ..call(1, Step::Setup) };
    let error = driver.perform(&sample).outcome.unwrap_err();
    assert!(error.0.contains("is not the site of this executor"), "{error}");
    let far = Call { unit: tenure_core::driver::UnitId(900), ..sample };
    let error = driver.perform(&far).outcome.unwrap_err();
    assert!(error.0.contains("has none for u900"), "{error}");
    let twice = json!({ "hosts": [
        { "unit": 1, "address": "a:1", "id": machine.id },
        { "unit": 1, "address": "b:1", "id": machine.id },
    ] });
    let error = site("host", &home.path().join("other"), &twice).err().unwrap();
    assert!(error.contains("`hosts` has two for unit 1"), "{error}");
}
