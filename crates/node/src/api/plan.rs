//! Plans of packages on nodes: how they are asked for, accepted, released and reported, and how they are shown.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use tenure_core::actor::Role;
use tenure_core::model::name::Name;
use tenure_core::model::time::Span;
use tenure_core::service_manager::plan::{
    HOLD, MAX_PLANS, NodePlacement, NodeView, OnFailure, PackageReport, PlanCommand, PlanRequest,
    PlanSurvey, WantedPackages,
};
use tenure_core::service_manager::{Command as GuestCommand, ServiceManager};
use tokio::task::spawn_blocking;
use tokio::time::{Instant, timeout_at};

use super::asker::Asker;
use super::lease_request;
use super::server::{ApiResult, AppState, refused};
use super::view::time;
use super::{ApiError, Code, pause};
use crate::config::is_among;

/// The mapper that plans packages.
const PLANNER: &str = "deploy";

/// The mappers that come with Tenure and plan no packages.
const NO_PLANNERS: [&str; 5] = ["adaptive", "experiments", "jobs", "slo", "static"];

/// Names a plan: `guest/3`, and `3` where only one service manager can be meant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct PlanName {
    /// The service manager.
    pub manager: Option<Name>,
    /// Its number there.
    pub number: u64,
}

impl FromStr for PlanName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let bad = || format!("`{}` is no plan: write 3 or guest/3", text.escape_debug());
        let (manager, number) = match text.split_once('/') {
            Some((manager, number)) => (Some(Name::new(manager).map_err(|_| bad())?), number),
            None => (None, text),
        };
        Ok(Self { manager, number: number.parse().map_err(|_| bad())? })
    }
}

impl fmt::Display for PlanName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { manager, number } = self;
        manager.as_ref().map_or(Ok(()), |manager| write!(f, "{manager}/"))?;
        write!(f, "{number}")
    }
}

impl TryFrom<String> for PlanName {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<PlanName> for String {
    fn from(name: PlanName) -> Self {
        name.to_string()
    }
}

/// A plan that is asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct PlanProposal {
    /// The service manager that plans; may be left out if there is only one without a demand of its own.
    pub manager: Option<Name>,
    /// The slice whose nodes it is for.
    pub slice: Name,
    /// What is to be placed.
    pub wanted: WantedPackages,
    /// How long it holds its nodes.
    #[serde(default = "hold")]
    pub hold: Span,
    /// What becomes of it if packages fail.
    #[serde(default)]
    pub on_failure: OnFailure,
    /// Whether it is accepted as soon as it is computed.
    #[serde(default)]
    pub accept: bool,
    /// For how long nodes that are missing are leased at a time; none are, unless it is set.
    #[serde(default)]
    pub lease: Option<Span>,
}

fn hold() -> Span {
    HOLD
}

/// A plan.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlanView {
    /// Its service manager and number: `guest/3`.
    pub plan: String,
    /// The slice.
    pub slice: String,
    /// Where it is in its life.
    pub state: String,
    /// When it was asked for.
    pub requested: String,
    /// Until when it holds its nodes at most.
    pub until: String,
    /// What becomes of it if packages fail.
    pub on_failure: OnFailure,
    /// The plan that it replaces.
    pub replaces: Option<String>,
    /// The plan by which it was replaced.
    pub replaced_by: Option<String>,
    /// What it is worth, once it is computed.
    pub objective: Option<String>,
    /// Whether no plan is better.
    pub proven: bool,
    /// The nodes of the copies of each part.
    pub placement: Vec<PlacementView>,
    /// Its packages, each on its node.
    pub packages: Vec<PackageView>,
    /// The runners-up: other placements, the best first.
    pub alternatives: Vec<Vec<PlacementView>>,
    /// Why it ended so.
    pub why: Vec<String>,
    /// The request for nodes that it lacked: `guest/5`.
    pub leases: Option<String>,
    /// What it waits for, while those are to come.
    pub waits_for: Option<String>,
}

/// Where a part is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlacementView {
    /// The part.
    pub part: String,
    /// The nodes of its copies, first to last.
    pub nodes: Vec<String>,
    /// Whether it uses what was installed before.
    pub reused: bool,
}

