//! Real programs: well-behaved ones, and those that are not.

use std::ffi::OsStr;
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tempfile::TempDir;
use tenure_core::driver::{
    Call, DriverError, Epoch, Finding, GuestDriver, Report, ResourceDriver, Step, UnitId,
};
use tenure_core::model::codec::Hash;
use tenure_core::model::name::Name;
use tenure_core::model::property::Properties;
use tenure_wait::{DEADLINE, eventually, receive};

use super::super::conformance;
use super::super::program::ProgramPath;
use super::super::run::Run;
use super::super::stop::Stop;
use super::{Collector, call, guest, site, warning, with};

/// Reads its input, and takes `unit` and `step` from it.
pub(super) const READ: &str = r#"#!/bin/sh
set -eu
input=$(cat)
field() { printf %s "$input" | sed -n "s/.*\"$1\":\"\{0,1\}\([a-z0-9]*\).*/\1/p"; }
unit=$(field unit) step=$(field step)
mkdir -p made
"#;
pub(super) const MAKE: &str =
    r#"echo "$input" >"made/$unit"; echo '{"properties":{"host.name":"cats01"}}'"#;
const REMOVE: &str = r#"rm -f "made/$unit""#;
const LOOK: &str = r#"
if [ -e "made/$unit" ]; then echo '{"state":"up","properties":{"host.name":"cats01"}}'
else echo '{"state":"down"}'; fi"#;

/// A folder of programs, and one of the driver's.
pub(super) struct Place {
    programs: TempDir,
    pub(super) home: TempDir,
    pub(super) settings: Value,
}

impl Place {
    /// Programs that do as they should.
    pub(super) fn site() -> Self {
        Self::new("setup", "teardown")
    }

    fn guest() -> Self {
        Self::new("join", "leave")
    }

    fn new(begin: &str, end: &str) -> Self {
        let programs = TempDir::new().unwrap();
        let mut place = Self { programs, home: TempDir::new().unwrap(), settings: json!({}) };
        place.settings["allow"] = json!([]);
        for (step, does) in [(begin, MAKE), (end, REMOVE), ("probe", LOOK)] {
            place.program(step, &format!("{READ}{does}"));
        }
        place
    }

    /// Has another program for a step.
    pub(super) fn program(&mut self, step: &str, text: &str) {
        let path = self.path(step);
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        self.settings[step] = json!(path);
        self.allow(text.as_bytes());
    }

    fn allow(&mut self, bytes: &[u8]) {
        let hash = Hash::from_bytes(Sha256::digest(bytes).into());
        self.settings["allow"].as_array_mut().unwrap().push(json!(hash.to_hex()));
    }

    fn path(&self, step: &str) -> PathBuf {
        self.programs.path().join(step)
    }

    pub(super) fn open(&self) -> Box<dyn ResourceDriver> {
        site("exec", self.home.path(), &self.settings).unwrap()
    }

    fn open_guest(&self) -> Box<dyn GuestDriver> {
        guest("exec", self.home.path(), &self.settings).unwrap()
    }

    /// What the programs have left.
    pub(super) fn made(&self, unit: u32) -> PathBuf {
        self.home.path().join("made").join(unit.to_string())
    }

    /// Makes the last step one that a crash has cut off.
    fn cut_off(&self, step: Step) {
        let units = self.home.path().join("units");
        let record = fs::read_dir(&units).unwrap().next().unwrap().unwrap().path();
        let mut value: Value = serde_json::from_slice(&fs::read(&record).unwrap()).unwrap();
        value["steps"][format!("{step:?}")] = json!("begun");
        fs::write(&record, value.to_string()).unwrap();
    }
}

fn set_up(driver: &dyn ResourceDriver) -> Result<Properties, DriverError> {
    driver.perform(&call(1, Step::Setup)).outcome
}

fn fails(driver: &dyn ResourceDriver, with: &str) {
    let error = set_up(driver).unwrap_err();
    assert_eq!(error.0, with);
}

/// Writes into the pipe of reports, as a program in the driver's folder does.
fn write(home: &Path, text: &str) {
    let mut pipe = fs::OpenOptions::new().write(true).open(home.join("reports")).unwrap();
    pipe.write_all(text.as_bytes()).unwrap();
}

