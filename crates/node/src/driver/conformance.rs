//! Whether a driver keeps its promises: for those who write one.
//!
//! The driver is given every short sequence of events: its steps in every order, in epochs that rise and
//! fall, each once or again, with the driver dropped and reopened between them. Each story has a unit of its
//! own.
//!
//! A driver must be opened on the same folder each time, and must be able to do what it is asked: a story
//! expects the first call of an epoch to succeed.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use tenure_core::driver::{
    Answer, Call, DriverError, Epoch, Finding, GuestDriver, Report, ReportReceiver, ResourceDriver,
    Step, UnitId,
};
use tenure_core::model::property::Properties;
use thiserror::Error;

/// A promise that a driver did not keep.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{promise}; the story was: {story}")]
pub struct Broken {
    /// What should have been.
    pub promise: String,
    /// What had been done, the last of it being where the promise was broken.
    pub story: String,
}

/// What happens in a story.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Event {
    Call(u64, Step),
    Reopen,
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Call(epoch, step) => write!(f, "{} in epoch {epoch}", step.word()),
            Self::Reopen => f.write_str("dropped and reopened"),
        }
    }
}

/// A driver of either side.
enum Either {
    Site(Box<dyn ResourceDriver>),
    Guest(Box<dyn GuestDriver>),
}

impl Either {
    fn perform(&self, call: &Call) -> Answer {
        match self {
            Self::Site(driver) => driver.perform(call),
            Self::Guest(driver) => driver.perform(call),
        }
    }

    fn probe(&self, call: &Call) -> Result<Properties, DriverError> {
        match self {
            Self::Site(driver) => driver.probe(call.site, call.unit),
            Self::Guest(driver) => driver.probe(call.site, call.unit),
        }
    }
}

/// Runs all sequences of up to `length` events against a site's driver; returns their number.
///
/// `sample` is a setup that the driver can do; its unit is the first of many that are used.
///
/// # Errors
/// The first promise that was not kept.
pub fn site(
    open: impl Fn() -> Box<dyn ResourceDriver>,
    sample: &Call,
    length: usize,
) -> Result<usize, Broken> {
    let alphabet = [
        Event::Call(1, Step::Setup),
        Event::Call(2, Step::Teardown),
        Event::Call(3, Step::Setup),
        Event::Call(4, Step::Teardown),
        Event::Reopen,
    ];
    run_all(&|| Either::Site(open()), sample, &alphabet, length)
}

/// Runs all sequences of up to `length` events against a guest's driver, with concurrent join and leave.
///
/// `sample` is a join that the driver can do; its unit is the first of many that are used.
///
/// # Errors
/// The first promise that was not kept.
pub fn guest(
    open: impl Fn() -> Box<dyn GuestDriver>,
    sample: &Call,
    length: usize,
) -> Result<usize, Broken> {
    let alphabet = [
        Event::Call(1, Step::Join),
        Event::Call(1, Step::Leave),
        Event::Call(3, Step::Join),
        Event::Call(3, Step::Leave),
        Event::Reopen,
    ];
    let checked = run_all(&|| Either::Guest(open()), sample, &alphabet, length)?;
    leave_during_join(&*open(), &on_unit(sample, checked))?;
    Ok(checked + 1)
}

/// Takes a driver's reports for a test.
#[derive(Default)]
struct Received(Mutex<Vec<Report>>, Condvar);

impl ReportReceiver for Received {
    fn report(&self, report: Report) {
        self.all().push(report);
        self.1.notify_all();
    }
}

impl Received {
    /// Of all that a driver reports from now on.
    fn of(driver: &dyn ResourceDriver) -> Arc<Self> {
        let received = Arc::new(Self::default());
        driver.report_to(Arc::clone(&received) as Arc<dyn ReportReceiver>);
        received
    }

