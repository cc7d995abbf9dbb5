//! Adverts: what brokers tell those that pass requests on to them, and what comes of it.

use std::sync::Arc;

use tenure_core::broker::Command;
use tenure_core::broker::availability::Disclosure;
use tenure_core::broker::forwarding::{Accepted, KnownNeighbour, Liveness, Neighbour};
use tenure_core::broker::mapper::BrokerMapper;
use tenure_core::mapper::fcfs::Fcfs;
use tenure_core::mapper::route::Routed;
use tenure_core::model::name::Name;
use tenure_core::model::resource::Constraints;
use tenure_core::model::time::{Span, Time};
use tenure_core::runtime::{AnyActor, Input, Output};
use tenure_core::service_manager::Command as GuestCommand;
use tenure_core::service_manager::mapper::Ask;
use tenure_core::wire::advert::{
    Advert, AdvertEntry, Entries, FURTHEST, LONGEST, MAX_ENTRIES, digest,
};
use tenure_core::wire::message::Message;
use tenure_core::wire::request::Item;

use crate::common::world::{Scene, World};
use crate::common::{
    BROKER, FAR_BROKER, GUEST, HOUR, STRANGER, ask_for, credentials, envelope, id, node,
};

const PERIOD: Span = Span::from_secs(5);

/// Two brokers that tell each other what they have: the broker of the world passes requests on to the other one.
fn telling(disclosed: Disclosure, accept: Accepted) -> World {
    telling_by(Scene::default().broker_mapper, disclosed, accept)
}

fn telling_by(
    broker_mapper: fn() -> Box<dyn BrokerMapper>,
    disclosed: Disclosure,
    accept: Accepted,
) -> World {
    let adverts = Some(PERIOD);
    let scene = Scene { adverts, disclosure: disclosed, broker_mapper, ..Scene::default() };
    let mut world = Scene { far_stock: 3, far_broker: true, ..scene }.open();
    agree(&mut world, (BROKER, FAR_BROKER), Neighbour { forward: true, accept: None });
    agree(&mut world, (FAR_BROKER, BROKER), Neighbour { forward: false, accept: Some(accept) });
    world
}

fn agree(world: &mut World, (who, with): (u8, u8), neighbour: Neighbour) {
    let set = Command::SetNeighbour { with: id(with), neighbour };
    world.hand(who, Input::Command(set.into()));
}

/// What the broker of the world knows of the other one.
fn known(world: &World) -> KnownNeighbour {
    known_at(world, world.clock(BROKER))
}

fn known_at(world: &World, now: Time) -> KnownNeighbour {
    let AnyActor::Broker(broker) = world.actor(BROKER) else { panic!("no broker") };
    let [known] = &broker.known_neighbours(now)[..] else { panic!("not one") };
    known.clone()
}

fn entry(hops: u8, free: u32) -> AdvertEntry {
    AdvertEntry { hops, resource: node(), attributes: None, free: Some(free), next: None }
}

/// The other broker tells this.
fn tell(world: &mut World, from: u8, at: i64, advert: Advert) -> Output {
    let message = Message::Advert(Box::new(advert));
    let mut envelope = envelope(id(from), id(BROKER), message);
    envelope.header.at = Time::from_secs(at);
    let sealed = envelope.seal(&mut credentials(from));
    world.deliver(BROKER, &sealed)
}

fn all(entries: Vec<AdvertEntry>) -> Advert {
    Advert { lasts: PERIOD.times(3), entries: Entries::All(entries) }
}

/// An entry that is too large for an advert.
fn large() -> AdvertEntry {
    let name = |n| Name::new(&format!("a{n}")).unwrap();
    let text = "x".repeat(1 << 10);
    let like = (0..64).map(|n| (name(n), text.as_str().into())).collect();
    AdvertEntry { attributes: Some(Arc::new(like)), ..entry(1, 9) }
}

fn units(count: u32) -> Item {
    Item::new(node(), count.try_into().unwrap())
}

