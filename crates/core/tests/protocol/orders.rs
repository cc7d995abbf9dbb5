//! Units that are taken from a service for another one: what swings, and what comes to rest (docs/SWING.md).

use std::collections::BTreeMap;

use proptest::prelude::*;
use tenure_core::broker::facts::Fact as BrokerFact;
use tenure_core::broker::mapper::{BrokerMapper, Budget};
use tenure_core::mapper::slo::Slo as Follower;
use tenure_core::mapper::urgency::policy::{Aged, Known, Policy, Unit, UnitState};
use tenure_core::mapper::urgency::{Mode, Recalls, Urgency};
use tenure_core::model::name::Name;
use tenure_core::model::time::{Span, Time};
use tenure_core::runtime::Fact;
use tenure_core::service::definition::{Behaviour, Definition};
use tenure_core::service::kpi::Kpis;
use tenure_core::service::member::Members;
use tenure_core::service::slo::Slo;
use tenure_core::service::steps::{Kind, Steps};
use tenure_core::service_manager::Command;
use tenure_core::service_manager::mapper::ServiceManagerMapper;
use tenure_core::service_manager::services::{Found, ServiceCommand};
use tenure_core::wire::message::Message;
use tenure_core::wire::need::{Need, Want};
use tenure_expr::{Expr, Quantity};

use crate::common::world::{Scene, World};
use crate::common::{BROKER, GUEST, RIVAL, id as id_of, letter};

/// How many units the two services want at 60, and how many beside at urgencies of their own.
pub(crate) type Wants = ((u32, u32), (u32, u32));

/// Units of the site.
pub(crate) const STOCK: u32 = 8;

pub(crate) const MINUTE: i64 = 60;

/// With all guards: as by default, but for times that a test can wait for.
fn guarded() -> Box<dyn BrokerMapper> {
    let budget = Some(Budget { percent: 25, window: Span::HOUR });
    let (min_tenure, stable_for) = (Span::MINUTE.times(10), Span::MINUTE.times(2));
    let recalls = Recalls { min_tenure, budget, stable_for, ..Recalls::default() };
    Box::new(Urgency::new(Known::default()).with_recalls(recalls))
}

/// No guard, and nothing is taken.
fn advising() -> Box<dyn BrokerMapper> {
    let zero = Span::ZERO;
    let recalls = Recalls {
        min_tenure: zero,
        budget: None,
        stable_for: zero,
        mode: Mode::Advise,
        ..Recalls::default()
    };
    Box::new(Urgency::new(Known::default()).with_recalls(recalls))
}

/// With the guards of [`guarded`], units are worth nothing to a service that has had them for four hours.
fn aging() -> Box<dyn BrokerMapper> {
    let budget = Some(Budget { percent: 25, window: Span::HOUR });
    let (min_tenure, stable_for) = (Span::MINUTE.times(10), Span::MINUTE.times(2));
    let recalls = Recalls { min_tenure, budget, stable_for, min_gain: 10, ..Recalls::default() };
    Box::new(Urgency::new(Known::Aged(Aged::default())).with_recalls(recalls))
}

/// Who has fewer units comes first. It checks what it is shown.
struct Fewest;

impl Policy for Fewest {
    fn worth(&self, unit: &Unit<'_>) -> u64 {
        let seen = unit.holdings;
        // The units of the site have eight each.
        let of_eight = Expr::parse("cpus >= 8").unwrap();
        let held = seen.count(|h| h.state == UnitState::Held && h.is_like(&of_eight));
        let ordered = seen.count(|h| h.state == UnitState::Ordered);
        let mine = seen.count(|h| {
            h.is_of(unit.guest.as_str(), unit.service.as_str()) && h.state == UnitState::Held
        });
        assert!(held + ordered <= u64::from(STOCK), "{:?}", seen.all());
        assert!(mine <= held);
        assert_eq!(seen.count(|h| h.is_like(&Expr::parse("cpus > 8").unwrap())), 0);
        let since = seen.all().iter().filter_map(|h| h.held_for(seen.now())).max();
        assert!(unit.held_for <= since, "no unit is held for longer than all");
        if unit.urgency == 0 { 0 } else { 100 - u64::from(unit.number) }
    }
}

/// No guard but that a claim is worth more than the use that it ends.
fn unguarded() -> Box<dyn BrokerMapper> {
    let zero = Span::ZERO;
    let recalls =
        Recalls { min_tenure: zero, budget: None, stable_for: zero, ..Recalls::default() };
    Box::new(Urgency::new(Known::default()).with_recalls(recalls))
}

