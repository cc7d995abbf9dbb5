//! Requests of users, as those who ask are given them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tenure_config::{ConfigError, Place, suggestion};
use tenure_core::model::name::Name;
use tenure_core::wire::heartbeat;

use super::{ListedRequests, RequestSource, Scenario, ServiceManager, Workload};
use crate::random::Chance;
use crate::workload::{Askers, DrawnRequests, MOST_USER_REQUESTS, UserRequest};

/// What each service manager asks for.
type Asked = BTreeMap<Name, Arc<[UserRequest]>>;

impl ServiceManager {
    /// Whether users ask, and no mapper does.
    pub fn has_users(&self) -> bool {
        self.workload.has_users()
    }

    fn request_source(&self) -> Option<&RequestSource> {
        match &self.workload {
            Workload::Requests(source) => Some(source),
            Workload::Wave(_) | Workload::Log(_) | Workload::CoAllocation(_) => None,
        }
    }
}

impl Scenario {
    /// Gives all users what they ask for.
    pub(super) fn fill_requests(&mut self) -> Result<(), ConfigError> {
        let mut sources: Vec<&RequestSource> = Vec::new();
        for source in self.service_managers.values().filter_map(ServiceManager::request_source) {
            if !sources.contains(&source) {
                sources.push(source);
            }
        }
        let mut asked = Asked::new();
        for source in sources {
            asked.extend(match source {
                RequestSource::Drawn(drawn) => self.drawn(drawn, &self.users(source))?,
                RequestSource::Listed(listed) => self.listed(listed, &self.users(source))?,
            });
        }
        for (name, requests) in asked {
            if let Some(manager) = self.service_managers.get_mut(&name) {
                manager.requests = requests;
            }
        }
        Ok(())
    }

    /// The service managers whose requests are of this source.
    fn users(&self, source: &RequestSource) -> Vec<(&Name, &ServiceManager)> {
        let managers = self.service_managers.iter();
        managers.filter(|(_, manager)| manager.request_source() == Some(source)).collect()
    }

    fn drawn(
        &self,
        drawn: &DrawnRequests,
        users: &[(&Name, &ServiceManager)],
    ) -> Result<Asked, ConfigError> {
        if let Some(Err(bad)) = drawn.keep_alive.map(|asked| heartbeat::check(asked, self.margin)) {
            let help = "change `keep-alive` in `workload.requests`, or `margin`".to_owned();
            return Err(ConfigError::at(&self.file, &Place::Whole, bad.to_string(), help));
        }
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
        let names = users.iter().map(|(name, _)| (*name).clone());
        Ok(names.zip(requests.into_iter().map(Arc::from)).collect())
    }

    /// The first service manager of a broker asks for all that is asked of it.
    fn listed(
        &self,
        listed: &ListedRequests,
        users: &[(&Name, &ServiceManager)],
    ) -> Result<Asked, ConfigError> {
        let homes = users.iter().rev().map(|(name, manager)| (&manager.home, *name));
        let homes: BTreeMap<&Name, &Name> = homes.collect();
        let asker = |(broker, requests): (&Name, &Arc<[UserRequest]>)| match homes.get(broker) {
            Some(name) => Ok(((*name).clone(), Arc::clone(requests))),
            None => {
                let message = format!("requests are for `{broker}`, which no guest asks");
                let help = suggestion(broker.as_str(), homes.keys().map(|name| name.as_str()));
                Err(ConfigError::at(&self.file, &listed.place, message, help))
            }
        };
        listed.by_broker.iter().map(asker).collect()
    }
}
