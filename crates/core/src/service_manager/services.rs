//! The services of a guest: what is measured of them, whether their SLOs are met, and what they want.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::facts::{ServiceDefined, ServiceRemoved, ServiceReported, ServiceStale, SloAssessed};
use super::request::Request;
use super::view::Stage;
use super::{Lease, Output, ServiceManager, Timer};
use crate::actor::Emit as _;
use crate::actor::fact::BadFact;
use crate::model::name::Name;
use crate::model::slice::{LeaseId, SliceName};
use crate::model::time::{Span, Time};
use crate::service::definition::{Behaviour, Definition};
use crate::service::kpi::Kpis;
use crate::service::slo::Assessment;
use crate::service::state::State;
use crate::service::steps::{Kind, Steps, demands};
use crate::wire::offer::Waiting;
use crate::wire::request::Item;

/// The most services of a guest.
pub const MAX_SERVICES: usize = 1000;

/// A command about a service.
#[derive(Clone, Debug, PartialEq)]
pub enum ServiceCommand {
    /// Add a service, or change what it is to reach. Its units are the leases of the slice of its name.
    Define {
        /// The service.
        service: SliceName,
        /// What it is.
        definition: Box<Definition>,
    },
    /// Forget a service that does not run. Its leases stay.
    Remove {
        /// The service.
        service: SliceName,
    },
    /// State what was measured.
    Report {
        /// The service.
        service: SliceName,
        /// All KPIs.
        kpis: Kpis,
        /// How it was found.
        seen: Found,
    },
}

/// How a service was found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Found {
    /// It runs.
    #[default]
    Running,
    /// It is stopped.
    Stopped,
    /// It does not do what it should.
    Failed,
}

impl From<Found> for State {
    fn from(found: Found) -> Self {
        match found {
            Found::Running => Self::Running,
            Found::Stopped => Self::Stopped,
            Found::Failed => Self::Error,
        }
    }
}

/// An SLO, as it was judged last.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Assessed {
    /// What it comes to.
    pub assessment: Assessment,
    /// How many units it wanted last when that was known.
    pub last_want: Option<u32>,
    /// Since when it has been met, or not, or unknown.
    pub since: Time,
}

/// What is remembered of a service.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Record {
    definition: Definition,
    state: State,
    kpis: Kpis,
    /// When they were measured, as long as they count.
    reported_at: Option<Time>,
    assessed: BTreeMap<Name, Assessed>,
}

/// All services of a guest.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Services(BTreeMap<SliceName, Record>);

/// A service as it is shown to users and mappers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ServiceView {
    /// The service, and the slice of its leases.
    pub service: SliceName,
    /// Where it is in its life.
    pub state: State,
    /// How it is dealt with.
    pub behaviour: Behaviour,
    /// What it wants and has, by kind of units.
    pub demands: Vec<Demand>,
}

/// What a service wants and has of a kind of units.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Demand {
    /// The kind.
    pub kind: Kind,
    /// What they are worth, one after the other.
    pub steps: Steps,
    /// How many units it has, those on the way among them; not those that go back.
    pub held: u32,
    /// How many units are asked for.
    pub asked: u32,
    /// The last request that asks for them.
    pub request: Option<OpenRequest>,
    /// Its leases that are not over.
    pub leases: Vec<LeaseId>,
}

/// A request that waits for its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenRequest {
    /// Its number.
    pub number: u64,
    /// How often it was revised.
    pub revisions: u32,
}

impl Record {
    /// When what was measured does not count any more.
    fn stale_at(&self) -> Option<Time> {
        Some(self.reported_at?.plus(self.definition.behaviour.stale_after))
    }

    /// The demands, by kind.
    fn demands(&self) -> BTreeMap<Kind, Steps> {
        let slos = self.definition.slo.iter().filter_map(|(name, slo)| {
            let assessed = self.assessed.get(name)?;
            Some((slo, &assessed.assessment, assessed.last_want))
        });
        demands(slos)
    }
}

impl Lease {
    /// The units that are not on their way back.
    pub(super) fn staying(&self) -> u32 {
        let returning = self.state.held().map_or(0, |held| held.change.units());
        self.units.saturating_sub(returning)
    }
}

impl Services {
    /// Whether there is none.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Their names.
    pub(super) fn names(&self) -> impl Iterator<Item = &SliceName> {
        self.0.keys()
    }

