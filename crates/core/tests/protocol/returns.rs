//! Parts of a lease come back: some units, the rest of the term, units of a ticket that is not redeemed; and
//! a lease goes on with fewer units.

use tenure_core::driver::{Step, UnitId};
use tenure_core::model::slice::LeaseId;
use tenure_core::model::time::{Span, Time};
use tenure_core::service_manager::machine::{Change, Held};
use tenure_core::service_manager::{Command as GuestCommand, Victims};
use tenure_core::ticket::Ticket;
use tenure_core::ticket::link::LinkHash;
use tenure_core::wire::message::{Message, Subject};
use tenure_core::wire::part::Part;

use crate::common::world::{Reaction, Scene, World};
use crate::common::{
    BROKER, GUEST, HOUR, RIVAL, SITE, STRANGER, ask_for, at, cut, letter, redeem, term, units,
};

fn scene() -> Scene {
    Scene { audited: true, ..Scene::default() }
}

/// A guest's lease of 3 of 4 units over [0, 1h); ten minutes have passed.
fn leased_in(scene: Scene) -> (World, LeaseId, LinkHash) {
    let mut world = scene.open();
    let lease = world.ask(GUEST, ask_for(3, 0, HOUR));
    let ticket = world.ticket(GUEST, lease).hash();
    world.advance(600);
    (world, lease, ticket)
}

fn leased() -> (World, LeaseId, LinkHash) {
    leased_in(scene())
}

fn flex(world: &mut World, lease: LeaseId, shrink: u32, victims: Victims) {
    world.command(GUEST, GuestCommand::Flex { lease, shrink: units(shrink), victims });
}

fn shorten(world: &mut World, lease: LeaseId, until: i64) {
    world.command(GUEST, GuestCommand::Shorten { lease, until: at(until) });
}

fn extend(world: &mut World, lease: LeaseId, n: u32, victims: Victims) {
    let units = Some(units(n));
    world.command(GUEST, GuestCommand::Extend { lease, duration: Span::HOUR, units, victims });
}

fn named(units: &[u32]) -> Victims {
    Victims::Named(units.iter().map(|&unit| UnitId(unit)).collect())
}

fn held(world: &World, lease: LeaseId) -> &Held {
    world.guest(GUEST).lease(lease).unwrap().held().unwrap()
}

fn held_units(world: &World, lease: LeaseId) -> Vec<u32> {
    held(world, lease).units.keys().map(|unit| unit.0).collect()
}

fn lent_units(world: &World) -> Vec<u32> {
    let lent = world.site().units().filter(|(_, state, _)| state.word() == "Ready");
    lent.map(|(unit, _, _)| unit.0).collect()
}

#[test]
fn the_named_units_go_and_the_lease_goes_on_with_the_others() {
    for (victims, rest) in [
        (named(&[1]), vec![0, 2]),
        (Victims::Youngest, vec![0, 1]),
        (Victims::Oldest, vec![1, 2]),
        (named(&[]), vec![0, 1]),
    ] {
        let (mut world, lease, ticket) = leased();
        flex(&mut world, lease, 1, victims);
        assert_eq!(world.problems, []);
        assert_eq!(world.state(GUEST, lease), "Active");
        assert_eq!((held_units(&world, lease), lent_units(&world)), (rest.clone(), rest));
        assert_eq!(world.at_site(ticket), "Active");
        assert_eq!([599, 600, HOUR].map(|t| world.free_at(t)), [1, 2, 4]);
        assert!(held(&world, lease).credits.is_empty());
    }
}

#[test]
fn another_guest_gets_at_once_what_came_back() {
    let (mut world, lease, _) = leased();
    let other = world.ask(RIVAL, ask_for(2, 600, HOUR));
    assert_eq!(world.state(RIVAL, other), "Closed", "only one unit is free");
    flex(&mut world, lease, 1, named(&[1]));
    let other = world.ask(RIVAL, ask_for(2, 600, HOUR));
    assert_eq!(world.state(RIVAL, other), "Active");
    assert_eq!(lent_units(&world), [0, 1, 2, 3]);
}

