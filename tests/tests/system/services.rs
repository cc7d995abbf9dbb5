//! Services by the commands of a live deployment.

use std::fs;

use serde_json::Value;
use tenure_tests::root;
use tenure_wait::{DEADLINE, eventually};

use crate::deployment::{Deployment, stderr};

fn started() -> Deployment {
    let config = fs::read_to_string(root().join("config/services.toml")).expect("a file");
    let config = config.replace("name = \"slo\"", "name = \"slo\", ask-every = \"1s\"");
    Deployment::of(&config, tempfile::tempdir().expect("a folder"))
}

fn deployed() -> Deployment {
    let deployment = started();
    let file = root().join("config/services/batch.toml");
    let added = deployment.json(&format!("service add guest/batch {}", file.display()));
    assert_eq!(added["state"], "unknown");
    deployment
}

/// How many units are in use for the service.
fn active(deployment: &Deployment) -> u64 {
    let leases = deployment.json("lease list --slice batch");
    let leases = leases.as_array().expect("a list").iter();
    let units = leases.filter(|lease| lease["state"] == "active").map(|lease| &lease["units"]);
    units.map(|units| units.as_u64().expect("a number")).sum()
}

/// The states of its SLOs, by name.
fn judged(service: &Value) -> Vec<(&str, &str)> {
    let slos = service["slos"].as_array().expect("SLOs").iter();
    slos.map(|slo| (slo["slo"].as_str().expect("a name"), slo["state"].as_str().expect("a word")))
        .collect()
}

#[test]
fn a_service_gets_what_it_claims_also_after_a_kill() {
    let mut deployment = deployed();
    let report = "service report batch busy-units=0 pending-units=2 oldest-wait=12m";
    let service = deployment.json(report);
    assert_eq!(judged(&service), [("busy", "standing"), ("wait", "missed")]);
    eventually(DEADLINE, "two nodes", || active(&deployment) == 2);
    deployment.end("-KILL");
    deployment.restart_up();
    let service =
        deployment.json("service report batch busy-units=2 pending-units=1 oldest-wait=0s");
    assert_eq!(judged(&service), [("busy", "standing"), ("wait", "met")]);
    let demand = &service["demands"][0];
    assert_eq!((&demand["held"], &demand["claimed"]), (&2.into(), &0.into()));
    let shown = deployment.tenure("service show batch");
    let shown = String::from_utf8(shown.stdout).expect("text");
    assert!(shown.contains("2 at 60, 1 at 55") && shown.contains("pending-units 1"), "{shown}");
    // As long as it runs, what is given back is asked for again.
    deployment.json("service report batch --seen stopped");
    deployment.close_all();
}

#[test]
fn a_service_that_runs_is_not_removed_and_one_that_is_stopped_is() {
    let deployment = deployed();
    deployment.json("service report guest/batch busy-units=0");
    let refused = deployment.tenure("service remove batch");
    assert_eq!(refused.status.code(), Some(2), "{}", stderr(&refused));
    assert!(stderr(&refused).contains("service batch is running"), "{}", stderr(&refused));
    deployment.json("service report guest/batch --seen stopped");
    deployment.json("service remove batch");
    assert_eq!(deployment.json("service list"), Value::Array(Vec::new()));
    let unknown = deployment.tenure("service show batch");
    assert_eq!(unknown.status.code(), Some(3), "{}", stderr(&unknown));
}