/// A package on a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PackageView {
    /// The node.
    pub node: String,
    /// The package.
    pub package: String,
    /// How far it is.
    pub state: String,
    /// Why it failed.
    pub error: Option<String>,
}

/// A node that a service manager uses, and the plan that holds it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HoldView {
    /// The node.
    pub node: String,
    /// The service manager that uses it.
    pub manager: String,
    /// The slice that it is in.
    pub slice: String,
    /// The packages that plans installed on it.
    pub installed: Vec<String>,
    /// The plan that holds it.
    pub plan: Option<String>,
    /// Until when at most.
    pub until: Option<String>,
}

impl PlanView {
    fn of(manager: &Name, guest: &ServiceManager, plan: &PlanSurvey<'_>) -> Self {
        let name = |plan: u64| format!("{manager}/{plan}");
        let next = guest.plans().find(|other| other.request.replaces == Some(plan.plan));
        let placed = plan.placed;
        let others = placed.into_iter().flat_map(|placed| &placed.others);
        Self {
            plan: name(plan.plan),
            slice: plan.request.slice.to_string(),
            state: plan.word.to_owned(),
            requested: time(plan.asked_at),
            until: time(plan.request.until),
            on_failure: plan.request.on_failure,
            replaces: plan.request.replaces.map(name),
            replaced_by: next.map(|next| name(next.plan)),
            objective: plan.worth.map(ToOwned::to_owned),
            proven: placed.is_some_and(|placed| placed.proven),
            placement: placed.map(|placed| placement(&placed.placement)).unwrap_or_default(),
            packages: packages(guest, plan),
            alternatives: others.map(placement).collect(),
            why: plan.why.to_vec(),
            leases: plan.leasing.map(|wait| name(wait.request)),
            waits_for: plan.leasing.filter(|wait| wait.is_open).map(|wait| {
                let units = wait.units().into_iter();
                let units = units.map(|(resource, units)| format!("{units} {resource}"));
                let units = units.collect::<Vec<_>>().join(", ");
                let word = wait.word.unwrap_or("to be asked for").to_lowercase();
                format!("{units}: request {} is {word}", name(wait.request))
            }),
        }
    }
}

fn placement(placed: &NodePlacement) -> Vec<PlacementView> {
    let part = |(part, nodes): (&String, &Vec<String>)| PlacementView {
        part: part.clone(),
        nodes: nodes.clone(),
        reused: placed.reused.contains(part),
    };
    placed.placement.iter().map(part).collect()
}

/// The packages of a plan: how far each is, or, before it is accepted, what it would install.
fn packages(guest: &ServiceManager, plan: &PlanSurvey<'_>) -> Vec<PackageView> {
    let begun = guest.installs(plan.plan).map(|install| PackageView {
        node: install.node.to_owned(),
        package: install.package.to_owned(),
        state: install.word.to_owned(),
        error: install.error.map(ToOwned::to_owned),
    });
    let begun: Vec<_> = begun.collect();
    let planned = plan.placed.iter().flat_map(|placed| &placed.placement.install);
    let planned = planned.flat_map(|(node, packages)| {
        packages.iter().map(|package| PackageView {
            node: node.clone(),
            package: package.clone(),
            state: "planned".to_owned(),
            error: None,
        })
    });
    if begun.is_empty() { planned.collect() } else { begun }
}

fn held(manager: &Name, guest: &ServiceManager, node: NodeView) -> HoldView {
    let holder = node.held_by.and_then(|plan| guest.plans().find(|other| other.plan == plan));
    HoldView {
        node: node.name,
        manager: manager.to_string(),
        slice: node.slice.to_string(),
        installed: node.installed.into_iter().map(|(package, _)| package).collect(),
        plan: holder.map(|plan| format!("{manager}/{}", plan.plan)),
        until: holder.map(|plan| time(plan.request.until)),
    }
}

