//! Mappers as a scenario names them, and what is wrong when there is no such mapper.

use std::collections::BTreeMap;

use tenure_core::mapper::registry::MapperError;
use tenure_core::name::Name;

use super::Scenario;
use super::error::{Place, ScenarioError, in_plain_words, suggestion};
use tenure_core::actor::Role;

/// A mapper by its name, with its settings.
#[derive(Clone, Debug, PartialEq)]
pub struct MapperSpec {
    /// The name.
    pub name: String,
    /// The settings, the name not among them.
    pub settings: toml::Table,
    pub(super) places: BTreeMap<String, Place>,
}

impl MapperSpec {
    /// A mapper that the file does not choose.
    pub(super) fn default(name: &str, settings: &[(&str, &str)]) -> Self {
        let setting = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).into());
        let settings = settings.iter().map(setting).collect();
        Self { name: name.to_owned(), settings, places: BTreeMap::new() }
    }

    /// Where the name is written.
    pub fn place(&self) -> &Place {
        self.places.get("name").unwrap_or(&Place::Whole)
    }

    /// Where the value of a setting is written, or else the name.
    pub fn place_of(&self, setting: &str) -> &Place {
        self.places.get(setting).unwrap_or_else(|| self.place())
    }
}

impl Scenario {
    /// Every mapper with the actor it decides for.
    pub fn mappers(&self) -> impl Iterator<Item = (Role, &Name, &MapperSpec)> {
        let sites = self.sites.iter().map(|(name, site)| (Role::SiteAuthority, name, &site.mapper));
        let brokers =
            self.brokers.iter().map(|(name, broker)| (Role::Broker, name, &broker.mapper));
        let managers = self.service_managers.iter();
        let managers =
            managers.map(|(name, manager)| (Role::ServiceManager, name, &manager.mapper));
        sites.chain(brokers).chain(managers)
    }

    /// Why the mapper of an actor cannot be built, with the place where the file chooses it.
    pub fn mapper_error(&self, role: Role, actor: &Name, cause: &MapperError) -> ScenarioError {
        let spec = self.mappers().find(|(r, name, _)| (*r, *name) == (role, actor));
        let place = |setting| spec.map_or(&Place::Whole, |(.., spec)| spec.place_of(setting));
        match cause {
            MapperError::Unknown { role, name, known } => {
                let message = format!("there is no {role} mapper `{name}`");
                let help = suggestion(name, known.iter().copied());
                ScenarioError::at(&self.file, place("name"), message, help)
            }
            MapperError::Settings { name, cause } => {
                // The message, then perhaps a line "in `key`"; or the key is what the message is about.
                let cause = cause.to_string();
                let message = cause.lines().next().unwrap_or_default();
                let context = cause.lines().find(|line| line.starts_with("in `"));
                let setting =
                    context.unwrap_or(message).split(['`', '.']).nth(1).unwrap_or_default();
                let (message, help) = in_plain_words(message);
                let message = format!("mapper `{name}` of the {role} `{actor}`: {message}");
                ScenarioError::at(&self.file, place(setting), message, help)
            }
        }
    }
}
