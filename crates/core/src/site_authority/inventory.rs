//! What a site has to lend, and how that changes.

use std::collections::BTreeSet;
use std::num::NonZeroU32;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::apply::missing;
use super::{SiteAuthority, Stock, Unit, UnitPool};
use crate::actor::Emit as _;
use crate::actor::effect::Problem;
use crate::actor::fact::BadFact;
use crate::driver::{Epoch, UnitId};
use crate::model::name::Name;
use crate::model::resource::{Attributes, is_divisible, overbooked};
use crate::model::time::Time;
use crate::site_authority::Output;
use crate::site_authority::facts::{
    InventoryChanged, QuantityWithdrawn, StockPlanned, Stocked, UnitAdded, UnitDescribed,
};
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
    /// A named one cannot be removed.
    #[error("{0}")]
    Named(String),
}

/// What a plan had of a type when it was followed last.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Planned {
    units: u32,
    named: BTreeSet<Name>,
}

impl Planned {
    fn unnamed(&self) -> u32 {
        self.units.saturating_sub(u32::try_from(self.named.len()).unwrap_or(u32::MAX))
    }
}

impl Stock {
    fn unnamed(&self) -> u32 {
        self.units.saturating_sub(u32::try_from(self.named.len()).unwrap_or(u32::MAX))
    }
}

impl SiteAuthority {
    /// The types of its units, each with attributes and the number of units.
    pub fn inventory(&self) -> impl Iterator<Item = (&Name, &Attributes, u32)> {
        self.state.stocks.iter().map(|(resource, pool)| (resource, &*pool.attributes, pool.total))
    }

    /// The units that would be withdrawn: quarantined ones first, then free ones with the highest numbers, and
    /// none that has a name. Of
    /// a divisible stock there are none: what no share takes up is withdrawn.
    ///
    /// # Errors
    /// Why so many cannot be withdrawn now.
    pub fn withdrawable(&self, resource: &Name, units: u32) -> Result<Vec<UnitId>, WithdrawError> {
        let total = self.state.stocks.get(resource).map_or(0, |pool| pool.total);
        if units > total {
            return Err(WithdrawError::TooMany { resource: resource.clone(), total });
        }
        self.not_delegated(resource, units)?;
        if let Some(pool) = self.state.stocks.get(resource).filter(|pool| pool.is_divisible()) {
            let idle = total.saturating_sub(pool.shared);
            let in_use = || WithdrawError::InUse { resource: resource.clone(), idle, total };
            return if units <= idle { Ok(Vec::new()) } else { Err(in_use()) };
        }
        let unnamed = |id| self.notes_of(id).name.is_none();
        let of_type = self.state.units.iter().rev();
        let of_type = of_type.filter(|(id, unit)| unit.resource == *resource && unnamed(**id));
        let quarantined = |unit: &Unit| unit.state == unit::State::Quarantined;
        let (mut idle, others): (Vec<_>, Vec<_>) = of_type.partition(|(_, unit)| quarantined(unit));
        idle.extend(others.into_iter().filter(|(_, unit)| unit.state == unit::State::Free));
        let count = u32::try_from(idle.len()).unwrap_or(u32::MAX);
        if units > count {
            return Err(WithdrawError::InUse { resource: resource.clone(), idle: count, total });
        }
        Ok(idle.into_iter().take(units as usize).map(|(&id, _)| id).collect())
    }

    /// Whether no broker has the right to so many units of a type.
    fn not_delegated(&self, resource: &Name, units: u32) -> Result<(), WithdrawError> {
        let undelegated = self.undelegated(resource);
        if units <= undelegated {
            return Ok(());
        }
        let total = self.state.stocks.get(resource).map_or(0, UnitPool::delegable);
        let links = self.state.delegations.values().map(|delegation| delegation.ticket.bottom());
        let ends = links.filter(|link| link.resource == *resource).map(|link| link.term.end());
        Err(WithdrawError::Delegated {
            resource: resource.clone(),
            delegated: total - undelegated,
            total,
            until: ends.max().unwrap_or(Time::MIN),
        })
    }

    /// The units of a type that no broker has.
    pub(super) fn undelegated(&self, resource: &Name) -> u32 {
        let total = self.state.stocks.get(resource).map_or(0, UnitPool::delegable);
        let of_type = self.state.delegations.values();
        let of_type = of_type.filter(|held| held.ticket.bottom().resource == *resource);
        of_type.fold(total, |left, delegation| left.saturating_sub(delegation.held))
    }

    /// Whether the properties of a delegation's units differ from what its broker received.
    pub(super) fn has_other_attributes(&self, number: u64) -> bool {
        self.state.delegations.get(&number).is_some_and(|delegation| {
            *self.attributes_under(delegation.ticket.bottom()) != delegation.attributes
        })
    }

    /// Journals what the plan has and had not before. What operators added or took away stays as it is.
    pub(super) fn take_stock(&mut self, now: Time, out: &mut Output) {
        for stock in self.plan.stock.clone() {
            let pool = self.state.stocks.get(&stock.resource);
            let resource = &stock.resource;
            if pool.is_some_and(|pool| pool.is_divisible() != is_divisible(&stock.attributes)) {
                let cause = format!("`{resource}` is in stock as units or as shares, not as both");
                out.problems.push(Problem::Command(cause));
            } else if let Err(cause) = self.follow(now, &stock, out) {
                out.problems.push(Problem::Command(cause));
            }
        }
    }

