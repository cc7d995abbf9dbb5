//! Whether a service that is to be added can be what its definition says.

use std::collections::BTreeSet;
use std::time::Duration;

use tenure_core::model::name::Name;
use tenure_core::model::resource::Expr;
use tenure_core::model::time::Span;
use tenure_core::service::adapter::Adapter;
use tenure_core::service::definition::Definition;
use tenure_core::service_manager::services::Found;

use super::asker::Asker;
use super::availability::{AvailabilityRequest, AvailabilityView};
use super::moment::Moment;
use super::server::{ApiResult, AppState};
use super::service_name::ServiceName;
use super::{ApiError, Code, lease_request};
use crate::adapter::{self, Sensed};

/// How long an adapter may look at its software once.
const LOOK_WITHIN: Duration = Duration::from_secs(30);

/// How often brokers are asked, with a pause in between: right after a start they have nothing yet.
const QUESTIONS: u32 = 8;
const PAUSE: Duration = Duration::from_millis(250);

const UNCHECKED: &str = "mend it, or add the service as it is: `--unchecked`";

impl AppState {
    /// Whether its adapter can look at its software and measures what SLOs look at, and whether somebody has units
    /// as they want them.
    pub(super) async fn check_service(
        &self,
        name: &ServiceName,
        it: &Definition,
        by: &Asker,
    ) -> ApiResult<()> {
        // What is not a definition is told before anything is run.
        self.check_definition(it, by)?;
        let manager = &lease_request::manager(self, name.manager.as_ref())?;
        if let Some(spec) = &it.adapter() {
            let sensed = self.sensed(manager, (&name.service, spec)).await?;
            if adapter::kpis(spec).is_none() {
                measures(it, &sensed)?;
            }
        }
        let kinds: BTreeSet<(&Name, Option<&Expr>)> =
            it.slo.values().map(|slo| (&slo.resource, slo.requirement.as_ref())).collect();
        for kind in kinds {
            self.check_kind(manager, kind).await?;
        }
        Ok(())
    }

    /// Has the adapter of a definition look at the software once.
    async fn sensed(
        &self,
        manager: &Name,
        (service, spec): (&Name, &Adapter),
    ) -> ApiResult<Sensed> {
        let failed = |why: String| {
            let message = format!("its adapter cannot look at the software: {why}");
            ApiError::new(Code::Failed, message).help(UNCHECKED)
        };
        let adapters = self.adapters(manager);
        let adapters = adapters.ok_or_else(|| failed("no adapters run here".to_owned()))?;
        let look = adapter::look_once(&adapters, service.as_str(), spec).map_err(failed)?;
        match tokio::time::timeout(LOOK_WITHIN, look).await {
            Ok(Ok(Sensed { found: Found::Failed, why, .. })) => {
                Err(failed(why.unwrap_or_else(|| "it has failed".to_owned())))
            }
            Ok(seen) => seen.map_err(failed),
            Err(_) => Err(failed(format!("it took longer than {LOOK_WITHIN:?}"))),
        }
    }

    /// Whether a broker has units of a kind, or may have some and does not say so.
    async fn check_kind(
        &self,
        manager: &Name,
        (resource, condition): (&Name, Option<&Expr>),
    ) -> ApiResult<()> {
        for _ in 0..QUESTIONS {
            let answers = self.availability(AvailabilityRequest {
                manager: Some(manager.clone()),
                broker: None,
                resource: Some(resource.clone()),
                condition: condition.cloned(),
                start: Moment::NOW,
                duration: Span::from_secs(1),
                within: None,
            });
            let answers = answers.await?;
            if answers.is_empty() || answers.iter().any(may_have) {
                return Ok(());
            }
            tokio::time::sleep(PAUSE).await;
        }
        let how = condition.map_or_else(String::new, |expr| format!(" where {}", expr.as_str()));
        let message = format!("no broker of {manager} has units of `{resource}`{how}");
        Err(ApiError::new(Code::Usage, message)
            .help("`tenure broker availability` says what there is; to add the service anyway: `--unchecked`"))
    }
}

fn may_have(answer: &AvailabilityView) -> bool {
    let tells = matches!(answer.discloses.as_str(), "all" | "totals" | "yes-no");
    !tells || answer.more > 0 || !answer.free.is_empty()
}

/// Whether SLOs look at what was measured only, of a service that runs. What adapters measure whose settings tell it
/// is known without that, and not all of it at the first look.
fn measures(definition: &Definition, sensed: &Sensed) -> ApiResult<()> {
    if sensed.found != Found::Running || sensed.kpis.count() == 0 {
        return Ok(());
    }
    let measured: BTreeSet<&str> = sensed.kpis.iter().map(|(kpi, _)| kpi.name().as_str()).collect();
    for (name, slo) in &definition.slo {
        if let Some(kpi) = slo.kpis().into_iter().find(|kpi| !measured.contains(kpi.as_str())) {
            let all: Vec<&str> = measured.into_iter().collect();
            let message = format!(
                "`{name}` looks at the KPI `{kpi}`, and its adapter measures {}",
                if all.is_empty() { "none".to_owned() } else { format!("`{}`", all.join("`, `")) }
            );
            return Err(ApiError::new(Code::Usage, message).help(UNCHECKED));
        }
    }
    Ok(())
}
