//! How facts change a broker.

use std::num::NonZeroU32;
use std::sync::Arc;

use super::{Broker, Cause, Holding, IssuedTicket, Obligation, Record, Timer, Wanted};
use crate::actor::common::CommonActor as _;
use crate::actor::fact::BadFact;
use crate::broker::facts::{DelegationTaken, Fact, QuotaSet};
use crate::broker::forwarding::Route;
use crate::broker::machine::{Event, State};
use crate::broker::orders::OrderEvent;
use crate::model::codec::encode;
use crate::model::name::Name;
use crate::model::slice::RequestId;
use crate::model::time::Time;
use crate::mutants::mutant;
use crate::ticket::Ticket;
use crate::ticket::ledger::{LEDGER_RETENTION, PartReturned};
use crate::ticket::link::{AccountId, DelegationId, LinkHash};
use crate::ticket::receipt::Receipt;
use crate::wire::request::{Item, Request};

impl Broker {
    #[allow(clippy::too_many_lines, reason = "a line or two for each kind of fact")]
    pub(super) fn apply_fact(&mut self, at: Time, fact: &Fact) -> Result<(), BadFact> {
        match fact {
            Fact::DelegationTaken(fact) => self.delegation_taken(at, fact),
            Fact::DelegationEnded(fact) => self.delegation_ended(at, fact.delegation),
            Fact::Requested(fact) => {
                self.state.quotas.asked(fact.request.id.origin, at);
                self.requested(&fact.request, None);
            }
            Fact::QuotaSet(fact) => self.quota_set(fact),
            Fact::TicketsCut(fact) => {
                for (place, (_, ticket)) in fact.tickets.iter().enumerate() {
                    self.enter(ticket, (fact.request, place), at);
                    self.set_reclaim(ticket);
                }
                self.moved(fact.request, at, Event::Granted(fact.tickets.clone()))?;
            }
            Fact::RequestRefused(fact) => self.request_refused(at, fact)?,
            Fact::RequestQueued(fact) => {
                self.moved(fact.request, at, Event::Waited(fact.waiting.clone()))?;
            }
            Fact::OffersHeld(fact) => self.offers_held(at, fact)?,
            Fact::OfferAccepted(fact) => self.offer_accepted(at, fact)?,
            Fact::OfferPassed(fact) => self.offer_passed(at, fact)?,
            Fact::HoldEnded(fact) => self.hold_ended(at, fact)?,
            Fact::RequestPlanned(fact) => {
                let planned = Event::Planned(fact.offers.clone(), fact.refusal.clone());
                self.moved(fact.request, at, planned)?;
            }
            Fact::ReclaimBegun(fact) => self.reclaim_begun(at, fact.ticket),
            Fact::ReclaimEnded(fact) => self.settle_reclaim(fact.ticket),
            Fact::Common(fact) => {
                self.apply_common(at, fact);
                self.begin_relation(at, fact);
            }
            Fact::Revised(fact) => self.revised(at, fact)?,
            Fact::ReceiptTaken(fact) => match self.issued_number(fact.receipt.what.link) {
                Some(number) => self.issued_came_back(at, number, fact),
                None => self.receipt_taken(at, &fact.receipt)?,
            },
            Fact::RequestForgotten(fact) => self.forget(fact.request),
            Fact::MapperAnswered(fact) => {
                self.state.rounds.answered(fact.memo.as_ref(), fact.wake);
                self.state.timers.set(Timer::Wake, fact.wake);
            }
            Fact::Woken(_) => self.woken(),
            Fact::DelegationIssued(fact) => self.delegation_issued(at, fact),
            Fact::DelegationAcknowledged(fact) => {
                self.state.pending.settle(&Obligation::Delegate(fact.number));
            }
            Fact::IssuedDelegationEnded(fact) => self.issued_ended(fact.number),
            Fact::ReturnBegun(fact) => self.return_begun(at, fact),
            Fact::PartReturned(fact) => self.part_returned(at, fact),
            Fact::ReturnRefused(fact) => self.return_refused(fact),
            Fact::ReturnCredited(fact) => self.end_return(AccountId::Delegation(fact.delegation)),
            Fact::RecallAsked(fact) => self.recall_asked(at, fact),
            Fact::NeedNoted(fact) => self.need_noted(at, fact),
            Fact::HostsNoted(fact) => self.hosts_noted(at, fact),
            Fact::BoundsSet(fact) => self.bounds_set(fact),
            Fact::OrderPlaced(fact) => self.order_placed(at, fact),
            Fact::OrderEnded(fact) => self.order_ended(fact),
            Fact::OrdersAdvised(fact) => self.orders_advised(fact),
            Fact::RecallAnswered(fact) => {
                let event = match fact.enforced {
                    true => OrderEvent::Freed(at),
                    false => OrderEvent::Recalled(fact.at),
                };
                self.orders_recalled(fact.link, event)?;
                if self.state.recalls.answered(fact.link, fact.at, fact.enforced) {
                    self.state.pending.settle(&Obligation::Recall(fact.link));
                }
            }
            Fact::RecallRefused(fact) => {
                self.state.recalls.refused(fact.link, &fact.refusal);
                self.state.pending.settle(&Obligation::Recall(fact.link));
            }
            Fact::RecallTold(fact) => self.recall_told(at, fact),
            Fact::NeighbourSet(fact) => self.neighbour_set(fact),
            Fact::RelationPlanned(fact) => self.relation_planned(at, fact),
            Fact::RequestSealed(fact) => self.request_sealed(at, fact),
            Fact::RequestHanded(fact) => self.request_handed(at, fact),
            Fact::RequestPassed(fact) => self.request_passed(at, fact)?,
            Fact::PassAnswered(fact) => self.pass_answered(at, fact)?,
            Fact::PassLapsed(fact) => self.pass_lapsed(at, fact.request)?,
            Fact::PortionHanded(fact) => self.portion_handed(at, fact),
            Fact::PortionKept(fact) => self.portion_kept(at, fact)?,
            Fact::PortionPassed(fact) => self.portion_passed(at, fact)?,
            Fact::PortionAnswered(fact) => self.portion_answered(at, fact)?,
            Fact::PortionReserved(fact) => self.portion_reserved(at, fact)?,
            Fact::PortionsTaken(fact) => self.portions_taken(at, fact.request)?,
            Fact::PortionsGranted(fact) => self.portions_granted(at, fact.request)?,
            Fact::PortionsReleased(fact) => self.portions_released(at, fact)?,
            Fact::SharingSet(fact) => self.sharing_set(at, fact),
            Fact::LotOpened(fact) => self.lot_opened(fact),
            Fact::SharingReviewed(fact) => self.sharing_reviewed(fact),
            Fact::SellingSet(fact) => self.selling_set(at, fact),
        }
        Ok(())
    }

