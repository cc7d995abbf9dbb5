//! How a broker handles its inputs.

use super::delegating::Asked;
use super::{Broker, Command, Timer};
use crate::actor::common::CommonActor as _;
use crate::actor::dropped;
use crate::actor::effect::Problem;
use crate::actor::invitations::PeerKeeper as _;
use crate::actor::keys::KeyHolder as _;
use crate::actor::{Emit as _, Role};
use crate::broker::Output;
use crate::broker::facts::{
    DelegationEnded, DelegationTaken, MapperAnswered, QuotaSet, ReceiptTaken, RequestForgotten,
    RequestRefused, Requested, Woken,
};
use crate::broker::machine::State;
use crate::broker::mapper::Decision;
use crate::broker::quota::{Quota, Whose};
use crate::broker::rules::Source;
use crate::model::identity::ActorId;
use crate::model::resource::Attributes;
use crate::model::slice::RequestId;
use crate::model::time::{Term, Time};
use crate::mutants::mutant;
use crate::ticket::ledger::{LEDGER_RETENTION, MAX_RETURNS};
use crate::ticket::link::{AccountId, DelegationId, LinkHash, SignedLink};
use crate::ticket::receipt::Receipt;
use crate::ticket::{MAX_DEPTH, Ticket};
use crate::wire::invitation::Permission;
use crate::wire::message::{Message, Sealed, Subject};
use crate::wire::offer::Reply;
use crate::wire::refusal::Refusal;
use crate::wire::request::{Item, Request};

impl Broker {
    pub(super) fn start(&mut self, now: Time, out: &mut Output) {
        let comes_back = self.base.position > 0;
        self.journal_settings(now, out);
        for (whose, quota) in self.state.quotas.outdated(&self.quotas) {
            self.emit(now, QuotaSet { whose, quota, by: Source::Configuration }, out);
        }
        self.configure_sharings(now, out);
        self.configure_neighbours(now, out);
        self.emit(now, Woken {}, out);
        self.drop_hosts_of_strangers(now, out);
        if comes_back {
            self.ask_for_statements(now, out);
            self.ask_for_adverts(now, out);
        }
        self.advertise(now, out);
    }

    pub(super) fn command(&mut self, now: Time, command: Command, out: &mut Output) {
        match command {
            Command::Keys(command) => refused(self.change_keys(now, command, out), out),
            Command::Peers(command) => {
                refused(self.change_peers(now, command, out), out);
                self.drop_hosts_of_strangers(now, out);
            }
            Command::SetQuota { whose, quota } => self.set_quota(now, whose, quota, out),
            Command::Delegate { to, from, units, length, grow } => {
                let asked = Asked { to, from, units, length, grow };
                refused(self.delegate(now, &asked, out), out);
            }
            Command::Return { delegation, units, from } => {
                refused(self.begin_return(now, delegation, (units, from), out), out);
            }
            Command::Recall { ticket, units, from } => {
                self.recall(now, ticket, (units, from), out);
            }
            Command::Share { with, sharing } => refused(self.share(now, with, sharing, out), out),
            Command::SetNeighbour { with, neighbour } => {
                refused(self.set_neighbour(now, with, neighbour, out), out);
            }
            Command::Sell(sells) => self.sell(now, sells, out),
        }
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
        self.advertise(now, out);
        while let Some(timer) = self.state.timers.due(now) {
            match timer {
                Timer::Wake => self.emit(now, Woken {}, out),
                Timer::DelegationEnd(delegation) => {
                    self.emit(now, DelegationEnded { delegation }, out);
                }
                Timer::Reclaim(ticket) => self.reclaim_due(now, ticket, out),
                Timer::IssuedEnd(number) => self.issued_end(now, number, out),
                Timer::Order(number) => self.order_due(now, number, out),
                Timer::Sharing => self.review_sharings(now, out),
                Timer::Request(id) => {
                    match self.state.requests.get(&id).map(|record| &record.state) {
                        Some(State::Open { request, waiting }) => {
                            let refusal = match waiting {
                                Some(_) => Refusal::TooLate(request.latest),
                                None => Refusal::Undecided(now),
                            };
                            let refusal = self.best_heard(id, refusal);
                            self.refuse(now, id, refusal, "the answer was due".to_owned(), out);
                        }
                        Some(&State::Held { until, .. }) => self.hold_due(now, id, until, out),
                        Some(State::Proposed { .. } | State::Taking { .. }) => {
                            self.proposal_due(now, id, out);
                        }
                        Some(State::Passed { .. } | State::Gathering { asked: Some(_), .. }) => {
                            self.pass_due(now, id, out);
                        }
                        Some(State::Gathering { asked: None, .. }) => {
                            let refusal = self.best_heard(id, Refusal::Undecided(now));
                            let reason = "the answer was due".to_owned();
                            self.no_more(now, id, refusal, reason, out);
                        }
                        Some(State::Reserved { gathered, .. }) => {
                            let until = gathered.until;
                            self.give_up(now, id, Refusal::Lapsed(until), out);
                        }
                        Some(State::Committing { .. }) => self.commit_due(now, id, out),
                        Some(
                            State::Planned { .. }
                            | State::Brought { .. }
                            | State::Granted { .. }
                            | State::Returned { .. }
                            | State::Refused { .. },
                        )
                        | None => self.emit(now, RequestForgotten { request: id }, out),
                    }
                }
            }
        }
    }

