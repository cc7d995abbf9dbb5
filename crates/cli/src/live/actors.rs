//! `tenure slice`, `tenure site`, `tenure broker`, `tenure ticket`.

use serde::Serialize;
use tenure_node::api::{
    BrokerView, DelegationView, LinkView, Request, RequestView, SiteView, SliceView, TicketView,
    UnitView,
};

use super::args::{BrokerCommand, Output, SiteCommand, SliceCommand, TicketCommand};
use super::{ask, print};
use crate::Console;
use crate::error::Error;

/// `tenure slice ...`
pub(crate) fn slice(command: &SliceCommand, console: &mut Console<'_>) -> Result<(), Error> {
    let SliceCommand::List { door } = command;
    let slices: Vec<SliceView> = ask(&door.data, &Request::Slices)?;
    print::rows(&slices, door.output, "no slices", console)
}

/// `tenure site ...`
pub(crate) fn site(command: &SiteCommand, console: &mut Console<'_>) -> Result<(), Error> {
    match command {
        SiteCommand::List { door } => {
            let sites: Vec<SiteView> = ask(&door.data, &Request::Sites { site: None })?;
            let sites: Vec<SiteLine> = sites.iter().map(SiteLine::of).collect();
            print::rows(&sites, door.output, "no sites", console)
        }
        SiteCommand::Show { door, site } => {
            let sites: Vec<SiteView> =
                ask(&door.data, &Request::Sites { site: Some(site.clone()) })?;
            sites.iter().try_for_each(|site| match door.output {
                Output::Json | Output::Jsonl => Ok(print::json(site, console)?),
                output @ (Output::Table | Output::Csv) => {
                    print::rows(&site.units, output, "no units", console)
                }
            })
        }
        SiteCommand::Reset { door, unit: (site, unit) } => {
            let request = Request::Reset { site: site.clone(), unit: *unit };
            let view: SiteView = ask(&door.data, &request)?;
            print::rows(&view.units, door.output, "no units", console)
        }
    }
}

/// `tenure broker ...`
pub(crate) fn broker(command: &BrokerCommand, console: &mut Console<'_>) -> Result<(), Error> {
    let (door, broker) = match command {
        BrokerCommand::List { door } => (door, None),
        BrokerCommand::Show { door, broker } => (door, Some(broker.clone())),
    };
    let shown = broker.is_some();
    let brokers: Vec<BrokerView> = ask(&door.data, &Request::Brokers { broker })?;
    if matches!(door.output, Output::Json | Output::Jsonl) {
        return Ok(print::json(&brokers, console)?);
    }
    let delegations: Vec<DelegationView> =
        brokers.iter().flat_map(|broker| broker.delegations.clone()).collect();
    print::rows(&delegations, door.output, "no delegations yet", console)?;
    if shown && door.output == Output::Table {
        let requests: Vec<RequestView> =
            brokers.into_iter().flat_map(|broker| broker.requests).collect();
        writeln!(console.out)?;
        print::rows(&requests, door.output, "no requests", console)?;
    }
    Ok(())
}

/// `tenure ticket ...`
pub(crate) fn ticket(command: &TicketCommand, console: &mut Console<'_>) -> Result<(), Error> {
    let TicketCommand::Show { door, hash } = command;
    let ticket: TicketView = ask(&door.data, &Request::Ticket { hash: hash.clone() })?;
    if matches!(door.output, Output::Json | Output::Jsonl) {
        return Ok(print::json(&ticket, console)?);
    }
    if door.output == Output::Table {
        writeln!(console.out, "ticket {}", ticket.ticket)?;
        if let Some(lease) = &ticket.lease {
            writeln!(console.out, "lease  {lease}")?;
        }
        writeln!(console.out)?;
    }
    print::rows(&ticket.links, door.output, "no links", console)
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

impl print::Row for UnitView {
    const COLUMNS: &'static [&'static str] =
        &["unit", "type", "state", "epoch", "lease", "properties"];

    fn cells(&self) -> Vec<String> {
        let properties = self.properties.iter().map(|(key, value)| format!("{key}={value}"));
        vec![
            self.unit.clone(),
            self.resource.clone(),
            self.state.clone(),
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
    const COLUMNS: &'static [&'static str] = &["request", "state", "answer by", "why"];

    fn cells(&self) -> Vec<String> {
        let refusal = self.refusal.as_ref().map(|refusal| refusal.code.clone());
        let refusal = refusal.unwrap_or_default();
        vec![self.request.clone(), self.state.clone(), self.answer_by.clone(), refusal]
    }
}

impl print::Row for LinkView {
    const COLUMNS: &'static [&'static str] =
        &["from", "to", "units", "type", "start", "end", "signed", "constraints"];

    fn cells(&self) -> Vec<String> {
        vec![
            self.issuer.clone(),
            self.holder.clone(),
            self.units.to_string(),
            self.resource.clone(),
            self.start.clone(),
            self.end.clone(),
            if self.signed { "yes" } else { "NO" }.to_owned(),
            self.constraints.join(", "),
        ]
    }
}