    /// Whether there is one of that name.
    pub(super) fn has(&self, service: &SliceName) -> bool {
        self.0.contains_key(service)
    }

    fn next_stale(&self) -> Option<Time> {
        self.0.values().filter_map(Record::stale_at).min()
    }
}

impl ServiceManager {
    pub(super) fn service_command(
        &mut self,
        now: Time,
        command: ServiceCommand,
        out: &mut Output,
    ) -> Result<(), String> {
        match command {
            ServiceCommand::Define { service, definition } => {
                self.define_service(now, service, *definition, out)
            }
            ServiceCommand::Remove { service } => self.remove_service(now, service, out),
            ServiceCommand::Report { service, kpis, seen } => {
                self.report_service(now, service, (kpis, seen), out)
            }
        }
    }

    fn define_service(
        &mut self,
        now: Time,
        service: SliceName,
        definition: Definition,
        out: &mut Output,
    ) -> Result<(), String> {
        definition.check().map_err(|cause| cause.to_string())?;
        let services = &self.state.services.0;
        let known = services.get(&service);
        if known.is_none() && services.len() >= MAX_SERVICES {
            return Err(format!("there are {MAX_SERVICES} services already, and no more are kept"));
        }
        if known.is_none_or(|known| known.definition != definition) {
            self.emit(now, ServiceDefined { service: service.clone(), definition }, out);
            self.assess(now, &service, out);
        }
        Ok(())
    }

    fn remove_service(
        &mut self,
        now: Time,
        service: SliceName,
        out: &mut Output,
    ) -> Result<(), String> {
        let state = self.record(&service)?.state;
        if state == State::Running {
            return Err(format!(
                "service {service} is running: it can be removed once it is stopped"
            ));
        }
        self.emit(now, ServiceRemoved { service }, out);
        Ok(())
    }

    /// What changes nothing is journaled only now and then, so that what was measured goes on to count.
    fn report_service(
        &mut self,
        now: Time,
        service: SliceName,
        (kpis, seen): (Kpis, Found),
        out: &mut Output,
    ) -> Result<(), String> {
        if kpis.count() > Kpis::MAX_COUNT {
            let (count, most) = (kpis.count(), Kpis::MAX_COUNT);
            return Err(format!("a service has {most} KPIs at most, not {count}"));
        }
        let record = self.record(&service)?;
        let half = Span::from_micros(record.definition.behaviour.stale_after.as_micros() / 2);
        let recent = record.reported_at.is_some_and(|at| now < at.plus(half));
        if recent && record.state == seen.into() && kpis == record.kpis {
            return Ok(());
        }
        self.emit(now, ServiceReported { service: service.clone(), kpis, seen }, out);
        self.assess(now, &service, out);
        Ok(())
    }

    fn record(&self, service: &SliceName) -> Result<&Record, String> {
        let record = self.state.services.0.get(service);
        record.ok_or_else(|| format!("there is no service `{service}`: add it first"))
    }

    /// Judges the SLOs of a service by what was measured.
    fn assess(&mut self, now: Time, service: &SliceName, out: &mut Output) {
        let Some(record) = self.state.services.0.get(service) else { return };
        let judged =
            record.definition.slo.iter().map(|(name, slo)| (name, slo.assess(&record.kpis)));
        let changed = judged.filter(|(name, assessment)| {
            record.assessed.get(*name).is_none_or(|before| before.assessment != *assessment)
        });
        let changed: Vec<_> =
            changed.map(|(name, assessment)| (name.clone(), assessment)).collect();
        for (slo, Assessment { met, want }) in changed {
            self.emit(now, SloAssessed { service: service.clone(), slo, met, want }, out);
        }
    }

    /// What was measured of some services is too old.
    pub(super) fn services_due(&mut self, now: Time, out: &mut Output) {
        let stale = self.state.services.0.iter();
        let stale = stale.filter(|(_, record)| record.stale_at().is_some_and(|at| at <= now));
        let stale: Vec<SliceName> = stale.map(|(service, _)| service.clone()).collect();
        for service in stale {
            self.emit(now, ServiceStale { service: service.clone() }, out);
            self.assess(now, &service, out);
        }
    }

