//! Requests of a generated workload as the mapper `experiments` submits them.

use tenure_config::{ConfigError, PluginSpec, Stock};
use tenure_core::model::name::Name;
use tenure_core::model::resource::Value;
use tenure_core::model::time::{Span, Term, Time};

use super::{Scenario, ServiceManager, Workload};
use crate::emulation::{Compute, ComputeSite};
use crate::random::Chance;
use crate::workload::{CoAllocation, Drawn, MOST_REQUESTS};

/// The mapper that submits them.
const MAPPER: &str = "experiments";

/// Its setting that lists them.
const LIST: &str = "requests";

impl ServiceManager {
    /// Whether compute with bandwidth is what it asks for, not a demand.
    pub fn has_experiments(&self) -> bool {
        self.mapper.name == MAPPER
    }

    /// Whether it is measured what it needs, step by step.
    pub fn follows_demand(&self) -> bool {
        !self.has_jobs()
            && !self.has_experiments()
            && !self.has_users()
            && self.models_follow_demand()
    }

    pub(super) fn lacks_experiments(&self) -> bool {
        self.has_experiments() && !self.mapper.settings.contains_key(LIST)
    }

    fn draws(&self) -> Option<&CoAllocation> {
        match &self.workload {
            Workload::CoAllocation(workload) if self.has_experiments() => Some(workload),
            Workload::CoAllocation(_)
            | Workload::Wave(_)
            | Workload::Log(_)
            | Workload::Requests(_) => None,
        }
    }
}

impl Scenario {
    /// Where and when experiments take place, if any are drawn.
    pub fn compute(&self) -> Option<Compute> {
        let mut managers = self.service_managers.values();
        let (window, resource) =
            managers.find_map(|manager| Some((manager.draws()?.window, &manager.resource)))?;
        let day = Term::lasting(Time::ZERO.plus(window), window).ok()?;
        let of_site = |stock: &Stock| {
            let quality = match stock.attributes.get("quality") {
                Some(Value::Quantity(quality)) => quality.whole().unwrap_or(0),
                Some(_) | None => 0,
            };
            ComputeSite { units: stock.units, quality }
        };
        let sites = self
            .sites
            .iter()
            .filter_map(|(name, site)| Some((name.clone(), of_site(site.stocks.get(resource)?))));
        Some(Compute { day, sites: sites.collect() })
    }

    /// Fills in the requests of the service managers that submit drawn ones. Those with one workload are its users.
    pub(super) fn draw_experiments(&mut self) -> Result<(), ConfigError> {
        let (chance, units) = (Chance::new(self.seed), self.most_units());
        let mut workloads: Vec<CoAllocation> = Vec::new();
        for manager in self.service_managers.values().filter(|manager| manager.lacks_experiments())
        {
            let workload = manager.draws().filter(|workload| !workloads.contains(workload));
            workloads.extend(workload.cloned());
        }
        for workload in workloads {
            let is_user = |manager: &ServiceManager| {
                manager.lacks_experiments() && manager.draws() == Some(&workload)
            };
            let users: Vec<Name> = self
                .service_managers
                .iter()
                .filter(|(_, manager)| is_user(manager))
                .map(|(name, _)| name.clone())
                .collect();
            let most = users.iter().filter_map(|user| units.get(user)).max();
            let drawn = workload.requests(chance, most.copied().unwrap_or(0), users.len());
            let drawn = drawn.ok_or_else(|| {
                let message = format!("its workload comes to more than {MOST_REQUESTS} requests");
                let help = "make `durations` longer, `cpus` more, or `load` or `window` smaller";
                let nowhere = PluginSpec::new("", &[]);
                let first = users.first().and_then(|user| self.service_managers.get(user));
                let place = first.map_or(&nowhere, |manager| &manager.mapper).place_of(LIST);
                ConfigError::at(&self.file, place, message, help.to_owned())
            })?;
            for (place, user) in users.iter().enumerate() {
                let own = drawn.iter().filter(|request| request.user == place);
                let own = own.map(|request| setting(request, user, workload.bandwidth)).collect();
                if let Some(manager) = self.service_managers.get_mut(user) {
                    manager.mapper.settings.insert(LIST.to_owned(), toml::Value::Array(own));
                }
            }
        }
        Ok(())
    }
}

/// A request as the settings of the mapper have it.
fn setting(request: &Drawn, user: &Name, bandwidth: u32) -> toml::Value {
    let time = |span: Span| toml::Value::String(span.to_string());
    let sites = request.sites.iter().map(|units| i64::from(*units).into());
    let link = |&(from, to): &(u16, u16)| {
        let link = [i64::from(from), i64::from(to), i64::from(bandwidth)];
        toml::Value::Array(link.map(toml::Value::from).to_vec())
    };
    let properties = [
        ("user", user.to_string()),
        ("level", user.to_string()),
        ("type", request.kind.to_string()),
        ("load", request.load.to_string()),
    ];
    let properties = properties.map(|(key, value)| (key.to_owned(), value.into()));
    toml::Table::from_iter([
        ("at".to_owned(), time(request.at)),
        ("earliest".to_owned(), time(request.earliest)),
        ("latest".to_owned(), time(request.latest)),
        ("run".to_owned(), time(request.run)),
        ("sites".to_owned(), toml::Value::Array(sites.collect())),
        ("links".to_owned(), toml::Value::Array(request.links.iter().map(link).collect())),
        ("properties".to_owned(), toml::Table::from_iter(properties).into()),
    ])
    .into()
}
