//! What is agreed between brokers on the requests of each other's guests.

use serde::{Deserialize, Serialize};
use tenure_core::actor::Role;
use tenure_core::broker::forwarding::{Accepted, Neighbour};
use tenure_core::broker::{Broker, Command as BrokerCommand};
use tenure_core::model::name::Name;
use tenure_core::model::time::Span;

use super::asker::Asker;
use super::routes::{RouteKind, RouteView};
use super::server::{ApiResult, AppState};

/// What is to be agreed with another broker. What is not set stays as it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct NeighbourRequest {
    /// The broker.
    pub broker: Name,
    /// The other broker.
    pub with: Name,
    /// Whether requests are passed on to it.
    pub forward: Option<bool>,
    /// Whether requests that it passes on are taken.
    pub accept: Option<AcceptRequest>,
}

/// Which requests that another broker passes on are taken.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AcceptRequest {
    /// None.
    None,
    /// Those for these types and terms.
    Some {
        /// The types; any if there are none.
        types: Vec<Name>,
        /// The longest term, if there is one.
        longest: Option<Span>,
    },
}

impl AppState {
    pub(super) async fn set_neighbour(
        &self,
        asked: NeighbourRequest,
        by: &Asker,
    ) -> ApiResult<Vec<RouteView>> {
        let handle = self.actor(Role::Broker, &asked.broker)?;
        let with = self.party(Role::Broker, &asked.with)?;
        let now = self.now();
        let look = move |actor: &Broker| {
            let all = actor.neighbours(now);
            all.into_iter().find(|one| one.with == with).map(|one| one.neighbour)
        };
        let known = self.broker(handle, look).await?.flatten().unwrap_or_default();
        let neighbour = Neighbour {
            forward: asked.forward.unwrap_or(known.forward),
            accept: match asked.accept {
                None => known.accept,
                Some(AcceptRequest::None) => None,
                Some(AcceptRequest::Some { types, longest }) => {
                    Some(Accepted { types: types.into_iter().collect(), longest })
                }
            },
        };
        self.order(handle, (by, ""), BrokerCommand::SetNeighbour { with, neighbour }).await?;
        let mut all = self.routes(Some(&asked.broker), None).await?;
        all.retain(|route| route.kind == RouteKind::Peer);
        Ok(all)
    }
}
