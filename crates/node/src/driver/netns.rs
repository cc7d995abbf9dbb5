//! `netns`: a unit is a Linux network namespace, wired to the site's bridge, or to that of its slice in the
//! site's place, which stretches across hosts, or to other places by leased links.
//!
//! It has a host name, and an address from the private subnet of its slice. What a guest runs on it, by
//! `start` or `ip netns exec`, sees that network and no other. It needs root, and `ip` of iproute2.
//!
//! A bridge is one Ethernet: on the site's, subnets keep slices apart as long as no one who is root inside a
//! namespace gives himself an address of another's.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Duration;

use rustix::thread::{CapabilitySet, capabilities};
use serde::{Deserialize, Serialize};
use tenure_core::driver::{Call, DriverError, Epoch, ResourceDriver, Step};
use tenure_core::model::identity::Signer;
use tenure_core::model::keys::KeyChain;
use tenure_core::model::property::Properties;

use super::child::{end_all, found};
use super::executors::{self, ExecutorSettings, Executors};
use super::fence::{DriverSteps, Fence, Site, Work, hold, noted};
use super::gateway::{self, Ends, Gateway, Outside};
use super::iproute::{self, Alone, Runs, is_of, needs_root, no_place, program};
use super::network::{Interface, Subnets};
use super::overlay::{Hosts, MTU, Overlay, SliceNetwork};
use super::record::{Key, Record, about, create_folder, replace};
use super::roster::{Place, Roster, host_name, is_host, list};
use super::stop::Stop;
use crate::net::executor::ExecutorAt;

/// The property with the name of a unit's namespace.
pub(crate) const NAMESPACE: &str = "unit.netns";

/// What `netns` takes.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Settings {
    /// The bridge of the site; made if it is not there.
    bridge: Interface,
    /// What the slices' subnets are cut from, as `172.16.0.0/16`.
    network: Subnets,
    /// The domain of the units' host names.
    domain: Option<String>,
    /// The most that a unit may receive, in megabits a second.
    rate_mbit: Option<u32>,
    /// The network namespace that the site's bridges are in, if not this process's own.
    place: Option<Interface>,
    /// The hosts that each slice has one network across.
    vxlan: Option<Hosts>,
    /// Where the masters of guests are, if they are to reach their units.
    gateway: Option<Outside>,
    /// The executor of this host, if tenants may run commands in their units.
    executor: Option<ExecutorSettings>,
    /// The users as whom they may, beside that of the executor.
    users: Vec<String>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            bridge: Interface("tenure0".to_owned()),
            network: Subnets::default(),
            domain: None,
            rate_mbit: None,
            place: None,
            vxlan: None,
            gateway: None,
            executor: None,
            users: Vec::new(),
        }
    }
}

/// What is noted of a unit while something of it may exist.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Note {
    epoch: Epoch,
    address: Ipv4Addr,
    properties: Properties,
    /// The network of its slice, if that stretches across hosts.
    #[serde(default)]
    network: Option<SliceNetwork>,
    /// The way to its master, if its guest names one.
    #[serde(default)]
    gateway: Option<Gateway>,
}

/// The units of one site.
struct Namespaces {
    home: PathBuf,
    settings: Settings,
    roster: Roster,
    ip: PathBuf,
    /// `tc`, if units have limits.
    tc: Option<PathBuf>,
    /// What makes the networks of slices, if each has one of its own.
    overlay: Option<Overlay>,
    /// What runs commands in units, and how it is asked.
    executor: Option<ExecutorAt>,
    executors: Executors,
}

/// Fails unless the processes of all users in a unit can be listed and killed: `ip netns pids` leaves out those that
/// it may not inspect.
fn needs_to_end_all() -> io::Result<()> {
    let needed = CapabilitySet::KILL | CapabilitySet::SYS_PTRACE;
    if capabilities(None)?.effective.contains(needed) {
        return Ok(());
    }
    let why = "needs the capabilities CAP_KILL and CAP_SYS_PTRACE, to end what guests leave running in \
               units: add them to the `CapabilityBoundingSet` of the service";
    Err(io::Error::new(io::ErrorKind::PermissionDenied, why))
}

