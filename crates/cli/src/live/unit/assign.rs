//! `tenure unit assign`, `adopt` and `move`: a unit goes to a service because a user says so.

use std::collections::BTreeMap;
use std::path::Path;
use std::str::FromStr;

use clap::Args;
use tenure_core::driver::UnitId;
use tenure_core::model::name::Name;
use tenure_core::model::property::Properties;
use tenure_core::model::time::Span;
use tenure_core::wire::need::URGENCY;
use tenure_node::api::moment::Moment;
use tenure_node::api::{LeaseRequest, LeaseView, Request, ServiceName, ServiceView};
use tenure_node::driver::{ADOPT, Adopt};

use super::super::args::{Endpoint, WaitArgs, owner};
use super::super::interrupt::Interrupt;
use super::super::lease::follow;
use super::super::{ask, connect, print};
use super::{UnitView, find, way_back};
use crate::Console;
use crate::error::Error;

/// Lease a unit for a service, wanted or not.
///
/// It is leased for the `term` of the service; while nothing wants it, it goes back after `idle-after`. If somebody
/// else has it, the lease begins once it is free.
#[derive(Args, Debug)]
pub(crate) struct AssignArgs {
    #[command(flatten)]
    endpoint: Endpoint,

    /// The unit: alpha/u3
    #[arg(value_parser = owner::unit)]
    unit: (Name, UnitId),

    /// The service: batch or guest/batch
    service: ServiceName,

    /// The type of the unit; that of the units of the service unless set
    #[arg(long = "type", value_name = "TYPE")]
    resource: Option<Name>,

    /// How urgent it is to brokers with the mapper `urgency`, which compare it with what services claim
    #[arg(long, default_value_t = 1000)]
    urgency: u32,

    /// How long to try if the unit is not free
    #[arg(long, value_name = "TIME", value_parser = Span::from_str, default_value = "10m")]
    within: Span,

    #[command(flatten)]
    wait: WaitArgs,
}

/// Lease a machine that a service uses already, as it is.
///
/// Its site and the adapter of the service find it up, and change nothing on it; work on it goes on. The driver of the
/// site must allow that (setting `adopt`).
#[derive(Args, Debug)]
#[command(after_help = ADOPTED)]
pub(crate) struct AdoptArgs {
    #[command(flatten)]
    assign: AssignArgs,

    /// At the end of the lease take the machine from the service, and tear it down like any other
    #[arg(long)]
    take: bool,
}

const ADOPTED: &str = "\
At the end of the lease no more work begins on the machine, and it stays as it is. It is torn down before somebody else
gets it; `tenure site drain` keeps it from being leased.

Examples:
  tenure unit adopt alpha/u3 lab/batch --wait
  tenure unit adopt alpha/u3 lab/batch --take";

/// Have a unit that one service has go to another.
///
/// The other service asks for it, and nothing but it, before the first one gives it back. Work on it ends as if it
/// had been unassigned.
#[derive(Args, Debug)]
#[command(after_help = MOVE)]
pub(crate) struct MoveArgs {
    #[command(flatten)]
    assign: AssignArgs,
}

const MOVE: &str = "\
Examples:
  tenure unit move alpha/u3 lab/grid --wait
  tenure unit move alpha/u3 shop/web --urgency 70";

/// `tenure unit assign`
pub(super) fn assign(args: &AssignArgs, console: &mut Console<'_>) -> Result<(), Error> {
    assign_with(args, None, console)
}

/// `tenure unit adopt`
pub(super) fn adopt(args: &AdoptArgs, console: &mut Console<'_>) -> Result<(), Error> {
    let adopt = if args.take { Adopt::Take } else { Adopt::Keep };
    assign_with(&args.assign, Some(adopt), console)
}

fn assign_with(
    args: &AssignArgs,
    adopt: Option<Adopt>,
    console: &mut Console<'_>,
) -> Result<(), Error> {
    let unit = name_of(&args.unit);
    if let Some(view) = find(&args.endpoint.data, &unit)? {
        let UnitView { service, lease, .. } = view;
        let how = lease.map_or_else(String::new, |lease| format!(" by lease {lease}"));
        return Err(Error::Wrong(format!(
            "{service} has unit {unit}{how}: `tenure unit move` takes it from there"
        )));
    }
    lease_to(args, (None, adopt), console)
}

