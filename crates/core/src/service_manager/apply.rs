//! How facts change a service manager.

use std::collections::BTreeSet;

use super::group;
use super::request::{self, GrantedLeases};
use super::{Lease, Obligation, ServiceManager, Timer, is_live};
use crate::actor::common::CommonActor as _;
use crate::actor::fact::BadFact;
use crate::actor::pending::PendingEffects;
use crate::driver::UnitId;
use crate::model::name::Name;
use crate::model::slice::LeaseId;
use crate::model::time::{Term, Time};
use crate::mutants::mutant;
use crate::service_manager::facts::{
    Accepted, AskRefused, ExtensionAsked, Fact, GroupBroken, JoinRefused, Joined, Leased,
    LeaveBegun, LeaveRefused, MapperAnswered, RecallAnswered, RecallRefused, ReturnBegun,
    SignalObserved, SiteClosed, SiteUnheard,
};
use crate::service_manager::machine::{AfterLeave, Change, Event, Outcome, State, UnitUse};
use crate::service_manager::sequence::Gate;
use crate::ticket::Ticket;
use crate::wire::heartbeat::keep_alive;

impl Lease {
    /// The end of what it surely has, recalled or not: a site that was asked to end it earlier may have done
    /// so.
    pub(super) fn lasts_until(&self) -> Time {
        let until = self.state.held().and_then(|held| held.change.until());
        until
            .filter(|_| !mutant!(ReturnsLate))
            .map_or(self.expires_at, |until| until.min(self.expires_at))
    }

    /// The end of what it surely has.
    pub(super) fn ends_by(&self) -> Time {
        let end = self.lasts_until();
        self.recalled_whole().map_or(end, |at| at.min(end))
    }

    /// Moves its machine on. After an error the state is void.
    fn next(&mut self, event: Event) -> Result<(), BadFact> {
        let void = State::Closed { outcome: Outcome::Unanswered };
        self.state = std::mem::replace(&mut self.state, void).next(event)?;
        Ok(())
    }
}

