//! `tenure journal`: whether journals are whole, what is in them, how things stood.

mod listing;
mod replay;
mod show;
mod subject;
#[cfg(test)]
mod tests;
mod verify;

use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, Subcommand};
use tenure_core::name::Name;
use tenure_core::slice::LeaseId;
use tenure_core::time::{Span, Time};
use tenure_sim::workload::parse_span;

use crate::Console;
use crate::args::{Format, SummaryFormat};
use crate::error::Error;
use crate::moment;

#[derive(Debug, Subcommand)]
pub(crate) enum JournalCommand {
    /// Check that journals are whole and keep the laws of leasing
    Verify(VerifyArgs),
    /// Show the facts of a journal
    Show(ShowArgs),
    /// Show how things stood at its actor, now or at a moment of the past
    Replay(ReplayArgs),
}

/// Check that journals are whole and keep the laws of leasing.
///
/// Every fact is read: its place, its checksum, and the hash that ties it to all facts before it. Then
/// the laws of leasing (docs/INVARIANTS.md) are asked of all journals together; the more of a deployment
/// are given, the more can be asked. Journals may be in use meanwhile.
#[derive(Args, Debug)]
#[command(after_help = VERIFIED)]
pub(crate) struct VerifyArgs {
    /// The journals
    #[arg(value_name = "PATH", required = true)]
    paths: Vec<PathBuf>,

    /// The bound on the difference of two clocks [default: laws that rest on one are asked in part]
    #[arg(long, value_name = "TIME", value_parser = parse_span)]
    margin: Option<Span>,

    /// How the result is printed
    #[arg(short, long, value_enum, default_value_t)]
    output: SummaryFormat,
}

const VERIFIED: &str = "\
Examples:
  tenure journal verify guest.journal
  tenure journal verify data/*.journal -o json

Exit codes: 0 ok, 1 a journal is damaged or a law is broken, 2 usage";

/// Show the facts of a journal.
#[derive(Args, Debug)]
#[command(after_help = SHOWN)]
pub(crate) struct ShowArgs {
    /// The journal
    #[arg(value_name = "PATH")]
    path: PathBuf,

    /// Only facts about this lease, such as 7.0, or about request 7 and all its leases
    #[arg(long, value_name = "ID")]
    lease: Option<Wanted>,

    /// Only facts about leases of this slice
    #[arg(long, value_name = "NAME")]
    slice: Option<Name>,

    /// Only facts from this time on
    #[arg(long, value_name = "TIME", value_parser = moment::parse)]
    from: Option<Time>,

    /// Only facts before this time
    #[arg(long, value_name = "TIME", value_parser = moment::parse)]
    to: Option<Time>,

    /// Only facts of this kind; a part of its name will do
    #[arg(long, value_name = "KIND")]
    kind: Option<String>,

    /// How the facts are printed
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
}

const SHOWN: &str = "\
Examples:
  tenure journal show guest.journal --lease 7.0
  tenure journal show alpha.journal --from 1d --to 1d1h --kind unit
  tenure journal show broker.journal -o jsonl

Exit codes: 0 ok, 1 error, 2 usage";

/// Show how things stood at its actor, now or at a moment of the past.
///
/// The facts up to that moment are folded as the actor itself does when it comes back.
#[derive(Args, Debug)]
#[command(after_help = REPLAYED)]
pub(crate) struct ReplayArgs {
    /// The journal
    #[arg(value_name = "PATH")]
    path: PathBuf,

    /// The moment; facts of this very instant count [default: all facts]
    #[arg(long, value_name = "TIME", value_parser = moment::parse)]
    at: Option<Time>,

    /// Also what is over and only remembered
    #[arg(long)]
    all: bool,

    /// How the state is printed
    #[arg(short, long, value_enum, default_value_t)]
    output: SummaryFormat,
}

const REPLAYED: &str = "\
Examples:
  tenure journal replay guest.journal
  tenure journal replay alpha.journal --at 2026-11-21T10:00:00Z

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
        JournalCommand::Show(args) => show::show(args, console.out),
        JournalCommand::Replay(args) => replay::replay(args, console.out),
    }
}
