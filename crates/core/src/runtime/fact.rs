//! Facts of any role, as journals hold them.

use crate::actor::common::CommonFact;
use crate::actor::fact;
use crate::broker::facts as broker;
use crate::model::codec::DecodeError;
use crate::model::identity::ActorId;
use crate::model::keys::{KeyChain, SignedStatement};
use crate::service_manager::facts as service_manager;
use crate::site_authority::facts as site_authority;

/// A fact of any role with its time.
pub type Entry = fact::Entry<Fact>;

/// A fact of any role.
#[derive(Clone, Debug, PartialEq)]
pub enum Fact {
    /// A service manager's.
    ServiceManager(service_manager::Fact),
    /// A broker's.
    Broker(broker::Fact),
    /// A site authority's.
    SiteAuthority(site_authority::Fact),
}

impl From<service_manager::Fact> for Fact {
    fn from(fact: service_manager::Fact) -> Self {
        Self::ServiceManager(fact)
    }
}

impl From<broker::Fact> for Fact {
    fn from(fact: broker::Fact) -> Self {
        Self::Broker(fact)
    }
}

impl From<site_authority::Fact> for Fact {
    fn from(fact: site_authority::Fact) -> Self {
        Self::SiteAuthority(fact)
    }
}

/// What a fact says about keys.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum KeysFact<'a> {
    /// The actor has made a statement about its own.
    Stated(&'a SignedStatement),
    /// A peer's statements were learned.
    Learned(ActorId, &'a KeyChain),
    /// A peer has noted so many of the actor's own statements.
    Noted(ActorId, u32),
}

impl Fact {
    /// The fact of all roles that it is, if it is one.
    #[allow(clippy::wildcard_enum_match_arm, reason = "all other facts are those of one role")]
    pub fn common(&self) -> Option<&CommonFact> {
        match self {
            Self::ServiceManager(service_manager::Fact::Common(fact))
            | Self::Broker(broker::Fact::Common(fact))
            | Self::SiteAuthority(site_authority::Fact::Common(fact)) => Some(fact),
            _ => None,
        }
    }

    /// What it says about keys, if that is what it is about.
    pub fn about_keys(&self) -> Option<KeysFact<'_>> {
        match self.common()? {
            CommonFact::KeyRotated(fact) => Some(KeysFact::Stated(&fact.statement)),
            CommonFact::KeyRevoked(fact) => Some(KeysFact::Stated(&fact.statement)),
            CommonFact::PeerKeysLearned(fact) => Some(KeysFact::Learned(fact.peer, &fact.chain)),
            CommonFact::KeysNoted(fact) => Some(KeysFact::Noted(fact.peer, fact.number)),
            CommonFact::SettingsChanged(_)
            | CommonFact::ClockCompared(_)
            | CommonFact::Commanded(_)
            | CommonFact::InvitationMade(_)
            | CommonFact::InvitationTaken(_)
            | CommonFact::InvitationAnswered(_)
            | CommonFact::PeerJoined(_)
            | CommonFact::PeerChanged(_)
            | CommonFact::PeerRemoved(_) => None,
        }
    }

    /// Whether it changes which peers there are, or where.
    pub fn is_about_peers(&self) -> bool {
        self.common().is_some_and(|fact| match fact {
            CommonFact::InvitationTaken(_)
            | CommonFact::InvitationAnswered(_)
            | CommonFact::PeerJoined(_)
            | CommonFact::PeerChanged(_)
            | CommonFact::PeerRemoved(_) => true,
            CommonFact::KeyRotated(_)
            | CommonFact::KeyRevoked(_)
            | CommonFact::PeerKeysLearned(_)
            | CommonFact::KeysNoted(_)
            | CommonFact::SettingsChanged(_)
            | CommonFact::ClockCompared(_)
            | CommonFact::Commanded(_)
            | CommonFact::InvitationMade(_) => false,
        })
    }

    /// Every kind there is, each with the version that is written today.
    pub fn kinds() -> impl Iterator<Item = (&'static str, u16)> {
        let (guest, broker) = (service_manager::Fact::kinds(), broker::Fact::kinds());
        guest.chain(broker).chain(site_authority::Fact::kinds())
    }

    /// The kind, as the journal names it, and its version.
    pub fn kind(&self) -> (&'static str, u16) {
        match self {
            Self::ServiceManager(fact) => fact.kind(),
            Self::Broker(fact) => fact.kind(),
            Self::SiteAuthority(fact) => fact.kind(),
        }
    }

    /// Appends the bytes of the body.
    pub fn encode_into(&self, bytes: &mut Vec<u8>) {
        match self {
            Self::ServiceManager(fact) => fact.encode_into(bytes),
            Self::Broker(fact) => fact.encode_into(bytes),
            Self::SiteAuthority(fact) => fact.encode_into(bytes),
        }
    }

    /// The body, for formats that people read.
    pub fn body(&self) -> &dyn erased_serde::Serialize {
        match self {
            Self::ServiceManager(fact) => fact.body(),
            Self::Broker(fact) => fact.body(),
            Self::SiteAuthority(fact) => fact.body(),
        }
    }

    /// Reads a fact back from its kind, version and body.
    pub fn decode(kind: &str, version: u16, body: &[u8]) -> Result<Self, DecodeError> {
        let of_service_manager =
            || Some(service_manager::Fact::decode(kind, version, body)?.map(Self::ServiceManager));
        let of_broker = || Some(broker::Fact::decode(kind, version, body)?.map(Self::Broker));
        let of_site =
            || Some(site_authority::Fact::decode(kind, version, body)?.map(Self::SiteAuthority));
        of_service_manager()
            .or_else(of_broker)
            .or_else(of_site)
            .unwrap_or_else(|| Err(DecodeError::UnknownKind { kind: kind.to_owned(), version }))
    }
}
