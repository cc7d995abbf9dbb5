//! How a broker handles its inputs.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::num::NonZeroU32;

use super::{Broker, Timer};
use crate::actor::dropped;
use crate::actor::effect::Problem;
use crate::actor::fact::truncate_text;
use crate::actor::{Emit as _, Role};
use crate::broker::Output;
use crate::broker::facts::{
    DelegationEnded, DelegationTaken, MapperAnswered, QuotaSet, ReceiptTaken, RequestForgotten,
    RequestRefused, Requested, TicketsCut, Woken,
};
use crate::broker::machine::State;
use crate::broker::mapper::{Choice, Decision, Verdict};
use crate::broker::quota::{Quota, Source, Whose};
use crate::model::codec::encode;
use crate::model::identity::ActorId;
use crate::model::property::Properties;
use crate::model::resource::Attributes;
use crate::model::slice::RequestId;
use crate::model::time::{Span, Term, Time};
use crate::mutants::mutant;
use crate::ticket::ledger::LEDGER_RETENTION;
use crate::ticket::link::{AccountId, DelegationId, Link, LinkHash, SignedLink};
use crate::ticket::receipt::Receipt;
use crate::ticket::{MAX_DEPTH, Ticket};
use crate::wire::message::{MAX_ITEMS, MAX_UNITS, Message, Request, Sealed, Subject};
use crate::wire::refusal::Refusal;

/// The longest refusal of a mapper's, in bytes.
const MAX_REFUSAL: usize = 1 << 13;

impl Broker {
    pub(super) fn start(&mut self, now: Time, out: &mut Output) {
        for (whose, quota) in self.state.quotas.outdated(&self.quotas) {
            self.emit(now, QuotaSet { whose, quota, by: Source::Configuration }, out);
        }
        self.emit(now, Woken {}, out);
    }

    pub(super) fn set_quota(
        &mut self,
        now: Time,
        whose: Whose,
        quota: Option<Quota>,
        out: &mut Output,
    ) {
        self.emit(now, QuotaSet { whose, quota, by: Source::Operator }, out);
    }

    pub(super) fn tick(&mut self, now: Time, out: &mut Output) {
        while let Some(timer) = self.state.timers.due(now) {
            match timer {
                Timer::Wake => self.emit(now, Woken {}, out),
                Timer::DelegationEnd(delegation) => {
                    self.emit(now, DelegationEnded { delegation }, out);
                }
                Timer::Request(id) => {
                    match self.state.requests.get(&id).map(|record| &record.state) {
                        Some(State::Open { .. }) => {
                            let refusal = Refusal::Undecided(now);
                            self.refuse(now, id, refusal, "the answer was due".to_owned(), out);
                        }
                        Some(
                            State::Granted { .. } | State::Returned { .. } | State::Refused { .. },
                        )
                        | None => self.emit(now, RequestForgotten { request: id }, out),
                    }
                }
            }
        }
    }

    pub(super) fn message(&mut self, now: Time, sealed: &Sealed, out: &mut Output) {
        let Some(envelope) = self.base.open(sealed, out) else { return };
        let from = envelope.header.from;
        let kind = envelope.message.kind();
        match envelope.message {
            Message::Delegate { ticket, attributes } => {
                self.delegated(now, from, ticket, attributes, out);
            }
            Message::Request(request) => self.requested_by(now, from, request, out),
            Message::Credit { receipts } => self.credit(now, from, receipts, out),
            Message::Refused { .. }
            | Message::Delegated { .. }
            | Message::Granted { .. }
            | Message::Redeem { .. }
            | Message::Leased { .. }
            | Message::Close { .. }
            | Message::Closed { .. }
            | Message::Credited { .. } => {
                out.problems.push(dropped(kind, "a broker does not take it"));
            }
        }
    }

    fn delegated(
        &mut self,
        now: Time,
        site: ActorId,
        ticket: Ticket,
        attributes: Attributes,
        out: &mut Output,
    ) {
        let Some(generation) = ticket.bottom().delegation else {
            return out.problems.push(dropped("delegate", "the ticket is no delegation"));
        };
        let delegation =
            DelegationId { issuer: ticket.bottom().issuer, number: generation.delegation };
        let account = AccountId::Delegation(delegation);
        let held = self.state.holdings.get(&account).map(|holding| holding.ticket.bottom().clone());
        let held_generation = held.as_ref().and_then(|link| link.delegation).map(|g| g.generation);
        if held_generation.is_none_or(|held| held < generation.generation) {
            if let Err(refusal) = self.check_delegation(now, site, &ticket, held.as_ref()) {
                let subject = Subject::Delegation(delegation);
                let message = Message::Refused { subject, refusal };
                return out.replies.push(self.base.volatile(site, now, message));
            }
            self.emit(now, DelegationTaken { ticket, attributes }, out);
        }
        let Some(holding) = self.state.holdings.get(&account) else { return };
        let held = holding.ticket.bottom().delegation.map_or(0, |g| g.generation);
        let message = Message::Delegated { delegation, generation: held };
        out.replies.push(self.base.answer(site, holding.taken, message));
    }

