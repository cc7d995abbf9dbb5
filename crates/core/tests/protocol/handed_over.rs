//! Requests that other brokers hand over, under attack: the guest's own message counts, and only from whom it is taken.

use tenure_core::broker::Command;
use tenure_core::broker::forwarding::{Accepted, Neighbour};
use tenure_core::broker::machine::State;
use tenure_core::model::identity::ActorId;
use tenure_core::model::name::Name;
use tenure_core::model::slice::RequestId;
use tenure_core::model::time::Span;
use tenure_core::runtime::{Input, Output};
use tenure_core::ticket::Ticket;
use tenure_core::wire::handover::{HandedBack, Handover, MAX_ASKS, MAX_HOPS, Outcome};
use tenure_core::wire::message::Message;
use tenure_core::wire::offer::Reply;
use tenure_core::wire::refusal::Refusal;
use tenure_core::wire::request::Request;

use crate::common::world::{Scene, World};
use crate::common::{BROKER, FAR_BROKER, GUEST, HOUR, RIVAL, STRANGER, id, letter, request};

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
    let free = world.free_at(0);
    deliver(&mut world, FAR_BROKER, &handover(GUEST, &held()));
    assert!(world.free_at(0) < free);
    say(&mut world, RIVAL, Message::Withdraw(held()));
    assert!(matches!(state(&world, 1), Some(State::Held { .. })));
    say(&mut world, FAR_BROKER, Message::Withdraw(held()));
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
