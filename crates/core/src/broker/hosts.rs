//! What a broker knows of the hosts that the services of its guests use: it finds those that several guests claim.
//!
//! Each statement of a guest is answered with who else claims its hosts, as it is when the statement is noted; the same
//! statement gets the same answer. When that changes, the guest is asked to state its hosts again, until it does.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::availability::Disclosure;
use super::facts::HostsNoted;
use super::needs::{MAX_OF_ONE, ServiceId};
use super::{Broker, Obligation, Output};
use crate::actor::{Emit as _, Role, dropped};
use crate::model::codec::Hash;
use crate::model::identity::ActorId;
use crate::model::slice::SliceName;
use crate::model::time::Time;
use crate::wire::hosts::{Contest, ForeignClaim, HostClaim, Hosts, MAX_CONTESTS};
use crate::wire::message::Message;

/// The most claims by others that are disclosed for one host.
const MAX_OF_HOST: usize = 4;

/// The hosts of a service, as far as its guest has said.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Stated {
    revision: u64,
    hosts: Vec<HostClaim>,
    /// Who else claims them, as the guest was told.
    told: Vec<Contest>,
}

/// The hosts of all services.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct KnownHosts {
    stated: BTreeMap<ActorId, BTreeMap<SliceName, Stated>>,
    /// Who uses a host.
    users: BTreeMap<Hash, BTreeSet<ServiceId>>,
}

impl KnownHosts {
    fn of(&self, guest: ActorId) -> impl Iterator<Item = (&SliceName, &Stated)> {
        self.stated.get(&guest).into_iter().flatten()
    }

    fn get(&self, id: &ServiceId) -> Option<&Stated> {
        self.stated.get(&id.guest)?.get(&id.service)
    }

    fn get_mut(&mut self, id: &ServiceId) -> Option<&mut Stated> {
        self.stated.get_mut(&id.guest)?.get_mut(&id.service)
    }

    /// Takes a statement; answers the one before.
    fn replace(&mut self, id: &ServiceId, now: Stated) -> Option<Stated> {
        let new: BTreeSet<Hash> = now.hosts.iter().map(|claim| claim.host).collect();
        let of_guest = self.stated.entry(id.guest).or_default();
        let before = of_guest.insert(id.service.clone(), now);
        for claim in before.iter().flat_map(|before| &before.hosts) {
            if !new.contains(&claim.host)
                && let Some(users) = self.users.get_mut(&claim.host)
            {
                users.remove(id);
                if users.is_empty() {
                    self.users.remove(&claim.host);
                }
            }
        }
        for host in new {
            self.users.entry(host).or_default().insert(id.clone());
        }
        before
    }

    /// The services of other guests that use some of these hosts.
    fn others<'a>(
        &self,
        guest: ActorId,
        hosts: impl Iterator<Item = &'a HostClaim>,
    ) -> BTreeSet<ServiceId> {
        let users = hosts.filter_map(|claim| self.users.get(&claim.host)).flatten();
        users.filter(|id| id.guest != guest).cloned().collect()
    }

    /// Who else claims hosts of a service. Where there are too many claims, one for each host.
    fn contests(&self, id: &ServiceId) -> Vec<Contest> {
        let Some(stated) = self.get(id) else { return Vec::new() };
        let hosts: BTreeSet<Hash> = stated.hosts.iter().map(|claim| claim.host).collect();
        let some = |most: usize| -> Vec<Contest> {
            let of = |host: &Hash| self.contests_of(id, stated, *host).take(most);
            hosts.iter().flat_map(of).collect()
        };
        let all = some(MAX_OF_HOST);
        if all.len() <= MAX_CONTESTS { all } else { some(1) }
    }

    fn contests_of<'a>(
        &'a self,
        id: &'a ServiceId,
        stated: &'a Stated,
        host: Hash,
    ) -> impl Iterator<Item = Contest> + 'a {
        let own = Hosts::of(&stated.hosts, host);
        let others = self.users.get(&host).into_iter().flatten();
        let others = others.filter(|other| other.guest != id.guest);
        let claims = others.flat_map(move |other| {
            let stated = self.get(other).map(|stated| stated.hosts.as_slice());
            let claims = Hosts::of(stated.unwrap_or_default(), host).iter();
            claims.map(move |claim| (other, claim))
        });
        let claims = claims.filter(|(_, claim)| own.iter().any(|own| own.contradicts(claim)));
        claims.map(move |(other, claim)| Contest {
            host,
            claim: ForeignClaim {
                by: Some((other.guest, other.service.clone())),
                since: claim.since,
                ticket: claim.lease.as_ref().map(|lease| lease.ticket),
            },
        })
    }
}

