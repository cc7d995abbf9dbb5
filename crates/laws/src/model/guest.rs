//! What a service manager's journal says: requests, tickets granted, leases.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;

use super::{Change, Folded, NOTHING, Subject, Unfounded, unfounded};
use tenure_core::driver::UnitId;
use tenure_core::model::identity::ActorId;
use tenure_core::model::slice::{LeaseId, SliceName};
use tenure_core::model::time::Time;
use tenure_core::service_manager::Standing;
use tenure_core::service_manager::facts::{Asked, Fact, HostsAnswered, Offered, RestBegun};
use tenure_core::service_manager::machine::{Change as LeaseChange, Event, Held, Outcome, State};
use tenure_core::service_manager::request;
use tenure_core::service_manager::sequence::{After, Gate, On};
use tenure_core::ticket::Ticket;
use tenure_core::ticket::link::LinkHash;
use tenure_core::ticket::receipt::Receipt;
use tenure_core::wire::hosts::{Contest, Hosts};
use tenure_core::wire::need::Need;
use tenure_core::wire::offer::Offer;
use tenure_core::wire::recall::{Level, Notice};
use tenure_core::wire::request::Request;

/// The model of one service manager.
#[derive(Default)]
pub(crate) struct GuestModel {
    /// Leases, forgotten ones too.
    pub(crate) leases: BTreeMap<LeaseId, GuestLease>,
    /// Every request it ever made, with the broker it was put to and the lease it is for.
    pub(crate) requests: BTreeMap<u64, (ActorId, Request, LeaseId)>,
    /// What was asked for before requests were revised, by their numbers.
    pub(crate) earlier: BTreeMap<u64, Vec<Request>>,
    /// The parts whose sites are being asked for what nobody claims of them.
    pub(crate) reclaimed: BTreeSet<LinkHash>,
    /// The requests whose tickets are kept.
    kept: BTreeSet<u64>,
    /// What requests wait for.
    after: BTreeMap<u64, Vec<After>>,
    /// The leases that wait for others, and what they do only then.
    pub(crate) blocked: BTreeSet<(LeaseId, Gate)>,
    /// Every part of a ticket that it ever handed on.
    pub(crate) parts: BTreeMap<LinkHash, Part>,
    /// Every ticket it was ever granted, with the lease it is for.
    pub(crate) tickets: BTreeMap<LinkHash, LeaseId>,
    /// Until when offers were held for it, by the number of the request.
    pub(crate) held_until: BTreeMap<u64, Time>,
    /// The newest recall of each part that it handed on.
    pub(crate) recalls: BTreeMap<LinkHash, Level>,
    /// What brokers were told last of services.
    pub(crate) needs: BTreeMap<(ActorId, SliceName), Need>,
    /// What they were told last of their hosts.
    pub(crate) hosts: BTreeMap<(ActorId, SliceName), Hosts>,
    /// Who else claims hosts of a service, by the last word of a broker.
    pub(crate) contests: BTreeMap<(ActorId, SliceName), Vec<Contest>>,
    /// What it was told of recalls, by lease and link.
    pub(crate) told: BTreeMap<(LeaseId, LinkHash), Notice>,
    /// The units that its user named to go first.
    pub(crate) named: BTreeMap<LeaseId, Vec<UnitId>>,
    /// What its sites are asked to take of kept tickets that were split, by lease.
    pub(crate) rests: BTreeMap<LeaseId, RestBegun>,
    /// The leases of which such a part came back.
    pub(crate) rests_given: BTreeSet<LeaseId>,
    /// What came back so, and has yet to be credited.
    pub(crate) rest_credits: BTreeMap<LeaseId, Vec<Receipt>>,
}

/// A part of a ticket that a guest handed on.
pub(crate) struct Part {
    /// The lease that the ticket would become.
    pub(crate) lease: LeaseId,
    /// The numbers of the receipts that were taken for it.
    pub(crate) credited: BTreeSet<u32>,
}

/// A lease at its guest, or a request without one.
pub(crate) struct GuestLease {
    pub(crate) stage: Stage,
    /// The request that it came of.
    pub(crate) number: u64,
    /// Its first ticket, once it has one.
    pub(crate) first: Option<Ticket>,
    /// The end of what is held or asked for, extensions included.
    pub(crate) expires_at: Time,
    pub(crate) forgotten: bool,
}

/// Whether there is a lease yet.
#[derive(Clone)]
pub(crate) enum Stage {
    Request(request::State),
    Lease(Box<State>),
}

impl GuestLease {
    pub(crate) fn word(&self) -> &'static str {
        if self.forgotten { NOTHING } else { self.standing().word() }
    }

    pub(crate) fn standing(&self) -> Standing<'_> {
        match &self.stage {
            Stage::Request(state) => Standing::Request(state),
            Stage::Lease(state) => Standing::Lease(state),
        }
    }

    /// Whether an answer to the request may still come.
    pub(crate) fn waits(&self) -> bool {
        matches!(&self.stage, Stage::Request(state) if state.is_open())
    }
}

