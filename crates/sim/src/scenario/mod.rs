//! Scenario files: which actors there are, what is asked of them, and what goes wrong on the way.
//!
//! [`parse`] reads a TOML file, applies the overrides of a command line, and gives one [`Scenario`]
//! for each point of its sweep, with every default filled in and everything checked. What is wrong is
//! reported as a [`ConfigError`], with its place in the file.

mod delay;
mod experiments;
mod file;
mod jobs;
mod mapper;
mod preset;
mod requests;
mod resolve;
mod rows;
mod services;
#[cfg(test)]
mod tests;
mod topology;
mod workload;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tenure_config::{BrokerPeers, ConfigError, Override, Place, PluginSpec, Source, Stock};
use tenure_core::broker::forwarding::{Reach, Search};
use tenure_core::broker::quota::Quota;
use tenure_core::model::identity::Scheme;
use tenure_core::model::name::Name;
use tenure_core::model::time::{Span, Term};
use tenure_core::site_authority::Stacks;

pub use delay::Delay;
pub use jobs::LeftOut;

use crate::service::model::Modelled;
use crate::workload::{CoAllocation, DrawnRequests, Kind, UserRequest, Wave};

/// One point of a sweep; a scenario without a sweep is a single one.
#[derive(Clone, Debug, PartialEq)]
pub struct Point {
    /// The swept keys with their values here, in the order of the sweep.
    pub swept: Vec<(String, String)>,
    /// What is emulated.
    pub scenario: Scenario,
    /// A file that says the same without a sweep and without options.
    pub text: String,
}

/// A deployment and what happens to it.
#[derive(Clone, Debug, PartialEq)]
pub struct Scenario {
    /// The name of the file it was read from.
    pub file: String,
    /// Where all randomness comes from.
    pub seed: u64,
    /// How long each value of the demand holds.
    pub step: Span,
    /// How long the emulated time is.
    pub horizon: Span,
    /// The length of the leases that mappers ask for.
    pub term: Span,
    /// The units of all sites together, divisible stocks aside.
    pub capacity: u32,
    /// Whether signatures are made and checked.
    pub signatures: Scheme,
    /// The bound on the skew between two clocks.
    pub margin: Span,
    /// How messages are delivered.
    pub network: Network,
    /// Which actors are at one place, and what is between the places.
    pub links: Links,
    /// The sites; at least one.
    pub sites: BTreeMap<Name, Site>,
    /// The brokers; at least one.
    pub brokers: BTreeMap<Name, Broker>,
    /// The service managers; at least one.
    pub service_managers: BTreeMap<Name, ServiceManager>,
}

impl Scenario {
    /// Whether brokers do something for each other, or users ask them.
    pub fn has_network(&self) -> bool {
        let peers = |broker: &Broker| broker.peers != BrokerPeers::default();
        self.brokers.values().any(peers)
            || self.service_managers.values().any(ServiceManager::has_users)
    }
}

/// How messages are delivered between actors.
#[derive(Clone, Debug, PartialEq)]
pub struct Network {
    /// How long a message takes.
    pub delay: Delay,
    /// The probability that a message is lost.
    pub loss: f64,
    /// The probability that a message arrives twice.
    pub duplicate: f64,
    /// Kinds of messages that never arrive.
    pub drop: BTreeSet<String>,
    /// How long a sender waits before it sends a message for the second time.
    pub retry: Span,
}

/// The places of a network of brokers. Without any, all actors are at one place.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Links {
    /// The place of each actor.
    pub nodes: BTreeMap<Name, usize>,
    /// How long a message takes between two places, if not as long as at one.
    pub delay: Option<Delay>,
    /// When nothing passes.
    pub cuts: Vec<Cut>,
}

/// A time at which nothing passes between some places.
#[derive(Clone, Debug, PartialEq)]
pub struct Cut {
    /// The pairs of places, the lower one first.
    pub edges: BTreeSet<(usize, usize)>,
    /// The places that are cut off from all others.
    pub apart: BTreeSet<usize>,
    /// So many places, the first ones, are cut off from the others, not from each other.
    pub first: usize,
    /// When.
    pub term: Term,
}

/// A site: units, lent to brokers.
#[derive(Clone, Debug, PartialEq)]
pub struct Site {
    /// What it has, by type.
    pub stocks: BTreeMap<Name, Stock>,
    /// Units that are lent to one holder at a time.
    pub stacks: Stacks,
    /// How long the setup of a unit takes.
    pub setup: Delay,
    /// How long the teardown of a unit takes.
    pub teardown: Delay,
    /// The probability that a setup fails.
    pub failure: f64,
    /// How many setups of a unit may fail in a row before it is taken out of use; 0: any number.
    pub quarantine_after: u32,
    /// Chooses the units for a lease.
    pub mapper: PluginSpec,
    /// How long the mapper takes to decide.
    pub mapper_delay: Span,
}

