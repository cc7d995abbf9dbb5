//! The configuration of a live deployment: which actors this process runs, and with what.
//!
//! The keys are those of a scenario. Errors name their place in the file.

mod assemble;
mod calls;
mod change;
pub mod explain;
mod file;
pub(crate) mod keys;
mod programs;
mod planners;
mod services;
mod socket_group;

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::num::{NonZeroU32, NonZeroU64, NonZeroUsize};
use std::path::PathBuf;

use tenure_config::{
    BrokerPeers, ConfigError, Files, OnSilence, Override, Place, PluginSpec, Profiles, RawPlugin,
    RawPlugins, RawPoint, Source, Sources, Stock, StockReader, Wrong, by_actor, named_brokers,
};
use tenure_core::actor::Role;
use tenure_core::broker::availability::Disclosures;
use tenure_core::broker::forwarding::{Reach, Search};
use tenure_core::broker::quota::Quota;
use tenure_core::model::identity::ActorId;
use tenure_core::model::name::Name;
use tenure_core::model::time::Span;
use tenure_core::service::definition::Definition;
use tenure_core::service_manager::ambiguity::Rule;
use tenure_core::site_authority::Stacks;
use tenure_core::wire::invitation::can_be_dialled;
use toml::Spanned;

use crate::host::CallLimits;

pub use assemble::AssemblyError;
pub(crate) use assemble::key_of;
pub(crate) use change::units_of;
pub use change::{Conflict, KEPT};
pub use keys::{KeyError, new_key};
pub(crate) use planners::is_among;
pub(crate) use services::{FOLLOWER, follows_slos};

/// A deployment as its file has it, with every default filled in.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// The name of the file.
    pub file: String,
    /// The files on disk, if there are any: they may change while the deployment runs.
    pub paths: Vec<PathBuf>,
    /// What options of the command line have set.
    pub overrides: Vec<Override>,
    /// The configuration as TOML, with what options have set.
    pub text: String,
    /// The bound on the difference of two actors' clocks.
    pub margin: Span,
    /// How long a sender waits before it sends a message for the second time.
    pub retry: Span,
    /// How much faster than the wall's the clock of the deployment runs.
    pub speed: NonZeroU32,
    /// On how many threads its actors work; without it, on as many as there are processors.
    pub threads: Option<NonZeroUsize>,
    /// After how many facts each actor's state is kept, so that a start folds about as many at most.
    pub snapshot_after: NonZeroU64,
    /// How many facts before its oldest snapshot an actor moves to its archive together; none ever, without it.
    pub archive_after: Option<NonZeroU64>,
    /// How often each live unit is probed, by the wall's clock at any speed.
    pub probe_every: Span,
    /// How often actors ask their peers what their clocks show; never, if it is zero.
    pub clock_check: Span,
    /// The sites.
    pub sites: BTreeMap<Name, Site>,
    /// The brokers.
    pub brokers: BTreeMap<Name, Broker>,
    /// The service managers.
    pub service_managers: BTreeMap<Name, ServiceManager>,
    /// What users of this process ask for by a name.
    pub profiles: Profiles,
    /// Where figures are served to Prometheus, on loopback.
    pub metrics: Option<SocketAddr>,
    /// The group that may use the control API, beside the owner of the data folder and root.
    pub socket_group: Option<String>,
    /// Where actors of other processes dial.
    pub listen: Option<SocketAddr>,
    /// Where they dial, as `host:port`, if that is not the same.
    pub public: Option<String>,
    /// For each peer with actors that cannot be dialled, how many connections with them are relayed at a time.
    pub relays: u16,
    /// The actors of other processes.
    pub peers: BTreeMap<Name, PeerActor>,
    /// Where keys are written that a change may be refused for.
    places: BTreeMap<String, Place>,
}

/// An actor of another process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerActor {
    /// What it is for.
    pub role: Role,
    /// Who it is.
    pub id: ActorId,
    /// Where it is dialled; without it, it dials.
    pub address: Option<String>,
}

