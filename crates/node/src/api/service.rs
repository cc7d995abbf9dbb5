//! Services: how they are added, measured and removed, and how they are shown.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use tenure_core::actor::Role;
use tenure_core::model::name::Name;
use tenure_core::model::time::Time;
use tenure_core::service::definition::{Behaviour, Definition};
use tenure_core::service::kpi::Kpis;
use tenure_core::service::member::Members;
use tenure_core::service::steps::{Step, Steps};
use tenure_core::service_manager::services::{
    Demand, Found, ServiceCommand, ServiceSurvey, ServiceView as Survey, SiteUnit,
};
use tenure_core::service_manager::{Command as GuestCommand, ServiceManager};

use super::asker::Asker;
use super::lease_request;
use super::member::MemberView;
use super::server::{ApiResult, AppState};
use super::service_adapter::{self, AdapterView};
use super::service_name::ServiceName;
use super::service_why;
use super::view::{Names, name, time};
use super::{ApiError, Code};
use crate::adapter::Adapters;
use crate::config::{FOLLOWER, follows_slos};

/// A service as it is shown.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServiceView {
    /// Its service manager and name, as `guest/batch`.
    pub service: String,
    /// `unknown`, `starting`, `running`, `error`, `shutdown` or `stopped`.
    pub state: String,
    /// When it was measured; null if it was not, or too long ago.
    pub measured_at: Option<String>,
    /// What was measured.
    pub kpis: BTreeMap<String, String>,
    /// What it is to reach.
    pub slos: Vec<SloView>,
    /// What it wants and has, by kind of units.
    pub demands: Vec<DemandView>,
    /// How it is dealt with.
    pub behaviour: Behaviour,
    /// What connects it with its software; null if programs report what they measure.
    pub adapter: Option<AdapterView>,
    /// Units that are not asked for.
    #[serde(default)]
    pub blacklist: Vec<BlacklistedView>,
    /// What takes part in it without a lease.
    #[serde(default)]
    pub members: Vec<MemberView>,
    /// What is amiss and what is done about it, in sentences; empty if it has all that it claims.
    pub why: Vec<String>,
    /// What it wants that cannot come about, in sentences; of one service only, not in lists.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

/// An SLO as it is shown.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SloView {
    /// Its name.
    pub slo: String,
    /// `met`, `missed`, `unknown`, or `standing` if it has no rule.
    pub state: String,
    /// Since when.
    pub since: Option<String>,
    /// How many units it wants; null if that cannot be told.
    pub want: Option<u32>,
    /// How urgently.
    pub urgency: u32,
    /// The type of the units.
    pub resource: String,
    /// Its rule.
    pub rule: Option<String>,
    /// What it wants, over KPIs.
    pub wants: String,
    /// The names of the KPIs that it looks at.
    pub kpis: BTreeSet<String>,
    /// Why it cannot be judged, if it cannot.
    pub obstacle: Option<String>,
}

/// What a service wants and has of a kind of units.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DemandView {
    /// The type.
    pub resource: String,
    /// What must hold of the units.
    pub requirement: Option<String>,
    /// How many it has, those on the way among them.
    pub held: u32,
    /// How many are asked for.
    pub asked: u32,
    /// How many it wants in all.
    pub wanted: u32,
    /// How many more it claims.
    pub claimed: u32,
    /// What they are worth, the most urgent first.
    pub steps: Vec<Step>,
}

/// A unit that is not asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlacklistedView {
    /// The unit, such as `alpha/u3`.
    pub unit: String,
    /// Until when.
    pub until: String,
}

impl BlacklistedView {
    fn all(survey: &ServiceSurvey<'_>, Context { names, now, .. }: &Context<'_>) -> Vec<Self> {
        let still = survey.blacklisted.iter().filter(|(_, until)| now < *until);
        let view = |(&(site, unit), until): (&SiteUnit, &Time)| Self {
            unit: format!("{}/{unit}", name(names, site)),
            until: time(*until),
        };
        still.map(view).collect()
    }
}

