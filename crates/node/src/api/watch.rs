//! Watching leases change.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use tenure_core::model::name::Name;
use tenure_core::model::slice::LeaseId;
use tenure_core::service_manager::LeaseSurvey;

use super::connection::Writer;
use super::server::{AppState, json};
use super::view::LeaseView;
use super::{Answer, ApiError, Code, LeaseName};
use crate::subject::number_of;

/// How many leases are looked at in one go, and of how many requests that have changed.
const PAGE: usize = 1000;
const REQUESTS: usize = 100;

impl AppState {
    /// The leases that are meant: first how they are now, then how they are whenever they have changed. What changes in
    /// quick succession is shown once.
    pub(super) async fn watch(
        &self,
        lease: Option<LeaseName>,
        out: &mut Writer,
    ) -> Result<(), Ended> {
        let managers = match &lease {
            Some(lease) => vec![self.parts(lease).await?.0],
            None => self.all_managers(),
        };
        let mut news = self.news(&managers, number_of).await?;
        let mut shown = Shown { lease, views: BTreeMap::new() };
        for manager in managers {
            shown.all(self, &manager, out).await?;
        }
        loop {
            let changed = news.next().await?;
            if changed.is_empty() {
                return Ok(());
            }
            for (manager, numbers) in changed {
                shown.changes(self, &manager, numbers, out).await?;
            }
        }
    }
}

/// What a watch has shown.
struct Shown {
    /// What is watched; all leases unless set.
    lease: Option<LeaseName>,
    views: BTreeMap<String, LeaseView>,
}

impl Shown {
    /// How the leases of a service manager are now, a page at a time.
    async fn all(&mut self, app: &AppState, manager: &Name, out: &mut Writer) -> Result<(), Ended> {
        if let Some(lease) = &self.lease {
            let views = app.leases_named(manager, lease.clone()).await?;
            return self.show(views, out).await;
        }
        let mut after = None;
        loop {
            let open = |lease: &LeaseSurvey<'_>| !lease.state.is_over();
            let (views, left) = app.page(manager, (after, PAGE), open).await?;
            let last = views.last().and_then(|last| last.lease.parse::<LeaseName>().ok());
            self.show(views, out).await?;
            match last.filter(|_| left > 0) {
                Some(LeaseName { number, part: Some(part), .. }) => {
                    after = Some(LeaseId { number, part });
                }
                Some(_) | None => return Ok(()),
            }
        }
    }

    /// What has changed of these requests.
    async fn changes(
        &mut self,
        app: &AppState,
        manager: &Name,
        numbers: BTreeSet<u64>,
        out: &mut Writer,
    ) -> Result<(), Ended> {
        let Some(lease) = self.lease.clone() else {
            let numbers: Vec<u64> = numbers.into_iter().collect();
            for some in numbers.chunks(REQUESTS) {
                let some: BTreeSet<u64> = some.iter().copied().collect();
                let views = app.leases_of_requests(manager, some.clone(), |_| true).await?;
                forget(&mut self.views, manager, &some, &views);
                self.show(views, out).await?;
            }
            return Ok(());
        };
        let itself = numbers.contains(&lease.number);
        // Its last attempt at several brokers may have other numbers.
        if !itself && self.views.values().all(|view| view.attempt.is_none()) {
            return Ok(());
        }
        let number = lease.number;
        let views = app.leases_named(manager, lease).await?;
        if itself && views.is_empty() {
            let message = format!("{manager}/{number} is over and forgotten");
            return Err(ApiError::new(Code::NoSuch, message).into());
        }
        self.show(views, out).await
    }

    async fn show(&mut self, views: Vec<LeaseView>, out: &mut Writer) -> Result<(), Ended> {
        for view in views {
            let same = |old: &LeaseView| LeaseView { left_s: view.left_s, ..old.clone() } == view;
            if !self.views.get(&view.lease).is_some_and(same) {
                out.write(&Answer::whole(json(&view)?)).await?;
                self.views.insert(view.lease.clone(), view);
            }
        }
        Ok(())
    }
}

/// Drops the parts of requests that were shown and are remembered no longer.
fn forget(
    shown: &mut BTreeMap<String, LeaseView>,
    manager: &Name,
    numbers: &BTreeSet<u64>,
    remembered: &[LeaseView],
) {
    let known: BTreeSet<&String> = remembered.iter().map(|view| &view.lease).collect();
    for number in numbers {
        // The parts are named `guest/3.0`, `guest/3.1` and so on; `/` comes right behind `.`.
        let request = format!("{manager}/{number}");
        let parts = shown.range(format!("{request}.")..format!("{request}/"));
        let names = parts.map(|(name, _)| name).filter(|name| !known.contains(name));
        for name in names.cloned().collect::<Vec<_>>() {
            shown.remove(&name);
        }
    }
}

/// Why a watch ends.
pub(super) enum Ended {
    Gone(io::Error),
    Refused(ApiError),
}

impl From<io::Error> for Ended {
    fn from(error: io::Error) -> Self {
        Self::Gone(error)
    }
}

impl From<ApiError> for Ended {
    fn from(error: ApiError) -> Self {
        Self::Refused(error)
    }
}
