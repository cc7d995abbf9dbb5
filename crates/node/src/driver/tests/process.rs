//! Real processes; each test has a folder of its own, and ends what it started.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;
use tenure_core::driver::{
    Call, DriverError, Epoch, Finding, Report, ResourceDriver, Step, UnitId,
};
use tenure_core::model::name::Name;
use tenure_core::model::property::Properties;
use tenure_wait::{DEADLINE, eventually, receive};

use super::super::conformance;
use super::{Collector, call, site, with};

/// Opens the driver with a shell script for a program.
fn running(home: &Path, script: &str) -> Box<dyn ResourceDriver> {
    site("process", home, &shell(script)).unwrap()
}

fn shell(script: &str) -> Value {
    json!({ "command": ["/bin/sh", "-c", script], "grace": 0 })
}

const SLEEP: &str = "while :; do sleep 3600; done";

fn set_up(driver: &dyn ResourceDriver) -> Properties {
    driver.perform(&call(1, Step::Setup)).outcome.unwrap()
}

fn tear_down(driver: &dyn ResourceDriver) {
    driver.perform(&call(2, Step::Teardown)).outcome.unwrap();
}

fn get<'a>(properties: &'a Properties, key: &str) -> &'a str {
    properties.get(key).unwrap()
}

pub(super) fn pid(properties: &Properties) -> i32 {
    get(properties, "unit.pid").parse().unwrap()
}

pub(super) fn runs(pid: i32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat.rsplit(')').next().unwrap_or_default().split_whitespace().next();
    state.is_some_and(|state| state != "Z" && state != "X")
}

/// Waits for what a program writes into a file of its folder, as one word.
pub(super) fn written(path: &Path) -> String {
    eventually(DEADLINE, &path.display().to_string(), || {
        let text = fs::read_to_string(path).ok().filter(|text| text.ends_with('\n'))?;
        Some(text.trim().to_owned())
    })
}

pub(super) fn file(properties: &Properties, name: &str) -> PathBuf {
    Path::new(get(properties, "unit.directory")).join(name)
}

#[test]
fn process_keeps_the_promises_of_a_driver() {
    let home = TempDir::new().unwrap();
    let stories = conformance::site(|| running(home.path(), SLEEP), &call(1, Step::Setup), 3);
    assert_eq!(stories, Ok(125));
    let driver = running(home.path(), SLEEP);
    for unit in (1..=125).map(UnitId) {
        let teardown = Call { unit, ..call(9, Step::Teardown) };
        driver.perform(&teardown).outcome.unwrap();
    }
    assert_eq!(fs::read_dir(home.path().join("folders")).unwrap().count(), 0);
}

#[test]
fn a_unit_has_a_name_an_address_a_folder_and_a_process() {
    let home = TempDir::new().unwrap();
    let settings = json!({ "domain": "cod.duke.edu", "port": 7000, "grace": 0 });
    let driver = site("process", home.path(), &settings).unwrap();
    let chosen = with(&[("host.prefix", "kittens"), ("subnet.name", "cats")]);
    let setup = Call { properties: chosen, ..call(1, Step::Setup) };
    let properties = driver.perform(&setup).outcome.unwrap();
    assert_eq!(get(&properties, "host.name"), "kittens01.cats.cod.duke.edu");
    assert_eq!(get(&properties, "host.privipaddr"), "127.0.0.1");
    assert_eq!(get(&properties, "unit.port"), "7001");
    assert!(runs(pid(&properties)));
    assert_eq!(driver.probe(setup.site, setup.unit), Ok(properties));
    let second = Call { unit: UnitId(2), ..call(1, Step::Setup) };
    let second = driver.perform(&second).outcome.unwrap();
    assert_eq!(get(&second, "host.name"), "cats02.cats.cod.duke.edu");
    tear_down(&*driver);
    driver.perform(&Call { unit: UnitId(2), ..call(2, Step::Teardown) }).outcome.unwrap();
}

#[test]
fn a_unit_for_which_no_port_is_left_is_not_set_up() {
    let home = TempDir::new().unwrap();
    let driver = site("process", home.path(), &json!({ "port": 65535 })).unwrap();
    let error = driver.perform(&call(1, Step::Setup)).outcome.unwrap_err();
    assert!(error.0.starts_with("no port is left for u1: "), "{error}");
    assert_eq!(
        driver.probe(call(1, Step::Setup).site, UnitId(1)).unwrap_err().0,
        "u1 has no program"
    );
}

