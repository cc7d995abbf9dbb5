//! What is shown of plans: to the mapper, to the guest's driver and to users.

use std::collections::BTreeMap;

use super::machine::Phase;
use super::{
    Install, InstallState, NodeView, OnFailure, Placed, PlanNode, PlanOutcome, PlanRequest,
    PlanWait, Proposal,
};
use crate::actor::effect::Effect;
use crate::driver::{Call, Step, UnitId};
use crate::model::name::Name;
use crate::model::property::Properties;
use crate::model::slice::LeaseId;
use crate::model::time::Time;
use crate::mutants::mutant;
use crate::service_manager::machine::State;
use crate::service_manager::{ServiceManager, consult};

/// A plan, for display.
#[derive(Clone, Copy, Debug)]
pub struct PlanSurvey<'a> {
    /// Its number.
    pub plan: u64,
    /// Where it is in its life, in a word.
    pub word: &'static str,
    /// How it ended, if it has.
    pub outcome: Option<PlanOutcome>,
    /// When it was asked for.
    pub asked_at: Time,
    /// What was asked for.
    pub request: &'a PlanRequest,
    /// What it is, once it is proposed.
    pub placed: Option<&'a Placed>,
    /// What it is worth.
    pub worth: Option<&'a str>,
    /// Its nodes by their names.
    pub nodes: Option<&'a BTreeMap<String, PlanNode>>,
    /// Why it ended so.
    pub why: &'a [String],
    /// What is leased for it.
    pub leasing: Option<PlanWait<'a>>,
}

impl PlanSurvey<'_> {
    /// What becomes of it if packages fail.
    pub fn on_failure(&self) -> OnFailure {
        self.request.on_failure
    }
}

/// A package on a node, for display.
#[derive(Clone, Copy, Debug)]
pub struct InstallSurvey<'a> {
    /// Its number.
    pub number: u32,
    /// The node, as its plan names it.
    pub node: &'a str,
    /// The package.
    pub package: &'a str,
    /// How far it is, in a word.
    pub word: &'static str,
    /// Why it failed.
    pub error: Option<&'a str>,
}

impl Install {
    fn word(&self) -> &'static str {
        match &self.state {
            InstallState::Pending if self.by_driver => "installing",
            InstallState::Pending => "to-be-reported",
            InstallState::Installed => "installed",
            InstallState::Failed(_) => "failed",
            InstallState::Removing => "removing",
            InstallState::Removed => "removed",
            InstallState::Stuck(_) => "not-removed",
        }
    }
}

