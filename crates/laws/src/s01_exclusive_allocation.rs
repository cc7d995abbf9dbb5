//! S1: no unit is on two leases.

use std::collections::BTreeSet;

use super::{Check, Law, Scene, Tally, LawVerdict};
use tenure_core::site_authority::facts::{Fact, UnitsAssigned};
use tenure_core::site_authority::machine::State;

pub(super) const LAW: Law = Law {
    id: "S1",
    name: "exclusive allocation",
    statement: "No unit is on two leases of its site at once. Only a lease whose term has begun \
                and has not ended gets units, of its type and at most as many as its ticket \
                names; only a free unit or one being cleaned is assigned.",
    source: "mutual exclusion; Shirako S14, Hedeby H02",
    on: "facts of sites",
};

#[derive(Default)]
pub(super) struct Checker;

impl Check for Checker {
    fn site(&mut self, scene: &Scene<'_>, fact: &Fact, tally: &mut Tally) -> LawVerdict {
        let Fact::UnitsAssigned(fact) = fact else { return Ok(()) };
        lease_wants_units(scene, fact, tally)?;
        units_can_be_had(scene, fact, tally)
    }
}

fn lease_wants_units(scene: &Scene<'_>, fact: &UnitsAssigned, tally: &mut Tally) -> LawVerdict {
    let (name, lease) = (scene.name(), fact.lease);
    let record = scene.model.sites.get(&scene.actor).and_then(|site| site.leases.get(&lease));
    let word = record.map_or("unknown", |record| record.word());
    let wants = record.is_some_and(|r| matches!(r.state, State::Due | State::Priming { .. }));
    tally.check(wants, || format!("{name} puts units on lease {lease}, which is {word}"))?;
    let Some(record) = record else { return Ok(()) };
    let (held, wanted) = (record.state.units().len(), record.tickets[0].bottom().units.get());
    let more = fact.units.len();
    tally.check(held + more <= wanted as usize, || {
        format!("{name} puts {more} units on lease {lease}, which has {held} of {wanted}")
    })
}

fn units_can_be_had(scene: &Scene<'_>, fact: &UnitsAssigned, tally: &mut Tally) -> LawVerdict {
    let Some(site) = scene.model.sites.get(&scene.actor) else { return Ok(()) };
    let resource = site.leases.get(&fact.lease).map(|lease| &lease.tickets[0].bottom().resource);
    let mut seen = BTreeSet::new();
    for &unit in &fact.units {
        let name = || scene.model.unit(scene.actor, unit);
        let Some(record) = site.units.get(&unit) else {
            return tally.check(false, || format!("{} does not exist", name()));
        };
        let (once, tenant) = (seen.insert(unit), record.state.tenant());
        tally.check(once && tenant.is_none() && record.state.assignable(), || {
            let word = record.state.word();
            let on = tenant.map_or_else(String::new, |tenant| format!(" on lease {tenant}"));
            format!("{} is {word}{on} and is put on lease {}", name(), fact.lease)
        })?;
        tally.check(resource == Some(&record.resource), || {
            format!("{} is put on lease {} of another type", name(), fact.lease)
        })?;
    }
    Ok(())
}
