//! `tenure plan propose`, `accept`, `release`, `list`, `show`, `holds` and `report`: plans of packages on the
//! nodes of a deployment.

use std::fs;
use std::path::PathBuf;
use std::str::FromStr as _;

use clap::{Args, ValueEnum};
use tenure_core::model::name::Name;
use tenure_core::model::time::Span;
use tenure_core::service_manager::plan::{HOLD, OnFailure, WantedPackages};
use tenure_node::api::{
    HoldView, PackageView, PlacementView, PlanName, PlanProposal, PlanView, Request,
};
use thiserror::Error as ThisError;

use super::args::{Change, Endpoint, Output};
use super::report;
use super::{ask, ask_change, connect, print, settled};
use crate::Console;
use crate::error::Error;
use crate::plan;
use crate::text;

/// Have a service manager make a plan of packages on the nodes of a slice.
///
/// The file is a problem, as for `tenure plan solve`; its places are types of nodes. The plan is computed by the
/// service manager's mapper, and holds its nodes from then on. With `--lease` nodes that are missing are leased.
#[derive(Args, Debug)]
#[command(after_help = PROPOSED)]
pub(crate) struct ProposeArgs {
    #[command(flatten)]
    endpoint: Change,

    /// The problem, in TOML or JSON
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// The slice that it is for: its nodes may be used, and those of slices that list it
    #[arg(long, value_name = "SLICE", default_value = "main")]
    slice: Name,

    /// The service manager that plans [default: the only one]
    #[arg(long = "as", value_name = "NAME")]
    manager: Option<Name>,

    /// How long it holds its nodes: all of its packages are to be installed by then
    #[arg(long, value_name = "TIME", default_value_t = HOLD, value_parser = Span::from_str)]
    hold: Span,

    /// What becomes of it if packages fail
    #[arg(long, value_name = "WHAT", value_enum, default_value_t)]
    on_failure: Failing,

    /// Accept it as soon as it is computed
    #[arg(long)]
    accept: bool,

    /// Lease the nodes that are missing, for so long at a time: as few as will do, at most `count` of each
    /// [[place]], and as long as plans use them
    #[arg(long, value_name = "TIME", value_parser = Span::from_str)]
    lease: Option<Span>,

    #[command(flatten)]
    wait: PlanWait,
}

/// How long a plan is waited for.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct PlanWait {
    /// Once it is accepted, wait until its packages are installed
    #[arg(long)]
    wait: bool,

    /// The longest time to wait, by this machine's clock
    #[arg(long, value_name = "TIME", default_value = "5m", value_parser = Span::from_str)]
    timeout: Span,
}

/// What becomes of a plan whose packages are not all installed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Failing {
    /// What is installed stays
    #[default]
    Keep,
    /// What is installed is removed
    RollBack,
    /// Another plan is made, without the nodes on which packages failed, and accepted
    Replan,
}

impl From<Failing> for OnFailure {
    fn from(failing: Failing) -> Self {
        match failing {
            Failing::Keep => Self::Keep,
            Failing::RollBack => Self::RollBack,
            Failing::Replan => Self::Replan,
        }
    }
}

const PROPOSED: &str = "\
Examples:
  tenure plan propose config/planning/packages.toml
  tenure plan propose config/planning/packages.toml --on-failure replan --accept --wait
  tenure plan propose config/planning/packages.toml --lease 1h

Exit codes: 0 the plan is made, with --accept --wait installed; 1 packages failed, 2 a bad problem, 3 there is no
plan, 75 none while others have the nodes, 77 the user is no planner, 124 it was waited for in vain";

/// Accept a plan: have its packages installed.
#[derive(Args, Debug)]
pub(crate) struct AcceptArgs {
    #[command(flatten)]
    endpoint: Change,

    /// The plan: 3 or guest/3
    plan: PlanName,

    #[command(flatten)]
    wait: PlanWait,
}

/// Release a plan: its nodes are free, and what it has installed is removed.
#[derive(Args, Debug)]
pub(crate) struct ReleaseArgs {
    #[command(flatten)]
    endpoint: Change,

    /// The plan: 3 or guest/3
    plan: PlanName,
}

