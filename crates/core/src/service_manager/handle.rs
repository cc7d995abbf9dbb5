//! What a service manager does with time, messages and its guest's driver.

use std::collections::BTreeSet;

use super::request::{self, Purpose};
use super::{Obligation, ServiceManager, Timer, asking};
use crate::actor::common::CommonActor as _;
use crate::actor::effect::{DriverResult, Problem};
use crate::actor::fact::truncate_text;
use crate::actor::{Emit as _, dropped};
use crate::driver::Step;
use crate::model::identity::ActorId;
use crate::model::name::Name;
use crate::model::price::allowed;
use crate::model::slice::{LeaseId, RequestId};
use crate::model::time::{Term, Time};
use crate::mutants::mutant;
use crate::service_manager::Output;
use crate::service_manager::facts::{
    AskRefused, CloseBegun, Credited, Extended, ExtensionDenied, ExtensionGranted, GaveUp, Granted,
    JoinRefused, Joined, LeaseForgotten, Leased, LeaveBegun, LeaveRefused, Left, RedeemRefused,
    SignalObserved, SiteClosed, TermOver, TicketLapsed, UnwantedGranted, Woken,
};
use crate::service_manager::machine::{AfterLeave, Change, Held, State, UnitUse};
use crate::ticket::Ticket;
use crate::ticket::link::LinkHash;
use crate::ticket::receipt::Receipt;
use crate::wire::message::{LeasedUnit, Message, Sealed, Subject};
use crate::wire::offer::{Offer, Reply};
use crate::wire::proviso::Provisos;
use crate::wire::refusal::{Outlook, Refusal};
use crate::wire::request::Request;

/// What the tickets of a request have to be.
struct Suits<'a> {
    /// The offer that was accepted.
    accepted: Option<&'a Offer>,
    /// Whether they are still wanted.
    is_asked: bool,
    /// The site of the lease that is to grow.
    beside: Option<ActorId>,
}

impl ServiceManager {
    pub(super) fn start(&mut self, now: Time, out: &mut Output) {
        self.journal_settings(now, out);
        self.emit(now, Woken {}, out);
        self.find_all_ambiguities(now, self.base.position, out);
        self.tell_all_needs(now, out);
        self.tell_all_hosts(now, out);
        self.start_beating(now, out);
    }

    pub(super) fn observe(&mut self, now: Time, signal: Name, value: i64, out: &mut Output) {
        self.emit(now, SignalObserved { signal, value }, out);
    }

    pub(super) fn tick(&mut self, now: Time, out: &mut Output) {
        while let Some(timer) = self.state.timers.due(now) {
            match timer {
                Timer::Wake => self.emit(now, Woken {}, out),
                Timer::Request(number) => self.request_due(now, number, out),
                Timer::Seam(id) => self.seam_due(now, id, out),
                Timer::Lease(id) => self.lease_due(now, id, out),
                Timer::Group(number) => self.group_due(now, number, out),
                Timer::Reclaim(part) => self.reclaim_due(now, part, out),
                Timer::Recall(id) => self.recall_due(now, id, out),
                Timer::Refused(id) => self.refused_due(now, id, out),
                Timer::Rest(id) => self.rest_due(now, id, out),
                Timer::Sequence(id) => self.sequence_due(now, id, out),
                Timer::Plan(plan) => self.plan_due(now, plan, out),
                Timer::Services => self.services_due(now, out),
            }
        }
        self.beat_if_due(now, out);
    }

    fn request_due(&mut self, now: Time, number: u64, out: &mut Output) {
        let lease = request::shown_as(number);
        match self.request(number) {
            Some(request::State::Asked | request::State::Accepting { .. }) => {
                self.emit(now, GaveUp { number }, out);
                self.not_replaced(now, number, out);
            }
            Some(&request::State::Offered { until, .. }) => {
                let (refusal, offers) = (Refusal::Lapsed(until), Vec::new());
                self.emit(now, AskRefused { number, refusal, offers }, out);
            }
            Some(request::State::GivenUp) => self.emit(now, TermOver { lease }, out),
            Some(
                request::State::Planned { .. }
                | request::State::Refused { .. }
                | request::State::Unanswered,
            ) => {
                self.emit(now, LeaseForgotten { lease }, out);
            }
            Some(request::State::Granted { .. }) | None => {
                self.state.timers.set(Timer::Request(number), None);
            }
        }
    }

