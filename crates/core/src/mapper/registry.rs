//! The mappers that come with Tenure, by name.
//!
//! A literal list: what is not in it does not exist, and asking for it names what does. A program that
//! brings mappers of its own builds them itself and seats them beside these.

use std::fmt;

use serde::de::DeserializeOwned;
use thiserror::Error;

use super::adaptive::Adaptive;
use super::fcfs::Fcfs;
use super::first_fit::FirstFit;
use super::priority::Priority;
use super::static_list::StaticList;
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

type Builder<M> = fn(Settings<'_, '_>) -> Result<Box<M>, erased_serde::Error>;

/// A named way to build a mapper.
struct Known<M: ?Sized> {
    name: &'static str,
    build: Builder<M>,
}

const SERVICE_MANAGER: &[Known<dyn ServiceManagerMapper>] = &[
    Known { name: "adaptive", build: |settings| Ok(Box::new(read::<Adaptive>(settings)?)) },
    Known { name: "static", build: |settings| Ok(Box::new(read::<StaticList>(settings)?)) },
];

const BROKER: &[Known<dyn BrokerMapper>] = &[
    Known { name: "fcfs", build: |settings| Ok(Box::new(read::<Fcfs>(settings)?)) },
    Known { name: "priority", build: |settings| Ok(Box::new(read::<Priority>(settings)?)) },
];

const SITE_AUTHORITY: &[Known<dyn SiteAuthorityMapper>] =
    &[Known { name: "first-fit", build: |settings| Ok(Box::new(read::<FirstFit>(settings)?)) }];

/// Builds a service manager's mapper.
pub fn service_manager(
    name: &str,
    settings: Settings<'_, '_>,
) -> Result<Box<dyn ServiceManagerMapper>, MapperError> {
    build("service manager", SERVICE_MANAGER, name, settings)
}

/// Builds a broker's mapper.
pub fn broker(
    name: &str,
    settings: Settings<'_, '_>,
) -> Result<Box<dyn BrokerMapper>, MapperError> {
    build("broker", BROKER, name, settings)
}

/// Builds a site authority's mapper.
pub fn site_authority(
    name: &str,
    settings: Settings<'_, '_>,
) -> Result<Box<dyn SiteAuthorityMapper>, MapperError> {
    build("site authority", SITE_AUTHORITY, name, settings)
}

fn build<M: ?Sized>(
    role: &'static str,
    known: &[Known<M>],
    name: &str,
    settings: Settings<'_, '_>,
) -> Result<Box<M>, MapperError> {
    let Some(found) = known.iter().find(|known| known.name == name) else {
        let known = known.iter().map(|known| known.name).collect();
        return Err(MapperError::Unknown { role, name: name.to_owned(), known });
    };
    (found.build)(settings).map_err(|cause| MapperError::Settings { name: found.name, cause })
}

fn read<T: DeserializeOwned>(settings: Settings<'_, '_>) -> Result<T, erased_serde::Error> {
    erased_serde::deserialize(settings)
}

impl<M: ?Sized> fmt::Debug for Known<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}
