//! Reports on services: of an emulation, of a running deployment, and of the journals that it leaves.

use std::fmt::Write as _;
use std::fs;

use serde_json::Value;
use tempfile::TempDir;
use tenure_tests::{check_golden, root, run};
use tenure_wait::{DEADLINE, eventually};

use crate::deployment::{Deployment, stderr};

/// Units are taken as soon as needs have been the same for a minute.
const SOON: &str = "broker.exchange.mapper.recall.stable-for=1m";

/// The journals of an emulation in which units move.
fn emulated(scenario: &str) -> (TempDir, String) {
    let folder = tempfile::tempdir().expect("a folder");
    let journals = folder.path().join("journals").display().to_string();
    let args = ["emulate", scenario, "--set", "preset=tenure", "--set", "horizon=8h"];
    let args = [&args[..], &["--set", SOON]].concat();
    let done = run(&[&args[..], &["--journals", &journals]].concat());
    assert!(done.status.success(), "{}", stderr(&done));
    (folder, journals)
}

#[track_caller]
fn printed(args: &[&str]) -> String {
    let done = run(args);
    assert!(done.status.success(), "{args:?}: {}", stderr(&done));
    String::from_utf8(done.stdout).expect("text")
}

#[track_caller]
fn rows(args: &[&str]) -> Vec<Value> {
    let printed = printed(&[args, &["-o", "json"]].concat());
    serde_json::from_str(&printed).expect("a list")
}

#[test]
fn the_reports_of_an_emulation_read_as_the_golden_file_says() {
    let (_folder, journals) = emulated("config/emulations/services.toml");
    let mut text = String::new();
    for command in [
        "kpi --service lab/batch --since 1h9m --until 1h11m",
        "kpi --service shop/pages --kpi lacking --at 3h",
        "slo --service lab/batch",
        "slo --at 5h44m",
        "needs --at 5h44m",
        "orders",
        "orders --at 5h44m -o csv",
        "moves",
        "moves --service shop/pages --type node -o csv",
        "units --at 5h46m",
        "sla",
        "sla --breaches -o csv",
        "sla --since 1h --until 2h -o json",
    ] {
        let args: Vec<&str> = ["report"].into_iter().chain(command.split(' ')).collect();
        let said = printed(&[&args[..], &[&journals]].concat());
        write!(text, "$ tenure report {command}\n{said}\n").expect("text");
    }
    let said = printed(&["sla", "show", "lab/batch", &journals]);
    write!(text, "$ tenure sla show lab/batch\n{said}").expect("text");
    check_golden("tests/golden/reports.txt", &text);
}

#[test]
fn what_moved_is_what_was_ordered_and_who_has_units_is_who_got_them() {
    let (folder, journals) = emulated("config/emulations/hedeby.toml");
    let moves = rows(&["report", "moves", &journals]);
    let of = |row: &Value, key: &str| row[key].as_str().expect("text").to_owned();
    let moved: Vec<_> = moves.iter().map(|row| (of(row, "from"), of(row, "to"))).collect();
    let from = |guest: &str| (guest.to_owned(), "b/work".to_owned());
    assert_eq!(moved, [from("pool/spare"), from("a/work")]);
    let orders = rows(&["report", "orders", &journals]);
    let delivered = orders.iter().filter(|order| order["state"] == "delivered");
    let ended: Vec<_> = delivered.map(|order| (&order["order"], &order["ended"])).collect();
    assert_eq!(ended, moves.iter().map(|row| (&row["order"], &row["at"])).collect::<Vec<_>>());
    // As the scenario's document says, and as its own figures do.
    let held = rows(&["report", "units", &journals, "--at", "7h59m"]);
    let count = |holder: &str| held.iter().filter(|row| row["holder"] == holder).count();
    assert_eq!((count("a/work"), count("b/work"), count("pool/spare")), (2, 4, 0));
    assert!(held.iter().all(|row| row["kind"] == "service"), "{held:?}");

    let svg = folder.path().join("units.svg");
    printed(&["report", "units", &journals, "--svg", svg.to_str().expect("a path")]);
    let svg = fs::read_to_string(svg).expect("a picture");
    for text in ["<svg", "alpha/u0", "a/work", "b/work", "pool/spare"] {
        assert!(svg.contains(text), "no {text}");
    }
}

