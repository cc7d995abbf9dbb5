//! Portions of requests that other brokers ask for, under attack: no more is held than the guest has asked for, and
//! only who has asked for a portion decides on it.

use std::num::NonZeroU32;

use tenure_core::broker::Command;
use tenure_core::broker::forwarding::{Accepted, Neighbour};
use tenure_core::broker::machine::State;
use tenure_core::broker::mapper::{BrokerMapper, Decision, Verdict, View};
use tenure_core::mapper::fcfs::Fcfs;
use tenure_core::mapper::route::Routed;
use tenure_core::model::slice::RequestId;
use tenure_core::model::time::Span;
use tenure_core::runtime::{Input, Output};
use tenure_core::service_manager::Command as GuestCommand;
use tenure_core::service_manager::mapper::Ask;
use tenure_core::wire::handover::Handover;
use tenure_core::wire::message::Message;
use tenure_core::wire::portion::{Portion, PortionAsked, PortionBack, PortionOutcome};
use tenure_core::wire::refusal::Refusal;
use tenure_core::wire::request::Request;

use crate::common::world::{Scene, World};
use crate::common::{
    BROKER, FAR_BROKER, GUEST, HOUR, RIVAL, STRANGER, ask_for, id, letter, request,
};

/// The broker of the world, which takes what the other one asks for.
fn taking() -> World {
    let broker_mapper = routed;
    let scene = Scene { far_stock: 1, far_broker: true, broker_mapper, ..Scene::default() };
    let mut world = scene.open();
    let neighbour = Neighbour { forward: false, accept: Some(Accepted::default()) };
    let set = Command::SetNeighbour { with: id(FAR_BROKER), neighbour };
    world.hand(BROKER, Input::Command(set.into()));
    world
}

fn units(units: u32) -> NonZeroU32 {
    NonZeroU32::new(units).unwrap()
}

/// The other broker asks for two of the four units that the guest has asked it for.
fn asked(request: &Request) -> PortionAsked {
    let sealed = letter(GUEST, FAR_BROKER, Message::Request(request.clone()));
    let (start, until) = (request.earliest, request.answer_by.plus(Span::from_secs(10)));
    let first = id(FAR_BROKER);
    let (path, asked) = (vec![first], [first].into());
    let answer_by = request.answer_by;
    let handover = Handover { sealed, path, asked, hops: 3, asks: 15, answer_by };
    PortionAsked {
        handover,
        portion: Portion { round: 1, start, units: [(0, units(2))].into(), until },
    }
}

fn deliver(world: &mut World, from: u8, asked: &PortionAsked) -> Output {
    let message = Message::AskPortion(Box::new(asked.clone()));
    let out = world.deliver(BROKER, &letter(from, BROKER, message));
    world.run();
    out
}

fn decide(world: &mut World, from: u8, round: u8, taken: bool) -> Output {
    let decided = Message::PortionDecided { request: number(1), round, taken };
    let out = world.deliver(BROKER, &letter(from, BROKER, decided));
    world.run();
    out
}

fn number(number: u64) -> RequestId {
    RequestId { origin: id(GUEST), number }
}

fn state(world: &World) -> State {
    world.broker().request(number(1)).cloned().unwrap()
}

/// What is answered at once, to the sender.
fn outcome(out: &Output, to: u8) -> PortionOutcome {
    let [reply] = &out.replies[..] else { panic!("{out:?}") };
    assert_eq!(reply.header.to, id(to));
    let Message::PortionBack(back) = &reply.message else { panic!("{reply:?}") };
    let PortionBack { outcome, .. } = &**back;
    outcome.clone()
}

/// What is answered to a changed question, which leaves no trace at the broker.
fn refused(from: u8, change: impl FnOnce(&mut PortionAsked)) -> Refusal {
    let mut world = taking();
    let mut asked = asked(&request(GUEST, 1, 4, 0, HOUR));
    change(&mut asked);
    let (position, ledger) = (world.position(BROKER), world.broker().ledger().clone());
    let out = deliver(&mut world, from, &asked);
    assert_eq!((world.position(BROKER), &out.facts[..]), (position, &[][..]));
    assert_eq!(*world.broker().ledger(), ledger);
    let PortionOutcome::Refused(refusal) = outcome(&out, from) else { panic!("{out:?}") };
    refusal
}

