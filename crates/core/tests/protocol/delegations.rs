//! Delegations: one that is renewed lives on, one that is not ends and leaves nothing behind.

use std::collections::BTreeMap;

use tenure_core::actor::effect::{self, Effect, Input};
use tenure_core::runtime::{Entry, Fact, Output};

use tenure_core::actor::{Actor, Peer, Role, Setup};
use tenure_core::broker::Broker;
use tenure_core::broker::machine::State;
use tenure_core::broker::mapper::BrokerMapper as _;

use tenure_core::mapper::fcfs::Fcfs;
use tenure_core::model::name::Name;
use tenure_core::model::resource::Attributes;
use tenure_core::model::time::{Span, Time};
use tenure_core::site_authority::{Offer, Plan, SiteAuthority, Stock};
use tenure_core::ticket::Ticket;
use tenure_core::ticket::ledger::LEDGER_RETENTION;
use tenure_core::ticket::link::{Generation, SignedLink};
use tenure_core::wire::message::Message;
use tenure_core::wire::part::Part;
use tenure_core::wire::refusal::Refusal;
use tenure_core::wire::request::Request;

use crate::common::{
    BROKER, FAR_BROKER, GUEST, HOUR, MARGIN, SITE, at, cut, delegation, id, letter, micro, node,
    part, receipt, redeem, request, signer, term, units,
};

fn setup(who: u8) -> Setup {
    let peer = |who, role| (id(who), Peer { name: Name::literal("peer"), role });
    let peers = BTreeMap::from([
        peer(SITE, Role::SiteAuthority),
        peer(BROKER, Role::Broker),
        peer(FAR_BROKER, Role::Broker),
        peer(GUEST, Role::ServiceManager),
    ]);
    let peers = peers.into();
    Setup { name: Name::literal("actor"), signer: signer(who), margin: MARGIN, peers }
}

/// A site with 4 units, which it delegates for an hour or not at all.
fn site(offered: bool) -> SiteAuthority {
    let (broker, length) = (id(BROKER), Span::HOUR);
    let renew_before = Span::from_secs(600);
    let offer =
        Offer { broker, resource: node(), units: units(4), length, renew_before, unit: None };
    let stock =
        Stock { resource: node(), attributes: Attributes::new(), units: 4, named: BTreeMap::new() };
    let offers = if offered { vec![offer] } else { Vec::new() };
    SiteAuthority::new(setup(SITE), Plan { stock: vec![stock], offers, ..Plan::default() })
}

fn hand<A: Actor>(actor: &mut A, now: Time, input: Input<A::Command, A::Decision>) -> Output
where
    Fact: From<A::Fact>,
{
    let mut out = effect::Output::default();
    actor.handle(now, input, &mut out);
    let effect::Output { facts, replies, problems, answered } = out;
    let facts = facts.into_iter().map(|entry| Entry { at: entry.at, fact: entry.fact.into() });
    Output { facts: facts.collect(), replies, problems, answered }
}

fn kinds(facts: &[Entry]) -> Vec<&'static str> {
    facts.iter().map(|entry| entry.fact.kind().0).collect()
}

/// A site after these facts.
fn resumed(offered: bool, facts: &[Entry]) -> SiteAuthority {
    let mut site = site(offered);
    for entry in facts {
        let Fact::SiteAuthority(fact) = &entry.fact else { panic!("{entry:?}") };
        site.apply(entry.at, fact).unwrap();
    }
    site
}

/// A site whose delegation over [0, 1h) will not be renewed, with the facts it has come from.
fn retired() -> (SiteAuthority, Vec<Entry>) {
    let facts = hand(&mut site(true), at(0), Input::Start).facts;
    (resumed(false, &facts), facts)
}

/// All ticks of an actor until an instant, each at its time.
fn tick_until<A: Actor>(actor: &mut A, until: Time) -> Vec<Entry>
where
    Fact: From<A::Fact>,
{
    let mut facts = Vec::new();
    while let Some(due) = actor.next_timeout().filter(|due| *due <= until) {
        facts.extend(hand(actor, due, Input::Tick).facts);
    }
    facts
}

#[test]
fn a_delegation_that_is_not_renewed_ends_at_its_site_and_leaves_nothing() {
    let (mut site, _) = retired();
    let held = site.delegations().next().unwrap().clone();
    let sold = cut(&held, BROKER, GUEST, 2, term(0, HOUR), 1);
    hand(&mut site, at(1), Input::Message(letter(GUEST, SITE, redeem(&sold))));
    assert_eq!(site.claims().accounts().count(), 1);
    let end = at(HOUR).plus(MARGIN);
    let before = tick_until(&mut site, end.minus(micro()));
    assert!(!kinds(&before).contains(&"site.delegation-ended"));
    assert_eq!(site.delegations().count(), 1);
    let facts = tick_until(&mut site, end);
    assert_eq!(kinds(&facts), ["site.lease-forgotten", "site.delegation-ended"]);
    assert_eq!((site.delegations().count(), site.claims().accounts().count()), (0, 0));
    assert_eq!(site.claims().entered(sold.hash()), None);
    assert!(!site.effects_after(0).iter().any(|(_, pending)| matches!(pending, Effect::Send(_))));
    assert_eq!(site.next_timeout(), None);
}

