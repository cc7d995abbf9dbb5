//! What a guest tells its brokers of its services.
//!
//! A need is stated anew whenever what it says has changed, and owed to the broker until that has noted it. Whatever
//! is lost or comes twice, the highest revision counts.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::facts::{
    AskRefused, Asked, Fact, GaveUp, Granted, MembersTold, NeedAnswered, NeedStated,
    ServiceDefined, ServiceRemoved, ServiceReported, ServiceStale, SloAssessed,
};
use super::services::{Demand, MAX_SERVICES, ServiceView};
use super::{Lease, Obligation, Output, ServiceManager};
use crate::actor::fact::Entry;
use crate::actor::{Emit as _, Role};
use crate::model::identity::ActorId;
use crate::model::slice::SliceName;
use crate::model::time::Time;
use crate::service::definition::Mode;
use crate::service::state::State;
use crate::service::steps::Steps;
use crate::ticket::Ticket;
use crate::ticket::link::LinkHash;
use crate::wire::message::Message;
use crate::wire::need::{MAX_NAMED, Need, Want};

/// What brokers were told last of the services, by broker and service.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Needs(BTreeMap<(ActorId, SliceName), Stated>);

/// What a broker was told last of a service.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Stated {
    revision: u64,
    wants: Vec<Want>,
    noted: bool,
}

impl ServiceManager {
    /// Tells brokers what has changed by the facts of this input, from the one of this place on.
    pub(super) fn tell_needs(&mut self, now: Time, first: usize, out: &mut Output) {
        if self.state.services.is_empty() && self.state.needs.0.is_empty() {
            return;
        }
        let facts = out.facts.get(first..).unwrap_or_default().iter();
        let claimed = |Entry { fact, .. }: &Entry<Fact>| {
            matches!(
                fact,
                Fact::MemberAmbiguous(_)
                    | Fact::AmbiguitySettled(_)
                    | Fact::MemberContested(_)
                    | Fact::MemberCeded(_)
            )
        };
        if facts.clone().any(claimed) {
            return self.tell_all_needs(now, out);
        }
        let changed: BTreeSet<SliceName> =
            facts.filter_map(|Entry { fact, .. }| self.concerned(fact)).collect();
        for service in changed {
            self.tell_need(now, &service, out);
        }
    }

    /// Tells brokers what has changed since they were told.
    pub(super) fn tell_all_needs(&mut self, now: Time, out: &mut Output) {
        let told = self.state.needs.0.keys().map(|(_, service)| service);
        let services: BTreeSet<SliceName> =
            self.state.services.names().chain(told).cloned().collect();
        for service in services {
            self.tell_need(now, &service, out);
        }
    }

    /// The service of which a fact may change what brokers are to know.
    fn concerned(&self, fact: &Fact) -> Option<SliceName> {
        let number = match fact.service() {
            Some(service) => return Some(service.clone()),
            None => match (fact.asked(), fact.lease_event()) {
                (Some(number), _) => number,
                (None, Some((lease, _))) => lease.number,
                (None, None) => return None,
            },
        };
        let slice = &self.state.requests.get(&number)?.slice;
        self.state.services.has(slice).then(|| slice.clone())
    }

    fn tell_need(&mut self, now: Time, service: &SliceName, out: &mut Output) {
        let told = self.state.needs.0.iter().filter(|((_, of), _)| of == service);
        let told: BTreeMap<ActorId, &[Want]> =
            told.map(|((broker, _), told)| (*broker, told.wants.as_slice())).collect();
        let knowing = told.iter().filter(|(_, wants)| !wants.is_empty()).map(|(&id, _)| id);
        let wants = self.wants(now, service, knowing.collect());
        let brokers: BTreeSet<ActorId> = wants.keys().chain(told.keys()).copied().collect();
        let changed = brokers.into_iter().filter_map(|broker| {
            let new = wants.get(&broker).cloned().unwrap_or_default();
            (new != told.get(&broker).copied().unwrap_or_default()).then_some((broker, new))
        });
        for (broker, wants) in changed.collect::<Vec<_>>() {
            let need = Need { service: service.clone(), revision: self.base.position, wants };
            self.emit(now, NeedStated { broker, need }, out);
        }
    }

    /// What each broker is to know of a service: those that it has units of, those that it asks and, as long as it
    /// claims something, those that know of it: between two requests they are not to think that it does not.
    fn wants(
        &self,
        now: Time,
        service: &SliceName,
        knowing: BTreeSet<ActorId>,
    ) -> BTreeMap<ActorId, Vec<Want>> {
        let view = self.service_view(service);
        let Some(view) = view.filter(|view| view.behaviour.mode == Mode::Managed) else {
            return BTreeMap::new();
        };
        let leases = view.demands.iter().flat_map(|demand| &demand.leases);
        let leases = leases.filter_map(|id| self.state.leases.get(id));
        let mut brokers: BTreeSet<ActorId> = leases.filter_map(|lease| seller(lease)).collect();
        brokers.extend(self.sellers_asked(service));
        if view.demands.iter().any(|demand| demand.steps.claimed(demand.held) > 0) {
            brokers.extend(knowing);
        }
        let of = |broker| {
            view.demands.iter().map(|demand| self.want((now, broker), &view, demand)).collect()
        };
        brokers.into_iter().map(|broker| (broker, of(broker))).collect()
    }

    /// The brokers that are asked for units of a service.
    fn sellers_asked(&self, service: &SliceName) -> impl Iterator<Item = ActorId> {
        let tended = self.tended.get(service).into_iter().flatten();
        tended.filter_map(|id| {
            let request = self.state.requests.get(&id.number)?;
            (request.stands_alone() && request.state.is_open()).then_some(request.broker)
        })
    }

