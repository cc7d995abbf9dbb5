//! `tenure broker recall`, `tenure ticket recall`.

use std::str::FromStr as _;

use clap::Args;
use tenure_core::model::time::Span;
use tenure_node::api::moment::Moment;
use tenure_node::api::{LeaseView, RecallView, Request};

use super::args::Change;
use super::{ask_change, connect, print, settled};
use crate::Console;
use crate::error::Error;
use crate::{text, when};

/// Recall units of a ticket.
///
/// Says how many units of the ticket stay. Rights that nobody has claimed go first; units in use go only if the
/// ticket carries a notice, and after it.
#[derive(Args, Debug)]
#[command(after_help = RECALLS)]
pub(crate) struct RecallArgs {
    #[command(flatten)]
    pub(crate) endpoint: Change,

    /// The beginning of the ticket's hash, the lease that it became: guest/3.1, or the delegation: exchange/1
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

    /// Wait until it has taken what it takes
    #[arg(long)]
    pub(crate) wait: bool,

    /// The longest time to wait, by this machine's clock
    #[arg(long, value_name = "TIME", default_value = "5m", value_parser = Span::from_str)]
    pub(crate) timeout: Span,
}

const RECALLS: &str = "\
Examples:
  tenure broker recall 4be1 --units 2
  tenure broker recall guest/3.0 --units 0 --from now+10m --wait --timeout 1h
  tenure broker recall exchange/1 --units 4
  tenure ticket recall 99ac --withdraw";

/// Recalls units of a ticket, or withdraws that.
pub(super) fn recall(args: &RecallArgs, console: &mut Console<'_>) -> Result<(), Error> {
    let RecallArgs { endpoint, ticket, units, from, withdraw: _, wait, timeout } = args;
    let request = Request::Recall { ticket: ticket.clone(), units: *units, from: *from };
    let mut recall: RecallView = ask_change(endpoint, &request)?;
    if recall.notice.is_none() && units.is_some() {
        let ticket: String = recall.ticket.chars().take(10).collect();
        text::line(
            console.err,
            format_args!("note: ticket {ticket} carries no notice: units in use stay"),
        )?;
    }
    if *wait {
        recall = taken(endpoint, recall, *timeout)?;
    }
    let open = match (wait, &recall.refusal) {
        (true, Some(refusal)) => Some(refusal.in_words()),
        (true, None) => (!recall.enforced).then(|| format!("no end within {timeout}; it goes on")),
        (false, _) => None,
    };
    print::rows(&[recall], endpoint.output, "no recall", console)?;
    match open {
        Some(why) => Err(Error::NotTaken(why)),
        None => Ok(()),
    }
}

/// Waits until a recall has taken what it takes or was refused, for so long at most.
fn taken(endpoint: &Change, recall: RecallView, timeout: Span) -> Result<RecallView, Error> {
    let ticket = recall.ticket.clone();
    let request = |timeout| Request::RecallTaken { ticket: ticket.clone(), timeout };
    let is_settled = |recall: &RecallView| recall.enforced || recall.refusal.is_some();
    settled(&mut connect(&endpoint.data)?, recall, timeout, request, is_settled)
}

/// What is recalled of a lease, in words.
pub(super) fn told(lease: &LeaseView) -> Option<String> {
    Some(lease.recalled.as_ref()?.in_words(lease.units))
}

/// How its user has other units of a lease go first.
pub(super) fn choice(lease: &LeaseView) -> Option<String> {
    let recalled = lease.recalled.as_ref().filter(|recalled| recalled.units > 0)?;
    let going: Vec<String> = recalled.going.iter().map(ToString::to_string).collect();
    (!going.is_empty()).then(|| format!("tenure lease victims {} {}", lease.lease, going.join(",")))
}

impl print::Row for RecallView {
    const COLUMNS: &'static [&'static str] =
        &["ticket", "issuer", "number", "units", "from", "notice", "at", "state"];

    fn cells(&self) -> Vec<String> {
        vec![
            self.ticket.chars().take(10).collect(),
            self.issuer.clone(),
            self.number.to_string(),
            self.units.to_string(),
            self.from.clone(),
            print::or_dash(self.notice),
            print::or_dash(self.at.as_ref()),
            match (&self.refusal, self.enforced, &self.at) {
                (Some(refusal), _, _) => refusal.code.clone(),
                (None, true, _) => "done".to_owned(),
                (None, false, Some(_)) => "announced".to_owned(),
                (None, false, None) => "asked".to_owned(),
            },
        ]
    }
}
