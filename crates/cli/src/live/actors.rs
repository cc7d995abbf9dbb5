//! `tenure slice`, `tenure site`, `tenure broker`.

use serde::Serialize;
use tenure_node::api::{
    BrokerView, DelegationView, ProbeView, Request, RequestView, SiteView, SliceView, UnitView,
};

use super::args::{BrokerCommand, Output, SiteCommand, SliceCommand};
use super::{ask, print};
use crate::Console;
use crate::error::Error;

/// `tenure slice ...`
pub(crate) fn slice(command: &SliceCommand, console: &mut Console<'_>) -> Result<(), Error> {
    let SliceCommand::List { endpoint } = command;
    let slices: Vec<SliceView> = ask(&endpoint.data, &Request::Slices)?;
    print::rows(&slices, endpoint.output, "no slices", console)
}

/// `tenure site ...`
pub(crate) fn site(command: &SiteCommand, console: &mut Console<'_>) -> Result<(), Error> {
    match command {
        SiteCommand::List { endpoint } => {
            let sites: Vec<SiteView> = ask(&endpoint.data, &Request::Sites { site: None })?;
            let sites: Vec<SiteLine> = sites.iter().map(SiteLine::of).collect();
            print::rows(&sites, endpoint.output, "no sites", console)
        }
        SiteCommand::Show { endpoint, site } => {
            let sites: Vec<SiteView> =
                ask(&endpoint.data, &Request::Sites { site: Some(site.clone()) })?;
            sites.iter().try_for_each(|site| {
                print::one(site, &site.units, endpoint.output, "no units", console)
            })
        }
        SiteCommand::Reset { endpoint, unit: (site, unit) } => {
            let request = Request::Reset { site: site.clone(), unit: *unit };
            let site: SiteView = ask(&endpoint.data, &request)?;
            print::one(&site, &site.units, endpoint.output, "no units", console)
        }
    }
}

/// `tenure broker ...`
pub(crate) fn broker(command: &BrokerCommand, console: &mut Console<'_>) -> Result<(), Error> {
    let none = "no delegations yet";
    match command {
        BrokerCommand::List { endpoint } => {
            let brokers: Vec<BrokerView> = ask(&endpoint.data, &Request::Brokers { broker: None })?;
            let delegations = brokers.iter().flat_map(|broker| broker.delegations.clone());
            let delegations: Vec<DelegationView> = delegations.collect();
            print::all(&brokers, &delegations, endpoint.output, none, console)
        }
        BrokerCommand::Show { endpoint, broker } => {
            let request = Request::Brokers { broker: Some(broker.clone()) };
            let brokers: Vec<BrokerView> = ask(&endpoint.data, &request)?;
            brokers.iter().try_for_each(|broker| {
                print::one(broker, &broker.delegations, endpoint.output, none, console)?;
                if endpoint.output == Output::Table {
                    writeln!(console.out)?;
                    print::rows(&broker.requests, endpoint.output, "no requests", console)?;
                }
                Ok(())
            })
        }
    }
}

/// A site in a line.
#[derive(Serialize)]
struct SiteLine {
    name: String,
    units: usize,
    free: usize,
    leased: usize,
    cleaning: usize,
    quarantined: usize,
    leases: usize,
}

impl SiteLine {
    fn of(site: &SiteView) -> Self {
        let count = |states: &[&str]| {
            site.units.iter().filter(|unit| states.contains(&unit.state.as_str())).count()
        };
        Self {
            name: site.name.clone(),
            units: site.units.len(),
            free: count(&["free"]),
            leased: count(&["ready", "setting-up"]),
            cleaning: count(&["abandoned", "tearing-down"]),
            quarantined: count(&["quarantined"]),
            leases: site.leases.len(),
        }
    }
}

impl print::Row for SiteLine {
    const COLUMNS: &'static [&'static str] =
        &["site", "units", "free", "leased", "cleaning", "quarantined", "leases"];

    fn cells(&self) -> Vec<String> {
        let Self { name, units, free, leased, cleaning, quarantined, leases } = self;
        let counts = [units, free, leased, cleaning, quarantined, leases];
        std::iter::once(name.clone()).chain(counts.map(ToString::to_string)).collect()
    }
}

impl print::Row for SliceView {
    const COLUMNS: &'static [&'static str] = &["manager", "slice", "leases", "active", "units"];

    fn cells(&self) -> Vec<String> {
        let counts = [self.leases, self.active, self.units].map(|count| count.to_string());
        [self.manager.clone(), self.slice.clone()].into_iter().chain(counts).collect()
    }
}

/// How a unit is in a word, and whether it is down.
pub(super) fn with_probe(word: &str, probe: Option<&ProbeView>) -> String {
    match probe.filter(|probe| probe.state == "down") {
        Some(_) => format!("{word}, down"),
        None => word.to_owned(),
    }
}

impl print::Row for UnitView {
    const COLUMNS: &'static [&'static str] =
        &["unit", "type", "state", "epoch", "lease", "properties"];

    fn cells(&self) -> Vec<String> {
        let properties = self.properties.iter().map(|(key, value)| format!("{key}={value}"));
        vec![
            self.unit.clone(),
            self.resource.clone(),
            with_probe(&self.state, self.probe.as_ref()),
            self.epoch.to_string(),
            self.lease.clone().unwrap_or_else(|| "-".to_owned()),
            properties.collect::<Vec<_>>().join(" "),
        ]
    }
}

impl print::Row for DelegationView {
    const COLUMNS: &'static [&'static str] =
        &["broker", "site", "type", "units", "free", "until", "attributes"];

    fn cells(&self) -> Vec<String> {
        let attributes = self.attributes.iter().map(|(key, value)| format!("{key}={value}"));
        vec![
            self.broker.clone(),
            self.site.clone(),
            self.resource.clone(),
            self.units.to_string(),
            self.free.map_or_else(|| "-".to_owned(), |free| free.to_string()),
            self.end.clone(),
            attributes.collect::<Vec<_>>().join(" "),
        ]
    }
}

impl print::Row for RequestView {
    const COLUMNS: &'static [&'static str] =
        &["request", "state", "units", "type", "start", "end", "answer by", "why"];

    fn cells(&self) -> Vec<String> {
        let refusal = self.refusal.as_ref().map(|refusal| refusal.code.clone());
        let refusal = refusal.unwrap_or_default();
        let Self { request, state, units, resource, start, end, answer_by, .. } = self;
        let units = units.to_string();
        let cells = [request, state, &units, resource, start, end, answer_by, &refusal];
        cells.into_iter().cloned().collect()
    }
}
