//! What services want that cannot come about, whatever is measured and whatever others do.

use tenure_core::actor::Role;
use tenure_core::model::identity::ActorId;
use tenure_core::model::name::Name;
use tenure_core::model::resource::Expr;
use tenure_core::runtime::{AnyActor, AnyMapper};
use tenure_core::service::steps::Kind;

use super::server::{ApiResult, AppState};
use super::service::{DemandView, ServiceView, SloView};

/// A broker of this deployment that orders units, and by how much a claim has to exceed the use that it ends.
struct Orders {
    broker: Name,
    gain: u64,
}

impl AppState {
    /// Adds to services of a service manager, and of all others that run here, what is to be known of them.
    pub(super) async fn warn(&self, manager: &Name, services: &mut [ServiceView]) -> ApiResult<()> {
        let brokers = self.guest(manager, |guest| Some(guest.brokers().collect::<Vec<_>>()));
        let brokers = brokers.await?.unwrap_or_default();
        let orders = self.ordering(&brokers);
        let others = if orders.is_empty() { Vec::new() } else { self.services(None).await? };
        for service in services {
            for demand in &service.demands {
                service.warnings.extend(self.beyond_stock(&brokers, demand).await?);
            }
            let rivals = others.iter().filter(|other| other.service != service.service);
            let close = rivals
                .flat_map(|other| orders.iter().flat_map(|order| order.too_close(service, other)));
            let close: Vec<String> = close.collect();
            service.warnings.extend(close);
        }
        Ok(())
    }

    /// The brokers among these that run here and order units by urgency.
    fn ordering(&self, brokers: &[ActorId]) -> Vec<Orders> {
        let here = brokers.iter().filter_map(|id| self.handle_of(*id));
        let orders = here.filter_map(|handle| {
            let broker = handle.info().name.clone();
            let mapper = self.config().mapper_of(Role::Broker, &broker).ok()?;
            let AnyMapper::Broker(mapper) = mapper else { return None };
            Some(Orders { gain: mapper.least_gain()?, broker })
        });
        orders.collect()
    }

    /// That more is wanted than there is, if all brokers run here: what others have is theirs to say.
    async fn beyond_stock(
        &self,
        brokers: &[ActorId],
        demand: &DemandView,
    ) -> ApiResult<Option<String>> {
        let Ok(resource) = Name::new(&demand.resource) else { return Ok(None) };
        let requirement = demand.requirement.as_deref().and_then(|text| Expr::parse(text).ok());
        let kind = Kind { resource, requirement };
        let mut stock = 0;
        for broker in brokers {
            let Some(handle) = self.handle_of(*broker) else { return Ok(None) };
            let kind = kind.clone();
            stock += self.look(handle, move |actor| units_like(actor, &kind)).await?;
        }
        let wanted = demand.wanted;
        let whose =
            || demand.requirement.as_ref().map_or(String::new(), |of| format!(" where {of}"));
        Ok((stock < u64::from(wanted)).then(|| {
            let (of, whose) = (&demand.resource, whose());
            format!("{wanted} `{of}`{whose} are wanted, and all brokers together have {stock}")
        }))
    }
}

fn units_like(actor: &AnyActor, kind: &Kind) -> u64 {
    match actor {
        AnyActor::Broker(broker) => broker.units_like(kind),
        AnyActor::ServiceManager(_) | AnyActor::SiteAuthority(_) => 0,
    }
}

impl Orders {
    /// A sentence for each SLO whose claims end no use of another service, although they are more urgent.
    fn too_close(&self, service: &ServiceView, other: &ServiceView) -> Vec<String> {
        let Self { broker, gain } = self;
        let close = |mine: &SloView, theirs: &SloView| {
            let more = u64::from(mine.urgency).checked_sub(theirs.urgency.into());
            mine.resource == theirs.resource && more.is_some_and(|more| 0 < more && more < *gain)
        };
        let pairs = service.slos.iter().flat_map(|mine| {
            let theirs = other.slos.iter().filter(move |theirs| close(mine, theirs));
            theirs.map(move |theirs| (mine, theirs))
        });
        let told = pairs.map(|(mine, theirs)| {
            format!(
                "`{}` ({}) takes nothing from `{}` of {} ({}): broker {broker} orders units for {gain} more",
                mine.slo, mine.urgency, theirs.slo, other.service, theirs.urgency
            )
        });
        told.collect()
    }
}