impl ServiceManager {
    #[allow(clippy::too_many_lines, reason = "a line or two for each kind of fact")]
    pub(super) fn apply_fact(&mut self, at: Time, fact: &Fact) -> Result<(), BadFact> {
        match fact {
            Fact::SignalObserved(fact) => self.observed(fact),
            Fact::MapperAnswered(fact) => self.mapper_answered(fact),
            Fact::Woken(_) => self.woken(),
            Fact::Asked(fact) => self.asked_for(at, fact),
            Fact::Granted(fact) => self.granted(at, fact.number, &fact.tickets, true)?,
            Fact::UnwantedGranted(fact) => self.granted(at, fact.number, &fact.tickets, false)?,
            Fact::TicketTaken(fact) => self.ticket_taken(at, fact),
            Fact::TicketsSplit(fact) => self.tickets_split(at, fact)?,
            Fact::ReclaimBegun(fact) => self.reclaim_begun(at, fact.part),
            Fact::ReclaimEnded(fact) => self.settle_reclaim(fact.part),
            Fact::ReceiptTaken(fact) => self.receipt_taken(at, &fact.receipt),
            Fact::GroupAsked(fact) => self.group_asked(at, fact),
            Fact::GroupHeld(fact) => self.group_held(at, fact)?,
            Fact::GroupGranted(fact) => self.step_group(at, fact.group, group::Event::Granted)?,
            Fact::GroupWhole(fact) => self.step_group(at, fact.group, group::Event::Complete)?,
            Fact::GroupBroken(fact) => self.group_broken(at, fact)?,
            Fact::AskRefused(fact) => self.ask_refused(at, fact)?,
            Fact::Queued(fact) => self.queued(fact)?,
            Fact::Offered(fact) => self.offered(at, fact)?,
            Fact::Accepted(fact) => self.accepted(at, fact)?,
            Fact::GaveUp(fact) => self.step_request(at, fact.number, request::Event::GaveUp)?,
            Fact::Joined(fact) => self.joined(at, fact)?,
            Fact::JoinRefused(fact) => self.join_refused(at, fact)?,
            Fact::UsageReported(fact) => self.usage_reported(at, fact),
            Fact::SiteUnheard(fact) => self.site_unheard(at, fact),
            Fact::LeaveHastened(fact) => self.hastened(at, fact.lease, fact.by)?,
            Fact::Left(fact) => self.left(at, fact.lease, fact.unit)?,
            Fact::ExtensionAsked(fact) => self.extension_begun(at, fact)?,
            Fact::PartReturned(fact) => self.take_return(at, fact)?,
            Fact::Shrunk(fact) => self.shrunk(at, fact.lease)?,
            Fact::Modified(fact) => self.take_modification(at, fact)?,
            Fact::RedeemBegun(_)
            | Fact::Leased(_)
            | Fact::RedeemRefused(_)
            | Fact::ExtensionGranted(_)
            | Fact::ExtensionDenied(_)
            | Fact::Extended(_)
            | Fact::SiteClosed(_)
            | Fact::ReturnRefused(_)
            | Fact::ShrinkBegun(_)
            | Fact::LeaveBegun(_)
            | Fact::CloseBegun(_)
            | Fact::ModifyBegun(_)
            | Fact::ModifyRefused(_)
            | Fact::Notified(_)
            | Fact::TicketLapsed(_)
            | Fact::RecallLifted(_)
            | Fact::LeaveForced(_)
            | Fact::UnitReset(_)
            | Fact::Credited(_) => self.step_as_told(at, fact)?,
            Fact::LeaveRefused(refused) => self.leave_refused(at, refused, fact)?,
            Fact::ReturnBegun(begun) => self.part_goes(at, begun.lease, fact)?,
            Fact::TermOver(over) => self.term_over(at, over.lease, fact)?,
            Fact::Common(fact) => self.apply_common(at, fact),
            Fact::Revised(fact) => self.revised(at, fact)?,
            Fact::LeaseForgotten(fact) => self.forget(at, fact.lease),
            Fact::RecallTold(fact) => self.take_notice(at, fact),
            Fact::UnitFailed(fact) => self.take_failure(fact),
            Fact::ReplacementWanted(fact) => self.want_replacement(fact),
            Fact::VictimsNamed(fact) => self.victims_named(at, fact),
            Fact::RecallBegun(fact) => self.recall_begun(at, fact)?,
            Fact::UnitsRecalled(fact) => self.units_recalled(at, fact)?,
            Fact::Warned(fact) => self.take_warned(fact),
            Fact::Unblocked(_) | Fact::GateReached(_) | Fact::GateAnswered(_) => {
                self.of_sequence(at, fact);
            }
            Fact::RecallAsked(fact) => self.recall_asked(at, fact),
            Fact::RecallAnswered(fact) => self.take_recall_answer(fact),
            Fact::RecallRefused(fact) => self.take_recall_refusal(fact),
            Fact::RestWanted(_)
            | Fact::RestBegun(_)
            | Fact::RestReturned(_)
            | Fact::RestRefused(_)
            | Fact::RestCredited(_) => self.of_rest(at, fact),
            Fact::PlanRequested(_)
            | Fact::PlanLeasing(_)
            | Fact::PlanLeased(_)
            | Fact::PlanProposed(_)
            | Fact::PlanAccepted(_)
            | Fact::PackageReported(_)
            | Fact::PackageRemoved(_)
            | Fact::PlanEnded(_)
            | Fact::PlanForgotten(_) => self.of_plan(at, fact)?,
            Fact::ServiceDefined(fact) => self.service_defined(fact),
            Fact::ServiceRemoved(fact) => self.service_removed(fact),
            Fact::ServiceReported(fact) => self.service_reported(at, fact)?,
            Fact::MembersTold(fact) => self.members_told(at, fact)?,
            Fact::MemberAmbiguous(fact) => self.member_ambiguous(at, fact),
            Fact::AmbiguitySettled(fact) => self.ambiguity_settled(at, fact),
            Fact::MemberContested(fact) => self.member_contested(at, fact),
            Fact::MemberCeded(fact) => self.member_ceded(at, fact),
            Fact::ServiceStale(fact) => self.service_stale(fact)?,
            Fact::SloAssessed(fact) => self.slo_assessed(at, fact)?,
            Fact::ServiceAdvised(fact) => self.service_advised(fact)?,
            Fact::UnitBlacklisted(fact) => self.unit_blacklisted(at, fact)?,
            Fact::NeedStated(fact) => self.need_stated(at, fact),
            Fact::NeedAnswered(fact) => self.need_answered(fact),
            Fact::HostsStated(fact) => self.hosts_stated(at, fact),
            Fact::HostsAnswered(fact) => self.hosts_answered(fact),
            Fact::WorkTold(fact) => self.work_told(fact)?,
        }
        Ok(())
    }

