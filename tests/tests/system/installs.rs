//! Packages that the guest's driver `packages` installs on the units of a live deployment.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};
use tempfile::TempDir;
use tenure_tests::root;
use tenure_wait::{DEADLINE, eventually};

use crate::deployment::{Deployment, stderr};

/// Packs a folder with a program `install`; answers the hash of the archive.
fn pack(folder: &Path, name: &str, install: &str) -> String {
    let content = folder.join(name);
    fs::create_dir_all(&content).expect("a folder");
    let program = content.join("install");
    fs::write(&program, format!("#!/bin/sh\n{install}\n")).expect("a program");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("to be run");
    let archive = folder.join(format!("{name}.tar.gz"));
    let mut tar = Command::new("tar");
    tar.arg("czf").arg(&archive).arg("-C").arg(&content).arg(".");
    assert!(tar.status().expect("tar").success());
    let sum = Command::new("sha256sum").arg(&archive).output().expect("sha256sum").stdout;
    String::from_utf8_lossy(&sum).split(' ').next().unwrap_or_default().to_owned()
}

/// A deployment with two nodes in use, whose catalogue has the packages of config/planning/packages.toml, and the
/// folder with their archives.
fn deployment(store: &str) -> (Deployment, TempDir) {
    let archives = tempfile::tempdir().expect("a folder");
    let artefacts = archives.path();
    let front = "echo \"$TENURE_PACKAGE\" >installed; echo \"$TENURE_PEERS\" >peers";
    let (front, store) = (pack(artefacts, "front", front), pack(artefacts, "store", store));
    let config = format!(
        "[site.alpha]\nunits = 2\ndriver = {{ name = 'process' }}\n[broker.exchange]\n\
         [service-manager.guest.driver]\nname = 'packages'\nartefacts = '{}'\n\
         [service-manager.guest.mapper]\nname = 'deploy'\n\
         [[service-manager.guest.mapper.package]]\npackage = 'web/front/1.0/main/1.0'\n\
         artefact = 'front.tar.gz'\nsha256 = '{front}'\nprogram = ['./install']\n\
         [[service-manager.guest.mapper.package]]\npackage = 'db/store/1.0/main/1.0'\n\
         artefact = 'store.tar.gz'\nsha256 = '{store}'\nprogram = ['./install']\n",
        artefacts.display()
    );
    let deployment = Deployment::of(&config, tempfile::tempdir().expect("a folder"));
    deployment.json("lease request 2 --for 1h --wait");
    (deployment, archives)
}

fn propose(more: &str) -> String {
    let file = root().join("config/planning/packages.toml");
    format!("plan propose {} --accept --wait {more}", file.display()).trim_end().to_owned()
}

/// The files of a name in the folders of packages.
fn files(data: &TempDir, name: &str) -> Vec<PathBuf> {
    let folders = |folder: PathBuf| -> Vec<PathBuf> {
        let entries = fs::read_dir(folder).into_iter().flatten();
        entries.map(|entry| entry.expect("an entry").path()).collect()
    };
    let units = folders(data.path().join("drivers/guest/packages"));
    let packages = units.into_iter().flat_map(folders);
    packages.map(|package| package.join(name)).filter(|file| file.is_file()).collect()
}

fn errors(plan: &Value) -> Vec<String> {
    let packages = plan["packages"].as_array().expect("packages").iter();
    packages.filter_map(|package| package["error"].as_str().map(str::to_owned)).collect()
}

#[test]
fn packages_are_unpacked_checked_run_told_their_peers_and_removed_also_after_a_kill() {
    let (mut deployment, _archives) = deployment(
        "echo store >installed; setsid sleep 600 </dev/null >/dev/null 2>&1 & echo $! >pid",
    );
    let plan = deployment.json(&propose(""));
    assert_eq!(plan["state"], "installed", "{plan}");
    let installed = files(&deployment.data, "installed");
    assert_eq!(installed.len(), 3, "{installed:?}");
    let peers = files(&deployment.data, "peers").into_iter();
    let peers: Vec<String> = peers.map(|file| fs::read_to_string(file).expect("a file")).collect();
    assert!(peers.iter().any(|peers| peers.starts_with("store alpha/u")), "{peers:?}");

    deployment.end("-KILL");
    deployment.restart_up();
    assert_eq!(deployment.json("plan holds")[0]["plan"], Value::Null);
    assert_eq!(files(&deployment.data, "installed"), installed);
    let pid = fs::read_to_string(&files(&deployment.data, "pid")[0]).expect("a number");
    let process = Path::new("/proc").join(pid.trim());
    assert!(process.is_dir(), "what a package has begun goes on");

    deployment.json("plan release 1");
    eventually(DEADLINE, "the packages to be removed", || {
        let plan = deployment.json("plan show 1");
        let mut packages = plan["packages"].as_array().expect("packages").iter();
        packages.all(|package| package["state"] == "removed")
    });
    assert!(files(&deployment.data, "installed").is_empty());
    eventually(DEADLINE, "what it has begun to end", || !process.is_dir());
}

#[test]
fn a_changed_artefact_is_refused_and_what_became_of_the_others_is_as_was_asked_for() {
    let (deployment, archives) = deployment("echo store >installed");
    let archive = archives.path().join("store.tar.gz");
    let mut bytes = fs::read(&archive).expect("an archive");
    bytes.push(0);
    fs::write(&archive, bytes).expect("a file");

    let kept = deployment.tenure(&propose("-o json"));
    assert_eq!(kept.status.code(), Some(1), "{}", stderr(&kept));
    let plan = deployment.json("plan show 1");
    assert_eq!(plan["state"], "failed");
    assert_eq!(errors(&plan).len(), 1, "{plan}");
    assert!(errors(&plan)[0].contains("and the catalogue says"), "{plan}");
    assert_eq!(files(&deployment.data, "installed").len(), 2, "the fronts stay");
    deployment.json("plan release 1");
    eventually(DEADLINE, "the fronts to go", || files(&deployment.data, "installed").is_empty());

    let undone = deployment.tenure(&propose("--on-failure roll-back"));
    assert_eq!(undone.status.code(), Some(1));
    assert_eq!(deployment.json("plan show 2")["state"], "rolled-back");
    eventually(DEADLINE, "the fronts to go", || files(&deployment.data, "installed").is_empty());
}

#[test]
fn a_package_that_fails_on_a_node_is_installed_on_another_one() {
    let tried = tempfile::tempdir().expect("a folder");
    let tried = tried.path().join("tried");
    let (deployment, _archives) = deployment(&format!(
        "if mkdir -p {0} && mkdir {0}/once 2>/dev/null; then echo 'bad disk' >&2; exit 1; fi; echo store >installed",
        tried.display()
    ));
    let plan = deployment.json(&propose("--on-failure replan"));
    assert_eq!(plan["plan"], "guest/2");
    assert_eq!((&plan["state"], &plan["replaces"]), (&json!("installed"), &json!("guest/1")));
    let before = deployment.json("plan show 1");
    assert_eq!(before["state"], "replaced");
    assert!(errors(&before)[0].contains("bad disk"), "{before}");
    let failed = before["packages"].as_array().expect("packages").iter();
    let mut failed = failed.filter(|package| !package["error"].is_null());
    let failed = failed.next().expect("one that failed");
    assert_ne!(plan["packages"][0]["node"], failed["node"]);
    assert_eq!(files(&deployment.data, "installed").len(), 3);
}
