//! An actor with its mapper.

use crate::actor::Role;
use crate::actor::settings::Described;
use crate::broker::Broker;
use crate::broker::mapper::BrokerMapper;
use crate::model::time::Time;
use crate::runtime::actor::{AnyActor, Input};
use crate::runtime::mapper::AnyMapper;
use crate::service_manager::ServiceManager;
use crate::service_manager::mapper::ServiceManagerMapper;
use crate::site_authority::SiteAuthority;
use crate::site_authority::mapper::SiteAuthorityMapper;

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

    /// The same, started with these settings and before with those; at [`Input::Start`] the actor journals
    /// which of them changed.
    pub fn started_with(mut self, is: Described, was: Described) -> Self {
        self.actor.started_with(is, was);
        self
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
