//! A site that is lied to: forged, stolen, repeated and late messages change nothing.

use tenure_core::actor::Actor as _;
use tenure_core::actor::effect::Problem;
use tenure_core::driver::Step;
use tenure_core::model::codec;
use tenure_core::model::identity::{PublicKey, Signature};
use tenure_core::model::keys::KeyChain;
use tenure_core::model::time::{Span, Term};
use tenure_core::runtime::Output;
use tenure_core::ticket::link::{Link, SignedLink};
use tenure_core::ticket::{Ticket, TicketFault};
use tenure_core::wire::batch::Path;
use tenure_core::wire::message::{Envelope, Message, OpenError, Sealed, Subject, VERSION};
use tenure_core::wire::refusal::Refusal;

use crate::common::world::{Reaction, Scene, World};
use crate::common::{
    BROKER, FAR_SITE, GUEST, HOUR, MARGIN, RIVAL, SITE, STRANGER, TAKEN_BY_ALL, ask_for, at, close,
    credentials, cut, delegation, envelope, equals, id, letter, micro, one_of_each, part,
    properties, redeem, signer, term, units, unmet,
};

/// A guest's lease of 2 units over [0, 1h), in use, with its ticket.
fn leased() -> (World, Ticket) {
    let mut world = Scene::default().open();
    let lease = world.ask(GUEST, ask_for(2, 0, HOUR));
    assert_eq!(world.state(GUEST, lease), "Active");
    let ticket = world.ticket(GUEST, lease);
    (world, ticket)
}

/// A world and a ticket for 2 units over [0, 1h) that was not redeemed yet.
fn unshown() -> (World, Ticket) {
    let world = Scene::default().open();
    let ticket = cut(&world.delegation(), BROKER, GUEST, 2, term(0, HOUR), 901);
    (world, ticket)
}

/// Delivers a message that must change nothing at the site: no fact, no work.
fn without_effect(world: &mut World, sealed: &Sealed) -> Output {
    let (position, calls) = (world.position(SITE), world.calls.len());
    let out = world.deliver(SITE, sealed);
    assert_eq!((world.position(SITE), world.calls.len()), (position, calls));
    assert_eq!(out.facts, []);
    out
}

fn unopened(world: &mut World, sealed: &Sealed) -> OpenError {
    let out = without_effect(world, sealed);
    assert_eq!(out.replies, [], "nobody is told");
    match &out.problems[..] {
        [Problem::Unopened(error)] => error.clone(),
        other => panic!("{other:?}"),
    }
}

/// The refusal of a ticket that changes nothing at the site.
fn refused(world: &mut World, who: u8, message: Message) -> Refusal {
    let out = without_effect(world, &letter(who, SITE, message));
    match out.replies.iter().map(|reply| &reply.message).collect::<Vec<_>>()[..] {
        [Message::Refused { subject: Subject::Ticket(_), refusal, .. }] => refusal.clone(),
        ref other => panic!("{other:?}"),
    }
}

#[test]
fn an_envelope_that_names_somebody_else_than_its_signer_is_dropped() {
    let (mut world, ticket) = unshown();
    let forged = envelope(id(GUEST), id(SITE), redeem(&ticket)).seal(&mut credentials(STRANGER));
    assert_eq!(unopened(&mut world, &forged), OpenError::NotTheSender);
}

#[test]
fn an_envelope_with_the_right_key_and_somebody_elses_signature_is_dropped() {
    let (mut world, ticket) = unshown();
    let bytes = codec::encode(&(VERSION, envelope(id(GUEST), id(SITE), redeem(&ticket))));
    let (_, signature) = credentials(STRANGER).sign_message(&bytes);
    let forged = codec::encode(&(
        bytes,
        signer(GUEST).key(),
        signature,
        Path::default(),
        Vec::<KeyChain>::new(),
    ));
    let forged: Sealed = codec::decode(&forged).unwrap();
    assert_eq!(unopened(&mut world, &forged), OpenError::BadSignature);
}

#[test]
fn an_envelope_meant_for_another_site_is_dropped() {
    let (mut world, ticket) = unshown();
    let astray = letter(GUEST, FAR_SITE, redeem(&ticket));
    assert_eq!(unopened(&mut world, &astray), OpenError::NotForMe(id(FAR_SITE)));
}

#[test]
fn a_redeem_repeated_while_units_are_set_up_changes_nothing() {
    let mut world = Scene::default().open();
    world.driver = |call| if call.step == Step::Setup { Reaction::Waits } else { Reaction::Works };
    world.ask(GUEST, ask_for(2, 0, HOUR));
    let redeem = world.sent("redeem").remove(0);
    for _ in 0..3 {
        let out = without_effect(&mut world, &redeem);
        assert_eq!((out.replies, out.problems), (vec![], vec![]), "the guest waits");
    }
}

