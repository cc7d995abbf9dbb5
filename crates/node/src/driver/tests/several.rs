//! Several drivers of one guest.

use std::fs;
use std::path::Path;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tempfile::TempDir;
use tenure_core::driver::{Answer, Call, DriverError, Epoch, GuestDriver, Step, UnitId};
use tenure_core::model::identity::ActorId;
use tenure_core::model::property::Properties;
use tenure_core::model::time::{Span, Time};

use super::super::several::Several;
use super::super::{DriverSettingsError, conformance, guests};
use super::guests::only_folder;
use super::process::{pid, runs, written};
use super::{actor, call, site, warning, with};

/// Records its calls, and answers as configured.
struct Recorder {
    name: &'static str,
    calls: Arc<Mutex<Vec<String>>>,
    answer: Properties,
    after: i64,
    fails: &'static [Step],
    panics: bool,
}

impl Recorder {
    fn write(&self, what: &str) {
        self.calls.lock().unwrap().push(format!("{} {what}", self.name));
    }
}

impl GuestDriver for Recorder {
    fn perform(&self, call: &Call) -> Answer {
        self.write(call.step.word());
        assert!(!self.panics || call.step == Step::Join, "a driver that panics");
        let failure = || Err(DriverError(format!("cannot {}", call.step.word())));
        let fails = self.fails.contains(&call.step);
        let outcome = if fails { failure() } else { Ok(self.answer.clone()) };
        Answer { outcome, after: Span::from_secs(self.after) }
    }

    fn warn(&self, _: &Call, deadline: Time) -> Result<(), DriverError> {
        self.write(&format!("warn {deadline}"));
        if self.fails.contains(&Step::Warn) { Err(DriverError("?".into())) } else { Ok(()) }
    }

    fn probe(&self, _: ActorId, _: UnitId) -> Result<Properties, DriverError> {
        self.write("probe");
        if self.fails.is_empty() { Ok(self.answer.clone()) } else { Err(DriverError("?".into())) }
    }
}

type CallLog = Arc<Mutex<Vec<String>>>;

/// Drivers a, b and c, changed by `change` by their number, and the calls they receive.
fn recorders(change: impl Fn(usize, &mut Recorder)) -> (Several, CallLog) {
    let calls = CallLog::default();
    let recorder = |(nth, name): (usize, &'static str)| {
        let answer = with(&[("last", name), (name, "here")]);
        let after = [2, 3, 1][nth];
        let calls = Arc::clone(&calls);
        let mut recorder = Recorder { name, calls, answer, after, fails: &[], panics: false };
        change(nth, &mut recorder);
        (name.to_owned(), Box::new(recorder) as Box<dyn GuestDriver>)
    };
    (Several::new(["a", "b", "c"].into_iter().enumerate().map(recorder).collect()), calls)
}

fn drain(calls: &CallLog) -> Vec<String> {
    std::mem::take(&mut calls.lock().unwrap())
}

fn failure(error: &str) -> Result<Properties, DriverError> {
    Err(DriverError(error.to_owned()))
}

#[test]
fn units_are_joined_in_order_and_left_in_the_opposite_one() {
    let (drivers, calls) = recorders(|_, _| {});
    let joined = drivers.perform(&call(1, Step::Join));
    let all = with(&[("a", "here"), ("b", "here"), ("c", "here"), ("last", "c")]);
    assert_eq!(joined, Answer { outcome: Ok(all.clone()), after: Span::from_secs(3) });
    assert_eq!(drivers.probe(actor(1), UnitId(1)), Ok(all));
    assert_eq!(drain(&calls), ["a join", "b join", "c join", "a probe", "b probe", "c probe"]);
    assert!(drivers.perform(&call(1, Step::Leave)).outcome.is_ok());
    assert_eq!(drain(&calls), ["c leave", "b leave", "a leave"]);
}

#[test]
fn a_join_stops_at_the_first_failure_and_a_leave_never() {
    let (drivers, calls) = recorders(|nth, recorder| {
        recorder.fails = if nth > 0 { &[Step::Join, Step::Leave] } else { &[] };
    });
    let joined = drivers.perform(&call(1, Step::Join));
    assert_eq!(joined, Answer { outcome: failure("b: cannot join"), after: Span::from_secs(3) });
    assert_eq!(drain(&calls), ["a join", "b join"]);
    assert_eq!(drivers.perform(&call(1, Step::Leave)).outcome, failure("c: cannot leave"));
    assert_eq!(drain(&calls), ["c leave", "b leave", "a leave"]);
    assert_eq!(drivers.probe(actor(1), UnitId(1)), failure("b: ?"));
    assert_eq!(drain(&calls), ["a probe", "b probe", "c probe"]);
}

