//! What a service manager decides of plans.

use std::collections::{BTreeMap, BTreeSet};

use super::machine::{Phase, PlanOutcome};
use super::{
    InstallState, MAX_HOLD, MAX_PARTS, MAX_PLAN_BYTES, MAX_PLANS, OnFailure, PackageReport, Placed,
    PlanAnswer, PlanChoice, PlanCommand, PlanNode, PlanRequest, check, problem,
};
use crate::actor::Emit as _;
use crate::actor::effect::{DriverResult, Problem};
use crate::actor::fact::truncate_text;
use crate::driver::Step;
use crate::model::codec;
use crate::model::time::Time;
use crate::mutants::mutant;
use crate::service_manager::facts::{
    GaveUp, PackageRemoved, PackageReported, PlanAccepted, PlanEnded, PlanForgotten, PlanProposed,
    PlanRequested,
};
use crate::service_manager::{Obligation, Output, ServiceManager, Timer};

/// The most other plans that are kept beside a plan.
const MAX_OTHERS: usize = 3;

/// The most other slices whose nodes a plan may use.
const MAX_SCOPE: usize = 1000;

/// The most reasons that are kept of a plan that there is not.
const MAX_REASONS: usize = 16;

impl ServiceManager {
    pub(in crate::service_manager) fn plan_command(
        &mut self,
        now: Time,
        command: PlanCommand,
        out: &mut Output,
    ) -> Result<(), String> {
        match command {
            PlanCommand::Propose(request) => self.propose(now, *request, out),
            PlanCommand::Accept { plan } => self.accept_plan(now, plan, out),
            PlanCommand::Release { plan } => self.release_plan(now, plan, out),
            PlanCommand::Report { plan, reports } => self.report_plan(now, plan, reports, out),
        }
    }

    fn propose(&mut self, now: Time, request: PlanRequest, out: &mut Output) -> Result<(), String> {
        if request.until <= now || now.plus(MAX_HOLD) < request.until {
            return Err(format!(
                "a plan holds its nodes for some time, and for {MAX_HOLD} at most: it cannot end at {}",
                request.until
            ));
        }
        if request.scope.len() > MAX_SCOPE {
            let slices = request.scope.len();
            return Err(format!(
                "a plan uses nodes of {MAX_SCOPE} other slices at most, not {slices}"
            ));
        }
        let parts = request.wanted.parts.iter().map(|part| u64::from(part.count.unwrap_or(1)));
        let parts = parts.sum::<u64>();
        if !(1..=MAX_PARTS).contains(&parts) {
            return Err(format!("a plan has 1 to {MAX_PARTS} parts, not {parts}"));
        }
        let bytes = codec::encode(&request.wanted).len();
        if bytes > MAX_PLAN_BYTES {
            return Err(format!("the plan takes {bytes} bytes, more than {MAX_PLAN_BYTES}"));
        }
        if self.state.plans.plans.len() >= MAX_PLANS {
            return Err(format!(
                "{MAX_PLANS} plans are remembered; a day after its end one is not"
            ));
        }
        if let Some(lease) = request.lease
            && lease <= self.base.two_margins()
        {
            return Err(format!(
                "nodes that are missing are leased for longer than {}, not {lease}",
                self.base.two_margins()
            ));
        }
        request.wanted.problem()?;
        let plan = self.state.plans.last + 1;
        self.emit(now, PlanRequested { plan, request }, out);
        Ok(())
    }

    /// Carries out what a mapper answers of a plan.
    pub(in crate::service_manager) fn answer_plan(
        &mut self,
        now: Time,
        choice: PlanChoice,
        out: &mut Output,
    ) -> Result<(), String> {
        let PlanChoice { plan, answer } = choice;
        let record = self.state.plans.plans.get(&plan);
        let record = record.filter(|record| matches!(record.phase, Phase::Requested));
        let record = record.ok_or_else(|| format!("no plan {plan} is asked for"))?;
        let (slice, accept) = (record.request.slice.clone(), record.request.accept);
        match answer {
            PlanAnswer::None(why) => {
                self.no_answer(now, (plan, PlanOutcome::Infeasible), &why, out)
            }
            PlanAnswer::Busy(why) => self.no_answer(now, (plan, PlanOutcome::Busy), &why, out),
            PlanAnswer::Lease { nodes, lacking } => {
                self.lease_for(now, plan, (nodes, lacking), out)?;
            }
            PlanAnswer::Placed(mut placed) => {
                placed.others.truncate(MAX_OTHERS);
                let (worth, nodes) = self
                    .check_plan(plan, &placed)
                    .map_err(|error| format!("plan {plan} for slice `{slice}`: {error}"))?;
                self.emit(now, PlanProposed { plan, placed, worth, nodes }, out);
                if accept {
                    self.accept_plan(now, plan, out)?;
                }
            }
        }
        Ok(())
    }

