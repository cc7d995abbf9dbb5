//! The KPIs of a Slurm.

use std::collections::BTreeMap;

use tenure_core::model::name::Name;
use tenure_core::service::kpi::{Kpi, Kpis};
use tenure_expr::Quantity;

use super::answers::{Job, Node, OURS};

/// What is counted.
pub(crate) struct Counted<'a> {
    /// This partition only.
    pub(crate) partition: Option<&'a str>,
    /// Those nodes only that adapters have joined.
    pub(crate) ours: bool,
    /// How many processors a unit has: jobs for one node share units then.
    pub(crate) cpus: Option<u64>,
    /// In seconds since 1970.
    pub(crate) now: i64,
}

/// What is counted of a partition.
#[derive(Clone, Copy, Debug, Default)]
struct Figures {
    units: u64,
    busy: u64,
    /// Units of jobs that have some for themselves.
    whole: u64,
    /// Processors of jobs that share units.
    shared: u64,
    oldest_wait: i64,
}

impl Counted<'_> {
    /// The KPIs: `units`, `busy-units`, `pending-units` and `oldest-wait` of each partition. A node or a job in
    /// several partitions counts in the first of them.
    pub(crate) fn kpis(&self, nodes: &[Node], jobs: &[Job]) -> Kpis {
        let mut all: BTreeMap<&str, Figures> = BTreeMap::new();
        all.extend(self.partition.map(|partition| (partition, Figures::default())));
        for node in nodes.iter().filter(|node| self.counts(node)) {
            let partition = self.partition.or(node.partitions.first().map(String::as_str));
            let figures = all.entry(partition.unwrap_or_default()).or_default();
            figures.units += 1;
            figures.busy += u64::from(node.allocated > 0);
        }
        for job in jobs.iter().filter(|job| job.waits_for_nodes()) {
            if self.partition.is_some_and(|partition| partition != job.partition) {
                continue;
            }
            let figures = all.entry(&job.partition).or_default();
            match self.cpus {
                Some(_) if job.nodes <= 1 => {
                    figures.shared += job.cpus.saturating_mul(job.elements);
                }
                Some(_) | None => figures.whole += job.nodes.max(1).saturating_mul(job.elements),
            }
            figures.oldest_wait = figures.oldest_wait.max(self.now.saturating_sub(job.submitted));
        }
        if all.is_empty() {
            all.insert("", Figures::default());
        }
        let mut kpis = Kpis::default();
        for (partition, figures) in all {
            self.enter(partition, figures, &mut kpis);
        }
        kpis
    }

    /// Nodes that are going are not there any more.
    fn counts(&self, node: &Node) -> bool {
        let gone = ["DOWN", "DRAIN"].iter().any(|state| node.is(state))
            || (node.is("FUTURE") && !node.is_forgotten());
        let ours = !self.ours || node.comment.starts_with(OURS);
        let inside = |partition: &str| node.partitions.iter().any(|one| one == partition);
        !gone && ours && self.partition.is_none_or(inside)
    }

    fn enter(&self, partition: &str, figures: Figures, kpis: &mut Kpis) {
        let Figures { units, busy, whole, shared, oldest_wait } = figures;
        let pending = whole.saturating_add(shared.div_ceil(self.cpus.unwrap_or(1).max(1)));
        let number = |count: u64| Quantity::number(i64::try_from(count).unwrap_or(i64::MAX));
        let wait = Quantity::microseconds(oldest_wait.saturating_mul(1_000_000));
        for (name, value) in [
            ("units", number(units)),
            ("busy-units", number(busy)),
            ("pending-units", number(pending)),
            ("oldest-wait", wait),
        ] {
            let plain = Kpi::plain(Name::literal(name));
            // A partition whose name cannot be a label has none.
            let labelled = plain.clone().with(Name::literal("partition"), partition);
            let kpi = labelled.ok().filter(|_| !partition.is_empty()).unwrap_or(plain);
            kpis.insert(kpi, value);
        }
    }
}