impl GuestModel {
    /// What came back of a ticket beside its parts, and has yet to be credited.
    pub(crate) fn rest_to_credit(&self, ticket: LinkHash) -> Option<&Vec<Receipt>> {
        self.rest_credits.get(self.tickets.get(&ticket)?)
    }

    /// What the site is asked to take of a ticket beside its parts: the number, how many units, from when on.
    pub(crate) fn rest_asked(&self, ticket: LinkHash) -> Option<(u32, NonZeroU32, Time)> {
        let rest = self.rests.get(self.tickets.get(&ticket)?)?;
        Some((rest.number, rest.units, rest.from))
    }

    pub(super) fn fold(&mut self, me: ActorId, fact: &Fact) -> Folded {
        let mut changes = GuestChanges { guest: me, changes: Vec::new() };
        self.note(fact)?;
        match fact.lease_event() {
            Some((lease, _)) if self.is_request(lease) => {
                self.step_request(lease.number, request::Event::Expired, &mut changes)?;
            }
            Some((lease, event)) => self.step(lease, event, &mut changes)?,
            None => self.begin_or_end(fact, &mut changes)?,
        }
        Ok(changes.changes)
    }

    /// What brokers are told of services, and what they say of them.
    fn tells(&mut self, fact: &Fact) {
        if let Fact::NeedStated(fact) = fact {
            self.needs.insert((fact.broker, fact.need.service.clone()), fact.need.clone());
        }
        if let Fact::HostsStated(fact) = fact {
            self.hosts.insert((fact.broker, fact.hosts.service.clone()), fact.hosts.clone());
        }
        if let Fact::HostsAnswered(HostsAnswered { broker, service, contests, .. }) = fact {
            self.contests.insert((*broker, service.clone()), contests.clone());
        }
    }

    /// Takes down what a fact says besides what happened to a lease.
    fn note(&mut self, fact: &Fact) -> Result<(), Unfounded> {
        match fact {
            Fact::TicketsSplit(fact) => {
                for link in &fact.links {
                    let part = Part { lease: fact.lease, credited: BTreeSet::new() };
                    self.parts.insert(link.hash(), part);
                }
            }
            Fact::ReceiptTaken(fact) => {
                let hash = fact.receipt.what.link;
                let part = self.parts.get_mut(&hash).ok_or_else(|| unfounded(hash))?;
                part.credited.insert(fact.receipt.what.number);
            }
            Fact::ExtensionAsked(fact) => {
                let (number, request) = (fact.request.id.number, fact.request.clone());
                self.requests.insert(number, (fact.broker, request, fact.lease));
            }
            Fact::Revised(fact) => {
                let number = fact.request.id.number;
                let asked = self.requests.get_mut(&number).ok_or_else(|| unfounded(number))?;
                let before = std::mem::replace(&mut asked.1, fact.request.clone());
                self.earlier.entry(number).or_default().push(before);
                let end = fact.request.last_end();
                if let Some(lease) = self.leases.get_mut(&first(number)) {
                    lease.expires_at = lease.expires_at.max(end);
                }
            }
            Fact::ReclaimBegun(fact) => {
                self.reclaimed.insert(fact.part);
            }
            Fact::ReclaimEnded(fact) => {
                self.reclaimed.remove(&fact.part);
            }
            Fact::NeedStated(_) | Fact::HostsStated(_) | Fact::HostsAnswered(_) => self.tells(fact),
            Fact::RecallAsked(fact) => {
                self.recalls.insert(fact.link, fact.level);
            }
            Fact::RecallTold(fact) => {
                self.told.insert((fact.lease, fact.told.link), fact.told.clone());
            }
            Fact::RestBegun(fact) => {
                self.rests.insert(fact.lease, fact.clone());
            }
            Fact::RestReturned(fact) => {
                self.rests.remove(&fact.lease);
                self.rests_given.insert(fact.lease);
                let credits = self.rest_credits.entry(fact.lease).or_default();
                credits.extend(fact.receipts.iter().cloned());
            }
            Fact::RestRefused(fact) => {
                self.rests.remove(&fact.lease);
            }
            Fact::RestCredited(fact) => {
                self.rest_credits.remove(&fact.lease);
            }
            Fact::Unblocked(fact) => {
                self.blocked.remove(&(fact.lease, fact.gate));
            }
            Fact::VictimsNamed(fact) => {
                self.named.insert(fact.lease, fact.victims.clone());
            }
            Fact::ExtensionGranted(fact) => {
                self.tickets.insert(fact.ticket.hash(), fact.lease);
            }
            _ => {}
        }
        Ok(())
    }