impl Site {
    /// The types that it delegates to a broker, and how many units of each.
    fn lent<'a>(&'a self, broker: &'a Name) -> impl Iterator<Item = (&'a Name, u32)> {
        let lent = |(resource, stock): (&'a Name, &'a Stock)| {
            Some((resource, stock.brokers.get(broker)?.get()))
        };
        self.stocks.iter().filter_map(lent)
    }
}

/// A broker.
#[derive(Clone, Debug, PartialEq)]
pub struct Broker {
    /// Chooses which requests are met, and from which site.
    pub mapper: PluginSpec,
    /// How long the mapper takes to decide.
    pub mapper_delay: Span,
    /// The quota of each service manager that has one of its own, and (`None`) of the others.
    pub quotas: BTreeMap<Option<Name>, Quota>,
    /// Its own prices, by type.
    pub prices: BTreeMap<Name, u32>,
    /// What it does for other brokers.
    pub peers: BrokerPeers,
    /// How far requests of its guests are passed on.
    pub reach: Reach,
    /// In which order other brokers are asked.
    pub search: Search,
    /// How long others hold portions of a request that is gathered.
    pub hold: Span,
    /// How often it advertises what it has to those that pass requests on to it.
    pub advertise: Span,
    /// Whether it sells nothing that others have lent while these are silent.
    pub pauses: bool,
}

/// A service manager: asks for units as its workload goes up and down.
#[derive(Clone, Debug, PartialEq)]
pub struct ServiceManager {
    /// The broker it asks.
    pub broker: Name,
    /// The type of units it asks for.
    pub resource: Name,
    /// Chooses what to ask for.
    pub mapper: PluginSpec,
    /// How long the mapper takes to decide.
    pub mapper_delay: Span,
    /// How long a unit takes to join the service.
    pub join: Delay,
    /// How long a unit takes to leave the service.
    pub leave: Delay,
    /// How long before the end of a lease its units begin to leave; zero drops them at the end.
    pub leave_before: Span,
    /// How many units its demand asks for at its peak.
    pub peak: u32,
    /// Where its demand comes from.
    pub workload: Workload,
    /// Its services, with models of their software.
    pub services: BTreeMap<Name, Modelled>,
    /// The broker by whose name requests of users are for it: that of its place.
    pub home: Name,
    /// The types that are at hand for its users.
    pub at_hand: Vec<Name>,
    /// What its users ask for, in the order in which they do.
    pub requests: Arc<[UserRequest]>,
}

/// Where a demand comes from.
#[derive(Clone, Debug, PartialEq)]
pub enum Workload {
    /// A generated wave.
    Wave(Wave),
    /// A recorded log.
    Log(LogFile),
    /// Generated requests for compute with bandwidth.
    CoAllocation(CoAllocation),
    /// Requests of users.
    Requests(RequestSource),
}

impl Workload {
    /// Whether users ask, and no mapper does.
    pub fn has_users(&self) -> bool {
        matches!(self, Self::Requests(_))
    }
}

/// Where the requests of users come from.
#[derive(Clone, Debug, PartialEq)]
pub enum RequestSource {
    /// They are drawn.
    Drawn(DrawnRequests),
    /// They are listed in a file.
    Listed(Arc<ListedRequests>),
}

/// The requests of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedRequests {
    /// Those of each broker, in the order in which they are made.
    pub by_broker: BTreeMap<Name, Arc<[UserRequest]>>,
    /// Where the file is named.
    pub place: Place,
}

/// A recorded log of demand, still to be read.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LogFile {
    /// Its path.
    pub file: String,
    /// How it is read.
    pub kind: Kind,
    /// Which column of it counts, by name or number.
    pub column: Option<String>,
    /// Where in the log the emulation begins.
    pub offset: Span,
}

/// Reads a scenario: one point for each combination of swept values, the first swept key varying
/// slowest. A key that an override sets is not swept.
///
/// # Errors
/// The first thing that is wrong, with its place and a help line.
pub fn parse(source: Source<'_>, overrides: &[Override]) -> Result<Vec<Point>, ConfigError> {
    parse_with(source, overrides, &|_| Err("no further file can be read here".to_owned()))
}

/// Gives the text of a file that a scenario names.
pub type ReadFile<'r> = &'r dyn Fn(&str) -> Result<String, String>;

/// As [`parse`], with the files of a network and of requests.
///
/// # Errors
/// The first thing that is wrong, with its place and a help line.
pub fn parse_with(
    source: Source<'_>,
    overrides: &[Override],
    read: ReadFile<'_>,
) -> Result<Vec<Point>, ConfigError> {
    let (sources, points) = tenure_config::points(source, overrides)?;
    let resolved = points.into_iter().map(|point| {
        let (swept, text) = (point.swept.clone(), point.text(&sources)?);
        let mut scenario = resolve::resolve(point.read(&sources)?, &sources, read)?;
        scenario.impossible_request()?;
        scenario.draw_experiments()?;
        scenario.fill_requests()?;
        Ok(Point { swept, scenario, text })
    });
    resolved.collect()
}
