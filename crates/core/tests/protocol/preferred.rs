//! Units that guests prefer, and which the site's mapper exchanges for others.

use std::collections::BTreeSet;

use tenure_core::driver::UnitId;
use tenure_core::mapper::first_fit::FirstFit;
use tenure_core::mapper::prefer::{PREFERRED, Preferring};
use tenure_core::model::slice::LeaseId;
use tenure_core::service_manager::mapper::Ask;

use crate::common::world::{Scene, World};
use crate::common::{GUEST, HOUR, RIVAL, ask_for, properties};

/// A site with six units, at which guests may prefer units.
fn world() -> World {
    let site_mapper = || Box::new(Preferring(Box::new(FirstFit {}))) as Box<_>;
    Scene { stock: 6, site_mapper, ..Scene::default() }.open()
}

/// A lease of so many units by a guest that would rather have these.
fn prefer(world: &mut World, who: u8, count: u32, preferred: &str) -> LeaseId {
    let configuration = properties(PREFERRED, preferred);
    world.ask(who, Ask { configuration, ..ask_for(count, 0, HOUR) })
}

fn units(world: &World, who: u8, lease: LeaseId) -> BTreeSet<UnitId> {
    let ticket = world.ticket(who, lease);
    world.site().lease(ticket.hash()).map(|state| state.units()).unwrap().into_iter().collect()
}

fn ids<const N: usize>(numbers: [u32; N]) -> BTreeSet<UnitId> {
    numbers.map(UnitId).into()
}

#[test]
fn preferred_units_are_had_where_they_are_free_and_as_many_as_ever() {
    let mut world = world();
    let first = prefer(&mut world, GUEST, 2, "u4 u1");
    assert_eq!(units(&world, GUEST, first), ids([1, 4]));
    let taken = prefer(&mut world, RIVAL, 2, "u4 u5");
    assert_eq!(units(&world, RIVAL, taken), ids([0, 5]), "one is taken");
}

#[test]
fn words_that_name_no_unit_are_passed_over() {
    let mut world = world();
    let lease = prefer(&mut world, GUEST, 2, "u99 3 ux u u3 u3 north/u5");
    assert_eq!(units(&world, GUEST, lease), ids([0, 3]));
    let none = prefer(&mut world, RIVAL, 1, "");
    assert_eq!(units(&world, RIVAL, none), ids([1]));
}

#[test]
fn fewer_units_than_are_preferred_are_the_first_ones_named() {
    let mut world = world();
    let lease = prefer(&mut world, GUEST, 1, "u5 u4 u3");
    assert_eq!(units(&world, GUEST, lease), ids([5]));
}
