//! The gateway of a slice: by it the master of a guest reaches the units of this host by their addresses.
//!
//! It is a network namespace between the bridge of the units and a bridge of the host. Its routes decide
//! what passes: inside to the slice's subnet, outside to the masters of its units, and nowhere else. The
//! reverse path filter (RFC 3704) drops what comes from where no route leads. So it takes no packet filter,
//! the host forwards nothing itself, and none of its services is on a route.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;
use std::path::Path;

use serde::{Deserialize, Serialize};
use tenure_core::driver::{Call, DriverError};

use super::iproute::{Runs, is_of};
use super::network::{Interface, Network, Subnets};
use super::overlay::SliceNetwork;
use super::record::Key;

/// Where the masters of guests are.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Outside {
    /// The bridge of the host that connects to their network.
    pub(super) bridge: Interface,
    /// The addresses of gateways in that network, one for each slice from the second on.
    network: Network,
    /// The addresses that a master may have.
    masters: Network,
}

impl Outside {
    /// The address of a slice's gateway in the masters' network.
    fn address(&self, block: u32) -> Result<Ipv4Addr, DriverError> {
        let address = block.checked_add(1).and_then(|number| self.network.address(number));
        address.ok_or_else(|| DriverError(format!("no gateway is left in {}", self.network)))
    }

    /// The master that a guest names, if it names one.
    fn master(&self, call: &Call) -> Result<Option<Ipv4Addr>, DriverError> {
        let Some(text) = call.properties.get(MASTER) else { return Ok(None) };
        let refused = |why: &str| {
            let text = text.escape_debug();
            DriverError::untouched(format!("property `{MASTER}` is `{text}`: {why}"))
        };
        let master = text.parse().map_err(|_| refused("write the IPv4 address of your master"))?;
        if !self.masters.contains(master) || self.network.contains(master) {
            return Err(refused(&format!(
                "this site lets in masters of {}, except {} of its gateways",
                self.masters, self.network
            )));
        }
        Ok(Some(master))
    }
}

/// The property by which a guest names its master.
const MASTER: &str = "slice.master";

/// The way between a unit and its master.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Gateway {
    /// The slice that it is of.
    slice: SliceNetwork,
    /// Its address in the slice's subnet.
    inside: Ipv4Addr,
    /// Its address in the network of the masters.
    pub(super) outside: Ipv4Addr,
    /// The master of the unit.
    master: Ipv4Addr,
}

impl Gateway {
    /// The one for a unit, if its guest names a master.
    pub(super) fn of(
        call: &Call,
        outside: &Outside,
        subnets: Subnets,
        block: u32,
    ) -> Result<Option<Self>, DriverError> {
        let Some(master) = outside.master(call)? else { return Ok(None) };
        Ok(Some(Self {
            slice: SliceNetwork::of(call.guest, &call.slice),
            inside: subnets.address(block, Subnets::LAST)?,
            outside: outside.address(block)?,
            master,
        }))
    }

    /// Refuses a master that is this host: its services would be on a route.
    pub(super) fn admit(self, ip: &Path, run: &Runs<'_>) -> Result<(), DriverError> {
        let (shown, master) = (run(ip, &["-o", "-4", "address", "show"])?, self.master.to_string());
        if shown.lines().any(|line| address_in(line) == Some(&master)) {
            let why = format!("property `{MASTER}` is {master}: that is this host");
            return Err(DriverError::untouched(why));
        }
        Ok(())
    }

    /// Makes what is missing of it on this host.
    pub(super) fn make(
        self,
        site: Key,
        ends: &Ends<'_>,
        ip: &Path,
        run: &Runs<'_>,
    ) -> Result<(), DriverError> {
        let name = name(site, self.slice);
        let ip = |words: &[&str]| run(ip, words);
        if !self.is_whole(&name, ends, &ip)? {
            remove(&name, &ip)?;
            self.build(&name, ends, &ip)?;
        }
        let master = format!("{}/32", self.master);
        ip(&["-n", &name, "route", "replace", &master, "dev", OUTSIDE]).map(drop)
    }

    fn build(self, name: &str, ends: &Ends<'_>, ip: &Ip<'_>) -> Result<(), DriverError> {
        let (Self { inside, outside, .. }, beyond) = (self, outer(name));
        ip(&["netns", "add", name])?;
        ip(&["link", "add", "name", name, "type", "veth", "peer", "name", INSIDE, "netns", name])?;
        // The next gateway of this address has this hardware address too: masters may remember it.
        let [a, b, c, d] = outside.octets();
        let hardware = format!("02:00:{a:02x}:{b:02x}:{c:02x}:{d:02x}");
        let peer = ["peer", "name", OUTSIDE, "address", &hardware, "netns", name];
        ip(&[&["link", "add", "name", &beyond, "type", "veth"][..], &peer[..]].concat())?;
        ip(&["netns", "exec", name, "/bin/sh", "-ec", FORWARD])?;
        let subnet = format!("{inside}/{}", Subnets::SUBNET);
        ip(&["-n", name, "address", "add", &subnet, "dev", INSIDE])?;
        ip(&["-n", name, "address", "add", &format!("{outside}/32"), "dev", OUTSIDE])?;
        if let Some(mtu) = ends.mtu {
            ip(&["-n", name, "link", "set", "dev", INSIDE, "mtu", &mtu.to_string()])?;
        }
        ip(&["link", "set", "dev", name, "master", ends.inside, "up"])?;
        ip(&["link", "set", "dev", &beyond, "master", ends.outside, "up"])?;
        ip(&["-n", name, "link", "set", "dev", INSIDE, "up"])?;
        // The last step: what is up here is whole.
        ip(&["-n", name, "link", "set", "dev", OUTSIDE, "up"]).map(drop)
    }

