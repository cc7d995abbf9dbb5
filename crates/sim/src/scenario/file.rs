//! What a scenario file may say, before defaults and checks.

use std::collections::BTreeMap;
use std::mem::take;
use std::ops::Range;

use serde::Deserialize;
use serde::de::IgnoredAny;
use tenure_config::{
    OnSilence, RawAttributes, RawBrokerPeer, RawBrokers, RawPlugin, RawReach, RawSharing,
    RawStacks, RawStock, RawStocks, RawUnits, StockKind,
};
use tenure_core::broker::quota::Quota;
use tenure_core::model::identity::Scheme;
use tenure_core::model::name::Name;
use tenure_core::model::time::Span;
use tenure_core::service::definition::Behaviour;
use tenure_core::service::sla::Sla;
use tenure_core::service::slo::Slo;
use toml::Spanned;

use super::delay::Delay;
use super::preset::Preset;
use super::topology::{RawForward, RawTopology};
use crate::service::model::{ModelJob, ModelLoad, Order};
use crate::workload::{CoAllocation, DrawnRequests, Kind};

/// Actors by their names.
pub(super) type Actors<T> = BTreeMap<Spanned<Name>, T>;

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct File {
    pub(super) seed: Option<u64>,
    pub(super) step: Option<Spanned<Span>>,
    pub(super) horizon: Spanned<Span>,
    pub(super) term: Spanned<Span>,
    pub(super) capacity: Option<Spanned<u32>>,
    pub(super) signatures: Option<Scheme>,
    pub(super) preset: Option<Spanned<Preset>>,
    pub(super) margin: Option<Spanned<Span>>,
    #[serde(default)]
    pub(super) message: Message,
    /// A network of brokers, in place of actors that are listed.
    pub(super) network: Option<Spanned<RawTopology>>,
    pub(super) share: Option<Spanned<RawSharing>>,
    pub(super) forward: Option<Spanned<RawForward>>,
    pub(super) workload: Option<Spanned<Workload>>,
    /// Taken out before, but known.
    #[serde(rename = "sweep")]
    _sweep: Option<IgnoredAny>,
    #[serde(default)]
    pub(super) site: Actors<Site>,
    #[serde(default)]
    pub(super) broker: Actors<Broker>,
    #[serde(default)]
    pub(super) service_manager: Actors<ServiceManager>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Message {
    pub(super) delay: Option<Delay>,
    pub(super) loss: Option<Spanned<f64>>,
    pub(super) duplicate: Option<Spanned<f64>>,
    #[serde(default)]
    pub(super) drop: Vec<Spanned<String>>,
    pub(super) retry: Option<Spanned<Span>>,
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
    /// Further stocks, by type.
    #[serde(default)]
    pub(super) stock: BTreeMap<Spanned<Name>, RawStock>,
    /// The units of each stack, by their names.
    #[serde(default)]
    pub(super) stack: RawStacks,
    pub(super) setup: Option<Delay>,
    pub(super) teardown: Option<Delay>,
    pub(super) failure: Option<Spanned<f64>>,
    #[serde(default)]
    pub(super) quarantine_after: u32,
    pub(super) mapper: Option<RawPlugin>,
    pub(super) mapper_delay: Option<Spanned<Span>>,
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
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct Broker {
    pub(super) mapper: Option<RawPlugin>,
    pub(super) mapper_delay: Option<Spanned<Span>>,
    #[serde(default)]
    pub(super) quota: BTreeMap<Spanned<Name>, Quota>,
    #[serde(default)]
    pub(super) price: BTreeMap<Name, u32>,
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
    pub(super) broker: Option<Spanned<Name>>,
    pub(super) resource: Option<Spanned<Name>>,
    pub(super) mapper: Option<RawPlugin>,
    pub(super) mapper_delay: Option<Spanned<Span>>,
    pub(super) join: Option<Delay>,
    pub(super) leave: Option<Delay>,
    pub(super) leave_before: Option<Spanned<Span>>,
    pub(super) peak: Option<u32>,
    pub(super) workload: Option<Workload>,
    /// Services with models of their software.
    #[serde(default)]
    pub(super) service: BTreeMap<Spanned<Name>, Service>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Service {
    #[serde(default)]
    pub(super) slo: BTreeMap<Name, Slo>,
    #[serde(default)]
    pub(super) behaviour: Behaviour,
    #[serde(default)]
    pub(super) sla: BTreeMap<Name, Sla>,
    pub(super) model: Spanned<RawModel>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, tag = "kind", rename_all = "kebab-case")]
pub(super) enum RawModel {
    Batch {
        #[serde(default)]
        jobs: Vec<ModelJob>,
        #[serde(default)]
        order: Order,
        every: Option<Span>,
    },
    Web {
        #[serde(default)]
        load: Vec<ModelLoad>,
        every: Option<Span>,
    },
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct Workload {
    pub(super) kind: Option<Spanned<Kind>>,
    pub(super) file: Option<Spanned<String>>,
    pub(super) offset: Option<Spanned<Span>>,
    pub(super) column: Option<Spanned<Column>>,
    #[serde(default)]
    pub(super) wave: Wave,
    pub(super) co_allocation: Option<Spanned<CoAllocation>>,
    pub(super) requests: Option<Spanned<DrawnRequests>>,
}

/// A column by its name or its number.
#[derive(Deserialize)]
#[serde(untagged, expecting = "expected the name or the number of a column")]
pub(super) enum Column {
    Number(u32),
    Name(String),
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Wave {
    pub(super) base: Option<Spanned<f64>>,
    pub(super) amplitude: Option<Spanned<f64>>,
    pub(super) period: Option<Spanned<Span>>,
    pub(super) noise: Option<Spanned<f64>>,
}
