//! `tenure emulate`: from a scenario file to results.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, Write};
use std::path::Path;
use std::thread;

use serde::Serialize;
use tenure_config::{ConfigError, Override, Source};
use tenure_sim::emulation::{Emulation, EmulationError, Inputs};
use tenure_sim::scenario::{self, Point};

use crate::Console;
use crate::args::{EmulateArgs, Format};
use crate::demand::{Logs, reader};
use crate::error::Error;
use crate::plots;
use crate::render;
use crate::run::{Run, run_all};
use crate::save;
use crate::table;

/// All results, as `-o json` and `--out` write them.
#[derive(Serialize)]
pub(crate) struct Results<'a> {
    /// Grows when a field changes its meaning or goes away.
    version: u32,
    runs: &'a [Run],
}

impl<'a> Results<'a> {
    pub(crate) fn of(runs: &'a [Run]) -> Self {
        Self { version: 1, runs }
    }
}

/// Runs the scenario of `args`, prints what came out, and fails if a run did not complete.
pub(crate) fn emulate(args: &EmulateArgs, console: &mut Console<'_>) -> Result<(), Error> {
    let mut points = points(args)?;
    plots::check(&args.plot, &points)?;
    let logs = Logs::read(&points, args.scenario.parent().unwrap_or(Path::new("")))?;
    let warnings = logs.warnings(&points)?;
    for warning in warnings.iter().chain(&logs.assign_jobs(&mut points)) {
        render::warning(warning, console)?;
    }
    if let Some(dir) = &args.out {
        fs::create_dir_all(dir).map_err(|source| Error::writing(dir, source))?;
    }
    let threads = args
        .threads
        .map_or_else(|| thread::available_parallelism().map_or(1, Into::into), Into::into);
    let runs = run_all(&points, &logs, threads, args.journals.as_deref(), console.terminal)?;
    if let Some(dir) = &args.out {
        save::save(dir, &points, &runs)?;
    }
    print(args.output, &points, &runs, console.out)?;
    if let Some(dir) = &args.out {
        plots::save(dir, &args.plot, &points, &runs)?;
    }
    let failed: Vec<(&Run, String)> =
        runs.iter().filter_map(|run| Some((run, run.failure()?))).collect();
    match failed.first() {
        None => Ok(()),
        Some((run, why)) => {
            let first = format!("{} {why}", run.swept).trim_start().to_owned();
            Err(Error::Incomplete { count: failed.len(), total: runs.len(), first })
        }
    }
}

/// The points of the scenario with the options of the command line.
fn points(args: &EmulateArgs) -> Result<Vec<Point>, Error> {
    let help = "the scenario is a TOML file; `config/emulations` holds some to start from";
    let text = fs::read_to_string(&args.scenario)
        .map_err(|source| Error::reading(&args.scenario, source, help))?;
    let name = args.scenario.display().to_string();
    let beside = args.scenario.parent().unwrap_or(Path::new(""));
    let mut overrides = args.set.clone();
    if let Some(seed) = args.seed {
        let value = seed.to_string();
        overrides.push(Override {
            key: "seed".to_owned(),
            option: format!("--seed {value}"),
            value,
        });
    }
    if let Some(file) = &args.workload {
        let file = file.display().to_string();
        overrides.push(Override::text("workload.file", &file, "--workload"));
    }
    scenario::parse_with(Source { name: &name, text: &text }, &overrides, &reader(beside))
        .and_then(|points| check_mappers(&points).map(|()| points))
        .map_err(|error| Error::Config { error: Box::new(error), text })
}

/// Whether every mapper can be built, before the first run takes its time.
fn check_mappers(points: &[Point]) -> Result<(), ConfigError> {
    let mut checked = BTreeSet::new();
    for Point { scenario, .. } in points {
        let mappers: Vec<String> = scenario
            .mappers()
            .map(|(role, actor, spec)| format!("{role} {actor} {} {}", spec.name, spec.settings))
            .collect();
        if checked.insert(mappers)
            && let Err(EmulationError::Mapper { role, name, cause }) =
                Emulation::new(scenario, &Inputs::default())
        {
            return Err(scenario.mapper_error(role, &name, &cause));
        }
    }
    Ok(())
}

fn print(format: Format, points: &[Point], runs: &[Run], out: &mut dyn Write) -> io::Result<()> {
    match format {
        Format::Table => table::print(points, runs, out)?,
        Format::Json => {
            serde_json::to_writer_pretty(&mut *out, &Results::of(runs))?;
            writeln!(out)?;
        }
        Format::Jsonl => {
            for run in runs {
                serde_json::to_writer(&mut *out, run)?;
                writeln!(out)?;
            }
        }
        Format::Csv => table::csv(runs, out)?,
    }
    out.flush()
}
