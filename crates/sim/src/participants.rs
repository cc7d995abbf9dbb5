//! The participants of an emulation: the actors that a scenario names, with mappers and drivers. Public, so
//! that another shell can play the same scenario.

use std::collections::BTreeMap;
use std::fmt;
use std::num::NonZeroU32;
use std::sync::Arc;

use tenure_config::{BrokerPeers, PluginSpec};
use tenure_core::actor::effect::DriverResult;
use tenure_core::actor::{Peer, Peers, Role, Setup};
use tenure_core::broker::Broker;
use tenure_core::broker::mapper::BrokerMapper;
use tenure_core::driver::{Answer, Call, GuestDriver, ResourceDriver};
use tenure_core::mapper::registry::{self, MapperError, Registry};
use tenure_core::model::identity::{ActorId, Signer};
use tenure_core::model::name::Name;
use tenure_core::model::time::Span;
use tenure_core::runtime::host::Host;
use tenure_core::runtime::hosted::HostedActor;
use tenure_core::runtime::journal::JournalDigest;
use tenure_core::runtime::outbox::RetryPolicy;
use tenure_core::runtime::{AnyMapper, Decision};
use tenure_core::service_manager::ServiceManager;
use tenure_core::site_authority::{Plan, SiteAuthority};
use tenure_core::wire::message::{Sealed, Sequence};

use crate::driver::NullDriver;
use crate::fork::Script;
use crate::random::Chance;
use crate::scenario::{self, Scenario};
use crate::service::Models;
use crate::users::Users;

/// The mappers and drivers that a run is given. The default has the mappers that come with Tenure, and
/// drivers that do nothing but take the time that the scenario states.
#[derive(Clone, Default)]
pub struct Plugins {
    /// The mappers that a scenario can name.
    pub mappers: Registry,
    /// Drivers in place of those that only take time.
    pub drivers: Option<ChooseDriver>,
    /// Put around the mapper of each broker: to measure it, for example.
    pub around_brokers: Option<AroundBroker>,
}

/// Gives a mapper that decides as another does.
pub type AroundBroker = Arc<dyn Fn(Box<dyn BrokerMapper>) -> Box<dyn BrokerMapper> + Send + Sync>;

/// Gives the driver of a site authority or service manager; `None` for the one that only takes time.
pub type ChooseDriver = Arc<dyn Fn(&Name, Role) -> Option<Driver> + Send + Sync>;

impl Plugins {
    fn driver(&self, name: &Name, role: Role) -> Option<Driver> {
        self.drivers.as_ref()?(name, role)
    }
}

impl fmt::Debug for Plugins {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { mappers, drivers, around_brokers } = self;
        let drivers = drivers.as_ref().map(|_| "chosen by the caller");
        let around_brokers = around_brokers.as_ref().map(|_| "given by the caller");
        f.debug_struct("Plugins")
            .field("mappers", mappers)
            .field("drivers", &drivers)
            .field("around_brokers", &around_brokers)
            .finish()
    }
}

/// One participant, before anything has happened to it.
pub struct Part {
    /// Its name.
    pub name: Name,
    /// Its id.
    pub id: ActorId,
    /// The actor with its mapper.
    pub hosted: HostedActor,
    /// Its driver; a broker has none.
    pub driver: Option<Driver>,
    /// How long its mapper takes to decide.
    pub mapper_delay: Span,
    /// How it repeats messages.
    pub retry_policy: RetryPolicy,
}

/// One participant with all that the emulator keeps for it.
pub(crate) struct Member {
    pub(crate) name: Name,
    pub(crate) id: ActorId,
    pub(crate) host: Host,
    pub(crate) mapper: AnyMapper,
    /// How long the mapper takes to decide.
    pub(crate) mapper_delay: Span,
    pub(crate) journal: JournalDigest,
    pub(crate) driver: Option<Driver>,
    /// What a service manager needs, one value a step.
    pub(crate) demand: Vec<u32>,
    /// Its recorded external inputs.
    pub(crate) script: Script,
    /// The software of its services.
    pub(crate) models: Models,
    /// Those who ask it for units.
    pub(crate) users: Users,
    /// What arrives in the round to come.
    pub(crate) inbox: Inbox,
}

impl From<Part> for Member {
    fn from(Part { name, id, hosted, driver, mapper_delay, retry_policy }: Part) -> Self {
        let (actor, mapper) = hosted.into_parts();
        Self {
            name,
            id,
            host: Host::new(actor, retry_policy),
            mapper,
            mapper_delay,
            journal: JournalDigest::default(),
            driver,
            demand: Vec::new(),
            script: Script::default(),
            models: Models::default(),
            users: Users::default(),
            inbox: Inbox::default(),
        }
    }
}

