//! `tenure slice`, `tenure site`, `tenure broker`.

use serde::Serialize;
use tenure_config::EACH;
use tenure_core::broker::quota::Quota;
use tenure_core::model::name::Name;
use tenure_core::model::resource::Value;
use tenure_node::api::{
    BrokerView, DelegationView, NeedView, NewUnits, OrderView, OverbookedView, ProbeView,
    QuotaView, Request, RequestView, SiteView, SliceView, StackHolder, StackView, UnitAct,
    UnitView,
};

use super::args::{
    BrokerCommand, Change, OneUnit, Output, QuotaCommand, SiteCommand, SliceCommand,
};
use super::availability::availability;
use super::{
    ask, ask_change, delegation, forwarding, measure, print, recall, removal, service, sharing,
};
use crate::Console;
use crate::error::Error;

/// `tenure slice ...`
pub(crate) fn slice(command: &SliceCommand, console: &mut Console<'_>) -> Result<(), Error> {
    match command {
        SliceCommand::List { endpoint } => {
            let slices: Vec<SliceView> = ask(&endpoint.data, &Request::Slices)?;
            print::rows(&slices, endpoint.output, "no slices", console)
        }
        SliceCommand::Measure(args) => measure::measure(args, console),
    }
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
                print::one(site, &site.units, endpoint.output, "no units", console)?;
                if endpoint.output == Output::Table && !site.overbooked.is_empty() {
                    writeln!(console.out)?;
                    print::rows(&site.overbooked, endpoint.output, "", console)?;
                }
                if endpoint.output == Output::Table && !site.stacks.is_empty() {
                    writeln!(console.out)?;
                    print::rows(&site.stacks, endpoint.output, "", console)?;
                }
                Ok(())
            })
        }
        SiteCommand::Add { endpoint, site, resource, units, names, attributes } => {
            let new = NewUnits {
                site: site.clone(),
                resource: resource.clone(),
                units: *units,
                names: names.clone(),
                attributes: attributes.iter().map(value).collect(),
            };
            changed(endpoint, &Request::Add(Box::new(new)), console)
        }
        SiteCommand::Drain { unit, by } => {
            act_on(unit, by.map_or(UnitAct::Drain, UnitAct::DrainBy), console)
        }
        SiteCommand::Resume(unit) => act_on(unit, UnitAct::Resume, console),
        SiteCommand::Quarantine { unit, why } => {
            act_on(unit, UnitAct::Quarantine(why.clone()), console)
        }
        SiteCommand::Fail { unit, why } => act_on(unit, UnitAct::Fail(why.clone()), console),
        SiteCommand::Reset(unit) => act_on(unit, UnitAct::Reset, console),
        SiteCommand::Remove(args) => removal::remove(args, console),
        SiteCommand::Delegate(asked) => delegation::of_site(asked, console),
        SiteCommand::Delegations(asked) => delegation::list_site(asked, console),
        SiteCommand::Withdraw(asked) => delegation::withdraw(asked, console),
    }
}

fn value((key, text): &(Name, String)) -> (Name, Value) {
    (key.clone(), Value::read(text))
}

fn act_on(unit: &OneUnit, act: UnitAct, console: &mut Console<'_>) -> Result<(), Error> {
    let (site, name) = unit.unit.clone();
    changed(&unit.endpoint, &Request::Unit { site, unit: name, act }, console)
}

/// Has a site changed, and shows its units.
fn changed(endpoint: &Change, request: &Request, console: &mut Console<'_>) -> Result<(), Error> {
    let site: SiteView = ask_change(endpoint, request)?;
    print::one(&site, &site.units, endpoint.output, "no units", console)
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
                if endpoint.output == Output::Table && !broker.recalls.is_empty() {
                    writeln!(console.out)?;
                    print::rows(&broker.recalls, endpoint.output, "", console)?;
                }
                Ok(())
            })
        }
        BrokerCommand::Availability(args) => availability(args, console),
        BrokerCommand::Quota(command) => quota(command, console),
        BrokerCommand::Orders { endpoint, broker } => {
            let request = Request::Orders { broker: broker.clone() };
            let orders: Vec<OrderView> = ask(&endpoint.data, &request)?;
            print::rows(&orders, endpoint.output, "no orders that have not ended", console)
        }
        BrokerCommand::Needs { endpoint, broker } => {
            let request = Request::Needs { broker: broker.clone() };
            let needs: Vec<NeedView> = ask(&endpoint.data, &request)?;
            print::rows(&needs, endpoint.output, "no services have told of themselves", console)
        }
        BrokerCommand::Share(args) => sharing::share(args, console),
        BrokerCommand::Unshare(args) => sharing::unshare(args, console),
        BrokerCommand::Shares(args) => sharing::list(args, console),
        BrokerCommand::Forward(args) => forwarding::forward(args, console),
        BrokerCommand::Accept(args) => forwarding::accept(args, console),
        BrokerCommand::Routes(args) => forwarding::list(args, console),
        BrokerCommand::Drain(args) => sharing::drain(args, console),
        BrokerCommand::Resume(args) => sharing::resume(args, console),
        BrokerCommand::Delegate(asked) => delegation::of_broker(asked, console),
        BrokerCommand::Return(asked) => delegation::give_back(asked, console),
        BrokerCommand::Delegations(asked) => delegation::list_broker(asked, console),
        BrokerCommand::Recall(args) => recall::recall(args, console),
    }
}