/// What a service is shown with.
pub(super) struct Context<'a> {
    pub(super) adapters: Option<&'a Adapters>,
    pub(super) names: &'a Names,
    pub(super) now: Time,
}

impl ServiceView {
    pub(super) fn of(
        manager: &Name,
        guest: &ServiceManager,
        (survey, view): (&ServiceSurvey<'_>, &Survey),
        context: &Context<'_>,
    ) -> Self {
        let ServiceSurvey { service, definition, state, kpis, reported_at, assessed, .. } = survey;
        let slos = definition.slo.iter().map(|(name, slo)| {
            let assessed = assessed.get(name);
            SloView {
                slo: name.to_string(),
                state: assessed.map_or("unknown", |a| a.assessment.met.word()).to_owned(),
                since: assessed.map(|assessed| time(assessed.since)),
                want: assessed.and_then(|assessed| assessed.assessment.want),
                urgency: slo.urgency,
                resource: slo.resource.to_string(),
                rule: slo.rule.as_ref().map(|rule| rule.as_str().to_owned()),
                wants: slo.want.as_str().to_owned(),
                kpis: slo.kpis(),
                obstacle: service_why::obstacle(slo, kpis),
            }
        });
        Self {
            service: format!("{manager}/{service}"),
            state: state.word().to_owned(),
            measured_at: reported_at.map(time),
            kpis: kpis.iter().map(|(kpi, value)| (kpi.to_string(), value.to_string())).collect(),
            slos: slos.collect(),
            demands: view.demands.iter().map(DemandView::of).collect(),
            behaviour: definition.behaviour.clone(),
            adapter: AdapterView::of(survey, context.adapters),
            blacklist: BlacklistedView::all(survey, context),
            members: MemberView::all(guest, survey),
            why: service_why::of(manager, guest, survey, view),
            warnings: Vec::new(),
        }
    }
}

impl DemandView {
    fn of(demand: &Demand) -> Self {
        let Demand { kind, steps, held, asked, .. } = demand;
        Self {
            resource: kind.resource.to_string(),
            requirement: kind.requirement.as_ref().map(|expr| expr.as_str().to_owned()),
            held: *held,
            asked: *asked,
            wanted: steps.units(),
            claimed: steps.claimed(*held),
            steps: Steps::iter(steps).collect(),
        }
    }
}

impl AppState {
    /// Adds a service, or changes it.
    pub(super) async fn set_service(
        &self,
        name: &ServiceName,
        definition: Box<Definition>,
        by: &Asker,
    ) -> ApiResult<ServiceView> {
        self.check_definition(&definition, by)?;
        let manager = lease_request::manager(self, name.manager.as_ref())?;
        self.follows_slos(&manager)?;
        let service = name.service.clone();
        self.service_command(&manager, ServiceCommand::Define { service, definition }, by).await?;
        self.take_in(&manager).await?;
        self.service_of(&manager, &name.service).await
    }

    /// Whether a definition can be followed, and may be set.
    pub(super) fn check_definition(&self, definition: &Definition, by: &Asker) -> ApiResult<()> {
        definition.check().map_err(|bad| ApiError::new(Code::Usage, bad.to_string()))?;
        service_adapter::check(definition, by)
    }

    /// Forgets a service.
    pub(super) async fn remove_service(
        &self,
        name: &ServiceName,
        by: &Asker,
    ) -> ApiResult<ServiceView> {
        let manager = self.service_meant(name).await?;
        let last = self.service_of(&manager, &name.service).await?;
        let service = name.service.clone();
        self.service_command(&manager, ServiceCommand::Remove { service }, by).await?;
        Ok(last)
    }

