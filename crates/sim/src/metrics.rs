//! Metrics: figures folded from the facts of service managers and site authorities as they become
//! durable. A run that reads its journals again gets the same ones.

mod delays;
mod experiments;
mod moves;
mod network;
mod service_manager;
mod site_authority;

use std::collections::{BTreeMap, BTreeSet};

use tenure_core::actor::Role;
use tenure_core::model::identity::ActorId;
use tenure_core::model::name::Name;
use tenure_core::model::time::{Span, Term, Time};
use tenure_core::runtime::{Entry, Fact};
use tenure_core::service_manager::facts::Fact as GuestFact;
use tenure_core::site_authority::facts::Fact as SiteFact;
use tenure_core::ticket::link::LinkHash;

use crate::capacity::Capacity;
use crate::report::{Report, Series, TypeReport};
use delays::Delays;
use experiments::Experiments;
pub use experiments::{Compute, ComputeSite};
use moves::Moves;
use network::NetworkFigures;
use service_manager::{Anomalies, Guest, Sums};
use site_authority::{Lent, Site};

/// The figures of a run in the making.
#[derive(Debug)]
pub(crate) struct Metrics {
    window: Term,
    step: Span,
    capacity: Capacity,
    guests: BTreeMap<usize, Guest>,
    sites: BTreeMap<usize, Site>,
    /// The tickets of guests that never heard of their units: their outcome is reported at the end.
    missed: BTreeSet<LinkHash>,
    experiments: Option<Experiments>,
    moves: Moves,
    network: Option<NetworkFigures>,
}

impl Metrics {
    /// Metrics over `window`, the emulated time.
    pub(crate) fn new(window: Term, step: Span, capacity: Capacity) -> Self {
        let (guests, sites, missed) = (BTreeMap::new(), BTreeMap::new(), BTreeSet::new());
        Self {
            window,
            step,
            capacity,
            guests,
            sites,
            missed,
            experiments: None,
            moves: Moves::default(),
            network: None,
        }
    }

    /// The same, with what becomes of experiments.
    pub(crate) fn with_experiments(
        mut self,
        compute: Option<&Compute>,
        id_of: impl Fn(&Name) -> Option<ActorId>,
    ) -> Self {
        self.experiments = compute.map(|compute| Experiments::at(compute, id_of));
        self
    }

    /// The same, with what becomes of requests in a network of brokers. Members have these ids.
    pub(crate) fn with_network(mut self, ids: Vec<ActorId>) -> Self {
        self.network = Some(NetworkFigures::of(ids, &self.capacity));
        self
    }

    /// A message was sent.
    pub(crate) fn sent(&mut self, kind: &str, from: Role, to: Role) {
        if let Some(network) = &mut self.network {
            network.sent(kind, from, to);
        }
    }

    /// Applies a fact of the actor with number `member`.
    pub(crate) fn observe(&mut self, member: usize, entry: &Entry) {
        let in_window = self.window.contains(entry.at);
        match &entry.fact {
            // By far the most facts, and none that counts.
            Fact::ServiceManager(GuestFact::SignalObserved(_) | GuestFact::MapperAnswered(_)) => {}
            Fact::ServiceManager(fact) => {
                if let Some(experiments) = &mut self.experiments {
                    experiments.observe(member, fact);
                }
                if let Some(network) = &mut self.network {
                    network.observe_guest(member, (entry.at, in_window), fact);
                }
                let (window, step) = (self.window, self.step);
                let guest =
                    self.guests.entry(member).or_insert_with(|| Guest::observed(window, step));
                self.missed.extend(guest.observe(entry.at, in_window, fact));
            }
            Fact::SiteAuthority(fact) => {
                if let Some(network) = &mut self.network {
                    network.observe_site(fact);
                }
                let window = self.window;
                let site = self.sites.entry(member).or_insert_with(|| Site::observed(window));
                site.observe(entry.at, in_window, fact);
                if let SiteFact::LeaseForgotten(fact) = fact
                    && !self.missed.contains(&fact.lease)
                {
                    site.forget(fact.lease);
                }
            }
            Fact::Broker(fact) => {
                if let Some(network) = &mut self.network {
                    network.observe_broker(member, fact);
                }
                if in_window {
                    self.moves.observe(member, entry.at, fact);
                }
            }
        }
    }

