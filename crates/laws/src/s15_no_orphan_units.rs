//! S15: no unit is lost.

use std::collections::{BTreeMap, BTreeSet};

use super::model::{NOTHING, SiteModel, Subject};
use super::{Change, Check, Law, Observation, Scene, Tally, LawVerdict};
use tenure_core::driver::UnitId;
use tenure_core::site_authority::facts::{Fact, UnitsAssigned};
use tenure_core::model::identity::ActorId;
use tenure_core::site_authority::machine::State;
use tenure_core::site_authority::unit;
use tenure_core::model::name::Name;
use tenure_core::ticket::link::LinkHash;

pub(super) const LAW: Law = Law {
    id: "S15",
    name: "no orphan units",
    statement: "Every unit is exactly one of free, on one lease, being returned, or quarantined, \
                and their counts are the stock. A withdrawn unit was free or quarantined; a share ends when it is cleaned. A drained unit gets no new tenant. A lease that is not active yet loses a unit that fails. A unit \
                on a lease is one that the lease has, and an ended lease has none. A unit is set \
                up for each lease that goes active with it, and cleaned before if it was ever \
                set up. When a site rests, its driver was called for every unit in transition, and for every \
                unit that is to change in use.",
    source: "leak freedom, conservation of the inventory; Shirako S15, S53",
    on: "facts of sites; driver calls, when a site is at rest",
};

#[derive(Default)]
pub(super) struct Checker {
    /// How many units of each type are what, at each site.
    counts: BTreeMap<(ActorId, Name), BTreeMap<&'static str, u32>>,
    /// The units of each site for which a step began and no driver was called yet.
    uncalled: BTreeMap<ActorId, BTreeSet<UnitId>>,
    /// The state of each unit, derived from the facts alone, without a state machine.
    lives: BTreeMap<(ActorId, UnitId), UnitHistory>,
    /// The units on each lease, in the same way.
    on: BTreeMap<(ActorId, LinkHash), BTreeSet<UnitId>>,
}

/// The state of a unit.
#[derive(Default)]
struct UnitHistory {
    /// The lease it is on, or that waits for it.
    tenant: Option<LinkHash>,
    /// The lease it is being set up for.
    setting_up: Option<LinkHash>,
    /// The lease it was set up for last; it has to be cleaned before it is set up again.
    set_up: Option<LinkHash>,
}

/// What a driver did to a unit.
#[derive(Clone, Copy)]
enum Done {
    SetUp,
    SetupFailed,
    TornDown,
    TeardownFailed,
}

