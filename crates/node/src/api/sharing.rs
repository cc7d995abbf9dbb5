//! What brokers share with each other, and brokers that are drained.

use serde::{Deserialize, Serialize};
use tenure_core::actor::Role;
use tenure_core::broker::sharing::{Sharing, SharingSurvey};
use tenure_core::broker::{Broker, Command as BrokerCommand};
use tenure_core::model::name::Name;
use tenure_core::model::time::{Span, Time};

use super::asker::Asker;
use super::server::{ApiResult, AppState};
use super::view::{Names, name, time};

/// What a broker is to share with another one. What is not set stays as it is, and is else as usual.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct ShareRequest {
    /// The broker.
    pub broker: Name,
    /// The other broker.
    pub with: Name,
    /// Of each type at most so many units.
    pub units: Option<u32>,
    /// All units, instead of a number.
    pub all: bool,
    /// How many free units of each type it keeps.
    pub reserve: Option<u32>,
    /// The notice that their holder gets before units are recalled.
    pub notice: Option<Span>,
    /// For how long units are lent.
    pub term: Option<Span>,
}

/// What a broker shares with another one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct SharingView {
    /// The broker.
    pub broker: String,
    /// The other broker.
    pub with: String,
    /// Who says so: `configuration` or `operator`; neither of what is shared no more.
    pub by: Option<String>,
    /// Of each type at most so many units; without a number, all.
    pub units: Option<u32>,
    /// How many free units of each type it keeps.
    pub reserve: u32,
    /// The notice that their holder gets before units are recalled.
    pub notice: Span,
    /// For how long units are lent.
    pub term: Span,
    /// What is lent, by type.
    pub lent: Vec<LentView>,
    /// When the last of it ends, unless it is renewed.
    pub until: Option<String>,
}

/// What one broker has of another, of one type.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct LentView {
    /// The type.
    pub resource: String,
    /// How many units it has.
    pub units: u32,
    /// How many of these are recalled.
    pub recalled: u32,
}

/// Whether a broker sells, and what it has sold.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct SellingView {
    /// The broker.
    pub broker: String,
    /// Whether it sells: not while it is drained.
    pub sells: bool,
    /// How many of its tickets are out.
    pub tickets: u32,
    /// When the last of them ends.
    pub until: Option<String>,
    /// How many units it has lent that are not back.
    pub lent: u32,
}

fn sharing((broker, names): (&Name, &Names), survey: &SharingSurvey) -> SharingView {
    let usual = Sharing { units: Some(0), ..Sharing::default() };
    let Sharing { units, reserve, notice, term } = survey.sharing.unwrap_or(usual);
    let lent = survey.lent.iter().map(|(resource, &(units, stay))| LentView {
        resource: resource.to_string(),
        units,
        recalled: units - stay,
    });
    SharingView {
        broker: broker.to_string(),
        with: name(names, survey.with),
        by: survey.by.map(|by| by.word().to_owned()),
        units,
        reserve,
        notice,
        term,
        lent: lent.collect(),
        until: survey.until.map(time),
    }
}

fn selling(broker: &Name, actor: &Broker, now: Time) -> SellingView {
    let (tickets, until) = actor.tickets_out(now);
    let lent = actor.sharings(now);
    let lent = lent.iter().flat_map(|sharing| sharing.lent.values()).map(|(units, _)| units);
    SellingView {
        broker: broker.to_string(),
        sells: actor.sells(),
        tickets,
        until: until.map(time),
        lent: lent.sum(),
    }
}

impl AppState {
    pub(super) async fn sharings(&self, broker: Option<&Name>) -> ApiResult<Vec<SharingView>> {
        let mut all = Vec::new();
        for handle in self.chosen(Role::Broker, broker)? {
            let (of, names, now) = (handle.info().name.clone(), self.names(), self.now());
            let look = move |actor: &Broker| {
                let all = actor.sharings(now);
                all.iter().map(|survey| sharing((&of, &names), survey)).collect::<Vec<_>>()
            };
            all.extend(self.broker(handle, look).await?.unwrap_or_default());
        }
        Ok(all)
    }

    pub(super) async fn share(
        &self,
        asked: ShareRequest,
        by: &Asker,
    ) -> ApiResult<Vec<SharingView>> {
        let handle = self.actor(Role::Broker, &asked.broker)?;
        let with = self.party(Role::Broker, &asked.with)?;
        let now = self.now();
        let look = move |actor: &Broker| {
            let all = actor.sharings(now);
            all.iter().find(|one| one.with == with).and_then(|one| one.sharing)
        };
        let known = self.broker(handle, look).await?.flatten().unwrap_or_default();
        let sharing = Sharing {
            units: if asked.all { None } else { asked.units.or(known.units) },
            reserve: asked.reserve.unwrap_or(known.reserve),
            notice: asked.notice.unwrap_or(known.notice),
            term: asked.term.unwrap_or(known.term),
        };
        self.order(handle, (by, ""), BrokerCommand::Share { with, sharing }).await?;
        self.sharings(Some(&asked.broker)).await
    }

    pub(super) async fn selling(&self, broker: Option<&Name>) -> ApiResult<Vec<SellingView>> {
        let mut all = Vec::new();
        for handle in self.chosen(Role::Broker, broker)? {
            let (of, now) = (handle.info().name.clone(), self.now());
            let look = move |actor: &Broker| selling(&of, actor, now);
            all.extend(self.broker(handle, look).await?);
        }
        Ok(all)
    }

    pub(super) async fn sell(
        &self,
        broker: &Name,
        sells: bool,
        by: &Asker,
    ) -> ApiResult<Vec<SellingView>> {
        let handle = self.actor(Role::Broker, broker)?;
        self.order(handle, (by, ""), BrokerCommand::Sell(sells)).await?;
        self.selling(Some(broker)).await
    }
}
