//! `tenure unit run`: a command on a unit that has an executor.

use std::io::Write as _;

use clap::Args;
use tenure_core::model::time::Span;
use tenure_node::api::{Request, RunRequest, RunView};
use tenure_sim::workload::parse_span;

use crate::Console;
use crate::error::Error;
use crate::live::args::{Endpoint, Output};
use crate::live::{connect, duration, print};
use crate::text::{Form, Guarded};

/// How much longer than the command may take its answer is waited for.
const ANSWER: Span = Span::MINUTE.times(2);

/// Run a command on a unit that has an executor.
///
/// It runs on the machine of the unit, without a shell, for the service manager that has the unit, in a folder of the
/// lease; as another user in the home of that. When it ends, or takes too long, its process group ends too. What starts
/// a session of its own (`setsid`) stays until the lease ends.
#[derive(Args, Debug)]
#[command(after_help = RUN)]
pub(crate) struct RunArgs {
    #[command(flatten)]
    endpoint: Endpoint,

    /// As which user of the machine, if the site allows it [default: the executor's own]
    #[arg(long = "as", value_name = "USER")]
    user: Option<String>,

    /// How long it may take
    #[arg(long, value_name = "SPAN", value_parser = parse_span, default_value = "10m")]
    timeout: Span,

    /// The unit: alpha/u3
    unit: String,

    /// The program and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<String>,
}

const RUN: &str = "\
Exit codes: that of the command, 128 and the number of the signal that ended it, 124 if it took too long

Examples:
  tenure unit run alpha/u3 -- uname -a
  tenure unit run alpha/u3 --as build --timeout 1h -- make -j4
  tenure unit run alpha/u3 -- /bin/sh -c 'df -h | tail -n +2'";

/// Runs it, prints what it wrote, and ends as it did.
pub(crate) fn run(args: &RunArgs, console: &mut Console<'_>) -> Result<(), Error> {
    let RunArgs { endpoint, user, timeout, unit, command } = args;
    let (unit, user, command, timeout) = (unit.clone(), user.clone(), command.clone(), *timeout);
    let request = Request::RunOnUnit(RunRequest { unit, user, command, timeout });
    let within = duration(timeout) + duration(ANSWER);
    let ran: RunView = connect(&endpoint.data)?.ask_within(&request, Some(within))?;
    if endpoint.output == Output::Table {
        write_out(&ran, console)?;
    } else {
        print::one(&ran, std::slice::from_ref(&ran), endpoint.output, "", console)?;
    }
    match (ran.timed_out, ran.code, ran.signal) {
        (true, ..) => Err(Error::CommandTimedOut { unit: ran.unit, after: timeout }),
        (_, Some(0), _) => Ok(()),
        (_, Some(code), _) => Err(Error::CommandEnded(u8::try_from(code).unwrap_or(1))),
        (_, None, signal) => {
            let signal = u8::try_from(signal.unwrap_or_default()).unwrap_or(127);
            Err(Error::CommandEnded(128_u8.saturating_add(signal)))
        }
    }
}

/// What it wrote, each stream on ours, and whether that is all.
fn write_out(ran: &RunView, console: &mut Console<'_>) -> Result<(), Error> {
    write!(console.out, "{}", ran.output)?;
    console.out.flush()?;
    write!(Guarded::new(&mut *console.err, Form::Text), "{}", ran.errors)?;
    for (cut, stream) in [(ran.output_cut, "output"), (ran.errors_cut, "error")] {
        if cut {
            writeln!(console.err, "tenure: standard {stream} was longer, and is cut here")?;
        }
    }
    Ok(())
}

impl print::Row for RunView {
    const COLUMNS: &'static [&'static str] =
        &["unit", "code", "signal", "timed out", "output", "cut", "errors", "errors cut"];

    fn cells(&self) -> Vec<String> {
        let number = |number: Option<i32>| print::or_dash(number.map(|number| number.to_string()));
        vec![
            self.unit.clone(),
            number(self.code),
            number(self.signal),
            self.timed_out.to_string(),
            self.output.clone(),
            self.output_cut.to_string(),
            self.errors.clone(),
            self.errors_cut.to_string(),
        ]
    }
}