/// `tenure unit move`
pub(super) fn move_to(args: &MoveArgs, console: &mut Console<'_>) -> Result<(), Error> {
    let args = &args.assign;
    let unit = name_of(&args.unit);
    let view = find(&args.endpoint.data, &unit)?.ok_or_else(|| {
        Error::Wrong(format!("nobody here has unit {unit}: `tenure unit assign` leases it"))
    })?;
    lease_to(args, (Some(&view), None), console)
}

fn name_of((site, unit): &(Name, UnitId)) -> String {
    format!("{site}/{unit}")
}

/// Leases the unit for the service. The present holder gives it back once the request for it is open.
fn lease_to(
    args: &AssignArgs,
    (held, adopt): (Option<&UnitView>, Option<Adopt>),
    console: &mut Console<'_>,
) -> Result<(), Error> {
    let data = &args.endpoint.data;
    let service: ServiceView = ask(data, &Request::Service { service: args.service.clone() })?;
    if held.is_some_and(|held| held.service == service.service) {
        let (unit, service) = (name_of(&args.unit), &service.service);
        return Err(Error::Wrong(format!("{service} has unit {unit} already")));
    }
    let request = request(args, &service, (held, adopt))?;
    let mut client = connect(data)?;
    let interrupt = Interrupt::watch(&client, args.wait.wait)?;
    let asked = client.ask(&Request::Ask(Box::new(request)));
    let lease: LeaseView = asked.map_err(|error| interrupt.or(error, None))?;
    if let Some(held) = held {
        give_back_to(data, held, &lease)?;
    }
    if !args.wait.wait {
        return print::rows(&[lease], args.endpoint.output, "", console);
    }
    follow((client, interrupt), &lease, args.wait, args.endpoint.output, console)
}

/// Has the present holder give the unit back. If that fails, the request for it is withdrawn.
fn give_back_to(data: &Path, held: &UnitView, lease: &LeaseView) -> Result<(), Error> {
    let given: Result<Vec<LeaseView>, Error> =
        way_back(data, held, false).and_then(|request| ask(data, &request));
    let Err(error) = given else { return Ok(()) };
    if let Ok(lease) = lease.lease.parse() {
        let _: Vec<LeaseView> = ask(data, &Request::Withdraw { lease })?;
    }
    Err(error)
}

fn request(
    args: &AssignArgs,
    service: &ServiceView,
    (held, adopt): (Option<&UnitView>, Option<Adopt>),
) -> Result<LeaseRequest, Error> {
    let wrong = |error: String| Error::Wrong(error);
    let (manager, slice) = service.service.split_once('/').unwrap_or_default();
    let name = |text: &str| Name::new(text).map_err(|error| wrong(error.to_string()));
    let wanted = service.demands.first().map(|demand| demand.resource.as_str());
    let resource = match (&args.resource, held) {
        (Some(resource), _) => resource.as_str(),
        (None, Some(held)) => &held.resource,
        (None, None) => wanted.unwrap_or("node"),
    };
    let properties = BTreeMap::from([(Name::literal(URGENCY), args.urgency.to_string())]);
    let adopted = adopt.map(|adopt| (Name::literal(ADOPT), adopt.word().to_owned()));
    let configuration: BTreeMap<_, _> = adopted.into_iter().collect();
    let mut only = LeaseRequest::new(name(slice)?, format!("1 {resource}"), service.behaviour.term);
    only.manager = Some(name(manager)?);
    only.latest = Some(Moment::FromNow(args.within));
    only.only_units = [args.unit.clone()].into();
    let listed = |map: BTreeMap<Name, String>| {
        Properties::try_from(map).map_err(|error| wrong(error.to_string()))
    };
    only.properties = listed(properties)?;
    only.configuration = listed(configuration)?;
    only.reason = "by hand".to_owned();
    if service.behaviour.recallable {
        only.notice = Some(service.behaviour.notice);
        only.min_tenure = Some(service.behaviour.min_tenure);
    }
    Ok(only)
}
