//! What brokers know of services, and the orders that they have placed.

use serde::{Deserialize, Serialize};
use tenure_core::actor::Role;
use tenure_core::broker::Broker;
use tenure_core::broker::needs::ServiceId;
use tenure_core::broker::orders::{OpenOrder, OrderState, UnitOrder};
use tenure_core::model::name::Name;
use tenure_core::service::steps::Step;
use tenure_core::wire::need::Want;

use super::LeaseView;
use super::server::{ApiResult, AppState};
use super::view::{Names, name, time};

/// The state of an order that is only advised.
const ADVISED: &str = "advised";

/// Units that are taken from a service for another one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OrderView {
    /// Its broker and number, as `exchange/3`; its broker alone if it is only advised.
    pub order: String,
    /// `placed`, `recalled` or `freed`; `advised` if it would be placed, and is not.
    pub state: String,
    /// How many units.
    pub units: u32,
    /// The type.
    pub resource: String,
    /// The service that has them, by its guest.
    pub from: String,
    /// The service that claims them.
    pub to: String,
    /// What they are worth to the one that has them.
    pub worth: u64,
    /// What they are worth to the one that claims them.
    pub claim: u64,
    /// When it was placed, if it was.
    pub placed: Option<String>,
    /// When its units are taken, or since when they are free.
    pub due: Option<String>,
    /// The ticket that they are recalled of.
    pub ticket: String,
}

/// What a service wants of a kind of units, as its guest has told a broker.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NeedView {
    /// The broker.
    pub broker: String,
    /// The service, by its guest.
    pub service: String,
    /// The type.
    pub resource: String,
    /// What must hold of the units.
    pub requirement: Option<String>,
    /// What they are worth, the most urgent first.
    pub steps: Vec<Step>,
    /// By how many tickets of this broker it has some.
    pub tickets: usize,
    /// How many it has beside those.
    pub elsewhere: u32,
}

fn service(id: &ServiceId, names: &Names) -> String {
    format!("{}/{}", name(names, id.guest), id.service)
}

impl OrderView {
    pub(super) fn of(broker: &Name, number: u64, open: &OpenOrder, names: &Names) -> Self {
        let order = &open.order;
        let due = match open.state {
            OrderState::Placed => open.due,
            OrderState::Recalled { at } | OrderState::Freed { at } => at,
        };
        Self {
            order: format!("{broker}/{number}"),
            state: open.state.word().to_owned(),
            placed: Some(time(open.placed)),
            due: Some(time(due)),
            ..Self::advised(broker, order, names)
        }
    }

    /// An order that would be placed, and is only advised.
    pub(super) fn advised(broker: &Name, order: &UnitOrder, names: &Names) -> Self {
        Self {
            order: broker.to_string(),
            state: ADVISED.to_owned(),
            units: order.units.get(),
            resource: order.kind.resource.to_string(),
            from: service(&order.holder, names),
            to: service(&order.claimant, names),
            worth: order.worth,
            claim: order.claim,
            placed: None,
            due: None,
            ticket: order.ticket.to_string(),
        }
    }

    /// Whether its units are being taken.
    fn is_under_way(&self) -> bool {
        self.state != "freed" && self.state != ADVISED
    }

    fn in_words(&self, policy: &str) -> String {
        let Self { order, units, resource, from, to, worth, claim, .. } = self;
        format!(
            "order {order} takes {units} `{resource}` from {from}, to which they are worth {worth}, for {to}, which claims them at {claim}, by the policy `{policy}`"
        )
    }
}

impl NeedView {
    fn of(broker: &Name, id: &ServiceId, want: &Want, names: &Names) -> Self {
        let Want { kind, steps, tickets, elsewhere } = want;
        Self {
            broker: broker.to_string(),
            service: service(id, names),
            resource: kind.resource.to_string(),
            requirement: kind.requirement.as_ref().map(|expr| expr.as_str().to_owned()),
            steps: steps.iter().collect(),
            tickets: tickets.len(),
            elsewhere: *elsewhere,
        }
    }
}

impl AppState {
    /// The orders of brokers that have not ended, and those that would be placed and are only advised.
    pub(super) async fn orders(&self, broker: Option<&Name>) -> ApiResult<Vec<OrderView>> {
        self.of_brokers(broker, |name, broker, names| {
            let orders = broker.orders().map(|(n, open)| OrderView::of(name, n, open, names));
            let advised = broker.advised_orders().iter();
            orders.chain(advised.map(|order| OrderView::advised(name, order, names))).collect()
        })
        .await
    }

    /// The orders of brokers here that take units of a lease, each in words.
    pub(super) async fn orders_in_words(&self, lease: &LeaseView) -> ApiResult<Vec<String>> {
        if lease.recalled.is_none() {
            return Ok(Vec::new());
        }
        let orders = self.orders(None).await?.into_iter();
        let orders =
            orders.filter(|order| order.is_under_way() && lease.tickets.contains(&order.ticket));
        Ok(orders.map(|order| order.in_words(&self.policy_of(&order.order))).collect())
    }

    /// The policy of the broker of an order, as it is configured.
    fn policy_of(&self, order: &str) -> String {
        let broker = order.split('/').next().and_then(|broker| Name::new(broker).ok());
        let broker = broker.and_then(|broker| self.config().brokers.get(&broker).cloned());
        let policy = broker.and_then(|broker| broker.mapper.settings.get("policy").cloned());
        let name = policy.and_then(|policy| Some(policy.get("name")?.as_str()?.to_owned()));
        name.unwrap_or_else(|| "priority".to_owned())
    }

    /// What brokers know of services.
    pub(super) async fn needs(&self, broker: Option<&Name>) -> ApiResult<Vec<NeedView>> {
        self.of_brokers(broker, |name, broker, names| {
            let wants =
                broker.needs().flat_map(|(id, need)| need.wants.iter().map(move |w| (id, w)));
            wants.map(|(id, want)| NeedView::of(name, id, want, names)).collect()
        })
        .await
    }

    async fn of_brokers<T: Send + 'static>(
        &self,
        broker: Option<&Name>,
        of: fn(&Name, &Broker, &Names) -> Vec<T>,
    ) -> ApiResult<Vec<T>> {
        let mut all = Vec::new();
        for handle in self.chosen(Role::Broker, broker)? {
            let (name, names) = (handle.info().name.clone(), self.names());
            let look = move |broker: &Broker| of(&name, broker, &names);
            all.extend(self.broker(handle, look).await?.unwrap_or_default());
        }
        Ok(all)
    }
}
