//! What the facts of one site authority say.

#![allow(clippy::wildcard_enum_match_arm, reason = "most facts are not counted")]

use std::collections::{BTreeMap, BTreeSet};

use tenure_core::driver::UnitId;
use tenure_core::model::name::Name;
use tenure_core::model::time::{Term, Time};
use tenure_core::site_authority::facts::Fact;
use tenure_core::ticket::link::LinkHash;

use super::overlap;

#[derive(Debug)]
pub(super) struct Site {
    window: Term,
    pub(super) setups: u64,
    pub(super) failed_setups: u64,
    pub(super) teardowns: u64,
    pub(super) extends: u64,
    pub(super) flips: u64,
    pub(super) failures: Vec<String>,
    used: BTreeSet<UnitId>,
    tenants: BTreeMap<UnitId, LinkHash>,
    leases: BTreeMap<LinkHash, Lease>,
    /// What was lent of each type.
    types: BTreeMap<Name, Lent>,
}

/// What was lent of one type.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Lent {
    /// How many tickets were redeemed.
    pub(super) leases: u64,
    /// Units times microseconds; while a run lasts, of the leases that are forgotten.
    pub(super) unit_micros: i128,
}

/// What became of a ticket at its site.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// Redeemed, but its units were not ready in time.
    Late,
    /// Turned into a lease with units.
    Active,
}

#[derive(Debug)]
struct Lease {
    resource: Name,
    units: u32,
    from: Time,
    until: Time,
    assigned: Vec<UnitId>,
    /// Units that it had no more before its end, and since when.
    given_back: Vec<(u32, Time)>,
    active: bool,
}

impl Site {
    /// A site of which nothing was seen so far.
    pub(super) fn observed(window: Term) -> Self {
        Self {
            window,
            setups: 0,
            failed_setups: 0,
            teardowns: 0,
            extends: 0,
            flips: 0,
            failures: Vec::new(),
            used: BTreeSet::new(),
            tenants: BTreeMap::new(),
            leases: BTreeMap::new(),
            types: BTreeMap::new(),
        }
    }

    pub(super) fn observe(&mut self, at: Time, in_window: bool, fact: &Fact) {
        let counts = u64::from(in_window);
        match fact {
            Fact::Redeemed(fact) => {
                let link = fact.ticket.bottom();
                let from = at.max(link.term.start());
                let (units, until) = (link.units.get(), link.term.end());
                let (assigned, given_back) = (Vec::new(), Vec::new());
                let resource = link.resource.clone();
                self.types.entry(resource.clone()).or_default().leases += counts;
                let lease =
                    Lease { resource, units, from, until, assigned, given_back, active: false };
                self.leases.insert(link.hash(), lease);
            }
            Fact::LeaseExtended(fact) => {
                self.extends += counts;
                if let Some(lease) = self.leases.get_mut(&fact.lease) {
                    lease.until = fact.ticket.bottom().term.end();
                }
            }
            Fact::UnitsReturned(fact) => self.released(at, fact.lease, &fact.units),
            Fact::LeaseShrunk(fact) => self.released(at, fact.lease, &fact.units),
            Fact::UnitsRecalled(fact) => self.released(at, fact.lease, &fact.units),
            Fact::TermReturned(fact) => {
                if let Some(lease) = self.leases.get_mut(&fact.lease) {
                    lease.until = lease.until.min(fact.until);
                }
            }
            Fact::UnitsAssigned(fact) => self.assigned(fact.lease, &fact.units),
            Fact::ShareAssigned(fact) => self.assigned(fact.lease, &[fact.unit]),
            Fact::QuantityReturned(fact) => {
                if let Some(lease) = self.leases.get_mut(&fact.lease) {
                    lease.given_back.push((fact.quantity.get(), at));
                }
            }
            Fact::UnitSetUp(fact) => {
                self.setups += counts;
                self.flips += counts * u64::from(!self.used.insert(fact.unit));
            }
            Fact::UnitSetupFailed(fact) => {
                self.failed_setups += counts;
                self.used.insert(fact.unit);
                self.tenants.remove(&fact.unit);
            }
            Fact::UnitTornDown(_) => self.teardowns += counts,
            Fact::LeaseActivated(fact) => {
                if let Some(lease) = self.leases.get_mut(&fact.lease) {
                    lease.active = true;
                }
            }
            Fact::LeaseClosed(fact) => {
                let Some(lease) = self.leases.get_mut(&fact.lease) else { return };
                lease.until = lease.until.min(at);
                for unit in &lease.assigned {
                    if self.tenants.get(unit) == Some(&fact.lease) {
                        self.tenants.remove(unit);
                    }
                }
            }
            Fact::UnitTeardownFailed(fact) => {
                self.tenants.remove(&fact.unit);
            }
            _ => {}
        }
    }

    /// Units leave a lease that goes on.
    fn released(&mut self, at: Time, lease: LinkHash, units: &[UnitId]) {
        let Some(record) = self.leases.get_mut(&lease) else { return };
        record.assigned.retain(|unit| !units.contains(unit));
        record.given_back.push((u32::try_from(units.len()).unwrap_or(u32::MAX), at));
        for unit in units {
            if self.tenants.get(unit) == Some(&lease) {
                self.tenants.remove(unit);
            }
        }
    }

    /// A unit goes to a lease: no other may have it.
    fn assigned(&mut self, lease: LinkHash, units: &[UnitId]) {
        for &unit in units {
            if let Some(other) = self.tenants.insert(unit, lease) {
                self.failures
                    .push(format!("unit {unit} went to lease {lease} while {other} had it"));
            }
        }
        if let Some(record) = self.leases.get_mut(&lease) {
            record.assigned.extend_from_slice(units);
        }
    }

    /// A lease about which nothing more can come: what is to be counted of it is added up.
    pub(super) fn forget(&mut self, lease: LinkHash) {
        if let Some(lease) = self.leases.remove(&lease) {
            let lent = lease.unit_micros(self.window);
            self.types.entry(lease.resource).or_default().unit_micros += lent;
        }
    }

    /// How many leases are kept.
    #[cfg(test)]
    pub(super) fn remembered(&self) -> usize {
        self.leases.len()
    }

    /// What was lent of each type.
    pub(super) fn lent(&self) -> BTreeMap<Name, Lent> {
        let mut types = self.types.clone();
        for lease in self.leases.values() {
            let lent = lease.unit_micros(self.window);
            types.entry(lease.resource.clone()).or_default().unit_micros += lent;
        }
        types
    }

    pub(super) fn fate(&self, ticket: LinkHash) -> Option<Fate> {
        self.leases.get(&ticket).map(|lease| if lease.active { Fate::Active } else { Fate::Late })
    }
}

impl Lease {
    fn unit_micros(&self, window: Term) -> i128 {
        let back = self
            .given_back
            .iter()
            .map(|&(units, at)| i128::from(units) * overlap(window, at.max(self.from), self.until));
        i128::from(self.units) * overlap(window, self.from, self.until) - back.sum::<i128>()
    }
}
