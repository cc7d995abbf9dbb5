//! Commands on units that have an executor, run for the service manager that has the unit.

use serde::{Deserialize, Serialize};
use tenure_core::actor::Role;
use tenure_core::driver::{Epoch, UnitId};
use tenure_core::model::identity::ActorId;
use tenure_core::model::property::Properties;
use tenure_core::model::time::Span;
use tenure_core::runtime::AnyActor;
use tenure_core::service_manager::ServiceManager;
use tenure_core::service_manager::services::SiteUnit;
use tenure_core::ticket::Ticket;

use super::server::{ApiResult, AppState};
use super::view::name;
use super::{ApiError, Code};
use crate::driver::executors;
use crate::net::executor::{TaskError, ask};
use crate::net::task::{Command, CommandEnd, Errand, Ran, TaskEnd, TaskRefusal, Written};

/// A command to run on a unit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunRequest {
    /// The unit, such as `alpha/u3`.
    pub unit: String,
    /// As whom it runs, if not as who runs the executor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// The program and its arguments; there is no shell.
    pub command: Vec<String>,
    /// How long it may take before it is ended with its process group.
    pub timeout: Span,
}

/// A command that was run on a unit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunView {
    /// The unit.
    pub unit: String,
    /// Its exit code, if it ended by itself.
    pub code: Option<i32>,
    /// The signal that ended it, if one did.
    pub signal: Option<i32>,
    /// Whether it took too long.
    pub timed_out: bool,
    /// The first of what it wrote on standard output; what is no UTF-8 is replaced.
    pub output: String,
    /// Whether it wrote more there.
    pub output_cut: bool,
    /// The same of standard error.
    pub errors: String,
    /// Whether it wrote more there.
    pub errors_cut: bool,
}

impl RunView {
    fn of(unit: &str, Ran { end, output, errors }: Ran) -> Self {
        let text = |written: &Written| String::from_utf8_lossy(&written.bytes).into_owned();
        let (code, signal) = match end {
            CommandEnd::Exit(code) => (Some(code), None),
            CommandEnd::Signal(signal) => (None, Some(signal)),
            CommandEnd::Timeout => (None, None),
        };
        Self {
            unit: unit.to_owned(),
            code,
            signal,
            timed_out: end == CommandEnd::Timeout,
            output: text(&output),
            output_cut: output.cut,
            errors: text(&errors),
            errors_cut: errors.cut,
        }
    }
}

impl AppState {
    /// Runs a command on a unit, for who has it.
    pub(super) async fn run_on_unit(&self, request: RunRequest) -> ApiResult<RunView> {
        let RunRequest { unit: named, user, command: words, timeout } = request;
        let at = self.site_unit(&named)?;
        let Some((here, epoch, properties)) = self.tenancy(at).await? else {
            return Err(self.not_held(&named, at).await?);
        };
        let executor = executors::of_unit(&properties).ok_or_else(|| {
            let message = format!("unit {named} has no executor");
            let help = "sites with the driver `host`, or `netns` with `executor`, lend units that have one (docs/EXECUTOR.md)";
            ApiError::new(Code::Usage, message).help(help)
        })?;
        let command = Command { unit: at.1, epoch, user, words, timeout };
        if !command.is_whole() {
            return Err(refused(&TaskRefusal::NoCommand));
        }
        let asker = self.network().and_then(|network| network.asker(here));
        let asker = asker.ok_or_else(|| {
            ApiError::new(Code::Busy, "the service manager that has the unit is not at work")
        })?;
        match ask(&asker, &executor, Errand::Run(command)).await {
            Ok(TaskEnd::Ran(ran)) => Ok(RunView::of(&named, ran)),
            Ok(TaskEnd::Refused(refusal)) => Err(refused(&refusal)),
            Ok(TaskEnd::Done(_) | TaskEnd::Failed(_)) => {
                Err(ApiError::new(Code::Failed, "the executor has answered something else"))
            }
            Err(error @ TaskError::Unreachable { .. }) => {
                Err(ApiError::new(Code::Busy, error.to_string()).help("nothing was run"))
            }
            Err(error @ TaskError::NoAnswer { .. }) => {
                Err(ApiError::new(Code::Failed, error.to_string()).help("it may have been run"))
            }
        }
    }

    /// The service manager of this process that has a unit, with the tenancy and the unit's properties.
    async fn tenancy(&self, at: SiteUnit) -> ApiResult<Option<(ActorId, Epoch, Properties)>> {
        for handle in self.of_role(Role::ServiceManager) {
            let held = self.guest(&handle.info().name, move |guest| held(guest, at)).await?;
            if let Some((epoch, properties)) = held {
                return Ok(Some((handle.info().id, epoch, properties)));
            }
        }
        Ok(None)
    }

    /// That no service manager of this process has a unit, and who has it, if that is known.
    async fn not_held(&self, named: &str, (site, unit): SiteUnit) -> ApiResult<ApiError> {
        let tenant = match self.handle_of(site) {
            Some(handle) => self.look(handle, move |actor| tenant(actor, unit)).await?,
            None => None,
        };
        Ok(match tenant {
            Some(tenant) => {
                let whose = name(&self.names(), tenant);
                ApiError::new(Code::Denied, format!("{whose} has unit {named}"))
            }
            None => {
                ApiError::new(Code::NoSuch, format!("no service manager here has unit {named}"))
            }
        }
        .help("`tenure unit list` lists the units"))
    }
}

/// The tenancy and the properties of a unit that a service manager has.
fn held(guest: &ServiceManager, (site, unit): SiteUnit) -> Option<(Epoch, Properties)> {
    let of_site =
        guest.survey().filter(|lease| lease.state.ticket().map(Ticket::site) == Some(site));
    let mut units = of_site.filter_map(|lease| lease.state.held()?.units.get(&unit));
    units.next().map(|(unit, _)| (unit.epoch, unit.properties.clone()))
}

/// Who has a unit of a site.
fn tenant(actor: &AnyActor, unit: UnitId) -> Option<ActorId> {
    let AnyActor::SiteAuthority(site) = actor else { return None };
    let ticket = site.unit_survey_of(unit)?.state.tenant()?;
    site.lease_survey_of(ticket).map(|lease| lease.holder)
}

fn refused(refusal: &TaskRefusal) -> ApiError {
    let code = match refusal {
        TaskRefusal::NotTheSite(_)
        | TaskRefusal::NotTheTenant(..)
        | TaskRefusal::KeyNotInForce(_)
        | TaskRefusal::NoTenant(_)
        | TaskRefusal::OtherEpoch { .. }
        | TaskRefusal::User { .. }
        | TaskRefusal::CannotSwitch(_) => Code::Denied,
        TaskRefusal::NoUser(_) | TaskRefusal::NoProgram(_) => Code::NoSuch,
        TaskRefusal::NoCommand => Code::Usage,
        TaskRefusal::Busy(_) => Code::Busy,
        TaskRefusal::Failed(_) => Code::Failed,
    };
    ApiError::new(code, refusal.to_string())
}