    fn woken(&mut self) {
        self.state.timers.set(Timer::Wake, None);
        self.state.rounds.woken();
    }

    fn delegation_taken(&mut self, at: Time, fact: &DelegationTaken) {
        let link = fact.ticket.bottom();
        let account = link.account();
        let total = self.state.totals.entry(link.resource.clone()).or_default();
        for (term, units) in self.state.ledger.open(link) {
            total.add(term, units);
        }
        if let AccountId::Delegation(id) = account {
            // As long as ledgers are exact over its term: a renewal that comes late begins in the past, and
            // must not cover once more what was cut before.
            let end = link.term.end().plus(LEDGER_RETENTION).plus(self.base.margin());
            self.state.timers.set(Timer::DelegationEnd(id), Some(end));
        }
        let price = self.prices.get(&fact.ticket.bottom().resource).copied();
        self.index.list(&self.base, account, &fact.ticket, (&fact.attributes, price));
        let (ticket, attributes) = (fact.ticket.clone(), fact.attributes.clone());
        let taken = Cause { position: self.base.position, at };
        let old = self.state.holdings.remove(&account);
        let (returns, recalled) = old.map_or((0, None), |old| (old.returns, old.recalled));
        let holding = Holding { ticket, attributes, taken, returns, recalled };
        self.state.holdings.insert(account, holding);
        self.call_for_open();
        self.call_for_sharing(at);
    }

    fn delegation_ended(&mut self, at: Time, id: DelegationId) {
        let account = AccountId::Delegation(id);
        self.state.timers.set(Timer::DelegationEnd(id), None);
        self.end_issued_under(account);
        self.end_return(account);
        self.state.ledger.close(account);
        let Some(ended) = self.state.holdings.remove(&account) else { return };
        let resource = &ended.ticket.bottom().resource;
        self.index.unlist(self.base.name_of(ended.ticket.site()), account, resource);
        if !self.index.has_type(resource) {
            self.state.totals.remove(resource);
        } else if let Some(total) = self.state.totals.get_mut(resource) {
            // What the account adds to the total lies further back.
            total.forget_until(at.minus(LEDGER_RETENTION));
        }
    }

