//! Requests that other brokers hand over, under attack: the guest's own message counts, and only from whom it is taken.

use std::num::NonZeroU32;

use tenure_core::broker::Command;
use tenure_core::broker::forwarding::{Accepted, Neighbour};
use tenure_core::broker::machine::State;
use tenure_core::broker::mapper::BrokerMapper;
use tenure_core::mapper::fcfs::Fcfs;
use tenure_core::mapper::route::Routed;
use tenure_core::model::identity::ActorId;
use tenure_core::model::name::Name;
use tenure_core::model::slice::RequestId;
use tenure_core::model::time::{Span, Term, Time};
use tenure_core::runtime::{Input, Output};
use tenure_core::ticket::Ticket;
use tenure_core::wire::handover::{HandedBack, Handover, MAX_ASKS, MAX_HOPS, Outcome};
use tenure_core::wire::message::Message;
use tenure_core::wire::offer::{Offer, OfferPart, Reply};
use tenure_core::wire::refusal::{Allowance, Refusal};
use tenure_core::wire::request::Request;

use crate::common::world::{Scene, World};
use crate::common::{BROKER, FAR_BROKER, GUEST, HOUR, RIVAL, SITE, STRANGER, id, letter, request};

/// The broker of the world, which takes what the other one hands on.
fn taking(accept: Option<Accepted>) -> World {
    let mut world = Scene { far_stock: 1, far_broker: true, ..Scene::default() }.open();
    let neighbour = Neighbour { forward: false, accept };
    let set = Command::SetNeighbour { with: id(FAR_BROKER), neighbour };
    world.hand(BROKER, Input::Command(set.into()));
    world
}

/// The other broker hands on a request that `origin` has sent to it.
fn handover(origin: u8, request: &Request) -> Handover {
    let sealed = letter(origin, FAR_BROKER, Message::Request(request.clone()));
    let first = id(FAR_BROKER);
    let (path, asked) = (vec![first], [first].into());
    Handover { sealed, path, asked, hops: 3, asks: 15, answer_by: request.answer_by }
}

fn deliver(world: &mut World, from: u8, handover: &Handover) -> Output {
    let message = Message::HandOver(Box::new(handover.clone()));
    let out = world.deliver(BROKER, &letter(from, BROKER, message));
    world.run();
    out
}

/// What is answered at once, to the sender.
fn outcome(out: &Output, to: ActorId) -> Outcome {
    let [reply] = &out.replies[..] else { panic!("{out:?}") };
    assert_eq!(reply.header.to, to);
    let Message::HandedBack(back) = &reply.message else { panic!("{reply:?}") };
    let HandedBack { outcome, .. } = &**back;
    outcome.clone()
}

/// What is answered to a changed handover, which leaves no trace at the broker.
fn refused(from: u8, change: impl FnOnce(&mut Handover)) -> Refusal {
    let mut world = taking(Some(Accepted::default()));
    let mut handed = handover(GUEST, &request(GUEST, 1, 2, 0, HOUR));
    change(&mut handed);
    let (position, ledger) = (world.position(BROKER), world.broker().ledger().clone());
    let out = deliver(&mut world, from, &handed);
    assert_eq!((world.position(BROKER), &out.facts[..]), (position, &[][..]));
    assert_eq!(*world.broker().ledger(), ledger);
    let Outcome::Refused(refusal) = outcome(&out, id(from)) else { panic!("{out:?}") };
    refusal
}

fn state(world: &World, number: u64) -> Option<State> {
    let id = RequestId { origin: id(GUEST), number };
    world.broker().request(id).cloned()
}

#[test]
fn what_a_neighbour_hands_on_is_granted_to_its_guest_once() {
    let mut world = taking(Some(Accepted::default()));
    let handed = handover(GUEST, &request(GUEST, 1, 2, 0, HOUR));
    deliver(&mut world, FAR_BROKER, &handed);
    let Some(State::Granted { tickets, .. }) = state(&world, 1) else { panic!() };
    assert!(tickets.iter().all(|(_, ticket)| ticket.bottom().holder == id(GUEST)));
    let free = world.free_at(0);
    // A repeat gets the same answer, by whatever path it is said to come.
    let again = Handover { hops: 1, ..handed };
    let out = deliver(&mut world, FAR_BROKER, &again);
    assert_eq!(outcome(&out, id(FAR_BROKER)), Outcome::Granted(tickets));
    assert_eq!((world.free_at(0), &out.facts[..]), (free, &[][..]));
}

