//! What a changed definition of a service would come to: its service manager and the brokers rehearse it.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use tenure_core::actor::Role;
use tenure_core::broker::facts::Fact as BrokerFact;
use tenure_core::broker::needs::ServiceId;
use tenure_core::broker::orders::{OrderState, UnitOrder};
use tenure_core::model::identity::ActorId;
use tenure_core::model::name::Name;
use tenure_core::model::slice::{LeaseId, RequestId};
use tenure_core::model::time::{Span, Time};
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
use super::service_adapter;
use super::service_name::ServiceName;
use super::view::{Names, name, time};
use super::{ApiError, Code};

/// The longest time that is rehearsed.
const LONGEST: Span = Span::DAY;

/// What a definition of a service would come to, if all that is measured stayed as it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServicePlanView {
    /// The service.
    pub service: String,
    /// Until when it was tried out.
    pub until: String,
    /// What it would want and have then.
    pub demands: Vec<DemandView>,
    /// What would be done for it, in the order of time.
    pub steps: Vec<PlannedStep>,
    /// The orders that brokers would have placed for it, or of it, by then.
    pub orders: Vec<OrderView>,
    /// What would be amiss then, in sentences; empty if it had all that it claims.
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
        definition.check().map_err(|bad| ApiError::new(Code::Usage, bad.to_string()))?;
        service_adapter::check(&definition, by)?;
        if within < Span::ZERO || LONGEST < within {
            let message = format!("{within} is not tried out: {LONGEST} at most");
            return Err(ApiError::new(Code::Usage, message));
        }
        let manager = lease_request::manager(self, service.manager.as_ref())?;
        self.follows_slos(&manager)?;
        let mut actors = vec![self.copy_of(Role::ServiceManager, &manager).await?];
        for broker in self.of_role(Role::Broker).map(|handle| handle.info().name.clone()) {
            actors.push(self.copy_of(Role::Broker, &broker).await?);
        }
        let names = self.names();
        let (now, service) = (self.now(), service.service.clone());
        let trial = Trial { manager, service, definition, within, names };
        // Mappers may take their time; others are not to wait for them.
        let tried = tokio::task::spawn_blocking(move || trial.run(Rehearsal::new(now, actors)));
        tried.await.map_err(|_| ApiError::new(Code::Failed, "a mapper failed on the plan"))
    }

    /// A copy of an actor as it is now, with a mapper as in the configuration.
    async fn copy_of(&self, role: Role, name: &Name) -> ApiResult<(ActorId, AnyActor, AnyMapper)> {
        let handle = self.actor(role, name)?;
        let actor = self.look(handle, |actor| Some(actor.clone())).await?;
        let mapper = self.config().mapper_of(role, name);
        let mapper = mapper.map_err(|error| ApiError::new(Code::Failed, error.to_string()))?;
        let gone = || ApiError::new(Code::Failed, format!("{name} does not run"));
        Ok((handle.info().id, actor.ok_or_else(gone)?, mapper))
    }
}

/// What is tried out.
struct Trial {
    manager: Name,
    service: Name,
    definition: Box<Definition>,
    within: Span,
    names: Names,
}

impl Trial {
    /// The service manager is the first of the actors.
    fn run(self, mut rehearsal: Rehearsal) -> ServicePlanView {
        let step = Span::from_micros(self.definition.behaviour.stale_after.as_micros() / 3);
        let until = rehearsal.now().plus(self.within);
        let definition = self.definition.clone();
        let define = ServiceCommand::Define { service: self.service.clone(), definition };
        self.command(&mut rehearsal, define);
        self.measure_again(&mut rehearsal);
        while rehearsal.advance(step.max(Span::SECOND), until) {
            self.measure_again(&mut rehearsal);
        }
        let mut steps = self.steps_of_guest(&rehearsal);
        let (of_brokers, orders) = self.of_brokers(&rehearsal);
        steps.extend(of_brokers);
        steps.sort_by(|a, b| a.at.cmp(&b.at));
        let view = guest(&rehearsal).and_then(|guest| self.view(guest, rehearsal.now()));
        let (demands, why) = view.map(|view| (view.demands, view.why)).unwrap_or_default();
        let service = format!("{}/{}", self.manager, self.service);
        ServicePlanView { service, until: time(until), demands, steps, orders, why }
    }

