//! The services of a guest: what is measured of them, whether their SLOs are met, and what they want.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::advice::Advice;
use super::ambiguity::Claimant;
use super::facts::{
    ServiceDefined, ServiceRemoved, ServiceReported, ServiceStale, SloAssessed, WorkTold,
};
use super::members::Member;
use super::request::Request;
use super::view::Stage;
use super::{Lease, Output, ServiceManager, Timer};
use crate::actor::Emit as _;
use crate::actor::fact::BadFact;
use crate::driver::UnitId;
use crate::model::identity::ActorId;
use crate::model::name::Name;
use crate::model::slice::{LeaseId, SliceName};
use crate::model::time::{Span, Time};
use crate::mutants::mutant;
use crate::service::definition::{Behaviour, Definition};
use crate::service::kpi::Kpis;
use crate::service::member::{MemberId, Members};
use crate::service::slo::{Assessment, Slo};
use crate::service::state::State;
use crate::service::steps::{Kind, Steps, demands};
use crate::ticket::Ticket;
use crate::wire::need::SERVICE;
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
        /// Which of its units are at work, as far as that is known, and how much would be lost of each.
        busy: BTreeMap<SiteUnit, u64>,
        /// All that takes part in it without a lease, as far as its software says. They count if it runs; else they
        /// are as they were.
        members: Members,
    },
    /// Say whose a unit is that several claim.
    Resolve {
        /// What it is called.
        member: MemberId,
        /// Whose it is.
        keep: Claimant,
    },
    /// Say that a host which another guest claims is that one's.
    Cede {
        /// What it is called.
        member: MemberId,
    },
    /// Have a unit not asked for again, or asked for again.
    Blacklist {
        /// The service.
        service: SliceName,
        /// The unit.
        unit: SiteUnit,
        /// Until when; from now on it may be asked for if there is no such instant.
        until: Option<Time>,
    },
}

/// A unit, by its site and its number there.
pub type SiteUnit = (ActorId, UnitId);

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
    /// It was told to start, and does not run yet.
    Starting,
    /// It was told to stop, and has not stopped yet.
    Shutdown,
}

