//! The rows of reports. Times are text: a date, or of an emulation the time since its start; lengths of time too.

mod kpi;
mod needs;
mod orders;
mod sla;
mod slo;
mod units;

use tenure_core::model::identity::ActorId;
use tenure_core::model::slice::SliceName;
use tenure_core::model::time::Time;

pub use kpi::KpiRow;
pub use needs::NeedRow;
pub use orders::{MoveRow, OrderRow};
pub use sla::{BreachRow, SlaRow};
pub use slo::SloRow;
pub use units::UnitRow;

use crate::history::History;
use crate::query::Query;
use crate::service::Service;

/// The rows in the order of their times; those of one time stay as they are.
fn in_order<R>(mut rows: Vec<(Time, R)>) -> Vec<R> {
    rows.sort_by_key(|(at, _)| *at);
    rows.into_iter().map(|(_, row)| row).collect()
}

impl History {
    /// The services that a query asks for, each with its name.
    fn services<'a>(&'a self, query: &'a Query) -> impl Iterator<Item = (String, &'a Service)> {
        let guests = self.by_name(&self.guests);
        let services = guests.flat_map(|(guest, of)| of.services.iter().map(move |s| (guest, s)));
        services
            .filter(|&(guest, (name, _))| self.is_asked_for(query, guest, name))
            .map(|(guest, (name, service))| (self.named(guest, name), service))
    }

    /// The end of what had one, and until when it is known to have lasted: at a moment, it still lasts.
    fn ended(&self, end: Option<Time>, query: &Query) -> (Option<Time>, Time) {
        match query.at {
            Some(at) => (None, at.min(self.end())),
            None => (end, end.unwrap_or_else(|| self.end())),
        }
    }

    fn is_asked_for(&self, query: &Query, guest: ActorId, service: &SliceName) -> bool {
        query.takes_service(&self.name(guest), service)
    }
}
