//! `tenure service`: services of guests, what is measured of them, and what they want.

use std::fs;
use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use tenure_core::model::name::Name;
use tenure_core::service::definition::Definition;
use tenure_core::service::kpi::{Kpi, Kpis};
use tenure_core::service::steps::Step;
use tenure_core::service_manager::services::Found;
use tenure_expr::Quantity;
use tenure_node::adapter;
use tenure_node::api::{AdapterView, DemandView, Request, ServiceName, ServiceView, SloView};

use super::args::{Change, Endpoint, Output};
use super::{ask, ask_change, print};
use crate::Console;
use crate::error::Error;
use crate::text;

/// What `tenure service` can do.
#[derive(Debug, Subcommand)]
pub(crate) enum ServiceCommand {
    /// List services: what they want and have
    List(ServicesArgs),
    /// Show a service: its KPIs, its SLOs and its units
    Show(ServiceArgs),
    /// Say what a service lacks, and what is done about it
    Why(ServiceArgs),
    /// Add a service, or change what it is to reach
    Add(AddArgs),
    /// State what was measured of a service
    Report(ServiceReportArgs),
    /// Have the adapter of a service start its software
    Start(ActArgs),
    /// Have the adapter of a service stop its software
    Stop(ActArgs),
    /// Forget a service that does not run; its leases stay
    Remove(RemoveArgs),
}

/// List services: what they want and have.
#[derive(Args, Debug)]
pub(crate) struct ServicesArgs {
    #[command(flatten)]
    endpoint: Endpoint,

    /// Only those of one service manager
    #[arg(long = "as", value_name = "NAME")]
    manager: Option<Name>,
}

/// Show a service: its KPIs, its SLOs and its units.
#[derive(Args, Debug)]
pub(crate) struct ServiceArgs {
    #[command(flatten)]
    endpoint: Endpoint,

    /// The service: batch or guest/batch
    service: ServiceName,
}

/// Add a service, or change what it is to reach.
///
/// The file says what the service is to reach, as SLOs over what is measured of it (docs/SERVICES.md). Its service
/// manager has the mapper `slo`, which asks for what the service claims, and gives back what nothing wants; the
/// leases are those of the slice of the service's name.
#[derive(Args, Debug)]
#[command(after_help = ADD)]
pub(crate) struct AddArgs {
    #[command(flatten)]
    endpoint: Change,

    /// The service: batch or guest/batch
    service: ServiceName,

    /// Its definition, in TOML, or JSON if its name ends so
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

const ADD: &str = "\
Examples:
  tenure service add guest/batch config/services/batch.toml
  tenure service report guest/batch busy-units=4 pending-units=2 oldest-wait=12m
  tenure service show guest/batch";

/// State what was measured of a service.
///
/// Each report has all KPIs: what it does not name is not known any more. A report counts for as long as the service's
/// definition says (`stale-after`); send the next one before.
#[derive(Args, Debug)]
#[command(after_help = REPORT)]
pub(crate) struct ServiceReportArgs {
    #[command(flatten)]
    endpoint: Change,

    /// The service: batch or guest/batch
    service: ServiceName,

    /// What was measured: numbers or lengths of time
    #[arg(value_name = "KPI=VALUE", value_parser = kpi)]
    kpis: Vec<(Kpi, Quantity)>,

    /// How it was found
    #[arg(long, value_name = "HOW", value_enum, default_value_t)]
    seen: How,
}

const REPORT: &str = "\
Examples:
  tenure service report batch busy-units=4 oldest-wait=12m
  tenure service report batch 'pending-units{partition=\"big\"}=3'
  tenure service report batch --seen stopped";

/// Forget a service that does not run; its leases stay.
#[derive(Args, Debug)]
pub(crate) struct RemoveArgs {
    #[command(flatten)]
    endpoint: Change,

    /// The service: batch or guest/batch
    service: ServiceName,
}

/// Have the adapter of a service start or stop its software.
///
/// The answer is how the adapter finds it then. Its leases stay as they are (docs/ADAPTERS.md).
#[derive(Args, Debug)]
pub(crate) struct ActArgs {
    #[command(flatten)]
    endpoint: Change,

    /// The service: batch or guest/batch
    service: ServiceName,
}

/// How a service was found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum How {
    /// It runs
    #[default]
    Running,
    /// It is stopped
    Stopped,
    /// It does not do what it should
    Failed,
}

impl From<How> for Found {
    fn from(how: How) -> Self {
        match how {
            How::Running => Self::Running,
            How::Stopped => Self::Stopped,
            How::Failed => Self::Failed,
        }
    }
}