    /// What happens to requests, and to leases before and after their lives.
    fn begin_or_end(&mut self, fact: &Fact, changes: &mut GuestChanges) -> Result<(), Unfounded> {
        match fact {
            Fact::Asked(fact) => self.asked(fact, changes),
            Fact::Granted(fact) => self.granted(fact.number, &fact.tickets, true, changes)?,
            Fact::UnwantedGranted(fact) => {
                self.granted(fact.number, &fact.tickets, false, changes)?;
            }
            Fact::TicketTaken(fact) => {
                let (number, ticket) = (fact.lease.number, fact.ticket.clone());
                let state = kept_or_redeemed(ticket.clone(), fact.keep);
                let over = (number, ticket.bottom().term.end());
                self.born(fact.lease, Stage::Lease(Box::new(state)), over, Some(ticket), changes);
            }
            Fact::AskRefused(fact) => {
                let event = request::Event::Refused(fact.refusal.clone(), fact.offers.clone());
                self.step_request(fact.number, event, changes)?;
            }
            Fact::Offered(fact) => self.offered(fact, changes)?,
            Fact::Revised(fact) => {
                let id = first(fact.request.id.number);
                let word = self.leases.get(&id).ok_or_else(|| unfounded(id))?.word();
                changes.moved(id, word, word);
            }
            Fact::Accepted(fact) => {
                self.step_request(fact.number, request::Event::Accepted(fact.offer), changes)?;
            }
            Fact::GaveUp(fact) => {
                self.step_request(fact.number, request::Event::GaveUp, changes)?;
            }
            Fact::LeaseForgotten(fact) => {
                let lease =
                    self.leases.get_mut(&fact.lease).ok_or_else(|| unfounded(fact.lease))?;
                changes.moved(fact.lease, lease.word(), NOTHING);
                lease.forgotten = true;
            }
            _ => {}
        }
        Ok(())
    }

    fn is_request(&self, lease: LeaseId) -> bool {
        matches!(self.leases.get(&lease).map(|lease| &lease.stage), Some(Stage::Request(_)))
    }

    fn asked(&mut self, fact: &Asked, changes: &mut GuestChanges) {
        let (number, request) = (fact.request.id.number, fact.request.clone());
        let expires_at = request.last_end();
        if fact.handling.keep_tickets {
            self.kept.insert(number);
        }
        self.after.insert(number, fact.handling.after.clone());
        self.requests.insert(number, (fact.broker, request, first(number)));
        let asked = Stage::Request(request::State::Asked);
        self.born(first(number), asked, (number, expires_at), None, changes);
    }

    fn offered(&mut self, fact: &Offered, changes: &mut GuestChanges) -> Result<(), Unfounded> {
        let id = first(fact.number);
        if let Some(lease) = self.leases.get_mut(&id) {
            let last = fact.offers.iter().filter_map(Offer::end).max();
            lease.expires_at = lease.expires_at.max(last.unwrap_or(lease.expires_at));
        }
        let (offers, refusal) = (fact.offers.clone(), fact.refusal.clone());
        let event = match fact.until {
            Some(until) => {
                self.held_until.insert(fact.number, until);
                request::Event::Offered(offers, until, refusal)
            }
            None => request::Event::Planned(offers, refusal),
        };
        self.step_request(fact.number, event, changes)
    }

    fn born(
        &mut self,
        id: LeaseId,
        stage: Stage,
        (number, expires_at): (u64, Time),
        first: Option<Ticket>,
        changes: &mut GuestChanges,
    ) {
        let before = self.leases.get(&id).map_or(NOTHING, GuestLease::word);
        if let Some(ticket) = &first {
            self.tickets.insert(ticket.hash(), id);
        }
        let lease = GuestLease { stage, number, first, expires_at, forgotten: false };
        changes.moved(id, before, lease.word());
        self.leases.insert(id, lease);
    }

    /// Moves on a request that has no lease.
    fn step_request(
        &mut self,
        number: u64,
        event: request::Event,
        changes: &mut GuestChanges,
    ) -> Result<(), Unfounded> {
        let id = first(number);
        let record = self.leases.get_mut(&id).ok_or_else(|| unfounded(id))?;
        let from = record.word();
        let Stage::Request(state) = &mut record.stage else { return Err(unfounded(id)) };
        *state = std::mem::replace(state, request::State::Unanswered).next(event)?;
        changes.moved(id, from, record.word());
        Ok(())
    }

