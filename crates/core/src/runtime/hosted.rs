//! A seat: an actor of any role together with its mapper, as a shell hosts it.

use crate::actor::effect::Input;
use crate::actor::{Actor, Role};
use crate::broker::Broker;
use crate::broker::mapper::BrokerMapper;
use crate::mapper::Decision;
use crate::model::time::Time;
use crate::service_manager::ServiceManager;
use crate::service_manager::mapper::ServiceManagerMapper;
use crate::site_authority::SiteAuthority;
use crate::site_authority::mapper::SiteAuthorityMapper;

/// An actor with its mapper.
pub enum HostedActor {
    /// A service manager with its mapper.
    ServiceManager(Box<ServiceManager>, Box<dyn ServiceManagerMapper>),
    /// A broker with its mapper.
    Broker(Box<Broker>, Box<dyn BrokerMapper>),
    /// A site authority with its mapper.
    SiteAuthority(Box<SiteAuthority>, Box<dyn SiteAuthorityMapper>),
}

impl HostedActor {
    /// The actor.
    pub fn actor(&self) -> &dyn Actor {
        match self {
            Self::ServiceManager(actor, _) => &**actor,
            Self::Broker(actor, _) => &**actor,
            Self::SiteAuthority(actor, _) => &**actor,
        }
    }

    /// The actor, to be handed inputs.
    pub fn actor_mut(&mut self) -> &mut dyn Actor {
        match self {
            Self::ServiceManager(actor, _) => &mut **actor,
            Self::Broker(actor, _) => &mut **actor,
            Self::SiteAuthority(actor, _) => &mut **actor,
        }
    }

    /// Whether two actors are the same to the last field of their state, so that they owe the same work in
    /// the same bytes and go on alike. Their mappers are not looked at.
    pub fn is_same_actor(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::ServiceManager(one, _), Self::ServiceManager(other, _)) => one == other,
            (Self::Broker(one, _), Self::Broker(other, _)) => one == other,
            (Self::SiteAuthority(one, _), Self::SiteAuthority(other, _)) => one == other,
            (Self::ServiceManager(..) | Self::Broker(..) | Self::SiteAuthority(..), _) => false,
        }
    }

    /// What the actor is for.
    pub fn role(&self) -> Role {
        match self {
            Self::ServiceManager(..) => Role::ServiceManager,
            Self::Broker(..) => Role::Broker,
            Self::SiteAuthority(..) => Role::SiteAuthority,
        }
    }

    /// Asks the mapper about the open round, if there is one: the input to hand in next.
    pub fn consult(&self, now: Time) -> Option<Input> {
        let decision = match self {
            Self::ServiceManager(actor, mapper) => {
                Decision::ServiceManager(mapper.decide(&actor.view(now)?))
            }
            Self::Broker(actor, mapper) => Decision::Broker(mapper.decide(&actor.view(now)?)),
            Self::SiteAuthority(actor, mapper) => {
                Decision::SiteAuthority(mapper.decide(&actor.view(now)?))
            }
        };
        Some(Input::Decision(decision))
    }
}
