//! Honest actors keep all laws, whatever the others do, and no law sleeps.

use std::collections::{BTreeMap, BTreeSet};

use tenure_core::model::identity::ActorId;
use tenure_core::model::time::Span;
use tenure_core::runtime::{Entry, Fact};
use tenure_core::service_manager::Command as GuestCommand;
use tenure_core::site_authority::facts as site_authority;
use tenure_core::site_authority::facts::Denial;
use tenure_core::wire::message::Message;
use tenure_core::wire::request::Request;
use tenure_laws::{Auditor, LAWS, Participants, audit_journals};

use crate::common::world::{Scene, Shown, What, World, cast};
use crate::common::{
    BROKER, GUEST, HOUR, RIVAL, SITE, STRANGER, ask_for, at, cut, id, letter, redeem, request, term,
};
use crate::lives::{
    Tape, credit_at_once, honest, moved, passed_on, planned, recalled, silent, stacked,
};

/// A broker that sells what it does not have, beside its honest trade, and a guest that hands on parts
/// of what it bought, too many of them.
fn among_thieves() -> Tape {
    let mut world = Scene { audited: true, ..Scene::default() }.open();
    nothing_is_expected_of(&mut world, &[BROKER, RIVAL]);
    world.ask(GUEST, ask_for(2, 0, HOUR));
    let held = world.delegation();
    for (serial, who, n) in [(901, RIVAL, 2), (902, STRANGER, 2)] {
        let forged = cut(&held, BROKER, who, n, term(0, HOUR), serial);
        world.deliver(SITE, &letter(who, SITE, redeem(&forged)));
        world.run();
    }
    let bought = cut(&held, BROKER, RIVAL, 4, term(2 * HOUR, 3 * HOUR), 904);
    for (serial, n) in [(1, 3), (2, 2), (3, 1)] {
        let part = cut(&bought, RIVAL, STRANGER, n, term(2 * HOUR, 3 * HOUR), serial);
        world.deliver(SITE, &letter(STRANGER, SITE, redeem(&part)));
        world.run();
    }
    world.advance(6 * HOUR);
    let mut tape = Tape::of(world);
    for who in [BROKER, RIVAL] {
        tape.cast.members.get_mut(&id(who)).unwrap().honest = false;
    }
    tape
}

/// Those have been dishonest from the beginning.
fn nothing_is_expected_of(world: &mut World, who: &[u8]) {
    let mut cast = cast();
    for who in who {
        cast.members.get_mut(&id(*who)).unwrap().honest = false;
    }
    audit(world, cast);
}

/// Has a life be held to the laws by another cast, from its beginning on.
fn audit(world: &mut World, cast: Participants) {
    let mut auditor = Auditor::new(cast);
    world.tape.iter().try_for_each(|shown| shown.to(&mut auditor)).unwrap();
    world.auditor = Some(auditor);
}

fn counts(tape: &Tape) -> BTreeMap<&'static str, u64> {
    tape.play().unwrap_or_else(|violation| panic!("{violation}"))
}

#[test]
fn an_honest_life_keeps_all_laws() {
    counts(&honest());
}

#[test]
fn a_life_with_recalls_keeps_all_laws() {
    counts(&recalled());
}

#[test]
fn whatever_the_dishonest_do_the_honest_keep_all_laws() {
    counts(&among_thieves());
}

/// A receipt is valid no matter who shows it, and a thief may be quicker than the holder.
#[test]
fn a_thief_may_have_a_ticket_credited_before_its_holder_knows_that_it_is_over() {
    let mut tape = honest();
    credit_at_once(&mut tape);
    let mut thief = tape.cast.members[&id(RIVAL)].clone();
    thief.honest = false;
    tape.cast.members.insert(id(STRANGER), thief);
    counts(&tape);
}

/// The names of requests are their guest's: a guest that reuses a forgotten one harms only itself.
#[test]
fn a_dishonest_guest_may_ask_for_something_else_under_a_name_that_is_forgotten() {
    let mut world = Scene { audited: true, ..Scene::default() }.open();
    nothing_is_expected_of(&mut world, &[RIVAL]);
    for start in [0, 10 * HOUR] {
        let request = Request { answer_by: at(20 * HOUR), ..request(RIVAL, 7, 2, start, HOUR) };
        world.deliver(BROKER, &letter(RIVAL, BROKER, Message::Request(request)));
        world.run();
        world.advance(5 * HOUR);
    }
    assert_eq!(world.count(BROKER, "broker.request-forgotten"), 1);
    assert_eq!(world.count(BROKER, "broker.tickets-cut"), 2);
}

