//! What settings of `netns` name: interfaces of the host, and ranges of IPv4 addresses.

use std::fmt;
use std::net::Ipv4Addr;

use serde::Deserialize;
use tenure_core::driver::DriverError;

/// The name of an interface.
#[derive(Clone, Debug, Deserialize)]
#[serde(try_from = "String")]
pub(super) struct Interface(pub(super) String);

impl TryFrom<String> for Interface {
    type Error = String;

    fn try_from(name: String) -> Result<Self, String> {
        let plain = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
        // The kernel keeps 15 characters; what begins with `-` would be an option.
        if (1..=15).contains(&name.len())
            && name.chars().all(plain)
            && !name.starts_with(['-', '.'])
        {
            Ok(Self(name))
        } else {
            Err(format!("`{}` is not the name of an interface", name.escape_debug()))
        }
    }
}

/// A range of IPv4 addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub(super) struct Network {
    first: Ipv4Addr,
    bits: u8,
}

impl TryFrom<String> for Network {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let parts = text.split_once('/');
        let read = parts.and_then(|(first, bits)| Some((first.parse().ok()?, bits.parse().ok()?)));
        match read {
            Some((first, bits)) if bits <= 32 => {
                let network = Self { first, bits };
                if u32::from(first) & network.rest() != 0 {
                    return Err(format!(
                        "`{text}` does not begin at the first address of its range"
                    ));
                }
                Ok(network)
            }
            _ => Err(format!("`{text}` is not a network such as 172.16.0.0/16")),
        }
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.first, self.bits)
    }
}

impl Network {
    fn rest(self) -> u32 {
        u32::MAX.checked_shr(self.bits.into()).unwrap_or(0)
    }

    /// Whether an address is in it.
    pub(super) fn contains(self, address: Ipv4Addr) -> bool {
        u32::from(address) & !self.rest() == u32::from(self.first)
    }

    /// Its address of a number, from 0; none if it has fewer.
    pub(super) fn address(self, number: u32) -> Option<Ipv4Addr> {
        let within = (number <= self.rest()).then_some(number)?;
        Some(Ipv4Addr::from(u32::from(self.first) + within))
    }
}

/// A network with room for the subnets of slices.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(try_from = "String")]
pub(super) struct Subnets(Network);

impl TryFrom<String> for Subnets {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let network = Network::try_from(text)?;
        if network.bits > Self::SUBNET {
            return Err(format!("`{network}` is not a network of /{} or larger", Self::SUBNET));
        }
        Ok(Self(network))
    }
}

impl Default for Subnets {
    fn default() -> Self {
        Self(Network { first: Ipv4Addr::new(172, 16, 0, 0), bits: 16 })
    }
}

impl Subnets {
    /// The bits of a slice's subnet.
    pub(super) const SUBNET: u8 = 24;
    /// Its mask.
    pub(super) const MASK: &str = "255.255.255.0";
    /// The number of the last address in it that may be used: the gateway's, if there is one.
    pub(super) const LAST: u32 = 254;

    /// The address of a number in the subnet of a block, or why there is none.
    pub(super) fn address(self, block: u32, number: u32) -> Result<Ipv4Addr, DriverError> {
        let offset = block.checked_mul(256).and_then(|offset| offset.checked_add(number));
        let address = offset.and_then(|offset| self.0.address(offset));
        address.ok_or_else(|| DriverError(format!("no subnet is left in {}", self.0)))
    }
}