    #[allow(clippy::too_many_lines, reason = "a line or two for each kind of message")]
    pub(super) fn message(&mut self, now: Time, sealed: &Sealed, out: &mut Output) {
        let Some(envelope) = self.open(now, sealed, out) else { return };
        let from = envelope.header.from;
        let kind = envelope.message.kind();
        match envelope.message {
            Message::Delegate { ticket, attributes } => {
                self.delegated(now, from, ticket, attributes, out);
            }
            Message::Inquire(inquiry) => self.inquired(now, &envelope.header, &inquiry, out),
            Message::Request(request) => {
                self.requested_by(now, (from, sealed), request, None, out);
            }
            Message::Withdraw(request) => {
                let withdrawn = Some(Refusal::Withdrawn);
                self.requested_by(now, (from, sealed), request, withdrawn, out);
            }
            Message::HandOver(handover) => self.handed_over(now, from, *handover, out),
            Message::HandedBack(back) => self.handed_back(now, from, *back, out),
            Message::AskPortion(asked) => self.portion_asked(now, from, *asked, out),
            Message::PortionBack(back) => self.portion_back(now, from, *back, out),
            Message::PortionDecided { request, round, taken } => {
                self.portion_decided(now, from, (request, round, taken), out);
            }
            Message::Advert(advert) => self.told_advert(now, &envelope.header, *advert, out),
            Message::AdvertWanted => self.advert_wanted(now, from, out),
            Message::Accept { request, offer } => self.accept(now, from, request, offer, out),
            Message::Credit { receipts } => self.credit(now, from, receipts, out),
            Message::Reclaimed { ticket, redeemed, receipts } => {
                self.reclaimed(now, from, (ticket, redeemed), receipts, out);
            }
            Message::Delegated { delegation, generation } => {
                self.acknowledged(now, from, (delegation, generation), out);
            }
            Message::Returned { ticket, number, receipts } => {
                self.returned(now, from, (ticket, number), receipts, out);
            }
            Message::Refused { subject: Subject::Ticket(ticket), refusal, .. } => {
                self.reclaim_refused(now, from, ticket, &refusal, out);
            }
            Message::Refused { subject: Subject::Return(ticket, number), refusal, .. } => {
                self.return_denied(now, from, (ticket, number), refusal, out);
            }
            Message::Credited { receipts } => self.return_credited(now, from, &receipts, out),
            Message::Recalled { link, number, at, enforced, receipts } => {
                self.recall_answered(now, from, (link, number), (at, enforced, receipts), out);
            }
            Message::Refused { subject: Subject::Recall(link, number), refusal, .. } => {
                self.recall_refused(now, from, (link, number), refusal, out);
            }
            Message::RecallNotice { ticket, told } => {
                self.told_of_recall(now, from, ticket, told, out);
            }
            Message::Need(need) => self.told_need(now, from, need, out),
            Message::Hosts(hosts) => self.told_hosts(now, from, hosts, out),
            Message::Refused { .. }
            | Message::Noted { .. }
            | Message::HostsNoted { .. }
            | Message::HostsChanged { .. }
            | Message::Restate { .. }
            | Message::Granted { .. }
            | Message::Available { .. }
            | Message::Waiting { .. }
            | Message::Offered { .. }
            | Message::Redeem { .. }
            | Message::Modify { .. }
            | Message::Modified { .. }
            | Message::Leased { .. }
            | Message::Close { .. }
            | Message::Closed { .. }
            | Message::Return { .. }
            | Message::Reclaim { .. }
            | Message::Recall { .. }
            | Message::RecallNoted { .. }
            | Message::UnitFailed { .. }
            | Message::Keys { .. }
            | Message::KeysNoted { .. }
            | Message::Join(_)
            | Message::Joined { .. }
            | Message::Heartbeat { .. }
            | Message::HeartbeatHeard { .. }
            | Message::Ping
            | Message::Pong { .. } => {
                out.problems.push(dropped(kind, "a broker does not take it"));
            }
        }
    }

