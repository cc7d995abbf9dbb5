//! Plans of packages: guests ask for them over the nodes of their leases, accept them or not, report what no driver
//! installs, and release some.

use std::collections::BTreeMap;

use tenure_core::actor::Role;
use tenure_core::model::name::Name;
use tenure_core::model::time::Span;
use tenure_core::runtime::AnyActor;
use tenure_core::service_manager::Command;
use tenure_core::service_manager::facts::{Fact, PlanProposed};
use tenure_core::service_manager::plan::{
    NodeType, OnFailure, PackageReport, PlanCommand, PlanRequest, WantedPackages, WantedPart,
};

use super::world::World;

/// A package that the guest's driver installs, and one that its user does.
const PACKAGES: [&str; 2] = ["sim/driven/1.0/main/1.0", "sim/by-hand/1.0/main/1.0"];

/// What guests know of packages.
pub(super) const CATALOGUE: &str = r#"
steps = 200
alternatives = 1
[[package]]
package = "sim/driven/1.0/main/1.0"
artefact = "driven.tar.gz"
sha256 = "0000000000000000000000000000000000000000000000000000000000000000"
program = ["./install"]
[[package]]
package = "sim/by-hand/1.0/main/1.0"
"#;

/// What a long simulation must show of plans.
#[expect(clippy::wildcard_enum_match_arm, reason = "all others show nothing of plans")]
fn point(fact: &Fact) -> Option<&'static str> {
    match fact {
        Fact::PlanLeasing(fact) if fact.nodes.is_empty() => Some("a plan lacks all of its nodes"),
        Fact::PlanLeasing(_) => Some("a plan lacks some of its nodes"),
        Fact::PlanLeased(_) => Some("a plan gets the nodes that it lacks"),
        _ => None,
    }
}

impl World {
    /// Nodes are planned for as they come, and plans have lives of their own.
    pub(super) fn handle_plans(&mut self, who: usize, fact: &Fact) {
        if let Some(point) = point(fact) {
            self.watch.point(point);
        }
        if self.healed {
            if let Fact::PlanRequested(fact) = fact {
                self.plan_soon(who, PlanCommand::Release { plan: fact.plan });
            }
            return;
        }
        if let Fact::Joined(_) = fact {
            if self.plans.percent(10) {
                self.propose(who);
            }
        } else if let Fact::PlanProposed(fact) = fact {
            self.decide(who, fact);
        } else if let Fact::PlanEnded(fact) = fact
            && self.plans.percent(30)
        {
            self.plan_soon(who, PlanCommand::Release { plan: fact.plan });
        }
    }

    /// Every plan is given up in the end: as long as its packages are there, so are leases that were made for it.
    pub(super) fn give_plans_up(&mut self) {
        for who in self.of_role(Role::ServiceManager) {
            let folded = self.participants[who].folded();
            let AnyActor::ServiceManager(guest) = &folded else { continue };
            for plan in guest.plans().map(|plan| plan.plan).collect::<Vec<_>>() {
                // By then all are up again.
                let at = self.now.plus(self.setting.term);
                let at = at.plus(self.plans.span(Span::ZERO, self.setting.term));
                self.command(at, who, Command::Plan(PlanCommand::Release { plan }));
            }
        }
    }

    /// Some command about plans, within a term.
    fn plan_soon(&mut self, who: usize, command: PlanCommand) {
        let at = self.now.plus(self.plans.span(Span::ZERO, self.setting.term));
        self.command(at, who, Command::Plan(command));
    }

    fn propose(&mut self, who: usize) {
        let now = self.participants[who].time(self.now);
        let term = self.setting.term;
        let until = now.plus(self.plans.span(Span::SECOND, term.times(2)));
        let slice = Name::literal(if self.plans.percent(90) { "main" } else { "taken" });
        let parts = (0..=self.plans.below(3)).map(|number| {
            let package = self.plans.pick(&PACKAGES).map(|package| (*package).to_owned());
            WantedPart {
                count: self.plans.percent(30).then_some(2),
                package,
                reuse: self.plans.percent(30),
                ..WantedPart::new(&format!("part-{number}"))
            }
        });
        let parts = parts.collect();
        let node = NodeType { count: self.plans.count(0, 3), ..NodeType::default() };
        let nodes = BTreeMap::from([(Name::literal("node"), node)]);
        let wanted = WantedPackages { nodes, parts, ..WantedPackages::default() };
        let on_failure = match self.plans.below(3) {
            0 => OnFailure::Keep,
            1 => OnFailure::RollBack,
            _ => OnFailure::Replan,
        };
        let accept = self.plans.percent(30);
        // Some plan for more nodes than there are.
        let lease = self.plans.percent(50).then(|| self.plans.span(Span::SECOND, term));
        let request =
            PlanRequest { wanted, on_failure, accept, lease, ..PlanRequest::new(slice, until) };
        self.plan_soon(who, PlanCommand::Propose(Box::new(request)));
    }

    /// A plan is accepted or released, or nobody cares; what its user installs is reported, mostly.
    fn decide(&mut self, who: usize, fact: &PlanProposed) {
        let plan = fact.plan;
        match self.plans.below(10) {
            0..7 => self.plan_soon(who, PlanCommand::Accept { plan }),
            7 => self.plan_soon(who, PlanCommand::Release { plan }),
            _ => {}
        }
        for (node, packages) in &fact.placed.placement.install {
            for package in packages.iter().filter(|package| *package == PACKAGES[1]) {
                let error = self.plans.percent(20).then(|| "it does not start".to_owned());
                let (node, package) = (node.clone(), package.clone());
                let reports = vec![PackageReport { node, package, error }];
                self.plan_soon(who, PlanCommand::Report { plan, reports });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use tenure_core::mapper::registry::Registry;

    use super::*;

    #[test]
    fn the_mapper_of_guests_reads_the_catalogue() {
        let settings = toml::Value::Table(CATALOGUE.parse().unwrap());
        let mut settings = <dyn erased_serde::Deserializer<'_>>::erase(settings);
        assert!(Registry::default().service_manager("deploy", &mut settings).is_ok());
    }
}