#[test]
fn a_broker_tells_what_it_has_and_is_silent_once_it_is_not_heard() {
    let mut world = telling(Disclosure::All, Accepted::default());
    assert_eq!(known(&world).liveness, Liveness::Unknown);
    world.advance(6);
    let heard = known(&world);
    assert_eq!(heard.liveness, Liveness::Live);
    let [entry] = &heard.entries[..] else { panic!("{heard:?}") };
    assert_eq!((entry.hops, entry.free, &entry.resource), (1, Some(3), &node()));
    assert!(entry.attributes.is_some());
    assert_eq!(heard.promises(&[units(3)], Time::ZERO), Some(1));
    assert_eq!(heard.promises(&[units(4)], Time::ZERO), None);

    // It does not accept requests any more, and so it tells nothing more.
    agree(&mut world, (FAR_BROKER, BROKER), Neighbour::default());
    world.advance(20);
    let heard = known(&world);
    assert_eq!((heard.liveness, heard.entries.len()), (Liveness::Silent, 0));
    let later = world.clock(BROKER).plus(Span::DAY);
    assert_eq!(known_at(&world, later).liveness, Liveness::Forgotten);
}

#[test]
fn what_is_told_is_no_more_than_is_disclosed_and_accepted() {
    let told = |disclosed, types: &[&'static str]| {
        let types = types.iter().map(|of| Name::literal(of)).collect();
        let mut world = telling(disclosed, Accepted { types, longest: None });
        world.advance(6);
        let heard = known(&world);
        assert_eq!(heard.liveness, Liveness::Live);
        heard.entries.iter().map(|one| (one.attributes.is_some(), one.free)).collect::<Vec<_>>()
    };
    assert_eq!(told(Disclosure::All, &["node"]), [(true, Some(3))]);
    assert_eq!(told(Disclosure::Totals, &[]), [(false, Some(3))]);
    assert_eq!(told(Disclosure::YesNo, &[]), [(false, None)]);
    assert_eq!(told(Disclosure::None, &[]), []);
    assert_eq!(told(Disclosure::All, &["disk"]), []);
}

#[test]
fn a_drained_broker_tells_of_nothing() {
    let mut world = telling(Disclosure::All, Accepted::default());
    world.advance(6);
    world.hand(FAR_BROKER, Input::Command(Command::Sell(false).into()));
    world.advance(21);
    let heard = known(&world);
    assert_eq!((heard.liveness, heard.entries.len()), (Liveness::Live, 0));
}

#[test]
fn after_a_restart_it_is_told_anew() {
    let mut world = telling(Disclosure::All, Accepted::default());
    world.advance(30);
    world.restart(BROKER);
    assert_eq!(known(&world).liveness, Liveness::Unknown);
    world.run();
    assert_eq!(known(&world).promises(&[units(3)], Time::ZERO), Some(1));
}

#[test]
fn nothing_is_believed_of_who_is_not_asked_or_tells_too_much() {
    let mut world = telling(Disclosure::None, Accepted::default());
    world.advance(6);
    let before = known(&world);
    let many = (0..=MAX_ENTRIES).map(|_| entry(1, 1)).collect();
    let bad = [
        (STRANGER, all(vec![entry(1, 9)])),
        (GUEST, all(vec![entry(1, 9)])),
        (FAR_BROKER, all(many)),
        (FAR_BROKER, all(vec![large()])),
        (FAR_BROKER, all(vec![entry(0, 9)])),
        (FAR_BROKER, all(vec![entry(FURTHEST + 1, 9)])),
        (FAR_BROKER, Advert { lasts: Span::ZERO, ..all(Vec::new()) }),
        (FAR_BROKER, Advert { lasts: LONGEST.plus(Span::SECOND), ..all(Vec::new()) }),
    ];
    for (from, advert) in bad {
        let out = tell(&mut world, from, 7, advert.clone());
        assert_eq!((out.problems.len(), out.replies.len(), out.facts.len()), (1, 0, 0));
        assert_eq!(known(&world), before, "{advert:?}");
    }
}

#[test]
fn an_advert_that_comes_late_says_nothing_and_one_that_was_missed_is_asked_for() {
    let mut world = telling(Disclosure::None, Accepted::default());
    world.advance(6);
    let now = 100;
    assert_eq!(tell(&mut world, FAR_BROKER, now, all(vec![entry(2, 9)])).replies, []);
    tell(&mut world, FAR_BROKER, now - 1, all(vec![entry(1, 1)]));
    assert_eq!(known(&world).promises(&[units(9)], Time::ZERO), Some(2));

    // As before: that it has. As something else: that it has missed.
    let as_before = |entries: &[AdvertEntry]| Advert {
        lasts: PERIOD.times(3),
        entries: Entries::Same(digest(entries)),
    };
    assert_eq!(tell(&mut world, FAR_BROKER, now + 1, as_before(&[entry(2, 9)])).replies, []);
    assert_eq!(known(&world).promises(&[units(9)], Time::ZERO), Some(2));
    let out = tell(&mut world, FAR_BROKER, now + 2, as_before(&[entry(1, 9)]));
    let [reply] = &out.replies[..] else { panic!("{out:?}") };
    assert_eq!((&reply.message, reply.header.to), (&Message::AdvertWanted, id(FAR_BROKER)));
    assert_eq!(known(&world).promises(&[units(9)], Time::ZERO), None);
    // The answer may be sent in the same instant.
    assert_eq!(tell(&mut world, FAR_BROKER, now + 2, all(vec![entry(1, 9)])).replies, []);
    assert_eq!(known(&world).promises(&[units(9)], Time::ZERO), Some(1));
}

