//! Deadlines: every wait for another actor ends by the clock alone.

use tenure_core::actor::Actor as _;
use tenure_core::broker::machine::State;
use tenure_core::driver::{Call, Step};
use tenure_core::model::slice::{LeaseId, RequestId};
use tenure_core::model::time::{Span, Time};
use tenure_core::service_manager::Command as GuestCommand;
use tenure_core::ticket::ledger::LEDGER_RETENTION;
use tenure_core::wire::message::Message;
use tenure_core::wire::refusal::Refusal;
use tenure_core::wire::request::Request;

use crate::common::world::{Reaction, Scene, World};
use crate::common::{
    BROKER, FAR_OFF, GUEST, HOUR, MARGIN, RIVAL, SITE, ask_for, at, id, letter, request,
};

fn nobody_unfinished(world: &World, who: u8) {
    assert_eq!(world.actor(who).unfinished(9), Vec::<String>::new());
    assert_eq!(world.actor(who).effects_after(0), []);
}

/// A guest that asks for 2 units over [0, 1h) while an actor cannot be reached.
fn asking_without(dead: u8) -> (World, LeaseId) {
    let mut world = Scene::default().open();
    world.cut_off.insert(dead);
    let lease = world.ask(GUEST, ask_for(2, 0, HOUR));
    (world, lease)
}

#[test]
fn a_guest_gives_up_on_a_dead_broker_two_margins_before_the_end_and_later_forgets_it() {
    let (mut world, lease) = asking_without(BROKER);
    for (secs, state) in [
        (HOUR - 21, "Asking"),
        (HOUR - 20, "GivenUp"),
        (2 * HOUR - 1, "GivenUp"),
        (2 * HOUR, "forgotten"),
    ] {
        world.advance(secs);
        assert_eq!(world.state(GUEST, lease), state, "at {secs}s");
    }
    nobody_unfinished(&world, GUEST);
    assert_eq!(world.actor(GUEST).next_timeout(), None);
}

#[test]
fn a_guest_that_gave_up_still_gives_back_what_it_is_granted() {
    let mut world = Scene::default().open();
    world.keep.insert("granted");
    let lease = world.ask(GUEST, ask_for(2, 0, HOUR));
    world.command(GUEST, GuestCommand::Close { lease });
    assert_eq!(world.state(GUEST, lease), "GivenUp");
    world.release();
    assert_eq!(world.count(GUEST, "service-manager.unwanted-granted"), 1);
    assert_eq!((world.state(GUEST, lease), world.free_at(0)), ("Closed", 4));
    nobody_unfinished(&world, GUEST);
}

#[test]
fn a_lease_at_a_dead_site_is_over_one_margin_before_its_end() {
    let (mut world, lease) = asking_without(SITE);
    for (secs, state) in [
        (HOUR - 11, "Redeeming"),
        (HOUR - 10, "Closed"),
        (HOUR + 9, "Closed"),
        (HOUR + 10, "forgotten"),
    ] {
        world.advance(secs);
        assert_eq!(world.state(GUEST, lease), state, "at {secs}s");
    }
    nobody_unfinished(&world, GUEST);
    assert_eq!(world.actor(GUEST).next_timeout(), None);
}

#[test]
fn units_that_come_at_the_end_less_the_margin_are_not_taken_though_nobody_looked_at_the_clock() {
    for (secs, state) in [(HOUR - 11, "Active"), (HOUR - 10, "Redeeming")] {
        let mut world = Scene::default().open();
        world.keep.insert("leased");
        let lease = world.ask(GUEST, ask_for(2, 0, HOUR));
        world.now = at(secs);
        world.release();
        assert_eq!(world.state(GUEST, lease), state, "at {secs}s");
        world.advance(HOUR);
        assert_eq!(world.state(GUEST, lease), "Closed");
    }
}

#[test]
fn a_lease_in_use_at_a_dead_site_is_over_one_margin_before_its_end() {
    let mut world = Scene::default().open();
    let lease = world.ask(GUEST, ask_for(2, 0, HOUR));
    world.cut_off.insert(SITE);
    world.advance(HOUR - 11);
    assert_eq!(world.state(GUEST, lease), "Active");
    world.advance(HOUR - 10);
    assert_eq!(world.state(GUEST, lease), "Closed");
    nobody_unfinished(&world, GUEST);
}

