//! What commands on a deployment print: answers, errors and their codes.

use std::process::Command;

use serde_json::{Value, json};
use tenure_tests::tenure;

use crate::deployment::{Deployment, stderr, tenure_on};

#[test]
fn a_no_has_a_code_a_reason_and_a_way_on() {
    let deployment = Deployment::start();
    for (line, code, reason, help) in [
        ("lease request 99 --for 1h --wait", 3, "more than the 6 that exist", "tenure lease why"),
        ("lease request 1 gpu --for 1h --wait", 3, "no site offers `gpu`", "tenure lease why"),
        ("lease request 1 --for 1h --at now+1h --wait --timeout 1s", 124, "not settled", "why"),
        ("lease request 1 --for 1h --at now+2h --by now+1h", 2, "is before the earliest", "now+1h"),
        ("lease request 1 --for 1h --at 2001-01-01T00:00:00Z", 2, "is over", "2001-01-01"),
        ("lease request 1 --for 1h --at 25:00", 2, "is no moment", "tomorrow 9:00"),
        ("lease request 1 --for 1h --where speed>=", 2, "found the end (column 8)", "speed>=\n"),
        ("lease request 1 --for 1h --where 3", 2, "not a condition", "^"),
        (
            "lease request 1..2 --for 1h --where speed>=9 --wait",
            3,
            "no `node` meets the requirements: speed >= 9: speed is 2",
            "tenure lease why",
        ),
        (
            "lease request 1 node where sped>=2 --for 1h --wait",
            3,
            "unknown attribute `sped`; did you mean `speed`?",
            "tenure lease why",
        ),
        ("lease request 1 --for 1h --broker exchang", 3, "no broker", "did you mean `exchange`"),
        ("lease show guest/77", 3, "no lease", "tenure lease list --all"),
        ("site show gamma", 3, "no site", "known: alpha, beta"),
        ("ticket show ffff", 3, "no ticket", "tenure lease show"),
    ] {
        let output = deployment.tenure(line);
        let error = stderr(&output);
        assert_eq!(output.status.code(), Some(code), "{line}: {error}");
        assert!(error.contains(reason) && error.contains(help), "{line}: {error}");
    }
    deployment.json("lease request 5 --for 1h --wait");
    let busy = deployment.tenure("lease request 1 --for 1h --wait");
    assert_eq!(busy.status.code(), Some(75), "{}", stderr(&busy));
    // The same in JSON.
    let output = deployment.tenure("lease show guest/77 -o json");
    let error: Value = serde_json::from_slice(&output.stderr).expect("JSON");
    assert_eq!(error["error"]["message"], "no lease guest/77");
    assert_eq!(error["error"]["code"], "no-such");
    assert!(error["error"]["help"].as_str().is_some_and(|help| help.contains("--all")), "{error}");
}

#[test]
fn a_range_and_an_expression_choose_units_and_how_many() {
    let deployment = Deployment::start();
    // Two of the six are at beta.
    let leases = deployment.json("lease request 1..4 node --for 1h --where speed>=3 --wait");
    assert_eq!((&leases[0]["site"], &leases[0]["units"]), (&json!("beta"), &json!(2)));
    // The name of a site is an attribute.
    let leases = deployment.json(r#"lease request 1 node where site!="beta" --for 1h --wait"#);
    assert_eq!(leases[0]["site"], "alpha");
    // Two items are one request, all or nothing.
    let line = r#"lease request 1 node where site="alpha" , 1 node where speed<3 --for 1h --wait"#;
    let leases = deployment.json(line);
    assert_eq!(leases.as_array().map(Vec::len), Some(2), "{leases}");
    let both = deployment.tenure("lease request 1 node, 1 gpu --for 1h --wait");
    assert_eq!(both.status.code(), Some(3), "{}", stderr(&both));
}

#[test]
fn every_command_that_reads_prints_what_was_asked_for() {
    let deployment = Deployment::start();
    let lease = deployment.json("lease request 2 --for 1h --wait")[0].clone();
    let hash = lease["tickets"][0].as_str().expect("a ticket").to_owned();
    let name = lease["lease"].as_str().expect("a name").to_owned();
    for (line, column) in [
        ("lease list", "lease"),
        (&*format!("lease show {name}"), "lease"),
        (&*format!("lease why {name}"), "reason"),
        ("slice list", "slice"),
        ("site list", "free"),
        ("site show alpha", "epoch"),
        ("broker list", "free"),
        ("broker show exchange", "free"),
        ("keys show exchange", "key"),
        (&*format!("ticket show {hash}"), "signed"),
        ("doctor", "open"),
    ] {
        let printed = |output: &str| {
            let output = deployment.tenure(&format!("{line} -o {output}"));
            assert_eq!(output.status.code(), Some(0), "{line}: {}", stderr(&output));
            String::from_utf8(output.stdout).expect("text")
        };
        let value: Value = serde_json::from_str(&printed("json")).expect("JSON");
        let all = value.as_array().cloned().unwrap_or_else(|| vec![value]);
        let lines: Vec<Value> = printed("jsonl")
            .lines()
            .map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("no JSON: {line}")))
            .collect();
        assert_eq!(lines.len(), all.len(), "{line}");
        for object in all.iter().chain(&lines) {
            assert_eq!(object["version"], 1, "{line}: {object}");
        }
        let csv = printed("csv");
        let mut rows = csv.lines();
        let head: Vec<&str> = rows.next().expect("a head").split(',').collect();
        assert!(head.contains(&column) && rows.next().is_some(), "{line}: {csv}");
        assert!(
            printed("table").contains(&column.to_uppercase()) || line.contains(&name),
            "{line}"
        );
    }
}

