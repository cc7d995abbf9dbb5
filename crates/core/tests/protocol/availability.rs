//! What brokers tell of what is free: as much as they disclose, and only to those that they know.

use std::collections::BTreeMap;

use tenure_core::actor::Actor as _;
use tenure_core::broker::availability::Disclosure;
use tenure_core::model::name::Name;
use tenure_core::model::resource::Constraints;
use tenure_core::model::time::{Span, Term, Time};
use tenure_core::runtime::{AnyActor, Input};
use tenure_core::service_manager::Command;
use tenure_core::wire::inquiry::{Availability, Inquiry};
use tenure_core::wire::message::Message;

use crate::common::world::{Scene, World};
use crate::common::{BROKER, GUEST, HOUR, STRANGER, ask_for, id, letter};

fn world() -> World {
    Scene { suspicious: true, audited: true, ..Scene::default() }.open()
}

/// Of all types over an hour from then on.
fn inquiry(from: i64) -> Inquiry {
    let start = Time::from_secs(from);
    let term = Term::new(start, start.plus(Span::from_secs(HOUR))).unwrap();
    Inquiry { resource: None, requirements: Constraints::NONE, term }
}

fn said(world: &World, inquiry: &Inquiry, disclosed: Disclosure) -> Availability {
    let AnyActor::Broker(broker) = world.actor(BROKER) else { panic!() };
    broker.availability(world.clock(BROKER), inquiry, disclosed)
}

/// What is free of each type by a broker's last answer.
fn answered(world: &World) -> BTreeMap<String, (u32, u32)> {
    let answer = world.sent("available").last().cloned().expect("an answer");
    let Message::Available { availability, .. } = answer.peek().unwrap().message else { panic!() };
    let Availability::Stocks { stocks, more: 0 } = availability else { panic!("{availability:?}") };
    stocks.iter().map(|stock| (stock.resource.to_string(), (stock.free, stock.units))).collect()
}

#[test]
fn a_broker_says_what_is_free_over_the_whole_term_and_nothing_is_journaled() {
    let mut world = world();
    let (free, all) = *answered_to(&mut world, inquiry(0)).values().next().unwrap();
    assert_eq!(free, all);
    world.ask(GUEST, ask_for(2, HOUR / 2, HOUR));
    let facts = [BROKER, GUEST].map(|who| world.actor(who).position());
    let now = answered_to(&mut world, inquiry(0));
    assert_eq!(now.values().next(), Some(&(all - 2, all)), "the lease begins within the term");
    let later = answered_to(&mut world, inquiry(2 * HOUR));
    assert_eq!(later.values().next(), Some(&(all, all)));
    assert_eq!([BROKER, GUEST].map(|who| world.actor(who).position()), facts);
}

fn answered_to(world: &mut World, inquiry: Inquiry) -> BTreeMap<String, (u32, u32)> {
    world.command(GUEST, Command::Inquire { broker: Some(id(BROKER)), inquiry });
    world.run();
    answered(world)
}

#[test]
fn it_tells_as_much_as_it_discloses() {
    let mut world = world();
    world.ask(GUEST, ask_for(2, 0, HOUR));
    let question = inquiry(0);
    let said = |disclosed| said(&world, &question, disclosed);
    let Availability::Stocks { stocks, .. } = said(Disclosure::All) else { panic!() };
    let free: u32 = stocks.iter().map(|stock| stock.free).sum();
    let node = stocks[0].resource.clone();
    assert_eq!(said(Disclosure::None), Availability::Undisclosed);
    assert_eq!(said(Disclosure::YesNo), Availability::Types([(node.clone(), free > 0)].into()));
    assert_eq!(said(Disclosure::Totals), Availability::Totals([(node, free)].into()));
}

#[test]
fn a_type_or_a_condition_that_nothing_meets_is_answered_with_nothing() {
    let world = world();
    let other = Inquiry { resource: Some(Name::literal("gpu")), ..inquiry(0) };
    assert_eq!(said(&world, &other, Disclosure::Totals), Availability::Totals(BTreeMap::new()));
    let mut condition = Constraints::NONE;
    condition.add("site == \"nowhere\"".parse().unwrap());
    let other = Inquiry { requirements: condition, ..inquiry(0) };
    assert_eq!(said(&world, &other, Disclosure::YesNo), Availability::Types(BTreeMap::new()));
}

#[test]
fn who_is_no_peer_gets_no_answer_and_a_broker_that_is_none_is_not_believed() {
    let mut world = world();
    let question = letter(STRANGER, BROKER, Message::Inquire(inquiry(0)));
    let out = world.deliver(BROKER, &question);
    assert_eq!((out.facts.len(), out.replies.len(), out.problems.len()), (0, 0, 1));
    let availability = Availability::Totals(BTreeMap::new());
    let answer = letter(STRANGER, GUEST, Message::Available { asked: Time::ZERO, availability });
    let out = world.deliver(GUEST, &answer);
    assert_eq!((out.answered.len(), out.problems.len()), (0, 1));
    let unknown = Command::Inquire { broker: Some(id(STRANGER)), inquiry: inquiry(0) };
    let out = world.hand(GUEST, Input::Command(unknown.into()));
    assert!(out.problems[0].to_string().contains("no broker"), "{:?}", out.problems);
}
