//! What a service manager does for its user and its mapper: ask, extend, close.

use std::num::NonZeroU32;

use super::{Obligation, ServiceManager, Standing};
use crate::actor::effect::Problem;
use crate::actor::fact::truncate_text;
use crate::actor::invitations::PeerKeeper as _;
use crate::actor::keys::KeyHolder as _;
use crate::actor::{Emit as _, Role};
use crate::driver::UnitId;
use crate::model::identity::ActorId;
use crate::model::property::Properties;
use crate::model::resource::{Constraints, Expr};
use crate::model::slice::{LeaseId, RequestId};
use crate::model::time::{Span, Term, Time};
use crate::mutants::mutant;
use crate::service_manager::facts::{
    Asked, CloseBegun, ExtensionAsked, LeaveBegun, MapperAnswered,
};
use crate::service_manager::group::Handling;
use crate::service_manager::machine::{AfterLeave, State};
use crate::service_manager::mapper::{Ask, Decision, Extend, Flex, Shorten};
use crate::service_manager::{Command, Output};
use crate::ticket::Ticket;
use crate::ticket::link::LinkHash;
use crate::ticket::receipt::Receipt;
use crate::wire::message::{MAX_CONFIGURATION, MAX_TICKETS};
use crate::wire::offer::Reply;
use crate::wire::proviso::{History, Provisos};
use crate::wire::request::{Item, Request};

/// The most receipts that a request brings along. They are for units that it asks for again at once; all others
/// are shown by `credit`, and each has some 300 bytes.
const RECEIPTS_ALONG: usize = 16;

/// Further units for a lease.
pub(super) struct More {
    /// How many.
    pub(super) units: NonZeroU32,
    /// What has to hold of them, beside that they are of its type and at its site.
    pub(super) requirements: Constraints,
    /// Units that they must not be.
    pub(super) not_on: Vec<UnitId>,
    /// Why they are asked for.
    pub(super) why: String,
}

impl ServiceManager {
    pub(super) fn command(&mut self, now: Time, command: Command, out: &mut Output) {
        let done = match command {
            Command::Keys(command) => self.change_keys(now, command, out),
            Command::Peers(command) => self.change_peers(now, command, out),
            Command::Ask(ask) => self.ask(now, ask, None, out),
            Command::AskSeveral { ask, brokers, hold, tries } => {
                self.ask_several(now, *ask, (brokers, hold, tries), out)
            }
            Command::Inquire { broker, inquiry } => self.inquire(now, broker, &inquiry, out),
            Command::Extend { lease, duration, units, victims } => {
                self.extend(now, Extend { lease, duration, units, victims, reason: asked() }, out)
            }
            Command::Flex { lease, shrink, victims } => {
                self.flex(now, Flex { lease, shrink, victims, reason: asked() }, out)
            }
            Command::Shorten { lease, until } => {
                self.shorten(now, Shorten { lease, until, reason: asked() }, out)
            }
            Command::Grow { lease, units, requirements } => self.grow(
                now,
                lease,
                More {
                    units,
                    requirements,
                    not_on: Vec::new(),
                    why: format!("lease {lease} grows"),
                },
                out,
            ),
            Command::Redeem { lease } => self.redeem_kept(now, lease, out),
            Command::Split { lease, parts } => self.split(now, lease, parts, out),
            Command::Take { ticket, slice, configuration, keep } => {
                self.take(now, ticket, (slice, configuration, keep), out)
            }
            Command::Accept { number, offer } => self.accept(now, number, offer, out),
            Command::Withdraw { number } => {
                self.give_group_up(now, number, out);
                self.withdraw(now, number, out)
            }
            Command::Revise { number, ask } => self.revise(now, number, ask, out),
            Command::Close { lease } => self.close_for_good(now, lease, out),
            Command::Modify { lease, changes } => self.modify(now, lease, changes, out),
            Command::Victims { lease, units } => self.name_victims(now, lease, units, out),
            Command::ResetUnit { lease, unit } => self.reset_unit(now, lease, unit, out),
            Command::Recall { ticket, units, from } => self.recall(now, ticket, (units, from), out),
            Command::Hasten { lease, by } => self.hasten(now, lease, by, out),
            Command::ForceLeave { lease } => {
                self.force_leave(now, lease, out);
                Ok(())
            }
            Command::Plan(command) => self.plan_command(now, command, out),
            Command::Service(command) => self.service_command(now, command, out),
        };
        if let Err(cause) = done {
            out.problems.push(Problem::Command(cause));
        }
    }

