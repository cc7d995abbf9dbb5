//! Mappers: nonsense costs the choice, never the actor.

use tenure_core::actor::Actor as _;
use tenure_core::actor::effect::Problem;
use tenure_core::actor::fact::Memo;
use tenure_core::broker::machine::State;
use tenure_core::broker::mapper::{self as broker, Allocation, Choice, Verdict};
use tenure_core::driver::UnitId;
use tenure_core::runtime::{Decision, Input, Output};

use tenure_core::model::slice::{LeaseId, RequestId};
use tenure_core::model::time::{Span, Term};
use tenure_core::service_manager::mapper as service_manager;
use tenure_core::site_authority::mapper::{self as site_authority, Assignment};
use tenure_core::ticket::Ticket;
use tenure_core::ticket::link::{AccountId, DelegationId, LinkHash};
use tenure_core::wire::message::Message;
use tenure_core::wire::refusal::Refusal;
use tenure_core::wire::request::MAX_ITEMS;

use crate::common::world::{Scene, World};
use crate::common::{
    BROKER, FAR_OFF, FAR_SITE, GUEST, HOUR, RIVAL, SITE, ask_for, at, equals, id, letter, micro,
    request, term, units,
};

/// Two requests at a broker whose mapper is the test: 2 units over [600s, 600s + 1h), and 1 or 2.
fn at_broker() -> World {
    let mut world = Scene::default().open();
    world.undecided.insert(BROKER);
    for who in [GUEST, RIVAL] {
        let mut asked = request(who, 1, 2, 600, HOUR);
        if who == RIVAL {
            asked.items[0].min_units = units(1);
        }
        world.deliver(BROKER, &letter(who, BROKER, Message::Request(asked)));
    }
    world
}

fn asked_by(who: u8) -> RequestId {
    RequestId { origin: id(who), number: 1 }
}

fn account() -> AccountId {
    AccountId::Delegation(DelegationId { issuer: id(SITE), number: 1 })
}

fn good_term() -> Term {
    term(600, 600 + HOUR)
}

fn grant(who: u8, term: Term, parts: Vec<Vec<(AccountId, u32)>>) -> Choice {
    let verdict = Verdict::Grant(Allocation { term, parts });
    Choice { request: asked_by(who), verdict, reason: "a test".to_owned() }
}

fn decide(world: &mut World, round: u64, choices: Vec<Choice>) -> Output {
    let decision = broker::Decision { round, choices, ..broker::Decision::default() };
    world.hand(BROKER, Input::Decision(Decision::Broker(decision)))
}

fn round(world: &World) -> u64 {
    world.broker().view(world.now).unwrap().round()
}

fn kinds(out: &Output) -> Vec<&'static str> {
    out.facts.iter().map(|entry| entry.fact.kind().0).collect()
}

/// A choice that must be refused: the round has ended, the request stays open, and is served later.
fn refused_choice(choice: Choice) {
    let mut world = at_broker();
    let (open, ledger) = (round(&world), world.broker().ledger().clone());
    let out = decide(&mut world, open, vec![choice.clone()]);
    assert!(matches!(out.problems[..], [Problem::BadChoice(_)]), "{choice:?}");
    assert_eq!((kinds(&out)).last(), Some(&"broker.mapper-answered"));
    assert_eq!(out.facts.len(), 1, "{choice:?}");
    assert_eq!(*world.broker().ledger(), ledger);
    assert!(matches!(world.broker().request(asked_by(GUEST)), Some(State::Open { .. })));
    world.undecided.clear();
    world.deliver(BROKER, &letter(GUEST, BROKER, Message::Request(request(GUEST, 2, 1, 600, 60))));
    world.run();
    assert!(matches!(world.broker().request(asked_by(GUEST)), Some(State::Granted { .. })));
}