    pub(super) fn no_answer(
        &mut self,
        now: Time,
        (plan, outcome): (u64, PlanOutcome),
        why: &[String],
        out: &mut Output,
    ) {
        let why = why.iter().take(MAX_REASONS).map(|why| truncate_text(why)).collect();
        self.emit(now, PlanEnded { plan, outcome, why }, out);
    }

    /// What a mapper's plan is worth, and its nodes, if it is good over what no plan holds now.
    fn check_plan(
        &self,
        plan: u64,
        placed: &Placed,
    ) -> Result<(String, BTreeMap<String, PlanNode>), String> {
        let nodes = self.nodes();
        let proposal = self.proposal(plan).ok_or("it is not remembered")?;
        let worth = if mutant!(PlanNotChecked) {
            String::new()
        } else {
            let problem = problem(&proposal, nodes.iter(), 0, &placed.profiles)?;
            check(&problem, &placed.placement).map_err(|error| error.to_string())?
        };
        let used: BTreeSet<&String> = placed.placement.nodes().collect();
        let used = nodes.into_iter().filter(|node| used.contains(&node.name));
        Ok((worth, used.map(PlanNode::named).collect()))
    }

    fn accept_plan(&mut self, now: Time, plan: u64, out: &mut Output) -> Result<(), String> {
        let record = self.state.plans.plans.get(&plan);
        let record = record.ok_or_else(|| no_plan(plan))?;
        match record.phase {
            Phase::Accepted | Phase::Ended { outcome: PlanOutcome::Installed, .. } => return Ok(()),
            Phase::Requested | Phase::Leasing | Phase::Ended { .. } => {
                return Err(format!("plan {plan} is {}, it is not proposed", record.phase.word()));
            }
            Phase::Proposed => {}
        }
        if let Some(gone) = self.gone_of(plan) {
            return Err(format!(
                "node {gone} of plan {plan} is not held any more; release the plan"
            ));
        }
        self.emit(now, PlanAccepted { plan }, out);
        self.settle_plan(now, plan, out);
        Ok(())
    }

    /// A node of a plan that the guest does not use any more.
    fn gone_of(&self, plan: u64) -> Option<String> {
        let proposed = self.state.plans.plans.get(&plan)?.proposed.as_ref()?;
        let held: BTreeSet<_> =
            self.joined_units().map(|unit| (unit.lease, unit.unit, unit.epoch)).collect();
        let mut nodes = proposed.nodes.iter();
        let gone = nodes.find(|(_, node)| !held.contains(&(node.lease, node.unit, node.epoch)));
        gone.map(|(name, _)| name.clone())
    }

    fn release_plan(&mut self, now: Time, plan: u64, out: &mut Output) -> Result<(), String> {
        let record = self.state.plans.plans.get(&plan);
        match record.ok_or_else(|| no_plan(plan))?.phase {
            Phase::Requested | Phase::Leasing | Phase::Proposed | Phase::Accepted => {}
            Phase::Ended { outcome, .. } if outcome.keeps() => {}
            Phase::Ended { .. } => return Ok(()),
        }
        let (outcome, why) = (PlanOutcome::Released, Vec::new());
        self.emit(now, PlanEnded { plan, outcome, why }, out);
        Ok(())
    }

    fn report_plan(
        &mut self,
        now: Time,
        plan: u64,
        reports: Vec<PackageReport>,
        out: &mut Output,
    ) -> Result<(), String> {
        let record = self.state.plans.plans.get(&plan).ok_or_else(|| no_plan(plan))?;
        if !matches!(record.phase, Phase::Accepted) {
            let word = record.phase.word();
            return Err(format!("plan {plan} is {word}: a report comes while it is accepted"));
        }
        let mut found = Vec::new();
        for PackageReport { node, package, error } in reports {
            let is_it = |(_, install): &(u32, &super::Install)| {
                install.name == node && install.package == package
            };
            let install = self.state.plans.installs_of(plan).find(is_it);
            let (number, install) = install
                .ok_or_else(|| format!("plan {plan} installs no {package} on a node {node}"))?;
            if !matches!(install.state, InstallState::Pending)
                || found.iter().any(|(n, _)| *n == number)
            {
                return Err(format!("{package} on {node} is reported already"));
            }
            found.push((number, error.map(|error| truncate_text(&error))));
        }
        for (number, error) in found {
            self.emit(now, PackageReported { plan, number, error }, out);
        }
        self.settle_plan(now, plan, out);
        Ok(())
    }

