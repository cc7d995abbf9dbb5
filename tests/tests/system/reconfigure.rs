//! A changed configuration of a deployment that has journals: it is applied, or refused with its place.

use std::fs;

use serde_json::Value;
use tempfile::TempDir;

use crate::deployment::{Deployment, stderr};

const CONFIG: &str = r#"margin = "1s"
retry = "1s"

[site.alpha]
units = 4
resource = "node"
attributes = { zone = "east" }

[site.beta]
units = 2

[broker.exchange]

[service-manager.guest]
"#;

/// As [`CONFIG`], with one piece of its text replaced.
fn with(from: &str, to: &str) -> String {
    assert!(CONFIG.contains(from), "{from}");
    CONFIG.replacen(from, to, 1)
}

fn start() -> Deployment {
    Deployment::of(CONFIG, tempfile::tempdir().expect("a folder"))
}

/// Starts with `CONFIG`, stops, and starts again with `changed`, which must be refused with these words;
/// with `CONFIG` it starts once more.
#[track_caller]
fn refused(changed: &str, words: &[&str]) {
    let mut deployment = start();
    assert_eq!(deployment.end("-TERM"), Some(0));
    let facts = journals(&deployment.data);
    let output = deployment.fails_with(changed);
    let error = stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{error}");
    for word in words {
        assert!(error.contains(word), "no `{word}` in: {error}");
    }
    let check = deployment
        .tenure(&format!("config check {}", deployment.data.path().join("live.toml").display()));
    // Before that a start has logged what it did.
    let said = error.find("error: ").map(|at| &error[at..]);
    assert_eq!(Some(&*stderr(&check)), said, "config check says the same");
    assert_eq!(journals(&deployment.data), facts, "nothing was journaled");
    deployment.start_with(CONFIG);
    deployment.json("lease request 1 --for 10m --wait");
}

/// What is in the folders of keys and journals.
fn journals(data: &TempDir) -> Vec<(String, Vec<u8>)> {
    let folders = ["keys", "journals"].map(|folder| data.path().join(folder));
    let files = folders.iter().flat_map(|folder| fs::read_dir(folder).expect("a folder"));
    let mut files: Vec<_> = files
        .map(|file| file.expect("a file").path())
        .map(|path| (path.display().to_string(), fs::read(path).expect("a file")))
        .collect();
    files.sort();
    files
}

/// What the broker holds of a site.
fn held(deployment: &Deployment, site: &str) -> Value {
    let brokers = deployment.json("broker show exchange");
    let brokers = brokers.get(0).cloned().unwrap_or(brokers);
    let delegations = brokers["delegations"].as_array().cloned().unwrap_or_default();
    delegations.into_iter().find(|held| held["site"] == site).expect("a delegation")
}

fn units(deployment: &Deployment, site: &str) -> Vec<String> {
    let shown = deployment.json(&format!("site show {site}"));
    let shown = shown.get(0).cloned().unwrap_or(shown);
    let units = shown["units"].as_array().cloned().unwrap_or_default();
    units.iter().map(|unit| unit["unit"].as_str().unwrap_or_default().to_owned()).collect()
}

fn kinds(deployment: &Deployment, actor: &str) -> Vec<String> {
    let journal = deployment.data.path().join("journals").join(format!("{actor}.db"));
    let facts =
        tenure_tests::run(&["journal", "show", &journal.display().to_string(), "-o", "json"]);
    let facts: Value = serde_json::from_slice(&facts.stdout).expect("JSON");
    let facts = facts["facts"].as_array().expect("facts");
    facts.iter().map(|fact| fact["kind"].as_str().unwrap_or_default().to_owned()).collect()
}

#[test]
fn more_units_are_sold_from_the_next_start_on() {
    let mut deployment = start();
    deployment.json("lease request 6 --for 1h --wait");
    assert_eq!(deployment.end("-TERM"), Some(0));
    deployment.start_with(&with("units = 4", "units = 6"));
    assert_eq!(held(&deployment, "alpha")["units"], 6);
    assert_eq!(units(&deployment, "alpha").len(), 6);
    let more = deployment.json("lease request 2 --for 1h --wait");
    assert_eq!(more[0]["state"], "active");
    assert_eq!(deployment.tenure("doctor").status.code(), Some(0));
}

#[test]
fn fewer_units_are_refused_while_they_are_delegated() {
    refused(
        &with("units = 4", "units = 1"),
        &["live.toml:5:9", "has 1 units, and 4 in its journal", "until 20", "put `units = 4` back"],
    );
}

#[test]
fn units_that_nobody_holds_are_withdrawn_for_good() {
    let alone = with("[site.beta]", "brokers = []\n[site.beta]");
    let mut deployment = Deployment::of(&alone, tempfile::tempdir().expect("a folder"));
    let all = units(&deployment, "alpha");
    assert_eq!(all.len(), 4);
    assert_eq!(deployment.end("-TERM"), Some(0));
    deployment.start_with(&alone.replacen("units = 4", "units = 2", 1));
    assert_eq!(units(&deployment, "alpha"), all[..2]);
    assert_eq!(deployment.end("-KILL"), None);
    deployment.start_with(&alone.replacen("units = 4", "units = 3", 1));
    let left = units(&deployment, "alpha");
    assert_eq!(left[..2], all[..2]);
    assert!(left.len() == 3 && !all.contains(&left[2]), "a number is used twice: {left:?}");
    assert!(kinds(&deployment, "alpha").iter().any(|kind| kind == "site.inventory-changed"));
    let folder = deployment.data.path().join("journals");
    let verified = tenure_tests::run(&["journal", "verify", &folder.display().to_string()]);
    assert!(verified.status.success(), "{}", stderr(&verified));
}

