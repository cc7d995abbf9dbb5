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
    pub(super) clock_check: Option<Spanned<Span>>,
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
    pub(super) units: Option<Spanned<u32>>,
    pub(super) resource: Option<Spanned<Name>>,
    #[serde(default)]
    pub(super) kind: Kind,
    #[serde(default)]
    pub(super) attributes: Given,
    #[serde(default)]
    pub(super) named: Units,
    pub(super) brokers: Option<Brokers>,
    pub(super) delegation: Option<Spanned<Span>>,
    pub(super) quarantine_after: Option<Spanned<u32>>,
    pub(super) fail_after: Option<Spanned<u32>>,
    /// Further stocks, by type.
    #[serde(default)]
    pub(super) stock: BTreeMap<Spanned<Name>, Stock>,
    /// The units of each stack, by their names.
    #[serde(default)]
    pub(super) stack: BTreeMap<Spanned<Name>, Vec<Spanned<Name>>>,
    pub(super) driver: Option<RawPlugin>,
    pub(super) mapper: Option<RawPlugin>,
}

/// What units are like.
pub(super) type Given = BTreeMap<Name, Spanned<toml::Value>>;

/// Units with names, each with attributes of its own.
pub(super) type Units = BTreeMap<Spanned<Name>, Given>;

/// Names of brokers.
pub(super) type Brokers = Spanned<Vec<Spanned<Name>>>;

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct Stock {
    pub(super) units: Option<Spanned<u32>>,
    #[serde(default)]
    pub(super) kind: Kind,
    #[serde(default)]
    pub(super) attributes: Given,
    #[serde(default)]
    pub(super) named: Units,
    pub(super) brokers: Option<Brokers>,
    pub(super) delegation: Option<Spanned<Span>>,
}

impl Site {
    /// The stock that its own keys describe, if they describe one.
    pub(super) fn take_own_stock(&mut self) -> Option<(Option<Spanned<Name>>, Stock)> {
        let stock = Stock {
            units: self.units.take(),
            kind: self.kind,
            attributes: std::mem::take(&mut self.attributes),
            named: std::mem::take(&mut self.named),
            brokers: self.brokers.take(),
            delegation: self.delegation.take(),
        };
        let described = stock.units.is_some() || !stock.named.is_empty();
        (described || self.stock.is_empty()).then(|| (self.resource.take(), stock))
    }
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
