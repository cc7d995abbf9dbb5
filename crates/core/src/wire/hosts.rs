//! Hosts: what services use, as their service manager tells its brokers, so that a host is found that the services of
//! several service managers claim.
//!
//! A host is stated by a hash of its name with the broker's id: a broker learns no names but those that it guesses, and
//! two brokers cannot compare what they were told.

use serde::{Deserialize, Serialize};

use crate::driver::UnitId;
use crate::model::codec::{Hash, encode};
use crate::model::identity::ActorId;
use crate::model::slice::SliceName;
use crate::model::time::Time;
use crate::service::member::{MemberId, is_qualified};
use crate::ticket::link::LinkHash;

/// The most hosts of one service that one broker is told.
pub const MAX_HOSTS: usize = 4096;

/// The most claims of others that a service is told.
pub const MAX_CONTESTS: usize = 4096;

/// All hosts that a service uses. The highest revision counts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hosts {
    /// The service, or the slice of the leases, by its name.
    pub service: SliceName,
    /// Grows with each statement about it.
    pub revision: u64,
    /// In order. Empty if it uses none any more.
    pub hosts: Vec<HostClaim>,
}

/// That a service uses a host.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct HostClaim {
    /// The host, by [`host_id`].
    pub host: Hash,
    /// Since when.
    pub since: Time,
    /// The lease that it has it by, if its software does not tell of it alone.
    pub lease: Option<HostLease>,
}

/// By what a host is leased.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct HostLease {
    /// The site that lends it.
    pub site: ActorId,
    /// Its number there.
    pub unit: UnitId,
    /// The ticket that the site has taken.
    pub ticket: LinkHash,
}

/// That another guest claims a host, too.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Contest {
    /// The host, by [`host_id`].
    pub host: Hash,
    /// The claim.
    pub claim: ForeignClaim,
}

/// A claim of another guest.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ForeignClaim {
    /// The guest and its service, if the broker discloses them.
    pub by: Option<(ActorId, SliceName)>,
    /// Since when, as the guest says.
    pub since: Time,
    /// The ticket that it has the host by, if it says so.
    pub ticket: Option<LinkHash>,
}

/// What a broker is told of a host instead of its name; none of a name that others may give to another host: one that is
/// not fully qualified, or an address.
pub fn host_id(broker: ActorId, name: &MemberId) -> Option<Hash> {
    let name = name.as_str().trim_end_matches('.');
    let broker = encode(&broker);
    is_qualified(name).then(|| Hash::of("tenure host v1", &[&broker, name.as_bytes()]))
}

impl Hosts {
    /// Whether it is within its bounds and in order; the reason if not.
    pub(crate) fn check(&self) -> Result<(), String> {
        if self.hosts.len() > MAX_HOSTS {
            return Err(format!("{} hosts are more than {MAX_HOSTS}", self.hosts.len()));
        }
        if !self.hosts.is_sorted_by(|one, other| one < other) {
            return Err("its hosts are not in order".to_owned());
        }
        Ok(())
    }

    /// The claims of a host.
    pub fn of(claims: &[HostClaim], host: Hash) -> &[HostClaim] {
        let first = claims.partition_point(|claim| claim.host < host);
        let rest = claims.get(first..).unwrap_or_default();
        rest.get(..rest.partition_point(|claim| claim.host == host)).unwrap_or_default()
    }
}

impl HostClaim {
    /// Whether two guests cannot both be right. A site lends a unit to one at a time, so an earlier lease of it is
    /// about to be over.
    pub fn contradicts(&self, other: &Self) -> bool {
        let unit = |claim: &Self| claim.lease.as_ref().map(|lease| (lease.site, lease.unit));
        self.host == other.host && (unit(self).is_none() || unit(self) != unit(other))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::identity::{Scheme, Signer};

    fn id(seed: u8) -> ActorId {
        Signer::from_seed(Scheme::None, [seed; 32]).id()
    }

    fn host(broker: u8, name: &str) -> Option<Hash> {
        host_id(id(broker), &MemberId::new(name).unwrap())
    }

    #[test]
    fn a_host_is_the_same_however_it_is_written_and_another_one_to_each_broker() {
        let one = host(1, "node7.example.org");
        assert!(one.is_some());
        assert_eq!(host(1, "Node7.Example.ORG."), one);
        assert_ne!(host(2, "node7.example.org"), one);
        assert_ne!(host(1, "node8.example.org"), one);
    }

    #[test]
    fn names_that_others_may_give_to_another_host_are_not_told() {
        for name in ["node7", "node7.", "10.0.0.7", "192.0.2.7", "fe80::1", "::ffff:10.0.0.7"] {
            assert_eq!(host(1, name), None, "{name}");
        }
    }

    #[test]
    fn two_leases_of_one_unit_do_not_contradict_each_other() {
        let claim = |unit: Option<u32>| HostClaim {
            host: host(1, "node7.example.org").unwrap(),
            since: Time::ZERO,
            lease: unit.map(|unit| {
                let ticket = LinkHash::lowest();
                HostLease { site: id(3), unit: UnitId(unit), ticket }
            }),
        };
        assert!(!claim(Some(1)).contradicts(&claim(Some(1))));
        assert!(claim(Some(1)).contradicts(&claim(Some(2))));
        assert!(claim(Some(1)).contradicts(&claim(None)));
        assert!(claim(None).contradicts(&claim(None)));
    }
}
