//! What happens at service managers, for those who watch.

use std::collections::{BTreeMap, BTreeSet};

use tenure_core::actor::Role;
use tenure_core::model::name::Name;
use tenure_core::runtime::Fact;
use tokio::sync::mpsc::{Receiver, channel};
use tokio::task::JoinSet;

use super::ApiError;
use super::Code;
use super::server::{ApiResult, AppState, refused};

/// How much may wait to be looked at.
const AHEAD: usize = 1024;

/// What happens at service managers, as it is watched. They end with it, also where nothing happens any more.
pub(super) struct ManagerEvents<T> {
    receiver: Receiver<(Name, Option<T>)>,
    /// A service manager that nothing more is known of, which is still to be told.
    lost: Option<(Name, Option<T>)>,
    _followers: JoinSet<()>,
}

impl AppState {
    /// The service managers that a watch is of, unless it is of one of them.
    pub(super) fn all_managers(&self) -> Vec<Name> {
        self.of_role(Role::ServiceManager).map(|handle| handle.info().name.clone()).collect()
    }

    /// What `of` makes of the facts of service managers, as they become durable.
    pub(super) async fn news<T: Send + 'static>(
        &self,
        managers: &[Name],
        of: fn(&Fact) -> Option<T>,
    ) -> ApiResult<ManagerEvents<T>> {
        let (sender, receiver) = channel(AHEAD);
        let mut followers = JoinSet::new();
        for manager in managers {
            let handle = self.actor(Role::ServiceManager, manager)?;
            let mut facts = handle.facts().await.map_err(|error| refused(&error))?.facts;
            let (manager, sender) = (manager.clone(), sender.clone());
            followers.spawn_local(async move {
                while let Some((_, entry)) = facts.recv().await {
                    let news = of(&entry.fact);
                    if news.is_some() && sender.send((manager.clone(), news)).await.is_err() {
                        return;
                    }
                }
                // The host failed or stopped: what follows is not known.
                drop(sender.send((manager, None)).await);
            });
        }
        Ok(ManagerEvents { receiver, lost: None, _followers: followers })
    }
}

impl<T: Ord> ManagerEvents<T> {
    /// Waits until something happens; all that has happened since the last call, by service manager. It is empty if
    /// there are none to follow.
    ///
    /// # Errors
    /// If a service manager went down, or has more to tell than is looked at.
    pub(super) async fn next(&mut self) -> ApiResult<BTreeMap<Name, BTreeSet<T>>> {
        let mut all = BTreeMap::<Name, BTreeSet<T>>::new();
        let mut next = match self.lost.take() {
            Some(lost) => Some(lost),
            None => self.receiver.recv().await,
        };
        while let Some((manager, news)) = next {
            match news {
                Some(news) => drop(all.entry(manager).or_default().insert(news)),
                None if all.is_empty() => return Err(lost(&manager)),
                // What came before is told first.
                None => {
                    self.lost = Some((manager, None));
                    break;
                }
            }
            next = self.receiver.try_recv().ok();
        }
        Ok(all)
    }
}

fn lost(manager: &Name) -> ApiError {
    let message = format!("{manager} went down or fell behind");
    ApiError::new(Code::Failed, message).help("watch again")
}
