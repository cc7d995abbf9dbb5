//! Reports on services, folded from the journals of the deployment.

use serde::{Deserialize, Serialize};
use tenure_core::model::name::Name;
use tenure_core::service::kpi::Kpi;
use tenure_report::{History, Query, Report};

use super::moment::Moment;
use super::server::{ApiResult, AppState, json};
use super::{ApiError, Code, ServiceName};
use crate::report::history;

/// Which report is asked for, and which of its rows; what is not set leaves none out.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct ReportRequest {
    /// Which.
    pub report: Report,
    /// Of this service, or slice, only.
    #[serde(default)]
    pub service: Option<ServiceName>,
    /// Of this type of units only.
    #[serde(default, rename = "type")]
    pub resource: Option<Name>,
    /// These KPIs only.
    #[serde(default)]
    pub kpi: Option<Kpi>,
    /// What happened, or still held, from then on.
    #[serde(default)]
    pub since: Option<Moment>,
    /// What happened, or had begun, before then.
    #[serde(default)]
    pub until: Option<Moment>,
    /// How it was at a moment.
    #[serde(default)]
    pub at: Option<Moment>,
}

impl AppState {
    /// Reads the journals of all actors of this process, while others are served.
    pub(super) async fn report(&self, request: ReportRequest) -> ApiResult<serde_json::Value> {
        let now = self.now();
        let ReportRequest { report, service, resource, kpi, since, until, at } = request;
        let on = |moment: Option<Moment>| moment.map(|moment| moment.on(now));
        let (since, until, at) = (on(since), on(until), on(at));
        let guest = service.as_ref().and_then(|service| service.manager.clone());
        let service = service.map(|service| service.service);
        let query = Query { service, guest, resource, kpi, since, until, at };
        let actors = self.all_actors();
        let journals: Vec<_> = actors.map(|actor| self.journal(&actor.info().name)).collect();
        let names = self.names();
        let failed = |cause: &dyn std::fmt::Display| {
            ApiError::new(Code::Failed, format!("the journals cannot be read: {cause}"))
        };
        let read = tokio::task::spawn_blocking(move || {
            let history = history(&journals, names, Some(now))?;
            Ok::<_, crate::journal::JournalError>(rows(&history, report, &query))
        });
        read.await.map_err(|error| failed(&error))?.map_err(|error| failed(&error))?
    }
}

fn rows(history: &History, report: Report, query: &Query) -> ApiResult<serde_json::Value> {
    match report {
        Report::Kpi => json(&history.kpi(query)),
        Report::Slo => json(&history.slo(query)),
        Report::Needs => json(&history.needs(query)),
        Report::Orders => json(&history.orders(query)),
        Report::Moves => json(&history.moves(query)),
        Report::Units => json(&history.units(query)),
        Report::Sla => json(&history.sla(query)),
    }
}