    /// How many units were moved between services, and how many of those went back within an hour.
    pub(crate) fn moves(&self) -> (u64, u64) {
        self.moves.count()
    }

    /// How many leases are kept, at guests and sites.
    #[cfg(test)]
    fn remembered(&self) -> usize {
        let guests = self.guests.values().map(Guest::remembered);
        guests.chain(self.sites.values().map(Site::remembered)).sum()
    }

    /// Need and holding of a service manager whose need is known.
    pub(crate) fn series(&self, member: usize, name: &str, demand: &[u32]) -> Series {
        let held = match self.guests.get(&member) {
            Some(guest) => guest.held(demand.len()),
            None => vec![0; demand.len()],
        };
        Series { name: name.to_owned(), demand: demand.to_vec(), held }
    }

    /// Fills in all figures that come from facts.
    pub(crate) fn fill(&self, report: &mut Report, series: &[Series]) {
        report.rmse = rmse(series);
        let mut of_guests = Sums::default();
        let delays = self.guests.values().map(|guest| &guest.delays);
        Delays::fill(delays, report);
        for guest in self.guests.values() {
            report.requests += guest.requests;
            report.refusals += guest.refusals.values().sum::<u64>();
            for (reason, count) in &guest.refusals {
                *report.refusals_by_reason.entry((*reason).to_owned()).or_default() += count;
            }
            of_guests.add(guest.sums());
        }
        for site in self.sites.values() {
            report.setups += site.setups;
            report.failed_setups += site.failed_setups;
            report.teardowns += site.teardowns;
            report.extends += site.extends;
            report.unit_flips += site.flips;
        }
        let Sums { joined, leased, waited, waits, cost, anomalies } = of_guests;
        let Anomalies { late, early, expired, late_by, early_by } = anomalies;
        (report.late, report.late_s) = (late, late_by as f64 / 1e6);
        (report.early, report.early_s) = (early, early_by as f64 / 1e6);
        report.expired = expired;
        report.cost = cost.to_string();
        report.fidelity = if leased > 0 { joined as f64 / leased as f64 } else { 1.0 };
        report.experiments = self.experiments.as_ref().map(Experiments::report);
        report.network = self.network.as_ref().map(NetworkFigures::report);
        self.fill_types(report);
        report.mean_wait_s = waited as f64 / 1e6 / waits.max(1) as f64;
    }

