//! What became of experiments, for each setting: the runs that differ in their seed alone, taken together.

use std::collections::{BTreeMap, BTreeSet};

use tenure_sim::plot;
use tenure_sim::report::{AtLoad, ExperimentReport};

use crate::planning::PlanningTime;
use crate::run::Run;

/// The loads at which the table shows success, in percent.
const LOADS: [u32; 3] = [50, 80, 100];

/// The runs of one setting.
pub(crate) struct Setting<'a> {
    /// The swept keys but the seed.
    pub(crate) swept: Vec<(String, String)>,
    runs: Vec<(&'a Run, &'a ExperimentReport)>,
}

/// The settings in the order of their first runs.
pub(crate) fn settings(runs: &[Run]) -> Vec<Setting<'_>> {
    let mut settings: Vec<Setting<'_>> = Vec::new();
    for run in runs {
        let Some(report) = &run.report.experiments else { continue };
        let swept: Vec<_> = run.swept.0.iter().filter(|(key, _)| key != "seed").cloned().collect();
        match settings.iter_mut().find(|setting| setting.swept == swept) {
            Some(setting) => setting.runs.push((run, report)),
            None => settings.push(Setting { swept, runs: vec![(run, report)] }),
        }
    }
    settings
}

impl Setting<'_> {
    /// The mean over runs.
    fn mean(&self, of: impl Fn(&ExperimentReport) -> Option<f64>) -> Option<f64> {
        let values: Option<Vec<f64>> = self.runs.iter().map(|(_, report)| of(report)).collect();
        let values = values.filter(|values| !values.is_empty())?;
        Some(values.iter().sum::<f64>() / values.len() as f64)
    }

    fn mean_at(&self, load: u32, of: impl Fn(&AtLoad) -> Option<f64>) -> Option<f64> {
        self.mean(|report| of(report.loads.iter().find(|at| at.load == load)?))
    }

    /// The highest load.
    fn last(&self) -> u32 {
        let loads = self.runs.iter().flat_map(|(_, report)| &report.loads);
        loads.map(|at| at.load).max().unwrap_or(0)
    }

    /// The users of all runs.
    pub(crate) fn users(&self) -> BTreeSet<String> {
        let loads = self.runs.iter().flat_map(|(_, report)| &report.loads);
        loads.flat_map(|at| at.users.keys().cloned()).collect()
    }

    /// The planning times of all runs, by type and load.
    fn planning(&self) -> BTreeMap<(u32, u32), PlanningTime> {
        let mut times: BTreeMap<(u32, u32), PlanningTime> = BTreeMap::new();
        for time in self.runs.iter().flat_map(|(run, _)| &run.planning) {
            let of_kind = times.entry((time.kind, time.load));
            of_kind.and_modify(|sum| *sum = sum.with(time)).or_insert(*time);
        }
        times
    }

    /// Its row of the page.
    pub(crate) fn page(&self) -> plot::Setting {
        let loads: BTreeSet<u32> =
            self.runs.iter().flat_map(|(_, report)| &report.loads).map(|at| at.load).collect();
        let over = |of: &dyn Fn(&AtLoad) -> Option<f64>| {
            let at = |&load: &u32| Some((load, self.mean_at(load, of)?));
            loads.iter().filter_map(at).collect::<Vec<_>>()
        };
        let of_user = |user: String| {
            let success = over(&|at| at.users.get(&user).map(|of| of.success()));
            (user, success)
        };
        let sites = self.runs.iter().flat_map(|(_, report)| &report.loads);
        let sites: BTreeSet<&String> = sites.flat_map(|at| at.utilization.keys()).collect();
        let of_site = |site: &String| (site.clone(), over(&|at| at.utilization.get(site).copied()));
        let mut planning: BTreeMap<u32, Vec<(u32, f64, f64)>> = BTreeMap::new();
        for ((kind, load), time) in self.planning() {
            planning.entry(kind).or_default().push((load, time.avg_ms, time.max_ms));
        }
        let pairs = self.swept.iter().map(|(key, value)| format!("{key} {value}"));
        plot::Setting {
            title: pairs.collect::<Vec<_>>().join(", "),
            success: self.users().into_iter().map(of_user).collect(),
            utilization: sites.into_iter().map(of_site).collect(),
            planning,
        }
    }

    /// Its row of the table, under [`headings`].
    pub(crate) fn cells(&self, users: &BTreeSet<String>) -> Vec<String> {
        let shown = |value: Option<f64>, digits: usize| {
            value.map_or_else(|| "-".to_owned(), |value| format!("{value:.digits$}"))
        };
        let success = |load| shown(self.mean_at(load, |at| Some(at.success())), 2);
        let of_user = |user: &String| {
            let at_last = |at: &AtLoad| at.users.get(user).map(|of| of.success());
            shown(self.mean_at(self.last(), at_last), 2)
        };
        let requests: u64 = self.runs.iter().map(|(run, _)| run.report.requests).sum();
        let used = self.mean_at(self.last(), |at| {
            let parts = at.utilization.values();
            Some(parts.sum::<f64>() / at.utilization.len().max(1) as f64)
        });
        let all = self.planning().into_values().reduce(|sum, time| sum.with(&time));
        let mut cells = vec![self.runs.len().to_string(), requests.to_string()];
        cells.extend(LOADS.map(success));
        cells.extend(users.iter().map(of_user));
        cells.extend([
            shown(self.mean(|report| Some(report.price)), 1),
            shown(self.mean(|report| Some(report.delay_s / 60.0)), 1),
            shown(self.mean(|report| Some(report.quality)), 2),
            shown(used, 2),
            shown(all.map(|time| time.avg_ms), 2),
            shown(all.map(|time| time.max_ms), 1),
        ]);
        cells
    }
}

/// The headings of the table, after those of what is swept.
pub(crate) fn headings(users: &BTreeSet<String>) -> Vec<String> {
    let own = |heading: &str| heading.to_owned();
    let mut headings = vec![own("runs"), own("requests")];
    headings.extend(LOADS.map(|load| format!("at {load}%")));
    headings.extend(users.iter().cloned());
    headings.extend(["price", "delay", "quality", "used", "plan ms", "max ms"].map(own));
    headings
}
