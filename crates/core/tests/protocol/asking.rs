//! Asking: plans, holds, counter-offers, alternatives, offsets, waiting and withdrawal.

use tenure_core::broker::machine::State as AtBroker;
use tenure_core::mapper::fcfs::Fcfs;
use tenure_core::mapper::queue::Queue;
use tenure_core::model::slice::{LeaseId, RequestId};
use tenure_core::model::time::Span;
use tenure_core::service_manager::Command;
use tenure_core::service_manager::mapper::Ask;
use tenure_core::wire::message::Message;
use tenure_core::wire::offer::{Offer, Reply};
use tenure_core::wire::refusal::Refusal;
use tenure_core::wire::request::Item;

use crate::common::world::{Scene, World};
use crate::common::{BROKER, GUEST, HOUR, RIVAL, ask_for, at, id, item, letter, request_of, units};

const HOLD: Span = Span::MINUTE;

/// Four units, and each input compared with a recovery.
fn market() -> World {
    Scene { suspicious: true, ..Scene::default() }.open()
}

/// A market whose broker lets requests wait.
fn with_queue() -> World {
    let scene = Scene { suspicious: true, ..Scene::default() };
    Scene { broker_mapper: || Box::new(Fcfs::default().with_queue(Queue::Wait)), ..scene }.open()
}

fn plan_for(n: u32, start: i64, secs: i64) -> Ask {
    Ask { reply: Reply::Plan, ..ask_for(n, start, secs) }
}

fn hold_of(n: u32, start: i64, secs: i64) -> Ask {
    Ask { reply: Reply::Hold(HOLD), ..ask_for(n, start, secs) }
}

/// The offers of a guest's request, in the order in which they were made.
fn offers(world: &World, who: u8, lease: LeaseId) -> Vec<Offer> {
    world.guest(who).request(lease.number).unwrap().offers().to_vec()
}

/// Each offer as its units, its start and its length in seconds.
fn outlines(world: &World, who: u8, lease: LeaseId) -> Vec<(u32, i64, i64)> {
    let outline = |offer: &Offer| {
        let (start, end) = (offer.start().unwrap(), offer.end().unwrap());
        let secs = |span: Span| span.as_micros() / 1_000_000;
        (offer.units(), secs(start.since(at(0))), secs(end.since(start)))
    };
    offers(world, who, lease).iter().map(outline).collect()
}

fn refusal(world: &World) -> Refusal {
    let refused = world.sent("refused").last().cloned().unwrap();
    let Message::Refused { refusal, .. } = refused.peek().unwrap().message else { panic!() };
    refusal
}

fn accept(world: &mut World, who: u8, lease: LeaseId, offer: u8) {
    world.command(who, Command::Accept { number: lease.number, offer });
}

fn at_broker(world: &World, who: u8, lease: LeaseId) -> &'static str {
    let request = RequestId { origin: id(who), number: lease.number };
    world.broker().request(request).unwrap().word()
}

#[test]
fn a_plan_books_nothing_and_an_offer_of_it_can_be_asked_for() {
    let mut world = market();
    let plan = world.ask(GUEST, plan_for(3, 0, HOUR));
    assert_eq!(world.state(GUEST, plan), "Planned");
    assert_eq!(outlines(&world, GUEST, plan), [(3, 0, HOUR)]);
    assert_eq!(world.free_at(0), 4, "nothing is booked");
    accept(&mut world, GUEST, plan, 1);
    let lease = LeaseId { number: plan.number + 1, part: 0 };
    assert_eq!(world.state(GUEST, lease), "Active");
    assert_eq!(world.free_at(0), 1);
}

#[test]
fn what_cannot_be_met_is_refused_with_three_counter_offers_and_the_bookings_in_the_way() {
    let mut world = market();
    world.ask(RIVAL, ask_for(3, HOUR, HOUR));
    let lease = world.ask(GUEST, ask_for(2, 0, 2 * HOUR));
    let near = [(2, 2 * HOUR, 2 * HOUR), (1, 0, 2 * HOUR), (2, 0, HOUR)];
    assert_eq!(outlines(&world, GUEST, lease), near, "later, fewer units, shorter");
    let Refusal::Busy { in_the_way, .. } = refusal(&world) else { panic!() };
    let booked: Vec<_> = in_the_way.iter().map(|b| (b.holder, b.units, b.term.start())).collect();
    assert_eq!(booked, [(id(RIVAL), 3, at(HOUR))]);
    accept(&mut world, GUEST, lease, 3);
    let taken = LeaseId { number: lease.number + 1, part: 0 };
    assert_eq!(world.state(GUEST, taken), "Active");
}

