//! `tenure broker forward`, `accept` and `routes`.

use std::collections::BTreeMap;
use std::str::FromStr;

use clap::Args;
use tenure_core::model::name::Name;
use tenure_core::model::time::Span;
use tenure_node::api::{
    AcceptRequest, AgreementView, EntryView, NeighbourRequest, Request, RouteKind, RouteView,
};

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

/// List the units that a broker has, has borrowed or lent, and those that its neighbours advertise.
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
    let all: Vec<RouteView> = ask_change(to, &Request::SetNeighbour(Box::new(request)))?;
    print::rows(&all, to.output, NONE, console)
}

/// `tenure broker routes`
pub(super) fn list(args: &RoutesArgs, console: &mut Console<'_>) -> Result<(), Error> {
    let wanted = args.wanted.as_ref().map(|words| demand(std::slice::from_ref(words), None));
    let wanted = wanted.transpose()?.map(|demand| demand.to_string());
    let request = Request::Routes { broker: args.broker.clone(), demand: wanted };
    let all: Vec<RouteView> = ask(&args.endpoint.data, &request)?;
    print::rows(&all, args.endpoint.output, NONE, console)
}

const NONE: &str = "no units and no neighbours";

impl print::Row for RouteView {
    const COLUMNS: &'static [&'static str] =
        &["broker", "kind", "with", "units", "hops", "state", "terms"];

    fn cells(&self) -> Vec<String> {
        let none = || "-".to_owned();
        let state = self.agreed.as_ref().and_then(|agreed| agreed.state.clone());
        let state = state.or_else(|| self.lender.clone());
        vec![
            self.broker.clone(),
            self.kind.word().to_owned(),
            self.with.clone(),
            Some(units(self)).filter(|units| !units.is_empty()).unwrap_or_else(none),
            self.hops.map_or_else(none, |hops| hops.to_string()),
            state.unwrap_or_else(none),
            match (&self.agreed, &self.until) {
                (Some(agreed), _) => terms(agreed),
                (None, until) => {
                    let paused = if self.paused { "paused, " } else { "" };
                    format!("{paused}until {}", until.clone().unwrap_or_else(none))
                }
            },
        ]
    }
}

/// What is agreed with a neighbour: whether requests are passed on to it, and which of its own are taken.
fn terms(agreed: &AgreementView) -> String {
    let mut terms = Vec::new();
    if agreed.forward {
        terms.push("forwards".to_owned());
    }
    if agreed.passed > 0 {
        terms.push(format!("{} pending", agreed.passed));
    }
    if agreed.accept {
        let types = Some(agreed.types.join(" ")).filter(|types| !types.is_empty());
        let most = agreed.most_units.map(|most| format!("{most} "));
        let longest = agreed.longest.map(|longest| format!(" for {longest}"));
        let types = types.unwrap_or_else(|| "any".to_owned());
        let (most, longest) = (most.unwrap_or_default(), longest.unwrap_or_default());
        terms.push(format!("takes {most}{types}{longest}"));
    }
    if terms.is_empty() { "none".to_owned() } else { terms.join(", ") }
}

/// How many units of each type there are, or are free, wherever they are.
fn units(route: &RouteView) -> String {
    let mut sums = BTreeMap::<&str, (Option<u32>, u32)>::new();
    for EntryView { resource, free, units, .. } in &route.entries {
        let (frees, all) = sums.entry(resource).or_insert((Some(0), 0));
        *frees = frees.zip(*free).map(|(one, other)| one.saturating_add(other));
        *all = all.saturating_add(units.unwrap_or(0));
    }
    let sums = sums.into_iter().map(|(resource, (free, all))| match (route.kind, free) {
        (RouteKind::Own | RouteKind::Borrowed, Some(free)) => {
            format!("{free} of {all} {resource}")
        }
        (RouteKind::Lent, _) => format!("{all} {resource}"),
        (_, Some(free)) => format!("{free} {resource}"),
        (_, None) => format!("some {resource}"),
    });
    sums.collect::<Vec<_>>().join(", ")
}
