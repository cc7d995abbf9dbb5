//! What a service manager shows its mapper.

use std::sync::Arc;

use imbl::{OrdMap, OrdSet};
use serde::{Deserialize, Serialize};

use super::machine;
use super::plan::{NodeView, PlanLease, Proposal};
use super::sequence::Gate;
use super::services::ServiceView;
use super::state::State;
use super::{Lease, ServiceManager};
use crate::actor::fact::Memo;
use crate::actor::{Actor, Role};
use crate::driver::UnitId;
use crate::model::calendar::Calendar;
use crate::model::identity::ActorId;
use crate::model::name::Name;
use crate::model::property::Properties;
use crate::model::slice::{LeaseId, SliceName};
use crate::model::time::{Span, Term, Time};

/// A service manager at one instant, as owned data: it can be kept, sent to another thread, or serialised
/// for another process. It shares structure with its actor, so taking and cloning one costs the same
/// however many leases there are.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(from = "Plain", into = "Plain")]
pub struct View {
    now: Time,
    round: u64,
    memo: Arc<Memo>,
    signals: OrdMap<Name, i64>,
    holdings: OrdMap<Name, Calendar>,
    brokers: Vec<(Name, ActorId)>,
    ending: OrdSet<(Time, LeaseId)>,
    index: Index,
    gates: Vec<GateView>,
    proposals: Vec<Proposal>,
    nodes: Vec<NodeView>,
    plan_leases: Vec<PlanLease>,
    services: Vec<ServiceView>,
}

/// What views show that is not kept for another purpose. It follows from the state.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Index {
    leases: OrdMap<LeaseId, LeaseView>,
}

/// Where a lease is in its life, as far as a mapper has to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stage {
    /// Its ticket is kept, and not redeemed yet.
    Ticketed,
    /// Its ticket is on the way to the site.
    Redeeming,
    /// The guest takes up its units.
    Joining,
    /// The guest has its units.
    Active,
    /// The guest leaves its units.
    Leaving,
    /// It is being given back.
    Closing,
    /// It was given back; the broker has yet to hear of it.
    Crediting,
    /// It is over.
    Closed,
}

/// A lease as a mapper sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeaseView {
    /// Its name.
    pub id: LeaseId,
    /// The slice it is in.
    pub slice: SliceName,
    /// Where it is in its life.
    pub stage: Stage,
    /// Whether an extension or a return is under way.
    pub extending: bool,
    /// The type of its units.
    pub resource: Name,
    /// How many units it is for.
    pub units: u32,
    /// How many of them are on their way back to the site.
    pub returning: u32,
    /// The term held.
    pub term: Term,
    /// Its configuration, as the site's driver gets it.
    pub configuration: Properties,
}

impl LeaseView {
    fn of(id: LeaseId, lease: &Lease) -> Self {
        let change = lease.state.held().map(|held| &held.change);
        Self {
            id,
            slice: lease.slice.clone(),
            stage: Stage::of(&lease.state),
            extending: change.is_some_and(|change| !change.is_none()),
            resource: lease.resource.clone(),
            units: lease.units,
            returning: change.map_or(0, machine::Change::units),
            term: lease.term,
            configuration: lease.configuration.clone(),
        }
    }

    /// Whether an extension can be asked for now, or a part given back.
    pub fn changeable(&self) -> bool {
        self.holds_units() && !self.extending
    }

    /// Whether its guest has units to use, or is taking them up.
    fn holds_units(&self) -> bool {
        matches!(self.stage, Stage::Joining | Stage::Active)
    }
}

impl Stage {
    pub(super) fn of(state: &machine::State) -> Self {
        match state {
            machine::State::Ticketed { .. } => Self::Ticketed,
            machine::State::Redeeming { .. } => Self::Redeeming,
            machine::State::Joining { .. } => Self::Joining,
            machine::State::Active { .. } => Self::Active,
            machine::State::Leaving { .. } => Self::Leaving,
            machine::State::Closing { .. } => Self::Closing,
            machine::State::Crediting { .. } => Self::Crediting,
            machine::State::Closed { .. } => Self::Closed,
        }
    }
}

/// A lease in sequence for which all that it waited for is in use.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GateView {
    /// The lease.
    pub lease: LeaseId,
    /// What it does next.
    pub gate: Gate,
    /// The leases that it waited for.
    pub ahead: Vec<Ahead>,
}

/// A lease that another one waited for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ahead {
    /// The lease.
    pub lease: LeaseId,
    /// Its units with their properties, as far as they are still held.
    pub units: Vec<(UnitId, Properties)>,
}

impl ServiceManager {
    fn gate_view(&self, lease: LeaseId, gate: Gate) -> Option<GateView> {
        let on = self.state.leases.get(&lease)?.sequence.waits.get(&gate)?;
        let ahead = on.iter().flat_map(|on| self.leases_ahead(*on)).map(|(lease, record)| {
            let units = record.state.held().into_iter().flat_map(|held| &held.units);
            let units = units.map(|(&unit, (leased, _))| (unit, leased.properties.clone()));
            Ahead { lease, units: units.collect() }
        });
        Some(GateView { lease, gate, ahead: ahead.collect() })
    }

