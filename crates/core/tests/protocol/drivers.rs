//! Drivers: units are clean before they are lent, failures cost units and never a lease more than need be.

use std::collections::BTreeMap;

use tenure_core::actor::effect::{DriverResult, Problem};
use tenure_core::driver::{Call, DriverError, Epoch, Step, UnitId};
use tenure_core::model::codec::MAX_BYTES;
use tenure_core::model::slice::LeaseId;
use tenure_core::model::time::Span;
use tenure_core::runtime::Input;
use tenure_core::service_manager::Command as GuestCommand;
use tenure_core::site_authority::Command as SiteCommand;
use tenure_core::site_authority::mapper::{Assignment, Decision, SiteAuthorityMapper, View};
use tenure_core::wire::message::Message;
use tenure_core::wire::refusal::Refusal;

use crate::common::world::{Reaction, Scene, World};
use crate::common::{BROKER, GUEST, HOUR, MARGIN, RIVAL, SITE, ask_for, at, node, units};

fn if_then(condition: bool, reaction: Reaction) -> Reaction {
    if condition { reaction } else { Reaction::Works }
}

/// A world of 4 units with this driver, and a guest that asks for `n` of them over [0, 1h), and would
/// do with `min_units`.
fn asked_with(driver: fn(&Call) -> Reaction, n: u32, min_units: u32) -> (World, LeaseId) {
    let mut world = Scene::default().open();
    world.driver = driver;
    let mut ask = ask_for(n, 0, HOUR);
    ask.items[0].min_units = units(min_units);
    let lease = world.ask(GUEST, ask);
    (world, lease)
}

/// The units that a guest holds.
fn held(world: &World, lease: LeaseId) -> Vec<UnitId> {
    let held = world.guest(GUEST).lease(lease).unwrap().held().unwrap();
    held.units.keys().copied().collect()
}

/// The reason that the site gave when it closed a lease.
fn last_end(world: &World) -> (Option<Refusal>, usize) {
    let said = world.sent("closed").pop().unwrap().peek().unwrap().message;
    let Message::Closed { refusal, receipts, .. } = said else { panic!("{said:?}") };
    (refusal, receipts.len())
}

#[test]
fn a_unit_that_could_not_be_set_up_is_replaced_by_another() {
    let fails =
        |call: &Call| if_then(call.step == Step::Setup && call.unit == UnitId(0), Reaction::Fails);
    let (world, lease) = asked_with(fails, 2, 2);
    assert_eq!(world.state(GUEST, lease), "Active");
    assert_eq!(held(&world, lease), [UnitId(1), UnitId(2)]);
    assert_eq!(world.units_in("Free"), 2, "the one that failed was cleaned");
    assert_eq!(world.count(SITE, "site.unit-setup-failed"), 1);
}

#[test]
fn a_unit_that_could_not_be_cleaned_is_quarantined_and_not_lent_again() {
    let fails = |call: &Call| {
        if_then(call.step == Step::Teardown && call.unit == UnitId(0), Reaction::Fails)
    };
    let (mut world, _) = asked_with(fails, 2, 2);
    world.advance(HOUR);
    assert_eq!((world.units_in("Quarantined"), world.units_in("Free")), (1, 3));
    let next = world.ask(GUEST, ask_for(3, HOUR, HOUR));
    assert_eq!(held(&world, next), [UnitId(1), UnitId(2), UnitId(3)]);
}

#[test]
fn a_quarantined_unit_is_cleaned_once_more_before_it_is_lent_again() {
    let fails = |call: &Call| if_then(call.step == Step::Teardown, Reaction::Fails);
    let (mut world, _) = asked_with(fails, 4, 4);
    world.advance(HOUR);
    assert_eq!(world.units_in("Quarantined"), 4);
    world.driver = |_| Reaction::Works;
    let before = world.calls.len();
    world.command(SITE, SiteCommand::Reset { unit: UnitId(2) });
    let steps: Vec<_> = world.calls[before..].iter().map(|call| (call.unit, call.step)).collect();
    assert_eq!(steps, [(UnitId(2), Step::Teardown)]);
    let next = world.ask(GUEST, ask_for(1, HOUR, HOUR));
    assert_eq!(held(&world, next), [UnitId(2)]);
}

#[test]
fn a_unit_that_is_not_quarantined_is_not_reset() {
    let (mut world, _) = asked_with(|_| Reaction::Works, 1, 1);
    let position = world.position(SITE);
    for unit in [UnitId(0), UnitId(1), UnitId(99)] {
        world.command(SITE, SiteCommand::Reset { unit });
    }
    assert!(matches!(
        world.problems[..],
        [Problem::Command(_), Problem::Command(_), Problem::Command(_)]
    ));
    assert_eq!(world.position(SITE), position);
}

