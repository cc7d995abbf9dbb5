//! Bounds: everything written can be read again, and every answer fits into a message.

use tenure_core::actor::Actor as _;
use tenure_core::actor::effect::{DriverResult, Problem};
use tenure_core::broker::mapper::{self as broker, Choice, Verdict};
use tenure_core::driver::{Step, UnitId};
use tenure_core::runtime::{Decision, Input};
use tenure_core::runtime::{Entry, Fact};
use tenure_core::service_manager::Command as GuestCommand;

use tenure_core::model::codec::MAX_BYTES;
use tenure_core::model::property::Properties;
use tenure_core::model::slice::{LeaseId, RequestId};
use tenure_core::service_manager::facts as guest_facts;
use tenure_core::service_manager::mapper::Ask;
use tenure_core::site_authority::facts as site_facts;
use tenure_core::site_authority::mapper::{self as site_authority, Assignment};
use tenure_core::wire::message::{Envelope, Message, Subject};
use tenure_core::wire::refusal::Refusal;

use crate::common::world::{Reaction, Scene, World};
use crate::common::{
    BROKER, GUEST, HOUR, RIVAL, SITE, ask_for, cut, id, letter, properties, redeem, term,
};

fn long() -> String {
    "x".repeat(MAX_BYTES + 1)
}

#[test]
fn a_broker_survives_a_mapper_that_says_at_length_why() {
    let mut world = Scene::default().open();
    world.undecided.insert(BROKER);
    world.ask(GUEST, ask_for(2, 0, HOUR));
    let round = world.broker().view(world.now).unwrap().round();
    let request = RequestId { origin: id(GUEST), number: 1 };
    let verdict = Verdict::Refuse { refusal: Refusal::Malformed(long()), offers: Vec::new() };
    let choices = vec![Choice { request, verdict, reason: long() }];
    let decision = broker::Decision { round, choices, ..broker::Decision::default() };
    world.hand(BROKER, Input::Decision(Decision::Broker(decision)));
    assert!(matches!(&world.problems[..], [Problem::BadChoice(_)]), "{:?}", world.problems);
    assert_eq!(world.count(BROKER, "broker.request-refused"), 0, "the choice is lost");
    assert_eq!(world.broker().view(world.now).map(|view| view.round()), None, "the round is over");
    world.restart(BROKER);
    // No decision follows: the request ends by its deadline.
    world.advance(3 * HOUR);
    assert_eq!(world.state(GUEST, LeaseId { number: 1, part: 0 }), "forgotten");
    assert_eq!(world.broker().unfinished(100), Vec::<String>::new());
    assert_eq!(world.free_at(4 * HOUR), 4, "nothing was sold");
}

#[test]
fn a_site_survives_a_mapper_that_says_at_length_why() {
    let mut world = Scene::default().open();
    world.undecided.insert(SITE);
    let lease = world.ask(GUEST, ask_for(1, 0, HOUR));
    let lease = world.ticket(GUEST, lease).hash();
    let round = world.site().view(world.now).unwrap().round();
    let assignments = vec![Assignment { lease, units: vec![UnitId(0)], reason: long() }];
    let decision =
        site_authority::Decision { round, assignments, ..site_authority::Decision::default() };
    world.hand(SITE, Input::Decision(Decision::SiteAuthority(decision)));
    assert_eq!(world.problems, []);
    assert_eq!(world.site().view(world.now).map(|view| view.round()), None, "the round is over");
    let reasons: Vec<usize> = world.facts(SITE).iter().filter_map(assigned).collect();
    assert_eq!(reasons, [1000], "the unit is assigned, and the reason cut short");
    world.restart(SITE);
    world.run();
    assert_eq!((world.at_site(lease), world.units_in("Ready")), ("Active", 1));
}

/// How long the reason of an assignment is.
fn assigned(entry: &Entry) -> Option<usize> {
    let Fact::SiteAuthority(site_facts::Fact::UnitsAssigned(fact)) = &entry.fact else {
        return None;
    };
    Some(fact.reason.len())
}

#[test]
fn a_guest_survives_a_mapper_that_says_at_length_why() {
    let mut world = Scene::default().open();
    let ask = Ask { reason: long(), ..ask_for(1, 0, HOUR) };
    world.command(GUEST, GuestCommand::Ask(ask));
    let asked = world.facts(GUEST).into_iter().find_map(|entry| match entry.fact {
        Fact::ServiceManager(guest_facts::Fact::Asked(fact)) => Some(fact.reason.len()),
        Fact::ServiceManager(_) | Fact::Broker(_) | Fact::SiteAuthority(_) => None,
    });
    assert_eq!(asked, Some(1000), "the request is made, and the reason cut short");
    world.restart(GUEST);
    world.run();
    assert_eq!(world.state(GUEST, LeaseId { number: 1, part: 0 }), "Active");
}

/// More than a configuration may take, in values that are short enough each.
fn long_configuration() -> Properties {
    let values = (0..3).map(|n| (format!("k{n}").parse().unwrap(), "x".repeat(4000)));
    Properties::try_from(values.collect::<std::collections::BTreeMap<_, _>>()).unwrap()
}

