//! What a broker does for another one from the moment on at which they are peers by invitation.

use super::Broker;
use super::rules::Source;
use crate::actor::common::{CommonFact, InvitationAnswered};
use crate::actor::invitations::{Newcomer, Relation};
use crate::actor::joined::{Joined, Standing};
use crate::broker::facts::{NeighbourSet, QuotaSet, RelationPlanned, SharingSet};
use crate::broker::forwarding::{Accepted, Neighbour};
use crate::broker::quota::Quota;
use crate::broker::sharing::Sharing;
use crate::model::time::Time;

impl Broker {
    pub(super) fn relation_planned(&mut self, fact: &RelationPlanned) {
        let peers = &self.base.common.peers;
        let is_awaited = |newcomer: &Newcomer| match newcomer {
            Newcomer::Invited(number) => peers.invited(*number).is_some_and(|of| !of.used),
            Newcomer::Inviter(id) => {
                let asked = |joined: &Joined| matches!(joined.standing, Standing::Asked { .. });
                peers.joined().get(id).is_some_and(asked)
            }
        };
        self.state.relations.retain(|newcomer, _| is_awaited(newcomer));
        self.state.relations.insert(fact.newcomer, fact.relation);
    }

    /// Why this cannot be planned, if so.
    pub(super) fn check_relation(&self, relation: Relation) -> Result<(), String> {
        let planned = |is: fn(&Relation) -> bool| {
            self.state.relations.values().filter(|planned| is(planned)).count()
        };
        let (now, planned, most, what) = match relation {
            Relation::Share { .. } => {
                let planned = planned(|of| matches!(of, Relation::Share { .. }));
                (self.state.sharings.count(), planned, Sharing::MAX_COUNT, "shares with")
            }
            Relation::Forward { .. } => {
                let planned = planned(|of| matches!(of, Relation::Forward { .. }));
                let now = self.state.neighbours.keys().len();
                (now, planned, Self::MAX_NEIGHBOURS, "forwards to")
            }
        };
        if now + planned < most {
            return Ok(());
        }
        Err(format!("it {what} {most} brokers already, or will"))
    }

    /// What was planned for a newcomer is in force, as if an operator had said it: it prevails over the configuration.
    /// It follows from the fact by which the newcomer is a peer, so neither is in the journal without the other.
    pub(super) fn begin_relation(&mut self, at: Time, fact: &CommonFact) {
        let (newcomer, with) = match fact {
            CommonFact::PeerJoined(fact) => (Newcomer::Invited(fact.invitation), fact.peer),
            CommonFact::InvitationAnswered(InvitationAnswered { peer, fault: None }) => {
                (Newcomer::Inviter(*peer), *peer)
            }
            CommonFact::InvitationAnswered(_)
            | CommonFact::InvitationMade(_)
            | CommonFact::InvitationTaken(_)
            | CommonFact::PeerChanged(_)
            | CommonFact::PeerRemoved(_)
            | CommonFact::Commanded(_)
            | CommonFact::SettingsChanged(_)
            | CommonFact::ClockCompared(_)
            | CommonFact::KeyRotated(_)
            | CommonFact::KeyRevoked(_)
            | CommonFact::PeerKeysLearned(_)
            | CommonFact::KeysNoted(_) => return,
        };
        let by = Source::Operator;
        match self.state.relations.remove(&newcomer) {
            Some(Relation::Share { units }) => {
                let sharing = Some(Sharing { units, ..Sharing::default() });
                self.sharing_set(at, &SharingSet { with, sharing, by });
            }
            Some(Relation::Forward { units }) => {
                let accept = Some(Accepted::default());
                let neighbour = Some(Neighbour { forward: true, accept });
                self.neighbour_set(&NeighbourSet { with, neighbour, by });
                let quota = units.map(|_| Quota { units, ..Quota::default() });
                if quota.is_some() {
                    self.quota_set(&QuotaSet { whose: Some(with), quota, by });
                }
            }
            None => {}
        }
    }
}
