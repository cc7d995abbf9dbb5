//! The command line of Tenure: everything that owns files, threads, the wall clock and the terminal.
//!
//! Standard output carries data and nothing else. What went wrong goes to standard error, as text or,
//! where JSON was asked for, as one JSON object. The exit code is 0 when all went well, 1 after an
//! error (a run that did not complete is one), 2 when the command line is wrong; a live deployment can say
//! no in more ways, each with a code of its own.

mod args;
mod backup;
mod demand;
mod emulate;
mod error;
mod executor;
mod experiments;
mod live;
mod manual;
mod journal;
mod keep;
mod log;
mod moment;
mod plan;
mod planning;
mod plots;
mod progress;
mod render;
mod report;
mod run;
mod save;
mod simulate;
mod table;
mod text;
mod when;
mod xml;
#[cfg(test)]
mod tests;
pub mod workload;

use std::ffi::OsString;
use std::io::{self, IsTerminal as _, Write};
use std::process::ExitCode;

use clap::Parser as _;

use args::{Cli, Command, WorkloadCommand};
use error::Error;
use text::{Form, Guarded};

/// All went well.
const OK: u8 = 0;

/// Where a command writes.
struct Console<'a> {
    out: &'a mut dyn Write,
    err: &'a mut dyn Write,
    /// Whether `err` is a terminal, on which progress may be drawn.
    terminal: bool,
    /// Whether `err` may be coloured.
    color: bool,
    /// Whether errors are JSON.
    json: bool,
    /// How wide `out` is, if it is a terminal.
    width: Option<u16>,
}

/// Runs the command of this process.
pub fn main() -> ExitCode {
    log::start(Cli::try_parse().ok().as_ref());
    let terminal = io::stderr().is_terminal();
    // https://no-color.org: any value but the empty one.
    let plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let (mut out, mut err) = (Pipe(io::stdout().lock()), io::stderr());
    let color = terminal && !plain;
    let width = terminal_size::terminal_size_of(io::stdout()).map(|(width, _)| width.0);
    let mut console = Console { out: &mut out, err: &mut err, terminal, color, json: false, width };
    ExitCode::from(run_on(std::env::args_os(), &mut console))
}

/// An output whose reader may stop reading, as `head` does: that is not an error, and is not reported.
struct Pipe<W>(W);

impl<W: Write> Write for Pipe<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.0.write(bytes) {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(bytes.len()),
            written => written,
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self.0.flush() {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            flushed => flushed,
        }
    }
}

/// Runs a command, the first of `args` being its own name, and returns its exit code. Nothing is
/// coloured and no progress is drawn.
pub fn run(
    args: impl IntoIterator<Item = OsString>,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> u8 {
    let (terminal, color, json, width) = (false, false, false, None);
    run_on(args, &mut Console { out, err, terminal, color, json, width })
}

fn run_on(args: impl IntoIterator<Item = OsString>, console: &mut Console<'_>) -> u8 {
    let args: Vec<OsString> = args.into_iter().collect();
    console.json = args::asks_for_json(&args);
    let form = if console.json { Form::Json } else { Form::Text };
    let &mut Console { ref mut out, ref mut err, terminal, color, json, width } = console;
    let mut out = Guarded::new(out, form);
    let console = &mut Console { out: &mut out, err: *err, terminal, color, json, width };
    let result = match Cli::try_parse_from(args) {
        Ok(cli) => dispatch(&cli, console),
        Err(answer) if !answer.use_stderr() => {
            write!(console.out, "{}", answer.render()).map_err(Error::Write)
        }
        Err(wrong) => Err(Error::Usage(wrong)),
    };
    match result {
        Ok(()) => OK,
        // The command has reported its result already.
        Err(Error::CommandEnded(code)) => code,
        Err(error) => {
            // Nothing can be reported when standard error is gone too.
            let _ = render::error(&error, console);
            error.exit_code()
        }
    }
}

fn dispatch(cli: &Cli, console: &mut Console<'_>) -> Result<(), Error> {
    match &cli.command {
        Command::Dev(args) => live::dev(args, console),
        Command::Up(args) => live::up(args, console),
        Command::Executor(args) => executor::executor(args, console),
        Command::Lease { command } => live::lease(command, console),
        Command::Slice { command } => live::slice(command, console),
        Command::Site { command } => live::site(command, console),
        Command::Broker { command } => live::broker(command, console),
        Command::Ticket { command } => live::ticket(command, console),
        Command::Keys { command } => live::keys(command, console),
        Command::Session { command } => live::session(command, console),
        Command::Peer { command } => live::peer(command, console),
        Command::Doctor(endpoint) => live::doctor(endpoint, console),
        Command::Metrics { data } => live::metrics(data, console),
        Command::Config { command } => live::config(command, console),
        Command::Completions { shell } => manual::completions(*shell, console),
        Command::Man { folder } => manual::pages(folder, console),
        Command::Emulate(args) => emulate::emulate(args, console),
        Command::Simulate(args) => simulate::simulate(args, console),
        Command::Backup(args) => backup::backup(args, console.out),
        Command::Restore(args) => backup::restore(args, console.out),
        Command::Journal { command } => journal::run(command, console),
        Command::Plan { command } => plan::run(command, console),
        Command::Service { command } => live::service(command, console),
        Command::Unit { command } => live::unit(command, console),
        Command::Report { command } => report::report(command, console),
        Command::Sla { command } => report::sla(command, console),
        Command::Workload { command: WorkloadCommand::Show(args) } => {
            Ok(workload::show(args, console.out)?)
        }
    }
}
