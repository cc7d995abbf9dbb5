//! Units that tickets exclude: the site puts them on no lease of such a ticket.

use std::collections::BTreeSet;
use std::num::NonZeroU32;

use super::{Lease, SiteAuthority, Unit};
use crate::driver::UnitId;
use crate::model::name::Name;
use crate::mutants::mutant;
use crate::ticket::Ticket;
use crate::ticket::link::{Clauses, Link};
use crate::wire::refusal::Refusal;

impl SiteAuthority {
    /// The units that are not put on a lease of this ticket. A share is made for its lease, so none of a
    /// divisible stock can be excluded.
    pub(super) fn excluded_by(&self, ticket: &Ticket) -> BTreeSet<UnitId> {
        if self.is_divisible(ticket) || mutant!(ExclusionForgotten) {
            return BTreeSet::new();
        }
        let link = ticket.bottom();
        let Clauses { stacked, not_on, .. } = &link.clauses;
        if stacked.is_none() && !names_units(link) {
            return not_on.clone();
        }
        let named = |id: &UnitId| link.constraints.allow_unit(&id.to_string());
        let meant = |id: &UnitId| {
            stacked.as_ref().is_none_or(|stacked| *id == stacked.unit || mutant!(AnyUnitOfStack))
        };
        let others = self
            .state
            .units
            .iter()
            .filter(|(id, unit)| unit.resource == link.resource && !(named(id) && meant(id)));
        others.map(|(id, _)| *id).chain(not_on.iter().copied()).collect()
    }

    /// New units, from this number on, are none that leases wait for which are for one unit, or for named ones.
    pub(super) fn keep_from_stacked(&mut self, resource: &Name, first: u32) {
        for hash in &self.state.live {
            let Some(lease) = self.state.leases.get_mut(hash) else { continue };
            let link = lease.tickets[0].bottom();
            let named = link.clauses.stacked.is_some() || names_units(link);
            if named && link.resource == *resource {
                lease.failed.extend((first..self.state.numbered).map(UnitId));
            }
        }
    }

    /// Why a ticket can never be met, if too few of the type's units are left beside those that it excludes.
    /// An extension keeps the units of its lease.
    pub(super) fn too_many_excluded(
        &self,
        ticket: &Ticket,
        min_units: NonZeroU32,
    ) -> Option<Refusal> {
        let link = ticket.bottom();
        if self.is_divisible(ticket) && names_units(link) && link.extends.is_none() {
            let (resource, asked) = (link.resource.clone(), min_units.get());
            return Some(Refusal::UnitsExcluded { resource, asked, left: 0 });
        }
        let excluded = self.excluded_by(ticket);
        if link.extends.is_some() || excluded.is_empty() {
            return None;
        }
        let of_type = |unit: &&UnitId| {
            self.state.units.get(unit).is_some_and(|unit| unit.resource == link.resource)
        };
        let gone = u32::try_from(excluded.iter().filter(of_type).count()).unwrap_or(u32::MAX);
        let pool = self.state.stocks.get(&link.resource)?;
        let left = pool.total.saturating_sub(gone);
        let (resource, asked) = (link.resource.clone(), min_units.get());
        (left < asked).then_some(Refusal::UnitsExcluded { resource, asked, left })
    }

    /// Whether a lease waits for units that its ticket names, and that others have still.
    pub(super) fn waits_for_named(&self, lease: &Lease, ready: u32) -> bool {
        let link = lease.tickets[0].bottom();
        if !names_units(link) {
            return false;
        }
        let missing = lease.min_units.get().saturating_sub(ready) as usize;
        let to_come = |(id, unit): &(&UnitId, &Unit)| {
            let held = lease.state.units().contains(id) || lease.failed.contains(id);
            !held && unit.resource == link.resource
        };
        self.state.units.iter().filter(to_come).count() >= missing
    }

    /// Why a lease is left with so few units: others failed, or only excluded ones could be put on it.
    pub(super) fn too_few(&self, lease: &Lease, ready: u32) -> Refusal {
        let link = lease.tickets[0].bottom();
        let excluded = match names_units(link) {
            true => self.excluded_by(&lease.tickets[0]),
            false => link.clauses.not_on.clone(),
        };
        let pool = self.state.stocks.get(&link.resource);
        let only_excluded = pool.is_some_and(|pool| {
            pool.free.iter().chain(&pool.cleaning).any(|unit| excluded.contains(unit))
        });
        let tried = lease.failed.iter().any(|unit| !excluded.contains(unit));
        if only_excluded && !tried {
            let (resource, asked) = (link.resource.clone(), lease.min_units.get());
            Refusal::UnitsExcluded { resource, asked, left: ready }
        } else {
            Refusal::SetupFailed { ready, wanted: lease.wanted }
        }
    }
}

/// Whether a ticket names units.
fn names_units(link: &Link) -> bool {
    link.constraints.of_units().next().is_some()
}