/// A broker that holds two units for the other one, with what was free before.
fn holding() -> (World, PortionAsked, i64) {
    let mut world = taking();
    let free = world.free_at(0);
    let asked = asked(&request(GUEST, 1, 4, 0, HOUR));
    deliver(&mut world, FAR_BROKER, &asked);
    assert!(matches!(state(&world), State::Reserved { .. }), "{:?}", state(&world));
    assert_eq!(world.free_at(0), free - 2);
    (world, asked, free)
}

#[test]
fn what_is_held_is_granted_to_its_guest_once_it_is_taken() {
    let (mut world, asked, free) = holding();
    // A repeat gets the same answer.
    let PortionOutcome::Held { units: held, .. } =
        outcome(&deliver(&mut world, FAR_BROKER, &asked), FAR_BROKER)
    else {
        panic!()
    };
    assert_eq!(held, asked.portion.units);
    decide(&mut world, FAR_BROKER, 1, true);
    let State::Granted { tickets, .. } = state(&world) else { panic!() };
    assert!(tickets.iter().all(|(_, ticket)| ticket.bottom().holder == id(GUEST)));
    let again = decide(&mut world, FAR_BROKER, 1, true);
    assert_eq!(outcome(&again, FAR_BROKER), PortionOutcome::Granted(tickets));
    // It is too late to let it go.
    decide(&mut world, FAR_BROKER, 1, false);
    assert_eq!(world.free_at(0), free - 2);
}

#[test]
fn what_is_let_go_is_free_at_once_and_what_is_forgotten_when_its_hold_ends() {
    let (mut world, _, free) = holding();
    decide(&mut world, FAR_BROKER, 1, false);
    assert_eq!(world.free_at(0), free);
    let State::Refused { refusal: Refusal::Withdrawn, .. } = state(&world) else { panic!() };

    let (mut world, asked, free) = holding();
    world.advance_to(asked.portion.until.plus(Span::SECOND));
    assert_eq!(world.free_at(0), free);
    let out = decide(&mut world, FAR_BROKER, 1, true);
    let PortionOutcome::Refused(Refusal::Lapsed(_)) = outcome(&out, FAR_BROKER) else {
        panic!("{out:?}")
    };
    assert_eq!(world.free_at(0), free);
}

#[test]
fn only_who_has_asked_decides_and_only_on_that_round() {
    let (mut world, _, free) = holding();
    for (from, round) in [(RIVAL, 1), (STRANGER, 1), (GUEST, 1), (FAR_BROKER, 2), (FAR_BROKER, 0)] {
        for taken in [true, false] {
            let out = decide(&mut world, from, round, taken);
            assert_eq!(&out.facts[..], &[][..], "{from} {round} {taken}");
            assert!(matches!(state(&world), State::Reserved { .. }));
        }
    }
    assert_eq!(world.free_at(0), free - 2);
}

#[test]
fn nothing_is_held_for_who_may_not_ask() {
    assert_eq!(refused(RIVAL, |_| {}), Refusal::Forbidden);
    assert_eq!(refused(STRANGER, |_| {}), Refusal::Forbidden);
}

#[test]
fn a_portion_stays_within_what_the_guest_has_asked_for() {
    let malformed = |refusal| assert!(matches!(refusal, Refusal::Malformed(_)), "{refusal:?}");
    malformed(refused(FAR_BROKER, |asked| asked.portion.units = [(0, units(5))].into()));
    malformed(refused(FAR_BROKER, |asked| asked.portion.units = [(1, units(1))].into()));
    malformed(refused(FAR_BROKER, |asked| asked.portion.units.clear()));
    malformed(refused(FAR_BROKER, |asked| asked.portion.round = 0));
    malformed(refused(FAR_BROKER, |asked| asked.portion.round = 9));
    malformed(refused(FAR_BROKER, |asked| {
        asked.portion.start = asked.portion.start.plus(Span::SECOND);
    }));
    malformed(refused(FAR_BROKER, |asked| asked.handover.path.clear()));
    // A single unit is met by one broker.
    let single = asked_for_one();
    malformed(refused(FAR_BROKER, |asked| *asked = single));
}

fn asked_for_one() -> PortionAsked {
    let mut asked = asked(&request(GUEST, 1, 1, 0, HOUR));
    asked.portion.units = [(0, units(1))].into();
    asked
}

