//! `tenure site remove`: a unit is withdrawn for good.

use std::str::FromStr;
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use tenure_core::model::time::Span;
use tenure_node::api::{Request, SiteView, UnitAct, UnitView};

use super::args::Endpoint;
use super::args::owner::OneUnit;
use super::{ask, ask_change, print};
use crate::Console;
use crate::error::Error;

/// The pause between two looks at a unit.
const PAUSE: Duration = Duration::from_millis(250);

/// Withdraw a unit for good that is idle and not delegated.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct RemoveArgs {
    #[command(flatten)]
    unit: OneUnit,

    /// Take it from the lease that has it, as if it had failed, and remove it once its guest has given it back and it
    /// is clean
    #[arg(long, conflicts_with = "id")]
    force: bool,

    /// With `--force`, the longest time to wait for that
    #[arg(long, value_name = "TIME", default_value = "5m", value_parser = Span::from_str)]
    timeout: Span,
}

const EXAMPLES: &str = "\
Examples:
  tenure site remove alpha/u3
  tenure site remove alpha/u3 --force --timeout 30m";

/// `tenure site remove`
pub(super) fn remove(args: &RemoveArgs, console: &mut Console<'_>) -> Result<(), Error> {
    let OneUnit { endpoint, .. } = &args.unit;
    if args.force {
        free(&args.unit, args.timeout)?;
    }
    let site: SiteView = ask_change(endpoint, &change(&args.unit, UnitAct::Remove))?;
    print::one(&site, &site.units, endpoint.output, "no units", console)
}

fn change(unit: &OneUnit, act: UnitAct) -> Request {
    let (site, name) = unit.unit.clone();
    Request::Unit { site, unit: name, act }
}

/// Takes a unit from its lease, and waits until it is on none. It gets no other.
fn free(unit: &OneUnit, timeout: Span) -> Result<(), Error> {
    let endpoint = &unit.endpoint.endpoint;
    let mut site = look(endpoint, unit)?;
    if find(unit, &site).is_some_and(|view| !view.drained) {
        site = ask(&endpoint.data, &change(unit, UnitAct::Drain))?;
    }
    let has_tenant = |view: &UnitView| matches!(view.state.as_str(), "setting-up" | "ready");
    if find(unit, &site).is_some_and(has_tenant) {
        let why = "its owner removes it".to_owned();
        site = ask(&endpoint.data, &change(unit, UnitAct::Fail(why)))?;
    }
    let until = Instant::now() + Duration::from_micros(timeout.as_micros().unsigned_abs());
    loop {
        let state = find(unit, &site).map_or("free", |view| view.state.as_str());
        if matches!(state, "free" | "quarantined") {
            return Ok(());
        }
        if Instant::now() >= until {
            let (of, name) = &unit.unit;
            return Err(Error::NotFreed {
                unit: format!("{of}/{name}"),
                state: state.to_owned(),
                after: timeout,
            });
        }
        thread::sleep(PAUSE);
        site = look(endpoint, unit)?;
    }
}

fn look(endpoint: &Endpoint, unit: &OneUnit) -> Result<SiteView, Error> {
    let (site, _) = unit.unit.clone();
    let sites: Vec<SiteView> = ask(&endpoint.data, &Request::Sites { site: Some(site.clone()) })?;
    let none = || Error::Wrong(format!("there is no site {site}"));
    sites.into_iter().next().ok_or_else(none)
}

/// The unit, by its number or its name.
fn find<'a>(unit: &OneUnit, site: &'a SiteView) -> Option<&'a UnitView> {
    let (_, name) = &unit.unit;
    site.units.iter().find(|view| {
        let number = view.unit.rsplit('/').next();
        number == Some(name.as_str()) || view.name.as_deref() == Some(name.as_str())
    })
}
