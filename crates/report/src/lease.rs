//! What the facts of a guest say of the units that it holds, for sites whose journals are elsewhere.

#![allow(
    clippy::wildcard_enum_match_arm,
    reason = "the other facts are events of a lease, or about none"
)]

use std::collections::{BTreeMap, BTreeSet};

use tenure_core::driver::UnitId;
use tenure_core::model::identity::ActorId;
use tenure_core::model::slice::{LeaseId, SliceName};
use tenure_core::model::time::Time;
use tenure_core::service_manager::facts::Fact;
use tenure_core::service_manager::machine::State;
use tenure_core::ticket::Ticket;

use crate::site::{Lessee, Tenancy};

/// The leases of a guest.
#[derive(Debug, Default)]
pub(crate) struct Leases {
    /// For how long it held each unit, and of which site, in the order in which that began.
    pub(crate) tenancies: Vec<(ActorId, Tenancy)>,
    /// By request: the slice, and whether its tickets are kept.
    requests: BTreeMap<u64, (SliceName, bool)>,
    leases: BTreeMap<LeaseId, Lease>,
    /// Where in `tenancies` each unit of a lease is now.
    open: BTreeMap<(LeaseId, UnitId), usize>,
}

#[derive(Debug)]
struct Lease {
    site: ActorId,
    lessee: Lessee,
    state: State,
}

impl Leases {
    pub(crate) fn add(&mut self, guest: ActorId, at: Time, fact: &Fact) {
        match fact {
            Fact::Asked(fact) => {
                let keeps = fact.handling.keep_tickets;
                self.requests.insert(fact.request.id.number, (fact.slice.clone(), keeps));
            }
            Fact::GroupAsked(fact) => {
                let numbers = (fact.group..).zip(fact.parts());
                let of = (fact.slice.clone(), fact.handling.keep_tickets);
                self.requests.extend(numbers.map(|(number, _)| (number, of.clone())));
            }
            Fact::Granted(fact) => {
                let Some((slice, keeps)) = self.requests.get(&fact.number).cloned() else { return };
                for (part, (_, ticket)) in (0..).zip(&fact.tickets) {
                    let lease = LeaseId { number: fact.number, part };
                    self.begin((guest, lease, &slice), ticket, keeps);
                }
            }
            Fact::TicketTaken(fact) => {
                self.begin((guest, fact.lease, &fact.slice), &fact.ticket, fact.keep);
            }
            Fact::LeaseForgotten(fact) => drop(self.leases.remove(&fact.lease)),
            _ => self.step(at, fact),
        }
    }

    fn begin(
        &mut self,
        (guest, lease, slice): (ActorId, LeaseId, &SliceName),
        ticket: &Ticket,
        keeps: bool,
    ) {
        let (slice, resource) = (slice.clone(), ticket.bottom().resource.clone());
        let (site, ticket) = (ticket.site(), ticket.clone());
        let state = match keeps {
            true => State::Ticketed { ticket, split: false },
            false => State::Redeeming { ticket },
        };
        let lessee = Lessee { guest, slice, lease, resource };
        self.leases.insert(lease, Lease { site, lessee, state });
    }

    /// Steps a lease in its machine, and notes which units it has then.
    fn step(&mut self, at: Time, fact: &Fact) {
        let Some((id, event)) = fact.lease_event() else { return };
        let Some(Lease { site, lessee, state }) = self.leases.remove(&id) else { return };
        let before = units(&state);
        // A journal holds no event without a place in the machine.
        let Ok(state) = state.next(event) else { return };
        let after = units(&state);
        for &unit in before.difference(&after) {
            if let Some(open) = self.open.remove(&(id, unit)) {
                self.tenancies[open].1.end = Some(at);
            }
        }
        for &unit in after.difference(&before) {
            self.open.insert((id, unit), self.tenancies.len());
            let tenancy = Tenancy { unit, lease: lessee.clone(), begin: at, end: None };
            self.tenancies.push((site, tenancy));
        }
        self.leases.insert(id, Lease { site, lessee, state });
    }
}

fn units(state: &State) -> BTreeSet<UnitId> {
    state.held().into_iter().flat_map(|held| held.units.keys().copied()).collect()
}
