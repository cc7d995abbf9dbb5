//! A network of brokers by its shape, with a site and a guest for each.

mod shape;
mod tables;

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;
use std::ops::Range;
use std::sync::Arc;

use rand::seq::SliceRandom as _;
use serde::Deserialize;
use tenure_config::{BrokerPeers, MAX_UNITS, NODE, RawAccepted, RawReach, Stock, suggestion};
use tenure_core::broker::sharing::Sharing;
use tenure_core::model::name::Name;
use tenure_core::model::resource::Attributes;
use tenure_core::model::time::{Span, Term, Time};
use tenure_core::site_authority::Stacks;
use toml::Spanned;

use self::shape::{Edge, EdgeKind, Measures, Shape, edges};
use self::tables::StockOf;
use super::file::File;
use super::resolve::{Actors, Check, Checked, Times, broker_mapper, guest_mapper, site_mapper};
use super::{Broker, Cut, Delay, Links, ServiceManager, Site, Workload};
use crate::random::{Chance, Purpose};

/// The most brokers of a network.
const MAX_BROKERS: u32 = 10_000;

/// The broker that has everything.
const CENTRAL: &str = "central";

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct RawTopology {
    brokers: Option<Spanned<u32>>,
    shape: Option<Spanned<Shape>>,
    degree: Option<Spanned<u32>>,
    fan_out: Option<Spanned<u32>>,
    edges: Option<Spanned<String>>,
    stock: Option<Spanned<String>>,
    types: Option<Spanned<u32>>,
    per_broker: Option<Spanned<u32>>,
    units: Option<Spanned<u32>>,
    delay: Option<Delay>,
    #[serde(default)]
    cut: Vec<RawCut>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawCut {
    #[serde(default)]
    edges: Vec<(Spanned<Name>, Spanned<Name>)>,
    #[serde(default)]
    brokers: Vec<Spanned<Name>>,
    /// So many, the first by name.
    first: Option<Spanned<u32>>,
    from: Spanned<Span>,
    until: Spanned<Span>,
}

/// What holds of each edge by which requests are passed on.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawForward {
    accept: Option<RawAccepted>,
    #[serde(default)]
    reach: RawReach,
    advertise: Option<Spanned<Span>>,
}

/// What holds of all brokers, sites and guests of a network.
struct Rules {
    sharing: Sharing,
    forward: RawForward,
    /// For how long sites delegate.
    delegation: Span,
    workload: Workload,
}

/// The actors of one place by their names.
struct Home {
    broker: Name,
    site: Name,
    guest: Name,
}

/// Brokers by their places, with what they do for each other and what their sites have.
struct Plan {
    homes: Vec<Home>,
    edges: Vec<Edge>,
    stock: StockOf,
    central: bool,
}

