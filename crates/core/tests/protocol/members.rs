//! Members of services without a lease: they count, and are never called on.

use std::collections::BTreeMap;

use tenure_core::actor::effect::DriverResult;
use tenure_core::driver::{Call, Step, UnitId};
use tenure_core::model::name::Name;
use tenure_core::model::slice::LeaseId;
use tenure_core::runtime::Input;
use tenure_core::service::definition::Definition;
use tenure_core::service::kpi::Kpis;
use tenure_core::service::member::{MemberId, Members};
use tenure_core::service::slo::Slo;
use tenure_core::service_manager::Command;
use tenure_core::service_manager::ambiguity::{Claimant, Rule};
use tenure_core::service_manager::mapper::Ask;
use tenure_core::service_manager::services::{Found, ServiceCommand, ServiceView};
use tenure_expr::{Expr, Quantity};

use crate::common::world::{Reaction, Scene, World};
use crate::common::{GUEST, HOUR, SITE, ask_for, id, properties};

fn definition(resource: &'static str) -> Box<Definition> {
    let want = Expr::parse_measured("load").unwrap();
    let resource = Name::literal(resource);
    let slo = Slo { rule: None, want, urgency: 60, resource, requirement: None };
    Box::new(Definition { slo: [(Name::literal("serve"), slo)].into(), ..Definition::default() })
}

pub(crate) fn service(command: ServiceCommand) -> Command {
    Command::Service(command)
}

/// A world with a service that wants nodes, audited by the laws.
fn defined(name: &'static str) -> World {
    let mut world = Scene { suspicious: true, audited: true, ..Scene::default() }.open();
    define(&mut world, name);
    world
}

fn define(world: &mut World, name: &'static str) {
    define_at(world, GUEST, name);
}

pub(crate) fn define_at(world: &mut World, who: u8, name: &'static str) {
    let (service, definition) = (Name::literal(name), definition("node"));
    world.command(who, self::service(ServiceCommand::Define { service, definition }));
}

pub(crate) fn report(
    name: &'static str,
    seen: Found,
    load: i64,
    members: &[(&str, bool)],
) -> Command {
    let mut kpis = Kpis::default();
    kpis.insert("load".parse().unwrap(), Quantity::number(load));
    let mut all = Members::default();
    for (member, up) in members {
        all.insert(member, *up).unwrap();
    }
    service(ServiceCommand::Report {
        service: Name::literal(name),
        kpis,
        seen,
        busy: BTreeMap::new(),
        members: all,
    })
}

fn view(world: &World, name: &str) -> ServiceView {
    view_at(world, GUEST, name)
}

pub(crate) fn view_at(world: &World, who: u8, name: &str) -> ServiceView {
    let mut all = world.guest(who).services().into_iter();
    all.find(|view| view.service.as_str() == name).unwrap()
}

fn counts(world: &World) -> (u32, u32, u32) {
    let demand = view(world, "batch").demands.remove(0);
    (demand.held, demand.fixed, demand.steps.claimed(demand.held))
}

#[test]
fn members_that_are_up_count_as_units_of_the_first_slo() {
    let mut world = defined("batch");
    world.command(GUEST, report("batch", Found::Running, 3, &[("n1", true), ("n2", false)]));
    assert_eq!(counts(&world), (1, 1, 2));
    world.command(GUEST, report("batch", Found::Running, 3, &[("n1", true), ("n2", true)]));
    assert_eq!(counts(&world), (2, 2, 1));
    let (_, first) = world.guest(GUEST).static_members(&Name::literal("batch")).next().unwrap();
    assert_eq!(first.since, world.now);
    assert_eq!(world.calls, [], "nobody is called on for them");
}

#[test]
fn what_says_nothing_new_of_members_is_not_recorded() {
    let mut world = defined("batch");
    let count = |world: &World| world.count(GUEST, "service-manager.members-told");
    for _ in 0..3 {
        world.command(GUEST, report("batch", Found::Running, 3, &[("n1", true)]));
    }
    assert_eq!(count(&world), 1);
    world.command(GUEST, report("batch", Found::Running, 3, &[("n1", false)]));
    assert_eq!(count(&world), 2);
}

#[test]
fn members_stay_as_they_were_while_their_service_is_not_seen() {
    let mut world = defined("batch");
    world.command(GUEST, report("batch", Found::Running, 3, &[("n1", true)]));
    for seen in [Found::Failed, Found::Starting, Found::Shutdown, Found::Stopped] {
        world.command(GUEST, report("batch", seen, 0, &[]));
        assert_eq!(view(&world, "batch").demands[0].fixed, 1, "{seen:?}");
    }
    world.command(GUEST, report("batch", Found::Running, 3, &[("n1", true)]));
    world.advance(121);
    assert_eq!(view(&world, "batch").demands[0].fixed, 1, "what was measured is too old");
    world.command(GUEST, report("batch", Found::Running, 3, &[]));
    assert_eq!(counts(&world), (0, 0, 3));
}

