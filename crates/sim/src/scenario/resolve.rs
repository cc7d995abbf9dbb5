//! From what a file says to what it means: defaults and checks.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

use tenure_config::{
    BrokerPeers, ConfigError, MAX_UNITS, NODE, PluginSpec, RawPlugin, RawSharing, RawStock,
    RawStocks, Sources, StockKind, StockReader, by_actor, even_shares, known_broker, suggestion,
};
use tenure_core::actor::Role;
use tenure_core::model::identity::Scheme;
use tenure_core::model::name::Name;
use tenure_core::model::time::Span;
use tenure_core::wire::message::Message;
use toml::Spanned;

use super::preset::Preset;
use super::topology::{RawForward, RawTopology, Rules, Topology};
use super::{
    Broker, Delay, Links, LogFile, Network, ReadFile, Scenario, ServiceManager, Site, Workload,
    file,
};
use crate::workload::{CoAllocation, Kind, Wave, WorkloadError};

/// The most steps of one emulation.
const MAX_STEPS: i64 = 10_000_000;

/// The longest term: about a thousand years.
const MAX_TERM: Span = Span::DAY.times(365_000);

pub(super) type Checked<T> = Result<T, ConfigError>;

pub(super) fn resolve(
    file: file::File,
    sources: &Sources<'_>,
    read: ReadFile<'_>,
) -> Checked<Scenario> {
    let check = Check { sources, read };
    let (step, horizon) = check.clock(file.step, file.horizon)?;
    let term = check.positive("term", &file.term)?;
    if term > MAX_TERM {
        let message = format!("a term of {term} is longer than {MAX_TERM}");
        return check.refuse(file.term.span(), message, "write a shorter term");
    }
    let seed = file.seed.unwrap_or(1);
    let margin = check.margin(file.margin, &file.term)?;
    let delegation = horizon.plus(term.times(2)).plus(Span::DAY);
    let given = Given {
        sites: file.site,
        brokers: file.broker,
        service_managers: file.service_manager,
        capacity: file.capacity,
        preset: file.preset,
        workload: file.workload,
        times: (term, delegation),
    };
    let actors = match file.network {
        Some(network) => {
            let rules = (file.share, file.forward);
            check.network_of_brokers((network, rules), given, seed)?
        }
        None => check.listed_actors(given, (file.share, file.forward))?,
    };
    let Topology { sites, brokers, service_managers, links, units } = actors;
    Ok(Scenario {
        file: sources.name().to_owned(),
        seed,
        step,
        horizon,
        term,
        capacity: units,
        signatures: file.signatures.unwrap_or(Scheme::Ed25519),
        margin,
        network: check.network(file.message)?,
        links,
        sites,
        brokers,
        service_managers,
    })
}

/// What a file says of actors.
struct Given {
    sites: file::Actors<file::Site>,
    brokers: file::Actors<file::Broker>,
    service_managers: file::Actors<file::ServiceManager>,
    capacity: Option<Spanned<u32>>,
    preset: Option<Spanned<Preset>>,
    workload: Option<Spanned<file::Workload>>,
    /// The term, and the length of a delegation.
    times: (Span, Span),
}

/// What holds of all brokers of a network.
type BrokerRules = (Option<Spanned<RawSharing>>, Option<Spanned<RawForward>>);

pub(super) struct Check<'a> {
    pub(super) sources: &'a Sources<'a>,
    read: ReadFile<'a>,
}

