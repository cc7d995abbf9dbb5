//! A broker under attack: it accepts messages only from known guests and sites, within bounds.

use std::collections::BTreeMap;

use tenure_core::actor::effect::Problem;
use tenure_core::broker::Broker;
use tenure_core::broker::machine::State;
use tenure_core::model::codec;
use tenure_core::model::property::Properties;
use tenure_core::model::resource::Attributes;
use tenure_core::model::slice::RequestId;
use tenure_core::model::time::{Span, Term, Time};
use tenure_core::runtime::Output;
use tenure_core::ticket::link::{Generation, Link, SignedLink};
use tenure_core::ticket::{Ticket, TicketFault};
use tenure_core::wire::message::{Message, OpenError, Sealed, Subject};
use tenure_core::wire::refusal::Refusal;
use tenure_core::wire::request::{MAX_ITEMS, MAX_UNITS, Request};

use crate::common::world::{Scene, World};
use crate::common::{
    BROKER, FAR_SITE, GUEST, HOUR, MARGIN, RIVAL, SITE, STRANGER, TAKEN_BY_ALL, at, credentials,
    delegation, envelope, equals, id, item, letter, micro, one_of_each, part, request, signer,
    term, units,
};

fn without_effect(world: &mut World, sealed: &Sealed) -> Output {
    let (position, ledger) = (world.position(BROKER), world.broker().ledger().clone());
    let out = world.deliver(BROKER, sealed);
    assert_eq!(world.position(BROKER), position);
    assert_eq!(*world.broker().ledger(), ledger);
    assert_eq!(out.facts, []);
    out
}

fn only_refusal(out: &Output) -> Refusal {
    match out.replies.iter().map(|reply| &reply.message).collect::<Vec<_>>()[..] {
        [Message::Refused { refusal, .. }] => refusal.clone(),
        ref other => panic!("{other:?}"),
    }
}

/// The refusal of a changed request for 2 units over [0, 1h) that changes nothing at the broker.
fn refused(change: impl FnOnce(&mut Request)) -> Refusal {
    let mut world = Scene::default().open();
    let mut asked = request(GUEST, 1, 2, 0, HOUR);
    change(&mut asked);
    let out = without_effect(&mut world, &letter(GUEST, BROKER, Message::Request(asked)));
    only_refusal(&out)
}

/// A request that is entered and refused at once: nothing is cut, and the answer keeps its bytes.
fn refused_for_good(change: impl FnOnce(&mut Request)) -> Refusal {
    let mut world = Scene::default().open();
    let ledger = world.broker().ledger().clone();
    let mut asked = request(GUEST, 1, 2, 0, HOUR);
    change(&mut asked);
    let sealed = letter(GUEST, BROKER, Message::Request(asked.clone()));
    let first = world.deliver(BROKER, &sealed);
    assert!(matches!(world.broker().request(asked.id), Some(State::Refused { .. })));
    let again = without_effect(&mut world, &sealed);
    assert_eq!(first.replies, again.replies);
    assert_eq!(*world.broker().ledger(), ledger);
    only_refusal(&first)
}

#[test]
fn a_request_in_somebody_elses_name_is_forbidden() {
    let mut world = Scene::default().open();
    let asked = Message::Request(request(GUEST, 1, 2, 0, HOUR));
    let out = without_effect(&mut world, &letter(RIVAL, BROKER, asked));
    assert_eq!(only_refusal(&out), Refusal::Forbidden);
    assert_eq!(out.replies[0].header.to, id(RIVAL));
}

#[test]
fn a_request_by_somebody_unknown_is_forbidden() {
    let mut world = Scene::default().open();
    let asked = request(STRANGER, 1, 2, 0, HOUR);
    let for_nothing = Request { items: Vec::new(), ..asked.clone() };
    for asked in [asked, for_nothing] {
        let asked = Message::Request(asked);
        let out = without_effect(&mut world, &letter(STRANGER, BROKER, asked));
        assert_eq!(only_refusal(&out), Refusal::Forbidden);
    }
}

#[test]
fn a_request_by_a_site_is_forbidden() {
    let mut world = Scene::default().open();
    let asked = Message::Request(request(SITE, 1, 2, 0, HOUR));
    let out = without_effect(&mut world, &letter(SITE, BROKER, asked));
    assert_eq!(only_refusal(&out), Refusal::Forbidden);
}

