//! Receipts: what a guest gives back can be sold again, once.

use std::collections::BTreeMap;

use tenure_core::actor::effect::Problem;
use tenure_core::broker::machine::State;
use tenure_core::model::slice::{LeaseId, RequestId};
use tenure_core::model::time::Span;
use tenure_core::service_manager::Command as GuestCommand;
use tenure_core::service_manager::mapper::Ask;
use tenure_core::ticket::Ticket;
use tenure_core::ticket::receipt::{Receipt, Return};
use tenure_core::wire::message::{Message, Sequence};
use tenure_core::wire::offer::Reply;

use crate::common::world::{Reaction, Scene, World};
use crate::common::{
    BROKER, FAR_SITE, GUEST, HOUR, RIVAL, SITE, ask_for, at, close, cut, id, letter, receipt,
    redeem, returned, signer, term, units,
};

/// A guest's lease of 3 of 4 units over [0, 1h), with its ticket; ten minutes have passed.
fn leased() -> (World, LeaseId, Ticket) {
    let mut world = Scene::default().open();
    let lease = world.ask(GUEST, ask_for(3, 0, HOUR));
    let ticket = world.ticket(GUEST, lease);
    world.advance(600);
    (world, lease, ticket)
}

/// The same lease, given back after ten minutes.
fn given_back() -> (World, Ticket) {
    let (mut world, lease, ticket) = leased();
    world.command(GUEST, GuestCommand::Close { lease });
    assert_eq!(world.state(GUEST, lease), "Closed");
    (world, ticket)
}

fn at_broker(world: &World) -> &'static str {
    let id = RequestId { origin: id(GUEST), number: 1 };
    world.broker().request(id).map_or("forgotten", State::word)
}

#[test]
fn a_lease_given_back_early_is_credited_from_that_instant() {
    let (world, ticket) = given_back();
    assert_eq!(world.count(BROKER, "broker.receipt-taken"), 1);
    assert_eq!((world.free_at(599), world.free_at(600), world.free_at(HOUR)), (1, 4, 4));
    assert_eq!(at_broker(&world), "Returned");
    assert_eq!(world.at_site(ticket.hash()), "Closed");
    assert_eq!(world.units_in("Free"), 4);
}

#[test]
fn units_given_back_are_sold_again_from_that_instant() {
    let (mut world, _) = given_back();
    let lease = world.ask(RIVAL, ask_for(4, 600, HOUR));
    assert_eq!(world.state(RIVAL, lease), "Active");
    assert_eq!(world.units_in("Ready"), 4);
}

#[test]
fn units_given_back_are_not_sold_for_the_time_they_were_used() {
    let (mut world, _) = given_back();
    let lease = world.ask(RIVAL, ask_for(4, 599, HOUR));
    assert_eq!(world.state(RIVAL, lease), "Closed");
    assert_eq!(world.count(RIVAL, "service-manager.ask-refused"), 1);
}

#[test]
fn a_receipt_shown_again_changes_nothing_and_is_answered_in_the_same_bytes() {
    let (mut world, _) = given_back();
    let (credit, position) = (world.sent("credit").remove(0), world.position(BROKER));
    for secs in [600, 700, 900] {
        world.advance(secs);
        let out = world.deliver(BROKER, &credit);
        assert!(matches!(out.replies[0].message, Message::Credited { .. }));
    }
    let answers = world.sent("credited");
    assert_eq!(answers, vec![answers[0].clone(); 4]);
    assert_eq!((world.position(BROKER), world.free_at(900)), (position, 4));
}

#[test]
fn a_receipt_shown_by_somebody_else_is_answered_under_a_number_that_binds_nobody() {
    let (mut world, _) = given_back();
    let Message::Credit { receipts } = world.sent("credit").remove(0).peek().unwrap().message
    else {
        unreachable!()
    };
    let out = world.deliver(BROKER, &letter(RIVAL, BROKER, Message::Credit { receipts }));
    assert_eq!(out.replies[0].header.sequence.index, Sequence::VOLATILE);
    let bound = world.sent("credited").remove(0).peek().unwrap().header.sequence;
    assert_ne!(out.replies[0].header.sequence, bound);
}