#[test]
fn what_cannot_be_followed_is_refused_with_its_place() {
    let deployment = deployed();
    let file = deployment.data.path().join("bad.toml");
    let path = file.display();
    for (text, says) in [
        ("slo.wait = { want = 'busy-units +', urgency = 1 }", "bad.toml"),
        ("slo.wait = { want = '1', urgency = -1 }", "urgency"),
        (
            "slo.wait = { want = '1', urgency = 1, rule = '3' }",
            "the rule of `wait` is no condition",
        ),
        (
            "behaviour.termm = '1h'",
            "bad.toml:1:11\n  |\n1 | behaviour.termm = '1h'\n  |           ^^^^^",
        ),
        (
            "slo.wait = { want = '1', urgency = 1, rule = 'wait < 1m' }\n\
             sla.gold = { slos = ['wait', 'cost'], target = '99%', window = '1d' }",
            "`slos` of the SLA `gold` names `cost`, which is no SLO",
        ),
        ("sla.gold = { slos = [], target = '99', window = '1d' }", "`99` is no share of time"),
    ] {
        fs::write(&file, text).expect("a file");
        let refused = deployment.tenure(&format!("service add batch {path}"));
        assert_eq!(refused.status.code(), Some(2), "{}", stderr(&refused));
        assert!(stderr(&refused).contains(says), "{}", stderr(&refused));
    }
    let good = root().join("config/services/batch.toml");
    let refused = deployment.tenure(&format!("service add rival/batch {}", good.display()));
    assert_eq!(refused.status.code(), Some(2), "{}", stderr(&refused));
    assert!(stderr(&refused).contains("name = \"slo\""), "{}", stderr(&refused));
    for bad in ["busy-units=some", "Busy=1", "busy-units{queue=3}=1"] {
        let refused = deployment.tenure(&format!("service report batch {bad}"));
        assert_eq!(refused.status.code(), Some(2), "{}", stderr(&refused));
        assert!(stderr(&refused).contains(bad), "{}", stderr(&refused));
    }
}

#[test]
fn services_of_the_configuration_are_defined_at_each_start() {
    let with = |service: &str| {
        let config = fs::read_to_string(root().join("config/services.toml")).expect("a file");
        format!("{config}\n{service}")
    };
    let busy =
        "[service-manager.guest.service.batch]\nslo.busy = { want = 'busy-units', urgency = 60 }";
    let mut deployment = Deployment::of(&with(busy), tempfile::tempdir().expect("a folder"));
    let urgency = |deployment: &Deployment| {
        deployment.json("service show batch")["slos"][0]["urgency"].as_u64().expect("a number")
    };
    assert_eq!(urgency(&deployment), 60);
    deployment.end("-TERM");
    deployment.restart_with(&with(&busy.replace("60", "70")));
    assert_eq!(urgency(&deployment), 70);
    deployment.end("-TERM");
    deployment.restart_with(&with(""));
    assert_eq!(urgency(&deployment), 70, "it stays until it is removed");
    deployment.end("-TERM");
    for (bad, says) in [
        (busy.replace("'busy-units'", "'busy-units < 3'"), "what `busy` wants is no number"),
        (busy.replace("guest", "rival"), "the mapper `static` follows no SLOs"),
        (busy.replace("urgency", "urgent"), "unknown key `urgent`"),
    ] {
        let refused = deployment.fails_with(&with(&bad));
        assert!(stderr(&refused).contains(says), "{}", stderr(&refused));
        assert!(stderr(&refused).contains("live.toml:"), "{}", stderr(&refused));
    }
}

#[test]
fn the_commands_of_the_document_work() {
    let deployment = started();
    let text = fs::read_to_string(root().join("docs/SERVICES.md")).expect("a document");
    let commands = text.lines().filter_map(|line| line.strip_prefix("tenure "));
    let of_services =
        |line: &&str| ["service ", "sla ", "unit "].iter().any(|of| line.starts_with(of));
    let commands = commands.filter(of_services);
    let config = format!(" {}/config/", root().display());
    let mut count = 0;
    for command in commands {
        let done = deployment.tenure(&command.replace(" config/", &config));
        assert!(done.status.success(), "{command}: {}", stderr(&done));
        count += 1;
    }
    assert_eq!(count, 10);
    eventually(DEADLINE, "two nodes", || active(&deployment) == 2);
    deployment.json("service report guest/batch --seen stopped");
    deployment.close_all();
}
