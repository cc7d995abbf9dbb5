//! The KPIs of a Grid Engine.

use std::collections::BTreeMap;

use tenure_core::service::kpi::Kpis;
use tenure_core::service::member::{BadMembers, Members};

use super::super::queue::{Figures, first};
use super::answers::{Host, Job};
use super::licences;

/// What is counted.
pub(crate) struct Counted<'a> {
    /// This queue only.
    pub(crate) queue: Option<&'a str>,
    /// Those hosts only that adapters have joined.
    pub(crate) ours: bool,
    /// How many slots a unit has: jobs share units then.
    pub(crate) slots: Option<u64>,
    /// In seconds since 1970.
    pub(crate) now: i64,
    /// Resources that units are counted by; a host or a job with several counts for the first.
    pub(crate) requests: &'a [String],
}

/// What is counted of what has, or requests, one resource.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    figures: Figures,
    /// Slots of jobs that share units.
    wanted: u64,
}

impl Counted<'_> {
    /// The KPIs of units that are hosts.
    pub(crate) fn hosts(&self, hosts: &[Host], pending: &[Job]) -> Kpis {
        let mut all: BTreeMap<&str, Counts> = BTreeMap::new();
        for host in hosts.iter().filter(|host| self.counts(host)) {
            let request = first(self.requests, |of| host.offers.contains(of));
            let Counts { figures, .. } = all.entry(request).or_default();
            figures.units += 1;
            figures.busy += u64::from(!host.is_free());
        }
        for job in pending.iter().filter(|job| self.fits(job)) {
            let request = first(self.requests, |of| job.requests.contains_key(of));
            let Counts { figures, wanted } = all.entry(request).or_default();
            let each = if self.slots.is_some() { job.slots } else { 1 };
            *wanted = wanted.saturating_add(each.saturating_mul(job.elements));
            figures.oldest_wait = figures.oldest_wait.max(self.now.saturating_sub(job.since));
        }
        if all.is_empty() {
            all.insert("", Counts::default());
        }
        let mut kpis = Kpis::default();
        for (request, Counts { mut figures, wanted }) in all {
            figures.pending = wanted.div_ceil(self.slots.unwrap_or(1).max(1));
            self.enter(figures, request, &mut kpis);
        }
        kpis
    }

    /// The KPIs of units that are licences.
    pub(crate) fn licences(
        &self,
        licence: &str,
        (hosts, global): (&[Host], &BTreeMap<String, String>),
        pending: &[Job],
    ) -> Kpis {
        let all = licences::capacity(global, licence);
        let units = licences::marks(global).count();
        let left = hosts.iter().filter(|host| !host.executes());
        let left = left.filter_map(|host| host.left.get(licence)).next().copied().unwrap_or(all);
        let units = u64::try_from(units).unwrap_or(u64::MAX);
        // Those of others are used first.
        let others = all.saturating_sub_unsigned(units).max(0);
        let used = (all - left).saturating_sub(others);
        let mut figures = Figures { units, ..Figures::default() };
        figures.busy = u64::try_from(used).unwrap_or(0).min(units);
        for job in pending.iter().filter(|job| self.fits(job) && job.licences(licence) > 0) {
            figures.pending = figures.pending.saturating_add(job.licences(licence));
            figures.oldest_wait = figures.oldest_wait.max(self.now.saturating_sub(job.since));
        }
        let mut kpis = Kpis::default();
        self.enter(figures, "", &mut kpis);
        kpis
    }

    /// The hosts that no unit has become, and whether they count.
    pub(crate) fn statics(&self, hosts: &[Host]) -> Result<Members, BadMembers> {
        let mut members = Members::default();
        let others = hosts.iter().filter(|host| host.executes() && host.mark.is_none());
        for host in others.filter(|host| self.is_inside(host)) {
            members.insert(&host.name, host.is_ready())?;
        }
        Ok(members)
    }

    /// Hosts that are going are not there any more.
    fn counts(&self, host: &Host) -> bool {
        let ours = !self.ours || host.mark.is_some();
        host.executes() && ours && host.is_ready() && self.is_inside(host)
    }

    fn is_inside(&self, host: &Host) -> bool {
        let inside = |queue: &str| host.queues.iter().any(|one| one.queue == queue);
        self.queue.is_none_or(inside)
    }

    /// Whether a job may run in the queue. It may ask for parts of queues: `main.q@@leased`.
    fn fits(&self, job: &Job) -> bool {
        let named = |queue: &str| {
            let of = |one: &String| one.split('@').next() == Some(queue) || one.contains('*');
            job.queues.is_empty() || job.queues.iter().any(of)
        };
        self.queue.is_none_or(named)
    }

    fn enter(&self, figures: Figures, request: &str, kpis: &mut Kpis) {
        let queue = self.queue.unwrap_or_default();
        figures.enter(&[("queue", queue), ("request", request)], kpis);
    }
}
