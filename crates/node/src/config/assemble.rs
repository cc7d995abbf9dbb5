//! From a configuration to actors: keys, seats, journals, drivers.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use erased_serde::Deserializer;
use tenure_config::{ConfigError, PluginSpec};
use tenure_core::actor::{Actor as _, Peer, Peers, Role, Setup};
use tenure_core::broker::Broker;
use tenure_core::broker::quota::{Quota, Whose};
use tenure_core::mapper::registry::{self, MapperError, Registry};
use tenure_core::model::identity::{ActorId, Signer};
use tenure_core::model::name::Name;
use tenure_core::model::time::Span;
use tenure_core::runtime::AnyMapper;
use tenure_core::runtime::hosted::HostedActor;
use tenure_core::runtime::outbox::RetryPolicy;
use tenure_core::service_manager::ServiceManager;
use tenure_core::site_authority::{Plan, SiteAuthority};
use thiserror::Error;

use super::keys::{self, KeyError};
use super::{Config, PeerActor, Site, change, programs};
use crate::adapter::{Adapted, Adapters};
use crate::clock::{Clock, FastClock, WallClock};
use crate::deployment::Deployment;
use crate::driver::{self, Custody, DriverSettingsError};
use crate::host::{ActorBuilder, ActorInfo, CallLimits, Driver, Limits, Part};
use crate::journal::JournalError;
use crate::net::{Listen, LocalActor, NetworkSettings, Remote};

/// The longest pause between two sendings of a message.
const LONGEST_PAUSE: Span = Span::MINUTE;

/// Why a configuration makes no deployment.
#[derive(Debug, Error)]
pub enum AssemblyError {
    /// A mapper or a driver that does not exist, or settings that it does not take.
    #[error(transparent)]
    Config(Box<ConfigError>),
    /// An actor has no key.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// A journal in the data folder cannot be read.
    #[error(transparent)]
    Journal(Box<JournalError>),
    /// A driver cannot work here.
    #[error("{role} `{name}`: {cause}")]
    Driver {
        /// The role of the actor.
        role: Role,
        /// The actor.
        name: Name,
        /// Why not.
        cause: DriverSettingsError,
    },
    /// The data folder cannot be made.
    #[error("the data folder {}: {cause}", .path.display())]
    Folder {
        /// The folder.
        path: PathBuf,
        /// What the system says.
        cause: io::Error,
    },
}

/// The participants, with their secret keys.
pub(super) struct ParticipantKeys {
    /// The folder of the deployment, in whose `keys` they are.
    data: PathBuf,
    signers: BTreeMap<Name, (Role, Signer)>,
    peers: Peers,
}

impl ParticipantKeys {
    fn id(&self, name: &Name) -> Option<ActorId> {
        let own = self.signers.get(name).map(|(_, signer)| signer.id());
        let elsewhere =
            || self.peers.iter().find(|(_, peer)| peer.name == *name).map(|(&id, _)| id);
        own.or_else(elsewhere)
    }
}

impl Config {
    /// Whether every mapper and driver that is named exists and takes its settings, and the programs that
    /// drivers are to run are there. Nothing is made, opened or run; whether a driver can work here is found
    /// out when it is opened.
    ///
    /// # Errors
    /// The first that does not, with its place.
    pub fn check(&self) -> Result<(), AssemblyError> {
        self.admitted_group()?;
        self.check_planners()?;
        for (name, Site { mapper, driver, .. }) in &self.sites {
            let who = (Role::SiteAuthority, name);
            self.check_mapper(mapper, Registry::site_authority, who)?;
            let checked = driver::check_site(&driver.name, &mut settings(driver));
            checked.map_err(|error| self.driver_error(driver, who, error))?;
            programs::check(&self.file, driver, &whose(driver, who))?;
        }
        for (name, broker) in &self.brokers {
            self.check_mapper(&broker.mapper, Registry::broker, (Role::Broker, name))?;
        }
        for (name, manager) in &self.service_managers {
            let who = (Role::ServiceManager, name);
            self.check_mapper(&manager.mapper, Registry::service_manager, who)?;
            for driver in &manager.drivers {
                let checked = driver::check_guest(&driver.name, &mut settings(driver));
                checked.map_err(|error| self.driver_error(driver, who, error))?;
                programs::check(&self.file, driver, &whose(driver, who))?;
            }
        }
        Ok(())
    }