/// The guest's disk takes its time: that it got a lease is durable after the next holder has its units, and
/// what it did then never happens.
#[test]
fn a_holder_may_hear_from_its_disk_that_it_has_a_lease_when_the_lease_is_over() {
    let mut world = Scene { audited: true, ..Scene::default() }.open();
    world.ask(RIVAL, ask_for(4, HOUR, HOUR));
    world.keep.insert("leased");
    world.ask(GUEST, ask_for(4, 0, HOUR));
    world.advance(HOUR - 20);
    world.release();
    world.advance(HOUR + 60);
    let mut tape = Tape::of(world);
    let next = tape.nth(RIVAL, "service-manager.leased", 0);
    tape.stop_after(next);
    let late = tape.nth(GUEST, "service-manager.leased", 0);
    let taken = tape.shown[late].clone();
    let awake = |shown: &Shown| match &shown.what {
        What::Durable(who, ..) | What::Called(who, _) | What::Rested(who, _) => *who != GUEST,
        What::Sent(envelope, _) => envelope.header.from != id(GUEST),
        What::Crashed(_) | What::Recovered(..) | What::Unmoved(..) => true,
    };
    let mut rest = tape.shown.split_off(late);
    rest.retain(awake);
    tape.shown.extend(rest);
    tape.shown.push(taken);
    let mut auditor = Auditor::new(cast());
    tape.shown.iter().try_for_each(|shown| shown.to(&mut auditor)).unwrap();
}

/// Clocks that do not keep to the margin.
fn wild() -> Participants {
    Participants { clocks_hold: false, ..cast() }
}

/// A clock is a month ahead for a moment, and then correct again.
fn forgets(world: &mut World, who: u8) {
    world.set_ahead(who, Span::DAY.times(30));
    let now = world.now;
    world.advance_to(now.plus(Span::SECOND));
    world.set_ahead(who, Span::ZERO);
    world.restart(who);
    world.run();
}

#[test]
fn a_site_whose_clock_was_ahead_may_take_what_it_has_forgotten_with_all_extensions() {
    let mut world = Scene { audited: true, ..Scene::default() }.open();
    let lease = world.ask(GUEST, ask_for(2, 0, HOUR));
    world.command(GUEST, GuestCommand::extend(lease, Span::HOUR));
    assert_eq!(world.count(SITE, "site.lease-extended"), 1);
    audit(&mut world, wild());
    forgets(&mut world, SITE);
    assert_eq!(world.count(SITE, "site.lease-forgotten"), 1);
    for shown in world.sent("redeem") {
        world.hand_over(&shown);
        world.run();
    }
    assert_eq!(world.count(SITE, "site.redeemed"), 2);
    assert_eq!(world.count(SITE, "site.lease-extended"), 2);
}

#[test]
fn a_broker_whose_clock_was_ahead_may_answer_again_what_it_has_forgotten() {
    let mut world = Scene { audited: true, ..Scene::default() }.open();
    world.ask(GUEST, ask_for(2, 0, HOUR));
    audit(&mut world, wild());
    forgets(&mut world, BROKER);
    assert_eq!(world.count(BROKER, "broker.request-forgotten"), 1);
    let asked = world.sent("request").remove(0);
    world.hand_over(&asked);
    world.run();
    assert_eq!(world.count(BROKER, "broker.tickets-cut"), 2);
}

#[test]
fn no_law_sleeps_through_all_lives() {
    let lives = [
        honest(),
        among_thieves(),
        recalled(),
        stacked(),
        planned(),
        moved(),
        silent(),
        passed_on(),
    ]
    .map(|life| counts(&life));
    let asleep = |id: &&str| lives.iter().all(|counts| counts[id] == 0);
    let asleep: Vec<_> = LAWS.iter().map(|law| law.id).filter(|id| asleep(id)).collect();
    assert_eq!(asleep, Vec::<&str>::new());
}

