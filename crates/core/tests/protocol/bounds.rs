//! Bounds: whatever is written can be read again, and whatever is said fits into a message.

use tenure_core::codec::MAX_BYTES;
use tenure_core::driver::{Step, UnitId};
use tenure_core::effect::{Command, Done, Input};
use tenure_core::mapper::Decision;
use tenure_core::mapper::broker::{self, Choice, Verdict};
use tenure_core::mapper::service_manager::Ask;
use tenure_core::mapper::site_authority::{self, Assignment};
use tenure_core::property::Properties;
use tenure_core::refusal::Refusal;
use tenure_core::slice::RequestId;

use crate::common::world::{Reaction, Scene};
use crate::common::{BROKER, GUEST, HOUR, RIVAL, SITE, cut, id, letter, redeem, term, wish};

fn long() -> String {
    "x".repeat(MAX_BYTES + 1)
}

#[test]
fn a_broker_survives_a_mapper_that_says_at_length_why() {
    let mut world = Scene::default().open();
    world.undecided.insert(BROKER);
    world.ask(GUEST, wish(2, 0, HOUR));
    let round = world.broker().view(world.now).unwrap().round();
    let request = RequestId { origin: id(GUEST), number: 1 };
    let verdict = Verdict::Refuse(Refusal::Malformed(long()));
    let choices = vec![Choice { request, verdict, reason: long() }];
    let decision = broker::Decision { round, choices, ..broker::Decision::default() };
    world.hand(BROKER, Input::Decision(Decision::Broker(decision)));
    world.restart(BROKER);
}

#[test]
fn a_site_survives_a_mapper_that_says_at_length_why() {
    let mut world = Scene::default().open();
    world.undecided.insert(SITE);
    let lease = world.ask(GUEST, wish(1, 0, HOUR));
    let lease = world.ticket(GUEST, lease).hash();
    let round = world.site().view(world.now).unwrap().round();
    let assignments = vec![Assignment { lease, units: vec![UnitId(0)], reason: long() }];
    let decision =
        site_authority::Decision { round, assignments, ..site_authority::Decision::default() };
    world.hand(SITE, Input::Decision(Decision::SiteAuthority(decision)));
    world.restart(SITE);
}

#[test]
fn a_guest_survives_a_mapper_that_says_at_length_why() {
    let mut world = Scene::default().open();
    let ask = Ask { reason: long(), ..wish(1, 0, HOUR) };
    world.command(GUEST, Command::Ask(ask));
    world.restart(GUEST);
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
    let _ = world.facts(SITE);
}

/// Four units with as many and as long properties as are allowed do not fit into one message.
#[test]
fn a_guest_hears_that_the_properties_of_its_units_are_too_long() {
    let mut world = Scene::default().open();
    world.driver = |call| if call.step == Step::Setup { Reaction::Waits } else { Reaction::Works };
    let lease = world.ask(GUEST, wish(4, 0, HOUR));
    let long: std::collections::BTreeMap<_, _> = (0..Properties::MAX_COUNT)
        .map(|n| (format!("k{n}").parse().unwrap(), "x".repeat(Properties::MAX_VALUE)))
        .collect();
    let properties = Properties::try_from(long).unwrap();
    for (_, call) in std::mem::take(&mut world.waiting) {
        let done = Done {
            unit: call.unit,
            epoch: call.epoch,
            step: call.step,
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