    fn delegated(
        &mut self,
        now: Time,
        from: ActorId,
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
            if let Err(refusal) = self.check_delegation(now, from, &ticket, held.as_ref()) {
                let subject = Subject::Delegation(delegation);
                let message = Message::Refused { subject, refusal, offers: Vec::new() };
                return out.replies.push(self.base.volatile(from, now, message));
            }
            self.emit(now, DelegationTaken { ticket, attributes }, out);
            self.cascade(now, account, out);
        }
        let Some(holding) = self.state.holdings.get(&account) else { return };
        let held = holding.ticket.bottom().delegation.map_or(0, |g| g.generation);
        let message = Message::Delegated { delegation, generation: held };
        out.replies.push(self.base.answer(from, holding.taken, message));
    }

    fn check_delegation(
        &mut self,
        now: Time,
        from: ActorId,
        ticket: &Ticket,
        held: Option<&SignedLink>,
    ) -> Result<(), Refusal> {
        let known =
            self.base.is_known(from, Role::SiteAuthority) || self.base.is_known(from, Role::Broker);
        let may = || self.base.may(from, Permission::Delegate, Role::Broker);
        if !known || from != ticket.bottom().issuer || (held.is_none() && !may()) {
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
        self.base.credentials.check_ticket(ticket, ticket.site(), me)?;
        let new = ticket.bottom();
        if new.term.end() <= now {
            return Err(Refusal::TooLate(new.term.end()));
        }
        let supersedes = held.is_none_or(|old| {
            old.resource == new.resource
                && self.left_at_end(old) <= new.units.get()
                && self.account_above(old) == ticket.account_above()
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

    /// The delegation that a holding was cut from.
    fn account_above(&self, held: &SignedLink) -> Option<AccountId> {
        self.state.holdings.get(&held.account())?.ticket.account_above()
    }

    /// A request comes in, comes again, or is withdrawn.
    fn requested_by(
        &mut self,
        now: Time,
        (from, sealed): (ActorId, &Sealed),
        request: Request,
        withdrawn: Option<Refusal>,
        out: &mut Output,
    ) {
        let id = request.id;
        // Who holds a ticket may ask to extend it, whoever has passed on the request for it.
        let known =
            self.base.is_known(from, Role::ServiceManager) || self.extends_own(from, &request);
        if id.origin != from || !known {
            return self.refuse_volatile(now, from, id, Refusal::Forbidden, out);
        }
        if self.state.requests.contains_key(&id) && !mutant!(TakesRequestsTwice) {
            match withdrawn {
                Some(refusal) => self.withdrawn(now, id, refusal, out),
                None => self.revise(now, request, sealed, out),
            }
            return self.repeat_answer(id, out);
        }
        let may = self.base.may(from, Permission::Request, Role::Broker)
            || self.extends_own(from, &request);
        if withdrawn.is_none() && !may {
            return self.refuse_volatile(now, from, id, Refusal::Forbidden, out);
        }
        if let Err(cause) = request.check().and_then(|()| self.check_units(&request)) {
            return self.refuse_volatile(now, from, id, Refusal::Malformed(cause), out);
        }
        if now >= Self::known_until(&request).plus(self.base.margin()) {
            let refusal = Refusal::TooLate(request.last_end());
            return self.refuse_volatile(now, from, id, refusal, out);
        }
        if self.is_crowded(now, from) {
            return self.refuse_volatile(now, from, id, Refusal::Overloaded, out);
        }
        let request = self.take_receipts(now, request, out);
        let refusal = withdrawn.or_else(|| self.not_open(now, from, &request));
        self.emit(now, Requested { request: request.clone() }, out);
        match refusal {
            Some(refusal) => {
                self.refuse(now, id, refusal, "never open to decision".to_owned(), out);
            }
            None => self.keep_sealed(now, &request, sealed, out),
        }
    }

    /// Whether there is no room for one more request that a peer answers for.
    pub(super) fn is_crowded(&self, now: Time, from: ActorId) -> bool {
        let crowded = self.state.open.len() >= Self::MAX_OPEN || !self.usage_of(from).has_room();
        crowded || self.state.quotas.asks_too_fast(from, now)
    }

    /// Why a request that a peer answers for is not open to decision, if it is not.
    pub(super) fn not_open(&self, now: Time, from: ActorId, request: &Request) -> Option<Refusal> {
        let crowded = || {
            let usage = self.usage_of(from);
            let crowded = self.state.quotas.no_more_open(from, usage.open);
            let holds = || match request.reply {
                Reply::Hold(_) => self.state.quotas.no_more_held(from, usage.held),
                Reply::Grant | Reply::Plan => None,
            };
            crowded.or_else(holds)
        };
        let drained = || self.state.is_drained.then_some(Refusal::Drained);
        let senseless = self.senseless(now, request).or_else(drained);
        senseless.or_else(crowded).or_else(|| self.not_extendable(request))
    }

    /// Why a request cannot be met whatever else there is, if it cannot.
    pub(super) fn senseless(&self, now: Time, request: &Request) -> Option<Refusal> {
        let min = self.base.two_margins();
        let deadline = request.last_end().minus(min).min(request.answer_by);
        if request.min_duration <= min {
            Some(Refusal::TermTooShort { term: request.min_duration, min })
        } else if now >= deadline {
            Some(Refusal::TooLate(deadline))
        } else if request.latest < now.minus(LEDGER_RETENTION) {
            Some(Refusal::TooLate(request.latest.plus(LEDGER_RETENTION)))
        } else {
            None
        }
    }

    /// Its asker has withdrawn a request: it is not decided any more, and nothing is held for it.
    pub(super) fn withdrawn(
        &mut self,
        now: Time,
        id: RequestId,
        refusal: Refusal,
        out: &mut Output,
    ) {
        match self.request(id) {
            Some(
                State::Open { .. }
                | State::Passed { .. }
                | State::Proposed { .. }
                | State::Gathering { .. }
                | State::Committing { .. },
            ) => {
                self.give_up_others(now, id, out);
                self.let_go(now, id, out);
                let reason = "its asker withdrew it".to_owned();
                let fact = RequestRefused { request: id, refusal, offers: Vec::new(), reason };
                self.emit(now, fact, out);
            }
            Some(State::Held { .. } | State::Reserved { .. }) => {
                self.give_up(now, id, refusal, out);
            }
            Some(
                // What is chosen comes, and goes back.
                State::Taking { .. }
                | State::Planned { .. }
                | State::Brought { .. }
                | State::Granted { .. }
                | State::Returned { .. }
                | State::Refused { .. },
            )
            | None => {}
        }
    }

    /// Whether all that is asked for continues tickets of the asker that were cut here.
    fn extends_own(&self, from: ActorId, request: &Request) -> bool {
        let extends = |item: &Item| {
            let ticket = item.extends.and_then(|extends| self.state.ledger.entered(extends));
            ticket.is_some_and(|(_, link)| link.holder == from)
        };
        !request.items.is_empty() && request.items.iter().all(extends)
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
                // Fewer units may go on; more are a ticket of their own.
                Some((_, link)) if link.units < item.units || item.min_units != item.units => {
                    let (held, asked) = (link.units.get(), item.units.get());
                    Some(Refusal::UnitsDiffer { held, asked })
                }
                Some(_) => None,
                None => Some(Refusal::NotExtendable(wanted)),
            }
        })
    }

    pub(super) fn refuse_volatile(
        &self,
        now: Time,
        to: ActorId,
        id: RequestId,
        refusal: Refusal,
        out: &mut Output,
    ) {
        let message =
            Message::Refused { subject: Subject::Request(id), refusal, offers: Vec::new() };
        out.replies.push(self.base.volatile(to, now, message));
    }

    fn credit(&mut self, now: Time, from: ActorId, receipts: Vec<Receipt>, out: &mut Output) {
        let named: Vec<_> =
            receipts.iter().map(|receipt| (receipt.what.link, receipt.what.number)).collect();
        if !self.credit_all(now, receipts, out) {
            return;
        }
        // Anybody may bring a receipt, but only its holder's answer is one of a kind.
        let own = |(link, number): &(LinkHash, u32)| {
            let Some(issued) = self.state.issued.get(link) else {
                return self.credited_of_issued(from, (*link, *number));
            };
            Some(issued).filter(|i| i.request.origin == from)?.credited.get(number).copied()
        };
        let causes = named.iter().map(own).collect();
        out.replies.push(self.base.credited(now, from, named, causes));
    }

    /// Credits the receipts that were not credited yet, up to the first that is not good. Whether all are.
    fn credit_all(&mut self, now: Time, receipts: Vec<Receipt>, out: &mut Output) -> bool {
        for receipt in receipts {
            let is_new = match self.issued_number(receipt.what.link) {
                Some(number) => self.is_new_of_issued(number, &receipt),
                None => self.is_new(&receipt),
            };
            match is_new {
                Some(true) => {}
                Some(false) => continue,
                None => {
                    out.problems.push(dropped("credit", "the receipt is not good here"));
                    return false;
                }
            }
            if !mutant!(CreditNotBooked) {
                let of = self.state.ledger.entered(receipt.what.link).map(|(account, _)| account);
                self.emit(now, ReceiptTaken { receipt }, out);
                if let Some(account) = of {
                    self.give_back_unsold(now, account, out);
                }
            }
        }
        true
    }

    /// Credits what a request brings along, before it is decided; what is left of it is the request.
    pub(super) fn take_receipts(
        &mut self,
        now: Time,
        mut request: Request,
        out: &mut Output,
    ) -> Request {
        let receipts = std::mem::take(&mut request.receipts);
        if !mutant!(ReceiptsOfRequestsIgnored) {
            self.credit_all(now, receipts, out);
        }
        request
    }

    /// Whether a receipt has yet to be credited: not if it was, or is for a ticket that is not remembered.
    /// None if it is not good.
    pub(super) fn is_new(&mut self, receipt: &Receipt) -> Option<bool> {
        let what = &receipt.what;
        let Some(issued) = self.state.issued.get(&what.link) else { return Some(false) };
        let known = issued.credited.contains_key(&what.number);
        if known {
            return Some(false);
        }
        let ledger = &self.state.ledger;
        let part = what.into();
        // Of a ticket that ended long ago there is nothing left to charge.
        let fits = ledger.can_return(what.link, &part) || ledger.entered(what.link).is_none();
        // A ticket that is kept back for an offer is in nobody's hands, so nobody can have given it back.
        let state = self.request(issued.request);
        let kept_back = state
            .is_some_and(|state| matches!(state, State::Held { .. }) || state.gathered().is_some());
        let ours = what.issuer == self.base.id()
            && !kept_back
            && issued.credited.len() < MAX_RETURNS
            && self.state.ticket(issued).is_some_and(|ticket| {
                ticket.site() == what.site && ticket.bottom().units >= what.units
            });
        (ours && fits && self.base.credentials.checks_receipt(receipt)).then_some(true)
    }

    pub(super) fn decide(&mut self, now: Time, decision: Decision, out: &mut Output) {
        if let Err(stale) = self.state.rounds.check(decision.round) {
            return out.problems.push(stale);
        }
        let mut done = Vec::new();
        for end in decision.ended {
            done.push(self.end_order(now, end, out));
        }
        for choice in decision.choices {
            done.push(self.carry_out(now, choice, out));
        }
        done.extend(self.carry_out_orders(now, decision.orders, out));
        let bad = done.into_iter().filter_map(Result::err);
        out.problems.extend(bad.map(Problem::BadChoice));
        let memo = self.state.rounds.news(decision.memo, &mut out.problems);
        let wake = decision.wake.filter(|&wake| wake > now);
        self.emit(now, MapperAnswered { round: decision.round, memo, wake }, out);
    }

    /// Answers a request as it was answered; while it is open, with its place in the queue, if it has one.
    pub(super) fn repeat_answer(&self, id: RequestId, out: &mut Output) {
        let Some(record) = self.state.requests.get(&id) else { return };
        if record.handed_by().is_some() {
            return self.repeat_to_broker(id, record, out);
        }
        let message = match &record.state {
            State::Open { waiting: None, .. }
            | State::Passed { .. }
            | State::Taking { .. }
            | State::Gathering { .. }
            | State::Reserved { .. }
            | State::Committing { .. } => return,
            State::Open { waiting: Some(waiting), .. } => {
                Message::Waiting { request: id, waiting: waiting.clone() }
            }
            State::Held { request, offers, until, refusal } => Message::Offered {
                request: id,
                offers: offers.iter().map(|tickets| request.offer_of(tickets)).collect(),
                until: Some(*until),
                refusal: refusal.clone(),
            },
            State::Proposed { offers, until, .. } => Message::Offered {
                request: id,
                offers: offers.clone(),
                until: Some(*until),
                refusal: None,
            },
            State::Planned { offers, refusal } => Message::Offered {
                request: id,
                offers: offers.clone(),
                until: None,
                refusal: refusal.clone(),
            },
            State::Granted { tickets, .. }
            | State::Returned { tickets }
            | State::Brought { tickets } => {
                Message::Granted { request: id, tickets: tickets.clone() }
            }
            State::Refused { refusal, offers } => Message::Refused {
                subject: Subject::Request(id),
                refusal: refusal.clone(),
                offers: offers.clone(),
            },
        };
        if let Some(cause) = record.answered {
            out.replies.push(self.base.answer(id.origin, cause, message));
        }
    }
}

/// Reports the refusal of a command to its giver.
fn refused(done: Result<(), String>, out: &mut Output) {
    out.problems.extend(done.err().map(Problem::Command));
}