#[test]
fn a_later_round_takes_the_place_of_one_that_is_over() {
    let (mut world, mut asked, free) = holding();
    // The same round by another path is none.
    let mut by_other = asked.clone();
    by_other.portion.round = 1;
    asked.portion.round = 2;
    asked.portion.units = [(0, units(1))].into();
    deliver(&mut world, FAR_BROKER, &asked);
    let State::Reserved { gathered, .. } = state(&world) else { panic!("{:?}", state(&world)) };
    assert_eq!((gathered.round, gathered.held()), (2, asked.portion.units.clone()));
    assert_eq!(world.free_at(0), free - 1);
    // An earlier one is not taken up again.
    let out = deliver(&mut world, FAR_BROKER, &by_other);
    assert_eq!((outcome(&out, FAR_BROKER), &out.facts[..]), (PortionOutcome::Seen, &[][..]));
}

#[test]
fn less_is_held_than_was_asked_for_if_there_is_no_more() {
    let mut world = taking();
    let free = u32::try_from(world.free_at(0)).unwrap();
    let mut asked = asked(&request(GUEST, 1, free + 3, 0, HOUR));
    asked.portion.units = [(0, units(free + 2))].into();
    let out = deliver(&mut world, FAR_BROKER, &asked);
    assert_eq!(out.replies, []);
    let State::Reserved { gathered, refusal } = state(&world) else { panic!() };
    assert_eq!(gathered.held(), [(0, units(free))].into());
    assert!(matches!(refusal, Some(Refusal::TooMany { .. })), "{refusal:?}");
    assert_eq!(world.free_at(0), 0);
}

/// What of all units a request gets that is so many seconds older than another one, which holds them.
fn beside_a_hold(older_by: i64) -> (World, PortionAsked) {
    let mut world = taking();
    let free = u32::try_from(world.free_at(0)).unwrap();
    let all_of = |number: u64, older_by: i64| {
        let mut request = request(GUEST, number, free + 1, 0, HOUR);
        request.history.asked = request.history.asked.minus(Span::from_secs(older_by));
        let mut asked = asked(&request);
        asked.portion.units = [(0, units(free))].into();
        // While what the first one has is still held.
        asked.handover.answer_by = asked.portion.start.plus(Span::from_secs(20));
        asked
    };
    deliver(&mut world, FAR_BROKER, &all_of(1, 0));
    assert!(matches!(state(&world), State::Reserved { .. }));
    let second = all_of(2, older_by);
    deliver(&mut world, FAR_BROKER, &second);
    (world, second)
}

#[test]
fn a_portion_waits_for_the_hold_of_a_younger_request_and_gets_what_is_let_go() {
    let (mut world, second) = beside_a_hold(60);
    let waits = world.broker().request(number(2)).cloned();
    assert!(matches!(waits, Some(State::Open { .. })), "{waits:?}");
    decide(&mut world, FAR_BROKER, 1, false);
    let Some(State::Reserved { gathered, .. }) = world.broker().request(number(2)) else {
        panic!()
    };
    assert_eq!(gathered.held(), second.portion.units);
}

#[test]
fn it_waits_no_longer_than_others_can_still_be_asked() {
    let (mut world, second) = beside_a_hold(60);
    world.advance_to(second.handover.answer_by);
    let refused = world.broker().request(number(2)).cloned();
    let Some(State::Refused { refusal: Refusal::Busy { .. }, .. }) = refused else {
        panic!("{refused:?}")
    };
}

#[test]
fn what_an_older_request_holds_is_refused_at_once() {
    let (world, _) = beside_a_hold(-60);
    let refused = world.broker().request(number(2)).cloned();
    assert!(matches!(refused, Some(State::Refused { .. })), "{refused:?}");
}

#[test]
fn a_hold_is_no_longer_than_makes_sense_whatever_another_broker_says() {
    let mut world = taking();
    let free = world.free_at(0);
    let mut asked = asked(&request(GUEST, 1, 4, 0, HOUR));
    asked.portion.until = asked.portion.start.plus(Span::DAY.times(365));
    deliver(&mut world, FAR_BROKER, &asked);
    assert!(matches!(state(&world), State::Reserved { .. }));
    world.advance(31);
    assert!(matches!(state(&world), State::Refused { refusal: Refusal::Lapsed(_), .. }));
    assert_eq!(world.free_at(31), free);
}

/// The broker of the world has four units, the other one three. It passes requests on, as this mapper says.
fn passing(broker_mapper: fn() -> Box<dyn BrokerMapper>) -> World {
    let mut world =
        Scene { far_stock: 3, far_broker: true, broker_mapper, ..Scene::default() }.open();
    let takes = Neighbour { forward: false, accept: Some(Accepted::default()) };
    for (who, with, neighbour) in [
        (BROKER, FAR_BROKER, Neighbour { forward: true, accept: None }),
        (FAR_BROKER, BROKER, takes),
    ] {
        let set = Command::SetNeighbour { with: id(with), neighbour };
        world.hand(who, Input::Command(set.into()));
    }
    world
}

