//! `link`: a unit is bandwidth on an edge between two places, each a network namespace of this host.
//!
//! What a slice has leased between two places is a *trunk*: a pair of connected interfaces, one in each place,
//! each of which sends no more than the sum of the shares. They are ports of the bridge that the slice has in
//! each place, the one to which `netns` with `vxlan` connects its units there. So nothing but a lease connects
//! two places, no one but its slice uses it, and leases of several edges in a row make a path. It needs root,
//! and `ip` and `tc` of iproute2.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard};

use serde::{Deserialize, Serialize};
use tenure_core::driver::{Call, DriverError, ResourceDriver, Step};
use tenure_core::model::codec::Hash;
use tenure_core::model::name::Name;
use tenure_core::model::property::Properties;

use super::bandwidth::Bandwidth;
use super::fence::{DriverSteps, Fence, Site, Work, hold};
use super::iproute::{self, Alone, is_of, name_in, needs_root, no_place, program};
use super::network::Interface;
use super::overlay::{SliceNetwork, remove_unused};
use super::record::{Key, Record, read, write};
use super::roster::list;
use super::stop::Stop;

/// How long a frame may wait for its turn before it is dropped.
const LATENCY: &str = "50ms";

/// What `link` takes.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Settings {
    /// The places that each edge, a stock of the site, is between.
    edges: BTreeMap<Name, Edge>,
    /// The bandwidth of a share of size 1.
    #[serde(default)]
    unit: Bandwidth,
}

/// The two places at the ends of an edge: network namespaces, by name.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "[String; 2]")]
struct Edge([String; 2]);

impl TryFrom<[String; 2]> for Edge {
    type Error = String;

    fn try_from(ends: [String; 2]) -> Result<Self, String> {
        for end in &ends {
            if Interface::try_from(end.clone()).is_err() {
                return Err(format!(
                    "`{}` is not the name of a network namespace: use 1 to 15 letters, digits and `_-.`",
                    end.escape_debug()
                ));
            }
        }
        if ends[0] == ends[1] {
            return Err(format!("both ends of an edge are `{}`: name two places", ends[0]));
        }
        Ok(Self(ends))
    }
}

/// What a slice has between two places, whichever way round.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Trunk {
    /// What the slice's bridges are named after.
    circuit: SliceNetwork,
    places: [String; 2],
}

impl Trunk {
    /// Its interfaces, the same name in both places, within 15 characters.
    fn name(&self, site: Key) -> String {
        let [one, two] = [&self.places[0], &self.places[1]].map(String::as_bytes);
        let hash = Hash::of("tenure link trunk", &[self.circuit.bridge().as_bytes(), one, two]);
        let [a, b, c, d, ..] = hash.to_bytes();
        format!("l{}{a:02x}{b:02x}{c:02x}{d:02x}", site.short_site())
    }
}

/// A share that is set up, or may be.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Share {
    key: Key,
    trunk: Trunk,
    rate: Bandwidth,
    /// That of a share of size 1, whose size changes while it is in use.
    #[serde(default)]
    unit: Bandwidth,
}

impl Share {
    fn properties(&self) -> Result<Properties, DriverError> {
        list([
            ("link.circuit", Some(self.trunk.circuit.bridge())),
            ("link.ends", Some(self.trunk.places.join(" "))),
            ("link.unit", Some(self.unit.to_string())),
        ])
    }
}

/// The shares of one site.
struct Links {
    home: PathBuf,
    settings: Settings,
    ip: PathBuf,
    tc: PathBuf,
    /// Trunks are made, looked at and removed by one of us at a time.
    shares: Mutex<Vec<Share>>,
}

/// Opens the driver, or says what is missing.
pub(crate) fn site(home: &Path, settings: Settings) -> io::Result<Box<dyn ResourceDriver>> {
    let instead = "or lend the edge by the driver `null`, which connects nothing";
    needs_root("to connect network namespaces", instead)?;
    let (ip, tc) = (program("ip")?, program("tc")?);
    let fence = Fence::open(home)?;
    let home = home.canonicalize()?;
    let shares = Mutex::new(read(&file(&home))?.unwrap_or_default());
    let steps = Links { home, settings, ip, tc, shares };
    steps.find_places()?;
    Ok(Box::new(Site { fence: fence.into(), steps }))
}

/// The shares that may be set up.
fn file(home: &Path) -> PathBuf {
    home.join("shares.json")
}