    fn command(&self, rehearsal: &mut Rehearsal, command: ServiceCommand) {
        rehearsal.hand(0, Input::Command(GuestCommand::Service(command).into()));
    }

    /// What was measured is measured again, so that it goes on to count.
    fn measure_again(&self, rehearsal: &mut Rehearsal) {
        let Some(guest) = guest(rehearsal) else { return };
        let reports: Vec<ServiceCommand> = guest
            .services()
            .into_iter()
            .filter_map(|view| {
                let survey = guest.service(&view.service)?;
                survey.reported_at?;
                let (service, kpis) = (view.service.clone(), survey.kpis.clone());
                let (seen, busy) = (found(survey.state)?, BTreeMap::new());
                let members = survey.members.iter().map(|(id, member)| (id.clone(), member.up));
                let members = members.collect();
                Some(ServiceCommand::Report { service, kpis, seen, busy, members })
            })
            .collect();
        for report in reports {
            self.command(rehearsal, report);
        }
    }

    fn view(&self, guest: &ServiceManager, now: Time) -> Option<ServiceView> {
        let survey = guest.service(&self.service)?;
        let view = guest.services().into_iter().find(|view| view.service == self.service)?;
        let context = Context { adapters: None, names: &self.names, now };
        Some(ServiceView::of(&self.manager, guest, (&survey, &view), &context))
    }

    fn steps_of_guest(&self, rehearsal: &Rehearsal) -> Vec<PlannedStep> {
        let leases = guest(rehearsal).and_then(|guest| guest.slices().remove(&self.service));
        let leases = leases.unwrap_or_default();
        let steps = rehearsal.facts(0).iter().filter_map(|entry| {
            let Fact::ServiceManager(fact) = &entry.fact else { return None };
            let what = self.of_guest(fact, &leases)?;
            Some(PlannedStep { at: time(entry.at), by: self.manager.to_string(), what })
        });
        steps.collect()
    }

    /// What the service manager did for the service, which has these leases.
    #[expect(clippy::wildcard_enum_match_arm, reason = "all else is about other things")]
    fn of_guest(&self, fact: &GuestFact, leases: &[LeaseId]) -> Option<String> {
        let manager = &self.manager;
        match fact {
            GuestFact::Asked(asked) if asked.slice == self.service => {
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

    /// The requests for the service that were made meanwhile.
    fn requests(&self, rehearsal: &Rehearsal) -> BTreeSet<RequestId> {
        let asked = rehearsal.facts(0).iter().filter_map(|entry| match &entry.fact {
            Fact::ServiceManager(GuestFact::Asked(asked)) if asked.slice == self.service => {
                Some(asked.request.id)
            }
            Fact::ServiceManager(_) | Fact::Broker(_) | Fact::SiteAuthority(_) => None,
        });
        asked.collect()
    }

    fn of_brokers(&self, rehearsal: &Rehearsal) -> (Vec<PlannedStep>, Vec<OrderView>) {
        let (mut steps, mut orders) = (Vec::new(), Vec::new());
        let requests = self.requests(rehearsal);
        for index in 1..rehearsal.len() {
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
        id.service == self.service && name(&self.names, id.guest) == self.manager.as_str()
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

fn guest(rehearsal: &Rehearsal) -> Option<&ServiceManager> {
    match rehearsal.actor(0) {
        AnyActor::ServiceManager(guest) => Some(guest),
        AnyActor::Broker(_) | AnyActor::SiteAuthority(_) => None,
    }
}
