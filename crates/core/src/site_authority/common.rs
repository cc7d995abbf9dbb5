//! What a SiteAuthority does as actors of all roles do.

use super::{Delegation, Obligation, SiteAuthority};
use crate::actor::Role;
use crate::actor::common::{CommonActor, PeerObligation};
use crate::model::codec::Hash;
use crate::model::identity::ActorId;
use crate::model::time::Time;

impl CommonActor for SiteAuthority {
    const ROLE: Role = Role::SiteAuthority;

    fn signed(&self) -> Vec<(Time, Hash)> {
        self.state.claims.signed_by_site(self.base.id())
    }

    fn set_duty(&mut self, duty: PeerObligation, at: Time, owed: bool) {
        let key = Obligation::Common(duty);
        if owed {
            self.state.pending.require(key, self.base.position, at);
        } else {
            self.state.pending.settle(&key);
        }
    }

    fn ties_with(&self, _: Time, peer: ActorId) -> Option<String> {
        let to_it = |delegation: &&Delegation| delegation.ticket.bottom().holder == peer;
        if let Some(delegation) = self.state.delegations.values().find(to_it) {
            let end = delegation.ticket.bottom().term.end();
            return Some(format!("units are delegated to it until {end}"));
        }
        let live = self.state.live.iter().filter_map(|lease| self.state.leases.get(lease));
        let leases = live.filter(|lease| lease.holder() == peer).count();
        (leases > 0).then(|| format!("{leases} of its leases have not ended"))
    }
}
