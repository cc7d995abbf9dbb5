//! A service manager under attack: it accepts messages only from the broker it asked and the site of its
//! ticket.

use std::num::NonZeroU32;
use tenure_core::actor::effect::Problem;
use tenure_core::driver::{Epoch, UnitId};
use tenure_core::model::property::Properties;
use tenure_core::model::slice::{LeaseId, RequestId};
use tenure_core::model::time::Span;
use tenure_core::runtime::Output;
use tenure_core::service_manager::Command as GuestCommand;
use tenure_core::ticket::Ticket;
use tenure_core::ticket::link::{Link, SignedLink};
use tenure_core::ticket::receipt::Receipt;
use tenure_core::wire::message::{LeasedUnit, Message, Sealed, Subject};
use tenure_core::wire::refusal::Refusal;
use tenure_core::wire::request::MAX_ITEMS;

use crate::common::world::{Scene, World};
use crate::common::{
    BROKER, FAR_OFF, FAR_SITE, GUEST, HOUR, MARGIN, RIVAL, SITE, STRANGER, TAKEN_BY_ALL, ask_for,
    at, cut, delegation, id, item, letter, micro, one_of_each, part, receipt, returned, signer,
    term, units,
};

fn without_effect(world: &mut World, sealed: &Sealed) -> Output {
    let position = world.position(GUEST);
    let out = world.deliver(GUEST, sealed);
    assert_eq!(world.position(GUEST), position);
    assert_eq!((&out.facts[..], &out.replies[..]), (&[][..], &[][..]));
    out
}

/// The guest has asked for 2 units over [0, 1h); the message of this kind that comes next is kept.
fn waiting_for(kind: &'static str) -> (World, LeaseId) {
    let mut world = Scene::default().open();
    world.keep.insert(kind);
    let lease = world.ask(GUEST, ask_for(2, 0, HOUR));
    (world, lease)
}

fn granted(tickets: Vec<(u16, Ticket)>) -> Message {
    let request = RequestId { origin: id(GUEST), number: 1 };
    Message::Granted { request, tickets }
}

/// The state of the lease once the broker has granted these tickets.
fn after_grant(tickets: impl FnOnce(&Ticket) -> Vec<(u16, Ticket)>) -> &'static str {
    let (mut world, lease) = waiting_for("granted");
    let tickets = tickets(&world.delegation());
    world.deliver(GUEST, &letter(BROKER, GUEST, granted(tickets)));
    world.state(GUEST, lease)
}

/// The state of the lease once the broker has granted a ticket that was changed before it was signed.
fn after_changed_grant(change: impl FnOnce(&mut Link)) -> &'static str {
    after_grant(|held| {
        let mut link = part(held, GUEST, 2, term(0, HOUR), 901);
        change(&mut link);
        vec![(0, held.with(SignedLink::sign(link, &signer(BROKER))))]
    })
}

#[test]
fn tickets_by_somebody_who_was_not_asked_are_dropped() {
    let (mut world, lease) = waiting_for("granted");
    let ticket = cut(&world.delegation(), BROKER, GUEST, 2, term(0, HOUR), 901);
    for nobody in [RIVAL, SITE, STRANGER] {
        let out =
            without_effect(&mut world, &letter(nobody, GUEST, granted(vec![(0, ticket.clone())])));
        assert!(matches!(out.problems[..], [Problem::Message { kind: "granted", .. }]));
    }
    assert_eq!(world.state(GUEST, lease), "Asking");
}

#[test]
fn tickets_that_are_what_was_asked_for_are_taken() {
    assert_eq!(after_changed_grant(|_| ()), "Redeeming");
    let halves = |held: &Ticket| {
        [901, 902].map(|n| (0, cut(held, BROKER, GUEST, 1, term(0, HOUR), n))).to_vec()
    };
    assert_eq!(after_grant(halves), "Redeeming");
}

#[test]
fn tickets_that_are_not_what_was_asked_for_are_not_taken() {
    assert_eq!(after_grant(|_| vec![]), "Closed");
    assert_eq!(after_changed_grant(|link| link.units = units(1)), "Closed");
    assert_eq!(after_changed_grant(|link| link.units = units(3)), "Closed");
    assert_eq!(after_changed_grant(|link| link.holder = id(RIVAL)), "Closed");
    assert_eq!(after_changed_grant(|link| link.term = term(1, HOUR + 1)), "Closed");
    assert_eq!(after_changed_grant(|link| link.term = term(0, HOUR - 1)), "Closed");
    assert_eq!(after_changed_grant(|link| link.extends = link.parent), "Closed");
    assert_eq!(after_changed_grant(|link| link.parent = None), "Closed");
    let other_item = |held: &Ticket| vec![(1, cut(held, BROKER, GUEST, 2, term(0, HOUR), 901))];
    assert_eq!(after_grant(other_item), "Closed");
    let forged = |held: &Ticket| vec![(0, cut(held, RIVAL, GUEST, 2, term(0, HOUR), 901))];
    assert_eq!(after_grant(forged), "Closed");
}