    fn check_mapper<M: ?Sized>(
        &self,
        spec: &PluginSpec,
        maker: Build<M>,
        who: (Role, &Name),
    ) -> Result<(), AssemblyError> {
        build(spec, maker).map(drop).map_err(|cause| self.mapper_error(spec, who, &cause))
    }

    /// Builds every actor. Keys, journals and what drivers remember are kept in the folder `data`, which is
    /// made if it is not there.
    ///
    /// # Errors
    /// The first thing that is missing or wrong; nothing has been started.
    pub fn assemble(&self, data: &Path) -> Result<Deployment, AssemblyError> {
        self.check_planners()?;
        let journals = data.join("journals");
        fs::create_dir_all(&journals)
            .map_err(|cause| AssemblyError::Folder { path: journals.clone(), cause })?;
        let journal = |name: &Name| journals.join(format!("{name}.db"));
        let keys = self.keys(data, |name| keys::signer(&key_of(data, name), &journal(name)))?;
        let before = change::kept(data);
        let mut parts = Vec::new();
        for (name, (role, signer)) in &keys.signers {
            let info = ActorInfo { name: name.clone(), role: *role, id: signer.id() };
            let build = self.started(name, *role, (self.builder(name, &keys)?, before.as_ref()));
            let retry_policy =
                RetryPolicy { first: self.retry, longest: LONGEST_PAUSE.max(self.retry) };
            let journal = journal(name);
            let home = data.join("drivers").join(name.as_str());
            let adapters = (*role == Role::ServiceManager)
                .then(|| Arc::new(Adapters::new(home.join(driver::ADAPTERS))));
            let (driver, custody) = self.driver(name, (&home, adapters.as_ref()))?.unzip();
            let (driver, custody) = (driver.map(Arc::new), custody.flatten());
            let fail_after = self.sites.get(name).and_then(|site| site.fail_after);
            let calls = self.calls(name);
            parts.push(Part {
                info,
                build,
                journal,
                driver,
                adapters,
                calls,
                custody,
                retry_policy,
                fail_after,
            });
        }
        let clock: Arc<dyn Clock> = match self.speed.get() {
            1 => Arc::new(WallClock::new()),
            factor => Arc::new(FastClock::new(factor)),
        };
        let probe_every = Duration::from_micros(self.probe_every.as_micros().unsigned_abs());
        let (snapshot, archive) = (self.snapshot_after.get(), self.archive_after);
        let clock_check = Some(self.clock_check).filter(|pause| pause.is_positive());
        let limits = Limits { snapshot, archive, probe_every, clock_check, ..Limits::default() };
        let processors = || thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
        let (threads, network) =
            (self.threads.unwrap_or_else(processors), Some(self.network(&keys)));
        Ok(Deployment { parts, clock, threads, limits, network })
    }

    /// The limits of the driver of an actor.
    fn calls(&self, name: &Name) -> CallLimits {
        let site = self.sites.get(name).map(|site| site.calls);
        let manager = self.service_managers.get(name).map(|manager| manager.calls);
        site.or(manager).unwrap_or_default()
    }

    /// How actors of other processes are reached; some may come by invitation.
    fn network(&self, keys: &ParticipantKeys) -> NetworkSettings {
        let remote = |(name, peer): (&Name, &PeerActor)| Remote {
            id: peer.id,
            name: name.clone(),
            role: peer.role,
            address: peer.address.clone(),
        };
        let local = |(name, (role, signer)): (&Name, &(Role, Signer))| LocalActor {
            name: name.clone(),
            role: *role,
            signer: signer.clone(),
        };
        NetworkSettings {
            listen: self.listen.map(Listen::At),
            public: self.public.clone(),
            relays: usize::from(self.relays),
            actors: keys.signers.iter().map(local).collect(),
            remotes: self.peers.iter().map(remote).collect(),
        }
    }

