//! What adapters of batch systems count.

use tenure_core::model::name::Name;
use tenure_core::service::kpi::{Kpi, Kpis};
use tenure_expr::Quantity;

/// The KPIs of a batch system.
pub(crate) const KPIS: &[&str] = &["units", "busy-units", "pending-units", "oldest-wait"];

/// What is counted of one queue.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Figures {
    pub(crate) units: u64,
    /// Units that have jobs.
    pub(crate) busy: u64,
    /// Units that pending jobs want.
    pub(crate) pending: u64,
    /// For how long the oldest pending job has waited, in seconds.
    pub(crate) oldest_wait: i64,
}

impl Figures {
    /// Enters them as `units`, `busy-units`, `pending-units` and `oldest-wait`, with the labels whose values can be some.
    pub(crate) fn enter(self, labels: &[(&'static str, &str)], kpis: &mut Kpis) {
        let number = |count: u64| Quantity::number(i64::try_from(count).unwrap_or(i64::MAX));
        let wait = Quantity::microseconds(self.oldest_wait.saturating_mul(1_000_000));
        for (name, quantity) in [
            ("units", number(self.units)),
            ("busy-units", number(self.busy)),
            ("pending-units", number(self.pending)),
            ("oldest-wait", wait),
        ] {
            kpis.insert(labelled(name, labels), quantity);
        }
    }
}

/// A KPI with the labels whose values can be some.
pub(crate) fn labelled(name: &'static str, labels: &[(&'static str, &str)]) -> Kpi {
    labels.iter().filter(|(_, value)| !value.is_empty()).fold(
        Kpi::plain(Name::literal(name)),
        |kpi, (label, value)| {
            let labelled = kpi.clone().with(Name::literal(label), value);
            labelled.unwrap_or(kpi)
        },
    )
}

/// The first of some words that something has; nothing if it has none of them.
pub(crate) fn first(words: &[String], has: impl Fn(&str) -> bool) -> &str {
    words.iter().map(String::as_str).find(|word| has(word)).unwrap_or_default()
}

/// How many elements of an array a text such as `1,3,5-9:2` names.
pub(crate) fn elements(text: &str) -> Option<u64> {
    let counts = text.split(',').map(|part| {
        let (range, step) = part.split_once(':').unwrap_or((part, "1"));
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last): (u64, u64) = (first.parse().ok()?, last.parse().ok()?);
        Some(last.checked_sub(first)?.checked_div(step.parse().ok()?)? + 1)
    });
    counts.sum()
}

/// The seconds since 1970.
pub(crate) fn now() -> i64 {
    let since = std::time::SystemTime::now().duration_since(std::time::SystemTime::UNIX_EPOCH);
    i64::try_from(since.unwrap_or_default().as_secs()).unwrap_or(i64::MAX)
}
