//! The runs of a sweep, on several threads, and what came out of each.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Instant;

use serde::ser::{Serialize, SerializeMap as _, Serializer};
use tenure_core::model::time::{Span, Time};
use tenure_sim::emulation::{Emulation, Inputs, Kept, Progress as Reached};
use tenure_sim::participants::Plugins;
use tenure_sim::report::{Report, RunVerdict, Series};
use tenure_sim::scenario::{Point, Scenario};

use crate::demand::Logs;
use crate::error::Error;
use crate::keep::Journals;
use crate::planning::{PlanningTime, Stopwatch};
use crate::progress::Progress;

/// What came out of one run; serialised, it is the JSON form with stable keys.
#[derive(serde::Serialize)]
pub(crate) struct Run {
    pub(crate) swept: Swept,
    pub(crate) seed: u64,
    #[serde(flatten)]
    pub(crate) report: Report,
    /// How long planning took, if experiments were asked for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) planning: Vec<PlanningTime>,
    pub(crate) wall_s: f64,
    pub(crate) overhead_ms_per_tick: f64,
    #[serde(skip)]
    pub(crate) series: Vec<Series>,
}

impl Run {
    /// Why the run did not complete, if it did not.
    pub(crate) fn failure(&self) -> Option<String> {
        let Report { verdict, problems, .. } = &self.report;
        match problems.first() {
            _ if *verdict == RunVerdict::Complete => None,
            Some(problem) => Some(format!("{}: {problem}", verdict.word())),
            None => Some(verdict.word().to_owned()),
        }
    }
}

/// The swept keys with their values, in the order of the sweep.
#[derive(Clone)]
pub(crate) struct Swept(pub(crate) Vec<(String, String)>);

impl fmt::Display for Swept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let pairs: Vec<String> =
            self.0.iter().map(|(key, value)| format!("{key}={value}")).collect();
        f.write_str(&pairs.join(" "))
    }
}

impl Serialize for Swept {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (key, value) in &self.0 {
            map.serialize_entry(key, value)?;
        }
        map.end()
    }
}

/// Runs every point, at most `threads` at the same time; the results are in the order of the points. The
/// journals are kept in the folder `journals`, for several points in one folder each.
pub(crate) fn run_all(
    points: &[Point],
    logs: &Logs,
    threads: usize,
    journals: Option<&Path>,
    terminal: bool,
) -> Result<Vec<Run>, Error> {
    let seconds = points.iter().map(|point| seconds(&point.scenario)).sum();
    let progress = Progress::new(seconds, terminal);
    let next = AtomicUsize::new(0);
    let results: Vec<Mutex<Option<Result<Run, Error>>>> =
        points.iter().map(|_| Mutex::new(None)).collect();
    let work = || {
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(point) = points.get(index) else { return };
            let folder = journals.map(|folder| match points {
                [_] => folder.to_owned(),
                _ => folder.join(format!("run-{}", index + 1)),
            });
            let result = run(point, logs, folder, &progress);
            *results[index].lock().unwrap_or_else(PoisonError::into_inner) = Some(result);
        }
    };
    thread::scope(|scope| {
        for _ in 1..threads.min(points.len()) {
            scope.spawn(work);
        }
        work();
    });
    progress.clear();
    let done = results.into_iter();
    done.filter_map(|result| result.into_inner().unwrap_or_else(PoisonError::into_inner)).collect()
}

fn run(
    point: &Point,
    logs: &Logs,
    folder: Option<PathBuf>,
    progress: &Progress,
) -> Result<Run, Error> {
    let Point { swept, scenario, text } = point;
    let swept = Swept(swept.clone());
    let watch = Stopwatch::default();
    let plugins = Plugins { around_brokers: Some(watch.around()), ..Plugins::default() };
    let inputs = Inputs { demand: logs.demand(scenario), plugins };
    let mut progress = progress.of_run(seconds(scenario));
    tracing::info!(run = %swept, horizon = %scenario.horizon, "starts");
    let start = Instant::now();
    let mut journals = folder.map(|folder| Journals::in_folder(folder, text)).transpose()?;
    let keep = |kept: Kept<'_>| journals.as_mut().map_or(Ok(()), |journals| journals.keep(&kept));
    let mut emulation = Emulation::kept_by(Box::new(keep), scenario, &inputs)
        .map_err(|source| Error::Emulation { swept: swept.to_string(), source })?;
    let failure = loop {
        match emulation.step() {
            Ok(Reached::At(now)) => progress.reached(now),
            Ok(Reached::Done) => {
                progress.reached(Time::MAX);
                break None;
            }
            Err(error) => break Some(error.to_string()),
        }
    };
    let wall_s = start.elapsed().as_secs_f64();
    let mut report = emulation.report();
    if let Some(failure) = failure {
        report.verdict = RunVerdict::Failed;
        report.problems.insert(0, failure);
    }
    let (verdict, facts) = (report.verdict.word(), report.facts);
    tracing::info!(run = %swept, verdict, facts, wall_s, "ends");
    let series = emulation.series();
    drop(emulation);
    journals.map_or(Ok(()), Journals::close)?;
    for note in &report.notes {
        tracing::debug!(run = %swept, note, "an actor refused an input");
    }
    Ok(Run {
        swept,
        seed: scenario.seed,
        report,
        planning: watch.times(),
        wall_s,
        overhead_ms_per_tick: overhead(wall_s, scenario.horizon),
        series,
    })
}

fn seconds(scenario: &Scenario) -> u64 {
    scenario.horizon.as_secs_f64() as u64
}

/// Milliseconds of wall time for each second of virtual time.
fn overhead(wall_s: f64, horizon: Span) -> f64 {
    wall_s * 1000.0 / horizon.as_secs_f64()
}
