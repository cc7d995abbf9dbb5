//! What actors of all roles have in common: facts, the state they fold to, and what is done about them.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::actor::clocks::ClocksApart;
use crate::actor::effect::{Effect, EffectId, Output};
use crate::actor::invitations::{Newcomer, PeerKeeper as _, PeerRelation};
use crate::actor::joined::PeerBook;
use crate::actor::keys::KeyHolder as _;
use crate::actor::order::{Order, Orders};
use crate::actor::settings::{Journaled, SettingChange};
use crate::actor::{Emit, Role, dropped};
use crate::model::codec::{self, DecodeError, Hash};
use crate::model::identity::ActorId;
use crate::model::keys::{KeyChain, SignedStatement};
use crate::model::name::Name;
use crate::model::time::{Span, Time};
use crate::wire::invitation::{Invitation, JoinFault, Permission, SignedInvitation};
use crate::wire::message::{Envelope, Message, Sealed};

/// Declares the facts that all roles have. Their kinds begin with the word of the role.
macro_rules! common_facts {
    ($(
        $(#[$doc:meta])*
        $name:ident = $kind:literal $version:literal {
            $($(#[$field_doc:meta])* $field:ident: $type:ty,)*
        }
    )*) => {
        $(
            $(#[$doc])*
            #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
            pub struct $name {
                $($(#[$field_doc])* pub $field: $type,)*
            }

            impl From<$name> for CommonFact {
                fn from(fact: $name) -> Self {
                    Self::$name(fact)
                }
            }
        )*

        /// The facts that actors of all roles have.
        #[derive(Clone, Debug, PartialEq)]
        pub enum CommonFact {
            $($(#[$doc])* $name($name),)*
        }

        impl CommonFact {
            /// The kinds in the journal of a role, each with the version that is written today.
            pub fn kinds(role: Role) -> impl Iterator<Item = (&'static str, u16)> {
                match role {
                    Role::ServiceManager => [$((concat!("service-manager.", $kind), $version),)*],
                    Role::Broker => [$((concat!("broker.", $kind), $version),)*],
                    Role::SiteAuthority => [$((concat!("site.", $kind), $version),)*],
                }
                .into_iter()
            }

            /// The kind, as the journal of a role names it, and its version.
            pub fn kind(&self, role: Role) -> (&'static str, u16) {
                match self {
                    $(Self::$name(_) => match role {
                        Role::ServiceManager => (concat!("service-manager.", $kind), $version),
                        Role::Broker => (concat!("broker.", $kind), $version),
                        Role::SiteAuthority => (concat!("site.", $kind), $version),
                    },)*
                }
            }

            /// Appends the bytes of the body.
            pub fn encode_into(&self, bytes: &mut Vec<u8>) {
                match self {
                    $(Self::$name(fact) => codec::encode_into(fact, bytes),)*
                }
            }

            /// The body, for formats that people read.
            pub fn body(&self) -> &dyn erased_serde::Serialize {
                match self {
                    $(Self::$name(fact) => fact,)*
                }
            }

            /// Reads a body back; `None` if there is no such kind in the journal of that role.
            pub fn decode(
                role: Role,
                (kind, version): (&str, u16),
                body: &[u8],
            ) -> Option<Result<Self, DecodeError>> {
                let prefix = match role {
                    Role::ServiceManager => "service-manager.",
                    Role::Broker => "broker.",
                    Role::SiteAuthority => "site.",
                };
                match (kind.strip_prefix(prefix)?, version) {
                    $(($kind, $version) => Some(codec::decode_fact(body).map(Self::$name)),)*
                    _ => None,
                }
            }
        }
    };
}

common_facts! {
    /// A command with a name was carried out; what came of it are the facts before this one.
    Commanded = "commanded" 1 {
        /// Its name, who gave it, and a digest of all that was asked for.
        order: Order,
        /// How many facts came of it.
        facts: u64,
    }

    /// Settings were changed before a start.
    SettingsChanged = "settings-changed" 1 {
        /// Each with what it was and is.
        changes: Vec<SettingChange>,
    }

    /// A peer has signed what its clock shows: it is apart by more than the margin, by twice as much as was
    /// known, or keeps to half the margin again.
    ClockCompared = "clock-compared" 1 {
        /// The peer.
        peer: ActorId,
        /// How far its clock is ahead at least; negative if it is behind, and zero if it keeps to the margin.
        ahead: Span,
        /// The answer, signed by the peer.
        pong: Sealed,
    }

    /// Another key of its own is in force.
    KeyRotated = "key-rotated" 1 {
        /// The statement.
        statement: SignedStatement,
        /// The peers that are to note it.
        tell: Vec<ActorId>,
    }

    /// An earlier key of its own is void.
    KeyRevoked = "key-revoked" 1 {
        /// The statement.
        statement: SignedStatement,
        /// The peers that are to note it.
        tell: Vec<ActorId>,
    }

    /// A peer has stated something about its keys.
    PeerKeysLearned = "peer-keys-learned" 1 {
        /// The peer.
        peer: ActorId,
        /// All that it has stated.
        chain: KeyChain,
    }

    /// A peer has noted its statements about its keys.
    KeysNoted = "keys-noted" 1 {
        /// The peer.
        peer: ActorId,
        /// How many.
        number: u32,
    }

    /// It invites an actor that it does not know, whichever comes first.
    InvitationMade = "invitation-made" 1 {
        /// What was signed.
        invitation: Invitation,
        /// What the one that joins is called here; what it calls itself, unless set.
        called: Option<Name>,
    }

    /// It asks another actor to be its peer, as that has invited it to.
    InvitationTaken = "invitation-taken" 1 {
        /// The invitation.
        invitation: SignedInvitation,
        /// What the other is called here.
        called: Name,
        /// What the other may do here.
        may: BTreeSet<Permission>,
        /// Where the other may dial; without it, it is dialled.
        reached_at: Option<String>,
    }

    /// The other actor has answered: it is a peer, or is not.
    InvitationAnswered = "invitation-answered" 1 {
        /// The other.
        peer: ActorId,
        /// Why it is no peer, if so.
        fault: Option<JoinFault>,
    }

    /// An actor has come with an invitation, and is a peer from now on.
    PeerJoined = "peer-joined" 1 {
        /// Who.
        peer: ActorId,
        /// What it is called here.
        called: Name,
        /// Its role.
        role: Role,
        /// Where it is dialled; without it, it dials.
        address: Option<String>,
        /// What it may do here.
        may: BTreeSet<Permission>,
        /// The number of the invitation.
        invitation: u64,
    }

    /// A peer that has joined is reached elsewhere, or may do something else.
    PeerChanged = "peer-changed" 1 {
        /// Who.
        peer: ActorId,
        /// Where it is dialled from now on.
        address: Option<String>,
        /// What it may do from now on.
        may: BTreeSet<Permission>,
    }

    /// A peer that had joined was removed.
    PeerRemoved = "peer-removed" 1 {
        /// Who.
        peer: ActorId,
    }
}

/// What the facts of all roles fold to. A snapshot holds it, in this order.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct CommonState {
    pub(crate) orders: Orders,
    pub(crate) settings: Journaled,
    /// Peers whose clocks are apart.
    pub(crate) clocks: ClocksApart,
    /// Peers by invitation.
    pub(crate) peers: PeerBook,
}

/// What an actor of any role owes a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) enum PeerObligation {
    /// It is to note statements about keys.
    Keys(ActorId),
    /// It is asked to be a peer.
    Join(ActorId),
}

/// What actors of all roles do alike.
pub(crate) trait CommonActor: Emit<Fact: From<CommonFact>> + Sized {
    /// What it is for.
    const ROLE: Role;

    /// What it has signed and still stands for, each with the end of its term: links and receipts, by their
    /// hashes.
    fn signed(&self) -> Vec<(Time, Hash)>;

    /// A duty is pending from now on, or is not.
    fn set_duty(&mut self, duty: PeerObligation, at: Time, owed: bool);

    /// What would be lost if a peer were removed, in words.
    fn ties_with(&self, now: Time, peer: ActorId) -> Option<String>;

    /// Journals what it will do for a newcomer, if it is asked to do anything. Only brokers are.
    fn plan_relation(
        &mut self,
        _: Time,
        _: (Newcomer, Option<PeerRelation>),
        _: &mut Output<Self::Fact>,
    ) {
    }

    /// Why it cannot do this for a newcomer, if so.
    ///
    /// # Errors
    /// Only a broker can, for a broker.
    fn can_plan(&self, _: Time, _: PeerRelation) -> Result<(), String> {
        Err("only a broker shares with another broker, and passes requests on to it".to_owned())
    }

    /// Whether it keeps what another actor states about its keys.
    fn keeps_keys_of(&self, actor: ActorId) -> bool {
        self.base().peers.contains_key(&actor)
    }

    /// Emits a fact of all roles.
    fn emit_common(
        &mut self,
        now: Time,
        fact: impl Into<CommonFact>,
        out: &mut Output<Self::Fact>,
    ) {
        self.emit(now, fact.into(), out);
    }

    /// Journals which settings have changed since the last start.
    fn journal_settings(&mut self, now: Time, out: &mut Output<Self::Fact>) {
        let base = self.base();
        let changes = base.common.settings.changes(&base.start);
        if !changes.is_empty() {
            self.emit_common(now, SettingsChanged { changes }, out);
        }
    }

    /// Opens a message and learns what came with it about keys. Answers the messages that all roles take.
    #[allow(clippy::wildcard_enum_match_arm, reason = "all other messages are for the role")]
    fn open(
        &mut self,
        now: Time,
        sealed: &Sealed,
        out: &mut Output<Self::Fact>,
    ) -> Option<Envelope> {
        let envelope = self.base_mut().open(now, sealed, out)?;
        for (peer, chain) in self.base().credentials.shown() {
            if self.keeps_keys_of(peer) {
                self.emit_common(now, PeerKeysLearned { peer, chain }, out);
            }
        }
        let header = envelope.header;
        let from = header.from;
        match envelope.message {
            Message::Ping => self.base().state_clock(now, &header, out),
            Message::Pong { asked } => {
                if let Some(ahead) = self.base().compare_clock(now, &header, asked) {
                    let pong = sealed.clone();
                    self.emit_common(now, ClockCompared { peer: from, ahead, pong }, out);
                }
            }
            Message::Keys { number } => self.note_keys(now, from, number, out),
            Message::KeysNoted { number } => {
                let base = self.base();
                let own = base.credentials.own_chain().count();
                if base.credentials.keys().noted_by(from) < number && number <= own {
                    self.emit_common(now, KeysNoted { peer: from, number }, out);
                }
            }
            Message::Join(join) => self.asked_to_join(now, from, &join, out),
            Message::Joined { number, fault } => {
                if let Err(cause) = self.join_answered(now, from, (number, fault), out) {
                    out.problems.push(dropped("joined", cause));
                }
            }
            _ => return Some(envelope),
        }
        None
    }

    /// Applies a fact of all roles.
    fn apply_common(&mut self, at: Time, fact: &CommonFact) {
        let position = self.base().position;
        match fact {
            CommonFact::Commanded(fact) => {
                let orders = &mut self.base_mut().common.orders;
                orders.commanded(&fact.order, fact.facts, position, at);
            }
            CommonFact::SettingsChanged(fact) => {
                self.base_mut().common.settings.changed(&fact.changes);
            }
            CommonFact::ClockCompared(fact) => {
                self.base_mut().common.clocks.found(at, fact.peer, fact.ahead);
            }
            CommonFact::KeyRotated(fact) => self.keys_stated(at, &fact.statement, &fact.tell),
            CommonFact::KeyRevoked(fact) => self.keys_stated(at, &fact.statement, &fact.tell),
            CommonFact::PeerKeysLearned(fact) => {
                self.base_mut().credentials.keys_mut().learn(fact.peer, fact.chain.clone());
            }
            CommonFact::KeysNoted(fact) => self.keys_noted(at, fact.peer, fact.number),
            CommonFact::InvitationMade(_)
            | CommonFact::InvitationTaken(_)
            | CommonFact::InvitationAnswered(_)
            | CommonFact::PeerJoined(_)
            | CommonFact::PeerChanged(_)
            | CommonFact::PeerRemoved(_) => self.apply_to_peers(at, fact),
        }
    }

    /// The message by which a duty is done.
    fn duty_message(&self, duty: PeerObligation, cause: (EffectId, Time)) -> Option<Effect> {
        let (to, message) = match duty {
            PeerObligation::Keys(peer) => (peer, self.keys_message()),
            PeerObligation::Join(peer) => (peer, self.join_message(peer)?),
        };
        Some(Effect::Send(Box::new(self.base().envelope(to, cause, message))))
    }
}
