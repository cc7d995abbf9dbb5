//! What a guest tells its brokers of the hosts that its services use, and what they say who else claims them.
//!
//! A statement is made anew whenever the hosts have changed, and when a broker asks for it, and is owed to the broker
//! until that has noted it. The answer to the last one counts.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::ambiguity::Claim;
use super::facts::{Fact, HostsAnswered, HostsStated};
use super::services::MAX_SERVICES;
use super::{Obligation, Output, ServiceManager};
use crate::actor::{Emit as _, Role};
use crate::model::codec::Hash;
use crate::model::identity::ActorId;
use crate::model::slice::SliceName;
use crate::model::time::Time;
use crate::service::member::MemberId;
use crate::wire::hosts::{
    Contest, ForeignClaim, HostClaim, HostLease, Hosts, MAX_CONTESTS, MAX_HOSTS, host_id,
};
use crate::wire::message::Message;

/// What brokers were told last of the hosts of services, and what they said of them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct ToldHosts(BTreeMap<(ActorId, SliceName), Stated>);

/// What a broker was told last of a service's hosts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Stated {
    revision: u64,
    hosts: Vec<HostClaim>,
    noted: bool,
    /// Who else claims them, by the last answer.
    contests: Vec<Contest>,
}

/// That another guest claims a host, by a broker's word.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct OtherClaim {
    /// The broker.
    pub broker: ActorId,
    /// What it says.
    pub claim: ForeignClaim,
}

/// Who else claims which hosts, by broker.
pub(super) struct Contests<'a>(BTreeMap<ActorId, BTreeMap<Hash, BTreeSet<&'a ForeignClaim>>>);

impl Contests<'_> {
    /// The claims of others of a host.
    pub(super) fn of(&self, member: &MemberId) -> Vec<OtherClaim> {
        let of_broker = self.0.iter().filter_map(|(&broker, all)| {
            let claims = all.get(&host_id(broker, member)?)?;
            Some(claims.iter().map(move |&claim| OtherClaim { broker, claim: claim.clone() }))
        });
        of_broker.flatten().collect()
    }
}

