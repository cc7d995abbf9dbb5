//! How much moves between services, whatever they want: the bounds by each policy, what comes to rest, and what each
//! guard is good for (docs/SWING.md).

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde::Deserialize as _;
use serde::de::value::{Error, MapDeserializer};
use tenure_core::broker::facts::{Fact as BrokerFact, OrderPlaced, Requested, Revised};
use tenure_core::broker::mapper::{BrokerMapper, Budget};
use tenure_core::mapper::urgency::policy::{Aged, Drf, Known, Priority, Shares};
use tenure_core::mapper::urgency::{Recalls, Urgency};
use tenure_core::model::slice::RequestId;
use tenure_core::model::time::{Span, Time};
use tenure_core::runtime::Fact;
use tenure_core::ticket::link::LinkHash;
use tenure_core::wire::request::Request;

use crate::common::world::World;
use crate::common::{BROKER, GUEST, RIVAL, id as id_of};
use crate::orders::{MINUTE, STOCK, Wants, antiphase, most_in, placed, play, say, world};

type Mapper = fn() -> Box<dyn BrokerMapper>;

const PRIORITY: u8 = 0;
const SHARES: u8 = 1;
const DRF: u8 = 2;
const AGED: u8 = 3;

/// The policies with all guards.
const POLICIES: [(&str, Mapper); 4] = [
    ("priority", mapper::<PRIORITY, NOTHING>),
    ("shares", mapper::<SHARES, NOTHING>),
    ("drf", mapper::<DRF, NOTHING>),
    ("aged", mapper::<AGED, NOTHING>),
];

/// The guard that a mapper lacks.
const NOTHING: u8 = 0;
const BUDGET: u8 = 1;
const MIN_TENURE: u8 = 2;
const STABLE_FOR: u8 = 3;
const MIN_GAIN: u8 = 4;

/// The units that may be ordered in an hour.
const MOST: u32 = STOCK / 4;

const TENURE: Span = Span::MINUTE.times(20);

const GAIN: u64 = 20;

/// A mapper with a policy, which lacks one guard or nothing.
fn mapper<const POLICY: u8, const LACKS: u8>() -> Box<dyn BrokerMapper> {
    let policy = match POLICY {
        PRIORITY => Known::Priority(Priority::default()),
        SHARES => Known::Shares(shares()),
        DRF => Known::Drf(Drf::default()),
        _ => Known::Aged(Aged::default()),
    };
    let with = |guard, span| if LACKS == guard { Span::ZERO } else { span };
    let budget = (LACKS != BUDGET).then_some(Budget { percent: 25, window: Span::HOUR });
    let recalls = Recalls {
        min_tenure: with(MIN_TENURE, TENURE),
        budget,
        stable_for: with(STABLE_FOR, Span::MINUTE.times(4)),
        min_gain: if LACKS == MIN_GAIN { 1 } else { GAIN },
        ..Recalls::default()
    };
    Box::new(Urgency::new(policy).with_recalls(recalls))
}

/// Half of all for the guest, and no more than three quarters for the rival.
fn shares() -> Shares {
    let (service, most) = ([("guest", "50%")], [("rival", "75%")]);
    let settings = [("service", BTreeMap::from(service)), ("most", BTreeMap::from(most))];
    let settings = MapDeserializer::<_, Error>::new(settings.into_iter());
    Shares::deserialize(settings).unwrap()
}

/// The rival claims everything half of the time, and the guest has what it does not get.
fn square(rounds: usize) -> Vec<Wants> {
    (0..rounds).map(|round| ((0, 8), (if round % 2 == 0 { 0 } else { 8 }, 0))).collect()
}

/// The rival claims all that it may at its greatest urgency, always.
fn greedy(rounds: usize) -> Vec<Wants> {
    (0..rounds).map(|round| (if round % 2 == 0 { (8, 0) } else { (0, 8) }, (8, 8))).collect()
}

/// The guest says that it uses all that it has, whatever it does, and the rival claims it in turns.
fn hoarding(rounds: usize) -> Vec<Wants> {
    (0..rounds).map(|round| ((8, 8), if round % 2 == 0 { (8, 0) } else { (0, 0) })).collect()
}