impl DriverSteps for Links {
    fn perform(&self, work: &Work<'_>) -> Result<Properties, DriverError> {
        let (key, tools) = (work.key(), Tools { links: self, stop: work.stop });
        let mut shares = hold(&self.shares);
        let before = shares.iter().find(|share| share.key == key).cloned();
        match work.call.step {
            Step::Setup => {
                let share = self.plan(work.call)?;
                if before.is_some_and(|before| before.trunk != share.trunk) {
                    self.give_back(&mut shares, key, &tools)?;
                }
                // What fails here is given back by the teardown that follows.
                self.keep(&mut shares, &share)?;
                tools.fit(&share, &shares)?;
                share.properties()
            }
            Step::Modify => {
                let before = before.ok_or_else(|| never(key))?;
                let rate = self.rate(work.call.quantity)?;
                let share = Share { rate, unit: self.settings.unit, ..before.clone() };
                self.keep(&mut shares, &share)?;
                if let Err(error) = tools.fit(&share, &shares) {
                    // It stays as it was; if not even that works, the next probe finds it.
                    self.keep(&mut shares, &before)?;
                    drop(tools.fit(&before, &shares));
                    return Err(error);
                }
                share.properties()
            }
            Step::Teardown
            | Step::Join
            | Step::Leave
            | Step::Warn
            | Step::Install
            | Step::Remove => {
                self.give_back(&mut shares, key, &tools)?;
                Ok(Properties::default())
            }
        }
    }

    fn modifies(&self) -> bool {
        true
    }

    fn probe(&self, key: Key, _: Option<&Record>) -> Result<Properties, DriverError> {
        let stop = Stop::new().map_err(|error| DriverError(error.to_string()))?;
        let shares = hold(&self.shares);
        let share = shares.iter().find(|share| share.key == key).ok_or_else(|| never(key))?;
        Tools { links: self, stop: &stop }.look(share, &shares)?;
        share.properties()
    }
}

fn never(key: Key) -> DriverError {
    DriverError(format!("{} is not set up", key.unit))
}

/// What all shares of a trunk come to; none if it has none.
fn sum(shares: &[Share], trunk: &Trunk) -> Result<Option<Bandwidth>, DriverError> {
    let mut rates = shares.iter().filter(|share| share.trunk == *trunk).map(|share| share.rate);
    let Some(first) = rates.next() else { return Ok(None) };
    let all = rates.try_fold(first, Bandwidth::plus);
    let too_much = || DriverError("the slice has more than any interface sends".to_owned());
    all.map(Some).ok_or_else(too_much)
}

impl Links {
    /// Makes sure that there are all places.
    fn find_places(&self) -> io::Result<()> {
        let stop = Stop::new()?;
        let places = Tools { links: self, stop: &stop }.places().map_err(io::Error::other)?;
        for (name, Edge(ends)) in &self.settings.edges {
            if let Some(missing) = ends.iter().find(|end| !places.contains(*end)) {
                return Err(no_place(&format!("edge `{name}`"), missing));
            }
        }
        Ok(())
    }

    fn rate(&self, quantity: NonZeroU32) -> Result<Bandwidth, DriverError> {
        self.settings.unit.times(quantity).ok_or_else(|| {
            let unit = self.settings.unit;
            DriverError(format!("{quantity} times {unit} is more than any interface sends"))
        })
    }

    /// What a call asks for.
    fn plan(&self, call: &Call) -> Result<Share, DriverError> {
        let Edge(mut places) =
            self.settings.edges.get(&call.resource).cloned().ok_or_else(|| {
                let known: Vec<&str> = self.settings.edges.keys().map(Name::as_str).collect();
                let (stock, known) = (&call.resource, known.join(", "));
                DriverError(format!("the stock `{stock}` is not among the `edges`: {known}"))
            })?;
        places.sort();
        let trunk = Trunk { circuit: SliceNetwork::of(call.guest, &call.slice), places };
        let (rate, unit) = (self.rate(call.quantity)?, self.settings.unit);
        Ok(Share { key: Key::of(call), trunk, rate, unit })
    }

    /// Has a share in the list, durably.
    fn keep(&self, shares: &mut Shares<'_>, share: &Share) -> Result<(), DriverError> {
        let others = shares.iter().filter(|other| other.key != share.key);
        let changed: Vec<Share> = others.chain([share]).cloned().collect();
        self.write(shares, changed)
    }

    /// Takes a share from its trunk, then from the list.
    fn give_back(
        &self,
        shares: &mut Shares<'_>,
        key: Key,
        tools: &Tools<'_>,
    ) -> Result<(), DriverError> {
        let (gone, others): (Vec<_>, Vec<_>) =
            shares.iter().cloned().partition(|share| share.key == key);
        for share in &gone {
            tools.fit(share, &others)?;
        }
        self.write(shares, others)
    }

    fn write(&self, shares: &mut Shares<'_>, changed: Vec<Share>) -> Result<(), DriverError> {
        write(&file(&self.home), &changed).map_err(|error| DriverError(error.to_string()))?;
        **shares = changed;
        Ok(())
    }
}

