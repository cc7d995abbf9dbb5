//! Who held which unit.

use serde::{Deserialize, Serialize};
use tenure_core::model::identity::ActorId;
use tenure_core::model::slice::SliceName;
use tenure_core::model::time::Time;

use super::in_order;
use crate::history::History;
use crate::query::Query;
use crate::site::Tenancy;

/// For how long a unit was on one lease: from when its site assigned it until it released it or, as its guest says,
/// while that had it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnitRow {
    /// The unit: its site and number there.
    pub unit: String,
    /// Its type.
    #[serde(rename = "type")]
    pub resource: String,
    /// The service or slice that held it, by its guest.
    pub holder: String,
    /// Whether that is a `service` or another `slice`.
    pub kind: String,
    /// The lease, by its guest.
    pub lease: String,
    /// Since when.
    pub begin: String,
    /// Until when; none if it still does.
    pub end: Option<String>,
    /// How long, so far.
    pub lasted: String,
}

impl History {
    /// Who held which unit: as its site says or, if the site's journal is not here, as its guest does.
    pub fn units(&self, query: &Query) -> Vec<UnitRow> {
        let sites = self.by_name(&self.sites);
        let here = sites.flat_map(|(site, of)| of.tenancies.iter().map(move |t| (site, t)));
        let elsewhere = self.by_name(&self.guests).flat_map(|(_, guest)| &guest.leases.tenancies);
        let elsewhere = elsewhere.filter(|(site, _)| !self.sites.contains_key(site));
        let tenancies = here.chain(elsewhere.map(|(site, tenancy)| (*site, tenancy)));
        let wanted = tenancies.filter(|(_, tenancy)| {
            query.takes_span(tenancy.begin, tenancy.end)
                && query.takes_type(&tenancy.lease.resource)
                && self.is_asked_for(query, tenancy.lease.guest, &tenancy.lease.slice)
        });
        let row = |(site, tenancy): (ActorId, &Tenancy)| {
            (tenancy.begin, self.unit_row(site, tenancy, query))
        };
        in_order(wanted.map(row).collect())
    }

    fn unit_row(&self, site: ActorId, tenancy: &Tenancy, query: &Query) -> UnitRow {
        let Tenancy { unit, lease, begin, end } = tenancy;
        let (end, until) = self.ended(*end, query);
        let guest = self.name(lease.guest);
        let service = self.has_service(lease.guest, &lease.slice, [*begin, until]);
        UnitRow {
            unit: format!("{}/{unit}", self.name(site)),
            resource: lease.resource.to_string(),
            holder: format!("{guest}/{}", lease.slice),
            kind: if service { "service" } else { "slice" }.to_owned(),
            lease: format!("{guest}/{}", lease.lease),
            begin: begin.to_string(),
            end: end.map(|end| end.to_string()),
            lasted: until.since(*begin).to_string(),
        }
    }

    /// Whether a slice was a service at one of these times, by its guest's facts or what brokers were told.
    fn has_service(&self, guest: ActorId, slice: &SliceName, times: [Time; 2]) -> bool {
        match self.guests.get(&guest) {
            Some(of) => of.services.get(slice).is_some_and(|service| {
                times.into_iter().any(|at| service.definition(at).is_some())
            }),
            None => self.brokers.values().any(|broker| {
                broker.needs.iter().any(|(_, of, need)| *of == guest && need.service == *slice)
            }),
        }
    }
}
