//! How actors become peers by an invitation, and how that ends.
//!
//! The inviter signs an invitation and journals it. Its holder asks to join until it is answered. The
//! inviter takes the first one that comes, once, while the invitation holds.

use serde::{Deserialize, Serialize};

use crate::actor::common::{
    CommonActor, CommonFact, InvitationAnswered, InvitationMade, InvitationTaken, PeerChanged,
    PeerJoined, PeerObligation, PeerRemoved,
};
use crate::actor::effect::Output;
use crate::actor::joined::{Joined, MAX_INVITATIONS, MAX_JOINED, Standing};
use crate::actor::{Cause, Role};
use crate::model::codec;
use crate::model::identity::ActorId;
use crate::model::name::Name;
use crate::model::time::{Span, Time};
use crate::wire::invitation::{
    Invitation, JoinFault, MAX_LINE, Permissions, SignedInvitation, can_be_dialled, permissions_of,
};
use crate::wire::message::{Join, Message};

/// The longest that an invitation holds.
pub const MAX_HOLDS: Span = Span::DAY.times(30);

/// What a broker does for another one once they are peers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum PeerRelation {
    /// It shares its units, of each type at most this many, if a number is set.
    Share {
        /// The limit.
        units: Option<u32>,
    },
    /// It passes on requests that it cannot meet, and accepts those that the other passes on, for at most this many units
    /// at a time, if a number is set.
    Forward {
        /// The limit.
        units: Option<u32>,
    },
}

/// Who is yet to become a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Newcomer {
    /// Who comes with the invitation of this number.
    Invited(u64),
    /// The inviter.
    Inviter(ActorId),
}

/// A command about the peers of an actor.
#[derive(Clone, Debug, PartialEq)]
pub enum PeerCommand {
    /// The first actor that presents the signed invitation becomes a peer.
    Invite {
        /// Its role.
        joiner: Role,
        /// What it is called here; what it calls itself, unless set.
        called: Option<Name>,
        /// What it may do here; all that its role may, unless set.
        may: Option<Permissions>,
        /// How long the invitation holds.
        holds: Span,
        /// Where the actor is dialled.
        address: String,
        /// What a broker does for the broker that comes.
        relation: Option<PeerRelation>,
    },
    /// Who has invited becomes a peer.
    Join {
        /// The invitation.
        invitation: Box<SignedInvitation>,
        /// What the other is called here; what it calls itself, unless set.
        called: Option<Name>,
        /// What the other may do here; all that its role may, unless set.
        may: Option<Permissions>,
        /// Where the actor is dialled, if it is.
        reached_at: Option<String>,
        /// What a broker does for the broker that has invited it.
        relation: Option<PeerRelation>,
    },
    /// A peer by invitation is dialled elsewhere, or may do something else.
    Change {
        /// Who.
        peer: ActorId,
        /// Where it is dialled; without it, it dials.
        address: Option<String>,
        /// What it may do here.
        may: Permissions,
    },
    /// Remove a peer that joined by invitation.
    Remove {
        /// Who.
        peer: ActorId,
    },
}

/// An actor that has peers.
pub(crate) trait PeerKeeper: CommonActor {
    /// Carries out a command about peers.
    ///
    /// # Errors
    /// Why it cannot be.
    fn change_peers(
        &mut self,
        now: Time,
        command: PeerCommand,
        out: &mut Output<Self::Fact>,
    ) -> Result<(), String> {
        let fact = match command {
            PeerCommand::Invite { joiner, called, may, holds, address, relation } => {
                self.can_relate(now, relation, joiner)?;
                let made = self.invite(now, (joiner, called), may, (holds, address))?;
                let newcomer = Newcomer::Invited(made.invitation.number);
                self.emit_common(now, made, out);
                self.plan_relation(now, (newcomer, relation), out);
                return Ok(());
            }
            PeerCommand::Join { invitation, called, may, reached_at, relation } => {
                self.can_relate(now, relation, invitation.invitation.role)?;
                let newcomer = Newcomer::Inviter(invitation.invitation.inviter);
                let taken = self.take_invitation(now, *invitation, (called, may), reached_at)?;
                self.emit_common(now, taken, out);
                self.plan_relation(now, (newcomer, relation), out);
                return Ok(());
            }
            PeerCommand::Change { peer, address, may } => {
                let joined = self.joined_peer(peer)?;
                suit(&may, (joined.role, Self::ROLE))?;
                if let Some(address) = &address {
                    is_address(address)?;
                }
                CommonFact::from(PeerChanged { peer, address, may })
            }
            PeerCommand::Remove { peer } => {
                let name = self.joined_peer(peer)?.name.clone();
                if let Some(tie) = self.ties_with(now, peer) {
                    return Err(format!("{name} cannot be removed now: {tie}"));
                }
                PeerRemoved { peer }.into()
            }
        };
        self.emit_common(now, fact, out);
        Ok(())
    }

