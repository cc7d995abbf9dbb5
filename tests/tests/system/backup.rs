//! Backups of a deployment at work, what is made of them, and what peers elsewhere say to that.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;
use tempfile::TempDir;
use tenure_tests::tenure;
use tenure_wait::{DEADLINE, eventually};

use crate::deployment::{Deployment, stderr, up};
use crate::network::{Trio, trio};

const CONFIG: &str = "\
snapshot-after = 20
archive-after = 10
[site.alpha]
units = 8
[broker.exchange]
[service-manager.guest]
";

fn command(words: &[&str], paths: [&Path; 2]) -> Output {
    let [folder, data] = paths;
    let mut command = Command::new(tenure());
    command.args(words).arg(folder).arg("--data").arg(data).output().expect("the command runs")
}

#[track_caller]
fn goes_well(output: &Output) -> Value {
    assert_eq!(output.status.code(), Some(0), "{}", stderr(output));
    serde_json::from_slice(&output.stdout).unwrap_or_default()
}

fn life(deployment: &Deployment) {
    let lease = deployment.json("lease request 2 --for 1h --wait")[0]["lease"].clone();
    let lease = lease.as_str().expect("a name");
    deployment.json(&format!("lease close {lease} --wait"));
}

fn archive_of(data: &Path) -> PathBuf {
    data.join("journals/guest.db-archive")
}

/// Leases are made and given back all the while that backups are taken.
#[test]
fn a_backup_of_a_deployment_at_work_is_of_one_instant_and_goes_on_from_there() {
    let deployment = Deployment::of(CONFIG, tempfile::tempdir().expect("a folder"));
    let data = deployment.data.path();
    let kept = deployment.json("lease request 1 --for 12h --wait")[0]["lease"].clone();
    let kept = kept.as_str().expect("a name");
    eventually(DEADLINE, "an archive", || {
        life(&deployment);
        archive_of(data).join("00000001.segment").exists()
    });
    let place = tempfile::tempdir().expect("a folder");
    let mut backups = Vec::new();
    std::thread::scope(|scope| {
        let busy = scope.spawn(|| (0..20).for_each(|_| life(&deployment)));
        while !busy.is_finished() {
            let to = place.path().join(format!("backup-{}", backups.len()));
            let made = goes_well(&command(&["backup", "--keys", "-o", "json"], [&to, data]));
            assert_eq!(made["without_keys"], serde_json::json!([]));
            backups.push(to);
        }
    });
    assert!(backups.len() > 1, "{} backups", backups.len());
    for (number, backup) in backups.iter().enumerate() {
        let home = tempfile::tempdir_in(place.path()).expect("a folder");
        goes_well(&command(&["restore", "-o", "json"], [backup, home.path()]));
        assert!(archive_of(home.path()).join("00000001.segment").exists());
        let mut verify = Command::new(tenure());
        let verified = verify.args(["journal", "verify"]).arg(home.path()).output();
        goes_well(&verified.expect("the command runs"));
        if number == backups.len() / 2 {
            // None of its actors finds that another knows more of it than it does itself.
            let restored = Deployment::of(CONFIG, home);
            assert_eq!(restored.lease(kept)["state"], "active");
            life(&restored);
        }
    }
}

#[test]
fn a_backup_has_no_keys_unless_they_are_wanted_and_the_start_says_so() {
    let mut deployment = Deployment::of(CONFIG, tempfile::tempdir().expect("a folder"));
    life(&deployment);
    assert_eq!(deployment.end("-TERM"), Some(0));
    let (data, place) = (deployment.data.path(), tempfile::tempdir().expect("a folder"));
    let (backup, home) = (place.path().join("backup"), tempfile::tempdir().expect("a folder"));
    let before = fs::read_dir(data.join("journals")).expect("a folder").count();
    let made = goes_well(&command(&["backup", "-o", "json"], [&backup, data]));
    assert_eq!(made["without_keys"], serde_json::json!(["alpha", "exchange", "guest"]));
    assert!(!backup.join("keys").exists());
    assert_eq!(fs::read_dir(data.join("journals")).expect("a folder").count(), before);
    goes_well(&command(&["restore"], [&backup, home.path()]));
    let refused = up(CONFIG, home.path()).status().expect("the command runs");
    assert_eq!(refused.code(), Some(1));
    let log = fs::read_to_string(home.path().join("log")).expect("a log");
    assert!(log.contains("is gone"), "{log}");
    // With the keys put back it starts.
    fs::create_dir_all(home.path().join("keys")).expect("a folder");
    for key in fs::read_dir(data.join("keys")).expect("keys") {
        let key = key.expect("a key");
        fs::copy(key.path(), home.path().join("keys").join(key.file_name())).expect("a copy");
    }
    life(&Deployment::of(CONFIG, home));
    deployment.restart_up();
}

