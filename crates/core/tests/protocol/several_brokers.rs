//! Requests that go to several brokers: all hold, then all are accepted, then all is redeemed, or nothing is kept.

use tenure_core::driver::Step;
use tenure_core::model::slice::LeaseId;
use tenure_core::model::time::Span;
use tenure_core::service_manager::Command;
use tenure_core::service_manager::group::{Handling, State, Why};
use tenure_core::service_manager::mapper::Ask;
use tenure_core::wire::message::Sealed;
use tenure_core::wire::offer::Reply;
use tenure_core::wire::proviso::Provisos;
use tenure_core::wire::request::{Item, Relation};

use crate::common::world::{Reaction, Scene, World};
use crate::common::{BROKER, FAR_BROKER, FAR_SITE, GUEST, HOUR, RIVAL, ask_for, at, id, item};

const HOLD: Span = Span::from_secs(600);

/// Four units at a site of either broker; every input is compared with a recovery, and the laws look on.
fn market() -> World {
    let scene = Scene { far_stock: 4, far_broker: true, ..Scene::default() };
    Scene { suspicious: true, audited: true, ..scene }.open()
}

/// Two units of each broker for an hour, from now or later.
fn both(latest: i64) -> Ask {
    let until = at(latest + HOUR);
    Ask {
        items: vec![item(2), item(2)],
        latest: at(latest),
        answer_by: until,
        ..ask_for(2, 0, HOUR)
    }
}

fn several(ask: Ask, tries: u32) -> Command {
    let ask = Box::new(ask);
    Command::AskSeveral { ask, brokers: vec![id(BROKER), id(FAR_BROKER)], hold: HOLD, tries }
}

/// Asks both brokers, and does all that is due at once.
fn ask(world: &mut World, ask: Ask, tries: u32) {
    world.command(GUEST, several(ask, tries));
    world.advance_to(world.now);
}

/// Lets one of the messages arrive that are kept.
fn let_in(world: &mut World, sealed: &Sealed) {
    world.hand_over(sealed);
    world.run();
    world.advance_to(world.now);
}

/// Somebody else has what the far broker has over these seconds.
fn take_the_far(world: &mut World, start: i64, secs: i64) -> LeaseId {
    let ask = Ask { broker: Some(id(FAR_BROKER)), ..ask_for(3, start, secs) };
    world.ask(RIVAL, ask)
}

fn lease(number: u64) -> LeaseId {
    LeaseId { number, part: 0 }
}

fn states(world: &World, first: u64) -> [&'static str; 2] {
    [first, first + 1].map(|number| world.state(GUEST, lease(number)))
}

fn group(world: &World, number: u64) -> State {
    world.guest(GUEST).group(number).unwrap()
}

fn count(world: &World, kind: &str) -> usize {
    world.count(GUEST, &format!("service-manager.{kind}"))
}

/// What both brokers can sell at an instant.
fn free(world: &World, secs: i64) -> [i64; 2] {
    [BROKER, FAR_BROKER].map(|broker| world.free_of(broker, secs))
}

#[test]
fn all_hold_before_any_is_accepted_and_all_grant_before_any_is_redeemed() {
    let mut world = market();
    world.keep.insert("offered");
    ask(&mut world, both(0), 1);
    let offered = world.kept.clone();
    let_in(&mut world, &offered[0]);
    assert_eq!((states(&world, 1), count(&world, "accepted")), (["Offered", "Asking"], 0));
    world.keep.insert("granted");
    world.kept.clear();
    world.keep.remove("offered");
    let_in(&mut world, &offered[1]);
    assert_eq!((group(&world, 1), count(&world, "accepted")), (State::Accepting, 2));
    let granted = world.kept.clone();
    let_in(&mut world, &granted[0]);
    assert_eq!((states(&world, 1), count(&world, "redeem-begun")), (["Ticketed", "Accepting"], 0));
    let_in(&mut world, &granted[1]);
    assert_eq!((states(&world, 1), group(&world, 1)), (["Active", "Active"], State::Whole));
    assert_eq!(world.guest(GUEST).group_members(lease(1)), [lease(1), lease(2)]);
}

#[test]
fn a_refused_hold_frees_the_others_and_the_next_attempt_is_at_the_start_that_was_named() {
    let mut world = market();
    take_the_far(&mut world, 0, 2 * HOUR);
    ask(&mut world, both(4 * HOUR), 3);
    assert_eq!(group(&world, 1), State::Over);
    assert_eq!(world.guest(GUEST).next_attempt(1), Some(3));
    assert_eq!((states(&world, 3), group(&world, 3)), (["Redeeming"; 2], State::Assembling));
    assert_eq!((free(&world, 0), free(&world, 2 * HOUR)), ([4, 1], [2, 2]));
    world.advance(2 * HOUR);
    assert_eq!(group(&world, 3), State::Whole);
}

