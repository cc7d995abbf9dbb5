//! Recalls as users meet them: told, watched, chosen from, carried out, sold again.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use tenure_tests::tenure;
use tenure_wait::{DEADLINE, done_in_time, eventually};

use crate::deployment::{Deployment, stderr};

/// Notes each warning of its unit with the deadline.
const PROGRAM: &str = r#"#!/bin/sh
read -r input
unit=${input#*\"unit\":}
unit=${unit%%,*}
deadline=${input#*\"deadline\":\"}
case $input in
*'"step":"join"'*) : >"$unit.joined" ;;
*'"step":"leave"'*) rm -f "$unit.joined" ;;
*'"step":"warn"'*) echo "${deadline%%\"*}" >>"$unit.warned" ;;
*) if [ -e "$unit.joined" ]; then echo '{"state":"up"}'; else echo '{"state":"down"}'; fi ;;
esac
"#;

/// A site with 3 units, and two guests; the driver of the first notes its warnings.
fn deployment() -> Deployment {
    let data = tempfile::tempdir().expect("a folder");
    let program = data.path().join("notes");
    fs::write(&program, PROGRAM).expect("a program");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("its mode");
    let sum = Command::new("sha256sum").arg(&program).output().expect("sha256sum");
    let sum = String::from_utf8(sum.stdout).expect("text");
    let (sum, path) = (sum.split(' ').next().expect("a hash"), program.display());
    let driver = format!(
        "{{ name = \"exec\", join = \"{path}\", leave = \"{path}\", warn = \"{path}\", \
         probe = \"{path}\", allow = [\"{sum}\"] }}"
    );
    let config = format!(
        "margin = \"100ms\"\nretry = \"1s\"\n[site.alpha]\nunits = 3\n[broker.exchange]\n\
         [service-manager.guest]\nleave-before = \"0s\"\ndriver = {driver}\n\
         [service-manager.rival]\n"
    );
    Deployment::of(&config, data)
}