impl Check<'_> {
    /// The actors of a network as the file describes it.
    pub(super) fn topology(
        &self,
        raw: Spanned<RawTopology>,
        file: File,
        (times, seed): (Times, u64),
    ) -> Checked<Actors> {
        self.nothing_listed(&file)?;
        let (place, raw) = (raw.span(), raw.into_inner());
        let plan = self.plan(&raw, place.clone(), Chance::new(seed))?;
        let units = plan.stock.values().flat_map(BTreeMap::values);
        let units: u64 = units.map(|units| u64::from(units.get())).sum();
        let units = u32::try_from(units).ok().filter(|units| (1..=MAX_UNITS).contains(units));
        let Some(units) = units else {
            let message = format!("all sites together must have 1 to {MAX_UNITS} units");
            return self.refuse(place, message, "change what they have");
        };
        let names: Vec<&Name> = plan.homes.iter().map(|home| &home.broker).collect();
        let links = Links {
            nodes: plan.nodes(),
            delay: raw.delay,
            cuts: raw.cut.iter().map(|cut| self.cut(cut, &names)).collect::<Checked<_>>()?,
        };
        let rules = Rules {
            // Without terms it lasts for as long as what is lent.
            sharing: file.share.map_or_else(
                || Sharing { term: times.delegation, ..Sharing::default() },
                |share| share.into_inner().0,
            ),
            forward: file.forward.map(Spanned::into_inner).unwrap_or_default(),
            delegation: times.delegation,
            workload: self.workload(file.workload.map(Spanned::into_inner).unwrap_or_default())?,
        };
        let brokers = self.brokers_of(&plan, &rules)?;
        let (sites, service_managers) = (plan.sites(&rules), plan.guests(&rules));
        Ok(Actors { sites, brokers, service_managers, links, units })
    }

    /// A network has all its actors.
    fn nothing_listed(&self, file: &File) -> Checked<()> {
        let named = file.site.keys().chain(file.broker.keys()).chain(file.service_manager.keys());
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
        Ok(())
    }

    fn plan(&self, raw: &RawTopology, place: Range<usize>, chance: Chance) -> Checked<Plan> {
        let stock = raw.stock.as_ref().map(|file| self.table(file, tables::stock)).transpose()?;
        let listed = raw.edges.as_ref().map(|file| self.table(file, tables::edges)).transpose()?;
        let ends = listed.iter().flatten().flat_map(|(from, to, _)| [from, to]);
        let named: BTreeSet<&Name> = ends.chain(stock.iter().flat_map(BTreeMap::keys)).collect();
        let names: Vec<Name> = match (&raw.brokers, named.is_empty()) {
            (Some(brokers), true) => numbered("b", self.count("brokers", brokers, MAX_BROKERS)?),
            (Some(brokers), false) => {
                let help = "leave out `brokers`: the files name them";
                return self.refuse(brokers.span(), "the brokers are counted and named", help);
            }
            (None, false) => named.into_iter().cloned().collect(),
            (None, true) => {
                let help = "set `brokers` to a number, or `edges` or `stock` to a file";
                return self.refuse(place, "how many brokers are there?", help);
            }
        };
        let (edges, central) = match (listed, &raw.shape) {
            (Some(listed), None) => (placed(&listed, &names), false),
            (None, Some(shape)) => {
                let measures = self.measures(raw, names.len())?;
                let edges = edges(*shape.get_ref(), names.len(), measures, chance);
                (edges, *shape.get_ref() == Shape::Central)
            }
            (Some(_), Some(shape)) => {
                let help = "leave out one of `shape` and `edges`";
                return self.refuse(shape.span(), "the edges have a shape and a file", help);
            }
            (None, None) => {
                let help = "set `shape` to \"tree\", \"mesh\", \"both\", \"ring\", \"line\" or \
                            \"central\", or `edges` to a file";
                return self.refuse(place, "how are the brokers joined?", help);
            }
        };
        let stock = match stock {
            Some(stock) => self.only_listed(raw, stock)?,
            None => self.drawn_stock(raw, &names, chance)?,
        };
        let plan = Plan { homes: self.homes(names, &place)?, edges, stock, central };
        let actors = 3 * plan.homes.len() + usize::from(central);
        if plan.nodes().len() < actors {
            let message = "two actors would have the same name";
            let help =
                format!("name no broker `{CENTRAL}`, nor as `a.site` or `a.guest` of another");
            return self.refuse(place, message, help);
        }
        Ok(plan)
    }

    /// The actors of each place.
    fn homes(&self, names: Vec<Name>, place: &Range<usize>) -> Checked<Vec<Home>> {
        let part = |broker: &Name, what: &str| {
            Name::new(&format!("{broker}.{what}")).or_else(|bad| {
                let help =
                    "give the broker a shorter name, since its site and its guest have it too";
                self.refuse(place.clone(), bad.to_string(), help)
            })
        };
        let home = |broker: Name| {
            let (site, guest) = (part(&broker, "site")?, part(&broker, "guest")?);
            Ok(Home { broker, site, guest })
        };
        names.into_iter().map(home).collect()
    }

    fn table<T>(
        &self,
        file: &Spanned<String>,
        read: impl Fn(&str) -> Result<T, String>,
    ) -> Checked<T> {
        let text = self.read(file)?;
        read(&text).or_else(|cause| {
            let message = format!("the file `{}`: {cause}", file.get_ref());
            self.refuse(file.span(), message, "docs/SCENARIOS.md has the columns of each file")
        })
    }

    fn count(&self, key: &str, count: &Spanned<u32>, most: u32) -> Checked<usize> {
        let value = *count.get_ref();
        if !(1..=most).contains(&value) {
            let message = format!("`{key}` must not be {value}");
            return self.refuse(count.span(), message, format!("write a number from 1 to {most}"));
        }
        Ok(value as usize)
    }

    /// What does not belong to a shape is left alone, so that shapes can be compared.
    fn measures(&self, raw: &RawTopology, brokers: usize) -> Checked<Measures> {
        let most = u32::try_from(brokers).unwrap_or(MAX_BROKERS).saturating_sub(1).max(1);
        let measure = |key, given: &Option<Spanned<u32>>, usual: u32| match given {
            None => Ok(usual.min(most) as usize),
            Some(given) => self.count(key, given, most),
        };
        let (degree, fan_out) =
            (measure("degree", &raw.degree, 6)?, measure("fan-out", &raw.fan_out, 10)?);
        Ok(Measures { degree, fan_out })
    }

    /// The stock of a file, next to which nothing is drawn.
    fn only_listed(&self, raw: &RawTopology, stock: StockOf) -> Checked<StockOf> {
        match [&raw.types, &raw.per_broker, &raw.units].into_iter().flatten().next() {
            None => Ok(stock),
            Some(drawn) => {
                let help = "leave out `types`, `per-broker` and `units`, or `stock`";
                self.refuse(drawn.span(), "the stock is in a file", help)
            }
        }
    }

    /// Some types at the site of each broker, drawn evenly, with as many units each.
    fn drawn_stock(&self, raw: &RawTopology, names: &[Name], chance: Chance) -> Checked<StockOf> {
        let count = |key, given: &Option<Spanned<u32>>, usual: usize, most: u32| {
            given.as_ref().map_or(Ok(usual), |given| self.count(key, given, most))
        };
        let types = match count("types", &raw.types, 1, MAX_UNITS)? {
            1 => vec![Name::literal(NODE)],
            types => numbered("t", types),
        };
        let most = u32::try_from(types.len()).unwrap_or(MAX_UNITS);
        let each = count("per-broker", &raw.per_broker, 1, most)?;
        let units = count("units", &raw.units, 4, MAX_UNITS)?;
        let units = u32::try_from(units).ok().and_then(NonZeroU32::new).unwrap_or(NonZeroU32::MIN);
        let of_broker = |(place, name): (u64, &Name)| {
            let mut chance = chance.of(Purpose::Topology, &[1, place]);
            let mut order: Vec<&Name> = types.iter().collect();
            let (drawn, _) = order.partial_shuffle(&mut chance, each);
            let drawn = drawn.iter().map(|resource| ((*resource).clone(), units));
            (name.clone(), drawn.collect())
        };
        Ok((0..).zip(names).map(of_broker).collect())
    }

    fn cut(&self, cut: &RawCut, names: &[&Name]) -> Checked<Cut> {
        let node = |name: &Spanned<Name>| match names.binary_search(&name.get_ref()) {
            Ok(place) => Ok(place),
            Err(_) => {
                let known = names.iter().map(|name| name.as_str());
                let help = suggestion(name.get_ref().as_str(), known);
                self.refuse(name.span(), format!("no broker `{}`", name.get_ref()), help)
            }
        };
        let at = |span: &Spanned<Span>| Time::ZERO.plus(*span.get_ref());
        let term = Term::new(at(&cut.from), at(&cut.until)).or_else(|_| {
            let message = "a cut ends after it begins";
            self.refuse(cut.until.span(), message, "set `until` to a later time than `from`")
        })?;
        let edges = cut.edges.iter().map(|(a, b)| Ok((node(a)?, node(b)?)));
        let edges = edges.map(|edge| edge.map(|(a, b)| (a.min(b), a.max(b))));
        let apart = cut.brokers.iter().map(node);
        let most = u32::try_from(names.len()).unwrap_or(MAX_BROKERS);
        let first = cut.first.as_ref().map(|first| self.count("first", first, most)).transpose()?;
        Ok(Cut {
            edges: edges.collect::<Checked<_>>()?,
            apart: apart.collect::<Checked<_>>()?,
            first: first.unwrap_or(0),
            term,
        })
    }

    fn brokers_of(&self, plan: &Plan, rules: &Rules) -> Checked<BTreeMap<Name, Broker>> {
        let RawForward { accept, reach: far, advertise } = &rules.forward;
        let accept = accept.clone().unwrap_or(RawAccepted::Whether(true)).accepted();
        let (reach, search) = (far.reach(self.sources)?, far.search());
        let hold = far.hold(self.sources)?;
        let advertise = tenure_config::advertise(advertise.as_ref(), self.sources)?;
        let broker = |peers| Broker {
            mapper: broker_mapper(),
            mapper_delay: Span::ZERO,
            quotas: BTreeMap::new(),
            prices: BTreeMap::new(),
            peers,
            reach,
            search,
            hold,
            advertise,
            pauses: false,
        };
        if plan.central {
            return Ok(BTreeMap::from([(Name::literal(CENTRAL), broker(BrokerPeers::default()))]));
        }
        let mut peers = vec![BrokerPeers::default(); plan.homes.len()];
        for &Edge { from, to, kind } in &plan.edges {
            let name = |place: usize| plan.homes[place].broker.clone();
            match kind {
                EdgeKind::Share => drop(peers[from].sharings.insert(name(to), rules.sharing)),
                EdgeKind::Forward => {
                    peers[from].neighbours.entry(name(to)).or_default().forward = true;
                    peers[to].neighbours.entry(name(from)).or_default().accept.clone_from(&accept);
                }
            }
        }
        let names = plan.homes.iter().map(|home| home.broker.clone());
        Ok(names.zip(peers.into_iter().map(broker)).collect())
    }
}

