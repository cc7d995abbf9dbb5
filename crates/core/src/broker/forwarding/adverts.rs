//! Adverts: what a broker tells those that pass requests on to it, or have units of it, and what it was told itself.
//!
//! All of it is volatile. Its mapper sees by it whom to ask, and in which order; the broker itself only shares the time
//! left among those that are not silent.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::Neighbour;
use super::entries::Further;
use super::known::{KnownNeighbour, Liveness, after};
use crate::actor::periodic::Periodic;
use crate::actor::{Emit as _, Role, dropped};
use crate::broker::facts::Woken;
use crate::broker::{Broker, Output};
use crate::model::codec::Hash;
use crate::model::identity::ActorId;
use crate::model::name::Name;
use crate::model::time::{Span, Time};
use crate::wire::advert::{Advert, AdvertEntry, Entries, digest};
use crate::wire::handover::Outcome;
use crate::wire::message::{Header, Message};
use crate::wire::request::Request;

/// Who was not heard for so many periods is silent.
const MISSED: i64 = 3;

/// Who was silent for so long is forgotten.
const FORGOTTEN: Span = Span::DAY;

/// An advert with new entries is sent once in so many periods.
const APART: i64 = 2;

/// The adverts that a broker has received and sent.
#[derive(Clone, Debug, Default)]
pub(in crate::broker) struct Adverts {
    period: Option<Span>,
    due: Periodic,
    received: BTreeMap<ActorId, ReceivedAdvert>,
    sent: BTreeMap<ActorId, SentAdvert>,
}

impl PartialEq for Adverts {
    /// They are in no journal: two brokers with the same facts are the same, whatever adverts they had.
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Adverts {
    /// The entries of the next advert to a broker: all of them if they have changed or it has missed them.
    fn news(&mut self, now: Time, who: ActorId, entries: Vec<AdvertEntry>) -> Entries {
        let new = digest(&entries);
        if self.sent.get(&who).is_some_and(|told| told.digest == new && !told.wanted) {
            return Entries::Same(new);
        }
        self.sent.insert(who, SentAdvert { digest: new, at: now, wanted: false });
        Entries::All(entries)
    }
}

/// The last advert that came from a broker.
#[derive(Clone, Debug)]
struct ReceivedAdvert {
    /// When it was sent, by the other's clock, and when it came.
    sent: Time,
    at: Time,
    until: Time,
    entries: Option<(Hash, Arc<Vec<AdvertEntry>>)>,
    /// The entries as they are by what its sender has answered since.
    since: Option<Arc<Vec<AdvertEntry>>>,
}

impl ReceivedAdvert {
    /// What is known of what its sender has.
    fn entries(&self) -> Option<&Arc<Vec<AdvertEntry>>> {
        self.since.as_ref().or(self.entries.as_ref().map(|(_, entries)| entries))
    }

    /// Whether one sent then comes late. The entries that it lacks may be sent in the same instant.
    fn supersedes(&self, sent: Time) -> bool {
        sent < self.sent || (sent == self.sent && self.entries.is_some())
    }
}

/// The last advert to a broker with all entries.
#[derive(Clone, Copy, Debug)]
struct SentAdvert {
    digest: Hash,
    at: Time,
    /// Whether the receiver has asked for it again.
    wanted: bool,
}

impl SentAdvert {
    /// Whether it is too recent for another one with new entries. A clock that was set back puts nothing off.
    fn is_recent(&self, now: Time, apart: Span) -> bool {
        self.at <= now && now < self.at.plus(apart)
    }
}

impl Broker {
    /// The same broker, which sends adverts at each start and then after each period.
    pub fn with_adverts(mut self, period: Option<Span>) -> Self {
        self.adverts.period = period;
        self.adverts.due = Periodic::every(period);
        self
    }

    /// When its next adverts are due.
    pub(in crate::broker) fn next_advert(&self) -> Option<Time> {
        self.adverts.due.next()
    }

    /// The brokers that requests are passed on to, by name, with what was heard of them.
    pub fn known_neighbours(&self, now: Time) -> Vec<KnownNeighbour> {
        let to = self.forwards_to().into_iter();
        to.map(|(name, broker)| self.known_neighbour(now, name, broker)).collect()
    }

    /// Whether a broker was heard of late.
    pub(in crate::broker) fn liveness_of(&self, broker: ActorId, now: Time) -> Liveness {
        liveness(self.adverts.received.get(&broker), now)
    }

    fn known_neighbour(&self, now: Time, name: Name, broker: ActorId) -> KnownNeighbour {
        let heard = self.adverts.received.get(&broker);
        let liveness = liveness(heard, now);
        let heard_of = heard.filter(|_| liveness == Liveness::Live);
        let entries = heard_of.and_then(ReceivedAdvert::entries);
        KnownNeighbour {
            name,
            broker,
            liveness,
            heard: heard.map(|heard| heard.at),
            entries: entries.cloned().unwrap_or_default(),
        }
    }

    /// After a restart nothing is known of others: they are asked.
    pub(in crate::broker) fn ask_for_adverts(&self, now: Time, out: &mut Output) {
        if self.adverts.period.is_some() {
            let ask = |who| self.base.volatile(who, now, Message::AdvertWanted);
            out.replies.extend(self.listened_to().into_iter().map(ask));
        }
    }

    /// Sends the adverts that are due.
    pub(in crate::broker) fn advertise(&mut self, now: Time, out: &mut Output) {
        if !self.adverts.due.falls_due(now) {
            return;
        }
        let to = self.told();
        self.adverts.sent.retain(|who, _| to.contains(who));
        let heard = self.listened_to();
        self.adverts.received.retain(|who, _| heard.contains(who));
        self.tell_all(now, &to, out);
    }

