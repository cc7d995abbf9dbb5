//! When SLOs were met.

use serde::{Deserialize, Serialize};

use super::in_order;
use crate::history::History;
use crate::query::Query;
use crate::service::{Judged, Service};

/// For how long an SLO was in one state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SloRow {
    /// The service, by its guest.
    pub service: String,
    /// The SLO.
    pub slo: String,
    /// The type of the units that it wants.
    #[serde(rename = "type")]
    pub resource: String,
    /// `met`, `missed`, `unknown` or `standing`.
    pub state: String,
    /// Since when.
    pub begin: String,
    /// Until when; none if it still is.
    pub end: Option<String>,
    /// How long, so far.
    pub lasted: String,
    /// Its rule, if it has one.
    pub rule: Option<String>,
}

impl History {
    /// The times in which each SLO was met, missed or unknown.
    pub fn slo(&self, query: &Query) -> Vec<SloRow> {
        let mut rows = Vec::new();
        for (name, service) in self.services(query) {
            let judged = service.judged.iter();
            let judged = judged.filter(|judged| query.takes_span(judged.begin, judged.end));
            let of = |judged: &Judged| {
                Some((judged.begin, self.slo_row(&name, (service, judged), query)?))
            };
            let taken = |row: &(_, SloRow)| {
                query.resource.as_ref().is_none_or(|resource| resource.as_str() == row.1.resource)
            };
            rows.extend(judged.filter_map(of).filter(taken));
        }
        in_order(rows)
    }

    fn slo_row(
        &self,
        name: &str,
        (service, judged): (&Service, &Judged),
        query: &Query,
    ) -> Option<SloRow> {
        let slo = service.definition(judged.begin)?.slo.get(&judged.slo)?;
        let (end, until) = self.ended(judged.end, query);
        let lasted = until.since(judged.begin);
        Some(SloRow {
            service: name.to_owned(),
            slo: judged.slo.to_string(),
            resource: slo.resource.to_string(),
            state: judged.met.word().to_owned(),
            begin: judged.begin.to_string(),
            end: end.map(|end| end.to_string()),
            lasted: lasted.to_string(),
            rule: slo.rule.as_ref().map(|rule| rule.as_str().to_owned()),
        })
    }
}
