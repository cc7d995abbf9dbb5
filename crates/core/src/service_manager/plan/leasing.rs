//! Nodes that are leased for a plan, because those that there are do not suffice.
//!
//! One request asks for all of them, under a number that the fact reserves which says so. Until it is answered and
//! its units are in use, the plan holds the nodes that it has and those that come.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::machine::{Event, Phase, PlanOutcome};
use super::{Install, InstallState, PlanNode, Plans};
use crate::actor::Emit as _;
use crate::actor::fact::{BadFact, truncate_text};
use crate::driver::UnitId;
use crate::model::identity::ActorId;
use crate::model::name::Name;
use crate::model::property::Properties;
use crate::model::slice::LeaseId;
use crate::model::time::{Span, Time};
use crate::mutants::mutant;
use crate::service_manager::facts::{PlanLeased, PlanLeasing};
use crate::service_manager::group::Handling;
use crate::service_manager::mapper::Ask;
use crate::service_manager::request::State as RequestState;
use crate::service_manager::sequence::Ahead;
use crate::service_manager::{Output, ServiceManager, Timer, is_live};
use crate::wire::offer::Reply;
use crate::wire::proviso::Provisos;
use crate::wire::refusal::Outlook;
use crate::wire::request::{Item, MAX_ITEMS};

/// What a plan lacks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lacking {
    /// The units to ask for, all together or none.
    pub items: Vec<Item>,
    /// Whom to ask; the only broker known if none is named.
    pub broker: Option<ActorId>,
    /// Why.
    pub reason: String,
}

/// What is leased for a plan.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Leasing {
    /// The number of the request.
    pub(super) request: u64,
    /// Whether it was made.
    pub(super) asked: bool,
    pub(super) lacking: Lacking,
}

/// How that stands which a plan waits for.
enum Supply {
    ToAsk,
    ToCome,
    Came,
    Lost,
}

/// A lease that was asked for because a plan lacked nodes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanLease {
    /// The lease.
    pub lease: LeaseId,
    /// For how long it was asked for.
    pub duration: Span,
    /// Whether a plan still waits for it.
    pub awaited: bool,
    /// Its units that have packages of plans, or are held by one.
    pub busy: Vec<UnitId>,
    /// Its other units.
    pub idle: Vec<UnitId>,
}

/// What a plan waits for, for display.
#[derive(Clone, Copy, Debug)]
pub struct PlanWait<'a> {
    /// The number of the request.
    pub request: u64,
    /// The units that it asks for.
    pub items: &'a [Item],
    /// Where it is in its life, in a word; none, if it is about to be made.
    pub word: Option<&'static str>,
    /// Whether what it waits for is still to come.
    pub is_open: bool,
}

impl Plans {
    /// The plan that waits for the leases of a request.
    pub(super) fn waiting_for(&self, request: u64) -> Option<u64> {
        let plan = *self.requests.get(&request)?;
        let waits = self.plans.get(&plan).is_some_and(|record| record.phase == Phase::Leasing);
        waits.then_some(plan)
    }

    /// Whether nodes are, or were, leased for plans.
    pub(super) fn any_leased(&self) -> bool {
        !self.requests.is_empty()
    }

    /// A request is not remembered any more.
    pub(in crate::service_manager) fn forget_request(&mut self, request: u64) {
        self.requests.remove(&request);
    }
}

impl ServiceManager {
    /// Has what a plan lacks asked for.
    pub(super) fn lease_for(
        &mut self,
        now: Time,
        plan: u64,
        (names, mut lacking): (Vec<String>, Lacking),
        out: &mut Output,
    ) -> Result<(), String> {
        let proposal = self.proposal(plan).ok_or("it is not remembered")?;
        if !proposal.leases {
            return Err(format!("nothing is leased for plan {plan}"));
        }
        if lacking.items.is_empty() || lacking.items.len() > MAX_ITEMS {
            let items = lacking.items.len();
            return Err(format!("a plan lacks 1 to {MAX_ITEMS} items, not {items}"));
        }
        lacking.reason = truncate_text(&lacking.reason);
        let mut nodes = BTreeMap::new();
        let free = self.nodes().into_iter().filter(|node| proposal.can_use(node));
        let mut free: BTreeMap<String, PlanNode> = free.map(PlanNode::named).collect();
        for name in names {
            let node = free.remove(&name);
            let node = node.ok_or_else(|| format!("plan {plan} cannot have node {name}"))?;
            nodes.insert(name, node);
        }
        let request = self.state.last_number + 1;
        self.emit(now, PlanLeasing { plan, request, lacking, nodes }, out);
        self.ask_for_plan(now, plan, out);
        Ok(())
    }

