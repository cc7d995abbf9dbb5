//! The outcome of a request as its user sees it: by tables, exit codes and `lease why`.

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::deployment::{Deployment, stderr};

fn of(config: &str) -> Deployment {
    Deployment::of(config, TempDir::new().expect("a folder"))
}

fn code(deployment: &Deployment, line: &str) -> (Option<i32>, String) {
    let output = deployment.tenure(line);
    (output.status.code(), stderr(&output))
}

const SMALL: &str = r#"
[site.alpha]
units = 2
[site.beta]
units = 1
[broker.exchange]
[service-manager.guest]
"#;

#[test]
fn a_lease_whose_units_cannot_be_set_up_is_not_taken_for_granted() {
    let broken = r#"
[site.alpha]
units = 1
driver = { name = "process", command = ["/no/such/program"] }
[broker.exchange]
[service-manager.guest]
"#;
    let deployment = of(broken);
    let (code, error) = code(&deployment, "lease request 1 --for 10m --wait");
    assert!(code.is_some_and(|code| code != 0), "{code:?}: {error}");
    assert!(
        error.contains("guest/1.0 was not granted: alpha: only 0 of 1 units could be set up"),
        "{error}"
    );
    assert!(error.contains("`tenure lease why guest/1.0`"), "{error}");
    let why = deployment.json("lease why 1");
    assert!(why[0]["reason"].as_str().is_some_and(|reason| reason.contains("set up")), "{why}");
}

#[test]
fn units_that_cannot_be_joined_are_reported_everywhere() {
    let broken = r#"
[site.alpha]
units = 1
[broker.exchange]
[service-manager.guest]
driver = { name = "start", command = ["/no/such/program"] }
"#;
    let deployment = of(broken);
    let output = deployment.tenure("lease request 1 --for 10m --wait");
    assert!(String::from_utf8_lossy(&output.stdout).contains("1 unusable"), "{output:?}");
    let why = deployment.json("lease why 1");
    let reason = why[0]["reason"].as_str().expect("a reason");
    assert!(
        reason.ends_with("but 1 of 1 units could not be joined by the guest's driver"),
        "{reason}"
    );
    let (code, error) = code(&deployment, "doctor");
    assert_eq!(code, Some(1));
    assert!(error.contains("1 units of guest/1.0 could not be joined"), "{error}");
}

#[test]
fn a_wait_for_an_extension_ends_with_its_outcome() {
    let deployment = of(SMALL);
    deployment.json("lease request 1 --for 10m --wait");
    let longer = deployment.json("lease extend 1 --for 5m --wait");
    assert_eq!(longer[0]["extension"], Value::Null);
    let (code, error) = code(&deployment, "lease extend 1 --for 100000d --wait");
    assert_eq!(code, Some(1), "{error}");
    assert!(error.contains("guest/1.0 was not extended; it ends as before"), "{error}");
    let why = deployment.json("lease why 1");
    let facts = why[0]["facts"].as_array().expect("facts");
    let denied = facts.iter().find(|fact| fact["kind"] == "service-manager.extension-denied");
    let says = denied.and_then(|fact| fact["says"].as_str()).expect("why it was denied");
    assert!(says.starts_with("`node` is delegated until "), "{says}");
}

#[test]
fn of_a_request_in_parts_each_is_recognised_by_its_own_facts() {
    let deployment = of(SMALL);
    let parts = deployment.json("lease request 3 --for 10m --wait");
    assert_eq!(parts.as_array().map(Vec::len), Some(2), "{parts}");
    let why = deployment.json("lease why 1");
    for why in why.as_array().expect("parts") {
        let held = why["lease"]["in_hand"].as_array().expect("units").len();
        let facts = why["facts"].as_array().expect("facts");
        let joined = facts.iter().filter(|fact| fact["kind"] == "service-manager.joined").count();
        assert_eq!(joined, held, "{why}");
    }
}

#[test]
fn a_holder_in_the_way_is_reported_with_its_extensions() {
    let deployment = of(SMALL);
    deployment.json("lease request 3 --for 10m --wait");
    deployment.json("lease extend 1 --for 20m --wait");
    let (code, error) = code(&deployment, "lease request 3 --for 10m --wait");
    assert_eq!(code, Some(75), "{error}");
    let lease = deployment.json("lease show 1.0");
    let refused =
        deployment.json("lease list --all").as_array().and_then(|all| all.last().cloned());
    let name = refused.expect("a lease")["lease"].as_str().expect("a name").to_owned();
    let why = deployment.json(&format!("lease why {name}"));
    let bookings = why[0]["bookings"].as_array().expect("bookings");
    assert_eq!(bookings.len(), 2, "{why}");
    assert!(bookings.iter().all(|booking| booking["request"] == "guest/1"), "{why}");
    assert!(bookings.iter().all(|booking| booking["end"] == lease[0]["end"]), "{why}");
}

#[test]
fn commands_that_make_no_sense_are_errors_in_terms_of_the_command_line() {
    let deployment = of(SMALL);
    deployment.json("lease request 1 --for 10m --wait");
    deployment.json("lease close 1 --wait");
    assert_eq!(deployment.json("lease close 1 --wait")[0]["state"], json!("closed"));
    for (line, expected, says) in [
        ("lease request 1 --for 0s", 2, "the duration must be positive"),
        ("lease request 0 --for 1h", 2, "an item has at least 1 unit"),
        (
            "lease extend 1 --for 5m",
            2,
            "guest/1.0 is closed; what can be extended is an active lease",
        ),
        ("site reset alpha/u99", 3, "no unit alpha/u99"),
        ("site reset alpha/u0", 2, "unit alpha/u0 is free; what can be reset is quarantined"),
    ] {
        let (code, error) = code(&deployment, line);
        assert_eq!(code, Some(expected), "{line}: {error}");
        let way_on = error.contains("help: ") || error.contains("try '--help'");
        assert!(error.contains(says) && way_on, "{line}: {error}");
    }
}