    /// What a broker is to know of what a service wants and has of a kind of units. Of a service that is not seen
    /// the units are not compared: nothing is known of what they are worth.
    fn want(&self, (now, broker): (Time, ActorId), service: &ServiceView, demand: &Demand) -> Want {
        let leases = demand.leases.iter().filter_map(|id| self.state.leases.get(id));
        let own: Vec<&Lease> = match service.state {
            State::Running | State::Stopped => {
                leases.map(|lease| &**lease).filter(|lease| seller(lease) == Some(broker)).collect()
            }
            State::Unknown | State::Error | State::Starting | State::Shutdown => Vec::new(),
        };
        let ahead = |ticket: &&Ticket| now < ticket.bottom().term.end();
        let tickets = own.iter().flat_map(|lease| lease.state.tickets().iter().filter(ahead));
        let tickets: Vec<LinkHash> = tickets.map(Ticket::hash).take(MAX_NAMED).collect();
        let of_own = own.iter().map(|lease| lease.staying()).sum::<u32>();
        let steps = match service.state {
            State::Stopped => Steps::default(),
            State::Running | State::Unknown | State::Error | State::Starting | State::Shutdown => {
                demand.steps.clone()
            }
        };
        Want { kind: demand.kind.clone(), steps, tickets, elsewhere: demand.held - of_own }
    }

    /// A broker has been started, and asks for all needs and hosts. A service that it knows of and that wants nothing any
    /// more does so in its answer.
    pub(super) fn state_all_anew(
        &mut self,
        now: Time,
        broker: ActorId,
        (needs, hosts): (Vec<SliceName>, Vec<SliceName>),
        out: &mut Output,
    ) -> Result<(), String> {
        if !self.base.is_known(broker, Role::Broker) {
            return Err("its sender is no broker".to_owned());
        }
        let (count, most) = (needs.len().max(hosts.len()), MAX_SERVICES);
        if count > most {
            return Err(format!("{count} services are more than {most}"));
        }
        let told = self.state.needs.0.iter().filter(|((to, _), _)| *to == broker);
        let told: Vec<Need> = told
            .map(|((_, service), told)| {
                let (service, wants) = (service.clone(), told.wants.clone());
                Need { service, revision: told.revision, wants }
            })
            .collect();
        let known = |service: &SliceName| told.iter().any(|need| need.service == *service);
        let revision = self.before_now();
        let over = needs.into_iter().filter(|service| !known(service));
        let over = over.map(|service| Need { service, revision, wants: Vec::new() });
        for need in over.collect::<Vec<_>>().into_iter().chain(told) {
            out.replies.push(self.base.volatile(broker, now, Message::Need(need)));
        }
        self.state_all_hosts_anew(now, broker, hosts, out);
        Ok(())
    }

    pub(super) fn need_stated(&mut self, at: Time, fact: &NeedStated) {
        let NeedStated { broker, need } = fact;
        let told = Stated { revision: need.revision, wants: need.wants.clone(), noted: false };
        let before = self.state.needs.0.insert((*broker, need.service.clone()), told);
        if let Some(before) = before {
            self.state.pending.settle(&Obligation::Need(before.revision));
        }
        self.require(Obligation::Need(need.revision), at);
        self.state.rounds.call();
    }

    pub(super) fn need_message(&self, revision: u64) -> Option<(ActorId, Message)> {
        let mut all = self.state.needs.0.iter();
        let ((broker, service), told) = all.find(|(_, told)| told.revision == revision)?;
        let need = Need { service: service.clone(), revision, wants: told.wants.clone() };
        Some((*broker, Message::Need(need)))
    }

    /// A broker has noted what it was told.
    pub(super) fn need_noted(
        &mut self,
        now: Time,
        broker: ActorId,
        (service, revision): (SliceName, u64),
        out: &mut Output,
    ) {
        let told = self.state.needs.0.get(&(broker, service.clone()));
        if told.is_some_and(|told| told.revision == revision && !told.noted) {
            self.emit(now, NeedAnswered { broker, service, revision }, out);
        }
    }

    pub(super) fn need_answered(&mut self, fact: &NeedAnswered) {
        let NeedAnswered { broker, service, revision } = fact;
        self.state.pending.settle(&Obligation::Need(*revision));
        let key = (*broker, service.clone());
        let Some(told) = self.state.needs.0.get_mut(&key) else { return };
        told.noted = true;
        if told.wants.is_empty() {
            self.state.needs.0.remove(&key);
        }
    }
}

impl Fact {
    /// The service that the fact is about, if it is about one.
    fn service(&self) -> Option<&SliceName> {
        if let Self::ServiceDefined(ServiceDefined { service, .. })
        | Self::ServiceRemoved(ServiceRemoved { service })
        | Self::ServiceReported(ServiceReported { service, .. })
        | Self::MembersTold(MembersTold { service, .. })
        | Self::ServiceStale(ServiceStale { service })
        | Self::SloAssessed(SloAssessed { service, .. }) = self
        {
            return Some(service);
        }
        None
    }

    /// The request that is put, or answered, with the fact.
    fn asked(&self) -> Option<u64> {
        if let Self::Asked(Asked { request, .. }) = self {
            return Some(request.id.number);
        }
        if let Self::Granted(Granted { number, .. })
        | Self::AskRefused(AskRefused { number, .. })
        | Self::GaveUp(GaveUp { number }) = self
        {
            return Some(*number);
        }
        None
    }
}

/// The broker that a lease is of.
fn seller(lease: &Lease) -> Option<ActorId> {
    Some(lease.state.tickets().last()?.bottom().issuer)
}
