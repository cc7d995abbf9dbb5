//! Mappers by name: those that come with Tenure, and those that a program adds.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde::de::DeserializeOwned;
use thiserror::Error;

use super::adaptive::Adaptive;
use super::auction::Auction;
use super::choosing::{LeastWorn, Spread};
use super::co_allocate::CoAllocate;
use super::deploy::Deploy;
use super::experiments::Experiments;
use super::fair_share::FairShare;
use super::fcfs::Fcfs;
use super::first_fit::FirstFit;
use super::jobs::Jobs;
use super::pack::Pack;
use super::prefer::Preferring;
use super::priority::Priority;
use super::route::Routed;
use super::slo::Slo;
use super::static_list::StaticList;
use super::urgency::Urgency;
use crate::broker::mapper::BrokerMapper;
use crate::service_manager::mapper::ServiceManagerMapper;
use crate::site_authority::mapper::SiteAuthorityMapper;

/// Where a mapper's settings come from.
pub type Settings<'a, 'de> = &'a mut dyn erased_serde::Deserializer<'de>;

/// Why there is no such mapper.
#[derive(Debug, Error)]
pub enum MapperError {
    /// No mapper of that name exists for the role.
    #[error("there is no {role} mapper `{name}`; known: {}", .known.join(", "))]
    Unknown {
        /// The role.
        role: &'static str,
        /// The name asked for.
        name: String,
        /// The names there are.
        known: Vec<&'static str>,
    },
    /// Its settings are not what it takes.
    #[error("mapper `{name}`: {cause}")]
    Settings {
        /// The mapper.
        name: &'static str,
        /// What is wrong.
        cause: erased_serde::Error,
    },
}

/// The mappers that a shell can build, by role and name. The default has those that come with Tenure.
#[derive(Clone, Debug)]
pub struct Registry {
    service_manager: Known<dyn ServiceManagerMapper>,
    broker: Known<dyn BrokerMapper>,
    site_authority: Known<dyn SiteAuthorityMapper>,
}

impl Default for Registry {
    fn default() -> Self {
        Self {
            service_manager: Known::new("service manager"),
            broker: Known::new("broker"),
            site_authority: Known::new("site authority"),
        }
        .with_service_manager::<Adaptive>("adaptive")
        .with_service_manager::<Deploy>("deploy")
        .with_service_manager::<Experiments>("experiments")
        .with_service_manager::<Jobs>("jobs")
        .with_service_manager::<Slo>("slo")
        .with_service_manager::<StaticList>("static")
        .with_broker::<Auction>("auction")
        .with_broker::<CoAllocate>("co-allocate")
        .with_broker::<FairShare>("fair-share")
        .with_broker::<Fcfs>("fcfs")
        .with_broker::<Priority>("priority")
        .with_broker::<Urgency>("urgency")
        .with_site_authority::<FirstFit>("first-fit")
        .with_site_authority::<LeastWorn>("least-worn")
        .with_site_authority::<Pack>("pack")
        .with_site_authority::<Spread>("spread")
    }
}

impl Registry {
    /// The registry with one more mapper for service managers, read from its settings.
    pub fn with_service_manager<M>(mut self, name: &'static str) -> Self
    where
        M: ServiceManagerMapper + DeserializeOwned + 'static,
    {
        self.service_manager.add(name, |settings| Ok(Box::new(read::<M>(settings)?)));
        self
    }

    /// The registry with one more mapper for brokers, read from its settings.
    pub fn with_broker<M>(mut self, name: &'static str) -> Self
    where
        M: BrokerMapper + DeserializeOwned + 'static,
    {
        self.broker.add(name, |settings| Ok(Box::new(read::<M>(settings)?)));
        self
    }

    /// The registry with one more mapper for site authorities, read from its settings.
    pub fn with_site_authority<M>(mut self, name: &'static str) -> Self
    where
        M: SiteAuthorityMapper + DeserializeOwned + 'static,
    {
        self.site_authority.add(name, |settings| Ok(Box::new(read::<M>(settings)?)));
        self
    }

    /// Builds a service manager's mapper.
    pub fn service_manager(
        &self,
        name: &str,
        settings: Settings<'_, '_>,
    ) -> Result<Box<dyn ServiceManagerMapper>, MapperError> {
        self.service_manager.build(name, settings)
    }

    /// Builds a broker's mapper. What it refuses is [passed on](super::route) first, where the broker has neighbours.
    pub fn broker(
        &self,
        name: &str,
        settings: Settings<'_, '_>,
    ) -> Result<Box<dyn BrokerMapper>, MapperError> {
        Ok(Box::new(Routed(self.broker.build(name, settings)?)))
    }

    /// Builds a site authority's mapper. It gives way to [what guests prefer](super::prefer).
    pub fn site_authority(
        &self,
        name: &str,
        settings: Settings<'_, '_>,
    ) -> Result<Box<dyn SiteAuthorityMapper>, MapperError> {
        Ok(Box::new(Preferring(self.site_authority.build(name, settings)?)))
    }
}

type Build<M> = fn(Settings<'_, '_>) -> Result<Box<M>, erased_serde::Error>;

/// The mappers of one role.
struct Known<M: ?Sized> {
    role: &'static str,
    by_name: Arc<BTreeMap<&'static str, Build<M>>>,
}

impl<M: ?Sized> Known<M> {
    fn new(role: &'static str) -> Self {
        Self { role, by_name: Arc::new(BTreeMap::new()) }
    }

    fn add(&mut self, name: &'static str, build: Build<M>) {
        Arc::make_mut(&mut self.by_name).insert(name, build);
    }

    fn build(&self, name: &str, settings: Settings<'_, '_>) -> Result<Box<M>, MapperError> {
        let Some((&name, build)) = self.by_name.get_key_value(name) else {
            let known = self.by_name.keys().copied().collect();
            return Err(MapperError::Unknown { role: self.role, name: name.to_owned(), known });
        };
        build(settings).map_err(|cause| MapperError::Settings { name, cause })
    }
}

impl<M: ?Sized> Clone for Known<M> {
    fn clone(&self) -> Self {
        Self { role: self.role, by_name: Arc::clone(&self.by_name) }
    }
}

impl<M: ?Sized> fmt::Debug for Known<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.by_name.keys()).finish()
    }
}

fn read<T: DeserializeOwned>(settings: Settings<'_, '_>) -> Result<T, erased_serde::Error> {
    erased_serde::deserialize(settings)
}
