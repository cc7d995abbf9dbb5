//! The guest's drivers.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tempfile::TempDir;
use tenure_core::driver::{Call, GuestDriver, Step, UnitId};
use tenure_wait::{DEADLINE, eventually};

use super::super::conformance;
use super::process::{pid, runs, written};
use super::{actor, call, guest, site, warning, with};

fn join(unit: u32, pairs: &[(&'static str, &str)]) -> Call {
    Call { unit: UnitId(unit), properties: with(pairs), ..call(1, Step::Join) }
}

fn leave(unit: u32) -> Call {
    Call { unit: UnitId(unit), ..call(1, Step::Leave) }
}

fn done(driver: &dyn GuestDriver, call: &Call) {
    driver.perform(call).outcome.unwrap();
}

/// A driver's folder, and the file that it keeps.
fn place() -> (TempDir, TempDir, PathBuf) {
    let (home, folder) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let file = folder.path().join("members");
    (home, folder, file)
}

fn members(home: &Path, file: &Path, format: &str) -> Box<dyn GuestDriver> {
    guest("membership", home, &json!({ "file": file, "format": format })).unwrap()
}

#[test]
fn membership_keeps_the_promises_of_a_driver() {
    let (home, _folder, file) = place();
    let open = || members(home.path(), &file, "json");
    assert_eq!(conformance::guest(open, &call(1, Step::Join), 3), Ok(126));
}

#[test]
fn a_membership_file_has_a_line_for_each_unit_that_is_joined() {
    let (home, _folder, file) = place();
    let driver = members(home.path(), &file, "hosts");
    let read = || fs::read_to_string(&file).unwrap();
    assert_eq!(read(), "");
    let cats = |number: u32| {
        let (name, address) = (format!("cats{number:02}"), format!("172.16.64.{number}"));
        join(number, &[("host.name", name.as_str()), ("host.privipaddr", address.as_str())])
    };
    done(&*driver, &cats(8));
    done(&*driver, &cats(9));
    assert_eq!(read(), "172.16.64.8 cats08\n172.16.64.9 cats09\n");
    assert_eq!(driver.probe(actor(1), UnitId(8)), Ok(cats(8).properties));
    // Units of another site have numbers of their own.
    let elsewhere = Call { site: actor(7), ..cats(8) };
    done(&*driver, &elsewhere);
    done(&*driver, &leave(8));
    assert_eq!(read(), "172.16.64.9 cats09\n172.16.64.8 cats08\n");
    assert_eq!(driver.probe(actor(1), UnitId(8)).unwrap_err().0, "u8 is no member");
}

#[test]
fn a_membership_file_that_was_lost_comes_back_with_the_driver() {
    let (home, _folder, file) = place();
    let driver = members(home.path(), &file, "json");
    done(&*driver, &join(3, &[("host.name", "cats03")]));
    let text = fs::read_to_string(&file).unwrap();
    let line: Value = serde_json::from_str(&text).unwrap();
    assert_eq!((&line["unit"], &line["slice"]), (&json!(3), &json!("cats")));
    assert_eq!(line["properties"], json!({ "host.name": "cats03" }));
    drop(driver);
    fs::remove_file(&file).unwrap();
    drop(members(home.path(), &file, "json"));
    assert_eq!(fs::read_to_string(&file).unwrap(), text);
}

#[test]
fn a_site_cannot_write_lines_of_its_own_into_a_membership_file() {
    let (home, _folder, file) = place();
    let driver = members(home.path(), &file, "hosts");
    for (unit, name) in ["cats\n10.0.0.1 bank", "a b", ""].iter().enumerate() {
        let unit = u32::try_from(unit).unwrap();
        let join = join(unit, &[("host.name", name), ("host.privipaddr", "172.16.64.8")]);
        let error = driver.perform(&join).outcome.unwrap_err();
        assert_eq!(error.0, format!("u{unit} has no usable `host.name`"));
    }
    assert_eq!(fs::read_to_string(&file).unwrap(), "");
    let relative = guest("membership", home.path(), &json!({ "file": "members" })).err().unwrap();
    assert_eq!(relative, "driver `membership`: `members` is not the absolute path of a file");
}

const LISTEN: &str = "cat >input.new; pwd >where; mv input.new input; while :; do sleep 3600; done";

fn starting(home: &Path) -> Box<dyn GuestDriver> {
    let settings = json!({ "command": ["/bin/sh", "-c", LISTEN], "grace": 0 });
    guest("start", home, &settings).unwrap()
}

#[test]
fn start_keeps_the_promises_of_a_driver() {
    let home = TempDir::new().unwrap();
    let stories = conformance::guest(|| starting(home.path()), &call(1, Step::Join), 2);
    assert_eq!(stories, Ok(26));
    let driver = starting(home.path());
    for unit in (1..=26).map(UnitId) {
        done(&*driver, &Call { unit, ..call(9, Step::Leave) });
    }
}

#[test]
fn a_program_runs_on_each_unit_until_it_is_left() {
    let (at_site, at_guest) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let site = site("process", at_site.path(), &json!({ "grace": 0 })).unwrap();
    let unit = site.perform(&call(1, Step::Setup)).outcome.unwrap();
    let driver = starting(at_guest.path());
    let join = Call { properties: unit.clone(), ..call(1, Step::Join) };
    let program = driver.perform(&join).outcome.unwrap();
    let step_input = written_json(&only_folder(at_guest.path()).join("input"));
    assert_eq!(step_input["properties"]["host.name"], json!("cats01"));
    assert_ne!(pid(&program), pid(&unit));

    // It continues without its driver.
    drop(driver);
    assert!(runs(pid(&program)));
    let driver = starting(at_guest.path());
    assert_eq!(driver.probe(join.site, join.unit), Ok(program.clone()));
    done(&*driver, &call(1, Step::Leave));
    assert!(!runs(pid(&program)) && runs(pid(&unit)));
    site.perform(&call(2, Step::Teardown)).outcome.unwrap();
}

#[test]
fn a_site_does_not_choose_where_on_the_guests_machine_a_program_writes() {
    let (home, elsewhere) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let driver = starting(home.path());
    let directory = elsewhere.path().display().to_string();
    done(&*driver, &join(1, &[("unit.directory", &directory)]));
    let own = only_folder(home.path());
    written_json(&own.join("input"));
    assert_eq!(Path::new(&written(&own.join("where"))), own);
    assert_eq!(fs::read_dir(elsewhere.path()).unwrap().count(), 0);
    done(&*driver, &leave(1));
}

/// The folder of the only program of a driver.
pub(super) fn only_folder(home: &Path) -> PathBuf {
    let folders = home.canonicalize().unwrap().join("folders");
    let mut folders = fs::read_dir(folders).unwrap().map(|entry| entry.unwrap().path());
    let folder = folders.next().unwrap();
    assert_eq!(folders.next(), None);
    folder
}

#[test]
fn a_namespace_with_a_strange_name_is_refused() {
    let home = TempDir::new().unwrap();
    let driver = starting(home.path());
    for (unit, name) in (0..).map(UnitId).zip(["../../etc", "-x", "", "a b"]) {
        let properties = with(&[("unit.netns", name)]);
        let error = driver.perform(&Call { unit, properties, ..call(1, Step::Join) }).outcome;
        assert!(error.unwrap_err().0.ends_with("is not the name of an interface"));
    }
}

fn written_json(path: &Path) -> Value {
    let text = eventually(DEADLINE, &path.display().to_string(), || fs::read_to_string(path).ok());
    serde_json::from_str(&text).unwrap()
}

#[test]
fn a_program_finds_a_warning_beside_it_until_its_unit_is_left() {
    let home = TempDir::new().unwrap();
    let settings = json!({ "command": ["/bin/sleep", "3600"] });
    let driver = guest("start", home.path(), &settings).unwrap();
    let early = driver.call(&warning(1)).outcome.unwrap_err();
    assert_eq!(early.0, "u1 is not joined in epoch 1");
    done(&*driver, &join(1, &[]));
    driver.call(&warning(1)).outcome.unwrap();
    let folders = home.path().join("folders");
    let folder = fs::read_dir(&folders).unwrap().next().unwrap().unwrap().path();
    let read = fs::read(folder.join("warning.json")).unwrap();
    let said: Value = serde_json::from_slice(&read).unwrap();
    assert_eq!((&said["step"], &said["unit"]), (&json!("warn"), &json!(1)));
    assert_eq!(said["deadline"], json!("2026-11-18T11:06:40.000Z"));
    done(&*driver, &leave(1));
    let late = driver.call(&warning(1)).outcome.unwrap_err();
    assert_eq!(late.0, "u1 is not joined in epoch 1");
    assert!(!folder.exists());
}