    fn lease_due(&mut self, now: Time, lease: LeaseId, out: &mut Output) {
        let Some(record) = self.state.leases.get(&lease) else {
            return self.state.timers.set(Timer::Lease(lease), None);
        };
        let end = record.ends_by().minus(self.base.margin());
        match &record.state {
            State::Joining { .. } | State::Active { .. } if now < end => {
                self.emit(now, LeaveBegun { lease, then: AfterLeave::End }, out);
            }
            State::Ticketed { .. } if now < end => self.emit(now, TicketLapsed { lease }, out),
            // Its leave was hastened, and took too long.
            State::Leaving { .. } if now < end => self.emit(now, CloseBegun { lease }, out),
            State::Ticketed { .. }
            | State::Redeeming { .. }
            | State::Joining { .. }
            | State::Active { .. }
            | State::Leaving { .. }
            | State::Closing { .. }
            | State::Crediting { .. } => self.emit(now, TermOver { lease }, out),
            State::Closed { .. } => self.emit(now, LeaseForgotten { lease }, out),
        }
    }

    #[allow(clippy::too_many_lines, reason = "a line or two for each kind of message")]
    pub(super) fn message(&mut self, now: Time, sealed: &Sealed, out: &mut Output) {
        let Some(envelope) = self.open(now, sealed, out) else { return };
        let from = envelope.header.from;
        let kind = envelope.message.kind();
        let (position, sent) = (envelope.header.sequence.position, envelope.header.at);
        let taken = match envelope.message {
            Message::Granted { request, tickets } => {
                self.tickets_came(now, from, request, tickets, out)
            }
            Message::Leased { ticket, term, units } => {
                self.units_came(now, (from, sent), ticket, term, units, out)
            }
            Message::Closed { ticket, refusal, receipts } => {
                self.site_closed(now, from, ticket, refusal, receipts, out)
            }
            Message::Reclaimed { ticket, redeemed, receipts } => {
                self.reclaimed(now, from, (ticket, redeemed), receipts, out)
            }
            Message::Returned { ticket, number, receipts } => {
                self.part_returned(now, from, (ticket, number), receipts, out)
            }
            Message::Modified { ticket, number, units } => {
                self.modified(now, from, (ticket, number), units, out)
            }
            Message::Credit { receipts } => self.credit(now, from, receipts, out),
            Message::Credited { receipts } => self.credited(now, from, &receipts, out),
            Message::Refused { subject, refusal, offers } => {
                self.refused(now, from, (subject, refusal, offers), out)
            }
            Message::Waiting { request, waiting } => {
                self.told_to_wait(now, from, request, (waiting, position), out)
            }
            Message::Offered { request, offers, until, refusal } => {
                self.offers_came(now, from, request, (offers, until, refusal), out)
            }
            Message::UnitFailed { ticket, unit, why } => {
                self.told_of_failure(now, from, (ticket, unit), &why, out)
            }
            Message::RecallNotice { ticket, told } => {
                self.told_of_recall(now, from, ticket, told, out)
            }
            Message::Recalled { link, number, at, enforced, receipts } => {
                self.recall_answered(now, from, (link, number), (at, enforced, receipts), out)
            }
            Message::Available { asked, availability } => {
                self.told_what_is_free(from, asked, availability, out)
            }
            Message::Noted { service, revision } => {
                self.need_noted(now, from, (service, revision), out);
                Ok(())
            }
            Message::HostsNoted { service, revision, contests } => {
                self.hosts_noted(now, from, (service, revision), contests, out)
            }
            Message::HostsChanged { service, revision } => {
                self.state_hosts_anew(now, from, &service, Some(revision), out);
                Ok(())
            }
            Message::HeartbeatHeard { sent, leases } => {
                self.heartbeat_heard(now, from, (sent, &leases))
            }
            Message::Restate { needs, hosts } => {
                self.state_all_anew(now, from, (needs, hosts), out)
            }
            Message::Delegate { .. }
            | Message::Delegated { .. }
            | Message::Need(_)
            | Message::Hosts(_)
            | Message::Inquire(_)
            | Message::Request(_)
            | Message::Accept { .. }
            | Message::Withdraw(_)
            | Message::Redeem { .. }
            | Message::Close { .. }
            | Message::Return { .. }
            | Message::Modify { .. }
            | Message::Reclaim { .. }
            | Message::Recall { .. }
            | Message::RecallNoted { .. }
            | Message::Keys { .. }
            | Message::KeysNoted { .. }
            | Message::Join(_)
            | Message::Joined { .. }
            | Message::HandOver(_)
            | Message::HandedBack(_)
            | Message::AskPortion(_)
            | Message::PortionBack(_)
            | Message::PortionDecided { .. }
            | Message::Heartbeat { .. }
            | Message::Advert(_)
            | Message::AdvertWanted
            | Message::Ping
            | Message::Pong { .. } => Err("a service manager does not take it".to_owned()),
        };
        if let Err(cause) = taken {
            out.problems.push(dropped(kind, cause));
        }
    }