#[test]
fn nothing_is_taken_from_who_may_not_hand_on() {
    assert_eq!(refused(RIVAL, |_| {}), Refusal::Forbidden);
    assert_eq!(refused(STRANGER, |_| {}), Refusal::Forbidden);
    let mut world = taking(None);
    let out = deliver(&mut world, FAR_BROKER, &handover(GUEST, &request(GUEST, 1, 2, 0, HOUR)));
    assert_eq!(outcome(&out, id(FAR_BROKER)), Outcome::Refused(Refusal::Forbidden));
}

#[test]
fn a_request_in_somebody_elses_name_is_not_taken() {
    let theirs = handover(RIVAL, &request(GUEST, 1, 2, 0, HOUR));
    assert_eq!(refused(FAR_BROKER, |handed| *handed = theirs), Refusal::Forbidden);
}

#[test]
fn what_its_guest_has_not_signed_is_dropped() {
    let mut world = taking(Some(Accepted::default()));
    let good = handover(GUEST, &request(GUEST, 1, 2, 0, HOUR));
    for place in [0, good.sealed.bytes().len() / 2, good.sealed.bytes().len() - 1] {
        let mut bytes = good.sealed.bytes().to_vec();
        bytes[place] ^= 1;
        let Ok(sealed) = tenure_core::model::codec::decode(&bytes) else { continue };
        let out = deliver(&mut world, FAR_BROKER, &Handover { sealed, ..good.clone() });
        assert_eq!((&out.facts[..], out.problems.len()), (&[][..], 1), "{place}");
    }
    assert_eq!(state(&world, 1), None);
}

#[test]
fn a_path_has_to_lead_from_the_guests_broker_to_the_sender() {
    let malformed = |refusal| assert!(matches!(refusal, Refusal::Malformed(_)), "{refusal:?}");
    malformed(refused(FAR_BROKER, |handed| handed.path.clear()));
    malformed(refused(FAR_BROKER, |handed| handed.path.insert(0, id(STRANGER))));
    malformed(refused(FAR_BROKER, |handed| handed.path.push(id(STRANGER))));
    malformed(refused(FAR_BROKER, |handed| {
        handed.path = vec![id(FAR_BROKER); usize::from(MAX_HOPS) + 1];
    }));
    malformed(refused(FAR_BROKER, |handed| handed.hops = MAX_HOPS));
    malformed(refused(FAR_BROKER, |handed| handed.asks = MAX_ASKS + 1));
}

#[test]
fn a_path_that_comes_back_is_none() {
    let mut world = taking(Some(Accepted::default()));
    let mut handed = handover(GUEST, &request(GUEST, 1, 2, 0, HOUR));
    handed.path = vec![id(FAR_BROKER), id(BROKER), id(FAR_BROKER)];
    let out = deliver(&mut world, FAR_BROKER, &handed);
    assert_eq!((outcome(&out, id(FAR_BROKER)), &out.facts[..]), (Outcome::Seen, &[][..]));
}

#[test]
fn what_the_guest_has_asked_for_here_is_not_taken_again_by_another_path() {
    let mut world = taking(Some(Accepted::default()));
    let asked = request(GUEST, 1, 2, 0, HOUR);
    world.deliver(BROKER, &letter(GUEST, BROKER, Message::Request(asked.clone())));
    world.run();
    let out = deliver(&mut world, FAR_BROKER, &handover(GUEST, &asked));
    assert_eq!((outcome(&out, id(FAR_BROKER)), &out.facts[..]), (Outcome::Seen, &[][..]));
}

#[test]
fn what_is_not_lent_to_a_neighbours_guests_is_refused_with_the_reason() {
    let types = [Name::literal("disk")].into();
    let of_type = Accepted { types, ..Accepted::default() };
    let short = Accepted { longest: Some(Span::from_secs(60)), ..Accepted::default() };
    for (accept, reason) in [(of_type, "`node` is not lent"), (short, "at most")] {
        let mut world = taking(Some(accept));
        deliver(&mut world, FAR_BROKER, &handover(GUEST, &request(GUEST, 1, 2, 0, HOUR)));
        let Some(State::Refused { refusal, .. }) = state(&world, 1) else { panic!() };
        assert!(matches!(refusal, Refusal::Policy(_)), "{refusal:?}");
        assert!(refusal.to_string().contains(reason), "{refusal}");
    }
}

fn say(world: &mut World, from: u8, message: Message) -> Output {
    let out = world.deliver(BROKER, &letter(from, BROKER, message));
    world.run();
    out
}

/// A request of the guest's for two units that are to be held for a minute.
fn held() -> Request {
    Request { reply: Reply::Hold(Span::MINUTE), ..request(GUEST, 1, 2, 0, HOUR) }
}

