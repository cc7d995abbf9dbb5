//! What changed definitions of services would come to: their service managers and the brokers rehearse them.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use tenure_config::Source;
use tenure_core::actor::Role;
use tenure_core::broker::facts::Fact as BrokerFact;
use tenure_core::broker::needs::ServiceId;
use tenure_core::broker::orders::{OrderState, UnitOrder};
use tenure_core::model::identity::ActorId;
use tenure_core::model::name::Name;
use tenure_core::model::slice::{LeaseId, RequestId};
use tenure_core::model::time::Span;
use tenure_core::runtime::{AnyActor, AnyMapper, Fact, Input};
use tenure_core::service::definition::Definition;
use tenure_core::service::state::State;
use tenure_core::service_manager::facts::Fact as GuestFact;
use tenure_core::service_manager::machine::AfterLeave;
use tenure_core::service_manager::services::{Found, ServiceCommand};
use tenure_core::service_manager::{Command as GuestCommand, ServiceManager};

use super::asker::Asker;
use super::lease_request;
use super::order::OrderView;
use super::rehearsal::Rehearsal;
use super::server::{ApiResult, AppState};
use super::service::{Context, DemandView, ServiceView};
use super::service_name::ServiceName;
use super::view::{Names, name, time};
use super::{ApiError, Code};
use crate::config::{self, Config};

/// The longest time that is rehearsed.
const LONGEST: Span = Span::DAY;

/// What changed definitions would come to, if all that is measured stayed as it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServicePlanView {
    /// Until when they were tried out.
    pub until: String,
    /// The services that it is about, as they would be then.
    pub services: Vec<PlannedService>,
    /// What would be done for them, in the order of time.
    pub steps: Vec<PlannedStep>,
    /// The orders that brokers would have placed for them, or of them, by then.
    pub orders: Vec<OrderView>,
}

/// What would become of a service.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlannedService {
    /// The service.
    pub service: String,
    /// What it would want and have.
    pub demands: Vec<DemandView>,
    /// What would be amiss, in sentences; empty if it had all that it claims.
    pub why: Vec<String>,
}

/// Something that would be done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlannedStep {
    /// When.
    pub at: String,
    /// Who would do it.
    pub by: String,
    /// What, in words.
    pub what: String,
}

impl AppState {
    /// Tries a definition of a service out, for so long.
    pub(super) async fn plan_service(
        &self,
        service: &ServiceName,
        definition: Box<Definition>,
        within: Span,
        by: &Asker,
    ) -> ApiResult<ServicePlanView> {
        self.check_definition(&definition, by)?;
        let manager = lease_request::manager(self, service.manager.as_ref())?;
        self.follows_slos(&manager)?;
        let service = service.service.clone();
        let only = Some((manager.clone(), service.clone()));
        let changes = vec![(manager, service, definition)];
        self.try_out(self.config(), (changes, only), within).await
    }

    /// Tries the services and mappers of a changed configuration out, for so long. What it has beside those counts for
    /// nothing, and so does who does not run here.
    pub(super) async fn plan_configuration(
        &self,
        text: &str,
        within: Span,
        by: &Asker,
    ) -> ApiResult<ServicePlanView> {
        let source = Source { name: "the changed configuration", text };
        let changed = config::parse(source, &[]);
        let changed = changed.map_err(|error| ApiError::new(Code::Usage, error.to_string()))?;
        let mut changes = Vec::new();
        for handle in self.of_role(Role::ServiceManager) {
            let manager = &handle.info().name;
            let services = changed.service_managers.get(manager).map(|known| &known.services);
            for (service, definition) in services.into_iter().flatten() {
                self.check_definition(definition, by)?;
                let definition = Box::new(definition.clone());
                changes.push((manager.clone(), service.clone(), definition));
            }
        }
        self.try_out(&changed, (changes, None), within).await
    }