#[test]
fn a_setup_that_its_program_refuses_says_nothing_against_the_unit() {
    let refuses = format!("{READ}echo '{{\"state\":\"down\"}}'");
    let mut place = Place::site();
    place.program("setup", &refuses);
    let refused = set_up(&*place.open()).unwrap_err();
    assert_eq!(refused.why_untouched(), Some("the setup program answers: down"));
    // Where the probe does not agree, something is wrong with the unit.
    let mut place = Place::site();
    place.program("setup", &refuses);
    place.program("probe", &format!("{READ}echo '{{\"state\":\"partial\"}}'"));
    let failed = set_up(&*place.open()).unwrap_err();
    assert_eq!(failed.why_untouched(), None, "{failed}");
}

#[test]
fn what_a_program_of_exec_writes_is_reported() {
    let place = Place::site();
    let driver = place.open();
    let setup = call(1, Step::Setup);
    let fail = |call: &Call, _: &Properties| {
        let (unit, epoch) = (call.unit.0, call.epoch.0);
        let line = format!("{{\"unit\":{unit},\"epoch\":{epoch},\"state\":\"failed\"}}\n");
        write(place.home.path(), &line);
    };
    assert_eq!(conformance::reports(&*driver, &setup, DEADLINE, fail), Ok(()));
    let (reports, all) = mpsc::channel();
    driver.report_to(Arc::new(Collector(reports)));
    // What is no report is passed over, however long it is; a line may come in pieces.
    write(place.home.path(), &"x".repeat(100_000));
    write(
        place.home.path(),
        "\nno report\n{\"unit\":1,\"epoch\":5,\"state\":\"gone\"}\n{\"unit\":2,",
    );
    write(place.home.path(), "\"epoch\":5,\"state\":\"down\",\"error\":\"no link\"}\n");
    write(place.home.path(), "{\"unit\":2,\"epoch\":5,\"state\":\"up\"}\n");
    let report = |finding| Report { unit: UnitId(2), epoch: Epoch(5), finding };
    for finding in [Finding::Down(DriverError("no link".to_owned())), Finding::Up] {
        assert_eq!(receive(DEADLINE, "a report", &all), report(finding));
    }
    drop(driver);
    assert!(all.try_recv().is_err());
    // It is made once, and must be a pipe.
    drop(place.open());
    let path = place.home.path().join("reports");
    fs::remove_file(&path).unwrap();
    fs::write(&path, "").unwrap();
    let error = site("exec", place.home.path(), &place.settings).err().unwrap();
    assert!(error.ends_with("reports: is in the way of a named pipe"), "{error}");
}

#[test]
fn exec_keeps_the_promises_of_a_driver() {
    let place = Place::site();
    assert_eq!(conformance::site(|| place.open(), &call(1, Step::Setup), 2), Ok(25));
    let place = Place::guest();
    assert_eq!(conformance::guest(|| place.open_guest(), &call(1, Step::Join), 2), Ok(26));
}

#[test]
fn the_program_that_comes_with_tenure_lends_folders() {
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../config/drivers/folder");
    let program = program.canonicalize().unwrap();
    let mut place = Place::site();
    place.allow(&fs::read(&program).unwrap());
    for step in ["setup", "teardown", "probe"] {
        place.settings[step] = json!(program);
    }
    // Names that a careless program would take for its input.
    let properties = with(&[("unit", "9"), ("step", "teardown"), ("a", "\",\"unit\":9,\"")]);
    let setup = Call { properties, ..call(1, Step::Setup) };
    let unit = place.open().perform(&setup).outcome.unwrap();
    let folder = place.home.path().canonicalize().unwrap().join("lent/1");
    assert_eq!(unit.get("unit.directory"), folder.to_str());
    assert!(folder.is_dir());
    place.open().perform(&call(2, Step::Teardown)).outcome.unwrap();
    assert!(!folder.exists());
}

#[test]
fn a_unit_has_the_properties_that_its_program_says() {
    let place = Place::site();
    let driver = place.open();
    let expected = with(&[("host.name", "cats01")]);
    assert_eq!(set_up(&*driver), Ok(expected.clone()));
    assert_eq!(driver.probe(call(1, Step::Setup).site, call(1, Step::Setup).unit), Ok(expected));
    let teardown = driver.perform(&call(2, Step::Teardown)).outcome;
    assert_eq!(teardown, Ok(Properties::default()));
    let error = driver.probe(call(1, Step::Setup).site, call(1, Step::Setup).unit).unwrap_err();
    assert_eq!(error.0, "u1 is down");
}