fn kpi(text: &str) -> Result<(Kpi, Quantity), String> {
    let usual = "write KPI=VALUE, as in busy-units=4 or oldest-wait=12m";
    let (kpi, value) = text.rsplit_once('=').ok_or(usual)?;
    let kpi = kpi.parse::<Kpi>().map_err(|error| error.to_string())?;
    let value = Quantity::try_from(value.to_owned());
    Ok((kpi, value.map_err(|error| format!("{error}; {usual}"))?))
}

/// `tenure service`
pub(crate) fn service(command: &ServiceCommand, console: &mut Console<'_>) -> Result<(), Error> {
    match command {
        ServiceCommand::List(args) => list(args, console),
        ServiceCommand::Show(args) => show(args, console),
        ServiceCommand::Why(args) => why(args, console),
        ServiceCommand::Add(args) => add(args, console),
        ServiceCommand::Report(args) => report(args, console),
        ServiceCommand::Start(args) => {
            let service = args.service.clone();
            act(args, &Request::StartService { service }, console)
        }
        ServiceCommand::Stop(args) => {
            let service = args.service.clone();
            act(args, &Request::StopService { service }, console)
        }
        ServiceCommand::Remove(args) => remove(args, console),
    }
}

fn list(args: &ServicesArgs, console: &mut Console<'_>) -> Result<(), Error> {
    let ServicesArgs { endpoint, manager } = args;
    let request = Request::Services { manager: manager.clone() };
    let services: Vec<ServiceView> = ask(&endpoint.data, &request)?;
    let empty = "no services; `tenure service add` adds one";
    print::rows(&services, endpoint.output, empty, console)
}

fn show(args: &ServiceArgs, console: &mut Console<'_>) -> Result<(), Error> {
    let ServiceArgs { endpoint, service } = args;
    let request = Request::Service { service: service.clone() };
    let service: ServiceView = ask(&endpoint.data, &request)?;
    show_one(&service, endpoint.output, console)
}

fn why(args: &ServiceArgs, console: &mut Console<'_>) -> Result<(), Error> {
    let ServiceArgs { endpoint, service } = args;
    let request = Request::Service { service: service.clone() };
    let service: ServiceView = ask(&endpoint.data, &request)?;
    if endpoint.output != Output::Table {
        return print::one(&service, std::slice::from_ref(&service), endpoint.output, "", console);
    }
    if service.why.is_empty() {
        text::line(console.out, format_args!("{} has all that it claims", service.service))?;
    }
    for line in &service.why {
        text::line(console.out, line)?;
    }
    Ok(())
}

fn add(args: &AddArgs, console: &mut Console<'_>) -> Result<(), Error> {
    let AddArgs { endpoint, service, file } = args;
    let help = "name a file with the definition of a service, such as config/services/batch.toml";
    let text = fs::read_to_string(file).map_err(|source| Error::reading(file, source, help))?;
    let json = file.extension().is_some_and(|extension| extension == "json");
    let read: Result<Definition, String> = if json {
        serde_json::from_str(&text).map_err(|error| error.to_string())
    } else {
        toml::from_str(&text).map_err(|error| error.to_string())
    };
    let wrong = |cause: String| Error::Wrong(format!("{}: {cause}", file.display()));
    let definition = Box::new(read.map_err(wrong)?);
    definition.check().map_err(|bad| wrong(bad.to_string()))?;
    adapter::check(&definition).map_err(|bad| wrong(format!("{bad}; {}", bad.help())))?;
    let request = Request::SetService { service: service.clone(), definition };
    let service: ServiceView = ask_change(endpoint, &request)?;
    show_one(&service, endpoint.output, console)
}

fn report(args: &ServiceReportArgs, console: &mut Console<'_>) -> Result<(), Error> {
    let ServiceReportArgs { endpoint, service, kpis, seen } = args;
    let mut all = Kpis::default();
    for (kpi, value) in kpis {
        if !all.insert(kpi.clone(), *value) {
            let most = Kpis::MAX_COUNT;
            return Err(Error::Wrong(format!("a service has {most} KPIs at most")));
        }
    }
    let request =
        Request::ReportService { service: service.clone(), kpis: all, seen: (*seen).into() };
    let service: ServiceView = ask_change(endpoint, &request)?;
    show_one(&service, endpoint.output, console)
}

