//! Leases by their names, and lists of them.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use tenure_core::actor::Role;
use tenure_core::model::name::Name;
use tenure_core::model::slice::LeaseId;
use tenure_core::service_manager::request::State as RequestState;
use tenure_core::service_manager::{LeaseSurvey, ServiceManager};

use super::attempt::AttemptView;
use super::server::{ApiResult, AppState};
use super::view::{self, LeaseView};
use super::{ApiError, Code, LeaseName};

/// The most leases that one answer lists.
pub const MAX_LEASES: usize = 10_000;

/// Which leases are listed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct WantedLeases {
    /// Of this service manager only.
    pub manager: Option<Name>,
    /// Of this slice only.
    pub slice: Option<Name>,
    /// Those that have ended too, while they are remembered.
    pub all: bool,
    /// Those behind this one only, which is named in full.
    pub after: Option<LeaseName>,
    /// At most so many; [`MAX_LEASES`] unless fewer are asked for.
    pub limit: Option<usize>,
}

/// What follows a list that is cut short.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct More {
    /// How many more there are.
    pub left: usize,
    /// The last that is listed: asked for `after` it, the next ones follow.
    pub after: LeaseName,
}

/// The leases of a name, by index: all parts of a request, unless one is named.
fn parts_of(guest: &ServiceManager, name: &LeaseName) -> Vec<LeaseId> {
    let number = name.number;
    if let Some(part) = name.part {
        let lease = guest.survey_of(LeaseId { number, part });
        return lease.map(|lease| lease.id).into_iter().collect();
    }
    // What goes to several brokers has a request for each, and its last attempt counts.
    let numbers = guest.last_attempt(number).unwrap_or(number..number.saturating_add(1));
    numbers.flat_map(|number| leases_of(guest, number)).collect()
}

fn leases_of(guest: &ServiceManager, number: u64) -> Vec<LeaseId> {
    match guest.request(number) {
        Some(RequestState::Granted { group }) => group.leases().collect(),
        // A request without leases, or a lease of a ticket that came without a request.
        Some(
            RequestState::Asked
            | RequestState::Offered { .. }
            | RequestState::Accepting { .. }
            | RequestState::GivenUp
            | RequestState::Planned { .. }
            | RequestState::Refused { .. }
            | RequestState::Unanswered,
        )
        | None => {
            guest.survey_of(LeaseId { number, part: 0 }).map(|lease| lease.id).into_iter().collect()
        }
    }
}

impl AppState {
    /// The leases that are picked, in their order.
    async fn picked(
        &self,
        manager: &Name,
        pick: impl FnOnce(&ServiceManager) -> Vec<LeaseId> + Send + 'static,
    ) -> ApiResult<Vec<LeaseView>> {
        let (name, names, now) = (manager.clone(), self.names(), self.now());
        let (me, found) = (self.actor(Role::ServiceManager, manager)?.info().id, self.found());
        let unreachable = self.unreachable(me);
        let leases = self.guest(manager, move |guest| {
            let picked = pick(guest).into_iter().filter_map(|id| guest.survey_of(id));
            let known = (&found, &unreachable);
            let views = picked.map(|lease| LeaseView {
                attempt: AttemptView::of(guest, &lease, &names),
                ..view::lease((&name, me), &names, &lease, known, now)
            });
            Some(views.collect())
        });
        Ok(leases.await?.unwrap_or_default())
    }

    pub(super) async fn lease(&self, manager: &Name, id: LeaseId) -> ApiResult<LeaseView> {
        let leases = self.picked(manager, move |_| vec![id]).await?;
        leases.into_iter().next().ok_or_else(|| no_lease(&format!("{manager}/{id}")))
    }

    /// The leases of a service manager with a name; none if it has none of that name.
    pub(super) async fn leases_named(
        &self,
        manager: &Name,
        lease: LeaseName,
    ) -> ApiResult<Vec<LeaseView>> {
        self.picked(manager, move |guest| parts_of(guest, &lease)).await
    }

