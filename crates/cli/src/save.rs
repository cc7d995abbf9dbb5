//! What `tenure emulate --out DIR` leaves behind: figures, series and plots.

use std::fs;
use std::path::Path;

use tenure_core::model::time::Span;
use tenure_sim::plot::{self, Outcome};
use tenure_sim::report::Series;
use tenure_sim::scenario::Point;

use crate::emulate::Results;
use crate::error::Error;
use crate::experiments::{self, Setting};
use crate::run::Run;

/// Writes `runs.json`, for experiments the page `experiments.svg`, for several runs with services the plot `pareto.svg`, and for each run its series as `run-N.csv` and as the picture `run-N.svg`.
pub(crate) fn save(dir: &Path, points: &[Point], runs: &[Run]) -> Result<(), Error> {
    let mut json = serde_json::to_vec_pretty(&Results::of(runs))
        .map_err(|error| Error::writing(dir, error.into()))?;
    json.push(b'\n');
    write(&dir.join("runs.json"), &json)?;
    let settings = experiments::settings(runs);
    if let (Some(point), false) = (points.first(), settings.is_empty()) {
        let page = settings.iter().map(Setting::page).collect::<Vec<_>>();
        let svg = plot::experiments(&point.scenario.file, &page)
            .map_err(|error| Error::writing(dir, std::io::Error::other(error)))?;
        write(&dir.join("experiments.svg"), svg.as_bytes())?;
    }
    let outcomes: Vec<Outcome> = runs.iter().filter_map(outcome).collect();
    if let (Some(point), true) = (points.first(), outcomes.len() > 1) {
        let keys: Vec<&str> = point.swept.iter().map(|(key, _)| key.as_str()).collect();
        let title = format!("{} by {}", point.scenario.file, keys.join(", "));
        let axes = ("moves", "out of SLO, h, all services together");
        let svg = plot::pareto(&title, axes, &outcomes)
            .map_err(|error| Error::writing(dir, std::io::Error::other(error)))?;
        write(&dir.join("pareto.svg"), svg.as_bytes())?;
    }
    for (number, (point, run)) in (1..).zip(points.iter().zip(runs)) {
        let step = point.scenario.step;
        let path = dir.join(format!("run-{number}.csv"));
        let csv = csv_of(step, &run.series).map_err(|error| Error::writing(&path, error))?;
        write(&path, &csv)?;
        let title = format!("{} {}", point.scenario.file, run.swept);
        let svg = plot::demand_and_holding(title.trim(), step, &run.series)
            .map_err(|error| Error::writing(dir, std::io::Error::other(error)))?;
        write(&dir.join(format!("run-{number}.svg")), svg.as_bytes())?;
    }
    Ok(())
}

/// A run with services by what it moved and how long they were out of their SLOs.
fn outcome(run: &Run) -> Option<Outcome> {
    let services = run.report.services.as_ref()?;
    let values: Vec<&str> = run.swept.0.iter().map(|(_, value)| value.as_str()).collect();
    let out_of_slo_s: f64 = services.services.iter().map(|service| service.out_of_slo_s).sum();
    Some(Outcome { label: values.join(", "), x: services.moves as f64, y: out_of_slo_s / 3600.0 })
}

/// One row for each step and service manager.
fn csv_of(step: Span, series: &[Series]) -> std::io::Result<Vec<u8>> {
    let mut csv = csv::Writer::from_writer(Vec::new());
    csv.write_record(["second", "service_manager", "needed", "held"])?;
    let steps = series.iter().map(|s| s.demand.len()).max().unwrap_or(0);
    for k in 0..steps {
        let second = k as f64 * step.as_secs_f64();
        for Series { name, demand, held } in series {
            if let (Some(demand), Some(held)) = (demand.get(k), held.get(k)) {
                let row = [&second.to_string(), name, &demand.to_string(), &held.to_string()];
                csv.write_record(row)?;
            }
        }
    }
    csv.into_inner().map_err(|error| error.into_error())
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    fs::write(path, bytes).map_err(|source| Error::writing(path, source))
}