    async fn try_out(
        &self,
        config: &Config,
        (changes, only): (Vec<Change>, Option<(Name, Name)>),
        within: Span,
    ) -> ApiResult<ServicePlanView> {
        if within < Span::ZERO || LONGEST < within {
            let message = format!("{within} is not tried out: {LONGEST} at most");
            return Err(ApiError::new(Code::Usage, message));
        }
        let mut guests: Vec<Name> = changes.iter().map(|(manager, ..)| manager.clone()).collect();
        if only.is_none() {
            let all = self.of_role(Role::ServiceManager);
            guests = all.map(|handle| handle.info().name.clone()).collect();
        }
        let mut actors = Vec::new();
        for guest in &guests {
            actors.push(self.copy_of((Role::ServiceManager, guest), config).await?);
        }
        for broker in self.of_role(Role::Broker).map(|handle| handle.info().name.clone()) {
            actors.push(self.copy_of((Role::Broker, &broker), config).await?);
        }
        let (now, names) = (self.now(), self.names());
        let trial = Trial { guests, changes, only, within, names };
        // Mappers may take their time; others are not to wait for them.
        let tried = tokio::task::spawn_blocking(move || trial.run(Rehearsal::new(now, actors)));
        tried.await.map_err(|_| ApiError::new(Code::Failed, "a mapper failed on the plan"))
    }

    /// A copy of an actor as it is now, with a mapper as in a configuration, or as it has if that one has none for it.
    async fn copy_of(
        &self,
        (role, name): (Role, &Name),
        config: &Config,
    ) -> ApiResult<(ActorId, AnyActor, AnyMapper)> {
        let handle = self.actor(role, name)?;
        let actor = self.look(handle, |actor| Some(actor.clone())).await?;
        let config = if config.has(role, name) { config } else { self.config() };
        let mapper = config.mapper_of(role, name);
        let mapper = mapper.map_err(|error| ApiError::new(Code::Failed, error.to_string()))?;
        let gone = || ApiError::new(Code::Failed, format!("{name} does not run"));
        let actor = match (actor.ok_or_else(gone)?, &mapper) {
            (AnyActor::Broker(broker), AnyMapper::Broker(mapper)) => {
                broker.with_swing(mapper.swing()).into()
            }
            (actor, _) => actor,
        };
        Ok((handle.info().id, actor, mapper))
    }
}

/// A service of a service manager, and what it would be.
type Change = (Name, Name, Box<Definition>);

/// What is tried out.
struct Trial {
    /// The service managers, as they come first among the actors.
    guests: Vec<Name>,
    changes: Vec<Change>,
    /// The service that it is about, by service manager and name; all services if none is named.
    only: Option<(Name, Name)>,
    within: Span,
    names: Names,
}

impl Trial {
    fn run(self, mut rehearsal: Rehearsal) -> ServicePlanView {
        let until = rehearsal.now().plus(self.within);
        for (manager, service, definition) in &self.changes {
            let (service, definition) = (service.clone(), definition.clone());
            if let Some(index) = self.guests.iter().position(|guest| guest == manager) {
                command(&mut rehearsal, index, ServiceCommand::Define { service, definition });
            }
        }
        self.measure_again(&mut rehearsal);
        let step = self.shortest_measured(&rehearsal);
        while rehearsal.advance(step, until) {
            self.measure_again(&mut rehearsal);
        }
        let mut steps: Vec<PlannedStep> = (0..self.guests.len())
            .flat_map(|index| self.steps_of_guest(&rehearsal, index))
            .collect();
        let (of_brokers, orders) = self.of_brokers(&rehearsal);
        steps.extend(of_brokers);
        steps.sort_by(|a, b| a.at.cmp(&b.at));
        let services = self.services(&rehearsal);
        ServicePlanView { until: time(until), services, steps, orders }
    }

    /// How often all has to be measured for it to count all the time.
    fn shortest_measured(&self, rehearsal: &Rehearsal) -> Span {
        let guests = (0..self.guests.len()).filter_map(|index| guest(rehearsal, index));
        let services = guests.flat_map(ServiceManager::services);
        let shortest = services.map(|service| service.behaviour.stale_after).min();
        let third = |span: Span| Span::from_micros(span.as_micros() / 3);
        shortest.map_or(Span::MINUTE, third).max(Span::SECOND)
    }