impl AppState {
    /// Asks a service manager's mapper for a plan.
    pub(super) async fn propose_plan(
        &self,
        proposal: PlanProposal,
        by: &Asker,
    ) -> ApiResult<PlanView> {
        let PlanProposal { manager, slice, wanted, hold, on_failure, accept, lease } = proposal;
        let manager = lease_request::manager(self, manager.as_ref())?;
        self.plans_packages(&manager)?;
        self.may_plan(&manager, by).await?;
        let scope = self.scope(&manager, &slice);
        let until = self.now().plus(hold);
        let request = PlanRequest {
            wanted,
            on_failure,
            accept,
            lease,
            scope,
            ..PlanRequest::new(slice, until)
        };
        let command = PlanCommand::Propose(Box::new(request));
        let handle = self.actor(Role::ServiceManager, &manager)?;
        if !self.is_repeated(handle, by).await? {
            self.has_room(&manager).await?;
        }
        let done = self.order(handle, (by, ""), GuestCommand::Plan(command)).await?;
        let made = || ApiError::new(Code::Failed, "the request made no plan");
        self.plan_of(&manager, done.plan().ok_or_else(made)?).await
    }

    /// Whether a user may have a service manager plan.
    async fn may_plan(&self, manager: &Name, by: &Asker) -> ApiResult<()> {
        let known = self.config().service_managers.get(manager);
        let Some(planners) = known.and_then(|manager| manager.planners.clone()) else {
            return Ok(());
        };
        // The list of users may come from elsewhere, and take its time.
        let user = by.uid();
        let listed = spawn_blocking(move || is_among(user, &planners)).await;
        if listed.unwrap_or_default() {
            return Ok(());
        }
        let message = format!("user {user} is no planner of {manager}");
        let help =
            format!("`planners` in [service-manager.{manager}] lists those who may propose plans");
        Err(ApiError::new(Code::Denied, message).help(help))
    }

    /// The other slices whose nodes plans of a slice may use.
    fn scope(&self, manager: &Name, slice: &Name) -> BTreeSet<Name> {
        let shared = self.config().service_managers.get(manager).map(|m| &m.shared_slices);
        let used = shared.into_iter().flatten().filter(|(_, users)| users.contains(slice));
        used.map(|(shared, _)| shared.clone()).filter(|shared| shared != slice).collect()
    }

    /// Whether a service manager can remember one more plan.
    async fn has_room(&self, manager: &Name) -> ApiResult<()> {
        let plans = self.guest(manager, |guest| Some(guest.plans().count())).await?;
        if plans.is_none_or(|plans| plans < MAX_PLANS) {
            return Ok(());
        }
        let message = format!("{manager} remembers {MAX_PLANS} plans, the most that it can");
        let help =
            "a plan is forgotten a day after its end, and what it has installed: try again then";
        Err(ApiError::new(Code::Busy, message).help(help))
    }

    /// Whether a service manager's mapper answers plans.
    fn plans_packages(&self, manager: &Name) -> ApiResult<()> {
        let known = self.config().service_managers.get(manager);
        let mapper = known.map_or("", |manager| manager.mapper.name.as_str());
        if !NO_PLANNERS.contains(&mapper) {
            return Ok(());
        }
        let message = format!("the mapper `{mapper}` of {manager} plans no packages");
        Err(ApiError::new(Code::Usage, message).help(format!(
            "set `mapper = {{ name = \"{PLANNER}\" }}` in [service-manager.{manager}], or name another service \
             manager with `--as`"
        )))
    }

    /// Has a plan accepted.
    pub(super) async fn accept_plan(&self, plan: &PlanName, by: &Asker) -> ApiResult<PlanView> {
        let (manager, number) = self.plan_meant(plan).await?;
        let handle = self.actor(Role::ServiceManager, &manager)?;
        if !self.is_repeated(handle, by).await? {
            acceptable(&self.plan_of(&manager, number).await?)?;
        }
        self.plan_command(&manager, PlanCommand::Accept { plan: number }, by).await?;
        self.plan_of(&manager, number).await
    }

