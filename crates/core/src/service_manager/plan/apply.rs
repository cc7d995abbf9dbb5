//! How facts change plans.

use std::collections::{BTreeMap, BTreeSet};

use super::machine::{Event, Phase, PlanOutcome};
use super::order::Depends;
use super::{Install, InstallState, PlanRecord, Proposed};
use crate::actor::fact::BadFact;
use crate::driver::UnitId;
use crate::model::slice::LeaseId;
use crate::model::time::Time;
use crate::mutants::mutant;
use crate::service_manager::facts::{
    Fact, PackageRemoved, PackageReported, PlanAccepted, PlanEnded, PlanForgotten, PlanProposed,
    PlanRequested,
};
use crate::service_manager::{Obligation, ServiceManager, Timer};
use crate::ticket::ledger::LEDGER_RETENTION;

impl ServiceManager {
    /// Applies a fact about a plan.
    #[allow(clippy::wildcard_enum_match_arm, reason = "the facts of plans are a few of many")]
    pub(in crate::service_manager) fn of_plan(
        &mut self,
        at: Time,
        fact: &Fact,
    ) -> Result<(), BadFact> {
        match fact {
            Fact::PlanRequested(fact) => self.plan_requested(at, fact),
            Fact::PlanLeasing(fact) => return self.plan_leasing(at, fact),
            Fact::PlanLeased(fact) => return self.plan_leased(at, fact),
            Fact::PlanProposed(fact) => return self.plan_proposed(fact),
            Fact::PlanAccepted(fact) => return self.plan_accepted(at, fact),
            Fact::PackageReported(fact) => return self.package_reported(at, fact),
            Fact::PackageRemoved(fact) => return self.package_removed(at, fact),
            Fact::PlanEnded(fact) => return self.plan_ended(at, fact),
            Fact::PlanForgotten(fact) => self.plan_forgotten(fact),
            _ => {}
        }
        Ok(())
    }

    fn plan_requested(&mut self, at: Time, fact: &PlanRequested) {
        let plans = &mut self.state.plans;
        plans.last = plans.last.max(fact.plan);
        let record = PlanRecord {
            asked_at: at,
            request: fact.request.clone(),
            phase: Phase::Requested,
            proposed: None,
            leasing: None,
            why: Vec::new(),
            installs: None,
        };
        plans.plans.insert(fact.plan, record);
        self.refresh_plan(fact.plan, at);
        self.state.rounds.call();
    }

    pub(super) fn step_plan(
        &mut self,
        plan: u64,
        event: Event,
    ) -> Result<&mut PlanRecord, BadFact> {
        let record = self.state.plans.plans.get_mut(&plan).ok_or_else(|| missing(plan))?;
        record.phase = record.phase.next(event)?;
        Ok(record)
    }

    fn plan_proposed(&mut self, fact: &PlanProposed) -> Result<(), BadFact> {
        let record = self.step_plan(fact.plan, Event::Proposed)?;
        let (placed, worth) = (fact.placed.clone(), fact.worth.clone());
        record.proposed = Some(Proposed { placed, worth, nodes: fact.nodes.clone() });
        let holds = fact.nodes.values().map(|node| (node.key(), fact.plan));
        // What it held while others were leased for it, and does without, is free.
        self.state.plans.holds.retain(|_, holder| *holder != fact.plan);
        self.state.plans.holds.extend(holds);
        // What was asked for beside it is planned over the nodes that are left.
        self.call_for_plans();
        Ok(())
    }

    fn plan_accepted(&mut self, at: Time, fact: &PlanAccepted) -> Result<(), BadFact> {
        self.step_plan(fact.plan, Event::Accepted)?;
        let plans = &mut self.state.plans;
        let Some(record) = plans.plans.get_mut(&fact.plan) else { return Ok(()) };
        let Some(proposed) = &record.proposed else { return Ok(()) };
        let first = plans.last_install + 1;
        let depends = Depends::of(record);
        for (name, packages) in &proposed.placed.placement.install {
            let Some(&node) = proposed.nodes.get(name) else { continue };
            let before = plans.last_install + 1;
            for (package, after) in depends.order(packages) {
                plans.last_install += 1;
                let after = after.into_iter().filter_map(|place| u32::try_from(place).ok());
                let profile = proposed.placed.profiles.iter().find(|p| p.package == *package);
                let install = Install {
                    plan: fact.plan,
                    name: name.clone(),
                    node,
                    package: package.clone(),
                    needs: needs(record, package),
                    by_driver: profile.is_some_and(|profile| profile.artefact.is_some()),
                    after: after.map(|place| before + place).collect(),
                    state: InstallState::Pending,
                };
                plans.installs.insert(plans.last_install, install);
            }
        }
        record.installs = Some((first, plans.last_install));
        self.owe_installs(fact.plan, at);
        Ok(())
    }

