//! What a site's driver reports by itself waits here for the host: the newest report of each unit.
//!
//! A driver may report as often as it likes: a host has one message for all that waits.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tenure_core::driver::{Finding, Report, ReportReceiver, UnitId};
use tracing::debug;

/// Reports that wait for one host.
pub(super) struct Reports {
    waiting: Mutex<BTreeMap<UnitId, Report>>,
    /// The most units of which a report waits; others are found by their probes.
    most: usize,
    /// Tells the host that there are some.
    wake: Box<dyn Fn() + Send + Sync>,
}

impl Reports {
    /// Reports of at most so many units at a time, of which `wake` tells.
    pub(super) fn new(most: usize, wake: impl Fn() + Send + Sync + 'static) -> Self {
        Self { waiting: Mutex::default(), most, wake: Box::new(wake) }
    }

    /// What waits, by unit.
    pub(super) fn take(&self) -> Vec<Report> {
        std::mem::take(&mut *self.all()).into_values().collect()
    }

    fn all(&self) -> MutexGuard<'_, BTreeMap<UnitId, Report>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether a report leaves nothing to say of another one of its unit.
fn outranks(one: &Report, other: &Report) -> bool {
    let failed = matches!(one.finding, Finding::Failed(_));
    one.epoch > other.epoch || (one.epoch == other.epoch && failed)
}

impl ReportReceiver for Reports {
    fn report(&self, report: Report) {
        let mut waiting = self.all();
        let before = waiting.get(&report.unit);
        if before.is_some_and(|before| outranks(before, &report)) {
            return;
        }
        if before.is_none() && waiting.len() >= self.most {
            debug!(unit = %report.unit, "a driver's report was dropped: too many wait");
            return;
        }
        let is_first = waiting.is_empty();
        waiting.insert(report.unit, report);
        drop(waiting);
        if is_first {
            (self.wake)();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tenure_core::driver::{DriverError, Epoch};

    use super::*;

    fn report(unit: u32, epoch: u64, finding: Finding) -> Report {
        Report { unit: UnitId(unit), epoch: Epoch(epoch), finding }
    }

    fn failed(why: &str) -> Finding {
        Finding::Failed(DriverError(why.to_owned()))
    }

    #[test]
    fn the_newest_report_of_each_unit_waits_and_the_host_is_woken_once() {
        let woken = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&woken);
        let reports = Reports::new(2, move || {
            count.fetch_add(1, Ordering::Relaxed);
        });
        let down = Finding::Down(DriverError("down".to_owned()));
        for one in [
            report(1, 5, down.clone()),
            report(1, 5, failed("gone")),
            report(1, 5, Finding::Up),
            report(1, 3, failed("late")),
            report(2, 1, down.clone()),
            report(2, 1, Finding::Up),
            report(3, 1, failed("one too many")),
        ] {
            reports.report(one);
        }
        assert_eq!(woken.load(Ordering::Relaxed), 1);
        assert_eq!(reports.take(), [report(1, 5, failed("gone")), report(2, 1, Finding::Up)]);
        assert_eq!(reports.take(), []);
        reports.report(report(1, 5, failed("gone")));
        reports.report(report(1, 7, down.clone()));
        assert_eq!(woken.load(Ordering::Relaxed), 2);
        assert_eq!(reports.take(), [report(1, 7, down)], "of another tenancy");
    }
}
