//! `tenure lease why`: the one reason, with the booking or the fault behind it and the facts.

use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

use serde_json::Value;

use crate::deployment::{Deployment, stderr};

/// Lends files of its folder. While there is a file `stuck` none can be taken back; where there is a pipe
/// `gate`, a teardown waits there.
const LENDER: &str = r#"#!/bin/sh
read -r input
unit=${input#*\"unit\":}
unit=${unit%%,*}
case $input in
*'"step":"setup"'*) mkdir -p lent; : > "lent/$unit" ;;
*'"step":"teardown"'*) [ ! -p gate ] || read -r open < gate; [ ! -e stuck ] || { echo "the lid is stuck" >&2; exit 1; }; rm -f "lent/$unit" ;;
*) if [ -e "lent/$unit" ]; then echo '{"state":"up"}'; else echo '{"state":"down"}'; fi ;;
esac
"#;

/// A site whose driver is [`LENDER`], and two service managers.
fn lender(units: u32) -> Deployment {
    with_driver(LENDER, units)
}

/// A site whose driver is a program, and two service managers.
pub(crate) fn with_driver(text: &str, units: u32) -> Deployment {
    let data = tempfile::tempdir().expect("a folder");
    let program = data.path().join("lender");
    std::fs::write(&program, text).expect("a program");
    let mode = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(&program, mode).expect("its mode");
    let sum = Command::new("sha256sum").arg(&program).output().expect("sha256sum");
    let sum = String::from_utf8(sum.stdout).expect("text");
    let (sum, path) = (sum.split(' ').next().expect("a hash"), program.display());
    let config = format!(
        r#"[site.alpha]
units = {units}
driver = {{ name = "exec", setup = "{path}", teardown = "{path}", probe = "{path}", allow = ["{sum}"] }}
[broker.exchange]
[service-manager.guest]
[service-manager.rival]
"#
    );
    Deployment::of(&config, data)
}

/// Why a lease is as it is.
fn why(deployment: &Deployment, lease: &str) -> Value {
    deployment.json(&format!("lease why {lease}"))[0].clone()
}

fn reason(why: &Value) -> &str {
    why["reason"].as_str().expect("a reason")
}

/// The kinds of the facts that bear it out, with the actors that hold them.
fn kinds(why: &Value) -> Vec<String> {
    let facts = why["facts"].as_array().expect("facts").iter();
    let word = |fact: &Value, key: &str| fact[key].as_str().unwrap_or_default().to_owned();
    facts.map(|fact| format!("{} {}", word(fact, "actor"), word(fact, "kind"))).collect()
}