#[test]
fn a_request_under_a_forged_envelope_is_dropped() {
    let mut world = Scene::default().open();
    let asked = Message::Request(request(GUEST, 1, 2, 0, HOUR));
    let forged = envelope(id(GUEST), id(BROKER), asked).seal(&mut credentials(STRANGER));
    let out = without_effect(&mut world, &forged);
    assert_eq!(out.problems, [Problem::Unopened(OpenError::NotTheSender)]);
}

#[test]
fn a_request_beyond_its_bounds_is_malformed() {
    let malformed = |refusal| assert!(matches!(refusal, Refusal::Malformed(_)), "{refusal:?}");
    malformed(refused(|request| request.items = vec![item(1); MAX_ITEMS + 1]));
    malformed(refused(|request| request.items.clear()));
    malformed(refused(|request| request.items = vec![item(MAX_UNITS + 1)]));
    malformed(refused(|request| request.items[0].min_units = units(3)));
    malformed(refused(|request| request.latest = request.earliest.minus(micro())));
    malformed(refused(|request| request.duration = Span::ZERO));
    malformed(refused(|request| request.duration = Span::from_secs(-1)));
    malformed(refused(|request| (request.earliest, request.latest) = (Time::MAX, Time::MAX)));
}

#[test]
fn a_request_with_as_many_items_as_allowed_is_decided() {
    let mut world = Scene { stock: MAX_ITEMS as u32, ..Scene::default() }.open();
    let items = vec![item(1); MAX_ITEMS];
    let asked = Request { items, ..request(GUEST, 1, 1, 0, HOUR) };
    world.deliver(BROKER, &letter(GUEST, BROKER, Message::Request(asked.clone())));
    world.run();
    assert!(matches!(world.broker().request(asked.id), Some(State::Granted { .. })));
    assert_eq!(world.free_at(0), 0);
}

#[test]
fn a_request_for_a_term_of_two_margins_is_too_short() {
    let two = MARGIN.times(2);
    let refusal = refused_for_good(|request| {
        (request.duration, request.min_duration) = (two, two);
    });
    assert_eq!(refusal, Refusal::TermTooShort { term: two, min: two });
}

#[test]
fn a_request_whose_answer_is_due_already_is_too_late() {
    let refusal = refused_for_good(|request| request.answer_by = at(0));
    assert_eq!(refusal, Refusal::TooLate(at(0)));
}

#[test]
fn a_request_to_extend_somebody_elses_ticket_or_none_is_refused() {
    let mut world = Scene::default().open();
    let sold = request(RIVAL, 1, 2, 0, HOUR);
    world.deliver(BROKER, &letter(RIVAL, BROKER, Message::Request(sold.clone())));
    world.run();
    let Some(State::Granted { tickets, .. }) = world.broker().request(sold.id) else { panic!() };
    let (theirs, nobodys) = (tickets[0].1.hash(), world.delegation().hash());
    for (number, extends) in [(1, theirs), (2, nobodys)] {
        let mut asked = request(GUEST, number, 2, HOUR, HOUR);
        asked.items[0].extends = Some(extends);
        let out = world.deliver(BROKER, &letter(GUEST, BROKER, Message::Request(asked)));
        assert_eq!(only_refusal(&out), Refusal::NotExtendable(term(HOUR, 2 * HOUR)));
    }
}

#[test]
fn a_request_repeated_gets_the_same_bytes_and_is_charged_once() {
    let mut world = Scene::default().open();
    let sealed = letter(GUEST, BROKER, Message::Request(request(GUEST, 1, 2, 0, HOUR)));
    world.deliver(BROKER, &sealed);
    world.run();
    for secs in [0, 1, 600] {
        world.advance(secs);
        without_effect(&mut world, &sealed);
    }
    let answers = world.sent("granted");
    assert_eq!(answers, vec![answers[0].clone(); 4]);
    assert_eq!(world.free_at(0), 2);
}

#[test]
fn another_request_under_the_same_id_gets_the_first_answer() {
    let mut world = Scene::default().open();
    let ask = |n| letter(GUEST, BROKER, Message::Request(request(GUEST, 1, n, 0, HOUR)));
    world.deliver(BROKER, &ask(1));
    world.run();
    let out = without_effect(&mut world, &ask(4));
    assert!(matches!(&out.replies[0].message, Message::Granted { tickets, .. }
        if tickets[0].1.bottom().units == units(1)));
}

#[test]
fn a_request_repeated_while_it_is_open_is_asked_once() {
    let mut world = Scene::default().open();
    world.undecided.insert(BROKER);
    let sealed = letter(GUEST, BROKER, Message::Request(request(GUEST, 1, 2, 0, HOUR)));
    world.deliver(BROKER, &sealed);
    assert_eq!(without_effect(&mut world, &sealed).replies, []);
    world.undecided.clear();
    world.run();
    assert_eq!(world.sent("granted").len(), 1);
}