    /// The parts of several requests that are `wanted`.
    pub(super) async fn leases_of_requests(
        &self,
        manager: &Name,
        numbers: BTreeSet<u64>,
        wanted: impl Fn(&LeaseSurvey<'_>) -> bool + Send + 'static,
    ) -> ApiResult<Vec<LeaseView>> {
        let name = |number| LeaseName { manager: None, number, part: None };
        let pick = move |guest: &ServiceManager| {
            let parts = numbers.into_iter().flat_map(|number| parts_of(guest, &name(number)));
            let once: BTreeSet<LeaseId> = parts.collect();
            let wanted = |id: &LeaseId| guest.survey_of(*id).is_some_and(|lease| wanted(&lease));
            once.into_iter().filter(wanted).collect()
        };
        self.picked(manager, pick).await
    }

    /// The leases of a name: all parts of a request, unless one is named.
    pub(super) async fn named(&self, lease: &LeaseName) -> ApiResult<Vec<LeaseView>> {
        let manager = self.manager_of(lease).await?;
        let leases = self.leases_named(&manager, lease.clone()).await?;
        if leases.is_empty() { Err(no_lease(&lease.to_string())) } else { Ok(leases) }
    }

    /// The leases of a name, with their service manager; those that have ended only if all are.
    pub(super) async fn parts(&self, lease: &LeaseName) -> ApiResult<(Name, Vec<LeaseId>)> {
        let manager = self.manager_of(lease).await?;
        let name = lease.clone();
        let found = self.guest(&manager, move |guest| {
            let is_over = |id: &LeaseId| guest.survey_of(*id).is_none_or(|it| it.state.is_over());
            let (over, open): (Vec<_>, Vec<_>) =
                parts_of(guest, &name).into_iter().partition(is_over);
            Some(if open.is_empty() { over } else { open })
        });
        let parts = found.await?.unwrap_or_default();
        if parts.is_empty() { Err(no_lease(&lease.to_string())) } else { Ok((manager, parts)) }
    }

    /// Leases of a service manager that are `wanted`, in order: the first so many behind one of them, and how
    /// many follow.
    pub(super) async fn page(
        &self,
        manager: &Name,
        (after, limit): (Option<LeaseId>, usize),
        wanted: impl Fn(&LeaseSurvey<'_>) -> bool + Send + 'static,
    ) -> ApiResult<(Vec<LeaseView>, usize)> {
        let (send, left) = tokio::sync::oneshot::channel();
        let pick = move |guest: &ServiceManager| {
            let behind = guest.survey().filter(|lease| after.is_none_or(|after| lease.id > after));
            let mut ids = behind.filter(wanted).map(|lease| lease.id);
            let page = ids.by_ref().take(limit).collect();
            // Who asked may have gone.
            let _ = send.send(ids.count());
            page
        };
        let leases = self.picked(manager, pick).await?;
        Ok((leases, left.await.unwrap_or_default()))
    }

    /// A list of leases, and what follows if it is cut short.
    pub(super) async fn leases(
        &self,
        wanted: &WantedLeases,
    ) -> ApiResult<(Vec<LeaseView>, Option<More>)> {
        let WantedLeases { manager, slice, all, after, limit } = wanted;
        let after = after.as_ref().map(in_full).transpose()?;
        let limit = limit.map_or(MAX_LEASES, |limit| limit.clamp(1, MAX_LEASES));
        let (mut leases, mut left): (Vec<LeaseView>, usize) = (Vec::new(), 0);
        for handle in self.chosen(Role::ServiceManager, manager.as_ref())? {
            let name = &handle.info().name;
            let after = match &after {
                Some((manager, _)) if name < manager => continue,
                Some((manager, id)) => Some(*id).filter(|_| name == manager),
                None => None,
            };
            let (slice, all) = (slice.clone(), *all);
            let wanted = move |lease: &LeaseSurvey<'_>| {
                (all || !lease.state.is_over())
                    && slice.as_ref().is_none_or(|slice| slice == lease.slice)
            };
            let (page, more) = self.page(name, (after, limit - leases.len()), wanted).await?;
            leases.extend(page);
            left += more;
        }
        // Proofs are long, and a list is for looking over.
        for refusal in leases.iter_mut().filter_map(|lease| lease.refusal.as_mut()) {
            refusal.evidence = None;
        }
        let last = leases.last().and_then(|last| last.lease.parse().ok());
        let more = last.filter(|_| left > 0).map(|after| More { left, after });
        Ok((leases, more))
    }

    /// The service manager that a lease's name means: the one it says, or the only one with such a lease.
    pub(super) async fn manager_of(&self, lease: &LeaseName) -> ApiResult<Name> {
        if let Some(name) = &lease.manager {
            return Ok(self.actor(Role::ServiceManager, name)?.info().name.clone());
        }
        let mut having = Vec::new();
        for handle in self.of_role(Role::ServiceManager) {
            let (name, wanted) = (&handle.info().name, lease.clone());
            let has = self.guest(name, move |guest| Some(!parts_of(guest, &wanted).is_empty()));
            if has.await?.unwrap_or_default() {
                having.push(name.clone());
            }
        }
        // A user means what users asked for, not what a made-up demand did.
        let managers = &self.config().service_managers;
        let asked = |name: &&Name| managers.get(*name).is_some_and(|m| m.demand.is_none());
        match (&having[..], &having.iter().filter(asked).collect::<Vec<_>>()[..]) {
            ([], _) => Err(no_lease(&lease.to_string())),
            ([name], _) => Ok(name.clone()),
            (_, [name]) => Ok((*name).clone()),
            (several, _) => {
                let names: Vec<String> =
                    several.iter().map(|name| format!("{name}/{lease}")).collect();
                let message = format!("several service managers have a lease {lease}");
                Err(ApiError::new(Code::Usage, message)
                    .help(format!("write {}", names.join(" or "))))
            }
        }
    }
}

/// The service manager and the number of a lease that is named in full.
fn in_full(lease: &LeaseName) -> ApiResult<(Name, LeaseId)> {
    let LeaseName { manager, number, part } = lease;
    match (manager, part) {
        (Some(manager), Some(part)) => {
            Ok((manager.clone(), LeaseId { number: *number, part: *part }))
        }
        (_, _) => Err(ApiError::new(Code::Usage, format!("{lease} is not named in full"))
            .help("write the service manager, the number and the part: guest/3.0")),
    }
}

pub(super) fn no_lease(name: &str) -> ApiError {
    ApiError::new(Code::NoSuch, format!("no lease {name}"))
        .help("`tenure lease list --all` lists all that are remembered")
}
