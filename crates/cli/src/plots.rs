//! What `tenure emulate --plot FIELD` draws: a field of the runs of a sweep against the first swept key.

use std::fs;
use std::path::Path;

use tenure_config::suggestion;
use tenure_sim::plot::{self, Line};
use tenure_sim::scenario::Point;

use crate::error::Error;
use crate::run::Run;
use crate::table::Fields;

/// Whether there is something to plot against, before the first run takes its time.
pub(crate) fn check(fields: &[String], points: &[Point]) -> Result<(), Error> {
    if fields.is_empty() || points.iter().any(|point| !point.swept.is_empty()) {
        return Ok(());
    }
    let message = "`--plot` draws a field against a swept key, and the scenario sweeps none; \
                   add one, such as --set 'sweep.seed=[1, 2, 3]'";
    Err(Error::Wrong(message.to_owned()))
}

/// Draws each field into a file of its own.
pub(crate) fn save(
    dir: &Path,
    fields: &[String],
    points: &[Point],
    runs: &[Run],
) -> Result<(), Error> {
    let of_runs = runs.iter().map(Fields::of).collect::<Result<Vec<_>, _>>()?;
    for field in fields {
        let values = of_runs.iter().map(|run| value(run, field)).collect::<Result<Vec<_>, _>>()?;
        let path = dir.join(format!("{field}.svg"));
        let file = points.first().map_or("", |point| &point.scenario.file);
        let svg = drawn(file, field, runs, &values)
            .map_err(|error| Error::writing(&path, std::io::Error::other(error)))?;
        fs::write(&path, svg).map_err(|source| Error::writing(&path, source))?;
    }
    Ok(())
}

/// A field of a run, which has to be a number.
fn value(run: &Fields, field: &str) -> Result<f64, Error> {
    run.get(field).as_f64().ok_or_else(|| {
        let known = run.numbers();
        let help = suggestion(field, known.iter().map(String::as_str));
        Error::Wrong(format!("the runs have no number `{field}` to plot; {help}"))
    })
}

/// The plot of a field, of which each run has a value.
fn drawn(file: &str, field: &str, runs: &[Run], values: &[f64]) -> Result<String, plot::PlotError> {
    let mut places: Vec<String> = Vec::new();
    let mut lines: Vec<Line> = Vec::new();
    let mut key = "";
    for (run, &value) in runs.iter().zip(values) {
        let Some(((first, place), others)) = run.swept.0.split_first() else { continue };
        key = first;
        let at = places.iter().position(|known| known == place).unwrap_or_else(|| {
            places.push(place.clone());
            places.len() - 1
        });
        let label = label(others);
        match lines.iter_mut().find(|line| line.label == label) {
            Some(line) => line.points.push((at, value)),
            None => lines.push(Line { label, points: vec![(at, value)] }),
        }
    }
    plot::lines(&format!("{file}: {field}"), (key, field), &places, &lines)
}

/// The values of the swept keys beside the first, which set one line apart from the others.
fn label(others: &[(String, String)]) -> String {
    let pairs = others.iter().map(|(key, value)| format!("{key} = {value}"));
    pairs.collect::<Vec<_>>().join(", ")
}