#[test]
fn another_receipt_for_a_ticket_that_was_credited_changes_nothing() {
    let (mut world, ticket) = given_back();
    let position = world.position(BROKER);
    let mut what = returned(SITE, ticket.bottom(), at(0));
    what.number = 1;
    let receipts = vec![Receipt::sign(what, &signer(SITE))];
    world.deliver(BROKER, &letter(GUEST, BROKER, Message::Credit { receipts }));
    assert_eq!((world.position(BROKER), world.free_at(300)), (position, 1));
}

/// Shows the broker a receipt that is not good; answers what is free then.
fn after_bad_receipt(site: u8, change: impl FnOnce(&mut Return)) -> i64 {
    let (mut world, _, ticket) = leased();
    let mut what = returned(SITE, ticket.bottom(), at(600));
    change(&mut what);
    let receipts = vec![Receipt::sign(what, &signer(site))];
    let position = world.position(BROKER);
    let out = world.deliver(BROKER, &letter(GUEST, BROKER, Message::Credit { receipts }));
    assert_eq!(out.replies, []);
    assert!(matches!(out.problems[..], [Problem::Message { kind: "credit", .. }]));
    assert_eq!(world.position(BROKER), position);
    world.free_at(600)
}

/// Its holder cannot have it, unless the broker was restored from an older journal.
#[test]
fn a_receipt_for_a_ticket_that_is_kept_back_is_ignored() {
    let mut world = Scene::default().open();
    world.ask(GUEST, Ask { reply: Reply::Hold(Span::HOUR), ..ask_for(3, 0, HOUR) });
    let request = RequestId { origin: id(GUEST), number: 1 };
    let Some(State::Held { offers, .. }) = world.broker().request(request) else { panic!() };
    let (_, ticket) = offers[0][0].clone();
    let receipts = vec![receipt(SITE, ticket.bottom(), at(0))];
    let position = world.position(BROKER);
    let out = world.deliver(BROKER, &letter(GUEST, BROKER, Message::Credit { receipts }));
    assert_eq!(out.replies, []);
    assert!(matches!(out.problems[..], [Problem::Message { kind: "credit", .. }]));
    assert_eq!((world.position(BROKER), at_broker(&world)), (position, "Held"));
}

#[test]
fn a_forged_receipt_is_ignored() {
    assert_eq!(after_bad_receipt(GUEST, |_| ()), 1);
    assert_eq!(after_bad_receipt(BROKER, |_| ()), 1);
    assert_eq!(after_bad_receipt(FAR_SITE, |_| ()), 1);
}

#[test]
fn a_receipt_by_another_site_is_ignored() {
    assert_eq!(after_bad_receipt(FAR_SITE, |what| what.site = id(FAR_SITE)), 1);
}

#[test]
fn a_receipt_for_more_than_the_ticket_or_another_issuer_is_ignored() {
    assert_eq!(after_bad_receipt(SITE, |what| what.units = units(4)), 1);
    assert_eq!(after_bad_receipt(SITE, |what| what.term = term(0, HOUR + 1)), 1);
    assert_eq!(after_bad_receipt(SITE, |what| what.issuer = id(RIVAL)), 1);
}

#[test]
fn a_receipt_for_a_ticket_that_was_never_cut_here_credits_nothing() {
    let (mut world, _, _) = leased();
    let receipts = vec![receipt(SITE, world.delegation().bottom(), at(600))];
    let position = world.position(BROKER);
    world.deliver(BROKER, &letter(GUEST, BROKER, Message::Credit { receipts }));
    assert_eq!((world.position(BROKER), world.free_at(600)), (position, 1));
}

#[test]
fn a_receipt_for_the_future_credits_no_more_than_the_future() {
    let (mut world, _, ticket) = leased();
    let receipts = vec![receipt(SITE, ticket.bottom(), at(1200))];
    world.deliver(BROKER, &letter(GUEST, BROKER, Message::Credit { receipts }));
    assert_eq!((world.free_at(1199), world.free_at(1200)), (1, 4));
}

#[test]
fn a_receipt_that_comes_late_credits_what_is_left() {
    let (mut world, lease, _) = leased();
    world.keep.insert("credit");
    world.command(GUEST, GuestCommand::Close { lease });
    world.advance(1200);
    world.release();
    assert_eq!((world.free_at(1199), world.free_at(1200)), (1, 4));
}