    /// The guest's driver has installed or removed a package, or could not.
    pub(in crate::service_manager) fn package_done(
        &mut self,
        now: Time,
        done: DriverResult,
        out: &mut Output,
    ) {
        let DriverResult { lease, unit, epoch, step, number, outcome } = done;
        let obligation = match step {
            Step::Remove => Obligation::Remove(lease, unit, number),
            Step::Install
            | Step::Setup
            | Step::Teardown
            | Step::Join
            | Step::Modify
            | Step::Leave
            | Step::Warn => Obligation::Install(lease, unit, number),
        };
        let install = self.state.plans.installs.get(&number);
        let its = install.filter(|install| install.node.epoch == epoch);
        let Some(plan) = its.map(|i| i.plan).filter(|_| self.state.pending.requires(&obligation))
        else {
            let cause = format!("{} {number} of {unit} in {epoch:?} is not owed", step.word());
            return out.problems.push(Problem::Command(cause));
        };
        let error = outcome.err().map(|error| truncate_text(&error.0));
        if step == Step::Remove {
            return self.emit(now, PackageRemoved { plan, number, error }, out);
        }
        self.emit(now, PackageReported { plan, number, error }, out);
        self.settle_plan(now, plan, out);
    }

    /// Ends a plan of which all is reported.
    fn settle_plan(&mut self, now: Time, plan: u64, out: &mut Output) {
        // What depends on something that failed is not installed.
        while let Some((number, package)) = self.state.plans.blocked(plan) {
            let error = Some(truncate_text(&format!("it depends on {package}, which failed")));
            self.emit(now, PackageReported { plan, number, error }, out);
        }
        let Some(record) = self.state.plans.plans.get(&plan) else { return };
        let installs = || self.state.plans.installs_of(plan);
        let waits = installs().any(|(_, install)| matches!(install.state, InstallState::Pending));
        if !matches!(record.phase, Phase::Accepted) || waits {
            return;
        }
        let failed = installs().filter_map(|(_, install)| match &install.state {
            InstallState::Failed(error) => {
                Some((install.package.clone(), install.name.clone(), error))
            }
            InstallState::Pending
            | InstallState::Installed
            | InstallState::Removing
            | InstallState::Removed
            | InstallState::Stuck(_) => None,
        });
        let failed: Vec<_> = failed.collect();
        let why = failed.iter().take(MAX_REASONS);
        let why =
            why.map(|(package, node, error)| format!("{package} on {node}: {error}")).collect();
        let next = self.replan(plan, &failed);
        let outcome = match record.request.on_failure {
            _ if failed.is_empty() => PlanOutcome::Installed,
            OnFailure::Keep => PlanOutcome::Failed,
            OnFailure::RollBack => PlanOutcome::RolledBack,
            OnFailure::Replan => PlanOutcome::Replaced,
        };
        self.emit(now, PlanEnded { plan, outcome, why }, out);
        if outcome == PlanOutcome::Replaced
            && let Some(request) = next
        {
            let plan = self.state.plans.last + 1;
            self.emit(now, PlanRequested { plan, request }, out);
        }
    }

    /// The request that replaces a plan some of whose packages failed.
    fn replan(&self, plan: u64, failed: &[(String, String, &String)]) -> Option<PlanRequest> {
        let record = self.state.plans.plans.get(&plan)?;
        let mut request = record.request.clone();
        let pairs = failed.iter().map(|(package, node, _)| (package.clone(), node.clone()));
        request.excluded.extend(pairs);
        request.replaces = Some(plan);
        request.accept = true;
        let placed = &record.proposed.as_ref()?.placed.placement;
        request.wanted = request.wanted.each_copy(|part, copy| {
            let node = placed.placement.get(&part.name)?.get(copy)?;
            let package = part.package.as_ref()?;
            let has_failed = failed.iter().any(|(its, at, _)| its == package && at == node);
            // What is installed stays where it is.
            (!has_failed).then(|| node.clone())
        });
        Some(request)
    }

    /// The time of a plan is over: that for which it holds its nodes, or that for which it is remembered.
    pub(in crate::service_manager) fn plan_due(&mut self, now: Time, plan: u64, out: &mut Output) {
        let Some(record) = self.state.plans.plans.get(&plan) else {
            return self.state.timers.set(Timer::Plan(plan), None);
        };
        match record.phase {
            Phase::Ended { .. } => match self.unanswered_request_of(plan) {
                Some(number) => self.emit(now, GaveUp { number }, out),
                None => self.emit(now, PlanForgotten { plan }, out),
            },
            Phase::Leasing if now < record.request.until => self.leasing_due(now, plan, out),
            Phase::Accepted if now < record.request.until => self.settle_plan(now, plan, out),
            phase @ (Phase::Requested | Phase::Leasing | Phase::Proposed | Phase::Accepted) => {
                let why = match phase {
                    Phase::Requested => "no mapper made a plan in time",
                    Phase::Leasing => "the nodes that it lacks did not come in time",
                    Phase::Proposed => "it was not accepted in time",
                    Phase::Accepted => "not all packages were reported in time",
                    Phase::Ended { .. } => "it is over",
                };
                let (outcome, why) = (PlanOutcome::Lapsed, vec![why.to_owned()]);
                self.emit(now, PlanEnded { plan, outcome, why }, out);
            }
        }
    }
}

fn no_plan(plan: u64) -> String {
    format!("there is no plan {plan}")
}
