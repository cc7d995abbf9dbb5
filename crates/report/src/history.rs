//! What the journals of a deployment say, actor by actor.

use std::collections::BTreeMap;

use tenure_core::broker::needs::ServiceId;
use tenure_core::model::identity::ActorId;
use tenure_core::model::name::Name;
use tenure_core::model::slice::SliceName;
use tenure_core::model::time::Time;
use tenure_core::runtime::{Entry, Fact};

use crate::broker::Broker;
use crate::guest::Guest;
use crate::site::Site;

/// What the facts of journals come to. Facts of one journal are added in their order; journals in any.
#[derive(Debug, Default)]
pub struct History {
    names: BTreeMap<ActorId, Name>,
    pub(crate) guests: BTreeMap<ActorId, Guest>,
    pub(crate) brokers: BTreeMap<ActorId, Broker>,
    pub(crate) sites: BTreeMap<ActorId, Site>,
    end: Option<Time>,
}

impl History {
    /// One without facts, which calls actors by these names.
    pub fn new(names: BTreeMap<ActorId, Name>) -> Self {
        Self { names, ..Self::default() }
    }

    /// Adds the next fact of an actor's journal.
    pub fn add(&mut self, actor: ActorId, Entry { at, fact }: &Entry) {
        self.end = self.end.max(Some(*at));
        match fact {
            Fact::ServiceManager(fact) => {
                self.guests.entry(actor).or_default().add(actor, *at, fact)
            }
            Fact::Broker(fact) => self.brokers.entry(actor).or_default().add(*at, fact),
            Fact::SiteAuthority(fact) => self.sites.entry(actor).or_default().add(*at, fact),
        }
    }

    /// The same once all facts are added, at the time `now`, or else that of the last of them.
    pub fn finish(mut self, now: Option<Time>) -> Self {
        self.end = self.end.max(now);
        let end = self.end();
        for guest in self.guests.values_mut() {
            guest.services.values_mut().for_each(|service| service.lapse(end));
        }
        self
    }

    /// Until when anything is known.
    pub(crate) fn end(&self) -> Time {
        self.end.unwrap_or(Time::ZERO)
    }

    /// Actors in the order of their names, so that reports do not depend on keys.
    pub(crate) fn by_name<'a, T>(
        &self,
        actors: &'a BTreeMap<ActorId, T>,
    ) -> impl Iterator<Item = (ActorId, &'a T)> + use<'a, T> {
        let mut actors: Vec<_> = actors.iter().map(|(id, of)| (*id, of)).collect();
        actors.sort_by_cached_key(|(id, _)| self.name(*id));
        actors.into_iter()
    }

    /// What an actor is called: its id, if no name of it is known.
    pub(crate) fn name(&self, actor: ActorId) -> String {
        self.names.get(&actor).map_or_else(|| actor.to_string(), ToString::to_string)
    }

    /// How a service, or a slice, is called: `guest/batch`.
    pub(crate) fn named(&self, guest: ActorId, service: &SliceName) -> String {
        format!("{}/{service}", self.name(guest))
    }

    pub(crate) fn service(&self, id: &ServiceId) -> String {
        self.named(id.guest, &id.service)
    }
}
