//! From what a file says to what it means: defaults and checks.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

use tenure_config::{
    BrokerPeers, ConfigError, MAX_UNITS, NODE, OnSilence, PluginSpec, RawPlugin, RawStock,
    RawStocks, Sources, StockKind, StockReader, by_actor, even_shares, known_broker, suggestion,
};
use tenure_core::actor::Role;
use tenure_core::model::identity::Scheme;
use tenure_core::model::name::Name;
use tenure_core::model::time::Span;
use tenure_core::wire::message::Message;
use toml::Spanned;

use super::preset::Preset;
use super::{
    Broker, Delay, Links, LogFile, Network, ReadFile, Scenario, ServiceManager, Site, Workload,
    file,
};
use crate::workload::Kind;

/// The most steps of one emulation.
const MAX_STEPS: i64 = 10_000_000;

/// The longest term: about a thousand years.
const MAX_TERM: Span = Span::DAY.times(365_000);

pub(super) type Checked<T> = Result<T, ConfigError>;

pub(super) fn resolve(
    mut file: file::File,
    sources: &Sources<'_>,
    read: ReadFile<'_>,
) -> Checked<Scenario> {
    let check = Check { sources, read };
    let (step, horizon) = check.clock(file.step.take(), &file.horizon)?;
    let term = check.positive("term", &file.term)?;
    if term > MAX_TERM {
        let message = format!("a term of {term} is longer than {MAX_TERM}");
        return check.refuse(file.term.span(), message, "write a shorter term");
    }
    let margin = check.margin(file.margin.take(), &file.term)?;
    let (seed, signatures) = (file.seed.unwrap_or(1), file.signatures.unwrap_or(Scheme::Ed25519));
    let message = std::mem::take(&mut file.message);
    let times = Times { term, delegation: horizon.plus(term.times(2)).plus(Span::DAY) };
    let Actors { sites, brokers, service_managers, links, units } = match file.network.take() {
        Some(network) => check.topology(network, file, (times, seed))?,
        None => check.listed_actors(file, times)?,
    };
    Ok(Scenario {
        file: sources.name().to_owned(),
        seed,
        step,
        horizon,
        term,
        capacity: units,
        signatures,
        margin,
        network: check.network(message)?,
        links,
        sites,
        brokers,
        service_managers,
    })
}

/// All actors of a scenario.
pub(super) struct Actors {
    pub(super) sites: BTreeMap<Name, Site>,
    pub(super) brokers: BTreeMap<Name, Broker>,
    pub(super) service_managers: BTreeMap<Name, ServiceManager>,
    /// Where they are.
    pub(super) links: Links,
    /// The units of all sites together.
    pub(super) units: u32,
}

/// How long leases are, and delegations unless a site says so.
#[derive(Clone, Copy)]
pub(super) struct Times {
    pub(super) term: Span,
    pub(super) delegation: Span,
}

/// The mapper of a broker that has none.
pub(super) fn broker_mapper() -> PluginSpec {
    PluginSpec::new("fcfs", &[("placement", "even")])
}

/// The mapper of a site that has none.
pub(super) fn site_mapper() -> PluginSpec {
    PluginSpec::new("first-fit", &[])
}

/// The mapper of a service manager that has none: users ask for themselves.
pub(super) fn guest_mapper(workload: &Workload) -> PluginSpec {
    PluginSpec::new(if workload.has_users() { "static" } else { "adaptive" }, &[])
}

pub(super) struct Check<'a> {
    pub(super) sources: &'a Sources<'a>,
    read: ReadFile<'a>,
}