/// What the guest's driver was warned of a unit.
fn warned(deployment: &Deployment, unit: u32) -> Vec<String> {
    let file = deployment.data.path().join(format!("drivers/guest/{unit}.warned"));
    let text = fs::read_to_string(file).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

/// The units in a guest's hands.
fn in_hand(deployment: &Deployment, lease: &str) -> Vec<String> {
    let lease = deployment.lease(lease);
    let units = lease["in_hand"].as_array().expect("units").iter();
    units.map(|unit| unit["unit"].as_str().expect("a name").to_owned()).collect()
}

/// Whether the recall has taken what it takes, as the broker knows.
fn is_taken(deployment: &Deployment) -> bool {
    deployment.json("broker show exchange")["recalls"][0]["enforced"] == true
}

/// Follows a lease until a line says something.
fn watched(deployment: &Deployment, lease: &str, word: &'static str) -> String {
    let mut command = Command::new(tenure());
    command.args(["lease", "watch", lease, "--data"]).arg(deployment.data.path());
    let mut process = command.stdout(Stdio::piped()).spawn().expect("a watch");
    let lines = BufReader::new(process.stdout.take().expect("its output")).lines();
    let said = done_in_time(DEADLINE, word, move || {
        lines.map_while(Result::ok).find(|line| line.contains(word)).expect("a line")
    });
    process.kill().expect("it runs");
    process.wait().expect("it ran");
    said
}

fn ask(deployment: &Deployment, terms: &str) {
    deployment.json(&format!("lease request 3 --for 1h{terms} --wait --as guest"));
}

#[test]
fn a_recall_with_notice_is_told_chosen_from_and_carried_out_and_the_units_are_sold_again() {
    let deployment = deployment();
    ask(&deployment, " --notice 10s");
    let recall = deployment.json("broker recall guest/1 --units 1 --id rack-7")[0].clone();
    assert_eq!((&recall["number"], &recall["notice"]), (&json!(0), &json!("10s")));
    // The same key is the same recall.
    let again = deployment.json("broker recall guest/1 --units 1 --id rack-7")[0].clone();
    assert_eq!(again["number"], 0);
    let line = watched(&deployment, "1", "recalled");
    assert!(line.contains("recalled by exchange: 1 of 3 units stay from 2"), "{line}");
    assert!(line.ends_with("u1, u2 go"), "{line}");
    let told = deployment.lease("1")["recalled"].clone();
    let deadline = told["at"].as_str().expect("an instant").to_owned();
    assert_eq!((&told["units"], &told["by"]), (&json!(1), &json!("exchange")));
    eventually(DEADLINE, "two warnings", || {
        [1, 2].iter().all(|unit| warned(&deployment, *unit) == [deadline.clone()])
    });
    let list = String::from_utf8(deployment.tenure("lease list").stdout).expect("text");
    assert!(list.contains("recalled to 1"), "{list}");
    let why = deployment.json("lease why 1")[0].clone();
    assert!(why["help"].as_str().expect("help").contains("tenure lease victims guest/1.0 u1,u2"));
    deployment.json("lease victims 1 u0,u2");
    eventually(DEADLINE, "the word that they go first", || {
        deployment.lease("1")["recalled"]["going"] == json!([0, 2])
    });
    eventually(DEADLINE, "another warning", || warned(&deployment, 0).len() == 1);
    eventually(DEADLINE, "the broker's receipt", || is_taken(&deployment));
    assert_eq!(in_hand(&deployment, "1"), ["alpha/u1"]);
    assert_eq!(deployment.lease("1")["recalled"], Value::Null);
    deployment.json("lease request 2 --for 10m --wait --as rival");
    assert_eq!(in_hand(&deployment, "rival/1"), ["alpha/u0", "alpha/u2"]);
}

#[test]
fn a_recall_outlives_a_kill_in_the_middle_of_its_notice() {
    let mut deployment = deployment();
    ask(&deployment, " --notice 5s");
    deployment.json("broker recall guest/1 --units 0");
    eventually(DEADLINE, "the word", || !deployment.lease("1")["recalled"].is_null());
    eventually(DEADLINE, "three warnings", || {
        (0..3).all(|unit| warned(&deployment, unit).len() == 1)
    });
    assert_eq!(deployment.end("-KILL"), None);
    deployment.restart_up();
    eventually(DEADLINE, "the end of the lease", || deployment.lease("1")["state"] == "closed");
    // A warning that was not answered before the kill is given again, with the same deadline.
    let mut told = warned(&deployment, 0);
    told.dedup();
    assert_eq!(told.len(), 1);
    eventually(DEADLINE, "the broker's receipt", || is_taken(&deployment));
    deployment.json("lease request 3 --for 10m --wait --as rival");
}

#[test]
fn a_recall_that_is_withdrawn_in_time_takes_nothing() {
    let deployment = deployment();
    ask(&deployment, " --notice 30m");
    let recall = deployment.tenure("broker recall guest/1 --units 1 --wait --timeout 1s");
    assert_eq!(recall.status.code(), Some(124), "{}", stderr(&recall));
    assert!(stderr(&recall).contains("no end within 1s; it goes on"), "{}", stderr(&recall));
    deployment.json("broker recall guest/1 --withdraw --wait");
    eventually(DEADLINE, "the word", || deployment.lease("1")["recalled"].is_null());
    assert_eq!(in_hand(&deployment, "1").len(), 3);
    let more = deployment.tenure("broker recall guest/1 --units 3");
    assert_ne!(more.status.code(), Some(0));
}

#[test]
fn who_recalls_what_carries_no_notice_is_told_so() {
    let deployment = deployment();
    ask(&deployment, "");
    let recall = deployment.tenure("broker recall guest/1 --units 0 --wait");
    assert_eq!(recall.status.code(), Some(0), "{}", stderr(&recall));
    assert!(
        stderr(&recall).contains("carries no notice: units in use stay"),
        "{}",
        stderr(&recall)
    );
    assert_eq!(in_hand(&deployment, "1").len(), 3);
    let unknown = deployment.tenure("broker recall 0123456789 --units 0");
    assert_eq!(unknown.status.code(), Some(3), "{}", stderr(&unknown));
}
