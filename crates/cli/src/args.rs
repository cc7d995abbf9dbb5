//! The words of the command line.

use std::ffi::OsString;
use std::num::{NonZeroU64, NonZeroUsize};
use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, Parser, Subcommand, ValueEnum};
use tenure_config::Override;
use tenure_core::model::time::Span;
use tenure_sim::simulate::Family;
use tenure_sim::workload::parse_span;

use crate::backup::{BackupArgs, RestoreArgs};
use crate::executor::ExecutorArgs;
use crate::journal::JournalCommand;
use crate::live::args::{
    BrokerCommand, ConfigCommand, DevArgs, Endpoint, LeaseCommand, SiteCommand, SliceCommand,
    TicketCommand, UpArgs,
};
use crate::live::{KeysCommand, PeerCommand, ServiceCommand, SessionCommand, UnitCommand};
use crate::plan::PlanCommand;
use crate::report::{ReportCommand, SlaCommand};
use crate::workload::ShowArgs;

/// Lease machines from independent owners through brokers, with signed tickets.
#[derive(Debug, Parser)]
#[command(name = "tenure", version, max_term_width = 100, after_help = EXIT_CODES)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

const EXIT_CODES: &str = "\
    Exit codes: 0 ok, 1 error, 2 usage; of a live deployment 3 not found, or can never be served, \
    75 busy, 77 denied, 124 timed out, 130 interrupted\n\n\
    TENURE_LOG=debug logs more to standard error, and of other commands than dev and up at all; NO_COLOR is honoured";

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run two sites, a broker and two service managers in this process
    Dev(DevArgs),
    /// Run the actors of a configuration in this process
    Up(UpArgs),
    /// Run the executor of a machine that a site lends
    Executor(ExecutorArgs),
    /// Request, extend, watch and close leases
    Lease {
        #[command(subcommand)]
        command: LeaseCommand,
    },
    /// Lease units for as long as a program runs
    Session {
        #[command(subcommand)]
        command: SessionCommand,
    },
    /// Show slices: named groups of leases
    Slice {
        #[command(subcommand)]
        command: SliceCommand,
    },
    /// Show sites and their units
    Site {
        #[command(subcommand)]
        command: SiteCommand,
    },
    /// Show brokers and what they can sell
    Broker {
        #[command(subcommand)]
        command: BrokerCommand,
    },
    /// Show and verify tickets
    Ticket {
        #[command(subcommand)]
        command: TicketCommand,
    },
    /// Show, replace and revoke the keys of actors
    Keys {
        #[command(subcommand)]
        command: KeysCommand,
    },
    /// Show the actors of other processes, and how they are reached
    Peer {
        #[command(subcommand)]
        command: PeerCommand,
    },
    /// Check the health of a deployment
    Doctor(Endpoint),
    /// Print counters and histograms of a deployment, in the format of Prometheus
    Metrics {
        /// The data folder of the deployment
        #[arg(long, value_name = "DIR", env = "TENURE_DATA", default_value = "tenure-data")]
        data: PathBuf,
    },
    /// Copy the data of a deployment into a folder, while it runs or not
    Backup(BackupArgs),
    /// Make a data folder of a backup
    Restore(RestoreArgs),
    /// Check configurations
    Config {
        #[command(subcommand)]
        command: ConfigCommand,
    },
    /// Print completions for a shell
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Write manual pages into a folder
    Man {
        /// The folder; created if missing
        #[arg(value_name = "DIR")]
        folder: PathBuf,
    },
    /// Run a deployment in virtual time, once for each point of its sweep
    Emulate(EmulateArgs),
    /// Run random deployments in virtual time, with injected faults
    Simulate(SimulateArgs),
    /// Verify, show, replay and fork journals
    Journal {
        #[command(subcommand)]
        command: JournalCommand,
    },
    /// Plan which part goes on which place: from files, or packages on the nodes of a deployment
    Plan {
        #[command(subcommand)]
        command: PlanCommand,
    },
    /// Services: what is measured of them, what they are to reach, and what they want for it
    Service {
        #[command(subcommand)]
        command: ServiceCommand,
    },
    /// Units that service managers have: whose they are, and which are not asked for
    Unit {
        #[command(subcommand)]
        command: UnitCommand,
    },
    /// Report on services over time, from journals or of a running deployment
    Report {
        #[command(subcommand)]
        command: ReportCommand,
    },
    /// Show SLAs of services: the share of time in which they were met, and each breach
    Sla {
        #[command(subcommand)]
        command: SlaCommand,
    },
    /// Inspect logs of demand
    Workload {
        #[command(subcommand)]
        command: WorkloadCommand,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum WorkloadCommand {
    /// Summarize a log of demand and the signal derived from it
    Show(ShowArgs),
}

/// Run a deployment in virtual time, once for each point of its sweep.
///
/// The scenario describes sites, brokers and service managers, their demand and
/// the faults. The same scenario and seed give the same result, whatever the number of
/// threads.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct EmulateArgs {
    /// The scenario file, in TOML
    #[arg(value_name = "SCENARIO.toml")]
    pub(crate) scenario: PathBuf,

    /// The log of demand: .swf or .csv, plain or .gz; short for --set workload.file=FILE
    #[arg(long, value_name = "FILE")]
    pub(crate) workload: Option<PathBuf>,

    /// Set a key of the scenario; a swept key is then no longer swept [may be repeated]
    #[arg(long, value_name = "KEY=VALUE")]
    pub(crate) set: Vec<Override>,

    /// The seed of all random draws; short for --set seed=N
    #[arg(long, value_name = "N")]
    pub(crate) seed: Option<u64>,

    /// Write the results into this folder
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,

    /// Plot a field of the runs, such as `facts` or `answer_s.p99`, against the first swept key into DIR/FIELD.svg [may
    /// be repeated]
    #[arg(long, value_name = "FIELD", requires = "out")]
    pub(crate) plot: Vec<String>,

    /// Keep the journals of all actors in this folder, for `tenure journal`
    #[arg(long, value_name = "DIR")]
    pub(crate) journals: Option<PathBuf>,

    /// How many runs to execute in parallel [default: as many as there are processors]
    #[arg(long, value_name = "N", value_parser = counted::<NonZeroUsize>)]
    pub(crate) threads: Option<NonZeroUsize>,

    /// Output format
    #[arg(short, long, value_enum, default_value_t)]
    pub(crate) output: Format,
}

