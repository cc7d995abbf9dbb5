//! Machines in use that become leased units as they are.

use std::fs;

use tenure_wait::{DEADLINE, eventually};

use crate::deployment::{Deployment, stderr};
use crate::software::{adoptable_units, define, deployed};

const SERVICE: &str = "slo.all = { want = 'units', urgency = 1 }\nbehaviour.mode = 'unmanaged'\n";

fn leases(deployment: &Deployment) -> usize {
    deployment.json("lease list").as_array().expect("leases").len()
}

#[test]
fn a_machine_in_use_is_leased_as_it_is_and_left_as_it_is() {
    let folder = tempfile::tempdir().expect("a folder");
    let deployment = deployed(&adoptable_units(folder.path()));
    define(&deployment, folder.path(), SERVICE);
    let unit = folder.path().join("unit-0");
    fs::write(&unit, "in use").expect("a file");

    let leased = deployment.json("unit adopt alpha/u0 guest/batch --wait");
    assert_eq!(leased[0]["state"], "active", "{leased}");
    let shown = deployment.json("unit show alpha/u0");
    assert_eq!(shown["properties"]["adopt"], "keep", "{shown}");
    assert_eq!(shown["properties"]["host.name"], "e0", "{shown}");
    let again = deployment.tenure("unit adopt alpha/u0 guest/batch");
    assert!(
        stderr(&again).contains("guest/batch has unit alpha/u0 by lease"),
        "{}",
        stderr(&again)
    );
    deployment.json("unit unassign alpha/u0");
    eventually(DEADLINE, "a unit that is free", || leases(&deployment) == 0);
    assert_eq!(fs::read_to_string(&unit).expect("a file"), "in use");

    deployment.json("unit adopt alpha/u0 guest/batch --take --wait");
    assert_eq!(fs::read_to_string(&unit).expect("a file"), "in use");
    deployment.json("unit unassign alpha/u0");
    eventually(DEADLINE, "a unit that is torn down", || !unit.exists());
    eventually(DEADLINE, "a unit that is free", || leases(&deployment) == 0);

    // What is not up is no machine in use.
    let refused = deployment.tenure("unit adopt alpha/u1 guest/batch --wait --timeout 20s");
    assert_ne!(refused.status.code(), Some(0));
    let why = deployment.tenure("lease why guest/3");
    let why = String::from_utf8_lossy(&why.stdout);
    assert!(why.contains("it is not up to be taken over: its probe says down"), "{why}");
    deployment.close_all();
}

#[test]
fn a_site_that_does_not_allow_it_refuses() {
    let folder = tempfile::tempdir().expect("a folder");
    let deployment = deployed("units = 1");
    define(&deployment, folder.path(), SERVICE);
    let refused = deployment.tenure("unit adopt alpha/u0 guest/batch --wait --timeout 20s");
    assert_ne!(refused.status.code(), Some(0));
    let why = deployment.tenure("lease why guest/1");
    let why = String::from_utf8_lossy(&why.stdout);
    assert!(why.contains("takes over no units in use (setting `adopt`)"), "{why}");
    deployment.close_all();
}
