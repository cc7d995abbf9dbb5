//! Mappers as a scenario names them, and what is wrong when there is no such mapper.

use std::collections::{BTreeMap, BTreeSet};

use tenure_config::{ConfigError, NODE, PluginSpec, suggestion};
use tenure_core::mapper::registry::MapperError;
use tenure_core::model::name::Name;
use tenure_core::model::time::Span;

use tenure_core::actor::Role;

use super::{Scenario, ServiceManager};

impl Scenario {
    /// Every mapper with the actor it decides for.
    pub fn mappers(&self) -> impl Iterator<Item = (Role, &Name, &PluginSpec)> {
        let sites = self.sites.iter().map(|(name, site)| (Role::SiteAuthority, name, &site.mapper));
        let brokers =
            self.brokers.iter().map(|(name, broker)| (Role::Broker, name, &broker.mapper));
        let managers = self.service_managers.iter();
        let managers =
            managers.map(|(name, manager)| (Role::ServiceManager, name, &manager.mapper));
        sites.chain(brokers).chain(managers)
    }

    /// Why the mapper of an actor cannot be built, with the place where the file chooses it.
    pub fn mapper_error(&self, role: Role, actor: &Name, cause: &MapperError) -> ConfigError {
        let spec = self.mappers().find(|(r, name, _)| (*r, *name) == (role, actor));
        let nowhere = PluginSpec::new("", &[]);
        let spec = spec.map_or(&nowhere, |(.., spec)| spec);
        match cause {
            MapperError::Unknown { role, name, known } => {
                let what = format!("{role} mapper");
                spec.unknown(&self.file, &what, name, known.iter().copied())
            }
            MapperError::Settings { name, cause } => {
                let whose = format!("mapper `{name}` of the {role} `{actor}`");
                spec.bad_settings(&self.file, &whose, &cause.to_string())
            }
        }
    }
}

impl Scenario {
    /// The first request of a `static` mapper that can never be met: no user should learn that from
    /// the refusals of a month.
    pub(super) fn impossible_request(&self) -> Result<(), ConfigError> {
        for manager in self.service_managers.values().filter(|m| m.mapper.name == "static") {
            let requests = manager.mapper.settings.get("requests").and_then(toml::Value::as_array);
            for (number, request) in (1..).zip(requests.into_iter().flatten()) {
                if let Some((message, help)) = self.impossible(manager, request) {
                    let message = format!("request {number} can never be met: {message}");
                    let place = manager.mapper.place_of("requests");
                    return Err(ConfigError::at(&self.file, place, message, help));
                }
            }
        }
        Ok(())
    }

    /// For each service manager, the units of its type that its broker can sell.
    pub fn most_units(&self) -> BTreeMap<Name, u32> {
        let most = |manager: &ServiceManager| self.most(&manager.broker, manager.resource.as_str());
        let most = |manager| u32::try_from(most(manager)).unwrap_or(u32::MAX);
        self.service_managers.iter().map(|(name, manager)| (name.clone(), most(manager))).collect()
    }

    fn impossible(
        &self,
        manager: &ServiceManager,
        request: &toml::Value,
    ) -> Option<(String, String)> {
        let duration = request.get("duration").and_then(toml::Value::as_str);
        let duration: Option<Span> = duration.and_then(|text| text.parse().ok());
        let two_margins = self.margin.times(2);
        let others = request.get("with").and_then(toml::Value::as_array).into_iter().flatten();
        let mut items = std::iter::once(request).chain(others);
        if let Some(wrong) = items.find_map(|item| self.too_much(&manager.broker, item)) {
            Some(wrong)
        } else if duration.is_some_and(|duration| duration <= two_margins) {
            let message = format!("a term must be longer than two margins, {two_margins}");
            Some((message, "set a longer `duration`, or a smaller `margin`".to_owned()))
        } else {
            None
        }
    }

    /// Why an item of a request asks for more than a broker can ever sell.
    fn too_much(&self, broker: &Name, item: &toml::Value) -> Option<(String, String)> {
        let wanted = item.get("resource").and_then(toml::Value::as_str).unwrap_or(NODE);
        let most = self.most(broker, wanted);
        if most == 0 {
            let lent = self.sites.values().flat_map(|site| site.lent(broker));
            let known: BTreeSet<&str> = lent.map(|(resource, _)| resource.as_str()).collect();
            let message = format!("no site lends `{wanted}` to `{broker}`");
            return Some((message, suggestion(wanted, known)));
        }
        let min_units = item.get("units").and_then(fewest);
        min_units.filter(|units| *units > most).map(|_| {
            let message = format!("it needs more than the {most} units of `{wanted}` there are");
            (message, format!("ask for at most {most}, or for a range such as `\"1..{most}\"`"))
        })
    }

    /// How many units of a type a broker can sell.
    fn most(&self, broker: &Name, resource: &str) -> u64 {
        let lent = self.sites.values().flat_map(|site| site.lent(broker));
        let of_type = lent.filter(|(of, _)| of.as_str() == resource);
        of_type.map(|(_, units)| u64::from(units)).sum()
    }
}

/// The fewest units that a number or a range accepts.
fn fewest(units: &toml::Value) -> Option<u64> {
    match units.as_str() {
        Some(range) => range.split("..").next()?.parse().ok(),
        None => u64::try_from(units.as_integer()?).ok(),
    }
}