    /// Two brokers have agreed on something: they need not wait for the next period to hear of each other.
    pub(in crate::broker) fn introduce(
        &mut self,
        now: Time,
        (with, of): (ActorId, &Neighbour),
        out: &mut Output,
    ) {
        if self.adverts.period.is_none() {
            return;
        }
        if of.forward && !self.adverts.received.contains_key(&with) {
            out.replies.push(self.base.volatile(with, now, Message::AdvertWanted));
        }
        if of.accept.is_some() && !self.adverts.sent.contains_key(&with) {
            self.tell_all(now, &[with].into(), out);
        }
    }

    fn tell_all(&mut self, now: Time, to: &BTreeSet<ActorId>, out: &mut Output) {
        let Some(period) = self.adverts.period else { return };
        let mut known = None;
        for &who in to {
            let entries = self.told_of_late(now, who, period.times(APART)).unwrap_or_else(|| {
                let (own, further) = known.get_or_insert_with(|| {
                    (self.own_entries(now), Further::of(&self.known_neighbours(now)))
                });
                self.adverts.news(now, who, self.entries_for(who, own, further))
            });
            let advert = Advert { lasts: period.times(MISSED), entries };
            out.replies.push(self.base.volatile(who, now, Message::Advert(Box::new(advert))));
        }
    }

    /// What to tell a broker again, if it was told too recently to be sent new entries.
    fn told_of_late(&self, now: Time, who: ActorId, apart: Span) -> Option<Entries> {
        let told = self.adverts.sent.get(&who).filter(|told| told.is_recent(now, apart))?;
        Some(Entries::Same(told.digest))
    }

    /// An advert has come.
    pub(in crate::broker) fn told_advert(
        &mut self,
        now: Time,
        header: &Header,
        advert: Advert,
        out: &mut Output,
    ) {
        let from = header.from;
        if !self.passes_to(from) && !self.has_units_of(from) {
            let cause = "nothing is passed on to its sender, or borrowed from it";
            return out.problems.push(dropped("advert", cause));
        }
        if let Err(cause) = advert.check() {
            return out.problems.push(dropped("advert", cause));
        }
        let old = self.adverts.received.get(&from);
        // One that comes late says nothing, unless the other's clock was set back.
        if old.is_some_and(|old| old.supersedes(header.at) && now < old.until) {
            return;
        }
        let known = old.and_then(|old| old.entries.clone());
        let entries = match advert.entries {
            Entries::All(entries) => Some((digest(&entries), Arc::new(entries))),
            Entries::Same(same) => known.filter(|(digest, _)| *digest == same),
        };
        if entries.is_none() {
            out.replies.push(self.base.volatile(from, now, Message::AdvertWanted));
        }
        let heard = ReceivedAdvert {
            sent: header.at,
            at: now,
            until: now.plus(advert.lasts),
            entries,
            since: None,
        };
        let was = self.liveness_of(from, now);
        self.adverts.received.insert(from, heard);
        if was != Liveness::Live && !self.state.open.is_empty() {
            // What waits may be met by who is back.
            self.emit(now, Woken {}, out);
        }
    }

    /// What a broker answers to a request counts more than what it advertised before.
    pub(in crate::broker) fn heed(&mut self, from: ActorId, request: &Request, outcome: &Outcome) {
        let Some(heard) = self.adverts.received.get_mut(&from) else { return };
        let Some(entries) = heard.entries() else { return };
        if let Some(entries) = after(entries, request, outcome) {
            heard.since = Some(Arc::new(entries));
        }
    }

    /// A broker has missed entries. If they were sent just now, they are sent again when the next advert is due.
    pub(in crate::broker) fn advert_wanted(&mut self, now: Time, from: ActorId, out: &mut Output) {
        if !self.told().contains(&from) {
            return out.problems.push(dropped("advert-wanted", "its sender gets no adverts"));
        }
        let apart = self.adverts.period.unwrap_or_default().times(APART);
        if let Some(told) = self.adverts.sent.get_mut(&from) {
            told.wanted = true;
            if told.is_recent(now, apart) {
                return;
            }
        }
        self.tell_all(now, &[from].into(), out);
    }

    /// The brokers that get adverts: those whose requests are taken, and those that units are lent to, which see by it
    /// that their lender is there.
    fn told(&self) -> BTreeSet<ActorId> {
        let borrowers = self.state.sharings.brokers().into_iter();
        let known = borrowers.filter(|who| self.base.is_known(*who, Role::Broker));
        self.accepts_from().into_iter().chain(known).collect()
    }

    /// The brokers whose adverts count.
    fn listened_to(&self) -> BTreeSet<ActorId> {
        let asked = self.forwards_to().into_iter().map(|(_, who)| who);
        asked.chain(self.borrows_from()).collect()
    }

    /// The brokers whose requests are taken.
    pub(in crate::broker) fn accepts_from(&self) -> BTreeSet<ActorId> {
        let all = self.state.neighbours.keys().into_iter();
        let accepts = |who: &ActorId| {
            let accepts = self.state.neighbours.of(*who).is_some_and(|of| of.accept.is_some());
            accepts && self.base.is_known(*who, Role::Broker)
        };
        all.filter(accepts).collect()
    }
}

fn liveness(heard: Option<&ReceivedAdvert>, now: Time) -> Liveness {
    match heard {
        None => Liveness::Unknown,
        Some(heard) if now < heard.until => Liveness::Live,
        Some(heard) if now < heard.until.plus(FORGOTTEN) => Liveness::Silent,
        Some(_) => Liveness::Forgotten,
    }
}
