//! Logs of demand: each file is read once, whatever the number of runs.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use tenure_core::model::name::Name;
use tenure_sim::scenario::{LeftOut, LogFile, Point, Scenario, Workload};
use tenure_sim::workload::{Kind, Log, demand};

use crate::error::Error;

/// Identifies a parsed log.
type Key = (String, Kind, Option<String>);

/// The logs of all points of a sweep.
pub(crate) struct Logs(BTreeMap<Key, Log>);

fn key(log: &LogFile) -> Key {
    (log.file.clone(), log.kind, log.column.clone())
}

fn log_files(scenario: &Scenario) -> impl Iterator<Item = &LogFile> {
    scenario.service_managers.values().filter_map(|manager| match &manager.workload {
        Workload::Log(log) => Some(log),
        Workload::Wave(_) | Workload::CoAllocation(_) | Workload::Requests(_) => None,
    })
}

impl Logs {
    /// Reads every log that `points` name, relative to the current folder, or else to `beside`.
    pub(crate) fn read(points: &[Point], beside: &Path) -> Result<Self, Error> {
        let mut contents: BTreeMap<PathBuf, Vec<u8>> = BTreeMap::new();
        let mut logs = BTreeMap::new();
        for log in points.iter().flat_map(|point| log_files(&point.scenario)) {
            if logs.contains_key(&key(log)) {
                continue;
            }
            let path = locate(&log.file, beside);
            let bytes = match contents.entry(path.clone()) {
                Entry::Occupied(read) => read.into_mut(),
                Entry::Vacant(unread) => unread.insert(fs::read(&path).map_err(|source| {
                    let help = "`--workload FILE` or `workload.file` names the log; a relative \
                                    path starts at the current folder or at the scenario";
                    Error::reading(&path, source, help)
                })?),
            };
            tracing::info!(file = %path.display(), bytes = bytes.len(), "read a log of demand");
            let parsed = Log::parse(&log.file, bytes, log.kind, log.column.as_deref())?;
            logs.insert(key(log), parsed);
        }
        Ok(Self(logs))
    }

    /// What of the logs is left out, or does not reach to the end of the emulation.
    ///
    /// # Errors
    /// When a log ends before the emulation begins.
    pub(crate) fn warnings(&self, points: &[Point]) -> Result<BTreeSet<String>, Error> {
        let mut warnings = BTreeSet::new();
        for ((file, ..), log) in &self.0 {
            let damaged = &log.summary().damaged;
            if let Some(first) = damaged.examples.first() {
                let count = damaged.count;
                warnings.insert(format!(
                    "the log {file} has {count} damaged lines ({first}), which do not count"
                ));
            }
        }
        for Point { scenario, .. } in points {
            for log_file in log_files(scenario) {
                let (LogFile { file, offset, .. }, log) = (log_file, &self.0[&key(log_file)]);
                let left = log.horizon_from(*offset, scenario.step);
                if !left.is_positive() {
                    let (file, last) = (file.clone(), log.summary().last);
                    return Err(Error::PastEnd { file, last, offset: *offset });
                }
                if left < scenario.horizon {
                    warnings.insert(format!(
                        "the log {file} ends {left} after its offset of {offset}, before the \
                         horizon of {}",
                        scenario.horizon
                    ));
                }
            }
        }
        Ok(warnings)
    }

    /// Gives the jobs of the logs to the mappers that submit them. Answers what is to be said of those that
    /// are left out.
    pub(crate) fn assign_jobs(&self, points: &mut [Point]) -> BTreeSet<String> {
        let mut warnings = BTreeSet::new();
        for Point { scenario, .. } in points {
            let most = scenario.most_units();
            let horizon = scenario.horizon;
            for (name, manager) in &mut scenario.service_managers {
                let Some(log) = manager.submits().cloned() else { continue };
                let jobs = self.0[&key(&log)].jobs(log.offset, horizon);
                let LeftOut { wide, short, shortest } = manager.submit(&jobs, most[name]);
                let (file, most) = (&log.file, most[name]);
                if wide > 0 {
                    warnings.insert(format!(
                        "{wide} jobs of the log {file} are left out: they are wider than {most} units"
                    ));
                }
                if short > 0 {
                    warnings.insert(format!(
                        "{short} jobs of the log {file} are left out: they run for less than {shortest}"
                    ));
                }
            }
        }
        warnings
    }

    /// The demand of every service manager, one value a step. Waves differ by the managers' places. Who
    /// submits jobs or experiments has none.
    pub(crate) fn demand(&self, scenario: &Scenario) -> BTreeMap<Name, Vec<u32>> {
        let Scenario { seed, step, horizon, .. } = *scenario;
        let managers = (0..).zip(&scenario.service_managers);
        let managers = managers.filter(|(_, (_, manager))| manager.follows_demand());
        let demands = managers.filter_map(|(place, (name, manager))| {
            let signal = match &manager.workload {
                Workload::Wave(wave) => wave.signal(seed.wrapping_add(place), step, horizon),
                Workload::Log(log) => self.0[&key(log)].signal(log.offset, step, horizon),
                Workload::CoAllocation(_) | Workload::Requests(_) => return None,
            };
            Some((name.clone(), demand(&signal, manager.peak)))
        });
        demands.collect()
    }
}

/// Reads files that a scenario in `beside` names.
pub(crate) fn reader(beside: &Path) -> impl Fn(&str) -> Result<String, String> {
    move |file| fs::read_to_string(locate(file, beside)).map_err(|error| error.to_string())
}

/// Where a file is that a scenario in `beside` names.
fn locate(file: &str, beside: &Path) -> PathBuf {
    let (path, other) = (PathBuf::from(file), beside.join(file));
    if !path.exists() && other.exists() { other } else { path }
}