    fn is_whole(self, name: &str, ends: &Ends<'_>, ip: &Ip<'_>) -> Result<bool, DriverError> {
        for (end, bridge) in [(name, ends.inside), (&outer(name), ends.outside)] {
            let wired = ip(&["-o", "link", "show", "master", bridge, "up"])?;
            if wired.lines().all(|line| !is_of(line, end)) {
                return Ok(false);
            }
        }
        let shown = ip(&["-n", name, "-o", "-4", "address", "show", "up"])?;
        let found: BTreeSet<_> = shown.lines().filter_map(address_in).collect();
        let own = [self.inside, self.outside].map(|address| address.to_string());
        Ok(found == own.iter().map(String::as_str).collect())
    }

    /// Leads a unit to its master.
    pub(super) fn lead(self, unit: &str, ip: &Path, run: &Runs<'_>) -> Result<(), DriverError> {
        let (master, inside) = (format!("{}/32", self.master), self.inside.to_string());
        run(ip, &["-n", unit, "route", "add", &master, "via", &inside]).map(drop)
    }

    /// Whether a changed configuration still names the same master.
    pub(super) fn stays(gateway: Option<Self>, call: &Call) -> Result<(), DriverError> {
        let now = gateway.map(|gateway| gateway.master.to_string());
        match (call.properties.get(MASTER), now) {
            (Some(named), Some(now)) if named != now => Err(DriverError(format!(
                "property `{MASTER}` is {now} while the unit is in use, and cannot become `{}`: \
                 lease other units for another master",
                named.escape_debug()
            ))),
            _ => Ok(()),
        }
    }
}

/// What a gateway is between.
pub(super) struct Ends<'a> {
    /// The bridge of the units.
    pub(super) inside: &'a str,
    /// That of the masters' network.
    pub(super) outside: &'a str,
    /// The most that units send at once, if that is less than usual.
    pub(super) mtu: Option<u32>,
}

/// Removes the gateways of a site's slices that are gone.
pub(super) fn sweep(
    site: Key,
    slices: &[SliceNetwork],
    ip: &Path,
    run: &Runs<'_>,
) -> Result<(), DriverError> {
    let ip = |words: &[&str]| run(ip, words);
    let kept: BTreeSet<String> = slices.iter().map(|slice| name(site, *slice)).collect();
    let spaces = ip(&["netns", "list"])?;
    for space in spaces.lines().filter_map(|line| line.split_whitespace().next()) {
        if space.starts_with(&prefix(site)) && !kept.contains(space) {
            remove(space, &ip)?;
        }
    }
    Ok(())
}

type Ip<'a> = dyn Fn(&[&str]) -> Result<String, DriverError> + 'a;

/// The interfaces in a gateway.
const INSIDE: &str = "eth0";
const OUTSIDE: &str = "eth1";

/// Forwards, between routes that lead both ways only, and answers for no address but that of the interface.
const FORWARD: &str = "
cd /proc/sys/net/ipv4
echo 1 >ip_forward
for interface in all eth0 eth1; do
    echo 1 >conf/$interface/rp_filter
    echo 1 >conf/$interface/arp_ignore
    for setting in accept_source_route accept_redirects send_redirects proxy_arp; do
        echo 0 >conf/$interface/$setting
    done
done
if [ -e /proc/sys/net/ipv6/conf/all ]; then
    echo 1 >/proc/sys/net/ipv6/conf/all/disable_ipv6
fi
";

fn remove(name: &str, ip: &Ip<'_>) -> Result<(), DriverError> {
    let spaces = ip(&["netns", "list"])?;
    if spaces.lines().all(|line| line.split_whitespace().next() != Some(name)) {
        return Ok(());
    }
    let links = ip(&["-o", "link", "show"])?;
    for end in [name, &outer(name)] {
        if links.lines().any(|line| is_of(line, end)) {
            ip(&["link", "del", "dev", end])?;
        }
    }
    ip(&["netns", "del", name]).map(drop)
}

/// A gateway's namespace, and its interface at the bridge of the units: no unit of the site is called so.
fn name(site: Key, slice: SliceNetwork) -> String {
    format!("{}{slice}", prefix(site))
}

fn prefix(site: Key) -> String {
    format!("tg{}", site.short_site())
}

/// Its interface at the bridge of the host.
fn outer(name: &str) -> String {
    name.replacen("tg", "to", 1)
}

/// The address in a line of `ip -o address`: `2: eth0    inet 10.0.0.1/24 scope ...`.
fn address_in(line: &str) -> Option<&str> {
    line.split_whitespace().nth(3)?.split('/').next()
}