    /// What is held already counts from the first quota on.
    pub(super) fn quota_set(&mut self, fact: &QuotaSet) {
        let counted = self.state.quotas.any();
        self.state.quotas.set(fact.whose, fact.quota, fact.by);
        if counted != self.state.quotas.any() {
            let issued = &self.state.issued;
            let held = self.state.ledger.charged().map(|(link, term, units)| {
                let ticket = issued.get(&link.hash());
                (ticket.map_or(link.holder, |ticket| ticket.answers), term, units)
            });
            self.state.quotas.recount(held);
        }
    }

    pub(super) fn requested(&mut self, request: &Request, route: Option<Route>) {
        let came_at = self.base.position;
        let extended = request.items.iter().find_map(|item| self.state.issued.get(&item.extends?));
        let handed_by = route.as_ref().and_then(Route::from);
        let handed_by = handed_by.filter(|_| !mutant!(HandedCountsForGuest));
        let answers = handed_by.or(extended.map(|ticket| ticket.answers));
        let answers = answers.unwrap_or(request.id.origin);
        let shared = Arc::new(request.clone());
        let state = State::Open { request: Arc::clone(&shared), waiting: None };
        let record = Record {
            bytes: bytes_of(&state),
            state,
            wanted: wanted(request),
            came_at,
            answer_by: request.answer_by.min(request.last_end()),
            expires_at: request.remembered_until().plus(self.base.margin()),
            answered: None,
            route,
            answers,
        };
        self.state.timers.set(Timer::Request(request.id), Some(record.answer_by));
        self.state.open.insert(came_at, request.id);
        self.index.opened(came_at, shared);
        let usage = self.state.of_each.entry(answers).or_default();
        usage.requests += 1;
        usage.open += 1;
        usage.bytes += record.bytes;
        self.state.requests.insert(request.id, Box::new(record));
        self.state.rounds.call();
    }

    pub(super) fn enter(
        &mut self,
        ticket: &Ticket,
        (request, place): (RequestId, usize),
        at: Time,
    ) {
        let answers = self.answers_for(request);
        let links = ticket.links();
        if let [.., parent, child] = links {
            if let Some(total) = self.state.totals.get_mut(&child.resource) {
                total.forget_until(at.minus(LEDGER_RETENTION));
                total.add(child.term, -i64::from(child.units.get()));
            }
            self.state.ledger.enter(parent, child, at);
            self.state.quotas.granted(answers, child.term, child.units.get(), at);
            self.state.serial =
                if mutant!(SerialStays) { 0 } else { self.state.serial.max(child.serial) };
        }
        let since = self.held_since(ticket, request);
        let issued = IssuedTicket::new(ticket, (request, place), since, answers);
        self.index.granted(ticket, &issued);
        self.state.issued.insert(ticket.hash(), issued);
    }

    /// Since when the holder of a ticket that is cut for a request has its units.
    fn held_since(&self, ticket: &Ticket, request: RequestId) -> Time {
        let link = ticket.bottom();
        let extends = match self.request(request) {
            Some(State::Open { request, .. } | State::Held { request, .. }) => {
                let mut items = request.items.iter();
                items.find_map(|item| item.extends.filter(|_| item.resource == link.resource))
            }
            Some(
                State::Passed { .. }
                | State::Brought { .. }
                | State::Proposed { .. }
                | State::Taking { .. }
                | State::Gathering { .. }
                | State::Reserved { .. }
                | State::Committing { .. }
                | State::Planned { .. }
                | State::Granted { .. }
                | State::Returned { .. }
                | State::Refused { .. },
            )
            | None => None,
        };
        let before = extends.and_then(|before| self.state.issued.get(&before));
        before.map_or(link.term.start(), |before| before.since)
    }