/// Opens the driver, or says what is missing.
pub(crate) fn site(home: &Path, settings: Settings) -> io::Result<Box<dyn ResourceDriver>> {
    let instead = "or lend units of the driver `process`";
    needs_root("to create network namespaces and interfaces", instead)?;
    needs_to_end_all()?;
    let ip = program("ip")?;
    let tc = settings.rate_mbit.map(|_| program("tc")).transpose()?;
    let across = settings.vxlan.clone();
    let across = across.map(|hosts| Ok::<_, io::Error>((hosts, program("bridge")?))).transpose()?;
    let own = across.is_some() || settings.place.is_some();
    let overlay = own.then_some(Overlay { across });
    let fence = Fence::open(home)?;
    let home = home.canonicalize()?;
    let roster = Roster::open(&home)?;
    let executor = settings.executor.clone().map(ExecutorAt::from);
    let executors = Executors::default();
    let steps = Namespaces { home, settings, roster, ip, tc, overlay, executor, executors };
    steps.find_place()?;
    steps.find_outside()?;
    Ok(Box::new(Site { fence: fence.into(), steps }))
}

/// A command that runs another one inside a namespace.
pub(crate) fn inside(namespace: &str, command: &[String]) -> Result<Vec<String>, DriverError> {
    let Interface(namespace) = namespace.to_owned().try_into().map_err(DriverError)?;
    let ip = program("ip").map_err(|error| DriverError(error.to_string()))?;
    let mut words: Vec<String> = vec![ip.display().to_string()];
    words.extend(["netns", "exec", &namespace].map(str::to_owned));
    words.extend_from_slice(command);
    Ok(words)
}

impl DriverSteps for Namespaces {
    fn perform(&self, work: &Work<'_>) -> Result<Properties, DriverError> {
        let key = work.key();
        let run = |program: &Path, words: &[&str]| self.run(program, words, work.stop);
        if work.call.step == Step::Modify {
            let Some(note) = work.note::<Note>()? else {
                return Err(DriverError(format!("{} was never set up", key.unit)));
            };
            Gateway::stays(note.gateway, work.call)?;
            write_names(key, &note, neighbours(work.call)?)?;
            return Ok(note.properties);
        }
        if work.call.step != Step::Setup {
            self.tell_executor(work)?;
            self.clean(key, &run)?;
            self.roster.release(key)?;
            let _alone = self.alone()?;
            self.sweep_gateways(key, &run)?;
            if let Some(overlay) = &self.overlay {
                overlay.sweep(&self.ip, &run)?;
            }
            return Ok(Properties::default());
        }
        let before = work.note::<Note>()?;
        if let Some(note) = before.filter(|note| work.interrupted && note.epoch == work.call.epoch)
            && self.look(key, &note, &run).is_ok()
        {
            self.tell_executor(work)?;
            return Ok(note.properties);
        }
        self.clean(key, &run)?;
        let place = self.roster.take(work.call)?;
        let host = host_name(work.call, place, self.settings.domain.as_deref())?;
        let (address, gateway) = self.addresses(work.call, place)?;
        if let Some(gateway) = gateway {
            gateway.admit(&self.ip, &run)?;
        }
        let (guest, slice) = (work.call.guest, &work.call.slice);
        let network = self.overlay.as_ref().map(|_| SliceNetwork::of(guest, slice));
        let properties = list([
            ("host.name", Some(host)),
            ("host.ipv6", network.map(|network| network.address(key).to_string())),
            ("host.privipaddr", Some(address.to_string())),
            ("subnet.privnetmask", Some(Subnets::MASK.to_owned())),
            ("subnet.gateway", gateway.map(|gateway| gateway.outside.to_string())),
            (NAMESPACE, Some(name(key))),
            (executors::ADDRESS, self.executor.as_ref().map(|at| at.address.clone())),
            (executors::ID, self.executor.as_ref().map(|at| at.id.to_hex())),
        ])?;
        let note = Note { epoch: work.call.epoch, address, properties, network, gateway };
        let neighbours = neighbours(work.call)?;
        work.keep(&note)?;
        self.make(key, &note, &run)?;
        write_names(key, &note, neighbours)?;
        self.tell_executor(work)?;
        Ok(note.properties)
    }