#[test]
fn a_host_name_that_is_none_is_refused() {
    let home = TempDir::new().unwrap();
    let driver = running(home.path(), SLEEP);
    for (unit, prefix) in ["", "-x", "x.y", "a b", "Cats", "$(id)", "../x"].iter().enumerate() {
        let unit = UnitId(u32::try_from(unit).unwrap());
        let properties = with(&[("host.prefix", prefix)]);
        let setup = Call { unit, properties, ..call(1, Step::Setup) };
        let error = driver.perform(&setup).outcome.unwrap_err();
        let refused = error.why_untouched().expect("the unit is as it was");
        assert!(refused.starts_with("property `host.prefix` is "), "{error}");
    }
}

#[test]
fn a_teardown_ends_also_what_has_fled_from_its_group() {
    let home = TempDir::new().unwrap();
    // A child, a grandchild that outlives its parent, and one in a session of its own.
    let script = "
        sleep 3600 & echo $! >child.new; mv child.new child
        (sleep 3600 & echo $! >orphan.new; mv orphan.new orphan)
        (setsid sh -c 'echo $$ >fled.new; mv fled.new fled; sleep 3600' &)
        trap '' TERM
        while :; do sleep 3600; done";
    let driver = running(home.path(), script);
    let properties = set_up(&*driver);
    let family = ["child", "orphan", "fled"].map(|name| written(&file(&properties, name)));
    let family: Vec<i32> = family.iter().map(|pid| pid.parse().unwrap()).collect();
    assert!(family.iter().all(|pid| runs(*pid)));
    tear_down(&*driver);
    assert!(
        !Path::new(&format!("/proc/{}", pid(&properties))).exists(),
        "not even a zombie is left"
    );
    assert!(family.iter().all(|pid| !runs(*pid)), "{family:?}");
    assert!(!file(&properties, "").exists());
}

#[test]
fn limits_hold_from_the_first_instruction_on() {
    let home = TempDir::new().unwrap();
    let settings = json!({
        "command": ["/bin/sh", "-c", "ulimit -n >files; ulimit -v >memory; ulimit -c >core; sleep 3600"],
        "limits": { "files": 33, "memory": 1 << 30 },
        "grace": 0,
    });
    let driver = site("process", home.path(), &settings).unwrap();
    let properties = set_up(&*driver);
    assert_eq!(written(&file(&properties, "files")), "33");
    assert_eq!(written(&file(&properties, "memory")), "1048576");
    assert_eq!(written(&file(&properties, "core")), "0");
    tear_down(&*driver);
}

#[test]
fn the_environment_is_clean() {
    let home = TempDir::new().unwrap();
    let driver = running(home.path(), "env >env.new; mv env.new env; sleep 3600");
    let properties = set_up(&*driver);
    let env = file(&properties, "env");
    let text = eventually(DEADLINE, "the environment", || fs::read_to_string(&env).ok());
    let mut names: Vec<&str> = text.lines().filter_map(|line| line.split('=').next()).collect();
    // What a shell adds by itself.
    names.retain(|name| !["PWD", "OLDPWD", "SHLVL", "_"].contains(name));
    names.sort_unstable();
    assert_eq!(names, ["PATH", "TENURE_UNIT"]);
    tear_down(&*driver);
}

#[test]
fn a_unit_goes_on_without_its_driver_and_is_taken_up_again() {
    let home = TempDir::new().unwrap();
    let first = running(home.path(), SLEEP);
    let properties = set_up(&*first);
    drop(first);
    assert!(runs(pid(&properties)));
    let second = running(home.path(), SLEEP);
    assert_eq!(second.probe(call(1, Step::Setup).site, UnitId(1)), Ok(properties.clone()));
    assert_eq!(set_up(&*second), properties);
    tear_down(&*second);
    assert!(!runs(pid(&properties)));
}

#[test]
fn a_unit_that_died_while_nobody_looked_is_started_again() {
    let home = TempDir::new().unwrap();
    let first = running(home.path(), SLEEP);
    let before = set_up(&*first);
    drop(first);
    kill(pid(&before));
    let second = running(home.path(), SLEEP);
    let after = healthy(&*second);
    assert_ne!(pid(&before), pid(&after));
    assert_eq!(get(&before, "host.name"), get(&after, "host.name"));
    tear_down(&*second);
}

#[test]
fn a_program_that_ends_is_started_again_with_all_that_it_left_ended() {
    let home = TempDir::new().unwrap();
    let script = "sleep 3600 & echo $! >>children; while :; do sleep 3600; done";
    let driver = running(home.path(), script);
    let before = set_up(&*driver);
    let child: i32 = written(&file(&before, "children")).parse().unwrap();
    kill(pid(&before));
    let after = eventually(DEADLINE, "another process", || {
        Some(healthy(&*driver)).filter(|after| pid(after) != pid(&before))
    });
    assert!(!runs(child));
    tear_down(&*driver);
    assert!(!runs(pid(&after)));
}