    /// As `build`, with the settings that the actor is started with and those it had before, so that it
    /// journals what changed. Of an actor that was not there before nothing has.
    fn started(
        &self,
        name: &Name,
        role: Role,
        (build, before): (ActorBuilder, Option<&Self>),
    ) -> ActorBuilder {
        let is = self.described(name, role);
        let before = before.filter(|before| before.actors().any(|(known, _)| known == name));
        let was = before.map_or_else(|| is.clone(), |before| before.described(name, role));
        Arc::new(move || Ok(build()?.started_with(is.clone(), was.clone())))
    }

    /// What builds each actor, with the keys in the folder `data`. Nothing is made or changed there.
    ///
    /// # Errors
    /// The first key that is missing, or mapper that is wrong.
    pub fn hosted_actors(
        &self,
        data: &Path,
    ) -> Result<Vec<(ActorInfo, ActorBuilder)>, AssemblyError> {
        let keys = self.keys(data, |name| keys::existing(&key_of(data, name)))?;
        let hosted_actors = keys.signers.iter().map(|(name, (role, signer))| {
            let info = ActorInfo { name: name.clone(), role: *role, id: signer.id() };
            Ok((info, self.builder(name, &keys)?))
        });
        hosted_actors.collect()
    }

    fn keys(
        &self,
        data: &Path,
        key: impl Fn(&Name) -> Result<Signer, KeyError>,
    ) -> Result<ParticipantKeys, KeyError> {
        self.roll_of(data, |name| key(name).map(Some))
    }

    /// Those who have a key already.
    pub(super) fn known(&self, data: &Path) -> Result<ParticipantKeys, KeyError> {
        self.roll_of(data, |name| {
            let path = key_of(data, name);
            path.exists().then(|| keys::existing(&path)).transpose()
        })
    }

    fn roll_of(
        &self,
        data: &Path,
        key: impl Fn(&Name) -> Result<Option<Signer>, KeyError>,
    ) -> Result<ParticipantKeys, KeyError> {
        let remote = |(name, peer): (&Name, &PeerActor)| {
            (peer.id, Peer { name: name.clone(), role: peer.role })
        };
        let mut peers: BTreeMap<ActorId, Peer> = self.peers.iter().map(remote).collect();
        let mut signers = BTreeMap::new();
        for (name, role) in self.actors() {
            let Some(signer) = key(name)? else { continue };
            peers.insert(signer.id(), Peer { name: name.clone(), role });
            signers.insert(name.clone(), (role, signer));
        }
        Ok(ParticipantKeys { data: data.to_owned(), signers, peers: peers.into() })
    }

    /// All actors with their roles.
    pub(super) fn actors(&self) -> impl Iterator<Item = (&Name, Role)> {
        let sites = self.sites.keys().map(|name| (name, Role::SiteAuthority));
        let brokers = self.brokers.keys().map(|name| (name, Role::Broker));
        let managers = self.service_managers.keys().map(|name| (name, Role::ServiceManager));
        sites.chain(brokers).chain(managers)
    }

    /// Whether there is such an actor.
    pub(crate) fn has(&self, role: Role, name: &Name) -> bool {
        self.actors().any(|actor| actor == (name, role))
    }

    /// A mapper as it is configured for an actor.
    pub(crate) fn mapper_of(&self, role: Role, name: &Name) -> Result<AnyMapper, MapperError> {
        Ok(match role {
            Role::SiteAuthority => {
                AnyMapper::SiteAuthority(build(&self.sites[name].mapper, Registry::site_authority)?)
            }
            Role::Broker => AnyMapper::Broker(build(&self.brokers[name].mapper, Registry::broker)?),
            Role::ServiceManager => {
                let spec = &self.service_managers[name].mapper;
                AnyMapper::ServiceManager(build(spec, Registry::service_manager)?)
            }
        })
    }