#[test]
fn a_grant_from_an_unknown_source_is_refused() {
    let unknown = [
        AccountId::Delegation(DelegationId { issuer: id(SITE), number: 2 }),
        AccountId::Delegation(DelegationId { issuer: id(FAR_SITE), number: 1 }),
        AccountId::Link(Scene::default().open().delegation().hash()),
    ];
    for source in unknown {
        refused_choice(grant(GUEST, good_term(), vec![vec![(source, 2)]]));
    }
}

#[test]
fn a_grant_of_too_many_or_too_few_units_is_refused() {
    for parts in [
        vec![(account(), 1)],
        vec![(account(), 3)],
        vec![(account(), 5)],
        vec![(account(), u32::MAX), (account(), u32::MAX)],
        vec![(account(), 2), (account(), 0)],
        vec![],
    ] {
        refused_choice(grant(GUEST, good_term(), vec![parts]));
    }
}

#[test]
fn a_grant_for_another_term_is_refused() {
    let start = at(600);
    for (from, to) in [
        (start.minus(micro()), at(600 + HOUR).minus(micro())),
        (start.plus(micro()), at(600 + HOUR).plus(micro())),
        (start, at(600 + HOUR).plus(micro())),
        (start, at(600 + HOUR).minus(micro())),
        (at(FAR_OFF), at(FAR_OFF + HOUR)),
    ] {
        refused_choice(grant(GUEST, Term::new(from, to).unwrap(), vec![vec![(account(), 2)]]));
    }
}

#[test]
fn a_grant_for_more_or_fewer_items_than_were_asked_for_is_refused() {
    refused_choice(grant(GUEST, good_term(), vec![]));
    refused_choice(grant(GUEST, good_term(), vec![vec![(account(), 2)], vec![(account(), 2)]]));
}

#[test]
fn a_verdict_on_an_unknown_request_is_refused() {
    let stranger = RequestId { origin: id(SITE), number: 1 };
    let granted = grant(GUEST, good_term(), vec![vec![(account(), 2)]]);
    refused_choice(Choice { request: stranger, ..granted });
    let no = Verdict::Refuse { refusal: Refusal::Forbidden, offers: Vec::new() };
    refused_choice(Choice { request: stranger, verdict: no, reason: String::new() });
}

#[test]
fn a_grant_from_a_source_that_does_not_meet_a_requirement_is_refused() {
    let mut world = at_broker();
    let mut picky = request(GUEST, 2, 2, 600, HOUR);
    picky.items[0].requirements.add(equals("cpus", 16));
    world.deliver(BROKER, &letter(GUEST, BROKER, Message::Request(picky.clone())));
    let (open, free) = (round(&world), world.free_at(600));
    let choice = grant(GUEST, good_term(), vec![vec![(account(), 2)]]);
    let out = decide(&mut world, open, vec![Choice { request: picky.id, ..choice }]);
    assert!(matches!(out.problems[..], [Problem::BadChoice(_)]));
    assert_eq!((kinds(&out), world.free_at(600)), (vec!["broker.mapper-answered"], free));
}

#[test]
fn grants_that_exceed_a_source_only_together_are_carried_out_until_it_is_used_up() {
    let mut world = at_broker();
    let mut big = request(GUEST, 2, 3, 600, HOUR);
    big.items[0].min_units = units(1);
    world.deliver(BROKER, &letter(GUEST, BROKER, Message::Request(big.clone())));
    let open = round(&world);
    let part = |n| vec![vec![(account(), n)]];
    let third = Choice { request: big.id, ..grant(GUEST, good_term(), part(1)) };
    let choices =
        vec![grant(GUEST, good_term(), part(2)), grant(RIVAL, good_term(), part(2)), third];
    let out = decide(&mut world, open, choices);
    assert!(matches!(out.problems[..], [Problem::BadChoice(_)]));
    assert_eq!(kinds(&out), ["broker.tickets-cut", "broker.tickets-cut", "broker.mapper-answered"]);
    assert_eq!((world.free_at(599), world.free_at(600)), (4, 0));
}

#[test]
fn a_request_is_answered_once_in_a_round() {
    let mut world = at_broker();
    let twice = grant(RIVAL, good_term(), vec![vec![(account(), 1)]]);
    let open = round(&world);
    let out = decide(&mut world, open, vec![twice.clone(), twice]);
    assert_eq!((out.problems.len(), world.free_at(600)), (1, 3));
}

