//! Stocks of which a site delegates more units than it has machines.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Lease, SiteAuthority, UnitPool};
use crate::driver::UnitId;
use crate::model::name::Name;
use crate::model::resource::{is_best_effort, overbooked};
use crate::mutants::mutant;
use crate::ticket::link::{Assurance, LinkHash};

/// How often an overbooked stock was too small.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shortage {
    /// How many leases came due.
    pub due: u64,
    /// How many of them had to wait, since too few units were there.
    pub short: u64,
}

impl Shortage {
    /// The part of the leases that had to wait, in millionths; none before one came due.
    pub fn millionths(&self) -> Option<u32> {
        let part = self.short.saturating_mul(1_000_000).checked_div(self.due)?;
        u32::try_from(part).ok()
    }
}

impl UnitPool {
    /// How many units can be delegated.
    pub(super) fn delegable(&self) -> u32 {
        self.total.saturating_add(overbooked(&self.attributes))
    }

    /// What stands behind its units.
    pub(super) fn assurance(&self) -> Assurance {
        if is_best_effort(&self.attributes) {
            Assurance::BestEffort
        } else if self.is_overbooked() {
            Assurance::Overbooked
        } else {
            Assurance::Firm
        }
    }

    /// Whether more units can be delegated than there are.
    pub(super) fn is_overbooked(&self) -> bool {
        overbooked(&self.attributes) > 0
    }
}

/// The machines of overbooked stocks that are left for the leases that wait, in their order.
#[derive(Default)]
pub(super) struct Machines(BTreeMap<Name, u32>);

impl Machines {
    /// Whether enough are left for a lease to begin with, which takes them. One that would keep some idle until it
    /// has enough is passed over. Of other stocks there are enough.
    pub(super) fn suffice(&mut self, lease: &Lease, pool: &UnitPool) -> bool {
        if !pool.is_overbooked() {
            return true;
        }
        let resource = &lease.tickets[0].bottom().resource;
        let idle = pool.free.len() + pool.cleaning.len();
        let left =
            self.0.entry(resource.clone()).or_insert(u32::try_from(idle).unwrap_or(u32::MAX));
        let good = |unit: &&UnitId| pool.free.contains(*unit) || pool.cleaning.contains(*unit);
        let failed = u32::try_from(lease.failed.iter().filter(good).count()).unwrap_or(u32::MAX);
        let usable = left.saturating_sub(failed);
        let has = lease.wanted.saturating_sub(lease.lacks());
        if usable == 0 || usable < lease.min_units.get().saturating_sub(has) {
            return false;
        }
        *left -= lease.lacks().min(usable);
        true
    }
}

impl SiteAuthority {
    pub(super) fn pool_of_lease(&self, lease: &Lease) -> Option<&UnitPool> {
        self.state.stocks.get(&lease.tickets[0].bottom().resource)
    }

    /// How often an overbooked stock was too small; none of another stock.
    pub fn shortage(&self, resource: &Name) -> Option<Shortage> {
        let pool = self.state.stocks.get(resource).filter(|pool| pool.is_overbooked());
        pool.map(|pool| pool.shortage)
    }

    /// A lease of an overbooked stock waits while machines are in use, as long as enough of them can serve it.
    pub(super) fn waits_for_machines(&self, lease: &Lease) -> bool {
        let pool = self.pool_of_lease(lease);
        pool.filter(|pool| pool.is_overbooked() && !mutant!(OverbookedFails)).is_some_and(|pool| {
            let failed = u32::try_from(lease.failed.len()).unwrap_or(u32::MAX);
            pool.total.saturating_sub(failed) >= lease.min_units.get()
        })
    }

    /// A lease has come due.
    pub(super) fn count_due(&mut self, hash: LinkHash) {
        let Some(lease) = self.state.leases.get(&hash) else { return };
        let pool = self.state.stocks.get_mut(&lease.tickets[0].bottom().resource);
        if let Some(pool) = pool.filter(|pool| pool.is_overbooked()) {
            pool.shortage.due += 1;
        }
    }

    /// The mapper has put units on leases: those that still lack some have found too few.
    pub(super) fn count_short(&mut self) {
        for hash in self.state.short.values() {
            let Some(lease) = self.state.leases.get_mut(hash).filter(|l| !l.found_short) else {
                continue;
            };
            let pool = self.state.stocks.get_mut(&lease.tickets[0].bottom().resource);
            if let Some(pool) = pool.filter(|pool| pool.is_overbooked()) {
                lease.found_short = true;
                pool.shortage.short += 1;
            }
        }
    }
}