#[test]
fn offers_for_a_neighbours_guest_are_held_and_the_neighbour_alone_accepts_them() {
    let mut world = taking(Some(Accepted::default()));
    // It knows nothing of the request, and would give the offers up.
    world.cut_off.insert(FAR_BROKER);
    deliver(&mut world, FAR_BROKER, &handover(GUEST, &held()));
    let Some(State::Held { offers, until, .. }) = state(&world, 1) else { panic!() };
    let again = deliver(&mut world, FAR_BROKER, &handover(GUEST, &held()));
    let Outcome::Offered(told, Some(told_until)) = outcome(&again, id(FAR_BROKER)) else {
        panic!("{again:?}")
    };
    assert_eq!((told.len(), told_until), (offers.len(), until));
    let accept = |offer| Message::Accept { request: held().id, offer };
    for from in [GUEST, RIVAL] {
        let out = say(&mut world, from, accept(1));
        assert_eq!(&out.facts[..], &[][..], "{from} accepts");
    }
    let out = say(&mut world, FAR_BROKER, accept(9));
    assert!(matches!(outcome(&out, id(FAR_BROKER)), Outcome::Refused(Refusal::Malformed(_))));
    let out = say(&mut world, FAR_BROKER, accept(1));
    let Some(State::Granted { tickets, .. }) = state(&world, 1) else { panic!() };
    assert_eq!(outcome(&out, id(FAR_BROKER)), Outcome::Granted(tickets.clone()));
    // A ticket that its guest never sees has to be redeemed in vain no later than this.
    let latest = held().answer_by.plus(Span::from_secs(30 + 60 + 300));
    let by = |ticket: &Ticket| ticket.bottom().clauses.redeem_by;
    assert!(
        tickets.iter().all(|(_, ticket)| by(ticket).is_some_and(|by| until < by && by <= latest))
    );
}

#[test]
fn what_is_held_for_a_neighbours_guest_is_free_again_once_the_neighbour_withdraws_it() {
    let mut world = taking(Some(Accepted::default()));
    // It knows nothing of the request, and would give the offers up.
    world.cut_off.insert(FAR_BROKER);
    let free = world.free_at(0);
    deliver(&mut world, FAR_BROKER, &handover(GUEST, &held()));
    assert!(world.free_at(0) < free);
    let given_up = |round| Message::PortionDecided { request: held().id, round, taken: false };
    for (from, round) in [(RIVAL, 0), (FAR_BROKER, 1)] {
        say(&mut world, from, given_up(round));
        assert!(matches!(state(&world, 1), Some(State::Held { .. })));
    }
    say(&mut world, FAR_BROKER, given_up(0));
    assert_eq!(world.free_at(0), free);
    let out = say(&mut world, FAR_BROKER, Message::Accept { request: held().id, offer: 1 });
    assert_eq!(outcome(&out, id(FAR_BROKER)), Outcome::Refused(Refusal::Withdrawn));
}

#[test]
fn a_refusal_brings_back_what_could_be_had_instead() {
    for reply in [Reply::Grant, Reply::Plan, Reply::Hold(Span::MINUTE)] {
        let second = Request { reply, ..request(GUEST, 2, 4, 0, HOUR) };
        let mut world = taking(Some(Accepted::default()));
        deliver(&mut world, FAR_BROKER, &handover(GUEST, &request(GUEST, 1, 2, 0, HOUR)));
        let handed = handover(GUEST, &second);
        deliver(&mut world, FAR_BROKER, &handed);
        let out = deliver(&mut world, FAR_BROKER, &handed);
        let outcome = outcome(&out, id(FAR_BROKER));
        let Outcome::Countered(Refusal::Busy { .. }, offers) = outcome else {
            panic!("{outcome:?}")
        };
        let units: Vec<u32> = offers.iter().map(|offer| offer.units()).collect();
        assert!(units.contains(&2), "{offers:?}");
        assert!(matches!(state(&world, 2), Some(State::Refused { .. })), "nothing is booked");
    }
}

/// The broker of the world, which passes on what it cannot meet to the other one. That one is not heard, so the test
/// speaks for it.
fn passing(reply: Reply) -> World {
    let broker_mapper: fn() -> Box<dyn BrokerMapper> = || Box::new(Routed(Box::<Fcfs>::default()));
    let scene = Scene { far_stock: 1, far_broker: true, broker_mapper, ..Scene::default() };
    let mut world = scene.open();
    let neighbour = Neighbour { forward: true, accept: None };
    let set = Command::SetNeighbour { with: id(FAR_BROKER), neighbour };
    world.hand(BROKER, Input::Command(set.into()));
    world.cut_off.insert(FAR_BROKER);
    say(&mut world, GUEST, Message::Request(Request { reply, ..request(GUEST, 1, 9, 60, HOUR) }));
    assert_eq!(word(&world), "Passed");
    world
}

