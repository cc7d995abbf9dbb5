//! L1: every request is answered.

use std::collections::{BTreeMap, BTreeSet};

use super::model::{Model, GuestModel, Subject};
use super::{Bounds, Change, Check, Law, Observation, Scene, Tally, LawVerdict};
use tenure_core::service_manager::facts::Fact;
use tenure_core::service_manager::sequence::Gate;
use tenure_core::model::identity::ActorId;
use tenure_core::wire::message::Message;
use tenure_core::model::slice::LeaseId;
use tenure_core::model::time::{Span, Time};

pub(super) const LAW: Law = Law {
    id: "L1",
    name: "every request ends",
    statement: "Once the faults have stopped, every lease requested of honest actors is active \
                or ended within the bound, counted from its latest start and the time its answer \
                is due. A guest at rest has asked for whatever it waits for, and waits for \
                tickets, by its own clock, until the request's deadline and no longer.",
    source: "termination after stabilisation; Shirako S49, AVE A09",
    on: "facts of guests, in true time; guests at rest and what they send",
};

/// The least lease, to search from.
const FIRST: LeaseId = LeaseId { number: 0, part: 0 };

/// The kind of message that a guest in a state waits to have answered.
fn question(word: &str) -> Option<&'static str> {
    match word {
        "Asking" | "Joining+asking" | "Active+asking" | "Leaving(end)+asking" => Some("request"),
        "Accepting" => Some("accept"),
        "GivenUp" => Some("withdraw"),
        "Redeeming" | "Joining+redeeming" | "Active+redeeming" | "Leaving(end)+redeeming" => Some("redeem"),
        "Closing" => Some("close"),
        "Crediting" => Some("credit"),
        _ => None,
    }
}

#[derive(Default)]
pub(super) struct Checker {
    /// When the faults stopped, and how long a request may take from then on.
    healed: Option<(Time, Span)>,
    /// The leases that wait, and since when.
    waiting: BTreeMap<(ActorId, LeaseId), Time>,
    /// The leases of each guest for which a question is to be sent.
    unasked: BTreeMap<ActorId, BTreeMap<LeaseId, &'static str>>,
    /// The leases that wait for tickets, by the last word of their requests.
    by_last_word: BTreeSet<(ActorId, Time, LeaseId)>,
    /// Those last words.
    last_words: BTreeMap<(ActorId, LeaseId), Time>,
}

impl Check for Checker {
    fn change(&mut self, scene: &Scene<'_>, change: &Change, tally: &mut Tally) -> LawVerdict {
        let Subject::Lease(guest, lease) = change.subject else { return Ok(()) };
        let blocked = |gate| {
            let guest = scene.model.guests.get(&guest);
            guest.is_some_and(|guest| guest.blocked.contains(&(lease, gate)))
        };
        let waits_for_others = match change.to {
            "Redeeming" => blocked(Gate::Redeem),
            "Joining" => blocked(Gate::Join),
            _ => false,
        };
        if change.to != "Redeeming" || !waits_for_others {
            self.asks(guest, lease, change);
        }
        self.waits_for_tickets(scene.model, guest, lease);
        let waits = ["Asking", "Offered", "Accepting", "GivenUp", "Redeeming", "Joining"];
        let word = change.to.split('+').next().unwrap_or_default();
        if waits.contains(&word) && !waits_for_others {
            self.waiting.entry((guest, lease)).or_insert(scene.now);
            return Ok(());
        }
        match self.waiting.remove(&(guest, lease)) {
            Some(since) => self.in_time(scene.model, scene.now, ((guest, lease), since), tally),
            None => Ok(()),
        }
    }

    fn guest(&mut self, scene: &Scene<'_>, fact: &Fact, _: &mut Tally) -> LawVerdict {
        let Fact::Unblocked(fact) = fact else { return Ok(()) };
        let guest = scene.model.guests.get(&scene.actor);
        let word = guest.and_then(|guest| Some(guest.leases.get(&fact.lease)?.word()));
        match (word, fact.gate) {
            (Some("Redeeming"), Gate::Redeem) => {
                let unasked = self.unasked.entry(scene.actor).or_default();
                unasked.insert(fact.lease, "redeem");
            }
            (Some("Joining"), Gate::Join) => {}
            _ => return Ok(()),
        }
        self.waiting.insert((scene.actor, fact.lease), scene.now);
        Ok(())
    }

    fn happened(&mut self, scene: &Scene<'_>, seen: &Observation<'_>, tally: &mut Tally) -> LawVerdict {
        match *seen {
            Observation::Sent { envelope, .. } => {
                let Some(guest) = scene.model.guests.get(&scene.actor) else { return Ok(()) };
                let lease = lease_of(guest, &envelope.message);
                let unasked = self.unasked.get_mut(&scene.actor);
                lease.and_then(|lease| unasked?.remove(&lease));
                Ok(())
            }
            Observation::Rested { actor, clock } => self.rests(scene, actor, clock, tally),
            _ => Ok(()),
        }
    }

