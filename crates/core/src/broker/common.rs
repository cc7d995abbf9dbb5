//! What a Broker does as actors of all roles do.

use super::delegating::Delegated;
use super::{Broker, Holding, IssuedTicket, Obligation, Usage};
use crate::actor::common::{CommonActor, PeerObligation};
use crate::actor::invitations::{Newcomer, PeerRelation};
use crate::actor::{Emit as _, Role};
use crate::broker::Output;
use crate::broker::facts::RelationPlanned;
use crate::model::codec::Hash;
use crate::model::identity::ActorId;
use crate::model::time::Time;

impl CommonActor for Broker {
    const ROLE: Role = Role::Broker;

    fn signed(&self) -> Vec<(Time, Hash)> {
        self.state.ledger.signed_by(self.base.id())
    }

    fn set_duty(&mut self, duty: PeerObligation, at: Time, owed: bool) {
        let key = Obligation::Common(duty);
        if owed {
            self.state.pending.require(key, self.base.position, at);
        } else {
            self.state.pending.settle(&key);
        }
    }

    fn plan_relation(
        &mut self,
        now: Time,
        (newcomer, relation): (Newcomer, Option<PeerRelation>),
        out: &mut Output,
    ) {
        if let Some(relation) = relation {
            self.emit(now, RelationPlanned { newcomer, relation }, out);
        }
    }

    fn can_plan(&self, now: Time, relation: PeerRelation) -> Result<(), String> {
        self.check_relation(now, relation)
    }

    fn ties_with(&self, now: Time, peer: ActorId) -> Option<String> {
        let of_it = |holding: &&Holding| {
            holding.ticket.site() == peer || holding.ticket.bottom().issuer == peer
        };
        if let Some(holding) = self.state.holdings.values().find(of_it) {
            let id = holding.ticket.bottom().account();
            return Some(format!("{id} is delegated by it; give it back, or wait for its end"));
        }
        let to_it = |(_, delegated): &(&u64, &Delegated)| delegated.ticket.bottom().holder == peer;
        if let Some((number, _)) = self.state.delegated.iter().find(to_it) {
            return Some(format!("delegation {number} is delegated to it, and has not ended"));
        }
        let passed = self.passed_to(peer);
        if passed > 0 {
            return Some(format!("{passed} requests are passed on to it"));
        }
        let Usage { open, held, .. } = self.usage_of(peer);
        if open > 0 || held > 0 {
            return Some(format!("{} of its requests are open", open.saturating_add(held)));
        }
        let out = |ticket: &&IssuedTicket| {
            let of_it = ticket.answers == peer || ticket.request.origin == peer;
            of_it && !ticket.returned && now < ticket.until
        };
        let last = self.state.issued.values().filter(out).map(|ticket| ticket.until).max();
        last.map(|until| format!("it has tickets until {until}"))
    }
}