#[test]
fn the_units_of_an_ended_delegation_are_delegated_again_under_a_new_number() {
    let (mut site, mut facts) = retired();
    facts.extend(tick_until(&mut site, at(2 * HOUR)));
    let mut site = resumed(true, &facts);
    let out = hand(&mut site, at(2 * HOUR), Input::Start);
    assert_eq!((out.problems.len(), site.delegations().count()), (0, 1));
    let link = site.delegations().next().unwrap().bottom().clone();
    assert_eq!(link.delegation.map(|g| (g.delegation, g.generation)), Some((2, 0)));
    assert_eq!(link.units, units(4));
}

#[test]
fn a_delegation_that_is_renewed_lives_on_at_its_site() {
    let mut site = site(true);
    hand(&mut site, at(0), Input::Start);
    let facts = tick_until(&mut site, at(5 * HOUR));
    assert!(!kinds(&facts).contains(&"site.delegation-ended"));
    assert_eq!(site.delegations().count(), 1);
}

#[test]
fn a_delegation_that_came_back_whole_has_nothing_to_renew() {
    let mut site = site(true);
    let mut facts = hand(&mut site, at(0), Input::Start).facts;
    let ticket = site.delegations().next().unwrap().clone();
    let part = Part::Rights { units: units(4), from: at(0) };
    let message = Message::Return { ticket, number: 0, part };
    facts.extend(hand(&mut site, at(1), Input::Message(letter(BROKER, SITE, message))).facts);
    facts.extend(tick_until(&mut site, at(HOUR - 1)));
    assert_eq!(kinds(&facts).last(), Some(&"site.rights-returned"));
    // What an actor is follows from its facts.
    assert!(site.snapshot() == resumed(true, &facts).snapshot());
}

#[test]
fn a_generation_that_its_site_has_not_seen_comes_back() {
    let mut site = site(true);
    hand(&mut site, at(0), Input::Start);
    let root = site.delegations().next().unwrap().clone();
    let lot = |generation: u32, end| {
        let mut link = part(&root, FAR_BROKER, 2, term(0, end), u64::from(generation));
        link.delegation = Some(Generation { delegation: 1, generation });
        root.with(SignedLink::sign(link, &signer(BROKER)))
    };
    let sold = cut(&lot(0, 600), FAR_BROKER, GUEST, 1, term(0, 600), 7);
    hand(&mut site, at(1), Input::Message(letter(GUEST, SITE, redeem(&sold))));
    let part = Part::Rights { units: units(2), from: at(700) };
    let message = Message::Return { ticket: lot(1, 1800), number: 0, part };
    let out = hand(&mut site, at(700), Input::Message(letter(FAR_BROKER, SITE, message)));
    assert_eq!(kinds(&out.facts), ["site.rights-returned"], "{:?}", out.replies);
}

/// A broker that has these generations of one delegation of 4 units, taken at 0.
fn broker(ends: &[i64]) -> Broker {
    let mut broker = Broker::new(setup(BROKER));
    for (generation, &end) in (0..).zip(ends) {
        take(&mut broker, at(0), &held(generation, end));
    }
    broker
}

fn held(generation: u32, end: i64) -> Ticket {
    delegation(SITE, BROKER, 4, term(0, end), (1, generation))
}

fn take(broker: &mut Broker, now: Time, ticket: &Ticket) -> Output {
    let message = Message::Delegate { ticket: ticket.clone(), attributes: Attributes::new() };
    hand(broker, now, Input::Message(letter(SITE, BROKER, message)))
}

/// Puts a request to a broker and lets its mapper decide.
fn ask(broker: &mut Broker, now: Time, asked: &Request) -> State {
    hand(broker, now, Input::Message(letter(GUEST, BROKER, Message::Request(asked.clone()))));
    while let Some(view) = broker.view(now) {
        let decision = Fcfs::default().decide(&view);
        hand(broker, now, Input::Decision(decision));
    }
    broker.request(asked.id).unwrap().clone()
}

fn granted(state: &State) -> Option<Ticket> {
    let State::Granted { tickets, .. } = state else { return None };
    Some(tickets[0].1.clone())
}