    /// The time of a lease is over, or that of a request that never had one.
    fn term_over(&mut self, at: Time, lease: LeaseId, fact: &Fact) -> Result<(), BadFact> {
        if self.state.leases.contains_key(&lease) {
            self.step_as_told(at, fact)
        } else {
            self.step_request(at, lease.number, request::Event::Expired)
        }
    }

    fn group_broken(&mut self, at: Time, fact: &GroupBroken) -> Result<(), BadFact> {
        self.note_failure(at, fact.group, fact.why);
        self.step_group(at, fact.group, group::Event::Broke(fact.why))?;
        self.end_group(fact.group, at)
    }

    fn accepted(&mut self, at: Time, fact: &Accepted) -> Result<(), BadFact> {
        self.step_request(at, fact.number, request::Event::Accepted(fact.offer))
    }

    fn ask_refused(&mut self, at: Time, fact: &AskRefused) -> Result<(), BadFact> {
        let event = request::Event::Refused(fact.refusal.clone(), fact.offers.clone());
        self.step_request(at, fact.number, event)
    }

    fn join_refused(&mut self, at: Time, fact: &JoinRefused) -> Result<(), BadFact> {
        self.state.pending.settle(&Obligation::Join(fact.lease, fact.unit));
        self.blacklist_refused(at, fact.lease, fact.unit);
        self.step_unit(at, fact.lease, Event::JoinRefused(fact.unit))
    }

    fn take_recall_answer(&mut self, fact: &RecallAnswered) {
        if self.state.recalls.answered(fact.link, fact.at, fact.enforced) {
            self.state.pending.settle(&Obligation::Recall(fact.link));
        }
    }

    fn take_recall_refusal(&mut self, fact: &RecallRefused) {
        self.state.recalls.refused(fact.link, &fact.refusal);
        self.state.pending.settle(&Obligation::Recall(fact.link));
    }

    fn observed(&mut self, fact: &SignalObserved) {
        self.state.signals.insert(fact.signal.clone(), fact.value);
        self.state.rounds.call();
    }

    fn mapper_answered(&mut self, fact: &MapperAnswered) {
        self.state.rounds.answered(fact.memo.as_ref(), fact.wake);
        self.state.timers.set(Timer::Wake, fact.wake);
    }

    fn woken(&mut self) {
        self.state.timers.set(Timer::Wake, None);
        self.state.rounds.woken();
    }

    fn joined(&mut self, at: Time, fact: &Joined) -> Result<(), BadFact> {
        self.state.pending.settle(&Obligation::Join(fact.lease, fact.unit));
        if fact.error.is_none() {
            self.set_usage(at, fact.lease, fact.unit, None);
        }
        self.step_unit(at, fact.lease, Event::Joined(fact.unit, fact.error.is_none()))?;
        self.owe_warnings(fact.lease, at);
        Ok(())
    }

