//! `tenure dev`, `tenure up`, `tenure config`.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Serialize;
use tenure_config::{Files, Override};
use tenure_node::config::explain::{self, Explained};
use tenure_node::config::{AssemblyError, Config, Site, parse_files};
use tenure_node::run::{RunError, run};

use super::args::{ConfigCommand, DevArgs, Output, UpArgs};
use super::{duration, print};
use crate::Console;
use crate::error::Error;
use crate::text::line;

/// What `tenure dev` runs.
const DEV: &str = include_str!("../../../../config/dev.toml");

/// `tenure dev`
pub(crate) fn dev(args: &DevArgs, console: &mut Console<'_>) -> Result<(), Error> {
    let name = "the configuration of `tenure dev`".to_owned();
    let files = Files::new([(name, DEV.to_owned())]);
    start((&files, Vec::new()), (&args.data, &args.set), None, console)
}

/// `tenure up`
pub(crate) fn up(args: &UpArgs, console: &mut Console<'_>) -> Result<(), Error> {
    let files = read_all(&args.config)?;
    let paths = args.config.iter().filter_map(|path| fs::canonicalize(path).ok()).collect();
    let takeover = args.takeover.map(duration);
    start((&files, paths), (&args.data, &args.set), takeover, console)
}

/// `tenure config ...`
pub(crate) fn config(command: &ConfigCommand, console: &mut Console<'_>) -> Result<(), Error> {
    let (config, set, data, output) = match command {
        ConfigCommand::Check { config, set, data, output } => (config, set, data, output),
        ConfigCommand::Explain { key, output } => return explain(key.as_deref(), *output, console),
    };
    let files = read_all(config)?;
    let config = checked(&files, set)?;
    config.check().map_err(|error| wrong(error.into(), &files))?;
    if let Some(data) = data {
        config.admit(data).map_err(|error| wrong(error.into(), &files))?;
    }
    if *output == Output::Table {
        let good = format!("{} is good: {}", config.file, describe(&config));
        return Ok(line(console.out, good)?);
    }
    let good = Good::of(&config);
    print::one(&good, std::slice::from_ref(&good), *output, "", console)
}

/// A configuration that is good.
#[derive(Serialize)]
struct Good<'a> {
    file: &'a str,
    sites: usize,
    units: u32,
    brokers: usize,
    service_managers: usize,
}

impl<'a> Good<'a> {
    fn of(config: &'a Config) -> Self {
        Self {
            file: &config.file,
            sites: config.sites.len(),
            units: config.sites.values().map(Site::units).sum(),
            brokers: config.brokers.len(),
            service_managers: config.service_managers.len(),
        }
    }
}

impl print::Row for Good<'_> {
    const COLUMNS: &'static [&'static str] =
        &["file", "sites", "units", "brokers", "service_managers"];

    fn cells(&self) -> Vec<String> {
        let Self { file, sites, units, brokers, service_managers } = self;
        let counts = [*sites, *units as usize, *brokers, *service_managers];
        [(*file).to_owned()].into_iter().chain(counts.map(|count| count.to_string())).collect()
    }
}

/// What a deployment could not be run for; where its configuration is to blame, with the place in it.
fn wrong(error: RunError, files: &Files) -> Error {
    let RunError::Assembly(AssemblyError::Config(error)) = error else {
        return Error::Run(Box::new(error));
    };
    let text = files.text(error.file()).to_owned();
    Error::Config { error, text }
}

pub(super) fn read_all(paths: &[PathBuf]) -> Result<Files, Error> {
    let help = "`tenure dev` needs no file; config/dev.toml is a good start for one";
    let read = |path: &PathBuf| {
        let text = fs::read_to_string(path).map_err(|error| Error::reading(path, error, help))?;
        Ok((path.display().to_string(), text))
    };
    Ok(Files::new(paths.iter().map(read).collect::<Result<Vec<_>, Error>>()?))
}

pub(super) fn checked(files: &Files, set: &[Override]) -> Result<Config, Error> {
    parse_files(files, set).map_err(|error| {
        let text = files.text(error.file()).to_owned();
        Error::Config { error: Box::new(error), text }
    })
}

impl print::Row for Explained {
    const COLUMNS: &'static [&'static str] = &["key", "type", "default", "unit", "meaning"];

    fn cells(&self) -> Vec<String> {
        let Self { key, kind, default, unit, meaning } = self.clone();
        vec![key, kind, default, print::or_dash(unit), meaning]
    }
}

/// `tenure config explain`
fn explain(key: Option<&str>, output: Output, console: &mut Console<'_>) -> Result<(), Error> {
    let keys = match key {
        Some(key) => explain::explain(key).map_err(Error::NoKey)?,
        None => explain::keys(),
    };
    print::all(&keys, &keys, output, "no keys", console)
}

fn start(
    (files, paths): (&Files, Vec<PathBuf>),
    (data, set): (&Path, &[Override]),
    takeover: Option<Duration>,
    console: &mut Console<'_>,
) -> Result<(), Error> {
    let mut config = checked(files, set)?;
    config.paths = paths;
    let mut written = Ok(());
    let ran = run(&config, data, takeover, || {
        written = welcome(&config, data, console);
    });
    written?;
    ran.map_err(|error| wrong(error, files))
}

/// Who takes part, in a sentence.
fn describe(config: &Config) -> String {
    let Good { sites, units, brokers, service_managers, .. } = Good::of(config);
    let few = |count: usize, what: &str| (count > 0).then(|| counted(count, what));
    let with_units =
        few(sites, "site").map(|sites| format!("{sites} with {}", counted(units as usize, "unit")));
    let all = [with_units, few(brokers, "broker"), few(service_managers, "service manager")];
    all.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// `1 site`, `2 sites`
fn counted(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

/// Commands that show what there is, for a process that has someone to ask for leases and for one that has not.
const TO_A_GUEST: &[&str] = &[
    "lease request 2 --for 10m --wait",
    "lease list",
    "lease show 1",
    "site list",
    "lease why 1",
    "lease close 1 --wait",
];
const TO_A_LENDER: &[&str] = &["site list", "broker list", "peer list", "doctor"];

/// What to try next.
fn welcome(config: &Config, data: &Path, console: &mut Console<'_>) -> Result<(), Error> {
    let folder = match data == Path::new("tenure-data") {
        true => String::new(),
        false => format!(" --data {}", data.display()),
    };
    line(
        console.out,
        format_args!("Tenure runs: {}; data in {}.", describe(config), data.display()),
    )?;
    writeln!(console.out, "Try, in another terminal:\n")?;
    let commands = if config.service_managers.is_empty() { TO_A_LENDER } else { TO_A_GUEST };
    for command in commands {
        line(console.out, format_args!("  tenure {command}{folder}"))?;
    }
    writeln!(console.out, "\nStop it with ctrl-c: leases stay, and the next start resumes them.")?;
    Ok(console.out.flush()?)
}