    pub(super) fn decide(&mut self, now: Time, mut decision: Decision, out: &mut Output) {
        if let Err(stale) = self.state.rounds.check(decision.round) {
            return out.problems.push(stale);
        }
        self.divert(now, &mut decision, out);
        let mut done = Vec::new();
        for choice in decision.gates {
            done.push(self.answer_gate(now, choice, out));
        }
        for extend in decision.extensions {
            done.push(self.extend(now, extend, out));
        }
        for flex in decision.flexes {
            done.push(self.flex(now, flex, out));
        }
        for shorten in decision.shortens {
            done.push(self.shorten(now, shorten, out));
        }
        for lease in decision.closes {
            done.push(self.close_for_good(now, lease, out));
        }
        for ask in decision.asks {
            done.push(self.ask(now, ask, None, out));
        }
        for (number, ask) in decision.revisions {
            done.push(self.revise(now, number, ask, out));
        }
        for choice in decision.plans {
            done.push(self.answer_plan(now, choice, out));
        }
        self.pass_gates(now, decision.round, out);
        let bad = done.into_iter().filter_map(Result::err);
        out.problems.extend(bad.map(Problem::BadChoice));
        let memo = self.state.rounds.news(decision.memo, &mut out.problems);
        let wake = decision.wake.filter(|&wake| wake > now);
        self.emit(now, MapperAnswered { round: decision.round, memo, wake }, out);
    }

    pub(super) fn ask(
        &mut self,
        now: Time,
        ask: Ask,
        grows: Option<LeaseId>,
        out: &mut Output,
    ) -> Result<(), String> {
        self.state.last_number += u64::from(mutant!(NumberOutsideJournal));
        self.ask_under(now, (self.state.last_number + 1, ask), grows, out)
    }

    /// Asks under a number that no request has yet.
    pub(super) fn ask_under(
        &mut self,
        now: Time,
        (number, ask): (u64, Ask),
        grows: Option<LeaseId>,
        out: &mut Output,
    ) -> Result<(), String> {
        let broker = self.broker(ask.broker)?;
        self.check_ask(now, &ask)?;
        self.check_after(&ask.handling.after, ask.items.len())?;
        let fits = ask.configuration.check_bytes(MAX_CONFIGURATION);
        fits.map_err(|error| format!("the configuration is too long: {error}"))?;
        let request = Request {
            id: RequestId { origin: self.base.id(), number },
            items: ask.items,
            earliest: ask.earliest,
            latest: ask.latest,
            duration: ask.duration,
            min_duration: ask.min_duration,
            reply: ask.reply,
            answer_by: ask.answer_by,
            properties: ask.properties,
            provisos: ask.provisos,
            history: self.history(now, ask.again),
            receipts: self.uncredited(broker),
        };
        request.check()?;
        let Ask { slice, configuration, handling, .. } = ask;
        let reason = truncate_text(&ask.reason);
        let asked = Asked { broker, slice, request, configuration, handling, grows, reason };
        self.emit(now, asked, out);
        Ok(())
    }

    /// Why it is of no use to ask for this, if it is not.
    pub(super) fn check_ask(&self, now: Time, ask: &Ask) -> Result<(), String> {
        if let Some(item) = ask.items.iter().find(|i| i.requirements.len() > Constraints::MAX_COUNT)
        {
            let (count, most) = (item.requirements.len(), Constraints::MAX_COUNT);
            return Err(format!("{count} requirements in one item are more than {most}"));
        }
        Term::lasting(ask.earliest, ask.duration).map_err(|empty| empty.to_string())?;
        if ask.min_duration <= self.base.two_margins() {
            return Err(format!(
                "a term of {} is too short: it must be longer than {}",
                ask.min_duration,
                self.base.two_margins()
            ));
        }
        if let Some(by) = ask.provisos.redeem_by
            && by <= now.plus(self.base.two_margins())
        {
            return Err(format!("tickets that have to be redeemed before {by} come too late"));
        }
        Ok(())
    }