    fn extension_begun(&mut self, at: Time, fact: &ExtensionAsked) -> Result<(), BadFact> {
        self.extension_asked(at, fact)?;
        let event = Event::ExtensionAsked(fact.request.id.number, fact.victims.clone());
        self.step(at, fact.lease, event)
    }

    /// A service may want others in the place of the units that go back.
    fn part_goes(&mut self, at: Time, id: LeaseId, fact: &Fact) -> Result<(), BadFact> {
        self.step_as_told(at, fact)?;
        self.call_for_service_of(id);
        Ok(())
    }

    /// The guest's driver has refused to leave a unit: what was to go back stays.
    fn leave_refused(
        &mut self,
        at: Time,
        LeaveRefused { lease, unit, error }: &LeaveRefused,
        fact: &Fact,
    ) -> Result<(), BadFact> {
        let counted = self.counts(*lease);
        self.step_as_told(at, fact)?;
        // It was not to be had any more since it was left.
        if !counted && self.counts(*lease) {
            self.book_again(*lease, at);
        }
        if let Some(lease) = self.state.leases.get_mut(lease) {
            lease.stays = Some(format!("{unit}: {error}"));
        }
        self.call_for_service_of(*lease);
        Ok(())
    }

    pub(super) fn call_for_service_of(&mut self, id: LeaseId) {
        let slice = self.state.leases.get(&id).map(|lease| &lease.slice);
        if slice.is_some_and(|slice| self.state.services.has(slice)) {
            self.state.rounds.call();
        }
    }

    fn forget(&mut self, at: Time, id: LeaseId) {
        self.state.timers.set(Timer::Lease(id), None);
        self.state.timers.set(Timer::Seam(id), None);
        self.state.timers.set(Timer::Recall(id), None);
        self.state.timers.set(Timer::Refused(id), None);
        self.forget_rest(id);
        self.state.replacements.remove(&id.number);
        self.forget_installs(id, at);
        self.wait_no_more(id);
        self.state.pending.settle(&Obligation::Victims(id));
        let Some(lease) = self.state.leases.remove(&id) else {
            self.forget_request(id.number);
            return self.wake_waiters(id.number, at);
        };
        if let Some(request) = self.state.requests.get_mut(&id.number) {
            request.lost |= !lease.sequence.used();
        }
        self.index.forgotten(id);
        if let Some(group) = lease.group {
            self.forget_member(group, id);
        }
        for ticket in &lease.tickets {
            self.state.by_ticket.remove(ticket);
            self.forget_splits(*ticket);
        }
        self.forget_in_group(id);
        self.wake_waiters(id.number, at);
    }

    /// The guest has left a unit. With the last one the lease moves on, and its extension with it, and with one that
    /// is joined again.
    fn left(&mut self, at: Time, id: LeaseId, unit: UnitId) -> Result<(), BadFact> {
        self.state.pending.settle(&Obligation::Leave(id, unit));
        let held = self.state.leases.get(&id).and_then(|lease| lease.state.held());
        if held
            .is_some_and(|held| held.awaited + held.leaving == 1 || held.resetting.contains(&unit))
        {
            self.step(at, id, Event::Left(unit))
        } else {
            self.step_unit(at, id, Event::Left(unit))
        }
    }

    /// Moves a lease on by what happened to one of its units.
    fn step_unit(&mut self, at: Time, id: LeaseId, event: Event) -> Result<(), BadFact> {
        let lease = self.state.leases.get_mut(&id).ok_or_else(|| absent(id))?;
        let before = lease.state.word();
        let joined = lease.joins(&event);
        lease.next(event)?;
        lease.worth.uses_more(at, joined);
        if lease.state.word() != before {
            self.refresh(id, at);
        }
        Ok(())
    }