#[test]
fn all_are_warned_whether_or_not_one_fails() {
    let (drivers, calls) = recorders(|nth, recorder| {
        recorder.fails = if nth == 1 { &[Step::Warn] } else { &[] };
    });
    assert_eq!(drivers.call(&warning(1)).outcome, failure("b: ?"));
    let at = "warn 2026-11-18T11:06:40.000Z";
    assert_eq!(drain(&calls), ["a", "b", "c"].map(|name| format!("{name} {at}")));
}

#[test]
fn a_driver_that_panics_while_it_leaves_does_not_keep_the_others_from_it() {
    let (drivers, calls) = recorders(|nth, recorder| recorder.panics = nth == 1);
    assert!(drivers.perform(&call(1, Step::Join)).outcome.is_ok());
    drain(&calls);
    assert_eq!(drivers.perform(&call(1, Step::Leave)).outcome, failure("b: the driver panicked"));
    assert_eq!(drain(&calls), ["c leave", "b leave", "a leave"]);
}

#[test]
fn properties_that_are_too_many_together_are_a_failure() {
    let names: Vec<String> = (0..120).map(|number| format!("p{number}")).collect();
    let (drivers, _) = recorders(|nth, recorder| {
        let half = names.iter().skip(40 * nth).take(40);
        let half = half.map(|name| (name.parse().unwrap(), String::new()));
        recorder.answer =
            Properties::try_from(half.collect::<std::collections::BTreeMap<_, _>>()).unwrap();
    });
    let error = drivers.perform(&call(1, Step::Join)).outcome.unwrap_err();
    assert_eq!(error.0, "all drivers together: 120 properties are more than the 64 allowed");
}

