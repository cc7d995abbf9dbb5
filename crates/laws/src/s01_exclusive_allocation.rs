//! S1: no unit is on two leases.

use std::collections::BTreeSet;

use super::{Check, Law, Scene, Tally, LawVerdict};
use tenure_core::site_authority::facts::{Fact, ShareAssigned, UnitsAssigned};
use tenure_core::site_authority::machine::State;
use tenure_core::ticket::link::LinkHash;

pub(super) const LAW: Law = Law {
    id: "S1",
    name: "exclusive allocation",
    statement: "No unit is on two leases of its site at once. Only a lease whose term has begun \
                and has not ended gets units, of its type and at most as many as its ticket \
                names; only a free unit or one being cleaned is assigned, and none that its ticket excludes. A lease of a divisible stock gets one \
                share of it, and all shares that exist, those being cleaned among them, fit into the stock.",
    source: "mutual exclusion; Shirako S14, Hedeby H02",
    on: "facts of sites",
};

#[derive(Default)]
pub(super) struct Checker;

impl Check for Checker {
    fn site(&mut self, scene: &Scene<'_>, fact: &Fact, tally: &mut Tally) -> LawVerdict {
        match fact {
            Fact::UnitsAssigned(fact) => {
                lease_wants_units(scene, fact.lease, fact.units.len(), tally)?;
                units_can_be_had(scene, fact, tally)
            }
            Fact::ShareAssigned(fact) => {
                lease_wants_units(scene, fact.lease, 1, tally)?;
                share_fits(scene, fact, tally)
            }
            _ => Ok(()),
        }
    }
}

fn share_fits(scene: &Scene<'_>, fact: &ShareAssigned, tally: &mut Tally) -> LawVerdict {
    let Some(site) = scene.model.sites.get(&scene.actor) else { return Ok(()) };
    let Some(lease) = site.leases.get(&fact.lease) else { return Ok(()) };
    let link = lease.tickets[0].bottom();
    tally.check(lease.state.units().is_empty() && fact.quantity <= link.units, || {
        let (name, quantity) = (scene.name(), fact.quantity);
        format!("{name} makes a share of {quantity} for lease {}, of {}", fact.lease, link.units)
    })?;
    let all = site.quantities.get(&link.resource).copied().unwrap_or(0);
    let taken = site.shared(&link.resource) + u64::from(fact.quantity.get());
    tally.check(taken <= u64::from(all), || {
        let (name, resource) = (scene.name(), &link.resource);
        format!("the shares of `{resource}` of {name} take up {taken} of {all}")
    })
}

fn lease_wants_units(
    scene: &Scene<'_>,
    lease: LinkHash,
    more: usize,
    tally: &mut Tally,
) -> LawVerdict {
    let name = scene.name();
    let record = scene.model.sites.get(&scene.actor).and_then(|site| site.leases.get(&lease));
    let word = record.map_or("unknown", |record| record.word());
    let wants = record.is_some_and(|r| matches!(r.state, State::Due | State::Priming { .. }));
    tally.check(wants, || format!("{name} puts units on lease {lease}, which is {word}"))?;
    let Some(record) = record else { return Ok(()) };
    let (held, wanted) = (record.state.units().len(), record.tickets[0].bottom().units.get());
    tally.check(held + more <= wanted as usize, || {
        format!("{name} puts {more} units on lease {lease}, which has {held} of {wanted}")
    })
}

fn units_can_be_had(scene: &Scene<'_>, fact: &UnitsAssigned, tally: &mut Tally) -> LawVerdict {
    let Some(site) = scene.model.sites.get(&scene.actor) else { return Ok(()) };
    let link = site.leases.get(&fact.lease).map(|lease| lease.tickets[0].bottom());
    let resource = link.map(|link| &link.resource);
    let excluded = link.map(|link| &link.clauses.not_on);
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
        let others =
            link.is_some_and(|link| !link.constraints.allow_unit(&unit.to_string()));
        tally.check(!others && !excluded.is_some_and(|excluded| excluded.contains(&unit)), || {
            format!("{} is put on lease {}, which excludes it", name(), fact.lease)
        })?;
        tally.check(resource == Some(&record.resource), || {
            format!("{} is put on lease {} of another type", name(), fact.lease)
        })?;
    }
    Ok(())
}
