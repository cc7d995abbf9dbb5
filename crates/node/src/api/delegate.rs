//! Delegations by hand, and what brokers give back.

use std::num::NonZeroU32;

use serde::{Deserialize, Serialize};
use tenure_core::actor::Role;
use tenure_core::broker::Command as BrokerCommand;
use tenure_core::model::name::Name;
use tenure_core::model::time::Span;
use tenure_core::site_authority::Command as SiteCommand;
use tenure_core::ticket::link::DelegationId;

use super::asker::Asker;
use super::broker_view::BrokerView;
use super::server::{ApiResult, AppState, refused};
use super::site_view::SiteView;
use super::{ApiError, Code, Moment};

/// Names a delegation by its issuer and number: `alpha/1`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct DelegationName {
    /// The site or broker that issued it.
    pub issuer: Name,
    /// Its number there.
    pub number: u64,
}

impl std::str::FromStr for DelegationName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let bad = || format!("`{}` is no delegation: write alpha/1", text.escape_debug());
        let (issuer, number) = text.split_once('/').ok_or_else(bad)?;
        let issuer = Name::new(issuer).map_err(|_| bad())?;
        Ok(Self { issuer, number: number.parse().map_err(|_| bad())? })
    }
}

impl std::fmt::Display for DelegationName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.issuer, self.number)
    }
}

impl TryFrom<String> for DelegationName {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<DelegationName> for String {
    fn from(name: DelegationName) -> Self {
        name.to_string()
    }
}

/// Units that a site delegates by hand.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct SiteDelegation {
    /// The site.
    pub site: Name,
    /// The broker that gets them.
    pub broker: Name,
    /// How many.
    pub units: NonZeroU32,
    /// The type.
    pub resource: Name,
    /// For how long from now.
    pub duration: Span,
    /// A delegation that is to have so many units, and to last so long, instead of a new one.
    pub grow: Option<u64>,
}

/// Units that a broker delegates to another.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct BrokerDelegation {
    /// The broker.
    pub broker: Name,
    /// The broker that gets them.
    pub to: Name,
    /// How many.
    pub units: NonZeroU32,
    /// What they are taken from.
    pub from: DelegationName,
    /// For how long from now.
    pub duration: Span,
    /// A delegation that is to have so many units, and to last so long, instead of a new one.
    pub grow: Option<u64>,
}

impl AppState {
    pub(super) async fn site_delegates(&self, asked: SiteDelegation) -> ApiResult<Vec<SiteView>> {
        let SiteDelegation { site, broker, units, resource, duration, grow } = asked;
        let handle = self.actor(Role::SiteAuthority, &site)?;
        let broker = self.party(Role::Broker, &broker)?;
        let command = SiteCommand::Delegate { broker, resource, units, length: duration, grow };
        handle.command(command).await.map_err(|error| refused(&error))?;
        self.sites(Some(&site)).await
    }

    pub(super) async fn broker_delegates(
        &self,
        asked: BrokerDelegation,
    ) -> ApiResult<Vec<BrokerView>> {
        let BrokerDelegation { broker, to, units, from, duration, grow } = asked;
        let handle = self.actor(Role::Broker, &broker)?;
        let (to, from) = (self.party(Role::Broker, &to)?, self.delegation(&from)?);
        let command = BrokerCommand::Delegate { to, from, units, length: duration, grow };
        handle.command(command).await.map_err(|error| refused(&error))?;
        self.brokers(Some(&broker)).await
    }

    pub(super) async fn give_delegation_back(
        &self,
        broker: &Name,
        delegation: &DelegationName,
        units: NonZeroU32,
        from: Option<Moment>,
    ) -> ApiResult<Vec<BrokerView>> {
        let handle = self.actor(Role::Broker, broker)?;
        let delegation = self.delegation(delegation)?;
        let from = from.map(|from| from.on(self.now()));
        let command = BrokerCommand::Return { delegation, units, from };
        handle.command(command).await.map_err(|error| refused(&error))?;
        self.brokers(Some(broker)).await
    }

    /// Has a site recall units of a delegation, named as itself or by the broker that has it.
    pub(super) async fn recall_delegation(
        &self,
        name: &str,
        (units, from): (Option<u32>, Option<Moment>),
        by: &Asker,
    ) -> ApiResult<Vec<SiteView>> {
        let DelegationName { issuer, number } = match name.parse() {
            Ok(delegation) => delegation,
            Err(_) => self.only_delegation_to(name).await?,
        };
        let handle = self.actor(Role::SiteAuthority, &issuer)?;
        let from = from.map(|from| from.on(self.now()));
        let command = SiteCommand::Recall { delegation: number, units, from };
        self.order(handle, (by, ""), command).await?;
        self.sites(Some(&issuer)).await
    }

    /// The delegation of a site here to a broker, if it has only one.
    async fn only_delegation_to(&self, broker: &str) -> ApiResult<DelegationName> {
        let sites = self.sites(None).await?;
        let held = sites.iter().flat_map(|site| &site.delegations);
        let held: Vec<&str> =
            held.filter(|held| held.broker == broker).map(|held| held.name.as_str()).collect();
        match held[..] {
            [only] => only.parse().map_err(|cause: String| ApiError::new(Code::NoSuch, cause)),
            [] => {
                let broker = broker.escape_debug();
                Err(ApiError::new(Code::NoSuch, format!("nothing is delegated to `{broker}`")))
            }
            [..] => {
                let message = format!("`{broker}` has several: name one of {}", held.join(", "));
                Err(ApiError::new(Code::Usage, message))
            }
        }
    }

    fn delegation(&self, name: &DelegationName) -> ApiResult<DelegationId> {
        let issuer = self
            .party(Role::SiteAuthority, &name.issuer)
            .or_else(|_| self.party(Role::Broker, &name.issuer))
            .map_err(|_| {
                ApiError::new(Code::NoSuch, format!("no site or broker `{}`", name.issuer))
            })?;
        Ok(DelegationId { issuer, number: name.number })
    }
}