    pub(super) fn service_defined(&mut self, fact: &ServiceDefined) {
        let ServiceDefined { service, definition } = fact;
        let services = &mut self.state.services.0;
        match services.get_mut(service) {
            Some(record) => {
                record.assessed.retain(|name, _| definition.slo.contains_key(name));
                record.definition = definition.clone();
            }
            None => {
                let record = Record {
                    definition: definition.clone(),
                    state: State::default(),
                    kpis: Kpis::default(),
                    reported_at: None,
                    assessed: BTreeMap::new(),
                };
                services.insert(service.clone(), record);
                self.tended.insert(service.clone(), BTreeSet::new());
                for id in self.live.clone() {
                    self.tend(id);
                }
            }
        }
        self.services_changed();
    }

    pub(super) fn service_removed(&mut self, fact: &ServiceRemoved) {
        self.state.services.0.remove(&fact.service);
        self.tended.remove(&fact.service);
        self.services_changed();
    }

    pub(super) fn service_reported(
        &mut self,
        at: Time,
        fact: &ServiceReported,
    ) -> Result<(), BadFact> {
        let record = self.record_mut(&fact.service)?;
        let before = record.state;
        record.state = fact.seen.into();
        record.kpis = fact.kpis.clone();
        record.reported_at = Some(at);
        if record.state == before {
            self.set_stale_timer();
        } else {
            self.services_changed();
        }
        Ok(())
    }

    pub(super) fn service_stale(&mut self, fact: &ServiceStale) -> Result<(), BadFact> {
        let record = self.record_mut(&fact.service)?;
        record.state = State::Unknown;
        record.kpis = Kpis::default();
        record.reported_at = None;
        self.services_changed();
        Ok(())
    }

    pub(super) fn slo_assessed(&mut self, at: Time, fact: &SloAssessed) -> Result<(), BadFact> {
        let record = self.record_mut(&fact.service)?;
        let before = record.assessed.get(&fact.slo);
        let same = before.filter(|before| before.assessment.met == fact.met);
        let assessed = Assessed {
            assessment: Assessment { met: fact.met, want: fact.want },
            last_want: fact.want.or(before.and_then(|before| before.last_want)),
            since: same.map_or(at, |same| same.since),
        };
        record.assessed.insert(fact.slo.clone(), assessed);
        self.services_changed();
        Ok(())
    }

    fn record_mut(&mut self, service: &SliceName) -> Result<&mut Record, BadFact> {
        let record = self.state.services.0.get_mut(service);
        record.ok_or_else(|| BadFact::Missing { kind: "service", what: service.to_string() })
    }

    fn set_stale_timer(&mut self) {
        self.state.timers.set(Timer::Services, self.state.services.next_stale());
    }

    /// The mapper is to look at them.
    fn services_changed(&mut self) {
        self.set_stale_timer();
        self.state.rounds.call();
    }

    /// The services, by name, with what they want and have.
    pub fn services(&self) -> Vec<ServiceView> {
        self.state.services.names().filter_map(|service| self.service_view(service)).collect()
    }

    /// What a service wants and has. It takes one pass over its leases and open requests.
    pub(super) fn service_view(&self, service: &SliceName) -> Option<ServiceView> {
        let record = self.state.services.0.get(service)?;
        let mut demands = Demands::of(record);
        for &id in self.tended.get(service).into_iter().flatten() {
            if let Some(lease) = self.state.leases.get(&id) {
                if is_there(Stage::of(&lease.state)) {
                    let kind = self.kind_of(id, lease.sequence.item);
                    demands.hold(kind.unwrap_or_else(|| plain(&lease.resource)), id, lease);
                }
            } else if let Some(request) = self.state.requests.get(&id.number) {
                let revisions = request.wanted.history.revision;
                let open = OpenRequest { number: id.number, revisions };
                request.wanted.preferred().for_each(|item| demands.ask(item, open));
            }
        }
        Some(ServiceView {
            service: service.clone(),
            state: record.state,
            behaviour: record.definition.behaviour.clone(),
            demands: demands.0.into_values().collect(),
        })
    }

    /// A lease, or a request without one, that is not over.
    pub(super) fn comes_live(&mut self, id: LeaseId) {
        self.live.insert(id);
        self.tend(id);
    }

    /// It is over.
    pub(super) fn no_longer_live(&mut self, id: LeaseId) {
        self.live.remove(&id);
        let slice = self.slice_of(id).cloned();
        if let Some(tended) = slice.and_then(|slice| self.tended.get_mut(&slice)) {
            tended.remove(&id);
        }
    }

