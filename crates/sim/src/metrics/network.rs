//! What became of requests in a network of brokers, and what it took to find that out.

#![allow(clippy::wildcard_enum_match_arm, reason = "most facts are not counted")]

use std::collections::BTreeMap;

use tenure_core::actor::Role;
use tenure_core::broker::facts::Fact as BrokerFact;
use tenure_core::model::identity::ActorId;
use tenure_core::model::name::Name;
use tenure_core::model::slice::RequestId;
use tenure_core::model::time::{Span, Time};
use tenure_core::service_manager::facts::Fact as GuestFact;
use tenure_core::site_authority::facts::Fact as SiteFact;
use tenure_core::ticket::link::LinkHash;
use tenure_core::wire::portion::PortionOutcome;
use tenure_core::wire::refusal::{Outlook, Refusal};
use tenure_core::wire::request::Request;

use crate::capacity::Capacity;
use crate::report::{NetworkReport, Spread};

/// The messages of adverts.
const ADVERTS: [&str; 2] = ["advert", "advert-wanted"];

/// The figures of a network in the making.
#[derive(Debug)]
pub(super) struct NetworkFigures {
    /// The id of each member.
    ids: Vec<ActorId>,
    open: BTreeMap<RequestId, Open>,
    /// How many units of each type no site has given out.
    free: BTreeMap<Name, i64>,
    leases: BTreeMap<LinkHash, (Name, i64)>,
    report: NetworkReport,
    messages: Counts,
    hops: Counts,
    /// In microseconds.
    answers: Counts,
}

/// A request that is not answered.
#[derive(Debug)]
struct Open {
    at: Time,
    items: Vec<(Name, i64)>,
    duration: Span,
    messages: u64,
    /// Through how many brokers it came to those it was passed on to.
    handed: Vec<(usize, u64)>,
    hops: u64,
}

/// How often each value was found.
#[derive(Debug, Default)]
struct Counts(BTreeMap<u64, u64>);

impl Counts {
    fn add(&mut self, value: u64) {
        *self.0.entry(value).or_default() += 1;
    }

    fn spread(&self, unit: f64) -> Spread {
        let count: u64 = self.0.values().sum();
        let sum: f64 = self.0.iter().map(|(&value, &times)| value as f64 * times as f64).sum();
        let at = |part: f64| {
            let (mut left, rank) = (0, (part * count as f64).ceil() as u64);
            let found = self.0.iter().find(|&(_, times)| {
                left += times;
                left >= rank
            });
            found.map_or(0.0, |(&value, _)| value as f64 * unit)
        };
        Spread { mean: sum * unit / count.max(1) as f64, p50: at(0.5), p99: at(0.99) }
    }
}

impl NetworkFigures {
    pub(super) fn of(ids: Vec<ActorId>, capacity: &Capacity) -> Self {
        let units = |units: u64| i64::try_from(units).unwrap_or(i64::MAX);
        let free = capacity.iter().map(|(resource, of)| (resource.clone(), units(of.units)));
        Self {
            ids,
            open: BTreeMap::new(),
            free: free.collect(),
            leases: BTreeMap::new(),
            report: NetworkReport::default(),
            messages: Counts::default(),
            hops: Counts::default(),
            answers: Counts::default(),
        }
    }

    /// A message was sent.
    pub(super) fn sent(&mut self, kind: &str, from: Role, to: Role) {
        if (from, to) == (Role::Broker, Role::Broker) {
            let advert = ADVERTS.contains(&kind);
            self.report.adverts += u64::from(advert);
            self.report.broker_messages += u64::from(!advert);
        }
    }

    pub(super) fn observe_broker(&mut self, member: usize, fact: &BrokerFact) {
        match fact {
            BrokerFact::RequestHanded(fact) => {
                if let Some(open) = self.open.get_mut(&fact.request) {
                    open.handed.push((member, fact.handover.path.len() as u64));
                }
            }
            // The message that passes it on, and its answer.
            BrokerFact::RequestPassed(fact) => self.message_about(fact.request),
            BrokerFact::PassAnswered(fact) => self.message_about(fact.request),
            BrokerFact::PortionHanded(fact) => {
                if let Some(open) = self.open.get_mut(&fact.request) {
                    open.handed.push((member, fact.handover.path.len() as u64));
                }
            }
            BrokerFact::PortionPassed(fact) => self.message_about(fact.request),
            // The answer; if it brings tickets, what they were asked for with, too.
            BrokerFact::PortionAnswered(fact) => {
                self.message_about(fact.request);
                if let PortionOutcome::Granted(_) = fact.outcome {
                    self.message_about(fact.request);
                }
            }
            // Of those that meet a request together the furthest counts.
            BrokerFact::PortionsGranted(fact) => {
                if let Some(open) = self.open.get_mut(&fact.request) {
                    let handed = open.handed.iter().find(|(to, _)| *to == member);
                    open.hops = open.hops.max(handed.map_or(0, |(_, hops)| *hops));
                }
            }
            BrokerFact::TicketsCut(fact) => {
                if let Some(open) = self.open.get_mut(&fact.request) {
                    let handed = open.handed.iter().find(|(to, _)| *to == member);
                    open.hops = handed.map_or(0, |(_, hops)| *hops);
                }
            }
            _ => {}
        }
    }

