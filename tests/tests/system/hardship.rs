//! A live deployment on a machine that has its own troubles: few descriptors, a clock that was wrong, files
//! that are gone.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;
use std::process::Command;

use serde_json::Value;
use tenure_tests::tenure;
use tenure_wait::{DEADLINE, eventually};

use crate::deployment::{Deployment, ready, stderr};

/// `tenure dev`, begun by a shell that has done something before.
fn dev(before: &str, more: &str) -> Deployment {
    let data = tempfile::tempdir().expect("a folder");
    fs::set_permissions(data.path(), fs::Permissions::from_mode(0o755)).expect("its mode");
    let mut command = Command::new("sh");
    let quiet = "--set service-manager.load.demand.values=[0]";
    let line = format!("{before}; exec \"$0\" dev {quiet} {more} --data \"$1\"");
    command.args(["-c", &line]).arg(tenure()).arg(data.path());
    Deployment { process: ready(command), data }
}

fn mode(path: &std::path::Path) -> u32 {
    fs::metadata(path).expect("its mode").permissions().mode() & 0o777
}

#[test]
fn connections_that_take_all_descriptors_do_not_keep_commands_away_for_ever() {
    const DESCRIPTORS: usize = 128;
    let deployment = dev(&format!("umask 022; ulimit -n {DESCRIPTORS}"), "");
    assert_eq!(mode(deployment.data.path()), 0o700, "nobody else enters the data folder");
    let open = format!("/proc/{}/fd", deployment.process.id());
    let count = || fs::read_dir(&open).map_or(0, Iterator::count);
    let socket = deployment.data.path().join("tenure.sock");
    let connections: Vec<UnixStream> =
        (0..DESCRIPTORS).map(|_| UnixStream::connect(&socket).expect("a connection")).collect();
    eventually(DEADLINE, "all descriptors to be taken", || count() >= DESCRIPTORS);
    drop(connections);
    assert_eq!(deployment.json("lease list"), Value::Array(Vec::new()));
}

#[test]
fn a_clock_that_is_hours_behind_its_journals_is_reported() {
    let mut deployment = dev(":", "--set speed=3600");
    let now = || deployment.json("doctor")["now"].as_str().expect("a time").to_owned();
    // Two hours go by in two seconds.
    let hour = |time: &str| time[..13].to_owned();
    let mut hours = vec![hour(&now())];
    eventually(DEADLINE, "three more hours", || {
        hours.push(hour(&now()));
        hours.dedup();
        hours.len() == 4
    });
    deployment.json("lease request 1 --for 10m");
    assert_eq!(deployment.end("-KILL"), None);
    deployment.restart();
    let output = deployment.tenure("doctor");
    assert_eq!(output.status.code(), Some(1));
    let error = stderr(&output);
    assert!(error.contains("clock is") && error.contains("behind the deployment's"), "{error}");
}

#[test]
fn a_key_that_is_gone_is_not_replaced() {
    let mut deployment = dev(":", "");
    assert_eq!(deployment.end("-TERM"), Some(0));
    let key = deployment.data.path().join("keys/exchange");
    let aside = deployment.data.path().join("exchange.key");
    fs::rename(&key, &aside).expect("it was there");
    let refused = deployment.tenure("dev");
    let error = stderr(&refused);
    assert_eq!(refused.status.code(), Some(1), "{error}");
    assert!(
        error.contains("keys/exchange is gone") && error.contains("put the key back"),
        "{error}"
    );
    assert!(!key.exists());
    fs::rename(&aside, &key).expect("it is put back");
    deployment.restart();
    assert_eq!(deployment.json("lease list"), Value::Array(Vec::new()));
}

#[test]
fn an_actor_that_gives_up_leaves_the_others_at_work_and_is_named() {
    let config = "[site.alpha]\nunits = 2\n[site.beta]\nunits = 1\nattributes = { zone = 'b' }\n\
                  [broker.exchange]\n[service-manager.guest]\n";
    let mut deployment = Deployment::of(config, tempfile::tempdir().expect("a folder"));
    deployment.json("lease request 1 node where 'site == \"alpha\"' --for 1h --wait");
    assert_eq!(deployment.end("-TERM"), Some(0));
    let journal = deployment.data.path().join("journals/alpha.db");
    let [older, newer] = ["older", "newer"].map(|name| deployment.data.path().join(name));
    fs::copy(&journal, &older).expect("a copy");
    deployment.restart_up();
    deployment.json("lease request 1 node where 'site == \"alpha\"' --for 1h --wait");
    assert_eq!(deployment.end("-TERM"), Some(0));
    fs::copy(&journal, &newer).expect("a copy");
    fs::copy(&older, &journal).expect("put back");
    deployment.restart_up();
    let error = eventually(DEADLINE, "a site that is down", || {
        let error = stderr(&deployment.tenure("doctor"));
        error.contains("alpha is down").then_some(error)
    });
    assert!(error.contains("older copy") || error.contains("put back"), "{error}");
    let lease = deployment.json("lease request 1 node where 'site == \"beta\"' --for 1h --wait");
    assert_eq!(lease[0]["state"], "active", "{lease}");
    assert_eq!(deployment.end("-TERM"), Some(0));
    fs::copy(&newer, &journal).expect("put right");
    deployment.restart_up();
    deployment.json("doctor");
}
