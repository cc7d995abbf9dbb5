//! Models of software in emulations: what services of service managers do with their units, and what is measured of
//! them.
//!
//! A model is told which units its service has, from the facts of its service manager, and hands in measurements as a
//! program at a real service would.

mod batch;
pub mod model;
mod web;

use std::collections::{BTreeMap, BTreeSet};

use tenure_core::driver::UnitId;
use tenure_core::model::identity::ActorId;
use tenure_core::model::name::Name;
use tenure_core::model::slice::{LeaseId, SliceName};
use tenure_core::model::time::{Span, Term, Time};
use tenure_core::runtime::{AnyActor, Entry, Fact, Input};
use tenure_core::service::definition::Definition;
use tenure_core::service::kpi::Kpis;
use tenure_core::service::member::Members;
use tenure_core::service_manager::facts::{Fact as GuestFact, Granted};
use tenure_core::service_manager::services::{Found, ServiceCommand};
use tenure_core::service_manager::{Command, ServiceManager};
use tenure_expr::Quantity;

use self::batch::Batch;
use self::model::{Model, Modelled};
use self::web::Web;
use crate::report::ServiceReport;

/// A unit as a model knows it.
pub(crate) type Unit = (LeaseId, UnitId);

/// Software of which a model is made.
pub(crate) trait Software: Send {
    /// What happens by itself up to an instant. `units` are those that it has, the longest held first.
    fn advance(&mut self, now: Time, units: &[Unit]);

    /// When something next happens by itself, if nothing changes.
    fn next(&self) -> Option<Time>;

    /// A unit is gone; what ran on it is lost.
    fn lose(&mut self, now: Time, unit: Unit);

    /// Its units that are at work, if that matters.
    fn busy(&self) -> Vec<Unit> {
        Vec::new()
    }

    /// What is measured of it.
    fn measure(&self, now: Time, units: u32) -> Vec<(&'static str, Quantity)>;

    /// Fills in what it has done up to an instant.
    fn fill(&self, now: Time, report: &mut ServiceReport);
}

/// The services of one service manager that have models.
#[derive(Default)]
pub(crate) struct Models {
    services: Vec<Running>,
    /// The slices of requests, by their numbers.
    slices: BTreeMap<u64, SliceName>,
}

/// A service with its model.
struct Running {
    service: Name,
    /// Until it is handed in.
    definition: Option<Box<Definition>>,
    software: Box<dyn Software>,
    units: Vec<Unit>,
    /// The sites of its leases.
    sites: BTreeMap<LeaseId, ActorId>,
    every: Span,
    /// When it is measured next, if nothing happens before.
    due: Option<Time>,
    window: Term,
    missed: Missed,
    /// How many units it had at the end of the window.
    units_end: usize,
}

/// How long SLOs with rules were missed.
#[derive(Default)]
struct Missed {
    now: BTreeSet<Name>,
    since: Option<Time>,
    sum: Span,
}

impl Missed {
    fn judged(&mut self, at: Time, slo: &Name, missed: bool) {
        if missed {
            self.now.insert(slo.clone())
        } else {
            self.now.remove(slo)
        };
        match (self.since, self.now.is_empty()) {
            (None, false) => self.since = Some(at),
            (Some(since), true) => {
                self.sum = self.sum.plus(at.since(since));
                self.since = None;
            }
            (None, true) | (Some(_), false) => {}
        }
    }

    fn until(&self, end: Time) -> Span {
        self.since.map_or(self.sum, |since| self.sum.plus(end.since(since).max(Span::ZERO)))
    }
}

impl Models {
    /// The models of the services of a service manager. `demand` is its workload, one value a step.
    pub(crate) fn of(
        services: &BTreeMap<Name, Modelled>,
        demand: &[u32],
        (window, step): (Term, Span),
    ) -> Self {
        let running = services.iter().map(|(service, modelled)| {
            let Modelled { definition, model, every } = modelled;
            let software: Box<dyn Software> = match model {
                Model::Batch(batch) => Box::new(Batch::of(batch, window.start())),
                Model::Web(web) => Box::new(Web::of(web, demand, (window.start(), step))),
            };
            Running {
                service: service.clone(),
                definition: Some(Box::new(definition.clone())),
                software,
                units: Vec::new(),
                sites: BTreeMap::new(),
                every: *every,
                due: Some(window.start()),
                window,
                missed: Missed::default(),
                units_end: 0,
            }
        });
        Self { services: running.collect(), slices: BTreeMap::new() }
    }

    /// When one of them has something to say.
    pub(crate) fn next(&self) -> Option<Time> {
        self.services.iter().filter_map(Running::next).min()
    }

    /// What they say at an instant.
    pub(crate) fn due(&mut self, now: Time) -> Vec<Input> {
        self.services.iter_mut().flat_map(|service| service.say(now)).collect()
    }

    /// Learns of a fact of the service manager, which is so by now.
    pub(crate) fn observe(&mut self, entry: &Entry, actor: &AnyActor) {
        if self.services.is_empty() {
            return;
        }
        let Fact::ServiceManager(fact) = &entry.fact else { return };
        if let GuestFact::Asked(asked) = fact {
            self.slices.insert(asked.request.id.number, asked.slice.clone());
        } else if let GuestFact::Granted(granted) = fact {
            self.granted(granted);
        } else if let GuestFact::SloAssessed(slo) = fact {
            let missed = slo.met == tenure_core::service::slo::Met::No;
            for service in self.services.iter_mut().filter(|of| of.service == slo.service) {
                service.missed.judged(entry.at, &slo.slo, missed);
            }
        } else if let GuestFact::Joined(joined) = fact {
            if joined.error.is_none() {
                self.joined(entry.at, (joined.lease, joined.unit));
            }
        } else if let (GuestFact::Shrunk(shrunk), AnyActor::ServiceManager(guest)) = (fact, actor) {
            self.shrunk(entry.at, shrunk.lease, guest);
        } else if let Some((lease, gone)) = gone(fact) {
            self.left(entry.at, lease, &gone);
        }
    }