    /// What became of a request before; of another try, with what became of the earlier ones.
    fn history(&self, now: Time, again: Option<u64>) -> History {
        let before = again.and_then(|number| self.state.requests.get(&number));
        before.map_or(History::first(now), |before| {
            let History { asked, tries, .. } = before.wanted.history;
            History { tries: tries.saturating_add(1), ..History::first(asked) }
        })
    }

    /// Asks for further units of the same type at the same site, from now to the end of the lease.
    pub(super) fn grow(
        &mut self,
        now: Time,
        lease: LeaseId,
        more: More,
        out: &mut Output,
    ) -> Result<(), String> {
        let standing = self.standing(lease).ok_or_else(|| format!("there is no lease {lease}"))?;
        let Standing::Lease(State::Joining { held } | State::Active { held }) = standing else {
            return Err(format!("lease {lease} is {}, it cannot grow", standing.word()));
        };
        let newest = held.tickets.last().ok_or("a lease without a ticket")?.clone();
        let ask = self.ask_beside(now, lease, (&newest, held.term.end()), more)?;
        self.ask(now, ask, Some(lease), out)
    }

    /// What to ask for further units with, of a lease with this ticket, from now on until `end`.
    pub(super) fn ask_beside(
        &self,
        now: Time,
        lease: LeaseId,
        (ticket, end): (&Ticket, Time),
        more: More,
    ) -> Result<Ask, String> {
        let More { units, mut requirements, not_on, why } = more;
        let site = ticket.site();
        let excluded = ticket.bottom().clauses.not_on.iter().copied().chain(not_on);
        let not_on = excluded.map(|unit| (site, unit)).collect();
        let site =
            self.base.peer_name(site).ok_or_else(|| format!("site {site} has no name here"))?;
        let at_site = Expr::parse_condition(&format!("site = \"{site}\""));
        requirements.extend(Some(at_site.map_err(|error| error.to_string())?));
        let duration = end.since(now);
        let record = self.state.leases.get(&lease).ok_or("a lease without a record")?;
        let item = Item { requirements, ..Item::new(record.resource.clone(), units) };
        Ok(Ask {
            broker: Some(ticket.bottom().issuer),
            slice: record.slice.clone(),
            items: vec![item],
            earliest: now,
            latest: now,
            duration,
            min_duration: duration,
            reply: Reply::Grant,
            answer_by: end.minus(self.base.two_margins()),
            properties: Properties::default(),
            configuration: record.configuration.clone(),
            handling: Handling::default(),
            reason: why,
            provisos: Provisos { not_on, ..Provisos::NONE },
            again: None,
        })
    }

    pub(super) fn broker(&self, named: Option<ActorId>) -> Result<ActorId, String> {
        let mut known = self.base.peers_of(Role::Broker);
        match named {
            Some(id) if self.base.is_known(id, Role::Broker) => Ok(id),
            Some(id) => Err(format!("no broker {id} is known")),
            None => match (known.next(), known.next()) {
                (Some((_, id)), None) => Ok(id),
                (None, _) => Err("no broker is known".to_owned()),
                (Some(_), Some(_)) => Err("several brokers are known; name one".to_owned()),
            },
        }
    }

    fn extend(&mut self, now: Time, extend: Extend, out: &mut Output) -> Result<(), String> {
        let Extend { lease, duration, units, victims, reason } = extend;
        let held = self.extendable(lease)?;
        if held.tickets_at(now).count() >= MAX_TICKETS {
            return Err(format!("lease {lease} is extended {MAX_TICKETS} times ahead"));
        }
        Term::lasting(held.term.end(), duration).map_err(|empty| empty.to_string())?;
        let newest = held.tickets.last().ok_or("a lease without a ticket")?;
        if newest.bottom().term.end() != held.term.end() {
            return Err(format!("lease {lease} was shortened: what follows is another lease"));
        }
        let most = self.state.leases.get(&lease).map_or(0, |lease| lease.units);
        let most = held.units_at_end(most);
        let units = units.map_or(most, NonZeroU32::get);
        let units = NonZeroU32::new(units).filter(|units| units.get() <= most);
        let units = units.ok_or_else(|| {
            format!(
                "lease {lease} ends with {most} units: it goes on with no more, and not with none"
            )
        })?;
        let victims = if units.get() < most {
            victims.of(held, units.get(), &self.by_use(lease, now))?
        } else {
            Vec::new()
        };
        let broker = self.broker(Some(newest.bottom().issuer))?;
        let request = self.extension_request(now, newest, held.term.end(), duration, units);
        let reason = truncate_text(&reason);
        self.emit(now, ExtensionAsked { lease, broker, request, victims, reason }, out);
        Ok(())
    }

