//! What a site has to lend, and how that changes.

use std::num::NonZeroU32;
use std::sync::Arc;

use thiserror::Error;

use super::apply::missing;
use super::{SiteAuthority, Stock, Unit, UnitPool};
use crate::actor::Emit as _;
use crate::actor::effect::Problem;
use crate::actor::fact::BadFact;
use crate::driver::{Epoch, UnitId};
use crate::model::name::Name;
use crate::model::resource::{Attributes, is_divisible};
use crate::model::time::Time;
use crate::site_authority::Output;
use crate::site_authority::facts::{InventoryChanged, QuantityWithdrawn, Stocked};
use crate::site_authority::unit;

/// Why units cannot be withdrawn.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum WithdrawError {
    /// There are not so many.
    #[error("there are only {total} units of `{resource}`")]
    TooMany {
        /// Their type.
        resource: Name,
        /// How many there are.
        total: u32,
    },
    /// Brokers hold the right to lease them.
    #[error("{delegated} of {total} units of `{resource}` are delegated until {until}")]
    Delegated {
        /// Their type.
        resource: Name,
        /// How many units brokers hold rights to.
        delegated: u32,
        /// How many there are.
        total: u32,
        /// The end of the last of these delegations.
        until: Time,
    },
    /// Too few are free or quarantined.
    #[error(
        "{idle} of {total} units of `{resource}` are idle, the others are leased or being cleaned"
    )]
    InUse {
        /// Their type.
        resource: Name,
        /// How many are free or quarantined.
        idle: u32,
        /// How many there are.
        total: u32,
    },
}

impl SiteAuthority {
    /// The types of its units, each with attributes and the number of units.
    pub fn inventory(&self) -> impl Iterator<Item = (&Name, &Attributes, u32)> {
        self.state.stocks.iter().map(|(resource, pool)| (resource, &*pool.attributes, pool.total))
    }

    /// The units that would be withdrawn: quarantined ones first, then free ones with the highest numbers. Of
    /// a divisible stock there are none: what no share takes up is withdrawn.
    ///
    /// # Errors
    /// Why so many cannot be withdrawn now.
    pub fn withdrawable(&self, resource: &Name, units: u32) -> Result<Vec<UnitId>, WithdrawError> {
        let total = self.state.stocks.get(resource).map_or(0, |pool| pool.total);
        if units > total {
            return Err(WithdrawError::TooMany { resource: resource.clone(), total });
        }
        let undelegated = self.undelegated(resource);
        if units > undelegated {
            let links =
                self.state.delegations.values().map(|delegation| delegation.ticket.bottom());
            let ends = links.filter(|link| link.resource == *resource).map(|link| link.term.end());
            return Err(WithdrawError::Delegated {
                resource: resource.clone(),
                delegated: total - undelegated,
                total,
                until: ends.max().unwrap_or(Time::MIN),
            });
        }
        if let Some(pool) = self.state.stocks.get(resource).filter(|pool| pool.is_divisible()) {
            let idle = total.saturating_sub(pool.shared);
            let in_use = || WithdrawError::InUse { resource: resource.clone(), idle, total };
            return if units <= idle { Ok(Vec::new()) } else { Err(in_use()) };
        }
        let of_type = self.state.units.iter().rev().filter(|(_, unit)| unit.resource == *resource);
        let quarantined = |unit: &Unit| unit.state == unit::State::Quarantined;
        let (mut idle, others): (Vec<_>, Vec<_>) = of_type.partition(|(_, unit)| quarantined(unit));
        idle.extend(others.into_iter().filter(|(_, unit)| unit.state == unit::State::Free));
        let count = u32::try_from(idle.len()).unwrap_or(u32::MAX);
        if units > count {
            return Err(WithdrawError::InUse { resource: resource.clone(), idle: count, total });
        }
        Ok(idle.into_iter().take(units as usize).map(|(&id, _)| id).collect())
    }

    /// The units of a type that no broker has.
    pub(super) fn undelegated(&self, resource: &Name) -> u32 {
        let total = self.state.stocks.get(resource).map_or(0, |pool| pool.total);
        let of_type = self.state.delegations.values();
        let of_type = of_type.filter(|held| held.ticket.bottom().resource == *resource);
        of_type.fold(total, |left, delegation| left.saturating_sub(delegation.held))
    }