    /// What builds an actor, tried once so that an error of its mapper names its place.
    pub(super) fn builder(
        &self,
        name: &Name,
        keys: &ParticipantKeys,
    ) -> Result<ActorBuilder, AssemblyError> {
        let (role, signer) = &keys.signers[name];
        let setup = Setup {
            name: name.clone(),
            signer: signer.clone(),
            margin: self.margin,
            peers: self.peers_of(name, keys),
        };
        let (spec, maker): (_, ActorBuilder) = match role {
            Role::SiteAuthority => {
                let site = self.sites[name].clone();
                let (spec, plan) = (site.mapper.clone(), plan(&site, keys));
                let maker = move || {
                    let mapper = build(&site.mapper, Registry::site_authority)?;
                    let actor = SiteAuthority::new(setup.clone(), plan.clone());
                    Ok(HostedActor::site_authority(actor, mapper))
                };
                (spec, Arc::new(maker))
            }
            Role::Broker => {
                let spec = self.brokers[name].mapper.clone();
                let quotas = quotas(&self.brokers[name], keys);
                let prices = self.brokers[name].prices.clone();
                let disclosures = self.brokers[name].disclosures.clone();
                let sharings = by_id(&self.brokers[name].peers.sharings, keys);
                let neighbours = by_id(&self.brokers[name].peers.neighbours, keys);
                let super::Broker { reach, search, hold, advertise, pauses, .. } =
                    self.brokers[name];
                let mapper = spec.clone();
                let maker = move || {
                    let mapper = build(&mapper, Registry::broker)?;
                    let actor = Broker::new(setup.clone()).with_quotas(quotas.clone());
                    let actor = actor.with_prices(prices.clone());
                    let actor = actor.with_disclosures(disclosures.clone());
                    let actor = actor.with_sharings(sharings.clone());
                    let actor = actor.with_neighbours(neighbours.clone(), reach);
                    let actor = actor.with_search(search).with_adverts(Some(advertise));
                    let actor = actor.with_pauses(pauses).with_hold(hold);
                    let actor = actor.with_swing(mapper.swing());
                    Ok(HostedActor::broker(actor, mapper))
                };
                (spec, Arc::new(maker))
            }
            Role::ServiceManager => {
                let manager = self.service_managers[name].clone();
                let spec = manager.mapper.clone();
                let maker = move || {
                    let mapper = build(&manager.mapper, Registry::service_manager)?;
                    let actor = ServiceManager::new(setup.clone(), manager.leave_before)
                        .settling(manager.ambiguous);
                    Ok(HostedActor::service_manager(actor, mapper))
                };
                (spec, Arc::new(maker))
            }
        };
        maker().map_err(|cause| self.mapper_error(&spec, (*role, name), &cause))?;
        let first = key_of(&keys.data, name);
        // Read at each start: a key may have been replaced since the last.
        Ok(Arc::new(move || {
            let mut hosted = maker()?;
            hosted.actor_mut().add_secrets(keys::later_secrets(&first));
            Ok(hosted)
        }))
    }

    /// A service manager knows the brokers that it may ask; all other actors know each other.
    fn peers_of(&self, name: &Name, keys: &ParticipantKeys) -> Peers {
        let Some(manager) = self.service_managers.get(name) else { return keys.peers.clone() };
        let asked = |peer: &Peer| manager.brokers.contains(&peer.name);
        keys.peers.only(|_, peer| peer.role != Role::Broker || asked(peer))
    }

    /// The driver of an actor that has one; a site's with what says whose its units are, a guest's behind the
    /// adapters of its services.
    fn driver(
        &self,
        name: &Name,
        (home, adapters): (&Path, Option<&Arc<Adapters>>),
    ) -> Result<Option<(Driver, Option<Custody>)>, AssemblyError> {
        if let Some(site) = self.sites.get(name) {
            let spec = &site.driver;
            let refused = |error| self.driver_error(spec, (Role::SiteAuthority, name), error);
            let (driver, custody) =
                driver::site_in_custody(&spec.name, home, &mut settings(spec)).map_err(refused)?;
            return Ok(Some((Driver::Site(driver), Some(custody))));
        }
        let Some(manager) = self.service_managers.get(name) else { return Ok(None) };
        let specs = &manager.drivers;
        let mut settings: Vec<_> = specs.iter().map(settings).collect();
        let named = specs.iter().zip(&mut settings);
        let named =
            named.map(|(spec, settings)| (&*spec.name, settings as registry::Settings<'_, '_>));
        let who = (Role::ServiceManager, name);
        let built = driver::guests(home, named.collect());
        let driver = built.map_err(|(nth, error)| self.driver_error(&specs[nth], who, error))?;
        let Some(adapters) = adapters else { return Ok(Some((Driver::Guest(driver), None))) };
        let adapted = Adapted::open(driver, Arc::clone(adapters)).map_err(|cause| {
            let cause = DriverSettingsError::Folder { cause };
            AssemblyError::Driver { role: who.0, name: name.clone(), cause }
        })?;
        Ok(Some((Driver::Guest(Box::new(adapted)), None)))
    }