#[test]
fn a_program_that_is_not_to_be_started_again_is_reported() {
    let home = TempDir::new().unwrap();
    let mut settings = shell("echo reads its disk; echo no such disk >&2; exit 7");
    settings["restart"] = json!(false);
    let driver = site("process", home.path(), &settings).unwrap();
    set_up(&*driver);
    let call = call(1, Step::Setup);
    let error = eventually(DEADLINE, "the report of an end", || {
        let error = driver.probe(call.site, call.unit).err();
        // Its logger may take a moment longer than the program.
        error.filter(|error| error.0.ends_with("no such disk"))
    });
    let said = "it ended with exit code 7; it wrote last: reads its disk / no such disk";
    assert_eq!(error, DriverError(format!("the program of u1 does not run: {said}")));
    tear_down(&*driver);
    assert_eq!(
        driver.probe(call.site, call.unit),
        Err(DriverError("u1 has no program".to_owned()))
    );
}

/// A site whose programs are not started again.
fn once(home: &Path) -> Box<dyn ResourceDriver> {
    let mut settings = shell(SLEEP);
    settings["restart"] = json!(false);
    site("process", home, &settings).unwrap()
}

#[test]
fn process_reports_a_program_that_ends_for_good() {
    let home = TempDir::new().unwrap();
    let fail = |_: &Call, properties: &Properties| kill(pid(properties));
    let kept = conformance::reports(&*once(home.path()), &call(1, Step::Setup), DEADLINE, fail);
    assert_eq!(kept, Ok(()));
    // One that never reports is found out.
    let silent = site("null", &home.path().join("null"), &json!({})).unwrap();
    let silent = conformance::reports(&*silent, &call(1, Step::Setup), Duration::ZERO, |_, _| {});
    let broken = silent.unwrap_err();
    assert_eq!(broken.promise, "a unit that fails is reported");
    // One that is started again does not fail: it is down, then up.
    let (reports, all) = mpsc::channel();
    let driver = running(home.path(), SLEEP);
    driver.report_to(Arc::new(Collector(reports)));
    let setup = call(5, Step::Setup);
    kill(pid(&driver.perform(&setup).outcome.unwrap()));
    let how = "the program of u1 does not run: it was ended by signal 9";
    let told = [Finding::Down(DriverError(how.to_owned())), Finding::Up];
    for finding in told {
        let report = Report { unit: UnitId(1), epoch: Epoch(5), finding };
        assert_eq!(receive(DEADLINE, "a report", &all), report);
    }
    driver.perform(&call(6, Step::Teardown)).outcome.unwrap();
}

#[test]
fn a_program_that_ended_while_no_driver_ran_is_reported_by_the_next() {
    let home = TempDir::new().unwrap();
    let first = once(home.path());
    let properties = set_up(&*first);
    drop(first);
    kill(pid(&properties));
    let second = once(home.path());
    let (reports, all) = mpsc::channel();
    second.report_to(Arc::new(Collector(reports)));
    let Report { unit, epoch, finding } = receive(DEADLINE, "a report", &all);
    assert_eq!((unit, epoch), (UnitId(1), Epoch(1)));
    assert!(matches!(finding, Finding::Failed(_)), "{finding:?}");
    tear_down(&*second);
}

#[test]
fn a_program_that_is_not_there_is_an_error() {
    let home = TempDir::new().unwrap();
    let settings = json!({ "command": ["/no/such/program"] });
    let driver = site("process", home.path(), &settings).unwrap();
    let error = driver.perform(&call(1, Step::Setup)).outcome.unwrap_err();
    let expected = "cannot be started: no such program, or not to be executed (exit status: 127)";
    assert_eq!(error.0, expected);
    let relative = site("process", home.path(), &json!({ "command": ["sleep"] })).err().unwrap();
    assert_eq!(relative, "driver `process`: the program `sleep` is not an absolute path");
}

