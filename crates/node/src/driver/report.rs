//! What a driver says of its units by itself: to whom, and what of it has to be said again.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use tenure_core::driver::{Finding, Report, ReportReceiver, UnitId};

use super::fence::hold;

/// Units that have failed, of those a driver reports again.
const MAX_FAILED: usize = 65_536;

/// Passes reports on, and repeats failures to each new receiver.
#[derive(Default)]
pub(crate) struct Reporter(Mutex<State>);

#[derive(Default)]
struct State {
    receiver: Option<Arc<dyn ReportReceiver>>,
    failed: BTreeMap<UnitId, Report>,
}

impl Reporter {
    /// Passes a report on, if there is anyone who takes it.
    pub(crate) fn report(&self, report: Report) {
        let mut state = hold(&self.0);
        let keep = match state.failed.get(&report.unit) {
            Some(before) => before.epoch <= report.epoch,
            None => state.failed.len() < MAX_FAILED,
        };
        if matches!(report.finding, Finding::Failed(_)) && keep {
            state.failed.insert(report.unit, report.clone());
        }
        if let Some(receiver) = &state.receiver {
            receiver.report(report);
        }
    }

    /// Has another receiver, which is told of the units that have failed.
    pub(crate) fn report_to(&self, receiver: Arc<dyn ReportReceiver>) {
        let mut state = hold(&self.0);
        for report in state.failed.values() {
            receiver.report(report.clone());
        }
        state.receiver = Some(receiver);
    }

    /// A tenancy is over, or another one begins.
    pub(crate) fn forget(&self, unit: UnitId) {
        hold(&self.0).failed.remove(&unit);
    }
}