/// List plans.
#[derive(Args, Debug)]
pub(crate) struct ListArgs {
    #[command(flatten)]
    endpoint: Endpoint,

    /// Include plans that have ended, while they are remembered
    #[arg(long)]
    all: bool,

    /// Only plans of this service manager
    #[arg(long = "as", value_name = "NAME")]
    manager: Option<Name>,
}

/// Show a plan, its packages and the runners-up.
#[derive(Args, Debug)]
pub(crate) struct PlanShowArgs {
    #[command(flatten)]
    endpoint: Endpoint,

    /// The plan: 3 or guest/3
    plan: PlanName,
}

/// List the nodes in use, what plans have installed on them, and the plan that holds each.
#[derive(Args, Debug)]
pub(crate) struct HoldsArgs {
    #[command(flatten)]
    endpoint: Endpoint,

    /// Only this node: alpha/u3
    node: Option<String>,
}

/// Report what became of packages that the guest's driver does not install.
#[derive(Args, Debug)]
#[command(after_help = REPORTED)]
pub(crate) struct ReportArgs {
    #[command(flatten)]
    endpoint: Change,

    /// The plan: 3 or guest/3
    plan: PlanName,

    /// The reports, in JSON or XML
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

const REPORTED: &str = "\
The file has a list of packages with the node of each, and with `error` if one is not installed:
  [{\"node\": \"alpha/u0\", \"package\": \"svc/web/1.0/main/1.0\"},
   {\"node\": \"alpha/u1\", \"package\": \"svc/web/1.0/main/1.0\", \"error\": \"no space left\"}]

or the same in XML:
  <report>
    <package node=\"alpha/u0\" name=\"svc/web/1.0/main/1.0\"/>
    <package node=\"alpha/u1\" name=\"svc/web/1.0/main/1.0\" error=\"no space left\"/>
  </report>

or as gCube writes it (docs/PLANNING.md).";

/// Why a plan is not as it was to be.
#[derive(Debug, ThisError)]
pub(crate) enum PlanError {
    /// There is none.
    #[error("plan {0} is infeasible")]
    Infeasible(String),
    /// There is none while others have the nodes.
    #[error("there is no plan {0} for now: others have the nodes")]
    Busy(String),
    /// It was waited for in vain.
    #[error("plan {plan} was not settled within {after}; it continues")]
    TimedOut {
        /// The plan.
        plan: String,
        /// How long it was waited for.
        after: Span,
    },
    /// Its packages are not all installed.
    #[error("the packages of plan {plan} are not all installed: it is {state}")]
    NotInstalled {
        /// The plan.
        plan: String,
        /// How it ended.
        state: String,
    },
}

impl PlanError {
    /// What to do about it.
    pub(crate) fn help(&self) -> String {
        match self {
            Self::Infeasible(plan) => {
                format!("`tenure plan show {plan}` says why; lease other nodes, or ask for less")
            }
            Self::Busy(_) => {
                "`tenure plan holds` says until when plans hold nodes: release one, or try again later"
                    .to_owned()
            }
            Self::TimedOut { plan, .. } => format!("`tenure plan show {plan}` says how far it is"),
            Self::NotInstalled { plan, .. } => format!(
                "`tenure plan show {plan}` has the errors, `tenure plan release {plan}` removes what it installed"
            ),
        }
    }
}

/// `tenure plan propose`
pub(crate) fn propose(args: &ProposeArgs, console: &mut Console<'_>) -> Result<(), Error> {
    let ProposeArgs { endpoint, file, slice, manager, hold, on_failure, accept, lease, wait } =
        args;
    let problem = plan::read::over_nodes(file)?;
    let wanted =
        WantedPackages::try_from(problem).map_err(|message| plan::read::wrong(file, &message))?;
    let proposal = PlanProposal {
        manager: manager.clone(),
        slice: slice.clone(),
        wanted,
        hold: *hold,
        on_failure: (*on_failure).into(),
        accept: *accept,
        lease: *lease,
    };
    let asked: PlanView = ask_change(endpoint, &Request::ProposePlan(Box::new(proposal)))?;
    let plan = follow(endpoint, asked, (*accept && wait.wait, wait.timeout))?;
    show_one(&plan, endpoint.output, console)?;
    verdict(&plan, *wait, *accept && wait.wait)
}

/// `tenure plan accept`
pub(crate) fn accept(args: &AcceptArgs, console: &mut Console<'_>) -> Result<(), Error> {
    let AcceptArgs { endpoint, plan, wait } = args;
    let mut plan: PlanView = ask_change(endpoint, &Request::AcceptPlan { plan: plan.clone() })?;
    if wait.wait {
        plan = follow(endpoint, plan, (true, wait.timeout))?;
    }
    show_one(&plan, endpoint.output, console)?;
    verdict(&plan, *wait, wait.wait)
}

/// `tenure plan release`
pub(crate) fn release(args: &ReleaseArgs, console: &mut Console<'_>) -> Result<(), Error> {
    let ReleaseArgs { endpoint, plan } = args;
    let plan: PlanView = ask_change(endpoint, &Request::ReleasePlan { plan: plan.clone() })?;
    show_one(&plan, endpoint.output, console)
}

/// `tenure plan list`
pub(crate) fn list(args: &ListArgs, console: &mut Console<'_>) -> Result<(), Error> {
    let ListArgs { endpoint, all, manager } = args;
    let request = Request::Plans { manager: manager.clone(), all: *all };
    let plans: Vec<PlanView> = ask(&endpoint.data, &request)?;
    let empty = if *all { "no plans" } else { "no plans; those that have ended: --all" };
    print::rows(&plans, endpoint.output, empty, console)
}

/// `tenure plan show`
pub(crate) fn show(args: &PlanShowArgs, console: &mut Console<'_>) -> Result<(), Error> {
    let PlanShowArgs { endpoint, plan } = args;
    let plan: PlanView = ask(&endpoint.data, &Request::Plan { plan: plan.clone() })?;
    show_one(&plan, endpoint.output, console)
}

/// `tenure plan holds`
pub(crate) fn holds(args: &HoldsArgs, console: &mut Console<'_>) -> Result<(), Error> {
    let HoldsArgs { endpoint, node } = args;
    let nodes: Vec<HoldView> = ask(&endpoint.data, &Request::PlanHolds { node: node.clone() })?;
    print::rows(&nodes, endpoint.output, "no nodes are in use", console)
}

/// `tenure plan report`
pub(crate) fn report(args: &ReportArgs, console: &mut Console<'_>) -> Result<(), Error> {
    let ReportArgs { endpoint, plan, file } = args;
    let help = "name a file with reports; `tenure plan report --help` has an example";
    let text = fs::read_to_string(file).map_err(|source| Error::reading(file, source, help))?;
    let reports = report::read(&text)
        .map_err(|error| Error::Wrong(format!("{}: {error}", file.display())))?;
    let request = Request::ReportPlan { plan: plan.clone(), reports };
    let plan: PlanView = ask_change(endpoint, &request)?;
    show_one(&plan, endpoint.output, console)
}

/// Waits until a plan is computed, or until its packages are reported, and goes on with one that replaces it.
fn follow(
    endpoint: &Change,
    plan: PlanView,
    (installed, timeout): (bool, Span),
) -> Result<PlanView, Error> {
    let mut client = connect(&endpoint.data)?;
    let name = |plan: &PlanView| plan.plan.parse::<PlanName>().map_err(Error::Wrong);
    let first = name(&plan)?;
    let request = |name: PlanName| {
        move |timeout| Request::AwaitPlan { plan: name.clone(), installed, timeout }
    };
    let waits = |plan: &PlanView| is_open(plan) || (installed && plan.state == "accepted");
    let is_settled = |plan: &PlanView| !waits(plan);
    let mut plan = settled(&mut client, plan, timeout, request(first), is_settled)?;
    while let Some(next) = plan.replaced_by.clone().filter(|_| installed) {
        let next: PlanName = next.parse().map_err(Error::Wrong)?;
        let asked: PlanView = client.ask(&Request::Plan { plan: next.clone() })?;
        plan = settled(&mut client, asked, timeout, request(next), is_settled)?;
    }
    Ok(plan)
}

/// Whether a plan is still to be computed.
fn is_open(plan: &PlanView) -> bool {
    matches!(plan.state.as_str(), "requested" | "leasing")
}

/// What the exit code says of a plan that was waited for.
fn verdict(plan: &PlanView, wait: PlanWait, installed: bool) -> Result<(), Error> {
    let name = plan.plan.clone();
    match plan.state.as_str() {
        "infeasible" => Err(PlanError::Infeasible(name).into()),
        "busy" => Err(PlanError::Busy(name).into()),
        _ if is_open(plan) => Err(PlanError::TimedOut { plan: name, after: wait.timeout }.into()),
        "accepted" if installed => {
            Err(PlanError::TimedOut { plan: name, after: wait.timeout }.into())
        }
        "failed" | "rolled-back" | "replaced" | "lapsed" => {
            Err(PlanError::NotInstalled { plan: name, state: plan.state.clone() }.into())
        }
        _ => Ok(()),
    }
}

/// Prints a plan: its packages, what else is placed, and how to go on.
fn show_one(plan: &PlanView, output: Output, console: &mut Console<'_>) -> Result<(), Error> {
    if output != Output::Table {
        return print::one(plan, std::slice::from_ref(plan), output, "", console);
    }
    print::rows(std::slice::from_ref(plan), output, "", console)?;
    if !plan.placement.is_empty() {
        writeln!(console.out, "\n{}", print::table(&plan.placement, console.width))?;
    }
    if !plan.packages.is_empty() {
        writeln!(console.out, "\n{}", print::table(&plan.packages, console.width))?;
    }
    let waits = plan.waits_for.is_some() || plan.state == "proposed";
    if waits || !plan.why.is_empty() || !plan.alternatives.is_empty() {
        writeln!(console.out)?;
    }
    for (nth, other) in plan.alternatives.iter().enumerate() {
        let parts: Vec<String> =
            other.iter().map(|at| format!("{} on {}", at.part, on(at))).collect();
        text::line(console.out, format_args!("alternative {}: {}", nth + 1, parts.join("; ")))?;
    }
    if let Some(what) = &plan.waits_for {
        text::line(console.out, format_args!("waits for {what}"))?;
    }
    for why in &plan.why {
        text::line(console.out, format_args!("{}: {why}", plan.state))?;
    }
    if plan.state == "proposed" {
        text::line(
            console.out,
            format_args!("held until {}; accept it: tenure plan accept {}", plan.until, plan.plan),
        )?;
    }
    Ok(())
}

fn on(placement: &PlacementView) -> String {
    placement.nodes.join(" ")
}

impl print::Row for PlanView {
    const COLUMNS: &'static [&'static str] =
        &["plan", "slice", "state", "requested", "until", "packages", "objective"];

    fn cells(&self) -> Vec<String> {
        let done = self.packages.iter().filter(|package| package.state == "installed").count();
        vec![
            self.plan.clone(),
            self.slice.clone(),
            self.state.clone(),
            self.requested.clone(),
            self.until.clone(),
            format!("{done} of {}", self.packages.len()),
            print::or_dash(self.objective.as_ref()),
        ]
    }
}

impl print::Row for PlacementView {
    const COLUMNS: &'static [&'static str] = &["part", "nodes", "reused"];

    fn cells(&self) -> Vec<String> {
        let reused = if self.reused { "yes" } else { "-" };
        vec![self.part.clone(), on(self), reused.to_owned()]
    }
}

impl print::Row for PackageView {
    const COLUMNS: &'static [&'static str] = &["node", "package", "state", "error"];

    fn cells(&self) -> Vec<String> {
        let error = print::or_dash(self.error.as_ref());
        vec![self.node.clone(), self.package.clone(), self.state.clone(), error]
    }
}

impl print::Row for HoldView {
    const COLUMNS: &'static [&'static str] =
        &["node", "manager", "slice", "plan", "until", "installed"];

    fn cells(&self) -> Vec<String> {
        let dash = || "-".to_owned();
        vec![
            self.node.clone(),
            self.manager.clone(),
            self.slice.clone(),
            self.plan.clone().unwrap_or_else(dash),
            self.until.clone().unwrap_or_else(dash),
            if self.installed.is_empty() { dash() } else { self.installed.join(" ") },
        ]
    }
}
