//! `tenure journal`: whether journals are whole, what is in them, how things stood.

mod fork;
pub(crate) mod listing;
pub(crate) mod paths;
mod replay;
mod show;
mod subject;
#[cfg(test)]
mod tests;
mod verify;

use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, Subcommand};
use tenure_config::Override;
use tenure_core::model::name::Name;
use tenure_core::model::slice::LeaseId;
use tenure_core::model::time::{Span, Time};
use tenure_sim::workload::parse_span;

use crate::Console;
use crate::args::{Format, SummaryFormat};
use crate::error::Error;
use crate::moment;

// Each is described where its words are, so that its help has all of it.
#[derive(Debug, Subcommand)]
pub(crate) enum JournalCommand {
    Verify(VerifyArgs),
    Show(ShowArgs),
    Replay(ReplayArgs),
    Fork(ForkArgs),
}

/// Check that journals are whole and keep the laws of leasing.
///
/// Every fact is read, those in the archive first: its place, its checksum, and the hash that ties it to all facts
/// before it. The segments of an archive must continue from each other, under signatures of their actor. Then
/// the laws of leasing (docs/INVARIANTS.md) are checked on all journals together; the more journals of a
/// deployment are given, the more can be checked. Journals may be in use.
#[derive(Args, Debug)]
#[command(after_help = VERIFIED)]
pub(crate) struct VerifyArgs {
    /// Journals, or folders of journals
    #[arg(value_name = "PATH", required = true)]
    paths: Vec<PathBuf>,

    /// The bound on the difference of two clocks [default: laws that need it are checked in part]
    #[arg(long, value_name = "TIME", value_parser = parse_span)]
    margin: Option<Span>,

    /// Output format
    #[arg(short, long, value_enum, default_value_t)]
    output: SummaryFormat,
}

const VERIFIED: &str = "\
Examples:
  tenure journal verify tenure-data/journals/guest.db
  tenure journal verify tenure-data -o json

Exit codes: 0 ok, 1 a journal is damaged or a law is broken, 2 usage";

/// Show the facts of journals.
///
/// Facts of several journals are merged by time.
#[derive(Args, Debug)]
#[command(after_help = SHOWN)]
pub(crate) struct ShowArgs {
    /// Journals, or folders of journals
    #[arg(value_name = "PATH", required = true)]
    paths: Vec<PathBuf>,

    /// Only facts about this lease, such as 7.0, or about request 7 and all its leases
    #[arg(long, value_name = "ID")]
    lease: Option<Wanted>,

    /// Only facts about leases of this slice
    #[arg(long, value_name = "NAME")]
    slice: Option<Name>,

    /// Only facts at or after this time
    #[arg(long, value_name = "TIME", value_parser = moment::parse)]
    from: Option<Time>,

    /// Only facts before this time
    #[arg(long, value_name = "TIME", value_parser = moment::parse)]
    to: Option<Time>,

    /// Only facts of this kind, or of kinds with this text in their name
    #[arg(long, value_name = "KIND")]
    kind: Option<String>,

    /// Output format
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
}

const SHOWN: &str = "\
Examples:
  tenure journal show tenure-data/journals/guest.db --lease 7.0
  tenure journal show site.alpha.journal --from 1d --to 1d1h --kind unit
  tenure journal show tenure-data --lease 7
  tenure journal show tenure-data/journals/exchange.db -o jsonl

Exit codes: 0 ok, 1 error, 2 usage";

/// Show the state of actors, now or at a moment of the past.
///
/// The facts up to that moment are folded as an actor does when it recovers.
#[derive(Args, Debug)]
#[command(after_help = REPLAYED)]
pub(crate) struct ReplayArgs {
    /// Journals, or folders of journals
    #[arg(value_name = "PATH", required = true)]
    paths: Vec<PathBuf>,

    /// The moment; facts of this very instant count [default: all facts]
    #[arg(long, value_name = "TIME", value_parser = moment::parse)]
    at: Option<Time>,

