//! Peers by invitation, as the journal says: those that are invited, and those that have joined.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::actor::common::{
    InvitationAnswered, InvitationMade, InvitationTaken, PeerChanged, PeerJoined,
};
use crate::actor::{Cause, Peer, Peers, Role};
use crate::model::identity::ActorId;
use crate::model::name::Name;
use crate::model::time::{Span, Time};
use crate::wire::invitation::{JoinFault, Permissions, SignedInvitation};

/// The most invitations that are open at a time.
pub const MAX_INVITATIONS: usize = 1_000;

/// The most peers by invitation.
pub const MAX_JOINED: usize = 10_000;

/// A peer by invitation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Joined {
    /// What it is called here.
    pub name: Name,
    /// Its role.
    pub role: Role,
    /// Where it is dialled; without it, it dials.
    pub address: Option<String>,
    /// What it may do here.
    pub may: Permissions,
    /// Since when it is as it is.
    pub since: Time,
    /// How far it is.
    pub standing: Standing,
}

/// How far a peer by invitation is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Standing {
    /// It has invited, and is asked to confirm that.
    Asked {
        /// The invitation.
        invitation: Box<SignedInvitation>,
        /// Where it may dial.
        reached_at: Option<String>,
    },
    /// It has invited, and has confirmed that.
    Confirmed,
    /// It has invited, and takes nobody by this invitation.
    Refused(JoinFault),
    /// It has come with this invitation.
    Came {
        /// The number of the invitation.
        invitation: u64,
        /// The answer, repeated if it asks again.
        cause: Answered,
    },
}

/// The fact behind an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answered(pub(crate) Cause);

impl Joined {
    /// Whether it is a peer by now.
    pub fn is_peer(&self) -> bool {
        match self.standing {
            Standing::Confirmed | Standing::Came { .. } => true,
            Standing::Asked { .. } | Standing::Refused(_) => false,
        }
    }
}

/// An invitation that is open.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Invited {
    pub(crate) joiner: Role,
    pub(crate) called: Option<Name>,
    pub(crate) may: Permissions,
    pub(crate) until: Time,
    /// Who has come with it.
    pub(crate) used: bool,
}

/// What a journal says of invitations and of peers that came by one.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct PeerBook {
    joined: BTreeMap<ActorId, Joined>,
    /// Those that may not have expired, by their numbers.
    invitations: BTreeMap<u64, Invited>,
    /// How many there ever were.
    count: u64,
}

impl PeerBook {
    pub(crate) fn joined(&self) -> &BTreeMap<ActorId, Joined> {
        &self.joined
    }

    /// How many invitations there ever were; the next one has the next number.
    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    pub(crate) fn invited(&self, number: u64) -> Option<&Invited> {
        self.invitations.get(&number)
    }

    /// How many invitations nobody has used yet that hold at an instant.
    pub(crate) fn open_at(&self, now: Time) -> usize {
        self.invitations.values().filter(|invited| !invited.used && now < invited.until).count()
    }

    /// The peers: those of the configuration, and those that have joined. What the configuration says prevails.
    pub(crate) fn with(&self, configured: &Peers) -> Peers {
        let has_joined = |(_, joined): &(&ActorId, &Joined)| joined.is_peer();
        let joined = self
            .joined
            .iter()
            .filter(has_joined)
            .map(|(&id, joined)| (id, Peer { name: joined.name.clone(), role: joined.role }));
        let mut joined = joined.peekable();
        if joined.peek().is_none() {
            return configured.clone();
        }
        joined.chain(configured.iter().map(|(&id, peer)| (id, peer.clone()))).collect()
    }

    /// An invitation is open. Those that have expired so long ago that nobody can show them are forgotten.
    pub(crate) fn invite(&mut self, at: Time, margin: Span, fact: &InvitationMade) {
        self.invitations.retain(|_, invited| at.minus(margin) < invited.until);
        let InvitationMade { invitation, called } = fact;
        self.count = self.count.max(invitation.number);
        let invited = Invited {
            joiner: invitation.joiner,
            called: called.clone(),
            may: invitation.may.clone(),
            until: invitation.until,
            used: false,
        };
        self.invitations.insert(invitation.number, invited);
    }

    /// Another one is asked to be a peer.
    pub(crate) fn take(&mut self, at: Time, fact: &InvitationTaken) {
        let InvitationTaken { invitation: signed, called, may, reached_at } = fact;
        let (invitation, reached_at) = (Box::new(signed.clone()), reached_at.clone());
        let joined = Joined {
            name: called.clone(),
            role: signed.invitation.role,
            address: Some(signed.invitation.address.clone()),
            may: may.clone(),
            since: at,
            standing: Standing::Asked { invitation, reached_at },
        };
        self.joined.insert(signed.invitation.inviter, joined);
    }

    /// The other one has answered.
    pub(crate) fn answered(&mut self, at: Time, fact: &InvitationAnswered) {
        let Some(joined) = self.joined.get_mut(&fact.peer) else { return };
        joined.since = at;
        joined.standing = fact.fault.clone().map_or(Standing::Confirmed, Standing::Refused);
    }

    /// One has come with an invitation.
    pub(crate) fn join(&mut self, cause: Cause, fact: &PeerJoined) {
        let PeerJoined { peer, called, role, address, may, invitation } = fact.clone();
        if let Some(invited) = self.invitations.get_mut(&invitation) {
            invited.used = true;
        }
        let (since, cause) = (cause.at, Answered(cause));
        let standing = Standing::Came { invitation, cause };
        self.joined.insert(peer, Joined { name: called, role, address, may, since, standing });
    }

    pub(crate) fn change(&mut self, at: Time, fact: &PeerChanged) {
        let Some(joined) = self.joined.get_mut(&fact.peer) else { return };
        (joined.address, joined.may) = (fact.address.clone(), fact.may.clone());
        joined.since = at;
    }

    pub(crate) fn remove(&mut self, peer: ActorId) {
        self.joined.remove(&peer);
    }
}