#[test]
fn a_receipt_for_a_forgotten_ticket_is_answered_and_credits_nothing() {
    let (mut world, _, ticket) = leased();
    world.advance(3 * HOUR);
    assert_eq!(at_broker(&world), "forgotten");
    let (position, receipts) =
        (world.position(BROKER), vec![receipt(SITE, ticket.bottom(), at(0))]);
    let out = world.deliver(BROKER, &letter(GUEST, BROKER, Message::Credit { receipts }));
    assert!(matches!(out.replies[0].message, Message::Credited { .. }));
    assert_eq!(world.position(BROKER), position);
}

#[test]
fn a_lease_given_back_before_it_began_is_credited_whole() {
    let mut world = Scene::default().open();
    let lease = world.ask(GUEST, ask_for(3, 600, HOUR));
    let ticket = world.ticket(GUEST, lease);
    assert_eq!(world.at_site(ticket.hash()), "Early");
    world.command(GUEST, GuestCommand::Close { lease });
    assert_eq!((world.free_at(600), world.calls.len()), (4, 0));
    assert_eq!(world.state(GUEST, lease), "Closed");
}

#[test]
fn a_ticket_given_back_without_having_been_shown_is_credited_whole() {
    let mut world = Scene::default().open();
    world.cut_off.insert(SITE);
    let lease = world.ask(GUEST, ask_for(3, 0, HOUR));
    world.command(GUEST, GuestCommand::Close { lease });
    assert_eq!(world.state(GUEST, lease), "Closing");
    world.cut_off.clear();
    world.repeat();
    assert_eq!(world.state(GUEST, lease), "Closed");
    assert_eq!(world.count(SITE, "site.ticket-surrendered"), 1);
    assert_eq!((world.free_at(0), world.calls.len()), (4, 0));
}

#[test]
fn a_ticket_given_back_without_having_been_shown_can_not_be_redeemed_any_more() {
    let mut world = Scene::default().open();
    world.keep.insert("redeem");
    let lease = world.ask(GUEST, ask_for(3, 0, HOUR));
    let ticket = world.ticket(GUEST, lease);
    world.command(GUEST, GuestCommand::Close { lease });
    world.release();
    assert_eq!((world.at_site(ticket.hash()), world.calls.len()), ("Closed", 0));
    assert_eq!(world.count(SITE, "site.redeemed"), 0);
}

#[test]
fn a_lease_given_back_while_it_is_set_up_is_credited_and_its_units_are_cleaned() {
    let mut world = Scene::default().open();
    world.driver = |_| Reaction::Waits;
    let lease = world.ask(GUEST, ask_for(3, 0, HOUR));
    world.command(GUEST, GuestCommand::Close { lease });
    assert_eq!((world.state(GUEST, lease), world.free_at(0)), ("Closed", 4));
    assert_eq!(world.units_in("Abandoned"), 3);
    world.driver = |_| Reaction::Works;
    for call in std::mem::take(&mut world.waiting) {
        world.answer(call, true);
    }
    world.run();
    assert_eq!(world.units_in("Free"), 4);
}

#[test]
fn a_close_repeated_gets_the_same_receipts_in_the_same_bytes() {
    let (mut world, ticket) = given_back();
    let (close, position) = (world.sent("close").remove(0), world.position(SITE));
    for secs in [600, 700, 900] {
        world.advance(secs);
        world.deliver(SITE, &close);
    }
    let answers = world.sent("closed");
    assert_eq!(answers, vec![answers[0].clone(); 4]);
    assert_eq!(world.position(SITE), position);
    assert_eq!(world.at_site(ticket.hash()), "Closed");
}

#[test]
fn a_close_after_the_term_has_no_receipts() {
    let (mut world, _, ticket) = leased();
    for secs in [HOUR, HOUR + 11] {
        world.advance(secs);
        let out = world.deliver(SITE, &letter(GUEST, SITE, close(&ticket)));
        let closed = Message::Closed { ticket: ticket.hash(), refusal: None, receipts: vec![] };
        assert_eq!(out.replies[0].message, closed);
    }
}

#[test]
fn lost_closes_and_credits_are_made_up_for_by_repeating_them() {
    let (mut world, lease, _) = leased();
    for lost in ["close", "closed", "credit", "credited"] {
        world.keep.insert(lost);
    }
    world.command(GUEST, GuestCommand::Close { lease });
    for found in ["close", "closed", "credit", "credited"] {
        assert_ne!(world.state(GUEST, lease), "Closed");
        world.keep.remove(found);
        world.repeat();
    }
    assert_eq!(world.state(GUEST, lease), "Closed");
    assert_eq!(world.count(BROKER, "broker.receipt-taken"), 1);
    assert_eq!(world.free_at(600), 4);
}