impl Plan {
    /// Where each actor is.
    fn nodes(&self) -> BTreeMap<Name, usize> {
        let of_home = |(place, Home { broker, site, guest }): (usize, &Home)| {
            [broker, site, guest].map(|name| (name.clone(), place))
        };
        let mut nodes: BTreeMap<_, _> = self.homes.iter().enumerate().flat_map(of_home).collect();
        if self.central {
            nodes.insert(Name::literal(CENTRAL), self.homes.len());
        }
        nodes
    }

    /// The broker that a site lends to and a guest asks.
    fn broker(&self, home: &Home) -> Name {
        if self.central { Name::literal(CENTRAL) } else { home.broker.clone() }
    }

    fn sites(&self, rules: &Rules) -> BTreeMap<Name, Site> {
        let site = |home: &Home| {
            let stock = |(resource, &units): (&Name, &NonZeroU32)| {
                let stock = Stock {
                    units: units.get(),
                    attributes: Attributes::default(),
                    named: BTreeMap::new(),
                    brokers: BTreeMap::from([(self.broker(home), units)]),
                    delegation: rules.delegation,
                };
                (resource.clone(), stock)
            };
            let site = Site {
                stocks: self.stock.get(&home.broker)?.iter().map(stock).collect(),
                stacks: Stacks::default(),
                setup: Delay::ZERO,
                teardown: Delay::ZERO,
                failure: 0.0,
                quarantine_after: 0,
                mapper: site_mapper(),
                mapper_delay: Span::ZERO,
            };
            Some((home.site.clone(), site))
        };
        self.homes.iter().filter_map(site).collect()
    }

