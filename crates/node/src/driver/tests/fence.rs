use std::fs;
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;

use tempfile::TempDir;
use tenure_core::driver::{Call, DriverError, Epoch, Step};
use tenure_core::model::property::Properties;
use tenure_wait::{DEADLINE, eventually, receive};

use super::super::fence::{DriverSteps, Fence, Work, hold};
use super::super::record::{Key, Record};
use super::call;

/// Records its steps, and performs each on command.
struct ScriptedSteps {
    log: Mutex<Vec<String>>,
    begun: Sender<String>,
    go: Mutex<Receiver<Result<Properties, DriverError>>>,
}

/// The other end: receives the steps that were begun, and completes them.
struct Controller {
    begun: Receiver<String>,
    go: Sender<Result<Properties, DriverError>>,
}

fn scripted() -> (ScriptedSteps, Controller) {
    let (begun, receiver) = channel();
    let (go, going) = channel();
    let scripted = ScriptedSteps { log: Mutex::default(), begun, go: Mutex::new(going) };
    (scripted, Controller { begun: receiver, go })
}

impl Controller {
    /// Waits until something is begun, and says what.
    fn hears(&self) -> String {
        receive(DEADLINE, "the begin of a step", &self.begun)
    }

    fn ends(&self, outcome: Result<Properties, DriverError>) {
        self.go.send(outcome).unwrap();
    }
}

impl ScriptedSteps {
    fn log(&self) -> Vec<String> {
        hold(&self.log).clone()
    }
}

impl DriverSteps for ScriptedSteps {
    fn perform(&self, work: &Work<'_>) -> Result<Properties, DriverError> {
        let again = if work.interrupted { " again" } else { "" };
        let name = format!("{} e{}{again}", work.call.step.word(), work.call.epoch.0);
        hold(&self.log).push(format!("{name} begins"));
        self.begun.send(name.clone()).unwrap();
        let outcome = receive(DEADLINE, "the end of a step", &hold(&self.go));
        let stopped = if work.stop.is_asked() { ", asked to stop" } else { "" };
        hold(&self.log).push(format!("{name} ends{stopped}"));
        outcome
    }

    fn probe(&self, _: Key, _: Option<&Record>) -> Result<Properties, DriverError> {
        Ok(Properties::default())
    }
}

fn done() -> Result<Properties, DriverError> {
    Ok(Properties::default())
}

fn failed(why: &str) -> Result<Properties, DriverError> {
    Err(DriverError(why.to_owned()))
}

fn fence(home: &TempDir) -> Fence {
    Fence::open(home.path()).unwrap()
}

/// A call that ends as soon as it is begun, whatever it does.
fn at_once(
    fence: &Fence,
    call: &Call,
    outcome: Result<Properties, DriverError>,
) -> (Result<Properties, DriverError>, Vec<String>) {
    let (scripted, controller) = scripted();
    controller.ends(outcome);
    (fence.perform(&scripted, call), scripted.log())
}

#[test]
fn a_late_teardown_does_not_touch_the_successor() {
    let home = TempDir::new().unwrap();
    let fence = fence(&home);
    assert_eq!(at_once(&fence, &call(3, Step::Setup), done()).0, done());
    let late = call(2, Step::Teardown);
    let refused = failed("epoch 2 of u1 has ended: epoch 3 has begun");
    assert_eq!(at_once(&fence, &late, done()), (refused.clone(), Vec::new()));
    drop(fence);
    let reopened = Fence::open(home.path()).unwrap();
    assert_eq!(at_once(&reopened, &late, done()), (refused, Vec::new()));
}

#[test]
fn a_setup_begins_only_when_a_slower_teardown_has_ended() {
    let home = TempDir::new().unwrap();
    let fence = fence(&home);
    let (scripted, controller) = scripted();
    thread::scope(|scope| {
        let late = scope.spawn(|| fence.perform(&scripted, &call(2, Step::Teardown)));
        assert_eq!(controller.hears(), "teardown e2");
        let next = scope.spawn(|| fence.perform(&scripted, &call(3, Step::Setup)));
        // The fence is up as soon as the file says so: the setup is waiting from then on.
        let key = Key::of(&call(3, Step::Setup));
        eventually(DEADLINE, "a setup that waits", || {
            fence.record(key).unwrap().unwrap().epoch == Epoch(3)
        });
        controller.ends(failed("stopped halfway"));
        assert_eq!(controller.hears(), "setup e3");
        controller.ends(done());
        assert_eq!(late.join().unwrap(), failed("stopped halfway"));
        assert_eq!(next.join().unwrap(), done());
    });
    let order = [
        "teardown e2 begins",
        "teardown e2 ends, asked to stop",
        "setup e3 begins",
        "setup e3 ends",
    ];
    assert_eq!(scripted.log(), order);
    assert_eq!(at_once(&fence, &call(3, Step::Setup), failed("never asked")).0, done());
}