#[test]
fn a_ticket_that_was_shown_can_be_checked_by_anybody() {
    let deployment = Deployment::start();
    let lease =
        deployment.json(r#"lease request 2 --for 1h --where zone="west" --wait"#)[0].clone();
    let hash = lease["tickets"][0].as_str().expect("a ticket");
    let shown = deployment.tenure(&format!("ticket show {hash} -o json"));
    let file = deployment.data.path().join("ticket.json");
    std::fs::write(&file, &shown.stdout).expect("a file");
    let file = file.display();
    let found = deployment.json(&format!("ticket verify {file} --site beta"));
    assert_eq!((&found["holds"], &found["term"]), (&Value::Bool(true), &"running".into()));
    assert_eq!(deployment.json(&format!("ticket verify {file}"))["site_name"], "beta");
    let wrong = deployment.tenure(&format!("ticket verify {file} --site alpha"));
    assert_eq!(wrong.status.code(), Some(1));
    assert!(stderr(&wrong).contains("another site's"), "{}", stderr(&wrong));
    // Where nothing runs the key has to be said.
    let elsewhere = tempfile::tempdir().expect("a folder");
    let key = found["site"].as_str().expect("a key");
    let alone = tenure_on(elsewhere.path(), &format!("ticket verify {file} --site {key}"));
    assert_eq!(alone.status.code(), Some(0), "{}", stderr(&alone));
}

#[test]
fn where_nobody_runs_a_command_says_how_to_start_one() {
    let folder = tempfile::tempdir().expect("a folder");
    let output = tenure_on(folder.path(), "lease list");
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("tenure dev"), "{}", stderr(&output));
}

#[test]
fn a_second_process_on_the_same_data_is_turned_away() {
    let deployment = Deployment::start();
    let output = deployment.tenure("dev");
    assert_eq!(output.status.code(), Some(1));
    let (error, pid) = (stderr(&output), deployment.process.id().to_string());
    assert!(error.contains(&pid), "{error} does not name process {pid}");
    assert_eq!(deployment.json("lease list"), Value::Array(Vec::new()));
}

#[test]
fn a_wrong_configuration_is_pointed_at() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("live.toml");
    for (text, place, help) in [
        ("[site.a]\nunit = 3\n", ":2:1", "did you mean `units`"),
        ("margin = \"1s\"\n", "there is no site, no broker and no service manager", "[site.one]"),
        ("[site.a]\nunits = 0\n[broker.b]\n[service-manager.c]\n", ":2:9", "add units"),
        ("[site.a]\nunits = 1\n[broker.a]\n[service-manager.c]\n", "two actors", "name of its own"),
        (
            "[site.a]\nunits = 1\ndriver = { name = \"proces\" }\n[broker.b]\n[service-manager.c]\n",
            ":3:19",
            "did you mean `process`",
        ),
        (
            "[site.a]\nunits = 1\n[broker.b]\n[service-manager.c]\n\
             driver = { name = \"membership\", fil = \"x\" }\n",
            ":5:39",
            "did you mean `file`",
        ),
        (
            "[site.a]\nunits = 1\n[broker.b]\nmapper = { name = \"fcf\" }\n[service-manager.c]\n",
            ":4:19",
            "did you mean `fcfs`",
        ),
    ] {
        std::fs::write(&file, text).expect("a file");
        let output = Command::new(tenure()).args(["config", "check"]).arg(&file).output();
        let output = output.expect("the command runs");
        let error = stderr(&output);
        assert_eq!(output.status.code(), Some(1), "{error}");
        assert!(error.contains(place) && error.contains(help), "{text}: {error}");
    }
    let good = "[site.a]\nunits = 3\n[broker.b]\n[service-manager.c]\n";
    std::fs::write(&file, good).expect("a file");
    let check = |more: &[&str]| {
        let output =
            Command::new(tenure()).args(["config", "check"]).arg(&file).args(more).output();
        String::from_utf8(output.expect("the command runs").stdout).expect("text")
    };
    assert!(check(&[]).ends_with(" is good: 1 site with 3 units, 1 broker, 1 service manager\n"));
    let checked: Value = serde_json::from_str(&check(&["-o", "json"])).expect("JSON");
    assert_eq!((&checked["version"], &checked["units"]), (&json!(1), &json!(3)));
}