#[test]
fn a_redeem_repeated_before_the_close_gets_the_same_bytes_and_no_second_setup() {
    let (mut world, ticket) = leased();
    let redeem = world.sent("redeem").remove(0);
    for n in 1..4 {
        world.advance(n * 600);
        without_effect(&mut world, &redeem);
    }
    let answers = world.sent("leased");
    assert_eq!(answers, vec![answers[0].clone(); 4]);
    assert_eq!(world.at_site(ticket.hash()), "Active");
}

#[test]
fn a_redeem_repeated_after_the_close_does_not_bring_the_lease_back() {
    let (mut world, ticket) = leased();
    let redeem = world.sent("redeem").remove(0);
    world.deliver(SITE, &letter(GUEST, SITE, close(&ticket)));
    world.run();
    for _ in 0..3 {
        without_effect(&mut world, &redeem);
    }
    let answers = world.sent("closed");
    assert_eq!(answers, vec![answers[0].clone(); 4]);
    assert_eq!(world.at_site(ticket.hash()), "Closed");
    assert_eq!(world.units_in("Free"), 4);
}

#[test]
fn a_redeem_repeated_after_the_end_of_the_term_is_answered_with_the_end() {
    let (mut world, ticket) = leased();
    let redeem = world.sent("redeem").remove(0);
    world.advance(HOUR);
    let out = without_effect(&mut world, &redeem);
    let (hash, receipts) = (ticket.hash(), Vec::new());
    let closed = Message::Closed { ticket: hash, refusal: None, receipts };
    assert_eq!(out.replies[0].message, closed);
}

#[test]
fn a_redeem_repeated_after_the_lease_was_forgotten_is_too_late() {
    let (mut world, ticket) = leased();
    world.advance(HOUR + 10);
    assert_eq!(world.at_site(ticket.hash()), "unknown");
    let refusal = refused(&mut world, GUEST, redeem(&ticket));
    assert_eq!(refusal, Refusal::TooLate(at(HOUR)));
}

#[test]
fn a_ticket_shown_first_after_its_term_is_too_late() {
    let (mut world, ticket) = unshown();
    world.advance(HOUR);
    assert_eq!(refused(&mut world, GUEST, redeem(&ticket)), Refusal::TooLate(at(HOUR)));
}

#[test]
fn a_stolen_ticket_is_refused_before_its_holder_has_shown_it() {
    let (mut world, ticket) = unshown();
    let not_holder = Refusal::Ticket(TicketFault::NotHolder(id(GUEST)));
    assert_eq!(refused(&mut world, RIVAL, redeem(&ticket)), not_holder);
    assert_eq!(refused(&mut world, STRANGER, close(&ticket)), not_holder);
    world.deliver(SITE, &letter(GUEST, SITE, redeem(&ticket)));
    world.run();
    assert_eq!(world.at_site(ticket.hash()), "Active");
}

#[test]
fn a_stolen_ticket_is_refused_in_the_same_words_once_its_holder_has_shown_it() {
    let (mut world, ticket) = leased();
    let not_holder = Refusal::Ticket(TicketFault::NotHolder(id(GUEST)));
    assert_eq!(refused(&mut world, RIVAL, redeem(&ticket)), not_holder);
    assert_eq!(refused(&mut world, RIVAL, close(&ticket)), not_holder);
}

#[test]
fn nobody_but_the_holder_can_close_a_lease() {
    let (mut world, ticket) = leased();
    let not_holder = Refusal::Ticket(TicketFault::NotHolder(id(GUEST)));
    for thief in [RIVAL, BROKER, STRANGER] {
        assert_eq!(refused(&mut world, thief, close(&ticket)), not_holder);
        assert_eq!(world.at_site(ticket.hash()), "Active");
    }
    assert_eq!(world.units_in("Ready"), 2);
}

#[test]
fn a_close_that_names_somebody_elses_ticket_beside_its_own_closes_its_own_alone() {
    let (mut world, ticket) = leased();
    let own = cut(&world.delegation(), BROKER, RIVAL, 1, term(0, HOUR), 902);
    world.deliver(SITE, &letter(RIVAL, SITE, redeem(&own)));
    world.run();
    let both = Message::Close { tickets: vec![own.clone(), ticket.clone()] };
    world.deliver(SITE, &letter(RIVAL, SITE, both));
    assert_eq!((world.at_site(own.hash()), world.at_site(ticket.hash())), ("Closed", "Active"));
}

#[test]
fn a_close_without_tickets_is_dropped() {
    let (mut world, _) = leased();
    let out = without_effect(&mut world, &letter(GUEST, SITE, Message::Close { tickets: vec![] }));
    assert!(matches!(&out.problems[..], [Problem::Message { kind: "close", .. }]));
}

