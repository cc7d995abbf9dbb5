//! Units that the guest's driver refuses, and leaves that are called back or hastened while they drain.

use tenure_core::actor::effect::DriverResult;
use tenure_core::driver::{Call, DriverError, Step, UnitId};
use tenure_core::model::slice::LeaseId;
use tenure_core::model::time::{Span, Time};
use tenure_core::runtime::Input;
use tenure_core::service_manager::{Command as GuestCommand, Victims};

use crate::common::world::{Reaction, Scene, World};
use crate::common::{BROKER, GUEST, HOUR, MARGIN, ask_for, at, properties, units};

const LEAVE_BEFORE: Span = Span::MINUTE;
/// When guests begin to leave a lease over [0, 1h).
const LEAVING: i64 = HOUR - 70;

/// Calls of one step wait for the test.
fn joins_wait(call: &Call) -> Reaction {
    if call.step == Step::Join { Reaction::Waits } else { Reaction::Works }
}

fn leaves_wait(call: &Call) -> Reaction {
    if call.step == Step::Leave { Reaction::Waits } else { Reaction::Works }
}

/// A guest's lease of 3 of 4 units over [0, 1h), which could do with `min_units`.
fn leased(driver: fn(&Call) -> Reaction, min_units: u32) -> (World, LeaseId) {
    let scene = Scene { leave_before: LEAVE_BEFORE, audited: true, ..Scene::default() };
    let mut world = scene.open();
    world.driver = driver;
    let mut ask = ask_for(3, 0, HOUR);
    ask.items[0].min_units = units(min_units);
    let lease = world.ask(GUEST, ask);
    (world, lease)
}

/// Answers a call: a join of these units is refused, with the unit untouched.
fn answer(world: &mut World, call: (u8, Call), refused: &[u32]) {
    let (who, call) = call;
    if !refused.contains(&call.unit.0) {
        world.answer((who, call), true);
        return;
    }
    let Call { unit, epoch, step, number, lease, .. } = call;
    let outcome = Err(DriverError::untouched("busy"));
    world.hand(who, Input::Driver(DriverResult { unit, epoch, step, number, lease, outcome }));
}

/// Answers all calls that wait, and lets a second pass.
fn answer_all(world: &mut World, refused: &[u32]) {
    for call in std::mem::take(&mut world.waiting) {
        answer(world, call, refused);
    }
    let now = world.now;
    world.advance_to(now.plus(Span::SECOND));
}

fn held_units(world: &World, lease: LeaseId) -> Vec<u32> {
    let held = world.guest(GUEST).lease(lease).unwrap().held().unwrap();
    held.units.keys().map(|unit| unit.0).collect()
}

/// The calls of a step: the unit, the number and the deadline.
fn calls(world: &World, step: Step) -> Vec<(UnitId, u32, Option<Time>)> {
    let calls = world.calls.iter().filter(|call| call.step == step);
    calls.map(|call| (call.unit, call.number, call.deadline)).collect()
}

#[test]
fn a_unit_that_the_guest_refuses_goes_back_and_an_elastic_lease_goes_on() {
    let (mut world, lease) = leased(joins_wait, 2);
    answer_all(&mut world, &[1]);
    assert_eq!(world.state(GUEST, lease), "Active");
    assert_eq!(held_units(&world, lease), [0, 2]);
    assert_eq!(calls(&world, Step::Leave), [], "it is not left");
    assert_eq!(world.count(BROKER, "broker.receipt-taken"), 1);
    assert_eq!(world.free_at(60), 2);
}

#[test]
fn a_lease_that_cannot_do_without_what_is_refused_is_given_back() {
    let (mut world, lease) = leased(joins_wait, 3);
    answer_all(&mut world, &[1]);
    assert_eq!(world.state(GUEST, lease), "Closed");
    let left: Vec<_> = calls(&world, Step::Leave).into_iter().map(|(unit, ..)| unit.0).collect();
    assert_eq!(left, [0, 2], "what is untouched is not left");
    assert_eq!(world.free_at(60), 4);
}

