//! What a configuration file may say, before defaults and checks.

use std::collections::{BTreeMap, BTreeSet};
use std::mem::take;
use std::net::SocketAddr;
use std::num::{NonZeroU32, NonZeroU64, NonZeroUsize};
use std::ops::Range;

use serde::Deserialize;
use tenure_config::{
    OnSilence, RawAttributes, RawBrokerPeer, RawBrokers, RawPlugin, RawPlugins, RawProfiles,
    RawReach, RawStacks, RawStock, RawStocks, RawUnits, StockKind,
};
use tenure_core::actor::Role;
use tenure_core::broker::availability::Disclosure;
use tenure_core::broker::quota::Quota;
use tenure_core::model::identity::ActorId;
use tenure_core::model::name::Name;
use tenure_core::model::time::Span;
use tenure_core::service::definition::Definition;
use tenure_core::service_manager::ambiguity::Rule;
use toml::Spanned;

/// Actors by their names.
pub(super) type Actors<T> = BTreeMap<Spanned<Name>, T>;

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct File {
    pub(super) margin: Option<Spanned<Span>>,
    pub(super) retry: Option<Spanned<Span>>,
    pub(super) speed: Option<NonZeroU32>,
    pub(super) threads: Option<NonZeroUsize>,
    pub(super) snapshot_after: Option<NonZeroU64>,
    pub(super) archive_after: Option<u64>,
    pub(super) probe_every: Option<Spanned<Span>>,
    pub(super) clock_check: Option<Spanned<Span>>,
    pub(super) listen: Option<SocketAddr>,
    pub(super) metrics: Option<Spanned<SocketAddr>>,
    pub(super) socket_group: Option<Spanned<String>>,
    pub(super) public: Option<Spanned<String>>,
    pub(super) relays: Option<u16>,
    #[serde(default)]
    pub(super) peer: Actors<Peer>,
    #[serde(default)]
    pub(super) site: Actors<Site>,
    #[serde(default)]
    pub(super) broker: Actors<Broker>,
    #[serde(default)]
    pub(super) service_manager: Actors<ServiceManager>,
    /// What users ask for by a name.
    #[serde(default)]
    pub(super) profile: RawProfiles,
}

/// An actor of another process.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct Peer {
    pub(super) role: Role,
    pub(super) id: ActorId,
    pub(super) address: Option<Spanned<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct Site {
    pub(super) units: Option<Spanned<u32>>,
    pub(super) resource: Option<Spanned<Name>>,
    #[serde(default)]
    pub(super) kind: StockKind,
    #[serde(default)]
    pub(super) mint: bool,
    #[serde(default)]
    pub(super) attributes: RawAttributes,
    #[serde(default)]
    pub(super) named: RawUnits,
    pub(super) brokers: Option<RawBrokers>,
    pub(super) delegation: Option<Spanned<Span>>,
    pub(super) quarantine_after: Option<Spanned<u32>>,
    pub(super) fail_after: Option<Spanned<u32>>,
    /// Further stocks, by type.
    #[serde(default)]
    pub(super) stock: BTreeMap<Spanned<Name>, RawStock>,
    /// The units of each stack, by their names.
    #[serde(default)]
    pub(super) stack: RawStacks,
    pub(super) driver: Option<RawPlugin>,
    pub(super) mapper: Option<RawPlugin>,
}

impl Site {
    /// What it has. `place` is where its name stands.
    pub(super) fn take_stocks(&mut self, place: Range<usize>) -> RawStocks {
        let own = RawStock {
            units: self.units.take(),
            kind: self.kind,
            mint: self.mint,
            attributes: take(&mut self.attributes),
            named: take(&mut self.named),
            brokers: self.brokers.take(),
            delegation: self.delegation.take(),
        };
        let (further, stacks) = (take(&mut self.stock), take(&mut self.stack));
        RawStocks { place, resource: self.resource.take(), own, further, stacks }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Broker {
    pub(super) mapper: Option<RawPlugin>,
    #[serde(default)]
    pub(super) quota: BTreeMap<Spanned<Name>, Quota>,
    #[serde(default)]
    pub(super) price: BTreeMap<Name, u32>,
    #[serde(default)]
    pub(super) disclose: BTreeMap<Spanned<Name>, Disclosure>,
    #[serde(default)]
    pub(super) peer: BTreeMap<Spanned<Name>, RawBrokerPeer>,
    #[serde(default)]
    pub(super) reach: RawReach,
    pub(super) advertise: Option<Spanned<Span>>,
    #[serde(default, rename = "on-silence")]
    pub(super) on_silence: OnSilence,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct ServiceManager {
    pub(super) brokers: Option<RawBrokers>,
    pub(super) leave_before: Option<Spanned<Span>>,
    #[serde(default)]
    pub(super) ambiguous: Rule,
    pub(super) driver: Option<RawPlugins>,
    pub(super) mapper: Option<RawPlugin>,
    pub(super) demand: Option<Demand>,
    pub(super) planners: Option<Spanned<Vec<String>>>,
    pub(super) sessions: Option<usize>,
    #[serde(default)]
    pub(super) slice: BTreeMap<Name, Slice>,
    #[serde(default)]
    pub(super) service: BTreeMap<Spanned<Name>, Definition>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct Slice {
    pub(super) used_by: BTreeSet<Name>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Demand {
    pub(super) signal: Option<Name>,
    pub(super) values: Spanned<Vec<i64>>,
    pub(super) every: Spanned<Span>,
}
