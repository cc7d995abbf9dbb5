//! `tenure site delegate`, `tenure broker delegate`, `tenure broker return`, and what is delegated.

use std::num::NonZeroU32;

use clap::Args;
use tenure_core::model::name::Name;
use tenure_core::model::time::Span;
use tenure_node::api::moment::Moment;
use tenure_node::api::{
    BrokerDelegation, BrokerView, DelegationName, DelegationView, Request, SiteDelegation, SiteView,
};

use super::args::{Change, Endpoint};
use super::{ask, ask_change, print};
use crate::Console;
use crate::error::Error;
use crate::when;

/// Delegate units by hand, beside what the configuration offers
#[derive(Debug, Args)]
pub(crate) struct OfSite {
    #[command(flatten)]
    endpoint: Endpoint,
    /// The site
    site: Name,
    /// The broker that gets them
    broker: Name,
    /// How many
    units: NonZeroU32,
    /// Their type
    resource: Name,
    /// For how long from now; it is not renewed
    #[arg(long = "for", value_name = "SPAN")]
    duration: Span,
    /// The number of a delegation that is to have so many units, and to last so long
    #[arg(long, value_name = "NUMBER")]
    grow: Option<u64>,
}

/// Delegate units of a delegation to another broker
#[derive(Debug, Args)]
pub(crate) struct OfBroker {
    #[command(flatten)]
    endpoint: Endpoint,
    /// The broker
    broker: Name,
    /// The broker that gets them
    to: Name,
    /// How many
    units: NonZeroU32,
    /// The delegation that they are taken from: alpha/1
    #[arg(long, value_name = "DELEGATION")]
    from: DelegationName,
    /// For how long from now; so far it is renewed with the delegation above
    #[arg(long = "for", value_name = "SPAN")]
    duration: Span,
    /// The number of a delegation that is to have so many units, and to last so long
    #[arg(long, value_name = "NUMBER")]
    grow: Option<u64>,
}

/// Give units of a delegation back to their site
#[derive(Debug, Args)]
pub(crate) struct GiveBack {
    #[command(flatten)]
    endpoint: Endpoint,
    /// The broker
    broker: Name,
    /// The delegation: alpha/1
    delegation: DelegationName,
    /// How many
    units: NonZeroU32,
    /// From when on [default: now]
    #[arg(long, value_name = "TIME")]
    from: Option<Moment>,
}

/// Show what a site or broker has delegated, or has to sell from
#[derive(Debug, Args)]
pub(crate) struct Delegations {
    #[command(flatten)]
    endpoint: Endpoint,
    /// The site or broker
    actor: Name,
}

/// Recall units of a delegation
///
/// Says how many units stay; its broker sells no more. Leases under it lose units only if their tickets carry a
/// notice, and after it.
#[derive(Debug, Args)]
#[command(after_help = WITHDRAWALS)]
pub(crate) struct Withdraw {
    #[command(flatten)]
    endpoint: Change,
    /// The delegation: alpha/1; or the broker that has it, if it has only one
    delegation: String,
    /// How many units stay
    #[arg(long, value_name = "N", required_unless_present = "withdraw")]
    units: Option<u32>,
    /// From when on [default: now]
    #[arg(long, value_name = "WHEN", value_parser = when::read)]
    from: Option<Moment>,
    /// Withdraw the last recall; what it has taken stays taken
    #[arg(long, conflicts_with_all = ["units", "from"])]
    withdraw: bool,
}

const WITHDRAWALS: &str = "\
Examples:
  tenure site withdraw alpha/1 --units 4
  tenure site withdraw exchange --units 0 --from now+1h
  tenure site withdraw alpha/1 --withdraw";

/// `tenure site withdraw`
pub(crate) fn withdraw(asked: &Withdraw, console: &mut Console<'_>) -> Result<(), Error> {
    let Withdraw { endpoint, delegation, units, from, withdraw: _ } = asked;
    let delegation = delegation.clone();
    let request = Request::RecallDelegation { delegation, units: *units, from: *from };
    let sites: Vec<SiteView> = ask_change(endpoint, &request)?;
    let lines = sites.iter().flat_map(|site| &site.delegations).map(Line::of);
    print::rows(&lines.collect::<Vec<_>>(), endpoint.output, "no delegations", console)
}

