//! Quotas: what one guest may have of a broker.

use std::collections::BTreeMap;

use tenure_core::broker::quota::Quota;
use tenure_core::broker::rules::Source;
use tenure_core::broker::{Broker, Command};
use tenure_core::model::time::Span;
use tenure_core::runtime::Input;
use tenure_core::service_manager::Command as GuestCommand;
use tenure_core::wire::message::Message;
use tenure_core::wire::refusal::{Allowance, Refusal};

use crate::common::world::{Scene, World};
use crate::common::{BROKER, GUEST, HOUR, RIVAL, ask_for, id, letter, request};

const UNITS: Quota = Quota { units: Some(2), ..NONE };
const NONE: Quota = Quota {
    units: None,
    unit_hours: None,
    period: None,
    open_requests: None,
    holds: None,
    requests_per_second: None,
};

fn set(world: &mut World, whose: Option<u8>, quota: Option<Quota>) {
    let command = Command::SetQuota { whose: whose.map(id), quota };
    world.hand(BROKER, Input::Command(command.into()));
    world.run();
}

/// A world in which the guest has this quota.
fn limited(quota: Quota) -> World {
    let mut world = Scene { suspicious: true, audited: true, ..Scene::default() }.open();
    set(&mut world, Some(GUEST), Some(quota));
    world
}

/// The last refusal: what was limited, the limit, and what there would have been.
fn refused(world: &World) -> (Allowance, u64, u64) {
    let refused = world.sent("refused").last().cloned().unwrap();
    let Message::Refused { refusal, .. } = refused.peek().unwrap().message else { panic!() };
    let Refusal::Quota { of, most, would, .. } = refusal else { panic!("{refusal}") };
    (of, most, would)
}

#[test]
fn a_guest_holds_no_more_units_at_a_time_than_its_quota() {
    let mut world = limited(UNITS);
    let first = world.ask(GUEST, ask_for(2, 0, HOUR));
    assert_eq!(world.state(GUEST, first), "Active");
    world.ask(GUEST, ask_for(1, HOUR - 1, HOUR));
    assert_eq!(refused(&world), (Allowance::Units, 2, 3));
    let after = world.ask(GUEST, ask_for(2, HOUR, HOUR));
    assert_eq!(world.state(GUEST, after), "Redeeming", "it begins when the first has ended");
    let other = world.ask(RIVAL, ask_for(2, 0, HOUR));
    assert_eq!(world.state(RIVAL, other), "Active", "others have their own quota, or none");
}

#[test]
fn an_extension_takes_the_place_of_what_it_extends() {
    let mut world = limited(UNITS);
    let lease = world.ask(GUEST, ask_for(2, 0, HOUR));
    world.command(GUEST, GuestCommand::extend(lease, Span::HOUR));
    assert_eq!(world.count(GUEST, "service-manager.extended"), 1);
}

#[test]
fn what_comes_back_may_be_asked_for_again() {
    let mut world = limited(UNITS);
    let lease = world.ask(GUEST, ask_for(2, 0, HOUR));
    world.advance(60);
    world.command(GUEST, GuestCommand::Close { lease });
    let again = world.ask(GUEST, ask_for(2, 60, HOUR));
    assert_eq!(world.state(GUEST, again), "Active");
}

#[test]
fn unit_hours_are_counted_by_the_period_and_less_what_comes_back() {
    let quota = Quota { unit_hours: Some(4), period: Some(Span::DAY), ..NONE };
    let mut world = limited(quota);
    let lease = world.ask(GUEST, ask_for(2, 0, 2 * HOUR));
    world.ask(GUEST, ask_for(1, 0, HOUR));
    assert_eq!(refused(&world), (Allowance::UnitHours, 4, 5));
    world.advance(HOUR);
    world.command(GUEST, GuestCommand::Close { lease });
    let rest = world.ask(GUEST, ask_for(2, HOUR, HOUR));
    assert_eq!(world.state(GUEST, rest), "Active", "two of the four came back");
    world.ask(GUEST, ask_for(1, HOUR, HOUR));
    assert_eq!(refused(&world), (Allowance::UnitHours, 4, 5));
    world.advance(24 * HOUR);
    let lease = world.ask(GUEST, ask_for(4, 24 * HOUR, HOUR));
    assert_eq!(world.state(GUEST, lease), "Active", "a new period has begun");
}

