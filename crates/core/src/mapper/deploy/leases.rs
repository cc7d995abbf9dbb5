//! The leases of nodes that plans lacked: what to ask for, what to keep, and what to give back.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;

use tenure_plan::{Answer, Problem};

use super::Deploy;
use crate::driver::UnitId;
use crate::model::name::Name;
use crate::model::resource::{Constraints, Expr};
use crate::model::slice::LeaseId;
use crate::model::time::{Span, Time};
use crate::service_manager::Victims;
use crate::service_manager::mapper::{
    Decision, Extend, Flex, Lacking, LeaseView, PlanAnswer, PlanLease, Proposal, Stage, View,
};
use crate::service_manager::plan::{RESOURCE, new_nodes};
use crate::wire::request::Item;

/// When a lease that is changing now is looked at again.
const LATER: Span = Span::MINUTE;

/// A plan with nodes that are to be leased.
pub(super) fn lacking(
    deploy: &Deploy,
    proposal: &Proposal,
    (problem, answer): (&Problem, &Answer),
    view: &View,
) -> Result<PlanAnswer, String> {
    let is_asked = |name: &Name| deploy.broker.as_ref().is_none_or(|wanted| wanted == name);
    let broker = view.brokers().find(|(name, _)| is_asked(name)).map(|(_, id)| id);
    if let (Some(wanted), None) = (&deploy.broker, broker) {
        return Err(format!("no broker {wanted} is known"));
    }
    let items = items(proposal, problem, answer);
    let used = answer.plan.placement.values().flatten().chain(answer.plan.install.keys());
    let is_new = |name: &&String| resource_of(proposal, name).is_some();
    let nodes: BTreeSet<&String> = used.filter(|name| !is_new(name)).collect();
    let reason = format!("plan {} lacks nodes", proposal.plan);
    Ok(PlanAnswer::Lease {
        nodes: nodes.into_iter().cloned().collect(),
        lacking: Lacking { items, broker, reason },
    })
}

/// The units to ask for: those of one type whose parts ask for the same are one item.
fn items(proposal: &Proposal, problem: &Problem, answer: &Answer) -> Vec<Item> {
    let mut needed: BTreeMap<&String, (&Name, BTreeSet<&Expr>)> = BTreeMap::new();
    for part in &problem.part {
        let its = answer.plan.placement.get(&part.name).into_iter().flatten();
        for (node, resource) in its.filter_map(|node| Some((node, resource_of(proposal, node)?))) {
            let (_, conditions) = needed.entry(node).or_insert((resource, BTreeSet::new()));
            conditions.extend(&part.condition);
        }
    }
    let mut units: BTreeMap<(&Name, BTreeSet<&Expr>), u32> = BTreeMap::new();
    for kind in needed.into_values() {
        *units.entry(kind).or_default() += 1;
    }
    let item = |((resource, conditions), units): ((&Name, BTreeSet<&Expr>), u32)| {
        let mut requirements = Constraints::NONE;
        // Its type is what is asked for anyway, and a broker has no attribute for it.
        let others = conditions.into_iter().filter(|c| !c.attributes().contains(RESOURCE));
        requirements.extend(others.cloned());
        Some(Item { requirements, ..Item::new(resource.clone(), NonZeroU32::new(units)?) })
    };
    units.into_iter().filter_map(item).collect()
}

/// The type of a node that is to be leased: the solver numbers those of one name.
fn resource_of<'p>(proposal: &'p Proposal, node: &str) -> Option<&'p Name> {
    let (entry, _) = node.rsplit_once('/')?;
    proposal.wanted.nodes.keys().find(|resource| new_nodes(resource) == entry)
}

impl Deploy {
    /// Keeps the leases whose units are in use, those that plans have taken in this round too, and gives the
    /// others back.
    pub(super) fn tend(
        &self,
        view: &View,
        taken: &BTreeSet<(LeaseId, UnitId)>,
        decision: &mut Decision,
    ) {
        for plan_lease in view.plan_leases().iter().filter(|lease| !lease.awaited) {
            let Some(lease) = view.lease(plan_lease.lease) else { continue };
            let is_taken = |unit: &UnitId| taken.contains(&(lease.id, *unit));
            let (more, idle): (Vec<UnitId>, Vec<UnitId>) =
                plan_lease.idle.iter().copied().partition(is_taken);
            let busy = plan_lease.busy.len() + more.len();
            let wake = if busy == 0 {
                decision.closes.push(lease.id);
                None
            } else {
                self.keep(view.now(), (plan_lease, lease), (busy, idle), decision)
            };
            decision.wake = decision.wake.into_iter().chain(wake).min();
        }
    }

    /// Has a lease with some units in use go on without the others; answers when to look at it again.
    fn keep(
        &self,
        now: Time,
        (plan_lease, lease): (&PlanLease, &LeaseView),
        (busy, idle): (usize, Vec<UnitId>),
        decision: &mut Decision,
    ) -> Option<Time> {
        let end = lease.term.end();
        let ahead = self.extend_before.min(half(plan_lease.duration));
        let ends_soon = end <= now.plus(ahead);
        if !lease.changeable() {
            return Some(if ends_soon { later(now, end) } else { now.plus(LATER) });
        }
        let shrink = u32::try_from(idle.len()).ok().and_then(NonZeroU32::new);
        let busy = u32::try_from(busy).ok().and_then(NonZeroU32::new)?;
        if ends_soon {
            let reason = format!("{busy} of its nodes are in use");
            let whole = Extend::whole(lease.id, plan_lease.duration, reason);
            decision.extensions.push(match shrink {
                Some(_) => Extend { units: Some(busy), victims: Victims::Named(idle), ..whole },
                None => whole,
            });
            return Some(later(now, end));
        }
        if let Some(shrink) = shrink.filter(|_| lease.stage == Stage::Active) {
            let (victims, reason) = (Victims::Named(idle), "no plan uses them".to_owned());
            decision.flexes.push(Flex { lease: lease.id, shrink, victims, reason });
        }
        Some(end.minus(ahead))
    }
}

/// When to see whether a lease was extended: ever sooner, the nearer its end is.
fn later(now: Time, end: Time) -> Time {
    let left = half(end.since(now));
    if left < Span::SECOND { end.plus(Span::SECOND) } else { now.plus(left) }
}

fn half(span: Span) -> Span {
    Span::from_micros(span.as_micros() / 2)
}