/// `tenure broker quota ...`
fn quota(command: &QuotaCommand, console: &mut Console<'_>) -> Result<(), Error> {
    let whose = |peer: &Name| (peer.as_str() != EACH).then(|| peer.clone());
    let (endpoint, request) = match command {
        QuotaCommand::List { endpoint, broker } => {
            let all = Request::Quotas { broker: broker.clone() };
            let quotas: Vec<QuotaView> = ask(&endpoint.data, &all)?;
            return print::rows(&quotas, endpoint.output, "no quotas", console);
        }
        QuotaCommand::Set {
            endpoint,
            broker,
            peer,
            units,
            unit_hours,
            period,
            open_requests,
            holds,
            requests_per_second,
        } => {
            let quota = Quota {
                units: *units,
                unit_hours: *unit_hours,
                period: *period,
                open_requests: *open_requests,
                holds: *holds,
                requests_per_second: *requests_per_second,
            };
            let (broker, peer) = (broker.clone(), whose(peer));
            (endpoint, Request::SetQuota { broker, peer, quota: Some(quota) })
        }
        QuotaCommand::Clear { endpoint, broker, peer } => {
            let (broker, peer) = (broker.clone(), whose(peer));
            (endpoint, Request::SetQuota { broker, peer, quota: None })
        }
    };
    let quotas: Vec<QuotaView> = ask_change(endpoint, &request)?;
    print::rows(&quotas, endpoint.output, "no quotas", console)
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

/// The state of a unit, and whether it gets no new tenant.
fn with_drained(state: &str, drained: bool) -> String {
    if drained { format!("{state}, drained") } else { state.to_owned() }
}

/// A unit, and how much of a divisible stock it is.
pub(super) fn with_quantity(unit: &str, quantity: u32) -> String {
    if quantity > 1 { format!("{unit} ({quantity})") } else { unit.to_owned() }
}

impl print::Row for UnitView {
    const COLUMNS: &'static [&'static str] =
        &["unit", "type", "state", "epoch", "lease", "properties"];

    fn cells(&self) -> Vec<String> {
        let properties = self.properties.iter().map(|(key, value)| format!("{key}={value}"));
        let fault = self.fault.iter().map(|fault| format!("failed: {fault}"));
        let properties = properties.chain(fault);
        vec![
            self.name.iter().fold(with_quantity(&self.unit, self.quantity), |unit, name| {
                format!("{unit} {name}")
            }),
            self.resource.clone(),
            with_probe(&with_drained(&self.state, self.drained), self.probe.as_ref()),
            self.epoch.to_string(),
            print::or_dash(self.lease.as_ref()),
            properties.collect::<Vec<_>>().join(" "),
        ]
    }
}

impl print::Row for OverbookedView {
    const COLUMNS: &'static [&'static str] =
        &["type", "units", "overbooked by", "leases due", "short", "shortage"];

    fn cells(&self) -> Vec<String> {
        let shortage = self.shortage.map_or_else(|| "-".to_owned(), |part| format!("{part:.4}"));
        vec![
            self.resource.clone(),
            self.units.to_string(),
            self.by.to_string(),
            self.due.to_string(),
            self.short.to_string(),
            shortage,
        ]
    }
}

impl print::Row for StackView {
    const COLUMNS: &'static [&'static str] = &["stack", "units", "holders"];

    fn cells(&self) -> Vec<String> {
        let holder =
            |holder: &StackHolder| format!("{} {} - {}", holder.holder, holder.start, holder.end);
        let holders: Vec<String> = self.holders.iter().map(holder).collect();
        let holders = if holders.is_empty() { "-".to_owned() } else { holders.join(", ") };
        vec![self.stack.clone(), self.units.join(" "), holders]
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
            print::or_dash(self.free),
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

/// What is used of what there may be.
fn of(used: impl ToString, most: Option<u32>) -> String {
    most.map_or_else(|| used.to_string(), |most| format!("{}/{most}", used.to_string()))
}

impl print::Row for OrderView {
    const COLUMNS: &'static [&'static str] =
        &["order", "state", "units", "type", "from", "worth", "to", "claim", "due"];

    fn cells(&self) -> Vec<String> {
        vec![
            self.order.clone(),
            self.state.clone(),
            self.units.to_string(),
            self.resource.clone(),
            self.from.clone(),
            self.worth.to_string(),
            self.to.clone(),
            self.claim.to_string(),
            print::or_dash(self.due.as_ref()),
        ]
    }
}

impl print::Row for NeedView {
    const COLUMNS: &'static [&'static str] =
        &["broker", "service", "type", "where", "worth", "tickets", "elsewhere"];

    fn cells(&self) -> Vec<String> {
        vec![
            self.broker.clone(),
            self.service.clone(),
            self.resource.clone(),
            print::or_dash(self.requirement.as_ref()),
            service::worths(&self.steps),
            self.tickets.to_string(),
            self.elsewhere.to_string(),
        ]
    }
}

impl print::Row for QuotaView {
    const COLUMNS: &'static [&'static str] =
        &["broker", "peer", "units", "unit-hours", "period", "open", "per second", "set by"];

    fn cells(&self) -> Vec<String> {
        let none = || "-".to_owned();
        vec![
            self.broker.clone(),
            self.peer.clone(),
            of(self.units, self.most_units),
            of(self.unit_hours, self.most_unit_hours),
            self.period.map_or_else(none, |period| period.to_string()),
            of(self.open_requests, self.most_open_requests),
            self.most_requests_per_second.map_or_else(none, |most| most.to_string()),
            self.by.clone().unwrap_or_else(none),
        ]
    }
}
