//! Watching leases change.

use std::collections::BTreeMap;
use std::io;

use tenure_core::actor::Role;
use tenure_core::model::name::Name;
use tenure_core::model::slice::LeaseId;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::connection::Writer;
use super::server::{AppState, json, refused};
use super::view::LeaseView;
use super::{Answer, ApiError, Code, LeaseName};
use crate::host::request_trace::number_of;

impl AppState {
    /// Every change of the leases that are meant, as it becomes durable: first how they are now.
    pub(super) async fn watch(
        &self,
        lease: Option<LeaseName>,
        out: &mut Writer,
    ) -> Result<(), Ended> {
        let managers = match &lease {
            Some(lease) => vec![self.manager_of(lease).await?],
            None => self.of_role(Role::ServiceManager).map(|h| h.info().name.clone()).collect(),
        };
        let (sender, mut receiver) = mpsc::channel(1024);
        // Ends with the watch, also where nothing happens any more.
        let mut followers = JoinSet::new();
        for manager in &managers {
            let handle = self.actor(Role::ServiceManager, manager)?;
            let mut facts = handle.facts().await.map_err(|error| refused(&error))?.facts;
            let (manager, sender) = (manager.clone(), sender.clone());
            followers.spawn_local(async move {
                while let Some((_, entry)) = facts.recv().await {
                    let number = number_of(&entry.fact);
                    if number.is_some() && sender.send((manager.clone(), number)).await.is_err() {
                        return;
                    }
                }
                // The host failed or stopped: what follows is not known.
                drop(sender.send((manager, None)).await);
            });
        }
        drop(sender);
        let mut shown: BTreeMap<String, LeaseView> = BTreeMap::new();
        let mut due: Vec<(Name, Option<u64>)> = managers.into_iter().map(|m| (m, None)).collect();
        loop {
            for (manager, number) in due {
                let wanted = lease.clone();
                let matching = move |id: LeaseId, _: &Name, over: bool| {
                    number.is_none_or(|number| id.number == number)
                        && wanted.as_ref().map_or(!over || number.is_some(), |name| name.means(id))
                };
                let views = self.leases_of(&manager, matching).await?;
                if let Some(number) = number {
                    forget(&mut shown, &format!("{manager}/{number}"), &views);
                }
                for view in views {
                    let same =
                        |old: &LeaseView| LeaseView { left_s: view.left_s, ..old.clone() } == view;
                    if !shown.get(&view.lease).is_some_and(same) {
                        out.write(&Answer::Ok(json(&view)?)).await?;
                        shown.insert(view.lease.clone(), view);
                    }
                }
            }
            match receiver.recv().await {
                Some((manager, Some(number))) => due = vec![(manager, Some(number))],
                Some((manager, None)) => {
                    let message = format!("{manager} went down or fell behind");
                    return Err(ApiError::new(Code::Failed, message).help("watch again").into());
                }
                None => return Ok(()),
            }
        }
    }
}

/// Drops the parts of a request that were shown and are remembered no longer.
fn forget(shown: &mut BTreeMap<String, LeaseView>, request: &str, remembered: &[LeaseView]) {
    // The parts are named `guest/3.0`, `guest/3.1` and so on; `/` comes right behind `.`.
    let parts = shown.range(format!("{request}.")..format!("{request}/"));
    let known = |name: &String| remembered.iter().any(|view| view.lease == *name);
    let gone: Vec<String> = parts.map(|(name, _)| name.clone()).filter(|n| !known(n)).collect();
    for name in gone {
        shown.remove(&name);
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