    /// Refuses what cannot be done for an actor of a role.
    fn can_relate(
        &self,
        now: Time,
        relation: Option<PeerRelation>,
        with: Role,
    ) -> Result<(), String> {
        let Some(relation) = relation else { return Ok(()) };
        if with != Role::Broker {
            return Err(format!("nothing is shared with or forwarded to a {with}"));
        }
        self.can_plan(now, relation)
    }

    /// The peer by invitation.
    fn joined_peer(&self, peer: ActorId) -> Result<&Joined, String> {
        self.base().common.peers.joined().get(&peer).ok_or_else(|| {
            match self.base().peer_name(peer) {
                Some(name) => format!("{name} is a peer by configuration"),
                None => format!("{peer} is no peer"),
            }
        })
    }

    /// An invitation by the actor.
    fn invite(
        &self,
        now: Time,
        (joiner, called): (Role, Option<Name>),
        may: Option<Permissions>,
        (holds, address): (Span, String),
    ) -> Result<InvitationMade, String> {
        let base = self.base();
        if !holds.is_positive() || holds > MAX_HOLDS {
            return Err(format!(
                "an invitation holds for more than no time and at most {MAX_HOLDS}"
            ));
        }
        is_address(&address)?;
        let may = may.unwrap_or_else(|| permissions_of(joiner, Self::ROLE));
        suit(&may, (joiner, Self::ROLE))?;
        if let Some(called) = &called {
            self.is_free(called, None)?;
        }
        let peers = &base.common.peers;
        if peers.open_at(now) >= MAX_INVITATIONS {
            return Err(format!("{MAX_INVITATIONS} invitations are open already"));
        }
        let invitation = Invitation {
            inviter: base.id(),
            name: base.setup.name.clone(),
            role: Self::ROLE,
            address,
            number: peers.count() + 1,
            joiner,
            may,
            until: now.plus(holds),
        };
        Ok(InvitationMade { invitation, called })
    }

    /// The invitation of another, if it can be taken.
    fn take_invitation(
        &mut self,
        now: Time,
        signed: SignedInvitation,
        (called, may): (Option<Name>, Option<Permissions>),
        reached_at: Option<String>,
    ) -> Result<InvitationTaken, String> {
        if codec::encode(&signed).len() > MAX_LINE / 2 {
            return Err("the invitation is too long".to_owned());
        }
        self.base_mut()
            .credentials
            .check_invitation(&signed)
            .map_err(|fault| format!("the invitation does not count: {fault}"))?;
        let Invitation { inviter, name, role, joiner, until, address, .. } = &signed.invitation;
        let base = self.base();
        if *inviter == base.id() {
            return Err("the invitation is its own".to_owned());
        }
        if *joiner != Self::ROLE {
            let (own, name) = (Self::ROLE, &base.setup.name);
            return Err(format!("the invitation is for a {joiner}, and {name} is a {own}"));
        }
        if *until <= now {
            return Err("the invitation has expired".to_owned());
        }
        is_address(address)?;
        let called = called.unwrap_or_else(|| name.clone());
        if let Some(peer) = base.peers.get(inviter) {
            return Err(format!("who invites is the peer {} already", peer.name));
        }
        if base.common.peers.joined().len() >= MAX_JOINED {
            return Err(format!("it has {MAX_JOINED} peers by invitation already"));
        }
        self.is_free(&called, Some(*inviter))?;
        let may = may.unwrap_or_else(|| permissions_of(*role, Self::ROLE));
        suit(&may, (*role, Self::ROLE))?;
        Ok(InvitationTaken { invitation: signed, called, may, reached_at })
    }

    /// Whether a name can be that of a peer.
    fn is_free(&self, name: &Name, of: Option<ActorId>) -> Result<(), String> {
        let base = self.base();
        let configured = base.setup.peers.iter().map(|(&id, peer)| (id, &peer.name));
        let joined = base.common.peers.joined().iter().map(|(&id, joined)| (id, &joined.name));
        let own = std::iter::once((base.id(), &base.setup.name));
        let mut others = configured.chain(joined).chain(own);
        match others.find(|(id, other)| *other == name && Some(*id) != of) {
            Some((other, _)) => {
                Err(format!("`{name}` is the name of {other}: give this one another with `--name`"))
            }
            None => Ok(()),
        }
    }

    /// Another actor comes with an invitation.
    fn asked_to_join(
        &mut self,
        now: Time,
        from: ActorId,
        join: &Join,
        out: &mut Output<Self::Fact>,
    ) {
        let number = join.invitation.invitation.number;
        let base = self.base();
        if let Some(Joined { standing: Standing::Came { invitation, cause }, .. }) =
            base.common.peers.joined().get(&from)
            && *invitation == number
        {
            let message = Message::Joined { number, fault: None };
            return out.replies.push(base.answer(from, cause.0, message));
        }
        match self.judge(now, from, join) {
            Ok(joined) => {
                let cause = Cause { position: self.base().position, at: now };
                self.emit_common(now, joined, out);
                let message = Message::Joined { number, fault: None };
                out.replies.push(self.base().answer(from, cause, message));
            }
            Err(fault) => {
                let message = Message::Joined { number, fault: Some(fault) };
                out.replies.push(self.base().volatile(from, now, message));
            }
        }
    }