    /// How much was lent of each type, and of all those whose units can be counted.
    fn fill_types(&self, report: &mut Report) {
        let mut types: BTreeMap<Name, Lent> = BTreeMap::new();
        for (resource, lent) in self.sites.values().flat_map(Site::lent) {
            let of_type = types.entry(resource).or_default();
            of_type.leases += lent.leases;
            of_type.unit_micros += lent.unit_micros;
        }
        let window = i128::from(self.window.duration().as_micros());
        let part = |lent: i128, units: u64| match i128::from(units) * window {
            0 => 0.0,
            whole => lent as f64 / whole as f64,
        };
        let (mut lent, mut units) = (0, 0);
        for (resource, of) in &self.capacity {
            let Lent { leases, unit_micros } = types.get(resource).copied().unwrap_or_default();
            if of.countable {
                lent += unit_micros;
                units += of.units;
            }
            let utilization = part(unit_micros, of.units);
            let figures = TypeReport { units: of.units, leases, utilization, shortage: 0.0 };
            report.types.insert(resource.to_string(), figures);
        }
        report.utilization = part(lent, units);
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

/// The length of the part of `[from, until)` that lies in `window`, in microseconds.
fn overlap(window: Term, from: Time, until: Time) -> i128 {
    let (from, until) = (from.max(window.start()), until.min(window.end()));
    if from < until { until.since(from).as_micros().into() } else { 0 }
}

#[cfg(test)]
mod tests {
    use tenure_config::Source;

    use super::*;
    use crate::emulation::{Emulation, Inputs, Progress};
    use crate::report::RunVerdict;
    use crate::scenario::parse;

    const SCENARIO: &str = r#"
        horizon = "2d"
        term = "1h"
        capacity = 8
        signatures = "none"
        [site.alpha]
        [broker.exchange]
        [service-manager.guest]
    "#;

    #[test]
    fn figures_are_added_up_and_leases_that_are_over_are_not_kept() {
        let points = parse(Source { name: "s.toml", text: SCENARIO }, &[]).unwrap();
        let scenario = &points[0].scenario;
        // Three units, but for a few steps of every day.
        let demand = (0..576).map(|step| if step % 288 < 6 { 0 } else { 3 }).collect();
        let demand = BTreeMap::from([(Name::literal("guest"), demand)]);
        let inputs = Inputs { demand, ..Inputs::default() };
        let mut emulation = Emulation::new(scenario, &inputs).unwrap();
        let mut most = 0;
        while emulation.step().unwrap() != Progress::Done {
            most = most.max(emulation.metrics().remembered());
        }
        let report = emulation.report();
        assert_eq!(report.verdict, RunVerdict::Complete);
        assert!(report.requests > 40 && most < 8, "{most} of {} leases", report.requests);
        // From half past midnight on there is one lease after the other, also where the second day's gap is:
        // the last lease of the first day ends when that gap does.
        let held = &emulation.series()[0].held;
        assert!(held[..6].iter().all(|&units| units == 0) && held[6..288].iter().all(|&u| u == 3));
        let leased = held.iter().sum::<i64>() as f64 * 300.0;
        let utilization = leased / (8.0 * 2.0 * 86_400.0);
        assert!((report.utilization - utilization).abs() < 1e-9, "{}", report.utilization);
        assert_eq!(report.mean_wait_s, 0.0);
    }

    #[test]
    fn an_overbooked_site_is_short_of_machines_and_its_shortage_is_measured() {
        let text = SCENARIO.replace("capacity = 8", "capacity = 2").replace(
            "[site.alpha]",
            "[site.alpha]\n        attributes = { overbooked = 1 }\n        [service-manager.other]",
        );
        let points = parse(Source { name: "s.toml", text: &text }, &[]).unwrap();
        let demand = |units: u32| std::iter::repeat_n(units, 576).collect::<Vec<_>>();
        let demand = BTreeMap::from([
            (Name::literal("guest"), demand(2)),
            (Name::literal("other"), demand(1)),
        ]);
        let inputs = Inputs { demand, ..Inputs::default() };
        let mut emulation = Emulation::new(&points[0].scenario, &inputs).unwrap();
        while emulation.step().unwrap() != Progress::Done {}
        let report = emulation.report();
        assert_eq!(report.refusals, 0, "all three are sold");
        assert!(report.shortage > 0.0 && report.shortage < 1.0, "{}", report.shortage);
        // A third of what is paid for has no machine.
        assert!(report.fidelity < 0.7, "{}", report.fidelity);
    }

    /// The report of a guest that asks once for two units, an hour from the first one on.
    fn of_one_lease(setup: &str) -> Report {
        let asks = "\n        leave-before = \"1m\"\n        [service-manager.guest.mapper]\n        \
                    name = \"static\"\n        \
                    requests = [{ start = \"1h\", units = 2, duration = \"1h\" }]";
        let site = format!("[site.alpha]\n        setup = \"{setup}\"");
        let guest = format!("[service-manager.guest]{asks}");
        let text = SCENARIO.replace("[site.alpha]", &site);
        let text = text.replace("[service-manager.guest]", &guest);
        let points = parse(Source { name: "s.toml", text: &text }, &[]).unwrap();
        let mut emulation = Emulation::new(&points[0].scenario, &Inputs::default()).unwrap();
        while emulation.step().unwrap() != Progress::Done {}
        emulation.report()
    }

    #[test]
    fn late_early_and_expired_leases_are_told_apart() {
        let report = of_one_lease("2m");
        assert_eq!((report.late, report.early, report.expired), (1, 1, 0));
        // It leaves a minute and the margin before the end.
        assert_eq!((report.late_s, report.early_s), (120.0, 61.0));
        assert!((report.fidelity - (3600.0 - 120.0 - 61.0) / 3600.0).abs() < 1e-9);
        let report = of_one_lease("2h");
        assert_eq!((report.late, report.early, report.expired), (0, 0, 1));
        assert_eq!(report.fidelity, 0.0);
    }
}
