//! Archived journals through the command: read as one with the live file, whatever was killed when.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use tenure_tests::tenure;
use tenure_wait::{DEADLINE, eventually};

use crate::deployment::{Deployment, stderr};

const CONFIG: &str = "\
snapshot-after = 20
archive-after = 10
[site.alpha]
units = 8
[broker.exchange]
[service-manager.guest]
";

const ACTORS: [&str; 3] = ["alpha", "exchange", "guest"];

/// Runs `tenure journal` and reads its JSON.
fn journal(line: &str, path: &Path) -> (Option<i32>, Value, String) {
    let mut command = Command::new(tenure());
    let output = command.arg("journal").args(line.split(' ')).arg(path).output();
    let output = output.expect("the command runs");
    let value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    (output.status.code(), value, stderr(&output))
}

/// The segments of an actor's archive, in order.
fn segments(data: &Path, actor: &str) -> Vec<PathBuf> {
    let folder = data.join(format!("journals/{actor}.db-archive"));
    let entries = fs::read_dir(folder).into_iter().flatten();
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    files.retain(|file| file.extension().is_some_and(|ending| ending == "segment"));
    files.sort();
    files
}

fn life(deployment: &Deployment) {
    let lease = deployment.json("lease request 2 --for 1h --wait")[0]["lease"].clone();
    let lease = lease.as_str().expect("a name");
    deployment.json(&format!("lease close {lease} --wait"));
}

/// Kills the deployment while facts are on their way into archives; afterwards each is there once.
#[test]
fn kills_while_facts_are_archived_lose_none_and_double_none() {
    let mut deployment = Deployment::of(CONFIG, tempfile::tempdir().expect("a folder"));
    let kept = deployment.json("lease request 1 --for 12h --wait")[0]["lease"].clone();
    for lives in [2, 1, 3, 2, 4, 1, 2, 5] {
        (0..lives).for_each(|_| life(&deployment));
        deployment.end("-KILL");
        deployment.restart_up();
    }
    let data = deployment.data.path().to_owned();
    eventually(DEADLINE, "segments of all archives", || {
        life(&deployment);
        ACTORS.iter().all(|actor| segments(&data, actor).len() >= 3)
    });
    assert_eq!(deployment.lease(kept.as_str().expect("a name"))["state"], "active");
    // While it runs, and of what a kill left.
    verified(&data);
    deployment.end("-KILL");
    let journals = verified(&data);
    for actor in journals.as_array().expect("journals") {
        let path = PathBuf::from(actor["path"].as_str().expect("a path"));
        let (code, shown, error) = journal("show -o json", &path);
        assert_eq!(code, Some(0), "{error}");
        let facts = shown["facts"].as_array().expect("facts");
        let positions = facts.iter().map(|fact| fact["position"].as_u64().expect("a position"));
        assert!(positions.eq(0..actor["facts"].as_u64().expect("a number")));
        let first = facts[0]["time"].as_str().expect("a time");
        let (code, then, error) = journal(&format!("replay -o json --at {first}"), &path);
        assert_eq!(code, Some(0), "{error}");
        assert!(then["facts"].as_u64() >= Some(1), "{then}");
    }
    let (code, _, error) = journal("fork -o json", &data);
    assert_eq!(code, Some(0), "{error}");
    deployment.restart_up();
}

/// All journals are whole, with an archive each.
fn verified(data: &Path) -> Value {
    let (code, found, error) = journal("verify -o json", data);
    assert_eq!(code, Some(0), "{error}\n{found:#}");
    let journals = found["journals"].clone();
    for journal in journals.as_array().expect("journals") {
        assert_eq!(journal["verdict"], "whole");
        assert!(journal["segments"].as_u64() >= Some(2), "{journal}");
    }
    journals
}

#[test]
fn a_segment_that_is_gone_is_named_and_a_start_does_without_it() {
    let mut deployment = Deployment::of(CONFIG, tempfile::tempdir().expect("a folder"));
    let data = deployment.data.path().to_owned();
    eventually(DEADLINE, "two segments", || {
        life(&deployment);
        segments(&data, "guest").len() >= 2
    });
    assert_eq!(deployment.end("-TERM"), Some(0));
    let gone = segments(&data, "guest").remove(1);
    let aside = data.join("aside");
    fs::rename(&gone, &aside).expect("a file");
    let (code, found, error) = journal("verify -o json", &data);
    assert_eq!(code, Some(1));
    assert!(error.contains("00000001.segment") && error.contains("its file is missing"), "{error}");
    let verdicts: Vec<_> =
        found["journals"].as_array().expect("journals").iter().map(|j| &j["verdict"]).collect();
    assert_eq!(verdicts.iter().filter(|verdict| **verdict == "whole").count(), 2, "{verdicts:?}");
    deployment.restart_up();
    life(&deployment);
    fs::rename(&aside, &gone).expect("a file");
    verified_guest(&data);
}

fn verified_guest(data: &Path) {
    let (code, _, error) = journal("verify -o json", &data.join("journals/guest.db"));
    assert_eq!(code, Some(0), "{error}");
}
