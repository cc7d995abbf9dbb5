//! What a report is to have in it.

use serde::{Deserialize, Serialize};
use tenure_core::model::name::Name;
use tenure_core::model::slice::SliceName;
use tenure_core::model::time::Time;
use tenure_core::service::kpi::Kpi;

/// The reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Report {
    /// What was measured of services.
    Kpi,
    /// When SLOs were met.
    Slo,
    /// What brokers were told that services want.
    Needs,
    /// The orders of brokers.
    Orders,
    /// The units that orders have moved.
    Moves,
    /// Who held which unit.
    Units,
    /// How SLAs stand.
    Sla,
}

/// Which rows a report has. What is not set leaves none out.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Query {
    /// Only of this service, or slice.
    pub service: Option<SliceName>,
    /// Only of this guest.
    pub guest: Option<Name>,
    /// Only of this type of units.
    pub resource: Option<Name>,
    /// Only these KPIs.
    pub kpi: Option<Kpi>,
    /// Only what happened, or still held, at this time or later.
    pub since: Option<Time>,
    /// Only what happened, or had begun, before this time.
    pub until: Option<Time>,
    /// How it was at this moment, whatever came before and after.
    pub at: Option<Time>,
}

impl Query {
    /// Whether it asks for what happened at a time.
    pub(crate) fn takes_instant(&self, at: Time) -> bool {
        self.since.is_none_or(|since| since <= at) && self.until.is_none_or(|until| at < until)
    }

    /// Whether it asks for what began, and ended, then; what has not ended still holds.
    pub(crate) fn takes_span(&self, begin: Time, end: Option<Time>) -> bool {
        let held_after = |at: Time| end.is_none_or(|end| at < end);
        match self.at {
            Some(at) => begin <= at && held_after(at),
            None => {
                self.since.is_none_or(held_after) && self.until.is_none_or(|until| begin < until)
            }
        }
    }

    /// Whether it asks for units of a type.
    pub(crate) fn takes_type(&self, resource: &Name) -> bool {
        self.resource.as_ref().is_none_or(|wanted| wanted == resource)
    }

    /// Whether it asks for a service, or slice, of a guest of that name.
    pub(crate) fn takes_service(&self, guest: &str, service: &SliceName) -> bool {
        self.guest.as_ref().is_none_or(|wanted| wanted.as_str() == guest)
            && self.service.as_ref().is_none_or(|wanted| wanted == service)
    }
}
