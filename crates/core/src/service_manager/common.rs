//! What a ServiceManager does as actors of all roles do.

use super::{Lease, Obligation, ServiceManager, is_live};
use crate::actor::Role;
use crate::actor::common::{CommonActor, PeerObligation};
use crate::model::codec::Hash;
use crate::model::identity::ActorId;
use crate::model::slice::LeaseId;
use crate::model::time::Time;
use crate::ticket::Ticket;

impl CommonActor for ServiceManager {
    const ROLE: Role = Role::ServiceManager;

    fn signed(&self) -> Vec<(Time, Hash)> {
        self.state.splits.signed_by(self.base.id())
    }

    fn set_duty(&mut self, duty: PeerObligation, at: Time, owed: bool) {
        let key = Obligation::Common(duty);
        if owed {
            self.state.pending.require(key, self.base.position, at);
        } else {
            self.state.pending.settle(&key);
        }
    }

    /// A site that is known by tickets alone is dialled and believed by its keys as much as a peer.
    fn keeps_keys_of(&self, actor: ActorId) -> bool {
        let mut live = self.state.leases.values().filter(|lease| is_live(&lease.state));
        self.base.peers.contains_key(&actor)
            || live.any(|lease| lease.state.tickets().iter().any(|own| own.site() == actor))
    }

    fn ties_with(&self, _: Time, peer: ActorId) -> Option<String> {
        let asked = self
            .state
            .requests
            .iter()
            .find(|(_, request)| request.broker == peer && request.state.is_open());
        if let Some((number, _)) = asked {
            return Some(format!("request {number} to it is open"));
        }
        let is_its = |id: &LeaseId, lease: &Lease| {
            let request = self.state.requests.get(&id.number);
            let tickets = lease.state.tickets().iter();
            let mut links = tickets.flat_map(Ticket::links);
            request.is_some_and(|request| request.broker == peer)
                || links.any(|link| link.issuer == peer)
        };
        let mut live = self.state.leases.iter().filter(|(_, lease)| is_live(&lease.state));
        let lease = live.find(|(id, lease)| is_its(id, lease));
        lease.map(|(id, _)| format!("lease {id} is of its tickets, and has not ended"))
    }
}
