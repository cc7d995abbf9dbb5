//! `tenure plan export`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use tenure_plan::export::{self, ExportError};

use crate::Console;
use crate::error::Error;

use super::read;

/// Write a problem in the format of another solver.
///
/// `lp` is a mixed integer program for GLPK, CBC, HiGHS, SCIP or CPLEX, whose least value is that of the
/// objective; `vbp` is vector bin packing for VPSolver.
#[derive(Args, Debug)]
#[command(after_help = EXPORT)]
pub(crate) struct ExportArgs {
    /// The problem
    #[arg(value_name = "PROBLEM")]
    problem: PathBuf,

    /// The format
    #[arg(long, value_enum)]
    format: Format,
}

const EXPORT: &str = "\
Examples:
  tenure plan export config/planning/web.toml --format lp > web.lp

Exit codes: 0 ok, 1 the format cannot say it, 2 a bad problem";

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// A mixed integer program
    Lp,
    /// Vector bin packing
    Vbp,
}

pub(super) fn export(args: &ExportArgs, console: &mut Console<'_>) -> Result<(), Error> {
    let problem = read::problem(&args.problem)?;
    let text = match args.format {
        Format::Lp => export::lp(&problem),
        Format::Vbp => export::vbp(&problem),
    };
    let text = text.map_err(|error| match error {
        ExportError::Problem(error) => read::bad(&args.problem, &problem.name, &error),
        ExportError::Format(message) => Error::Ill(vec![message]),
    })?;
    write!(console.out, "{text}")?;
    Ok(())
}