#[test]
fn an_extension_at_another_site_is_not_taken() {
    let mut world = Scene { far_stock: 4, ..Scene::default() }.open();
    let lease = world.ask(GUEST, ask_for(1, 0, HOUR));
    let ticket = world.ticket(GUEST, lease);
    world.keep.insert("granted");
    world.command(GUEST, GuestCommand::extend(lease, Span::from_secs(HOUR)));
    let elsewhere = if ticket.site() == id(SITE) { FAR_SITE } else { SITE };
    let parent = delegation(elsewhere, BROKER, 4, term(0, FAR_OFF), (1, 0));
    let mut link = part(&parent, GUEST, 1, term(HOUR, 2 * HOUR), 900);
    link.extends = Some(ticket.hash());
    let extension = parent.with(SignedLink::sign(link, &signer(BROKER)));
    let request = RequestId { origin: id(GUEST), number: 2 };
    let message = Message::Granted { request, tickets: vec![(0, extension)] };
    world.deliver(GUEST, &letter(BROKER, GUEST, message));
    assert_eq!(world.state(GUEST, lease), "Active");
}

#[test]
fn a_ticket_shown_twice_in_a_grant_counts_for_nothing() {
    let twice = |held: &Ticket| {
        let half = cut(held, BROKER, GUEST, 1, term(0, HOUR), 901);
        vec![(0, half.clone()), (0, half)]
    };
    assert_eq!(after_grant(twice), "Closed");
}

#[test]
fn a_refusal_by_somebody_who_was_not_asked_is_dropped() {
    let (mut world, lease) = waiting_for("granted");
    let subject = Subject::Request(RequestId { origin: id(GUEST), number: 1 });
    let no = Message::Refused { subject, refusal: Refusal::Forbidden, offers: Vec::new() };
    for nobody in [RIVAL, SITE, STRANGER] {
        without_effect(&mut world, &letter(nobody, GUEST, no.clone()));
    }
    assert_eq!(world.state(GUEST, lease), "Asking");
    world.release();
    assert_eq!(world.state(GUEST, lease), "Active");
}

#[test]
fn a_broker_that_is_overloaded_is_asked_again() {
    let (mut world, lease) = waiting_for("granted");
    let subject = Subject::Request(RequestId { origin: id(GUEST), number: 1 });
    let busy = Message::Refused { subject, refusal: Refusal::Overloaded, offers: Vec::new() };
    without_effect(&mut world, &letter(BROKER, GUEST, busy));
    world.repeat();
    assert_eq!(world.sent("request").len(), 2);
    assert_eq!(world.state(GUEST, lease), "Asking");
}

fn unit(n: u32) -> LeasedUnit {
    LeasedUnit {
        unit: UnitId(n),
        epoch: Epoch(1),
        quantity: NonZeroU32::MIN,
        properties: Properties::default(),
    }
}

#[test]
fn units_that_are_not_what_the_ticket_says_are_not_taken() {
    let (mut world, lease) = waiting_for("leased");
    let (ticket, of) = (world.ticket(GUEST, lease).hash(), term(0, HOUR));
    let longer = term(0, HOUR + 1);
    let lies = [
        (SITE, of, vec![]),
        (SITE, of, vec![unit(0)]),
        (SITE, of, vec![unit(0), unit(0)]),
        (SITE, of, vec![unit(0), unit(1), unit(2)]),
        (SITE, longer, vec![unit(0), unit(1)]),
        (FAR_SITE, of, vec![unit(0), unit(1)]),
        (BROKER, of, vec![unit(0), unit(1)]),
    ];
    for (from, term, units) in lies {
        let out = without_effect(
            &mut world,
            &letter(from, GUEST, Message::Leased { ticket, term, units }),
        );
        assert!(matches!(out.problems[..], [Problem::Message { kind: "leased", .. }]));
    }
    assert_eq!(world.state(GUEST, lease), "Redeeming");
    world.release();
    assert_eq!(world.state(GUEST, lease), "Active");
}

#[test]
fn a_refusal_or_an_end_by_somebody_else_than_the_site_leaves_the_lease_as_it_was() {
    let (mut world, lease) = waiting_for("leased");
    let hash = world.ticket(GUEST, lease).hash();
    let subject = Subject::Ticket(hash);
    for nobody in [FAR_SITE, BROKER, RIVAL] {
        let no = Message::Refused { subject, refusal: Refusal::Forbidden, offers: Vec::new() };
        let end = Message::Closed { ticket: hash, refusal: None, receipts: vec![] };
        without_effect(&mut world, &letter(nobody, GUEST, no));
        without_effect(&mut world, &letter(nobody, GUEST, end));
    }
    assert_eq!(world.state(GUEST, lease), "Redeeming");
    world.release();
    let end = Message::Closed { ticket: hash, refusal: None, receipts: vec![] };
    without_effect(&mut world, &letter(FAR_SITE, GUEST, end));
    assert_eq!(world.state(GUEST, lease), "Active");
}

