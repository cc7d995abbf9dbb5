//! The cast of a simulation: every actor of its setting, built and with its clock set.

use std::collections::BTreeMap;
use std::num::NonZeroU32;

use tenure_core::actor::{Peer, Peers, Role, Setup};
use tenure_core::broker::Broker;
use tenure_core::broker::mapper::BrokerMapper;
use tenure_core::mapper::deploy::Deploy;
use tenure_core::mapper::fcfs::Fcfs;
use tenure_core::mapper::first_fit::FirstFit;
use tenure_core::mapper::registry::Registry;
use tenure_core::model::identity::{ActorId, Signer};
use tenure_core::model::name::Name;
use tenure_core::model::resource::Attributes;
use tenure_core::model::time::Span;
use tenure_core::runtime::hosted::HostedActor;
use tenure_core::service_manager::ServiceManager;
use tenure_core::service_manager::mapper::ServiceManagerMapper;
use tenure_core::site_authority::{Offer, Plan, SiteAuthority, Stock};

use super::clock::Clock;
use super::keys;
use super::participant::{Participant, ParticipantSpec};
use super::plans::CATALOGUE;
use super::services::{PlannerAndFollower, mover};
use super::setting::{self, MOVER, Setting, stacked_name};
use crate::driver::NullDriver;
use crate::random::Chance;

/// A guest's mapper, which plans packages and wants nothing else: leases come by commands.
fn planner() -> Box<dyn ServiceManagerMapper> {
    let settings: toml::Table = CATALOGUE.parse().unwrap_or_default();
    let mut settings = <dyn erased_serde::Deserializer<'_>>::erase(toml::Value::Table(settings));
    let planner = Registry::default().service_manager("deploy", &mut settings);
    planner.unwrap_or_else(|_| Box::new(Deploy::default()))
}

/// The broker's mapper of that name.
fn mapper(name: &str, placement: &str) -> Box<dyn BrokerMapper> {
    let settings = toml::Table::from_iter([("placement".to_owned(), placement.into())]);
    let mut settings = <dyn erased_serde::Deserializer<'_>>::erase(toml::Value::Table(settings));
    Registry::default().broker(name, &mut settings).unwrap_or_else(|_| Box::new(Fcfs::default()))
}

/// That of a guest, which may have services beside plans.
fn of_guest(services: bool) -> Box<dyn ServiceManagerMapper> {
    if !services {
        return planner();
    }
    Box::new(PlannerAndFollower::of(planner(), &Name::literal("broker-1")))
}

/// That of a broker.
fn of_broker(broker: &setting::Broker, term: Span) -> Box<dyn BrokerMapper> {
    match broker.mapper {
        MOVER => mover(term),
        other => mapper(other, broker.placement),
    }
}