#[test]
fn a_request_met_by_two_sites_is_returned_once_both_tickets_are() {
    let mut world = Scene { stock: 2, far_stock: 2, ..Scene::default() }.open();
    let first = world.ask(GUEST, ask_for(4, 0, HOUR));
    let second = LeaseId { part: 1, ..first };
    assert_eq!((world.state(GUEST, first), world.state(GUEST, second)), ("Active", "Active"));
    world.command(GUEST, GuestCommand::Close { lease: second });
    assert_eq!((world.state(GUEST, second), at_broker(&world)), ("Closed", "Granted"));
    assert_eq!(world.state(GUEST, first), "Active");
    world.command(GUEST, GuestCommand::Close { lease: first });
    assert_eq!((world.state(GUEST, first), at_broker(&world)), ("Closed", "Returned"));
}

#[test]
fn the_site_signs_for_exactly_what_is_left() {
    let (world, ticket) = given_back();
    let credit = world.sent("credit").remove(0).peek().unwrap();
    let Message::Credit { receipts } = credit.message else { panic!() };
    let what = Return { term: term(600, HOUR), ..returned(SITE, ticket.bottom(), at(600)) };
    assert_eq!(receipts, [Receipt::sign(what, &signer(SITE))]);
}

#[test]
fn the_answer_to_several_tickets_has_a_number_of_its_own_until_one_is_forgotten() {
    let mut world = Scene::default().open();
    let held = world.delegation();
    let first = cut(&held, BROKER, GUEST, 2, term(0, HOUR), 901);
    let second = cut(&held, BROKER, GUEST, 2, term(HOUR, 2 * HOUR), 902);
    let close = Message::Close { tickets: vec![first.clone(), second] };
    let mut answer = |secs: i64, message: &Message| {
        world.advance(secs);
        let out = world.deliver(SITE, &letter(GUEST, SITE, message.clone()));
        world.run();
        out.replies.last().map(|envelope| (envelope.header.sequence, envelope.clone()))
    };
    assert_eq!(answer(0, &redeem(&first)), None);
    let (alone, _) = answer(HOUR, &redeem(&first)).unwrap();
    let (together, said) = answer(HOUR, &close).unwrap();
    assert_eq!(alone.index, Sequence::ANSWER);
    assert_eq!(together.index, Sequence::joint(&said.message));
    assert_eq!(answer(HOUR + 9, &close), Some((together, said)));
    let (late, _) = answer(HOUR + 11, &close).unwrap();
    assert_eq!(late.index, Sequence::VOLATILE);
}

#[test]
fn what_comes_back_is_answered_under_another_number_in_other_company_and_order() {
    let mut world = Scene::default().open();
    let held = world.delegation();
    let tickets: Vec<Ticket> = (0..3)
        .map(|hour| cut(&held, BROKER, GUEST, 1, term(hour * HOUR, (hour + 2) * HOUR), 901))
        .collect();
    let mut numbers = BTreeMap::new();
    for places in [&[0, 1, 2][..], &[1, 2], &[2], &[2, 1], &[0, 2], &[2, 1, 0], &[0, 1]] {
        let close =
            Message::Close { tickets: places.iter().map(|&i| tickets[i].clone()).collect() };
        let out = world.deliver(SITE, &letter(GUEST, SITE, close));
        let answer = out.replies.last().unwrap().clone();
        assert_ne!(answer.header.sequence.index, Sequence::VOLATILE, "{places:?}");
        assert_eq!(numbers.insert(answer.header.sequence, answer), None, "{places:?}");
    }
}

#[test]
fn a_ticket_that_is_refused_is_not_said_to_be_closed_with_the_others() {
    let mut world = Scene::default().open();
    let held = world.delegation();
    let own = cut(&held, BROKER, GUEST, 1, term(0, HOUR), 901);
    let others = cut(&held, BROKER, RIVAL, 1, term(0, HOUR), 902);
    let mut answer = |tickets: &[&Ticket]| {
        let close = Message::Close { tickets: tickets.iter().copied().cloned().collect() };
        world.deliver(SITE, &letter(GUEST, SITE, close)).replies.last().unwrap().clone()
    };
    let (together, alone) = (answer(&[&others, &own]), answer(&[&own]));
    assert!(matches!(&alone.message, Message::Closed { ticket, .. } if *ticket == own.hash()));
    assert_eq!(together, alone);
}