#[test]
fn a_hold_books_its_offers_until_one_is_accepted() {
    let mut world = market();
    world.ask(RIVAL, ask_for(3, HOUR, HOUR));
    let lease = world.ask(GUEST, hold_of(2, 0, 2 * HOUR));
    assert_eq!((world.state(GUEST, lease), at_broker(&world, GUEST, lease)), ("Offered", "Held"));
    let near = [(2, 2 * HOUR, 2 * HOUR), (1, 0, 2 * HOUR), (2, 0, HOUR)];
    assert_eq!(outlines(&world, GUEST, lease), near);
    assert_eq!((world.free_at(0), world.free_at(3 * HOUR)), (1, 2));
    accept(&mut world, GUEST, lease, 2);
    assert_eq!(world.state(GUEST, lease), "Active");
    assert_eq!((world.free_at(0), world.free_at(3 * HOUR)), (3, 4), "the others are free again");
    assert_eq!(at_broker(&world, GUEST, lease), "Granted");
}

#[test]
fn what_is_held_is_not_given_to_another() {
    let mut world = market();
    let first = world.ask(GUEST, hold_of(3, 0, HOUR));
    let second = world.ask(RIVAL, hold_of(3, 0, HOUR));
    assert_eq!(outlines(&world, GUEST, first), [(3, 0, HOUR)]);
    assert_eq!(outlines(&world, RIVAL, second), [(3, HOUR, HOUR), (1, 0, HOUR)]);
    accept(&mut world, RIVAL, second, 2);
    accept(&mut world, GUEST, first, 1);
    let states = (world.state(GUEST, first), world.state(RIVAL, second));
    assert_eq!((states, world.free_at(0)), (("Active", "Active"), 0));
}

#[test]
fn a_hold_lapses_by_itself_on_both_sides() {
    let mut world = market();
    let lease = world.ask(GUEST, hold_of(3, 0, HOUR));
    world.advance(59);
    assert_eq!((world.free_at(0), at_broker(&world, GUEST, lease)), (1, "Held"));
    world.advance(60);
    assert_eq!((world.free_at(0), at_broker(&world, GUEST, lease)), (4, "Refused"));
    world.advance(70);
    assert_eq!(world.state(GUEST, lease), "Closed");
    world.advance(2 * HOUR + 20);
    assert_eq!(world.state(GUEST, lease), "forgotten");
}

#[test]
fn an_acceptance_after_the_hold_has_lapsed_is_refused() {
    let mut world = market();
    let lease = world.ask(GUEST, hold_of(3, 0, HOUR));
    world.cut_off.insert(BROKER);
    world.advance(59);
    accept(&mut world, GUEST, lease, 1);
    assert_eq!(world.state(GUEST, lease), "Accepting");
    world.cut_off.clear();
    world.advance(61);
    world.repeat();
    assert_eq!((world.state(GUEST, lease), refusal(&world)), ("Closed", Refusal::Lapsed(at(60))));
    assert_eq!(world.free_at(100), 4);
}

#[test]
fn an_acceptance_that_is_lost_is_repeated_and_answered_with_the_same_bytes() {
    let mut world = market();
    let lease = world.ask(GUEST, hold_of(3, 0, HOUR));
    world.keep.insert("granted");
    accept(&mut world, GUEST, lease, 1);
    world.repeat();
    world.repeat();
    assert!(world.kept.len() >= 2);
    assert!(world.kept.iter().all(|granted| granted.bytes() == world.kept[0].bytes()));
    world.keep.clear();
    world.release();
    assert_eq!((world.state(GUEST, lease), world.free_at(0)), ("Active", 1));
}