/// A site: units, lent to brokers.
#[derive(Clone, Debug, PartialEq)]
pub struct Site {
    /// What it has, by type.
    pub stocks: BTreeMap<Name, Stock>,
    /// Units that are lent to one holder at a time.
    pub stacks: Stacks,
    /// In how many tenancies in a row a unit may fail before it is taken out of use.
    pub quarantine_after: Option<NonZeroU32>,
    /// After how many probes in a row that find it down a unit on a lease has failed.
    pub fail_after: Option<NonZeroU32>,
    /// Sets units up and cleans them.
    pub driver: PluginSpec,
    /// How much that is asked to do at a time, and how long it may take.
    pub calls: CallLimits,
    /// Chooses the units for a lease.
    pub mapper: PluginSpec,
}

impl Site {
    /// How many units it has, of all types together.
    pub fn units(&self) -> u32 {
        self.stocks.values().fold(0, |sum, stock| sum.saturating_add(stock.units))
    }
}

/// A broker.
#[derive(Clone, Debug, PartialEq)]
pub struct Broker {
    /// Chooses which requests are met, and from which site.
    pub mapper: PluginSpec,
    /// The quota of each peer that has one of its own, and (`None`) of the others.
    pub quotas: BTreeMap<Option<Name>, Quota>,
    /// Its own prices, by type.
    pub prices: BTreeMap<Name, u32>,
    /// How much of what it has it tells whom.
    pub disclosures: Disclosures,
    /// What it does for other brokers.
    pub peers: BrokerPeers,
    /// How far requests of its guests are passed on.
    pub reach: Reach,
    /// In which order other brokers are asked.
    pub search: Search,
    /// How long others hold portions of a request that is gathered.
    pub hold: Span,
    /// How often it tells those that pass requests on to it what it has.
    pub advertise: Span,
    /// Whether it sells nothing that others have lent while these are silent.
    pub pauses: bool,
}

/// A service manager.
#[derive(Clone, Debug, PartialEq)]
pub struct ServiceManager {
    /// The brokers it may ask; the first is asked unless a request names another.
    pub brokers: Vec<Name>,
    /// How long before the end of a lease its units are left.
    pub leave_before: Span,
    /// What says by itself whose a unit is that several claim.
    pub ambiguous: Rule,
    /// What it does with its units, in the order in which they are joined; at least one.
    pub drivers: Vec<PluginSpec>,
    /// How much they are asked to do at a time, and how long that may take, all of them together.
    pub calls: CallLimits,
    /// Asks by itself.
    pub mapper: PluginSpec,
    /// What is measured in the place of a real demand.
    pub demand: Option<Demand>,
    /// The users who may have it plan packages, by name or number; all who may use the control API unless set.
    pub planners: Option<Vec<String>>,
    /// How many sessions may be open at a time; any number unless set.
    pub sessions: Option<usize>,
    /// Slices whose nodes plans of other slices may use, each with those.
    pub shared_slices: BTreeMap<Name, BTreeSet<Name>>,
    /// Its services, as they are defined at each start.
    pub services: BTreeMap<Name, Definition>,
}

/// A made-up demand: the values in turn, again and again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Demand {
    /// The signal.
    pub signal: Name,
    /// Its values; at least one.
    pub values: Vec<i64>,
    /// How long each of them holds.
    pub every: Span,
}

impl Config {
    /// Whether a driver keeps programs running on units.
    pub(crate) fn starts_programs(&self) -> bool {
        let sites = self.sites.values().map(|site| &site.driver);
        let managers = self.service_managers.values().flat_map(|manager| &manager.drivers);
        sites.chain(managers).any(|driver| matches!(&*driver.name, "process" | "start"))
    }
}

type Checked<T> = Result<T, ConfigError>;

/// Reads a configuration.
///
/// # Errors
/// The first thing that is wrong, with its place and a help line.
pub fn parse(source: Source<'_>, overrides: &[Override]) -> Checked<Config> {
    read(tenure_config::points(source, overrides)?, overrides)
}

/// As [`parse`], of several files: each key is in one of them.
///
/// # Errors
/// As of [`parse`], and the first key that two files set.
pub fn parse_files(files: &Files, overrides: &[Override]) -> Checked<Config> {
    read(tenure_config::points_of(files, overrides)?, overrides)
}

