//! The network of a slice across the hosts of several sites: VXLAN (RFC 7348) between bridges.
//!
//! Each slice has a bridge of its own in each place, and across hosts a VXLAN interface that floods to the others.
//! Its number and its IPv6 prefix follow from guest and slice, and a unit's address from its site and
//! number: sites need not agree on anything, and no two units of a slice have the same address.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use tenure_core::driver::DriverError;
use tenure_core::model::codec::Hash;
use tenure_core::model::identity::ActorId;
use tenure_core::model::slice::SliceName;

use super::iproute::{Runs, is_of, name_in};
use super::record::Key;

/// What a frame has more between two hosts: outer Ethernet, IPv6, UDP and VXLAN.
const OVERHEAD: u32 = 14 + 40 + 8 + 8;

/// The most that a unit sends at once, on hosts whose interfaces take 1500 bytes.
pub(super) const MTU: u32 = 1500 - OVERHEAD;

/// The address under which a VXLAN interface has those to whom it sends what is for all.
const ALL: &str = "00:00:00:00:00:00";

/// The hosts that slices stretch across.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Hosts {
    /// The address of this host that the others reach.
    local: IpAddr,
    /// The addresses of the others.
    #[serde(default)]
    peers: Vec<IpAddr>,
    /// The UDP port of all of them.
    #[serde(default = "standard_port")]
    port: u16,
}

fn standard_port() -> u16 {
    4789
}

/// The network of a slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SliceNetwork {
    /// The VXLAN network identifier, of 24 bits.
    number: u32,
    /// The 40 random bits of a unique local prefix (RFC 4193).
    prefix: [u8; 5],
}

impl fmt::Display for SliceNetwork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:06x}", self.number)
    }
}

impl SliceNetwork {
    /// That of a guest's slice.
    pub(super) fn of(guest: ActorId, slice: &SliceName) -> Self {
        let guest = guest.to_hex();
        let hash = Hash::of("tenure slice network", &[guest.as_bytes(), slice.as_str().as_bytes()]);
        let [a, b, c, p @ ..] = hash.to_bytes();
        let prefix = std::array::from_fn(|place| p[place]);
        // Number 0 is no network's.
        Self { number: u32::from_be_bytes([0, a, b, c]).max(1), prefix }
    }

    /// The name of its bridge.
    pub(super) fn bridge(self) -> String {
        format!("tb{self}")
    }

    fn vxlan(self) -> String {
        format!("tx{self}")
    }

    /// The address of a unit; its prefix has 64 bits.
    pub(super) fn address(self, key: Key) -> Ipv6Addr {
        let [a, b, c, d, e] = self.prefix;
        let [s0, s1, s2, s3, ..] = key.site.first_bytes();
        let [u0, u1, u2, u3] = key.unit.0.to_be_bytes();
        Ipv6Addr::from([0xfd, a, b, c, d, e, 0, 0, s0, s1, s2, s3, u0, u1, u2, u3])
    }
}

/// The commands that make and remove networks of slices in a place.
pub(super) struct Overlay {
    /// The hosts that they stretch across, if they do, and `bridge` of iproute2.
    pub(super) across: Option<(Hosts, PathBuf)>,
}

impl Overlay {
    /// Makes what is missing of a slice's network here.
    pub(super) fn make(
        &self,
        network: SliceNetwork,
        ip: &Path,
        run: &Runs<'_>,
    ) -> Result<(), DriverError> {
        let bridge = network.bridge();
        let links = run(ip, &["-o", "link", "show"])?;
        if links.lines().all(|line| !is_of(line, &bridge)) {
            run(ip, &["link", "add", "name", &bridge, "type", "bridge"])?;
        }
        if let Some((hosts, program)) = &self.across {
            hosts.connect(network, &links, (ip, program), run)?;
        }
        run(ip, &["link", "set", "dev", &bridge, "up"]).map(drop)
    }

    /// Removes the networks of slices that have no unit here.
    pub(super) fn sweep(&self, ip: &Path, run: &Runs<'_>) -> Result<(), DriverError> {
        let bridges = run(ip, &["-o", "link", "show", "type", "bridge"])?;
        for bridge in bridges.lines().filter_map(name_in).filter(|name| is_slice(name)) {
            remove_unused(bridge, &|words| run(ip, words))?;
        }
        Ok(())
    }
}

impl Hosts {
    /// Makes what is missing between the bridge of a slice and the other hosts; `links` are those that are here.
    fn connect(
        &self,
        network: SliceNetwork,
        links: &str,
        (ip, bridge): (&Path, &Path),
        run: &Runs<'_>,
    ) -> Result<(), DriverError> {
        let (vxlan, mtu) = (network.vxlan(), MTU.to_string());
        if links.lines().all(|line| !is_of(line, &vxlan)) {
            let (number, port) = (network.number.to_string(), self.port.to_string());
            let local = self.local.to_string();
            let of_kind = ["type", "vxlan", "id", &number, "local", &local, "dstport", &port];
            run(ip, &[&["link", "add", "name", &vxlan, "mtu", &mtu][..], &of_kind[..]].concat())?;
        }
        // One may be missing after a crash, or be new in the configuration.
        let known = run(bridge, &["fdb", "show", "dev", &vxlan])?;
        let floods = |peer: &str| {
            let mut lines = known.lines().filter(|line| line.starts_with(ALL));
            lines.any(|line| line.split_whitespace().any(|word| word == peer))
        };
        for peer in self.peers.iter().map(ToString::to_string) {
            if !floods(&peer) {
                let all = ["fdb", "append", ALL, "dev", &vxlan];
                run(bridge, &[&all[..], &["dst", &peer]].concat())?;
            }
        }
        run(ip, &["link", "set", "dev", &vxlan, "master", &network.bridge(), "up"]).map(drop)
    }
}

/// Removes the bridge of a slice, and its VXLAN interface, if nothing else is connected to it.
pub(super) fn remove_unused(
    bridge: &str,
    ip: &dyn Fn(&[&str]) -> Result<String, DriverError>,
) -> Result<(), DriverError> {
    let ports = ip(&["-o", "link", "show", "master", bridge])?;
    let vxlan = format!("tx{}", &bridge[2..]);
    if ports.lines().filter_map(name_in).any(|port| port != vxlan) {
        return Ok(());
    }
    if ports.lines().next().is_some() {
        ip(&["link", "del", "dev", &vxlan])?;
    }
    ip(&["link", "del", "dev", bridge]).map(drop)
}

/// Whether a bridge is that of a slice.
fn is_slice(name: &str) -> bool {
    let number = name.strip_prefix("tb");
    number.is_some_and(|number| {
        number.len() == 6 && number.bytes().all(|digit| digit.is_ascii_hexdigit())
    })
}
