//! `tenure unit`: the units that service managers have.

mod assign;
mod reset;
mod resolve;
mod run;

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::path::Path;

use clap::{Args, Subcommand};
use serde::Serialize;
use tenure_core::driver::UnitId;
use tenure_core::model::name::Name;
use tenure_core::model::time::Span;
use tenure_core::service_manager::Victims;
use tenure_node::api::{
    BlacklistedView, ClaimView, LeaseName, LeaseUnitView, LeaseView, MemberView, ProbeView,
    Request, ServiceName, ServiceView, WantedLeases,
};
use tenure_sim::workload::parse_span;

use self::assign::{AdoptArgs, AssignArgs, MoveArgs};
use super::args::{Change, Endpoint, Output};
use super::{ask, ask_change, print};
use crate::Console;
use crate::error::Error;
use crate::text;

/// What `tenure unit` can do.
#[derive(Debug, Subcommand)]
pub(crate) enum UnitCommand {
    /// List the units that service managers have, and whose they are
    List(ListArgs),
    /// Show a unit: its lease, its properties, and how it was when it was probed last
    Show(UnitArgs),
    /// Lease a unit for a service, wanted or not
    Assign(AssignArgs),
    /// Lease a machine that a service uses already, as it is
    Adopt(AdoptArgs),
    /// Have a unit that one service has go to another
    Move(MoveArgs),
    /// Give a unit back before its lease ends
    Unassign(UnassignArgs),
    /// Leave a unit that could not be joined, and join it again
    Reset(reset::ResetArgs),
    /// List the units that a service does not ask for, or change that
    Blacklist(BlacklistArgs),
    /// Say whose a unit is that several claim, or list such units
    Resolve(resolve::ResolveArgs),
    /// Run a command on a unit that has an executor
    Run(run::RunArgs),
}

/// List the units that service managers have, and whose they are.
///
/// What the software of a guest does with a unit is its state: assigning, assigned, unassigning, or error if it could
/// not be joined. A static unit takes part in its service without a lease; it is in error while it is down. What
/// several claim is ambiguous (`tenure unit resolve`).
#[derive(Args, Debug)]
pub(crate) struct ListArgs {
    #[command(flatten)]
    endpoint: Endpoint,

    /// Only those of one service manager
    #[arg(long = "as", value_name = "NAME")]
    manager: Option<Name>,

    /// Only those of one service
    #[arg(long)]
    service: Option<Name>,
}

/// Show a unit: its lease, its properties, and how it was when it was probed last.
#[derive(Args, Debug)]
pub(crate) struct UnitArgs {
    #[command(flatten)]
    endpoint: Endpoint,

    /// The unit: alpha/u3
    unit: String,
}

/// Give a unit back before its lease ends.
///
/// A service that still wants as many units asks for another one; `tenure unit blacklist` keeps it from getting
/// this one again.
#[derive(Args, Debug)]
pub(crate) struct UnassignArgs {
    #[command(flatten)]
    endpoint: Change,

    /// The unit: alpha/u3
    unit: String,

    /// Also if the software of its service refuses to leave it
    #[arg(long)]
    force: bool,
}

/// List the units that a service does not ask for, or change that.
///
/// A unit that the software of a service refused to take up is on it for as long as `blacklist-for` of the service says.
#[derive(Args, Debug)]
#[command(after_help = BLACKLIST)]
pub(crate) struct BlacklistArgs {
    #[command(flatten)]
    endpoint: Change,

    /// The service: batch or guest/batch
    service: ServiceName,

    /// The unit: alpha/u3
    unit: Option<String>,

    /// For how long it is not asked for
    #[arg(long = "for", value_name = "SPAN", value_parser = parse_span, default_value = "1d")]
    span: Span,

    /// Ask for it again
    #[arg(long, requires = "unit", conflicts_with = "span")]
    clear: bool,
}

const BLACKLIST: &str = "\
Examples:
  tenure unit blacklist batch
  tenure unit blacklist batch alpha/u3 --for 2h
  tenure unit blacklist batch alpha/u3 --clear";

/// A unit as it is shown.
#[derive(Debug, Serialize)]
struct UnitView {
    /// Its site and number; of a static unit its name.
    unit: String,
    /// Its type.
    resource: String,
    /// The slice or service that has it, as `guest/batch`.
    service: String,
    /// `leased`, or `static` if it takes part in its service without a lease.
    origin: &'static str,
    /// The lease that it is on, if it is leased.
    lease: Option<String>,
    /// `assigning`, `assigned`, `unassigning`, `error` or `ambiguous`.
    state: String,
    /// When its lease ends.
    end: Option<String>,
    /// How its guest has it, if it is leased.
    #[serde(flatten)]
    held: Option<Held>,
}

