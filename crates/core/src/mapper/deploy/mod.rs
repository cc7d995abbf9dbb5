//! `deploy`: packages on the nodes of a slice, planned by `tenure-plan`.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use serde::de::{Deserializer, Error as _};
use tenure_plan::{Amount, Answer, Package, Settings, Software, Solver, Status, solve};

use crate::model::resource::Expr;
use crate::service_manager::mapper::{
    Decision, NodePlacement, NodeView, Placed, PlanAnswer, PlanChoice, Profile, Proposal,
    ServiceManagerMapper, View,
};
use crate::service_manager::plan::{Artefact, problem};

/// Plans packages over the nodes that no other plan holds. It asks for nothing else: leases come by the user's
/// requests. It keeps no memo.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Deploy {
    /// What is known of packages.
    #[serde(deserialize_with = "catalogue")]
    package: Vec<Entry>,
    solver: Solver,
    /// The most steps of the solver for each plan.
    steps: u64,
    /// How many other plans are kept beside the best.
    alternatives: usize,
}

/// What the catalogue says of a package.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Entry {
    package: Package,
    #[serde(default)]
    needs: BTreeMap<String, Amount>,
    #[serde(default, rename = "where")]
    condition: Option<Expr>,
    #[serde(default)]
    software: Vec<Software>,
    #[serde(default)]
    depends: Vec<Package>,
    /// The archive that the guest's driver unpacks, by its path.
    #[serde(default)]
    artefact: Option<String>,
    /// The SHA-256 of the archive.
    #[serde(default)]
    sha256: Option<String>,
    /// The program that is run then, with its arguments.
    #[serde(default)]
    program: Vec<String>,
}

impl Default for Deploy {
    fn default() -> Self {
        Self { package: Vec::new(), solver: Solver::Auto, steps: Settings::STEPS, alternatives: 2 }
    }
}

impl ServiceManagerMapper for Deploy {
    fn decide(&self, view: &View) -> Decision {
        let mut nodes = view.nodes().to_vec();
        let choose = |proposal: &Proposal| {
            let answer = self.plan(proposal, &nodes);
            if let PlanAnswer::Placed(placed) = &answer {
                hold(&mut nodes, proposal.plan, &placed.placement);
            }
            PlanChoice { plan: proposal.plan, answer }
        };
        let plans = view.proposals().iter().map(choose).collect();
        Decision { round: view.round(), plans, ..Decision::default() }
    }
}

impl Deploy {
    /// The best plan of a proposal.
    fn plan(&self, proposal: &Proposal, nodes: &[NodeView]) -> PlanAnswer {
        let profiles: Vec<Profile> = self.package.iter().map(Entry::profile).collect();
        let answer = match self.solve(proposal, nodes, &profiles) {
            Ok(answer) => answer,
            Err(error) => return PlanAnswer::None(vec![error]),
        };
        let proven = match answer.status {
            Status::Optimal => true,
            Status::Feasible => false,
            Status::Infeasible | Status::Unknown => {
                let why = self.why(proposal, nodes, &answer);
                let busy = self.is_busy(proposal, nodes, &profiles);
                return if busy { PlanAnswer::Busy(why) } else { PlanAnswer::None(why) };
            }
        };
        placed(proposal, answer, profiles, proven)
    }

    fn solve(
        &self,
        proposal: &Proposal,
        nodes: &[NodeView],
        profiles: &[Profile],
    ) -> Result<Answer, String> {
        let problem = problem(proposal, nodes.iter(), profiles)?;
        let settings = Settings {
            solver: self.solver,
            steps: self.steps,
            alternatives: self.alternatives,
            explain: true,
        };
        solve(&problem, &settings).map_err(|error| error.to_string())
    }

    /// Whether there would be a plan if no other plan held nodes.
    fn is_busy(&self, proposal: &Proposal, nodes: &[NodeView], profiles: &[Profile]) -> bool {
        let is_held = |node: &NodeView| node.slice == proposal.slice && node.held_by.is_some();
        if !nodes.iter().any(is_held) {
            return false;
        }
        let free = nodes.iter().cloned().map(|node| NodeView { held_by: None, ..node });
        let free: Vec<NodeView> = free.collect();
        let answer = self.solve(proposal, &free, profiles);
        answer.is_ok_and(|answer| matches!(answer.status, Status::Optimal | Status::Feasible))
    }

