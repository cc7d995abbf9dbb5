//! Grants that are not what was asked for.

use tenure_core::broker::machine::State;
use tenure_core::model::time::Span;
use tenure_core::service_manager::Command as GuestCommand;
use tenure_core::wire::message::Message;
use tenure_core::wire::refusal::Refusal;

use crate::common::world::Scene;
use crate::common::{BROKER, GUEST, HOUR, RIVAL, ask_for, at, item, letter, request};

#[test]
fn two_items_of_one_type_are_met_as_early_as_both_fit() {
    let mut world = Scene::default().open();
    world.ask(RIVAL, ask_for(2, 0, HOUR));
    let mut ask = ask_for(2, 0, HOUR);
    ask.items.push(item(2));
    ask.latest = at(2 * HOUR);
    let lease = world.ask(GUEST, ask);
    assert_eq!(world.state(GUEST, lease), "Redeeming", "from 1h on all 4 units are free");
}

#[test]
fn a_window_that_began_long_ago_is_met_in_what_is_left_of_it() {
    let mut world = Scene::default().open();
    world.advance(3 * HOUR);
    let mut asked = request(GUEST, 1, 2, 0, HOUR);
    (asked.latest, asked.answer_by) = (at(4 * HOUR), at(5 * HOUR));
    world.deliver(BROKER, &letter(GUEST, BROKER, Message::Request(asked.clone())));
    world.run();
    let state = world.broker().request(asked.id);
    assert!(matches!(state, Some(State::Granted { .. })), "all units are free: {state:?}");
}

#[test]
fn a_refused_extension_has_no_hint_to_come_later() {
    let mut world = Scene::default().open();
    let lease = world.ask(GUEST, ask_for(4, 0, HOUR));
    world.ask(RIVAL, ask_for(1, HOUR, HOUR));
    world.command(GUEST, GuestCommand::extend(lease, Span::HOUR));
    let refused = world.sent("refused").last().cloned().unwrap();
    let Message::Refused { refusal, .. } = refused.peek().unwrap().message else { panic!() };
    assert!(matches!(refusal, Refusal::Busy { earliest: None, .. }), "{refusal}");
}

#[test]
fn a_term_beyond_all_delegations_differs_from_one_that_is_sold_out() {
    let delegation = (Span::HOUR.times(2), Span::HOUR);
    let mut world = Scene { delegation, ..Scene::default() }.open();
    world.ask(GUEST, ask_for(1, 0, 3 * HOUR));
    let refused = world.sent("refused").last().cloned().unwrap();
    let Message::Refused { refusal, .. } = refused.peek().unwrap().message else { panic!() };
    let Refusal::Beyond { until, end, .. } = refusal else { panic!("{refusal}") };
    assert_eq!((until, end), (at(2 * HOUR), at(3 * HOUR)));
    // What is delegated long enough is sold, and only then is it busy.
    world.ask(GUEST, ask_for(4, 0, 2 * HOUR));
    world.ask(RIVAL, ask_for(1, 0, HOUR));
    let refused = world.sent("refused").last().cloned().unwrap();
    let Message::Refused { refusal, .. } = refused.peek().unwrap().message else { panic!() };
    assert!(matches!(refusal, Refusal::Busy { .. }), "{refusal}");
}