    /// The leases of a request are numbered as its tickets.
    fn granted(&mut self, granted: &Granted) {
        let number = granted.number;
        for (part, (_, ticket)) in (0..).zip(&granted.tickets) {
            let id = LeaseId { number, part };
            if let Some(service) = self.with(id) {
                service.sites.insert(id, ticket.site());
            }
        }
    }

    fn joined(&mut self, at: Time, unit: Unit) {
        if let Some(service) = self.with(unit.0) {
            service.units.push(unit);
            service.changed(at);
        }
    }

    /// A lease goes on with fewer units: without those that the guest does not use any more.
    fn shrunk(&mut self, at: Time, lease: LeaseId, guest: &ServiceManager) {
        let Some(service) = self.with(lease) else { return };
        let joined = guest.joined_units().filter(|joined| joined.lease == lease);
        let kept: BTreeSet<UnitId> = joined.map(|joined| joined.unit).collect();
        let own = service.units.iter().filter(|(of, _)| *of == lease).map(|(_, unit)| *unit);
        let gone = own.filter(|unit| !kept.contains(unit)).collect();
        self.left(at, lease, &Gone::These(gone));
    }

    /// Units of a lease are gone: those of a list, or all.
    fn left(&mut self, at: Time, lease: LeaseId, gone: &Gone) {
        let Some(service) = self.with(lease) else { return };
        let is_gone = |unit: &Unit| {
            unit.0 == lease
                && match gone {
                    Gone::All => true,
                    Gone::These(units) => units.contains(&unit.1),
                }
        };
        let (lost, kept) = std::mem::take(&mut service.units).into_iter().partition(is_gone);
        service.units = kept;
        let lost: Vec<Unit> = lost;
        for unit in &lost {
            service.software.lose(at, *unit);
        }
        if !lost.is_empty() {
            service.changed(at);
        }
    }

    fn with(&mut self, lease: LeaseId) -> Option<&mut Running> {
        let slice = self.slices.get(&lease.number)?;
        self.services.iter_mut().find(|service| service.service == *slice)
    }

    /// What became of each service up to the end of the window, or up to now.
    pub(crate) fn report(&self, manager: &Name, now: Time) -> Vec<ServiceReport> {
        self.services.iter().map(|service| service.report(manager, now)).collect()
    }
}

/// Units that are gone.
enum Gone {
    All,
    These(Vec<UnitId>),
}

/// The units of a lease that are gone by a fact.
fn gone(fact: &GuestFact) -> Option<(LeaseId, Gone)> {
    if let GuestFact::Left(fact) = fact {
        return Some((fact.lease, Gone::These(vec![fact.unit])));
    }
    if let GuestFact::UnitsRecalled(fact) = fact {
        return Some((fact.lease, Gone::These(fact.units.clone())));
    }
    let lease = match fact.lease_event() {
        Some((lease, event))
            if matches!(event.word(), "CloseBegun" | "SiteClosed" | "TermOver") =>
        {
            lease
        }
        Some(_) | None => return None,
    };
    Some((lease, Gone::All))
}

impl Running {
    /// Nothing is measured after the window.
    fn next(&self) -> Option<Time> {
        let next = [self.due, self.software.next()].into_iter().flatten().min();
        next.filter(|next| *next < self.window.end())
    }

    /// Something has changed: it is measured now.
    fn changed(&mut self, at: Time) {
        self.due = Some(self.due.map_or(at, |due| due.min(at)));
        if at <= self.window.end() {
            self.units_end = self.units.len();
        }
    }

    fn say(&mut self, now: Time) -> Vec<Input> {
        if self.next().is_none_or(|next| now < next) {
            return Vec::new();
        }
        self.software.advance(now, &self.units);
        self.due = Some(now.plus(self.every));
        let service = self.service.clone();
        let defined = self
            .definition
            .take()
            .map(|definition| ServiceCommand::Define { service: service.clone(), definition });
        let mut kpis = Kpis::default();
        let units = u32::try_from(self.units.len()).unwrap_or(u32::MAX);
        for (kpi, value) in self.software.measure(now, units) {
            if let Ok(kpi) = kpi.parse() {
                kpis.insert(kpi, value);
            }
        }
        let (seen, busy) = (Found::Running, self.software.busy());
        let busy = busy.iter().filter_map(|unit| Some((*self.sites.get(&unit.0)?, unit.1)));
        // How much would be lost of them is not said.
        let busy = busy.map(|unit| (unit, 0)).collect();
        let members = Members::default();
        let report = ServiceCommand::Report { service, kpis, seen, busy, members };
        let commands = defined.into_iter().chain([report]);
        commands.map(|command| Input::Command(Command::Service(command).into())).collect()
    }

    fn report(&self, manager: &Name, now: Time) -> ServiceReport {
        let end = now.min(self.window.end());
        let mut report = ServiceReport {
            name: format!("{manager}/{}", self.service),
            units_end: self.units_end,
            out_of_slo_s: self.missed.until(end).as_secs_f64(),
            ..ServiceReport::default()
        };
        self.software.fill(end, &mut report);
        report
    }
}
