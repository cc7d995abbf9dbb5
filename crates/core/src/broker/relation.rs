//! What a broker does for another once they become peers by invitation.

use super::Broker;
use super::rules::Source;
use crate::actor::common::{CommonFact, InvitationAnswered, PeerRemoved};
use crate::actor::invitations::{Newcomer, PeerRelation};
use crate::actor::joined::{Joined, Standing};
use crate::broker::facts::{NeighbourSet, QuotaSet, RelationPlanned, SharingSet};
use crate::broker::forwarding::{Accepted, Neighbour};
use crate::broker::quota::Quota;
use crate::broker::sharing::Sharing;
use crate::model::time::Time;

impl Broker {
    pub(super) fn relation_planned(&mut self, at: Time, fact: &RelationPlanned) {
        let mut planned = std::mem::take(&mut self.state.relations);
        planned.retain(|newcomer, _| self.is_awaited(at, *newcomer));
        planned.insert(fact.newcomer, fact.relation);
        self.state.relations = planned;
    }

    /// Whether a newcomer can still become a peer.
    fn is_awaited(&self, now: Time, newcomer: Newcomer) -> bool {
        let peers = &self.base.common.peers;
        match newcomer {
            Newcomer::Invited(number) => {
                peers.invited(number).is_some_and(|of| !of.used && now < of.until)
            }
            Newcomer::Inviter(id) => {
                let asked = |joined: &Joined| matches!(joined.standing, Standing::Asked { .. });
                peers.joined().get(&id).is_some_and(asked)
            }
        }
    }

    /// Why this cannot be planned, if so.
    pub(super) fn check_relation(&self, now: Time, relation: PeerRelation) -> Result<(), String> {
        let planned = |is: fn(&PeerRelation) -> bool| {
            let planned = self.state.relations.iter();
            planned.filter(|(who, of)| is(of) && self.is_awaited(now, **who)).count()
        };
        let (now, planned, most, what) = match relation {
            PeerRelation::Share { .. } => {
                let planned = planned(|of| matches!(of, PeerRelation::Share { .. }));
                (self.state.sharings.count(), planned, Sharing::MAX_COUNT, "shares with")
            }
            PeerRelation::Forward { .. } => {
                let planned = planned(|of| matches!(of, PeerRelation::Forward { .. }));
                let now = self.state.neighbours.keys().len();
                (now, planned, Self::MAX_NEIGHBOURS, "forwards to")
            }
        };
        if now + planned < most {
            return Ok(());
        }
        Err(format!("it already {what} {most} brokers, planned ones included"))
    }

    /// Puts in force what was planned for a newcomer, as if an operator had set it, so it prevails over the configuration.
    /// It follows from the fact by which the newcomer is a peer, so neither is in the journal without the other.
    pub(super) fn begin_relation(&mut self, at: Time, fact: &CommonFact) {
        let (newcomer, with) = match fact {
            CommonFact::PeerJoined(fact) => (Newcomer::Invited(fact.invitation), fact.peer),
            CommonFact::InvitationAnswered(InvitationAnswered { peer, fault: None }) => {
                (Newcomer::Inviter(*peer), *peer)
            }
            // What was planned is over; a later invitation is taken with what is planned then.
            CommonFact::InvitationAnswered(InvitationAnswered { peer, fault: Some(_) })
            | CommonFact::PeerRemoved(PeerRemoved { peer }) => {
                self.state.relations.remove(&Newcomer::Inviter(*peer));
                return;
            }
            CommonFact::InvitationTaken(fact) => {
                let inviter = Newcomer::Inviter(fact.invitation.invitation.inviter);
                self.state.relations.remove(&inviter);
                return;
            }
            CommonFact::InvitationMade(_)
            | CommonFact::PeerChanged(_)
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
            Some(PeerRelation::Share { units }) => {
                let sharing = Some(Sharing { units, ..Sharing::default() });
                self.sharing_set(at, &SharingSet { with, sharing, by });
            }
            Some(PeerRelation::Forward { units }) => {
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
