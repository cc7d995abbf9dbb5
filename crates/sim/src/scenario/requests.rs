//! Requests of users, as those who ask are given them.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use tenure_config::{BrokerPeers, ConfigError, Place, suggestion};
use tenure_core::model::name::Name;
use toml::Spanned;

use super::resolve::{Check, Checked};
use super::topology::rows;
use super::{Broker, RequestSource, Scenario, ServiceManager, Workload};
use crate::random::Chance;
use crate::workload::{
    Askers, DrawnRequests, ListedRequest, MOST_USER_REQUESTS, UserRequest, by_broker,
};

impl ServiceManager {
    /// Whether users ask, and no mapper does.
    pub fn has_users(&self) -> bool {
        matches!(self.workload, Workload::Requests(_))
    }
}

impl Check<'_> {
    /// Requests that are drawn so.
    pub(super) fn drawn_requests(
        &self,
        given: Option<Spanned<DrawnRequests>>,
    ) -> Checked<Workload> {
        let drawn = |drawn| Workload::Requests(RequestSource::Drawn(drawn));
        let Some(given) = given else { return Ok(drawn(DrawnRequests::default())) };
        match given.get_ref().check() {
            Ok(()) => Ok(drawn(given.into_inner())),
            Err((setting, expected)) => {
                let message = format!("`{setting}` {expected}");
                let help = "the others have the defaults of docs/SCENARIOS.md";
                self.refuse(given.span(), message, help)
            }
        }
    }

    /// Requests in a file.
    pub(super) fn listed_requests(&self, file: &Spanned<String>) -> Checked<Workload> {
        let bad = |cause: String| {
            let message = format!("the requests of `{}`: {cause}", file.get_ref());
            let help = "its columns are at,broker,resource,units,duration and, if you like, group";
            self.sources.error(file.span(), message, Some(help.to_owned()))
        };
        let rows = rows::<ListedRequest>(&self.read(file)?).map_err(bad)?;
        if rows.len() > MOST_USER_REQUESTS {
            return Err(bad(format!("they are more than {MOST_USER_REQUESTS}")));
        }
        for (line, row) in &rows {
            if row.at.as_micros() < 0 || !row.duration.is_positive() {
                return Err(bad(format!("line {line}: a time below zero, or no `duration`")));
            }
        }
        let listed = rows.into_iter().map(|(_, row)| row).collect::<Vec<_>>();
        by_broker(&listed).map_err(bad)?;
        Ok(Workload::Requests(RequestSource::Listed(listed.into())))
    }

    /// Each broker that requests name must have a guest.
    pub(super) fn asked(
        &self,
        place: Range<usize>,
        workload: &Workload,
        homes: &BTreeSet<&Name>,
    ) -> Checked<()> {
        let Workload::Requests(RequestSource::Listed(listed)) = workload else { return Ok(()) };
        let Some(other) = listed.iter().find(|row| !homes.contains(&row.broker)) else {
            return Ok(());
        };
        let known = homes.iter().map(|name| name.as_str());
        let help = suggestion(other.broker.as_str(), known);
        self.refuse(
            place,
            format!("requests are for `{}`, which no guest asks", other.broker),
            help,
        )
    }
}

impl Scenario {
    /// Whether brokers do something for each other, or users ask them.
    pub fn has_network(&self) -> bool {
        let peers = |broker: &Broker| broker.peers != BrokerPeers::default();
        self.brokers.values().any(peers)
            || self.service_managers.values().any(ServiceManager::has_users)
    }

    /// Gives all users what they ask for.
    pub(super) fn fill_requests(&mut self) -> Result<(), ConfigError> {
        let mut sources: Vec<RequestSource> = Vec::new();
        for manager in self.service_managers.values() {
            if let Workload::Requests(source) = &manager.workload
                && !sources.contains(source)
            {
                sources.push(source.clone());
            }
        }
        for source in sources {
            let asked = match &source {
                RequestSource::Drawn(drawn) => self.draw_requests(drawn)?,
                RequestSource::Listed(listed) => self.listed(listed)?,
            };
            for (name, asked) in asked {
                if let Some(manager) = self.service_managers.get_mut(&name) {
                    manager.requests = asked.into();
                }
            }
        }
        Ok(())
    }

    fn draw_requests(&self, drawn: &DrawnRequests) -> Result<Asked, ConfigError> {
        let source = Workload::Requests(RequestSource::Drawn(drawn.clone()));
        let users = self.service_managers.iter().filter(|(_, manager)| manager.workload == source);
        let users: Vec<(&Name, &ServiceManager)> = users.collect();
        let stocks = || self.sites.values().flat_map(|site| &site.stocks);
        let types: BTreeSet<&Name> = stocks().map(|(resource, _)| resource).collect();
        let askers = Askers {
            at_hand: users.iter().map(|(_, manager)| &*manager.at_hand).collect(),
            types: types.into_iter().collect(),
            units: stocks().map(|(_, stock)| u64::from(stock.units)).sum(),
        };
        let requests = drawn.requests(Chance::new(self.seed), self.horizon, &askers);
        let requests = requests.ok_or_else(|| {
            let message = format!("the workload comes to more than {MOST_USER_REQUESTS} requests");
            let help = "make `duration` longer, `units` more, or `load` or `horizon` smaller";
            ConfigError::at(&self.file, &Place::Whole, message, help.to_owned())
        })?;
        Ok(users.into_iter().map(|(name, _)| name.clone()).zip(requests).collect())
    }

    fn listed(&self, listed: &[ListedRequest]) -> Result<Asked, ConfigError> {
        let bad = |cause: String| ConfigError::at(&self.file, &Place::Whole, cause, None);
        let mut asked = by_broker(listed).map_err(bad)?;
        // The first guest of a broker asks for all that is asked of it.
        let users = self.service_managers.iter().filter(|(_, manager)| manager.has_users());
        let of_user = |(name, manager): (&Name, &ServiceManager)| {
            Some((name.clone(), asked.remove(&manager.home)?))
        };
        Ok(users.filter_map(of_user).collect())
    }
}

/// What each service manager asks for.
type Asked = BTreeMap<Name, Vec<UserRequest>>;