#[test]
fn a_leave_ends_a_join_that_is_at_work() {
    let home = TempDir::new().unwrap();
    let fence = fence(&home);
    let (scripted, controller) = scripted();
    thread::scope(|scope| {
        let join = scope.spawn(|| fence.perform(&scripted, &call(1, Step::Join)));
        assert_eq!(controller.hears(), "join e1");
        let leave = scope.spawn(|| fence.perform(&scripted, &call(1, Step::Leave)));
        let key = Key::of(&call(1, Step::Leave));
        eventually(DEADLINE, "a leave that waits", || {
            fence.record(key).unwrap().unwrap().steps.contains_key(&Step::Leave)
        });
        controller.ends(failed("left"));
        assert_eq!(controller.hears(), "leave e1");
        controller.ends(done());
        assert_eq!(join.join().unwrap(), failed("left"));
        assert_eq!(leave.join().unwrap(), done());
    });
    assert_eq!(scripted.log()[1], "join e1 ends, asked to stop");
}

#[test]
fn the_same_call_twice_at_a_time_is_done_once() {
    let home = TempDir::new().unwrap();
    let fence = fence(&home);
    let (scripted, controller) = scripted();
    thread::scope(|scope| {
        let calls = [0, 1].map(|_| scope.spawn(|| fence.perform(&scripted, &call(1, Step::Setup))));
        assert_eq!(controller.hears(), "setup e1");
        controller.ends(failed("no room"));
        for call in calls {
            assert_eq!(call.join().unwrap(), failed("no room"));
        }
    });
    assert_eq!(scripted.log().len(), 2);
}

#[test]
fn a_step_that_was_cut_off_is_done_again_and_marked() {
    for step in [Step::Setup, Step::Teardown] {
        let home = TempDir::new().unwrap();
        let first = Arc::new(fence(&home));
        let (scripted, controller) = scripted();
        drop(controller);
        // No one ends it, so it panics: as far as the file is concerned, a crash.
        let crashed = Arc::clone(&first);
        let result = thread::spawn(move || crashed.perform(&scripted, &call(1, step))).join();
        assert!(result.is_err());

        let again = format!("{} e1 again", step.word());
        let log = vec![format!("{again} begins"), format!("{again} ends")];
        let in_the_same_process = at_once(&first, &call(1, step), failed("still halfway"));
        assert_eq!(in_the_same_process, (failed("still halfway"), log));
        let settled = at_once(&first, &call(1, step), done());
        assert_eq!(settled, (failed("still halfway"), Vec::new()));
    }
}

#[test]
fn a_step_that_was_cut_off_is_known_after_a_restart() {
    let home = TempDir::new().unwrap();
    let first = fence(&home);
    let (scripted, controller) = scripted();
    drop(controller);
    let crashed = thread::spawn(move || first.perform(&scripted, &call(1, Step::Setup))).join();
    assert!(crashed.is_err());
    let second = fence(&home);
    let (outcome, log) = at_once(&second, &call(1, Step::Setup), done());
    assert_eq!((outcome, log[0].as_str()), (done(), "setup e1 again begins"));
}

#[test]
fn what_cannot_be_written_down_is_not_begun() {
    let home = TempDir::new().unwrap();
    let fence = fence(&home);
    let units = home.path().join("units");
    fs::remove_dir(&units).unwrap();
    let (outcome, log) = at_once(&fence, &call(1, Step::Setup), done());
    assert!(outcome.is_err());
    assert_eq!(log, Vec::<String>::new());
    fs::create_dir(&units).unwrap();
    let (outcome, log) = at_once(&fence, &call(1, Step::Setup), done());
    assert_eq!((outcome, log[0].as_str()), (done(), "setup e1 begins"));
}

#[test]
fn a_file_that_cannot_be_read_stops_the_unit_and_no_other() {
    let home = TempDir::new().unwrap();
    let other = Call { unit: tenure_core::driver::UnitId(2), ..call(1, Step::Setup) };
    at_once(&fence(&home), &call(1, Step::Setup), done()).0.unwrap();
    let file = fs::read_dir(home.path().join("units")).unwrap().next().unwrap().unwrap().path();
    fs::write(&file, "{").unwrap();
    let fence = fence(&home);
    let error = at_once(&fence, &call(2, Step::Teardown), done()).0.unwrap_err();
    assert!(error.0.starts_with(&file.display().to_string()), "{error}");
    assert_eq!(at_once(&fence, &other, done()).0, done());
}

#[test]
fn a_folder_has_one_driver_at_a_time() {
    let home = TempDir::new().unwrap();
    let first = fence(&home);
    let error = Fence::open(home.path()).unwrap_err().to_string();
    let us = std::process::id();
    assert_eq!(
        error,
        format!("{} is in use: this process ({us}) runs this driver", home.path().display())
    );
    drop(first);
    fence(&home);
}

#[test]
fn a_file_half_written_by_a_crash_is_not_taken_for_one() {
    let home = TempDir::new().unwrap();
    at_once(&fence(&home), &call(3, Step::Setup), done()).0.unwrap();
    let units = home.path().join("units");
    let file = fs::read_dir(&units).unwrap().next().unwrap().unwrap().path();
    fs::write(file.with_extension("new"), "{\"key\":").unwrap();
    let fence = fence(&home);
    assert_eq!(fence.records().unwrap().len(), 1);
    assert_eq!(at_once(&fence, &call(3, Step::Setup), failed("never asked")).0, done());
    assert!(Path::new(&units).is_dir());
}