#[test]
fn members_go_with_their_service() {
    let mut world = defined("batch");
    world.command(GUEST, report("batch", Found::Running, 3, &[("n1", true)]));
    world.command(GUEST, report("batch", Found::Stopped, 0, &[]));
    world.command(GUEST, service(ServiceCommand::Remove { service: Name::literal("batch") }));
    define(&mut world, "batch");
    world.command(GUEST, report("batch", Found::Running, 3, &[]));
    assert_eq!(counts(&world), (0, 0, 3));
}

pub(crate) fn resolve(member: &str, keep: Claimant) -> Command {
    service(ServiceCommand::Resolve { member: MemberId::new(member).unwrap(), keep })
}

pub(crate) fn claimant(service: &'static str, unit: Option<u32>) -> Claimant {
    let unit = unit.map(|unit| (id(SITE), UnitId(unit)));
    Claimant { service: Name::literal(service), unit }
}

fn fixed(world: &World, name: &str) -> u32 {
    view(world, name).demands[0].fixed
}

#[test]
fn a_host_that_two_services_tell_of_counts_for_neither() {
    let mut world = defined("batch");
    define(&mut world, "web");
    world.command(GUEST, report("batch", Found::Running, 3, &[("n1", true), ("n2", true)]));
    world.command(GUEST, report("web", Found::Running, 3, &[("N2", true)]));
    assert_eq!((fixed(&world, "batch"), view(&world, "web").demands[0].held), (1, 0));
    let problems =
        world.hand(GUEST, Input::Command(resolve("n2", claimant("shop", None)).into())).problems;
    assert!(format!("{problems:?}").contains("shop does not claim n2"), "{problems:?}");
    world.command(GUEST, resolve("n2", claimant("web", None)));
    assert_eq!((fixed(&world, "batch"), fixed(&world, "web")), (1, 1));
    // What was said stands for as long as it is claimed by both.
    world.command(GUEST, report("batch", Found::Running, 3, &[("n1", true)]));
    assert_eq!(world.guest(GUEST).ambiguities().count(), 0);
    world.command(GUEST, report("batch", Found::Running, 3, &[("n1", true), ("n2", true)]));
    assert_eq!((fixed(&world, "batch"), fixed(&world, "web")), (1, 0));
}

/// A world in which `batch` has a lease of a unit that its site calls `n2`.
fn leased(rule: Rule) -> (World, LeaseId) {
    let scene = Scene { suspicious: true, audited: true, rule, ..Scene::default() };
    let mut world = scene.open();
    define(&mut world, "batch");
    define(&mut world, "web");
    world.driver = |call| if call.step == Step::Setup { Reaction::Waits } else { Reaction::Works };
    let ask = Ask { slice: Name::literal("batch"), ..ask_for(1, 0, HOUR) };
    let lease = world.ask(GUEST, ask);
    (world, lease)
}

/// The site has set it up.
fn set_up(world: &mut World) {
    set_up_as(world, "n2");
}

pub(crate) fn set_up_as(world: &mut World, host: &str) {
    for (who, call) in std::mem::take(&mut world.waiting) {
        let Call { unit, epoch, step, number, lease, .. } = call;
        let outcome = Ok(properties("host.name", host));
        world.hand(who, Input::Driver(DriverResult { unit, epoch, step, number, lease, outcome }));
    }
    world.run();
}

/// Its units are set up under these names.
fn set_up_each(world: &mut World, hosts: &[&str]) {
    let setups = std::mem::take(&mut world.waiting);
    assert_eq!(setups.len(), hosts.len());
    for ((who, call), host) in setups.into_iter().zip(hosts) {
        let Call { unit, epoch, step, number, lease, .. } = call;
        let outcome = Ok(properties("host.name", host));
        world.hand(who, Input::Driver(DriverResult { unit, epoch, step, number, lease, outcome }));
    }
    world.run();
}

pub(crate) fn steps(world: &World) -> Vec<Step> {
    let of_guest = world.calls.iter().map(|call| call.step);
    of_guest.filter(|step| !matches!(step, Step::Setup | Step::Teardown)).collect()
}