    fn driver_error(
        &self,
        spec: &PluginSpec,
        (role, actor): (Role, &Name),
        error: DriverSettingsError,
    ) -> AssemblyError {
        match error {
            DriverSettingsError::Unknown { side, name, known } => {
                let what = format!("{side} driver");
                AssemblyError::from(spec.unknown(&self.file, &what, &name, known))
            }
            DriverSettingsError::Settings { cause, .. } => {
                let whose = whose(spec, (role, actor));
                AssemblyError::from(spec.bad_settings(&self.file, &whose, &cause.to_string()))
            }
            cause @ (DriverSettingsError::Open { .. }
            | DriverSettingsError::Folder { .. }
            | DriverSettingsError::Custody(_)
            | DriverSettingsError::Unlisted { .. }) => {
                AssemblyError::Driver { role, name: actor.clone(), cause }
            }
        }
    }

    fn mapper_error(
        &self,
        spec: &PluginSpec,
        (role, actor): (Role, &Name),
        cause: &MapperError,
    ) -> AssemblyError {
        AssemblyError::from(match cause {
            MapperError::Unknown { role, name, known } => {
                spec.unknown(&self.file, &format!("{role} mapper"), name, known.iter().copied())
            }
            MapperError::Settings { name, cause } => {
                let whose = format!("mapper `{name}` of the {role} `{actor}`");
                spec.bad_settings(&self.file, &whose, &cause.to_string())
            }
        })
    }
}

impl From<JournalError> for AssemblyError {
    fn from(error: JournalError) -> Self {
        Self::Journal(Box::new(error))
    }
}

/// Where the key of an actor is.
pub(crate) fn key_of(data: &Path, name: &Name) -> PathBuf {
    data.join("keys").join(name.as_str())
}

impl From<ConfigError> for AssemblyError {
    fn from(error: ConfigError) -> Self {
        Self::Config(Box::new(error))
    }
}

/// Which driver of whom.
fn whose(driver: &PluginSpec, (role, actor): (Role, &Name)) -> String {
    format!("driver `{}` of the {role} `{actor}`", driver.name)
}

/// The configured quotas.
fn quotas(broker: &super::Broker, keys: &ParticipantKeys) -> BTreeMap<Whose, Quota> {
    let quota = |(name, &quota): (&Option<Name>, &Quota)| match name {
        Some(name) => Some((Some(keys.id(name)?), quota)),
        None => Some((None, quota)),
    };
    broker.quotas.iter().filter_map(quota).collect()
}

/// What is said of actors, by their ids.
fn by_id<T: Clone>(named: &BTreeMap<Name, T>, keys: &ParticipantKeys) -> BTreeMap<ActorId, T> {
    named.iter().filter_map(|(name, what)| Some((keys.id(name)?, what.clone()))).collect()
}

/// What a site has and delegates.
fn plan(site: &Site, keys: &ParticipantKeys) -> Plan {
    let half = |length: Span| Span::from_micros(length.as_micros() / 2);
    let plan = tenure_config::plan(&site.stocks, &site.stacks, half, |broker| keys.id(broker));
    Plan { quarantine_after: site.quarantine_after, ..plan }
}

type Build<M> = fn(&Registry, &str, registry::Settings<'_, '_>) -> Result<Box<M>, MapperError>;

fn build<M: ?Sized>(spec: &PluginSpec, build: Build<M>) -> Result<Box<M>, MapperError> {
    build(&Registry::default(), &spec.name, &mut settings(spec))
}

/// The settings of a plug-in, for it to read.
fn settings(spec: &PluginSpec) -> impl Deserializer<'static> {
    <dyn Deserializer<'_>>::erase(toml::Value::Table(spec.settings.clone()))
}