impl Check for Checker {
    fn site(&mut self, scene: &Scene<'_>, fact: &Fact, tally: &mut Tally) -> LawVerdict {
        match fact {
            Fact::UnitsAssigned(fact) => self.assigned(scene, fact, tally),
            Fact::UnitFailed(fact) => {
                self.failed(scene, fact.unit);
                Ok(())
            }
            Fact::ShareAssigned(fact) => {
                let life = self.lives.entry((scene.actor, fact.unit)).or_default();
                (life.tenant, life.setting_up) = (Some(fact.lease), Some(fact.lease));
                self.on.entry((scene.actor, fact.lease)).or_default().insert(fact.unit);
                Ok(())
            }
            Fact::ModificationBegun(fact) => {
                self.changing(scene.actor, fact.lease);
                Ok(())
            }
            Fact::QuantityReturned(fact) => {
                self.changing(scene.actor, fact.lease);
                Ok(())
            }
            Fact::ModificationFailed(fact) => {
                self.changing_back(scene, fact.lease);
                Ok(())
            }
            Fact::UnitSetUp(fact) => self.done(scene, fact.unit, Done::SetUp, tally),
            Fact::UnitSetupFailed(fact) => self.done(scene, fact.unit, Done::SetupFailed, tally),
            Fact::UnitTornDown(fact) => self.done(scene, fact.unit, Done::TornDown, tally),
            Fact::UnitTeardownFailed(fact) => {
                self.done(scene, fact.unit, Done::TeardownFailed, tally)
            }
            Fact::LeaseActivated(fact) => self.all_set_up(scene, fact.lease, tally),
            Fact::UnitsReturned(fact) => {
                self.released((scene.actor, fact.lease), &fact.units);
                Ok(())
            }
            Fact::LeaseShrunk(fact) => {
                self.released((scene.actor, fact.lease), &fact.units);
                Ok(())
            }
            Fact::UnitsRecalled(fact) => {
                self.released((scene.actor, fact.lease), &fact.units);
                Ok(())
            }
            Fact::LeaseClosed(fact) => {
                for unit in self.on.remove(&(scene.actor, fact.lease)).unwrap_or_default() {
                    self.lives.entry((scene.actor, unit)).or_default().tenant = None;
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn change(&mut self, scene: &Scene<'_>, change: &Change, tally: &mut Tally) -> LawVerdict {
        match change.subject {
            Subject::Unit(site, unit) => {
                let Some(model) = scene.model.sites.get(&site) else { return Ok(()) };
                self.step_ends(scene, (site, unit), change, tally)?;
                self.step_begins(site, unit, change);
                self.count(scene, model, unit, change, tally)?;
                tenancy_is_mutual(scene, model, unit, tally)
            }
            Subject::Ticket(site, hash) => match scene.model.sites.get(&site) {
                Some(model) => a_lease_that_is_over_has_no_units(scene, model, hash, tally),
                None => Ok(()),
            },
            _ => Ok(()),
        }
    }

    fn happened(&mut self, scene: &Scene<'_>, seen: &Observation<'_>, tally: &mut Tally) -> LawVerdict {
        match *seen {
            Observation::Called { actor, call } if actor == call.site => {
                let uncalled = self.uncalled.get_mut(&actor);
                uncalled.map(|units| units.remove(&call.unit));
                Ok(())
            }
            Observation::Rested { actor, .. } => {
                let Some(uncalled) = self.uncalled.get(&actor) else { return Ok(()) };
                let lost = uncalled.first();
                tally.check(lost.is_none(), || {
                    let unit = lost.map_or_else(String::new, |&unit| scene.model.unit(actor, unit));
                    format!("{unit} is on its way, but no driver was called for it")
                })
            }
            _ => Ok(()),
        }
    }

    fn batched(&mut self, scene: &Scene<'_>, tally: &mut Tally) -> LawVerdict {
        let Some(model) = scene.model.sites.get(&scene.actor) else { return Ok(()) };
        for (resource, &stock) in &model.stock {
            let counts = self.counts.get(&(scene.actor, resource.clone()));
            let sum: u32 = counts.iter().flat_map(|counts| counts.values()).sum();
            tally.check(sum == stock, || {
                let name = scene.name();
                format!("{name} has {stock} units of `{resource}`, but {sum} are accounted for")
            })?;
        }
        Ok(())
    }
}

impl Checker {
    /// The units of a lease are to change in use.
    fn changing(&mut self, site: ActorId, lease: LinkHash) {
        let units = self.on.get(&(site, lease)).into_iter().flatten();
        self.uncalled.entry(site).or_default().extend(units);
    }

    /// The units that have the configuration which a lease does not get are to be changed back.
    fn changing_back(&mut self, scene: &Scene<'_>, lease: LinkHash) {
        let site = scene.model.sites.get(&scene.actor);
        let lease = site.and_then(|site| site.leases.get(&lease));
        let last = lease.and_then(|lease| lease.modification.as_ref());
        // What has left the lease since is cleaned, not changed back.
        let held = lease.map(|lease| lease.state.units()).unwrap_or_default();
        let back = last.into_iter().flat_map(|last| last.modified.keys());
        let back = back.filter(|unit| held.contains(unit));
        self.uncalled.entry(scene.actor).or_default().extend(back);
    }

    fn assigned(&mut self, scene: &Scene<'_>, fact: &UnitsAssigned, tally: &mut Tally) -> LawVerdict {
        let drained = scene.model.sites.get(&scene.actor).map(|site| &site.drained);
        let kept = |unit: &&UnitId| drained.is_some_and(|drained| drained.contains(unit));
        let first = fact.units.iter().find(kept);
        tally.check(first.is_none(), || {
            format!("{}: {first:?} is drained and gets a tenant", scene.name())
        })?;
        for &unit in &fact.units {
            let life = self.lives.entry((scene.actor, unit)).or_default();
            life.tenant = Some(fact.lease);
            if life.set_up.is_none() && life.setting_up.is_none() {
                life.setting_up = Some(fact.lease);
            }
            self.on.entry((scene.actor, fact.lease)).or_default().insert(unit);
        }
        Ok(())
    }

    /// A lease that is not active yet loses a unit that fails.
    fn failed(&mut self, scene: &Scene<'_>, unit: UnitId) {
        let site = scene.actor;
        let Some(tenant) = self.lives.get(&(site, unit)).and_then(|life| life.tenant) else { return };
        let active = scene.model.sites.get(&site).is_some_and(|site| site.is_active(tenant));
        if !active {
            self.released((site, tenant), &[unit]);
        }
    }

    /// Some units leave a lease that goes on.
    fn released(&mut self, lease: (ActorId, LinkHash), units: &[UnitId]) {
        for unit in units {
            self.lives.entry((lease.0, *unit)).or_default().tenant = None;
            self.on.get_mut(&lease).map(|on| on.remove(unit));
        }
    }

    /// A driver's answer fits what it was asked: a clean unit is set up, one that was set up is cleaned.
    fn done(&mut self, scene: &Scene<'_>, unit: UnitId, done: Done, tally: &mut Tally) -> LawVerdict {
        let life = self.lives.entry((scene.actor, unit)).or_default();
        let (tenant, setting_up) = (life.tenant, life.setting_up);
        let fits = match done {
            Done::SetUp | Done::SetupFailed => setting_up.is_some(),
            Done::TornDown | Done::TeardownFailed => setting_up.is_none() && life.set_up.is_some(),
        };
        match done {
            Done::SetUp | Done::SetupFailed => {
                (life.set_up, life.setting_up) = (setting_up, None);
            }
            Done::TornDown => (life.set_up, life.setting_up) = (None, tenant),
            Done::TeardownFailed => {}
        }
        let failed = match done {
            Done::SetupFailed => tenant.filter(|_| tenant == setting_up),
            Done::TeardownFailed => tenant,
            Done::SetUp | Done::TornDown => None,
        };
        if let Some(lease) = failed {
            life.tenant = None;
            self.on.get_mut(&(scene.actor, lease)).map(|units| units.remove(&unit));
        }
        tally.check(fits, || {
            let unit = scene.model.unit(scene.actor, unit);
            match done {
                Done::SetUp | Done::SetupFailed => format!("{unit} is set up, but was never cleaned"),
                Done::TornDown | Done::TeardownFailed => format!("{unit} is cleaned in use"),
            }
        })
    }

    /// Every unit that a lease goes active with was set up for it.
    fn all_set_up(&self, scene: &Scene<'_>, lease: LinkHash, tally: &mut Tally) -> LawVerdict {
        for &unit in self.on.get(&(scene.actor, lease)).into_iter().flatten() {
            let life = self.lives.get(&(scene.actor, unit));
            let set_up = life.is_some_and(|life| life.set_up == Some(lease));
            tally.check(set_up, || {
                let unit = scene.model.unit(scene.actor, unit);
                format!("lease {lease} goes active with {unit}, which was not set up for it")
            })?;
        }
        Ok(())
    }

    /// A step begins when a unit comes to be set up or cleaned.
    fn step_begins(&mut self, site: ActorId, unit: UnitId, change: &Change) {
        let begins = matches!(step(change.to), "SettingUp" | "TearingDown");
        if begins && step(change.from) != step(change.to) {
            self.uncalled.entry(site).or_default().insert(unit);
        }
    }

    /// A step ends when its driver has answered, which it can only if it was called.
    fn step_ends(
        &mut self,
        scene: &Scene<'_>,
        (site, unit): (ActorId, UnitId),
        change: &Change,
        tally: &mut Tally,
    ) -> LawVerdict {
        let moves = matches!(step(change.from), "SettingUp" | "Abandoned" | "TearingDown");
        let abandoned = step(change.to) == "Abandoned";
        if !scene.model.in_order || !moves || abandoned || step(change.from) == step(change.to) {
            return Ok(());
        }
        let uncalled = self.uncalled.get_mut(&site).is_some_and(|units| units.remove(&unit));
        tally.check(!uncalled, || {
            let unit = scene.model.unit(site, unit);
            format!("{unit} ended a step, but no driver was called for it")
        })
    }

    fn count(
        &mut self,
        scene: &Scene<'_>,
        model: &SiteModel,
        unit: UnitId,
        change: &Change,
        tally: &mut Tally,
    ) -> LawVerdict {
        let Some(record) = model.units.get(&unit) else { return Ok(()) };
        let counts = self.counts.entry((scene.actor, record.resource.clone())).or_default();
        if let Some(count) = counts.get_mut(change.from) {
            *count = count.saturating_sub(1);
        }
        if change.to == NOTHING {
            let cleaned = model.is_share(unit) && change.from == "TearingDown";
            let idle = ["Free", "Quarantined"].contains(&change.from);
            return tally.check(cleaned || idle, || {
                let unit = scene.model.unit(scene.actor, unit);
                format!("{unit} is withdrawn while it is {}", change.from)
            });
        }
        *counts.entry(change.to).or_default() += 1;
        tally.check(change.to == record.word(), || {
            let (unit, word) = (scene.model.unit(scene.actor, unit), record.word());
            format!("{unit} moved to {} and is {word}", change.to)
        })
    }
}

/// The step that a unit is in, no matter which lease waits for it.
fn step(word: &'static str) -> &'static str {
    word.split('+').next().unwrap_or(word)
}

/// A unit is on a lease exactly if the lease has it.
fn tenancy_is_mutual(
    scene: &Scene<'_>,
    model: &SiteModel,
    unit: UnitId,
    tally: &mut Tally,
) -> LawVerdict {
    let Some(record) = model.units.get(&unit) else { return Ok(()) };
    let Some(tenant) = record.state.tenant() else { return Ok(()) };
    let ready = matches!(record.state, unit::State::Ready { .. });
    let has = model.leases.get(&tenant).is_some_and(|lease| match &lease.state {
        State::Priming { pending, ready: done } => {
            if ready { done.contains(&unit) } else { pending.contains(&unit) }
        }
        State::Active { units } => ready && units.contains(&unit),
        State::Early | State::Due | State::Closed { .. } => false,
    });
    tally.check(has, || {
        let (unit, word) = (scene.model.unit(scene.actor, unit), record.state.word());
        format!("{unit} is {word} for lease {tenant}, which does not have it")
    })
}

fn a_lease_that_is_over_has_no_units(
    scene: &Scene<'_>,
    model: &SiteModel,
    hash: LinkHash,
    tally: &mut Tally,
) -> LawVerdict {
    let state = model.leases.get(&hash).map(|lease| &lease.state);
    let Some(State::Closed { units, .. }) = state else { return Ok(()) };
    let kept = units.iter().find(|&&unit| model.tenant(unit) == Some(hash));
    tally.check(kept.is_none(), || {
        let unit = kept.map_or_else(String::new, |&unit| scene.model.unit(scene.actor, unit));
        format!("{unit} is still on lease {hash}, which has ended")
    })
}