    /// Lists a lease, or a request without one, if it is of a service.
    pub(super) fn tend(&mut self, id: LeaseId) {
        let slice = self.slice_of(id).cloned();
        if let Some(tended) = slice.and_then(|slice| self.tended.get_mut(&slice)) {
            tended.insert(id);
        }
    }

    fn slice_of(&self, id: LeaseId) -> Option<&SliceName> {
        let lease = self.state.leases.get(&id).map(|lease| &lease.slice);
        lease.or_else(|| Some(&self.state.requests.get(&id.number)?.slice))
    }

    /// Where a request of a service stands at its broker, as that said last.
    pub fn stands(&self, request: OpenRequest) -> Option<&Waiting> {
        let request = self.state.requests.get(&request.number)?;
        request.waiting.as_ref().map(|(waiting, _)| waiting)
    }

    /// What was measured of a service, and how its SLOs were judged.
    pub fn service(&self, service: &SliceName) -> Option<ServiceSurvey<'_>> {
        let (service, record) = self.state.services.0.get_key_value(service)?;
        let Record { definition, state, kpis, reported_at, assessed } = record;
        Some(ServiceSurvey {
            service,
            definition,
            state: *state,
            kpis,
            reported_at: *reported_at,
            assessed,
        })
    }

    /// The kind of units that a lease was asked for as.
    fn kind_of(&self, lease: LeaseId, item: u16) -> Option<Kind> {
        let request: &Request = self.state.requests.get(&lease.number)?;
        Some(kind_of(request.wanted.items.get(usize::from(item))?))
    }
}

/// A service with what was measured of it.
#[derive(Clone, Debug)]
pub struct ServiceSurvey<'a> {
    /// Its name.
    pub service: &'a SliceName,
    /// What it is to reach.
    pub definition: &'a Definition,
    /// Where it is in its life.
    pub state: State,
    /// What was measured.
    pub kpis: &'a Kpis,
    /// When; none if nothing was, or too long ago.
    pub reported_at: Option<Time>,
    /// How its SLOs were judged, by name.
    pub assessed: &'a BTreeMap<Name, Assessed>,
}

impl Demand {
    fn new(kind: Kind, steps: Steps) -> Self {
        Self { kind, steps, held: 0, asked: 0, request: None, leases: Vec::new() }
    }
}

/// The demands of a service, by kind.
struct Demands(BTreeMap<Kind, Demand>);

impl Demands {
    fn of(record: &Record) -> Self {
        let demands = record.demands().into_iter();
        Self(demands.map(|(kind, steps)| (kind.clone(), Demand::new(kind, steps))).collect())
    }

    /// Counts the units of a lease.
    fn hold(&mut self, kind: Kind, id: LeaseId, lease: &Lease) {
        let demand = self.of_kind(kind);
        demand.held = demand.held.saturating_add(lease.staying());
        demand.leases.push(id);
    }

    /// Counts units that are asked for.
    fn ask(&mut self, item: &Item, request: OpenRequest) {
        let demand = self.of_kind(kind_of(item));
        demand.request = Some(request);
        demand.asked = demand.asked.saturating_add(item.units.get());
    }

    /// The demand that units of a kind count for: that kind's, else the first of the same type, else one for nothing.
    fn of_kind(&mut self, kind: Kind) -> &mut Demand {
        let of_type = || self.0.keys().find(|other| other.resource == kind.resource).cloned();
        let kind = if self.0.contains_key(&kind) { kind } else { of_type().unwrap_or(kind) };
        self.0.entry(kind.clone()).or_insert_with(|| Demand::new(kind, Steps::default()))
    }
}

/// Whether units of a lease are there or on their way.
fn is_there(stage: Stage) -> bool {
    match stage {
        Stage::Ticketed | Stage::Redeeming | Stage::Joining | Stage::Active => true,
        Stage::Leaving | Stage::Closing | Stage::Crediting | Stage::Closed => false,
    }
}

fn plain(resource: &Name) -> Kind {
    Kind { resource: resource.clone(), requirement: None }
}

/// The kind of units that an item is for. What the mapper asks for has one condition at most.
fn kind_of(item: &Item) -> Kind {
    let requirement = item.requirements.iter().next().cloned();
    Kind { resource: item.resource.clone(), requirement }
}