fn word(world: &World) -> &'static str {
    state(world, 1).map_or("nothing", |state| state.word())
}

/// Has the other broker answer, and returns what it is told at once.
fn answers(world: &mut World, outcome: Outcome) -> Vec<Message> {
    let request = RequestId { origin: id(GUEST), number: 1 };
    let back = HandedBack { request, outcome, trail: Vec::new() };
    let out = say(world, FAR_BROKER, Message::HandedBack(Box::new(back)));
    out.replies
        .into_iter()
        .filter(|of| of.header.to == id(FAR_BROKER))
        .map(|of| of.message)
        .collect()
}

fn offer(units: u32, start: i64, length: i64) -> Offer {
    let term = Term::lasting(Time::from_secs(start), Span::from_secs(length)).unwrap();
    let (units, site) = (NonZeroU32::new(units).unwrap(), id(SITE));
    Offer { parts: vec![OfferPart { item: 0, site, units, term, price: None, edge: None }] }
}

#[test]
fn offers_of_a_neighbour_count_only_if_they_are_what_was_asked_for() {
    let mut world = passing(Reply::Hold(Span::MINUTE));
    let until = Some(world.now.plus(Span::from_secs(30)));
    let good = offer(9, 60, HOUR);
    let given_up =
        |said: &[Message]| matches!(said, [Message::PortionDecided { round: 0, taken: false, .. }]);
    for (offers, until) in [
        (vec![], until),
        (vec![Offer { parts: vec![] }], until),
        (vec![offer(8, 60, HOUR)], until),
        (vec![offer(10, 60, HOUR)], until),
        (vec![offer(9, 59, HOUR)], until),
        (vec![offer(9, 60, HOUR - 1)], until),
        (vec![good.clone()], Some(world.now)),
        (vec![good.clone()], Some(world.now.plus(Span::DAY))),
        (vec![good.clone(); 4], until),
    ] {
        let said = answers(&mut world, Outcome::Offered(offers.clone(), until));
        assert!(
            given_up(&said) && word(&world) == "Passed",
            "{offers:?} until {until:?}: {said:?}"
        );
    }
    for outcome in [Outcome::Granted(Vec::new()), Outcome::Offered(vec![good.clone()], None)] {
        answers(&mut world, outcome);
        assert_eq!(word(&world), "Passed");
    }
    answers(&mut world, Outcome::Offered(vec![good.clone()], until));
    assert_eq!(word(&world), "Proposed");
    for outcome in [Outcome::Seen, Outcome::Offered(vec![good.clone()], until)] {
        assert_eq!(answers(&mut world, outcome), []);
        assert_eq!(word(&world), "Proposed");
    }
    let number = RequestId { origin: id(GUEST), number: 1 };
    say(&mut world, GUEST, Message::Accept { request: number, offer: 1 });
    for outcome in [Outcome::Seen, Outcome::Offered(vec![good.clone()], until)] {
        assert_eq!(answers(&mut world, outcome), []);
        assert_eq!(word(&world), "Taking");
    }
    let lapsed = Refusal::Lapsed(world.now);
    answers(&mut world, Outcome::Countered(lapsed, vec![good.clone()]));
    assert_eq!(word(&world), "Refused");
    // What comes late is given up, whatever became of the request.
    assert!(given_up(&answers(&mut world, Outcome::Offered(vec![good], until))));
}

#[test]
fn tickets_for_a_plan_are_dropped_and_what_lies_about_a_counter_offer_is_not_told() {
    let mut world = passing(Reply::Plan);
    answers(&mut world, Outcome::Granted(Vec::new()));
    assert_eq!(word(&world), "Passed");
    let busy = Refusal::Quota { holder: id(GUEST), of: Allowance::Units, most: 8, would: 9 };
    for lie in [offer(10, 60, HOUR), offer(9, 0, HOUR), Offer { parts: vec![] }] {
        answers(&mut world, Outcome::Countered(busy.clone(), vec![lie]));
        assert_eq!(word(&world), "Passed");
    }
    answers(&mut world, Outcome::Countered(busy, vec![offer(9, 120, HOUR)]));
    let Some(State::Refused { offers, .. }) = state(&world, 1) else { panic!("{}", word(&world)) };
    assert_eq!(offers, [offer(9, 120, HOUR)]);
}