pub(crate) fn world(broker_mapper: fn() -> Box<dyn BrokerMapper>, suspicious: bool) -> World {
    let guest_mapper = || -> Box<dyn ServiceManagerMapper> { Box::new(Follower::default()) };
    let scene = Scene {
        stock: STOCK,
        suspicious,
        audited: true,
        broker_mapper,
        guest_mapper,
        ..Scene::default()
    };
    let mut world = scene.open();
    for (who, urgency) in [(GUEST, 40), (RIVAL, 60)] {
        world.command(who, define(urgency));
    }
    world
}

fn service() -> Name {
    Name::literal("work")
}

/// Wants `high` units at 60, and others at an urgency of its own.
fn define(urgency: u32) -> Command {
    let slo = |want: &str, urgency| Slo {
        rule: None,
        want: Expr::parse_measured(want).unwrap(),
        urgency,
        resource: Name::literal("node"),
        requirement: None,
    };
    let slo = [
        (Name::literal("high"), slo("high", 60)),
        (Name::literal("low"), slo("high + low", urgency / 2)),
    ];
    let behaviour = Behaviour {
        term: Span::HOUR.times(2),
        idle_after: Span::MINUTE.times(5),
        stale_after: Span::DAY,
        notice: Span::MINUTE,
        min_tenure: Span::MINUTE,
        ..Behaviour::default()
    };
    let definition = Box::new(Definition { slo: slo.into(), behaviour, ..Definition::default() });
    Command::Service(ServiceCommand::Define { service: service(), definition })
}

fn report(world: &mut World, who: u8, (high, low): (u32, u32)) {
    let mut kpis = Kpis::default();
    for (name, value) in [("high", high), ("low", low)] {
        assert!(kpis.insert(name.parse().unwrap(), Quantity::number(i64::from(value))));
    }
    let (seen, busy) = (Found::Running, BTreeMap::new());
    let report = ServiceCommand::Report {
        service: service(),
        kpis,
        seen,
        busy,
        members: Members::default(),
    };
    world.command(who, Command::Service(report));
}

/// Reports what both services want.
pub(crate) fn say(world: &mut World, (guest, rival): Wants) {
    report(world, GUEST, guest);
    report(world, RIVAL, rival);
}

/// Reports wants, each pair for both services, a while after the other.
pub(crate) fn play(world: &mut World, wants: &[Wants], every: i64) {
    for (round, wants) in wants.iter().enumerate() {
        say(world, *wants);
        world.advance(i64::try_from(round + 1).unwrap() * every);
    }
}

/// The orders that were placed: when, due when, and of how many units of which ticket.
pub(crate) fn placed(world: &World) -> Vec<(Time, Time, u32)> {
    let facts = world.facts(BROKER);
    let placed = facts.iter().filter_map(|entry| {
        let Fact::Broker(BrokerFact::OrderPlaced(fact)) = &entry.fact else { return None };
        Some((entry.at, fact.due, fact.order.units.get()))
    });
    placed.collect()
}

/// Whether an order takes units of a guest's service.
fn taken_from(world: &World, guest: u8) -> bool {
    world.facts(BROKER).iter().any(|entry| {
        matches!(&entry.fact, Fact::Broker(BrokerFact::OrderPlaced(fact))
            if fact.order.holder.guest == id_of(guest))
    })
}

/// The most units ordered in any window of a length.
pub(crate) fn most_in(orders: &[(Time, Time, u32)], window: Span) -> u32 {
    let ends = orders.iter().map(|(end, ..)| {
        let inside = orders.iter().filter(|(at, ..)| end.minus(window) < *at && at <= end);
        inside.map(|(.., units)| units).sum()
    });
    ends.max().unwrap_or(0)
}

/// How many units each service has.
fn held(world: &World) -> BTreeMap<u8, u32> {
    let of = |who| world.guest(who).services()[0].demands.iter().map(|demand| demand.held).sum();
    [GUEST, RIVAL].map(|who| (who, of(who))).into()
}

/// A square wave in which the two services want all units in turns.
pub(crate) fn antiphase(rounds: usize) -> Vec<Wants> {
    let pair = |round| if round % 2 == 0 { ((8, 0), (0, 8)) } else { ((0, 8), (8, 0)) };
    (0..rounds).map(pair).collect()
}

#[test]
fn what_is_worth_more_is_taken_and_then_everything_rests() {
    let mut world = world(guarded, true);
    play(&mut world, &[((0, 8), (0, 0)), ((0, 8), (2, 0)), ((0, 8), (2, 0))], 30 * MINUTE);
    assert_eq!(held(&world), [(GUEST, 6), (RIVAL, 2)].into());
    let orders = placed(&world);
    assert_eq!(orders.iter().map(|(.., units)| units).sum::<u32>(), 2);
    world.advance(240 * MINUTE);
    assert_eq!(placed(&world), orders, "constant needs order nothing more");
    assert_eq!(held(&world), [(GUEST, 6), (RIVAL, 2)].into());
}

