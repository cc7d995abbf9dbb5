//! Leases that change in place: their configuration, and the size of a share of a divisible stock.

use tenure_core::driver::{Step, UnitId};
use tenure_core::model::property::Properties;
use tenure_core::model::slice::LeaseId;
use tenure_core::runtime::Input;
use tenure_core::service_manager::machine::Held;
use tenure_core::service_manager::mapper::Ask;
use tenure_core::service_manager::{Command as GuestCommand, Victims};
use tenure_core::site_authority::Command as SiteCommand;
use tenure_core::ticket::link::SignedLink;
use tenure_core::wire::message::{Message, Subject};
use tenure_core::wire::refusal::Refusal;
use tenure_core::wire::request::MAX_UNITS;

use crate::common::world::{Reaction, Scene, World};
use crate::common::{
    BROKER, GUEST, HOUR, RIVAL, SITE, ask_for, cut, expr, letter, modify, node, part, properties,
    redeem, signer, term, units,
};

fn scene(stock: u32, divisible: bool) -> Scene {
    Scene { stock, divisible, audited: true, ..Scene::default() }
}

fn leased(scene: Scene, n: u32) -> (World, LeaseId) {
    let mut world = scene.open();
    let ask = ask_for(n, 0, HOUR);
    let lease = world.ask(GUEST, Ask { configuration: properties("image", "v1"), ..ask });
    world.advance(600);
    assert_eq!(world.state(GUEST, lease), "Active");
    (world, lease)
}

fn change(world: &mut World, lease: LeaseId, image: &str) {
    world.command(GUEST, GuestCommand::Modify { lease, changes: properties("image", image) });
}

fn held(world: &World, lease: LeaseId) -> &Held {
    world.guest(GUEST).lease(lease).unwrap().held().unwrap()
}

/// What the guest knows of its units.
fn known(world: &World, lease: LeaseId) -> Vec<Properties> {
    held(world, lease).units.values().map(|(unit, _)| unit.properties.clone()).collect()
}

/// The units that were set up, and how much each is.
fn set_up(world: &World) -> Vec<(UnitId, u32)> {
    let setups = world.calls.iter().filter(|call| call.step == Step::Setup);
    setups.map(|call| (call.unit, call.quantity.get())).collect()
}

#[test]
fn a_change_reaches_every_unit_and_comes_back_with_what_results() {
    let (mut world, lease) = leased(scene(4, false), 2);
    change(&mut world, lease, "v2");
    assert_eq!(world.problems, []);
    assert_eq!(world.state(GUEST, lease), "Active");
    assert_eq!(known(&world, lease), vec![properties("image", "v2"); 2]);
    assert_eq!(world.count(SITE, "site.unit-modified"), 2);
    assert_eq!(world.count(GUEST, "service-manager.notified"), 2);
    let epochs = held(&world, lease).units.values().map(|(unit, _)| unit.epoch.0);
    assert_eq!(epochs.collect::<Vec<_>>(), [1, 1]);
}

#[test]
fn a_change_that_fails_on_one_unit_is_undone_on_the_others() {
    let (mut world, lease) = leased(scene(4, false), 2);
    let before = known(&world, lease);
    world.driver = |call| match (call.step, call.unit, call.properties.get("image")) {
        (Step::Modify, UnitId(1), Some("v2")) => Reaction::Fails,
        _ => Reaction::Works,
    };
    change(&mut world, lease, "v2");
    assert_eq!(world.count(SITE, "site.modification-failed"), 1);
    assert_eq!(world.count(GUEST, "service-manager.modify-refused"), 1);
    assert_eq!((world.state(GUEST, lease), known(&world, lease)), ("Active", before));
    let last = world.calls.iter().rfind(|call| call.step == Step::Modify).unwrap();
    assert_eq!((last.unit, last.properties.get("image")), (UnitId(0), Some("v1")));
    // Its guest has had the answer to its ticket, and what the driver says of units since may be something else.
    let redeemed = world.sent("redeem").remove(0);
    let out = world.deliver(SITE, &redeemed);
    assert!(out.replies.is_empty(), "{:?}", out.replies);
    change(&mut world, lease, "v3");
    assert_eq!(known(&world, lease), vec![properties("image", "v3"); 2]);
}