#[test]
fn without_another_start_nothing_is_tried_again() {
    let mut world = market();
    take_the_far(&mut world, 0, 2 * HOUR);
    ask(&mut world, both(0), 3);
    world.advance(HOUR);
    assert_eq!((count(&world, "group-asked"), free(&world, 0)), (1, [4, 1]));
    assert_eq!(count(&world, "group-broken"), 1);
}

#[test]
fn a_hold_that_is_late_is_not_waited_for() {
    let mut world = market();
    world.cut_off.insert(FAR_BROKER);
    ask(&mut world, both(2 * HOUR), 2);
    world.advance(299);
    assert_eq!((states(&world, 1), free(&world, 0)[0]), (["Offered", "Asking"], 2));
    world.advance(300);
    assert_eq!(
        (group(&world, 1), free(&world, 0)[0]),
        (State::GivingBack { why: Why::NotHeld(2) }, 4)
    );
    world.cut_off.clear();
    world.advance(900);
    let second = world.guest(GUEST).next_attempt(1).unwrap();
    assert_eq!(states(&world, second), ["Redeeming"; 2], "the next attempt, at the other start");
}

#[test]
fn tickets_go_back_when_another_broker_grants_nothing() {
    let mut world = market();
    world.keep.insert("accept");
    ask(&mut world, both(2 * HOUR), 1);
    let accepts = world.kept.clone();
    let_in(&mut world, &accepts[0]);
    assert_eq!(states(&world, 1), ["Ticketed", "Accepting"]);
    world.advance(599);
    assert_eq!(free(&world, 0), [2, 2]);
    world.keep.clear();
    world.advance(600);
    assert_eq!(states(&world, 1), ["Closed", "Closed"]);
    assert_eq!((free(&world, 600), count(&world, "redeem-begun")), ([4, 4], 0));
}

#[test]
fn a_ticket_that_comes_after_all_goes_back_before_the_group_is_over() {
    let mut world = market();
    world.keep.insert("granted");
    ask(&mut world, both(0), 1);
    let granted = world.kept.clone();
    world.keep.insert("withdraw");
    let_in(&mut world, &granted[0]);
    world.advance(600);
    assert_eq!(states(&world, 1), ["Closed", "GivenUp"]);
    assert!(matches!(group(&world, 1), State::GivingBack { .. }));
    world.keep.clear();
    let_in(&mut world, &granted[1]);
    assert_eq!((states(&world, 1), free(&world, 600)), (["Closed", "Closed"], [4, 4]));
    assert_eq!(group(&world, 1), State::Over);
}

#[test]
fn a_coordinator_that_crashes_anywhere_goes_on_where_it_was() {
    for kind in ["request", "offered", "accept", "granted", "redeem"] {
        let mut world = market();
        world.keep.insert(kind);
        ask(&mut world, both(0), 1);
        world.restart(GUEST);
        world.run();
        world.keep.clear();
        for _ in 0..3 {
            world.repeat();
            world.advance_to(world.now);
        }
        assert_eq!((states(&world, 1), group(&world, 1)), (["Active"; 2], State::Whole), "{kind}");
    }
}

#[test]
fn what_a_coordinator_held_and_never_came_back_for_is_free_again() {
    for kind in ["offered", "granted"] {
        let mut world = market();
        world.keep.insert(kind);
        ask(&mut world, both(2 * HOUR), 3);
        world.cut_off.insert(GUEST);
        assert_eq!(free(&world, 0), [2, 2], "{kind}");
        // Two holds and a margin: nobody has redeemed what was granted.
        world.advance(1210);
        world.repeat();
        assert_eq!(free(&world, 1210), [4, 4], "{kind}");
    }
}

#[test]
fn a_coordinator_that_slept_for_days_says_first_that_its_attempt_failed() {
    let mut world = market();
    world.cut_off.insert(FAR_BROKER);
    ask(&mut world, both(0), 3);
    world.now = at(10 * 24 * HOUR);
    world.advance_to(world.now);
    assert_eq!((count(&world, "group-broken"), world.guest(GUEST).group(1)), (1, None));
}

#[test]
fn a_setup_that_fails_costs_the_lease_of_the_other_broker_and_is_tried_again() {
    let mut world = market();
    world.driver = |call| {
        let fails = call.site == id(FAR_SITE) && call.step == Step::Setup;
        if fails { Reaction::Fails } else { Reaction::Works }
    };
    ask(&mut world, both(3 * HOUR), 4);
    // There is no other site: a further attempt is at the next start.
    assert_eq!(group(&world, 1), State::Over);
    assert_eq!((count(&world, "group-asked"), count(&world, "group-broken")), (3, 2));
    assert_eq!(free(&world, 0), [4, 4]);
    world.driver = |_| Reaction::Works;
    world.advance(HOUR);
    assert_eq!((states(&world, 5), group(&world, 5)), (["Active"; 2], State::Whole));
}

