//! What a broker sells of what others have lent it while these are silent.

use tenure_core::broker::Command;
use tenure_core::broker::forwarding::Liveness;
use tenure_core::broker::machine::State;
use tenure_core::broker::mapper::{self as broker, Allocation, Choice, Verdict};
use tenure_core::broker::sharing::Sharing;
use tenure_core::mapper::fcfs::Fcfs;
use tenure_core::mapper::queue::Queue;
use tenure_core::model::slice::{LeaseId, RequestId};
use tenure_core::model::time::Span;
use tenure_core::runtime::{AnyActor, Decision, Input};
use tenure_core::service_manager::mapper::Ask;
use tenure_core::ticket::link::{AccountId, DelegationId};
use tenure_core::wire::message::Message;
use tenure_core::wire::refusal::Refusal;

use crate::common::world::{Scene, World};
use crate::common::{BROKER, FAR_BROKER, GUEST, HOUR, RIVAL, ask_for, id, letter, request, term};

/// A broker with four units of its own and three that another one has lent it, and which advertises every 5 s.
fn lent(scene: Scene) -> World {
    let adverts = Some(Span::from_secs(5));
    let mut world = Scene { far_stock: 3, far_broker: true, adverts, ..scene }.open();
    let sharing = Sharing { term: Span::DAY, ..Sharing::default() };
    world.command(FAR_BROKER, Command::Share { with: id(BROKER), sharing });
    world.advance(6);
    assert_eq!(world.broker().holdings().count(), 2);
    world
}

fn paused() -> Scene {
    Scene { pauses: true, ..Scene::default() }
}

/// The lender is cut off, and has been silent for a while.
fn cut_off(world: &mut World) {
    world.cut_off.insert(FAR_BROKER);
    world.advance(60);
}

fn lender(world: &World) -> (Liveness, bool) {
    let AnyActor::Broker(broker) = world.actor(BROKER) else { panic!("no broker") };
    let [lender] = broker.lenders(world.clock(BROKER))[..] else { panic!("not one") };
    assert_eq!(lender.lender, id(FAR_BROKER));
    (lender.liveness, lender.paused)
}

/// Asks for units now, and what its request has become.
fn ask(world: &mut World, count: u32) -> (LeaseId, State) {
    let now = world.clock(GUEST).as_micros() / 1_000_000;
    let broker = Some(id(BROKER));
    let lease = world.ask(GUEST, Ask { broker, ..ask_for(count, now, HOUR) });
    let request = RequestId { origin: id(GUEST), number: lease.number };
    (lease, world.broker().request(request).unwrap().clone())
}

fn is_busy(state: &State) -> bool {
    matches!(state, State::Refused { refusal: Refusal::Busy { .. }, .. })
}

#[test]
fn what_was_lent_is_sold_while_the_lender_is_heard_and_after_that_unless_it_pauses() {
    for (scene, pauses) in [(Scene::default(), false), (paused(), true)] {
        let mut world = lent(scene);
        assert_eq!(lender(&world), (Liveness::Live, false));
        cut_off(&mut world);
        assert_eq!(lender(&world), (Liveness::Silent, pauses));
        // Four units are its own.
        let (_, silent) = ask(&mut world, 5);
        assert_eq!(is_busy(&silent), pauses, "{silent:?}");
    }
}

#[test]
fn its_own_units_are_sold_during_a_pause_and_the_others_as_soon_as_the_lender_is_back() {
    let mut world = lent(paused());
    cut_off(&mut world);
    let (_, own) = ask(&mut world, 4);
    assert!(matches!(own, State::Granted { .. }), "{own:?}");
    assert!(is_busy(&ask(&mut world, 1).1), "not never");
    world.cut_off.clear();
    world.advance(66);
    assert_eq!(lender(&world), (Liveness::Live, false));
    let (_, back) = ask(&mut world, 3);
    assert!(matches!(back, State::Granted { .. }), "{back:?}");
}

#[test]
fn a_request_that_waits_is_met_once_the_lender_is_back() {
    let queue: fn() -> Box<dyn broker::BrokerMapper> =
        || Box::new(Fcfs::default().with_queue(Queue::Wait));
    let mut world = lent(Scene { broker_mapper: queue, ..paused() });
    cut_off(&mut world);
    let mut asked = request(GUEST, 9, 5, 60, HOUR);
    asked.latest = asked.latest.plus(Span::HOUR);
    asked.answer_by = asked.answer_by.plus(Span::HOUR);
    let id = asked.id;
    world.deliver(BROKER, &letter(GUEST, BROKER, Message::Request(asked)));
    world.run();
    let state = |world: &World| world.broker().request(id).unwrap().clone();
    assert!(matches!(state(&world), State::Open { .. }), "{:?}", state(&world));
    world.cut_off.clear();
    world.advance(66);
    assert!(matches!(state(&world), State::Granted { .. }), "{:?}", state(&world));
}

#[test]
fn after_its_start_it_sells_what_was_lent_once_it_has_heard_of_the_lender() {
    let mut world = lent(paused());
    world.cut_off.insert(FAR_BROKER);
    world.restart(BROKER);
    assert_eq!(lender(&world), (Liveness::Unknown, true));
    assert!(is_busy(&ask(&mut world, 5).1));
    world.cut_off.clear();
    world.advance(12);
    assert_eq!(lender(&world), (Liveness::Live, false));
    let (_, heard) = ask(&mut world, 5);
    assert!(matches!(heard, State::Granted { .. }), "{heard:?}");
}

#[test]
fn no_mapper_sells_during_a_pause() {
    let mut world = lent(paused());
    cut_off(&mut world);
    world.undecided.insert(BROKER);
    let asked = request(RIVAL, 1, 1, 600, HOUR);
    let id_of = asked.id;
    world.deliver(BROKER, &letter(RIVAL, BROKER, Message::Request(asked)));
    let borrowed = AccountId::Delegation(DelegationId { issuer: id(FAR_BROKER), number: 1 });
    let parts = vec![vec![(borrowed, 1)]];
    let verdict = Verdict::Grant(Allocation { term: term(600, 600 + HOUR), parts });
    let choice = Choice { request: id_of, verdict, reason: "a test".to_owned() };
    let round = world.broker().view(world.now).unwrap().round();
    let decision = broker::Decision { round, choices: vec![choice], ..Default::default() };
    let out = world.hand(BROKER, Input::Decision(Decision::Broker(decision)));
    let problems = format!("{:?}", out.problems);
    assert!(problems.contains("does not cover 1 units"), "{problems}");
}