    /// Takes what was measured of a service.
    pub(super) async fn report_service(
        &self,
        name: &ServiceName,
        (kpis, seen, members): (Kpis, Found, Members),
        by: &Asker,
    ) -> ApiResult<ServiceView> {
        let manager = self.service_meant(name).await?;
        let (service, busy) = (name.service.clone(), BTreeMap::new());
        let report = ServiceCommand::Report { service, kpis, seen, busy, members };
        self.service_command(&manager, report, by).await?;
        self.service_of(&manager, &name.service).await
    }

    /// All services, or those of one service manager.
    pub(super) async fn services(&self, manager: Option<&Name>) -> ApiResult<Vec<ServiceView>> {
        let mut all = Vec::new();
        for handle in self.chosen(Role::ServiceManager, manager)? {
            let name = handle.info().name.clone();
            let (adapters, names, now) = (self.adapters(&name), self.names(), self.now());
            let look = move |guest: &ServiceManager| {
                let context = Context { adapters: adapters.as_deref(), names: &names, now };
                let views = guest.services().into_iter();
                let views = views.filter_map(|view| {
                    let survey = guest.service(&view.service)?;
                    Some(ServiceView::of(&name, guest, (&survey, &view), &context))
                });
                Some(views.collect::<Vec<_>>())
            };
            all.extend(self.guest(&handle.info().name, look).await?.unwrap_or_default());
        }
        Ok(all)
    }

    /// One service.
    pub(super) async fn service(&self, name: &ServiceName) -> ApiResult<ServiceView> {
        let manager = self.service_meant(name).await?;
        self.service_of(&manager, &name.service).await
    }

    pub(super) async fn service_of(
        &self,
        manager: &Name,
        service: &Name,
    ) -> ApiResult<ServiceView> {
        let named = format!("{manager}/{service}");
        let all = self.services(Some(manager)).await?.into_iter();
        let mut found: Vec<_> = all.filter(|view| view.service == named).collect();
        self.warn(manager, &mut found).await?;
        found.pop().ok_or_else(|| no_service(&named))
    }

    /// The service manager of a service that is there.
    pub(super) async fn service_meant(&self, name: &ServiceName) -> ApiResult<Name> {
        if let Some(manager) = &name.manager {
            self.service_of(manager, &name.service).await?;
            return Ok(manager.clone());
        }
        let ends = format!("/{}", name.service);
        let all = self.services(None).await?.into_iter();
        let mut found = all.filter(|view| view.service.ends_with(&ends));
        let first = found.next().ok_or_else(|| no_service(&name.to_string()))?;
        if let Some(other) = found.next() {
            let message = format!("`{name}` is a service of several service managers");
            let help = format!("name one of them: {} or {}", first.service, other.service);
            return Err(ApiError::new(Code::Usage, message).help(help));
        }
        let manager = first.service.split('/').next().unwrap_or_default();
        Name::new(manager).map_err(|_| no_service(&name.to_string()))
    }

    /// Whether a service manager's mapper follows SLOs.
    pub(super) fn follows_slos(&self, manager: &Name) -> ApiResult<()> {
        let known = self.config().service_managers.get(manager);
        let mapper = known.map_or("", |manager| manager.mapper.name.as_str());
        if follows_slos(mapper) {
            return Ok(());
        }
        let message = format!("the mapper `{mapper}` of {manager} follows no SLOs");
        Err(ApiError::new(Code::Usage, message).help(format!(
            "set `mapper = {{ name = \"{FOLLOWER}\" }}` in [service-manager.{manager}], or name the service of \
             another one, as `guest/batch`"
        )))
    }

    pub(super) async fn service_command(
        &self,
        manager: &Name,
        command: ServiceCommand,
        by: &Asker,
    ) -> ApiResult<()> {
        let handle = self.actor(Role::ServiceManager, manager)?;
        let done = self.order(handle, (by, ""), GuestCommand::Service(command)).await;
        done.map(drop).map_err(|error| error.help("`tenure service show` says how a service is"))
    }
}

fn no_service(name: &str) -> ApiError {
    ApiError::new(Code::NoSuch, format!("there is no service {name}"))
        .help("`tenure service list` lists them, `tenure service add` adds one")
}