    fn ask_for_plan(&mut self, now: Time, plan: u64, out: &mut Output) {
        let Some(record) = self.state.plans.plans.get(&plan) else { return };
        let Some((leasing, duration)) = record.leasing.as_ref().zip(record.request.lease) else {
            return;
        };
        let Lacking { items, broker, reason } = leasing.lacking.clone();
        let ask = Ask {
            broker,
            slice: record.request.slice.clone(),
            items,
            earliest: now,
            latest: record.request.until,
            duration,
            min_duration: duration,
            reply: Reply::Grant,
            answer_by: record.request.until,
            properties: Properties::default(),
            configuration: Properties::default(),
            handling: Handling::default(),
            reason,
            provisos: Provisos::NONE,
            again: None,
        };
        let number = leasing.request;
        if let Err(cause) = self.ask_under(now, (number, ask), None, out) {
            self.no_answer(now, (plan, PlanOutcome::Infeasible), &[cause], out);
        }
    }

    /// Continues a plan whose nodes have come, or ends one whose nodes were lost.
    pub(super) fn leasing_due(&mut self, now: Time, plan: u64, out: &mut Output) {
        match self.supply(plan) {
            Supply::ToAsk => self.ask_for_plan(now, plan, out),
            Supply::ToCome => self.refresh_plan(plan, now),
            Supply::Came => {
                let nodes = self.nodes_for(plan);
                self.emit(now, PlanLeased { plan, nodes }, out);
            }
            Supply::Lost => {
                let (outcome, why) = self.why_lost(plan);
                self.no_answer(now, (plan, outcome), &[why], out);
            }
        }
    }

    fn supply(&self, plan: u64) -> Supply {
        let record = self.state.plans.plans.get(&plan);
        let Some(leasing) = record.and_then(|record| record.leasing.as_ref()) else {
            return Supply::Lost;
        };
        match self.request(leasing.request) {
            _ if !leasing.asked => Supply::ToAsk,
            Some(
                RequestState::Asked | RequestState::Offered { .. } | RequestState::Accepting { .. },
            ) => Supply::ToCome,
            Some(RequestState::Granted { .. }) => match self.ahead((leasing.request, None)) {
                Ahead::InUse => Supply::Came,
                Ahead::ToCome => Supply::ToCome,
                Ahead::Lost => Supply::Lost,
            },
            Some(
                RequestState::GivenUp
                | RequestState::Planned { .. }
                | RequestState::Refused { .. }
                | RequestState::Unanswered,
            )
            | None => Supply::Lost,
        }
    }

    /// How a plan ends whose nodes will not come.
    fn why_lost(&self, plan: u64) -> (PlanOutcome, String) {
        let Some(number) = self.request_of(plan) else {
            return (PlanOutcome::Infeasible, "nothing is leased for it".to_owned());
        };
        let of_request =
            |what: &str| format!("request {number} for the nodes that it lacks {what}");
        match self.request(number) {
            Some(RequestState::Refused { refusal, .. }) => {
                let later = refusal.outlook() == Outlook::Later;
                let outcome = if later { PlanOutcome::Busy } else { PlanOutcome::Infeasible };
                (outcome, of_request(&format!("was refused: {refusal}")))
            }
            Some(RequestState::GivenUp | RequestState::Unanswered) => {
                (PlanOutcome::Released, of_request("was withdrawn"))
            }
            Some(
                RequestState::Asked
                | RequestState::Offered { .. }
                | RequestState::Accepting { .. }
                | RequestState::Planned { .. }
                | RequestState::Granted { .. },
            )
            | None => {
                let what = "was granted, and its leases were lost before their units were in use";
                (PlanOutcome::Busy, of_request(what))
            }
        }
    }

    fn request_of(&self, plan: u64) -> Option<u64> {
        let record = self.state.plans.plans.get(&plan)?;
        record.leasing.as_ref().map(|leasing| leasing.request)
    }

    /// The nodes that came for a plan.
    fn nodes_for(&self, plan: u64) -> BTreeMap<String, PlanNode> {
        let request = self.request_of(plan);
        let came = self.nodes().into_iter().filter(|node| Some(node.lease.number) == request);
        came.map(PlanNode::named).collect()
    }

    /// The request of a plan that has ended, if it is still to be withdrawn.
    pub(super) fn unanswered_request_of(&self, plan: u64) -> Option<u64> {
        let request = self.request_of(plan)?;
        match self.request(request)? {
            RequestState::Asked | RequestState::Offered { .. } | RequestState::Accepting { .. } => {
                Some(request)
            }
            RequestState::GivenUp
            | RequestState::Planned { .. }
            | RequestState::Granted { .. }
            | RequestState::Refused { .. }
            | RequestState::Unanswered => None,
        }
    }