    fn guests(&self, rules: &Rules) -> BTreeMap<Name, ServiceManager> {
        let all = self.stock.values().flat_map(BTreeMap::keys);
        let some = all.min().cloned().unwrap_or_else(|| Name::literal(NODE));
        let guest = |home: &Home| {
            let own = self.stock.get(&home.broker);
            let first = own.and_then(BTreeMap::first_key_value);
            let manager = ServiceManager {
                broker: self.broker(home),
                resource: first.map_or(&some, |(resource, _)| resource).clone(),
                mapper: guest_mapper(&rules.workload),
                mapper_delay: Span::ZERO,
                join: Delay::ZERO,
                leave: Delay::ZERO,
                leave_before: Span::ZERO,
                peak: first.map_or(0, |(_, units)| units.get()),
                workload: rules.workload.clone(),
                services: BTreeMap::new(),
                home: home.broker.clone(),
                at_hand: own.iter().flat_map(|own| own.keys().cloned()).collect(),
                requests: Arc::default(),
            };
            (home.guest.clone(), manager)
        };
        self.homes.iter().map(guest).collect()
    }
}

/// Names with numbers of one length, so that their order is that of their numbers.
fn numbered(letter: &str, count: usize) -> Vec<Name> {
    let digits = count.to_string().len();
    let name = |number| Name::new(&format!("{letter}{number:0digits$}"));
    (1..=count).filter_map(|number| name(number).ok()).collect()
}

/// Edges by the places of their brokers, which are in order.
fn placed(listed: &BTreeSet<(Name, Name, EdgeKind)>, names: &[Name]) -> Vec<Edge> {
    let place = |name: &Name| names.binary_search(name).ok();
    let placed = listed.iter().filter_map(|(from, to, kind)| {
        Some(Edge { from: place(from)?, to: place(to)?, kind: *kind })
    });
    placed.collect()
}