    /// Moves a request on by what answers it, with all that follows from its new state.
    pub(super) fn moved(&mut self, id: RequestId, at: Time, event: Event) -> Result<(), BadFact> {
        let cause = Cause { position: self.base.position, at };
        let (before, was_open) = (self.counts(id), self.is_open(id));
        let answers = self.answers_for(id);
        let was_gathered = self.request(id).and_then(State::gathered).is_some();
        self.step(id, event)?;
        let after = self.counts(id);
        let record = self.state.requests.get_mut(&id).ok_or_else(|| missing("answer", id))?;
        record.answered = Some(cause);
        let asked = std::mem::replace(&mut record.bytes, bytes_of(&record.state));
        let due = match &record.state {
            State::Open { .. } => record.answer_by,
            State::Held { until, .. } | State::Passed { until, .. } => *until,
            // By the clock of who holds them they may be there for a margin longer.
            State::Proposed { until, .. } | State::Taking { until, .. } => {
                until.plus(self.base.margin())
            }
            State::Gathering { asked: Some((_, until)), .. } => *until,
            State::Gathering { asked: None, .. } => record.decide_by(),
            State::Reserved { gathered, .. } | State::Committing { gathered } => gathered.until,
            State::Brought { .. }
            | State::Planned { .. }
            | State::Granted { .. }
            | State::Returned { .. }
            | State::Refused { .. } => record.expires_at,
        };
        if let Some(route) = record.route.as_mut().filter(|_| after == (0, 0)) {
            route.sealed = None;
            if !route.tried.offers.is_empty() {
                Arc::make_mut(&mut route.tried).offers.clear();
            }
        }
        self.state.timers.set(Timer::Request(id), Some(due));
        match (record.shown(), was_open) {
            (Some(request), _)
                if !was_open || was_gathered || record.state.gathered().is_some() =>
            {
                self.state.open.insert(record.came_at, id);
                self.index.opened(record.came_at, request);
                self.state.rounds.call();
            }
            (None, true) => {
                self.state.open.remove(&record.came_at);
                self.index.closed(record.came_at);
            }
            (_, _) => {}
        }
        let usage = self.state.of_each.entry(answers).or_default();
        usage.open = usage.open + after.0 - before.0;
        usage.held = usage.held + after.1 - before.1;
        usage.bytes = usage.bytes - asked + record.bytes;
        let kept = record.kept();
        self.index.keeps(id, kept);
        self.show_route(id);
        Ok(())
    }

    /// Whether a request waits for the mapper.
    fn is_open(&self, id: RequestId) -> bool {
        self.state
            .requests
            .get(&id)
            .is_some_and(|record| self.state.open.contains_key(&record.came_at))
    }

    /// What a request counts for among those that are open, and those that have something held.
    fn counts(&self, id: RequestId) -> (u32, u32) {
        self.request(id).map_or((0, 0), counts)
    }

    /// What is free has changed: there is something to decide if a request waits.
    pub(super) fn call_for_open(&mut self) {
        if !self.state.open.is_empty() {
            self.state.rounds.call();
        }
    }

    /// Credits a part of a ticket from `from` on.
    pub(super) fn credit_back(&mut self, hash: LinkHash, part: PartReturned, from: Time, at: Time) {
        let returned = self.state.ledger.give_back(hash, part, from);
        if let (Some((_, link)), Some(term)) = (self.state.ledger.entered(hash), returned) {
            let issued = self.state.issued.get(&hash);
            let answers = issued.map_or(link.holder, |ticket| ticket.answers);
            self.state.quotas.returned(answers, term, part.units.get(), at);
            if let Some(total) = self.state.totals.get_mut(&link.resource) {
                total.add(term, i64::from(part.units.get()));
            }
        }
    }

    fn receipt_taken(&mut self, at: Time, receipt: &Receipt) -> Result<(), BadFact> {
        let what = &receipt.what;
        let hash = what.link;
        let from = what.term.start().max(at);
        let whole = self.state.ledger.entered(hash).filter(|_| mutant!(CreditsTheWhole));
        let (term, from) = whole.map_or((what.term, from), |(_, link)| (link.term, Time::MIN));
        let part = PartReturned { term, ..what.into() };
        self.credit_back(hash, part, from, at);
        let out = self.state.ledger.left_of(hash, at);
        let issued = self.state.issued.get_mut(&hash).ok_or_else(|| missing("receipt", hash))?;
        let late = issued.returned;
        issued.credited.insert(what.number, Cause { position: self.base.position, at });
        if let Some((_, longest)) = out.first() {
            issued.units = out.iter().map(|(units, _)| units.get()).sum();
            issued.until = longest.end();
        } else {
            issued.returned = true;
        }
        let is_back = issued.returned;
        let (id, over) = (issued.request, issued.returned);
        self.index.returned(hash, issued);
        if is_back {
            self.state.timers.set(Timer::Reclaim(hash), None);
        }
        self.call_for_open();
        self.call_for_sharing(at);
        self.orders_freed(at, hash)?;
        match (late, over) {
            // Its term has ended: nothing was out any more.
            (true, _) => Ok(()),
            (false, true) => self.step(id, Event::Credited(hash)),
            (false, false) => self.step(id, Event::PartCredited),
        }
    }