#[test]
fn a_leased_unit_that_another_service_tells_of_is_joined_once_it_is_settled_for_its_lease() {
    let (mut world, _) = leased(Rule::Never);
    world.command(GUEST, report("web", Found::Running, 3, &[("n2", true)]));
    set_up(&mut world);
    assert_eq!((view(&world, "batch").demands[0].held, fixed(&world, "web")), (0, 0));
    assert_eq!(steps(&world), []);
    world.command(GUEST, resolve("n2", claimant("batch", Some(0))));
    assert_eq!(steps(&world), [Step::Join]);
    assert_eq!((view(&world, "batch").demands[0].held, fixed(&world, "web")), (1, 0));
    // In use it is not left with a call if that is not known any more.
    world.command(GUEST, resolve("n2", claimant("web", None)));
    assert_eq!((view(&world, "batch").demands[0].held, fixed(&world, "web")), (0, 1));
    world.advance(HOUR);
    assert_eq!(steps(&world), [Step::Join]);
    assert_eq!(world.guest(GUEST).ambiguities().count(), 0, "its lease is over");
}

#[test]
fn a_member_that_the_service_has_a_lease_for_is_that_unit() {
    let (mut world, _) = leased(Rule::Never);
    set_up(&mut world);
    world.command(GUEST, report("batch", Found::Running, 3, &[("n2", true)]));
    assert_eq!(world.guest(GUEST).ambiguities().count(), 0);
    assert_eq!(counts(&world), (1, 0, 2));
}

#[test]
fn a_rule_says_whose_a_host_is_where_it_can() {
    let (mut world, _) = leased(Rule::SignedLeaseWins);
    world.command(GUEST, report("web", Found::Running, 3, &[("n2", true), ("n3", true)]));
    set_up(&mut world);
    assert_eq!(steps(&world), [Step::Join]);
    assert_eq!((view(&world, "batch").demands[0].held, fixed(&world, "web")), (1, 1));
    // Nobody has a lease for that one.
    world.command(GUEST, report("batch", Found::Running, 3, &[("n3", true)]));
    assert_eq!((fixed(&world, "batch"), fixed(&world, "web")), (0, 0));
    let (mut world, _) = leased(Rule::FirstSeen);
    world.command(GUEST, report("web", Found::Running, 3, &[("n3", true)]));
    world.advance(10);
    world.command(GUEST, report("batch", Found::Running, 3, &[("n3", true)]));
    assert_eq!((fixed(&world, "batch"), fixed(&world, "web")), (0, 1));
}

#[test]
fn two_sites_that_lend_the_same_host_are_told_from_two_that_name_hosts_alike() {
    for (host, joined) in [("n2", 2), ("n2.example.org", 0)] {
        let scene =
            Scene { stock: 1, far_stock: 1, suspicious: true, audited: true, ..Scene::default() };
        let mut world = scene.open();
        define(&mut world, "batch");
        world.driver =
            |call| if call.step == Step::Setup { Reaction::Waits } else { Reaction::Works };
        for _ in 0..2 {
            world.ask(GUEST, Ask { slice: Name::literal("batch"), ..ask_for(1, 0, HOUR) });
        }
        set_up_as(&mut world, host);
        // The first was joined before the second was there.
        assert_eq!(steps(&world).len(), joined.max(1), "{host}");
        let ambiguous = world.guest(GUEST).ambiguities().map(|(_, one)| one.claims.len());
        assert_eq!(ambiguous.sum::<usize>(), 2 - joined, "{host}");
    }
}

#[test]
fn a_call_that_is_under_way_is_not_made_again_when_another_unit_becomes_ambiguous() {
    let scene = Scene { suspicious: true, audited: true, ..Scene::default() };
    let mut world = scene.open();
    define(&mut world, "batch");
    define(&mut world, "web");
    world.driver = |call| match call.step {
        Step::Setup | Step::Modify => Reaction::Waits,
        Step::Teardown | Step::Join | Step::Leave | Step::Warn | Step::Install | Step::Remove => {
            Reaction::Works
        }
    };
    let lease = world.ask(GUEST, Ask { slice: Name::literal("batch"), ..ask_for(2, 0, HOUR) });
    set_up_each(&mut world, &["n1", "n2"]);
    let changes = properties("image", "v2");
    world.command(GUEST, Command::Modify { lease, changes });
    set_up_each(&mut world, &["n1", "n2"]);
    // The guest's driver has taken note of the second unit's change, and is still at the first one's.
    let second = world.waiting.iter().position(|(_, call)| call.unit == UnitId(1)).unwrap();
    let second = world.waiting.remove(second);
    world.answer(second, true);
    let told = |world: &World| {
        let of_guest = world.calls.iter().filter(|call| call.step == Step::Modify);
        of_guest.filter(|call| call.unit == UnitId(0)).count()
    };
    let before = told(&world);
    world.command(GUEST, report("web", Found::Running, 3, &[("n2", true)]));
    assert_eq!(world.guest(GUEST).ambiguities().count(), 1);
    assert_eq!(told(&world), before);
    world.command(GUEST, report("web", Found::Running, 3, &[]));
    assert_eq!((world.guest(GUEST).ambiguities().count(), told(&world)), (0, before));
}