    fn check_delegation(
        &mut self,
        now: Time,
        site: ActorId,
        ticket: &Ticket,
        held: Option<&SignedLink>,
    ) -> Result<(), Refusal> {
        if !self.base.is_known(site, Role::SiteAuthority) {
            return Err(Refusal::Forbidden);
        }
        if ticket.links().len() >= MAX_DEPTH {
            return Err(Refusal::Malformed(
                "no ticket can be cut from a chain this long".to_owned(),
            ));
        }
        if held.is_none() && self.state.holdings.len() >= Self::MAX_HOLDINGS {
            return Err(Refusal::Overloaded);
        }
        let me = self.base.id();
        self.base.credentials.check_ticket(ticket, site, me)?;
        let new = ticket.bottom();
        if new.term.end() <= now {
            return Err(Refusal::TooLate(new.term.end()));
        }
        let supersedes = held.is_none_or(|old| {
            old.resource == new.resource
                && old.units <= new.units
                && old.term.start() == new.term.start()
                && old.term.end() <= new.term.end()
                && new.constraints == old.constraints
        });
        if supersedes {
            Ok(())
        } else {
            Err(Refusal::Malformed("the renewal takes away what the delegation gave".to_owned()))
        }
    }

    fn requested_by(&mut self, now: Time, from: ActorId, request: Request, out: &mut Output) {
        let id = request.id;
        if id.origin != from || !self.base.is_known(from, Role::ServiceManager) {
            return self.refuse_volatile(now, from, id, Refusal::Forbidden, out);
        }
        if self.state.requests.contains_key(&id) && !mutant!(TakesRequestsTwice) {
            return self.repeat_answer(id, out);
        }
        if let Err(cause) = check_request(&request) {
            return self.refuse_volatile(now, from, id, Refusal::Malformed(cause), out);
        }
        if now >= request.last_word().plus(self.base.margin()) {
            let refusal = Refusal::TooLate(request.last_end());
            return self.refuse_volatile(now, from, id, refusal, out);
        }
        let crowded = self.state.open.len() >= Self::MAX_OPEN || !self.usage_of(from).has_room();
        if crowded || self.state.quotas.asks_too_fast(from, now) {
            return self.refuse_volatile(now, from, id, Refusal::Overloaded, out);
        }
        let min = self.base.two_margins();
        let deadline = request.last_end().minus(min).min(request.answer_by);
        let refusal = if request.duration <= min {
            Some(Refusal::TermTooShort { term: request.duration, min })
        } else if now >= deadline {
            Some(Refusal::TooLate(deadline))
        } else if request.latest < now.minus(LEDGER_RETENTION) {
            Some(Refusal::TooLate(request.latest.plus(LEDGER_RETENTION)))
        } else {
            let open = self.usage_of(from).open;
            let crowded = self.state.quotas.no_more_open(from, open);
            crowded.or_else(|| self.not_extendable(&request))
        };
        self.emit(now, Requested { request }, out);
        if let Some(refusal) = refusal {
            self.refuse(now, id, refusal, "never open to decision".to_owned(), out);
        }
    }

    /// Why the request does not continue from tickets that its asker holds of this broker, if it claims to.
    fn not_extendable(&self, request: &Request) -> Option<Refusal> {
        let wanted = Term::lasting(request.earliest, request.duration).ok()?;
        request.items.iter().find_map(|item| {
            let extends = item.extends?;
            match self.state.ledger.entered(extends) {
                Some((_, link)) if link.holder != request.id.origin => {
                    Some(Refusal::NotExtendable(wanted))
                }
                Some((_, link))
                    if link.term.end() != request.earliest
                        || request.earliest != request.latest =>
                {
                    Some(Refusal::NotExtendable(wanted))
                }
                Some((_, link)) if link.units != item.units || link.units != item.min_units => {
                    let (held, asked) = (link.units.get(), item.units.get());
                    Some(Refusal::UnitsDiffer { held, asked })
                }
                Some(_) => None,
                None => Some(Refusal::NotExtendable(wanted)),
            }
        })
    }

    fn refuse_volatile(
        &self,
        now: Time,
        to: ActorId,
        id: RequestId,
        refusal: Refusal,
        out: &mut Output,
    ) {
        let message = Message::Refused { subject: Subject::Request(id), refusal };
        out.replies.push(self.base.volatile(to, now, message));
    }