const EXAMPLES: &str = "\
Examples:
  tenure emulate config/emulations/quick.toml
  tenure emulate config/emulations/lease-term.toml --workload jobs.swf.gz --out results
  tenure emulate config/emulations/lease-term.toml --set term=12h --set message.loss=0.1
  tenure emulate config/emulations/quick.toml --set 'sweep.seed=[1, 2, 3]' -o csv
  tenure emulate config/emulations/quick.toml --set 'sweep.seed=[1, 2, 3]' --out results --plot setups

Exit codes: 0 ok, 1 error (also a run that stalled or failed), 2 usage";

/// Run random deployments in virtual time, with injected faults.
///
/// Each seed draws sites, brokers, service managers, their activity and the faults of a month:
/// messages, clocks, crashes, storage, drivers, mappers, dishonest actors. After each step the laws of
/// leasing (docs/INVARIANTS.md) are checked; at the end nothing may be left unfinished. The
/// same seed gives the same run, to the last byte.
#[derive(Args, Debug)]
#[command(after_help = SIMULATIONS)]
pub(crate) struct SimulateArgs {
    /// The number of seeds
    #[arg(long, value_name = "N", default_value = "100", value_parser = counted::<NonZeroU64>)]
    pub(crate) seeds: NonZeroU64,

    /// The first seed
    #[arg(long, value_name = "S", default_value = "0")]
    pub(crate) start: u64,

    /// The number of seeds run in parallel [default: as many as there are processors]
    #[arg(long, value_name = "J", value_parser = counted::<NonZeroUsize>)]
    pub(crate) jobs: Option<NonZeroUsize>,

    /// Leave out a family of faults [may be repeated]
    #[arg(long, value_name = "FAMILY", value_parser = Family::from_str)]
    pub(crate) without: Vec<Family>,

    /// Stop the faults at this time, if that is earlier than drawn, such as 3d4h
    #[arg(long, value_name = "TIME", value_parser = parse_span)]
    pub(crate) until: Option<Span>,

    /// Output format
    #[arg(short, long, value_enum, default_value_t)]
    pub(crate) output: SummaryFormat,
}

const SIMULATIONS: &str = "\
Examples:
  tenure simulate --seeds 1000
  tenure simulate --seeds 1 --start 31
  tenure simulate --seeds 1 --start 31 --without loss --without 'wild clock' --until 3d

Exit codes: 0 ok, 1 a law was broken, with a line that brings it back, 2 usage";

/// How a summary is printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum SummaryFormat {
    /// Lists of counts
    #[default]
    Table,
    /// One JSON object
    Json,
}

/// A positive count.
pub(crate) fn counted<N: FromStr>(text: &str) -> Result<N, String> {
    text.parse().map_err(|_| "expected a positive whole number in range".to_owned())
}

/// Output format.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// A table with a summary below
    #[default]
    Table,
    /// One JSON object
    Json,
    /// One JSON object a line for each run, fact or difference
    Jsonl,
    /// A header row, then a row for each of them
    Csv,
}

/// Whether errors are printed as JSON. Decided from the raw arguments, since they may not parse.
pub(crate) fn asks_for_json(args: &[OsString]) -> bool {
    let json = |value: &str| matches!(value, "json" | "jsonl");
    let joined = ["-o=", "-o", "--output="];
    // What follows `--` is another program's.
    let own = args.iter().take_while(|word| *word != "--");
    let mut words = own.filter_map(|word| word.to_str()).peekable();
    while let Some(word) = words.next() {
        let next = words.peek().copied().unwrap_or_default();
        if (matches!(word, "-o" | "--output") && json(next))
            || joined.iter().any(|flag| word.strip_prefix(flag).is_some_and(json))
        {
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_commands_are_well_formed() {
        Cli::command().debug_assert();
    }

    #[test]
    fn json_is_seen_in_every_form() {
        let asks = |line: &str| {
            asks_for_json(&line.split(' ').map(OsString::from).collect::<Vec<OsString>>())
        };
        for line in ["x -o json", "x -ojsonl y", "-o=json", "--output json", "--output=json"] {
            assert!(asks(line), "{line}");
        }
        for line in ["x -o table", "json", "-o", "--output=csv json"] {
            assert!(!asks(line), "{line}");
        }
    }
}