    /// Why there is no plan, and what there would be instead.
    fn why(&self, proposal: &Proposal, nodes: &[NodeView], answer: &Answer) -> Vec<String> {
        let mut why = Vec::new();
        if answer.status == Status::Unknown {
            why.push(format!("no plan was found in {} steps", self.steps));
        }
        let its = nodes.iter().filter(|node| node.slice == proposal.slice);
        let (held, free): (Vec<_>, Vec<_>) = its.partition(|node| node.held_by.is_some());
        why.push(format!("slice `{}` has {} nodes that no plan holds", proposal.slice, free.len()));
        for node in held {
            if let Some(plan) = node.held_by {
                why.push(format!("{} is held by plan {plan}", node.name));
            }
        }
        if free.is_empty() {
            return why;
        }
        if let Some(reasons) = &answer.why {
            if !reasons.parts.is_empty() {
                why.push(format!("no plan has these parts together: {}", reasons.parts.join(", ")));
            }
            why.extend(reasons.reasons.iter().cloned());
        }
        why.extend(answer.offers.iter().map(|offer| format!("possible instead: {}", offer.change)));
        why
    }
}

/// A plan with the profiles of the packages in it.
fn placed(proposal: &Proposal, answer: Answer, profiles: Vec<Profile>, proven: bool) -> PlanAnswer {
    let placement = NodePlacement::from(answer.plan);
    let others = answer.alternatives.into_iter().map(|other| other.plan.into()).collect();
    let installed = placement.install.values().flatten();
    let of_parts = proposal.wanted.parts.iter().filter_map(|part| part.package.as_ref());
    let named: BTreeSet<&String> = installed.chain(of_parts).collect();
    let profiles = profiles.into_iter().filter(|p| named.contains(&p.package)).collect();
    PlanAnswer::Placed(Placed { placement, profiles, proven, others })
}

impl Entry {
    fn profile(&self) -> Profile {
        let needs = self.needs.iter().map(|(key, amount)| (key.clone(), amount.to_string()));
        let artefact = self.artefact.as_ref().map(|file| Artefact {
            file: file.clone(),
            sha256: self.sha256.clone().unwrap_or_default(),
            program: self.program.clone(),
        });
        Profile {
            package: self.package.to_string(),
            needs: needs.collect(),
            condition: self.condition.as_ref().map(ToString::to_string),
            software: self.software.iter().map(ToString::to_string).collect(),
            depends: self.depends.iter().map(ToString::to_string).collect(),
            artefact,
        }
    }
}

/// Reads what is known of packages: each once, and what is to be unpacked with its hash.
fn catalogue<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Entry>, D::Error> {
    let entries: Vec<Entry> = Deserialize::deserialize(deserializer)?;
    let mut known = BTreeSet::new();
    for entry in &entries {
        let wrong =
            |what: &str| Err(D::Error::custom(format!("package {}: {what}", entry.package)));
        if !known.insert(&entry.package) {
            return wrong("it is there twice");
        }
        let is_hash = |text: &str| text.len() == 64 && text.chars().all(|c| c.is_ascii_hexdigit());
        match (&entry.artefact, &entry.sha256) {
            (Some(_), Some(hash)) if is_hash(hash) => {}
            (Some(_), Some(_) | None) => {
                return wrong("an `artefact` needs its `sha256`, 64 hexadecimal digits");
            }
            (None, None) if entry.program.is_empty() => {}
            (None, Some(_) | None) => {
                return wrong("`sha256` and `program` are of an `artefact`, and there is none");
            }
        }
    }
    Ok(entries)
}

/// What is left for the next plan of the round.
fn hold(nodes: &mut [NodeView], plan: u64, placement: &NodePlacement) {
    let used: BTreeSet<&String> = placement.nodes().collect();
    for node in nodes.iter_mut().filter(|node| used.contains(&node.name)) {
        node.held_by = Some(plan);
    }
}