    fn tickets_came(
        &mut self,
        now: Time,
        from: ActorId,
        id: RequestId,
        tickets: Vec<(u16, Ticket)>,
        out: &mut Output,
    ) -> Result<(), String> {
        let number = id.number;
        let Some(request) = self.open_request(number) else { return Ok(()) };
        if request.broker != from || request.wanted.id != id {
            return Err(format!("request {id} was not put to its sender"));
        }
        let (wanted, purpose) = (request.wanted.clone(), request.purpose);
        let earlier = request.earlier.clone();
        let beside = self.site_beside(purpose);
        let (is_asked, accepted) = match &request.state {
            request::State::Asked => (true, None),
            request::State::Accepting { offer, .. } => (true, Some(offer.clone())),
            request::State::Offered { .. } => {
                return Err(format!("no offer to request {id} was accepted"));
            }
            request::State::GivenUp
            | request::State::Planned { .. }
            | request::State::Granted { .. }
            | request::State::Refused { .. }
            | request::State::Unanswered => (false, None),
        };
        let mut wanted_now = tickets.iter().filter(|_| is_asked);
        let late = wanted_now.find_map(|(_, ticket)| self.too_late_to_redeem(now, ticket.bottom()));
        if let Some(refusal) = late {
            // Its broker has it back by a reclaim.
            self.not_granted(now, number, (refusal, Vec::new()), out);
            return Ok(());
        }
        let suits = Suits { accepted: accepted.as_ref(), is_asked, beside };
        let mut checked = self.check_grant(&wanted, &tickets, &suits);
        // The broker may have met what was asked for before it was revised.
        for before in earlier.iter().rev() {
            checked = checked.or_else(|_| self.check_grant(before, &tickets, &suits));
        }
        if let Err(refusal) = checked {
            self.not_granted(now, number, (refusal, Vec::new()), out);
            return Ok(());
        }
        let share = |(item, ticket)| (item, self.base.credentials.share(ticket));
        let tickets = tickets.into_iter().map(share).collect();
        let lease = match (is_asked, purpose) {
            (false, _) => {
                self.emit(now, UnwantedGranted { number, tickets }, out);
                return Ok(());
            }
            (true, Purpose::Grow(lease)) if !self.counts(lease) => {
                self.emit(now, UnwantedGranted { number, tickets }, out);
                return Ok(());
            }
            (true, Purpose::New | Purpose::Grow(_)) => {
                self.emit(now, Granted { number, tickets }, out);
                return Ok(());
            }
            (true, Purpose::Extend(lease)) => lease,
        };
        // A lease on its way out takes no extension; once it is out, the request is asked after once
        // more and its ticket given back.
        if let Some(
            State::Joining { .. }
            | State::Active { .. }
            | State::Leaving { then: AfterLeave::End, .. },
        ) = self.lease(lease)
            && let Some((_, ticket)) = tickets.into_iter().next()
        {
            self.emit(now, ExtensionGranted { lease, ticket }, out);
        }
        Ok(())
    }