#[test]
fn the_processes_of_units_whose_setup_was_cut_off_are_found_by_the_teardown() {
    let home = TempDir::new().unwrap();
    let first = running(home.path(), SLEEP);
    let properties = set_up(&*first);
    drop(first);
    // As a crash leaves it: begun, with a process that is noted.
    let units = home.path().join("units");
    let record = fs::read_dir(&units).unwrap().next().unwrap().unwrap().path();
    let mut value: Value = serde_json::from_slice(&fs::read(&record).unwrap()).unwrap();
    value["steps"]["Setup"] = json!("begun");
    fs::write(&record, value.to_string()).unwrap();

    let second = running(home.path(), SLEEP);
    let same = set_up(&*second);
    assert_eq!(same, properties, "a setup that had got as far as a program is not repeated");
    drop(second);
    fs::write(&record, value.to_string()).unwrap();
    let third = running(home.path(), SLEEP);
    tear_down(&*third);
    assert!(!runs(pid(&properties)));
}

/// The files of what the only unit's program has written, the newer one first.
fn logs(home: &Path) -> [String; 2] {
    let unit = fs::read_dir(home.join("logs")).unwrap().next().unwrap().unwrap().path();
    ["output", "output.1"].map(|name| fs::read_to_string(unit.join(name)).unwrap_or_default())
}

#[test]
fn the_end_of_what_a_program_writes_is_kept() {
    let home = TempDir::new().unwrap();
    // Short lines, each read for itself, and a long one.
    let script = "
        n=0; while [ $n -lt 3000 ]; do n=$((n + 1)); echo line $n; done
        head -c 200000 /dev/zero | tr '\\0' x; echo; echo an error >&2
        echo done >done.new; mv done.new done; sleep 3600";
    let mut settings = shell(script);
    settings["log"] = json!(1 << 15);
    let driver = site("process", home.path(), &settings).unwrap();
    let properties = set_up(&*driver);
    written(&file(&properties, "done"));
    let [new, old] = eventually(DEADLINE, "the last line of a log", || {
        let logs = logs(home.path());
        assert!(logs.iter().all(|log| log.len() <= 1 << 14), "{} bytes", logs[0].len());
        // A file may end anywhere.
        let ends = format!("{}{}", logs[1], logs[0]).ends_with("x\nan error\n");
        ends.then_some(logs)
    });
    assert!(new.len() + old.len() >= 1 << 13, "{} and {} bytes", new.len(), old.len());
    assert!(runs(pid(&properties)));
    tear_down(&*driver);
    assert_eq!(fs::read_dir(home.path().join("logs")).unwrap().count(), 0);
}

#[test]
fn the_last_words_of_a_program_that_ends_are_kept() {
    let home = TempDir::new().unwrap();
    let driver = running(home.path(), "echo begun; sleep 0.01; echo the end; exit 3");
    set_up(&*driver);
    // It is started again after a second, and its next words follow the last.
    eventually(DEADLINE, "the words after a restart", || {
        logs(home.path())[0].starts_with("begun\nthe end\nbegun\n")
    });
    tear_down(&*driver);
}

#[test]
fn a_program_goes_on_when_its_words_cannot_be_kept() {
    let home = TempDir::new().unwrap();
    let script = "
        while [ ! -e go ]; do sleep 0.01; done
        head -c 1000000 /dev/zero; echo done >done.new; mv done.new done; sleep 3600";
    let driver = running(home.path(), script);
    let properties = set_up(&*driver);
    fs::remove_dir_all(home.path().join("logs")).unwrap();
    fs::write(file(&properties, "go"), "").unwrap();
    written(&file(&properties, "done"));
    assert!(runs(pid(&properties)));
    tear_down(&*driver);
}

#[test]
fn what_a_unit_has_left_is_ended_also_without_a_record_of_it() {
    let home = TempDir::new().unwrap();
    let driver = running(home.path(), SLEEP);
    let properties = set_up(&*driver);
    drop(driver);
    fs::remove_dir_all(home.path().join("units")).unwrap();
    let driver = running(home.path(), SLEEP);
    tear_down(&*driver);
    assert!(!runs(pid(&properties)));
}

/// The unit's properties, once its program runs.
fn healthy(driver: &dyn ResourceDriver) -> Properties {
    let call = call(1, Step::Setup);
    eventually(DEADLINE, "a program that runs", || {
        driver.probe(call.site, call.unit).ok().filter(|properties| runs(pid(properties)))
    })
}

fn kill(pid: i32) {
    let pid = rustix::process::Pid::from_raw(pid).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    eventually(DEADLINE, "the end of a process", || !runs(pid.as_raw_pid()));
}

