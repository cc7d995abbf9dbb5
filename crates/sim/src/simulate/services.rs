//! Services of guests: they are defined, measured, stopped and forgotten, while brokers move units between them.

use std::collections::{BTreeMap, BTreeSet};

use tenure_core::actor::Role;
use tenure_core::broker::facts as broker;
use tenure_core::broker::mapper::{BrokerMapper, Budget};
use tenure_core::broker::orders::OrderOutcome;
use tenure_core::driver::{Call, Step};
use tenure_core::mapper::registry::Registry;
use tenure_core::mapper::slo::Slo as Follower;
use tenure_core::mapper::urgency::policy::Known;
use tenure_core::mapper::urgency::{Recalls, Urgency};
use tenure_core::model::name::Name;
use tenure_core::model::percent::Percent;
use tenure_core::model::property::Properties;
use tenure_core::model::resource::Expr;
use tenure_core::model::time::Span;
use tenure_core::runtime::AnyActor;
use tenure_core::service::definition::{Behaviour, Definition, Mode};
use tenure_core::service::kpi::Kpis;
use tenure_core::service::member::Members;
use tenure_core::service::slo::Slo;
use tenure_core::service_manager::Command;
use tenure_core::service_manager::mapper::{Decision, ServiceManagerMapper, View};
use tenure_core::service_manager::services::{Found, ServiceCommand, SiteUnit};
use tenure_expr::Quantity;

use super::world::World;

/// The services of each guest, if it has any.
const SERVICES: [&str; 2] = ["pages", "jobs"];

/// How many hosts services tell of.
const HOSTS: u32 = 4;

/// A guest's mapper: that of its plans, and beside it that of its services, which asks one broker.
pub(super) struct PlannerAndFollower {
    planner: Box<dyn ServiceManagerMapper>,
    follower: Box<dyn ServiceManagerMapper>,
}

impl PlannerAndFollower {
    pub(super) fn of(planner: Box<dyn ServiceManagerMapper>, broker: &Name) -> Self {
        let settings = toml::Table::from_iter([("broker".to_owned(), broker.as_str().into())]);
        let settings = toml::Value::Table(settings);
        let mut settings = <dyn erased_serde::Deserializer<'_>>::erase(settings);
        let follower = Registry::default().service_manager("slo", &mut settings);
        let follower = follower.unwrap_or_else(|_| Box::new(Follower::default()));
        Self { planner, follower }
    }
}

impl ServiceManagerMapper for PlannerAndFollower {
    fn decide(&self, view: &View) -> Decision {
        let Decision { asks, revisions, extensions, flexes, closes, memo, wake, .. } =
            self.follower.decide(view);
        let mut plans = self.planner.decide(view);
        plans.asks.extend(asks);
        plans.revisions.extend(revisions);
        plans.extensions.extend(extensions);
        plans.flexes.extend(flexes);
        plans.closes.extend(closes);
        let wake = plans.wake.into_iter().chain(wake).min();
        Decision { memo, wake, ..plans }
    }
}

/// The mapper of brokers that move units between services. Leases last for `term`.
pub(super) fn mover(term: Span) -> Box<dyn BrokerMapper> {
    let part = |n: i64| Span::from_micros(term.as_micros() / n);
    let budget = Some(Budget { percent: 50, window: term.min(Span::DAY) });
    let stable_for = part(60).min(Span::HOUR);
    let recalls = Recalls { min_tenure: part(10), budget, stable_for, ..Recalls::default() };
    Box::new(Urgency::new(Known::default()).with_recalls(recalls))
}

/// What a long simulation must show of orders.
#[expect(clippy::wildcard_enum_match_arm, reason = "all others show nothing of orders")]
fn point(fact: &broker::Fact) -> Option<&'static str> {
    match fact {
        broker::Fact::OrderPlaced(_) => Some("units are ordered for a service"),
        broker::Fact::OrderEnded(fact) => Some(match fact.outcome {
            OrderOutcome::Delivered => "an order is delivered",
            OrderOutcome::Cancelled => "an order is cancelled",
        }),
        _ => None,
    }
}

impl World {
    /// Notes what brokers do with services.
    pub(super) fn handle_orders(&mut self, fact: &broker::Fact) {
        if let Some(point) = point(fact) {
            self.watch.point(point);
        }
    }

    /// Some guest defines, measures or forgets a service.
    pub(super) fn tend_services(&mut self) {
        if !self.setting.services || self.healed || !self.services.percent(70) {
            return;
        }
        let guests = self.of_role(Role::ServiceManager);
        let Some(&who) = self.services.pick(&guests) else { return };
        let service = Name::literal(SERVICES[self.services.below(SERVICES.len())]);
        let command = match self.services.below(20) {
            0 | 1 => ServiceCommand::Define { service, definition: self.definition() },
            2 | 3 => ServiceCommand::Remove { service },
            4 => self.blacklist(who, service),
            _ => self.report(who, service),
        };
        self.report_twice(who, &command);
        self.service_soon(who, command);
    }

    /// Both services of a guest are measured.
    pub(super) fn report_all(&mut self, who: usize) {
        for service in SERVICES.map(Name::literal) {
            let report = self.report(who, service);
            self.service_soon(who, report);
        }
    }

    /// Every guest begins with its services.
    pub(super) fn define_services(&mut self) {
        if !self.setting.services {
            return;
        }
        for who in self.of_role(Role::ServiceManager) {
            for service in SERVICES.map(Name::literal) {
                let definition = self.definition();
                self.service_soon(who, ServiceCommand::Define { service, definition });
            }
        }
    }

