//! Extensions: a lease continues with the same units, from exactly its end, or stays as it was.

use tenure_core::actor::effect::Problem;
use tenure_core::driver::{Epoch, Step, UnitId};
use tenure_core::model::slice::LeaseId;
use tenure_core::model::time::{Span, Term};
use tenure_core::service_manager::Command as GuestCommand;
use tenure_core::ticket::Ticket;
use tenure_core::wire::message::Message;
use tenure_core::wire::refusal::Refusal;

use crate::common::world::{Reaction, Scene, World};
use crate::common::{
    BROKER, ED25519, GUEST, HOUR, RIVAL, SITE, ask_for, cut, id, letter, redeem, term,
};

/// A guest's lease of 2 of 4 units over [0, 1h), in use.
fn leased() -> (World, LeaseId) {
    let mut world = Scene::default().open();
    let lease = world.ask(GUEST, ask_for(2, 0, HOUR));
    world.advance(600);
    (world, lease)
}

fn extend(world: &mut World, lease: LeaseId) {
    world.command(GUEST, GuestCommand::extend(lease, Span::HOUR));
}

/// The lease under which what was asked for to extend the first one is given back.
fn aside() -> LeaseId {
    LeaseId { number: 2, part: 0 }
}

fn held_term(world: &World, lease: LeaseId) -> Term {
    world.guest(GUEST).lease(lease).unwrap().held().unwrap().term
}

/// The units at the guest with their epochs.
fn held_units(world: &World, lease: LeaseId) -> Vec<(UnitId, Epoch)> {
    let held = world.guest(GUEST).lease(lease).unwrap().held().unwrap();
    held.units.iter().map(|(&unit, (leased, _))| (unit, leased.epoch)).collect()
}

/// The units at the site that are held by a lease, with their epochs.
fn lent_units(world: &World) -> Vec<(UnitId, Epoch)> {
    let lent = world.site().units().filter(|(_, state, _)| state.word() == "Ready");
    lent.map(|(unit, _, epoch)| (unit, epoch)).collect()
}

fn tickets_of(world: &World, lease: LeaseId) -> Vec<Ticket> {
    world.tickets(GUEST, lease)
}

#[test]
fn an_extended_lease_keeps_its_units_and_their_epochs() {
    let (mut world, lease) = leased();
    let (held, lent, calls) = (held_units(&world, lease), lent_units(&world), world.calls.len());
    extend(&mut world, lease);
    world.advance(HOUR + 600);
    assert_eq!(world.state(GUEST, lease), "Active");
    assert_eq!((held_units(&world, lease), lent_units(&world)), (held, lent));
    assert_eq!(world.calls.len(), calls, "no unit was touched");
}

#[test]
fn the_extension_is_for_exactly_the_time_from_the_old_end_to_the_new_one() {
    let (mut world, lease) = leased();
    extend(&mut world, lease);
    let tickets = tickets_of(&world, lease);
    let terms: Vec<_> = tickets.iter().map(|ticket| ticket.bottom().term).collect();
    assert_eq!(terms, [term(0, HOUR), term(HOUR, 2 * HOUR)]);
    assert_eq!(tickets[1].bottom().extends, Some(tickets[0].hash()));
    assert_eq!(held_term(&world, lease), term(0, 2 * HOUR));
    assert_eq!((world.free_at(HOUR - 1), world.free_at(2 * HOUR - 1)), (2, 2));
}

#[test]
fn an_extended_lease_ends_at_its_new_end() {
    let (mut world, lease) = leased();
    extend(&mut world, lease);
    let hash = world.ticket(GUEST, lease).hash();
    world.advance(2 * HOUR - 1);
    assert_eq!(world.at_site(hash), "Active");
    world.advance(2 * HOUR);
    assert_eq!((world.at_site(hash), world.state(GUEST, lease)), ("Closed", "Closed"));
    assert_eq!(world.units_in("Free"), 4);
}

#[test]
fn a_lease_can_be_extended_again_and_again() {
    let (mut world, lease) = leased();
    let held = held_units(&world, lease);
    for n in 1..5 {
        extend(&mut world, lease);
        assert_eq!(held_term(&world, lease), term(0, (n + 1) * HOUR));
        world.advance(n * HOUR + 600);
    }
    assert_eq!(held_units(&world, lease), held);
    assert_eq!(tickets_of(&world, lease).len(), 5);
}

#[test]
fn an_extension_refused_by_the_broker_leaves_the_lease_as_it_was() {
    let (mut world, lease) = leased();
    world.ask(RIVAL, ask_for(3, HOUR, HOUR));
    let before = world.guest(GUEST).lease(lease).cloned();
    extend(&mut world, lease);
    assert_eq!(world.count(GUEST, "service-manager.extension-denied"), 1);
    assert_eq!(world.guest(GUEST).lease(lease).cloned(), before);
    world.advance(HOUR);
    assert_eq!(world.state(GUEST, lease), "Closed");
    assert_eq!(world.units_in("Ready"), 3, "the rival's");
}