#[test]
fn what_a_guest_writes_reaches_the_program_as_text_and_nowhere_else() {
    let mut place = Place::site();
    let canary = place.home.path().join("canary");
    let touch = format!("touch {}", canary.display());
    let long = "x".repeat(Properties::MAX_VALUE);
    let values = [
        format!("; {touch}"),
        format!("$({touch})"),
        format!("`{touch}`"),
        format!("\n{touch}\n"),
        format!("' {touch} '"),
        format!("\" {touch} \""),
        format!("a\0{touch}"),
        "-o ProxyCommand=id".to_owned(),
        "../../etc/passwd".to_owned(),
        "\u{202e}\u{1f980}".to_owned(),
        long,
    ];
    let mut pairs: Vec<(String, &str)> = Vec::new();
    for (number, value) in values.iter().enumerate() {
        pairs.push((format!("value{number}"), value));
    }
    for key in ["ld_preload", "path", "ifs", "env", "bash_env"] {
        pairs.push((key.to_owned(), "/tmp/evil"));
    }
    let map = pairs.iter().map(|(key, value)| (Name::new(key).unwrap(), (*value).to_owned()));
    let properties =
        Properties::try_from(map.collect::<std::collections::BTreeMap<_, _>>()).unwrap();
    let see = r#"#!/bin/sh
cat >input; echo "$#" >arguments; env >environment; mkdir -p made; : >made/1"#;
    place.program("setup", see);
    let driver = place.open();
    let setup = Call { properties: properties.clone(), ..call(1, Step::Setup) };
    driver.perform(&setup).outcome.unwrap();

    let see = |name: &str| fs::read_to_string(place.home.path().join(name)).unwrap();
    let step_input: Value = serde_json::from_str(&see("input")).unwrap();
    assert_eq!(step_input["properties"], serde_json::to_value(&properties).unwrap());
    assert_eq!(step_input["step"], "setup");
    assert_eq!((&step_input["unit"], &step_input["epoch"]), (&json!(1), &json!(1)));
    assert_eq!((&step_input["slice"], &step_input["lease"]), (&json!("cats"), &json!("7.0")));
    assert_eq!(step_input["guest"], json!(setup.guest.to_hex()));
    assert_eq!(see("arguments"), "0\n");
    let environment = see("environment");
    let mut names: Vec<&str> =
        environment.lines().filter_map(|line| line.split('=').next()).collect();
    names.retain(|name| !["PWD", "OLDPWD", "SHLVL", "_"].contains(name));
    names.sort_unstable();
    assert_eq!(names, ["PATH", "TENURE_UNIT"]);
    assert!(!canary.exists());
}

#[test]
fn a_program_may_leave_its_input_unread_however_long_it_is() {
    let mut place = Place::site();
    place.program("setup", "#!/bin/sh\nmkdir -p made; : >made/1");
    let driver = place.open();
    let value = "x".repeat(Properties::MAX_VALUE);
    let keys: Vec<Name> = (0..64).map(|key| Name::new(&format!("key{key}")).unwrap()).collect();
    let map: std::collections::BTreeMap<_, _> =
        keys.into_iter().map(|key| (key, value.clone())).collect();
    let setup = Call { properties: Properties::try_from(map).unwrap(), ..call(1, Step::Setup) };
    // The probe reads all of it, and looks for the unit's number among 256 KiB.
    assert_eq!(driver.perform(&setup).outcome, Ok(with(&[("host.name", "cats01")])));
}

#[test]
fn a_program_that_is_not_on_the_list_is_not_run() {
    let mut place = Place::site();
    let changed = format!("{READ}touch evil");
    fs::write(place.path("setup"), &changed).unwrap();
    let hash = Hash::from_bytes(Sha256::digest(changed.as_bytes()).into()).to_hex();
    let why = format!("not on the list of what may run: its SHA-256 is {hash}");
    fails(&*place.open(), &format!("{}: {why}", place.path("setup").display()));
    assert!(!place.home.path().join("evil").exists());

    place.settings["setup"] = json!(place.programs.path());
    let why = format!("{}: not a file", place.programs.path().display());
    let again = Call { epoch: Epoch(3), ..call(3, Step::Setup) };
    assert_eq!(place.open().perform(&again).outcome, Err(DriverError(why)));

    let pipe = place.path("pipe");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &pipe,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RWXU,
        0,
    )
    .unwrap();
    place.settings["setup"] = json!(pipe);
    let again = Call { epoch: Epoch(5), ..call(5, Step::Setup) };
    let why = format!("{}: not a file", pipe.display());
    assert_eq!(place.open().perform(&again).outcome, Err(DriverError(why)));
}