impl From<Found> for State {
    fn from(found: Found) -> Self {
        match found {
            Found::Running => Self::Running,
            Found::Stopped => Self::Stopped,
            Found::Failed => Self::Error,
            Found::Starting => Self::Starting,
            Found::Shutdown => Self::Shutdown,
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
    pub(super) definition: Definition,
    state: State,
    kpis: Kpis,
    /// When they were measured, as long as they count.
    reported_at: Option<Time>,
    /// Which of its units were at work then, and how much would have been lost of each.
    busy: BTreeMap<SiteUnit, u64>,
    assessed: BTreeMap<Name, Assessed>,
    /// What would be done for it if it were managed.
    pub(super) advice: Advice,
    /// Units that are not asked for, and until when.
    pub(super) blacklisted: BTreeMap<SiteUnit, Time>,
    /// What takes part in it without a lease.
    pub(super) members: BTreeMap<MemberId, Member>,
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
    /// Units that are not to be asked for, and until when.
    pub blacklisted: BTreeMap<SiteUnit, Time>,
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
    /// How many of them cannot be given back: those without a lease, and those with a unit on theirs that several claim.
    pub fixed: u32,
    /// How many units are asked for.
    pub asked: u32,
    /// The last request that asks for them.
    pub request: Option<OpenRequest>,
    /// Its leases that are not over.
    pub leases: Vec<LeaseId>,
    /// How much would be lost of each unit at work of each of them, the least first, if some are.
    pub busy: BTreeMap<LeaseId, Vec<u64>>,
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

    /// Whether what was measured says something new: a value that has changed by more than the deadband, or by which
    /// an SLO is judged otherwise.
    fn is_news(&self, kpis: &Kpis) -> bool {
        let moved = !self.kpis.is_close(kpis, self.definition.behaviour.deadband);
        let judged = |slo: &Slo| slo.assess(&self.kpis) != slo.assess(kpis);
        moved || self.kpis != *kpis && self.definition.slo.values().any(judged)
    }

    /// How much would be lost of each unit of a lease that was at work when that was last measured, the least first.
    fn at_work(&self, lease: &Lease) -> Vec<u64> {
        let held = lease.state.held().filter(|_| !self.busy.is_empty());
        let (Some(held), Some(site)) = (held, lease.site()) else { return Vec::new() };
        let busy = held.units.keys().filter_map(|unit| self.busy.get(&(site, *unit)));
        let mut work: Vec<u64> = busy.copied().collect();
        work.sort_unstable();
        work
    }

    /// The demands, by kind.
    fn demands(&self) -> BTreeMap<Kind, Steps> {
        let slos = self.definition.slo.iter().filter_map(|(name, slo)| {
            let assessed = self.assessed.get(name)?;
            Some((slo, &assessed.assessment, assessed.last_want))
        });
        // A definition with another one is refused.
        let map = self.definition.label_map().unwrap_or_default();
        demands(slos, (&map, &self.kpis))
    }
}

impl Lease {
    /// The units that are not on their way back.
    pub(super) fn staying(&self) -> u32 {
        let returning = self.state.held().map_or(0, |held| held.change.units());
        self.units.saturating_sub(returning)
    }

    /// Where its units are.
    pub(super) fn site(&self) -> Option<ActorId> {
        self.state.tickets().first().map(Ticket::site)
    }
}

impl Services {
    /// Whether there is none.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether something takes part in one without a lease.
    pub(super) fn has_members(&self) -> bool {
        self.0.values().any(|record| !record.members.is_empty())
    }

    /// Their names.
    pub(super) fn names(&self) -> impl Iterator<Item = &SliceName> {
        self.0.keys()
    }

    /// Whether there is one of that name.
    pub(super) fn has(&self, service: &SliceName) -> bool {
        self.0.contains_key(service)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&SliceName, &Record)> {
        self.0.iter()
    }

    pub(super) fn get(&self, service: &SliceName) -> Option<&Record> {
        self.0.get(service)
    }

    pub(super) fn get_mut(&mut self, service: &SliceName) -> Option<&mut Record> {
        self.0.get_mut(service)
    }

    /// How much would be lost of a unit of a service, if it was at work when that was last measured.
    pub(super) fn work_of(&self, service: &SliceName, unit: &SiteUnit) -> Option<u64> {
        self.0.get(service)?.busy.get(unit).copied()
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
            ServiceCommand::Report { service, kpis, seen, busy, members } => {
                let units = busy.keys().copied().collect();
                let report = ServiceReported { service: service.clone(), kpis, seen, busy: units };
                // What is the same of all sets none before another.
                let differs = busy.values().min() != busy.values().max();
                if self.report_service(now, report, out)? && differs {
                    let work = busy.into_iter().filter(|(_, work)| *work > 0).collect();
                    self.emit(now, WorkTold { service: service.clone(), work }, out);
                }
                if seen == Found::Running {
                    self.tell_members(now, service, members, out);
                }
                Ok(())
            }
            ServiceCommand::Resolve { member, keep } => {
                self.settle_ambiguity(now, (member, keep), out)
            }
            ServiceCommand::Cede { member } => self.cede(now, member, out),
            ServiceCommand::Blacklist { service, unit, until } => {
                self.blacklist_unit(now, service, (unit, until), out)
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
        if matches!(state, State::Running | State::Starting) {
            let state = state.word();
            return Err(format!(
                "service {service} is {state}: it can be removed once it is stopped"
            ));
        }
        self.emit(now, ServiceRemoved { service }, out);
        Ok(())
    }

    /// What changes nothing is journaled only now and then, so that what was measured goes on to count. Says whether
    /// it was.
    fn report_service(
        &mut self,
        now: Time,
        report: ServiceReported,
        out: &mut Output,
    ) -> Result<bool, String> {
        let ServiceReported { service, kpis, seen, .. } = &report;
        if kpis.count() > Kpis::MAX_COUNT {
            let (count, most) = (kpis.count(), Kpis::MAX_COUNT);
            return Err(format!("a service has {most} KPIs at most, not {count}"));
        }
        let record = self.record(service)?;
        let half = Span::from_micros(record.definition.behaviour.stale_after.as_micros() / 2);
        let recent = record.reported_at.is_some_and(|at| now < at.plus(half));
        if recent && record.state == (*seen).into() && !record.is_news(kpis) {
            return Ok(false);
        }
        let service = service.clone();
        self.emit(now, report, out);
        self.assess(now, &service, out);
        Ok(true)
    }

    pub(super) fn record(&self, service: &SliceName) -> Result<&Record, String> {
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
                record.advice = Advice::default();
            }
            None => {
                let record = Record {
                    definition: definition.clone(),
                    state: State::default(),
                    kpis: Kpis::default(),
                    reported_at: None,
                    busy: BTreeMap::new(),
                    assessed: BTreeMap::new(),
                    advice: Advice::default(),
                    blacklisted: BTreeMap::new(),
                    members: BTreeMap::new(),
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
        let mapped = record.definition.label_map().is_ok_and(|map| !map.is_empty());
        let of_other_kinds = mapped && record.kpis != fact.kpis;
        record.state = fact.seen.into();
        record.kpis = fact.kpis.clone();
        record.busy = fact.busy.iter().map(|unit| (*unit, 0)).collect();
        record.reported_at = Some(at);
        if record.state == before && !of_other_kinds {
            self.set_stale_timer();
        } else {
            self.services_changed();
        }
        Ok(())
    }

    pub(super) fn work_told(&mut self, fact: &WorkTold) -> Result<(), BadFact> {
        let record = self.record_mut(&fact.service)?;
        for (unit, work) in &fact.work {
            record.busy.entry(*unit).and_modify(|known| *known = *work);
        }
        Ok(())
    }

    pub(super) fn service_stale(&mut self, fact: &ServiceStale) -> Result<(), BadFact> {
        let record = self.record_mut(&fact.service)?;
        if !mutant!(StaleStillRuns) {
            record.state = State::Unknown;
        }
        record.kpis = Kpis::default();
        record.busy = BTreeMap::new();
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

    pub(super) fn record_mut(&mut self, service: &SliceName) -> Result<&mut Record, BadFact> {
        let record = self.state.services.0.get_mut(service);
        record.ok_or_else(|| BadFact::Missing { kind: "service", what: service.to_string() })
    }

    fn set_stale_timer(&mut self) {
        self.state.timers.set(Timer::Services, self.state.services.next_stale());
    }

    /// The mapper is to look at them.
    pub(super) fn services_changed(&mut self) {
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
                    let kind = kind.unwrap_or_else(|| plain(&lease.resource));
                    let ambiguous = self.ambiguous_of(id).len();
                    demands.hold(kind, id, (lease, record.at_work(lease), ambiguous));
                }
            } else if let Some(request) = self.state.requests.get(&id.number)
                // A user who asks for units by name gets them beside what the service claims.
                && (is_of_service(&request.wanted) || !names_units(&request.wanted.items))
            {
                let revisions = request.wanted.history.revision;
                let open = OpenRequest { number: id.number, revisions };
                request.wanted.preferred().for_each(|item| demands.ask(item, open));
            }
        }
        demands.hold_static(self.static_units(service, record));
        Some(ServiceView {
            service: service.clone(),
            state: record.state,
            behaviour: record.definition.behaviour.clone(),
            demands: demands.0.into_values().collect(),
            blacklisted: record.blacklisted.clone(),
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
        let Record { definition, state, kpis, reported_at, assessed, advice, .. } = record;
        Some(ServiceSurvey {
            service,
            definition,
            state: *state,
            kpis,
            reported_at: *reported_at,
            assessed,
            advice,
            blacklisted: &record.blacklisted,
            members: &record.members,
        })
    }

    /// The kind of units that a lease was asked for as.
    fn kind_of(&self, lease: LeaseId, item: u16) -> Option<Kind> {
        let request: &Request = self.state.requests.get(&lease.number)?;
        request.wanted.items.get(usize::from(item)).map(Item::kind)
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
    /// What would be done for it, if it is only advised on.
    pub advice: &'a Advice,
    /// Units that are not asked for, and until when.
    pub blacklisted: &'a BTreeMap<SiteUnit, Time>,
    /// What takes part in it without a lease.
    pub members: &'a BTreeMap<MemberId, Member>,
}

impl Demand {
    fn new(kind: Kind, steps: Steps) -> Self {
        let (leases, busy) = (Vec::new(), BTreeMap::new());
        Self { kind, steps, held: 0, fixed: 0, asked: 0, request: None, leases, busy }
    }
}

/// The demands of a service, by kind.
struct Demands(BTreeMap<Kind, Demand>);

impl Demands {
    fn of(record: &Record) -> Self {
        let demands = record.demands().into_iter();
        Self(demands.map(|(kind, steps)| (kind.clone(), Demand::new(kind, steps))).collect())
    }

    /// Counts the units of a lease, and those of them that are at work.
    /// Units that several claim do not count, and a lease with such units stays as it is.
    fn hold(
        &mut self,
        kind: Kind,
        id: LeaseId,
        (lease, busy, ambiguous): (&Lease, Vec<u64>, usize),
    ) {
        let demand = self.of_kind(kind);
        let ambiguous = u32::try_from(ambiguous).unwrap_or(u32::MAX);
        let own = lease.staying().saturating_sub(ambiguous);
        demand.held = demand.held.saturating_add(own);
        if ambiguous > 0 {
            demand.fixed = demand.fixed.saturating_add(own);
            return;
        }
        demand.leases.push(id);
        if !busy.is_empty() {
            demand.busy.insert(id, busy);
        }
    }

    /// Counts units without a lease.
    fn hold_static(&mut self, units: Option<(Kind, u32)>) {
        let Some((kind, units)) = units else { return };
        let demand = self.of_kind(kind);
        demand.held = demand.held.saturating_add(units);
        demand.fixed = demand.fixed.saturating_add(units);
    }

    /// Counts units that are asked for.
    fn ask(&mut self, item: &Item, request: OpenRequest) {
        let demand = self.of_kind(item.kind());
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

/// Whether the mapper has asked, for what a service claims.
fn is_of_service(request: &crate::wire::request::Request) -> bool {
    request.properties.get(SERVICE).is_some()
}

fn names_units(items: &[Item]) -> bool {
    items.iter().any(|item| item.requirements.of_units().next().is_some())
}

/// Whether units of a lease are there or on their way.
fn is_there(stage: Stage) -> bool {
    match stage {
        Stage::Ticketed | Stage::Redeeming | Stage::Joining | Stage::Active => true,
        Stage::Leaving | Stage::Closing | Stage::Crediting | Stage::Closed => false,
    }
}

pub(super) fn plain(resource: &Name) -> Kind {
    Kind { resource: resource.clone(), requirement: None }
}
