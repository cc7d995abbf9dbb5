//! S15: no unit is lost.

use std::collections::BTreeMap;

use super::books::{SiteBooks, Subject};
use super::{Change, Check, Law, Scene, Tally, Verdict};
use crate::driver::UnitId;
use crate::identity::ActorId;
use crate::lease::site_authority::State;
use crate::lease::unit;
use crate::name::Name;
use crate::ticket::link::LinkHash;

pub(super) const LAW: Law = Law {
    id: "S15",
    name: "no orphan units",
    statement: "Every unit is exactly one of free, on one lease, on its way back, or quarantined, and their \
                counts are the stock. A unit that is on a lease is one that the lease has, and a lease that \
                is over has none.",
    source: "leak freedom, conservation of the inventory; S15, S53",
    on: "facts of sites",
};

#[derive(Default)]
pub(super) struct Bench {
    /// How many units of each type are what, at each site.
    counts: BTreeMap<(ActorId, Name), BTreeMap<&'static str, u32>>,
}

impl Check for Bench {
    fn change(&mut self, scene: &Scene<'_>, change: &Change, tally: &mut Tally) -> Verdict {
        match change.subject {
            Subject::Unit(site, unit) => {
                let Some(books) = scene.books.sites.get(&site) else { return Ok(()) };
                self.count(scene, books, unit, change, tally)?;
                tenancy_is_mutual(scene, books, unit, tally)
            }
            Subject::Ticket(site, hash) => match scene.books.sites.get(&site) {
                Some(books) => a_lease_that_is_over_has_no_units(scene, books, hash, tally),
                None => Ok(()),
            },
            _ => Ok(()),
        }
    }

    fn batched(&mut self, scene: &Scene<'_>, tally: &mut Tally) -> Verdict {
        let Some(books) = scene.books.sites.get(&scene.actor) else { return Ok(()) };
        for (resource, &stock) in &books.stock {
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

impl Bench {
    fn count(
        &mut self,
        scene: &Scene<'_>,
        books: &SiteBooks,
        unit: UnitId,
        change: &Change,
        tally: &mut Tally,
    ) -> Verdict {
        let Some(record) = books.units.get(&unit) else { return Ok(()) };
        let counts = self.counts.entry((scene.actor, record.resource.clone())).or_default();
        if let Some(count) = counts.get_mut(change.from) {
            *count = count.saturating_sub(1);
        }
        *counts.entry(change.to).or_default() += 1;
        tally.check(change.to == record.state.word(), || {
            let (unit, word) = (scene.books.unit(scene.actor, unit), record.state.word());
            format!("{unit} moved to {} and is {word}", change.to)
        })
    }
}

/// A unit is on a lease exactly if the lease has it.
fn tenancy_is_mutual(
    scene: &Scene<'_>,
    books: &SiteBooks,
    unit: UnitId,
    tally: &mut Tally,
) -> Verdict {
    let Some(record) = books.units.get(&unit) else { return Ok(()) };
    let Some(tenant) = record.state.tenant() else { return Ok(()) };
    let ready = matches!(record.state, unit::State::Ready { .. });
    let has = books.leases.get(&tenant).is_some_and(|lease| match &lease.state {
        State::Priming { pending, ready: done } => {
            if ready { done.contains(&unit) } else { pending.contains(&unit) }
        }
        State::Active { units } => ready && units.contains(&unit),
        State::Early | State::Due | State::Closed { .. } => false,
    });
    tally.check(has, || {
        let (unit, word) = (scene.books.unit(scene.actor, unit), record.state.word());
        format!("{unit} is {word} for lease {tenant}, which does not have it")
    })
}

fn a_lease_that_is_over_has_no_units(
    scene: &Scene<'_>,
    books: &SiteBooks,
    hash: LinkHash,
    tally: &mut Tally,
) -> Verdict {
    let state = books.leases.get(&hash).map(|lease| &lease.state);
    let Some(State::Closed { units, .. }) = state else { return Ok(()) };
    let kept = units.iter().find(|&&unit| books.tenant(unit) == Some(hash));
    tally.check(kept.is_none(), || {
        let unit = kept.map_or_else(String::new, |&unit| scene.books.unit(scene.actor, unit));
        format!("{unit} is still on lease {hash}, which is over")
    })
}