/// `tenure site delegate`
pub(crate) fn of_site(asked: &OfSite, console: &mut Console<'_>) -> Result<(), Error> {
    let OfSite { endpoint, site, broker, units, resource, duration, grow } = asked;
    let request = Request::DelegateOfSite(Box::new(SiteDelegation {
        site: site.clone(),
        broker: broker.clone(),
        units: *units,
        resource: resource.clone(),
        duration: *duration,
        grow: *grow,
    }));
    let sites: Vec<SiteView> = ask(&endpoint.data, &request)?;
    show_site(&sites, endpoint, console)
}

/// `tenure broker delegate`
pub(crate) fn of_broker(asked: &OfBroker, console: &mut Console<'_>) -> Result<(), Error> {
    let OfBroker { endpoint, broker, to, units, from, duration, grow } = asked;
    let request = Request::DelegateOfBroker(Box::new(BrokerDelegation {
        broker: broker.clone(),
        to: to.clone(),
        units: *units,
        from: from.clone(),
        duration: *duration,
        grow: *grow,
    }));
    let brokers: Vec<BrokerView> = ask(&endpoint.data, &request)?;
    show_broker(&brokers, endpoint, console)
}

/// `tenure broker return`
pub(crate) fn give_back(asked: &GiveBack, console: &mut Console<'_>) -> Result<(), Error> {
    let GiveBack { endpoint, broker, delegation, units, from } = asked;
    let (broker, delegation) = (broker.clone(), delegation.clone());
    let request = Request::GiveBack { broker, delegation, units: *units, from: *from };
    let brokers: Vec<BrokerView> = ask(&endpoint.data, &request)?;
    show_broker(&brokers, endpoint, console)
}

/// `tenure site delegations`
pub(crate) fn list_site(asked: &Delegations, console: &mut Console<'_>) -> Result<(), Error> {
    let request = Request::Sites { site: Some(asked.actor.clone()) };
    let sites: Vec<SiteView> = ask(&asked.endpoint.data, &request)?;
    show_site(&sites, &asked.endpoint, console)
}

/// `tenure broker delegations`
pub(crate) fn list_broker(asked: &Delegations, console: &mut Console<'_>) -> Result<(), Error> {
    let request = Request::Brokers { broker: Some(asked.actor.clone()) };
    let brokers: Vec<BrokerView> = ask(&asked.endpoint.data, &request)?;
    show_broker(&brokers, &asked.endpoint, console)
}

fn show_site(
    sites: &[SiteView],
    endpoint: &Endpoint,
    console: &mut Console<'_>,
) -> Result<(), Error> {
    let lines = sites.iter().flat_map(|site| &site.delegations).map(Line::of);
    print::rows(&lines.collect::<Vec<_>>(), endpoint.output, "no delegations", console)
}

fn show_broker(
    brokers: &[BrokerView],
    endpoint: &Endpoint,
    console: &mut Console<'_>,
) -> Result<(), Error> {
    let all = brokers.iter().flat_map(|broker| broker.delegations.iter().chain(&broker.issued));
    let lines: Vec<Line> = all.map(Line::of).collect();
    print::rows(&lines, endpoint.output, "no delegations", console)
}

/// A delegation in a line.
#[derive(serde::Serialize)]
struct Line(DelegationView);

impl Line {
    fn of(view: &DelegationView) -> Self {
        Self(view.clone())
    }
}

impl print::Row for Line {
    const COLUMNS: &'static [&'static str] = &[
        "delegation",
        "to",
        "type",
        "units",
        "left",
        "free",
        "stay",
        "generation",
        "until",
        "promised",
    ];

    fn cells(&self) -> Vec<String> {
        let Self(view) = self;
        let none = || "-".to_owned();
        vec![
            view.name.clone(),
            view.broker.clone(),
            view.resource.clone(),
            view.units.to_string(),
            view.left.to_string(),
            view.free.map_or_else(none, |free| free.to_string()),
            view.stays.map_or_else(none, |stays| stays.to_string()),
            view.generation.to_string(),
            view.end.clone(),
            view.promised_until.clone().unwrap_or_else(none),
        ]
    }
}