/// Unit 3 can neither be set up nor cleaned, and there is no other.
fn unit_3_burns(call: &Call) -> Reaction {
    if_then(call.unit == UnitId(3), Reaction::Fails)
}

#[test]
fn an_elastic_lease_goes_active_with_fewer_units_if_some_cannot_be_set_up() {
    let (world, lease) = asked_with(unit_3_burns, 4, 3);
    assert_eq!(world.state(GUEST, lease), "Active");
    assert_eq!(held(&world, lease), [UnitId(0), UnitId(1), UnitId(2)]);
    assert_eq!(world.units_in("Quarantined"), 1);
}

#[test]
fn a_lease_with_fewer_units_than_will_do_is_closed_and_credited() {
    let (world, lease) = asked_with(unit_3_burns, 4, 4);
    assert_eq!(world.state(GUEST, lease), "Closed");
    assert_eq!(last_end(&world), (Some(Refusal::SetupFailed { ready: 3, wanted: 4 }), 1));
    assert_eq!((world.count(BROKER, "broker.receipt-taken"), world.free_at(0)), (1, 4));
    assert_eq!((world.units_in("Quarantined"), world.units_in("Free")), (1, 3));
}

#[test]
fn a_lease_that_gets_no_unit_at_all_is_closed_and_credited() {
    let mut world = Scene { stock: 1, ..Scene::default() }.open();
    world.driver = |_| Reaction::Fails;
    let lease = world.ask(GUEST, ask_for(1, 0, HOUR));
    assert_eq!(world.state(GUEST, lease), "Closed");
    assert_eq!(last_end(&world), (Some(Refusal::SetupFailed { ready: 0, wanted: 1 }), 1));
    assert_eq!((world.units_in("Quarantined"), world.free_at(0)), (1, 1));
}

#[test]
fn an_elastic_lease_goes_active_also_if_the_failure_is_known_before_the_rest_is_ready() {
    let (mut world, lease) = asked_with(
        |call| match (call.unit, call.step) {
            (UnitId(3), _) => Reaction::Fails,
            (_, step) => if_then(step == Step::Setup, Reaction::Waits),
        },
        4,
        3,
    );
    assert_eq!((world.units_in("Quarantined"), world.units_in("SettingUp")), (1, 3));
    for call in std::mem::take(&mut world.waiting) {
        world.answer(call, true);
        world.run();
    }
    assert_eq!(world.state(GUEST, lease), "Active");
    assert_eq!(held(&world, lease), [UnitId(0), UnitId(1), UnitId(2)]);
}

#[test]
fn a_lease_whose_units_are_lost_one_after_the_other_is_closed_and_credited() {
    let (world, lease) = asked_with(|_| Reaction::Fails, 4, 1);
    assert_eq!(world.state(GUEST, lease), "Closed");
    assert_eq!(last_end(&world), (Some(Refusal::SetupFailed { ready: 0, wanted: 4 }), 1));
    assert_eq!((world.units_in("Quarantined"), world.free_at(0)), (4, 4));
}

#[test]
fn a_lease_for_more_units_than_are_in_order_is_closed_once_the_rest_is_ready() {
    let broken = |call: &Call| {
        if_then(call.step == Step::Teardown && call.unit == UnitId(0), Reaction::Fails)
    };
    let (mut world, _) = asked_with(broken, 4, 4);
    world.advance(HOUR);
    let next = world.ask(RIVAL, ask_for(4, HOUR, HOUR));
    assert_eq!(world.state(RIVAL, next), "Closed");
    assert_eq!(last_end(&world), (Some(Refusal::SetupFailed { ready: 3, wanted: 4 }), 1));
    assert_eq!((world.units_in("Free"), world.free_at(HOUR)), (3, 4));
}

/// Puts leases on clean units alone.
struct CleanOnly;

impl SiteAuthorityMapper for CleanOnly {
    fn decide(&self, view: &View) -> Decision {
        let assignments = view.waiting().take(1).filter_map(|waiting| {
            let free = view.free_units(&waiting.resource);
            let units: Vec<_> = free.take(waiting.lacks as usize).collect();
            let (lease, reason) = (waiting.lease, "they are clean".to_owned());
            (!units.is_empty()).then_some(Assignment { lease, units, reason })
        });
        let assignments = assignments.collect();
        Decision { round: view.round(), assignments, ..Decision::default() }
    }
}

