//! What a site's journal says of units that change in use: shares of a divisible stock, configurations.

use std::collections::BTreeMap;
use std::num::NonZeroU32;

use super::site::{SiteChanges, SiteModel};
use super::site_records::{ModificationRecord, UnitRecord};
use super::{NOTHING, Unfounded, unfounded};
use tenure_core::driver::{Epoch, UnitId};
use tenure_core::model::name::Name;
use tenure_core::model::slice::LeaseId;
use tenure_core::site_authority::facts::{ShareAssigned, UnitModified};
use tenure_core::site_authority::machine::Event;
use tenure_core::site_authority::unit;
use tenure_core::ticket::link::LinkHash;
use tenure_core::wire::refusal::Refusal;

impl SiteModel {
    /// How much of a divisible stock its shares take up.
    pub(crate) fn shared(&self, resource: &Name) -> u64 {
        let shares =
            self.units.values().filter(|unit| !unit.withdrawn && unit.resource == *resource);
        shares.map(|unit| u64::from(unit.taken.get())).sum()
    }

    pub(super) fn share_assigned(
        &mut self,
        fact: &ShareAssigned,
        changes: &mut SiteChanges,
    ) -> Result<(), Unfounded> {
        let lease = self.leases.get(&fact.lease).ok_or_else(|| unfounded(fact.lease))?;
        let resource = lease.tickets[0].bottom().resource.clone();
        *self.stock.entry(resource.clone()).or_default() += 1;
        let record = UnitRecord {
            resource,
            state: unit::State::Free,
            epoch: Epoch::default(),
            served: LeaseId { number: 0, part: 0 },
            withdrawn: false,
            quantity: fact.quantity,
            taken: fact.quantity,
            modifications: 0,
        };
        if self.units.insert(fact.unit, record).is_some() {
            return Err(unfounded(fact.unit));
        }
        let assigned = unit::Event::Assigned(fact.lease);
        self.step_unit(fact.unit, assigned, &mut changes.nothing())?;
        changes.unit(fact.unit, NOTHING, self.units[&fact.unit].state.word());
        let one = std::iter::once(fact.unit).collect();
        self.step_lease(fact.lease, Event::Assigned(one), changes)
    }

    /// A unit was cleaned; a share is no more then.
    pub(super) fn torn_down(
        &mut self,
        id: UnitId,
        changes: &mut SiteChanges,
    ) -> Result<(), Unfounded> {
        if !self.is_share(id) {
            return self.step_unit(id, unit::Event::TornDown, changes);
        }
        self.step_unit(id, unit::Event::TornDown, &mut changes.nothing())?;
        let unit = self.units.get_mut(&id).ok_or_else(|| unfounded(id))?;
        changes.unit(id, "TearingDown", NOTHING);
        unit.withdrawn = true;
        let stock = self.stock.entry(unit.resource.clone()).or_default();
        *stock = stock.saturating_sub(1);
        Ok(())
    }

    /// Whether a unit is a share of a divisible stock.
    pub(crate) fn is_share(&self, id: UnitId) -> bool {
        self.units.get(&id).is_some_and(|unit| self.quantities.contains_key(&unit.resource))
    }

    /// A lease goes on with less, as its extension says.
    pub(super) fn shrunk(&mut self, hash: LinkHash) {
        let Some(lease) = self.leases.get_mut(&hash).filter(|lease| !lease.seams.is_empty()) else {
            return;
        };
        let quantity = lease.seams.remove(0);
        self.has_quantity(hash, quantity);
    }

    pub(super) fn reduced_by(&mut self, hash: LinkHash, quantity: u32) {
        let before = self.leases.get(&hash).map_or(0, |lease| lease.quantity);
        let mut most = before.saturating_sub(quantity);
        self.has_quantity(hash, most);
        let Some(lease) = self.leases.get_mut(&hash) else { return };
        lease.seams.retain(|seam| {
            let shrinks = *seam < most;
            most = most.min(*seam);
            shrinks
        });
    }

    /// A lease goes on with what a recall leaves it.
    pub(super) fn reduced_by_recall(&mut self, hash: LinkHash, link: LinkHash) {
        let Some(level) = self.recalls.get(&link).map(|recall| recall.level) else { return };
        let told = self.told.get(&(hash, link)).filter(|told| told.number == level.number);
        let stay = told.map_or(level.units, |told| told.units);
        let before = self.leases.get(&hash).map_or(0, |lease| lease.quantity);
        self.reduced_by(hash, before.saturating_sub(stay));
    }

    fn has_quantity(&mut self, hash: LinkHash, quantity: u32) {
        let Some(lease) = self.leases.get_mut(&hash) else { return };
        lease.quantity = quantity;
        let Some(quantity) = NonZeroU32::new(quantity) else { return };
        for id in lease.state.units() {
            let Some(unit) = self.units.get_mut(&id) else { continue };
            if self.quantities.contains_key(&unit.resource) {
                unit.quantity = quantity;
                unit.modifications += 1;
            }
        }
    }

    pub(super) fn modification_begun(&mut self, hash: LinkHash, number: u32) {
        let Some(lease) = self.leases.get_mut(&hash) else { return };
        let modified = BTreeMap::new();
        lease.modification = Some(ModificationRecord { number, modified, outcome: None });
        for id in lease.state.units() {
            if let Some(unit) = self.units.get_mut(&id) {
                unit.modifications += 1;
            }
        }
    }

    pub(super) fn unit_modified(
        &mut self,
        fact: &UnitModified,
        changes: &mut SiteChanges,
    ) -> Result<(), Unfounded> {
        let unit = self.units.get_mut(&fact.unit).ok_or_else(|| unfounded(fact.unit))?;
        unit.taken = unit.quantity;
        let tenant = unit.state.tenant().ok_or_else(|| unfounded(fact.unit))?;
        let lease = self.leases.get_mut(&tenant);
        let open = lease.and_then(|lease| lease.modification.as_mut());
        match open.filter(|open| open.outcome.is_none()) {
            Some(open) => {
                open.modified.insert(fact.unit, fact.properties.clone());
                Ok(())
            }
            None => {
                let event = unit::Event::Modified(fact.properties.clone());
                self.step_unit(fact.unit, event, changes)
            }
        }
    }

    /// A modification is over. After a failure the units that have the new configuration are changed back.
    pub(super) fn modification_over(
        &mut self,
        hash: LinkHash,
        outcome: Result<(), Refusal>,
        changes: &mut SiteChanges,
    ) -> Result<(), Unfounded> {
        let lease = self.leases.get_mut(&hash).ok_or_else(|| unfounded(hash))?;
        let units = lease.state.units();
        let open = lease.modification.as_mut().ok_or_else(|| unfounded(hash))?;
        let (changed, failed) = (open.modified.clone(), outcome.is_err());
        open.outcome = Some(outcome);
        for (id, properties) in changed.into_iter().filter(|(id, _)| units.contains(id)) {
            if failed {
                let unit = self.units.get_mut(&id).ok_or_else(|| unfounded(id))?;
                unit.modifications += 1;
            } else {
                self.step_unit(id, unit::Event::Modified(properties), changes)?;
            }
        }
        Ok(())
    }
}
