//! What brokers know of services, and the orders that they have placed.

use serde::{Deserialize, Serialize};
use tenure_core::actor::Role;
use tenure_core::broker::Broker;
use tenure_core::broker::needs::ServiceId;
use tenure_core::broker::orders::{OpenOrder, OrderState};
use tenure_core::model::name::Name;
use tenure_core::service::steps::Step;
use tenure_core::wire::need::Want;

use super::server::{ApiResult, AppState};
use super::view::{Names, name, time};

/// Units that are taken from a service for another one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OrderView {
    /// Its broker and number, as `exchange/3`.
    pub order: String,
    /// `placed`, `recalled` or `freed`.
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
    /// When it was placed.
    pub placed: String,
    /// When its units are taken, or since when they are free.
    pub due: String,
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
    fn of(broker: &Name, number: u64, open: &OpenOrder, names: &Names) -> Self {
        let order = &open.order;
        let due = match open.state {
            OrderState::Placed => open.due,
            OrderState::Recalled { at } | OrderState::Freed { at } => at,
        };
        Self {
            order: format!("{broker}/{number}"),
            state: open.state.word().to_owned(),
            units: order.units.get(),
            resource: order.kind.resource.to_string(),
            from: service(&order.holder, names),
            to: service(&order.claimant, names),
            worth: order.worth,
            claim: order.claim,
            placed: time(open.placed),
            due: time(due),
            ticket: order.ticket.to_string(),
        }
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
    /// The orders of brokers that have not ended.
    pub(super) async fn orders(&self, broker: Option<&Name>) -> ApiResult<Vec<OrderView>> {
        self.of_brokers(broker, |name, broker, names| {
            broker.orders().map(|(n, open)| OrderView::of(name, n, open, names)).collect()
        })
        .await
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
