//! `tenure broker forward`, `accept` and `routes`.

use std::str::FromStr;

use clap::Args;
use tenure_core::model::name::Name;
use tenure_core::model::time::Span;
use tenure_node::api::{AcceptRequest, NeighbourRequest, NeighbourView, Request};

use super::args::{Change, Endpoint};
use super::{ask, ask_change, print};
use crate::Console;
use crate::error::Error;

/// Have a broker pass on to another one the requests that it cannot meet.
///
/// The other broker takes them if it accepts them from this one; the guest's leases are then of its units.
#[derive(Args, Debug)]
#[command(after_help = FORWARDS)]
pub(crate) struct ForwardArgs {
    #[command(flatten)]
    endpoint: Change,
    /// The broker
    broker: Name,
    /// The other broker
    to: Name,
    /// Pass nothing on to it any more
    #[arg(long)]
    stop: bool,
}

const FORWARDS: &str = "\
Examples:
  tenure broker forward campus company
  tenure broker accept company campus --types node --longest 2h";

/// Have a broker take the requests that another one passes on.
#[derive(Args, Debug)]
#[command(after_help = FORWARDS)]
pub(crate) struct AcceptArgs {
    #[command(flatten)]
    endpoint: Change,
    /// The broker
    broker: Name,
    /// The other broker, which passes requests on
    from: Name,
    /// Of units of these types alone, separated by commas [default: any]
    #[arg(long, value_name = "TYPE,..", value_delimiter = ',', conflicts_with = "stop")]
    types: Vec<Name>,
    /// For terms no longer than this [default: any]
    #[arg(long, value_name = "SPAN", value_parser = Span::from_str, conflicts_with = "stop")]
    longest: Option<Span>,
    /// Take nothing from it any more
    #[arg(long)]
    stop: bool,
}

/// List with which brokers requests are passed on.
#[derive(Args, Debug)]
pub(crate) struct RoutesArgs {
    #[command(flatten)]
    endpoint: Endpoint,
    /// The broker [default: all]
    broker: Option<Name>,
}

/// `tenure broker forward`
pub(super) fn forward(args: &ForwardArgs, console: &mut Console<'_>) -> Result<(), Error> {
    let request = NeighbourRequest {
        broker: args.broker.clone(),
        with: args.to.clone(),
        forward: Some(!args.stop),
        accept: None,
    };
    set(request, &args.endpoint, console)
}

/// `tenure broker accept`
pub(super) fn accept(args: &AcceptArgs, console: &mut Console<'_>) -> Result<(), Error> {
    let accept = match args.stop {
        true => AcceptRequest::None,
        false => AcceptRequest::Some { types: args.types.clone(), longest: args.longest },
    };
    let request = NeighbourRequest {
        broker: args.broker.clone(),
        with: args.from.clone(),
        forward: None,
        accept: Some(accept),
    };
    set(request, &args.endpoint, console)
}

fn set(request: NeighbourRequest, to: &Change, console: &mut Console<'_>) -> Result<(), Error> {
    let all: Vec<NeighbourView> = ask_change(to, &Request::SetNeighbour(Box::new(request)))?;
    print::rows(&all, to.output, NONE, console)
}

/// `tenure broker routes`
pub(super) fn list(args: &RoutesArgs, console: &mut Console<'_>) -> Result<(), Error> {
    let request = Request::Neighbours { broker: args.broker.clone() };
    let all: Vec<NeighbourView> = ask(&args.endpoint.data, &request)?;
    print::rows(&all, args.endpoint.output, NONE, console)
}

const NONE: &str = "no requests are passed on";

impl print::Row for NeighbourView {
    const COLUMNS: &'static [&'static str] =
        &["broker", "with", "forwards", "accepts", "types", "longest", "passed"];

    fn cells(&self) -> Vec<String> {
        let word = |yes: bool| if yes { "yes" } else { "no" }.to_owned();
        let any = |text: Option<String>| text.unwrap_or_else(|| "any".to_owned());
        let of_accepted = |text| if self.accept { any(text) } else { "-".to_owned() };
        let types = Some(self.types.join(" ")).filter(|types| !types.is_empty());
        vec![
            self.broker.clone(),
            self.with.clone(),
            word(self.forward),
            word(self.accept),
            of_accepted(types),
            of_accepted(self.longest.map(|longest| longest.to_string())),
            self.passed.to_string(),
        ]
    }
}
