//! What actors that are no peers may take up: connections, and what is read of them.
//!
//! Keys cost nothing, so what counts is not who a stranger is but who answers for it: the broker to which the site has
//! delegated its units, or that has endorsed it. All for whom one broker answers share an allowance, so they get in the way
//! of nobody else.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tenure_core::model::identity::ActorId;
use tokio::sync::Semaphore;

use super::budget::{Budget, Rate};
use super::session::{Ends, Pass};

/// The most that have come with an invitation, and the most brokers that were lent units.
const MOST_OTHERS: usize = 64;

/// The most guests for whom one broker answers, and the most that bring receipts to one.
const MOST_GUESTS: usize = 1024;

/// Who shares an allowance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Sharers {
    /// Those who show an invitation of an actor of this process.
    Invited,
    /// Those who bring receipts to a broker.
    Buyers(ActorId),
    /// The guests, at a site, of a broker.
    Guests(ActorId, ActorId),
    /// The brokers, at a site, that were lent units by a broker.
    Borrowers(ActorId, ActorId),
}

/// What some share.
pub(super) struct Allowance {
    pub(super) places: Arc<Semaphore>,
    budget: Mutex<Budget>,
}

/// All that there are.
#[derive(Default)]
pub(super) struct Allowances(Mutex<BTreeMap<Sharers, Arc<Allowance>>>);

impl Sharers {
    /// With whom a stranger shares whose pass counts.
    pub(super) fn of(Ends { here, .. }: Ends, pass: &Pass) -> Self {
        match pass {
            Pass::Invitation(_) => Self::Invited,
            Pass::Endorsement(signed) => Self::Guests(here, signed.endorsement.broker),
            Pass::Ticket(ticket) if ticket.site() != here => Self::Buyers(here),
            Pass::Ticket(ticket) if ticket.bottom().delegation.is_some() => {
                Self::Borrowers(here, ticket.root().holder)
            }
            Pass::Ticket(ticket) => Self::Guests(here, ticket.root().holder),
        }
    }

    fn allowance(self) -> Allowance {
        let (places, rate) = match self {
            Self::Invited => (MOST_OTHERS, Rate::STRANGERS),
            Self::Borrowers(..) => (MOST_OTHERS, Rate::PEER),
            Self::Guests(..) | Self::Buyers(_) => (MOST_GUESTS, Rate::PEER),
        };
        let budget = Mutex::new(Budget::new(rate, Instant::now()));
        Allowance { places: Arc::new(Semaphore::new(places)), budget }
    }
}

impl Allowance {
    /// One has sent so many bytes: how long to wait before the next frame of any of them.
    pub(super) fn spend(&self, bytes: usize) -> Duration {
        let mut budget = self.budget.lock().unwrap_or_else(PoisonError::into_inner);
        budget.spend(bytes, Instant::now())
    }
}

impl Allowances {
    /// That of these.
    pub(super) fn of(&self, sharers: Sharers) -> Arc<Allowance> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(all.entry(sharers).or_insert_with(|| Arc::new(sharers.allowance())))
    }
}
