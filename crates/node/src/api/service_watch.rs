//! Watching services change.

use std::collections::{BTreeMap, BTreeSet};

use tenure_core::model::name::Name;

use super::connection::Writer;
use super::server::{AppState, json};
use super::service::ServiceView;
use super::service_name::ServiceName;
use super::watch::Ended;
use super::{Answer, ApiError, Code};

impl AppState {
    /// Every change of the services that are meant: first how they are now. To be measured again
    /// without a difference is no change.
    pub(super) async fn watch_services(
        &self,
        service: Option<ServiceName>,
        out: &mut Writer,
    ) -> Result<(), Ended> {
        let managers: Vec<Name> = match &service {
            Some(service) => vec![self.service_meant(service).await?],
            None => self.all_managers(),
        };
        // Leases change what services have, so all facts are news.
        let mut news = self.news(&managers, |_| Some(())).await?;
        let mut shown = BTreeMap::new();
        let mut due: BTreeSet<Name> = managers.into_iter().collect();
        while !due.is_empty() {
            for manager in due {
                self.show_services(&manager, service.as_ref(), &mut shown, out).await?;
            }
            due = news.next().await?.into_keys().collect();
        }
        Ok(())
    }

    async fn show_services(
        &self,
        manager: &Name,
        service: Option<&ServiceName>,
        shown: &mut BTreeMap<String, ServiceView>,
        out: &mut Writer,
    ) -> Result<(), Ended> {
        let named = service.map(|service| format!("{manager}/{}", service.service));
        let views = self.services(Some(manager)).await?;
        if let Some(named) = named.as_ref().filter(|named| {
            views.iter().all(|view| view.service != **named) && shown.contains_key(*named)
        }) {
            let message = format!("service {named} was removed");
            return Err(ApiError::new(Code::NoSuch, message).into());
        }
        for view in views {
            if named.as_ref().is_some_and(|named| view.service != *named) {
                continue;
            }
            let same = |old: &ServiceView| {
                let (measured_at, adapter) = (view.measured_at.clone(), view.adapter.clone());
                ServiceView { measured_at, adapter, ..old.clone() } == view
            };
            if !shown.get(&view.service).is_some_and(same) {
                out.write(&Answer::whole(json(&view)?)).await?;
                shown.insert(view.service.clone(), view);
            }
        }
        Ok(())
    }
}