/// A lease in use that is given back while an actor cannot be reached; no wait is longer than
/// as long again as its term.
fn given_back_without(dead: u8, waiting: &str) {
    let mut world = Scene::default().open();
    let lease = world.ask(GUEST, ask_for(2, 0, HOUR));
    world.cut_off.insert(dead);
    world.command(GUEST, GuestCommand::Close { lease });
    world.advance(HOUR - 1);
    assert_eq!(world.state(GUEST, lease), waiting);
    world.advance(2 * HOUR + 10);
    assert_eq!(world.state(GUEST, lease), "forgotten");
    nobody_unfinished(&world, GUEST);
}

#[test]
fn a_close_at_a_dead_site_is_given_up_after_the_end() {
    given_back_without(SITE, "Closing");
}

#[test]
fn a_credit_at_a_dead_broker_is_given_up_after_the_end() {
    given_back_without(BROKER, "Crediting");
}

#[test]
fn a_site_closes_the_lease_of_a_dead_guest_at_its_end_and_cleans_the_units() {
    let mut world = Scene::default().open();
    let lease = world.ask(GUEST, ask_for(2, 0, HOUR));
    let hash = world.ticket(GUEST, lease).hash();
    world.cut_off.insert(GUEST);
    for (secs, state, free) in [
        (HOUR - 1, "Active", 2),
        (HOUR, "Closed", 4),
        (HOUR + 9, "Closed", 4),
        (HOUR + 10, "unknown", 4),
    ] {
        world.advance(secs);
        assert_eq!((world.at_site(hash), world.units_in("Free")), (state, free), "at {secs}s");
    }
    nobody_unfinished(&world, SITE);
}

fn waits_at(call: &Call, step: Step) -> Reaction {
    if call.step == step { Reaction::Waits } else { Reaction::Works }
}

#[test]
fn a_guest_that_never_joins_or_leaves_holds_a_lease_no_longer_than_its_term() {
    let stuck: [fn(&Call) -> Reaction; 2] =
        [|call| waits_at(call, Step::Join), |call| waits_at(call, Step::Leave)];
    for driver in stuck {
        let mut world = Scene::default().open();
        world.driver = driver;
        let lease = world.ask(GUEST, ask_for(2, 0, HOUR));
        world.command(GUEST, GuestCommand::Close { lease });
        world.advance(HOUR);
        assert_eq!(world.state(GUEST, lease), "Closed");
        assert_eq!(world.units_in("Free"), 4);
        nobody_unfinished(&world, GUEST);
    }
}

#[test]
fn a_guest_starts_to_leave_before_the_end_if_configured() {
    let leave_before = Span::MINUTE;
    let mut world = Scene { leave_before, ..Scene::default() }.open();
    world.driver = |call| waits_at(call, Step::Leave);
    let lease = world.ask(GUEST, ask_for(2, 0, HOUR));
    for (secs, state) in [(HOUR - 71, "Active"), (HOUR - 70, "Leaving(end)"), (HOUR - 10, "Closed")]
    {
        world.advance(secs);
        assert_eq!(world.state(GUEST, lease), state, "at {secs}s");
    }
}

#[test]
fn a_request_that_no_mapper_answers_is_refused_when_its_answer_is_due() {
    let mut world = Scene::default().open();
    world.undecided.insert(BROKER);
    let lease = world.ask(GUEST, ask_for(2, 0, HOUR));
    world.advance(HOUR / 2 - 1);
    assert_eq!(world.state(GUEST, lease), "Asking");
    world.advance(HOUR / 2);
    assert_eq!(world.state(GUEST, lease), "Closed");
    let refused = world.sent("refused").remove(0).peek().unwrap();
    let undecided = Refusal::Undecided(at(HOUR / 2));
    assert!(matches!(refused.message, Message::Refused { refusal, .. } if refusal == undecided));
    nobody_unfinished(&world, GUEST);
}

#[test]
fn a_request_whose_answer_is_never_due_is_refused_when_its_last_term_is_over() {
    let mut world = Scene::default().open();
    world.undecided.insert(BROKER);
    let asked = Request { answer_by: Time::MAX, ..request(GUEST, 1, 2, 0, HOUR) };
    world.deliver(BROKER, &letter(GUEST, BROKER, Message::Request(asked.clone())));
    world.advance(HOUR - 1);
    assert!(matches!(world.broker().request(asked.id), Some(State::Open { .. })));
    world.advance(HOUR);
    assert!(matches!(world.broker().request(asked.id), Some(State::Refused { .. })));
}

#[test]
fn a_refused_request_is_remembered_as_long_again_as_its_term_and_a_margin() {
    let mut world = Scene::default().open();
    world.undecided.insert(BROKER);
    let asked = request(GUEST, 1, 2, 0, HOUR);
    world.deliver(BROKER, &letter(GUEST, BROKER, Message::Request(asked.clone())));
    let word = |world: &World| world.broker().request(asked.id).map(State::word);
    world.advance(2 * HOUR + 9);
    assert_eq!(word(&world), Some("Refused"));
    world.advance(2 * HOUR + 10);
    assert_eq!(word(&world), None);
    let delegation_ends = at(FAR_OFF).plus(LEDGER_RETENTION).plus(MARGIN);
    assert_eq!(world.actor(BROKER).next_timeout(), Some(delegation_ends));
}