#[test]
fn a_path_that_could_lead_anywhere_is_refused_with_the_settings() {
    let mut place = Place::site();
    for path in ["setup", "./setup", "/opt/../setup", ""] {
        place.settings["setup"] = json!(path);
        let error = site("exec", place.home.path(), &place.settings).err().unwrap();
        assert_eq!(error, format!("driver `exec`: `{path}` is not an absolute path without `..`"));
    }
    place.settings["setup"] = json!(place.path("setup"));
    place.settings["arguments"] = json!(["-x"]);
    let error = site("exec", place.home.path(), &place.settings).err().unwrap();
    assert!(error.contains("unknown field `arguments`"), "{error}");
}

#[test]
fn what_was_checked_is_what_runs_whatever_becomes_of_the_file() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("program");
    let link = folder.path().join("link");
    let good = "#!/bin/sh\necho good\n";
    fs::write(&path, good).unwrap();
    std::os::unix::fs::symlink(&path, &link).unwrap();
    let allowed = Hash::from_bytes(Sha256::digest(good.as_bytes()).into());
    let change: [&dyn Fn(); 3] = [
        &|| fs::write(&path, "#!/bin/sh\necho evil\n").unwrap(),
        &|| {
            fs::write(folder.path().join("evil"), "#!/bin/sh\necho evil\n").unwrap();
            fs::remove_file(&link).unwrap();
            std::os::unix::fs::symlink(folder.path().join("evil"), &link).unwrap();
        },
        &|| fs::remove_file(&path).unwrap(),
    ];
    for change in change {
        fs::write(&path, good).unwrap();
        fs::remove_file(&link).unwrap();
        std::os::unix::fs::symlink(&path, &link).unwrap();
        let program = ProgramPath::try_from(link.clone()).unwrap();
        let checked = program.check(&[allowed]).unwrap();
        change();
        let run = Run {
            name: "the program",
            command: &[OsStr::new(&checked.path)],
            program: Some(checked.file),
            folder: folder.path(),
            mark: "test",
            input: b"",
            timeout: Duration::from_secs(600),
            output: 100,
        };
        let expected = run.finish(&Stop::new().unwrap(), |_| Ok(())).unwrap();
        assert_eq!(expected, b"good\n");
    }
}

#[test]
fn a_program_that_is_no_script_runs_as_well() {
    let mut place = Place::site();
    let program = Path::new("/bin/true").canonicalize().unwrap();
    place.allow(&fs::read(&program).unwrap());
    place.settings["setup"] = json!(program);
    let up = format!("{READ}echo '{{\"state\":\"up\"}}'");
    place.program("probe", &up);
    assert_eq!(set_up(&*place.open()), Ok(Properties::default()));
}

#[test]
fn an_error_says_the_step_the_exit_code_and_the_end_of_the_complaint() {
    let mut place = Place::site();
    place.program("setup", "#!/bin/sh\nseq 1000 >&2; echo 'no room in \x1b[31mrack 7' >&2; exit 3");
    let error = set_up(&*place.open()).unwrap_err().0;
    assert!(error.starts_with("the setup program failed (exit status: 3): "), "{error}");
    assert!(error.ends_with(r"; 999; 1000; no room in \u{1b}[31mrack 7"), "{error}");
    assert!(error.len() < 700, "{}", error.len());
}