    /// Has a plan given up, and what it has installed removed.
    pub(super) async fn release_plan(&self, plan: &PlanName, by: &Asker) -> ApiResult<PlanView> {
        let (manager, number) = self.plan_meant(plan).await?;
        self.plan_command(&manager, PlanCommand::Release { plan: number }, by).await?;
        self.plan_of(&manager, number).await
    }

    /// Takes what a user reports on the packages of a plan.
    pub(super) async fn report_plan(
        &self,
        plan: &PlanName,
        reports: Vec<PackageReport>,
        by: &Asker,
    ) -> ApiResult<PlanView> {
        let (manager, number) = self.plan_meant(plan).await?;
        self.plan_command(&manager, PlanCommand::Report { plan: number, reports }, by).await?;
        self.plan_of(&manager, number).await
    }

    async fn plan_command(
        &self,
        manager: &Name,
        command: PlanCommand,
        by: &Asker,
    ) -> ApiResult<()> {
        let handle = self.actor(Role::ServiceManager, manager)?;
        let done = self.order(handle, (by, ""), GuestCommand::Plan(command)).await;
        done.map(drop).map_err(|error| {
            error.help("`tenure plan show` says how a plan is, `tenure plan list` which there are")
        })
    }

    /// The plans that are remembered, of all service managers or one; with `open` only those that have not ended.
    pub(super) async fn plans(
        &self,
        manager: Option<&Name>,
        open: bool,
    ) -> ApiResult<Vec<PlanView>> {
        let mut plans = Vec::new();
        for handle in self.chosen(Role::ServiceManager, manager)? {
            let name = handle.info().name.clone();
            let look = move |guest: &ServiceManager| {
                let wanted = guest.plans().filter(|plan| !open || plan.outcome.is_none());
                Some(wanted.map(|plan| PlanView::of(&name, guest, &plan)).collect::<Vec<_>>())
            };
            plans.extend(self.guest(&handle.info().name, look).await?.unwrap_or_default());
        }
        Ok(plans)
    }

    /// One plan.
    pub(super) async fn plan(&self, plan: &PlanName) -> ApiResult<PlanView> {
        let (manager, number) = self.plan_meant(plan).await?;
        self.plan_of(&manager, number).await
    }

    /// A plan once it is computed, with `installed` once its packages are reported, or after a time.
    pub(super) async fn await_plan(
        &self,
        plan: &PlanName,
        installed: bool,
        longest: Span,
    ) -> ApiResult<PlanView> {
        let (manager, number) = self.plan_meant(plan).await?;
        let handle = self.actor(Role::ServiceManager, &manager)?;
        let mut facts = handle.facts().await.map_err(|error| refused(&error))?.facts;
        let end = Instant::now() + pause(longest);
        loop {
            let plan = self.plan_of(&manager, number).await?;
            let computed = !matches!(plan.state.as_str(), "requested" | "leasing");
            let waits = !computed || (installed && plan.state == "accepted");
            if !waits || !matches!(timeout_at(end, facts.recv()).await, Ok(Some(_))) {
                return Ok(plan);
            }
        }
    }

    /// The nodes that service managers use, or one, each with the plan that holds it.
    pub(super) async fn plan_holds(&self, wanted: Option<&str>) -> ApiResult<Vec<HoldView>> {
        let mut nodes = Vec::new();
        for handle in self.of_role(Role::ServiceManager) {
            let name = handle.info().name.clone();
            let look = move |guest: &ServiceManager| {
                let nodes = guest.nodes().into_iter().map(|node| held(&name, guest, node));
                Some(nodes.collect::<Vec<_>>())
            };
            nodes.extend(self.guest(&handle.info().name, look).await?.unwrap_or_default());
        }
        let Some(wanted) = wanted else { return Ok(nodes) };
        nodes.retain(|node| node.node == wanted);
        if nodes.is_empty() && !self.has_node(wanted).await? {
            let message = format!("there is no node `{}`", wanted.escape_debug());
            return Err(ApiError::new(Code::NoSuch, message).help(
                "`tenure plan holds` lists the nodes in use, `tenure site list` the sites with their units",
            ));
        }
        Ok(nodes)
    }