    /// Whether the tickets are what was asked for, or what was accepted, validly signed, and this guest's.
    /// Of a request that was given up, whatever was offered for it may come.
    fn check_grant(
        &mut self,
        request: &Request,
        tickets: &[(u16, Ticket)],
        suits: &Suits<'_>,
    ) -> Result<(), Refusal> {
        let me = self.base.id();
        let mut units = vec![Vec::new(); request.items.len()];
        let mut seen = BTreeSet::new();
        let mut common = BTreeSet::new();
        for (index, ticket) in tickets.iter().filter(|_| !mutant!(GrantNotChecked)) {
            self.base.credentials.check_ticket(ticket, ticket.site(), me)?;
            let (link, index) = (ticket.bottom(), usize::from(*index));
            let wanted = request.items.get(index);
            let good = wanted.is_some_and(|wanted| {
                (wanted.resource == link.resource || wanted.joins().is_some())
                    && wanted.extends == link.extends
                    && self.accepts(wanted, link)
                    && allowed(&wanted.requirements, link.clauses.price)
            }) && self.goes_on_at(link.extends, ticket.site())
                && keeps_provisos(&request.provisos, ticket)
                && suits.beside.is_none_or(|site| site == ticket.site())
                && !self.state.by_ticket.contains_key(&ticket.hash())
                && seen.insert(ticket.hash());
            let Some(wanted) = wanted.filter(|_| good) else {
                return Err(Refusal::Malformed("a ticket is not what was asked for".to_owned()));
            };
            common.insert((link.term.start().minus(wanted.offset), link.term.duration()));
            units[index].push(link.units.get());
        }
        if mutant!(GrantNotChecked) {
            return Ok(());
        }
        let Suits { accepted, is_asked, .. } = *suits;
        let good = match accepted {
            Some(offer) => asking::is_offer(request, offer, tickets),
            None if matches!(request.reply, Reply::Hold(_)) => !is_asked,
            None => asking::is_met(request, &common, tickets)?,
        };
        // Of a hold that was given up, whatever was offered may come.
        let any = accepted.is_some() || matches!(request.reply, Reply::Hold(_));
        if good && (any || request.is_met_by(&units)) {
            Ok(())
        } else {
            Err(Refusal::Malformed("the tickets are not for the units asked for".to_owned()))
        }
    }

    /// Whether an extension is for the site that has the units, as far as they are still held.
    fn goes_on_at(&self, extends: Option<LinkHash>, site: ActorId) -> bool {
        let lease = extends.and_then(|ticket| self.state.by_ticket.get(&ticket));
        let held = lease.and_then(|&lease| self.lease(lease)?.held());
        held.is_none_or(|held| held.tickets.iter().all(|ticket| ticket.site() == site))
    }

    /// The site of the lease that is to grow.
    fn site_beside(&self, purpose: Purpose) -> Option<ActorId> {
        match purpose {
            Purpose::Grow(lease) => self.lease(lease)?.ticket().map(Ticket::site),
            Purpose::New | Purpose::Extend(_) => None,
        }
    }

    fn not_granted(
        &mut self,
        now: Time,
        number: u64,
        (refusal, offers): (Refusal, Vec<Offer>),
        out: &mut Output,
    ) {
        match self.open_request(number).map(|request| (&request.state, request.purpose)) {
            Some((request::State::Asked, Purpose::Extend(lease))) => {
                self.emit(now, ExtensionDenied { lease, refusal: Some(refusal) }, out);
            }
            Some(_) => {
                self.emit(now, AskRefused { number, refusal, offers }, out);
                self.not_replaced(now, number, out);
            }
            None => {}
        }
    }

    fn units_came(
        &mut self,
        now: Time,
        (from, sent): (ActorId, Time),
        ticket: LinkHash,
        term: Term,
        units: Vec<LeasedUnit>,
        out: &mut Output,
    ) -> Result<(), String> {
        let Some(&lease) = self.state.by_ticket.get(&ticket) else { return Ok(()) };
        let Some(record) = self.state.leases.get(&lease) else { return Ok(()) };
        match &record.state {
            // Its term has ended, though the clock was not read since: the units are the site's.
            State::Redeeming { ticket }
                if ticket.bottom().term.end().minus(self.base.margin()) <= now => {}
            State::Redeeming { ticket } => {
                let link = ticket.bottom();
                let quantities = units.iter().map(|unit| unit.quantity.get());
                let count = quantities.fold(0, u32::saturating_add);
                let whole = units.len() == 1 || units.iter().all(|u| u.quantity.get() == 1);
                let distinct: BTreeSet<_> = units.iter().map(|unit| unit.unit).collect();
                let good = ticket.site() == from
                    && term == link.term
                    && distinct.len() == units.len()
                    && whole
                    && (record.fewest()..=link.units.get()).contains(&count);
                if !good {
                    return Err(format!("lease {lease} is not what the ticket says"));
                }
                if let Some(unit) = units.iter().find(|unit| self.had_later(from, unit)) {
                    return Err(format!("unit {} of lease {lease} was had again since", unit.unit));
                }
                let own = link.hash();
                self.emit(now, Leased { lease, term, units }, out);
                self.kept_since(from, own, sent.min(now));
            }
            State::Joining { held }
            | State::Active { held }
            | State::Leaving { held, then: AfterLeave::End } => {
                if is_extension(held, ticket, from) {
                    self.emit(now, Extended { lease }, out);
                }
            }
            State::Ticketed { .. }
            | State::Leaving { .. }
            | State::Closing { .. }
            | State::Crediting { .. }
            | State::Closed { .. } => {}
        }
        Ok(())
    }

