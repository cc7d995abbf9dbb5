//! Logs of demand: each file is read once, whatever the number of runs.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tenure_core::name::Name;
use tenure_core::time::Span;
use tenure_sim::scenario::{LogFile, Point, Scenario, Workload};
use tenure_sim::workload::{Kind, Log, demand};

use crate::error::Error;

/// What tells one parsed log from another.
type Key = (String, Kind, Option<String>);

/// The logs of all points of a sweep.
pub(crate) struct Logs(BTreeMap<Key, Arc<Log>>);

fn key(log: &LogFile) -> Key {
    (log.file.clone(), log.kind, log.column.clone())
}

fn log_files(scenario: &Scenario) -> impl Iterator<Item = &LogFile> {
    scenario.service_managers.values().filter_map(|manager| match &manager.workload {
        Workload::Log(log) => Some(log),
        Workload::Wave(_) => None,
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
                std::collections::btree_map::Entry::Occupied(read) => read.into_mut(),
                std::collections::btree_map::Entry::Vacant(unread) => {
                    unread.insert(fs::read(&path).map_err(|source| {
                        let help = "`--workload FILE` or `workload.file` names the log; a relative \
                                    path starts at the current folder or at the scenario";
                        Error::reading(&path, source, help)
                    })?)
                }
            };
            let parsed = Log::parse(&log.file, bytes, log.kind, log.column.as_deref())?;
            logs.insert(key(log), Arc::new(parsed));
        }
        Ok(Self(logs))
    }

    /// What of the logs cannot be used, or does not reach to the end of the emulation.
    pub(crate) fn warnings(&self, points: &[Point]) -> Vec<String> {
        let mut warnings = Vec::new();
        for ((file, ..), log) in &self.0 {
            let damaged = &log.summary().damaged;
            if let Some(first) = damaged.examples.first() {
                let count = damaged.count;
                warnings
                    .push(format!("the log {file} has {count} damaged lines ({first}), left out"));
            }
        }
        for Point { scenario, .. } in points {
            for log in log_files(scenario) {
                let left = self.0[&key(log)].horizon_from(log.offset, scenario.step);
                if left < scenario.horizon {
                    let (file, horizon) = (&log.file, scenario.horizon);
                    warnings.push(format!(
                        "the log {file} ends {left} after its offset of {}, before the horizon of \
                         {horizon}",
                        log.offset
                    ));
                }
            }
        }
        warnings.sort();
        warnings.dedup();
        warnings
    }

    /// The demand of every service manager, one value a step; the peak of each asks for all units.
    pub(crate) fn demand(&self, scenario: &Scenario) -> Result<BTreeMap<Name, Vec<u32>>, Error> {
        let Scenario { seed, step, horizon, capacity, .. } = *scenario;
        let mut demands = BTreeMap::new();
        for (name, manager) in &scenario.service_managers {
            let signal = match &manager.workload {
                Workload::Wave(wave) => wave.signal(seed, step, horizon),
                Workload::Log(log) => self.signal(log, step, horizon)?,
            };
            demands.insert(name.clone(), demand(&signal, capacity));
        }
        Ok(demands)
    }

    fn signal(&self, log: &LogFile, step: Span, horizon: Span) -> Result<Vec<f64>, Error> {
        let parsed = &self.0[&key(log)];
        let signal = parsed.signal(log.offset, step, horizon);
        if signal.iter().all(|value| *value <= 0.0) {
            return Err(Error::NoDemand {
                file: log.file.clone(),
                horizon: horizon.to_string(),
                offset: log.offset.as_micros() / Span::SECOND.as_micros(),
                last: parsed.summary().last.to_string(),
            });
        }
        Ok(signal)
    }
}

fn locate(file: &str, beside: &Path) -> PathBuf {
    let (path, other) = (PathBuf::from(file), beside.join(file));
    if !path.exists() && other.exists() { other } else { path }
}
