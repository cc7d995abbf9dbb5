//! What the facts of a site say of who holds its units.

#![allow(clippy::wildcard_enum_match_arm, reason = "many facts are about tickets and delegations")]

use std::collections::{BTreeMap, BTreeSet};

use tenure_core::driver::UnitId;
use tenure_core::model::identity::ActorId;
use tenure_core::model::name::Name;
use tenure_core::model::property::Properties;
use tenure_core::model::slice::{LeaseId, SliceName};
use tenure_core::model::time::Time;
use tenure_core::site_authority::facts::{Fact, Redeemed};
use tenure_core::site_authority::unit::{Event, State, Tenant};

/// What one site recorded.
#[derive(Debug, Default)]
pub(crate) struct Site {
    /// For how long each unit was on a lease, in the order in which that began.
    pub(crate) tenancies: Vec<Tenancy>,
    leases: BTreeMap<Tenant, Lease>,
    units: BTreeMap<UnitId, State>,
    /// Where in `tenancies` each unit is now.
    open: BTreeMap<UnitId, usize>,
}

/// A unit on a lease.
#[derive(Clone, Debug)]
pub(crate) struct Tenancy {
    pub(crate) unit: UnitId,
    pub(crate) lease: Lessee,
    pub(crate) begin: Time,
    pub(crate) end: Option<Time>,
}

/// Whose lease it is.
#[derive(Clone, Debug)]
pub(crate) struct Lessee {
    pub(crate) guest: ActorId,
    pub(crate) slice: SliceName,
    pub(crate) lease: LeaseId,
    pub(crate) resource: Name,
}

/// A lease that has not been forgotten.
#[derive(Debug)]
struct Lease {
    lessee: Lessee,
    active: bool,
    units: BTreeSet<UnitId>,
}

impl Site {
    pub(crate) fn add(&mut self, at: Time, fact: &Fact) {
        match fact {
            Fact::Redeemed(fact) => self.redeemed(fact),
            Fact::UnitsAssigned(fact) => {
                for unit in &fact.units {
                    self.step(at, *unit, Event::Assigned(fact.lease));
                }
            }
            Fact::ShareAssigned(fact) => self.step(at, fact.unit, Event::Assigned(fact.lease)),
            Fact::UnitsReturned(fact) => self.release(at, &fact.units),
            Fact::LeaseShrunk(fact) => self.release(at, &fact.units),
            Fact::UnitsRecalled(fact) => self.release(at, &fact.units),
            Fact::LeaseActivated(fact) => {
                if let Some(lease) = self.leases.get_mut(&fact.lease) {
                    lease.active = true;
                }
            }
            Fact::LeaseClosed(fact) => {
                let lease = self.leases.get(&fact.lease);
                let units: Vec<_> = lease.iter().flat_map(|lease| &lease.units).copied().collect();
                self.release(at, &units);
            }
            Fact::LeaseForgotten(fact) => drop(self.leases.remove(&fact.lease)),
            Fact::UnitSetUp(fact) => self.step(at, fact.unit, Event::SetUp(Properties::default())),
            Fact::UnitSetupFailed(fact) => self.step(at, fact.unit, Event::SetupFailed),
            Fact::UnitTornDown(fact) => self.step(at, fact.unit, Event::TornDown),
            Fact::UnitTeardownFailed(fact) => self.step(at, fact.unit, Event::TeardownFailed),
            Fact::UnitReset(fact) => self.step(at, fact.unit, Event::Reset),
            Fact::UnitQuarantined(fact) => self.step(at, fact.unit, Event::Quarantined),
            Fact::UnitRestored(fact) => self.step(at, fact.unit, Event::Restored),
            Fact::UnitFailed(fact) if !self.in_use(fact.unit) => self.release(at, &[fact.unit]),
            _ => {}
        }
    }

    fn redeemed(&mut self, fact: &Redeemed) {
        let Redeemed { ticket, lease, slice, .. } = fact;
        let link = ticket.bottom();
        let (guest, resource) = (link.holder, link.resource.clone());
        let lessee = Lessee { guest, slice: slice.clone(), lease: *lease, resource };
        self.leases
            .insert(ticket.hash(), Lease { lessee, active: false, units: BTreeSet::default() });
    }

    /// Whether a unit is in the hands of a guest, who then gives it back when it fails.
    fn in_use(&self, unit: UnitId) -> bool {
        let tenant = self.units.get(&unit).and_then(State::tenant);
        tenant.and_then(|tenant| self.leases.get(&tenant)).is_some_and(|lease| lease.active)
    }

    fn release(&mut self, at: Time, units: &[UnitId]) {
        units.iter().for_each(|unit| self.step(at, *unit, Event::Released));
    }

    /// Steps a unit in its machine, and notes on which lease it is then.
    fn step(&mut self, at: Time, unit: UnitId, event: Event) {
        let state = self.units.entry(unit).or_insert(State::Free);
        let before = state.tenant();
        // A journal holds no event without a place in the machine.
        let Ok(next) = state.clone().next(event) else { return };
        let after = next.tenant();
        *state = next;
        if before == after {
            return;
        }
        if let Some(open) = self.open.remove(&unit) {
            self.tenancies[open].end = Some(at);
        }
        if let Some(lease) = before.and_then(|tenant| self.leases.get_mut(&tenant)) {
            lease.units.remove(&unit);
        }
        if let Some(lease) = after.and_then(|tenant| self.leases.get_mut(&tenant)) {
            lease.units.insert(unit);
            let lease = lease.lessee.clone();
            self.open.insert(unit, self.tenancies.len());
            self.tenancies.push(Tenancy { unit, lease, begin: at, end: None });
        }
    }
}
