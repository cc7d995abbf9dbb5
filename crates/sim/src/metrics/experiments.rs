//! What became of experiments, requests for compute with bandwidth: which were granted, where, and what they cost.

use std::collections::BTreeMap;

use tenure_core::model::identity::ActorId;
use tenure_core::model::name::Name;
use tenure_core::model::property::Properties;
use tenure_core::model::time::{Span, Term, Time};
use tenure_core::service_manager::facts::Fact;
use tenure_core::ticket::Ticket;
use tenure_core::wire::request::Request;

use super::overlap;
use crate::report::{AtLoad, ExperimentReport, OfUser};

/// Where experiments take place.
#[derive(Clone, Debug)]
pub struct Compute {
    /// From when to when.
    pub day: Term,
    /// The sites.
    pub sites: BTreeMap<Name, ComputeSite>,
}

/// A site of experiments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ComputeSite {
    /// Its units.
    pub units: u32,
    /// What they are worth by their attribute `quality`; 0 without it.
    pub quality: i64,
}

/// The experiments of a run in the making.
#[derive(Debug)]
pub(super) struct Experiments {
    day: Term,
    sites: BTreeMap<ActorId, (Name, ComputeSite)>,
    /// By the member that asks and the number of the request.
    asked: BTreeMap<(usize, u64), Experiment>,
}

#[derive(Debug)]
struct Experiment {
    user: String,
    load: u32,
    earliest: Time,
    /// Which of its items are links.
    links: Vec<bool>,
    granted: Option<Granted>,
}

#[derive(Debug)]
struct Granted {
    delay: Span,
    /// Of all of it, for an hour.
    price: u64,
    /// Units at sites, with the microseconds of the day that they are for.
    units: Vec<(ActorId, u32, i128)>,
}

impl Experiments {
    pub(super) fn at(compute: &Compute, id_of: impl Fn(&Name) -> Option<ActorId>) -> Self {
        let sites = compute.sites.iter();
        let sites = sites.filter_map(|(name, site)| Some((id_of(name)?, (name.clone(), *site))));
        Self { day: compute.day, sites: sites.collect(), asked: BTreeMap::new() }
    }

    /// Applies a fact of a service manager.
    #[allow(clippy::wildcard_enum_match_arm, reason = "most facts are not counted")]
    pub(super) fn observe(&mut self, member: usize, fact: &Fact) {
        match fact {
            Fact::Asked(fact) => {
                let asked = Experiment::of(&fact.request);
                self.asked.insert((member, fact.request.id.number), asked);
            }
            Fact::Granted(fact) => {
                let day = self.day;
                if let Some(asked) = self.asked.get_mut(&(member, fact.number)) {
                    asked.granted = Some(asked.granted(day, &fact.tickets));
                }
            }
            _ => {}
        }
    }

    pub(super) fn report(&self) -> ExperimentReport {
        let granted: Vec<&Granted> =
            self.asked.values().filter_map(|asked| asked.granted.as_ref()).collect();
        let mean = |sum: f64, of: f64| if of > 0.0 { sum / of } else { 0.0 };
        let count = granted.len() as f64;
        let delay = granted.iter().map(|granted| granted.delay.as_secs_f64()).sum();
        let price = granted.iter().map(|granted| granted.price as f64).sum();
        let (mut worth, mut units) = (0.0, 0.0);
        for &(site, number, _) in granted.iter().flat_map(|granted| &granted.units) {
            let quality = self.sites.get(&site).map_or(0, |(_, site)| site.quality);
            worth += f64::from(number) * quality as f64;
            units += f64::from(number);
        }
        let mut loads: Vec<u32> = self.asked.values().map(|asked| asked.load).collect();
        loads.sort_unstable();
        loads.dedup();
        ExperimentReport {
            success: mean(count, self.asked.len() as f64),
            price: mean(price, count),
            delay_s: mean(delay, count),
            quality: mean(worth, units),
            loads: loads.into_iter().map(|load| self.at_load(load)).collect(),
        }
    }

    /// What had become of all requests up to a load.
    fn at_load(&self, load: u32) -> AtLoad {
        let mut at_load = AtLoad { load, ..AtLoad::default() };
        let day = self.day.duration().as_micros() as f64;
        for (name, _) in self.sites.values() {
            at_load.utilization.insert(name.to_string(), 0.0);
        }
        for asked in self.asked.values().filter(|asked| asked.load <= load) {
            let of_user: &mut OfUser = at_load.users.entry(asked.user.clone()).or_default();
            of_user.requests += 1;
            let Some(granted) = &asked.granted else { continue };
            of_user.granted += 1;
            for &(site, units, micros) in &granted.units {
                let Some((name, site)) = self.sites.get(&site) else { continue };
                let part = f64::from(units) * micros as f64 / (f64::from(site.units) * day);
                *at_load.utilization.entry(name.to_string()).or_default() += part;
            }
        }
        at_load
    }
}

impl Experiment {
    fn of(request: &Request) -> Self {
        Self {
            user: request.properties.get("user").unwrap_or_default().to_owned(),
            load: number(&request.properties, "load"),
            earliest: request.earliest,
            links: request.items.iter().map(|item| item.joins().is_some()).collect(),
            granted: None,
        }
    }

    fn granted(&self, day: Term, tickets: &[(u16, Ticket)]) -> Granted {
        let mut granted = Granted { delay: Span::ZERO, price: 0, units: Vec::new() };
        for (item, ticket) in tickets {
            let link = ticket.bottom();
            granted.delay = link.term.start().since(self.earliest);
            granted.price +=
                u64::from(link.clauses.price.unwrap_or(0)) * u64::from(link.units.get());
            if self.links.get(usize::from(*item)) == Some(&false) {
                let micros = overlap(day, link.term.start(), link.term.end());
                granted.units.push((ticket.root().issuer, link.units.get(), micros));
            }
        }
        granted
    }
}

fn number(properties: &Properties, key: &str) -> u32 {
    properties.get(key).and_then(|value| value.parse().ok()).unwrap_or(0)
}