    fn credit(&mut self, now: Time, from: ActorId, receipts: Vec<Receipt>, out: &mut Output) {
        let tickets: Vec<_> = receipts.iter().map(|receipt| receipt.what.link).collect();
        for receipt in receipts {
            let what = &receipt.what;
            let issued =
                self.state.issued.get(&what.link).filter(|issued| issued.credited.is_none());
            let Some(issued) = issued else { continue };
            let ours = what.issuer == self.base.id()
                && self.state.ticket(issued).is_some_and(|ticket| {
                    ticket.bottom().units == what.units && ticket.site() == what.site
                });
            if !ours || !self.base.credentials.checks_receipt(&receipt) {
                return out.problems.push(dropped("credit", "the receipt is not good here"));
            }
            if !mutant!(CreditNotBooked) {
                self.emit(now, ReceiptTaken { receipt }, out);
            }
        }
        // Anybody may bring a receipt, but only its holder's answer is one of a kind.
        let own = |link: &LinkHash| {
            self.state.issued.get(link).filter(|issued| issued.request.origin == from)
        };
        let causes = tickets.iter().map(|ticket| own(ticket)?.credited);
        let mut causes = causes.collect::<Option<Vec<_>>>().unwrap_or_default();
        causes.sort_by_key(|cause| cause.position);
        let message = Message::Credited { tickets };
        out.replies.push(match causes[..] {
            // Some of it is another's, or was forgotten: their terms have ended.
            [] => self.base.volatile(from, now, message),
            [cause] => self.base.answer(from, cause, message),
            [.., cause] => self.base.joint_answer(from, cause, message),
        });
    }

    pub(super) fn decide(&mut self, now: Time, decision: Decision, out: &mut Output) {
        if let Err(stale) = self.state.rounds.check(decision.round) {
            return out.problems.push(stale);
        }
        for choice in decision.choices {
            if let Err(cause) = self.carry_out(now, choice, out) {
                out.problems.push(Problem::BadChoice(cause));
            }
        }
        let memo = self.state.rounds.news(decision.memo, &mut out.problems);
        let wake = decision.wake.filter(|&wake| wake > now);
        self.emit(now, MapperAnswered { round: decision.round, memo, wake }, out);
    }

    fn carry_out(&mut self, now: Time, choice: Choice, out: &mut Output) -> Result<(), String> {
        let id = choice.request;
        let request = match self.state.requests.get(&id).map(|record| &record.state) {
            Some(State::Open { request }) => (**request).clone(),
            Some(State::Granted { .. } | State::Returned { .. } | State::Refused { .. }) | None => {
                return Err(format!("request {id} is not open"));
            }
        };
        match choice.verdict {
            Verdict::Refuse(refusal) => {
                if encode(&refusal).len() > MAX_REFUSAL {
                    return Err(format!("the refusal of {id} is longer than {MAX_REFUSAL} bytes"));
                }
                self.refuse(now, id, refusal, choice.reason, out);
            }
            Verdict::Grant { term, parts } => {
                check_grant(&request, term, &parts, now, self.base.two_margins())?;
                self.check_extensions(&request, &parts)?;
                let units = parts.iter().flatten().map(|&(_, units)| (term, units));
                let units: Vec<_> = units.collect();
                if let Some(quota) = self.state.quotas.exceeded(id.origin, &units, now) {
                    self.refuse(now, id, quota, choice.reason, out);
                    return Ok(());
                }
                let tickets = self.cut_tickets(&request, term, &parts)?;
                let reason = truncate_text(&choice.reason);
                self.emit(now, TicketsCut { request: id, tickets, reason }, out);
                self.repeat_answer(id, out);
            }
        }
        Ok(())
    }

