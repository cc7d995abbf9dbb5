//! Operators change what a site has while it runs, and a start leaves it at that.

use crate::deployment::{Deployment, stderr};

const CONFIG: &str = "\
[site.alpha]
mapper = { name = \"spread\", by = \"rack\" }
[site.alpha.stock.node.named]
n1 = { rack = \"one\" }
n2 = { rack = \"one\" }
n3 = { rack = \"two\" }
n4 = { rack = \"two\" }
[site.alpha.stock.storage]
units = 500
kind = \"share\"
[broker.exchange]
[service-manager.guest]
";

/// The units of the site: name (or number), state, whether it is drained.
fn units(deployment: &Deployment) -> Vec<(String, String, bool)> {
    let site = deployment.json("site show alpha");
    let units = site["units"].as_array().expect("units").iter().map(|unit| {
        let name = unit["name"].as_str().or(unit["unit"].as_str()).expect("a name");
        let state = unit["state"].as_str().expect("a state");
        (name.to_owned(), state.to_owned(), unit["drained"].as_bool().expect("a flag"))
    });
    units.collect()
}

fn of(deployment: &Deployment, name: &str) -> Option<(String, bool)> {
    let found = units(deployment).into_iter().find(|(unit, ..)| unit == name);
    found.map(|(_, state, drained)| (state, drained))
}

#[test]
fn units_with_names_are_spread_drained_added_and_removed_and_a_kill_and_a_start_change_nothing() {
    let mut deployment = Deployment::of(CONFIG, tempfile::tempdir().expect("a folder"));
    let lease = deployment.json("lease request 2 --for 1h --wait");
    let held = units(&deployment).into_iter().filter(|(_, state, _)| state == "ready");
    let held: Vec<String> = held.map(|(name, ..)| name).collect();
    assert_eq!(held, ["n1", "n3"], "one of each rack: {lease}");

    for command in ["site drain alpha/n1", "site drain alpha/n2", "site drain alpha/u3"] {
        deployment.json(command);
    }
    assert_eq!(of(&deployment, "n1"), Some(("ready".to_owned(), true)), "the lease keeps it");
    let refused = deployment.tenure("site remove alpha/n1");
    assert_eq!(refused.status.code(), Some(2));
    assert!(stderr(&refused).contains("what can be removed is idle"), "{}", stderr(&refused));
    let refused = deployment.tenure("site drain alpha/n9");
    assert_eq!(refused.status.code(), Some(3), "{}", stderr(&refused));

    deployment.json("site add alpha node --name n5 --attribute rack=three --id once");
    deployment.json("site add alpha node --name n5 --attribute rack=three --id once");
    deployment.json("site quarantine alpha/n2 --why noise");
    let after = units(&deployment);
    assert_eq!(after.iter().filter(|(name, ..)| name == "n5").count(), 1);

    deployment.end("-KILL");
    deployment.restart_up();
    assert_eq!(units(&deployment), after, "as before the kill, though the file says otherwise");
    deployment.json("site reset alpha/n2");
    assert_eq!(of(&deployment, "n2"), Some(("free".to_owned(), true)));
    deployment.json("site resume alpha/n2");
    // All units but the new one are delegated.
    deployment.json("site drain alpha/n5");
    deployment.json("site remove alpha/n5");
    assert_eq!(of(&deployment, "n5"), None);
    let again = deployment.json("lease request 1 --for 1h --wait");
    assert_eq!(of(&deployment, "n2"), Some(("ready".to_owned(), false)), "the only free: {again}");

    // What a lease has is taken from it, and goes once its guest has given it back.
    deployment.json("site add alpha node --name n6");
    let left = deployment.json("site remove alpha/n1 --force --timeout 1m");
    assert!(!left["units"].to_string().contains("\"n1\""), "{left}");
    assert_eq!(of(&deployment, "n1"), None);
    let gone = deployment.tenure("site remove alpha/n1 --force");
    assert_eq!(gone.status.code(), Some(3), "{}", stderr(&gone));
}

#[test]
fn a_start_takes_over_what_a_named_unit_is_like_and_refuses_a_name_that_is_a_number() {
    let mut deployment = Deployment::of(CONFIG, tempfile::tempdir().expect("a folder"));
    deployment.end("-TERM");
    let other = CONFIG.replace("n4 = { rack = \"two\" }", "n4 = { rack = \"three\" }");
    deployment.restart_with(&other);
    let site = deployment.json("site show alpha");
    let units = site["units"].as_array().expect("units");
    let n4 = units.iter().find(|unit| unit["name"] == "n4").expect("the unit");
    assert_eq!(n4["attributes"]["rack"], "three");
    deployment.end("-TERM");
    let refused = deployment.fails_with(&other.replace("n4 =", "u4 ="));
    let says = stderr(&refused);
    assert!(says.contains("`u4` is how the unit of that number is called"), "{says}");
    deployment.restart_with(&other);
}

#[test]
fn nobody_waits_for_a_request_of_somebody_else() {
    let deployment = Deployment::of(CONFIG, tempfile::tempdir().expect("a folder"));
    let refused = deployment.tenure("lease request 1 --for 1h --as guest --redeem-after rival/1");
    let says = stderr(&refused);
    assert!(says.contains("guest cannot wait for a request of rival"), "{says}");
}