#[test]
fn units_come_back_one_after_the_other_and_then_the_rest() {
    let (mut world, lease, _) = leased();
    flex(&mut world, lease, 1, Victims::Youngest);
    world.advance(660);
    flex(&mut world, lease, 1, Victims::Youngest);
    assert_eq!([600, 660, HOUR].map(|t| world.free_at(t)), [2, 3, 4]);
    world.advance(720);
    world.command(GUEST, GuestCommand::Close { lease });
    assert_eq!(world.state(GUEST, lease), "Closed");
    assert_eq!([600, 660, 720].map(|t| world.free_at(t)), [2, 3, 4]);
    assert_eq!(world.count(BROKER, "broker.receipt-taken"), 3);
}

#[test]
fn the_rest_of_a_term_comes_back() {
    let (mut world, lease, ticket) = leased();
    shorten(&mut world, lease, 1800);
    assert_eq!(world.problems, []);
    assert_eq!(held(&world, lease).term, term(0, 1800));
    assert_eq!([1799, 1800].map(|t| world.free_at(t)), [1, 4]);
    flex(&mut world, lease, 2, Victims::Youngest);
    assert_eq!([599, 600, 1799, 1800].map(|t| world.free_at(t)), [1, 3, 3, 4]);
    world.advance(1800);
    assert_eq!((world.state(GUEST, lease), world.at_site(ticket)), ("Closed", "Closed"));
    assert_eq!(world.units_in("Free"), 4);
}

#[test]
fn the_rest_of_a_term_takes_extensions_with_it() {
    let (mut world, lease, _) = leased();
    world.command(GUEST, GuestCommand::extend(lease, Span::HOUR));
    shorten(&mut world, lease, 1800);
    assert_eq!([1799, 1800, HOUR + 1].map(|t| world.free_at(t)), [1, 4, 4]);
    assert_eq!(held(&world, lease).tickets.len(), 1);
    assert_eq!(world.count(BROKER, "broker.receipt-taken"), 2);
}

#[test]
fn what_cannot_be_changed_is_refused_and_stays() {
    type Attempt = fn(&mut World, LeaseId);
    let cases: [(Attempt, &str); 7] = [
        (|w, l| flex(w, l, 1, named(&[7])), "does not have unit u7"),
        (|w, l| flex(w, l, 1, named(&[0, 1])), "2 units are named, 1 go"),
        (|w, l| flex(w, l, 3, Victims::Oldest), "close it"),
        (|w, l| flex(w, l, 9, Victims::Oldest), "close it"),
        (|w, l| shorten(w, l, 600), "not at"),
        (|w, l| shorten(w, l, HOUR), "not at"),
        (|w, l| extend(w, l, 4, Victims::Oldest), "goes on with no more"),
    ];
    for (act, cause) in cases {
        let (mut world, lease, _) = leased();
        let before = world.position(GUEST);
        act(&mut world, lease);
        let said = std::mem::take(&mut world.problems);
        assert!(format!("{said:?}").contains(cause), "{said:?}");
        assert_eq!((world.position(GUEST), held_units(&world, lease)), (before, vec![0, 1, 2]));
    }
}

#[test]
fn the_guest_leaves_before_the_site_is_asked() {
    let (mut world, lease, _) = leased();
    world.driver = |call| if call.step == Step::Leave { Reaction::Waits } else { Reaction::Works };
    flex(&mut world, lease, 1, named(&[1]));
    assert_eq!(world.state(GUEST, lease), "Active+leaving");
    assert_eq!((world.sent("return").len(), lent_units(&world)), (0, vec![0, 1, 2]));
    let call = world.waiting.pop().unwrap();
    world.answer(call, true);
    world.run();
    assert_eq!((world.state(GUEST, lease), lent_units(&world)), ("Active", vec![0, 2]));
}