#[test]
fn a_broker_drops_what_is_not_said_to_brokers() {
    let mut world = Scene::default().open();
    for message in one_of_each(&world.delegation()) {
        let kind = message.kind();
        let its = [
            "delegate",
            "request",
            "accept",
            "withdraw",
            "credit",
            "inquire",
            "need",
            "hosts",
            "hand-over",
            "ask-portion",
        ];
        if its.contains(&kind) || TAKEN_BY_ALL.contains(&kind) {
            continue;
        }
        let out = without_effect(&mut world, &letter(GUEST, BROKER, message));
        assert_eq!(out.replies, [], "{kind}");
        // An answer to what it has not asked is passed over.
        let dropped = matches!(out.problems[..], [Problem::Message { .. }]);
        assert!(dropped || matches!(kind, "reclaimed" | "recalled"), "{kind}");
    }
}

fn delegate(ticket: Ticket) -> Message {
    Message::Delegate { ticket, attributes: Attributes::new() }
}

/// The refusal of a delegation that changes nothing at the broker.
fn delegation_refused(from: u8, ticket: Ticket) -> Refusal {
    let mut world = Scene::default().open();
    let out = without_effect(&mut world, &letter(from, BROKER, delegate(ticket)));
    assert!(matches!(
        out.replies[0].message,
        Message::Refused { subject: Subject::Delegation(_), .. }
    ));
    only_refusal(&out)
}

#[test]
fn a_delegation_by_somebody_who_is_no_site_is_forbidden() {
    for nobody in [STRANGER, GUEST] {
        let ticket = delegation(nobody, BROKER, 4, term(0, HOUR), (1, 0));
        assert_eq!(delegation_refused(nobody, ticket), Refusal::Forbidden);
    }
}

#[test]
fn a_delegation_shown_by_another_site_than_its_own_is_refused() {
    let ticket = delegation(SITE, BROKER, 4, term(0, HOUR), (7, 0));
    assert_eq!(delegation_refused(FAR_SITE, ticket), Refusal::Forbidden);
}

#[test]
fn a_delegation_to_another_broker_is_refused() {
    let ticket = delegation(SITE, RIVAL, 4, term(0, HOUR), (7, 0));
    let not_holder = Refusal::Ticket(TicketFault::NotHolder(id(RIVAL)));
    assert_eq!(delegation_refused(SITE, ticket), not_holder);
}

#[test]
fn a_delegation_signed_by_a_stranger_is_refused() {
    let root = delegation(SITE, STRANGER, 4, term(0, HOUR), (7, 0));
    let mut link = part(&root, BROKER, 4, term(0, HOUR), 1);
    link.delegation = Some(Generation { delegation: 1, generation: 5 });
    let ticket = root.with(SignedLink::sign(link, &signer(STRANGER)));
    for who in [SITE, STRANGER] {
        assert_eq!(delegation_refused(who, ticket.clone()), Refusal::Forbidden);
    }
}

#[test]
fn a_ticket_that_is_no_delegation_is_dropped() {
    let mut world = Scene::default().open();
    let mut link: Link = (**world.delegation().root()).clone();
    (link.delegation, link.serial) = (None, 99);
    let ticket = Ticket::root_of(SignedLink::sign(link, &signer(SITE)));
    let out = without_effect(&mut world, &letter(SITE, BROKER, delegate(ticket)));
    assert!(matches!(out.problems[..], [Problem::Message { kind: "delegate", .. }]));
}

/// What the broker says to a next generation of its delegation that was changed before it was signed.
fn renewal_refused(change: impl FnOnce(&mut Link)) -> bool {
    let mut world = Scene::default().open();
    let mut link: Link = (**world.delegation().root()).clone();
    let generation = link.delegation.unwrap();
    link.delegation = Some(Generation { generation: 1, ..generation });
    change(&mut link);
    let ticket = Ticket::root_of(SignedLink::sign(link, &signer(SITE)));
    let out = world.deliver(BROKER, &letter(SITE, BROKER, delegate(ticket)));
    matches!(out.replies[0].message, Message::Refused { refusal: Refusal::Malformed(_), .. })
}