    pub(super) fn plan_leasing(&mut self, at: Time, fact: &PlanLeasing) -> Result<(), BadFact> {
        let PlanLeasing { plan, request, lacking, nodes } = fact;
        let record = self.step_plan(*plan, Event::Lacking)?;
        record.leasing =
            Some(Leasing { request: *request, asked: false, lacking: lacking.clone() });
        self.state.last_number = self.state.last_number.max(*request);
        let plans = &mut self.state.plans;
        plans.holds.extend(nodes.values().map(|node| (node.key(), *plan)));
        plans.requests.insert(*request, *plan);
        self.refresh_plan(*plan, at);
        self.call_for_plans();
        Ok(())
    }

    pub(super) fn plan_leased(&mut self, at: Time, fact: &PlanLeased) -> Result<(), BadFact> {
        self.step_plan(fact.plan, Event::Leased)?;
        let holds = fact.nodes.values().map(|node| (node.key(), fact.plan));
        self.state.plans.holds.extend(holds);
        self.refresh_plan(fact.plan, at);
        self.state.rounds.call();
        Ok(())
    }

    /// A request was made, perhaps for what a plan lacks.
    pub(in crate::service_manager) fn plan_asked(&mut self, number: u64, at: Time) {
        let plans = &mut self.state.plans;
        let plan = plans.requests.get(&number).copied();
        let record = plan.and_then(|plan| plans.plans.get_mut(&plan));
        if let Some(leasing) = record.and_then(|record| record.leasing.as_mut()) {
            leasing.asked = true;
        }
        self.plan_follows(number, at);
    }

    /// A request or its leases have changed: what follows for the plan that they are for.
    pub(in crate::service_manager) fn plan_follows(&mut self, number: u64, at: Time) {
        if let Some(&plan) = self.state.plans.requests.get(&number) {
            self.refresh_plan(plan, at);
        }
    }

    /// Sets when a plan is next due.
    pub(super) fn refresh_plan(&mut self, plan: u64, at: Time) {
        let Some(record) = self.state.plans.plans.get(&plan) else { return };
        let until = record.request.until;
        let due = match record.phase {
            Phase::Ended { .. } => return self.remember_plan(at, plan),
            Phase::Leasing => match self.supply(plan) {
                Supply::ToCome => until,
                Supply::ToAsk | Supply::Came | Supply::Lost => at.min(until),
            },
            // All is reported, or what is not never will be.
            Phase::Accepted if self.state.plans.is_settled(plan) => at.min(until),
            Phase::Requested | Phase::Proposed | Phase::Accepted => until,
        };
        let due = (!mutant!(PlansNeverLapse)).then_some(due);
        self.state.timers.set(Timer::Plan(plan), due);
    }

    /// Asks the mapper if there are plans to be made, or leases that were made for plans.
    pub(super) fn call_for_plans(&mut self) {
        if self.state.plans.any_requested() || self.state.plans.any_leased() {
            self.state.rounds.call();
        }
    }

    /// The leases that were asked for because plans lacked nodes, and that are not over.
    pub(in crate::service_manager) fn plan_leases(&self) -> Vec<PlanLease> {
        let plans = &self.state.plans;
        if !plans.any_leased() {
            return Vec::new();
        }
        let keeps = |install: &&Install| {
            matches!(install.state, InstallState::Installed | InstallState::Removing)
        };
        let installed = plans.installs.values().filter(keeps).map(|install| install.node.key());
        let used: BTreeSet<_> = installed.chain(plans.holds.keys().copied()).collect();
        let mut leases = Vec::new();
        for &number in plans.requests.keys() {
            let awaited = plans.waiting_for(number).is_some();
            let Some(request) = self.state.requests.get(&number) else { continue };
            for (id, lease) in self.leases_ahead((number, None)) {
                if !is_live(&lease.state) {
                    continue;
                }
                let units =
                    lease.state.held().into_iter().flat_map(|held| held.units.keys().copied());
                let (busy, idle) = units.partition(|unit| awaited || used.contains(&(id, *unit)));
                let duration = request.wanted.duration;
                leases.push(PlanLease { lease: id, duration, awaited, busy, idle });
            }
        }
        leases
    }

    /// What a plan waits for, or waited for.
    pub(super) fn wait_of(&self, plan: u64) -> Option<PlanWait<'_>> {
        let record = self.state.plans.plans.get(&plan)?;
        let leasing = record.leasing.as_ref()?;
        let word = self.request(leasing.request).map(RequestState::word);
        let is_open = record.phase == Phase::Leasing;
        let items = &leasing.lacking.items;
        Some(PlanWait { request: leasing.request, items, word, is_open })
    }
}

impl PlanWait<'_> {
    /// How many units of each type are asked for.
    pub fn units(&self) -> BTreeMap<&Name, u32> {
        let mut units = BTreeMap::new();
        for item in self.items {
            *units.entry(&item.resource).or_default() += item.units.get();
        }
        units
    }
}