    /// Has the guest's driver install what waits for nothing any more.
    fn owe_installs(&mut self, plan: u64, at: Time) {
        let plans = &self.state.plans;
        let open = plans.installs_of(plan).filter(|(_, install)| {
            install.by_driver && matches!(install.state, InstallState::Pending)
        });
        let open = open.filter(|(number, _)| plans.may_begin(*number));
        let owed = open.map(|(number, install)| (number, install.node.key()));
        let owed: Vec<_> = owed.collect();
        for (number, (lease, unit)) in owed {
            let obligation = Obligation::Install(lease, unit, number);
            if !self.state.pending.requires(&obligation) {
                self.require(obligation, at);
            }
        }
        self.refresh_plan(plan, at);
    }

    fn package_reported(&mut self, at: Time, fact: &PackageReported) -> Result<(), BadFact> {
        let install = self.state.plans.installs.get_mut(&fact.number);
        let install = install.ok_or_else(|| missing(fact.plan))?;
        install.state = match &fact.error {
            Some(error) => InstallState::Failed(error.clone()),
            None => InstallState::Installed,
        };
        let (lease, unit) = install.node.key();
        self.state.pending.settle(&Obligation::Install(lease, unit, fact.number));
        self.owe_installs(fact.plan, at);
        Ok(())
    }

    fn package_removed(&mut self, at: Time, fact: &PackageRemoved) -> Result<(), BadFact> {
        let install = self.state.plans.installs.get_mut(&fact.number);
        let install = install.ok_or_else(|| missing(fact.plan))?;
        install.state = match &fact.error {
            None => InstallState::Removed,
            Some(error) => InstallState::Stuck(error.clone()),
        };
        let (lease, unit) = install.node.key();
        self.state.pending.settle(&Obligation::Remove(lease, unit, fact.number));
        self.owe_removals(fact.plan, at);
        self.remember_plan(at, fact.plan);
        self.call_for_plans();
        Ok(())
    }

    fn plan_ended(&mut self, at: Time, fact: &PlanEnded) -> Result<(), BadFact> {
        let plan = fact.plan;
        let record = self.step_plan(plan, Event::Ended(fact.outcome, at))?;
        if !fact.why.is_empty() {
            record.why.clone_from(&fact.why);
        }
        if !mutant!(EndedPlanHolds) {
            self.state.plans.holds.retain(|_, holder| *holder != plan);
        }
        self.undo(at, plan, fact.outcome);
        self.remember_plan(at, plan);
        self.call_for_plans();
        Ok(())
    }

    /// Has removed what a plan is not to leave behind, and waits for no installation any more.
    fn undo(&mut self, at: Time, plan: u64, outcome: PlanOutcome) {
        let numbers: Vec<u32> =
            self.state.plans.installs_of(plan).map(|(number, _)| number).collect();
        for number in numbers {
            let Some(install) = self.state.plans.installs.get_mut(&number) else { continue };
            let (lease, unit) = install.node.key();
            let removes = match install.state {
                InstallState::Pending => true,
                InstallState::Installed => match outcome {
                    PlanOutcome::RolledBack | PlanOutcome::Released => true,
                    PlanOutcome::Installed
                    | PlanOutcome::Failed
                    | PlanOutcome::Replaced
                    | PlanOutcome::Lapsed
                    | PlanOutcome::Infeasible
                    | PlanOutcome::Busy => false,
                },
                InstallState::Failed(_)
                | InstallState::Removing
                | InstallState::Removed
                | InstallState::Stuck(_) => false,
            };
            if !mutant!(EndedPlanInstalls) {
                self.state.pending.settle(&Obligation::Install(lease, unit, number));
            }
            if !removes || mutant!(RolledBackStays) {
                continue;
            }
            install.state =
                if install.by_driver { InstallState::Removing } else { InstallState::Removed };
        }
        self.owe_removals(plan, at);
    }