    /// Whether a site of this deployment has the unit that a node's name means.
    async fn has_node(&self, node: &str) -> ApiResult<bool> {
        let named = node.split_once('/');
        let named = named.and_then(|(site, unit)| Some((site, Name::new(unit).ok()?)));
        let Some((site, unit)) = named else { return Ok(false) };
        let mut sites = self.of_role(Role::SiteAuthority);
        match sites.find(|handle| handle.info().name.as_str() == site) {
            Some(handle) => Ok(self.unit_of(handle, &unit).await?.is_some()),
            None => Ok(false),
        }
    }

    async fn plan_of(&self, manager: &Name, number: u64) -> ApiResult<PlanView> {
        let name = manager.clone();
        let look = move |guest: &ServiceManager| {
            let mut plans = guest.plans();
            plans.find(|p| p.plan == number).map(|plan| PlanView::of(&name, guest, &plan))
        };
        self.guest(manager, look).await?.ok_or_else(|| no_plan(&format!("{manager}/{number}")))
    }

    /// The service manager and the number of the plan that a name means.
    async fn plan_meant(&self, plan: &PlanName) -> ApiResult<(Name, u64)> {
        let number = plan.number;
        let mut having = Vec::new();
        for handle in self.chosen(Role::ServiceManager, plan.manager.as_ref())? {
            let name = &handle.info().name;
            let look =
                move |guest: &ServiceManager| guest.plans().find(|p| p.plan == number).map(drop);
            if self.guest(name, look).await?.is_some() {
                having.push(name.clone());
            }
        }
        match &having[..] {
            [] => Err(no_plan(&plan.to_string())),
            [name] => Ok((name.clone(), number)),
            several => {
                let names: Vec<String> =
                    several.iter().map(|name| format!("{name}/{number}")).collect();
                let message = format!("several service managers have a plan {number}");
                Err(ApiError::new(Code::Usage, message)
                    .help(format!("write {}", names.join(" or "))))
            }
        }
    }
}

/// Whether a plan can be accepted.
fn acceptable(plan: &PlanView) -> ApiResult<()> {
    let name = &plan.plan;
    let (code, what, help) = match plan.state.as_str() {
        "proposed" => return Ok(()),
        "requested" => {
            (Code::Busy, "is not computed yet", format!("try again: `tenure plan accept {name}`"))
        }
        "accepted" | "installed" | "failed" | "rolled-back" | "replaced" => (
            Code::Usage,
            "was accepted already",
            format!("`tenure plan show {name}` says what became of it"),
        ),
        "lapsed" => (
            Code::Usage,
            "has lapsed: it was not accepted in time",
            "propose it again, with a longer `--hold`".to_owned(),
        ),
        _ => (
            Code::Usage,
            "has ended",
            format!("`tenure plan show {name}` says why; propose another one"),
        ),
    };
    Err(ApiError::new(code, format!("plan {name} {what}")).help(help))
}

fn no_plan(name: &str) -> ApiError {
    ApiError::new(Code::NoSuch, format!("no plan {name}"))
        .help("`tenure plan list --all` lists all that are remembered")
}

#[cfg(test)]
mod tests {
    use tenure_core::mapper::registry::{MapperError, Registry};

    use super::*;

    #[test]
    fn every_mapper_of_guests_plans_packages_or_is_known_not_to() {
        let settings = serde_json::Value::Null;
        let mut settings = <dyn erased_serde::Deserializer<'_>>::erase(settings);
        let none = Registry::default().service_manager("", &mut settings);
        let Err(MapperError::Unknown { mut known, .. }) = none else { panic!("it has no name") };
        known.retain(|name| *name != PLANNER);
        assert_eq!(known, NO_PLANNERS);
    }

    #[test]
    fn a_plan_is_named_as_it_is_printed() {
        for text in ["3", "guest/3"] {
            assert_eq!(text.parse::<PlanName>().unwrap().to_string(), text);
        }
        for text in ["", "x", "guest/", "/3", "Guest/3", "3.1", "guest/3.1"] {
            assert!(text.parse::<PlanName>().is_err(), "{text}");
        }
    }
}
