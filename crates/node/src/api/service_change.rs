//! Changes of what a service is to reach, key by key, and of what it does not want.

use std::str::FromStr as _;

use tenure_config::{Override, Source};
use tenure_core::actor::Role;
use tenure_core::driver::UnitId;
use tenure_core::model::name::Name;
use tenure_core::model::time::Span;
use tenure_core::service::definition::Definition;
use tenure_core::service_manager::services::{ServiceCommand, SiteUnit};
use tenure_core::service_manager::{Command as GuestCommand, ServiceManager};

use super::asker::Asker;
use super::server::{ApiResult, AppState};
use super::service::ServiceView;
use super::service_name::ServiceName;
use super::{ApiError, Code};

impl AppState {
    /// Changes some keys of a definition, and leaves others out.
    pub(super) async fn change_service(
        &self,
        name: &ServiceName,
        (set, unset): (&[String], &[String]),
        by: &Asker,
    ) -> ApiResult<ServiceView> {
        let manager = self.service_meant(name).await?;
        let service = name.service.clone();
        let known = move |guest: &ServiceManager| Some(guest.service(&service)?.definition.clone());
        let known = self.guest(&manager, known).await?.unwrap_or_default();
        let changed = changed(&known, set, unset).map_err(|cause| {
            ApiError::new(Code::Usage, cause).help(
                "keys are those of the file of `tenure service add`, such as slo.wait.urgency=70 or behaviour.most=8 \
                 (docs/SERVICES.md)",
            )
        })?;
        let named = ServiceName { manager: Some(manager), service: name.service.clone() };
        self.set_service(&named, Box::new(changed), by).await
    }

    /// Gives back all leases of a service.
    pub(super) async fn free_units(
        &self,
        name: &ServiceName,
        by: &Asker,
    ) -> ApiResult<ServiceView> {
        let manager = self.service_meant(name).await?;
        let service = name.service.clone();
        let leases = move |guest: &ServiceManager| {
            let view = guest.services().into_iter().find(|view| view.service == service)?;
            Some(view.demands.into_iter().flat_map(|demand| demand.leases).collect::<Vec<_>>())
        };
        let handle = self.actor(Role::ServiceManager, &manager)?;
        for lease in self.guest(&manager, leases).await?.unwrap_or_default() {
            let close = GuestCommand::Close { lease };
            self.order(handle, (by, &lease.to_string()), close).await?;
        }
        self.service_of(&manager, &name.service).await
    }

    /// Has a unit not asked for again for so long, or asked for again.
    pub(super) async fn blacklist(
        &self,
        name: &ServiceName,
        (unit, span): (&str, Option<Span>),
        by: &Asker,
    ) -> ApiResult<ServiceView> {
        let manager = self.service_meant(name).await?;
        let (service, unit) = (name.service.clone(), self.site_unit(unit)?);
        let until = span.map(|span| self.now().plus(span));
        let command = ServiceCommand::Blacklist { service, unit, until };
        self.service_command(&manager, command, by).await?;
        self.service_of(&manager, &name.service).await
    }

    /// Whether an actor has that name.
    pub(super) fn knows(&self, actor: &Name) -> bool {
        self.names().values().any(|name| *name == *actor)
    }

    /// The unit of a name such as `alpha/u3`.
    pub(super) fn site_unit(&self, text: &str) -> ApiResult<SiteUnit> {
        let bad = |message: String| {
            ApiError::new(Code::NoSuch, message).help("`tenure unit list` lists the units")
        };
        let named = text.split_once('/').and_then(|(site, unit)| {
            let unit: u32 = unit.strip_prefix('u')?.parse().ok()?;
            Some((Name::new(site).ok()?, UnitId(unit)))
        });
        let (site, unit) = named.ok_or_else(|| bad(format!("`{text}` names no unit: alpha/u3")))?;
        let names = self.names();
        let known = names.iter().find(|(_, name)| **name == site).map(|(id, _)| *id);
        Ok((known.ok_or_else(|| bad(format!("no site {site} is known")))?, unit))
    }
}

/// A definition with some keys changed, and others left out.
fn changed(known: &Definition, set: &[String], unset: &[String]) -> Result<Definition, String> {
    let mut table = toml::Table::try_from(known).map_err(|error| error.to_string())?;
    for key in unset {
        remove(&mut table, key).ok_or_else(|| format!("`{key}` is not set"))?;
    }
    let overrides: Result<Vec<Override>, _> =
        set.iter().map(|text| Override::from_str(text)).collect();
    let overrides = overrides.map_err(|error| error.to_string())?;
    let source = Source { name: "the service", text: &table.to_string() };
    let text = tenure_config::text_of_first(source, &overrides).map_err(|e| e.to_string())?;
    // The text is none that its user has written: its lines say nothing.
    toml::from_str(&text).map_err(|error: toml::de::Error| {
        let (cause, help) = tenure_config::in_plain_words(error.message());
        help.map_or_else(|| cause.clone(), |help| format!("{cause}; {help}"))
    })
}

fn remove(table: &mut toml::Table, key: &str) -> Option<toml::Value> {
    match key.split_once('.') {
        None => table.remove(key),
        Some((first, rest)) => remove(table.get_mut(first)?.as_table_mut()?, rest),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known() -> Definition {
        let text = "slo.wait = { rule = \"oldest-wait < 10m\", want = \"pending\", urgency = 55 }";
        toml::from_str(text).unwrap()
    }

    fn change(set: &[&str], unset: &[&str]) -> Result<Definition, String> {
        let owned =
            |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
        changed(&known(), &owned(set), &owned(unset))
    }

    #[test]
    fn keys_are_changed_one_by_one() {
        let new = change(
            &[
                "slo.wait.urgency=70",
                "behaviour.most=8",
                "behaviour.idle-after=5m",
                "slo.busy={want=\"busy\", urgency=9}",
            ],
            &["slo.wait.rule"],
        );
        let new = new.unwrap();
        let wait = &new.slo[&Name::literal("wait")];
        assert_eq!((wait.urgency, wait.rule.is_none(), new.slo.len()), (70, true, 2));
        assert_eq!(
            (new.behaviour.most, new.behaviour.idle_after),
            (Some(8), Span::MINUTE.times(5))
        );
        assert_eq!(change(&[], &[]), Ok(known()));
    }

    #[test]
    fn what_is_no_key_is_refused_with_its_name() {
        assert!(change(&["slo.wait.urgent=70"], &[]).unwrap_err().contains("urgent"));
        assert!(change(&["slo.wait.urgency=high"], &[]).unwrap_err().contains("high"));
        assert!(change(&[], &["slo.gold"]).unwrap_err().contains("`slo.gold` is not set"));
        assert!(change(&["slo.wait"], &[]).unwrap_err().contains("`slo.wait` sets nothing"));
    }
}