    /// Moves on the lease that a fact is about.
    fn step_as_told(&mut self, at: Time, fact: &Fact) -> Result<(), BadFact> {
        if let Fact::ExtensionGranted(granted) = fact {
            self.state.by_ticket.insert(granted.ticket.hash(), granted.lease);
        }
        if let Fact::SiteClosed(closed) = fact {
            self.closed_by_site(closed);
        }
        if let Fact::Leased(leased) = fact {
            self.remember_epochs(leased);
        }
        if let Fact::LeaveBegun(LeaveBegun { lease, .. })
        | Fact::ReturnBegun(ReturnBegun { lease, .. }) = fact
            && let Some(lease) = self.state.leases.get_mut(lease)
        {
            lease.stays = None;
        }
        match fact.lease_event() {
            Some((lease, event)) => self.step(at, lease, event),
            None => Ok(()),
        }
    }

    /// Moves a lease on, with everything that follows from its new state.
    pub(super) fn step(&mut self, at: Time, id: LeaseId, event: Event) -> Result<(), BadFact> {
        let lease = self.state.leases.get(&id).ok_or_else(|| absent(id))?;
        let change = lease.state.held().map(|held| held.change.clone());
        let (denied, extended, over) = (
            matches!(event, Event::ExtensionDenied),
            matches!(event, Event::Extended),
            matches!(event, Event::TermOver) && !self.lapses(at, id),
        );
        let unused = matches!(lease.state, State::Redeeming { .. });
        let leased = matches!(event, Event::Leased(..));
        let (shown, word) = (lease.state.to_credit().len(), lease.state.word());
        let lease = self.state.leases.get_mut(&id).ok_or_else(|| absent(id))?;
        lease.next(event)?;
        lease.count_use(at);
        if leased {
            // What is changed of it later changes nothing of this.
            lease.keep_alive = keep_alive(&lease.configuration).ok().flatten();
        }
        let credits = lease.state.to_credit().len();
        let ends = lease.state.word() == "Crediting" && word != "Crediting";
        let to_credit = credits > 0 && (credits != shown || ends);
        if let Some(held) = lease.state.held() {
            lease.term = held.term;
        }
        if !is_live(&lease.state) {
            self.no_longer_live(id);
            self.state.pending.settle(&Obligation::Victims(id));
            self.end_rest(id);
        }
        let lost = over && self.ends_by_recall(id);
        if extended {
            self.extended(id, at);
        }
        if let Some(change) = change {
            self.after_extension(id, change, denied, at)?;
        }
        if (!over || lost) && !self.counts(id) {
            self.unbook(id, at);
        }
        self.refresh(id, at);
        // What the broker is shown has changed, so it is another question.
        if to_credit && !mutant!(CreditNotOwed) {
            self.require(Obligation::Credit(id), at);
        }
        self.inform_group(at, id, over && !unused)
    }

    /// Keeps why a lease is given back.
    fn site_unheard(&mut self, at: Time, fact: &SiteUnheard) {
        if let Some(lease) = self.state.leases.get_mut(&fact.lease) {
            lease.unheard = Some(fact.since);
        }
        self.keep_beating(fact.lease, at);
    }

    /// Whether the ticket of a lease has to be redeemed by now, and would go on without that.
    fn lapses(&self, at: Time, id: LeaseId) -> bool {
        let kept = self.state.leases.get(&id);
        let kept = kept.filter(|lease| matches!(lease.state, State::Ticketed { .. }));
        kept.is_some_and(|lease| at < lease.ends_by().minus(self.base.margin()))
    }

    /// Lets a lease's group know what became of it; `over` if its term is.
    fn inform_group(&mut self, at: Time, id: LeaseId, over: bool) -> Result<(), BadFact> {
        let Some(lease) = self.state.leases.get(&id) else { return Ok(()) };
        if lease.group.is_none() {
            return Ok(());
        }
        let over = over || lease.expires_at.minus(self.base.margin()) <= at;
        let turn = group::Turn::of(&lease.state, self.counts(id), over);
        self.group_follows(at, id, turn)
    }