#[test]
fn a_user_that_closes_one_of_them_gives_all_up() {
    for holding in [true, false] {
        let mut world = market();
        if holding {
            world.cut_off.insert(FAR_BROKER);
        } else {
            world.driver = |_| Reaction::Waits;
        }
        ask(&mut world, both(2 * HOUR), 3);
        let before = if holding { State::Holding } else { State::Assembling };
        assert_eq!(group(&world, 1), before);
        world.command(GUEST, Command::Close { lease: lease(1) });
        world.cut_off.clear();
        world.repeat();
        world.advance(HOUR - 60);
        assert_eq!((count(&world, "group-asked"), free(&world, HOUR - 60)), (1, [4, 4]));
        assert_eq!(group(&world, 1), State::Over);
    }
}

#[test]
fn a_part_is_neither_accepted_nor_redeemed_by_itself() {
    let mut world = market();
    world.cut_off.insert(FAR_BROKER);
    ask(&mut world, both(0), 1);
    world.command(GUEST, Command::Accept { number: 1, offer: 1 });
    assert_eq!((states(&world, 1)[0], world.problems.len()), ("Offered", 1));
    let mut world = market();
    world.keep.insert("granted");
    ask(&mut world, both(0), 1);
    let granted = world.kept.clone();
    let_in(&mut world, &granted[0]);
    world.command(GUEST, Command::Redeem { lease: lease(1) });
    assert_eq!((states(&world, 1)[0], world.problems.len()), ("Ticketed", 1));
}

#[test]
fn what_makes_no_sense_is_asked_of_nobody() {
    let mut world = market();
    let together = Item { together: Some(0), ..item(1) };
    let bad = [
        (Ask { reply: Reply::Plan, ..both(0) }, 2, HOLD, 1),
        (Ask { min_duration: Span::MINUTE, ..both(0) }, 2, HOLD, 1),
        (Ask { items: vec![together.clone(), together], ..both(0) }, 2, HOLD, 1),
        (Ask { items: vec![item(1), Item { choice: 1, ..item(1) }], ..both(0) }, 2, HOLD, 1),
        (both(0), 1, HOLD, 1),
        (both(0), 2, HOLD, 0),
        (both(0), 2, Span::from_secs(40), 1),
        (both(0), 2, Span::DAY.times(2), 1),
    ];
    for (ask, brokers, hold, tries) in bad {
        let before = world.problems.len();
        let brokers = [id(BROKER), id(FAR_BROKER)].into_iter().take(brokers);
        let brokers = brokers.collect();
        world.command(GUEST, Command::AskSeveral { ask: Box::new(ask), brokers, hold, tries });
        assert_eq!((world.problems.len(), count(&world, "group-asked")), (before + 1, 0));
    }
}

#[test]
fn items_apart_come_from_different_sites_whoever_sells_them() {
    let mut world = market();
    let apart = Item { relation: Relation::Apart(0), ..item(2) };
    let wanted = Ask { items: vec![apart.clone(), apart], ..both(0) };
    ask(&mut world, wanted, 1);
    assert_eq!(group(&world, 1), State::Whole);
}

#[test]
fn units_are_waited_for_from_the_last_ticket_on() {
    let mut world = market();
    world.keep.insert("granted");
    let handling = Handling { assemble: Span::from_secs(60), ..Handling::default() };
    ask(&mut world, Ask { handling, ..both(0) }, 1);
    let granted = world.kept.clone();
    world.keep.clear();
    let_in(&mut world, &granted[0]);
    world.advance(120);
    let_in(&mut world, &granted[1]);
    assert_eq!((states(&world, 1), group(&world, 1)), (["Active", "Active"], State::Whole));
}

#[test]
fn numbers_of_an_attempt_that_cannot_be_asked_are_not_given_again() {
    let mut world = market();
    world.cut_off.insert(FAR_BROKER);
    let provisos = Provisos { redeem_by: Some(at(700)), ..Provisos::default() };
    ask(&mut world, Ask { provisos, ..both(2 * HOUR) }, 2);
    world.advance(900);
    assert_eq!(world.guest(GUEST).next_attempt(1), Some(3), "too late to be redeemed");
    assert_eq!(group(&world, 3), State::Over);
    world.cut_off.clear();
    let plain = world.ask(GUEST, Ask { broker: Some(id(BROKER)), ..ask_for(1, 900, HOUR) });
    world.advance(901);
    assert_eq!((plain, world.state(GUEST, plain)), (lease(5), "Active"));
}

#[test]
fn tickets_that_are_complete_too_late_go_back() {
    let mut world = market();
    world.keep.insert("granted");
    let provisos = Provisos { redeem_by: Some(at(200)), ..Provisos::default() };
    ask(&mut world, Ask { provisos, ..both(0) }, 1);
    let granted = world.kept.clone();
    world.keep.clear();
    let_in(&mut world, &granted[0]);
    world.hand_over(&granted[1]);
    world.run();
    // By a clock that was set on, before the tick at which all are there.
    world.now = world.now.plus(Span::from_secs(199));
    world.advance_to(world.now);
    assert_eq!((states(&world, 1), count(&world, "redeem-begun")), (["Closed", "Closed"], 0));
    world.advance(400);
    assert_eq!((group(&world, 1), free(&world, 400)), (State::Over, [4, 4]));
}