    /// What was measured is measured again, so that it goes on to count.
    fn measure_again(&self, rehearsal: &mut Rehearsal) {
        for index in 0..self.guests.len() {
            for report in reports(rehearsal, index) {
                command(rehearsal, index, report);
            }
        }
    }

    fn services(&self, rehearsal: &Rehearsal) -> Vec<PlannedService> {
        let mut services = Vec::new();
        for (index, manager) in self.guests.iter().enumerate() {
            let Some(guest) = guest(rehearsal, index) else { continue };
            for view in guest.services().iter().filter(|view| self.is_about(manager, &view.service))
            {
                let Some(survey) = guest.service(&view.service) else { continue };
                let context = Context { adapters: None, names: &self.names, now: rehearsal.now() };
                let shown = ServiceView::of(manager, guest, (&survey, view), &context);
                let ServiceView { service, demands, why, .. } = shown;
                services.push(PlannedService { service, demands, why });
            }
        }
        services
    }

    fn is_about(&self, manager: &Name, service: &Name) -> bool {
        let only = self.only.as_ref();
        only.is_none_or(|(guest, one)| (guest, one) == (manager, service))
    }

    fn steps_of_guest(&self, rehearsal: &Rehearsal, index: usize) -> Vec<PlannedStep> {
        let manager = &self.guests[index];
        let slices = guest(rehearsal, index).map(ServiceManager::slices).unwrap_or_default();
        let ours = slices.into_iter().filter(|(service, _)| self.is_about(manager, service));
        let leases: Vec<LeaseId> = ours.flat_map(|(_, leases)| leases).collect();
        let steps = rehearsal.facts(index).iter().filter_map(|entry| {
            let Fact::ServiceManager(fact) = &entry.fact else { return None };
            let what = self.of_guest(manager, fact, &leases)?;
            Some(PlannedStep { at: time(entry.at), by: manager.to_string(), what })
        });
        steps.collect()
    }

    /// What the service manager did for the service, which has these leases.
    #[expect(clippy::wildcard_enum_match_arm, reason = "all else is about other things")]
    fn of_guest(&self, manager: &Name, fact: &GuestFact, leases: &[LeaseId]) -> Option<String> {
        match fact {
            GuestFact::Asked(asked) if self.is_about(manager, &asked.slice) => {
                let items = asked.request.items.iter();
                let items = items.map(|item| format!("{} `{}`", item.units, item.resource));
                let items: Vec<String> = items.collect();
                Some(format!("asks {} for {}", name(&self.names, asked.broker), items.join(", ")))
            }
            GuestFact::ReturnBegun(fact) if leases.contains(&fact.lease) => {
                Some(format!("gives a part of {manager}/{} back: {}", fact.lease, fact.reason))
            }
            GuestFact::CloseBegun(fact) if leases.contains(&fact.lease) => {
                Some(format!("gives {manager}/{} back", fact.lease))
            }
            // No unit is left in a rehearsal, so nothing follows from that.
            GuestFact::LeaveBegun(fact)
                if fact.then == AfterLeave::Close && leases.contains(&fact.lease) =>
            {
                Some(format!("gives {manager}/{} back", fact.lease))
            }
            _ => None,
        }
    }

    /// The requests that were made meanwhile.
    fn requests(&self, rehearsal: &Rehearsal) -> BTreeSet<RequestId> {
        let mut requests = BTreeSet::new();
        for (index, manager) in self.guests.iter().enumerate() {
            requests.extend(rehearsal.facts(index).iter().filter_map(|entry| match &entry.fact {
                Fact::ServiceManager(GuestFact::Asked(asked))
                    if self.is_about(manager, &asked.slice) =>
                {
                    Some(asked.request.id)
                }
                Fact::ServiceManager(_) | Fact::Broker(_) | Fact::SiteAuthority(_) => None,
            }));
        }
        requests
    }