impl Check<'_> {
    /// The actors that the file lists.
    fn listed_actors(&self, file: Given, (share, forward): BrokerRules) -> Checked<Topology> {
        let places = [share.map(|share| share.span()), forward.map(|forward| forward.span())];
        if let Some(place) = places.into_iter().flatten().next() {
            let message = "this is for the brokers of a `[network]`";
            return self.refuse(
                place,
                message,
                "write it as a `peer` of the broker that it is for",
            );
        }
        let Some(capacity) = &file.capacity else {
            let help = "set `capacity` to the number of units of all sites";
            return self.refuse(Sources::NOWHERE, "missing field `capacity`", help);
        };
        self.names(&file.sites, &file.brokers, &file.service_managers)?;
        let brokers = self.brokers(file.brokers, &file.service_managers, file.preset.as_ref())?;
        let with_stocks = |(name, mut site): (Spanned<Name>, file::Site)| {
            let stocks = site.take_stocks(name.span());
            (name, site, stocks)
        };
        let mut given: Vec<_> = file.sites.into_iter().map(with_stocks).collect();
        self.fill_units(capacity, given.iter_mut().map(|(.., stocks)| stocks).collect())?;
        let mut sites = BTreeMap::new();
        for (name, site, stocks) in given {
            let site = self.site(site, stocks, file.times, &brokers)?;
            sites.insert(name.into_inner(), site);
        }
        let own_workloads =
            file.service_managers.values().all(|manager| manager.workload.is_some());
        if let (Some(workload), true) = (&file.workload, own_workloads) {
            let message =
                "every service manager has a workload of its own, so this one is never used";
            let help = "remove it, or the workload of a service manager";
            return self.refuse(workload.span(), message, help);
        }
        let place = file.workload.as_ref().map_or(Sources::NOWHERE, Spanned::span);
        let workload = self.workload(file.workload.map(Spanned::into_inner).unwrap_or_default())?;
        let mut service_managers = BTreeMap::new();
        for (name, manager) in file.service_managers {
            let manager = self.service_manager(&name, manager, &sites, &brokers, &workload)?;
            service_managers.insert(name.into_inner(), manager);
        }
        let with_users = service_managers.values().filter(|manager| manager.has_users());
        self.asked(place, &workload, &with_users.map(|manager| &manager.home).collect())?;
        let (links, units) = (Links::default(), *capacity.get_ref());
        Ok(Topology { sites, brokers, service_managers, links, units })
    }

    /// The actors of a network.
    fn network_of_brokers(
        &self,
        (network, (share, forward)): (Spanned<RawTopology>, BrokerRules),
        file: Given,
        seed: u64,
    ) -> Checked<Topology> {
        let named =
            file.sites.keys().chain(file.brokers.keys()).chain(file.service_managers.keys());
        if let Some(named) = named.map(Spanned::span).min_by_key(|span| span.start) {
            let message = "a `[network]` has all its actors, and no others are listed";
            return self.refuse(named, message, "leave out `[network]`, or the listed actors");
        }
        if let Some(capacity) = &file.capacity {
            let message = "the sites of a `[network]` say how many units there are";
            return self.refuse(capacity.span(), message, "leave out `capacity`");
        }
        if let Some(preset) = &file.preset {
            let message = "the brokers of a `[network]` move no units between services";
            return self.refuse(preset.span(), message, "leave out `preset`");
        }
        let place = file.workload.as_ref().map_or(Sources::NOWHERE, Spanned::span);
        let workload = self.workload(file.workload.map(Spanned::into_inner).unwrap_or_default())?;
        let rules = Rules {
            share: share.map(Spanned::into_inner),
            forward: forward.map(Spanned::into_inner).unwrap_or_default(),
            delegation: file.times.1,
            workload: workload.clone(),
            seed,
        };
        let topology = self.topology(network, rules)?;
        let homes = topology.service_managers.values().map(|manager| &manager.home);
        self.asked(place, &workload, &homes.collect())?;
        Ok(topology)
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

    fn not_negative(&self, key: &str, span: &Spanned<Span>) -> Checked<Span> {
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

    fn clock(&self, step: Option<Spanned<Span>>, horizon: Spanned<Span>) -> Checked<(Span, Span)> {
        let length = self.positive("horizon", &horizon)?;
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
        let default = || PluginSpec::new("fcfs", &[("placement", "even")]);
        let names: Vec<Name> = brokers.keys().map(|name| name.get_ref().clone()).collect();
        let mut resolved = BTreeMap::new();
        for (name, broker) in brokers {
            let given = broker.mapper.is_some();
            let mapper = self.mapper(broker.mapper, default())?;
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
                search: broker.reach.search,
                advertise: tenure_config::advertise(broker.advertise.as_ref(), self.sources)?,
            };
            resolved.insert(name.into_inner(), broker);
        }
        Ok(resolved)
    }

    fn site(
        &self,
        site: file::Site,
        stocks: RawStocks,
        (term, delegation): (Span, Span),
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
            mapper: self.mapper(site.mapper, PluginSpec::new("first-fit", &[]))?,
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
        let users = matches!(workload, Workload::Requests(_));
        if !users {
            self.offered(&resource, span, &broker, (sites, brokers))?;
        }
        let services = self.services(manager.service)?;
        let default = match (services.is_empty(), users) {
            (false, _) => "slo",
            (true, true) => "static",
            (true, false) => "adaptive",
        };
        let mapper = self.mapper(manager.mapper, PluginSpec::new(default, &[]))?;
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
            at_hand: sites
                .values()
                .flat_map(|site| site.lent(&broker))
                .map(|(r, _)| r.clone())
                .collect(),
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

    fn workload(&self, given: file::Workload) -> Checked<Workload> {
        let kind = given.kind.as_ref().map(|kind| *kind.get_ref());
        if let (Some(settings), true) = (&given.co_allocation, kind != Some(Kind::CoAllocation)) {
            let message = "these settings are for a workload of another kind";
            return self.refuse(settings.span(), message, "set `kind = \"co-allocation\"`");
        }
        if let (Some(settings), true) = (&given.requests, kind != Some(Kind::Requests)) {
            let message = "these settings are for a workload of another kind";
            return self.refuse(settings.span(), message, "set `kind = \"requests\"`");
        }
        if kind == Some(Kind::Requests) {
            return self.requests(given);
        }
        match (given.file, kind) {
            (None, None | Some(Kind::Wave | Kind::CoAllocation)) => {
                let log_only = "the workload is generated; set `file` to read a log";
                if let Some(column) = &given.column {
                    return self.refuse(
                        column.span(),
                        "what is generated has no columns",
                        log_only,
                    );
                }
                if let Some(offset) = &given.offset {
                    return self.refuse(offset.span(), "what is generated has no offset", log_only);
                }
                match kind {
                    Some(Kind::CoAllocation) => self.co_allocation(given.co_allocation),
                    _ => self.wave(given.wave).map(Workload::Wave),
                }
            }
            (None, Some(kind)) => {
                let span = given.kind.map_or(Sources::NOWHERE, |kind| kind.span());
                let help = "set `file` to its path, or give `--workload FILE`";
                self.refuse(span, format!("a workload of kind `{kind}` needs a file"), help)
            }
            (Some(file), kind) => {
                let bad =
                    |error: WorkloadError| self.sources.error(file.span(), error.to_string(), None);
                if let Some(generated @ (Kind::Wave | Kind::CoAllocation)) = kind {
                    let span = given.kind.map_or(Sources::NOWHERE, |kind| kind.span());
                    let message = format!(
                        "a workload of kind `{generated}` is generated, but the file `{file}` is given"
                    );
                    return self.refuse(
                        span,
                        message,
                        "leave out `kind`: it follows from the file",
                    );
                }
                let kind =
                    kind.map_or_else(|| Kind::of_file_name(file.get_ref()), Ok).map_err(bad)?;
                let column = self.column(given.column, kind)?;
                let offset =
                    given.offset.map_or(Ok(Span::ZERO), |o| self.not_negative("offset", &o))?;
                Ok(Workload::Log(LogFile { file: file.into_inner(), kind, column, offset }))
            }
        }
    }

    /// Requests of users, in a file or drawn.
    fn requests(&self, given: file::Workload) -> Checked<Workload> {
        let unused = given.column.as_ref().map(Spanned::span);
        if let Some(place) = unused.or_else(|| given.offset.as_ref().map(Spanned::span)) {
            let message = "requests have neither a column nor an offset";
            return self.refuse(place, message, "leave out `column` and `offset`");
        }
        match (&given.file, given.requests) {
            (Some(file), None) => self.listed_requests(file),
            (None, drawn) => self.drawn_requests(drawn),
            (Some(_), Some(drawn)) => {
                let help = "leave out `file`, or the settings by which requests are drawn";
                self.refuse(drawn.span(), "the requests are drawn and in a file", help)
            }
        }
    }

    fn co_allocation(&self, given: Option<Spanned<CoAllocation>>) -> Checked<Workload> {
        let Some(given) = given else { return Ok(Workload::CoAllocation(CoAllocation::default())) };
        match given.get_ref().check() {
            Ok(()) => Ok(Workload::CoAllocation(given.into_inner())),
            Err((setting, expected)) => {
                let message = format!("`{setting}` {expected}");
                self.refuse(
                    given.span(),
                    message,
                    "the others have the defaults of docs/SCENARIOS.md",
                )
            }
        }
    }

    fn column(&self, column: Option<Spanned<file::Column>>, kind: Kind) -> Checked<Option<String>> {
        let Some(column) = column else { return Ok(None) };
        if kind != Kind::Csv {
            let message = WorkloadError::ColumnNotUsed { kind }.to_string();
            return self.refuse(column.span(), message, "leave out `column`");
        }
        Ok(Some(match column.into_inner() {
            file::Column::Name(name) => name,
            file::Column::Number(number) => number.to_string(),
        }))
    }

    fn wave(&self, wave: file::Wave) -> Checked<Wave> {
        let number = |value: &Option<Spanned<f64>>, default| {
            value.as_ref().map_or((default, Sources::NOWHERE), |v| (*v.get_ref(), v.span()))
        };
        let (base, base_span) = number(&wave.base, 0.5);
        let (amplitude, amplitude_span) = number(&wave.amplitude, 0.4);
        let (noise, noise_span) = number(&wave.noise, 0.05);
        let period = wave.period.as_ref().map_or(Span::DAY, |period| *period.get_ref());
        Wave::new(base, amplitude, period, noise).map_err(|error| {
            let setting =
                if let WorkloadError::BadWave { setting, .. } = error { setting } else { "" };
            let span = match setting {
                "base" => base_span,
                "amplitude" => amplitude_span,
                "noise" => noise_span,
                _ => wave.period.map_or(Sources::NOWHERE, |period| period.span()),
            };
            self.sources.error(span, error.to_string(), None)
        })
    }
}

/// The units of a type at all sites together.
fn units_of(resource: &Name, sites: &BTreeMap<Name, Site>) -> u32 {
    let stocks = sites.values().filter_map(|site| site.stocks.get(resource));
    stocks.fold(0, |sum, stock| sum.saturating_add(stock.units))
}
