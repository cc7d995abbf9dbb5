//! S24: one plan a node at a time, no package without a plan, and every plan ends.

use std::collections::{BTreeMap, BTreeSet};

use super::{Check, Law, LawVerdict, Observation, Scene, Tally};
use tenure_core::driver::{Call, Step, UnitId};
use tenure_core::model::identity::ActorId;
use tenure_core::model::slice::LeaseId;
use tenure_core::model::time::Time;
use tenure_core::service_manager::facts::{Fact, PlanProposed};
use tenure_core::service_manager::plan::PlanNode;

pub(super) const LAW: Law = Law {
    id: "S24",
    name: "plans",
    statement: "From the fact that proposes a plan, or has nodes leased for it, until the one that ends it, no \
                other plan has its nodes. A guest's driver installs a package on a node only while a plan that was accepted has it there, and \
                removes no other. Every plan ends by the time for which it holds its nodes.",
    source: "gCube's node locks; NSI's reserve, commit, timeout",
    on: "facts and driver calls of guests",
};

/// A node of a guest.
type Node = (LeaseId, UnitId);

/// A plan that was asked for.
struct Plan {
    until: Time,
    nodes: BTreeSet<Node>,
    /// The request whose leases are for it.
    leasing: Option<u64>,
    /// What it installs where.
    packages: BTreeSet<(Node, String)>,
    accepted: bool,
    ended: bool,
}

#[derive(Default)]
pub(super) struct Checker {
    plans: BTreeMap<(ActorId, u64), Plan>,
}

impl Check for Checker {
    fn guest(&mut self, scene: &Scene<'_>, fact: &Fact, tally: &mut Tally) -> LawVerdict {
        match fact {
            Fact::PlanRequested(fact) => {
                let plan = Plan {
                    until: fact.request.until,
                    nodes: BTreeSet::new(),
                    leasing: None,
                    packages: BTreeSet::new(),
                    accepted: false,
                    ended: false,
                };
                self.plans.insert((scene.actor, fact.plan), plan);
            }
            Fact::PlanLeasing(fact) => {
                self.check_free(scene, (fact.plan, &fact.nodes), tally)?;
                self.set_nodes(scene, (fact.plan, &fact.nodes), Some(fact.request));
            }
            Fact::PlanProposed(fact) => return self.proposed(scene, fact, tally),
            Fact::PlanAccepted(fact) => {
                if let Some(plan) = self.plans.get_mut(&(scene.actor, fact.plan)) {
                    plan.accepted = true;
                }
            }
            Fact::PackageReported(fact) => {
                let plan = self.plans.get(&(scene.actor, fact.plan));
                let open = plan.is_some_and(|plan| plan.accepted && !plan.ended);
                return tally.check(open, || {
                    let name = scene.name();
                    format!("{name} takes a report on plan {}, which is not accepted", fact.plan)
                });
            }
            Fact::PlanEnded(fact) => {
                if let Some(plan) = self.plans.get_mut(&(scene.actor, fact.plan)) {
                    plan.ended = true;
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn happened(
        &mut self,
        scene: &Scene<'_>,
        seen: &Observation<'_>,
        tally: &mut Tally,
    ) -> LawVerdict {
        match seen {
            Observation::Called { call, .. } if is_of_package(call) => {
                self.called(scene, call, tally)
            }
            Observation::Rested { clock, .. } => self.rested(scene, *clock, tally),
            _ => Ok(()),
        }
    }
}

impl Checker {
    fn of<'a>(&'a self, scene: &Scene<'_>) -> impl Iterator<Item = (u64, &'a Plan)> {
        let range = (scene.actor, 0)..=(scene.actor, u64::MAX);
        self.plans.range(range).map(|((_, number), plan)| (*number, plan))
    }

    fn proposed(
        &mut self,
        scene: &Scene<'_>,
        fact: &PlanProposed,
        tally: &mut Tally,
    ) -> LawVerdict {
        self.check_free(scene, (fact.plan, &fact.nodes), tally)?;
        self.set_nodes(scene, (fact.plan, &fact.nodes), None);
        if let Some(plan) = self.plans.get_mut(&(scene.actor, fact.plan)) {
            for (name, packages) in &fact.placed.placement.install {
                let node = fact.nodes.get(name).map(|node| (node.lease, node.unit));
                let its = packages.iter().filter_map(|package| Some((node?, package.clone())));
                plan.packages.extend(its);
            }
        }
        Ok(())
    }

    /// No other plan has these nodes, or waits for the leases that they are on.
    fn check_free(
        &self,
        scene: &Scene<'_>,
        (plan, nodes): (u64, &BTreeMap<String, PlanNode>),
        tally: &mut Tally,
    ) -> LawVerdict {
        for (name, node) in nodes {
            let has = |other: &Plan| {
                other.nodes.contains(&(node.lease, node.unit))
                    || other.leasing == Some(node.lease.number)
            };
            let mut open = self.of(scene).filter(|(number, p)| *number != plan && !p.ended);
            let holder = open.find(|(_, other)| has(other)).map(|(other, _)| other);
            tally.check(holder.is_none(), || {
                let (who, other) = (scene.name(), holder.unwrap_or_default());
                format!("{who} has node {name} in plan {plan} while plan {other} holds it")
            })?;
        }
        Ok(())
    }

    fn set_nodes(
        &mut self,
        scene: &Scene<'_>,
        (plan, nodes): (u64, &BTreeMap<String, PlanNode>),
        leasing: Option<u64>,
    ) {
        if let Some(plan) = self.plans.get_mut(&(scene.actor, plan)) {
            plan.nodes = nodes.values().map(|node| (node.lease, node.unit)).collect();
            plan.leasing = leasing;
        }
    }

    fn called(&mut self, scene: &Scene<'_>, call: &Call, tally: &mut Tally) -> LawVerdict {
        let package = call.properties.get("package").unwrap_or_default();
        let what = ((call.lease, call.unit), package.to_owned());
        let good = self.of(scene).any(|(_, plan)| {
            let begun = plan.accepted && plan.packages.contains(&what);
            begun && (call.step == Step::Remove || !plan.ended)
        });
        tally.check(good, || {
            let (name, step, unit) = (scene.name(), call.step.word(), call.unit);
            format!("{name} has {step} of {package} on {unit} called, which no plan has there")
        })
    }

    /// An actor has done all that is due by its clock.
    fn rested(&mut self, scene: &Scene<'_>, clock: Time, tally: &mut Tally) -> LawVerdict {
        for (number, plan) in self.of(scene).filter(|(_, plan)| !plan.ended) {
            tally.check(clock < plan.until, || {
                let (name, until) = (scene.name(), plan.until);
                format!("plan {number} of {name} has not ended, though it was to by {until}")
            })?;
        }
        Ok(())
    }
}

fn is_of_package(call: &Call) -> bool {
    matches!(call.step, Step::Install | Step::Remove)
}
