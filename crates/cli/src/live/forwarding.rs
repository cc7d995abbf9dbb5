//! `tenure broker forward`, `accept` and `routes`.

use std::collections::BTreeMap;
use std::str::FromStr;

use clap::Args;
use tenure_core::model::name::Name;
use tenure_core::model::time::Span;
use tenure_node::api::{AcceptRequest, EntryView, NeighbourRequest, NeighbourView, Request};

use super::args::{Change, Endpoint};
use super::demand::demand;
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

/// List with which brokers requests are passed on, and which free units these advertise.
#[derive(Args, Debug)]
#[command(after_help = ROUTES)]
pub(crate) struct RoutesArgs {
    #[command(flatten)]
    endpoint: Endpoint,
    /// The broker [default: all]
    broker: Option<Name>,
    /// Show only such units, as `tenure lease request` takes them
    #[arg(long = "for", value_name = "ITEMS")]
    wanted: Option<String>,
}

const ROUTES: &str = "\
Examples:
  tenure broker routes campus
  tenure broker routes campus --for '2 node where cpus >= 8'";

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
    let wanted = args.wanted.as_ref().map(|words| demand(std::slice::from_ref(words), None));
    let wanted = wanted.transpose()?.map(|demand| demand.to_string());
    let request = Request::Neighbours { broker: args.broker.clone(), demand: wanted };
    let all: Vec<NeighbourView> = ask(&args.endpoint.data, &request)?;
    print::rows(&all, args.endpoint.output, NONE, console)
}

const NONE: &str = "no requests are passed on";

impl print::Row for NeighbourView {
    const COLUMNS: &'static [&'static str] =
        &["broker", "with", "forwards", "accepts", "passed", "state", "hops", "free"];

    fn cells(&self) -> Vec<String> {
        let none = || "-".to_owned();
        vec![
            self.broker.clone(),
            self.with.clone(),
            if self.forward { "yes" } else { "no" }.to_owned(),
            accepts(self),
            self.passed.to_string(),
            self.state.clone().unwrap_or_else(none),
            self.hops.map_or_else(none, |hops| hops.to_string()),
            Some(free(&self.entries)).filter(|free| !free.is_empty()).unwrap_or_else(none),
        ]
    }
}

/// What is accepted: types, and the longest term.
fn accepts(view: &NeighbourView) -> String {
    if !view.accept {
        return "no".to_owned();
    }
    let types = Some(view.types.join(" ")).filter(|types| !types.is_empty());
    let types = types.unwrap_or_else(|| "any".to_owned());
    view.longest.map_or_else(|| types.clone(), |longest| format!("{types} for {longest}"))
}

/// How many free units of each type are advertised, wherever they are.
fn free(entries: &[EntryView]) -> String {
    let mut sums = BTreeMap::<&str, Option<u32>>::new();
    for entry in entries {
        let sum = sums.entry(&entry.resource).or_insert(Some(0));
        *sum = sum.zip(entry.free).map(|(one, other)| one.saturating_add(other));
    }
    let sums = sums.into_iter().map(|(resource, free)| match free {
        Some(free) => format!("{free} {resource}"),
        None => format!("some {resource}"),
    });
    sums.collect::<Vec<_>>().join(", ")
}
