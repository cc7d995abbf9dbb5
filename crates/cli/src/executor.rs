//! `tenure executor`: what a machine that a site lends runs.

use std::path::PathBuf;

use clap::Args;
use tenure_node::executor::{Settings, run};

use crate::Console;
use crate::error::Error;
use crate::log::LogFormat;
use crate::text::line;

/// Run the executor of a machine that a site lends.
///
/// It does what its site says, and runs the commands of the tenant of the present epoch (`tenure unit run`). Its key
/// is made at the first start; its id, which it prints, goes into the settings of the site's driver `host`.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLE)]
pub(crate) struct ExecutorArgs {
    /// The settings, in TOML (docs/EXECUTOR.md)
    #[arg(long, value_name = "FILE")]
    config: PathBuf,

    /// The folder for its key and its tenancies; created if missing
    #[arg(long, value_name = "DIR", env = "TENURE_DATA", default_value = "tenure-data")]
    data: PathBuf,

    /// The form of the log, on standard error
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t)]
    pub(crate) log_format: LogFormat,
}

const EXAMPLE: &str = "\
Example of settings:
  listen = \"192.0.2.5:7401\"
  site = \"f1d5…\"    # the id of the site: `tenure keys show alpha`";

/// `tenure executor`
pub(crate) fn executor(args: &ExecutorArgs, console: &mut Console<'_>) -> Result<(), Error> {
    let settings = Settings::read(&args.config).map_err(Box::new).map_err(Error::Executor)?;
    let mut written = Ok(());
    let ran = run(settings, &args.data, |id, address| {
        let told =
            format_args!("The executor {} takes tasks at {address}", id.to_hex()).to_string();
        written = line(console.out, told).and_then(|()| console.out.flush());
    });
    written?;
    ran.map_err(Box::new).map_err(Error::Executor)
}
