//! What takes part in services without a lease.

use serde::{Deserialize, Serialize};
use tenure_core::service::unit_state::UnitState;
use tenure_core::service_manager::ServiceManager;
use tenure_core::service_manager::services::ServiceSurvey;

use super::view::time;

/// A static unit of a service as it is shown.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemberView {
    /// What its software calls it.
    pub member: String,
    /// The type that it counts as; empty if its service has no SLO.
    pub resource: String,
    /// `assigned`, `error` if it is down, `ambiguous` if it may be another's.
    pub state: String,
    /// When its service told of it first.
    pub since: String,
}

impl MemberView {
    /// Those of a service. A member that has a lease is shown with that.
    pub(super) fn all(guest: &ServiceManager, survey: &ServiceSurvey<'_>) -> Vec<Self> {
        let slo = survey.definition.slo.values().next();
        let resource = slo.map(|slo| slo.resource.to_string()).unwrap_or_default();
        let members = guest.static_members(survey.service);
        members
            .map(|(id, member)| {
                let state = match (guest.is_ambiguous(survey.service, id), member.up) {
                    (true, _) => "ambiguous",
                    (false, true) => UnitState::Assigned.word(),
                    (false, false) => UnitState::Error.word(),
                };
                Self {
                    member: id.to_string(),
                    resource: resource.clone(),
                    state: state.to_owned(),
                    since: time(member.since),
                }
            })
            .collect()
    }
}