#[test]
fn a_granted_request_is_remembered_as_long_again_as_its_term_and_a_margin() {
    let mut world = Scene::default().open();
    world.ask(GUEST, ask_for(2, 0, HOUR));
    let id = RequestId { origin: id(GUEST), number: 1 };
    world.advance(2 * HOUR + 9);
    assert!(world.broker().request(id).is_some());
    world.advance(2 * HOUR + 10);
    assert!(world.broker().request(id).is_none());
}

#[test]
fn a_lease_that_no_mapper_gives_units_ends_with_its_term() {
    let mut world = Scene::default().open();
    world.undecided.insert(SITE);
    let lease = world.ask(GUEST, ask_for(2, 0, HOUR));
    let hash = world.ticket(GUEST, lease).hash();
    world.advance(HOUR - 1);
    assert_eq!(world.at_site(hash), "Due");
    world.advance(HOUR);
    assert_eq!(world.at_site(hash), "Closed");
    world.advance(HOUR + 10);
    assert_eq!(world.at_site(hash), "unknown");
    assert_eq!((world.units_in("Free"), world.calls.len()), (4, 0));
}

#[test]
fn a_setup_that_ends_after_the_term_activates_nothing() {
    let mut world = Scene::default().open();
    world.driver = |call| waits_at(call, Step::Setup);
    let lease = world.ask(GUEST, ask_for(2, 0, HOUR));
    let hash = world.ticket(GUEST, lease).hash();
    world.advance(HOUR);
    assert_eq!((world.at_site(hash), world.units_in("Abandoned")), ("Closed", 2));
    for call in std::mem::take(&mut world.waiting) {
        world.answer(call, true);
    }
    world.run();
    assert_eq!(world.count(SITE, "site.lease-activated"), 0);
    assert_eq!(world.sent("leased"), []);
    assert_eq!(world.units_in("Free"), 4);
    nobody_unfinished(&world, SITE);
}

#[test]
fn a_setup_that_ends_with_the_term_activates_nothing_though_nobody_has_looked_at_the_clock() {
    let mut world = Scene::default().open();
    world.driver = |call| waits_at(call, Step::Setup);
    world.ask(GUEST, ask_for(2, 0, HOUR));
    world.now = at(HOUR);
    for call in std::mem::take(&mut world.waiting) {
        world.answer(call, true);
    }
    assert_eq!(world.count(SITE, "site.lease-activated"), 0);
    assert_eq!(world.sent("leased"), []);
}

#[test]
fn a_unit_whose_setup_never_ends_is_lent_to_nobody_else() {
    let mut world = Scene { stock: 2, ..Scene::default() }.open();
    world.driver = |call| waits_at(call, Step::Setup);
    world.ask(GUEST, ask_for(2, 0, HOUR));
    world.advance(HOUR);
    let next = world.ask(RIVAL, ask_for(2, HOUR, HOUR));
    let hash = world.ticket(RIVAL, next).hash();
    world.advance(2 * HOUR);
    assert_eq!((world.at_site(hash), world.calls.len()), ("Closed", 2));
    assert_eq!(world.units_in("Abandoned"), 2);
}

#[test]
fn a_delegation_is_owed_until_its_broker_has_it() {
    let delegation = (Span::HOUR.times(2), Span::HOUR);
    let mut world = Scene { delegation, ..Scene::default() }.open();
    nobody_unfinished(&world, SITE);
    world.cut_off.insert(BROKER);
    world.advance(HOUR);
    assert_eq!(world.actor(SITE).unfinished(9), ["delegation 1 is not acknowledged"]);
    world.cut_off.clear();
    world.repeat();
    nobody_unfinished(&world, SITE);
    assert_eq!(world.free_at(2 * HOUR), 4);
}

#[test]
fn a_site_that_missed_the_end_of_its_delegation_renews_it_all_the_same() {
    let delegation = (Span::HOUR.times(2), Span::HOUR);
    let mut world = Scene { delegation, ..Scene::default() }.open();
    world.now = at(5 * HOUR);
    world.advance(5 * HOUR);
    assert_eq!(world.free_at(6 * HOUR), 4);
    assert!(world.actor(SITE).next_timeout().is_some_and(|next| next > at(5 * HOUR)));
}