#[test]
fn no_unit_is_taken_that_is_worth_as_much_where_it_is() {
    let mut world = world(unguarded, false);
    play(&mut world, &[((8, 0), (0, 0)), ((8, 0), (8, 0)), ((8, 0), (8, 8))], 30 * MINUTE);
    assert_eq!((placed(&world), held(&world)[&GUEST]), (Vec::new(), 8));
}

#[test]
fn a_claim_that_comes_and_goes_takes_nothing_as_long_as_it_has_to_last() {
    // It claims for one minute of each four.
    let flutter: Vec<_> =
        (0..40).map(|round| ((0, 8), (if round % 4 == 0 { 8 } else { 0 }, 0))).collect();
    let mut calm = world(guarded, false);
    play(&mut calm, &flutter, MINUTE);
    assert_eq!(placed(&calm), []);
    // Without that guard it does.
    let mut nervous = world(unguarded, false);
    play(&mut nervous, &flutter, MINUTE);
    assert_ne!(placed(&nervous), []);
}

#[test]
fn waves_move_no_more_than_the_budget_and_no_unit_before_it_was_held_for_a_while() {
    let mut world = world(guarded, false);
    play(&mut world, &antiphase(24), 15 * MINUTE);
    let orders = placed(&world);
    assert!(!orders.is_empty());
    assert!(most_in(&orders, Span::HOUR) <= STOCK / 4, "{orders:?}");
    // Without a budget more is moved.
    let mut nervous = self::world(unguarded, false);
    play(&mut nervous, &antiphase(24), 15 * MINUTE);
    assert!(most_in(&placed(&nervous), Span::HOUR) > STOCK / 4);
}

#[test]
fn units_of_a_service_that_is_not_seen_stay_where_they_are() {
    let mut world = world(unguarded, true);
    play(&mut world, &[((0, 8), (0, 0))], 30 * MINUTE);
    let (kpis, busy) = (Kpis::default(), BTreeMap::new());
    let gone = ServiceCommand::Report {
        service: service(),
        kpis,
        seen: Found::Failed,
        busy,
        members: Members::default(),
    };
    world.command(GUEST, Command::Service(gone));
    report(&mut world, RIVAL, (8, 0));
    world.advance(60 * MINUTE);
    assert_eq!((placed(&world), held(&world)[&GUEST]), (Vec::new(), 8));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// Whatever is claimed, the bounds hold; and once the needs stay as they are, everything rests, with no claim
    /// that is worth more than a use.
    #[test]
    fn whatever_services_say_moves_are_bounded_and_end(
        wants in prop::collection::vec(((0_u32..9, 0_u32..9), (0_u32..9, 0_u32..9)), 1..12),
        every in 1_i64..40,
    ) {
        let mut world = world(guarded, false);
        play(&mut world, &wants, every * MINUTE);
        prop_assert!(most_in(&placed(&world), Span::HOUR) <= STOCK / 4);
        // All units move within the budget in four hours.
        let end = i64::try_from(wants.len()).unwrap() * every;
        world.advance((end + 8 * 60) * MINUTE);
        let (orders, had) = (placed(&world), held(&world));
        world.advance((end + 14 * 60) * MINUTE);
        prop_assert_eq!(placed(&world), orders);
        let (of_guest, of_rival) = (had[&GUEST], had[&RIVAL]);
        prop_assert_eq!(held(&world), had);
        let (guest, rival) = wants.last().unwrap();
        let urgencies = |(high, low): &(u32, u32), other: u32| {
            let mut all = vec![60; *high as usize];
            all.extend(vec![other; *low as usize]);
            all
        };
        let (guest, rival) = (urgencies(guest, 20), urgencies(rival, 30));
        let used = |all: &[u32], had: u32| all.get(had.wrapping_sub(1) as usize).copied().unwrap_or(0);
        let claimed = |all: &[u32], had: u32| all.get(had as usize).copied().unwrap_or(0);

        prop_assert!(claimed(&guest, of_guest) <= used(&rival, of_rival).max(u32::from(of_rival == 0) * 60));
        prop_assert!(claimed(&rival, of_rival) <= used(&guest, of_guest).max(u32::from(of_guest == 0) * 60));
    }
}

