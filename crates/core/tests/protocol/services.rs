//! Services of a guest: what is measured counts for a while, what is not known takes nothing away.

use std::collections::BTreeMap;

use tenure_core::driver::UnitId;
use tenure_core::model::codec;
use tenure_core::model::name::Name;
use tenure_core::model::percent::Percent;
use tenure_core::model::time::Span;
use tenure_core::runtime::Input;
use tenure_core::service::definition::Definition;
use tenure_core::service::kpi::Kpis;
use tenure_core::service::member::Members;
use tenure_core::service::slo::{Met, Slo};
use tenure_core::service::state::State;
use tenure_core::service_manager::Command;
use tenure_core::service_manager::services::{Found, MAX_SERVICES, ServiceCommand, ServiceView};
use tenure_core::wire::proviso::MAX_EXCLUDED;
use tenure_expr::{Expr, Quantity};

use crate::common::world::{Scene, World};
use crate::common::{GUEST, SITE, id as id_of};

fn batch() -> Name {
    Name::literal("batch")
}

/// Every input is compared with a recovery, and the laws look on.
fn world() -> World {
    Scene { suspicious: true, audited: true, ..Scene::default() }.open()
}

/// Wants a unit for each that is busy, and one for each that is pending while the load is 3 or more.
fn definition() -> Definition {
    let slo = |rule: Option<&str>, want: &str, urgency| Slo {
        rule: rule.map(|rule| Expr::parse_measured(rule).unwrap()),
        want: Expr::parse_measured(want).unwrap(),
        urgency,
        resource: Name::literal("node"),
        requirement: None,
    };
    let wait = slo(Some("load < 3"), "busy-units + pending-units", 55);
    let slo = [(Name::literal("busy"), slo(None, "busy-units", 60)), (Name::literal("wait"), wait)];
    Definition { slo: slo.into(), ..Definition::default() }
}

fn define(definition: Definition) -> Command {
    Command::Service(ServiceCommand::Define { service: batch(), definition: Box::new(definition) })
}

fn report(values: &[(&str, i64)], seen: Found) -> Command {
    let mut kpis = Kpis::default();
    for (name, value) in values {
        assert!(kpis.insert(name.parse().unwrap(), Quantity::number(*value)));
    }
    let (busy, members) = (BTreeMap::new(), Members::default());
    Command::Service(ServiceCommand::Report { service: batch(), kpis, seen, busy, members })
}

const LOADED: &[(&str, i64)] = &[("busy-units", 2), ("load", 5), ("pending-units", 3)];

fn defined() -> World {
    let mut world = world();
    world.command(GUEST, define(definition()));
    world
}

fn view(world: &World) -> ServiceView {
    world.guest(GUEST).services().remove(0)
}

/// How many units it wants and claims.
fn wanted(world: &World) -> (u32, u32) {
    let view = view(world);
    (view.demands[0].steps.units(), view.demands[0].steps.claimed(0))
}

fn met(world: &World, slo: &'static str) -> Met {
    let service = world.guest(GUEST).service(&batch()).unwrap();
    service.assessed[&Name::literal(slo)].assessment.met
}

fn refused(world: &mut World, command: Command) -> String {
    let problems = world.hand(GUEST, Input::Command(command.into())).problems;
    problems.iter().map(ToString::to_string).collect()
}

#[test]
fn what_was_measured_says_what_is_wanted_and_claimed() {
    let mut world = defined();
    assert_eq!((view(&world).state, met(&world, "wait")), (State::Unknown, Met::Unknown));
    world.command(GUEST, report(LOADED, Found::Running));
    assert_eq!((view(&world).state, met(&world, "wait")), (State::Running, Met::No));
    assert_eq!(wanted(&world), (5, 5));
    world.command(
        GUEST,
        report(&[("busy-units", 2), ("load", 1), ("pending-units", 3)], Found::Running),
    );
    assert_eq!((wanted(&world), met(&world, "wait")), ((5, 2), Met::Yes), "nothing waits too long");
}

#[test]
fn what_is_not_known_any_more_takes_nothing_away_and_claims_nothing() {
    let mut world = defined();
    world.command(GUEST, report(LOADED, Found::Running));
    world.advance(119);
    assert_eq!(view(&world).state, State::Running);
    world.advance(121);
    assert_eq!((view(&world).state, wanted(&world)), (State::Unknown, (5, 0)));
    assert_eq!((met(&world, "busy"), met(&world, "wait")), (Met::Standing, Met::Unknown));
}

#[test]
fn what_says_nothing_new_is_recorded_only_so_that_it_goes_on_to_count() {
    let mut world = defined();
    let count = |world: &World| world.count(GUEST, "service-manager.service-reported");
    for round in 1..=13 {
        world.command(GUEST, report(LOADED, Found::Running));
        world.advance(10 * round);
    }
    assert_eq!((count(&world), view(&world).state), (3, State::Running));
    world.command(GUEST, report(LOADED, Found::Failed));
    assert_eq!((count(&world), view(&world).state), (4, State::Error));
}

