//! The words of the commands of owners and brokers.

use std::num::NonZeroU32;
use std::str::FromStr as _;

use clap::{Args, Subcommand};
use tenure_core::driver::UnitId;
use tenure_core::model::name::Name;
use tenure_core::model::time::Span;
use tenure_node::api::moment::Moment;

use super::{Change, Endpoint, property};
use crate::live::availability::AvailabilityArgs;
use crate::live::delegation;
use crate::live::recall::RecallArgs;
use crate::live::removal::RemoveArgs;
use crate::live::{forwarding, sharing};

#[derive(Debug, Subcommand)]
pub(crate) enum SiteCommand {
    /// List sites and their units
    List {
        #[command(flatten)]
        endpoint: Endpoint,
    },
    /// Show the units of a site
    Show {
        #[command(flatten)]
        endpoint: Endpoint,
        /// The site
        site: Name,
    },
    /// Add units to a stock
    Add {
        #[command(flatten)]
        endpoint: Change,
        /// The site
        site: Name,
        /// The type of the units, which the site has
        resource: Name,
        /// How many
        #[arg(long, default_value = "1")]
        units: NonZeroU32,
        /// The names of the units, instead of how many [may be repeated]
        #[arg(long = "name", value_name = "NAME", conflicts_with = "units")]
        names: Vec<Name>,
        /// What units with names are like: rack=b [may be repeated]
        #[arg(long = "attribute", value_name = "KEY=VALUE", requires = "names", value_parser = property)]
        attributes: Vec<(Name, String)>,
    },
    /// Put a unit on no new lease; the lease that it is on keeps it
    Drain {
        #[command(flatten)]
        unit: OneUnit,
        /// From when on the lease has to do without it: now, now+2h or RFC 3339
        #[arg(long, value_name = "WHEN")]
        by: Option<Moment>,
    },
    /// Return a drained unit to service
    Resume(OneUnit),
    /// Take a free unit out of use until it is reset
    Quarantine {
        #[command(flatten)]
        unit: OneUnit,
        /// Why
        #[arg(long, default_value = "")]
        why: String,
    },
    /// Report that a unit has failed: its lease gets another, or goes on without it
    Fail {
        #[command(flatten)]
        unit: OneUnit,
        /// How it failed
        #[arg(long)]
        why: String,
    },
    /// Return a repaired unit from quarantine to service
    Reset(OneUnit),
    Remove(RemoveArgs),
    Delegate(delegation::OfSite),
    Delegations(delegation::Delegations),
    Withdraw(delegation::Withdraw),
}

/// A unit, and how it is changed.
#[derive(Debug, Args)]
pub(crate) struct OneUnit {
    #[command(flatten)]
    pub(in crate::live) endpoint: Change,
    /// The unit, by its number or its name: alpha/u3, alpha/rack1-n07
    #[arg(value_parser = unit_of)]
    pub(in crate::live) unit: (Name, Name),
}

/// A unit by its site, and its number or name there.
fn unit_of(text: &str) -> Result<(Name, Name), String> {
    let parts = text.split_once('/').ok_or("write the site and the unit: alpha/u3")?;
    let name = |text: &str| Name::new(text).map_err(|error| error.to_string());
    Ok((name(parts.0)?, name(parts.1)?))
}

/// A unit by its site and its number there.
pub(in crate::live) fn unit(text: &str) -> Result<(Name, UnitId), String> {
    let bad = || "write the site and the number of the unit: alpha/u3".to_owned();
    let (site, unit) = text.split_once('/').ok_or_else(bad)?;
    let number = unit.strip_prefix('u').unwrap_or(unit).parse().map_err(|_| bad())?;
    Ok((Name::new(site).map_err(|error| error.to_string())?, UnitId(number)))
}

#[derive(Debug, Subcommand)]
pub(crate) enum BrokerCommand {
    /// List brokers and what they can sell
    List {
        #[command(flatten)]
        endpoint: Endpoint,
    },
    /// Show what a broker can sell, and the requests it remembers
    Show {
        #[command(flatten)]
        endpoint: Endpoint,
        /// The broker
        broker: Name,
    },
    Availability(AvailabilityArgs),
    /// Show and set what each service manager may have
    #[command(subcommand)]
    Quota(QuotaCommand),
    /// List the orders that have not ended: units that are taken from a service for another one
    Orders {
        #[command(flatten)]
        endpoint: Endpoint,
        /// The broker [default: all]
        broker: Option<Name>,
    },
    /// List what brokers know of services: what they want, and what it is worth to them
    Needs {
        #[command(flatten)]
        endpoint: Endpoint,
        /// The broker [default: all]
        broker: Option<Name>,
    },
    Share(sharing::ShareArgs),
    Unshare(sharing::UnshareArgs),
    Shares(sharing::SharesArgs),
    Forward(forwarding::ForwardArgs),
    Accept(forwarding::AcceptArgs),
    Routes(forwarding::RoutesArgs),
    Drain(sharing::DrainArgs),
    Resume(sharing::ResumeArgs),
    Delegate(delegation::OfBroker),
    Return(delegation::GiveBack),
    Delegations(delegation::Delegations),
    /// Recall units of a ticket that a broker sold
    Recall(RecallArgs),
}

#[derive(Debug, Subcommand)]
pub(crate) enum QuotaCommand {
    /// List the quotas of peers, with what they use
    List {
        #[command(flatten)]
        endpoint: Endpoint,
        /// The broker [default: all]
        broker: Option<Name>,
    },
    /// Set the quota of a service manager, or of a broker that passes requests on; it prevails over the configuration
    /// until it is cleared
    #[command(after_help = QUOTAS)]
    Set {
        #[command(flatten)]
        endpoint: Change,
        /// The broker
        broker: Name,
        /// The service manager or broker; `each` for those without a quota of their own
        peer: Name,
        /// The units that it may hold at a time
        #[arg(long, value_name = "N")]
        units: Option<u32>,
        /// The unit-hours that it may be granted in one period
        #[arg(long, value_name = "N")]
        unit_hours: Option<u32>,
        /// The length of a period [default: 7d]
        #[arg(long, value_name = "TIME", value_parser = Span::from_str, requires = "unit_hours")]
        period: Option<Span>,
        /// Its requests that may wait for a decision at a time
        #[arg(long, value_name = "N")]
        open_requests: Option<u32>,
        /// Its requests that offers may be held for at a time
        #[arg(long, value_name = "N")]
        holds: Option<u32>,
        /// Its requests that are taken in a second
        #[arg(long, value_name = "N")]
        requests_per_second: Option<u32>,
    },
    /// Put the configured quota of a peer in force again
    Clear {
        #[command(flatten)]
        endpoint: Change,
        /// The broker
        broker: Name,
        /// The service manager or broker; `each` for those without a quota of their own
        peer: Name,
    },
}

const QUOTAS: &str = "\
What is not given is not limited, unless it is for `each`.

Examples:
  tenure broker quota set exchange guest --units 8 --unit-hours 200 --period 1d
  tenure broker quota set exchange each --open-requests 20
  tenure broker quota clear exchange guest";