#[test]
fn a_change_that_is_asked_for_again_is_answered_as_before() {
    let (mut world, lease) = leased(scene(4, false), 1);
    change(&mut world, lease, "v2");
    let (asked, answer) = (world.sent("modify").remove(0), world.sent("modified").remove(0));
    world.deliver(SITE, &asked);
    assert_eq!(world.sent("modified").last(), Some(&answer));
    assert_eq!(world.count(SITE, "site.modification-begun"), 1);
    let ticket = world.ticket(GUEST, lease);
    change(&mut world, lease, "v3");
    let out = world.deliver(SITE, &letter(GUEST, SITE, modify(&ticket, 0, "v4")));
    let Message::Refused { subject, refusal: Refusal::Malformed(_), .. } = &out.replies[0].message
    else {
        panic!("{:?}", out.replies);
    };
    assert_eq!(*subject, Subject::Modify(ticket.hash(), 0));
    assert_eq!(world.count(SITE, "site.modification-begun"), 2);
}

#[test]
fn only_its_holder_changes_a_lease() {
    let (mut world, lease) = leased(Scene { audited: false, ..scene(4, false) }, 1);
    let ticket = world.ticket(GUEST, lease);
    let out = world.deliver(SITE, &letter(RIVAL, SITE, modify(&ticket, 0, "v2")));
    assert!(matches!(
        &out.replies[0].message,
        Message::Refused { refusal: Refusal::Ticket(_), .. }
    ));
    assert_eq!(world.count(SITE, "site.modification-begun"), 0);
}

#[test]
fn a_changed_configuration_meets_the_constraints_of_the_ticket() {
    let mut world = Scene::default().open();
    let root = world.delegation();
    let mut link = part(&root, GUEST, 1, term(0, HOUR), 7);
    link.constraints.add(expr("image = \"v1\""));
    let link = SignedLink::sign(link, &signer(BROKER));
    let ticket = root.with(link);
    let Message::Redeem { ticket, lease, slice, min_units, victims, .. } = redeem(&ticket) else {
        panic!("a redeem");
    };
    let (hash, configuration) = (ticket.hash(), properties("image", "v1"));
    let shown =
        Message::Redeem { ticket: ticket.clone(), lease, slice, min_units, configuration, victims };
    world.deliver(SITE, &letter(GUEST, SITE, shown));
    world.run();
    assert_eq!(world.at_site(hash), "Active");
    let out = world.deliver(SITE, &letter(GUEST, SITE, modify(&ticket, 0, "v2")));
    assert!(matches!(
        &out.replies[0].message,
        Message::Refused { refusal: Refusal::Constraint(_), .. }
    ));
}

#[test]
fn a_lease_that_ends_while_it_is_changed_is_cleaned_as_ever() {
    let (mut world, lease) = leased(scene(4, false), 2);
    world.driver = |call| match call.step {
        Step::Modify => Reaction::Waits,
        Step::Setup
        | Step::Teardown
        | Step::Join
        | Step::Leave
        | Step::Warn
        | Step::Install
        | Step::Remove => Reaction::Works,
    };
    change(&mut world, lease, "v2");
    assert_eq!(world.state(GUEST, lease), "Active+modifying");
    world.command(GUEST, GuestCommand::Close { lease });
    assert_eq!((world.state(GUEST, lease), world.units_in("Free")), ("Closed", 4));
    let late = world.waiting.remove(0);
    let out = world.answer(late, true);
    assert_eq!(out.facts, []);
}

#[test]
fn a_share_is_one_unit_of_any_size() {
    let (world, lease) = leased(scene(1_000_000, true), 600_000);
    assert_eq!(held(&world, lease).quantity(), 600_000);
    assert_eq!(set_up(&world), [(UnitId(0), 600_000)]);
    let mut world = world;
    world.command(GUEST, GuestCommand::Close { lease });
    assert_eq!(world.site().units().count(), 0);
    assert_eq!(world.count(SITE, "site.unit-torn-down"), 1);
}

#[test]
fn so_many_machines_are_not_for_one_lease() {
    let mut world = scene(MAX_UNITS + 1, false).open();
    let lease = world.ask(GUEST, ask_for(MAX_UNITS + 1, 0, HOUR));
    assert_eq!(world.state(GUEST, lease), "Closed");
    let large = cut(&world.delegation(), BROKER, GUEST, MAX_UNITS + 1, term(0, HOUR), 9);
    let out = world.deliver(SITE, &letter(GUEST, SITE, redeem(&large)));
    let Message::Refused { refusal: Refusal::Malformed(_), .. } = &out.replies[0].message else {
        panic!("{:?}", out.replies);
    };
}

