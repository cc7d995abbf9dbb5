//! The KPIs of a Slurm.

use std::collections::BTreeMap;

use tenure_core::service::kpi::Kpis;
use tenure_core::service::member::{BadMembers, Members};

use super::super::queue::{Figures, first};
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
    /// Features that units are counted by; a node or a job with several counts for the first.
    pub(crate) features: &'a [String],
    /// Licences that pending jobs are counted by, likewise.
    pub(crate) licences: &'a [String],
}

/// What is counted of the pending jobs of a partition.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    figures: Figures,
    /// Processors of jobs that share units.
    shared: u64,
}

impl Counted<'_> {
    /// The KPIs: `units`, `busy-units`, `pending-units` and `oldest-wait` of each partition. A node or a job in
    /// several partitions counts in the first of them; likewise with features and licences, which are labels.
    pub(crate) fn kpis(&self, nodes: &[Node], jobs: &[Job]) -> Kpis {
        let mut all: BTreeMap<(&str, &str, &str), Counts> = BTreeMap::new();
        all.extend(self.partition.map(|partition| ((partition, "", ""), Counts::default())));
        for node in nodes.iter().filter(|node| self.counts(node)) {
            let partition = self.partition.or(node.partitions.first().map(String::as_str));
            let feature = first(self.features, |of| node.features.iter().any(|has| has == of));
            let Counts { figures, .. } =
                all.entry((partition.unwrap_or_default(), feature, "")).or_default();
            figures.units += 1;
            figures.busy += u64::from(node.allocated > 0);
        }
        for job in jobs.iter().filter(|job| job.waits_for_nodes(self.cpus)) {
            if self.partition.is_some_and(|partition| partition != job.partition) {
                continue;
            }
            let feature = first(self.features, |of| job.asks_for(of));
            let licence = first(self.licences, |of| job.asks_for_licence(of));
            let of_job = (job.partition.as_str(), feature, licence);
            let Counts { figures, shared } = all.entry(of_job).or_default();
            match self.cpus {
                Some(_) if job.nodes <= 1 => {
                    *shared += job.cpus.saturating_mul(job.elements);
                }
                Some(_) | None => figures.pending += job.nodes.max(1).saturating_mul(job.elements),
            }
            figures.oldest_wait = figures.oldest_wait.max(self.now.saturating_sub(job.submitted));
        }
        if all.is_empty() {
            all.insert(("", "", ""), Counts::default());
        }
        let mut kpis = Kpis::default();
        for ((partition, feature, licence), Counts { mut figures, shared }) in all {
            let shared = shared.div_ceil(self.cpus.unwrap_or(1).max(1));
            figures.pending = figures.pending.saturating_add(shared);
            let labels = [("partition", partition), ("feature", feature), ("licence", licence)];
            figures.enter(&labels, &mut kpis);
        }
        kpis
    }

    /// The nodes that no unit has become, by the names of their hosts, and whether they count.
    pub(crate) fn statics(&self, nodes: &[Node]) -> Result<Members, BadMembers> {
        let mut members = Members::default();
        let others = nodes.iter().filter(|node| !node.is("FUTURE") && !is_ours(node));
        for node in others.filter(|node| self.is_inside(node)) {
            members.insert(&node.name, !is_gone(node))?;
        }
        Ok(members)
    }

    fn counts(&self, node: &Node) -> bool {
        !is_gone(node) && (!self.ours || is_ours(node)) && self.is_inside(node)
    }

    fn is_inside(&self, node: &Node) -> bool {
        let inside = |partition: &str| node.partitions.iter().any(|one| one == partition);
        self.partition.is_none_or(inside)
    }
}

/// Nodes that are going are not there any more.
fn is_gone(node: &Node) -> bool {
    let gone = ["DOWN", "DRAIN"].iter().any(|state| node.is(state));
    gone || (node.is("FUTURE") && !node.is_forgotten())
}

/// Whether a unit has become it.
fn is_ours(node: &Node) -> bool {
    node.comment.starts_with(OURS)
}