#[test]
fn other_attributes_are_what_the_broker_sells_by_from_the_next_start_on() {
    let mut deployment = start();
    assert_eq!(deployment.end("-TERM"), Some(0));
    deployment.start_with(&with("zone = \"east\"", "zone = \"west\""));
    assert_eq!(held(&deployment, "alpha")["attributes"]["zone"], "west");
    let lease = deployment.json(r#"lease request 4 --for 10m --where zone="west" --wait"#);
    assert_eq!(lease[0]["state"], "active");
    let before = kinds(&deployment, "alpha");
    assert_eq!(deployment.end("-TERM"), Some(0));
    deployment.start_with(&with("zone = \"east\"", "zone = \"west\""));
    let changed = |kinds: &[String]| {
        kinds
            .iter()
            .filter(|kind| ["site.inventory-changed", "site.delegation-issued"].contains(&&***kind))
            .count()
    };
    assert_eq!(changed(&kinds(&deployment, "alpha")), changed(&before), "journaled once");
}

#[test]
fn another_type_is_refused() {
    refused(
        &with("resource = \"node\"", "resource = \"disk\""),
        &[
            "live.toml:6:12",
            "no stock of type `node`",
            "4 of that type",
            "put the stock of `node` back",
        ],
    );
}

#[test]
fn a_renamed_broker_is_refused() {
    refused(
        &with("[broker.exchange]", "[broker.market]"),
        &[
            "live.toml:12:9",
            "broker `exchange`",
            "`market` has none",
            "put `[broker.exchange]` back",
        ],
    );
}

#[test]
fn a_removed_site_is_refused() {
    refused(
        &with("[site.beta]\nunits = 2\n", ""),
        &["live.toml", "beta.db", "site authority `beta`", "put `[site.beta]` back"],
    );
}

#[test]
fn another_role_is_refused() {
    let changed = with("[broker.exchange]", "[broker.guest]");
    let changed = changed.replacen("[service-manager.guest]", "[service-manager.exchange]", 1);
    refused(&changed, &["live.toml:1", "is a service manager here", "is that of a broker"]);
}

#[test]
fn another_margin_is_refused() {
    refused(
        &with("margin = \"1s\"", "margin = \"3s\""),
        &["live.toml:1:10", "`margin` is 3s", "under 1s", "put `margin = \"1s\"` back"],
    );
}

#[test]
fn a_key_that_is_gone_or_another_is_not_replaced() {
    let mut deployment = start();
    assert_eq!(deployment.end("-TERM"), Some(0));
    let keys = deployment.data.path().join("keys");
    let key = fs::read(keys.join("alpha")).expect("a key");
    fs::copy(keys.join("beta"), keys.join("alpha")).expect("another key");
    let error = stderr(&deployment.fails_with(CONFIG));
    assert!(error.contains("live.toml:4:7") && error.contains("the key of `alpha`"), "{error}");
    fs::remove_file(keys.join("alpha")).expect("a key");
    let error = stderr(&deployment.fails_with(CONFIG));
    assert!(error.contains("keys/alpha"), "{error}");
    assert!(!keys.join("alpha").exists(), "a new key was made");
    fs::copy(keys.join("beta"), keys.join("alpha")).expect("a file with the right mode");
    fs::write(keys.join("alpha"), key).expect("a key");
    deployment.start_with(CONFIG);
}

#[test]
fn what_is_not_journaled_may_change() {
    let mut deployment = start();
    deployment.json("lease request 2 --for 1h --wait");
    assert_eq!(deployment.end("-TERM"), Some(0));
    let changed = with("[broker.exchange]", "[broker.exchange]\nmapper = { name = \"priority\" }");
    let changed = changed.replacen("retry = \"1s\"", "retry = \"2s\"", 1);
    deployment.start_with(&format!("{changed}leave-before = \"2s\"\n[service-manager.other]\n"));
    assert_eq!(deployment.json("lease list --as guest")[0]["state"], "active");
    deployment.json("lease request 1 --for 10m --as other --wait");
    assert_eq!(deployment.tenure("doctor").status.code(), Some(0));
}

#[test]
fn the_doctor_says_where_the_configuration_and_the_state_differ() {
    let mut deployment = start();
    let file = deployment.data.path().join("live.toml");
    fs::write(&file, with("units = 4", "units = 6")).expect("a file");
    let doctor = deployment.tenure("doctor");
    let error = stderr(&doctor);
    assert_eq!(doctor.status.code(), Some(1), "{error}");
    assert!(error.contains("`site.alpha.units` is 4 here, 6 in "), "{error}");
    assert_eq!(deployment.end("-TERM"), Some(0));
    deployment.start_with(&with("[site.beta]", "brokers = []\n[site.beta]"));
    let doctor = deployment.tenure("doctor");
    let error = stderr(&doctor);
    assert_eq!(doctor.status.code(), Some(1), "{error}");
    let words =
        "alpha has delegated 4 units to exchange, 0 are configured: the delegation is not renewed";
    assert!(error.contains(words), "{error}");
}
