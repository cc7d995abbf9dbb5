//! What is agreed between brokers on the requests of each other's guests.

use serde::{Deserialize, Serialize};
use tenure_core::actor::Role;
use tenure_core::broker::forwarding::{Accepted, Neighbour, NeighbourSurvey};
use tenure_core::broker::quota::Source;
use tenure_core::broker::{Broker, Command as BrokerCommand};
use tenure_core::model::name::Name;
use tenure_core::model::time::Span;

use super::asker::Asker;
use super::server::{ApiResult, AppState};
use super::view::{Names, name};

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

/// What is agreed between two brokers, as one of them sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct NeighbourView {
    /// The broker.
    pub broker: String,
    /// The other broker.
    pub with: String,
    /// Who says so: `configuration` or `operator`.
    pub by: String,
    /// Whether requests are passed on to it.
    pub forward: bool,
    /// Whether requests that it passes on are taken.
    pub accept: bool,
    /// For units of these types alone; of any, if there are none.
    pub types: Vec<String>,
    /// For terms no longer than this.
    pub longest: Option<Span>,
    /// How many requests it is being asked for.
    pub passed: u32,
}

fn neighbour((broker, names): (&Name, &Names), survey: &NeighbourSurvey) -> NeighbourView {
    let Neighbour { forward, accept } = &survey.neighbour;
    let types = accept.iter().flat_map(|accept| &accept.types);
    NeighbourView {
        broker: broker.to_string(),
        with: name(names, survey.with),
        by: match survey.by {
            Source::Configuration => "configuration".to_owned(),
            Source::Operator => "operator".to_owned(),
        },
        forward: *forward,
        accept: accept.is_some(),
        types: types.map(Name::to_string).collect(),
        longest: accept.as_ref().and_then(|accept| accept.longest),
        passed: survey.passed,
    }
}

impl AppState {
    pub(super) async fn neighbours(&self, broker: Option<&Name>) -> ApiResult<Vec<NeighbourView>> {
        let mut all = Vec::new();
        for handle in self.chosen(Role::Broker, broker)? {
            let (of, names) = (handle.info().name.clone(), self.names());
            let look = move |actor: &Broker| {
                let all = actor.neighbours();
                all.iter().map(|survey| neighbour((&of, &names), survey)).collect::<Vec<_>>()
            };
            all.extend(self.broker(handle, look).await?.unwrap_or_default());
        }
        Ok(all)
    }

    pub(super) async fn set_neighbour(
        &self,
        asked: NeighbourRequest,
        by: &Asker,
    ) -> ApiResult<Vec<NeighbourView>> {
        let handle = self.actor(Role::Broker, &asked.broker)?;
        let with = self.party(Role::Broker, &asked.with)?;
        let look = move |actor: &Broker| {
            let all = actor.neighbours();
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
        self.neighbours(Some(&asked.broker)).await
    }
}
