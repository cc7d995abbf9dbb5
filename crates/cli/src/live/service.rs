//! `tenure service`: services of guests, what is measured of them, and what they want.

mod kpi;
mod plan;
mod watch;

use std::fs;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand, ValueEnum};
use tenure_core::model::name::Name;
use tenure_core::model::time::Span;
use tenure_core::service::definition::Definition;
use tenure_core::service::kpi::{Kpi, Kpis};
use tenure_core::service::member::{MemberId, Members};
use tenure_core::service::steps::Step;
use tenure_core::service_manager::services::Found;
use tenure_expr::Quantity;
use tenure_node::adapter;
use tenure_node::api::{AdapterView, DemandView, Request, ServiceName, ServiceView, SloView};
use tenure_sim::workload::parse_span;

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
    /// List what is measured of services
    Kpi(KpiArgs),
    /// Follow services as they change, until interrupted
    Watch(WatchArgs),
    /// Say what a definition of a service would come to, and change nothing
    Plan(PlanArgs),
    /// Add a service, or change what it is to reach
    Add(AddArgs),
    /// Change some keys of what a service is
    Set(SetArgs),
    /// State what was measured of a service
    Report(ServiceReportArgs),
    /// Have the adapter of a service start its software
    Start(ActArgs),
    /// Have the adapter of a service stop its software
    Stop(StopArgs),
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

    /// Neither look at its software before, nor ask whether there are such units
    #[arg(long)]
    unchecked: bool,
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

    /// A host that takes part without a lease; may be repeated
    #[arg(long, value_name = "NAME[=up|down]", value_parser = member)]
    member: Vec<(String, bool)>,
}

const REPORT: &str = "\
Examples:
  tenure service report batch busy-units=4 oldest-wait=12m
  tenure service report batch 'pending-units{partition=\"big\"}=3'
  tenure service report batch busy-units=4 --member node7 --member node8=down
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

/// Have the adapter of a service stop its software.
///
/// The answer is how the adapter finds it then. Its leases stay as they are, unless they are to go back.
#[derive(Args, Debug)]
pub(crate) struct StopArgs {
    #[command(flatten)]
    endpoint: Change,

    /// The service: batch or guest/batch
    service: ServiceName,

    /// Give all of its leases back then
    #[arg(long)]
    free_units: bool,
}

/// List what is measured of services.
#[derive(Args, Debug)]
pub(crate) struct KpiArgs {
    #[command(flatten)]
    endpoint: Endpoint,

    /// The service: batch or guest/batch [default: all]
    service: Option<ServiceName>,
}

/// Follow services as they change, until interrupted.
#[derive(Args, Debug)]
pub(crate) struct WatchArgs {
    #[command(flatten)]
    endpoint: Endpoint,

    /// The service: batch or guest/batch [default: all]
    service: Option<ServiceName>,
}

/// Say what a changed definition of a service, or a changed configuration, would come to, and change nothing.
///
/// Copies of the service managers and brokers here go on for a while, as if services were defined so and brokers had
/// those mappers, and as if all that is measured stayed as it is. What is granted, ordered from services and given back
/// by then is listed.
#[derive(Args, Debug)]
#[command(allow_missing_positional = true)]
pub(crate) struct PlanArgs {
    #[command(flatten)]
    endpoint: Endpoint,

    /// The service: batch or guest/batch; without one, FILE is a configuration of the deployment
    service: Option<ServiceName>,

    /// Its definition, in TOML, or JSON if its name ends so
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// For how long they go on
    #[arg(long, value_name = "SPAN", value_parser = parse_span, default_value = "15m")]
    within: Span,
}

/// Change some keys of what a service is.
#[derive(Args, Debug)]
#[command(after_help = SET)]
pub(crate) struct SetArgs {
    #[command(flatten)]
    endpoint: Change,

    /// The service: batch or guest/batch
    service: ServiceName,

    /// What is set: keys of its definition with their values
    #[arg(value_name = "KEY=VALUE", required_unless_present = "unset")]
    set: Vec<String>,

    /// A key that is left out from now on, such as an SLO; may be repeated
    #[arg(long, value_name = "KEY")]
    unset: Vec<String>,
}

const SET: &str = "\
Examples:
  tenure service set batch slo.wait.urgency=70 behaviour.most=8
  tenure service set batch 'slo.wait.rule=oldest-wait < 5m'
  tenure service set batch --unset slo.wait.rule";

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
    /// It was told to start, and does not run yet
    Starting,
    /// It was told to stop, and has not stopped yet
    Shutdown,
}

