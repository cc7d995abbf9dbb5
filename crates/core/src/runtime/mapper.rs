//! A mapper of any role, and what it is shown.

use serde::{Deserialize, Serialize};

use crate::broker::mapper::{self as broker, BrokerMapper};
use crate::model::time::Time;
use crate::runtime::actor::{AnyActor, Decision, Input};
use crate::service_manager::mapper::{self as service_manager, ServiceManagerMapper};
use crate::site_authority::mapper::{self as site_authority, SiteAuthorityMapper};

/// What a mapper of any role is shown.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "role", rename_all = "kebab-case")]
pub enum AnyView {
    /// A service manager.
    ServiceManager(service_manager::View),
    /// A broker.
    Broker(broker::View),
    /// A site authority.
    SiteAuthority(site_authority::View),
}

/// A mapper of any role.
pub enum AnyMapper {
    /// A service manager's.
    ServiceManager(Box<dyn ServiceManagerMapper>),
    /// A broker's.
    Broker(Box<dyn BrokerMapper>),
    /// A site authority's.
    SiteAuthority(Box<dyn SiteAuthorityMapper>),
}

impl AnyActor {
    /// What the mapper is to be shown, if a round is open.
    pub fn view(&self, now: Time) -> Option<AnyView> {
        Some(match self {
            Self::ServiceManager(actor) => AnyView::ServiceManager(actor.view(now)?),
            Self::Broker(actor) => AnyView::Broker(actor.view(now)?),
            Self::SiteAuthority(actor) => AnyView::SiteAuthority(actor.view(now)?),
        })
    }
}

impl AnyMapper {
    /// Answers the open round of an actor, if there is one: the input to hand in next.
    pub fn consult(&self, actor: &AnyActor, now: Time) -> Option<Input> {
        Some(Input::Decision(self.decide(&actor.view(now)?)?))
    }

    /// Answers a round; `None` if the view is another role's.
    pub fn decide(&self, view: &AnyView) -> Option<Decision> {
        Some(match (self, view) {
            (Self::ServiceManager(mapper), AnyView::ServiceManager(view)) => {
                Decision::ServiceManager(mapper.decide(view))
            }
            (Self::Broker(mapper), AnyView::Broker(view)) => Decision::Broker(mapper.decide(view)),
            (Self::SiteAuthority(mapper), AnyView::SiteAuthority(view)) => {
                Decision::SiteAuthority(mapper.decide(view))
            }
            (Self::ServiceManager(_) | Self::Broker(_) | Self::SiteAuthority(_), _) => return None,
        })
    }
}