#[test]
fn units_handed_over_twice_are_joined_once() {
    let mut world = Scene::default().open();
    let lease = world.ask(GUEST, ask_for(2, 0, HOUR));
    let (leased, calls) = (world.sent("leased").remove(0), world.calls.len());
    without_effect(&mut world, &leased);
    assert_eq!(world.calls.len(), calls);
    assert_eq!(world.state(GUEST, lease), "Active");
}

#[test]
fn an_end_with_a_forged_receipt_is_not_believed() {
    let mut world = Scene::default().open();
    let lease = world.ask(GUEST, ask_for(2, 0, HOUR));
    let ticket = world.ticket(GUEST, lease);
    world.keep.insert("closed");
    world.command(GUEST, GuestCommand::Close { lease });
    let other = cut(&world.delegation(), BROKER, RIVAL, 2, term(0, HOUR), 901);
    let forged = [
        receipt(FAR_SITE, ticket.bottom(), at(0)),
        Receipt::sign(returned(SITE, ticket.bottom(), at(0)), &signer(BROKER)),
        receipt(SITE, other.bottom(), at(0)),
    ];
    for receipt in forged {
        let end = Message::Closed { ticket: ticket.hash(), refusal: None, receipts: vec![receipt] };
        let out = without_effect(&mut world, &letter(SITE, GUEST, end));
        assert!(matches!(out.problems[..], [Problem::Message { kind: "closed", .. }]));
    }
    assert_eq!(world.state(GUEST, lease), "Closing");
    world.release();
    assert_eq!(world.state(GUEST, lease), "Closed");
}

#[test]
fn a_credit_is_not_over_until_its_own_broker_says_so() {
    let mut world = Scene::default().open();
    let lease = world.ask(GUEST, ask_for(2, 0, HOUR));
    let hash = world.ticket(GUEST, lease).hash();
    world.keep.insert("credited");
    world.command(GUEST, GuestCommand::Close { lease });
    for nobody in [RIVAL, SITE, STRANGER] {
        let credited = Message::Credited { receipts: vec![(hash, 0)] };
        without_effect(&mut world, &letter(nobody, GUEST, credited));
    }
    assert_eq!(world.state(GUEST, lease), "Crediting");
    world.release();
    assert_eq!(world.state(GUEST, lease), "Closed");
}

#[test]
fn a_service_manager_drops_what_is_not_said_to_service_managers() {
    let (mut world, _) = waiting_for("granted");
    let ticket = cut(&world.delegation(), BROKER, GUEST, 2, term(0, HOUR), 901);
    for message in one_of_each(&ticket) {
        let kind = message.kind();
        // A receipt may be anybody's: `splits.rs` has what is credited.
        let its = [
            "granted",
            "leased",
            "closed",
            "credit",
            "credited",
            "refused",
            "returned",
            "modified",
            "reclaimed",
            "recalled",
            "recall-notice",
            "unit-failed",
            "noted",
            "hosts-noted",
            "hosts-changed",
        ];
        if its.contains(&kind) || TAKEN_BY_ALL.contains(&kind) {
            continue;
        }
        let out = without_effect(&mut world, &letter(RIVAL, GUEST, message));
        assert!(matches!(out.problems[..], [Problem::Message { .. }]), "{kind}");
    }
}

#[test]
fn what_is_said_about_unknown_tickets_is_ignored() {
    let (mut world, _) = waiting_for("granted");
    let theirs = cut(&world.delegation(), BROKER, RIVAL, 2, term(0, HOUR), 901);
    for message in one_of_each(&theirs) {
        if matches!(message.kind(), "leased" | "closed" | "credited") {
            without_effect(&mut world, &letter(SITE, GUEST, message));
        }
    }
    let subject = Subject::Ticket(theirs.hash());
    let no = Message::Refused { subject, refusal: Refusal::Forbidden, offers: Vec::new() };
    without_effect(&mut world, &letter(SITE, GUEST, no));
}

#[test]
fn a_service_manager_asks_for_nothing_that_a_broker_would_call_malformed() {
    let mut world = Scene::default().open();
    let position = world.position(GUEST);
    let mut bad = vec![ask_for(2, 0, HOUR); 6];
    bad[0].items.clear();
    bad[1].items = vec![item(1); MAX_ITEMS + 1];
    bad[2].items[0].min_units = units(3);
    bad[3].latest = bad[3].earliest.minus(micro());
    bad[4].min_duration = MARGIN.times(2);
    bad[5].broker = Some(id(SITE));
    for ask in bad {
        world.command(GUEST, GuestCommand::Ask(ask));
    }
    assert_eq!(world.problems.len(), 6);
    assert_eq!(world.position(GUEST), position);
}
