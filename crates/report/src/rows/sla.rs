//! How SLAs stand.

use serde::{Deserialize, Serialize};
use tenure_core::model::name::Name;
use tenure_core::model::time::{Span, Time};
use tenure_core::service::kpi::Kpi;
use tenure_core::service::sla::Sla;

use crate::history::History;
use crate::query::Query;
use crate::service::Service;
use crate::sla::{Breach, Standing};

/// How an SLA stands in its window.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SlaRow {
    /// The service, by its guest.
    pub service: String,
    /// The SLA.
    pub sla: String,
    /// Its SLOs.
    pub slos: Vec<String>,
    /// The share of time in which all of them are to be met.
    pub target: String,
    /// `kept`, or `broken` once more was missed than the error budget.
    pub state: String,
    /// The share in which they were, of the time of which that is known, from 0 to 1; none if that is none.
    pub share: Option<f64>,
    /// How long they were.
    pub met: String,
    /// How long at least one was missed.
    pub missed: String,
    /// How long it is not known, as before there was a service.
    pub unknown: String,
    /// How much of the window may be missed.
    pub budget: String,
    /// How much of that is left, negative if there was more.
    pub left: String,
    /// The beginning of the window.
    pub begin: String,
    /// Its end.
    pub end: String,
    /// The times in which an SLO was missed.
    pub breaches: Vec<BreachRow>,
}

/// A time in which at least one SLO of an SLA was missed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BreachRow {
    /// The service, by its guest.
    pub service: String,
    /// The SLA.
    pub sla: String,
    /// Since when, as far as it is in the window.
    pub begin: String,
    /// Until when; none if it still lasts.
    pub end: Option<String>,
    /// How long, so far.
    pub lasted: String,
    /// The SLOs that were missed.
    pub slos: Vec<String>,
    /// The rule of each, and what was measured when it began to be missed.
    pub why: String,
}

impl History {
    /// How the SLAs stand that services have at the end, in their windows up to there; with `since` from then on.
    pub fn sla(&self, query: &Query) -> Vec<SlaRow> {
        let end = query.at.or(query.until).unwrap_or_else(|| self.end()).min(self.end());
        let mut rows = Vec::new();
        for (name, service) in self.services(query) {
            let slas = service.definition(end).into_iter().flat_map(|of| &of.sla);
            rows.extend(slas.map(|(sla, of)| {
                let begin = query.since.unwrap_or_else(|| end.minus(of.window)).min(end);
                SlaRow::of((&name, sla), of, service, (begin, end))
            }));
        }
        rows
    }
}

impl SlaRow {
    fn of(
        (service_name, name): (&str, &Name),
        sla: &Sla,
        service: &Service,
        (begin, end): (Time, Time),
    ) -> Self {
        let Standing { met, missed, breaches } = Standing::of(service, sla, (begin, end));
        let (window, known) = (end.since(begin), met.plus(missed));
        let (budget, less) = (sla.target.budget(window), |one: Span, other: Span| {
            Span::from_micros(one.as_micros().saturating_sub(other.as_micros()))
        });
        let breach = |breach: &Breach| BreachRow {
            service: service_name.to_owned(),
            sla: name.to_string(),
            begin: breach.begin.to_string(),
            end: breach.end.map(|end| end.to_string()),
            lasted: breach.end.unwrap_or(end).since(breach.begin).to_string(),
            slos: breach.slos.keys().map(ToString::to_string).collect(),
            why: why(service, breach),
        };
        Self {
            service: service_name.to_owned(),
            sla: name.to_string(),
            slos: sla.slos.iter().map(ToString::to_string).collect(),
            target: sla.target.to_string(),
            state: if missed <= budget { "kept" } else { "broken" }.to_owned(),
            share: known.is_positive().then(|| met.as_secs_f64() / known.as_secs_f64()),
            met: met.to_string(),
            missed: missed.to_string(),
            unknown: less(window, known).to_string(),
            budget: budget.to_string(),
            left: less(budget, missed).to_string(),
            begin: begin.to_string(),
            end: end.to_string(),
            breaches: breaches.iter().map(breach).collect(),
        }
    }
}

/// The rules that were missed, each with its KPIs when that began.
fn why(service: &Service, breach: &Breach) -> String {
    let rule = |(slo, at): (&Name, &Time)| {
        let rule = service.definition(*at)?.slo.get(slo)?.rule.as_ref()?;
        let kpis = rule.attributes().into_iter().filter_map(|name| {
            let value = service.measured_at(*at)?.kpis.value(&name.parse::<Kpi>().ok()?)?;
            Some(format!("{name} {value}"))
        });
        let kpis: Vec<String> = kpis.collect();
        Some(format!("{slo}: {} with {}", rule.as_str(), kpis.join(", ")))
    };
    breach.slos.iter().filter_map(rule).collect::<Vec<_>>().join("; ")
}