    /// Also leases that have ended and are only remembered
    #[arg(long)]
    all: bool,

    /// Output format
    #[arg(short, long, value_enum, default_value_t)]
    output: SummaryFormat,
}

const REPLAYED: &str = "\
Examples:
  tenure journal replay tenure-data/journals/guest.db
  tenure journal replay tenure-data --at 2026-11-21T10:00:00Z

Exit codes: 0 ok, 1 error, 2 usage";

/// Continue from a moment of the past under other mappers, and show what would have ended differently.
///
/// Every actor's facts up to the moment are folded. From there the whole deployment continues in virtual
/// time, once with the mappers as they were and once with those that `--set` names. Both receive what the
/// journals recorded from outside after that moment: measured signals, and commands of users and operators,
/// at the same instants. What mappers ask for, brokers grant and sites assign is decided again.
///
/// Journals do not hold the time that messages and drivers take. For an emulation it is drawn as
/// in the scenario, which `tenure emulate --journals` keeps beside the journals; with nothing changed
/// the run repeats itself, fact for fact. For a live deployment each recorded driver call takes
/// as long and ends as it did, any other takes the median of its step at its actor; messages take
/// the median between the two journals, or `--delay`. Crashes and restarts are left
/// out.
#[derive(Args, Debug)]
#[command(after_help = FORKED)]
pub(crate) struct ForkArgs {
    /// The folder with the journals of all actors, the data folder of a live deployment, or the journals
    #[arg(value_name = "PATH", required = true)]
    paths: Vec<PathBuf>,

    /// The moment of the fork; facts of this very instant count [default: when every broker had something
    /// to sell]
    #[arg(long, value_name = "TIME", value_parser = moment::parse)]
    at: Option<Time>,

    /// Set a key of a mapper, in the words of the scenario or configuration [may be repeated; without it
    /// nothing is changed]
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<Override>,

    /// The scenario of an emulation [default: what was kept beside its journals]
    #[arg(long, value_name = "FILE")]
    scenario: Option<PathBuf>,

    /// The configuration of a live deployment [default: what was kept in its data folder]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    /// How long messages take in a live deployment [default: as measured]
    #[arg(long, value_name = "TIME", value_parser = parse_span)]
    delay: Option<Span>,

    /// How the differences are printed
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
}

const FORKED: &str = "\
Examples:
  tenure journal fork journals --set broker.exchange.mapper.name=priority
  tenure journal fork journals --at 12h --set service-manager.web.mapper.give-back=true
  tenure journal fork tenure-data --set 'broker.exchange.mapper={ placement = \"even\" }' -o json

Exit codes: 0 ok, 1 error, 2 usage";

/// A lease, or all leases of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wanted {
    number: u64,
    part: Option<u16>,
}

impl Wanted {
    /// Whether a fact about this request, and this part of it, is wanted.
    fn takes(self, number: u64, part: Option<u16>) -> bool {
        let same = |(wanted, part): (u16, u16)| wanted == part;
        self.number == number && self.part.zip(part).is_none_or(same)
    }
}

impl From<LeaseId> for Wanted {
    fn from(lease: LeaseId) -> Self {
        Self { number: lease.number, part: Some(lease.part) }
    }
}

impl FromStr for Wanted {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (number, part) = match text.split_once('.') {
            Some((number, part)) => (number, Some(part)),
            None => (text, None),
        };
        let bad = |_| "use the number of a request and of its part, such as 7.0, or 7".to_owned();
        let part = part.map(str::parse).transpose().map_err(bad)?;
        Ok(Self { number: number.parse().map_err(bad)?, part })
    }
}

/// Runs one of the commands.
pub(crate) fn run(command: &JournalCommand, console: &mut Console<'_>) -> Result<(), Error> {
    match command {
        JournalCommand::Verify(args) => verify::verify(args, console.out),
        JournalCommand::Show(args) => show::show(args, console),
        JournalCommand::Replay(args) => replay::replay(args, console.out),
        JournalCommand::Fork(args) => fork::fork(args, console),
    }
}