fn routed() -> Box<dyn BrokerMapper> {
    Box::new(Routed(Box::new(Fcfs::default())))
}

/// The guest asks for six units.
fn ask(world: &mut World) {
    let ask = Ask { broker: Some(id(BROKER)), ..ask_for(6, 100, HOUR) };
    world.hand(GUEST, Input::Command(GuestCommand::Ask(ask).into()));
    world.run();
}

#[test]
fn what_has_lapsed_while_its_broker_slept_is_not_taken() {
    let mut world = passing(routed);
    let free = world.free_at(200);
    world.keep.insert("portion-back");
    ask(&mut world);
    assert!(matches!(state(&world), State::Gathering { .. }), "{:?}", state(&world));
    world.set_ahead(BROKER, Span::from_secs(20));
    world.release();
    assert!(matches!(state(&world), State::Refused { .. }), "{:?}", state(&world));
    assert_eq!(world.free_at(200), free);
}

/// Keeps what it can and says nothing of the rest.
struct Silent(Routed);

impl BrokerMapper for Silent {
    fn decide(&self, view: &View) -> Decision {
        let mut decision = self.0.decide(view);
        decision.choices.retain(|choice| matches!(choice.verdict, Verdict::Keep { .. }));
        decision
    }
}

#[test]
fn what_has_lapsed_before_all_was_asked_is_not_said_to_be_held() {
    let mut world = passing(|| Box::new(Silent(Routed(Box::new(Fcfs::default())))));
    let free = world.free_at(100);
    let accept = Neighbour { forward: true, accept: Some(Accepted::default()) };
    let set = Command::SetNeighbour { with: id(FAR_BROKER), neighbour: accept };
    world.hand(BROKER, Input::Command(set.into()));
    let mut asked = asked(&request(GUEST, 1, 6, 0, HOUR));
    asked.portion.units = [(0, units(6))].into();
    asked.handover.answer_by = asked.portion.until.plus(Span::HOUR);
    deliver(&mut world, FAR_BROKER, &asked);
    assert!(matches!(state(&world), State::Gathering { .. }), "{:?}", state(&world));
    world.advance_to(asked.portion.until);
    let refused = state(&world);
    assert!(matches!(refused, State::Refused { refusal: Refusal::Lapsed(_), .. }), "{refused:?}");
    assert_eq!(world.free_at(100), free);
}

/// Decides nothing.
struct Undecided(Routed);

impl BrokerMapper for Undecided {
    fn decide(&self, view: &View) -> Decision {
        Decision { choices: Vec::new(), ..self.0.decide(view) }
    }
}

#[test]
fn a_guest_revises_nothing_that_a_broker_has_handed_on() {
    let mut world = passing(|| Box::new(Undecided(Routed(Box::new(Fcfs::default())))));
    let accept = Neighbour { forward: true, accept: Some(Accepted::default()) };
    let set = Command::SetNeighbour { with: id(FAR_BROKER), neighbour: accept };
    world.hand(BROKER, Input::Command(set.into()));
    let mut request = request(GUEST, 1, 2, 0, HOUR);
    let handed = Message::HandOver(Box::new(asked(&request).handover));
    world.deliver(BROKER, &letter(FAR_BROKER, BROKER, handed));
    assert!(matches!(state(&world), State::Open { .. }), "{:?}", state(&world));
    request.history.revision += 1;
    request.items[0].units = units(1);
    let revised = Message::Request(request.clone());
    let out = world.deliver(BROKER, &letter(GUEST, BROKER, revised));
    assert_eq!(out.facts, []);
    world.advance_to(request.answer_by);
    assert!(matches!(state(&world), State::Refused { .. }), "{:?}", state(&world));
}

/// Says everything twice.
struct Twice(Routed);

impl BrokerMapper for Twice {
    fn decide(&self, view: &View) -> Decision {
        let mut decision = self.0.decide(view);
        decision.choices.extend(decision.choices.clone());
        decision
    }
}

#[test]
fn a_second_choice_on_what_another_broker_is_asked_for_changes_nothing() {
    let mut world = passing(|| Box::new(Twice(Routed(Box::new(Fcfs::default())))));
    ask(&mut world);
    let State::Granted { tickets, .. } = state(&world) else { panic!("{:?}", state(&world)) };
    assert_eq!(tickets.iter().map(|(_, ticket)| ticket.bottom().units.get()).sum::<u32>(), 6);
}