type Shares<'a> = MutexGuard<'a, Vec<Share>>;

/// The places that can be reached from one, by the trunks that end in both.
fn reached<'a>(from: &'a str, ports: &BTreeMap<&'a str, BTreeSet<String>>) -> BTreeSet<&'a str> {
    let mut reached = BTreeSet::from([from]);
    loop {
        let of = reached.iter().filter_map(|place| ports.get(place)).flatten();
        let trunks: BTreeSet<&String> = of.collect();
        let next = ports.iter().find(|(place, ports)| {
            !reached.contains(*place) && ports.iter().any(|port| trunks.contains(port))
        });
        let Some((place, _)) = next else { return reached };
        reached.insert(*place);
    }
}

/// The commands, for one step.
struct Tools<'a> {
    links: &'a Links,
    stop: &'a Stop,
}

impl Tools<'_> {
    fn run(&self, program: &Path, words: &[&str]) -> Result<String, DriverError> {
        iproute::run(&self.links.home, program, words, self.stop)
    }

    fn ip(&self, place: &str, words: &[&str]) -> Result<String, DriverError> {
        self.run(&self.links.ip, &[&["-n", place][..], words].concat())
    }

    fn tc(&self, place: &str, words: &[&str]) -> Result<String, DriverError> {
        self.run(&self.links.tc, &[&["-n", place][..], words].concat())
    }

    /// The network namespaces of the host that have names.
    fn places(&self) -> Result<BTreeSet<String>, DriverError> {
        iproute::places(&self.links.home, &self.links.ip, self.stop)
    }

    /// Makes the trunk of a share what the shares in a list come to, in place if it is there.
    fn fit(&self, share: &Share, shares: &[Share]) -> Result<(), DriverError> {
        let (trunk, name) = (&share.trunk, share.trunk.name(share.key));
        let [one, two] = &trunk.places;
        // In the same order by everybody, so that nobody waits for who waits for him.
        let _alone = (Alone::in_place(Some(one))?, Alone::in_place(Some(two))?);
        let Some(rate) = sum(shares, trunk)? else { return self.remove(trunk, &name) };
        if self.connected(trunk, &name).is_err() {
            self.remove(trunk, &name)?;
            self.refuse_circle(trunk)?;
            let peer = ["type", "veth", "peer", "name", &name, "netns", two];
            self.ip(one, &[&["link", "add", "name", &name][..], &peer].concat())?;
            // It is limited before it is connected.
            self.shape(trunk, &name, rate)?;
            return self.connect(trunk, &name);
        }
        self.shape(trunk, &name, rate)
    }

    /// Limits what both interfaces of a trunk send.
    fn shape(&self, trunk: &Trunk, name: &str, rate: Bandwidth) -> Result<(), DriverError> {
        let (rate, burst) = (rate.to_tc(), rate.burst().to_string());
        let bucket = ["tbf", "rate", &rate, "burst", &burst, "latency", LATENCY];
        // A queue of another number takes the place of the one that is there, with what waits in that: a packet that
        // waits and is larger than the new bucket would block a queue for ever.
        for (place, handle) in trunk.places.iter().flat_map(|place| [(place, "1:"), (place, "2:")])
        {
            let queue = ["qdisc", "replace", "dev", name, "root", "handle", handle];
            self.tc(place, &[&queue[..], &bucket].concat())?;
        }
        Ok(())
    }

    /// Connects a trunk to the bridges of its slice.
    fn connect(&self, trunk: &Trunk, name: &str) -> Result<(), DriverError> {
        let bridge = trunk.circuit.bridge();
        for place in &trunk.places {
            if !self.ip(place, &["-o", "link", "show"])?.lines().any(|line| is_of(line, &bridge)) {
                self.ip(place, &["link", "add", "name", &bridge, "type", "bridge"])?;
            }
            self.ip(place, &["link", "set", "dev", &bridge, "up"])?;
            self.ip(place, &["link", "set", "dev", name, "master", &bridge, "up"])?;
        }
        Ok(())
    }

    /// A circuit is one Ethernet, in which frames would go round in a circle for ever.
    fn refuse_circle(&self, trunk: &Trunk) -> Result<(), DriverError> {
        let (bridge, [one, two]) = (trunk.circuit.bridge(), &trunk.places);
        let there = self.places()?;
        let ends = self.links.settings.edges.values().flat_map(|Edge(ends)| ends);
        let mut ports = BTreeMap::new();
        for place in ends.filter(|place| there.contains(*place)) {
            ports.insert(place.as_str(), self.trunks(place, &bridge)?);
        }
        if reached(one, &ports).contains(two.as_str()) {
            return Err(DriverError::untouched(format!(
                "the slice has a way from {one} to {two} already, and another would make a circle: \
                 lease more of the edges of that one, or lease this edge for another slice"
            )));
        }
        Ok(())
    }

    /// The trunks that end at a bridge, of whichever site.
    fn trunks(&self, place: &str, bridge: &str) -> Result<BTreeSet<String>, DriverError> {
        let links = self.ip(place, &["-o", "link", "show", "type", "veth"])?;
        let names = links.lines().filter(|line| is_port(line, bridge)).filter_map(name_in);
        Ok(names.filter(|name| name.starts_with('l')).map(str::to_owned).collect())
    }

    /// Removes whatever there is of a trunk, and bridges that have no other port.
    fn remove(&self, trunk: &Trunk, name: &str) -> Result<(), DriverError> {
        let (bridge, places) = (trunk.circuit.bridge(), self.places()?);
        // What was in a namespace that is gone has gone with it.
        for place in trunk.places.iter().filter(|place| places.contains(*place)) {
            let there = self.ip(place, &["-o", "link", "show"])?;
            let has = |what: &str| there.lines().any(|line| is_of(line, what));
            // The second goes with the first.
            if has(name) {
                self.ip(place, &["link", "del", "dev", name])?;
            }
            if has(&bridge) {
                remove_unused(&bridge, &|words| self.ip(place, words))?;
            }
        }
        Ok(())
    }

    /// Whether a trunk is connected at both ends.
    fn connected(&self, trunk: &Trunk, name: &str) -> Result<(), DriverError> {
        let bridge = trunk.circuit.bridge();
        for place in &trunk.places {
            let up = self.ip(place, &["-o", "link", "show", "up"])?;
            if !up.lines().any(|line| is_of(line, name) && is_port(line, &bridge)) {
                return Err(DriverError(format!("the link is not connected in {place}")));
            }
        }
        Ok(())
    }

    /// Whether the trunk of a share is as it was made.
    fn look(&self, share: &Share, shares: &[Share]) -> Result<(), DriverError> {
        let (trunk, name) = (&share.trunk, share.trunk.name(share.key));
        self.connected(trunk, &name)?;
        let rate = sum(shares, trunk)?.unwrap_or(share.rate);
        for place in &trunk.places {
            let limits = self.tc(place, &["-j", "qdisc", "show", "dev", &name])?;
            if limit_in(&limits) != Some(rate) {
                return Err(DriverError(format!("the link is not limited to {rate} in {place}")));
            }
        }
        Ok(())
    }
}