/// The driver of an actor that has one.
pub enum Driver {
    /// A site's.
    Site(Box<dyn ResourceDriver>),
    /// A guest's.
    Guest(Box<dyn GuestDriver>),
}

impl Driver {
    pub(crate) fn perform(&self, call: &Call) -> Answer {
        match self {
            Self::Site(driver) => driver.perform(call),
            Self::Guest(driver) => driver.call(call),
        }
    }
}

/// What waits to be handed in.
#[derive(Default)]
pub(crate) struct Inbox {
    pub(crate) answers: Vec<DriverResult>,
    pub(crate) messages: Vec<(ActorId, Sequence, Sealed)>,
    /// What a mapper decided that takes its time. There is one round at a time.
    pub(crate) decision: Option<Decision>,
}

/// The longest pause between two sendings of a message.
const LONGEST_PAUSE: Span = Span::MINUTE;

/// Builds every actor of the scenario, in the order of their names.
///
/// # Errors
/// The first mapper that does not exist or does not take its settings, with the actor whose it is.
pub fn assemble(
    scenario: &Scenario,
    plugins: &Plugins,
) -> Result<Vec<Part>, (Role, Name, MapperError)> {
    let chance = Chance::new(scenario.seed);
    let names = roster(scenario);
    let signers: BTreeMap<_, _> = names
        .iter()
        .map(|(name, role)| {
            let secret = chance.secret(&format!("{role:?} {name}"));
            ((*role, name.clone()), Signer::from_seed(scenario.signatures, secret))
        })
        .collect();
    let peers: Peers = signers
        .iter()
        .map(|((role, name), signer)| (signer.id(), Peer { name: name.clone(), role: *role }))
        .collect();
    let id_of = |role: Role, name: &Name| signers.get(&(role, name.clone())).map(Signer::id);
    // A service manager of an emulation asks one broker; it knows no other.
    let mut of_broker: BTreeMap<Option<ActorId>, Peers> = BTreeMap::new();
    let mut parts = Vec::new();
    for (index, (name, role)) in names.iter().enumerate() {
        let manager = scenario.service_managers.get(name);
        let known = match manager.filter(|_| *role == Role::ServiceManager) {
            // Users name the broker that they ask.
            Some(manager) if !manager.has_users() => {
                let broker = id_of(Role::Broker, &manager.broker);
                let only = |id, peer: &Peer| peer.role != Role::Broker || Some(id) == broker;
                of_broker.entry(broker).or_insert_with(|| peers.only(only)).clone()
            }
            Some(_) | None => peers.clone(),
        };
        let signer = signers[&(*role, name.clone())].clone();
        let setup = Setup {
            name: name.clone(),
            signer: signer.clone(),
            margin: scenario.margin,
            peers: known,
        };
        let (hosted, driver) =
            participants((scenario, plugins), (name, *role), setup, (chance, index), &id_of)?;
        let retry_policy = RetryPolicy {
            first: scenario.network.retry,
            longest: LONGEST_PAUSE.max(scenario.network.retry),
        };
        let mapper_delay = match role {
            Role::SiteAuthority => scenario.sites[name].mapper_delay,
            Role::Broker => scenario.brokers[name].mapper_delay,
            Role::ServiceManager => scenario.service_managers[name].mapper_delay,
        };
        let (name, id) = (name.clone(), signer.id());
        parts.push(Part { name, id, hosted, driver, mapper_delay, retry_policy });
    }
    Ok(parts)
}

/// All actors, in the order of their names: so they are numbered.
pub(crate) fn roster(scenario: &Scenario) -> Vec<(Name, Role)> {
    let sites = scenario.sites.keys().map(|name| (name.clone(), Role::SiteAuthority));
    let brokers = scenario.brokers.keys().map(|name| (name.clone(), Role::Broker));
    let managers =
        scenario.service_managers.keys().map(|name| (name.clone(), Role::ServiceManager));
    let mut names: Vec<_> = sites.chain(brokers).chain(managers).collect();
    names.sort();
    names
}