    /// Journals how a stock of the plan differs from what was planned before.
    fn follow(&mut self, now: Time, stock: &Stock, out: &mut Output) -> Result<(), String> {
        let (resource, attributes) = (&stock.resource, &stock.attributes);
        let gone = self.surplus(stock).map_err(|error| error.to_string())?;
        let pool = self.state.stocks.get(resource);
        let before = pool.map_or(0, |pool| overbooked(&pool.attributes));
        let fewer = before.saturating_sub(overbooked(attributes));
        self.not_delegated(resource, fewer).map_err(|error| error.to_string())?;
        let before = self.planned_before(resource);
        let more = stock.unnamed().saturating_sub(before.unnamed());
        let less = before.unnamed().saturating_sub(stock.unnamed());
        let pool = self.state.stocks.get(resource);
        if more > 0 || pool.is_none() {
            let (resource, attributes) = (resource.clone(), attributes.clone());
            self.emit(now, Stocked { resource, attributes, units: more }, out);
        } else if let Some(quantity) = NonZeroU32::new(less).filter(|_| is_divisible(attributes)) {
            self.emit(now, QuantityWithdrawn { resource: resource.clone(), quantity }, out);
        }
        let pool = self.state.stocks.get(resource);
        let changed = pool.is_some_and(|pool| *pool.attributes != *attributes);
        if changed || !gone.is_empty() {
            let (resource, attributes) = (resource.clone(), attributes.clone());
            self.emit(now, InventoryChanged { resource, attributes, withdrawn: gone }, out);
        }
        for (name, attributes) in &stock.named {
            let attributes = attributes.clone();
            match self.unit_named(name) {
                Some(unit) if *self.notes_of(unit).attributes != attributes => {
                    self.emit(now, UnitDescribed { unit, attributes }, out);
                }
                None if !before.named.contains(name) => {
                    let (resource, name) = (resource.clone(), name.clone());
                    self.emit(now, UnitAdded { resource, name, attributes }, out);
                }
                Some(_) | None => {}
            }
        }
        let planned = Planned { units: stock.units, named: stock.named.keys().cloned().collect() };
        if before != planned {
            let Planned { units, named } = planned;
            self.emit(now, StockPlanned { resource: resource.clone(), units, named }, out);
        }
        Ok(())
    }

    /// What the plan had of a type; as much as there is, where no fact says so.
    fn planned_before(&self, resource: &Name) -> Planned {
        let stocked = || {
            let units = self.state.stocks.get(resource).map_or(0, |pool| pool.total);
            Planned { units, named: BTreeSet::new() }
        };
        self.state.planned.get(resource).cloned().unwrap_or_else(stocked)
    }

    /// The units that a plan had before and has no more.
    ///
    /// # Errors
    /// Why they cannot be withdrawn now.
    pub fn surplus(&self, stock: &Stock) -> Result<Vec<UnitId>, WithdrawError> {
        let before = self.planned_before(&stock.resource);
        let less = before.unnamed().saturating_sub(stock.unnamed());
        let mut gone =
            if less > 0 { self.withdrawable(&stock.resource, less)? } else { Vec::new() };
        let named = before.named.iter().filter(|name| !stock.named.contains_key(*name));
        for unit in named.filter_map(|name| self.unit_named(name)) {
            self.removable(unit).map_err(WithdrawError::Named)?;
            gone.push(unit);
        }
        let count = u32::try_from(gone.len()).unwrap_or(u32::MAX);
        self.not_delegated(&stock.resource, count)?;
        Ok(gone)
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

    /// Whether a stock of the plan is there as planned.
    pub(super) fn follows(&self, stock: &Stock) -> bool {
        let planned = self.state.planned.get(&stock.resource);
        let pool = self.state.stocks.get(&stock.resource);
        let as_planned = |planned: &Planned| {
            planned.units == stock.units && planned.named.iter().eq(stock.named.keys())
        };
        planned.is_some_and(as_planned)
            && pool.is_some_and(|pool| *pool.attributes == stock.attributes)
    }

    pub(super) fn planned(&mut self, fact: &StockPlanned) {
        let StockPlanned { resource, units, named } = fact.clone();
        self.state.planned.insert(resource, Planned { units, named });
    }

    pub(super) fn stocked(&mut self, fact: &Stocked) -> Result<(), BadFact> {
        let pool = self.state.stocks.entry(fact.resource.clone()).or_default();
        pool.attributes = Arc::new(fact.attributes.clone());
        if pool.is_divisible() {
            pool.total = pool.total.saturating_add(fact.units);
            return Ok(());
        }
        self.install(&fact.resource, fact.units)
    }

    /// So many units are there, with the next numbers.
    pub(super) fn install(&mut self, resource: &Name, units: u32) -> Result<(), BadFact> {
        let pool = self.state.stocks.get_mut(resource).ok_or_else(|| missing("stock", resource))?;
        pool.total = pool.total.saturating_add(units);
        let first = self.state.numbered;
        self.state.numbered += units;
        for number in first..self.state.numbered {
            pool.free.insert(UnitId(number));
            let unit = Unit {
                resource: resource.clone(),
                state: unit::State::Free,
                epoch: Epoch::default(),
                served: None,
                quantity: NonZeroU32::MIN,
                taken: NonZeroU32::MIN,
                modifications: 0,
                fault: None,
            };
            self.state.units.insert(UnitId(number), unit);
        }
        self.keep_from_stacked(resource, first);
        if !self.state.short.is_empty() {
            self.state.rounds.call();
        }
        Ok(())
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
            if let Some(name) = pool.known.remove(id).and_then(|notes| notes.name) {
                self.state.names.remove(&name);
            }
            pool.total -= 1;
        }
        // One that is gone may have been what a lease waited for.
        if !fact.withdrawn.is_empty() && !self.state.short.is_empty() {
            self.state.rounds.call();
        }
        Ok(())
    }
}