fn orders(world: &World) -> Vec<OrderPlaced> {
    let facts = world.facts(BROKER);
    let orders = facts.iter().filter_map(|entry| {
        let Fact::Broker(BrokerFact::OrderPlaced(fact)) = &entry.fact else { return None };
        Some(fact.clone())
    });
    orders.collect()
}

/// Since when each ticket, or what it extends, has had its units.
fn since(world: &World) -> BTreeMap<LinkHash, Time> {
    let mut extends: BTreeMap<RequestId, Option<LinkHash>> = BTreeMap::new();
    let mut since = BTreeMap::new();
    let extended = |request: &Request| request.items.iter().find_map(|item| item.extends);
    for entry in world.facts(BROKER) {
        let Fact::Broker(fact) = &entry.fact else { continue };
        if let BrokerFact::Requested(Requested { request })
        | BrokerFact::Revised(Revised { request }) = fact
        {
            extends.insert(request.id, extended(request));
        }
        if let BrokerFact::TicketsCut(fact) = fact {
            let before = extends.get(&fact.request).copied().flatten();
            let before = before.and_then(|before| since.get(&before).copied());
            for (_, ticket) in &fact.tickets {
                since.insert(ticket.hash(), before.unwrap_or(ticket.bottom().term.start()));
            }
        }
    }
    since
}

/// The shortest time for which a service had units that are taken from it.
fn shortest(world: &World) -> Option<Span> {
    let since = since(world);
    orders(world).iter().map(|order| order.due.since(since[&order.order.ticket])).min()
}

/// The least gain of all orders.
fn least_gain(world: &World) -> Option<u64> {
    orders(world).iter().map(|order| order.order.claim.saturating_sub(order.order.worth)).min()
}

/// How many units were ordered for a guest's service.
fn ordered_for(world: &World, guest: u8) -> u32 {
    let orders = orders(world);
    let its = orders.iter().filter(|order| order.order.claimant.guest == id_of(guest));
    its.map(|order| order.order.units.get()).sum()
}

/// Whether the two bounds hold that hold whatever a mapper decides.
fn is_bounded(world: &World) -> bool {
    most_in(&placed(world), Span::HOUR) <= MOST && shortest(world).is_none_or(|had| TENURE <= had)
}

/// Plays wants for so many minutes, each for a few.
fn played(mapper: Mapper, wave: fn(usize) -> Vec<Wants>, each: i64, minutes: i64) -> World {
    let mut world = world(mapper, false);
    play(&mut world, &wave(usize::try_from(minutes / each).unwrap()), each * MINUTE);
    world
}

#[test]
fn waves_and_liars_are_bounded_by_each_policy_in_step_with_the_guards_too() {
    let waves =
        [square, greedy, hoarding].into_iter().flat_map(|wave| [5, 20].map(|half| (wave, half)));
    // About `stable-for`, and about `min-tenure`.
    let resonance = [3, 4, 5, 19, 20, 21].map(|half| (antiphase as fn(usize) -> Vec<Wants>, half));
    let waves: Vec<_> = waves.chain(resonance).collect();
    for (name, mapper) in POLICIES {
        let mut moved = 0;
        for &(wave, half) in &waves {
            let world = played(mapper, wave, half, 90);
            assert!(is_bounded(&world), "{name}, {half} minutes: {:?}", placed(&world));
            moved += placed(&world).len();
        }
        assert!(moved > 4, "{name} moves {moved} times");
    }
}

/// What both services want.
fn wanted() -> impl Strategy<Value = Wants> {
    ((0_u32..9, 0_u32..9), (0_u32..9, 0_u32..9))
}

/// The policies with which constant needs come to rest; without a budget, soon.
const RESTING: [(&str, Mapper); 2] =
    [("priority", mapper::<PRIORITY, BUDGET>), ("shares", mapper::<SHARES, BUDGET>)];