impl From<How> for Found {
    fn from(how: How) -> Self {
        match how {
            How::Running => Self::Running,
            How::Stopped => Self::Stopped,
            How::Failed => Self::Failed,
            How::Starting => Self::Starting,
            How::Shutdown => Self::Shutdown,
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

fn member(text: &str) -> Result<(String, bool), String> {
    let (name, up) = match text.rsplit_once('=') {
        None | Some((_, "up")) => (text.trim_end_matches("=up"), true),
        Some((name, "down")) => (name, false),
        Some((_, other)) => return Err(format!("a member is `up` or `down`, not `{other}`")),
    };
    MemberId::new(name).map(|id| (id.to_string(), up)).map_err(|bad| bad.to_string())
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
        ServiceCommand::Stop(args) => stop(args, console),
        ServiceCommand::Kpi(args) => kpi::kpi(args, console),
        ServiceCommand::Watch(args) => watch::watch(args, console),
        ServiceCommand::Plan(args) => plan::plan(args, console),
        ServiceCommand::Set(args) => set(args, console),
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
    warn(service.warnings.iter(), console)
}

/// What a service wants that cannot come about.
fn warn<'a>(
    warnings: impl Iterator<Item = &'a String>,
    console: &mut Console<'_>,
) -> Result<(), Error> {
    for warning in warnings {
        text::line(console.out, format_args!("warning: {warning}"))?;
    }
    Ok(())
}

fn add(args: &AddArgs, console: &mut Console<'_>) -> Result<(), Error> {
    let AddArgs { endpoint, service, file, unchecked } = args;
    let (service, definition) = (service.clone(), definition(file)?);
    let request = Request::SetService { service, definition, unchecked: *unchecked };
    let service: ServiceView = ask_change(endpoint, &request)?;
    show_one(&service, endpoint.output, console)
}

fn set(args: &SetArgs, console: &mut Console<'_>) -> Result<(), Error> {
    let SetArgs { endpoint, service, set, unset } = args;
    let (service, set, unset) = (service.clone(), set.clone(), unset.clone());
    let service: ServiceView =
        ask_change(endpoint, &Request::ChangeService { service, set, unset })?;
    show_one(&service, endpoint.output, console)
}

/// The definition in a file.
fn definition(file: &Path) -> Result<Box<Definition>, Error> {
    let help = "name a file with the definition of a service, such as config/services/batch.toml";
    let text = fs::read_to_string(file).map_err(|source| Error::reading(file, source, help))?;
    let wrong = |cause: String| Error::Wrong(format!("{}: {cause}", file.display()));
    let json = file.extension().is_some_and(|extension| extension == "json");
    let definition: Box<Definition> = if json {
        serde_json::from_str(&text).map_err(|error| wrong(error.to_string()))?
    } else {
        let name = file.display().to_string();
        let read = tenure_config::read(tenure_config::Source { name: &name, text: &text });
        read.map_err(|error| Error::Definition { error: Box::new(error), text: text.clone() })?
    };
    definition.check().map_err(|bad| wrong(bad.to_string()))?;
    adapter::check(&definition).map_err(|bad| wrong(format!("{bad}; {}", bad.help())))?;
    Ok(definition)
}

fn stop(args: &StopArgs, console: &mut Console<'_>) -> Result<(), Error> {
    let StopArgs { endpoint, service, free_units } = args;
    let (service, free_units) = (service.clone(), *free_units);
    let service: ServiceView = ask_change(endpoint, &Request::StopService { service, free_units })?;
    show_one(&service, endpoint.output, console)
}

fn report(args: &ServiceReportArgs, console: &mut Console<'_>) -> Result<(), Error> {
    let ServiceReportArgs { endpoint, service, kpis, seen, member } = args;
    let mut all = Kpis::default();
    for (kpi, value) in kpis {
        if !all.insert(kpi.clone(), *value) {
            let most = Kpis::MAX_COUNT;
            return Err(Error::Wrong(format!("a service has {most} KPIs at most")));
        }
    }
    let mut members = Members::default();
    for (name, up) in member {
        members.insert(name, *up).map_err(|bad| Error::Wrong(bad.to_string()))?;
    }
    let (service, seen) = (service.clone(), (*seen).into());
    let request = Request::ReportService { service, kpis: all, seen, members };
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
    if !service.members.is_empty() {
        writeln!(console.out, "\n{}", print::table(&service.members, console.width))?;
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
    warn(service.warnings.iter(), console)
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