#[test]
fn an_active_lease_a_busy_one_and_one_that_can_never_be_name_what_is_behind_them() {
    let deployment = lender(2);
    deployment.json("lease request 2 --for 1h --as guest --wait");
    let active = why(&deployment, "guest/1");
    assert!(reason(&active).starts_with("it is active until "), "{active}");
    for fact in [
        "guest service-manager.joined",
        "exchange broker.tickets-cut",
        "alpha site.lease-activated",
    ] {
        assert!(kinds(&active).iter().any(|kind| kind == fact), "{fact}: {active}");
    }

    let output = deployment.tenure("lease request 1 --for 30m --as rival --wait");
    assert_eq!(output.status.code(), Some(75), "{}", stderr(&output));
    let busy = why(&deployment, "rival/1");
    let booking = &busy["bookings"][0];
    assert_eq!((&booking["request"], &booking["site"]), (&"guest/1".into(), &"alpha".into()));
    assert_eq!((&booking["units"], &busy["more_bookings"]), (&2.into(), &0.into()));
    let lease = deployment.json("lease show guest/1")[0].clone();
    assert_eq!(booking["end"], lease["end"]);
    assert_eq!(busy["room_at"], lease["end"]);
    let end = lease["end"].as_str().expect("an end");
    assert!(
        reason(&busy).ends_with(&format!("guest/1 holds 2 node of alpha until {end}")),
        "{busy}"
    );
    assert!(kinds(&busy).contains(&"exchange broker.request-refused".to_owned()), "{busy}");

    let output = deployment.tenure("lease request 7 --for 30m --as rival --wait");
    assert_eq!(output.status.code(), Some(3), "{}", stderr(&output));
    let never = why(&deployment, "rival/2");
    assert!(reason(&never).contains("7 units of `node` are more than the 2 that exist"), "{never}");
    assert_eq!(never["findings"][1]["says"], "it can sell 2 of alpha");
    assert_eq!(never["lease"]["min_units"], 7, "what was asked for is not forgotten");

    // Nothing is delegated for that long yet: that is no shortage of units.
    let output = deployment.tenure("lease request 1 --for 90d --as rival --wait");
    assert_eq!(output.status.code(), Some(75), "{}", stderr(&output));
    let beyond = why(&deployment, "rival/3");
    assert_eq!(beyond["lease"]["refusal"]["code"], "beyond");
    let until = deployment.json("broker list")[0]["delegations"][0]["end"].clone();
    let until = until.as_str().expect("an end");
    assert!(reason(&beyond).contains(&format!("is delegated until {until}")), "{beyond}");

    // For people the same, and the way to the rest of the facts.
    let shown = deployment.tenure("lease why rival/1");
    let shown = String::from_utf8(shown.stdout).expect("text");
    assert!(
        shown.contains(&format!("held      2 node of alpha by guest/1, until {end}")),
        "{shown}"
    );
    let see = shown.lines().find_map(|line| line.strip_prefix("see:  tenure ")).expect("a command");
    let line = see.split(' ').collect::<Vec<_>>();
    let facts = Command::new(tenure_tests::tenure()).args(line).output().expect("it runs");
    let facts = String::from_utf8(facts.stdout).expect("text");
    assert!(facts.contains("service-manager.ask-refused"), "{facts}");
}

#[test]
fn a_lease_that_waits_for_a_unit_names_it_and_what_is_pending() {
    let deployment = lender(1);
    deployment.json("lease request 1 --for 1h --as guest --wait");
    let gate = deployment.data.path().join("drivers/alpha/gate");
    assert!(Command::new("mkfifo").arg(&gate).status().is_ok_and(|made| made.success()));
    deployment.json("lease close guest/1 --wait");
    // The unit is being cleaned until the gate is opened.
    deployment.json("lease request 1 --for 30m --as rival");
    let found = (0..1000)
        .map(|_| why(&deployment, "rival/1"))
        .find(|why| why["faults"].as_array().is_some_and(|faults| !faults.is_empty()));
    let found = found.expect("it waits at the site");
    let fault = &found["faults"][0];
    assert_eq!((&fault["unit"], &fault["state"]), (&"alpha/u0".into(), &"tearing-down".into()));
    assert!(reason(&found).contains("alpha/u0 is tearing-down"), "{found}");
    // Its redeem is pending until the site answers, and the site is up.
    let pending = found["pending"].as_array().expect("a list").iter();
    let redeem =
        pending.into_iter().find(|pending| pending["what"] == "redeem").expect("a message");
    assert_eq!((&redeem["to"], &redeem["down"]), (&"alpha".into(), &Value::Null));
    assert!(redeem["sent"].as_u64() >= Some(1), "{redeem}");
    std::fs::write(&gate, "open\n").expect("the gate");
    std::fs::remove_file(&gate).expect("no gate");
    let mut seen = (0..1000).map(|_| why(&deployment, "rival/1"));
    let settled = seen.any(|why| why["lease"]["state"] == "active");
    assert!(settled, "with the unit the lease has what it waited for");
}