proptest! {
    #![proptest_config(ProptestConfig { cases: 6, ..ProptestConfig::default() })]

    #[test]
    fn whatever_is_wanted_is_bounded_by_each_policy(
        wants in prop::collection::vec(wanted(), 1..16),
        each in 1_i64..30,
    ) {
        for (name, mapper) in POLICIES {
            let mut world = world(mapper, false);
            play(&mut world, &wants, each * MINUTE);
            prop_assert!(is_bounded(&world), "{}: {:?}", name, placed(&world));
        }
    }

    #[test]
    fn constant_needs_order_each_unit_once_at_most_for_a_service_and_rest(
        first in wanted(),
        then in wanted(),
    ) {
        for (name, mapper) in RESTING {
            let mut world = world(mapper, false);
            play(&mut world, &[first, first], 30 * MINUTE);
            let before = [GUEST, RIVAL].map(|who| ordered_for(&world, who));
            say(&mut world, then);
            world.advance(150 * MINUTE);
            let moved = placed(&world);
            for (who, before) in [GUEST, RIVAL].into_iter().zip(before) {
                prop_assert!(ordered_for(&world, who) - before <= STOCK, "{}: {:?}", name, moved);
            }
            world.advance(300 * MINUTE);
            prop_assert_eq!(&placed(&world), &moved, "{}", name);
        }
    }

    /// All that is played comes again within `stable-for`.
    #[test]
    fn needs_that_come_back_within_stable_for_move_no_more_than_constant_ones(
        first in wanted(),
        wave in prop::collection::vec(wanted(), 2..4),
    ) {
        for (name, mapper) in RESTING {
            let mut world = world(mapper, false);
            play(&mut world, &[first], 30 * MINUTE);
            let before = [GUEST, RIVAL].map(|who| ordered_for(&world, who));
            repeat(&mut world, &wave, (30, 100));
            let moved = placed(&world);
            for (who, before) in [GUEST, RIVAL].into_iter().zip(before) {
                prop_assert!(ordered_for(&world, who) - before <= STOCK, "{}: {:?}", name, moved);
            }
            repeat(&mut world, &wave, (100, 140));
            prop_assert_eq!(&placed(&world), &moved, "{}", name);
        }
    }
}

/// Plays wants again and again, each for a minute, from one minute until another.
fn repeat(world: &mut World, wave: &[Wants], (from, until): (i64, i64)) {
    for minute in from..until {
        let now = usize::try_from(minute).unwrap() % wave.len();
        say(world, wave[now]);
        world.advance((minute + 1) * MINUTE);
    }
}

#[test]
fn without_the_budget_more_is_moved_in_its_window() {
    let guarded = played(mapper::<PRIORITY, NOTHING>, antiphase, 30, 180);
    assert!(is_bounded(&guarded) && !placed(&guarded).is_empty());
    let world = played(mapper::<PRIORITY, BUDGET>, antiphase, 30, 180);
    assert!(most_in(&placed(&world), Span::HOUR) > MOST, "{:?}", placed(&world));
}

#[test]
fn without_the_tenure_units_are_taken_that_were_just_got() {
    let late: fn(usize) -> Vec<Wants> =
        |rounds| (0..rounds).map(|round| ((0, 8), (if round == 0 { 0 } else { 8 }, 0))).collect();
    let guarded = played(mapper::<PRIORITY, NOTHING>, late, 5, 60);
    assert!(shortest(&guarded).is_some_and(|had| TENURE <= had), "{:?}", shortest(&guarded));
    let world = played(mapper::<PRIORITY, MIN_TENURE>, late, 5, 60);
    assert!(shortest(&world).is_some_and(|had| had < TENURE), "{:?}", shortest(&world));
}

#[test]
fn without_stable_for_what_comes_back_moves_units() {
    let flutter: fn(usize) -> Vec<Wants> = |rounds| {
        (0..rounds).map(|round| ((0, 8), (if round % 4 == 0 { 8 } else { 0 }, 0))).collect()
    };
    let guarded = played(mapper::<PRIORITY, NOTHING>, flutter, 1, 60);
    assert_eq!(placed(&guarded), []);
    let world = played(mapper::<PRIORITY, STABLE_FOR>, flutter, 1, 60);
    assert!(ordered_for(&world, RIVAL) > 0);
}

#[test]
fn without_the_least_gain_units_move_for_less() {
    // The guest has all at 20, and the rival claims them at 30.
    let late: fn(usize) -> Vec<Wants> =
        |rounds| (0..rounds).map(|round| ((0, 8), (0, if round == 0 { 0 } else { 8 }))).collect();
    let guarded = played(mapper::<PRIORITY, NOTHING>, late, 30, 180);
    assert_eq!(placed(&guarded), []);
    let world = played(mapper::<PRIORITY, MIN_GAIN>, late, 30, 180);
    assert!(least_gain(&world).is_some_and(|gain| gain < GAIN), "{:?}", least_gain(&world));
}