    /// Whether a unit was leased again since: by a clock that is wrong a lease may seem to run that is over.
    fn had_later(&self, site: ActorId, unit: &LeasedUnit) -> bool {
        let last = self.state.epochs.get(&(site, unit.unit));
        last.is_some_and(|last| unit.epoch <= *last) && !mutant!(TakesPastTenancy)
    }

    fn site_closed(
        &mut self,
        now: Time,
        from: ActorId,
        ticket: LinkHash,
        refusal: Option<Refusal>,
        receipts: Vec<Receipt>,
        out: &mut Output,
    ) -> Result<(), String> {
        let Some(&lease) = self.state.by_ticket.get(&ticket) else { return Ok(()) };
        let Some(state) = self.lease(lease) else { return Ok(()) };
        let tickets: Vec<Ticket> = match state {
            State::Redeeming { ticket } => vec![ticket.clone()],
            State::Joining { held } | State::Active { held } | State::Leaving { held, .. } => {
                held.tickets.clone()
            }
            State::Closing { tickets, .. } => tickets.clone(),
            State::Ticketed { .. } | State::Crediting { .. } | State::Closed { .. } => {
                return Ok(());
            }
        };
        self.check_receipts(lease, from, &tickets, &receipts)?;
        let failed = refusal.is_some();
        self.emit(now, SiteClosed { lease, refusal, receipts }, out);
        if failed {
            self.not_replaced(now, lease.number, out);
        }
        self.replace_whole(now, lease, tickets.last(), out);
        Ok(())
    }

    fn credited(
        &mut self,
        now: Time,
        from: ActorId,
        credited: &[(LinkHash, u32)],
        out: &mut Output,
    ) -> Result<(), String> {
        let Some(lease) = credited.first().and_then(|(ticket, _)| self.lease_of(*ticket)) else {
            return Ok(());
        };
        let receipts = self.lease(lease).map_or(&[][..], State::to_credit);
        if receipts.is_empty() {
            self.rest_is_credited(now, (lease, from), credited, out);
            return Ok(());
        }
        let all = receipts
            .iter()
            .map(|receipt| &receipt.what)
            .all(|what| what.issuer == from && credited.contains(&(what.link, what.number)));
        if !all {
            // It may be about some of them that were shown before.
            return Err(format!("it does not credit all that lease {lease} gave back"));
        }
        self.emit(now, Credited { lease }, out);
        Ok(())
    }

    fn refused(
        &mut self,
        now: Time,
        from: ActorId,
        (subject, refusal, offers): (Subject, Refusal, Vec<Offer>),
        out: &mut Output,
    ) -> Result<(), String> {
        match subject {
            Subject::Request(id) => {
                let Some(request) = self.open_request(id.number) else { return Ok(()) };
                if (request.broker, request.wanted.id) != (from, id) {
                    return Err(format!("request {id} was not put to its sender"));
                }
                if !matches!(refusal, Refusal::Overloaded) {
                    self.not_granted(now, id.number, (refusal, offers), out);
                }
                Ok(())
            }
            Subject::Ticket(ticket) => self.ticket_refused(now, from, ticket, refusal, out),
            Subject::Return(ticket, number) => {
                self.return_refused(now, from, (ticket, number), refusal, out)
            }
            Subject::Modify(ticket, number) => {
                self.modify_refused(now, from, (ticket, number), refusal, out)
            }
            Subject::Recall(link, number) => {
                self.recall_refused(now, from, (link, number), refusal, out)
            }
            Subject::Delegation(_) => {
                Err("it is about nothing of this service manager's".to_owned())
            }
        }
    }