    /// Whether a lease counts as held.
    pub(super) fn counts(&self, id: LeaseId) -> bool {
        self.state.leases.get(&id).is_some_and(|lease| match lease.state {
            State::Ticketed { .. }
            | State::Redeeming { .. }
            | State::Joining { .. }
            | State::Active { .. }
            | State::Leaving { then: AfterLeave::End, .. } => true,
            State::Leaving { then: AfterLeave::Close, .. }
            | State::Closing { .. }
            | State::Crediting { .. }
            | State::Closed { .. } => false,
        })
    }

    /// What was under way for an extension, and is not any more, must not leak units: a request whose
    /// answer the lease no longer waits for is given up, and a ticket that the site refused is given back.
    fn after_extension(
        &mut self,
        id: LeaseId,
        old: Change,
        denied: bool,
        at: Time,
    ) -> Result<(), BadFact> {
        let Some(lease) = self.state.leases.get_mut(&id) else { return Ok(()) };
        let now = lease.state.held().map(|held| &held.change);
        match (old, now) {
            (Change::Requested { number, .. }, Some(Change::Redeeming { .. })) => {
                let granted = request::Event::Granted(GrantedLeases::of(number, 0));
                self.step_request(at, number, granted)?;
            }
            (Change::Requested { number, .. }, None) => {
                self.step_request(at, number, request::Event::GaveUp)?;
            }
            (Change::Redeeming { ticket, number, .. }, _) if denied => {
                let lease = Lease::clone(lease);
                self.extension_refused(at, number, ticket, lease);
            }
            // It goes the way of its lease, and is found and forgotten with it.
            (Change::Redeeming { ticket, number, .. }, None) => {
                lease.tickets.push(ticket.hash());
                self.drop_request(number);
            }
            // Answered: the lease records how.
            (
                Change::Requested { number, .. } | Change::Redeeming { number, .. },
                Some(Change::None),
            ) => {
                self.drop_request(number);
            }
            (
                Change::None | Change::Leaving(_) | Change::Returning(_) | Change::Modifying { .. },
                _,
            )
            | (
                Change::Requested { .. } | Change::Redeeming { .. },
                Some(
                    Change::Requested { .. }
                    | Change::Redeeming { .. }
                    | Change::Leaving(_)
                    | Change::Returning(_)
                    | Change::Modifying { .. },
                ),
            ) => {}
        }
        Ok(())
    }

    /// Keeps in which tenancy each unit of a lease is.
    fn remember_epochs(&mut self, fact: &Leased) {
        let lease = self.state.leases.get(&fact.lease);
        let Some(site) = lease.and_then(|lease| lease.state.ticket()).map(Ticket::site) else {
            return;
        };
        let epochs = fact.units.iter().map(|unit| ((site, unit.unit), unit.epoch));
        self.state.epochs.extend(epochs);
    }

    /// Keeps why a site closed a lease, and which site: the state that follows has neither.
    fn closed_by_site(&mut self, fact: &SiteClosed) {
        let Some(lease) = self.state.leases.get_mut(&fact.lease) else { return };
        let site = lease.state.ticket().map(Ticket::site);
        lease.closed_by = site.zip(fact.refusal.clone());
        lease.costs.credit(&fact.receipts);
        lease.worth.credit(&fact.receipts);
    }

    /// The term of the newest ticket is held as well.
    fn extended(&mut self, id: LeaseId, at: Time) {
        let Some(lease) = self.state.leases.get_mut(&id) else { return };
        let newest = lease.state.held().and_then(|held| held.tickets.last());
        let Some(link) = newest.map(|ticket| ticket.bottom().clone()) else { return };
        lease.tickets.push(link.hash());
        lease.costs.charge(&link);
        lease.worth.charge(&link);
        lease.expires_at = link.term.end();
        self.book(id, &link.resource, link.term, link.units.get(), at);
    }

    pub(super) fn book(&mut self, id: LeaseId, resource: &Name, term: Term, units: u32, at: Time) {
        let Some(lease) = self.state.leases.get_mut(&id) else { return };
        super::book(&mut self.state.holdings, &mut lease.booked, resource, term, units, at);
    }