#[test]
fn a_lease_closes_in_the_middle_of_a_return() {
    for lost in ["return", "returned", "credit", "credited"] {
        let (mut world, lease, ticket) = leased();
        world.keep.insert(lost);
        flex(&mut world, lease, 1, named(&[1]));
        world.command(GUEST, GuestCommand::Close { lease });
        world.release();
        world.repeat();
        assert_eq!(
            (world.state(GUEST, lease), world.at_site(ticket)),
            ("Closed", "Closed"),
            "{lost}"
        );
        assert_eq!((world.free_at(600), world.units_in("Free")), (4, 4), "{lost}");
    }
}

#[test]
fn a_lost_message_of_a_return_is_repeated_and_answered_in_the_same_bytes() {
    for lost in ["return", "returned", "credit", "credited"] {
        let (mut world, lease, _) = leased();
        world.keep.insert(lost);
        flex(&mut world, lease, 1, named(&[1]));
        world.keep.clear();
        world.repeat();
        world.repeat();
        assert_eq!(held_units(&world, lease), [0, 2], "{lost}");
        assert_eq!((world.free_at(600), lent_units(&world)), (2, vec![0, 2]), "{lost}");
        for kind in ["return", "returned", "credit", "credited"] {
            let mut sent = world.sent(kind);
            sent.dedup();
            assert_eq!(sent.len(), 1, "{lost}: {kind}");
        }
        assert_eq!(world.count(SITE, "site.units-returned"), 1, "{lost}");
    }
}

#[test]
fn everybody_may_crash_after_each_step_of_a_return() {
    for part in 0..3 {
        let (mut world, lease, _) = leased_in(Scene { suspicious: true, ..scene() });
        match part {
            0 => flex(&mut world, lease, 1, named(&[1])),
            1 => shorten(&mut world, lease, 1800),
            _ => extend(&mut world, lease, 1, named(&[0])),
        }
        for who in [GUEST, BROKER, SITE] {
            world.restart(who);
        }
        world.advance(3 * HOUR);
        assert_eq!((world.state(GUEST, lease), world.units_in("Free")), ("forgotten", 4));
        assert_eq!(world.free_at(4 * HOUR), 4);
    }
}

#[test]
fn a_redeem_that_comes_again_after_a_return_is_not_answered_with_fewer_units() {
    let (mut world, lease, _) = leased();
    let ticket = world.ticket(GUEST, lease);
    flex(&mut world, lease, 1, named(&[1]));
    let before = world.sent("leased").len();
    world.deliver(SITE, &letter(GUEST, SITE, redeem(&ticket)));
    assert_eq!(world.sent("leased").len(), before);
}

#[test]
fn a_guest_that_does_not_know_whether_its_lease_ends_earlier_stops_a_margin_before() {
    let (mut world, lease, ticket) = leased();
    world.keep.insert("returned");
    shorten(&mut world, lease, 1800);
    assert_eq!(world.state(GUEST, lease), "Active+returning");
    world.keep.insert("close");
    world.advance_to(at(1800).minus(Span::MINUTE));
    assert_eq!(world.state(GUEST, lease), "Active+returning");
    world.advance_to(at(1800));
    assert_eq!((world.state(GUEST, lease), world.at_site(ticket)), ("Closing", "Closed"));
    world.keep.clear();
    world.repeat();
    assert_eq!((world.state(GUEST, lease), world.free_at(1800)), ("Closed", 4));
}