    fn modifies(&self) -> bool {
        true
    }

    fn probe(&self, key: Key, record: Option<&Record>) -> Result<Properties, DriverError> {
        let note = record.map(noted::<Note>).transpose()?.flatten();
        let note = note.ok_or_else(|| DriverError(format!("{} was never set up", key.unit)))?;
        let stop = Stop::new().map_err(|error| DriverError(error.to_string()))?;
        self.look(key, &note, &|program, words| self.run(program, words, &stop))?;
        if let Some(executor) = &self.executor {
            self.executors.probe(executor, key.unit)?;
        }
        Ok(note.properties)
    }

    fn acts_by(&self, signer: &Signer, keys: &KeyChain) {
        self.executors.acts_by(signer, keys);
    }
}

/// A unit's namespace, and its interface at the bridge: the site, then the unit, within 15 characters.
fn name(key: Key) -> String {
    format!("t{}{:x}", key.short_site(), key.unit.0)
}

impl Namespaces {
    /// Has the executor begin the tenancy in the namespace of the unit, or end it.
    fn tell_executor(&self, work: &Work<'_>) -> Result<(), DriverError> {
        let Some(executor) = &self.executor else { return Ok(()) };
        let properties = list([(NAMESPACE, Some(name(work.key())))])?;
        let call = Call { properties, ..work.call.clone() };
        self.executors.step(executor, (&call, &self.settings.users), work.stop)
    }

    /// Runs a command to its end: in the site's place, unless it is about namespaces or in another one.
    fn run(&self, program: &Path, words: &[&str], stop: &Stop) -> Result<String, DriverError> {
        let elsewhere = matches!(words.first(), Some(&("-n" | "netns")));
        match &self.settings.place {
            Some(Interface(place)) if !elsewhere => {
                iproute::run(&self.home, program, &[&["-n", place][..], words].concat(), stop)
            }
            Some(_) | None => iproute::run(&self.home, program, words, stop),
        }
    }

    /// The right to make and remove bridges and gateways.
    fn alone(&self) -> Result<Alone, DriverError> {
        Alone::in_place(self.settings.place.as_ref().map(|Interface(place)| place.as_str()))
    }

    /// Makes sure that there is the site's place.
    fn find_place(&self) -> io::Result<()> {
        let Some(Interface(place)) = &self.settings.place else { return Ok(()) };
        if iproute::places(&self.home, &self.ip, &Stop::new()?)
            .map_err(io::Error::other)?
            .contains(place)
        {
            return Ok(());
        }
        Err(no_place("`place`", place))
    }

    /// Makes the namespace of a unit that has none.
    fn make(&self, key: Key, note: &Note, run: &Runs<'_>) -> Result<(), DriverError> {
        let (name, bridge) = (name(key), self.bridge_of(note));
        let ip = |words: &[&str]| run(&self.ip, words);
        let address = format!("{}/{}", note.address, Subnets::SUBNET);
        ip(&["netns", "add", &name])?;
        ip(&[
            "link", "add", "name", &name, "type", "veth", "peer", "name", "eth0", "netns", &name,
        ])?;
        {
            let _alone = self.alone()?;
            self.make_bridge(note, run)?;
            ip(&["link", "set", "dev", &name, "master", &bridge, "up"])?;
            self.make_gateway(key, note, run)?;
        }
        ip(&["-n", &name, "address", "add", &address, "dev", "eth0"])?;
        ip(&["-n", &name, "link", "set", "dev", "lo", "up"])?;
        if let Some(network) = note.network {
            let address = format!("{}/64", network.address(key));
            let mtu = MTU.to_string();
            ip(&["-n", &name, "link", "set", "dev", "eth0", "mtu", &mtu])?;
            ip(&["-n", &name, "address", "add", &address, "dev", "eth0", "nodad"])?;
        }
        ip(&["-n", &name, "link", "set", "dev", "eth0", "up"])?;
        if let Some(gateway) = note.gateway {
            gateway.lead(&name, &self.ip, run)?;
        }
        if let (Some(tc), Some(rate)) = (&self.tc, self.settings.rate_mbit) {
            let rate = format!("{rate}mbit");
            let bucket = ["tbf", "rate", &rate, "burst", "64kb", "latency", "50ms"];
            run(tc, &[&["qdisc", "add", "dev", &name, "root"], &bucket[..]].concat())?;
        }
        Ok(())
    }