#[test]
fn a_leave_is_called_back_by_an_extension() {
    let (mut world, lease) = leased(leaves_wait, 3);
    world.advance(LEAVING);
    assert_eq!(world.state(GUEST, lease), "Leaving(end)");
    let old = std::mem::take(&mut world.waiting);
    answer(&mut world, old[0].clone(), &[]);
    world.command(GUEST, GuestCommand::extend(lease, Span::HOUR));
    assert_eq!(world.problems, []);
    assert_eq!(world.state(GUEST, lease), "Active");
    let by = at(2 * HOUR).minus(MARGIN).minus(LEAVE_BEFORE);
    let again: Vec<_> = calls(&world, Step::Join).split_off(3);
    assert_eq!(again, [0, 1, 2].map(|unit| (UnitId(unit), 1, Some(by))));
    // What the driver says of the leaves that were called back counts no more.
    answer(&mut world, old[1].clone(), &[]);
    assert_eq!((world.problems.len(), world.state(GUEST, lease)), (1, "Active"));
    world.advance(HOUR + LEAVING);
    let leaves: Vec<_> = calls(&world, Step::Leave).split_off(3);
    let by = at(2 * HOUR).minus(MARGIN);
    assert_eq!(leaves, [0, 1, 2].map(|unit| (UnitId(unit), 1, Some(by))));
    answer(&mut world, old[2].clone(), &[]);
    assert_eq!(world.problems.len(), 2);
}

#[test]
fn a_driver_for_which_it_is_too_late_to_come_back_gives_the_unit_back() {
    let (mut world, lease) = leased(leaves_wait, 2);
    world.advance(LEAVING);
    world.driver = joins_wait;
    world.command(GUEST, GuestCommand::extend(lease, Span::HOUR));
    assert_eq!(world.state(GUEST, lease), "Joining");
    world.waiting.retain(|(_, call)| call.step == Step::Join);
    answer_all(&mut world, &[0]);
    assert_eq!(world.state(GUEST, lease), "Active");
    assert_eq!(held_units(&world, lease), [1, 2]);
}

#[test]
fn a_leave_goes_on_while_its_extension_is_refused() {
    let (mut world, lease) = leased(leaves_wait, 3);
    world.advance(LEAVING);
    world.command(GUEST, GuestCommand::extend(lease, Span::DAY.times(40)));
    assert_eq!(world.state(GUEST, lease), "Leaving(end)");
    world.advance(HOUR - 10);
    assert_eq!(world.state(GUEST, lease), "Closed");
}

#[test]
fn a_leave_is_hastened_and_the_lease_closes_by_then() {
    let (mut world, lease) = leased(leaves_wait, 3);
    world.advance(600);
    world.command(GUEST, GuestCommand::Close { lease });
    world.command(GUEST, GuestCommand::Hasten { lease, by: at(700) });
    let leaves = calls(&world, Step::Leave);
    assert_eq!(leaves[..3], [0, 1, 2].map(|unit| (UnitId(unit), 0, Some(at(HOUR - 10)))));
    assert_eq!(leaves[3..], [0, 1, 2].map(|unit| (UnitId(unit), 1, Some(at(700)))));
    world.advance(699);
    assert_eq!(world.state(GUEST, lease), "Leaving(close)");
    world.advance(700);
    assert_eq!(world.state(GUEST, lease), "Closed");
    assert_eq!([699, 700].map(|t| world.free_at(t)), [1, 4]);
}

#[test]
fn a_leave_is_not_hastened_to_the_past_or_to_later() {
    let (mut world, lease) = leased(leaves_wait, 3);
    world.advance(600);
    for by in [600, HOUR - 10] {
        world.command(GUEST, GuestCommand::Hasten { lease, by: at(by) });
    }
    assert_eq!((world.problems.len(), world.state(GUEST, lease)), (2, "Active"));
}

#[test]
fn the_units_that_the_driver_says_are_used_least_go() {
    let (mut world, lease) = leased(joins_wait, 3);
    for (who, call) in std::mem::take(&mut world.waiting) {
        let Call { unit, epoch, step, number, lease, .. } = call;
        let seconds = ["1", "9000", "no number"][unit.0 as usize];
        let outcome = Ok(properties("unit.used", seconds));
        world.hand(who, Input::Driver(DriverResult { unit, epoch, step, number, lease, outcome }));
    }
    assert_eq!(world.count(GUEST, "service-manager.usage-reported"), 2);
    for (secs, rest) in [(600, vec![1, 2]), (700, vec![1])] {
        world.advance(secs);
        let shrink = units(1);
        world.command(GUEST, GuestCommand::Flex { lease, shrink, victims: Victims::LeastUsed });
        assert_eq!(held_units(&world, lease), rest);
    }
}
