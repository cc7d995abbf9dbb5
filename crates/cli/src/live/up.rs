//! `tenure dev`, `tenure up`, `tenure config`.

use std::fs;
use std::path::Path;

use tenure_config::{Override, Source, text_of_first};
use tenure_node::config::{AssemblyError, Config, parse};
use tenure_node::run::{RunError, run};

use super::args::{ConfigCommand, DevArgs, UpArgs};
use crate::Console;
use crate::error::Error;

/// What `tenure dev` runs.
const DEV: &str = include_str!("../../../../config/dev.toml");

/// The name of the file in a data folder that says what the deployment last ran with.
pub(crate) const CONFIG: &str = "config.toml";

const HEADER: &str = "# What this deployment last ran with, with all that options have set.\n\n";

/// `tenure dev`
pub(crate) fn dev(args: &DevArgs, console: &mut Console<'_>) -> Result<(), Error> {
    start("the configuration of `tenure dev`", DEV, (&args.data, &args.set), console)
}

/// `tenure up`
pub(crate) fn up(args: &UpArgs, console: &mut Console<'_>) -> Result<(), Error> {
    let text = read(&args.config)?;
    start(&args.config.display().to_string(), &text, (&args.data, &args.set), console)
}

/// `tenure config ...`
pub(crate) fn config(command: &ConfigCommand, console: &mut Console<'_>) -> Result<(), Error> {
    let ConfigCommand::Check { config, set } = command;
    let text = read(config)?;
    let config = checked(&config.display().to_string(), &text, set)?;
    Ok(writeln!(console.out, "{} is good: {}", config.file, cast(&config))?)
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
    name: &str,
    text: &str,
    (data, set): (&Path, &[Override]),
    console: &mut Console<'_>,
) -> Result<(), Error> {
    let config = checked(name, text, set)?;
    let kept = text_of_first(Source { name, text }, set)
        .map_err(|error| Error::Config { error: Box::new(error), text: text.to_owned() })?;
    let mut told = Ok(());
    let ran = run(&config, data, || {
        told = keep(&kept, data).and_then(|()| welcome(&config, data, console));
    });
    told?;
    match ran {
        Err(RunError::Assembly(AssemblyError::Config(error))) => {
            Err(Error::Config { error, text: text.to_owned() })
        }
        ran => ran.map_err(|error| Error::Run(Box::new(error))),
    }
}

/// Keeps what a deployment runs with beside its journals, for whoever looks at them later.
fn keep(config: &str, data: &Path) -> Result<(), Error> {
    let path = data.join(CONFIG);
    fs::write(&path, format!("{HEADER}{config}")).map_err(|source| Error::writing(&path, source))
}

/// Who takes part, in a sentence.
fn cast(config: &Config) -> String {
    let units: u32 = config.sites.values().map(|site| site.units).sum();
    format!(
        "{} sites with {units} units, {} brokers, {} service managers",
        config.sites.len(),
        config.brokers.len(),
        config.service_managers.len()
    )
}

/// What to try next.
fn welcome(config: &Config, data: &Path, console: &mut Console<'_>) -> Result<(), Error> {
    let folder = match data == Path::new("tenure-data") {
        true => String::new(),
        false => format!(" --data {}", data.display()),
    };
    writeln!(console.out, "Tenure runs: {}; data in {}.", cast(config), data.display())?;
    writeln!(console.out, "Try, in another terminal:\n")?;
    for command in [
        "lease request 2 --for 10m --wait",
        "lease list",
        "lease show 1",
        "site list",
        "lease why 1",
        "lease close 1 --wait",
    ] {
        writeln!(console.out, "  tenure {command}{folder}")?;
    }
    writeln!(
        console.out,
        "\nStop it with ctrl-c: leases live on, and the next start takes them up."
    )?;
    Ok(console.out.flush()?)
}