    /// Takes what is left of a lease's bookings from `from` on out of the holdings.
    pub(super) fn unbook(&mut self, id: LeaseId, from: Time) {
        let Some(lease) = self.state.leases.get_mut(&id) else { return };
        super::unbook(&mut self.state.holdings, &mut lease.booked, from);
    }

    /// Sets what follows from a lease's state: what is pending for it, and when it is next due.
    pub(super) fn refresh(&mut self, id: LeaseId, at: Time) {
        let position = self.base.position;
        let ambiguous = self.held_back(id);
        let Some(lease) = self.state.leases.get(&id) else { return };
        let state = &lease.state;
        let under_way = state.held().map_or(&Change::None, |held| &held.change);
        let closes = matches!(state, State::Leaving { then: AfterLeave::Close, .. });
        let extending = matches!(under_way, Change::Redeeming { .. }) && !closes;
        let leaves = matches!(state, State::Leaving { .. });
        let change = if leaves { &Change::None } else { under_way };
        let returning = matches!(change, Change::Returning(_));
        let modifying = matches!(change, Change::Modifying { .. });
        let pending = &mut self.state.pending;
        let may = |gate| lease.sequence.is_open(gate) || mutant!(GateIgnored);
        let redeeming = matches!(state, State::Redeeming { .. }) && may(Gate::Redeem);
        let joins = may(Gate::Join);
        pending.set(Obligation::Redeem(id), redeeming, position, at);
        pending.set(Obligation::Extend(id), extending, position, at);
        pending.set(Obligation::Return(id), returning, position, at);
        pending.set(Obligation::Modify(id), modifying, position, at);
        pending.set(Obligation::Close(id), matches!(state, State::Closing { .. }), position, at);
        let credits = !state.to_credit().is_empty() && !mutant!(CreditNotOwed);
        pending.set(Obligation::Credit(id), credits, position, at);
        owe_steps(pending, (id, state, joins), &ambiguous, (position, at));
        self.owe_telling(id, at);
        self.owe_warnings(id, at);
        self.set_deadline(id);
        self.set_refused(id, at);
        self.keep_beating(id, at);
        self.note_used(id, at);
    }

    /// When a lease is next due, and where it stands among those that end.
    fn set_deadline(&mut self, id: LeaseId) {
        let margin = self.base.margin();
        let Some(lease) = self.state.leases.get_mut(&id) else { return };
        let end = lease.ends_by();
        let stop = if mutant!(NoClockMargin) { end } else { end.minus(margin) };
        let deadline = match &lease.state {
            State::Ticketed { ticket, .. } => {
                let by = ticket.bottom().clauses.redeem_by;
                by.map_or(stop, |by| stop.min(by.minus(margin)))
            }
            State::Redeeming { .. } => stop,
            State::Leaving { held, .. } => held.leave_by.map_or(stop, |by| stop.min(by)),
            State::Joining { held } | State::Active { held } => match held.change {
                Change::None
                | Change::Leaving(_)
                | Change::Returning(_)
                | Change::Modifying { .. } => stop.minus(self.leave_before),
                Change::Requested { .. } if mutant!(HopeExtends) => end,
                Change::Requested { .. } | Change::Redeeming { .. } => stop,
            },
            // Their units return to the site at the end in any case; late answers are still accepted.
            State::Closing { tickets, .. } => {
                let end = tickets.iter().map(|t| t.bottom().term.end()).max().unwrap_or(end);
                end.plus(lease.term.duration())
            }
            State::Crediting { receipts, .. } => {
                let end = receipts.iter().map(|r| r.what.term.end()).max().unwrap_or(end);
                end.plus(lease.term.duration())
            }
            State::Closed { .. } => end.plus(margin),
        };
        let ends_at = matches!(lease.state, State::Joining { .. } | State::Active { .. })
            .then_some(lease.term.end());
        let old = std::mem::replace(&mut lease.ends_at, ends_at);
        if old != ends_at {
            old.map(|end| self.state.ending.remove(&(end, id)));
            ends_at.map(|end| self.state.ending.insert((end, id)));
        }
        self.state.timers.set(Timer::Lease(id), Some(deadline));
        self.index.changed(id, lease);
        self.set_seam(id);
        self.set_recall(id);
    }