#[test]
fn a_configuration_that_is_too_long_is_refused_by_the_guest_and_by_the_site() {
    let mut world = Scene::default().open();
    let ask = Ask { configuration: long_configuration(), ..ask_for(1, 0, HOUR) };
    world.command(GUEST, GuestCommand::Ask(ask));
    let refused = |problem: &Problem| problem.to_string().contains("configuration");
    assert!(world.problems.last().is_some_and(refused), "{:?}", world.problems);
    assert_eq!(world.count(GUEST, "service-manager.asked"), 0);
    // A guest that does not keep to it.
    let ticket = cut(&world.delegation(), BROKER, GUEST, 1, term(0, HOUR), 900);
    let Message::Redeem { ticket, lease, slice, min_units, .. } = redeem(&ticket) else {
        unreachable!()
    };
    let configuration = long_configuration();
    let shown = Message::Redeem {
        ticket: ticket.clone(),
        lease,
        slice,
        min_units,
        configuration,
        victims: Vec::new(),
    };
    let out = world.deliver(SITE, &letter(GUEST, SITE, shown));
    assert_eq!(out.facts, []);
    let [Envelope { message: Message::Refused { subject, refusal, .. }, .. }] = &out.replies[..]
    else {
        panic!("{:?}", out.replies)
    };
    assert_eq!(*subject, Subject::Ticket(ticket.hash()));
    assert!(matches!(refusal, Refusal::Malformed(cause) if cause.contains("configuration")));
    // The ticket is as good as before.
    world.deliver(SITE, &letter(GUEST, SITE, redeem(&ticket)));
    world.run();
    assert_eq!(world.at_site(ticket.hash()), "Active");
}

#[test]
fn a_site_keeps_a_configuration_once_and_no_longer_than_its_units_are_in_use() {
    let mut world = Scene { stock: 64, ..Scene::default() }.open();
    world.driver =
        |call| if call.step == Step::Teardown { Reaction::Waits } else { Reaction::Works };
    let script = "what the driver is told about every unit";
    let configuration = properties("script", script);
    let lease =
        world.ask(GUEST, Ask { configuration: configuration.clone(), ..ask_for(64, 0, HOUR) });
    let copies = |world: &World| {
        let state = world.actor(SITE).snapshot();
        state.windows(script.len()).filter(|bytes| *bytes == script.as_bytes()).count()
    };
    assert_eq!((world.units_in("Ready"), copies(&world)), (64, 1));
    world.command(GUEST, GuestCommand::Close { lease });
    assert_eq!((world.units_in("TearingDown"), copies(&world)), (64, 1));
    world.restart(SITE);
    world.run();
    let mut waiting = std::mem::take(&mut world.waiting);
    let last = waiting.pop().unwrap();
    assert!(waiting.iter().all(|(_, call)| call.properties == configuration));
    for call in waiting {
        world.answer(call, true);
    }
    assert_eq!((world.units_in("Free"), copies(&world)), (63, 1));
    world.answer(last, true);
    assert_eq!((world.units_in("Free"), copies(&world)), (64, 0));
}

/// Evidence names a link for each unit: some thousands of small tickets make it longer than a fact.
#[test]
fn a_site_survives_long_evidence() {
    let many = 5000;
    let mut world = Scene { stock: many, ..Scene::default() }.open();
    world.driver = |_| Reaction::Waits;
    world.undecided.insert(SITE);
    let held = world.delegation();
    for serial in 0..u64::from(many) {
        let ticket = cut(&held, BROKER, GUEST, 1, term(0, HOUR), 1000 + serial);
        world.deliver(SITE, &letter(GUEST, SITE, redeem(&ticket)));
    }
    let last = cut(&held, BROKER, RIVAL, 1, term(0, HOUR), 999_999);
    world.deliver(SITE, &letter(RIVAL, SITE, redeem(&last)));
    assert_eq!(world.count(SITE, "site.ticket-refused"), 1);
    // All of it can be read again, and gives the same state.
    world.restart(SITE);
}

/// Four units with as many and as long properties as are allowed do not fit into one message.
#[test]
fn a_guest_hears_that_the_properties_of_its_units_are_too_long() {
    let mut world = Scene::default().open();
    world.driver = |call| if call.step == Step::Setup { Reaction::Waits } else { Reaction::Works };
    let lease = world.ask(GUEST, ask_for(4, 0, HOUR));
    let long: std::collections::BTreeMap<_, _> = (0..Properties::MAX_COUNT)
        .map(|n| (format!("k{n}").parse().unwrap(), "x".repeat(Properties::MAX_VALUE)))
        .collect();
    let properties = Properties::try_from(long).unwrap();
    for (_, call) in std::mem::take(&mut world.waiting) {
        let done = DriverResult {
            unit: call.unit,
            epoch: call.epoch,
            step: call.step,
            number: call.number,
            lease: call.lease,
            outcome: Ok(properties.clone()),
        };
        world.hand(SITE, Input::Driver(done));
        world.run();
    }
    assert_eq!(world.count(SITE, "site.lease-activated"), 0);
    assert_eq!(world.state(GUEST, lease), "Closed");
    assert_eq!(world.free_at(0), 4, "the broker can sell them again");
}
