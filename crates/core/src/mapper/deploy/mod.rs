//! `deploy`: packages on the nodes of a slice, planned by `tenure-plan`.

mod leases;

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use serde::de::{Deserializer, Error as _};
use tenure_plan::{Amount, Answer, Package, Problem, Settings, Software, Solver, Status, solve};

use crate::model::name::Name;
use crate::model::resource::Expr;
use crate::model::time::Span;
use crate::service_manager::mapper::{
    Decision, NodePlacement, NodeView, Placed, PlanAnswer, PlanChoice, Profile, Proposal,
    ServiceManagerMapper, View,
};
use crate::service_manager::plan::{Artefact, problem};

/// The most nodes of a type that are leased for a plan.
const MAX_LEASED: u32 = 1000;

/// Plans packages over the nodes that no other plan holds, and where a request says so, over nodes that it leases:
/// as few as will do. Those it keeps as long as plans use them. It keeps no memo.
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
    /// Whom to ask for nodes; the first by name unless one is named.
    broker: Option<Name>,
    /// How long before its end a lease of nodes that are in use is extended; half of its length at most.
    #[serde(deserialize_with = "super::lasting")]
    extend_before: Span,
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
        Self {
            package: Vec::new(),
            solver: Solver::Auto,
            steps: Settings::STEPS,
            alternatives: 2,
            broker: None,
            extend_before: Span::MINUTE.times(10),
        }
    }
}

impl ServiceManagerMapper for Deploy {
    fn decide(&self, view: &View) -> Decision {
        let mut nodes = view.nodes().to_vec();
        let mut taken = BTreeSet::new();
        let choose = |proposal: &Proposal| {
            let answer = self.plan(proposal, &nodes, view);
            let used: BTreeSet<&String> = match &answer {
                PlanAnswer::Placed(placed) => placed.placement.nodes().collect(),
                PlanAnswer::Lease { nodes, .. } => nodes.iter().collect(),
                PlanAnswer::None(_) | PlanAnswer::Busy(_) => BTreeSet::new(),
            };
            // What is left for the next plan of the round.
            for node in nodes.iter_mut().filter(|node| used.contains(&node.name)) {
                node.held_by = Some(proposal.plan);
                taken.insert((node.lease, node.unit));
            }
            PlanChoice { plan: proposal.plan, answer }
        };
        let plans = view.proposals().iter().map(choose).collect();
        let mut decision = Decision { round: view.round(), plans, ..Decision::default() };
        self.tend(view, &taken, &mut decision);
        decision
    }
}

/// Over what a plan is made.
#[derive(Clone, Copy)]
struct Over<'a> {
    proposal: &'a Proposal,
    nodes: &'a [NodeView],
    profiles: &'a [Profile],
}

impl Deploy {
    /// The best plan of a proposal: over the nodes that there are, or else with as few more as will do.
    fn plan(&self, proposal: &Proposal, nodes: &[NodeView], view: &View) -> PlanAnswer {
        let profiles: Vec<Profile> = self.package.iter().map(Entry::profile).collect();
        let over = Over { proposal, nodes, profiles: &profiles };
        let answer = match self.solve(over, 0) {
            Ok((_, answer)) => answer,
            Err(error) => return PlanAnswer::None(vec![error]),
        };
        match answer.status {
            Status::Optimal => placed(proposal, answer, profiles, true),
            Status::Feasible => placed(proposal, answer, profiles, false),
            Status::Infeasible | Status::Unknown => match self.with_fewest(over) {
                Some((problem, answer)) => {
                    let lacking = leases::lacking(self, proposal, (&problem, &answer), view);
                    lacking.unwrap_or_else(|error| PlanAnswer::None(vec![error]))
                }
                None => {
                    let most = self.solve(over, MAX_LEASED).map_or(answer, |(_, answer)| answer);
                    let why = self.why(proposal, nodes, &most);
                    if self.is_busy(over) { PlanAnswer::Busy(why) } else { PlanAnswer::None(why) }
                }
            },
        }
    }

    /// A plan with the fewest nodes of each type that are to be leased, if that is allowed and will do.
    fn with_fewest(&self, over: Over<'_>) -> Option<(Problem, Answer)> {
        if !over.proposal.leases {
            return None;
        }
        let found = |leasable| {
            let (problem, answer) = self.solve(over, leasable).ok()?;
            has_plan(&answer).then_some((problem, answer))
        };
        let most = over.proposal.wanted.nodes.values().map(|kind| kind.count).max()?;
        let mut best = found(most.min(MAX_LEASED))?;
        // With more nodes there is no less of a plan.
        let (mut too_few, mut enough) = (0, most.min(MAX_LEASED));
        while enough - too_few > 1 {
            let middle = too_few + (enough - too_few) / 2;
            match found(middle) {
                Some(plan) => (best, enough) = (plan, middle),
                None => too_few = middle,
            }
        }
        Some(best)
    }

    fn solve(&self, over: Over<'_>, leasable: u32) -> Result<(Problem, Answer), String> {
        let Over { proposal, nodes, profiles } = over;
        let leasable = if proposal.leases { leasable } else { 0 };
        let problem = problem(proposal, nodes.iter(), leasable, profiles)?;
        let settings = Settings {
            solver: self.solver,
            steps: self.steps,
            alternatives: self.alternatives,
            explain: true,
        };
        let answer = solve(&problem, &settings).map_err(|error| error.to_string())?;
        Ok((problem, answer))
    }

    /// Whether there would be a plan if no other plan held nodes.
    fn is_busy(&self, over: Over<'_>) -> bool {
        let free = over.nodes.iter().cloned().map(|node| NodeView { held_by: None, ..node });
        let free: Vec<NodeView> = free.collect();
        let mut can_use = over.nodes.iter().zip(&free);
        let is_held = |(node, free): (&NodeView, &NodeView)| {
            over.proposal.can_use(free) && !over.proposal.can_use(node)
        };
        if !can_use.any(is_held) {
            return false;
        }
        let answer = self.solve(Over { nodes: &free, ..over }, MAX_LEASED);
        answer.is_ok_and(|(_, answer)| has_plan(&answer))
    }

    /// Why there is no plan, and what there would be instead.
    fn why(&self, proposal: &Proposal, nodes: &[NodeView], answer: &Answer) -> Vec<String> {
        let mut why = Vec::new();
        if answer.status == Status::Unknown {
            why.push(format!("no plan was found in {} steps", self.steps));
        }
        let its = nodes.iter().filter(|node| proposal.covers(&node.slice));
        let (free, held): (Vec<_>, Vec<_>) = its.partition(|node| proposal.can_use(node));
        let others = proposal.scope.iter().map(|slice| format!(" and `{slice}`"));
        let (slice, others, free_nodes) = (&proposal.slice, others.collect::<String>(), free.len());
        why.push(format!("slice `{slice}`{others} has {free_nodes} nodes that no plan holds"));
        for node in held {
            if let Some(plan) = node.held_by {
                why.push(format!("{} is held by plan {plan}", node.name));
            }
        }
        if proposal.leases {
            let kinds = proposal.wanted.nodes.iter();
            let kinds = kinds.map(|(resource, kind)| format!("{} {resource}", kind.count));
            why.push(format!("could be leased: {}", kinds.collect::<Vec<_>>().join(", ")));
        } else if free.is_empty() {
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

fn has_plan(answer: &Answer) -> bool {
    matches!(answer.status, Status::Optimal | Status::Feasible)
}