#[test]
fn a_site_drops_what_is_not_said_to_sites() {
    let (mut world, ticket) = unshown();
    for message in one_of_each(&ticket) {
        let kind = message.kind();
        let its = ["delegated", "redeem", "close", "return", "modify", "reclaim", "recall"];
        let others = ["recall-noted", "heartbeat", "credited"];
        if its.contains(&kind) || others.contains(&kind) || TAKEN_BY_ALL.contains(&kind) {
            continue;
        }
        let out = without_effect(&mut world, &letter(GUEST, SITE, message));
        assert_eq!(out.replies, [], "{kind}");
        assert!(matches!(out.problems[..], [Problem::Message { .. }]), "{kind}");
    }
}

#[test]
fn a_forged_acknowledgement_of_a_delegation_is_ignored() {
    let mut world = Scene::default().open();
    let (pending, ticket) = (world.actor(SITE).unfinished(9), world.delegation());
    let acknowledgement = one_of_each(&ticket).remove(1);
    without_effect(&mut world, &letter(RIVAL, SITE, acknowledgement));
    assert_eq!(world.actor(SITE).unfinished(9), pending);
}

#[test]
fn a_ticket_of_another_site_is_refused() {
    let mut world = Scene::default().open();
    let far = delegation(FAR_SITE, BROKER, 4, term(0, HOUR), (1, 0));
    let ticket = cut(&far, BROKER, GUEST, 2, term(0, HOUR), 1);
    let wrong_site = Refusal::Ticket(TicketFault::WrongSite(id(FAR_SITE)));
    assert_eq!(refused(&mut world, GUEST, redeem(&ticket)), wrong_site);
}

#[test]
fn a_ticket_with_a_forged_link_is_refused() {
    let mut world = Scene::default().open();
    let ticket = cut(&world.delegation(), STRANGER, GUEST, 2, term(0, HOUR), 1);
    let forged = Refusal::Ticket(TicketFault::BadSignature(1));
    assert_eq!(refused(&mut world, GUEST, redeem(&ticket)), forged);
    assert_eq!(refused(&mut world, GUEST, close(&ticket)), forged);
}

/// What the site says to a ticket of the broker's that was changed before it was signed.
fn shown(change: impl FnOnce(&mut Link)) -> (World, Ticket) {
    let world = Scene::default().open();
    let held = world.delegation();
    let mut link = part(&held, GUEST, 2, term(0, HOUR), 901);
    change(&mut link);
    (world, held.with(SignedLink::sign(link, &signer(BROKER))))
}

#[test]
fn a_ticket_for_a_term_of_two_margins_is_too_short() {
    let two = MARGIN.times(2);
    let (mut world, ticket) = shown(|link| link.term = Term::lasting(at(0), two).unwrap());
    let too_short = Refusal::TermTooShort { term: two, min: two };
    assert_eq!(refused(&mut world, GUEST, redeem(&ticket)), too_short);
}

#[test]
fn a_ticket_for_a_microsecond_more_than_two_margins_is_honoured() {
    let more = MARGIN.times(2).plus(micro());
    let (mut world, ticket) = shown(|link| link.term = Term::lasting(at(0), more).unwrap());
    world.deliver(SITE, &letter(GUEST, SITE, redeem(&ticket)));
    world.run();
    assert_eq!(world.at_site(ticket.hash()), "Active");
}

#[test]
fn a_ticket_whose_constraint_does_not_hold_here_is_refused() {
    let (mut world, ticket) = shown(|link| link.constraints.add(equals("cpus", 16)));
    given_back_at_once(&mut world, redeem(&ticket));
}

/// A good ticket for something else: it comes back, with a receipt, and can be sold again.
fn given_back_at_once(world: &mut World, redeem: Message) {
    let out = world.deliver(SITE, &letter(GUEST, SITE, redeem));
    let Message::Closed { refusal, receipts, .. } = &out.replies[0].message else { panic!() };
    assert_eq!(*refusal, Some(Refusal::Constraint(unmet("cpus = 16", "cpus = 16: cpus is 8"))));
    assert_eq!((receipts.len(), world.calls.len()), (1, 0));
}

#[test]
fn a_guest_cannot_talk_its_way_past_what_the_site_says_of_its_units() {
    let (mut world, ticket) = shown(|link| link.constraints.add(equals("cpus", 16)));
    let mut message = redeem(&ticket);
    if let Message::Redeem { configuration, .. } = &mut message {
        *configuration = properties("cpus", "16");
    }
    given_back_at_once(&mut world, message);
}

#[test]
fn a_redeem_that_needs_more_units_than_the_ticket_has_is_refused() {
    let (mut world, ticket) = unshown();
    let mut message = redeem(&ticket);
    if let Message::Redeem { min_units, .. } = &mut message {
        *min_units = units(3);
    }
    assert!(matches!(refused(&mut world, GUEST, message), Refusal::Malformed(_)));
}