#[test]
fn a_hold_survives_a_crash_of_either_side() {
    for crashed in [BROKER, GUEST] {
        let mut world = market();
        let lease = world.ask(GUEST, hold_of(3, 0, HOUR));
        world.restart(crashed);
        assert_eq!((world.free_at(0), world.state(GUEST, lease)), (1, "Offered"));
        accept(&mut world, GUEST, lease, 1);
        assert_eq!(world.state(GUEST, lease), "Active");
    }
}

#[test]
fn a_withdrawn_request_gives_up_what_is_held_and_is_answered() {
    let mut world = market();
    let lease = world.ask(GUEST, hold_of(3, 0, HOUR));
    world.command(GUEST, Command::Withdraw { number: lease.number });
    assert_eq!((world.state(GUEST, lease), refusal(&world)), ("Closed", Refusal::Withdrawn));
    assert_eq!((world.free_at(0), at_broker(&world, GUEST, lease)), (4, "Refused"));
}

#[test]
fn a_withdrawal_that_arrives_before_its_request_refuses_it() {
    let mut world = market();
    world.cut_off.insert(BROKER);
    let lease = world.ask(GUEST, ask_for(2, 0, HOUR));
    world.command(GUEST, Command::Withdraw { number: lease.number });
    assert_eq!(world.state(GUEST, lease), "GivenUp");
    world.cut_off.clear();
    world.repeat();
    assert_eq!((world.state(GUEST, lease), world.free_at(0)), ("Closed", 4));
    let late =
        request_of(RequestId { origin: id(GUEST), number: lease.number }, ask_for(2, 0, HOUR));
    let letter = letter(GUEST, BROKER, Message::Request(late));
    world.hand_over(&letter);
    world.run();
    assert_eq!((refusal(&world), world.free_at(0)), (Refusal::Withdrawn, 4));
}

#[test]
fn of_alternatives_the_first_that_can_be_met_is_granted() {
    let mut world = market();
    world.ask(RIVAL, ask_for(2, 0, HOUR));
    let alternative = |choice, n| Item { choice, ..item(n) };
    let items = vec![alternative(0, 4), alternative(1, 2), alternative(2, 1)];
    let lease = world.ask(GUEST, Ask { items: items.clone(), ..ask_for(1, 0, HOUR) });
    assert_eq!((world.state(GUEST, lease), world.free_at(0)), ("Active", 0));
    let plan = Ask { items, reply: Reply::Plan, ..ask_for(1, 2 * HOUR, HOUR) };
    let plan = world.ask(GUEST, plan);
    let all = [(4, 2 * HOUR, HOUR), (2, 2 * HOUR, HOUR), (1, 2 * HOUR, HOUR)];
    assert_eq!(outlines(&world, GUEST, plan), all, "a plan shows each of them");
}

#[test]
fn a_second_stage_begins_its_offset_later() {
    let mut world = market();
    world.ask(RIVAL, ask_for(3, HOUR, HOUR));
    let second = Item { offset: Span::HOUR, ..item(2) };
    let items = vec![item(4), second];
    let latest = at(2 * HOUR);
    let ask = Ask { items, latest, ..ask_for(1, 0, HOUR) };
    world.ask(GUEST, ask);
    // The first stage could begin at once; the second finds room from the third hour on.
    let free: Vec<_> = [0, 1, 2, 3].map(|hour| world.free_at(hour * HOUR)).into();
    assert_eq!(free, [4, 1, 0, 2]);
}

#[test]
fn an_optional_item_is_left_out_where_there_is_no_room() {
    let mut world = market();
    let optional = Item { optional: true, ..item(3) };
    let items = vec![item(3), optional];
    world.ask(GUEST, Ask { items: items.clone(), ..ask_for(1, 0, HOUR) });
    assert_eq!(world.free_at(0), 1);
    let late = Ask { items: vec![item(1), items[1].clone()], ..ask_for(1, HOUR, HOUR) };
    world.ask(GUEST, late);
    assert_eq!(world.free_at(HOUR), 0, "and taken where there is");
}