impl Check<'_> {
    /// The actors that the file lists.
    fn listed_actors(&self, file: file::File, times: Times) -> Checked<Actors> {
        let (share, forward) = (file.share.as_ref(), file.forward.as_ref());
        if let Some(place) = share.map(Spanned::span).or(forward.map(Spanned::span)) {
            let message = "this is for the brokers of a `[network]`";
            let help = "write it as a `peer` of the broker that it is for";
            return self.refuse(place, message, help);
        }
        let Some(capacity) = &file.capacity else {
            let help = "set `capacity` to the number of units of all sites";
            return self.refuse(Sources::NOWHERE, "missing field `capacity`", help);
        };
        self.names(&file.site, &file.broker, &file.service_manager)?;
        let brokers = self.brokers(file.broker, &file.service_manager, file.preset.as_ref())?;
        let with_stocks = |(name, mut site): (Spanned<Name>, file::Site)| {
            let stocks = site.take_stocks(name.span());
            (name, site, stocks)
        };
        let mut given: Vec<_> = file.site.into_iter().map(with_stocks).collect();
        self.fill_units(capacity, given.iter_mut().map(|(.., stocks)| stocks).collect())?;
        let mut sites = BTreeMap::new();
        for (name, site, stocks) in given {
            let site = self.site(site, stocks, times, &brokers)?;
            sites.insert(name.into_inner(), site);
        }
        let own_workloads = file.service_manager.values().all(|of| of.workload.is_some());
        if let (Some(workload), true) = (&file.workload, own_workloads) {
            let message =
                "every service manager has a workload of its own, so this one is never used";
            let help = "remove it, or the workload of a service manager";
            return self.refuse(workload.span(), message, help);
        }
        let workload = self.workload(file.workload.map(Spanned::into_inner).unwrap_or_default())?;
        let mut service_managers = BTreeMap::new();
        for (name, manager) in file.service_manager {
            let manager = self.service_manager(&name, manager, &sites, &brokers, &workload)?;
            service_managers.insert(name.into_inner(), manager);
        }
        let (links, units) = (Links::default(), *capacity.get_ref());
        Ok(Actors { sites, brokers, service_managers, links, units })
    }

    /// The text of a file that the scenario names.
    pub(super) fn read(&self, file: &Spanned<String>) -> Checked<String> {
        (self.read)(file.get_ref()).or_else(|cause| {
            let message = format!("the file `{}` cannot be read: {cause}", file.get_ref());
            let help = "a relative path starts at the current folder or at the scenario";
            self.refuse(file.span(), message, help)
        })
    }

    pub(super) fn refuse<T>(
        &self,
        span: Range<usize>,
        message: impl Into<String>,
        help: impl Into<String>,
    ) -> Checked<T> {
        Err(self.sources.error(span, message, help.into()))
    }

    fn positive(&self, key: &str, span: &Spanned<Span>) -> Checked<Span> {
        let value = *span.get_ref();
        if !value.is_positive() {
            let help = "write a length of time above zero, such as \"1h\"";
            return self.refuse(span.span(), format!("`{key}` must not be {value}"), help);
        }
        Ok(value)
    }

    pub(super) fn not_negative(&self, key: &str, span: &Spanned<Span>) -> Checked<Span> {
        let value = *span.get_ref();
        if value < Span::ZERO {
            let help = "write a length of time of at least zero, such as \"1s\"";
            return self.refuse(span.span(), format!("`{key}` must not be {value}"), help);
        }
        Ok(value)
    }

    fn probability(&self, key: &str, value: Option<Spanned<f64>>) -> Checked<f64> {
        let Some(value) = value else { return Ok(0.0) };
        if !(0.0..=1.0).contains(value.get_ref()) {
            let message = format!("`{key}` is a probability, and {} is none", value.get_ref());
            return self.refuse(value.span(), message, "write a number from 0 to 1");
        }
        Ok(value.into_inner())
    }

    fn clock(&self, step: Option<Spanned<Span>>, horizon: &Spanned<Span>) -> Checked<(Span, Span)> {
        let length = self.positive("horizon", horizon)?;
        let step = step.map_or(Ok(Span::MINUTE.times(5)), |step| self.positive("step", &step))?;
        if length < step {
            let message = format!("a horizon of {length} holds no step of {step}");
            return self.refuse(horizon.span(), message, "make `horizon` longer or `step` shorter");
        }
        let steps = length.as_micros() / step.as_micros();
        if steps > MAX_STEPS {
            let message = format!("a horizon of {length} has {steps} steps, more than {MAX_STEPS}");
            return self.refuse(horizon.span(), message, "make `step` longer or `horizon` shorter");
        }
        Ok((step, length))
    }

    fn margin(&self, margin: Option<Spanned<Span>>, term: &Spanned<Span>) -> Checked<Span> {
        let margin = margin.map_or(Ok(Span::SECOND), |span| self.not_negative("margin", &span))?;
        if margin.times(2) >= *term.get_ref() {
            let message = format!("a term of {term} is not longer than two margins of {margin}");
            let help = "a holder stops one margin before the end: make `term` longer or `margin` \
                        shorter";
            return self.refuse(term.span(), message, help);
        }
        Ok(margin)
    }

    /// Journals, messages and reports know an actor by its name alone.
    fn names(
        &self,
        sites: &file::Actors<file::Site>,
        brokers: &file::Actors<file::Broker>,
        managers: &file::Actors<file::ServiceManager>,
    ) -> Checked<()> {
        let mut seen: BTreeMap<&Name, Role> = BTreeMap::new();
        let sites = sites.keys().map(|name| (Role::SiteAuthority, name));
        let brokers = brokers.keys().map(|name| (Role::Broker, name));
        let managers = managers.keys().map(|name| (Role::ServiceManager, name));
        for (role, name) in sites.chain(brokers).chain(managers) {
            if let Some(other) = seen.insert(name.get_ref(), role) {
                let message = format!("`{name}` is both a {other} and a {role}");
                return self.refuse(name.span(), message, "give each actor a name of its own");
            }
        }
        for (role, table) in [
            (Role::SiteAuthority, "site.alpha"),
            (Role::Broker, "broker.exchange"),
            (Role::ServiceManager, "service-manager.web"),
        ] {
            if !seen.values().any(|seen| *seen == role) {
                let help = format!("add one, for example with a line `[{table}]`");
                return self.refuse(Sources::NOWHERE, format!("there is no {role}"), help);
            }
        }
        Ok(())
    }

    /// Gives each site without a number of units an even share of what the others leave.
    fn fill_units(&self, capacity: &Spanned<u32>, sites: Vec<&mut RawStocks>) -> Checked<()> {
        let total = u64::from(*capacity.get_ref());
        if total > u64::from(MAX_UNITS) {
            let message = format!("a capacity of {total} units is more than {MAX_UNITS}");
            return self.refuse(capacity.span(), message, "emulate a smaller deployment");
        }
        let countable = |stock: &&RawStock| stock.kind == StockKind::Units;
        let stocks = || sites.iter().flat_map(|site| site.each()).filter(countable);
        if sites.iter().any(|site| site.further.values().any(|stock| stock.stated().is_none())) {
            // The place of such a stock is known where it is read.
            return Ok(());
        }
        let fixed: u64 = stocks().filter_map(RawStock::stated).map(u64::from).sum();
        let open = stocks().filter(|stock| stock.stated().is_none()).count();
        let left = total.saturating_sub(fixed);
        if fixed > total || (open == 0 && fixed < total) {
            let message = format!("the sites have {fixed} units, but the capacity is {total}");
            let help = format!("set `capacity = {fixed}`, or leave out the `units` of one site");
            return self.refuse(capacity.span(), message, help);
        }
        if left < open as u64 {
            let message =
                format!("a capacity of {total} leaves {left} to {open} sites without `units`");
            return self.refuse(capacity.span(), message, "give at least one unit to each site");
        }
        let is_open = |site: &&mut RawStocks| {
            site.has_own() && site.own.stated().is_none() && countable(&&site.own)
        };
        let shares = even_shares(u32::try_from(left).unwrap_or(u32::MAX), open);
        for (site, units) in sites.into_iter().filter(is_open).zip(shares) {
            site.own.units = Some(Spanned::new(site.place.clone(), units));
        }
        Ok(())
    }

    fn brokers(
        &self,
        brokers: file::Actors<file::Broker>,
        managers: &file::Actors<file::ServiceManager>,
        preset: Option<&Spanned<Preset>>,
    ) -> Checked<BTreeMap<Name, Broker>> {
        let names: Vec<Name> = brokers.keys().map(|name| name.get_ref().clone()).collect();
        let mut resolved = BTreeMap::new();
        for (name, broker) in brokers {
            let given = broker.mapper.is_some();
            let mapper = self.mapper(broker.mapper, broker_mapper())?;
            let mapper = match preset {
                Some(preset) => self.preset(preset, given.then_some(mapper))?,
                None => mapper,
            };
            let mapper_delay = self.mapper_delay(broker.mapper_delay.as_ref())?;
            let managers = managers.keys().map(Spanned::get_ref);
            let quotas = by_actor(broker.quota, "service manager", managers, self.sources)?;
            let others = names.iter().filter(|other| *other != name.get_ref());
            let broker = Broker {
                mapper,
                mapper_delay,
                quotas,
                prices: broker.price,
                peers: tenure_config::broker_peers(broker.peer, others, self.sources)?,
                reach: broker.reach.reach(self.sources)?,
                search: broker.reach.search(),
                hold: broker.reach.hold(self.sources)?,
                advertise: tenure_config::advertise(broker.advertise.as_ref(), self.sources)?,
                pauses: broker.on_silence == OnSilence::Pause,
            };
            resolved.insert(name.into_inner(), broker);
        }
        Ok(resolved)
    }

    fn site(
        &self,
        site: file::Site,
        stocks: RawStocks,
        Times { term, delegation }: Times,
        brokers: &BTreeMap<Name, Broker>,
    ) -> Checked<Site> {
        let mut named = stocks.each().filter_map(|stock| stock.brokers.as_ref());
        if let Some(nobody) = named.find(|named| named.get_ref().is_empty()).map(Spanned::span) {
            let help = "name a broker, or leave `brokers` out to lend to all of them";
            return self.refuse(nobody, "a site lends to at least one broker", help);
        }
        drop(named);
        let reader = StockReader {
            sources: self.sources,
            brokers: brokers.keys().collect(),
            delegation,
            delegable: &|length| {
                let help = || "make it at least as long as `term`".to_owned();
                let message = || format!("a delegation of {length} holds no lease of {term}");
                if length < term { Err((message(), help())) } else { Ok(()) }
            },
        };
        let (stocks, stacks) = reader.read(stocks)?;
        Ok(Site {
            stocks,
            stacks,
            setup: site.setup.unwrap_or(Delay::ZERO),
            teardown: site.teardown.unwrap_or(Delay::ZERO),
            failure: self.probability("failure", site.failure)?,
            quarantine_after: site.quarantine_after,
            mapper: self.mapper(site.mapper, site_mapper())?,
            mapper_delay: self.mapper_delay(site.mapper_delay.as_ref())?,
        })
    }

    fn service_manager(
        &self,
        name: &Spanned<Name>,
        manager: file::ServiceManager,
        sites: &BTreeMap<Name, Site>,
        brokers: &BTreeMap<Name, Broker>,
        workload: &Workload,
    ) -> Checked<ServiceManager> {
        let broker = match (manager.broker, brokers.first_key_value()) {
            (Some(broker), _) => {
                known_broker(&broker, brokers.keys(), self.sources)?;
                broker.into_inner()
            }
            (None, Some((only, _))) if brokers.len() == 1 => only.clone(),
            (None, _) => {
                let known: Vec<&str> = brokers.keys().map(Name::as_str).collect();
                let help = format!("set its `broker` to one of {}", known.join(", "));
                return self.refuse(name.span(), format!("which broker does `{name}` ask?"), help);
            }
        };
        let (resource, span) = match manager.resource {
            Some(resource) => (resource.get_ref().clone(), resource.span()),
            None => (Name::literal(NODE), name.span()),
        };
        let workload = match manager.workload {
            Some(workload) => self.workload(workload)?,
            None => workload.clone(),
        };
        if !workload.has_users() {
            self.offered(&resource, span, &broker, (sites, brokers))?;
        }
        let services = self.services(manager.service)?;
        let default = match services.is_empty() {
            false => PluginSpec::new("slo", &[]),
            true => guest_mapper(&workload),
        };
        let mapper = self.mapper(manager.mapper, default)?;
        let leave_before = match &manager.leave_before {
            Some(span) => self.not_negative("leave-before", span)?,
            None => Span::ZERO,
        };
        let peak = manager.peak.unwrap_or_else(|| units_of(&resource, sites));
        let manager = ServiceManager {
            resource,
            mapper,
            mapper_delay: self.mapper_delay(manager.mapper_delay.as_ref())?,
            join: manager.join.unwrap_or(Delay::ZERO),
            leave: manager.leave.unwrap_or(Delay::ZERO),
            leave_before,
            peak,
            workload,
            services,
            at_hand: lent_types(&broker, sites),
            home: broker.clone(),
            requests: Arc::default(),
            broker,
        };
        self.followed(name, &manager)?;
        let manager = self.modelled(name, manager)?;
        self.submissions(name, manager)
    }

    /// A workload that its mapper has to do with.
    fn followed(&self, name: &Spanned<Name>, manager: &ServiceManager) -> Checked<()> {
        let drawn = matches!(manager.workload, Workload::CoAllocation(_));
        if manager.lacks_experiments() && !drawn {
            let message = format!("the mapper `experiments` of `{name}` has no requests");
            let help = "set `workload.kind = \"co-allocation\"`, or list them as its `requests`";
            return self.refuse(name.span(), message, help);
        }
        if drawn && manager.mapper.name == "adaptive" {
            let message = format!("the mapper `adaptive` of `{name}` follows no drawn requests");
            let help = "choose `mapper = { name = \"experiments\" }` for it";
            return self.refuse(name.span(), message, help);
        }
        if manager.has_users() && manager.mapper.name == "adaptive" {
            let message = format!("the mapper `adaptive` of `{name}` follows no requests of users");
            let help = "leave out its `mapper`: users ask for themselves";
            return self.refuse(name.span(), message, help);
        }
        Ok(())
    }

    /// Jobs come from a log, and count from when they were submitted.
    fn submissions(
        &self,
        name: &Spanned<Name>,
        manager: ServiceManager,
    ) -> Checked<ServiceManager> {
        if !manager.lacks_jobs() {
            return Ok(manager);
        }
        let workload = match manager.workload {
            Workload::Log(log) if matches!(log.kind, Kind::SwfInUse | Kind::SwfOffered) => {
                Workload::Log(LogFile { kind: Kind::SwfOffered, ..log })
            }
            Workload::Log(_)
            | Workload::Wave(_)
            | Workload::CoAllocation(_)
            | Workload::Requests(_) => {
                let message = format!("the mapper `jobs` of `{name}` has no jobs");
                let help = "give a log in Standard Workload Format with `--workload FILE` or \
                            `workload.file`, or list them as its `jobs`";
                return self.refuse(name.span(), message, help);
            }
        };
        Ok(ServiceManager { workload, ..manager })
    }

    /// What no site lends to a broker, the broker can never grant, unless other brokers help.
    fn offered(
        &self,
        resource: &Name,
        span: Range<usize>,
        broker: &Name,
        (sites, brokers): (&BTreeMap<Name, Site>, &BTreeMap<Name, Broker>),
    ) -> Checked<()> {
        let alone = brokers.values().all(|of| of.peers == BrokerPeers::default());
        let from = |other: &&Name| !alone || *other == broker;
        let lent = brokers.keys().filter(from);
        let lent = lent.flat_map(|broker| sites.values().flat_map(|site| site.lent(broker)));
        let offered: BTreeSet<&str> = lent.map(|(resource, _)| resource.as_str()).collect();
        if offered.contains(resource.as_str()) {
            return Ok(());
        }
        let message = format!("no site lends units of `{resource}` to the broker `{broker}`");
        self.refuse(span, message, suggestion(resource.as_str(), offered))
    }

    fn network(&self, message: file::Message) -> Checked<Network> {
        let mut drop = BTreeSet::new();
        for kind in message.drop {
            if !Message::KINDS.contains(&kind.get_ref().as_str()) {
                let help = suggestion(kind.get_ref(), Message::KINDS);
                return self.refuse(kind.span(), format!("no kind of message `{kind}`"), help);
            }
            drop.insert(kind.into_inner());
        }
        Ok(Network {
            delay: message.delay.unwrap_or(Delay::ZERO),
            loss: self.probability("loss", message.loss)?,
            duplicate: self.probability("duplicate", message.duplicate)?,
            drop,
            retry: message
                .retry
                .map_or(Ok(Span::from_secs(10)), |retry| self.positive("retry", &retry))?,
        })
    }

    fn mapper(&self, given: Option<RawPlugin>, default: PluginSpec) -> Checked<PluginSpec> {
        match given {
            Some(given) => PluginSpec::read(given, &default, "mapper", self.sources),
            None => Ok(default),
        }
    }

    fn mapper_delay(&self, given: Option<&Spanned<Span>>) -> Checked<Span> {
        given.map_or(Ok(Span::ZERO), |delay| self.not_negative("mapper-delay", delay))
    }
}

/// The types that sites lend to a broker.
fn lent_types(broker: &Name, sites: &BTreeMap<Name, Site>) -> Vec<Name> {
    let lent = sites.values().flat_map(|site| site.lent(broker));
    let types: BTreeSet<&Name> = lent.map(|(resource, _)| resource).collect();
    types.into_iter().cloned().collect()
}

/// The units of a type at all sites together.
fn units_of(resource: &Name, sites: &BTreeMap<Name, Site>) -> u32 {
    let stocks = sites.values().filter_map(|site| site.stocks.get(resource));
    stocks.fold(0, |sum, stock| sum.saturating_add(stock.units))
}