#[test]
fn a_mapper_that_waits_for_clean_units_is_asked_again_when_they_are() {
    let mut world =
        Scene { stock: 1, site_mapper: || Box::new(CleanOnly), ..Scene::default() }.open();
    world.ask(GUEST, ask_for(1, 0, HOUR));
    world.driver = |call| if_then(call.step == Step::Teardown, Reaction::Waits);
    world.advance(HOUR);
    let next = world.ask(RIVAL, ask_for(1, HOUR, HOUR));
    assert_eq!((world.state(RIVAL, next), world.units_in("TearingDown")), ("Redeeming", 1));
    let call = world.waiting.remove(0);
    world.answer(call, true);
    world.run();
    assert_eq!(world.state(RIVAL, next), "Active");
}

#[test]
fn a_driver_that_complains_at_length_does_not_fill_the_journal() {
    let (mut world, _) = asked_with(|_| Reaction::Waits, 1, 1);
    let (_, Call { unit, epoch, step, number, lease, .. }) = world.waiting.remove(0);
    let outcome = Err(DriverError("x".repeat(MAX_BYTES + 1)));
    world.hand(SITE, Input::Driver(DriverResult { unit, epoch, step, number, lease, outcome }));
    world.restart(SITE);
    assert_eq!(world.count(SITE, "site.unit-setup-failed"), 1);
}

#[test]
fn a_guest_that_cannot_join_a_unit_uses_the_others() {
    let fails = |call: &Call| if_then(call.step == Step::Join, Reaction::Fails);
    let (mut world, lease) = asked_with(fails, 2, 2);
    assert_eq!(world.state(GUEST, lease), "Active");
    world.command(GUEST, GuestCommand::Close { lease });
    assert_eq!(world.state(GUEST, lease), "Closed");
}

#[test]
fn a_guest_that_cannot_leave_gives_its_units_back_all_the_same() {
    let fails = |call: &Call| if_then(call.step == Step::Leave, Reaction::Fails);
    let (mut world, lease) = asked_with(fails, 2, 2);
    world.command(GUEST, GuestCommand::Close { lease });
    assert_eq!(world.state(GUEST, lease), "Closed");
    assert_eq!(world.units_in("Free"), 4);
}

#[test]
fn a_unit_is_cleaned_before_its_next_tenant_gets_it() {
    let mut world = Scene { stock: 1, ..Scene::default() }.open();
    world.ask(GUEST, ask_for(1, 0, HOUR));
    world.driver = |call| if_then(call.step == Step::Teardown, Reaction::Waits);
    world.advance(HOUR);
    let next = world.ask(RIVAL, ask_for(1, HOUR, HOUR));
    let hash = world.ticket(RIVAL, next).hash();
    assert_eq!((world.at_site(hash), world.units_in("TearingDown+next")), ("Priming", 1));
    let call = world.waiting.remove(0);
    world.answer(call, true);
    world.run();
    assert_eq!((world.at_site(hash), world.state(RIVAL, next)), ("Active", "Active"));
}

#[test]
fn a_unit_that_cannot_be_cleaned_for_its_next_tenant_is_lost_to_it() {
    let mut world = Scene { stock: 1, ..Scene::default() }.open();
    world.ask(GUEST, ask_for(1, 0, HOUR));
    world.driver = |call| if_then(call.step == Step::Teardown, Reaction::Waits);
    world.advance(HOUR);
    let next = world.ask(RIVAL, ask_for(1, HOUR, HOUR));
    let call = world.waiting.remove(0);
    world.answer(call, false);
    world.run();
    assert_eq!((world.state(RIVAL, next), world.units_in("Quarantined")), ("Closed", 1));
    assert_eq!(world.free_at(HOUR), 1);
}

#[test]
fn a_unit_abandoned_during_its_setup_is_cleaned_before_its_next_tenant_gets_it() {
    let mut world = Scene { stock: 1, ..Scene::default() }.open();
    world.driver = |_| Reaction::Waits;
    let lease = world.ask(GUEST, ask_for(1, 0, HOUR));
    world.command(GUEST, GuestCommand::Close { lease });
    let next = world.ask(RIVAL, ask_for(1, 0, HOUR));
    assert_eq!(world.units_in("Abandoned+next"), 1);
    world.driver = |_| Reaction::Works;
    let call = world.waiting.remove(0);
    world.answer(call, true);
    world.run();
    let steps: Vec<_> = world.calls.iter().map(|call| call.step).collect();
    assert_eq!(steps, [Step::Setup, Step::Teardown, Step::Setup, Step::Join]);
    assert_eq!(world.state(RIVAL, next), "Active");
}