fn remove(args: &RemoveArgs, console: &mut Console<'_>) -> Result<(), Error> {
    let RemoveArgs { endpoint, service } = args;
    let request = Request::RemoveService { service: service.clone() };
    let service: ServiceView = ask_change(endpoint, &request)?;
    print::rows(std::slice::from_ref(&service), endpoint.output, "", console)
}

fn act(args: &ActArgs, request: &Request, console: &mut Console<'_>) -> Result<(), Error> {
    let service: ServiceView = ask_change(&args.endpoint, request)?;
    show_one(&service, args.endpoint.output, console)
}

/// Prints a service: its SLOs, its units, and what was measured.
fn show_one(service: &ServiceView, output: Output, console: &mut Console<'_>) -> Result<(), Error> {
    if output != Output::Table {
        return print::one(service, std::slice::from_ref(service), output, "", console);
    }
    print::rows(std::slice::from_ref(service), output, "", console)?;
    if !service.slos.is_empty() {
        writeln!(console.out, "\n{}", print::table(&service.slos, console.width))?;
    }
    if !service.demands.is_empty() {
        writeln!(console.out, "\n{}", print::table(&service.demands, console.width))?;
    }
    writeln!(console.out)?;
    match &service.measured_at {
        Some(at) => {
            let kpis = service.kpis.iter().map(|(kpi, value)| format!("{kpi} {value}"));
            let kpis: Vec<String> = kpis.collect();
            text::line(console.out, format_args!("measured at {at}: {}", kpis.join(", ")))?;
        }
        None => text::line(
            console.out,
            format_args!(
                "nothing that counts was measured: tenure service report {} KPI=VALUE...",
                service.service
            ),
        )?,
    }
    if let Some(adapter) = &service.adapter {
        show_adapter(adapter, console)?;
    }
    for slo in &service.slos {
        if let Some(obstacle) = slo.obstacle.as_ref().filter(|_| service.measured_at.is_some()) {
            text::line(console.out, format_args!("{} cannot be judged: {obstacle}", slo.slo))?;
        }
    }
    Ok(())
}

/// What units are worth, the most urgent first.
pub(super) fn worths(steps: &[Step]) -> String {
    let steps: Vec<String> =
        steps.iter().map(|step| format!("{} at {}", step.units, step.urgency)).collect();
    if steps.is_empty() { "-".to_owned() } else { steps.join(", ") }
}

/// A line of the adapter, and one of what is wrong, if something is.
fn show_adapter(adapter: &AdapterView, console: &mut Console<'_>) -> Result<(), Error> {
    let AdapterView { name, looked_at, error } = adapter;
    let looked =
        looked_at.as_ref().map_or("not looked yet".to_owned(), |at| format!("looked at {at}"));
    text::line(console.out, format_args!("adapter {name}: {looked}"))?;
    if let Some(error) = error {
        text::line(console.out, format_args!("adapter {name}: {error}"))?;
    }
    Ok(())
}

impl print::Row for ServiceView {
    const COLUMNS: &'static [&'static str] =
        &["service", "state", "held", "asked", "wanted", "claimed", "missed"];

    fn cells(&self) -> Vec<String> {
        let sum = |of: fn(&DemandView) -> u32| {
            self.demands.iter().map(|demand| u64::from(of(demand))).sum::<u64>().to_string()
        };
        let missed = self.slos.iter().filter(|slo| slo.state == "missed");
        let missed: Vec<&str> = missed.map(|slo| slo.slo.as_str()).collect();
        vec![
            self.service.clone(),
            self.state.clone(),
            sum(|demand| demand.held),
            sum(|demand| demand.asked),
            sum(|demand| demand.wanted),
            sum(|demand| demand.claimed),
            if missed.is_empty() { "-".to_owned() } else { missed.join(" ") },
        ]
    }
}

impl print::Row for SloView {
    const COLUMNS: &'static [&'static str] = &["slo", "state", "want", "urgency", "since", "rule"];

    fn cells(&self) -> Vec<String> {
        vec![
            self.slo.clone(),
            self.state.clone(),
            print::or_dash(self.want),
            self.urgency.to_string(),
            print::or_dash(self.since.as_ref()),
            print::or_dash(self.rule.as_ref()),
        ]
    }
}

impl print::Row for DemandView {
    const COLUMNS: &'static [&'static str] =
        &["type", "where", "held", "asked", "claimed", "worth"];

    fn cells(&self) -> Vec<String> {
        vec![
            self.resource.clone(),
            print::or_dash(self.requirement.as_ref()),
            self.held.to_string(),
            self.asked.to_string(),
            self.claimed.to_string(),
            worths(&self.steps),
        ]
    }
}
