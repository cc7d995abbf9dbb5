//! The answers to requests.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

use nix::unistd::Gid;
use serde::Serialize;
use tenure_config::Profiles;
use tenure_core::actor::Actor as _;
use tenure_core::actor::Role;
use tenure_core::runtime::AnyActor;
use tenure_core::service_manager::Command as GuestCommand;

use tenure_core::broker::Broker;
use tenure_core::model::identity::ActorId;
use tenure_core::model::name::Name;
use tenure_core::model::slice::LeaseId;
use tenure_core::model::time::{Span, Time};
use tenure_core::service_manager::ServiceManager;
use tenure_core::site_authority::SiteAuthority;
use tokio::sync::Mutex;

use super::asker::Asker;
use super::broker_view::{self, BrokerView, QuotaView};
use super::passing::Passing;
use super::session::Sessions;
use super::site_view::{self, SiteView};
use super::view::{self, Names};
use super::{Answer, ApiError, Code, Request, VERSION, drift, lease_request, probe, why};
use crate::adapter::{Act, Adapters};
use crate::clock::Clock;
use crate::config::Config;
use crate::deployment::Running;
use crate::driver::how_processes_are_kept;
use crate::host::{Handle, HostError};
use crate::journal::JournalError;
use crate::metrics::Metrics;
use crate::net::{Connection, Network};

/// The state behind the control API: the actors of a deployment and what they share.
pub struct AppState {
    config: Config,
    data: PathBuf,
    clock: Arc<dyn Clock>,
    handles: BTreeMap<Name, Handle>,
    adapters: BTreeMap<Name, Arc<Adapters>>,
    names: Names,
    network: Option<Network>,
    metrics: Metrics,
    /// Who may ask beside owner and root.
    group: Option<Gid>,
    /// Held while a request with an id is made, so that none is made twice.
    asking: Mutex<()>,
    /// Held while a change with a key is made.
    once: Mutex<()>,
    sessions: Sessions,
    passing: Passing,
}

pub(super) type ApiResult<T> = Result<T, ApiError>;

impl AppState {
    /// What users may ask for by a name.
    pub(super) fn profiles(&self) -> &Profiles {
        &self.config.profiles
    }

    /// The state for a deployment that keeps its data in `data`.
    pub fn new(running: &Running, config: Config, data: PathBuf, clock: Arc<dyn Clock>) -> Self {
        let handles = running.handles().map(|handle| (handle.info().name.clone(), handle.clone()));
        let handles: BTreeMap<Name, Handle> = handles.collect();
        let names = handles.values().map(|handle| (handle.info().id, handle.info().name.clone()));
        let adapted = |name: &Name| Some((name.clone(), Arc::clone(running.adapters(name)?)));
        let adapters = handles.keys().filter_map(adapted).collect();
        let elsewhere = config.peers.iter().map(|(name, peer)| (peer.id, name.clone()));
        let names: Names = names.chain(elsewhere).collect();
        Self {
            config,
            data,
            clock,
            adapters,
            names,
            network: running.network().cloned(),
            metrics: running.metrics().clone(),
            group: None,
            asking: Mutex::default(),
            once: Mutex::default(),
            sessions: Sessions::default(),
            passing: Passing::default(),
            handles,
        }
    }

    /// The same, for a group that may ask too.
    pub(crate) fn admitting(self, group: Option<Gid>) -> Self {
        Self { group, ..self }
    }

    pub(super) fn group(&self) -> Option<Gid> {
        self.group
    }

    pub(super) fn now(&self) -> Time {
        self.clock.now()
    }

    pub(super) fn clock(&self) -> Arc<dyn Clock> {
        Arc::clone(&self.clock)
    }

    /// The adapters of the services of a service manager.
    pub(super) fn adapters(&self, manager: &Name) -> Option<Arc<Adapters>> {
        self.adapters.get(manager).cloned()
    }

