//! What actors that are no peers may take up: connections, and what is read of them.
//!
//! Keys cost nothing, so what counts is not who a stranger is but who answers for it: the broker to which the site has
//! delegated its units, or that has endorsed it. All for whom one broker answers share an allowance, so they get in the way
//! of nobody else.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tenure_core::model::identity::ActorId;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::budget::{Budget, Rate};
use super::session::{Ends, Pass};

/// The most that have come with an invitation, and the most brokers that were lent units.
const MOST_OTHERS: usize = 64;

/// The most guests for whom one broker answers, and the most that bring receipts to one.
const MOST_GUESTS: usize = 1024;

/// Who shares an allowance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Sharers {
    /// Those who show an invitation of an actor of this process.
    Invited,
    /// Those who bring receipts to a broker.
    Buyers(ActorId),
    /// The guests, at a site, of a broker.
    Guests(ActorId, ActorId),
    /// The brokers, at a site, that were lent units by a broker.
    Borrowers(ActorId, ActorId),
    /// Those, at a site, to whom one guest has handed on parts of its tickets, and that guest.
    PartsOf(ActorId, ActorId),
}

/// What some share.
pub(super) struct Allowance {
    places: Arc<Semaphore>,
    budget: Mutex<Budget>,
}

/// All that there are.
#[derive(Default)]
pub(super) struct Allowances(Mutex<BTreeMap<Sharers, Arc<Allowance>>>);

impl Sharers {
    /// With whom a stranger shares whose pass counts.
    fn of(Ends { here, .. }: Ends, pass: &Pass) -> Self {
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

    /// With whom it shares places beside that: a ticket can be split among any number of keys.
    fn narrower(Ends { here, .. }: Ends, pass: &Pass) -> Option<Self> {
        let Pass::Ticket(ticket) = pass else { return None };
        let first = ticket.links().iter().find(|link| link.delegation.is_none())?;
        Some(Self::PartsOf(here, first.holder))
    }

    fn allowance(self) -> Allowance {
        let (places, rate) = match self {
            Self::Invited => (MOST_OTHERS, Rate::STRANGERS),
            Self::Borrowers(..) | Self::PartsOf(..) => (MOST_OTHERS, Rate::PEER),
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

/// The places that a stranger takes, for as long as it is connected.
pub(super) type Places = Vec<OwnedSemaphorePermit>;

impl Allowances {
    /// What a stranger whose pass counts may take up, and its places, if there are any left.
    pub(super) fn take(&self, ends: Ends, pass: &Pass) -> Option<(Arc<Allowance>, Places)> {
        let allowance = self.of(Sharers::of(ends, pass));
        let narrower = Sharers::narrower(ends, pass).map(|sharers| self.of(sharers));
        let all = narrower.iter().chain([&allowance]);
        let places = all.map(|of| Arc::clone(&of.places).try_acquire_owned().ok());
        let places = places.collect::<Option<Places>>()?;
        Some((allowance, places))
    }

    fn of(&self, sharers: Sharers) -> Arc<Allowance> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Those whose places are all free are made anew when they are needed.
        all.retain(|_, of| Arc::strong_count(of) > 1 || Arc::strong_count(&of.places) > 1);
        Arc::clone(all.entry(sharers).or_insert_with(|| Arc::new(sharers.allowance())))
    }
}