#[test]
fn an_order_that_is_only_advised_is_recorded_once_and_takes_nothing() {
    let mut world = world(advising, true);
    let had = [(GUEST, 8), (RIVAL, 0)].into();
    let wants = [((0, 8), (0, 0)), ((0, 8), (2, 0)), ((0, 8), (2, 0)), ((0, 8), (3, 0))];
    play(&mut world, &wants, 20 * MINUTE);
    assert_eq!((placed(&world), held(&world)), (Vec::new(), had));
    let advised = |world: &World| -> Vec<Vec<u32>> {
        let facts = world.facts(BROKER);
        let advised = facts.iter().filter_map(|entry| {
            let Fact::Broker(BrokerFact::OrdersAdvised(fact)) = &entry.fact else { return None };
            Some(fact.orders.iter().map(|order| order.units.get()).collect())
        });
        advised.collect()
    };
    assert_eq!(advised(&world), [[2], [3]]);
    assert!(!world.facts(BROKER).iter().any(|e| e.fact.kind().0 == "broker.recall-asked"));
    assert_eq!(world.broker().advised_orders().len(), 1);
    // It is known after a crash, and over once nothing is claimed any more.
    world.restart(BROKER);
    assert_eq!(world.broker().advised_orders().len(), 1);
    report(&mut world, RIVAL, (0, 0));
    world.advance(90 * MINUTE);
    assert_eq!(world.broker().advised_orders(), []);
    assert_eq!(advised(&world), [vec![2], vec![3], vec![]]);
}

#[test]
fn services_that_claim_the_same_take_turns_as_units_grow_old_within_the_bounds() {
    let all = [((8, 0), (0, 0)), ((8, 0), (8, 0))];
    let mut constant = world(guarded, false);
    play(&mut constant, &all, 30 * MINUTE);
    constant.advance(12 * 60 * MINUTE);
    assert_eq!(placed(&constant), [], "by urgency alone nothing moves");
    let mut world = world(aging, true);
    play(&mut world, &all, 30 * MINUTE);
    world.advance(12 * 60 * MINUTE);
    let orders = placed(&world);
    assert!(orders.len() > 4, "{orders:?}");
    assert!(most_in(&orders, Span::HOUR) <= STOCK / 4, "{orders:?}");
    assert!(taken_from(&world, GUEST) && taken_from(&world, RIVAL), "they take turns");
}

#[test]
fn a_policy_sees_how_many_units_services_have_by_state_and_by_what_they_are_like() {
    fn by_number() -> Box<dyn BrokerMapper> {
        let zero = Span::ZERO;
        let recalls =
            Recalls { min_tenure: zero, budget: None, stable_for: zero, ..Recalls::default() };
        Box::new(Urgency::new(Fewest).with_recalls(recalls))
    }
    let mut world = world(by_number, true);
    play(&mut world, &[((8, 0), (0, 0)), ((8, 0), (8, 0)), ((8, 0), (8, 0))], 30 * MINUTE);
    assert_eq!(held(&world), [(GUEST, 4), (RIVAL, 4)].into());
}

#[test]
fn no_unit_is_taken_before_it_was_held_for_the_tenure() {
    let mut world = world(guarded, false);
    // The rival claims as soon as the guest has all.
    play(&mut world, &[((0, 8), (0, 0)), ((0, 8), (8, 0)), ((0, 8), (8, 0))], 4 * MINUTE);
    let orders = placed(&world);
    assert!(!orders.is_empty());
    // The guest has its units from the first minute on.
    let early = Time::from_secs(10 * MINUTE);
    assert!(orders.iter().all(|(_, due, _)| early <= *due), "{orders:?}");
}

#[test]
fn services_that_come_and_go_leave_room_for_others() {
    let mut world = world(guarded, false);
    world.auditor = None;
    let most = tenure_core::broker::needs::MAX_OF_ONE;
    let need = |service: usize, revision, wants: &[Want]| {
        let service = Name::new(&format!("service-{service}")).unwrap();
        letter(RIVAL, BROKER, Message::Need(Need { service, revision, wants: wants.to_vec() }))
    };
    let kind = Kind { resource: Name::literal("node"), requirement: None };
    let want = Want { kind, steps: Steps::default(), tickets: Vec::new(), elsewhere: 0 };
    let known =
        |world: &World| world.broker().needs().filter(|(id, _)| id.guest == id_of(RIVAL)).count();
    // Those that want nothing any more are remembered, but as many as there is room for.
    for service in 0..most + 5 {
        let revision = 1000 + service as u64;
        world.deliver(BROKER, &need(service, revision, &[]));
    }
    assert_eq!(known(&world), most);
    // One that wants something takes the place of one of them.
    let out = world.deliver(BROKER, &need(9999, 1, &[want]));
    assert!(out.problems.is_empty(), "{:?}", out.problems);
    assert_eq!(known(&world), most);
}