    pub(super) fn require(&mut self, obligation: Obligation, at: Time) {
        self.state.pending.require(obligation, self.base.position, at);
    }
}

pub(super) fn absent(id: LeaseId) -> BadFact {
    BadFact::Missing { kind: "event", what: id.to_string() }
}

/// The joins and leaves of a lease that are to be done.
fn owe_steps(
    pending: &mut PendingEffects<Obligation>,
    (id, state, may_join): (LeaseId, &State, bool),
    ambiguous: &BTreeSet<UnitId>,
    (position, at): (u64, Time),
) {
    let (first, last) = (UnitId(0), UnitId(u32::MAX));
    match state {
        State::Joining { held } | State::Active { held } => {
            // Passes over the units only if there is something to do for some of them.
            let some = held.awaited > 0 || held.leaving > 0;
            for (&unit, (_, usage)) in held.units.iter().filter(|_| some) {
                let own = !ambiguous.contains(&unit);
                let joins = *usage == UnitUse::Joining && may_join && own;
                let leaves = *usage == UnitUse::Leaving && own;
                pending.set(Obligation::Join(id, unit), joins, position, at);
                pending.set(Obligation::Leave(id, unit), leaves, position, at);
            }
            let gone = |key: &Obligation| match key {
                Obligation::Join(_, unit) | Obligation::Leave(_, unit) => {
                    !some || !held.units.contains_key(unit)
                }
                Obligation::Ask(_)
                | Obligation::Accept(_)
                | Obligation::Withdraw(_)
                | Obligation::Redeem(_)
                | Obligation::Extend(_)
                | Obligation::Return(_)
                | Obligation::Close(_)
                | Obligation::Modify(_)
                | Obligation::Tell(..)
                | Obligation::Credit(_)
                | Obligation::Reclaim(_)
                | Obligation::Victims(_)
                | Obligation::Recall(_)
                | Obligation::Rest(_)
                | Obligation::RestCredit(_)
                | Obligation::Warn(..)
                | Obligation::Common(_)
                | Obligation::Install(..)
                | Obligation::Need(_)
                | Obligation::Hosts(_)
                | Obligation::Remove(..) => false,
            };
            let joins = pending.between(Obligation::Join(id, first), Obligation::Join(id, last));
            let joins: Vec<_> = joins.filter(|key| gone(key)).copied().collect();
            let leaves = pending.between(Obligation::Leave(id, first), Obligation::Leave(id, last));
            let leaves: Vec<_> = leaves.filter(|key| gone(key)).copied().collect();
            joins.iter().chain(&leaves).for_each(|key| pending.settle(key));
        }
        State::Leaving { held, .. } => {
            pending.settle_range(Obligation::Join(id, first), Obligation::Join(id, last));
            for &unit in held.waiting_to(UnitUse::Leaving) {
                let own = !ambiguous.contains(&unit);
                pending.set(Obligation::Leave(id, unit), own, position, at);
            }
            let gone = |key: &&Obligation| matches!(key, Obligation::Leave(_, unit) if !held.units.contains_key(unit));
            let leaves = pending.between(Obligation::Leave(id, first), Obligation::Leave(id, last));
            let leaves: Vec<_> = leaves.filter(gone).copied().collect();
            leaves.iter().for_each(|key| pending.settle(key));
        }
        State::Ticketed { .. } | State::Redeeming { .. } => {}
        State::Closing { .. } | State::Crediting { .. } | State::Closed { .. } => {
            pending.settle_range(Obligation::Join(id, first), Obligation::Join(id, last));
            pending.settle_range(Obligation::Leave(id, first), Obligation::Leave(id, last));
        }
    }
}
