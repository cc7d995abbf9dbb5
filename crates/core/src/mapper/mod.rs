//! Mappers: the policies of the three roles (S20).
//!
//! An actor never calls its mapper. It owes a consultation; a shell hands the mapper a read-only view and
//! the decision back as an input, which the core checks again before it becomes facts. So a mapper may
//! be slow, remote, wrong or dead: that costs a round, not the actor. What a mapper wants to remember
//! it hands over as a memo, which is a fact.

pub mod adaptive;
pub mod broker;
pub mod fcfs;
pub mod first_fit;
pub mod place;
pub mod priority;
pub mod registry;
pub mod static_list;
pub mod service_manager;
pub mod site_authority;

/// The code in docs/MAPPERS.md works.
#[cfg(doctest)]
#[doc = include_str!("../../../../docs/MAPPERS.md")]
struct Documented;

/// The decision of a mapper of any role.
#[derive(Clone, Debug, PartialEq)]
pub enum Decision {
    /// A service manager's.
    ServiceManager(service_manager::Decision),
    /// A broker's.
    Broker(broker::Decision),
    /// A site authority's.
    SiteAuthority(site_authority::Decision),
}

impl Decision {
    /// The round that is answered.
    pub fn round(&self) -> u64 {
        match self {
            Self::ServiceManager(decision) => decision.round,
            Self::Broker(decision) => decision.round,
            Self::SiteAuthority(decision) => decision.round,
        }
    }
}
