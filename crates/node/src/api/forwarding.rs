//! What is agreed between brokers on the requests of each other's guests.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use tenure_core::actor::Role;
use tenure_core::broker::forwarding::{Accepted, Neighbour, NeighbourSurvey};
use tenure_core::broker::{Broker, Command as BrokerCommand};
use tenure_core::model::name::Name;
use tenure_core::model::time::{Span, Time};
use tenure_core::wire::advert::AdvertEntry;
use tenure_core::wire::request::Item;

use super::asker::Asker;
use super::lease_request;
use super::server::{ApiResult, AppState};
use super::view::{Names, name, time};

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
    /// If requests are passed on to it: whether it was heard of late, `unknown`, `live`, `silent` or `forgotten`.
    pub state: Option<String>,
    /// When it was heard last.
    pub heard: Option<String>,
    /// How many hops away the nearest free units are, or, if items are asked for, room for them.
    pub hops: Option<u8>,
    /// What it advertises; if items are asked for, of those alone.
    pub entries: Vec<EntryView>,
}

/// Units of one type that a broker advertises.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct EntryView {
    /// How many times a request is passed on to get there.
    pub hops: u8,
    /// The type.
    pub resource: String,
    /// What the units are like, if that is disclosed.
    pub attributes: Option<BTreeMap<String, String>>,
    /// How many are free; without a number, some are.
    pub free: Option<u32>,
    /// If none is free: when one will be.
    pub next: Option<String>,
}

impl EntryView {
    fn of(entry: &AdvertEntry) -> Self {
        let attributes = entry.attributes.as_ref().map(|attributes| {
            let all = attributes.iter();
            all.map(|(name, value)| (name.to_string(), value.to_string())).collect()
        });
        Self {
            hops: entry.hops,
            resource: entry.resource.to_string(),
            attributes,
            free: entry.free,
            next: entry.next.map(time),
        }
    }
}

fn neighbour(
    (broker, names): (&Name, &Names),
    survey: &NeighbourSurvey,
    wanted: &[Item],
) -> NeighbourView {
    let Neighbour { forward, accept } = &survey.neighbour;
    let types = accept.iter().flat_map(|accept| &accept.types);
    let known = survey.known.as_ref();
    let told = known.into_iter().flat_map(|known| known.entries.iter());
    let told: Vec<_> = told
        .filter(|entry| wanted.is_empty() || wanted.iter().any(|item| entry.suits(item)))
        .collect();
    let hops = match wanted {
        [] => told.iter().filter(|entry| entry.free != Some(0)).map(|entry| entry.hops).min(),
        [..] => known.and_then(|known| known.promises(wanted, Time::ZERO)),
    };
    NeighbourView {
        broker: broker.to_string(),
        with: name(names, survey.with),
        by: survey.by.word().to_owned(),
        forward: *forward,
        accept: accept.is_some(),
        types: types.map(Name::to_string).collect(),
        longest: accept.as_ref().and_then(|accept| accept.longest),
        passed: survey.passed,
        state: known.map(|known| known.liveness.word().to_owned()),
        heard: known.and_then(|known| known.heard).map(time),
        hops,
        entries: told.into_iter().map(EntryView::of).collect(),
    }
}

impl AppState {
    pub(super) async fn neighbours(
        &self,
        broker: Option<&Name>,
        wanted: Option<&str>,
    ) -> ApiResult<Vec<NeighbourView>> {
        let read = |demand| lease_request::items(demand, self.profiles());
        let mut wanted = wanted.map(read).transpose()?.unwrap_or_default();
        let first = wanted.iter().map(|item| item.choice).min();
        wanted.retain(|item| Some(item.choice) == first);
        let mut all = Vec::new();
        for handle in self.chosen(Role::Broker, broker)? {
            let (of, names, now) = (handle.info().name.clone(), self.names(), self.now());
            let wanted = wanted.clone();
            let look = move |actor: &Broker| {
                let all = actor.neighbours(now);
                let all = all.iter().map(|survey| neighbour((&of, &names), survey, &wanted));
                all.collect::<Vec<_>>()
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
        self.neighbours(Some(&asked.broker), None).await
    }
}
