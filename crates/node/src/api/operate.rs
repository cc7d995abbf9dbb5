//! What operators do to the units of a site.

use tenure_core::actor::Role;
use tenure_core::driver::UnitId;
use tenure_core::model::name::Name;
use tenure_core::runtime::AnyActor;
use tenure_core::site_authority::{Command as SiteCommand, unit};

use super::asker::Asker;
use super::server::{ApiResult, AppState};
use super::site_view::SiteView;
use super::view::plain;
use super::{ApiError, Code, NewUnits, UnitAct};
use crate::host::Handle;

impl AppState {
    /// Does something to a unit.
    pub(super) async fn act_on(
        &self,
        site: &Name,
        unit: &Name,
        act: UnitAct,
        by: &Asker,
    ) -> ApiResult<Option<SiteView>> {
        let handle = self.actor(Role::SiteAuthority, site)?;
        let known = self.unit_of(handle, unit).await?;
        let none = || ApiError::new(Code::NoSuch, format!("no unit {site}/{unit}"));
        let (id, state) = known.ok_or_else(|| look(none(), site))?;
        if !self.is_repeated(handle, by).await? {
            suits(&act, &state).map_err(|cause| {
                let message = format!("unit {site}/{unit} is {}; {cause}", plain(state.word()));
                look(ApiError::new(Code::Usage, message), site)
            })?;
        }
        let unit = id;
        let command = match act {
            UnitAct::Drain => SiteCommand::Drain { unit, by: None },
            UnitAct::DrainBy(by) => SiteCommand::Drain { unit, by: Some(by.on(self.now())) },
            UnitAct::Resume => SiteCommand::Resume { unit },
            UnitAct::Quarantine(why) => SiteCommand::Quarantine { unit, why },
            UnitAct::Fail(why) => SiteCommand::Fail { unit, epoch: None, why },
            UnitAct::Reset => SiteCommand::Reset { unit },
            UnitAct::Remove => SiteCommand::Remove { unit },
        };
        self.order(handle, (by, ""), command).await.map_err(|error| look(error, site))?;
        Ok(self.sites(Some(site)).await?.pop())
    }

    /// Adds units, one by one if they have names.
    pub(super) async fn add(&self, new: &NewUnits, by: &Asker) -> ApiResult<Option<SiteView>> {
        let NewUnits { site, resource, units, names, attributes } = new;
        let handle = self.actor(Role::SiteAuthority, site)?;
        if names.is_empty() {
            let command = SiteCommand::Stock { resource: resource.clone(), units: *units };
            self.order(handle, (by, ""), command).await.map_err(|error| look(error, site))?;
        }
        for name in names {
            let command = SiteCommand::Add {
                resource: resource.clone(),
                name: name.clone(),
                attributes: attributes.clone(),
            };
            let done = self.order(handle, (by, name.as_str()), command).await;
            done.map_err(|error| look(error, site))?;
        }
        Ok(self.sites(Some(site)).await?.pop())
    }

    /// A unit by its number or its name, and its state.
    pub(super) async fn unit_of(
        &self,
        site: &Handle,
        unit: &Name,
    ) -> ApiResult<Option<(UnitId, unit::State)>> {
        let name = unit.clone();
        self.look(site, move |actor| match actor {
            AnyActor::SiteAuthority(actor) => {
                let unit = actor.unit_survey_of(number(&name).or(actor.unit_named(&name))?)?;
                Some((unit.id, unit.state.clone()))
            }
            AnyActor::Broker(_) | AnyActor::ServiceManager(_) => None,
        })
        .await
    }
}

/// Whether something can be done to a unit in this state.
fn suits(act: &UnitAct, state: &unit::State) -> Result<(), &'static str> {
    let (free, quarantined) = (*state == unit::State::Free, *state == unit::State::Quarantined);
    match act {
        UnitAct::Reset if !quarantined => Err("what can be reset is quarantined"),
        UnitAct::Quarantine(_) if !free => {
            Err("what can be quarantined is free: drain it and wait for the end of its lease")
        }
        UnitAct::Fail(_) if state.tenant().is_none() => {
            Err("what can fail is on a lease: take it out of use with `tenure site quarantine`")
        }
        UnitAct::Remove if !free && !quarantined => Err(
            "what can be removed is idle: drain it and wait for the end of its lease, or use `--force`",
        ),
        UnitAct::Reset
        | UnitAct::Quarantine(_)
        | UnitAct::Fail(_)
        | UnitAct::Remove
        | UnitAct::Drain
        | UnitAct::DrainBy(_)
        | UnitAct::Resume => Ok(()),
    }
}

/// The unit of that number: `u3`.
fn number(unit: &Name) -> Option<UnitId> {
    unit.as_str().strip_prefix('u')?.parse().ok().map(UnitId)
}

fn look(error: ApiError, site: &Name) -> ApiError {
    error.help(format!("`tenure site show {site}` lists its units"))
}