    fn message_about(&mut self, request: RequestId) {
        if let Some(open) = self.open.get_mut(&request) {
            open.messages += 1;
        }
    }

    pub(super) fn observe_site(&mut self, fact: &SiteFact) {
        match fact {
            SiteFact::Redeemed(fact) => {
                let link = fact.ticket.bottom();
                let (resource, units) = (link.resource.clone(), i64::from(link.units.get()));
                // A lease may be redeemed before the one ends whose units it gets.
                *self.free.entry(resource.clone()).or_default() -= units;
                self.leases.insert(link.hash(), (resource, units));
            }
            SiteFact::UnitsReturned(fact) => self.came_back(fact.lease, fact.units.len()),
            SiteFact::LeaseShrunk(fact) => self.came_back(fact.lease, fact.units.len()),
            SiteFact::UnitsRecalled(fact) => self.came_back(fact.lease, fact.units.len()),
            SiteFact::QuantityReturned(fact) => {
                self.came_back(fact.lease, fact.quantity.get() as usize);
            }
            SiteFact::LeaseClosed(fact) => {
                self.came_back(fact.lease, usize::MAX);
                self.leases.remove(&fact.lease);
            }
            _ => {}
        }
    }

    /// So many units of a lease, or all that are left, are free again.
    fn came_back(&mut self, lease: LinkHash, units: usize) {
        let Some((resource, left)) = self.leases.get_mut(&lease) else { return };
        let units = i64::try_from(units).unwrap_or(i64::MAX).min(*left);
        *left -= units;
        if let Some(free) = self.free.get_mut(resource) {
            *free += units;
        }
    }

    pub(super) fn observe_guest(
        &mut self,
        member: usize,
        (at, in_window): (Time, bool),
        fact: &GuestFact,
    ) {
        let Some(&origin) = self.ids.get(member) else { return };
        match fact {
            GuestFact::Asked(fact) if in_window => self.asked(at, &fact.request),
            GuestFact::Granted(fact) => {
                if let Some(open) = self.answered(RequestId { origin, number: fact.number }, at) {
                    self.report.grants += 1;
                    self.hops.add(open.hops);
                }
            }
            GuestFact::AskRefused(fact) => {
                if let Some(open) = self.answered(RequestId { origin, number: fact.number }, at) {
                    self.refused(&open, &fact.refusal);
                }
            }
            _ => {}
        }
    }

    fn asked(&mut self, at: Time, request: &Request) {
        self.report.asks += 1;
        let items = request.items.iter();
        let items = items.map(|item| (item.resource.clone(), i64::from(item.units.get())));
        let open = Open {
            at,
            items: items.collect(),
            duration: request.duration,
            messages: 0,
            handed: Vec::new(),
            hops: 0,
        };
        self.open.insert(request.id, open);
    }

    fn answered(&mut self, request: RequestId, at: Time) -> Option<Open> {
        let open = self.open.remove(&request)?;
        self.messages.add(open.messages);
        self.answers.add(at.since(open.at).as_micros().unsigned_abs());
        Some(open)
    }

    fn refused(&mut self, open: &Open, refusal: &Refusal) {
        match refusal {
            Refusal::Busy { .. } => self.report.busy += 1,
            _ if refusal.outlook() == Outlook::Never => self.report.never += 1,
            _ => {}
        }
        let is_free = |(resource, units): &(Name, i64)| {
            self.free.get(resource).is_some_and(|free| free >= units)
        };
        if open.items.iter().all(is_free) {
            let units: i64 = open.items.iter().map(|(_, units)| units).sum();
            self.report.stranded_unit_s += units as f64 * open.duration.as_secs_f64();
        }
    }

    pub(super) fn report(&self) -> NetworkReport {
        let NetworkReport { asks, grants, .. } = self.report;
        NetworkReport {
            granted_part: grants as f64 / asks.max(1) as f64,
            messages_per_request: self.messages.spread(1.0),
            answer_s: self.answers.spread(1e-6),
            hops: self.hops.spread(1.0),
            ..self.report.clone()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spread_has_its_mean_and_ranks() {
        let mut counts = Counts::default();
        assert_eq!(counts.spread(1.0), Spread::default());
        (1..=100).for_each(|value| counts.add(value));
        assert_eq!(counts.spread(0.5), Spread { mean: 25.25, p50: 25.0, p99: 49.5 });
        let mut one = Counts::default();
        one.add(7);
        assert_eq!(one.spread(1.0), Spread { mean: 7.0, p50: 7.0, p99: 7.0 });
    }
}