#[test]
fn an_slo_that_is_not_there_any_more_wants_nothing() {
    let mut world = defined();
    world.command(GUEST, report(LOADED, Found::Running));
    let mut less = definition();
    less.slo.retain(|name, _| name.as_str() == "busy");
    world.command(GUEST, define(less.clone()));
    assert_eq!(wanted(&world), (2, 2));
    let before = world.position(GUEST);
    world.command(GUEST, define(less));
    assert_eq!(world.position(GUEST), before, "nothing has changed");
}

#[test]
fn a_service_is_removed_unless_it_runs() {
    let mut world = defined();
    let remove = || Command::Service(ServiceCommand::Remove { service: batch() });
    world.command(GUEST, report(LOADED, Found::Running));
    assert!(refused(&mut world, remove()).contains("batch is running"));
    world.command(GUEST, report(&[], Found::Stopped));
    world.command(GUEST, remove());
    assert!(world.guest(GUEST).services().is_empty());
    assert!(refused(&mut world, remove()).contains("no service `batch`"));
    assert!(refused(&mut world, report(&[], Found::Running)).contains("no service `batch`"));
    // Its timer is gone with it.
    world.advance(121);
}

#[test]
fn a_definition_that_cannot_be_followed_and_one_too_many_are_refused() {
    let mut world = world();
    let mut bad = definition();
    bad.behaviour.term = Span::ZERO;
    assert!(refused(&mut world, define(bad)).contains("`term` is zero"));
    let many: BTreeMap<String, String> =
        (0..=Kpis::MAX_COUNT).map(|number| (format!("k{number}"), "1".to_owned())).collect();
    world.command(GUEST, define(definition()));
    let (kpis, seen) = (codec::decode(&codec::encode(&many)).unwrap(), Found::Running);
    let (busy, members) = (BTreeMap::new(), Members::default());
    let report = ServiceCommand::Report { service: batch(), kpis, seen, busy, members };
    let report = Command::Service(report);
    assert!(refused(&mut world, report).contains("256 KPIs at most, not 257"));
    let mut world = Scene::default().open();
    for number in 0..MAX_SERVICES {
        let service = Name::new(&format!("s{number}")).unwrap();
        let definition = Box::new(Definition::default());
        world.command(GUEST, Command::Service(ServiceCommand::Define { service, definition }));
    }
    assert!(refused(&mut world, define(definition())).contains("no more are kept"));
}

#[test]
fn what_changes_little_is_not_recorded_unless_an_slo_is_judged_otherwise_by_it() {
    let mut world = world();
    let mut lazy = definition();
    lazy.behaviour.deadband = Percent(10);
    world.command(GUEST, define(lazy));
    let mut measured = |load: i64, pending: i64| {
        let kpis = [("busy-units", 2), ("load", load), ("pending-units", pending), ("jobs", 100)];
        world.command(GUEST, report(&kpis, Found::Running));
        world.count(GUEST, "service-manager.service-reported")
    };
    assert_eq!(measured(100, 5), 1);
    assert_eq!(measured(110, 5), 1, "a tenth is no news");
    assert_eq!(measured(111, 5), 2);
    assert_eq!(measured(111, 6), 3, "it wants another unit");
}

#[test]
fn a_service_that_starts_or_stops_asks_for_nothing_and_loses_nothing() {
    let mut world = defined();
    world.command(GUEST, report(LOADED, Found::Starting));
    assert_eq!(view(&world).state, State::Starting);
    let remove = Command::Service(ServiceCommand::Remove { service: batch() });
    assert!(refused(&mut world, remove.clone()).contains("batch is starting"));
    world.command(GUEST, report(LOADED, Found::Shutdown));
    assert_eq!(view(&world).state, State::Shutdown);
    world.command(GUEST, remove);
    assert!(world.guest(GUEST).services().is_empty());
}

#[test]
fn a_unit_that_was_blacklisted_long_enough_leaves_room_for_another() {
    let mut world = defined();
    let most = MAX_EXCLUDED;
    let blacklist = |world: &World, unit: usize| {
        let unit = (id_of(SITE), UnitId(u32::try_from(unit).unwrap()));
        let until = Some(world.now.plus(Span::MINUTE));
        Command::Service(ServiceCommand::Blacklist { service: batch(), unit, until })
    };
    for unit in 0..most {
        let command = blacklist(&world, unit);
        world.command(GUEST, command);
    }
    let another = blacklist(&world, most);
    assert!(refused(&mut world, another).contains("64 units at most"));
    world.advance(61);
    let another = blacklist(&world, most);
    world.command(GUEST, another);
    let service = world.guest(GUEST).service(&batch()).unwrap();
    assert_eq!(service.blacklisted.len(), 1);
}