    /// The bridge that a unit is connected to.
    fn bridge_of(&self, note: &Note) -> String {
        note.network.map_or_else(|| self.settings.bridge.0.clone(), SliceNetwork::bridge)
    }

    fn make_bridge(&self, note: &Note, run: &Runs<'_>) -> Result<(), DriverError> {
        if let (Some(overlay), Some(network)) = (&self.overlay, note.network) {
            return overlay.make(network, &self.ip, run);
        }
        let (ip, bridge) = (|words: &[&str]| run(&self.ip, words), self.bridge_of(note));
        if ip(&["-o", "link", "show"])?.lines().all(|line| !is_of(line, &bridge)) {
            ip(&["link", "add", "name", &bridge, "type", "bridge"])?;
        }
        ip(&["link", "set", "dev", &bridge, "up"]).map(drop)
    }

    /// The address of a unit, and its gateway.
    fn addresses(
        &self,
        call: &Call,
        place: Place,
    ) -> Result<(Ipv4Addr, Option<Gateway>), DriverError> {
        let (Settings { network, gateway, .. }, Place { block, number }) = (&self.settings, place);
        let room = Subnets::LAST - u32::from(gateway.is_some());
        if number > room {
            return Err(DriverError(format!(
                "the subnet of the slice is full: it has {room} addresses"
            )));
        }
        let way = gateway.as_ref().map(|outside| Gateway::of(call, outside, *network, block));
        Ok((network.address(block, number)?, way.transpose()?.flatten()))
    }

    /// Makes sure that there is a bridge for gateways, if they need one.
    fn find_outside(&self) -> io::Result<()> {
        let Some(Outside { bridge: Interface(bridge), .. }) = &self.settings.gateway else {
            return Ok(());
        };
        let stop = Stop::new()?;
        let bridges = self.run(&self.ip, &["-o", "link", "show", "type", "bridge"], &stop);
        if bridges.map_err(io::Error::other)?.lines().any(|line| is_of(line, bridge)) {
            return Ok(());
        }
        let why = format!(
            "`gateway` needs the bridge `{bridge}`, which this host does not have: make it, and \
             connect to it the interface by which the host reaches the network of the masters"
        );
        Err(io::Error::new(io::ErrorKind::NotFound, why))
    }

    fn make_gateway(&self, key: Key, note: &Note, run: &Runs<'_>) -> Result<(), DriverError> {
        let (Some(gateway), Some(outside)) = (note.gateway, &self.settings.gateway) else {
            return Ok(());
        };
        // What a crash left of another slice may have the same address.
        self.sweep_gateways(key, run)?;
        let (inside, mtu) = (self.bridge_of(note), note.network.map(|_| MTU));
        let ends = Ends { inside: &inside, outside: &outside.bridge.0, mtu };
        gateway.make(key, &ends, &self.ip, run)
    }

    fn sweep_gateways(&self, site: Key, run: &Runs<'_>) -> Result<(), DriverError> {
        let slices = self.roster.slices();
        let slices: Vec<_> =
            slices.iter().map(|(guest, slice)| SliceNetwork::of(*guest, slice)).collect();
        gateway::sweep(site, &slices, &self.ip, run)
    }