#[test]
fn an_answer_that_is_none_is_an_error() {
    for (says, why) in [
        ("hello", "expected value at line 1 column 1"),
        (r#"{"property":{}}"#, "unknown field `property`, expected `properties` or `state`"),
        (r#"{"properties":{"HOST":"x"}}"#, "`HOST` is not a name"),
        (r#"{"properties":{"host":7}}"#, "invalid type: integer `7`, expected a string"),
    ] {
        let mut place = Place::site();
        place.program("setup", &format!("#!/bin/sh\necho '{says}'"));
        let error = set_up(&*place.open()).unwrap_err().0;
        assert!(error.starts_with(&format!("the setup program's answer: {why}")), "{error}");
    }
}

#[test]
fn a_program_that_takes_too_long_is_killed_with_its_group() {
    let mut place = Place::site();
    place.program("setup", "#!/bin/sh\nsleep 3600 & echo $! >child; sleep 3600");
    place.settings["timeout"] = json!("200ms");
    fails(&*place.open(), "the setup program took longer than 200ms");
    // Cut off before it wrote the number, or killed after.
    if let Ok(child) = fs::read_to_string(place.home.path().join("child"))
        && let Ok(child) = child.trim().parse::<i32>()
    {
        assert!(!runs(child));
    }
}

#[test]
fn a_program_that_ends_and_leaves_a_child_with_its_output_is_not_waited_for() {
    let mut place = Place::site();
    let forks = format!("{READ}{MAKE}\nsleep 3600 & echo $! >child");
    place.program("setup", &forks);
    assert_eq!(set_up(&*place.open()), Ok(with(&[("host.name", "cats01")])));
    let child = fs::read_to_string(place.home.path().join("child")).unwrap();
    assert!(!runs(child.trim().parse().unwrap()));
}

#[test]
fn a_program_that_floods_is_killed() {
    let mut place = Place::site();
    place.program("setup", "#!/bin/sh\nexec yes");
    place.settings["output"] = json!(1000);
    fails(&*place.open(), "the setup program wrote more than 1000 bytes");
    let mut place = Place::site();
    place.program("setup", "#!/bin/sh\n(yes | head -c 10000000) >&2; exit 1");
    let error = set_up(&*place.open()).unwrap_err().0;
    assert!(error.len() < 2000, "{}", error.len());
}

#[test]
fn a_program_that_says_it_worked_and_did_not_is_found_out_by_the_probe() {
    let mut place = Place::site();
    place.program("setup", "#!/bin/sh\nexit 0");
    fails(&*place.open(), "setup succeeded, but its probe says: down");
    let mut place = Place::site();
    place.program("teardown", "#!/bin/sh\nexit 0");
    let driver = place.open();
    set_up(&*driver).unwrap();
    let error = driver.perform(&call(2, Step::Teardown)).outcome.unwrap_err();
    assert_eq!(error.0, "teardown succeeded, but its probe says: up");
}

#[test]
fn after_a_crash_the_probe_decides_and_nothing_is_repeated_blindly() {
    let counted = format!("{READ}{MAKE}\necho >>times");
    let expected = with(&[("host.name", "cats01")]);
    let times = |place: &Place| fs::read_to_string(place.home.path().join("times")).unwrap().len();
    // Done, but the answer was lost.
    let mut place = Place::site();
    place.program("setup", &counted);
    set_up(&*place.open()).unwrap();
    place.cut_off(Step::Setup);
    assert_eq!((set_up(&*place.open()), times(&place)), (Ok(expected.clone()), 1));
    // Not done.
    fs::remove_file(place.made(1)).unwrap();
    place.cut_off(Step::Setup);
    assert_eq!((set_up(&*place.open()), times(&place)), (Ok(expected), 2));
    // Neither: the unit goes to be cleaned.
    place.program("probe", &format!("{READ}echo '{{\"state\":\"partial\"}}'"));
    place.cut_off(Step::Setup);
    fails(&*place.open(), "setup was cut off, and its probe says: partial");
    assert_eq!(times(&place), 2);
}

#[test]
fn a_teardown_that_was_cut_off_is_finished() {
    for left in [true, false] {
        let mut place = Place::site();
        place.program("teardown", &format!("{READ}{REMOVE}\necho >>times"));
        set_up(&*place.open()).unwrap();
        place.open().perform(&call(2, Step::Teardown)).outcome.unwrap();
        place.cut_off(Step::Teardown);
        if left {
            fs::write(place.made(1), "").unwrap();
        }
        place.open().perform(&call(2, Step::Teardown)).outcome.unwrap();
        assert!(!place.made(1).exists());
        let times = fs::read_to_string(place.home.path().join("times")).unwrap().len();
        assert_eq!(times, if left { 2 } else { 1 });
    }
}

/// Waits until the program has begun.
fn begun(place: &Place) {
    let begun = place.home.path().join("begun");
    eventually(DEADLINE, "a program that has begun", || begun.exists());
}

#[test]
fn a_teardown_slower_than_the_next_setup_does_not_touch_the_successor() {
    let mut place = Place::site();
    // Waits for a word that never comes, and would then remove whatever is there.
    let slow = format!("{READ}echo >begun; sleep 300; {REMOVE}");
    place.program("teardown", &slow);
    let driver = place.open();
    set_up(&*driver).unwrap();
    thread::scope(|scope| {
        let late = scope.spawn(|| driver.perform(&call(2, Step::Teardown)).outcome);
        begun(&place);
        driver.perform(&call(3, Step::Setup)).outcome.unwrap();
        let error = late.join().unwrap().unwrap_err();
        assert_eq!(
            error.0,
            "the teardown program was ended: a later step of the unit came, or it took too long"
        );
    });
    assert!(place.made(1).exists());
    let again = driver.perform(&call(2, Step::Teardown)).outcome.unwrap_err();
    assert_eq!(again.0, "epoch 2 of u1 has ended: epoch 3 has begun");
    assert!(place.made(1).exists());
}

#[test]
fn a_leave_ends_the_program_of_a_join() {
    let mut place = Place::guest();
    place.program("join", &format!("{READ}echo >begun; sleep 300; {MAKE}"));
    let driver = place.open_guest();
    thread::scope(|scope| {
        let join = scope.spawn(|| driver.perform(&call(1, Step::Join)).outcome);
        begun(&place);
        assert_eq!(driver.perform(&call(1, Step::Leave)).outcome, Ok(Properties::default()));
        let error = join.join().unwrap().unwrap_err();
        assert_eq!(
            error.0,
            "the join program was ended: a later step of the unit came, or it took too long"
        );
    });
    assert!(!place.made(1).exists());
}

#[test]
fn a_step_that_is_given_up_is_ended_and_the_unit_is_cleaned() {
    let mut place = Place::site();
    place.program("setup", &format!("{READ}echo >begun; sleep 300; {MAKE}"));
    let driver = place.open();
    thread::scope(|scope| {
        let setup = scope.spawn(|| driver.perform(&call(1, Step::Setup)).outcome);
        begun(&place);
        // Another call's end is not that of this one.
        driver.give_up(&call(2, Step::Teardown));
        driver.give_up(&call(1, Step::Setup));
        let error = setup.join().unwrap().unwrap_err();
        assert!(error.0.starts_with("the setup program was ended"), "{error}");
    });
    assert_eq!(driver.perform(&call(2, Step::Teardown)).outcome, Ok(Properties::default()));
    assert!(!place.made(1).exists());
    // Nothing is at work: there is nothing to end.
    driver.give_up(&call(2, Step::Teardown));
    driver.perform(&call(2, Step::Teardown)).outcome.unwrap();
}

#[test]
fn a_program_that_outlives_its_driver_is_ended_before_anything_else_is_done() {
    let place = Place::site();
    // As a killed process leaves it: a program at work, noted, and its step begun.
    let mut orphan = std::process::Command::new("/bin/sh");
    orphan.args(["-c", "sleep 3600; :"]);
    let mut orphan =
        std::os::unix::process::CommandExt::process_group(&mut orphan, 0).spawn().unwrap();
    set_up(&*place.open()).unwrap();
    let process = super::super::child::Process::of(orphan.id().cast_signed()).unwrap();
    let units = place.home.path().join("units");
    let record = fs::read_dir(&units).unwrap().next().unwrap().unwrap().path();
    let mut value: Value = serde_json::from_slice(&fs::read(&record).unwrap()).unwrap();
    value["note"] = serde_json::to_value(&process).unwrap();
    fs::write(&record, value.to_string()).unwrap();

    place.open().perform(&call(2, Step::Teardown)).outcome.unwrap();
    assert!(!process.is_alive());
    orphan.wait().unwrap();
}

fn runs(pid: i32) -> bool {
    super::super::child::Process::of(pid).is_ok_and(|process| process.is_alive())
}

#[test]
fn a_guest_has_a_program_warn_of_a_unit_that_is_recalled() {
    let mut place = Place::guest();
    place.program("warn", &format!(r#"{READ}field deadline >"made/$unit.$step""#));
    let driver = place.open_guest();
    driver.perform(&call(1, Step::Join)).outcome.unwrap();
    driver.call(&warning(1)).outcome.unwrap();
    let said = fs::read_to_string(place.home.path().join("made/1.warn")).unwrap();
    assert_eq!(said, "2026");
    place.program("warn", "#!/bin/sh\necho nobody listens >&2; exit 1");
    let driver = {
        drop(driver);
        place.open_guest()
    };
    let error = driver.call(&warning(1)).outcome.unwrap_err();
    assert!(error.0.contains("nobody listens"), "{error}");
    assert!(driver.probe(call(1, Step::Join).site, call(1, Step::Join).unit).is_ok());
}

#[test]
fn without_a_program_for_it_a_warning_is_passed_over() {
    let place = Place::guest();
    let driver = place.open_guest();
    driver.perform(&call(1, Step::Join)).outcome.unwrap();
    assert_eq!(driver.call(&warning(1)).outcome, Ok(Properties::default()));
}