#[test]
fn an_extension_refused_by_the_site_leaves_the_lease_as_it_was_and_its_ticket_goes_back() {
    let (mut world, lease) = leased();
    let before = world.guest(GUEST).lease(lease).cloned();
    let oversold = cut(&world.delegation(), BROKER, RIVAL, 3, term(HOUR, 2 * HOUR), 901);
    world.deliver(SITE, &letter(RIVAL, SITE, redeem(&oversold)));
    extend(&mut world, lease);
    assert_eq!(world.guest(GUEST).lease(lease).cloned(), before);
    let refused = world.sent("refused").remove(0).peek().unwrap();
    let Message::Refused { refusal: Refusal::Conflict(evidence), .. } = refused.message else {
        panic!("{refused:?}")
    };
    assert_eq!(evidence.convicts(ED25519, &[]), Ok(id(BROKER)));
    assert_eq!(world.state(GUEST, aside()), "Closed");
    world.advance(HOUR - 11);
    assert_eq!(world.units_in("Ready"), 2);
}

#[test]
fn a_late_refusal_of_an_extension_does_not_keep_its_lease_from_being_given_back() {
    let (mut world, lease) = leased();
    let oversold = cut(&world.delegation(), BROKER, RIVAL, 3, term(HOUR, 2 * HOUR), 901);
    world.deliver(SITE, &letter(RIVAL, SITE, redeem(&oversold)));
    world.keep.extend(["refused", "close"]);
    extend(&mut world, lease);
    world.command(GUEST, GuestCommand::Close { lease });
    assert_eq!(world.state(GUEST, lease), "Closing");
    let refused = world.sent("refused").remove(0);
    world.deliver(GUEST, &refused);
    assert_eq!(world.state(GUEST, lease), "Closing", "the site has not heard of it");
    world.release();
    assert_eq!((world.state(GUEST, lease), world.units_in("Free")), ("Closed", 4));
    assert_eq!(world.count(GUEST, "service-manager.credited"), 1);
}

#[test]
fn an_extension_that_nobody_answers_leaves_the_lease_as_it_was() {
    let (mut world, lease) = leased();
    world.cut_off.insert(BROKER);
    extend(&mut world, lease);
    assert_eq!(world.state(GUEST, lease), "Active+asking");
    world.advance(HOUR - 11);
    assert_eq!(world.state(GUEST, lease), "Active+asking");
    assert_eq!(held_term(&world, lease), term(0, HOUR));
    world.advance(HOUR - 10);
    assert_eq!(world.state(GUEST, lease), "Closed");
    assert_eq!(world.state(GUEST, aside()), "GivenUp");
}

#[test]
fn an_extension_granted_after_the_lease_ended_is_given_back() {
    let (mut world, lease) = leased();
    world.keep.insert("granted");
    extend(&mut world, lease);
    assert_eq!(world.free_at(HOUR), 2, "it was cut");
    world.advance(HOUR);
    assert_eq!(world.state(GUEST, lease), "Closed");
    world.release();
    assert_eq!(world.count(GUEST, "service-manager.unwanted-granted"), 1);
    assert_eq!(world.count(SITE, "site.ticket-surrendered"), 1);
    assert_eq!(world.state(GUEST, aside()), "Closed");
    assert_eq!(world.free_at(HOUR), 4);
    assert_eq!(world.units_in("Free"), 4);
}

#[test]
fn an_extension_granted_while_the_guest_leaves_is_given_back() {
    let (mut world, lease) = leased();
    world.keep.insert("granted");
    extend(&mut world, lease);
    world.command(GUEST, GuestCommand::Close { lease });
    assert_eq!(world.state(GUEST, lease), "Closed");
    assert_eq!(world.state(GUEST, aside()), "GivenUp");
    world.release();
    assert_eq!(world.state(GUEST, aside()), "Closed");
    assert_eq!((world.free_at(600), world.free_at(HOUR)), (4, 4));
}

#[test]
fn an_extension_granted_to_a_guest_that_could_not_leave_is_given_back() {
    let (mut world, lease) = leased();
    world.keep.insert("granted");
    world.driver = |_| Reaction::Waits;
    extend(&mut world, lease);
    world.command(GUEST, GuestCommand::Close { lease });
    assert_eq!(world.state(GUEST, lease), "Leaving(close)");
    world.advance(HOUR - 10);
    assert_eq!(world.state(GUEST, lease), "Closed");
    world.release();
    assert_eq!(world.state(GUEST, aside()), "Closed");
    assert_eq!(world.free_at(HOUR), 4);
}

#[test]
fn an_extension_on_its_way_to_the_site_at_the_end_is_given_back_with_the_lease() {
    let (mut world, lease) = leased();
    world.keep.insert("redeem");
    extend(&mut world, lease);
    assert_eq!(world.state(GUEST, lease), "Active+redeeming");
    world.advance(HOUR - 10);
    assert_eq!(world.state(GUEST, lease), "Closed");
    assert_eq!((world.free_at(HOUR - 1), world.free_at(HOUR)), (4, 4));
    world.release();
    assert_eq!(world.units_in("Free"), 4);
}