    /// Whether the properties of a delegation's units differ from what its broker received.
    pub(super) fn has_other_attributes(&self, number: u64) -> bool {
        self.state.delegations.get(&number).is_some_and(|delegation| {
            let pool = self.state.stocks.get(&delegation.ticket.bottom().resource);
            pool.is_some_and(|pool| *pool.attributes != delegation.attributes)
        })
    }

    /// Journals what the plan has and the journal has not yet.
    pub(super) fn take_stock(&mut self, now: Time, out: &mut Output) {
        for Stock { resource, attributes, units } in self.plan.stock.clone() {
            let pool = self.state.stocks.get(&resource);
            let total = pool.map_or(0, |pool| pool.total);
            if let Some(pool) = pool
                && pool.is_divisible() != is_divisible(&attributes)
            {
                let cause = format!("`{resource}` is in stock as units or as shares, not as both");
                out.problems.push(Problem::Command(cause));
            } else if units > total {
                self.emit(now, Stocked { resource, attributes, units: units - total }, out);
            } else if pool.is_some_and(|pool| *pool.attributes != attributes) {
                let withdrawn = Vec::new();
                self.emit(now, InventoryChanged { resource, attributes, withdrawn }, out);
            }
        }
    }

    pub(super) fn stock(&mut self, now: Time, resource: Name, units: NonZeroU32, out: &mut Output) {
        match self.state.stocks.get(&resource).map(|pool| (*pool.attributes).clone()) {
            Some(attributes) => {
                self.emit(now, Stocked { resource, attributes, units: units.get() }, out);
            }
            None => {
                let cause = format!("there is no stock of `{resource}` to add to");
                out.problems.push(Problem::Command(cause));
            }
        }
    }

    pub(super) fn withdraw(
        &mut self,
        now: Time,
        resource: Name,
        units: NonZeroU32,
        out: &mut Output,
    ) {
        let pool = self.state.stocks.get(&resource);
        let divisible = pool.is_some_and(UnitPool::is_divisible);
        let attributes = pool.map(|pool| (*pool.attributes).clone());
        match self.withdrawable(&resource, units.get()) {
            Ok(_) if divisible => {
                self.emit(now, QuantityWithdrawn { resource, quantity: units }, out);
            }
            Ok(withdrawn) => {
                let attributes = attributes.unwrap_or_default();
                self.emit(now, InventoryChanged { resource, attributes, withdrawn }, out);
            }
            Err(error) => out.problems.push(Problem::Command(error.to_string())),
        }
    }

    pub(super) fn stocked(&mut self, fact: &Stocked) {
        let pool = self.state.stocks.entry(fact.resource.clone()).or_default();
        pool.attributes = Arc::new(fact.attributes.clone());
        pool.total = pool.total.saturating_add(fact.units);
        let first = self.state.numbered;
        if !pool.is_divisible() {
            self.state.numbered += fact.units;
        }
        for number in first..self.state.numbered {
            pool.free.insert(UnitId(number));
            let unit = Unit {
                resource: fact.resource.clone(),
                state: unit::State::Free,
                epoch: Epoch::default(),
                served: None,
                quantity: NonZeroU32::MIN,
                taken: NonZeroU32::MIN,
                modifications: 0,
            };
            self.state.units.insert(UnitId(number), unit);
        }
        if !self.state.short.is_empty() {
            self.state.rounds.call();
        }
    }

    pub(super) fn inventory_changed(&mut self, fact: &InventoryChanged) -> Result<(), BadFact> {
        let resource = &fact.resource;
        let pool = self.state.stocks.get_mut(resource).ok_or_else(|| missing("stock", resource))?;
        pool.attributes = Arc::new(fact.attributes.clone());
        for id in &fact.withdrawn {
            let idle = |unit: &Unit| {
                matches!(unit.state, unit::State::Free | unit::State::Quarantined)
                    && unit.resource == *resource
            };
            if !self.state.units.get(id).is_some_and(idle) {
                return Err(missing("idle unit", id));
            }
            self.state.units.remove(id);
            pool.free.remove(id);
            pool.total -= 1;
        }
        // One that is gone may have been what a lease waited for.
        if !fact.withdrawn.is_empty() && !self.state.short.is_empty() {
            self.state.rounds.call();
        }
        Ok(())
    }
}
