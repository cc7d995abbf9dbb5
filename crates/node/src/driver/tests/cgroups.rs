//! Real cgroups, below the one of the test's own process, and what is done where there are none.

use std::path::PathBuf;

use serde_json::{Value, json};
use tempfile::TempDir;
use tenure_core::driver::Step;
use tenure_core::model::property::Properties;
use tenure_wait::{DEADLINE, eventually};

use super::super::cgroup::{UnitCgroup, delegated};
use super::process::{file, pid, runs, written};
use super::{call, guest, site};

/// Starts a program that is in no group, has no parent and no environment that would tell whose it is.
const HIDES: &str = "env -i setsid /bin/sh -c 'echo $$ >hidden; while :; do sleep 3600; done' & \
                     while :; do sleep 3600; done";

fn settings(script: &str, more: Value) -> Value {
    let mut settings = json!({ "command": ["/bin/sh", "-c", script], "grace": 0 });
    settings.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    settings
}

fn hidden(unit: &Properties) -> i32 {
    written(&file(unit, "hidden")).parse().unwrap()
}

/// The cgroup of unit 1 of a site's driver in a folder.
fn cgroup(home: &TempDir) -> UnitCgroup {
    let home = home.path().canonicalize().unwrap();
    let key = super::super::record::Key::of(&call(1, Step::Setup));
    let mark = format!("{}:{}", home.display(), key.file_name());
    delegated().expect("a delegated cgroup").of(&mark, key.unit)
}

fn end(pid: i32) {
    let pid = rustix::process::Pid::from_raw(pid).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
}

#[test]
#[ignore = "needs a delegated cgroup"]
fn a_program_that_hides_is_ended_by_its_cgroup() {
    let home = TempDir::new().unwrap();
    let driver = site("process", home.path(), &settings(HIDES, json!({}))).unwrap();
    let unit = driver.perform(&call(1, Step::Setup)).outcome.unwrap();
    let hidden = hidden(&unit);
    let pids = cgroup(&home).pids();
    assert!(pids.contains(&hidden) && pids.contains(&pid(&unit)), "{pids:?}");
    driver.perform(&call(2, Step::Teardown)).outcome.unwrap();
    assert!(!runs(hidden) && !runs(pid(&unit)));
    assert!(!cgroup(&home).path().exists(), "it is removed");
}

#[test]
#[ignore = "needs a delegated cgroup"]
fn what_hides_goes_with_its_program_and_the_next_one_has_the_cgroup() {
    let home = TempDir::new().unwrap();
    let driver = site("process", home.path(), &settings(HIDES, json!({}))).unwrap();
    let unit = driver.perform(&call(1, Step::Setup)).outcome.unwrap();
    let (first, before) = (pid(&unit), hidden(&unit));
    std::fs::remove_file(file(&unit, "hidden")).unwrap();
    end(first);
    let after = hidden(&unit);
    assert!(after != before && runs(after) && !runs(before));
    assert!(cgroup(&home).pids().contains(&after));
    driver.perform(&call(2, Step::Teardown)).outcome.unwrap();
    assert!(!runs(after));
}

#[test]
#[ignore = "needs a delegated cgroup"]
fn the_next_driver_ends_what_the_last_one_left_in_a_cgroup_and_those_below_it() {
    let home = TempDir::new().unwrap();
    let open = || site("process", home.path(), &settings(HIDES, json!({}))).unwrap();
    let driver = open();
    let unit = driver.perform(&call(1, Step::Setup)).outcome.unwrap();
    let hidden = hidden(&unit);
    let below: PathBuf = cgroup(&home).path().join("of its own");
    std::fs::create_dir(&below).unwrap();
    std::fs::write(below.join("cgroup.procs"), hidden.to_string()).unwrap();
    drop(driver);
    open().perform(&call(2, Step::Teardown)).outcome.unwrap();
    eventually(DEADLINE, "an end", || !runs(hidden));
    assert!(!cgroup(&home).path().exists());
}

#[test]
#[ignore = "needs a delegated cgroup"]
fn the_program_of_a_guest_has_a_cgroup_too() {
    let home = TempDir::new().unwrap();
    let driver = guest("start", home.path(), &settings(HIDES, json!({}))).unwrap();
    let unit = driver.perform(&call(1, Step::Join)).outcome.unwrap();
    let program = pid(&unit);
    let own = std::fs::read_to_string(format!("/proc/{program}/cgroup")).unwrap();
    let own = own.lines().find_map(|line| line.strip_prefix("0::")).unwrap().to_owned();
    assert!(own.contains("/tenure-") && own.ends_with("-u1"), "{own}");
    driver.perform(&call(1, Step::Leave)).outcome.unwrap();
    assert!(!runs(program));
}

#[test]
#[ignore = "needs a delegated cgroup"]
fn bounds_of_a_cgroup_hold_or_are_refused() {
    let home = TempDir::new().unwrap();
    let bounds = json!({ "bounds": { "processes": 20 } });
    let forks = "for i in $(seq 60); do sleep 3600 & done 2>failed; echo >done; wait";
    let controllers = delegated().unwrap().controllers().unwrap();
    let driver = site("process", home.path(), &settings(forks, bounds));
    if !controllers.contains("pids") {
        let error = driver.err().unwrap();
        assert!(error.contains("need the controller `pids` for pids.max"), "{error}");
        return;
    }
    let driver = driver.unwrap();
    let unit = driver.perform(&call(1, Step::Setup)).outcome.unwrap();
    eventually(DEADLINE, "a bound", || {
        let pids = cgroup(&home).pids().len();
        assert!(pids <= 20, "{pids} processes");
        pids >= 19
    });
    assert!(runs(pid(&unit)));
    driver.perform(&call(2, Step::Teardown)).outcome.unwrap();
}

#[test]
fn without_a_cgroup_a_unit_is_ended_by_group_descent_and_mark() {
    let home = TempDir::new().unwrap();
    let script = "setsid /bin/sh -c 'echo $$ >fled; while :; do sleep 3600; done' & \
                  while :; do sleep 3600; done";
    let driver =
        site("process", home.path(), &settings(script, json!({ "cgroup": false }))).unwrap();
    let unit = driver.perform(&call(1, Step::Setup)).outcome.unwrap();
    let fled: i32 = written(&file(&unit, "fled")).parse().unwrap();
    let own = std::fs::read_to_string(format!("/proc/{fled}/cgroup")).unwrap();
    assert!(!own.contains("/tenure-"), "{own}");
    driver.perform(&call(2, Step::Teardown)).outcome.unwrap();
    assert!(!runs(fled) && !runs(pid(&unit)));
}

#[test]
fn bounds_without_cgroups_are_refused() {
    let home = TempDir::new().unwrap();
    let more = json!({ "cgroup": false, "bounds": { "memory": 1 << 30 } });
    let error = site("process", home.path(), &settings("true", more)).err().unwrap();
    assert_eq!(error, "driver `process`: `bounds` need cgroups, and `cgroup` is false");
}
