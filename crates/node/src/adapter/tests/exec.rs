use serde_json::json;
use tempfile::TempDir;
use tenure_core::service_manager::services::Found;

use super::super::registry::{Place, open};
use super::super::{Adapter, AdapterError, Sensed};
use super::spec;
use crate::driver::stop::Stop;

/// An adapter that senses by a script of the shell.
fn adapter(home: &TempDir, sense: &str) -> Box<dyn Adapter> {
    let shell = |script: &str| json!(["/bin/sh", "-c", script]);
    let settings = json!({
        "name": "exec", "sense": shell(sense), "timeout": "200ms",
        "start": shell("echo $TENURE_STEP $TENURE_SERVICE >done"),
    });
    open(&spec(&settings), Place { home: home.path(), service: "batch" }).unwrap()
}

fn sensed(sense: &str) -> Result<Sensed, AdapterError> {
    adapter(&TempDir::new().unwrap(), sense).sense(&Stop::new().unwrap())
}

#[test]
fn the_exit_code_says_how_a_service_is() {
    let running = sensed("echo busy_units 2").unwrap();
    assert_eq!((running.found, running.kpis.count(), running.why), (Found::Running, 1, None));
    let stopped = sensed("echo busy_units 2; exit 3").unwrap();
    assert_eq!((stopped.found, stopped.kpis.count(), stopped.why), (Found::Stopped, 0, None));
    let failed = sensed("echo no answer >&2; exit 4").unwrap();
    assert_eq!((failed.found, failed.kpis.count()), (Found::Failed, 0));
    let why = failed.why.unwrap();
    assert!(why.ends_with("(exit status: 4): no answer"), "{why}");
    assert_eq!(sensed("kill -9 $$").unwrap().found, Found::Failed);
}

#[test]
fn what_cannot_be_read_or_takes_too_long_says_nothing() {
    let why = sensed("echo busy").unwrap_err().to_string();
    assert_eq!(why, "sense: line 1 (`busy`): the value is missing");
    let why = sensed("exec sleep 60").unwrap_err().to_string();
    assert_eq!(why, "the sense program took longer than 200ms");
    let why = sensed("yes").unwrap_err().to_string();
    assert!(why.contains("wrote more than 16777216 bytes") || why.contains("200ms"), "{why}");
}

#[test]
fn a_service_is_started_by_its_program_and_not_stopped_without_one() {
    let (home, stop) = (TempDir::new().unwrap(), Stop::new().unwrap());
    let adapter = adapter(&home, "exit 0");
    adapter.start(&stop).unwrap();
    let done = std::fs::read_to_string(home.path().join("done")).unwrap();
    assert_eq!(done, "start batch\n");
    let unable = adapter.stop(&stop).unwrap_err();
    assert_eq!(unable.to_string(), "its adapter is not told how to stop it");
}
