//! What brokers were told that services want.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use tenure_core::model::identity::ActorId;
use tenure_core::model::slice::SliceName;
use tenure_core::model::time::Time;
use tenure_core::service::steps::Step;
use tenure_core::wire::need::{Need, Want};

use super::in_order;
use crate::history::History;
use crate::query::Query;

/// What a service wants and has of a kind of units, as a broker was told.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NeedRow {
    /// When: noted by the broker or, if its journal is not here, stated by the guest.
    pub at: String,
    /// The broker.
    pub broker: String,
    /// The service, by its guest.
    pub service: String,
    /// The type; none if the service is not to be compared with others any more.
    #[serde(rename = "type")]
    pub resource: Option<String>,
    /// What must hold of the units.
    #[serde(rename = "where")]
    pub requirement: Option<String>,
    /// How many it wants in all.
    pub wanted: u32,
    /// What they are worth, the most urgent first.
    pub steps: Vec<Step>,
    /// By how many tickets of this broker it has some.
    pub tickets: usize,
    /// How many units it has beside those.
    pub elsewhere: u32,
}

/// Something that a broker was told.
#[derive(Clone, Copy)]
struct Statement<'a> {
    at: Time,
    broker: ActorId,
    guest: ActorId,
    need: &'a Need,
}

impl History {
    /// What brokers were told; at a moment, what each was told last.
    pub fn needs(&self, query: &Query) -> Vec<NeedRow> {
        let told = self.told().filter(|told| {
            self.is_asked_for(query, told.guest, &told.need.service)
                && query.at.map_or_else(|| query.takes_instant(told.at), |at| told.at <= at)
        });
        let mut told: Vec<Statement<'_>> = told.collect();
        if query.at.is_some() {
            told.sort_by_key(|told| told.need.revision);
            let last: BTreeMap<(ActorId, ActorId, &SliceName), Statement<'_>> = told
                .into_iter()
                .map(|told| ((told.broker, told.guest, &told.need.service), told))
                .collect();
            told = last.into_values().collect();
        }
        in_order(told.into_iter().flat_map(|told| self.rows_of(told, query)).collect())
    }

    /// What brokers noted and, of those whose journals are not here, what their guests stated.
    fn told(&self) -> impl Iterator<Item = Statement<'_>> {
        let noted = self.by_name(&self.brokers).flat_map(|(broker, of)| {
            of.needs.iter().map(move |(at, guest, need)| Statement {
                at: *at,
                broker,
                guest: *guest,
                need,
            })
        });
        let stated = self.by_name(&self.guests).flat_map(|(guest, of)| {
            of.told.iter().map(move |(at, broker, need)| Statement {
                at: *at,
                broker: *broker,
                guest,
                need,
            })
        });
        noted.chain(stated.filter(|told| !self.brokers.contains_key(&told.broker)))
    }

    fn rows_of(&self, told: Statement<'_>, query: &Query) -> Vec<(Time, NeedRow)> {
        let row = |want: Option<&Want>| NeedRow {
            at: told.at.to_string(),
            broker: self.name(told.broker),
            service: self.named(told.guest, &told.need.service),
            resource: want.map(|want| want.kind.resource.to_string()),
            requirement: want
                .and_then(|want| Some(want.kind.requirement.as_ref()?.as_str().to_owned())),
            wanted: want.map_or(0, |want| want.steps.units()),
            steps: want.iter().flat_map(|want| want.steps.iter()).collect(),
            tickets: want.map_or(0, |want| want.tickets.len()),
            elsewhere: want.map_or(0, |want| want.elsewhere),
        };
        if told.need.wants.is_empty() && query.resource.is_none() {
            return vec![(told.at, row(None))];
        }
        let wants = told.need.wants.iter().filter(|want| query.takes_type(&want.kind.resource));
        wants.map(|want| (told.at, row(Some(want)))).collect()
    }
}