    /// Who comes, as a peer.
    fn judge(&mut self, now: Time, from: ActorId, join: &Join) -> Result<PeerJoined, JoinFault> {
        let Join { invitation: signed, name, role, address } = join;
        let Invitation { inviter, number, .. } = signed.invitation;
        let checked = self.base_mut().credentials.check_invitation(signed);
        let base = self.base();
        let peers = &base.common.peers;
        if inviter != base.id() || checked.is_err() || number > peers.count() {
            return Err(JoinFault::Unknown);
        }
        // One that is forgotten has expired.
        let invited = peers.invited(number).ok_or(JoinFault::Expired)?;
        if invited.used {
            return Err(JoinFault::Used);
        }
        if invited.until <= now {
            return Err(JoinFault::Expired);
        }
        if invited.joiner != *role {
            return Err(JoinFault::Role(invited.joiner));
        }
        if base.setup.peers.contains_key(&from) {
            return Err(JoinFault::Known);
        }
        if peers.joined().len() >= MAX_JOINED && !peers.joined().contains_key(&from) {
            return Err(JoinFault::Full);
        }
        let called = invited.called.clone().unwrap_or_else(|| name.clone());
        self.is_free(&called, Some(from)).map_err(|_| JoinFault::Name(called.clone()))?;
        let address = address.clone().filter(|address| is_address(address).is_ok());
        let (role, may) = (*role, invited.may.clone());
        Ok(PeerJoined { peer: from, called, role, address, may, invitation: number })
    }

    /// Who has invited has answered.
    fn join_answered(
        &mut self,
        now: Time,
        from: ActorId,
        (number, fault): (u64, Option<JoinFault>),
        out: &mut Output<Self::Fact>,
    ) -> Result<(), String> {
        match self.base().common.peers.joined().get(&from).map(|joined| &joined.standing) {
            Some(Standing::Asked { invitation, .. }) if invitation.invitation.number == number => {
                self.emit_common(now, InvitationAnswered { peer: from, fault }, out);
                Ok(())
            }
            Some(Standing::Confirmed | Standing::Refused(_)) => Ok(()),
            Some(Standing::Asked { .. } | Standing::Came { .. }) | None => {
                Err("its sender was not asked".to_owned())
            }
        }
    }

    /// The question to who has invited, as long as it is open.
    fn join_message(&self, peer: ActorId) -> Option<Message> {
        let base = self.base();
        match &base.common.peers.joined().get(&peer)?.standing {
            Standing::Asked { invitation, reached_at } => Some(Message::Join(Box::new(Join {
                invitation: (**invitation).clone(),
                name: base.setup.name.clone(),
                role: Self::ROLE,
                address: reached_at.clone(),
            }))),
            Standing::Confirmed | Standing::Refused(_) | Standing::Came { .. } => None,
        }
    }

    /// Applies a fact about peers.
    #[allow(clippy::wildcard_enum_match_arm, reason = "all other facts are applied by the caller")]
    fn apply_to_peers(&mut self, at: Time, fact: &CommonFact) {
        let (position, margin) = (self.base().position, self.base().margin());
        let peers = &mut self.base_mut().common.peers;
        match fact {
            CommonFact::InvitationMade(fact) => peers.invite(at, margin, fact),
            CommonFact::InvitationTaken(fact) => {
                peers.take(at, fact);
                self.set_duty(PeerObligation::Join(fact.invitation.invitation.inviter), at, true);
            }
            CommonFact::InvitationAnswered(fact) => {
                peers.answered(at, fact);
                self.set_duty(PeerObligation::Join(fact.peer), at, false);
            }
            CommonFact::PeerJoined(fact) => {
                peers.join(Cause { position, at }, fact);
                self.set_duty(PeerObligation::Join(fact.peer), at, false);
            }
            CommonFact::PeerChanged(fact) => peers.change(at, fact),
            CommonFact::PeerRemoved(fact) => {
                peers.remove(fact.peer);
                self.base_mut().common.clocks.found(at, fact.peer, Span::ZERO);
                self.set_duty(PeerObligation::Join(fact.peer), at, false);
                self.set_duty(PeerObligation::Keys(fact.peer), at, false);
            }
            _ => {}
        }
        self.base_mut().know_peers();
    }
}

impl<A: CommonActor> PeerKeeper for A {}

/// Whether a peer of that role may be allowed this much.
fn suit(may: &Permissions, (peer, at): (Role, Role)) -> Result<(), String> {
    match may.difference(&permissions_of(peer, at)).next() {
        Some(more) => Err(format!("a {peer} cannot `{}` anything of a {at}", more.word())),
        None => Ok(()),
    }
}

/// Refuses what cannot be dialled.
fn is_address(text: &str) -> Result<(), String> {
    if can_be_dialled(text) {
        return Ok(());
    }
    Err(format!("`{text}` is no address to dial: write a host and a port, `alpha.example:7400`"))
}