#[test]
fn a_life_among_thieves_has_evidence_in_it() {
    let mut tape = among_thieves();
    let mut guilty = BTreeSet::new();
    for n in 0..2 {
        let site_authority::Fact::TicketRefused(fact) = tape.site("site.ticket-refused", n) else {
            unreachable!()
        };
        let Denial::Conflict(outline) = fact.denial.clone() else { panic!("{:?}", fact.denial) };
        let refused = fact.ticket.clone();
        let links = tape.links(SITE);
        let evidence = outline.fill(&refused, |hash| links.get(&hash).cloned()).unwrap();
        guilty.insert(evidence.convicts(crate::common::ED25519, &[]).unwrap());
    }
    assert_eq!(guilty, BTreeSet::from([id(BROKER), id(RIVAL)]));
}

fn slices(journals: &BTreeMap<ActorId, Vec<Entry>>) -> BTreeMap<ActorId, &[Entry]> {
    journals.iter().map(|(&id, facts)| (id, &facts[..])).collect()
}

#[test]
fn the_journals_of_an_honest_life_keep_the_laws_that_need_nothing_else() {
    let journals = honest().journals();
    let counts = audit_journals(&cast(), &slices(&journals)).unwrap();
    let asked: Vec<_> = counts.iter().filter(|(_, count)| *count > 0).collect();
    let asked: Vec<_> = asked.into_iter().map(|(law, _)| law.id).collect();
    let expected = [
        "S1", "S2", "S3", "S4", "S5", "S6", "S7", "S8", "S10", "S11", "S13", "S15", "S16", "S17",
        "S20", "S23",
    ];
    assert_eq!(asked, expected);
}

#[test]
fn any_of_the_journals_can_be_audited_alone() {
    let journals = honest().journals();
    for (&whose, facts) in &journals {
        let alone = BTreeMap::from([(whose, &facts[..])]);
        assert!(audit_journals(&cast(), &alone).is_ok());
    }
}

fn apart(who: u8, secs: i64) -> World {
    let mut world = Scene { audited: true, ..Scene::default() }.open();
    world.set_ahead(who, Span::from_secs(secs));
    world.ask(GUEST, ask_for(2, 10, HOUR));
    world.ask(RIVAL, ask_for(2, 10, HOUR));
    world.advance(600);
    let lease = tenure_core::model::slice::LeaseId { number: 1, part: 0 };
    world.command(RIVAL, GuestCommand::Close { lease });
    world.advance(2 * HOUR);
    world
}

#[test]
fn journals_of_clocks_that_differ_by_the_margin_keep_the_laws() {
    for who in [SITE, BROKER, GUEST, RIVAL] {
        for secs in [-10, 10] {
            let journals = Tape::of(apart(who, secs)).journals();
            audit_journals(&cast(), &slices(&journals)).unwrap();
        }
    }
}

#[test]
fn a_word_that_no_journal_stands_by_is_found_in_the_journals() {
    let mut tape = honest();
    let mut journals = tape.journals();
    let cut = journals.get_mut(&id(BROKER)).unwrap();
    let place = cut.iter().position(|entry| entry.fact.kind().0 == "broker.tickets-cut").unwrap();
    cut.truncate(place);
    let violation = audit_journals(&cast(), &slices(&journals)).unwrap_err();
    assert_eq!(violation.law.id, "S10");
    assert!(violation.to_string().contains("whose journal does not say so"), "{violation}");
    // A missing journal is not a false statement.
    journals.remove(&id(BROKER));
    assert!(audit_journals(&cast(), &slices(&journals)).is_ok());
    assert!(matches!(tape.entry(BROKER, "broker.tickets-cut", 0).fact, Fact::Broker(_)));
}

#[test]
fn a_refusal_without_a_fact_is_heard_of_no_law() {
    let mut world = Scene { audited: true, ..Scene::default() }.open();
    let forged = cut(&world.delegation(), STRANGER, STRANGER, 1, term(0, HOUR), 1);
    let out = world.deliver(SITE, &letter(STRANGER, SITE, redeem(&forged)));
    assert!(matches!(out.replies[0].message, Message::Refused { .. }));
}
