//! An actor with its mapper.

use crate::actor::Role;
use crate::broker::Broker;
use crate::broker::mapper::BrokerMapper;
use crate::model::time::Time;
use crate::runtime::actor::{AnyActor, Decision, Input};
use crate::service_manager::ServiceManager;
use crate::service_manager::mapper::ServiceManagerMapper;
use crate::site_authority::SiteAuthority;
use crate::site_authority::mapper::SiteAuthorityMapper;

/// A mapper of any role.
pub enum AnyMapper {
    /// A service manager's.
    ServiceManager(Box<dyn ServiceManagerMapper>),
    /// A broker's.
    Broker(Box<dyn BrokerMapper>),
    /// A site authority's.
    SiteAuthority(Box<dyn SiteAuthorityMapper>),
}

impl AnyMapper {
    /// Asks the mapper about the open round of its actor, if there is one: the input to hand in next.
    pub fn consult(&self, actor: &AnyActor, now: Time) -> Option<Input> {
        let decision = match (actor, self) {
            (AnyActor::ServiceManager(actor), Self::ServiceManager(mapper)) => {
                Decision::ServiceManager(mapper.decide(&actor.view(now)?))
            }
            (AnyActor::Broker(actor), Self::Broker(mapper)) => {
                Decision::Broker(mapper.decide(&actor.view(now)?))
            }
            (AnyActor::SiteAuthority(actor), Self::SiteAuthority(mapper)) => {
                Decision::SiteAuthority(mapper.decide(&actor.view(now)?))
            }
            // A mapper of another role has nothing to say.
            (AnyActor::ServiceManager(_) | AnyActor::Broker(_) | AnyActor::SiteAuthority(_), _) => {
                return None;
            }
        };
        Some(Input::Decision(decision))
    }
}

/// An actor of any role with its mapper.
pub struct HostedActor {
    actor: AnyActor,
    mapper: AnyMapper,
}

impl HostedActor {
    /// A service manager with its mapper.
    pub fn service_manager(actor: ServiceManager, mapper: Box<dyn ServiceManagerMapper>) -> Self {
        Self { actor: actor.into(), mapper: AnyMapper::ServiceManager(mapper) }
    }

    /// A broker with its mapper.
    pub fn broker(actor: Broker, mapper: Box<dyn BrokerMapper>) -> Self {
        Self { actor: actor.into(), mapper: AnyMapper::Broker(mapper) }
    }

    /// A site authority with its mapper.
    pub fn site_authority(actor: SiteAuthority, mapper: Box<dyn SiteAuthorityMapper>) -> Self {
        Self { actor: actor.into(), mapper: AnyMapper::SiteAuthority(mapper) }
    }

    /// The actor.
    pub fn actor(&self) -> &AnyActor {
        &self.actor
    }

    /// The actor, to be handed inputs.
    pub fn actor_mut(&mut self) -> &mut AnyActor {
        &mut self.actor
    }

    /// Whether two actors have the same state, to the last field. Their mappers are not looked at.
    pub fn is_same_actor(&self, other: &Self) -> bool {
        self.actor == other.actor
    }

    /// The same mapper with another actor of the same role.
    pub fn with_actor(self, actor: AnyActor) -> Self {
        Self { actor, ..self }
    }

    /// What the actor is for.
    pub fn role(&self) -> Role {
        self.actor.role()
    }

    /// Asks the mapper about the open round, if there is one: the input to hand in next.
    pub fn consult(&self, now: Time) -> Option<Input> {
        self.mapper.consult(&self.actor, now)
    }

    /// The actor and its mapper.
    pub fn into_parts(self) -> (AnyActor, AnyMapper) {
        (self.actor, self.mapper)
    }
}
