//! The services of service managers.

use std::collections::BTreeMap;

use tenure_core::model::name::Name;
use tenure_core::service::definition::Definition;
use tenure_core::service_manager::Command as GuestCommand;
use tenure_core::service_manager::services::ServiceCommand;
use toml::Spanned;
use tracing::warn;

use super::{Check, Checked, ServiceManager};
use crate::adapter;
use crate::host::Handle;

/// The mapper that follows SLOs.
pub(crate) const FOLLOWER: &str = "slo";

/// The mappers that come with Tenure and follow no SLOs.
const NO_FOLLOWERS: [&str; 5] = ["adaptive", "deploy", "experiments", "jobs", "static"];

/// Whether a mapper may follow SLOs: one that comes with a program of somebody else's may.
pub(crate) fn follows_slos(mapper: &str) -> bool {
    !NO_FOLLOWERS.contains(&mapper)
}

impl Check<'_> {
    /// Definitions that can be followed, of a service manager that follows them.
    pub(super) fn services(
        &self,
        services: BTreeMap<Spanned<Name>, Definition>,
        mapper: &str,
    ) -> Checked<BTreeMap<Name, Definition>> {
        for (name, definition) in &services {
            if let Err(bad) = definition.check() {
                let help = "docs/SERVICES.md has all keys of a service";
                return self.refuse(name.span(), bad.to_string(), help);
            }
            if let Err(bad) = adapter::check(definition) {
                let message = format!("service `{}`: {bad}", name.get_ref());
                return self.refuse(name.span(), message, bad.help());
            }
            if !follows_slos(mapper) {
                let message = format!("the mapper `{mapper}` follows no SLOs");
                let help = format!("set `mapper = {{ name = \"{FOLLOWER}\" }}`");
                return self.refuse(name.span(), message, help);
            }
        }
        Ok(services.into_iter().map(|(name, definition)| (name.into_inner(), definition)).collect())
    }
}

impl ServiceManager {
    /// Has the services of the configuration, as it defines them.
    pub(crate) async fn define_services(&self, handle: &Handle) {
        for (service, definition) in &self.services {
            let (service, definition) = (service.clone(), Box::new(definition.clone()));
            let command = ServiceCommand::Define { service: service.clone(), definition };
            if let Err(error) = handle.command(GuestCommand::Service(command)).await {
                warn!("service {service} of {}: {error}", handle.info().name);
            }
        }
    }
}