    /// Has the guest's driver remove what nothing depends on any more.
    fn owe_removals(&mut self, plan: u64, at: Time) {
        let plans = &self.state.plans;
        let open = plans
            .installs_of(plan)
            .filter(|(number, install)| {
                matches!(install.state, InstallState::Removing) && plans.may_go(*number)
            })
            .map(|(number, install)| (number, install.node.key()));
        for (number, (lease, unit)) in open.collect::<Vec<_>>() {
            let obligation = Obligation::Remove(lease, unit, number);
            if !self.state.pending.requires(&obligation) {
                self.require(obligation, at);
            }
        }
    }

    /// A plan that has ended is remembered for a while; as long as something of it is installed, it can still
    /// be released.
    pub(super) fn remember_plan(&mut self, at: Time, plan: u64) {
        let over = self.state.plans.plans.get(&plan).is_some_and(|record| record.phase.is_over());
        if over {
            let there = self.state.plans.installs_of(plan).any(|(_, i)| i.state.is_there());
            let until = match self.unanswered_request_of(plan) {
                // It is withdrawn first.
                Some(_) => Some(at),
                None => (!there).then(|| at.plus(LEDGER_RETENTION)),
            };
            self.state.timers.set(Timer::Plan(plan), until);
        }
    }

    fn plan_forgotten(&mut self, fact: &PlanForgotten) {
        let plans = &mut self.state.plans;
        let record = plans.plans.remove(&fact.plan);
        let leasing = record.and_then(|record| record.leasing);
        if let Some(leasing) = leasing.filter(|leasing| !leasing.asked) {
            plans.requests.remove(&leasing.request);
        }
        plans.installs.retain(|_, install| install.plan != fact.plan);
        self.state.timers.set(Timer::Plan(fact.plan), None);
    }

    /// A lease is not remembered any more, and what was installed on its units is gone with it.
    pub(in crate::service_manager) fn forget_installs(&mut self, lease: LeaseId, at: Time) {
        let (first, last) = (UnitId(0), UnitId(u32::MAX));
        let pending = &mut self.state.pending;
        pending.settle_range(
            Obligation::Install(lease, first, 0),
            Obligation::Install(lease, last, u32::MAX),
        );
        pending.settle_range(
            Obligation::Remove(lease, first, 0),
            Obligation::Remove(lease, last, u32::MAX),
        );
        let mut plans = BTreeSet::new();
        for install in self.state.plans.installs.values_mut() {
            if install.node.lease == lease && install.state.is_there() {
                install.state = InstallState::Removed;
                plans.insert(install.plan);
            }
        }
        for plan in plans {
            self.remember_plan(at, plan);
        }
    }
}

/// What a package of a plan takes of a node: what its profile says, or more where the request does.
fn needs(record: &PlanRecord, package: &str) -> BTreeMap<String, String> {
    let profiles = record.proposed.iter().flat_map(|proposed| &proposed.placed.profiles);
    let profile = profiles.filter(|profile| profile.package == package).map(|p| &p.needs);
    let parts = record.request.wanted.parts.iter();
    let parts = parts.filter(|part| part.package.as_deref() == Some(package)).map(|p| &p.needs);
    let libraries = record.request.wanted.libraries.iter();
    let libraries = libraries.filter(|library| library.package == package).map(|l| &l.needs);
    let mut needs: BTreeMap<String, String> = BTreeMap::new();
    for (dimension, amount) in profile.chain(parts).chain(libraries).flatten() {
        let known =
            needs.get(dimension).and_then(|known| known.parse::<tenure_plan::Amount>().ok());
        let more = amount.parse::<tenure_plan::Amount>().ok();
        if known.is_none() || more > known {
            needs.insert(dimension.clone(), amount.clone());
        }
    }
    needs
}

fn missing(plan: u64) -> BadFact {
    BadFact::Missing { kind: "plan", what: plan.to_string() }
}