impl ServiceManager {
    /// All plans that are remembered, by number.
    pub fn plans(&self) -> impl Iterator<Item = PlanSurvey<'_>> {
        self.state.plans.plans.iter().map(|(&plan, record)| PlanSurvey {
            plan,
            word: record.phase.word(),
            outcome: match record.phase {
                Phase::Ended { outcome, .. } => Some(outcome),
                Phase::Requested | Phase::Leasing | Phase::Proposed | Phase::Accepted => None,
            },
            asked_at: record.asked_at,
            request: &record.request,
            placed: record.proposed.as_ref().map(|proposed| &proposed.placed),
            worth: record.proposed.as_ref().map(|proposed| proposed.worth.as_str()),
            nodes: record.proposed.as_ref().map(|proposed| &proposed.nodes),
            why: &record.why,
            leasing: self.wait_of(plan),
        })
    }

    /// The packages of a plan with how far each is.
    pub fn installs(&self, plan: u64) -> impl Iterator<Item = InstallSurvey<'_>> {
        self.state.plans.installs_of(plan).map(|(number, install)| InstallSurvey {
            number,
            node: &install.name,
            package: &install.package,
            word: install.word(),
            error: match &install.state {
                InstallState::Failed(error) | InstallState::Stuck(error) => Some(error),
                InstallState::Pending
                | InstallState::Installed
                | InstallState::Removing
                | InstallState::Removed => None,
            },
        })
    }

    /// The units that the guest uses, as plans see them.
    pub fn nodes(&self) -> Vec<NodeView> {
        let mut installed: BTreeMap<(LeaseId, UnitId), Vec<_>> = BTreeMap::new();
        for install in self.state.plans.installs.values().filter(|i| i.state.is_there()) {
            let its = installed.entry(install.node.key()).or_default();
            its.push((install.package.clone(), install.needs.clone()));
        }
        let node = |joined: super::super::JoinedUnit| {
            let lease = self.state.leases.get(&joined.lease)?;
            let (leased, _) = lease.state.held()?.units.get(&joined.unit)?;
            let key = (joined.lease, joined.unit);
            let site = self.base.peer_name(joined.site);
            let site = site.map_or_else(|| joined.site.to_string(), ToString::to_string);
            let plans = &self.state.plans;
            let held_by = plans.holds.get(&key).copied();
            let held_by = held_by.or_else(|| plans.waiting_for(joined.lease.number));
            Some(NodeView {
                name: format!("{site}/{}", joined.unit),
                slice: lease.slice.clone(),
                lease: joined.lease,
                site: joined.site,
                unit: joined.unit,
                epoch: joined.epoch,
                resource: lease.resource.clone(),
                properties: leased.properties.clone(),
                installed: installed.remove(&key).unwrap_or_default(),
                held_by: held_by.filter(|_| !mutant!(HeldNodesAreFree)),
            })
        };
        self.joined_units().filter_map(node).collect()
    }

    /// What the mapper is asked of a plan.
    pub(super) fn proposal(&self, plan: u64) -> Option<Proposal> {
        let record = self.state.plans.plans.get(&plan)?;
        Some(Proposal {
            plan,
            asked_at: record.asked_at,
            until: record.request.until,
            slice: record.request.slice.clone(),
            scope: record.request.scope.clone(),
            wanted: record.request.wanted.clone(),
            excluded: record.request.excluded.clone(),
            leases: record.request.lease.is_some() && record.leasing.is_none(),
        })
    }

    /// The plans that the mapper is asked for, the first to be asked for first.
    pub(in crate::service_manager) fn proposals(&self) -> Vec<Proposal> {
        let plans = self.state.plans.plans.iter();
        let open = plans.filter(|(_, record)| matches!(record.phase, Phase::Requested));
        open.filter_map(|(&plan, _)| self.proposal(plan)).collect()
    }

    /// The call that installs or removes a package.
    pub(in crate::service_manager) fn package_call(
        &self,
        (lease, unit): (LeaseId, UnitId),
        (step, number): (Step, u32),
    ) -> Option<Effect> {
        let install = self.state.plans.installs.get(&number)?;
        let Effect::Call(call) = self.call(lease, unit, (step, number))? else { return None };
        let held = self.lease(lease).and_then(State::held)?;
        let (leased, _) = held.units.get(&unit).filter(|(u, _)| u.epoch == install.node.epoch)?;
        let about = Properties::try_from(self.about(install)).ok()?;
        let properties = consult::beside(&leased.properties, &about).ok()?;
        let until = self.state.plans.plans.get(&install.plan).map(|plan| plan.request.until);
        let until = until.filter(|_| step == Step::Install);
        let deadline = call.deadline.into_iter().chain(until).min();
        Some(Effect::Call(Call { properties, deadline, ..call }))
    }

    /// The properties of a package in a call of the driver, beside those of the unit.
    fn about(&self, install: &Install) -> BTreeMap<Name, String> {
        let record = self.state.plans.plans.get(&install.plan);
        let proposed = record.and_then(|record| record.proposed.as_ref());
        let mut about = BTreeMap::from([
            (Name::literal("package"), install.package.clone()),
            (Name::literal("plan"), install.plan.to_string()),
        ]);
        let profiles = proposed.iter().flat_map(|proposed| &proposed.placed.profiles);
        let mut profiles = profiles.filter(|profile| profile.package == install.package);
        if let Some(artefact) = profiles.next().and_then(|profile| profile.artefact.as_ref()) {
            about.insert(Name::literal("artefact"), artefact.file.clone());
            about.insert(Name::literal("sha256"), artefact.sha256.clone());
            about.insert(Name::literal("program"), artefact.program.join("\n"));
        }
        if let Some((record, placed)) = record.zip(proposed.map(|proposed| &proposed.placed))
            && matches!(install.state, InstallState::Pending)
        {
            let peers = self.peers(&record.request, placed, install);
            if !peers.is_empty() {
                about.insert(Name::literal("peers"), peers.join("\n"));
            }
        }
        about
    }

    /// Where the parts are that a package on a node uses, or is used by: `PART NODE ADDRESS`, a line each.
    fn peers(&self, request: &PlanRequest, placed: &Placed, install: &Install) -> Vec<String> {
        let nodes = self.nodes();
        let address = |name: &str| {
            let node = nodes.iter().find(|node| node.name == name);
            node.and_then(|node| node.properties.get("address")).unwrap_or("-").to_owned()
        };
        let mut lines = Vec::new();
        for (from, to, _) in &request.wanted.uses {
            let ends = [copies(placed, from), copies(placed, to)];
            for (part, own, others) in [(from, &ends[0], &ends[1]), (to, &ends[1], &ends[0])] {
                let here = own.iter().any(|(_, node)| *node == install.name);
                if here && package_of(request, part) == Some(&install.package) {
                    let line =
                        |(name, node): &(String, &str)| format!("{name} {node} {}", address(node));
                    lines.extend(others.iter().map(line));
                }
            }
        }
        lines.sort();
        lines.dedup();
        lines
    }
}

/// The copies that a name of a part means, each with its node.
fn copies<'p>(placed: &'p Placed, name: &str) -> Vec<(String, &'p str)> {
    let placement = &placed.placement.placement;
    match placement.get(name).map(Vec::as_slice) {
        Some([node]) => vec![(name.to_owned(), node.as_str())],
        Some(nodes) => {
            let copy =
                |(copy, node): (usize, &'p String)| (format!("{name}/{}", copy + 1), node.as_str());
            nodes.iter().enumerate().map(copy).collect()
        }
        None => {
            let copy = name.rsplit_once('/').and_then(|(part, copy)| {
                let copy: usize = copy.parse().ok()?;
                placement.get(part)?.get(copy.checked_sub(1)?)
            });
            copy.into_iter().map(|node| (name.to_owned(), node.as_str())).collect()
        }
    }
}

/// The package of a part, or of one of its copies.
fn package_of<'r>(request: &'r PlanRequest, name: &str) -> Option<&'r String> {
    let parts = &request.wanted.parts;
    let part = name.rsplit_once('/').map_or(name, |(part, _)| part);
    let named = |name: &str| parts.iter().find(|part| part.name == name);
    named(name).or_else(|| named(part))?.package.as_ref()
}