#[test]
fn a_running_deployment_answers_what_its_journals_say() {
    let config = fs::read_to_string(root().join("config/services.toml")).expect("a file");
    let config = config.replace("name = \"slo\"", "name = \"slo\", ask-every = \"1s\"");
    let mut deployment = Deployment::of(&config, tempfile::tempdir().expect("a folder"));
    let file = root().join("config/services/batch.toml");
    deployment.json(&format!("service add guest/batch {}", file.display()));
    deployment.json("service report batch busy-units=0 pending-units=2 oldest-wait=12m");
    let held = || deployment.json("report units --service guest/batch");
    eventually(DEADLINE, "two nodes", || held().as_array().is_some_and(|rows| rows.len() == 2));
    let of_kind = |kind: &str| deployment.json(&format!("report units --kind {kind}"));
    let count = |rows: Value| rows.as_array().map(Vec::len);
    assert_eq!((count(of_kind("service")), count(of_kind("slice"))), (Some(2), Some(0)));
    deployment.json("service report batch busy-units=2 pending-units=0 oldest-wait=0s");

    let data = deployment.data.path().display().to_string();
    let kpis = deployment.json("report kpi --kpi oldest-wait");
    let values: Vec<_> = kpis.as_array().expect("rows").iter().map(|row| &row["value"]).collect();
    assert_eq!(values, ["12m", "0s"]);
    for same in ["kpi --service guest/batch", "needs", "orders", "moves"] {
        let args: Vec<&str> = ["report"].into_iter().chain(same.split(' ')).collect();
        // What was told of services may be noted between the two.
        eventually(DEADLINE, same, || {
            let live = deployment.json(&format!("report {same}"));
            live == Value::Array(rows(&[&args[..], &[&data]].concat()))
        });
    }
    let slos = deployment.json("report slo --service batch");
    let states = slos.as_array().expect("rows").iter().filter(|row| row["slo"] == "wait");
    let states: Vec<_> = states.map(|row| (&row["state"], row["end"].is_null())).collect();
    let ended = |state: &str| (Value::from(state), false);
    let expected = [ended("unknown"), ended("missed"), (Value::from("met"), true)];
    assert_eq!(states, expected.iter().map(|(state, open)| (state, *open)).collect::<Vec<_>>());

    let sla = deployment.json("sla show guest/batch --sla gold")[0].clone();
    assert_eq!((&sla["state"], &sla["target"]), (&"kept".into(), &"99%".into()));
    let breaches = sla["breaches"].as_array().expect("breaches");
    assert_eq!(breaches.len(), 1, "{sla}");
    assert_eq!(breaches[0]["why"], "wait: `oldest-wait` < 10m with oldest-wait 12m");
    let unknown = deployment.tenure("sla show guest/batch --sla silver");
    assert_eq!(unknown.status.code(), Some(3), "{}", stderr(&unknown));

    deployment.json("service report batch --seen stopped");
    deployment.close_all();
    deployment.end("-TERM");
    let ended = rows(&["report", "units", &data, "--service", "guest/batch"]);
    assert!(ended.iter().all(|row| !row["end"].is_null()), "{ended:?}");
}

#[test]
fn what_cannot_be_reported_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().to_str().expect("a path");
    for (args, says) in [
        (&["report", "moves", path][..], "no journals"),
        (&["report", "slo", path, "--at", "yesterday"], "use a date such as"),
        (&["report", "slo", path, "--at", "1h", "--since", "1h"], "cannot be used with"),
        (&["report", "kpi", "--data", path], "no deployment"),
    ] {
        let refused = run(args);
        assert!(!refused.status.success());
        assert!(stderr(&refused).contains(says), "{args:?}: {}", stderr(&refused));
    }
}
