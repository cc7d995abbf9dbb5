//! The guest's driver is warned of units that are recalled.

use tenure_core::broker::Command as BrokerCommand;
use tenure_core::driver::{Call, Step, UnitId};
use tenure_core::model::slice::LeaseId;
use tenure_core::model::time::{Span, Time};
use tenure_core::service_manager::Command as GuestCommand;
use tenure_core::service_manager::mapper::Ask;
use tenure_core::ticket::link::LinkHash;
use tenure_core::wire::recall::Accepts;
use tenure_core::wire::request::Item;

use crate::common::world::{Reaction, Scene, World};
use crate::common::{BROKER, GUEST, HOUR, SITE, ask_for, at, item};

/// A guest's lease of 3 of 4 units over [0, 1h), with a notice of five minutes; ten have passed.
fn leased_with(driver: fn(&Call) -> Reaction) -> (World, LeaseId, LinkHash) {
    let mut world = Scene { audited: true, ..Scene::default() }.open();
    world.driver = driver;
    let accepts = Accepts { notice: Some(Span::from_secs(300)), min_tenure: None };
    let ask = Ask { items: vec![Item { accepts, ..item(3) }], ..ask_for(3, 0, HOUR) };
    let lease = world.ask(GUEST, ask);
    let ticket = world.ticket(GUEST, lease).hash();
    world.advance(600);
    (world, lease, ticket)
}

fn leased() -> (World, LeaseId, LinkHash) {
    leased_with(|_| Reaction::Works)
}

fn recall(world: &mut World, ticket: LinkHash, units: Option<u32>) {
    world.command(BROKER, BrokerCommand::Recall { ticket, units, from: None });
}

/// The units that the guest's driver was warned of, each with the deadline.
fn warned(world: &World) -> Vec<(u32, Time)> {
    let warnings = world.calls.iter().filter(|call| call.step == Step::Warn);
    warnings.map(|call| (call.unit.0, call.deadline.unwrap())).collect()
}

#[test]
fn the_driver_is_warned_once_of_each_unit_that_goes() {
    let (mut world, lease, ticket) = leased();
    recall(&mut world, ticket, Some(1));
    assert_eq!(warned(&world), [(1, at(900)), (2, at(900))]);
    assert_eq!(world.count(GUEST, "service-manager.warned"), 2);
    world.repeat();
    world.restart(GUEST);
    assert_eq!(warned(&world).len(), 2);
    assert_eq!(world.state(GUEST, lease), "Active");
}

#[test]
fn another_level_is_another_warning_and_a_withdrawal_is_none() {
    let (mut world, _, ticket) = leased();
    recall(&mut world, ticket, Some(2));
    assert_eq!(warned(&world), [(2, at(900))]);
    world.advance(660);
    recall(&mut world, ticket, Some(1));
    assert_eq!(warned(&world)[1..], [(1, at(960)), (2, at(960))]);
    recall(&mut world, ticket, None);
    assert_eq!(warned(&world).len(), 3);
}

#[test]
fn units_that_are_named_instead_are_warned_of_once_the_site_agrees() {
    let (mut world, lease, ticket) = leased();
    recall(&mut world, ticket, Some(2));
    world.command(GUEST, GuestCommand::Victims { lease, units: vec![UnitId(0)] });
    assert_eq!(warned(&world), [(2, at(900)), (0, at(900))]);
    world.command(GUEST, GuestCommand::Victims { lease, units: vec![UnitId(2)] });
    assert_eq!(warned(&world).len(), 2);
}

#[test]
fn a_warning_that_fails_or_is_not_answered_changes_nothing() {
    let fails =
        |call: &Call| if call.step == Step::Warn { Reaction::Fails } else { Reaction::Works };
    let waits =
        |call: &Call| if call.step == Step::Warn { Reaction::Waits } else { Reaction::Works };
    let mut states = Vec::new();
    for (driver, answers) in [(fails as fn(&Call) -> Reaction, 2), (waits, 0)] {
        let (mut world, lease, ticket) = leased_with(driver);
        recall(&mut world, ticket, Some(1));
        assert_eq!(world.count(GUEST, "service-manager.warned"), answers);
        world.advance(900);
        world.repeat();
        let held = world.guest(GUEST).lease(lease).unwrap().held().unwrap();
        assert_eq!(held.units.len(), 1);
        assert_eq!(world.count(SITE, "site.units-recalled"), 1);
        states.push(world.state(GUEST, lease));
    }
    assert_eq!(states, ["Active", "Active"]);
}

#[test]
fn a_warning_without_an_answer_is_made_again_after_a_crash_and_not_after_the_unit_is_left() {
    let waits =
        |call: &Call| if call.step == Step::Warn { Reaction::Waits } else { Reaction::Works };
    let (mut world, _, ticket) = leased_with(waits);
    recall(&mut world, ticket, Some(2));
    world.restart(GUEST);
    assert_eq!(warned(&world), [(2, at(900)), (2, at(900))]);
    world.advance(900);
    world.restart(GUEST);
    assert_eq!(warned(&world).len(), 2);
}

#[test]
fn a_unit_is_warned_of_once_it_is_joined() {
    let waits =
        |call: &Call| if call.step == Step::Join { Reaction::Waits } else { Reaction::Works };
    let (mut world, _, ticket) = leased_with(waits);
    recall(&mut world, ticket, Some(2));
    assert_eq!(warned(&world), []);
    world.driver = |_| Reaction::Works;
    world.restart(GUEST);
    world.repeat();
    assert_eq!(warned(&world), [(2, at(900))]);
}