fn read(
    (sources, points): (Sources<'_>, Vec<RawPoint<'_>>),
    overrides: &[Override],
) -> Checked<Config> {
    let mut points = points.into_iter();
    let point = points.next().filter(|point| point.swept.is_empty());
    let Some(point) = point.filter(|_| points.next().is_none()) else {
        let message = "a live deployment runs once, so nothing of it can be swept";
        let help = "remove `sweep`; `tenure emulate` sweeps scenarios".to_owned();
        return Err(sources.error(Sources::NOWHERE, message, help));
    };
    let (text, overrides) = (point.text(&sources)?, overrides.to_vec());
    let config = Check { sources: &sources }.config(point.read(&sources)?)?;
    Ok(Config { text, overrides, ..config })
}

/// Facts that are folded in about a second.
const SNAPSHOT_AFTER: NonZeroU64 = NonZeroU64::new(100_000).unwrap();

/// For each peer, how many connections are relayed at a time unless configured.
const RELAYS: u16 = 64;

/// The live files of small deployments stay whole.
const ARCHIVE_AFTER: u64 = 200_000;

const PROBE_EVERY: Span = Span::from_secs(10);

const CLOCK_CHECK: Span = Span::MINUTE;

/// The shortest pause between two probes of a unit.
const LEAST_PROBE_EVERY: Span = Span::from_micros(100_000);

struct Check<'a> {
    sources: &'a Sources<'a>,
}