/// Whether a line of `ip -o link` is about a port of a bridge.
fn is_port(line: &str, bridge: &str) -> bool {
    let mut words = line.split_whitespace().skip_while(|word| *word != "master");
    words.nth(1) == Some(bridge)
}

/// The rate of the token bucket among what `tc -j qdisc show` answers.
fn limit_in(text: &str) -> Option<Bandwidth> {
    #[derive(Deserialize)]
    struct Queue {
        kind: String,
        options: Option<Limit>,
    }
    #[derive(Deserialize)]
    struct Limit {
        /// In bytes a second.
        rate: Option<u64>,
    }
    let queues: Vec<Queue> = serde_json::from_str(text).ok()?;
    let bucket = queues.into_iter().find(|queue| queue.kind == "tbf")?;
    Bandwidth::of_bytes(bucket.options?.rate?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ports(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn places_are_reached_by_the_trunks_that_end_in_both() {
        let all = BTreeMap::from([
            ("a", ports(&["l1"])),
            ("b", ports(&["l1", "l2"])),
            ("c", ports(&["l2"])),
            ("d", ports(&[])),
        ]);
        assert_eq!(reached("a", &all), BTreeSet::from(["a", "b", "c"]));
        assert_eq!(reached("d", &all), BTreeSet::from(["d"]));
    }

    #[test]
    fn an_edge_has_two_places() {
        let edge = |one: &str, two: &str| Edge::try_from([one.to_owned(), two.to_owned()]);
        assert!(edge("lyon", "nice").is_ok());
        assert_eq!(
            edge("lyon", "lyon").unwrap_err(),
            "both ends of an edge are `lyon`: name two places"
        );
        assert!(edge("lyon", "-n").unwrap_err().starts_with("`-n` is not the name of a network"));
    }

    #[test]
    fn what_the_commands_say_is_read() {
        let line = r"2: l1@if2: <UP> mtu 1500 qdisc tbf master tb0a state UP mode DEFAULT\  link";
        assert!(is_port(line, "tb0a"));
        assert!(!is_port(line, "tb0"));
        let queues = r#"[{"kind":"tbf","root":true,"options":{"rate":5000000,"lat":50000}}]"#;
        assert_eq!(limit_in(queues).unwrap().to_string(), "40Mbit");
        assert_eq!(limit_in(r#"[{"kind":"noqueue","options":{}}]"#), None);
    }
}
