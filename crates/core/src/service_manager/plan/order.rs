//! The order of installations: on each node what others depend on comes first, and goes last.

use std::collections::{BTreeMap, BTreeSet};

use tenure_plan::Package;

use super::wanted::{all, read};
use super::{InstallState, PlanRecord, Plans};
use crate::mutants::mutant;

/// What packages of a plan depend on, by their profiles and by the request.
pub(super) struct Depends(BTreeMap<Package, BTreeSet<Package>>);

impl Depends {
    pub(super) fn of(record: &PlanRecord) -> Self {
        let wanted = &record.request.wanted;
        let profiles = record.proposed.iter().flat_map(|proposed| &proposed.placed.profiles);
        let profiles = profiles.map(|profile| (Some(&profile.package), &profile.depends));
        let parts = wanted.parts.iter().map(|part| (part.package.as_ref(), &part.depends));
        let libraries = wanted.libraries.iter().map(|l| (Some(&l.package), &l.depends));
        let mut depends: BTreeMap<Package, BTreeSet<Package>> = BTreeMap::new();
        for (package, on) in profiles.chain(parts).chain(libraries) {
            let Some(Ok(package)) = package.map(|package| read(package)) else { continue };
            depends.entry(package).or_default().extend(all::<Package>(on).unwrap_or_default());
        }
        Self(depends)
    }

    /// The packages of a node in the order in which they are installed, each with the places in that order of
    /// those that it depends on.
    pub(super) fn order<'p>(&self, packages: &'p [String]) -> Vec<(&'p String, Vec<usize>)> {
        let known: Vec<Option<Package>> =
            packages.iter().map(|package| read(package).ok()).collect();
        let on = known.iter().map(|package| self.0.get(package.as_ref()?));
        let ahead: Vec<Vec<usize>> = on
            .map(|on| {
                let depends = |other: &usize| {
                    on.zip(known[*other].as_ref()).is_some_and(|(on, other)| on.contains(other))
                };
                (0..known.len()).filter(depends).collect()
            })
            .collect();
        let mut order: Vec<usize> = Vec::new();
        while order.len() < packages.len() {
            let open = || (0..packages.len()).filter(|place| !order.contains(place));
            let is_next = |&place: &usize| ahead[place].iter().all(|other| order.contains(other));
            // Packages that depend on each other, which no mapper should plan, come as they are listed.
            let next = open().find(is_next).or_else(|| open().next());
            order.extend(next);
        }
        let place_of = |place| order.iter().position(|other| *other == place);
        let listed = |(nth, &place): (usize, &usize)| {
            let first = ahead[place].iter().copied().filter_map(place_of);
            let first = first.filter(|first| *first < nth);
            (&packages[place], first.collect())
        };
        order.iter().enumerate().map(listed).collect()
    }
}

impl Plans {
    /// Whether all that an installation waits for is installed.
    pub(super) fn may_begin(&self, number: u32) -> bool {
        let install = self.installs.get(&number);
        let first = install.into_iter().flat_map(|install| &install.after);
        let mut states = first.filter_map(|first| self.installs.get(first)).map(|i| &i.state);
        states.all(|state| matches!(state, InstallState::Installed)) || mutant!(InstallsInAnyOrder)
    }

    /// Whether none that depends on an installation is still to be removed.
    pub(super) fn may_go(&self, number: u32) -> bool {
        let plan = self.installs.get(&number).map(|install| install.plan);
        let others = plan.into_iter().flat_map(|plan| self.installs_of(plan));
        let mut dependents = others.filter(|(_, install)| install.after.contains(&number));
        dependents.all(|(_, install)| !matches!(install.state, InstallState::Removing))
    }

    /// Whether no report on a plan is to come of itself.
    pub(super) fn is_settled(&self, plan: u64) -> bool {
        let mut states = self.installs_of(plan).map(|(_, install)| &install.state);
        self.blocked(plan).is_some() || states.all(|state| !matches!(state, InstallState::Pending))
    }

    /// An installation of a plan that waits for one that failed, and the package of that.
    pub(super) fn blocked(&self, plan: u64) -> Option<(u32, String)> {
        let waits =
            self.installs_of(plan).filter(|(_, i)| matches!(i.state, InstallState::Pending));
        let mut blocked = waits.filter_map(|(number, install)| {
            let first = install.after.iter().filter_map(|first| self.installs.get(first));
            let mut failed = first.filter(|first| matches!(first.state, InstallState::Failed(_)));
            Some((number, failed.next()?.package.clone()))
        });
        blocked.next()
    }
}