/// Opens a guest's drivers by name.
fn open(
    home: &Path,
    drivers: &[(&str, Value)],
) -> Result<Box<dyn GuestDriver>, (usize, DriverSettingsError)> {
    let mut settings: Vec<_> = drivers
        .iter()
        .map(|(_, value)| <dyn erased_serde::Deserializer<'_>>::erase(value))
        .collect();
    let named = drivers.iter().zip(&mut settings);
    guests(home, named.map(|((name, _), settings)| (*name, settings as _)).collect())
}

const LISTEN: &str = "echo $$ >pid.new; mv pid.new pid; while :; do sleep 3600; done";

fn start() -> (&'static str, Value) {
    ("start", json!({ "command": ["/bin/sh", "-c", LISTEN], "grace": 0 }))
}

/// A file with addresses: it cannot be joined by a unit that has none.
fn hosts() -> (&'static str, Value) {
    ("membership", json!({ "format": "hosts" }))
}

fn list() -> (&'static str, Value) {
    ("membership", json!({}))
}

fn at(unit: u32, pairs: &[(&'static str, &str)]) -> Call {
    Call { unit: UnitId(unit), properties: with(pairs), ..call(1, Step::Join) }
}

#[test]
fn two_drivers_together_keep_the_promises_of_a_driver() {
    let home = TempDir::new().unwrap();
    let durable = ("null", json!({ "durable": true }));
    let both = || open(home.path(), &[durable.clone(), list()]).unwrap();
    assert_eq!(conformance::guest(both, &call(1, Step::Join), 3), Ok(126));

    let home = TempDir::new().unwrap();
    let both = || open(home.path(), &[start(), list()]).unwrap();
    assert_eq!(conformance::guest(both, &call(1, Step::Join), 2), Ok(26));
    let driver = both();
    for unit in (1..=26).map(UnitId) {
        let leave = Call { unit, ..call(9, Step::Leave) };
        driver.perform(&leave).outcome.unwrap();
    }
}

#[test]
fn what_the_first_driver_did_is_undone_when_the_second_cannot() {
    let (at_site, home) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let site = site("process", at_site.path(), &json!({ "grace": 0 })).unwrap();
    let unit = site.perform(&call(1, Step::Setup)).outcome.unwrap();
    let without_name = with(&[]);
    let join = Call { properties: without_name, ..call(1, Step::Join) };

    let driver = open(home.path(), &[start(), hosts()]).unwrap();
    let refused = failure("membership: u1 has no usable `host.privipaddr`");
    assert_eq!(driver.perform(&join).outcome, refused);
    let program = written(&only_folder(&home.path().join("start")).join("pid")).parse().unwrap();
    assert!(runs(program) && program != pid(&unit));
    // The same call has the same answer, whichever driver answers it.
    drop(driver);
    let driver = open(home.path(), &[start(), hosts()]).unwrap();
    assert_eq!(driver.perform(&join).outcome, refused);
    assert!(runs(program));
    driver.perform(&call(1, Step::Leave)).outcome.unwrap();
    assert!(!runs(program));
    // In the next tenancy nothing is in the way.
    let join = Call { epoch: Epoch(3), properties: unit, ..join };
    driver.perform(&join).outcome.unwrap();
    driver.perform(&Call { step: Step::Leave, ..join }).outcome.unwrap();
    site.perform(&call(4, Step::Teardown)).outcome.unwrap();
}

#[test]
fn a_join_that_a_crash_cut_off_between_two_drivers_goes_on_with_the_second() {
    let home = TempDir::new().unwrap();
    let members = || fs::read_to_string(home.path().join("membership/members")).unwrap();
    // Up to where the process died: the first has joined, the second was never called.
    let first = super::guest("start", &home.path().join("start"), &start().1).unwrap();
    let program = first.perform(&at(1, &[])).outcome.unwrap();
    drop(first);
    let driver = open(home.path(), &[start(), list()]).unwrap();
    assert_eq!(members(), "");
    let joined = driver.perform(&at(1, &[])).outcome.unwrap();
    assert_eq!(pid(&joined), pid(&program), "not started a second time");
    assert!(members().contains("\"unit\":1"));
    // The same for a leave, which begins with the last.
    drop(driver);
    let last = super::guest("membership", &home.path().join("membership"), &json!({})).unwrap();
    last.perform(&call(1, Step::Leave)).outcome.unwrap();
    drop(last);
    let driver = open(home.path(), &[start(), list()]).unwrap();
    assert!(runs(pid(&program)));
    driver.perform(&call(1, Step::Leave)).outcome.unwrap();
    assert!(!runs(pid(&program)));
}

#[test]
fn two_drivers_of_one_name_have_a_folder_each_and_one_alone_has_all_of_it() {
    let home = TempDir::new().unwrap();
    let driver = open(home.path(), &[list(), hosts()]).unwrap();
    let unit = [("host.name", "cats01"), ("host.privipaddr", "172.16.64.1")];
    driver.perform(&at(1, &unit)).outcome.unwrap();
    let read = |path: &str| fs::read_to_string(home.path().join(path)).unwrap();
    assert!(read("membership/members").starts_with('{'));
    assert_eq!(read("membership-2/members"), "172.16.64.1 cats01\n");
    let error = driver.perform(&at(2, &[])).outcome.unwrap_err();
    assert!(error.0.starts_with("membership-2: u2 has no usable"), "{error}");

    let alone = TempDir::new().unwrap();
    open(alone.path(), &[list()]).unwrap().perform(&at(1, &[])).outcome.unwrap();
    assert!(alone.path().join("members").is_file() && alone.path().join("units").is_dir());
}

#[test]
fn a_driver_is_not_taken_off_the_list_while_units_are_joined() {
    let home = TempDir::new().unwrap();
    let unlisted = |drivers: &[(&str, Value)]| match open(home.path(), drivers) {
        Err((0, error @ DriverSettingsError::Unlisted { .. })) => error.to_string(),
        Err((_, error)) => panic!("{error}"),
        Ok(_) => "none".to_owned(),
    };
    // One alone, then two; two, then one of them.
    let mut epoch = 1;
    for (before, after, folder) in [
        (vec![list()], vec![list(), hosts()], home.path().to_owned()),
        (vec![list(), start()], vec![list()], home.path().join("membership")),
        (vec![start(), list(), list()], vec![start(), list()], home.path().join("membership-2")),
    ] {
        let join = Call { epoch: Epoch(epoch), ..at(1, &[]) };
        let driver = open(home.path(), &before).unwrap();
        driver.perform(&join).outcome.unwrap();
        drop(driver);
        let error = unlisted(&after);
        let expected = format!("{}: a driver that is no longer listed", folder.display());
        assert!(error.starts_with(&expected) && error.contains("not left them (1)"), "{error}");
        let driver = open(home.path(), &before).unwrap();
        driver.perform(&Call { step: Step::Leave, ..join }).outcome.unwrap();
        drop(driver);
        assert_eq!(unlisted(&after), "none");
        epoch += 2;
    }
}

#[test]
fn whose_settings_are_wrong_is_recognised_by_its_number() {
    let home = TempDir::new().unwrap();
    let wrong = |drivers: &[(&str, Value)]| match open(home.path(), drivers) {
        Err((nth, error)) => (nth, error.to_string()),
        Ok(_) => panic!("these can be opened"),
    };
    let (nth, error) = wrong(&[list(), ("sge", json!({}))]);
    assert_eq!((nth, error.starts_with("there is no guest driver `sge`")), (1, true), "{error}");
    let (nth, error) = wrong(&[list(), list(), ("null", json!({ "jion": 1 }))]);
    assert_eq!(
        (nth, error.starts_with("driver `null`: unknown field `jion`")),
        (2, true),
        "{error}"
    );
}
