//! Units that a service does not want: those that its software refused to take up, and those that a user names.

use super::facts::UnitBlacklisted;
use super::services::SiteUnit;
use super::{Output, ServiceManager};
use crate::actor::Emit as _;
use crate::actor::fact::BadFact;
use crate::driver::UnitId;
use crate::model::slice::{LeaseId, SliceName};
use crate::model::time::Time;
use crate::wire::proviso::MAX_EXCLUDED;

impl ServiceManager {
    pub(super) fn blacklist_unit(
        &mut self,
        now: Time,
        service: SliceName,
        (unit, until): (SiteUnit, Option<Time>),
        out: &mut Output,
    ) -> Result<(), String> {
        let blacklisted = &self.record(&service)?.blacklisted;
        let known = blacklisted.get(&unit).is_some_and(|until| now < *until);
        let count = blacklisted.values().filter(|until| now < **until).count();
        match until {
            Some(until) if until <= now => return Err(format!("{until} is over")),
            Some(_) if !known && count >= MAX_EXCLUDED => {
                return Err(format!("a service blacklists {MAX_EXCLUDED} units at most"));
            }
            None if !known => {
                return Err(format!("service {service} has not blacklisted that unit"));
            }
            Some(_) | None => {}
        }
        self.emit(now, UnitBlacklisted { service, unit, until }, out);
        Ok(())
    }

    pub(super) fn unit_blacklisted(
        &mut self,
        at: Time,
        fact: &UnitBlacklisted,
    ) -> Result<(), BadFact> {
        let blacklisted = &mut self.record_mut(&fact.service)?.blacklisted;
        blacklisted.retain(|_, until| at < *until);
        match fact.until {
            Some(until) => blacklisted.insert(fact.unit, until),
            None => blacklisted.remove(&fact.unit),
        };
        self.services_changed();
        Ok(())
    }

    /// A unit could not be joined, and goes back: it is not asked for again for a while.
    pub(super) fn blacklist_refused(&mut self, at: Time, id: LeaseId, unit: UnitId) {
        let Some(lease) = self.state.leases.get(&id) else { return };
        let Some(site) = lease.site() else { return };
        let Some(record) = self.state.services.get_mut(&lease.slice) else { return };
        let until = at.plus(record.definition.behaviour.blacklist_for);
        let blacklisted = &mut record.blacklisted;
        blacklisted.retain(|_, until| at < *until);
        if at < until && blacklisted.len() < MAX_EXCLUDED {
            blacklisted.insert((site, unit), until);
        }
    }
}