#[test]
fn a_refused_return_leaves_the_lease_as_it_was() {
    let (mut world, lease, ticket) = leased_in(Scene::default());
    world.keep.insert("return");
    flex(&mut world, lease, 1, named(&[1]));
    assert_eq!(world.state(GUEST, lease), "Active+returning");
    let refusal = tenure_core::wire::refusal::Refusal::Forbidden;
    let subject = Subject::Return(ticket, 0);
    world.deliver(
        GUEST,
        &letter(SITE, GUEST, Message::Refused { subject, refusal, offers: vec![] }),
    );
    world.run();
    assert_eq!((world.state(GUEST, lease), held_units(&world, lease)), ("Active", vec![0, 1, 2]));
    assert_eq!(held(&world, lease).change, Change::None);
    world.keep.clear();
    flex(&mut world, lease, 1, named(&[2]));
    assert_eq!((held_units(&world, lease), lent_units(&world)), (vec![0, 1], vec![0, 1]));
}

#[test]
fn a_lease_goes_on_with_fewer_units() {
    for leave_before in [Span::ZERO, Span::MINUTE] {
        let (mut world, lease, ticket) = leased_in(Scene { leave_before, ..scene() });
        extend(&mut world, lease, 1, named(&[2]));
        assert_eq!(world.problems, []);
        assert_eq!([HOUR - 1, HOUR, 2 * HOUR].map(|t| world.free_at(t)), [1, 3, 4]);
        assert_eq!((held_units(&world, lease), lent_units(&world)), (vec![0, 1, 2], vec![0, 1, 2]));
        let other = world.ask(RIVAL, ask_for(3, HOUR, HOUR));
        world.advance_to(at(HOUR));
        assert_eq!((held_units(&world, lease), world.state(RIVAL, other)), (vec![0], "Active"));
        assert_eq!(lent_units(&world), [0, 1, 2, 3]);
        let setups = world.calls.iter().filter(|call| call.step == Step::Setup).count();
        assert_eq!(setups, 6, "the unit that goes on is not set up again");
        assert_eq!(world.at_site(ticket), "Active");
        world.advance_to(at(HOUR + 20));
        flex_is_possible_again(&mut world, lease);
        world.advance_to(at(2 * HOUR));
        assert_eq!(world.state(GUEST, lease), "Closed");
    }
}

fn flex_is_possible_again(world: &mut World, lease: LeaseId) {
    flex(world, lease, 1, Victims::Oldest);
    let said = std::mem::take(&mut world.problems);
    assert!(format!("{said:?}").contains("close it"), "{said:?}");
}

#[test]
fn a_failed_extension_for_fewer_units_leaves_the_lease_as_it_was() {
    let (mut world, lease, _) = leased();
    world.cut_off.insert(BROKER);
    extend(&mut world, lease, 1, named(&[2]));
    flex(&mut world, lease, 1, Victims::Oldest);
    let said = std::mem::take(&mut world.problems);
    assert!(format!("{said:?}").contains("being extended"), "{said:?}");
    world.advance_to(at(HOUR).minus(Span::MINUTE));
    assert_eq!(held_units(&world, lease), [0, 1, 2]);
}

#[test]
fn extensions_for_fewer_and_fewer_units_shrink_a_lease_step_by_step() {
    let (mut world, lease, _) = leased();
    extend(&mut world, lease, 2, Victims::Oldest);
    extend(&mut world, lease, 1, Victims::Oldest);
    world.advance_to(at(HOUR));
    assert_eq!((held_units(&world, lease), lent_units(&world)), (vec![1, 2], vec![1, 2]));
    world.advance_to(at(2 * HOUR));
    assert_eq!((held_units(&world, lease), lent_units(&world)), (vec![2], vec![2]));
    world.command(GUEST, GuestCommand::Close { lease });
    assert_eq!(world.free_at(2 * HOUR), 4);
}

/// A ticket for 3 of the broker's 4 units over [0, 1h) that was never shown.
fn unshown() -> (World, Ticket) {
    let mut world = Scene::default().open();
    world.advance(600);
    let ticket = cut(&world.delegation(), BROKER, GUEST, 3, term(0, HOUR), 901);
    (world, ticket)
}

fn give_rights(
    world: &mut World,
    from: u8,
    ticket: &Ticket,
    number: u32,
    n: u32,
    t: i64,
) -> Message {
    let part = Part::Rights { units: units(n), from: at(t) };
    let message = Message::Return { ticket: ticket.clone(), number, part };
    let mut out = world.deliver(SITE, &letter(from, SITE, message));
    out.replies.remove(0).message
}