#[test]
fn requests_beyond_the_open_ones_allowed_are_refused() {
    let mut world = limited(Quota { open_requests: Some(1), ..NONE });
    world.undecided.insert(BROKER);
    world.ask(GUEST, ask_for(1, 0, HOUR));
    world.ask(GUEST, ask_for(1, 0, HOUR));
    assert_eq!(refused(&world), (Allowance::OpenRequests, 1, 2));
    let before = world.sent("refused").len();
    world.ask(RIVAL, ask_for(1, 0, HOUR));
    assert_eq!(world.sent("refused").len(), before);
}

#[test]
fn a_request_beyond_the_rate_is_taken_when_it_is_repeated() {
    let mut world = limited(Quota { requests_per_second: Some(2), ..NONE });
    let ask = |number| letter(GUEST, BROKER, Message::Request(request(GUEST, number, 1, 0, HOUR)));
    let answers: Vec<_> = (1..=3)
        .map(|number| world.deliver(BROKER, &ask(number)).replies)
        .filter_map(|replies| Some(replies.first()?.message.clone()))
        .collect();
    let [Message::Refused { refusal: Refusal::Overloaded, .. }] = &answers[..] else {
        panic!("{answers:?}")
    };
    world.advance(1);
    let out = world.deliver(BROKER, &ask(3));
    assert_eq!(out.facts[0].fact.kind().0, "broker.requested");
}

#[test]
fn one_quota_holds_for_all_who_have_none_of_their_own() {
    let mut world = Scene { suspicious: true, ..Scene::default() }.open();
    set(&mut world, None, Some(UNITS));
    set(&mut world, Some(RIVAL), Some(Quota { units: Some(3), ..NONE }));
    world.ask(GUEST, ask_for(3, 0, HOUR));
    assert_eq!(refused(&world), (Allowance::Units, 2, 3));
    let lease = world.ask(RIVAL, ask_for(3, 0, HOUR));
    assert_eq!(world.state(RIVAL, lease), "Active");
    set(&mut world, None, None);
    set(&mut world, Some(RIVAL), Some(NONE));
    let lease = world.ask(GUEST, ask_for(1, 0, HOUR));
    assert_eq!(world.state(GUEST, lease), "Active");
}

#[test]
fn what_is_held_when_the_first_quota_is_set_counts() {
    let mut world = Scene { suspicious: true, ..Scene::default() }.open();
    world.ask(GUEST, ask_for(2, 0, HOUR));
    set(&mut world, Some(GUEST), Some(UNITS));
    world.ask(GUEST, ask_for(1, 0, HOUR));
    assert_eq!(refused(&world), (Allowance::Units, 2, 3));
}

#[test]
fn a_start_puts_changed_quotas_in_force_and_an_operator_prevails() {
    let world = Scene::default().open();
    let rules = |units: Option<u32>| {
        let quota = units.map(|units| Quota { units: Some(units), ..NONE });
        quota.map(|quota| (Some(id(GUEST)), quota)).into_iter().collect::<BTreeMap<_, _>>()
    };
    let shown = |broker: &Broker| {
        let mut quotas = broker.quotas(world.now);
        let own = quotas.find(|quota| quota.whose == Some(id(GUEST))).unwrap();
        (own.quota.units, own.by)
    };
    let start = |broker: &mut Broker| {
        use tenure_core::actor::Actor as _;
        let mut out = Default::default();
        broker.handle(world.now, tenure_core::actor::effect::Input::Start, &mut out);
        out.facts.len()
    };
    let order = |broker: &mut Broker, quota| {
        use tenure_core::actor::Actor as _;
        let command = Command::SetQuota { whose: Some(id(GUEST)), quota };
        let input = tenure_core::actor::effect::Input::Command(command);
        broker.handle(world.now, input, &mut Default::default());
    };
    let mut broker = world.broker().clone().with_quotas(rules(Some(2)));
    assert_eq!(start(&mut broker), 2, "the quota, and the round");
    assert_eq!(shown(&broker), (Some(2), Some(Source::Configuration)));
    assert_eq!(start(&mut broker), 1, "nothing has changed");
    order(&mut broker, Some(UNITS));
    let mut broker = broker.with_quotas(rules(None));
    start(&mut broker);
    assert_eq!(shown(&broker), (Some(2), Some(Source::Operator)));
    order(&mut broker, None);
    assert_eq!(shown(&broker), (None, None));
}