#[test]
fn items_together_come_from_one_site() {
    let scene = Scene { stock: 2, far_stock: 3, suspicious: true, ..Scene::default() };
    let mut world = scene.open();
    let bundled = Item { together: Some(0), ..item(1) };
    let items = vec![Item { units: units(2), min_units: units(2), ..bundled.clone() }, bundled];
    let plan = world.ask(GUEST, Ask { items, reply: Reply::Plan, ..ask_for(1, 0, HOUR) });
    let offers = offers(&world, GUEST, plan);
    let sites: Vec<_> = offers[0].parts.iter().map(|part| part.site).collect();
    assert_eq!(sites, [id(crate::common::FAR_SITE); 2]);
    assert_eq!(offers[0].parts.iter().map(|part| part.item).collect::<Vec<_>>(), [0, 1]);
}

#[test]
fn the_longest_term_that_can_be_had_is_granted() {
    let mut world = market();
    world.ask(RIVAL, ask_for(3, HOUR, HOUR));
    let range = |n| Ask { min_duration: Span::MINUTE, ..ask_for(n, 0, 2 * HOUR) };
    let one = world.ask(GUEST, range(1));
    let two = world.ask(GUEST, range(2));
    let lasts = |lease| {
        let survey = world.guest(GUEST).survey_of(lease).unwrap();
        survey.term.duration().as_micros() / 1_000_000
    };
    assert_eq!((lasts(one), lasts(two)), (2 * HOUR, HOUR));
}

#[test]
fn a_request_that_waits_knows_its_place_and_is_served_by_a_return() {
    let mut world = with_queue();
    let whole = world.ask(RIVAL, ask_for(4, 0, 4 * HOUR));
    let until = |n| Ask { latest: at(2 * HOUR), answer_by: at(2 * HOUR), ..ask_for(n, 0, HOUR) };
    let first = world.ask(GUEST, until(2));
    let second = world.ask(GUEST, until(3));
    let place = |world: &World, lease| {
        let survey = world.guest(GUEST).survey_of(lease);
        survey.and_then(|survey| Some((survey.waiting?.place, survey.waiting?.expected)))
    };
    let expected = Some(at(4 * HOUR));
    assert_eq!(place(&world, first), Some((1, expected)));
    assert_eq!(place(&world, second), Some((2, expected)));
    let before = world.count(BROKER, "broker.request-queued");
    world.repeat();
    assert_eq!(world.count(BROKER, "broker.request-queued"), before, "nothing has changed");
    world.advance(60);
    world.command(RIVAL, Command::Close { lease: whole });
    assert_eq!(world.state(GUEST, first), "Active");
    assert_eq!(world.state(GUEST, second), "Redeeming", "it begins once the first has ended");
}

#[test]
fn a_request_that_has_waited_in_vain_is_refused_as_too_late() {
    let mut world = with_queue();
    world.ask(RIVAL, ask_for(4, 0, 4 * HOUR));
    let ask = Ask { latest: at(HOUR), answer_by: at(HOUR), ..ask_for(2, 0, HOUR) };
    let lease = world.ask(GUEST, ask);
    assert!(matches!(
        world.broker().request(RequestId { origin: id(GUEST), number: lease.number }),
        Some(AtBroker::Open { waiting: Some(_), .. })
    ));
    world.advance(HOUR);
    assert_eq!(
        (world.state(GUEST, lease), refusal(&world)),
        ("Closed", Refusal::TooLate(at(HOUR)))
    );
}

#[test]
fn what_makes_no_sense_is_not_asked_for() {
    let mut world = market();
    let broken = [
        Ask { items: vec![Item { optional: true, ..item(1) }], ..ask_for(1, 0, HOUR) },
        Ask { min_duration: Span::DAY, ..ask_for(1, 0, HOUR) },
        Ask { reply: Reply::Hold(Span::ZERO), ..ask_for(1, 0, HOUR) },
        Ask { items: vec![item(1); 65], ..ask_for(1, 0, HOUR) },
    ];
    for ask in broken {
        let before = world.problems.len();
        let facts = world.count(GUEST, "service-manager.asked");
        world.command(GUEST, Command::Ask(ask));
        assert_eq!(world.count(GUEST, "service-manager.asked"), facts);
        assert_eq!(world.problems.len(), before + 1);
    }
}