    /// Each ticket becomes a lease.
    fn granted(
        &mut self,
        number: u64,
        tickets: &[(u16, Ticket)],
        wanted: bool,
        changes: &mut GuestChanges,
    ) -> Result<(), Unfounded> {
        let asked = self.leases.get(&first(number)).ok_or_else(|| unfounded(first(number)))?;
        let Stage::Request(asked) = asked.stage.clone() else {
            return Err(unfounded(first(number)));
        };
        let keep = self.kept.contains(&number);
        let group = request::GrantedLeases::of(number, tickets.len());
        asked.next(request::Event::Granted(group.clone()))?;
        for (id, (item, ticket)) in group.leases().zip(tickets) {
            if wanted {
                self.blocks(id, *item);
            }
            let over = (number, ticket.bottom().term.end());
            let state = if wanted {
                kept_or_redeemed(ticket.clone(), keep)
            } else {
                State::Closing { tickets: vec![ticket.clone()], credits: Vec::new() }
            };
            let state = Stage::Lease(Box::new(state));
            self.born(id, state, over, Some(ticket.clone()), changes);
        }
        Ok(())
    }

    /// A lease of an item of a request begins: it may have to wait for others.
    fn blocks(&mut self, id: LeaseId, item: u16) {
        let after = self.after.get(&id.number).into_iter().flatten();
        let own = after.filter(|after| {
            after.on != On::Item(item) && after.item.is_none_or(|waits| waits == item)
        });
        self.blocked.extend(own.map(|after| (id, after.gate)));
    }

    /// Applies an event to a lease and to its extension.
    fn step(
        &mut self,
        id: LeaseId,
        event: Event,
        changes: &mut GuestChanges,
    ) -> Result<(), Unfounded> {
        let lease = self.leases.get_mut(&id).ok_or_else(|| unfounded(id))?;
        let from = lease.standing().word();
        let Stage::Lease(state) = &mut lease.stage else { return Err(unfounded(id)) };
        let change = state.held().map(|held| held.change.clone());
        let denied = matches!(event, Event::ExtensionDenied);
        let gone = State::Closed { outcome: Outcome::Unanswered };
        **state = std::mem::replace(&mut **state, gone).next(event)?;
        if let Some(held) = state.held() {
            lease.expires_at = held.term.end();
        }
        let held = state.held().is_some();
        changes.moved(id, from, lease.standing().word());
        match change {
            // A request that outlives its lease is given up.
            Some(LeaseChange::Requested { number: own, .. }) if !held => {
                let (_, request, _) = self.requests.get(&own).ok_or_else(|| unfounded(own))?;
                let expires_at = request.last_end();
                let given_up = request::State::Asked.next(request::Event::GaveUp)?;
                self.born(first(own), Stage::Request(given_up), (own, expires_at), None, changes);
            }
            // A ticket that its site would not take is given back.
            Some(LeaseChange::Redeeming { ticket, number: own, .. }) if denied => {
                let expires_at = ticket.bottom().term.end();
                let state = Stage::Lease(Box::new(State::Closing {
                    tickets: vec![ticket.clone()],
                    credits: Vec::new(),
                }));
                self.born(first(own), state, (own, expires_at), Some(ticket), changes);
            }
            Some(_) | None => {}
        }
        Ok(())
    }

    /// Whether the answer to a request is still waited for.
    pub(crate) fn waits_for(&self, number: u64) -> bool {
        if self.leases.get(&first(number)).is_some_and(GuestLease::waits) {
            return true;
        }
        let lease = self.requests.get(&number).map(|(_, _, lease)| *lease);
        let held = lease.and_then(|lease| self.held(lease));
        matches!(
            held.map(|held| &held.change),
            Some(LeaseChange::Requested { number: own, .. }) if *own == number
        )
    }

    /// Whether a part that came back is credited, or forgotten with the ticket it was a part of.
    pub(crate) fn has_credited(&self, (part, number): (LinkHash, u32)) -> bool {
        self.parts.get(&part).is_none_or(|part| {
            part.credited.contains(&number)
                || self.leases.get(&part.lease).is_none_or(|lease| lease.forgotten)
        })
    }

    /// Where a request without a lease is in its life.
    pub(crate) fn request(&self, number: u64) -> Option<&request::State> {
        match &self.leases.get(&first(number))?.stage {
            Stage::Request(state) => Some(state),
            Stage::Lease(_) => None,
        }
    }

    /// What is held under a lease.
    pub(crate) fn held(&self, id: LeaseId) -> Option<&Held> {
        self.leases.get(&id)?.standing().held()
    }
}

/// What a ticket becomes that is wanted.
fn kept_or_redeemed(ticket: Ticket, keep: bool) -> State {
    if keep { State::Ticketed { ticket, split: false } } else { State::Redeeming { ticket } }
}

fn first(number: u64) -> LeaseId {
    LeaseId { number, part: 0 }
}

/// The state changes that a fact caused at one guest.
struct GuestChanges {
    guest: ActorId,
    changes: Vec<Change>,
}

impl GuestChanges {
    fn moved(&mut self, lease: LeaseId, from: &'static str, to: &'static str) {
        self.changes.push(Change { subject: Subject::Lease(self.guest, lease), from, to });
    }
}