#[test]
fn what_a_broker_answers_counts_more_than_what_it_advertised() {
    let routed: fn() -> Box<dyn BrokerMapper> = || Box::new(Routed(Box::new(Fcfs::default())));
    let mut world = telling_by(routed, Disclosure::All, Accepted::default());
    world.advance(6);
    let ask = |world: &mut World, count| {
        let ask = Ask { broker: Some(id(BROKER)), ..ask_for(count, 10, HOUR) };
        world.hand(GUEST, Input::Command(GuestCommand::Ask(ask).into()));
        world.run();
    };
    // Its own four units go first.
    ask(&mut world, 4);
    let promised = |world: &World, count| known(world).promises(&[units(count)], Time::ZERO);
    assert_eq!([promised(&world, 3), promised(&world, 1)], [Some(1), Some(1)]);
    ask(&mut world, 2);
    assert_eq!([promised(&world, 2), promised(&world, 1)], [None, Some(1)], "granted by the other");
    // What is advertised and refused is not there, until the next advert.
    let now = world.clock(BROKER).as_micros() / 1_000_000;
    tell(&mut world, FAR_BROKER, now + 1, all(vec![entry(1, 9)]));
    assert_eq!(promised(&world, 9), Some(1));
    ask(&mut world, 3);
    assert_eq!([promised(&world, 3), promised(&world, 2)], [None, Some(1)], "refused by the other");
    tell(&mut world, FAR_BROKER, now + 2, all(vec![entry(1, 9)]));
    assert_eq!(promised(&world, 9), Some(1));
}

#[test]
fn room_is_counted_by_hops_for_what_suits() {
    let mut known = KnownNeighbour {
        name: Name::literal("other"),
        broker: id(FAR_BROKER),
        liveness: Liveness::Live,
        heard: None,
        entries: vec![entry(1, 2), entry(2, 2)].into(),
    };
    let of = |known: &KnownNeighbour, items: &[Item]| known.promises(items, Time::from_secs(50));
    assert_eq!(of(&known, &[units(2)]), Some(1));
    assert_eq!(of(&known, &[units(3)]), Some(2));
    assert_eq!(of(&known, &[units(2), units(4)]), Some(2));
    let spare = |items: &[Item], hops| known.spare(items, Time::from_secs(50), hops);
    assert_eq!([spare(&[units(1)], 1), spare(&[units(1)], 2), spare(&[units(3)], 2)], [2, 4, 1]);
    assert_eq!([spare(&[units(1), units(4)], 2), spare(&[units(3)], 1)], [1, 0]);
    assert_eq!(of(&known, &[Item::new(Name::literal("disk"), std::num::NonZeroU32::MIN)]), None);

    // Some are free, nobody says how many; none is free before an instant.
    let some = AdvertEntry { free: None, ..entry(3, 0) };
    let later = AdvertEntry { next: Some(Time::from_secs(50)), ..entry(1, 0) };
    known.entries = vec![some].into();
    assert_eq!(of(&known, &[units(100)]), Some(3));
    known.entries = vec![later].into();
    assert_eq!(of(&known, &[units(1)]), Some(1));
    assert_eq!(known.promises(&[units(1)], Time::from_secs(49)), None);

    // What the units are like counts, where it was told.
    let small = Arc::new([(Name::literal("cpus"), 4_i64.into())].into());
    known.entries = vec![AdvertEntry { attributes: Some(small), ..entry(1, 5) }].into();
    let mut large = units(1);
    let mut needs = Constraints::NONE;
    needs.add("cpus >= 8".parse().unwrap());
    large.requirements = needs;
    assert_eq!((of(&known, &[large]), of(&known, &[units(1)])), (None, Some(1)));
}
