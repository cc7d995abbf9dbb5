//! Requests that are revised: which revision a grant is for, and which one a broker still takes.

use tenure_core::broker::machine::State;
use tenure_core::model::slice::LeaseId;
use tenure_core::service_manager::Command as GuestCommand;
use tenure_core::wire::message::Message;
use tenure_core::wire::refusal::Refusal;

use crate::common::world::{Scene, World};
use crate::common::{
    BROKER, GUEST, HOUR, MARGIN, ask_for, at, letter, micro, request, term, units,
};

/// A guest's request for three units that it has revised to one or two, after the broker granted it.
fn revised_when_granted(world: &mut World) -> LeaseId {
    world.keep.insert("granted");
    let lease = world.ask(GUEST, ask_for(3, 0, HOUR));
    let mut ask = ask_for(2, 0, HOUR);
    ask.items[0].min_units = units(1);
    world.command(GUEST, GuestCommand::Revise { number: lease.number, ask });
    lease
}

#[test]
fn a_grant_is_held_to_the_revision_that_it_meets() {
    let mut world = Scene::default().open();
    let lease = revised_when_granted(&mut world);
    assert_eq!(world.state(GUEST, lease), "Asking");
    world.release();
    let redeem = world.sent("redeem").last().cloned().unwrap();
    let Message::Redeem { ticket, min_units, .. } = redeem.peek().unwrap().message else {
        panic!()
    };
    // The first one was not elastic: all three units, or none.
    assert_eq!((ticket.bottom().units, min_units), (units(3), units(3)));
}

#[test]
fn a_revision_says_until_when_its_broker_surely_knows_the_request() {
    let mut world = Scene::default().open();
    let lease = revised_when_granted(&mut world);
    let mut ask = ask_for(1, 0, 3 * HOUR);
    ask.latest = at(5 * HOUR);
    world.command(GUEST, GuestCommand::Revise { number: lease.number, ask });
    let asked = world.sent("request").last().cloned().unwrap();
    let Message::Request(asked) = asked.peek().unwrap().message else { panic!() };
    let first = request(GUEST, lease.number, 3, 0, HOUR).last_word();
    assert_eq!((asked.history.revision, asked.history.first_word), (2, Some(first)));
}

#[test]
fn a_revision_of_a_request_that_may_be_forgotten_is_not_taken() {
    let mut world = Scene::default().open();
    let mut revised = request(GUEST, 1, 2, 0, 9 * HOUR);
    (revised.history.revision, revised.history.first_word) = (1, Some(at(2 * HOUR)));
    let mut other = request(GUEST, 2, 2, 0, 9 * HOUR);
    other.history = revised.history;
    world.advance_to(at(2 * HOUR).plus(MARGIN).minus(micro()));
    world.deliver(BROKER, &letter(GUEST, BROKER, Message::Request(other.clone())));
    assert!(world.broker().request(other.id).is_some());
    world.advance_to(at(2 * HOUR).plus(MARGIN));
    world.deliver(BROKER, &letter(GUEST, BROKER, Message::Request(revised.clone())));
    assert!(world.broker().request(revised.id).is_none());
    world.run();
    let refused = world.sent("refused").last().cloned().unwrap();
    let Message::Refused { refusal, .. } = refused.peek().unwrap().message else { panic!() };
    assert_eq!(refusal, Refusal::TooLate(at(9 * HOUR)));
}

#[test]
fn a_revision_for_less_time_is_remembered_as_long_as_the_first() {
    let mut world = Scene::default().open();
    let first = request(GUEST, 1, 2, 0, 9 * HOUR);
    let mut revised = request(GUEST, 1, 2, 0, HOUR);
    (revised.history.revision, revised.history.first_word) = (1, Some(first.last_word()));
    world.deliver(BROKER, &letter(GUEST, BROKER, Message::Request(revised)));
    world.run();
    world.advance(3 * HOUR);
    // Its first message comes last.
    world.deliver(BROKER, &letter(GUEST, BROKER, Message::Request(first.clone())));
    let Some(State::Granted { tickets, .. }) = world.broker().request(first.id) else { panic!() };
    assert_eq!(tickets[0].1.bottom().term, term(0, HOUR));
}