fn receipts(said: &Message) -> Vec<(u32, u32, Time, Time)> {
    let Message::Returned { receipts, .. } = said else { panic!("{said:?}") };
    let what = receipts.iter().map(|receipt| &receipt.what);
    what.map(|w| (w.number, w.units.get(), w.term.start(), w.term.end())).collect()
}

#[test]
fn a_part_of_a_ticket_that_is_not_redeemed_comes_back_and_the_rest_can_be_used() {
    let (mut world, ticket) = unshown();
    let said = give_rights(&mut world, GUEST, &ticket, 0, 1, 0);
    assert_eq!(receipts(&said), [(0, 1, at(600), at(HOUR))]);
    assert_eq!(give_rights(&mut world, GUEST, &ticket, 0, 1, 0), said, "asked again");
    let said = give_rights(&mut world, GUEST, &ticket, 1, 1, 1800);
    assert_eq!(receipts(&said), [(1, 1, at(1800), at(HOUR))]);
    let said = give_rights(&mut world, GUEST, &ticket, 2, 2, 1700);
    assert!(matches!(said, Message::Refused { subject: Subject::Return(_, 2), .. }), "{said:?}");
    let mut shown = redeem(&ticket);
    if let Message::Redeem { min_units, .. } = &mut shown {
        *min_units = units(2);
    }
    world.deliver(SITE, &letter(GUEST, SITE, shown));
    world.run();
    assert_eq!((world.at_site(ticket.hash()), lent_units(&world).len()), ("Active", 2));
    world.advance_to(at(1800));
    assert_eq!(lent_units(&world).len(), 1, "one unit came back from then on");
}

#[test]
fn what_was_handed_on_does_not_come_back_and_what_came_back_cannot_be_handed_on() {
    let (mut world, ticket) = unshown();
    let sub = cut(&ticket, GUEST, STRANGER, 2, term(0, HOUR), 902);
    world.deliver(SITE, &letter(STRANGER, SITE, redeem(&sub)));
    world.run();
    assert_eq!(world.at_site(sub.hash()), "Active");
    let said = give_rights(&mut world, GUEST, &ticket, 0, 2, 0);
    assert!(matches!(said, Message::Refused { .. }), "{said:?}");
    let said = give_rights(&mut world, GUEST, &ticket, 1, 1, 0);
    assert_eq!(receipts(&said), [(0, 1, at(600), at(HOUR))]);
    let more = cut(&ticket, GUEST, RIVAL, 1, term(0, HOUR), 903);
    let out = world.deliver(SITE, &letter(RIVAL, SITE, redeem(&more)));
    assert!(matches!(out.replies[0].message, Message::Refused { .. }), "{:?}", out.replies);
    let said = give_rights(&mut world, STRANGER, &ticket, 2, 1, 0);
    assert!(matches!(said, Message::Refused { .. }), "the holder alone may: {said:?}");
}

#[test]
fn no_units_come_back_until_the_site_too_goes_on_with_fewer() {
    let (mut world, lease, _) = leased();
    extend(&mut world, lease, 2, named(&[0]));
    // The guest lets go a margin before the site does.
    world.advance(HOUR - 10);
    assert_eq!((held_units(&world, lease), lent_units(&world)), (vec![1, 2], vec![0, 1, 2]));
    flex(&mut world, lease, 1, named(&[1]));
    assert_eq!(held_units(&world, lease), [1, 2]);
    let problem = format!("{:?}", world.problems.pop());
    assert!(problem.contains("goes on with fewer units just now: flex it from"), "{problem}");
    world.advance(HOUR + 20);
    flex(&mut world, lease, 1, named(&[1]));
    assert_eq!((held_units(&world, lease), lent_units(&world)), (vec![2], vec![2]));
}