#[test]
fn names_in_a_slice_are_given_again_when_they_are_free() {
    let home = TempDir::new().unwrap();
    let driver = running(home.path(), SLEEP);
    let setup = |unit, epoch, slice: &'static str| {
        let slice = Name::literal(slice);
        let call = Call { unit: UnitId(unit), slice, ..call(epoch, Step::Setup) };
        let properties = driver.perform(&call).outcome.unwrap();
        get(&properties, "host.name").to_owned()
    };
    let teardown = |unit, epoch| {
        let call = Call { unit: UnitId(unit), ..call(epoch, Step::Teardown) };
        driver.perform(&call).outcome.unwrap();
    };
    assert_eq!(setup(1, 1, "cats"), "cats01");
    assert_eq!(setup(2, 1, "cats"), "cats02");
    assert_eq!(setup(3, 1, "dogs.x"), "dogs-x01");
    teardown(1, 2);
    assert_eq!(setup(1, 3, "dogs.x"), "dogs-x02");
    assert_eq!(setup(4, 1, "cats"), "cats01");
    for (unit, epoch) in [(1, 4), (2, 2), (3, 2), (4, 2)] {
        teardown(unit, epoch);
    }
}

#[test]
fn a_unit_whose_file_is_broken_does_not_hold_up_the_others() {
    let home = TempDir::new().unwrap();
    let driver = running(home.path(), SLEEP);
    let properties = set_up(&*driver);
    let broken = Call { unit: UnitId(2), ..call(1, Step::Setup) };
    driver.perform(&broken).outcome.unwrap();
    driver.perform(&Call { unit: UnitId(2), ..call(2, Step::Teardown) }).outcome.unwrap();
    drop(driver);
    let files = fs::read_dir(home.path().join("units")).unwrap().flatten();
    let file = files
        .map(|file| file.path())
        .find(|file| file.to_string_lossy().ends_with("-u2.json"))
        .unwrap();
    fs::write(file, "{").unwrap();
    let driver = running(home.path(), SLEEP);
    assert_eq!(driver.probe(call(1, Step::Setup).site, UnitId(1)), Ok(properties));
    assert!(driver.perform(&Call { unit: UnitId(2), ..call(3, Step::Setup) }).outcome.is_err());
    tear_down(&*driver);
}

/// Set for a test that is run as a process of its own: its driver's folder.
const ALONE: &str = "TENURE_TEST_PROCESS_HOME";

#[test]
fn a_site_that_is_killed() {
    let Ok(home) = std::env::var(ALONE) else {
        eprintln!("nothing to do here: `a_killed_site_leaves_no_process_behind` runs this");
        return;
    };
    let driver = running(Path::new(&home), SLEEP);
    let properties = set_up(&*driver);
    fs::write(Path::new(&home).join("ready.new"), format!("{}\n", pid(&properties))).unwrap();
    fs::rename(Path::new(&home).join("ready.new"), Path::new(&home).join("ready")).unwrap();
    // And on with units, without end, so that the kill comes at any point of a step.
    for epoch in 1.. {
        let unit = UnitId(2);
        driver.perform(&Call { unit, ..call(2 * epoch, Step::Setup) }).outcome.unwrap();
        driver.perform(&Call { unit, ..call(2 * epoch + 1, Step::Teardown) }).outcome.unwrap();
    }
}

#[test]
fn a_killed_site_leaves_no_process_behind() {
    let mark_of = |home: &Path| format!("TENURE_UNIT={}:", home.canonicalize().unwrap().display());
    for _ in 0..5 {
        let home = TempDir::new().unwrap();
        let mut alone = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["driver::tests::process::a_site_that_is_killed", "--exact"])
            .env(ALONE, home.path())
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::null())
            .spawn()
            .unwrap();
        let first: i32 = written(&home.path().join("ready")).parse().unwrap();
        alone.kill().unwrap();
        alone.wait().unwrap();
        assert!(runs(first), "a unit outlives its site");

        let driver = running(home.path(), SLEEP);
        let same = driver.probe(call(1, Step::Setup).site, UnitId(1)).unwrap();
        assert_eq!(pid(&same), first);
        tear_down(&*driver);
        let last = Call { unit: UnitId(2), ..call(u64::MAX, Step::Teardown) };
        driver.perform(&last).outcome.unwrap();
        drop(driver);
        assert_eq!(marked(&mark_of(home.path())), Vec::<i32>::new());
        assert_eq!(fs::read_dir(home.path().join("folders")).unwrap().count(), 0);
    }
}

/// Every process whose environment has an entry that begins so.
fn marked(mark: &str) -> Vec<i32> {
    let pids = fs::read_dir("/proc").unwrap().flatten();
    let pids = pids.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    pids.filter(|pid| {
        let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|entry| entry.starts_with(mark.as_bytes()))
    })
    .collect()
}
