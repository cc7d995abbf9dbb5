//! `tenure dev`, `tenure up`, `tenure config`.

use std::fs;
use std::path::{Path, PathBuf};

use serde::Serialize;
use tenure_config::{Override, Source};
use tenure_node::config::{AssemblyError, Config, Site, parse};
use tenure_node::run::{RunError, run};

use super::args::{ConfigCommand, DevArgs, Output, UpArgs};
use super::print;
use crate::Console;
use crate::error::Error;
use crate::text::line;

/// What `tenure dev` runs.
const DEV: &str = include_str!("../../../../config/dev.toml");

/// `tenure dev`
pub(crate) fn dev(args: &DevArgs, console: &mut Console<'_>) -> Result<(), Error> {
    let name = "the configuration of `tenure dev`";
    start((name, None), DEV, (&args.data, &args.set), console)
}

/// `tenure up`
pub(crate) fn up(args: &UpArgs, console: &mut Console<'_>) -> Result<(), Error> {
    let text = read(&args.config)?;
    let name = args.config.display().to_string();
    let path = fs::canonicalize(&args.config).ok();
    start((&name, path), &text, (&args.data, &args.set), console)
}

/// `tenure config ...`
pub(crate) fn config(command: &ConfigCommand, console: &mut Console<'_>) -> Result<(), Error> {
    let ConfigCommand::Check { config, set, data, output } = command;
    let text = read(config)?;
    let config = checked(&config.display().to_string(), &text, set)?;
    config.check().map_err(|error| wrong(error.into(), &text))?;
    if let Some(data) = data {
        config.admit(data).map_err(|error| wrong(error.into(), &text))?;
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
fn wrong(error: RunError, text: &str) -> Error {
    let RunError::Assembly(AssemblyError::Config(error)) = error else {
        return Error::Run(Box::new(error));
    };
    Error::Config { error, text: text.to_owned() }
}

fn read(path: &Path) -> Result<String, Error> {
    let help = "`tenure dev` needs no file; config/dev.toml is a good start for one";
    fs::read_to_string(path).map_err(|error| Error::reading(path, error, help))
}

fn checked(name: &str, text: &str, set: &[Override]) -> Result<Config, Error> {
    parse(Source { name, text }, set)
        .map_err(|error| Error::Config { error: Box::new(error), text: text.to_owned() })
}

fn start(
    (name, path): (&str, Option<PathBuf>),
    text: &str,
    (data, set): (&Path, &[Override]),
    console: &mut Console<'_>,
) -> Result<(), Error> {
    let mut config = checked(name, text, set)?;
    config.path = path;
    let mut written = Ok(());
    let ran = run(&config, data, || {
        written = welcome(&config, data, console);
    });
    written?;
    ran.map_err(|error| wrong(error, text))
}

/// Who takes part, in a sentence.
fn describe(config: &Config) -> String {
    let Good { sites, units, brokers, service_managers, .. } = Good::of(config);
    format!(
        "{sites} sites with {units} units, {brokers} brokers, {service_managers} service managers"
    )
}

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
    for command in [
        "lease request 2 --for 10m --wait",
        "lease list",
        "lease show 1",
        "site list",
        "lease why 1",
        "lease close 1 --wait",
    ] {
        line(console.out, format_args!("  tenure {command}{folder}"))?;
    }
    writeln!(console.out, "\nStop it with ctrl-c: leases stay, and the next start resumes them.")?;
    Ok(console.out.flush()?)
}
