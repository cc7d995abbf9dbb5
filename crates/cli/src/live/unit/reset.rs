//! `tenure unit reset`: a unit that could not be joined is cleaned up, and joined again.

use clap::Args;
use tenure_node::api::{LeaseView, Request};

use super::super::args::Change;
use super::super::{ask_change, print};
use super::{UnitView, id_and_lease, named, of_lease};
use crate::Console;
use crate::error::Error;

/// Leave a unit that could not be joined, and join it again.
///
/// What a join that failed half-way has left behind is cleaned up by the leave of the adapter of its service, or of the
/// guest's driver; then the unit is joined again, by the adapter as it is defined by then. It is in error again if
/// that fails too. `tenure site reset` is for units that their owner could not clean.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ResetArgs {
    #[command(flatten)]
    endpoint: Change,

    /// The unit: alpha/u3
    unit: String,
}

const EXAMPLES: &str = "\
`tenure unit show` says how the unit is then, and `tenure lease why` of its lease why it is in error.

Examples:
  tenure unit reset alpha/u3
  tenure unit reset alpha/u3 -o json";

/// `tenure unit reset`
pub(super) fn reset(args: &ResetArgs, console: &mut Console<'_>) -> Result<(), Error> {
    let ResetArgs { endpoint, unit } = args;
    let (id, lease) = id_and_lease(&named(&endpoint.data, unit)?)?;
    let leases: Vec<LeaseView> = ask_change(endpoint, &Request::ResetUnit { lease, unit: id })?;
    let units = leases.into_iter().flat_map(of_lease).filter(|view| view.unit == *unit);
    let units: Vec<UnitView> = units.collect();
    print::rows(&units, endpoint.output, "no units", console)
}
