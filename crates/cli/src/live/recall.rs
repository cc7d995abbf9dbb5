//! `tenure broker recall`, `tenure ticket recall`.

use clap::Args;
use tenure_node::api::moment::Moment;
use tenure_node::api::{RecallView, Request};

use super::args::Change;
use super::{ask_change, print};
use crate::Console;
use crate::error::Error;
use crate::when;

/// Recall units of a ticket.
///
/// Says how many units of the ticket stay. Rights that nobody has claimed go first; units in use go only if the
/// ticket carries a notice, and after it.
#[derive(Args, Debug)]
#[command(after_help = RECALLS)]
pub(crate) struct RecallArgs {
    #[command(flatten)]
    pub(crate) endpoint: Change,

    /// The beginning of the ticket's hash
    pub(crate) ticket: String,

    /// How many units stay
    #[arg(long, value_name = "N", required_unless_present = "withdraw")]
    pub(crate) units: Option<u32>,

    /// From when on [default: now]
    #[arg(long, value_name = "WHEN", value_parser = when::read)]
    pub(crate) from: Option<Moment>,

    /// Withdraw the last recall; what it has taken stays taken
    #[arg(long, conflicts_with_all = ["units", "from"])]
    pub(crate) withdraw: bool,
}

const RECALLS: &str = "\
Examples:
  tenure broker recall 4be1 --units 2
  tenure broker recall 4be1 --units 0 --from now+10m
  tenure ticket recall 99ac --withdraw";

/// Recalls units of a ticket, or withdraws that.
pub(super) fn recall(args: &RecallArgs, console: &mut Console<'_>) -> Result<(), Error> {
    let RecallArgs { endpoint, ticket, units, from, withdraw: _ } = args;
    let request = Request::Recall { ticket: ticket.clone(), units: *units, from: *from };
    let recall: RecallView = ask_change(endpoint, &request)?;
    print::rows(&[recall], endpoint.output, "no recall", console)
}

impl print::Row for RecallView {
    const COLUMNS: &'static [&'static str] =
        &["ticket", "issuer", "number", "units", "from", "at", "enforced"];

    fn cells(&self) -> Vec<String> {
        vec![
            self.ticket.chars().take(10).collect(),
            self.issuer.clone(),
            self.number.to_string(),
            self.units.to_string(),
            self.from.clone(),
            self.at.clone().unwrap_or_else(|| "-".to_owned()),
            if self.enforced { "yes" } else { "no" }.to_owned(),
        ]
    }
}
