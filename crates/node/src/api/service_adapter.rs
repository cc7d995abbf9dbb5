//! The adapters of services: how they are shown, and what users have them do.

use serde::{Deserialize, Serialize};
use tenure_core::actor::Role;
use tenure_core::model::name::Name;
use tenure_core::service::definition::Definition;
use tenure_core::service_manager::services::ServiceSurvey;

use super::asker::Asker;
use super::server::{ApiResult, AppState, refused};
use super::service::ServiceView;
use super::service_name::ServiceName;
use super::view::time;
use super::{ApiError, Code};
use crate::adapter::{self, Act, AdapterError, Adapters};

/// The adapter of a service as it is shown.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AdapterView {
    /// Its name.
    pub name: String,
    /// When it last looked at the software; null if it has not since the start.
    pub looked_at: Option<String>,
    /// What was wrong then, with the software or with looking; null if nothing was.
    pub error: Option<String>,
}

impl AdapterView {
    /// The adapter of a service that has one.
    pub(super) fn of(survey: &ServiceSurvey<'_>, adapters: Option<&Adapters>) -> Option<Self> {
        let name = survey.definition.adapter.as_ref()?.name().unwrap_or_default().to_owned();
        let look = adapters.and_then(|adapters| adapters.look(survey.service)).unwrap_or_default();
        Some(Self { name, looked_at: look.at.map(time), error: look.error })
    }
}

/// Whether a service can have the adapter that is defined for it, and a user may have it so: adapters run programs
/// as the user of the deployment, which is not for all who may ask it for leases.
pub(super) fn check(definition: &Definition, by: &Asker) -> ApiResult<()> {
    let (user, own) = (by.uid(), rustix::process::geteuid().as_raw());
    if definition.adapter.is_some() && user != own && user != 0 {
        let message = format!("user {user} may not have a service run programs as user {own}");
        let help = "leave `adapter` out, or have the owner of the deployment add the service";
        return Err(ApiError::new(Code::Denied, message).help(help));
    }
    adapter::check(definition)
        .map_err(|bad| ApiError::new(Code::Usage, bad.to_string()).help(bad.help()))
}

impl AppState {
    /// Has the adapters of a service manager follow what was defined.
    pub(super) async fn take_in(&self, manager: &Name) -> ApiResult<()> {
        let Some(adapters) = self.adapters(manager) else { return Ok(()) };
        let handle = self.actor(Role::ServiceManager, manager)?.clone();
        adapters.take_in(handle, self.clock()).await.map_err(|error| refused(&error))
    }

    /// Has the adapter of a service do something.
    pub(super) async fn act(&self, name: &ServiceName, act: Act) -> ApiResult<ServiceView> {
        let manager = self.service_meant(name).await?;
        let named = format!("{manager}/{}", name.service);
        let none = || {
            ApiError::new(Code::Usage, format!("service {named} has no adapter"))
                .help("set `adapter` in its definition (docs/ADAPTERS.md), or do it by hand")
        };
        let adapted = self.service_of(&manager, &name.service).await?.adapter.is_some();
        let adapters = self.adapters(&manager).filter(|_| adapted).ok_or_else(none)?;
        adapters.act(&name.service, act).await.map_err(|error| failed(&named, &error))?;
        self.service_of(&manager, &name.service).await
    }
}

fn failed(service: &str, error: &AdapterError) -> ApiError {
    let message = format!("service {service}: {error}");
    match error {
        AdapterError::Unable(what) => ApiError::new(Code::Usage, message)
            .help(format!("set `{what}` of its adapter (docs/ADAPTERS.md), or do it by hand")),
        AdapterError::Failed(_) => ApiError::new(Code::Failed, message)
            .help("`tenure service show` says how it was found since"),
    }
}