#[test]
fn a_lease_that_its_site_lost_to_a_unit_in_quarantine_names_it_and_its_fault() {
    let deployment = lender(1);
    deployment.json("lease request 1 --for 1h --as guest --wait");
    let stuck = deployment.data.path().join("drivers/alpha/stuck");
    std::fs::write(&stuck, "").expect("a file");
    deployment.json("lease close guest/1 --wait");
    let quarantined = (0..1000).any(|_| deployment.tenure("doctor").status.code() == Some(1));
    assert!(quarantined, "the unit was cleaned");
    // The broker knows of one unit, and sells it.
    deployment.json("lease request 1 --for 30m --as rival");
    let found = (0..1000).map(|_| why(&deployment, "rival/1"));
    let found = found.into_iter().find(|why| why["lease"]["state"] == "closed").expect("its end");
    let says = "only 0 of 1 units could be set up; alpha/u0 is quarantined: its teardown failed";
    assert!(reason(&found).contains(says), "{found}");
    let fault = &found["faults"][0];
    assert_eq!((&fault["unit"], &fault["state"]), (&"alpha/u0".into(), &"quarantined".into()));
    assert_eq!((&fault["step"], &fault["times"]), (&"teardown".into(), &1.into()));
    assert!(fault["error"].as_str().is_some_and(|e| e.contains("the lid is stuck")), "{found}");
    assert!(found["help"].as_str().is_some_and(|h| h.contains("site reset alpha/u0")), "{found}");
    // The place of the fault in the site's journal is the fact that it says.
    let journal = deployment.data.path().join("journals/alpha.db");
    let facts = Command::new(tenure_tests::tenure())
        .args(["journal", "show", "-o", "json"])
        .arg(journal)
        .output()
        .expect("it runs");
    let facts: Value = serde_json::from_slice(&facts.stdout).expect("JSON");
    let position = fault["position"].as_u64().expect("a position");
    let all = facts["facts"].as_array().expect("facts");
    let fact = all.iter().find(|fact| fact["position"] == position).expect("the fact");
    assert_eq!(fact["kind"], "site.unit-teardown-failed");
    std::fs::remove_file(&stuck).expect("unstuck");
    deployment.json("site reset alpha/u0");
}

/// Changes the journal of an actor behind its back.
fn edit(deployment: &Deployment, actor: &str, sql: &str) {
    let path = deployment.data.path().join(format!("journals/{actor}.db"));
    let journal = rusqlite::Connection::open(path).expect("a journal");
    journal.execute_batch(sql).expect("a change");
}

#[test]
fn of_all_facts_only_those_of_the_lease_are_read() {
    let mut deployment = lender(2);
    for guest in ["guest", "rival"] {
        for number in 1..=2 {
            deployment.json(&format!("lease request 1 --for 1h --as {guest} --wait"));
            deployment.json(&format!("lease close {guest}/{number} --wait"));
        }
        deployment.json(&format!("lease request 1 --for 1h --as {guest} --wait"));
    }
    let known = |deployment: &Deployment, lease: &str| {
        let why = why(deployment, lease);
        for actor in [&lease[..lease.len() - 2], "exchange", "alpha"] {
            assert!(kinds(&why).iter().any(|kind| kind.starts_with(actor)), "{actor}: {why}");
        }
        (reason(&why).to_owned(), why["facts"].clone())
    };
    let before = ["guest/2", "rival/3"].map(|lease| known(&deployment, lease));

    // A journal of an earlier format is read once, at the start that gives it its index.
    assert_eq!(deployment.end("-TERM"), Some(0));
    let old = "DROP TABLE about; DROP TABLE lease; DROP TABLE unit; DROP TABLE segment; \
               PRAGMA user_version = 3";
    ["guest", "rival", "exchange", "alpha"].iter().for_each(|name| edit(&deployment, name, old));
    deployment.restart_up();
    assert_eq!(["guest/2", "rival/3"].map(|lease| known(&deployment, lease)), before);

    // Facts about others cannot be read any more, and are not missed.
    for name in ["guest", "rival", "exchange", "alpha"] {
        let others = "UPDATE fact SET checksum = checksum + 1 \
                      WHERE position NOT IN (SELECT position FROM about WHERE number = 2)";
        edit(&deployment, name, others);
    }
    assert_eq!(known(&deployment, "guest/2"), before[0]);
    let damaged = deployment.tenure("lease why rival/3");
    assert_eq!(damaged.status.code(), Some(1), "{}", stderr(&damaged));
}