    /// Whether the namespace of a unit is as it was made.
    fn look(&self, key: Key, note: &Note, run: &Runs<'_>) -> Result<(), DriverError> {
        let (name, bridge) = (name(key), self.bridge_of(note));
        let wrong = |what: &str| DriverError(format!("{} has no {what}", key.unit));
        let wired = run(&self.ip, &["-o", "link", "show", "master", &bridge, "up"])?;
        if wired.lines().all(|line| !is_of(line, &name)) {
            return Err(wrong("interface at the bridge"));
        }
        let shown =
            run(&self.ip, &["-n", &name, "-o", "-4", "address", "show", "dev", "eth0", "up"])?;
        let address = format!("{}/{}", note.address, Subnets::SUBNET);
        if shown.split_whitespace().all(|word| word != address) {
            return Err(wrong(&format!("address {address}")));
        }
        if !names(&name).join("hostname").is_file() {
            return Err(wrong("host name"));
        }
        Ok(())
    }

    /// Removes whatever there is of a unit, with what runs in it.
    fn clean(&self, key: Key, run: &Runs<'_>) -> Result<(), DriverError> {
        let name = name(key);
        let ip = |words: &[&str]| run(&self.ip, words);
        let spaces = ip(&["netns", "list"])?;
        if spaces.lines().any(|line| line.split_whitespace().next() == Some(&name)) {
            let failed = Mutex::new(None);
            let inhabitants = || match ip(&["netns", "pids", &name]) {
                Ok(pids) => found(pids.lines().filter_map(|pid| pid.trim().parse().ok())),
                Err(error) => {
                    *hold(&failed) = Some(error);
                    BTreeSet::new()
                }
            };
            end_all(&inhabitants, Duration::ZERO)
                .map_err(|error| DriverError(error.to_string()))?;
            if let Some(error) = hold(&failed).take() {
                return Err(error);
            }
            ip(&["netns", "del", &name])?;
        }
        // Goes with its namespace, but in the kernel's own time.
        if ip(&["-o", "link", "show"])?.lines().any(|line| is_of(line, &name))
            && let Err(error) = ip(&["link", "del", "dev", &name])
            && ip(&["-o", "link", "show"])?.lines().any(|line| is_of(line, &name))
        {
            return Err(error);
        }
        let folder = names(&name);
        match fs::remove_dir_all(&folder) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(DriverError(about(&folder, error).to_string()))
            }
            _ => Ok(()),
        }
    }
}

/// Names the unit, itself and its neighbours, for what runs in its namespace: `ip netns exec` puts these
/// files in the place of the machine's own.
fn write_names(key: Key, note: &Note, neighbours: String) -> Result<(), DriverError> {
    let host = note.properties.get("host.name").unwrap_or_default();
    let short = host.split('.').next().unwrap_or(host);
    let mut hosts = format!("127.0.0.1 localhost\n{} {host} {short}\n", note.address);
    if let Some(network) = note.network {
        hosts += &format!("{} {host} {short}\n", network.address(key));
    }
    hosts += &neighbours;
    let folder = names(&name(key));
    create_folder(&folder)
        .and_then(|()| replace(&folder.join("hosts"), hosts.as_bytes()))
        .and_then(|()| replace(&folder.join("hostname"), format!("{host}\n").as_bytes()))
        .map_err(|error| DriverError(error.to_string()))
}

/// The lines for the other units of a slice, by the property `slice.hosts`: `ADDRESS NAME, ADDRESS NAME`.
fn neighbours(call: &Call) -> Result<String, DriverError> {
    let Some(text) = call.properties.get("slice.hosts") else { return Ok(String::new()) };
    let mut lines = String::new();
    for entry in text.split(',').map(str::trim).filter(|entry| !entry.is_empty()) {
        let (address, names) = entry.split_once(' ').unwrap_or((entry, ""));
        let names: Vec<&str> = names.split_whitespace().collect();
        let good = address.parse::<IpAddr>().is_ok()
            && !names.is_empty()
            && names.iter().all(|name| is_host(name));
        if !good {
            return Err(DriverError::untouched(format!(
                "property `slice.hosts` has `{}`: write `ADDRESS NAME, ADDRESS NAME`",
                entry.escape_debug()
            )));
        }
        lines += &format!("{address} {}\n", names.join(" "));
    }
    Ok(lines)
}

/// The files that a namespace has in the place of those in `/etc`.
fn names(namespace: &str) -> PathBuf {
    Path::new("/etc/netns").join(namespace)
}
