//! Metrics: figures folded from the facts of service managers and site authorities as they become
//! durable. A run that reads its journals again gets the same ones.

mod service_manager;
mod site_authority;

use std::collections::BTreeMap;

use tenure_core::model::time::{Span, Term, Time};
use tenure_core::runtime::{Entry, Fact};

use crate::report::{Report, Series};
use service_manager::Guest;
use site_authority::Site;

/// The figures of a run in the making.
#[derive(Debug)]
pub(crate) struct Metrics {
    window: Term,
    step: Span,
    capacity: u32,
    guests: BTreeMap<usize, Guest>,
    sites: BTreeMap<usize, Site>,
}

impl Metrics {
    /// Metrics over `window`, the emulated time.
    pub(crate) fn new(window: Term, step: Span, capacity: u32) -> Self {
        Self { window, step, capacity, guests: BTreeMap::new(), sites: BTreeMap::new() }
    }

    /// Applies a fact of the actor with number `member`.
    pub(crate) fn observe(&mut self, member: usize, entry: &Entry) {
        let in_window = self.window.contains(entry.at);
        match &entry.fact {
            Fact::ServiceManager(fact) => {
                let guest = self.guests.entry(member).or_default();
                guest.observe(entry.at, in_window, fact);
            }
            Fact::SiteAuthority(fact) => {
                let site = self.sites.entry(member).or_default();
                site.observe(entry.at, in_window, fact);
            }
            Fact::Broker(_) => {}
        }
    }

    /// Need and holding of a service manager whose need is known.
    pub(crate) fn series(&self, member: usize, name: &str, demand: &[u32]) -> Series {
        let held = match self.guests.get(&member) {
            Some(guest) => guest.held(self.window, self.step, demand.len()),
            None => vec![0; demand.len()],
        };
        Series { name: name.to_owned(), demand: demand.to_vec(), held }
    }

    /// Fills in all figures that come from facts.
    pub(crate) fn fill(&self, report: &mut Report, series: &[Series]) {
        report.rmse = rmse(series);
        let (mut joined, mut leased, mut waits) = (0.0, 0.0, Vec::new());
        for guest in self.guests.values() {
            report.requests += guest.requests;
            report.refusals += guest.refusals.values().sum::<u64>();
            for (reason, count) in &guest.refusals {
                *report.refusals_by_reason.entry((*reason).to_owned()).or_default() += count;
            }
            let (of_joined, of_leased) = guest.unit_seconds(self.window);
            joined += of_joined;
            leased += of_leased;
            waits.extend(guest.waits());
        }
        let mut lent = 0.0;
        for site in self.sites.values() {
            report.setups += site.setups;
            report.failed_setups += site.failed_setups;
            report.teardowns += site.teardowns;
            report.extends += site.extends;
            report.unit_flips += site.flips;
            lent += site.unit_seconds(self.window);
        }
        report.fidelity = if leased > 0.0 { joined / leased } else { 1.0 };
        report.utilization =
            lent / (f64::from(self.capacity) * self.window.duration().as_secs_f64());
        let count = waits.len().max(1) as f64;
        report.mean_wait_s = waits.iter().fold(0.0, |sum, wait| sum + wait.as_secs_f64()) / count;
    }

    /// What went wrong between actors: whatever was never answered, and units in two hands.
    pub(crate) fn failures(&self) -> Vec<String> {
        let guests = self.guests.values();
        let unanswered = guests.flat_map(|guest| {
            guest.failures(|ticket| self.sites.values().find_map(|site| site.fate(ticket)))
        });
        let shared = self.sites.values().flat_map(|site| site.failures.iter().cloned());
        unanswered.chain(shared).collect()
    }
}

/// Root of the mean square of what is held too much or too little.
fn rmse(series: &[Series]) -> f64 {
    let errors = series.iter().flat_map(|s| s.held.iter().zip(&s.demand));
    let squares = errors.map(|(&held, &demand)| {
        let error = held - i64::from(demand);
        (error * error) as f64
    });
    let (sum, count) = squares.fold((0.0, 0u64), |(sum, n), square| (sum + square, n + 1));
    if count == 0 { 0.0 } else { (sum / count as f64).sqrt() }
}

/// The length of the part of `[from, until)` that lies in `window`, in seconds.
fn overlap(window: Term, from: Time, until: Time) -> f64 {
    let (from, until) = (from.max(window.start()), until.min(window.end()));
    if from < until { until.since(from).as_secs_f64() } else { 0.0 }
}