#[test]
fn a_renewal_that_takes_away_what_was_given_is_refused() {
    assert!(!renewal_refused(|_| ()));
    assert!(!renewal_refused(|link| link.units = units(5)));
    assert!(renewal_refused(|link| link.units = units(3)));
    assert!(renewal_refused(|link| link.term = term(0, HOUR)));
    let end = |link: &Link| link.term.end();
    assert!(renewal_refused(|link| link.term = Term::new(at(1), end(link)).unwrap()));
    assert!(renewal_refused(|link| link.term = Term::new(at(-1), end(link)).unwrap()));
    assert!(renewal_refused(|link| link.resource = "disk".parse().unwrap()));
    assert!(renewal_refused(|link| link.constraints.add(equals("cpus", 8))));
}

#[test]
fn an_old_generation_shown_again_changes_nothing() {
    let delegation = (Span::HOUR.times(2), Span::HOUR);
    let mut world = Scene { delegation, ..Scene::default() }.open();
    let old = world.sent("delegate").remove(0);
    world.advance(HOUR);
    assert_eq!(world.count(BROKER, "broker.delegation-taken"), 2);
    let out = without_effect(&mut world, &old);
    assert!(matches!(out.replies[0].message, Message::Delegated { generation: 1, .. }));
}

#[test]
fn a_request_replayed_long_after_it_was_forgotten_is_refused() {
    let mut world = Scene::default().open();
    let asked = request(GUEST, 1, 2, 0, HOUR);
    let sealed = letter(GUEST, BROKER, Message::Request(asked.clone()));
    world.deliver(BROKER, &sealed);
    world.run();
    world.advance(3 * HOUR);
    assert_eq!(world.broker().request(asked.id), None);
    for hours in 3..6 {
        world.advance(hours * HOUR);
        let out = without_effect(&mut world, &sealed);
        assert!(matches!(only_refusal(&out), Refusal::TooLate(_)));
    }
}

#[test]
fn two_guests_with_the_same_number_are_told_apart() {
    let mut world = Scene::default().open();
    for who in [GUEST, RIVAL] {
        let asked = Message::Request(request(who, 1, 2, 0, HOUR));
        world.deliver(BROKER, &letter(who, BROKER, asked));
        world.run();
        let id = RequestId { origin: id(who), number: 1 };
        assert!(matches!(world.broker().request(id), Some(State::Granted { .. })));
    }
    assert_eq!(world.free_at(0), 0);
}

/// A request far off in time, as large as its properties can make it.
fn bulky(number: u64) -> Request {
    let long = |n| (format!("k{n}").parse().unwrap(), "x".repeat(Properties::MAX_VALUE));
    let properties: BTreeMap<_, _> = (0..Properties::MAX_COUNT).map(long).collect();
    let mut asked = request(GUEST, number, 1, 0, HOUR);
    (asked.latest, asked.answer_by) = (at(HOUR * 100_000), at(HOUR * 100_000));
    asked.properties = Properties::try_from(properties).unwrap();
    asked
}

/// However large its requests are and however long they wait, a guest takes up so many bytes and no more;
/// once they are answered there is room again.
#[test]
fn the_bytes_of_a_guests_requests_are_bounded() {
    let mut world = Scene::default().open();
    world.undecided.insert(BROKER);
    let bytes = codec::encode(&bulky(1)).len() as u64;
    let most = Broker::MAX_BYTES_OF_ONE.div_ceil(bytes);
    for number in 1..=most {
        let out = world.deliver(BROKER, &letter(GUEST, BROKER, Message::Request(bulky(number))));
        assert_eq!(out.replies, []);
    }
    let next = letter(GUEST, BROKER, Message::Request(bulky(most + 1)));
    assert_eq!(only_refusal(&without_effect(&mut world, &next)), Refusal::Overloaded);
    let rival = Message::Request(request(RIVAL, 1, 1, 0, HOUR));
    assert_eq!(world.deliver(BROKER, &letter(RIVAL, BROKER, rival)).replies, []);
    world.undecided.clear();
    world.run();
    world.deliver(BROKER, &next);
    assert!(world.broker().request(bulky(most + 1).id).is_some());
}

#[test]
fn one_guest_leaves_room_for_the_open_requests_of_others() {
    let mut world = Scene::default().open();
    world.undecided.insert(BROKER);
    let ask = |world: &mut World, who, number| {
        let asked = Message::Request(request(who, number, 1, 0, HOUR));
        world.deliver(BROKER, &letter(who, BROKER, asked)).replies.len()
    };
    let most = u64::from(Broker::MAX_OPEN_OF_ONE);
    assert!((1..=most).all(|number| ask(&mut world, GUEST, number) == 0));
    assert_eq!(ask(&mut world, GUEST, most + 1), 1);
    assert_eq!(ask(&mut world, RIVAL, 1), 0);
}
