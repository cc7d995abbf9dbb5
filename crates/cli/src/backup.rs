//! `tenure backup` and `tenure restore`.

use std::io::{self, Write};
use std::path::PathBuf;

use clap::Args;
use serde_json::{Map, Value};
use tenure_node::backup::{self, Contents};

use crate::args::SummaryFormat;
use crate::error::Error;
use crate::journal::listing::{self, Listing};

/// Copy the data of a deployment into a folder, while it runs or not.
///
/// The copy is of one instant: no actor in it has heard of anything that another one in it has not done.
/// Configuration, journals with their archives, and what drivers remember are copied, and each fact of the copy is
/// checked. Keys are left out unless --keys is given: with them anyone can act as the actors.
#[derive(Args, Debug)]
#[command(after_help = BACKED_UP)]
pub(crate) struct BackupArgs {
    /// The folder to make; it may be there if it is empty
    #[arg(value_name = "FOLDER")]
    to: PathBuf,

    /// The data folder of the deployment
    #[arg(long, value_name = "DIR", env = "TENURE_DATA", default_value = "tenure-data")]
    data: PathBuf,

    /// Copy the secret keys of the actors, too
    #[arg(long)]
    keys: bool,

    /// Output format
    #[arg(short, long, value_enum, default_value_t)]
    output: SummaryFormat,
}

const BACKED_UP: &str = "\
Examples:
  tenure backup /backup/2026-11-24 --data tenure-data
  tenure backup /backup/2026-11-24 --keys -o json

Exit codes: 0 ok, 1 error, 2 usage";

/// Make a data folder of a backup.
///
/// Every file must be as it was written and every journal whole, or nothing is made. Keys that are not in
/// the backup are put back by hand before the start, or no actor starts. An actor of which peers elsewhere have
/// later messages stops at its start: it must not continue from a part of its past.
#[derive(Args, Debug)]
#[command(after_help = RESTORED)]
pub(crate) struct RestoreArgs {
    /// A folder that `tenure backup` has made
    #[arg(value_name = "FOLDER")]
    from: PathBuf,

    /// The data folder to make; it may be there if it is empty
    #[arg(long, value_name = "DIR", env = "TENURE_DATA", default_value = "tenure-data")]
    data: PathBuf,

    /// Output format
    #[arg(short, long, value_enum, default_value_t)]
    output: SummaryFormat,
}

const RESTORED: &str = "\
Examples:
  tenure restore /backup/2026-11-24 --data tenure-data

Exit codes: 0 ok, 1 error or a backup that does not verify, 2 usage";

pub(crate) fn backup(args: &BackupArgs, out: &mut dyn Write) -> Result<(), Error> {
    let contents = backup::backup(&args.data, &args.to, args.keys)?;
    Ok(print(&contents, ("backup", args.to.display().to_string()), args.output, out)?)
}

pub(crate) fn restore(args: &RestoreArgs, out: &mut dyn Write) -> Result<(), Error> {
    let contents = backup::restore(&args.from, &args.data)?;
    Ok(print(&contents, ("data", args.data.display().to_string()), args.output, out)?)
}

/// Prints what was copied, and of whom the keys are missing.
fn print(
    contents: &Contents,
    (made, path): (&str, String),
    format: SummaryFormat,
    out: &mut dyn Write,
) -> io::Result<()> {
    let json = format == SummaryFormat::Json;
    let missing: Vec<&str> = contents.without_keys().map(|name| name.as_str()).collect();
    let mut about = Map::new();
    if json {
        about.insert("version".to_owned(), 1.into());
        about.insert("without_keys".to_owned(), missing.into());
    } else if missing.is_empty() {
        about.insert("keys".to_owned(), "included: with them anyone can act as the actors".into());
    } else {
        about.insert("keys".to_owned(), format!("not included: {}", missing.join(" ")).into());
    }
    about.insert(made.to_owned(), path.into());
    let mut list = Listing::new("journals", &["name", "facts", "segments", "hash"]);
    for (name, journal) in &contents.journals {
        list.add::<4>([
            name.as_str().into(),
            journal.facts.into(),
            journal.segments.into(),
            Value::from(journal.hash.as_str()),
        ]);
    }
    listing::print(about, &[list], json, out)
}