impl Check<'_> {
    fn config(&self, file: file::File) -> Checked<Config> {
        let margin = self.positive("margin", file.margin.as_ref(), Span::SECOND)?;
        let retry = self.positive("retry", file.retry.as_ref(), Span::SECOND.times(2))?;
        let probe_every = self.positive("probe-every", file.probe_every.as_ref(), PROBE_EVERY)?;
        if let Some(given) = file.probe_every.as_ref().filter(|_| probe_every < LEAST_PROBE_EVERY) {
            let message = format!("`probe-every` must be at least {LEAST_PROBE_EVERY}");
            return self.refuse(given.span(), message, "probing more often says nothing more");
        }
        let clock_check = file.clock_check.as_ref().map_or(CLOCK_CHECK, |given| *given.get_ref());
        if let Some(given) = file.clock_check.as_ref().filter(|_| clock_check < Span::ZERO) {
            let message = format!("`clock-check` must not be {clock_check}");
            return self.refuse(given.span(), message, "write a length of time, or 0 for never");
        }
        self.names(&file)?;
        let mut config = Config {
            file: self.sources.name().to_owned(),
            paths: Vec::new(),
            overrides: Vec::new(),
            text: String::new(),
            margin,
            retry,
            speed: file.speed.unwrap_or(NonZeroU32::MIN),
            threads: file.threads,
            snapshot_after: file.snapshot_after.unwrap_or(SNAPSHOT_AFTER),
            archive_after: NonZeroU64::new(file.archive_after.unwrap_or(ARCHIVE_AFTER)),
            probe_every,
            clock_check,
            sites: BTreeMap::new(),
            brokers: BTreeMap::new(),
            service_managers: BTreeMap::new(),
            profiles: BTreeMap::new(),
            metrics: self.loopback(file.metrics.as_ref())?,
            socket_group: file.socket_group.as_ref().map(|group| group.get_ref().clone()),
            listen: file.listen,
            relays: file.relays.unwrap_or(RELAYS),
            public: file.public.as_ref().map(|given| self.dialled(given)).transpose()?,
            places: self.places(&file),
            peers: self.peers(file.peer)?,
        };
        let elsewhere = |role| {
            let peers = config.peers.iter().filter(move |(_, peer)| peer.role == role);
            peers.map(|(name, _)| name.clone()).collect::<Vec<Name>>()
        };
        let brokers = file.broker.keys().map(|name| name.get_ref().clone());
        let brokers: Vec<Name> = brokers.chain(elsewhere(Role::Broker)).collect();
        let managers = file.service_manager.keys().map(|name| name.get_ref().clone());
        let managers: Vec<Name> = managers.chain(elsewhere(Role::ServiceManager)).collect();
        config.profiles = tenure_config::profiles(file.profile, self.sources)?;
        for (name, broker) in file.broker {
            let broker = self.broker(broker, &name, (&brokers, &managers))?;
            config.brokers.insert(name.into_inner(), broker);
        }
        for (name, site) in file.site {
            let site = self.site(site, &name.span(), &brokers, margin)?;
            config.sites.insert(name.into_inner(), site);
        }
        for (name, manager) in file.service_manager {
            let manager = self.service_manager(manager, &brokers, margin)?;
            config.service_managers.insert(name.into_inner(), manager);
        }
        Ok(config)
    }

    fn broker(
        &self,
        broker: file::Broker,
        name: &Spanned<Name>,
        (brokers, managers): (&[Name], &[Name]),
    ) -> Checked<Broker> {
        let mapper = self.plugin(broker.mapper, PluginSpec::new("fcfs", &[]), "mapper")?;
        let others = brokers.iter().filter(|other| *other != name.get_ref());
        let told: Vec<Name> = others.chain(managers).cloned().collect();
        let quotas = by_actor(broker.quota, "peer", told.iter(), self.sources)?;
        let mut named = by_actor(broker.disclose, "peer", told.iter(), self.sources)?;
        let others = named.remove(&None).unwrap_or_default();
        let named = named.into_iter().filter_map(|(name, told)| Some((name?, told))).collect();
        let known = brokers.iter().filter(|other| *other != name.get_ref());
        let peers = tenure_config::broker_peers(broker.peer, known, self.sources)?;
        Ok(Broker {
            mapper,
            quotas,
            prices: broker.price,
            disclosures: Disclosures { others, named },
            peers,
            reach: broker.reach.reach(self.sources)?,
            search: broker.reach.search(),
            hold: broker.reach.hold(self.sources)?,
            advertise: tenure_config::advertise(broker.advertise.as_ref(), self.sources)?,
            pauses: broker.on_silence == OnSilence::Pause,
        })
    }

    fn places(&self, file: &file::File) -> BTreeMap<String, Place> {
        let mut places = BTreeMap::new();
        let mut at = |key: String, span| drop(places.insert(key, self.sources.place(span)));
        if let Some(margin) = &file.margin {
            at("margin".to_owned(), margin.span());
        }
        if let Some(group) = &file.socket_group {
            at("socket-group".to_owned(), group.span());
        }
        for (name, site) in &file.site {
            at(format!("site.{}", name.get_ref()), name.span());
            if let Some(units) = &site.units {
                let own = site.resource.as_ref().map_or("node", |own| own.get_ref().as_str());
                at(format!("site.{}.stock.{own}.units", name.get_ref()), units.span());
            }
            for (resource, stock) in &site.stock {
                let key = format!("site.{}.stock.{}", name.get_ref(), resource.get_ref());
                let units = stock.units.as_ref().map_or(resource.span(), Spanned::span);
                at(format!("{key}.units"), units);
                at(key, resource.span());
            }
            if let Some(resource) = &site.resource {
                at(format!("site.{}.resource", name.get_ref()), resource.span());
            }
        }
        file.broker.keys().for_each(|name| at(format!("broker.{}", name.get_ref()), name.span()));
        for (name, manager) in &file.service_manager {
            at(format!("service-manager.{}", name.get_ref()), name.span());
            if let Some(planners) = &manager.planners {
                at(format!("service-manager.{}.planners", name.get_ref()), planners.span());
            }
        }
        places
    }

    /// Who can reach it is on this machine.
    fn loopback(&self, given: Option<&Spanned<SocketAddr>>) -> Checked<Option<SocketAddr>> {
        let Some(given) = given else { return Ok(None) };
        let address = *given.get_ref();
        if !address.ip().is_loopback() {
            let message = format!("`metrics` must be on loopback, and {} is not", address.ip());
            let help = format!(
                "write \"127.0.0.1:{}\"; what is to leave this machine passes through a proxy of yours",
                address.port()
            );
            return self.refuse(given.span(), message, help);
        }
        Ok(Some(address))
    }

    fn refuse<T>(
        &self,
        place: std::ops::Range<usize>,
        message: impl Into<String>,
        help: impl Into<String>,
    ) -> Checked<T> {
        Err(self.sources.error(place, message, help.into()))
    }

    fn positive(&self, key: &str, span: Option<&Spanned<Span>>, default: Span) -> Checked<Span> {
        let Some(given) = span else { return Ok(default) };
        let value = *given.get_ref();
        if !value.is_positive() {
            let help = "write a length of time above zero, such as \"1h\"";
            return self.refuse(given.span(), format!("`{key}` must not be {value}"), help);
        }
        Ok(value)
    }

    /// Names identify actors, whatever their roles: in journals, keys and commands.
    fn names(&self, file: &file::File) -> Checked<()> {
        let mut seen = BTreeSet::new();
        let roles = [
            file.site.keys().collect::<Vec<_>>(),
            file.broker.keys().collect(),
            file.service_manager.keys().collect(),
        ];
        for name in roles.iter().flatten().copied().chain(file.peer.keys()) {
            if !seen.insert(name.get_ref()) {
                let message = format!("two actors are named `{}`", name.get_ref());
                return self.refuse(name.span(), message, "give each actor a name of its own");
            }
        }
        for name in roles.iter().flatten() {
            if let Some((other, number)) = name.get_ref().as_str().rsplit_once('.')
                && number.bytes().all(|digit| digit.is_ascii_digit())
                && roles.iter().flatten().any(|role| role.get_ref().as_str() == other)
            {
                let message = format!(
                    "the key of `{}` is stored where a later key of `{other}` goes",
                    name.get_ref()
                );
                return self.refuse(name.span(), message, "give one of them another name");
            }
        }
        if roles.iter().all(Vec::is_empty) {
            let message = "there is no site, no broker and no service manager";
            return self.refuse(Sources::NOWHERE, message, "write, for example, `[site.one]`");
        }
        // The others may be elsewhere, or come by invitation.
        Ok(())
    }

    /// The actors of other processes; two with one id would be one.
    fn peers(&self, given: file::Actors<file::Peer>) -> Checked<BTreeMap<Name, PeerActor>> {
        let mut peers: BTreeMap<Name, PeerActor> = BTreeMap::new();
        for (name, file::Peer { role, id, address }) in given {
            if let Some((other, _)) = peers.iter().find(|(_, peer)| peer.id == id) {
                let message = format!("`{}` has the id of `{other}`", name.get_ref());
                return self.refuse(
                    name.span(),
                    message,
                    "`tenure keys show` prints an actor's id",
                );
            }
            let address = address.map(|given| self.dialled(&given)).transpose()?;
            peers.insert(name.into_inner(), PeerActor { role, id, address });
        }
        Ok(peers)
    }

    /// Where somebody is dialled.
    fn dialled(&self, given: &Spanned<String>) -> Checked<String> {
        let text = given.get_ref();
        if can_be_dialled(text) {
            return Ok(text.clone());
        }
        let message = format!("`{text}` is no address to dial");
        self.refuse(given.span(), message, "write a host and a port: `alpha.example:7400`")
    }

    fn site(
        &self,
        mut site: file::Site,
        place: &std::ops::Range<usize>,
        brokers: &[Name],
        margin: Span,
    ) -> Checked<Site> {
        let reader = StockReader {
            sources: self.sources,
            brokers: brokers.iter().collect(),
            delegation: Span::DAY.times(30),
            delegable: &|length| Self::is_a_term("delegation", length, margin),
        };
        let (stocks, stacks) = reader.read(site.take_stocks(place.clone()))?;
        let mut driver = self.plugin(site.driver, PluginSpec::new("null", &[]), "driver")?;
        let calls = calls::take(&mut driver, self.sources)?;
        let quarantine_after = site.quarantine_after.map_or(3, Spanned::into_inner);
        Ok(Site {
            stocks,
            stacks,
            quarantine_after: NonZeroU32::new(quarantine_after),
            fail_after: NonZeroU32::new(site.fail_after.map_or(3, Spanned::into_inner)),
            driver,
            calls,
            mapper: self.plugin(site.mapper, PluginSpec::new("first-fit", &[]), "mapper")?,
        })
    }

    fn service_manager(
        &self,
        manager: file::ServiceManager,
        brokers: &[Name],
        margin: Span,
    ) -> Checked<ServiceManager> {
        let leave_before = manager.leave_before.map_or(Ok(Span::SECOND), |span| {
            if *span.get_ref() < Span::ZERO {
                let message = format!("`leave-before` must not be {}", span.get_ref());
                return self.refuse(span.span(), message, "write at least \"0s\"");
            }
            Ok(*span.get_ref())
        })?;
        let demand = manager.demand.map(|demand| self.demand(demand)).transpose()?;
        let mapper = self.plugin(manager.mapper, PluginSpec::new("static", &[]), "mapper")?;
        self.asks_for_terms(&mapper, margin)?;
        let services = self.services(manager.service, &mapper.name)?;
        let (drivers, calls) = self.drivers(manager.driver)?;
        Ok(ServiceManager {
            brokers: named_brokers(manager.brokers, brokers.iter(), self.sources)?,
            leave_before,
            ambiguous: manager.ambiguous,
            drivers,
            calls,
            mapper,
            demand,
            planners: manager.planners.map(Spanned::into_inner),
            sessions: manager.sessions,
            shared_slices: manager.slice.into_iter().map(|(name, s)| (name, s.used_by)).collect(),
            services,
        })
    }

    /// What a mapper asks for lasts long enough to be granted.
    fn asks_for_terms(&self, mapper: &PluginSpec, margin: Span) -> Checked<()> {
        let term = mapper.settings.get("term").map(|term| ("term", "term", term));
        let requests = mapper.settings.get("requests").and_then(toml::Value::as_array);
        let durations = requests.into_iter().flatten().filter_map(|asked| asked.get("duration"));
        let durations = durations.map(|duration| ("requests", "duration", duration));
        for (place, key, value) in term.into_iter().chain(durations) {
            // An invalid duration is reported by the mapper.
            let Ok(term) = value.clone().try_into::<Span>() else { continue };
            if let Err((message, help)) = Self::is_a_term(key, term, margin) {
                let (file, place) = (self.sources.name(), mapper.place_of(place));
                return Err(ConfigError::at(file, place, message, help));
            }
        }
        Ok(())
    }

    /// Whether something can be granted for so long, or what is wrong, with help.
    fn is_a_term(key: &str, term: Span, margin: Span) -> Result<(), Wrong> {
        let two = margin.times(2);
        if term > two {
            return Ok(());
        }
        let message = format!(
            "`{key}` of {term} can never be granted: it must be longer than two margins, {two}"
        );
        Err((message, format!("set a longer `{key}`, or a smaller `margin`")))
    }

    fn drivers(&self, given: Option<RawPlugins>) -> Checked<(Vec<PluginSpec>, CallLimits)> {
        let default = PluginSpec::new("null", &[]);
        let Some(given) = given else { return Ok((vec![default], CallLimits::DEFAULT)) };
        let mut drivers = PluginSpec::read_all(given, &default, "driver", self.sources)?;
        for (nth, driver) in drivers.iter().enumerate() {
            let file = driver.settings.get("file");
            let same = |other: &PluginSpec| file.is_some() && other.settings.get("file") == file;
            if drivers[..nth].iter().any(same) {
                let (file, place) = (self.sources.name(), driver.place_of("file"));
                let help = "give each driver a file of its own".to_owned();
                return Err(ConfigError::at(file, place, "two drivers keep the same file", help));
            }
        }
        let limits = drivers.iter_mut().map(|driver| calls::take(driver, self.sources));
        let limits = calls::together(&limits.collect::<Checked<Vec<_>>>()?);
        Ok((drivers, limits))
    }

    fn demand(&self, demand: file::Demand) -> Checked<Demand> {
        if demand.values.get_ref().is_empty() {
            let help = "write at least one, such as `values = [2]`";
            return self.refuse(demand.values.span(), "a demand without values", help);
        }
        Ok(Demand {
            signal: demand.signal.unwrap_or_else(|| Name::literal("demand")),
            every: self.positive("every", Some(&demand.every), Span::MINUTE)?,
            values: demand.values.into_inner(),
        })
    }

    fn plugin(
        &self,
        given: Option<RawPlugin>,
        default: PluginSpec,
        what: &str,
    ) -> Checked<PluginSpec> {
        match given {
            Some(given) => PluginSpec::read(given, &default, what, self.sources),
            None => Ok(default),
        }
    }
}

#[cfg(test)]
mod tests;