    /// All services are stopped and forgotten in the end, so that their leases end.
    pub(super) fn stop_services(&mut self) {
        if !self.setting.services {
            return;
        }
        for who in self.of_role(Role::ServiceManager) {
            for service in SERVICES.map(Name::literal) {
                let report = ServiceCommand::Report {
                    service: service.clone(),
                    kpis: Kpis::default(),
                    seen: Found::Stopped,
                    busy: BTreeMap::new(),
                    members: Members::default(),
                };
                // By then all are up again, and what was said of services before has come.
                let at = self.now.plus(self.setting.term);
                self.command(at, who, Command::Service(report));
                let remove = Command::Service(ServiceCommand::Remove { service });
                self.command(at.plus(Span::SECOND), who, remove);
            }
        }
    }

    fn service_soon(&mut self, who: usize, command: ServiceCommand) {
        let most = Span::from_micros(self.setting.term.as_micros() / 2);
        let at = self.now.plus(self.services.scaled(Span::SECOND, most));
        self.command(at, who, Command::Service(command));
    }

    fn definition(&mut self) -> Box<Definition> {
        let (term, sampler) = (self.setting.term, &mut self.services);
        let part = |n: i64| Span::from_micros((term.as_micros() / n).max(1));
        let slo = |rule: Option<&str>, want: &str, urgency| {
            Some(Slo {
                rule: rule.map(Expr::parse_measured).transpose().ok()?,
                want: Expr::parse_measured(want).ok()?,
                urgency,
                resource: Name::literal("node"),
                requirement: None,
            })
        };
        let slos = [
            ("busy", slo(None, "busy", sampler.count(0, 80))),
            ("wait", slo(Some("pending < 2"), "busy + pending", sampler.count(0, 80))),
        ];
        let slo = slos.into_iter().filter_map(|(name, slo)| Some((Name::literal(name), slo?)));
        let behaviour = Behaviour {
            mode: match sampler.below(20) {
                0 => Mode::Unmanaged,
                1 => Mode::Advise,
                _ => Mode::Managed,
            },
            most: sampler.percent(30).then(|| sampler.count(1, 4)),
            least: 0,
            term,
            idle_after: part(4),
            stale_after: if sampler.percent(30) { part(2) } else { term.times(2) },
            recallable: sampler.percent(85),
            notice: sampler.scaled(Span::SECOND, part(8)),
            min_tenure: sampler.scaled(Span::SECOND, part(4)),
            deadband: Percent(if sampler.percent(30) { sampler.count(1, 50) } else { 0 }),
            blacklist_for: part(3),
            ..Behaviour::default()
        };
        Box::new(Definition { slo: slo.collect(), behaviour, ..Definition::default() })
    }

    fn blacklist(&mut self, who: usize, service: Name) -> ServiceCommand {
        let units: Vec<SiteUnit> = self.units_of(who).into_iter().collect();
        let sampler = &mut self.services;
        let Some(unit) = sampler.pick(&units).copied() else { return self.report(who, service) };
        let until = sampler.percent(70).then(|| self.now.plus(self.setting.term));
        ServiceCommand::Blacklist { service, unit, until }
    }

    /// The units that a guest has.
    pub(super) fn units_of(&self, who: usize) -> BTreeSet<SiteUnit> {
        match self.participants[who].actor() {
            Some(AnyActor::ServiceManager(guest)) => {
                guest.joined_units().map(|joined| (joined.site, joined.unit)).collect()
            }
            Some(_) | None => BTreeSet::new(),
        }
    }

    fn report(&mut self, who: usize, service: Name) -> ServiceCommand {
        let (all, taken_out) = (self.units_of(who), &self.nodes.taken_out);
        let units: Vec<_> =
            all.iter().filter(|unit| !taken_out.has(who, **unit)).copied().collect();
        let missing = i64::try_from(all.len() - units.len()).unwrap_or(0);
        let sampler = &mut self.services;
        let mut kpis = Kpis::default();
        for (kpi, most) in [("busy", 4), ("pending", 5)] {
            // Some are not measured.
            if let Some(kpi) = kpi.parse().ok().filter(|_| sampler.percent(95)) {
                let value = sampler.between(0, most);
                kpis.insert(kpi, Quantity::number(value.saturating_sub(missing).max(0)));
            }
        }
        let seen = match sampler.below(20) {
            0 => Found::Failed,
            1 => Found::Stopped,
            2 => Found::Starting,
            3 => Found::Shutdown,
            _ => Found::Running,
        };
        let busy = units.into_iter().filter(|_| sampler.percent(50));
        // Of some it is not known how much would be lost.
        let busy = busy.map(|unit| (unit, u64::from(unit.1.0 % 4))).collect();
        let members = self.members();
        ServiceCommand::Report { service, kpis, seen, busy, members }
    }

    /// Some units that are set up have a host that services may tell of, too.
    pub(super) fn with_host(&self, call: &Call, said: Properties) -> Properties {
        if !self.setting.services || call.step != Step::Setup || call.unit.0 % HOSTS != HOSTS - 1 {
            return said;
        }
        let host = (Name::literal("host.name"), format!("host{}", HOSTS - 1));
        Properties::try_from(BTreeMap::from([host])).unwrap_or(said)
    }

    /// Hosts that take part in a service without a lease.
    fn members(&mut self) -> Members {
        let (mut members, sampler) = (Members::default(), &mut self.services);
        for _ in 0..sampler.below(3) {
            let name = format!("host{}", sampler.below(HOSTS as usize));
            // So short a name is one.
            drop(members.insert(&name, sampler.percent(80)));
        }
        members
    }
}
