//! The words of the commands on tickets.

use std::num::NonZeroU32;
use std::path::PathBuf;
use std::str::FromStr as _;

use clap::{Args, Subcommand};
use tenure_core::model::name::Name;
use tenure_core::model::time::{Span, Time};
use tenure_node::api::moment::Moment;

use super::{Change, Endpoint, WaitArgs, property};
use crate::live::recall::RecallArgs;
use crate::{moment, when};

#[derive(Debug, Subcommand)]
pub(crate) enum TicketCommand {
    /// Show the links of a held ticket, and whether their signatures are valid
    Show {
        #[command(flatten)]
        endpoint: Endpoint,
        /// The beginning of its hash, as `tenure lease show` prints it
        hash: String,
    },
    /// Check a ticket link by link, or evidence of over-issue, without a deployment
    Verify(VerifyArgs),
    /// List the tickets that are kept, and the parts that were handed on
    List {
        #[command(flatten)]
        endpoint: Endpoint,
        /// Only those of this service manager
        #[arg(long = "as", value_name = "NAME")]
        manager: Option<Name>,
    },
    /// Hand parts of a kept ticket on
    Split(SplitArgs),
    /// Redeem a ticket that somebody handed on to you
    Redeem(TakeArgs),
    /// Recall units of a part of a kept ticket that was handed on
    Recall(RecallArgs),
}

/// Hand parts of a kept ticket on.
///
/// Each receiver gets a ticket of its own, as a file: what `-o json` prints, or one file each in the folder of
/// `--out`, named by their places and receivers. What a receiver gives back can be handed on again.
#[derive(Args, Debug)]
#[command(after_help = SPLITS)]
pub(crate) struct SplitArgs {
    #[command(flatten)]
    pub(crate) endpoint: Change,

    /// The ticket: the lease that it would become, as in 3, 3.1 or guest/3.1, or the beginning of its hash
    pub(crate) ticket: String,

    /// The units of each part
    #[arg(long, value_name = "N", default_value = "1")]
    pub(crate) units: NonZeroU32,

    /// Who gets a part: a service manager of the deployment, an id of 64 digits, or key: and those of a public
    /// key [may be repeated]
    #[arg(long, value_name = "KEY", required_unless_present = "to_list")]
    pub(crate) to: Vec<String>,

    /// A file with one receiver a line; - is standard input
    #[arg(long, value_name = "FILE")]
    pub(crate) to_list: Option<PathBuf>,

    /// The length of each part
    #[arg(long = "for", value_name = "TIME", value_parser = Span::from_str)]
    pub(crate) duration: Span,

    /// Its start [default: now, or the start of the ticket]
    #[arg(long, value_name = "WHEN", value_parser = when::read)]
    pub(crate) at: Option<Moment>,

    /// What must hold beside the conditions of the ticket
    #[arg(long = "where", value_name = "EXPR")]
    pub(crate) condition: Option<String>,

    /// When each part has to be redeemed by, in the words of `--at`; unclaimed parts come back after that
    #[arg(long, value_name = "WHEN", value_parser = when::read)]
    pub(crate) redeem_by: Option<Moment>,

    /// Keep the right to recall units in use, after this notice
    #[arg(long, value_name = "TIME", value_parser = Span::from_str)]
    pub(crate) notice: Option<Span>,

    /// Use that right only once the part has lasted so long
    #[arg(long, value_name = "TIME", value_parser = Span::from_str, requires = "notice")]
    pub(crate) min_tenure: Option<Span>,

    /// The folder for the tickets, one file each
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
}

const SPLITS: &str = "\
Examples:
  tenure lease request 40 --for 8h --keep-ticket --wait
  tenure ticket split 7 --units 1 --to-list pupils.txt --for 2h --out tickets
  tenure ticket split 7 --units 2 --to guest --for 1h --where 'cpus >= 8' -o json > part.json";

/// Redeem a ticket that somebody handed on to you.
///
/// Any service manager whose key is the holder's can redeem it. Its issuer need not be known here.
#[derive(Args, Debug)]
pub(crate) struct TakeArgs {
    #[command(flatten)]
    pub(crate) endpoint: Change,

    /// The ticket: what `tenure ticket split` wrote; - is standard input
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,

    /// The service manager that holds it [default: found by the ticket]
    #[arg(long = "as", value_name = "NAME")]
    pub(crate) manager: Option<Name>,

    /// The slice that the lease belongs to
    #[arg(long, value_name = "SLICE", default_value = "main")]
    pub(crate) slice: Name,

    /// A property for the site's driver [may be repeated]
    #[arg(long, value_name = "KEY=VALUE", value_parser = property)]
    pub(crate) property: Vec<(Name, String)>,

    /// Do not redeem the ticket now, but keep it to redeem or split later
    #[arg(long)]
    pub(crate) keep: bool,

    #[command(flatten)]
    pub(crate) wait: WaitArgs,
}

/// Check a ticket link by link, or evidence of over-issue, without a deployment.
///
/// Of a ticket each link must be signed by its issuer and lie inside the one above it, the root must be the
/// site's, and the term must not have ended. If no site is named and a deployment runs, it must
/// be one of its sites; its names of actors are shown, and its clock is used.
#[derive(Args, Debug)]
#[command(after_help = VERIFIED)]
pub(crate) struct VerifyArgs {
    #[command(flatten)]
    pub(crate) endpoint: Endpoint,

    /// The ticket: what `tenure ticket show -o json` prints, or its bytes; - is standard input
    #[arg(value_name = "FILE", required_unless_present = "evidence")]
    pub(crate) file: Option<PathBuf>,

    /// The site whose ticket it must be: a name in the running deployment, an id or a public key
    #[arg(long, value_name = "KEY", conflicts_with = "evidence")]
    pub(crate) site: Option<String>,

    /// The moment to check the term at [default: now]
    #[arg(long, value_name = "TIME", value_parser = moment::parse, conflicts_with = "evidence")]
    pub(crate) at: Option<Time>,

    /// What actors have stated about their keys: what `tenure keys show -o json` prints [may be repeated]
    #[arg(long, value_name = "FILE")]
    pub(crate) keys: Vec<PathBuf>,

    /// Evidence instead of a ticket: what `tenure lease show` or `tenure journal show` prints of the
    /// refusal with `-o json`, or its bytes; - is standard input
    #[arg(long, value_name = "FILE", conflicts_with = "file")]
    pub(crate) evidence: Option<PathBuf>,

    /// Receipts to check with the evidence: what `tenure journal show` prints of them with `-o json`
    /// [may be repeated]
    #[arg(long, value_name = "FILE", requires = "evidence", conflicts_with = "file")]
    pub(crate) receipts: Vec<PathBuf>,
}

const VERIFIED: &str = "\
Examples:
  tenure ticket show c6198a29da -o json > ticket.json
  tenure ticket verify ticket.json --at 2026-11-21T18:05:32Z
  tenure keys show -o json > keys.json
  tenure ticket verify ticket.json --keys keys.json
  tenure lease show 4 -o json | tenure ticket verify --evidence -
  tenure journal show exchange.db --kind receipt -o json > receipts.json
  tenure ticket verify --evidence evidence.json --receipts receipts.json

Exit codes: 0 it holds, or the evidence convicts; 1 it does not, or convicts no actor; 2 usage";