    fn all(&self) -> MutexGuard<'_, Vec<Report>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until it is reported that the unit has failed in this epoch; nothing of another may come.
    fn failure(&self, call: &Call, within: Duration) -> Result<DriverError, String> {
        let deadline = Instant::now() + within;
        let mut all = self.all();
        loop {
            let is_ours = |report: &&Report| report.unit == call.unit && report.epoch == call.epoch;
            if let Some(other) = all.iter().find(|report| !is_ours(report)) {
                return Err(format!("only what failed in this tenancy is reported, not {other:?}"));
            }
            let found = all.iter().find_map(|report| match &report.finding {
                Finding::Failed(error) => Some(error.clone()),
                Finding::Up | Finding::Down(_) => None,
            });
            let left = deadline.saturating_duration_since(Instant::now());
            match found {
                Some(error) => return Ok(error),
                None if left.is_zero() => return Err("a unit that fails is reported".to_owned()),
                None => {}
            }
            all = self.1.wait_timeout(all, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

/// Checks that a site's driver reports by itself when a unit fails: in the epoch in which it was set up, also
/// to a receiver that comes later, and not to one that comes when the tenancy is over.
///
/// `fail` makes a unit fail that was set up by this call and has these properties; the report has to come
/// `within` this time.
///
/// # Errors
/// The first promise that was not kept.
pub fn reports(
    driver: &dyn ResourceDriver,
    sample: &Call,
    within: Duration,
    fail: impl Fn(&Call, &Properties),
) -> Result<(), Broken> {
    for epoch in [1, 3] {
        let setup = Call { epoch: Epoch(epoch), step: Step::Setup, ..sample.clone() };
        let story = format!("set up in epoch {epoch}, then made to fail, then torn down");
        let kept = failing_tenancy(driver, &setup, within, &fail);
        kept.map_err(|promise| Broken { promise, story })?;
    }
    Ok(())
}

fn failing_tenancy(
    driver: &dyn ResourceDriver,
    setup: &Call,
    within: Duration,
    fail: &impl Fn(&Call, &Properties),
) -> Result<(), String> {
    let received = Received::of(driver);
    let properties = driver.perform(setup).outcome.map_err(|error| error.0)?;
    fail(setup, &properties);
    let error = received.failure(setup, within)?;
    if Received::of(driver).failure(setup, Duration::ZERO)? != error {
        return Err("a failure is reported again to another receiver".to_owned());
    }
    let teardown = Call { epoch: setup.epoch.next(), step: Step::Teardown, ..setup.clone() };
    driver.perform(&teardown).outcome.map_err(|error| error.0)?;
    match Received::of(driver).all().first() {
        Some(report) => Err(format!("nothing is reported of what is over, not {report:?}")),
        None => Ok(()),
    }
}

fn on_unit(sample: &Call, number: usize) -> Call {
    let number = u32::try_from(number).unwrap_or(u32::MAX);
    Call { unit: UnitId(sample.unit.0.saturating_add(number)), ..sample.clone() }
}

fn run_all(
    open: &dyn Fn() -> Either,
    sample: &Call,
    alphabet: &[Event],
    length: usize,
) -> Result<usize, Broken> {
    let mut driver = open();
    let mut checked = 0;
    let mut stories: Vec<Vec<Event>> = vec![Vec::new()];
    for _ in 0..length {
        let longer = |story: &Vec<Event>| {
            let story = story.clone();
            alphabet.iter().map(move |event| [story.as_slice(), &[*event]].concat())
        };
        stories = stories.iter().flat_map(longer).collect();
    }
    for story in &stories {
        driver = run_story(driver, open, &on_unit(sample, checked), story)?;
        checked += 1;
    }
    Ok(checked)
}

/// What a driver has answered for one unit so far.
#[derive(Default)]
struct Past {
    highest: Option<(u64, Step)>,
    answers: BTreeMap<(u64, Step), Result<Properties, DriverError>>,
}

fn run_story(
    mut driver: Either,
    open: &dyn Fn() -> Either,
    sample: &Call,
    story: &[Event],
) -> Result<Either, Broken> {
    let mut past = Past::default();
    for (place, event) in story.iter().enumerate() {
        match *event {
            Event::Reopen => {
                drop(driver);
                driver = open();
            }
            Event::Call(epoch, step) => {
                let call = Call { epoch: Epoch(epoch), step, ..sample.clone() };
                past.check(&driver, &call).map_err(|promise| {
                    let steps: Vec<String> = story[..=place].iter().map(Event::to_string).collect();
                    Broken { promise, story: steps.join(", then ") }
                })?;
            }
        }
    }
    Ok(driver)
}

impl Past {
    fn check(&mut self, driver: &Either, call: &Call) -> Result<(), String> {
        let name = (call.epoch.0, call.step);
        let before = driver.probe(call);
        let outcome = driver.perform(call).outcome;
        if let Some(first) = self.answers.get(&name).filter(|_| self.is_present(call)) {
            if *first != outcome {
                return Err(format!("the same call has the same answer, not {outcome:?}"));
            }
        } else if self.highest.is_some_and(|highest| name < highest) {
            if outcome.is_ok() {
                return Err("a call below the highest seen is refused".to_owned());
            }
        } else {
            if let Err(error) = &outcome {
                return Err(format!("a call that is due succeeds, not: {error}"));
            }
            self.highest = Some(name);
            self.answers.insert(name, outcome);
            if matches!(call.step, Step::Setup | Step::Join)
                && let Err(error) = driver.probe(call)
            {
                return Err(format!("what was set up can be probed, not: {error}"));
            }
            return Ok(());
        }
        let after = driver.probe(call);
        if before != after {
            return Err(format!("a superseded call changes nothing, not {before:?} to {after:?}"));
        }
        Ok(())
    }

    fn is_present(&self, call: &Call) -> bool {
        self.highest.is_some_and(|(epoch, _)| epoch == call.epoch.0)
    }
}

fn leave_during_join(driver: &dyn GuestDriver, sample: &Call) -> Result<(), Broken> {
    let join = Call { epoch: Epoch(1), step: Step::Join, ..sample.clone() };
    let leave = Call { step: Step::Leave, ..join.clone() };
    let left = thread::scope(|scope| {
        scope.spawn(|| driver.perform(&join));
        driver.perform(&leave).outcome
    });
    let broken = |promise: String| Broken { promise, story: "leave while join is at work".into() };
    left.clone().map_err(|error| broken(format!("leave ends join, not: {error}")))?;
    let again = driver.perform(&leave).outcome;
    if again != left {
        return Err(broken(format!("the same call has the same answer, not {again:?}")));
    }
    Ok(())
}