    fn ticket_refused(
        &mut self,
        now: Time,
        from: ActorId,
        hash: LinkHash,
        refusal: Refusal,
        out: &mut Output,
    ) -> Result<(), String> {
        let Some(&lease) = self.state.by_ticket.get(&hash) else {
            return self.reclaim_refused(now, from, hash, &refusal, out);
        };
        // The site may take the ticket later: it is asked again until the deadline.
        if refusal.outlook() == Outlook::Later {
            return Ok(());
        }
        match self.lease(lease) {
            Some(State::Redeeming { ticket }) if ticket.site() == from => {
                self.emit(now, RedeemRefused { lease, refusal }, out);
                self.not_replaced(now, lease.number, out);
            }
            // A late answer to a redeem says nothing about the close that came after it; nor does the
            // refusal of an extension, since a close is refused with its first ticket or not at all.
            Some(State::Closing { tickets, .. })
                if tickets.first().is_some_and(|f| f.site() == from && f.hash() == hash)
                    && matches!(
                        refusal,
                        Refusal::Ticket(_)
                            | Refusal::Conflict(_)
                            | Refusal::Oversold { .. }
                            | Refusal::Unclaimed(_)
                            | Refusal::Recalled { .. }
                            | Refusal::Malformed(_)
                    ) =>
            {
                self.emit(now, RedeemRefused { lease, refusal }, out);
            }
            Some(
                State::Joining { held }
                | State::Active { held }
                | State::Leaving { held, then: AfterLeave::End },
            ) if is_extension(held, hash, from) => {
                self.emit(now, ExtensionDenied { lease, refusal: Some(refusal) }, out);
            }
            Some(
                State::Ticketed { .. }
                | State::Redeeming { .. }
                | State::Joining { .. }
                | State::Active { .. }
                | State::Leaving { .. }
                | State::Closing { .. }
                | State::Crediting { .. }
                | State::Closed { .. },
            )
            | None => {}
        }
        Ok(())
    }

    pub(super) fn driver_done(&mut self, now: Time, done: DriverResult, out: &mut Output) {
        let DriverResult { lease, unit, epoch, step, number, .. } = done;
        let obligation = match step {
            Step::Join => Obligation::Join(lease, unit),
            Step::Leave => Obligation::Leave(lease, unit),
            Step::Modify => return self.told(now, done, out),
            Step::Warn => return self.warned(now, done, out),
            Step::Install | Step::Remove => return self.package_done(now, done, out),
            Step::Setup | Step::Teardown => return out.problems.push(super::wrong("site's step")),
        };
        let held = self.lease(lease).and_then(State::held);
        let usage = held.and_then(|held| held.units.get(&unit));
        let awaited = usage.is_some_and(|(leased, usage)| {
            leased.epoch == epoch && matches!(usage, UnitUse::Joining | UnitUse::Leaving)
        }) && held
            .is_some_and(|held| held.times_again(unit) == number || mutant!(OldLeavesCount));
        if !awaited || !self.state.pending.requires(&obligation) {
            let cause = format!("{} of {unit} in {epoch:?} is not owed", step.word());
            return out.problems.push(Problem::Command(cause));
        }
        let refused = done.outcome.as_ref().err().and_then(|error| error.why_untouched());
        if let Some(why) = refused.filter(|_| step == Step::Join) {
            let error = truncate_text(why);
            return self.emit(now, JoinRefused { lease, unit, error }, out);
        }
        if let Some(why) = refused.filter(|_| self.may_stay(lease, unit)) {
            let error = truncate_text(why);
            return self.emit(now, LeaveRefused { lease, unit, error }, out);
        }
        let said = done.outcome.as_ref().ok().cloned().unwrap_or_default();
        let error = done.outcome.err().map(|error| truncate_text(&error.0));
        if step == Step::Join {
            self.emit(now, Joined { lease, unit, error }, out);
            self.note_usage(now, (lease, unit), &said, out);
        } else {
            self.emit(now, Left { lease, unit, error }, out);
        }
    }
}

/// Whether a ticket is as its request says it has to be.
fn keeps_provisos(provisos: &Provisos, ticket: &Ticket) -> bool {
    let by = ticket.bottom().clauses.redeem_by;
    let in_time = provisos.redeem_by.is_none_or(|wanted| by.is_some_and(|by| by <= wanted));
    let site = ticket.site();
    in_time
        && !provisos.not_at.contains(&site)
        && ticket.bottom().clauses.not_on.is_superset(&provisos.not_on_at(site))
}

/// Whether `ticket` is the extension that is being redeemed at `site`.
fn is_extension(held: &Held, ticket: LinkHash, site: ActorId) -> bool {
    matches!(
        &held.change,
        Change::Redeeming { ticket: shown, .. } if shown.hash() == ticket && shown.site() == site
    )
}