#[test]
fn a_decision_for_a_round_that_is_not_open_is_dropped_whole() {
    let mut world = at_broker();
    let (open, position) = (round(&world), world.position(BROKER));
    for stale in [0, open - 1, open + 1, u64::MAX] {
        let choice = grant(GUEST, good_term(), vec![vec![(account(), 2)]]);
        let out = decide(&mut world, stale, vec![choice]);
        let dropped = Problem::StaleDecision { answered: stale, open: Some(open) };
        assert_eq!((out.problems, out.facts), (vec![dropped], vec![]));
    }
    assert_eq!(world.position(BROKER), position);
}

#[test]
fn a_round_is_answered_once() {
    let mut world = at_broker();
    world.undecided.clear();
    world.run();
    let out = decide(&mut world, 1, vec![]);
    assert!(matches!(out.problems[..], [Problem::StaleDecision { open: None, .. }]));
    assert_eq!(out.facts, []);
}

#[test]
fn a_decision_of_another_role_is_dropped() {
    let mut world = at_broker();
    let of_guest = Decision::ServiceManager(service_manager::Decision::default());
    let of_site = Decision::SiteAuthority(site_authority::Decision::default());
    let of_broker = Decision::Broker(broker::Decision::default());
    for (who, decision) in
        [(BROKER, &of_guest), (BROKER, &of_site), (SITE, &of_broker), (GUEST, &of_site)]
    {
        let out = world.hand(who, Input::Decision(decision.clone()));
        assert!(matches!(out.problems[..], [Problem::WrongRole { .. }]));
        assert_eq!(out.facts, []);
    }
}

#[test]
fn a_grant_that_is_as_good_as_over_is_refused() {
    let mut world = at_broker();
    world.now = at(600 + HOUR - 20);
    let open = round(&world);
    let out = decide(&mut world, open, vec![grant(GUEST, good_term(), vec![vec![(account(), 2)]])]);
    assert!(matches!(out.problems[..], [Problem::BadChoice(_)]));
}

/// A lease that lacks 2 units at a site whose mapper is the test; unit 4 is a disk, unit 0 is lent.
fn at_site() -> (World, Ticket) {
    let mut world = Scene { disks: 1, ..Scene::default() }.open();
    world.ask(RIVAL, ask_for(1, 0, HOUR));
    world.undecided.insert(SITE);
    let lease = world.ask(GUEST, ask_for(2, 0, HOUR));
    let ticket = world.ticket(GUEST, lease);
    (world, ticket)
}

fn assign(world: &mut World, round: u64, lease: LinkHash, units: &[u32]) -> Output {
    let units = units.iter().copied().map(UnitId).collect();
    let assignments = vec![Assignment { lease, units, reason: "a test".to_owned() }];
    let decision = site_authority::Decision { round, assignments, ..Default::default() };
    world.hand(SITE, Input::Decision(Decision::SiteAuthority(decision)))
}

#[test]
fn units_that_cannot_be_put_on_a_lease_are_not() {
    let cases: [(&[u32], &str); 7] = [
        (&[], "none"),
        (&[1, 2, 3], "too many"),
        (&[1, 1], "one twice"),
        (&[1, 4], "one of another type"),
        (&[1, 99], "one that does not exist"),
        (&[0, 1], "one that is lent"),
        (&[0], "one that is lent"),
    ];
    for (units, why) in cases {
        let (mut world, ticket) = at_site();
        let open = world.site().view(world.now).unwrap().round();
        let out = assign(&mut world, open, ticket.hash(), units);
        assert!(matches!(out.problems[..], [Problem::BadChoice(_)]), "{why}");
        assert_eq!(kinds(&out), ["site.mapper-answered"], "{why}");
        assert_eq!((world.at_site(ticket.hash()), world.units_in("Free")), ("Due", 4), "{why}");
    }
}