/// Builds all participants: sites first, then brokers, then guests.
#[allow(clippy::too_many_lines, reason = "a few lines for each role")]
pub(super) fn assemble(setting: &Setting, chance: Chance) -> Vec<Participant> {
    let roster = roster(setting);
    let signer = |name: &Name| Signer::from_seed(setting.scheme, chance.secret(name.as_str()));
    let all_peers: Peers = roster
        .iter()
        .map(|(name, role, _, _)| (signer(name).id(), Peer { name: name.clone(), role: *role }))
        .collect();
    let strangers: Vec<[ActorId; 2]> = setting
        .strangers
        .iter()
        .map(|&(site, guest)| [name("site", site), name("guest", guest)].map(|n| signer(&n).id()))
        .collect();
    let broker_id = |place: usize| signer(&name("broker", place)).id();
    let participants =
        roster.into_iter().enumerate().map(|(index, (name, role, place, honest))| {
            let (signer, setup_name) = (signer(&name), name.clone());
            let own = signer.id();
            let knows = |peer: ActorId| {
                !strangers.contains(&[own, peer]) && !strangers.contains(&[peer, own])
            };
            let peers = all_peers.iter().filter(|(peer, _)| knows(**peer));
            let peers = peers.map(|(peer, known)| (*peer, known.clone())).collect();
            let setup =
                Setup { name: name.clone(), signer: signer.clone(), margin: setting.margin, peers };
            let driver = |begin, end| Some(NullDriver::new(chance, index, begin, end, 0.0));
            let (build, driver): (Box<dyn Fn() -> HostedActor>, _) = match role {
                Role::SiteAuthority => {
                    let plan = plan(setting, place, &broker_id);
                    let build = move || {
                        let actor = SiteAuthority::new(setup.clone(), plan.clone());
                        HostedActor::site_authority(actor, Box::new(FirstFit {}))
                    };
                    (Box::new(build), driver(&setting.setup, &setting.teardown))
                }
                Role::Broker => {
                    let (broker, term) = (setting.brokers[place].clone(), setting.term);
                    let adverts = setting.adverts;
                    let pauses = setting.pauses && adverts.is_some();
                    let build = move || {
                        let mapper = of_broker(&broker, term);
                        let actor = Broker::new(setup.clone()).with_swing(mapper.swing());
                        let actor = actor.with_adverts(adverts).with_pauses(pauses);
                        HostedActor::broker(actor, mapper)
                    };
                    (Box::new(build), None)
                }
                Role::ServiceManager => {
                    let leave_before = setting.guests[place].leave_before;
                    let services = setting.services;
                    let build = move || {
                        let actor = ServiceManager::new(setup.clone(), leave_before);
                        HostedActor::service_manager(actor, of_guest(services))
                    };
                    (Box::new(build), driver(&setting.join, &setting.leave))
                }
            };
            let (retry_policy, clock) = (setting.retry_policy, Clock::new(Span::ZERO));
            let clock_check = setting.clock_check;
            Participant::new(ParticipantSpec {
                name,
                honest,
                secrets: keys::secrets(setting.scheme, chance, &setup_name),
                signer,
                retry_policy,
                clock_check,
                driver,
                clock,
                build,
            })
        });
    participants.collect()
}

/// Name, role, place among those of its role, and honesty of each participant.
fn roster(setting: &Setting) -> Vec<(Name, Role, usize, bool)> {
    let sites = (0..setting.sites.len())
        .map(|place| (name("site", place), Role::SiteAuthority, place, true));
    let brokers = setting.brokers.iter().enumerate();
    let brokers =
        brokers.map(|(place, broker)| (name("broker", place), Role::Broker, place, broker.honest));
    let guests = setting.guests.iter().enumerate();
    let guests = guests
        .map(|(place, guest)| (name("guest", place), Role::ServiceManager, place, guest.honest));
    sites.chain(brokers).chain(guests).collect()
}

fn name(kind: &'static str, place: usize) -> Name {
    Name::new(&format!("{kind}-{}", place + 1)).unwrap_or_else(|_| Name::literal(kind))
}

/// So many units with names.
fn named(resource: &Name, units: u32) -> BTreeMap<Name, Attributes> {
    let names = (0..units).filter_map(|nth| stacked_name(resource, nth));
    names.map(|name| (name, Attributes::new())).collect()
}

/// What a site has and delegates.
fn plan(setting: &Setting, place: usize, broker_id: &impl Fn(usize) -> ActorId) -> Plan {
    let site = &setting.sites[place];
    let stock = site.stock.iter().map(|(resource, attributes, units)| Stock {
        resource: resource.clone(),
        attributes: attributes.clone(),
        units: *units,
        named: named(resource, if site.stacks.is_empty() { 0 } else { *units }),
    });
    let offers = site.offers.iter().map(|(broker, resource, units)| Offer {
        broker: broker_id(*broker),
        resource: resource.clone(),
        unit: None,
        units: *units,
        length: setting.delegation,
        renew_before: setting.renew_before,
    });
    Plan {
        stock: stock.collect(),
        stacks: site.stacks.clone(),
        offers: offers.collect(),
        quarantine_after: NonZeroU32::new(setting.quarantine_after),
    }
}