    pub(super) fn config(&self) -> &Config {
        &self.config
    }

    pub(super) fn sessions(&self) -> &Sessions {
        &self.sessions
    }

    pub(crate) fn passing(&self) -> &Passing {
        &self.passing
    }

    pub(super) fn asking(&self) -> &Mutex<()> {
        &self.asking
    }

    /// The journal of an actor.
    pub(super) fn journal(&self, name: &Name) -> PathBuf {
        self.data.join("journals").join(format!("{name}.db"))
    }

    /// Reads the journal of an actor, while others are served.
    pub(super) async fn read_journal<T: Send + 'static>(
        &self,
        name: &Name,
        read: impl FnOnce(&Path) -> Result<T, JournalError> + Send + 'static,
    ) -> ApiResult<T> {
        let path = self.journal(name);
        let failed = |cause: &dyn std::fmt::Display| {
            ApiError::new(Code::Failed, format!("the journal of {name}: {cause}"))
        };
        let read = tokio::task::spawn_blocking(move || read(&path)).await;
        read.map_err(|error| failed(&error))?.map_err(|error| failed(&error))
    }

    pub(super) fn network(&self) -> Option<&Network> {
        self.network.as_ref()
    }

    /// What actors are called: here by the configuration, others as their cards say, if the name is free.
    pub(super) fn names(&self) -> Names {
        let mut names = self.names.clone();
        for connection in self.network.iter().flat_map(Network::connections) {
            if let Some(name) = connection.name {
                names.entry(connection.there).or_insert(name);
            }
        }
        for card in self.network.iter().flat_map(Network::cards) {
            if !names.contains_key(&card.actor) && !names.values().any(|name| *name == card.name) {
                names.insert(card.actor, card.name);
            }
        }
        names
    }

    pub(super) fn name(&self, id: ActorId) -> String {
        match self.names.get(&id) {
            Some(name) => name.to_string(),
            None => view::name(&self.names(), id),
        }
    }

    pub(super) fn id(&self, name: &Name) -> Option<ActorId> {
        self.handles.get(name).map(|handle| handle.info().id)
    }

    /// What drivers have found, by actor.
    pub(super) fn found(&self) -> probe::Found {
        let found = |handle: &Handle| (handle.info().id, handle.conditions().clone());
        self.handles.values().map(found).collect()
    }

    pub(super) fn handle_of(&self, id: ActorId) -> Option<&Handle> {
        self.handles.get(self.names.get(&id)?)
    }

    /// The file of an actor's first key.
    pub(super) fn key_of(&self, name: &Name) -> PathBuf {
        crate::config::key_of(&self.data, name)
    }

    /// All actors.
    pub(super) fn all_actors(&self) -> impl Iterator<Item = &Handle> {
        self.handles.values()
    }

    /// The actor of that name, whatever its role.
    pub(super) fn any_actor(&self, name: &Name) -> ApiResult<&Handle> {
        let known = || self.handles.keys().map(Name::as_str);
        self.handles.get(name).ok_or_else(|| {
            let help = tenure_config::suggestion(name.as_str(), known());
            ApiError::new(Code::NoSuch, format!("no actor `{name}`")).help(help)
        })
    }

    /// The actor of that name and role.
    pub(super) fn actor(&self, role: Role, name: &Name) -> ApiResult<&Handle> {
        let of_role = || self.of_role(role).map(|handle| handle.info().name.as_str());
        self.handles.get(name).filter(|handle| handle.info().role == role).ok_or_else(|| {
            let help = tenure_config::suggestion(name.as_str(), of_role());
            ApiError::new(Code::NoSuch, format!("no {role} `{name}`")).help(help)
        })
    }

    /// The id of the actor of that name and role, here or elsewhere.
    pub(super) fn party(&self, role: Role, name: &Name) -> ApiResult<ActorId> {
        let is_meant =
            |peer: &Connection| peer.role == Some(role) && peer.name.as_ref() == Some(name);
        let here = self.actor(role, name).map(|handle| handle.info().id);
        here.or_else(|unknown| {
            let mut peers = self.network.iter().flat_map(Network::connections);
            peers.find(is_meant).map(|peer| peer.there).ok_or(unknown)
        })
    }

    pub(super) fn of_role(&self, role: Role) -> impl Iterator<Item = &Handle> {
        self.handles.values().filter(move |handle| handle.info().role == role)
    }

    /// The actors of a role, or the one that is named.
    pub(super) fn chosen(&self, role: Role, name: Option<&Name>) -> ApiResult<Vec<&Handle>> {
        match name {
            Some(name) => Ok(vec![self.actor(role, name)?]),
            None => Ok(self.of_role(role).collect()),
        }
    }

    pub(super) async fn look<T: Send + 'static>(
        &self,
        handle: &Handle,
        look: impl FnOnce(&AnyActor) -> T + Send + 'static,
    ) -> ApiResult<T> {
        handle.query(look).await.map_err(|error| refused(&error))
    }

    pub(super) async fn guest<T: Send + 'static>(
        &self,
        name: &Name,
        look: impl FnOnce(&ServiceManager) -> Option<T> + Send + 'static,
    ) -> ApiResult<Option<T>> {
        let handle = self.actor(Role::ServiceManager, name)?;
        self.look(handle, move |actor| match actor {
            AnyActor::ServiceManager(guest) => look(guest),
            AnyActor::Broker(_) | AnyActor::SiteAuthority(_) => None,
        })
        .await
    }

    async fn site<T: Send + 'static>(
        &self,
        handle: &Handle,
        look: impl FnOnce(&SiteAuthority) -> T + Send + 'static,
    ) -> ApiResult<Option<T>> {
        self.look(handle, move |actor| match actor {
            AnyActor::SiteAuthority(site) => Some(look(site)),
            AnyActor::ServiceManager(_) | AnyActor::Broker(_) => None,
        })
        .await
    }

    pub(super) async fn broker<T: Send + 'static>(
        &self,
        handle: &Handle,
        look: impl FnOnce(&Broker) -> T + Send + 'static,
    ) -> ApiResult<Option<T>> {
        self.look(handle, move |actor| match actor {
            AnyActor::Broker(broker) => Some(look(broker)),
            AnyActor::ServiceManager(_) | AnyActor::SiteAuthority(_) => None,
        })
        .await
    }

    async fn slices(&self) -> ApiResult<Vec<view::SliceView>> {
        let mut slices = Vec::new();
        for handle in self.of_role(Role::ServiceManager) {
            let name = handle.info().name.clone();
            let now = self.now();
            let of = self.guest(&handle.info().name, move |g| Some(view::slices(&name, g, now)));
            slices.extend(of.await?.unwrap_or_default());
        }
        Ok(slices)
    }

    #[allow(clippy::too_many_lines, reason = "a line or two for each kind of request")]
    pub(super) async fn answer(self: &Rc<Self>, request: Request, by: &Asker) -> ApiResult<Answer> {
        // Held while something with a key is done, so that it is done once.
        let _once = if by.has_key() { Some(self.once.lock().await) } else { None };
        let mut more = None;
        let ok = match request {
            Request::Status => json(&self.status().await),
            Request::Metrics => json(&self.metrics.text()),
            Request::Ask(mut request) => {
                let session = self.in_session(&mut request)?;
                let asked = lease_request::ask(self, *request, by).await?;
                self.still_in(session).await?;
                json(&asked)
            }
            Request::Extend { lease, duration, units, victims } => {
                json(&self.extend(&lease, duration, units, &victims, by).await?)
            }
            Request::Flex { lease, shrink, victims, force } => {
                json(&self.flex(&lease, (shrink, force), &victims, by).await?)
            }
            Request::Shorten { lease, until } => {
                json(&self.shorten(&lease, until.on(self.now()), by).await?)
            }
            Request::Modify { lease, configuration } => {
                json(&self.modify(&lease, &configuration, by).await?)
            }
            Request::Grow { lease, units, condition } => {
                json(&self.grow(&lease, units, condition.as_deref(), by).await?)
            }
            Request::Redeem { lease } => json(&self.redeem(&lease, by).await?),
            Request::Split(request) => json(&self.split(*request, by).await?),
            Request::Take(request) => json(&self.take(*request, by).await?),
            Request::Tickets { manager } => json(&self.tickets(manager.as_ref()).await?),
            Request::Close { lease, by: left_by, force } => {
                let left_by = left_by.map(|left_by| left_by.on(self.now()));
                json(&self.close(&lease, (left_by, force), by).await?)
            }
            Request::Accept { lease, offer } => json(&self.accept(&lease, offer, by).await?),
            Request::Withdraw { lease } => json(&self.withdraw(&lease, by).await?),
            Request::Revise(request) => json(&lease_request::revise(self, *request, by).await?),
            Request::Leases(wanted) => {
                let (leases, left) = self.leases(&wanted).await?;
                more = left;
                json(&leases)
            }
            Request::Lease { lease } => json(&self.named(&lease).await?),
            Request::Why { lease } => json(&why::of_parts(self, &lease).await?),
            Request::Slices => json(&self.slices().await?),
            Request::Sites { site } => json(&self.sites(site.as_ref()).await?),
            Request::Brokers { broker } => json(&self.brokers(broker.as_ref()).await?),
            Request::Availability(request) => json(&self.availability(*request).await?),
            Request::Orders { broker } => json(&self.orders(broker.as_ref()).await?),
            Request::Needs { broker } => json(&self.needs(broker.as_ref()).await?),
            Request::Report(request) => self.report(*request).await,
            Request::Quotas { broker } => json(&self.quotas(broker.as_ref()).await?),
            Request::SetQuota { broker, peer, quota } => {
                json(&self.set_quota(&broker, peer.as_ref(), quota, by).await?)
            }
            Request::OpenSession(request) => json(&self.open_for_process(&request).await?),
            Request::Sessions => json(&self.sessions_open().await?),
            Request::Session { session } => json(&self.session(&session).await?),
            Request::CloseSession { session } => json(&self.close_session(&session).await?),
            Request::Sharings { broker } => json(&self.sharings(broker.as_ref()).await?),
            Request::Share(asked) => json(&self.share(*asked, by).await?),
            Request::Routes { broker, demand } => {
                json(&self.routes(broker.as_ref(), demand.as_deref()).await?)
            }
            Request::SetNeighbour(asked) => json(&self.set_neighbour(*asked, by).await?),
            Request::Selling { broker } => json(&self.selling(broker.as_ref()).await?),
            Request::Sell { broker, sells } => json(&self.sell(&broker, sells, by).await?),
            Request::Unit { site, unit, act } => json(&self.act_on(&site, &unit, act, by).await?),
            Request::Add(new) => json(&self.add(&new, by).await?),
            Request::Peers { peer } => json(&self.peers(peer.as_ref()).await?),
            Request::Invite(request) => json(&self.invite(*request, by).await?),
            Request::Join(request) => json(&self.join(*request, by).await?),
            Request::ChangePeer(request) => json(&self.change_peer(*request, by).await?),
            Request::RemovePeer { peer, of } => {
                json(&self.remove_peer(&peer, of.as_ref(), by).await?)
            }
            Request::Keys { actor } => json(&self.keys(actor.as_ref()).await?),
            Request::RotateKey { actor } => json(&self.rotate_key(&actor, by).await?),
            Request::RevokeKey { actor, number } => {
                json(&self.revoke_key(&actor, number, by).await?)
            }
            Request::Ticket { hash } => json(&self.ticket(&hash).await?),
            Request::DelegateOfSite(asked) => json(&self.site_delegates(*asked).await?),
            Request::DelegateOfBroker(asked) => json(&self.broker_delegates(*asked).await?),
            Request::GiveBack { broker, delegation, units, from } => {
                json(&self.give_delegation_back(&broker, &delegation, units, from).await?)
            }
            Request::Recall { ticket, units, from } => {
                json(&self.recall(&ticket, (units, from), by).await?)
            }
            Request::RecallDelegation { delegation, units, from } => {
                json(&self.recall_delegation(&delegation, (units, from), by).await?)
            }
            Request::RecallTaken { ticket, timeout } => {
                json(&self.recall_taken(&ticket, timeout).await?)
            }
            Request::Victims { lease, units } => {
                json(&self.name_victims(&lease, &units, by).await?)
            }
            Request::ResetUnit { lease, unit } => {
                let reset = |lease| GuestCommand::ResetUnit { lease, unit };
                json(&self.each((&lease, by), reset).await?)
            }
            Request::ProposePlan(proposal) => json(&self.propose_plan(*proposal, by).await?),
            Request::AwaitPlan { plan, installed, timeout } => {
                json(&self.await_plan(&plan, installed, timeout).await?)
            }
            Request::AcceptPlan { plan } => json(&self.accept_plan(&plan, by).await?),
            Request::ReleasePlan { plan } => json(&self.release_plan(&plan, by).await?),
            Request::ReportPlan { plan, reports } => {
                json(&self.report_plan(&plan, reports, by).await?)
            }
            Request::Plans { manager, all } => json(&self.plans(manager.as_ref(), !all).await?),
            Request::Plan { plan } => json(&self.plan(&plan).await?),
            Request::PlanHolds { node } => json(&self.plan_holds(node.as_deref()).await?),
            Request::SetService { service, definition, unchecked } => {
                if !unchecked {
                    self.check_service(&service, &definition, by).await?;
                }
                json(&self.set_service(&service, definition, by).await?)
            }
            Request::RemoveService { service } => json(&self.remove_service(&service, by).await?),
            Request::ReportService { service, kpis, seen, members } => {
                json(&self.report_service(&service, (kpis, seen, members), by).await?)
            }
            Request::StartService { service } => json(&self.act(&service, Act::Start).await?),
            Request::StopService { service, free_units } => {
                let stopped = self.act(&service, Act::Stop).await?;
                json(&if free_units { self.free_units(&service, by).await? } else { stopped })
            }
            Request::ChangeService { service, set, unset } => {
                json(&self.change_service(&service, (&set, &unset), by).await?)
            }
            Request::PlanService { service, definition, within } => {
                json(&self.plan_service(&service, definition, within, by).await?)
            }
            Request::PlanConfiguration { text, within } => {
                json(&self.plan_configuration(&text, within, by).await?)
            }
            Request::Claims { unit } => json(&self.claims(unit.as_deref()).await?),
            Request::Resolve { unit, keep } => json(&self.resolve(&unit, &keep, by).await?),
            Request::Blacklist { service, unit, span } => {
                json(&self.blacklist(&service, (&unit, span), by).await?)
            }
            Request::RunOnUnit(run) => json(&self.run_on_unit(run).await?),
            Request::Services { manager } => json(&self.services(manager.as_ref()).await?),
            Request::Service { service } => json(&self.service(&service).await?),
            Request::Watch { .. }
            | Request::WatchServices { .. }
            | Request::HoldSession(_)
            | Request::TakeOver => Err(ApiError::new(Code::Usage, "a watch has no single answer")),
        }?;
        Ok(Answer::Ok { ok, more })
    }

    pub(super) async fn command(
        &self,
        manager: &Name,
        (by, part): (&Asker, &str),
        command: GuestCommand,
    ) -> ApiResult<Option<LeaseId>> {
        let handle = self.actor(Role::ServiceManager, manager)?;
        Ok(self.order(handle, (by, part), command).await?.lease())
    }

    async fn status(&self) -> view::StatusView {
        let mut actors = Vec::new();
        for handle in self.handles.values() {
            let info = handle.info();
            let seen = handle.query(|actor| {
                (actor.position(), view::unfinished(actor), view::ClockApartView::all(actor))
            });
            let (down, (facts, (open, more_open), clocks_apart)) = match seen.await {
                Ok(seen) => (None, seen),
                Err(error) => {
                    let why = handle.conditions().why_down();
                    (
                        Some(why.unwrap_or_else(|| error.to_string())),
                        (0, (Vec::new(), false), Vec::new()),
                    )
                }
            };
            actors.push(view::ActorView {
                name: info.name.to_string(),
                role: view::role(info.role),
                id: info.id.to_hex(),
                down,
                disk_full: self.metrics.disk_full(info),
                hung_calls: self.metrics.hung(info),
                facts,
                open,
                more_open,
                clocks_apart,
            });
        }
        let (now, margin) = (self.now(), self.config.margin);
        let step = self.clock.last_step().filter(|step| {
            step.by.max(step.by.times(-1)) > margin && now.since(step.at) < Span::DAY
        });
        view::StatusView {
            version: VERSION,
            program: env!("CARGO_PKG_VERSION").to_owned(),
            pid: std::process::id(),
            data: self.data.display().to_string(),
            now: view::time(now),
            speed: self.config.speed.get(),
            unit_processes: self.config.starts_programs().then(how_processes_are_kept),
            clock_behind_s: self.clock.behind().as_secs_f64(),
            clock_step: step.map(view::ClockStepView::of),
            actors,
            differences: drift::differences(self).await,
        }
    }

    pub(super) async fn sites(&self, site: Option<&Name>) -> ApiResult<Vec<SiteView>> {
        let mut sites = Vec::new();
        for handle in self.chosen(Role::SiteAuthority, site)? {
            let (info, names, found) = (handle.info().clone(), self.names(), self.found());
            let now = self.now();
            let look = move |site: &SiteAuthority| {
                site_view::site((&info.name, info.id), site, &names, (&found, now))
            };
            sites.extend(self.site(handle, look).await?);
        }
        Ok(sites)
    }

    pub(super) async fn brokers(&self, broker: Option<&Name>) -> ApiResult<Vec<BrokerView>> {
        let mut brokers = Vec::new();
        for handle in self.chosen(Role::Broker, broker)? {
            let (info, names, now) = (handle.info().clone(), self.names(), self.now());
            let look = move |b: &Broker| broker_view::broker((&info.name, info.id), b, &names, now);
            brokers.extend(self.broker(handle, look).await?);
        }
        Ok(brokers)
    }

    pub(super) async fn quotas(&self, broker: Option<&Name>) -> ApiResult<Vec<QuotaView>> {
        let mut quotas = Vec::new();
        for handle in self.chosen(Role::Broker, broker)? {
            let (name, names, now) = (handle.info().name.clone(), self.names(), self.now());
            let look = move |broker: &Broker| broker_view::quotas(&name, broker, &names, now);
            quotas.extend(self.broker(handle, look).await?.unwrap_or_default());
        }
        Ok(quotas)
    }
}

pub(super) fn refused(error: &HostError) -> ApiError {
    let code = match error {
        HostError::Refused(_) => Code::Usage,
        HostError::Busy(_) | HostError::DiskFull(_) => Code::Busy,
        HostError::Unknown(_) | HostError::Stopped(_) => Code::Failed,
    };
    ApiError::new(code, error.to_string())
}

pub(super) fn json(value: &impl Serialize) -> ApiResult<serde_json::Value> {
    serde_json::to_value(value).map_err(|error| ApiError::new(Code::Failed, error.to_string()))
}