    /// What the mapper is to be shown, if a round is open.
    pub fn view(&self, now: Time) -> Option<View> {
        let round = self.open_round()?;
        let brokers = self.base.peers_of(Role::Broker);
        let gates = self.at_gates().into_iter();
        let gates = gates.filter_map(|(lease, gate, _)| self.gate_view(lease, gate));
        let proposals = self.proposals();
        Some(View {
            nodes: if proposals.is_empty() { Vec::new() } else { self.nodes() },
            proposals,
            plan_leases: self.plan_leases(),
            services: self.services(),
            now,
            round,
            memo: self.state.rounds.memo(),
            signals: self.state.signals.clone(),
            holdings: self.state.holdings.clone(),
            brokers: brokers.map(|(name, id)| (name.clone(), id)).collect(),
            ending: self.state.ending.clone(),
            index: self.index.clone(),
            gates: gates.collect(),
        })
    }
}

impl View {
    /// The time of the question.
    pub fn now(&self) -> Time {
        self.now
    }

    /// The round to answer.
    pub fn round(&self) -> u64 {
        self.round
    }

    /// What was remembered.
    pub fn memo(&self) -> &Memo {
        &self.memo
    }

    /// The last value of a signal.
    pub fn signal(&self, name: &Name) -> Option<i64> {
        self.signals.get(name).copied()
    }

    /// The units of a type that are held or asked for at `t`: those whose term contains it.
    pub fn held_at(&self, resource: &Name, t: Time) -> i64 {
        self.holdings.get(resource).map_or(0, |holdings| holdings.free_at(t))
    }

    /// The leases in sequence that go on next, unless the decision says otherwise: those whose request has it
    /// that they wait for the mapper.
    pub fn gates(&self) -> &[GateView] {
        &self.gates
    }

    /// The plans of packages that are asked for, the first to be asked for first.
    pub fn proposals(&self) -> &[Proposal] {
        &self.proposals
    }

    /// The units that the guest uses, if plans are asked for.
    pub fn nodes(&self) -> &[NodeView] {
        &self.nodes
    }

    /// The leases that were asked for because plans lacked nodes, and that are not over.
    pub fn plan_leases(&self) -> &[PlanLease] {
        &self.plan_leases
    }

    /// The services, by name.
    pub fn services(&self) -> &[ServiceView] {
        &self.services
    }

    /// All leases that are remembered, by number.
    pub fn leases(&self) -> impl Iterator<Item = &LeaseView> {
        self.index.leases.values()
    }

    /// One lease.
    pub fn lease(&self, id: LeaseId) -> Option<&LeaseView> {
        self.index.leases.get(&id)
    }

    /// The leases of a slice.
    pub fn slice(&self, slice: &SliceName) -> impl Iterator<Item = &LeaseView> {
        self.leases().filter(move |lease| lease.slice == *slice)
    }

    /// The leases with units whose terms end in `(now, until]`, the next first.
    pub fn ending_by(&self, until: Time) -> impl Iterator<Item = &LeaseView> {
        let first = LeaseId { number: 0, part: 0 };
        self.ending
            .range((self.now.plus(Span::from_micros(1)), first)..)
            .take_while(move |(end, _)| *end <= until)
            .filter_map(|&(_, id)| self.lease(id))
    }

    /// The leases with units, the last to end first.
    pub fn last_to_end(&self) -> impl Iterator<Item = &LeaseView> {
        self.ending.iter().rev().filter_map(|&(_, id)| self.lease(id))
    }

    /// The brokers known by configuration, by name.
    pub fn brokers(&self) -> impl Iterator<Item = (&Name, ActorId)> {
        self.brokers.iter().map(|(name, id)| (name, *id))
    }
}

impl Index {
    /// The index of a state.
    pub(super) fn of(state: &State) -> Self {
        let leases = state.leases.iter().map(|(&id, lease)| (id, LeaseView::of(id, lease)));
        Self { leases: leases.collect() }
    }

    /// A lease is new or has changed.
    pub(super) fn changed(&mut self, id: LeaseId, lease: &Lease) {
        self.leases.insert(id, LeaseView::of(id, lease));
    }

    /// A lease is not remembered any more.
    pub(super) fn forgotten(&mut self, id: LeaseId) {
        self.leases.remove(&id);
    }
}

/// A view in plain lists.
#[derive(Serialize, Deserialize)]
struct Plain {
    now: Time,
    round: u64,
    memo: Arc<Memo>,
    signals: OrdMap<Name, i64>,
    held: OrdMap<Name, Calendar>,
    brokers: Vec<(Name, ActorId)>,
    leases: Vec<LeaseView>,
    #[serde(default)]
    gates: Vec<GateView>,
    #[serde(default)]
    proposals: Vec<Proposal>,
    #[serde(default)]
    nodes: Vec<NodeView>,
    #[serde(default)]
    plan_leases: Vec<PlanLease>,
    #[serde(default)]
    services: Vec<ServiceView>,
}

impl From<View> for Plain {
    fn from(view: View) -> Self {
        Self {
            now: view.now,
            round: view.round,
            leases: view.leases().cloned().collect(),
            memo: view.memo,
            signals: view.signals,
            held: view.holdings,
            brokers: view.brokers,
            gates: view.gates,
            proposals: view.proposals,
            nodes: view.nodes,
            plan_leases: view.plan_leases,
            services: view.services,
        }
    }
}

impl From<Plain> for View {
    fn from(plain: Plain) -> Self {
        let with_units = plain.leases.iter().filter(|lease| lease.holds_units());
        Self {
            now: plain.now,
            round: plain.round,
            memo: plain.memo,
            signals: plain.signals,
            holdings: plain.held,
            brokers: plain.brokers,
            ending: with_units.map(|lease| (lease.term.end(), lease.id)).collect(),
            gates: plain.gates,
            proposals: plain.proposals,
            nodes: plain.nodes,
            plan_leases: plain.plan_leases,
            services: plain.services,
            index: Index { leases: plain.leases.into_iter().map(|l| (l.id, l)).collect() },
        }
    }
}