#[test]
fn the_epoch_of_a_unit_grows_with_every_tenancy_and_every_end_of_one() {
    let mut world = Scene { stock: 1, ..Scene::default() }.open();
    for n in 0..3 {
        world.ask(GUEST, ask_for(1, n * HOUR, HOUR));
        world.advance((n + 1) * HOUR);
    }
    let at_site = world.calls.iter().filter(|c| matches!(c.step, Step::Setup | Step::Teardown));
    let epochs: Vec<Epoch> = at_site.map(|call| call.epoch).collect();
    assert_eq!(epochs, (1..=6).map(Epoch).collect::<Vec<_>>());
    let joins = world.calls.iter().filter(|call| call.step == Step::Join);
    let joined: Vec<Epoch> = joins.map(|call| call.epoch).collect();
    assert_eq!(joined, [Epoch(1), Epoch(3), Epoch(5)], "a guest joins in the epoch of the setup");
}

#[test]
fn no_call_is_made_twice() {
    let (mut world, _) = asked_with(|_| Reaction::Works, 4, 4);
    world.advance(HOUR);
    world.repeat();
    let mut made: BTreeMap<_, usize> = BTreeMap::new();
    for call in &world.calls {
        *made.entry((call.unit, call.epoch, call.step)).or_default() += 1;
    }
    assert!(made.values().all(|&times| times == 1));
    assert_eq!(world.calls.len(), 12, "4 setups, joins and teardowns");
}

#[test]
fn an_answer_that_is_late_early_or_repeated_changes_nothing() {
    let mut world = Scene { stock: 1, ..Scene::default() }.open();
    world.driver = |_| Reaction::Waits;
    let lease = world.ask(GUEST, ask_for(1, 0, HOUR));
    let setup = world.waiting.remove(0);
    let teardown = (SITE, Call { step: Step::Teardown, ..setup.1.clone() });
    let early = (SITE, Call { epoch: Epoch(2), ..setup.1.clone() });
    let elsewhere = (SITE, Call { unit: UnitId(7), ..setup.1.clone() });
    for stray in [teardown, early, elsewhere] {
        assert_eq!(world.answer(stray, true).facts, []);
    }
    assert_eq!(world.answer(setup.clone(), true).facts.len(), 2, "set up, activated");
    assert_eq!(world.answer(setup.clone(), false).facts, [], "repeated");
    world.run();
    let join = world.waiting.remove(0);
    assert_eq!(join.0, GUEST);
    world.command(GUEST, GuestCommand::Close { lease });
    assert_eq!(world.answer(join, true).facts, [], "it leaves already");
    assert_eq!(world.answer(setup, true).facts, [], "of an epoch that is over");
}

#[test]
fn units_that_are_added_to_the_stock_get_numbers_of_their_own_and_serve_who_waits() {
    let fails = |call: &Call| if_then(call.unit.0 < 3, Reaction::Fails);
    let mut world = Scene { stock: 3, ..Scene::default() }.open();
    world.driver = fails;
    world.command(SITE, SiteCommand::Stock { resource: node(), units: units(2) });
    let lease = world.ask(GUEST, ask_for(2, 0, HOUR));
    assert_eq!(world.state(GUEST, lease), "Active");
    assert_eq!(held(&world, lease), [UnitId(3), UnitId(4)]);
}

#[test]
fn numbers_of_withdrawn_units_are_not_used_again_and_what_is_delegated_cannot_be_withdrawn() {
    let mut world = Scene { stock: 2, ..Scene::default() }.open();
    world.command(SITE, SiteCommand::Stock { resource: node(), units: units(2) });
    let numbers = |world: &World| world.site().units().map(|(id, ..)| id.0).collect::<Vec<_>>();
    let before = numbers(&world);
    let too_many = SiteCommand::Withdraw { resource: node(), units: units(3) };
    let refused = world.hand(SITE, Input::Command(too_many.into()));
    assert_eq!(refused.facts, [], "{:?}", refused.problems);
    world.command(SITE, SiteCommand::Withdraw { resource: node(), units: units(2) });
    world.command(SITE, SiteCommand::Stock { resource: node(), units: units(1) });
    let after = numbers(&world);
    assert_eq!(after.len(), before.len() - 1);
    assert!(after.last() > before.last(), "{before:?}, then {after:?}");
}

#[test]
fn each_call_says_until_when_an_answer_is_of_use() {
    let leave_before = Span::from_secs(60);
    let mut world = Scene { leave_before, audited: true, ..Scene::default() }.open();
    world.ask(GUEST, ask_for(1, 0, HOUR));
    world.advance(HOUR);
    let due = |call: &Call| (call.step, call.deadline);
    let calls: Vec<_> = world.calls.iter().map(due).collect();
    let (end, gone) = (at(HOUR), at(HOUR).minus(MARGIN));
    assert_eq!(
        calls,
        [
            (Step::Setup, Some(end)),
            (Step::Join, Some(gone.minus(leave_before))),
            (Step::Leave, Some(gone)),
            (Step::Teardown, None),
        ]
    );
}