#[test]
fn an_extension_that_the_site_took_without_being_heard_is_given_back_at_the_end() {
    let (mut world, lease) = leased();
    world.keep.insert("leased");
    extend(&mut world, lease);
    let hash = world.ticket(GUEST, lease).hash();
    assert_eq!(world.count(SITE, "site.lease-extended"), 1);
    world.advance(HOUR - 10);
    assert_eq!((world.at_site(hash), world.state(GUEST, lease)), ("Closed", "Closed"));
    assert_eq!((world.free_at(HOUR - 1), world.free_at(HOUR)), (4, 4));
}

#[test]
fn an_extension_is_given_back_though_the_lease_was_forgotten_meanwhile() {
    let (mut world, lease) = leased();
    world.cut_off.insert(SITE);
    extend(&mut world, lease);
    assert_eq!(world.state(GUEST, lease), "Active+redeeming");
    world.advance(HOUR + 60);
    assert_eq!(world.state(GUEST, lease), "Closing");
    world.cut_off.clear();
    world.repeat();
    assert_eq!((world.state(GUEST, lease), world.free_at(HOUR + 60)), ("Closed", 4));
}

#[test]
fn an_extension_is_asked_for_once_at_a_time() {
    let (mut world, lease) = leased();
    world.keep.insert("granted");
    extend(&mut world, lease);
    let position = world.position(GUEST);
    extend(&mut world, lease);
    assert_eq!(world.position(GUEST), position);
    assert!(matches!(world.problems[..], [Problem::Command(_)]));
}

#[test]
fn messages_about_an_extension_can_be_lost_and_repeated() {
    let (mut world, lease) = leased();
    let kinds = ["request", "granted", "redeem", "leased"];
    world.keep.extend(kinds);
    extend(&mut world, lease);
    for found in kinds {
        assert_eq!(held_term(&world, lease), term(0, HOUR));
        world.keep.remove(found);
        world.repeat();
    }
    world.release();
    assert_eq!(held_term(&world, lease), term(0, 2 * HOUR));
    assert_eq!(world.count(SITE, "site.lease-extended"), 1);
    assert_eq!(world.free_at(HOUR), 2);
}

#[test]
fn tickets_of_an_extended_lease_shown_again_get_the_same_bytes() {
    let (mut world, lease) = leased();
    extend(&mut world, lease);
    let (redeems, position) = (world.sent("redeem"), world.position(SITE));
    for redeem in &redeems {
        world.deliver(SITE, redeem);
    }
    let answers = world.sent("leased");
    assert_eq!(answers[..2], answers[2..]);
    assert_eq!(world.position(SITE), position);
}

#[test]
fn an_extended_lease_given_back_is_credited_for_all_that_is_left_of_it() {
    let (mut world, lease) = leased();
    extend(&mut world, lease);
    world.command(GUEST, GuestCommand::Close { lease });
    assert_eq!(world.state(GUEST, lease), "Closed");
    assert_eq!(world.count(BROKER, "broker.receipt-taken"), 2);
    assert_eq!((world.free_at(599), world.free_at(600), world.free_at(HOUR)), (2, 4, 4));
}

#[test]
fn an_extended_lease_given_back_in_its_second_term_is_credited_for_that_alone() {
    let (mut world, lease) = leased();
    extend(&mut world, lease);
    world.advance(HOUR + 600);
    world.command(GUEST, GuestCommand::Close { lease });
    assert_eq!(world.count(BROKER, "broker.receipt-taken"), 1);
    assert_eq!((world.free_at(HOUR + 599), world.free_at(HOUR + 600)), (2, 4));
}

#[test]
fn a_lease_that_is_given_back_or_over_is_not_extended() {
    let mut world = Scene { leave_before: Span::MINUTE, ..Scene::default() }.open();
    world.driver = |call| match call.step {
        Step::Leave => Reaction::Waits,
        Step::Setup
        | Step::Teardown
        | Step::Join
        | Step::Modify
        | Step::Warn
        | Step::Install
        | Step::Remove => Reaction::Works,
    };
    let lease = world.ask(GUEST, ask_for(2, 0, HOUR));
    world.advance(600);
    world.command(GUEST, GuestCommand::Close { lease });
    for (secs, word) in [(600, "Leaving(close)"), (HOUR - 10, "Closed")] {
        world.advance(secs);
        assert_eq!(world.state(GUEST, lease), word);
        let position = world.position(GUEST);
        extend(&mut world, lease);
        assert_eq!(world.position(GUEST), position);
    }
}

/// The site has closed the lease before it was shown the extension.
#[test]
fn an_extension_that_was_being_redeemed_when_its_lease_ended_is_forgotten_with_it() {
    let (mut world, lease) = leased();
    world.keep.insert("redeem");
    extend(&mut world, lease);
    let extension = tickets_of(&world, lease)[1].hash();
    assert_eq!(world.guest(GUEST).lease_of(extension), Some(lease));
    world.advance(HOUR - 5);
    let ends = ["Closing", "Crediting", "Closed"].contains(&world.state(GUEST, lease));
    assert!(ends, "{}", world.state(GUEST, lease));
    world.advance(4 * HOUR);
    assert_eq!(world.state(GUEST, lease), "forgotten");
    assert_eq!(world.guest(GUEST).lease_of(extension), None);
}