    /// Cuts the tickets of a grant after the split check: no source is cut beyond what it covers.
    fn cut_tickets(
        &mut self,
        request: &Request,
        term: Term,
        parts: &[Vec<(AccountId, u32)>],
    ) -> Result<Vec<(u16, Ticket)>, String> {
        let mut drafts = BTreeMap::new();
        let mut tickets = Vec::new();
        let wanted = (0u16..).zip(request.items.iter().zip(parts));
        let wanted =
            wanted.flat_map(|(i, (item, sources))| sources.iter().map(move |&s| (i, item, s)));
        for (serial, (index, item, (account, units))) in (self.state.serial + 1..).zip(wanted) {
            let absent = || format!("there is no source {account}");
            let holding = self.state.holdings.get(&account).ok_or_else(absent)?;
            let attributes = self.attributes_of(account, holding);
            if let Some(unmet) = item.requirements.first_broken(attributes, &Properties::default())
            {
                return Err(format!("source {account} does not meet `{unmet}`"));
            }
            let parent = holding.ticket.clone();
            let units = NonZeroU32::new(units).ok_or("a part of no units")?;
            let free = match drafts.entry(account) {
                Entry::Occupied(draft) => draft.into_mut(),
                Entry::Vacant(none) => {
                    let free = self.state.ledger.free(account).ok_or_else(absent)?;
                    none.insert(free.clone())
                }
            };
            if free.free_over(term) < i64::from(units.get()) && !mutant!(NoSplitCheck) {
                return Err(format!("source {account} does not cover {units} units over {term}"));
            }
            free.add(term, -i64::from(units.get()));
            let link = Link {
                parent: Some(parent.hash()),
                issuer: self.base.id(),
                holder: request.id.origin,
                resource: item.resource.clone(),
                units,
                term,
                constraints: parent.bottom().constraints.clone(),
                delegation: None,
                extends: item.extends,
                serial,
            };
            link.follows(Some(parent.bottom())).map_err(|fault| fault.to_string())?;
            tickets.push((index, parent.with(self.base.credentials.sign_link(link))));
        }
        Ok(tickets)
    }

    /// Whether the grant of an extension keeps source, units and term of what it continues from.
    fn check_extensions(
        &self,
        request: &Request,
        parts: &[Vec<(AccountId, u32)>],
    ) -> Result<(), String> {
        for (item, sources) in request.items.iter().zip(parts) {
            let Some(extends) = item.extends else { continue };
            let held = self.state.ledger.entered(extends).map(|(account, _)| account);
            if sources.len() != 1 || held != Some(sources[0].0) || sources[0].1 != item.units.get()
            {
                return Err("an extension keeps its source and its units".to_owned());
            }
        }
        Ok(())
    }

    fn refuse(
        &mut self,
        now: Time,
        id: RequestId,
        refusal: Refusal,
        reason: String,
        out: &mut Output,
    ) {
        let reason = truncate_text(&reason);
        self.emit(now, RequestRefused { request: id, refusal, reason }, out);
        self.repeat_answer(id, out);
    }

    /// Answers a request as it was answered, or, while it is open, not at all: the asker waits.
    fn repeat_answer(&self, id: RequestId, out: &mut Output) {
        let Some(record) = self.state.requests.get(&id) else { return };
        let message = match &record.state {
            State::Open { .. } => return,
            State::Granted { tickets, .. } | State::Returned { tickets } => {
                Message::Granted { request: id, tickets: tickets.clone() }
            }
            State::Refused { refusal } => {
                Message::Refused { subject: Subject::Request(id), refusal: refusal.clone() }
            }
        };
        if let Some(cause) = record.answered {
            out.replies.push(self.base.answer(id.origin, cause, message));
        }
    }
}

fn check_request(request: &Request) -> Result<(), String> {
    if request.items.is_empty() || request.items.len() > MAX_ITEMS {
        return Err(format!("a request has 1 to {MAX_ITEMS} items, not {}", request.items.len()));
    }
    if request.latest < request.earliest {
        return Err("the latest start is before the earliest".to_owned());
    }
    if request.items.iter().any(|item| item.min_units > item.units) {
        return Err("an item would do with more units than it asks for".to_owned());
    }
    // No ticket is for more than its item, and of more its site would make no lease, nor take it back.
    if let Some(item) = request.items.iter().find(|item| item.units.get() > MAX_UNITS) {
        return Err(format!("{} units in one item are more than {MAX_UNITS}", item.units));
    }
    Term::lasting(request.latest, request.duration).map_err(|empty| empty.to_string())?;
    Ok(())
}

/// Whether a grant is what was asked for.
fn check_grant(
    request: &Request,
    term: Term,
    parts: &[Vec<(AccountId, u32)>],
    now: Time,
    two_margins: Span,
) -> Result<(), String> {
    let starts_in_time = request.earliest <= term.start() && term.start() <= request.latest;
    if term.start() < now.minus(LEDGER_RETENTION) {
        return Err(format!("term {term} starts too far back"));
    }
    if !starts_in_time || term.duration() != request.duration {
        return Err(format!("term {term} is not what {} asks for", request.id));
    }
    if term.end() <= now.plus(two_margins) {
        return Err(format!("term {term} ends within two clock margins"));
    }
    if parts.len() != request.items.len() {
        return Err(format!("{} items, {} answers", request.items.len(), parts.len()));
    }
    for (item, sources) in request.items.iter().zip(parts) {
        let sum: u64 = sources.iter().map(|&(_, units)| u64::from(units)).sum();
        if sum < u64::from(item.min_units.get()) || sum > u64::from(item.units.get()) {
            return Err(format!("{sum} units where {}..={} suit", item.min_units, item.units));
        }
    }
    Ok(())
}
