//! What a site authority shows its mapper.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use imbl::{OrdMap, OrdSet};
use serde::{Deserialize, Serialize};

use super::overbooking::Machines;
use super::{SiteAuthority, UnitNotes};
use crate::actor::Actor;
use crate::actor::fact::Memo;
use crate::driver::UnitId;
use crate::model::name::Name;
use crate::model::property::Properties;
use crate::model::resource::Attributes;
use crate::model::time::{Term, Time};
use crate::ticket::link::LinkHash;

/// A site authority at one instant, as owned data: it can be kept, sent to another thread, or serialised
/// for another process. Taking one costs as much as there are types and leases that lack units; the sets
/// of units are shared with the actor.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct View {
    now: Time,
    round: u64,
    memo: Arc<Memo>,
    waiting: Vec<Waiting>,
    stocks: BTreeMap<Name, StockView>,
}

/// A lease that lacks units.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Waiting {
    /// The lease.
    pub lease: LinkHash,
    /// The type.
    pub resource: Name,
    /// How many units it lacks.
    pub lacks: u32,
    /// Its term.
    pub term: Term,
    /// What the guest wants of the units.
    pub configuration: Properties,
    /// Units that its ticket excludes, or that failed it before; the core does not put them on it.
    pub failed: BTreeSet<UnitId>,
}

/// The units of one type.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StockView {
    /// What its units are like.
    pub attributes: Arc<Attributes>,
    /// How many there are, on leases or not.
    pub total: u32,
    /// The clean units that are on no lease.
    pub free: OrdSet<UnitId>,
    /// The units that are being cleaned and on no lease. A lease put on one waits until it is clean.
    pub cleaning: OrdSet<UnitId>,
    /// What is known of each unit that has a name, was set up before, or is drained.
    pub known: OrdMap<UnitId, UnitNotes>,
}

impl SiteAuthority {
    /// What the mapper is to be shown, if a round is open.
    pub fn view(&self, now: Time) -> Option<View> {
        let round = self.open_round()?;
        let stocks = self.state.stocks.iter().map(|(resource, pool)| {
            let stock = StockView {
                attributes: Arc::clone(&pool.attributes),
                total: pool.total,
                free: pool.free.clone(),
                cleaning: pool.cleaning.clone(),
                known: pool.known.clone(),
            };
            (resource.clone(), stock)
        });
        Some(View {
            now,
            round,
            memo: self.state.rounds.memo(),
            waiting: self.waiting().collect(),
            stocks: stocks.collect(),
        })
    }

    fn waiting(&self) -> impl Iterator<Item = Waiting> {
        let mut machines = Machines::default();
        self.state.short.values().filter_map(move |&hash| {
            // A share is no choice.
            let lease = self.state.leases.get(&hash).filter(|lease| !lease.divisible)?;
            if !machines.suffice(lease, self.pool_of_lease(lease)?) {
                return None;
            }
            Some(Waiting {
                lease: hash,
                resource: lease.tickets[0].bottom().resource.clone(),
                lacks: lease.lacks(),
                term: lease.term,
                configuration: self.state.tenancies.get(&hash)?.configuration.clone(),
                failed: lease.failed.clone(),
            })
        })
    }
}

impl View {
    /// The time of the question.
    pub fn now(&self) -> Time {
        self.now
    }

    /// The round to answer.
    pub fn round(&self) -> u64 {
        self.round
    }

    /// What was remembered.
    pub fn memo(&self) -> &Memo {
        &self.memo
    }

    /// The leases that lack units, in the order in which they came to.
    pub fn waiting(&self) -> impl Iterator<Item = &Waiting> {
        self.waiting.iter()
    }

    /// The units, by type.
    pub fn stocks(&self) -> impl Iterator<Item = (&Name, &StockView)> {
        self.stocks.iter()
    }

    /// The units of one type.
    pub fn stock(&self, resource: &Name) -> Option<&StockView> {
        self.stocks.get(resource)
    }

    /// The clean units of a type that are on no lease, by number.
    pub fn free_units(&self, resource: &Name) -> impl Iterator<Item = UnitId> {
        self.stock(resource).into_iter().flat_map(|stock| stock.free.iter().copied())
    }

    /// The units of a type that are being cleaned and on no lease, by number.
    pub fn cleaning_units(&self, resource: &Name) -> impl Iterator<Item = UnitId> {
        self.stock(resource).into_iter().flat_map(|stock| stock.cleaning.iter().copied())
    }
}