#[test]
fn units_for_a_lease_that_lacks_none_are_refused() {
    let (mut world, ticket) = at_site();
    let open = world.site().view(world.now).unwrap().round();
    let leased = world.sent("redeem").remove(0).peek().unwrap();
    let Message::Redeem { ticket: theirs, .. } = leased.message else { panic!() };
    for lease in [theirs.hash(), world.delegation().hash()] {
        let (mut world, _) = at_site();
        let out = assign(&mut world, open, lease, &[1]);
        assert!(matches!(out.problems[..], [Problem::BadChoice(_)]));
        assert_eq!(kinds(&out), ["site.mapper-answered"]);
    }
    assign(&mut world, open, ticket.hash(), &[3, 1]);
    world.run();
    assert_eq!(world.at_site(ticket.hash()), "Active");
}

#[test]
fn units_for_a_round_that_is_not_open_are_dropped() {
    let (mut world, ticket) = at_site();
    let (open, position) = (world.site().view(world.now).unwrap().round(), world.position(SITE));
    for stale in [open - 1, open + 1] {
        let out = assign(&mut world, stale, ticket.hash(), &[1, 2]);
        assert!(matches!(out.problems[..], [Problem::StaleDecision { .. }]));
    }
    assert_eq!(world.position(SITE), position);
}

#[test]
fn a_guests_mapper_that_wants_what_cannot_be_had_gets_the_rest() {
    let mut world = Scene::default().open();
    world.undecided.insert(GUEST);
    world.restart(GUEST);
    let unknown = LeaseId { number: 77, part: 0 };
    let mut huge = ask_for(1, 0, HOUR);
    huge.items = vec![huge.items[0].clone(); MAX_ITEMS + 1];
    let extend = service_manager::Extend::whole(unknown, Span::HOUR, String::new());
    let decision = service_manager::Decision {
        round: world.guest(GUEST).view(world.now).unwrap().round(),
        gates: vec![service_manager::GateChoice {
            lease: unknown,
            answer: service_manager::GateAnswer::GiveUp,
            reason: String::new(),
        }],
        asks: vec![huge, ask_for(2, 0, HOUR)],
        extensions: vec![extend],
        flexes: Vec::new(),
        shortens: Vec::new(),
        revisions: Vec::new(),
        closes: vec![unknown],
        plans: vec![service_manager::PlanChoice {
            plan: 7,
            answer: service_manager::PlanAnswer::None(Vec::new()),
        }],
        memo: None,
        wake: Some(world.now),
    };
    let out = world.hand(GUEST, Input::Decision(Decision::ServiceManager(decision)));
    assert_eq!(out.problems.len(), 5);
    assert_eq!(kinds(&out), ["service-manager.asked", "service-manager.mapper-answered"]);
    world.run();
    assert_eq!(world.state(GUEST, LeaseId { number: 1, part: 0 }), "Active");
    assert_eq!(world.actor(GUEST).next_timeout(), Some(at(HOUR - 10)), "no wake in the past");
}

#[test]
fn a_memo_is_kept_until_it_changes_and_survives_a_crash() {
    let mut world = at_broker();
    let memo = |bytes: &[u8]| Some(Memo(bytes.to_vec()));
    let answer = |world: &mut World, memo| {
        let decision = broker::Decision { round: round(world), memo, ..Default::default() };
        world.hand(BROKER, Input::Decision(Decision::Broker(decision)));
        world.restart(BROKER);
        world.broker().view(world.now).unwrap().memo().clone()
    };
    assert_eq!(answer(&mut world, memo(b"one")), Memo(b"one".to_vec()));
    assert_eq!(answer(&mut world, None), Memo(b"one".to_vec()));
    assert_eq!(answer(&mut world, memo(b"")), Memo(Vec::new()));
    assert_eq!(world.problems, []);
    assert_eq!(answer(&mut world, memo(&[1; Memo::MAX_BYTES + 1])), Memo(Vec::new()));
    assert!(matches!(world.problems[..], [Problem::BadChoice(_)]));
}
