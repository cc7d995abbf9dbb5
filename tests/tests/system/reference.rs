//! The reference pages name every key of a configuration and of a scenario, and every field of the JSON
//! that the commands print.

use std::collections::BTreeSet;
use std::fs;

use serde_json::Value;
use tempfile::TempDir;
use tenure_tests::{root, run};

use crate::deployment::Deployment;

/// The words that a page has in code font.
fn words_of(pages: &[&str]) -> BTreeSet<String> {
    let texts = pages.iter().map(|page| fs::read_to_string(root().join(page)).unwrap());
    let words = |text: String| {
        let quoted = text.split('`').skip(1).step_by(2).map(str::to_owned);
        quoted.collect::<Vec<_>>()
    };
    texts.flat_map(words).collect()
}

/// The keys that an error lists as known.
fn known(error: &Value) -> Vec<String> {
    let help = error["error"]["help"].as_str().unwrap_or_else(|| panic!("no help: {error}"));
    let (_, known) = help.split_once("known: ").unwrap_or_else(|| panic!("no keys: {error}"));
    known.split(", ").map(str::to_owned).collect()
}

/// Asks which keys a section takes, by one that none has.
#[track_caller]
fn keys_are_on(page: &str, sections: &[&str], command: &[&str]) {
    let words = words_of(&[page]);
    for section in sections {
        let set = format!("{section}no-such-key=1");
        let output = run(&[command, &["--set", &set, "-o", "json"]].concat());
        let error: Value = serde_json::from_slice(&output.stderr).expect("an error");
        for key in known(&error) {
            let heading = format!("[{key}");
            let named = words.iter().any(|word| *word == key || word.starts_with(&heading));
            assert!(named, "{page} lacks the key `{section}{key}`");
        }
    }
}

#[test]
fn every_key_of_a_configuration_is_documented() {
    let demand = "service-manager.load.demand.";
    let broker = ["broker.exchange.", "broker.exchange.quota.each."];
    let sections = ["", "site.alpha.", broker[0], broker[1], "service-manager.guest.", demand];
    let command = ["config", "check", "config/dev.toml"];
    keys_are_on("docs/CONFIGURATION.md", &sections, &command);
}

#[test]
fn every_key_of_a_scenario_is_documented() {
    let (guest, wave) = ("service-manager.guest.", "workload.wave.");
    let sections = ["", "message.", "site.alpha.", "broker.exchange.", guest, "workload.", wave];
    let command = ["emulate", "config/emulations/quick.toml"];
    keys_are_on("docs/SCENARIOS.md", &sections, &command);
}

/// Fields that hold a map by words that are data, or a fact, which FORMATS.md specifies.
const MAPS: [&str; 11] = [
    "attributes",
    "checks",
    "configuration",
    "fact",
    "faults",
    "points",
    "properties",
    "refusals",
    "refusals_by_reason",
    "swept",
    "types",
];

/// The names of all fields in a value.
fn fields(value: &Value, found: &mut BTreeSet<String>) {
    match value {
        Value::Array(items) => items.iter().for_each(|item| fields(item, found)),
        Value::Object(object) => {
            for (name, value) in object {
                found.insert(name.clone());
                if !(value.is_object() && MAPS.contains(&name.as_str())) {
                    fields(value, found);
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[track_caller]
fn fields_are_documented(printed: &[(String, Value)]) {
    let words = words_of(&["docs/API.md", "docs/SCENARIOS.md"]);
    for (command, value) in printed {
        let mut found = BTreeSet::new();
        fields(value, &mut found);
        assert!(!found.is_empty(), "{command} printed no object: {value}");
        let missing: Vec<&String> = found.difference(&words).collect();
        assert!(missing.is_empty(), "docs/API.md lacks fields of `{command}`: {missing:?}");
    }
}

#[test]
fn every_field_that_an_offline_command_prints_is_documented() {
    let folder = TempDir::new().unwrap();
    let journals = folder.path().join("journals").display().to_string();
    let log = folder.path().join("load.csv").display().to_string();
    fs::write(&log, "time,load\n0,2\n1800,8\n3600,10\n").unwrap();
    let emulate = format!("emulate config/emulations/quick.toml --journals {journals}");
    let lines = [
        emulate,
        format!("journal verify {journals}"),
        format!("journal replay {journals} --at 12h --all"),
        format!("journal show {journals} --lease 1"),
        format!(
            "journal fork {journals} --at 6h --set service-manager.guest.mapper.give-back=true"
        ),
        format!("workload show {log}"),
        "simulate --seeds 1".to_owned(),
        "config check config/dev.toml".to_owned(),
    ];
    let printed = lines.map(|line| {
        let args: Vec<&str> = line.split(' ').chain(["-o", "json"]).collect();
        let output = run(&args);
        let value = serde_json::from_slice(&output.stdout);
        let value = value.unwrap_or_else(|error| panic!("{line}: {error}: {output:?}"));
        (line, value)
    });
    fields_are_documented(&printed);
}

#[test]
fn every_field_that_a_command_on_a_deployment_prints_is_documented() {
    let config = "[site.alpha]\nunits = 2\n[broker.exchange]\n[service-manager.guest]\n";
    let deployment = Deployment::of(config, TempDir::new().unwrap());
    let lease = deployment.json("lease request 2 --for 1h --wait")[0].clone();
    let refused = deployment.tenure("lease request 1 --for 1h --wait");
    assert_eq!(refused.status.code(), Some(75));
    let ticket = lease["tickets"][0].as_str().expect("a ticket");
    let file = deployment.data.path().join("ticket.json");
    let shown = deployment.tenure(&format!("ticket show {ticket} -o json"));
    fs::write(&file, &shown.stdout).unwrap();
    let lines = [
        "doctor",
        "lease list --all",
        "lease show 1",
        "lease why 1",
        "lease why 2",
        "slice list",
        "site list",
        "site show alpha",
        "broker list",
        "broker show exchange",
        &format!("ticket show {ticket}"),
        &format!("ticket verify {}", file.display()),
    ];
    let printed = lines.map(|line| (line.to_owned(), deployment.json(line)));
    fields_are_documented(&printed);
}
