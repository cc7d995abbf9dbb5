//! The keys of a live configuration: explained, and in several files.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;
use tenure_tests::{root, tenure};

use crate::deployment::stderr;

fn config(args: &[&str]) -> Output {
    Command::new(tenure()).arg("config").args(args).output().expect("the command runs")
}

/// The fields of a struct in a file of the sources, as keys.
fn declared(file: &str, name: &str) -> Vec<String> {
    let text = std::fs::read_to_string(root().join(file)).expect(file);
    let items = syn::parse_file(&text).expect(file).items;
    let fields = items.into_iter().find_map(|item| match item {
        syn::Item::Struct(of) if of.ident == name => Some(of.fields),
        _ => None,
    });
    let fields = fields.unwrap_or_else(|| panic!("{file} has no {name}"));
    let names = fields.iter().filter_map(|field| field.ident.as_ref());
    names.map(|name| name.to_string().replace('_', "-")).collect()
}

#[test]
fn every_key_is_explained_and_nothing_else() {
    let file = "crates/node/src/config/file.rs";
    let tables = ["peer", "site", "broker", "service-manager", "profile"];
    // Tables of names, and what is in them.
    let inner = |key: &str| match key {
        "stock" => "stock.TYPE".to_owned(),
        "stack" => "stack.NAME".to_owned(),
        "named" => "named.NAME".to_owned(),
        key => key.to_owned(),
    };
    let mut keys: BTreeSet<String> =
        declared(file, "File").into_iter().filter(|key| !tables.contains(&key.as_str())).collect();
    for (table, name) in [
        ("peer", "Peer"),
        ("site", "Site"),
        ("broker", "Broker"),
        ("service-manager", "ServiceManager"),
    ] {
        keys.extend(declared(file, name).iter().map(|key| format!("{table}.NAME.{}", inner(key))));
    }
    let profile = declared("crates/config/src/profile.rs", "RawProfile");
    let as_written = |field: &String| match field.as_str() {
        "resource" => "profile.NAME.type".to_owned(),
        "condition" => "profile.NAME.where".to_owned(),
        field => format!("profile.NAME.{field}"),
    };
    keys.extend(profile.iter().map(as_written));
    let demand = declared(file, "Demand");
    keys.extend(demand.iter().map(|key| format!("service-manager.NAME.demand.{key}")));
    let slice = declared(file, "Slice");
    keys.extend(slice.iter().map(|key| format!("service-manager.NAME.slice.SLICE.{key}")));
    let service = declared("crates/core/src/service/definition.rs", "Definition");
    keys.extend(service.iter().map(|key| format!("service-manager.NAME.service.SERVICE.{key}")));
    let quota = declared("crates/core/src/broker/quota.rs", "Quota");
    keys.extend(quota.iter().map(|key| format!("broker.NAME.quota.PEER.{key}")));
    let between = "crates/config/src/forwarding.rs";
    let peer = declared(between, "RawBrokerPeer");
    keys.extend(peer.iter().map(|key| format!("broker.NAME.peer.BROKER.{key}")));
    let reach = declared(between, "RawReach");
    keys.extend(reach.iter().map(|key| format!("broker.NAME.reach.{key}")));
    keys.extend(["calls", "call-timeout"].map(|key| format!("driver.NAME.{key}")));
    for (driver, settings) in [
        ("null", "SiteSettings"),
        ("null", "GuestSettings"),
        ("process", "Settings"),
        ("netns", "Settings"),
        ("link", "Settings"),
        ("membership", "Settings"),
        ("packages", "Settings"),
        ("host", "Settings"),
        ("exec", "SiteSettings"),
        ("exec", "GuestSettings"),
    ] {
        let declared = declared(&format!("crates/node/src/driver/{driver}.rs"), settings);
        keys.extend(declared.iter().map(|key| format!("driver.{driver}.{key}")));
    }
    let output = config(&["explain", "-o", "json"]);
    let shown: Vec<Value> = serde_json::from_slice(&output.stdout).expect("JSON");
    let key = |key: &Value| key["key"].as_str().expect("a key").replace('_', "-");
    let explained: BTreeSet<String> = shown.iter().map(key).collect();
    assert_eq!(explained, keys);
    for key in &shown {
        for field in ["type", "default", "meaning"] {
            assert!(key[field].as_str().is_some_and(|text| !text.is_empty()), "{key}");
        }
        let counts = key["type"].as_str().is_some_and(|kind| kind.starts_with("whole number"));
        assert!(!counts || key["unit"].is_string(), "what does it count? {key}");
    }
}

#[test]
fn a_key_is_explained_and_an_unknown_one_is_not() {
    let output = config(&["explain", "site.alpha.fail-after"]);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(said.contains("probes") && said.contains("`3`"), "{said}");
    let output = config(&["explain", "site.alpha.fail-afer"]);
    assert_eq!(output.status.code(), Some(3));
    assert!(stderr(&output).contains("did you mean `site.NAME.fail-after`"), "{}", stderr(&output));
}

#[test]
fn several_files_are_one_configuration_and_each_key_is_in_one_of_them() {
    let folder = tempfile::tempdir().expect("a folder");
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).expect("a file");
        path.display().to_string()
    };
    let sites = write("sites.toml", "margin = \"2s\"\n[site.alpha]\nunits = 3\n");
    let brokers = write(
        "brokers.toml",
        "retry = \"3s\"\n[broker.exchange]\n[site.alpha.attributes]\ncpus = 4\n",
    );
    let output = config(&["check", &sites, &brokers, "-o", "json"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let good: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(
        (&good["sites"], &good["units"], &good["brokers"]),
        (&1.into(), &3.into(), &1.into())
    );
    let again = write("again.toml", "\n[site.alpha]\nunits = 4\n");
    let output = config(&["check", &sites, &again]);
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    let places = ["again.toml:3:1", "sites.toml:3:1"];
    let places_said = places.iter().all(|place| said.contains(place));
    assert!(places_said && said.contains("`site.alpha.units` is set in two files"), "{said}");
    // What is wrong in the second file is shown there.
    let wrong = write("wrong.toml", "\n[broker.exchange]\nmaper = 1\n");
    let said = stderr(&config(&["check", &sites, &wrong]));
    assert!(said.contains("wrong.toml:3:1") && said.contains("maper = 1"), "{said}");
    let torn = write("torn.toml", "[broker.exchange\n");
    let said = stderr(&config(&["check", &sites, &torn]));
    assert!(said.contains("torn.toml:1:"), "{said}");
    let missing = Path::new(&sites).with_file_name("none.toml").display().to_string();
    assert_eq!(config(&["check", &sites, &missing]).status.code(), Some(1));
}
