//! Conservation at the site: a ticket is used, given back or handed on, and never twice.

use tenure_core::model::time::Span;
use tenure_core::ticket::Ticket;
use tenure_core::wire::message::Message;
use tenure_core::wire::refusal::Refusal;

use crate::common::world::{Scene, World};
use crate::common::{BROKER, GUEST, HOUR, RIVAL, SITE, STRANGER, close, cut, letter, redeem, term};

/// A world of 8 units, and a ticket of the guest's for 4 of them over [0, 1h).
fn bought() -> (World, Ticket) {
    let world = Scene { stock: 8, ..Scene::default() }.open();
    let ticket = cut(&world.delegation(), BROKER, GUEST, 4, term(0, HOUR), 901);
    (world, ticket)
}

/// Says something about a ticket to the site; answers whether it was refused.
fn refused(world: &mut World, who: u8, message: Message) -> bool {
    let out = world.deliver(SITE, &letter(who, SITE, message));
    world.run();
    out.replies.iter().any(|reply| matches!(reply.message, Message::Refused { .. }))
}

fn handed_on(bought: &Ticket, n: u32) -> Ticket {
    cut(bought, GUEST, RIVAL, n, term(0, HOUR), 1)
}

/// Whether the buyer of the other 4 units still gets them.
fn an_honest_ticket_is_honoured(world: &mut World) -> bool {
    let honest = cut(&world.delegation(), BROKER, STRANGER, 4, term(0, HOUR), 902);
    refused(world, STRANGER, redeem(&honest));
    world.at_site(honest.hash()) == "Active"
}

#[test]
fn a_ticket_that_is_used_cannot_be_handed_on() {
    let (mut world, ticket) = bought();
    assert!(!refused(&mut world, GUEST, redeem(&ticket)));
    assert!(refused(&mut world, RIVAL, redeem(&handed_on(&ticket, 1))));
    assert!(an_honest_ticket_is_honoured(&mut world));
}

#[test]
fn a_ticket_that_was_handed_on_cannot_be_used() {
    let (mut world, ticket) = bought();
    assert!(!refused(&mut world, RIVAL, redeem(&handed_on(&ticket, 1))));
    assert!(refused(&mut world, GUEST, redeem(&ticket)));
    assert!(an_honest_ticket_is_honoured(&mut world));
}

#[test]
fn a_ticket_that_was_handed_on_cannot_be_given_back() {
    let (mut world, ticket) = bought();
    assert!(!refused(&mut world, RIVAL, redeem(&handed_on(&ticket, 4))));
    assert!(refused(&mut world, GUEST, close(&ticket)));
    assert_eq!(world.sent("closed"), [], "no receipt is signed");
    assert_eq!(world.units_in("Ready"), 4);
}

#[test]
fn a_ticket_that_was_given_back_cannot_be_handed_on() {
    for used_before in [false, true] {
        let (mut world, ticket) = bought();
        if used_before {
            assert!(!refused(&mut world, GUEST, redeem(&ticket)));
        }
        assert!(!refused(&mut world, GUEST, close(&ticket)));
        assert!(refused(&mut world, RIVAL, redeem(&handed_on(&ticket, 1))));
        assert_eq!(world.units_in("Free"), 8);
    }
}

#[test]
fn parts_of_a_ticket_that_fit_into_it_are_all_honoured() {
    let (mut world, ticket) = bought();
    for serial in 1..=4 {
        let part = cut(&ticket, GUEST, RIVAL, 1, term(0, HOUR), serial);
        assert!(!refused(&mut world, RIVAL, redeem(&part)));
    }
    let more = cut(&ticket, GUEST, RIVAL, 1, term(0, HOUR), 5);
    let out = world.deliver(SITE, &letter(RIVAL, SITE, redeem(&more)));
    let Message::Refused { refusal, .. } = &out.replies[0].message else { panic!() };
    assert!(matches!(refusal, Refusal::Conflict(_)));
    assert!(an_honest_ticket_is_honoured(&mut world));
}

#[test]
fn a_broker_cannot_use_its_delegation_whether_it_sold_of_it_or_not() {
    for sell_first in [false, true] {
        let (mut world, sold) = bought();
        let held = world.delegation();
        if sell_first {
            assert!(!refused(&mut world, GUEST, redeem(&sold)));
        }
        assert!(refused(&mut world, BROKER, redeem(&held)));
        assert!(!refused(&mut world, GUEST, redeem(&sold)));
    }
}

/// Two generations are two tickets of one account: what is used under one is not held against the other.
#[test]
fn a_broker_cannot_use_two_generations_of_its_delegation() {
    let delegation = (Span::HOUR.times(2), Span::HOUR);
    let mut world = Scene { delegation, ..Scene::default() }.open();
    let old = world.delegation();
    world.advance(HOUR);
    let new = world.delegation();
    for ticket in [&old, &new] {
        world.deliver(SITE, &letter(BROKER, SITE, redeem(ticket)));
    }
    assert_eq!(world.count(SITE, "site.redeemed"), 0);
}

/// The tickets it has sold are refused then, and their holders have no evidence against it.
#[test]
fn a_broker_cannot_make_void_what_it_sold_by_giving_its_delegation_back() {
    let mut world = Scene::default().open();
    let held = world.delegation();
    let sold = cut(&held, BROKER, GUEST, 2, term(0, HOUR), 901);
    world.deliver(SITE, &letter(BROKER, SITE, close(&held)));
    world.deliver(SITE, &letter(GUEST, SITE, redeem(&sold)));
    world.run();
    assert_eq!(world.at_site(sold.hash()), "Active");
}
