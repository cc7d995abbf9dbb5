//! Maps each fact to its request: one id correlates a lease across the logs of all its actors.

use std::collections::BTreeMap;

use tenure_core::driver::UnitId;
use tenure_core::model::identity::ActorId;
use tenure_core::model::slice::RequestId;
use tenure_core::runtime::AnyActor;
use tenure_core::runtime::Fact;
use tenure_core::site_authority::facts::Fact as F;
use tenure_core::ticket::link::LinkHash;

use crate::subject::{Subject, subject, tenants};

/// What one actor's facts so far are about.
pub(crate) struct RequestTrace {
    actor: ActorId,
    /// At a site, the request behind each lease, and the lease each unit was last put on.
    leases: BTreeMap<LinkHash, RequestId>,
    units: BTreeMap<UnitId, LinkHash>,
}

impl RequestTrace {
    pub(crate) fn new(actor: ActorId) -> Self {
        Self { actor, leases: BTreeMap::new(), units: BTreeMap::new() }
    }

    /// Initializes the trace from an actor restored from a snapshot.
    pub(super) fn look(&mut self, actor: &AnyActor) {
        let AnyActor::SiteAuthority(site) = actor else { return };
        for (lease, _, ticket, _) in site.leases() {
            let (origin, number) = (ticket.bottom().holder, lease.number);
            self.leases.insert(ticket.hash(), RequestId { origin, number });
        }
        let tenants = site.units().filter_map(|(unit, state, _)| Some((unit, state.tenant()?)));
        self.units.extend(tenants);
    }

    /// Applies the next fact; returns the request it belongs to, if any.
    pub(crate) fn follow(&mut self, fact: &Fact) -> Option<RequestId> {
        if let Fact::SiteAuthority(fact) = fact {
            if let F::Redeemed(fact) = fact {
                let link = fact.ticket.bottom();
                let request = RequestId { origin: link.holder, number: fact.lease.number };
                self.leases.insert(link.hash(), request);
            }
            self.units.extend(tenants(fact));
        }
        let request = match subject(fact)? {
            Subject::Own(number) => Some(RequestId { origin: self.actor, number }),
            Subject::Request(request) => Some(request),
            Subject::Lease(lease) => self.leases.get(&lease).copied(),
            Subject::Unit(unit) => self.leases.get(self.units.get(&unit)?).copied(),
        };
        if let Fact::SiteAuthority(F::LeaseForgotten(fact)) = fact {
            self.leases.remove(&fact.lease);
        }
        request
    }
}