    fn of_brokers(&self, rehearsal: &Rehearsal) -> (Vec<PlannedStep>, Vec<OrderView>) {
        let (mut steps, mut orders) = (Vec::new(), Vec::new());
        let requests = self.requests(rehearsal);
        for index in self.guests.len()..rehearsal.len() {
            let AnyActor::Broker(broker) = rehearsal.actor(index) else { continue };
            let by = name(&self.names, rehearsal.id(index));
            let facts = rehearsal.facts(index).iter();
            steps.extend(facts.filter_map(|entry| {
                let Fact::Broker(fact) = &entry.fact else { return None };
                let what = self.of_broker(fact, &requests)?;
                Some(PlannedStep { at: time(entry.at), by: by.clone(), what })
            }));
            let Ok(broker_name) = Name::new(&by) else { continue };
            let ours = broker.orders().filter(|(_, open)| {
                matches!(open.state, OrderState::Placed) && self.is_moved(&open.order)
            });
            orders.extend(ours.map(|(n, open)| OrderView::of(&broker_name, n, open, &self.names)));
            let advised = broker.advised_orders().iter();
            let ours = advised.filter(|order| self.is_moved(order));
            orders.extend(ours.map(|order| OrderView::advised(&broker_name, order, &self.names)));
        }
        (steps, orders)
    }

    /// What a broker did for the service, or with its units.
    fn of_broker(&self, fact: &BrokerFact, requests: &BTreeSet<RequestId>) -> Option<String> {
        if let BrokerFact::OrderPlaced(placed) = fact {
            let UnitOrder { holder, claimant, units, kind, worth, claim, .. } = &placed.order;
            let service =
                |id: &ServiceId| format!("{}/{}", name(&self.names, id.guest), id.service);
            let (from, to, resource) = (service(holder), service(claimant), &kind.resource);
            let ours = self.is_moved(&placed.order);
            let what =
                format!("orders {units} `{resource}` of {from} (worth {worth}) for {to} ({claim})");
            return ours.then_some(what);
        }
        if let BrokerFact::TicketsCut(cut) = fact {
            let units: u32 =
                cut.tickets.iter().map(|(_, ticket)| ticket.bottom().units.get()).sum();
            let what = || format!("grants {units} of what is free: {}", cut.reason);
            return requests.contains(&cut.request).then(what);
        }
        None
    }

    /// Whether an order gives the service units, or takes units of it.
    fn is_moved(&self, order: &UnitOrder) -> bool {
        self.is_ours(&order.holder) || self.is_ours(&order.claimant)
    }

    fn is_ours(&self, id: &ServiceId) -> bool {
        let Some((manager, service)) = &self.only else { return true };
        id.service == *service && name(&self.names, id.guest) == manager.as_str()
    }
}

/// How a service of this state is found.
fn found(state: State) -> Option<Found> {
    match state {
        State::Unknown => None,
        State::Running => Some(Found::Running),
        State::Error => Some(Found::Failed),
        State::Stopped => Some(Found::Stopped),
        State::Starting => Some(Found::Starting),
        State::Shutdown => Some(Found::Shutdown),
    }
}

fn command(rehearsal: &mut Rehearsal, index: usize, command: ServiceCommand) {
    rehearsal.hand(index, Input::Command(GuestCommand::Service(command).into()));
}

/// All that was measured of the services of a guest.
fn reports(rehearsal: &Rehearsal, index: usize) -> Vec<ServiceCommand> {
    let Some(guest) = guest(rehearsal, index) else { return Vec::new() };
    let reports = guest.services().into_iter().filter_map(|view| {
        let survey = guest.service(&view.service)?;
        survey.reported_at?;
        let (service, kpis) = (view.service.clone(), survey.kpis.clone());
        let (seen, busy) = (found(survey.state)?, BTreeMap::new());
        let members = survey.members.iter().map(|(id, member)| (id.clone(), member.up));
        let members = members.collect();
        Some(ServiceCommand::Report { service, kpis, seen, busy, members })
    });
    reports.collect()
}

fn guest(rehearsal: &Rehearsal, index: usize) -> Option<&ServiceManager> {
    match rehearsal.actor(index) {
        AnyActor::ServiceManager(guest) => Some(guest),
        AnyActor::Broker(_) | AnyActor::SiteAuthority(_) => None,
    }
}