#[test]
fn what_is_not_a_whole_backup_or_not_an_empty_folder_is_refused() {
    let deployment = Deployment::of(CONFIG, tempfile::tempdir().expect("a folder"));
    eventually(DEADLINE, "an archive", || {
        life(&deployment);
        archive_of(deployment.data.path()).join("00000000.segment").exists()
    });
    let place = tempfile::tempdir().expect("a folder");
    let (backup, home) = (place.path().join("backup"), place.path().join("home"));
    goes_well(&command(&["backup"], [&backup, deployment.data.path()]));
    let refused = |words: &[&str], paths: [&Path; 2], why: &str| {
        let output = command(words, paths);
        assert_eq!(output.status.code(), Some(1));
        assert!(stderr(&output).contains(why), "{}", stderr(&output));
    };
    refused(&["backup"], [&backup, deployment.data.path()], "not an empty folder");
    refused(&["restore"], [&backup, deployment.data.path()], "not an empty folder");
    refused(&["restore"], [place.path(), &home], "is not a backup");
    for file in ["journals/guest.db", "journals/guest.db-archive/00000000.segment", "config.toml"] {
        let path = backup.join(file);
        let whole = fs::read(&path).expect("a file");
        let mut changed = whole.clone();
        let middle = changed.len() / 2;
        changed[middle] ^= 1;
        fs::write(&path, changed).expect("a file");
        refused(&["restore"], [&backup, &home], "was changed since");
        fs::remove_file(&path).expect("a file");
        refused(&["restore"], [&backup, &home], "cannot read");
        fs::write(&path, whole).expect("a file");
    }
    let list = backup.join("backup.json");
    let text = fs::read_to_string(&list).expect("a list");
    let outside = text.replace("\"config.toml\"", "\"../../config.toml\"");
    fs::write(&list, outside).expect("a list");
    refused(&["restore"], [&backup, &home], "a file outside of it");
    fs::write(&list, text).expect("a list");
    assert!(!home.exists());
    goes_well(&command(&["restore"], [&backup, &home]));
}

/// All journals of a process are put back together, so that none of its own actors knows more than another.
/// Those of other processes do.
#[test]
fn a_backup_that_peers_elsewhere_know_more_than_is_refused_by_their_word() {
    let Trio { mut site, of_site, broker, guest } = trio();
    let place = tempfile::tempdir().expect("a folder");
    let backup = place.path().join("backup");
    goes_well(&command(&["backup", "--keys"], [&backup, site.data.path()]));
    life(&guest);
    site.becomes_clean();
    assert_eq!(site.end("-TERM"), Some(0));
    let home = tempfile::tempdir().expect("a folder");
    goes_well(&command(&["restore"], [&backup, home.path()]));
    // It waits for its peers' word before it does anything, and gives up when it has it.
    let mut process = up(&of_site, home.path()).spawn().expect("a deployment");
    let ended = eventually(DEADLINE, "the end of the restored site", || {
        process.try_wait().expect("a child")
    });
    assert_eq!(ended.code(), Some(1));
    let log = fs::read_to_string(home.path().join("log")).expect("a log");
    assert!(log.contains("an older copy was put back"), "{log}");
    site.start_with(&of_site);
    life(&guest);
    drop((guest, broker));
}

/// The data folder of a deployment is of no use to a backup before it has journals.
#[test]
fn there_is_no_backup_of_nothing() {
    let (empty, to) = (TempDir::new().expect("a folder"), TempDir::new().expect("a folder"));
    let output = command(&["backup"], [&to.path().join("backup"), empty.path()]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("no journals"), "{}", stderr(&output));
    assert!(!to.path().join("backup").exists());
}
