//! `tenure unit resolve`: whose a unit is that several claim.

use clap::Args;
use tenure_node::api::{ClaimView, Request};

use super::super::args::Change;
use super::super::{ask, ask_change, print};
use crate::Console;
use crate::error::Error;

/// Say whose a unit is that several claim, or list such units.
///
/// Two services tell of the same host, or one tells of a host that is leased for another, or two sites lend it, or a
/// broker says that another guest claims it. Until that is settled, it counts for nobody, and is not joined or left.
#[derive(Args, Debug)]
#[command(after_help = RESOLVE)]
pub(crate) struct ResolveArgs {
    #[command(flatten)]
    endpoint: Change,

    /// The unit or the name of its host: alpha/u3 or node7 [default: all that several claim]
    unit: Option<String>,

    /// Whose it is: batch, guest/batch, a service of another guest as listed, or of several units alpha/u3
    #[arg(long, value_name = "CLAIM", requires = "unit")]
    keep: Option<String>,
}

const RESOLVE: &str = "\
Examples:
  tenure unit resolve
  tenure unit resolve node7
  tenure unit resolve node7 --keep batch";

/// `tenure unit resolve`
pub(super) fn resolve(args: &ResolveArgs, console: &mut Console<'_>) -> Result<(), Error> {
    let ResolveArgs { endpoint, unit, keep } = args;
    let claims: Vec<ClaimView> = match (unit, keep) {
        (Some(unit), Some(keep)) => {
            let (unit, keep) = (unit.clone(), keep.clone());
            ask_change(endpoint, &Request::Resolve { unit, keep })?
        }
        (unit, _) => ask(&endpoint.data, &Request::Claims { unit: unit.clone() })?,
    };
    print::rows(&claims, endpoint.output, "no unit is claimed by several", console)
}

impl print::Row for ClaimView {
    const COLUMNS: &'static [&'static str] =
        &["host", "claimed by", "unit", "lease", "ticket", "since", "state", "known by"];

    fn cells(&self) -> Vec<String> {
        vec![
            self.member.clone(),
            self.service.clone(),
            print::or_dash(self.unit.as_ref()),
            print::or_dash(self.lease.as_ref()),
            print::or_dash(
                self.ticket.as_ref().map(|ticket| ticket.chars().take(12).collect::<String>()),
            ),
            self.since.clone(),
            self.state.clone(),
            self.broker.clone().unwrap_or_else(|| self.manager.clone()),
        ]
    }
}