#[test]
fn an_extension_of_somebody_elses_lease_is_refused() {
    let (mut world, ticket) = leased();
    let held = world.delegation();
    for (who, start, n) in [(RIVAL, HOUR, 2), (GUEST, HOUR - 1, 2), (GUEST, HOUR + 1, 2)] {
        let mut link = part(&held, who, n, term(start, 2 * HOUR), 901);
        link.extends = Some(ticket.hash());
        let extension = held.with(SignedLink::sign(link, &signer(BROKER)));
        let not_extendable = Refusal::NotExtendable(term(start, 2 * HOUR));
        assert_eq!(refused(&mut world, who, redeem(&extension)), not_extendable);
    }
}

#[test]
fn an_extension_for_more_units_than_the_lease_has_is_refused() {
    let (mut world, ticket) = leased();
    let held = world.delegation();
    for n in [3, 4] {
        let mut link = part(&held, GUEST, n, term(HOUR, 2 * HOUR), 901);
        link.extends = Some(ticket.hash());
        let extension = held.with(SignedLink::sign(link, &signer(BROKER)));
        let differ = Refusal::UnitsDiffer { held: 2, asked: n };
        assert_eq!(refused(&mut world, GUEST, redeem(&extension)), differ);
    }
}

#[test]
fn a_close_of_a_ticket_that_was_refused_for_good_is_answered_in_the_same_bytes() {
    let (mut world, first) = leased();
    let second = cut(&world.delegation(), BROKER, RIVAL, 3, term(0, HOUR), 901);
    world.deliver(SITE, &letter(RIVAL, SITE, redeem(&second)));
    for secs in [1, 2] {
        world.advance(secs);
        without_effect(&mut world, &letter(RIVAL, SITE, close(&second)));
        without_effect(&mut world, &letter(RIVAL, SITE, redeem(&second)));
    }
    let answers = world.sent("refused");
    assert_eq!(answers, vec![answers[0].clone(); 5]);
    assert_eq!(world.at_site(first.hash()), "Active");
}

#[test]
fn an_early_ticket_is_held_until_its_start_and_not_a_microsecond_less() {
    let start = Span::from_secs(600);
    let (mut world, ticket) =
        shown(|link| link.term = Term::new(at(0).plus(start), at(HOUR)).unwrap());
    world.deliver(SITE, &letter(GUEST, SITE, redeem(&ticket)));
    world.run();
    world.advance(599);
    assert_eq!((world.at_site(ticket.hash()), world.calls.len()), ("Early", 0));
    world.advance(600);
    assert_eq!((world.at_site(ticket.hash()), world.calls.len()), ("Active", 2));
}

/// What two guests say to the site, signed together by one of them.
fn signed_together(ticket: &Ticket) -> Vec<Sealed> {
    let first = envelope(id(GUEST), id(SITE), redeem(ticket));
    let second = envelope(id(GUEST), id(SITE), Message::Close { tickets: vec![ticket.clone()] });
    Envelope::seal_all(&[&first, &second, &first], &mut credentials(GUEST))
}

#[test]
fn each_of_several_messages_under_one_signature_stands_alone() {
    let (_, ticket) = unshown();
    let mut site = credentials(SITE);
    for sealed in signed_together(&ticket) {
        assert_eq!(sealed.open(&mut credentials(SITE), at(0)).unwrap(), sealed.peek().unwrap());
        assert!(sealed.open(&mut site, at(0)).is_ok());
    }
    assert_eq!(site.checked(), 1, "one signature is checked once");
}

#[test]
fn no_bit_of_a_message_under_a_common_signature_can_be_changed_or_exchanged() {
    let (_, ticket) = unshown();
    let sealed = signed_together(&ticket);
    let mut site = credentials(SITE);
    assert!(sealed[0].open(&mut site, at(0)).is_ok());
    // Also where the signature is known to hold for others.
    let bytes = codec::encode(&sealed[1]);
    for bit in 0..bytes.len() * 8 {
        let mut flipped = bytes.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        let opened = codec::decode::<Sealed>(&flipped).map(|sealed| sealed.open(&mut site, at(0)));
        assert!(!matches!(opened, Ok(Ok(_))), "bit {bit}");
    }
    type Parts = (Vec<u8>, PublicKey, Signature, Path, Vec<KeyChain>);
    let parts = |sealed: &Sealed| codec::decode::<Parts>(&codec::encode(sealed)).unwrap();
    let (bytes, key, signature, _, keys) = parts(&sealed[0]);
    let (.., path, _) = parts(&sealed[1]);
    let exchanged = codec::encode(&(bytes, key, signature, path, keys));
    let exchanged: Sealed = codec::decode(&exchanged).unwrap();
    assert_eq!(exchanged.open(&mut site, at(0)), Err(OpenError::BadSignature));
}