/// How a guest has a unit.
#[derive(Debug, Serialize)]
struct Held {
    /// The fencing number of the tenancy.
    epoch: u64,
    /// What the guest does with it: joining, joined, unusable, leaving, left.
    r#use: String,
    /// How much of a divisible stock it is; 1 for a machine.
    quantity: u32,
    /// What the site's driver says about it.
    properties: BTreeMap<String, String>,
    /// How it was when it was probed last.
    probe: Option<ProbeView>,
}

impl From<LeaseUnitView> for Held {
    fn from(unit: LeaseUnitView) -> Self {
        let LeaseUnitView { epoch, usage, quantity, properties, probe, .. } = unit;
        Self { epoch, r#use: usage, quantity, properties, probe }
    }
}

/// `tenure unit`
pub(crate) fn unit(command: &UnitCommand, console: &mut Console<'_>) -> Result<(), Error> {
    match command {
        UnitCommand::List(args) => list(args, console),
        UnitCommand::Show(args) => show(args, console),
        UnitCommand::Assign(args) => assign::assign(args, console),
        UnitCommand::Adopt(args) => assign::adopt(args, console),
        UnitCommand::Move(args) => assign::move_to(args, console),
        UnitCommand::Unassign(args) => unassign(args, console),
        UnitCommand::Reset(args) => reset::reset(args, console),
        UnitCommand::Blacklist(args) => blacklist(args, console),
        UnitCommand::Resolve(args) => resolve::resolve(args, console),
        UnitCommand::Run(args) => run::run(args, console),
    }
}

/// All units, or those of one service manager or service.
fn units(
    data: &Path,
    manager: Option<&Name>,
    service: Option<&Name>,
) -> Result<Vec<UnitView>, Error> {
    let (manager, slice) = (manager.cloned(), service.cloned());
    let services: Vec<ServiceView> = ask(data, &Request::Services { manager: manager.clone() })?;
    let wanted = WantedLeases { manager, slice, ..WantedLeases::default() };
    let leases: Vec<LeaseView> = ask(data, &Request::Leases(wanted))?;
    let is = |view: &ServiceView| {
        service.is_none_or(|name| view.service.split('/').next_back() == Some(name.as_str()))
    };
    let services = services.into_iter().filter(is);
    let claims: Vec<ClaimView> = ask(data, &Request::Claims { unit: None })?;
    let leased = leases.into_iter().flat_map(of_lease).map(|mut view| {
        let is = |claim: &ClaimView| claim.unit.as_ref() == Some(&view.unit);
        if claims.iter().any(|claim| is(claim) && claim.state != "kept") {
            view.state = "ambiguous".to_owned();
        }
        view
    });
    Ok(leased.chain(services.flat_map(statics)).collect())
}

/// The units that take part in a service without a lease.
fn statics(service: ServiceView) -> impl Iterator<Item = UnitView> {
    let name = service.service;
    service.members.into_iter().map(move |member| UnitView {
        unit: member.member,
        resource: member.resource,
        service: name.clone(),
        origin: "static",
        lease: None,
        state: member.state,
        end: None,
        held: None,
    })
}

fn of_lease(lease: LeaseView) -> impl Iterator<Item = UnitView> {
    let manager = lease.lease.split('/').next().unwrap_or_default();
    let service = format!("{manager}/{}", lease.slice);
    lease.in_hand.into_iter().map(move |held| UnitView {
        unit: held.unit.clone(),
        resource: lease.resource.clone(),
        service: service.clone(),
        origin: "leased",
        lease: Some(lease.lease.clone()),
        state: held.state.clone(),
        end: Some(lease.end.clone()),
        held: Some(held.into()),
    })
}

/// The unit of a name, if a service manager here has it.
fn find(data: &Path, unit: &str) -> Result<Option<UnitView>, Error> {
    Ok(units(data, None, None)?.into_iter().find(|view| view.unit == unit))
}

/// The unit of a name.
fn named(data: &Path, unit: &str) -> Result<UnitView, Error> {
    find(data, unit)?.ok_or_else(|| {
        Error::Wrong(format!("nobody has unit {unit}; `tenure unit list` lists the units"))
    })
}

/// The number of a unit at its site, and its lease.
fn id_and_lease(view: &UnitView) -> Result<(UnitId, LeaseName), Error> {
    let UnitView { unit, service, .. } = view;
    let id = unit.rsplit('/').next().and_then(|id| id.strip_prefix('u')?.parse().ok());
    let (Some(id), Some(lease)) = (id, &view.lease) else {
        return Err(Error::Wrong(format!("{unit} is a static unit of {service}, and on no lease")));
    };
    Ok((UnitId(id), lease.parse().map_err(|error| Error::Wrong(format!("{error}")))?))
}

/// The request that gives a unit back: with its whole lease if it is the last one of that.
fn way_back(data: &Path, view: &UnitView, force: bool) -> Result<Request, Error> {
    let (unit, lease) = id_and_lease(view)?;
    let leases: Vec<LeaseView> = ask(data, &Request::Lease { lease: lease.clone() })?;
    let last = leases.iter().all(|lease| lease.units <= 1);
    Ok(match last {
        true => Request::Close { lease, by: None, force },
        false => {
            let (shrink, victims) = (NonZeroU32::MIN, Victims::Named(vec![unit]));
            Request::Flex { lease, shrink, victims, force }
        }
    })
}

fn list(args: &ListArgs, console: &mut Console<'_>) -> Result<(), Error> {
    let ListArgs { endpoint, manager, service } = args;
    let units = units(&endpoint.data, manager.as_ref(), service.as_ref())?;
    print::rows(&units, endpoint.output, "no units", console)
}

fn show(args: &UnitArgs, console: &mut Console<'_>) -> Result<(), Error> {
    let UnitArgs { endpoint, unit } = args;
    let unit = named(&endpoint.data, unit)?;
    if endpoint.output != Output::Table {
        return print::one(&unit, std::slice::from_ref(&unit), endpoint.output, "", console);
    }
    print::rows(std::slice::from_ref(&unit), endpoint.output, "", console)?;
    if unit.state == "ambiguous" {
        text::line(console.out, format_args!("claimed by several:"))?;
        let claims: Vec<ClaimView> =
            ask(&endpoint.data, &Request::Claims { unit: Some(unit.unit.clone()) })?;
        print::rows(&claims, endpoint.output, "", console)?;
    }
    for (key, value) in unit.held.iter().flat_map(|held| &held.properties) {
        text::line(console.out, format_args!("{key} = {value}"))?;
    }
    Ok(())
}

fn unassign(args: &UnassignArgs, console: &mut Console<'_>) -> Result<(), Error> {
    let UnassignArgs { endpoint, unit, force } = args;
    let view = named(&endpoint.data, unit)?;
    let leases: Vec<LeaseView> = ask_change(endpoint, &way_back(&endpoint.data, &view, *force)?)?;
    let units: Vec<UnitView> = leases.into_iter().flat_map(of_lease).collect();
    print::rows(&units, endpoint.output, "no units", console)
}

fn blacklist(args: &BlacklistArgs, console: &mut Console<'_>) -> Result<(), Error> {
    let BlacklistArgs { endpoint, service, unit, span, clear } = args;
    let service: ServiceView = match unit {
        None => ask(&endpoint.data, &Request::Service { service: service.clone() })?,
        Some(unit) => {
            let (service, unit) = (service.clone(), unit.clone());
            let span = (!clear).then_some(*span);
            ask_change(endpoint, &Request::Blacklist { service, unit, span })?
        }
    };
    let empty = format!("{} asks for any unit", service.service);
    print::rows(&service.blacklist, endpoint.output, &empty, console)
}

impl print::Row for UnitView {
    const COLUMNS: &'static [&'static str] =
        &["unit", "type", "service", "origin", "lease", "state", "until"];

    fn cells(&self) -> Vec<String> {
        vec![
            self.unit.clone(),
            self.resource.clone(),
            self.service.clone(),
            self.origin.to_owned(),
            print::or_dash(self.lease.as_ref()),
            self.state.clone(),
            print::or_dash(self.end.as_ref()),
        ]
    }
}

impl print::Row for MemberView {
    const COLUMNS: &'static [&'static str] = &["static unit", "type", "state", "since"];

    fn cells(&self) -> Vec<String> {
        vec![self.member.clone(), self.resource.clone(), self.state.clone(), self.since.clone()]
    }
}

impl print::Row for BlacklistedView {
    const COLUMNS: &'static [&'static str] = &["unit", "until"];

    fn cells(&self) -> Vec<String> {
        vec![self.unit.clone(), self.until.clone()]
    }
}
