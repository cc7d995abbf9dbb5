//! The commands on the journals of an emulation.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use serde_json::Value;

use crate::tests::{Folder, tenure};

const SCENARIO: &str = r#"horizon = "3h"
term = "30m"
capacity = 4
signatures = "none"
[site.alpha]
[broker.exchange]
[service-manager.web]
"#;

/// A folder with the journals of an emulation, and the hash of its run.
fn emulated(test: &str) -> (Folder, String) {
    let folder = Folder::new(test, &[("s.toml", SCENARIO)]);
    let journals = folder.path("journals");
    let args = ["emulate", &folder.path("s.toml"), "--journals", &journals, "-o", "json"];
    let (code, out, err) = tenure(&args);
    assert_eq!((code, err.as_str()), (0, ""));
    let results: Value = serde_json::from_str(&out).unwrap();
    let hash = results["runs"][0]["journal_hash"].as_str().unwrap().to_owned();
    (folder, hash)
}

fn journals(folder: &Folder) -> Vec<String> {
    ["broker.exchange", "service-manager.web", "site.alpha"]
        .map(|name| folder.path(&format!("journals/{name}.journal")))
        .into()
}

fn facts(args: &[&str]) -> Vec<Value> {
    let (code, out, err) = tenure(&[&["journal", "show"], args, &["-o", "jsonl"]].concat());
    assert_eq!((code, err.as_str()), (0, ""));
    out.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn the_journals_of_an_emulation_are_whole_and_have_its_hash() {
    let (folder, hash) = emulated("verify");
    let paths = journals(&folder);
    let paths: Vec<&str> = paths.iter().map(String::as_str).collect();
    let (code, out, err) = tenure(&[&["journal", "verify"], &*paths, &["-o", "json"]].concat());
    assert_eq!((code, err.as_str()), (0, ""), "{out}");
    let found: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(found["hash"], hash);
    assert_eq!(found["journals"].as_array().unwrap().len(), 3);
    assert!(found["laws"].as_str().unwrap().contains("laws kept"), "{out}");
    let (code, out, _) = tenure(&[&["journal", "verify"], &*paths].concat());
    assert_eq!(code, 0);
    assert_eq!(out.matches("whole").count(), 3, "{out}");
}

#[test]
fn facts_are_shown_by_lease_slice_time_and_kind() {
    let (folder, _) = emulated("show");
    for path in journals(&folder) {
        let all = facts(&[&path]);
        assert!(all.iter().enumerate().all(|(i, fact)| fact["position"] == i));
        let of_lease = facts(&[&path, "--lease", "1"]);
        assert!(!of_lease.is_empty() && of_lease.len() < all.len(), "{path}");
        for fact in &of_lease {
            let lease = fact["lease"].as_str().unwrap();
            assert!(lease == "1" || lease.starts_with("1."), "{fact}");
        }
        let kind = all.last().unwrap()["kind"].as_str().unwrap();
        let of_kind = facts(&[&path, "--kind", kind]);
        assert!(of_kind.iter().all(|fact| fact["kind"] == kind));
        let (early, late) = (facts(&[&path, "--to", "1h"]), facts(&[&path, "--from", "1h"]));
        assert!(!early.is_empty() && !late.is_empty());
        assert_eq!(early.len() + late.len(), all.len());
    }
    let site = &journals(&folder)[2];
    let slice = facts(&[site]).iter().find_map(|fact| fact["slice"].as_str().map(str::to_owned));
    assert!(!facts(&[site, "--slice", &slice.unwrap()]).is_empty());
    assert!(facts(&[site, "--slice", "nobodys"]).is_empty());
}

#[test]
fn every_form_of_output_has_the_same_facts() {
    let (folder, _) = emulated("forms");
    let path = &journals(&folder)[1];
    let lines = facts(&[path]);
    let shown = |form| tenure(&["journal", "show", path, "-o", form]).1;
    let json: Value = serde_json::from_str(&shown("json")).unwrap();
    assert_eq!(json["facts"].as_array().unwrap(), &lines);
    assert_eq!(shown("csv").lines().count(), lines.len() + 1);
    assert_eq!(shown("table").lines().count(), lines.len() + 1);
}

#[test]
fn the_past_of_an_actor_comes_back() {
    let (folder, _) = emulated("replay");
    let [broker, guest, site] = journals(&folder).try_into().unwrap();
    let replay = |path: &str, options: &[&str]| -> Value {
        let args = [&["journal", "replay", path, "-o", "json"], options].concat();
        let (code, out, err) = tenure(&args);
        assert_eq!((code, err.as_str()), (0, ""));
        serde_json::from_str(&out).unwrap()
    };
    let active = |state: &Value| {
        let leases = state["leases"].as_array().unwrap();
        leases.iter().filter(|lease| lease["state"] == "Active").count()
    };
    for path in [&guest, &site] {
        assert!(active(&replay(path, &["--at", "1h"])) > 0, "{path}");
        assert_eq!(active(&replay(path, &[])), 0, "{path}");
    }
    assert_eq!(replay(&site, &[])["units"].as_array().unwrap().len(), 4);
    let requests = replay(&broker, &["--at", "1h", "--all"]);
    assert!(!requests["requests"].as_array().unwrap().is_empty());
    assert_eq!(
        replay(&guest, &["--at", "0s"])["facts"],
        facts(&[&guest, "--to", "0.000001s"]).len()
    );
    let (code, out, _) = tenure(&["journal", "replay", &site, "--at", "1h"]);
    assert_eq!(code, 0);
    assert!(out.contains("site authority alpha") && out.contains("Active"), "{out}");
}

#[test]
fn a_damaged_journal_is_distinguished_from_a_whole_one() {
    let (folder, _) = emulated("damage");
    let [broker, guest, site] = journals(&folder).try_into().unwrap();
    let mut bytes = fs::read(&guest).unwrap();
    let kind = b"service-manager.";
    // Not all places that hold one are in use.
    let places = bytes.windows(kind.len()).enumerate().filter(|(_, bytes)| *bytes == kind);
    let places: Vec<usize> = places.map(|(at, _)| at).collect();
    for at in places {
        bytes[at..at + kind.len()].fill(0);
    }
    fs::write(&guest, bytes).unwrap();
    let (code, out, err) = tenure(&["journal", "verify", &broker, &guest, &site]);
    assert_eq!(code, 1);
    assert_eq!(
        (out.matches("whole").count(), out.matches("damaged at fact").count()),
        (2, 1),
        "{out}"
    );
    assert!(err.contains("is not to be trusted") && err.contains("help:"), "{err}");
}

#[test]
fn what_is_no_journal_is_an_error_and_not_touched() {
    let folder = Folder::new("no-journal", &[("s.toml", SCENARIO)]);
    let path = folder.path("s.toml");
    let missing = folder.path("missing.journal");
    for (path, what) in [(&path, "is not a journal"), (&missing, "there is no journal")] {
        for command in ["show", "replay", "verify"] {
            let (code, _, err) = tenure(&["journal", command, path]);
            assert_eq!(code, 1);
            assert!(err.contains(what), "{err}");
        }
    }
    assert_eq!(fs::read_to_string(PathBuf::from(&path)).unwrap(), SCENARIO);
    assert!(!PathBuf::from(&missing).exists());
}

#[test]
fn a_folder_stands_for_the_journals_in_it() {
    let (folder, hash) = emulated("folder");
    let journals = folder.path("journals");
    let json = |args: &[&str]| -> Value {
        let (code, out, err) = tenure(&[&["journal"], args, &[&journals, "-o", "json"]].concat());
        assert_eq!((code, err.as_str()), (0, ""));
        serde_json::from_str(&out).unwrap()
    };
    assert_eq!(json(&["verify"])["hash"], hash);
    let states = json(&["replay", "--at", "1h"]);
    let actors: Vec<&str> =
        states["actors"].as_array().unwrap().iter().map(|a| a["actor"].as_str().unwrap()).collect();
    assert_eq!(actors, ["broker exchange", "service manager web", "site authority alpha"]);
    let shown = json(&["show", "--lease", "1"]);
    let shown = shown["facts"].as_array().unwrap();
    assert!(shown.is_sorted_by_key(|fact| fact["micros"].as_i64().unwrap()));
    let whose: BTreeSet<&str> = shown.iter().map(|fact| fact["actor"].as_str().unwrap()).collect();
    assert_eq!(whose, BTreeSet::from(["alpha", "exchange", "web"]));
    let (_, table, _) = tenure(&["journal", "show", &journals, "--lease", "1"]);
    assert!(table.lines().next().unwrap().contains("actor"), "{table}");
    let names = |folder: &str| fs::read_dir(folder).unwrap().count();
    let before = names(&journals);
    assert_eq!(tenure(&["journal", "replay", &journals]).0, 0);
    assert_eq!(names(&journals), before);
    let empty = folder.path("empty");
    fs::create_dir(&empty).unwrap();
    for command in ["show", "replay", "verify"] {
        let (code, _, err) = tenure(&["journal", command, &empty]);
        assert_eq!(code, 1);
        assert!(err.contains("there are no journals in") && err.contains("help:"), "{err}");
    }
}

#[test]
fn journals_are_not_written_over() {
    let (folder, _) = emulated("twice");
    let journals = folder.path("journals");
    let args = ["emulate", &folder.path("s.toml"), "--journals", &journals];
    let (code, _, err) = tenure(&args);
    assert_eq!(code, 1);
    assert!(err.contains("it holds another run"), "{err}");
}