impl ToldHosts {
    /// Whether a broker was told of some.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl ServiceManager {
    /// What the brokers that it deals with say of its hosts.
    pub(super) fn contests(&self) -> Contests<'_> {
        let mut all: BTreeMap<_, BTreeMap<_, BTreeSet<_>>> = BTreeMap::new();
        for ((broker, _), stated) in &self.state.hosts.0 {
            let said = stated.contests.iter().filter(|_| self.base.is_known(*broker, Role::Broker));
            for Contest { host, claim } in said {
                all.entry(*broker).or_default().entry(*host).or_default().insert(claim);
            }
        }
        Contests(all)
    }

    /// Tells brokers what has changed by the facts of this input, from the one of this place on.
    pub(super) fn tell_hosts(&mut self, now: Time, first: usize, out: &mut Output) {
        let mut facts = out.facts.get(first..).unwrap_or_default().iter().map(|entry| &entry.fact);
        let told = !self.state.hosts.is_empty();
        let changes = |fact: &Fact| {
            if let Fact::Leased(fact) = fact {
                return told || fact.names_hosts();
            }
            let of_members = matches!(fact, Fact::MembersTold(_) | Fact::ServiceRemoved(_));
            let of_lease = fact.lease_event().is_some() && !matches!(fact, Fact::Joined(_));
            of_members || (told && of_lease)
        };
        if facts.any(changes) {
            self.tell_all_hosts(now, out);
        }
    }

    /// Tells brokers what has changed since they were told.
    pub(super) fn tell_all_hosts(&mut self, now: Time, out: &mut Output) {
        let claims = self.all_claims();
        let brokers: Vec<ActorId> = self.base.peers_of(Role::Broker).map(|(_, id)| id).collect();
        for broker in brokers {
            for (service, hosts) in self.hosts_for(broker, &claims) {
                let told = self.state.hosts.0.get(&(broker, service.clone()));
                if told.map(|told| told.hosts.as_slice()).unwrap_or_default() != hosts {
                    self.state_hosts(now, broker, (service, hosts), out);
                }
            }
        }
    }

    /// What a broker is to know, by service; none of a service of which it was told and that uses none any more.
    fn hosts_for(
        &self,
        broker: ActorId,
        claims: &BTreeMap<MemberId, Vec<Claim>>,
    ) -> BTreeMap<SliceName, Vec<HostClaim>> {
        let mut all: BTreeMap<SliceName, Vec<HostClaim>> = BTreeMap::new();
        for (member, claims) in claims {
            let Some(host) = host_id(broker, member) else { continue };
            for claim in claims {
                let lease = claim.lease.zip(claim.by.unit);
                let lease =
                    lease.map(|((_, ticket), (site, unit))| HostLease { site, unit, ticket });
                let hosts = all.entry(claim.by.service.clone()).or_default();
                hosts.push(HostClaim { host, since: claim.since, lease });
            }
        }
        let told = self.state.hosts.0.keys().filter(|(to, _)| *to == broker);
        let told = told.map(|(_, service)| (service.clone(), Vec::new()));
        let told: Vec<_> = told.filter(|(service, _)| !all.contains_key(service)).collect();
        for hosts in all.values_mut().skip(MAX_SERVICES) {
            hosts.clear();
        }
        for hosts in all.values_mut() {
            hosts.sort();
            hosts.dedup();
            hosts.truncate(MAX_HOSTS);
        }
        all.extend(told);
        all
    }

    fn state_hosts(
        &mut self,
        now: Time,
        broker: ActorId,
        (service, hosts): (SliceName, Vec<HostClaim>),
        out: &mut Output,
    ) {
        let hosts = Hosts { service, revision: self.base.position, hosts };
        self.emit(now, HostsStated { broker, hosts }, out);
    }

    /// A broker asks for the hosts of a service again: those of a revision, or whatever was noted.
    pub(super) fn state_hosts_anew(
        &mut self,
        now: Time,
        broker: ActorId,
        service: &SliceName,
        revision: Option<u64>,
        out: &mut Output,
    ) {
        let Some(told) = self.state.hosts.0.get(&(broker, service.clone())) else { return };
        // What is not noted is owed as it is.
        if told.noted && revision.is_none_or(|revision| revision == told.revision) {
            let hosts = told.hosts.clone();
            self.state_hosts(now, broker, (service.clone(), hosts), out);
        }
    }

    /// A broker has been started, and asks for all hosts. Of those that it knows of, and that are not used any more, it is
    /// told so; nothing is recorded of that.
    pub(super) fn state_all_hosts_anew(
        &mut self,
        now: Time,
        broker: ActorId,
        known: Vec<SliceName>,
        out: &mut Output,
    ) {
        let told = self.state.hosts.0.keys().filter(|(to, _)| *to == broker);
        let told: BTreeSet<SliceName> = told.map(|(_, service)| service.clone()).collect();
        for service in known.into_iter().filter(|service| !told.contains(service)) {
            let revision = self.before_now();
            let hosts = Message::Hosts(Hosts { service, revision, hosts: Vec::new() });
            out.replies.push(self.base.volatile(broker, now, hosts));
        }
        for service in told {
            self.state_hosts_anew(now, broker, &service, None, out);
        }
    }

    /// A revision that is later than all that was stated, and earlier than all that will be.
    pub(super) fn before_now(&self) -> u64 {
        self.base.position.saturating_sub(1)
    }

    pub(super) fn hosts_stated(&mut self, at: Time, fact: &HostsStated) {
        let HostsStated { broker, hosts: Hosts { service, revision, hosts } } = fact;
        let key = (*broker, service.clone());
        let before = self.state.hosts.0.remove(&key);
        if let Some(before) = &before {
            self.state.pending.settle(&Obligation::Hosts(before.revision));
        }
        let contests = before.map(|before| before.contests).unwrap_or_default();
        let stated = Stated { revision: *revision, hosts: hosts.clone(), noted: false, contests };
        self.state.hosts.0.insert(key, stated);
        self.require(Obligation::Hosts(*revision), at);
    }

    pub(super) fn hosts_message(&self, revision: u64) -> Option<(ActorId, Message)> {
        let mut all = self.state.hosts.0.iter();
        let ((broker, service), told) = all.find(|(_, told)| told.revision == revision)?;
        let hosts = Hosts { service: service.clone(), revision, hosts: told.hosts.clone() };
        Some((*broker, Message::Hosts(hosts)))
    }

    /// A broker has noted hosts, and says who else claims them.
    pub(super) fn hosts_noted(
        &mut self,
        now: Time,
        broker: ActorId,
        (service, revision): (SliceName, u64),
        contests: Vec<Contest>,
        out: &mut Output,
    ) -> Result<(), String> {
        let Some(told) = self.state.hosts.0.get(&(broker, service.clone())) else { return Ok(()) };
        if told.revision != revision || told.noted {
            return Ok(());
        }
        if contests.len() > MAX_CONTESTS {
            return Err(format!("{} claims are more than {MAX_CONTESTS}", contests.len()));
        }
        let uses = |contest: &Contest| !Hosts::of(&told.hosts, contest.host).is_empty();
        if !contests.iter().all(uses) {
            return Err(format!("it speaks of hosts that {service} does not use"));
        }
        self.emit(now, HostsAnswered { broker, service, revision, contests }, out);
        Ok(())
    }

    pub(super) fn hosts_answered(&mut self, fact: &HostsAnswered) {
        let HostsAnswered { broker, service, revision, contests } = fact;
        self.state.pending.settle(&Obligation::Hosts(*revision));
        let key = (*broker, service.clone());
        let Some(told) = self.state.hosts.0.get_mut(&key) else { return };
        if told.hosts.is_empty() {
            self.state.hosts.0.remove(&key);
        } else {
            (told.noted, told.contests) = (true, contests.clone());
        }
    }
}