#[test]
fn a_share_waits_until_the_one_before_it_is_cleaned() {
    let (mut world, lease) = leased(scene(1000, true), 700);
    world.driver = |call| match call.step {
        Step::Teardown => Reaction::Waits,
        Step::Setup
        | Step::Modify
        | Step::Join
        | Step::Leave
        | Step::Warn
        | Step::Install
        | Step::Remove => Reaction::Works,
    };
    world.command(GUEST, GuestCommand::Close { lease });
    let next = world.ask(RIVAL, ask_for(500, 600, HOUR));
    assert_eq!(world.state(RIVAL, next), "Redeeming", "300 are free");
    let teardown = world.waiting.remove(0);
    world.answer(teardown, true);
    world.run();
    assert_eq!(world.state(RIVAL, next), "Active");
}

#[test]
fn a_share_that_cannot_be_set_up_is_lost_as_a_whole() {
    let mut world = scene(1000, true).open();
    world.driver = |call| match call.step {
        Step::Setup => Reaction::Fails,
        Step::Teardown
        | Step::Modify
        | Step::Join
        | Step::Leave
        | Step::Warn
        | Step::Install
        | Step::Remove => Reaction::Works,
    };
    let lease = world.ask(GUEST, ask_for(500, 0, HOUR));
    assert_eq!(world.state(GUEST, lease), "Closed");
    assert_eq!(world.count(SITE, "site.unit-setup-failed"), 1);
    assert_eq!((world.free_at(0), world.site().units().count()), (1000, 0));
}

#[test]
fn a_share_that_cannot_be_cleaned_takes_up_its_part_until_it_is_reset() {
    let (mut world, lease) = leased(scene(1000, true), 700);
    world.driver = |call| match call.step {
        Step::Teardown => Reaction::Fails,
        Step::Setup
        | Step::Modify
        | Step::Join
        | Step::Leave
        | Step::Warn
        | Step::Install
        | Step::Remove => Reaction::Works,
    };
    world.command(GUEST, GuestCommand::Close { lease });
    assert_eq!(world.units_in("Quarantined"), 1);
    let next = world.ask(RIVAL, ask_for(500, 600, HOUR));
    assert_eq!(world.state(RIVAL, next), "Closed");
    world.driver = |_| Reaction::Works;
    world.hand(SITE, Input::Command(SiteCommand::Reset { unit: UnitId(0) }.into()));
    world.run();
    let next = world.ask(RIVAL, ask_for(500, 600, HOUR));
    assert_eq!(world.state(RIVAL, next), "Active");
}

#[test]
fn a_part_of_a_share_comes_back_and_is_sold_again() {
    let (mut world, lease) = leased(scene(1000, true), 700);
    let (shrink, victims) = (units(300), Victims::Youngest);
    world.command(GUEST, GuestCommand::Flex { lease, shrink, victims });
    assert_eq!(world.problems, []);
    assert_eq!((world.state(GUEST, lease), held(&world, lease).quantity()), ("Active", 400));
    assert_eq!([599, 600].map(|t| world.free_at(t)), [300, 600]);
    assert_eq!(world.count(SITE, "site.unit-modified"), 1);
    assert_eq!(world.count(GUEST, "service-manager.notified"), 1);
    let next = world.ask(RIVAL, ask_for(600, 600, 1200));
    assert_eq!(world.state(RIVAL, next), "Active");
}

#[test]
fn a_share_that_was_not_made_smaller_keeps_others_waiting() {
    let (mut world, lease) = leased(scene(1000, true), 700);
    world.driver = |call| match call.step {
        Step::Modify => Reaction::Fails,
        Step::Setup
        | Step::Teardown
        | Step::Join
        | Step::Leave
        | Step::Warn
        | Step::Install
        | Step::Remove => Reaction::Works,
    };
    let (shrink, victims) = (units(300), Victims::Youngest);
    world.command(GUEST, GuestCommand::Flex { lease, shrink, victims });
    let next = world.ask(RIVAL, ask_for(600, 600, HOUR));
    assert_eq!(world.state(RIVAL, next), "Redeeming");
    world.command(GUEST, GuestCommand::Close { lease });
    assert_eq!(world.state(RIVAL, next), "Active");
}

#[test]
fn what_no_share_takes_up_and_nobody_may_lease_is_withdrawn() {
    let mut world = scene(1000, true).open();
    let withdraw = SiteCommand::Withdraw { resource: node(), units: units(1) };
    world.hand(SITE, Input::Command(withdraw.clone().into()));
    assert_eq!(world.count(SITE, "site.quantity-withdrawn"), 0, "all of it is delegated");
    let more = SiteCommand::Stock { resource: node(), units: units(500) };
    world.hand(SITE, Input::Command(more.into()));
    world.hand(SITE, Input::Command(withdraw.into()));
    assert_eq!(world.count(SITE, "site.quantity-withdrawn"), 1);
    assert_eq!(world.site().inventory().map(|(_, _, total)| total).max(), Some(1499));
}