/// When a broker lets go of a delegation: nothing that it sells begins before its end by then.
fn ended(end: i64) -> Time {
    at(end).plus(LEDGER_RETENTION).plus(MARGIN)
}

#[test]
fn a_delegation_that_is_not_renewed_ends_at_its_broker_and_leaves_nothing() {
    let mut broker = broker(&[2 * HOUR]);
    ask(&mut broker, at(0), &request(GUEST, 1, 2, 0, HOUR));
    tick_until(&mut broker, ended(2 * HOUR).minus(micro()));
    assert_eq!(broker.holdings().count(), 1);
    let facts = tick_until(&mut broker, ended(2 * HOUR));
    assert_eq!(kinds(&facts), ["broker.delegation-ended"]);
    assert_eq!((broker.holdings().count(), broker.ledger().accounts().count()), (0, 0));
    assert_eq!(broker.next_timeout(), None);
    let none = ask(&mut broker, ended(2 * HOUR), &request(GUEST, 2, 1, 30 * HOUR, HOUR));
    let State::Refused { refusal: Refusal::NoSuchType { known, .. }, .. } = none else { panic!() };
    assert_eq!(known, []);
}

#[test]
fn a_delegation_that_is_renewed_lives_on_at_its_broker() {
    let mut broker = broker(&[HOUR, 9 * HOUR]);
    assert_eq!(kinds(&tick_until(&mut broker, ended(9 * HOUR).minus(micro()))), [""; 0]);
    assert_eq!(kinds(&tick_until(&mut broker, ended(9 * HOUR))), ["broker.delegation-ended"]);
}

#[test]
fn what_another_delegation_adds_to_the_total_stays() {
    let mut broker = broker(&[HOUR]);
    let other = delegation(SITE, BROKER, 3, term(0, 100 * HOUR), (2, 0));
    take(&mut broker, at(0), &other);
    ask(&mut broker, at(0), &request(GUEST, 1, 5, 0, HOUR));
    tick_until(&mut broker, ended(HOUR));
    let now = ended(HOUR);
    let view_total = |broker: &mut Broker| {
        let asked = Message::Request(request(GUEST, 9, 1, 50 * HOUR, HOUR));
        hand(broker, now, Input::Message(letter(GUEST, BROKER, asked)));
        broker.view(now).unwrap().total(&node()).unwrap().clone()
    };
    let total = view_total(&mut broker);
    assert_eq!((total.free_at(now), total.free_at(at(100 * HOUR))), (3, 0));
    assert_eq!(broker.holdings().next().unwrap().free.unwrap().free_at(now), 3);
}

#[test]
fn a_renewal_that_comes_after_the_end_does_not_cover_again_what_was_cut_before() {
    let mut broker = broker(&[HOUR]);
    assert!(granted(&ask(&mut broker, at(0), &request(GUEST, 1, 4, 0, HOUR))).is_some());
    let now = at(HOUR).plus(LEDGER_RETENTION);
    tick_until(&mut broker, now);
    take(&mut broker, now, &held(1, 100 * HOUR));
    let back = |number, start| request(GUEST, number, 1, start, 60 * HOUR);
    assert_eq!(granted(&ask(&mut broker, now, &back(2, HOUR - 1))), None);
    assert!(granted(&ask(&mut broker, now, &back(3, HOUR))).is_some());
}

#[test]
fn a_delegation_that_is_over_is_not_taken() {
    let mut broker = broker(&[]);
    let out = take(&mut broker, at(HOUR), &held(0, HOUR));
    assert_eq!(kinds(&out.facts), [""; 0]);
    let Message::Refused { refusal, .. } = &out.replies[0].message else { panic!() };
    assert_eq!(*refusal, Refusal::TooLate(at(HOUR)));
}

/// The ledger keeps one day of the past; a request for a long term is remembered for longer.
#[test]
fn a_credit_is_answered_as_long_as_the_request_is_remembered() {
    let mut broker = broker(&[100 * HOUR]);
    let asked = request(GUEST, 1, 2, 0, 80 * HOUR);
    let ticket = granted(&ask(&mut broker, at(0), &asked)).unwrap();
    let now = ended(100 * HOUR);
    tick_until(&mut broker, now);
    assert!(broker.request(asked.id).is_some() && broker.holdings().count() == 0);
    let receipts = vec![receipt(SITE, ticket.bottom(), at(HOUR))];
    let credit = letter(GUEST, BROKER, Message::Credit { receipts });
    let out = hand(&mut broker, now, Input::Message(credit));
    assert_eq!((kinds(&out.facts), out.problems), (vec!["broker.receipt-taken"], vec![]));
    assert!(matches!(out.replies[0].message, Message::Credited { .. }));
    assert_eq!(broker.ledger().accounts().count(), 0);
}