    pub(super) fn forget(&mut self, id: RequestId) {
        self.state.timers.set(Timer::Request(id), None);
        let Some(record) = self.state.requests.remove(&id) else { return };
        self.state.open.remove(&record.came_at);
        self.index.closed(record.came_at);
        self.index.routed(id, None);
        let answers = record.answers;
        if let Some(usage) = self.state.of_each.get_mut(&answers) {
            usage.requests -= 1;
            let (open, held) = counts(&record.state);
            usage.open -= open;
            usage.held -= held;
            usage.bytes -= record.bytes;
            if usage.requests == 0 {
                self.state.of_each.remove(&answers);
            }
        }
        if let State::Granted { tickets, .. } | State::Returned { tickets } = &record.state {
            let own = |ticket: &Ticket| {
                self.state.issued.get(&ticket.hash()).is_some_and(|issued| issued.request == id)
            };
            let own: Vec<_> = tickets.iter().filter(|(_, ticket)| own(ticket)).collect();
            for (_, ticket) in own {
                self.state.issued.remove(&ticket.hash());
                self.settle_reclaim(ticket.hash());
                self.end_recall(ticket.hash());
                self.index.forgotten(ticket.hash());
            }
        }
    }

    fn step(&mut self, id: RequestId, event: Event) -> Result<(), BadFact> {
        let record = self.state.requests.get_mut(&id).ok_or_else(|| missing("event", id))?;
        let gone = State::Returned { tickets: Vec::new() };
        record.state = std::mem::replace(&mut record.state, gone).next(event)?;
        Ok(())
    }
}

/// What a request counts for among those that are open, and those that have something held.
fn counts(state: &State) -> (u32, u32) {
    match state {
        State::Open { .. } | State::Passed { .. } => (1, 0),
        State::Gathering { .. } | State::Committing { .. } => (1, 1),
        State::Held { .. }
        | State::Proposed { .. }
        | State::Taking { .. }
        | State::Reserved { .. } => (0, 1),
        State::Brought { .. }
        | State::Planned { .. }
        | State::Granted { .. }
        | State::Returned { .. }
        | State::Refused { .. } => (0, 0),
    }
}

/// How long a state is, encoded; of a ticket the part that it does not share with others.
fn bytes_of(state: &State) -> u64 {
    let bytes = match state {
        State::Open { request, .. }
        | State::Passed { request, .. }
        | State::Taking { request, .. } => encode(&**request).len(),
        State::Proposed { request, offers, .. } => encode(&(&**request, offers)).len(),
        State::Held { request, offers, .. } => {
            let cut = offers.iter().flatten();
            let cut: usize = cut.map(|(_, ticket)| ticket.bottom().as_bytes().len()).sum();
            encode(&**request).len() + cut
        }
        State::Gathering { gathered, .. }
        | State::Reserved { gathered, .. }
        | State::Committing { gathered } => {
            let cut = gathered.tickets();
            let cut: usize = cut.iter().map(|(_, ticket)| ticket.bottom().as_bytes().len()).sum();
            encode(&*gathered.request).len() + cut
        }
        State::Planned { offers, refusal } => encode(&(offers, refusal)).len(),
        State::Granted { tickets, .. }
        | State::Returned { tickets }
        | State::Brought { tickets } => {
            tickets.iter().map(|(_, ticket)| ticket.bottom().as_bytes().len()).sum()
        }
        State::Refused { refusal, offers } => encode(&(refusal, offers)).len(),
    };
    u64::try_from(bytes).unwrap_or(u64::MAX)
}

pub(super) fn wanted(request: &Request) -> Wanted {
    let sum = |units: fn(&Item) -> NonZeroU32| {
        request.preferred().fold(0, |sum: u32, item| sum.saturating_add(units(item).get()))
    };
    Wanted {
        resource: request
            .items
            .first()
            .map_or_else(|| Name::literal("none"), |i| i.resource.clone()),
        units: sum(|item| item.units),
        min_units: sum(|item| item.min_units),
        earliest: request.earliest,
        latest: request.latest,
        duration: request.duration,
    }
}

fn missing(kind: &'static str, what: impl std::fmt::Display) -> BadFact {
    BadFact::Missing { kind, what: what.to_string() }
}
