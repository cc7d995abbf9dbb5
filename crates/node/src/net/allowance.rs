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
        // What nobody uses is dropped, and created again when it is needed.
        all.retain(|_, of| Arc::strong_count(of) > 1 || Arc::strong_count(&of.places) > 1);
        Arc::clone(all.entry(sharers).or_insert_with(|| Arc::new(sharers.allowance())))
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;

    use tenure_core::model::identity::{Scheme, Signer};
    use tenure_core::model::name::Name;
    use tenure_core::model::resource::Constraints;
    use tenure_core::model::time::{Span, Term, Time};
    use tenure_core::ticket::Ticket;
    use tenure_core::ticket::link::{Clauses, Generation, Link, SignedLink};

    use super::*;

    const SITE: u8 = 0;
    const BROKER: u8 = 1;
    const OTHER_BROKER: u8 = 2;
    const GUEST: u8 = 3;
    const OTHER_GUEST: u8 = 4;

    fn id(seed: u8) -> ActorId {
        Signer::from_seed(Scheme::Ed25519, [seed; 32]).id()
    }

    /// A ticket that went through these hands, the first one's a delegation.
    fn pass(hands: &[u8]) -> Pass {
        let delegation = Generation { delegation: 1, generation: 0 };
        let issuers = [SITE].into_iter().chain(hands.iter().copied());
        let mut links = issuers.zip(hands).enumerate().map(|(place, (issuer, holder))| {
            let link = Link {
                parent: None,
                issuer: id(issuer),
                holder: id(*holder),
                resource: Name::literal("node"),
                units: NonZeroU32::MIN,
                term: Term::lasting(Time::ZERO, Span::HOUR).unwrap(),
                constraints: Constraints::NONE,
                clauses: Clauses::NONE,
                delegation: (place == 0).then_some(delegation),
                extends: None,
                serial: 1,
            };
            SignedLink::sign(link, &Signer::from_seed(Scheme::Ed25519, [issuer; 32]))
        });
        let root = Ticket::root_of(links.next().unwrap());
        Pass::Ticket(links.fold(root, |ticket, link| ticket.with(link)))
    }

    fn take(all: &Allowances, hands: &[u8]) -> Option<(Arc<Allowance>, Places)> {
        let there = id(*hands.last().unwrap());
        all.take(Ends { here: id(SITE), there }, &pass(hands))
    }

    #[test]
    fn a_guest_that_splits_its_ticket_takes_no_places_of_other_guests() {
        let all = Allowances::default();
        let parts = || (100..).take(MOST_OTHERS).map(|part| take(&all, &[BROKER, GUEST, part]));
        let taken: Vec<_> = parts().collect::<Option<_>>().expect("as many places as there are");
        assert!(take(&all, &[BROKER, GUEST, 99]).is_none(), "one more part");
        assert!(take(&all, &[BROKER, GUEST]).is_none(), "the guest itself shares them");
        for hands in [[BROKER, OTHER_GUEST], [OTHER_BROKER, GUEST]] {
            let others = take(&all, &hands).is_some();
            assert_eq!(others, hands[1] == OTHER_GUEST, "{hands:?}");
        }
        drop(taken);
        assert!(take(&all, &[BROKER, GUEST]).is_some(), "once they are gone");
        assert_eq!(all.0.lock().unwrap().len(), 2, "what nobody uses is dropped");
    }

    #[test]
    fn those_for_whom_one_broker_answers_share_what_they_may_send_and_no_others() {
        let all = Allowances::default();
        let [one, same, other, borrower] =
            [&[BROKER, GUEST][..], &[BROKER, OTHER_GUEST], &[OTHER_BROKER, GUEST], &[BROKER]]
                .map(|hands| take(&all, hands).expect("a place"));
        assert!(Arc::ptr_eq(&one.0, &same.0));
        assert!(!Arc::ptr_eq(&one.0, &other.0) && !Arc::ptr_eq(&one.0, &borrower.0));
        while one.0.spend(1).is_zero() {}
        assert!(!same.0.spend(1).is_zero() && other.0.spend(1).is_zero());
    }
}