impl Broker {
    /// A guest says which hosts a service of it uses.
    pub(super) fn told_hosts(&mut self, now: Time, guest: ActorId, hosts: Hosts, out: &mut Output) {
        if !self.base.is_known(guest, Role::ServiceManager) {
            return out.problems.push(dropped("hosts", "its sender is no guest"));
        }
        if let Err(cause) = hosts.check() {
            return out.problems.push(dropped("hosts", cause));
        }
        let id = ServiceId { guest, service: hosts.service.clone() };
        let known = self.state.hosts.get(&id);
        if known.is_none() && self.knows_too_many_hosts(guest) {
            return out
                .problems
                .push(dropped("hosts", "too many services of its sender are known"));
        }
        if known.is_none_or(|known| known.revision < hosts.revision) {
            self.emit(now, HostsNoted { guest, hosts }, out);
        }
        let Some(known) = self.state.hosts.get(&id) else { return };
        let contests = self.disclosed(guest, &known.told);
        let ServiceId { service, .. } = id;
        let message = Message::HostsNoted { service, revision: known.revision, contests };
        out.replies.push(self.base.volatile(guest, now, message));
    }

    /// Who the others are, only those learn to whom everything is disclosed.
    fn disclosed(&self, guest: ActorId, told: &[Contest]) -> Vec<Contest> {
        let all = self.disclosures.to(&self.base.name_of(guest)) == Disclosure::All;
        let of = |contest: &Contest| {
            let ForeignClaim { by, since, ticket } = contest.claim.clone();
            let by = by.filter(|_| all);
            Contest { host: contest.host, claim: ForeignClaim { by, since, ticket } }
        };
        told.iter().map(of).collect()
    }

    fn knows_too_many_hosts(&self, guest: ActorId) -> bool {
        let using = self.state.hosts.of(guest).filter(|(_, stated)| !stated.hosts.is_empty());
        using.take(MAX_OF_ONE).count() == MAX_OF_ONE
    }

    /// Who is no guest any more claims nothing.
    pub(super) fn drop_hosts_of_strangers(&mut self, now: Time, out: &mut Output) {
        let guests = self.state.hosts.stated.keys().copied();
        let strange = guests.filter(|guest| !self.base.is_known(*guest, Role::ServiceManager));
        for guest in strange.collect::<Vec<_>>() {
            let using = self.state.hosts.of(guest).filter(|(_, stated)| !stated.hosts.is_empty());
            let none = using.map(|(service, stated)| {
                let (service, revision) = (service.clone(), stated.revision);
                Hosts { service, revision, hosts: Vec::new() }
            });
            for hosts in none.collect::<Vec<_>>() {
                self.emit(now, HostsNoted { guest, hosts }, out);
            }
        }
    }

    /// After a start all guests are asked once for what they have stated: an older copy of the journal lacks some.
    pub(super) fn ask_for_statements(&self, now: Time, out: &mut Output) {
        for (_, guest) in self.base.peers_of(Role::ServiceManager) {
            let needs =
                self.needs().filter(|(id, need)| id.guest == guest && !need.wants.is_empty());
            let needs = needs.map(|(id, _)| id.service.clone()).collect();
            let hosts = self.state.hosts.of(guest).filter(|(_, stated)| !stated.hosts.is_empty());
            let hosts = hosts.map(|(service, _)| service.clone()).collect();
            out.replies.push(self.base.volatile(guest, now, Message::Restate { needs, hosts }));
        }
    }

    pub(super) fn hosts_noted(&mut self, at: Time, fact: &HostsNoted) {
        let HostsNoted { guest, hosts: Hosts { service, revision, hosts } } = fact;
        let id = ServiceId { guest: *guest, service: service.clone() };
        let stated = Stated { revision: *revision, hosts: hosts.clone(), told: Vec::new() };
        let known = &mut self.state.hosts;
        let before = known.replace(&id, stated);
        let told = known.contests(&id);
        if let Some(stated) = known.get_mut(&id) {
            stated.told = told;
        }
        let old = before.iter().flat_map(|before| &before.hosts);
        let others = known.others(*guest, old.chain(hosts));
        if let Some(before) = &before {
            self.state.pending.settle(&Obligation::HostsChanged(*guest, before.revision));
        }
        for other in others {
            self.owe_hosts_changed(&other, at);
        }
        self.forget_oldest_hosts(*guest);
    }

    /// A guest was told something else than what is so now.
    fn owe_hosts_changed(&mut self, id: &ServiceId, at: Time) {
        let Some(stated) = self.state.hosts.get(id) else { return };
        let changed = self.state.hosts.contests(id) != stated.told;
        let duty = Obligation::HostsChanged(id.guest, stated.revision);
        self.state.pending.set(duty, changed, self.base.position, at);
    }

    /// What uses no hosts stays known by its revision, as needs do.
    fn forget_oldest_hosts(&mut self, guest: ActorId) {
        let Some(of_guest) = self.state.hosts.stated.get_mut(&guest) else { return };
        if of_guest.len() <= MAX_OF_ONE {
            return;
        }
        let over = of_guest.iter().filter(|(_, stated)| stated.hosts.is_empty());
        let oldest = over.min_by_key(|(_, stated)| stated.revision);
        if let Some(service) = oldest.map(|(service, _)| service.clone()) {
            of_guest.remove(&service);
        }
    }

    pub(super) fn hosts_message(
        &self,
        guest: ActorId,
        revision: u64,
    ) -> Option<(ActorId, Message)> {
        let mut all = self.state.hosts.of(guest);
        let (service, _) = all.find(|(_, stated)| stated.revision == revision)?;
        Some((guest, Message::HostsChanged { service: service.clone(), revision }))
    }
}
