//! What a configuration file may say, before defaults and checks.

use std::collections::BTreeMap;
use std::num::{NonZeroU32, NonZeroU64};

use serde::Deserialize;
use tenure_config::{RawPlugin, RawPlugins};
use tenure_core::broker::quota::Quota;
use tenure_core::model::name::Name;
use tenure_core::model::time::Span;
use toml::Spanned;

/// Actors by their names.
pub(super) type Actors<T> = BTreeMap<Spanned<Name>, T>;

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct File {
    pub(super) margin: Option<Spanned<Span>>,
    pub(super) retry: Option<Spanned<Span>>,
    pub(super) speed: Option<NonZeroU32>,
    pub(super) snapshot_after: Option<NonZeroU64>,
    pub(super) probe_every: Option<Spanned<Span>>,
    #[serde(default)]
    pub(super) site: Actors<Site>,
    #[serde(default)]
    pub(super) broker: Actors<Broker>,
    #[serde(default)]
    pub(super) service_manager: Actors<ServiceManager>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct Site {
    pub(super) units: Spanned<u32>,
    pub(super) resource: Option<Spanned<Name>>,
    #[serde(default)]
    pub(super) kind: Kind,
    #[serde(default)]
    pub(super) attributes: BTreeMap<Name, Spanned<toml::Value>>,
    pub(super) brokers: Option<Spanned<Vec<Spanned<Name>>>>,
    pub(super) delegation: Option<Spanned<Span>>,
    pub(super) driver: Option<RawPlugin>,
    pub(super) mapper: Option<RawPlugin>,
}

/// How a stock is leased.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Kind {
    /// As so many units.
    #[default]
    Units,
    /// As shares of any size.
    Share,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Broker {
    pub(super) mapper: Option<RawPlugin>,
    #[serde(default)]
    pub(super) quota: BTreeMap<Spanned<Name>, Quota>,
    #[serde(default)]
    pub(super) price: BTreeMap<Name, u32>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct ServiceManager {
    pub(super) brokers: Option<Spanned<Vec<Spanned<Name>>>>,
    pub(super) leave_before: Option<Spanned<Span>>,
    pub(super) driver: Option<RawPlugins>,
    pub(super) mapper: Option<RawPlugin>,
    pub(super) demand: Option<Demand>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Demand {
    pub(super) signal: Option<Name>,
    pub(super) values: Spanned<Vec<i64>>,
    pub(super) every: Spanned<Span>,
}