    /// The request that continues from a ticket at `end`, with so many of its units.
    fn extension_request(
        &self,
        now: Time,
        newest: &Ticket,
        end: Time,
        duration: Span,
        units: NonZeroU32,
    ) -> Request {
        let link = newest.bottom();
        let item = Item { extends: Some(link.hash()), ..Item::new(link.resource.clone(), units) };
        Request {
            id: RequestId { origin: self.base.id(), number: self.state.last_number + 1 },
            items: vec![item],
            earliest: end,
            latest: end,
            duration,
            min_duration: duration,
            reply: Reply::Grant,
            answer_by: end.minus(self.base.margin()),
            properties: Properties::default(),
            provisos: Provisos::NONE,
            history: History::first(now),
            receipts: self.uncredited(link.issuer),
        }
    }

    /// The receipts that a broker has not confirmed yet, as far as a request brings them along: of each lease
    /// all or none, those of the latest leases first.
    fn uncredited(&self, broker: ActorId) -> Vec<Receipt> {
        let first = LeaseId { number: 0, part: 0 };
        let last = LeaseId { number: u64::MAX, part: u16::MAX };
        let pending =
            self.state.pending.between(Obligation::Credit(first), Obligation::Credit(last));
        let mut receipts = Vec::new();
        for obligation in pending.rev() {
            let Obligation::Credit(lease) = obligation else { continue };
            let to_credit = self.lease(*lease).map_or(&[][..], State::to_credit);
            let its = to_credit.first().is_some_and(|receipt| receipt.what.issuer == broker);
            if its && receipts.len() + to_credit.len() <= RECEIPTS_ALONG {
                receipts.extend_from_slice(to_credit);
            }
        }
        receipts
    }

    /// Gives a lease back, and what it is a part of as long as that is not whole.
    fn close_for_good(
        &mut self,
        now: Time,
        lease: LeaseId,
        out: &mut Output,
    ) -> Result<(), String> {
        self.give_group_up(now, lease.number, out);
        self.close(now, lease, out)
    }

    /// Gives a lease back, or a request up, from wherever it is in its life; one that is over stays so.
    pub(super) fn close(
        &mut self,
        now: Time,
        lease: LeaseId,
        out: &mut Output,
    ) -> Result<(), String> {
        let standing = self.standing(lease).ok_or_else(|| format!("there is no lease {lease}"))?;
        if standing.is_over() {
            return Ok(());
        }
        let state = match standing {
            Standing::Request(_) => return self.withdraw(now, lease.number, out),
            Standing::Lease(state) => state,
        };
        match state {
            State::Ticketed { split: true, .. } => self.give_rest(now, lease, out),
            State::Ticketed { .. } | State::Redeeming { .. } => {
                self.emit(now, CloseBegun { lease }, out);
            }
            State::Leaving { held, then: AfterLeave::End } if held.awaited == 0 => {
                self.emit(now, CloseBegun { lease }, out);
            }
            State::Joining { .. }
            | State::Active { .. }
            | State::Leaving { then: AfterLeave::End, .. } => {
                self.emit(now, LeaveBegun { lease, then: AfterLeave::Close }, out);
            }
            State::Leaving { then: AfterLeave::Close, .. }
            | State::Closing { .. }
            | State::Crediting { .. }
            | State::Closed { .. } => {}
        }
        Ok(())
    }

    /// The lease that a ticket belongs to.
    pub fn lease_of(&self, ticket: LinkHash) -> Option<LeaseId> {
        self.state.by_ticket.get(&ticket).copied()
    }
}

fn asked() -> String {
    "the user asked for it".to_owned()
}
