//! What was measured of services.

use serde::{Deserialize, Serialize};
use tenure_core::service::kpi::Kpi;
use tenure_core::service::state::State;

use super::in_order;
use crate::history::History;
use crate::query::Query;
use crate::service::Measured;

/// A KPI as it was measured. What says nothing new is recorded once in half of `stale-after` of the service.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KpiRow {
    /// When it was recorded.
    pub at: String,
    /// The service, by its guest.
    pub service: String,
    /// How the service was found: `running`, `stopped` or `error`.
    pub state: String,
    /// The KPI; none if the measurement had none.
    pub kpi: Option<String>,
    /// Its value.
    pub value: Option<String>,
}

impl History {
    /// What was measured of services; at a moment, what counted then.
    pub fn kpi(&self, query: &Query) -> Vec<KpiRow> {
        let mut rows = Vec::new();
        for (name, service) in self.services(query) {
            let counted = query.at.map(|at| service.measured_at(at));
            let measured: Vec<&Measured> = match counted {
                Some(counted) => counted.into_iter().collect(),
                None => service.measured.iter().filter(|m| query.takes_instant(m.at)).collect(),
            };
            for of in measured {
                rows.extend(KpiRow::of(&name, of, query).into_iter().map(|row| (of.at, row)));
            }
        }
        in_order(rows)
    }
}

impl KpiRow {
    fn of(service: &str, measured: &Measured, query: &Query) -> Vec<Self> {
        let row = |kpi: Option<(&Kpi, String)>| Self {
            at: measured.at.to_string(),
            service: service.to_owned(),
            state: State::from(measured.seen).word().to_owned(),
            kpi: kpi.as_ref().map(|(kpi, _)| kpi.to_string()),
            value: kpi.map(|(_, value)| value),
        };
        let wanted = |kpi: &Kpi| query.kpi.as_ref().is_none_or(|wanted| wanted.selects(kpi));
        let kpis = measured.kpis.iter().filter(|(kpi, _)| wanted(kpi));
        let rows: Vec<_> = kpis.map(|(kpi, value)| row(Some((kpi, value.to_string())))).collect();
        if measured.kpis.count() == 0 && query.kpi.is_none() { vec![row(None)] } else { rows }
    }
}