    fn healed(&mut self, now: Time, bounds: Bounds) {
        self.healed = Some((now, bounds.request));
    }

    fn settled(&mut self, model: &Model, now: Time, tally: &mut Tally) -> LawVerdict {
        self.waiting
            .iter()
            .try_for_each(|(&lease, &since)| self.in_time(model, now, (lease, since), tally))
    }
}

/// The lease that a guest sends a question for.
fn lease_of(guest: &GuestModel, message: &Message) -> Option<LeaseId> {
    let of_ticket = |hash| guest.tickets.get(hash).copied();
    match message {
        Message::Request(request) => guest.requests.get(&request.id.number).map(|asked| asked.2),
        Message::Accept { request, .. } => Some(LeaseId { number: request.number, part: 0 }),
        Message::Withdraw(request) => Some(LeaseId { number: request.id.number, part: 0 }),
        Message::Redeem { ticket, .. } => of_ticket(&ticket.hash()),
        Message::Close { tickets } => of_ticket(&tickets.first()?.hash()),
        Message::Credit { receipts } => of_ticket(&receipts.first()?.what.link),
        _ => None,
    }
}

impl Checker {
    /// A lease comes to wait for an answer, or no longer does.
    fn asks(&mut self, guest: ActorId, lease: LeaseId, change: &Change) {
        let unasked = self.unasked.entry(guest).or_default();
        match question(change.to) {
            Some(question) if self::question(change.from) == Some(question) => {}
            // The extension was asked for before the guest began to leave, and is still being asked for.
            Some("request") if change.from.starts_with("Leaving(close)") => {}
            Some(question) => {
                unasked.insert(lease, question);
            }
            None => {
                unasked.remove(&lease);
            }
        }
    }

    fn waits_for_tickets(&mut self, model: &Model, guest: ActorId, id: LeaseId) {
        let Some(record) = model.guests.get(&guest) else { return };
        let Some(lease) = record.leases.get(&id) else { return };
        let Some((_, request, _)) = record.requests.get(&lease.number) else { return };
        let waits = lease.waits();
        if let Some(last) = self.last_words.remove(&(guest, id)) {
            self.by_last_word.remove(&(guest, last, id));
        }
        if waits {
            let last = request.last_word().max(lease.expires_at.plus(request.duration));
            self.last_words.insert((guest, id), last);
            self.by_last_word.insert((guest, last, id));
        }
    }

    fn rests(
        &self,
        scene: &Scene<'_>,
        guest: ActorId,
        clock: Time,
        tally: &mut Tally,
    ) -> LawVerdict {
        if let Some(broker) = scene.model.brokers.get(&guest) {
            let first = broker.held.first();
            return tally.check(first.is_none_or(|(until, _)| clock < *until), || {
                let name = scene.name();
                format!("{name} rests at {clock} with a hold that has lapsed: {first:?}")
            });
        }
        let unasked = self.unasked.get(&guest).and_then(BTreeMap::first_key_value);
        tally.check(unasked.is_none(), || {
            let (name, (lease, question)) = (scene.name(), unasked.unwrap_or((&FIRST, &"question")));
            format!("{name} rests without a `{question}` for lease {lease}, for which it waits")
        })?;
        let next = self.by_last_word.range((guest, Time::MIN, FIRST)..).next();
        let Some(&(_, last, lease)) = next.filter(|next| next.0 == guest) else { return Ok(()) };
        tally.check(clock < last, || {
            let name = scene.name();
            format!("{name} rests at {clock} and waits for lease {lease}, as it may until {last}")
        })
    }

    fn in_time(
        &self,
        model: &Model,
        now: Time,
        ((guest, id), since): ((ActorId, LeaseId), Time),
        tally: &mut Tally,
    ) -> LawVerdict {
        let Some((healed, bound)) = self.healed else { return Ok(()) };
        let Some(record) = model.guests.get(&guest) else { return Ok(()) };
        let Some(lease) = record.leases.get(&id) else { return Ok(()) };
        let Some((broker, request, _)) = record.requests.get(&lease.number) else { return Ok(()) };
        let site = lease.first.as_ref().map(|ticket| ticket.site());
        if !model.participants.honest(*broker) || site.is_some_and(|site| !model.participants.honest(site)) {
            return Ok(());
        }
        let may_wait = request.latest.max(request.answer_by.min(request.last_end()));
        let held = record.held_until.get(&lease.number).copied().unwrap_or(may_wait);
        let starts = lease.first.as_ref().map_or(may_wait, |ticket| ticket.bottom().term.start());
        let may_wait = may_wait.max(held).max(starts);
        let due = since.max(healed).max(may_wait).plus(bound);
        tally.check(now <= due, || {
            let (name, word) = (model.name(guest), lease.word());
            format!("lease {id} of {name} waits since {since}, was due by {due}, and is {word}")
        })
    }
}