fn participants(
    (scenario, plugins): (&Scenario, &Plugins),
    (name, role): (&Name, Role),
    setup: Setup,
    (chance, index): (Chance, usize),
    id_of: &impl Fn(Role, &Name) -> Option<ActorId>,
) -> Result<(HostedActor, Option<Driver>), (Role, Name, MapperError)> {
    Ok(match role {
        Role::SiteAuthority => {
            let site = &scenario.sites[name];
            let failed = |error| (Role::SiteAuthority, name.clone(), error);
            let mapper =
                build(&plugins.mappers, &site.mapper, toml::Table::new(), Registry::site_authority);
            let mapper = mapper.map_err(failed)?;
            let actor = SiteAuthority::new(setup, plan(scenario, site, id_of));
            let driver = plugins.driver(name, role).unwrap_or_else(|| {
                let null =
                    NullDriver::new(chance, index, &site.setup, &site.teardown, site.failure);
                Driver::Site(Box::new(null))
            });
            (HostedActor::site_authority(actor, mapper), Some(driver))
        }
        Role::Broker => {
            let failed = |error| (Role::Broker, name.clone(), error);
            let spec = &scenario.brokers[name].mapper;
            let mapper = build(&plugins.mappers, spec, toml::Table::new(), Registry::broker);
            let mapper = mapper.map_err(failed)?;
            let mapper = match &plugins.around_brokers {
                Some(around) => around(mapper),
                None => mapper,
            };
            let quotas = scenario.brokers[name].quotas.iter();
            let guest = |name: &Name| id_of(Role::ServiceManager, name);
            let quotas = quotas.map(|(name, &quota)| (name.as_ref().and_then(guest), quota));
            let actor = Broker::new(setup).with_quotas(quotas.collect());
            let actor = actor.with_prices(scenario.brokers[name].prices.clone());
            let actor = actor.with_swing(mapper.swing());
            let actor = with_peers(actor, (name, scenario), id_of);
            (HostedActor::broker(actor, mapper), None)
        }
        Role::ServiceManager => {
            let manager = &scenario.service_managers[name];
            let failed = |error| (Role::ServiceManager, name.clone(), error);
            let defaults = mapper_defaults(scenario, manager);
            let mapper =
                build(&plugins.mappers, &manager.mapper, defaults, Registry::service_manager);
            let mapper = mapper.map_err(failed)?;
            let actor = ServiceManager::new(setup, manager.leave_before);
            let driver = plugins.driver(name, role).unwrap_or_else(|| {
                let null = NullDriver::new(chance, index, &manager.join, &manager.leave, 0.0);
                Driver::Guest(Box::new(null))
            });
            (HostedActor::service_manager(actor, mapper), Some(driver))
        }
    })
}

/// The same broker, with what it does for others.
fn with_peers(
    actor: Broker,
    (name, scenario): (&Name, &Scenario),
    id_of: &impl Fn(Role, &Name) -> Option<ActorId>,
) -> Broker {
    let broker = &scenario.brokers[name];
    let id = |name: &Name| id_of(Role::Broker, name);
    let BrokerPeers { sharings, neighbours } = &broker.peers;
    let actor = actor.with_pauses(broker.pauses);
    let sharings = sharings.iter().filter_map(|(name, sharing)| Some((id(name)?, *sharing)));
    let actor = actor.with_sharings(sharings.collect());
    // An advert that nobody heeds costs time only.
    if neighbours.is_empty() && !scenario.brokers.values().any(|of| of.pauses) {
        return actor;
    }
    let neighbours = neighbours.iter().filter_map(|(name, other)| Some((id(name)?, other.clone())));
    let actor = actor.with_neighbours(neighbours.collect(), broker.reach);
    let actor = actor.with_search(broker.search).with_hold(broker.hold);
    actor.with_adverts(Some(broker.advertise))
}

/// What a site has and delegates.
fn plan(
    scenario: &Scenario,
    site: &scenario::Site,
    id_of: &impl Fn(Role, &Name) -> Option<ActorId>,
) -> Plan {
    let two_terms = scenario.term.times(2);
    let renew_before = |length| two_terms.min(length);
    let broker_id = |broker: &Name| id_of(Role::Broker, broker);
    let plan = tenure_config::plan(&site.stocks, &site.stacks, renew_before, broker_id);
    Plan { quarantine_after: NonZeroU32::new(site.quarantine_after), ..plan }
}

/// What the scenario says once for all mappers, where the mapper takes it.
fn mapper_defaults(scenario: &Scenario, manager: &scenario::ServiceManager) -> toml::Table {
    let mut defaults = toml::Table::new();
    let mut set = |key: &str, text: String| drop(defaults.insert(key.to_owned(), text.into()));
    if manager.mapper.name == "adaptive" {
        set("term", scenario.term.to_string());
    }
    // Each SLO of a service names its type.
    let asks = manager.mapper.name == "adaptive" || manager.has_jobs() || manager.has_experiments();
    if asks && manager.services.is_empty() {
        set("resource", manager.resource.to_string());
    }
    defaults
}

type Build<M> = fn(&Registry, &str, registry::Settings<'_, '_>) -> Result<Box<M>, MapperError>;

fn build<M: ?Sized>(
    mappers: &Registry,
    spec: &PluginSpec,
    mut settings: toml::Table,
    build: Build<M>,
) -> Result<Box<M>, MapperError> {
    settings.extend(spec.settings.clone());
    let mut settings = <dyn erased_serde::Deserializer<'_>>::erase(toml::Value::Table(settings));
    build(mappers, &spec.name, &mut settings)
}
