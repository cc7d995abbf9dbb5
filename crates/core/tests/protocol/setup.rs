//! Leases that lack units and are never looked at again.

use tenure_core::driver::{Call, Step, UnitId};
use tenure_core::site_authority::mapper::{Assignment, Decision, SiteAuthorityMapper, View};

use crate::common::world::{Reaction, Scene};
use crate::common::{GUEST, HOUR, RIVAL, SITE, ask_for, units};

/// Puts leases on clean units alone, as a mapper may.
struct CleanOnly;

impl SiteAuthorityMapper for CleanOnly {
    fn decide(&self, view: &View) -> Decision {
        let assignments = view.waiting().filter_map(|waiting| {
            let units: Vec<_> =
                view.free_units(&waiting.resource).take(waiting.lacks as usize).collect();
            let (lease, reason) = (waiting.lease, String::new());
            (!units.is_empty()).then_some(Assignment { lease, units, reason })
        });
        Decision {
            round: view.round(),
            assignments: assignments.take(1).collect(),
            ..Decision::default()
        }
    }
}

/// The unit that the lease waits for is lost without ever having been assigned to it: it is not retried.
#[test]
fn a_lease_that_waits_for_a_unit_that_cannot_be_cleaned_is_closed_when_it_is_the_last() {
    let site_mapper = || Box::new(CleanOnly) as Box<dyn SiteAuthorityMapper>;
    let mut world = Scene { stock: 1, site_mapper, ..Scene::default() }.open();
    world.ask(GUEST, ask_for(1, 0, HOUR));
    world.driver =
        |call| if call.step == Step::Teardown { Reaction::Waits } else { Reaction::Works };
    world.advance(HOUR);
    let next = world.ask(RIVAL, ask_for(1, HOUR, HOUR));
    let call = world.waiting.remove(0);
    world.answer(call, false);
    world.run();
    assert_eq!(world.units_in("Quarantined"), 1);
    assert_eq!(world.state(RIVAL, next), "Closed");
}

/// `settle` looks at the clock now, `activate_or_fail_short` does not.
#[test]
fn an_elastic_lease_is_not_activated_after_its_term_by_a_late_mapper() {
    let mut world = Scene::default().open();
    world.driver = |call| match (call.unit, call.step) {
        (UnitId(3), _) => Reaction::Fails,
        (_, Step::Setup) => Reaction::Waits,
        _ => Reaction::Works,
    };
    let mut ask = ask_for(4, 0, HOUR);
    ask.items[0].min_units = units(3);
    world.ask(GUEST, ask);
    world.now = crate::common::at(HOUR);
    for call in std::mem::take(&mut world.waiting) {
        world.answer(call, true);
    }
    world.run();
    assert_eq!(world.count(SITE, "site.lease-activated"), 0);
}

#[test]
fn a_unit_that_is_clean_but_never_comes_up_is_not_tried_for_ever() {
    let mut world = Scene::default().open();
    world.driver = |call: &Call| {
        if call.unit == UnitId(3) && call.step == Step::Setup {
            Reaction::Fails
        } else {
            Reaction::Works
        }
    };
    let mut ask = ask_for(4, 0, HOUR);
    ask.items[0].min_units = units(3);
    let lease = world.ask(GUEST, ask);
    assert_eq!(world.state(GUEST, lease), "Active");
}

/// The mapper is slow: the failed unit is clean again before it decides.
#[test]
fn a_unit_that_never_comes_up_is_replaced_by_a_good_one_also_by_a_slow_mapper() {
    let mut world = Scene::default().open();
    world.driver = |call: &Call| match (call.unit, call.step) {
        (UnitId(0), Step::Setup) => Reaction::Waits,
        _ => Reaction::Works,
    };
    let lease = world.ask(GUEST, ask_for(1, 0, HOUR));
    for _ in 0..20 {
        let Some(call) = world.waiting.pop() else { break };
        world.undecided.insert(SITE);
        world.answer(call, false);
        world.run();
        world.undecided.clear();
        world.run();
    }
    assert_eq!(world.state(GUEST, lease), "Active", "3 good units are free");
}
